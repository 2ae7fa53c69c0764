// SPDX-License-Identifier: Apache-2.0
// Tensors to and from other libraries without a copy, through DLPack's DLManagedTensor. Include
// <dlpack/dlpack.h> (version 0.6 or later) to look inside one; nothing here needs it.
#ifndef BERTH_DLPACK_H
#define BERTH_DLPACK_H

#include "berth/tensor.h"

struct DLManagedTensor; ///< as in <dlpack/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Makes a tensor over another library's memory: f32, f16, bf16, i8, i32, i64, u8 or bool, one
/// lane, up to BERTH_MAX_RANK dimensions, with any strides (0 and negative ones too; NULL means
/// row-major), in memory that the host can reach (kDLCPU), aligned to its element. The elements
/// are those of the moment when an op reads them: who still writes to them orders that himself.
/// Ops never write to the memory; berth_tensor_write() and berth_tensor_map() do unless
/// `read_only`. A device that does not reach the host's memory gets a copy of the elements, as of
/// berth_tensor_from_memory(), and `managed` is given back before the call returns.
/// Ownership: on success `managed` belongs to the tensor: its deleter is called exactly once, when
///            no tensor uses the memory any more, as a berth_deleter is. After an error `managed`
///            is still the caller's.
/// Errors:    NULL and the context's error: BERTH_ERR_UNSUPPORTED for another element type or
///            device, BERTH_ERR_INVALID_ARGUMENT (misaligned memory, no dimensions, a rank or size
///            that cannot be), BERTH_ERR_OVERFLOW, BERTH_ERR_OUT_OF_MEMORY.
BERTH_API berth_tensor* berth_tensor_from_dlpack(berth_context* context,
                                                 struct DLManagedTensor* managed,
                                                 bool read_only);

/// Lends the tensor's memory to another library. Waits for pending work first. Until the borrower
/// calls the deleter of `*out_managed` the tensor has one reference more and its storage is pinned:
/// it does not move, and no op writes to it in place. The borrower may call it from any thread,
/// also when context and runtime have been released. What the borrower writes, Berth sees; it must
/// not write while ops on the tensor are pending.
///
/// Strides are always given, byte_offset is 0 and data the address of element [0, ...], which is
/// aligned to its element alone. Bool goes out as u8, since not every reader knows a type of its
/// own for it.
/// Errors: BERTH_ERR_UNSUPPORTED for quantised and read-only tensors (export a berth_cast() or
///         berth_copy() of them) and on a device whose memory the host cannot reach;
///         BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_DEVICE,
///         BERTH_ERR_FORKED; then `*out_managed` is NULL and nothing is pinned.
BERTH_API BERTH_NODISCARD berth_status berth_tensor_to_dlpack(berth_tensor* tensor,
                                                              struct DLManagedTensor** out_managed);

#ifdef __cplusplus
}
#endif

#endif // BERTH_DLPACK_H
