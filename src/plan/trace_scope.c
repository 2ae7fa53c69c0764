// SPDX-License-Identifier: Apache-2.0
// Names and values of expressions.
#include "plan/trace_scope.h"

#include "base/error.h"

void berth_trace_scope_fini(berth_trace_scope* scope, const berth_host* host) {
    berth_name_table_fini(&scope->names, host);
    berth_expression_answer_vec_fini(&scope->values, host);
}

void berth_trace_scope_clear(berth_trace_scope* scope) {
    berth_name_table_clear(&scope->names);
    scope->values.count = 0;
}

berth_status berth_trace_scope_put(berth_trace_scope* scope,
                                   const berth_host* host,
                                   const char* name,
                                   berth_expression_answer value,
                                   bool* out_is_new) {
    uint32_t* found;
    BERTH_TRY(berth_expression_answer_vec_reserve(&scope->values, host, scope->values.count + 1));
    BERTH_TRY(
        berth_name_table_put(&scope->names, host, name, (uint32_t)scope->values.count, &found));
    *out_is_new = found == NULL;
    if (found == NULL) scope->values.items[scope->values.count++] = value;
    return BERTH_OK;
}

static bool look_up(void* user,
                    const char* name,
                    size_t bytes,
                    berth_expression_answer* out_answer) {
    const berth_trace_scope* scope = user;
    uint32_t at;
    if (!berth_name_table_find(&scope->names, name, bytes, &at)) return false;
    *out_answer = scope->values.items[at];
    return true;
}

berth_status berth_trace_scope_evaluate(berth_trace_scope* scope,
                                        const char* text,
                                        berth_expression_answer* out_value) {
    return berth_size_expression_evaluate(text, look_up, scope, out_value);
}
