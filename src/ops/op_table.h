// SPDX-License-Identifier: Apache-2.0
// Ops layer: one row for each op. Knows nothing of plans, storages or contexts.
//
// O1: a shape rule depends on shapes, types and parameters, never on data.
// O2: what a kernel gets has passed the checks: kernels test nothing.
#ifndef BERTH_OPS_OP_TABLE_H
#define BERTH_OPS_OP_TABLE_H

#include "base/op_map.h"
#include "base/op_params.h"
#include "berth/op.h"

/// The built-in ops, indexed by berth_op_id.
extern const berth_op_desc berth_op_table[BERTH_OP_COUNT];

/// What an op's `kernels` or `counters` have for a kind of device; NULL if nothing.
static inline berth_kernel berth_op_kernel_for(const berth_kernel* kernels,
                                               berth_device_kind kind) {
    const bool borrows = kind == BERTH_DEVICE_SIM || kind == BERTH_DEVICE_DRY;
    if (kernels[kind] == NULL && borrows) return kernels[BERTH_DEVICE_CPU];
    return kernels[kind];
}

#endif // BERTH_OPS_OP_TABLE_H
