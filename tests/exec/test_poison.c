// SPDX-License-Identifier: Apache-2.0
// BERTH_POISON makes visible what would go unseen: memory that is read before it is written or
// after it was given up, whoever had it.
#include "exec_kit.h"

/// LARGE is of another class of sizes: results of BYTES do not take its place.
enum { BYTES = 256, LARGE = 4096 };

static int set_up_with(void** state, const char* device, const char* poison) {
    static exec_kit kit;
    *state = &kit;
    const berth_option_setting settings[] = {{"device", device},
                                             {"threads", "1"},
                                             {"poison", poison},
                                             {"check_order", "1"},
                                             {"keep", "all"}};
    return exec_kit_open(&kit, NULL, settings, 5) == BERTH_OK ? 0 : -1;
}

static int set_up_cpu(void** state) { return set_up_with(state, "cpu", "both"); }
static int set_up_sim(void** state) { return set_up_with(state, "sim", "both"); }
static int set_up_cpu_off(void** state) { return set_up_with(state, "cpu", "off"); }
static int set_up_sim_off(void** state) { return set_up_with(state, "sim", "off"); }

// --- Ops that lie --------------------------------------------------------------------------------

static const unsigned char* kept; ///< memory of an operand or a workspace, kept beyond the call

static berth_status bytes_like_operand(berth_op_call* call) {
    call->outputs[0].dtype = BERTH_U8;
    call->outputs[0].rank = 1;
    call->outputs[0].dims[0] = BYTES;
    return BERTH_OK;
}

/// An alias of its operand that the op's description does not tell of.
static void keep_operand(const berth_op_call* call) {
    kept = call->inputs[0].data;
    memset(call->outputs[0].data, 0, BYTES);
}

/// What lies in the workspace becomes the result; the workspace is kept.
static void show_scratch(const berth_op_call* call) {
    kept = call->scratch;
    memcpy(call->outputs[0].data, call->scratch, BYTES);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NOT_WATCHED __attribute__((no_sanitize("address")))
#endif
#endif
#ifndef NOT_WATCHED
#define NOT_WATCHED
#endif

/// Reads the kept memory, whoever has it now. A sanitizer would stop it where the host waits.
NOT_WATCHED static void read_kept(const berth_op_call* call) {
    unsigned char* to = call->outputs[0].data;
    for (size_t i = 0; i < BYTES; ++i)
        to[i] = kept[i];
}

static uint64_t some_scratch(const berth_op_call* call) {
    (void)call;
    return BYTES;
}

static const berth_op* make_op(berth_runtime* runtime,
                               const char* name,
                               berth_kernel kernel,
                               uint64_t (*scratch)(const berth_op_call*)) {
    const berth_op_desc desc = {
        .struct_size = sizeof desc,
        .name = name,
        .max_inputs = 1,
        .output_count = 1,
        .infer = bytes_like_operand,
        .scratch = scratch,
        .kernels = {[BERTH_DEVICE_CPU] = kernel, [BERTH_DEVICE_SIM] = kernel},
    };
    const berth_op* op = NULL;
    assert_ok(berth_op_register(runtime, &desc, &op));
    return op;
}

static berth_tensor* call_op(berth_context* ctx, const berth_op* op, berth_tensor* operand) {
    berth_tensor* result = berth_apply(ctx, op, &operand, operand != NULL, NULL, 0, NULL);
    assert_context_ok(ctx);
    return result;
}

/// Fails unless all bytes of `tensor`, which is released, are `byte`.
static void expect_bytes(berth_tensor* tensor, unsigned char byte) {
    unsigned char bytes[BYTES];
    assert_ok(berth_tensor_read(tensor, bytes, sizeof bytes));
    for (size_t i = 0; i < BYTES; ++i)
        assert_int_equal(bytes[i], byte);
    berth_release(tensor);
}

// --- Tests ---------------------------------------------------------------------------------------

/// What the reader sees of an operand that the keeper has kept, and that was released then.
static berth_tensor* read_released(const exec_kit* kit) {
    const berth_op* keeper = make_op(kit->runtime, "keeper", keep_operand, NULL);
    const berth_op* reader = make_op(kit->runtime, "reader", read_kept, NULL);
    berth_tensor* x = berth_full(kit->ctx, 7, BERTH_U8, BERTH_SHAPE(LARGE));
    berth_release(call_op(kit->ctx, keeper, x));
    expect_bytes(call_op(kit->ctx, reader, NULL), 7);
    berth_release(x);
    return call_op(kit->ctx, reader, NULL);
}

static void an_alias_that_an_op_does_not_declare_reads_the_pattern(void** state) {
    expect_bytes(read_released(*state), BERTH_POISON_FREE_BYTE);
}

static void the_same_alias_goes_unseen_without_poison(void** state) {
    expect_bytes(read_released(*state), 7);
}

static void fresh_memory_has_the_other_pattern(void** state) {
    exec_kit* kit = *state;
    for (int i = 0; i < 3; ++i)
        expect_bytes(berth_empty(kit->ctx, BERTH_U8, BERTH_SHAPE(BYTES)), BERTH_POISON_ALLOC_BYTE);
}

static void plain_bytes_are_filled_before_and_after(void** state) {
    exec_kit* kit = *state;
    const berth_op* reader = make_op(kit->runtime, "reader", read_kept, NULL);
    // from here on there is a slab for the results
    berth_tensor* first = berth_ones(kit->ctx, BERTH_U8, BERTH_SHAPE(BYTES));
    unsigned char* bytes = berth_alloc(kit->ctx, LARGE);
    for (size_t i = 0; i < LARGE; ++i)
        assert_int_equal(bytes[i], BERTH_POISON_ALLOC_BYTE);
    kept = bytes;
    memset(bytes, 1, LARGE);
    berth_free(kit->ctx, bytes);
    expect_bytes(call_op(kit->ctx, reader, NULL), BERTH_POISON_FREE_BYTE);
    berth_release(first);
}

static void workspaces_are_filled_before_and_after(void** state) {
    exec_kit* kit = *state;
    const berth_op* shower = make_op(kit->runtime, "shower", show_scratch, some_scratch);
    const berth_op* reader = make_op(kit->runtime, "reader", read_kept, NULL);
    for (int64_t run = 0; run < 5; ++run) {
        assert_ok(exec_kit_begin(kit->ctx, "block", 10 + run));
        berth_tensor* x = call_op(kit->ctx, shower, NULL);
        berth_tensor* y = berth_ones(kit->ctx, BERTH_U8, BERTH_SHAPE(2 * BYTES + 8 * run));
        berth_tensor* z = call_op(kit->ctx, reader, NULL);
        expect_bytes(x, BERTH_POISON_ALLOC_BYTE);
        if (exec_kit_place(z) != kept && exec_kit_place(y) != kept)
            expect_bytes(z, BERTH_POISON_FREE_BYTE);
        else
            berth_release(z);
        berth_release(y);
        assert_ok(berth_step_end(kit->ctx));
        assert_context_ok(kit->ctx);
    }
    assert_true(exec_kit_counters(kit->runtime, "block").hits > 0);
}

static void what_moves_out_of_a_frame_leaves_the_pattern(void** state) {
    exec_kit* kit = *state;
    const berth_op* keeper = make_op(kit->runtime, "keeper", keep_operand, NULL);
    const berth_op* reader = make_op(kit->runtime, "reader", read_kept, NULL);
    berth_tensor* x = NULL;
    for (int64_t run = 0; run < 6; ++run) {
        berth_release(x);
        assert_ok(exec_kit_begin(kit->ctx, "block", 10 + run));
        // escapes in the last run alone: until then it is planned to die within
        x = berth_full(kit->ctx, 7, BERTH_U8, BERTH_SHAPE(BYTES));
        berth_release(call_op(kit->ctx, keeper, x));
        if (run < 5) {
            berth_release(x);
            x = NULL;
        }
        assert_ok(berth_step_end(kit->ctx));
    }
    berth_tensor_properties seen;
    assert_ok(berth_tensor_info(x, &seen));
    assert_int_equal(seen.residence, BERTH_RESIDENCE_POOL);
    assert_ptr_not_equal(exec_kit_place(x), kept);
    expect_bytes(call_op(kit->ctx, reader, NULL), BERTH_POISON_FREE_BYTE);
    expect_bytes(x, 7);
}

static void a_device_that_takes_no_fill_still_serves(void** state) {
    exec_kit* kit = *state;
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 4);
    berth_sim_fail(kit->runtime->device, BERTH_SIM_LAUNCH, 1);
    berth_release(x);
    assert_context_ok(kit->ctx);
    berth_sim_fail(kit->runtime->device, BERTH_SIM_LAUNCH, 1);
    x = exec_kit_ramp(kit->ctx, 0, 4);
    assert_context_ok(kit->ctx);
    exec_kit_expect(x, (const float[]){0, 1, 2, 3}, 4);
    berth_release(x);
}

#define CPU(test)                                                                                  \
    { "cpu: " #test, test, set_up_cpu, exec_kit_tear_down, NULL }
#define SIM(test)                                                                                  \
    { "sim: " #test, test, set_up_sim, exec_kit_tear_down, NULL }
#define ON_BOTH(test) CPU(test), SIM(test)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(an_alias_that_an_op_does_not_declare_reads_the_pattern),
        {"cpu",
         the_same_alias_goes_unseen_without_poison,
         set_up_cpu_off,
         exec_kit_tear_down,
         NULL},
        {"sim",
         the_same_alias_goes_unseen_without_poison,
         set_up_sim_off,
         exec_kit_tear_down,
         NULL},
        ON_BOTH(fresh_memory_has_the_other_pattern),
        ON_BOTH(plain_bytes_are_filled_before_and_after),
        ON_BOTH(workspaces_are_filled_before_and_after),
        ON_BOTH(what_moves_out_of_a_frame_leaves_the_pattern),
        SIM(a_device_that_takes_no_fill_still_serves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
