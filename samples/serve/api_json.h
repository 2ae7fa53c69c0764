// SPDX-License-Identifier: Apache-2.0
// JSON as the interface uses it: bodies read, their members checked by name, values written.
#ifndef BERTH_SAMPLES_SERVE_API_JSON_H
#define BERTH_SAMPLES_SERVE_API_JSON_H

#include "api_error.h"

#include <jansson.h>

/// Reads a body, which must be an object. NUL is a character like any other.
/// Ownership: the caller gives the result to json_decref().
/// Errors:    NULL and `error`: INVALID for what is no JSON, nests too deep, has too many values or
///            a member twice; OUT_OF_MEMORY, after api_init().
json_t* api_json_load(llm_str body, api_error* error);

/// Reads a whole number from `low` to `high`, also one written as 3.0. `value` is a member called
/// `param`, or NULL: of that and of null `*out` stays as it is. So do all that follow.
bool api_json_read_integer(const json_t* value,
                           const char* param,
                           int64_t low,
                           int64_t high,
                           int64_t* out,
                           api_error* error);

/// Reads a number from `low` to `high`.
bool api_json_read_number(
    const json_t* value, const char* param, double low, double high, float* out, api_error* error);

/// Reads true or false.
bool api_json_read_flag(const json_t* value, const char* param, bool* out, api_error* error);

/// Reads a text, which lives as long as `value`.
bool api_json_read_text(const json_t* value, const char* param, llm_str* out, api_error* error);

/// Fails with INVALID: `value`, which is called `param`, must be `wanted`.
bool api_json_refuse(const json_t* value, const char* param, const char* wanted, api_error* error);

/// Fails with OUT_OF_MEMORY.
bool api_json_fail_memory(api_error* error);

/// True for valid UTF-8.
bool api_json_is_text(llm_str bytes);

/// Makes a string of any bytes: U+FFFD stands for what is no valid UTF-8. NULL if memory is short.
json_t* api_json_text(llm_str text);

/// Makes a list of the numbers of the bytes. NULL if memory is short.
json_t* api_json_bytes(llm_str bytes);

/// Appends a value to `out`. Takes `value` over, which may be NULL: then memory was short when it
/// was made. False if memory is short; `out` is as before then.
bool api_json_append(json_t* value, llm_bytes* out);

#endif // BERTH_SAMPLES_SERVE_API_JSON_H
