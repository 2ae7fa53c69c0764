// SPDX-License-Identifier: Apache-2.0
// ANY ALL.
#include "device/cuda/cuda_row_reduce.cuh"

KERNEL_OF(BERTH_CUDA_ROW_THREADS, any, berth_cuda_reduce_args) {
    with_plain(args.dtype, [&](auto x) { reduce<fold_truth<decltype(x), false>>(args); });
}

KERNEL_OF(BERTH_CUDA_ROW_THREADS, all, berth_cuda_reduce_args) {
    with_plain(args.dtype, [&](auto x) { reduce<fold_truth<decltype(x), true>>(args); });
}
