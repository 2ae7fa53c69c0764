// SPDX-License-Identifier: Apache-2.0
// The life of a step model, its keys, and the calls of the executor.
#include "plan/step_model.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "plan/step_model_impl.h"

// ---- Creation.

berth_status berth_step_model_create(const berth_host* host,
                                     const char* name,
                                     const berth_plan_policy* policy,
                                     berth_step_model** out_model) {
    *out_model = NULL;
    berth_bucket_policy buckets;
    BERTH_TRY(berth_bucket_policy_parse(&buckets, policy->buckets));
    berth_step_model* model = berth_host_calloc(host, 1, sizeof *model);
    if (model == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for step %s", name);
    model->host = host;
    model->cache.host = host;
    model->workspace.host = host;
    model->policy = *policy;
    model->policy.buckets = NULL; // borrowed for this call only
    model->buckets = (berth_symbol_buckets){.host = host, .of_all = buckets};
    model->cache.limit_bytes = policy->cache_bytes;
    model->cache.limit_entries = policy->cache_entries;
    model->next_path_id = 1;
    berth_status status = BERTH_ERR_OUT_OF_MEMORY;
    model->name = berth_host_strdup(host, name);
    model->paths = berth_host_calloc(host, policy->max_paths + (size_t)1, sizeof *model->paths);
    if (model->name == NULL || model->paths == NULL) {
        (void)berth_fail(status, "no memory for step %s", name);
        goto fail;
    }
    status = berth_mutex_init(&model->lock);
    if (status != BERTH_OK) goto fail;
    model->lock_made = true;
    *out_model = model;
    return BERTH_OK;
fail:
    berth_step_model_destroy(model);
    return status;
}

static void forget_names(berth_step_model* model) {
    for (uint32_t i = 0; model->binding_names != NULL && i < model->binding_count; i++)
        berth_host_free(model->host, model->binding_names[i]);
    berth_host_free(model->host, model->binding_names);
    model->binding_names = NULL;
    model->binding_count = 0;
}

void berth_step_model_forget_path(berth_step_model* model, uint32_t at) {
    berth_known_path* path = &model->paths[at];
    berth_plan_cache_drop(&model->cache, path->id, false);
    berth_path_version_release(path->version, model->host);
    berth_size_model_fini(&path->sizes);
    berth_path_tree_remove(&model->tree, at);
    model->path_count--;
    for (uint32_t i = at; i < model->path_count; i++)
        model->paths[i] = model->paths[i + 1];
    model->paths[model->path_count] = (berth_known_path){.id = 0};
}

void berth_step_model_destroy(berth_step_model* model) {
    if (model == NULL) return;
    while (model->path_count > 0)
        berth_step_model_forget_path(model, model->path_count - 1);
    berth_improvement_destroy(berth_improver_collect(&model->tray), model->host);
    berth_path_tree_fini(&model->tree, model->host);
    berth_plan_cache_fini(&model->cache);
    berth_plan_workspace_fini(&model->workspace);
    berth_host_free(model->host, model->seen);
    berth_symbol_buckets_fini(&model->buckets);
    forget_names(model);
    if (model->lock_made) berth_mutex_fini(&model->lock);
    berth_host_free(model->host, model->paths);
    berth_host_free(model->host, model->name);
    berth_host_free(model->host, model);
}

const char* berth_step_model_name(const berth_step_model* model) { return model->name; }

void berth_step_model_set_source(berth_step_model* model,
                                 const berth_plan_file* file,
                                 const berth_event_names* names) {
    model->file = file;
    model->names = names;
}

// ---- Keys.

/// Copies the values of `key` to `values` [BERTH_BINDINGS_MAX]. Needs the lock.
static berth_status read_key(const berth_step_model* model,
                             const berth_shape_key* key,
                             int64_t* values) {
    if (key->count > BERTH_BINDINGS_MAX)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "step %s declares %zu dimensions and integers, at most %u are possible",
                          model->name,
                          key->count,
                          BERTH_BINDINGS_MAX);
    if (model->names_known && key->count != model->binding_count)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "step %s declares %zu dimensions and integers, its first run had %u",
                          model->name,
                          key->count,
                          model->binding_count);
    for (size_t i = 0; i < key->count; i++) {
        const berth_binding* binding = &key->bindings[i];
        if (model->names_known && strcmp(binding->name, model->binding_names[i]) != 0)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "step %s declares %s where its first run had %s",
                              model->name,
                              binding->name,
                              model->binding_names[i]);
        if (binding->value < 0)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "%s of step %s is %lld, below 0",
                              binding->name,
                              model->name,
                              (long long)binding->value);
        values[i] = binding->value;
    }
    return BERTH_OK;
}

bool berth_step_model_learn_names(berth_step_model* model, const berth_shape_key* key) {
    if (model->names_known) return true;
    model->binding_names =
        berth_host_calloc(model->host, key->count + 1, sizeof *model->binding_names);
    if (model->binding_names == NULL) return false;
    for (size_t i = 0; i < key->count; i++) {
        model->binding_names[i] = berth_host_strdup(model->host, key->bindings[i].name);
        model->binding_count++;
        if (model->binding_names[i] != NULL) continue;
        forget_names(model);
        return false;
    }
    model->names_known = true;
    const char* stranger =
        berth_symbol_buckets_name(&model->buckets, model->binding_names, model->binding_count);
    char declared[BERTH_SYMBOLS_SHOWN_BYTES];
    if (stranger != NULL)
        berth_log_line(BERTH_LOG_WARN,
                       "step %s has buckets for %s, which it does not declare: it declares %s",
                       model->name,
                       stranger,
                       berth_symbols_shown(model->binding_names, model->binding_count, declared));
    return true;
}

// ---- Buckets.

/// Buckets have changed: what was planned for the old ones goes.
static void drop_plans(berth_step_model* model) {
    for (uint32_t i = 0; i < model->path_count; i++)
        berth_plan_cache_drop(&model->cache, model->paths[i].id, false);
}

berth_status berth_step_model_init_buckets(berth_step_model* model,
                                           const char* symbol,
                                           const char* policy) {
    berth_bucket_policy parsed;
    BERTH_TRY(berth_bucket_policy_parse(&parsed, policy));
    if (symbol != NULL && model->names_known)
        BERTH_TRY(
            berth_symbols_check(model->binding_names, model->binding_count, model->name, symbol));
    BERTH_TRY(berth_symbol_buckets_set(&model->buckets, symbol, &parsed));
    drop_plans(model);
    return BERTH_OK;
}

berth_status berth_step_model_set_buckets(berth_step_model* model,
                                          const char* symbol,
                                          const char* policy) {
    berth_mutex_lock(&model->lock);
    const berth_status status = berth_step_model_init_buckets(model, symbol, policy);
    berth_mutex_unlock(&model->lock);
    return status;
}

// ---- Runs.

/// Counts what begin has found out.
static void count_inquiry(berth_step_model* model,
                          const berth_plan_inquiry* inquiry,
                          berth_outlook* outlook) {
    outlook->made_plan = inquiry->made_plan;
    outlook->plan_ns = inquiry->plan_ns;
    model->counters.plan_ns += inquiry->plan_ns;
    if (outlook->placement != NULL && !inquiry->evaluated) model->counters.memo_hits++;
}

static berth_status inquire(berth_step_model* model,
                            const berth_shape_key* key,
                            bool remember,
                            berth_branches* out_branches,
                            berth_outlook* out_outlook) {
    out_branches->count = 0;
    *out_outlook = (berth_outlook){.kind = BERTH_ESTIMATE_UNKNOWN};
    int64_t values[BERTH_BINDINGS_MAX];
    berth_mutex_lock(&model->lock);
    if (model->file != NULL) berth_step_model_take_in(model, key);
    const berth_status status = read_key(model, key, values);
    if (model->ended) out_outlook->miss = BERTH_MISS_CHURN;
    if (status == BERTH_OK && !model->ended) {
        if (remember && berth_symbol_buckets_observe(&model->buckets, values)) drop_plans(model);
        berth_plan_inquiry inquiry = {.remember = remember};
        if (remember) berth_step_model_take_improvement(model);
        berth_step_model_look_out(model, values, &inquiry, out_branches, out_outlook);
        if (remember) {
            count_inquiry(model, &inquiry, out_outlook);
        } else {
            berth_step_model_release(model, out_branches);
            out_outlook->placement = NULL;
        }
    }
    berth_mutex_unlock(&model->lock);
    return status;
}

berth_status berth_step_model_begin(berth_step_model* model,
                                    const berth_shape_key* key,
                                    berth_branches* out_branches,
                                    berth_outlook* out_outlook) {
    return inquire(model, key, true, out_branches, out_outlook);
}

berth_status berth_step_model_estimate(berth_step_model* model,
                                       const berth_shape_key* key,
                                       berth_outlook* out_outlook) {
    berth_branches branches;
    return inquire(model, key, false, &branches, out_outlook);
}

void berth_step_model_abandon(berth_step_model* model, berth_branches* branches) {
    berth_mutex_lock(&model->lock);
    berth_step_model_release(model, branches);
    berth_mutex_unlock(&model->lock);
}

void berth_step_model_end(berth_step_model* model,
                          const berth_shape_key* key,
                          berth_run_report* report) {
    int64_t values[BERTH_BINDINGS_MAX];
    berth_mutex_lock(&model->lock);
    if (report->result != BERTH_RUN_DISCARDED && read_key(model, key, values) == BERTH_OK) {
        berth_step_model_take_report(model, key, values, report);
        if (report->result == BERTH_RUN_HIT)
            berth_step_model_offer_plan(model, values, berth_placement_own(report->placement));
    }
    if (report->branches != NULL) berth_step_model_release(model, report->branches);
    report->placement = NULL;
    berth_mutex_unlock(&model->lock);
}

void berth_step_model_query_counters(berth_step_model* model, berth_step_counters* out_counters) {
    berth_mutex_lock(&model->lock);
    *out_counters = model->counters;
    out_counters->plans_live = model->cache.live[BERTH_CACHE_PLAN];
    out_counters->plans_evicted = model->cache.evicted[BERTH_CACHE_PLAN];
    out_counters->plan_bytes = model->cache.bytes + berth_step_model_path_bytes(model);
    out_counters->paths = model->path_count;
    berth_mutex_unlock(&model->lock);
}
