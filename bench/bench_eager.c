// SPDX-License-Identifier: Apache-2.0
// Size models from recorded traces of one program at two lengths: how many sizes they predict, and
// how well the predicted step is packed at lengths that were never seen.
// usage: bench-eager [FILE_A VALUE_A FILE_B VALUE_B [FILE_C VALUE_C]] [--json FILE]
//
// Without files: torch_infer_ctx128 and ctx1024 of the folder of recorded traces, evaluated also at
// 256 and 512, checked against ctx512 (another version of the program, so only in part the same),
// and every other trace there packed alone.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "berth/trace.h"
#include "kit/bench_data.h"
#include "kit/fail.h"
#include "kit/json_rows.h"
#include "plan/byte_form.h"

#define NONE SIZE_MAX
/// CPU time that a trace may take.
#define BUDGET_NS UINT64_C(10000000000)
#define OPS_MAX 1024

/// A recorded trace.
typedef struct recording {
    const char* path;
    uint64_t length; ///< of the run
    berth_trace_file* file;
    berth_problem* problem;
    berth_problem_row* rows; ///< [count]
    size_t count;
    char (*ops)[64]; ///< [OPS_MAX] op of each site, "" where none is known
} recording;

/// What the pair of traces tells of a buffer.
typedef struct prediction {
    berth_byte_form_set forms;
    bool predictable;
} prediction;

/// One line of the table.
typedef struct row {
    char name[256];
    size_t buffers;
    size_t predictable; ///< buffers of which a size is predicted
    size_t predicted;   ///< of these, as many as were recorded so, or all where nothing was
    berth_pack_result result;
    double cpu_s;
} row;

typedef struct bench {
    json_rows json;
} bench;

static void* zeroed(size_t count, size_t bytes) {
    void* block = calloc(count + 1, bytes);
    if (block == NULL) bench_fail_for("memory", "there is none");
    return block;
}

// ---- Recordings.

/// Reads the names of ops beside a trace: lines "site,op" of NAME.sites.csv.
static void read_ops(recording* self) {
    char path[1024];
    char line[256];
    const size_t stem = strlen(self->path) > 4 ? strlen(self->path) - 4 : 0;
    snprintf(path, sizeof path, "%.*s.sites.csv", (int)stem, self->path);
    FILE* file = fopen(path, "r");
    if (file == NULL) return;
    while (fgets(line, sizeof line, file) != NULL) {
        char* comma = strchr(line, ',');
        char* end;
        const unsigned long site = strtoul(line, &end, 10);
        if (comma == NULL || end != comma || site >= OPS_MAX) continue;
        comma[1 + strcspn(comma + 1, "\r\n")] = '\0';
        snprintf(self->ops[site], sizeof self->ops[site], "%s", comma + 1);
    }
    fclose(file);
}

static recording open_recording(const char* path, uint64_t length) {
    recording self = {.path = path, .length = length};
    if (berth_trace_file_read(path, &self.file) != BERTH_OK ||
        berth_problem_create(self.file, 0, NULL, 0, &self.problem) != BERTH_OK)
        bench_fail(path);
    self.count = berth_problem_query_pack(self.problem)->count;
    self.rows = zeroed(self.count, sizeof *self.rows);
    for (size_t i = 0; i < self.count; i++)
        if (berth_problem_query_row(self.problem, i, &self.rows[i]) != BERTH_OK) bench_fail(path);
    self.ops = zeroed(OPS_MAX, sizeof *self.ops);
    read_ops(&self);
    return self;
}

static void close_recording(recording* self) {
    berth_problem_destroy(self->problem);
    berth_trace_file_destroy(self->file);
    free(self->rows);
    free(self->ops);
}

// ---- Matching.

static bool same_event(const berth_problem_row* a, const berth_problem_row* b) {
    return a->lower == b->lower && a->upper == b->upper && a->site == b->site &&
           a->escapes == b->escapes && strcmp(a->id, b->id) == 0;
}

/// True if both are the same, event for event.
static bool same_events(const recording* a, const recording* b) {
    bool same = a->count == b->count;
    for (size_t i = 0; i < a->count && same; i++)
        same = same_event(&a->rows[i], &b->rows[i]);
    return same;
}

/// True if two allocations may be one and the same in two versions of a program.
static bool same_op(const recording* a, size_t i, const recording* b, size_t k) {
    const int64_t x = a->rows[i].site, y = b->rows[k].site;
    if (x < 0 || y < 0 || x >= OPS_MAX || y >= OPS_MAX) return x == y;
    if (a->ops[x][0] == '\0' || b->ops[y][0] == '\0') return x == y;
    return strcmp(a->ops[x], b->ops[y]) == 0 && a->rows[i].escapes == b->rows[k].escapes;
}

/// Matches allocations of `b` with those of `a`: out[k] is the one of `a`, or NONE. Where the two
/// differ, the longest common sequence of ops is taken, whatever the sizes.
static void match(const recording* a, const recording* b, size_t* out) {
    const bool same = same_events(a, b);
    for (size_t k = 0; k < b->count; k++)
        out[k] = same ? k : NONE;
    if (same) return;
    const size_t width = b->count + 1;
    uint16_t* longest = zeroed((a->count + 1) * width, sizeof *longest);
    for (size_t i = a->count; i-- > 0;)
        for (size_t k = b->count; k-- > 0;) {
            const uint16_t skip_a = longest[(i + 1) * width + k];
            const uint16_t skip_b = longest[i * width + k + 1];
            const uint16_t skip = skip_a > skip_b ? skip_a : skip_b;
            const uint16_t take = (uint16_t)(longest[(i + 1) * width + k + 1] + 1);
            longest[i * width + k] = same_op(a, i, b, k) && take > skip ? take : skip;
        }
    for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
        const uint16_t here = longest[i * width + k];
        if (same_op(a, i, b, k) && here == longest[(i + 1) * width + k + 1] + 1)
            out[k++] = i++;
        else if (here == longest[(i + 1) * width + k])
            i++;
        else
            k++;
    }
    free(longest);
}

/// Forms of the sizes of `a`, from both.
static prediction* predict(const recording* a, const recording* b) {
    prediction* all = zeroed(a->count, sizeof *all);
    size_t* of = zeroed(b->count, sizeof *of);
    match(a, b, of);
    for (size_t k = 0; k < b->count; k++) {
        if (of[k] == NONE) continue;
        const berth_byte_sample seen[] = {{a->length, a->rows[of[k]].size},
                                          {b->length, b->rows[k].size}};
        prediction* own = &all[of[k]];
        berth_byte_form_set_fit(&own->forms, seen, 2);
        own->predictable = own->forms.count > 0;
    }
    free(of);
    return all;
}

// ---- Packing.

static void pack(row* out, const berth_pack_problem* problem) {
    const berth_pack_options options = {.budget_ns = BUDGET_NS * 9 / 10};
    uint64_t* offsets = zeroed(problem->count, sizeof *offsets);
    berth_pack_verdict verdict;
    const uint64_t begin = berth_clock_thread_ns();
    if (berth_pack(problem, &options, offsets, &out->result) != BERTH_OK) bench_fail(out->name);
    out->cpu_s = (double)(berth_clock_thread_ns() - begin) * 1e-9;
    if (berth_pack_verify(problem, offsets, &verdict) != BERTH_OK || !verdict.valid)
        bench_fail_for(out->name, "the packing is not valid");
    out->buffers = problem->count;
    free(offsets);
}

/// The step of `a` at `length`, with sizes as predicted; those that are not stay as recorded.
static void evaluate(row* out, const recording* a, const prediction* all, uint64_t length) {
    berth_pack_problem problem = *berth_problem_query_pack(a->problem);
    berth_interval* intervals = zeroed(a->count, sizeof *intervals);
    for (size_t i = 0; i < a->count; i++) {
        intervals[i] = problem.intervals[i];
        if (!all[i].predictable) continue;
        intervals[i].size = berth_byte_form_set_value(&all[i].forms, length);
        out->predictable++;
    }
    problem.intervals = intervals;
    out->predicted = out->predictable;
    pack(out, &problem);
    free(intervals);
}

/// A recorded trace at its own sizes, and how many of them were predicted.
static void check(row* out, const recording* a, const prediction* all, const recording* c) {
    size_t* of = zeroed(c->count, sizeof *of);
    match(a, c, of);
    for (size_t k = 0; k < c->count; k++) {
        if (of[k] == NONE || !all[of[k]].predictable) continue;
        out->predictable++;
        out->predicted +=
            berth_byte_form_set_value(&all[of[k]].forms, c->length) == c->rows[k].size;
    }
    pack(out, berth_problem_query_pack(c->problem));
    free(of);
}

// ---- Rows.

static void print_row(bench* b, const row* r) {
    const double bound = (double)r->result.lower_bound;
    const double ratio = bound > 0 ? (double)r->result.peak / bound : 1.0;
    printf("%-34s %8zu %11zu %9zu %14" PRIu64 " %14" PRIu64 " %8.4f %s %8.4f\n",
           r->name,
           r->buffers,
           r->predictable,
           r->predicted,
           r->result.peak,
           r->result.lower_bound,
           ratio,
           r->result.proved ? "proved" : "open  ",
           r->cpu_s);
    json_rows_begin(&b->json, "trace", r->name);
    json_rows_count(&b->json, "buffers", r->buffers);
    json_rows_count(&b->json, "predicted", r->predicted);
    json_rows_count(&b->json, "predictable", r->predictable);
    json_rows_count(&b->json, "peak", r->result.peak);
    json_rows_count(&b->json, "lower_bound", r->result.lower_bound);
    json_rows_number(&b->json, "cpu_s", r->cpu_s);
    json_rows_end(&b->json);
}

/// The file's name without folder and suffix.
static const char* stem_of(const char* path) {
    static char stem[128];
    const char* slash = strrchr(path, '/');
    snprintf(stem, sizeof stem, "%s", slash != NULL ? slash + 1 : path);
    char* dot = strrchr(stem, '.');
    if (dot != NULL) *dot = '\0';
    for (char* at = stem; *at != '\0'; at++)
        if (*at == '"' || *at == '\\' || *at < ' ') *at = '_';
    return stem;
}

static void add_check(bench* b, const recording* a, const prediction* all, const recording* c) {
    row r = {.buffers = 0};
    snprintf(r.name, sizeof r.name, "%s", stem_of(c->path));
    check(&r, a, all, c);
    print_row(b, &r);
}

static void add_length(bench* b, const recording* a, const prediction* all, uint64_t length) {
    row r = {.buffers = 0};
    snprintf(r.name, sizeof r.name, "%s at %" PRIu64, stem_of(a->path), length);
    evaluate(&r, a, all, length);
    print_row(b, &r);
}

static void add_alone(bench* b, const char* path) {
    row r = {.buffers = 0};
    recording alone = open_recording(path, 0);
    snprintf(r.name, sizeof r.name, "%s", stem_of(path));
    pack(&r, berth_problem_query_pack(alone.problem));
    print_row(b, &r);
    close_recording(&alone);
}

/// Predicts from the first two of `files` [count] and checks with all; also at `lengths`.
static void run_pair(bench* b, recording* files, size_t count, const uint64_t* lengths) {
    prediction* all = predict(&files[0], &files[1]);
    printf("%s and %s are %s\n",
           files[0].path,
           files[1].path,
           same_events(&files[0], &files[1]) ? "the same, event for event"
                                             : "different sequences of events");
    printf("%-34s %8s %11s %9s %14s %14s %8s %-6s %8s\n",
           "trace",
           "buffers",
           "predictable",
           "predicted",
           "peak",
           "lower bound",
           "ratio",
           "proof",
           "cpu s");
    for (size_t i = 0; i < count; i++)
        add_check(b, &files[0], all, &files[i]);
    for (; *lengths != 0; lengths++)
        add_length(b, &files[0], all, *lengths);
    free(all);
}

static const char* recorded(const char* name) {
    static char paths[8][1024];
    static unsigned next;
    char file[128];
    snprintf(file, sizeof file, "alloc-traces/%s.csv", name);
    return bench_shared_data(file, paths[next++ % 8], sizeof paths[0]);
}

static void run_default(bench* b) {
    recording files[] = {open_recording(recorded("torch_infer_ctx128"), 128),
                         open_recording(recorded("torch_infer_ctx1024"), 1024),
                         open_recording(recorded("torch_infer_ctx512"), 512)};
    run_pair(b, files, 3, (const uint64_t[]){256, 512, 0});
    for (size_t i = 0; i < 3; i++)
        close_recording(&files[i]);
    add_alone(b, recorded("torch_train_ctx128"));
    add_alone(b, recorded("torch_train_ctx1024"));
}

static uint64_t read_length(const char* text) {
    char* end;
    const unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || value == 0)
        bench_fail_for(text, "a length above 0 is expected");
    return value;
}

static void run_files(bench* b, char** arguments, size_t count) {
    recording files[3];
    for (size_t i = 0; i < count; i++)
        files[i] = open_recording(arguments[2 * i], read_length(arguments[2 * i + 1]));
    run_pair(b, files, count, (const uint64_t[]){0});
    for (size_t i = 0; i < count; i++)
        close_recording(&files[i]);
}

int main(int argc, char** argv) {
    bench b = {0};
    const char* json = NULL;
    if (argc >= 3 && strcmp(argv[argc - 2], "--json") == 0) {
        json = argv[argc - 1];
        argc -= 2;
    }
    if (argc != 1 && argc != 5 && argc != 7) {
        fputs("usage: bench-eager [FILE_A VALUE_A FILE_B VALUE_B [FILE_C VALUE_C]] [--json FILE]\n",
              stderr);
        return 2;
    }
    b.json = json_rows_open(json);
    if (argc == 1)
        run_default(&b);
    else
        run_files(&b, argv + 1, (size_t)(argc - 1) / 2);
    json_rows_close(&b.json);
    return 0;
}
