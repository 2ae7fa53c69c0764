// SPDX-License-Identifier: Apache-2.0
// What the kernels of products of two operands of one half type share. Tensor cores multiply them:
// out^T [columns, rows] = b^T [columns, depth] * a^T [depth, rows], so that b's columns are the 16
// lines of the instruction's first operand and a's rows the 8 of its second. Few rows waste least
// this way round, and it is the same way round for any number of them.
//
// The order of summation: segments as in cuda_product.cuh. A segment is cut into steps of 32 of the
// depth, each of which is two instructions: the first adds those k whose k % 8 is below 4, the
// second the others. Steps that begin behind the depth are left out; within the last one both
// operands are zero there. What an instruction adds in which order is the hardware's affair, and
// the same wherever in it a row or a column lies.
//
// Why two instructions share a step this way: of each line a thread has eight neighbours, 16 bytes,
// which it reads at once, be it from global or from shared memory; four go to each instruction.
#ifndef BERTH_DEVICE_CUDA_PRODUCT_HALVES_CUH
#define BERTH_DEVICE_CUDA_PRODUCT_HALVES_CUH

#include "device/cuda/cuda_product.cuh"

#define PRODUCT_STEP 32

static_assert(PRODUCT_SEGMENT % PRODUCT_STEP == 0, "a segment is whole steps");

/// Eight halves.
typedef lanes<uint32_t, 4> eight;

/// What a thread has of a step of 8 lines (rows of a, columns of b): of line lane / 4 the eight
/// elements from k = lane % 4 * 8 on, two to a register.
struct stretch {
    uint32_t two[4];
};

/// Adds the products of a step of 16 columns of b, the lower 8 and the upper 8, with 8 rows of a.
/// sums: columns lane / 4 and lane / 4 + 8 of rows lane % 4 * 2 and the next one, row by row first.
template <class T>
DEVICE void multiply_step(const stretch& low,
                          const stretch& high,
                          const stretch& rows,
                          float (&sums)[4]) {
    UNROLL
    for (int i = 0; i < 4; i += 2) {
        const uint32_t of_b[4] = {low.two[i], high.two[i], low.two[i + 1], high.two[i + 1]};
        const uint32_t of_a[2] = {rows.two[i], rows.two[i + 1]};
        multiply_matrices(T(), sums, of_b, of_a);
    }
}

/// The first `count` of eight elements `step` apart, the rest zeros.
template <class T> DEVICE eight load_singly(const T* from, int64_t step, int64_t count) {
    eight made;
    UNROLL
    for (int i = 0; i < 4; ++i) {
        const uint32_t low = 2 * i < count ? from[2 * i * step].bits : 0u;
        const uint32_t high = 2 * i + 1 < count ? from[(2 * i + 1) * step].bits : 0u;
        made.of[i] = low | high << 16;
    }
    return made;
}

/// The same; `is_vector`: step is 1, and all eight are aligned to 16 bytes.
template <class T>
DEVICE eight load_eight(const T* from, int64_t step, bool is_vector, int64_t count) {
    if (is_vector && count >= 8) return *(const eight*)(const void*)from;
    return load_singly(from, step, count);
}

#endif // BERTH_DEVICE_CUDA_PRODUCT_HALVES_CUH
