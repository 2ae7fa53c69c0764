// SPDX-License-Identifier: Apache-2.0
// Runtime and context: where everything begins.
#ifndef BERTH_RUNTIME_H
#define BERTH_RUNTIME_H

#include "berth/config.h"
#include "berth/host.h"
#include "berth/op.h"
#include "berth/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Process-wide object: a device, its page store, the plans, options and statistics. Thread-safe.
typedef struct berth_runtime berth_runtime;

/// One stream of eager ops on the runtime's device. Used by one thread at a time.
typedef struct berth_context berth_context;

/// What can be chosen in code. Zeroed but for struct_size it means: all defaults.
typedef struct berth_runtime_options {
    size_t struct_size;               ///< sizeof(berth_runtime_options)
    const berth_host_allocator* host; ///< for Berth's own metadata; NULL: the built-in one; copied
    const berth_option_setting* settings; ///< options by name; they win over the environment
    size_t setting_count;                 ///< length of settings
} berth_runtime_options;

/// Creates a runtime. Options are read once: defaults, BERTH_CONF, the variables, then `options`
/// (NULL: all defaults).
/// Ownership: the caller has one reference; berth_runtime_release().
/// Errors:    BERTH_ERR_INVALID_ARGUMENT naming the option, its value and the accepted range;
///            BERTH_ERR_OUT_OF_MEMORY; BERTH_ERR_DEVICE; BERTH_ERR_IO if the log file cannot be
///            opened. Then `*out_runtime` is NULL, and the log goes where it went.
/// Threads:   any, while nobody changes the environment.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_create(const berth_runtime_options* options,
                                                            berth_runtime** out_runtime);

/// Gives the caller's reference back; accepts NULL. The runtime ends when its contexts and tensors
/// have.
BERTH_API void berth_runtime_release(berth_runtime* runtime);

/// The kind of the runtime's device; BERTH_DEVICE_KIND_COUNT for NULL.
/// Threads: any.
BERTH_API berth_device_kind berth_runtime_device_kind(const berth_runtime* runtime);

/// Writes the memory statistics as of now.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; then `*out_stats` is zero.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_query_memory(berth_runtime* runtime,
                                                                  berth_memory_stats* out_stats);

/// Number of kinds of step (names) seen so far; 0 in a forked child.
/// Threads: any.
BERTH_API size_t berth_runtime_query_step_count(berth_runtime* runtime);

/// Writes name and counters of the `index`-th kind of step, in order of first appearance. The name
/// lives as long as the runtime.
/// Errors:  BERTH_ERR_NOT_FOUND if there are not so many; then the outputs are NULL and zero.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_query_step(berth_runtime* runtime,
                                                                size_t index,
                                                                const char** out_name,
                                                                berth_step_counters* out_counters);

/// Writes a report of steps and memory as text.
///
/// `buffer` [size] receives the text, cut to fit and ended by a zero byte; it may be NULL if size
/// is 0. `*out_needed` (may be NULL) is the length of the whole text without the zero byte.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; then `*out_needed` is 0.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_format_report(berth_runtime* runtime,
                                                                   char* buffer,
                                                                   size_t size,
                                                                   size_t* out_needed);

/// Writes what is learned and planned to the file that BERTH_PLAN_CACHE_FILE names, merged with
/// what other processes have put there: as the end of the runtime does, for programs that do not
/// end or may be killed. The file is replaced whole or not at all. A forked child writes nothing.
/// Errors:  BERTH_ERR_STATE (no file is named, or another process keeps it locked),
///          BERTH_ERR_CORRUPT (what is there is no plan file, and stays), BERTH_ERR_IO,
///          BERTH_ERR_NOT_FOUND (no such folder), BERTH_ERR_OUT_OF_MEMORY,
///          BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED. The file is as it was then, unless the
///          folder alone could not be made safe.
/// Threads: any.
/// Cost:    a few milliseconds for megabytes of plans; steps of other threads go on, but for the
///          one whose plans are being collected.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_save_plans(berth_runtime* runtime);

/// Writes every path of every step that is known to a trace file (docs/trace-format.md): its
/// events, its allocations, and their sizes in terms of the step's symbols. berth-plan and
/// berth_trace_file_read() read it. The file is replaced whole or not at all.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT (NULL), BERTH_ERR_IO, BERTH_ERR_NOT_FOUND (no such folder),
///          BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_FORKED. The file is as it was then.
/// Threads: any.
BERTH_API BERTH_NODISCARD berth_status berth_runtime_save_traces(berth_runtime* runtime,
                                                                 const char* path);

/// Gives idle memory of all contexts back to the system, but for `keep_bytes` of each context's
/// pool and as much of its frames. `out_result` (may be NULL) receives how much went back, and why
/// the rest stayed. Does not wait for work that is still running, only for the thread in which idle
/// memory ages.
/// Errors:  BERTH_ERR_INVALID_ARGUMENT, BERTH_ERR_FORKED; then `*out_result` is zero.
/// Threads: any; contexts may be in use meanwhile.
BERTH_API BERTH_NODISCARD berth_status berth_trim(berth_runtime* runtime,
                                                  uint64_t keep_bytes,
                                                  berth_trim_result* out_result);

/// Creates a context on the runtime's device.
/// Ownership: the caller has one reference; berth_context_release(). Tensors keep their context's
/// memory alive.
/// Errors:    BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_DEVICE; then `*out_context` is NULL.
/// Threads:   any.
BERTH_API BERTH_NODISCARD berth_status berth_context_create(berth_runtime* runtime,
                                                            berth_context** out_context);

/// Gives the caller's reference back and ends the context; accepts NULL. Open steps are discarded.
/// Tensors made by it stay valid: they can be read, released, and used by other contexts.
BERTH_API void berth_context_release(berth_context* context);

/// The runtime of `context`; borrowed.
BERTH_API berth_runtime* berth_context_runtime(const berth_context* context);

/// The first error of an op (or of a refused step) since the last clear: BERTH_OK if there is none.
BERTH_API berth_status berth_context_error(const berth_context* context);

/// A sentence with the op's name, the shapes and the reason; "" without an error. Valid until the
/// error is cleared.
BERTH_API const char* berth_context_error_text(const berth_context* context);

/// Forgets the error: ops run again.
BERTH_API void berth_context_clear_error(berth_context* context);

/// Blocks until everything enqueued so far has been computed.
/// Errors: BERTH_ERR_DEVICE if work failed, BERTH_ERR_FORKED.
BERTH_API BERTH_NODISCARD berth_status berth_context_synchronize(berth_context* context);

#ifdef __cplusplus
}
#endif

#endif // BERTH_RUNTIME_H
