// SPDX-License-Identifier: Apache-2.0
// A server as a child of the program that asks it: started, watched, ended.
#ifndef BERTH_SAMPLES_SERVE_CLIENT_CHILD_H
#define BERTH_SAMPLES_SERVE_CLIENT_CHILD_H

#include <sys/types.h>

#include "llm_support.h"

/// A server that was started. All zero is none.
typedef struct client_child {
    pid_t pid;     ///< 0: none runs
    int output;    ///< what it prints can be read here
    char url[256]; ///< where it listens
} client_child;

/// Starts the program `words` [0], with `words` as its arguments, NULL at their end, and waits
/// until it has printed "listening on URL". It ends with the thread that started it at the latest.
/// Errors: BERTH_ERR_IO, also if it ends before or says nothing for `timeout_ms`. None runs then.
BERTH_NODISCARD berth_status client_child_start(const char* const* words,
                                                int timeout_ms,
                                                client_child* out_child,
                                                llm_error* error);

/// True while it runs.
bool client_child_is_alive(const client_child* child);

/// Asks it to end by SIGTERM and waits for at most `timeout_ms`; one that still runs is killed.
/// Errors: BERTH_ERR_IO unless it ended by itself with status 0. None runs in any case.
BERTH_NODISCARD berth_status client_child_end(client_child* child,
                                              int timeout_ms,
                                              llm_error* error);

/// Reads a number of kB from /proc/PID/status as bytes: "VmRSS" of memory that is resident, "VmHWM"
/// of the most there was. False: there is no such process.
bool client_process_bytes(pid_t pid, const char* name, uint64_t* out_bytes);

/// Lets VmHWM of a process begin anew. False: it is not ours.
bool client_process_forget_peak(pid_t pid);

#endif // BERTH_SAMPLES_SERVE_CLIENT_CHILD_H
