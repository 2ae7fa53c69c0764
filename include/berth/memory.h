// SPDX-License-Identifier: Apache-2.0
// Memory without a tensor: plain bytes from a context's pool, and host memory that is locked for
// transfers.
#ifndef BERTH_MEMORY_H
#define BERTH_MEMORY_H

#include <stdbool.h>

#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Takes `bytes` bytes from the context's pool, aligned to 64, content undefined. They never move
/// and belong to no step: a step's plan neither holds nor counts them. 0 bytes give an address of
/// their own, too. On a device that the host cannot reach it is an address of that device. A tensor
/// over them is made with berth_tensor_from_memory().
/// Ownership: the caller's until berth_free(); what is still out when the context ends (after
///            its release, with its last tensor) is given back with it.
/// Errors:    NULL and the context's error, as an op: BERTH_ERR_OUT_OF_MEMORY,
///            BERTH_ERR_OVERFLOW, BERTH_ERR_DEVICE.
/// Cost:      that of a tensor's allocation and a look-up; on an asynchronous device it waits for
///            the context's work, since the bytes may have been in use.
BERTH_API void* berth_alloc(berth_context* context, uint64_t bytes);

/// Gives bytes of berth_alloc() on the same context back; accepts NULL. Work of this context that
/// was enqueued before may still use them, that of other contexts has been waited for.
/// Errors: any other pointer, one that was freed before among them, is left alone and becomes the
///         context's error (BERTH_ERR_INVALID_ARGUMENT).
BERTH_API void berth_free(berth_context* context, void* data);

/// What berth_idle() did.
typedef struct berth_idle_result {
    uint64_t moved_bytes;    ///< of tensors, copied to other places of the pool
    uint64_t emptied_bytes;  ///< of granules that nothing lies in any more
    uint64_t released_bytes; ///< given back to the system, as BERTH_KEEP wants it
    bool has_more;           ///< there is more to be done than the time allowed
} berth_idle_result;

/// Tells Berth that the program waits for something else: puts the context's memory in order for up
/// to `budget_us` microseconds. Finishes releases of other threads, moves tensors that lie
/// scattered (not with BERTH_COMPACT=off), gives back what BERTH_KEEP does not keep. Never needed;
/// what is done now is not done between ops later. `out_result` may be NULL.
/// Errors: BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; then `*out_result` is zero.
/// Cost:   the budget and at most one step more: one tensor moved, or one part of the memory given
///         back.
BERTH_API BERTH_NODISCARD berth_status berth_idle(berth_context* context,
                                                  uint64_t budget_us,
                                                  berth_idle_result* out_result);

/// A request for memory that is about to be refused.
typedef struct berth_shortage {
    berth_context* context; ///< whose it is; borrowed
    const char* call;       ///< the op or call that it is for; borrowed, for this call
    uint64_t wanted_bytes;  ///< of granules that were refused
    uint32_t attempt;       ///< 1 for the first call for this request, at most 16
} berth_shortage;

/// Makes room, and returns true to have the request made again, or false to have it refused.
/// `self` is what was set with the callback; `shortage` lives as long as the call.
typedef bool (*berth_out_of_memory_callback)(void* self, const berth_shortage* shortage);

/// Has `callback` (NULL: nobody) called, with `self`, when everything else has been tried to find
/// memory of the device for a context, before that is an error: for programs that keep what they
/// can do without. It runs in the thread whose call is short, and is called again while it returns
/// true and that does not help, at most 16 times a request. Requests that no release can make
/// possible are refused without it, and so are those made within it, those of BERTH_MODE=system
/// and those for the host's own memory.
///
/// The callback may release tensors of every context, free bytes of berth_alloc(), trim, and use
/// contexts that no other thread is using. What it releases of the operands of the op that is short
/// ends with the op, not before. `shortage->context` is in the middle of a call: all
/// other calls on it, and reads of its tensors' elements, are refused. Ops give NULL then, other
/// calls BERTH_ERR_STATE, berth_last_error() says why, and the context's own error stays as it is.
/// A call that another thread is in may go on after this has returned.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; nothing changed.
/// Threads: any, the callback among them.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_set_out_of_memory_callback(
    berth_runtime* runtime, berth_out_of_memory_callback callback, void* self);

/// Memory in use has reached the high watermark, or fallen to the low one after that.
typedef struct berth_memory_alarm {
    berth_runtime* runtime;   ///< whose memory it is; borrowed
    bool is_high;             ///< the high one
    uint64_t used_bytes;      ///< mapped or promised, when it was noticed
    uint64_t watermark_bytes; ///< BERTH_HIGH_WATERMARK or BERTH_LOW_WATERMARK
    uint64_t capacity_bytes;  ///< most that may be mapped
} berth_memory_alarm;

/// Hears of a crossing. `self` is what was set with the callback; `alarm` lives as long as the
/// call.
typedef void (*berth_alarm_callback)(void* self, const berth_memory_alarm* alarm);

/// Has `callback` (NULL: nobody) called, with `self`, when memory that is mapped for tensors and
/// frames or promised to steps, idle memory included, reaches BERTH_HIGH_WATERMARK, and when it has
/// fallen to BERTH_LOW_WATERMARK after that; each is logged as well, with or without a callback.
/// The two take turns, so that a use that goes up and down around one of them is told once. With
/// BERTH_HIGH_WATERMARK=off, the default, there are no alarms.
///
/// It runs in the thread whose call crossed, at the end of that call, with no lock held: it may
/// call everything, release tensors, trim, run ops. The call that it interrupts has been made, but
/// its result is not known yet: the context of that call must not be released, what was given to
/// the call stays as it is, and ops on the context belong to its open step. One callback runs at a
/// time: what crosses meanwhile, in other threads or in the callback itself, is told after it, once
/// for a use that has come and gone. A fall that comes from BERTH_DECAY_MS alone is told by the
/// program's next call.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; nothing changed.
/// Threads: any, the callback among them. A call that another thread is in may go on after this has
///          returned.
BERTH_API BERTH_NODISCARD berth_status
berth_runtime_set_alarm_callback(berth_runtime* runtime, berth_alarm_callback callback, void* self);

/// Takes `bytes` bytes of page-locked host memory, from and to which a device transfers without an
/// intermediate copy. Aligned to a page, rounded up to whole pages, content undefined; 0 bytes give
/// a page. All that a runtime hands out together is bounded by BERTH_PINNED and reported as
/// `pinned_bytes` in berth_memory_stats, apart from `mapped_bytes`.
/// Ownership: the caller's until berth_pinned_free(); the rest is given back when the runtime ends.
/// Errors:    BERTH_ERR_OUT_OF_MEMORY: over BERTH_PINNED, or over what the system lets this process
///            lock (RLIMIT_MEMLOCK); the text has the numbers. BERTH_ERR_INVALID_ARGUMENT,
///            BERTH_ERR_UNSUPPORTED (by the device), BERTH_ERR_FORKED. Then `*out_data` is NULL.
/// Threads:   any.
/// Cost:      system calls and a page fault a page: for buffers that are kept.
BERTH_API BERTH_NODISCARD berth_status berth_pinned_alloc(berth_runtime* runtime,
                                                          uint64_t bytes,
                                                          void** out_data);

/// Gives memory of berth_pinned_alloc() on the same runtime back; accepts NULL. Nothing uses it any
/// more. Any other pointer is left alone, with an error in the log.
/// Threads: any.
BERTH_API void berth_pinned_free(berth_runtime* runtime, void* data);

#ifdef __cplusplus
}
#endif

#endif // BERTH_MEMORY_H
