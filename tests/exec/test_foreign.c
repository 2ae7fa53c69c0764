// SPDX-License-Identifier: Apache-2.0
// Strided windows on memory that Berth does not own: what they cover, what is refused, who deletes.
#include "exec/foreign.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "exec/exec_kit.h"

enum { BUFFER = 4096, ROUNDS = 400 };

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

/// As the public callers do: under the lock, the error kept.
static berth_tensor* adopt(berth_context* ctx, const berth_foreign* foreign) {
    berth_tensor* tensor = NULL;
    berth_home_lock(&ctx->home);
    const berth_status status = berth_foreign_adopt(ctx, foreign, &tensor);
    if (status != BERTH_OK) berth_context_fail(ctx, status, "adopt", NULL);
    berth_home_unlock(&ctx->home);
    assert_true((tensor != NULL) == (status == BERTH_OK));
    return tensor;
}

typedef struct deletion {
    int calls;
    void* data;
} deletion;

static void note_deletion(void* self, void* data) {
    deletion* note = self;
    ++note->calls;
    note->data = data;
}

/// A random shape of at most 300 elements with random strides that stays within the buffer around
/// its middle.
static berth_view random_window(test_random* random, int32_t* buffer) {
    berth_view view = {.data = buffer + BUFFER / 2, .dtype = BERTH_I32};
    view.rank = (int32_t)test_random_below(random, BERTH_MAX_RANK + 1);
    int64_t count = 1, room = BUFFER / 2 - 1;
    for (int32_t i = 0; i < view.rank; ++i) {
        view.dims[i] = test_random_between(random, test_random_one_in(random, 20) ? 0 : 1, 5);
        if (count * view.dims[i] > 300) view.dims[i] = 1;
        if (view.dims[i] > 1) {
            const int64_t most = room / (view.dims[i] - 1) < 40 ? room / (view.dims[i] - 1) : 40;
            view.strides[i] = test_random_between(random, -most, most);
            room -= (view.dims[i] - 1) * llabs(view.strides[i]);
        } else {
            view.strides[i] = test_random_one_in(random, 2) ? INT64_MIN : INT64_MAX;
        }
        count *= view.dims[i];
    }
    return view;
}

/// Writes the elements row-major, one by one; returns their number.
static size_t walk(const berth_view* view, const int32_t* data, int32_t dim, int32_t* out) {
    if (dim == view->rank) {
        *out = *data;
        return 1;
    }
    size_t count = 0;
    for (int64_t i = 0; i < view->dims[dim]; ++i)
        count += walk(view, data + i * view->strides[dim], dim + 1, out + count);
    return count;
}

static void any_strides_are_read_and_computed_with_as_they_are(void** state) {
    berth_context* ctx = context_of(state);
    static int32_t buffer[BUFFER];
    for (int32_t i = 0; i < BUFFER; ++i)
        buffer[i] = i;
    test_random random = test_random_make(31);
    for (int round = 0; round < ROUNDS; ++round) {
        const berth_view window = random_window(&random, buffer);
        berth_view inner = window; // steps that are never taken may be anything
        for (int32_t i = 0; i < inner.rank; ++i)
            if (inner.dims[i] <= 1) inner.strides[i] = 0;
        deletion note = {0};
        const berth_foreign foreign = {.data = window.data,
                                       .limit_bytes = UINT64_MAX,
                                       .dtype = BERTH_I32,
                                       .rank = window.rank,
                                       .dims = window.dims,
                                       .strides = window.strides,
                                       .deleter = note_deletion,
                                       .deleter_self = &note};
        berth_tensor* x = adopt(ctx, &foreign);
        int32_t expected[300], values[300];
        const size_t count = walk(&inner, inner.data, 0, expected);
        assert_int_equal(berth_tensor_count(x), count);
        assert_ok(berth_tensor_read(x, values, count * sizeof *values));
        assert_memory_equal(values, expected, count * sizeof *values);

        const berth_storage* storage = x->storage;
        int64_t begin, end;
        assert_ok(berth_shape_span(&inner, &begin, &end));
        const unsigned char* lowest = (unsigned char*)window.data + begin;
        assert_ptr_equal(storage->data, lowest);
        assert_int_equal(storage->size_bytes, end - begin);
        assert_ptr_equal(berth_tensor_data(x), window.data);

        berth_tensor* y = berth_neg(ctx, berth_move(x));
        assert_context_ok(ctx);
        assert_ok(berth_tensor_read(y, values, count * sizeof *values));
        for (size_t i = 0; i < count; ++i)
            assert_int_equal(values[i], -expected[i]);
        assert_int_equal(note.calls, 1);
        assert_ptr_equal(note.data, lowest);
        berth_release(y);
    }
}

static void a_view_of_a_backward_window_keeps_its_memory(void** state) {
    berth_context* ctx = context_of(state);
    float data[6] = {0, 1, 2, 3, 4, 5};
    deletion note = {0};
    const berth_foreign foreign = {.data = data + 5,
                                   .limit_bytes = UINT64_MAX,
                                   .dtype = BERTH_F32,
                                   .rank = 1,
                                   .dims = (int64_t[]){6},
                                   .strides = (int64_t[]){-1},
                                   .deleter = note_deletion,
                                   .deleter_self = &note};
    berth_tensor* x = adopt(ctx, &foreign);
    berth_tensor* part = berth_slice(ctx, x, 0, 1, 6, 2);
    berth_release(x);
    exec_kit_expect(part, (float[]){4, 2, 0}, 3);
    assert_int_equal(note.calls, 0);
    berth_release(part);
    assert_int_equal(note.calls, 1);
}

static void windows_that_cannot_be_are_refused_and_not_deleted(void** state) {
    berth_context* ctx = context_of(state);
    float data[64] = {0};
    const struct {
        size_t offset;
        berth_dtype dtype;
        int64_t dims[2];
        int64_t strides[2];
        uint64_t limit_bytes;
        berth_status status;
        const char* part;
    } cases[] = {
        {0, BERTH_F32, {2, 2}, {INT64_MAX, 1}, UINT64_MAX, BERTH_ERR_OVERFLOW, "63 bits"},
        {0, BERTH_F32, {2, 2}, {INT64_MIN, 1}, UINT64_MAX, BERTH_ERR_OVERFLOW, "63 bits"},
        {0, BERTH_F32, {3, 1}, {-(INT64_MAX >> 3), 1}, UINT64_MAX, BERTH_ERR_OVERFLOW, "reaches"},
        {0, BERTH_F32, {1 << 20, 1 << 20}, {0, 0}, UINT64_MAX, BERTH_OK, ""},
        {0, BERTH_F32, {INT64_MAX, 2}, {0, 0}, UINT64_MAX, BERTH_ERR_OVERFLOW, "63 bits"},
        {0, BERTH_F32, {2, 2}, {3, 1}, 16, BERTH_ERR_INVALID_ARGUMENT, "needs 20 bytes"},
        {1, BERTH_F32, {2, 2}, {2, 1}, UINT64_MAX, BERTH_ERR_INVALID_ARGUMENT, "aligned to 4"},
        {0, BERTH_Q8_0, {1, 64}, {2, 2}, UINT64_MAX, BERTH_ERR_INVALID_ARGUMENT, "rows of q8_0"},
    };
    deletion note = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const berth_foreign foreign = {.data = (unsigned char*)data + cases[i].offset,
                                       .limit_bytes = cases[i].limit_bytes,
                                       .dtype = cases[i].dtype,
                                       .rank = 2,
                                       .dims = cases[i].dims,
                                       .strides = cases[i].strides,
                                       .deleter = note_deletion,
                                       .deleter_self = &note};
        berth_tensor* x = adopt(ctx, &foreign);
        assert_true((x != NULL) == (cases[i].status == BERTH_OK));
        if (x == NULL) assert_context_fails(ctx, cases[i].status, cases[i].part);
        berth_release(x);
    }
    assert_int_equal(note.calls, 1); // of the one that could be
    assert_int_equal(ctx->home.live_objects, 0);
}

static void rows_of_blocks_may_lie_apart(void** state) {
    berth_context* ctx = context_of(state);
    static unsigned char data[3 * 34];
    data[34 + 2] = 0xEE; // between the rows
    const berth_foreign foreign = {.data = data,
                                   .limit_bytes = sizeof data,
                                   .dtype = BERTH_Q8_0,
                                   .rank = 2,
                                   .dims = (int64_t[]){2, 32},
                                   .strides = (int64_t[]){2, 1},
                                   .is_read_only = true};
    berth_tensor* x = adopt(ctx, &foreign);
    assert_non_null(x);
    assert_false(berth_tensor_is_contiguous(x));
    berth_tensor* y = berth_cast(ctx, x, BERTH_F32);
    float values[64];
    assert_context_ok(ctx);
    assert_ok(berth_tensor_read(y, values, sizeof values));
    for (int i = 0; i < 64; ++i)
        assert_true(values[i] == 0);
    berth_release_all(x, y);
}

/// A deleter of code that has a lock of its own, which another thread holds while it waits for
/// Berth: an interpreter's, say. A thread may take it again, as it may be its own call of Berth
/// that runs the deleter.
typedef struct interpreter {
    pthread_mutex_t lock;
    berth_tensor* watched[2];
    _Atomic int reads;
    _Atomic int deletions;
} interpreter;

static bool read_watched(interpreter* i) {
    float values[2];
    bool is_right = true;
    for (int k = 0; k < 2; ++k) {
        is_right = is_right && berth_tensor_read(i->watched[k], values, 8) == BERTH_OK;
        is_right = is_right && values[1] == 2.0f;
    }
    return is_right;
}

/// Needs the interpreter's lock, and then even looks at tensors.
static void delete_under_lock(void* self, void* data) {
    (void)data;
    interpreter* i = self;
    pthread_mutex_lock(&i->lock);
    if (read_watched(i)) atomic_fetch_add(&i->deletions, 1);
    pthread_mutex_unlock(&i->lock);
}

static void* read_under_lock(void* argument) {
    interpreter* i = argument;
    while (atomic_load(&i->deletions) < 2 * ROUNDS) {
        pthread_mutex_lock(&i->lock);
        if (read_watched(i)) atomic_fetch_add(&i->reads, 1);
        pthread_mutex_unlock(&i->lock);
        sched_yield();
    }
    return NULL;
}

static void deleters_run_while_no_lock_of_berths_is_held(void** state) {
    exec_kit* kit = *state;
    berth_context* other;
    assert_ok(berth_context_create(kit->runtime, &other));
    interpreter i = {.watched = {exec_kit_ramp(kit->ctx, 1, 2), exec_kit_ramp(other, 1, 2)}};
    pthread_mutexattr_t recursive;
    assert_int_equal(pthread_mutexattr_init(&recursive), 0);
    assert_int_equal(pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE), 0);
    assert_int_equal(pthread_mutex_init(&i.lock, &recursive), 0);
    assert_int_equal(pthread_mutexattr_destroy(&recursive), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_under_lock, &i), 0);
    while (atomic_load(&i.reads) == 0)
        sched_yield();
    float data[2] = {1, 2};
    const berth_foreign foreign = {.data = data,
                                   .limit_bytes = sizeof data,
                                   .dtype = BERTH_F32,
                                   .rank = 1,
                                   .dims = (int64_t[]){2},
                                   .deleter = delete_under_lock,
                                   .deleter_self = &i};
    for (int round = 0; round < ROUNDS; ++round) {
        berth_tensor* x = adopt(kit->ctx, &foreign);
        // the last reference goes in an op of its own context, in one of another's, and outside
        if (round % 2 == 0) x = berth_neg(kit->ctx, berth_move(x));
        berth_tensor* y = adopt(other, &foreign);
        if (round % 3 != 0) y = berth_neg(kit->ctx, berth_move(y));
        assert_true(x != NULL && y != NULL);
        berth_release_all(x, y);
        // whoever holds the lock finishes what was left to him
        while (atomic_load(&i.deletions) < 2 * (round + 1))
            assert_true(read_watched(&i));
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    berth_release_all(i.watched[0], i.watched[1]);
    assert_int_equal(kit->ctx->home.live_objects, 0);
    berth_context_release(other);
    assert_int_equal(pthread_mutex_destroy(&i.lock), 0);
}

static void the_last_of_a_released_context_may_be_foreign(void** state) {
    exec_kit* kit = *state;
    for (int is_used_elsewhere = 0; is_used_elsewhere < 2; ++is_used_elsewhere) {
        berth_context* other;
        assert_ok(berth_context_create(kit->runtime, &other));
        float value = 3;
        deletion note = {0};
        const berth_foreign foreign = {.data = &value,
                                       .limit_bytes = sizeof value,
                                       .dtype = BERTH_F32,
                                       .deleter = note_deletion,
                                       .deleter_self = &note};
        berth_tensor* x = adopt(other, &foreign);
        berth_context_release(other);
        if (is_used_elsewhere != 0) {
            x = berth_neg(kit->ctx, berth_move(x)); // in whose lock the other ends
            exec_kit_expect(x, (float[]){-3}, 1);
        } else {
            exec_kit_expect(x, (float[]){3}, 1);
            berth_release(x);
            x = NULL;
        }
        assert_int_equal(note.calls, 1);
        assert_null(kit->ctx->next); // the runtime's list has one context again
        assert_null(kit->ctx->previous);
        berth_release(x);
    }
}

static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    exec_kit kit;
    const berth_option_setting settings[] = {{"threads", "1"}, {"log", "off"}};
    assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
    float value = 1;
    deletion note = {0};
    const berth_foreign foreign = {.data = &value,
                                   .limit_bytes = sizeof value,
                                   .dtype = BERTH_F32,
                                   .deleter = note_deletion,
                                   .deleter_self = &note};
    size_t faults = 0;
    for (size_t nth = 1;; ++nth) {
        failing_host_fail(&host, nth, false);
        berth_tensor* x = adopt(kit.ctx, &foreign);
        const bool failed = failing_host_has_failed(&host);
        failing_host_fail(&host, 0, false);
        assert_true((x == NULL) == failed);
        if (x != NULL) {
            assert_int_equal(note.calls, 0);
            berth_release(x);
            break;
        }
        assert_context_fails(kit.ctx, BERTH_ERR_OUT_OF_MEMORY, "memory");
        ++faults;
    }
    assert_true(faults > 0);
    assert_int_equal(note.calls, 1);
    exec_kit_close(&kit);
    assert_int_equal(atomic_load(&host.live_blocks), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(any_strides_are_read_and_computed_with_as_they_are),
        EXEC_KIT_ON_BOTH(a_view_of_a_backward_window_keeps_its_memory),
        EXEC_KIT_ON_BOTH(windows_that_cannot_be_are_refused_and_not_deleted),
        EXEC_KIT_ON_BOTH(rows_of_blocks_may_lie_apart),
        EXEC_KIT_ON_BOTH(deleters_run_while_no_lock_of_berths_is_held),
        EXEC_KIT_ON_BOTH(the_last_of_a_released_context_may_be_foreign),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
