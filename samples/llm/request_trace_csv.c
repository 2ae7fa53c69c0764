// SPDX-License-Identifier: Apache-2.0
// Request traces in CSV: columns by their names, numbers without quotes.
#include <ctype.h>
#include <string.h>

#include "request_trace_internal.h"

/// A CSV whose columns are known.
typedef struct layout {
    llm_trace_format format;
    const char* names[LLM_TRACE_MOST_COLUMNS]; ///< those that are read
} layout;

enum { AZURE_TIME, AZURE_PROMPT, AZURE_ANSWER };
enum { LENGTHS_PROMPT, LENGTHS_ANSWER };
enum { AGENT_SESSION, AGENT_ROUND, AGENT_START, AGENT_PROMPT, AGENT_PREFIX, AGENT_ANSWER };

static const layout layouts[] = {
    {LLM_TRACE_AZURE, {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}},
    {LLM_TRACE_LENGTHS, {"num_prefill_tokens", "num_decode_tokens"}},
    {LLM_TRACE_AGENT,
     {"session", "round", "start_ms", "input_tokens", "prefix_tokens", "output_tokens"}},
};

/// Cuts the line into fields; returns how many, or one more than there may be.
static size_t split(char* line, char* fields[LLM_TRACE_MOST_FIELDS]) {
    size_t count = 0;
    for (char* at = line; at != NULL; ++count) {
        if (count == LLM_TRACE_MOST_FIELDS) return count + 1;
        fields[count] = at;
        at = strchr(at, ',');
        if (at != NULL) *at++ = '\0';
    }
    return count;
}

static bool find_columns(llm_trace_reader* reader,
                         const layout* known,
                         char* const* fields,
                         size_t count) {
    for (size_t i = 0; i < LLM_TRACE_MOST_COLUMNS && known->names[i] != NULL; ++i) {
        size_t at = 0;
        while (at < count && strcmp(fields[at], known->names[i]) != 0)
            ++at;
        if (at == count) return false;
        reader->columns[i] = at;
    }
    reader->trace->format = known->format;
    return true;
}

bool llm_trace_read_header(llm_trace_reader* reader) {
    char* fields[LLM_TRACE_MOST_FIELDS];
    char copy[1024];
    if (reader->line.size > sizeof copy) return false;
    memcpy(copy, reader->line.data, reader->line.size);
    const size_t count = split(copy, fields);
    if (count > LLM_TRACE_MOST_FIELDS) return false;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; ++i)
        if (find_columns(reader, &layouts[i], fields, count)) return true;
    return false;
}

/// Reads the decimal number at `*at`, of at most `digits` digits, and goes behind it.
static bool read_digits(const char** at, int digits, int64_t* out) {
    int64_t value = 0;
    int count = 0;
    while (isdigit((unsigned char)**at) && count < digits) {
        value = value * 10 + (*(*at)++ - '0');
        ++count;
    }
    *out = value;
    return count > 0;
}

/// The number in a column, 0 to `most`.
static berth_status read_number(llm_trace_reader* reader,
                                char* const* fields,
                                size_t column,
                                const char* name,
                                int64_t most,
                                int64_t* out) {
    const char* field = fields[reader->columns[column]];
    const char* end = field;
    if (!read_digits(&end, 18, out) || *end != '\0')
        return llm_trace_fail(
            reader, "%s is '%s', no number", name, llm_quote(llm_str_of(field)).text);
    return llm_trace_check(reader, name, *out, 0, most);
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
static int64_t count_days(int64_t year, int64_t month, int64_t day) {
    // the year begins in March, so that leap days end it
    const int64_t y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 719469;
}

static bool read_fraction(const char** at, double* out) {
    double unit = 0.1;
    *out = 0;
    if (**at != '.') return true;
    if (!isdigit((unsigned char)*++*at)) return false;
    for (; isdigit((unsigned char)**at); ++*at, unit /= 10)
        *out += unit * (**at - '0');
    return true;
}

/// "2023-11-16 18:15:46.6805900", also with T between and +00:00 or Z behind, in milliseconds.
static bool read_time(const char* text, double* out_ms) {
    int64_t parts[6];
    static const char between[] = "-- ::";
    const char* at = text;
    for (int i = 0; i < 6; ++i) {
        if (!read_digits(&at, i == 0 ? 4 : 2, &parts[i])) return false;
        if (i == 5) break;
        if (*at != between[i] && !(i == 2 && *at == 'T')) return false;
        ++at;
    }
    double fraction;
    if (!read_fraction(&at, &fraction)) return false;
    if (strcmp(at, "") != 0 && strcmp(at, "Z") != 0 && strcmp(at, "+00:00") != 0) return false;
    if (parts[0] < 1970 || parts[1] < 1 || parts[1] > 12 || parts[2] < 1 || parts[2] > 31 ||
        parts[3] > 23 || parts[4] > 59 || parts[5] > 60)
        return false;
    const int64_t seconds = count_days(parts[0], parts[1], parts[2]) * 86400 + parts[3] * 3600 +
                            parts[4] * 60 + parts[5];
    *out_ms = ((double)seconds + fraction) * 1000;
    return true;
}

static berth_status read_azure(llm_trace_reader* reader, char* const* fields) {
    llm_trace_row row = {.session = -1};
    const char* time = fields[reader->columns[AZURE_TIME]];
    if (!read_time(time, &row.arrival_ms))
        return llm_trace_fail(
            reader, "TIMESTAMP is '%s', no time", llm_quote(llm_str_of(time)).text);
    LLM_TRACE_TRY(read_number(
        reader, fields, AZURE_PROMPT, "ContextTokens", LLM_TRACE_MOST_TOKENS, &row.prompt_tokens));
    LLM_TRACE_TRY(read_number(reader,
                              fields,
                              AZURE_ANSWER,
                              "GeneratedTokens",
                              LLM_TRACE_MOST_TOKENS,
                              &row.answer_tokens));
    return llm_trace_add_row(reader, row);
}

static berth_status read_lengths(llm_trace_reader* reader, char* const* fields) {
    llm_trace_row row = {.session = -1, .arrival_ms = -1};
    LLM_TRACE_TRY(read_number(reader,
                              fields,
                              LENGTHS_PROMPT,
                              "num_prefill_tokens",
                              LLM_TRACE_MOST_TOKENS,
                              &row.prompt_tokens));
    LLM_TRACE_TRY(read_number(reader,
                              fields,
                              LENGTHS_ANSWER,
                              "num_decode_tokens",
                              LLM_TRACE_MOST_TOKENS,
                              &row.answer_tokens));
    return llm_trace_add_row(reader, row);
}

/// Gives the round ids: those of the round before as far as its first `prefix` tokens go, then new
/// ones.
static berth_status add_agent_ids(llm_trace_reader* reader, int64_t prefix) {
    const llm_request_trace* trace = reader->trace;
    const llm_trace_row row = trace->rows[trace->row_count - 1];
    const llm_trace_row* before = trace->row_count > 1 ? &trace->rows[trace->row_count - 2] : NULL;
    size_t shared = 0;
    if (before != NULL && before->session == row.session) {
        shared = before->prompt_ids + before->tail_ids;
        if (shared > (size_t)(prefix / 16)) shared = (size_t)(prefix / 16);
    }
    for (size_t i = 0; i < row.prompt_ids + row.tail_ids; ++i) {
        const int64_t fresh = (int64_t)trace->id_count;
        const int64_t id = i < shared ? trace->ids[before->first_id + i] : fresh;
        LLM_TRACE_TRY(llm_trace_add_id(reader, id));
    }
    return BERTH_OK;
}

static berth_status read_agent(llm_trace_reader* reader, char* const* fields) {
    llm_trace_row row = {0};
    int64_t start, prefix;
    LLM_TRACE_TRY(
        read_number(reader, fields, AGENT_SESSION, "session", INT64_C(1) << 40, &row.session));
    LLM_TRACE_TRY(read_number(reader, fields, AGENT_START, "start_ms", INT64_C(1) << 50, &start));
    LLM_TRACE_TRY(read_number(
        reader, fields, AGENT_PROMPT, "input_tokens", LLM_TRACE_MOST_TOKENS, &row.prompt_tokens));
    LLM_TRACE_TRY(
        read_number(reader, fields, AGENT_PREFIX, "prefix_tokens", row.prompt_tokens, &prefix));
    LLM_TRACE_TRY(read_number(
        reader, fields, AGENT_ANSWER, "output_tokens", LLM_TRACE_MOST_TOKENS, &row.answer_tokens));
    row.arrival_ms = (double)start;
    row.prompt_ids = (size_t)(row.prompt_tokens / 16);
    row.tail_ids = (size_t)((row.prompt_tokens + row.answer_tokens) / 16) - row.prompt_ids;
    LLM_TRACE_TRY(llm_trace_add_row(reader, row));
    return add_agent_ids(reader, prefix);
}

berth_status llm_trace_read_csv_line(llm_trace_reader* reader) {
    char* fields[LLM_TRACE_MOST_FIELDS];
    const size_t count = split(reader->line.data, fields);
    if (count > LLM_TRACE_MOST_FIELDS) return llm_trace_fail(reader, "more than 64 columns");
    for (size_t i = 0; i < LLM_TRACE_MOST_COLUMNS; ++i)
        if (reader->columns[i] >= count)
            return llm_trace_fail(
                reader, "%zu columns; the header has at least %zu", count, reader->columns[i] + 1);
    switch (reader->trace->format) {
    case LLM_TRACE_AZURE:
        return read_azure(reader, fields);
    case LLM_TRACE_LENGTHS:
        return read_lengths(reader, fields);
    case LLM_TRACE_AGENT:
        return read_agent(reader, fields);
    case LLM_TRACE_MOONCAKE:
    case LLM_TRACE_BLOCKS:
    case LLM_TRACE_FORMAT_COUNT:
        break;
    }
    return llm_trace_fail(reader, "no CSV");
}
