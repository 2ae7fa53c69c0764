// SPDX-License-Identifier: Apache-2.0
// The layout of an array's text: which elements are shown, columns, brackets, lines.
#ifndef BERTH_TENSOR_PRINT_ARRAY_H
#define BERTH_TENSOR_PRINT_ARRAY_H

#include "base/text.h"
#include "berth/print.h"

/// What is to be written of a tensor.
typedef struct berth_print_array {
    berth_dtype dtype; ///< plain, not quantised
    int32_t rank;
    int32_t edge_items;          ///< shown at each end of a dimension that is cut
    int32_t precision;           ///< digits after the point
    int32_t line_width;          ///< characters
    bool is_cut[BERTH_MAX_RANK]; ///< the middle of the dimension is left out
    /// Of `data`: twice edge_items where the dimension is cut, else all of it.
    int64_t shown[BERTH_MAX_RANK];
    const unsigned char* data; ///< the elements shown, row-major
} berth_print_array;

/// Decides what is shown of a tensor; `data` stays to be filled in.
/// Errors: BERTH_ERR_INVALID_ARGUMENT if an option is out of its range.
BERTH_NODISCARD berth_status berth_print_array_init(berth_print_array* array,
                                                    const berth_print_options* options,
                                                    berth_dtype dtype,
                                                    int32_t rank,
                                                    const int64_t* dims);

/// Adds the text to `text`.
void berth_print_array_write(const berth_print_array* array, berth_text* text);

#endif // BERTH_TENSOR_PRINT_ARRAY_H
