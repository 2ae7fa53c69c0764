// SPDX-License-Identifier: Apache-2.0
// A small program run over and over while something below fails: host memory, the device, capacity.
// Each failure is reported where it happened, the rounds without one compute what they always do,
// and in the end everything has gone back.
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/log.h"
#include "exec/decay.h"
#include "exec/exec_kit.h"

enum { ROUNDS = 8, WIDTH = 512, OUTPUTS = 24, CACHE_ROWS = ROUNDS, MAPPED_AT = 4 };

/// What a round without failures reads; 0 for a round with one.
typedef struct outcome {
    uint64_t digests[ROUNDS];
    uint32_t errors; ///< calls that reported a failure
    uint64_t hits;   ///< of the steps
    bool has_context;
} outcome;

typedef struct program {
    failing_host* host;
    berth_runtime* runtime;
    berth_context* ctx;
    berth_context* other; ///< reads tensors of the first
    berth_tensor* weight;
    berth_tensor* cache;
    berth_tensor* kept; ///< escapes each step, until the next
    float kept_value;
    berth_tensor* mapped; ///< escapes while the host has it mapped
    const float* mapped_data;
    int64_t mapped_count;
    bool failed; ///< in this round
    outcome result;
} program;

/// Fails the round, and the test unless the failure was reported properly.
static void note_error_in(program* p, berth_context* ctx) {
    p->failed = true;
    ++p->result.errors;
    assert_int_not_equal(berth_context_error(ctx), BERTH_OK);
    assert_true(berth_context_error_text(ctx)[0] != '\0');
}

static void note_error(program* p) { note_error_in(p, p->ctx); }

static void note_status(program* p, berth_status status) {
    if (status == BERTH_OK) return;
    p->failed = true;
    ++p->result.errors;
    assert_true(berth_last_error()[0] != '\0');
}

/// Reads an op's result into the digest and releases it.
static void digest(program* p, int round, berth_tensor* x) {
    static unsigned char buffer[ROUNDS * 16 * WIDTH * sizeof(float)];
    if (x == NULL) {
        note_error(p);
        return;
    }
    const uint64_t bytes = berth_tensor_bytes(x);
    assert_true(bytes <= sizeof buffer);
    const berth_status status = berth_tensor_read(x, buffer, bytes);
    note_status(p, status);
    if (status == BERTH_OK)
        p->result.digests[round] = berth_hash64(buffer, bytes, p->result.digests[round]);
    berth_release(x);
}

static int64_t rows_of(int round) { return 5 + 4 * (round % 5); }

/// A step inside the step: on [n, OUTPUTS].
static berth_tensor* run_inner(program* p, berth_tensor* x, int64_t n) {
    const berth_status begun = exec_kit_begin(p->ctx, "inner", n);
    note_status(p, begun);
    if (begun != BERTH_OK) {
        note_error(p);
        return NULL;
    }
    berth_tensor* relu = berth_relu(p->ctx, x);
    berth_tensor* twice = berth_affine(p->ctx, relu, 2, 0);
    berth_tensor* y = berth_sub(p->ctx, berth_move(twice), x);
    berth_release(relu);
    note_status(p, berth_step_end(p->ctx));
    return y;
}

/// Puts row `round` of the cache; the cache is lost with a failed update.
static void update_cache(program* p, int round) {
    const int64_t dims[2] = {CACHE_ROWS, OUTPUTS};
    if (p->cache == NULL) return;
    berth_tensor* index = berth_full(p->ctx, round, BERTH_I32, 1, (int64_t[]){1});
    berth_tensor* row = berth_full(p->ctx, round + 1, BERTH_F32, 2, (int64_t[]){1, dims[1]});
    p->cache = berth_index_copy(p->ctx, berth_move(p->cache), 0, index, row);
    berth_release_all(index, row);
    if (p->cache == NULL) note_error(p);
}

static void map_survivor(program* p, int round, berth_tensor* x) {
    void* data;
    if (round != MAPPED_AT || p->mapped != NULL) return;
    const berth_status status = berth_tensor_map(x, &data);
    note_status(p, status);
    if (status != BERTH_OK) return;
    p->mapped = berth_retain(x);
    p->mapped_data = data;
    p->mapped_count = berth_tensor_count(x);
}

/// The other context reads the value that will survive, which is shared from then on.
static void read_elsewhere(program* p, int round) {
    if (p->kept == NULL || round % 2 != 0) return;
    berth_tensor* y = berth_affine(p->other, p->kept, 1, 1);
    if (y == NULL) {
        note_error_in(p, p->other);
        berth_context_clear_error(p->other);
    } else {
        digest(p, round, y);
    }
}

/// The ops of one step; every tensor but the survivors is released.
static void run_ops(program* p, int round, int64_t n) {
    berth_context* ctx = p->ctx;
    berth_tensor* x = berth_rand(ctx, (uint64_t)round, -1, 1, BERTH_F32, 2, (int64_t[]){n, WIDTH});
    berth_tensor* h = p->weight != NULL ? berth_linear(ctx, x, p->weight, NULL) : NULL;
    berth_tensor* y = h != NULL ? run_inner(p, h, n) : NULL;
    berth_tensor* turned = y != NULL ? berth_transpose(ctx, y, 0, 1) : NULL;
    berth_tensor* dense = turned != NULL ? berth_contiguous(ctx, turned) : NULL;
    berth_tensor* both =
        y != NULL && h != NULL ? berth_cat(ctx, (berth_tensor*[]){y, h}, 2, 0) : NULL;
    berth_tensor* kept = berth_full(ctx, round, BERTH_F32, 1, (int64_t[]){n * WIDTH});
    if (kept == NULL) note_error(p);
    if (kept != NULL) map_survivor(p, round, kept);
    update_cache(p, round);
    berth_release_all(x, h, y, turned);
    p->kept = kept;
    p->kept_value = (float)round;
    read_elsewhere(p, round);
    digest(p, round, dense);
    digest(p, round, both);
}

static void run_round(program* p, int round) {
    const int64_t n = rows_of(round);
    if (p->weight == NULL)
        p->weight = berth_rand(p->ctx, 77, -1, 1, BERTH_F32, 2, (int64_t[]){OUTPUTS, WIDTH});
    if (p->cache == NULL)
        p->cache = berth_zeros(p->ctx, BERTH_F32, 2, (int64_t[]){CACHE_ROWS, OUTPUTS});
    if (p->weight == NULL || p->cache == NULL) note_error(p);
    berth_status status = exec_kit_begin(p->ctx, "outer", n);
    note_status(p, status);
    if (status != BERTH_OK) {
        note_error(p);
        assert_null(p->ctx->run);
        return;
    }
    run_ops(p, round, n);
    const berth_status error = berth_context_error(p->ctx);
    status = berth_step_end(p->ctx);
    note_status(p, status);
    assert_true((status == BERTH_OK) == (error == BERTH_OK));
    assert_null(p->ctx->run);
}

/// What survived the step is as it was, and goes.
static void check_survivors(program* p, int round) {
    static float values[ROUNDS * 16 * WIDTH];
    if (p->kept != NULL) {
        const uint64_t bytes = berth_tensor_bytes(p->kept);
        assert_true(bytes <= sizeof values);
        const berth_status status = berth_tensor_read(p->kept, values, bytes);
        note_status(p, status);
        for (size_t i = 0; status == BERTH_OK && i < bytes / sizeof(float); ++i)
            assert_true(values[i] == p->kept_value);
        berth_release(p->kept);
        p->kept = NULL;
    }
    if (p->mapped != NULL && (round == MAPPED_AT + 2 || round == ROUNDS)) {
        assert_ptr_equal(exec_kit_place(p->mapped), p->mapped_data);
        for (int64_t i = 0; i < p->mapped_count; ++i)
            assert_true(p->mapped_data[i] == (float)MAPPED_AT);
        berth_tensor_unmap(p->mapped);
        berth_release(p->mapped);
        p->mapped = NULL;
    }
    if (p->cache != NULL && !p->failed && round < ROUNDS)
        digest(p, round, berth_slice(p->ctx, p->cache, 0, round, round + 1, 1));
}

/// An op of the simplest kind; false if it failed (and reported that).
static bool try_small_op(program* p) {
    berth_tensor* x = berth_neg(p->ctx, berth_move(exec_kit_ramp(p->ctx, 1, 3)));
    float values[3];
    berth_status status = berth_context_error(p->ctx);
    assert_true((x == NULL) == (status != BERTH_OK));
    if (x != NULL) status = berth_tensor_read(x, values, sizeof values);
    if (status == BERTH_OK) assert_memory_equal(values, ((float[]){-1, -2, -3}), sizeof values);
    berth_release(x);
    berth_context_clear_error(p->ctx);
    note_status(p, status);
    return status == BERTH_OK;
}

/// Nothing of a context is out, no lock is held.
static void check_context(berth_context* ctx) {
    berth_home* home = &ctx->home;
    assert_int_equal(home->live_objects, 0);
    assert_int_equal(home->overdue.count, 0);
    assert_int_equal(atomic_load(&home->lock), 0);
    assert_true(berth_pool_is_valid(home->pool));
    // a fault that comes now costs a second try
    if (berth_context_synchronize(ctx) != BERTH_OK) (void)!berth_context_synchronize(ctx);
}

/// Nothing is promised or mapped. Ends the thread that ages memory before: a trim leaves what that
/// is just at.
static void check_books(program* p) {
    berth_decay_stop(p->runtime);
    check_context(p->ctx);
    check_context(p->other);
    for (int i = 0; i < 2; ++i)
        assert_ok(berth_trim(p->runtime, 0, NULL));
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(p->runtime, &stats));
    assert_int_equal(stats.requested_bytes, 0);
    assert_int_equal(stats.reserved_bytes, 0);
    assert_int_equal(stats.mapped_bytes, 0);
}

static void run_rounds(program* p, bool fails_for_good) {
    for (int round = 0; round < ROUNDS; ++round) {
        p->failed = false;
        run_round(p, round);
        berth_context_clear_error(p->ctx);
        check_survivors(p, round);
        if (berth_context_error(p->ctx) != BERTH_OK) note_error(p);
        berth_context_clear_error(p->ctx);
        if (p->failed) p->result.digests[round] = 0;
    }
    check_survivors(p, ROUNDS);
    berth_release_all(p->weight, p->cache);
    assert_true(try_small_op(p) || try_small_op(p) || fails_for_good);
    check_books(p);
}

typedef enum fault_kind { FAULT_NONE, FAULT_HOST, FAULT_HOST_FOR_GOOD, FAULT_DEVICE } fault_kind;

/// The `nth` call of some kind fails.
typedef struct fault {
    fault_kind kind;
    size_t nth;
    int call; ///< FAULT_DEVICE: berth_sim_call, or all kinds if it is BERTH_SIM_CALL_COUNT
} fault;

static void arm_device(berth_device* device, const fault* f) {
    if (f->kind != FAULT_DEVICE) return;
    if (f->call == BERTH_SIM_CALL_COUNT) {
        berth_sim_fail_any(device, f->nth);
    } else {
        berth_sim_fail(device, (berth_sim_call)f->call, f->nth);
    }
}

/// True if the fault came.
static bool was_hit(const program* p, const fault* f) {
    if (f->kind != FAULT_DEVICE) return failing_host_has_failed(p->host);
    const uint64_t calls = f->call == BERTH_SIM_CALL_COUNT
                               ? berth_sim_query_all_calls(p->runtime->device)
                               : berth_sim_query_calls(p->runtime->device, (berth_sim_call)f->call);
    return calls >= f->nth;
}

/// One run of the whole program, creation and end included. Returns whether the fault came.
static bool run_program(const berth_option_setting* settings,
                        size_t count,
                        const fault* f,
                        outcome* out) {
    failing_host host;
    failing_host_init(&host);
    program p = {.host = &host};
    const bool fails_for_good = f->kind == FAULT_HOST_FOR_GOOD;
    if (f->kind == FAULT_HOST || fails_for_good) failing_host_fail(&host, f->nth, fails_for_good);
    const berth_runtime_options options = {.struct_size = sizeof options,
                                           .host = &host.allocator,
                                           .settings = settings,
                                           .setting_count = count};
    berth_status status = berth_runtime_create(&options, &p.runtime);
    note_status(&p, status);
    assert_true((status == BERTH_OK) == (p.runtime != NULL));
    bool hit = status != BERTH_OK;
    if (status == BERTH_OK) {
        arm_device(p.runtime->device, f);
        status = berth_context_create(p.runtime, &p.ctx);
        note_status(&p, status);
        assert_true((status == BERTH_OK) == (p.ctx != NULL));
        if (status == BERTH_OK) status = berth_context_create(p.runtime, &p.other);
        note_status(&p, status);
        if (status == BERTH_OK) {
            p.result.has_context = true;
            run_rounds(&p, fails_for_good);
            p.result.hits = exec_kit_counters(p.runtime, "outer").hits +
                            exec_kit_counters(p.runtime, "inner").hits;
        }
        berth_context_release(p.ctx);
        berth_context_release(p.other);
        hit = was_hit(&p, f);
        berth_runtime_release(p.runtime);
    }
    assert_int_equal(atomic_load(&host.live_blocks), 0);
    assert_false(atomic_load(&host.mismatch));
    *out = p.result;
    return hit;
}

/// What the program computes when nothing fails.
static outcome reference(const berth_option_setting* settings, size_t count) {
    outcome expected;
    const fault none = {.kind = FAULT_NONE};
    run_program(settings, count, &none, &expected);
    assert_int_equal(expected.errors, 0);
    assert_true(expected.hits > 4);
    for (int i = 0; i < ROUNDS; ++i)
        assert_int_not_equal(expected.digests[i], 0);
    return expected;
}

/// Rounds without a failure are right.
static uint32_t count_right_rounds(const outcome* result, const outcome* expected) {
    uint32_t right = 0;
    for (int i = 0; i < ROUNDS; ++i) {
        if (result->digests[i] == 0) continue;
        assert_int_equal(result->digests[i], expected->digests[i]);
        ++right;
    }
    return right;
}

typedef struct way {
    berth_option_setting settings[4];
    size_t count;
} way;

static const way ways[] = {
    {{{"device", "cpu"}, {"threads", "1"}, {"log", "off"}}, 3},
    {{{"device", "sim"}, {"log", "off"}}, 2},
    {{{"device", "sim"}, {"log", "off"}, {"mode", "plan"}, {"keep", "none"}}, 4},
    {{{"device", "sim"}, {"log", "off"}, {"keep", "none"}, {"compact", "always"}}, 4},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

/// Lets the n-th call fail for every n until the program gets by with fewer calls. Returns the
/// number of faults.
static size_t fail_every_call(const way* w, fault_kind kind, int call) {
    const outcome expected = reference(w->settings, w->count);
    fault f = {.kind = kind, .call = call};
    size_t rounds_lost = 0;
    for (f.nth = 1;; ++f.nth) {
        outcome result;
        if (!run_program(w->settings, w->count, &f, &result)) break;
        const uint32_t right = count_right_rounds(&result, &expected);
        // one fault costs one round, or two where it takes something from the next
        if (kind != FAULT_HOST_FOR_GOOD && result.has_context) assert_true(right + 2 >= ROUNDS);
        if (kind == FAULT_DEVICE && call == BERTH_SIM_LAUNCH) assert_true(result.errors > 0);
        rounds_lost += ROUNDS - right;
    }
    print_message("%zu faults, %zu rounds lost\n", f.nth - 1, rounds_lost);
    return f.nth - 1;
}

static void host_memory_may_fail_once_at_any_call(void** state) {
    (void)state;
    for (size_t i = 0; i < WAYS; ++i)
        assert_true(fail_every_call(&ways[i], FAULT_HOST, 0) > 50);
}

static void host_memory_may_fail_for_good_from_any_call_on(void** state) {
    (void)state;
    for (size_t i = 0; i < WAYS; ++i)
        assert_true(fail_every_call(&ways[i], FAULT_HOST_FOR_GOOD, 0) > 50);
}

static void the_device_may_fail_at_any_call_of_any_kind(void** state) {
    (void)state;
    static const berth_sim_call always_made[] = {
        BERTH_SIM_RESERVE, BERTH_SIM_MAP, BERTH_SIM_LAUNCH, BERTH_SIM_COPY, BERTH_SIM_WAIT};
    for (size_t i = 1; i < WAYS; ++i) {
        size_t faults[BERTH_SIM_CALL_COUNT + 1];
        for (int call = 0; call <= BERTH_SIM_CALL_COUNT; ++call)
            faults[call] = fail_every_call(&ways[i], FAULT_DEVICE, call);
        for (size_t k = 0; k < sizeof always_made / sizeof always_made[0]; ++k)
            assert_true(faults[always_made[k]] > 0);
        assert_true(faults[BERTH_SIM_CALL_COUNT] > 100);
    }
}

/// Small capacities refuse steps or ops by their need; larger ones refuse nothing.
static void run_in(const char* device, uint64_t granule, uint64_t most_granules) {
    const berth_option_setting plain[] = {{"device", device}, {"threads", "1"}, {"log", "off"}};
    const outcome expected = reference(plain, 3);
    const fault none = {.kind = FAULT_NONE};
    uint32_t first_errors = 0, last_errors = 0;
    for (uint64_t granules = 1; granules <= most_granules; ++granules) {
        char memory[32];
        snprintf(memory, sizeof memory, "%" PRIu64, granules * granule);
        const berth_option_setting settings[] = {
            {"device", device}, {"threads", "1"}, {"log", "off"}, {"memory", memory}};
        outcome result;
        run_program(settings, 4, &none, &result);
        assert_true(result.has_context);
        (void)count_right_rounds(&result, &expected);
        if (granules == 1) first_errors = result.errors;
        last_errors = result.errors;
    }
    assert_true(first_errors > 0);
    assert_int_equal(last_errors, 0);
}

static void capacity_may_be_too_small_on_sim(void** state) {
    (void)state;
    run_in("sim", 65536, 24);
}

static void capacity_may_be_too_small_on_cpu(void** state) {
    (void)state;
    run_in("cpu", 2u << 20, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_memory_may_fail_once_at_any_call),
        cmocka_unit_test(host_memory_may_fail_for_good_from_any_call_on),
        cmocka_unit_test(the_device_may_fail_at_any_call_of_any_kind),
        cmocka_unit_test(capacity_may_be_too_small_on_sim),
        cmocka_unit_test(capacity_may_be_too_small_on_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
