// SPDX-License-Identifier: Apache-2.0
// Steps as sections of trace files.
#ifndef BERTH_PLAN_TRACE_EXPORT_H
#define BERTH_PLAN_TRACE_EXPORT_H

#include "base/byte_stream.h"
#include "plan/event_names.h"
#include "plan/step_model.h"

/// What a trace file begins with.
#define BERTH_TRACE_HEADER "op,id,bytes,t_us,site\n"

/// Adds the step's known paths, their symbols and size models to `out`: nothing, if none is known.
/// Paths too large for a file are left out. Without memory `out->failed` is set.
void berth_step_model_write_trace(berth_step_model* model,
                                  const berth_event_names* names,
                                  berth_byte_writer* out);

#endif // BERTH_PLAN_TRACE_EXPORT_H
