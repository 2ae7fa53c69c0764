// SPDX-License-Identifier: Apache-2.0
// Rows of values to and from f32: half, bfloat16 and every block-quantised type; and between any
// two plain types.
//
// V1: a conversion gives the same bits on every instruction set, whatever the length of the row and
//     wherever a value stands in it.
#ifndef BERTH_DEVICE_CPU_KERNEL_CONVERT_H
#define BERTH_DEVICE_CPU_KERNEL_CONVERT_H

#include "base/dtype.h"

/// Converts `values` values (whole blocks for a quantised type) at `src` to f32 at `dst`. The
/// ranges do not overlap. Exact, except that quantised values are computed in f32, one rounding an
/// operation, as their formats define.
typedef void (*berth_to_f32_fn)(const void* src, float* dst, int64_t values);

/// Converts `values` f32 at `src` (whole blocks for a quantised type), rounding once to nearest
/// even; NaN stays NaN. To q8_0: to the nearest multiples of a scale for each block.
typedef void (*berth_from_f32_fn)(const float* src, void* dst, int64_t values);

/// Converts `count` elements from one plain type to another. The ranges do not overlap.
typedef void (*berth_cast_fn)(const void* source, void* target, int64_t count);

/// One instruction set's conversions, indexed by berth_dtype; NULL where there is none.
typedef struct berth_convert_rows {
    berth_to_f32_fn to_f32[BERTH_DTYPE_COUNT];
    berth_from_f32_fn from_f32[BERTH_DTYPE_COUNT];
    /// [from][to]: those that are neither a copy nor to or from a half.
    berth_cast_fn cast[BERTH_PLAIN_DTYPES][BERTH_PLAIN_DTYPES];
} berth_convert_rows;

extern const berth_convert_rows berth_convert_rows_portable;
#if defined(__x86_64__)
extern const berth_convert_rows berth_convert_rows_avx2;
extern const berth_convert_rows berth_convert_rows_avx512;
#endif

/// The conversions for berth_cpu_query_isa().
const berth_convert_rows* berth_convert_query_rows(void);

/// Shorthand for berth_convert_query_rows()->to_f32[dtype]: f32 (a copy), f16, bf16 and all
/// quantised types; NULL for integers and bool.
berth_to_f32_fn berth_convert_query_to_f32(berth_dtype dtype);

/// Shorthand for berth_convert_query_rows()->from_f32[dtype]: f32 (a copy), f16, bf16,
/// q8_0; else NULL.
berth_from_f32_fn berth_convert_query_from_f32(berth_dtype dtype);

/// Converts `count` elements of a plain type to another, or copies them: floats to nearest even; to
/// integers toward zero, saturated, NaN to 0; integers keep the low bits; to bool as x != 0. The
/// ranges do not overlap.
void berth_convert_plain(
    berth_dtype from, berth_dtype to, const void* source, void* target, int64_t count);

#endif // BERTH_DEVICE_CPU_KERNEL_CONVERT_H
