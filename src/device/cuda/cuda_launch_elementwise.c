// SPDX-License-Identifier: Apache-2.0
// Launchers of elementwise ops, whose kernels are in cuda_elementwise_*.cu.
//
// Operands of one type whose vectors can be read at once, or are one element repeated, take the
// kernel of vectors; all others that of groups of neighbours of any types and strides.
#include <math.h>

#include "base/dtype.h"
#include "base/op_params.h"
#include "device/cuda/cuda_launch_copy.h"
#include "device/cuda/cuda_launch_value.h"

enum {
    THREADS = BERTH_CUDA_ELEMENT_THREADS,
    GROUP = BERTH_CUDA_ELEMENT_GROUP,
    ACCESS_BYTES = BERTH_CUDA_UNIT_BYTES,
};

// Types of which a kernel takes vectors.
#define BIT(dtype) (1u << BERTH_##dtype)
#define REAL_TYPES (BIT(F32) | BIT(F16) | BIT(BF16))
#define MIXED_TYPES REAL_TYPES
#define NUMBER_TYPES (REAL_TYPES | BIT(I32) | BIT(I64))
#define TEST_TYPES (REAL_TYPES | BIT(I32))
#define LOGIC_TYPES BIT(BOOL)
#define ALL_TYPES (NUMBER_TYPES | BIT(I8) | BIT(U8) | BIT(BOOL))

/// A function's kernel.
typedef struct element_kernel {
    berth_cuda_kernel vectors; ///< followed by that of groups
    uint32_t types;            ///< of which it takes vectors
    int64_t reads;             ///< vectors of each operand that a thread has under way
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
    const int64_t lanes = ACCESS_BYTES / (bytes > out_bytes ? bytes : out_bytes);
    const int32_t last = walk->rank - 1;
    if (last < 0 || (uintptr_t)args->out % (uint64_t)(lanes * out_bytes) != 0) return false;
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

// --- Groups --------------------------------------------------------------------------------------

/// True if whole groups of elements of `bytes`, of rows that begin at `data` and `strides` [rank]
/// from there, are at multiples of what is read or written of them at once.
static bool has_groups(const void* data, int64_t bytes, const int64_t* strides, int32_t rank) {
    const int64_t all = GROUP * bytes;
    const int64_t access = all < ACCESS_BYTES ? all : ACCESS_BYTES;
    if ((uintptr_t)data % (uint64_t)access != 0) return false;
    for (int32_t d = 0; d < rank; ++d)
        if (strides[d] * bytes % access != 0) return false;
    return true;
}

/// Makes the arguments those of groups: the walk's last dimension becomes rows.
static void group_rows(berth_cuda_element_args* args, uint32_t operands) {
    berth_cuda_walk* walk = &args->walk;
    const int32_t last = walk->rank - 1;
    args->width = last >= 0 ? walk->dims[last].size : 1;
    for (uint32_t i = 0; i < operands; ++i) {
        args->steps[i] = last >= 0 ? walk->strides[i][last] : 1;
        args->is_whole[i] =
            args->steps[i] == 1 &&
            has_groups(args->operands[i], args->item_bytes[i], walk->strides[i], last);
    }
    walk->count /= args->width;
    if (last >= 0) walk->rank = last;
    berth_cuda_walk_finish(walk);
    const int64_t out_bytes = berth_dtype_bytes((berth_dtype)args->out_dtype);
    args->is_whole_out = has_groups(args->out, out_bytes, &args->width, walk->count > 1 ? 1 : 0);
    args->groups = berth_cuda_divisor_make(berth_cuda_ceil_div(args->width, GROUP));
    args->group_count = walk->count * args->groups.size;
    args->is_small = args->group_count < INT32_MAX;
}

// --- Launches ------------------------------------------------------------------------------------

static uint64_t blocks_for(int64_t items, int64_t reads, uint32_t tail) {
    const uint64_t threads = (uint64_t)berth_cuda_ceil_div(items, reads);
    return berth_cuda_blocks_for(threads > tail ? threads : tail, THREADS);
}

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
        args->item_bytes[i] = (uint8_t)berth_dtype_bytes(operands[i]->dtype);
    }
    if (types_meet(args, kernel, operand_count, conditions) &&
        vectorise(args, operand_count, conditions)) {
        const uint64_t blocks = blocks_for(args->walk.count, kernel->reads, args->tail);
        berth_cuda_run(kernel->vectors, blocks, THREADS, args);
        return;
    }
    group_rows(args, operand_count);
    const uint64_t blocks = blocks_for(args->group_count, BERTH_CUDA_ELEMENT_GROUPS, 0);
    berth_cuda_run((berth_cuda_kernel)(kernel->vectors + 1), blocks, THREADS, args);
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

static void take_affine(const berth_affine_params* params, berth_cuda_element_args* args) {
    args->real[0] = params->scale;
    args->real[1] = params->shift;
}

static void take_bounds(const berth_clamp_params* params,
                        berth_dtype dtype,
                        berth_cuda_element_args* args) {
    args->real[0] = (float)params->low;
    args->real[1] = (float)params->high;
    if (berth_dtype_is_float(dtype)) return;
    // the integers between two bounds are those between the whole numbers inside them
    args->whole[0] = berth_cuda_value_to_whole(dtype, ceil(params->low));
    args->whole[1] = berth_cuda_value_to_whole(dtype, floor(params->high));
}

static void take_parameters(const berth_op_call* call,
                            berth_op_id op,
                            berth_cuda_element_args* args) {
    if (op == BERTH_OP_AFFINE) take_affine(call->params, args);
    if (op == BERTH_OP_CLAMP) take_bounds(call->params, call->outputs[0].dtype, args);
}

/// Computed in the output's type, which is the operand's or, for integers of real functions, f32.
#define REAL_MEETING(call) (call)->outputs[0].dtype
#define NUMBER_MEETING(call) (call)->outputs[0].dtype
/// Asked in the operand's type.
#define TEST_MEETING(call) (call)->inputs[0].dtype

#define LAUNCHER(Y, OP, name, KIND, reads)                                                         \
    static void launch_##name(const berth_op_call* call) {                                         \
        berth_cuda_element_args args = {.meeting = (uint8_t)KIND##_MEETING(call)};                 \
        take_parameters(call, BERTH_OP_##OP, &args);                                               \
        run_unary(call, &args, KERNEL(name, KIND##_TYPES, reads));                                 \
    }
BERTH_CUDA_UNARY_MAP(LAUNCHER, )

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
    run_unary(call, &args, KERNEL(cast, are_floats ? REAL_TYPES : 0, BERTH_CUDA_CAST_READS));
}

// --- Two operands --------------------------------------------------------------------------------

/// The type in which two operands meet.
static berth_dtype meeting_of(const berth_op_call* call, berth_op_id op) {
    if (op >= BERTH_OP_LOGICAL_AND && op <= BERTH_OP_LOGICAL_XOR) return BERTH_BOOL;
    if (op < BERTH_OP_EQ || op > BERTH_OP_GE) return call->outputs[0].dtype;
    const berth_compare_params* params = call->params;
    return params->dtype;
}

/// Operands `first` and `second` of the call, in that order.
#define PAIR_LAUNCHER(OP, op_name, name, KIND, reads, first, second)                               \
    static void launch_##op_name(const berth_op_call* call) {                                      \
        run_binary(call,                                                                           \
                   KERNEL(name, KIND##_TYPES, reads),                                              \
                   meeting_of(call, BERTH_OP_##OP),                                                \
                   &call->inputs[first],                                                           \
                   &call->inputs[second]);                                                         \
    }
#define BINARY_LAUNCHER(Y, OP, name, KIND, reads) PAIR_LAUNCHER(OP, name, name, KIND, reads, 0, 1)
BERTH_CUDA_BINARY_MAP(BINARY_LAUNCHER, )
PAIR_LAUNCHER(GT, gt, lt, TEST, 2, 1, 0)
PAIR_LAUNCHER(GE, ge, le, TEST, 2, 1, 0)

/// Every element of a vector with every element of another: a column and a row.
static void launch_outer(const berth_op_call* call) {
    berth_view column = call->inputs[0];
    column.rank = 2;
    column.dims[1] = 1;
    column.strides[1] = 1;
    run_binary(
        call, KERNEL(mul, NUMBER_TYPES, 2), call->outputs[0].dtype, &column, &call->inputs[1]);
}

static void launch_where(const berth_op_call* call) {
    const berth_view* out = &call->outputs[0];
    berth_cuda_element_args args = {.meeting = (uint8_t)out->dtype};
    const berth_view* const operands[3] = {&call->inputs[0], &call->inputs[1], &call->inputs[2]};
    run(&args, KERNEL(where, ALL_TYPES, BERTH_CUDA_WHERE_READS), out, operands, 3, 1);
}

static void launch_noop(const berth_op_call* call) { (void)call; }

void berth_cuda_fill_elementwise(berth_cuda_table* table) {
#define ENTER(Y, OP, name, KIND, reads) table->kernels[BERTH_OP_##OP] = launch_##name;
    BERTH_CUDA_UNARY_MAP(ENTER, )
    BERTH_CUDA_BINARY_MAP(ENTER, )
#undef ENTER
    table->kernels[BERTH_OP_GT] = launch_gt;
    table->kernels[BERTH_OP_GE] = launch_ge;
    table->kernels[BERTH_OP_CAST] = launch_cast;
    table->kernels[BERTH_OP_OUTER] = launch_outer;
    table->kernels[BERTH_OP_WHERE] = launch_where;
    table->kernels[BERTH_OP_NOOP] = launch_noop;
    berth_cuda_fill_copy(table);
    berth_cuda_fill_create(table);
}
