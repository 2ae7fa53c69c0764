// SPDX-License-Identifier: Apache-2.0
// Matrix products on the CPU: the workspace that the MATMUL and LINEAR kernels ask for.
#ifndef BERTH_DEVICE_CPU_KERNEL_MATRIX_H
#define BERTH_DEVICE_CPU_KERNEL_MATRIX_H

#include "berth/op.h"

/// Workspace of each kernel in bytes for checked operands. Depends on dtypes, shapes, strides, the
/// number of workers and call->batch_invariant, never on data.
uint64_t berth_cpu_linear_scratch(const berth_op_call* call);
uint64_t berth_cpu_matmul_scratch(const berth_op_call* call);

#endif // BERTH_DEVICE_CPU_KERNEL_MATRIX_H
