// SPDX-License-Identifier: Apache-2.0
// Options as a runtime lives by them: what each mode does, and which source of a value wins.
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/raw_memory.h"
#include "exec/exec_kit.h"
#include "kit/program.h"

enum { PROGRAMS = 25, RUNS = 9, MIB = 1 << 20 };

static void open_with(exec_kit* kit, const char* name, const char* value) {
    const berth_option_setting settings[] = {{"threads", "1"}, {name, value}};
    assert_ok(exec_kit_open(kit, NULL, settings, 2));
}

static berth_memory_stats memory_of(berth_runtime* runtime) {
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(runtime, &stats));
    return stats;
}

/// A step of three values of [n] f32 that do not survive it.
static void run_step(berth_context* ctx, int64_t n) {
    assert_ok(exec_kit_begin(ctx, "s", n));
    berth_tensor* x = berth_full(ctx, 2, BERTH_F32, 1, &n);
    berth_tensor* y = berth_affine(ctx, x, 3, 0);
    berth_tensor* z = berth_add(ctx, x, y);
    berth_tensor* end = berth_slice(ctx, z, 0, -1, INT64_MAX, 1);
    exec_kit_expect(end, (float[]){8}, 1);
    berth_release_all(x, y, z, end);
    assert_ok(berth_step_end(ctx));
}

/// True if the first `bytes` at `data` have the value; also where sanitizers let nobody look.
static bool is_filled(const void* data, unsigned char value, size_t bytes) {
    unsigned char copy[256];
    assert_true(bytes <= sizeof copy);
    berth_raw_copy(copy, data, bytes);
    for (size_t i = 0; i < bytes; ++i)
        if (copy[i] != value) return false;
    return true;
}

/// Looks for the patterns on a tensor of the pool and on one of a replayed step's frame.
static void expect_patterns(const char* poison, bool on_alloc, bool on_free) {
    exec_kit kit;
    open_with(&kit, "poison", poison);
    const int64_t n = 60;
    for (int run = 0; run < 5; ++run) {
        // the pool hands out again what it got back last
        berth_release(berth_full(kit.ctx, 1, BERTH_F32, 1, &n));
        berth_tensor* x = berth_empty(kit.ctx, BERTH_F32, 1, &n);
        const void* data = exec_kit_place(x);
        if (on_alloc) assert_true(is_filled(data, BERTH_POISON_ALLOC_BYTE, 240));
        if (on_free && !on_alloc) assert_false(is_filled(data, BERTH_POISON_ALLOC_BYTE, 240));
        berth_release(x);
        assert_true(is_filled(data, BERTH_POISON_FREE_BYTE, 240) == on_free);
    }
    for (int run = 0; run < 5; ++run) {
        assert_ok(exec_kit_begin(kit.ctx, "empty", n + run));
        berth_tensor* x = berth_empty(kit.ctx, BERTH_F32, 1, (int64_t[]){n + run});
        const void* data = exec_kit_place(x);
        if (run == 0) assert_int_equal(x->storage->kind, BERTH_STORAGE_POOL);
        if (run == 4) assert_int_equal(x->storage->kind, BERTH_STORAGE_FRAME);
        if (on_alloc) assert_true(is_filled(data, BERTH_POISON_ALLOC_BYTE, 240));
        assert_ok(berth_tensor_write(x, (float[64]){1}, (uint64_t)(n + run) * 4));
        berth_release(x);
        assert_true(is_filled(data, BERTH_POISON_FREE_BYTE, 240) == on_free);
        assert_ok(berth_step_end(kit.ctx));
    }
    exec_kit_close(&kit);
}

static void poison_fills_what_is_placed_and_what_is_freed(void** state) {
    (void)state;
    expect_patterns("off", false, false);
    expect_patterns("alloc", true, false);
    expect_patterns("free", false, true);
    expect_patterns("both", true, true);
}

static void poison_changes_no_result(void** state) {
    (void)state;
    static const char* const values[] = {"free", "alloc", "both"};
    static const char* const devices[] = {"cpu", "sim"};
    for (uint64_t seed = 1; seed <= PROGRAMS; ++seed) {
        const program_result expected = program_run(seed, RUNS, &program_reference);
        const program_way way = {.name = "poison",
                                 .settings = {{"threads", "1"},
                                              {"poison", values[seed % 3]},
                                              {"device", devices[seed % 2]}},
                                 .count = 3};
        const program_result result = program_run(seed, RUNS, &way);
        if (result.failure[0] != '\0') fail_msg("program %u: %s", (unsigned)seed, result.failure);
        assert_int_equal(result.digest, expected.digest);
    }
}

/// x [rows, 96] through a product with weights, attention and a norm.
static berth_tensor* run_model(berth_context* ctx, berth_tensor* x, int64_t offset) {
    berth_tensor* weight = berth_randn(ctx, 5, 0, 1, BERTH_F32, 2, (int64_t[]){96, 96});
    berth_tensor* scale = berth_rand(ctx, 6, 0.5f, 2, BERTH_F32, 1, (int64_t[]){96});
    berth_tensor* keys = berth_randn(ctx, 7, 0, 1, BERTH_F32, 3, (int64_t[]){700, 2, 32});
    berth_tensor* h = berth_linear(ctx, x, weight, NULL);
    h = berth_rms_norm(ctx, berth_move(h), scale, 1e-5f);
    berth_tensor* q = berth_slice(ctx, h, 1, 0, 64, 1);
    q = berth_contiguous(ctx, berth_move(q));
    q = berth_reshape(ctx, berth_move(q), 3, (int64_t[]){-1, 2, 32});
    berth_tensor* mixed = berth_attention(ctx, q, keys, keys, NULL, 0, true, offset);
    mixed = berth_reshape(ctx, berth_move(mixed), 2, (int64_t[]){-1, 64});
    berth_tensor* square = berth_slice(ctx, weight, 0, 0, 64, 1);
    berth_tensor* y = berth_matmul(ctx, mixed, square);
    berth_release_all(weight, scale, keys, h, q, mixed, square);
    return y;
}

enum { MODEL_ROWS = 130, MODEL_OUT = 96 };

/// The model's results [count, MODEL_OUT] for rows [first, first + count) of one fixed batch.
static void run_rows(berth_context* ctx, int64_t first, int64_t count, float* out) {
    berth_tensor* x = berth_randn(ctx, 1, 0, 1, BERTH_F32, 2, (int64_t[]){MODEL_ROWS, 96});
    berth_tensor* part = berth_slice(ctx, x, 0, first, first + count, 1);
    part = berth_contiguous(ctx, berth_move(part));
    berth_tensor* y = run_model(ctx, part, 500 + first);
    assert_context_ok(ctx);
    assert_ok(berth_tensor_read(y, out, (uint64_t)(count * MODEL_OUT) * sizeof(float)));
    berth_release_all(x, part, y);
}

static void a_row_has_the_same_bits_in_every_batch_and_on_every_team(void** state) {
    (void)state;
    static const char* const threads[] = {"1", "2", "3"};
    static const int64_t counts[] = {1, 2, 7, 64};
    static float expected[MODEL_ROWS * MODEL_OUT], values[MODEL_ROWS * MODEL_OUT];
    for (size_t t = 0; t < 3; ++t) {
        exec_kit kit;
        const berth_option_setting settings[] = {{"threads", threads[t]}, {"batch_invariant", "1"}};
        assert_ok(exec_kit_open(&kit, NULL, settings, 2));
        run_rows(kit.ctx, 0, MODEL_ROWS, t == 0 ? expected : values);
        if (t > 0) assert_memory_equal(values, expected, sizeof values);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; ++c) {
            for (int64_t first = 0; first + counts[c] <= MODEL_ROWS; first += 43) {
                run_rows(kit.ctx, first, counts[c], values);
                assert_memory_equal(values,
                                    expected + first * MODEL_OUT,
                                    (size_t)(counts[c] * MODEL_OUT) * sizeof(float));
            }
        }
        exec_kit_close(&kit);
    }
}

static void without_batch_invariance_results_are_close(void** state) {
    (void)state;
    static float expected[MODEL_ROWS * MODEL_OUT], values[MODEL_ROWS * MODEL_OUT];
    exec_kit kit;
    open_with(&kit, "batch_invariant", "1");
    assert_true(kit.runtime->batch_invariant);
    run_rows(kit.ctx, 0, MODEL_ROWS, expected);
    exec_kit_close(&kit);
    open_with(&kit, "batch_invariant", "off");
    assert_false(kit.runtime->batch_invariant);
    run_rows(kit.ctx, 0, MODEL_ROWS, values);
    exec_kit_close(&kit);
    for (size_t i = 0; i < MODEL_ROWS * MODEL_OUT; ++i)
        assert_true(fabsf(values[i] - expected[i]) <= 1e-3f * (1 + fabsf(expected[i])));
}

static void keep_with_a_number_bounds_what_stays_mapped(void** state) {
    (void)state;
    exec_kit kit;
    open_with(&kit, "keep", "4M");
    assert_int_equal(kit.runtime->keep_bytes, 4 * MIB);
    for (int64_t n = 1000000; n < 7000000; n += 1000000)
        run_step(kit.ctx, n);
    const berth_memory_stats stats = memory_of(kit.runtime);
    assert_true(stats.peak_mapped_bytes > 40 * (uint64_t)MIB);
    assert_true(stats.frames_bytes > 0 && stats.frames_bytes <= 4 * MIB);
    assert_true(stats.pool_bytes <= 6 * MIB); // and the granule of small blocks
    exec_kit_close(&kit);
}

static void nodes_to_place_memory_on_are_checked(void** state) {
    (void)state;
    static const char* const good[] = {"auto", "off", "local", "interleave"};
    static const char* const bad[] = {"bind:63", "bind:", "everywhere"};
    exec_kit kit;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; ++i) {
        open_with(&kit, "numa", good[i]);
        run_step(kit.ctx, 1000);
        exec_kit_close(&kit);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        const berth_option_setting setting = {"numa", bad[i]};
        assert_fails(
            exec_kit_open(&kit, NULL, &setting, 1), BERTH_ERR_INVALID_ARGUMENT, "BERTH_NUMA");
    }
}

static void a_log_setting_that_cannot_be_read_is_refused_by_name(void** state) {
    (void)state;
    exec_kit kit;
    const berth_option_setting word = {"log", "loud"}, file = {"log", "warn:/nowhere/at/all"};
    assert_fails(
        exec_kit_open(&kit, NULL, &word, 1), BERTH_ERR_INVALID_ARGUMENT, "BERTH_LOG: 'loud'");
    assert_fails(exec_kit_open(&kit, NULL, &file, 1), BERTH_ERR_IO, "BERTH_LOG: log file");
}

static void memory_may_be_a_share_of_the_device(void** state) {
    (void)state;
    static const struct {
        const char* value;
        uint64_t bytes;
    } cases[] = {{"50%", 8 * MIB},
                 {"25%", 4 * MIB},
                 {"100%", 16 * MIB},
                 {"unlimited", 16 * MIB},
                 {"3M", 3 * MIB},
                 {"1T", 16 * MIB}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const berth_option_setting settings[] = {{"device", "sim"}, {"memory", cases[i].value}};
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, NULL, settings, 2));
        assert_int_equal(memory_of(kit.runtime).capacity_bytes, cases[i].bytes);
        berth_tensor* x =
            berth_ones(kit.ctx, BERTH_U8, 1, (int64_t[]){(int64_t)cases[i].bytes + 1});
        assert_null(x);
        assert_context_fails(kit.ctx, BERTH_ERR_OUT_OF_MEMORY, "full");
        x = berth_ones(kit.ctx, BERTH_U8, 1, (int64_t[]){(int64_t)cases[i].bytes});
        assert_non_null(x);
        berth_release(x);
        exec_kit_close(&kit);
    }
    exec_kit kit;
    const berth_option_setting settings[] = {{"device", "sim"}, {"memory", "101%"}};
    assert_fails(exec_kit_open(&kit, NULL, settings, 2), BERTH_ERR_INVALID_ARGUMENT, "101%");
}

static void the_users_host_allocator_serves_metadata_and_no_tensor(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    const berth_option_setting setting = {"threads", "2"};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, &host.allocator, &setting, 1));
    for (int64_t n = 1000; n < 9000; n += 1000)
        run_step(kit.ctx, n);
    const int64_t large = 8 * MIB;
    berth_tensor* x = berth_ones(kit.ctx, BERTH_U8, 1, &large);
    assert_non_null(x);
    assert_true(atomic_load(&host.calls) > 10);
    assert_true(atomic_load(&host.live_bytes) < MIB);
    const berth_memory_stats stats = memory_of(kit.runtime);
    assert_true(stats.host_bytes > 0 && stats.host_bytes <= atomic_load(&host.live_bytes));
    assert_int_equal(stats.host_allocs, atomic_load(&host.calls) - 1); // one made the counters
    berth_release(x);
    exec_kit_close(&kit);
    assert_int_equal(atomic_load(&host.live_blocks), 0);
    assert_false(atomic_load(&host.mismatch));
    host.allocator.free = NULL;
    assert_fails(exec_kit_open(&kit, &host.allocator, &setting, 1),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "alloc and free");
}

static int clear_environment(void** state) {
    (void)state;
    static const char* const names[] = {
        "BERTH_CONF", "BERTH_DEVICE", "BERTH_MEMORY", "BERTH_KEEP", "BERTH_MODE", "BERTH_THREADS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i)
        (void)unsetenv(names[i]);
    return 0;
}

static void a_call_wins_over_a_variable_over_conf(void** state) {
    (void)state;
    exec_kit kit;
    (void)setenv("BERTH_CONF", "device=sim,memory=2M,keep=none", 1);
    assert_ok(exec_kit_open(&kit, NULL, NULL, 0));
    assert_string_equal(kit.runtime->device->name, "sim");
    assert_int_equal(memory_of(kit.runtime).capacity_bytes, 2 * MIB);
    assert_int_equal(kit.runtime->keep, BERTH_KEEP_NONE);
    exec_kit_close(&kit);
    (void)setenv("BERTH_MEMORY", "4M", 1);
    (void)setenv("BERTH_KEEP", "all", 1);
    assert_ok(exec_kit_open(&kit, NULL, NULL, 0));
    assert_int_equal(memory_of(kit.runtime).capacity_bytes, 4 * MIB);
    assert_int_equal(kit.runtime->keep, BERTH_KEEP_ALL);
    exec_kit_close(&kit);
    const berth_option_setting settings[] = {{"memory", "8M"}, {"device", "cpu"}};
    assert_ok(exec_kit_open(&kit, NULL, settings, 2));
    assert_string_equal(kit.runtime->device->name, "cpu");
    assert_int_equal(memory_of(kit.runtime).capacity_bytes, 8 * MIB);
    assert_int_equal(kit.runtime->keep, BERTH_KEEP_ALL);
    exec_kit_close(&kit);
}

static void options_are_frozen_when_the_runtime_is_made(void** state) {
    (void)state;
    exec_kit kit;
    (void)setenv("BERTH_CONF", "device=sim,mode=pool", 1);
    assert_ok(exec_kit_open(&kit, NULL, NULL, 0));
    (void)setenv("BERTH_CONF", "device=cpu,mode=auto", 1);
    for (int64_t n = 10; n < 80; n += 10)
        run_step(kit.ctx, n);
    assert_int_equal(exec_kit_counters(kit.runtime, "s").hits, 0);
    exec_kit_close(&kit);
}

static void a_bad_value_fails_the_creation_by_name(void** state) {
    (void)state;
    exec_kit kit;
    (void)setenv("BERTH_KEEP", "some", 1);
    assert_fails(exec_kit_open(&kit, NULL, NULL, 0), BERTH_ERR_INVALID_ARGUMENT, "BERTH_KEEP");
    assert_null(kit.runtime);
    (void)unsetenv("BERTH_KEEP");
    const berth_option_setting unknown = {"memroy", "1G"};
    assert_fails(exec_kit_open(&kit, NULL, &unknown, 1), BERTH_ERR_INVALID_ARGUMENT, "memroy");
    const berth_runtime_options old = {.struct_size = 8};
    assert_fails(
        berth_runtime_create(&old, &kit.runtime), BERTH_ERR_INVALID_ARGUMENT, "struct_size");
    assert_null(kit.runtime);
    assert_fails(berth_runtime_create(NULL, NULL), BERTH_ERR_INVALID_ARGUMENT, "place");
    assert_ok(exec_kit_open(&kit, NULL, NULL, 0));
    exec_kit_close(&kit);
}

static void threads_are_as_many_as_asked_for(void** state) {
    (void)state;
    static const char* const values[] = {"1", "2", "5"};
    static const uint32_t counts[] = {1, 2, 5};
    for (size_t i = 0; i < 3; ++i) {
        const berth_option_setting setting = {"threads", values[i]};
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, NULL, &setting, 1));
        assert_int_equal(berth_team_worker_count(kit.runtime->device->team), counts[i]);
        run_step(kit.ctx, 100000);
        exec_kit_close(&kit);
    }
}

/// A step whose ops are chosen anew at every run.
static void run_whim(berth_context* ctx, test_random* random) {
    assert_ok(exec_kit_begin(ctx, "whim", 9));
    berth_tensor* x = exec_kit_ramp(ctx, 1, 9);
    for (int i = 0; i < 12; ++i) {
        berth_tensor* (*const ops[])(berth_context*, berth_tensor*) = {
            berth_neg, berth_relu, berth_copy, berth_tanh};
        berth_tensor* y = ops[test_random_below(random, 4)](ctx, x);
        berth_release(x);
        x = y;
    }
    berth_release(x);
    assert_ok(berth_step_end(ctx));
}

static void a_step_that_never_repeats_stops_being_planned_unless_plans_are_asked_for(void** state) {
    (void)state;
    static const char* const modes[] = {"auto", "plan"};
    uint64_t exits[2];
    for (size_t i = 0; i < 2; ++i) {
        exec_kit kit;
        test_random random = test_random_make(3);
        open_with(&kit, "mode", modes[i]);
        for (int run = 0; run < 200; ++run)
            run_whim(kit.ctx, &random);
        assert_context_ok(kit.ctx);
        exits[i] = exec_kit_counters(kit.runtime, "whim").side_exits;
        exec_kit_close(&kit);
    }
    assert_true(exits[0] > 0 && exits[0] < 40);
    assert_true(exits[1] > 150);
}

static void a_step_longer_than_trace_max_stays_on_the_pool(void** state) {
    (void)state;
    exec_kit kit;
    open_with(&kit, "trace_max", "16");
    for (int64_t n = 1; n < 40; ++n) {
        assert_ok(exec_kit_begin(kit.ctx, "long", n));
        berth_tensor* x = berth_zeros(kit.ctx, BERTH_F32, 1, &n);
        for (int i = 0; i < 30; ++i) {
            berth_tensor* y = berth_affine(kit.ctx, x, 1, 1);
            berth_release(x);
            x = y;
        }
        assert_ok(berth_step_end(kit.ctx));
        berth_tensor* first = berth_slice(kit.ctx, x, 0, 0, 1, 1);
        exec_kit_expect(first, (float[]){30}, 1);
        berth_release_all(x, first);
        run_step(kit.ctx, n);
    }
    assert_int_equal(exec_kit_counters(kit.runtime, "long").hits, 0);
    assert_true(exec_kit_counters(kit.runtime, "s").hits > 30);
    exec_kit_close(&kit);
}

static void steps_work_with_huge_pages_and_without(void** state) {
    (void)state;
    static const char* const values[] = {"off", "madvise"};
    for (size_t i = 0; i < 2; ++i) {
        exec_kit kit;
        open_with(&kit, "huge", values[i]);
        for (int64_t n = 1000; n < 2000000; n *= 4)
            run_step(kit.ctx, n);
        exec_kit_close(&kit);
    }
}

static void huge_pages_from_the_reserve_work_or_are_refused_properly(void** state) {
    (void)state;
    exec_kit kit;
    open_with(&kit, "huge", "hugetlb");
    berth_tensor* x = berth_ones(kit.ctx, BERTH_F32, 1, (int64_t[]){1000});
    if (x == NULL) assert_context_fails(kit.ctx, BERTH_ERR_OUT_OF_MEMORY, "full");
    assert_context_ok(kit.ctx);
    berth_release(x);
    exec_kit_close(&kit);
}

static void a_refused_creation_leaves_the_log_as_it_was(void** state) {
    (void)state;
    assert_false(berth_log_enabled(BERTH_LOG_DEBUG));
    static const berth_option_setting refused[][3] = {
        {{"threads", "1"}, {"log", "debug"}, {"buckets", "sideways:3"}},
        {{"threads", "1"}, {"log", "debug"}, {"memory", "65536"}}, // less than a granule
    };
    for (size_t i = 0; i < 2; ++i) {
        exec_kit kit;
        assert_int_equal(exec_kit_open(&kit, NULL, refused[i], 3), BERTH_ERR_INVALID_ARGUMENT);
        assert_false(berth_log_enabled(BERTH_LOG_DEBUG));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(poison_fills_what_is_placed_and_what_is_freed),
        cmocka_unit_test(poison_changes_no_result),
        cmocka_unit_test(a_row_has_the_same_bits_in_every_batch_and_on_every_team),
        cmocka_unit_test(without_batch_invariance_results_are_close),
        cmocka_unit_test(keep_with_a_number_bounds_what_stays_mapped),
        cmocka_unit_test(nodes_to_place_memory_on_are_checked),
        cmocka_unit_test(a_log_setting_that_cannot_be_read_is_refused_by_name),
        cmocka_unit_test(memory_may_be_a_share_of_the_device),
        cmocka_unit_test(the_users_host_allocator_serves_metadata_and_no_tensor),
        cmocka_unit_test_setup_teardown(
            a_call_wins_over_a_variable_over_conf, clear_environment, clear_environment),
        cmocka_unit_test_setup_teardown(
            options_are_frozen_when_the_runtime_is_made, clear_environment, clear_environment),
        cmocka_unit_test_setup_teardown(
            a_bad_value_fails_the_creation_by_name, clear_environment, clear_environment),
        cmocka_unit_test(threads_are_as_many_as_asked_for),
        cmocka_unit_test(a_step_that_never_repeats_stops_being_planned_unless_plans_are_asked_for),
        cmocka_unit_test(a_step_longer_than_trace_max_stays_on_the_pool),
        cmocka_unit_test(steps_work_with_huge_pages_and_without),
        cmocka_unit_test(huge_pages_from_the_reserve_work_or_are_refused_properly),
        cmocka_unit_test(a_refused_creation_leaves_the_log_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
