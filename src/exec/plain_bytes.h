// SPDX-License-Identifier: Apache-2.0
// The end of plain bytes; their beginning is public.
#ifndef BERTH_EXEC_PLAIN_BYTES_H
#define BERTH_EXEC_PLAIN_BYTES_H

#include "exec/exec_impl.h"

/// Gives back what of berth_alloc() is still out. The context is ending; its pool is still there.
void berth_plain_bytes_end(berth_context* context);

/// True if the address is one of bytes of berth_alloc() on this context that are still out. Under
/// the context's lock. O(blocks that are out).
bool berth_plain_bytes_have(const berth_context* context, const void* data);

#endif // BERTH_EXEC_PLAIN_BYTES_H
