// SPDX-License-Identifier: Apache-2.0
// Bodies of JSON read within bounds, members checked, values written behind a text.
#include "api_json.h"

#include "api_request.h"
#include "unicode.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/// Digits of numbers: those that a double always keeps.
enum { REAL_DIGITS = 15 };
/// Up to here doubles hold each whole number.
#define MOST_WHOLE_REAL 0x1p53

static const char replacement[3] = {'\xef', '\xbf', '\xbd'}; // U+FFFD

/// An allocation of the JSON library failed since this was last set to false.
static _Thread_local bool lacked_memory;

static void* allocate(size_t bytes) {
    void* block = llm_alloc(1, bytes);
    lacked_memory |= block == NULL;
    return block;
}

void api_init(void) { json_set_alloc_funcs(allocate, llm_free); }

bool api_json_fail_memory(api_error* error) {
    return api_fail(error, API_ERROR_OUT_OF_MEMORY, NULL, "no memory for the request");
}

/// How much a body holds, as its brackets and commas outside of strings say.
typedef struct extent {
    size_t depth; ///< where the count stands
    size_t most_depth;
    size_t lists; ///< and objects
    size_t values;
} extent;

/// Returns the place of the quote that ends the string which begins before `at`.
static size_t skip_string(llm_str body, size_t at) {
    for (; at < body.size && body.data[at] != '"'; at++)
        at += body.data[at] == '\\';
    return at;
}

static void count_character(extent* e, char c) {
    if (c == '[' || c == '{') {
        e->lists++;
        e->values++;
        if (++e->depth > e->most_depth) e->most_depth = e->depth;
    } else if (c == ']' || c == '}') {
        e->depth -= e->depth > 0;
    } else if (c == ',') {
        e->values++;
    }
}

/// Measures a body before it is read: the library takes stack for each level, and a hundred times
/// its text for an empty object.
static bool check_extent(llm_str body, api_error* error) {
    extent e = {0};
    for (size_t at = 0; at < body.size; at++) {
        if (body.data[at] == '"')
            at = skip_string(body, at + 1);
        else
            count_character(&e, body.data[at]);
    }
    if (e.most_depth > API_MOST_DEPTH)
        return api_fail(error,
                        API_ERROR_INVALID,
                        NULL,
                        "the body nests %zu deep; at most %d levels are read",
                        e.most_depth,
                        API_MOST_DEPTH);
    if (e.lists > API_MOST_LISTS || e.values > API_MOST_VALUES)
        return api_fail(error,
                        API_ERROR_INVALID,
                        NULL,
                        "the body has %zu lists and objects and %zu values; at most %d and %d are "
                        "read",
                        e.lists,
                        e.values,
                        API_MOST_LISTS,
                        API_MOST_VALUES);
    return true;
}

static json_t* load(llm_str body, size_t flags, json_error_t* why) {
    lacked_memory = false;
    return json_loadb(body.data, body.size, flags | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, why);
}

json_t* api_json_load(llm_str body, api_error* error) {
    if (body.size == 0) {
        api_fail(error, API_ERROR_INVALID, NULL, "the body is empty; it must be a JSON object");
        return NULL;
    }
    if (!check_extent(body, error)) return NULL;
    json_error_t why;
    json_t* object = load(body, 0, &why);
    // whole numbers that are too large become inexact: whoever reads one refuses it by its name
    if (object == NULL && json_error_code(&why) == json_error_numeric_overflow)
        object = load(body, JSON_DECODE_INT_AS_REAL, &why);
    if (json_is_object(object) && !lacked_memory) return object;
    if (lacked_memory) // the library leaves out characters then, and may find nothing wrong
        api_json_fail_memory(error);
    else if (object != NULL)
        api_fail(error, API_ERROR_INVALID, NULL, "the body is a list; it must be a JSON object");
    else
        api_fail(error,
                 API_ERROR_INVALID,
                 NULL,
                 "the body is no JSON: %s (line %d, column %d)",
                 why.text,
                 why.line,
                 why.column);
    json_decref(object);
    return NULL;
}

/// What a value is, for a sentence.
typedef struct description {
    char text[32];
} description;

static description describe(const json_t* value) {
    static const char* const kinds[] = {
        [JSON_OBJECT] = "an object",
        [JSON_ARRAY] = "a list",
        [JSON_STRING] = "a text",
        [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",
        [JSON_NULL] = "null",
    };
    description said;
    if (value == NULL)
        snprintf(said.text, sizeof said.text, "missing");
    else if (json_is_integer(value))
        snprintf(said.text, sizeof said.text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(said.text, sizeof said.text, "%g", json_real_value(value));
    else
        snprintf(said.text, sizeof said.text, "%s", kinds[json_typeof(value)]);
    return said;
}

bool api_json_refuse(const json_t* value, const char* param, const char* wanted, api_error* error) {
    return api_fail(error,
                    API_ERROR_INVALID,
                    param,
                    "\"%s\" is %s; it must be %s",
                    param,
                    describe(value).text,
                    wanted);
}

/// Reads a whole number, however it is written.
static bool read_whole(const json_t* value, int64_t* out) {
    const double real = json_real_value(value);
    if (json_is_real(value) && fabs(real) <= MOST_WHOLE_REAL && floor(real) >= real)
        *out = (int64_t)real;
    else if (json_is_integer(value))
        *out = json_integer_value(value);
    else
        return false;
    return true;
}

bool api_json_read_integer(const json_t* value,
                           const char* param,
                           int64_t low,
                           int64_t high,
                           int64_t* out,
                           api_error* error) {
    if (value == NULL || json_is_null(value)) return true;
    int64_t read;
    if (read_whole(value, &read) && read >= low && read <= high) {
        *out = read;
        return true;
    }
    char wanted[96];
    snprintf(wanted, sizeof wanted, "a whole number from %" PRId64 " to %" PRId64, low, high);
    return api_json_refuse(value, param, wanted, error);
}

bool api_json_read_number(
    const json_t* value, const char* param, double low, double high, float* out, api_error* error) {
    if (value == NULL || json_is_null(value)) return true;
    const double read = json_number_value(value);
    if (json_is_number(value) && read >= low && read <= high) {
        *out = (float)read;
        return true;
    }
    char wanted[96];
    snprintf(wanted, sizeof wanted, "a number from %g to %g", low, high);
    return api_json_refuse(value, param, wanted, error);
}

bool api_json_read_flag(const json_t* value, const char* param, bool* out, api_error* error) {
    if (value == NULL || json_is_null(value)) return true;
    if (!json_is_boolean(value)) return api_json_refuse(value, param, "true or false", error);
    *out = json_is_true(value);
    return true;
}

bool api_json_read_text(const json_t* value, const char* param, llm_str* out, api_error* error) {
    if (value == NULL || json_is_null(value)) return true;
    if (!json_is_string(value)) return api_json_refuse(value, param, "a text", error);
    *out = (llm_str){json_string_value(value), json_string_length(value)};
    return true;
}

bool api_json_is_text(llm_str bytes) {
    for (size_t at = 0, size; at < bytes.size; at += size) {
        const llm_str rest = {bytes.data + at, bytes.size - at};
        if (llm_utf8_examine(rest, &size) != LLM_UTF8_COMPLETE) return false;
    }
    return true;
}

json_t* api_json_text(llm_str text) {
    llm_bytes mended = {0};
    bool has_room = true;
    for (size_t at = 0, size; at < text.size && has_room; at += size) {
        const llm_str rest = {text.data + at, text.size - at};
        const bool is_whole = llm_utf8_examine(rest, &size) == LLM_UTF8_COMPLETE;
        has_room = llm_bytes_append(&mended,
                                    is_whole ? rest.data : replacement,
                                    is_whole ? size : sizeof replacement,
                                    NULL) == BERTH_OK;
    }
    json_t* made = has_room ? json_stringn(mended.size == 0 ? "" : mended.data, mended.size) : NULL;
    llm_bytes_fini(&mended);
    return made;
}

json_t* api_json_bytes(llm_str bytes) {
    json_t* list = json_array();
    for (size_t i = 0; i < bytes.size; i++) {
        if (json_array_append_new(list, json_integer((unsigned char)bytes.data[i])) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

/// Where a value is written. Remembers a failure: the library does not heed one in each place.
typedef struct sink {
    llm_bytes* out;
    bool has_failed;
} sink;

static int append(const char* data, size_t size, void* to) {
    sink* into = to;
    into->has_failed |= llm_bytes_append(into->out, data, size, NULL) != BERTH_OK;
    return into->has_failed ? -1 : 0;
}

bool api_json_append(json_t* value, llm_bytes* out) {
    const size_t before = out->size;
    const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(REAL_DIGITS);
    sink into = {.out = out};
    const bool is_written = value != NULL && json_dump_callback(value, append, &into, flags) == 0;
    json_decref(value);
    if (is_written && !into.has_failed) return true;
    out->size = before;
    return false;
}
