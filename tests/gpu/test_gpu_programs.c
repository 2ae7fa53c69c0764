// SPDX-License-Identifier: Apache-2.0
// Random programs on a GPU give the same bits however their memory is managed. Skipped where there
// is no GPU.
//
// usage: test_gpu_programs [PROGRAMS]
#include <stdio.h>
#include <stdlib.h>

#include "kit/program.h"
#include "kit/test.h"

enum { RUNS = 9, SKIPPED = 77 };

static uint64_t program_count = 60;

// clang-format off
static const program_way reference = {
    "pool", {{"device", "cuda"}, {"mode", "pool"}}, 2, false, false};

static const program_way ways[] = {
    {"planned, order checked", {{"device", "cuda"}, {"check_order", "1"}}, 2, false, false},
    {"tampered with", {{"device", "cuda"}, {"mode", "plan"}, {"plan_quantum", "0"}}, 3, true, false},
    {"trimmed, pow2 buckets", {{"device", "cuda"}, {"keep", "none"}, {"buckets", "pow2"}}, 3,
     false, false},
    {"moved at every op", {{"device", "cuda"}, {"compact", "always"}, {"keep", "none"}}, 3,
     false, false},
    {"pool, moved at every op", {{"device", "cuda"}, {"mode", "pool"}, {"compact", "always"}}, 3,
     false, false},
    {"short of memory", {{"device", "cuda"}, {"memory", "64M"}, {"check_order", "1"}}, 3,
     false, true},
};
// clang-format on

static void programs_on_the_gpu_give_the_same_bits_planned_and_not(void** state) {
    (void)state;
    uint64_t hits = 0;
    for (uint64_t seed = 1; seed <= program_count; ++seed) {
        const program_way* way = &ways[seed % (sizeof ways / sizeof ways[0])];
        const program_result expected = program_run(seed, RUNS, &reference);
        const program_result result = program_run(seed, RUNS, way);
        if (expected.failure[0] != '\0')
            fail_msg("program %u: %s", (unsigned)seed, expected.failure);
        if (result.failure[0] != '\0')
            fail_msg("program %u (%s): %s", (unsigned)seed, way->name, result.failure);
        if (result.digest != expected.digest || result.ops != expected.ops)
            fail_msg("program %u (%s) computes something else", (unsigned)seed, way->name);
        hits += result.hits;
    }
    if (program_count > 20) assert_true(hits > program_count / 2); // or nothing was tried
}

int main(int count, char** arguments) {
    if (count > 1) program_count = strtoull(arguments[1], NULL, 10);
    const berth_option_setting settings[] = {{"device", "cuda"}};
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = 1};
    berth_runtime* runtime;
    if (berth_runtime_create(&options, &runtime) != BERTH_OK) {
        print_message("skipped: %s\n", berth_last_error());
        return SKIPPED;
    }
    berth_runtime_release(runtime);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_on_the_gpu_give_the_same_bits_planned_and_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
