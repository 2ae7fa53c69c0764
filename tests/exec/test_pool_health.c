// SPDX-License-Identifier: Apache-2.0
// The public figures on fragmentation: of a context, of a runtime, and what is refused.
#include "exec_kit.h"

#include <sys/wait.h>
#include <unistd.h>

static berth_tensor* make(berth_context* ctx, int64_t floats) {
    berth_tensor* tensor = berth_zeros(ctx, BERTH_F32, 1, &floats);
    assert_non_null(tensor);
    return tensor;
}

static void figures_follow_tensors(void** state) {
    exec_kit* kit = *state;
    berth_health_stats before, during, after;
    assert_ok(berth_context_query_health(kit->ctx, &before));
    berth_tensor* tensor = make(kit->ctx, 1 << 18);
    assert_ok(berth_context_query_health(kit->ctx, &during));
    assert_int_equal(during.requested_bytes - before.requested_bytes, 1 << 20);
    assert_true(during.reserved_bytes >= during.requested_bytes);
    assert_true(during.requests > before.requests);
    berth_release(tensor);
    assert_ok(berth_context_query_health(kit->ctx, &after));
    assert_int_equal(after.requested_bytes, before.requested_bytes);
    assert_true(after.free_bytes >= during.free_bytes);
}

static void a_runtime_adds_its_contexts_up(void** state) {
    exec_kit* kit = *state;
    berth_context* other;
    assert_ok(berth_context_create(kit->runtime, &other));
    berth_tensor* a = make(kit->ctx, 1 << 18);
    berth_tensor* b = make(other, 1 << 17);
    berth_health_stats one, two, both;
    assert_ok(berth_context_query_health(kit->ctx, &one));
    assert_ok(berth_context_query_health(other, &two));
    assert_ok(berth_runtime_query_health(kit->runtime, &both));
    assert_int_equal(both.requested_bytes, one.requested_bytes + two.requested_bytes);
    assert_int_equal(both.reserved_bytes, one.reserved_bytes + two.reserved_bytes);
    assert_int_equal(both.requests, one.requests + two.requests);
    berth_release(a);
    berth_release(b);
    berth_context_release(other);
}

/// Leaves holes among tensors of `ctx` and has compaction fill them.
static void scatter_and_tidy(berth_context* ctx) {
    berth_tensor* tensors[32];
    for (size_t i = 0; i < 32; i++)
        tensors[i] = make(ctx, 5000);
    for (size_t i = 0; i < 32; i += 2)
        berth_release(tensors[i]);
    for (int i = 0; i < 8; i++)
        assert_ok(berth_idle(ctx, 1000000, NULL));
    for (size_t i = 1; i < 32; i += 2)
        berth_release(tensors[i]);
}

static void what_compaction_did_is_told_of_each_context(void** state) {
    (void)state;
    const berth_option_setting settings[] = {
        {"device", "sim"}, {"threads", "1"}, {"compact", "always"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, settings, 3));
    berth_context* other;
    assert_ok(berth_context_create(kit.runtime, &other));
    berth_health_stats one, two, both;
    scatter_and_tidy(kit.ctx);
    assert_ok(berth_context_query_health(other, &two));
    assert_int_equal(two.compact_slices, 0);
    scatter_and_tidy(other);
    assert_ok(berth_context_query_health(kit.ctx, &one));
    assert_ok(berth_context_query_health(other, &two));
    assert_ok(berth_runtime_query_health(kit.runtime, &both));
    assert_true(one.compact_slices > 0 && one.compact_moved_blocks > 0);
    assert_true(one.compact_moved_bytes >= 20000 * one.compact_moved_blocks);
    assert_true(one.compact_p99_ns > 0 && one.compact_p99_ns <= one.compact_max_ns);
    assert_int_equal(both.compact_slices, one.compact_slices + two.compact_slices);
    assert_int_equal(both.compact_moved_bytes, one.compact_moved_bytes + two.compact_moved_bytes);
    assert_int_equal(both.compact_emptied_bytes,
                     one.compact_emptied_bytes + two.compact_emptied_bytes);
    assert_int_equal(both.compact_refused, one.compact_refused + two.compact_refused);
    berth_memory_stats memory;
    assert_ok(berth_runtime_query_memory(kit.runtime, &memory));
    assert_int_equal(memory.compact_slices, both.compact_slices);
    berth_context_release(other);
    assert_ok(berth_runtime_query_health(kit.runtime, &both)); // of those that are alive
    assert_int_equal(both.compact_slices, one.compact_slices);
    exec_kit_close(&kit);
}

static void without_arguments_nothing_is_told(void** state) {
    exec_kit* kit = *state;
    berth_health_stats stats;
    assert_fails(berth_runtime_query_health(NULL, &stats), BERTH_ERR_INVALID_ARGUMENT, "runtime");
    assert_fails(
        berth_runtime_query_health(kit->runtime, NULL), BERTH_ERR_INVALID_ARGUMENT, "place");
    assert_fails(berth_context_query_health(NULL, &stats), BERTH_ERR_INVALID_ARGUMENT, "context");
    assert_fails(berth_context_query_health(kit->ctx, NULL), BERTH_ERR_INVALID_ARGUMENT, "place");
}

static void the_systems_allocator_has_no_figures(void** state) {
    (void)state;
    const berth_option_setting settings[] = {{"mode", "system"}, {"threads", "1"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, settings, 2));
    berth_tensor* tensor = make(kit.ctx, 1 << 18);
    const berth_health_stats none = {0};
    berth_health_stats stats;
    assert_ok(berth_context_query_health(kit.ctx, &stats));
    assert_memory_equal(&stats, &none, sizeof stats);
    assert_ok(berth_runtime_query_health(kit.runtime, &stats));
    assert_memory_equal(&stats, &none, sizeof stats);
    berth_release(tensor);
    exec_kit_close(&kit);
}

static void a_forked_child_is_told_nothing(void** state) {
    exec_kit* kit = *state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        berth_health_stats stats;
        const bool refused = berth_runtime_query_health(kit->runtime, &stats) == BERTH_ERR_FORKED &&
                             berth_context_query_health(kit->ctx, &stats) == BERTH_ERR_FORKED;
        _exit(refused ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, exec_kit_set_up_cpu, exec_kit_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(figures_follow_tensors),
        TEST(a_runtime_adds_its_contexts_up),
        cmocka_unit_test(what_compaction_did_is_told_of_each_context),
        TEST(without_arguments_nothing_is_told),
        cmocka_unit_test(the_systems_allocator_has_no_figures),
        TEST(a_forked_child_is_told_nothing),
    };
    return cmocka_run_group_tests_name("pool health", tests, NULL, NULL);
}
