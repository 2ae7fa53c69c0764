// SPDX-License-Identifier: Apache-2.0
// Partners that become one: which of them do, and that what comes back is a packing of all.
#include "plan/packing_merge.h"

#include "kit/test.h"

#include "base/host.h"
#include "plan/wishes_kit.h"

/// A problem made ready, and one plain part of it.
typedef struct merged {
    berth_packing_load load;
    berth_packer packer;
    berth_packing_merge merge;
    bool made;
} merged;

static merged* merge_all(const berth_pack_problem* problem, berth_packing_joining joining) {
    static merged self;
    assert_ok(berth_packing_load_init(&self.load, berth_host_default(), problem));
    assert_int_equal(self.load.part_count, 1);
    berth_packer_init(&self.packer, &self.load, 0);
    self.made = berth_packing_merge_init(&self.merge, &self.packer, joining);
    return &self;
}

static void merged_fini(merged* self) {
    berth_packing_merge_fini(&self->merge);
    berth_packer_fini(&self->packer);
    berth_packing_load_fini(&self->load);
}

static uint32_t joined_in(const berth_pack_problem* problem, berth_packing_joining joining) {
    merged* self = merge_all(problem, joining);
    assert_true(self->made);
    const uint32_t joined = self->merge.joined;
    assert_int_equal(self->merge.plain.count, problem->count - joined);
    merged_fini(self);
    return joined;
}

/// A chain of buffers of equal, smaller and larger size.
static const berth_interval chain[] = {{8, 0, 3}, {8, 2, 5}, {4, 4, 7}, {6, 6, 9}};
static const berth_pack_in_place links[] = {{0, 1}, {1, 2}, {2, 3}};

static void sizes_decide_which_partners_become_one(void** state) {
    (void)state;
    const berth_pack_problem problem = {
        .intervals = chain, .count = 4, .in_place = links, .in_place_count = 3};
    assert_int_equal(joined_in(&problem, BERTH_PACKING_JOIN_NONE), 0);
    assert_int_equal(joined_in(&problem, BERTH_PACKING_JOIN_EQUAL), 1);
    assert_int_equal(joined_in(&problem, BERTH_PACKING_JOIN_SHRINKING), 2);
    assert_int_equal(joined_in(&problem, BERTH_PACKING_JOIN_ALL), 3);
}

static void a_chain_is_cut_where_its_ends_would_meet(void** state) {
    (void)state;
    // The one between lives for a moment, at which both of its partners live too.
    const berth_interval items[] = {{8, 0, 3}, {8, 2, 3}, {8, 2, 5}};
    const berth_pack_in_place pairs[] = {{0, 1}, {1, 2}};
    const berth_pack_problem problem = {
        .intervals = items, .count = 3, .in_place = pairs, .in_place_count = 2};
    assert_int_equal(joined_in(&problem, BERTH_PACKING_JOIN_EQUAL), 1);
    uint64_t offsets[3];
    berth_pack_result result;
    const berth_pack_options options = {.budget_steps = 100};
    assert_ok(berth_pack(&problem, &options, offsets, &result));
    assert_true(test_wishes_are_met(&problem, offsets, 3));
    assert_int_equal(result.peak, 16);
}

static void partners_in_a_circle_stay_apart(void** state) {
    (void)state;
    const berth_interval items[] = {{8, 2, 3}, {8, 2, 3}};
    const berth_pack_in_place pairs[] = {{0, 1}, {1, 0}};
    const berth_pack_problem problem = {
        .intervals = items, .count = 2, .in_place = pairs, .in_place_count = 2};
    assert_int_equal(joined_in(&problem, BERTH_PACKING_JOIN_ALL), 0);
}

static void sizes_are_rounded_until_offsets_are_aligned(void** state) {
    (void)state;
    const berth_interval items[] = {{5, 0, 3}, {7, 0, 3}, {3, 0, 3}};
    const uint64_t alignments[] = {1, 4, 2};
    const berth_pack_problem problem = {.intervals = items, .count = 3, .alignments = alignments};
    merged* self = merge_all(&problem, BERTH_PACKING_JOIN_NONE);
    assert_true(self->made);
    assert_int_equal(self->merge.plain.lower_bound, 8 + 8 + 4);
    merged_fini(self);
}

static void given_offsets_are_not_for_plain_packings(void** state) {
    (void)state;
    const uint64_t fixed[] = {BERTH_PACK_ANYWHERE, 8, BERTH_PACK_ANYWHERE, BERTH_PACK_ANYWHERE};
    const berth_pack_problem problem = {.intervals = chain,
                                        .count = 4,
                                        .fixed_offsets = fixed,
                                        .in_place = links,
                                        .in_place_count = 3};
    merged* self = merge_all(&problem, BERTH_PACKING_JOIN_ALL);
    assert_false(self->made);
    merged_fini(self);
}

#define STREAMS 5u
#define LINKS 16u

/// Values that ops change in place, one beside the other, each with a buffer of its own per op.
static void chains_in_place_are_packed_to_their_bound(void** state) {
    (void)state;
    test_random random = test_random_make(31);
    for (int round = 0; round < 30; round++) {
        berth_interval items[2 * STREAMS * LINKS];
        berth_pack_in_place pairs[STREAMS * LINKS];
        uint64_t offsets[2 * STREAMS * LINKS];
        size_t count = 0, pair_count = 0;
        for (uint32_t stream = 0; stream < STREAMS; stream++) {
            const uint64_t bytes = 1 + test_random_below(&random, 60);
            uint32_t now = (uint32_t)test_random_below(&random, 20);
            for (uint32_t link = 0; link < LINKS; link++) {
                const uint32_t end = now + 2 + (uint32_t)test_random_below(&random, 6);
                if (link > 0)
                    pairs[pair_count++] =
                        (berth_pack_in_place){(uint32_t)count - 2, (uint32_t)count};
                items[count++] = (berth_interval){bytes, now, end};
                items[count++] = (berth_interval){
                    1 + test_random_below(&random, 30), now, now + (end - now + 1) / 2};
                now = end - 1;
            }
        }
        const berth_pack_problem problem = {
            .intervals = items, .count = count, .in_place = pairs, .in_place_count = pair_count};
        const berth_pack_options options = {.budget_steps = 200000};
        berth_pack_result result;
        assert_ok(berth_pack(&problem, &options, offsets, &result));
        berth_pack_verdict verdict;
        assert_ok(berth_pack_verify(&problem, offsets, &verdict));
        assert_true(verdict.valid);
        assert_int_equal(verdict.peak, result.peak);
        assert_true(result.proved);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_decide_which_partners_become_one),
        cmocka_unit_test(a_chain_is_cut_where_its_ends_would_meet),
        cmocka_unit_test(partners_in_a_circle_stay_apart),
        cmocka_unit_test(sizes_are_rounded_until_offsets_are_aligned),
        cmocka_unit_test(given_offsets_are_not_for_plain_packings),
        cmocka_unit_test(chains_in_place_are_packed_to_their_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
