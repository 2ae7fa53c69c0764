// SPDX-License-Identifier: Apache-2.0
// Element types and the plain view of typed, shaped, strided memory that kernels see.
#ifndef BERTH_DTYPE_H
#define BERTH_DTYPE_H

#include <stdbool.h>

#include "berth/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The largest number of dimensions of a tensor.
#define BERTH_MAX_RANK 8

// clang-format off
/// Every element type: X(NAME, text, values a block, bytes a block, kind).
/// kind: F float, I signed integer, U unsigned integer, B boolean, Q block-quantised.
#define BERTH_DTYPE_MAP(X)             \
    X(F32,  "f32",    1,   4, F)       \
    X(F16,  "f16",    1,   2, F)       \
    X(BF16, "bf16",   1,   2, F)       \
    X(I32,  "i32",    1,   4, I)       \
    X(I64,  "i64",    1,   8, I)       \
    X(I8,   "i8",     1,   1, I)       \
    X(U8,   "u8",     1,   1, U)       \
    X(BOOL, "bool",   1,   1, B)       \
    X(Q4_0, "q4_0",  32,  18, Q)       \
    X(Q4_1, "q4_1",  32,  20, Q)       \
    X(Q5_0, "q5_0",  32,  22, Q)       \
    X(Q5_1, "q5_1",  32,  24, Q)       \
    X(Q8_0, "q8_0",  32,  34, Q)       \
    X(Q4_K, "q4_k", 256, 144, Q)       \
    X(Q5_K, "q5_k", 256, 176, Q)       \
    X(Q6_K, "q6_k", 256, 210, Q)
// clang-format on

/// An element type.
typedef enum berth_dtype {
#define BERTH_DTYPE_ENUM(name, text, block_values, block_bytes, kind) BERTH_##name,
    BERTH_DTYPE_MAP(BERTH_DTYPE_ENUM)
#undef BERTH_DTYPE_ENUM
        BERTH_DTYPE_COUNT ///< how many there are; no element type
} berth_dtype;

/// What the values of an element type are.
typedef enum berth_dtype_kind {
    BERTH_DTYPE_KIND_F, ///< floating point
    BERTH_DTYPE_KIND_I, ///< signed integer
    BERTH_DTYPE_KIND_U, ///< unsigned integer
    BERTH_DTYPE_KIND_B, ///< boolean, one byte, 0 or 1
    /// Block-quantised: only the last dimension is blocked, rows are whole blocks.
    BERTH_DTYPE_KIND_Q,
} berth_dtype_kind;

/// What is known of an element type.
typedef struct berth_dtype_info {
    const char* name;      ///< as in messages: "f32"
    uint32_t block_values; ///< values a block; 1 unless quantised
    uint32_t block_bytes;  ///< bytes a block
    berth_dtype_kind kind; ///< what the values are
} berth_dtype_info;

/// Describes `dtype`; NULL if it is no element type.
BERTH_API const berth_dtype_info* berth_dtype_query_info(berth_dtype dtype);

/// A typed, shaped, strided window on memory: all that a kernel sees. Strides count elements,
/// except that for block-quantised types every stride but the last counts blocks and the last is 1.
/// A view owns nothing.
typedef struct berth_view {
    void* data;        ///< address of element [0, ..., 0] on the device
    berth_dtype dtype; ///< type of the elements
    int32_t rank; ///< 0 .. BERTH_MAX_RANK; entries of dims and strides from rank up are undefined
    int64_t dims[BERTH_MAX_RANK]; ///< elements, each >= 0
    /// Elements (blocks for quantised types, but for the last); may be 0 or negative.
    int64_t strides[BERTH_MAX_RANK];
} berth_view;

/// Returns the number of elements of `view`: the product of its dims; 0 for NULL.
BERTH_API int64_t berth_view_count(const berth_view* view);

/// Returns whether the elements of `view` lie one after another, row-major; false for
/// NULL.
BERTH_API bool berth_view_is_contiguous(const berth_view* view);

#ifdef __cplusplus
}
#endif

#endif // BERTH_DTYPE_H
