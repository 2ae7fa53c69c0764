// SPDX-License-Identifier: Apache-2.0
// Launchers of the ops whose kernels are in cuda_product*.cu.
#include "base/dtype.h"
#include "base/op_params.h"
#include "device/cuda/cuda_launch.h"

#define THREADS 256
#define FEW_ROWS 32 // up to so many, reading b is most of the work
#define FEW_GROUP 8 // rows that a block of the kernels for few rows takes
#define FEW_COLUMNS 8
#define ACROSS_COLUMNS 32
#define TILE_ROWS 128
#define TILE_COLUMNS 64
#define INTEGER_TILE 16
#define HALVES_TILE 128 // rows and columns
#define HALVES_ROWS 8   // up to so many are one operand of the tensor cores' instruction
#define VECTOR_BYTES 16
#define MOST_BLOCKS (1 << 30)
#define LIBRARY_BYTES (32 << 20) // of workspace, and what brings it to an aligned address
#define LIBRARY_ALIGNMENT 256
#define LIBRARY_PRODUCTS 1.0e7 // multiply-adds from which on the library may need some

/// Kernels for a type of b.
typedef struct product_kernels {
    berth_cuda_kernel tile;
    berth_cuda_kernel one;
    berth_cuda_kernel few;
} product_kernels;

#define PRODUCT_KERNELS(name)                                                                      \
    {                                                                                              \
        BERTH_CUDA_KERNEL_product_tile_##name, BERTH_CUDA_KERNEL_product_one_##name,               \
            BERTH_CUDA_KERNEL_product_few_##name,                                                  \
    }

static const product_kernels kernels_of[BERTH_DTYPE_COUNT] = {
    [BERTH_F32] = PRODUCT_KERNELS(f32),
    [BERTH_F16] = PRODUCT_KERNELS(f16),
    [BERTH_BF16] = PRODUCT_KERNELS(bf16),
    [BERTH_Q4_0] = PRODUCT_KERNELS(q4_0),
    [BERTH_Q4_1] = PRODUCT_KERNELS(q4_1),
    [BERTH_Q5_0] = PRODUCT_KERNELS(q5_0),
    [BERTH_Q5_1] = PRODUCT_KERNELS(q5_1),
    [BERTH_Q8_0] = PRODUCT_KERNELS(q8_0),
    [BERTH_Q4_K] = PRODUCT_KERNELS(q4_k),
    [BERTH_Q5_K] = PRODUCT_KERNELS(q5_k),
    [BERTH_Q6_K] = PRODUCT_KERNELS(q6_k),
};

// --- Forms of operands ---------------------------------------------------------------------------

/// True if `base`, and what is any number of `stride`s from it, is aligned to `bytes`.
static bool strides_keep(int64_t stride, int64_t value_bytes, int64_t bytes) {
    return stride * value_bytes % bytes == 0;
}

static bool walk_keeps(const berth_cuda_walk* walk,
                       int operand,
                       int64_t value_bytes,
                       int64_t bytes) {
    for (int32_t d = 0; d < walk->rank; ++d)
        if (!strides_keep(walk->strides[operand][d], value_bytes, bytes)) return false;
    return true;
}

static bool address_is(const void* address, int64_t bytes) {
    return (uintptr_t)address % (uintptr_t)bytes == 0;
}

/// The row walk has one dimension at most, whose neighbours lie side by side.
static bool rows_are_side_by_side(const berth_cuda_walk* walk) {
    return walk->rank == 1 && walk->strides[0][0] == 1;
}

static int32_t form_of_a(const berth_cuda_product_args* args) {
    const int64_t bytes = berth_dtype_bytes((berth_dtype)args->dtype);
    if (!address_is(args->a, VECTOR_BYTES) || !walk_keeps(&args->walk, 0, bytes, VECTOR_BYTES))
        return BERTH_CUDA_FORM_SINGLE;
    if (args->a_step == 1 && walk_keeps(&args->row_walk, 0, bytes, VECTOR_BYTES))
        return BERTH_CUDA_FORM_ALONG;
    if (rows_are_side_by_side(&args->row_walk) && strides_keep(args->a_step, bytes, VECTOR_BYTES))
        return BERTH_CUDA_FORM_ACROSS;
    return BERTH_CUDA_FORM_SINGLE;
}

static bool b_is_aligned(const berth_cuda_product_args* args,
                         int64_t stride,
                         int64_t value_bytes,
                         int64_t bytes) {
    return address_is(args->b, bytes) && walk_keeps(&args->walk, 1, value_bytes, bytes) &&
           strides_keep(stride, value_bytes, bytes);
}

static int32_t form_of_b(const berth_cuda_product_args* args, berth_dtype dtype) {
    const int64_t bytes = berth_dtype_bytes(dtype);
    if (args->b_step == 1 && b_is_aligned(args, args->b_column, bytes, VECTOR_BYTES))
        return BERTH_CUDA_FORM_ALONG;
    if (args->b_column == 1 && b_is_aligned(args, args->b_step, bytes, VECTOR_BYTES))
        return BERTH_CUDA_FORM_ACROSS;
    return BERTH_CUDA_FORM_SINGLE;
}

// --- Choosing a kernel ---------------------------------------------------------------------------

static void run_groups(berth_cuda_kernel kernel,
                       int64_t group_rows,
                       int64_t group_columns,
                       const berth_cuda_product_args* args) {
    const uint64_t row_groups = (uint64_t)berth_cuda_ceil_div(args->rows, group_rows);
    const uint64_t column_groups = (uint64_t)berth_cuda_ceil_div(args->columns, group_columns);
    const uint64_t items = row_groups * column_groups * (uint64_t)args->batches;
    berth_cuda_run(kernel, items < MOST_BLOCKS ? items : MOST_BLOCKS, THREADS, args);
}

/// Kernels for two operands of one half type.
typedef struct halves_kernels {
    berth_cuda_kernel tile;
    berth_cuda_kernel few[2][2]; ///< [b's columns are side by side][more than HALVES_ROWS rows]
} halves_kernels;

#define HALVES_KERNELS(name)                                                                       \
    {                                                                                              \
        .tile = BERTH_CUDA_KERNEL_product_halves_tile_##name,                                      \
        .few = {{BERTH_CUDA_KERNEL_product_halves_8_##name,                                        \
                 BERTH_CUDA_KERNEL_product_halves_32_##name},                                      \
                {BERTH_CUDA_KERNEL_product_halves_across_8_##name,                                 \
                 BERTH_CUDA_KERNEL_product_halves_across_32_##name}},                              \
    }

static const halves_kernels kernels_of_f16 = HALVES_KERNELS(f16);
static const halves_kernels kernels_of_bf16 = HALVES_KERNELS(bf16);

static bool is_half(berth_dtype dtype) { return dtype == BERTH_F16 || dtype == BERTH_BF16; }

/// Runs a product of two operands of the half type args->dtype.
static void run_halves(const berth_cuda_product_args* args) {
    const halves_kernels* kernels =
        (berth_dtype)args->dtype == BERTH_F16 ? &kernels_of_f16 : &kernels_of_bf16;
    if (args->rows > FEW_ROWS) {
        run_groups(kernels->tile, HALVES_TILE, HALVES_TILE, args);
        return;
    }
    const bool is_across = args->b_form == BERTH_CUDA_FORM_ACROSS;
    const bool is_more = args->rows > HALVES_ROWS;
    run_groups(kernels->few[is_across][is_more],
               is_more ? FEW_ROWS : HALVES_ROWS,
               is_across || is_more ? 32 : 16,
               args);
}

/// Runs a product of floats whose operands, sizes and strides are filled in.
static void run_product(berth_cuda_product_args* args, berth_dtype b_dtype) {
    if (args->rows == 0 || args->columns == 0 || args->batches == 0) return;
    args->a_form = form_of_a(args);
    args->b_form = form_of_b(args, b_dtype);
    if (is_half(b_dtype) && (berth_dtype)args->dtype == b_dtype) {
        run_halves(args);
        return;
    }
    const product_kernels* kernels = &kernels_of[b_dtype];
    if (args->rows <= FEW_ROWS && args->b_step == 1) {
        if (args->rows == 1)
            run_groups(kernels->one, 1, FEW_COLUMNS, args);
        else
            run_groups(kernels->few, FEW_GROUP, FEW_COLUMNS, args);
    } else if (args->rows <= FEW_ROWS && b_dtype == BERTH_F32 && args->b_column == 1) {
        run_groups(BERTH_CUDA_KERNEL_product_across_f32, FEW_GROUP, ACROSS_COLUMNS, args);
    } else {
        run_groups(kernels->tile, TILE_ROWS, TILE_COLUMNS, args);
    }
}

static void run_integers(const berth_cuda_product_args* args) {
    if (args->rows == 0 || args->columns == 0 || args->batches == 0) return;
    const int64_t bytes = berth_dtype_bytes((berth_dtype)args->dtype);
    const berth_cuda_kernel kernel = bytes == 1   ? BERTH_CUDA_KERNEL_product_integers_8
                                     : bytes == 4 ? BERTH_CUDA_KERNEL_product_integers_32
                                                  : BERTH_CUDA_KERNEL_product_integers_64;
    run_groups(kernel, INTEGER_TILE, INTEGER_TILE, args);
}

// --- The library ---------------------------------------------------------------------------------

/// The stride of a walk of one dimension, or of none.
static int64_t stride_of(const berth_cuda_walk* walk, int operand) {
    return walk->rank > 0 ? walk->strides[operand][0] : 0;
}

/// Adds the bias of a product that has none yet: the library takes a bias of f32 only where the
/// product is of f32.
static void add_bias(const berth_cuda_product_args* args) {
    const berth_cuda_bias_args adding = {
        .out = args->out,
        .bias = args->bias,
        .count = args->rows * args->columns,
        .columns = args->columns,
        .dtype = args->dtype,
    };
    berth_cuda_run(BERTH_CUDA_KERNEL_product_bias,
                   berth_cuda_blocks_for((uint64_t)adding.count, THREADS),
                   THREADS,
                   &adding);
}

/// Hands a product to the library where the number of rows may change its bits.
static bool try_library(const berth_op_call* call,
                        const berth_cuda_product_args* args,
                        berth_dtype b_dtype) {
    if (call->batch_invariant || (berth_dtype)args->dtype != b_dtype) return false;
    if (args->walk.rank > 1 || args->row_walk.rank > 1) return false;
    const berth_cuda_library_product product = {
        .dtype = b_dtype,
        .a = args->a,
        .b = args->b,
        .bias = b_dtype == BERTH_F32 ? args->bias : NULL,
        .out = args->out,
        .batches = args->batches,
        .rows = args->rows,
        .columns = args->columns,
        .depth = args->depth,
        .a_batch = stride_of(&args->walk, 0),
        .a_row = stride_of(&args->row_walk, 0),
        .a_step = args->a_step,
        .b_batch = stride_of(&args->walk, 1),
        .b_step = args->b_step,
        .b_column = args->b_column,
    };
    if (!berth_cuda_try_library(&product, call->scratch, call->scratch_bytes)) return false;
    if (args->bias != product.bias) add_bias(args);
    return true;
}

static uint64_t library_bytes(const berth_op_call* call, const berth_cuda_product_args* args) {
    const double products =
        (double)args->batches * (double)args->rows * (double)args->columns * (double)args->depth;
    if (call->batch_invariant || products < LIBRARY_PRODUCTS) return 0;
    return LIBRARY_BYTES + LIBRARY_ALIGNMENT;
}

// --- MATMUL --------------------------------------------------------------------------------------

/// The rows of a matrix `stride` elements apart.
static void make_row_walk(int64_t rows, int64_t stride, berth_cuda_walk* walk) {
    const berth_view view = {.dtype = BERTH_U8, .rank = 1, .dims = {rows}, .strides = {stride}};
    const berth_view* const operand = &view;
    berth_cuda_walk_make(&view, 1, &operand, walk);
}

/// The dimensions in front of a matrix, or of a vector: none.
static berth_view batches_of(const berth_view* x) {
    berth_view batches = *x;
    batches.rank = x->rank > 2 ? x->rank - 2 : 0;
    return batches;
}

static void make_batch_walk(const berth_op_call* call, berth_cuda_walk* walk) {
    const berth_view* a = &call->inputs[0];
    const berth_view* b = &call->inputs[1];
    berth_view out = call->outputs[0];
    out.rank -= (a->rank > 1) + (b->rank > 1);
    const berth_view of_a = batches_of(a), of_b = batches_of(b);
    const berth_view* const operands[2] = {&of_a, &of_b};
    berth_cuda_walk_make(&out, 2, operands, walk);
}

/// Exchanges rows and columns: out^T = b^T a^T, whose products are the same.
static void turn(berth_cuda_product_args* args) {
    const berth_cuda_product_args kept = *args;
    const bool has_rows = kept.row_walk.rank > 0;
    args->a = kept.b;
    args->b = kept.a;
    args->rows = kept.columns;
    args->columns = kept.rows;
    args->a_step = kept.b_step;
    args->b_step = kept.a_step;
    args->b_column = has_rows ? kept.row_walk.strides[0][0] : 0;
    args->out_row = kept.out_column;
    args->out_column = kept.out_row;
    make_row_walk(kept.columns, kept.b_column, &args->row_walk);
    for (int32_t d = 0; d < BERTH_MAX_RANK; ++d) {
        args->walk.strides[0][d] = kept.walk.strides[1][d];
        args->walk.strides[1][d] = kept.walk.strides[0][d];
    }
}

static void describe_matmul(const berth_op_call* call, berth_cuda_product_args* args) {
    const berth_view* a = &call->inputs[0];
    const berth_view* b = &call->inputs[1];
    const bool b_is_column = b->rank == 1;
    *args = (berth_cuda_product_args){
        .a = a->data,
        .b = b->data,
        .out = call->outputs[0].data,
        .rows = a->rank > 1 ? a->dims[a->rank - 2] : 1,
        .columns = b_is_column ? 1 : b->dims[b->rank - 1],
        .depth = a->dims[a->rank - 1],
        .a_step = a->strides[a->rank - 1],
        .b_step = b->strides[b_is_column ? 0 : b->rank - 2],
        .b_column = b_is_column ? 0 : b->strides[b->rank - 1],
        .dtype = (int32_t)a->dtype,
    };
    args->out_batch = args->rows * args->columns;
    args->out_row = args->columns;
    args->out_column = 1;
    make_row_walk(args->rows, a->rank > 1 ? a->strides[a->rank - 2] : 0, &args->row_walk);
    make_batch_walk(call, &args->walk);
    args->batches = args->walk.count;
}

static void launch_matmul(const berth_op_call* call) {
    berth_cuda_product_args args;
    describe_matmul(call, &args);
    if (!berth_dtype_is_float(call->inputs[0].dtype)) {
        run_integers(&args);
        return;
    }
    if (try_library(call, &args, call->inputs[0].dtype)) return;
    const berth_dtype dtype = call->inputs[0].dtype;
    // Products of halves stay: nothing says that an instruction's operands may change places.
    if (!is_half(dtype) && args.columns < args.rows && args.columns <= FEW_ROWS) turn(&args);
    run_product(&args, dtype);
}

static uint64_t scratch_matmul(const berth_op_call* call) {
    if (!berth_dtype_is_float(call->inputs[0].dtype)) return 0;
    berth_cuda_product_args args;
    describe_matmul(call, &args);
    return library_bytes(call, &args);
}

// --- LINEAR --------------------------------------------------------------------------------------

static void describe_linear(const berth_op_call* call, berth_cuda_product_args* args) {
    const berth_view* x = &call->inputs[0];
    const berth_view* w = &call->inputs[1];
    *args = (berth_cuda_product_args){
        .a = x->data,
        .b = w->data,
        .bias = call->input_count > 2 ? call->inputs[2].data : NULL,
        .out = call->outputs[0].data,
        .batches = 1,
        .columns = w->dims[0],
        .depth = w->dims[1],
        .a_step = 1,
        .b_step = 1,
        .b_column = w->strides[0],
        .out_row = w->dims[0],
        .out_column = 1,
        .walk = {.count = 1, .is_small = 1},
        .dtype = (int32_t)x->dtype,
    };
    berth_view rows = *x;
    rows.rank -= 1;
    const berth_view* const operand = &rows;
    berth_cuda_walk_make(&rows, 1, &operand, &args->row_walk);
    args->rows = args->row_walk.count;
}

static void launch_linear(const berth_op_call* call) {
    berth_cuda_product_args args;
    describe_linear(call, &args);
    if (!try_library(call, &args, call->inputs[1].dtype)) run_product(&args, call->inputs[1].dtype);
}

static uint64_t scratch_linear(const berth_op_call* call) {
    if (call->inputs[0].dtype != call->inputs[1].dtype) return 0;
    berth_cuda_product_args args;
    describe_linear(call, &args);
    return library_bytes(call, &args);
}

void berth_cuda_fill_matrix(berth_cuda_table* table) {
    table->kernels[BERTH_OP_MATMUL] = launch_matmul;
    table->scratch[BERTH_OP_MATMUL] = scratch_matmul;
    table->kernels[BERTH_OP_LINEAR] = launch_linear;
    table->scratch[BERTH_OP_LINEAR] = scratch_linear;
}
