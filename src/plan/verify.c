// SPDX-License-Identifier: Apache-2.0
// Sweeps over time and compares each buffer with all that are alive when it begins.
#include "plan/verify.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/error.h"

#define NOBODY UINT32_MAX

/// A buffer that needs bytes.
typedef struct sweep_item {
    uint64_t low;
    uint64_t high;
    uint64_t given; ///< bytes that it leaves to its heir at its last moment
    uint64_t taken; ///< bytes of those that it takes over at its first
    uint32_t start;
    uint32_t end;
    uint32_t index;
    uint32_t from; ///< index of the buffer whose place it may take, or NOBODY
} sweep_item;

static int compare_starts(const void* left, const void* right) {
    const sweep_item* a = left;
    const sweep_item* b = right;
    return (a->start > b->start) - (a->start < b->start);
}

// ---- The problem itself.

static bool is_alignment(uint64_t alignment) {
    return alignment == 0 || berth_is_power_of_two(alignment);
}

static berth_status check_alignments(const berth_pack_problem* problem) {
    bool sound = is_alignment(problem->alignment);
    for (size_t i = 0; problem->alignments != NULL && i < problem->count; i++)
        sound = sound && is_alignment(problem->alignments[i]);
    if (sound) return BERTH_OK;
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "an alignment is no power of two");
}

static berth_status check_pairs(const berth_pack_problem* problem) {
    for (size_t k = 0; k < problem->in_place_count; k++) {
        const berth_pack_in_place pair = problem->in_place[k];
        if (pair.from < problem->count && pair.to < problem->count && pair.from != pair.to &&
            problem->intervals[pair.to].start < UINT32_MAX &&
            problem->intervals[pair.to].start + 1 == problem->intervals[pair.from].end)
            continue;
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "pair %zu in place is none: buffers %u and %u",
                          k,
                          pair.from,
                          pair.to);
    }
    return BERTH_OK;
}

static bool is_exclusive(const berth_pack_problem* problem, size_t index) {
    return problem->exclusive != NULL && problem->exclusive[index];
}

// ---- Each buffer by itself.

static void reject(berth_pack_verdict* result, uint32_t first, uint32_t second) {
    if (!result->valid) return; // the first fault is reported
    result->valid = false;
    result->first = first;
    result->second = second;
}

/// Fills `item`; false if the buffer is misaligned, too high or not where it was to be.
static bool make_item(const berth_pack_problem* problem,
                      uint32_t index,
                      uint64_t offset,
                      sweep_item* item) {
    const berth_interval* own = &problem->intervals[index];
    const uint64_t common = problem->alignment == 0 ? 1 : problem->alignment;
    uint64_t alignment = problem->alignments != NULL ? problem->alignments[index] : 0;
    uint64_t size;
    if (alignment == 0) alignment = common;
    *item = (sweep_item){.low = offset, .index = index, .from = NOBODY};
    // what nobody may share, at any moment, is there at every moment
    item->start = is_exclusive(problem, index) ? 0 : own->start;
    item->end = is_exclusive(problem, index) ? UINT32_MAX : own->end;
    if (problem->fixed_offsets != NULL && problem->fixed_offsets[index] != BERTH_PACK_ANYWHERE &&
        problem->fixed_offsets[index] != offset)
        return false;
    return offset % alignment == 0 && berth_try_round_up(own->size, common, &size) &&
           berth_add_u64(offset, size, &item->high);
}

/// The item of a buffer; NULL if it needs no bytes. `items` [count] are in order of their index.
static sweep_item* find_item(sweep_item* items, size_t count, uint32_t index) {
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (items[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && items[low].index == index ? &items[low] : NULL;
}

/// Notes who may take whose place.
static void mark_pairs(const berth_pack_problem* problem, sweep_item* items, size_t count) {
    for (size_t k = 0; k < problem->in_place_count; k++) {
        const berth_pack_in_place pair = problem->in_place[k];
        if (is_exclusive(problem, pair.from) || is_exclusive(problem, pair.to)) continue;
        sweep_item* from = find_item(items, count, pair.from);
        sweep_item* to = find_item(items, count, pair.to);
        if (from == NULL || to == NULL) continue;
        const uint64_t old_bytes = from->high - from->low;
        const uint64_t new_bytes = to->high - to->low;
        to->from = pair.from;
        to->taken = from->given = old_bytes < new_bytes ? old_bytes : new_bytes;
    }
}

// ---- All together.

/// Drops the items that ended by `now`; returns how many stay.
static size_t drop_ended(sweep_item* alive, size_t count, uint32_t now, uint64_t* live) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (alive[i].end > now)
            alive[kept++] = alive[i];
        else
            *live -= alive[i].high - alive[i].low - alive[i].given;
    }
    return kept;
}

static bool share_bytes(const sweep_item* a, const sweep_item* b) {
    const bool is_pair = a->from == b->index || b->from == a->index;
    if (is_pair && a->low == b->low) return false;
    return a->low < b->high && b->low < a->high;
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
            if (share_bytes(&alive[k], item)) reject(result, alive[k].index, item->index);
        alive[alive_count++] = *item;
        if (item->end < next_end) next_end = item->end;
        live += item->high - item->low - item->taken;
        if (live > result->lower_bound) result->lower_bound = live;
        if (item->high > result->peak) result->peak = item->high;
    }
}

berth_status berth_verify_packing(const berth_host* host,
                                  const berth_pack_problem* problem,
                                  const uint64_t* offsets,
                                  berth_pack_verdict* out_result) {
    const size_t count = problem->count;
    *out_result = (berth_pack_verdict){.valid = false};
    BERTH_TRY(check_alignments(problem));
    BERTH_TRY(check_pairs(problem));
    sweep_item* items = berth_host_calloc(host, count * 2 + 1, sizeof *items);
    if (items == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to check %zu buffers", count);
    out_result->valid = true;
    size_t kept = 0;
    bool sorted = true;
    for (uint32_t i = 0; i < count; i++) {
        const berth_interval* from = &problem->intervals[i];
        if (from->size == 0 || from->start >= from->end) continue;
        if (!make_item(problem, i, offsets[i], &items[kept])) {
            reject(out_result, i, i);
            continue;
        }
        sorted = sorted && (kept == 0 || items[kept - 1].start <= items[kept].start);
        kept++;
    }
    mark_pairs(problem, items, kept);
    if (!sorted) qsort(items, kept, sizeof *items, compare_starts);
    sweep(items, kept, items + count, out_result);
    berth_host_free(host, items);
    return BERTH_OK;
}

berth_status berth_pack_verify(const berth_pack_problem* problem,
                               const uint64_t* offsets,
                               berth_pack_verdict* out_verdict) {
    if (out_verdict != NULL) *out_verdict = (berth_pack_verdict){.valid = false};
    if (problem == NULL || out_verdict == NULL || problem->count > INT32_MAX ||
        (problem->count > 0 && (problem->intervals == NULL || offsets == NULL)) ||
        (problem->in_place_count > 0 && problem->in_place == NULL))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "buffers, offsets or verdict are missing");
    return berth_verify_packing(berth_host_default(), problem, offsets, out_verdict);
}
