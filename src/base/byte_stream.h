// SPDX-License-Identifier: Apache-2.0
// Numbers and texts as bytes of a file and back: little-endian, unaligned, nothing believed.
#ifndef BERTH_BASE_BYTE_STREAM_H
#define BERTH_BASE_BYTE_STREAM_H

#include <stdbool.h>

#include "base/host.h"

/// Bytes that grow. A zeroed struct with a host is empty. Whatever fails, fails for good: look at
/// `failed` at the end.
typedef struct berth_byte_writer {
    const berth_host* host;
    unsigned char* data; ///< [count]; ours until berth_byte_writer_fini
    size_t count;
    size_t capacity;
    bool failed; ///< there was no memory; what is there is not whole
} berth_byte_writer;

void berth_byte_writer_fini(berth_byte_writer* self);
void berth_write_bytes(berth_byte_writer* self, const void* data, size_t bytes);
void berth_write_u8(berth_byte_writer* self, uint8_t value);
void berth_write_u16(berth_byte_writer* self, uint16_t value);
void berth_write_u32(berth_byte_writer* self, uint32_t value);
void berth_write_u64(berth_byte_writer* self, uint64_t value);
/// Its length as u32, its bytes, no zero byte.
void berth_write_text(berth_byte_writer* self, const char* text);
/// What printf would write, without a zero byte, up to 511 bytes.
void berth_write_format(berth_byte_writer* self, const char* format, ...) BERTH_PRINTF(2, 3);
/// Replaces the bytes at `at`, which have been written unless writing failed.
void berth_rewrite_u32(berth_byte_writer* self, size_t at, uint32_t value);
void berth_rewrite_u64(berth_byte_writer* self, size_t at, uint64_t value);

/// What is left to read. Once something is missing or wrong, `failed` stays set and everything read
/// is zero.
typedef struct berth_byte_reader {
    const unsigned char* at; ///< borrowed
    size_t left;
    bool failed;
} berth_byte_reader;

/// The next `bytes` bytes, borrowed; NULL (and failed) if there are not so many.
const unsigned char* berth_read_bytes(berth_byte_reader* self, size_t bytes);
/// The next count * bytes bytes, likewise.
const unsigned char* berth_read_array(berth_byte_reader* self, size_t count, size_t bytes);
uint8_t berth_read_u8(berth_byte_reader* self);
uint32_t berth_read_u32(berth_byte_reader* self);
uint64_t berth_read_u64(berth_byte_reader* self);
/// A number that is at most `most`; fails if it is more.
uint32_t berth_read_u32_to(berth_byte_reader* self, uint32_t most);

/// A text in a file: not ended by a zero byte, and without one.
typedef struct berth_byte_text {
    const char* bytes; ///< [length], borrowed
    uint32_t length;
} berth_byte_text;

/// Fails for a text with a zero byte.
berth_byte_text berth_read_text(berth_byte_reader* self);
bool berth_byte_text_is(berth_byte_text text, const char* other);

/// Numbers of arrays that lie in a file.
uint16_t berth_load_u16(const unsigned char* at);
uint32_t berth_load_u32(const unsigned char* at);
uint64_t berth_load_u64(const unsigned char* at);

#endif // BERTH_BASE_BYTE_STREAM_H
