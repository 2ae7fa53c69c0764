// SPDX-License-Identifier: Apache-2.0
// The two inner loops of attention: bringing a tile of keys into columns, and a small matrix
// product. Included by the file of each instruction set.
#ifndef BERTH_DEVICE_CPU_KERNEL_ATTENTION_ROWS_H
#define BERTH_DEVICE_CPU_KERNEL_ATTENTION_ROWS_H

#include "device/cpu/kernel_basic_rows.h"
#include "device/cpu/kernel_basic_simd.h"

// The first halves, and the second halves, of two vectors, element by element.
#if VF_LANES == 16
#define VF_ZIP_LOW(a, b)                                                                           \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define VF_ZIP_HIGH(a, b)                                                                          \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VF_LANES == 8
#define VF_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define VF_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define VF_ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define VF_ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/// One pass of a perfect shuffle of VF_LANES vectors; log2(VF_LANES) passes transpose them.
VF_INLINE void shuffle_pass(vf to[VF_LANES], const vf from[VF_LANES]) {
    for (int32_t i = 0; i < VF_LANES / 2; ++i) {
        to[2 * i] = VF_ZIP_LOW(from[i], from[i + VF_LANES / 2]);
        to[2 * i + 1] = VF_ZIP_HIGH(from[i], from[i + VF_LANES / 2]);
    }
}

VF_INLINE void transpose_square(vf x[VF_LANES]) {
    vf y[VF_LANES];
    shuffle_pass(y, x);
    shuffle_pass(x, y);
#if VF_LANES >= 8
    shuffle_pass(y, x);
#if VF_LANES == 16
    shuffle_pass(x, y);
#else
    for (int32_t i = 0; i < VF_LANES; ++i)
        x[i] = y[i];
#endif
#endif
}

/// VF_LANES keys from `key` on: columns key .. key + VF_LANES of the tile.
VF_INLINE void transpose_lanes(
    float* to, const float* from, int64_t stride, int64_t key, int64_t count, int64_t depth) {
    int64_t d = 0;
    for (; d + VF_LANES <= depth; d += VF_LANES) {
        vf x[VF_LANES];
        for (int32_t i = 0; i < VF_LANES; ++i) {
            x[i] = key + i < count ? vf_load(from + (key + i) * stride + d) : (vf){0};
        }
        transpose_square(x);
        for (int32_t i = 0; i < VF_LANES; ++i) {
            vf_store(to + (d + i) * BERTH_ATTENTION_TILE + key, x[i]);
        }
    }
    for (; d < depth; ++d) {
        for (int64_t i = key; i < key + VF_LANES; ++i) {
            to[d * BERTH_ATTENTION_TILE + i] = i < count ? from[i * stride + d] : 0.0f;
        }
    }
}

static void transpose_tile_row(
    float* to, const float* from, int64_t stride, int64_t count, int64_t depth) {
    for (int64_t key = 0; key < BERTH_ATTENTION_TILE; key += VF_LANES) {
        transpose_lanes(to, from, stride, key, count, depth);
    }
}

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

/// e^(x - y) of single values, with the vectors' arithmetic.
VF_INLINE float power_of_difference(float x, float y) { return vf_exp(vf_set(x - y))[0]; }

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
            largest[v] = vf_max_nan(largest[v], vf_load(scores + i + v * VF_LANES));
        }
    }
    const float now = vf_max(largest);
    const vf shift = vf_set(now);
    for (int64_t i = 0; i < count; i += VF_PARTIALS) {
        for (int32_t v = 0; v < VF_PARTIAL_VECTORS; ++v) {
            const vf power = vf_exp(vf_load(scores + i + v * VF_LANES) - shift);
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
    const vf both = vf_max_nan(vf_set(state->largest), vf_set(other->largest));
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
