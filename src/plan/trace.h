// SPDX-License-Identifier: Apache-2.0
// Plan layer: traces, size models, buckets, packings, plans. Knows no tensor, no kernel, no device.
//
// P1: two values of a placement whose planned lifetimes overlap never share a byte (checked by a
//     verifier that shares no code with the solvers).
//
// P2: offsets are monotone in the sizes: no shape inside a bucket needs more than its corner.
//
// P3: keys are compared in full; a hash never decides.
//
// P4: what is kept is bounded in bytes, whatever shapes are seen.
//
// This header: the record of one run of a step.
#ifndef BERTH_PLAN_TRACE_H
#define BERTH_PLAN_TRACE_H

#include "base/vec.h"
#include "berth/dtype.h"

typedef enum berth_value_flags {
    BERTH_VALUE_SCRATCH = 1u << 0, ///< released inside its own event
    BERTH_VALUE_ESCAPES = 1u << 1, ///< alive when the step ended
    /// The frame of a nested step: its size is the largest seen, never a form.
    BERTH_VALUE_FRAME = 1u << 2,
    /// Its size depends on data: likewise, and admission says `observed`.
    BERTH_VALUE_DATA = 1u << 3,
} berth_value_flags;

/// An op, an allocation without an op, or the begin of a nested step: what identifies a path.
typedef struct berth_trace_event {
    uint32_t kind;        ///< an op id, or a number that the executor chooses beyond them
    uint32_t first_value; ///< values made by this event are first_value .. + value_count - 1
    uint16_t value_count;
    uint16_t reserved;
    uint32_t tag; ///< further identity, e.g. a nested step's number in the runtime
} berth_trace_event;

/// A storage made in the run. Its bytes are the product of its dims over blocks of its dtype,
/// rounded up to BERTH_PLAN_ALIGNMENT.
typedef struct berth_trace_value {
    uint32_t birth; ///< the event that made it
    uint32_t death; ///< the last event begun before it died: its bytes are free for event death + 1
    uint32_t dims_at; ///< index in `dims` of its first dimension
    uint8_t rank;     ///< scratch and frames: 1, dims are bytes, dtype BERTH_U8
    uint8_t dtype;    ///< berth_dtype
    uint16_t flags;   ///< berth_value_flags
} berth_trace_value;

BERTH_VEC_DEFINE(berth_trace_event_vec, berth_trace_event);
BERTH_VEC_DEFINE(berth_trace_value_vec, berth_trace_value);
BERTH_VEC_DEFINE(berth_trace_dim_vec, int64_t);

/// One run. A zeroed struct is an empty trace.
typedef struct berth_trace {
    berth_trace_event_vec events;
    berth_trace_value_vec values; ///< in order of appearance
    berth_trace_dim_vec dims;
} berth_trace;

void berth_trace_clear(berth_trace* trace); ///< keeps the memory
void berth_trace_fini(berth_trace* trace, const berth_host* host);

#define BERTH_PLAN_ALIGNMENT 64u

/// Bytes of `rank` dims of `dtype`, rounded up to BERTH_PLAN_ALIGNMENT; UINT64_MAX if that
/// overflows.
uint64_t berth_trace_bytes(berth_dtype dtype, uint32_t rank, const int64_t* dims);

#endif // BERTH_PLAN_TRACE_H
