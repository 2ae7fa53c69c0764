// SPDX-License-Identifier: Apache-2.0
// Joins partners into single items, and rounds sizes up until offsets are aligned by themselves.
#include "plan/packing_merge.h"

static bool joins(const berth_packer* packer,
                  berth_packing_joining joining,
                  uint32_t from,
                  uint32_t to) {
    switch (joining) {
    case BERTH_PACKING_JOIN_EQUAL:
        return packer->size[from] == packer->size[to];
    case BERTH_PACKING_JOIN_SHRINKING:
        return packer->size[from] >= packer->size[to];
    case BERTH_PACKING_JOIN_ALL:
        return true;
    case BERTH_PACKING_JOIN_NONE:
    case BERTH_PACKING_JOIN_COUNT:
    default:
        return false;
    }
}

/// Follows the chain that begins with `first`, and cuts it where partners stay two.
static void join_chain(berth_packing_merge* self,
                       const berth_packer* packer,
                       berth_packing_joining joining,
                       uint32_t first,
                       berth_interval* intervals) {
    uint32_t root = first;
    for (uint32_t from = first, to; (to = packer->after[from]) != BERTH_PACKER_NONE; from = to) {
        // Beyond a partner that lives for one moment its own partners would meet.
        const bool brief = from != root && packer->end[from] - packer->start[from] == 1;
        if (brief || !joins(packer, joining, from, to)) {
            root = to;
            continue;
        }
        self->root[to] = root;
        self->joined++;
        if (packer->size[to] > intervals[root].size) intervals[root].size = packer->size[to];
        intervals[root].end = packer->end[to];
        intervals[to].size = 0;
    }
}

/// What all sizes are rounded up to; 0 if that would not do.
static uint64_t common_alignment(const berth_packer* packer) {
    uint64_t alignment = 1;
    for (uint32_t i = 0; i < packer->count; i++) {
        if (packer->given[i] != BERTH_PACK_ANYWHERE) return 0;
        if (packer->align[i] > alignment) alignment = packer->align[i];
    }
    return alignment;
}

bool berth_packing_merge_init(berth_packing_merge* self,
                              const berth_packer* packer,
                              berth_packing_joining joining) {
    *self = (berth_packing_merge){.load = {.whole = {.host = packer->host}},
                                  .plain = {.host = packer->host}};
    const uint64_t alignment = common_alignment(packer);
    if (alignment == 0) return false;
    const uint32_t count = packer->count;
    self->block =
        berth_host_alloc(packer->host, count * (sizeof(berth_interval) + sizeof(uint32_t)));
    if (self->block == NULL) return false;
    berth_interval* intervals = self->block;
    self->root = (uint32_t*)(intervals + count);
    for (uint32_t i = 0; i < count; i++) {
        intervals[i] = (berth_interval){packer->size[i], packer->start[i], packer->end[i]};
        self->root[i] = i;
    }
    for (uint32_t i = 0; i < count; i++)
        if (packer->before[i] == BERTH_PACKER_NONE) join_chain(self, packer, joining, i, intervals);
    const berth_pack_problem problem = {
        .intervals = intervals, .count = count, .alignment = alignment};
    if (berth_packing_load_init(&self->load, packer->host, &problem) != BERTH_OK) return false;
    // What holds the part together in time still does, so it is one part.
    berth_packer_init(&self->plain, &self->load, 0);
    if (packer->enough > self->plain.enough) self->plain.enough = packer->enough;
    return true;
}

void berth_packing_merge_fini(berth_packing_merge* self) {
    berth_packer_fini(&self->plain);
    berth_packing_load_fini(&self->load);
    berth_host_free(self->load.whole.host, self->block);
}

void berth_packing_merge_take(const berth_packing_merge* self, berth_packer* packer) {
    const berth_packer* plain = &self->plain;
    if (plain->peak == UINT64_MAX) return;
    for (uint32_t i = 0; i < plain->count; i++)
        packer->offset[plain->source[i]] = plain->best[i];
    uint64_t peak = 0;
    for (uint32_t i = 0; i < packer->count; i++) {
        packer->offset[i] = packer->offset[self->root[i]];
        if (packer->offset[i] + packer->size[i] > peak) peak = packer->offset[i] + packer->size[i];
    }
    berth_packer_keep(packer, peak);
}
