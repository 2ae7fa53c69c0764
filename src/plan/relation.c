// SPDX-License-Identifier: Apache-2.0
// Builds the rests-on relation by a sweep over time, reduces it, evaluates it.
#include "plan/relation.h"

#include <string.h>

#include "base/carve.h"
#include "base/error.h"
#include "plan/sort.h"

/// Ancestors looked at for one value before its redundant edges are left in (they do no harm).
#define REDUCE_BUDGET 96u

typedef struct edge {
    uint32_t below; ///< positions in order
    uint32_t above;
} edge;

typedef struct builder {
    const berth_interval* intervals;
    const uint64_t* offsets;
    uint32_t count;     ///< values with bytes
    uint32_t* order;    ///< [count] values by offset
    uint32_t* rank;     ///< by value: position in order
    uint32_t* by_start; ///< [count] positions
    uint32_t* by_end;   ///< [count] positions
    uint32_t* alive;    ///< [count] positions alive, ascending
    edge* edges;        ///< [2 * count]
    uint32_t edge_count;
    uint32_t* rest_at; ///< [count + 1]
    uint32_t* rests;   ///< [2 * count]
    uint32_t* mark;    ///< [count]
    uint32_t* stack;   ///< [REDUCE_BUDGET + edges of a value], bounded by count
} builder;

static void sort_values(builder* self, size_t count, berth_sort_entry* entries) {
    berth_sort_entry* scratch = entries + count; // where the edges will be, as many bytes
    uint32_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const berth_interval* value = &self->intervals[i];
        if (value->size == 0 || value->start >= value->end) continue;
        entries[kept++] = (berth_sort_entry){self->offsets[i], (uint32_t)i};
    }
    self->count = kept;
    berth_sort_entries(entries, scratch, kept);
    for (uint32_t i = 0; i < kept; i++) {
        self->order[i] = entries[i].item;
        self->rank[entries[i].item] = i;
    }
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const berth_interval* value = &self->intervals[i];
        if (value->size == 0 || value->start >= value->end) continue;
        entries[at++] = (berth_sort_entry){value->start, self->rank[i]};
    }
    berth_sort_entries(entries, scratch, kept);
    for (uint32_t i = 0; i < kept; i++)
        self->by_start[i] = entries[i].item;
    for (uint32_t i = 0; i < kept; i++) {
        const uint32_t position = self->by_start[i];
        entries[i] = (berth_sort_entry){self->intervals[self->order[position]].end, position};
    }
    berth_sort_entries(entries, scratch, kept);
    for (uint32_t i = 0; i < kept; i++)
        self->by_end[i] = entries[i].item;
}

static uint32_t lower_index(const uint32_t* items, uint32_t count, uint32_t item) {
    uint32_t from = 0;
    for (uint32_t to = count; from < to;) {
        const uint32_t middle = from + (to - from) / 2;
        if (items[middle] < item)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool stacked(const builder* self, uint32_t below, uint32_t above) {
    const uint32_t u = self->order[below];
    return self->intervals[u].size <= self->offsets[self->order[above]] - self->offsets[u];
}

/// Sweeps over time with the live values in order of offset. Values that are next to each other at
/// some moment get an edge: these imply every other pair. False if two values overlap.
static bool sweep(builder* self) {
    uint32_t alive = 0;
    for (uint32_t i = 0, gone = 0; i < self->count; i++) {
        const uint32_t position = self->by_start[i];
        const uint32_t now = self->intervals[self->order[position]].start;
        for (; self->intervals[self->order[self->by_end[gone]]].end <= now; gone++) {
            const uint32_t at = lower_index(self->alive, alive, self->by_end[gone]);
            memmove(self->alive + at, self->alive + at + 1, (alive - at - 1) * sizeof *self->alive);
            alive--;
        }
        const uint32_t at = lower_index(self->alive, alive, position);
        if (at > 0) {
            if (!stacked(self, self->alive[at - 1], position)) return false;
            self->edges[self->edge_count++] = (edge){self->alive[at - 1], position};
        }
        if (at < alive) {
            if (!stacked(self, position, self->alive[at])) return false;
            self->edges[self->edge_count++] = (edge){position, self->alive[at]};
        }
        memmove(self->alive + at + 1, self->alive + at, (alive - at) * sizeof *self->alive);
        self->alive[at] = position;
        alive++;
    }
    return true;
}

/// Groups the edges by the value above, highest below first, without doubles.
static void group_edges(builder* self) {
    memset(self->rest_at, 0, (self->count + 1) * sizeof *self->rest_at);
    for (uint32_t i = 0; i < self->edge_count; i++)
        self->rest_at[self->edges[i].above + 1]++;
    for (uint32_t i = 0; i < self->count; i++)
        self->rest_at[i + 1] += self->rest_at[i];
    memcpy(self->mark, self->rest_at, self->count * sizeof *self->mark);
    for (uint32_t i = 0; i < self->edge_count; i++) {
        const uint32_t above = self->edges[i].above;
        const uint32_t begin = self->rest_at[above];
        uint32_t at = self->mark[above]++;
        for (; at > begin && self->rests[at - 1] < self->edges[i].below; at--)
            self->rests[at] = self->rests[at - 1];
        self->rests[at] = self->edges[i].below;
    }
}

/// Marks everything that `from` rests on, down to position `floor`, with `stamp`.
static void mark_below(
    builder* self, uint32_t from, uint32_t floor, uint32_t stamp, uint32_t* budget) {
    uint32_t depth = 0;
    self->stack[depth++] = from;
    while (depth > 0) {
        const uint32_t at = self->stack[--depth];
        for (uint32_t k = self->rest_at[at]; k < self->rest_at[at + 1]; k++) {
            const uint32_t below = self->rests[k];
            if (below == UINT32_MAX || below < floor) continue;
            if (self->mark[below] == stamp) continue;
            self->mark[below] = stamp;
            if (*budget == 0) continue;
            (*budget)--;
            self->stack[depth++] = below;
        }
    }
}

/// Drops edges that a longer chain implies; dropped ones become UINT32_MAX. A chain never uses a
/// dropped edge, but what that edge said is implied by others.
static void reduce(builder* self) {
    memset(self->mark, 0, self->count * sizeof *self->mark);
    for (uint32_t above = 0; above < self->count; above++) {
        const uint32_t begin = self->rest_at[above];
        const uint32_t end = self->rest_at[above + 1];
        if (end - begin < 2) continue;
        const uint32_t floor = self->rests[end - 1];
        const uint32_t stamp = above + 1;
        uint32_t budget = REDUCE_BUDGET;
        for (uint32_t k = begin; k < end; k++) {
            const uint32_t below = self->rests[k];
            if (self->mark[below] == stamp) {
                self->rests[k] = UINT32_MAX; // a double, or reached from a higher one
                continue;
            }
            self->mark[below] = stamp;
            if (k + 1 < end) mark_below(self, below, floor, stamp, &budget);
        }
    }
}

static berth_relation* freeze(const builder* self, const berth_host* host, size_t value_count) {
    uint32_t edges = 0;
    for (uint32_t i = 0; i < self->rest_at[self->count]; i++)
        edges += self->rests[i] != UINT32_MAX;
    const size_t words = (size_t)self->count * 2 + 1 + edges;
    berth_relation* relation = berth_host_alloc(host, sizeof *relation + words * sizeof(uint32_t));
    if (relation == NULL) return NULL;
    uint32_t* order = (uint32_t*)(void*)(relation + 1);
    uint32_t* rest_at = order + self->count;
    uint32_t* rests = rest_at + self->count + 1;
    memcpy(order, self->order, self->count * sizeof *order);
    uint32_t to = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        rest_at[i] = to;
        for (uint32_t k = self->rest_at[i]; k < self->rest_at[i + 1]; k++)
            if (self->rests[k] != UINT32_MAX) rests[to++] = self->rests[k];
    }
    rest_at[self->count] = to;
    *relation = (berth_relation){.value_count = (uint32_t)value_count,
                                 .count = self->count,
                                 .edge_count = edges,
                                 .order = order,
                                 .rest_at = rest_at,
                                 .rests = rests};
    return relation;
}

/// Lays the builder's arrays out in `block`; measures only if it is NULL.
static size_t lay_out(builder* self, char* block, size_t count, berth_sort_entry** entries) {
    size_t total = 0;
    *entries = berth_carve(block, &total, count, sizeof **entries);
    self->edges = berth_carve(block, &total, 2 * count, sizeof *self->edges);
    self->order = berth_carve(block, &total, count, sizeof *self->order);
    self->rank = berth_carve(block, &total, count, sizeof *self->rank);
    self->by_start = berth_carve(block, &total, count, sizeof *self->by_start);
    self->by_end = berth_carve(block, &total, count, sizeof *self->by_end);
    self->alive = berth_carve(block, &total, count, sizeof *self->alive);
    self->rest_at = berth_carve(block, &total, count + 1, sizeof *self->rest_at);
    self->rests = berth_carve(block, &total, 2 * count, sizeof *self->rests);
    self->mark = berth_carve(block, &total, count, sizeof *self->mark);
    self->stack = berth_carve(block, &total, count + 1, sizeof *self->stack);
    return total;
}

berth_status berth_relation_create(const berth_host* host,
                                   const berth_interval* intervals,
                                   size_t count,
                                   const uint64_t* offsets,
                                   berth_relation** out_relation) {
    *out_relation = NULL;
    builder self = {.intervals = intervals, .offsets = offsets};
    berth_sort_entry* entries = NULL;
    char* block = berth_host_alloc(host, lay_out(&self, NULL, count, &entries) + 1);
    if (block == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a relation of %zu values", count);
    (void)lay_out(&self, block, count, &entries);
    sort_values(&self, count, entries);
    berth_status status = BERTH_OK;
    if (!sweep(&self)) {
        status = berth_fail(BERTH_ERR_INVALID_ARGUMENT, "two values of the packing overlap");
    } else {
        group_edges(&self);
        reduce(&self);
        *out_relation = freeze(&self, host, count);
        if (*out_relation == NULL)
            status = berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a relation");
    }
    berth_host_free(host, block);
    return status;
}

void berth_relation_destroy(berth_relation* relation, const berth_host* host) {
    berth_host_free(host, relation);
}

size_t berth_relation_query_bytes(const berth_relation* relation) {
    return sizeof *relation +
           ((size_t)relation->count * 2 + 1 + relation->edge_count) * sizeof(uint32_t);
}

uint64_t berth_relation_evaluate(const berth_relation* relation,
                                 const uint64_t* sizes,
                                 uint64_t* tops,
                                 uint64_t* out_offsets) {
    const uint32_t* restrict order = relation->order;
    const uint32_t* restrict rests = relation->rests;
    memset(out_offsets, 0, relation->value_count * sizeof *out_offsets);
    uint64_t peak = 0;
    uint32_t k = 0;
    for (uint32_t i = 0; i < relation->count; i++) {
        const uint32_t end = relation->rest_at[i + 1];
        uint64_t offset = 0;
        for (; k < end; k++) {
            const uint64_t top = tops[rests[k]];
            offset = top > offset ? top : offset;
        }
        const uint32_t value = order[i];
        const uint64_t top = offset + sizes[value];
        tops[i] = top;
        out_offsets[value] = offset;
        peak = top > peak ? top : peak;
    }
    return peak;
}

bool berth_relation_evaluate_around(const berth_relation* relation,
                                    const uint64_t* sizes,
                                    uint32_t given,
                                    uint64_t* tops,
                                    uint64_t* offsets,
                                    uint64_t* out_peak) {
    for (uint32_t v = given; v < relation->value_count; v++)
        offsets[v] = 0;
    *out_peak = 0;
    for (uint32_t i = 0, k = 0; i < relation->count; i++) {
        uint64_t least = 0;
        for (; k < relation->rest_at[i + 1]; k++) {
            const uint64_t top = tops[relation->rests[k]];
            least = top > least ? top : least;
        }
        const uint32_t value = relation->order[i];
        uint64_t offset = least;
        if (value >= given)
            offsets[value] = least;
        else if (sizes[value] > 0) // without bytes it only passes on what it rests on
            offset = offsets[value];
        if (offset < least) return false;
        tops[i] = offset + sizes[value];
        if (tops[i] > *out_peak) *out_peak = tops[i];
    }
    return true;
}
