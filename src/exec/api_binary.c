// SPDX-License-Identifier: Apache-2.0
// The public ops on two operands.
#include "exec/api.h"

#define DEFINE_BINARY(name, ID)                                                                    \
    berth_tensor* berth_##name(berth_context* ctx, berth_tensor* a, berth_tensor* b) {             \
        return berth_api_dispatch_two(ctx, BERTH_OP_##ID, a, b);                                   \
    }
DEFINE_BINARY(add, ADD)
DEFINE_BINARY(sub, SUB)
DEFINE_BINARY(mul, MUL)
DEFINE_BINARY(div, DIV)
DEFINE_BINARY(minimum, MINIMUM)
DEFINE_BINARY(maximum, MAXIMUM)
