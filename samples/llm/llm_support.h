// SPDX-License-Identifier: Apache-2.0
// What every part of the language model sample shares: error text, text slices, an allocator that
// tests can make fail, and two growable lists.
#ifndef BERTH_SAMPLES_LLM_SUPPORT_H
#define BERTH_SAMPLES_LLM_SUPPORT_H

#include <berth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Where a failing call writes its sentence. The caller owns it; it may be NULL wherever it is an
/// argument, and then only the status says what happened.
typedef struct llm_error {
    char text[1536]; ///< long enough for what Berth says of a shortage
} llm_error;

/// A borrowed stretch of bytes, not terminated. `data` may be NULL when `size` is 0.
typedef struct llm_str {
    const char* data;
    size_t size;
} llm_str;

/// A growable list of token ids. All zero is a valid empty list.
typedef struct llm_tokens {
    int32_t* ids;
    size_t count;
    size_t capacity;
} llm_tokens;

/// A growable list of bytes. All zero is a valid empty list; it is not terminated.
typedef struct llm_bytes {
    char* data;
    size_t size;
    size_t capacity;
} llm_bytes;

/// Writes the sentence into `error` and returns `status`, so that a failing function can end with
/// `return llm_fail(...)`. Text that does not fit is cut.
berth_status llm_fail(llm_error* error, berth_status status, const char* format, ...)
    BERTH_PRINTF(3, 4);

/// Returns BERTH_ERR_OUT_OF_MEMORY with a sentence that says what the memory was for.
berth_status llm_fail_memory(llm_error* error, const char* purpose);

/// Text that is safe to print in an error: at most 64 bytes, others than printable ASCII as '?'.
typedef struct llm_quoted {
    char text[72];
} llm_quoted;

/// Returns a printable copy of `text`; what was cut ends in three dots.
llm_quoted llm_quote(llm_str text);

/// Returns a slice of the terminated string `text`.
llm_str llm_str_of(const char* text);

/// True when both slices hold the same bytes.
bool llm_str_equal(llm_str a, llm_str b);

/// Orders slices by their bytes, a prefix before what it begins: below, equal to or above 0.
int llm_str_compare(llm_str a, llm_str b);

/// True when `text` contains `part`, which must not be empty.
bool llm_str_contains(llm_str text, const char* part);

/// Returns uninitialised memory for `count` items of `item_bytes` each, or NULL when there is none
/// or the product overflows. A request for nothing still returns memory.
void* llm_alloc(size_t count, size_t item_bytes);

/// The same, filled with zero bytes.
void* llm_alloc_zeroed(size_t count, size_t item_bytes);

/// Resizes a block of llm_alloc() to `count` items, or returns NULL and leaves it alone.
void* llm_realloc(void* block, size_t count, size_t item_bytes);

/// Gives a block back; NULL is allowed.
void llm_free(void* block);

/// Called before every allocation of the sample, of `bytes` in all; answering false makes it fail.
typedef bool (*llm_alloc_hook)(void* user, size_t bytes);

/// Installs a hook for tests, or removes it with NULL.
/// Threads: call it while no other thread uses the sample.
void llm_set_alloc_hook(llm_alloc_hook hook, void* user);

/// Appends one id. On failure the list is as before.
BERTH_NODISCARD berth_status llm_tokens_push(llm_tokens* tokens, int32_t id, llm_error* error);

/// Frees the list's memory and leaves it empty.
void llm_tokens_fini(llm_tokens* tokens);

/// Makes room for `extra` more bytes. On failure the list is as before.
BERTH_NODISCARD berth_status llm_bytes_reserve(llm_bytes* bytes, size_t extra, llm_error* error);

/// Appends `size` bytes. On failure the list is as before.
BERTH_NODISCARD berth_status llm_bytes_append(llm_bytes* bytes,
                                              const void* data,
                                              size_t size,
                                              llm_error* error);

/// Frees the list's memory and leaves it empty.
void llm_bytes_fini(llm_bytes* bytes);

#endif // BERTH_SAMPLES_LLM_SUPPORT_H
