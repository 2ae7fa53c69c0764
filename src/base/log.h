// SPDX-License-Identifier: Apache-2.0
// Lines for people, on stderr, in a file, or handed to the user. Settings are the process's.
#ifndef BERTH_BASE_LOG_H
#define BERTH_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "berth/log.h"

/// Sets level and target from `text`: "level" or "level:file", the level being off, error, warn,
/// info or debug in any case; the file is appended to. Without a file lines go to stderr.
/// Errors: BERTH_ERR_INVALID_ARGUMENT (no such level), BERTH_ERR_IO (the file cannot be opened);
///         then the settings stay.
BERTH_NODISCARD berth_status berth_log_configure(const char* text);

/// True if lines of `level` are logged.
bool berth_log_enabled(berth_log_level level);

/// Writes one line "berth: level: text" (cut at about 1000 bytes) in one piece, or hands the text
/// to the user's callback. Keeps errno.
void berth_log_line(berth_log_level level, const char* format, ...) BERTH_PRINTF(2, 3);

/// As berth_log_line, but only the first time that the process reaches this place in the code.
#define berth_log_once(level, ...)                                                                 \
    do {                                                                                           \
        static atomic_flag berth_logged_ = ATOMIC_FLAG_INIT;                                       \
        if (!atomic_flag_test_and_set(&berth_logged_)) berth_log_line(level, __VA_ARGS__);         \
    } while (0)

/// For a child after fork: the thread that was writing a line, if one was, is not there any more.
void berth_log_forget_writer(void);

#endif // BERTH_BASE_LOG_H
