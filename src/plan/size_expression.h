// SPDX-License-Identifier: Apache-2.0
// Sizes and dimensions as text, in the symbols of a step: what trace files say of a value.
//
//   sum      = product { ("+" | "-") product }
//   product  = factor { "*" factor }
//   factor   = number | name | "{" any name "}" | "(" sum ")"
//            | "max(" sum { "|" sum } ")" | "atmost(" sum "|" sum ")" | "atleast(" sum "|" sum ")"
//            | division "(" sum "/" number ")" | "observed(" sum ")"
//   division = "ceil" | "floor" | "mod" | "pad"
//
// Names are letters, digits, "_" and ".", not beginning with a digit; in braces everything but a
// brace. Values are whole and saturate; the result is not below 0.
#ifndef BERTH_PLAN_SIZE_EXPRESSION_H
#define BERTH_PLAN_SIZE_EXPRESSION_H

#include <stdbool.h>

#include "berth/stats.h"

/// Most parentheses inside one another.
#define BERTH_SIZE_EXPRESSION_DEPTH 64u

/// A value, and how sure it is: BOUND where the alternatives of a max() differ, OBSERVED inside
/// observed(), EXACT else.
typedef struct berth_expression_answer {
    int64_t value;
    berth_estimate_kind kind;
} berth_expression_answer;

/// Tells the value of `name`, `bytes` bytes long; false if there is no such name.
typedef bool (*berth_size_lookup)(void* user,
                                  const char* name,
                                  size_t bytes,
                                  berth_expression_answer* out_answer);

/// Evaluates `text`. It is read whole whatever the values are: what is wrong with the text is found
/// at any.
/// Errors: BERTH_ERR_CORRUPT with a sentence that says what was expected and where.
BERTH_NODISCARD berth_status berth_size_expression_evaluate(const char* text,
                                                            berth_size_lookup lookup,
                                                            void* user,
                                                            berth_expression_answer* out_answer);

#endif // BERTH_PLAN_SIZE_EXPRESSION_H
