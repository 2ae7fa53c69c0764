// SPDX-License-Identifier: Apache-2.0
// Random packing problems with every wish, and the truth about tiny ones.
#ifndef BERTH_TEST_WISHES_KIT_H
#define BERTH_TEST_WISHES_KIT_H

#include "berth/pack.h"
#include "kit/random.h"

#define TEST_WISHES_MOST 48u

/// A problem with room for every wish.
typedef struct test_wishes {
    berth_interval items[TEST_WISHES_MOST];
    uint64_t alignments[TEST_WISHES_MOST];
    uint64_t fixed[TEST_WISHES_MOST];
    bool exclusive[TEST_WISHES_MOST];
    berth_pack_in_place pairs[TEST_WISHES_MOST];
    berth_pack_problem problem;
} test_wishes;

/// Random lifetimes; half of the items begin as an earlier one ends, which most of those pair with.
static inline void test_wishes_make_items(test_random* random,
                                          test_wishes* self,
                                          size_t count,
                                          uint64_t most_bytes) {
    bool paired[TEST_WISHES_MOST] = {false};
    size_t pairs = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t other = i == 0 ? 0 : (size_t)test_random_below(random, i);
        const bool follows = i > 0 && test_random_one_in(random, 2);
        const uint32_t start =
            follows ? self->items[other].end - 1 : (uint32_t)test_random_below(random, count + 2);
        self->items[i] = (berth_interval){1 + test_random_below(random, most_bytes),
                                          start,
                                          start + 1 + (uint32_t)test_random_below(random, 5)};
        if (!follows || paired[other] || test_random_one_in(random, 4)) continue;
        paired[other] = true;
        self->pairs[pairs++] = (berth_pack_in_place){(uint32_t)other, (uint32_t)i};
    }
    self->problem.in_place_count = pairs;
}

static inline void test_wishes_make(test_random* random,
                                    test_wishes* self,
                                    size_t count,
                                    uint64_t most_bytes) {
    *self = (test_wishes){.problem = {.count = count}};
    test_wishes_make_items(random, self, count, most_bytes);
    for (size_t i = 0; i < count; i++) {
        self->alignments[i] =
            test_random_one_in(random, 3) ? UINT64_C(1) << test_random_below(random, 3) : 0;
        self->exclusive[i] = test_random_one_in(random, 8);
        self->fixed[i] = BERTH_PACK_ANYWHERE;
    }
    self->fixed[0] =
        test_random_one_in(random, 2) ? 4 * test_random_below(random, 3) : BERTH_PACK_ANYWHERE;
    self->problem.intervals = self->items;
    if (!test_random_one_in(random, 3)) self->problem.alignments = self->alignments;
    if (!test_random_one_in(random, 3)) self->problem.fixed_offsets = self->fixed;
    if (!test_random_one_in(random, 3)) self->problem.exclusive = self->exclusive;
    if (test_random_one_in(random, 3)) self->problem.in_place_count = 0;
    self->problem.in_place = self->pairs;
}

// ---- The truth, by the words of the contract.

static inline bool test_wishes_is_pair(const berth_pack_problem* problem, size_t a, size_t b) {
    for (size_t k = 0; k < problem->in_place_count; k++)
        if (problem->in_place[k].from == a && problem->in_place[k].to == b) return true;
    return false;
}

static inline bool test_wishes_is_exclusive(const berth_pack_problem* problem, size_t i) {
    return problem->exclusive != NULL && problem->exclusive[i];
}

static inline bool test_wishes_may_be_at(const berth_pack_problem* problem,
                                         const uint64_t* offsets,
                                         size_t i) {
    if (problem->alignments != NULL && problem->alignments[i] != 0 &&
        offsets[i] % problem->alignments[i] != 0)
        return false;
    return problem->fixed_offsets == NULL || problem->fixed_offsets[i] == BERTH_PACK_ANYWHERE ||
           problem->fixed_offsets[i] == offsets[i];
}

static inline bool test_wishes_are_apart(const berth_pack_problem* problem,
                                         const uint64_t* offsets,
                                         size_t a,
                                         size_t b) {
    const berth_interval* x = &problem->intervals[a];
    const berth_interval* y = &problem->intervals[b];
    if (offsets[a] + x->size <= offsets[b] || offsets[b] + y->size <= offsets[a]) return true;
    if (test_wishes_is_exclusive(problem, a) || test_wishes_is_exclusive(problem, b)) return false;
    if (x->start >= y->end || y->start >= x->end) return true;
    return (test_wishes_is_pair(problem, a, b) || test_wishes_is_pair(problem, b, a)) &&
           offsets[a] == offsets[b];
}

static inline bool test_wishes_are_met(const berth_pack_problem* problem,
                                       const uint64_t* offsets,
                                       size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!test_wishes_may_be_at(problem, offsets, i)) return false;
        for (size_t k = 0; k < i; k++)
            if (!test_wishes_are_apart(problem, offsets, i, k)) return false;
    }
    return true;
}

/// True if items from `next` on can be placed below `peak`, by trying every offset.
static inline bool test_wishes_fit(const berth_pack_problem* problem,
                                   uint64_t* offsets,
                                   size_t next,
                                   uint64_t peak) {
    if (next == problem->count) return true;
    for (offsets[next] = 0; offsets[next] + problem->intervals[next].size <= peak;
         offsets[next]++) {
        bool free = test_wishes_may_be_at(problem, offsets, next);
        for (size_t k = 0; k < next && free; k++)
            free = test_wishes_are_apart(problem, offsets, next, k);
        if (free && test_wishes_fit(problem, offsets, next + 1, peak)) return true;
    }
    return false;
}

#endif // BERTH_TEST_WISHES_KIT_H
