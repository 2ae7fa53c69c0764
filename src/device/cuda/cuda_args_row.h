// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels in cuda_row_*.cu: reductions, softmax, norms, running sums, rope.
#ifndef BERTH_DEVICE_CUDA_ARGS_ROW_H
#define BERTH_DEVICE_CUDA_ARGS_ROW_H

#include "device/cuda/cuda_walk.h"

/// Threads of a block of these kernels, unless their arguments say otherwise.
#define BERTH_CUDA_ROW_THREADS 256
/// The most threads that share a row.
#define BERTH_CUDA_ROW_MOST_THREADS 1024
/// Of a row that is kept in registers, what a thread keeps: vectors of 16 bytes of rows that a warp
/// shares then, and elements of longer ones. Few threads with much to load each need not wait for
/// each other as often as many with little.
#define BERTH_CUDA_ROW_VECTORS 2
#define BERTH_CUDA_ROW_KEPT 32

// --- Reductions ---------------------------------------------------------------------------------

/// Who folds an output's elements. All ways give the same bits.
typedef enum berth_cuda_reduce_mode {
    BERTH_CUDA_REDUCE_WARPS,   ///< a warp each output
    BERTH_CUDA_REDUCE_BLOCKS,  ///< a block each chunk of an output
    BERTH_CUDA_REDUCE_COLUMNS, ///< a block the same chunk of neighbouring outputs
    BERTH_CUDA_REDUCE_MERGE,   ///< a block the chunks' results of each output
} berth_cuda_reduce_mode;

/// What an output is made of what its elements fold to.
typedef enum berth_cuda_reduce_finish {
    BERTH_CUDA_FINISH_VALUE,
    BERTH_CUDA_FINISH_MEAN,
    /// Of LOGSUMEXP: the pair of floats {largest, sum of e^(x - largest)} that softmax needs.
    BERTH_CUDA_FINISH_POWERS,
} berth_cuda_reduce_finish;

typedef struct berth_cuda_reduce_args {
    const void* x;
    void* out;
    void* partials;  ///< [outputs, chunks] results of chunks
    int64_t outputs; ///< in row-major order of the kept dimensions
    int64_t size;    ///< elements of an output, in row-major order of the reduced dimensions
    int64_t chunk;   ///< elements of a chunk; the last has what is left
    int64_t chunks;  ///< of an output, >= 1
    double correction;
    berth_cuda_walk kept;    ///< operand 0: x
    berth_cuda_walk reduced; ///< operand 0: x
    uint32_t dtype;          ///< of x
    uint32_t mode;           ///< berth_cuda_reduce_mode
    uint32_t finish;         ///< berth_cuda_reduce_finish
    uint32_t is_vector;      ///< an output's elements follow each other, aligned to 16 bytes
    uint32_t lanes;          ///< accumulators of a chunk: 32, or as many as a block has threads
    uint32_t depth;          ///< COLUMNS: threads that share an output's chunk, a power of two
    uint32_t lanes_a_thread; ///< COLUMNS: accumulators of each, a power of two, 4 .. 32
} berth_cuda_reduce_args;

// --- Softmax ------------------------------------------------------------------------------------

/// Rows that are kept in registers.
typedef struct berth_cuda_softmax_args {
    const void* x;
    void* out;
    int64_t rows;
    int64_t size;          ///< elements of a row
    int64_t stride;        ///< of x, from one element of a row to the next
    berth_cuda_walk kept;  ///< operand 0: the rows' first elements in x
    uint32_t dtype;        ///< of both
    uint32_t row_bits;     ///< 2^this threads share a row: 5 .. 10
    uint32_t is_log;       ///< 1: LOG_SOFTMAX
    uint32_t is_vector;    ///< rows of x are contiguous and aligned to 16 bytes
    uint32_t is_vector_to; ///< and those of out
    uint32_t is_dense;     ///< and both are whole vectors
} berth_cuda_softmax_args;

/// Elements of which the largest and the sum of powers are known.
typedef struct berth_cuda_softmax_apply_args {
    const void* x;
    void* out;
    const float* powers; ///< [outer, inner, 2]: as BERTH_CUDA_FINISH_POWERS writes them
    int64_t count;       ///< elements, [outer, size, inner]
    berth_cuda_divisor size;
    berth_cuda_divisor inner;
    berth_cuda_walk walk; ///< operand 0: x
    uint32_t dtype;
    uint32_t is_log;
    uint32_t is_vector; ///< x and out are contiguous and aligned to 16 bytes
    uint32_t is_row;    ///< and rows are whole vectors, which have one power each
} berth_cuda_softmax_apply_args;

// --- Norms --------------------------------------------------------------------------------------

/// One number a column.
typedef struct berth_cuda_columns {
    const void* data; ///< NULL: none
    int64_t stride;
    uint32_t dtype;
    uint32_t is_vector; ///< contiguous, aligned to 16 bytes
} berth_cuda_columns;

typedef struct berth_cuda_norm_args {
    const void* x;
    void* out;
    berth_cuda_columns weight;
    berth_cuda_columns bias;
    int64_t rows;
    int64_t size;
    int64_t stride;
    berth_cuda_walk kept; ///< operand 0: the rows' first elements in x
    float eps;
    uint32_t dtype; ///< of x and out
    uint32_t row_bits;
    uint32_t is_layer; ///< 1: LAYER_NORM, else RMS_NORM
    uint32_t is_vector;
    uint32_t is_vector_to;
    /// All that, of weight and bias too, which are of one type, and rows are whole vectors.
    uint32_t is_dense;
} berth_cuda_norm_args;

// --- Running sums -------------------------------------------------------------------------------

#define BERTH_CUDA_RUNNING_ITEMS 8 ///< elements that one thread adds up
#define BERTH_CUDA_RUNNING_CHUNK (BERTH_CUDA_RUNNING_ITEMS * BERTH_CUDA_ROW_THREADS)

typedef struct berth_cuda_running_args {
    const void* x;
    void* out;
    void* carries;   ///< [outputs, chunks] doubles or i64s; NULL: an output is one chunk
    int64_t outputs; ///< [outer, inner]
    int64_t size;
    int64_t inner;
    int64_t chunks;
    int64_t stride;       ///< of x along the dimension
    berth_cuda_walk kept; ///< operand 0: x
    uint32_t dtype;       ///< of x
    uint32_t is_total;    ///< 1: writes the chunks' sums to `carries`, else the running sums
    uint32_t is_vector;   ///< x is contiguous along the dimension, aligned to 16 bytes
    uint32_t is_vector_to;
} berth_cuda_running_args;

// --- Rope ---------------------------------------------------------------------------------------

#define BERTH_CUDA_ROPE_PAIRS 512 ///< turns that a block holds at a time

typedef struct berth_cuda_rope_args {
    const void* x;
    void* out;
    const void* positions;
    const float* divisors; ///< [half], or NULL
    int64_t batches;
    int64_t tokens;
    int64_t heads;
    int64_t head_size;
    int64_t strides[3];          ///< of x: batch, token, head
    int64_t position_strides[2]; ///< batch, token
    double log2_base;
    double position_scale;
    int64_t half; ///< pairs that are turned
    int64_t heads_a_block;
    int64_t splits; ///< blocks of a token
    uint32_t dtype;
    uint32_t is_position_i32;
    uint32_t halves;
    uint32_t is_vector; ///< heads in x and out, and half, allow accesses of 16 bytes
} berth_cuda_rope_args;

// clang-format off
#define BERTH_CUDA_KERNEL_MAP_ROW(X)                                        \
    X(sum_floats,      berth_cuda_reduce_args,        true)                 \
    X(prod_floats,     berth_cuda_reduce_args,        true)                 \
    X(max_floats,      berth_cuda_reduce_args,        true)                 \
    X(min_floats,      berth_cuda_reduce_args,        true)                 \
    X(argmax_floats,   berth_cuda_reduce_args,        true)                 \
    X(argmin_floats,   berth_cuda_reduce_args,        true)                 \
    X(variance,        berth_cuda_reduce_args,        true)                 \
    X(logsumexp,       berth_cuda_reduce_args,        true)                 \
    X(sum_integers,    berth_cuda_reduce_args,        true)                 \
    X(prod_integers,   berth_cuda_reduce_args,        true)                 \
    X(max_integers,    berth_cuda_reduce_args,        true)                 \
    X(min_integers,    berth_cuda_reduce_args,        true)                 \
    X(argmax_integers, berth_cuda_reduce_args,        true)                 \
    X(argmin_integers, berth_cuda_reduce_args,        true)                 \
    X(any,             berth_cuda_reduce_args,        true)                 \
    X(all,             berth_cuda_reduce_args,        true)                 \
    X(softmax_short,   berth_cuda_softmax_args,       true)                 \
    X(softmax_long,    berth_cuda_softmax_args,       true)                 \
    X(softmax_apply,   berth_cuda_softmax_apply_args, false)                \
    X(norm_dense,      berth_cuda_norm_args,          true)                 \
    X(norm_wide,       berth_cuda_norm_args,          true)                 \
    X(norm_short,      berth_cuda_norm_args,          true)                 \
    X(norm_long,       berth_cuda_norm_args,          true)                 \
    X(running_lines,   berth_cuda_running_args,       true)                 \
    X(running_columns, berth_cuda_running_args,       false)                \
    X(running_carries, berth_cuda_running_args,       false)                \
    X(rope,            berth_cuda_rope_args,          true)
// clang-format on

#endif // BERTH_DEVICE_CUDA_ARGS_ROW_H
