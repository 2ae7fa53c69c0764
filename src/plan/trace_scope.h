// SPDX-License-Identifier: Apache-2.0
// The names that the expressions of one part of a trace file may use, with their values.
#ifndef BERTH_PLAN_TRACE_SCOPE_H
#define BERTH_PLAN_TRACE_SCOPE_H

#include "base/vec.h"
#include "plan/name_table.h"
#include "plan/size_expression.h"

BERTH_VEC_DEFINE(berth_expression_answer_vec, berth_expression_answer);

/// Names are borrowed. A zeroed struct is an empty scope.
typedef struct berth_trace_scope {
    berth_name_table names;
    berth_expression_answer_vec values; ///< by the number of the name
} berth_trace_scope;

void berth_trace_scope_fini(berth_trace_scope* scope, const berth_host* host);
void berth_trace_scope_clear(berth_trace_scope* scope); ///< keeps the memory

/// Enters `name` with its value; a name that is there keeps its own, and `*out_is_new` is false.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_trace_scope_put(berth_trace_scope* scope,
                                                   const berth_host* host,
                                                   const char* name,
                                                   berth_expression_answer value,
                                                   bool* out_is_new);

/// Evaluates an expression in these names.
/// Errors: BERTH_ERR_CORRUPT as berth_size_expression_evaluate().
BERTH_NODISCARD berth_status berth_trace_scope_evaluate(berth_trace_scope* scope,
                                                        const char* text,
                                                        berth_expression_answer* out_value);

#endif // BERTH_PLAN_TRACE_SCOPE_H
