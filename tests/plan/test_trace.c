// SPDX-License-Identifier: Apache-2.0
// Bytes of values, and which traces are believed.
#include "kit/test.h"

#include "step_kit.h"

#include "plan/path.h"

static void bytes_are_rounded_to_the_alignment_and_zero_stays_zero(void** state) {
    (void)state;
    const int64_t dims[] = {3, 5};
    assert_int_equal(berth_trace_bytes(BERTH_F32, 2, dims), 64);
    assert_int_equal(berth_trace_bytes(BERTH_I64, 2, dims), 128);
    assert_int_equal(berth_trace_bytes(BERTH_F32, 0, NULL), 64);
    const int64_t none[] = {3, 0, INT64_MAX};
    assert_int_equal(berth_trace_bytes(BERTH_F32, 3, none), 0);
}

static void quantised_values_count_whole_blocks(void** state) {
    (void)state;
    const int64_t dims[] = {2, 64};
    assert_int_equal(berth_trace_bytes(BERTH_Q8_0, 2, dims), 192); // 2 x 2 x 34 = 136
    const int64_t odd[] = {1, 33};
    assert_int_equal(berth_trace_bytes(BERTH_Q8_0, 2, odd), 128); // two blocks
}

static void bytes_that_do_not_fit_are_said_so(void** state) {
    (void)state;
    const int64_t huge[] = {INT64_MAX, 3};
    assert_true(berth_trace_bytes(BERTH_U8, 2, huge) == UINT64_MAX);
    const int64_t wide[] = {INT64_MAX};
    assert_true(berth_trace_bytes(BERTH_I64, 1, wide) == UINT64_MAX);
    const int64_t negative[] = {4, -1};
    assert_true(berth_trace_bytes(BERTH_U8, 2, negative) == UINT64_MAX);
    assert_true(berth_trace_bytes(BERTH_DTYPE_COUNT, 1, wide) == UINT64_MAX);
}

static void only_traces_that_fit_together_are_sound(void** state) {
    (void)state;
    step_tape t = {.host = berth_host_default()};
    tape_llama(&t, 2, 5, 5);
    assert_true(berth_path_is_sound(&t.trace));
    berth_trace_value* value = &t.trace.values.items[3];
    const berth_trace_value good = *value;
    value->death = (uint32_t)t.trace.events.count;
    assert_false(berth_path_is_sound(&t.trace));
    *value = good;
    value->birth++;
    assert_false(berth_path_is_sound(&t.trace));
    *value = good;
    value->rank = BERTH_MAX_RANK + 1;
    assert_false(berth_path_is_sound(&t.trace));
    *value = good;
    value->dims_at++;
    assert_false(berth_path_is_sound(&t.trace));
    *value = good;
    value->dtype = BERTH_DTYPE_COUNT;
    assert_false(berth_path_is_sound(&t.trace));
    *value = good;
    t.trace.events.items[1].value_count++;
    assert_false(berth_path_is_sound(&t.trace));
    t.trace.events.items[1].value_count--;
    t.trace.dims.count--;
    assert_false(berth_path_is_sound(&t.trace));
    berth_trace_fini(&t.trace, t.host);
}

static void later_deaths_and_escapes_make_another_version(void** state) {
    (void)state;
    const berth_host* host = berth_host_default();
    step_tape t = {.host = host};
    for (uint32_t e = 0; e < 4; e++) {
        tape_op(&t, e);
        tape_bytes(&t, 0, 64);
    }
    berth_path_version* first = berth_path_version_create(host, &t.trace, NULL, 7);
    assert_non_null(first);
    assert_false(berth_path_is_late(&first->shown, &t.trace));
    assert_int_equal(first->shown.expired_at[1] - first->shown.expired_at[0], 1);
    t.trace.values.items[0].death = 2;
    t.trace.values.items[3].flags |= BERTH_VALUE_ESCAPES;
    assert_true(berth_path_matches(&first->shown, &t.trace)); // releases identify nothing
    assert_true(berth_path_is_late(&first->shown, &t.trace));
    berth_path_version* second = berth_path_version_create(host, &t.trace, &first->shown, 0);
    assert_non_null(second);
    assert_int_equal(second->shown.id, 7);
    assert_int_equal(second->shown.values[0].death, 2);
    assert_int_equal(second->shown.expired_at[4], 3); // the escaping value never expires
    assert_int_equal(second->shown.expired_at[2], 1);
    assert_int_equal(second->shown.expired_at[3], 3);
    assert_int_equal(second->shown.expired[1], 0);
    assert_int_equal(second->shown.expired[2], 2);
    // An earlier death is no news.
    t.trace.values.items[0].death = 0;
    t.trace.values.items[3].flags = 0;
    assert_false(berth_path_is_late(&second->shown, &t.trace));
    berth_path_version_release(first, host);
    berth_path_version_release(second, host);
    berth_trace_fini(&t.trace, host);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_rounded_to_the_alignment_and_zero_stays_zero),
        cmocka_unit_test(quantised_values_count_whole_blocks),
        cmocka_unit_test(bytes_that_do_not_fit_are_said_so),
        cmocka_unit_test(only_traces_that_fit_together_are_sound),
        cmocka_unit_test(later_deaths_and_escapes_make_another_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
