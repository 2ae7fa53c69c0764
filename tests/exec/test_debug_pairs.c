// SPDX-License-Identifier: Apache-2.0
// Every two debugging options together, on each device: programs give the same bits, and nothing is
// reported that is not there.
#include <stdio.h>

#include "berth/log.h"
#include "kit/program.h"
#include "kit/test.h"

static const berth_option_setting options[] = {
    {"poison", "free"},
    {"poison", "both"},
    {"guard", "1"},
    {"leaks", "1"},
    {"history", "40"},
    {"strict", "1"},
    {"keep", "none"},
    {"mode", "pool"},
    {"check_order", "1"},
    {"mode", "system"},
};
enum { OPTIONS = sizeof options / sizeof options[0], PROGRAMS = 3, RUNS = 5 };

static char reported[1000];

/// Keeps what a debugging option has found.
static void collect(void* self, berth_log_level level, const char* text) {
    (void)self;
    const char* const marks[] = {"leaks:", "guard:", "order:"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; ++i)
        if (level == BERTH_LOG_ERROR || strncmp(text, marks[i], strlen(marks[i])) == 0)
            snprintf(reported, sizeof reported, "%s", text);
}

static void run_pair(const char* device, const berth_option_setting* a, uint64_t seed) {
    const program_result expected = program_run(seed, RUNS, &program_reference);
    const program_way way = {
        .name = "pair", .settings = {{"device", device}, {"threads", "1"}, a[0], a[1]}, .count = 4};
    const program_result result = program_run(seed, RUNS, &way);
    if (result.failure[0] != '\0' || reported[0] != '\0' || result.digest != expected.digest)
        fail_msg("program %u on %s with %s=%s, %s=%s: %s %s",
                 (unsigned)seed,
                 device,
                 a[0].name,
                 a[0].value,
                 a[1].name,
                 a[1].value,
                 result.failure,
                 reported);
}

static void run_pairs(const char* device) {
    uint64_t seed = 9000;
    reported[0] = '\0';
    berth_log_set_callback(collect, NULL);
    for (size_t i = 0; i < OPTIONS; ++i)
        for (size_t j = i + 1; j < OPTIONS; ++j) {
            if (strcmp(options[i].name, options[j].name) == 0) continue;
            const berth_option_setting pair[2] = {options[i], options[j]};
            for (int k = 0; k < PROGRAMS; ++k)
                run_pair(device, pair, ++seed);
        }
    berth_log_set_callback(NULL, NULL);
}

static void pairs_of_options_go_together_on_the_cpu(void** state) {
    (void)state;
    run_pairs("cpu");
}

static void pairs_of_options_go_together_on_the_simulated_device(void** state) {
    (void)state;
    run_pairs("sim");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_of_options_go_together_on_the_cpu),
        cmocka_unit_test(pairs_of_options_go_together_on_the_simulated_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
