// SPDX-License-Identifier: Apache-2.0
// What an op is: the row of the op table, the call that a kernel receives.
#ifndef BERTH_OP_H
#define BERTH_OP_H

#include "berth/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BERTH_OP_MAX_INPUTS 8    ///< operands of one op
#define BERTH_OP_MAX_OUTPUTS 3   ///< results of one op
#define BERTH_OP_PARAM_BYTES 192 ///< the most that the parameters of one op take

/// The size of an output's dimension that only the operands' data tell: what a shape rule writes
/// for it, until the op's counting kernel has run.
#define BERTH_DIM_COUNTED (-1)

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
    uint32_t input_count;  ///< operands of this call
    uint32_t output_count; ///< results of the op
    berth_view
        inputs[BERTH_OP_MAX_INPUTS]; ///< the operands; any strides: berth_view_is_contiguous()
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

/// Output 0 may take the place of moved operand `operand` (0 .. BERTH_OP_MAX_INPUTS - 1): same
/// number of elements, elements of the same size. A flag of berth_op_desc. The kernel must have
/// read an element of that operand before it writes there.
#define BERTH_OP_IN_PLACE(operand) (1u << (operand))

/// What else the runtime has to know of an op; flags of berth_op_desc.
typedef enum berth_op_flags {
    /// Output 0 is operand 0 changed: the operand must be moved, and where it cannot be taken in
    /// place its content is copied to a new tensor first. With BERTH_OP_IN_PLACE(0).
    BERTH_OP_UPDATES_0 = 1u << 8,
} berth_op_flags;

/// Kinds of device that a kernel may be written for.
typedef enum berth_device_kind {
    BERTH_DEVICE_CPU,       ///< the processor that the program runs on
    BERTH_DEVICE_SIM,       ///< a small, asynchronous, failing device for tests; runs CPU kernels
    BERTH_DEVICE_CUDA,      ///< an NVIDIA GPU
    BERTH_DEVICE_DRY,       ///< only keeps the books of memory; asks for CPU kernels, runs none
    BERTH_DEVICE_KIND_COUNT ///< how many kinds there are
} berth_device_kind;

/// A row of the op table: what the built-in ops and those of berth_op_register() are described by.
///
/// For every call the runtime runs `infer`, then `check_data`, asks `scratch`, places outputs and
/// workspace, and enqueues the kernel. An op with counting kernels places its workspace first, runs
/// the counting kernel, waits for what it counted, and places its outputs then.
typedef struct berth_op_desc {
    size_t struct_size;    ///< sizeof(berth_op_desc) compiled against
    const char* name;      ///< as in error messages and traces
    uint32_t min_inputs;   ///< operands of a call, at least
    uint32_t max_inputs;   ///< operands of a call, at most BERTH_OP_MAX_INPUTS
    uint32_t output_count; ///< results, 1 .. BERTH_OP_MAX_OUTPUTS
    uint32_t flags;        ///< BERTH_OP_IN_PLACE() and berth_op_flags
    /// Checks the operands and parameters and writes dtype, rank and dims of the outputs. Returns
    /// BERTH_OK, or an error after berth_op_fail(). Strides and data are filled in by the caller.
    berth_status (*infer)(berth_op_call* call);
    /// Optional: looks at the operands' data, and refuses what makes no sense, such as an index out
    /// of range. Called only where the device computes at once in memory that the host sees;
    /// elsewhere kernels must bear any data.
    berth_status (*check_data)(const berth_op_call* call);
    /// Workspace of the kernel in bytes, for checked operands; NULL means the op never uses any. An
    /// op that has this rule makes a scratch value at every call, also of zero bytes.
    uint64_t (*scratch)(const berth_op_call* call);
    /// For each kind of device; NULL takes the back end's own kernel table. The simulated device
    /// runs the CPU's where it has none; so does the dry one, but for running it.
    berth_kernel kernels[BERTH_DEVICE_KIND_COUNT];
    /// For ops whose shape rule writes BERTH_DIM_COUNTED: kernels that run before the outputs have
    /// a place and write the missing size, an int64_t >= 0, to the beginning of the workspace (of
    /// at least 8 bytes; the rest is handed on to the op's kernel as they leave it). Planned by the
    /// sizes that were observed. On the dry device the size is 0.
    berth_kernel counters[BERTH_DEVICE_KIND_COUNT];
} berth_op_desc;

/// Records why a check refuses its operands; returns `status`. The text should not name the op or
/// the shapes: the runtime adds them.
BERTH_API berth_status berth_op_fail(berth_status status, const char* format, ...)
    BERTH_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OP_H
