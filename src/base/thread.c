// SPDX-License-Identifier: Apache-2.0
// POSIX threads behind the names of thread.h.
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"

#define NS_A_SECOND UINT64_C(1000000000)

berth_status berth_mutex_init(berth_mutex* mutex) {
    const int error = pthread_mutex_init(&mutex->handle, NULL);
    if (error == 0) return BERTH_OK;
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no mutex: %s", strerror(error));
}

void berth_mutex_fini(berth_mutex* mutex) { (void)pthread_mutex_destroy(&mutex->handle); }

void berth_mutex_lock(berth_mutex* mutex) {
    const int error = pthread_mutex_lock(&mutex->handle);
    BERTH_CHECK(2, error == 0);
}

bool berth_mutex_try_lock(berth_mutex* mutex) { return pthread_mutex_trylock(&mutex->handle) == 0; }

void berth_mutex_unlock(berth_mutex* mutex) {
    const int error = pthread_mutex_unlock(&mutex->handle);
    BERTH_CHECK(2, error == 0);
}

berth_status berth_cond_init(berth_cond* cond) {
    pthread_condattr_t attributes;
    int error = pthread_condattr_init(&attributes);
    if (error == 0) {
        // waits with a timeout are not to follow changes of the calendar
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        error = pthread_cond_init(&cond->handle, &attributes);
        (void)pthread_condattr_destroy(&attributes);
    }
    if (error == 0) return BERTH_OK;
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no condition variable: %s", strerror(error));
}

void berth_cond_fini(berth_cond* cond) { (void)pthread_cond_destroy(&cond->handle); }

void berth_cond_wait(berth_cond* cond, berth_mutex* mutex) {
    const int error = pthread_cond_wait(&cond->handle, &mutex->handle);
    BERTH_CHECK(2, error == 0);
}

bool berth_cond_wait_for(berth_cond* cond, berth_mutex* mutex, uint64_t timeout_ns) {
    struct timespec end;
    (void)clock_gettime(CLOCK_MONOTONIC, &end); // cannot fail for this clock
    const uint64_t ns = (uint64_t)end.tv_nsec + timeout_ns % NS_A_SECOND;
    end.tv_sec += (time_t)(timeout_ns / NS_A_SECOND + ns / NS_A_SECOND);
    end.tv_nsec = (long)(ns % NS_A_SECOND);
    const int error = pthread_cond_timedwait(&cond->handle, &mutex->handle, &end);
    BERTH_CHECK(2, error == 0 || error == ETIMEDOUT);
    return error == 0;
}

void berth_cond_signal(berth_cond* cond) { (void)pthread_cond_signal(&cond->handle); }

void berth_cond_broadcast(berth_cond* cond) { (void)pthread_cond_broadcast(&cond->handle); }

berth_status berth_semaphore_init(berth_semaphore* semaphore) {
    if (sem_init(&semaphore->handle, 0, 0) == 0) return BERTH_OK;
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no semaphore: %s", strerror(errno));
}

void berth_semaphore_fini(berth_semaphore* semaphore) { (void)sem_destroy(&semaphore->handle); }

void berth_semaphore_post(berth_semaphore* semaphore) { (void)sem_post(&semaphore->handle); }

void berth_semaphore_wait(berth_semaphore* semaphore) {
    while (sem_wait(&semaphore->handle) != 0) { // interrupted by a signal
    }
}

// What a new thread reads before it lets its maker go on, so that it can live on the maker's stack.
typedef struct start {
    void (*body)(void*);
    void* argument;
    char name[16];
    berth_semaphore read;
} start;

static void* run(void* opaque) {
    start* given = opaque;
    void (*body)(void*) = given->body;
    void* argument = given->argument;
    (void)pthread_setname_np(pthread_self(), given->name);
    berth_semaphore_post(&given->read);
    body(argument);
    return NULL;
}

berth_status berth_thread_start(berth_thread* thread,
                                const char* name,
                                void (*body)(void*),
                                void* argument) {
    start given = {.body = body, .argument = argument};
    (void)snprintf(given.name, sizeof given.name, "%s", name);
    if (berth_semaphore_init(&given.read) != BERTH_OK)
        return berth_fail_prefix(BERTH_ERR_DEVICE, "thread %s cannot be started", name);

    // The thread inherits the mask, so no signal can reach it before it has one.
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    const int error = pthread_create(&thread->handle, NULL, run, &given);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);

    if (error == 0) berth_semaphore_wait(&given.read);
    berth_semaphore_fini(&given.read);
    if (error == 0) return BERTH_OK;
    return berth_fail(BERTH_ERR_DEVICE, "thread %s cannot be started: %s", name, strerror(error));
}

void berth_thread_join(berth_thread* thread) {
    const int error = pthread_join(thread->handle, NULL);
    BERTH_CHECK(2, error == 0);
}

void berth_thread_stand_back(void) {
    const struct sched_param none = {.sched_priority = 0};
    if (pthread_setschedparam(pthread_self(), SCHED_IDLE, &none) == 0) return;
    // where that policy is not to be had, the lowest share of time is next; it is each thread's own
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
}

volatile uint32_t berth_fork_generation;

static void enter_child(void) {
    berth_fork_generation = berth_fork_generation + 1;
    berth_log_forget_writer();
}

berth_status berth_fork_watch(void) {
    static atomic_bool watching;
    if (atomic_exchange(&watching, true)) return BERTH_OK;
    const int error = pthread_atfork(NULL, NULL, enter_child);
    if (error == 0) return BERTH_OK;
    atomic_store(&watching, false);
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "forks cannot be watched: %s", strerror(error));
}

berth_status berth_fork_check(uint32_t generation) {
    if (generation == berth_fork_generation) return BERTH_OK;
    return berth_fail(BERTH_ERR_FORKED, "%s", berth_status_text(BERTH_ERR_FORKED));
}
