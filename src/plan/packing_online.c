// SPDX-License-Identifier: Apache-2.0
// Greedy rules in order of time: an item goes into a gap between those that are alive. Few alive:
// an array by offset, looked through for each. Many: gaps in bins by size, in constant time.
#include <string.h>

#include "plan/packing_internal.h"

/// Up to so many items alive at a time the array is faster than the bins.
#define ARRAY_LIMIT 128u

// ---- Few alive: an array sorted by offset; gap i lies below item i.

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

/// The order of time, or of time backwards.
typedef struct time_order {
    const berth_packer* self;
    bool mirrored;
    uint32_t gone; ///< items that ended so far
} time_order;

static uint32_t order_item(const time_order* order, uint32_t i) {
    return order->mirrored ? order->self->by_end[order->self->count - 1 - i] : i;
}

/// The next item that ended when `item` begins; none if all others stay.
static uint32_t order_next_gone(time_order* order, uint32_t item) {
    const berth_packer* self = order->self;
    const uint32_t next =
        order->mirrored ? self->count - 1 - order->gone : self->by_end[order->gone];
    const bool stays =
        order->mirrored ? self->start[next] < self->end[item] : self->end[next] > self->start[item];
    if (stays) return BERTH_PACKER_NONE;
    order->gone++;
    return next;
}

static uint64_t run_array(berth_packer* self,
                          berth_packing_order rule,
                          bool mirrored,
                          uint64_t limit) {
    live_list live = {self->live_low, self->live_high, self->live_item, self->gap_stamp, 0, 0};
    live.stamp[0] = 0;
    time_order order = {self, mirrored, 0};
    uint64_t peak = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        const uint32_t item = order_item(&order, i);
        for (uint32_t gone; (gone = order_next_gone(&order, item)) != BERTH_PACKER_NONE;)
            live_remove(&live, self->offset[gone]);
        const uint64_t top = peak > self->lower_bound ? peak : self->lower_bound;
        const uint32_t at = choose_gap(&live, self->size[item], top, rule);
        const uint64_t low = at == 0 ? 0 : live.high[at - 1];
        live_insert(&live, at, low, self->size[item], item);
        self->offset[item] = low;
        if (low + self->size[item] > peak) peak = low + self->size[item];
        if (peak > limit) return UINT64_MAX;
    }
    return peak;
}

// ---- Many alive: the items form a list by offset, and the gap below each is in a bin.

/// Sixteen bins for each power of two: a gap is at most 1/16 larger than others in its bin.
#define BINS (64u * 16u)
/// Gaps of the first bin, some of which may be too small, that are looked at.
#define LOOKS 8u

typedef struct bins {
    berth_packer* self;
    uint32_t* below;    ///< [count] the item alive below
    uint32_t* above;    ///< [count] the item alive above
    uint32_t* bin_prev; ///< [count] towards the head of its gap's bin
    uint32_t* bin_next;
    uint32_t top; ///< the highest item alive
    uint32_t head[BINS];
    uint64_t filled[BINS / 64]; ///< a bit for each bin with gaps
} bins;

static uint32_t bin_of(uint64_t bytes) {
    if (bytes < 16) return (uint32_t)bytes;
    const uint32_t octave = 63u - (uint32_t)__builtin_clzll(bytes);
    return octave * 16 + ((uint32_t)(bytes >> (octave - 4)) & 15u);
}

static uint64_t high_of(const berth_packer* self, uint32_t item) {
    return item == BERTH_PACKER_NONE ? 0 : self->offset[item] + self->size[item];
}

static uint64_t gap_of(const bins* b, uint32_t item) {
    return b->self->offset[item] - high_of(b->self, b->below[item]);
}

/// The gap below `item` goes to the head of its bin: the latest are taken first.
static void bins_add(bins* b, uint32_t item) {
    const uint64_t gap = gap_of(b, item);
    if (gap == 0) return;
    const uint32_t bin = bin_of(gap);
    const uint32_t head = b->head[bin];
    b->bin_prev[item] = BERTH_PACKER_NONE;
    b->bin_next[item] = head;
    if (head != BERTH_PACKER_NONE) b->bin_prev[head] = item;
    b->head[bin] = item;
    b->filled[bin / 64] |= UINT64_C(1) << (bin % 64);
}

static void bins_remove(bins* b, uint32_t item) {
    const uint64_t gap = gap_of(b, item);
    if (gap == 0) return;
    const uint32_t prev = b->bin_prev[item];
    const uint32_t next = b->bin_next[item];
    if (next != BERTH_PACKER_NONE) b->bin_prev[next] = prev;
    if (prev != BERTH_PACKER_NONE) {
        b->bin_next[prev] = next;
        return;
    }
    const uint32_t bin = bin_of(gap);
    b->head[bin] = next;
    if (next == BERTH_PACKER_NONE) b->filled[bin / 64] &= ~(UINT64_C(1) << (bin % 64));
}

/// The item above a gap of at least `size` bytes; none if there is no gap.
static uint32_t bins_find(const bins* b, uint64_t size, bool best) {
    uint32_t bin = bin_of(size);
    uint32_t chosen = BERTH_PACKER_NONE;
    uint32_t item = b->head[bin];
    for (uint32_t k = 0; k < LOOKS && item != BERTH_PACKER_NONE; k++, item = b->bin_next[item]) {
        if (gap_of(b, item) < size) continue;
        if (!best) return item;
        if (chosen == BERTH_PACKER_NONE || gap_of(b, item) < gap_of(b, chosen)) chosen = item;
    }
    if (chosen != BERTH_PACKER_NONE || ++bin == BINS) return chosen;
    uint64_t word = b->filled[bin / 64] & (~UINT64_C(0) << (bin % 64));
    for (uint32_t w = bin / 64;;) {
        if (word != 0) return b->head[w * 64 + (uint32_t)__builtin_ctzll(word)];
        if (++w == BINS / 64) return BERTH_PACKER_NONE;
        word = b->filled[w];
    }
}

static void bins_insert(bins* b, uint32_t item, uint32_t above) {
    berth_packer* self = b->self;
    const uint32_t below = above == BERTH_PACKER_NONE ? b->top : b->below[above];
    if (above != BERTH_PACKER_NONE) bins_remove(b, above);
    self->offset[item] = high_of(self, below);
    b->below[item] = below;
    b->above[item] = above;
    if (below != BERTH_PACKER_NONE) b->above[below] = item;
    if (above == BERTH_PACKER_NONE) {
        b->top = item;
    } else {
        b->below[above] = item;
        bins_add(b, above);
    }
}

static void bins_take_out(bins* b, uint32_t item) {
    const uint32_t below = b->below[item];
    const uint32_t above = b->above[item];
    bins_remove(b, item);
    if (below != BERTH_PACKER_NONE) b->above[below] = above;
    if (above == BERTH_PACKER_NONE) {
        b->top = below;
        return;
    }
    bins_remove(b, above);
    b->below[above] = below;
    bins_add(b, above);
}

static uint64_t run_bins(berth_packer* self, bool best, bool mirrored, uint64_t limit) {
    bins b = {.self = self,
              .below = self->order,
              .above = self->swap,
              .bin_prev = self->placed,
              .bin_next = self->live_item,
              .top = BERTH_PACKER_NONE};
    memset(b.head, 0xFF, sizeof b.head);
    time_order order = {self, mirrored, 0};
    uint64_t peak = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        const uint32_t item = order_item(&order, i);
        for (uint32_t gone; (gone = order_next_gone(&order, item)) != BERTH_PACKER_NONE;)
            bins_take_out(&b, gone);
        bins_insert(&b, item, bins_find(&b, self->size[item], best));
        const uint64_t high = self->offset[item] + self->size[item];
        if (high > peak) peak = high;
        if (peak > limit) return UINT64_MAX;
    }
    return peak;
}

uint64_t berth_packer_run_online(berth_packer* self, berth_packing_order order, uint64_t limit) {
    const bool mirrored =
        order == BERTH_PACKING_REVERSE_BEST || order == BERTH_PACKING_REVERSE_LOWEST;
    const bool lowest =
        order == BERTH_PACKING_ONLINE_LOWEST || order == BERTH_PACKING_REVERSE_LOWEST;
    if (self->most_alive <= ARRAY_LIMIT || lowest) return run_array(self, order, mirrored, limit);
    return run_bins(self, order != BERTH_PACKING_ONLINE_RECENT, mirrored, limit);
}
