// SPDX-License-Identifier: Apache-2.0
// Hashing of keys and checksums. A hash never decides: whoever finds by it compares in full.
#ifndef BERTH_BASE_HASH_H
#define BERTH_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/// The 64-bit XXH3 hash of `bytes` bytes at `data` (which may be NULL if there are none). The same
/// on every machine.
/// Source: xxHash.
uint64_t berth_hash64(const void* data, size_t bytes, uint64_t seed);

#endif // BERTH_BASE_HASH_H
