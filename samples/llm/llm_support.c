// SPDX-License-Identifier: Apache-2.0
// Error text, slices, the allocator and the growable lists of the language model sample.
#include "llm_support.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static llm_alloc_hook alloc_hook;
static void* alloc_hook_user;

/// Computes the bytes of an allocation, never 0. Returns false when it must fail.
static bool may_allocate(size_t count, size_t item_bytes, size_t* out_bytes) {
    if (__builtin_mul_overflow(count, item_bytes, out_bytes)) return false;
    if (*out_bytes == 0) *out_bytes = 1;
    return alloc_hook == NULL || alloc_hook(alloc_hook_user, *out_bytes);
}

/// Grows `*capacity` items so that `extra` more fit behind `count`. Returns the block, or NULL.
static void* grow(
    void* block, size_t count, size_t extra, size_t item_bytes, size_t least, size_t* capacity) {
    if (extra > SIZE_MAX / 2 - count) return NULL;
    size_t wanted = *capacity < least ? least : *capacity;
    while (wanted < count + extra)
        wanted *= 2;
    void* grown = llm_realloc(block, wanted, item_bytes);
    if (grown != NULL) *capacity = wanted;
    return grown;
}

berth_status llm_fail(llm_error* error, berth_status status, const char* format, ...) {
    if (error == NULL) return status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

berth_status llm_fail_memory(llm_error* error, const char* purpose) {
    return llm_fail(error, BERTH_ERR_OUT_OF_MEMORY, "no memory for %s", purpose);
}

llm_quoted llm_quote(llm_str text) {
    llm_quoted quoted;
    size_t shown = text.size < 64 ? text.size : 64;
    for (size_t i = 0; i < shown; i++) {
        char c = text.data[i];
        quoted.text[i] = c;
        if (c < ' ' || c > '~') quoted.text[i] = '?';
    }
    memcpy(quoted.text + shown, text.size > shown ? "..." : "", text.size > shown ? 4 : 1);
    return quoted;
}

llm_str llm_str_of(const char* text) { return (llm_str){text, strlen(text)}; }

bool llm_str_equal(llm_str a, llm_str b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

int llm_str_compare(llm_str a, llm_str b) {
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    if (order != 0) return order;
    return (a.size > b.size) - (a.size < b.size);
}

bool llm_str_contains(llm_str text, const char* part) {
    return text.size > 0 && memmem(text.data, text.size, part, strlen(part)) != NULL;
}

void* llm_alloc(size_t count, size_t item_bytes) { return llm_realloc(NULL, count, item_bytes); }

void* llm_alloc_zeroed(size_t count, size_t item_bytes) {
    size_t bytes;
    return may_allocate(count, item_bytes, &bytes) ? calloc(1, bytes) : NULL;
}

void* llm_realloc(void* block, size_t count, size_t item_bytes) {
    size_t bytes;
    return may_allocate(count, item_bytes, &bytes) ? realloc(block, bytes) : NULL;
}

void llm_free(void* block) { free(block); }

void llm_set_alloc_hook(llm_alloc_hook hook, void* user) {
    alloc_hook = hook;
    alloc_hook_user = user;
}

berth_status llm_tokens_push(llm_tokens* tokens, int32_t id, llm_error* error) {
    if (tokens->count == tokens->capacity) {
        int32_t* ids =
            grow(tokens->ids, tokens->count, 1, sizeof *tokens->ids, 32, &tokens->capacity);
        if (ids == NULL) return llm_fail_memory(error, "a list of tokens");
        tokens->ids = ids;
    }
    tokens->ids[tokens->count++] = id;
    return BERTH_OK;
}

void llm_tokens_fini(llm_tokens* tokens) {
    llm_free(tokens->ids);
    *tokens = (llm_tokens){0};
}

berth_status llm_bytes_reserve(llm_bytes* bytes, size_t extra, llm_error* error) {
    if (extra <= bytes->capacity - bytes->size) return BERTH_OK;
    char* data = grow(bytes->data, bytes->size, extra, 1, 64, &bytes->capacity);
    if (data == NULL) return llm_fail_memory(error, "a text");
    bytes->data = data;
    return BERTH_OK;
}

berth_status llm_bytes_append(llm_bytes* bytes, const void* data, size_t size, llm_error* error) {
    berth_status status = llm_bytes_reserve(bytes, size, error);
    if (status != BERTH_OK) return status;
    if (size > 0) memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    return BERTH_OK;
}

void llm_bytes_fini(llm_bytes* bytes) {
    llm_free(bytes->data);
    *bytes = (llm_bytes){0};
}
