// SPDX-License-Identifier: Apache-2.0
// How tight packings are and what they cost: public problems in three tiers of effort on one
// thread, without a capacity being told, and the cheapest order alone as problems grow.
//
// usage: bench-pack [--json FILE] [--only NAME|growth] [--tier NAME] [--seconds N] [--data FOLDER]
//                   [FILE...]
// With FILEs, packing problems as CSV, these are packed instead of the public ones.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/host.h"
#include "berth/pack.h"
#include "berth/trace.h"
#include "kit/bench_data.h"
#include "kit/fail.h"
#include "kit/json_rows.h"
#include "kit/median.h"
#include "plan/packing.h"
#include "plan/packing_random.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define ROUNDS 5
/// Problems of fewer buffers are packed more often: a millisecond is easily disturbed.
#define SMALL 2000u
#define SMALL_ROUNDS 25

/// What a public problem is held against.
typedef enum group {
    GROUP_TIGHT, ///< MiniMalloc's whose bound is known to be reachable
    GROUP_OPEN,  ///< MiniMalloc's whose optimum nobody knows
    GROUP_OTHER,
} group;

typedef struct bench_problem {
    const char* file; ///< below the folder of data, or as given
    const char* name;
    group group;
    double improve_s; ///< budget of the third tier
} bench_problem;

static const bench_problem public_problems[] = {
    {"minimalloc/challenging/A.1048576.csv", "A.1048576", GROUP_TIGHT, 2},
    {"minimalloc/challenging/B.1048576.csv", "B.1048576", GROUP_TIGHT, 2},
    {"minimalloc/challenging/C.1048576.csv", "C.1048576", GROUP_TIGHT, 2},
    {"minimalloc/challenging/D.1048576.csv", "D.1048576", GROUP_OPEN, 10},
    {"minimalloc/challenging/E.1048576.csv", "E.1048576", GROUP_TIGHT, 2},
    {"minimalloc/challenging/F.1048576.csv", "F.1048576", GROUP_TIGHT, 2},
    {"minimalloc/challenging/G.1048576.csv", "G.1048576", GROUP_TIGHT, 2},
    {"minimalloc/challenging/H.1048576.csv", "H.1048576", GROUP_TIGHT, 2},
    {"minimalloc/challenging/I.1048576.csv", "I.1048576", GROUP_TIGHT, 2},
    {"minimalloc/challenging/J.1048576.csv", "J.1048576", GROUP_OPEN, 10},
    {"minimalloc/challenging/K.1048576.csv", "K.1048576", GROUP_TIGHT, 2},
    {"minimalloc/examples/input.12.csv", "input.12", GROUP_OTHER, 2},
    {"packing-somas/resnet50.csv", "resnet50", GROUP_OTHER, 2},
    {"packing-iopddl/G_1.csv", "G_1", GROUP_OTHER, 2},
    {"packing-iopddl/S_1.csv", "S_1", GROUP_OTHER, 1},
};

typedef enum tier { TIER_QUICK, TIER_QUICK50, TIER_IMPROVE, TIERS } tier;
static const char* const tier_names[TIERS] = {"quick", "quick50", "improve"};

typedef struct row {
    bool there;
    size_t buffers;
    berth_pack_result result;
    double cpu_s;
} row;

typedef struct bench_options {
    const char* json;
    const char* only;
    const char* tier;
    const char* data; ///< folder; NULL: that of shared data
    double seconds;   ///< budget of the third tier; 0: each problem's own
    char** files;     ///< [file_count]; none: the public problems
    size_t file_count;
} bench_options;

/// All that is packed and how that went.
typedef struct bench_run {
    bench_problem* problems; ///< [count]
    row (*rows)[TIERS];      ///< [count]
    size_t count;
} bench_run;

static void* checked_realloc(void* block, size_t bytes) {
    void* memory = realloc(block, bytes);
    if (memory == NULL) bench_fail_for("buffers", "no memory");
    return memory;
}

/// The file's name without folder and last suffix.
static char* name_of(const char* path) {
    const char* slash = strrchr(path, '/');
    const char* begin = slash != NULL ? slash + 1 : path;
    const char* dot = strrchr(begin, '.');
    const size_t length = dot != NULL ? (size_t)(dot - begin) : strlen(begin);
    char* name = checked_realloc(NULL, length + 1);
    memcpy(name, begin, length);
    name[length] = '\0';
    return name;
}

static void check(const berth_pack_problem* problem,
                  const uint64_t* offsets,
                  const berth_pack_result* result,
                  const char* name) {
    berth_pack_verdict verdict;
    if (berth_pack_verify(problem, offsets, &verdict) != BERTH_OK) bench_fail(name);
    if (!verdict.valid || verdict.peak != result->peak)
        bench_fail_for(name, "the packing is not valid");
}

/// Packs once, or for the first tier as often as its median needs.
static void measure(const berth_pack_problem* problem,
                    const berth_pack_options* options,
                    const char* name,
                    row* out_row) {
    uint64_t* offsets = checked_realloc(NULL, (problem->count + 1) * sizeof *offsets);
    double samples[SMALL_ROUNDS];
    const int rounds = options != NULL ? 1 : problem->count < SMALL ? SMALL_ROUNDS : ROUNDS;
    for (int k = 0; k < rounds; k++) {
        const uint64_t begin = berth_clock_thread_ns();
        if (berth_pack(problem, options, offsets, &out_row->result) != BERTH_OK) bench_fail(name);
        samples[k] = (double)(berth_clock_thread_ns() - begin) * 1e-9;
    }
    check(problem, offsets, &out_row->result, name);
    out_row->there = true;
    out_row->buffers = problem->count;
    out_row->cpu_s = bench_median(samples, rounds);
    free(offsets);
}

static void print_row(const char* name, tier at, const row* r) {
    const double bound = (double)r->result.lower_bound;
    printf("%-10s %-8s %7zu %14llu %14llu %8.5f %-6s %10.6f %13llu %12llu\n",
           name,
           tier_names[at],
           r->buffers,
           (unsigned long long)r->result.lower_bound,
           (unsigned long long)r->result.peak,
           bound > 0 ? (double)r->result.peak / bound : 1.0,
           r->result.proved ? "proved" : "",
           r->cpu_s,
           (unsigned long long)r->result.reuse_distance,
           (unsigned long long)r->result.steps);
    fflush(stdout);
}

static void run_problem(const bench_problem* p, const bench_options* options, row* rows) {
    char path[1024];
    if (options->file_count > 0)
        snprintf(path, sizeof path, "%s", p->file);
    else if (options->data != NULL)
        snprintf(path, sizeof path, "%s/%s", options->data, p->file);
    else
        bench_shared_data(p->file, path, sizeof path);
    berth_trace_file* file;
    berth_problem* loaded;
    if (berth_trace_file_read(path, &file) != BERTH_OK ||
        berth_problem_create(file, 0, NULL, 0, &loaded) != BERTH_OK)
        bench_fail(p->name);
    const berth_pack_problem* problem = berth_problem_query_pack(loaded);
    const double seconds = options->seconds > 0 ? options->seconds : p->improve_s;
    const berth_pack_options budgets[TIERS] = {
        [TIER_QUICK50] = {.budget_ns = UINT64_C(50000000)},
        [TIER_IMPROVE] = {.budget_ns = (uint64_t)(seconds * 1e9)},
    };
    for (int at = 0; at < TIERS; at++) {
        if (options->tier != NULL && strcmp(options->tier, tier_names[at]) != 0) continue;
        measure(problem, at == TIER_QUICK ? NULL : &budgets[at], p->name, &rows[at]);
        print_row(p->name, (tier)at, &rows[at]);
    }
    berth_problem_destroy(loaded);
    berth_trace_file_destroy(file);
}

static void summarise(const bench_run* run) {
    printf("\n");
    for (int at = 0; at < TIERS; at++) {
        double logs = 0, tight_s = 0, slowest_s = 0;
        int eleven = 0, tight = 0, proved = 0;
        for (size_t k = 0; k < run->count; k++) {
            const row* r = &run->rows[k][at];
            if (!r->there || run->problems[k].group == GROUP_OTHER) continue;
            logs += log((double)r->result.peak / (double)r->result.lower_bound);
            eleven++;
            if (run->problems[k].group != GROUP_TIGHT) continue;
            tight++;
            proved += r->result.proved;
            tight_s += r->cpu_s;
            if (r->cpu_s > slowest_s) slowest_s = r->cpu_s;
        }
        if (eleven == 0) continue;
        printf(
            "%-8s MiniMalloc: geometric mean of peak / bound over %d: %.4f; of %d whose bound is "
            "reachable %d proved, %.4f CPU s in all, %.4f at most\n",
            tier_names[at],
            eleven,
            exp(logs / eleven),
            tight,
            proved,
            tight_s,
            slowest_s);
    }
}

static void write_json(const char* path, const bench_run* run) {
    json_rows out = json_rows_open(path);
    for (size_t k = 0; k < run->count; k++)
        for (int at = 0; at < TIERS; at++) {
            const row* r = &run->rows[k][at];
            if (!r->there) continue;
            json_rows_begin(&out, "problem", run->problems[k].name);
            json_rows_count(&out, "buffers", r->buffers);
            json_rows_count(&out, "lower_bound", r->result.lower_bound);
            json_rows_count(&out, "peak", r->result.peak);
            json_rows_bool(&out, "proved", r->result.proved);
            json_rows_number(&out, "cpu_s", r->cpu_s);
            json_rows_text(&out, "tier", tier_names[at]);
            json_rows_end(&out);
        }
    json_rows_close(&out);
}

// ---- Growth.

/// `count` values, about `alive` of which live at a time, with sizes over six octaves.
static double cheapest_order(size_t count, size_t alive) {
    berth_interval* items = checked_realloc(NULL, count * sizeof *items);
    uint64_t* offsets = checked_realloc(NULL, count * sizeof *offsets);
    uint64_t random = count;
    for (size_t i = 0; i < count; i++) {
        const uint32_t life = 1 + (uint32_t)berth_packing_random_below(&random, 2 * alive);
        const uint64_t size = (64 + berth_packing_random_below(&random, 64))
                              << berth_packing_random_below(&random, 6);
        items[i] = (berth_interval){size, (uint32_t)i, (uint32_t)i + life};
    }
    const berth_pack_problem problem = {.intervals = items, .count = count};
    double samples[ROUNDS];
    for (int k = 0; k < ROUNDS; k++) {
        berth_pack_result result;
        const uint64_t begin = berth_clock_thread_ns();
        if (berth_packing_solve_order(
                berth_host_default(), &problem, BERTH_PACKING_ONLINE_RECENT, offsets, &result) !=
            BERTH_OK)
            bench_fail("random values");
        samples[k] = (double)(berth_clock_thread_ns() - begin) * 1e-9;
    }
    free(items);
    free(offsets);
    return bench_median(samples, ROUNDS);
}

static void print_growth(void) {
    printf("\nthe cheapest order alone, CPU microseconds a value (CPU s in all)\n%9s", "values");
    static const char* const columns[] = {"16 alive", "256 alive", "4096 alive", "a tenth alive"};
    for (size_t k = 0; k < COUNT(columns); k++)
        printf(" %22s", columns[k]);
    printf("\n");
    for (size_t count = 100; count <= 1000000; count *= 10) {
        printf("%9zu", count);
        const size_t alive[] = {16, 256, 4096, count / 10};
        for (size_t k = 0; k < COUNT(columns); k++) {
            if (alive[k] > count) {
                printf(" %22s", "-");
                continue;
            }
            const double cpu_s = cheapest_order(count, alive[k]);
            printf("    %8.4f (%8.6f)", cpu_s * 1e6 / (double)count, cpu_s);
        }
        printf("\n");
    }
}

static bool parse(int count, char** arguments, bench_options* options) {
    int i = 1;
    for (; i < count && strncmp(arguments[i], "--", 2) == 0; i += 2) {
        if (i + 1 >= count) return false;
        const char* value = arguments[i + 1];
        if (strcmp(arguments[i], "--json") == 0) {
            options->json = value;
        } else if (strcmp(arguments[i], "--only") == 0) {
            options->only = value;
        } else if (strcmp(arguments[i], "--tier") == 0) {
            options->tier = value;
        } else if (strcmp(arguments[i], "--data") == 0) {
            options->data = value;
        } else if (strcmp(arguments[i], "--seconds") == 0) {
            options->seconds = strtod(value, NULL);
        } else {
            return false;
        }
    }
    options->files = arguments + i;
    options->file_count = (size_t)(count - i);
    return options->seconds >= 0;
}

/// The public problems, or those of the files that were given.
static bench_run prepare(const bench_options* options) {
    const size_t count = options->file_count > 0 ? options->file_count : COUNT(public_problems);
    bench_run run = {.count = count};
    run.problems = checked_realloc(NULL, count * sizeof *run.problems);
    run.rows = checked_realloc(NULL, count * sizeof *run.rows);
    memset(run.rows, 0, count * sizeof *run.rows);
    if (options->file_count == 0) memcpy(run.problems, public_problems, sizeof public_problems);
    for (size_t k = 0; k < options->file_count; k++)
        run.problems[k] =
            (bench_problem){options->files[k], name_of(options->files[k]), GROUP_OTHER, 2};
    return run;
}

int main(int argument_count, char** arguments) {
    bench_options options = {.seconds = 0};
    if (!parse(argument_count, arguments, &options)) {
        fprintf(stderr,
                "usage: bench-pack [--json FILE] [--only NAME|growth] [--tier NAME] [--seconds N] "
                "[--data FOLDER] [FILE...]\n");
        return 2;
    }
    const bench_run run = prepare(&options);
    printf("%-10s %-8s %7s %14s %14s %8s %-6s %10s %13s %12s\n",
           "problem",
           "tier",
           "buffers",
           "lower bound",
           "peak",
           "ratio",
           "",
           "CPU s",
           "reuse bytes",
           "steps");
    for (size_t k = 0; k < run.count; k++)
        if (options.only == NULL || strcmp(options.only, run.problems[k].name) == 0)
            run_problem(&run.problems[k], &options, run.rows[k]);
    summarise(&run);
    const bool all = options.only == NULL && options.tier == NULL && options.file_count == 0;
    if (all || (options.only != NULL && strcmp(options.only, "growth") == 0)) print_growth();
    write_json(options.json, &run);
    return 0;
}
