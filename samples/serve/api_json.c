// SPDX-License-Identifier: Apache-2.0
// Values of JSON written behind a text.
#include "api_json.h"

#include "unicode.h"

/// Digits with which a float is what it was when it is read back.
enum { REAL_DIGITS = 9 };

static const char replacement[3] = {'\xef', '\xbf', '\xbd'}; // U+FFFD

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
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS);
    sink into = {.out = out};
    const bool is_written = value != NULL && json_dump_callback(value, append, &into, flags) == 0;
    json_decref(value);
    if (is_written && !into.has_failed) return true;
    out->size = before;
    return false;
}
