// SPDX-License-Identifier: Apache-2.0
// Request traces in JSON, an object a line.
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "request_trace_internal.h"

/// The members of a format.
typedef struct members {
    const char* arrival;
    const char* prompt;
    const char* answer;
    const char* prompt_ids;
    const char* tail_ids; ///< NULL: none
} members;

static const members mooncake = {"timestamp", "input_length", "output_length", "hash_ids", NULL};
static const members blocks = {"t_ms", "in", "out", "in_blocks", "all_blocks_tail"};

/// Latest arrival, in milliseconds: a century or so.
#define MOST_MS 4e12
/// Ids that a double holds exactly, as other programs read them.
#define MOST_ID (INT64_C(1) << 53)

static berth_status parse(llm_trace_reader* reader, json_t** out) {
    json_error_t why;
    *out = json_loadb(reader->line.data, reader->line.size - 1, JSON_REJECT_DUPLICATES, &why);
    if (*out == NULL && json_error_code(&why) == json_error_out_of_memory)
        return llm_fail_memory(reader->error, "an object of JSON");
    if (*out == NULL) return llm_trace_fail(reader, "no JSON: %s", why.text);
    if (json_is_object(*out)) return BERTH_OK;
    json_decref(*out);
    *out = NULL;
    return llm_trace_fail(reader, "no object of JSON");
}

bool llm_trace_read_first_object(llm_trace_reader* reader) {
    json_error_t why;
    json_t* object = json_loadb(reader->line.data, reader->line.size - 1, 0, &why);
    const bool is_mooncake = json_object_get(object, mooncake.prompt_ids) != NULL;
    const bool is_blocks = json_object_get(object, blocks.prompt_ids) != NULL;
    reader->trace->format = is_mooncake ? LLM_TRACE_MOONCAKE : LLM_TRACE_BLOCKS;
    json_decref(object);
    return is_mooncake || is_blocks;
}

static berth_status read_count(
    llm_trace_reader* reader, const json_t* object, const char* name, int64_t most, int64_t* out) {
    const json_t* member = json_object_get(object, name);
    if (!json_is_integer(member)) return llm_trace_fail(reader, "\"%s\" is no whole number", name);
    *out = json_integer_value(member);
    return llm_trace_check(reader, name, *out, 0, most);
}

static berth_status read_ids(llm_trace_reader* reader,
                             const json_t* object,
                             const char* name,
                             size_t* out_count) {
    const json_t* list = json_object_get(object, name);
    if (!json_is_array(list)) return llm_trace_fail(reader, "\"%s\" is no list", name);
    *out_count = json_array_size(list);
    for (size_t i = 0; i < *out_count; ++i) {
        const json_t* id = json_array_get(list, i);
        if (!json_is_integer(id))
            return llm_trace_fail(reader, "\"%s\" has something that is no whole number", name);
        LLM_TRACE_TRY(llm_trace_check(reader, "an id", json_integer_value(id), 0, MOST_ID));
        LLM_TRACE_TRY(llm_trace_add_id(reader, json_integer_value(id)));
    }
    return BERTH_OK;
}

/// There are as many ids as the tokens have blocks.
static berth_status check_ids(llm_trace_reader* reader, const llm_trace_row* row) {
    const int64_t size = reader->trace->block_tokens;
    const bool has_tail = reader->trace->format == LLM_TRACE_BLOCKS;
    const int64_t prompt =
        has_tail ? row->prompt_tokens / size : (row->prompt_tokens - 1) / size + 1;
    const int64_t all = has_tail ? (row->prompt_tokens + row->answer_tokens) / size : prompt;
    if (row->prompt_ids == (size_t)prompt && row->tail_ids == (size_t)(all - prompt))
        return BERTH_OK;
    return llm_trace_fail(reader,
                          "%zu and %zu ids; %lld and %lld tokens have %lld and %lld",
                          row->prompt_ids,
                          row->tail_ids,
                          (long long)row->prompt_tokens,
                          (long long)row->answer_tokens,
                          (long long)prompt,
                          (long long)(all - prompt));
}

static berth_status read_object(llm_trace_reader* reader, const json_t* object) {
    const bool is_mooncake = reader->trace->format == LLM_TRACE_MOONCAKE;
    const members* names = is_mooncake ? &mooncake : &blocks;
    llm_trace_row row = {.session = -1};
    const json_t* arrival = json_object_get(object, names->arrival);
    row.arrival_ms = json_number_value(arrival);
    if (!json_is_number(arrival) || !(row.arrival_ms >= 0 && row.arrival_ms <= MOST_MS))
        return llm_trace_fail(
            reader, "\"%s\" is no time from 0 to %.0f ms", names->arrival, MOST_MS);
    LLM_TRACE_TRY(
        read_count(reader, object, names->prompt, LLM_TRACE_MOST_TOKENS, &row.prompt_tokens));
    LLM_TRACE_TRY(
        read_count(reader, object, names->answer, LLM_TRACE_MOST_TOKENS, &row.answer_tokens));
    LLM_TRACE_TRY(llm_trace_add_row(reader, row));
    llm_trace_row* added = &reader->trace->rows[reader->trace->row_count - 1];
    LLM_TRACE_TRY(read_ids(reader, object, names->prompt_ids, &added->prompt_ids));
    if (names->tail_ids != NULL)
        LLM_TRACE_TRY(read_ids(reader, object, names->tail_ids, &added->tail_ids));
    return check_ids(reader, added);
}

berth_status llm_trace_read_json_line(llm_trace_reader* reader) {
    json_t* object;
    LLM_TRACE_TRY(parse(reader, &object));
    const berth_status status = read_object(reader, object);
    json_decref(object);
    return status;
}
