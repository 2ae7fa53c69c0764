// SPDX-License-Identifier: Apache-2.0
// Out of memory, at the end of the ladder: pending releases, the program's callback, the report.
#include "exec_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "berth/debug.h"
#include "berth/log.h"
#include "exec/scarcity.h"

#define MIB (INT64_C(1) << 20)

enum { PIECES = 8 };

/// A runtime of 16 MiB, and what the callback does.
typedef struct scarcity_kit {
    exec_kit exec;
    berth_tensor* pieces[PIECES]; ///< a cache that the program can do without
    uint32_t calls;
    uint32_t last_attempt;
    uint64_t wanted_bytes;
    bool answer;      ///< of a callback that frees nothing
    const char* call; ///< that was short last
    berth_context* other;
} scarcity_kit;

static berth_tensor* take(berth_context* ctx, int64_t bytes) {
    return berth_empty(ctx, BERTH_U8, 1, &bytes);
}

static void open_kit(scarcity_kit* kit, const berth_option_setting* more, size_t count) {
    berth_option_setting settings[8] = {{"device", "sim"}, {"threads", "1"}, {"log", "off"}};
    for (size_t i = 0; i < count; i++)
        settings[3 + i] = more[i];
    *kit = (scarcity_kit){0};
    assert_ok(exec_kit_open(&kit->exec, NULL, settings, 3 + count));
}

/// Closes it; nothing may be left.
static void close_kit(scarcity_kit* kit) {
    berth_release_array(kit->pieces, PIECES);
    berth_context_release(kit->other);
    assert_ok(berth_context_synchronize(kit->exec.ctx));
    assert_int_equal(kit->exec.ctx->home.live_objects, 0);
    exec_kit_close(&kit->exec);
}

/// Fills the device with a cache of `PIECES` tensors in `ctx`.
static void fill(scarcity_kit* kit, berth_context* ctx) {
    for (int i = 0; i < PIECES; i++) {
        kit->pieces[i] = take(ctx, 2 * MIB);
        assert_non_null(kit->pieces[i]);
    }
}

static void note(scarcity_kit* kit, const berth_shortage* shortage) {
    kit->calls++;
    assert_int_equal(shortage->attempt, kit->last_attempt + 1);
    kit->last_attempt = shortage->attempt;
    kit->wanted_bytes = shortage->wanted_bytes;
    kit->call = shortage->call;
    assert_ptr_equal(shortage->context, kit->exec.ctx);
}

static bool only_answers(void* self, const berth_shortage* shortage) {
    scarcity_kit* kit = self;
    note(kit, shortage);
    return kit->answer;
}

/// Frees one piece of the cache.
static bool frees_a_piece(void* self, const berth_shortage* shortage) {
    scarcity_kit* kit = self;
    note(kit, shortage);
    for (int i = 0; i < PIECES; i++) {
        if (kit->pieces[i] == NULL) continue;
        berth_release(kit->pieces[i]);
        kit->pieces[i] = NULL;
        return true;
    }
    return false;
}

static void expect_failures(const scarcity_kit* kit, uint64_t count) {
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit->exec.runtime, &stats));
    assert_int_equal(stats.failures, count);
}

static void set(scarcity_kit* kit, berth_out_of_memory_callback callback) {
    assert_ok(berth_runtime_set_out_of_memory_callback(kit->exec.runtime, callback, kit));
}

static void a_callback_that_frees_a_cache_saves_the_op(void** state) {
    (void)state;
    scarcity_kit kit;
    open_kit(&kit, NULL, 0);
    fill(&kit, kit.exec.ctx);
    set(&kit, frees_a_piece);
    berth_tensor* large = take(kit.exec.ctx, 6 * MIB);
    assert_non_null(large);
    assert_context_ok(kit.exec.ctx);
    assert_int_equal(kit.calls, 3);
    expect_failures(&kit, 0);
    assert_true(kit.wanted_bytes > 0 && kit.wanted_bytes <= 6 * MIB);
    berth_release(large);
    close_kit(&kit);
}

static void a_callback_may_free_what_other_contexts_have(void** state) {
    (void)state;
    scarcity_kit kit;
    open_kit(&kit, NULL, 0);
    assert_ok(berth_context_create(kit.exec.runtime, &kit.other));
    fill(&kit, kit.other);
    set(&kit, frees_a_piece);
    berth_tensor* small = take(kit.exec.ctx, 2 * MIB);
    assert_non_null(small);
    assert_int_equal(kit.calls, 1);
    berth_release(small);
    close_kit(&kit);
}

static void a_callback_that_never_helps_is_called_a_bounded_number_of_times(void** state) {
    (void)state;
    scarcity_kit kit;
    open_kit(&kit, NULL, 0);
    fill(&kit, kit.exec.ctx);
    kit.answer = true;
    set(&kit, only_answers);
    assert_null(take(kit.exec.ctx, 2 * MIB));
    assert_context_fails(kit.exec.ctx, BERTH_ERR_OUT_OF_MEMORY, "2.00 MiB needed");
    assert_int_equal(kit.calls, BERTH_SCARCITY_CALLS);
    expect_failures(&kit, 1); // one request, however often it was made
    kit.answer = false;
    kit.calls = kit.last_attempt = 0;
    assert_null(take(kit.exec.ctx, 2 * MIB));
    assert_context_fails(kit.exec.ctx, BERTH_ERR_OUT_OF_MEMORY, "2.00 MiB needed");
    assert_int_equal(kit.calls, 1);
    expect_failures(&kit, 2);
    close_kit(&kit);
}

static void what_no_release_can_make_possible_is_refused_without_a_call(void** state) {
    (void)state;
    scarcity_kit kit;
    open_kit(&kit, NULL, 0);
    kit.answer = true;
    set(&kit, only_answers);
    assert_null(take(kit.exec.ctx, 17 * MIB));
    assert_context_fails(kit.exec.ctx, BERTH_ERR_OUT_OF_MEMORY, "needed");
    assert_int_equal(kit.calls, 0);
    berth_tensor* all = take(kit.exec.ctx, 16 * MIB); // exactly the most that there is
    assert_non_null(all);
    berth_release(all);
    close_kit(&kit);
}

static void without_a_callback_there_is_just_the_error(void** state) {
    (void)state;
    scarcity_kit kit;
    open_kit(&kit, NULL, 0);
    set(&kit, only_answers);
    set(&kit, NULL);
    fill(&kit, kit.exec.ctx);
    assert_null(take(kit.exec.ctx, MIB));
    assert_context_fails(kit.exec.ctx, BERTH_ERR_OUT_OF_MEMORY, "needed");
    assert_int_equal(kit.calls, 0);
    assert_fails(berth_runtime_set_out_of_memory_callback(NULL, only_answers, &kit),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "runtime");
    close_kit(&kit);
}

/// Uses another context, trims, and calls itself where it may not.
static bool does_everything(void* self, const berth_shortage* shortage) {
    scarcity_kit* kit = self;
    note(kit, shortage);
    berth_context* ctx = shortage->context;
    uint8_t byte;
    berth_tensor* x = kit->pieces[1];
    berth_tensor_properties properties;
    berth_idle_result idle;
    assert_null(take(ctx, 64));
    assert_null(berth_add(ctx, x, berth_move(berth_retain(x))));
    assert_null(berth_reshape(ctx, berth_move(berth_retain(x)), 1, (int64_t[]){2 * MIB}));
    assert_null(berth_alloc(ctx, 64));
    assert_fails(berth_tensor_read(x, &byte, 2 * MIB), BERTH_ERR_STATE, "callback");
    assert_fails(berth_tensor_write(x, &byte, 2 * MIB), BERTH_ERR_STATE, "callback");
    assert_fails(berth_tensor_info(x, &properties), BERTH_ERR_STATE, "callback");
    assert_fails(berth_idle(ctx, 0, &idle), BERTH_ERR_STATE, "callback");
    assert_fails(exec_kit_begin(ctx, "inner", 4), BERTH_ERR_STATE, "callback");
    assert_fails(berth_step_end(ctx), BERTH_ERR_STATE, "callback");
    berth_context_release(ctx); // refused, with a line in the log
    assert_int_equal(berth_context_error(ctx), BERTH_OK);
    assert_int_equal(x->refs, 1);

    assert_null(take(kit->other, 16 * MIB)); // no call within a call
    assert_context_fails(kit->other, BERTH_ERR_OUT_OF_MEMORY, "needed");
    berth_release(kit->pieces[0]);
    kit->pieces[0] = NULL;
    assert_ok(berth_trim(kit->exec.runtime, 0, NULL));
    return true;
}

static void in_the_callback_only_the_context_in_need_is_barred(void** state) {
    (void)state;
    scarcity_kit kit;
    open_kit(&kit, NULL, 0);
    assert_ok(berth_context_create(kit.exec.runtime, &kit.other));
    fill(&kit, kit.exec.ctx);
    set(&kit, does_everything);
    berth_tensor* small = take(kit.exec.ctx, 2 * MIB);
    assert_non_null(small);
    assert_context_ok(kit.exec.ctx);
    assert_int_equal(kit.calls, 1);
    berth_tensor* again = berth_copy(kit.exec.ctx, NULL); // and afterwards it is free again
    assert_null(again);
    berth_context_clear_error(kit.exec.ctx);
    berth_release(small);
    close_kit(&kit);
}

static void a_step_is_admitted_once_the_callback_has_made_room(void** state) {
    (void)state;
    scarcity_kit kit;
    open_kit(&kit, NULL, 0);
    fill(&kit, kit.exec.ctx);
    set(&kit, frees_a_piece);
    berth_step_reserve_extra(kit.exec.ctx, 3 * MIB);
    assert_ok(exec_kit_begin(kit.exec.ctx, "step", 4));
    assert_int_equal(kit.calls, 2);
    expect_failures(&kit, 0);
    assert_string_equal(kit.call, "step_begin");
    assert_ok(berth_step_end(kit.exec.ctx));
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit.exec.runtime, &stats));
    assert_int_equal(stats.reserved_bytes, 0);
    close_kit(&kit);
}

/// An op on the first piece is short of as much again, and the callback frees that piece first: the
/// cache's reference is the only one.
static void expect_op_to_keep_operand(scarcity_kit* kit, berth_context* owner) {
    fill(kit, owner);
    set(kit, frees_a_piece);
    const void* place = exec_kit_place(kit->pieces[0]);
    berth_tensor* result = berth_logical_not(kit->exec.ctx, kit->pieces[0]);
    assert_non_null(result);
    assert_context_ok(kit->exec.ctx);
    assert_string_equal(kit->call, "logical_not");
    assert_int_equal(kit->calls, 2); // the operand makes no room yet
    assert_ptr_not_equal(exec_kit_place(result), place);
    assert_int_equal(owner->home.live_objects, (PIECES - 2) * 2 + (owner == kit->exec.ctx ? 2 : 0));
    berth_release(result);
}

static void operands_that_a_callback_releases_end_with_their_op(void** state) {
    (void)state;
    scarcity_kit kit;
    open_kit(&kit, NULL, 0);
    expect_op_to_keep_operand(&kit, kit.exec.ctx);
    close_kit(&kit);
    open_kit(&kit, NULL, 0);
    assert_ok(berth_context_create(kit.exec.runtime, &kit.other));
    expect_op_to_keep_operand(&kit, kit.other);
    close_kit(&kit);
}

/// Frees bytes of berth_alloc() on the context in need.
static bool frees_bytes(void* self, const berth_shortage* shortage) {
    void** data = self;
    if (*data == NULL) return false;
    berth_free(shortage->context, *data);
    *data = NULL;
    return true;
}

static void a_callback_may_free_plain_bytes(void** state) {
    (void)state;
    scarcity_kit kit;
    open_kit(&kit, NULL, 0);
    void* data = berth_alloc(kit.exec.ctx, 16 * MIB);
    assert_non_null(data);
    assert_ok(berth_runtime_set_out_of_memory_callback(kit.exec.runtime, frees_bytes, &data));
    berth_tensor* x = take(kit.exec.ctx, 4 * MIB);
    assert_non_null(x);
    assert_null(data);
    berth_release(x);
    close_kit(&kit);
}

static void releases_that_wait_for_the_lock_are_the_first_rung(void** state) {
    (void)state;
    scarcity_kit kit;
    open_kit(&kit, NULL, 0);
    berth_home* home = &kit.exec.ctx->home;
    fill(&kit, kit.exec.ctx);
    set(&kit, only_answers);
    assert_true(berth_home_lock(home));
    berth_release(kit.pieces[0]); // as another thread while this one is in an op
    kit.pieces[0] = NULL;
    berth_block block;
    const berth_pool_request request = {.size_bytes = 2 * MIB};
    home->defers_releases = true;
    assert_int_equal(berth_home_try_take(home, &request, &block), BERTH_ERR_OUT_OF_MEMORY);
    home->defers_releases = false;
    assert_ok(berth_home_take(home, &request, &block));
    berth_home_give(home, &block);
    berth_home_unlock(home);
    assert_int_equal(kit.calls, 0);
    close_kit(&kit);
}

static void what_a_step_ends_without_does_not_make_a_later_error_a_shortage(void** state) {
    (void)state;
    const berth_option_setting settings[] = {{"device", "sim"}, {"threads", "1"}, {"log", "off"}};
    failing_host host;
    failing_host_init(&host);
    scarcity_kit kit = {0};
    assert_ok(exec_kit_open(&kit.exec, &host.allocator, settings, 3));
    berth_context* ctx = kit.exec.ctx;
    assert_ok(berth_context_create(kit.exec.runtime, &kit.other));
    berth_tensor* kept = NULL;
    for (int run = 0; run < 5; run++) {
        assert_ok(exec_kit_begin(ctx, "step", 4));
        berth_tensor* x = take(ctx, 2 * MIB);
        if (run == 4) kept = berth_retain(x); // beyond its step, for which there is no room
        for (int i = 0; run == 4 && i < PIECES - 1; i++)
            kit.pieces[i] = take(kit.other, 2 * MIB);
        berth_release(x);
        assert_ok(berth_step_end(ctx));
    }
    assert_int_equal(kept->storage->kind, BERTH_STORAGE_HELD);
    berth_release_array(kit.pieces, PIECES);
    memset(kit.pieces, 0, sizeof kit.pieces);
    set(&kit, only_answers);
    enum { MANY = 4096 };
    static berth_block blocks[MANY];
    const berth_pool_request request = {.size_bytes = 20000};
    size_t count = 0;
    assert_true(berth_home_lock(&ctx->home));
    failing_host_fail(&host, 1, true);
    while (count < MANY && berth_home_take(&ctx->home, &request, &blocks[count]) == BERTH_OK)
        count++;
    assert_true(failing_host_has_failed(&host) && count < MANY);
    assert_int_equal(kit.calls, 0);
    failing_host_fail(&host, 0, false);
    while (count > 0)
        berth_home_give(&ctx->home, &blocks[--count]);
    berth_home_unlock(&ctx->home);
    berth_release(kept);
    close_kit(&kit);
    assert_int_equal(host.live_blocks, 0);
}

static void what_is_ready_in_the_front_is_given_up_for_a_step(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"compact", "off"}}; // which would empty it, too
    scarcity_kit kit;
    open_kit(&kit, more, 1);
    berth_context* ctx = kit.exec.ctx;
    berth_tensor* most = take(ctx, 16 * MIB - 65536);
    berth_tensor* last = take(ctx, 20000); // on the only granule that is left
    assert_non_null(most);
    assert_non_null(last);
    berth_release(last);
    berth_step_reserve_extra(ctx, 65536);
    assert_ok(exec_kit_begin(ctx, "step", 4));
    assert_ok(berth_step_end(ctx));
    berth_release(most);
    close_kit(&kit);
}

static void a_refusal_says_how_the_pool_is_and_what_may_help(void** state) {
    (void)state;
    const berth_option_setting limited[] = {
        {"memory", "4M"}, {"compact", "off"}, {"mode", "pool"}, {"guard", "1"}};
    scarcity_kit kit;
    open_kit(&kit, limited, 4);
    berth_context* ctx = kit.exec.ctx;
    assert_null(take(ctx, 5 * MIB));
    const char* text = berth_context_error_text(ctx);
    assert_non_null(strstr(text, "free in this context's pool "));
    assert_non_null(strstr(text, "in one stretch "));
    assert_non_null(strstr(text, "fragmentation index "));
    assert_non_null(strstr(text, "larger BERTH_MEMORY (the device has 16.00 MiB)"));
    assert_non_null(strstr(text, "BERTH_MODE=auto"));
    assert_non_null(strstr(text, "BERTH_GUARD=0"));
    assert_non_null(strstr(text, "ask for less")); // not to release tensors: 5 MiB never fit
    assert_null(strstr(text, "release tensors earlier"));
    close_kit(&kit);
    const berth_option_setting reserved[] = {
        {"device", "cpu"}, {"memory", "4M"}, {"huge", "hugetlb"}, {"pool_quota", "2M"}};
    open_kit(&kit, reserved, 4);
    assert_null(take(kit.exec.ctx, 3 * MIB));
    text = berth_context_error_text(kit.exec.ctx);
    assert_non_null(strstr(text, "a larger BERTH_POOL_QUOTA"));
    assert_null(strstr(text, "larger BERTH_MEMORY")); // which does not stand in the way
    assert_non_null(strstr(text, "BERTH_HUGE=madvise"));
    close_kit(&kit);
    open_kit(&kit, NULL, 0);
    fill(&kit, kit.exec.ctx);
    assert_null(take(kit.exec.ctx, MIB));
    text = berth_context_error_text(kit.exec.ctx);
    assert_non_null(strstr(text, "release tensors earlier"));
    assert_null(strstr(text, "larger BERTH_MEMORY")); // nothing that is applied already
    assert_null(strstr(text, "BERTH_MODE"));
    assert_null(strstr(text, "_QUOTA"));
    assert_null(strstr(text, "BERTH_GUARD"));
    close_kit(&kit);
}

static void read_file(const char* path, char* buffer, size_t size) {
    FILE* file = fopen(path, "r");
    assert_non_null(file);
    buffer[fread(buffer, 1, size - 1, file)] = '\0';
    fclose(file);
}

static void the_first_refusal_leaves_a_snapshot(void** state) {
    (void)state;
    char folder[] = "/tmp/berth-scarcity-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char path[64], history[80];
    snprintf(path, sizeof path, "%s/snapshot", folder);
    snprintf(history, sizeof history, "%s.history", path);
    const berth_option_setting more[] = {{"snapshot_on_oom", path}, {"history", "100"}};
    scarcity_kit kit;
    open_kit(&kit, more, 2);
    fill(&kit, kit.exec.ctx);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_null(take(kit.exec.ctx, 3 * MIB));
    berth_context_clear_error(kit.exec.ctx);
    static char text[1 << 16];
    read_file(path, text, sizeof text);
    assert_non_null(strstr(text, "3.00 MiB needed"));
    assert_non_null(strstr(text, "\nmemory\n"));
    assert_non_null(strstr(text, "\nhealth\n"));
    assert_non_null(strstr(text, "BERTH_HISTORY = 100"));
    assert_int_equal(access(history, F_OK), 0);
    assert_int_equal(unlink(path), 0);
    assert_null(take(kit.exec.ctx, 3 * MIB)); // once for each runtime
    berth_context_clear_error(kit.exec.ctx);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(history), 0);
    assert_int_equal(rmdir(folder), 0);
    close_kit(&kit);
}

static void hear(void* self, berth_log_level level, const char* text) {
    (void)level;
    if (strstr(text, "BERTH_SNAPSHOT_ON_OOM: '/nowhere/at/all/snapshot'") != NULL) ++*(int*)self;
}

static void a_snapshot_that_cannot_be_written_changes_nothing_else(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"snapshot_on_oom", "/nowhere/at/all/snapshot"},
                                         {"log", "warn"}};
    scarcity_kit kit;
    int warnings = 0;
    berth_log_set_callback(hear, &warnings);
    open_kit(&kit, more, 2);
    berth_log_set_callback(NULL, NULL);
    assert_int_equal(warnings, 1); // told as long as something can be done
    fill(&kit, kit.exec.ctx);
    assert_null(take(kit.exec.ctx, MIB));
    assert_context_fails(
        kit.exec.ctx, BERTH_ERR_OUT_OF_MEMORY, "a block of 1048576 bytes: 1.00 MiB needed");
    berth_release(kit.pieces[0]);
    kit.pieces[0] = NULL;
    berth_tensor* x = take(kit.exec.ctx, MIB);
    assert_non_null(x);
    berth_release(x);
    close_kit(&kit);
}

static void a_shortage_without_host_memory_ends_in_the_same_error(void** state) {
    (void)state;
    char folder[] = "/tmp/berth-scarcity-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char path[64];
    snprintf(path, sizeof path, "%s/snapshot", folder);
    const berth_option_setting settings[] = {
        {"device", "sim"}, {"threads", "1"}, {"log", "off"}, {"snapshot_on_oom", path}};
    bool is_done = false;
    for (size_t nth = 1; !is_done; ++nth) {
        failing_host host;
        failing_host_init(&host);
        scarcity_kit kit = {0};
        assert_ok(exec_kit_open(&kit.exec, &host.allocator, settings, 4));
        fill(&kit, kit.exec.ctx);
        set(&kit, only_answers);
        failing_host_fail(&host, nth, false);
        assert_null(take(kit.exec.ctx, MIB));
        is_done = !failing_host_has_failed(&host);
        assert_int_equal(berth_context_error(kit.exec.ctx), BERTH_ERR_OUT_OF_MEMORY);
        assert_true(kit.calls <= 1);
        close_kit(&kit);
        assert_int_equal(host.live_blocks, 0);
        assert_false(host.mismatch);
    }
    (void)unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callback_that_frees_a_cache_saves_the_op),
        cmocka_unit_test(a_callback_may_free_what_other_contexts_have),
        cmocka_unit_test(a_callback_that_never_helps_is_called_a_bounded_number_of_times),
        cmocka_unit_test(what_no_release_can_make_possible_is_refused_without_a_call),
        cmocka_unit_test(without_a_callback_there_is_just_the_error),
        cmocka_unit_test(in_the_callback_only_the_context_in_need_is_barred),
        cmocka_unit_test(a_step_is_admitted_once_the_callback_has_made_room),
        cmocka_unit_test(operands_that_a_callback_releases_end_with_their_op),
        cmocka_unit_test(a_callback_may_free_plain_bytes),
        cmocka_unit_test(releases_that_wait_for_the_lock_are_the_first_rung),
        cmocka_unit_test(what_a_step_ends_without_does_not_make_a_later_error_a_shortage),
        cmocka_unit_test(what_is_ready_in_the_front_is_given_up_for_a_step),
        cmocka_unit_test(a_refusal_says_how_the_pool_is_and_what_may_help),
        cmocka_unit_test(the_first_refusal_leaves_a_snapshot),
        cmocka_unit_test(a_snapshot_that_cannot_be_written_changes_nothing_else),
        cmocka_unit_test(a_shortage_without_host_memory_ends_in_the_same_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
