// SPDX-License-Identifier: Apache-2.0
// Tensors in files: NumPy's .npy and safetensors.
//
// Reading maps the file and copies nothing: the tensor is read-only, its bytes are the file's, and
// the mapping lasts as long as a tensor needs it. Elements that do not lie at a multiple of their
// size are copied instead, as are all of them where the device does not see the host's memory; such
// tensors are ordinary ones. A mapped file must not be made shorter: who reads what is gone is
// ended by the system. Files that are replaced by renaming, as by the functions below, are safe.
//
// Writing fills a temporary file in the same folder and renames it, so that the path has the whole
// new file or what it had before, whatever fails. Elements that are not contiguous are written
// row-major all the same.
#ifndef BERTH_FILES_H
#define BERTH_FILES_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Opens the array in the .npy file at `path`, format versions 1.0, 2.0 and 3.0. An array in
/// Fortran order becomes a transposed view.
/// Ownership: the caller has one reference to the tensor.
/// Errors:    NULL and the context's error, which names the path: BERTH_ERR_NOT_FOUND,
/// BERTH_ERR_IO,
///            BERTH_ERR_CORRUPT (not such a file, or not all of it), BERTH_ERR_UNSUPPORTED (an
///            element type that Berth does not have, big-endian, structured or pickled elements,
///            more than BERTH_MAX_RANK dimensions), BERTH_ERR_OUT_OF_MEMORY.
/// Threads:   the context's.
BERTH_API berth_tensor* berth_npy_read(berth_context* context, const char* path);

/// Writes `tensor` to the .npy file at `path`, in place of a file that is there.
/// Errors:  BERTH_ERR_UNSUPPORTED for an element type that NumPy does not have (bf16, quantised:
///          cast first); BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_NOT_FOUND, BERTH_ERR_IO,
///          BERTH_ERR_OUT_OF_MEMORY, naming the path; those of berth_tensor_read().
/// Threads: as berth_tensor_read().
BERTH_API BERTH_NODISCARD berth_status berth_npy_write(berth_tensor* tensor, const char* path);

#ifdef __cplusplus
}
#endif

#endif // BERTH_FILES_H
