// SPDX-License-Identifier: Apache-2.0
// Synthetic runs for tests of the planner: tapes that write traces, and a stand-in for the executor
// that replays them against placements by the rules of a replay.
#ifndef BERTH_TEST_STEP_KIT_H
#define BERTH_TEST_STEP_KIT_H

#include "kit/test.h"

#include "plan/step_model.h"
#include "plan/verify.h"

#define MIB (UINT64_C(1) << 20)

/// A trace being written.
typedef struct step_tape {
    const berth_host* host;
    berth_trace trace;
} step_tape;

static inline uint32_t tape_now(const step_tape* tape) {
    return (uint32_t)tape->trace.events.count - 1;
}

/// Begins an event.
static inline void tape_op(step_tape* tape, uint32_t kind) {
    const berth_trace_event event = {.kind = kind,
                                     .first_value = (uint32_t)tape->trace.values.count};
    assert_ok(berth_trace_event_vec_push(&tape->trace.events, tape->host, event));
}

/// A value of the event under way; it dies there unless it is used later.
static inline uint32_t tape_value(
    step_tape* tape, unsigned flags, berth_dtype dtype, uint32_t rank, const int64_t* dims) {
    const berth_trace_value value = {.birth = tape_now(tape),
                                     .death = tape_now(tape),
                                     .dims_at = (uint32_t)tape->trace.dims.count,
                                     .rank = (uint8_t)rank,
                                     .dtype = (uint8_t)dtype,
                                     .flags = (uint16_t)flags};
    for (uint32_t i = 0; i < rank; i++)
        assert_ok(berth_trace_dim_vec_push(&tape->trace.dims, tape->host, dims[i]));
    assert_ok(berth_trace_value_vec_push(&tape->trace.values, tape->host, value));
    tape->trace.events.items[tape_now(tape)].value_count++;
    return (uint32_t)tape->trace.values.count - 1;
}

static inline uint32_t tape_matrix(step_tape* tape, int64_t rows, int64_t columns) {
    const int64_t dims[2] = {rows, columns};
    return tape_value(tape, 0, BERTH_F32, 2, dims);
}

static inline uint32_t tape_bytes(step_tape* tape, unsigned flags, int64_t bytes) {
    return tape_value(tape, flags, BERTH_U8, 1, &bytes);
}

/// `value` is alive until the event under way.
static inline void tape_use(step_tape* tape, uint32_t value) {
    tape->trace.values.items[value].death = tape_now(tape);
}

static inline void tape_escape(step_tape* tape, uint32_t value) {
    tape->trace.values.items[value].flags |= BERTH_VALUE_ESCAPES;
}

/// An op with one output [rows, columns], scratch, and operands that die in it (UINT32_MAX: none).
static inline uint32_t tape_linear(step_tape* tape,
                                   uint32_t kind,
                                   int64_t rows,
                                   int64_t columns,
                                   int64_t scratch,
                                   uint32_t a,
                                   uint32_t b) {
    tape_op(tape, kind);
    const uint32_t out = tape_matrix(tape, rows, columns);
    tape_bytes(tape, BERTH_VALUE_SCRATCH, scratch);
    if (a != UINT32_MAX) tape_use(tape, a);
    if (b != UINT32_MAX) tape_use(tape, b);
    return out;
}

/// A llama-like forward pass over `t` new tokens with `total` keys.
static inline void tape_llama(step_tape* tape, uint32_t layers, int64_t t, int64_t total) {
    const int64_t e = 576, kv = 192, f = 1536, vocabulary = 49152;
    const uint32_t none = UINT32_MAX;
    tape_op(tape, 1);
    const uint32_t ids = tape_value(tape, 0, BERTH_I32, 1, &t);
    const uint32_t positions = tape_value(tape, 0, BERTH_I64, 1, &t);
    uint32_t x = tape_linear(tape, 2, t, e, 0, ids, none);
    for (uint32_t layer = 0; layer < layers; layer++) {
        uint32_t h = tape_linear(tape, 3, t, e, 0, x, none);
        const uint32_t q = tape_linear(tape, 4, t, e, t * 64, h, none);
        const uint32_t k = tape_linear(tape, 4, t, kv, t * 64, h, none);
        const uint32_t v = tape_linear(tape, 4, t, kv, t * 64, h, none);
        tape_op(tape, 5); // rope in place
        tape_use(tape, positions);
        tape_op(tape, 6); // keys and values go to the cache
        tape_use(tape, k);
        tape_use(tape, v);
        const uint32_t attention = tape_linear(tape, 7, t, e, 4096 + total * 36, q, none);
        const uint32_t o = tape_linear(tape, 4, t, e, t * 64, attention, none);
        x = tape_linear(tape, 8, t, e, 0, x, o);
        h = tape_linear(tape, 3, t, e, 0, x, none);
        const uint32_t gate = tape_linear(tape, 4, t, f, t * 64, h, none);
        const uint32_t up = tape_linear(tape, 4, t, f, t * 64, h, none);
        const uint32_t act = tape_linear(tape, 9, t, f, 0, gate, up);
        const uint32_t down = tape_linear(tape, 4, t, e, t * 192, act, none);
        x = tape_linear(tape, 8, t, e, 0, x, down);
    }
    const uint32_t last = tape_linear(tape, 10, 1, e, 0, x, none);
    const uint32_t logits = tape_linear(tape, 4, 1, vocabulary, 64, last, none);
    tape_escape(tape, logits);
}

static inline berth_plan_policy default_policy(void) {
    return (berth_plan_policy){.buckets = "geometric:4",
                               .quantum = 64,
                               .max_paths = 8,
                               .max_exits = 8,
                               .max_events = 1000000,
                               .cache_bytes = 16 * MIB};
}

static inline berth_step_counters counters_of(berth_step_model* model) {
    berth_step_counters counters;
    berth_step_model_query_counters(model, &counters);
    return counters;
}

// ---- The stand-in for the executor.

typedef struct step_replay {
    berth_run_report report;
    berth_interval* intervals;
    uint64_t* offsets;
    bool late;
} step_replay;

static inline uint64_t trace_value_bytes(const berth_trace* trace, uint32_t value) {
    const berth_trace_value* v = &trace->values.items[value];
    return berth_trace_bytes((berth_dtype)v->dtype, v->rank, trace->dims.items + v->dims_at);
}

static inline uint32_t real_end(const berth_trace* trace, uint32_t value) {
    const berth_trace_value* v = &trace->values.items[value];
    if (v->flags & BERTH_VALUE_ESCAPES) return (uint32_t)trace->events.count;
    return v->death + 1;
}

/// Leading events that two paths share, as events and values tell.
static inline uint32_t shared_events(const berth_path* a, const berth_path* b) {
    uint32_t e = 0, v = 0;
    for (; e < a->event_count && e < b->event_count; e++) {
        const berth_trace_event *x = &a->events[e], *y = &b->events[e];
        if (x->kind != y->kind || x->tag != y->tag || x->value_count != y->value_count) return e;
        for (uint32_t k = 0; k < x->value_count; k++, v++)
            if (a->values[v].rank != b->values[v].rank || a->values[v].dtype != b->values[v].dtype)
                return e;
    }
    return e;
}

/// Branches form a tree, are valid each, and have the same places for what they share.
static inline void assert_branches_agree(const berth_branches* branches) {
    for (uint32_t i = 0; i < branches->count; i++) {
        const berth_branch* branch = &branches->items[i];
        const berth_placement* a = branch->placement;
        assert_true(berth_placement_is_valid(a));
        assert_true(branch->parent == BERTH_BRANCH_NONE || branch->parent < i);
        for (uint32_t j = 0; j < i; j++) {
            const berth_placement* b = branches->items[j].placement;
            const uint32_t shared = shared_events(a->path, b->path);
            assert_int_equal(berth_branches_shared(branches, i, j), shared);
            const uint32_t values = berth_path_values_before(a->path, shared);
            for (uint32_t v = 0; v < values; v++) {
                assert_int_equal(a->places[v].offset, b->places[v].offset);
                assert_int_equal(a->places[v].bytes, b->places[v].bytes);
            }
        }
    }
}

static inline bool same_events(const berth_path* path, const berth_trace* trace) {
    if (path->event_count != trace->events.count) return false;
    for (uint32_t e = 0; e < path->event_count; e++) {
        const berth_trace_event* a = &path->events[e];
        const berth_trace_event* b = &trace->events.items[e];
        if (a->kind != b->kind || a->tag != b->tag || a->value_count != b->value_count)
            return false;
    }
    return true;
}

/// True if `value` of `trace` may be placed: it fits, and meets no value that is overdue.
static inline bool may_place(const step_replay* replay,
                             const berth_path* path,
                             const berth_trace* trace,
                             uint32_t value) {
    const berth_place* place = &replay->report.placement->places[value];
    const uint64_t bytes = trace_value_bytes(trace, value);
    if (bytes > place->bytes) return false;
    const uint32_t now = trace->values.items[value].birth;
    for (uint32_t u = 0; u < value; u++) {
        if (replay->intervals[u].size == 0) continue;
        if (path->values[u].death >= now || real_end(trace, u) <= now) continue;
        const bool apart = replay->offsets[u] + replay->intervals[u].size <= place->offset ||
                           place->offset + bytes <= replay->offsets[u];
        if (!apart) return false;
    }
    return true;
}

static inline void replay_values(step_replay* replay, const berth_trace* trace) {
    const berth_path* path = replay->report.placement->path;
    for (uint32_t v = 0; v < trace->values.count; v++) {
        const berth_place* place = &replay->report.placement->places[v];
        const uint64_t bytes = trace_value_bytes(trace, v);
        const bool planned_pool = place->offset == BERTH_PLACE_POOL;
        if (!planned_pool && real_end(trace, v) > path->values[v].death + 1) replay->late = true;
        if (planned_pool && bytes <= place->bytes) continue;
        if (!planned_pool && may_place(replay, path, trace, v)) {
            replay->intervals[v] =
                (berth_interval){bytes, trace->values.items[v].birth, real_end(trace, v)};
            replay->offsets[v] = place->offset;
            replay->report.placed_bytes += bytes;
            assert_true(place->offset + bytes <= replay->report.placement->frame_bytes);
        } else {
            replay->report.result = BERTH_RUN_PARTIAL;
        }
    }
}

/// Peak and lower bound of the run by the design's definition.
static inline void replay_measure(step_replay* replay, const berth_trace* trace) {
    for (uint32_t e = 0; e < trace->events.count; e++) {
        uint64_t live = 0, pool = 0, high = 0;
        for (uint32_t v = 0; v < trace->values.count; v++) {
            if (trace->values.items[v].birth > e) break;
            if (real_end(trace, v) <= e) continue;
            const uint64_t bytes = trace_value_bytes(trace, v);
            live += bytes;
            const bool placed = replay->intervals[v].size > 0;
            if (!placed)
                pool += bytes;
            else if (replay->offsets[v] + bytes > high)
                high = replay->offsets[v] + bytes;
        }
        if (live > replay->report.lower_bound_bytes) replay->report.lower_bound_bytes = live;
        if (high + pool > replay->report.peak_bytes) replay->report.peak_bytes = high + pool;
        if (pool > replay->report.pool_peak_bytes) replay->report.pool_peak_bytes = pool;
    }
    for (uint32_t v = 0; v < trace->values.count; v++)
        replay->report.allocated_bytes += trace_value_bytes(trace, v);
}

typedef struct step_outcome {
    berth_run_result result;
    berth_estimate_kind kind;
    bool learned;
    bool made_plan;
    bool switched;
    uint64_t frame_bytes;
    uint64_t pool_bytes;
    uint64_t peak_bytes;
    uint64_t lower_bound_bytes;
} step_outcome;

/// One run of the step: begin, replay or record `tape`, end. Asserts that nothing real ever
/// overlaps.
static inline step_outcome run_tape(berth_step_model* model,
                                    const berth_shape_key* key,
                                    step_tape* tape) {
    const berth_host* host = berth_host_default(); // never fails on purpose
    berth_trace* trace = &tape->trace;
    berth_outlook outlook;
    berth_branches branches;
    assert_ok(berth_step_model_begin(model, key, &branches, &outlook));
    assert_branches_agree(&branches);
    step_replay run = {.report = {.result = BERTH_RUN_RECORDED,
                                  .miss = outlook.miss,
                                  .placement = outlook.placement,
                                  .branches = &branches}};
    run.intervals = berth_host_calloc(host, trace->values.count + 1, sizeof *run.intervals);
    run.offsets = berth_host_calloc(host, trace->values.count + 1, sizeof *run.offsets);
    assert_true(run.intervals != NULL && run.offsets != NULL);
    bool wants = true;
    // the replay changes to the path that the tape takes, wherever that leaves the expected one
    for (uint32_t i = 0; i < branches.count; i++)
        if (same_events(branches.items[i].placement->path, trace) &&
            !same_events(run.report.placement->path, trace)) {
            run.report.placement = branches.items[i].placement;
            run.report.switched = true;
        }
    if (outlook.placement != NULL) {
        assert_ptr_equal(outlook.placement, branches.items[outlook.expected].placement);
        assert_true(outlook.frame_bytes >= run.report.placement->frame_bytes);
        assert_true(outlook.pool_bytes >= run.report.placement->escaping_bytes);
        run.report.result = BERTH_RUN_HIT;
        if (!same_events(run.report.placement->path, trace))
            run.report.result = BERTH_RUN_EXIT;
        else
            replay_values(&run, trace);
        wants = run.report.placement->learn || run.late || run.report.result != BERTH_RUN_HIT;
        const berth_pack_problem problem = {
            .intervals = run.intervals, .count = trace->values.count, .alignment = 64};
        berth_pack_verdict verified;
        assert_ok(berth_verify_packing(host, &problem, run.offsets, &verified));
        assert_true(verified.valid);
    } else {
        assert_int_equal(outlook.kind, BERTH_ESTIMATE_UNKNOWN);
        assert_int_equal(branches.count, 0);
    }
    replay_measure(&run, trace);
    if (run.report.result == BERTH_RUN_HIT && outlook.kind >= BERTH_ESTIMATE_BOUND)
        assert_true(run.report.pool_peak_bytes <= outlook.pool_bytes);
    if (wants) run.report.trace = trace;
    const step_outcome outcome = {.result = run.report.result,
                                  .kind = outlook.kind,
                                  .learned = wants,
                                  .made_plan = outlook.made_plan,
                                  .switched = run.report.switched,
                                  .frame_bytes = outlook.frame_bytes,
                                  .pool_bytes = outlook.pool_bytes,
                                  .peak_bytes = run.report.peak_bytes,
                                  .lower_bound_bytes = run.report.lower_bound_bytes};
    berth_step_model_end(model, key, &run.report);
    berth_host_free(host, run.intervals);
    berth_host_free(host, run.offsets);
    berth_trace_clear(trace);
    return outcome;
}

#endif // BERTH_TEST_STEP_KIT_H
