// SPDX-License-Identifier: Apache-2.0
// Results whose size depends on data, in steps: estimates, hits, more than was planned for, nothing
// at all, failures; of built-in ops and of a user's own.
#include "exec/exec_kit.h"

enum { LENGTH = 1000 };

/// One run of the step: of `n` numbers 0, 1, ... those below `marked` are selected, and the sum of
/// 2 y + 1 over them, which is marked^2, returned; -1 after an error.
static float select_below(berth_context* ctx, int64_t n, int64_t marked) {
    if (exec_kit_begin(ctx, "select", n) != BERTH_OK) return -1;
    berth_tensor* x = exec_kit_ramp(ctx, 0, n);
    berth_tensor* limit = berth_full(ctx, (double)marked, BERTH_F32, 0, NULL);
    berth_tensor* mask = berth_lt(ctx, x, berth_move(limit));
    berth_tensor* y = berth_masked_select(ctx, berth_move(x), berth_move(mask));
    if (y != NULL) assert_int_equal(berth_tensor_count(y), marked);
    berth_tensor* z = berth_affine(ctx, y, 2, 1);
    berth_tensor* sum = berth_sum(ctx, z, BERTH_DIMS(0), false);
    berth_release_all(y, z);
    float value = -1;
    if (sum != NULL && berth_tensor_read(sum, &value, sizeof value) != BERTH_OK) value = -1;
    berth_release(sum);
    return berth_step_end(ctx) == BERTH_OK ? value : -1;
}

static void expect_select(berth_context* ctx, int64_t n, int64_t marked) {
    const float value = select_below(ctx, n, marked);
    assert_context_ok(ctx);
    assert_true(value == (float)(marked * marked));
}

/// Lets the step learn counts up to 300.
static void teach(berth_context* ctx) {
    static const int64_t marked[] = {300, 100, 200};
    for (size_t i = 0; i < 3; ++i)
        expect_select(ctx, LENGTH, marked[i]);
}

static berth_step_estimate_result estimate(berth_context* ctx, const char* name, int64_t n) {
    const berth_step_input input = {.name = "x", .rank = 1, .dims = &n};
    const berth_step_desc desc = {.name = name, .inputs = &input, .input_count = 1};
    berth_step_estimate_result result;
    assert_ok(berth_step_estimate(ctx, &desc, &result));
    return result;
}

static void the_estimate_of_a_counted_size_is_observed(void** state) {
    exec_kit* kit = *state;
    assert_int_equal(estimate(kit->ctx, "select", LENGTH).kind, BERTH_ESTIMATE_UNKNOWN);
    teach(kit->ctx);
    const berth_step_estimate_result counted = estimate(kit->ctx, "select", LENGTH);
    assert_int_equal(counted.kind, BERTH_ESTIMATE_OBSERVED);
    assert_true(counted.bytes >= 300 * sizeof(float));
    // sorting, with its workspace, is no such op
    for (int64_t n = 7; n <= 70; n = 2 * n + 3) {
        assert_ok(exec_kit_begin(kit->ctx, "sort", n));
        berth_tensor* at;
        berth_tensor* x = exec_kit_ramp(kit->ctx, 0, n);
        berth_tensor* y = berth_sort(kit->ctx, berth_move(x), 0, true, &at);
        berth_release_all(y, at);
        assert_ok(berth_step_end(kit->ctx));
    }
    assert_int_equal(estimate(kit->ctx, "sort", 55).kind, BERTH_ESTIMATE_EXACT);
}

static void counts_up_to_the_largest_seen_are_hits(void** state) {
    exec_kit* kit = *state;
    teach(kit->ctx);
    const berth_step_counters before = exec_kit_counters(kit->runtime, "select");
    for (int64_t marked = 0; marked <= 300; marked += 20)
        expect_select(kit->ctx, LENGTH, marked);
    expect_select(kit->ctx, LENGTH, 320); // within the margin
    const berth_step_counters after = exec_kit_counters(kit->runtime, "select");
    assert_int_equal(after.runs - before.runs, 17);
    assert_int_equal(after.hits - before.hits, 17);
    assert_int_equal(after.side_exits, 0);
}

static void a_larger_count_than_planned_is_served_and_learned(void** state) {
    exec_kit* kit = *state;
    teach(kit->ctx);
    for (int64_t marked = 600; marked <= 1000; marked += 400) {
        const berth_step_counters before = exec_kit_counters(kit->runtime, "select");
        expect_select(kit->ctx, LENGTH, marked);
        const berth_step_counters missed = exec_kit_counters(kit->runtime, "select");
        assert_int_equal(missed.partial - before.partial, 1);
        assert_int_equal(missed.hits, before.hits);
        expect_select(kit->ctx, LENGTH, marked);
        const berth_step_counters after = exec_kit_counters(kit->runtime, "select");
        assert_int_equal(after.hits - missed.hits, 1);
        assert_int_equal(after.partial, missed.partial);
        assert_int_equal(after.side_exits, 0);
    }
}

static void counts_that_grow_with_the_input_are_served_at_any_length(void** state) {
    exec_kit* kit = *state;
    for (int64_t n = 10; n <= 3000; n = n * 5 / 4 + 1)
        expect_select(kit->ctx, n, n / 3);
    for (int64_t n = 10; n <= 3000; n = n * 7 / 6 + 1)
        expect_select(kit->ctx, n, n / 4);
    const berth_step_counters counters = exec_kit_counters(kit->runtime, "select");
    assert_int_equal(counters.side_exits, 0);
    assert_true(counters.hits > counters.runs / 2);
}

/// A step of all counted ops; one result survives it.
static berth_tensor* run_all(berth_context* ctx, int64_t n, int64_t modulus) {
    assert_ok(exec_kit_begin(ctx, "all", n));
    berth_tensor *inverse, *counts;
    berth_tensor* x = exec_kit_ramp(ctx, 0, n);
    berth_tensor* divisor = berth_full(ctx, (double)modulus, BERTH_F32, 0, NULL);
    berth_tensor* rest = berth_remainder(ctx, x, berth_move(divisor));
    berth_tensor* values = berth_unique(ctx, rest, &inverse, &counts);
    berth_tensor* at = berth_nonzero(ctx, rest);
    assert_context_ok(ctx);
    const int64_t distinct = modulus < n ? modulus : n;
    const int64_t zeros = (n + modulus - 1) / modulus;
    assert_int_equal(berth_tensor_dim(values, 0), distinct);
    assert_int_equal(berth_tensor_dim(at, 0), n - zeros);
    berth_tensor* first = berth_slice(ctx, counts, 0, 0, 1, 1);
    int64_t often;
    assert_ok(berth_tensor_read(first, &often, sizeof often));
    assert_int_equal(often, zeros);
    berth_release_all(x, rest, inverse, counts, first, at);
    assert_ok(berth_step_end(ctx));
    return values;
}

static void results_that_survive_their_step_are_right(void** state) {
    exec_kit* kit = *state;
    berth_tensor* previous = NULL;
    int64_t expected = 0;
    for (int run = 0; run < 12; ++run) {
        const int64_t modulus = 3 + run * 7 % 11;
        berth_tensor* values = run_all(kit->ctx, 150 + 10 * (run % 3), modulus);
        if (previous != NULL) {
            float ramp[16];
            for (int i = 0; i < 16; ++i)
                ramp[i] = (float)i;
            exec_kit_expect(previous, ramp, (size_t)expected);
        }
        berth_release(previous);
        previous = values;
        expected = modulus;
    }
    berth_release(previous);
    const berth_step_counters counters = exec_kit_counters(kit->runtime, "all");
    assert_int_equal(counters.side_exits, 0);
    assert_true(counters.hits + counters.partial >= 6);
}

/// The sums of a fixed row of counts, on a runtime with these settings.
static void run_with(const berth_option_setting* settings, size_t count, float* out_sums) {
    static const int64_t marked[] = {50, 0, 70, 20, 500, 60, 1000, 0, 999};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, settings, count));
    for (size_t i = 0; i < sizeof marked / sizeof marked[0]; ++i)
        out_sums[i] = select_below(kit.ctx, LENGTH + (int64_t)i % 2, marked[i]);
    exec_kit_close(&kit);
}

static void planning_changes_no_bit(void** state) {
    (void)state;
    static const berth_option_setting ways[][3] = {
        {{"device", "cpu"}, {"mode", "auto"}, {"threads", "2"}},
        {{"device", "cpu"}, {"mode", "plan"}, {"threads", "1"}},
        {{"device", "sim"}, {"mode", "auto"}, {"threads", "1"}},
        {{"device", "sim"}, {"mode", "pool"}, {"threads", "1"}},
        {{"device", "sim"}, {"mode", "plan"}, {"keep", "none"}},
    };
    static const berth_option_setting pool[] = {
        {"device", "cpu"}, {"mode", "pool"}, {"threads", "1"}};
    float expected[9];
    run_with(pool, 3, expected);
    assert_true(expected[6] == 1e6f);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; ++i) {
        float sums[9];
        run_with(ways[i], 3, sums);
        assert_memory_equal(sums, expected, sizeof expected);
    }
}

// --- Failures ------------------------------------------------------------------------------------

/// A planned run, and one that needs more than planned, either of which a fault may hit. True if
/// both went well.
static bool run_both(berth_context* ctx) {
    bool is_well = true;
    for (int64_t marked = 250; marked <= 700; marked += 450) {
        const float value = select_below(ctx, LENGTH, marked);
        if (value != (float)(marked * marked)) {
            is_well = false;
            assert_true(value == -1);
        }
        assert_null(ctx->run);
        assert_int_equal(ctx->home.live_objects, 0);
        berth_context_clear_error(ctx);
    }
    return is_well;
}

static void host_memory_may_fail_at_any_call_of_a_planned_step(void** state) {
    (void)state;
    static const berth_option_setting settings[] = {{"device", "sim"}, {"log", "off"}};
    bool is_over = false;
    for (size_t nth = 1; !is_over; ++nth) {
        failing_host host;
        failing_host_init(&host);
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
        teach(kit.ctx);
        failing_host_fail(&host, nth, false);
        const bool is_well = run_both(kit.ctx);
        is_over = !failing_host_has_failed(&host);
        assert_true(is_well || !is_over);
        failing_host_fail(&host, 0, false);
        assert_true(run_both(kit.ctx));
        exec_kit_close(&kit);
        assert_int_equal(atomic_load(&host.live_blocks), 0);
    }
}

static void the_device_may_fail_at_any_call_of_a_planned_step(void** state) {
    (void)state;
    static const berth_option_setting settings[] = {{"device", "sim"}, {"log", "off"}};
    size_t failed = 0;
    bool is_over = false;
    for (uint64_t nth = 1; !is_over; ++nth) {
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, NULL, settings, 2));
        teach(kit.ctx);
        berth_device* device = kit.runtime->device;
        const uint64_t before = berth_sim_query_all_calls(device);
        berth_sim_fail_any(device, nth);
        failed += run_both(kit.ctx) ? 0 : 1;
        is_over = berth_sim_query_all_calls(device) - before < nth;
        berth_sim_fail_any(device, 0);
        assert_true(run_both(kit.ctx));
        exec_kit_close(&kit);
    }
    assert_true(failed > 10);
}

// --- A user's own --------------------------------------------------------------------------------

/// f32 x [n]: the elements above 0, and their indices, i64.
static berth_status positive_infer(berth_op_call* call) {
    for (uint32_t i = 0; i < call->output_count; ++i) {
        call->outputs[i].dtype = i == 0 ? BERTH_F32 : BERTH_I64;
        call->outputs[i].rank = 1;
        call->outputs[i].dims[0] = BERTH_DIM_COUNTED;
    }
    return BERTH_OK;
}

static uint64_t positive_scratch(const berth_op_call* call) {
    return sizeof(int64_t) * (1 + (uint64_t)call->inputs[0].dims[0]);
}

/// Leaves the indices behind the count, for the kernel to copy.
static void positive_count(const berth_op_call* call) {
    const float* x = call->inputs[0].data;
    int64_t* found = call->scratch;
    found[0] = 0;
    for (int64_t i = 0; i < call->inputs[0].dims[0]; ++i)
        if (x[i] > 0) found[++found[0]] = i;
}

static void positive_kernel(const berth_op_call* call) {
    const float* x = call->inputs[0].data;
    const int64_t* found = call->scratch;
    for (int64_t i = 0; i < found[0]; ++i) {
        ((float*)call->outputs[0].data)[i] = x[found[i + 1]];
        ((int64_t*)call->outputs[1].data)[i] = found[i + 1];
    }
}

static void absurd_count(const berth_op_call* call) { *(int64_t*)call->scratch = -7; }

static berth_op_desc positive_desc(void) {
    return (berth_op_desc){
        .struct_size = sizeof(berth_op_desc),
        .name = "positive",
        .min_inputs = 1,
        .max_inputs = 1,
        .output_count = 2,
        .infer = positive_infer,
        .scratch = positive_scratch,
        .kernels = {[BERTH_DEVICE_CPU] = positive_kernel},
        .counters = {[BERTH_DEVICE_CPU] = positive_count},
    };
}

static void a_users_counted_op_is_planned_like_the_built_in_ones(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    const berth_op_desc desc = positive_desc();
    const berth_op* op;
    assert_ok(berth_op_register(kit->runtime, &desc, &op));
    for (int64_t run = 0; run < 10; ++run) {
        const int64_t n = 64, count = run == 0 ? 40 : run * 4; // 40 first, so the others are below
        assert_ok(exec_kit_begin(ctx, "positive", n));
        berth_tensor* x = exec_kit_ramp(ctx, (float)(count - n + 1), n);
        berth_tensor* at;
        berth_tensor* y = berth_apply(ctx, op, (berth_tensor*[]){berth_move(x)}, 1, NULL, 0, &at);
        assert_context_ok(ctx);
        assert_int_equal(berth_tensor_dim(y, 0), count);
        assert_int_equal(berth_tensor_dim(at, 0), count);
        float values[64];
        int64_t indices[64];
        assert_ok(berth_tensor_read(y, values, (uint64_t)count * sizeof *values));
        assert_ok(berth_tensor_read(at, indices, (uint64_t)count * sizeof *indices));
        for (int64_t i = 0; i < count; ++i) {
            assert_true(values[i] == (float)(i + 1));
            assert_int_equal(indices[i], n - count + i);
        }
        berth_release_all(y, at);
        assert_ok(berth_step_end(ctx));
    }
    const berth_step_counters counters = exec_kit_counters(kit->runtime, "positive");
    assert_int_equal(counters.side_exits, 0);
    assert_true(counters.hits >= 7);
    assert_int_equal(estimate(ctx, "positive", 64).kind, BERTH_ESTIMATE_OBSERVED);
}

static void a_count_below_zero_is_refused(void** state) {
    exec_kit* kit = *state;
    berth_op_desc desc = positive_desc();
    desc.name = "absurd";
    desc.counters[BERTH_DEVICE_CPU] = absurd_count;
    const berth_op* op;
    assert_ok(berth_op_register(kit->runtime, &desc, &op));
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 3);
    berth_tensor* at = x;
    assert_null(berth_apply(kit->ctx, op, (berth_tensor*[]){berth_move(x)}, 1, NULL, 0, &at));
    assert_null(at);
    assert_context_fails(kit->ctx, BERTH_ERR_STATE, "absurd(f32[3]): the op counted -7");
    assert_int_equal(kit->ctx->home.live_objects, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(the_estimate_of_a_counted_size_is_observed),
        EXEC_KIT_ON_BOTH(counts_up_to_the_largest_seen_are_hits),
        EXEC_KIT_ON_BOTH(a_larger_count_than_planned_is_served_and_learned),
        EXEC_KIT_ON_BOTH(counts_that_grow_with_the_input_are_served_at_any_length),
        EXEC_KIT_ON_BOTH(results_that_survive_their_step_are_right),
        cmocka_unit_test(planning_changes_no_bit),
        cmocka_unit_test(host_memory_may_fail_at_any_call_of_a_planned_step),
        cmocka_unit_test(the_device_may_fail_at_any_call_of_a_planned_step),
        EXEC_KIT_ON_BOTH(a_users_counted_op_is_planned_like_the_built_in_ones),
        EXEC_KIT_ON_BOTH(a_count_below_zero_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
