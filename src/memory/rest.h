// SPDX-License-Identifier: Apache-2.0
// Why mapped memory is not given back: every mapped byte of a pool or an arena has one reason.
#ifndef BERTH_MEMORY_REST_H
#define BERTH_MEMORY_REST_H

#include <stdint.h>

typedef struct berth_rest {
    uint64_t in_use_bytes;     ///< live blocks with their rounding, frames of open steps
    uint64_t held_bytes;       ///< granules of frames that hold values which outlived their step
    uint64_t fragmented_bytes; ///< free, in granules that also hold live blocks
    uint64_t in_flight_bytes;  ///< free granules that enqueued work may still use
    uint64_t kept_bytes;       ///< idle granules that were to be kept
    uint64_t busy_bytes;       ///< what another thread is mapping, moving or about to use
    uint64_t refused_bytes;    ///< idle granules that the system did not take back
} berth_rest;

#endif // BERTH_MEMORY_REST_H
