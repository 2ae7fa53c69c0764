// SPDX-License-Identifier: Apache-2.0
// Checks a packing problem, sorts it by time, and cuts it where nothing is alive.
#include <string.h>

#include "base/carve.h"
#include "base/checked.h"
#include "base/error.h"
#include "plan/packing_internal.h"

// ---- Memory: one block.

static size_t lay_out_items(berth_packer* self, char* block, size_t n) {
    size_t total = 0;
    self->size = berth_carve(block, &total, n, sizeof(uint64_t));
    self->offset = berth_carve(block, &total, n, sizeof(uint64_t));
    self->best = berth_carve(block, &total, n, sizeof(uint64_t));
    self->source = berth_carve(block, &total, n, sizeof(uint32_t));
    self->start = berth_carve(block, &total, n, sizeof(uint32_t));
    self->end = berth_carve(block, &total, n, sizeof(uint32_t));
    self->by_end = berth_carve(block, &total, n, sizeof(uint32_t));
    const size_t special = self->plain ? 0 : n;
    self->align = berth_carve(block, &total, special, sizeof(uint64_t));
    self->given = berth_carve(block, &total, special, sizeof(uint64_t));
    self->before = berth_carve(block, &total, special, sizeof(uint32_t));
    self->after = berth_carve(block, &total, special, sizeof(uint32_t));
    self->entries = berth_carve(block, &total, 2 * n, sizeof(berth_sort_entry));
    self->entries_swap = berth_carve(block, &total, 2 * n, sizeof(berth_sort_entry));
    self->order = berth_carve(block, &total, n, sizeof(uint32_t));
    self->swap = berth_carve(block, &total, n, sizeof(uint32_t));
    self->placed = berth_carve(block, &total, n, sizeof(uint32_t));
    self->is_placed = berth_carve(block, &total, n, sizeof(bool));
    self->live_low = berth_carve(block, &total, n + 8, sizeof(uint64_t));
    self->live_high = berth_carve(block, &total, n + 1, sizeof(uint64_t));
    self->live_item = berth_carve(block, &total, n + 1, sizeof(uint32_t));
    self->gap_stamp = berth_carve(block, &total, n + 2, sizeof(uint32_t));
    return total;
}

static size_t lay_out(berth_packing_load* self, char* block, size_t n) {
    size_t total = lay_out_items(&self->whole, block, n);
    self->raised_items = berth_carve(block, &total, n, sizeof(uint32_t));
    self->raised_sizes = berth_carve(block, &total, n, sizeof(uint64_t));
    self->part_at = berth_carve(block, &total, n + 1, sizeof(uint32_t));
    self->part_peak = berth_carve(block, &total, n, sizeof(uint64_t));
    self->part_bound = berth_carve(block, &total, n, sizeof(uint64_t));
    return total;
}

// ---- What may be asked.

static bool needs_bytes(const berth_interval* interval) {
    return interval->size > 0 && interval->start < interval->end;
}

static uint64_t alignment_of(const berth_pack_problem* problem, size_t i) {
    if (problem->alignments != NULL && problem->alignments[i] != 0) return problem->alignments[i];
    return problem->alignment == 0 ? 1 : problem->alignment;
}

static bool is_exclusive(const berth_pack_problem* problem, size_t i) {
    return problem->exclusive != NULL && problem->exclusive[i];
}

static bool has_given_offset(const berth_pack_problem* problem, size_t i) {
    return problem->fixed_offsets != NULL && problem->fixed_offsets[i] != BERTH_PACK_ANYWHERE;
}

/// Offsets matter: a gap of enough bytes may not do.
static bool wants_offsets(const berth_pack_problem* problem) {
    const uint64_t common = problem->alignment == 0 ? 1 : problem->alignment;
    for (size_t i = 0; i < problem->count; i++) {
        if (!needs_bytes(&problem->intervals[i])) continue;
        if (alignment_of(problem, i) > common || has_given_offset(problem, i)) return true;
    }
    return false;
}

static berth_status check_alignments(const berth_pack_problem* problem) {
    if (problem->alignment != 0 && !berth_is_power_of_two(problem->alignment))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "alignment %llu is no power of two",
                          (unsigned long long)problem->alignment);
    for (size_t i = 0; problem->alignments != NULL && i < problem->count; i++)
        if (problem->alignments[i] != 0 && !berth_is_power_of_two(problem->alignments[i]))
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "alignment %llu of buffer %zu is no power of two",
                              (unsigned long long)problem->alignments[i],
                              i);
    return BERTH_OK;
}

static berth_status check_given_offsets(const berth_pack_problem* problem) {
    if (problem->fixed_offsets == NULL) return BERTH_OK;
    for (size_t i = 0; i < problem->count; i++) {
        const berth_interval* interval = &problem->intervals[i];
        if (!needs_bytes(interval) || !has_given_offset(problem, i)) continue;
        const uint64_t offset = problem->fixed_offsets[i];
        if (offset % alignment_of(problem, i) != 0)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "offset %llu given for buffer %zu is no multiple of its alignment "
                              "%llu",
                              (unsigned long long)offset,
                              i,
                              (unsigned long long)alignment_of(problem, i));
        uint64_t end;
        if (!berth_add_u64(offset, interval->size, &end) || end > BERTH_PACKING_SUM_MAX)
            return berth_fail(BERTH_ERR_OVERFLOW,
                              "offset %llu given for buffer %zu and its size end above 2^62",
                              (unsigned long long)offset,
                              i);
    }
    return BERTH_OK;
}

static berth_status refuse_pair(size_t pair, berth_pack_in_place asked, const char* why) {
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                      "pair in place %zu of buffers %u and %u: %s",
                      pair,
                      asked.from,
                      asked.to,
                      why);
}

/// The least size of any packing's end is bounded by the sum of what each item can push up.
static berth_status check_sum(const berth_pack_problem* problem) {
    const uint64_t common = problem->alignment == 0 ? 1 : problem->alignment;
    uint64_t sum = 0, highest = 0;
    for (size_t i = 0; i < problem->count; i++) {
        const berth_interval* interval = &problem->intervals[i];
        if (!needs_bytes(interval)) continue;
        const uint64_t own = alignment_of(problem, i);
        uint64_t size;
        if (!berth_try_round_up(interval->size, common, &size) || !berth_add_u64(sum, size, &sum) ||
            !berth_add_u64(sum, own > common ? own - 1 : 0, &sum) || sum > BERTH_PACKING_SUM_MAX)
            return berth_fail(
                BERTH_ERR_OVERFLOW,
                "the sizes of the buffers and what aligns them sum to more than 2^62");
        if (has_given_offset(problem, i) && problem->fixed_offsets[i] + size > highest)
            highest = problem->fixed_offsets[i] + size;
    }
    if (!berth_add_u64(sum, highest, &sum) || sum > 2 * BERTH_PACKING_SUM_MAX)
        return berth_fail(BERTH_ERR_OVERFLOW, "the given offsets end above 2^62");
    return BERTH_OK;
}

// ---- Loading.

/// Sorts the entries and writes their items.
static void sort_into(berth_packer* self, uint32_t* out_items) {
    berth_sort_entries(self->entries, self->entries_swap, self->count);
    for (uint32_t i = 0; i < self->count; i++)
        out_items[i] = self->entries[i].item;
}

/// The items that need bytes, by start. Those that share with nobody live all the time; where
/// offsets do not matter they are set apart, below all others.
static void collect_items(berth_packing_load* self, const berth_pack_problem* problem, bool apart) {
    berth_packer* whole = &self->whole;
    uint32_t n = 0;
    for (size_t i = 0; i < problem->count; i++) {
        if (!needs_bytes(&problem->intervals[i])) continue;
        const bool exclusive = is_exclusive(problem, i);
        if (exclusive && apart)
            self->raised_items[self->raised_count++] = (uint32_t)i;
        else
            whole->entries[n++] =
                (berth_sort_entry){exclusive ? 0 : problem->intervals[i].start, (uint32_t)i};
    }
    whole->count = n;
    sort_into(whole, whole->source);
}

static void load_items(berth_packing_load* self, const berth_pack_problem* problem) {
    berth_packer* whole = &self->whole;
    const uint64_t common = problem->alignment == 0 ? 1 : problem->alignment;
    for (uint32_t i = 0; i < whole->count; i++) {
        const uint32_t source = whole->source[i];
        const berth_interval* from = &problem->intervals[source];
        const bool exclusive = is_exclusive(problem, source);
        whole->start[i] = exclusive ? 0 : from->start;
        whole->end[i] = exclusive ? UINT32_MAX : from->end;
        whole->size[i] = berth_round_up(from->size, common);
        if (whole->plain) continue;
        whole->align[i] = alignment_of(problem, source);
        whole->given[i] = has_given_offset(problem, source) ? problem->fixed_offsets[source]
                                                            : BERTH_PACK_ANYWHERE;
        whole->before[i] = BERTH_PACKER_NONE;
        whole->after[i] = BERTH_PACKER_NONE;
    }
    for (uint32_t k = 0; k < self->raised_count; k++) {
        const uint64_t size = problem->intervals[self->raised_items[k]].size;
        self->raised_sizes[k] = berth_round_up(size, common);
        self->raised += self->raised_sizes[k];
    }
    for (uint32_t i = 0; i < whole->count; i++)
        whole->entries[i] = (berth_sort_entry){whole->end[i], i};
    sort_into(whole, whole->by_end);
}

/// Checks the pairs and joins the items of those that can share. `item_of` is [count], the items of
/// the caller's buffers; the marks that each is in one pair at most are taken in `seen`, zeroed.
static berth_status load_pairs(berth_packing_load* self,
                               const berth_pack_problem* problem,
                               const uint32_t* item_of,
                               uint8_t* seen) {
    for (size_t k = 0; k < problem->in_place_count; k++) {
        const berth_pack_in_place pair = problem->in_place[k];
        if (pair.from >= problem->count || pair.to >= problem->count)
            return refuse_pair(k, pair, "there is no such buffer");
        if (pair.from == pair.to) return refuse_pair(k, pair, "they are one");
        if ((seen[pair.from] & 1) != 0 || (seen[pair.to] & 2) != 0)
            return refuse_pair(k, pair, "one of them is in an earlier pair on the same side");
        seen[pair.from] |= 1;
        seen[pair.to] |= 2;
        const berth_interval* from = &problem->intervals[pair.from];
        const berth_interval* to = &problem->intervals[pair.to];
        if (!needs_bytes(from) || !needs_bytes(to)) continue;
        if (to->start != from->end - 1)
            return refuse_pair(
                k, pair, "the second does not start at the last moment of the first");
        if (is_exclusive(problem, pair.from) || is_exclusive(problem, pair.to)) continue;
        self->whole.after[item_of[pair.from]] = item_of[pair.to];
        self->whole.before[item_of[pair.to]] = item_of[pair.from];
    }
    return BERTH_OK;
}

static berth_status find_pairs(berth_packing_load* self, const berth_pack_problem* problem) {
    if (problem->in_place_count == 0) return BERTH_OK;
    const berth_host* host = self->whole.host;
    uint32_t* item_of =
        berth_host_calloc(host, problem->count + 1, sizeof(uint32_t) + sizeof(uint8_t));
    if (item_of == NULL)
        return berth_fail(
            BERTH_ERR_OUT_OF_MEMORY, "no memory for %zu pairs in place", problem->in_place_count);
    for (uint32_t i = 0; i < self->whole.count; i++)
        item_of[self->whole.source[i]] = i;
    const berth_status status =
        load_pairs(self, problem, item_of, (uint8_t*)(item_of + problem->count + 1));
    berth_host_free(host, item_of);
    return status;
}

/// Given offsets must leave everyone apart. The items with one are swept by offset within time:
/// each is compared with those given that are alive when it begins.
static berth_status check_given_apart(berth_packer* whole) {
    if (whole->plain) return BERTH_OK;
    uint32_t* alive = whole->swap;
    uint32_t count = 0;
    for (uint32_t i = 0; i < whole->count; i++) {
        if (whole->given[i] == BERTH_PACK_ANYWHERE) continue;
        uint32_t kept = 0;
        for (uint32_t k = 0; k < count; k++) {
            const uint32_t other = alive[k];
            if (whole->end[other] <= whole->start[i]) continue;
            alive[kept++] = other;
            const bool apart = whole->given[other] + whole->size[other] <= whole->given[i] ||
                               whole->given[i] + whole->size[i] <= whole->given[other];
            if (apart || (whole->before[i] == other && whole->given[i] == whole->given[other]) ||
                (whole->after[i] == other && whole->given[i] == whole->given[other]))
                continue;
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "the offsets %llu and %llu given for buffers %u and %u overlap",
                              (unsigned long long)whole->given[other],
                              (unsigned long long)whole->given[i],
                              whole->source[other],
                              whole->source[i]);
        }
        alive[kept++] = i;
        count = kept;
    }
    return BERTH_OK;
}

/// Cuts the items at the moments at which nothing is alive, and numbers by_end within the parts.
static void cut(berth_packing_load* self) {
    berth_packer* whole = &self->whole;
    uint32_t latest = 0;
    for (uint32_t i = 0; i < whole->count; i++) {
        if (i == 0 || whole->start[i] >= latest) self->part_at[self->part_count++] = i;
        if (whole->end[i] > latest) latest = whole->end[i];
    }
    self->part_at[self->part_count] = whole->count;
    for (uint32_t part = 0; part < self->part_count; part++)
        for (uint32_t i = self->part_at[part]; i < self->part_at[part + 1]; i++) {
            const uint32_t first = self->part_at[part];
            whole->by_end[i] -= first;
            if (whole->plain) continue;
            if (whole->before[i] != BERTH_PACKER_NONE) whole->before[i] -= first;
            if (whole->after[i] != BERTH_PACKER_NONE) whole->after[i] -= first;
        }
}

berth_status berth_packing_load_init(berth_packing_load* self,
                                     const berth_host* host,
                                     const berth_pack_problem* problem) {
    *self = (berth_packing_load){.whole = {.host = host}};
    const size_t count = problem->count;
    if (count > INT32_MAX)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "%zu buffers are more than 2^31 - 1", count);
    BERTH_TRY(check_alignments(problem));
    BERTH_TRY(check_given_offsets(problem));
    BERTH_TRY(check_sum(problem));
    const bool offsets_matter = wants_offsets(problem);
    self->whole.plain = !offsets_matter && problem->in_place_count == 0;
    self->block = berth_host_alloc(host, lay_out(self, NULL, count));
    if (self->block == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to pack %zu buffers", count);
    (void)lay_out(self, self->block, count);
    collect_items(self, problem, !offsets_matter);
    load_items(self, problem);
    BERTH_TRY(find_pairs(self, problem));
    BERTH_TRY(check_given_apart(&self->whole));
    cut(self);
    return BERTH_OK;
}

void berth_packing_load_fini(berth_packing_load* self) {
    berth_host_free(self->whole.host, self->block);
}

// ---- Parts.

/// Bytes that two partners count once at the moment they share.
static uint64_t shared_bytes(const berth_packer* self, uint32_t from, uint32_t to) {
    if (from == BERTH_PACKER_NONE || to == BERTH_PACKER_NONE) return 0;
    return self->size[from] < self->size[to] ? self->size[from] : self->size[to];
}

/// Sweeps over time: the lower bound, how many are alive at most, how many pairs meet.
static void measure(berth_packer* self) {
    uint64_t live = 0;
    uint32_t alive = 0;
    for (uint32_t i = 0, gone = 0; i < self->count; i++) {
        for (; self->end[self->by_end[gone]] <= self->start[i]; gone++, alive--) {
            const uint32_t item = self->by_end[gone];
            live -= self->size[item];
            if (!self->plain) live += shared_bytes(self, item, self->after[item]);
        }
        self->neighbours += alive;
        live += self->size[i];
        alive++;
        if (!self->plain) {
            live -= shared_bytes(self, self->before[i], i);
            if (self->size[i] > self->lower_bound) self->lower_bound = self->size[i];
            if (self->given[i] != BERTH_PACK_ANYWHERE &&
                self->given[i] + self->size[i] > self->lower_bound)
                self->lower_bound = self->given[i] + self->size[i];
        }
        if (live > self->lower_bound) self->lower_bound = live;
        if (alive > self->most_alive) self->most_alive = alive;
    }
}

void berth_packer_init(berth_packer* self, const berth_packing_load* load, uint32_t part) {
    const uint32_t first = load->part_at[part];
    *self = load->whole;
    self->count = load->part_at[part + 1] - first;
    self->source += first;
    self->start += first;
    self->end += first;
    self->size += first;
    self->by_end += first;
    if (!self->plain) {
        self->align += first;
        self->given += first;
        self->before += first;
        self->after += first;
    }
    self->peak = UINT64_MAX;
    self->reuse = UINT64_MAX;
    measure(self);
    self->enough = self->lower_bound;
}

void berth_packer_fini(berth_packer* self) {
    berth_host_free(self->host, self->near_at);
    self->near_at = NULL;
    self->near = NULL;
}
