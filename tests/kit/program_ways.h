// SPDX-License-Identifier: Apache-2.0
// The ways of managing memory that random programs are run in: what they compute must not differ.
#ifndef BERTH_TEST_PROGRAM_WAYS_H
#define BERTH_TEST_PROGRAM_WAYS_H

#include <stdbool.h>

#include "berth/runtime.h"

/// Settings of a runtime, and whether what its steps have learned is tampered with meanwhile.
typedef struct program_way {
    const char* name;
    berth_option_setting settings[5];
    size_t count;
    /// Size models are made wrong and plans are dropped or replaced at random moments.
    bool tampers;
    /// Somebody else has taken all memory, and gives it up when an out-of-memory callback asks.
    bool hoards;
} program_way;

/// No plans: what the others are compared with.
extern const program_way program_reference;

/// All others, [*out_count].
const program_way* program_ways(size_t* out_count);

#endif // BERTH_TEST_PROGRAM_WAYS_H
