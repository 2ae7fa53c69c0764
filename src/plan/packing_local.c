// SPDX-License-Identifier: Apache-2.0
// The local search: items are placed one after the other, each as low as it can lie, and the
// sequence is changed around an item that lies too high. A change is kept if the packing is no
// worse than it was a number of changes ago.
// Source: late acceptance as in Burke and Bykov 2017, "The late acceptance hill-climbing
//         heuristic", doi 10.1016/j.ejor.2016.07.012.
#include "plan/packing_local.h"

#include <string.h>

#include "base/checked.h"
#include "plan/packing_random.h"

/// Items looked at in the time of one step.
#define WORK_PER_STEP 16u
/// More items than this are not sorted by insertion.
#define INSERTION_LIMIT 40u
/// The most changes that the acceptance looks back.
#define LATE_MOST 256u
/// Changes without progress after which a run ends, for each item.
#define PATIENCE 30u
/// Every other run aims below the best peak by one part in so many of what is above the bound.
#define TARGET_SHARE 8u
/// Attempts to find a neighbour of a kind.
#define LOOKS 8u

/// A change of the sequence, or of whether an item takes its partner's place.
typedef struct change {
    uint32_t item;
    uint32_t from; ///< rank
    uint32_t to;   ///< rank
    bool toggled;
} change;

typedef struct local_search {
    berth_packer* packer;
    berth_packing_budget* budget;
    uint64_t random;    ///< state
    uint32_t movable;   ///< items without a given offset
    uint32_t* sequence; ///< [movable + 1] from 1
    uint32_t* rank;     ///< [count] place in the sequence; 0: given
    bool* joins;        ///< [count] takes the place of the item before it, where it can
    bool* stale;        ///< [count] what it was placed among has changed since
    uint64_t* at;       ///< [count] offsets
    uint64_t* kept;     ///< [count] offsets before the change under way
    double late[LATE_MOST];
    uint32_t late_count;
    uint64_t target; ///< what lies above it is wrong
    double cost;     ///< bytes above it, summed over items
    uint64_t peak;
    bool over;
    void* block; ///< holds the arrays
} local_search;

// ---- Placing.

/// The placed neighbours of the item of rank `rank`, in order of offset, in `entries`.
static uint32_t gather(local_search* self, uint32_t item, uint32_t rank) {
    berth_packer* packer = self->packer;
    berth_sort_entry* met = packer->entries;
    uint32_t count = 0;
    for (uint32_t k = packer->near_at[item]; k < packer->near_at[item + 1]; k++) {
        const uint32_t other = packer->near[k];
        if (self->rank[other] < rank) met[count++] = (berth_sort_entry){self->at[other], other};
    }
    if (count > INSERTION_LIMIT) {
        berth_sort_entries(met, packer->entries_swap, count);
        return count;
    }
    for (uint32_t k = 1; k < count; k++) {
        const berth_sort_entry entry = met[k];
        uint32_t hole = k;
        for (; hole > 0 && met[hole - 1].key > entry.key; hole--)
            met[hole] = met[hole - 1];
        met[hole] = entry;
    }
    return count;
}

/// True if `item` may lie at the offset of `partner`, which is among the items met.
static bool fits_at_partner(const local_search* self,
                            uint32_t item,
                            uint32_t partner,
                            uint32_t count) {
    const berth_packer* packer = self->packer;
    const uint64_t offset = self->at[partner];
    if (offset % packer->align[item] != 0) return false;
    for (uint32_t k = 0; k < count; k++) {
        const berth_sort_entry* other = &packer->entries[k];
        if (other->key >= offset + packer->size[item]) break;
        if (other->key + packer->size[other->item] <= offset) continue;
        const bool partners =
            packer->before[item] == other->item || packer->after[item] == other->item;
        if (!partners || other->key != offset) return false;
    }
    return true;
}

static uint64_t lowest_gap(const local_search* self, uint32_t item, uint32_t count) {
    const berth_packer* packer = self->packer;
    const uint64_t size = packer->size[item];
    uint64_t offset = 0;
    for (uint32_t k = 0; k < count; k++) {
        const berth_sort_entry* other = &packer->entries[k];
        if (other->key >= offset + size) break;
        const uint64_t high = other->key + packer->size[other->item];
        if (high > offset) offset = berth_round_up(high, packer->align[item]);
    }
    return offset;
}

static bool joins(const local_search* self, uint32_t to, uint32_t partner, uint32_t rank) {
    return partner != BERTH_PACKER_NONE && self->joins[to] && self->rank[partner] < rank;
}

static uint64_t choose_offset(local_search* self, uint32_t item, uint32_t rank) {
    const berth_packer* packer = self->packer;
    const uint32_t count = gather(self, item, rank);
    const uint32_t before = packer->before[item];
    const uint32_t after = packer->after[item];
    if (joins(self, item, before, rank) && fits_at_partner(self, item, before, count))
        return self->at[before];
    if (after != BERTH_PACKER_NONE && joins(self, after, after, rank) &&
        fits_at_partner(self, item, after, count))
        return self->at[after];
    return lowest_gap(self, item, count);
}

static uint64_t high_of(const local_search* self, uint32_t item) {
    return self->at[item] + self->packer->size[item];
}

static double cost_of(const local_search* self, uint32_t item) {
    const uint64_t high = high_of(self, item);
    return high > self->target ? (double)(high - self->target) : 0;
}

static void make_neighbours_stale(local_search* self, uint32_t item) {
    const berth_packer* packer = self->packer;
    for (uint32_t k = packer->near_at[item]; k < packer->near_at[item + 1]; k++)
        self->stale[packer->near[k]] = true;
}

/// Places the item of rank `rank` again if it is stale. Those placed before it are no longer, so
/// what becomes stale on the way matters only for those after it. Returns the work.
static uint32_t refresh(local_search* self, uint32_t rank) {
    const berth_packer* packer = self->packer;
    const uint32_t item = self->sequence[rank];
    if (!self->stale[item]) return 1;
    const uint64_t offset = choose_offset(self, item, rank);
    if (offset != self->at[item]) make_neighbours_stale(self, item);
    self->at[item] = offset;
    return WORK_PER_STEP + packer->near_at[item + 1] - packer->near_at[item];
}

/// Places the stale items from rank `from` on, before which there are none. False once the cost is
/// above `limit`, or the budget over.
static bool place_from(local_search* self, uint32_t from, double limit) {
    const berth_packer* packer = self->packer;
    double cost = 0;
    for (uint32_t k = 1; k < from; k++)
        cost += cost_of(self, self->sequence[k]);
    uint64_t work = 0;
    for (uint32_t k = from; k <= self->movable; k++) {
        if (work >= WORK_PER_STEP &&
            !berth_packing_budget_spend(
                self->budget, work / WORK_PER_STEP, packer->peak, packer->lower_bound)) {
            self->over = true;
            return false;
        }
        work = work % WORK_PER_STEP + refresh(self, k);
        cost += cost_of(self, self->sequence[k]);
        if (cost > limit) return false;
    }
    self->cost = cost;
    self->peak = 0;
    for (uint32_t i = 0; i < packer->count; i++)
        if (high_of(self, i) > self->peak) self->peak = high_of(self, i);
    return true;
}

// ---- Changes.

static void move(local_search* self, uint32_t from, uint32_t to) {
    uint32_t* sequence = self->sequence;
    const uint32_t item = sequence[from];
    const int step = from < to ? 1 : -1;
    for (uint32_t k = from; k != to; k = (uint32_t)((int64_t)k + step)) {
        sequence[k] = sequence[(int64_t)k + step];
        self->rank[sequence[k]] = k;
    }
    sequence[to] = item;
    self->rank[item] = to;
}

static void apply(local_search* self, const change* what) {
    memset(self->stale, 0, self->packer->count * sizeof *self->stale);
    self->stale[what->item] = true;
    if (what->toggled) {
        self->joins[what->item] = !self->joins[what->item];
        self->stale[self->packer->before[what->item]] = true;
    } else {
        move(self, what->from, what->to);
        make_neighbours_stale(self, what->item);
    }
}

static void take_back(local_search* self, const change* what) {
    if (what->toggled)
        self->joins[what->item] = !self->joins[what->item];
    else
        move(self, what->to, what->from);
}

/// An item that lies too high, any of them; none if there is none.
static uint32_t pick_high(local_search* self) {
    uint32_t seen = 0, picked = BERTH_PACKER_NONE;
    for (uint32_t k = 1; k <= self->movable; k++) {
        const uint32_t item = self->sequence[k];
        if (high_of(self, item) <= self->target) continue;
        if (berth_packing_random_below(&self->random, ++seen) == 0) picked = item;
    }
    return picked;
}

static uint32_t pick_neighbour(local_search* self, uint32_t item) {
    const berth_packer* packer = self->packer;
    const uint32_t count = packer->near_at[item + 1] - packer->near_at[item];
    if (count == 0) return BERTH_PACKER_NONE;
    const uint64_t which = berth_packing_random_below(&self->random, count);
    return packer->near[packer->near_at[item] + which];
}

/// A neighbour that can be moved and was placed before `item`, or none.
static uint32_t pick_earlier(local_search* self, uint32_t item) {
    for (uint32_t k = 0; k < LOOKS; k++) {
        const uint32_t other = pick_neighbour(self, item);
        if (other == BERTH_PACKER_NONE) break;
        if (self->rank[other] > 0 && self->rank[other] < self->rank[item]) return other;
    }
    return BERTH_PACKER_NONE;
}

/// A change that may bring `item` down. False: none was found.
static bool propose(local_search* self, uint32_t item, change* out_change) {
    const uint64_t kind = berth_packing_random_below(&self->random, 10);
    uint32_t other = pick_earlier(self, item);
    if (kind == 0) {
        if (other != BERTH_PACKER_NONE && berth_packing_random_below(&self->random, 2) == 0)
            item = other;
        *out_change = (change){.item = item, .from = self->rank[item], .toggled = true};
        return self->packer->before[item] != BERTH_PACKER_NONE;
    }
    if (other == BERTH_PACKER_NONE) return false;
    if (kind >= 8) { // a neighbour's neighbour makes room
        item = other;
        other = pick_neighbour(self, item);
        if (other == BERTH_PACKER_NONE || self->rank[other] == 0) return false;
    } else if (kind >= 6) { // the neighbour waits for it
        const uint32_t waits = other;
        other = item;
        item = waits;
    }
    *out_change = (change){.item = item, .from = self->rank[item], .to = self->rank[other]};
    return true;
}

static uint32_t first_rank(const change* what) {
    // Of partners that toggle, either may be the first.
    if (what->toggled) return 1;
    return what->from < what->to ? what->from : what->to;
}

// ---- Runs.

static void take_if_better(local_search* self) {
    berth_packer* packer = self->packer;
    if (self->peak >= packer->peak) return;
    memcpy(packer->offset, self->at, packer->count * sizeof *self->at);
    berth_packer_keep(packer, self->peak);
}

/// Tries a change of the packing; true if it is better than it was.
static bool step(local_search* self, uint64_t turn) {
    const uint32_t item = pick_high(self);
    change what;
    if (item == BERTH_PACKER_NONE || !propose(self, item, &what)) return false;
    double* late = &self->late[turn % self->late_count];
    const double before = self->cost;
    const double limit = before > *late ? before : *late;
    memcpy(self->kept, self->at, self->packer->count * sizeof *self->at);
    apply(self, &what);
    if (place_from(self, first_rank(&what), limit)) {
        take_if_better(self);
    } else {
        take_back(self, &what);
        uint64_t* at = self->at;
        self->at = self->kept;
        self->kept = at;
        self->cost = before;
    }
    if (self->cost < *late) *late = self->cost;
    return self->cost < before;
}

static void run(local_search* self) {
    const berth_packer* packer = self->packer;
    memset(self->stale, 1, packer->count * sizeof *self->stale);
    if (!place_from(self, 1, (double)UINT64_MAX * UINT32_MAX)) return;
    take_if_better(self);
    for (uint32_t k = 0; k < self->late_count; k++)
        self->late[k] = self->cost;
    double least = self->cost;
    const uint64_t patience = (uint64_t)PATIENCE * packer->count + 4 * self->late_count;
    for (uint64_t turn = 0, since = 0; since < patience && self->cost > 0 && !self->over; turn++) {
        (void)berth_packing_budget_spend(
            self->budget, 1 + packer->count / WORK_PER_STEP, packer->peak, packer->lower_bound);
        self->over = self->over || self->budget->over || packer->peak <= packer->enough;
        since++;
        if (step(self, turn) && self->cost < least) {
            least = self->cost;
            since = 0;
        }
    }
}

// ---- Sequences to begin with.

static void set_sequence(local_search* self, const uint32_t* order, bool all_join) {
    const berth_packer* packer = self->packer;
    uint32_t rank = 0;
    for (uint32_t k = 0; k < packer->count; k++) {
        const uint32_t item = order[k];
        const uint32_t before = packer->before[item];
        self->joins[item] =
            all_join || (before != BERTH_PACKER_NONE && packer->best[item] == packer->best[before]);
        const bool given = packer->given[item] != BERTH_PACK_ANYWHERE;
        self->at[item] = given ? packer->given[item] : 0;
        self->rank[item] = given ? 0 : ++rank;
        if (!given) self->sequence[rank] = item;
    }
    self->movable = rank;
}

/// In order of offset the best packing is made again, if not a better one.
static void begin_with_best(local_search* self) {
    berth_packer* packer = self->packer;
    for (uint32_t i = 0; i < packer->count; i++)
        packer->entries[i] = (berth_sort_entry){packer->best[i], i};
    berth_sort_entries(packer->entries, packer->entries_swap, packer->count);
    for (uint32_t i = 0; i < packer->count; i++)
        packer->order[i] = packer->entries[i].item;
    set_sequence(self, packer->order, false);
}

static void begin_with_order(local_search* self, uint64_t round) {
    static const berth_packing_order orders[] = {BERTH_PACKING_SIZE_LOWEST,
                                                 BERTH_PACKING_DURATION_LOWEST,
                                                 BERTH_PACKING_AREA_LOWEST,
                                                 BERTH_PACKING_ONLINE_LOWEST};
    berth_packer_make_sequence(self->packer, orders[round % (sizeof orders / sizeof orders[0])]);
    set_sequence(self, self->packer->order, true);
}

/// Lets some pairs of items, any of them, change places.
static void shake(local_search* self, uint32_t pairs) {
    uint32_t* sequence = self->sequence;
    for (uint32_t k = 0; k < pairs; k++) {
        const uint64_t a = 1 + berth_packing_random_below(&self->random, self->movable);
        const uint64_t b = 1 + berth_packing_random_below(&self->random, self->movable);
        const uint32_t item = sequence[a];
        sequence[a] = sequence[b];
        sequence[b] = item;
        self->rank[sequence[a]] = (uint32_t)a;
        self->rank[item] = (uint32_t)b;
    }
}

static void run_all(local_search* self) {
    const berth_packer* packer = self->packer;
    for (uint64_t round = 0; !self->over && packer->peak > packer->enough;) {
        const uint64_t peak = packer->peak;
        if (round % 2 == 0)
            begin_with_best(self);
        else
            begin_with_order(self, round / 2);
        if (self->movable == 0) return;
        if (round > 1) shake(self, (uint32_t)(1 + self->movable / 16));
        self->late_count = 1u << (2 * (round % 5));
        self->target = packer->enough;
        if (round % 2 == 0) self->target = peak - 1 - (peak - 1 - packer->enough) / TARGET_SHARE;
        run(self);
        if (packer->peak == peak) round++;
    }
}

void berth_packer_search_local(berth_packer* self, berth_packing_budget* budget) {
    if (budget->over || self->count == 0 || !berth_packer_find_neighbours(self)) return;
    const size_t n = self->count;
    local_search one = {.packer = self, .budget = budget, .random = budget->options->seed};
    one.block = berth_host_alloc(self->host,
                                 n * 2 * sizeof(uint64_t) + (n * 2 + 1) * sizeof(uint32_t) +
                                     n * 2 * sizeof(bool));
    if (one.block == NULL) return;
    one.at = one.block;
    one.kept = one.at + n;
    one.sequence = (uint32_t*)(one.kept + n);
    one.rank = one.sequence + n + 1;
    one.joins = (bool*)(one.rank + n);
    one.stale = one.joins + n;
    run_all(&one);
    berth_host_free(self->host, one.block);
}
