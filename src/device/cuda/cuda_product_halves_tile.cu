// SPDX-License-Identifier: Apache-2.0
// Products of many rows of halves by tensor cores: each block makes a tile of out, 128 rows by 128
// columns. Both operands' steps of the depth go to shared memory, three at a time, by copies that
// run while others are multiplied.
//
// A step of 128 lines takes 512 chunks of 16 bytes. Of an operand that lies along the depth chunk 4
// * line + k / 8 has eight neighbours along it: a stretch of 8 lines is 512 bytes in a row. Of one
// that lies across it chunk 16 * k + (line / 8 ^ swizzle) has eight lines of one k, which are
// turned as they are read; the swizzle puts the chunks of a matrix that is turned into different
// banks.
#include "device/cuda/cuda_product_halves.cuh"

namespace {

constexpr uint32_t THREADS = 256;
constexpr int LINES = 128; // of either operand: rows of a, columns of b
constexpr int STAGES = 3;
constexpr int CHUNKS = LINES * PRODUCT_STEP / 8; // of an operand's step
constexpr int BRINGS = CHUNKS / (int)THREADS;    // a thread's of them
constexpr int OWN_COLUMNS = 64, OWN_ROWS = 32;   // a warp's part of the tile
constexpr int GROUPS = OWN_COLUMNS / 16, ROW_GROUPS = OWN_ROWS / 8;
constexpr int OUT_PITCH = LINES + 8; // of a row of the tile on its way out: rows in other banks

static_assert(THREADS / BERTH_CUDA_WARP * OWN_COLUMNS * OWN_ROWS == LINES * LINES, "all outputs");
static_assert(LINES * OUT_PITCH * 2 <= STAGES * 2 * CHUNKS * 16, "the tile fits as halves");

/// Which of an operand's lines a thread brings, and how.
template <class T> struct carrier {
    const T* from[BRINGS]; ///< the first element of each chunk at k = 0
    int lines[BRINGS];     ///< of the chunk that are there
    int k[BRINGS];         ///< where the chunk begins in a step
    int64_t step;          ///< from k to k + 1
    int64_t depth;
    int32_t form;
};

DEVICE int lines_from(int64_t first, int64_t count) {
    const int64_t left = count - first;
    return left <= 0 ? 0 : left > 8 ? 8 : (int)left;
}

/// The places of this thread's chunks of an operand whose lines [line0, count) begin where
/// `place_of(line)` says, in elements from `base` on.
template <class T, class Place>
DEVICE void find_chunks(
    const void* base, int32_t form, int64_t line0, int64_t count, Place place_of, carrier<T>& own) {
    UNROLL
    for (int i = 0; i < BRINGS; ++i) {
        const int chunk = (int)thread_index() + i * (int)THREADS;
        const bool is_across = form == BERTH_CUDA_FORM_ACROSS;
        const int64_t line = line0 + (is_across ? chunk % 16 * 8 : chunk / 4);
        own.k[i] = is_across ? chunk / 16 : chunk % 4 * 8;
        own.lines[i] = lines_from(line, count);
        own.from[i] = (const T*)base + (own.lines[i] > 0 ? place_of(line) : 0);
    }
    own.form = form;
}

/// Where chunk `chunk` of a step lies that was brought across the depth; see load_across().
DEVICE int swizzled(int chunk) {
    const int k = chunk / 16;
    return chunk ^ (k / 8 * 2 + k % 2);
}

/// Begins to bring the step at k0 to `stage`.
template <class T> DEVICE void bring(const carrier<T>& own, int64_t k0, eight* stage) {
    UNROLL
    for (int i = 0; i < BRINGS; ++i) {
        const int chunk = (int)thread_index() + i * (int)THREADS;
        const int64_t k = k0 + own.k[i], left = own.depth - k;
        const T* const from = own.from[i] + k * own.step;
        const bool is_there = left > 0 && own.lines[i] > 0;
        if (own.form == BERTH_CUDA_FORM_ACROSS) {
            const int count = is_there ? own.lines[i] : 0;
            copy_later(
                &stage[swizzled(chunk)], is_there ? from : own.from[i], (uint32_t)count * 2u);
        } else if (own.form == BERTH_CUDA_FORM_ALONG) {
            const int count = !is_there ? 0 : left < 8 ? (int)left : 8;
            copy_later(&stage[chunk], is_there ? from : own.from[i], (uint32_t)count * 2u);
        } else {
            stage[chunk] = load_singly(from, own.step, is_there ? left : 0);
        }
    }
}

/// This thread's part of the stretch of the 8 lines from `line` on.
DEVICE stretch load_along(const eight* stage, int line) {
    const eight own = stage[line * 4 + (int)(thread_index() % BERTH_CUDA_WARP)];
    return {{own.of[0], own.of[1], own.of[2], own.of[3]}};
}

/// Register i of thread t of a line is k = 8 t + 2 i and the next one: row r of the i-th matrix,
/// which threads r / 2 get turned, is k = r / 2 * 8 + r % 2 + 2 i.
DEVICE stretch load_across(const eight* stage, int line) {
    const int lane = (int)(thread_index() % BERTH_CUDA_WARP), row = lane % 8;
    const int k = row / 2 * 8 + row % 2 + lane / 8 * 2;
    stretch own;
    load_turned_matrices(&stage[swizzled(k * 16 + line / 8)], own.two);
    return own;
}

template <bool IS_ACROSS> DEVICE stretch load_stretch(const eight* stage, int line) {
    return IS_ACROSS ? load_across(stage, line) : load_along(stage, line);
}

/// What a warp adds up. One whose rows or columns are not there has nothing to do but to bring.
struct part {
    int row, column; ///< in the tile
    bool is_there;
    float sums[GROUPS][ROW_GROUPS][4], totals[GROUPS][ROW_GROUPS][4];
};

template <class T, bool A_ACROSS, bool B_ACROSS>
DEVICE void multiply(const eight* a, const eight* b, part& own) {
    if (!own.is_there) return;
    stretch rows[ROW_GROUPS];
    UNROLL
    for (int r = 0; r < ROW_GROUPS; ++r)
        rows[r] = load_stretch<A_ACROSS>(a, own.row + r * 8);
    UNROLL
    for (int c = 0; c < GROUPS; ++c) {
        const stretch low = load_stretch<B_ACROSS>(b, own.column + c * 16);
        const stretch high = load_stretch<B_ACROSS>(b, own.column + c * 16 + 8);
        UNROLL
        for (int r = 0; r < ROW_GROUPS; ++r)
            multiply_step<T>(low, high, rows[r], own.sums[c][r]);
    }
}

/// Takes the sums of a segment over into the totals.
DEVICE void end_segment(part& own) {
    UNROLL
    for (int c = 0; c < GROUPS; ++c) {
        UNROLL
        for (int r = 0; r < ROW_GROUPS; ++r) {
            UNROLL
            for (int i = 0; i < 4; ++i) {
                own.totals[c][r][i] += own.sums[c][r][i];
                own.sums[c][r][i] = 0.0f;
            }
        }
    }
}

/// Goes through the depth.
template <class T, bool A_ACROSS, bool B_ACROSS>
DEVICE void add_up(const carrier<T>& of_a, const carrier<T>& of_b, eight* stages, part& own) {
    const int64_t steps = (of_a.depth + PRODUCT_STEP - 1) / PRODUCT_STEP;
    for (int64_t next = 0; next < STAGES - 1; ++next) {
        eight* const stage = stages + next * 2 * CHUNKS;
        if (next < steps) bring(of_a, next * PRODUCT_STEP, stage);
        if (next < steps) bring(of_b, next * PRODUCT_STEP, stage + CHUNKS);
        end_copies();
    }
    int reading = 0, writing = STAGES - 1;
    for (int64_t step = 0; step < steps; ++step) {
        wait_for_copies<STAGES - 2>();
        sync_block(); // this step is there, and the last one has been read
        const int64_t next = step + STAGES - 1;
        eight* const to = stages + writing * 2 * CHUNKS;
        if (next < steps) bring(of_a, next * PRODUCT_STEP, to);
        if (next < steps) bring(of_b, next * PRODUCT_STEP, to + CHUNKS);
        end_copies();
        const eight* const from = stages + reading * 2 * CHUNKS;
        multiply<T, A_ACROSS, B_ACROSS>(from, from + CHUNKS, own);
        if ((step + 1) % (PRODUCT_SEGMENT / PRODUCT_STEP) == 0) end_segment(own);
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }
    if (steps % (PRODUCT_SEGMENT / PRODUCT_STEP) != 0) end_segment(own);
    wait_for_copies<0>();
    sync_block(); // the stages are free
}

/// Brings the totals to `tile` [LINES, OUT_PITCH], with the bias and as they will be stored.
template <class T>
DEVICE void put_totals(const berth_cuda_product_args& args,
                       int64_t column0,
                       const part& own,
                       T* tile) {
    const int lane = (int)(thread_index() % BERTH_CUDA_WARP);
    if (!own.is_there) return;
    UNROLL
    for (int c = 0; c < GROUPS * 2; ++c) {
        const int column = own.column + c * 8 + lane / 4;
        const bool has_bias = args.bias != nullptr && column0 + column < args.columns;
        const float bias = has_bias ? args.bias[column0 + column] : 0.0f;
        UNROLL
        for (int r = 0; r < ROW_GROUPS * 2; ++r) {
            const int row = own.row + r / 2 * 8 + lane % 4 * 2 + r % 2;
            const float total = own.totals[c / 2][r / 2][c % 2 * 2 + r % 2];
            tile[row * OUT_PITCH + column] = from_f32<T>(has_bias ? total + bias : total);
        }
    }
}

/// Writes the tile out, eight columns at a time where they lie so.
template <class T>
DEVICE void store_tile(const berth_cuda_product_args& args,
                       const batch_place& place,
                       int64_t row0,
                       int64_t column0,
                       const T* tile) {
    typedef lanes<T, 8> row_part;
    for (int chunk = (int)thread_index(); chunk < LINES * LINES / 8; chunk += (int)THREADS) {
        const int row = chunk / (LINES / 8), column = chunk % (LINES / 8) * 8;
        const int there = lines_from(column0 + column, args.columns);
        if (row0 + row >= args.rows || there == 0) continue;
        const T* const from = tile + row * OUT_PITCH + column;
        T* const to = (T*)args.out + place.out + (row0 + row) * args.out_row +
                      (column0 + column) * args.out_column;
        if (there == 8 && args.out_column == 1 && (uintptr_t)to % sizeof(row_part) == 0) {
            *(row_part*)(void*)to = *(const row_part*)(const void*)from;
            continue;
        }
        for (int i = 0; i < there; ++i)
            to[i * args.out_column] = from[i];
    }
}

/// One tile of one product of the batch: [batch][column tile][row tile].
template <class T>
DEVICE void tile_of(const berth_cuda_product_args& args,
                    int64_t row0,
                    int64_t column0,
                    int64_t batch) {
    SHARED(eight, stages, STAGES * 2 * CHUNKS); // as much as a block may declare
    const batch_place place = place_of_batch(args, batch);
    carrier<T> of_a, of_b;
    of_a.depth = of_b.depth = args.depth;
    of_a.step = args.a_step;
    of_b.step = args.b_step;
    const auto place_of_row = [&](int64_t row) { return place.a + row_of_a(args, row); };
    const auto place_of_column = [&](int64_t column) { return place.b + column * args.b_column; };
    find_chunks(args.a, args.a_form, row0, args.rows, place_of_row, of_a);
    find_chunks(args.b, args.b_form, column0, args.columns, place_of_column, of_b);
    const int warp = (int)(thread_index() / BERTH_CUDA_WARP);
    part own = {};
    own.column = warp % (LINES / OWN_COLUMNS) * OWN_COLUMNS;
    own.row = warp / (LINES / OWN_COLUMNS) * OWN_ROWS;
    own.is_there = row0 + own.row < args.rows && column0 + own.column < args.columns;
    const bool a_is_across = args.a_form == BERTH_CUDA_FORM_ACROSS;
    const bool b_is_across = args.b_form == BERTH_CUDA_FORM_ACROSS;
    if (a_is_across && b_is_across)
        add_up<T, true, true>(of_a, of_b, stages, own);
    else if (a_is_across)
        add_up<T, true, false>(of_a, of_b, stages, own);
    else if (b_is_across)
        add_up<T, false, true>(of_a, of_b, stages, own);
    else
        add_up<T, false, false>(of_a, of_b, stages, own);
    T* const tile = (T*)(void*)stages;
    put_totals(args, column0, own, tile);
    sync_block();
    store_tile(args, place, row0, column0, tile);
    sync_block(); // before the next tile's first step
}

template <class T> DEVICE void halves_tiles(const berth_cuda_product_args& args) {
    const int64_t row_tiles = (args.rows + LINES - 1) / LINES;
    const int64_t column_tiles = (args.columns + LINES - 1) / LINES;
    const int64_t items = args.batches * row_tiles * column_tiles;
    for (int64_t item = block_index(); item < items; item += block_count())
        tile_of<T>(args,
                   item % row_tiles * LINES,
                   item / row_tiles % column_tiles * LINES,
                   item / row_tiles / column_tiles);
}

} // namespace

KERNEL_OF(256, product_halves_tile_f16, berth_cuda_product_args) { halves_tiles<f16>(args); }
KERNEL_OF(256, product_halves_tile_bf16, berth_cuda_product_args) { halves_tiles<bf16>(args); }
