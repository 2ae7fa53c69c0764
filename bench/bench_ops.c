// SPDX-License-Identifier: Apache-2.0
// Every public op at small, medium and large sizes as a share of what the machine could do at best:
// the time that copying as many bytes takes, on the same number of threads and right beside the op,
// or for products and attention the time of their multiply-adds on registers alone. Medians of
// interleaved samples.
//
// What is below a third at large sizes needs a reason in the table of reasons: the exit status is 1
// if one has none, or if an op of the library's list has no row.
//
// usage: bench-ops [--quick] [--op NAME] [--size small|medium|large] [--json FILE]
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/op_map.h"
#include "exec/exec_impl.h"
#include "kit/json_rows.h"
#include "kit/limits.h"
#include "kit/median.h"
#include "ops/op_cases.h"

#define MAX_SAMPLES 31
#define MOST_TURNS 4                    // of measuring a row
#define MOST_COPIED (INT64_C(64) << 20) // more is counted as if it went on like that
#define LEAST_SHARE (1.0 / 3)
#define BATCH_NS 20000.0 // calls are timed together until they take as long

typedef struct size_class {
    const char* name;
    int64_t bytes;
    double budget_ns; ///< for all samples of a row
} size_class;

enum { SMALL, MEDIUM, LARGE, SIZES };

static const size_class full_sizes[SIZES] = {
    {"small", INT64_C(1) << 10, 2e6},
    {"medium", INT64_C(256) << 10, 1e7},
    {"large", INT64_C(64) << 20, 2e8},
};

static const size_class quick_sizes[SIZES] = {
    {"small", INT64_C(1) << 10, 0},
    {"medium", INT64_C(4) << 10, 0},
    {"large", INT64_C(16) << 10, 0},
};

typedef struct bench {
    bool quick;
    const char* only_op;
    const char* only_size;
    json_rows json;
    berth_runtime* runtime;
    berth_context* context;
    berth_team* team;
    void* copied[2]; ///< MOST_COPIED bytes each
    int rows;
    int slow;
    int unexplained;
    bool has_row[BERTH_OP_COUNT];
} bench;

/// What is timed of a row: a call, and the limits beside it.
typedef struct timed {
    const bench_case* c;
    bench_data* data;
    double bytes;
    double work;
    int batch;
    int count; ///< samples
    double op_ns[MAX_SAMPLES];
    double copy_ns[MAX_SAMPLES]; ///< of `bytes`
    double fma_ns[MAX_SAMPLES];  ///< of `work`
} timed;

static _Atomic float sink; ///< keeps loops from being left out; every thread writes it

static void die(const bench* b, const char* what) {
    fprintf(stderr, "bench-ops: %s: %s\n", what, berth_context_error_text(b->context));
    exit(1);
}

static double now_ns(void) { return (double)berth_clock_now_ns(); }

// --- Limits --------------------------------------------------------------------------------------

/// Nanoseconds of moving `bytes`: half of them are read, half are written.
static double time_copy(const bench* b, double bytes) {
    const double most = (double)MOST_COPIED;
    const double half = bytes / 2 < most ? bytes / 2 : most;
    // threads are not worth waking for less
    berth_team* team = half < 65536 ? NULL : b->team;
    const int batch = half < 65536 ? 16 : 1;
    const double start = now_ns();
    for (int i = 0; i < batch; ++i)
        bench_copy(team, b->copied[0], b->copied[1], (size_t)half + 1);
    return (now_ns() - start) / batch * (bytes / 2 / half);
}

static void multiply_add(void* job, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    for (int64_t i = begin; i < end; ++i)
        atomic_store_explicit(&sink, bench_fma_loop(*(const int64_t*)job), memory_order_relaxed);
}

/// Nanoseconds of `work` operations on all threads.
static double time_work(const bench* b, double work) {
    int64_t loops = b->quick ? 100 : 20000;
    const uint32_t workers = berth_team_worker_count(b->team);
    const double start = now_ns();
    berth_team_for(b->team, workers, 1, multiply_add, &loops);
    const double rate = workers * bench_fma_operations(loops) / (now_ns() - start);
    return work / rate;
}

// --- Rows ----------------------------------------------------------------------------------------

/// One call; its bytes if `bytes` is not NULL.
static void call_once(const bench* b, const timed* t, double* bytes) {
    berth_tensor* results[3] = {NULL};
    results[0] = t->c->run(t->data, results + 1);
    if (results[0] == NULL) die(b, t->c->op);
    if (bytes != NULL) *bytes = bench_case_bytes(t->c, t->data, results);
    berth_release_all(results[0], results[1], results[2]);
}

static void take_sample(const bench* b, timed* t) {
    const double start = now_ns();
    for (int i = 0; i < t->batch; ++i)
        call_once(b, t, NULL);
    t->op_ns[t->count] = (now_ns() - start) / t->batch;
    t->copy_ns[t->count] = time_copy(b, t->bytes);
    t->fma_ns[t->count] = t->work > 0 ? time_work(b, t->work) : 0;
    ++t->count;
}

static void measure(const bench* b, timed* t, double budget_ns) {
    call_once(b, t, &t->bytes);
    t->work = t->c->work != NULL ? t->c->work(t->data) : 0;
    const double start = now_ns();
    call_once(b, t, NULL);
    const double once = now_ns() - start;
    t->batch = b->quick || once > BATCH_NS ? 1 : (int)(BATCH_NS / (once + 20)) + 1;
    const double begin = now_ns();
    const int least = b->quick ? 1 : 3;
    while (t->count < least || (t->count < MAX_SAMPLES && now_ns() - begin < budget_ns)) {
        take_sample(b, t);
    }
}

/// Notes that the op in front of the colon has a row.
static void note_op(bench* b, const char* name) {
#define BENCH_NOTE(id, text)                                                                       \
    if (strcspn(name, ":") == strlen(text) && strncmp(name, text, strlen(text)) == 0)              \
        b->has_row[BERTH_OP_##id] = true;
    BERTH_OP_MAP(BENCH_NOTE)
#undef BENCH_NOTE
}

/// What a row's samples say.
typedef struct verdict {
    double ns;
    double share; ///< of the limit
    bool is_slow; ///< and has to say why
    const char* reason;
} verdict;

static verdict judge(const bench_case* c, bench_data* data, const size_class* size, timed* t) {
    const double copy = bench_median(t->copy_ns, t->count);
    const double work = bench_median(t->fma_ns, t->count);
    verdict v = {.ns = bench_median(t->op_ns, t->count), .reason = ""};
    v.share = (work > copy ? work : copy) / v.ns;
    v.is_slow = size == &full_sizes[LARGE] && v.share < LEAST_SHARE;
    if (v.is_slow) v.reason = bench_case_reason(c->op, data->dtype);
    return v;
}

static void report(
    bench* b, const bench_case* c, const bench_data* data, const char* size, verdict v) {
    const char* dtype = berth_dtype_query_info(data->dtype)->name;
    b->slow += v.is_slow;
    b->unexplained += v.reason == NULL;
    if (v.reason == NULL) v.reason = "NONE";
    const char* quote = v.reason[0] != '\0' ? "\"" : "";
    printf(
        "%s,%s,%s,%.1f,%.3f,%s%s%s\n", c->op, dtype, size, v.ns, v.share, quote, v.reason, quote);
    json_rows_begin(&b->json, "op", c->op);
    json_rows_text(&b->json, "dtype", dtype);
    json_rows_text(&b->json, "size", size);
    json_rows_number(&b->json, "ns", v.ns);
    json_rows_number(&b->json, "share_of_limit", v.share);
    json_rows_text(&b->json, "reason", v.reason);
    json_rows_end(&b->json);
    ++b->rows;
}

/// One row. What seems slow without a reason is measured again, as something may have disturbed it.
static void run_case(bench* b, const bench_case* c, bench_data* data, const size_class* size) {
    static timed t;
    verdict best = {0};
    for (int turn = 0; turn < MOST_TURNS; ++turn) {
        t = (timed){.c = c, .data = data};
        measure(b, &t, size->budget_ns);
        const verdict v = judge(c, data, size, &t);
        if (turn == 0 || v.share > best.share) best = v;
        if (best.reason != NULL) break;
    }
    report(b, c, data, size->name, best);
    note_op(b, c->op);
}

static bool is_wanted(const bench* b, const bench_case* c, berth_dtype dtype) {
    if ((c->dtypes >> dtype & 1u) == 0) return false;
    if (b->only_op == NULL) return true;
    return strncmp(c->op, b->only_op, strlen(b->only_op)) == 0 &&
           strchr(":", c->op[strlen(b->only_op)]) != NULL;
}

static void run_size(bench* b, berth_dtype dtype, const size_class* size) {
    if (b->only_size != NULL && strcmp(b->only_size, size->name) != 0) return;
    bench_data data;
    if (!bench_data_make(&data, b->context, dtype, size->bytes)) die(b, "operands");
    for (size_t i = 0; i < bench_case_count; ++i)
        if (is_wanted(b, &bench_cases[i], dtype)) run_case(b, &bench_cases[i], &data, size);
    bench_data_free(&data);
    fflush(stdout);
}

// --- The program ---------------------------------------------------------------------------------

static bool parse(bench* b, int count, char** arguments, const char** json) {
    for (int i = 1; i < count; ++i) {
        if (strcmp(arguments[i], "--quick") == 0) {
            b->quick = true;
            continue;
        }
        if (i + 1 >= count) return false;
        const char* name = arguments[i];
        const char* value = arguments[++i];
        if (strcmp(name, "--op") == 0)
            b->only_op = value;
        else if (strcmp(name, "--size") == 0)
            b->only_size = value;
        else if (strcmp(name, "--json") == 0)
            *json = value;
        else
            return false;
    }
    return true;
}

static void set_up(bench* b) {
    const berth_option_setting settings[] = {{"keep", "all"}};
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = 1};
    if (berth_runtime_create(&options, &b->runtime) != BERTH_OK ||
        berth_context_create(b->runtime, &b->context) != BERTH_OK) {
        fprintf(stderr, "bench-ops: %s\n", berth_last_error());
        exit(1);
    }
    b->team = b->context->home.stream->device->team;
    for (int i = 0; i < 2; ++i) {
        b->copied[i] = malloc((size_t)MOST_COPIED + 1);
        if (b->copied[i] == NULL) exit(1);
        memset(b->copied[i], 1, (size_t)MOST_COPIED + 1);
    }
}

static void tear_down(bench* b) {
    free(b->copied[0]);
    free(b->copied[1]);
    berth_context_release(b->context);
    berth_runtime_release(b->runtime);
}

/// How many ops of the library's list have no row.
static int count_missing(const bench* b) {
    static const char* const names[BERTH_OP_COUNT] = {
#define BENCH_NAME(id, text) [BERTH_OP_##id] = text,
        BERTH_OP_MAP(BENCH_NAME)
#undef BENCH_NAME
    };
    int missing = 0;
    for (int i = 0; i < BERTH_OP_COUNT; ++i) {
        if (b->has_row[i] || i == BERTH_OP_NOOP) continue;
        fprintf(stderr, "bench-ops: no row for %s\n", names[i]);
        ++missing;
    }
    return missing;
}

int main(int count, char** arguments) {
    static bench b;
    const char* json = NULL;
    if (!parse(&b, count, arguments, &json)) {
        fprintf(stderr,
                "usage: bench-ops [--quick] [--op NAME] [--size small|medium|large] "
                "[--json FILE]\n");
        return 2;
    }
    b.json = json_rows_open(json);
    set_up(&b);
    printf("op,dtype,size,ns,share_of_limit,reason\n");
    for (int s = 0; s < SIZES; ++s)
        for (berth_dtype dtype = BERTH_F32; dtype <= BERTH_BOOL; ++dtype)
            run_size(&b, dtype, b.quick ? &quick_sizes[s] : &full_sizes[s]);
    json_rows_close(&b.json);
    const bool is_whole = b.only_op == NULL && b.only_size == NULL;
    const int missing = is_whole ? count_missing(&b) : 0;
    printf("# %d of %d rows are below a third of their limit at large sizes, %d without a reason\n",
           b.slow,
           b.rows,
           b.unexplained);
    tear_down(&b);
    return missing > 0 || b.unexplained > 0;
}
