// SPDX-License-Identifier: Apache-2.0
// The greedy rules of the packing portfolio: in order of time with the list of live items, and in
// any sequence with the list of time neighbours.
#include <string.h>

#include "plan/packing_internal.h"

/// Lists of neighbours longer than this in all are not made (entries).
#define NEIGHBOURS_LIMIT (UINT64_C(4) << 20)
/// An item with more neighbours than this looks through the placed items instead.
#define GATHER_LIMIT 48u

// ---- Online: the live items are an array sorted by offset; gap i lies below item i.

typedef struct live_list {
    uint64_t* low;
    uint64_t* high;
    uint32_t* item;
    uint32_t* stamp; ///< [count + 1]
    uint32_t count;
    uint32_t clock;
} live_list;

static void live_remove(live_list* live, uint64_t offset) {
    uint32_t from = 0;
    for (uint32_t to = live->count; to - from > 1;) {
        const uint32_t middle = from + (to - from) / 2;
        if (live->low[middle] <= offset)
            from = middle;
        else
            to = middle;
    }
    const uint32_t rest = live->count - from - 1;
    memmove(live->low + from, live->low + from + 1, rest * sizeof *live->low);
    memmove(live->high + from, live->high + from + 1, rest * sizeof *live->high);
    memmove(live->item + from, live->item + from + 1, rest * sizeof *live->item);
    memmove(live->stamp + from, live->stamp + from + 1, (rest + 1) * sizeof *live->stamp);
    live->stamp[from] = ++live->clock; // the gaps on both sides are one now
    live->count--;
}

static void live_insert(live_list* live, uint32_t at, uint64_t low, uint64_t size, uint32_t item) {
    const uint32_t rest = live->count - at;
    memmove(live->low + at + 1, live->low + at, rest * sizeof *live->low);
    memmove(live->high + at + 1, live->high + at, rest * sizeof *live->high);
    memmove(live->item + at + 1, live->item + at, rest * sizeof *live->item);
    memmove(live->stamp + at + 1, live->stamp + at, (rest + 1) * sizeof *live->stamp);
    live->low[at] = low;
    live->high[at] = low + size;
    live->item[at] = item;
    live->count++;
}

/// The gap for `size` bytes; the one above everything ends at `limit` for the rules that compare
/// gaps.
static uint32_t choose_gap(const live_list* live,
                           uint64_t size,
                           uint64_t limit,
                           berth_packing_order order) {
    const bool lowest =
        order == BERTH_PACKING_ONLINE_LOWEST || order == BERTH_PACKING_REVERSE_LOWEST;
    const bool recent = order == BERTH_PACKING_ONLINE_RECENT;
    uint32_t chosen = live->count;
    uint64_t chosen_gap = UINT64_MAX;
    uint64_t low = 0;
    for (uint32_t i = 0; i <= live->count; i++) {
        const uint64_t high = i < live->count ? live->low[i] : limit;
        const uint64_t gap = high > low ? high - low : 0;
        if (gap >= size) {
            if (lowest) return i;
            const bool newer = chosen_gap == UINT64_MAX || live->stamp[i] > live->stamp[chosen];
            if (recent ? newer : gap < chosen_gap) {
                chosen = i;
                chosen_gap = gap;
            }
        }
        if (i < live->count) low = live->high[i];
    }
    return chosen;
}

/// Places items in order of start, or mirrored in time.
uint64_t berth_packer_run_online(berth_packer* self, berth_packing_order order) {
    const bool mirrored =
        order == BERTH_PACKING_REVERSE_BEST || order == BERTH_PACKING_REVERSE_LOWEST;
    live_list live = {self->live_low, self->live_high, self->live_item, self->gap_stamp, 0, 0};
    live.stamp[0] = 0;
    uint64_t peak = 0;
    const uint32_t n = self->count;
    for (uint32_t i = 0, gone = 0; i < n; i++) {
        const uint32_t item = mirrored ? self->by_end[n - 1 - i] : i;
        for (;; gone++) {
            const uint32_t next = mirrored ? n - 1 - gone : self->by_end[gone];
            if (mirrored ? self->start[next] < self->end[item]
                         : self->end[next] > self->start[item])
                break;
            live_remove(&live, self->offset[next]);
        }
        const uint64_t limit = peak > self->lower_bound ? peak : self->lower_bound;
        const uint32_t at = choose_gap(&live, self->size[item], limit, order);
        const uint64_t low = at == 0 ? 0 : live.high[at - 1];
        live_insert(&live, at, low, self->size[item], item);
        self->offset[item] = low;
        if (low + self->size[item] > peak) peak = low + self->size[item];
        if (peak >= self->peak) return UINT64_MAX;
    }
    return peak;
}

// ---- Any sequence: an item goes into a gap between the placed items that it meets in time.

bool berth_packer_find_neighbours(berth_packer* self) {
    if (self->near != NULL) return true;
    if (self->neighbours * 2 > NEIGHBOURS_LIMIT) return false;
    const size_t entries = (size_t)self->neighbours * 2 + self->count + 1;
    uint32_t* block = berth_host_alloc(self->host, entries * sizeof *block);
    if (block == NULL) return false;
    uint32_t* at = block;
    uint32_t* near = block + self->count + 1;
    uint32_t* alive = self->placed; // scratch
    uint32_t* where = self->swap;   // scratch: index in alive
    // Two sweeps over the live items: count, then fill.
    memset(at, 0, (self->count + 1) * sizeof *at);
    for (int fill = 0; fill < 2; fill++) {
        uint32_t count = 0;
        for (uint32_t i = 0, gone = 0; i < self->count; i++) {
            for (; self->end[self->by_end[gone]] <= self->start[i]; gone++) {
                const uint32_t hole = where[self->by_end[gone]];
                alive[hole] = alive[--count];
                where[alive[hole]] = hole;
            }
            if (fill == 0) {
                at[i] += count;
                for (uint32_t k = 0; k < count; k++)
                    at[alive[k]]++;
            } else {
                for (uint32_t k = 0; k < count; k++) {
                    near[--at[i]] = alive[k];
                    near[--at[alive[k]]] = i;
                }
            }
            where[i] = count;
            alive[count++] = i;
        }
        // From counts to ends; filling moves each end down to its begin.
        for (uint32_t i = 0; fill == 0 && i < self->count; i++)
            at[i + 1] += at[i];
    }
    self->near_at = at;
    self->near = near;
    return true;
}

typedef struct gap_search {
    uint64_t size;
    bool best_fit;
    uint64_t top; ///< highest byte of the items met so far
    uint64_t offset;
    uint64_t gap;
} gap_search;

/// Meets the next placed item, in order of offset. True: the answer is final.
static inline bool gap_search_meet(gap_search* search, uint64_t low, uint64_t high) {
    if (low > search->top) {
        const uint64_t gap = low - search->top;
        if (gap >= search->size && gap < search->gap) {
            search->offset = search->top;
            search->gap = gap;
            if (!search->best_fit || gap == search->size) return true;
        }
    }
    if (high > search->top) search->top = high;
    return false;
}

static uint64_t gap_search_end(const gap_search* search) {
    return search->gap == UINT64_MAX ? search->top : search->offset;
}

/// Through the neighbours: gathers those placed, sorted by offset.
static uint64_t search_near(berth_packer* self, uint32_t item, bool best_fit) {
    uint32_t met[GATHER_LIMIT];
    uint32_t count = 0;
    for (uint32_t k = self->near_at[item]; k < self->near_at[item + 1]; k++) {
        const uint32_t other = self->near[k];
        if (!self->is_placed[other]) continue;
        const uint64_t low = self->offset[other];
        uint32_t at = count++;
        for (; at > 0 && self->offset[met[at - 1]] > low; at--)
            met[at] = met[at - 1];
        met[at] = other;
    }
    gap_search search = {.size = self->size[item], .best_fit = best_fit, .gap = UINT64_MAX};
    for (uint32_t k = 0; k < count; k++) {
        const uint64_t low = self->offset[met[k]];
        if (gap_search_meet(&search, low, low + self->size[met[k]])) break;
    }
    return gap_search_end(&search);
}

/// Through everything placed, in order of offset.
static uint64_t search_placed(berth_packer* self, uint32_t item, uint32_t count, bool best_fit) {
    const uint32_t start = self->start[item];
    const uint32_t end = self->end[item];
    gap_search search = {.size = self->size[item], .best_fit = best_fit, .gap = UINT64_MAX};
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t other = self->placed[k];
        if (self->start[other] >= end || self->end[other] <= start) continue;
        const uint64_t low = self->offset[other];
        if (gap_search_meet(&search, low, low + self->size[other])) break;
    }
    return gap_search_end(&search);
}

static void insert_placed(berth_packer* self, uint32_t item, uint32_t count) {
    const uint64_t offset = self->offset[item];
    uint32_t from = 0;
    for (uint32_t to = count; from < to;) {
        const uint32_t middle = from + (to - from) / 2;
        if (self->offset[self->placed[middle]] <= offset)
            from = middle + 1;
        else
            to = middle;
    }
    memmove(self->placed + from + 1, self->placed + from, (count - from) * sizeof *self->placed);
    self->placed[from] = item;
}

uint64_t berth_packer_run_sequence(berth_packer* self, bool best_fit) {
    // The search for neighbours uses `swap` and `placed`, never `order`.
    const bool near = berth_packer_find_neighbours(self);
    memset(self->is_placed, 0, self->count * sizeof *self->is_placed);
    uint64_t peak = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        const uint32_t item = self->order[i];
        const bool few = near && self->near_at[item + 1] - self->near_at[item] <= GATHER_LIMIT;
        const uint64_t offset =
            few ? search_near(self, item, best_fit) : search_placed(self, item, i, best_fit);
        self->offset[item] = offset;
        self->is_placed[item] = true;
        insert_placed(self, item, i);
        if (offset + self->size[item] > peak) {
            peak = offset + self->size[item];
            self->culprit = i;
            if (peak >= self->peak) return UINT64_MAX;
        }
    }
    return peak;
}
