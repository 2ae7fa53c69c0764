// SPDX-License-Identifier: Apache-2.0
// The version: one number for the preprocessor, one text of the library, one project.
#include "test.h"

#include <stdio.h>

#include "berth/version.h"

static void the_library_names_the_version_of_its_headers(void** state) {
    (void)state;
    char text[64];
    (void)snprintf(text,
                   sizeof text,
                   "%d.%d.%d",
                   BERTH_VERSION_MAJOR,
                   BERTH_VERSION_MINOR,
                   BERTH_VERSION_PATCH);
    assert_string_equal(berth_version(), text);
}

static void the_project_has_the_version_of_the_headers(void** state) {
    (void)state;
    assert_string_equal(berth_version(), BERTH_TEST_PROJECT_VERSION);
}

static void versions_are_ordered_as_numbers(void** state) {
    (void)state;
#if BERTH_VERSION < BERTH_MAKE_VERSION(0, 1, 0)
#error "the preprocessor can compare versions"
#endif
    assert_int_equal(BERTH_MAKE_VERSION(1, 2, 3), 1002003);
    assert_true(BERTH_MAKE_VERSION(0, 10, 0) > BERTH_MAKE_VERSION(0, 9, 999));
    assert_true(BERTH_MAKE_VERSION(1, 0, 0) > BERTH_MAKE_VERSION(0, 999, 999));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_names_the_version_of_its_headers),
        cmocka_unit_test(the_project_has_the_version_of_the_headers),
        cmocka_unit_test(versions_are_ordered_as_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
