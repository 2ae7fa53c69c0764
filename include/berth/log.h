// SPDX-License-Identifier: Apache-2.0
// Where Berth's log lines go.
#ifndef BERTH_LOG_H
#define BERTH_LOG_H

#include "berth/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/// How much a log line matters. What is logged is everything up to the level that the option
/// BERTH_LOG names.
typedef enum berth_log_level {
    BERTH_LOG_OFF,   ///< as a setting: nothing is logged; no line has it
    BERTH_LOG_ERROR, ///< something is broken
    BERTH_LOG_WARN,  ///< something is not as the user may expect; the default setting
    BERTH_LOG_INFO,  ///< what was decided, rarely
    BERTH_LOG_DEBUG, ///< what was decided, often
} berth_log_level;

/// Receives a log line: `text` (at most 1023 bytes, without an end of line) is borrowed for the
/// call, `self` is what was given with the callback.
typedef void (*berth_log_callback)(void* self, berth_log_level level, const char* text);

/// Sends the process's log lines to `callback` instead of stderr or the file of BERTH_LOG, whose
/// level still applies. NULL sends them there again, which is the default.
///
/// Threads: any, for this call. The callback runs on the thread that logs, one call at a time in
///          the process. When this call returns, the callback before is not running and is not
///          called again, so that its `self` may go; only if it was that callback which made this
///          call, it still has to return.
///
/// The callback must not wait for a thread that is in a call of Berth, and must not call Berth but
/// for this function: locks of Berth may be held around it. A line that is logged on its thread
/// meanwhile is written to stderr or the file.
BERTH_API void berth_log_set_callback(berth_log_callback callback, void* self);

#ifdef __cplusplus
}
#endif

#endif // BERTH_LOG_H
