// SPDX-License-Identifier: Apache-2.0
// Finding errors in the use of memory: what the debugging options show. All are off unless asked
// for when the runtime is created, and cost nothing then.
#ifndef BERTH_DEBUG_H
#define BERTH_DEBUG_H

#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// What BERTH_POISON=free (or both) fills memory with when its owner gives it up: tensors,
/// workspaces, bytes of berth_alloc(), and what a value leaves behind when it moves out of a step's
/// frame. As f32 it is -1.2e17, as an index far out of range.
#define BERTH_POISON_FREE_BYTE 0xDB
/// What BERTH_POISON=alloc (or both) fills memory with before its owner gets it. As f32 it is
/// -4.3e8.
#define BERTH_POISON_ALLOC_BYTE 0xCD

/// What BERTH_GUARD=1 puts behind each block; 64 of them where the block lies in a pool.
#define BERTH_GUARD_BYTE 0xBD

/// Writes which memory of the runtime's pools is out, as text: a line for each place in the program
/// that took some, with blocks, bytes, op, step and event, and how many takes ago the oldest of it
/// was taken; most bytes first. Tensors are named by the op that made them, bytes of berth_alloc()
/// and of berth_pinned_alloc() by these calls. What lies in the frames of open steps is not listed,
/// nor is memory that Berth does not own.
///
/// With BERTH_LEAKS=1 the same lines are logged as warnings when the program releases the runtime
/// while something is out, and at the end of the process.
/// `buffer`, `size` and `*out_needed` are as in berth_runtime_format_report().
/// Errors:  BERTH_ERR_STATE (none of BERTH_LEAKS, BERTH_HISTORY and BERTH_GUARD is on),
///          BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; then
///          `*out_needed` is 0.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_format_leaks(berth_runtime* runtime,
                                                                  char* buffer,
                                                                  size_t size,
                                                                  size_t* out_needed);

/// Writes the last BERTH_HISTORY takes and gives of the runtime's pools, of all contexts in their
/// order, to a trace file (docs/trace-format.md): what was out when the history begins, then each
/// take with its op, step, bytes and time, and each give. berth-plan and berth_trace_file_read()
/// read it. The file is replaced whole or not at all.
/// Errors:  BERTH_ERR_STATE (BERTH_HISTORY is 0), BERTH_ERR_INVALID_ARGUMENT (NULL), BERTH_ERR_IO,
///          BERTH_ERR_NOT_FOUND (no such folder), BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_FORKED. The
///          file is as it was then.
/// Threads: any.
/// Cost:    a line of text an event; no symbols are looked up.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_save_history(berth_runtime* runtime,
                                                                  const char* path);

#ifdef __cplusplus
}
#endif

#endif // BERTH_DEBUG_H
