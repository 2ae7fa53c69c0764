// SPDX-License-Identifier: Apache-2.0
// Reading and comparing API keys.
#include "serve_keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/// Cuts white space off both ends.
static char* trim(char* line) {
    line += strspn(line, " \t\r\n");
    size_t size = strlen(line);
    while (size > 0 && strchr(" \t\r\n", line[size - 1]) != NULL)
        line[--size] = '\0';
    return line;
}

static bool is_visible(const char* text) {
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~') return false;
    return true;
}

static berth_status add_key(serve_keys* keys, const char* path, const char* key, llm_error* error) {
    if (strlen(key) >= SERVE_KEY_BYTES || !is_visible(key))
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "%s: key number %zu is longer than %d bytes or holds more than visible "
                        "ASCII",
                        path,
                        keys->count + 1,
                        SERVE_KEY_BYTES - 1);
    if (keys->count == SERVE_MOST_KEYS)
        return llm_fail(
            error, BERTH_ERR_INVALID_ARGUMENT, "%s has more than %d keys", path, SERVE_MOST_KEYS);
    void* grown = llm_realloc(keys->keys, keys->count + 1, sizeof *keys->keys);
    if (grown == NULL) return llm_fail_memory(error, "API keys");
    keys->keys = grown;
    char* to = keys->keys[keys->count++];
    memset(to, 0, SERVE_KEY_BYTES);
    memcpy(to, key, strlen(key));
    return BERTH_OK;
}

static berth_status read_lines(FILE* file, const char* path, serve_keys* keys, llm_error* error) {
    char* line = NULL;
    size_t room = 0;
    berth_status status = BERTH_OK;
    errno = 0;
    while (status == BERTH_OK && getline(&line, &room, file) >= 0) {
        const char* key = trim(line);
        if (key[0] != '\0' && key[0] != '#') status = add_key(keys, path, key, error);
    }
    int code = errno;
    if (line != NULL) explicit_bzero(line, room);
    free(line);
    if (status == BERTH_OK && !feof(file))
        return llm_fail(error, BERTH_ERR_IO, "cannot read %s: %s", path, strerror(code));
    if (status == BERTH_OK && keys->count == 0)
        return llm_fail(error, BERTH_ERR_INVALID_ARGUMENT, "%s has no key", path);
    return status;
}

berth_status serve_keys_read(const char* path, serve_keys* out_keys, llm_error* error) {
    *out_keys = (serve_keys){0};
    FILE* file = fopen(path, "re");
    if (file == NULL)
        return llm_fail(error, BERTH_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    berth_status status = read_lines(file, path, out_keys, error);
    fclose(file);
    if (status != BERTH_OK) serve_keys_fini(out_keys);
    return status;
}

void serve_keys_fini(serve_keys* keys) {
    if (keys->keys != NULL) explicit_bzero(keys->keys, keys->count * sizeof *keys->keys);
    llm_free(keys->keys);
    *keys = (serve_keys){0};
}

/// 1 if all bytes are equal, else 0, in constant time.
static uint32_t are_equal(const char* a, const char* b) {
    uint32_t difference = 0;
    for (size_t i = 0; i < SERVE_KEY_BYTES; i++)
        difference |= (uint32_t)(unsigned char)a[i] ^ (uint32_t)(unsigned char)b[i];
    return (difference - 1) >> 31;
}

bool serve_keys_find(const serve_keys* keys, const char* header, uint32_t* out_number) {
    *out_number = 0;
    if (keys->count == 0) return true;
    static const char scheme[] = "Bearer ";
    char given[SERVE_KEY_BYTES] = {0};
    if (header != NULL && strncasecmp(header, scheme, sizeof scheme - 1) == 0) {
        const char* key = header + sizeof scheme - 1;
        key += strspn(key, " ");
        if (strlen(key) < SERVE_KEY_BYTES) memcpy(given, key, strlen(key));
    }
    uint32_t number = 0;
    for (size_t i = 0; i < keys->count; i++)
        number |= (uint32_t)(i + 1) & (0u - are_equal(given, keys->keys[i]));
    explicit_bzero(given, sizeof given);
    *out_number = number;
    return number != 0;
}
