// SPDX-License-Identifier: Apache-2.0
// Steps: recording, planning, replaying; guards, survivors, nesting, admission.
#include "exec/exec_kit.h"

/// A step of a few ops on [n]; returns its escaping result: the sum of (2x)^2 + x for x from 0 to
/// n - 1.
static berth_tensor* run_chain(berth_context* ctx, int64_t n) {
    assert_ok(exec_kit_begin(ctx, "chain", n));
    berth_tensor* x = exec_kit_ramp(ctx, 0, n);
    berth_tensor* two = berth_affine(ctx, x, 2, 0);
    berth_tensor* square = berth_mul(ctx, two, two);
    berth_tensor* y = berth_add(ctx, berth_move(square), x);
    berth_release_all(x, two);
    berth_tensor* sum = berth_sum(ctx, berth_move(y), BERTH_DIMS(0), false);
    assert_context_ok(ctx);
    assert_ok(berth_step_end(ctx));
    return sum;
}

static float expected_chain(int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i)
        sum += (float)(4 * i * i + i);
    return sum;
}

static void expect_chain(berth_context* ctx, int64_t n) {
    berth_tensor* sum = run_chain(ctx, n);
    float value;
    assert_ok(berth_tensor_read(sum, &value, sizeof value));
    berth_release(sum);
    assert_float_equal(value, expected_chain(n), 0.001f * expected_chain(n));
}

static void after_three_lengths_every_run_is_a_hit(void** state) {
    exec_kit* kit = *state;
    const int64_t first[] = {10, 17, 33};
    for (size_t i = 0; i < 3; ++i)
        expect_chain(kit->ctx, first[i]);
    const berth_step_counters before = exec_kit_counters(kit->runtime, "chain");
    for (int64_t n = 1; n <= 3000; n = n * 5 / 4 + 1)
        expect_chain(kit->ctx, n);
    const berth_step_counters after = exec_kit_counters(kit->runtime, "chain");
    assert_true(after.runs - before.runs > 20);
    assert_int_equal(after.hits - before.hits, after.runs - before.runs);
    assert_int_equal(after.side_exits, 0);
    assert_true(after.placed_bytes > 0);
}

static void a_replayed_value_lies_in_the_frame_and_survivors_do_not(void** state) {
    exec_kit* kit = *state;
    for (int64_t n = 10; n < 40; n += 10)
        expect_chain(kit->ctx, n);
    assert_ok(exec_kit_begin(kit->ctx, "chain", 50));
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 50);
    assert_int_equal(x->storage->kind, BERTH_STORAGE_FRAME);
    // the rest of the trace does not follow, and x lives on
    assert_ok(berth_step_end(kit->ctx));
    assert_int_equal(x->storage->kind, BERTH_STORAGE_POOL);
    float expected[50];
    for (int i = 0; i < 50; ++i)
        expected[i] = (float)i;
    exec_kit_expect(x, expected, 50);
    berth_release(x);
    assert_int_equal(exec_kit_counters(kit->runtime, "chain").side_exits, 1);
}

static void another_op_makes_a_side_exit_and_the_result_stays_right(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    for (int64_t n = 10; n < 40; n += 10)
        expect_chain(ctx, n);
    assert_ok(exec_kit_begin(ctx, "chain", 6));
    berth_tensor* x = exec_kit_ramp(ctx, 0, 6);
    berth_tensor* two = berth_affine(ctx, x, 2, 0);
    berth_tensor* other = berth_add(ctx, x, two);
    berth_tensor* more = berth_exp(ctx, berth_move(berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){6})));
    exec_kit_expect(other, (float[]){0, 3, 6, 9, 12, 15}, 6);
    exec_kit_expect(x, (float[]){0, 1, 2, 3, 4, 5}, 6);
    berth_release_all(x, two, other);
    assert_ok(berth_step_end(ctx));
    exec_kit_expect(more, (float[]){1, 1, 1, 1, 1, 1}, 6);
    berth_release(more);
    assert_int_equal(exec_kit_counters(kit->runtime, "chain").side_exits, 1);
    expect_chain(ctx, 12);
}

static void a_value_that_outlives_its_plan_is_not_overwritten(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    for (int run = 0; run < 8; ++run) {
        const bool keeps_longer = run >= 4;
        const int64_t n = 40 + run;
        assert_ok(exec_kit_begin(ctx, "late", n));
        berth_tensor* a = exec_kit_ramp(ctx, 5, n);
        berth_tensor* b = berth_neg(ctx, a);
        if (!keeps_longer) berth_release(a);
        berth_tensor* c = berth_neg(ctx, b);
        berth_tensor* d = berth_affine(ctx, c, 1, 1);
        berth_tensor* e = berth_affine(ctx, d, 1, 1);
        if (keeps_longer) {
            float values[64];
            assert_ok(berth_tensor_read(a, values, (uint64_t)n * 4));
            for (int64_t i = 0; i < n; ++i)
                assert_true(values[i] == 5 + (float)i);
            berth_release(a);
        }
        berth_release_all(b, c, d, e);
        assert_ok(berth_step_end(ctx));
    }
    const berth_step_counters counters = exec_kit_counters(kit->runtime, "late");
    assert_int_equal(counters.side_exits, 0);
    assert_true(counters.hits >= 4);
}

/// A step whose value `a` dies before, or with `is_late` after, the one that escapes is made.
static void run_before_an_escape(berth_context* ctx, int64_t n, bool is_late) {
    assert_ok(exec_kit_begin(ctx, "escape", n));
    berth_tensor* a = exec_kit_ramp(ctx, 5, n);
    if (!is_late) berth_release(a);
    berth_tensor* escaping = exec_kit_ramp(ctx, 7, n);
    if (is_late) berth_release(a);
    assert_ok(berth_step_end(ctx));
    berth_release(escaping);
}

static void no_peak_is_below_what_was_alive_at_once(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    for (int64_t n = 100; n < 1000; n += 100)
        run_before_an_escape(ctx, n, false);
    run_before_an_escape(ctx, 1000, true);
    berth_step_counters counters = exec_kit_counters(kit->runtime, "escape");
    assert_true(counters.hits >= 6);
    assert_int_equal(counters.partial, 0);
    assert_true(counters.lower_bound_bytes >= 8000);
    assert_true(counters.peak_bytes >= counters.lower_bound_bytes);
    // a nested frame for which the outer plan has no place yet
    for (int64_t n = 100; n < 1000; n += 100) {
        assert_ok(exec_kit_begin(ctx, "around", n));
        berth_release(run_chain(ctx, n));
        assert_ok(berth_step_end(ctx));
        counters = exec_kit_counters(kit->runtime, "around");
        assert_true(counters.peak_bytes >= counters.lower_bound_bytes);
    }
    assert_true(counters.partial > 0);
}

static void a_mapped_value_stays_where_it_is_beyond_the_step(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    exec_kit_need_host_access(ctx);
    for (int64_t n = 10; n < 40; n += 10)
        expect_chain(ctx, n);
    assert_ok(exec_kit_begin(ctx, "chain", 20));
    berth_tensor* x = exec_kit_ramp(ctx, 0, 20);
    void* data;
    assert_ok(berth_tensor_map(x, &data));
    assert_ok(berth_step_end(ctx));
    assert_int_equal(x->storage->kind, BERTH_STORAGE_HELD);
    assert_ptr_equal(exec_kit_place(x), data);
    for (int64_t n = 10; n < 60; n += 7)
        expect_chain(ctx, n);
    for (int i = 0; i < 20; ++i)
        assert_true(((float*)data)[i] == (float)i);
    berth_tensor_unmap(x);
    berth_release(x);
    assert_int_equal(ctx->home.overdue.count, 0);
    expect_chain(ctx, 30);
}

static berth_tensor* run_nested(berth_context* ctx, int64_t n, int rounds) {
    assert_ok(exec_kit_begin(ctx, "outer", n));
    berth_tensor* total = berth_zeros(ctx, BERTH_F32, 0, NULL);
    berth_tensor* kept = exec_kit_ramp(ctx, 1, n);
    for (int i = 0; i < rounds; ++i)
        total = berth_add(ctx, berth_move(total), berth_move(run_chain(ctx, n)));
    berth_tensor* sum = berth_sum(ctx, berth_move(kept), BERTH_DIMS(0), false);
    total = berth_add(ctx, berth_move(total), berth_move(sum));
    assert_ok(berth_step_end(ctx));
    return total;
}

static void nested_steps_replay_inside_their_parent(void** state) {
    exec_kit* kit = *state;
    for (int run = 0; run < 12; ++run) {
        const int64_t n = 11 + 3 * run;
        berth_tensor* total = run_nested(kit->ctx, n, 3);
        float value;
        assert_ok(berth_tensor_read(total, &value, sizeof value));
        const float expected = 3 * expected_chain(n) + (float)(n * (n + 1) / 2);
        assert_float_equal(value, expected, 0.001f * expected);
        berth_release(total);
    }
    const berth_step_counters outer = exec_kit_counters(kit->runtime, "outer");
    assert_true(outer.hits >= 4);
    assert_true(exec_kit_counters(kit->runtime, "chain").hits >= 30);
}

static void an_end_without_a_begin_is_an_error(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    assert_fails(berth_step_end(ctx), BERTH_ERR_STATE, "no step");
    assert_context_ok(ctx);
}

static void an_error_inside_a_step_is_reported_by_its_end(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    for (int64_t n = 10; n < 40; n += 10)
        expect_chain(ctx, n);
    const berth_step_counters before = exec_kit_counters(kit->runtime, "chain");
    assert_ok(exec_kit_begin(ctx, "chain", 6));
    berth_tensor* x = exec_kit_ramp(ctx, 0, 6);
    berth_tensor* y = exec_kit_ramp(ctx, 0, 7);
    assert_null(berth_matmul(ctx, x, y));
    berth_release_all(x, y);
    assert_fails(berth_step_end(ctx), BERTH_ERR_INVALID_ARGUMENT, "matmul");
    assert_fails(exec_kit_begin(ctx, "chain", 6), BERTH_ERR_STATE, "matmul");
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "matmul");
    expect_chain(ctx, 15);
    const berth_step_counters after = exec_kit_counters(kit->runtime, "chain");
    assert_int_equal(after.hits, before.hits + 1);
    assert_int_equal(after.side_exits, before.side_exits);
}

static void a_description_must_agree_with_the_first_one(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    assert_ok(exec_kit_begin(ctx, "s", 3));
    assert_ok(berth_step_end(ctx));
    const int64_t dims[2] = {1, 2};
    const berth_step_input input = {.name = "x", .rank = 2, .dims = dims};
    berth_step_desc desc = {.name = "s", .inputs = &input, .input_count = 1};
    assert_int_equal(berth_step_begin(ctx, &desc), BERTH_ERR_INVALID_ARGUMENT);
    assert_context_fails(ctx,
                         BERTH_ERR_INVALID_ARGUMENT,
                         "step s: input 0 is x of rank 2, in its first run x of rank 1");
    desc.input_count = 0;
    assert_int_equal(berth_step_begin(ctx, &desc), BERTH_ERR_INVALID_ARGUMENT);
    assert_context_fails(ctx,
                         BERTH_ERR_INVALID_ARGUMENT,
                         "it has 0 inputs and 0 integers, in its first run 1 and 0");
    const berth_step_integer past = {.name = "past", .value = 1}, rest = {.name = "rest"};
    desc = (berth_step_desc){.name = "with an integer", .integers = &past, .integer_count = 1};
    assert_ok(berth_step_begin(ctx, &desc));
    assert_ok(berth_step_end(ctx));
    desc.integers = &rest;
    assert_int_equal(berth_step_begin(ctx, &desc), BERTH_ERR_INVALID_ARGUMENT);
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "integer 0 is rest, in its first run past");
    assert_int_equal(exec_kit_begin(ctx, "s", -1), BERTH_ERR_INVALID_ARGUMENT);
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "x.0");
    desc.name = NULL;
    assert_int_equal(berth_step_begin(ctx, &desc), BERTH_ERR_INVALID_ARGUMENT);
    berth_context_clear_error(ctx);
}

static berth_step_estimate_result estimate(berth_context* ctx, const char* name, int64_t n) {
    const berth_step_input input = {.name = "x", .rank = 1, .dims = &n};
    const berth_step_desc desc = {.name = name, .inputs = &input, .input_count = 1};
    berth_step_estimate_result result;
    assert_ok(berth_step_estimate(ctx, &desc, &result));
    return result;
}

static void a_description_that_is_refused_fixes_nothing(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    const int64_t dims[BERTH_MAX_RANK] = {0};
    berth_step_input inputs[9];
    for (size_t i = 0; i < 9; ++i)
        inputs[i] = (berth_step_input){.name = "x", .rank = BERTH_MAX_RANK, .dims = dims};
    const berth_step_desc desc = {.name = "s", .inputs = inputs, .input_count = 9};
    assert_int_equal(berth_step_begin(ctx, &desc), BERTH_ERR_INVALID_ARGUMENT);
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "step s: it declares more than 64 dimensions");
    assert_ok(exec_kit_begin(ctx, "s", 3));
    assert_ok(berth_step_end(ctx));
}

static void an_estimate_is_unknown_first_and_exact_later(void** state) {
    exec_kit* kit = *state;
    assert_int_equal(estimate(kit->ctx, "chain", 9).kind, BERTH_ESTIMATE_UNKNOWN);
    for (int64_t n = 10; n < 50; n += 10)
        expect_chain(kit->ctx, n);
    const berth_step_counters before = exec_kit_counters(kit->runtime, "chain");
    const berth_step_estimate_result result = estimate(kit->ctx, "chain", 1000);
    assert_int_equal(result.kind, BERTH_ESTIMATE_EXACT);
    // three vectors at most are alive at a time, and the sum escapes
    assert_in_range(result.bytes, 2 * 4000, 4 * 4096);
    const berth_step_counters after = exec_kit_counters(kit->runtime, "chain");
    assert_memory_equal(&before, &after, sizeof before);
}

static void a_second_path_makes_the_estimate_a_bound(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    for (int64_t n = 10; n < 80; n += 10) {
        assert_ok(exec_kit_begin(ctx, "paths", n));
        berth_tensor* x = exec_kit_ramp(ctx, 0, n);
        if (n % 20 == 0) x = berth_exp(ctx, berth_move(berth_affine(ctx, berth_move(x), 0, 0)));
        berth_release(x);
        assert_ok(berth_step_end(ctx));
    }
    assert_int_equal(estimate(ctx, "paths", 50).kind, BERTH_ESTIMATE_BOUND);
}

static void a_step_that_cannot_fit_is_refused_before_it_begins(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    for (int64_t n = 1000; n < 5000; n += 1000)
        expect_chain(ctx, n);
    berth_memory_stats before, after;
    assert_ok(berth_runtime_query_memory(kit->runtime, &before));
    const int64_t too_long = (int64_t)(before.capacity_bytes / 4);
    const berth_status status = exec_kit_begin(ctx, "chain", too_long);
    assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
    assert_ptr_equal(strstr(berth_last_error(), "step chain: "), berth_last_error());
    assert_context_fails(ctx, BERTH_ERR_OUT_OF_MEMORY, "capacity");
    assert_null(ctx->run);
    assert_ok(berth_runtime_query_memory(kit->runtime, &after));
    assert_int_equal(after.reserved_bytes, 0);
    expect_chain(ctx, 1500);
}

static uint64_t promised_bytes(const exec_kit* kit) {
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit->runtime, &stats));
    return stats.reserved_bytes;
}

static void declared_growth_is_part_of_the_need(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit->runtime, &stats));
    berth_step_reserve_extra(ctx, stats.capacity_bytes);
    berth_step_reserve_extra(ctx, stats.capacity_bytes);
    assert_int_equal(exec_kit_begin(ctx, "chain", 3), BERTH_ERR_OUT_OF_MEMORY);
    berth_context_clear_error(ctx);
    berth_step_reserve_extra(ctx, UINT64_MAX);
    assert_int_equal(exec_kit_begin(ctx, "chain", 3), BERTH_ERR_OUT_OF_MEMORY);
    berth_context_clear_error(ctx);
    berth_step_cancel_extra(ctx);
    berth_step_reserve_extra(ctx, 4096);
    assert_ok(exec_kit_begin(ctx, "chain", 3));
    assert_true(promised_bytes(kit) >= 4096);
    assert_ok(berth_step_end(ctx));
    assert_int_equal(promised_bytes(kit), 0);
}

static void declared_growth_outlives_a_refused_begin_and_no_other_one(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit->runtime, &stats));
    const int64_t half = (int64_t)(stats.capacity_bytes / 2);
    berth_tensor* hoard = berth_empty(ctx, BERTH_U8, 1, &half);
    assert_context_ok(ctx);
    berth_step_reserve_extra(ctx, stats.capacity_bytes / 4 * 3);
    assert_int_equal(exec_kit_begin(ctx, "chain", 3), BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(exec_kit_begin(ctx, "chain", 3), BERTH_ERR_STATE); // the error sticks
    berth_context_clear_error(ctx);
    assert_int_equal(exec_kit_begin(ctx, NULL, 3), BERTH_ERR_INVALID_ARGUMENT);
    berth_context_clear_error(ctx);
    berth_release(hoard);
    assert_ok(exec_kit_begin(ctx, "chain", 3));
    assert_true(promised_bytes(kit) >= stats.capacity_bytes / 4 * 3);
    assert_ok(exec_kit_begin(ctx, "inner", 3));
    assert_ok(berth_step_end(ctx));
    assert_ok(berth_step_end(ctx));
    assert_ok(exec_kit_begin(ctx, "chain", 3));
    assert_int_equal(promised_bytes(kit), 0);
    assert_ok(berth_step_end(ctx));
    berth_step_cancel_extra(NULL);
}

static void warming_populates_the_frame_before_the_run(void** state) {
    exec_kit* kit = *state;
    for (int64_t n = 10; n < 50; n += 10)
        expect_chain(kit->ctx, n);
    const int64_t n = 200000;
    const berth_step_input input = {.name = "x", .rank = 1, .dims = &n};
    const berth_step_desc desc = {.name = "chain", .inputs = &input, .input_count = 1};
    assert_ok(berth_step_warm(kit->ctx, &desc));
    berth_memory_stats before, after;
    assert_ok(berth_runtime_query_memory(kit->runtime, &before));
    assert_true(before.frames_bytes >= 3 * 4 * (uint64_t)n);
    expect_chain(kit->ctx, n);
    assert_ok(berth_runtime_query_memory(kit->runtime, &after));
    assert_int_equal(after.frames_bytes, before.frames_bytes);
}

static void a_released_context_discards_its_open_steps(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx;
    assert_ok(berth_context_create(kit->runtime, &ctx));
    assert_ok(exec_kit_begin(ctx, "chain", 5));
    berth_tensor* x = exec_kit_ramp(ctx, 0, 5);
    berth_context_release(ctx);
    exec_kit_expect(x, (float[]){0, 1, 2, 3, 4}, 5);
    berth_release(x);
}

/// Notes a log line that asks for an end of a step.
static void note_missing_end(void* self, berth_log_level level, const char* text) {
    if (level == BERTH_LOG_WARN && strstr(text, "is a berth_step_end() missing?") != NULL)
        ++*(int*)self;
}

static void a_step_that_is_never_ended_is_warned_of(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx;
    assert_ok(berth_context_create(kit->runtime, &ctx));
    int warnings = 0;
    berth_log_set_callback(note_missing_end, &warnings);
    for (int64_t n = 0; n < 30; ++n)
        assert_ok(exec_kit_begin(ctx, "chain", n));
    assert_int_equal(warnings, 0);
    for (int64_t n = 0; n < 30; ++n)
        assert_ok(exec_kit_begin(ctx, "chain", n));
    assert_int_equal(warnings, 1);
    berth_context_release(ctx);
    assert_int_equal(warnings, 2);
    assert_ok(berth_context_create(kit->runtime, &ctx));
    assert_ok(exec_kit_begin(ctx, "chain", 5));
    assert_ok(berth_step_end(ctx));
    berth_context_release(ctx);
    assert_int_equal(warnings, 2);
    berth_log_set_callback(NULL, NULL);
}

static void keep_none_gives_idle_memory_back_at_every_end(void** state) {
    (void)state;
    static const berth_option_setting settings[] = {{"keep", "none"}, {"device", "sim"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, settings, 2));
    for (int64_t n = 1000; n < 9000; n += 1000)
        expect_chain(kit.ctx, n);
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit.runtime, &stats));
    assert_int_equal(stats.frames_bytes, 0);
    assert_true(exec_kit_counters(kit.runtime, "chain").hits > 0);
    exec_kit_close(&kit);
}

static void keep_all_keeps_and_trim_returns(void** state) {
    (void)state;
    static const berth_option_setting settings[] = {{"keep", "all"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, settings, 1));
    for (int64_t n = 100000; n < 600000; n += 100000)
        expect_chain(kit.ctx, n);
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit.runtime, &stats));
    assert_true(stats.frames_bytes > 0);
    const uint64_t before = stats.mapped_bytes;
    berth_trim_result trimmed;
    assert_ok(berth_trim(kit.runtime, 0, &trimmed));
    assert_int_equal(trimmed.released_bytes, before);
    assert_ok(berth_runtime_query_memory(kit.runtime, &stats));
    assert_int_equal(stats.mapped_bytes, 0);
    expect_chain(kit.ctx, 1000);
    exec_kit_close(&kit);
}

static void mode_pool_and_mode_system_plan_nothing(void** state) {
    (void)state;
    static const char* const modes[] = {"pool", "system"};
    for (size_t i = 0; i < 2; ++i) {
        const berth_option_setting settings[] = {{"mode", modes[i]}};
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, NULL, settings, 1));
        for (int64_t n = 10; n < 100; n += 10)
            expect_chain(kit.ctx, n);
        const berth_step_counters counters = exec_kit_counters(kit.runtime, "chain");
        assert_int_equal(counters.runs, 9);
        assert_int_equal(counters.hits, 0);
        assert_int_equal(counters.plans, 0);
        assert_true(counters.lower_bound_bytes > 0);
        exec_kit_close(&kit);
    }
}

static void a_bad_bucket_policy_is_refused_at_creation(void** state) {
    (void)state;
    const berth_option_setting settings[] = {{"buckets", "sideways:3"}};
    exec_kit kit;
    assert_fails(exec_kit_open(&kit, NULL, settings, 1), BERTH_ERR_INVALID_ARGUMENT, "BUCKETS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(after_three_lengths_every_run_is_a_hit),
        EXEC_KIT_ON_BOTH(a_replayed_value_lies_in_the_frame_and_survivors_do_not),
        EXEC_KIT_ON_BOTH(another_op_makes_a_side_exit_and_the_result_stays_right),
        EXEC_KIT_ON_BOTH(a_value_that_outlives_its_plan_is_not_overwritten),
        EXEC_KIT_ON_BOTH(no_peak_is_below_what_was_alive_at_once),
        EXEC_KIT_ON_BOTH(a_mapped_value_stays_where_it_is_beyond_the_step),
        EXEC_KIT_ON_BOTH(nested_steps_replay_inside_their_parent),
        EXEC_KIT_ON_BOTH(an_end_without_a_begin_is_an_error),
        EXEC_KIT_ON_BOTH(an_error_inside_a_step_is_reported_by_its_end),
        EXEC_KIT_ON_BOTH(a_description_must_agree_with_the_first_one),
        EXEC_KIT_ON_BOTH(a_description_that_is_refused_fixes_nothing),
        EXEC_KIT_ON_BOTH(an_estimate_is_unknown_first_and_exact_later),
        EXEC_KIT_ON_BOTH(a_second_path_makes_the_estimate_a_bound),
        EXEC_KIT_ON_BOTH(a_step_that_cannot_fit_is_refused_before_it_begins),
        EXEC_KIT_ON_BOTH(declared_growth_is_part_of_the_need),
        EXEC_KIT_ON_BOTH(declared_growth_outlives_a_refused_begin_and_no_other_one),
        cmocka_unit_test_setup_teardown(
            warming_populates_the_frame_before_the_run, exec_kit_set_up_cpu, exec_kit_tear_down),
        EXEC_KIT_ON_BOTH(a_released_context_discards_its_open_steps),
        EXEC_KIT_ON_BOTH(a_step_that_is_never_ended_is_warned_of),
        cmocka_unit_test(keep_none_gives_idle_memory_back_at_every_end),
        cmocka_unit_test(keep_all_keeps_and_trim_returns),
        cmocka_unit_test(mode_pool_and_mode_system_plan_nothing),
        cmocka_unit_test(a_bad_bucket_policy_is_refused_at_creation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
