// SPDX-License-Identifier: Apache-2.0
// The report: what it names, and how it is cut.
#include <stdlib.h>

#include "berth/berth.h"
#include "kit/test.h"

enum { TEXT_BYTES = 16384 };

static int set_up(void** state) {
    const berth_option_setting settings[] = {{"threads", "1"}};
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = 1};
    berth_runtime* runtime;
    if (berth_runtime_create(&options, &runtime) != BERTH_OK) return -1;
    *state = runtime;
    return 0;
}

static int tear_down(void** state) {
    berth_runtime_release(*state);
    return 0;
}

/// Runs the step called `name` once, empty.
static void run_step(berth_runtime* runtime, const char* name) {
    berth_context* context;
    assert_ok(berth_context_create(runtime, &context));
    const berth_step_desc desc = {.name = name};
    assert_ok(berth_step_begin(context, &desc));
    assert_ok(berth_step_end(context));
    berth_context_release(context);
}

/// The number behind `field`, at or after `from`.
static unsigned long long number_of(const char* from, const char* field) {
    const char* line = strstr(from, field);
    assert_non_null(line);
    return strtoull(line + strlen(field), NULL, 10);
}

static void the_report_names_every_step_and_every_number(void** state) {
    char text[TEXT_BYTES];
    size_t needed;
    run_step(*state, "first");
    run_step(*state, "second");
    run_step(*state, "second");
    assert_ok(berth_runtime_format_report(*state, text, sizeof text, &needed));
    assert_int_equal(needed, strlen(text));
    const char* second = strstr(text, "step second\n");
    assert_true(strstr(text, "step first\n") < second);
    assert_int_equal(number_of(text, "  runs "), 1);
    assert_int_equal(number_of(second, "  runs "), 2);
    const char* memory = strstr(second, "\nmemory\n");
    assert_non_null(memory);
#define EXPECT_FIELD(name, help) assert_non_null(strstr(memory, "  " #name " "));
    BERTH_MEMORY_STATS_MAP(EXPECT_FIELD)
#undef EXPECT_FIELD
    const char* health = strstr(memory, "\nhealth\n");
    assert_non_null(health);
#define EXPECT_FIGURE(name, help) assert_non_null(strstr(health, "  " #name " "));
    BERTH_HEALTH_STATS_MAP(EXPECT_FIGURE)
#undef EXPECT_FIGURE
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(*state, &stats));
    assert_int_equal(number_of(memory, "  capacity_bytes "), stats.capacity_bytes);
}

static void a_report_that_does_not_fit_is_cut_and_says_what_it_needs(void** state) {
    char text[TEXT_BYTES], cut[40];
    size_t needed, again;
    assert_ok(berth_runtime_format_report(*state, text, sizeof text, &needed));
    assert_ok(berth_runtime_format_report(*state, cut, sizeof cut, &again));
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, text, sizeof cut - 1);
    assert_int_equal(again, needed);
    assert_ok(berth_runtime_format_report(*state, NULL, 0, &again));
    assert_int_equal(again, needed);
}

static void a_report_without_a_place_is_refused(void** state) {
    size_t needed = 7;
    assert_fails(berth_runtime_format_report(*state, NULL, 1, &needed),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "buffer");
    assert_int_equal(needed, 0);
    char text[8];
    assert_fails(berth_runtime_format_report(NULL, text, sizeof text, NULL),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "runtime");
}

static void how_sure_an_estimate_is_has_a_word(void** state) {
    (void)state;
    assert_string_equal(berth_estimate_text(BERTH_ESTIMATE_UNKNOWN), "unknown");
    assert_string_equal(berth_estimate_text(BERTH_ESTIMATE_OBSERVED), "observed");
    assert_string_equal(berth_estimate_text(BERTH_ESTIMATE_BOUND), "bound");
    assert_string_equal(berth_estimate_text(BERTH_ESTIMATE_EXACT), "exact");
    assert_string_equal(berth_estimate_text((berth_estimate_kind)99), "unknown");
    assert_string_equal(berth_estimate_text((berth_estimate_kind)-1), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_report_names_every_step_and_every_number, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_report_that_does_not_fit_is_cut_and_says_what_it_needs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_report_without_a_place_is_refused, set_up, tear_down),
        cmocka_unit_test(how_sure_an_estimate_is_has_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
