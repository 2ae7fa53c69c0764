// SPDX-License-Identifier: Apache-2.0
// Random programs give the same bits however their memory is managed.
#include "base/op_map.h"
#include "kit/program.h"
#include "kit/test.h"

enum { PROGRAMS = 1000, RUNS = 9 };

/// A way to manage memory: up to four settings.
typedef struct memory_way {
    berth_option_setting settings[4];
    size_t count;
} memory_way;

static const char* const names[BERTH_OP_COUNT] = {
#define OP_NAME(id, name) [BERTH_OP_##id] = name,
    BERTH_OP_MAP(OP_NAME)
#undef OP_NAME
};
_Static_assert((int)BERTH_OP_COUNT <= PROGRAM_MOST_OPS, "every op is counted");

static const memory_way reference = {{{"mode", "pool"}, {"threads", "1"}}, 2};
static const memory_way planned[] = {
    {{{"threads", "1"}}, 1},
    {{{"device", "sim"}}, 1},
    {{{"device", "sim"}, {"keep", "none"}, {"buckets", "pow2"}}, 3},
    {{{"threads", "1"}, {"mode", "plan"}, {"plan_quantum", "0"}, {"buckets", "linear:8"}}, 4},
};

static void programs_give_the_same_bits_planned_and_not(void** state) {
    (void)state;
    uint64_t hits = 0, exits = 0;
    uint64_t drawn[PROGRAM_MOST_OPS] = {0};
    for (uint64_t seed = 1; seed <= PROGRAMS; ++seed) {
        const program_result expected =
            program_run(seed, RUNS, reference.settings, reference.count);
        const memory_way* way = &planned[seed % (sizeof planned / sizeof planned[0])];
        const program_result result = program_run(seed, RUNS, way->settings, way->count);
        if (expected.failure[0] != '\0')
            fail_msg("program %u: %s", (unsigned)seed, expected.failure);
        if (result.failure[0] != '\0') fail_msg("program %u: %s", (unsigned)seed, result.failure);
        if (result.digest != expected.digest || result.ops != expected.ops)
            fail_msg("program %u computes something else when planned", (unsigned)seed);
        hits += result.hits;
        exits += result.exits;
        for (size_t i = 0; i < BERTH_OP_COUNT; ++i)
            drawn[i] += result.drawn[i];
    }
    // the programs exercise what they are for
    for (size_t i = 0; i < BERTH_OP_COUNT; ++i)
        if (drawn[i] == 0) fail_msg("no program draws %s", names[i]);
    assert_true(hits > PROGRAMS);
    assert_true(exits > PROGRAMS / 10);
}

static void the_systems_allocator_gives_the_same_bits(void** state) {
    (void)state;
    const berth_option_setting settings[] = {{"mode", "system"}, {"threads", "1"}};
    for (uint64_t seed = 1; seed <= PROGRAMS / 20; ++seed) {
        const program_result expected =
            program_run(seed, RUNS, reference.settings, reference.count);
        const program_result result = program_run(seed, RUNS, settings, 2);
        if (result.failure[0] != '\0') fail_msg("program %u: %s", (unsigned)seed, result.failure);
        assert_int_equal(result.digest, expected.digest);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_give_the_same_bits_planned_and_not),
        cmocka_unit_test(the_systems_allocator_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
