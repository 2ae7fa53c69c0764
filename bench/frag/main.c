// SPDX-License-Identifier: Apache-2.0
// How dense memory stays, whatever is asked of it: tapes of requests (a-... a server's sequences,
// b-... recorded programs, c-... made to break memory into pieces) played to Berth's pool with and
// without compaction and to other allocators.
//
// usage: bench-frag [--json FILE] [--only TEXT] [--policy NAME] [--device sim|cpu|both]
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frag/replay_tape.h"
#include "kit/fail.h"
#include "kit/json_rows.h"

#define MOST_ROWS 256
/// Tapes with larger peaks are not played on the CPU, whose memory is real.
#define CPU_PEAK_BYTES (2048 * TAPE_MIB)

static const tape_pattern* const groups[] = {
    tape_sequence_patterns, tape_replay_patterns, tape_adversarial_patterns};
static const policy_ops* const policies[] = {
    &policy_pool,
    &policy_pool_compact,
    &policy_torch,
    &policy_torch_expandable,
#if BERTH_HOST_JEMALLOC
    &policy_jemalloc,
    &policy_jemalloc_at_once,
#endif
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef struct bench_options {
    const char* json;
    const char* only;
    const char* policy;
    bool on_sim, on_cpu;
} bench_options;

typedef struct report {
    replay_row rows[MOST_ROWS];
    size_t count;
} report;

static void print_number(int width, int digits, double value) {
    if (isnan(value))
        printf(" %*s", width, "-");
    else
        printf(" %*.*f", width, digits, value);
}

static void print_head(void) {
    printf("reserved / live: with room for everything, what is free given back at each step's end "
           "or before; the rest: on a device that is full to 95 %%\n");
    printf("%-22s %-4s %-16s %8s %8s %9s %7s %7s %8s %8s %8s %8s %7s\n",
           "pattern",
           "on",
           "policy",
           "peak",
           "mean",
           "unusable",
           "failed",
           "needless",
           "moved",
           "remapped",
           "/ least",
           "p99 us",
           "CPU s");
}

static void print_row(const replay_row* row, bool on_device) {
    printf("%-22s %-4s %-16s",
           row->pattern,
           !on_device                  ? "-"
           : row->device == POLICY_CPU ? "cpu"
                                       : "sim",
           row->policy);
    print_number(8, 3, row->peak_reserved_over_live);
    print_number(8, 3, row->mean_reserved_over_live);
    print_number(7, 2, 100 * row->unusable_free_share);
    printf(" %%");
    print_number(7, 0, row->failed);
    print_number(8, 0, row->failed_though_enough_free);
    print_number(8, 4, row->moved_over_allocated);
    print_number(8, 3, row->remapped_over_allocated);
    print_number(8, 3, row->moved_over_least);
    print_number(8, 1, row->slice_p99_us);
    print_number(7, 2, row->seconds);
    printf("\n");
    fflush(stdout);
}

static void write_json(const char* path, const report* r) {
    json_rows out = json_rows_open(path);
    for (size_t i = 0; i < r->count; i++) {
        const replay_row* row = &r->rows[i];
        char pattern[64];
        snprintf(pattern,
                 sizeof pattern,
                 "%s%s",
                 row->pattern,
                 row->device == POLICY_CPU ? "-on-cpu" : "");
        json_rows_begin(&out, "pattern", pattern);
        json_rows_text(&out, "policy", row->policy);
        json_rows_number(&out, "peak_reserved_over_live", row->peak_reserved_over_live);
        json_rows_number(&out, "mean_reserved_over_live", row->mean_reserved_over_live);
        json_rows_number(&out, "unusable_free_share", row->unusable_free_share);
        json_rows_number(&out, "failed_though_enough_free", row->failed_though_enough_free);
        json_rows_number(&out, "moved_over_allocated", row->moved_over_allocated);
        json_rows_number(&out, "remapped_over_allocated", row->remapped_over_allocated);
        json_rows_number(&out, "moved_over_least", row->moved_over_least);
        json_rows_number(&out, "slice_p99_us", row->slice_p99_us);
        json_rows_end(&out);
    }
    json_rows_close(&out);
}

static void run_policy(const tape* t, const policy_ops* ops, policy_device device, report* r) {
    if (r->count == MOST_ROWS) bench_fail_for(t->name, "too many rows");
    r->rows[r->count] = replay_tape(t, ops, device);
    print_row(&r->rows[r->count++], ops->is_on_device);
}

static void run_pattern(const tape_pattern* pattern, const bench_options* options, report* r) {
    tape t = pattern->make(pattern->name);
    for (size_t i = 0; i < COUNT(policies); i++) {
        const policy_ops* ops = policies[i];
        if (options->policy != NULL && strcmp(options->policy, ops->name) != 0) continue;
        if (options->on_sim || !ops->is_on_device) run_policy(&t, ops, POLICY_SIM, r);
        if (options->on_cpu && ops->is_on_device && t.peak_bytes <= CPU_PEAK_BYTES)
            run_policy(&t, ops, POLICY_CPU, r);
    }
    tape_free(&t);
}

static bool parse(int count, char** arguments, bench_options* options) {
    for (int i = 1; i < count; i += 2) {
        if (i + 1 >= count) return false;
        const char* value = arguments[i + 1];
        if (strcmp(arguments[i], "--json") == 0) {
            options->json = value;
        } else if (strcmp(arguments[i], "--only") == 0) {
            options->only = value;
        } else if (strcmp(arguments[i], "--policy") == 0) {
            options->policy = value;
        } else if (strcmp(arguments[i], "--device") == 0) {
            options->on_sim = strcmp(value, "cpu") != 0;
            options->on_cpu = strcmp(value, "sim") != 0;
        } else {
            return false;
        }
    }
    return true;
}

int main(int count, char** arguments) {
    bench_options options = {.on_sim = true, .on_cpu = true};
    if (!parse(count, arguments, &options)) {
        fprintf(stderr,
                "usage: bench-frag [--json FILE] [--only TEXT] [--policy NAME] "
                "[--device sim|cpu|both]\n");
        return 2;
    }
    static report r;
    print_head();
    for (size_t group = 0; group < COUNT(groups); group++)
        for (const tape_pattern* pattern = groups[group]; pattern->name != NULL; pattern++)
            if (options.only == NULL || strstr(pattern->name, options.only) != NULL)
                run_pattern(pattern, &options, &r);
    write_json(options.json, &r);
    return 0;
}
