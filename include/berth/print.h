// SPDX-License-Identifier: Apache-2.0
// The values of tensors as text, in NumPy's notation.
#ifndef BERTH_PRINT_H
#define BERTH_PRINT_H

#include <stdio.h>

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How values are written, as numpy.set_printoptions() has it. Begin with
/// BERTH_PRINT_OPTIONS_DEFAULT and change what should differ.
typedef struct berth_print_options {
    int32_t precision;  ///< digits after the point at most, >= 0; fewer where they identify a value
    int64_t threshold;  ///< tensors of more elements are summarised, >= 0
    int32_t edge_items; ///< elements shown at each end of a summarised dimension, >= 1
    int32_t line_width; ///< characters of a line, >= 1; one element is written all the same
} berth_print_options;

/// The options that NULL stands for: NumPy's own.
#define BERTH_PRINT_OPTIONS_DEFAULT                                                                \
    { 8, 1000, 3, 75 }

/// Writes the values of `tensor` as NumPy's str() of an array would: nested brackets, columns of
/// equal width, the fewest digits that tell a value from its neighbours of the element type,
/// exponents where numbers are far apart, "..." for the inner part of large tensors. A quantised
/// tensor is written as berth_tensor_format_info() does.
///
/// `options` may be NULL: BERTH_PRINT_OPTIONS_DEFAULT. `buffer` [size] receives the text, cut to
/// fit and ended by a zero byte; it may be NULL if size is 0. `*out_needed` (may be NULL) is the
/// length of the whole text without the zero byte.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT (NULL, an option out of its range),
///          BERTH_ERR_OUT_OF_MEMORY, and those of berth_tensor_read(); then `*out_needed` is 0.
/// Threads: as berth_tensor_read().
/// Cost:    waits for the values. Only the elements that are shown are read.
BERTH_API BERTH_NODISCARD berth_status berth_tensor_format(berth_tensor* tensor,
                                                           const berth_print_options* options,
                                                           char* buffer,
                                                           size_t size,
                                                           size_t* out_needed);

/// Writes what berth_tensor_format() gives with the default options, and a line end, to `file`.
/// Errors: those of berth_tensor_format(), and BERTH_ERR_IO if `file` does not take the text.
BERTH_API BERTH_NODISCARD berth_status berth_tensor_print(berth_tensor* tensor, FILE* file);

#ifdef __cplusplus
}
#endif

#endif // BERTH_PRINT_H
