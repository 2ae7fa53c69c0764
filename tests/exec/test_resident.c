// SPDX-License-Identifier: Apache-2.0
// What the books call mapped is what the system has populated, to the byte: Rss over the address
// ranges of all spaces, in /proc/self/smaps.
#include "exec_kit.h"

#include <inttypes.h>
#include <stdio.h>

#include "device/cpu/cpu_device.h"

enum { CONTEXTS = 3, LIVE = 24, ROUNDS = 60, ROUNDS_A_LOOK = 4 };

typedef struct range {
    uintptr_t begin;
    uintptr_t end;
} range;

typedef struct ranges {
    range items[64];
    size_t count;
} ranges;

static void add_range(const berth_space* space, void* argument) {
    ranges* all = argument;
    assert_true(all->count < 64);
    const uintptr_t begin = (uintptr_t)space->base;
    all->items[all->count++] = (range){begin, begin + space->size_bytes};
}

/// True if the mapping [begin, end) is inside one of the ranges; none reaches over a border.
static bool is_inside(const ranges* all, uintptr_t begin, uintptr_t end) {
    for (size_t i = 0; i < all->count; i++) {
        const range* r = &all->items[i];
        if (begin >= r->end || end <= r->begin) continue;
        assert_true(begin >= r->begin && end <= r->end);
        return true;
    }
    return false;
}

/// Sum of Rss over the mappings in the spaces of `device`.
static uint64_t resident_bytes(berth_device* device) {
    ranges all = {.count = 0};
    berth_cpu_device_visit_spaces(device, add_range, &all);
    FILE* file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    char line[512];
    bool inside = false;
    uint64_t sum = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        uintptr_t begin, end;
        uint64_t kib;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
            inside = is_inside(&all, begin, end);
        if (inside && sscanf(line, "Rss: %" SCNu64 " kB", &kib) == 1) sum += kib * 1024;
    }
    (void)fclose(file);
    return sum;
}

static uint64_t mapped_bytes(berth_runtime* runtime) {
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(runtime, &stats));
    return stats.mapped_bytes;
}

static void expect_books_and_system_agree(berth_runtime* runtime) {
    assert_int_equal(resident_bytes(runtime->device), mapped_bytes(runtime));
}

typedef struct resident_kit {
    berth_runtime* runtime;
    berth_context* contexts[CONTEXTS];
    berth_tensor* live[LIVE];
    test_random random;
} resident_kit;

/// Memory ages at steps' ends or never: in a thread it would do so between the looks at the system
/// and at the books.
static void open_kit(resident_kit* kit, const char* huge, const char* prealloc, const char* decay) {
    *kit = (resident_kit){.random = test_random_make(44)};
    const berth_option_setting settings[] = {
        {"threads", "1"},
        {"huge", huge},
        {"prealloc", prealloc},
        {"memory", "512M"},
        {"decay_ms", decay},
    };
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = 5};
    assert_ok(berth_runtime_create(&options, &kit->runtime));
    for (int i = 0; i < CONTEXTS; i++)
        assert_ok(berth_context_create(kit->runtime, &kit->contexts[i]));
}

static void close_kit(resident_kit* kit) {
    berth_release_array(kit->live, LIVE);
    for (int i = 0; i < CONTEXTS; i++)
        berth_context_release(kit->contexts[i]);
    berth_runtime_release(kit->runtime);
}

/// A step, whose result lives on for a while: small, medium and large ones.
static void run_round(resident_kit* kit) {
    test_random* random = &kit->random;
    berth_context* ctx = kit->contexts[test_random_below(random, CONTEXTS)];
    const int64_t rows = 1 + (int64_t)test_random_below(random, 300);
    const int64_t dims[] = {rows, 4096};
    assert_ok(exec_kit_begin(ctx, "round", rows));
    berth_tensor* x = berth_ones(ctx, BERTH_F32, 2, dims);
    berth_tensor* y = berth_add(ctx, x, x);
    berth_tensor* z = berth_mul(ctx, berth_move(y), x);
    berth_release(x);
    assert_ok(berth_step_end(ctx));
    assert_context_ok(ctx);
    berth_tensor** slot = &kit->live[test_random_below(random, LIVE)];
    berth_release(*slot);
    *slot = z;
    const int64_t few = 1 + (int64_t)test_random_below(random, 5000);
    slot = &kit->live[test_random_below(random, LIVE)];
    berth_release(*slot);
    *slot = berth_ones(ctx, BERTH_F32, 1, &few);
    if (test_random_below(random, 8) == 0)
        assert_ok(berth_trim(kit->runtime, test_random_below(random, 3) << 21, NULL));
}

static void check(const char* huge, const char* prealloc, const char* decay) {
    resident_kit kit;
    open_kit(&kit, huge, prealloc, decay);
    expect_books_and_system_agree(kit.runtime);
    for (int i = 0; i < ROUNDS; i++) {
        run_round(&kit);
        if (i % ROUNDS_A_LOOK == 0) expect_books_and_system_agree(kit.runtime);
    }
    assert_true(mapped_bytes(kit.runtime) > 0);
    berth_release_array(kit.live, LIVE);
    memset(kit.live, 0, sizeof kit.live);
    expect_books_and_system_agree(kit.runtime);
    assert_ok(berth_trim(kit.runtime, 0, NULL));
    expect_books_and_system_agree(kit.runtime);
    close_kit(&kit);
}

static void with_huge_pages_mapped_is_populated(void** state) {
    (void)state;
    check("madvise", "0", "unlimited");
    check("madvise", "0", "0");
}

static void with_small_pages_mapped_is_populated(void** state) {
    (void)state;
    check("off", "0", "unlimited");
    check("off", "0", "0");
}

static void what_is_mapped_ahead_is_populated(void** state) {
    (void)state;
    check("madvise", "32M", "unlimited");
    check("off", "32M", "0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_huge_pages_mapped_is_populated),
        cmocka_unit_test(with_small_pages_mapped_is_populated),
        cmocka_unit_test(what_is_mapped_ahead_is_populated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
