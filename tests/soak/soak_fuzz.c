// SPDX-License-Identifier: Apache-2.0
// Endurance test of the executor: random programs, each run with its memory managed in one way
// after another, must compute the same bits and leave nothing behind. Usage: soak-fuzz [--count N |
// --minutes N] [--seed N] [--ways N]; seeds count up from the given one, so that a failure can be
// run alone; each program is run in N of the ways (all of them if not said).
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kit/program.h"

enum { RUNS = 12, DEFAULT_COUNT = 1000 };

#define NS_A_MINUTE UINT64_C(60000000000)
#define NS_BETWEEN_LINES UINT64_C(10000000000)

typedef struct arguments {
    uint64_t count;
    uint64_t minutes;
    uint64_t seed;
    uint64_t ways; ///< of each program
} arguments;

typedef struct tally {
    uint64_t passed;
    uint64_t failed;
    uint64_t ops;
    uint64_t hits;
    uint64_t exits;
    uint64_t shortages;
} tally;

/// False, with a line that says why, if the program did not end well.
static bool is_sound(uint64_t seed, const program_way* way, const program_result* result) {
    if (result->failure[0] == '\0') return true;
    printf("program %" PRIu64 " (%s): %s\n", seed, way->name, result->failure);
    return false;
}

/// False, with a line, if the way changes what the program computes.
static bool is_the_same(uint64_t seed,
                        const program_way* way,
                        const program_result* result,
                        const program_result* expected) {
    if (result->digest == expected->digest && result->ops == expected->ops) return true;
    printf("program %" PRIu64 " (%s): computes something else than with %s: digest %016" PRIx64
           " after %" PRIu64 " ops, not %016" PRIx64 " after %" PRIu64 "\n",
           seed,
           way->name,
           program_reference.name,
           result->digest,
           result->ops,
           expected->digest,
           expected->ops);
    return false;
}

/// Runs one program in some of the ways, which change from program to program.
static void run_program(uint64_t seed, uint64_t most, tally* t) {
    size_t way_count;
    const program_way* ways = program_ways(&way_count);
    if (most > way_count) most = way_count;
    const program_result expected = program_run(seed, RUNS, &program_reference);
    bool is_good = is_sound(seed, &program_reference, &expected);
    for (uint64_t i = 0; is_good && i < most; ++i) {
        const program_way* way = &ways[(seed * most + i) % way_count];
        const program_result result = program_run(seed, RUNS, way);
        is_good = is_sound(seed, way, &result) && is_the_same(seed, way, &result, &expected);
        t->ops += result.ops;
        t->hits += result.hits;
        t->exits += result.exits;
        t->shortages += result.shortages;
    }
    ++*(is_good ? &t->passed : &t->failed);
}

static bool parse(int count, char** words, arguments* out) {
    *out = (arguments){.seed = 1, .ways = UINT64_MAX};
    for (int i = 1; i < count; i += 2) {
        uint64_t* target = strcmp(words[i], "--count") == 0     ? &out->count
                           : strcmp(words[i], "--minutes") == 0 ? &out->minutes
                           : strcmp(words[i], "--seed") == 0    ? &out->seed
                           : strcmp(words[i], "--ways") == 0    ? &out->ways
                                                                : NULL;
        char* end = NULL;
        if (target == NULL || i + 1 == count) return false;
        *target = strtoull(words[i + 1], &end, 10);
        if (end == words[i + 1] || *end != '\0') return false;
    }
    if (out->count == 0 && out->minutes == 0) out->count = DEFAULT_COUNT;
    return true;
}

static void print_progress(const tally* t, uint64_t seed) {
    printf("seed %" PRIu64 ": %" PRIu64 " passed, %" PRIu64 " failed; %" PRIu64 " ops, %" PRIu64
           " steps replayed, %" PRIu64 " left their trace; memory was short %" PRIu64 " times\n",
           seed,
           t->passed,
           t->failed,
           t->ops,
           t->hits,
           t->exits,
           t->shortages);
    (void)fflush(stdout);
}

int main(int count, char** words) {
    arguments given;
    if (!parse(count, words, &given)) {
        (void)fprintf(stderr, "usage: soak-fuzz [--count N | --minutes N] [--seed N] [--ways N]\n");
        return 2;
    }
    // steps that leave their plans are what the programs are for, not news
    (void)setenv("BERTH_LOG", "error", 0);
    const uint64_t begin_ns = berth_clock_now_ns();
    uint64_t line_ns = begin_ns;
    tally t = {0};
    for (uint64_t seed = given.seed;; ++seed) {
        const uint64_t now_ns = berth_clock_now_ns();
        const bool is_over = given.count > 0 ? seed - given.seed == given.count
                                             : now_ns - begin_ns >= given.minutes * NS_A_MINUTE;
        if (is_over) break;
        run_program(seed, given.ways, &t);
        if (now_ns - line_ns < NS_BETWEEN_LINES) continue;
        print_progress(&t, seed);
        line_ns = now_ns;
    }
    print_progress(&t, given.seed + t.passed + t.failed - 1);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", t.passed, t.failed);
    return t.failed > 0 ? 1 : 0;
}
