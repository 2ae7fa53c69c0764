// SPDX-License-Identifier: Apache-2.0
// ATTENTION with the softmax taken as the keys come (Milakov and Gimelshein 2018; Dao et al. 2022).
//
// A unit of work is a block of query rows that read the same KV head (several tokens, and the heads
// of a group, one behind the other) and walks over tiles of 64 keys: the tile's keys are brought
// into columns once, then scores, powers and weighted values of all rows follow. Tiles start at
// multiples of 64 and are collected in segments that start at multiples of SEGMENT; a row's
// segments are merged in ascending order. A row's arithmetic is the same whatever block it is in:
// one token or many, one unit a segment (few rows over many keys) or all segments in one unit, give
// the same bits, and keys that a row does not see are not read for it.
//
// A mask changes scores before the softmax: to -infinity, or by a number. A tile, or a segment, of
// which a row may see nothing is left out of that row's sums, so that no infinity meets another.
//
// Where there is FMA the products use it, so results differ in the last places from those of the
// portable rows.
#include "device/cpu/kernel_attention.h"

#include <math.h>
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_basic.h"

#define TILE BERTH_ATTENTION_TILE
#define SEGMENT 512      // keys
#define ROWS 48          // query rows of a unit: enough to pay for bringing a tile into columns
#define LEAST 262144     // multiplications that are worth a second thread
#define FEW 8            // query rows that wait for memory rather than for arithmetic
#define UNITS_A_WORKER 4 // with fewer, segments become units of their own

/// How a call is cut, and what its scratch holds. Sizes count floats.
typedef struct attention_shape {
    int64_t tokens;
    int64_t heads;
    int64_t kv_heads;
    int64_t group; ///< query heads a KV head
    int64_t keys;
    int64_t depth;   ///< of a key
    int64_t width;   ///< of a value
    int64_t columns; ///< width rounded up to whole vectors
    int64_t rows;    ///< query rows of a KV head: tokens * group
    int64_t block;   ///< rows of a unit, at most
    int64_t blocks;
    int64_t segments;
    bool may_split; ///< there may be keys enough for `split`
    bool split;     ///< a unit is one segment; its sums wait in the scratch to be merged
    int64_t worker_floats;
    int64_t segment_floats; ///< of one row's sums of one segment, with its state
} attention_shape;

static attention_shape shape_of(const berth_op_call* call) {
    // batches come first, where there are any
    const int64_t* q = call->inputs[0].dims + call->inputs[0].rank - 3;
    const int64_t* k = call->inputs[1].dims + call->inputs[1].rank - 3;
    const int64_t* v = call->inputs[2].dims + call->inputs[2].rank - 3;
    attention_shape s = {
        .tokens = q[0],
        .heads = q[1],
        .kv_heads = k[1],
        .keys = k[0],
        .depth = q[2],
        .width = v[2],
    };
    if (s.kv_heads == 0) return s;
    s.group = s.heads / s.kv_heads;
    s.columns = (s.width + 15) / 16 * 16;
    s.rows = s.tokens * s.group;
    // the same for every number of tokens but one, so that the scratch is one form of the sizes
    s.block = s.tokens == 1 ? berth_min_i64(ROWS, s.rows) : ROWS;
    s.blocks = berth_ceil_div(s.rows, ROWS);
    s.segments = berth_ceil_div(s.keys, SEGMENT);
    const int64_t workers = (int64_t)berth_team_worker_count(call->team);
    s.may_split = s.tokens == 1 && workers > 1 && s.kv_heads * s.blocks < UNITS_A_WORKER * workers;
    s.split = s.may_split && s.segments > 1;
    const int64_t tiles = TILE * (s.depth + s.columns);
    s.worker_floats = tiles + s.block * (s.depth + TILE + 2 * s.columns);
    s.segment_floats = s.columns + 16; // whole cache lines
    return s;
}

uint64_t berth_cpu_attention_scratch(const berth_op_call* call) {
    const attention_shape s = shape_of(call);
    const uint64_t workers = berth_team_worker_count(call->team);
    const uint64_t bytes = workers * (uint64_t)s.worker_floats * sizeof(float);
    if (!s.may_split) return bytes;
    // A little more than whole segments take, but linear in the keys: what a step has seen at a few
    // lengths tells what it needs at any, also beyond the first segment.
    const int64_t segment_bytes = s.segment_floats * (int64_t)sizeof(float);
    const int64_t key_bytes = berth_ceil_div(segment_bytes, SEGMENT);
    return bytes + (uint64_t)s.heads * (uint64_t)(segment_bytes + s.keys * key_bytes);
}

typedef struct attention_job {
    attention_shape shape;
    const berth_op_call* call; ///< of one batch: q, k, v and out have three dimensions
    const berth_view* mask;    ///< [heads, tokens, keys], repeated where strides are 0; or NULL
    const berth_basic_rows* rows;
    const berth_attention_params* params;
    float* workers;  ///< [workers, worker_floats]
    float* segments; ///< [tokens * heads, segments, segment_floats], if split
} attention_job;

/// A worker's part of the scratch, and the unit that it works on.
typedef struct attention_unit {
    const attention_job* job;
    int64_t kv_head;
    int64_t first;         ///< row of the KV head
    int64_t count;         ///< rows
    float* key_columns;    ///< [depth, TILE]
    float* values;         ///< [TILE, columns], where values are converted
    float* queries;        ///< [count, depth], scaled
    float* scores;         ///< [count, TILE]
    float* sums;           ///< [count, columns], of the segment
    float* all_sums;       ///< [count, columns], of the segments before
    int64_t visible[ROWS]; ///< keys that each row sees: [0, visible)
    int64_t seen[ROWS];    ///< of the tile, from its first; 0 also where a mask hides them all
    berth_attention_state state[ROWS];
    berth_attention_state all_state[ROWS];
} attention_unit;

static int64_t token_of(const attention_unit* unit, int64_t row) {
    return (unit->first + row) / unit->job->shape.group;
}

static int64_t head_of(const attention_unit* unit, int64_t row) {
    const int64_t group = unit->job->shape.group;
    return unit->kv_head * group + (unit->first + row) % group;
}

/// Keys that a row of the unit sees: [0, result).
static int64_t visible_keys(const attention_unit* unit, int64_t row) {
    const attention_shape* s = &unit->job->shape;
    const int64_t offset = unit->job->params->query_offset;
    // an offset beyond the keys may be so large that nothing can be added to it
    if (!unit->job->params->causal || offset >= s->keys) return s->keys;
    return berth_min_i64(offset + token_of(unit, row) + 1, s->keys);
}

static void unit_init(
    attention_unit* unit, const attention_job* job, uint32_t worker, int64_t head, int64_t block) {
    const attention_shape* s = &job->shape;
    unit->job = job;
    unit->kv_head = head;
    unit->first = block * ROWS;
    unit->count = berth_min_i64(ROWS, s->rows - unit->first);
    unit->key_columns = job->workers + (int64_t)worker * s->worker_floats;
    unit->values = unit->key_columns + TILE * s->depth;
    unit->scores = unit->values + TILE * s->columns;
    unit->sums = unit->scores + s->block * TILE;
    unit->all_sums = unit->sums + s->block * s->columns;
    unit->queries = unit->all_sums + s->block * s->columns;
    for (int64_t r = 0; r < unit->count; ++r)
        unit->visible[r] = visible_keys(unit, r);
}

/// The address of row [first, second, :] of a view.
static unsigned char* row_at(const berth_view* view, int64_t first, int64_t second) {
    const int64_t at = first * view->strides[0] + second * view->strides[1];
    return (unsigned char*)view->data + at * berth_dtype_bytes(view->dtype);
}

static void load_queries(attention_unit* unit) {
    const attention_job* job = unit->job;
    const berth_view* q = &job->call->inputs[0];
    const berth_to_f32_fn load = berth_convert_query_to_f32(q->dtype);
    for (int64_t r = 0; r < unit->count; ++r) {
        float* row = unit->queries + r * job->shape.depth;
        load(row_at(q, token_of(unit, r), head_of(unit, r)), row, job->shape.depth);
        job->rows->affine(row, row, job->shape.depth, job->params->scale, 0.0f);
    }
}

/// Scores of all the unit's rows against `count` keys from `key` on.
static void score_tile(attention_unit* unit, int64_t key, int64_t count) {
    const attention_job* job = unit->job;
    const int64_t depth = job->shape.depth;
    const berth_view* k = &job->call->inputs[1];
    job->rows->transpose_tile[k->dtype](
        unit->key_columns, row_at(k, key, unit->kv_head), k->strides[0], count, depth);
    memset(unit->scores, 0, (size_t)(unit->count * TILE) * sizeof(float));
    job->rows->multiply_add(unit->scores,
                            TILE,
                            unit->queries,
                            depth,
                            unit->key_columns,
                            TILE,
                            unit->count,
                            depth,
                            TILE);
}

// --- Masks ---------------------------------------------------------------------------------------

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

/// True if a row's softmax over some keys has seen any of them: the largest adds e^0, or a NaN.
static bool has_seen(const berth_attention_state* state) { return state->total != 0; }

// --- Values --------------------------------------------------------------------------------------

/// The values of keys [key, key + count) as f32 rows `*stride` apart: where they lie, or converted.
static const float* tile_values(const attention_unit* unit,
                                int64_t key,
                                int64_t count,
                                int64_t* stride) {
    const attention_shape* s = &unit->job->shape;
    const berth_view* v = &unit->job->call->inputs[2];
    const void* from = row_at(v, key, unit->kv_head);
    if (v->dtype == BERTH_F32 && s->width == s->columns) {
        *stride = v->strides[0];
        return from;
    }
    unit->job->rows->widen_tile[v->dtype](
        unit->values, s->columns, from, v->strides[0], count, s->width);
    *stride = s->columns;
    return unit->values;
}

/// Turns a row's scores of the tile into powers; returns how many of its keys it sees.
static int64_t attend_tile(attention_unit* unit, int64_t row, int64_t key) {
    const attention_job* job = unit->job;
    const int64_t columns = job->shape.columns;
    const int64_t seen = berth_min_i64(unit->visible[row] - key, TILE);
    if (seen <= 0 || (job->mask != NULL && !mask_scores(unit, row, key, seen))) return 0;
    job->rows->attend(
        unit->scores + row * TILE, seen, &unit->state[row], unit->sums + row * columns, columns);
    return seen;
}

/// Adds the tile's values, weighted, to the sums of rows that see some of its keys.
static void sum_tile(attention_unit* unit, int64_t key, int64_t count) {
    const attention_job* job = unit->job;
    const attention_shape* s = &job->shape;
    int64_t stride;
    const float* values = tile_values(unit, key, count, &stride);
    for (int64_t r = 0; r < unit->count;) {
        const int64_t seen = unit->seen[r];
        int64_t end = r + 1; // rows that see equally many go together
        while (end < unit->count && unit->seen[end] == seen) {
            ++end;
        }
        if (seen > 0) {
            job->rows->multiply_add(unit->sums + r * s->columns,
                                    s->columns,
                                    unit->scores + r * TILE,
                                    TILE,
                                    values,
                                    stride,
                                    end - r,
                                    seen,
                                    s->columns);
        }
        r = end;
    }
}

/// Asks for rows [key, key + count) of an operand. The rows of one head lie as far apart as those
/// of all heads are long, which the hardware does not foresee.
static void fetch_rows(const attention_unit* unit, int input, int64_t key, int64_t count) {
    const berth_view* view = &unit->job->call->inputs[input];
    const int64_t bytes = view->dims[2] * berth_dtype_bytes(view->dtype);
    for (int64_t i = 0; i < count; ++i) {
        const unsigned char* row = row_at(view, key + i, unit->kv_head);
        for (int64_t at = 0; at < bytes; at += 64)
            __builtin_prefetch(row + at);
    }
}

/// Sums the values of the segment's keys for all rows of the unit, from nothing.
static void attend_segment(attention_unit* unit, int64_t segment) {
    const int64_t columns = unit->job->shape.columns;
    memset(unit->sums, 0, (size_t)(unit->count * columns) * sizeof(float));
    for (int64_t r = 0; r < unit->count; ++r) {
        unit->state[r] = (berth_attention_state){.largest = -INFINITY};
    }
    const int64_t seen_by_last = unit->visible[unit->count - 1];
    const int64_t end = berth_min_i64((segment + 1) * SEGMENT, seen_by_last);
    for (int64_t key = segment * SEGMENT; key < end; key += TILE) {
        const int64_t count = berth_min_i64(TILE, end - key);
        if (unit->count <= FEW) {
            fetch_rows(unit, 2, key, count);
            fetch_rows(unit, 1, key + count, berth_min_i64(TILE, end - key - count));
        }
        score_tile(unit, key, count);
        for (int64_t r = 0; r < unit->count; ++r)
            unit->seen[r] = attend_tile(unit, r, key);
        sum_tile(unit, key, count);
    }
}

/// Writes a row's result: its sums over its total of powers.
static void store_row(const attention_job* job,
                      int64_t token,
                      int64_t head,
                      const berth_attention_state* state,
                      float* sums,
                      bool sees_any) {
    const berth_view* out = &job->call->outputs[0];
    const int64_t at = (token * job->shape.heads + head) * job->shape.width;
    void* target = (unsigned char*)out->data + at * berth_dtype_bytes(out->dtype);
    if (sees_any)
        job->rows->affine(sums, sums, job->shape.width, 1.0f / state->total, 0.0f);
    else
        memset(sums, 0, (size_t)job->shape.width * sizeof *sums);
    berth_store_f32(out->dtype, sums, target, job->shape.width);
}

// --- All segments in one unit --------------------------------------------------------------------

/// Takes over the segment's sums of rows that see any of its keys.
static void merge_segment(attention_unit* unit, int64_t segment) {
    const attention_job* job = unit->job;
    const int64_t columns = job->shape.columns;
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

static void whole_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    const attention_job* job = data;
    const attention_shape* s = &job->shape;
    for (int64_t u = begin; u < end; ++u) {
        // Blocks from both ends in turn: later tokens see more keys, and each worker gets its
        // share.
        const int64_t turn = u / s->kv_heads;
        const int64_t block = turn % 2 == 0 ? turn / 2 : s->blocks - 1 - turn / 2;
        attention_unit unit;
        unit_init(&unit, job, worker, u % s->kv_heads, block);
        load_queries(&unit);
        const int64_t seen_by_last = unit.visible[unit.count - 1];
        for (int64_t segment = 0; segment * SEGMENT < seen_by_last; ++segment) {
            attend_segment(&unit, segment);
            merge_segment(&unit, segment);
        }
        for (int64_t r = 0; r < unit.count; ++r) {
            store_row(job,
                      token_of(&unit, r),
                      head_of(&unit, r),
                      &unit.all_state[r],
                      unit.all_sums + r * s->columns,
                      unit.visible[r] > 0 && has_seen(&unit.all_state[r]));
        }
    }
}

// --- A unit for each segment ---------------------------------------------------------------------

static float* segment_sums(const attention_job* job, int64_t token, int64_t head, int64_t segment) {
    const attention_shape* s = &job->shape;
    const int64_t row = (token * s->heads + head) * s->segments + segment;
    return job->segments + row * s->segment_floats;
}

static void split_range(void* data, int64_t begin, int64_t end, uint32_t worker) {
    const attention_job* job = data;
    const attention_shape* s = &job->shape;
    const size_t bytes = (size_t)s->columns * sizeof(float);
    for (int64_t u = begin; u < end; ++u) {
        const int64_t segment = u / (s->kv_heads * s->blocks);
        attention_unit unit;
        unit_init(&unit, job, worker, u % s->kv_heads, u / s->kv_heads % s->blocks);
        load_queries(&unit);
        attend_segment(&unit, segment);
        for (int64_t r = 0; r < unit.count; ++r) {
            float* to = segment_sums(job, token_of(&unit, r), head_of(&unit, r), segment);
            memcpy(to, unit.sums + r * s->columns, bytes);
            memcpy(to + s->columns, &unit.state[r], sizeof unit.state[r]);
        }
    }
}

static berth_attention_state state_behind(const attention_job* job, const float* sums) {
    berth_attention_state state;
    memcpy(&state, sums + job->shape.columns, sizeof state);
    return state;
}

/// Merges the segments of the unit's rows in ascending order.
static void merge_rows(const attention_unit* unit) {
    const attention_job* job = unit->job;
    const int64_t columns = job->shape.columns;
    for (int64_t r = 0; r < unit->count; ++r) {
        const int64_t token = token_of(unit, r);
        const int64_t head = head_of(unit, r);
        const int64_t visible = unit->visible[r];
        float* all = segment_sums(job, token, head, 0);
        berth_attention_state state = state_behind(job, all);
        for (int64_t segment = 1; segment * SEGMENT < visible; ++segment) {
            const float* sums = segment_sums(job, token, head, segment);
            const berth_attention_state other = state_behind(job, sums);
            if (!has_seen(&other)) continue;
            job->rows->attend_merge(&state, all, &other, sums, columns);
        }
        store_row(job, token, head, &state, all, visible > 0 && has_seen(&state));
    }
}

/// The mask of batch `batch` over all heads, tokens and keys: what is missing or 1 is repeated.
static berth_view spread_mask(const berth_op_call* call, int64_t batch) {
    const berth_view* mask = &call->inputs[3];
    berth_view spread = {.data = mask->data, .dtype = mask->dtype, .rank = 3};
    for (int32_t d = 0; d < 3; ++d) {
        const int32_t from = mask->rank - 3 + d;
        spread.strides[d] = from < 0 || mask->dims[from] == 1 ? 0 : mask->strides[from];
    }
    if (mask->rank == 4 && mask->dims[0] != 1)
        spread.data =
            (unsigned char*)mask->data + batch * mask->strides[0] * berth_dtype_bytes(mask->dtype);
    return spread;
}

/// Attention of one batch; `mask` may be NULL.
static void attend_batch(const berth_op_call* call, const berth_view* mask) {
    attention_job job = {
        .shape = shape_of(call),
        .call = call,
        .mask = mask,
        .rows = berth_basic_query_rows(),
        .params = call->params,
        .workers = call->scratch,
    };
    const attention_shape* s = &job.shape;
    if (s->tokens == 0 || s->heads == 0 || s->kv_heads == 0 || s->width == 0) return;
    const int64_t units = s->kv_heads * s->blocks;
    const int64_t work = s->rows * s->kv_heads * s->keys * (s->depth + s->width);
    if (!s->split) {
        berth_run_range(call, units, 1, work < LEAST ? units + 1 : 1, whole_range, &job);
        return;
    }
    const int64_t workers = (int64_t)berth_team_worker_count(call->team);
    job.segments = job.workers + workers * s->worker_floats;
    berth_run_range(call, units * s->segments, 1, 1, split_range, &job);
    for (int64_t u = 0; u < units; ++u) {
        attention_unit unit;
        unit_init(&unit, &job, 0, u % s->kv_heads, u / s->kv_heads);
        merge_rows(&unit);
    }
}

static void kernel_attention(const berth_op_call* call) {
    const bool has_mask = call->input_count == 4;
    const int64_t batches = call->inputs[0].rank == 4 ? call->inputs[0].dims[0] : 1;
    for (int64_t b = 0; b < batches; ++b) {
        const berth_view mask = has_mask ? spread_mask(call, b) : (berth_view){0};
        if (call->inputs[0].rank == 3) {
            attend_batch(call, has_mask ? &mask : NULL);
            continue;
        }
        berth_op_call one = *call;
        for (uint32_t i = 0; i < 3; ++i)
            one.inputs[i] = berth_view_at(&call->inputs[i], b);
        one.outputs[0] = berth_view_at(&call->outputs[0], b);
        attend_batch(&one, has_mask ? &mask : NULL);
    }
}

void berth_cpu_fill_attention_kernels(berth_kernel* table) {
    table[BERTH_OP_ATTENTION] = kernel_attention;
}
