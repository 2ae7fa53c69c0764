// SPDX-License-Identifier: Apache-2.0
// Builds a packing upwards. In each section of time the bytes not placed yet have to lie above the
// skyline, so the section with most of them for its height is served next, with the item that can
// lie lowest there.
#include "plan/packing_skyline.h"

#include <string.h>

#include "base/carve.h"
#include "base/checked.h"

/// Slots of items not placed yet, and sections, that share a summary.
#define BLOCK 64u
#define PLACED UINT64_MAX
#define DONE INT64_MAX
/// Slots passed between two looks at the clock.
#define LOOK_SLOTS (UINT64_C(1) << 20)

/// The items of a block of slots live in sections [first, last).
typedef struct block_span {
    uint32_t first;
    uint32_t last;
} block_span;

/// Items sorted by start in slots; those placed are dropped when half of them are.
struct berth_skyline {
    berth_packer* packer;
    uint32_t section_count;
    uint32_t* first;  ///< [count] first section of an item
    uint32_t* last;   ///< [count] the section after its last
    uint32_t* rank;   ///< [count] of equal keys the lowest rank is placed first
    uint64_t* full;   ///< [section_count] bytes of all items in a section
    uint64_t* open;   ///< [section_count] bytes of those not placed
    uint64_t* floor;  ///< [section_count] the skyline
    int64_t* urgency; ///< [section_count] the least is served next; DONE: nothing is left there
    int64_t* block_urgency; ///< the least of a block of sections

    uint32_t slot_count;
    uint32_t* item; ///< [count] in this slot
    uint32_t* slot_first;
    uint32_t* slot_last;
    uint32_t* slot_rank;
    uint64_t* low; ///< the lowest offset it can have; PLACED: it has one
    block_span* spans;

    unsigned shift; ///< of bytes in keys, so that no sum of them overflows
    berth_skyline_rule rule;
};

static size_t lay_out(berth_skyline* self, char* block, size_t n) {
    size_t total = berth_round_up(sizeof *self, 16);
    self->first = berth_carve(block, &total, n, sizeof(uint32_t));
    self->last = berth_carve(block, &total, n, sizeof(uint32_t));
    self->rank = berth_carve(block, &total, n, sizeof(uint32_t));
    self->full = berth_carve(block, &total, n, sizeof(uint64_t));
    self->open = berth_carve(block, &total, n, sizeof(uint64_t));
    self->floor = berth_carve(block, &total, n, sizeof(uint64_t));
    self->urgency = berth_carve(block, &total, n, sizeof(int64_t));
    self->block_urgency = berth_carve(block, &total, n / BLOCK + 1, sizeof(int64_t));
    self->item = berth_carve(block, &total, n, sizeof(uint32_t));
    self->slot_first = berth_carve(block, &total, n, sizeof(uint32_t));
    self->slot_last = berth_carve(block, &total, n, sizeof(uint32_t));
    self->slot_rank = berth_carve(block, &total, n, sizeof(uint32_t));
    self->low = berth_carve(block, &total, n, sizeof(uint64_t));
    self->spans = berth_carve(block, &total, n / BLOCK + 1, sizeof(block_span));
    return total;
}

/// Time is cut into sections at each end that follows a start: what lives between two of those
/// lives in the section too.
static void find_sections(berth_skyline* self) {
    const berth_packer* packer = self->packer;
    uint32_t section = 0;
    bool begun = false;
    for (uint32_t i = 0, gone = 0; gone < packer->count;) {
        const uint32_t ending = packer->by_end[gone];
        if (i < packer->count && packer->start[i] < packer->end[ending]) {
            self->first[i++] = section;
            begun = true;
            continue;
        }
        section += begun;
        begun = false;
        self->last[ending] = section;
        gone++;
    }
    self->section_count = section;
}

static void sum_sections(berth_skyline* self) {
    memset(self->full, 0, self->section_count * sizeof *self->full);
    for (uint32_t i = 0; i < self->packer->count; i++) {
        self->full[self->first[i]] += self->packer->size[i];
        if (self->last[i] < self->section_count) self->full[self->last[i]] -= self->packer->size[i];
    }
    for (uint32_t k = 1; k < self->section_count; k++)
        self->full[k] += self->full[k - 1];
}

berth_skyline* berth_skyline_create(berth_packer* packer) {
    berth_skyline measured;
    char* block = berth_host_alloc(packer->host, lay_out(&measured, NULL, packer->count));
    if (block == NULL) return NULL;
    berth_skyline* self = (berth_skyline*)(void*)block;
    (void)lay_out(self, block, packer->count);
    self->packer = packer;
    find_sections(self);
    sum_sections(self);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < packer->count; i++)
        sum += packer->size[i];
    for (self->shift = 0; sum >> self->shift >> 52 != 0;)
        self->shift++;
    return self;
}

void berth_skyline_destroy(berth_skyline* self) {
    if (self != NULL) berth_host_free(self->packer->host, self);
}

static uint64_t tie_of(const berth_skyline* self, uint32_t i, berth_skyline_tie tie) {
    const berth_packer* packer = self->packer;
    const uint64_t duration = packer->end[i] - packer->start[i];
    if (tie == BERTH_SKYLINE_SECTIONS) return self->last[i] - self->first[i];
    if (tie == BERTH_SKYLINE_DURATION) return duration;
    uint64_t area;
    return berth_mul_u64(duration, packer->size[i], &area) ? area : UINT64_MAX;
}

static void rank_items(berth_skyline* self, berth_skyline_tie tie) {
    berth_packer* packer = self->packer;
    for (uint32_t i = 0; i < packer->count; i++)
        packer->entries[i] = (berth_sort_entry){~packer->size[i], i};
    berth_sort_entries(packer->entries, packer->entries_swap, packer->count);
    for (uint32_t i = 0; i < packer->count; i++)
        packer->entries[i].key = ~tie_of(self, packer->entries[i].item, tie);
    berth_sort_entries(packer->entries, packer->entries_swap, packer->count);
    for (uint32_t i = 0; i < packer->count; i++)
        self->rank[packer->entries[i].item] = i;
}

// ---- Sections.

static void rate(berth_skyline* self, uint32_t section) {
    self->urgency[section] =
        self->open[section] == 0
            ? DONE
            : (int64_t)(self->floor[section] >> self->shift) * 8 -
                  (int64_t)(self->open[section] >> self->shift) * self->rule.crowd_eighths;
}

static void rate_block(berth_skyline* self, uint32_t block) {
    const uint32_t begin = block * BLOCK;
    const uint32_t left = self->section_count - begin;
    const uint32_t end = begin + (left < BLOCK ? left : BLOCK);
    int64_t least = DONE;
    for (uint32_t k = begin; k < end; k++)
        least = self->urgency[k] < least ? self->urgency[k] : least;
    self->block_urgency[block] = least;
}

static void rate_all(berth_skyline* self) {
    memcpy(self->open, self->full, self->section_count * sizeof *self->open);
    memset(self->floor, 0, self->section_count * sizeof *self->floor);
    for (uint32_t k = 0; k < self->section_count; k++)
        rate(self, k);
    for (uint32_t block = 0; block * BLOCK < self->section_count; block++)
        rate_block(self, block);
}

static uint32_t most_urgent(const berth_skyline* self) {
    uint32_t block = 0;
    for (uint32_t k = 1; k * BLOCK < self->section_count; k++)
        if (self->block_urgency[k] < self->block_urgency[block]) block = k;
    uint32_t section = block * BLOCK;
    while (self->urgency[section] != self->block_urgency[block])
        section++;
    return section;
}

/// Fills sections [first, last) up to `top` with an item of `size` bytes.
static void fill(berth_skyline* self, uint32_t first, uint32_t last, uint64_t size, uint64_t top) {
    for (uint32_t k = first; k < last; k++) {
        self->floor[k] = top;
        self->open[k] -= size;
        rate(self, k);
    }
    for (uint32_t block = first / BLOCK; block * BLOCK < last; block++)
        rate_block(self, block);
}

// ---- Items.

static void span_all(berth_skyline* self) {
    for (uint32_t begin = 0; begin < self->slot_count; begin += BLOCK) {
        block_span span = {.first = UINT32_MAX};
        for (uint32_t s = begin; s < begin + BLOCK && s < self->slot_count; s++) {
            if (self->slot_first[s] < span.first) span.first = self->slot_first[s];
            if (self->slot_last[s] > span.last) span.last = self->slot_last[s];
        }
        self->spans[begin / BLOCK] = span;
    }
}

static void fill_slots(berth_skyline* self) {
    self->slot_count = self->packer->count;
    for (uint32_t i = 0; i < self->slot_count; i++) {
        self->item[i] = i;
        self->slot_first[i] = self->first[i];
        self->slot_last[i] = self->last[i];
        self->slot_rank[i] = self->rank[i];
        self->low[i] = 0;
    }
    span_all(self);
}

/// Closes up over the slots of items that are placed.
static void compact(berth_skyline* self) {
    uint32_t kept = 0;
    for (uint32_t s = 0; s < self->slot_count; s++) {
        if (self->low[s] == PLACED) continue;
        self->item[kept] = self->item[s];
        self->slot_first[kept] = self->slot_first[s];
        self->slot_last[kept] = self->slot_last[s];
        self->slot_rank[kept] = self->slot_rank[s];
        self->low[kept++] = self->low[s];
    }
    self->slot_count = kept;
    span_all(self);
}

static uint32_t block_end(const berth_skyline* self, uint32_t begin) {
    return self->slot_count - begin < BLOCK ? self->slot_count : begin + BLOCK;
}

/// The item of `section` that can lie lowest, by the rule. One is there.
static uint32_t choose(const berth_skyline* self, uint32_t section) {
    const uint64_t per_size = self->rule.size_eighths;
    uint32_t chosen = UINT32_MAX;
    uint64_t least = UINT64_MAX;
    for (uint32_t begin = 0; begin < self->slot_count; begin += BLOCK) {
        const block_span span = self->spans[begin / BLOCK];
        if (span.first > section) break; // by start: so are all others
        if (span.last <= section) continue;
        for (uint32_t s = begin, end = block_end(self, begin); s < end; s++) {
            if (self->slot_first[s] > section || self->slot_last[s] <= section) continue;
            if (self->low[s] == PLACED) continue;
            uint64_t key = (self->low[s] >> self->shift) * 8;
            if (per_size > 0) key += (self->packer->size[self->item[s]] >> self->shift) * per_size;
            if (key > least) continue;
            if (key == least && self->slot_rank[s] > self->slot_rank[chosen]) continue;
            least = key;
            chosen = s;
        }
    }
    return chosen;
}

/// Lifts the items that meet sections [first, last), filled up to `top`.
static void lift(berth_skyline* self, uint32_t first, uint32_t last, uint64_t top) {
    for (uint32_t begin = 0; begin < self->slot_count; begin += BLOCK) {
        const block_span span = self->spans[begin / BLOCK];
        if (span.first >= last) break;
        if (span.last <= first) continue;
        for (uint32_t s = begin, end = block_end(self, begin); s < end; s++) {
            const bool meets = self->slot_first[s] < last && self->slot_last[s] > first;
            if (meets && self->low[s] < top) self->low[s] = top;
        }
    }
}

/// Places the item of `slot` where it can be lowest; its end.
static uint64_t place(berth_skyline* self, uint32_t slot) {
    berth_packer* packer = self->packer;
    const uint32_t item = self->item[slot];
    const uint64_t top = self->low[slot] + packer->size[item];
    packer->offset[item] = self->low[slot];
    self->low[slot] = PLACED;
    fill(self, self->slot_first[slot], self->slot_last[slot], packer->size[item], top);
    lift(self, self->slot_first[slot], self->slot_last[slot], top);
    return top;
}

uint64_t berth_skyline_run(berth_skyline* self,
                           berth_skyline_rule rule,
                           uint64_t limit,
                           berth_packing_budget* budget) {
    const berth_packer* packer = self->packer;
    self->rule = rule;
    rank_items(self, rule.tie);
    rate_all(self);
    fill_slots(self);
    uint64_t peak = 0, passed = 0;
    uint32_t left = packer->count;
    while (left > 0) {
        const uint64_t top = place(self, choose(self, most_urgent(self)));
        if (top > peak) peak = top;
        if (peak > limit) return UINT64_MAX;
        if (--left * 2 < self->slot_count && self->slot_count > BLOCK) compact(self);
        passed += self->slot_count;
        if (budget != NULL && passed > LOOK_SLOTS) {
            passed = 0;
            berth_packing_budget_look(budget, packer->peak, packer->lower_bound);
            if (budget->over) return UINT64_MAX;
        }
    }
    return peak;
}
