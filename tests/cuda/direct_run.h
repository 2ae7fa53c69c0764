// SPDX-License-Identifier: Apache-2.0
// Watches which kernels launchers run on host memory (direct_run.c).
#ifndef BERTH_TESTS_CUDA_DIRECT_RUN_H
#define BERTH_TESTS_CUDA_DIRECT_RUN_H

#include "device/cuda/cuda_kernels.h"

/// Forgets what has run.
void direct_run_watch(void);
/// The first kernel since; BERTH_CUDA_KERNEL_COUNT: none.
berth_cuda_kernel direct_run_first(void);

#endif // BERTH_TESTS_CUDA_DIRECT_RUN_H
