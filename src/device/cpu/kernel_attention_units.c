// SPDX-License-Identifier: Apache-2.0
// Attention with the softmax taken as the keys come (Milakov and Gimelshein 2018; Dao et al. 2022),
// over keys and values that lie in blocks.
//
// A unit of work is a block of query rows that read the same KV head (several tokens, and the heads
// of a group, one behind the other) and walks over tiles of 64 keys: the tile's keys are brought
// into columns once, then scores, powers and weighted values of all rows follow. Tiles start at
// multiples of 64 and are collected in segments that start at multiples of SEGMENT; a row's
// segments are merged in ascending order. A row's arithmetic is the same whatever block it is in:
// one token or many, one unit a segment (few rows over many keys) or all segments in one unit, keys
// in one block or scattered over many, give the same bits, and keys that a row does not see are not
// read for it.
//
// A tile's keys lie in runs, one for each block that it touches. Where runs begin at multiples of
// 16 keys they are brought into columns, and their values summed, where they lie; else, and where
// they are quantised, their rows are copied side by side as f32 first. While a run is read, the
// worker asks memory for the one in its place in the next tile: rows of one head lie as far apart
// as those of all heads are long, which the hardware does not foresee, and of many requests at once
// too many are dropped.
//
// A mask changes scores before the softmax: to -infinity, or by a number. A tile, or a segment, of
// which a row may see nothing is left out of that row's sums, so that no infinity meets another.
//
// Where there is FMA the products use it, so results differ in the last places from those of the
// portable rows.
#include "device/cpu/kernel_attention_units.h"

#include <math.h>
#include <string.h>

#define TILE BERTH_ATTENTION_TILE
#define SEGMENT BERTH_ATTENTION_SEGMENT
#define ROWS BERTH_ATTENTION_ROWS
#define LANES 16          // runs that begin at multiples of it are brought into columns in place
#define LEAST 262144      // multiplications that are worth a second thread
#define LEAST_MERGED 1024 // rows to merge that are worth it

_Static_assert(TILE % LANES == 0, "a tile begins where a run may");

typedef berth_attention_job attention_job;
typedef berth_attention_sequence attention_sequence;

/// Columns of `width` values rounded up to whole vectors.
static int64_t round_columns(int64_t width) { return (width + LANES - 1) / LANES * LANES; }

int64_t berth_attention_worker_floats(int64_t depth,
                                      int64_t width,
                                      int64_t unit_rows,
                                      bool has_table) {
    const int64_t columns = round_columns(width);
    const int64_t tiles = TILE * (depth + columns + (has_table ? depth : 0));
    return tiles + unit_rows * (depth + TILE + 2 * columns);
}

int64_t berth_attention_slot_floats(int64_t width) { return round_columns(width) + 16; }

/// Keys of a tile that lie one behind the other.
typedef struct key_run {
    int64_t block; ///< -1: no such block
    int64_t row;   ///< of the block
    int64_t begin; ///< in the tile
    int64_t count;
} key_run;

/// Keys of a sequence that a unit reads for a KV head, from a tile's first on.
typedef struct key_span {
    const attention_sequence* sequence;
    int64_t kv_head;
    int64_t begin;
    int64_t end;
} key_span;

/// Where up to 64 keys lie.
typedef struct key_tile {
    int64_t kv_head;
    int64_t key;
    int64_t count;
    int64_t run_count;
    bool is_direct; ///< the runs may be used where they lie
    bool has_holes; ///< some run has no block
    key_run runs[TILE];
} key_tile;

/// What a unit is to do.
typedef struct unit_task {
    key_span keys;
    int64_t first; ///< row of the KV head, among the sequence's
    int64_t count; ///< rows
} unit_task;

/// A worker's part of the scratch, and the unit that it works on.
typedef struct attention_unit {
    const attention_job* job;
    const attention_sequence* sequence;
    key_span keys;
    const key_span* after; ///< of the unit that the worker does next; NULL if there is none
    int64_t first;         ///< row of the KV head, among the sequence's
    int64_t count;         ///< rows
    float* key_columns;    ///< [depth, TILE]
    float* values;         ///< [TILE, columns], where values are converted
    float* queries;        ///< [count, depth], scaled
    float* scores;         ///< [count, TILE]
    float* sums;           ///< [count, columns], of the segment
    float* all_sums;       ///< [count, columns], of the segments before
    float* key_rows;       ///< [TILE, depth], where keys are copied first; with a table only
    int64_t visible[ROWS]; ///< keys that each row sees: [0, visible)
    int64_t seen[ROWS];    ///< of the tile, from its first; 0 also where all of them are hidden
    berth_attention_state state[ROWS];
    berth_attention_state all_state[ROWS];
    key_tile tiles[2]; ///< the tile that is worked on and the next one, in turn
} attention_unit;

/// The row of q of a row of the unit.
static int64_t token_of(const attention_unit* unit, int64_t row) {
    return unit->sequence->first_query + (unit->first + row) / unit->job->group;
}

static int64_t head_of(const attention_unit* unit, int64_t row) {
    const int64_t group = unit->job->group;
    return unit->keys.kv_head * group + (unit->first + row) % group;
}

/// Blocks of query rows of a sequence, for each KV head.
static int64_t row_blocks(const attention_job* job, const attention_sequence* sequence) {
    return berth_ceil_div(sequence->queries * job->group, ROWS);
}

/// Keys that query `index` of the sequence sees: [0, result).
static int64_t visible_keys(const attention_sequence* sequence, int64_t index) {
    // so many keys may be seen that nothing can be added
    if (sequence->first_seen >= sequence->keys) return sequence->keys;
    return berth_min_i64(sequence->first_seen + index, sequence->keys);
}

/// The address of row [first, second, :] of a view.
static unsigned char* row_at(const berth_view* view, int64_t first, int64_t second) {
    const int64_t at = first * view->strides[0] + second * view->strides[1];
    return (unsigned char*)view->data + at * berth_dtype_bytes(view->dtype);
}

static void load_queries(attention_unit* unit) {
    const attention_job* job = unit->job;
    const berth_to_f32_fn load = berth_convert_query_to_f32(job->q.dtype);
    for (int64_t r = 0; r < unit->count; ++r) {
        float* row = unit->queries + r * job->depth;
        load(row_at(&job->q, token_of(unit, r), head_of(unit, r)), row, job->depth);
        job->rows->affine(row, row, job->depth, job->scale, 0.0f);
    }
}

// --- Where keys lie ------------------------------------------------------------------------------

int64_t berth_attention_block_at(const attention_job* job, int64_t index) {
    const berth_view* table = job->table;
    int32_t block;
    memcpy(&block, (const unsigned char*)table->data + index * table->strides[0] * 4, sizeof block);
    return block >= 0 && block < job->keys.dims[0] ? block : -1;
}

/// Finds the tile of a span that begins at `key`: of no keys from the span's end on.
static void find_keys(const attention_job* job, const key_span* span, int64_t key, key_tile* tile) {
    const int64_t count = berth_min_i64(TILE, span->end - key);
    tile->kv_head = span->kv_head;
    tile->key = key;
    tile->count = count;
    tile->run_count = 0;
    tile->is_direct = job->is_aligned;
    tile->has_holes = false;
    if (count <= 0) return;
    if (job->table == NULL) {
        tile->runs[tile->run_count++] = (key_run){.row = key, .count = count};
        return;
    }
    const int64_t size = job->keys.dims[1];
    int64_t entry = span->sequence->first_entry + key / size;
    int64_t row = key % size;
    for (int64_t begin = 0; begin < count;) {
        key_run* run = &tile->runs[tile->run_count++];
        *run = (key_run){
            .row = row, .begin = begin, .count = berth_min_i64(size - row, count - begin)};
        run->block = berth_attention_block_at(job, entry++);
        if (run->block < 0) tile->has_holes = true;
        begin += run->count;
        row = 0;
    }
    if (tile->has_holes) tile->is_direct = false;
}

/// The address of row `index` of a run, in keys or values.
static const unsigned char* run_at(const berth_view* view,
                                   const key_tile* tile,
                                   const key_run* run,
                                   int64_t index) {
    const int64_t at = run->block * view->strides[0] + (run->row + index) * view->strides[1] +
                       tile->kv_head * view->strides[2];
    return (const unsigned char*)view->data + at * berth_dtype_bytes(view->dtype);
}

/// The rows of run `index` of the tile that comes next, of `bytes` bytes in keys or values: none if
/// it has no such run.
static berth_rows_ahead rows_ahead(const berth_view* view,
                                   const key_tile* next,
                                   int64_t index,
                                   int64_t bytes) {
    if (index >= next->run_count || next->runs[index].block < 0) return (berth_rows_ahead){0};
    const key_run* run = &next->runs[index];
    return (berth_rows_ahead){
        .rows = run_at(view, next, run, 0),
        .stride_bytes = view->strides[1] * berth_dtype_bytes(view->dtype),
        .row_bytes = bytes,
        .count = run->count,
    };
}

/// Asks for all rows of the next tile from run `index` on.
static void ask_for_rest(const berth_view* view,
                         const key_tile* next,
                         int64_t index,
                         int64_t bytes) {
    for (; index < next->run_count; ++index) {
        const berth_rows_ahead ahead = rows_ahead(view, next, index, bytes);
        for (int64_t row = 0; row < ahead.count; ++row)
            berth_rows_ask(&ahead, row);
    }
}

/// Copies the rows of a run side by side, `pitch` apart, as f32; what has no block is 0.
static void copy_run(const attention_job* job,
                     const berth_view* view,
                     const key_tile* tile,
                     const key_run* run,
                     const berth_rows_ahead* ahead,
                     float* to,
                     int64_t pitch) {
    const bool is_there = run->block >= 0;
    const int64_t filled = is_there ? view->dims[3] : 0;
    for (int64_t row = 0; row < run->count; ++row, to += pitch) {
        berth_rows_ask(ahead, row);
        if (is_there) job->to_f32(run_at(view, tile, run, row), to, filled);
        memset(to + filled, 0, (size_t)(pitch - filled) * sizeof *to);
    }
}

// --- Units ---------------------------------------------------------------------------------------

/// The sequence that unit `index` belongs to: the last one that begins there or before.
static const attention_sequence* sequence_of(const attention_job* job, int64_t index) {
    int64_t low = 0, high = job->sequence_count; // it is in [low, high)
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (job->sequences[middle].first_unit <= index)
            low = middle;
        else
            high = middle;
    }
    return &job->sequences[low];
}

/// What unit `index` of all is to do.
static unit_task task_of(const attention_job* job, int64_t index) {
    const attention_sequence* sequence = sequence_of(job, index);
    const bool is_whole = sequence->first_slot < 0;
    const int64_t blocks = row_blocks(job, sequence);
    const int64_t turn = (index - sequence->first_unit) / job->kv_heads;
    int64_t block = turn % blocks;
    // Blocks from both ends in turn: later tokens see more keys, and each worker gets its share.
    if (is_whole) block = turn % 2 == 0 ? turn / 2 : blocks - 1 - turn / 2;
    unit_task task = {.first = block * ROWS};
    task.count = berth_min_i64(ROWS, sequence->queries * job->group - task.first);
    const int64_t segment = is_whole ? 0 : turn / blocks;
    const int64_t seen = visible_keys(sequence, (task.first + task.count - 1) / job->group);
    task.keys = (key_span){
        .sequence = sequence,
        .kv_head = (index - sequence->first_unit) % job->kv_heads,
        .begin = segment * SEGMENT,
        .end = is_whole ? seen : berth_min_i64((segment + 1) * SEGMENT, seen),
    };
    return task;
}

/// Where the tile that begins at `key` is described.
static key_tile* tile_at(attention_unit* unit, int64_t key) { return &unit->tiles[key / TILE % 2]; }

static void unit_init(attention_unit* unit,
                      const attention_job* job,
                      const unit_task* task,
                      const key_span* after,
                      uint32_t worker) {
    const bool has_table = job->table != NULL;
    const int64_t worker_floats =
        berth_attention_worker_floats(job->depth, job->width, job->unit_rows, has_table);
    unit->job = job;
    unit->sequence = task->keys.sequence;
    unit->keys = task->keys;
    unit->after = after;
    unit->first = task->first;
    unit->count = task->count;
    unit->key_columns = job->workers + (int64_t)worker * worker_floats;
    unit->values = unit->key_columns + TILE * job->depth;
    unit->scores = unit->values + TILE * job->columns;
    unit->sums = unit->scores + job->unit_rows * TILE;
    unit->all_sums = unit->sums + job->unit_rows * job->columns;
    unit->queries = unit->all_sums + job->unit_rows * job->columns;
    unit->key_rows = has_table ? unit->queries + job->unit_rows * job->depth : NULL;
    for (int64_t r = 0; r < unit->count; ++r)
        unit->visible[r] = visible_keys(unit->sequence, (unit->first + r) / job->group);
    find_keys(job, &unit->keys, unit->keys.begin, tile_at(unit, unit->keys.begin));
}

// --- Scores --------------------------------------------------------------------------------------

/// All columns are filled in, with zeros behind the keys: the product over whole vectors is the
/// fastest, also where there are few keys.
static void bring_into_columns(attention_unit* unit, const key_tile* tile, const key_tile* next) {
    const attention_job* job = unit->job;
    const berth_view* view = &job->keys;
    const int64_t depth = job->depth;
    for (int64_t i = 0; i < tile->run_count; ++i) {
        const key_run* run = &tile->runs[i];
        const bool is_last = i + 1 == tile->run_count;
        const berth_rows_ahead ahead = rows_ahead(view, next, i, job->key_bytes);
        if (!tile->is_direct) {
            copy_run(job, view, tile, run, &ahead, unit->key_rows + run->begin * depth, depth);
            continue;
        }
        job->rows->transpose_tile[view->dtype](unit->key_columns + run->begin,
                                               is_last ? TILE - run->begin : run->count,
                                               run_at(view, tile, run, 0),
                                               view->strides[1],
                                               run->count,
                                               depth,
                                               &ahead);
    }
    ask_for_rest(view, next, tile->run_count, job->key_bytes);
    if (tile->is_direct) return;
    const berth_rows_ahead nothing = {0};
    job->rows->transpose_tile[BERTH_F32](
        unit->key_columns, TILE, unit->key_rows, depth, tile->count, depth, &nothing);
}

/// Scores of all the unit's rows against the tile's keys.
static void score_tile(attention_unit* unit, const key_tile* tile, const key_tile* next) {
    const int64_t depth = unit->job->depth;
    bring_into_columns(unit, tile, next);
    memset(unit->scores, 0, (size_t)(unit->count * TILE) * sizeof(float));
    unit->job->rows->multiply_add(unit->scores,
                                  TILE,
                                  unit->queries,
                                  depth,
                                  unit->key_columns,
                                  TILE,
                                  unit->count,
                                  depth,
                                  TILE);
}

/// `count` elements of the mask's row of a query, from `key` on, as f32.
static void load_mask(const berth_view* mask,
                      int64_t head,
                      int64_t token,
                      int64_t key,
                      int64_t count,
                      float values[TILE]) {
    const int64_t bytes = berth_dtype_bytes(mask->dtype);
    const int64_t at = head * mask->strides[0] + token * mask->strides[1] + key * mask->strides[2];
    const unsigned char* from = (const unsigned char*)mask->data + at * bytes;
    uint32_t items[TILE];
    if (mask->strides[2] != 1) {
        for (int64_t i = 0; i < count; ++i)
            memcpy((unsigned char*)items + i * bytes,
                   from + i * mask->strides[2] * bytes,
                   (size_t)bytes);
        from = (const unsigned char*)items;
    }
    if (mask->dtype != BERTH_BOOL) {
        berth_convert_query_to_f32(mask->dtype)(from, values, count);
        return;
    }
    for (int64_t i = 0; i < count; ++i)
        values[i] = from[i] != 0 ? 0.0f : -INFINITY;
}

/// Adds the mask to a row's scores of `count` keys. False if it leaves none of them.
static bool mask_scores(const attention_unit* unit, int64_t row, int64_t key, int64_t count) {
    float* scores = unit->scores + row * TILE;
    float values[TILE];
    load_mask(unit->job->mask, head_of(unit, row), token_of(unit, row), key, count, values);
    bool has_any = false;
    for (int64_t i = 0; i < count; ++i) {
        scores[i] = values[i] == -INFINITY ? -INFINITY : scores[i] + values[i];
        has_any = has_any || scores[i] != -INFINITY;
    }
    return has_any;
}

/// Hides the keys that have no block from a row that sees `seen` of the tile. False if it leaves
/// none of them.
static bool hide_holes(const attention_unit* unit,
                       int64_t row,
                       const key_tile* tile,
                       int64_t seen) {
    float* scores = unit->scores + row * TILE;
    bool has_any = false;
    for (int64_t i = 0; i < tile->run_count && tile->runs[i].begin < seen; ++i) {
        const key_run* run = &tile->runs[i];
        has_any = has_any || run->block >= 0;
        for (int64_t at = run->begin; run->block < 0 && at < run->begin + run->count; ++at)
            scores[at] = -INFINITY;
    }
    return has_any;
}

/// True if a row's softmax over some keys has seen any of them: the largest adds e^0, or a NaN.
static bool has_seen(const berth_attention_state* state) { return state->total != 0; }

/// Turns a row's scores of the tile into powers; returns how many of its keys it sees.
static int64_t attend_tile(attention_unit* unit, int64_t row, const key_tile* tile) {
    const attention_job* job = unit->job;
    const int64_t columns = job->columns;
    const int64_t seen = berth_min_i64(unit->visible[row] - tile->key, TILE);
    if (seen <= 0) return 0;
    if (tile->has_holes && !hide_holes(unit, row, tile, seen)) return 0;
    if (job->mask != NULL && !mask_scores(unit, row, tile->key, seen)) return 0;
    job->rows->attend(
        unit->scores + row * TILE, seen, &unit->state[row], unit->sums + row * columns, columns);
    return seen;
}

// --- Values --------------------------------------------------------------------------------------

/// Adds `count` values, `stride` apart, of the tile's keys from `begin` on, weighted, to the sums
/// of rows that see some of these keys.
static void sum_values(
    attention_unit* unit, const float* values, int64_t stride, int64_t begin, int64_t count) {
    const attention_job* job = unit->job;
    const int64_t columns = job->columns;
    for (int64_t r = 0; r < unit->count;) {
        const int64_t seen = unit->seen[r];
        int64_t end = r + 1; // rows that see equally many go together
        while (end < unit->count && unit->seen[end] == seen) {
            ++end;
        }
        if (seen > begin) {
            job->rows->multiply_add(unit->sums + r * columns,
                                    columns,
                                    unit->scores + r * TILE + begin,
                                    TILE,
                                    values,
                                    stride,
                                    end - r,
                                    berth_min_i64(seen - begin, count),
                                    columns);
        }
        r = end;
    }
}

/// Adds the tile's values: where they lie, or converted.
static void sum_tile(attention_unit* unit, const key_tile* tile, const key_tile* next) {
    const attention_job* job = unit->job;
    const berth_view* view = &job->values;
    const int64_t stride = view->strides[1];
    const int64_t columns = job->columns;
    const bool is_read_there = tile->is_direct && view->dtype == BERTH_F32 && job->width == columns;
    for (int64_t i = 0; i < tile->run_count; ++i) {
        const key_run* run = &tile->runs[i];
        float* to = unit->values + run->begin * columns;
        const berth_rows_ahead ahead = rows_ahead(view, next, i, job->value_bytes);
        if (is_read_there) {
            const void* from = run_at(view, tile, run, 0);
            sum_values(unit, from, stride, run->begin, run->count);
        } else if (tile->is_direct) {
            const void* from = run_at(view, tile, run, 0);
            job->rows->widen_tile[view->dtype](
                to, columns, from, stride, run->count, job->width, &ahead);
        } else {
            copy_run(job, view, tile, run, &ahead, to, columns);
        }
    }
    ask_for_rest(view, next, tile->run_count, job->value_bytes);
    if (!is_read_there) sum_values(unit, unit->values, columns, 0, tile->count);
}

/// Finds what the worker reads after the tile at `key`, in this unit or the one that follows.
static key_tile* find_next(attention_unit* unit, int64_t key) {
    key_tile* next = tile_at(unit, key + TILE);
    if (key + TILE < unit->keys.end)
        find_keys(unit->job, &unit->keys, key + TILE, next);
    else if (unit->after != NULL)
        find_keys(unit->job, unit->after, unit->after->begin, next);
    else
        next->run_count = 0;
    return next;
}

/// Sums the values of the segment's keys for all rows of the unit, from nothing.
static void attend_segment(attention_unit* unit, int64_t segment) {
    const attention_job* job = unit->job;
    memset(unit->sums, 0, (size_t)(unit->count * job->columns) * sizeof(float));
    for (int64_t r = 0; r < unit->count; ++r) {
        unit->state[r] = (berth_attention_state){.largest = -INFINITY};
    }
    const int64_t end = berth_min_i64((segment + 1) * SEGMENT, unit->keys.end);
    for (int64_t key = segment * SEGMENT; key < end; key += TILE) {
        const key_tile* tile = tile_at(unit, key);
        const key_tile* next = find_next(unit, key);
        score_tile(unit, tile, next);
        for (int64_t r = 0; r < unit->count; ++r)
            unit->seen[r] = attend_tile(unit, r, tile);
        sum_tile(unit, tile, next);
    }
}

/// Writes a row's result: its sums over its total of powers.
static void store_row(const attention_job* job,
                      int64_t token,
                      int64_t head,
                      const berth_attention_state* state,
                      float* sums,
                      bool sees_any) {
    const berth_view* out = &job->out;
    const int64_t at = (token * job->heads + head) * job->width;
    void* target = (unsigned char*)out->data + at * berth_dtype_bytes(out->dtype);
    if (sees_any)
        job->rows->affine(sums, sums, job->width, 1.0f / state->total, 0.0f);
    else
        memset(sums, 0, (size_t)job->width * sizeof *sums);
    berth_store_f32(out->dtype, sums, target, job->width);
}

// --- All segments in one unit --------------------------------------------------------------------

/// Takes over the segment's sums of rows that see any of its keys.
static void merge_segment(attention_unit* unit, int64_t segment) {
    const attention_job* job = unit->job;
    const int64_t columns = job->columns;
    for (int64_t r = 0; r < unit->count; ++r) {
        if (unit->visible[r] <= segment * SEGMENT) continue;
        float* all = unit->all_sums + r * columns;
        const float* sums = unit->sums + r * columns;
        if (segment == 0) {
            memcpy(all, sums, (size_t)columns * sizeof *all);
            unit->all_state[r] = unit->state[r];
        } else if (has_seen(&unit->state[r])) {
            job->rows->attend_merge(&unit->all_state[r], all, &unit->state[r], sums, columns);
        }
    }
}

/// Runs a unit that walks over all segments.
static void whole_unit(attention_unit* unit) {
    const attention_job* job = unit->job;
    for (int64_t segment = 0; segment * SEGMENT < unit->keys.end; ++segment) {
        attend_segment(unit, segment);
        merge_segment(unit, segment);
    }
    for (int64_t r = 0; r < unit->count; ++r) {
        store_row(job,
                  token_of(unit, r),
                  head_of(unit, r),
                  &unit->all_state[r],
                  unit->all_sums + r * job->columns,
                  unit->visible[r] > 0 && has_seen(&unit->all_state[r]));
    }
}

// --- A unit for each segment ---------------------------------------------------------------------

/// Where the sums of a segment wait to be merged; their state is behind them.
static float* slot_at(const attention_job* job,
                      const attention_sequence* sequence,
                      int64_t head,
                      int64_t segment) {
    const int64_t slot = sequence->first_slot + head * sequence->segments + segment;
    return job->slots + slot * berth_attention_slot_floats(job->width);
}

static void segment_unit(attention_unit* unit) {
    const attention_job* job = unit->job;
    const int64_t segment = unit->keys.begin / SEGMENT;
    attend_segment(unit, segment);
    for (int64_t r = 0; r < unit->count; ++r) {
        float* to = slot_at(job, unit->sequence, head_of(unit, r), segment);
        memcpy(to, unit->sums + r * job->columns, (size_t)job->columns * sizeof *to);
        memcpy(to + job->columns, &unit->state[r], sizeof unit->state[r]);
    }
}

static berth_attention_state state_behind(const attention_job* job, const float* sums) {
    berth_attention_state state;
    memcpy(&state, sums + job->columns, sizeof state);
    return state;
}

/// Merges the segments of a row in ascending order.
static void merge_row(const attention_job* job, const attention_sequence* sequence, int64_t head) {
    const int64_t visible = visible_keys(sequence, 0);
    float* all = slot_at(job, sequence, head, 0);
    berth_attention_state state = state_behind(job, all);
    for (int64_t segment = 1; segment * SEGMENT < visible; ++segment) {
        const float* sums = slot_at(job, sequence, head, segment);
        const berth_attention_state other = state_behind(job, sums);
        if (!has_seen(&other)) continue;
        job->rows->attend_merge(&state, all, &other, sums, job->columns);
    }
    store_row(job, sequence->first_query, head, &state, all, visible > 0 && has_seen(&state));
}

static void merge_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const attention_job* job = data;
    for (int64_t i = begin; i < end; ++i) {
        const attention_sequence* sequence = &job->sequences[i / job->heads];
        if (sequence->first_slot >= 0) merge_row(job, sequence, i % job->heads);
    }
}

// --- Sequences -----------------------------------------------------------------------------------

static void unit_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    const attention_job* job = data;
    unit_task task = task_of(job, begin);
    attention_unit unit;
    for (int64_t u = begin; u < end; ++u) {
        const bool is_last = u + 1 == end;
        const unit_task next = is_last ? task : task_of(job, u + 1);
        unit_init(&unit, job, &task, is_last ? NULL : &next.keys, worker);
        load_queries(&unit);
        if (task.keys.sequence->first_slot < 0)
            whole_unit(&unit);
        else
            segment_unit(&unit);
        task = next;
    }
}

/// What the sequences come to.
typedef struct attention_plan {
    int64_t units;
    int64_t slots;
    double multiplications;
} attention_plan;

/// Numbers the sequences' units, and gives slots to those that are cut at their segments.
static attention_plan plan_sequences(const attention_job* job,
                                     attention_sequence* sequences,
                                     int64_t count) {
    attention_plan plan = {0};
    for (int64_t i = 0; i < count; ++i) {
        attention_sequence* s = &sequences[i];
        s->segments = berth_ceil_div(s->keys, SEGMENT);
        s->first_unit = plan.units;
        s->first_slot = -1;
        const int64_t left = job->slot_count - plan.slots;
        const bool is_cut = s->queries == 1 && s->segments > 1 && s->segments <= left / job->heads;
        if (is_cut) {
            s->first_slot = plan.slots;
            plan.slots += s->segments * job->heads;
        }
        plan.units += job->kv_heads * row_blocks(job, s) * (is_cut ? s->segments : 1);
        plan.multiplications += (double)s->queries * (double)s->keys;
    }
    plan.multiplications *= (double)job->heads * (double)(job->depth + job->width);
    return plan;
}

/// Bytes of one head's row of keys or values.
static int64_t row_bytes(const berth_view* view) {
    const berth_dtype_info* info = berth_dtype_info_of(view->dtype);
    return view->dims[3] / info->block_values * info->block_bytes;
}

void berth_attention_run(const berth_op_call* call,
                         berth_attention_job* job,
                         berth_attention_sequence* sequences,
                         int64_t count) {
    job->heads = job->q.dims[1];
    job->kv_heads = job->keys.dims[2];
    job->depth = job->q.dims[2];
    job->width = job->values.dims[3];
    if (job->heads == 0 || job->width == 0) return;
    job->group = job->heads / job->kv_heads;
    job->columns = round_columns(job->width);
    job->is_aligned = berth_dtype_is_plain(job->keys.dtype) &&
                      (job->table == NULL || job->keys.dims[1] % LANES == 0);
    job->key_bytes = row_bytes(&job->keys);
    job->value_bytes = row_bytes(&job->values);
    job->rows = berth_basic_query_rows();
    job->to_f32 = berth_convert_query_to_f32(job->keys.dtype);
    job->sequences = sequences;
    job->sequence_count = count;
    const attention_plan plan = plan_sequences(job, sequences, count);
    const bool is_worth = plan.slots > 0 || plan.multiplications >= LEAST;
    berth_run_range(call, plan.units, 1, is_worth ? 1 : plan.units + 1, unit_range, job);
    if (plan.slots > 0)
        berth_run_range(call, count * job->heads, 1, LEAST_MERGED, merge_range, job);
}
