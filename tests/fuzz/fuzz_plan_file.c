// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a plan file, as they are and with their checksums made right. A step
// that takes them in places its values validly, and what it writes then is a plan file again.
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

#include "../plan/plan_file_seal.h"
#include "base/host.h"
#include "plan/plan_merge.h"
#include "plan/step_model.h"

#define CONFIG "fuzz\n"

enum { RUNS = 4, FEW_VALUES = 4096 };

static void require(int condition) {
    if (!condition) abort();
}

static bool name_of(void* self, uint32_t kind, uint32_t tag, char name[BERTH_EVENT_NAME_BYTES]) {
    (void)self;
    name[0] = (char)('a' + kind % 26);
    name[1] = '\0';
    return tag == 0;
}

static bool find(void* self, const char* name, uint32_t* out_kind, uint32_t* out_tag) {
    (void)self;
    *out_kind = (uint32_t)(name[0] - 'a');
    *out_tag = 0;
    return name[0] >= 'a' && name[0] <= 'z' && name[1] == '\0';
}

/// What the step does: an op, and another that uses its result, over `t` rows.
static void record(const berth_host* host, berth_trace* trace, int64_t t) {
    berth_trace_clear(trace);
    for (uint32_t e = 0; e < 3; e++) {
        const berth_trace_event event = {.kind = e, .first_value = e, .value_count = 1};
        const berth_trace_value value = {.birth = e,
                                         .death = e < 2 ? e + 1 : e,
                                         .dims_at = 2 * e,
                                         .rank = 2,
                                         .dtype = BERTH_F32};
        require(berth_trace_event_vec_push(&trace->events, host, event) == BERTH_OK);
        require(berth_trace_value_vec_push(&trace->values, host, value) == BERTH_OK);
        require(berth_trace_dim_vec_push(&trace->dims, host, t) == BERTH_OK);
        require(berth_trace_dim_vec_push(&trace->dims, host, 32 << e) == BERTH_OK);
    }
}

/// One run: whatever placement is given is valid; the run may follow it or not.
static void run(const berth_host* host, berth_step_model* model, berth_trace* trace, int64_t t) {
    const berth_binding binding = {"t", t};
    const berth_shape_key key = {&binding, 1};
    berth_outlook outlook;
    berth_branches branches;
    if (berth_step_model_begin(model, &key, &branches, &outlook) != BERTH_OK) return;
    berth_run_report report = {
        .result = BERTH_RUN_RECORDED, .placement = outlook.placement, .branches = &branches};
    for (uint32_t i = 0; i < branches.count; i++) {
        const berth_placement* placement = branches.items[i].placement;
        if (placement->path->value_count <= FEW_VALUES)
            require(berth_placement_is_valid(placement));
        require(outlook.frame_bytes >= placement->frame_bytes);
        report.result = BERTH_RUN_EXIT;
    }
    record(host, trace, t);
    report.trace = trace;
    report.miss = outlook.miss;
    berth_step_model_end(model, &key, &report);
}

/// What was taken in and learned makes a file that can be read and merged with `file`.
static void write_again(const berth_host* host,
                        berth_step_model* model,
                        const berth_event_names* names,
                        const berth_plan_file* file) {
    berth_byte_writer section = {.host = host};
    berth_byte_writer own = {.host = host};
    berth_byte_writer merged = {.host = host};
    berth_plan_file ours = {0};
    if (berth_step_model_export(model, names, &section)) {
        berth_plan_file_begin(&own, CONFIG);
        berth_plan_file_add_section(&own, 0, section.data, section.count);
        berth_plan_file_end(&own, 0, 1);
        require(berth_plan_file_parse(&ours, host, own.data, own.count, CONFIG) == BERTH_OK);
        const berth_plan_file_limits limits = {1 << 20, 1 << 22, 4};
        require(berth_plan_file_merge(&ours, file, CONFIG, &limits, &merged) == BERTH_OK);
        berth_plan_file_fini(&ours, host);
        require(berth_plan_file_parse(&ours, host, merged.data, merged.count, CONFIG) == BERTH_OK);
    }
    berth_plan_file_fini(&ours, host);
    berth_byte_writer_fini(&section);
    berth_byte_writer_fini(&own);
    berth_byte_writer_fini(&merged);
}

static void use(const uint8_t* data, size_t size) {
    const berth_host* host = berth_host_default();
    berth_plan_file file = {0};
    if (berth_plan_file_parse(&file, host, data, size, CONFIG) != BERTH_OK) return;
    const berth_plan_policy policy = {.buckets = "geometric:4",
                                      .quantum = 64,
                                      .max_paths = 4,
                                      .max_events = 1 << 16,
                                      .cache_bytes = 1 << 20,
                                      .cache_entries = 8};
    const berth_event_names names = {NULL, name_of, find};
    berth_step_model* model;
    require(berth_step_model_create(host, "s", &policy, &model) == BERTH_OK);
    berth_step_model_set_source(model, &file, &names);
    berth_trace trace = {0};
    for (int64_t i = 0; i < RUNS; i++)
        run(host, model, &trace, 64 + i * 50);
    write_again(host, model, &names, &file);
    berth_trace_fini(&trace, host);
    berth_step_model_destroy(model);
    berth_plan_file_fini(&file, host);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    use(data, size);
    uint8_t* sealed = malloc(size + 1);
    require(sealed != NULL);
    if (size > 0) memcpy(sealed, data, size);
    file_kit_seal(sealed, size);
    use(sealed, size);
    free(sealed);
    return 0;
}
