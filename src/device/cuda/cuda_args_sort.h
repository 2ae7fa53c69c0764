// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels in cuda_sort.cu, cuda_sort_select.cu and cuda_sort_unique.cu.
//
// What is sorted is records: an element's key, unsigned and in the order asked for, and its number,
// which makes all records of a row differ. Packed, they are one word: the key above the number,
// both of 32 bits; else two words, key and number.
#ifndef BERTH_DEVICE_CUDA_ARGS_SORT_H
#define BERTH_DEVICE_CUDA_ARGS_SORT_H

#include "device/cuda/cuda_walk.h"

/// Words of a tile, which a block sorts in shared memory.
#define BERTH_CUDA_TILE_WORDS 2048
/// Elements that a block counts, selects or reads at once, and its threads.
#define BERTH_CUDA_CHUNK 2048
#define BERTH_CUDA_CHUNK_THREADS 256
/// The most threads of a block that sorts a tile.
#define BERTH_CUDA_TILE_THREADS 512

/// Rows of elements to sort.
typedef struct berth_cuda_sort_rows {
    berth_cuda_walk walk; ///< of the rows, or of all elements if `is_flat`; 0: x, 1: out
    const void* x;
    int64_t stride; ///< elements of x from one of a row to the next
    int64_t length; ///< elements of a row
    int64_t kept;   ///< the first of a row that are asked for
    int64_t begin;  ///< the first row
    int64_t count;  ///< rows
    int32_t dtype;  ///< berth_dtype
    uint32_t item_bytes;
    uint32_t is_descending;
    uint32_t is_packed;
    uint32_t is_flat; ///< one row of all elements
    // where the sorted rows go; either may be NULL
    void* out_values;
    int64_t* out_numbers;
    int64_t out_stride; ///< elements from one of a row to the next
} berth_cuda_sort_rows;

/// Sorts tiles of rows.
typedef struct berth_cuda_tiles_args {
    berth_cuda_sort_rows rows;
    uint64_t* records; ///< [rows, length]; NULL: a row is one tile, and goes to the outputs
    int64_t tile;      ///< records: a power of two
} berth_cuda_tiles_args;

/// Merges neighbouring sorted runs of rows, of `width` records each.
typedef struct berth_cuda_merge_args {
    berth_cuda_sort_rows rows;
    const uint64_t* source;
    uint64_t* target; ///< NULL: to the outputs
    berth_cuda_divisor length;
    int64_t width;
} berth_cuda_merge_args;

/// The workspace of what counts begins with the total; numbers before each chunk follow.
typedef struct berth_cuda_scan_args {
    int64_t* total;
    int64_t* counts; ///< [chunks]: of each chunk; then of all chunks before it
    int64_t chunks;
} berth_cuda_scan_args;

/// NONZERO MASKED_SELECT: elements whose flags are not 0.
typedef struct berth_cuda_select_args {
    berth_cuda_walk walk; ///< of all elements, 0: flags, 1: x
    const void* flags;
    uint64_t flag_mask; ///< the bits of a flag that make it differ from 0
    uint32_t flag_bytes;
    int64_t* counts; ///< [chunks]
    int64_t chunks;
    int64_t written; ///< results that there is room for
    // MASKED_SELECT
    const void* x;
    uint32_t item_bytes;
    // both; NONZERO has indices of `rank` dimensions
    void* out;
    int32_t rank;
    berth_cuda_divisor dims[BERTH_MAX_RANK];
} berth_cuda_select_args;

/// UNIQUE: values among sorted records.
typedef struct berth_cuda_unique_args {
    berth_cuda_walk walk; ///< of x
    const void* x;
    const uint64_t* records;
    int64_t count;
    uint32_t is_packed;
    uint32_t item_bytes;
    uint32_t has_nan; ///< NaN may be there: records with the key `nan_key` all differ
    uint64_t nan_key;
    int64_t* counts; ///< [chunks]
    int64_t chunks;
    void* values;
    int64_t* inverse; ///< or NULL
    int64_t* starts;  ///< or NULL: where the records of each value begin
} berth_cuda_unique_args;

/// UNIQUE: how often each value is there.
typedef struct berth_cuda_lengths_args {
    const int64_t* starts; ///< [values]
    int64_t* lengths;      ///< [values]
    int64_t values;
    int64_t count; ///< elements
} berth_cuda_lengths_args;

// clang-format off
#define BERTH_CUDA_KERNEL_MAP_SORT(X)                        \
    X(sort_tiles,     berth_cuda_tiles_args,   true)         \
    X(sort_merge,     berth_cuda_merge_args,   false)        \
    X(scan_counts,    berth_cuda_scan_args,    true)         \
    X(select_count,   berth_cuda_select_args,  true)         \
    X(select_write,   berth_cuda_select_args,  true)         \
    X(unique_count,   berth_cuda_unique_args,  true)         \
    X(unique_read,    berth_cuda_unique_args,  true)         \
    X(unique_lengths, berth_cuda_lengths_args, false)
// clang-format on

#endif // BERTH_DEVICE_CUDA_ARGS_SORT_H
