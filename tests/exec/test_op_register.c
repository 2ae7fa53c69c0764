// SPDX-License-Identifier: Apache-2.0
// Ops of a user's: every refusal, in place and updates, workspace, several results, parameters,
// steps, threads, failures.
#include "base/thread.h"
#include "exec/exec_kit.h"

// --- Ops -----------------------------------------------------------------------------------------

/// scale: f32 x of any shape, contiguous; x * factor, factor the parameter; may be in place.
static berth_status scale_infer(berth_op_call* call) {
    if (call->inputs[0].dtype != BERTH_F32)
        return berth_op_fail(BERTH_ERR_UNSUPPORTED, "only f32 is scaled");
    call->outputs[0] = call->inputs[0];
    return BERTH_OK;
}

static int64_t count_of(const berth_view* view) {
    int64_t count = 1;
    for (int32_t d = 0; d < view->rank; ++d)
        count *= view->dims[d];
    return count;
}

static void scale_range(void* job, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const berth_op_call* call = job;
    const float* x = call->inputs[0].data;
    float* out = call->outputs[0].data;
    for (int64_t i = begin; i < end; ++i)
        out[i] = x[i] * *(const float*)call->params;
}

static void scale_kernel(const berth_op_call* call) {
    berth_op_call job = *call;
    berth_team_for(call->team, count_of(&call->inputs[0]), 64, scale_range, &job);
}

static berth_op_desc scale_desc(void) {
    return (berth_op_desc){
        .struct_size = sizeof(berth_op_desc),
        .name = "scale",
        .min_inputs = 1,
        .max_inputs = 1,
        .output_count = 1,
        .flags = BERTH_OP_IN_PLACE(0),
        .infer = scale_infer,
        .kernels = {[BERTH_DEVICE_CPU] = scale_kernel},
    };
}

/// stamp: x [n] f32 with its first element replaced by the parameter.
static void stamp_kernel(const berth_op_call* call) {
    *(float*)call->outputs[0].data = *(const float*)call->params;
}

static berth_op_desc stamp_desc(void) {
    berth_op_desc desc = scale_desc();
    desc.name = "stamp";
    desc.flags = BERTH_OP_IN_PLACE(0) | BERTH_OP_UPDATES_0;
    desc.kernels[BERTH_DEVICE_CPU] = stamp_kernel;
    return desc;
}

/// parts: f32 x [n] and perhaps y [n]; the reversed x, its sum [], and i64 [1]: n. Goes through a
/// workspace.
static berth_status parts_infer(berth_op_call* call) {
    const berth_view* x = &call->inputs[0];
    if (call->input_count > 1 && call->inputs[1].dims[0] != x->dims[0])
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "lengths differ by %d", 1);
    call->outputs[0] = *x;
    call->outputs[1] = (berth_view){.dtype = BERTH_F32, .rank = 0};
    call->outputs[2] = (berth_view){.dtype = BERTH_I64, .rank = 1, .dims = {1}};
    return BERTH_OK;
}

static uint64_t parts_scratch(const berth_op_call* call) {
    return (uint64_t)call->inputs[0].dims[0] * sizeof(float);
}

static void parts_kernel(const berth_op_call* call) {
    const int64_t n = call->inputs[0].dims[0];
    const float* x = call->inputs[0].data;
    float* workspace = call->scratch;
    float* sum = call->outputs[1].data;
    assert_true((uintptr_t)workspace % 64 == 0 && call->scratch_bytes == parts_scratch(call));
    *sum = 0;
    for (int64_t i = 0; i < n; ++i) {
        workspace[n - 1 - i] = x[i];
        *sum += x[i];
    }
    memcpy(call->outputs[0].data, workspace, (size_t)n * sizeof *workspace);
    *(int64_t*)call->outputs[2].data = n;
}

static berth_op_desc parts_desc(void) {
    return (berth_op_desc){
        .struct_size = sizeof(berth_op_desc),
        .name = "parts",
        .min_inputs = 1,
        .max_inputs = 2,
        .output_count = 3,
        .infer = parts_infer,
        .scratch = parts_scratch,
        .kernels = {[BERTH_DEVICE_CPU] = parts_kernel},
    };
}

static const berth_op* add(berth_runtime* runtime, berth_op_desc desc) {
    const berth_op* op = NULL;
    assert_ok(berth_op_register(runtime, &desc, &op));
    assert_non_null(op);
    return op;
}

static berth_tensor* scale(berth_context* ctx, const berth_op* op, berth_tensor* x, float factor) {
    return berth_apply(ctx, op, &x, 1, &factor, sizeof factor, NULL);
}

// --- Registering ---------------------------------------------------------------------------------

static void expect_refused(berth_runtime* runtime,
                           const berth_op_desc* desc,
                           berth_status status,
                           const char* text) {
    const berth_op* op = (const berth_op*)(const void*)desc; // to be cleared
    assert_fails(berth_op_register(runtime, desc, &op), status, text);
    assert_null(op);
}

static void descriptions_that_make_no_sense_are_refused(void** state) {
    berth_runtime* runtime = ((exec_kit*)*state)->runtime;
    const berth_status invalid = BERTH_ERR_INVALID_ARGUMENT;
    berth_op_desc desc = scale_desc();
    desc.struct_size = 8;
    expect_refused(runtime, &desc, invalid, "struct_size is 8");
    desc = scale_desc();
    desc.max_inputs = 9;
    expect_refused(runtime, &desc, invalid, "scale: 1 to 9 operands are not possible, at most 8");
    desc = scale_desc();
    desc.min_inputs = 2;
    expect_refused(runtime, &desc, invalid, "scale: 2 to 1 operands");
    desc = scale_desc();
    desc.output_count = 0;
    expect_refused(runtime, &desc, invalid, "scale: 0 results are not possible, 1 to 3");
    desc.output_count = 4;
    expect_refused(runtime, &desc, invalid, "scale: 4 results");
    desc = scale_desc();
    desc.flags = BERTH_OP_IN_PLACE(1);
    expect_refused(runtime, &desc, invalid, "scale: flags 0x2 mean nothing for 1 operands");
    desc.flags = 1u << 20;
    expect_refused(runtime, &desc, invalid, "flags 0x100000");
    desc.flags = BERTH_OP_UPDATES_0;
    expect_refused(runtime, &desc, invalid, "BERTH_OP_UPDATES_0 needs");
    desc = stamp_desc();
    desc.min_inputs = 0;
    expect_refused(runtime, &desc, invalid, "BERTH_OP_UPDATES_0 needs an operand");
    desc = scale_desc();
    desc.infer = NULL;
    expect_refused(runtime, &desc, invalid, "scale has no shape rule");
    desc = scale_desc();
    desc.counters[BERTH_DEVICE_CPU] = scale_kernel;
    expect_refused(runtime, &desc, invalid, "scale counts, which needs a workspace");
    desc = scale_desc();
    desc.kernels[BERTH_DEVICE_CPU] = NULL;
    expect_refused(runtime, &desc, BERTH_ERR_UNSUPPORTED, "no kernel for the runtime's device");
    desc.kernels[BERTH_DEVICE_CUDA] = scale_kernel;
    expect_refused(runtime, &desc, BERTH_ERR_UNSUPPORTED, "no kernel for the runtime's device");

    const berth_op* op;
    desc = scale_desc();
    assert_fails(berth_op_register(NULL, &desc, &op), invalid, "a runtime, a description");
    assert_fails(berth_op_register(runtime, NULL, &op), invalid, "a runtime, a description");
    assert_fails(berth_op_register(runtime, &desc, NULL), invalid, "a runtime, a description");
}

static void names_have_1_to_63_bytes_and_are_taken_once(void** state) {
    berth_runtime* runtime = ((exec_kit*)*state)->runtime;
    char name[65];
    memset(name, 'x', sizeof name);
    name[64] = '\0';
    berth_op_desc desc = scale_desc();
    desc.name = name;
    expect_refused(runtime, &desc, BERTH_ERR_INVALID_ARGUMENT, "a name of 1 to 63 bytes");
    name[63] = '\0';
    (void)add(runtime, desc);
    expect_refused(runtime, &desc, BERTH_ERR_INVALID_ARGUMENT, "there is an op xxx");
    desc.name = "";
    expect_refused(runtime, &desc, BERTH_ERR_INVALID_ARGUMENT, "a name of 1 to 63 bytes");
    desc.name = NULL;
    expect_refused(runtime, &desc, BERTH_ERR_INVALID_ARGUMENT, "a name of 1 to 63 bytes");
    desc.name = "matmul";
    expect_refused(runtime, &desc, BERTH_ERR_INVALID_ARGUMENT, "there is an op matmul already");
    (void)add(runtime, scale_desc());
    (void)add(runtime, stamp_desc());
    desc.name = "scale";
    expect_refused(runtime, &desc, BERTH_ERR_INVALID_ARGUMENT, "there is an op scale already");
}

static void two_runtimes_have_ops_of_their_own(void** state) {
    exec_kit* kit = *state;
    exec_kit other;
    assert_ok(exec_kit_open(&other, NULL, NULL, 0));
    const berth_op* op = add(kit->runtime, scale_desc());
    const berth_op* others = add(other.runtime, scale_desc());
    berth_tensor* x = exec_kit_ramp(other.ctx, 1, 2);
    assert_null(scale(other.ctx, op, x, 2));
    assert_context_fails(
        other.ctx, BERTH_ERR_INVALID_ARGUMENT, "scale: the op is registered with another runtime");
    berth_tensor* y = scale(other.ctx, others, berth_move(x), 2);
    exec_kit_expect(y, (float[]){2, 4}, 2);
    berth_release(y);
    exec_kit_close(&other);
}

static void a_description_is_copied_with_its_name(void** state) {
    exec_kit* kit = *state;
    char name[] = "scale";
    berth_op_desc desc = scale_desc();
    desc.name = name;
    const berth_op* op;
    assert_ok(berth_op_register(kit->runtime, &desc, &op));
    memset(name, '?', sizeof name - 1);
    memset(&desc, 0x5A, sizeof desc);
    berth_tensor* x = berth_zeros(kit->ctx, BERTH_I32, 1, (int64_t[]){2});
    assert_null(scale(kit->ctx, op, x, 2));
    assert_context_fails(kit->ctx, BERTH_ERR_UNSUPPORTED, "scale(i32[2]): only f32 is scaled");
    berth_release(x);
}

// --- Applying ------------------------------------------------------------------------------------

static void calls_that_make_no_sense_are_refused_and_consume(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    const berth_op* op = add(kit->runtime, scale_desc());
    const berth_op* parts = add(kit->runtime, parts_desc());
    berth_tensor* more[2];
    static const char params[BERTH_OP_PARAM_BYTES + 1];
#define MOVED ((berth_tensor*[]){berth_move(exec_kit_ramp(ctx, 0, 3))})
    assert_null(berth_apply(ctx, NULL, MOVED, 1, NULL, 0, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "apply: the op is NULL");
    assert_null(berth_apply(ctx, op, NULL, 0, NULL, 0, NULL));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "scale: 0 operands are given, it takes 1");
    assert_null(berth_apply(ctx, op, NULL, 1, NULL, 0, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "scale: the operands are missing");
    assert_null(berth_apply(ctx, op, MOVED, 1, params, sizeof params, NULL));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "scale: 193 bytes of parameters, 192 at most");
    assert_null(berth_apply(ctx, op, MOVED, 1, NULL, 4, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "scale: the parameters are missing");
    assert_null(berth_apply(ctx, parts, MOVED, 1, NULL, 0, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "no place for results 1 .. 2");
    more[0] = more[1] = (berth_tensor*)(void*)&more;
    assert_null(berth_apply(ctx, parts, (berth_tensor*[]){NULL}, 1, NULL, 0, more));
    assert_null(more[0]);
    assert_null(more[1]);
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "parts: operand 0 is NULL");
    berth_tensor* pair[2] = {berth_move(exec_kit_ramp(ctx, 0, 3)),
                             berth_move(exec_kit_ramp(ctx, 0, 4))};
    assert_null(berth_apply(ctx, parts, pair, 2, NULL, 0, more));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "parts(f32[3], f32[4]): lengths differ by 1");
    more[0] = (berth_tensor*)(void*)&more;
    assert_null(berth_apply(NULL, parts, NULL, 0, NULL, 0, more));
    assert_null(more[0]);
#undef MOVED
    assert_int_equal(ctx->home.live_objects, 0);
}

static void a_moved_operand_is_worked_on_in_place_and_a_borrowed_one_never(void** state) {
    exec_kit* kit = *state;
    const berth_op* op = add(kit->runtime, scale_desc());
    berth_tensor* x = exec_kit_ramp(kit->ctx, 1, 3);
    const void* place = exec_kit_place(x);
    berth_tensor* y = scale(kit->ctx, op, x, 3);
    assert_ptr_not_equal(exec_kit_place(y), place);
    exec_kit_expect(x, (float[]){1, 2, 3}, 3);
    berth_tensor* z = scale(kit->ctx, op, berth_move(x), 2);
    assert_ptr_equal(exec_kit_place(z), place);
    exec_kit_expect(z, (float[]){2, 4, 6}, 3);
    exec_kit_expect(y, (float[]){3, 6, 9}, 3);
    berth_release_all(y, z);
    assert_int_equal(kit->ctx->home.live_objects, 0);
}

static void an_update_changes_a_moved_tensor_and_copies_a_borrowed_one(void** state) {
    exec_kit* kit = *state;
    const berth_op* op = add(kit->runtime, stamp_desc());
    berth_tensor* x = exec_kit_ramp(kit->ctx, 1, 3);
    const void* place = exec_kit_place(x);
    berth_tensor* y = scale(kit->ctx, op, x, 9);
    exec_kit_expect(x, (float[]){1, 2, 3}, 3);
    exec_kit_expect(y, (float[]){9, 2, 3}, 3);
    x = scale(kit->ctx, op, berth_move(x), 8);
    assert_ptr_equal(exec_kit_place(x), place);
    exec_kit_expect(x, (float[]){8, 2, 3}, 3);
    berth_release_all(x, y);
}

static berth_status set_nothing(berth_op_call* call) {
    (void)call;
    return BERTH_OK;
}

static void a_shape_rule_that_sets_nothing_is_named_as_the_cause(void** state) {
    exec_kit* kit = *state;
    berth_op_desc desc = scale_desc();
    desc.infer = set_nothing;
    const berth_op* op = add(kit->runtime, desc);
    berth_tensor* x = exec_kit_ramp(kit->ctx, 1, 2);
    assert_null(scale(kit->ctx, op, x, 2));
    assert_context_fails(kit->ctx,
                         BERTH_ERR_INVALID_ARGUMENT,
                         "scale(f32[2]): its shape rule has not set outputs[0]");
    berth_release(x);
}

static void several_results_and_a_workspace_are_served(void** state) {
    exec_kit* kit = *state;
    const berth_op* op = add(kit->runtime, parts_desc());
    for (int64_t n = 0; n <= 100; n += 50) {
        berth_tensor* more[2];
        berth_tensor* x = exec_kit_ramp(kit->ctx, 1, n);
        berth_tensor* y = berth_apply(kit->ctx, op, &x, 1, NULL, 0, more);
        float reversed[100];
        int64_t length = -1;
        for (int64_t i = 0; i < n; ++i)
            reversed[i] = (float)(n - i);
        exec_kit_expect(y, reversed, (size_t)n);
        exec_kit_expect(more[0], (float[]){(float)(n * (n + 1) / 2)}, 1);
        assert_ok(berth_tensor_read(more[1], &length, sizeof length));
        assert_int_equal(length, n);
        berth_release_all(x, y, more[0], more[1]);
    }
    assert_int_equal(kit->ctx->home.live_objects, 0);
}

static void parameters_are_copied_before_the_kernel_runs(void** state) {
    exec_kit* kit = *state;
    const berth_op* op = add(kit->runtime, scale_desc());
    berth_tensor* results[8];
    for (int i = 0; i < 8; ++i) {
        berth_tensor* x = berth_move(exec_kit_ramp(kit->ctx, 1, 2));
        float factor = (float)i;
        results[i] = berth_apply(kit->ctx, op, &x, 1, &factor, sizeof factor, NULL);
        factor = 1e9f; // a device that computes later must not see this
    }
    for (int i = 0; i < 8; ++i)
        exec_kit_expect(results[i], (float[]){(float)i, 2 * (float)i}, 2);
    berth_release_array(results, 8);
}

static void a_kernel_may_use_the_team(void** state) {
    (void)state;
    const berth_option_setting settings[] = {{"threads", "3"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, settings, 1));
    const berth_op* op = add(kit.runtime, scale_desc());
    berth_tensor* x = exec_kit_ramp(kit.ctx, 0, 100000);
    berth_tensor* y = scale(kit.ctx, op, x, 2);
    berth_tensor* twice = berth_affine(kit.ctx, x, 2, 0);
    static float values[2][100000];
    assert_ok(berth_tensor_read(y, values[0], sizeof values[0]));
    assert_ok(berth_tensor_read(twice, values[1], sizeof values[1]));
    assert_memory_equal(values[0], values[1], sizeof values[0]);
    berth_release_all(x, y, twice);
    exec_kit_close(&kit);
}

static berth_status refuse_data(const berth_op_call* call) {
    const float* x = call->inputs[0].data;
    if (x[0] < 0) return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT, "%g is negative", (double)x[0]);
    return BERTH_OK;
}

static void data_is_checked_where_it_can_be_seen_at_once(void** state) {
    exec_kit* kit = *state;
    berth_op_desc desc = scale_desc();
    desc.check_data = refuse_data;
    const berth_op* op = add(kit->runtime, desc);
    berth_tensor* y = scale(kit->ctx, op, berth_move(exec_kit_ramp(kit->ctx, 0, 2)), 5);
    exec_kit_expect(y, (float[]){0, 5}, 2);
    berth_release(y);
    y = scale(kit->ctx, op, berth_move(exec_kit_ramp(kit->ctx, -3, 2)), 2);
    if (berth_device_is_async(kit->runtime->device)) {
        exec_kit_expect(y, (float[]){-6, -4}, 2);
        berth_release(y);
    } else {
        assert_null(y);
        assert_context_fails(kit->ctx, BERTH_ERR_INVALID_ARGUMENT, "scale(f32[2]): -3 is negative");
    }
    assert_int_equal(kit->ctx->home.live_objects, 0);
}

static berth_status next_status;
static berth_view next_output;

static berth_status arbitrary_infer(berth_op_call* call) {
    call->outputs[0] = next_output;
    return next_status == BERTH_OK ? BERTH_OK : berth_op_fail(next_status, "as told");
}

static void shapes_that_a_rule_may_not_give_are_errors(void** state) {
    exec_kit* kit = *state;
    berth_op_desc desc = scale_desc();
    desc.infer = arbitrary_infer;
    const berth_op* op = add(kit->runtime, desc);
    static const struct {
        berth_view out;
        berth_status status;
        const char* text;
    } cases[] = {
        {{.dtype = BERTH_F32, .rank = 9}, BERTH_ERR_INVALID_ARGUMENT, "rank 9"},
        {{.dtype = BERTH_F32, .rank = -1}, BERTH_ERR_INVALID_ARGUMENT, "rank -1"},
        {{.dtype = BERTH_F32, .rank = 1, .dims = {-5}}, BERTH_ERR_INVALID_ARGUMENT, "-5"},
        {{.dtype = BERTH_F32, .rank = 1, .dims = {BERTH_DIM_COUNTED}},
         BERTH_ERR_INVALID_ARGUMENT,
         "-1"},
        {{.dtype = BERTH_F32, .rank = 2, .dims = {INT64_MAX, 3}}, BERTH_ERR_OVERFLOW, "scale"},
        {{.dtype = BERTH_F32, .rank = 1, .dims = {INT64_C(1) << 50}},
         BERTH_ERR_OUT_OF_MEMORY,
         "scale"},
        {{.dtype = (berth_dtype)77, .rank = 0}, BERTH_ERR_INVALID_ARGUMENT, "77"},
        {{.dtype = BERTH_F32, .rank = 0}, BERTH_ERR_DEVICE, "as told"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        next_output = cases[i].out;
        next_status = cases[i].status == BERTH_ERR_DEVICE ? cases[i].status : BERTH_OK;
        assert_null(scale(kit->ctx, op, berth_move(exec_kit_ramp(kit->ctx, 0, 2)), 2));
        assert_context_fails(kit->ctx, cases[i].status, cases[i].text);
    }
    assert_int_equal(kit->ctx->home.live_objects, 0);
}

// --- Steps ---------------------------------------------------------------------------------------

/// One run of a step with all three ops: the sum of 2 x reversed, and its first element 1.
static float run_step(berth_context* ctx, const berth_op* const ops[3], int64_t n, bool swapped) {
    assert_ok(exec_kit_begin(ctx, "own", n));
    berth_tensor* more[2];
    berth_tensor* x = exec_kit_ramp(ctx, 0, n);
    berth_tensor* y = scale(ctx, ops[swapped ? 1 : 0], berth_move(x), 2);
    berth_tensor* reversed = berth_apply(ctx, ops[2], &y, 1, NULL, 0, more);
    reversed = scale(ctx, ops[1], berth_move(reversed), 1);
    berth_tensor* sum = berth_sum(ctx, reversed, BERTH_DIMS(0), false);
    float value;
    assert_context_ok(ctx);
    assert_ok(berth_tensor_read(sum, &value, sizeof value));
    berth_release_all(y, reversed, more[0], more[1], sum);
    assert_ok(berth_step_end(ctx));
    return value;
}

/// The sum of 2 i for i < n - 1, and 1 in the place of the last.
static float expected_sum(int64_t n) { return (float)((n - 1) * (n - 2) + 1); }

static berth_status silent_infer(berth_op_call* call) {
    (void)call;
    return BERTH_ERR_UNSUPPORTED;
}

static void a_rule_that_refuses_without_a_reason_shows_no_earlier_one(void** state) {
    exec_kit* kit = *state;
    berth_op_desc desc = scale_desc();
    desc.infer = silent_infer;
    const berth_op* op;
    assert_ok(berth_op_register(kit->runtime, &desc, &op));
    assert_fails(berth_tensor_read(NULL, NULL, 1), BERTH_ERR_INVALID_ARGUMENT, "NULL");
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 3);
    assert_null(berth_apply(kit->ctx, op, (berth_tensor*[]){x}, 1, NULL, 0, NULL));
    assert_null(strstr(berth_context_error_text(kit->ctx), "NULL"));
    assert_context_fails(kit->ctx, BERTH_ERR_UNSUPPORTED, berth_status_text(BERTH_ERR_UNSUPPORTED));
    berth_release(x);
}

static void ops_of_ones_own_are_planned_and_replayed(void** state) {
    exec_kit* kit = *state;
    const berth_op* const ops[3] = {add(kit->runtime, scale_desc()),
                                    add(kit->runtime, stamp_desc()),
                                    add(kit->runtime, parts_desc())};
    for (int64_t n = 7; n < 60; n = n * 3 / 2 + 1)
        assert_true(run_step(kit->ctx, ops, n, false) == expected_sum(n));
    const berth_step_counters before = exec_kit_counters(kit->runtime, "own");
    for (int64_t n = 5; n < 1000; n = n * 5 / 4 + 1)
        assert_true(run_step(kit->ctx, ops, n, false) == expected_sum(n));
    const berth_step_counters after = exec_kit_counters(kit->runtime, "own");
    assert_true(after.runs - before.runs > 15);
    assert_int_equal(after.hits - before.hits, after.runs - before.runs);
    assert_int_equal(after.side_exits, 0);
    // another registered op in its place is another path
    (void)run_step(kit->ctx, ops, 40, true);
    assert_int_equal(exec_kit_counters(kit->runtime, "own").side_exits, 1);
    assert_true(run_step(kit->ctx, ops, 41, false) == expected_sum(41));
}

// --- Threads and failures ------------------------------------------------------------------------

typedef struct thread_job {
    berth_runtime* runtime;
    int index;
    const berth_op* shared;
    int wrong;
} thread_job;

static void register_and_apply(void* argument) {
    thread_job* job = argument;
    berth_context* ctx = NULL;
    if (berth_context_create(job->runtime, &ctx) != BERTH_OK) {
        job->wrong = 1;
        return;
    }
    for (int i = 0; i < 30; ++i) {
        char name[32];
        snprintf(name, sizeof name, "scale_%d_%d", job->index, i);
        berth_op_desc desc = scale_desc();
        desc.name = name;
        const berth_op* own;
        job->wrong += berth_op_register(job->runtime, &desc, &own) != BERTH_OK;
        desc.name = "contested"; // by all threads: one gets it, at one time
        const berth_op* contested;
        (void)!berth_op_register(job->runtime, &desc, &contested);
        berth_tensor* x = exec_kit_ramp(ctx, 1, 4);
        x = scale(ctx, i % 2 == 0 ? own : job->shared, berth_move(x), 2);
        float values[4] = {0};
        job->wrong += x == NULL || berth_tensor_read(x, values, sizeof values) != BERTH_OK;
        job->wrong += values[3] != 8;
        berth_release(x);
    }
    berth_context_release(ctx);
}

static void threads_register_and_apply_at_the_same_time(void** state) {
    exec_kit* kit = *state;
    enum { THREADS = 3 };
    const berth_op* shared = add(kit->runtime, scale_desc());
    berth_thread threads[THREADS];
    thread_job jobs[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        jobs[i] = (thread_job){.runtime = kit->runtime, .index = i, .shared = shared};
        assert_ok(berth_thread_start(&threads[i], "test", register_and_apply, &jobs[i]));
    }
    for (int i = 0; i < THREADS; ++i) {
        berth_thread_join(&threads[i]);
        assert_int_equal(jobs[i].wrong, 0);
    }
}

/// Registers and applies each op; true if all went well.
static bool run_each(exec_kit* kit) {
    const berth_op_desc descs[3] = {scale_desc(), stamp_desc(), parts_desc()};
    bool is_well = true;
    for (size_t i = 0; i < 3; ++i) {
        const berth_op* op;
        berth_tensor* more[2] = {NULL, NULL};
        const berth_status status = berth_op_register(kit->runtime, &descs[i], &op);
        if (status != BERTH_OK) {
            assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
            assert_null(op);
            is_well = false;
            continue;
        }
        const float factor = 2;
        berth_tensor* x = exec_kit_ramp(kit->ctx, 1, 30);
        berth_tensor* y = berth_apply(kit->ctx, op, &x, 1, &factor, sizeof factor, more);
        is_well = is_well && berth_context_error(kit->ctx) == BERTH_OK;
        assert_true((y == NULL) == (berth_context_error(kit->ctx) != BERTH_OK));
        berth_release_all(x, y, more[0], more[1]);
        berth_context_clear_error(kit->ctx);
    }
    assert_int_equal(kit->ctx->home.live_objects, 0);
    return is_well;
}

static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    static const char* const devices[] = {"cpu", "sim"};
    for (size_t d = 0; d < 2; ++d) {
        const berth_option_setting settings[] = {{"device", devices[d]}, {"threads", "1"}};
        size_t faults = 0;
        for (bool is_over = false; !is_over; ++faults) {
            failing_host host;
            failing_host_init(&host);
            exec_kit kit;
            assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
            failing_host_fail(&host, faults + 1, false);
            const bool is_well = run_each(&kit);
            is_over = !failing_host_has_failed(&host);
            assert_true(is_well || !is_over);
            exec_kit_close(&kit);
            assert_int_equal(atomic_load(&host.live_blocks), 0);
        }
        assert_true(faults > 6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(descriptions_that_make_no_sense_are_refused),
        EXEC_KIT_ON_BOTH(names_have_1_to_63_bytes_and_are_taken_once),
        EXEC_KIT_ON_BOTH(two_runtimes_have_ops_of_their_own),
        EXEC_KIT_ON_BOTH(a_description_is_copied_with_its_name),
        EXEC_KIT_ON_BOTH(calls_that_make_no_sense_are_refused_and_consume),
        EXEC_KIT_ON_BOTH(a_moved_operand_is_worked_on_in_place_and_a_borrowed_one_never),
        EXEC_KIT_ON_BOTH(an_update_changes_a_moved_tensor_and_copies_a_borrowed_one),
        EXEC_KIT_ON_BOTH(a_shape_rule_that_sets_nothing_is_named_as_the_cause),
        EXEC_KIT_ON_BOTH(several_results_and_a_workspace_are_served),
        EXEC_KIT_ON_BOTH(parameters_are_copied_before_the_kernel_runs),
        cmocka_unit_test(a_kernel_may_use_the_team),
        EXEC_KIT_ON_BOTH(data_is_checked_where_it_can_be_seen_at_once),
        EXEC_KIT_ON_BOTH(shapes_that_a_rule_may_not_give_are_errors),
        EXEC_KIT_ON_BOTH(a_rule_that_refuses_without_a_reason_shows_no_earlier_one),
        EXEC_KIT_ON_BOTH(ops_of_ones_own_are_planned_and_replayed),
        EXEC_KIT_ON_BOTH(threads_register_and_apply_at_the_same_time),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
