// SPDX-License-Identifier: Apache-2.0
// Attention over blocks for the library's own cache, which also writes into them.
#ifndef BERTH_EXEC_PAGED_ATTENTION_H
#define BERTH_EXEC_PAGED_ATTENTION_H

#include "exec/exec_impl.h"

/// As berth_paged_attention(), but that rows of `sequences` [S, 6] go on with {first row of k and
/// v, rows}: these are written into the sequence's blocks, as its last keys, before anything is
/// read. k [U, K, D] and v [U, K, Dv] are floats; both may be NULL, with `sequences` [S, 4]. The
/// tables are the caller's own: nobody checks them.
///
/// This alone changes operands, `key_blocks` and `value_blocks`: what a user of the library holds
/// is never changed by an op, so these must be the library's.
berth_tensor* berth_dispatch_paged_attention(berth_context* ctx,
                                             berth_tensor* q,
                                             berth_tensor* k,
                                             berth_tensor* v,
                                             berth_tensor* key_blocks,
                                             berth_tensor* value_blocks,
                                             berth_tensor* sequences,
                                             berth_tensor* blocks,
                                             float scale);

#endif // BERTH_EXEC_PAGED_ATTENTION_H
