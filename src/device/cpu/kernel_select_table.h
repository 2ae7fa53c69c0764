// SPDX-License-Identifier: Apache-2.0
// The loops of sorting and selecting. Each of the three files that include this is compiled for
// another instruction set and names its table by BERTH_SELECT_ROWS. Most are plain: the compiler
// makes vectors of them.
//
// Keys of floats: negative values are turned over, others get the sign bit; -0 takes the key of 0,
// every NaN the largest there is.
#ifndef BERTH_DEVICE_CPU_KERNEL_SELECT_TABLE_H
#define BERTH_DEVICE_CPU_KERNEL_SELECT_TABLE_H

#include <string.h>

#include "device/cpu/kernel_select_rows.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

// --- Keys ----------------------------------------------------------------------------------------

/// The key of the float with sign bit `sign`, and infinity's bits `infinity`.
static inline uint32_t float_key(uint32_t bits, uint32_t sign, uint32_t infinity) {
    const uint32_t turned = (bits & sign) != 0 ? ~bits & (sign | (sign - 1)) : bits | sign;
    const uint32_t magnitude = bits & (sign - 1);
    const uint32_t key = magnitude == 0 ? sign : turned;
    return magnitude > infinity ? sign | (sign - 1) : key;
}

static inline uint32_t key_float(uint32_t key, uint32_t sign, uint32_t nan) {
    const uint32_t bits = (key & sign) != 0 ? key ^ sign : ~key & (sign | (sign - 1));
    return key == (sign | (sign - 1)) ? nan : bits;
}

#define DEFINE_FLOAT_KEYS(name, type, sign, infinity, nan)                                         \
    static void keys_##name(uint32_t* key, const void* x, int64_t count) {                         \
        const type* from = x;                                                                      \
        for (int64_t i = 0; i < count; ++i)                                                        \
            key[i] = float_key(from[i], sign, infinity);                                           \
    }                                                                                              \
    static void values_##name(void* x, const uint32_t* key, int64_t count) {                       \
        type* to = x;                                                                              \
        for (int64_t i = 0; i < count; ++i)                                                        \
            to[i] = (type)key_float(key[i], sign, nan);                                            \
    }
DEFINE_FLOAT_KEYS(f32, uint32_t, 0x80000000u, 0x7f800000u, 0x7fc00000u)
DEFINE_FLOAT_KEYS(f16, uint16_t, 0x8000u, 0x7c00u, 0x7e00u)
DEFINE_FLOAT_KEYS(bf16, uint16_t, 0x8000u, 0x7f80u, 0x7fc0u)

/// Integers: the sign bit turned over, so that negative ones come first.
#define DEFINE_INTEGER_KEYS(name, key_type, type, sign)                                            \
    static void keys_##name(key_type* key, const void* x, int64_t count) {                         \
        const type* from = x;                                                                      \
        for (int64_t i = 0; i < count; ++i)                                                        \
            key[i] = (key_type)(from[i] ^ (type)(sign));                                           \
    }                                                                                              \
    static void values_##name(void* x, const key_type* key, int64_t count) {                       \
        type* to = x;                                                                              \
        for (int64_t i = 0; i < count; ++i)                                                        \
            to[i] = (type)((type)key[i] ^ (type)(sign));                                           \
    }
DEFINE_INTEGER_KEYS(i32, uint32_t, uint32_t, 0x80000000u)
DEFINE_INTEGER_KEYS(i64, uint64_t, uint64_t, 0x8000000000000000u)
DEFINE_INTEGER_KEYS(i8, uint32_t, uint8_t, 0x80u)
DEFINE_INTEGER_KEYS(u8, uint32_t, uint8_t, 0u)

static void keys_bool(uint32_t* key, const void* x, int64_t count) {
    const uint8_t* from = x;
    for (int64_t i = 0; i < count; ++i)
        key[i] = from[i] != 0;
}

// --- Flags ---------------------------------------------------------------------------------------

/// How many of `count` flags are set.
static int64_t count_flags(const uint8_t* flag, int64_t count) {
    uint32_t set = 0;
    for (int64_t i = 0; i < count; ++i)
        set += flag[i];
    return set;
}

#define DEFINE_BELOW(name, type)                                                                   \
    static int64_t name(uint8_t* flag, const type* key, int64_t count, type limit) {               \
        for (int64_t i = 0; i < count; ++i)                                                        \
            flag[i] = key[i] < limit;                                                              \
        return count_flags(flag, count);                                                           \
    }
DEFINE_BELOW(below_32, uint32_t)
DEFINE_BELOW(below_64, uint64_t)

/// Bits that matter: all of an integer, all but the sign of a float.
#define DEFINE_NONZERO(name, type, bits)                                                           \
    static int64_t nonzero_##name(uint8_t* flag, const void* x, int64_t count) {                   \
        const type* from = x;                                                                      \
        for (int64_t i = 0; i < count; ++i)                                                        \
            flag[i] = (from[i] & (type)(bits)) != 0;                                               \
        return count_flags(flag, count);                                                           \
    }
DEFINE_NONZERO(f32, uint32_t, 0x7fffffffu)
DEFINE_NONZERO(half, uint16_t, 0x7fffu)
DEFINE_NONZERO(i32, uint32_t, 0xffffffffu)
DEFINE_NONZERO(i64, uint64_t, 0xffffffffffffffffu)
DEFINE_NONZERO(byte, uint8_t, 0xffu)

// --- Packing -------------------------------------------------------------------------------------

/// Items [i, count) by eight flags at a time; `n` of them are packed already.
#define DEFINE_PACK_REST(type)                                                                     \
    static int64_t pack_rest_##type(                                                               \
        type* to, int64_t n, const type* from, const uint8_t* flag, int64_t i, int64_t count) {    \
        for (; i + 8 <= count; i += 8) {                                                           \
            uint64_t flags;                                                                        \
            memcpy(&flags, flag + i, sizeof flags);                                                \
            if (flags == 0) continue;                                                              \
            for (int64_t j = i; j < i + 8; ++j) {                                                  \
                to[n] = from[j];                                                                   \
                n += flag[j];                                                                      \
            }                                                                                      \
        }                                                                                          \
        for (; i < count; ++i) {                                                                   \
            if (flag[i] != 0) to[n++] = from[i];                                                   \
        }                                                                                          \
        return n;                                                                                  \
    }
DEFINE_PACK_REST(uint8_t)
DEFINE_PACK_REST(uint16_t)
DEFINE_PACK_REST(uint32_t)
DEFINE_PACK_REST(uint64_t)

#if defined(__AVX512F__)
static inline __mmask16 flags_16(const uint8_t* flag) {
    const __m128i flags = _mm_loadu_si128((const __m128i*)(const void*)flag);
    return _mm_test_epi8_mask(flags, flags);
}

static inline int64_t mask_count(uint32_t mask) { return __builtin_popcount(mask); }

// A whole vector is stored each time: what is past the packed items is overwritten by the next.
#define DEFINE_PACK(type, load, store)                                                             \
    static int64_t pack_##type(void* to, const void* x, const uint8_t* flag, int64_t count) {      \
        type* out = to;                                                                            \
        const type* from = x;                                                                      \
        int64_t n = 0, i = 0;                                                                      \
        for (; i + 16 <= count; i += 16) {                                                         \
            const __mmask16 mask = flags_16(flag + i);                                             \
            if (mask == 0) continue;                                                               \
            const __m512i items = _mm512_maskz_compress_epi32(mask, load(from + i));               \
            store(out + n, items);                                                                 \
            n += mask_count(mask);                                                                 \
        }                                                                                          \
        return pack_rest_##type(out, n, from, flag, i, count);                                     \
    }

static inline __m512i load_1(const void* at) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(at)); }
static inline __m512i load_2(const void* at) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(at));
}
static inline __m512i load_4(const void* at) { return _mm512_loadu_si512(at); }
static inline void store_1(void* at, __m512i items) {
    _mm_storeu_si128(at, _mm512_cvtepi32_epi8(items));
}
static inline void store_2(void* at, __m512i items) {
    _mm256_storeu_si256(at, _mm512_cvtepi32_epi16(items));
}
static inline void store_4(void* at, __m512i items) { _mm512_storeu_si512(at, items); }
DEFINE_PACK(uint8_t, load_1, store_1)
DEFINE_PACK(uint16_t, load_2, store_2)
DEFINE_PACK(uint32_t, load_4, store_4)

static int64_t pack_uint64_t(void* to, const void* x, const uint8_t* flag, int64_t count) {
    uint64_t* out = to;
    const uint64_t* from = x;
    int64_t n = 0, i = 0;
    for (; i + 16 <= count; i += 16) {
        const __mmask16 mask = flags_16(flag + i);
        const __mmask8 low = (__mmask8)mask, high = (__mmask8)(mask >> 8);
        if (mask == 0) continue;
        _mm512_storeu_si512(out + n, _mm512_maskz_compress_epi64(low, load_4(from + i)));
        n += mask_count(low);
        _mm512_storeu_si512(out + n, _mm512_maskz_compress_epi64(high, load_4(from + i + 8)));
        n += mask_count(high);
    }
    return pack_rest_uint64_t(out, n, from, flag, i, count);
}
#else
#define DEFINE_PACK(type)                                                                          \
    static int64_t pack_##type(void* to, const void* x, const uint8_t* flag, int64_t count) {      \
        return pack_rest_##type(to, 0, x, flag, 0, count);                                         \
    }
DEFINE_PACK(uint8_t)
DEFINE_PACK(uint16_t)
DEFINE_PACK(uint32_t)
DEFINE_PACK(uint64_t)
#endif

static int64_t positions_row(uint32_t* to, const uint8_t* flag, int64_t count) {
    uint32_t numbers[BERTH_SELECT_PIECE];
    for (int64_t i = 0; i < count; ++i)
        numbers[i] = (uint32_t)i;
    return pack_uint32_t(to, numbers, flag, count);
}

// --- The table -----------------------------------------------------------------------------------

const berth_select_rows BERTH_SELECT_ROWS = {
    .keys =
        {
            [BERTH_F32] = keys_f32,
            [BERTH_F16] = keys_f16,
            [BERTH_BF16] = keys_bf16,
            [BERTH_I32] = keys_i32,
            [BERTH_I8] = keys_i8,
            [BERTH_U8] = keys_u8,
            [BERTH_BOOL] = keys_bool,
        },
    .keys_i64 = keys_i64,
    .values =
        {
            [BERTH_F32] = values_f32,
            [BERTH_F16] = values_f16,
            [BERTH_BF16] = values_bf16,
            [BERTH_I32] = values_i32,
            [BERTH_I8] = values_i8,
            [BERTH_U8] = values_u8,
            [BERTH_BOOL] = values_u8,
        },
    .values_i64 = values_i64,
    .below = below_32,
    .below_64 = below_64,
    .nonzero =
        {
            [BERTH_F32] = nonzero_f32,
            [BERTH_F16] = nonzero_half,
            [BERTH_BF16] = nonzero_half,
            [BERTH_I32] = nonzero_i32,
            [BERTH_I64] = nonzero_i64,
            [BERTH_I8] = nonzero_byte,
            [BERTH_U8] = nonzero_byte,
            [BERTH_BOOL] = nonzero_byte,
        },
    .pack = {pack_uint8_t, pack_uint16_t, pack_uint32_t, pack_uint64_t},
    .positions = positions_row,
};

#endif // BERTH_DEVICE_CPU_KERNEL_SELECT_TABLE_H
