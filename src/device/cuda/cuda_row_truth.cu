// SPDX-License-Identifier: Apache-2.0
// ANY ALL.
#include "device/cuda/cuda_row_reduce.cuh"

#define REDUCE_ANYTHING(name, IS_ALL)                                                              \
    KERNEL_OF(BERTH_CUDA_ROW_THREADS, name, berth_cuda_reduce_args) {                              \
        switch (args.dtype) {                                                                      \
        case BERTH_F32:                                                                            \
            reduce<fold_truth<float, IS_ALL>>(args);                                               \
            break;                                                                                 \
        case BERTH_F16:                                                                            \
            reduce<fold_truth<f16, IS_ALL>>(args);                                                 \
            break;                                                                                 \
        case BERTH_BF16:                                                                           \
            reduce<fold_truth<bf16, IS_ALL>>(args);                                                \
            break;                                                                                 \
        case BERTH_I32:                                                                            \
            reduce<fold_truth<int32_t, IS_ALL>>(args);                                             \
            break;                                                                                 \
        case BERTH_I64:                                                                            \
            reduce<fold_truth<int64_t, IS_ALL>>(args);                                             \
            break;                                                                                 \
        default:                                                                                   \
            reduce<fold_truth<uint8_t, IS_ALL>>(args);                                             \
            break;                                                                                 \
        }                                                                                          \
    }
REDUCE_ANYTHING(any, false)
REDUCE_ANYTHING(all, true)
