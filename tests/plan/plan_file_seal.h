// SPDX-License-Identifier: Apache-2.0
// Checksums for plan files that somebody has tampered with.
#ifndef BERTH_TEST_PLAN_FILE_SEAL_H
#define BERTH_TEST_PLAN_FILE_SEAL_H

#include "base/hash.h"
#include "plan/plan_file.h"

/// Makes the checksums of `bytes` right again, as somebody would who means harm.
static inline void file_kit_seal(unsigned char* bytes, size_t size) {
    if (size < BERTH_PLAN_FILE_HEADER_BYTES + 8) return;
    size_t at = BERTH_PLAN_FILE_HEADER_BYTES + berth_load_u32(bytes + 36);
    const uint32_t steps = berth_load_u32(bytes + 32);
    for (uint32_t i = 0; i < steps && at + 16 + 8 <= size; i++) {
        const uint64_t length = berth_load_u64(bytes + at);
        if (length > size - at - 16 - 8) break;
        const uint64_t hash = berth_hash64(bytes + at + 8, length, i);
        for (size_t b = 0; b < 8; b++)
            bytes[at + 8 + length + b] = (unsigned char)(hash >> (8 * b));
        at += 16 + length;
    }
    const uint64_t header = berth_hash64(bytes, 40, 0);
    for (size_t b = 0; b < 8; b++)
        bytes[40 + b] = (unsigned char)(header >> (8 * b));
    const uint64_t whole = berth_hash64(bytes, size - 8, 0);
    for (size_t b = 0; b < 8; b++)
        bytes[size - 8 + b] = (unsigned char)(whole >> (8 * b));
}

#endif // BERTH_TEST_PLAN_FILE_SEAL_H
