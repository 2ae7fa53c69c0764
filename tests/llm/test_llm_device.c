// SPDX-License-Identifier: Apache-2.0
// Tests of the question whether a runtime's tensors are going to be in the process's own memory.
#include "kit/test.h"

#include <stdlib.h>

#include "llm_device.h"

static void an_option_says_where_tensors_are(void** state) {
    (void)state;
    assert_false(llm_device_is_apart("cpu"));
    assert_false(llm_device_is_apart("CPU"));
    assert_true(llm_device_is_apart("cuda"));
    assert_true(llm_device_is_apart("hidden"));
}

static void without_one_the_environment_does(void** state) {
    (void)state;
    assert_int_equal(unsetenv("BERTH_DEVICE"), 0);
    assert_false(llm_device_is_apart(NULL));
    assert_int_equal(setenv("BERTH_CONF", "device=cuda", 1), 0);
    assert_true(llm_device_is_apart(NULL));
    assert_int_equal(setenv("BERTH_DEVICE", "cpu", 1), 0);
    assert_false(llm_device_is_apart(NULL));
    assert_int_equal(unsetenv("BERTH_CONF"), 0);
    assert_int_equal(setenv("BERTH_DEVICE", "cuda", 1), 0);
    assert_true(llm_device_is_apart(NULL));
    assert_false(llm_device_is_apart("cpu"));
    assert_int_equal(unsetenv("BERTH_DEVICE"), 0);
}

static void a_device_that_there_is_not_is_the_runtimes_to_refuse(void** state) {
    (void)state;
    assert_false(llm_device_is_apart("gpu"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_option_says_where_tensors_are),
        cmocka_unit_test(without_one_the_environment_does),
        cmocka_unit_test(a_device_that_there_is_not_is_the_runtimes_to_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
