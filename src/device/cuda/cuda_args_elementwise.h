// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels in cuda_elementwise_*.cu.
#ifndef BERTH_DEVICE_CUDA_ARGS_ELEMENTWISE_H
#define BERTH_DEVICE_CUDA_ARGS_ELEMENTWISE_H

#include "device/cuda/cuda_walk.h"

/// The most operands of an elementwise kernel.
#define BERTH_CUDA_ELEMENT_OPERANDS 3

/// A function of elements that lie anywhere. The output is dense.
///
/// Kernels called <name> take whole vectors, which the walk counts: operands of the type `meeting`,
/// each of whose vectors is read in one access, or is one element repeated. Those called
/// <name>_any go element by element, over operands of any types and strides.
typedef struct berth_cuda_element_args {
    berth_cuda_walk walk; ///< strides in elements
    void* out;
    const void* operands[BERTH_CUDA_ELEMENT_OPERANDS];
    uint8_t dtypes[BERTH_CUDA_ELEMENT_OPERANDS]; ///< of the operands
    uint8_t out_dtype;
    uint8_t meeting; ///< the type to which operands are converted first
    bool is_real;    ///< computed in f32, not in i64
    bool is_dense;   ///< vectors: all operands lie one after another
    /// Vectors: an operand's element, repeated.
    bool is_repeated[BERTH_CUDA_ELEMENT_OPERANDS];
    // Vectors: elements behind the last whole one, for which the walk has one dimension or none.
    uint32_t tail;
    int64_t tail_begin; ///< the first of them
    // AFFINE: scale and shift; CLAMP: the bounds.
    float real[2];
    int64_t whole[2];
} berth_cuda_element_args;

/// Words of 1, 2, 4, 8 or 16 bytes copied to where they lie one after another.
typedef struct berth_cuda_copy_args {
    berth_cuda_walk walk; ///< counts words; strides in words
    void* out;
    const void* from;
    uint32_t word_bytes;
} berth_cuda_copy_args;

/// Matrices of items of 1, 2, 4 or 8 bytes transposed, square tiles at a time: the input's
/// neighbours are a row's place, the output's a column's.
typedef struct berth_cuda_turn_args {
    berth_cuda_walk matrices; ///< operand 0: where they begin in the input, 1: in the output
    void* out;
    const void* from;
    int64_t rows;
    int64_t columns;
    int64_t row_stride;    ///< items from row to row of the output
    int64_t column_stride; ///< items from column to column of the input
    int64_t row_tiles;
    int64_t column_tiles;
    uint32_t item_bytes;
    bool is_small; ///< fewer than 2^31 tiles in all
} berth_cuda_turn_args;

/// Items that a tile has in a row and in a column.
static inline int64_t berth_cuda_turn_side(int64_t item_bytes) {
    return item_bytes == 8 ? 32 : item_bytes == 1 ? 128 : 64;
}

/// A pattern of 8 bytes, repeated.
typedef struct berth_cuda_fill_args {
    void* out;
    uint64_t pattern;
    uint64_t bytes;
    uint32_t item_bytes; ///< which divides all of the above
} berth_cuda_fill_args;

/// ARANGE: start + i * step. RAND: [low, high), at most `below`. RANDN: mean and deviation.
typedef struct berth_cuda_create_args {
    void* out;
    int64_t count;
    double first;  ///< start, low, mean
    double second; ///< step, high, deviation
    float limit;   ///< RAND: (float)high ..
    float below;   ///< .. and the next f32 towards low
    float most;    ///< RAND: the largest number of the output's type below `high`
    uint8_t dtype;
    uint64_t key;  ///< of the generator
    uint64_t low;  ///< RANDINT, as an int64_t
    uint64_t span; ///< RANDINT: how many integers there are
} berth_cuda_create_args;

/// Blocks of a quantised type to a float type.
typedef struct berth_cuda_dequantise_args {
    berth_cuda_walk walk; ///< counts blocks; strides in blocks
    void* out;
    const unsigned char* from;
    uint8_t dtype;
    uint8_t out_dtype;
} berth_cuda_dequantise_args;

// clang-format off
#define BERTH_CUDA_ELEMENT_KERNELS(X, name)        \
    X(name, berth_cuda_element_args, false)        \
    X(name##_any, berth_cuda_element_args, false)

#define BERTH_CUDA_KERNEL_MAP_UNARY(X)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, cast)            \
    BERTH_CUDA_ELEMENT_KERNELS(X, affine)          \
    BERTH_CUDA_ELEMENT_KERNELS(X, neg)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, abs)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, sign)            \
    BERTH_CUDA_ELEMENT_KERNELS(X, relu)            \
    BERTH_CUDA_ELEMENT_KERNELS(X, floor)           \
    BERTH_CUDA_ELEMENT_KERNELS(X, ceil)            \
    BERTH_CUDA_ELEMENT_KERNELS(X, round)           \
    BERTH_CUDA_ELEMENT_KERNELS(X, exp)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, log)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, log1p)           \
    BERTH_CUDA_ELEMENT_KERNELS(X, sqrt)            \
    BERTH_CUDA_ELEMENT_KERNELS(X, rsqrt)           \
    BERTH_CUDA_ELEMENT_KERNELS(X, reciprocal)      \
    BERTH_CUDA_ELEMENT_KERNELS(X, sin)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, cos)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, tanh)            \
    BERTH_CUDA_ELEMENT_KERNELS(X, sigmoid)         \
    BERTH_CUDA_ELEMENT_KERNELS(X, silu)            \
    BERTH_CUDA_ELEMENT_KERNELS(X, gelu)            \
    BERTH_CUDA_ELEMENT_KERNELS(X, gelu_tanh)       \
    BERTH_CUDA_ELEMENT_KERNELS(X, logical_not)     \
    BERTH_CUDA_ELEMENT_KERNELS(X, isnan)           \
    BERTH_CUDA_ELEMENT_KERNELS(X, isinf)           \
    BERTH_CUDA_ELEMENT_KERNELS(X, isfinite)        \
    BERTH_CUDA_ELEMENT_KERNELS(X, clamp)

#define BERTH_CUDA_KERNEL_MAP_BINARY(X)            \
    BERTH_CUDA_ELEMENT_KERNELS(X, add)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, sub)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, mul)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, div)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, minimum)         \
    BERTH_CUDA_ELEMENT_KERNELS(X, maximum)         \
    BERTH_CUDA_ELEMENT_KERNELS(X, remainder)       \
    BERTH_CUDA_ELEMENT_KERNELS(X, pow)             \
    BERTH_CUDA_ELEMENT_KERNELS(X, eq)              \
    BERTH_CUDA_ELEMENT_KERNELS(X, ne)              \
    BERTH_CUDA_ELEMENT_KERNELS(X, lt)              \
    BERTH_CUDA_ELEMENT_KERNELS(X, le)              \
    BERTH_CUDA_ELEMENT_KERNELS(X, logical_and)     \
    BERTH_CUDA_ELEMENT_KERNELS(X, logical_or)      \
    BERTH_CUDA_ELEMENT_KERNELS(X, logical_xor)     \
    BERTH_CUDA_ELEMENT_KERNELS(X, where)

#define BERTH_CUDA_KERNEL_MAP_ELEMENTWISE(X)       \
    BERTH_CUDA_KERNEL_MAP_UNARY(X)                 \
    BERTH_CUDA_KERNEL_MAP_BINARY(X)                \
    X(dequantise, berth_cuda_dequantise_args, false) \
    X(copy, berth_cuda_copy_args, false)           \
    X(turn, berth_cuda_turn_args, true)            \
    X(fill, berth_cuda_fill_args, false)           \
    X(arange, berth_cuda_create_args, false)       \
    X(rand, berth_cuda_create_args, false)         \
    X(randn, berth_cuda_create_args, false)        \
    X(randint, berth_cuda_create_args, false)
// clang-format on

#endif // BERTH_DEVICE_CUDA_ARGS_ELEMENTWISE_H
