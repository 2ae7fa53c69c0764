// SPDX-License-Identifier: Apache-2.0
// Sizes known only in bytes, as of a recorded trace, as forms of one length s: c, c s, c s s and
// their sums, with whole coefficients that are not negative. Fewer terms are tried first; all
// hypotheses of the first number of terms that fits are kept, and the largest of their values is
// planned for.
#ifndef BERTH_PLAN_BYTE_FORM_H
#define BERTH_PLAN_BYTE_FORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// constant + linear * s + square * s * s bytes.
typedef struct berth_byte_form {
    uint64_t constant;
    uint64_t linear;
    uint64_t square;
} berth_byte_form;

#define BERTH_BYTE_FORM_MAX 3u

/// The hypotheses about one size; none: it fits no form.
typedef struct berth_byte_form_set {
    berth_byte_form items[BERTH_BYTE_FORM_MAX];
    uint8_t count;
    uint8_t terms;  ///< of each hypothesis
    bool confirmed; ///< seen at more lengths than the forms have terms
} berth_byte_form_set;

/// A size that was seen.
typedef struct berth_byte_sample {
    uint64_t length; ///< s
    uint64_t bytes;
} berth_byte_sample;

/// Finds the forms that agree with every sample [count]; three terms need three lengths.
void berth_byte_form_set_fit(berth_byte_form_set* set,
                             const berth_byte_sample* samples,
                             size_t count);

/// The value at a length; saturates at UINT64_MAX.
uint64_t berth_byte_form_value(const berth_byte_form* form, uint64_t length);

/// The largest value of the hypotheses at a length; 0 without any.
uint64_t berth_byte_form_set_value(const berth_byte_form_set* set, uint64_t length);

#endif // BERTH_PLAN_BYTE_FORM_H
