// SPDX-License-Identifier: Apache-2.0
// What every reduction of floats over one dimension does alike: lines along the last dimension,
// tiles of neighbouring columns along another one.
#ifndef BERTH_DEVICE_CPU_KERNEL_REDUCE_H
#define BERTH_DEVICE_CPU_KERNEL_REDUCE_H

#include "device/cpu/kernel_basic.h"

#define BERTH_REDUCE_TILE 128 ///< columns reduced side by side, at most

/// An operand and the dimension that is reduced.
typedef struct berth_reduced {
    berth_walk x;
    berth_cut cut;
    const berth_basic_rows* rows;
} berth_reduced;

/// Begins the reduction of `view` over its dimension `dim`.
void berth_reduced_init(berth_reduced* from, const berth_view* view, int32_t dim);

/// The number of the first item of output `output`.
static inline int64_t berth_reduced_first(const berth_reduced* from, int64_t output) {
    const int64_t inner = from->cut.inner_count;
    return output / inner * from->cut.size * inner + output % inner;
}

/// The largest of the cut.size items from `first` on, or a NaN if there is one.
float berth_reduced_max_line(const berth_reduced* from, int64_t first);
/// As max_line for each of the `width` columns whose first items are `first` and those after it.
void berth_reduced_max_tile(const berth_reduced* from,
                            int64_t first,
                            int64_t width,
                            float* largest);
/// Adds the partial sums of each of `width` columns to `total` and clears them.
void berth_reduced_collapse(const berth_reduced* from,
                            float partial[BERTH_PARTIALS][BERTH_REDUCE_TILE],
                            double* total,
                            int64_t width);

#endif // BERTH_DEVICE_CPU_KERNEL_REDUCE_H
