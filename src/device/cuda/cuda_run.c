// SPDX-License-Identifier: Apache-2.0
// Enqueues kernels of the op that this thread is launching.
#include "device/cuda/cuda_run.h"

#include <string.h>

#include "base/error.h"
#include "device/cuda/cuda_blas.h"
#include "device/cuda/cuda_launch.h"

/// Threads that a multiprocessor has room for, and how many rounds of them a grid may have: some,
/// so that the last ones to end leave little idle.
#define RESIDENT_THREADS 2048u
#define ROUNDS 4u

typedef struct launch_in_progress {
    cuda_device* cuda; ///< NULL: none
    cu_stream stream;
    berth_status status; ///< the first failure
} launch_in_progress;

static _Thread_local launch_in_progress launching;

void berth_cuda_run_begin(cuda_device* cuda, cu_stream stream) {
    BERTH_CHECK(1, launching.cuda == NULL);
    launching = (launch_in_progress){cuda, stream, BERTH_OK};
}

berth_status berth_cuda_run_end(void) {
    const berth_status status = launching.status;
    launching = (launch_in_progress){NULL, NULL, BERTH_OK};
    return status;
}

static berth_status run(berth_cuda_kernel kernel,
                        uint32_t blocks,
                        uint32_t threads,
                        const void* arguments) {
    cuda_device* cuda = launching.cuda;
    cu_function function;
    BERTH_TRY(berth_cuda_find_function(cuda, kernel, &function));
    void* argument; // the driver copies it, and changes nothing
    memcpy(&argument, &arguments, sizeof argument);
    const cu_result result = cuda->driver.launch_kernel(
        function, blocks, 1, 1, threads, 1, 1, 0, launching.stream, &argument, NULL);
    return berth_cuda_judge(cuda, result, "cuLaunchKernel");
}

void berth_cuda_run(berth_cuda_kernel kernel,
                    uint64_t blocks,
                    uint32_t threads,
                    const void* arguments) {
    BERTH_CHECK(1, launching.cuda != NULL && kernel < BERTH_CUDA_KERNEL_COUNT);
    BERTH_CHECK(1, blocks <= INT32_MAX && threads > 0 && threads <= 1024 && threads % 32 == 0);
    if (blocks == 0 || launching.status != BERTH_OK) return;
    launching.status = run(kernel, (uint32_t)blocks, threads, arguments);
}

bool berth_cuda_try_library(const berth_cuda_library_product* product,
                            void* workspace,
                            uint64_t workspace_bytes) {
    BERTH_CHECK(1, launching.cuda != NULL);
    if (launching.status != BERTH_OK) return true; // what is enqueued after a failure is dropped
    return berth_cuda_blas_multiply(
        launching.cuda->blas, launching.stream, product, workspace, workspace_bytes);
}

uint32_t berth_cuda_query_multiprocessors(void) {
    BERTH_CHECK(1, launching.cuda != NULL);
    return launching.cuda->multiprocessors;
}

uint64_t berth_cuda_blocks_for(uint64_t count, uint32_t threads) {
    const uint64_t all = count / threads + (count % threads != 0);
    const uint64_t resident = RESIDENT_THREADS / threads > 0 ? RESIDENT_THREADS / threads : 1;
    const uint64_t most = berth_cuda_query_multiprocessors() * resident * ROUNDS;
    return all < most ? all : most;
}
