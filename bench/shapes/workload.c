// SPDX-License-Identifier: Apache-2.0
// A transformer block as eager code is written: every matrix of attention is there in full, names
// are released where they end, operands are moved where nobody needs them any more.
#include "shapes/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec_impl.h"
#include "kit/fail.h"

#define LAYERS 3
#define WIDTH 256
#define HEADS 4
#define HEAD_WIDTH (WIDTH / HEADS)
#define INNER 768 // of the gated feed-forward part
#define VOCABULARY 512

static void* checked_alloc(size_t bytes) {
    void* block = malloc(bytes);
    if (block == NULL) {
        fprintf(stderr, "bench-shapes: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return block;
}

// ---- Lengths.

/// Appends the second column of `line`; false if that is no positive number.
static bool add_length(shapes_lengths* lengths, size_t* capacity, const char* line) {
    const char* comma = strchr(line, ',');
    if (comma == NULL) return false;
    const long long value = strtoll(comma + 1, NULL, 10);
    if (value <= 0) return false;
    if (lengths->count == *capacity) {
        *capacity = *capacity == 0 ? 4096 : 2 * *capacity;
        int64_t* items = realloc(lengths->items, *capacity * sizeof *items);
        if (items == NULL) return false;
        lengths->items = items;
    }
    lengths->items[lengths->count++] = value;
    return true;
}

void shapes_lengths_read(const char* path, shapes_lengths* out_lengths) {
    *out_lengths = (shapes_lengths){0};
    FILE* file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "bench-shapes: cannot read %s (name the trace with --trace)\n", path);
        exit(1);
    }
    char line[256];
    size_t capacity = 0, number = 1;
    bool is_good = fgets(line, sizeof line, file) != NULL; // the names of the columns
    while (is_good && fgets(line, sizeof line, file) != NULL) {
        number++;
        is_good = add_length(out_lengths, &capacity, line);
    }
    fclose(file);
    if (is_good && out_lengths->count > 0) return;
    fprintf(stderr, "bench-shapes: %s, line %zu: no length in the second column\n", path, number);
    exit(1);
}

void shapes_lengths_free(shapes_lengths* lengths) {
    free(lengths->items);
    *lengths = (shapes_lengths){0};
}

shapes_shape shapes_at(const shapes_lengths* lengths, int64_t step) {
    const int64_t length = lengths->items[(size_t)step % lengths->count];
    return (shapes_shape){
        .batch = 1 + 7 * step % SHAPES_MAX_BATCH,
        .length = length < SHAPES_MAX_LENGTH ? length : SHAPES_MAX_LENGTH,
    };
}

// ---- Weights.

/// X(name, rows, columns) for each matrix of a layer, as berth_linear takes them.
#define LAYER_MATRICES(X)                                                                          \
    X(query, WIDTH, WIDTH)                                                                         \
    X(key, WIDTH, WIDTH)                                                                           \
    X(value, WIDTH, WIDTH)                                                                         \
    X(output, WIDTH, WIDTH)                                                                        \
    X(gate, INNER, WIDTH)                                                                          \
    X(up, INNER, WIDTH)                                                                            \
    X(down, WIDTH, INNER)

typedef struct layer_data {
#define MATRIX_DATA(name, rows, columns) float name[(rows) * (columns)];
    LAYER_MATRICES(MATRIX_DATA)
#undef MATRIX_DATA
    float attention_norm[WIDTH];
    float feed_norm[WIDTH];
} layer_data;

struct shapes_model {
    float embedding[VOCABULARY * WIDTH];
    layer_data layers[LAYERS];
    int32_t ids[SHAPES_MAX_BATCH * SHAPES_MAX_AHEAD];
};

/// Numbers in [-scale, scale), the same on every run.
static void fill(float* data, size_t count, float scale, uint64_t* random) {
    for (size_t i = 0; i < count; i++) {
        *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        data[i] = scale * ((float)(*random >> 40) / (float)(1 << 23) - 1.0f);
    }
}

shapes_model* shapes_model_create(void) {
    shapes_model* model = checked_alloc(sizeof *model);
    uint64_t random = 1;
    fill(model->embedding, VOCABULARY * WIDTH, 1.0f, &random);
    for (int l = 0; l < LAYERS; l++) {
        layer_data* layer = &model->layers[l];
#define MATRIX_FILL(name, rows, columns) fill(layer->name, (rows) * (columns), 0.1f, &random);
        LAYER_MATRICES(MATRIX_FILL)
#undef MATRIX_FILL
        fill(layer->attention_norm, WIDTH, 1.0f, &random);
        fill(layer->feed_norm, WIDTH, 1.0f, &random);
    }
    for (size_t i = 0; i < SHAPES_MAX_BATCH * SHAPES_MAX_AHEAD; i++)
        model->ids[i] = (int32_t)(i * 7919 % VOCABULARY);
    return model;
}

void shapes_model_destroy(shapes_model* model) { free(model); }

typedef struct layer_tensors {
#define MATRIX_TENSOR(name, rows, columns) berth_tensor* name;
    LAYER_MATRICES(MATRIX_TENSOR)
#undef MATRIX_TENSOR
    berth_tensor* attention_norm;
    berth_tensor* feed_norm;
} layer_tensors;

struct shapes_program {
    const shapes_model* model;
    berth_context* context;
    berth_tensor* embedding;
    layer_tensors layers[LAYERS];
};

static berth_tensor* borrow(berth_context* context,
                            const void* data,
                            berth_dtype dtype,
                            int32_t rank,
                            const int64_t* dims) {
    uint64_t bytes = 4;
    for (int32_t i = 0; i < rank; i++)
        bytes *= (uint64_t)dims[i];
    berth_tensor* tensor = berth_tensor_from_memory(
        context, (void*)(uintptr_t)data, bytes, dtype, rank, dims, true, NULL, NULL);
    if (tensor == NULL) bench_fail_for("ops", berth_context_error_text(context));
    return tensor;
}

static berth_tensor* borrow_floats(berth_context* context,
                                   const float* data,
                                   int64_t a,
                                   int64_t b) {
    const int64_t dims[2] = {a, b};
    return borrow(context, data, BERTH_F32, b > 0 ? 2 : 1, dims);
}

shapes_program* shapes_program_create(const shapes_model* model, berth_context* context) {
    shapes_program* program = checked_alloc(sizeof *program);
    program->model = model;
    program->context = context;
    program->embedding = borrow_floats(context, model->embedding, VOCABULARY, WIDTH);
    for (int l = 0; l < LAYERS; l++) {
        const layer_data* data = &model->layers[l];
        layer_tensors* layer = &program->layers[l];
#define MATRIX_BORROW(name, rows, columns)                                                         \
    layer->name = borrow_floats(context, data->name, rows, columns);
        LAYER_MATRICES(MATRIX_BORROW)
#undef MATRIX_BORROW
        layer->attention_norm = borrow_floats(context, data->attention_norm, WIDTH, 0);
        layer->feed_norm = borrow_floats(context, data->feed_norm, WIDTH, 0);
    }
    return program;
}

void shapes_program_destroy(shapes_program* program) {
    berth_release(program->embedding);
    for (int l = 0; l < LAYERS; l++) {
        layer_tensors* layer = &program->layers[l];
#define MATRIX_RELEASE(name, rows, columns) berth_release(layer->name);
        LAYER_MATRICES(MATRIX_RELEASE)
#undef MATRIX_RELEASE
        berth_release_all(layer->attention_norm, layer->feed_norm);
    }
    free(program);
}

// ---- The step.

berth_step_desc shapes_describe(shapes_shape shape, int64_t* dims, berth_step_input* input) {
    dims[0] = shape.batch;
    dims[1] = shape.length;
    *input = (berth_step_input){.name = "tokens", .rank = 2, .dims = dims};
    return (berth_step_desc){.name = "block", .inputs = input, .input_count = 1};
}

/// Splits [batch, length, width] into heads: [batch, length, heads, head width].
static berth_tensor* split_heads(berth_context* ctx, berth_tensor* x, shapes_shape shape) {
    const int64_t dims[4] = {shape.batch, shape.length, HEADS, HEAD_WIDTH};
    berth_tensor* split = berth_reshape(ctx, x, 4, dims);
    berth_release(x);
    return split;
}

/// Turns queries or keys by their positions and puts heads before tokens; takes `x`.
static berth_tensor* turn(berth_context* ctx, berth_tensor* x, berth_tensor* positions) {
    berth_tensor* turned = berth_rope(ctx, berth_move(x), positions, NULL, NULL);
    berth_tensor* heads = berth_transpose(ctx, turned, 1, 2);
    berth_release(turned);
    return heads;
}

/// q, k, v [batch, heads, length, head width], all taken: softmax(q k^T / sqrt(width) + mask) v.
static berth_tensor* attend(
    berth_context* ctx, berth_tensor* q, berth_tensor* k, berth_tensor* v, berth_tensor* mask) {
    berth_tensor* turned = berth_transpose(ctx, k, 2, 3);
    berth_tensor* scores = berth_matmul(ctx, q, turned);
    berth_release_all(q, k, turned);
    scores = berth_affine(ctx, berth_move(scores), 0.125f, 0.0f);
    scores = berth_add(ctx, berth_move(scores), mask);
    scores = berth_softmax(ctx, berth_move(scores), -1);
    berth_tensor* seen = berth_matmul(ctx, scores, v);
    berth_release_all(scores, v);
    return seen;
}

static berth_tensor* attention(berth_context* ctx,
                               const layer_tensors* layer,
                               berth_tensor* x,
                               shapes_shape shape,
                               berth_tensor* positions,
                               berth_tensor* mask) {
    berth_tensor* q = split_heads(ctx, berth_linear(ctx, x, layer->query, NULL), shape);
    berth_tensor* k = split_heads(ctx, berth_linear(ctx, x, layer->key, NULL), shape);
    berth_tensor* v = split_heads(ctx, berth_linear(ctx, x, layer->value, NULL), shape);
    berth_tensor* values = berth_transpose(ctx, v, 1, 2);
    berth_release(v);
    berth_tensor* seen =
        attend(ctx, turn(ctx, q, positions), turn(ctx, k, positions), values, mask);
    berth_tensor* tokens = berth_transpose(ctx, seen, 1, 2);
    const int64_t dims[3] = {shape.batch, shape.length, WIDTH};
    berth_tensor* joined = berth_reshape(ctx, tokens, 3, dims);
    berth_release_all(seen, tokens);
    return berth_linear(ctx, berth_move(joined), layer->output, NULL);
}

static berth_tensor* feed_forward(berth_context* ctx, const layer_tensors* layer, berth_tensor* x) {
    berth_tensor* gate = berth_linear(ctx, x, layer->gate, NULL);
    berth_tensor* up = berth_linear(ctx, x, layer->up, NULL);
    gate = berth_silu(ctx, berth_move(gate));
    gate = berth_mul(ctx, berth_move(gate), berth_move(up));
    return berth_linear(ctx, berth_move(gate), layer->down, NULL);
}

/// -infinity above the diagonal [length, length], 0 elsewhere.
static berth_tensor* make_mask(berth_context* ctx, int64_t length) {
    const int64_t dims[2] = {length, length};
    berth_tensor* hidden = berth_full(ctx, -(double)INFINITY, BERTH_F32, 2, dims);
    return berth_triu(ctx, berth_move(hidden), 1);
}

berth_tensor* shapes_program_run(shapes_program* program, shapes_shape shape) {
    berth_context* ctx = program->context;
    const int64_t dims[2] = {shape.batch, shape.length};
    berth_tensor* ids = borrow(ctx, program->model->ids, BERTH_I32, 2, dims);
    berth_tensor* positions = berth_arange(ctx, 0, (double)shape.length, 1, BERTH_I32);
    berth_tensor* mask = make_mask(ctx, shape.length);
    berth_tensor* x = berth_embedding(ctx, program->embedding, ids);
    for (int l = 0; l < LAYERS; l++) {
        const layer_tensors* layer = &program->layers[l];
        berth_tensor* normed = berth_rms_norm(ctx, x, layer->attention_norm, 1e-5f);
        berth_tensor* seen = attention(ctx, layer, normed, shape, positions, mask);
        berth_release(normed);
        x = berth_add(ctx, berth_move(x), berth_move(seen));
        normed = berth_rms_norm(ctx, x, layer->feed_norm, 1e-5f);
        berth_tensor* fed = feed_forward(ctx, layer, normed);
        berth_release(normed);
        x = berth_add(ctx, berth_move(x), berth_move(fed));
    }
    berth_release_all(ids, positions, mask);
    return x;
}

// ---- Kernels.

#define PAGE_BYTES UINT64_C(4096)
#define GRANULE_BYTES (UINT64_C(2) << 20)
#define LARGE_BYTES (UINT64_C(64) << 20)

static uint64_t bytes_of(const berth_view* view) {
    const berth_dtype_info* info = berth_dtype_query_info(view->dtype);
    uint64_t bytes = info->block_bytes;
    for (int32_t i = 0; i < view->rank; i++)
        bytes *= (uint64_t)view->dims[i];
    return bytes / info->block_values;
}

static uint64_t stride_of(uint64_t bytes) {
    return bytes > LARGE_BYTES ? GRANULE_BYTES : PAGE_BYTES;
}

static void write_bytes(void* data, uint64_t bytes) {
    volatile unsigned char* at = data;
    const uint64_t stride = stride_of(bytes);
    for (uint64_t i = 0; i < bytes; i += stride)
        at[i] = 0;
    if (bytes > 0) at[bytes - 1] = 0;
}

static void read_bytes(const void* data, uint64_t bytes) {
    const volatile unsigned char* at = data;
    const uint64_t stride = stride_of(bytes);
    for (uint64_t i = 0; i < bytes; i += stride)
        (void)at[i];
}

static void touch(const berth_op_call* call) {
    for (uint32_t i = 0; i < call->input_count; i++)
        if (berth_view_is_contiguous(&call->inputs[i]))
            read_bytes(call->inputs[i].data, bytes_of(&call->inputs[i]));
    write_bytes(call->scratch, call->scratch_bytes);
    for (uint32_t i = 0; i < call->output_count; i++)
        write_bytes(call->outputs[i].data, bytes_of(&call->outputs[i]));
}

static void do_nothing(const berth_op_call* call) { (void)call; }

void shapes_replace_kernels(berth_runtime* runtime, shapes_kernels kernels) {
    static berth_kernel tables[2][BERTH_OP_COUNT];
    berth_kernel* table = tables[kernels];
    for (int i = 0; i < BERTH_OP_COUNT; i++)
        table[i] = kernels == SHAPES_KERNELS_TOUCH ? touch : do_nothing;
    runtime->device->kernels = table;
}
