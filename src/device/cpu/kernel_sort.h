// SPDX-License-Identifier: Apache-2.0
// What the op table needs of the kernels that sort and select: workspaces, counting kernels.
#ifndef BERTH_DEVICE_CPU_KERNEL_SORT_H
#define BERTH_DEVICE_CPU_KERNEL_SORT_H

#include "base/op_map.h"
#include "berth/op.h"

uint64_t berth_cpu_sort_scratch(const berth_op_call* call);
uint64_t berth_cpu_argsort_scratch(const berth_op_call* call);
uint64_t berth_cpu_topk_scratch(const berth_op_call* call);
uint64_t berth_cpu_nonzero_scratch(const berth_op_call* call);
uint64_t berth_cpu_masked_select_scratch(const berth_op_call* call);
uint64_t berth_cpu_unique_scratch(const berth_op_call* call);

void berth_cpu_nonzero_count(const berth_op_call* call);
void berth_cpu_masked_select_count(const berth_op_call* call);
void berth_cpu_unique_count(const berth_op_call* call);

#endif // BERTH_DEVICE_CPU_KERNEL_SORT_H
