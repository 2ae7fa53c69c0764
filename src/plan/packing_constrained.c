// SPDX-License-Identifier: Apache-2.0
// Greedy placement of items that want more than a gap of enough bytes: aligned or given offsets,
// and the place of a partner that ends as they begin.
#include <string.h>

#include "base/checked.h"
#include "plan/packing_internal.h"

/// What has ended is dropped when the list has doubled, and so much more.
#define DROP_GAP 32u
/// Placed items passed between two looks at the clock.
#define LOOK_ITEMS (UINT64_C(1) << 17)

/// What is placed, by offset; in order of starts without what has ended.
typedef struct placed_list {
    berth_packer* self;
    uint32_t count;
} placed_list;

static bool meets(const berth_packer* self, uint32_t a, uint32_t b) {
    return self->start[a] < self->end[b] && self->start[b] < self->end[a];
}

/// True if `other`, placed, keeps `item` from the bytes at `offset`.
static bool is_in_the_way(const berth_packer* self,
                          uint32_t other,
                          uint32_t item,
                          uint64_t offset) {
    if (!meets(self, other, item)) return false;
    if (self->offset[other] + self->size[other] <= offset) return false;
    if (self->offset[other] >= offset + self->size[item]) return false;
    const bool partners = self->before[item] == other || self->after[item] == other;
    return !partners || self->offset[other] != offset;
}

/// True if `item` may have the offset of `partner`.
static bool fits_at_partner(const placed_list* list, uint32_t item, uint32_t partner) {
    const berth_packer* self = list->self;
    if (partner == BERTH_PACKER_NONE || !self->is_placed[partner]) return false;
    const uint64_t offset = self->offset[partner];
    if (offset % self->align[item] != 0) return false;
    for (uint32_t k = 0; k < list->count; k++) {
        if (self->offset[self->placed[k]] >= offset + self->size[item]) break;
        if (is_in_the_way(self, self->placed[k], item, offset)) return false;
    }
    return true;
}

/// The lowest or the smallest gap, with the offset rounded up.
static uint64_t find_gap(const placed_list* list, uint32_t item, bool best_fit) {
    const berth_packer* self = list->self;
    const uint64_t size = self->size[item];
    uint64_t offset = 0, chosen = BERTH_PACK_ANYWHERE, chosen_gap = UINT64_MAX;
    for (uint32_t k = 0; k < list->count; k++) {
        const uint32_t other = self->placed[k];
        if (!meets(self, other, item)) continue;
        const uint64_t low = self->offset[other];
        if (low >= offset && low - offset >= size && low - offset < chosen_gap) {
            chosen = offset;
            chosen_gap = low - offset;
            if (!best_fit || chosen_gap == size) return chosen;
        }
        const uint64_t high = berth_round_up(low + self->size[other], self->align[item]);
        if (high > offset) offset = high;
    }
    return chosen == BERTH_PACK_ANYWHERE ? offset : chosen;
}

static uint64_t choose_offset(const placed_list* list,
                              uint32_t item,
                              bool best_fit,
                              bool in_place) {
    const berth_packer* self = list->self;
    if (in_place && fits_at_partner(list, item, self->before[item]))
        return self->offset[self->before[item]];
    if (in_place && fits_at_partner(list, item, self->after[item]))
        return self->offset[self->after[item]];
    return find_gap(list, item, best_fit);
}

static void insert(placed_list* list, uint32_t item, uint64_t offset) {
    berth_packer* self = list->self;
    uint32_t from = 0;
    for (uint32_t to = list->count; from < to;) {
        const uint32_t middle = from + (to - from) / 2;
        if (self->offset[self->placed[middle]] <= offset)
            from = middle + 1;
        else
            to = middle;
    }
    memmove(
        self->placed + from + 1, self->placed + from, (list->count - from) * sizeof *self->placed);
    self->placed[from] = item;
    self->offset[item] = offset;
    self->is_placed[item] = true;
    list->count++;
}

static void drop_ended(placed_list* list, uint32_t now) {
    berth_packer* self = list->self;
    uint32_t kept = 0;
    for (uint32_t k = 0; k < list->count; k++)
        if (self->end[self->placed[k]] > now) self->placed[kept++] = self->placed[k];
    list->count = kept;
}

/// Places the items with given offsets; the highest of their ends.
static uint64_t place_given(placed_list* list) {
    berth_packer* self = list->self;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        if (self->given[i] == BERTH_PACK_ANYWHERE) continue;
        insert(list, i, self->given[i]);
        if (self->given[i] + self->size[i] > peak) peak = self->given[i] + self->size[i];
    }
    return peak;
}

uint64_t berth_packer_run_constrained(berth_packer* self,
                                      berth_packer_constrained rule,
                                      uint64_t limit,
                                      berth_packing_budget* budget) {
    memset(self->is_placed, 0, self->count * sizeof *self->is_placed);
    placed_list list = {self, 0};
    uint64_t peak = place_given(&list);
    uint64_t passed = 0;
    uint32_t drop_at = list.count + DROP_GAP;
    for (uint32_t i = 0; i < self->count; i++) {
        const uint32_t item = self->order[i];
        if (self->given[item] != BERTH_PACK_ANYWHERE) continue;
        if (rule.by_start && list.count >= drop_at) {
            drop_ended(&list, self->start[item]);
            drop_at = 2 * list.count + DROP_GAP;
        }
        insert(&list, item, choose_offset(&list, item, rule.best_fit, rule.in_place));
        const uint64_t high = self->offset[item] + self->size[item];
        if (high > peak) {
            peak = high;
            if (peak > limit) return UINT64_MAX;
        }
        passed += list.count;
        if (budget != NULL && passed > LOOK_ITEMS) {
            passed = 0;
            berth_packing_budget_look(budget, self->peak, self->lower_bound);
            if (budget->over) return UINT64_MAX;
        }
    }
    return peak;
}
