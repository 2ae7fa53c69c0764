// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the server's interface: failing allocations of the JSON library as well,
// and comparisons of JSON text.
#ifndef BERTH_TESTS_SERVE_KIT_H
#define BERTH_TESTS_SERVE_KIT_H

#include "llm/vocab_kit.h"

#include "api_json.h"
#include "api_request.h"

/// Starts watching the allocations of the JSON library as well; number `fail_at` from here fails.
static inline void watch_json_begin(alloc_watch* watch, uint64_t fail_at) {
    api_init();
    watch_begin(watch, fail_at);
}

/// True if the allocation that was to fail was asked for. Ends watching.
static inline bool watch_has_failed(const alloc_watch* watch) {
    watch_end();
    return watch->calls >= watch->fail_at;
}

/// Asserts that the bytes from `from` on are the text.
static inline void assert_bytes_from(const llm_bytes* bytes, size_t from, const char* expected) {
    const size_t size = bytes->size - from;
    const char* data = size == 0 ? "" : bytes->data + from;
    if (size == strlen(expected) && memcmp(data, expected, size) == 0) return;
    fail_msg("'%.*s' instead of '%s'", (int)size, data, expected);
}

static inline void assert_bytes(const llm_bytes* bytes, const char* expected) {
    assert_bytes_from(bytes, 0, expected);
}

/// Asserts that an error's sentence names what is wrong.
static inline void assert_says(const api_error* error, const char* part) {
    if (strstr(error->message, part) == NULL)
        fail_msg("'%s' does not say '%s'", error->message, part);
}

#endif // BERTH_TESTS_SERVE_KIT_H
