// SPDX-License-Identifier: Apache-2.0
// The .npy format of NumPy: a header, which is the text of a Python dictionary, and the elements.
#ifndef BERTH_TENSOR_NPY_H
#define BERTH_TENSOR_NPY_H

#include "berth/dtype.h"

/// What a header says, checked against the file's size.
typedef struct berth_npy {
    berth_dtype dtype;
    int32_t rank;
    int64_t dims[BERTH_MAX_RANK];
    bool is_fortran;      ///< the first dimension's elements lie one after another, not the last's
    uint64_t data_offset; ///< of the elements in the file
    uint64_t data_bytes;
} berth_npy;

/// The most bytes that berth_npy_write_header() writes.
#define BERTH_NPY_HEADER_BYTES 512

/// Reads the header of a file that lies at `file` [size]. Nothing in it is trusted.
/// Errors: BERTH_ERR_CORRUPT, BERTH_ERR_UNSUPPORTED (an element type or a rank that Berth does not
///         have); `*out_npy` is undefined then.
BERTH_NODISCARD berth_status berth_npy_parse(const void* file, uint64_t size, berth_npy* out_npy);

/// Writes the header of a row-major array into `buffer`; returns its length in bytes, or 0 if the
/// format has no such element type.
size_t berth_npy_write_header(char buffer[BERTH_NPY_HEADER_BYTES],
                              berth_dtype dtype,
                              int32_t rank,
                              const int64_t* dims);

#endif // BERTH_TENSOR_NPY_H
