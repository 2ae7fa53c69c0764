// SPDX-License-Identifier: Apache-2.0
// Packs problems, those with escaping buffers in two ways.
#include <string.h>

#include "base/error.h"
#include "plan/packing.h"
#include "plan/trace_file.h"

/// A second way to pack: the buffers that escape lie above all others, the first of them on top. As
/// none of them ends before the step does, what they take only grows, downwards.
typedef struct stacking {
    const berth_host* host;
    const berth_problem* problem;
    const berth_pack_problem* whole;
    berth_interval* intervals; ///< [count] without the bytes of those that escape
    uint64_t* offsets;         ///< [count]
    uint64_t* stacked;         ///< [moments + 1] bytes of those that escape, begun by a moment
    size_t moments;
    uint64_t peak;
} stacking;

static bool escapes(const stacking* self, size_t index) {
    return berth_problem_block(self->problem, index)->escapes;
}

/// Bytes of a buffer; they are rounded up already.
static uint64_t bytes_of(const stacking* self, size_t index) {
    return self->whole->intervals[index].size;
}

static bool make_room(stacking* self) {
    const size_t count = self->whole->count;
    self->moments = 0;
    for (size_t i = 0; i < count; i++)
        if (self->whole->intervals[i].end > self->moments)
            self->moments = self->whole->intervals[i].end;
    self->intervals = berth_host_calloc(self->host, count + 1, sizeof *self->intervals);
    self->offsets = berth_host_calloc(self->host, count + 1, sizeof *self->offsets);
    self->stacked = berth_host_calloc(self->host, self->moments + 1, sizeof *self->stacked);
    return self->intervals != NULL && self->offsets != NULL && self->stacked != NULL;
}

static void free_room(stacking* self) {
    berth_host_free(self->host, self->intervals);
    berth_host_free(self->host, self->offsets);
    berth_host_free(self->host, self->stacked);
}

static void count_stacked(stacking* self) {
    for (size_t i = 0; i < self->whole->count; i++)
        if (escapes(self, i)) self->stacked[self->whole->intervals[i].start] += bytes_of(self, i);
    for (size_t m = 1; m <= self->moments; m++)
        self->stacked[m] += self->stacked[m - 1];
}

/// The height at which the stack never meets the packing below it.
static uint64_t find_peak(const stacking* self) {
    uint64_t peak = self->stacked[self->moments];
    for (size_t i = 0; i < self->whole->count; i++) {
        const berth_interval* interval = &self->whole->intervals[i];
        if (escapes(self, i) || interval->size == 0 || interval->start >= interval->end) continue;
        const uint64_t top =
            self->offsets[i] + bytes_of(self, i) + self->stacked[interval->end - 1];
        if (top > peak) peak = top;
    }
    return peak;
}

/// Hangs those that escape from the peak, in order of their begin.
static void hang(stacking* self) {
    uint64_t* next = self->stacked; // [moment]: where the next one that begins there ends
    for (size_t m = self->moments; m > 0; m--)
        next[m] = self->peak - next[m - 1];
    next[0] = self->peak;
    for (size_t i = 0; i < self->whole->count; i++) {
        if (!escapes(self, i) || self->whole->intervals[i].size == 0) continue;
        uint64_t* end = &next[self->whole->intervals[i].start];
        *end -= bytes_of(self, i);
        self->offsets[i] = *end;
    }
}

/// Packs the others and stacks; `out_steps` are those of the search.
static berth_status stack(stacking* self, const berth_pack_options* options, uint64_t* out_steps) {
    if (!make_room(self))
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to pack what escapes");
    count_stacked(self);
    // what is enough below, so that the stack on top of it is too
    berth_pack_options within = *options;
    const uint64_t stack_bytes = self->stacked[self->moments];
    within.capacity = within.capacity > stack_bytes ? within.capacity - stack_bytes : 0;
    for (size_t i = 0; i < self->whole->count; i++) {
        self->intervals[i] = self->whole->intervals[i];
        if (escapes(self, i)) self->intervals[i].size = 0;
    }
    const berth_pack_problem below = {.intervals = self->intervals,
                                      .count = self->whole->count,
                                      .alignment = self->whole->alignment};
    berth_pack_result result;
    BERTH_TRY(berth_pack(&below, &within, self->offsets, &result));
    *out_steps = result.steps;
    self->peak = find_peak(self);
    hang(self);
    return BERTH_OK;
}

/// True if the problem has buffers that escape, and nothing that stacking does not know of.
static bool can_stack(const berth_problem* problem, const berth_pack_problem* pack) {
    if (pack->alignments != NULL || pack->fixed_offsets != NULL || pack->exclusive != NULL ||
        pack->in_place_count > 0)
        return false;
    for (size_t i = 0; i < pack->count; i++)
        if (berth_problem_block(problem, i)->escapes) return true;
    return false;
}

/// Takes the stacking if it is better than what is there.
static berth_status try_stacking(const berth_problem* problem,
                                 const berth_pack_options* options,
                                 uint64_t* offsets,
                                 berth_pack_result* result) {
    stacking self = {.host = berth_host_default(),
                     .problem = problem,
                     .whole = berth_problem_query_pack(problem)};
    uint64_t steps = 0;
    uint64_t reuse = 0;
    berth_status status = stack(&self, options, &steps);
    const bool better = status == BERTH_OK && self.peak < result->peak;
    if (better)
        status =
            berth_packing_reuse_distance(self.host, self.whole, self.offsets, self.peak, &reuse);
    if (better && status == BERTH_OK) {
        memcpy(offsets, self.offsets, self.whole->count * sizeof *offsets);
        result->peak = self.peak;
        result->proved = result->peak == result->lower_bound;
        result->reuse_distance = reuse;
    }
    result->steps += steps;
    free_room(&self);
    return status;
}

// ---- What was given.

/// The `index`-th row, which is there.
static berth_problem_row row_of(const berth_problem* problem, uint32_t index) {
    berth_problem_row row;
    if (berth_problem_query_row(problem, index, &row) != BERTH_OK) row = (berth_problem_row){0};
    return row;
}

/// Names the lines of given offsets that cannot be kept, in place of `status`, if it is theirs.
static berth_status blame_offsets(const berth_problem* problem,
                                  const berth_pack_problem* pack,
                                  berth_status status) {
    const berth_host* host = berth_host_default();
    berth_interval* given = berth_host_calloc(host, pack->count + 1, sizeof *given);
    uint64_t* offsets = berth_host_calloc(host, pack->count + 1, sizeof *offsets);
    berth_pack_verdict verdict = {.valid = true};
    if (given != NULL && offsets != NULL) {
        for (size_t i = 0; i < pack->count; i++) {
            given[i] = pack->intervals[i];
            const bool anywhere = pack->fixed_offsets[i] == BERTH_PACK_ANYWHERE;
            if (anywhere) given[i].size = 0;
            offsets[i] = anywhere ? 0 : pack->fixed_offsets[i];
        }
        berth_pack_problem those = *pack;
        those.intervals = given;
        those.fixed_offsets = NULL;
        if (berth_pack_verify(&those, offsets, &verdict) != BERTH_OK) verdict.valid = true;
    }
    berth_host_free(host, given);
    berth_host_free(host, offsets);
    if (verdict.valid) return status;
    const berth_problem_row first = row_of(problem, verdict.first);
    const berth_problem_row second = row_of(problem, verdict.second);
    if (verdict.first == verdict.second)
        return berth_fail(status,
                          "line %u: the offset %llu is no multiple of the alignment %llu",
                          first.line,
                          (unsigned long long)first.offset,
                          (unsigned long long)first.alignment);
    return berth_fail(status,
                      "line %u: the offset %llu lets the buffer overlap that of line %u",
                      second.line,
                      (unsigned long long)second.offset,
                      first.line);
}

static berth_status pack_whole(const berth_problem* problem,
                               const berth_pack_options* options,
                               uint64_t* out_offsets,
                               berth_pack_result* out_result) {
    const berth_pack_problem* pack = berth_problem_query_pack(problem);
    const berth_status status = berth_pack(pack, options, out_offsets, out_result);
    return status == BERTH_ERR_INVALID_ARGUMENT && pack->fixed_offsets != NULL
               ? blame_offsets(problem, pack, status)
               : status;
}

berth_status berth_problem_solve(const berth_problem* problem,
                                 const berth_pack_options* options,
                                 uint64_t* out_offsets,
                                 berth_pack_result* out_result) {
    if (out_result != NULL) *out_result = (berth_pack_result){0};
    if (problem == NULL || out_offsets == NULL || out_result == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "a problem and places for offsets and result are needed");
    const berth_pack_problem* pack = berth_problem_query_pack(problem);
    if (!can_stack(problem, pack)) return pack_whole(problem, options, out_offsets, out_result);
    berth_pack_options half = options != NULL ? *options : (berth_pack_options){0};
    half.budget_ns = half.budget_ns / 2 + half.budget_ns % 2;
    half.budget_steps = half.budget_steps / 2 + half.budget_steps % 2;
    BERTH_TRY(berth_pack(pack, &half, out_offsets, out_result));
    if (out_result->proved || out_result->peak <= half.capacity) return BERTH_OK;
    const berth_status status = try_stacking(problem, &half, out_offsets, out_result);
    if (status != BERTH_OK) *out_result = (berth_pack_result){0};
    return status;
}
