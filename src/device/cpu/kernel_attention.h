// SPDX-License-Identifier: Apache-2.0
// The workspaces of the attention ops.
#ifndef BERTH_DEVICE_CPU_KERNEL_ATTENTION_H
#define BERTH_DEVICE_CPU_KERNEL_ATTENTION_H

#include "berth/op.h"

/// Bytes of scratch of an ATTENTION call: from its shapes and the team's number of workers alone,
/// never from data.
uint64_t berth_cpu_attention_scratch(const berth_op_call* call);

/// The same of a PAGED_ATTENTION call: linear in its sequences and in the entries of its table.
uint64_t berth_cpu_paged_attention_scratch(const berth_op_call* call);

#endif // BERTH_DEVICE_CPU_KERNEL_ATTENTION_H
