// SPDX-License-Identifier: Apache-2.0
// Tensors: typed, shaped, strided windows on reference-counted storage.
#ifndef BERTH_TENSOR_H
#define BERTH_TENSOR_H

#include "berth/dims.h"
#include "berth/dtype.h"
#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A tensor. Reference-counted; the count may be changed from any thread. Views share their
/// storage, and a storage lives as long as any tensor on it.
typedef struct berth_tensor berth_tensor;

/// Adds a reference; returns `tensor`. Accepts NULL. Not for handles made by berth_move().
BERTH_API berth_tensor* berth_retain(berth_tensor* tensor);

/// Gives a reference back. Accepts NULL. Work that was enqueued before still sees the data.
BERTH_API void berth_release(berth_tensor* tensor);

/// Releases each of `count` tensors; NULL entries are fine.
BERTH_API void berth_release_array(berth_tensor* const* tensors, size_t count);

#ifndef __cplusplus
/// Releases any number of tensors: berth_release_all(a, b, c).
#define berth_release_all(...)                                                                     \
    berth_release_array((berth_tensor* const[]){__VA_ARGS__},                                      \
                        sizeof((berth_tensor* const[]){__VA_ARGS__}) / sizeof(berth_tensor*))
#else
extern "C++" {
/// Releases any number of tensors: berth_release_all(a, b, c).
template <class... berth_tensors> void berth_release_all(berth_tensors... tensors) {
    berth_tensor* const all[] = {tensors...};
    berth_release_array(all, sizeof...(tensors));
}
}
#endif

/// Hands the caller's reference to an op: x = berth_silu(ctx, berth_move(x)). Only ops accept the
/// result; the reference is consumed whatever the op returns, so that without another one `x` must
/// not be used any more, nor released. Where the op allows it and nobody else can see the storage,
/// the op works in place. NULL stays NULL.
static inline berth_tensor* berth_move(berth_tensor* tensor) {
    return tensor == NULL ? NULL : (berth_tensor*)((uintptr_t)tensor | 1u);
}

/// What happens to foreign memory that is no longer used. Called by the thread that gives the last
/// reference back, or by one that is in a call on the same context or a tensor of it at that
/// moment, with none of Berth's locks held. It may wait for other threads that use Berth, may take
/// a lock that its own thread may hold already (a recursive one), and may release tensors; it must
/// not make any.
typedef void (*berth_deleter)(void* self, void* data);

/// Makes a tensor over memory that Berth does not own: `data` holds at least `bytes` bytes,
/// contiguous [dims] of `dtype`, aligned to its element (block types: to 1). A read-only tensor is
/// never written: ops that would update it copy first, berth_tensor_write refuses.
///
/// A device that does not reach the host's memory gets a copy: the tensor is a new one, a value of
/// the step that is open, and later changes of the memory are not seen. Bytes of berth_alloc() on
/// the same context are its own already and are used where they are. On the dry device `data` is
/// any address, as nobody looks there.
/// Ownership: `deleter(self, data)` (may be NULL) is called exactly once, when no tensor uses the
///            memory any more (where it was copied: before this call returns); not if this call
///            fails.
/// Errors:    NULL and the context's error if the shape is not acceptable or needs more than
///            `bytes`; where it is copied BERTH_ERR_OUT_OF_MEMORY and BERTH_ERR_DEVICE, too.
BERTH_API berth_tensor* berth_tensor_from_memory(berth_context* context,
                                                 void* data,
                                                 uint64_t bytes,
                                                 berth_dtype dtype,
                                                 int32_t rank,
                                                 const int64_t* dims,
                                                 bool read_only,
                                                 berth_deleter deleter,
                                                 void* self);

// What a tensor is: plain reads, from any thread, not for handles made by berth_move(). A chain of
// ops that failed may hand them NULL: then numbers are as said, pointers NULL.

/// Its element type; BERTH_DTYPE_COUNT for NULL.
BERTH_API berth_dtype berth_tensor_dtype(const berth_tensor* tensor);
/// Its number of dimensions; -1 for NULL.
BERTH_API int32_t berth_tensor_rank(const berth_tensor* tensor);
/// Size of dimension `dim`; negative counts from the end. -1 if there is no such dimension.
BERTH_API int64_t berth_tensor_dim(const berth_tensor* tensor, int32_t dim);
/// [rank]; lives as long as the tensor.
BERTH_API const int64_t* berth_tensor_dims(const berth_tensor* tensor);
/// [rank], in elements (blocks for quantised types but for the last); lives as long as the tensor.
BERTH_API const int64_t* berth_tensor_strides(const berth_tensor* tensor);
/// Number of elements; 0 for NULL.
BERTH_API int64_t berth_tensor_count(const berth_tensor* tensor);
/// Bytes of its elements laid out contiguously; 0 for NULL.
BERTH_API uint64_t berth_tensor_bytes(const berth_tensor* tensor);
/// True if its elements lie one after another, row-major; false for NULL.
BERTH_API bool berth_tensor_is_contiguous(const berth_tensor* tensor);
/// The context that made it; borrowed. Not to be asked once that has been released.
BERTH_API berth_context* berth_tensor_context(const berth_tensor* tensor);

/// Copies the elements, row-major, to `buffer` of exactly `bytes` == berth_tensor_bytes() bytes;
/// waits for them. On the dry device all are 0, whatever was written. From a device whose memory
/// the host cannot reach, a tensor that is not contiguous comes in pieces, with what lies between
/// its elements: berth_contiguous() of a large one that is scattered may be faster to read.
/// Errors: BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_OUT_OF_MEMORY (host memory for such pieces),
///         BERTH_ERR_DEVICE, BERTH_ERR_FORKED.
BERTH_API BERTH_NODISCARD berth_status berth_tensor_read(berth_tensor* tensor,
                                                         void* buffer,
                                                         uint64_t bytes);

/// Replaces the elements by those of `data`, row-major, exactly berth_tensor_bytes() bytes. The
/// data is no longer needed when the call returns. Views see the change.
/// Errors: BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_UNSUPPORTED (read-only, not contiguous),
///         BERTH_ERR_DEVICE, BERTH_ERR_FORKED.
BERTH_API BERTH_NODISCARD berth_status berth_tensor_write(berth_tensor* tensor,
                                                          const void* data,
                                                          uint64_t bytes);

/// Gives the host direct access: `*out_data` points at element [0, ...], strides are the tensor's.
/// Waits for pending work. Until as many calls of unmap the storage is pinned: it does not move,
/// and no op writes to it in place. What lies under a read-only tensor must not be written.
/// Errors: BERTH_ERR_UNSUPPORTED on a device without host access, BERTH_ERR_INVALID_ARGUMENT,
///         BERTH_ERR_DEVICE, BERTH_ERR_FORKED; then `*out_data` is NULL and nothing is pinned.
BERTH_API BERTH_NODISCARD berth_status berth_tensor_map(berth_tensor* tensor, void** out_data);
/// Ends one map of the tensor or of a view of it. Accepts NULL; one that is not mapped is left
/// alone, with an error in the log.
BERTH_API void berth_tensor_unmap(berth_tensor* tensor);

#ifdef __cplusplus
}
#endif

#endif // BERTH_TENSOR_H
