// SPDX-License-Identifier: Apache-2.0
// Launches of copies, for the launchers of other ops too.
#ifndef BERTH_DEVICE_CUDA_LAUNCH_COPY_H
#define BERTH_DEVICE_CUDA_LAUNCH_COPY_H

#include "device/cuda/cuda_launch.h"

/// Enqueues a copy of `from`, of any type and strides, to `out`, where its elements lie one after
/// another. `out` and `from` do not overlap.
void berth_cuda_copy_view(const berth_view* from, void* out);

/// An operand whose neighbours lie along another dimension than its last is first copied to the
/// output of `call`, where that has its shape and elements of its size and is no operand's place:
/// `x` is then the copy, in place of which the op goes on. One more pass over memory costs less
/// than reading across its lines.
void berth_cuda_bring_turned(const berth_op_call* call, berth_view* x);

void berth_cuda_fill_copy(berth_cuda_table* table);   ///< COPY
void berth_cuda_fill_create(berth_cuda_table* table); ///< FILL .. RANDINT

#endif // BERTH_DEVICE_CUDA_LAUNCH_COPY_H
