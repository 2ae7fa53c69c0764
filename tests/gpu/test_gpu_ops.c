// SPDX-License-Identifier: Apache-2.0
// Every op on the GPU against the CPU: random programs, whose shapes and strides are anything, and
// the calls of bench-ops, whose operands are larger. Skipped where there is no GPU.
//
// usage: test_gpu_ops [--device cuda|hidden|sim] [--programs N] [--sizes BYTES,...] [--table]
//        [--json FILE]
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec_impl.h"
#include "gpu/gpu_shadow.h"
#include "kit/json_rows.h"
#include "kit/program.h"
#include "kit/test.h"
#include "ops/op_cases.h"

enum { RUNS = 6, SKIPPED = 77 };

static uint64_t program_count = 40;
static const char* device = "cuda";
static const char* sizes = "1024,37000";
static bool prints_table;

// --- Programs ------------------------------------------------------------------------------------

static void random_calls_of_every_op_agree_with_the_cpu(void** state) {
    (void)state;
    program_set_watcher(gpu_shadow_watch);
    for (uint64_t seed = 1; seed <= program_count && gpu_shadow_failure()[0] == '\0'; ++seed) {
        const program_result result = program_run(seed, RUNS, &program_reference);
        if (result.failure[0] != '\0') fail_msg("program %u: %s", (unsigned)seed, result.failure);
    }
    program_set_watcher(NULL);
    if (gpu_shadow_failure()[0] != '\0') fail_msg("%s", gpu_shadow_failure());
}

// --- Larger operands -----------------------------------------------------------------------------

/// Runs all calls of a type and size.
static void run_cases(berth_context* ctx, berth_dtype dtype, int64_t bytes) {
    bench_data data;
    if (!bench_data_make(&data, ctx, dtype, bytes))
        fail_msg("operands: %s", berth_context_error_text(ctx));
    for (size_t i = 0; i < bench_case_count; ++i) {
        const bench_case* at = &bench_cases[i];
        if ((at->dtypes >> dtype & 1u) == 0) continue;
        berth_tensor* more[2] = {NULL, NULL};
        berth_tensor* result = at->run(&data, more);
        if (result == NULL) fail_msg("%s: %s", at->op, berth_context_error_text(ctx));
        berth_release_all(result, more[0], more[1]);
    }
    bench_data_free(&data);
}

static void calls_with_larger_operands_agree_with_the_cpu(void** state) {
    (void)state;
    berth_runtime* runtime;
    berth_context* ctx;
    const berth_runtime_options options = {.struct_size = sizeof options};
    assert_ok(berth_runtime_create(&options, &runtime));
    gpu_shadow_watch(runtime);
    assert_ok(berth_context_create(runtime, &ctx));
    const char* at = sizes;
    while (*at != '\0') {
        char* end;
        const int64_t bytes = strtoll(at, &end, 10);
        if (end == at || bytes < 64) fail_msg("'%s' is no list of sizes", sizes);
        for (berth_dtype dtype = BERTH_F32; dtype <= BERTH_BOOL; ++dtype)
            run_cases(ctx, dtype, bytes / 16 * 16);
        at = *end == ',' ? end + 1 : end;
    }
    berth_context_release(ctx);
    berth_runtime_release(runtime);
    if (gpu_shadow_failure()[0] != '\0') fail_msg("%s", gpu_shadow_failure());
}

// --- What was found ------------------------------------------------------------------------------

static bool is_wrong(berth_op_id op) {
    const gpu_shadow_record* record = &gpu_shadow_records()[op];
    return op != BERTH_OP_NOOP &&
           (record->failures > 0 || record->refusals > 0 || record->calls == 0);
}

static void print_record(berth_op_id op) {
    const gpu_shadow_record* record = &gpu_shadow_records()[op];
    const char* verdict = record->failures > 0   ? "WRONG"
                          : record->calls == 0   ? "NOT RUN"
                          : record->refusals > 0 ? "REFUSED"
                                                 : "agrees";
    print_message("%-16s %8llu calls, worst %6.3f of what is allowed  %-8s%s%s\n",
                  gpu_shadow_op_name(op),
                  (unsigned long long)record->calls,
                  record->worst,
                  verdict,
                  is_wrong(op) ? " " : "",
                  is_wrong(op) ? record->where : "");
}

static void every_op_was_run_and_none_differed_by_more_than_is_allowed(void** state) {
    (void)state;
    int wrong = 0;
    for (int op = 0; op < BERTH_OP_COUNT; ++op) {
        if (op == BERTH_OP_NOOP) continue;
        if (prints_table || is_wrong((berth_op_id)op)) print_record((berth_op_id)op);
        wrong += is_wrong((berth_op_id)op);
    }
    if (wrong > 0) fail_msg("%d ops are wrong, refused or not run", wrong);
}

static void write_json(const char* path) {
    json_rows rows = json_rows_open(path);
    for (int op = 0; op < BERTH_OP_COUNT; ++op) {
        const gpu_shadow_record* record = &gpu_shadow_records()[op];
        json_rows_begin(&rows, "op", gpu_shadow_op_name((berth_op_id)op));
        json_rows_count(&rows, "calls", record->calls);
        json_rows_count(&rows, "failures", record->failures);
        json_rows_count(&rows, "refusals", record->refusals);
        json_rows_number(&rows, "worst_share_of_tolerance", record->worst);
        char where[sizeof record->where];
        memcpy(where, record->where, sizeof where);
        for (char* quote; (quote = strpbrk(where, "\"\\\n")) != NULL;)
            *quote = '\'';
        json_rows_text(&rows, "worst_call", where);
        json_rows_end(&rows);
    }
    json_rows_close(&rows);
}

int main(int count, char** arguments) {
    static const struct option known[] = {{"device", required_argument, NULL, 'd'},
                                          {"programs", required_argument, NULL, 'p'},
                                          {"sizes", required_argument, NULL, 's'},
                                          {"table", no_argument, NULL, 't'},
                                          {"json", required_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    const char* json = NULL;
    for (int option; (option = getopt_long(count, arguments, "", known, NULL)) != -1;) {
        if (option == 'd')
            device = optarg;
        else if (option == 'p')
            program_count = strtoull(optarg, NULL, 10);
        else if (option == 's')
            sizes = optarg;
        else if (option == 't')
            prints_table = true;
        else if (option == 'j')
            json = optarg;
        else
            return 2;
    }
    if (!gpu_shadow_open(device)) {
        print_message("skipped: %s\n", berth_last_error());
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_calls_of_every_op_agree_with_the_cpu),
        cmocka_unit_test(calls_with_larger_operands_agree_with_the_cpu),
        cmocka_unit_test(every_op_was_run_and_none_differed_by_more_than_is_allowed),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    write_json(json);
    gpu_shadow_close();
    return failed == 0 ? 0 : 1;
}
