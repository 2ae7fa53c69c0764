// SPDX-License-Identifier: Apache-2.0
// Threads that block signals, mutexes, condition variables, semaphores, and the fork generation.
#ifndef BERTH_BASE_THREAD_H
#define BERTH_BASE_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include "berth/status.h"

/// A lock that its holder must not take again.
typedef struct berth_mutex {
    pthread_mutex_t handle;
} berth_mutex;

/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_mutex_init(berth_mutex* mutex);
/// Nobody holds it.
void berth_mutex_fini(berth_mutex* mutex);
void berth_mutex_lock(berth_mutex* mutex);
/// False if somebody holds it; never blocks.
bool berth_mutex_try_lock(berth_mutex* mutex);
void berth_mutex_unlock(berth_mutex* mutex);

/// A condition that threads wait for under a mutex.
typedef struct berth_cond {
    pthread_cond_t handle;
} berth_cond;

/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_cond_init(berth_cond* cond);
/// Nobody waits for it.
void berth_cond_fini(berth_cond* cond);
/// Lets go of `mutex`, which the caller holds, while it waits. May return without a signal.
void berth_cond_wait(berth_cond* cond, berth_mutex* mutex);
/// The same for `timeout_ns` at most; false once they are over.
bool berth_cond_wait_for(berth_cond* cond, berth_mutex* mutex, uint64_t timeout_ns);
/// Wakes one thread that waits, or all of them.
void berth_cond_signal(berth_cond* cond);
void berth_cond_broadcast(berth_cond* cond);

/// A count of posts that threads wait for: who posts never waits for who waits.
typedef struct berth_semaphore {
    sem_t handle;
} berth_semaphore;

/// Starts at 0.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_semaphore_init(berth_semaphore* semaphore);
/// Nobody waits for it.
void berth_semaphore_fini(berth_semaphore* semaphore);
void berth_semaphore_post(berth_semaphore* semaphore);
/// Takes one post, waiting for it.
void berth_semaphore_wait(berth_semaphore* semaphore);

/// A thread that has been started and not joined.
typedef struct berth_thread {
    pthread_t handle;
} berth_thread;

/// Starts `body(argument)` on a thread with all signals blocked and named `name` (15 characters).
/// Errors: BERTH_ERR_DEVICE if the system has no thread; nothing was started.
BERTH_NODISCARD berth_status berth_thread_start(berth_thread* thread,
                                                const char* name,
                                                void (*body)(void*),
                                                void* argument);
/// Waits for the thread's end.
void berth_thread_join(berth_thread* thread);
/// Lets every other thread of the system go before the calling one, for good.
void berth_thread_stand_back(void);

/// Counts the forks between the process that first asked and this one; a runtime remembers the
/// value at its creation and is the parent's when it differs. Reading it is one plain load.
extern volatile uint32_t berth_fork_generation;
/// Makes berth_fork_generation count; any number of times, from any thread.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_fork_watch(void);
/// BERTH_OK in the process whose generation is `generation`; BERTH_ERR_FORKED in its children.
BERTH_NODISCARD berth_status berth_fork_check(uint32_t generation);

#endif // BERTH_BASE_THREAD_H
