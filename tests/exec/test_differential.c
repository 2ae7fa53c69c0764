// SPDX-License-Identifier: Apache-2.0
// Random programs give the same bits however their memory is managed.
#include "base/op_map.h"
#include "kit/program.h"
#include "kit/test.h"

enum { PROGRAMS = 2000, RUNS = 9 };

static const char* const names[BERTH_OP_COUNT] = {
#define OP_NAME(id, name) [BERTH_OP_##id] = name,
    BERTH_OP_MAP(OP_NAME)
#undef OP_NAME
};
_Static_assert((int)BERTH_OP_COUNT <= PROGRAM_MOST_OPS, "every op is counted");

static void programs_give_the_same_bits_planned_and_not(void** state) {
    (void)state;
    size_t way_count;
    const program_way* ways = program_ways(&way_count);
    uint64_t hits = 0, exits = 0, switches = 0;
    uint64_t drawn[PROGRAM_MOST_OPS] = {0};
    for (uint64_t seed = 1; seed <= PROGRAMS; ++seed) {
        const program_result expected = program_run(seed, RUNS, &program_reference);
        const program_way* way = &ways[seed % way_count];
        const program_result result = program_run(seed, RUNS, way);
        if (expected.failure[0] != '\0')
            fail_msg("program %u: %s", (unsigned)seed, expected.failure);
        if (result.failure[0] != '\0')
            fail_msg("program %u (%s): %s", (unsigned)seed, way->name, result.failure);
        if (result.digest != expected.digest || result.ops != expected.ops)
            fail_msg("program %u (%s) computes something else", (unsigned)seed, way->name);
        hits += result.hits;
        exits += result.exits;
        switches += result.switches;
        for (size_t i = 0; i < BERTH_OP_COUNT; ++i)
            drawn[i] += result.drawn[i];
    }
    // the programs exercise what they are for
    for (size_t i = 0; i < BERTH_OP_COUNT; ++i)
        if (drawn[i] == 0) fail_msg("no program draws %s", names[i]);
    assert_true(hits > PROGRAMS);
    assert_true(exits > PROGRAMS / 10);
    assert_true(switches > PROGRAMS / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_give_the_same_bits_planned_and_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
