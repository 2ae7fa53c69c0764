// SPDX-License-Identifier: Apache-2.0
// What launchers call, without a device, a stream or a driver: kernels run at once on host memory.
#include "cuda/direct_run.h"

#include "cuda/emulation.h"
#include "device/cuda/cuda_launch.h"

enum { MULTIPROCESSORS = 4 };

static berth_cuda_kernel first = BERTH_CUDA_KERNEL_COUNT;

void direct_run_watch(void) { first = BERTH_CUDA_KERNEL_COUNT; }

berth_cuda_kernel direct_run_first(void) { return first; }

void berth_cuda_run(berth_cuda_kernel kernel,
                    uint64_t blocks,
                    uint32_t threads,
                    const void* arguments) {
    if (first == BERTH_CUDA_KERNEL_COUNT) first = kernel;
    emulation_run(kernel, blocks, threads, arguments);
}

bool berth_cuda_try_library(const berth_cuda_library_product* product,
                            void* workspace,
                            uint64_t workspace_bytes) {
    (void)product;
    (void)workspace;
    (void)workspace_bytes;
    return false;
}

uint32_t berth_cuda_query_multiprocessors(void) { return MULTIPROCESSORS; }

uint64_t berth_cuda_blocks_for(uint64_t count, uint32_t threads) {
    const uint64_t all = (count + threads - 1) / threads;
    // As many as the device holds at once, 2048 threads a multiprocessor.
    const uint64_t most = (uint64_t)MULTIPROCESSORS * (2048 / threads);
    return all < most ? all : most;
}
