// SPDX-License-Identifier: Apache-2.0
// API keys: who may use the server.
#ifndef BERTH_SAMPLES_SERVE_SERVE_KEYS_H
#define BERTH_SAMPLES_SERVE_SERVE_KEYS_H

#include "llm_support.h"

enum {
    SERVE_KEY_BYTES = 256,  ///< most of a key
    SERVE_MOST_KEYS = 1024, ///< of a file
};

/// Keys, a line each. All zero: none, everybody may.
typedef struct serve_keys {
    char (*keys)[SERVE_KEY_BYTES]; ///< [count], filled up with zero bytes
    size_t count;
} serve_keys;

/// Reads the keys in a file: a line each, without the white space around them; empty lines and
/// those that begin with '#' are none.
/// Ownership: the caller gives `*out_keys` to serve_keys_fini().
/// Errors:    BERTH_ERR_IO, BERTH_ERR_INVALID_ARGUMENT for a file without keys or with a key that
///            is too long or holds anything but visible ASCII, BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status serve_keys_read(const char* path,
                                             serve_keys* out_keys,
                                             llm_error* error);

/// Wipes and frees the keys.
void serve_keys_fini(serve_keys* keys);

/// Looks for the key in an Authorization header, "Bearer KEY", in a time that depends on neither
/// the keys nor the one that is given. `header` may be NULL. Returns false if there is none;
/// `*out_number` counts the keys from 1, and is 0 where there are none to be had.
bool serve_keys_find(const serve_keys* keys, const char* header, uint32_t* out_number);

#endif // BERTH_SAMPLES_SERVE_SERVE_KEYS_H
