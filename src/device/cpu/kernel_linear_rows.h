// SPDX-License-Identifier: Apache-2.0
// Body of the LINEAR kernel's row work, compiled once for each instruction set: decoding blocks of
// weights in registers, dot products with one row of x, panels for tiles of many.
#ifndef BERTH_DEVICE_CPU_KERNEL_LINEAR_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_LINEAR_ROWS_H

#include "device/cpu/kernel_linear.h"
#include "device/cpu/kernel_matrix_lanes.h"

#define BLOCK BERTH_LINEAR_BLOCK
#define PANEL_ROWS BERTH_LINEAR_PANEL_ROWS
#define AHEAD_BYTES 4096       ///< from here on, cold weights are read as fast as they are decoded
#define PACK_AHEAD_BYTES 16384 ///< while panels are multiplied a few of the next ones arrive
#define DOT_ROWS 4 ///< rows of w that share one reading of x; enough chains to hide the latency

/// Decodes block `index`, 32 weights, of `row`.
typedef lane_pair decode_fn(const uint8_t* row, int64_t index);

LANES_INLINE lane_pair decode_f32(const uint8_t* row, int64_t index) {
    const float* block = (const float*)(const void*)row + index * BLOCK; // rows of f32 are aligned
    return (lane_pair){lanes_load(block), lanes_load(block + LANES)};
}

LANES_INLINE lane_pair decode_f16(const uint8_t* row, int64_t index) {
    const uint8_t* block = row + index * 64;
    return (lane_pair){lanes_from_f16(block), lanes_from_f16(block + 32)};
}

LANES_INLINE lane_pair decode_bf16(const uint8_t* row, int64_t index) {
    const uint8_t* block = row + index * 64;
    return (lane_pair){lanes_from_bf16(block), lanes_from_bf16(block + 32)};
}

LANES_INLINE lane_pair decode_q8_0(const uint8_t* row, int64_t index) {
    const uint8_t* block = row + index * 34;
    const lanes scale = lanes_set_f16(block);
    return (lane_pair){lanes_mul(lanes_from_ints(lane_ints_i8(block + 2)), scale),
                       lanes_mul(lanes_from_ints(lane_ints_i8(block + 18)), scale)};
}

LANES_INLINE lane_pair decode_q4_0(const uint8_t* row, int64_t index) {
    const uint8_t* block = row + index * 18;
    return lanes_from_nibbles(block + 2, -8, lanes_set_f16(block), lanes_zero());
}

LANES_INLINE lane_pair decode_q4_1(const uint8_t* row, int64_t index) {
    const uint8_t* block = row + index * 20;
    const lane_pair scales = lanes_set_two_f16(block);
    return lanes_from_nibbles(block + 4, 0, scales.first, scales.second);
}

typedef struct int_pair {
    lane_ints first;
    lane_ints second;
} int_pair;

/// The values 0 .. 31 of a block of Q5_0 or Q5_1: a nibble of `quants` and a bit of `high` each.
LANES_INLINE int_pair fives(const uint8_t* high, const uint8_t* quants) {
    uint32_t bits;
    memcpy(&bits, high, sizeof bits);
    const lane_ints bytes = lane_ints_u8(quants);
    return (int_pair){
        lane_ints_or(lane_ints_and(bytes, 15), lane_ints_sixteens((uint16_t)(bits & 0xffff))),
        lane_ints_or(lane_ints_right(bytes, 4), lane_ints_sixteens((uint16_t)(bits >> 16)))};
}

LANES_INLINE lane_pair decode_q5_0(const uint8_t* row, int64_t index) {
    const uint8_t* block = row + index * 22;
    const lanes scale = lanes_set_f16(block);
    const int_pair values = fives(block + 2, block + 6);
    return (lane_pair){lanes_mul(lanes_from_ints(lane_ints_add(values.first, -16)), scale),
                       lanes_mul(lanes_from_ints(lane_ints_add(values.second, -16)), scale)};
}

LANES_INLINE lane_pair decode_q5_1(const uint8_t* row, int64_t index) {
    const uint8_t* block = row + index * 24;
    const lane_pair scales = lanes_set_two_f16(block);
    const int_pair values = fives(block + 4, block + 8);
    return (lane_pair){lanes_fma(lanes_from_ints(values.first), scales.first, scales.second),
                       lanes_fma(lanes_from_ints(values.second), scales.first, scales.second)};
}

/// Scale and offset of the 32 values of `part` of a block of Q4_K or Q5_K: value v stands for
/// v * scale + offset. All products are exact, so the sum alone rounds.
typedef struct k_scale {
    lanes scale;
    lanes offset;
} k_scale;

LANES_INLINE k_scale scale_of_k(const uint8_t* block, int part) {
    const uint8_t* packed = block + 4;
    int scale = packed[part & 3];
    int minimum = packed[(part & 3) + 4];
    if (part < 4) {
        scale &= 63;
        minimum &= 63;
    } else {
        const int both = packed[part + 4];
        scale = (both & 15) | scale >> 6 << 4;
        minimum = both >> 4 | minimum >> 6 << 4;
    }
    const lane_pair scales = lanes_set_two_f16(block);
    return (k_scale){lanes_mul(scales.first, lanes_set((float)scale)),
                     lanes_mul(scales.second, lanes_set(-(float)minimum))};
}

/// Sixteen values of Q4_K: the lower nibbles of `quants` for even parts, the upper ones for odd.
LANES_INLINE lane_ints nibbles_of_part(const uint8_t* quants, int part) {
    return lane_ints_and(lane_ints_right(lane_ints_u8(quants), 4 * (part & 1)), 15);
}

LANES_INLINE lane_pair decode_q4_k(const uint8_t* row, int64_t index) {
    const uint8_t* block = row + index / 8 * 144;
    const int part = (int)(index % 8);
    const uint8_t* quants = block + 16 + 32 * (part / 2);
    const k_scale k = scale_of_k(block, part);
    const lane_ints first = nibbles_of_part(quants, part);
    const lane_ints second = nibbles_of_part(quants + LANES, part);
    return (lane_pair){lanes_fma(lanes_from_ints(first), k.scale, k.offset),
                       lanes_fma(lanes_from_ints(second), k.scale, k.offset)};
}

/// Sixteen values of Q5_K: as Q4_K, and bit `part` of each byte of `high`.
LANES_INLINE lane_ints fives_of_part(const uint8_t* quants, const uint8_t* high, int part) {
    const lane_ints bits = lane_ints_and(lane_ints_right(lane_ints_u8(high), part), 1);
    return lane_ints_or(nibbles_of_part(quants, part), lane_ints_left(bits, 4));
}

LANES_INLINE lane_pair decode_q5_k(const uint8_t* row, int64_t index) {
    const uint8_t* block = row + index / 8 * 176;
    const int part = (int)(index % 8);
    const uint8_t* quants = block + 48 + 32 * (part / 2);
    const k_scale k = scale_of_k(block, part);
    const lane_ints first = fives_of_part(quants, block + 16, part);
    const lane_ints second = fives_of_part(quants + LANES, block + 16 + LANES, part);
    return (lane_pair){lanes_fma(lanes_from_ints(first), k.scale, k.offset),
                       lanes_fma(lanes_from_ints(second), k.scale, k.offset)};
}

/// Sixteen values of Q6_K: a nibble each from `low`, two bits each from `high`.
LANES_INLINE lanes
sixteen_of_q6_k(const uint8_t* low, int low_bit, const uint8_t* high, int high_bit, float scale) {
    const lane_ints nibbles = lane_ints_and(lane_ints_right(lane_ints_u8(low), low_bit), 15);
    const lane_ints tops = lane_ints_and(lane_ints_right(lane_ints_u8(high), high_bit), 3);
    const lane_ints values = lane_ints_add(lane_ints_or(nibbles, lane_ints_left(tops, 4)), -32);
    return lanes_mul(lanes_from_ints(values), lanes_set(scale));
}

LANES_INLINE lane_pair decode_q6_k(const uint8_t* row, int64_t index) {
    const uint8_t* block = row + index / 8 * 210;
    const int part = (int)(index % 8); // 32 values: two parts share their nibbles' bytes
    const int quarter = part % 4;
    const uint8_t* low = block + 64 * (part / 4) + 32 * (quarter & 1);
    const uint8_t* high = block + 128 + 32 * (part / 4);
    const int8_t* scales = (const int8_t*)(block + 192) + 2 * part;
    uint16_t bits;
    memcpy(&bits, block + 208, sizeof bits);
    const float scale = berth_f16_to_f32(bits);
    const int low_bit = quarter >= 2 ? 4 : 0;
    return (lane_pair){
        sixteen_of_q6_k(low, low_bit, high, 2 * quarter, scale * (float)scales[0]),
        sixteen_of_q6_k(low + LANES, low_bit, high + LANES, 2 * quarter, scale * (float)scales[1])};
}

/// The last weights of a row that is no whole number of blocks, followed by zeros. Only plain types
/// have such rows.
LANES_INLINE lane_pair decode_tail(decode_fn* decode,
                                   int64_t value_bytes,
                                   const uint8_t* row,
                                   int64_t k) {
    _Alignas(float) uint8_t padded[BLOCK * sizeof(float)] = {0};
    const int64_t whole = k / BLOCK * BLOCK;
    memcpy(padded, row + whole * value_bytes, (size_t)((k - whole) * value_bytes));
    return decode(padded, 0);
}

LANES_INLINE void add_products(lanes* sum, lane_pair weights, const float* x) {
    *sum = lanes_fma(lanes_load(x), weights.first, *sum);
    *sum = lanes_fma(lanes_load(x + LANES), weights.second, *sum);
}

/// Rows of quantised weights are short, and some are read at once: too many short streams for a
/// hardware prefetcher, so each block asks for its share, `bytes`, of the rows that follow.
LANES_INLINE void ask_ahead(const uint8_t* w, int64_t distance, int64_t bytes, int64_t index) {
    const uint8_t* ahead = w + index * bytes + distance;
    LANES_UNROLL for (int64_t line = 0; line < bytes; line += 64) {
        __builtin_prefetch(ahead + line);
    }
}

/// `rows` is a constant, `value_bytes` 0 for quantised types.
LANES_INLINE void dot_rows(decode_fn* decode,
                           int64_t value_bytes,
                           int64_t block_bytes,
                           const int rows,
                           const uint8_t* w,
                           int64_t row_bytes,
                           const float* x,
                           int64_t k,
                           float* out) {
    lanes sums[DOT_ROWS];
    LANES_UNROLL for (int r = 0; r < rows; r++) sums[r] = lanes_zero();
    const int64_t blocks = k / BLOCK;
    for (int64_t b = 0; b < blocks; b++) {
        if (block_bytes <= 64) ask_ahead(w, AHEAD_BYTES, DOT_ROWS * block_bytes, b);
        LANES_UNROLL for (int r = 0; r < rows; r++) {
            add_products(&sums[r], decode(w + r * row_bytes, b), x + b * BLOCK);
        }
    }
    if (value_bytes != 0 && k % BLOCK != 0) {
        LANES_UNROLL for (int r = 0; r < rows; r++) {
            const lane_pair weights = decode_tail(decode, value_bytes, w + r * row_bytes, k);
            add_products(&sums[r], weights, x + blocks * BLOCK);
        }
    }
    LANES_UNROLL for (int r = 0; r < rows; r++) out[r] = lanes_sum(sums[r]);
}

LANES_INLINE void dot(decode_fn* decode,
                      int64_t value_bytes,
                      int64_t block_bytes,
                      const uint8_t* w,
                      int64_t row_bytes,
                      int64_t rows,
                      const float* x,
                      int64_t k,
                      float* out) {
    int64_t r = 0;
    for (; r + DOT_ROWS <= rows; r += DOT_ROWS) {
        dot_rows(decode,
                 value_bytes,
                 block_bytes,
                 DOT_ROWS,
                 w + r * row_bytes,
                 row_bytes,
                 x,
                 k,
                 out + r);
    }
    for (; r < rows; r++) {
        dot_rows(decode, value_bytes, block_bytes, 1, w + r * row_bytes, row_bytes, x, k, out + r);
    }
}

LANES_INLINE void put_in_panel(float* panel, int64_t row, int64_t block, lane_pair weights) {
    float* at = panel + (2 * block * PANEL_ROWS + row) * LANES;
    lanes_store(at, weights.first);
    lanes_store(at + PANEL_ROWS * LANES, weights.second);
}

/// `rows` is a constant.
LANES_INLINE void pack_rows(decode_fn* decode,
                            int64_t value_bytes,
                            int64_t block_bytes,
                            const int rows,
                            const uint8_t* w,
                            int64_t row_bytes,
                            int64_t k,
                            float* panel) {
    const int64_t blocks = k / BLOCK;
    for (int64_t b = 0; b < blocks; b++) {
        if (block_bytes <= 64) ask_ahead(w, PACK_AHEAD_BYTES, rows * block_bytes, b);
        LANES_UNROLL for (int r = 0; r < rows; r++) {
            put_in_panel(panel, r, b, decode(w + r * row_bytes, b));
        }
    }
    if (value_bytes != 0 && k % BLOCK != 0) {
        LANES_UNROLL for (int r = 0; r < rows; r++) {
            put_in_panel(panel, r, blocks, decode_tail(decode, value_bytes, w + r * row_bytes, k));
        }
    }
}

LANES_INLINE void pack(decode_fn* decode,
                       int64_t value_bytes,
                       int64_t block_bytes,
                       const uint8_t* w,
                       int64_t row_bytes,
                       int64_t rows,
                       int64_t k,
                       float* panel) {
    if (rows == PANEL_ROWS) {
        pack_rows(decode, value_bytes, block_bytes, PANEL_ROWS, w, row_bytes, k, panel);
        return;
    }
    const lane_pair zeros = {lanes_zero(), lanes_zero()};
    const int64_t blocks = (k + BLOCK - 1) / BLOCK;
    for (int64_t r = 0; r < PANEL_ROWS; r++) {
        if (r < rows) {
            float* at = panel + r * LANES;
            pack_rows(decode, value_bytes, block_bytes, 1, w + r * row_bytes, row_bytes, k, at);
            continue;
        }
        for (int64_t b = 0; b < blocks; b++)
            put_in_panel(panel, r, b, zeros);
    }
}

// clang-format off
/// Types that are decoded in registers: X(dtype, name, bytes a value or 0 if quantised, bytes of 32
/// weights).
#define LINEAR_TYPES(X)    \
    X(F32,  f32,  4, 128)  \
    X(F16,  f16,  2,  64)  \
    X(BF16, bf16, 2,  64)  \
    X(Q8_0, q8_0, 0,  34)  \
    X(Q4_0, q4_0, 0,  18)  \
    X(Q4_1, q4_1, 0,  20)  \
    X(Q5_0, q5_0, 0,  22)  \
    X(Q5_1, q5_1, 0,  24)  \
    X(Q4_K, q4_k, 0,  18)  \
    X(Q5_K, q5_k, 0,  22)  \
    X(Q6_K, q6_k, 0,  26)
// clang-format on

#define DEFINE_ROW_WORK(dtype, name, value_bytes, block_bytes)                                     \
    static void dot_##name(const uint8_t* w,                                                       \
                           int64_t row_bytes,                                                      \
                           int64_t rows,                                                           \
                           const float* x,                                                         \
                           int64_t k,                                                              \
                           float* out) {                                                           \
        dot(decode_##name, value_bytes, block_bytes, w, row_bytes, rows, x, k, out);               \
    }                                                                                              \
    static void pack_##name(                                                                       \
        const uint8_t* w, int64_t row_bytes, int64_t rows, int64_t k, float* panel) {              \
        pack(decode_##name, value_bytes, block_bytes, w, row_bytes, rows, k, panel);               \
    }
LINEAR_TYPES(DEFINE_ROW_WORK)

#define ROW_WORK(dtype, name, value_bytes, block_bytes)                                            \
    .dot[BERTH_##dtype] = dot_##name, .pack[BERTH_##dtype] = pack_##name,

/// Defines the instruction set's table, given its tile function.
#define DEFINE_LINEAR_ISA(symbol, tile_function)                                                   \
    const berth_linear_isa symbol = {LINEAR_TYPES(ROW_WORK).tile = tile_function}

#endif // BERTH_DEVICE_CPU_KERNEL_LINEAR_ROWS_H
