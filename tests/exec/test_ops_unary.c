// SPDX-License-Identifier: Apache-2.0
// The public functions of one operand and casts: shapes, types, what is worked on in place,
// refusals.
#include <math.h>
#include <stdio.h>

#include "exec/exec_kit.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
enum { PLAIN = sizeof plain / sizeof plain[0], FLOATS = 3, BOOL = PLAIN - 1 };

typedef enum domain { NUMBERS, SIGNS, REALS, TESTS } domain;

static berth_tensor* half(berth_context* ctx, berth_tensor* x) {
    return berth_affine(ctx, x, 0.5f, 0);
}

static const struct function {
    berth_tensor* (*call)(berth_context* ctx, berth_tensor* x);
    const char* name;
    domain domain;
    float of_one; ///< its value for 1
} functions[] = {
    {half, "affine", REALS, 0.5f},
    {berth_neg, "neg", NUMBERS, -1},
    {berth_abs, "abs", NUMBERS, 1},
    {berth_sign, "sign", SIGNS, 1},
    {berth_relu, "relu", NUMBERS, 1},
    {berth_floor, "floor", NUMBERS, 1},
    {berth_ceil, "ceil", NUMBERS, 1},
    {berth_round, "round", NUMBERS, 1},
    {berth_exp, "exp", REALS, 2.7182817f},
    {berth_log, "log", REALS, 0},
    {berth_log1p, "log1p", REALS, 0.6931472f},
    {berth_sqrt, "sqrt", REALS, 1},
    {berth_rsqrt, "rsqrt", REALS, 1},
    {berth_reciprocal, "reciprocal", REALS, 1},
    {berth_sin, "sin", REALS, 0.84147096f},
    {berth_cos, "cos", REALS, 0.5403023f},
    {berth_tanh, "tanh", REALS, 0.7615942f},
    {berth_sigmoid, "sigmoid", REALS, 0.7310586f},
    {berth_silu, "silu", REALS, 0.7310586f},
    {berth_gelu, "gelu", REALS, 0.8413447f},
    {berth_gelu_tanh, "gelu_tanh", REALS, 0.84119202f},
    {berth_logical_not, "logical_not", TESTS, 0},
    {berth_isnan, "isnan", TESTS, 0},
    {berth_isinf, "isinf", TESTS, 0},
    {berth_isfinite, "isfinite", TESTS, 1},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

static bool accepts(const struct function* f, berth_dtype dtype) {
    return f->domain != NUMBERS || dtype != BERTH_BOOL;
}

static berth_dtype result_type(const struct function* f, berth_dtype dtype) {
    if (f->domain == TESTS) return BERTH_BOOL;
    return f->domain == REALS && !berth_dtype_is_float(dtype) ? BERTH_F32 : dtype;
}

static size_t bytes_of(berth_dtype dtype) { return berth_dtype_info_of(dtype)->block_bytes; }

/// Fails unless every element of x is `expected`, to within half's precision.
static void expect_everywhere(berth_context* ctx, berth_tensor* x, float expected) {
    float values[64];
    berth_tensor* wide = berth_cast(ctx, x, BERTH_F32);
    assert_context_ok(ctx);
    const int64_t count = berth_tensor_count(wide);
    assert_true(count <= 64);
    assert_ok(berth_tensor_read(wide, values, (uint64_t)count * sizeof(float)));
    const float tolerance = berth_tensor_dtype(x) == BERTH_F32 ? 1e-6f : 0.004f;
    for (int64_t i = 0; i < count; ++i)
        if (!(fabsf(values[i] - expected) <= tolerance))
            fail_msg("%.9g, not %.9g", (double)values[i], (double)expected);
    berth_release(wide);
}

static void every_function_gives_the_shape_and_type_that_are_said(void** state) {
    berth_context* ctx = context_of(state);
    const struct {
        int32_t rank;
        int64_t dims[BERTH_MAX_RANK];
    } shapes[] = {
        {0, {0}}, {1, {5}}, {3, {2, 0, 4}}, {4, {3, 1, 2, 5}}, {8, {1, 2, 1, 2, 1, 2, 1, 2}}};
    for (int n = 0; n < FUNCTIONS; ++n) {
        const struct function* f = &functions[n];
        for (int t = 0; t < PLAIN; ++t) {
            if (!accepts(f, plain[t])) continue;
            for (int s = 0; s < 5; ++s) {
                berth_tensor* x = berth_ones(ctx, plain[t], shapes[s].rank, shapes[s].dims);
                berth_tensor* y = f->call(ctx, x);
                assert_context_ok(ctx);
                assert_int_equal(berth_tensor_dtype(y), result_type(f, plain[t]));
                assert_int_equal(berth_tensor_rank(y), shapes[s].rank);
                for (int32_t d = 0; d < shapes[s].rank; ++d)
                    assert_int_equal(berth_tensor_dim(y, d), shapes[s].dims[d]);
                assert_true(berth_tensor_is_contiguous(y));
                const float one = plain[t] == BERTH_U8 && f->call == berth_neg ? 255 : f->of_one;
                expect_everywhere(ctx, y, one);
                expect_everywhere(ctx, x, 1);
                berth_release_all(x, y);
            }
        }
    }
    assert_int_equal(ctx->home.live_objects, 0);
}

static void a_moved_operand_is_taken_where_its_elements_have_the_size(void** state) {
    berth_context* ctx = context_of(state);
    for (int n = 0; n < FUNCTIONS; ++n) {
        const struct function* f = &functions[n];
        for (int t = 0; t < PLAIN; ++t) {
            if (!accepts(f, plain[t])) continue;
            berth_tensor* x = berth_ones(ctx, plain[t], 2, (int64_t[]){3, 5});
            const void* place = exec_kit_place(x);
            berth_tensor* y = f->call(ctx, berth_move(x));
            assert_context_ok(ctx);
            const berth_dtype result = result_type(f, plain[t]);
            assert_int_equal(exec_kit_place(y) == place, bytes_of(result) == bytes_of(plain[t]));
            assert_int_equal(berth_tensor_dtype(y), result);
            const float one = plain[t] == BERTH_U8 && f->call == berth_neg ? 255 : f->of_one;
            expect_everywhere(ctx, y, one);
            berth_release(y);
        }
    }
    assert_int_equal(ctx->home.live_objects, 0);
}

static void a_moved_view_or_shared_operand_is_left_as_it_is(void** state) {
    berth_context* ctx = context_of(state);
    for (int n = 0; n < FUNCTIONS; ++n) {
        berth_tensor* x = berth_ones(ctx, BERTH_F32, 2, (int64_t[]){4, 3});
        berth_tensor* column = berth_slice(ctx, x, 1, 1, 2, 1);
        berth_tensor* y = functions[n].call(ctx, berth_move(column));
        berth_tensor* z = functions[n].call(ctx, berth_move(berth_retain(x)));
        assert_context_ok(ctx);
        expect_everywhere(ctx, x, 1);
        expect_everywhere(ctx, y, functions[n].of_one);
        expect_everywhere(ctx, z, functions[n].of_one);
        berth_release_all(x, y, z);
    }
    assert_int_equal(ctx->home.live_objects, 0);
}

/// What each function says of a type that it does not take; the operand ends with it.
static void types_that_make_no_sense_are_refused_by_name(void** state) {
    berth_context* ctx = context_of(state);
    static unsigned char block[34];
    for (int n = 0; n < FUNCTIONS; ++n) {
        const struct function* f = &functions[n];
        char expected[64];
        berth_tensor* x = berth_tensor_from_memory(
            ctx, block, sizeof block, BERTH_Q8_0, 2, (int64_t[]){1, 32}, true, NULL, NULL);
        assert_null(f->call(ctx, berth_move(x)));
        snprintf(expected, sizeof expected, "%s(q8_0[1, 32]): q8_0", f->name);
        assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, expected);
        if (f->domain == NUMBERS) {
            x = berth_ones(ctx, BERTH_BOOL, 1, (int64_t[]){2});
            assert_null(f->call(ctx, berth_move(x)));
            snprintf(expected, sizeof expected, "%s(bool[2]): bool", f->name);
            assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, expected);
        }
    }
    assert_int_equal(ctx->home.live_objects, 0);
}

static void null_is_answered_by_null(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 3);
    for (int n = 0; n < FUNCTIONS; ++n) {
        char expected[64];
        assert_null(functions[n].call(NULL, x));
        assert_null(functions[n].call(ctx, NULL));
        snprintf(expected, sizeof expected, "%s: operand 0 is NULL", functions[n].name);
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, expected);
    }
    // an error that sticks: moved operands end, nothing is computed
    assert_null(berth_neg(ctx, NULL));
    for (int n = 0; n < FUNCTIONS; ++n)
        assert_null(functions[n].call(ctx, berth_move(berth_retain(x))));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "neg: operand 0 is NULL");
    berth_release(x);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void casts_join_every_pair_of_plain_types(void** state) {
    berth_context* ctx = context_of(state);
    for (int from = 0; from < PLAIN; ++from) {
        for (int to = 0; to < PLAIN; ++to) {
            berth_tensor* x = berth_ones(ctx, plain[from], 2, (int64_t[]){2, 3});
            berth_tensor* turned = berth_transpose(ctx, x, 0, 1);
            berth_tensor* y = berth_cast(ctx, turned, plain[to]);
            assert_context_ok(ctx);
            assert_int_equal(berth_tensor_dtype(y), plain[to]);
            assert_int_equal(berth_tensor_dim(y, 0), 3);
            expect_everywhere(ctx, y, 1);
            berth_release_all(turned, y);
            const void* place = exec_kit_place(x);
            y = berth_cast(ctx, berth_move(x), plain[to]);
            const bool is_same_size = bytes_of(plain[from]) == bytes_of(plain[to]);
            assert_int_equal(exec_kit_place(y) == place, is_same_size);
            expect_everywhere(ctx, y, 1);
            berth_release(y);
        }
    }
    assert_int_equal(ctx->home.live_objects, 0);
}

static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    exec_kit kit;
    const berth_option_setting settings[] = {{"threads", "1"}, {"log", "off"}};
    assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
    berth_context* ctx = kit.ctx;
    size_t faults = 0;
    bool has_failed = true;
    for (size_t nth = 1; has_failed; ++nth) {
        berth_tensor* x = exec_kit_ramp(ctx, 1, 1000);
        // enough objects that some of them need new host memory
        static berth_tensor* results[FUNCTIONS * 64];
        size_t count = 0;
        failing_host_fail(&host, nth, false);
        for (int round = 0; round < 64; ++round)
            for (int n = 0; n < FUNCTIONS; ++n)
                results[count++] = functions[n].call(ctx, x);
        berth_tensor* last = berth_cast(ctx, berth_move(x), BERTH_I32);
        has_failed = failing_host_has_failed(&host);
        failing_host_fail(&host, 0, false);
        // what only makes things faster is done without
        assert_true(last != NULL || has_failed);
        if (last == NULL) {
            assert_context_fails(ctx, BERTH_ERR_OUT_OF_MEMORY, "(f32[1000]): ");
            ++faults;
        }
        berth_release_array(results, count);
        berth_release(last);
        assert_int_equal(ctx->home.live_objects, 0);
    }
    assert_true(faults > 0);
    exec_kit_close(&kit);
    assert_int_equal(atomic_load(&host.live_blocks), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(every_function_gives_the_shape_and_type_that_are_said),
        EXEC_KIT_ON_BOTH(a_moved_operand_is_taken_where_its_elements_have_the_size),
        EXEC_KIT_ON_BOTH(a_moved_view_or_shared_operand_is_left_as_it_is),
        EXEC_KIT_ON_BOTH(types_that_make_no_sense_are_refused_by_name),
        EXEC_KIT_ON_BOTH(null_is_answered_by_null),
        EXEC_KIT_ON_BOTH(casts_join_every_pair_of_plain_types),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
    };
    return cmocka_run_group_tests_name("functions of one operand", tests, NULL, NULL);
}
