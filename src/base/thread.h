// SPDX-License-Identifier: Apache-2.0
// Threads that block signals, mutexes, condition variables, and the fork generation.
#ifndef BERTH_BASE_THREAD_H
#define BERTH_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "berth/status.h"

typedef struct berth_mutex {
    pthread_mutex_t handle;
} berth_mutex;
berth_status berth_mutex_init(berth_mutex* mutex);
void berth_mutex_fini(berth_mutex* mutex);
void berth_mutex_lock(berth_mutex* mutex);
bool berth_mutex_try_lock(berth_mutex* mutex);
void berth_mutex_unlock(berth_mutex* mutex);

typedef struct berth_cond {
    pthread_cond_t handle;
} berth_cond;
berth_status berth_cond_init(berth_cond* cond);
void berth_cond_fini(berth_cond* cond);
void berth_cond_wait(berth_cond* cond, berth_mutex* mutex);
void berth_cond_signal(berth_cond* cond);
void berth_cond_broadcast(berth_cond* cond);

typedef struct berth_thread {
    pthread_t handle;
} berth_thread;
/// Starts `body(argument)` on a thread with all signals blocked and named `name` (15 characters).
berth_status berth_thread_start(berth_thread* thread,
                                const char* name,
                                void (*body)(void*),
                                void* argument);
void berth_thread_join(berth_thread* thread);

/// Counts the forks between the process that first asked and this one; a runtime remembers the
/// value at its creation and is the parent's when it differs. Reading it is one plain load.
extern volatile uint32_t berth_fork_generation;
/// Makes berth_fork_generation count; any number of times, from any thread.
berth_status berth_fork_watch(void);

#endif // BERTH_BASE_THREAD_H
