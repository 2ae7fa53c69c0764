// SPDX-License-Identifier: Apache-2.0
// Forms as expressions of trace files.
#ifndef BERTH_PLAN_FORM_TEXT_H
#define BERTH_PLAN_FORM_TEXT_H

#include "base/byte_stream.h"
#include "plan/form.h"

/// Writes a name as an expression has it, in braces where it needs them. `name` has none itself.
void berth_write_expression_name(berth_byte_writer* out, const char* name);

/// Writes `form` as an expression with the same value at every point. `names` are the bindings', by
/// index.
void berth_form_write(berth_byte_writer* out, const berth_form* form, const char* const* names);

#endif // BERTH_PLAN_FORM_TEXT_H
