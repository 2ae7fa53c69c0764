// SPDX-License-Identifier: Apache-2.0
// Chooses among the paths and plans of two files.
#include "plan/plan_merge.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "plan/step_model_impl.h"

static berth_status no_memory(void) {
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to merge plans");
}

/// A plan that may be kept.
typedef struct candidate {
    const berth_file_plan* plan;
    uint32_t path; ///< index of the merged path it belongs to
    bool kept;
} candidate;

/// A path of the merged step.
typedef struct merged_path {
    const berth_file_path* path;  ///< whose knowledge counts
    const berth_file_path* other; ///< the same path in the other file; NULL: only one knows it
    uint64_t recency;             ///< what only they know was taken before all of ours
    uint32_t kept_plans;
    bool kept;
} merged_path;

BERTH_VEC_DEFINE(candidate_vec, candidate);
BERTH_VEC_DEFINE(merged_path_vec, merged_path);

/// The merging of one step.
typedef struct merging {
    const berth_host* host;
    const berth_plan_file* ours;
    const berth_plan_file* theirs;
    merged_path_vec paths;
    candidate_vec plans;
    uint32_t kept_paths;
} merging;

// ---- What is the same.

static bool same_text(berth_byte_text a, berth_byte_text b) {
    return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
}

static bool same_bindings(const merging* self,
                          const berth_file_step* ours,
                          const berth_file_step* theirs) {
    if (ours->binding_count != theirs->binding_count) return false;
    for (uint32_t i = 0; i < ours->binding_count; i++)
        if (!same_text(self->ours->texts.items[ours->first_binding + i],
                       self->theirs->texts.items[theirs->first_binding + i]))
            return false;
    return true;
}

static bool same_path(const berth_file_path* a, const berth_file_path* b) {
    return a->identity_bytes == b->identity_bytes &&
           memcmp(a->identity, b->identity, a->identity_bytes) == 0;
}

static bool same_symbols(const berth_file_path* a, const berth_file_path* b) {
    return a->symbol_count == b->symbol_count &&
           memcmp(a->symbols, b->symbols, (size_t)a->symbol_count * 2) == 0;
}

// ---- Plans.

/// Adds the plans of `path`, which is in `file`, that `table` [slots] has no key of yet. The table
/// has the numbers of plans, from 1 on.
static berth_status add_plans(merging* self,
                              const berth_plan_file* file,
                              const berth_file_path* path,
                              uint32_t* table,
                              size_t slots) {
    const size_t key_bytes = (size_t)path->symbol_count * sizeof(int64_t);
    for (uint32_t i = 0; i < path->plan_count; i++) {
        const berth_file_plan* plan = &file->plans.items[path->first_plan + i];
        size_t slot = berth_hash64(plan->key, key_bytes, 0) & (slots - 1);
        while (table[slot] != 0 &&
               memcmp(self->plans.items[table[slot] - 1].plan->key, plan->key, key_bytes) != 0)
            slot = (slot + 1) & (slots - 1);
        if (table[slot] != 0) continue;
        const candidate added = {plan, (uint32_t)self->paths.count, true};
        BERTH_TRY(candidate_vec_push(&self->plans, self->host, added));
        table[slot] = (uint32_t)self->plans.count;
    }
    return BERTH_OK;
}

/// Adds `path` of `file` with the plans of both files.
static berth_status add_path(merging* self,
                             const berth_plan_file* file,
                             const berth_file_path* path,
                             const berth_file_path* other) {
    const uint64_t ours_later = file == self->ours ? UINT64_C(1) << 32 : 0;
    const bool has_more = other != NULL && same_symbols(path, other);
    const uint64_t wanted = ((uint64_t)path->plan_count + (has_more ? other->plan_count : 0)) * 2;
    size_t slots = 64;
    while (slots < wanted)
        slots *= 2;
    uint32_t* table = berth_host_calloc(self->host, slots, sizeof *table);
    if (table == NULL) return no_memory();
    berth_status status = add_plans(self, file, path, table, slots);
    if (status == BERTH_OK && has_more) status = add_plans(self, self->theirs, other, table, slots);
    berth_host_free(self->host, table);
    if (status != BERTH_OK) return status;
    const merged_path added = {.path = path, .other = other, .recency = ours_later + path->recency};
    return merged_path_vec_push(&self->paths, self->host, added);
}

// ---- Paths.

static const berth_file_path* find_path(const berth_plan_file* file,
                                        const berth_file_step* step,
                                        const berth_file_path* path) {
    for (uint32_t i = 0; step != NULL && i < step->path_count; i++)
        if (same_path(&file->paths.items[step->first_path + i], path))
            return &file->paths.items[step->first_path + i];
    return NULL;
}

/// Ours first, in the order in which they were known, then those that only they know.
static berth_status gather_paths(merging* self,
                                 const berth_file_step* ours,
                                 const berth_file_step* theirs) {
    for (uint32_t i = 0; i < ours->path_count; i++) {
        const berth_file_path* path = &self->ours->paths.items[ours->first_path + i];
        BERTH_TRY(add_path(self, self->ours, path, find_path(self->theirs, theirs, path)));
    }
    for (uint32_t i = 0; theirs != NULL && i < theirs->path_count; i++) {
        const berth_file_path* path = &self->theirs->paths.items[theirs->first_path + i];
        if (find_path(self->ours, ours, path) == NULL)
            BERTH_TRY(add_path(self, self->theirs, path, NULL));
    }
    return BERTH_OK;
}

/// Bytes of a path without its plans.
static uint64_t path_bytes(const berth_file_path* path) {
    return path->identity_bytes + path->learned_bytes + (uint64_t)path->value_count * 4 + 12;
}

static double worth(const berth_file_plan* plan) {
    return ((double)plan->cost + 1) * ((double)plan->hits + 1);
}

static int by_worth(const void* a, const void* b) {
    const double worth_a = worth(((const candidate*)a)->plan);
    const double worth_b = worth(((const candidate*)b)->plan);
    return (worth_a < worth_b) - (worth_a > worth_b);
}

static int by_recency(const void* a, const void* b) {
    const uint64_t x = (*(merged_path* const*)a)->recency;
    const uint64_t y = (*(merged_path* const*)b)->recency;
    return (x < y) - (x > y);
}

/// Keeps the paths taken last, as many as there may be; says how many bytes they take.
static berth_status choose_paths(merging* self,
                                 const berth_plan_file_limits* limits,
                                 uint64_t* out_bytes) {
    const size_t count = self->paths.count;
    merged_path** order = berth_host_calloc(self->host, count + 1, sizeof *order);
    if (order == NULL) return no_memory();
    for (size_t p = 0; p < count; p++)
        order[p] = &self->paths.items[p];
    qsort(order, count, sizeof *order, by_recency);
    *out_bytes = 0;
    for (size_t p = 0; p < count && self->kept_paths < limits->step_paths; p++) {
        const uint64_t bytes = path_bytes(order[p]->path);
        if (*out_bytes + bytes > limits->step_bytes) continue;
        *out_bytes += bytes;
        order[p]->kept = true;
        self->kept_paths++;
    }
    berth_host_free(self->host, order);
    return BERTH_OK;
}

/// Keeps the plans that are worth most beside the `bytes` of the paths.
static void choose_plans(merging* self, const berth_plan_file_limits* limits, uint64_t bytes) {
    if (self->plans.count > 1)
        qsort(self->plans.items, self->plans.count, sizeof *self->plans.items, by_worth);
    for (size_t i = 0; i < self->plans.count; i++) {
        candidate* plan = &self->plans.items[i];
        plan->kept =
            self->paths.items[plan->path].kept && bytes + plan->plan->size <= limits->step_bytes;
        if (!plan->kept) continue;
        bytes += plan->plan->size;
        self->paths.items[plan->path].kept_plans++;
    }
}

// ---- Writing.

/// The later of two deaths; a value that escapes does so whatever the other says.
static uint32_t later(uint32_t a, uint32_t b) {
    const uint32_t escapes = (a | b) & BERTH_PLAN_FILE_ESCAPES;
    a &= ~BERTH_PLAN_FILE_ESCAPES;
    b &= ~BERTH_PLAN_FILE_ESCAPES;
    return (a > b ? a : b) | escapes;
}

static void write_deaths(const merged_path* merged, berth_byte_writer* out) {
    const berth_file_path* path = merged->path;
    const unsigned char* other = merged->other != NULL ? merged->other->deaths : path->deaths;
    for (size_t v = 0; v < path->value_count; v++)
        berth_write_u32(out,
                        later(berth_load_u32(path->deaths + v * 4), berth_load_u32(other + v * 4)));
}

/// The path's recency among those kept.
static uint32_t recency_of(const merging* self, const merged_path* path) {
    uint32_t before = 0;
    for (size_t p = 0; p < self->paths.count; p++)
        before += self->paths.items[p].kept && self->paths.items[p].recency < path->recency;
    return before;
}

static void write_path(const merging* self, size_t at, berth_byte_writer* out) {
    const merged_path* merged = &self->paths.items[at];
    const berth_file_path* path = merged->path;
    berth_write_u32(out, (uint32_t)path->identity_bytes);
    berth_write_bytes(out, path->identity, path->identity_bytes);
    berth_write_u32(out, recency_of(self, merged));
    write_deaths(merged, out);
    berth_write_bytes(out, path->learned, path->learned_bytes);
    berth_write_u32(out, merged->kept_plans);
    for (size_t i = 0; i < self->plans.count && merged->kept_plans > 0; i++) {
        const candidate* plan = &self->plans.items[i];
        if (plan->path == at && plan->kept)
            berth_write_bytes(out, plan->plan->bytes, plan->plan->size);
    }
}

static void write_text(berth_byte_writer* out, berth_byte_text text) {
    berth_write_u32(out, text.length);
    berth_write_bytes(out, text.bytes, text.length);
}

/// Writes a section's content: `step` of `file`, with the paths of `self`.
static void write_step(const merging* self,
                       const berth_plan_file* file,
                       const berth_file_step* step,
                       uint64_t generation,
                       berth_byte_writer* out) {
    write_text(out, step->name);
    berth_write_u64(out, generation);
    berth_write_u32(out, step->binding_count);
    for (uint32_t i = 0; i < step->binding_count; i++)
        write_text(out, file->texts.items[step->first_binding + i]);
    berth_write_u32(out, self->kept_paths);
    for (size_t p = 0; p < self->paths.count; p++)
        if (self->paths.items[p].kept) write_path(self, p, out);
}

/// The file being written.
typedef struct merged_file {
    berth_byte_writer* out;
    berth_byte_writer section; ///< kept from step to step
    const berth_plan_file_limits* limits;
    uint32_t steps;
} merged_file;

/// Adds what is in `section`, if it still fits.
static void add_section(merged_file* self) {
    if (self->section.failed) self->out->failed = true;
    if (self->out->count + self->section.count + 24 > self->limits->file_bytes) return;
    berth_plan_file_add_section(self->out, self->steps, self->section.data, self->section.count);
    if (!self->out->failed) self->steps++;
}

static berth_status merge_step(merging* self,
                               const berth_file_step* ours,
                               uint64_t generation,
                               merged_file* output) {
    const berth_file_step* theirs = NULL;
    for (size_t i = 0; i < self->theirs->steps.count && theirs == NULL; i++)
        if (same_text(self->theirs->steps.items[i].name, ours->name))
            theirs = &self->theirs->steps.items[i];
    if (theirs != NULL && !same_bindings(self, ours, theirs)) theirs = NULL;
    self->paths.count = self->plans.count = self->kept_paths = 0;
    BERTH_TRY(gather_paths(self, ours, theirs));
    uint64_t bytes = 0;
    BERTH_TRY(choose_paths(self, output->limits, &bytes));
    choose_plans(self, output->limits, bytes);
    output->section.count = 0;
    write_step(self, self->ours, ours, generation, &output->section);
    add_section(output);
    return BERTH_OK;
}

static bool is_ours(const merging* self, const berth_file_step* step) {
    for (size_t i = 0; i < self->ours->steps.count; i++)
        if (same_text(self->ours->steps.items[i].name, step->name)) return true;
    return false;
}

static int by_generation(const void* a, const void* b) {
    const uint64_t x = (*(const berth_file_step* const*)a)->generation;
    const uint64_t y = (*(const berth_file_step* const*)b)->generation;
    return (x < y) - (x > y);
}

/// Adds the steps that only they have as they are, those used last first.
static berth_status add_their_steps(const merging* self, merged_file* output) {
    const size_t count = self->theirs->steps.count;
    const berth_file_step** order = berth_host_calloc(self->host, count + 1, sizeof *order);
    if (order == NULL) return no_memory();
    for (size_t i = 0; i < count; i++)
        order[i] = &self->theirs->steps.items[i];
    qsort(order, count, sizeof *order, by_generation);
    for (size_t i = 0; i < count; i++) {
        if (is_ours(self, order[i])) continue;
        output->section.count = 0;
        berth_write_bytes(&output->section, order[i]->bytes, order[i]->size);
        add_section(output);
    }
    berth_host_free(self->host, order);
    return BERTH_OK;
}

berth_status berth_plan_file_merge(const berth_plan_file* ours,
                                   const berth_plan_file* theirs,
                                   const char* config,
                                   const berth_plan_file_limits* limits,
                                   berth_byte_writer* out) {
    merging self = {.host = out->host, .ours = ours, .theirs = theirs};
    merged_file output = {.out = out, .section = {.host = out->host}, .limits = limits};
    const uint64_t generation = theirs->generation + 1;
    berth_status status = BERTH_OK;
    berth_plan_file_begin(out, config);
    for (size_t i = 0; i < ours->steps.count && status == BERTH_OK; i++)
        status = merge_step(&self, &ours->steps.items[i], generation, &output);
    if (status == BERTH_OK) status = add_their_steps(&self, &output);
    berth_plan_file_end(out, generation, output.steps);
    berth_byte_writer_fini(&output.section);
    merged_path_vec_fini(&self.paths, self.host);
    candidate_vec_fini(&self.plans, self.host);
    if (status == BERTH_OK && out->failed) status = no_memory();
    return status;
}
