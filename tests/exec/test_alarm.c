// SPDX-License-Identifier: Apache-2.0
// Alarms: the program hears of crossings at the end of the call that crossed, with no lock held,
// and may do there what it likes.
#include "exec_kit.h"

#include <pthread.h>

#include "exec/decay.h"

#define MIB (UINT64_C(1) << 20)

enum { MOST_EVENTS = 4096, THREADS = 3, TURNS = 300 };

/// A device of 16 MiB with marks at 12 and 8 MiB, and what the callback has heard.
typedef struct alarm_kit {
    exec_kit exec;
    berth_context* other;
    char heard[MOST_EVENTS]; ///< 'h' and 'l', in order
    size_t count;
    berth_memory_alarm last;
    int depth;           ///< of callbacks; two at a time are wrong
    size_t nested;       ///< of these
    berth_tensor* spare; ///< released by a callback that helps
    char log[256];       ///< the last line
    pthread_t thread;    ///< of the last call
} alarm_kit;

static berth_tensor* take(berth_context* ctx, uint64_t bytes) {
    const int64_t count = (int64_t)bytes;
    return berth_empty(ctx, BERTH_U8, 1, &count);
}

static void hear(void* self, const berth_memory_alarm* alarm) {
    alarm_kit* kit = self;
    kit->nested += kit->depth++ > 0;
    if (kit->count < MOST_EVENTS) kit->heard[kit->count++] = alarm->is_high ? 'h' : 'l';
    kit->last = *alarm;
    kit->thread = pthread_self();
    kit->depth--;
}

static void keep_line(void* self, berth_log_level level, const char* text) {
    (void)level;
    alarm_kit* kit = self;
    snprintf(kit->log, sizeof kit->log, "%s", text);
}

static void open_with(alarm_kit* kit, const berth_option_setting* more, size_t count) {
    berth_option_setting settings[8] = {{"device", "sim"},
                                        {"threads", "1"},
                                        {"keep", "none"},
                                        {"high_watermark", "75%"},
                                        {"low_watermark", "8M"}};
    for (size_t i = 0; i < count; i++)
        settings[5 + i] = more[i];
    *kit = (alarm_kit){0};
    berth_log_set_callback(keep_line, kit);
    assert_ok(exec_kit_open(&kit->exec, NULL, settings, 5 + count));
    assert_ok(berth_context_create(kit->exec.runtime, &kit->other));
    assert_ok(berth_runtime_set_alarm_callback(kit->exec.runtime, hear, kit));
}

static void open_kit(alarm_kit* kit) { open_with(kit, NULL, 0); }

static void close_kit(alarm_kit* kit) {
    berth_release(kit->spare);
    assert_ok(berth_runtime_set_alarm_callback(kit->exec.runtime, NULL, NULL));
    berth_context_release(kit->other);
    exec_kit_close(&kit->exec);
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(kit->nested, 0);
}

static void expect_heard(const alarm_kit* kit, const char* expected) {
    assert_string_equal(kit->heard, expected);
}

static uint64_t alarms(const alarm_kit* kit) {
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit->exec.runtime, &stats));
    return stats.alarms;
}

static void the_high_mark_is_told_by_the_call_that_reaches_it(void** state) {
    (void)state;
    alarm_kit kit;
    open_kit(&kit);
    berth_tensor* x = take(kit.exec.ctx, 11 * MIB);
    expect_heard(&kit, "");
    berth_tensor* y = take(kit.exec.ctx, MIB);
    expect_heard(&kit, "h");
    assert_true(pthread_equal(kit.thread, pthread_self()));
    assert_ptr_equal(kit.last.runtime, kit.exec.runtime);
    assert_int_equal(kit.last.used_bytes, 12 * MIB);
    assert_int_equal(kit.last.watermark_bytes, 12 * MIB);
    assert_int_equal(kit.last.capacity_bytes, 16 * MIB);
    assert_string_equal(kit.log,
                        "memory: 12582912 of 16777216 bytes are in use, which reaches "
                        "BERTH_HIGH_WATERMARK of 12582912");
    berth_release(y);
    assert_ok(berth_trim(kit.exec.runtime, 0, NULL));
    y = take(kit.exec.ctx, MIB); // not the low one yet
    expect_heard(&kit, "h");
    assert_int_equal(alarms(&kit), 1);
    berth_release(x);
    assert_ok(berth_trim(kit.exec.runtime, 0, NULL));
    expect_heard(&kit, "hl");
    assert_int_equal(kit.last.watermark_bytes, 8 * MIB);
    x = take(kit.other, 11 * MIB);
    expect_heard(&kit, "hlh");
    assert_int_equal(alarms(&kit), 2);
    berth_release(x);
    berth_release(y);
    close_kit(&kit);
}

static void without_a_callback_there_is_the_line_in_the_log(void** state) {
    (void)state;
    alarm_kit kit;
    open_kit(&kit);
    assert_ok(berth_runtime_set_alarm_callback(kit.exec.runtime, NULL, NULL));
    berth_tensor* x = take(kit.exec.ctx, 12 * MIB);
    assert_non_null(strstr(kit.log, "BERTH_HIGH_WATERMARK"));
    expect_heard(&kit, "");
    berth_release(x);
    close_kit(&kit);
}

static void nobody_is_told_where_no_mark_is_set(void** state) {
    (void)state;
    exec_kit kit;
    static alarm_kit ears;
    const berth_option_setting settings[] = {{"device", "sim"}, {"threads", "1"}};
    assert_ok(exec_kit_open(&kit, NULL, settings, 2));
    assert_ok(berth_runtime_set_alarm_callback(kit.runtime, hear, &ears));
    berth_release(take(kit.ctx, 16 * MIB));
    assert_int_equal(ears.count, 0);
    exec_kit_close(&kit);
}

static void a_step_is_heard_of_by_its_promise_and_its_end(void** state) {
    (void)state;
    alarm_kit kit;
    open_kit(&kit);
    berth_step_reserve_extra(kit.exec.ctx, 13 * MIB);
    assert_ok(exec_kit_begin(kit.exec.ctx, "step", 4));
    expect_heard(&kit, "h");
    assert_ok(berth_step_end(kit.exec.ctx));
    expect_heard(&kit, "hl");
    close_kit(&kit);
}

static void a_context_that_ends_lets_use_fall(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"keep", "all"}};
    alarm_kit kit;
    open_with(&kit, more, 1);
    berth_release(take(kit.other, 13 * MIB));
    expect_heard(&kit, "h");
    berth_context_release(kit.other);
    kit.other = NULL;
    expect_heard(&kit, "hl");
    close_kit(&kit);
}

/// Uses everything there is, in the middle of a call of either context.
static void use_everything(void* self, const berth_memory_alarm* alarm) {
    alarm_kit* kit = self;
    hear(self, alarm);
    berth_context* contexts[] = {kit->exec.ctx, kit->other};
    for (size_t i = 0; i < 2; i++) {
        berth_tensor* x = exec_kit_ramp(contexts[i], 1, 3);
        berth_tensor* y = berth_add(contexts[i], x, berth_move(berth_retain(x)));
        const float expected[] = {2, 4, 6};
        exec_kit_expect(y, expected, 3);
        berth_release(x);
        berth_release(y);
        berth_idle_result idle;
        assert_ok(berth_idle(contexts[i], 0, &idle));
        assert_context_ok(contexts[i]);
    }
    berth_context* fresh;
    assert_ok(berth_context_create(alarm->runtime, &fresh));
    berth_context_release(fresh);
    if (!alarm->is_high) return;
    berth_release(kit->spare);
    kit->spare = NULL;
    assert_ok(berth_trim(alarm->runtime, 0, NULL));
    assert_ok(berth_runtime_set_alarm_callback(alarm->runtime, use_everything, kit));
}

static void a_callback_may_use_everything_and_what_it_causes_is_told_after_it(void** state) {
    (void)state;
    alarm_kit kit;
    open_kit(&kit);
    assert_ok(berth_runtime_set_alarm_callback(kit.exec.runtime, use_everything, &kit));
    kit.spare = take(kit.other, 6 * MIB);
    berth_tensor* x = take(kit.exec.ctx, 7 * MIB);
    assert_non_null(x);
    assert_null(kit.spare);
    expect_heard(&kit, "hl"); // it fell in the callback, which was not called within itself
    assert_context_ok(kit.exec.ctx);
    berth_release(x);
    close_kit(&kit);
}

static void what_crosses_in_another_context_within_an_op_is_told_when_both_are_free(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"device", "cpu"}, {"memory", "16M"}};
    alarm_kit kit;
    open_with(&kit, more, 2);
    berth_tensor* x = take(kit.other, 14 * MIB);
    expect_heard(&kit, "h");
    assert_ok(berth_runtime_set_alarm_callback(kit.exec.runtime, use_everything, &kit));
    // the op has the last reference: the memory goes while the op's context is locked
    berth_tensor* y = berth_narrow(kit.exec.ctx, x, 0, 0, 4);
    berth_release(x);
    berth_tensor* sum = berth_sum(kit.exec.ctx, berth_move(y), BERTH_DIMS(0), false);
    assert_non_null(sum);
    expect_heard(&kit, "hl");
    berth_release(sum);
    close_kit(&kit);
}

/// On the high mark gives everything back, on the low one takes it again: for ever.
static void swing(void* self, const berth_memory_alarm* alarm) {
    alarm_kit* kit = self;
    hear(self, alarm);
    if (alarm->is_high) {
        berth_release(kit->spare);
        kit->spare = NULL;
        assert_ok(berth_trim(alarm->runtime, 0, NULL));
    } else {
        kit->spare = take(kit->other, 7 * MIB);
    }
}

static void a_callback_that_always_crosses_again_lets_the_call_return(void** state) {
    (void)state;
    alarm_kit kit;
    open_kit(&kit);
    assert_ok(berth_runtime_set_alarm_callback(kit.exec.runtime, swing, &kit));
    kit.spare = take(kit.other, 7 * MIB);
    berth_tensor* x = take(kit.exec.ctx, 6 * MIB);
    assert_non_null(x);
    assert_true(kit.count >= 2 && kit.count <= 16);
    const size_t before = kit.count;
    berth_release(take(kit.exec.ctx, MIB)); // what is left over is told later
    assert_true(kit.count > before);
    berth_release(x);
    for (size_t i = 0; i < kit.count; i++)
        assert_int_equal(kit.heard[i], i % 2 == 0 ? 'h' : 'l');
    close_kit(&kit);
}

static void fail_differently(void* self, const berth_memory_alarm* alarm) {
    hear(self, alarm);
    assert_fails(berth_idle(NULL, 0, NULL), BERTH_ERR_INVALID_ARGUMENT, "context");
}

static void the_call_that_is_interrupted_keeps_its_error(void** state) {
    (void)state;
    alarm_kit kit;
    open_kit(&kit);
    assert_ok(berth_runtime_set_alarm_callback(kit.exec.runtime, fail_differently, &kit));
    berth_tensor* x = take(kit.other, 7 * MIB);
    // the promise of the step rises over the mark; then its frame's map fails, and it falls
    berth_step_reserve_extra(kit.exec.ctx, 20 * MIB);
    assert_fails(exec_kit_begin(kit.exec.ctx, "step", 4), BERTH_ERR_OUT_OF_MEMORY, "needed");
    berth_context_clear_error(kit.exec.ctx);
    berth_tensor* y = take(kit.exec.ctx, 7 * MIB);
    expect_heard(&kit, "h");
    assert_null(take(kit.exec.ctx, 7 * MIB));
    assert_context_fails(kit.exec.ctx, BERTH_ERR_OUT_OF_MEMORY, "needed");
    berth_release(x);
    berth_release(y);
    close_kit(&kit);
}

static bool gives_the_spare(void* self, const berth_shortage* shortage) {
    alarm_kit* kit = self;
    if (kit->spare == NULL) return false;
    const size_t before = kit->count;
    berth_release(kit->spare);
    kit->spare = NULL;
    assert_ok(berth_trim(berth_context_runtime(shortage->context), 0, NULL));
    assert_int_equal(kit->count, before); // no alarm in an out-of-memory callback
    return true;
}

static void what_crosses_in_an_out_of_memory_callback_is_told_at_the_calls_end(void** state) {
    (void)state;
    alarm_kit kit;
    open_kit(&kit);
    assert_ok(berth_runtime_set_out_of_memory_callback(kit.exec.runtime, gives_the_spare, &kit));
    kit.spare = take(kit.other, 15 * MIB);
    expect_heard(&kit, "h");
    berth_tensor* x = take(kit.exec.ctx, 2 * MIB);
    assert_non_null(x);
    expect_heard(&kit, "hl");
    berth_release(x);
    close_kit(&kit);
}

static void a_fall_by_ageing_alone_is_told_by_the_next_call(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"keep", "auto"}, {"decay_ms", "1"}};
    alarm_kit kit;
    open_with(&kit, more, 2);
    berth_release(take(kit.exec.ctx, 13 * MIB));
    expect_heard(&kit, "h");
    berth_memory_stats stats;
    do {
        (void)berth_decay_pass(kit.exec.runtime);
        assert_ok(berth_runtime_query_memory(kit.exec.runtime, &stats));
    } while (stats.mapped_bytes > 8 * MIB);
    expect_heard(&kit, "h");
    berth_context_clear_error(kit.exec.ctx);
    expect_heard(&kit, "hl");
    close_kit(&kit);
}

static void marks_that_contradict_each_other_are_refused(void** state) {
    (void)state;
    exec_kit kit;
    const berth_option_setting crossed[] = {
        {"device", "sim"}, {"high_watermark", "4M"}, {"low_watermark", "50%"}};
    assert_fails(exec_kit_open(&kit, NULL, crossed, 3),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "BERTH_LOW_WATERMARK is 8388608 bytes, not less than BERTH_HIGH_WATERMARK of "
                 "4194304");
    assert_fails(
        berth_runtime_set_alarm_callback(NULL, hear, &kit), BERTH_ERR_INVALID_ARGUMENT, "runtime");
}

static void the_low_mark_is_a_tenth_below_the_high_one_by_itself(void** state) {
    (void)state;
    static alarm_kit kit;
    kit = (alarm_kit){0};
    const berth_option_setting settings[] = {
        {"device", "sim"}, {"threads", "1"}, {"log", "off"}, {"high_watermark", "10M"}};
    assert_ok(exec_kit_open(&kit.exec, NULL, settings, 4));
    assert_ok(berth_runtime_set_alarm_callback(kit.exec.runtime, hear, &kit));
    berth_release(take(kit.exec.ctx, 10 * MIB));
    assert_ok(berth_trim(kit.exec.runtime, 9 * MIB + 65536, NULL));
    expect_heard(&kit, "h");
    assert_ok(berth_trim(kit.exec.runtime, 9 * MIB - 65536, NULL));
    expect_heard(&kit, "hl");
    exec_kit_close(&kit.exec);
}

/// What threads hear together: one callback at a time, high and low in turn.
typedef struct listener {
    pthread_t thread;
    berth_context* ctx;
    uint64_t seed;
} listener;

static void hear_and_use(void* self, const berth_memory_alarm* alarm) {
    hear(self, alarm);
    (void)!berth_trim(alarm->runtime, 0, NULL);
}

static void* take_and_give(void* opaque) {
    listener* l = opaque;
    test_random random = test_random_make(l->seed);
    for (int i = 0; i < TURNS; i++) {
        void* block = berth_alloc(l->ctx, test_random_below(&random, 8 * MIB));
        berth_free(l->ctx, block);
        berth_context_clear_error(l->ctx);
        if (test_random_one_in(&random, 3))
            (void)!berth_trim(berth_context_runtime(l->ctx), 0, NULL);
    }
    return NULL;
}

static void many_threads_are_told_one_at_a_time_and_in_turns(void** state) {
    (void)state;
    static alarm_kit kit;
    const berth_option_setting more[] = {{"log", "off"}};
    open_with(&kit, more, 1);
    assert_ok(berth_runtime_set_alarm_callback(kit.exec.runtime, hear_and_use, &kit));
    listener listeners[THREADS] = {{.ctx = kit.exec.ctx}, {.ctx = kit.other}};
    assert_ok(berth_context_create(kit.exec.runtime, &listeners[2].ctx));
    for (size_t i = 0; i < THREADS; i++) {
        listeners[i].seed = i + 1;
        assert_int_equal(pthread_create(&listeners[i].thread, NULL, take_and_give, &listeners[i]),
                         0);
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(listeners[i].thread, NULL), 0);
    berth_context_release(listeners[2].ctx);
    assert_ok(berth_trim(kit.exec.runtime, 0, NULL));
    assert_true(kit.count > 0 && kit.count % 2 == 0 && kit.count < MOST_EVENTS);
    for (size_t i = 0; i < kit.count; i++)
        assert_int_equal(kit.heard[i], i % 2 == 0 ? 'h' : 'l');
    close_kit(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_high_mark_is_told_by_the_call_that_reaches_it),
        cmocka_unit_test(without_a_callback_there_is_the_line_in_the_log),
        cmocka_unit_test(nobody_is_told_where_no_mark_is_set),
        cmocka_unit_test(a_step_is_heard_of_by_its_promise_and_its_end),
        cmocka_unit_test(a_context_that_ends_lets_use_fall),
        cmocka_unit_test(a_callback_may_use_everything_and_what_it_causes_is_told_after_it),
        cmocka_unit_test(what_crosses_in_another_context_within_an_op_is_told_when_both_are_free),
        cmocka_unit_test(a_callback_that_always_crosses_again_lets_the_call_return),
        cmocka_unit_test(the_call_that_is_interrupted_keeps_its_error),
        cmocka_unit_test(what_crosses_in_an_out_of_memory_callback_is_told_at_the_calls_end),
        cmocka_unit_test(a_fall_by_ageing_alone_is_told_by_the_next_call),
        cmocka_unit_test(marks_that_contradict_each_other_are_refused),
        cmocka_unit_test(the_low_mark_is_a_tenth_below_the_high_one_by_itself),
        cmocka_unit_test(many_threads_are_told_one_at_a_time_and_in_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
