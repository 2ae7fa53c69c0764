// SPDX-License-Identifier: Apache-2.0
// Log lines: composed on the stack, written by one call each.
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"

#define LINE_BYTES 1024

static const char* const level_names[] = {
    [BERTH_LOG_OFF] = "off",
    [BERTH_LOG_ERROR] = "error",
    [BERTH_LOG_WARN] = "warn",
    [BERTH_LOG_INFO] = "info",
    [BERTH_LOG_DEBUG] = "debug",
};
#define LEVEL_COUNT (sizeof level_names / sizeof level_names[0])

static atomic_int current_level = BERTH_LOG_WARN;
// Guards what follows: a file is not closed under a line that is being written to it.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int target = STDERR_FILENO;
static berth_log_callback current_callback;
static void* callback_self;
// This thread is in the callback, which is called under the lock.
static _Thread_local bool in_callback;

static void take_lock(void) {
    if (!in_callback) (void)pthread_mutex_lock(&lock);
}

static void give_lock(void) {
    if (!in_callback) (void)pthread_mutex_unlock(&lock);
}

static bool find_level(const char* text, size_t length, int* out_level) {
    for (size_t i = 0; i < LEVEL_COUNT; i++) {
        if (strlen(level_names[i]) == length && strncasecmp(level_names[i], text, length) == 0) {
            *out_level = (int)i;
            return true;
        }
    }
    return false;
}

berth_status berth_log_configure(const char* text) {
    const size_t length = strcspn(text, ":");
    int level;
    if (!find_level(text, length, &level))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "'%s' is no log setting; use off, error, warn, info or debug, "
                          "optionally followed by :file",
                          text);
    int opened = STDERR_FILENO;
    if (text[length] == ':') {
        const char* path = text + length + 1;
        opened = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (opened < 0)
            return berth_fail(
                BERTH_ERR_IO, "log file '%s' cannot be opened: %s", path, strerror(errno));
    }
    take_lock();
    const int replaced = target;
    target = opened;
    give_lock();
    if (replaced != STDERR_FILENO) (void)close(replaced);
    atomic_store(&current_level, level);
    return BERTH_OK;
}

bool berth_log_enabled(berth_log_level level) {
    return level != BERTH_LOG_OFF &&
           (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

static void write_all(int file, const char* text, size_t length) {
    while (length > 0) {
        const ssize_t written = write(file, text, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return; // a log that cannot be written is nobody's error
        text += written;
        length -= (size_t)written;
    }
}

static void hand_to_callback(berth_log_level level, const char* text) {
    in_callback = true;
    current_callback(callback_self, level, text);
    in_callback = false;
}

void berth_log_line(berth_log_level level, const char* format, ...) {
    if (!berth_log_enabled(level)) return;
    const int kept_errno = errno;
    char line[LINE_BYTES];
    const int start = snprintf(line, sizeof line, "berth: %s: ", level_names[level]);
    const size_t text_at = start < 0 ? 0 : (size_t)start;
    size_t length = text_at;
    va_list arguments;
    va_start(arguments, format);
    const int added = vsnprintf(line + length, sizeof line - length, format, arguments);
    va_end(arguments);
    if (added > 0) length += (size_t)added;
    if (length > sizeof line - 2) length = sizeof line - 2;
    line[length] = '\0';

    take_lock();
    if (current_callback != NULL && !in_callback) {
        hand_to_callback(level, line + text_at);
    } else {
        line[length] = '\n';
        write_all(target, line, length + 1);
    }
    give_lock();
    errno = kept_errno;
}

void berth_log_set_callback(berth_log_callback callback, void* self) {
    take_lock();
    current_callback = callback;
    callback_self = self;
    give_lock();
}

void berth_log_forget_writer(void) {
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&lock, &unlocked, sizeof lock);
}
