// SPDX-License-Identifier: Apache-2.0
// Floating-point numbers as decimal digits: the fewest that tell a value from its neighbours of the
// same element type, or fewer where a precision cuts them off.
#ifndef BERTH_TENSOR_PRINT_NUMBER_H
#define BERTH_TENSOR_PRINT_NUMBER_H

#include "berth/dtype.h"

/// What an element of a floating-point type is.
typedef struct berth_print_number {
    bool is_negative; ///< its sign bit
    bool is_nan;
    bool is_infinite;
    /// The next value towards zero is nearer than the other: a power of two.
    bool has_near_neighbour;
    uint32_t mantissa; ///< finite: the magnitude is mantissa * 2^exponent
    int32_t exponent;
    double value; ///< exact
} berth_print_number;

/// A finite number as text without padding: sign, whole digits, point, fraction, exponent.
typedef struct berth_print_text {
    char text[224];   ///< ended by a zero byte
    int32_t whole;    ///< characters before the point, the sign included
    int32_t fraction; ///< digits after the point
    int32_t exponent; ///< characters after 'e': sign and digits; 0 without one
    int32_t length;   ///< of the whole text
} berth_print_text;

/// Reads the element of `dtype`, a floating-point type, at `element`.
berth_print_number berth_print_decode(berth_dtype dtype, const void* element);

/// Writes a finite number in positional notation: the fewest digits that identify it, at most
/// `precision` after the point, rounded to nearest and even; zeros at the end are dropped, the
/// point stays. With `has_whole_digits` those before the point are the exact value's even where
/// fewer identify it and zeros would do.
void berth_print_positional(const berth_print_number* number,
                            int32_t precision,
                            bool has_whole_digits,
                            berth_print_text* out);

/// As berth_print_positional with one digit before the point and an exponent of at least
/// `exponent_digits` digits. At least `min_digits` digits follow the point: those of the exact
/// value beyond the ones that identify it.
void berth_print_scientific(const berth_print_number* number,
                            int32_t precision,
                            int32_t min_digits,
                            int32_t exponent_digits,
                            berth_print_text* out);

/// The most digits after the point that any number has; larger precisions mean the same.
#define BERTH_PRINT_MAX_PRECISION 150

#endif // BERTH_TENSOR_PRINT_NUMBER_H
