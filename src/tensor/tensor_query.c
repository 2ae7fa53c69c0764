// SPDX-License-Identifier: Apache-2.0
// What a tensor is: plain reads.
#include "tensor/tensor_impl.h"

berth_dtype berth_tensor_dtype(const berth_tensor* tensor) {
    return tensor != NULL ? (berth_dtype)tensor->dtype : BERTH_DTYPE_COUNT;
}

int32_t berth_tensor_rank(const berth_tensor* tensor) { return tensor != NULL ? tensor->rank : -1; }

int64_t berth_tensor_dim(const berth_tensor* tensor, int32_t dim) {
    if (tensor == NULL || !berth_shape_normalize_dim(tensor->rank, &dim)) return -1;
    return tensor->dims[dim];
}

const int64_t* berth_tensor_dims(const berth_tensor* tensor) {
    return tensor != NULL ? tensor->dims : NULL;
}

const int64_t* berth_tensor_strides(const berth_tensor* tensor) {
    return tensor != NULL ? tensor->strides : NULL;
}

int64_t berth_tensor_count(const berth_tensor* tensor) {
    return tensor != NULL ? berth_shape_count(tensor->rank, tensor->dims) : 0;
}

uint64_t berth_tensor_bytes(const berth_tensor* tensor) {
    if (tensor == NULL) return 0;
    const berth_dtype_info* info = berth_dtype_info_of((berth_dtype)tensor->dtype);
    return (uint64_t)berth_tensor_count(tensor) / info->block_values * info->block_bytes;
}

bool berth_tensor_is_contiguous(const berth_tensor* tensor) {
    return tensor != NULL && tensor->is_dense;
}
