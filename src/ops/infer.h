// SPDX-License-Identifier: Apache-2.0
// The checks and shape rules of the op table, and what they share. Each is a berth_op_desc's infer:
// it writes dtype, rank and dims of the outputs, or refuses the operands by berth_op_fail().
#ifndef BERTH_OPS_INFER_H
#define BERTH_OPS_INFER_H

#include <string.h>

#include "base/dtype.h"
#include "berth/op.h"
#include "tensor/shape.h"

berth_status berth_infer_fill(berth_op_call* call);
berth_status berth_infer_arange(berth_op_call* call);
berth_status berth_infer_rand(berth_op_call* call);
berth_status berth_infer_random(berth_op_call* call);
berth_status berth_infer_randint(berth_op_call* call);
berth_status berth_infer_copy(berth_op_call* call);
berth_status berth_infer_cast(berth_op_call* call);
berth_status berth_infer_binary(berth_op_call* call);
berth_status berth_infer_arithmetic(berth_op_call* call);
berth_status berth_infer_div(berth_op_call* call);
berth_status berth_infer_predicate(berth_op_call* call);
berth_status berth_infer_where(berth_op_call* call);
berth_status berth_infer_clamp(berth_op_call* call);
berth_status berth_infer_outer(berth_op_call* call);
berth_status berth_infer_float_unary(berth_op_call* call);
berth_status berth_infer_number(berth_op_call* call);
berth_status berth_infer_test(berth_op_call* call);
berth_status berth_infer_any_unary(berth_op_call* call);
berth_status berth_infer_sum(berth_op_call* call);
berth_status berth_infer_mean(berth_op_call* call);
berth_status berth_infer_extreme(berth_op_call* call);
berth_status berth_infer_place(berth_op_call* call);
berth_status berth_infer_var(berth_op_call* call);
berth_status berth_infer_truth(berth_op_call* call);
berth_status berth_infer_softmax(berth_op_call* call);
berth_status berth_infer_cumsum(berth_op_call* call);
berth_status berth_infer_layer_norm(berth_op_call* call);
berth_status berth_infer_rms_norm(berth_op_call* call);
berth_status berth_infer_matmul(berth_op_call* call);
berth_status berth_infer_linear(berth_op_call* call);
berth_status berth_infer_rope(berth_op_call* call);
berth_status berth_infer_attention(berth_op_call* call);
berth_status berth_infer_paged_attention(berth_op_call* call);
berth_status berth_infer_embedding(berth_op_call* call);
berth_status berth_infer_gather(berth_op_call* call);
berth_status berth_infer_take_along(berth_op_call* call);
berth_status berth_infer_index_select(berth_op_call* call);
berth_status berth_infer_index_copy(berth_op_call* call);
berth_status berth_infer_scatter(berth_op_call* call);
berth_status berth_infer_cat(berth_op_call* call);
berth_status berth_infer_stack(berth_op_call* call);
berth_status berth_infer_more(berth_op_call* call);
berth_status berth_infer_roll(berth_op_call* call);
berth_status berth_infer_repeat(berth_op_call* call);
berth_status berth_infer_pad(berth_op_call* call);
berth_status berth_infer_triangle(berth_op_call* call);
berth_status berth_infer_sort(berth_op_call* call);
berth_status berth_infer_argsort(berth_op_call* call);
berth_status berth_infer_topk(berth_op_call* call);
berth_status berth_infer_nonzero(berth_op_call* call);
berth_status berth_infer_masked_select(berth_op_call* call);
berth_status berth_infer_unique(berth_op_call* call);

/// Adds operand `number` to what CAT or STACK joins along `dim`: checks it against `out`, which the
/// operands before have left, and extends that. Number 0 makes `out`.
berth_status berth_infer_join(
    berth_view* out, const berth_view* x, size_t number, int32_t dim, bool is_stack);

/// Refuses an operand's type with a sentence that says what would do.
berth_status berth_infer_refuse_dtype(berth_dtype dtype, const char* accepted);

/// Refuses quantised types.
berth_status berth_infer_check_plain(const berth_view* x);
/// Refuses what is not a float or an integer.
berth_status berth_infer_check_number(const berth_view* x);
/// Refuses what is not f32, f16 or bf16.
berth_status berth_infer_check_float(const berth_view* x);

/// Refuses a dimension that is none of `count`, counted from the start.
berth_status berth_infer_check_dim(int32_t dim, int32_t count);

/// Refuses operands with a plain sentence.
berth_status berth_infer_invalid(const char* text);
berth_status berth_infer_unsupported(const char* text);

/// Gives `out` the shape that `a` and `b` broadcast to, or refuses with the sizes that differ.
/// `out` is neither of them.
berth_status berth_infer_broadcast(const berth_view* a, const berth_view* b, berth_view* out);

/// True for i32 and i64.
static inline bool berth_infer_is_index(const berth_view* x) {
    return x->dtype == BERTH_I32 || x->dtype == BERTH_I64;
}

/// True if the elements of each row, along the last dimension, lie side by side.
static inline bool berth_infer_has_dense_rows(const berth_view* x) {
    return x->rank == 0 || x->dims[x->rank - 1] <= 1 || x->strides[x->rank - 1] == 1;
}

/// Type, rank and sizes of a new tensor; the byte count is checked by the caller of the rule.
berth_status berth_infer_set_new(berth_view* out,
                                 berth_dtype dtype,
                                 int64_t rank,
                                 const int64_t* dims);

static inline void berth_infer_set_shape(berth_view* out,
                                         berth_dtype dtype,
                                         int32_t rank,
                                         const int64_t* dims) {
    out->dtype = dtype;
    out->rank = rank;
    if (rank > 0) memcpy(out->dims, dims, (size_t)rank * sizeof *dims);
}

/// Gives `out` the dtype and shape of `in`.
static inline void berth_infer_set_like(berth_view* out, const berth_view* in) {
    out->dtype = in->dtype;
    out->rank = in->rank;
    memcpy(out->dims, in->dims, sizeof out->dims); // of all ranks: a few moves and no call
}

#endif // BERTH_OPS_INFER_H
