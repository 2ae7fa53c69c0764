// SPDX-License-Identifier: Apache-2.0
// Random programs that start with a plan file, their own or one of programs that call other steps
// by the same names: the same bits as without plans.
#include "files/file_kit.h"
#include "kit/program.h"

enum { SEEDS = 40, RUNS = 10 };

typedef struct fixture {
    file_kit files;
    char path[400];
} fixture;

static int set_up(void** state) {
    static fixture f;
    f = (fixture){0};
    *state = &f;
    if (!file_kit_open_folder(&f.files)) return -1;
    snprintf(f.path, sizeof f.path, "%s/plans", f.files.folder);
    return 0;
}

static int tear_down(void** state) {
    fixture* f = *state;
    file_kit_close_folder(&f->files);
    return 0;
}

static program_result run_with(const fixture* f, uint64_t seed) {
    const program_way way = {.name = "with a plan file",
                             .settings = {{"threads", "1"}, {"plan_cache_file", f->path}},
                             .count = 2};
    const program_result result = program_run(seed, RUNS, &way);
    if (result.failure[0] != '\0')
        fail_msg("program %llu: %s", (unsigned long long)seed, result.failure);
    return result;
}

static void expect_same(uint64_t seed, const program_result* result) {
    const program_result expected = program_run(seed, RUNS, &program_reference);
    if (result->digest != expected.digest || result->ops != expected.ops)
        fail_msg("program %llu computes something else", (unsigned long long)seed);
}

static void a_program_that_starts_again_computes_the_same_with_more_hits(void** state) {
    fixture* f = *state;
    uint64_t first_hits = 0, second_hits = 0;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        const program_result first = run_with(f, seed);
        const program_result second = run_with(f, seed);
        expect_same(seed, &first);
        expect_same(seed, &second);
        first_hits += first.hits;
        second_hits += second.hits;
        assert_int_equal(remove(f->path), 0);
    }
    assert_true(second_hits > first_hits);
}

static void programs_that_share_a_file_and_names_compute_the_same(void** state) {
    fixture* f = *state;
    for (uint64_t seed = 1000; seed < 1000 + SEEDS; ++seed) {
        const program_result result = run_with(f, seed);
        expect_same(seed, &result);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_program_that_starts_again_computes_the_same_with_more_hits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            programs_that_share_a_file_and_names_compute_the_same, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
