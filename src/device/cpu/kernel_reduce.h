// SPDX-License-Identifier: Apache-2.0
// What every reduction does alike.
//
// An output's elements are folded in blocks of BERTH_CHUNK, in row-major order of the reduced
// dimensions, and the blocks' results are merged in that order, whoever computed them. A block is a
// stretch of a line, whose elements follow each other, or a tile of neighbouring columns that go
// through the same operations side by side: so an output has the same bits for every layout of its
// operand.
#ifndef BERTH_DEVICE_CPU_KERNEL_REDUCE_H
#define BERTH_DEVICE_CPU_KERNEL_REDUCE_H

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"
#include "device/cpu/kernel_reduce_rows.h"

#define BERTH_REDUCE_TILE 128 ///< columns reduced side by side, at most

/// An operand cut for reduction: its items in the order [outer, reduced, inner], so that element r
/// of output (outer, inner) is item (outer * size + r) * inner_count + inner of `x`.
typedef struct berth_reduced {
    berth_walk x;
    berth_cut cut;
    const berth_basic_rows* basic;
    const berth_reduce_rows* rows;
} berth_reduced;

/// Cuts `view` at the one dimension in `mask`, its items in their own order.
void berth_reduced_init(berth_reduced* from, const berth_view* view, uint32_t mask);

/// Cuts `view` at the dimensions in `mask`, as is best for folding them: outputs are in row-major
/// order of the others.
void berth_reduced_init_folded(berth_reduced* from, const berth_view* view, uint32_t mask);

/// The number of the first item of output `output`.
static inline int64_t berth_reduced_first(const berth_reduced* from, int64_t output) {
    const int64_t inner = from->cut.inner_count;
    return output / inner * from->cut.size * inner + output % inner;
}

/// Row `r` of the tile of `width` columns of floats whose first item is `first`.
static inline const float* berth_reduced_row(
    const berth_reduced* from, int64_t first, int64_t r, int64_t width, float* buffer) {
    return berth_walk_f32(&from->x, first + r * from->cut.inner_count, width, buffer);
}

/// Partial results of a tile's columns: element r goes to number r % BERTH_PARTIALS.
typedef float berth_tile_partials[BERTH_PARTIALS][BERTH_REDUCE_TILE];

/// Adds row `r`, `x`, to its partial sums; those of the first rows begin with them.
void berth_reduced_add(const berth_reduced* from,
                       berth_tile_partials partial,
                       int64_t r,
                       const float* x,
                       int64_t width);

/// The sums of the partial sums of `count` rows, in partial[0]: with the same bits as of a line.
void berth_reduced_collapse(const berth_reduced* from,
                            berth_tile_partials partial,
                            int64_t count,
                            int64_t width);

/// The largest (or the least) of the `count` items from `first` on, or a NaN if there is one.
float berth_reduced_extreme(const berth_reduced* from, int64_t first, int64_t count, bool is_least);

/// The same for each of the `width` columns whose first items are `first` and those after it.
void berth_reduced_tile_extreme(const berth_reduced* from,
                                int64_t first,
                                int64_t count,
                                int64_t width,
                                bool is_least,
                                float* out);

// --- Folds ---------------------------------------------------------------------------------------

/// What is known of some elements of one output.
typedef struct berth_fold {
    double value;    ///< of floats: sum, product, extreme, mean or shift
    double second;   ///< sum of squared deviations from the mean, or of powers
    int64_t integer; ///< of integers and truth values
    int64_t where;   ///< place of the extreme among the elements
} berth_fold;

typedef struct berth_reduce_job {
    berth_reduced from;
    const struct berth_reduction* how;
    unsigned char* out;
    berth_dtype out_dtype;
    int64_t out_bytes; ///< an element
    double correction; ///< of a variance
} berth_reduce_job;

/// How the elements of an output become one.
typedef struct berth_reduction {
    /// Folds the `count` (1 .. BERTH_CHUNK) items from `first` on.
    void (*line)(const berth_reduced* from, int64_t first, int64_t count, berth_fold* out);
    /// Folds `count` (1 .. BERTH_CHUNK) rows of `width` (1 .. BERTH_REDUCE_TILE) columns.
    void (*tile)(
        const berth_reduced* from, int64_t first, int64_t count, int64_t width, berth_fold* out);
    /// Joins `block`, of `block_count` elements, to `total`, of the `count` > 0 before.
    void (*merge)(berth_fold* total, int64_t count, const berth_fold* block, int64_t block_count);
    /// Writes `width` outputs.
    void (*finish)(const berth_reduce_job* job, const berth_fold* totals, int64_t width, void* out);
    berth_fold nothing; ///< what no element folds to
} berth_reduction;

/// A `finish` that writes the places of extremes.
void berth_reduced_finish_places(const berth_reduce_job* job,
                                 const berth_fold* totals,
                                 int64_t width,
                                 void* out);

/// How op `op` reduces floats, one of SUM .. LOGSUMEXP, or integers, one of those that take them.
const berth_reduction* berth_reduction_of_floats(berth_op_id op);
const berth_reduction* berth_reduction_of_integers(berth_op_id op);
/// How ANY or ALL reduces elements of any plain type.
const berth_reduction* berth_reduction_of_truths(berth_op_id op);

#endif // BERTH_DEVICE_CPU_KERNEL_REDUCE_H
