// SPDX-License-Identifier: Apache-2.0
// Last uses by address, against a byte-wise model.
#include "kit/test.h"

#include "device/use_map.h"
#include "kit/failing_host.h"
#include "kit/random.h"

enum { BYTES = 300 };

static void the_last_use_of_each_byte_is_found(void** state) {
    (void)state;
    test_random random = test_random_make(7);
    berth_use_map map = {.host = berth_host_default()};
    uint64_t model[BYTES] = {0};
    for (uint64_t moment = 1; moment <= 3000; moment++) {
        const uint64_t begin = test_random_below(&random, BYTES - 1);
        const uint64_t end = begin + 1 + test_random_below(&random, BYTES - begin);
        berth_use_map_note(&map, (berth_use){begin, end, moment, NULL}, 0);
        for (uint64_t i = begin; i < end; i++)
            model[i] = moment;
        const uint64_t from = test_random_below(&random, BYTES - 1);
        const uint64_t to = from + 1 + test_random_below(&random, BYTES - from);
        const uint64_t after = test_random_below(&random, moment + 1);
        bool expected = false;
        for (uint64_t i = from; i < to; i++)
            expected = expected || model[i] > after;
        const berth_use* use = berth_use_map_find(&map, from, to, after);
        assert_int_equal(use != NULL, expected);
        if (use == NULL) continue;
        assert_true(use->begin < to && use->end > from && use->moment > after);
        assert_int_equal(model[use->begin], use->moment);
        assert_int_equal(model[use->end - 1], use->moment);
    }
    berth_use_map_fini(&map);
}

static void what_is_remembered_is_bounded_and_the_newest_stays(void** state) {
    (void)state;
    berth_use_map map = {.host = berth_host_default()};
    for (uint64_t moment = 1; moment <= 3 * BERTH_USE_MAP_MAX; moment++) {
        const uint64_t at = moment * 2;
        berth_use_map_note(&map, (berth_use){at, at + 1, moment, NULL}, moment / 2);
        assert_true(map.uses.count <= BERTH_USE_MAP_MAX);
        assert_non_null(berth_use_map_find(&map, at, at + 1, moment - 1));
    }
    berth_use_map_fini(&map);
}

static void without_memory_a_use_is_not_remembered(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    berth_host* wrapped;
    assert_ok(berth_host_create(&host.allocator, &wrapped));
    berth_use_map map = {.host = wrapped};
    failing_host_fail(&host, 1, false);
    berth_use_map_note(&map, (berth_use){0, 9, 1, NULL}, 0);
    assert_null(berth_use_map_find(&map, 0, 9, 0));
    berth_use_map_note(&map, (berth_use){0, 9, 2, NULL}, 0);
    assert_non_null(berth_use_map_find(&map, 8, 9, 1));
    berth_use_map_fini(&map);
    berth_host_destroy(wrapped);
    assert_int_equal(host.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_use_of_each_byte_is_found),
        cmocka_unit_test(what_is_remembered_is_bounded_and_the_newest_stays),
        cmocka_unit_test(without_memory_a_use_is_not_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
