// SPDX-License-Identifier: Apache-2.0
// Greedy placement in any sequence: an item goes into a gap between the placed items that it meets
// in time.
#include <string.h>

#include "plan/packing_internal.h"

/// Lists of neighbours longer than this in all are not made (entries).
#define NEIGHBOURS_LIMIT (UINT64_C(4) << 20)
/// An item with more neighbours than this looks through the placed items instead.
#define GATHER_LIMIT 48u

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

uint64_t berth_packer_run_sequence(berth_packer* self, bool best_fit, uint64_t limit) {
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
            if (peak > limit) return UINT64_MAX;
        }
    }
    return peak;
}
