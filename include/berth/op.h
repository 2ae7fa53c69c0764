// SPDX-License-Identifier: Apache-2.0
// What an op is: the row of the op table, the call that a kernel receives.
#ifndef BERTH_OP_H
#define BERTH_OP_H

#include "berth/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BERTH_OP_MAX_INPUTS 8   ///< operands of one op
#define BERTH_OP_MAX_OUTPUTS 2  ///< results of one op
#define BERTH_OP_PARAM_BYTES 96 ///< the most that the parameters of one op take

/// A function that computes items [begin, end) of a job. `worker` is 0 .. worker count - 1, a
/// different one for each call that runs at the same time.
typedef void (*berth_range_fn)(void* job, int64_t begin, int64_t end, uint32_t worker);

/// Threads that a CPU kernel may use. Kernels get one in their call; they never make threads.
typedef struct berth_team berth_team;

/// Runs `fn` over [0, count) on the team, in chunks that are multiples of `grain` (>= 1) except the
/// last; returns when all are done. How the range is cut never depends on anything but `count`,
/// `grain` and the number of workers, and kernels must not let it change their results.
BERTH_API void berth_team_for(
    berth_team* team, int64_t count, int64_t grain, berth_range_fn fn, void* job);

/// Returns the number of workers of `team`, at least 1; `team` may be NULL.
BERTH_API uint32_t berth_team_worker_count(const berth_team* team);

/// One call of an op, as checks, shape rule, scratch rule and kernel see it.
typedef struct berth_op_call {
    uint32_t input_count;
    uint32_t output_count;
    berth_view inputs[BERTH_OP_MAX_INPUTS];
    berth_view outputs[BERTH_OP_MAX_OUTPUTS]; ///< filled in by the shape rule, contiguous
    const void* params; ///< the op's parameter struct, at most BERTH_OP_PARAM_BYTES; may be NULL
    void* scratch;      ///< workspace, aligned to 64 bytes; undefined content
    uint64_t scratch_bytes; ///< what the scratch rule asked for
    berth_team* team;       ///< CPU: threads to use; NULL means the calling thread alone
    bool batch_invariant;   ///< each output row must not depend on how many rows there are
} berth_op_call;

/// A kernel computes the outputs of one call. It keeps nothing of `call` beyond its return,
/// allocates nothing and cannot fail: all that can be wrong is found by the checks.
typedef void (*berth_kernel)(const berth_op_call* call);

/// What an op may do with the storage of its operands.
typedef enum berth_op_flags {
    BERTH_OP_IN_PLACE_0 = 1u << 0, ///< output 0 may take the place of moved operand 0
    BERTH_OP_IN_PLACE_1 = 1u << 1, ///< output 0 may take the place of moved operand 1
    /// Output 0 is operand 0 changed: the operand must be moved, and where it cannot be taken in
    /// place its content is copied to a new tensor first.
    BERTH_OP_UPDATES_0 = 1u << 2,
} berth_op_flags;

/// Kinds of device that a kernel may be written for.
typedef enum berth_device_kind {
    BERTH_DEVICE_CPU,
    BERTH_DEVICE_SIM, ///< a small, asynchronous, failing device for tests; runs CPU kernels
    BERTH_DEVICE_CUDA,
    BERTH_DEVICE_KIND_COUNT
} berth_device_kind;

/// A row of the op table.
typedef struct berth_op_desc {
    size_t struct_size; ///< sizeof(berth_op_desc) compiled against
    const char* name;   ///< as in error messages and traces
    uint32_t min_inputs;
    uint32_t max_inputs;
    uint32_t output_count;
    uint32_t flags; ///< berth_op_flags
    /// Checks the operands and parameters and writes dtype, rank and dims of the outputs. Returns
    /// BERTH_OK, or an error after berth_op_fail(). Strides and data are filled in by the caller.
    berth_status (*infer)(berth_op_call* call);
    /// Workspace of the kernel in bytes, for checked operands; NULL means the op never uses any. An
    /// op that has this rule makes a scratch value at every call, also of zero bytes.
    uint64_t (*scratch)(const berth_op_call* call);
    /// For each kind of device; NULL takes the back end's own kernel table.
    berth_kernel kernels[BERTH_DEVICE_KIND_COUNT];
} berth_op_desc;

/// Records why a check refuses its operands; returns `status`. The text should not name the op or
/// the shapes: the runtime adds them.
BERTH_API berth_status berth_op_fail(berth_status status, const char* format, ...)
    BERTH_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OP_H
