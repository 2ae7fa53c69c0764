// SPDX-License-Identifier: Apache-2.0
// Reads the calls and results that make_values.py stored.
#ifndef BERTH_TEST_TORCH_VALUES_H
#define BERTH_TEST_TORCH_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "berth/berth.h"

enum { TORCH_MOST_TENSORS = 24, TORCH_MOST_PARAMS = 16 };

/// A stored tensor: row-major elements.
typedef struct torch_tensor {
    berth_dtype dtype;
    int32_t rank;
    int64_t dims[BERTH_MAX_RANK];
    int64_t count;
    uint64_t bytes;
    const unsigned char* data; ///< in the file's bytes, not aligned
} torch_tensor;

/// A stored call.
typedef struct torch_case {
    char name[64];
    size_t param_count, input_count, output_count;
    double params[TORCH_MOST_PARAMS];
    torch_tensor inputs[TORCH_MOST_TENSORS];
    torch_tensor outputs[TORCH_MOST_TENSORS];
} torch_case;

/// The stored file while it is read.
typedef struct torch_file {
    unsigned char* bytes; ///< free() it
    size_t size;
    size_t at;
    uint32_t left; ///< cases
} torch_file;

/// The element type that a stored number stands for; BERTH_DTYPE_COUNT if none.
berth_dtype torch_dtype(int32_t number);

/// Opens the file; false if it is not there or not one.
bool torch_file_open(torch_file* file, const char* path);

/// Reads the next case; false behind the last one. Ends the test if the file is cut off.
bool torch_file_next(torch_file* file, torch_case* out);

#endif // BERTH_TEST_TORCH_VALUES_H
