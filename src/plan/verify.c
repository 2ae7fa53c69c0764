// SPDX-License-Identifier: Apache-2.0
// Sweeps over time and compares each buffer with all that are alive when it begins.
#include "plan/verify.h"

#include <stdlib.h>

#include "base/error.h"

typedef struct sweep_item {
    uint64_t low;
    uint64_t high;
    uint32_t start;
    uint32_t end;
    uint32_t index;
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
            *live -= alive[i].high - alive[i].low;
    }
    return kept;
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
            if (alive[k].low < item->high && item->low < alive[k].high)
                reject(result, alive[k].index, item->index);
        alive[alive_count++] = *item;
        if (item->end < next_end) next_end = item->end;
        live += item->high - item->low;
        if (live > result->lower_bound) result->lower_bound = live;
        if (item->high > result->peak) result->peak = item->high;
    }
}

berth_status berth_verify_packing(const berth_host* host,
                                  const berth_pack_problem* problem,
                                  const uint64_t* offsets,
                                  berth_pack_verdict* out_result) {
    const berth_interval* intervals = problem->intervals;
    const size_t count = problem->count;
    const uint64_t alignment = problem->alignment == 0 ? 1 : problem->alignment;
    *out_result = (berth_pack_verdict){.valid = true};
    sweep_item* items = berth_host_calloc(host, count * 2 + 1, sizeof *items);
    if (items == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to check %zu buffers", count);
    size_t kept = 0;
    bool sorted = true;
    for (size_t i = 0; i < count; i++) {
        const berth_interval* from = &intervals[i];
        if (from->size == 0 || from->start >= from->end) continue;
        const uint32_t index = (uint32_t)i;
        if (offsets[i] % alignment != 0 || from->size > UINT64_MAX - offsets[i]) {
            reject(out_result, index, index);
            continue;
        }
        items[kept] =
            (sweep_item){offsets[i], offsets[i] + from->size, from->start, from->end, index};
        sorted = sorted && (kept == 0 || items[kept - 1].start <= from->start);
        kept++;
    }
    if (!sorted) qsort(items, kept, sizeof *items, compare_starts);
    sweep(items, kept, items + count, out_result);
    berth_host_free(host, items);
    return BERTH_OK;
}

berth_status berth_pack_verify(const berth_pack_problem* problem,
                               const uint64_t* offsets,
                               berth_pack_verdict* out_verdict) {
    if (out_verdict != NULL) *out_verdict = (berth_pack_verdict){.valid = false};
    if (problem == NULL || out_verdict == NULL ||
        (problem->count > 0 && (problem->intervals == NULL || offsets == NULL)))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "buffers, offsets or verdict are missing");
    return berth_verify_packing(berth_host_default(), problem, offsets, out_verdict);
}
