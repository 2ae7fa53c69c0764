// SPDX-License-Identifier: Apache-2.0
// JSON as the interface uses it: values written behind a text.
#ifndef BERTH_SAMPLES_SERVE_API_JSON_H
#define BERTH_SAMPLES_SERVE_API_JSON_H

#include "llm_support.h"

#include <jansson.h>

/// Makes a string of any bytes: U+FFFD stands for what is no valid UTF-8. NULL if memory is short.
json_t* api_json_text(llm_str text);

/// Appends a value to `out`. Takes `value` over, which may be NULL: then memory was short when it
/// was made. False if memory is short; `out` is as before then.
bool api_json_append(json_t* value, llm_bytes* out);

#endif // BERTH_SAMPLES_SERVE_API_JSON_H
