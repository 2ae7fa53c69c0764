// SPDX-License-Identifier: Apache-2.0
// Rows for people and for programs, and runtimes for the parts.
#include <string.h>

#include "gpu/gpu_bench.h"

static void begin_row(gpu_bench* b, const char* part, const char* what) {
    printf("%-10s %-44s ", part, what);
    json_rows_begin(&b->json, "part", part);
    json_rows_text(&b->json, "what", what);
}

static void add_number(gpu_bench* b, const char* unit, double value) {
    printf("%14.4g %s", value, unit);
    json_rows_number(&b->json, "value", value);
    json_rows_text(&b->json, "unit", unit);
}

static void end_row(gpu_bench* b) {
    json_rows_end(&b->json);
    printf("\n");
    (void)fflush(stdout);
}

void gpu_report(gpu_bench* b, const char* part, const char* what, const char* unit, double value) {
    begin_row(b, part, what);
    add_number(b, unit, value);
    end_row(b);
}

static void report_goal(gpu_bench* b, double goal, const char* relation, bool is_met) {
    printf("  (goal %s %g: %s)", relation, goal, is_met ? "met" : "MISSED");
    json_rows_number(&b->json, "goal", goal);
    json_rows_bool(&b->json, "is_met", is_met);
    b->missed += !is_met;
    end_row(b);
}

void gpu_report_at_most(
    gpu_bench* b, const char* part, const char* what, const char* unit, double value, double goal) {
    begin_row(b, part, what);
    add_number(b, unit, value);
    report_goal(b, goal, "<=", value <= goal);
}

void gpu_report_at_least(
    gpu_bench* b, const char* part, const char* what, const char* unit, double value, double goal) {
    begin_row(b, part, what);
    add_number(b, unit, value);
    report_goal(b, goal, ">=", value >= goal);
}

void gpu_report_missing(gpu_bench* b, const char* part, const char* what, const char* reason) {
    begin_row(b, part, what);
    printf("%14s %s", "-", reason);
    json_rows_text(&b->json, "missing", reason);
    end_row(b);
}

void gpu_open_runtime(const berth_option_setting* settings,
                      size_t count,
                      berth_runtime** out_runtime,
                      berth_context** out_context) {
    berth_option_setting all[5] = {{"device", "cuda"}};
    for (size_t i = 0; i < count; ++i)
        all[i + 1] = settings[i];
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = all, .setting_count = count + 1};
    if (berth_runtime_create(&options, out_runtime) != BERTH_OK) bench_fail("runtime");
    if (berth_context_create(*out_runtime, out_context) != BERTH_OK) bench_fail("context");
}

void gpu_close_runtime(berth_runtime* runtime, berth_context* context) {
    berth_context_release(context);
    berth_runtime_release(runtime);
}

void gpu_fail(const berth_context* context, const char* what) {
    bench_fail_for(what, berth_context_error_text(context));
}

void gpu_wait(berth_context* context) {
    if (berth_context_synchronize(context) != BERTH_OK) bench_fail("waiting");
}
