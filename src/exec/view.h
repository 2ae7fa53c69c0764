// SPDX-License-Identifier: Apache-2.0
// What the view ops share: into the context, a shape, and out with another window on the storage.
#ifndef BERTH_EXEC_VIEW_H
#define BERTH_EXEC_VIEW_H

#include "exec/exec_impl.h"

/// Shape, strides and offset that a view op gives its result.
typedef struct berth_window {
    berth_dtype dtype;
    int32_t rank;
    uint64_t offset_bytes; ///< in the storage
    int64_t dims[BERTH_MAX_RANK];
    int64_t strides[BERTH_MAX_RANK];
} berth_window;

/// Takes the lock of an op's context. False if the op must return NULL: then the lock is free again
/// and a moved operand consumed.
bool berth_view_enter(berth_context* ctx, const char* op, berth_tensor* operand);

/// Keeps the error, consumes a moved operand, leaves the context; returns NULL.
berth_tensor* berth_view_refuse(berth_context* ctx,
                                berth_status status,
                                const char* op,
                                berth_tensor* operand);

/// The window that `x` is.
berth_window berth_window_of(const berth_tensor* x);

/// Gives a tensor another window on its storage.
void berth_window_set(berth_tensor* tensor, const berth_window* window);

/// A new tensor on the operand's storage; the operand keeps its reference. NULL without host
/// memory. Under the context's lock.
berth_tensor* berth_view_make(berth_context* ctx,
                              berth_tensor* operand,
                              const berth_window* window);

/// Makes the view of `operand`, leaves the context. A moved handle that nobody else holds becomes
/// the view.
berth_tensor* berth_view_finish(berth_context* ctx,
                                const char* op,
                                berth_tensor* operand,
                                const berth_window* window);

/// The operand itself: the moved reference, or a new one. Leaves the context.
berth_tensor* berth_view_finish_same(berth_context* ctx, berth_tensor* operand);

/// Refuses a dimension that does not exist and makes one that counts from the end count from the
/// start.
BERTH_NODISCARD berth_status berth_view_check_dim(const berth_window* window, int32_t* dim);

/// Refuses quantised types: their blocks are along the last dimension.
BERTH_NODISCARD berth_status berth_view_check_plain(const berth_window* window, const char* verb);

#endif // BERTH_EXEC_VIEW_H
