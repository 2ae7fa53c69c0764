// SPDX-License-Identifier: Apache-2.0
// Takes in what a plan file has about a step: learns its runs as if they had just happened, and
// keeps its packings as seeds.
#include <string.h>

#include "plan/step_model_impl.h"

/// A use long ago counts less than one here.
#define HITS_FADE 2u

/// A step being taken in.
typedef struct importer {
    berth_step_model* model;
    const berth_shape_key* key;
    const berth_plan_file* file;
    berth_trace trace; ///< of the path at hand
} importer;

static bool has_bindings(const importer* self, const berth_file_step* step) {
    if (step->binding_count != self->key->count) return false;
    for (uint32_t i = 0; i < step->binding_count; i++)
        if (!berth_plan_file_has_binding(self->file, step, i, self->key->bindings[i].name))
            return false;
    return true;
}

// ---- Traces.

/// What an event's name stands for here. False if nothing of that name is known.
static bool find_event(const importer* self,
                       berth_byte_text text,
                       uint32_t* out_kind,
                       uint32_t* out_tag) {
    char name[BERTH_EVENT_NAME_BYTES];
    if (text.length >= sizeof name) return false;
    memcpy(name, text.bytes, text.length);
    name[text.length] = '\0';
    const berth_event_names* names = self->model->names;
    return names->find(names->self, name, out_kind, out_tag);
}

/// Room for the path's events, values and dimensions.
static bool reserve_trace(importer* self, const berth_file_path* path) {
    const berth_host* host = self->model->host;
    berth_trace_clear(&self->trace);
    return berth_trace_event_vec_reserve(&self->trace.events, host, path->event_count) ==
               BERTH_OK &&
           berth_trace_value_vec_reserve(&self->trace.values, host, path->value_count) ==
               BERTH_OK &&
           berth_trace_dim_vec_reserve(&self->trace.dims, host, path->dim_count) == BERTH_OK;
}

/// Writes the events; their names are looked up once each, into `kinds` and `tags` [name_count].
static bool fill_events(importer* self,
                        const berth_file_path* path,
                        uint32_t* kinds,
                        uint32_t* tags) {
    for (uint32_t i = 0; i < path->name_count; i++)
        if (!find_event(self, self->file->texts.items[path->first_name + i], &kinds[i], &tags[i]))
            return false;
    uint32_t first_value = 0;
    for (uint32_t e = 0; e < path->event_count; e++) {
        const unsigned char* event = path->events + (size_t)e * BERTH_PLAN_FILE_EVENT_BYTES;
        const uint32_t name = berth_load_u32(event);
        const uint16_t values = berth_load_u16(event + 4);
        self->trace.events.items[e] = (berth_trace_event){.kind = kinds[name],
                                                          .first_value = first_value,
                                                          .value_count = values,
                                                          .tag = tags[name]};
        first_value += values;
    }
    self->trace.events.count = path->event_count;
    return true;
}

static void fill_values(importer* self, const berth_file_path* path) {
    uint32_t dims_at = 0;
    for (uint32_t e = 0, v = 0; e < path->event_count; e++) {
        for (uint32_t left = self->trace.events.items[e].value_count; left > 0; left--, v++) {
            const unsigned char* value = path->values + (size_t)v * BERTH_PLAN_FILE_VALUE_BYTES;
            const uint32_t death = berth_load_u32(path->deaths + (size_t)v * 4);
            const bool escapes = (death & BERTH_PLAN_FILE_ESCAPES) != 0;
            const unsigned flags =
                berth_load_u16(value + 2) | (escapes ? (unsigned)BERTH_VALUE_ESCAPES : 0);
            self->trace.values.items[v] =
                (berth_trace_value){.birth = e,
                                    .death = death & ~BERTH_PLAN_FILE_ESCAPES,
                                    .dims_at = dims_at,
                                    .rank = value[0],
                                    .dtype = value[1],
                                    .flags = (uint16_t)flags};
            dims_at += value[0];
        }
    }
    self->trace.values.count = path->value_count;
}

static bool fill_trace(importer* self, const berth_file_path* path) {
    const berth_host* host = self->model->host;
    uint32_t* ids = berth_host_calloc(host, (size_t)path->name_count * 2 + 1, sizeof *ids);
    const bool is_known = ids != NULL && reserve_trace(self, path) &&
                          fill_events(self, path, ids, ids + path->name_count);
    berth_host_free(host, ids);
    if (is_known) fill_values(self, path);
    return is_known;
}

static const unsigned char* class_at(const berth_file_path* path, uint32_t dim) {
    const uint32_t class = berth_load_u32(path->class_of + (size_t)dim * 4);
    return path->classes + class * berth_file_class_bytes(path->run_count);
}

/// Gives the trace the dimensions of a kept run, and `values` the run's bindings.
static void fill_run(importer* self, const berth_file_path* path, uint32_t run, int64_t* values) {
    for (uint32_t d = 0; d < path->dim_count; d++)
        self->trace.dims.items[d] =
            (int64_t)berth_load_u64(class_at(path, d) + 10 + (size_t)run * 8);
    self->trace.dims.count = path->dim_count;
    const size_t bindings = self->key->count;
    for (size_t i = 0; i < bindings; i++)
        values[i] = (int64_t)berth_load_u64(path->runs + (run * bindings + i) * 8);
}

// ---- Learning.

/// Learns the kept runs in their order. The symbols come right after the first, so that keys have
/// them in the order of the file.
static berth_known_path* learn_runs(importer* self, const berth_file_path* path) {
    berth_known_path* known = NULL;
    for (uint32_t run = 0; run < path->run_count; run++) {
        int64_t values[BERTH_BINDINGS_MAX];
        fill_run(self, path, run, values);
        known = berth_step_model_learn_run(self->model, self->key, values, &self->trace);
        if (known == NULL) return NULL;
        for (uint32_t k = 0; k < path->symbol_count && run == 0; k++)
            berth_size_model_recall_symbol(&known->sizes,
                                           berth_load_u16(path->symbols + (size_t)k * 2));
    }
    for (uint32_t d = 0; d < path->dim_count; d++) {
        const unsigned char* class = class_at(path, d);
        berth_size_model_recall_dim(&known->sizes,
                                    d,
                                    (int64_t)berth_load_u64(class + 2),
                                    class[1],
                                    (class[0] & BERTH_FILE_CLASS_DATA) != 0);
    }
    return known;
}

static bool has_symbols(const berth_known_path* known, const berth_file_path* path) {
    bool same = known->sizes.symbol_count == path->symbol_count;
    for (uint32_t k = 0; k < path->symbol_count && same; k++)
        same = known->sizes.symbols[k] == berth_load_u16(path->symbols + (size_t)k * 2);
    return same;
}

/// Buckets that follow what is seen go on from those that the plans were made for.
static void take_bounds(importer* self, const berth_file_path* path) {
    for (uint32_t i = 0; i < path->plan_count; i++) {
        const berth_file_plan* plan = &self->file->plans.items[path->first_plan + i];
        for (uint32_t k = 0; k < path->symbol_count; k++)
            berth_symbol_buckets_recall(&self->model->buckets,
                                        berth_load_u16(path->symbols + (size_t)k * 2),
                                        (int64_t)berth_load_u64(plan->key + (size_t)k * 8));
    }
}

static void take_seeds(importer* self, const berth_known_path* known, const berth_file_path* path) {
    for (uint32_t i = 0; i < path->plan_count; i++) {
        const berth_file_plan* plan = &self->file->plans.items[path->first_plan + i];
        int64_t values[BERTH_BINDINGS_MAX];
        for (uint32_t k = 0; k < path->symbol_count; k++)
            values[k] = (int64_t)berth_load_u64(plan->key + (size_t)k * 8);
        const berth_cache_key key = {BERTH_CACHE_PLAN, known->id, path->symbol_count, values};
        const berth_plan_seed seed = {plan->offsets, (berth_plan_tier)plan->tier};
        berth_plan_cache_insert_seed(
            &self->model->cache, &key, &seed, plan->cost, plan->hits / HITS_FADE);
    }
}

static void take_path(importer* self, const berth_file_path* path, uint64_t clock) {
    if (path->event_count > self->model->policy.max_events || !fill_trace(self, path)) return;
    berth_known_path* known = learn_runs(self, path);
    if (known == NULL) return;
    known->last_taken = clock + path->recency;
    if (known->last_taken > self->model->clock) self->model->clock = known->last_taken;
    take_bounds(self, path);
    if (has_symbols(known, path)) take_seeds(self, known, path);
}

void berth_step_model_take_in(berth_step_model* model, const berth_shape_key* key) {
    importer self = {.model = model, .key = key, .file = model->file};
    model->file = NULL; // once, whatever comes of it
    const berth_file_step* step = berth_plan_file_find(self.file, model->name);
    if (step == NULL || key->count > BERTH_BINDINGS_MAX || !has_bindings(&self, step)) return;
    const uint64_t clock = model->clock + 1;
    for (uint32_t i = 0; i < step->path_count && model->path_count < model->policy.max_paths; i++)
        take_path(&self, &self.file->paths.items[step->first_path + i], clock);
    berth_step_model_settle_bytes(model);
    berth_trace_fini(&self.trace, model->host);
}

// ---- Seeds.

berth_plan* berth_step_model_sprout(berth_step_model* model,
                                    const berth_known_path* path,
                                    const berth_cache_key* key,
                                    bool remember,
                                    bool* out_owned) {
    *out_owned = false;
    const berth_plan_seed* seed = berth_plan_cache_find_seed(&model->cache, key);
    if (seed == NULL) return NULL;
    berth_plan_workspace* workspace = &model->workspace;
    for (uint32_t v = 0; v < path->sizes.value_count; v++)
        workspace->offsets[v] = berth_load_u64(seed->offsets + (size_t)v * 8);
    berth_plan* plan;
    const berth_status status =
        berth_plan_adopt(workspace, &path->version->shown, seed->tier, &plan);
    if (status == BERTH_ERR_OUT_OF_MEMORY) return NULL;
    model->counters.plans_restored += remember && plan != NULL;
    *out_owned = !remember;
    if (remember && !berth_plan_cache_sprout(&model->cache, key, plan)) *out_owned = plan != NULL;
    return plan;
}
