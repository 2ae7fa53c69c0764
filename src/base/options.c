// SPDX-License-Identifier: Apache-2.0
// Where option values come from. The only file that looks at the environment.
#include "base/options.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/options_value.h"
#include "base/text.h"

#define PREFIX "BERTH_"
#define PREFIX_BYTES (sizeof PREFIX - 1)
#define NAME_BYTES 64
#define SUGGESTIONS 3

/// Names with our prefix that others read: the tests' data.
static const char* const foreign_names[] = {"SHARED"};

/// Unknown names, gathered until it is known whether they are an error.
typedef struct unknown_names {
    char text[1024];
    size_t used;
} unknown_names;

// --- Names --------------------------------------------------------------------------------------

static const char* without_prefix(const char* name) {
    return strncasecmp(name, PREFIX, PREFIX_BYTES) == 0 ? name + PREFIX_BYTES : name;
}

/// The option called `name`; BERTH_OPTION_COUNT if there is none.
static berth_option find_option(const char* name) {
    const char* bare = without_prefix(name);
    unsigned option = 0;
    while (option < BERTH_OPTION_COUNT &&
           strcasecmp(berth_option_query_info((berth_option)option)->name, bare) != 0)
        option++;
    return (berth_option)option;
}

static char upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }

/// Single-letter insertions, removals and replacements that make `a` into `b`, in any case.
static size_t edit_distance(const char* a, const char* b) {
    size_t row[NAME_BYTES + 1];
    const size_t width = strnlen(b, NAME_BYTES);
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 0; a[i] != '\0' && i < NAME_BYTES; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= width; j++) {
            size_t best = diagonal + (upper(a[i]) != upper(b[j - 1]));
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[width];
}

/// Writes " (did you mean BERTH_A or BERTH_B?)", or nothing if no name is near.
static void suggest(const char* name, char* out, size_t size) {
    const char* bare = without_prefix(name);
    const size_t length = strlen(bare);
    // of a short name half the letters at most: "foo" is not near to LOG
    const size_t farthest = length < 6 ? length / 2 : length / 3 + 1;
    berth_text text = {out, size, 0};
    size_t count = 0;
    out[0] = '\0';
    for (size_t distance = 0; distance <= farthest && count < SUGGESTIONS; distance++) {
        for (unsigned i = 0; i < BERTH_OPTION_COUNT && count < SUGGESTIONS; i++) {
            const char* known = berth_option_query_info((berth_option)i)->name;
            if (edit_distance(bare, known) != distance) continue;
            berth_text_add(&text, "%s" PREFIX "%s", count == 0 ? " (did you mean " : " or ", known);
            count++;
        }
    }
    if (count > 0) berth_text_add(&text, "?)");
}

static void add_unknown(unknown_names* unknown, const char* name, const char* where) {
    char near[160];
    suggest(name, near, sizeof near);
    const size_t room = sizeof unknown->text - unknown->used;
    const int added = snprintf(unknown->text + unknown->used,
                               room,
                               "%s%.*s%s%s",
                               unknown->used == 0 ? "" : ", ",
                               NAME_BYTES,
                               name,
                               where,
                               near);
    if (added > 0) unknown->used += (size_t)added < room ? (size_t)added : room - 1;
}

// --- Sources ------------------------------------------------------------------------------------

static const char* const origin_names[] = {
    [BERTH_OPTION_ORIGIN_DEFAULT] = "default",
    [BERTH_OPTION_ORIGIN_CONF] = PREFIX "CONF",
    [BERTH_OPTION_ORIGIN_ENVIRONMENT] = "environment",
    [BERTH_OPTION_ORIGIN_CALL] = "call",
};

static berth_status set(berth_options* out,
                        berth_option option,
                        const char* text,
                        berth_option_origin origin) {
    const berth_option_info* info = berth_option_query_info(option);
    berth_option_value value;
    if (!berth_option_parse(info, text, &value)) {
        char accepted[256];
        berth_option_describe(info, accepted, sizeof accepted);
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          PREFIX "%s is '%.100s' (%s); it accepts %s",
                          info->name,
                          text,
                          origin_names[origin],
                          accepted);
    }
    value.origin = origin;
    out->values[option] = value;
    return BERTH_OK;
}

static berth_status set_defaults(berth_options* out) {
    for (unsigned i = 0; i < BERTH_OPTION_COUNT; i++) {
        const berth_option option = (berth_option)i;
        BERTH_TRY(set(out,
                      option,
                      berth_option_query_info(option)->default_text,
                      BERTH_OPTION_ORIGIN_DEFAULT));
    }
    return BERTH_OK;
}

static berth_status set_pair(berth_options* out, char* pair, unknown_names* unknown) {
    char* equals = strchr(pair, '=');
    if (equals == NULL)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          PREFIX "CONF has '%.100s' where NAME=VALUE is expected",
                          pair);
    *equals = '\0';
    const berth_option option = find_option(pair);
    if (option == BERTH_OPTION_CONF || *pair == '\0')
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, PREFIX "CONF cannot set '%s'", pair);
    if (option == BERTH_OPTION_COUNT) {
        add_unknown(unknown, pair, " in " PREFIX "CONF");
        return BERTH_OK;
    }
    return set(out, option, equals + 1, BERTH_OPTION_ORIGIN_CONF);
}

/// The end of the pair at `text`: a comma, unless what follows has no '=' before the next one and
/// so belongs to this value (a list).
static char* find_pair_end(char* text) {
    char* end = text + strcspn(text, ",");
    while (*end == ',') {
        const char* next = end + 1;
        const size_t length = strcspn(next, ",");
        if (length == 0 || memchr(next, '=', length) != NULL) break;
        end += 1 + length;
    }
    return end;
}

static berth_status set_from_conf(berth_options* out, const char* conf, unknown_names* unknown) {
    char text[BERTH_OPTION_TEXT_BYTES];
    (void)snprintf(text, sizeof text, "%s", conf);
    for (char* at = text; *at != '\0';) {
        char* end = find_pair_end(at);
        const bool last = *end == '\0';
        *end = '\0';
        at += strspn(at, " ");
        if (*at != '\0') BERTH_TRY(set_pair(out, at, unknown));
        at = last ? end : end + 1;
    }
    return BERTH_OK;
}

static bool is_foreign(const char* name) {
    for (size_t i = 0; i < sizeof foreign_names / sizeof foreign_names[0]; i++) {
        if (strcmp(foreign_names[i], name) == 0) return true;
    }
    return false;
}

static berth_status set_from_environment(berth_options* out, unknown_names* unknown) {
    for (unsigned i = 0; i < BERTH_OPTION_COUNT; i++) {
        const berth_option option = (berth_option)i;
        char name[NAME_BYTES];
        (void)snprintf(name, sizeof name, PREFIX "%s", berth_option_query_info(option)->name);
        const char* text = getenv(name);
        if (text != NULL) BERTH_TRY(set(out, option, text, BERTH_OPTION_ORIGIN_ENVIRONMENT));
    }
    for (char** entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, PREFIX, PREFIX_BYTES) != 0) continue;
        char name[NAME_BYTES];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        // Names of variables have one case: berth_threads and Berth_Threads are not ours.
        const berth_option option = find_option(name);
        const bool known = option != BERTH_OPTION_COUNT &&
                           strcmp(berth_option_query_info(option)->name, name + PREFIX_BYTES) == 0;
        if (!known && !is_foreign(name + PREFIX_BYTES)) add_unknown(unknown, name, "");
    }
    return BERTH_OK;
}

static berth_status set_from_call(berth_options* out,
                                  const berth_option_setting* settings,
                                  size_t count) {
    if (settings == NULL && count > 0)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "%zu settings are missing", count);
    for (size_t i = 0; i < count; i++) {
        if (settings[i].name == NULL || settings[i].value == NULL)
            return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "setting %zu has no name or no value", i);
        const berth_option option = find_option(settings[i].name);
        if (option == BERTH_OPTION_COUNT || option == BERTH_OPTION_CONF) {
            char near[160];
            suggest(settings[i].name, near, sizeof near);
            return berth_fail(
                BERTH_ERR_INVALID_ARGUMENT, "there is no option '%.64s'%s", settings[i].name, near);
        }
        BERTH_TRY(set(out, option, settings[i].value, BERTH_OPTION_ORIGIN_CALL));
    }
    return BERTH_OK;
}

/// Reports unknown names: an error if the options say so, else a warning, the same one only once.
static berth_status judge_unknown(const berth_options* options, const unknown_names* unknown) {
    if (unknown->used == 0) return BERTH_OK;
    if (berth_options_bool(options, BERTH_OPTION_STRICT))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "unknown option: %s", unknown->text);
    static atomic_uint_least64_t last_warning;
    const uint64_t warning = berth_hash64(unknown->text, unknown->used, 1);
    if (atomic_exchange(&last_warning, warning) != warning)
        berth_log_line(BERTH_LOG_WARN, "unknown option ignored: %s", unknown->text);
    return BERTH_OK;
}

static void print_once(const berth_options* options) {
    static atomic_flag printed = ATOMIC_FLAG_INIT;
    if (!berth_options_bool(options, BERTH_OPTION_PRINT_CONFIG)) return;
    if (atomic_flag_test_and_set(&printed)) return;
    char text[BERTH_OPTION_COUNT * (BERTH_OPTION_TEXT_BYTES + 64)];
    (void)berth_options_format(options, text, sizeof text);
    (void)fputs(text, stderr);
}

/// Everything but what is said to people.
static berth_status read_all(berth_options* out,
                             const berth_option_setting* settings,
                             size_t count,
                             unknown_names* unknown) {
    BERTH_TRY(set_defaults(out));
    const char* conf = getenv(PREFIX "CONF");
    if (conf != NULL) {
        BERTH_TRY(set(out, BERTH_OPTION_CONF, conf, BERTH_OPTION_ORIGIN_ENVIRONMENT));
        BERTH_TRY(set_from_conf(out, conf, unknown));
    }
    BERTH_TRY(set_from_environment(out, unknown));
    return set_from_call(out, settings, count);
}

berth_status berth_options_init(berth_options* out,
                                const berth_option_setting* settings,
                                size_t count) {
    unknown_names unknown = {.used = 0};
    BERTH_TRY(read_all(out, settings, count, &unknown));
    BERTH_TRY(judge_unknown(out, &unknown));
    print_once(out);
    return BERTH_OK;
}

// --- Values -------------------------------------------------------------------------------------

uint64_t berth_options_u64(const berth_options* options, berth_option option) {
    return options->values[option].number;
}

uint64_t berth_options_bytes(const berth_options* options, berth_option option, uint64_t whole) {
    const berth_option_value* value = &options->values[option];
    return value->ratio >= 0 ? (uint64_t)(value->ratio * (double)whole) : value->number;
}

double berth_options_share(const berth_options* options, berth_option option) {
    return options->values[option].ratio;
}

bool berth_options_bool(const berth_options* options, berth_option option) {
    return options->values[option].number != 0;
}

uint32_t berth_options_word(const berth_options* options, berth_option option) {
    return options->values[option].word;
}

const char* berth_options_text(const berth_options* options, berth_option option) {
    return options->values[option].text;
}

// --- Text ---------------------------------------------------------------------------------------

size_t berth_options_format(const berth_options* options, char* buffer, size_t size) {
    berth_text out = {buffer, size, 0};
    for (unsigned i = 0; i < BERTH_OPTION_COUNT; i++) {
        const berth_option_info* info = berth_option_query_info((berth_option)i);
        const berth_option_value* value = &options->values[i];
        char text[BERTH_OPTION_TEXT_BYTES];
        berth_option_value_format(info, value, text, sizeof text);
        const bool is_number = text[0] >= '0' && text[0] <= '9' && strchr(text, '%') == NULL;
        berth_text_add(&out,
                       PREFIX "%s = %s%s%s (%s)\n",
                       info->name,
                       text,
                       is_number && *info->unit != '\0' ? " " : "",
                       is_number ? info->unit : "",
                       origin_names[value->origin]);
    }
    return out.length;
}

static berth_status check_output(const char* buffer, size_t size, const size_t* out_needed) {
    if (out_needed != NULL && (buffer != NULL || size == 0)) return BERTH_OK;
    return berth_fail(BERTH_ERR_INVALID_ARGUMENT, "a buffer and a place for the length are needed");
}

berth_status berth_config_format(const berth_option_setting* settings,
                                 size_t setting_count,
                                 char* buffer,
                                 size_t size,
                                 size_t* out_needed) {
    BERTH_TRY(check_output(buffer, size, out_needed));
    *out_needed = 0;
    berth_options options;
    BERTH_TRY(berth_options_init(&options, settings, setting_count));
    *out_needed = berth_options_format(&options, buffer, size);
    return BERTH_OK;
}

/// Appends `text` for a cell of a table: the sign between words is the sign between cells.
static void append_cell(berth_text* out, const char* text) {
    for (; *text != '\0'; text++)
        berth_text_add(out, *text == '|' ? "\\|" : "%c", *text);
}

berth_status berth_config_markdown(char* buffer, size_t size, size_t* out_needed) {
    BERTH_TRY(check_output(buffer, size, out_needed));
    berth_text out = {buffer, size, 0};
    berth_text_add(&out, "| Variable | Accepts | Default | Meaning |\n| --- | --- | --- | --- |\n");
    for (unsigned i = 0; i < BERTH_OPTION_COUNT; i++) {
        const berth_option_info* info = berth_option_query_info((berth_option)i);
        char accepted[256];
        berth_option_describe(info, accepted, sizeof accepted);
        berth_text_add(&out, "| `" PREFIX "%s` | ", info->name);
        append_cell(&out, accepted);
        berth_text_add(&out, " | `%s` | %s |\n", info->default_text, info->help);
    }
    *out_needed = out.length;
    return BERTH_OK;
}
