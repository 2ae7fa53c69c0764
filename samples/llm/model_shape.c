// SPDX-License-Identifier: Apache-2.0
// Models without weights: the sizes, and tensors over an address that nobody reads.
#include "model_shape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/// Sizes are believed up to here, so that their products fit 64 bits.
#define MOST_SIZE ((int64_t)1 << 24)

/// What all weights point at. Its bytes are not zero: a device that reads them shows it.
static _Alignas(64) unsigned char nowhere[64] = {1};

// ---- Sizes.

static bool read_numbers(const char* text, int64_t* numbers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char* end;
        numbers[i] = strtoll(text, &end, 10);
        if (end == text || numbers[i] < 1 || numbers[i] > MOST_SIZE) return false;
        if (*end != (i + 1 < count ? ',' : '\0')) return false;
        text = end + 1;
    }
    return true;
}

berth_status llm_shape_parse(const char* text, llm_shape* out_shape, llm_error* error) {
#define SHAPE_NAMED(word, l, w, f, h, kv, d, v, c)                                                 \
    if (strcmp(text, word) == 0) {                                                                 \
        *out_shape = (llm_shape){l, w, f, h, kv, d, v, c};                                         \
        return BERTH_OK;                                                                           \
    }
    LLM_SHAPE_MAP(SHAPE_NAMED)
#undef SHAPE_NAMED
    int64_t n[8];
    *out_shape = (llm_shape){0};
    if (!read_numbers(text, n, 8) || n[3] % n[4] != 0 || n[5] % 2 != 0 || n[0] > 10000)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "\"%s\" is no shape: expected a name such as llama-8b, or layers, width, "
                        "ffn_width, heads, kv_heads (which divides heads), head_dims (even), vocab "
                        "and context as numbers with commas between",
                        llm_quote(llm_str_of(text)).text);
    *out_shape = (llm_shape){n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]};
    return BERTH_OK;
}

// ---- Tensors.

/// Makes a weight of f16, [rows, columns], or of f32, [columns], where `rows` is 0.
static berth_tensor* make_weight(llm_model* model, int64_t rows, int64_t columns) {
    const berth_dtype dtype = rows == 0 ? BERTH_F32 : BERTH_F16;
    const int64_t dims[2] = {rows, columns};
    const uint64_t bytes =
        (uint64_t)(rows == 0 ? 1 : rows) * (uint64_t)columns * (rows == 0 ? 4 : 2);
    model->weight_bytes += bytes;
    return berth_tensor_from_memory(model->context,
                                    nowhere,
                                    bytes,
                                    dtype,
                                    rows == 0 ? 1 : 2,
                                    rows == 0 ? dims + 1 : dims,
                                    true,
                                    NULL,
                                    NULL);
}

static void make_layer(llm_model* model, llm_layer* layer) {
    const llm_model_params* m = &model->params;
    const int64_t q_width = m->heads * m->key_dims;
    const int64_t kv_width = m->kv_heads * m->key_dims;
    layer->attn_norm = make_weight(model, 0, m->width);
    layer->q = make_weight(model, q_width, m->width);
    layer->k = make_weight(model, kv_width, m->width);
    layer->v = make_weight(model, kv_width, m->width);
    layer->attn_output = make_weight(model, m->width, q_width);
    layer->ffn_norm = make_weight(model, 0, m->width);
    layer->ffn_gate = make_weight(model, m->ffn_width, m->width);
    layer->ffn_up = make_weight(model, m->ffn_width, m->width);
    layer->ffn_down = make_weight(model, m->width, m->ffn_width);
}

/// True if what is read of the device's memory is not what is there.
static bool reads_nothing(berth_context* context) {
    const int64_t dims[1] = {sizeof nowhere};
    unsigned char seen[sizeof nowhere] = {1};
    berth_tensor* probe = berth_tensor_from_memory(
        context, nowhere, sizeof nowhere, BERTH_U8, 1, dims, true, NULL, NULL);
    const bool is_read = probe != NULL && berth_tensor_read(probe, seen, sizeof seen) == BERTH_OK;
    berth_release(probe);
    return is_read && seen[0] == 0;
}

static llm_model_params params_of(const llm_shape* shape) {
    return (llm_model_params){.context_tokens = shape->context,
                              .vocab_tokens = shape->vocab,
                              .width = shape->width,
                              .ffn_width = shape->ffn_width,
                              .layers = shape->layers,
                              .heads = shape->heads,
                              .kv_heads = shape->kv_heads,
                              .key_dims = shape->head_dims,
                              .value_dims = shape->head_dims,
                              .rope_dims = shape->head_dims,
                              .rope_base = 10000.0,
                              .rope_position_scale = 1.0,
                              .norm_eps = 1e-5f};
}

berth_status llm_model_create_shape(berth_context* context,
                                    const llm_shape* shape,
                                    llm_model** out_model,
                                    llm_error* error) {
    *out_model = NULL;
    if (!reads_nothing(context))
        return llm_fail(error,
                        BERTH_ERR_UNSUPPORTED,
                        "a model that has no weights runs on the device \"dry\" only");
    llm_model* model = llm_alloc_zeroed(1, sizeof *model);
    if (model == NULL) return llm_fail_memory(error, "a model");
    model->params = params_of(shape);
    model->context = context;
    model->layers = llm_alloc_zeroed((size_t)shape->layers, sizeof *model->layers);
    if (model->layers == NULL) {
        llm_model_destroy(model);
        return llm_fail_memory(error, "a model's layers");
    }
    model->embedding = make_weight(model, shape->vocab, shape->width);
    model->output = berth_retain(model->embedding);
    model->output_norm = make_weight(model, 0, shape->width);
    for (int64_t i = 0; i < shape->layers; i++)
        make_layer(model, &model->layers[i]);
    model->decode_weight_bytes = model->weight_bytes;
    berth_status status = berth_context_error(context);
    if (status != BERTH_OK) {
        llm_fail(error, status, "%s", berth_context_error_text(context));
        berth_context_clear_error(context);
        llm_model_destroy(model);
        return status;
    }
    *out_model = model;
    return BERTH_OK;
}
