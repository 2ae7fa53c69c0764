// SPDX-License-Identifier: Apache-2.0
// Options: values, bounds, order of sources, unknown names, printed forms.
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options_value.h"

static int warnings;
static char last_warning[1200];

static void keep_warning(void* self, berth_log_level level, const char* text) {
    (void)self;
    if (level != BERTH_LOG_WARN) return;
    warnings++;
    (void)snprintf(last_warning, sizeof last_warning, "%s", text);
}

/// An environment without variables of ours, and warnings kept instead of shown.
static int set_up(void** state) {
    (void)state;
    for (char** entry = environ; *entry != NULL;) {
        char name[128];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        const bool ours = strncmp(name, "BERTH_", 6) == 0 && unsetenv(name) == 0;
        entry = ours ? environ : entry + 1; // removing moves the others
    }
    warnings = 0;
    berth_log_set_callback(keep_warning, NULL);
    return berth_log_configure("warn:/dev/null") == BERTH_OK ? 0 : 1;
}

static int tear_down(void** state) {
    (void)state;
    berth_log_set_callback(NULL, NULL);
    return berth_log_configure("warn") == BERTH_OK ? 0 : 1;
}

static berth_options options;

static berth_status init(void) { return berth_options_init(&options, NULL, 0); }

static void defaults_hold_where_nothing_is_said(void** state) {
    (void)state;
    assert_ok(init());
    assert_int_equal(berth_options_word(&options, BERTH_OPTION_DEVICE), BERTH_DEVICE_WORD_CPU);
    assert_int_equal(berth_options_u64(&options, BERTH_OPTION_THREADS), 0);
    assert_true(berth_options_u64(&options, BERTH_OPTION_MEMORY) == BERTH_OPTION_UNLIMITED);
    assert_int_equal(berth_options_u64(&options, BERTH_OPTION_PLAN_CACHE_BYTES), 16 << 20);
    assert_int_equal(berth_options_word(&options, BERTH_OPTION_KEEP), BERTH_KEEP_AUTO);
    assert_true(berth_options_bool(&options, BERTH_OPTION_BATCH_INVARIANT));
    assert_false(berth_options_bool(&options, BERTH_OPTION_STRICT));
    assert_string_equal(berth_options_text(&options, BERTH_OPTION_BUCKETS), "geometric:4");
    assert_int_equal(options.values[BERTH_OPTION_MODE].origin, BERTH_OPTION_ORIGIN_DEFAULT);
}

static void the_call_wins_over_the_variable_over_conf(void** state) {
    (void)state;
    (void)setenv("BERTH_CONF", "threads=2,MODE=plan,berth_memory=1G,keep=none", 1);
    (void)setenv("BERTH_MODE", "Pool", 1);
    (void)setenv("BERTH_MEMORY", "2G", 1);
    const berth_option_setting settings[] = {{"memory", "3G"}, {"BERTH_TRACE_MAX", "99"}};
    assert_ok(berth_options_init(&options, settings, 2));
    assert_int_equal(berth_options_u64(&options, BERTH_OPTION_THREADS), 2);
    assert_int_equal(options.values[BERTH_OPTION_THREADS].origin, BERTH_OPTION_ORIGIN_CONF);
    assert_int_equal(berth_options_word(&options, BERTH_OPTION_MODE), BERTH_MODE_POOL);
    assert_int_equal(options.values[BERTH_OPTION_MODE].origin, BERTH_OPTION_ORIGIN_ENVIRONMENT);
    assert_true(berth_options_u64(&options, BERTH_OPTION_MEMORY) == 3ull << 30);
    assert_int_equal(options.values[BERTH_OPTION_MEMORY].origin, BERTH_OPTION_ORIGIN_CALL);
    assert_int_equal(berth_options_u64(&options, BERTH_OPTION_TRACE_MAX), 99);
    assert_int_equal(berth_options_word(&options, BERTH_OPTION_KEEP), BERTH_KEEP_NONE);
    assert_int_equal(berth_options_word(&options, BERTH_OPTION_POISON), BERTH_POISON_OFF);
}

static void a_list_in_conf_keeps_its_commas(void** state) {
    (void)state;
    (void)setenv("BERTH_CONF", "buckets=list:1,2,30, threads=4,", 1);
    assert_ok(init());
    assert_string_equal(berth_options_text(&options, BERTH_OPTION_BUCKETS), "list:1,2,30");
    assert_int_equal(berth_options_u64(&options, BERTH_OPTION_THREADS), 4);
}

static void conf_that_is_no_list_of_pairs_is_an_error(void** state) {
    (void)state;
    const char* const bad[] = {"threads", "=3", "conf=x", "threads=x", "threads="};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)setenv("BERTH_CONF", bad[i], 1);
        assert_int_equal(init(), BERTH_ERR_INVALID_ARGUMENT);
    }
    assert_fails(init(), BERTH_ERR_INVALID_ARGUMENT, "BERTH_CONF");
}

static void a_bad_value_names_variable_value_and_range(void** state) {
    (void)state;
    (void)setenv("BERTH_THREADS", "2000", 1);
    assert_fails(init(), BERTH_ERR_INVALID_ARGUMENT, "BERTH_THREADS");
    assert_fails(init(), BERTH_ERR_INVALID_ARGUMENT, "'2000'");
    assert_fails(init(), BERTH_ERR_INVALID_ARGUMENT, "from 0 to 1024");
    (void)unsetenv("BERTH_THREADS");
    const berth_option_setting setting = {"huge", "giant"};
    assert_fails(berth_options_init(&options, &setting, 1),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "off|madvise|hugetlb");
}

static void an_unknown_variable_warns_once_with_the_nearest_name(void** state) {
    (void)state;
    (void)setenv("BERTH_THREDS", "2", 1);
    assert_ok(init());
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(last_warning, "BERTH_THREDS (did you mean BERTH_THREADS"));
    assert_ok(init());
    assert_int_equal(warnings, 1);
    (void)setenv("BERTH_ZEBRA", "1", 1);
    assert_ok(init());
    assert_int_equal(warnings, 2);
    assert_null(strstr(last_warning, "ZEBRA (did"));
    (void)setenv("BERTH_FOO", "1", 1);
    assert_ok(init());
    assert_null(strstr(last_warning, "FOO (did"));
}

static void an_unknown_name_is_an_error_when_strict(void** state) {
    (void)state;
    (void)setenv("BERTH_THREDS", "2", 1);
    (void)setenv("BERTH_STRICT", "yes", 1);
    assert_fails(init(), BERTH_ERR_INVALID_ARGUMENT, "BERTH_THREDS");
    (void)unsetenv("BERTH_THREDS");
    assert_ok(init());
    (void)setenv("BERTH_CONF", "mod=pool", 1);
    assert_fails(init(), BERTH_ERR_INVALID_ARGUMENT, "mod in BERTH_CONF (did you mean BERTH_MODE");
    assert_int_equal(warnings, 0);
}

static void an_unknown_setting_of_a_call_is_an_error(void** state) {
    (void)state;
    const berth_option_setting settings[] = {{"thread", "1"}, {NULL, "1"}, {"threads", NULL}};
    assert_fails(berth_options_init(&options, &settings[0], 1),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "did you mean BERTH_THREADS");
    assert_fails(
        berth_options_init(&options, &settings[1], 1), BERTH_ERR_INVALID_ARGUMENT, "no name");
    assert_fails(
        berth_options_init(&options, &settings[2], 1), BERTH_ERR_INVALID_ARGUMENT, "no value");
}

// --- Types --------------------------------------------------------------------------------------

static berth_option_value parse_ok(const berth_option_info* info, const char* text) {
    berth_option_value value;
    if (!berth_option_parse(info, text, &value)) fail_msg("'%s' was refused", text);
    assert_string_equal(value.text, text);
    return value;
}

static void refuse(const berth_option_info* info, const char* const* texts) {
    berth_option_value value;
    for (; *texts != NULL; texts++) {
        if (berth_option_parse(info, *texts, &value)) fail_msg("'%s' was accepted", *texts);
    }
}

static void booleans_are_words_of_any_case(void** state) {
    (void)state;
    const berth_option_info info = {"X", BERTH_OPTION_TYPE_BOOL, "0", 0, 1, "", "", ""};
    const char* const yes[] = {"1", "true", "Yes", "ON"};
    const char* const no[] = {"0", "FALSE", "no", "Off"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(parse_ok(&info, yes[i]).number, 1);
        assert_int_equal(parse_ok(&info, no[i]).number, 0);
    }
    refuse(&info, (const char* const[]){"", "2", "y", "yes ", "truee", NULL});
}

static void counts_are_plain_digits_within_bounds(void** state) {
    (void)state;
    const berth_option_info info = {"X", BERTH_OPTION_TYPE_COUNT, "0", 3, 500, "", "", ""};
    assert_int_equal(parse_ok(&info, "3").number, 3);
    assert_int_equal(parse_ok(&info, "0500").number, 500);
    refuse(&info,
           (const char* const[]){"",
                                 "2",
                                 "501",
                                 "-4",
                                 "+4",
                                 " 4",
                                 "4 ",
                                 "4.0",
                                 "0x10",
                                 "1e2",
                                 "nan",
                                 "off",
                                 "unlimited",
                                 "99999999999999999999999",
                                 NULL});
    const berth_option_info closed = {"X", BERTH_OPTION_TYPE_COUNT, "0", 0, 9, "", "", ""};
    assert_int_equal(parse_ok(&closed, "OFF").number, 0);
    const berth_option_info open = {
        "X", BERTH_OPTION_TYPE_COUNT, "0", 0, BERTH_OPTION_UNLIMITED, "", "", ""};
    refuse(&open, (const char* const[]){"off", NULL}); // 0, or without end?
    assert_true(parse_ok(&open, "unlimited").number == BERTH_OPTION_UNLIMITED);
}

static void bytes_take_suffixes_based_on_1024(void** state) {
    (void)state;
    const berth_option_info info = {"X", BERTH_OPTION_TYPE_BYTES, "0", 1, 1ull << 62, "", "", ""};
    const struct {
        const char* text;
        uint64_t bytes;
    } good[] = {
        {"7", 7},
        {"7b", 7},
        {"3K", 3 << 10},
        {"3kb", 3 << 10},
        {"3KiB", 3 << 10},
        {"5M", 5 << 20},
        {"5mib", 5 << 20},
        {"2g", 2ull << 30},
        {"2GB", 2ull << 30},
        {"1T", 1ull << 40},
        {"1TiB", 1ull << 40},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(parse_ok(&info, good[i].text).number == good[i].bytes);
    refuse(&info,
           (const char* const[]){"",
                                 "0",
                                 "K",
                                 "3KK",
                                 "3 K",
                                 "3ib",
                                 "-1",
                                 "1.5G",
                                 "3P",
                                 "50%",
                                 "99999999T",
                                 "unlimited",
                                 "nan",
                                 NULL});
}

static void bytes_or_a_share_are_told_apart(void** state) {
    (void)state;
    (void)setenv("BERTH_MEMORY", "37.5%", 1);
    assert_ok(init());
    assert_int_equal(berth_options_bytes(&options, BERTH_OPTION_MEMORY, 1000), 375);
    (void)setenv("BERTH_MEMORY", "1M", 1);
    assert_ok(init());
    assert_int_equal(berth_options_bytes(&options, BERTH_OPTION_MEMORY, 1000), 1 << 20);
    refuse(
        berth_option_query_info(BERTH_OPTION_MEMORY),
        (const char* const[]){"0%", "101%", "-5%", "%", "0.5", "inf", "nan%", "100", "12.%", NULL});
}

static void a_limit_that_is_off_is_shown_as_off(void** state) {
    (void)state;
    const berth_option_info* mark = berth_option_query_info(BERTH_OPTION_HIGH_WATERMARK);
    char shown[160];
    const berth_option_value off = parse_ok(mark, "off"), some = parse_ok(mark, "90%");
    berth_option_value_format(mark, &off, shown, sizeof shown);
    assert_string_equal(shown, "off");
    berth_option_value_format(mark, &some, shown, sizeof shown);
    assert_string_equal(shown, "90%");
    berth_option_describe(mark, shown, sizeof shown);
    assert_non_null(strstr(shown, ", or off"));
    berth_option_describe(berth_option_query_info(BERTH_OPTION_LOW_WATERMARK), shown, sizeof shown);
    assert_null(strstr(shown, "off"));
}

static void a_share_is_a_fraction_or_per_cent_or_off(void** state) {
    (void)state;
    const berth_option_info* fi = berth_option_query_info(BERTH_OPTION_COMPACT_FI);
    static const char* const texts[] = {"0", "0.3", "30%", "1", "100%", "OFF"};
    static const double shares[] = {0, 0.3, 0.3, 1, 1, 2};
    static const char* const normal[] = {"0%", "30%", "30%", "100%", "100%", "off"};
    for (int i = 0; i < 6; i++) {
        char shown[32];
        const berth_option_value value = parse_ok(fi, texts[i]);
        assert_true(value.ratio > shares[i] - 1e-9 && value.ratio < shares[i] + 1e-9);
        berth_option_value_format(fi, &value, shown, sizeof shown);
        assert_string_equal(shown, normal[i]);
    }
    refuse(fi, (const char* const[]){"", "1.5", "101%", "-1", ".5", "30 %", "nan", "on", NULL});
    (void)setenv("BERTH_COMPACT_FI", "0.25", 1);
    assert_ok(init());
    assert_true(berth_options_share(&options, BERTH_OPTION_COMPACT_FI) < 0.26);
    assert_true(berth_options_share(&options, BERTH_OPTION_COMPACT_FI) > 0.24);
}

static void a_word_or_bytes_says_which(void** state) {
    (void)state;
    const berth_option_info* keep = berth_option_query_info(BERTH_OPTION_KEEP);
    assert_int_equal(parse_ok(keep, "ALL").word, BERTH_KEEP_ALL);
    assert_int_equal(parse_ok(keep, "0").word, BERTH_KEEP_BYTES);
    assert_int_equal(parse_ok(keep, "8M").number, 8 << 20);
    refuse(keep, (const char* const[]){"", "al", "alll", "all|auto", "|", "-1", NULL});
}

static void a_text_is_neither_empty_nor_too_long(void** state) {
    (void)state;
    const berth_option_info* log = berth_option_query_info(BERTH_OPTION_LOG);
    char text[BERTH_OPTION_TEXT_BYTES + 1];
    memset(text, 'x', sizeof text);
    text[BERTH_OPTION_TEXT_BYTES] = '\0';
    refuse(log, (const char* const[]){"", text, NULL});
    text[BERTH_OPTION_TEXT_BYTES - 1] = '\0';
    (void)parse_ok(log, text);
}

// --- Texts --------------------------------------------------------------------------------------

static void the_configuration_shows_value_unit_and_origin(void** state) {
    (void)state;
    (void)setenv("BERTH_PLAN_CACHE_BYTES", "1M", 1);
    (void)setenv("BERTH_CONF", "memory=50%", 1);
    char text[16384];
    size_t needed;
    const berth_option_setting setting = {"threads", "3"};
    assert_ok(berth_config_format(&setting, 1, text, sizeof text, &needed));
    assert_int_equal(strlen(text), needed);
    assert_non_null(strstr(text, "BERTH_PLAN_CACHE_BYTES = 1048576 bytes (environment)\n"));
    assert_non_null(strstr(text, "BERTH_MEMORY = 50% (BERTH_CONF)\n"));
    assert_non_null(strstr(text, "BERTH_THREADS = 3 threads (call)\n"));
    assert_non_null(strstr(text, "BERTH_DEVICE = cpu (default)\n"));
}

static void texts_are_cut_to_their_buffer(void** state) {
    (void)state;
    char text[16384];
    size_t needed, again;
    assert_ok(berth_config_markdown(text, sizeof text, &needed));
    assert_int_equal(strlen(text), needed);
    char cut[40];
    memset(cut, 'z', sizeof cut);
    assert_ok(berth_config_markdown(cut, 39, &again));
    assert_int_equal(again, needed);
    assert_int_equal(strlen(cut), 38);
    assert_memory_equal(cut, text, 38);
    assert_int_equal(cut[39], 'z');
    assert_ok(berth_config_markdown(NULL, 0, &again));
    assert_int_equal(again, needed);
}

static void the_table_names_every_option(void** state) {
    (void)state;
    char text[16384];
    size_t needed;
    assert_ok(berth_config_markdown(text, sizeof text, &needed));
    for (unsigned i = 0; i < BERTH_OPTION_COUNT; i++) {
        char name[64];
        (void)snprintf(
            name, sizeof name, "| `BERTH_%s` |", berth_option_query_info((berth_option)i)->name);
        assert_non_null(strstr(text, name));
    }
}

static void a_bad_environment_gives_no_configuration(void** state) {
    (void)state;
    (void)setenv("BERTH_MODE", "", 1);
    size_t needed = 7;
    assert_fails(berth_config_format(NULL, 0, NULL, 0, &needed),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "BERTH_MODE is ''");
    assert_int_equal(needed, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(defaults_hold_where_nothing_is_said),
        TEST(the_call_wins_over_the_variable_over_conf),
        TEST(a_list_in_conf_keeps_its_commas),
        TEST(conf_that_is_no_list_of_pairs_is_an_error),
        TEST(a_bad_value_names_variable_value_and_range),
        TEST(an_unknown_variable_warns_once_with_the_nearest_name),
        TEST(an_unknown_name_is_an_error_when_strict),
        TEST(an_unknown_setting_of_a_call_is_an_error),
        TEST(booleans_are_words_of_any_case),
        TEST(counts_are_plain_digits_within_bounds),
        TEST(bytes_take_suffixes_based_on_1024),
        TEST(bytes_or_a_share_are_told_apart),
        TEST(a_limit_that_is_off_is_shown_as_off),
        TEST(a_share_is_a_fraction_or_per_cent_or_off),
        TEST(a_word_or_bytes_says_which),
        TEST(a_text_is_neither_empty_nor_too_long),
        TEST(the_configuration_shows_value_unit_and_origin),
        TEST(texts_are_cut_to_their_buffer),
        TEST(the_table_names_every_option),
        TEST(a_bad_environment_gives_no_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
