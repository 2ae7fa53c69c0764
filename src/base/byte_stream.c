// SPDX-License-Identifier: Apache-2.0
// Writes and reads bytes.
#include "base/byte_stream.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/vec.h"

// ---- Writing.

void berth_byte_writer_fini(berth_byte_writer* self) {
    berth_host_free(self->host, self->data);
    *self = (berth_byte_writer){.host = self->host};
}

void berth_write_bytes(berth_byte_writer* self, const void* data, size_t bytes) {
    size_t wanted;
    if (bytes == 0 || self->failed) return;
    if (!berth_add_size(self->count, bytes, &wanted) ||
        berth_vec_grow(self->host, (void**)&self->data, &self->capacity, wanted, 1) != BERTH_OK) {
        self->failed = true;
        return;
    }
    memcpy(self->data + self->count, data, bytes);
    self->count = wanted;
}

/// Writes the lowest `bytes` bytes of `value`.
static void write_number(berth_byte_writer* self, uint64_t value, size_t bytes) {
    unsigned char digits[8];
    for (size_t i = 0; i < bytes; i++)
        digits[i] = (unsigned char)(value >> (8 * i));
    berth_write_bytes(self, digits, bytes);
}

void berth_write_u8(berth_byte_writer* self, uint8_t value) { write_number(self, value, 1); }
void berth_write_u16(berth_byte_writer* self, uint16_t value) { write_number(self, value, 2); }
void berth_write_u32(berth_byte_writer* self, uint32_t value) { write_number(self, value, 4); }
void berth_write_u64(berth_byte_writer* self, uint64_t value) { write_number(self, value, 8); }

void berth_write_text(berth_byte_writer* self, const char* text) {
    const size_t length = strlen(text);
    if (length > UINT32_MAX) self->failed = true;
    berth_write_u32(self, (uint32_t)length);
    berth_write_bytes(self, text, length);
}

void berth_write_format(berth_byte_writer* self, const char* format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0)
        berth_write_bytes(
            self, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

void berth_rewrite_u32(berth_byte_writer* self, size_t at, uint32_t value) {
    for (size_t i = 0; i < 4 && !self->failed; i++)
        self->data[at + i] = (unsigned char)(value >> (8 * i));
}

void berth_rewrite_u64(berth_byte_writer* self, size_t at, uint64_t value) {
    berth_rewrite_u32(self, at, (uint32_t)value);
    berth_rewrite_u32(self, at + 4, (uint32_t)(value >> 32));
}

// ---- Reading.

static uint64_t load(const unsigned char* at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

uint16_t berth_load_u16(const unsigned char* at) { return (uint16_t)load(at, 2); }
uint32_t berth_load_u32(const unsigned char* at) { return (uint32_t)load(at, 4); }
uint64_t berth_load_u64(const unsigned char* at) { return load(at, 8); }

const unsigned char* berth_read_bytes(berth_byte_reader* self, size_t bytes) {
    if (self->failed || bytes > self->left) {
        self->failed = true;
        return NULL;
    }
    const unsigned char* found = self->at;
    self->at += bytes;
    self->left -= bytes;
    return found;
}

const unsigned char* berth_read_array(berth_byte_reader* self, size_t count, size_t bytes) {
    size_t total;
    if (!berth_mul_size(count, bytes, &total)) self->failed = true;
    return self->failed ? NULL : berth_read_bytes(self, total);
}

static uint64_t read_number(berth_byte_reader* self, size_t bytes) {
    const unsigned char* digits = berth_read_bytes(self, bytes);
    return digits != NULL ? load(digits, bytes) : 0;
}

uint8_t berth_read_u8(berth_byte_reader* self) { return (uint8_t)read_number(self, 1); }
uint32_t berth_read_u32(berth_byte_reader* self) { return (uint32_t)read_number(self, 4); }
uint64_t berth_read_u64(berth_byte_reader* self) { return read_number(self, 8); }

uint32_t berth_read_u32_to(berth_byte_reader* self, uint32_t most) {
    const uint32_t value = berth_read_u32(self);
    if (value <= most) return value;
    self->failed = true;
    return 0;
}

berth_byte_text berth_read_text(berth_byte_reader* self) {
    const uint32_t length = berth_read_u32(self);
    const unsigned char* bytes = berth_read_bytes(self, length);
    if (bytes != NULL && length > 0 && memchr(bytes, 0, length) != NULL) self->failed = true;
    if (self->failed) return (berth_byte_text){.bytes = ""};
    return (berth_byte_text){(const char*)bytes, length};
}

bool berth_byte_text_is(berth_byte_text text, const char* other) {
    return strlen(other) == text.length && memcmp(text.bytes, other, text.length) == 0;
}
