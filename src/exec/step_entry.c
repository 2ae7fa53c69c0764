// SPDX-License-Identifier: Apache-2.0
// Kinds of step by name.
#include "exec/step_entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "exec/bucket_settings.h"
#include "exec/event_names.h"

/// Fails if there are more dimensions and integers than a step may have.
static berth_status check_count(const berth_step_desc* desc) {
    size_t count = desc->integer_count;
    for (size_t i = 0; i < desc->input_count && count <= BERTH_BINDINGS_MAX; ++i)
        count += (size_t)desc->inputs[i].rank;
    if (count <= BERTH_BINDINGS_MAX) return BERTH_OK;
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                      "it declares more than %u dimensions and integers",
                      BERTH_BINDINGS_MAX);
}

static berth_status check_desc(const berth_step_desc* desc) {
    if (desc->name == NULL || desc->name[0] == '\0')
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a step needs a name");
    if ((desc->input_count > 0 && desc->inputs == NULL) ||
        (desc->integer_count > 0 && desc->integers == NULL))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "inputs or integers are missing");
    for (size_t i = 0; i < desc->input_count; ++i) {
        const berth_step_input* input = &desc->inputs[i];
        if (input->name == NULL || input->rank < 0 || input->rank > BERTH_MAX_RANK ||
            (input->rank > 0 && input->dims == NULL))
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "input %zu needs a name, a rank of 0 .. %d and its dimensions",
                              i,
                              BERTH_MAX_RANK);
        for (int32_t d = 0; d < input->rank; ++d)
            if (input->dims[d] < 0)
                return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                                  "%s.%d is negative: %" PRId64,
                                  input->name,
                                  (int)d,
                                  input->dims[d]);
    }
    for (size_t i = 0; i < desc->integer_count; ++i) {
        if (desc->integers[i].name == NULL)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "integer %zu needs a name", i);
        if (desc->integers[i].value < 0)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "%s is negative: %" PRId64,
                              desc->integers[i].name,
                              desc->integers[i].value);
    }
    return check_count(desc);
}

/// The same inputs, ranks and integers, in the same order as in the step's first run.
static berth_status check_same(const berth_step_entry* entry, const berth_step_desc* desc) {
    if (desc->input_count != entry->input_count || desc->integer_count != entry->integer_count)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "it has %zu inputs and %zu integers, in its first run %zu and %zu",
                          desc->input_count,
                          desc->integer_count,
                          entry->input_count,
                          entry->integer_count);
    for (size_t i = 0; i < desc->input_count; ++i) {
        const berth_step_input* input = &desc->inputs[i];
        if (input->rank != entry->input_ranks[i] || strcmp(input->name, entry->input_names[i]) != 0)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "input %zu is %s of rank %d, in its first run %s of rank %d",
                              i,
                              input->name,
                              (int)input->rank,
                              entry->input_names[i],
                              (int)entry->input_ranks[i]);
    }
    const char* const* integers =
        (const char* const*)entry->binding_names + entry->binding_count - entry->integer_count;
    for (size_t i = 0; i < desc->integer_count; ++i)
        if (strcmp(desc->integers[i].name, integers[i]) != 0)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                              "integer %zu is %s, in its first run %s",
                              i,
                              desc->integers[i].name,
                              integers[i]);
    return BERTH_OK;
}

void berth_step_entry_destroy(const berth_host* host, berth_step_entry* entry) {
    if (entry == NULL) return;
    berth_step_model_destroy(entry->model);
    for (size_t i = 0; entry->input_names != NULL && i < entry->input_count; ++i)
        berth_host_free(host, entry->input_names[i]);
    for (size_t i = 0; entry->binding_names != NULL && i < entry->binding_count; ++i)
        berth_host_free(host, entry->binding_names[i]);
    berth_host_free(host, entry->input_names);
    berth_host_free(host, entry->input_ranks);
    berth_host_free(host, entry->binding_names);
    berth_host_free(host, entry);
}

static char* name_dimension(const berth_host* host, const char* input, int32_t dim) {
    const size_t size = strlen(input) + 4;
    char* name = berth_host_alloc(host, size);
    if (name != NULL) (void)snprintf(name, size, "%s.%d", input, (int)dim);
    return name;
}

static bool name_bindings(const berth_host* host,
                          berth_step_entry* entry,
                          const berth_step_desc* desc) {
    size_t at = 0;
    for (size_t i = 0; i < desc->input_count; ++i) {
        entry->input_ranks[i] = desc->inputs[i].rank;
        entry->input_names[i] = berth_host_strdup(host, desc->inputs[i].name);
        if (entry->input_names[i] == NULL) return false;
        for (int32_t d = 0; d < desc->inputs[i].rank; ++d) {
            entry->binding_names[at] = name_dimension(host, desc->inputs[i].name, d);
            if (entry->binding_names[at++] == NULL) return false;
        }
    }
    for (size_t i = 0; i < desc->integer_count; ++i) {
        entry->binding_names[at] = berth_host_strdup(host, desc->integers[i].name);
        if (entry->binding_names[at++] == NULL) return false;
    }
    return true;
}

static berth_status no_memory(void) {
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory for a new step");
}

static berth_status create(berth_runtime* runtime,
                           const berth_step_desc* desc,
                           berth_step_entry** out_entry) {
    const berth_host* host = runtime->host;
    berth_step_entry* entry = berth_host_calloc(host, 1, sizeof *entry);
    if (entry == NULL) return no_memory();
    entry->input_count = desc->input_count;
    entry->integer_count = desc->integer_count;
    entry->binding_count = desc->integer_count;
    for (size_t i = 0; i < desc->input_count; ++i)
        entry->binding_count += (size_t)desc->inputs[i].rank;
    // one more than needed: a step without inputs has empty tables, not missing ones
    entry->input_names = berth_host_calloc(host, desc->input_count + 1, sizeof(char*));
    entry->input_ranks = berth_host_calloc(host, desc->input_count + 1, sizeof(int32_t));
    entry->binding_names = berth_host_calloc(host, entry->binding_count + 1, sizeof(char*));
    if (entry->input_names == NULL || entry->input_ranks == NULL || entry->binding_names == NULL ||
        !name_bindings(host, entry, desc)) {
        berth_step_entry_destroy(host, entry);
        return no_memory();
    }
    berth_status status =
        berth_step_model_create(host, desc->name, &runtime->policy, &entry->model);
    if (status == BERTH_OK) status = berth_bucket_settings_apply(runtime, desc->name, entry->model);
    if (status != BERTH_OK) {
        berth_step_entry_destroy(host, entry);
        return status;
    }
    berth_step_model_set_source(entry->model,
                                runtime->plans.path != NULL ? &runtime->plans.file : NULL,
                                &runtime->event_names);
    *out_entry = entry;
    return BERTH_OK;
}

berth_step_entry* berth_step_entry_look_up(berth_runtime* runtime, const char* name) {
    berth_step_entry* entry = runtime->first_step;
    while (entry != NULL && strcmp(berth_step_model_name(entry->model), name) != 0)
        entry = entry->next;
    return entry;
}

berth_step_entry* berth_step_entry_next(berth_runtime* runtime, berth_step_entry* entry) {
    berth_mutex_lock(&runtime->lock);
    berth_step_entry* next = entry != NULL ? entry->next : runtime->first_step;
    berth_mutex_unlock(&runtime->lock);
    return next;
}

static void append(berth_runtime* runtime, berth_step_entry* entry, uint32_t tag) {
    if (runtime->last_step != NULL) {
        runtime->last_step->next = entry;
    } else {
        runtime->first_step = entry;
    }
    runtime->last_step = entry;
    entry->tag = tag;
    runtime->step_count++;
}

/// True if the plan file knows a step of this name and these dimensions and integers.
static bool is_in_file(const berth_runtime* runtime, const berth_step_entry* entry) {
    const berth_plan_file* file = &runtime->plans.file;
    const berth_file_step* step = berth_plan_file_find(file, berth_step_model_name(entry->model));
    if (step == NULL || step->binding_count != entry->binding_count) return false;
    for (uint32_t i = 0; i < step->binding_count; ++i)
        if (!berth_plan_file_has_binding(file, step, i, entry->binding_names[i])) return false;
    return true;
}

/// Makes an entry, if it `may_create` or the plan file knows the very step: a question must not fix
/// what the step declares.
static berth_status add_entry(berth_runtime* runtime,
                              const berth_step_desc* desc,
                              bool may_create,
                              berth_step_entry** out_entry) {
    uint32_t tag;
    berth_step_entry* entry = NULL;
    BERTH_TRY(create(runtime, desc, &entry));
    berth_status status = BERTH_OK;
    if (may_create || is_in_file(runtime, entry)) {
        status = berth_runtime_number_step(runtime, desc->name, &tag);
        if (status == BERTH_OK) {
            append(runtime, entry, tag);
            *out_entry = entry;
            return BERTH_OK;
        }
    }
    berth_step_entry_destroy(runtime->host, entry);
    return status;
}

/// The entry called desc->name, made if it `may_create` or the plan file knows it; NULL if there is
/// none.
static berth_status find_or_create(berth_runtime* runtime,
                                   const berth_step_desc* desc,
                                   bool may_create,
                                   berth_step_entry** out_entry) {
    berth_status status = BERTH_OK;
    berth_mutex_lock(&runtime->lock);
    berth_step_entry* entry = berth_step_entry_look_up(runtime, desc->name);
    // what a file knows can be asked about before the first run
    if (entry == NULL &&
        (may_create || berth_plan_file_find(&runtime->plans.file, desc->name) != NULL))
        status = add_entry(runtime, desc, may_create, &entry);
    berth_mutex_unlock(&runtime->lock);
    *out_entry = entry;
    return status;
}

berth_status berth_step_entry_find(berth_context* context,
                                   const berth_step_desc* desc,
                                   bool may_create,
                                   berth_step_entry** out_entry) {
    *out_entry = NULL;
    BERTH_TRY(check_desc(desc));
    berth_step_entry* entry = context->recent_step;
    if (entry == NULL || strcmp(berth_step_model_name(entry->model), desc->name) != 0) {
        BERTH_TRY(find_or_create(context->runtime, desc, may_create, &entry));
        if (entry == NULL) return BERTH_OK;
        context->recent_step = entry;
    }
    BERTH_TRY(check_same(entry, desc));
    *out_entry = entry;
    return BERTH_OK;
}

berth_status berth_step_entry_bind(const berth_step_entry* entry,
                                   const berth_step_desc* desc,
                                   const berth_host* host,
                                   berth_binding_vec* out_bindings) {
    BERTH_TRY(berth_binding_vec_reserve(out_bindings, host, entry->binding_count));
    size_t at = 0;
    for (size_t i = 0; i < desc->input_count; ++i) {
        for (int32_t d = 0; d < desc->inputs[i].rank; ++d, ++at)
            out_bindings->items[at] =
                (berth_binding){.name = entry->binding_names[at], .value = desc->inputs[i].dims[d]};
    }
    for (size_t i = 0; i < desc->integer_count; ++i, ++at)
        out_bindings->items[at] =
            (berth_binding){.name = entry->binding_names[at], .value = desc->integers[i].value};
    out_bindings->count = at;
    return BERTH_OK;
}
