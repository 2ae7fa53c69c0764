// SPDX-License-Identifier: Apache-2.0
// What placing a value costs: a chain of ops whose kernel does nothing, each with a fresh output
// from a plan, from the pool, or from an allocator, minus the same chain in place (the same
// dispatch without a placement). Medians per op of interleaved rounds. And whether what a plan
// costs depends on how many plans, shapes and live values there are.
//
// usage: bench-dispatch [--json FILE] [--bytes N] [--ops N] [--rounds N] [--chain planned|in-place]
//                       [--replay CASE]
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "berth/berth.h"
#include "dispatch/chain.h"
#include "dispatch/placement.h"
#include "exec/exec_impl.h"
#include "kit/allocators.h"
#include "kit/fail.h"
#include "kit/median.h"

#define MAX_ROUNDS 201

typedef struct bench_options {
    const char* json;
    const char* chain; ///< run one chain only, for an instruction counter
    int replay;        ///< likewise one case of the replays; -1: none
    int64_t bytes;
    int64_t ops;
    int rounds;
} bench_options;

/// One way to get storage.
typedef struct contender {
    const char* name;
    berth_option_setting mode;
    berth_pool_bypass bypass; ///< alloc NULL: none
    bool in_place;
    bool is_there; ///< its allocator can be had here
    berth_runtime* runtime;
    berth_context* context;
    double ns[MAX_ROUNDS];
} contender;

static void open_contender(contender* c) {
    const berth_option_setting settings[] = {c->mode, {"threads", "1"}};
    const berth_runtime_options runtime = {
        .struct_size = sizeof runtime, .settings = settings, .setting_count = 2};
    if (berth_runtime_create(&runtime, &c->runtime) != BERTH_OK) bench_fail("runtime");
    if (c->bypass.alloc != NULL) berth_runtime_set_bypass(c->runtime, &c->bypass);
    if (berth_context_create(c->runtime, &c->context) != BERTH_OK) bench_fail("context");
}

static void close_contender(contender* c) {
    berth_context_release(c->context);
    berth_runtime_release(c->runtime);
}

/// One step with one chain; nanoseconds of the chain, an op.
static double run_round(contender* c, const bench_options* options) {
    const berth_step_desc desc = {.name = c->name};
    if (berth_step_begin(c->context, &desc) != BERTH_OK) bench_fail("begin");
    const int64_t dims[1] = {options->bytes / 4};
    berth_tensor* x = berth_empty(c->context, BERTH_F32, 1, dims);
    const uint64_t start = berth_clock_now_ns();
    x = c->in_place ? bench_chain_in_place(c->context, x, options->ops)
                    : bench_chain_fresh(c->context, x, options->ops);
    const uint64_t end = berth_clock_now_ns();
    if (x == NULL) bench_fail_for("ops", berth_context_error_text(c->context));
    berth_release(x);
    if (berth_step_end(c->context) != BERTH_OK) bench_fail("end");
    return (double)(end - start) / (double)options->ops;
}

static void* glibc_alloc(void* self, size_t size, size_t alignment) {
    (void)self;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void glibc_free(void* self, void* block, size_t size) {
    (void)self;
    (void)size;
    free(block);
}

#if BERTH_HOST_JEMALLOC
// The library's own copy as jemalloc comes: with thread caches and automatic arenas, which Berth's
// metadata does without.
void* berth_je_mallocx(size_t size, int flags);
void berth_je_sdallocx(void* block, size_t size, int flags);
enum { LOG2_OF_ALIGNMENT = 6 }; // jemalloc's flags hold the alignment's logarithm
_Static_assert(BERTH_ALIGNMENT == 1 << LOG2_OF_ALIGNMENT, "the alignment asked of jemalloc");

static void* jemalloc_alloc(void* self, size_t size, size_t alignment) {
    (void)self;
    (void)alignment;
    return berth_je_mallocx(size, LOG2_OF_ALIGNMENT);
}

static void jemalloc_free(void* self, void* block, size_t size) {
    (void)self;
    berth_je_sdallocx(block, size, LOG2_OF_ALIGNMENT);
}
#endif

static void* tcmalloc_alloc(void* self, size_t size, size_t alignment) {
    return ((const bench_allocator*)self)->memalign(alignment, size);
}

static void tcmalloc_free(void* self, void* block, size_t size) {
    (void)size;
    ((const bench_allocator*)self)->free(block);
}

/// Instructions inside `function` of a run of this program with `arguments`, counted by callgrind
/// in a process of its own; < 0 if that is not possible.
static double count_instructions(const char* self, const char* function, const char* arguments) {
    char command[4096], line[256];
    snprintf(command,
             sizeof command,
             "valgrind --tool=callgrind --callgrind-out-file=/dev/null --collect-atstart=no "
             "--toggle-collect=%s '%s' %s 2>&1",
             function,
             self,
             arguments);
    FILE* pipe = popen(command, "r");
    if (pipe == NULL) return -1;
    double collected = -1;
    while (fgets(line, sizeof line, pipe) != NULL) {
        const char* found = strstr(line, "Collected :");
        if (found != NULL) collected = strtod(found + strlen("Collected :"), NULL);
    }
    return pclose(pipe) != 0 ? -1 : collected;
}

/// Instructions an op of one chain; < 0 if they cannot be counted.
static double count_chain(const char* self, const char* chain, const bench_options* options) {
    char arguments[128];
    snprintf(arguments,
             sizeof arguments,
             "--chain %s --bytes %" PRId64 " --ops %" PRId64,
             chain,
             options->bytes,
             options->ops);
    const bool is_planned = strcmp(chain, "planned") == 0;
    // the chain of a run is entered once: see run_one_chain
    return count_instructions(
               self, is_planned ? "bench_chain_fresh" : "bench_chain_in_place", arguments) /
           (double)options->ops;
}

/// Instructions an op of a replay in one state of the world; < 0 if they cannot be counted.
static double count_replay(const char* self, int index) {
    char arguments[64];
    snprintf(arguments, sizeof arguments, "--replay %d", index);
    return count_instructions(self, "counted_chain", arguments) / (double)bench_replay_query_ops();
}

/// Runs one chain as often as its plan needs, and once more; only that last time inside the
/// function that is counted.
static int run_one_chain(const bench_options* options) {
    contender c = {.name = options->chain,
                   .mode = {"mode", "auto"},
                   .in_place = strcmp(options->chain, "in-place") == 0};
    open_contender(&c);
    const berth_step_desc desc = {.name = c.name};
    const int64_t dims[1] = {options->bytes / 4};
    for (int run = 0; run < 4; ++run) {
        if (berth_step_begin(c.context, &desc) != BERTH_OK) bench_fail("begin");
        berth_tensor* x = berth_empty(c.context, BERTH_F32, 1, dims);
        if (run == 3) {
            x = c.in_place ? bench_chain_in_place(c.context, x, options->ops)
                           : bench_chain_fresh(c.context, x, options->ops);
        }
        for (int64_t i = 0; run < 3 && i < options->ops; ++i) {
            berth_tensor* const operands[1] = {c.in_place ? berth_move(x) : x};
            berth_tensor* y = berth_dispatch(c.context, BERTH_OP_NOOP, operands, 1, NULL, 0);
            if (!c.in_place) berth_release(x);
            x = y;
        }
        berth_release(x);
        if (berth_step_end(c.context) != BERTH_OK) bench_fail("end");
    }
    close_contender(&c);
    return 0;
}

enum { IN_PLACE, PLANNED, POOLED, JEMALLOC, GLIBC, TCMALLOC, CONTENDERS };

static const char* const keys[CONTENDERS] = {
    "in_place_ns", "planned_ns", "pooled_ns", "jemalloc_ns", "glibc_ns", "tcmalloc_ns"};

/// What placing a value costs in the states of the world.
typedef struct replay_costs {
    double ns[BENCH_REPLAY_CASES];
    double instructions[BENCH_REPLAY_CASES]; ///< < 0: not counted
} replay_costs;

static void report_number(FILE* out, const char* key, double value, const char* behind) {
    if (value < 0) {
        fprintf(out, "\"%s\": null%s", key, behind);
    } else {
        fprintf(out, "\"%s\": %.1f%s", key, value, behind);
    }
}

static void report_replays(FILE* out, const replay_costs* costs) {
    fprintf(out, "  \"replay\": [\n");
    for (int i = 0; i < BENCH_REPLAY_CASES; ++i) {
        const bench_replay_case* at = &bench_replay_cases[i];
        fprintf(out,
                "    {\"name\": \"%s\", \"plans\": %" PRId64 ", \"live\": %" PRId64 ", ",
                at->name,
                at->plans,
                at->live);
        fprintf(out, "\"ns\": %.1f, ", costs->ns[i]);
        report_number(out, "instructions", costs->instructions[i], "}");
        fprintf(out, i + 1 < BENCH_REPLAY_CASES ? ",\n" : "\n  ],\n");
    }
}

static void report(FILE* out,
                   const double* ns,
                   double instructions,
                   const replay_costs* costs,
                   const bench_options* options) {
    fprintf(out, "{\n");
    for (int i = 0; i < CONTENDERS; ++i) {
        if (ns[i] < 0) {
            fprintf(out, "  \"%s\": null,\n", keys[i]);
        } else {
            fprintf(out, "  \"%s\": %.2f,\n", keys[i], ns[i] - (i == IN_PLACE ? 0 : ns[IN_PLACE]));
        }
    }
    fprintf(out, "  ");
    report_number(out, "planned_instructions", instructions, ",\n");
    report_replays(out, costs);
    fprintf(out,
            "  \"bytes\": %" PRId64 ",\n  \"ops\": %" PRId64 ",\n  \"rounds\": %d\n}\n",
            options->bytes,
            options->ops,
            options->rounds);
}

static bool parse(int count, char** arguments, bench_options* options) {
    for (int i = 1; i < count; ++i) {
        if (i + 1 >= count) return false;
        const char* value = arguments[++i];
        if (strcmp(arguments[i - 1], "--json") == 0) {
            options->json = value;
        } else if (strcmp(arguments[i - 1], "--chain") == 0) {
            options->chain = value;
        } else if (strcmp(arguments[i - 1], "--replay") == 0) {
            options->replay = (int)strtol(value, NULL, 10);
            if (options->replay < 0 || options->replay >= BENCH_REPLAY_CASES) return false;
        } else if (strcmp(arguments[i - 1], "--bytes") == 0) {
            options->bytes = strtoll(value, NULL, 10);
        } else if (strcmp(arguments[i - 1], "--ops") == 0) {
            options->ops = strtoll(value, NULL, 10);
        } else if (strcmp(arguments[i - 1], "--rounds") == 0) {
            options->rounds = (int)strtol(value, NULL, 10);
        } else {
            return false;
        }
    }
    return options->bytes >= 4 && options->ops >= 1 && options->rounds >= 1 &&
           options->rounds <= MAX_ROUNDS;
}

/// Medians of all contenders in interleaved rounds; -1 for one that is not there.
static void measure(contender* contenders, const bench_options* options, double* out_ns) {
    for (int i = 0; i < CONTENDERS; ++i) {
        if (!contenders[i].is_there) continue;
        open_contender(&contenders[i]);
        for (int run = 0; run < 3; ++run)
            run_round(&contenders[i], options);
    }
    for (int round = 0; round < options->rounds; ++round)
        for (int i = 0; i < CONTENDERS; ++i)
            if (contenders[i].is_there)
                contenders[i].ns[round] = run_round(&contenders[i], options);
    for (int i = 0; i < CONTENDERS; ++i) {
        contender* c = &contenders[i];
        out_ns[i] = c->is_there ? bench_median(c->ns, options->rounds) : -1;
        if (c->is_there) close_contender(c);
    }
}

static void measure_all(const bench_options* options, double* out_ns) {
    static bench_allocator tcmalloc;
    static contender contenders[CONTENDERS] = {
        [IN_PLACE] = {.name = "in place", .mode = {"mode", "auto"}, .in_place = true},
        [PLANNED] = {.name = "planned", .mode = {"mode", "auto"}},
        [POOLED] = {.name = "pooled", .mode = {"mode", "pool"}},
        [JEMALLOC] = {.name = "jemalloc", .mode = {"mode", "system"}},
        [GLIBC] = {.name = "glibc",
                   .mode = {"mode", "system"},
                   .bypass = {.alloc = glibc_alloc, .free = glibc_free}},
        [TCMALLOC] = {.name = "tcmalloc",
                      .mode = {"mode", "system"},
                      .bypass = {.self = &tcmalloc,
                                 .alloc = tcmalloc_alloc,
                                 .free = tcmalloc_free}},
    };
#if BERTH_HOST_JEMALLOC
    contenders[JEMALLOC].bypass =
        (berth_pool_bypass){.alloc = jemalloc_alloc, .free = jemalloc_free};
#endif
    for (int i = 0; i < CONTENDERS; ++i)
        contenders[i].is_there = true;
    contenders[JEMALLOC].is_there = contenders[JEMALLOC].bypass.alloc != NULL;
    contenders[TCMALLOC].is_there = bench_allocator_load("tcmalloc", &tcmalloc);
    measure(contenders, options, out_ns);
}

int main(int argument_count, char** arguments) {
    bench_options options = {.bytes = 65536, .ops = 1000, .rounds = 101, .replay = -1};
    if (!parse(argument_count, arguments, &options)) {
        fprintf(stderr,
                "usage: bench-dispatch [--json FILE] [--bytes N] [--ops N] [--rounds 1..%d] "
                "[--chain planned|in-place] [--replay 0..%d]\n",
                MAX_ROUNDS,
                BENCH_REPLAY_CASES - 1);
        return 2;
    }
    if (options.chain != NULL) return run_one_chain(&options);
    if (options.replay >= 0) {
        bench_replay_run_counted(&bench_replay_cases[options.replay]);
        return 0;
    }
    double ns[CONTENDERS];
    measure_all(&options, ns);
    const double planned = count_chain(arguments[0], "planned", &options);
    const double in_place = count_chain(arguments[0], "in-place", &options);
    const double instructions = planned < 0 || in_place < 0 ? -1 : planned - in_place;
    replay_costs costs;
    for (int i = 0; i < BENCH_REPLAY_CASES; ++i) {
        costs.ns[i] = bench_replay_measure(&bench_replay_cases[i], options.rounds);
        const double counted = in_place < 0 ? -1 : count_replay(arguments[0], i);
        costs.instructions[i] = counted < 0 ? -1 : counted - in_place;
    }
    report(stdout, ns, instructions, &costs, &options);
    if (options.json == NULL) return 0;
    FILE* file = fopen(options.json, "w");
    if (file == NULL) {
        fprintf(stderr, "bench-dispatch: cannot write %s\n", options.json);
        return 1;
    }
    report(file, ns, instructions, &costs, &options);
    return fclose(file) == 0 ? 0 : 1;
}
