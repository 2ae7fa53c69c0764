// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the language model sample: failing allocations, small files, walks.
#ifndef BERTH_TESTS_LLM_KIT_H
#define BERTH_TESTS_LLM_KIT_H

#include "gguf_random.h"
#include "gguf_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kit/shared_data.h"

/// Counts allocations, remembers the largest, and fails one of them.
typedef struct alloc_watch {
    uint64_t calls;
    uint64_t fail_at; ///< counts from 1; 0 fails none
    size_t largest_bytes;
} alloc_watch;

static inline bool watch_alloc(void* user, size_t bytes) {
    alloc_watch* watch = user;
    if (bytes > watch->largest_bytes) watch->largest_bytes = bytes;
    return ++watch->calls != watch->fail_at;
}

/// Starts watching; allocation number `fail_at` from here fails.
static inline void watch_begin(alloc_watch* watch, uint64_t fail_at) {
    *watch = (alloc_watch){.fail_at = fail_at};
    llm_set_alloc_hook(watch_alloc, watch);
}

static inline void watch_end(void) { llm_set_alloc_hook(NULL, NULL); }

/// Returns a copy in a block of exactly `size` bytes, so that a read past its end is seen.
static inline char* copy_exactly(const void* data, size_t size) {
    char* copy = malloc(size == 0 ? 1 : size);
    assert_non_null(copy);
    if (size > 0) memcpy(copy, data, size);
    return copy;
}

/// Finishes a writer and returns the file; the caller frees it with llm_gguf_writer_release().
static inline void* finish_file(llm_gguf_writer* writer, size_t* out_size) {
    void* data;
    llm_error error;
    assert_int_equal(llm_gguf_writer_finish(writer, &data, out_size, &error), BERTH_OK);
    llm_gguf_writer_fini(writer);
    return data;
}

/// Asserts that the sentence names what is wrong.
static inline void assert_mentions(const llm_error* error, const char* part) {
    if (strstr(error->text, part) == NULL)
        fail_msg("'%s' does not mention '%s'", error->text, part);
}

#endif // BERTH_TESTS_LLM_KIT_H
