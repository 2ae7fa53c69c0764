// SPDX-License-Identifier: Apache-2.0
// What the basic kernels share: reading operands of any strides in row-major order, cutting work
// into ranges for the team.
//
// K1: a result never depends on how the work was cut nor on the number of workers.
// K2: a kernel reads an element of an operand that it may be in the place of before it writes
// there.
#ifndef BERTH_DEVICE_CPU_KERNEL_BASIC_H
#define BERTH_DEVICE_CPU_KERNEL_BASIC_H

#include "base/dtype.h"
#include "base/op_map.h"
#include "berth/op.h"
#include "device/cpu/kernel_basic_rows.h"
#include "device/cpu/kernel_convert.h"

/// Elements that kernels stage at once: a few such buffers of f32 stay in the first-level cache.
#define BERTH_CHUNK 1024

/// A view (repeated over a larger shape, perhaps) as a row-major sequence of items. Dimensions that
/// lie one behind the other in memory are merged. Items are elements, or blocks of a quantised
/// type.
typedef struct berth_walk {
    const unsigned char* data;
    berth_dtype dtype;
    int32_t rank;                    ///< 0 for a single item
    int64_t item_bytes;              ///< bytes an item
    int64_t dims[BERTH_MAX_RANK];    ///< items
    int64_t strides[BERTH_MAX_RANK]; ///< bytes
} berth_walk;

/// The sequence of `view` itself.
void berth_walk_init(berth_walk* walk, const berth_view* view);

/// The sequence of `view` repeated over `shape`'s dimensions, which it broadcasts to.
void berth_walk_init_like(berth_walk* walk, const berth_view* view, const berth_view* shape);

/// True if the items lie one behind the other.
bool berth_walk_is_contiguous(const berth_walk* walk);

/// The address of item `index`.
const unsigned char* berth_walk_at(const berth_walk* walk, int64_t index);

/// Copies items [begin, begin + count) to `target`.
void berth_walk_copy(const berth_walk* walk, int64_t begin, int64_t count, void* target);

/// Copies `count` items of `bytes` bytes, `stride` bytes apart (0 and below too), to contiguous
/// memory that they do not overlap.
void berth_copy_run(const void* from, int64_t stride, int64_t bytes, int64_t count, void* target);

/// Copies `count` contiguous items of 1, 2, 4 or 8 bytes to places `stride` bytes apart.
void berth_spread_run(const void* from, int64_t bytes, int64_t count, void* target, int64_t stride);

/// Writes one item of `bytes` bytes `count` (>= 1) times.
void berth_fill_run(const void* item, int64_t bytes, int64_t count, void* target);

/// Repeats the first `period_bytes` bytes at `target` (all of them written already) until
/// `whole_bytes` bytes are there; nothing if there are as many.
void berth_repeat_run(int64_t period_bytes, int64_t whole_bytes, void* target);

/// Writes one element of a plain type: integers toward zero, saturated, NaN as 0; bool as x != 0.
void berth_store_double(berth_dtype dtype, double value, void* target);

/// Items [begin, begin + count) of a plain type as elements of plain type `dtype`, as CAST converts
/// them; count <= BERTH_CHUNK. Where they lie if they lie so, else in `buffer`, of BERTH_CHUNK
/// elements of either type.
const void* berth_walk_as(
    const berth_walk* walk, berth_dtype dtype, int64_t begin, int64_t count, void* buffer);

/// The same as f32; `buffer` is [BERTH_CHUNK].
static inline const float* berth_walk_f32(const berth_walk* walk,
                                          int64_t begin,
                                          int64_t count,
                                          float* buffer) {
    return berth_walk_as(walk, BERTH_F32, begin, count, buffer);
}

/// Items [begin, begin + count) of a type that is no float, count <= BERTH_CHUNK, widened; always
/// in `buffer`.
void berth_walk_i64(const berth_walk* walk, int64_t begin, int64_t count, int64_t* buffer);

/// Writes `count` f32 as elements of `dtype` (a float type) at `target`.
void berth_store_f32(berth_dtype dtype, const float* values, void* target, int64_t count);

/// Writes `count` integers as elements of `dtype` (i32, i64, i8, u8), keeping the low bits.
void berth_store_i64(berth_dtype dtype, const int64_t* values, void* target, int64_t count);

static inline int64_t berth_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

/// a / b, rounded up; neither is negative.
static inline int64_t berth_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/// Which of the functions for elements of 1, 2, 4 and 8 bytes: 0 .. 3.
static inline int32_t berth_width_of(int64_t bytes) {
    return bytes == 8 ? 3 : (int32_t)(bytes / 2);
}

/// The bits of an element that make it differ from 0: of a float all but the sign.
static inline uint64_t berth_truth_mask(berth_dtype dtype) {
    if (dtype == BERTH_F32) return UINT64_C(0x7fffffff);
    return berth_dtype_is_half(dtype) ? UINT64_C(0x7fff) : UINT64_MAX;
}

/// Runs `fn` over [0, count): on the team, in multiples of `grain`, if there are at least `least`
/// items, else here. Nothing is run for count == 0.
void berth_run_range(const berth_op_call* call,
                     int64_t count,
                     int64_t grain,
                     int64_t least,
                     berth_range_fn fn,
                     void* job);

/// Where the neighbours of `x`, an operand of `call`, are not the result's, as in a transposed
/// matrix, but it has the result's shape and elements of that size: copies it to the result's
/// place, which is what COPY does best, and makes `x` that copy. What is left to compute is in
/// place.
void berth_bring_turned(const berth_op_call* call, berth_view* x);

/// Runs `fn` over the elements [0, count) of a result that is made of the operands that `walks`
/// [walk_count] go over, all of the result's shape. In ranges as berth_run_range() makes them; but
/// where an operand's neighbours are not the result's, as in a transposed matrix, in short ones
/// that make up squares, so that each cache line is read while it is at hand.
void berth_run_elements(const berth_op_call* call,
                        int64_t count,
                        int64_t least,
                        const berth_walk* const* walks,
                        uint32_t walk_count,
                        berth_range_fn fn,
                        void* job);

/// A tensor cut at one dimension: element [outer, r, inner] is item
/// (outer * size + r) * inner_count + inner of its sequence.
typedef struct berth_cut {
    int64_t outer_count;
    int64_t size; ///< of the dimension
    int64_t inner_count;
} berth_cut;

/// Item `index` of the first dimension of a view of a plain type.
berth_view berth_view_at(const berth_view* view, int64_t index);

/// Cuts the shape of `view` at `dim`, which is at least 0 and below its rank.
berth_cut berth_view_cut(const berth_view* view, int32_t dim);

// The kernels of each file, [op id] = kernel.

void berth_cpu_fill_create_kernels(berth_kernel* table);          ///< FILL ARANGE NOOP
void berth_cpu_fill_random_kernels(berth_kernel* table);          ///< RAND RANDN RANDINT
void berth_cpu_fill_cast_kernels(berth_kernel* table);            ///< CAST
void berth_cpu_fill_unary_kernels(berth_kernel* table);           ///< AFFINE .. ISFINITE
void berth_cpu_fill_binary_kernels(berth_kernel* table);          ///< ADD .. OUTER
void berth_cpu_fill_reduce_kernels(berth_kernel* table);          ///< SUM .. ALL
void berth_cpu_fill_softmax_kernels(berth_kernel* table);         ///< SOFTMAX LOG_SOFTMAX
void berth_cpu_fill_cumsum_kernels(berth_kernel* table);          ///< CUMSUM
void berth_cpu_fill_norm_kernels(berth_kernel* table);            ///< LAYER_NORM RMS_NORM
void berth_cpu_fill_rope_kernels(berth_kernel* table);            ///< ROPE
void berth_cpu_fill_attention_kernels(berth_kernel* table);       ///< ATTENTION
void berth_cpu_fill_paged_attention_kernels(berth_kernel* table); ///< PAGED_ATTENTION
void berth_cpu_fill_copy_kernels(berth_kernel* table);            ///< COPY
void berth_cpu_fill_join_kernels(berth_kernel* table);            ///< CAT .. ROLL
void berth_cpu_fill_fit_kernels(berth_kernel* table);             ///< REPEAT PAD TRIL TRIU
void berth_cpu_fill_gather_kernels(berth_kernel* table);          ///< EMBEDDING .. INDEX_SELECT
void berth_cpu_fill_scatter_kernels(berth_kernel* table); ///< INDEX_COPY SCATTER SCATTER_ADD
void berth_cpu_fill_sort_kernels(berth_kernel* table);    ///< SORT ARGSORT TOPK
void berth_cpu_fill_select_kernels(berth_kernel* table);  ///< NONZERO MASKED_SELECT
void berth_cpu_fill_unique_kernels(berth_kernel* table);  ///< UNIQUE

#endif // BERTH_DEVICE_CPU_KERNEL_BASIC_H
