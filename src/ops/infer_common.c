// SPDX-License-Identifier: Apache-2.0
// What the checks and shape rules share.
#include <inttypes.h>
#include <string.h>

#include "ops/infer.h"

berth_status berth_infer_refuse_dtype(berth_dtype dtype, const char* accepted) {
    return berth_op_fail(BERTH_ERR_UNSUPPORTED,
                         "%s is not accepted here: %s",
                         berth_dtype_info_of(dtype)->name,
                         accepted);
}

berth_status berth_infer_invalid(const char* text) {
    return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "%s", text);
}

berth_status berth_infer_unsupported(const char* text) {
    return berth_op_fail(BERTH_ERR_UNSUPPORTED, "%s", text);
}

berth_status berth_infer_set_new(berth_view* out,
                                 berth_dtype dtype,
                                 int64_t rank,
                                 const int64_t* dims) {
    if (berth_dtype_query_info(dtype) == NULL)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "%d is no element type", (int)dtype);
    if (!berth_dtype_is_plain(dtype))
        return berth_infer_refuse_dtype(dtype, "quantised tensors come from memory only");
    if (rank < 0 || rank > BERTH_MAX_RANK)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "rank %" PRId64 " is outside 0 .. %d",
                             rank,
                             BERTH_MAX_RANK);
    berth_infer_set_shape(out, dtype, (int32_t)rank, dims);
    return BERTH_OK;
}

berth_status berth_infer_check_plain(const berth_view* x) {
    if (berth_dtype_is_plain(x->dtype)) return BERTH_OK;
    return berth_infer_refuse_dtype(x->dtype, "any plain type");
}

berth_status berth_infer_check_number(const berth_view* x) {
    if (berth_dtype_is_float(x->dtype) || berth_dtype_is_integer(x->dtype)) return BERTH_OK;
    return berth_infer_refuse_dtype(x->dtype, "any float or integer type");
}

berth_status berth_infer_check_float(const berth_view* x) {
    if (berth_dtype_is_float(x->dtype)) return BERTH_OK;
    return berth_infer_refuse_dtype(x->dtype, "f32, f16 or bf16");
}

berth_status berth_infer_check_dim(int32_t dim, int32_t count) {
    if (dim >= 0 && dim < count) return BERTH_OK;
    return berth_op_fail(
        BERTH_ERR_INVALID_ARGUMENT, "there is no dimension %d among %d", (int)dim, (int)count);
}

berth_status berth_infer_broadcast(const berth_view* a, const berth_view* b, berth_view* out) {
    if (berth_shape_broadcast(a->rank, a->dims, b->rank, b->dims, &out->rank, out->dims))
        return BERTH_OK;
    int32_t back = 1; // dimensions are compared from the last one on
    while (a->dims[a->rank - back] == b->dims[b->rank - back] || a->dims[a->rank - back] == 1 ||
           b->dims[b->rank - back] == 1)
        ++back;
    return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                         "the shapes do not broadcast: dimension -%d is %" PRId64 " and %" PRId64,
                         (int)back,
                         a->dims[a->rank - back],
                         b->dims[b->rank - back]);
}
