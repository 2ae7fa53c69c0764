// SPDX-License-Identifier: Apache-2.0
// Monotonic time, replaceable so that no test waits on a clock.
#ifndef BERTH_BASE_CLOCK_H
#define BERTH_BASE_CLOCK_H

#include <stdint.h>

/// A source of time.
typedef struct berth_clock_source {
    uint64_t (*now_ns)(void* self); ///< called from any thread
    void* self;
} berth_clock_source;

/// Nanoseconds since some moment; never runs backwards.
uint64_t berth_clock_now_ns(void);

/// CPU time of the calling thread; 0 where the system does not tell. Not replaced.
uint64_t berth_clock_thread_ns(void);

/// For tests: takes the time from `source` (borrowed, lives until replaced), or from the system
/// again if NULL.
void berth_clock_set_source(const berth_clock_source* source);

#endif // BERTH_BASE_CLOCK_H
