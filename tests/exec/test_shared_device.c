// SPDX-License-Identifier: Apache-2.0
// Threads that share a small device, in each of several ways of managing it: right numbers, no
// error but those of memory, books that balance.
#include "kit/sharing_worker.h"
#include "kit/test.h"

enum { TURNS = 150, MOST_SETTINGS = 6 };

static void run_ways(const berth_option_setting (*ways)[MOST_SETTINGS], size_t count) {
    static sharing_shop shop;
    uint64_t refusals = 0, calls = 0;
    for (size_t i = 0; i < count; i++) {
        size_t settings = 0;
        while (settings < MOST_SETTINGS && ways[i][settings].name != NULL)
            settings++;
        if (!sharing_run(&shop, ways[i], settings, 3, TURNS, i + 1))
            fail_msg("way %zu: %s", i, shop.failure);
        refusals += atomic_load(&shop.refusals);
        calls += atomic_load(&shop.calls);
    }
    assert_true(refusals > 0);
    assert_true(calls > 0);
}

static void threads_share_a_processors_memory(void** state) {
    (void)state;
    static const berth_option_setting ways[][MOST_SETTINGS] = {
        {{"memory", "8M"}, {"high_watermark", "60%"}, {"log", "off"}},
        {{"memory", "16M"}, {"compact", "always"}, {"decay_ms", "1"}, {"log", "off"}},
        {{"memory", "16M"}, {"mode", "pool"}, {"guard", "1"}, {"poison", "both"}, {"log", "off"}},
        {{"memory", "8M"}, {"keep", "none"}, {"compact", "always"}, {"leaks", "1"}, {"log", "off"}},
    };
    run_ways(ways, sizeof ways / sizeof ways[0]);
}

static void threads_share_an_asynchronous_device(void** state) {
    (void)state;
    static const berth_option_setting ways[][MOST_SETTINGS] = {
        {{"device", "sim"}, {"memory", "2M"}, {"check_order", "1"}, {"log", "off"}},
        {{"device", "sim"},
         {"memory", "3M"},
         {"compact", "always"},
         {"check_order", "1"},
         {"high_watermark", "50%"},
         {"log", "off"}},
        {{"device", "sim"}, {"memory", "3M"}, {"guard", "1"}, {"history", "64"}, {"log", "off"}},
    };
    run_ways(ways, sizeof ways / sizeof ways[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_a_processors_memory),
        cmocka_unit_test(threads_share_an_asynchronous_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
