// SPDX-License-Identifier: Apache-2.0
// Threads, locks, forks, the clock and hashing.
#include "test.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"

typedef struct seen {
    sigset_t mask;
    char name[16];
} seen;

static void look_around(void* opaque) {
    seen* into = opaque;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &into->mask);
    (void)pthread_getname_np(pthread_self(), into->name, sizeof into->name);
}

static void a_thread_blocks_signals_and_has_a_name(void** state) {
    (void)state;
    seen found;
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "a-name-that-is-too-long", look_around, &found));
    berth_thread_join(&thread);
    assert_int_equal(sigismember(&found.mask, SIGTERM), 1);
    assert_int_equal(sigismember(&found.mask, SIGUSR1), 1);
    assert_string_equal(found.name, "a-name-that-is-");
    sigset_t own;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &own);
    assert_int_equal(sigismember(&own, SIGTERM), 0);
}

typedef struct turns {
    berth_mutex lock;
    berth_cond changed;
    int turn;
    int taken;
} turns;

static void answer_turns(void* opaque) {
    turns* t = opaque;
    berth_mutex_lock(&t->lock);
    while (t->taken < 100) {
        while (t->turn != 1)
            berth_cond_wait(&t->changed, &t->lock);
        t->taken++;
        t->turn = 0;
        berth_cond_broadcast(&t->changed);
    }
    berth_mutex_unlock(&t->lock);
}

static void a_condition_wakes_the_one_that_waits(void** state) {
    (void)state;
    turns t = {.turn = 0};
    assert_ok(berth_mutex_init(&t.lock));
    assert_ok(berth_cond_init(&t.changed));
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "turns", answer_turns, &t));
    for (int i = 0; i < 100; i++) {
        berth_mutex_lock(&t.lock);
        t.turn = 1;
        berth_cond_signal(&t.changed);
        while (t.turn != 0)
            berth_cond_wait(&t.changed, &t.lock);
        assert_int_equal(t.taken, i + 1);
        berth_mutex_unlock(&t.lock);
    }
    berth_thread_join(&thread);
    berth_cond_fini(&t.changed);
    berth_mutex_fini(&t.lock);
}

static void a_held_mutex_is_not_taken_by_trying(void** state) {
    (void)state;
    berth_mutex mutex;
    assert_ok(berth_mutex_init(&mutex));
    assert_true(berth_mutex_try_lock(&mutex));
    assert_false(berth_mutex_try_lock(&mutex));
    berth_mutex_unlock(&mutex);
    assert_true(berth_mutex_try_lock(&mutex));
    berth_mutex_unlock(&mutex);
    berth_mutex_fini(&mutex);
}

typedef struct relay {
    berth_semaphore there;
    berth_semaphore back;
    int carried;
} relay;

static void carry(void* opaque) {
    relay* r = opaque;
    for (int i = 0; i < 100; i++) {
        berth_semaphore_wait(&r->there);
        r->carried++;
        berth_semaphore_post(&r->back);
    }
}

static void a_post_lets_one_wait_pass_and_orders_memory(void** state) {
    (void)state;
    relay r = {.carried = 0};
    assert_ok(berth_semaphore_init(&r.there));
    assert_ok(berth_semaphore_init(&r.back));
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "relay", carry, &r));
    for (int i = 0; i < 100; i++) {
        assert_int_equal(r.carried, i);
        berth_semaphore_post(&r.there);
        berth_semaphore_wait(&r.back);
    }
    berth_thread_join(&thread);
    berth_semaphore_fini(&r.there);
    berth_semaphore_fini(&r.back);
}

static void step_aside(void* opaque) {
    berth_thread_stand_back();
    *(bool*)opaque =
        sched_getscheduler(0) == SCHED_IDLE || getpriority(PRIO_PROCESS, (id_t)gettid()) == 19;
}

static void a_thread_that_stands_back_does_so_alone(void** state) {
    (void)state;
    const int before = sched_getscheduler(0);
    bool stands_back = false;
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "aside", step_aside, &stands_back));
    berth_thread_join(&thread);
    assert_true(stands_back);
    assert_int_equal(sched_getscheduler(0), before);
}

static void a_fork_changes_the_generation_of_the_child_only(void** state) {
    (void)state;
    assert_ok(berth_fork_watch());
    assert_ok(berth_fork_watch());
    const uint32_t before = berth_fork_generation;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(berth_fork_generation == before + 1 ? 0 : 1);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    assert_int_equal(berth_fork_generation, before);
}

static uint64_t settable(void* self) { return *(uint64_t*)self; }

static void the_clock_can_be_set(void** state) {
    (void)state;
    uint64_t time_ns = 42;
    const berth_clock_source source = {settable, &time_ns};
    berth_clock_set_source(&source);
    assert_int_equal(berth_clock_now_ns(), 42);
    time_ns = 43;
    assert_int_equal(berth_clock_now_ns(), 43);
    berth_clock_set_source(NULL);
    const uint64_t first = berth_clock_now_ns();
    assert_true(first > 1000);
    assert_true(berth_clock_now_ns() >= first);
}

static void a_hash_depends_on_bytes_length_and_seed(void** state) {
    (void)state;
    // Values of the published algorithm: they may be written to files.
    assert_true(berth_hash64(NULL, 0, 0) == 0x2D06800538D394C2u);
    assert_true(berth_hash64("", 0, 0) == berth_hash64(NULL, 0, 0));
    assert_true(berth_hash64("berth", 5, 0) != berth_hash64("berth", 5, 1));
    assert_true(berth_hash64("berth", 5, 0) != berth_hash64("berth", 4, 0));
    assert_true(berth_hash64("berth", 5, 0) != berth_hash64("birth", 5, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_blocks_signals_and_has_a_name),
        cmocka_unit_test(a_condition_wakes_the_one_that_waits),
        cmocka_unit_test(a_held_mutex_is_not_taken_by_trying),
        cmocka_unit_test(a_post_lets_one_wait_pass_and_orders_memory),
        cmocka_unit_test(a_thread_that_stands_back_does_so_alone),
        cmocka_unit_test(a_fork_changes_the_generation_of_the_child_only),
        cmocka_unit_test(the_clock_can_be_set),
        cmocka_unit_test(a_hash_depends_on_bytes_length_and_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
