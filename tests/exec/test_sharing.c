// SPDX-License-Identifier: Apache-2.0
// Tensors that cross contexts and threads, and that outlive where they came from.
#include <pthread.h>

#include "exec/exec_kit.h"

enum { ROUNDS = 400, LENGTH = 64, THREADS = 4 };

/// A kit whose host allocator is watched, and a second context.
typedef struct pair {
    failing_host host;
    exec_kit kit;
    berth_context* a;
    berth_context* b;
} pair;

static int open_pair(void** state, const char* device) {
    static pair made;
    *state = &made;
    failing_host_init(&made.host);
    const berth_option_setting settings[] = {{"device", device}, {"threads", "1"}};
    if (exec_kit_open(&made.kit, &made.host.allocator, settings, 2) != BERTH_OK) return -1;
    made.a = made.kit.ctx;
    return berth_context_create(made.kit.runtime, &made.b) == BERTH_OK ? 0 : -1;
}

static int open_cpu_pair(void** state) { return open_pair(state, "cpu"); }
static int open_sim_pair(void** state) { return open_pair(state, exec_kit_sim()); }

/// Everything has gone back, whoever released it last.
static int close_pair(void** state) {
    pair* p = *state;
    berth_context_release(p->a);
    berth_context_release(p->b);
    berth_runtime_release(p->kit.runtime);
    return atomic_load(&p->host.live_blocks) == 0 && !atomic_load(&p->host.mismatch) ? 0 : -1;
}

/// What threads other than the test's find wrong is counted: an assertion would leave the thread.
static atomic_int wrongs;
static void check(bool condition) { atomic_fetch_add(&wrongs, condition ? 0 : 1); }

/// True if all `count` elements are `value`.
static bool holds(berth_tensor* x, float value) {
    float values[LENGTH];
    const int64_t count = x != NULL ? berth_tensor_count(x) : 0;
    if (count < 1 || count > LENGTH) return false;
    if (berth_tensor_read(x, values, (uint64_t)count * sizeof(float)) != BERTH_OK) return false;
    for (int64_t i = 0; i < count; ++i)
        if (values[i] != value) return false;
    return true;
}

static berth_tensor* make(berth_context* ctx, float value) {
    return berth_full(ctx, (double)value, BERTH_F32, 1, (int64_t[]){LENGTH});
}

typedef struct work {
    pthread_t thread;
    pair* p;
    void (*body)(struct work* self);
    uint32_t index;
    berth_tensor* tensor;
    berth_context* ctx;
} work;

static void* run_work(void* self) {
    work* w = self;
    w->body(w);
    return NULL;
}

static void start(work* w, pair* p, uint32_t index, void (*body)(work*)) {
    w->p = p;
    w->index = index;
    w->body = body;
    assert_int_equal(pthread_create(&w->thread, NULL, run_work, w), 0);
}

static void finish(work* w) { assert_int_equal(pthread_join(w->thread, NULL), 0); }

static void a_tensor_of_one_context_is_an_operand_in_another(void** state) {
    pair* p = *state;
    berth_tensor* x = make(p->a, 1);
    berth_tensor* y = berth_affine(p->b, x, 2, 0);
    assert_ptr_equal(berth_tensor_context(y), p->b);
    berth_tensor* z = berth_add(p->a, x, y);
    berth_tensor* view = berth_slice(p->b, z, 0, 0, 5, 1);
    berth_tensor* half = berth_affine(p->b, view, 0.5f, 0);
    assert_true(holds(y, 2) && holds(z, 3) && holds(view, 3) && holds(half, 1.5f));
    assert_context_ok(p->a);
    assert_context_ok(p->b);
    berth_release_all(x, y, z, view, half);
    assert_int_equal(p->a->home.live_objects, 0);
    assert_int_equal(p->b->home.live_objects, 0);
}

static void a_moved_tensor_of_another_context_is_read_and_consumed(void** state) {
    pair* p = *state;
    berth_tensor* x = make(p->a, 3);
    const void* place = exec_kit_place(x);
    berth_tensor* y = berth_neg(p->b, berth_move(x));
    assert_ptr_not_equal(exec_kit_place(y), place);
    assert_true(holds(y, -3));
    assert_int_equal(p->a->home.live_objects, 0);
    x = make(p->a, 3);
    berth_tensor* view = berth_reshape(p->b, berth_move(x), 2, (int64_t[]){2, LENGTH / 2});
    assert_int_equal(p->b->home.live_objects, 3); // y's pair, and the view
    assert_true(holds(view, 3));
    berth_release_all(y, view);
    assert_int_equal(p->a->home.live_objects, 0);
}

static void a_shared_storage_is_not_taken_in_place_any_more(void** state) {
    pair* p = *state;
    berth_tensor* x = make(p->a, 1);
    const void* place = exec_kit_place(x);
    berth_tensor* y = berth_neg(p->b, x);
    x = berth_affine(p->a, berth_move(x), 5, 0);
    assert_ptr_not_equal(exec_kit_place(x), place);
    assert_true(holds(y, -1) && holds(x, 5));
    berth_release_all(x, y);
}

/// One run of step "s" in context a; its value x escapes.
static berth_tensor* run_step(berth_context* ctx, int64_t length, berth_context* reader) {
    assert_ok(exec_kit_begin(ctx, "s", length));
    berth_tensor* x = make(ctx, (float)length);
    berth_tensor* big = berth_ones(ctx, BERTH_F32, 1, &length);
    berth_tensor* y = reader != NULL ? berth_affine(reader, x, 1, 1) : NULL;
    berth_release(big);
    assert_ok(berth_step_end(ctx));
    if (reader == NULL) return x;
    assert_true(holds(y, (float)length + 1));
    berth_release(y);
    return x;
}

static void a_survivor_of_a_frame_that_is_shared_is_held_where_it_is(void** state) {
    pair* p = *state;
    // it escapes only now and then, so that its place is in the frame
    for (int64_t n = 100; n < 160; n += 10) {
        assert_ok(exec_kit_begin(p->a, "s", n));
        berth_tensor* x = make(p->a, 1);
        berth_tensor* big = berth_ones(p->a, BERTH_F32, 1, &n);
        berth_release_all(x, big);
        assert_ok(berth_step_end(p->a));
    }
    berth_tensor* x = run_step(p->a, 200, p->b);
    assert_int_equal(x->storage->kind, BERTH_STORAGE_HELD);
    const void* place = exec_kit_place(x);
    for (int64_t n = 110; n < 300; n += 17) {
        berth_tensor* other = run_step(p->a, n, NULL);
        assert_true(holds(other, (float)n));
        berth_release(other);
    }
    assert_ptr_equal(exec_kit_place(x), place);
    assert_true(holds(x, 200));
    berth_release(x);
    assert_int_equal(p->a->home.overdue.count, 0);
    assert_true(exec_kit_counters(p->kit.runtime, "s").hits > 3);
}

static void tensors_outlive_their_context(void** state) {
    pair* p = *state;
    berth_tensor* x = make(p->a, 4);
    berth_tensor* view = berth_slice(p->b, x, 0, 0, 3, 1);
    berth_tensor* y = berth_affine(p->b, x, 1, 1);
    berth_context_release(p->a);
    p->a = NULL;
    assert_true(holds(x, 4) && holds(view, 4) && holds(y, 5));
    if (berth_device_has_host_access(p->kit.runtime->device)) {
        void* data;
        assert_ok(berth_tensor_map(x, &data));
        ((float*)data)[0] = 4;
        berth_tensor_unmap(x);
    }
    assert_ok(berth_tensor_write(view, (float[]){6, 6, 6}, 12));
    berth_tensor* z = berth_affine(p->b, view, 2, 0);
    assert_true(holds(z, 12));
    berth_release_all(x, z, y);
    assert_true(holds(view, 6));
    berth_release(view);
}

static void tensors_keep_the_runtime_when_all_else_is_released(void** state) {
    pair* p = *state;
    berth_tensor* x = make(p->a, 4);
    berth_tensor* y = berth_neg(p->b, x);
    berth_runtime_release(p->kit.runtime);
    berth_context_release(p->a);
    berth_context_release(p->b);
    assert_true(holds(x, 4) && holds(y, -4));
    berth_release(x);
    assert_true(holds(y, -4));
    berth_release(y);
    assert_int_equal(atomic_load(&p->host.live_blocks), 0);
    p->a = p->b = NULL;
    p->kit.runtime = NULL;
}

static void retain_and_release(work* w) {
    for (int i = 0; i < 20 * ROUNDS; ++i)
        berth_release(berth_retain(w->tensor));
    berth_release(w->tensor);
}

static void references_may_be_counted_on_any_thread(void** state) {
    pair* p = *state;
    work threads[THREADS];
    berth_tensor* x = make(p->a, 7);
    for (uint32_t i = 0; i < THREADS; ++i) {
        threads[i].tensor = berth_retain(x);
        start(&threads[i], p, i, retain_and_release);
    }
    for (int i = 0; i < ROUNDS; ++i) {
        berth_tensor* y = berth_neg(p->a, x);
        berth_release(y);
    }
    berth_release(x); // maybe the last
    for (uint32_t i = 0; i < THREADS; ++i)
        finish(&threads[i]);
    berth_release(make(p->a, 0)); // takes in what others left
    assert_int_equal(p->a->home.live_objects, 0);
}

static void release_one(work* w) { berth_release(w->tensor); }

static void a_release_that_finds_the_context_busy_is_done_by_its_holder(void** state) {
    pair* p = *state;
    work w = {.tensor = make(p->a, 1)};
    berth_tensor* view = berth_slice(p->b, w.tensor, 0, 0, 2, 1);
    work other = {.tensor = view};
    berth_home_lock(&p->a->home);
    start(&w, p, 0, release_one);
    start(&other, p, 1, release_one);
    finish(&w);
    finish(&other);
    assert_int_equal(p->b->home.live_objects, 0);
    assert_int_equal(p->a->home.live_objects, 2);
    assert_non_null(atomic_load(&p->a->home.remote));
    berth_home_unlock(&p->a->home);
    assert_null(atomic_load(&p->a->home.remote));
    assert_int_equal(p->a->home.live_objects, 0);
}

static void the_last_release_of_a_closed_context_may_be_done_by_its_holder(void** state) {
    pair* p = *state;
    work w = {.tensor = make(p->a, 1)};
    berth_home* home = &p->a->home;
    berth_context_release(p->a);
    berth_home_lock(home);
    start(&w, p, 0, release_one);
    finish(&w);
    berth_home_unlock(home); // the home is gone
    p->a = NULL;
    berth_memory_stats stats;
    assert_ok(berth_trim(p->kit.runtime, 0, NULL));
    assert_ok(berth_runtime_query_memory(p->kit.runtime, &stats));
    assert_int_equal(stats.mapped_bytes, 0);
}

/// A meeting point for two threads and a place for a tensor.
typedef struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    berth_tensor* tensor;
} mailbox;

static mailbox boxes[2];

static void put(mailbox* box, berth_tensor* tensor) {
    pthread_mutex_lock(&box->lock);
    while (box->tensor != NULL)
        pthread_cond_wait(&box->changed, &box->lock);
    box->tensor = tensor;
    pthread_cond_broadcast(&box->changed);
    pthread_mutex_unlock(&box->lock);
}

static berth_tensor* take(mailbox* box) {
    pthread_mutex_lock(&box->lock);
    while (box->tensor == NULL)
        pthread_cond_wait(&box->changed, &box->lock);
    berth_tensor* tensor = box->tensor;
    box->tensor = NULL;
    pthread_cond_broadcast(&box->changed);
    pthread_mutex_unlock(&box->lock);
    return tensor;
}

/// Sends tensors of its context to the other thread and works on what comes from there; its steps
/// replay, and what it sends may lie in a running step's frame.
static void exchange(work* w) {
    test_random random = test_random_make(w->index + 1);
    for (int i = 1; i <= ROUNDS; ++i) {
        const int64_t n = 10 + (int64_t)test_random_below(&random, 50);
        check(exec_kit_begin(w->ctx, "exchange", n) == BERTH_OK);
        berth_tensor* x = make(w->ctx, (float)i);
        berth_tensor* other = berth_ones(w->ctx, BERTH_F32, 1, &n);
        put(&boxes[w->index], berth_retain(x));
        berth_tensor* theirs = take(&boxes[1 - w->index]);
        berth_tensor* sum = berth_add(w->ctx, x, theirs);
        const bool releases_early = test_random_one_in(&random, 2);
        if (releases_early) berth_release(theirs);
        berth_tensor* twice = berth_affine(w->ctx, sum, 2, 0);
        check(holds(twice, (float)(4 * i)));
        berth_release_all(other, sum, twice);
        if (test_random_one_in(&random, 2)) {
            berth_release(x);
            x = NULL;
        }
        check(berth_step_end(w->ctx) == BERTH_OK);
        if (!releases_early) {
            check(holds(theirs, (float)i));
            berth_release(theirs);
        }
        if (x != NULL) check(holds(x, (float)i));
        berth_release(x);
    }
    check(berth_context_error(w->ctx) == BERTH_OK);
}

static void two_threads_exchange_tensors_of_running_steps(void** state) {
    pair* p = *state;
    atomic_store(&wrongs, 0);
    work threads[2] = {{.ctx = p->a}, {.ctx = p->b}};
    for (uint32_t i = 0; i < 2; ++i) {
        boxes[i] = (mailbox){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};
    }
    for (uint32_t i = 0; i < 2; ++i)
        start(&threads[i], p, i, exchange);
    for (uint32_t i = 0; i < 2; ++i)
        finish(&threads[i]);
    assert_int_equal(atomic_load(&wrongs), 0);
    berth_release(make(p->a, 0));
    berth_release(make(p->b, 0));
    assert_int_equal(p->a->home.live_objects, 0);
    assert_int_equal(p->b->home.live_objects, 0);
    assert_true(exec_kit_counters(p->kit.runtime, "exchange").hits > 0);
}

static pthread_barrier_t together;

/// Both threads release the last tensors of a context that is closed already.
static void race_to_the_end(work* w) {
    for (int i = 0; i < ROUNDS; ++i) {
        pthread_barrier_wait(&together); // the tensors are there
        berth_tensor* mine = w->tensor;
        pthread_barrier_wait(&together); // go
        berth_release(mine);
        pthread_barrier_wait(&together); // gone
    }
}

static void threads_may_race_for_the_last_tensor_of_a_closed_context(void** state) {
    pair* p = *state;
    work threads[2] = {{.tensor = NULL}, {.tensor = NULL}};
    assert_int_equal(pthread_barrier_init(&together, NULL, 3), 0);
    for (uint32_t i = 0; i < 2; ++i)
        start(&threads[i], p, i, race_to_the_end);
    for (int i = 0; i < ROUNDS; ++i) {
        berth_context* ctx;
        assert_ok(berth_context_create(p->kit.runtime, &ctx));
        threads[0].tensor = make(ctx, 1);
        threads[1].tensor =
            i % 2 == 0 ? make(ctx, 2) : berth_slice(ctx, threads[0].tensor, 0, 0, 1, 1);
        berth_context_release(ctx);
        pthread_barrier_wait(&together);
        pthread_barrier_wait(&together);
        if (i % 3 == 0) assert_ok(berth_trim(p->kit.runtime, 0, NULL));
        pthread_barrier_wait(&together);
    }
    for (uint32_t i = 0; i < 2; ++i)
        finish(&threads[i]);
    pthread_barrier_destroy(&together);
    berth_context* first = p->kit.runtime->first_context;
    assert_true(first == p->b && first->next == p->a && first->next->next == NULL);
}

static atomic_bool is_over;

static void run_steps(work* w) {
    test_random random = test_random_make(w->index);
    for (int i = 0; i < ROUNDS; ++i) {
        const int64_t n = 1000 + (int64_t)test_random_below(&random, 40000);
        check(exec_kit_begin(w->ctx, "steps", n) == BERTH_OK);
        berth_tensor* x = berth_full(w->ctx, 2, BERTH_F32, 1, &n);
        berth_tensor* y = berth_affine(w->ctx, x, 3, 0);
        berth_tensor* z = berth_add(w->ctx, berth_move(x), berth_move(y));
        berth_tensor* part = berth_slice(w->ctx, z, 0, -LENGTH, INT64_MAX, 1);
        check(holds(part, 8));
        if (i % 3 != 0) berth_release(z);
        check(berth_step_end(w->ctx) == BERTH_OK);
        check(holds(part, 8));
        berth_release_all(part, i % 3 != 0 ? NULL : z);
    }
    check(berth_context_error(w->ctx) == BERTH_OK);
}

static void trim_until_over(work* w) {
    while (!atomic_load(&is_over)) {
        berth_memory_stats stats;
        check(berth_trim(w->p->kit.runtime, 0, NULL) == BERTH_OK);
        check(berth_runtime_query_memory(w->p->kit.runtime, &stats) == BERTH_OK);
        check(stats.mapped_bytes <= stats.capacity_bytes);
    }
}

static void memory_is_trimmed_by_one_thread_while_others_run_steps(void** state) {
    pair* p = *state;
    atomic_store(&wrongs, 0);
    atomic_store(&is_over, false);
    work threads[3] = {{.ctx = p->a}, {.ctx = p->b}, {.ctx = NULL}};
    start(&threads[0], p, 1, run_steps);
    start(&threads[1], p, 2, run_steps);
    start(&threads[2], p, 3, trim_until_over);
    finish(&threads[0]);
    finish(&threads[1]);
    atomic_store(&is_over, true);
    finish(&threads[2]);
    assert_int_equal(atomic_load(&wrongs), 0);
    const berth_step_counters counters = exec_kit_counters(p->kit.runtime, "steps");
    assert_int_equal(counters.runs, 2 * ROUNDS);
    assert_true(counters.hits > ROUNDS);
    assert_ok(berth_context_synchronize(p->a));
    assert_ok(berth_context_synchronize(p->b));
    assert_ok(berth_trim(p->kit.runtime, 0, NULL));
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(p->kit.runtime, &stats));
    assert_int_equal(stats.mapped_bytes, 0);
    assert_int_equal(stats.reserved_bytes, 0);
}

/// Contexts come and go while tensors of the lasting one are used in them.
static void come_and_go(work* w) {
    for (int i = 0; i < ROUNDS / 4; ++i) {
        berth_context* ctx;
        if (berth_context_create(w->p->kit.runtime, &ctx) != BERTH_OK) {
            check(false);
            return;
        }
        berth_tensor* y = berth_affine(ctx, w->tensor, 1, (float)i);
        if (i % 2 == 0) berth_context_release(ctx);
        check(holds(y, 1 + (float)i));
        berth_release(y);
        if (i % 2 != 0) berth_context_release(ctx);
    }
    berth_release(w->tensor);
}

static void contexts_come_and_go_on_several_threads(void** state) {
    pair* p = *state;
    atomic_store(&wrongs, 0);
    atomic_store(&is_over, false);
    work threads[THREADS], trimmer;
    berth_tensor* x = make(p->a, 1);
    for (uint32_t i = 0; i < THREADS; ++i) {
        threads[i].tensor = berth_retain(x);
        start(&threads[i], p, i, come_and_go);
    }
    start(&trimmer, p, THREADS, trim_until_over);
    for (uint32_t i = 0; i < THREADS; ++i)
        finish(&threads[i]);
    atomic_store(&is_over, true);
    finish(&trimmer);
    assert_true(holds(x, 1));
    berth_release(x);
    assert_int_equal(atomic_load(&wrongs), 0);
    assert_int_equal(p->a->home.live_objects, 0);
}

#define ON_BOTH(test)                                                                              \
    {"cpu: " #test, test, open_cpu_pair, close_pair, NULL}, {                                      \
        "sim: " #test, test, open_sim_pair, close_pair, NULL                                       \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(a_tensor_of_one_context_is_an_operand_in_another),
        ON_BOTH(a_moved_tensor_of_another_context_is_read_and_consumed),
        ON_BOTH(a_shared_storage_is_not_taken_in_place_any_more),
        ON_BOTH(a_survivor_of_a_frame_that_is_shared_is_held_where_it_is),
        ON_BOTH(tensors_outlive_their_context),
        ON_BOTH(tensors_keep_the_runtime_when_all_else_is_released),
        ON_BOTH(references_may_be_counted_on_any_thread),
        ON_BOTH(a_release_that_finds_the_context_busy_is_done_by_its_holder),
        ON_BOTH(the_last_release_of_a_closed_context_may_be_done_by_its_holder),
        ON_BOTH(two_threads_exchange_tensors_of_running_steps),
        ON_BOTH(threads_may_race_for_the_last_tensor_of_a_closed_context),
        ON_BOTH(memory_is_trimmed_by_one_thread_while_others_run_steps),
        ON_BOTH(contexts_come_and_go_on_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
