// SPDX-License-Identifier: Apache-2.0
// The rests-on relation: safe and monotone at every size (P1, P2), and small.
#include "kit/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "kit/failing_host.h"
#include "kit/random.h"
#include "plan/packing.h"
#include "plan/relation.h"
#include "plan/verify.h"

#define MOST 200u

typedef struct problem {
    size_t count;
    berth_interval items[MOST];
    uint64_t offsets[MOST];
    uint64_t sizes[MOST];
    uint64_t tops[MOST];
} problem;

static void make_problem(problem* self, test_random* random) {
    self->count = 1 + (size_t)test_random_below(random, MOST);
    uint32_t now = 0;
    for (size_t i = 0; i < self->count; i++) {
        now += (uint32_t)test_random_below(random, 3);
        const uint64_t size = test_random_one_in(random, 10) ? 0 : test_random_below(random, 5000);
        const uint32_t life = test_random_one_in(random, 12) ? 150 : 9;
        self->items[i] =
            (berth_interval){size, now, now + 1 + (uint32_t)test_random_below(random, life)};
    }
    berth_pack_result result;
    const berth_pack_problem packed = {.intervals = self->items, .count = self->count};
    assert_ok(berth_packing_solve(berth_host_default(), &packed, NULL, self->offsets, &result));
}

static bool is_valid(const problem* self, const uint64_t* sizes, const uint64_t* offsets) {
    berth_interval items[MOST];
    for (size_t i = 0; i < self->count; i++) {
        items[i] = self->items[i];
        items[i].size = sizes[i];
    }
    const berth_pack_problem packed = {.intervals = items, .count = self->count};
    berth_pack_verdict result;
    assert_ok(berth_verify_packing(berth_host_default(), &packed, offsets, &result));
    return result.valid;
}

static void at_its_own_sizes_a_relation_needs_no_more_than_its_packing(void** state) {
    (void)state;
    test_random random = test_random_make(11);
    static problem p;
    for (int round = 0; round < 100; round++) {
        make_problem(&p, &random);
        berth_relation* relation;
        assert_ok(
            berth_relation_create(berth_host_default(), p.items, p.count, p.offsets, &relation));
        uint64_t offsets[MOST];
        for (size_t i = 0; i < p.count; i++)
            p.sizes[i] = p.items[i].size;
        berth_relation_evaluate(relation, p.sizes, p.tops, offsets);
        for (size_t i = 0; i < p.count; i++)
            if (p.sizes[i] > 0) assert_true(offsets[i] <= p.offsets[i]);
        assert_true(is_valid(&p, p.sizes, offsets));
        berth_relation_destroy(relation, berth_host_default());
    }
}

static void at_any_sizes_nothing_overlaps_and_offsets_grow_with_the_sizes(void** state) {
    (void)state;
    test_random random = test_random_make(12);
    static problem p;
    for (int round = 0; round < 100; round++) {
        make_problem(&p, &random);
        berth_relation* relation;
        assert_ok(
            berth_relation_create(berth_host_default(), p.items, p.count, p.offsets, &relation));
        uint64_t larger[MOST], smaller[MOST], high[MOST], low[MOST];
        for (int shape = 0; shape < 5; shape++) {
            for (size_t i = 0; i < p.count; i++) {
                larger[i] = p.items[i].size == 0 ? 0 : test_random_below(&random, 9000);
                smaller[i] = test_random_below(&random, larger[i] + 1);
            }
            const uint64_t most = berth_relation_evaluate(relation, larger, p.tops, high);
            const uint64_t less = berth_relation_evaluate(relation, smaller, p.tops, low);
            assert_true(less <= most);
            for (size_t i = 0; i < p.count; i++)
                assert_true(low[i] <= high[i]);
            assert_true(is_valid(&p, larger, high));
            assert_true(is_valid(&p, smaller, low));
        }
        berth_relation_destroy(relation, berth_host_default());
    }
}

/// Fills reach[v * MOST + u]: position v leads down to position u by one or more edges.
static void close_relation(const berth_relation* relation, bool* reach) {
    memset(reach, 0, MOST * MOST);
    for (uint32_t v = 0; v < relation->count; v++) {
        for (uint32_t k = relation->rest_at[v]; k < relation->rest_at[v + 1]; k++) {
            const uint32_t u = relation->rests[k];
            assert_true(u < v);
            reach[v * MOST + u] = true;
            for (uint32_t w = 0; w < u; w++)
                if (reach[u * MOST + w]) reach[v * MOST + w] = true;
        }
    }
}

static void every_pair_that_meets_in_time_is_ordered_by_a_chain(void** state) {
    (void)state;
    test_random random = test_random_make(13);
    static problem p;
    static bool reach[MOST * MOST];
    for (int round = 0; round < 40; round++) {
        make_problem(&p, &random);
        berth_relation* relation;
        assert_ok(
            berth_relation_create(berth_host_default(), p.items, p.count, p.offsets, &relation));
        close_relation(relation, reach);
        for (uint32_t v = 0; v < relation->count; v++) {
            for (uint32_t u = 0; u < v; u++) {
                const berth_interval* a = &p.items[relation->order[u]];
                const berth_interval* b = &p.items[relation->order[v]];
                if (a->start < b->end && b->start < a->end) assert_true(reach[v * MOST + u]);
            }
        }
        berth_relation_destroy(relation, berth_host_default());
    }
}

static void a_reduced_relation_keeps_few_edges_and_hardly_any_that_a_chain_implies(void** state) {
    (void)state;
    test_random random = test_random_make(14);
    static problem p;
    static bool reach[MOST * MOST];
    size_t edges = 0, redundant = 0, values = 0;
    for (int round = 0; round < 40; round++) {
        make_problem(&p, &random);
        berth_relation* relation;
        assert_ok(
            berth_relation_create(berth_host_default(), p.items, p.count, p.offsets, &relation));
        close_relation(relation, reach);
        edges += relation->edge_count;
        values += relation->count;
        for (uint32_t v = 0; v < relation->count; v++) {
            const uint32_t begin = relation->rest_at[v], end = relation->rest_at[v + 1];
            for (uint32_t k = begin; k < end; k++) {
                bool implied = false;
                for (uint32_t l = begin; l < end && !implied; l++)
                    implied = l != k && (relation->rests[l] == relation->rests[k] ||
                                         reach[relation->rests[l] * MOST + relation->rests[k]]);
                redundant += implied;
            }
        }
        berth_relation_destroy(relation, berth_host_default());
    }
    assert_true((double)edges <= 1.7 * (double)values);
    assert_true(redundant * 50 <= edges);
}

static void values_without_bytes_stay_at_zero(void** state) {
    (void)state;
    const berth_interval items[] = {{64, 0, 3}, {0, 1, 2}, {64, 1, 2}};
    const uint64_t offsets[] = {0, 0, 64};
    berth_relation* relation;
    assert_ok(berth_relation_create(berth_host_default(), items, 3, offsets, &relation));
    assert_int_equal(relation->count, 2);
    assert_int_equal(relation->edge_count, 1);
    const uint64_t sizes[] = {10, 0, 20};
    uint64_t tops[2], out[3];
    assert_int_equal(berth_relation_evaluate(relation, sizes, tops, out), 30);
    assert_int_equal(out[0], 0);
    assert_int_equal(out[1], 0);
    assert_int_equal(out[2], 10);
    berth_relation_destroy(relation, berth_host_default());
}

static void a_packing_with_an_overlap_is_refused(void** state) {
    (void)state;
    const berth_interval items[] = {{64, 0, 3}, {64, 1, 2}};
    const uint64_t above[] = {0, 63};
    const uint64_t same[] = {0, 0};
    berth_relation* relation;
    assert_fails(berth_relation_create(berth_host_default(), items, 2, above, &relation),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "overlap");
    assert_null(relation);
    assert_int_equal(berth_relation_create(berth_host_default(), items, 2, same, &relation),
                     BERTH_ERR_INVALID_ARGUMENT);
}

static void an_empty_packing_has_an_empty_relation(void** state) {
    (void)state;
    berth_relation* relation;
    assert_ok(berth_relation_create(berth_host_default(), NULL, 0, NULL, &relation));
    uint64_t none;
    assert_int_equal(berth_relation_evaluate(relation, NULL, &none, &none), 0);
    berth_relation_destroy(relation, berth_host_default());
}

static void making_a_relation_without_memory_leaks_nothing(void** state) {
    (void)state;
    failing_host failing;
    failing_host_init(&failing);
    berth_host* host;
    assert_ok(berth_host_create(&failing.allocator, &host));
    const berth_interval items[] = {{64, 0, 3}, {64, 1, 2}};
    const uint64_t offsets[] = {0, 64};
    berth_relation* relation;
    for (size_t n = 1; n <= 2; n++) {
        failing_host_fail(&failing, n, false);
        assert_int_equal(berth_relation_create(host, items, 2, offsets, &relation),
                         BERTH_ERR_OUT_OF_MEMORY);
        assert_null(relation);
    }
    failing_host_fail(&failing, 0, false);
    berth_host_destroy(host);
    assert_int_equal(failing.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_its_own_sizes_a_relation_needs_no_more_than_its_packing),
        cmocka_unit_test(at_any_sizes_nothing_overlaps_and_offsets_grow_with_the_sizes),
        cmocka_unit_test(every_pair_that_meets_in_time_is_ordered_by_a_chain),
        cmocka_unit_test(a_reduced_relation_keeps_few_edges_and_hardly_any_that_a_chain_implies),
        cmocka_unit_test(values_without_bytes_stay_at_zero),
        cmocka_unit_test(a_packing_with_an_overlap_is_refused),
        cmocka_unit_test(an_empty_packing_has_an_empty_relation),
        cmocka_unit_test(making_a_relation_without_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
