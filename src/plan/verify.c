// SPDX-License-Identifier: Apache-2.0
// Sweeps over time and compares each buffer with all that are alive when it begins.
#include "plan/verify.h"

#include <stdlib.h>

#include "base/error.h"

#define NOBODY UINT32_MAX

typedef struct sweep_item {
    uint64_t low;
    uint64_t high;
    uint64_t counted; ///< bytes alive that it adds when it begins, less what `from` shares with it
    uint64_t shared;  ///< bytes that were not counted because `to` may take its place
    uint32_t start;
    uint32_t end;
    uint32_t index;
    uint32_t from; ///< the buffer whose place it may take, or NOBODY
} sweep_item;

static int compare_starts(const void* left, const void* right) {
    const sweep_item* a = left;
    const sweep_item* b = right;
    return (a->start > b->start) - (a->start < b->start);
}

static void reject(berth_pack_verdict* result, uint32_t first, uint32_t second) {
    if (!result->valid) return; // the first fault is reported
    result->valid = false;
    result->first = first;
    result->second = second;
}

/// Drops the items that ended by `now`; returns how many stay.
static size_t drop_ended(sweep_item* alive, size_t count, uint32_t now, uint64_t* live) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (alive[i].end > now)
            alive[kept++] = alive[i];
        else
            *live -= alive[i].high - alive[i].low - alive[i].shared;
    }
    return kept;
}

/// A pair in place may overlap if it begins at one offset.
static bool may_overlap(const sweep_item* a, const sweep_item* b) {
    return (a->from == b->index || b->from == a->index) && a->low == b->low;
}

static void sweep(sweep_item* items, size_t count, sweep_item* alive, berth_pack_verdict* result) {
    size_t alive_count = 0;
    uint64_t live = 0;
    uint32_t next_end = 0; // no item alive ends before it
    for (size_t i = 0; i < count; i++) {
        const sweep_item* item = &items[i];
        if (item->start >= next_end) {
            alive_count = drop_ended(alive, alive_count, item->start, &live);
            next_end = UINT32_MAX;
            for (size_t k = 0; k < alive_count; k++)
                if (alive[k].end < next_end) next_end = alive[k].end;
        }
        for (size_t k = 0; k < alive_count; k++)
            if (alive[k].low < item->high && item->low < alive[k].high &&
                !may_overlap(&alive[k], item))
                reject(result, alive[k].index, item->index);
        alive[alive_count++] = *item;
        if (item->end < next_end) next_end = item->end;
        live += item->counted;
        if (live > result->lower_bound) result->lower_bound = live;
        if (item->high > result->peak) result->peak = item->high;
    }
}

// ---- What was asked.

static bool is_power_of_two(uint64_t x) { return x != 0 && (x & (x - 1)) == 0; }

static bool needs_bytes(const berth_interval* interval) {
    return interval->size > 0 && interval->start < interval->end;
}

static uint64_t alignment_of(const berth_pack_problem* problem, size_t i) {
    const uint64_t own = problem->alignments == NULL ? 0 : problem->alignments[i];
    if (own != 0) return own;
    return problem->alignment == 0 ? 1 : problem->alignment;
}

static bool is_exclusive(const berth_pack_problem* problem, size_t i) {
    return problem->exclusive != NULL && problem->exclusive[i];
}

static bool is_kept_offset(const berth_pack_problem* problem, size_t i, uint64_t offset) {
    return problem->fixed_offsets == NULL || problem->fixed_offsets[i] == BERTH_PACK_ANYWHERE ||
           problem->fixed_offsets[i] == offset;
}

/// The items to sweep, unsorted. Those that share with nobody live all the time.
static berth_status make_items(const berth_pack_problem* problem,
                               const uint64_t* offsets,
                               sweep_item* items,
                               size_t* out_count,
                               berth_pack_verdict* result) {
    size_t count = 0;
    for (size_t i = 0; i < problem->count; i++) {
        const berth_interval* asked = &problem->intervals[i];
        const uint64_t alignment = alignment_of(problem, i);
        if (!is_power_of_two(alignment))
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "alignment %llu of buffer %zu is no power of two",
                              (unsigned long long)alignment,
                              i);
        if (!needs_bytes(asked)) continue;
        const uint32_t index = (uint32_t)i;
        if (offsets[i] % alignment != 0 || asked->size > UINT64_MAX - offsets[i] ||
            !is_kept_offset(problem, i, offsets[i])) {
            reject(result, index, index);
            continue;
        }
        const bool exclusive = is_exclusive(problem, i);
        items[count++] = (sweep_item){.low = offsets[i],
                                      .high = offsets[i] + asked->size,
                                      .counted = asked->size,
                                      .start = exclusive ? 0 : asked->start,
                                      .end = exclusive ? UINT32_MAX : asked->end,
                                      .index = index,
                                      .from = NOBODY};
    }
    *out_count = count;
    return BERTH_OK;
}

/// What is known of a buffer while pairs are marked: its item, and the sides it is on.
typedef struct pair_note {
    uint32_t item;
    bool is_from;
    bool is_to;
} pair_note;

static berth_status mark_pairs(const berth_pack_problem* problem,
                               sweep_item* items,
                               size_t count,
                               pair_note* notes) {
    for (size_t i = 0; i < problem->count; i++)
        notes[i] = (pair_note){.item = NOBODY};
    for (size_t k = 0; k < count; k++)
        notes[items[k].index].item = (uint32_t)k;
    for (size_t k = 0; k < problem->in_place_count; k++) {
        const berth_pack_in_place pair = problem->in_place[k];
        if (pair.from >= problem->count || pair.to >= problem->count || pair.from == pair.to ||
            notes[pair.from].is_from || notes[pair.to].is_to)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "pair in place %zu of buffers %u and %u is none",
                              k,
                              pair.from,
                              pair.to);
        notes[pair.from].is_from = true;
        notes[pair.to].is_to = true;
        const berth_interval* from = &problem->intervals[pair.from];
        const berth_interval* to = &problem->intervals[pair.to];
        if (!needs_bytes(from) || !needs_bytes(to)) continue;
        if (to->start != from->end - 1)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "buffer %u of pair in place %zu does not start at the last moment of "
                              "buffer %u",
                              pair.to,
                              k,
                              pair.from);
        if (is_exclusive(problem, pair.from) || is_exclusive(problem, pair.to)) continue;
        if (notes[pair.from].item == NOBODY || notes[pair.to].item == NOBODY) continue; // rejected
        sweep_item* ending = &items[notes[pair.from].item];
        sweep_item* beginning = &items[notes[pair.to].item];
        beginning->from = pair.from;
        ending->shared = from->size < to->size ? from->size : to->size;
        beginning->counted -= ending->shared;
    }
    return BERTH_OK;
}

static berth_status find_pairs(const berth_host* host,
                               const berth_pack_problem* problem,
                               sweep_item* items,
                               size_t count) {
    if (problem->in_place_count == 0) return BERTH_OK;
    pair_note* notes = berth_host_calloc(host, problem->count + 1, sizeof *notes);
    if (notes == NULL)
        return berth_fail(
            BERTH_ERR_OUT_OF_MEMORY, "no memory to check %zu buffers", problem->count);
    const berth_status status = mark_pairs(problem, items, count, notes);
    berth_host_free(host, notes);
    return status;
}

static void sort_items(sweep_item* items, size_t count) {
    bool sorted = true;
    for (size_t k = 1; k < count && sorted; k++)
        sorted = items[k - 1].start <= items[k].start;
    if (!sorted) qsort(items, count, sizeof *items, compare_starts);
}

berth_status berth_verify_packing(const berth_host* host,
                                  const berth_pack_problem* problem,
                                  const uint64_t* offsets,
                                  berth_pack_verdict* out_result) {
    *out_result = (berth_pack_verdict){.valid = false};
    const size_t count = problem->count;
    if (count > INT32_MAX)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "%zu buffers are more than 2^31 - 1", count);
    sweep_item* items = berth_host_calloc(host, count * 2 + 1, sizeof *items);
    if (items == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to check %zu buffers", count);
    berth_pack_verdict verdict = {.valid = true};
    size_t kept = 0;
    berth_status status = make_items(problem, offsets, items, &kept, &verdict);
    if (status == BERTH_OK) status = find_pairs(host, problem, items, kept);
    if (status == BERTH_OK) {
        sort_items(items, kept);
        sweep(items, kept, items + count, &verdict);
        *out_result = verdict;
    }
    berth_host_free(host, items);
    return status;
}

berth_status berth_pack_verify(const berth_pack_problem* problem,
                               const uint64_t* offsets,
                               berth_pack_verdict* out_verdict) {
    if (out_verdict != NULL) *out_verdict = (berth_pack_verdict){.valid = false};
    if (problem == NULL || out_verdict == NULL ||
        (problem->count > 0 && (problem->intervals == NULL || offsets == NULL)) ||
        (problem->in_place_count > 0 && problem->in_place == NULL))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "buffers, offsets, pairs or verdict are missing");
    return berth_verify_packing(berth_host_default(), problem, offsets, out_verdict);
}
