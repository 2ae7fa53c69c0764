// SPDX-License-Identifier: Apache-2.0
// API keys come from files, so that they stand neither in lists of processes nor in environments
// that are passed on.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client.h"

berth_status client_read_key(const char* path, char* out_key, llm_error* error) {
    FILE* file = fopen(path, "r");
    if (file == NULL) return llm_fail(error, BERTH_ERR_IO, "%s: %s", path, strerror(errno));
    const size_t size = fread(out_key, 1, CLIENT_MOST_KEY_BYTES - 1, file);
    const bool is_read = ferror(file) == 0;
    fclose(file);
    out_key[size] = '\0';
    if (!is_read) return llm_fail(error, BERTH_ERR_IO, "%s: it cannot be read", path);
    const size_t length = strcspn(out_key, "\r\n");
    const bool is_whole = length < size || size < CLIENT_MOST_KEY_BYTES - 1;
    out_key[length] = '\0';
    size_t printable = 0;
    while (out_key[printable] > ' ' && out_key[printable] <= '~')
        printable++;
    if (length > 0 && is_whole && printable == length) return BERTH_OK;
    memset(out_key, 0, CLIENT_MOST_KEY_BYTES);
    return llm_fail(error,
                    BERTH_ERR_INVALID_ARGUMENT,
                    "%s: its first line is no API key: 1 to %d printable characters of ASCII",
                    path,
                    CLIENT_MOST_KEY_BYTES - 2);
}
