// SPDX-License-Identifier: Apache-2.0
// Names of events: each event has one, and leads back to the event.
#include "exec/event_names.h"

#include <ctype.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "exec/exec_kit.h"

static void expect_name(exec_kit* kit, uint32_t kind, uint32_t tag, const char* expected) {
    const berth_event_names names = berth_runtime_event_names(kit->runtime);
    char name[BERTH_EVENT_NAME_BYTES];
    uint32_t found_kind, found_tag;
    assert_true(names.name_of(names.self, kind, tag, name));
    if (expected != NULL) assert_string_equal(name, expected);
    for (const char* c = name; *c != '\0'; ++c)
        assert_true(isgraph((unsigned char)*c) && *c != ',');
    assert_true(names.find(names.self, name, &found_kind, &found_tag));
    assert_int_equal(found_kind, kind);
    assert_int_equal(found_tag, tag);
}

static void expect_unknown(exec_kit* kit, const char* name) {
    const berth_event_names names = berth_runtime_event_names(kit->runtime);
    uint32_t kind, tag;
    if (names.find(names.self, name, &kind, &tag)) fail_msg("'%s' is found", name);
}

static uint32_t tensor_tag(berth_dtype dtype, uint32_t rank) { return (uint32_t)dtype << 8 | rank; }

static void every_op_of_every_type_and_rank_has_a_name_of_its_own(void** state) {
    for (uint32_t kind = 0; kind <= BERTH_EVENT_ALLOC; ++kind)
        for (uint32_t dtype = 0; dtype < BERTH_DTYPE_COUNT; ++dtype)
            for (uint32_t rank = 0; rank <= BERTH_MAX_RANK; rank += 4)
                expect_name(*state, kind, tensor_tag((berth_dtype)dtype, rank), NULL);
}

static void names_read_like_the_ops(void** state) {
    expect_name(*state, BERTH_OP_LINEAR, tensor_tag(BERTH_F32, 2), "linear:f32:2");
    expect_name(*state, BERTH_OP_CAT_MORE, tensor_tag(BERTH_I64, 1), "cat_more:i64:1");
    expect_name(*state, BERTH_EVENT_ALLOC, tensor_tag(BERTH_F32, 0), "alloc:f32:0");
}

static void a_nested_step_is_called_by_its_name_whatever_is_in_it(void** state) {
    exec_kit* kit = *state;
    static const char* const steps[] = {"decode", "a step, with: all\t%", "\xc3\xa9"};
    static const char* const expected[] = {
        "step:decode", "step:a%20step%2C%20with%3A%20all%09%25", "step:%C3%A9"};
    for (uint32_t i = 0; i < 3; ++i) {
        assert_ok(exec_kit_begin(kit->ctx, steps[i], 4));
        assert_int_equal(kit->ctx->run->entry->tag, i);
        assert_ok(berth_step_end(kit->ctx));
        expect_name(kit, BERTH_EVENT_STEP, i, expected[i]);
    }
}

static void a_step_has_its_number_before_it_was_ever_begun(void** state) {
    exec_kit* kit = *state;
    const berth_event_names names = berth_runtime_event_names(kit->runtime);
    uint32_t kind, tag, again;
    assert_true(names.find(names.self, "step:later", &kind, &tag));
    assert_int_equal(kind, BERTH_EVENT_STEP);
    assert_ok(exec_kit_begin(kit->ctx, "sooner", 4));
    assert_ok(exec_kit_begin(kit->ctx, "later", 4));
    assert_int_equal(kit->ctx->run->entry->tag, tag);
    assert_ok(berth_step_end(kit->ctx));
    assert_ok(berth_step_end(kit->ctx));
    assert_true(names.find(names.self, "step:later", &kind, &again));
    assert_int_equal(again, tag);
    assert_int_equal(berth_runtime_query_step_count(kit->runtime), 2);
}

static void a_name_too_long_for_a_file_is_none(void** state) {
    exec_kit* kit = *state;
    const berth_event_names names = berth_runtime_event_names(kit->runtime);
    char step[BERTH_EVENT_NAME_BYTES + 1], name[BERTH_EVENT_NAME_BYTES];
    memset(step, 's', sizeof step);
    step[BERTH_EVENT_NAME_BYTES] = '\0';
    assert_ok(exec_kit_begin(kit->ctx, step, 4));
    assert_ok(berth_step_end(kit->ctx));
    assert_false(names.name_of(names.self, BERTH_EVENT_STEP, 0, name));
    expect_unknown(kit, step);
    step[BERTH_EVENT_NAME_BYTES - 1 - strlen("step:")] = '\0';
    assert_ok(exec_kit_begin(kit->ctx, step, 4));
    assert_ok(berth_step_end(kit->ctx));
    expect_name(kit, BERTH_EVENT_STEP, 1, NULL);
}

static berth_status infer_same(berth_op_call* call) {
    call->outputs[0] = call->inputs[0];
    return BERTH_OK;
}

static void run_nothing(const berth_op_call* call) { (void)call; }

static void a_registered_op_is_found_once_it_is_registered(void** state) {
    exec_kit* kit = *state;
    expect_unknown(kit, "op:mine%20too:f32:1");
    const berth_op_desc desc = {.struct_size = sizeof desc,
                                .name = "mine too",
                                .min_inputs = 1,
                                .max_inputs = 1,
                                .output_count = 1,
                                .infer = infer_same,
                                .kernels = {[BERTH_DEVICE_CPU] = run_nothing}};
    const berth_op* op;
    assert_ok(berth_op_register(kit->runtime, &desc, &op));
    expect_name(kit, op->id, tensor_tag(BERTH_F32, 1), "op:mine%20too:f32:1");
    const berth_event_names names = berth_runtime_event_names(kit->runtime);
    char name[BERTH_EVENT_NAME_BYTES];
    assert_false(names.name_of(names.self, op->id + 1, tensor_tag(BERTH_F32, 1), name));
}

static void what_is_no_name_is_refused(void** state) {
    static const char* const names[] = {"",
                                        "linear",
                                        "linear:",
                                        "linear:f32",
                                        "linear:f32:",
                                        "linear:f32:9",
                                        "linear:f32:22",
                                        "linear:f33:2",
                                        "LINEAR:f32:2",
                                        "linear:f32:2 ",
                                        "nothing:f32:2",
                                        "step:%",
                                        "step:%2",
                                        "step:%2c",
                                        "step:%00",
                                        "step:a b",
                                        "op::f32:2",
                                        "alloc",
                                        "linear::2",
                                        "step:a,b"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i)
        expect_unknown(*state, names[i]);
    exec_kit* kit = *state;
    const berth_event_names table = berth_runtime_event_names(kit->runtime);
    char name[BERTH_EVENT_NAME_BYTES];
    assert_false(table.name_of(table.self, BERTH_OP_LINEAR, 2 | 200u << 8, name));
    assert_false(table.name_of(table.self, BERTH_OP_LINEAR, BERTH_MAX_RANK + 1, name));
    assert_false(table.name_of(table.self, BERTH_EVENT_STEP, 7, name));
}

static char told[1024];

static void keep_warning(void* self, berth_log_level level, const char* text) {
    (void)self;
    if (level == BERTH_LOG_WARN) snprintf(told, sizeof told, "%s", text);
}

static void warnings_of_steps_call_events_by_their_names(void** state) {
    exec_kit* kit = *state;
    told[0] = '\0';
    berth_log_set_callback(keep_warning, NULL);
    for (int64_t run = 0; run < 6; ++run) {
        assert_ok(exec_kit_begin(kit->ctx, "s", 8));
        berth_release(exec_kit_ramp(kit->ctx, 0, 100 + 100 * run)); // follows nothing declared
        assert_ok(berth_step_end(kit->ctx));
    }
    berth_log_set_callback(NULL, NULL);
    if (strstr(told, "arange:f32:1") == NULL) fail_msg("'%s' names no op", told);
}

static void without_memory_a_step_has_no_number_and_may_get_it_later(void** state) {
    (void)state;
    const berth_option_setting settings[] = {{"device", "sim"}, {"threads", "1"}};
    failing_host host;
    failing_host_init(&host);
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
    const berth_event_names names = berth_runtime_event_names(kit.runtime);
    uint32_t kind, tag;
    for (size_t nth = 1; nth <= 2; ++nth) {
        failing_host_fail(&host, nth, false);
        assert_false(names.find(names.self, "step:s", &kind, &tag));
        assert_true(failing_host_has_failed(&host));
    }
    failing_host_fail(&host, 0, false);
    assert_true(names.find(names.self, "step:s", &kind, &tag));
    exec_kit_close(&kit);
    assert_int_equal(host.live_blocks, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, exec_kit_set_up_cpu, exec_kit_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_op_of_every_type_and_rank_has_a_name_of_its_own),
        TEST(names_read_like_the_ops),
        TEST(a_nested_step_is_called_by_its_name_whatever_is_in_it),
        TEST(a_step_has_its_number_before_it_was_ever_begun),
        TEST(a_name_too_long_for_a_file_is_none),
        TEST(a_registered_op_is_found_once_it_is_registered),
        TEST(what_is_no_name_is_refused),
        TEST(warnings_of_steps_call_events_by_their_names),
        cmocka_unit_test(without_memory_a_step_has_no_number_and_may_get_it_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
