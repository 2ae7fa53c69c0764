// SPDX-License-Identifier: Apache-2.0
// A stretch of a chat service's log served as fast as it is taken, on one budget of memory: with
// plans, from the pool, and from the system's allocator, which is measured but not held to the
// budget. The rounds of the modes take turns; each row is the round with the median speed.
//
// usage: bench-replay [--model PATH | --random] [--trace FILE] [--requests N] [--length-divide N]
//                     [--memory BYTES] [--rounds N] [--json FILE]
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kit/bench_data.h"
#include "kit/fail.h"
#include "replay_engine.h"
#include "replay_report.h"

enum { MODES = 3, MOST_ROUNDS = 15 };

static const char* const modes[MODES] = {"plan", "pool", "system"};

typedef struct options {
    llm_replay_setup setup;
    const char* trace;
    const char* json;
    long requests;
    long rounds;
} options;

static llm_replay_report reports[MODES][MOST_ROUNDS];

/// Reads a whole number from 1 to `most` or ends the program.
static long read_count(const char* option, const char* text, long most) {
    char* end;
    const long value = strtol(text, &end, 10);
    if (end != text && *end == '\0' && value >= 1 && value <= most) return value;
    fprintf(stderr,
            "bench-replay: --%s %s: expected a whole number from 1 to %ld\n",
            option,
            text,
            most);
    exit(2);
}

static options parse(int argc, char** argv, char* path, size_t path_size) {
    static const struct option known[] = {{"model", required_argument, NULL, 'm'},
                                          {"random", no_argument, NULL, 'r'},
                                          {"trace", required_argument, NULL, 't'},
                                          {"requests", required_argument, NULL, 'n'},
                                          {"length-divide", required_argument, NULL, 'd'},
                                          {"memory", required_argument, NULL, 'b'},
                                          {"rounds", required_argument, NULL, 'k'},
                                          {"json", required_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    options o = {
        .setup = {.memory = "256M", .kv_dtype = BERTH_F32, .replay = {.divide = 14, .tenants = 1}},
        .requests = 64,
        .rounds = 3};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'm':
            o.setup.model_path = optarg;
            break;
        case 'r':
            o.setup.model_path = NULL;
            break;
        case 't':
            o.trace = optarg;
            break;
        case 'n':
            o.requests = read_count("requests", optarg, 10000000);
            break;
        case 'd':
            o.setup.replay.divide = read_count("length-divide", optarg, 1000000);
            break;
        case 'b':
            o.setup.memory = optarg;
            break;
        case 'k':
            o.rounds = read_count("rounds", optarg, MOST_ROUNDS);
            break;
        case 'j':
            o.json = optarg;
            break;
        default:
            exit(2);
        }
    }
    if (o.trace == NULL) o.trace = bench_shared_data("traces/azure2023_conv.csv", path, path_size);
    return o;
}

static int by_speed(const void* a, const void* b) {
    const double left = llm_replay_speed(a);
    const double right = llm_replay_speed(b);
    return (left > right) - (left < right);
}

static void run_rounds(const options* o) {
    llm_error error;
    for (long round = 0; round < o->rounds; round++)
        for (int mode = 0; mode < MODES; mode++)
            if (llm_replay_in_mode(&o->setup, modes[mode], &reports[mode][round], &error) !=
                BERTH_OK)
                bench_fail_for(modes[mode], error.text);
    for (int mode = 0; mode < MODES; mode++)
        qsort(reports[mode], (size_t)o->rounds, sizeof *reports[mode], by_speed);
}

static void write_rows(const char* path, const llm_replay_report* rows) {
    FILE* file = fopen(path, "w");
    if (file == NULL) bench_fail_for(path, "cannot be written");
    for (int mode = 0; mode < MODES; mode++) {
        const llm_replay_report* r = &rows[mode];
        fprintf(file,
                "%s  {\"mode\": \"%s\", \"tok_s\": %.3f, \"ttft_p50_ms\": %.3f, "
                "\"ttft_p99_ms\": %.3f, \"tpot_p50_ms\": %.3f, \"peak_bytes\": %" PRIu64
                ", \"hit_rate\": %.6f, \"coverage\": %.6f}",
                mode == 0 ? "[\n" : ",\n",
                modes[mode],
                llm_replay_speed(r),
                r->first.p50_ms,
                r->first.p99_ms,
                r->token.p50_ms,
                r->peak_bytes,
                llm_replay_hit_ratio(r),
                llm_replay_coverage(r));
    }
    fprintf(file, "\n]\n");
    const bool is_written = ferror(file) == 0;
    if (fclose(file) != 0 || !is_written) bench_fail_for(path, "cannot be written");
}

int main(int argc, char** argv) {
    char path[4096];
    options o = parse(argc, argv, path, sizeof path);
    llm_error error;
    llm_request_trace trace;
    if (llm_request_trace_read(o.trace, &trace, &error) != BERTH_OK)
        bench_fail_for("the trace", error.text);
    o.setup.replay.trace = &trace;
    o.setup.replay.row_count =
        (size_t)o.requests < trace.row_count ? (size_t)o.requests : trace.row_count;
    run_rounds(&o);
    static llm_replay_report rows[MODES];
    for (int mode = 0; mode < MODES; mode++)
        rows[mode] = reports[mode][o.rounds / 2];
    printf("%zu requests, lengths divided by %" PRId64 ", %s of memory, median of %ld\n",
           o.setup.replay.row_count,
           o.setup.replay.divide,
           o.setup.memory,
           o.rounds);
    llm_replay_report_print_compared(stdout, rows, modes, MODES);
    if (o.json != NULL) write_rows(o.json, rows);
    llm_request_trace_fini(&trace);
    return 0;
}
