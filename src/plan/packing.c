// SPDX-License-Identifier: Apache-2.0
// The portfolio: prepares a problem, runs one greedy rule after the other, keeps the best.
#include "plan/packing.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "plan/packing_internal.h"

/// Above this many items a rule is quadratic in practice; only the cheapest ones run.
#define MANY_ITEMS 8192u
/// Rounds of repair after the fixed orders, each about as costly as one order.
#define REPAIR_ROUNDS 20u

/// Carves `count` items of `bytes` each from the block being measured (NULL) or handed out.
static void* carve(char** block, size_t* total, size_t count, size_t bytes) {
    char* at = *block == NULL ? NULL : *block + *total;
    *total += berth_round_up(count * bytes, 16);
    return at;
}

static size_t lay_out(berth_packer* self, char* block, size_t n) {
    size_t total = 0;
    self->size = carve(&block, &total, n, sizeof(uint64_t));
    self->offset = carve(&block, &total, n, sizeof(uint64_t));
    self->best = carve(&block, &total, n, sizeof(uint64_t));
    self->entries = carve(&block, &total, n, sizeof(berth_sort_entry));
    self->entries_swap = carve(&block, &total, n, sizeof(berth_sort_entry));
    self->source = carve(&block, &total, n, sizeof(uint32_t));
    self->start = carve(&block, &total, n, sizeof(uint32_t));
    self->end = carve(&block, &total, n, sizeof(uint32_t));
    self->by_end = carve(&block, &total, n, sizeof(uint32_t));
    self->order = carve(&block, &total, n, sizeof(uint32_t));
    self->swap = carve(&block, &total, n, sizeof(uint32_t));
    self->placed = carve(&block, &total, n, sizeof(uint32_t));
    self->is_placed = carve(&block, &total, n, sizeof(bool));
    self->live_low = carve(&block, &total, n + 1, sizeof(uint64_t));
    self->live_high = carve(&block, &total, n + 1, sizeof(uint64_t));
    self->live_item = carve(&block, &total, n + 1, sizeof(uint32_t));
    self->gap_stamp = carve(&block, &total, n + 2, sizeof(uint32_t));
    return total;
}

/// Sorts the entries and writes their items.
static void sort_into(berth_packer* self, uint32_t* out_items) {
    berth_sort_entries(self->entries, self->entries_swap, self->count);
    for (uint32_t i = 0; i < self->count; i++)
        out_items[i] = self->entries[i].item;
}

static void collect_items(berth_packer* self, const berth_interval* intervals, size_t count) {
    uint32_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (intervals[i].size == 0 || intervals[i].start >= intervals[i].end) continue;
        self->entries[n++] = (berth_sort_entry){intervals[i].start, (uint32_t)i};
    }
    self->count = n;
    sort_into(self, self->source);
}

static berth_status load_items(berth_packer* self,
                               const berth_interval* intervals,
                               uint64_t alignment) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < self->count; i++) {
        const berth_interval* from = &intervals[self->source[i]];
        self->start[i] = from->start;
        self->end[i] = from->end;
        if (!berth_try_round_up(from->size, alignment, &self->size[i]) ||
            !berth_add_u64(sum, self->size[i], &sum) || sum > BERTH_PACKING_SUM_MAX)
            return berth_fail(BERTH_ERR_OVERFLOW, "the sizes of the buffers sum to more than 2^62");
    }
    for (uint32_t i = 0; i < self->count; i++)
        self->entries[i] = (berth_sort_entry){self->end[i], i};
    sort_into(self, self->by_end);
    return BERTH_OK;
}

/// Sweeps over time: the lower bound, how many are alive at most, how many pairs meet.
static void measure(berth_packer* self) {
    uint64_t live = 0;
    uint32_t alive = 0;
    for (uint32_t i = 0, gone = 0; i < self->count; i++) {
        for (; self->end[self->by_end[gone]] <= self->start[i]; gone++, alive--)
            live -= self->size[self->by_end[gone]];
        self->neighbours += alive;
        live += self->size[i];
        alive++;
        if (live > self->lower_bound) self->lower_bound = live;
        if (alive > self->most_alive) self->most_alive = alive;
    }
}

static void packer_fini(berth_packer* self, void* block) {
    berth_host_free(self->host, self->near_at);
    berth_host_free(self->host, block);
}

static void keep_if_better(berth_packer* self, uint64_t peak) {
    if (peak >= self->peak) return;
    uint64_t* best = self->best;
    self->best = self->offset;
    self->offset = best;
    self->peak = peak;
}

static uint64_t sequence_key(const berth_packer* self, uint32_t i, berth_packing_order order) {
    const uint64_t duration = self->end[i] - self->start[i];
    uint64_t area;
    if (!berth_mul_u64(self->size[i], duration, &area)) area = UINT64_MAX;
    if (order == BERTH_PACKING_AREA_LOWEST) return ~area;
    if (order == BERTH_PACKING_DURATION_LOWEST) return ~duration;
    if (order == BERTH_PACKING_CLASS_LOWEST) {
        const unsigned octave = 63u - (unsigned)__builtin_clzll(self->size[i]);
        return ~(((uint64_t)octave << 32) | duration);
    }
    return ~self->size[i];
}

static void make_sequence(berth_packer* self, berth_packing_order order) {
    for (uint32_t i = 0; i < self->count; i++)
        self->entries[i] = (berth_sort_entry){~self->size[i], i};
    if (order == BERTH_PACKING_DURATION_LOWEST || order == BERTH_PACKING_CLASS_LOWEST)
        berth_sort_entries(self->entries, self->entries_swap, self->count); // ties: largest first
    for (uint32_t i = 0; i < self->count; i++)
        self->entries[i].key = sequence_key(self, self->entries[i].item, order);
    sort_into(self, self->order);
}

static void run_order(berth_packer* self, berth_packing_order order) {
    uint64_t peak;
    if (order < BERTH_PACKING_SIZE_LOWEST) {
        peak = berth_packer_run_online(self, order);
    } else {
        make_sequence(self, order);
        peak = berth_packer_run_sequence(self, order == BERTH_PACKING_SIZE_BEST);
    }
    keep_if_better(self, peak);
}

/// Repairs a packing that is above the lower bound: the item that ended up too high was placed too
/// late, so the next round places it earlier.
/// Source: squeaky wheel optimisation, Joslin and Clements 1999, arXiv:1105.5454.
static void repair(berth_packer* self) {
    make_sequence(self, BERTH_PACKING_AREA_LOWEST);
    for (uint32_t round = 0; round < REPAIR_ROUNDS && self->peak > self->lower_bound; round++) {
        const uint64_t peak = berth_packer_run_sequence(self, false);
        keep_if_better(self, peak);
        const uint32_t from = self->culprit;
        const uint32_t to = from / 2;
        const uint32_t item = self->order[from];
        memmove(self->order + to + 1, self->order + to, (from - to) * sizeof *self->order);
        self->order[to] = item;
    }
}

static berth_status prepare(berth_packer* self,
                            const berth_interval* intervals,
                            size_t count,
                            uint64_t alignment) {
    if (alignment == 0) alignment = 1;
    if (!berth_is_power_of_two(alignment))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "alignment %llu is no power of two",
                          (unsigned long long)alignment);
    collect_items(self, intervals, count);
    BERTH_TRY(load_items(self, intervals, alignment));
    measure(self);
    self->peak = UINT64_MAX;
    return BERTH_OK;
}

static void answer(const berth_packer* self,
                   size_t count,
                   uint64_t* out_offsets,
                   berth_pack_result* out_result) {
    if (count > 0) memset(out_offsets, 0, count * sizeof *out_offsets);
    for (uint32_t i = 0; i < self->count; i++)
        out_offsets[self->source[i]] = self->best[i];
    *out_result = (berth_pack_result){
        .peak = self->peak,
        .lower_bound = self->lower_bound,
        .proved = self->peak == self->lower_bound,
    };
}

static void run_portfolio(berth_packer* self) {
    const bool many = self->count > MANY_ITEMS;
    for (int order = 0; order < BERTH_PACKING_ORDER_COUNT; order++) {
        if (self->peak == self->lower_bound) return;
        if (many && order > BERTH_PACKING_AREA_LOWEST) return;
        run_order(self, (berth_packing_order)order);
    }
    if (!many && self->peak > self->lower_bound) repair(self);
}

/// Runs the portfolio, or one order if `order` is one.
static berth_status solve(const berth_host* host,
                          const berth_pack_problem* problem,
                          berth_packing_order order,
                          uint64_t* out_offsets,
                          berth_pack_result* out_result) {
    const size_t count = problem->count;
    *out_result = (berth_pack_result){.proved = false};
    if (count > INT32_MAX)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "%zu buffers are more than 2^31 - 1", count);
    berth_packer self = {.host = host};
    char* block = berth_host_alloc(host, lay_out(&self, NULL, count));
    if (block == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to pack %zu buffers", count);
    (void)lay_out(&self, block, count);
    const berth_status status = prepare(&self, problem->intervals, count, problem->alignment);
    if (status == BERTH_OK) {
        if (self.count == 0)
            self.peak = 0;
        else if (order == BERTH_PACKING_ORDER_COUNT)
            run_portfolio(&self);
        else
            run_order(&self, order);
        answer(&self, count, out_offsets, out_result);
    }
    packer_fini(&self, block);
    return status;
}

berth_status berth_packing_solve(const berth_host* host,
                                 const berth_pack_problem* problem,
                                 const berth_pack_options* options,
                                 uint64_t* out_offsets,
                                 berth_pack_result* out_result) {
    (void)options;
    return solve(host, problem, BERTH_PACKING_ORDER_COUNT, out_offsets, out_result);
}

berth_status berth_packing_solve_order(const berth_host* host,
                                       const berth_pack_problem* problem,
                                       berth_packing_order order,
                                       uint64_t* out_offsets,
                                       berth_pack_result* out_result) {
    return solve(host, problem, order, out_offsets, out_result);
}

berth_status berth_pack(const berth_pack_problem* problem,
                        const berth_pack_options* options,
                        uint64_t* out_offsets,
                        berth_pack_result* out_result) {
    if (problem == NULL || out_result == NULL ||
        (problem->count > 0 && (problem->intervals == NULL || out_offsets == NULL)))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "buffers, offsets or result are missing");
    return berth_packing_solve(berth_host_default(), problem, options, out_offsets, out_result);
}
