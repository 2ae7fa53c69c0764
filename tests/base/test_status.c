// SPDX-License-Identifier: Apache-2.0
// Status codes, error details, element types.
#include "test.h"

#include "base/error.h"
#include "base/thread.h"
#include "berth/dtype.h"
#include "berth/op.h"

static void every_status_has_a_name_and_a_text(void** state) {
    (void)state;
    assert_string_equal(berth_status_name(BERTH_OK), "BERTH_OK");
    assert_string_equal(berth_status_name(BERTH_ERR_FORKED), "BERTH_ERR_FORKED");
    assert_string_equal(berth_status_text(BERTH_ERR_OUT_OF_MEMORY), "not enough memory");
    assert_string_equal(berth_status_name((berth_status)999), "BERTH_ERR_UNKNOWN");
    assert_string_equal(berth_status_text((berth_status)999), "not a status code");
}

static void a_failure_leaves_its_sentence(void** state) {
    (void)state;
    assert_int_equal(berth_fail(BERTH_ERR_IO, "file %d of %s", 3, "many"), BERTH_ERR_IO);
    assert_string_equal(berth_last_error(), "file 3 of many");
    assert_int_equal(berth_op_fail(BERTH_ERR_OVERFLOW, "too %s", "big"), BERTH_ERR_OVERFLOW);
    assert_string_equal(berth_last_error(), "too big");
}

static void a_prefix_goes_in_front_and_may_quote_the_sentence(void** state) {
    (void)state;
    (void)berth_fail(BERTH_ERR_IO, "disk full");
    assert_int_equal(berth_fail_prefix(BERTH_ERR_IO, "writing %s", "plan"), BERTH_ERR_IO);
    assert_string_equal(berth_last_error(), "writing plan: disk full");
    (void)berth_fail(BERTH_ERR_IO, "again: %s", berth_last_error());
    assert_string_equal(berth_last_error(), "again: writing plan: disk full");
}

static void a_long_sentence_is_cut_at_1023_bytes(void** state) {
    (void)state;
    char text[1200];
    memset(text, 'x', sizeof text);
    text[1199] = '\0';
    (void)berth_fail(BERTH_ERR_IO, "%s", text);
    assert_int_equal(strlen(berth_last_error()), 1023);
    (void)berth_fail_prefix(BERTH_ERR_IO, "p");
    assert_int_equal(strlen(berth_last_error()), 1023);
    assert_memory_equal(berth_last_error(), "p: xxx", 6);
    (void)berth_fail_prefix(BERTH_ERR_IO, "%s", text);
    assert_int_equal(strlen(berth_last_error()), 1023);
}

static void fail_elsewhere(void* unused) {
    (void)unused;
    (void)berth_fail(BERTH_ERR_IO, "on another thread");
}

static void each_thread_has_its_own_sentence(void** state) {
    (void)state;
    (void)berth_fail(BERTH_ERR_IO, "here");
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "other", fail_elsewhere, NULL));
    berth_thread_join(&thread);
    assert_string_equal(berth_last_error(), "here");
}

static berth_status try_twice(berth_status first, int* reached) {
    BERTH_TRY(first);
    *reached = 1;
    return BERTH_ERR_STATE;
}

static void try_returns_at_the_first_failure(void** state) {
    (void)state;
    int reached = 0;
    assert_int_equal(try_twice(BERTH_ERR_IO, &reached), BERTH_ERR_IO);
    assert_int_equal(reached, 0);
    assert_int_equal(try_twice(BERTH_OK, &reached), BERTH_ERR_STATE);
    assert_int_equal(reached, 1);
}

static void element_types_are_described(void** state) {
    (void)state;
    const berth_dtype_info* info = berth_dtype_query_info(BERTH_Q6_K);
    assert_non_null(info);
    assert_string_equal(info->name, "q6_k");
    assert_int_equal(info->block_values, 256);
    assert_int_equal(info->block_bytes, 210);
    assert_int_equal(info->kind, BERTH_DTYPE_KIND_Q);
    assert_int_equal(berth_dtype_query_info(BERTH_BOOL)->kind, BERTH_DTYPE_KIND_B);
    assert_null(berth_dtype_query_info(BERTH_DTYPE_COUNT));
    assert_null(berth_dtype_query_info((berth_dtype)-1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_and_a_text),
        cmocka_unit_test(a_failure_leaves_its_sentence),
        cmocka_unit_test(a_prefix_goes_in_front_and_may_quote_the_sentence),
        cmocka_unit_test(a_long_sentence_is_cut_at_1023_bytes),
        cmocka_unit_test(each_thread_has_its_own_sentence),
        cmocka_unit_test(try_returns_at_the_first_failure),
        cmocka_unit_test(element_types_are_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
