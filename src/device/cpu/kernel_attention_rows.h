// SPDX-License-Identifier: Apache-2.0
// The inner loops of attention: bringing a tile of keys into columns and values into rows, a small
// matrix product, the softmax taken as the keys come. Included by the file of each instruction set.
#ifndef BERTH_DEVICE_CPU_KERNEL_ATTENTION_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_ATTENTION_ROWS_H

#include "device/cpu/kernel_basic_rows.h"
#include "device/cpu/kernel_basic_simd.h"
#include "device/cpu/kernel_convert_scalar.h"

// Shuffles within the 128-bit quarters of two vectors, and of whole quarters.
#if VF_LANES == 16
#define ZIP_LOW(a, b)                                                                              \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define ZIP_HIGH(a, b)                                                                             \
    __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define ZIP_PAIRS_LOW(a, b)                                                                        \
    __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define ZIP_PAIRS_HIGH(a, b)                                                                       \
    __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define QUARTERS_EVEN(a, b)                                                                        \
    __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define QUARTERS_ODD(a, b)                                                                         \
    __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
#elif VF_LANES == 8
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define ZIP_PAIRS_LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define ZIP_PAIRS_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define QUARTERS_EVEN(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define QUARTERS_ODD(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)
#else
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define ZIP_PAIRS_LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define ZIP_PAIRS_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#endif

/// Transposes the 4 x 4 squares in the quarters of four rows: quarter Q of x[c] becomes column
/// 4 Q + c of the rows.
VF_INLINE void transpose_quarters(vf x[4]) {
    const vf a = ZIP_LOW(x[0], x[1]);
    const vf b = ZIP_HIGH(x[0], x[1]);
    const vf c = ZIP_LOW(x[2], x[3]);
    const vf d = ZIP_HIGH(x[2], x[3]);
    x[0] = ZIP_PAIRS_LOW(a, c);
    x[1] = ZIP_PAIRS_HIGH(a, c);
    x[2] = ZIP_PAIRS_LOW(b, d);
    x[3] = ZIP_PAIRS_HIGH(b, d);
}

/// Writes the transpose of VF_LANES rows, [VF_LANES, VF_LANES], with rows TILE apart.
VF_INLINE void store_transposed(float* to, vf x[VF_LANES]) {
    for (int32_t r = 0; r < VF_LANES; r += 4)
        transpose_quarters(x + r);
    for (int32_t c = 0; c < 4; ++c) {
        float* at = to + c * BERTH_ATTENTION_TILE;
#if VF_LANES == 16
        const vf low_even = QUARTERS_EVEN(x[c], x[c + 4]);
        const vf low_odd = QUARTERS_ODD(x[c], x[c + 4]);
        const vf high_even = QUARTERS_EVEN(x[c + 8], x[c + 12]);
        const vf high_odd = QUARTERS_ODD(x[c + 8], x[c + 12]);
        vf_store(at, QUARTERS_EVEN(low_even, high_even));
        vf_store(at + 4 * BERTH_ATTENTION_TILE, QUARTERS_EVEN(low_odd, high_odd));
        vf_store(at + 8 * BERTH_ATTENTION_TILE, QUARTERS_ODD(low_even, high_even));
        vf_store(at + 12 * BERTH_ATTENTION_TILE, QUARTERS_ODD(low_odd, high_odd));
#elif VF_LANES == 8
        vf_store(at, QUARTERS_EVEN(x[c], x[c + 4]));
        vf_store(at + 4 * BERTH_ATTENTION_TILE, QUARTERS_ODD(x[c], x[c + 4]));
#else
        vf_store(at, x[c]);
#endif
    }
}

VF_INLINE float widen_f32(float x) { return x; }
VF_INLINE float widen_f16(uint16_t x) { return berth_f16_to_f32(x); }
VF_INLINE float widen_bf16(uint16_t x) { return berth_bf16_to_f32(x); }

VF_INLINE vf load_f32(const float* from) { return vf_load(from); }

VF_INLINE vf load_f16(const uint16_t* from) {
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const void*)from));
#elif defined(__F16C__)
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const void*)from));
#else
    vf x;
    for (int32_t i = 0; i < VF_LANES; ++i)
        x[i] = berth_f16_to_f32(from[i]);
    return x;
#endif
}

VF_INLINE vf load_bf16(const uint16_t* from) {
#if defined(__AVX512F__)
    const __m256i narrow = _mm256_loadu_si256((const void*)from);
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16);
#elif defined(__AVX2__)
    const __m128i narrow = _mm_loadu_si128((const void*)from);
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16);
#else
    vf x;
    for (int32_t i = 0; i < VF_LANES; ++i)
        x[i] = berth_bf16_to_f32(from[i]);
    return x;
#endif
}

/// The functions that bring a tile of keys into columns, VF_LANES of them at a time, and values
/// into f32 rows.
#define TILE_ROWS(name, type)                                                                      \
    VF_INLINE void transpose_lanes_##name(float* to,                                               \
                                          const type* from,                                        \
                                          int64_t stride,                                          \
                                          int64_t count,                                           \
                                          int64_t depth,                                           \
                                          const berth_rows_ahead* ahead,                           \
                                          int64_t key) {                                           \
        /* rows a step, of which there are none where the depth is less */                         \
        const int64_t asked = depth < VF_LANES ? 0 : (VF_LANES * VF_LANES + depth - 1) / depth;    \
        int64_t d = 0;                                                                             \
        for (; d + VF_LANES <= depth; d += VF_LANES) {                                             \
            vf x[VF_LANES];                                                                        \
            for (int32_t i = 0; i < VF_LANES; ++i) {                                               \
                x[i] = i < count ? load_##name(from + i * stride + d) : (vf){0};                   \
            }                                                                                      \
            for (int64_t i = 0; i < asked; ++i)                                                    \
                berth_rows_ask(ahead, key + d / VF_LANES * asked + i);                             \
            store_transposed(to + d * BERTH_ATTENTION_TILE, x);                                    \
        }                                                                                          \
        for (; d < depth; ++d) {                                                                   \
            for (int32_t i = 0; i < VF_LANES; ++i) {                                               \
                to[d * BERTH_ATTENTION_TILE + i] =                                                 \
                    i < count ? widen_##name(from[i * stride + d]) : 0.0f;                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void transpose_tile_##name(float* to,                                                   \
                                      int64_t columns,                                             \
                                      const void* from,                                            \
                                      int64_t stride,                                              \
                                      int64_t count,                                               \
                                      int64_t depth,                                               \
                                      const berth_rows_ahead* ahead) {                             \
        const type* keys = from;                                                                   \
        for (int64_t key = 0; key < columns; key += VF_LANES) {                                    \
            const type* lanes = key < count ? keys + key * stride : keys;                          \
            const int64_t left = count - key;                                                      \
            if (left >= VF_LANES) {                                                                \
                transpose_lanes_##name(to + key, lanes, stride, VF_LANES, depth, ahead, key);      \
            } else {                                                                               \
                transpose_lanes_##name(to + key, lanes, stride, left, depth, ahead, key);          \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void widen_tile_##name(float* to,                                                       \
                                  int64_t pitch,                                                   \
                                  const void* from,                                                \
                                  int64_t stride,                                                  \
                                  int64_t count,                                                   \
                                  int64_t width,                                                   \
                                  const berth_rows_ahead* ahead) {                                 \
        for (int64_t row = 0; row < count; ++row, to += pitch) {                                   \
            const type* values = (const type*)from + row * stride;                                 \
            berth_rows_ask(ahead, row);                                                            \
            int64_t i = 0;                                                                         \
            for (; i + VF_LANES <= width; i += VF_LANES)                                           \
                vf_store(to + i, load_##name(values + i));                                         \
            for (; i < width; ++i)                                                                 \
                to[i] = widen_##name(values[i]);                                                   \
            for (; i < pitch; ++i)                                                                 \
                to[i] = 0.0f;                                                                      \
        }                                                                                          \
    }

TILE_ROWS(f32, float)
TILE_ROWS(f16, uint16_t)
TILE_ROWS(bf16, uint16_t)

// Sums are kept in registers: ROWS x VECTORS of them, besides one row of b and one value of a.
#define MULTIPLY_ROWS 6
#if VF_LANES == 16
#define MULTIPLY_VECTORS 4
#else
#define MULTIPLY_VECTORS 2
#endif

typedef struct multiply_job {
    float* c;
    const float* a;
    const float* b;
    int64_t c_stride;
    int64_t a_stride;
    int64_t b_stride;
    int64_t depth;
} multiply_job;

/// `rows` and `vectors` are constants where this is called, so that all loops over them unroll.
VF_INLINE void multiply_block(const multiply_job* job, int32_t rows, int32_t vectors) {
    vf sum[MULTIPLY_ROWS][MULTIPLY_VECTORS];
    for (int32_t r = 0; r < rows; ++r) {
        for (int32_t v = 0; v < vectors; ++v) {
            sum[r][v] = vf_load(job->c + r * job->c_stride + v * VF_LANES);
        }
    }
    const float* b = job->b;
    for (int64_t d = 0; d < job->depth; ++d, b += job->b_stride) {
        vf column[MULTIPLY_VECTORS];
        for (int32_t v = 0; v < vectors; ++v)
            column[v] = vf_load(b + v * VF_LANES);
        for (int32_t r = 0; r < rows; ++r) {
            const vf a = vf_set(job->a[r * job->a_stride + d]);
            for (int32_t v = 0; v < vectors; ++v)
                sum[r][v] = vf_fma(a, column[v], sum[r][v]);
        }
    }
    for (int32_t r = 0; r < rows; ++r) {
        for (int32_t v = 0; v < vectors; ++v) {
            vf_store(job->c + r * job->c_stride + v * VF_LANES, sum[r][v]);
        }
    }
}

VF_INLINE void multiply_rows(const multiply_job* job, int64_t rows, int32_t vectors) {
    switch (rows) {
    case 1:
        multiply_block(job, 1, vectors);
        break;
    case 2:
        multiply_block(job, 2, vectors);
        break;
    case 3:
        multiply_block(job, 3, vectors);
        break;
    case 4:
        multiply_block(job, 4, vectors);
        break;
    case 5:
        multiply_block(job, 5, vectors);
        break;
    default:
        multiply_block(job, MULTIPLY_ROWS, vectors);
        break;
    }
}

static void multiply_add_rows(float* c,
                              int64_t c_stride,
                              const float* a,
                              int64_t a_stride,
                              const float* b,
                              int64_t b_stride,
                              int64_t rows,
                              int64_t depth,
                              int64_t columns) {
    for (int64_t row = 0; row < rows; row += MULTIPLY_ROWS) {
        const int64_t some = rows - row < MULTIPLY_ROWS ? rows - row : MULTIPLY_ROWS;
        int64_t column = 0;
        while (column < columns) {
            const multiply_job job = {
                .c = c + row * c_stride + column,
                .a = a + row * a_stride,
                .b = b + column,
                .c_stride = c_stride,
                .a_stride = a_stride,
                .b_stride = b_stride,
                .depth = depth,
            };
            if (columns - column >= MULTIPLY_VECTORS * VF_LANES) {
                multiply_rows(&job, some, MULTIPLY_VECTORS);
                column += MULTIPLY_VECTORS * VF_LANES;
            } else {
                multiply_rows(&job, some, 1);
                column += VF_LANES;
            }
        }
    }
}

/// e^(x - y) of single values, x <= y, with the vectors' arithmetic.
VF_INLINE float power_of_difference(float x, float y) { return vf_exp_fused(vf_set(x - y))[0]; }

static void attend_row(
    float* scores, int64_t count, berth_attention_state* state, float* sums, int64_t columns) {
    vf largest[VF_PARTIAL_VECTORS];
    vf total[VF_PARTIAL_VECTORS];
    for (int32_t v = 0; v < VF_PARTIAL_VECTORS; ++v) {
        largest[v] = vf_set(state->largest);
        total[v] = (vf){0};
    }
    // Scores from `count` on are of keys that the row does not see.
    for (int64_t i = count; i < BERTH_ATTENTION_TILE; ++i)
        scores[i] = -INFINITY;
    for (int64_t i = 0; i < count; i += VF_PARTIALS) {
        for (int32_t v = 0; v < VF_PARTIAL_VECTORS; ++v) {
            // A NaN may be lost here; its power is NaN all the same.
            largest[v] = vf_larger(vf_load(scores + i + v * VF_LANES), largest[v]);
        }
    }
    const float now = vf_largest(largest);
    const vf shift = vf_set(now);
    for (int64_t i = 0; i < count; i += VF_PARTIALS) {
        for (int32_t v = 0; v < VF_PARTIAL_VECTORS; ++v) {
            const vf power = vf_exp_fused(vf_load(scores + i + v * VF_LANES) - shift);
            vf_store(scores + i + v * VF_LANES, power);
            total[v] = total[v] + power;
        }
    }
    if (now != state->largest) {
        const float keep = power_of_difference(state->largest, now);
        for (int64_t c = 0; c < columns; c += VF_LANES) {
            vf_store(sums + c, vf_load(sums + c) * vf_set(keep));
        }
        state->total = state->total * keep;
        state->largest = now;
    }
    state->total = state->total + vf_sum(total);
}

static void attend_merge_row(berth_attention_state* state,
                             float* sums,
                             const berth_attention_state* other,
                             const float* other_sums,
                             int64_t columns) {
    const vf both = vf_larger(vf_set(state->largest), vf_set(other->largest));
    const float keep = power_of_difference(state->largest, both[0]);
    const float take = power_of_difference(other->largest, both[0]);
    for (int64_t c = 0; c < columns; c += VF_LANES) {
        const vf kept = vf_load(sums + c) * vf_set(keep);
        vf_store(sums + c, kept + vf_load(other_sums + c) * vf_set(take));
    }
    state->total = state->total * keep + other->total * take;
    state->largest = both[0];
}

#endif // BERTH_DEVICE_CPU_KERNEL_ATTENTION_ROWS_H
