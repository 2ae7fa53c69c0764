// SPDX-License-Identifier: Apache-2.0
// Looks through the tables of a paged cache: a berth_op_desc's check_data.
#ifndef BERTH_OPS_CHECK_PAGED_H
#define BERTH_OPS_CHECK_PAGED_H

#include "berth/op.h"

/// Of PAGED_ATTENTION: refuses tables of which a number does not fit the operands, unless the
/// library made them. That no two sequences write one place of a block is not looked at: public ops
/// write none, and the library's tables give each new key a place of its own.
berth_status berth_check_paged_attention(const berth_op_call* call);

#endif // BERTH_OPS_CHECK_PAGED_H
