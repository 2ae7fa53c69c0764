// SPDX-License-Identifier: Apache-2.0
// Sets buckets for a step or a symbol, now or as soon as the step is first run.
#include "exec/bucket_settings.h"

#include <string.h>

#include "base/error.h"
#include "exec/step_entry.h"
#include "plan/bucket.h"
#include "plan/symbol_buckets.h"

struct berth_bucket_setting {
    berth_bucket_setting* next;
    char* step;
    char* symbol; ///< NULL: all
    char* policy;
};

static void destroy(const berth_host* host, berth_bucket_setting* setting) {
    if (setting == NULL) return;
    berth_host_free(host, setting->step);
    berth_host_free(host, setting->symbol);
    berth_host_free(host, setting->policy);
    berth_host_free(host, setting);
}

void berth_bucket_settings_forget(berth_runtime* runtime) {
    while (runtime->first_setting != NULL) {
        berth_bucket_setting* setting = runtime->first_setting;
        runtime->first_setting = setting->next;
        destroy(runtime->host, setting);
    }
}

static bool is_for(const berth_bucket_setting* setting, const char* step, const char* symbol) {
    if (strcmp(setting->step, step) != 0) return false;
    if (setting->symbol == NULL || symbol == NULL) return setting->symbol == symbol;
    return strcmp(setting->symbol, symbol) == 0;
}

/// Keeps a setting for a step that has not been run; a later one for the same replaces it.
static berth_status keep(berth_runtime* runtime,
                         const char* step,
                         const char* symbol,
                         const char* policy) {
    const berth_host* host = runtime->host;
    berth_bucket_setting* setting = berth_host_calloc(host, 1, sizeof *setting);
    if (setting != NULL) {
        setting->step = berth_host_strdup(host, step);
        setting->symbol = symbol != NULL ? berth_host_strdup(host, symbol) : NULL;
        setting->policy = berth_host_strdup(host, policy);
    }
    if (setting == NULL || setting->step == NULL || setting->policy == NULL ||
        (symbol != NULL && setting->symbol == NULL)) {
        destroy(host, setting);
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for the buckets of step %s", step);
    }
    berth_bucket_setting** link = &runtime->first_setting;
    while (*link != NULL && !is_for(*link, step, symbol))
        link = &(*link)->next;
    if (*link != NULL) {
        berth_bucket_setting* old = *link;
        setting->next = old->next;
        destroy(host, old);
    }
    *link = setting;
    return BERTH_OK;
}

berth_status berth_bucket_settings_apply(berth_runtime* runtime,
                                         const char* step,
                                         berth_step_model* model) {
    for (const berth_bucket_setting* setting = runtime->first_setting; setting != NULL;
         setting = setting->next)
        if (strcmp(setting->step, step) == 0)
            BERTH_TRY(berth_step_model_init_buckets(model, setting->symbol, setting->policy));
    return BERTH_OK;
}

berth_status berth_step_set_buckets(berth_runtime* runtime,
                                    const char* step,
                                    const char* symbol,
                                    const char* policy) {
    if (runtime == NULL || step == NULL || step[0] == '\0')
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime and a step's name are needed");
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    berth_bucket_policy parsed; // refused now, also for a step that has not been run
    BERTH_TRY(berth_bucket_policy_parse(&parsed, policy));
    berth_status status = BERTH_OK;
    berth_mutex_lock(&runtime->lock);
    berth_step_entry* entry = berth_step_entry_look_up(runtime, step);
    if (entry == NULL) status = keep(runtime, step, symbol, policy);
    berth_mutex_unlock(&runtime->lock);
    if (status != BERTH_OK || entry == NULL) return status;
    if (symbol != NULL)
        BERTH_TRY(berth_symbols_check(
            entry->binding_names, (uint32_t)entry->binding_count, step, symbol));
    return berth_step_model_set_buckets(entry->model, symbol, policy);
}
