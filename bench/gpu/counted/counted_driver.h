// SPDX-License-Identifier: Apache-2.0
// What the counted driver tells of the calls through it.
#ifndef BERTH_BENCH_COUNTED_DRIVER_H
#define BERTH_BENCH_COUNTED_DRIVER_H

#include <stdint.h>

typedef struct counted_function {
    const char* symbol;
    const uint64_t* calls;
} counted_function;

/// All functions, ended by a symbol of NULL: the library's one export beside the driver's.
const counted_function* counted_functions(void);

#endif // BERTH_BENCH_COUNTED_DRIVER_H
