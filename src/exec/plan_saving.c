// SPDX-License-Identifier: Apache-2.0
// Collects what all steps know, and hands it to the plan store.
#include "exec/plan_saving.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "berth/version.h"
#include "device/cpu/cpu_kernels.h"
#include "device/cpu/kernel_gemm_library.h"
#include "exec/step_entry.h"

/// A file holds this many times what one kind of step may have.
#define STEPS_IN_FILE 16u

static const char* const isa_names[] = {
    [BERTH_CPU_ISA_PORTABLE] = "portable",
    [BERTH_CPU_ISA_AVX2] = "avx2",
    [BERTH_CPU_ISA_AVX512] = "avx512",
};

/// What decides about sizes, apart from shapes: a line each.
static void describe(const berth_runtime* runtime, berth_text* text) {
    const bool invariant = runtime->batch_invariant;
    berth_text_add(text, "library=%s\n", berth_version());
    berth_text_add(text, "device=%s\n", runtime->device->name);
    berth_text_add(text, "threads=%" PRIu32 "\n", berth_team_worker_count(runtime->device->team));
    berth_text_add(text, "instructions=%s\n", isa_names[berth_cpu_query_isa()]);
    berth_text_add(text, "batch_invariant=%d\n", invariant);
    berth_text_add(text, "matrices=%s\n", invariant ? "own" : berth_gemm_library_name());
    berth_text_add(text, "alignment=%u\n", BERTH_PLAN_ALIGNMENT);
}

static berth_plan_file_limits limits_of(const berth_plan_policy* policy) {
    const uint64_t most = INT64_MAX / STEPS_IN_FILE;
    const uint64_t step_bytes = policy->cache_bytes < most ? policy->cache_bytes : most;
    return (berth_plan_file_limits){.step_bytes = step_bytes,
                                    .file_bytes = step_bytes * STEPS_IN_FILE,
                                    .step_paths = policy->max_paths};
}

berth_status berth_runtime_open_plans(berth_runtime* runtime, const berth_options* options) {
    const char* path = berth_options_text(options, BERTH_OPTION_PLAN_CACHE_FILE);
    if (strcmp(path, BERTH_OPTION_NO_FILE) == 0) return BERTH_OK;
    char config[512];
    berth_text text = {.buffer = config, .size = sizeof config};
    describe(runtime, &text);
    const berth_plan_file_limits limits = limits_of(&runtime->policy);
    return berth_plan_store_init(
        &runtime->plans, runtime->host, &berth_file_ops_system, path, config, &limits);
}

/// Writes a section for each step of which something is known; returns how many.
static size_t collect(berth_runtime* runtime, berth_byte_writer* sections, size_t most) {
    size_t count = 0;
    for (berth_step_entry* entry = berth_step_entry_next(runtime, NULL);
         entry != NULL && count < most;
         entry = berth_step_entry_next(runtime, entry)) {
        sections[count].host = runtime->host;
        if (berth_step_model_export(entry->model, &runtime->event_names, &sections[count]))
            ++count;
        else
            berth_byte_writer_fini(&sections[count]);
    }
    return count;
}

static berth_status save(berth_runtime* runtime) {
    const size_t most = berth_runtime_query_step_count(runtime);
    berth_byte_writer* sections = berth_host_calloc(runtime->host, most + 1, sizeof *sections);
    if (sections == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to save plans");
    const size_t count = collect(runtime, sections, most);
    bool is_whole = true;
    for (size_t i = 0; i < count; ++i)
        is_whole = is_whole && !sections[i].failed;
    berth_status status = BERTH_OK;
    if (!is_whole)
        status = berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to save plans");
    else if (count > 0)
        status = berth_plan_store_save(&runtime->plans, sections, count);
    for (size_t i = 0; i < count; ++i)
        berth_byte_writer_fini(&sections[i]);
    berth_host_free(runtime->host, sections);
    return status;
}

berth_status berth_runtime_save_plans(berth_runtime* runtime) {
    if (runtime == NULL) return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a runtime is needed");
    BERTH_TRY(berth_fork_check(runtime->fork_generation));
    if (runtime->plans.path == NULL)
        return berth_fail(BERTH_ERR_STATE, "BERTH_PLAN_CACHE_FILE names no file for plans");
    return save(runtime);
}

void berth_runtime_close_plans(berth_runtime* runtime) {
    if (runtime->plans.path == NULL) return;
    // what was no plan file at the beginning has had its warning
    if (!runtime->plans.is_foreign && save(runtime) != BERTH_OK)
        berth_log_line(BERTH_LOG_WARN, "%s", berth_last_error());
}
