// SPDX-License-Identifier: Apache-2.0
// Splits lines in place.
#include "plan/csv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

void berth_csv_init(berth_csv* csv, const char* name, char* text, size_t size) {
    *csv = (berth_csv){.name = name, .at = text, .end = text + size};
    *csv->end = '\0';
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) csv->at += 3;
}

berth_status berth_csv_fail(const berth_csv* csv, const char* format, ...) {
    char sentence[384];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return berth_fail(BERTH_ERR_CORRUPT, "%s:%u: %s", csv->name, csv->line, sentence);
}

const char* berth_csv_shown(const char* text, char out[BERTH_CSV_SHOWN_BYTES]) {
    size_t length = 0;
    for (; text[length] != '\0' && length + 1 < BERTH_CSV_SHOWN_BYTES; length++)
        out[length] =
            (unsigned char)text[length] < 0x20 || text[length] == 0x7F ? '?' : text[length];
    out[length] = '\0';
    if (text[length] != '\0') memcpy(out + length - 3, "...", 3);
    return out;
}

static bool is_space(char c) { return c == ' ' || c == '\t'; }

/// Reads a quoted field, `at` being behind the opening quote. Returns the place behind the closing
/// one, or NULL if there is none.
static char* unquote(char* at, const char* line_end, char** out_end) {
    char* to = at;
    for (;;) {
        if (at >= line_end) return NULL;
        if (*at == '"') {
            at++;
            if (at >= line_end || *at != '"') break;
        }
        *to++ = *at++;
    }
    *out_end = to;
    return at;
}

/// Finds the field at `*at`, which moves on to the comma behind it or to the line's end.
static berth_status find_field(
    const berth_csv* csv, char** at, char* line_end, char** out_field, char** out_end) {
    while (*at < line_end && is_space(**at))
        (*at)++;
    *out_field = *at;
    if (*at < line_end && **at == '"') {
        ++*out_field;
        *at = unquote(*out_field, line_end, out_end);
        if (*at == NULL) return berth_csv_fail(csv, "a field's closing quote is missing");
        while (*at < line_end && is_space(**at))
            (*at)++;
        if (*at < line_end && **at != ',')
            return berth_csv_fail(csv, "a field goes on behind its closing quote");
        return BERTH_OK;
    }
    while (*at < line_end && **at != ',')
        (*at)++;
    *out_end = *at;
    while (*out_end > *out_field && is_space((*out_end)[-1]))
        --*out_end;
    return BERTH_OK;
}

static berth_status split(berth_csv* csv, char* line, char* line_end) {
    csv->count = 0;
    for (char* at = line; at <= line_end; at++) {
        char* field = NULL;
        char* field_end = NULL;
        BERTH_TRY(find_field(csv, &at, line_end, &field, &field_end));
        if (csv->count == BERTH_CSV_FIELDS)
            return berth_csv_fail(csv, "the line has more than %u fields", BERTH_CSV_FIELDS);
        csv->fields[csv->count++] = field;
        *field_end = '\0'; // a comma, quote or space, or the line's end, none of them needed again
    }
    return BERTH_OK;
}

static bool is_blank(const char* at, const char* end) {
    while (at < end && is_space(*at))
        at++;
    return at == end;
}

berth_status berth_csv_next(berth_csv* csv, bool* out_more) {
    *out_more = false;
    while (csv->at < csv->end) {
        char* line = csv->at;
        char* line_end = memchr(line, '\n', (size_t)(csv->end - line));
        csv->at = line_end != NULL ? line_end + 1 : csv->end;
        if (line_end == NULL) line_end = csv->end;
        if (line_end > line && line_end[-1] == '\r') line_end--;
        if (csv->line == UINT32_MAX)
            return berth_fail(BERTH_ERR_CORRUPT, "%s has too many lines", csv->name);
        csv->line++;
        if (is_blank(line, line_end)) continue;
        if (memchr(line, '\0', (size_t)(line_end - line)) != NULL)
            return berth_csv_fail(csv, "the line has a zero byte: this is not a text");
        *out_more = true;
        return split(csv, line, line_end);
    }
    return BERTH_OK;
}

/// Fails for a column that is none of `names` [count], which it lists.
static berth_status refuse_column(const berth_csv* csv,
                                  const char* name,
                                  const char* const* names,
                                  uint32_t count) {
    char shown[BERTH_CSV_SHOWN_BYTES], known[192] = "";
    size_t at = 0;
    for (uint32_t c = 0; c < count && at < sizeof known; c++)
        at += (size_t)snprintf(known + at, sizeof known - at, " %s", names[c]);
    return berth_csv_fail(
        csv, "there is no column called '%s', only%s", berth_csv_shown(name, shown), known);
}

/// The number of the column called `name`, or `count`.
static uint32_t find_column(const char* name, const char* const* names, uint32_t count) {
    uint32_t column = 0;
    while (column < count && strcmp(names[column], name) != 0)
        column++;
    return column;
}

berth_status berth_csv_read_header(berth_csv* csv,
                                   const char* const* names,
                                   uint32_t count,
                                   uint32_t required,
                                   berth_csv_columns* out_columns) {
    out_columns->count = csv->count;
    for (uint32_t c = 0; c < BERTH_CSV_FIELDS; c++)
        out_columns->of[c] = BERTH_CSV_FIELDS;
    for (uint32_t f = 0; f < csv->count; f++) {
        const uint32_t column = find_column(csv->fields[f], names, count);
        if (column == count) return refuse_column(csv, csv->fields[f], names, count);
        if (out_columns->of[column] != BERTH_CSV_FIELDS)
            return berth_csv_fail(csv, "the column '%s' is there twice", names[column]);
        out_columns->of[column] = f;
    }
    for (uint32_t c = 0; c < required; c++)
        if (out_columns->of[c] == BERTH_CSV_FIELDS)
            return berth_csv_fail(csv, "the column '%s' is missing", names[c]);
    return BERTH_OK;
}

berth_status berth_csv_next_row(berth_csv* csv, const berth_csv_columns* columns, bool* out_more) {
    BERTH_TRY(berth_csv_next(csv, out_more));
    if (!*out_more || csv->count == columns->count) return BERTH_OK;
    return berth_csv_fail(csv, "the line has %u fields, the header %u", csv->count, columns->count);
}

const char* berth_csv_text(const berth_csv* csv,
                           const berth_csv_columns* columns,
                           uint32_t column) {
    const uint32_t field = columns->of[column];
    return field < csv->count ? csv->fields[field] : "";
}

berth_status berth_csv_number(
    const berth_csv* csv, const char* text, const char* what, uint64_t most, uint64_t* out_number) {
    char shown[BERTH_CSV_SHOWN_BYTES];
    uint64_t number = 0;
    bool fits = true;
    const char* at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        fits = fits && number <= (UINT64_MAX - digit) / 10;
        if (fits) number = number * 10 + digit;
    }
    if (at == text || *at != '\0')
        return berth_csv_fail(
            csv, "%s is '%s', not a whole number", what, berth_csv_shown(text, shown));
    if (!fits || number > most)
        return berth_csv_fail(csv,
                              "%s is %s, more than %llu",
                              what,
                              berth_csv_shown(text, shown),
                              (unsigned long long)most);
    *out_number = number;
    return BERTH_OK;
}
