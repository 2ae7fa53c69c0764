// SPDX-License-Identifier: Apache-2.0
// Steps: stretches of ops whose memory Berth learns and from then on promises before they start.
#ifndef BERTH_STEP_H
#define BERTH_STEP_H

#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// An input whose dimensions the step's sizes may depend on. Only shapes matter.
typedef struct berth_step_input {
    const char* name;    ///< its dimensions are called name.0, name.1, ...
    int32_t rank;        ///< 0 .. BERTH_MAX_RANK
    const int64_t* dims; ///< [rank], each >= 0
} berth_step_input;

/// An integer that the step's sizes may depend on, such as the number of tokens already in a cache.
typedef struct berth_step_integer {
    const char* name; ///< as in reports
    int64_t value;    ///< >= 0
} berth_step_integer;

/// Describes one run of a step. Names, ranks and order are the same at every run of a name. All its
/// dimensions and integers together are 64 at most.
typedef struct berth_step_desc {
    const char* name;                   ///< identifies the kind of step in the runtime
    const berth_step_input* inputs;     ///< [input_count]
    size_t input_count;                 ///< length of inputs
    const berth_step_integer* integers; ///< [integer_count]
    size_t integer_count;               ///< length of integers
} berth_step_desc;

/// Begins a step; steps nest. If the step's memory is known, it is reserved now and every tensor
/// has its place. `desc` and what it points at are borrowed for the call.
/// Errors: BERTH_ERR_OUT_OF_MEMORY before anything was executed, naming need and capacity;
///         BERTH_ERR_INVALID_ARGUMENT; BERTH_ERR_STATE while an earlier error sticks in the
///         context. Then no step is begun, and the error is also the context's.
BERTH_API BERTH_NODISCARD berth_status berth_step_begin(berth_context* context,
                                                        const berth_step_desc* desc);

/// Ends the innermost step. Tensors that are still alive stay valid. After an error inside the step
/// the run is forgotten and the error returned, unless it has been cleared; it stays the context's.
/// Errors: BERTH_ERR_STATE without an open step.
BERTH_API BERTH_NODISCARD berth_status berth_step_end(berth_context* context);

/// What a run would need.
typedef struct berth_step_estimate_result {
    uint64_t bytes; ///< frame and escaping tensors, the most over known paths; 0 if unknown
    berth_estimate_kind kind; ///< how sure that is
} berth_step_estimate_result;

/// Tells what a run would need; changes nothing.
/// Errors: BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_OUT_OF_MEMORY; then `*out_result` is unknown, 0.
BERTH_API BERTH_NODISCARD berth_status berth_step_estimate(berth_context* context,
                                                           const berth_step_desc* desc,
                                                           berth_step_estimate_result* out_result);

/// Makes the plan for a run ahead of it, and maps its memory: the frame, of the largest path known,
/// and what escaping tensors will take. So the run's begin maps nothing, unless BERTH_KEEP gives
/// the memory back before. Does nothing while the step is unknown (see BERTH_PREALLOC).
/// Errors: BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_DEVICE. They are not the
///         context's: ops go on.
BERTH_API BERTH_NODISCARD berth_status berth_step_warm(berth_context* context,
                                                       const berth_step_desc* desc);

/// Chooses which values of a symbol share a plan, for the step called `step`, also before its first
/// run: `policy` is a text as in BERTH_BUCKETS, which is what holds elsewhere. `symbol` is a
/// dimension such as "tokens.0" or an integer's name; NULL sets it for all symbols of the step that
/// have none set by name. Plans that the step has are dropped. What is set for a symbol that the
/// step turns out not to declare is told in the log.
/// Errors: BERTH_ERR_INVALID_ARGUMENT for a policy that cannot be read, and for a symbol that the
///         step, once run, does not declare; BERTH_ERR_OUT_OF_MEMORY. Then nothing has changed.
BERTH_API BERTH_NODISCARD berth_status berth_step_set_buckets(berth_runtime* runtime,
                                                              const char* step,
                                                              const char* symbol,
                                                              const char* policy);

/// Declares that the next step to begin in this context makes `bytes` more live tensors than its
/// plan knows of (growing a cache, for example); its begin reserves them too. What several calls
/// declare adds up. It stays declared while begins are refused, so that one that is tried again
/// asks for the same, until a begin succeeds or berth_step_cancel_extra takes it back.
BERTH_API void berth_step_reserve_extra(berth_context* context, uint64_t bytes);

/// Takes back what has been declared for the next step and no begin has reserved yet.
BERTH_API void berth_step_cancel_extra(berth_context* context);

#ifdef __cplusplus
}
#endif

#endif // BERTH_STEP_H
