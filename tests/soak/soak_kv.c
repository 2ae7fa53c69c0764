// SPDX-License-Identifier: Apache-2.0
// Endurance test of the KV cache: sequences that begin, are found, grow, fork, shrink, are parked,
// come back and end, on small devices with options drawn at random, while others need memory and
// calls fail. Every token's keys and values are compared after each batch of operations. Usage:
// soak-kv [--count RUNS | --minutes N] [--seed N]; a run is 5,000 operations; seeds count up from
// the given one; a failure names its seed.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kit/kv_worker.h"

enum { OPERATIONS = 5000, DEFAULT_COUNT = 200 };

#define NS_A_MINUTE UINT64_C(60000000000)
#define NS_BETWEEN_LINES UINT64_C(10000000000)

/// What the runs have done.
typedef struct tally {
    uint64_t passed, failed, hits, refusals;
} tally;

static void run_seed(uint64_t seed, tally* total) {
    static kv_worker worker;
    const kv_setting setting = kv_setting_draw(seed);
    const bool is_right = kv_worker_run(&worker, &setting, OPERATIONS, seed);
    ++*(is_right ? &total->passed : &total->failed);
    total->hits += worker.hits;
    total->refusals += worker.refusals;
    if (is_right) return;
    printf("seed %" PRIu64 ": %s; on %s, %" PRId64
           " tokens a block, compact=%s keep=%s poison=%s%s\n",
           seed,
           worker.failure,
           setting.device,
           setting.block_tokens,
           setting.compact,
           setting.keep,
           setting.poison,
           setting.has_faults ? ", with faults" : "");
}

static void print_tally(const char* prefix, const tally* total) {
    printf("%s%" PRIu64 " passed, %" PRIu64 " failed, %d operations each; %" PRIu64
           " tokens found, %" PRIu64 " batches refused\n",
           prefix,
           total->passed,
           total->failed,
           (int)OPERATIONS,
           total->hits,
           total->refusals);
    (void)fflush(stdout);
}

typedef struct arguments {
    uint64_t count;
    uint64_t minutes;
    uint64_t seed;
} arguments;

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

int main(int count, char** words) {
    arguments given;
    if (!parse(count, words, &given)) {
        (void)fprintf(stderr, "usage: soak-kv [--count N | --minutes N] [--seed N]\n");
        return 2;
    }
    const uint64_t begin_ns = berth_clock_now_ns();
    uint64_t line_ns = begin_ns;
    tally total = {0};
    for (uint64_t seed = given.seed;; seed++) {
        const uint64_t now_ns = berth_clock_now_ns();
        const bool is_over = given.count > 0 ? seed - given.seed == given.count
                                             : now_ns - begin_ns >= given.minutes * NS_A_MINUTE;
        if (is_over) break;
        run_seed(seed, &total);
        if (now_ns - line_ns < NS_BETWEEN_LINES) continue;
        print_tally("so far: ", &total);
        line_ns = now_ns;
    }
    print_tally("", &total);
    return total.failed > 0 ? 1 : 0;
}
