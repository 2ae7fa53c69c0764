// SPDX-License-Identifier: Apache-2.0
// Writing safetensors headers.
#ifndef BERTH_TENSOR_SAFETENSORS_HEADER_H
#define BERTH_TENSOR_SAFETENSORS_HEADER_H

#include "base/host.h"
#include "berth/files.h"

/// Checks what is to be written and chooses the order in which the tensors' bytes follow one
/// another: larger elements first, so that each lies at a multiple of its element. `out_order` is
/// [count].
/// Errors: BERTH_ERR_INVALID_ARGUMENT (NULL, a name that is not UTF-8, is reserved or comes twice),
///         BERTH_ERR_UNSUPPORTED (an element type that the format does not have).
BERTH_NODISCARD berth_status berth_safetensors_order(const berth_safetensors_source* sources,
                                                     size_t count,
                                                     const berth_safetensors_note* notes,
                                                     size_t note_count,
                                                     size_t* out_order);

/// Composes the beginning of a file up to its data, which begins at a multiple of 8 bytes.
/// Ownership: `*out_header` [*out_bytes] belongs to the caller: berth_host_free().
/// Errors:    BERTH_ERR_INVALID_ARGUMENT (a name or key comes twice, the header gets too long),
///            BERTH_ERR_OUT_OF_MEMORY; `*out_header` is NULL then.
BERTH_NODISCARD berth_status berth_safetensors_compose(const berth_host* host,
                                                       const berth_safetensors_source* sources,
                                                       const size_t* order,
                                                       size_t count,
                                                       const berth_safetensors_note* notes,
                                                       size_t note_count,
                                                       char** out_header,
                                                       uint64_t* out_bytes);

#endif // BERTH_TENSOR_SAFETENSORS_HEADER_H
