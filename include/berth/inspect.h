// SPDX-License-Identifier: Apache-2.0
// What a tensor is and where its bytes are.
#ifndef BERTH_INSPECT_H
#define BERTH_INSPECT_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// clang-format off
/// Where the bytes of a tensor can be: X(NAME, text).
#define BERTH_RESIDENCE_MAP(X)                                                          \
    X(POOL,    "in the pool")                  /* in a block of the reuse pool */       \
    X(FRAME,   "in a step's frame")            /* as the plan of a running step says */ \
    X(HELD,    "held from a step's frame")     /* outlived its step where it was */     \
    X(FOREIGN, "in foreign memory")            /* in memory that Berth does not own */
// clang-format on

/// Where the bytes of a tensor are.
typedef enum berth_residence {
#define BERTH_RESIDENCE_ENUM(name, text) BERTH_RESIDENCE_##name,
    BERTH_RESIDENCE_MAP(BERTH_RESIDENCE_ENUM)
#undef BERTH_RESIDENCE_ENUM
        BERTH_RESIDENCE_COUNT ///< number of residences
} berth_residence;

/// Returns the text of a residence, such as "in the pool"; never NULL.
BERTH_API const char* berth_residence_text(berth_residence residence);

/// What there is to know of a tensor.
typedef struct berth_tensor_properties {
    berth_dtype dtype;               ///< its element type
    int32_t rank;                    ///< number of dimensions
    int64_t dims[BERTH_MAX_RANK];    ///< [rank], elements; the rest is 0
    int64_t strides[BERTH_MAX_RANK]; ///< [rank], elements (blocks if quantised); the rest is 0
    int64_t count;                   ///< elements
    uint64_t bytes;                  ///< of its elements laid out contiguously
    bool is_contiguous;              ///< its elements lie one after another, row-major
    bool is_read_only;               ///< no op and no berth_tensor_write() changes it
    bool is_pinned; ///< mapped or exported: it stays where it is, and no op writes in place
    bool is_shared; ///< another context has used its storage
    berth_residence residence; ///< where its bytes are now
    uint64_t storage_bytes;    ///< of the storage that it is a window on, as asked for
    uint64_t offset_bytes;     ///< of its first element in the storage
    uint32_t references;       ///< to the tensor
    uint32_t storage_tensors;  ///< tensors on the storage, this one included
} berth_tensor_properties;

/// Writes what is known of `tensor`, as of now.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT (NULL), BERTH_ERR_FORKED; then `*out_properties` is zero.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_tensor_info(const berth_tensor* tensor,
                                                         berth_tensor_properties* out_properties);

/// Writes the same as one line for logs, such as "f32[2, 3] strides [3, 1], 24 bytes at 0 of 24 in
/// the pool, references 1, tensors on the storage 1". `buffer`, `size` and `*out_needed` are as in
/// berth_tensor_format().
/// Errors:  as of berth_tensor_info(), and BERTH_ERR_INVALID_ARGUMENT without a buffer; then
///          `*out_needed` is 0.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_tensor_format_info(const berth_tensor* tensor,
                                                                char* buffer,
                                                                size_t size,
                                                                size_t* out_needed);

#ifdef __cplusplus
}
#endif

#endif // BERTH_INSPECT_H
