// SPDX-License-Identifier: Apache-2.0
// Random programs on the CUDA device give the same bits however their memory is managed: on the
// stand-in for the driver, whose memory the host cannot touch and which notes what a driver does
// not promise to bear.
#include "cuda/cuda_kit.h"
#include "kit/program.h"
#include "kit/test.h"

enum { RUNS = 5 };

static uint64_t programs = 16; ///< a way's twice; the program's argument is another number

// clang-format off
/// What the others are compared with: products and functions of floats are not the CPU's.
static const program_way reference = {"pool", {{"mode", "pool"}}, 1, false, false};

static const program_way ways[] = {
    {"plain", {{"keep", "auto"}}, 1, false, false},
    {"order checked, tampered with",
     {{"mode", "plan"}, {"check_order", "1"}, {"plan_quantum", "0"}}, 3, true, false},
    {"trimmed, noted", {{"keep", "none"}, {"leaks", "1"}, {"check_order", "1"}}, 3, false, false},
    {"moved at every op", {{"compact", "always"}, {"keep", "none"}}, 2, false, false},
    {"short of memory", {{"memory", "8M"}, {"check_order", "1"}}, 2, false, true},
    {"short of memory, moved at every op, poison",
     {{"memory", "6M"}, {"compact", "always"}, {"poison", "both"}}, 3, false, true},
    {"guards", {{"guard", "1"}, {"strict", "1"}}, 2, false, false},
    {"pool, moved at every op", {{"mode", "pool"}, {"compact", "always"}}, 2, false, false},
};
// clang-format on
enum { WAYS = sizeof ways / sizeof ways[0] };

static void programs_give_the_same_bits_planned_and_not(void** state) {
    (void)state;
    uint64_t hits = 0;
    for (uint64_t seed = 1; seed <= programs; ++seed) {
        const program_way* way = &ways[seed % WAYS];
        cuda_kit_reset(0);
        const program_result expected = program_run(seed, RUNS, &reference);
        if (expected.failure[0] != '\0')
            fail_msg("program %u: %s", (unsigned)seed, expected.failure);
        cuda_kit_reset((seed - 1) / WAYS % 2 == 0 ? 0 : seed); // some with work that runs on
        const program_result result = program_run(seed, RUNS, way);
        if (result.failure[0] != '\0')
            fail_msg("program %u (%s): %s", (unsigned)seed, way->name, result.failure);
        if (result.digest != expected.digest || result.ops != expected.ops)
            fail_msg("program %u (%s) computes something else", (unsigned)seed, way->name);
        cuda_kit_assert_clean();
        hits += result.hits;
    }
    assert_true(hits > programs / 2);
}

int main(int argc, char** argv) {
    if (argc > 1) programs = strtoull(argv[1], NULL, 10);
    cuda_kit_set_environment();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_give_the_same_bits_planned_and_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
