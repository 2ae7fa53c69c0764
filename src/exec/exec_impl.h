// SPDX-License-Identifier: Apache-2.0
// Executor layer: runtime, contexts, dispatch of ops, steps.
//
// E1: the events of an op, in order: outputs and scratch are placed; the kernel is enqueued;
//     scratch and moved operands are released.
//
// E2: the first error of a context sticks; until it is cleared ops return NULL and consume what
//     was moved.
//
// E3: a value that a plan places overlaps nothing that is not dead: planned deaths are checked,
//     and what has outlived its own is kept clear of.
//
// E4: a replayed op allocates nothing on the host and makes no system call.
//
// This header: the structs.
#ifndef BERTH_EXEC_EXEC_IMPL_H
#define BERTH_EXEC_EXEC_IMPL_H

#include "base/address_map.h"
#include "base/options.h"
#include "base/thread.h"
#include "berth/memory.h"
#include "berth/op_register.h"
#include "berth/ops.h"
#include "berth/step.h"
#include "health/compactor.h"
#include "health/monitor.h"
#include "memory/arena.h"
#include "memory/ladder.h"
#include "memory/page_store.h"
#include "memory/pinned.h"
#include "memory/pool.h"
#include "memory/use_window.h"
#include "ops/op_table.h"
#include "plan/improver.h"
#include "plan/plan_store.h"
#include "plan/step_model.h"
#include "tensor/tensor_impl.h"

/// Kinds of trace events beyond the ops.
enum {
    BERTH_EVENT_ALLOC = BERTH_OP_COUNT, ///< an allocation without an op
    BERTH_EVENT_STEP,                   ///< the begin of a nested step
    BERTH_EVENT_REGISTERED,             ///< the first registered op; the others follow
};

typedef enum berth_run_mode {
    BERTH_RUN_MODE_RECORD,    ///< values come from the pool, events are written down
    BERTH_RUN_MODE_REPLAY,    ///< values are placed as planned
    BERTH_RUN_MODE_UNTRACKED, ///< too long or no host memory: the pool, nothing is written down
} berth_run_mode;

/// A kind of step: its model, and the names of its bindings as the first run declared them.
typedef struct berth_step_entry {
    struct berth_step_entry* next;
    berth_step_model* model;
    uint32_t tag; ///< its number in the runtime: identifies it in a parent's trace
    size_t input_count;
    size_t integer_count;
    size_t binding_count;
    char** input_names;   ///< [input_count]
    int32_t* input_ranks; ///< [input_count]
    char** binding_names; ///< [binding_count]; the last integer_count are the integers' names
} berth_step_entry;

BERTH_VEC_DEFINE(berth_binding_vec, berth_binding);
BERTH_VEC_DEFINE(berth_step_name_vec, char*);

/// Memory that lives within one event: scratch, or the frame of a nested step.
typedef struct berth_temporary {
    unsigned char* data;
    uint64_t size_bytes;
    uint64_t rounded_bytes;
    struct berth_run* run; ///< that counts it; NULL: none
    bool is_from_pool;     ///< `block` is to be given back
    bool is_scratch;       ///< else it is a frame
    berth_block block;
} berth_temporary;

/// One open step.
typedef struct berth_run {
    berth_ledger ledger;
    const berth_host* host;
    berth_run_mode mode;
    bool exited;         ///< left its trace
    bool switched;       ///< changed from one known path to another
    bool missed;         ///< a value was not placed as planned
    bool late;           ///< a value outlived its planned death
    bool failed;         ///< an op failed inside
    bool frame_is_inner; ///< the frame lies in the parent's
    uint32_t late_since; ///< the event before which that was first seen
    uint32_t next_event;
    uint32_t next_value;
    berth_miss miss;                  ///< why no plan was ready
    berth_branches branches;          ///< all that it may take
    uint32_t branch;                  ///< of them, the one that it is on
    const berth_placement* placement; ///< that branch's; NULL: recorded from the start
    const berth_path* path;
    const berth_place* places; ///< the placement's
    int64_t* log;              ///< in trace.dims, while replaying: where the next value's dims go
    const uint32_t* next_expired; ///< in path->expired: the first value not yet looked at
    berth_frame frame;
    berth_temporary frame_temporary; ///< the parent's, with frame_is_inner its place
    berth_reservation reservation;
    berth_trace trace; ///< while replaying only its dims are written, through `log`
    uint32_t slot_capacity;
    uint32_t max_events;
    uint64_t lower_bound_bytes;
    uint64_t pool_peak_bytes;
    uint64_t apart_bytes;        ///< of the open nested frame that lies neither in this one nor in
                                 ///< the pool
    uint64_t outside_peak_bytes; ///< most bytes, of pool and nested frame, outside of the frame
    uint64_t allocated_bytes;
    uint64_t unplaced_bytes; ///< of them, what no plan placed
    berth_step_entry* entry;
    berth_binding_vec bindings;
    struct berth_run* parent;
    uint32_t depth;          ///< runs that it is within
    struct berth_run* child; ///< kept for the next nested step
} berth_run;

/// An op of the user's. Lives as long as its runtime.
struct berth_op {
    berth_op_desc desc; ///< `name` is ours
    uint32_t id;        ///< beyond the built-in ones
    berth_runtime* runtime;
    struct berth_op* next;
};

/// The thread of exec/decay.h. Guarded by the runtime's lock.
typedef struct berth_decay {
    berth_cond wake;        ///< the thread is to end
    berth_cond visit_ended; ///< a context is not visited any more
    bool has_wake;
    bool has_visit_ended;
    berth_thread thread;
    bool was_tried; ///< to start it
    bool has_thread;
    bool is_ending;
    uint32_t visits; ///< under way
    uint32_t holds;  ///< of those who want none to begin
    bool was_held;   ///< the pass under way has left contexts out
} berth_decay;

/// Buckets set for a step that has not been run (exec/bucket_settings.h).
typedef struct berth_bucket_setting berth_bucket_setting;

struct berth_runtime {
    _Atomic uint32_t refs; ///< the user's, and one for each context
    uint32_t fork_generation;
    berth_host* host;
    berth_device* device;
    berth_store* store;
    berth_pinned* pinned;
    berth_improver* improver; ///< NULL: plans stay as made
    berth_mode mode;
    berth_keep keep;
    uint64_t keep_bytes;
    uint64_t context_quota_bytes; ///< of a new context
    uint64_t context_share_bytes;
    uint64_t decay_ns; ///< UINT64_MAX: never
    berth_poison poison;
    bool batch_invariant;
    uint64_t frag_horizon_takes;
    berth_trigger_config trigger;
    berth_audit* audit; ///< NULL: nobody notes what is taken
    uint64_t history_events;
    bool reports_leaks;
    bool guards;             ///< BERTH_GUARD
    bool needs_huge_reserve; ///< BERTH_HUGE=hugetlb
    bool is_strict;
    struct berth_runtime* next_reported; ///< of those that report leaks
    berth_compact_mode compact_mode;
    berth_compact_budget compact_slice;
    berth_plan_policy policy;
    berth_pool_bypass bypass;
    berth_plan_store plans; ///< without BERTH_PLAN_CACHE_FILE a zeroed struct
    berth_event_names event_names;
    berth_mutex lock; ///< guards what follows
    bool has_lock;
    berth_step_entry* first_step;
    berth_step_entry* last_step;
    size_t step_count;
    berth_step_name_vec step_names; ///< by tag; ours. Also of steps that are only known from files
    berth_bucket_setting* first_setting;
    berth_op* first_op; ///< the latest
    uint32_t op_count;
    berth_context* first_context;
    berth_decay decay;
    berth_compact_stats compact_stats; ///< of all contexts
    char buckets[BERTH_OPTION_TEXT_BYTES];
    char trace_path[BERTH_OPTION_TEXT_BYTES]; ///< of BERTH_TRACE_FILE; "-": none
    berth_out_of_memory_callback on_out_of_memory;
    void* on_out_of_memory_self;
    berth_alarm_callback on_alarm;
    void* on_alarm_self;
    char* configuration;       ///< for the snapshot; ours. NULL: none is wanted
    _Atomic bool has_snapshot; ///< it was written, or tried to
    char snapshot_path[BERTH_OPTION_TEXT_BYTES];
};

struct berth_context {
    berth_home home; ///< first: a home's end is its context's
    berth_runtime* runtime;
    berth_tenant tenant;       ///< the store's books of it
    struct berth_op_state* op; ///< the innermost op under way, NULL between ops
    berth_run* run;            ///< the innermost open step
    berth_run* first_run;      ///< kept for the next step
    berth_monitor* monitor;    ///< of the pool; NULL with BERTH_MODE=system
    berth_step_entry* recent_step;
    uint64_t extra_bytes;               ///< declared for the next step
    berth_compactor compactor;          ///< of the pool
    berth_compact_stats compacted;      ///< what it has done; guarded by the runtime's lock
    berth_reclaimer room_maker;         ///< the compactor's place on the ladder
    berth_reclaimer patient_room_maker; ///< the same after the stream's work
    berth_reclaimer release_place;      ///< on the ladder, for pending releases
    struct berth_guest* first_guest;    ///< who else has memory in it (exec/guest.h)
    uint64_t seen_refusals;             ///< by the store, that are known of
    bool wants_upkeep;                  ///< before the next op
    uint64_t pass_bytes;                ///< emptied by compaction since it was wanted
    berth_address_map plain_bytes;      ///< of berth_alloc(), out now
    berth_use_window frame_use;         ///< bytes of the arena
    berth_use_window pool_use;          ///< bytes in the pool's blocks and slabs
    uint64_t aged_epoch;                ///< in which a step's end gave memory back
    uint64_t quiet_takes;               ///< of the pool, when its memory was aged last
    uint64_t quiet_blocks;              ///< out at that time
    bool is_visited;                    ///< guarded by the runtime's lock: does not end meanwhile
    berth_context* previous;            ///< the runtime's list
    berth_context* next;
    berth_status error;
    char error_text[1536];
};

/// The context whose first member `home` is.
static inline berth_context* berth_home_context(berth_home* home) {
    return (berth_context*)(void*)home;
}

/// Adds a reference: a context keeps its runtime until its last tensor is gone.
void berth_runtime_retain(berth_runtime* runtime);
/// Gives a reference of berth_runtime_retain back.
void berth_runtime_drop(berth_runtime* runtime);

/// Frees the registered ops.
void berth_runtime_destroy_ops(berth_runtime* runtime);

/// Makes BERTH_MODE=system take storage from `bypass` instead of libc: for benchmarks of
/// allocators. Copied; before the first context.
void berth_runtime_set_bypass(berth_runtime* runtime, const berth_pool_bypass* bypass);

/// Keeps the first error. `where` is the op's or the call's name; `call` (may be NULL) adds the
/// operands' shapes; the reason is the thread's detail text. Returns `status`. Open steps are
/// marked failed and leave their traces.
berth_status berth_context_fail(berth_context* context,
                                berth_status status,
                                const char* where,
                                const berth_op_call* call);

/// Gives back the references that berth_move() handed over with `operands` [count], each tensor's
/// at most as often as it has references. Under the context's lock.
void berth_context_drop_moved(berth_context* context, berth_tensor* const* operands, size_t count);
/// The same without the lock.
void berth_context_consume_moved(berth_context* context,
                                 berth_tensor* const* operands,
                                 size_t count);

/// Runs op `op` on operands that may be tagged by berth_move(). The one way to run a kernel.
/// `params` [params_bytes] may be NULL.
berth_tensor* berth_dispatch(berth_context* context,
                             berth_op_id op,
                             berth_tensor* const* operands,
                             uint32_t operand_count,
                             const void* params,
                             size_t params_bytes);

/// Gives the operands of the ops under way one reference more, until each op's end: what the
/// program's own code releases meanwhile does not end under an op.
void berth_dispatch_keep_operands(berth_context* context);

/// As berth_dispatch, for callers that hold the context's lock.
berth_tensor* berth_dispatch_locked(berth_context* context,
                                    berth_op_id op,
                                    berth_tensor* const* operands,
                                    uint32_t operand_count,
                                    const void* params,
                                    size_t params_bytes);

/// As berth_dispatch, for ops with several outputs: the first `result_count` of them, in `results`;
/// all NULL if it fails.
void berth_dispatch_many(berth_context* context,
                         berth_op_id op,
                         berth_tensor* const* operands,
                         uint32_t operand_count,
                         const void* params,
                         size_t params_bytes,
                         berth_tensor** results,
                         uint32_t result_count);

/// Copies `count` items (elements, or blocks of a quantised type) of `tensor` to `buffer`, from the
/// row-major number `first` on; waits for them. All of them exist.
/// Errors: as of berth_tensor_read.
BERTH_NODISCARD berth_status berth_tensor_read_span(berth_tensor* tensor,
                                                    int64_t first,
                                                    int64_t count,
                                                    void* buffer);

/// The tensor behind a handle, without berth_move()'s tag.
static inline berth_tensor* berth_untag(const berth_tensor* operand) {
    return (berth_tensor*)((uintptr_t)operand & ~(uintptr_t)1);
}
/// True if the handle was made by berth_move().
static inline bool berth_is_moved(const berth_tensor* operand) {
    return ((uintptr_t)operand & 1u) != 0;
}

/// What a call that is no op asks of its tensor first: there, not handed over, of this process.
/// Errors: BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED.
BERTH_NODISCARD berth_status berth_tensor_check(const berth_tensor* tensor);

#endif // BERTH_EXEC_EXEC_IMPL_H
