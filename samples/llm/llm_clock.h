// SPDX-License-Identifier: Apache-2.0
// Elapsed time for the language model sample.
#ifndef BERTH_SAMPLES_LLM_CLOCK_H
#define BERTH_SAMPLES_LLM_CLOCK_H

#include <stdint.h>
#include <time.h>

/// Nanoseconds of a clock that only goes forward.
static inline uint64_t llm_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif // BERTH_SAMPLES_LLM_CLOCK_H
