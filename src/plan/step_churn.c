// SPDX-License-Identifier: Apache-2.0
// Steps that never settle: when planning ends for a while, and what is said about it.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "plan/step_model_impl.h"

#define SEEN_BITS (BERTH_SEEN_WORDS * 64u)

// ---- What a size is called.

/// Writes the name of the event that made `value` of `path`.
static void name_event(const berth_step_model* model,
                       const berth_known_path* path,
                       const berth_trace_value* value,
                       char name[BERTH_EVENT_NAME_BYTES]) {
    const berth_trace_event* event = &path->version->shown.events[value->birth];
    if (model->names != NULL &&
        model->names->name_of(model->names->self, event->kind, event->tag, name))
        return;
    snprintf(name, BERTH_EVENT_NAME_BYTES, "event %" PRIu32, value->birth);
}

/// Writes what the first dimension of a class is called: "dimension 1 of the result of linear
/// (value 12)".
static void name_class(const berth_step_model* model,
                       const berth_known_path* path,
                       uint32_t class,
                       char* text,
                       size_t size) {
    const berth_path* shown = &path->version->shown;
    for (uint32_t v = 0; v < shown->value_count; v++) {
        const berth_trace_value* value = &shown->values[v];
        uint32_t d = 0;
        while (d < value->rank && path->sizes.class_of[value->dims_at + d] != class)
            d++;
        if (d == value->rank) continue;
        char name[BERTH_EVENT_NAME_BYTES];
        name_event(model, path, value, name);
        if ((value->flags & BERTH_VALUE_SCRATCH) != 0)
            snprintf(text, size, "the scratch of %.80s (value %" PRIu32 ")", name, v);
        else
            snprintf(text,
                     size,
                     "dimension %" PRIu32 " of the result of %.80s (value %" PRIu32 ")",
                     d,
                     name,
                     v);
        return;
    }
    snprintf(text, size, "a size");
}

void berth_step_model_note_undeclared(berth_step_model* model, const berth_known_path* path) {
    const berth_size_contradiction found = berth_size_model_contradiction(&path->sizes);
    if (found.class == UINT32_MAX) return;
    model->counters.undeclared++;
    if (model->told_undeclared) return;
    model->told_undeclared = true;
    char text[192];
    name_class(model, path, found.class, text, sizeof text);
    berth_log_line(BERTH_LOG_WARN,
                   "step %.120s: %s was %" PRId64 " and then %" PRId64
                   " in runs with equal inputs and integers; declare the integer that it depends "
                   "on, or the largest size seen is planned for it",
                   model->name,
                   text,
                   found.before,
                   found.now);
}

// ---- Buckets that were seen.

static void forget_seen(berth_step_model* model) {
    berth_host_free(model->host, model->seen);
    model->seen = NULL;
    model->seen_runs = 0;
    memset(model->fresh, 0, sizeof model->fresh);
}

/// Counts for each binding whether its bucket is a new one, once windows are bad.
static void note_buckets(berth_step_model* model, const int64_t* values) {
    if (model->churn.bad_windows == 0) {
        if (model->seen != NULL) forget_seen(model);
        return;
    }
    if (model->seen == NULL)
        model->seen =
            berth_host_calloc(model->host, model->binding_count + (size_t)1, sizeof *model->seen);
    if (model->seen == NULL) return;
    model->seen_runs++;
    for (uint32_t i = 0; i < model->binding_count; i++) {
        const int64_t upper = berth_symbol_buckets_find(&model->buckets, i, values[i]).hi;
        const uint64_t bit = berth_hash64(&upper, sizeof upper, 0) % SEEN_BITS;
        uint64_t* word = &model->seen[i][bit / 64];
        model->fresh[i] += (*word >> bit % 64 & 1) == 0;
        *word |= UINT64_C(1) << bit % 64;
    }
}

// ---- The end.

static void say_buckets(const berth_step_model* model) {
    uint32_t most = 0;
    for (uint32_t i = 1; i < model->binding_count; i++)
        if (model->fresh[i] > model->fresh[most]) most = i;
    berth_log_line(BERTH_LOG_WARN,
                   "step %.120s: symbol %.80s took %" PRIu32 " new buckets in %" PRIu64
                   " runs, and plans are hardly used again; the step is not planned for the next "
                   "%" PRIu64 " runs (wider buckets may help: BERTH_BUCKETS)",
                   model->name,
                   model->binding_count > 0 ? model->binding_names[most] : "(none)",
                   model->fresh[most],
                   model->seen_runs,
                   model->churn.pause);
}

static void say_sizes(const berth_step_model* model, const berth_known_path* path) {
    uint32_t class = berth_size_model_find_restless(&path->sizes, false);
    if (class == UINT32_MAX) class = berth_size_model_find_restless(&path->sizes, true);
    char text[192];
    name_class(model, path, class, text, sizeof text);
    berth_log_line(BERTH_LOG_WARN,
                   "step %.120s: %s follows no declared symbol (it was up to %" PRId64
                   "), and plans do not fit; the step is not planned for the next %" PRIu64 " runs",
                   model->name,
                   text,
                   class != UINT32_MAX ? path->sizes.classes.items[class].largest : 0,
                   model->churn.pause);
}

static berth_churn_fault fault_of(berth_miss miss, berth_run_result result) {
    if (miss == BERTH_MISS_NEW_BUCKET || miss == BERTH_MISS_EVICTED) return BERTH_CHURN_BUCKET;
    if (miss == BERTH_MISS_MODEL_CHANGED || result == BERTH_RUN_PARTIAL) return BERTH_CHURN_SIZE;
    return BERTH_CHURN_NONE;
}

void berth_step_model_watch_churn(berth_step_model* model,
                                  const berth_known_path* path,
                                  const int64_t* values,
                                  berth_miss miss,
                                  const berth_run_report* report) {
    if (model->policy.max_exits == 0 || path == NULL) return;
    note_buckets(model, values);
    const bool formless =
        model->churn.runs + 1 == BERTH_CHURN_WINDOW && // looked at when a window ends
        berth_size_model_find_restless(&path->sizes, false) != UINT32_MAX;
    const uint64_t planned = report->placement != NULL ? report->placement->sum_bytes : 0;
    const uint64_t needed = report->placement != NULL ? report->allocated_bytes : 0;
    if (!berth_churn_count(
            &model->churn, fault_of(miss, report->result), planned, needed, formless))
        return;
    berth_churn_pause(&model->churn, model->clock);
    if (berth_churn_is_of_buckets(&model->churn))
        say_buckets(model);
    else
        say_sizes(model, path);
    model->counters.churned++;
    forget_seen(model);
    berth_step_model_end_planning(model);
}
