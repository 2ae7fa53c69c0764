// SPDX-License-Identifier: Apache-2.0
// Endurance test of contexts that share a device: threads with tensors, steps, quotas, callbacks,
// on runtimes with options drawn at random. Usage: soak-sharing [--count N | --minutes N] [--seed
// N]; seeds count up from the given one; a failure names its seed and options.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kit/sharing_worker.h"

enum { THREADS = 3, TURNS = 400, DEFAULT_COUNT = 100, MOST_VALUES = 5 };

#define NS_A_MINUTE UINT64_C(60000000000)
#define NS_BETWEEN_LINES UINT64_C(10000000000)

/// An option, and what it may be set to; NULL: left alone.
typedef struct choice {
    const char* name;
    const char* values[MOST_VALUES];
} choice;

static const choice choices[] = {
    {"memory", {"2M", "4M", "8M", "12M", "16M"}},
    {"device", {"cpu", "sim", "cpu", "sim", "sim"}},
    {"compact", {NULL, "always", "always", "off", "auto"}},
    {"keep", {NULL, NULL, "none", "all", "1M"}},
    {"decay_ms", {NULL, "0", "1", "1", "unlimited"}},
    {"mode", {NULL, NULL, "pool", "plan", NULL}},
    {"poison", {NULL, NULL, NULL, "both", "free"}},
    {"guard", {NULL, NULL, NULL, NULL, "1"}},
    {"history", {NULL, NULL, NULL, "1", "1000"}},
    {"check_order", {NULL, "1", NULL, "1", "1"}},
    {"high_watermark", {NULL, "50%", "75%", "95%", "100%"}},
    {"compact_budget_bytes", {NULL, NULL, NULL, "4096", "65536"}},
    {"log", {"off", "off", "off", "off", "off"}},
};
enum { CHOICES = sizeof choices / sizeof choices[0] };

static size_t draw_settings(uint64_t seed, berth_option_setting* out_settings) {
    test_random random = test_random_make(seed);
    size_t count = 0;
    for (size_t i = 0; i < CHOICES; i++) {
        const char* value = choices[i].values[test_random_below(&random, MOST_VALUES)];
        if (value != NULL) out_settings[count++] = (berth_option_setting){choices[i].name, value};
    }
    return count;
}

/// Runs one seed; false, with a line, if it fails.
static bool run_seed(uint64_t seed, uint64_t* calls) {
    static sharing_shop shop;
    berth_option_setting settings[CHOICES];
    const size_t count = draw_settings(seed, settings);
    const bool is_sound = sharing_run(&shop, settings, count, THREADS, TURNS, seed);
    *calls += atomic_load(&shop.calls);
    if (is_sound) return true;
    printf("seed %" PRIu64 ": %s; with", seed, shop.failure);
    for (size_t i = 0; i < count; i++)
        printf(" %s=%s", settings[i].name, settings[i].value);
    printf("\n");
    return false;
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
        (void)fprintf(stderr, "usage: soak-sharing [--count N | --minutes N] [--seed N]\n");
        return 2;
    }
    const uint64_t begin_ns = berth_clock_now_ns();
    uint64_t line_ns = begin_ns, passed = 0, failed = 0, calls = 0;
    for (uint64_t seed = given.seed;; seed++) {
        const uint64_t now_ns = berth_clock_now_ns();
        const bool is_over = given.count > 0 ? seed - given.seed == given.count
                                             : now_ns - begin_ns >= given.minutes * NS_A_MINUTE;
        if (is_over) break;
        ++*(run_seed(seed, &calls) ? &passed : &failed);
        if (now_ns - line_ns < NS_BETWEEN_LINES) continue;
        printf("seed %" PRIu64 ": %" PRIu64 " passed, %" PRIu64 " failed, %" PRIu64 " callbacks\n",
               seed,
               passed,
               failed,
               calls);
        (void)fflush(stdout);
        line_ns = now_ns;
    }
    printf(
        "%" PRIu64 " passed, %" PRIu64 " failed, %" PRIu64 " callbacks\n", passed, failed, calls);
    return failed > 0 ? 1 : 0;
}
