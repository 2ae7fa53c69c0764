// SPDX-License-Identifier: Apache-2.0
// The public ops that make tensors of nothing: types, shapes, content, refusals.
#include <math.h>
#include <stdio.h>

#include "exec/exec_kit.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
enum { PLAIN = sizeof plain / sizeof plain[0], FLOATS = 3, BOOL = PLAIN - 1 };

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

/// Any of the functions that take type and shape.
static berth_tensor* make(
    berth_context* ctx, int kind, berth_dtype dtype, int32_t rank, const int64_t* dims) {
    static const unsigned char data[4096];
    switch (kind) {
    case 0:
        return berth_empty(ctx, dtype, rank, dims);
    case 1:
        return berth_zeros(ctx, dtype, rank, dims);
    case 2:
        return berth_ones(ctx, dtype, rank, dims);
    case 3:
        return berth_full(ctx, 1, dtype, rank, dims);
    case 4:
        return berth_from_data(ctx, data, dtype, rank, dims);
    case 5:
        return berth_rand(ctx, 1, 0, 1, dtype, rank, dims);
    case 6:
        return berth_randn(ctx, 1, 0, 1, dtype, rank, dims);
    default:
        return berth_randint(ctx, 1, 0, 9, dtype, rank, dims);
    }
}
static const char* const names[] = {
    "empty", "zeros", "ones", "full", "from_data", "rand", "randn", "randint"};
enum { KINDS = sizeof names / sizeof names[0], RAND = 5, RANDINT = 7 };

static bool makes(int kind, int type) {
    if (kind == RANDINT) return type >= FLOATS && type < BOOL;
    return kind < RAND || type < FLOATS;
}

static void every_type_and_shape_that_is_taken_is_made(void** state) {
    berth_context* ctx = context_of(state);
    const struct {
        int32_t rank;
        int64_t dims[BERTH_MAX_RANK];
    } shapes[] = {{0, {0}}, {1, {7}}, {3, {2, 0, 3}}, {8, {1, 2, 1, 2, 1, 2, 1, 2}}};
    for (int kind = 0; kind < KINDS; ++kind) {
        for (int t = 0; t < PLAIN; ++t) {
            for (int s = 0; s < 4 && makes(kind, t); ++s) {
                const int32_t rank = shapes[s].rank;
                berth_tensor* x = make(ctx, kind, plain[t], rank, rank > 0 ? shapes[s].dims : NULL);
                assert_context_ok(ctx);
                assert_int_equal(berth_tensor_dtype(x), plain[t]);
                assert_int_equal(berth_tensor_rank(x), rank);
                for (int32_t d = 0; d < rank; ++d)
                    assert_int_equal(berth_tensor_dim(x, d), shapes[s].dims[d]);
                berth_release(x);
            }
        }
    }
    assert_int_equal(ctx->home.live_objects, 0);
}

static void what_cannot_be_made_is_refused_by_name(void** state) {
    berth_context* ctx = context_of(state);
    const struct {
        berth_dtype dtype;
        int32_t rank;
        int64_t dims[2];
        berth_status status;
        const char* text;
    } cases[] = {
        {BERTH_Q8_0, 1, {32, 0}, BERTH_ERR_UNSUPPORTED, "q8_0"},
        {BERTH_DTYPE_COUNT, 1, {3, 0}, BERTH_ERR_INVALID_ARGUMENT, "no element type"},
        {(berth_dtype)-1, 1, {3, 0}, BERTH_ERR_INVALID_ARGUMENT, "no element type"},
        {BERTH_I8, 9, {1, 0}, BERTH_ERR_INVALID_ARGUMENT, "rank 9"},
        {BERTH_I8, -1, {1, 0}, BERTH_ERR_INVALID_ARGUMENT, "rank -1"},
        {BERTH_I32, 2, {3, -4}, BERTH_ERR_INVALID_ARGUMENT, "size -4 of dimension 1"},
        {BERTH_I32, 2, {INT64_MAX, 2}, BERTH_ERR_OVERFLOW, "63 bits"},
        {BERTH_F32, 1, {INT64_MAX, 0}, BERTH_ERR_OVERFLOW, "63 bits"},
    };
    for (int kind = 0; kind < KINDS; ++kind) {
        char expected[64];
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; ++c) {
            assert_null(make(ctx, kind, cases[c].dtype, cases[c].rank, cases[c].dims));
            assert_context_fails(ctx, cases[c].status, cases[c].text);
        }
        assert_null(make(ctx, kind, BERTH_F32, 2, NULL));
        snprintf(expected, sizeof expected, "%s: the dimensions are missing", names[kind]);
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, expected);
        for (int t = 0; t < PLAIN; ++t) {
            if (makes(kind, t)) continue;
            assert_null(make(ctx, kind, plain[t], 1, (int64_t[]){2}));
            snprintf(expected,
                     sizeof expected,
                     "%s: %s is not accepted",
                     names[kind],
                     berth_dtype_info_of(plain[t])->name);
            assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, expected);
        }
        assert_null(make(NULL, kind, BERTH_F32, 0, NULL));
        // an error sticks
        assert_null(berth_neg(ctx, NULL));
        assert_null(make(ctx, kind, BERTH_F32, 0, NULL));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "neg: operand 0 is NULL");
    }
    assert_int_equal(ctx->home.live_objects, 0);
}

/// The one element of x, as f32.
static float value_of(berth_context* ctx, berth_tensor* x) {
    float value = NAN;
    berth_tensor* wide = berth_cast(ctx, x, BERTH_F32);
    assert_context_ok(ctx);
    assert_ok(berth_tensor_read(wide, &value, sizeof value));
    berth_release(wide);
    return value;
}

static void a_scalar_has_no_dimensions(void** state) {
    berth_context* ctx = context_of(state);
    for (int t = 0; t < PLAIN; ++t) {
        berth_tensor* x = berth_scalar(ctx, 3, plain[t]);
        assert_int_equal(berth_tensor_rank(x), 0);
        assert_int_equal(berth_tensor_dtype(x), plain[t]);
        assert_true(value_of(ctx, x) == (plain[t] == BERTH_BOOL ? 1.0f : 3.0f));
        berth_release(x);
    }
    assert_null(berth_scalar(ctx, 3, BERTH_Q4_0));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "scalar: q4_0 is not accepted");
    assert_int_equal(ctx->home.live_objects, 0);
}

static void data_of_every_type_is_copied(void** state) {
    berth_context* ctx = context_of(state);
    for (int t = 0; t < PLAIN; ++t) {
        unsigned char data[6 * 8], found[6 * 8];
        for (size_t i = 0; i < sizeof data; ++i)
            data[i] = (unsigned char)(plain[t] == BERTH_BOOL ? i % 2 : 3 * i + 1);
        const uint64_t bytes = 6 * berth_dtype_info_of(plain[t])->block_bytes;
        berth_tensor* x = berth_from_data(ctx, data, plain[t], 2, (int64_t[]){2, 3});
        unsigned char kept[6 * 8];
        memcpy(kept, data, sizeof data);
        memset(data, 0, sizeof data);
        assert_context_ok(ctx);
        assert_ok(berth_tensor_read(x, found, bytes));
        assert_memory_equal(found, kept, bytes);
        berth_release(x);
    }
    const int64_t large[1] = {INT64_MAX};
    berth_tensor* x = berth_from_data(ctx, large, BERTH_I64, 0, NULL);
    int64_t value = 0;
    assert_ok(berth_tensor_read(x, &value, sizeof value));
    assert_int_equal(value, INT64_MAX);
    berth_release(x);
    x = berth_from_data(ctx, NULL, BERTH_F32, 2, (int64_t[]){0, 3});
    assert_context_ok(ctx);
    berth_release(x);
    assert_null(berth_from_data(ctx, NULL, BERTH_F32, 2, (int64_t[]){2, 3}));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "from_data: the data of 24 bytes is NULL");
    assert_int_equal(ctx->home.live_objects, 0);
}

static void data_enters_planned_steps(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    float data[300];
    for (int round = 0; round < 12; ++round) {
        const int64_t n = 100 + 50 * (round % 5);
        for (int64_t i = 0; i < n; ++i)
            data[i] = (float)(round + 1);
        assert_ok(exec_kit_begin(ctx, "data", n));
        berth_tensor* x = berth_from_data(ctx, data, BERTH_F32, 1, &n);
        berth_tensor* y =
            berth_add(ctx, x, berth_move(berth_from_data(ctx, data, BERTH_F32, 1, &n)));
        assert_context_ok(ctx);
        float found[300];
        assert_ok(berth_tensor_read(y, found, (uint64_t)n * sizeof(float)));
        for (int64_t i = 0; i < n; ++i)
            assert_true(found[i] == 2.0f * (float)(round + 1));
        berth_release_all(x, y);
        assert_ok(berth_step_end(ctx));
    }
    assert_true(exec_kit_counters(kit->runtime, "data").hits > 0);
}

static void sequences_have_the_length_that_is_said(void** state) {
    berth_context* ctx = context_of(state);
    const struct {
        double start, stop, step;
        int64_t count;
    } ranges[] = {
        {0, 5, 1, 5}, {0, 5, 2, 3}, {5, 0, -2, 3}, {0, 5, -1, 0}, {3, 3, 1, 0}, {0, 1, 0.3, 4}};
    for (int t = 0; t < BOOL; ++t) {
        for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; ++r) {
            berth_tensor* x =
                berth_arange(ctx, ranges[r].start, ranges[r].stop, ranges[r].step, plain[t]);
            assert_context_ok(ctx);
            assert_int_equal(berth_tensor_count(x), ranges[r].count);
            assert_int_equal(berth_tensor_rank(x), 1);
            if (ranges[r].count == 3) {
                berth_tensor* last = berth_slice(ctx, x, 0, -1, INT64_MAX, 1);
                const double expected = ranges[r].start + 2 * ranges[r].step;
                assert_true((double)value_of(ctx, last) == expected);
                berth_release(last);
            }
            berth_release(x);
        }
    }
    const double infinite = (double)INFINITY;
    const double bad[][3] = {
        {0, 5, 0}, {0, infinite, 1}, {-infinite, 0, 1}, {0, 5, infinite}, {0, (double)NAN, 1}};
    for (int b = 0; b < 5; ++b) {
        assert_null(berth_arange(ctx, bad[b][0], bad[b][1], bad[b][2], BERTH_F32));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "arange: from ");
    }
    assert_null(berth_arange(ctx, 0, 1e300, 1, BERTH_F32));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "arange: the number of elements");
    assert_null(berth_arange(ctx, 0, 5, 1, BERTH_BOOL));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "arange: bool is not accepted");
    assert_null(berth_arange(ctx, 0, 5, 1, BERTH_Q8_0));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "arange: q8_0");
    assert_null(berth_arange(NULL, 0, 5, 1, BERTH_F32));
    assert_int_equal(ctx->home.live_objects, 0);
}

static void ranges_of_integers_must_fit_the_type(void** state) {
    berth_context* ctx = context_of(state);
    const struct {
        int64_t low, high;
        berth_dtype dtype;
        const char* text; ///< NULL if it fits
    } ranges[] = {
        {-128, 128, BERTH_I8, NULL},
        {-129, 128, BERTH_I8, "randint: [-129, 128) does not fit i8"},
        {-128, 129, BERTH_I8, "does not fit i8"},
        {0, 256, BERTH_U8, NULL},
        {-1, 256, BERTH_U8, "does not fit u8"},
        {0, 257, BERTH_U8, "does not fit u8"},
        {INT32_MIN, (int64_t)INT32_MAX + 1, BERTH_I32, NULL},
        {INT32_MIN, (int64_t)INT32_MAX + 2, BERTH_I32, "does not fit i32"},
        {INT64_MIN, INT64_MAX, BERTH_I64, NULL},
        {5, 5, BERTH_I32, "randint: there is no integer in [5, 5)"},
        {5, -5, BERTH_I32, "there is no integer in [5, -5)"},
        {INT64_MAX, INT64_MIN, BERTH_I64, "there is no integer"},
    };
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; ++r) {
        berth_tensor* x = berth_randint(
            ctx, 7, ranges[r].low, ranges[r].high, ranges[r].dtype, 1, (int64_t[]){3});
        assert_int_equal(x != NULL, ranges[r].text == NULL);
        if (x == NULL) assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, ranges[r].text);
        berth_release(x);
    }
    assert_null(berth_rand(ctx, 1, 0, INFINITY, BERTH_F32, 0, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "rand: a distribution of 0 and inf");
    assert_null(berth_rand(ctx, 1, 2, 1, BERTH_F32, 0, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "rand: there is no number in [2, 1)");
    assert_null(berth_randn(ctx, 1, NAN, 1, BERTH_F32, 0, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "randn: a distribution");
    assert_int_equal(ctx->home.live_objects, 0);
}

/// Each of the functions in turn, many times: some call needs new host memory.
static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    exec_kit kit;
    const berth_option_setting settings[] = {{"threads", "1"}, {"log", "off"}};
    assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
    size_t faults = 0;
    bool has_failed = true;
    for (size_t nth = 1; has_failed; ++nth) {
        static berth_tensor* results[KINDS * 200];
        size_t count = 0;
        failing_host_fail(&host, nth, false);
        for (int round = 0; round < 200; ++round)
            for (int kind = 0; kind < KINDS; ++kind)
                results[count++] = make(
                    kit.ctx, kind, kind == RANDINT ? BERTH_I32 : BERTH_F32, 1, (int64_t[]){50});
        has_failed = failing_host_has_failed(&host);
        failing_host_fail(&host, 0, false);
        assert_int_equal(results[count - 1] == NULL, has_failed);
        if (has_failed) {
            assert_context_fails(kit.ctx, BERTH_ERR_OUT_OF_MEMORY, "memory");
            ++faults;
        }
        berth_release_array(results, count);
        assert_int_equal(kit.ctx->home.live_objects, 0);
    }
    assert_true(faults > 0);
    exec_kit_close(&kit);
    assert_int_equal(atomic_load(&host.live_blocks), 0);
}

/// The copy of host data fails on the device: nothing is left of the tensor.
static void a_failing_copy_is_reported(void** state) {
    (void)state;
    const float data[4] = {1, 2, 3, 4};
    exec_kit kit;
    const berth_option_setting settings[] = {{"device", "sim"}, {"threads", "1"}, {"log", "off"}};
    assert_ok(exec_kit_open(&kit, NULL, settings, 3));
    berth_device* device = kit.ctx->home.stream->device;
    berth_release(berth_from_data(kit.ctx, data, BERTH_F32, 1, (int64_t[]){4})); // memory is there
    assert_context_ok(kit.ctx);
    size_t faults = 0;
    for (size_t nth = 1; nth < 20; ++nth) {
        berth_sim_fail_any(device, nth);
        berth_tensor* x = berth_from_data(kit.ctx, data, BERTH_F32, 1, (int64_t[]){4});
        berth_sim_fail_any(device, 0);
        if (x == NULL) {
            assert_int_not_equal(berth_context_error(kit.ctx), BERTH_OK);
            assert_non_null(strstr(berth_context_error_text(kit.ctx), "from_data: "));
            berth_context_clear_error(kit.ctx);
            ++faults;
        }
        berth_release(x);
        assert_int_equal(kit.ctx->home.live_objects, 0);
    }
    assert_true(faults > 0);
    exec_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(every_type_and_shape_that_is_taken_is_made),
        EXEC_KIT_ON_BOTH(what_cannot_be_made_is_refused_by_name),
        EXEC_KIT_ON_BOTH(a_scalar_has_no_dimensions),
        EXEC_KIT_ON_BOTH(data_of_every_type_is_copied),
        EXEC_KIT_ON_BOTH(data_enters_planned_steps),
        EXEC_KIT_ON_BOTH(sequences_have_the_length_that_is_said),
        EXEC_KIT_ON_BOTH(ranges_of_integers_must_fit_the_type),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
        cmocka_unit_test(a_failing_copy_is_reported),
    };
    return cmocka_run_group_tests_name("creation", tests, NULL, NULL);
}
