// SPDX-License-Identifier: Apache-2.0
// The search for packings that no greedy rule finds: many short runs of a depth-first search, each
// with another capacity and another order of items, since the time that one run
// takes has no useful bound. What runs learn about troublesome sections is kept.
// Source: restarts against heavy-tailed run times as in Gomes, Selman and Kautz 1998, "Boosting
//         combinatorial search through randomization"; weights of failures as in Boussemart et al.
//         2004, "Boosting systematic search by weighting constraints"; building from a skyline with
//         a bound on every section as in Moffitt 2023, "MiniMalloc", doi 10.1145/3623278.3624752.
#include "plan/packing_search.h"

#include "plan/packing_random.h"
#include "plan/packing_search_internal.h"

/// Failures that end the shortest runs.
#define SHORTEST_RUN UINT64_C(50)
/// Items move by up to one part in so many of their number when an order is shuffled.
#define SHUFFLE_SHARE 10u
/// A peak that is further above the bound than this share of it is far away.
#define FAR_SHARE 4u
/// Steps after which the bound is seldom tried any more.
#define HOPEFUL_STEPS (UINT64_C(1) << 21)
/// From then on, runs at a capacity between are so many times as long.
#define LONG_RUN 16u

typedef struct search {
    berth_packer* packer;
    berth_packing_budget* budget;
    berth_packing_sections sections;
    berth_packing_tree tree;
    uint64_t random; ///< state
    uint64_t round;
    uint64_t hopeful_until; ///< in steps of the budget
    double share;           ///< of the way from the bound to the best peak, for the runs between
} search;

// ---- Orders of items.

typedef enum base_order {
    BY_LENGTH_AREA,  ///< the longest first, then the largest area
    BY_CROWD_AREA,   ///< those in the fullest section first, then the largest area
    BY_LENGTH_CROWD, ///< the longest first, then those in the fullest section
    BASE_ORDER_COUNT,
} base_order;

static uint64_t length_key(const berth_packing_sections* sections, uint32_t item) {
    return ~(uint64_t)(sections->to[item] - sections->from[item]);
}

static uint64_t area_key(const berth_packing_sections* sections, uint32_t item) {
    uint64_t area;
    const uint64_t length = sections->to[item] - sections->from[item];
    if (__builtin_mul_overflow((uint64_t)sections->size[item], length, &area)) area = UINT64_MAX;
    return ~area;
}

static uint64_t crowd_key(const berth_packing_sections* sections, uint32_t item) {
    int64_t most = 0;
    for (uint32_t s = sections->from[item]; s < sections->to[item]; s++)
        if (sections->total[s] > most) most = sections->total[s];
    return ~(uint64_t)most;
}

static void sort_by(search* self,
                    uint64_t (*key)(const berth_packing_sections* sections, uint32_t item)) {
    berth_packer* packer = self->packer;
    for (uint32_t k = 0; k < packer->count; k++)
        packer->entries[k].key = key(&self->sections, packer->entries[k].item);
    berth_sort_entries(packer->entries, packer->entries_swap, packer->count);
}

/// Moves items a little, by chance.
static void shuffle_a_little(search* self) {
    berth_packer* packer = self->packer;
    for (uint32_t k = 0; k < packer->count; k++)
        packer->entries[k].key =
            (uint64_t)k * SHUFFLE_SHARE + berth_packing_random(&self->random) % packer->count;
    berth_sort_entries(packer->entries, packer->entries_swap, packer->count);
}

static void set_order(search* self, base_order order, bool shuffled) {
    berth_packer* packer = self->packer;
    for (uint32_t i = 0; i < packer->count; i++)
        packer->entries[i].item = i;
    // The last key decides; the sort is stable.
    if (order == BY_LENGTH_CROWD) sort_by(self, area_key);
    if (order == BY_LENGTH_CROWD) sort_by(self, crowd_key);
    if (order == BY_CROWD_AREA) sort_by(self, length_key);
    if (order != BY_LENGTH_CROWD) sort_by(self, area_key);
    if (order == BY_CROWD_AREA) sort_by(self, crowd_key);
    if (order != BY_CROWD_AREA) sort_by(self, length_key);
    if (shuffled) shuffle_a_little(self);
    for (uint32_t k = 0; k < packer->count; k++)
        packer->order[k] = packer->entries[k].item;
    berth_packing_tree_set_order(&self->tree, packer->order);
}

// ---- Runs.

static bool is_hopeful(const search* self) { return self->budget->steps < self->hopeful_until; }

/// Every fourth run tries a capacity between the bound and the best peak, every second one as long
/// as that is far away, and three of four once there is little hope; the others try the bound.
static bool is_between(const search* self) {
    const uint64_t bound = self->packer->lower_bound;
    if (self->packer->peak - bound > bound / FAR_SHARE) return self->round % 2 == 1;
    return (self->round % 4 == 1) == is_hopeful(self);
}

/// The capacity of the next run, in units; below the best peak, and at least the bound.
static int64_t choose_capacity(const search* self, bool between) {
    const uint64_t unit = self->sections.unit;
    const uint64_t bound = (self->packer->lower_bound + unit - 1) / unit;
    const uint64_t below = (self->packer->peak - 1) / unit;
    if (below <= bound || !between) return (int64_t)bound;
    const uint64_t way = (uint64_t)((double)(below - bound) * self->share);
    return (int64_t)(bound + (way < below - bound ? way : below - bound));
}

/// 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ...
/// Source: Luby, Sinclair and Zuckerman 1993, "Optimal speedup of Las Vegas algorithms".
static uint64_t luby(uint64_t round) {
    uint64_t whole = 1;
    while (whole < round + 1)
        whole = 2 * whole + 1;
    while (whole != round + 1) {
        whole /= 2;
        round %= whole;
    }
    return (whole + 1) / 2;
}

static void take(search* self) {
    berth_packer* packer = self->packer;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < packer->count; i++) {
        packer->offset[i] = (uint64_t)self->tree.offset[i] * self->sections.unit;
        if (packer->offset[i] + packer->size[i] > peak) peak = packer->offset[i] + packer->size[i];
    }
    berth_packer_keep(packer, peak);
}

static void learn(search* self, berth_packing_outcome outcome, int64_t capacity, bool between) {
    const uint64_t above = ((uint64_t)capacity + 1) * self->sections.unit;
    if (outcome == BERTH_PACKING_FOUND) take(self);
    if (outcome == BERTH_PACKING_NONE && above > self->packer->lower_bound)
        self->packer->lower_bound = above;
    if (between && outcome == BERTH_PACKING_FOUND) self->share *= 0.7;
    if (between && outcome == BERTH_PACKING_STOPPED) self->share += (1 - self->share) * 0.1;
}

static void run_all(search* self) {
    const berth_packer* packer = self->packer;
    self->share = 0.5;
    self->random = self->budget->options->seed;
    self->hopeful_until = self->budget->steps + HOPEFUL_STEPS;
    while (packer->peak > packer->enough && packer->peak > packer->lower_bound &&
           !self->budget->over) {
        const bool between = is_between(self);
        self->tree.capacity = choose_capacity(self, between);
        set_order(
            self, (base_order)(self->round % BASE_ORDER_COUNT), self->round >= BASE_ORDER_COUNT);
        const uint64_t longer = between && !is_hopeful(self) ? LONG_RUN : 1;
        const uint64_t limit = SHORTEST_RUN * luby(self->round) * longer;
        const berth_packing_outcome outcome =
            berth_packing_tree_run(&self->tree, limit, self->budget, packer);
        if (outcome == BERTH_PACKING_NO_MEMORY) return;
        learn(self, outcome, self->tree.capacity, between);
        self->round++;
    }
}

void berth_packer_search(berth_packer* self, berth_packing_budget* budget) {
    search one = {.packer = self, .budget = budget};
    if (budget->over || !berth_packing_sections_init(&one.sections, self)) return;
    if (berth_packing_tree_init(&one.tree, &one.sections, self->host)) run_all(&one);
    berth_packing_tree_fini(&one.tree);
    berth_packing_sections_fini(&one.sections, self->host);
}
