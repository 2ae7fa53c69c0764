// SPDX-License-Identifier: Apache-2.0
// Granules that are populated ahead of their use, for whoever asks first: they are moved into the
// addresses where they are wanted and back again, which costs far less than populating them. (A
// device that moves by copying, as the CPU does without huge pages, spares nothing but the
// failure.)
#ifndef BERTH_MEMORY_PAGE_AHEAD_H
#define BERTH_MEMORY_PAGE_AHEAD_H

#include "base/thread.h"
#include "device/device.h"

typedef struct berth_page_ahead {
    berth_mutex lock; ///< held around device calls: the granules stand in one row
    bool has_lock;
    berth_space* space; ///< NULL: nothing is populated ahead
    uint64_t bytes;     ///< mapped, from the start of the space on
} berth_page_ahead;

/// Populates `bytes`, a multiple of the granule, > 0. `*ahead` is zeroed before.
/// Errors: BERTH_ERR_UNSUPPORTED on a device that cannot move granules, BERTH_ERR_OUT_OF_MEMORY,
///         BERTH_ERR_DEVICE; then there is nothing to fini.
BERTH_NODISCARD berth_status berth_page_ahead_init(berth_page_ahead* ahead,
                                                   berth_device* device,
                                                   uint64_t bytes);
/// Gives everything back to the system. Accepts a zeroed one.
void berth_page_ahead_fini(berth_page_ahead* ahead);

/// Moves `size` bytes, which are there, to an unmapped stretch of another space. All or nothing.
BERTH_NODISCARD berth_status berth_page_ahead_draw(berth_page_ahead* ahead,
                                                   uint64_t size,
                                                   berth_space* space,
                                                   uint64_t offset);
/// Moves a mapped stretch here, for which there is room. No pending work uses it. All or nothing.
BERTH_NODISCARD berth_status berth_page_ahead_add(berth_page_ahead* ahead,
                                                  berth_space* space,
                                                  uint64_t offset,
                                                  uint64_t size);

#endif // BERTH_MEMORY_PAGE_AHEAD_H
