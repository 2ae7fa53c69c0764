// SPDX-License-Identifier: Apache-2.0
// Endurance test of the CUDA device where there is none: random programs over the stand-in for the
// driver, which fails now and then, once or from then on, or crashes. What is computed before a
// failure is told of is right, and everything is given back. Usage: soak-cuda [--count N |
// --minutes N] [--seed N]; seeds count up from the given one, so that a failure can be run alone.
// Each program has a process of its own.
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cuda/standin.h"
#include "device/cuda/cuda_api.h"
#include "exec/exec_impl.h"
#include "kit/program.h"
#include "kit/random.h"

enum {
    RUNS = 6,
    MOST_FAULTS = 2,
    FAULTS_A_PROGRAM = 4, ///< seeds that run the same program
    DEFAULT_COUNT = 1000,
    PROGRAMS_A_LINE = 100,
    MOST_SECONDS = 300,
};

/// Exit statuses of a program's process; none that a sanitizer uses.
enum { ENDED_UNTOUCHED = 10, ENDED_WITH_FAILURES, ENDED_WRONG, ENDED_BADLY };

#define NS_A_MINUTE UINT64_C(60000000000)

// clang-format off
static const program_way reference = {"pool", {{"mode", "pool"}}, 1, false, false};

static const program_way ways[] = {
    {"plain", {{"keep", "auto"}}, 1, false, false},
    {"order checked, tampered with",
     {{"mode", "plan"}, {"check_order", "1"}, {"plan_quantum", "0"}}, 3, true, false},
    {"trimmed, noted", {{"keep", "none"}, {"leaks", "1"}, {"check_order", "1"}}, 3, false, false},
    {"moved at every op", {{"compact", "always"}, {"keep", "none"}}, 2, false, false},
    {"short of memory", {{"memory", "8M"}, {"check_order", "1"}}, 2, false, true},
    {"short of memory, moved at every op, poison",
     {{"memory", "6M"}, {"compact", "always"}, {"poison", "both"}}, 3, false, true},
    {"guards", {{"guard", "1"}, {"keep", "none"}}, 2, false, false},
    {"guards, moved", {{"guard", "1"}, {"compact", "always"}}, 2, false, false},
    {"pool, moved at every op", {{"mode", "pool"}, {"compact", "always"}}, 2, false, false},
    {"waits for every op", {{"launch_blocking", "1"}, {"keep", "none"}}, 2, false, false},
    {"ages", {{"decay_ms", "1"}, {"keep", "none"}, {"compact", "always"}}, 3, false, false},
};
// clang-format on
enum { WAYS = sizeof ways / sizeof ways[0] };

typedef struct arguments {
    uint64_t count;
    uint64_t minutes;
    uint64_t seed;
} arguments;

typedef struct tally {
    uint64_t untouched; ///< no call has failed
    uint64_t borne;     ///< some did
    uint64_t failed;
} tally;

typedef struct fault {
    const char* symbol; ///< NULL: a kernel crashes
    uint64_t nth;
    int result;
    bool lasts;
} fault;

// Of the program's process.
static const standin_control* driver;
static fault faults[MOST_FAULTS];
static size_t fault_count;
static berth_runtime* watched;
static bool is_well = true; ///< the device, when the program had run

/// Some call, the earlier the likelier. What is given back by two functions would stay for good if
/// they refused.
static void draw_fault(test_random* random, fault* out) {
    static const char* const symbols[] = {
#define SYMBOL(field, symbol, parameters) #symbol,
        CU_FUNCTION_MAP(SYMBOL)
#undef SYMBOL
    };
    static const int results[] = {
        CU_ERROR_OUT_OF_MEMORY,
        CU_ERROR_INVALID_VALUE,
        CU_ERROR_LAUNCH_OUT_OF_RESOURCES,
        CU_ERROR_OUT_OF_MEMORY,
        CU_ERROR_ILLEGAL_ADDRESS,
    };
    const uint64_t reach = UINT64_C(1) << test_random_below(random, 11);
    *out = (fault){.nth = 1 + test_random_below(random, reach)};
    if (test_random_one_in(random, 10)) return;
    do
        out->symbol = symbols[test_random_below(random, sizeof symbols / sizeof symbols[0])];
    while (strcmp(out->symbol, "cuCtxPopCurrent_v2") == 0 ||
           strcmp(out->symbol, "cuModuleUnload") == 0 || strcmp(out->symbol, "cuInit") == 0);
    out->result = results[test_random_below(random, sizeof results / sizeof results[0])];
    out->lasts = test_random_one_in(random, 4);
    // a driver that cannot be asked any more, and works on all the same, is none
    if (out != faults) out->lasts = false;
    if (out->lasts && strcmp(out->symbol, "cuCtxPushCurrent_v2") == 0)
        out->result = CU_ERROR_CONTEXT_IS_DESTROYED;
    if (out->lasts && strcmp(out->symbol, "cuStreamSynchronize") == 0)
        out->result = CU_ERROR_ILLEGAL_ADDRESS;
}

static void order_fault(const fault* ordered) {
    if (ordered->symbol == NULL)
        driver->crash_kernel(ordered->nth);
    else if (ordered->lasts)
        driver->fail_from(ordered->symbol, ordered->nth, ordered->result);
    else
        driver->fail(ordered->symbol, ordered->nth, ordered->result);
}

/// Called before a program's first op.
static void watch(berth_runtime* runtime) { watched = runtime; }

/// Ends the faults that last, and looks whether the device is lost.
static bool calm(void) {
    uint64_t total, available;
    driver->crash_kernel(0);
    for (size_t i = 0; i < fault_count; ++i)
        if (faults[i].symbol != NULL) driver->fail(faults[i].symbol, 0, 0);
    is_well = berth_device_query_memory(watched->device, &total, &available) == BERTH_OK;
    return is_well;
}

static bool load_driver(void) {
    void* library = dlopen(BERTH_TEST_CUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return false;
    const standin_control* (*query)(void);
    void* const symbol = dlsym(library, "standin_control_table");
    memcpy(&query, &symbol, sizeof query);
    if (symbol == NULL) return false;
    driver = query();
    return true;
}

static void choose_settings(test_random* random, uint64_t seed) {
    static const uint64_t granularities[] = {4096, 65536, 65536, UINT64_C(2) << 20};
    standin_settings settings;
    driver->reset(NULL);
    driver->get_settings(&settings);
    settings.granularity_bytes = granularities[test_random_below(random, 4)];
    settings.capacity_bytes = UINT64_C(1) << (25 + test_random_below(random, 2));
    if (settings.granularity_bytes > 65536) settings.capacity_bytes = UINT64_C(256) << 20;
    settings.seed = test_random_one_in(random, 2) ? seed : 0;
    driver->reset(&settings);
}

static uint64_t left_behind(void) {
    standin_live live;
    driver->query_live(&live);
    return live.reserved_ranges + live.allocations + live.mappings + live.streams + live.events +
           live.modules + live.context_references + live.pinned_blocks;
}

static const char* describe(const program_way* way) {
    static char text[512];
    size_t at = (size_t)snprintf(text, sizeof text, "%s", way->name);
    for (size_t i = 0; i < fault_count && at < sizeof text; ++i)
        at += (size_t)snprintf(text + at,
                               sizeof text - at,
                               "; %s %d%s: %d",
                               faults[i].symbol != NULL ? faults[i].symbol : "crash",
                               (int)faults[i].nth,
                               faults[i].lasts ? " and on" : "",
                               faults[i].result);
    return text;
}

/// What is wrong with a program that has ended, or NULL.
static const char* find_fault(const program_result* result, const program_result* expected) {
    const char* violation;
    if (expected->failure[0] != '\0') return expected->failure;
    if (result->failure[0] != '\0') return result->failure;
    if (driver->query_violations(&violation) > 0) return violation;
    if (result->refusals == 0 && result->digest != expected->digest)
        return "computes something else, and no call has failed";
    if (is_well && watched != NULL && left_behind() > 0)
        return "something of the driver's is left behind";
    return NULL;
}

/// Runs program `seed` and returns how it ended.
static int run_program(uint64_t seed) {
    test_random random = test_random_make(seed * 7919 + 5);
    const uint64_t program = seed / FAULTS_A_PROGRAM;
    const program_way* way = &ways[seed % WAYS];
    if (!load_driver()) return ENDED_BADLY;
    choose_settings(&random, seed);
    standin_settings settings;
    driver->get_settings(&settings);
    const program_result expected = program_run(program, RUNS, &reference);
    driver->reset(&settings);
    fault_count = 1 + test_random_below(&random, MOST_FAULTS);
    for (size_t i = 0; i < fault_count; ++i) {
        draw_fault(&random, &faults[i]);
        order_fault(&faults[i]);
    }
    program_set_watcher(watch);
    program_set_tolerance(calm);
    const program_result result = program_run(program, RUNS, way);
    const char* wrong = find_fault(&result, &expected);
    if (wrong == NULL) return result.refusals > 0 ? ENDED_WITH_FAILURES : ENDED_UNTOUCHED;
    printf("program %" PRIu64 " (%s): %s\n", seed, describe(way), wrong);
    return ENDED_WRONG;
}

/// Runs program `seed` in a process of its own: the driver's state is the process's.
static void run_apart(uint64_t seed, tally* t) {
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        (void)alarm(MOST_SECONDS);
        exit(run_program(seed));
    }
    int status = 0;
    const bool has_ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
    const int code = has_ended ? WEXITSTATUS(status) : ENDED_BADLY;
    t->untouched += code == ENDED_UNTOUCHED;
    t->borne += code == ENDED_WITH_FAILURES;
    if (code == ENDED_UNTOUCHED || code == ENDED_WITH_FAILURES) return;
    ++t->failed;
    if (code != ENDED_WRONG)
        printf("program %" PRIu64 ": ended with status 0x%x\n", seed, (unsigned)status);
}

static bool parse(int count, char** words, arguments* out) {
    *out = (arguments){.seed = 1};
    for (int i = 1; i < count; i += 2) {
        uint64_t* target = strcmp(words[i], "--count") == 0     ? &out->count
                           : strcmp(words[i], "--minutes") == 0 ? &out->minutes
                           : strcmp(words[i], "--seed") == 0    ? &out->seed
                                                                : NULL;
        char* end = NULL;
        if (target == NULL || i + 1 == count) return false;
        *target = strtoull(words[i + 1], &end, 10);
        if (end == words[i + 1] || *end != '\0') return false;
    }
    if (out->count == 0 && out->minutes == 0) out->count = DEFAULT_COUNT;
    return true;
}

static void print_progress(const tally* t) {
    printf("%" PRIu64 " untouched by their failures, %" PRIu64 " bore them, %" PRIu64 " failed\n",
           t->untouched,
           t->borne,
           t->failed);
    (void)fflush(stdout);
}

int main(int count, char** words) {
    arguments given;
    if (!parse(count, words, &given)) {
        (void)fprintf(stderr, "usage: soak-cuda [--count N | --minutes N] [--seed N]\n");
        return 2;
    }
    // what is refused is what the programs are for, not news
    (void)setenv("BERTH_LOG", "off", 0);
    (void)setenv("BERTH_DEVICE", "cuda", 1);
    (void)setenv("BERTH_CUDA_MODULE", BERTH_TEST_CUDA_MODULE, 1);
    (void)setenv("BERTH_CUDA_DRIVER", BERTH_TEST_CUDA_DRIVER, 1);
    const uint64_t begin_ns = berth_clock_now_ns();
    tally t = {0};
    for (uint64_t i = 0;; ++i) {
        const bool is_over = given.count > 0
                                 ? i == given.count
                                 : berth_clock_now_ns() - begin_ns >= given.minutes * NS_A_MINUTE;
        if (is_over) break;
        run_apart(given.seed + i, &t);
        if (i % PROGRAMS_A_LINE == PROGRAMS_A_LINE - 1) print_progress(&t);
    }
    print_progress(&t);
    return t.failed > 0 ? 1 : 0;
}
