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
// new file or what it had before, whatever fails; a symbolic link is replaced, not followed.
// Elements that are not contiguous are written row-major all the same.
#ifndef BERTH_FILES_H
#define BERTH_FILES_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Opens the array in the .npy file at `path`, format versions 1.0, 2.0 and 3.0. An array in
/// Fortran order becomes a transposed view.
/// Ownership: the caller has one reference to the tensor.
/// Errors:    NULL and the context's error, which names the path: BERTH_ERR_INVALID_ARGUMENT
/// (NULL),
///            BERTH_ERR_NOT_FOUND, BERTH_ERR_IO, BERTH_ERR_CORRUPT (not such a file, or not all of
///            it), BERTH_ERR_UNSUPPORTED (an element type that Berth does not have, big-endian,
///            structured or pickled elements, more than BERTH_MAX_RANK dimensions),
///            BERTH_ERR_OUT_OF_MEMORY.
/// Threads:   the context's.
BERTH_API berth_tensor* berth_npy_read(berth_context* context, const char* path);

/// Writes `tensor` to the .npy file at `path`, in place of a file that is there.
/// Errors:  BERTH_ERR_UNSUPPORTED for an element type that NumPy does not have (bf16, quantised:
///          cast first); BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_NOT_FOUND, BERTH_ERR_IO,
///          BERTH_ERR_OUT_OF_MEMORY, naming the path; those of berth_tensor_read().
/// Threads: as berth_tensor_read().
BERTH_API BERTH_NODISCARD berth_status berth_npy_write(berth_tensor* tensor, const char* path);

/// An open safetensors file. Nothing of it changes once it is open: any thread may ask it.
typedef struct berth_safetensors berth_safetensors;

/// What the file says of a tensor. The texts live as long as the file is open.
typedef struct berth_safetensors_entry {
    const char* name;             ///< unique in the file
    const char* dtype_text;       ///< the type's name in the file, such as "F32"
    berth_dtype dtype;            ///< BERTH_DTYPE_COUNT if Berth has no such element type
    int32_t rank;                 ///< number of dimensions
    int64_t dims[BERTH_MAX_RANK]; ///< [rank], elements; the rest is 0
    uint64_t bytes;               ///< in the file
} berth_safetensors_entry;

/// A tensor to be written.
typedef struct berth_safetensors_source {
    const char* name;     ///< UTF-8, unique, not "__metadata__"
    berth_tensor* tensor; ///< of any element type that is not quantised, any strides
} berth_safetensors_source;

/// An entry of a file's metadata.
typedef struct berth_safetensors_note {
    const char* key;   ///< UTF-8, unique
    const char* value; ///< UTF-8
} berth_safetensors_note;

/// Opens the safetensors file at `path` and checks its header whole: sizes fit types and shapes,
/// and every byte of the data belongs to exactly one tensor.
/// Ownership: the caller closes the file; tensors taken from it stay valid.
/// Errors:    BERTH_ERR_INVALID_ARGUMENT (NULL), BERTH_ERR_NOT_FOUND, BERTH_ERR_IO,
///            BERTH_ERR_CORRUPT, BERTH_ERR_UNSUPPORTED (a tensor of more than BERTH_MAX_RANK
///            dimensions), BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_FORKED; then `*out_file` is NULL.
/// Threads:   any.
BERTH_API BERTH_NODISCARD berth_status berth_safetensors_open(berth_runtime* runtime,
                                                              const char* path,
                                                              berth_safetensors** out_file);

/// Ends the file; accepts NULL.
BERTH_API void berth_safetensors_close(berth_safetensors* file);

/// Number of tensors in the file; 0 for NULL.
BERTH_API size_t berth_safetensors_count(const berth_safetensors* file);

/// Describes tensor `index`, in the order of their bytes.
/// Errors: BERTH_ERR_NOT_FOUND if there are not so many, BERTH_ERR_INVALID_ARGUMENT; then
///         `*out_entry` is zero.
BERTH_API BERTH_NODISCARD berth_status berth_safetensors_query(const berth_safetensors* file,
                                                               size_t index,
                                                               berth_safetensors_entry* out_entry);

/// Finds the tensor called `name`.
/// Errors: BERTH_ERR_NOT_FOUND, BERTH_ERR_INVALID_ARGUMENT; then `*out_index` is 0.
/// Cost:   logarithmic in the number of tensors.
BERTH_API BERTH_NODISCARD berth_status berth_safetensors_find(const berth_safetensors* file,
                                                              const char* name,
                                                              size_t* out_index);

/// The text that the file's metadata has under `key`; NULL if it has none. Lives as long as the
/// file is open.
BERTH_API const char* berth_safetensors_metadata(const berth_safetensors* file, const char* key);

/// Writes entry `index` of the file's metadata, in the order of the file. The texts live as long as
/// the file is open.
/// Errors: BERTH_ERR_NOT_FOUND if there are not so many, BERTH_ERR_INVALID_ARGUMENT; then
///         `*out_note` is zero.
BERTH_API BERTH_NODISCARD berth_status berth_safetensors_query_metadata(
    const berth_safetensors* file, size_t index, berth_safetensors_note* out_note);

/// Makes tensor `index` of the file.
/// Ownership: the caller has one reference to the tensor.
/// Errors:    NULL and the context's error: BERTH_ERR_NOT_FOUND, BERTH_ERR_UNSUPPORTED (an element
///            type that Berth does not have, by name), BERTH_ERR_INVALID_ARGUMENT (NULL; a context
///            of another runtime than the file's), BERTH_ERR_OUT_OF_MEMORY.
/// Threads:   the context's.
BERTH_API berth_tensor* berth_safetensors_tensor(berth_context* context,
                                                 const berth_safetensors* file,
                                                 size_t index);

/// Writes `sources` [count] and `notes` [note_count] to the safetensors file at `path`, in place of
/// a file that is there. Tensors of larger elements come first, so that all lie at multiples of
/// their elements.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT (NULL, a name that is not as it should be),
///          BERTH_ERR_UNSUPPORTED (a quantised tensor, by name), BERTH_ERR_NOT_FOUND, BERTH_ERR_IO,
///          BERTH_ERR_OUT_OF_MEMORY; those of berth_tensor_read().
/// Threads: as berth_tensor_read().
BERTH_API BERTH_NODISCARD berth_status
berth_safetensors_write(const char* path,
                        const berth_safetensors_source* sources,
                        size_t count,
                        const berth_safetensors_note* notes,
                        size_t note_count);

#ifdef __cplusplus
}
#endif

#endif // BERTH_FILES_H
