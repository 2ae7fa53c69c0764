// SPDX-License-Identifier: Apache-2.0
// The search for packings: against the truth for tiny problems, on public ones, and when it is
// stopped.
#include "kit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/host.h"
#include "kit/failing_host.h"
#include "kit/random.h"
#include "plan/packing.h"
#include "plan/public_problems.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define MANY 480u

/// Public problems, and steps that suffice with a few to spare.
#define PROVED_PROBLEMS "ABCEFGHIK"
#define PROVED_STEPS 4000000

static berth_interval items[MANY];
static uint64_t offsets[MANY];

static void random_items(test_random* random, size_t count, uint64_t largest) {
    for (size_t i = 0; i < count; i++) {
        const uint32_t start = (uint32_t)test_random_below(random, count);
        items[i] = (berth_interval){1 + test_random_below(random, largest),
                                    start,
                                    start + 1 + (uint32_t)test_random_below(random, count / 2)};
    }
}

static berth_pack_result search(size_t count, uint64_t seed, uint64_t steps) {
    const berth_pack_problem problem = {.intervals = items, .count = count};
    const berth_pack_options options = {.seed = seed, .budget_steps = steps};
    berth_pack_result result;
    assert_ok(berth_pack(&problem, &options, offsets, &result));
    berth_pack_verdict verdict;
    assert_ok(berth_pack_verify(&problem, offsets, &verdict));
    assert_true(verdict.valid);
    assert_int_equal(verdict.peak, result.peak);
    assert_true(verdict.lower_bound <= result.lower_bound);
    assert_true(result.lower_bound <= result.peak);
    assert_int_equal(result.proved, result.peak == result.lower_bound);
    return result;
}

// ---- The truth: every sequence of placing items, each at 0 or on top of another.

typedef struct exhaustive {
    size_t count;
    uint64_t at[10];
    bool placed[10];
    uint64_t best;
} exhaustive;

static bool meet(size_t a, size_t b) {
    return items[a].start < items[b].end && items[b].start < items[a].end;
}

static bool is_free(const exhaustive* self, size_t item, uint64_t at) {
    for (size_t k = 0; k < self->count; k++)
        if (self->placed[k] && meet(k, item) && at < self->at[k] + items[k].size &&
            self->at[k] < at + items[item].size)
            return false;
    return true;
}

/// Items are placed at ascending offsets.
static void exhaust(exhaustive* self, size_t placed, uint64_t last, uint64_t peak) {
    if (peak >= self->best) return;
    if (placed == self->count) {
        self->best = peak;
        return;
    }
    for (size_t i = 0; i < self->count; i++) {
        if (self->placed[i]) continue;
        uint64_t at = 0;
        for (size_t k = 0; k < self->count; k++)
            if (self->placed[k] && meet(k, i) && self->at[k] + items[k].size > at)
                at = self->at[k] + items[k].size;
        if (at < last || !is_free(self, i, at)) continue;
        self->placed[i] = true;
        self->at[i] = at;
        exhaust(self, placed + 1, at, at + items[i].size > peak ? at + items[i].size : peak);
        self->placed[i] = false;
    }
}

static void check_optimum(size_t count, uint64_t seed) {
    const berth_pack_result result = search(count, seed, 1000000);
    assert_true(result.proved);
    exhaustive truth = {.count = count, .best = result.peak + 1};
    exhaust(&truth, 0, 0, 0);
    assert_int_equal(truth.best, result.peak);
}

static void tiny_problems_are_packed_to_the_proved_optimum(void** state) {
    (void)state;
    test_random random = test_random_make(11);
    for (int round = 0; round < 1500; round++) {
        const size_t count = 4 + (size_t)test_random_below(&random, 5);
        random_items(&random, count, 12);
        check_optimum(count, (uint64_t)round);
    }
}

/// Small problems that need more bytes than are ever alive; the first has two items less.
static const berth_interval above_bound[][10] = {
    {{11, 17, 18},
     {8, 12, 18},
     {13, 9, 10},
     {7, 10, 13},
     {3, 11, 13},
     {12, 9, 11},
     {1, 10, 12},
     {7, 11, 13}},
    {{1, 15, 18},
     {4, 16, 17},
     {7, 8, 9},
     {1, 8, 17},
     {5, 17, 18},
     {4, 8, 14},
     {7, 8, 9},
     {6, 13, 16},
     {5, 16, 18},
     {8, 13, 18}},
    {{8, 14, 19},
     {12, 3, 8},
     {6, 3, 8},
     {14, 14, 19},
     {1, 7, 15},
     {10, 3, 4},
     {6, 18, 19},
     {7, 7, 13},
     {5, 12, 15},
     {2, 7, 8}},
};

static void shuffle(test_random* random, size_t count) {
    for (size_t i = count; i > 1; i--) {
        const size_t other = (size_t)test_random_below(random, i);
        const berth_interval item = items[i - 1];
        items[i - 1] = items[other];
        items[other] = item;
    }
}

static void problems_that_cannot_meet_their_bound_are_proved_above_it(void** state) {
    (void)state;
    test_random random = test_random_make(14);
    for (int round = 0; round < 18; round++) {
        const size_t which = (size_t)round % COUNT(above_bound);
        const size_t count = which == 0 ? 8 : 10;
        const bool mirrored = test_random_one_in(&random, 2);
        const uint64_t scale = 1 + test_random_below(&random, 9);
        for (size_t i = 0; i < count; i++) {
            items[i] = above_bound[which][i];
            items[i].size *= scale;
            if (!mirrored) continue;
            items[i].start = 20 - above_bound[which][i].end;
            items[i].end = 20 - above_bound[which][i].start;
        }
        shuffle(&random, count);
        check_optimum(count, (uint64_t)round);
        const berth_pack_problem problem = {.intervals = items, .count = count};
        berth_pack_verdict verdict;
        assert_ok(berth_pack_verify(&problem, offsets, &verdict));
        assert_true(verdict.lower_bound < verdict.peak);
    }
}

static void a_search_by_steps_repeats_exactly_and_keeps_its_budget(void** state) {
    (void)state;
    test_random random = test_random_make(12);
    uint64_t again[MANY];
    for (int round = 0; round < 3; round++) {
        random_items(&random, 120, 900);
        const berth_pack_result first = search(120, 7, 20000);
        memcpy(again, offsets, sizeof again);
        const berth_pack_result second = search(120, 7, 20000);
        assert_memory_equal(offsets, again, 120 * sizeof *offsets);
        assert_int_equal(first.steps, second.steps);
        assert_int_equal(first.peak, second.peak);
        assert_true(first.steps <= 22000);
        assert_true(search(120, 7, 0).peak >= first.peak);
    }
}

static bool refuse(void* user, const berth_pack_progress* progress) {
    unsigned* calls = user;
    assert_true(progress->lower_bound <= progress->peak);
    ++*calls;
    return false;
}

/// Sizes of no common measure.
static void make_hard(size_t count) {
    test_random random = test_random_make(13);
    for (size_t i = 0; i < count; i++) {
        const uint32_t start = (uint32_t)test_random_below(&random, count);
        items[i] = (berth_interval){(UINT64_C(1) << 33) + test_random_below(&random, 1u << 30),
                                    start,
                                    start + 1 + (uint32_t)test_random_below(&random, 60)};
    }
}

static void a_search_ends_with_a_valid_packing_when_it_is_told_to(void** state) {
    (void)state;
    test_random random = test_random_make(13);
    random_items(&random, 460, UINT64_C(1) << 34); // far from solved within the first report
    unsigned calls = 0;
    const berth_pack_problem problem = {.intervals = items, .count = 460};
    const berth_pack_options options = {
        .budget_ns = UINT64_C(3600000000000), .on_progress = refuse, .user = &calls};
    berth_pack_result result;
    assert_ok(berth_pack(&problem, &options, offsets, &result));
    assert_int_equal(calls, 1);
    berth_pack_verdict verdict;
    assert_ok(berth_pack_verify(&problem, offsets, &verdict));
    assert_true(verdict.valid);
    assert_int_equal(verdict.peak, result.peak);
}

static void a_search_ends_at_the_capacity_that_is_enough(void** state) {
    (void)state;
    make_hard(200);
    const uint64_t quick = search(200, 0, 0).peak;
    const berth_pack_problem problem = {.intervals = items, .count = 200};
    const berth_pack_options options = {.budget_steps = 4000000, .capacity = quick - 1};
    berth_pack_result result;
    assert_ok(berth_pack(&problem, &options, offsets, &result));
    assert_true(result.peak < quick);
    assert_true(result.steps < 4000000);
}

static void a_search_without_memory_leaves_the_best_packing_so_far(void** state) {
    (void)state;
    failing_host failing;
    failing_host_init(&failing);
    berth_host* host;
    assert_ok(berth_host_create(&failing.allocator, &host));
    make_hard(100);
    const berth_pack_problem problem = {.intervals = items, .count = 100};
    const berth_pack_options options = {.budget_steps = 30000};
    bool failed = true;
    for (size_t nth = 1; failed; nth++) {
        failing_host_fail(&failing, nth, false);
        berth_pack_result result;
        const berth_status status = berth_packing_solve(host, &problem, &options, offsets, &result);
        failed = failing_host_has_failed(&failing);
        if (status != BERTH_OK) {
            assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
            continue;
        }
        berth_pack_verdict verdict;
        assert_ok(berth_pack_verify(&problem, offsets, &verdict));
        assert_true(verdict.valid);
        assert_int_equal(verdict.peak, result.peak);
    }
    failing_host_fail(&failing, 0, false);
    berth_host_destroy(host);
    assert_int_equal(failing.live_blocks, 0);
}

static void the_part_that_decides_the_peak_is_improved(void** state) {
    (void)state;
    // Two copies of one problem that greedy rules get wrong, one after the other.
    make_hard(150);
    for (size_t i = 0; i < 150; i++) {
        items[150 + i] = items[i];
        items[150 + i].start += 1000;
        items[150 + i].end += 1000;
        items[150 + i].size += 3;
    }
    const uint64_t quick = search(300, 0, 0).peak;
    assert_true(search(300, 0, 1000000).peak < quick);
}

// ---- Public problems.

static void public_problems_are_packed_to_their_bound(void** state) {
    (void)state;
    for (const char* name = PROVED_PROBLEMS; *name != '\0'; name++) {
        char file[64];
        snprintf(file, sizeof file, "minimalloc/challenging/%c.1048576.csv", *name);
        const size_t count = public_problem_load(file, items, MANY);
        const berth_pack_result result = search(count, 0, PROVED_STEPS);
        if (!result.proved) fail_msg("%c: %llu", *name, (unsigned long long)result.peak);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_problems_are_packed_to_the_proved_optimum),
        cmocka_unit_test(problems_that_cannot_meet_their_bound_are_proved_above_it),
        cmocka_unit_test(a_search_by_steps_repeats_exactly_and_keeps_its_budget),
        cmocka_unit_test(a_search_ends_with_a_valid_packing_when_it_is_told_to),
        cmocka_unit_test(a_search_ends_at_the_capacity_that_is_enough),
        cmocka_unit_test(a_search_without_memory_leaves_the_best_packing_so_far),
        cmocka_unit_test(the_part_that_decides_the_peak_is_improved),
        cmocka_unit_test(public_problems_are_packed_to_their_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
