// SPDX-License-Identifier: Apache-2.0
// Writes what is known of a step as a section of a plan file.
#include <string.h>

#include "plan/step_model_impl.h"

_Static_assert(BERTH_SIZE_RUNS <= BERTH_PLAN_FILE_RUNS, "a reader accepts all kept runs");

/// An event's identity, numbered as the path's names are.
typedef struct event_id {
    uint32_t kind;
    uint32_t tag;
} event_id;

BERTH_VEC_DEFINE(event_id_vec, event_id);

typedef struct exporter {
    berth_step_model* model;
    const berth_event_names* names;
    berth_byte_writer* out;
    event_id_vec ids;
} exporter;

// ---- Identity.

/// The number of the event's name. Few differ, and neighbours often are the same.
static uint32_t number_event(exporter* self, const berth_trace_event* event) {
    for (size_t i = 0; i < self->ids.count; i++)
        if (self->ids.items[i].kind == event->kind && self->ids.items[i].tag == event->tag)
            return (uint32_t)i;
    const event_id id = {event->kind, event->tag};
    if (event_id_vec_push(&self->ids, self->model->host, id) != BERTH_OK) self->out->failed = true;
    return (uint32_t)self->ids.count - 1;
}

/// Writes the names of the path's events. False if one has none.
static bool write_names(exporter* self, const berth_path* path) {
    self->ids.count = 0;
    for (uint32_t e = 0; e < path->event_count; e++)
        (void)number_event(self, &path->events[e]);
    berth_write_u32(self->out, (uint32_t)self->ids.count);
    for (size_t i = 0; i < self->ids.count; i++) {
        const event_id* id = &self->ids.items[i];
        char name[BERTH_EVENT_NAME_BYTES];
        if (!self->names->name_of(self->names->self, id->kind, id->tag, name)) return false;
        berth_write_text(self->out, name);
    }
    return true;
}

static bool write_identity(exporter* self, const berth_path* path) {
    const size_t length_at = self->out->count;
    berth_write_u32(self->out, 0);
    const size_t begin = self->out->count;
    if (!write_names(self, path)) return false;
    berth_write_u32(self->out, path->event_count);
    for (uint32_t e = 0; e < path->event_count; e++) {
        berth_write_u32(self->out, number_event(self, &path->events[e]));
        berth_write_u16(self->out, path->events[e].value_count);
    }
    berth_write_u32(self->out, path->value_count);
    for (uint32_t v = 0; v < path->value_count; v++) {
        const berth_trace_value* value = &path->values[v];
        berth_write_u8(self->out, value->rank);
        berth_write_u8(self->out, value->dtype);
        berth_write_u16(self->out, (uint16_t)(value->flags & ~(unsigned)BERTH_VALUE_ESCAPES));
    }
    const size_t length = self->out->count - begin;
    if (length > UINT32_MAX) return false;
    berth_rewrite_u32(self->out, length_at, (uint32_t)length);
    return true;
}

// ---- What was learned.

static void write_deaths(const berth_path* path, berth_byte_writer* out) {
    for (uint32_t v = 0; v < path->value_count; v++) {
        const bool escapes = (path->values[v].flags & BERTH_VALUE_ESCAPES) != 0;
        berth_write_u32(out, path->values[v].death | (escapes ? BERTH_PLAN_FILE_ESCAPES : 0));
    }
}

/// Numbers of the kept runs, the oldest first.
static void order_runs(const berth_size_model* sizes, uint32_t* order) {
    for (uint32_t run = 0; run < sizes->run_count; run++) {
        uint32_t at = run;
        for (; at > 0 && sizes->run_age[order[at - 1]] > sizes->run_age[run]; at--)
            order[at] = order[at - 1];
        order[at] = run;
    }
}

static void write_sizes(const berth_size_model* sizes, berth_byte_writer* out) {
    uint32_t order[BERTH_SIZE_RUNS];
    order_runs(sizes, order);
    berth_write_u32(out, sizes->symbol_count);
    for (uint32_t k = 0; k < sizes->symbol_count; k++)
        berth_write_u16(out, sizes->symbols[k]);
    berth_write_u32(out, sizes->run_count);
    for (uint32_t run = 0; run < sizes->run_count; run++)
        for (uint32_t i = 0; i < sizes->binding_count; i++)
            berth_write_u64(out,
                            (uint64_t)sizes->runs[(size_t)order[run] * sizes->binding_count + i]);
    berth_write_u32(out, (uint32_t)sizes->classes.count);
    for (size_t c = 0; c < sizes->classes.count; c++) {
        const berth_size_class* class = &sizes->classes.items[c];
        berth_write_u8(out, class->data ? BERTH_FILE_CLASS_DATA : 0);
        berth_write_u8(out, class->misses);
        berth_write_u64(out, (uint64_t) class->largest);
        for (uint32_t run = 0; run < sizes->run_count; run++)
            berth_write_u64(out, (uint64_t) class->values[order[run]]);
    }
    for (uint32_t d = 0; d < sizes->dim_count; d++)
        berth_write_u32(out, sizes->class_of[d]);
}

// ---- Plans.

/// One path whose plans are being written.
typedef struct plan_writer {
    berth_step_model* model;
    berth_known_path* path;
    berth_byte_writer* out;
    uint32_t count;
} plan_writer;

/// Evaluates `plan` at the corner of the bucket that `item` is keyed by. False if it does not fit.
static bool evaluate(plan_writer* self, const berth_cache_item* item) {
    berth_plan_workspace* workspace = &self->model->workspace;
    const berth_size_model* sizes = &self->path->sizes;
    int64_t values[BERTH_BINDINGS_MAX];
    berth_shape_box box;
    uint64_t frame_bytes;
    memcpy(values, sizes->runs, sizes->binding_count * sizeof *values);
    for (uint32_t k = 0; k < sizes->symbol_count; k++)
        values[sizes->symbols[k]] = item->values[k];
    berth_step_model_find_box(self->model, self->path, values, &box);
    (void)berth_size_model_evaluate(
        &self->path->sizes, box.bucket_lo, values, values, workspace->sizes);
    return berth_plan_measure(
        workspace, &self->path->version->shown, item->plan, workspace->other_offsets, &frame_bytes);
}

static void write_plan(void* argument, const berth_cache_item* item) {
    plan_writer* self = argument;
    const uint32_t value_count = self->path->sizes.value_count;
    if (item->count != self->path->sizes.symbol_count) return;
    if (item->plan != NULL && !evaluate(self, item)) return;
    for (uint32_t k = 0; k < item->count; k++)
        berth_write_u64(self->out, (uint64_t)item->values[k]);
    berth_write_u8(self->out, (uint8_t)(item->plan != NULL ? item->plan->tier : item->seed->tier));
    berth_write_u64(self->out, item->cost);
    berth_write_u64(self->out, item->hits);
    if (item->seed != NULL)
        berth_write_bytes(self->out, item->seed->offsets, (size_t)value_count * 8);
    for (uint32_t v = 0; item->plan != NULL && v < value_count; v++)
        berth_write_u64(self->out, self->model->workspace.offsets[v]);
    self->count++;
}

static void write_plans(exporter* self, berth_known_path* path) {
    const size_t count_at = self->out->count;
    berth_write_u32(self->out, 0);
    if (berth_plan_workspace_reserve(&self->model->workspace, &path->version->shown) != BERTH_OK) {
        self->out->failed = true;
        return;
    }
    plan_writer writer = {self->model, path, self->out, 0};
    berth_plan_cache_visit(&self->model->cache, path->id, write_plan, &writer);
    berth_rewrite_u32(self->out, count_at, writer.count);
}

// ---- The step.

/// How many paths were last taken before `path`.
static uint32_t recency_of(const berth_step_model* model, const berth_known_path* path) {
    uint32_t before = 0;
    for (uint32_t i = 0; i < model->path_count; i++)
        before += model->paths[i].last_taken < path->last_taken;
    return before;
}

/// Writes a path; nothing if one of its events has no name.
static bool write_path(exporter* self, berth_known_path* path) {
    const size_t begin = self->out->count;
    if (!write_identity(self, &path->version->shown)) {
        self->out->count = begin;
        return false;
    }
    berth_write_u32(self->out, recency_of(self->model, path));
    write_deaths(&path->version->shown, self->out);
    write_sizes(&path->sizes, self->out);
    write_plans(self, path);
    return true;
}

/// The path that was known next after `previous` (NULL: first of all).
static berth_known_path* next_path(berth_step_model* model, const berth_known_path* previous) {
    berth_known_path* next = NULL;
    for (uint32_t i = 0; i < model->path_count; i++) {
        berth_known_path* path = &model->paths[i];
        if (previous != NULL && path->id <= previous->id) continue;
        if (next == NULL || path->id < next->id) next = path;
    }
    return next;
}

static uint32_t write_paths(exporter* self) {
    uint32_t count = 0;
    for (berth_known_path* path = next_path(self->model, NULL); path != NULL;
         path = next_path(self->model, path))
        count += write_path(self, path);
    return count;
}

bool berth_step_model_export(berth_step_model* model,
                             const berth_event_names* names,
                             berth_byte_writer* out) {
    exporter self = {.model = model, .names = names, .out = out};
    berth_mutex_lock(&model->lock);
    berth_write_text(out, model->name);
    berth_write_u64(out, 0); // the generation comes with the file
    berth_write_u32(out, model->binding_count);
    for (uint32_t i = 0; i < model->binding_count; i++)
        berth_write_text(out, model->binding_names[i]);
    const size_t count_at = out->count;
    berth_write_u32(out, 0);
    const uint32_t count = write_paths(&self);
    berth_rewrite_u32(out, count_at, count);
    berth_mutex_unlock(&model->lock);
    event_id_vec_fini(&self.ids, model->host);
    return count > 0;
}
