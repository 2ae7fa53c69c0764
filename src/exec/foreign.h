// SPDX-License-Identifier: Apache-2.0
// The one way in for memory that Berth does not own.
#ifndef BERTH_EXEC_FOREIGN_H
#define BERTH_EXEC_FOREIGN_H

#include "exec/exec_impl.h"

/// A strided window on somebody else's memory.
typedef struct berth_foreign {
    void* data;           ///< address of element [0, ..., 0]; may be NULL if there are no elements
    uint64_t limit_bytes; ///< of memory from `data` on; UINT64_MAX where the owner did not say
    berth_dtype dtype;
    int32_t rank;
    const int64_t* dims; ///< [rank]
    /// [rank], elements (blocks for quantised types, but for the last); 0 and negative ones are
    /// fine. NULL: row-major.
    const int64_t* strides;
    bool is_read_only;
    /// `data` is an address of the context's device, not of the host; of use where those differ.
    bool is_on_device;
    /// May be NULL; called once with `deleter_self` and the lowest address that the tensor touches.
    berth_deleter deleter;
    void* deleter_self;
} berth_foreign;

/// Makes a tensor on a storage that covers exactly the bytes that the window touches. Strides of
/// dimensions that are never stepped along are replaced by row-major ones: owners leave anything
/// there. Under the context's lock; the caller keeps the error in the context.
/// Ownership: the memory is taken over on success alone.
/// Errors:    BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_OVERFLOW, BERTH_ERR_OUT_OF_MEMORY (host
///            memory); `*out_tensor` is NULL then.
BERTH_NODISCARD berth_status berth_foreign_adopt(berth_context* context,
                                                 const berth_foreign* foreign,
                                                 berth_tensor** out_tensor);

/// True if the device can use the memory where it lies. What it cannot use is copied to it.
bool berth_foreign_is_usable(const berth_context* context, const berth_foreign* foreign);

/// Makes a tensor of what lies in the window on memory of the context's device, and has copied it
/// when it returns: the memory stays the owner's, and the deleter is left to the caller. A value of
/// a step, as a new tensor is. Under the context's lock, like the above, and with its errors and
/// those of an allocation and a copy.
BERTH_NODISCARD berth_status berth_foreign_copy(berth_context* context,
                                                const berth_foreign* foreign,
                                                berth_tensor** out_tensor);

/// Does the one or the other, as the device needs it: the whole of a public call `op`. An error is
/// the context's; `foreign` is NULL where there is one already, as the thread's detail text says.
/// Not under the context's lock, so that the deleter of what was copied can be called.
berth_tensor* berth_foreign_bring_in(berth_context* context,
                                     const char* op,
                                     berth_status status,
                                     const berth_foreign* foreign);

#endif // BERTH_EXEC_FOREIGN_H
