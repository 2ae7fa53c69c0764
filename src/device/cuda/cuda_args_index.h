// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels in cuda_index.cu and cuda_index_fit.cu. Those that move elements count
// in units of `unit_bytes`: 1, 2, 4, 8 or 16.
#ifndef BERTH_DEVICE_CUDA_ARGS_INDEX_H
#define BERTH_DEVICE_CUDA_ARGS_INDEX_H

#include "device/cuda/cuda_walk.h"

/// Threads of a block of these kernels, and units that a thread has under way at once.
#define BERTH_CUDA_INDEX_THREADS 256
#define BERTH_CUDA_INDEX_READS 4

/// Units from one place to another.
typedef struct berth_cuda_place_args {
    berth_cuda_walk walk; ///< 0: source, 1: target
    const void* source;
    void* target;
    uint32_t unit_bytes;
    uint32_t is_dense; ///< step i is unit i of the target
} berth_cuda_place_args;

/// Elements of one plain type to another.
typedef struct berth_cuda_convert_args {
    berth_cuda_walk walk; ///< 0: source, 1: target, in elements
    const void* source;
    void* target;
    int32_t from; ///< berth_dtype
    int32_t to;   ///< berth_dtype
} berth_cuda_convert_args;

/// out[i] is x moved on by the index's value times `step`; `missing` where the index is not in
/// [0, size).
typedef struct berth_cuda_gather_args {
    berth_cuda_walk walk; ///< 0: x in units, 1: the index in elements
    const void* x;
    const void* index;
    void* out;
    int64_t step; ///< units from one place of the indexed dimension to the next
    int64_t size; ///< of the indexed dimension
    uint32_t unit_bytes;
    uint32_t is_wide; ///< the index is i64
    uint64_t missing[BERTH_CUDA_UNIT_BYTES / 8];
} berth_cuda_gather_args;

/// Rows of a table of a quantised type, as f32.
typedef struct berth_cuda_embed_args {
    berth_cuda_walk walk; ///< of the ids, 0: in elements
    const unsigned char* table;
    const void* ids;
    float* out;
    int64_t row_bytes;      ///< from one row of the table to the next
    int64_t size;           ///< rows
    berth_cuda_divisor row; ///< 4 neighbours of a row are a step
    int32_t dtype;          ///< of the table
    uint32_t is_wide;       ///< ids are i64
    uint32_t is_small;      ///< steps are fewer than 2^31
    uint32_t is_aligned;    ///< out is a multiple of 16
} berth_cuda_embed_args;

/// How what is written by index meets what is there.
typedef enum berth_cuda_meeting {
    BERTH_CUDA_MEETING_SET,  ///< units
    BERTH_CUDA_MEETING_ADD,  ///< floats, and integers, which wrap
    BERTH_CUDA_MEETING_BOOL, ///< or
} berth_cuda_meeting;

/// The elements that may meet in one place are a line: along the indexed dimension. `owners`
/// threads go through each line, in ascending order, and write the places that are theirs.
typedef struct berth_cuda_scatter_args {
    berth_cuda_walk lines; ///< 0: out, 1: index in elements, 2: source
    void* out;
    const void* index;
    const void* source;
    int64_t length;       ///< of a line
    int64_t index_along;  ///< elements of the index from one of a line to the next
    int64_t source_along; ///< units of the source
    int64_t step;         ///< units of out from one place of the indexed dimension to the next
    int64_t size;         ///< of the indexed dimension
    int64_t owners;       ///< a power of two
    uint32_t unit_bytes;  ///< SET
    int32_t dtype;        ///< berth_dtype, ADD
    uint32_t meeting;     ///< berth_cuda_meeting
    uint32_t is_wide;     ///< the index is i64
} berth_cuda_scatter_args;

/// Elements of x with others around them.
typedef struct berth_cuda_pad_args {
    berth_cuda_walk walk; ///< of out; 0: x
    int64_t before[BERTH_MAX_RANK];
    int64_t sizes[BERTH_MAX_RANK]; ///< of x
    const void* x;
    void* out;
    uint32_t unit_bytes;
    uint64_t value[BERTH_CUDA_UNIT_BYTES / 8];
} berth_cuda_pad_args;

/// A triangle of every matrix.
typedef struct berth_cuda_triangle_args {
    berth_cuda_walk walk; ///< 0: x, in elements
    const void* x;
    void* out;
    berth_cuda_divisor rows;
    berth_cuda_divisor columns;
    int64_t border;     ///< of row 0: the first column of the upper part
    uint32_t is_lower;  ///< the lower part is kept
    uint32_t is_dense;  ///< step i is element i of x
    uint32_t is_vector; ///< 16 bytes at once
    uint32_t item_bytes;
} berth_cuda_triangle_args;

// clang-format off
#define BERTH_CUDA_KERNEL_MAP_INDEX(X)                    \
    X(place,        berth_cuda_place_args,    false)      \
    X(place_as,     berth_cuda_convert_args,  false)      \
    X(gather,       berth_cuda_gather_args,   false)      \
    X(embed,        berth_cuda_embed_args,    false)      \
    X(scatter,      berth_cuda_scatter_args,  false)      \
    X(pad,          berth_cuda_pad_args,      false)      \
    X(triangle,     berth_cuda_triangle_args, false)
// clang-format on

#endif // BERTH_DEVICE_CUDA_ARGS_INDEX_H
