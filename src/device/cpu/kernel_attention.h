// SPDX-License-Identifier: Apache-2.0
// The workspace of attention.
#ifndef BERTH_DEVICE_CPU_KERNEL_ATTENTION_H
#define BERTH_DEVICE_CPU_KERNEL_ATTENTION_H

#include "berth/op.h"

/// Bytes of scratch of an ATTENTION call: from its shapes and the team's number of workers alone,
/// never from data.
uint64_t berth_cpu_attention_scratch(const berth_op_call* call);

#endif // BERTH_DEVICE_CPU_KERNEL_ATTENTION_H
