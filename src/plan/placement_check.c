// SPDX-License-Identifier: Apache-2.0
// Checks a finished placement against its path, from the definitions alone.
#include "plan/step_model.h"
#include "plan/verify.h"

typedef struct placement_sums {
    uint64_t frame;
    uint64_t escaping;
    uint64_t peak;
    uint64_t lower_bound;
    uint64_t sum;
} placement_sums;

static bool is_pooled(const berth_placement* placement, uint32_t value) {
    return placement->places[value].offset == BERTH_PLACE_POOL;
}

static bool places_are_sound(const berth_placement* placement, placement_sums* tally) {
    const berth_path* path = placement->path;
    for (uint32_t v = 0; v < path->value_count; v++) {
        const berth_place* place = &placement->places[v];
        const bool escapes = (path->values[v].flags & BERTH_VALUE_ESCAPES) != 0;
        if (place->bytes % BERTH_PLAN_ALIGNMENT != 0 || place->bytes > UINT64_MAX / 4) return false;
        if (escapes != is_pooled(placement, v)) return false;
        tally->sum += place->bytes;
        if (escapes) {
            tally->escaping += place->bytes;
            continue;
        }
        if (place->offset > UINT64_MAX / 4) return false;
        const uint64_t top = place->offset + place->bytes;
        if (top > tally->frame) tally->frame = top;
    }
    return true;
}

/// Looks at every event with the values alive, which `alive` [value_count] holds.
static void walk_events(const berth_placement* placement, uint32_t* alive, placement_sums* tally) {
    const berth_path* path = placement->path;
    uint32_t count = 0;
    uint32_t next = 0;
    for (uint32_t e = 0; e < path->event_count; e++) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < count; i++)
            if (path->values[alive[i]].death >= e) alive[kept++] = alive[i];
        count = kept;
        for (; next < path->value_count && path->values[next].birth == e; next++)
            alive[count++] = next;
        uint64_t live = 0;
        uint64_t pool = 0;
        uint64_t high = 0;
        for (uint32_t i = 0; i < count; i++) {
            const berth_place* place = &placement->places[alive[i]];
            live += place->bytes;
            if (is_pooled(placement, alive[i]))
                pool += place->bytes;
            else if (place->bytes > 0 && place->offset + place->bytes > high)
                high = place->offset + place->bytes;
        }
        if (live > tally->lower_bound) tally->lower_bound = live;
        if (high + pool > tally->peak) tally->peak = high + pool;
    }
}

/// No two values alive at one moment share a byte.
static bool nothing_overlaps(const berth_placement* placement,
                             berth_interval* intervals,
                             uint64_t* offsets) {
    const berth_path* path = placement->path;
    for (uint32_t v = 0; v < path->value_count; v++) {
        const berth_trace_value* value = &path->values[v];
        const uint64_t size = is_pooled(placement, v) ? 0 : placement->places[v].bytes;
        intervals[v] = (berth_interval){size, value->birth, value->death + 1};
        offsets[v] = placement->places[v].offset;
    }
    const berth_pack_problem problem = {
        .intervals = intervals, .count = path->value_count, .alignment = BERTH_PLAN_ALIGNMENT};
    berth_pack_verdict result;
    const berth_status status =
        berth_verify_packing(berth_host_default(), &problem, offsets, &result);
    return status == BERTH_OK && result.valid;
}

bool berth_placement_is_valid(const berth_placement* placement) {
    const berth_host* host = berth_host_default();
    const size_t count = placement->path->value_count + (size_t)1;
    berth_interval* intervals = berth_host_calloc(host, count, sizeof *intervals);
    uint64_t* offsets = berth_host_calloc(host, count, sizeof *offsets);
    uint32_t* alive = berth_host_calloc(host, count, sizeof *alive);
    placement_sums tally = {0};
    bool valid = intervals != NULL && offsets != NULL && alive != NULL;
    valid = valid && places_are_sound(placement, &tally);
    valid = valid && nothing_overlaps(placement, intervals, offsets);
    if (valid) {
        walk_events(placement, alive, &tally);
        valid =
            tally.frame == placement->frame_bytes && tally.escaping == placement->escaping_bytes &&
            tally.peak == placement->peak_bytes &&
            tally.lower_bound == placement->lower_bound_bytes && tally.sum == placement->sum_bytes;
    }
    berth_host_free(host, intervals);
    berth_host_free(host, offsets);
    berth_host_free(host, alive);
    return valid;
}
