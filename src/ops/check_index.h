// SPDX-License-Identifier: Apache-2.0
// Looks at the indices of a call: each a berth_op_desc's check_data, which refuses those that are
// out of range.
#ifndef BERTH_OPS_CHECK_INDEX_H
#define BERTH_OPS_CHECK_INDEX_H

#include "berth/op.h"

/// Of EMBEDDING: ids for dimension 0.
berth_status berth_check_embedding(const berth_op_call* call);

/// Of every other op with an index: operand 1, for the dimension that berth_index_params names.
berth_status berth_check_along(const berth_op_call* call);

#endif // BERTH_OPS_CHECK_INDEX_H
