// SPDX-License-Identifier: Apache-2.0
// The system's monotonic clock behind a replaceable source.
#include "base/clock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

static _Atomic(const berth_clock_source*) current;

uint64_t berth_clock_now_ns(void) {
    const berth_clock_source* source = atomic_load_explicit(&current, memory_order_acquire);
    if (source != NULL) return source->now_ns(source->self);
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); // cannot fail for this clock
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t berth_clock_thread_ns(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void berth_clock_set_source(const berth_clock_source* source) {
    atomic_store_explicit(&current, source, memory_order_release);
}
