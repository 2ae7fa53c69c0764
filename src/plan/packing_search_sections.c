// SPDX-License-Identifier: Apache-2.0
// Cuts a part of a problem into sections.
#include <string.h>

#include "base/numbers.h"
#include "plan/packing_search_internal.h"

/// Larger parts than this, in entries of all sections' lists, are left to other searches.
#define ENTRIES_LIMIT (UINT64_C(1) << 20)

/// Sweeps over time. A section is complete when an item ends after another has begun.
static void sweep(berth_packing_sections* self, const berth_packer* packer) {
    uint32_t complete = 0;
    bool begun = false;
    for (uint32_t i = 0, gone = 0; i < packer->count; i++) {
        for (; packer->end[packer->by_end[gone]] <= packer->start[i]; gone++) {
            complete += begun;
            begun = false;
            self->to[packer->by_end[gone]] = complete;
        }
        self->from[i] = complete;
        self->to[i] = 0;
        begun = true;
    }
    self->count = complete + 1;
    for (uint32_t i = 0; i < packer->count; i++)
        if (self->to[i] == 0) self->to[i] = self->count;
}

static void add_up(berth_packing_sections* self) {
    memset(self->total, 0, self->count * sizeof *self->total);
    memset(self->at, 0, (self->count + 1) * sizeof *self->at);
    for (uint32_t i = 0; i < self->item_count; i++) {
        for (uint32_t s = self->from[i]; s < self->to[i]; s++) {
            self->total[s] += self->size[i];
            self->at[s + 1]++;
        }
    }
    for (uint32_t s = 0; s < self->count; s++)
        self->at[s + 1] += self->at[s];
}

static bool is_small_enough(const berth_packing_sections* self) {
    uint64_t entries = 0;
    for (uint32_t i = 0; i < self->item_count; i++)
        entries += self->to[i] - self->from[i];
    return entries <= ENTRIES_LIMIT;
}

bool berth_packing_sections_init(berth_packing_sections* self, berth_packer* packer) {
    *self = (berth_packing_sections){.item_count = packer->count};
    if (!packer->plain || packer->count == 0 || !berth_packer_find_neighbours(packer)) return false;
    const size_t n = packer->count;
    char* block =
        berth_host_alloc(packer->host, n * 2 * sizeof(int64_t) + (n * 3 + 1) * sizeof(uint32_t));
    if (block == NULL) return false;
    self->block = block;
    self->size = (int64_t*)self->block;
    self->total = self->size + n;
    self->from = (uint32_t*)(self->total + n);
    self->to = self->from + n;
    self->at = self->to + n;
    self->near_at = packer->near_at;
    self->near = packer->near;
    for (size_t i = 0; i < n; i++)
        self->unit = berth_common_divisor(packer->size[i], self->unit);
    for (size_t i = 0; i < n; i++)
        self->size[i] = (int64_t)(packer->size[i] / self->unit);
    sweep(self, packer);
    if (!is_small_enough(self)) {
        berth_packing_sections_fini(self, packer->host);
        return false;
    }
    add_up(self);
    return true;
}

void berth_packing_sections_fini(berth_packing_sections* self, const berth_host* host) {
    berth_host_free(host, self->block);
    self->block = NULL;
}
