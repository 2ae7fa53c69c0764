// SPDX-License-Identifier: Apache-2.0
// Launchers of elementwise ops, whose kernels are in cuda_elementwise_*.cu.
//
// Operands of one type whose vectors of 16 bytes can be read at once, or are one element repeated,
// take the kernel of vectors; all others that of elements of any type and strides.
#include <math.h>

#include "base/dtype.h"
#include "base/op_params.h"
#include "device/cuda/cuda_launch_copy.h"
#include "device/cuda/cuda_launch_value.h"

enum { THREADS = 256, VECTOR_BYTES = 16 };

// Types of which a kernel takes vectors.
#define BIT(dtype) (1u << BERTH_##dtype)
#define REALS (BIT(F32) | BIT(F16) | BIT(BF16))
#define NUMBERS (REALS | BIT(I32) | BIT(I64))
#define TESTED (REALS | BIT(I32))
#define BOOLS BIT(BOOL)
#define ALL (NUMBERS | BIT(I8) | BIT(U8) | BIT(BOOL))

/// A function's kernel.
typedef struct element_kernel {
    berth_cuda_kernel vectors; ///< followed by that of elements
    uint32_t types;            ///< of which it takes vectors
    int64_t reads;             ///< dense vectors of each operand that a thread has under way
} element_kernel;

// --- Vectors -------------------------------------------------------------------------------------

/// True if vectors of `lanes` elements, of `bytes` each, may be read of operand `i`.
static bool has_vectors(const berth_cuda_element_args* args,
                        uint32_t i,
                        int64_t lanes,
                        int64_t bytes) {
    const int32_t last = args->walk.rank - 1;
    const int64_t* strides = args->walk.strides[i];
    if (strides[last] == 0) return true;
    if (strides[last] != 1 || (uintptr_t)args->operands[i] % (uint64_t)(lanes * bytes) != 0)
        return false;
    for (int32_t d = 0; d < last; ++d)
        if (strides[d] % lanes != 0) return false;
    return true;
}

/// Lets the walk count vectors of `lanes` elements, with the elements behind them as tail.
static void count_vectors(berth_cuda_element_args* args, uint32_t operands, int64_t lanes) {
    berth_cuda_walk* walk = &args->walk;
    const int32_t last = walk->rank - 1;
    const int64_t whole = walk->count;
    walk->count /= lanes;
    walk->dims[last].size /= lanes;
    berth_cuda_walk_finish(walk);
    args->tail_begin = walk->count * lanes;
    args->tail = (uint32_t)(whole - args->tail_begin);
    args->is_dense = last == 0;
    for (uint32_t i = 0; i < operands; ++i) {
        args->is_repeated[i] = walk->strides[i][last] == 0;
        args->is_dense = args->is_dense && !args->is_repeated[i];
        walk->strides[i][last] *= lanes;
    }
}

/// Makes the arguments those of vectors, where that can be. All operands are of the type `meeting`,
/// but for the first `conditions`, which are of one byte.
static bool vectorise(berth_cuda_element_args* args, uint32_t operands, uint32_t conditions) {
    const berth_cuda_walk* walk = &args->walk;
    const int64_t bytes = berth_dtype_bytes((berth_dtype)args->meeting);
    const int64_t out_bytes = berth_dtype_bytes((berth_dtype)args->out_dtype);
    const int64_t lanes = VECTOR_BYTES / bytes;
    const int64_t stored = lanes * out_bytes < VECTOR_BYTES ? lanes * out_bytes : VECTOR_BYTES;
    const int32_t last = walk->rank - 1;
    if (last < 0 || (uintptr_t)args->out % (uint64_t)stored != 0) return false;
    if (last > 0 && (walk->dims[last].size % lanes != 0 || walk->count / lanes >= INT32_MAX))
        return false;
    for (uint32_t i = 0; i < operands; ++i)
        if (!has_vectors(args, i, lanes, i < conditions ? 1 : bytes)) return false;
    count_vectors(args, operands, lanes);
    return true;
}

/// True if the operands have the types that the kernel of vectors takes.
static bool types_meet(const berth_cuda_element_args* args,
                       const element_kernel* kernel,
                       uint32_t operands,
                       uint32_t conditions) {
    if ((kernel->types >> args->meeting & 1u) == 0) return false;
    for (uint32_t i = 0; i < operands; ++i) {
        const bool is_byte = berth_dtype_bytes((berth_dtype)args->dtypes[i]) == 1;
        if (i < conditions ? !is_byte : args->dtypes[i] != args->meeting) return false;
    }
    return true;
}

// --- Launches ------------------------------------------------------------------------------------

/// Runs a kernel over operands that broadcast to the output's shape. `args` has `meeting` and what
/// the function itself takes.
static void run(berth_cuda_element_args* args,
                const element_kernel* kernel,
                const berth_view* out,
                const berth_view* const* operands,
                uint32_t operand_count,
                uint32_t conditions) {
    berth_cuda_walk_make(out, operand_count, operands, &args->walk);
    if (args->walk.count == 0) return;
    args->out = out->data;
    args->out_dtype = (uint8_t)out->dtype;
    args->is_real = berth_dtype_is_float((berth_dtype)args->meeting);
    for (uint32_t i = 0; i < operand_count; ++i) {
        args->operands[i] = operands[i]->data;
        args->dtypes[i] = (uint8_t)operands[i]->dtype;
    }
    berth_cuda_kernel chosen = kernel->vectors + 1;
    uint64_t threads = (uint64_t)args->walk.count;
    if (types_meet(args, kernel, operand_count, conditions) &&
        vectorise(args, operand_count, conditions)) {
        chosen = kernel->vectors;
        const int64_t reads = args->is_dense ? kernel->reads : 1;
        threads = (uint64_t)((args->walk.count + reads - 1) / reads);
        if (threads < args->tail) threads = args->tail;
    }
    berth_cuda_run(chosen, berth_cuda_blocks_for(threads, THREADS), THREADS, args);
}

static void run_unary(const berth_op_call* call,
                      berth_cuda_element_args* args,
                      const element_kernel* kernel) {
    berth_view x = call->inputs[0];
    berth_cuda_bring_turned(call, &x);
    const berth_view* const operands[1] = {&x};
    run(args, kernel, &call->outputs[0], operands, 1, 0);
}

static void run_binary(const berth_op_call* call,
                       const element_kernel* kernel,
                       berth_dtype meeting,
                       const berth_view* a,
                       const berth_view* b) {
    berth_cuda_element_args args = {.meeting = (uint8_t)meeting};
    const berth_view* out = &call->outputs[0];
    berth_view left = *a, right = *b;
    berth_cuda_bring_turned(call, &left);
    if (left.data != out->data) berth_cuda_bring_turned(call, &right);
    const berth_view* const operands[2] = {&left, &right};
    run(&args, kernel, out, operands, 2, 0);
}

#define KERNEL(name, dtypes, count)                                                                \
    &(const element_kernel) {                                                                      \
        .vectors = BERTH_CUDA_KERNEL_##name, .types = (dtypes), .reads = (count)                   \
    }

// --- One operand ---------------------------------------------------------------------------------

/// Computed in the output's type, which is the operand's or, for integers of real functions, f32.
#define TYPED(ID, name, dtypes, reads)                                                             \
    static void launch_##name(const berth_op_call* call) {                                         \
        berth_cuda_element_args args = {.meeting = (uint8_t)call->outputs[0].dtype};               \
        run_unary(call, &args, KERNEL(name, dtypes, reads));                                       \
    }
/// Asked in the operand's type.
#define TEST(ID, name, dtypes, reads)                                                              \
    static void launch_##name(const berth_op_call* call) {                                         \
        berth_cuda_element_args args = {.meeting = (uint8_t)call->inputs[0].dtype};                \
        run_unary(call, &args, KERNEL(name, dtypes, reads));                                       \
    }

#define TYPED_FUNCTIONS(X)                                                                         \
    X(NEG, neg, NUMBERS, 2)                                                                        \
    X(ABS, abs, NUMBERS, 2)                                                                        \
    X(SIGN, sign, NUMBERS, 2)                                                                      \
    X(RELU, relu, NUMBERS, 2)                                                                      \
    X(FLOOR, floor, NUMBERS, 2)                                                                    \
    X(CEIL, ceil, NUMBERS, 2)                                                                      \
    X(ROUND, round, NUMBERS, 2)                                                                    \
    X(EXP, exp, REALS, 2)                                                                          \
    X(LOG, log, REALS, 1)                                                                          \
    X(LOG1P, log1p, REALS, 1)                                                                      \
    X(SQRT, sqrt, REALS, 2)                                                                        \
    X(RSQRT, rsqrt, REALS, 2)                                                                      \
    X(RECIPROCAL, reciprocal, REALS, 2)                                                            \
    X(SIN, sin, REALS, 1)                                                                          \
    X(COS, cos, REALS, 1)                                                                          \
    X(TANH, tanh, REALS, 1)                                                                        \
    X(SIGMOID, sigmoid, REALS, 2)                                                                  \
    X(SILU, silu, REALS, 2)                                                                        \
    X(GELU, gelu, REALS, 1)                                                                        \
    X(GELU_TANH, gelu_tanh, REALS, 2)

#define TESTS(X)                                                                                   \
    X(LOGICAL_NOT, logical_not, TESTED, 2)                                                         \
    X(ISNAN, isnan, TESTED, 2)                                                                     \
    X(ISINF, isinf, TESTED, 2)                                                                     \
    X(ISFINITE, isfinite, TESTED, 2)

TYPED_FUNCTIONS(TYPED)
TESTS(TEST)

static void launch_affine(const berth_op_call* call) {
    const berth_affine_params* params = call->params;
    berth_cuda_element_args args = {
        .meeting = (uint8_t)call->outputs[0].dtype,
        .real = {params->scale, params->shift},
    };
    run_unary(call, &args, KERNEL(affine, REALS, 2));
}

static void launch_clamp(const berth_op_call* call) {
    const berth_clamp_params* params = call->params;
    const berth_dtype dtype = call->outputs[0].dtype;
    berth_cuda_element_args args = {.meeting = (uint8_t)dtype};
    if (berth_dtype_is_float(dtype)) {
        args.real[0] = (float)params->low;
        args.real[1] = (float)params->high;
    } else { // the integers between two bounds are those between the whole numbers inside them
        args.whole[0] = berth_cuda_value_to_whole(dtype, ceil(params->low));
        args.whole[1] = berth_cuda_value_to_whole(dtype, floor(params->high));
    }
    run_unary(call, &args, KERNEL(clamp, NUMBERS, 2));
}

static void dequantise(const berth_view* x, const berth_view* out) {
    const berth_dtype_info* info = berth_dtype_info_of(x->dtype);
    berth_cuda_dequantise_args args = {
        .out = out->data,
        .from = x->data,
        .dtype = (uint8_t)x->dtype,
        .out_dtype = (uint8_t)out->dtype,
    };
    berth_view blocks = *x;
    blocks.dims[x->rank - 1] /= (int64_t)info->block_values;
    const berth_view* const operands[1] = {&blocks};
    berth_cuda_walk_make(&blocks, 1, operands, &args.walk);
    if (args.walk.count == 0) return;
    const uint64_t groups = (uint64_t)args.walk.count * (info->block_values / 8);
    berth_cuda_run(
        BERTH_CUDA_KERNEL_dequantise, berth_cuda_blocks_for(groups, THREADS), THREADS, &args);
}

/// True if a cast moves bytes as they are.
static bool is_same(berth_dtype from, berth_dtype to) {
    const bool to_byte = to == BERTH_U8 || to == BERTH_I8;
    return from == to || (to_byte && berth_dtype_bytes(from) == 1);
}

static void launch_cast(const berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    const berth_view* out = &call->outputs[0];
    if (!berth_dtype_is_plain(x->dtype)) {
        dequantise(x, out);
        return;
    }
    if (is_same(x->dtype, out->dtype)) {
        if (x->data != out->data) berth_cuda_copy_view(x, out->data);
        return;
    }
    berth_cuda_element_args args = {.meeting = (uint8_t)out->dtype};
    // vectors are read as they are, and only floats made of floats
    const bool are_floats = berth_dtype_is_float(x->dtype) && berth_dtype_is_float(out->dtype);
    if (are_floats) args.meeting = (uint8_t)x->dtype;
    run_unary(call, &args, KERNEL(cast, are_floats ? REALS : 0, 2));
}

// --- Two operands --------------------------------------------------------------------------------

#define ARITHMETIC(ID, name, dtypes, reads)                                                        \
    static void launch_##name(const berth_op_call* call) {                                         \
        run_binary(call,                                                                           \
                   KERNEL(name, dtypes, reads),                                                    \
                   call->outputs[0].dtype,                                                         \
                   &call->inputs[0],                                                               \
                   &call->inputs[1]);                                                              \
    }
/// Compares a with b, or b with a.
#define COMPARISON(ID, name, kernel, first, second)                                                \
    static void launch_##name(const berth_op_call* call) {                                         \
        const berth_compare_params* params = call->params;                                         \
        run_binary(call,                                                                           \
                   KERNEL(kernel, TESTED, 2),                                                      \
                   params->dtype,                                                                  \
                   &call->inputs[first],                                                           \
                   &call->inputs[second]);                                                         \
    }
#define LOGIC(ID, name)                                                                            \
    static void launch_##name(const berth_op_call* call) {                                         \
        run_binary(call, KERNEL(name, BOOLS, 1), BERTH_BOOL, &call->inputs[0], &call->inputs[1]);  \
    }

#define ARITHMETIC_OPS(X)                                                                          \
    X(ADD, add, NUMBERS, 2)                                                                        \
    X(SUB, sub, NUMBERS, 2)                                                                        \
    X(MUL, mul, NUMBERS, 2)                                                                        \
    X(DIV, div, REALS, 2)                                                                          \
    X(MINIMUM, minimum, NUMBERS, 2)                                                                \
    X(MAXIMUM, maximum, NUMBERS, 2)                                                                \
    X(REMAINDER, remainder, REALS, 1)                                                              \
    X(POW, pow, REALS, 1)

#define COMPARISONS(X)                                                                             \
    X(EQ, eq, eq, 0, 1)                                                                            \
    X(NE, ne, ne, 0, 1)                                                                            \
    X(LT, lt, lt, 0, 1)                                                                            \
    X(LE, le, le, 0, 1)                                                                            \
    X(GT, gt, lt, 1, 0)                                                                            \
    X(GE, ge, le, 1, 0)

#define LOGIC_OPS(X)                                                                               \
    X(LOGICAL_AND, logical_and)                                                                    \
    X(LOGICAL_OR, logical_or)                                                                      \
    X(LOGICAL_XOR, logical_xor)

ARITHMETIC_OPS(ARITHMETIC)
COMPARISONS(COMPARISON)
LOGIC_OPS(LOGIC)

/// Every element of a vector with every element of another: a column and a row.
static void launch_outer(const berth_op_call* call) {
    berth_view column = call->inputs[0];
    column.rank = 2;
    column.dims[1] = 1;
    column.strides[1] = 1;
    run_binary(call, KERNEL(mul, NUMBERS, 2), call->outputs[0].dtype, &column, &call->inputs[1]);
}

static void launch_where(const berth_op_call* call) {
    const berth_view* out = &call->outputs[0];
    berth_cuda_element_args args = {.meeting = (uint8_t)out->dtype};
    const berth_view* const operands[3] = {&call->inputs[0], &call->inputs[1], &call->inputs[2]};
    run(&args, KERNEL(where, ALL, 1), out, operands, 3, 1);
}

static void launch_noop(const berth_op_call* call) { (void)call; }

void berth_cuda_fill_elementwise(berth_cuda_table* table) {
#define ENTER(ID, name, ...) table->kernels[BERTH_OP_##ID] = launch_##name;
    TYPED_FUNCTIONS(ENTER)
    TESTS(ENTER)
    ARITHMETIC_OPS(ENTER)
    COMPARISONS(ENTER)
    table->kernels[BERTH_OP_LOGICAL_AND] = launch_logical_and;
    table->kernels[BERTH_OP_LOGICAL_OR] = launch_logical_or;
    table->kernels[BERTH_OP_LOGICAL_XOR] = launch_logical_xor;
#undef ENTER
    table->kernels[BERTH_OP_AFFINE] = launch_affine;
    table->kernels[BERTH_OP_CLAMP] = launch_clamp;
    table->kernels[BERTH_OP_CAST] = launch_cast;
    table->kernels[BERTH_OP_OUTER] = launch_outer;
    table->kernels[BERTH_OP_WHERE] = launch_where;
    table->kernels[BERTH_OP_NOOP] = launch_noop;
    berth_cuda_fill_copy(table);
    berth_cuda_fill_create(table);
}
