// SPDX-License-Identifier: Apache-2.0
// XXH3, compiled in.
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t berth_hash64(const void* data, size_t bytes, uint64_t seed) {
    return XXH3_64bits_withSeed(data == NULL ? "" : data, bytes, seed);
}
