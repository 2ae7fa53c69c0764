// SPDX-License-Identifier: Apache-2.0
// A runtime on the dry device: steps learn, plan and hit as on the CPU, memory of any size is
// promised and refused, nothing is computed.
#include "exec_kit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/poison.h"

/// Sanitizers keep an eighth of what they watch.
#define LARGE ((uint64_t)(BERTH_POISONS ? 1 << 30 : 1ll << 40))

static void open_on(exec_kit* kit, const char* device, const char* name, const char* value) {
    const berth_option_setting settings[] = {{"device", device},
                                             {"threads", "2"},
                                             {"log", "off"},
                                             {"plan_budget_ms", "0"},
                                             {name, value}};
    assert_ok(exec_kit_open(kit, NULL, settings, 5));
}

static void open_large(exec_kit* kit) {
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)LARGE);
    open_on(kit, "dry", "memory", text);
}

/// Ops with workspaces, views, in-place updates and values that die at once.
static berth_tensor* run_ops(berth_context* ctx, int64_t length) {
    berth_tensor* x =
        berth_reshape(ctx,
                      berth_move(berth_arange(ctx, 0, (double)(length * 64), 1, BERTH_F32)),
                      BERTH_SHAPE(length, 64));
    berth_tensor* turned = berth_transpose(ctx, x, 0, 1);
    berth_tensor* product = berth_matmul(ctx, x, turned);
    berth_tensor* soft = berth_softmax(ctx, berth_move(product), -1);
    berth_tensor* y = berth_matmul(ctx, soft, x);
    berth_tensor* sorted = berth_cumsum(ctx, y, 0);
    berth_tensor* z = berth_add(ctx, berth_move(sorted), y);
    berth_release_all(x, turned, soft, y);
    return z;
}

static void run_step(exec_kit* kit, int64_t length) {
    assert_ok(exec_kit_begin(kit->ctx, "work", length));
    berth_tensor* out = run_ops(kit->ctx, length);
    assert_ok(berth_step_end(kit->ctx));
    assert_context_ok(kit->ctx);
    berth_release(out);
}

static const int64_t lengths[] = {100, 173, 240, 411, 90, 511, 300, 700, 173, 65, 240, 1000, 700};
#define LENGTH_COUNT (sizeof lengths / sizeof lengths[0])

/// What one run of the program leaves in the books after each step.
typedef struct record {
    berth_step_counters counters[LENGTH_COUNT];
    berth_memory_stats memory[LENGTH_COUNT];
    berth_step_estimate_result need[LENGTH_COUNT];
} record;

static void keep_record(const char* device, const char* mode, record* out) {
    exec_kit kit;
    open_on(&kit, device, "mode", mode);
    for (size_t i = 0; i < LENGTH_COUNT; ++i) {
        const berth_step_input input = {.name = "x", .rank = 1, .dims = &lengths[i]};
        const berth_step_desc desc = {.name = "work", .inputs = &input, .input_count = 1};
        assert_ok(berth_step_estimate(kit.ctx, &desc, &out->need[i]));
        run_step(&kit, lengths[i]);
        out->counters[i] = exec_kit_counters(kit.runtime, "work");
        assert_ok(berth_runtime_query_memory(kit.runtime, &out->memory[i]));
    }
    exec_kit_close(&kit);
}

static void steps_learn_plan_and_hit_as_on_the_cpu(void** state) {
    (void)state;
    static const char* const modes[] = {"auto", "pool", "plan"};
    for (size_t mode = 0; mode < 3; ++mode) {
        static record cpu, dry;
        keep_record("cpu", modes[mode], &cpu);
        keep_record("dry", modes[mode], &dry);
        for (size_t i = 0; i < LENGTH_COUNT; ++i) {
            const berth_step_counters *a = &cpu.counters[i], *b = &dry.counters[i];
            assert_int_equal(a->runs, b->runs);
            assert_int_equal(a->hits, b->hits);
            assert_int_equal(a->plans, b->plans);
            assert_int_equal(a->frame_bytes, b->frame_bytes);
            assert_int_equal(a->lower_bound_bytes, b->lower_bound_bytes);
            assert_int_equal(a->peak_bytes, b->peak_bytes);
            assert_int_equal(a->allocated_bytes, b->allocated_bytes);
            assert_int_equal(a->placed_bytes, b->placed_bytes);
            assert_int_equal(cpu.need[i].kind, dry.need[i].kind);
            assert_int_equal(cpu.need[i].bytes, dry.need[i].bytes);
            assert_int_equal(cpu.memory[i].mapped_bytes, dry.memory[i].mapped_bytes);
            assert_int_equal(cpu.memory[i].peak_mapped_bytes, dry.memory[i].peak_mapped_bytes);
            assert_int_equal(cpu.memory[i].frames_bytes, dry.memory[i].frames_bytes);
            assert_int_equal(cpu.memory[i].pool_bytes, dry.memory[i].pool_bytes);
        }
        if (mode != 1) assert_true(dry.counters[LENGTH_COUNT - 1].hits > 0);
    }
}

static void memory_is_refused_at_the_same_size_as_on_the_cpu(void** state) {
    (void)state;
    static const char* const devices[] = {"cpu", "dry"};
    int64_t fits[2];
    char texts[2][256];
    for (int d = 0; d < 2; ++d) {
        exec_kit kit;
        open_on(&kit, devices[d], "memory", "40M");
        fits[d] = 0;
        for (int64_t count = 1 << 20; berth_context_error(kit.ctx) == BERTH_OK; count += 1 << 18) {
            berth_tensor* x = berth_empty(kit.ctx, BERTH_F32, BERTH_SHAPE(count));
            if (x != NULL) fits[d] = count;
            berth_release(x);
        }
        assert_int_equal(berth_context_error(kit.ctx), BERTH_ERR_OUT_OF_MEMORY);
        (void)snprintf(texts[d], sizeof texts[d], "%s", berth_context_error_text(kit.ctx));
        berth_context_clear_error(kit.ctx);
        exec_kit_close(&kit);
    }
    assert_int_equal(fits[0], fits[1]);
    assert_string_equal(texts[0], texts[1]);
    assert_int_equal(fits[0] * 4, 40 << 20);
}

static void a_step_that_cannot_fit_is_refused_before_anything_runs(void** state) {
    (void)state;
    exec_kit kit;
    open_on(&kit, "dry", "memory", "64M");
    for (int64_t length = 100; length <= 1000; length += 100)
        run_step(&kit, length);
    assert_int_equal(exec_kit_begin(kit.ctx, "work", 20000), BERTH_ERR_OUT_OF_MEMORY);
    assert_context_fails(kit.ctx, BERTH_ERR_OUT_OF_MEMORY, "work");
    run_step(&kit, 900);
    exec_kit_close(&kit);
}

/// Pages of the process that are in memory.
static uint64_t resident_bytes(void) {
    FILE* file = fopen("/proc/self/statm", "r");
    unsigned long long pages = 0, resident = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu %llu", &pages, &resident), 2);
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void memory_that_no_machine_has_is_promised_and_accounted(void** state) {
    (void)state;
    exec_kit kit;
    open_large(&kit);
    const uint64_t before = resident_bytes();
    const int64_t quarter = (int64_t)(LARGE / 4);
    berth_tensor* parts[4];
    for (int i = 0; i < 4; ++i)
        parts[i] = berth_full(kit.ctx, 7, BERTH_U8, BERTH_SHAPE(quarter));
    assert_context_ok(kit.ctx);
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit.runtime, &stats));
    assert_int_equal(stats.capacity_bytes, LARGE);
    assert_int_equal(stats.mapped_bytes, LARGE);
    assert_null(berth_empty(kit.ctx, BERTH_U8, BERTH_SHAPE(1)));
    berth_context_clear_error(kit.ctx);
    berth_tensor* sum = berth_add(kit.ctx, berth_move(parts[0]), parts[1]);
    assert_context_ok(kit.ctx);
    // of what is promised not a thousandth is there
    if (!BERTH_POISONS) assert_in_range(resident_bytes(), 0, before + LARGE / 1024);
    berth_release_all(sum, parts[1], parts[2], parts[3]);
    exec_kit_close(&kit);
}

static void what_is_read_is_zero_and_the_hosts_reach_ends_there(void** state) {
    (void)state;
    exec_kit kit;
    open_on(&kit, "dry", "mode", "auto");
    berth_tensor* x = berth_full(kit.ctx, 5, BERTH_F32, BERTH_SHAPE(2, 3));
    berth_tensor* turned = berth_transpose(kit.ctx, x, 0, 1);
    const float zeros[6] = {0}, fives[6] = {5, 5, 5, 5, 5, 5};
    exec_kit_expect(x, zeros, 6);
    assert_ok(berth_tensor_write(x, fives, sizeof fives));
    exec_kit_expect(x, zeros, 6);
    exec_kit_expect(turned, zeros, 6); // also what is not contiguous
    char text[64];
    assert_ok(berth_tensor_format(turned, NULL, text, sizeof text, NULL));
    assert_string_equal(text, "[[0. 0.]\n [0. 0.]\n [0. 0.]]");
    void* data;
    assert_fails(berth_tensor_map(x, &data), BERTH_ERR_UNSUPPORTED, "not visible to the host");
    struct DLManagedTensor* lent;
    assert_fails(berth_tensor_to_dlpack(x, &lent), BERTH_ERR_UNSUPPORTED, "visible");
    berth_release_all(x, turned);
    exec_kit_close(&kit);
}

static int deletions;

static void count_deletion(void* self, void* data) {
    (void)self;
    (void)data;
    ++deletions;
}

static void memory_of_the_host_is_an_operand_that_nobody_reads(void** state) {
    (void)state;
    exec_kit kit;
    open_on(&kit, "dry", "mode", "auto");
    // an address like any other; of weights only the shape matters
    void* nowhere = (void*)(uintptr_t)4096;
    deletions = 0;
    berth_tensor* weights = berth_tensor_from_memory(kit.ctx,
                                                     nowhere,
                                                     1ull << 40,
                                                     BERTH_F32,
                                                     BERTH_SHAPE(1 << 20, 1 << 18),
                                                     true,
                                                     count_deletion,
                                                     NULL);
    berth_tensor* x = berth_ones(kit.ctx, BERTH_F32, BERTH_SHAPE(3, 1 << 18));
    berth_tensor* y = berth_linear(kit.ctx, x, weights, NULL);
    assert_context_ok(kit.ctx);
    assert_int_equal(berth_tensor_dim(y, 1), 1 << 20);
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit.runtime, &stats));
    assert_in_range(stats.mapped_bytes, 1, 64 << 20);
    berth_release_all(weights, x, y);
    assert_int_equal(deletions, 1);
    exec_kit_close(&kit);
}

static void ops_that_count_find_nothing(void** state) {
    (void)state;
    exec_kit kit;
    open_on(&kit, "dry", "mode", "auto");
    berth_tensor* x = berth_ones(kit.ctx, BERTH_F32, BERTH_SHAPE(40));
    berth_tensor* found = berth_nonzero(kit.ctx, x);
    assert_context_ok(kit.ctx);
    assert_int_equal(berth_tensor_dim(found, 0), 0);
    berth_release_all(x, found);
    exec_kit_close(&kit);
}

static void indices_are_not_looked_at(void** state) {
    (void)state;
    exec_kit kit;
    open_on(&kit, "dry", "mode", "auto");
    berth_tensor* table = berth_ones(kit.ctx, BERTH_F32, BERTH_SHAPE(4, 8));
    berth_tensor* ids = berth_full(kit.ctx, 99, BERTH_I32, BERTH_SHAPE(3));
    berth_tensor* rows = berth_embedding(kit.ctx, table, ids);
    assert_context_ok(kit.ctx);
    assert_int_equal(berth_tensor_count(rows), 24);
    berth_release_all(table, ids, rows);
    exec_kit_close(&kit);
}

/// Everything that fills, looks or notes, at once.
static void the_options_for_debugging_find_nothing_wrong(void** state) {
    (void)state;
    static const berth_option_setting settings[] = {{"device", "dry"},
                                                    {"threads", "1"},
                                                    {"guard", "1"},
                                                    {"poison", "both"},
                                                    {"leaks", "1"},
                                                    {"check_order", "1"},
                                                    {"history", "64"},
                                                    {"compact", "always"},
                                                    {"prealloc", "8M"},
                                                    {"strict", "1"},
                                                    {"log", "off"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, settings, sizeof settings / sizeof settings[0]));
    for (size_t i = 0; i < LENGTH_COUNT; ++i)
        run_step(&kit, lengths[i]);
    void* bytes = berth_alloc(kit.ctx, 100);
    assert_non_null(bytes);
    berth_free(kit.ctx, bytes);
    assert_ok(berth_idle(kit.ctx, 1000, NULL));
    assert_context_ok(kit.ctx);
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit.runtime, &stats));
    assert_int_equal(stats.guards_broken, 0);
    exec_kit_close(&kit);
}

static uint64_t capacity_with(const char* memory) {
    exec_kit kit;
    open_on(&kit, "dry", "memory", memory);
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit.runtime, &stats));
    exec_kit_close(&kit);
    return stats.capacity_bytes;
}

static void it_has_what_is_asked_for_or_what_the_machine_has(void** state) {
    (void)state;
    assert_int_equal(capacity_with("6M"), 6 << 20);
    assert_int_equal(capacity_with("80G"), 80ull << 30);
    const uint64_t all = capacity_with("unlimited");
    const uint64_t half = capacity_with("50%");
    assert_in_range(half, all / 2 - (2 << 20), all / 2 + (2 << 20));
}

static berth_tensor* run_once(berth_context* ctx) { return run_ops(ctx, 100); }

static void a_host_allocation_that_fails_anywhere_is_survived(void** state) {
    (void)state;
    exec_kit_fail_every_allocation("dry", run_once);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_learn_plan_and_hit_as_on_the_cpu),
        cmocka_unit_test(memory_is_refused_at_the_same_size_as_on_the_cpu),
        cmocka_unit_test(a_step_that_cannot_fit_is_refused_before_anything_runs),
        cmocka_unit_test(memory_that_no_machine_has_is_promised_and_accounted),
        cmocka_unit_test(what_is_read_is_zero_and_the_hosts_reach_ends_there),
        cmocka_unit_test(memory_of_the_host_is_an_operand_that_nobody_reads),
        cmocka_unit_test(ops_that_count_find_nothing),
        cmocka_unit_test(indices_are_not_looked_at),
        cmocka_unit_test(the_options_for_debugging_find_nothing_wrong),
        cmocka_unit_test(it_has_what_is_asked_for_or_what_the_machine_has),
        cmocka_unit_test(a_host_allocation_that_fails_anywhere_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
