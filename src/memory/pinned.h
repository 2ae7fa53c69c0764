// SPDX-License-Identifier: Apache-2.0
// Page-locked host memory for transfers, with a bound on all of it together. Thread-safe.
#ifndef BERTH_MEMORY_PINNED_H
#define BERTH_MEMORY_PINNED_H

#include "device/device.h"

typedef struct berth_pinned berth_pinned;

/// `device` is borrowed and outlives the result; at most `cap_bytes` bytes are out at any time.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory).
BERTH_NODISCARD berth_status berth_pinned_create(const berth_host* host,
                                                 berth_device* device,
                                                 uint64_t cap_bytes,
                                                 berth_pinned** out_pinned);
/// Accepts NULL. What is still out is given back.
void berth_pinned_destroy(berth_pinned* pinned);

/// Takes `bytes` bytes, rounded up to pages; at least one page.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (over the cap, or the system's refusal), BERTH_ERR_OVERFLOW,
///         BERTH_ERR_UNSUPPORTED; then `*out_data` is NULL and nothing changed.
BERTH_NODISCARD berth_status berth_pinned_take(berth_pinned* pinned,
                                               uint64_t bytes,
                                               void** out_data);
/// Gives a block back; false if `data` is none that is out.
bool berth_pinned_give(berth_pinned* pinned, const void* data);

/// Bytes that are out now, rounded to pages; exact.
uint64_t berth_pinned_query_bytes(berth_pinned* pinned);

#endif // BERTH_MEMORY_PINNED_H
