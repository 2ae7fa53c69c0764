// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels in cuda_product*.cu and cuda_attention*.cu.
#ifndef BERTH_DEVICE_CUDA_ARGS_MATRIX_H
#define BERTH_DEVICE_CUDA_ARGS_MATRIX_H

#include "device/cuda/cuda_walk.h"

/// How a kernel may read a matrix of a product.
typedef enum berth_cuda_form {
    BERTH_CUDA_FORM_SINGLE, ///< element by element
    BERTH_CUDA_FORM_ALONG,  ///< elements along the depth lie side by side, 16 bytes are aligned
    BERTH_CUDA_FORM_ACROSS, ///< the same of elements across it: rows of a, columns of b
} berth_cuda_form;

/// out[batch, row, column] = sum over the depth of a[batch, row, .] * b[batch, ., column], and bias
/// [column] where it is not NULL. Strides in elements, of b in blocks where it is quantised: then
/// its depth lies side by side.
typedef struct berth_cuda_product_args {
    const void* a;
    const void* b;
    const float* bias;
    void* out;
    int64_t batches;
    int64_t rows;
    int64_t columns;
    int64_t depth;
    int64_t a_step;           ///< along the depth
    int64_t b_step;           ///< along the depth
    int64_t b_column;         ///< from column to column
    int64_t out_batch;        ///< from batch to batch
    int64_t out_row;          ///< from row to row
    int64_t out_column;       ///< from column to column
    berth_cuda_walk walk;     ///< of batches; operands a and b
    berth_cuda_walk row_walk; ///< of a's rows
    int32_t dtype;            ///< of a and out; of b too, unless the kernel's name says otherwise
    int32_t a_form;           ///< berth_cuda_form
    int32_t b_form;
} berth_cuda_product_args;

/// out [rows, columns], contiguous and of `dtype`, += bias [columns].
typedef struct berth_cuda_bias_args {
    void* out;
    const float* bias;
    int64_t count; ///< of out
    int64_t columns;
    int32_t dtype;
} berth_cuda_bias_args;

// clang-format off
#define BERTH_CUDA_KERNEL_MAP_PRODUCT(X, args)      \
    X(product_tile_f32,             args, true)     \
    X(product_tile_f16,             args, true)     \
    X(product_tile_bf16,            args, true)     \
    X(product_tile_q4_0,            args, true)     \
    X(product_tile_q4_1,            args, true)     \
    X(product_tile_q5_0,            args, true)     \
    X(product_tile_q5_1,            args, true)     \
    X(product_tile_q8_0,            args, true)     \
    X(product_tile_q4_k,            args, true)     \
    X(product_tile_q5_k,            args, true)     \
    X(product_tile_q6_k,            args, true)     \
    X(product_one_f32,              args, true)     \
    X(product_few_f32,              args, true)     \
    X(product_one_f16,              args, true)     \
    X(product_few_f16,              args, true)     \
    X(product_one_bf16,             args, true)     \
    X(product_few_bf16,             args, true)     \
    X(product_one_q4_0,             args, true)     \
    X(product_few_q4_0,             args, true)     \
    X(product_one_q4_1,             args, true)     \
    X(product_few_q4_1,             args, true)     \
    X(product_one_q5_0,             args, true)     \
    X(product_few_q5_0,             args, true)     \
    X(product_one_q5_1,             args, true)     \
    X(product_few_q5_1,             args, true)     \
    X(product_one_q8_0,             args, true)     \
    X(product_few_q8_0,             args, true)     \
    X(product_one_q4_k,             args, true)     \
    X(product_few_q4_k,             args, true)     \
    X(product_one_q5_k,             args, true)     \
    X(product_few_q5_k,             args, true)     \
    X(product_one_q6_k,             args, true)     \
    X(product_few_q6_k,             args, true)     \
    X(product_across_f32,           args, true)     \
    X(product_halves_tile_f16,      args, true)     \
    X(product_halves_8_f16,         args, true)     \
    X(product_halves_32_f16,        args, true)     \
    X(product_halves_across_8_f16,  args, true)     \
    X(product_halves_across_32_f16, args, true)     \
    X(product_halves_tile_bf16,     args, true)     \
    X(product_halves_8_bf16,        args, true)     \
    X(product_halves_32_bf16,       args, true)     \
    X(product_halves_across_8_bf16, args, true)     \
    X(product_halves_across_32_bf16, args, true)    \
    X(product_integers_8,           args, true)     \
    X(product_integers_32,          args, true)     \
    X(product_integers_64,          args, true)
// clang-format on

/// Keys or values: strides in elements, in blocks where they are quantised.
typedef struct berth_cuda_cached {
    void* data;
    int64_t block; ///< from block to block, or from batch to batch
    int64_t row;   ///< from key to key
    int64_t head;
    int32_t is_aligned; ///< whole rows begin at multiples of 16 bytes
} berth_cuda_cached;

/// Queries, or new keys and values.
typedef struct berth_cuda_rows {
    const void* data;
    int64_t batch;
    int64_t row;
    int64_t head;
    int32_t dtype;
    int32_t is_aligned;
} berth_cuda_rows;

/// Operands of ATTENTION and PAGED_ATTENTION, as op_params.h has them.
typedef struct berth_cuda_attention_args {
    berth_cuda_rows q;
    berth_cuda_cached keys;
    berth_cuda_cached values;
    berth_cuda_rows new_keys; ///< of PAGED_ATTENTION, where there are any
    berth_cuda_rows new_values;
    void* out; ///< contiguous, of q's type
    const void* mask;
    int64_t mask_strides[4]; ///< batch, head, token, key; 0 where it is repeated
    int64_t batches;
    int64_t tokens; ///< of a batch
    int64_t heads;
    int64_t kv_heads;
    int64_t depth;
    int64_t width;
    int64_t key_count;        ///< of ATTENTION
    int64_t first_seen;       ///< of ATTENTION: keys that the first query sees
    const int32_t* sequences; ///< of PAGED_ATTENTION, else NULL
    const int32_t* table;
    int64_t sequence_row;
    int64_t sequence_number; ///< from number to number of a row
    int64_t sequence_count;
    int64_t table_stride;
    int64_t entry_count; ///< of the table
    int64_t block_count;
    int64_t block_keys;
    int64_t new_count; ///< rows of new_keys; -1: the sequences have no numbers for them
    float scale;
    int32_t mask_dtype;
    int32_t dtype; ///< of keys and values
} berth_cuda_attention_args;

// clang-format off
#define BERTH_CUDA_KERNEL_MAP_ATTENTION(X, args)  \
    X(attention_f32,     args, true)              \
    X(attention_f16,     args, true)              \
    X(attention_bf16,    args, true)              \
    X(attention_q8_0,    args, true)              \
    X(attention_prepare, args, true)
// clang-format on

#define BERTH_CUDA_KERNEL_MAP_MATRIX(X)                                                            \
    BERTH_CUDA_KERNEL_MAP_PRODUCT(X, berth_cuda_product_args)                                      \
    X(product_bias, berth_cuda_bias_args, false)                                                   \
    BERTH_CUDA_KERNEL_MAP_ATTENTION(X, berth_cuda_attention_args)

#endif // BERTH_DEVICE_CUDA_ARGS_MATRIX_H
