// SPDX-License-Identifier: Apache-2.0
// Products of few rows of halves by tensor cores, whose time is that of reading b once: each warp
// of a block has segments of the depth of the same columns, reads them from global memory straight
// into the registers that the instruction takes, many at a time, and the segments' sums meet in
// shared memory.
#include "device/cuda/cuda_product_halves.cuh"

namespace {

constexpr uint32_t THREADS = 256;
constexpr int WARPS = (int)(THREADS / BERTH_CUDA_WARP);
constexpr int64_t ROUND = WARPS * PRODUCT_SEGMENT; // of the depth, by all warps

/// GROUPS of 16 columns by ROW_GROUPS of 8 rows, STEPS of the depth asked for at a time.
/// IS_ACROSS: b's columns are side by side. IS_WHOLE: every 8 elements that a thread reads are
/// aligned to 16 bytes, and all there or none.
template <int GROUPS_, int ROW_GROUPS_, int STEPS_, bool IS_ACROSS_, bool IS_WHOLE_>
struct few_shape {
    static constexpr int GROUPS = GROUPS_, ROW_GROUPS = ROW_GROUPS_, STEPS = STEPS_;
    static constexpr bool IS_ACROSS = IS_ACROSS_, IS_WHOLE = IS_WHOLE_;
    static constexpr int COLUMNS = 16 * GROUPS, ROWS = 8 * ROW_GROUPS;
    static constexpr int PITCH = COLUMNS + 4; ///< of a row of sums: rows lie in other banks
    static constexpr int OUTPUTS = (COLUMNS * ROWS + (int)THREADS - 1) / (int)THREADS;
};

/// What a thread reads: lines lane / 4 of each 8, from k = lane % 4 * 8 on in a step. Of a b that
/// lies across the depth it reads eight columns of some k instead.
template <class T, class S> struct few_operands {
    const T* a[S::ROW_GROUPS];
    const T* b[S::IS_ACROSS ? 1 : 2 * S::GROUPS];
    int rows;    ///< bits: a[i] is there
    int columns; ///< the same of b; across: how many of the eight are
};

/// What it has read: a number of steps of both operands.
template <class S> struct few_steps {
    stretch a[S::STEPS][S::ROW_GROUPS];
    stretch b[S::STEPS][2 * S::GROUPS];
};

template <class T, class S>
DEVICE few_operands<T, S> find_operands(const berth_cuda_product_args& args,
                                        const batch_place& place,
                                        int64_t row0,
                                        int64_t column0) {
    const int lane = (int)(thread_index() % BERTH_CUDA_WARP);
    few_operands<T, S> own = {};
    UNROLL
    for (int r = 0; r < S::ROW_GROUPS; ++r) {
        const int64_t row = row0 + r * 8 + lane / 4;
        own.a[r] = (const T*)args.a;
        if (row >= args.rows) continue;
        own.a[r] += place.a + row_of_a(args, row);
        own.rows |= 1 << r;
    }
    if constexpr (S::IS_ACROSS) {
        const int64_t column = column0 + lane % 4 * 8, left = args.columns - column;
        own.columns = left <= 0 ? 0 : left < 8 ? (int)left : 8;
        own.b[0] = (const T*)args.b + (left > 0 ? place.b + column : 0);
    } else {
        UNROLL
        for (int c = 0; c < 2 * S::GROUPS; ++c) {
            const int64_t column = column0 + c * 8 + lane / 4;
            own.b[c] = (const T*)args.b;
            if (column >= args.columns) continue;
            own.b[c] += place.b + column * args.b_column;
            own.columns |= 1 << c;
        }
    }
    return own;
}

/// The first `count` of eight elements, the rest zeros.
template <class T, bool IS_WHOLE>
DEVICE eight load_some(const T* from, int64_t step, bool is_vector, int64_t count) {
    if constexpr (!IS_WHOLE) return load_eight(from, step, is_vector, count);
    eight made = {};
    if (count > 0) made = *(const eight*)(const void*)from;
    return made;
}

DEVICE stretch stretch_of(const eight& from) {
    return {{from.of[0], from.of[1], from.of[2], from.of[3]}};
}

/// A step of 32 columns that lie side by side: four loads, each of which gives eight columns of one
/// k to a thread, two to a register. Register g of all threads of the warp is a matrix [8 of k, 8
/// columns]; turned, it is two of k of line lane / 4, as a stretch has them. Line l of stretch g is
/// column l / 2 * 8 + 2 * g + l % 2.
template <class T, bool IS_WHOLE>
DEVICE void load_step_across(
    const T* from, int64_t step, int columns, int64_t k0, int64_t depth, stretch (&to)[4]) {
    const int row = (int)(thread_index() % BERTH_CUDA_WARP) / 4;
    eight raw[4];
    UNROLL
    for (int i = 0; i < 4; ++i) {
        const int64_t k = k0 + row / 2 * 8 + row % 2 + i * 2;
        raw[i] = load_some<T, IS_WHOLE>(from + k * step, 1, true, k < depth ? columns : 0);
    }
    UNROLL
    for (int g = 0; g < 4; ++g) {
        UNROLL
        for (int i = 0; i < 4; ++i)
            to[g].two[i] = turn_matrix(raw[i].of[g]);
    }
}

/// Reads the steps from k0 on, which are the same for all threads of the warp. Behind the depth
/// there is nothing to read.
template <class T, class S>
DEVICE void load_steps(const berth_cuda_product_args& args,
                       const few_operands<T, S>& own,
                       int64_t k0,
                       few_steps<S>& to) {
    const int within = (int)(thread_index() % 4) * 8;
    const bool a_is_along = args.a_form == BERTH_CUDA_FORM_ALONG;
    const bool b_is_along = args.b_form == BERTH_CUDA_FORM_ALONG;
    UNROLL
    for (int s = 0; s < S::STEPS; ++s) {
        const int64_t k = k0 + s * PRODUCT_STEP + within, left = args.depth - k;
        if (k - within >= args.depth) break;
        if constexpr (S::IS_ACROSS) {
            load_step_across<T, S::IS_WHOLE>(
                own.b[0], args.b_step, own.columns, k - within, args.depth, to.b[s]);
        } else {
            UNROLL
            for (int c = 0; c < 2 * S::GROUPS; ++c)
                to.b[s][c] = stretch_of(load_some<T, S::IS_WHOLE>(own.b[c] + k * args.b_step,
                                                                  args.b_step,
                                                                  b_is_along,
                                                                  own.columns >> c & 1 ? left : 0));
        }
        UNROLL
        for (int r = 0; r < S::ROW_GROUPS; ++r)
            to.a[s][r] = stretch_of(load_some<T, S::IS_WHOLE>(
                own.a[r] + k * args.a_step, args.a_step, a_is_along, own.rows >> r & 1 ? left : 0));
    }
}

template <class T, class S>
DEVICE void multiply_steps(const few_steps<S>& own,
                           int64_t k0,
                           int64_t depth,
                           float (&sums)[S::GROUPS][S::ROW_GROUPS][4]) {
    UNROLL
    for (int s = 0; s < S::STEPS; ++s) {
        if (k0 + s * PRODUCT_STEP >= depth) break;
        UNROLL
        for (int c = 0; c < S::GROUPS; ++c) {
            UNROLL
            for (int r = 0; r < S::ROW_GROUPS; ++r)
                multiply_step<T>(own.b[s][2 * c], own.b[s][2 * c + 1], own.a[s][r], sums[c][r]);
        }
    }
}

/// Puts this warp's sums where all_sums [WARPS, ROWS, PITCH] has them.
template <class S>
DEVICE void put_sums(const float (&sums)[S::GROUPS][S::ROW_GROUPS][4], float* all_sums) {
    const int warp = (int)(thread_index() / BERTH_CUDA_WARP);
    const int lane = (int)(thread_index() % BERTH_CUDA_WARP), line = lane / 4;
    UNROLL
    for (int c = 0; c < S::GROUPS * 2; ++c) {
        const int column = S::IS_ACROSS ? line / 2 * 8 + 2 * c + line % 2 : c * 8 + line;
        UNROLL
        for (int r = 0; r < S::ROW_GROUPS * 2; ++r) {
            const int row = r / 2 * 8 + lane % 4 * 2 + r % 2;
            all_sums[(warp * S::ROWS + row) * S::PITCH + column] =
                sums[c / 2][r / 2][c % 2 * 2 + r % 2];
        }
    }
}

/// Adds the sums of `count` segments, of a warp each, to this thread's totals, in ascending order.
template <class S>
DEVICE void add_segments(const float* all_sums, int count, float (&totals)[S::OUTPUTS]) {
    UNROLL
    for (int i = 0; i < S::OUTPUTS; ++i) {
        const int output = (int)thread_index() + i * (int)THREADS;
        if (output >= S::COLUMNS * S::ROWS) break;
        const int row = output / S::COLUMNS, column = output % S::COLUMNS;
        for (int s = 0; s < count; ++s)
            totals[i] += all_sums[(s * S::ROWS + row) * S::PITCH + column];
    }
}

template <class S>
DEVICE void store_totals(const berth_cuda_product_args& args,
                         const batch_place& place,
                         int64_t row0,
                         int64_t column0,
                         const float (&totals)[S::OUTPUTS]) {
    UNROLL
    for (int i = 0; i < S::OUTPUTS; ++i) {
        const int output = (int)thread_index() + i * (int)THREADS;
        if (output >= S::COLUMNS * S::ROWS) break;
        const int64_t row = row0 + output / S::COLUMNS, column = column0 + output % S::COLUMNS;
        if (row < args.rows && column < args.columns)
            store_product(args, place, row, column, totals[i]);
    }
}

/// The rows from row0 on times the columns from column0 on. The steps that a warp multiplies next
/// are on their way while its sums meet the others'.
template <class T, class S>
DEVICE void few_of(const berth_cuda_product_args& args,
                   int64_t row0,
                   int64_t column0,
                   int64_t batch,
                   float* all_sums) {
    constexpr int AT_ONCE = S::STEPS * PRODUCT_STEP;
    const batch_place place = place_of_batch(args, batch);
    const few_operands<T, S> own = find_operands<T, S>(args, place, row0, column0);
    const int64_t first = (int64_t)(thread_index() / BERTH_CUDA_WARP) * PRODUCT_SEGMENT;
    float totals[S::OUTPUTS] = {};
    few_steps<S> steps;
    load_steps<T, S>(args, own, first, steps);
    for (int64_t round = 0; round < args.depth; round += ROUND) {
        float sums[S::GROUPS][S::ROW_GROUPS][4] = {};
        UNROLL
        for (int at = 0; at < PRODUCT_SEGMENT; at += AT_ONCE) {
            const int64_t k = round + first + at;
            multiply_steps<T, S>(steps, k, args.depth, sums);
            const bool is_last = at + AT_ONCE == PRODUCT_SEGMENT;
            load_steps<T, S>(args, own, is_last ? round + ROUND + first : k + AT_ONCE, steps);
        }
        put_sums<S>(sums, all_sums);
        sync_block();
        const int64_t segments = (args.depth - round + PRODUCT_SEGMENT - 1) / PRODUCT_SEGMENT;
        add_segments<S>(all_sums, segments < WARPS ? (int)segments : WARPS, totals);
        sync_block(); // before the next round's, or the next item's sums
    }
    store_totals<S>(args, place, row0, column0, totals);
}

/// Items are [batch][columns' group][rows' group].
template <class T, class S>
DEVICE void few_groups(const berth_cuda_product_args& args, float* all_sums) {
    const int64_t row_groups = (args.rows + S::ROWS - 1) / S::ROWS;
    const int64_t column_groups = (args.columns + S::COLUMNS - 1) / S::COLUMNS;
    const int64_t items = args.batches * row_groups * column_groups;
    for (int64_t item = block_index(); item < items; item += block_count())
        few_of<T, S>(args,
                     item % row_groups * S::ROWS,
                     item / row_groups % column_groups * S::COLUMNS,
                     item / row_groups / column_groups,
                     all_sums);
}

/// GROUPS of columns, ROW_GROUPS of rows; STEPS at a time where all goes in whole vectors.
template <class T, int GROUPS, int ROW_GROUPS, int STEPS, bool IS_ACROSS>
DEVICE void product_few(const berth_cuda_product_args& args) {
    typedef few_shape<GROUPS, ROW_GROUPS, STEPS, IS_ACROSS, true> whole;
    typedef few_shape<GROUPS, ROW_GROUPS, 1, IS_ACROSS, false> any;
    SHARED(float, all_sums, WARPS* whole::ROWS* whole::PITCH);
    const bool b_is_whole =
        IS_ACROSS ? args.columns % 8 == 0 : args.b_form == BERTH_CUDA_FORM_ALONG;
    if (b_is_whole && args.a_form == BERTH_CUDA_FORM_ALONG && args.depth % 8 == 0)
        few_groups<T, whole>(args, all_sums);
    else
        few_groups<T, any>(args, all_sums);
}

} // namespace

#define PRODUCT_HALVES(name, type)                                                                 \
    KERNEL_OF(256, product_halves_8_##name, berth_cuda_product_args) {                             \
        product_few<type, 1, 1, 4, false>(args);                                                   \
    }                                                                                              \
    KERNEL_OF(256, product_halves_32_##name, berth_cuda_product_args) {                            \
        product_few<type, 2, 4, 2, false>(args);                                                   \
    }                                                                                              \
    KERNEL_OF(256, product_halves_across_8_##name, berth_cuda_product_args) {                      \
        product_few<type, 2, 1, 4, true>(args);                                                    \
    }                                                                                              \
    KERNEL_OF(256, product_halves_across_32_##name, berth_cuda_product_args) {                     \
        product_few<type, 2, 4, 2, true>(args);                                                    \
    }

PRODUCT_HALVES(f16, f16)
PRODUCT_HALVES(bf16, bf16)
