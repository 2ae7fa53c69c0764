// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the server's interface: failing allocations of the JSON library as well,
// and comparisons of JSON text.
#ifndef BERTH_TESTS_SERVE_KIT_H
#define BERTH_TESTS_SERVE_KIT_H

#include "llm/vocab_kit.h"

#include "api_error.h"

#include <jansson.h>

/// What counts and fails the allocations of the sample and of the JSON library together.
static alloc_watch json_watch;

static inline void* watch_json_alloc(size_t bytes) {
    return watch_alloc(&json_watch, bytes) ? malloc(bytes) : NULL;
}

/// Starts watching; allocation number `fail_at` from here fails.
static inline void watch_json_begin(uint64_t fail_at) {
    json_watch = (alloc_watch){.fail_at = fail_at};
    llm_set_alloc_hook(watch_alloc, &json_watch);
    json_set_alloc_funcs(watch_json_alloc, free);
}

static inline void watch_json_end(void) {
    llm_set_alloc_hook(NULL, NULL);
    json_set_alloc_funcs(malloc, free);
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
