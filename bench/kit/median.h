// SPDX-License-Identifier: Apache-2.0
// The median, by which benchmarks judge their samples: one disturbed round moves it little.
#ifndef BERTH_BENCH_MEDIAN_H
#define BERTH_BENCH_MEDIAN_H

#include <stdlib.h>

static inline int bench_compare_doubles(const void* a, const void* b) {
    const double* x = a;
    const double* y = b;
    return (*x > *y) - (*x < *y);
}

/// The median of `samples` [count], count > 0, which are put in order; of an even number the mean
/// of the middle two.
static inline double bench_median(double* samples, int count) {
    qsort(samples, (size_t)count, sizeof *samples, bench_compare_doubles);
    const double upper = samples[count / 2];
    return count % 2 != 0 ? upper : 0.5 * (samples[count / 2 - 1] + upper);
}

#endif // BERTH_BENCH_MEDIAN_H
