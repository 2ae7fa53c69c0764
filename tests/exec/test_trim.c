// SPDX-License-Identifier: Apache-2.0
// berth_trim: gives back what can be given back, and accounts for every byte that cannot.
#include "exec_kit.h"

#define KIB UINT64_C(1024)
#define GRANULE (64 * KIB) // of the simulated device

typedef struct trim_kit {
    exec_kit exec;
    uint64_t before; ///< mapped bytes when trimmed
    berth_trim_result result;
} trim_kit;

static int set_up(void** state, const char* device, const char* prealloc) {
    static trim_kit kit;
    *state = &kit;
    kit = (trim_kit){0};
    const berth_option_setting settings[] = {
        {"device", device}, {"threads", "1"}, {"keep", "all"}, {"prealloc", prealloc}};
    return exec_kit_open(&kit.exec, NULL, settings, 4) == BERTH_OK ? 0 : -1;
}

static int set_up_cpu(void** state) { return set_up(state, "cpu", "0"); }
static int set_up_sim(void** state) { return set_up(state, "sim", "0"); }
static int set_up_ahead(void** state) { return set_up(state, "sim", "1M"); }

static int tear_down(void** state) {
    exec_kit_close(&((trim_kit*)*state)->exec);
    return 0;
}

static uint64_t mapped(const trim_kit* kit) {
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit->exec.runtime, &stats));
    return stats.mapped_bytes;
}

/// Trims, and checks that every byte is accounted for.
static void trim(trim_kit* kit, uint64_t keep_bytes) {
    kit->before = mapped(kit);
    assert_ok(berth_trim(kit->exec.runtime, keep_bytes, &kit->result));
    uint64_t sum = 0;
#define ADD(name, help) sum += kit->result.name;
    BERTH_TRIM_MAP(ADD)
#undef ADD
    assert_int_equal(sum, kit->before);
    assert_int_equal(mapped(kit), kit->before - kit->result.released_bytes);
}

static berth_tensor* tensor_of(trim_kit* kit, uint64_t bytes) {
    const int64_t count = (int64_t)bytes / 4;
    berth_tensor* x = berth_ones(kit->exec.ctx, BERTH_F32, 1, &count);
    assert_non_null(x);
    return x;
}

static void synchronize(trim_kit* kit) { assert_ok(berth_context_synchronize(kit->exec.ctx)); }

static void idle_memory_goes_back(void** state) {
    trim_kit* kit = *state;
    berth_release(tensor_of(kit, 1024 * KIB));
    synchronize(kit);
    trim(kit, 0);
    assert_true(kit->before > 0);
    assert_int_equal(kit->result.released_bytes, kit->before);
}

static void what_is_live_is_in_use(void** state) {
    trim_kit* kit = *state;
    berth_tensor* x = tensor_of(kit, 4096 * KIB);
    synchronize(kit);
    trim(kit, 0);
    assert_int_equal(kit->result.in_use_bytes, 4096 * KIB);
    berth_release(x);
}

static void as_much_as_is_asked_for_is_kept(void** state) {
    trim_kit* kit = *state;
    berth_release(tensor_of(kit, 1024 * KIB));
    synchronize(kit);
    trim(kit, 512 * KIB);
    assert_int_equal(kit->result.kept_bytes, 512 * KIB);
    assert_int_equal(kit->result.released_bytes, 512 * KIB);
    trim(kit, UINT64_MAX);
    assert_int_equal(kit->result.kept_bytes, 512 * KIB);
}

static void free_bytes_beside_live_ones_are_fragmented(void** state) {
    trim_kit* kit = *state;
    berth_tensor* parts[16];
    for (int i = 0; i < 16; i++)
        parts[i] = tensor_of(kit, GRANULE / 4);
    synchronize(kit);
    for (int i = 1; i < 16; i++) {
        if (i % 4 != 0) berth_release(parts[i]);
    }
    trim(kit, 0);
    assert_int_equal(kit->result.in_use_bytes, 4 * GRANULE / 4);
    assert_true(kit->result.fragmented_bytes > 0);
    for (int i = 0; i < 16; i += 4)
        berth_release(parts[i]);
    trim(kit, 0);
    assert_int_equal(kit->result.released_bytes, kit->before);
}

static void what_pending_work_may_use_is_in_flight(void** state) {
    trim_kit* kit = *state;
    berth_release(tensor_of(kit, 1024 * KIB)); // nothing of it has run yet
    trim(kit, 0);
    assert_int_equal(kit->result.in_flight_bytes, 1024 * KIB);
    synchronize(kit);
    trim(kit, 0);
    assert_int_equal(kit->result.in_flight_bytes, 0);
    assert_int_equal(kit->result.released_bytes, 1024 * KIB);
}

static void what_the_system_refuses_is_reported_and_goes_back_later(void** state) {
    trim_kit* kit = *state;
    berth_release(tensor_of(kit, 1024 * KIB));
    synchronize(kit);
    berth_sim_fail(kit->exec.runtime->device, BERTH_SIM_UNMAP, 1);
    trim(kit, 0);
    assert_true(kit->result.refused_bytes > 0);
    trim(kit, 0);
    assert_int_equal(kit->result.refused_bytes, 0);
    assert_int_equal(mapped(kit), 0);
}

static void what_was_preallocated_stays(void** state) {
    trim_kit* kit = *state;
    berth_release(tensor_of(kit, 2048 * KIB));
    synchronize(kit);
    trim(kit, 0);
    assert_int_equal(kit->result.ahead_bytes, 1024 * KIB);
    assert_int_equal(kit->result.released_bytes, 1024 * KIB);
}

/// A step with a value of its own and one that outlives it.
static berth_tensor* step(trim_kit* kit, bool trims) {
    assert_ok(exec_kit_begin(kit->exec.ctx, "step", 1));
    berth_tensor* large = tensor_of(kit, 512 * KIB);
    berth_tensor* result = berth_neg(kit->exec.ctx, large);
    berth_release(large);
    synchronize(kit);
    if (trims) trim(kit, 0);
    assert_ok(berth_step_end(kit->exec.ctx));
    return result;
}

static void the_frame_of_an_open_step_is_in_use(void** state) {
    trim_kit* kit = *state;
    for (int i = 0; i < 6; i++)
        berth_release(step(kit, false));
    synchronize(kit);
    trim(kit, 0);
    berth_release(step(kit, true));
    assert_true(kit->result.in_use_bytes >= 512 * KIB);
    assert_int_equal(exec_kit_counters(kit->exec.runtime, "step").side_exits, 0);
}

static void a_value_that_stays_where_its_step_was_holds_its_memory(void** state) {
    trim_kit* kit = *state;
    for (int i = 0; i < 6; i++)
        berth_release(step(kit, false));
    assert_ok(exec_kit_begin(kit->exec.ctx, "step", 1));
    berth_tensor* large = tensor_of(kit, 512 * KIB);
    berth_tensor* result = berth_neg(kit->exec.ctx, large);
    void* data; // while the host has it mapped it is not moved at the step's end
    assert_ok(berth_tensor_map(large, &data));
    assert_ok(berth_step_end(kit->exec.ctx));
    berth_release(result);
    synchronize(kit);
    trim(kit, 0);
    assert_true(kit->result.held_bytes >= 512 * KIB);
    berth_tensor_unmap(large);
    berth_release(large);
    synchronize(kit);
    trim(kit, 0);
    assert_int_equal(kit->result.held_bytes, 0);
    assert_int_equal(mapped(kit), 0);
}

static void what_a_context_at_work_keeps_at_hand_is_busy(void** state) {
    trim_kit* kit = *state;
    berth_release(tensor_of(kit, 16 * KIB));
    synchronize(kit);
    berth_home_lock(&kit->exec.ctx->home); // as within an op of another thread
    trim(kit, 0);
    berth_home_unlock(&kit->exec.ctx->home);
    assert_true(kit->result.busy_bytes >= 16 * KIB);
    assert_int_equal(kit->result.in_use_bytes, 0);
    trim(kit, 0);
    assert_int_equal(kit->result.released_bytes, kit->before);
}

static void errors_leave_a_zeroed_result(void** state) {
    (void)state;
    berth_trim_result result = {.kept_bytes = 1};
    assert_fails(berth_trim(NULL, 0, &result), BERTH_ERR_INVALID_ARGUMENT, "runtime");
    assert_int_equal(result.kept_bytes, 0);
}

#define WITH(set_up, test)                                                                         \
    { #set_up ": " #test, test, set_up, tear_down, NULL }

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(set_up_cpu, idle_memory_goes_back),
        WITH(set_up_sim, idle_memory_goes_back),
        WITH(set_up_cpu, what_is_live_is_in_use),
        WITH(set_up_sim, what_is_live_is_in_use),
        WITH(set_up_sim, as_much_as_is_asked_for_is_kept),
        WITH(set_up_sim, free_bytes_beside_live_ones_are_fragmented),
        WITH(set_up_sim, what_pending_work_may_use_is_in_flight),
        WITH(set_up_sim, what_the_system_refuses_is_reported_and_goes_back_later),
        WITH(set_up_ahead, what_was_preallocated_stays),
        WITH(set_up_sim, the_frame_of_an_open_step_is_in_use),
        WITH(set_up_sim, a_value_that_stays_where_its_step_was_holds_its_memory),
        WITH(set_up_cpu, what_a_context_at_work_keeps_at_hand_is_busy),
        cmocka_unit_test(errors_leave_a_zeroed_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
