// SPDX-License-Identifier: Apache-2.0
// Attention with the softmax taken as the keys come (Milakov and Gimelshein 2018; Dao et al. 2022).
//
// A block has up to 16 query rows that read the same KV head (several tokens, and the heads of a
// group) and up to 128 columns of the values. It walks over tiles of 64 keys that begin at
// multiples of 64: scores of all rows, their powers, weighted values. A score adds its products for
// the depth ascending, a row's sums add values for the keys ascending, and the powers of a tile are
// added in a tree over its keys. Keys that a row does not see change nothing of it.
//
// A mask changes scores before the softmax: to -infinity, or by a number. A tile of which a row may
// see nothing is left out of that row's sums, so that no infinity meets another.
//
// A1: a row's bits depend on its query, the keys and values that it sees, the scale and its mask
//     alone.
#include "device/cuda/cuda_attention.cuh"

namespace {

constexpr uint32_t THREADS = 128;
constexpr int ROWS = ATTENTION_ROWS;
constexpr int TILE = 64;     // keys
constexpr int STEP = 32;     // of the depth, at a time
constexpr int OWN_ROWS = 8;  // whose scores of one key a thread has
constexpr int COLUMNS = 128; // of values; each thread has one, of all rows
constexpr int PITCH = ROWS + 4;
constexpr int64_t NOWHERE = INT64_MIN;
constexpr int AHEAD = 8; // values of a column that are asked for together
constexpr int WARP_ROWS = ROWS / (int)(THREADS / BERTH_CUDA_WARP);

static_assert(THREADS == TILE * ROWS / OWN_ROWS, "each thread has its scores");

/// What the threads of a block share.
struct shared_tile {
    int64_t* token;    ///< [ROWS]: of q
    int64_t* visible;  ///< [ROWS]: keys that a row sees: [0, visible)
    int* head;         ///< [ROWS]
    float* queries;    ///< [STEP, PITCH], scaled
    float* keys;       ///< [STEP, TILE]
    float* powers;     ///< [TILE, PITCH]: scores, then powers
    float* keep;       ///< [ROWS]: what remains of the sums so far; at the end 1 / total
    int64_t* key_at;   ///< [TILE]: places of the keys' rows, or NOWHERE
    int64_t* value_at; ///< [TILE]
    int* seen;         ///< [ROWS]: keys of the tile that a row sees; 0 also where all are hidden
};

/// What a block is to do.
struct attention_unit {
    attention_sequence sequence;
    int64_t kv_head;
    int64_t row0; ///< among the rows of the sequence and the KV head
    int rows;
    int64_t column0;
};

DEVICE int64_t group_of(const berth_cuda_attention_args& args) {
    return args.heads / args.kv_heads;
}

/// Says of every row which it is and what it sees; nothing, where the unit has none.
DEVICE void find_rows(const berth_cuda_attention_args& args,
                      const attention_unit& unit,
                      const shared_tile& tile) {
    const int row = (int)thread_index();
    if (row >= ROWS) return;
    const attention_sequence& s = unit.sequence;
    const int64_t group = group_of(args), index = (unit.row0 + row) / group;
    tile.token[row] = s.first_query + index;
    tile.head[row] = (int)(unit.kv_head * group + (unit.row0 + row) % group);
    // so many keys may be seen that nothing can be added
    const int64_t seen = s.first_seen >= s.keys ? s.keys : lesser(s.first_seen + index, s.keys);
    tile.visible[row] = row < unit.rows ? seen : 0;
}

// --- Bringing operands ---------------------------------------------------------------------------

/// Finds where the tile's keys and values lie.
DEVICE void find_keys(const berth_cuda_attention_args& args,
                      const attention_unit& unit,
                      int64_t key0,
                      const shared_tile& tile) {
    const int at = (int)thread_index();
    if (at >= TILE) return;
    const int64_t key = key0 + at;
    int64_t block = -1, row = key;
    if (key < unit.sequence.keys) {
        block = unit.sequence.batch;
        if (args.sequences != nullptr) {
            block = block_of(args, unit.sequence, key);
            row = (int64_t)((uint32_t)key % (uint32_t)args.block_keys);
        }
    }
    const bool is_there = block >= 0;
    const berth_cuda_cached &k = args.keys, &v = args.values;
    tile.key_at[at] = is_there ? block * k.block + row * k.row + unit.kv_head * k.head : NOWHERE;
    tile.value_at[at] = is_there ? block * v.block + row * v.row + unit.kv_head * v.head : 0;
}

/// N elements of a row of keys from d on, a multiple of N.
template <class T> struct cached_rows {
    template <int N>
    static MEMBER void load(
        const berth_cuda_cached& x, int64_t row_at, int64_t d, int64_t depth, float (&to)[N]) {
        load_some((const T*)x.data + row_at + d, 1, x.is_aligned != 0, depth - d, to);
    }
    static MEMBER float one(const berth_cuda_cached& x, int64_t row_at, int64_t column) {
        return to_f32(((const T*)x.data)[row_at + column]);
    }
};

template <> struct cached_rows<q8_0> {
    template <int N>
    static MEMBER void load(
        const berth_cuda_cached& x, int64_t row_at, int64_t d, int64_t depth, float (&to)[N]) {
        load_quantised<q8_0>(bytes_at(x.data, row_at * q8_0::BYTES), d, depth, to);
    }
    static MEMBER float one(const berth_cuda_cached& x, int64_t row_at, int64_t column) {
        const unsigned char* const block =
            bytes_at(x.data, (row_at + column / q8_0::BLOCK) * q8_0::BYTES);
        return (float)signed_byte(block[2 + column % q8_0::BLOCK]) * half_at(block);
    }
};

/// Brings a stretch of the depth of the tile's keys into columns.
template <class T>
DEVICE void bring_keys(const berth_cuda_attention_args& args, int64_t d0, const shared_tile& tile) {
    const int key = (int)thread_index() % TILE;
    const int first = (int)thread_index() / TILE * (STEP / 2);
    const int64_t at = tile.key_at[key];
    UNROLL
    for (int i = 0; i < STEP / 2; i += 8) {
        float some[8] = {};
        if (at != NOWHERE && d0 + first + i < args.depth)
            cached_rows<T>::load(args.keys, at, d0 + first + i, args.depth, some);
        UNROLL
        for (int e = 0; e < 8; ++e)
            tile.keys[(first + i + e) * TILE + key] = some[e];
    }
}

DEVICE void bring_queries(const berth_cuda_attention_args& args,
                          const attention_unit& unit,
                          int64_t d0,
                          const shared_tile& tile) {
    const int row = (int)thread_index() / 8, d = (int)thread_index() % 8 * 4;
    const berth_cuda_rows& q = args.q;
    float some[4] = {};
    if (row < unit.rows && d0 + d < args.depth) {
        const int64_t at = unit.sequence.batch * q.batch + tile.token[row] * q.row +
                           tile.head[row] * q.head + d0 + d;
        load_floats(q.dtype, q.data, at, 1, q.is_aligned != 0, args.depth - d0 - d, some);
    }
    UNROLL
    for (int i = 0; i < 4; ++i)
        tile.queries[(d + i) * PITCH + row] = rounded_product(some[i], args.scale);
}

// --- Scores --------------------------------------------------------------------------------------

/// The mask's number for a row and a key: 0 or -infinity of a bool.
DEVICE float mask_of(const berth_cuda_attention_args& args,
                     const attention_unit& unit,
                     const shared_tile& tile,
                     int row,
                     int64_t key) {
    const int64_t at = unit.sequence.batch * args.mask_strides[0] +
                       tile.head[row] * args.mask_strides[1] +
                       tile.token[row] * args.mask_strides[2] + key * args.mask_strides[3];
    if (args.mask_dtype == BERTH_BOOL)
        return ((const unsigned char*)args.mask)[at] != 0 ? 0.0f : -INFINITY;
    float value[1];
    load_floats(args.mask_dtype, args.mask, at, 1, false, 1, value);
    return value[0];
}

/// Scores of all rows against the tile's keys, -infinity where a row does not see a key.
template <class T>
DEVICE void score_tile(const berth_cuda_attention_args& args,
                       const attention_unit& unit,
                       int64_t key0,
                       const shared_tile& tile) {
    const int key = (int)thread_index() % TILE;
    const int row0 = (int)thread_index() / TILE * OWN_ROWS;
    float scores[OWN_ROWS] = {};
    for (int64_t d0 = 0; d0 < args.depth; d0 += STEP) {
        sync_block(); // the stretch before has been read
        bring_keys<T>(args, d0, tile);
        bring_queries(args, unit, d0, tile);
        sync_block();
        UNROLL
        for (int d = 0; d < STEP; ++d) {
            float of_rows[OWN_ROWS];
            load_vector(tile.queries + d * PITCH + row0, of_rows);
            const float of_key = tile.keys[d * TILE + key];
            UNROLL
            for (int r = 0; r < OWN_ROWS; ++r)
                scores[r] = fmaf(of_rows[r], of_key, scores[r]);
        }
    }
    const bool is_there = tile.key_at[key] != NOWHERE;
    UNROLL
    for (int r = 0; r < OWN_ROWS; ++r) {
        const int row = row0 + r;
        float score = scores[r];
        if (!is_there || key0 + key >= tile.visible[row]) {
            score = -INFINITY;
        } else if (args.mask != nullptr) {
            const float added = mask_of(args, unit, tile, row, key0 + key);
            score = added == -INFINITY ? added : score + added;
        }
        tile.powers[key * PITCH + row] = score;
    }
}

// --- Softmax -------------------------------------------------------------------------------------

struct row_state {
    float largest;
    float total;
};

struct larger_of {
    // A NaN may be lost here; its power is NaN all the same.
    MEMBER float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct sum_of {
    MEMBER float operator()(float a, float b) const { return a + b; }
};

/// Turns a row's scores of the tile, two a lane, into powers; the warp calls it.
DEVICE void attend_row(const berth_cuda_attention_args& args,
                       const shared_tile& tile,
                       int row,
                       int64_t visible,
                       row_state& state) {
    const int lane = (int)(thread_index() % BERTH_CUDA_WARP);
    float scores[2];
    float has_any = 0.0f;
    for (int i = 0; i < 2; ++i) {
        const int key = lane + 32 * i;
        scores[i] = tile.powers[key * PITCH + row];
        const bool is_hidden = args.mask != nullptr && scores[i] == -INFINITY;
        if (key < visible && tile.key_at[key] != NOWHERE && !is_hidden) has_any = 1.0f;
    }
    has_any = warp_reduce(has_any, larger_of());
    const float most = warp_reduce(fmaxf(scores[0], scores[1]), larger_of());
    const float largest = fmaxf(state.largest, most);
    float powers[2] = {};
    for (int i = 0; i < 2; ++i)
        if (lane + 32 * i < visible) powers[i] = expf(scores[i] - largest);
    const float total = warp_reduce(powers[0] + powers[1], sum_of());
    sync_warp();
    if (lane == 0) tile.seen[row] = has_any > 0.0f ? (int)lesser(visible, TILE) : 0;
    if (has_any == 0.0f) {
        if (lane == 0) tile.keep[row] = 1.0f;
        return;
    }
    for (int i = 0; i < 2; ++i)
        tile.powers[(lane + 32 * i) * PITCH + row] = powers[i];
    const float keep = largest == state.largest ? 1.0f : expf(state.largest - largest);
    if (lane == 0) tile.keep[row] = keep;
    state.total = fmaf(state.total, keep, total);
    state.largest = largest;
}

/// Each warp's rows.
DEVICE void attend_tile(const berth_cuda_attention_args& args,
                        int64_t key0,
                        const shared_tile& tile,
                        row_state (&states)[WARP_ROWS]) {
    const int row0 = (int)(thread_index() / BERTH_CUDA_WARP) * WARP_ROWS;
    for (int r = 0; r < WARP_ROWS; ++r)
        attend_row(args, tile, row0 + r, tile.visible[row0 + r] - key0, states[r]);
}

// --- Values --------------------------------------------------------------------------------------

/// Adds AHEAD values of this thread's column, weighted, to the sums of rows that see their keys.
DEVICE void add_values(const float (&values)[AHEAD],
                       int key0,
                       const shared_tile& tile,
                       bool is_whole,
                       const int (&seen)[ROWS],
                       float (&sums)[ROWS]) {
    UNROLL
    for (int i = 0; i < AHEAD; ++i) {
        float powers[ROWS];
        load_vector(tile.powers + (key0 + i) * PITCH, powers);
        UNROLL
        for (int r = 0; r < ROWS; ++r) {
            if (is_whole || key0 + i < seen[r]) sums[r] = fmaf(powers[r], values[i], sums[r]);
        }
    }
}

/// Adds the tile's values to this thread's sums.
template <class T>
DEVICE void sum_tile(const berth_cuda_attention_args& args,
                     const attention_unit& unit,
                     const shared_tile& tile,
                     float (&sums)[ROWS]) {
    int seen[ROWS];
    int most = 0, least = TILE;
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
        seen[r] = tile.seen[r];
        sums[r] *= tile.keep[r];
        most = seen[r] > most ? seen[r] : most;
        if (r < unit.rows) least = seen[r] < least ? seen[r] : least;
    }
    const int64_t column = unit.column0 + thread_index();
    const bool has_column = column < args.width;
    for (int key = 0; key < most; key += AHEAD) {
        float values[AHEAD];
        UNROLL
        for (int i = 0; i < AHEAD; ++i) {
            const bool is_there = has_column && key + i < most && tile.key_at[key + i] != NOWHERE;
            values[i] =
                is_there ? cached_rows<T>::one(args.values, tile.value_at[key + i], column) : 0.0f;
        }
        add_values(values, key, tile, least == TILE, seen, sums);
    }
}

// --- Units ---------------------------------------------------------------------------------------

/// Writes the rows' results: their sums over their totals, zeros where nothing was seen.
DEVICE void store_rows(const berth_cuda_attention_args& args,
                       const attention_unit& unit,
                       const shared_tile& tile,
                       const row_state (&states)[WARP_ROWS],
                       const float (&sums)[ROWS]) {
    const int row0 = (int)(thread_index() / BERTH_CUDA_WARP) * WARP_ROWS;
    sync_block(); // what was kept of the last tile has been read
    if (thread_index() % BERTH_CUDA_WARP == 0) {
        for (int r = 0; r < WARP_ROWS; ++r) {
            // the largest adds e^0, or a NaN: only what has seen nothing has a total of 0
            const float total = states[r].total;
            tile.seen[row0 + r] = total != 0.0f ? 1 : 0;
            tile.keep[row0 + r] = total != 0.0f ? 1.0f / total : 0.0f;
        }
    }
    sync_block();
    const int64_t column = unit.column0 + thread_index();
    if (column >= args.width) return;
    UNROLL
    for (int r = 0; r < ROWS; ++r) {
        if (r >= unit.rows) continue;
        const int64_t row = unit.sequence.batch * args.tokens + tile.token[r];
        const int64_t at = (row * args.heads + tile.head[r]) * args.width + column;
        store_float(args.q.dtype, args.out, at, tile.seen[r] != 0 ? sums[r] * tile.keep[r] : 0.0f);
    }
}

template <class T>
DEVICE void attend(const berth_cuda_attention_args& args,
                   const attention_unit& unit,
                   const shared_tile& tile) {
    float sums[ROWS] = {};
    row_state states[WARP_ROWS];
    for (int r = 0; r < WARP_ROWS; ++r)
        states[r] = {-INFINITY, 0.0f};
    find_rows(args, unit, tile);
    sync_block();
    const int64_t end = tile.visible[unit.rows - 1]; // the last row sees the most
    for (int64_t key0 = 0; key0 < end; key0 += TILE) {
        sync_block(); // the tile before has been read
        find_keys(args, unit, key0, tile);
        sync_block();
        score_tile<T>(args, unit, key0, tile);
        sync_block();
        attend_tile(args, key0, tile, states);
        sync_block();
        sum_tile<T>(args, unit, tile, sums);
    }
    store_rows(args, unit, tile, states, sums);
    sync_block(); // before the next unit
}

struct row_tiles {
    int64_t group;
    MEMBER int64_t operator()(const attention_sequence& sequence) const {
        return round_up_div(sequence.queries * group, ROWS);
    }
};

/// Finds what `item` is: [sequence and tile of its rows][columns][KV head]. False if it is nothing.
DEVICE bool find_unit(const berth_cuda_attention_args& args, int64_t item, attention_unit& unit) {
    const int64_t column_parts = round_up_div(args.width, COLUMNS);
    unit.kv_head = item % args.kv_heads;
    unit.column0 = item / args.kv_heads % column_parts * COLUMNS;
    const int64_t index = item / args.kv_heads / column_parts;
    const int64_t group = group_of(args);
    int64_t part;
    if (args.sequences != nullptr) {
        if (!find_part(args, index, row_tiles{group}, unit.sequence, part)) return false;
    } else {
        const int64_t parts = round_up_div(args.tokens * group, ROWS);
        part = index % parts;
        unit.sequence = {};
        unit.sequence.queries = args.tokens;
        unit.sequence.keys = args.key_count;
        unit.sequence.first_seen = args.first_seen;
        unit.sequence.batch = index / parts;
    }
    unit.row0 = part * ROWS;
    unit.rows = (int)lesser(unit.sequence.queries * group - unit.row0, ROWS);
    return true;
}

template <class T> DEVICE void attention(const berth_cuda_attention_args& args) {
    typedef lanes<float, 4> four;
    SHARED(int64_t, token, ROWS);
    SHARED(int64_t, visible, ROWS);
    SHARED(int, head, ROWS);
    SHARED(four, queries, STEP * PITCH / 4);
    SHARED(float, keys, STEP* TILE);
    SHARED(four, powers, TILE * PITCH / 4);
    SHARED(float, keep, ROWS);
    SHARED(int64_t, key_at, TILE);
    SHARED(int64_t, value_at, TILE);
    SHARED(int, seen, ROWS);
    const shared_tile tile = {
        token, visible, head, (float*)queries, keys, (float*)powers, keep, key_at, value_at, seen};
    const int64_t group = group_of(args);
    int64_t tiles = round_up_div(args.tokens * group, ROWS);
    // each sequence may begin a tile of its own
    tiles = args.sequences != nullptr ? tiles + args.sequence_count : tiles * args.batches;
    const int64_t items = tiles * args.kv_heads * round_up_div(args.width, COLUMNS);
    for (int64_t item = block_index(); item < items; item += block_count()) {
        attention_unit unit;
        if (find_unit(args, item, unit)) attend<T>(args, unit, tile);
    }
}

} // namespace

KERNEL_OF(128, attention_f32, berth_cuda_attention_args) { attention<float>(args); }
KERNEL_OF(128, attention_f16, berth_cuda_attention_args) { attention<f16>(args); }
KERNEL_OF(128, attention_bf16, berth_cuda_attention_args) { attention<bf16>(args); }
KERNEL_OF(128, attention_q8_0, berth_cuda_attention_args) { attention<q8_0>(args); }
