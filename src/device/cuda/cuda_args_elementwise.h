// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels in cuda_elementwise_*.cu.
#ifndef BERTH_DEVICE_CUDA_ARGS_ELEMENTWISE_H
#define BERTH_DEVICE_CUDA_ARGS_ELEMENTWISE_H

#include "device/cuda/cuda_walk.h"

/// The most operands of an elementwise kernel.
#define BERTH_CUDA_ELEMENT_OPERANDS 3

/// Threads of a block of these kernels.
#define BERTH_CUDA_ELEMENT_THREADS 256

/// Neighbours of a group, and groups of every operand that a thread has under way.
#define BERTH_CUDA_ELEMENT_GROUP 4
#define BERTH_CUDA_ELEMENT_GROUPS 2

/// A function of elements that lie anywhere. The output is dense.
///
/// Kernels called <name> take vectors: operands of the type `meeting`, each of whose vectors is
/// read in one access, or is one element repeated. A vector has as many elements as 16 bytes have
/// of the operands' type or of the output's, whichever are fewer.
///
/// Those called <name>_any take groups of neighbours, over operands of any types and strides. The
/// operands are rows, as the last dimension that is left of them goes.
typedef struct berth_cuda_element_args {
    berth_cuda_walk walk; ///< counts vectors, strides in elements; groups: counts rows
    void* out;
    const void* operands[BERTH_CUDA_ELEMENT_OPERANDS];
    uint8_t dtypes[BERTH_CUDA_ELEMENT_OPERANDS]; ///< of the operands
    uint8_t out_dtype;
    uint8_t meeting; ///< the type to which operands are converted first
    bool is_real;    ///< computed in f32, not in i64
    // Vectors.
    bool is_dense;                                 ///< all operands lie one after another
    bool is_repeated[BERTH_CUDA_ELEMENT_OPERANDS]; ///< an operand's element, for a whole vector
    /// Elements behind the last whole vector, for which the walk has one dimension or none.
    uint32_t tail;
    int64_t tail_begin; ///< the first of them
    // Groups.
    int64_t group_count;
    int64_t width;                              ///< elements of a row
    int64_t steps[BERTH_CUDA_ELEMENT_OPERANDS]; ///< elements from one of a row to the next
    berth_cuda_divisor groups;                  ///< of a row
    bool is_small;                              ///< group_count is below 2^31
    bool is_whole_out;                          ///< whole groups are written at once ..
    bool is_whole[BERTH_CUDA_ELEMENT_OPERANDS]; ///< .. and read, in accesses of up to 16 bytes
    uint8_t item_bytes[BERTH_CUDA_ELEMENT_OPERANDS];
    // AFFINE: scale and shift; CLAMP: the bounds.
    float real[2];
    int64_t whole[2];
} berth_cuda_element_args;

/// Words that a thread of a copy has under way.
#define BERTH_CUDA_COPY_READS 4

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
    berth_cuda_divisor row_tiles;
    berth_cuda_divisor column_tiles;
    uint32_t item_bytes;
    bool is_small; ///< fewer than 2^31 tiles in all
} berth_cuda_turn_args;

/// Items that a tile has in a row and in a column.
#define BERTH_CUDA_TURN_SIDE(item_bytes) ((item_bytes) == 8 ? 32 : (item_bytes) == 1 ? 128 : 64)

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
/// Functions of one operand: X(Y, op, name, kind, vectors that a thread has under way), Y being
/// handed on. Those that take much computing have fewer: more threads fit instead. Kinds: REAL of floats (integers are
/// converted), NUMBER of integers too, TEST for a truth.
#define BERTH_CUDA_UNARY_MAP(X, Y)                 \
    X(Y, AFFINE, affine, REAL, 2)                     \
    X(Y, NEG, neg, NUMBER, 2)                         \
    X(Y, ABS, abs, NUMBER, 2)                         \
    X(Y, SIGN, sign, NUMBER, 2)                       \
    X(Y, RELU, relu, NUMBER, 2)                       \
    X(Y, FLOOR, floor, NUMBER, 2)                     \
    X(Y, CEIL, ceil, NUMBER, 2)                       \
    X(Y, ROUND, round, NUMBER, 2)                     \
    X(Y, EXP, exp, REAL, 2)                           \
    X(Y, LOG, log, REAL, 2)                           \
    X(Y, LOG1P, log1p, REAL, 1)                       \
    X(Y, SQRT, sqrt, REAL, 2)                         \
    X(Y, RSQRT, rsqrt, REAL, 2)                       \
    X(Y, RECIPROCAL, reciprocal, REAL, 2)             \
    X(Y, SIN, sin, REAL, 1)                           \
    X(Y, COS, cos, REAL, 1)                           \
    X(Y, TANH, tanh, REAL, 2)                         \
    X(Y, SIGMOID, sigmoid, REAL, 2)                   \
    X(Y, SILU, silu, REAL, 2)                         \
    X(Y, GELU, gelu, REAL, 1)                         \
    X(Y, GELU_TANH, gelu_tanh, REAL, 2)               \
    X(Y, CLAMP, clamp, NUMBER, 2)                     \
    X(Y, LOGICAL_NOT, logical_not, TEST, 2)           \
    X(Y, ISNAN, isnan, TEST, 2)                       \
    X(Y, ISINF, isinf, TEST, 2)                       \
    X(Y, ISFINITE, isfinite, TEST, 2)

/// Functions of two, the same; GT and GE are LT and LE with their operands exchanged. Kinds also:
/// MIXED as REAL for vectors, but integers are computed as such; LOGIC of bools.
#define BERTH_CUDA_BINARY_MAP(X, Y)                \
    X(Y, ADD, add, NUMBER, 2)                         \
    X(Y, SUB, sub, NUMBER, 2)                         \
    X(Y, MUL, mul, NUMBER, 2)                         \
    X(Y, DIV, div, REAL, 2)                           \
    X(Y, MINIMUM, minimum, NUMBER, 2)                 \
    X(Y, MAXIMUM, maximum, NUMBER, 2)                 \
    X(Y, REMAINDER, remainder, MIXED, 1)              \
    X(Y, POW, pow, MIXED, 1)                          \
    X(Y, EQ, eq, TEST, 2)                             \
    X(Y, NE, ne, TEST, 2)                             \
    X(Y, LT, lt, TEST, 2)                             \
    X(Y, LE, le, TEST, 2)                             \
    X(Y, LOGICAL_AND, logical_and, LOGIC, 1)          \
    X(Y, LOGICAL_OR, logical_or, LOGIC, 1)            \
    X(Y, LOGICAL_XOR, logical_xor, LOGIC, 1)

/// The same of the casts between floats, and of WHERE.
#define BERTH_CUDA_CAST_READS 4
#define BERTH_CUDA_WHERE_READS 2

#define BERTH_CUDA_TWO_KERNELS(X, name)            \
    X(name, berth_cuda_element_args, false)        \
    X(name##_any, berth_cuda_element_args, false)
#define BERTH_CUDA_ELEMENT_KERNELS(X, op, name, kind, reads) BERTH_CUDA_TWO_KERNELS(X, name)

#define BERTH_CUDA_KERNEL_MAP_ELEMENTWISE(X)            \
    BERTH_CUDA_TWO_KERNELS(X, cast)                     \
    BERTH_CUDA_TWO_KERNELS(X, where)                    \
    BERTH_CUDA_UNARY_MAP(BERTH_CUDA_ELEMENT_KERNELS, X) \
    BERTH_CUDA_BINARY_MAP(BERTH_CUDA_ELEMENT_KERNELS, X) \
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
