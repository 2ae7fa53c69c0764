// SPDX-License-Identifier: Apache-2.0
// The public reductions, running sums and norms: shapes, types, places, refusals.
#include <math.h>

#include "exec/exec_kit.h"

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

typedef berth_tensor* (*reduction)(berth_context*, berth_tensor*, berth_dims, bool);
typedef berth_tensor* (*along)(berth_context*, berth_tensor*, int32_t);

static berth_tensor* var_of_all(berth_context* ctx, berth_tensor* x, berth_dims dims, bool keep) {
    return berth_var(ctx, x, dims, 1, keep);
}

/// Every op over any set of dimensions; the last three take floats only.
static const struct {
    const char* name;
    reduction run;
} reductions[] = {
    {"sum", berth_sum},
    {"prod", berth_prod},
    {"max", berth_max},
    {"min", berth_min},
    {"any", berth_any},
    {"all", berth_all},
    {"mean", berth_mean},
    {"var", var_of_all},
    {"logsumexp", berth_logsumexp},
};
enum { REDUCTIONS = sizeof reductions / sizeof reductions[0], OF_INTEGERS = 6 };

static const struct {
    const char* name;
    along run;
} lines[] = {
    {"softmax", berth_softmax}, {"log_softmax", berth_log_softmax}, {"cumsum", berth_cumsum}};

/// A tensor of `dtype` with values first, first + 1, ...
static berth_tensor* ramp(
    berth_context* ctx, berth_dtype dtype, float first, int32_t rank, const int64_t* dims) {
    int64_t count = 1;
    for (int32_t i = 0; i < rank; ++i)
        count *= dims[i];
    berth_tensor* x = berth_move(exec_kit_ramp(ctx, first, count));
    return berth_cast(ctx, berth_move(berth_reshape(ctx, x, rank, dims)), dtype);
}

static void expect_shape(const berth_tensor* x,
                         berth_dtype dtype,
                         int32_t rank,
                         const int64_t* dims) {
    assert_non_null(x);
    assert_int_equal(berth_tensor_dtype(x), dtype);
    assert_int_equal(berth_tensor_rank(x), rank);
    for (int32_t i = 0; i < rank; ++i)
        assert_int_equal(berth_tensor_dim(x, i), dims[i]);
}

/// Checks type and values of a tensor, and ends it.
static void expect(
    berth_context* ctx, berth_tensor* x, berth_dtype dtype, int64_t count, const float* values) {
    assert_context_ok(ctx);
    assert_non_null(x);
    assert_int_equal(berth_tensor_dtype(x), dtype);
    assert_int_equal(berth_tensor_count(x), count);
    berth_tensor* wide = berth_cast(ctx, x, BERTH_F32);
    exec_kit_expect(wide, values, (size_t)count);
    berth_release_all(wide, x);
}

/// As expect, to within some units in the last place.
static void expect_near(berth_tensor* x, int64_t count, const float* values) {
    float found[64];
    assert_non_null(x);
    assert_int_equal(berth_tensor_count(x), count);
    assert_ok(berth_tensor_read(x, found, (size_t)count * sizeof(float)));
    for (int64_t i = 0; i < count; ++i)
        if (!(fabsf(found[i] - values[i]) <= 4e-7f * (1 + fabsf(values[i]))))
            fail_msg("element %d is %g, not %g", (int)i, (double)found[i], (double)values[i]);
    berth_release(x);
}

static void expect_nothing_left(berth_context* ctx) {
    assert_context_ok(ctx);
    assert_int_equal(ctx->home.live_objects, 0);
}

// --- Shapes and types ----------------------------------------------------------------------------

static void named_dimensions_are_dropped_or_kept_with_size_1(void** state) {
    berth_context* ctx = context_of(state);
    const struct {
        berth_dims dims;
        bool keepdim;
        int32_t rank;
        int64_t result[3];
    } cases[] = {
        {BERTH_DIMS(0), false, 2, {3, 4}},
        {BERTH_DIMS(1), true, 3, {2, 1, 4}},
        {BERTH_DIMS(-1), false, 2, {2, 3}},
        {BERTH_DIMS(0, 2), false, 1, {3}},
        {BERTH_DIMS(-1, 0), true, 3, {1, 3, 1}},
        {BERTH_DIMS(2, 0, 1), false, 0, {0}},
        {BERTH_ALL_DIMS, false, 0, {0}},
        {BERTH_ALL_DIMS, true, 3, {1, 1, 1}},
    };
    berth_tensor* x = ramp(ctx, BERTH_F32, 1, 3, (int64_t[]){2, 3, 4});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        for (int op = 0; op < REDUCTIONS; ++op) {
            berth_tensor* y = reductions[op].run(ctx, x, cases[i].dims, cases[i].keepdim);
            const bool is_bool = op == 4 || op == 5;
            expect_shape(y, is_bool ? BERTH_BOOL : BERTH_F32, cases[i].rank, cases[i].result);
            berth_release(y);
        }
    }
    berth_tensor* place = berth_argmax(ctx, x, 1, false);
    berth_tensor* kept = berth_argmin(ctx, x, -3, true);
    expect_shape(place, BERTH_I64, 2, (int64_t[]){2, 4});
    expect_shape(kept, BERTH_I64, 3, (int64_t[]){1, 3, 4});
    berth_release_all(x, place, kept);
    expect_nothing_left(ctx);
}

static void sums_of_integers_are_i64_and_extremes_keep_their_type(void** state) {
    berth_context* ctx = context_of(state);
    static const berth_dtype types[] = {
        BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL, BERTH_F32, BERTH_F16, BERTH_BF16};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
        const bool is_float = berth_dtype_query_info(types[i])->kind == BERTH_DTYPE_KIND_F;
        const berth_dtype summed = is_float ? types[i] : BERTH_I64;
        const bool is_bool = types[i] == BERTH_BOOL;
        berth_tensor* x = ramp(ctx, types[i], 0, 1, (int64_t[]){5});
        const float most = is_bool ? 1 : 4;
        expect(
            ctx, berth_sum(ctx, x, BERTH_ALL_DIMS, false), summed, 1, (float[]){is_bool ? 4 : 10});
        expect(ctx, berth_prod(ctx, x, BERTH_ALL_DIMS, false), summed, 1, (float[]){0});
        expect(ctx, berth_max(ctx, x, BERTH_ALL_DIMS, false), types[i], 1, &most);
        expect(ctx, berth_min(ctx, x, BERTH_ALL_DIMS, false), types[i], 1, (float[]){0});
        expect(ctx, berth_any(ctx, x, BERTH_ALL_DIMS, false), BERTH_BOOL, 1, (float[]){1});
        expect(ctx, berth_all(ctx, x, BERTH_ALL_DIMS, false), BERTH_BOOL, 1, (float[]){0});
        expect(ctx, berth_argmax(ctx, x, 0, false), BERTH_I64, 1, (float[]){is_bool ? 1 : 4});
        expect(ctx, berth_argmin(ctx, x, 0, false), BERTH_I64, 1, (float[]){0});
        const float sums[2][5] = {{0, 1, 3, 6, 10}, {0, 1, 2, 3, 4}};
        expect(ctx, berth_cumsum(ctx, x, 0), summed, 5, sums[is_bool]);
        berth_release(x);
    }
    expect_nothing_left(ctx);
}

static void small_results_are_those_of_the_definitions(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ramp(ctx, BERTH_F32, 1, 2, (int64_t[]){2, 3}); // 1 2 3; 4 5 6
    expect(
        ctx, berth_mean(ctx, x, BERTH_DIMS(0), false), BERTH_F32, 3, (float[]){2.5f, 3.5f, 4.5f});
    expect(ctx, berth_var(ctx, x, BERTH_DIMS(1), 1, false), BERTH_F32, 2, (float[]){1, 1});
    expect(ctx,
           berth_var(ctx, x, BERTH_DIMS(0), 0, true),
           BERTH_F32,
           3,
           (float[]){2.25f, 2.25f, 2.25f});
    expect(ctx, berth_prod(ctx, x, BERTH_DIMS(1), false), BERTH_F32, 2, (float[]){6, 120});
    expect(ctx, berth_cumsum(ctx, x, 0), BERTH_F32, 6, (float[]){1, 2, 3, 5, 7, 9});
    expect(ctx, berth_cumsum(ctx, x, -1), BERTH_F32, 6, (float[]){1, 3, 6, 4, 9, 15});
    expect_near(
        berth_logsumexp(ctx, x, BERTH_DIMS(1), false), 2, (float[]){3.40760596f, 6.40760596f});
    expect_near(
        berth_softmax(ctx, x, 1),
        6,
        (float[]){0.09003057f, 0.24472847f, 0.66524096f, 0.09003057f, 0.24472847f, 0.66524096f});
    expect_near(
        berth_log_softmax(ctx, x, 1),
        6,
        (float[]){
            -2.40760596f, -1.40760596f, -0.40760596f, -2.40760596f, -1.40760596f, -0.40760596f});
    berth_tensor* turned = berth_transpose(ctx, x, 0, 1);
    expect(ctx, berth_sum(ctx, turned, BERTH_DIMS(0), false), BERTH_F32, 2, (float[]){6, 15});
    expect(ctx, berth_argmax(ctx, turned, 1, false), BERTH_I64, 3, (float[]){1, 1, 1});
    berth_release_all(x, turned);
    expect_nothing_left(ctx);
}

static void a_tensor_of_rank_0_has_a_dimension_0_for_reductions(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_full(ctx, 3, BERTH_F32, 0, NULL);
    const float sums[3] = {3, 3, 3};
    expect(ctx, berth_sum(ctx, x, BERTH_ALL_DIMS, true), BERTH_F32, 1, sums);
    expect(ctx, berth_sum(ctx, x, BERTH_DIMS(0), false), BERTH_F32, 1, sums);
    expect(ctx, berth_max(ctx, x, BERTH_DIMS(-1), false), BERTH_F32, 1, sums);
    expect(ctx, berth_argmax(ctx, x, 0, false), BERTH_I64, 1, (float[]){0});
    expect(ctx, berth_cumsum(ctx, x, -1), BERTH_F32, 1, sums);
    expect(ctx, berth_softmax(ctx, x, 0), BERTH_F32, 1, (float[]){1});
    assert_null(berth_sum(ctx, x, BERTH_DIMS(1), false));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "there is no dimension 1 among 0");
    assert_null(berth_sum(ctx, x, BERTH_DIMS(0, -1), false));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "dimension -1 is named twice");
    berth_release(x);
    expect_nothing_left(ctx);
}

static void a_reduction_of_nothing_is_what_pytorch_says(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){2, 0});
    expect(ctx, berth_sum(ctx, x, BERTH_DIMS(1), false), BERTH_F32, 2, (float[]){0, 0});
    expect(ctx, berth_prod(ctx, x, BERTH_DIMS(1), false), BERTH_F32, 2, (float[]){1, 1});
    expect(ctx, berth_any(ctx, x, BERTH_ALL_DIMS, false), BERTH_BOOL, 1, (float[]){0});
    expect(ctx, berth_all(ctx, x, BERTH_ALL_DIMS, false), BERTH_BOOL, 1, (float[]){1});
    expect(ctx,
           berth_logsumexp(ctx, x, BERTH_DIMS(1), false),
           BERTH_F32,
           2,
           (float[]){-INFINITY, -INFINITY});
    // a result without elements needs none to take
    expect(ctx, berth_max(ctx, x, BERTH_DIMS(0), false), BERTH_F32, 0, NULL);
    expect(ctx, berth_argmin(ctx, x, 0, true), BERTH_I64, 0, NULL);
    expect(ctx, berth_softmax(ctx, x, 1), BERTH_F32, 0, NULL);
    expect(ctx, berth_cumsum(ctx, x, 1), BERTH_F32, 0, NULL);
    berth_tensor* mean = berth_mean(ctx, x, BERTH_DIMS(1), false);
    float values[2];
    assert_ok(berth_tensor_read(mean, values, sizeof values));
    assert_true(isnan(values[0]) && isnan(values[1]));
    berth_release_all(x, mean);
    expect_nothing_left(ctx);
}

// --- Norms ---------------------------------------------------------------------------------------

static void norms_take_their_weights_or_none(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ramp(ctx, BERTH_F32, 1, 2, (int64_t[]){2, 2}); // 1 2; 3 4
    berth_tensor* weight = ramp(ctx, BERTH_F16, 2, 1, (int64_t[]){2});
    berth_tensor* bias = ramp(ctx, BERTH_F32, 10, 1, (int64_t[]){2});
    expect_near(berth_layer_norm(ctx, x, NULL, NULL, 0), 4, (float[]){-1, 1, -1, 1});
    expect_near(berth_layer_norm(ctx, x, weight, NULL, 0), 4, (float[]){-2, 3, -2, 3});
    expect_near(berth_layer_norm(ctx, x, NULL, bias, 0), 4, (float[]){9, 12, 9, 12});
    expect_near(berth_layer_norm(ctx, x, weight, bias, 0), 4, (float[]){8, 14, 8, 14});
    const float roots[4] = {0.63245553f, 1.26491106f, 0.84852814f, 1.13137085f};
    const float scaled[4] = {1.26491106f, 3.79473319f, 1.69705627f, 3.39411255f};
    expect_near(berth_rms_norm(ctx, x, NULL, 0), 4, roots);
    expect_near(berth_rms_norm(ctx, x, weight, 0), 4, scaled);
    berth_tensor* turned = berth_transpose(ctx, x, 0, 1);
    expect_near(berth_layer_norm(ctx, turned, NULL, NULL, 0), 4, (float[]){-1, 1, -1, 1});
    berth_release_all(x, weight, bias, turned);
    expect_nothing_left(ctx);
}

// --- Places --------------------------------------------------------------------------------------

/// Applies one of the ops that may work in place.
static berth_tensor* apply(berth_context* ctx, int op, berth_tensor* x) {
    if (op < 3) return lines[op].run(ctx, x, -1);
    return op == 3 ? berth_layer_norm(ctx, x, NULL, NULL, 1e-5f)
                   : berth_rms_norm(ctx, x, NULL, 1e-5f);
}

static void a_moved_operand_is_taken_by_ops_that_keep_its_shape(void** state) {
    berth_context* ctx = context_of(state);
    static const berth_dtype types[] = {BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I64, BERTH_I32};
    for (int op = 0; op < 5; ++op) {
        for (int t = 0; t < 5; ++t) {
            if (t > 2 && op != 2) continue;
            berth_tensor* x = ramp(ctx, types[t], 1, 2, (int64_t[]){5, 7});
            berth_tensor* expected = apply(ctx, op, x);
            const void* place = exec_kit_place(x);
            berth_tensor* y = apply(ctx, op, berth_move(x));
            // a sum of i32 has wider elements
            assert_int_equal(exec_kit_place(y) == place, types[t] != BERTH_I32);
            unsigned char want[5 * 7 * 8], found[5 * 7 * 8];
            const uint64_t bytes = berth_tensor_bytes(expected);
            assert_ok(berth_tensor_read(expected, want, bytes));
            assert_ok(berth_tensor_read(y, found, bytes));
            assert_memory_equal(found, want, bytes);
            berth_release_all(expected, y);
            expect_nothing_left(ctx);
        }
    }
}

static void an_operand_that_somebody_holds_is_left_alone(void** state) {
    berth_context* ctx = context_of(state);
    for (int op = 0; op < 5; ++op) {
        berth_tensor* x = ramp(ctx, BERTH_F32, 1, 1, (int64_t[]){6});
        berth_tensor* view = berth_slice(ctx, x, 0, 0, 6, 1);
        berth_tensor* held = apply(ctx, op, x);
        berth_tensor* shared = apply(ctx, op, berth_move(view));
        assert_ptr_not_equal(exec_kit_place(held), exec_kit_place(x));
        assert_ptr_not_equal(exec_kit_place(shared), exec_kit_place(x));
        exec_kit_expect(x, (float[]){1, 2, 3, 4, 5, 6}, 6);
        berth_release_all(x, held, shared);
        expect_nothing_left(ctx);
    }
}

// --- Threads -------------------------------------------------------------------------------------

/// The bytes of all results for one large operand, with `threads` threads.
static size_t results_with(const char* threads, unsigned char* out) {
    const berth_option_setting settings[] = {{"device", "cpu"}, {"threads", threads}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, settings, 2));
    size_t used = 0;
    const berth_dims sets[] = {BERTH_ALL_DIMS, BERTH_DIMS(0), BERTH_DIMS(0, 2)};
    berth_tensor* x = berth_randn(kit.ctx, 7, 0, 1, BERTH_F32, 3, (int64_t[]){70, 50, 61});
    for (int op = 0; op < REDUCTIONS; ++op) {
        for (int s = 0; s < 3; ++s) {
            berth_tensor* y = reductions[op].run(kit.ctx, x, sets[s], false);
            assert_non_null(y);
            assert_ok(berth_tensor_read(y, out + used, berth_tensor_bytes(y)));
            used += berth_tensor_bytes(y);
            berth_release(y);
        }
    }
    berth_release(x);
    exec_kit_close(&kit);
    return used;
}

static void results_have_the_same_bits_for_every_number_of_threads(void** state) {
    (void)state;
    enum { MOST = REDUCTIONS * 4 * (1 + 50 * 61 + 50) };
    static unsigned char alone[MOST], together[MOST];
    const size_t used = results_with("1", alone);
    for (int threads = 2; threads < 5; ++threads) {
        const char text[2] = {(char)('0' + threads), '\0'};
        assert_int_equal(results_with(text, together), used);
        assert_memory_equal(together, alone, used);
    }
}

// --- Refusals ------------------------------------------------------------------------------------

static void dimensions_that_make_no_sense_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ramp(ctx, BERTH_F32, 1, 2, (int64_t[]){2, 3});
    for (int op = 0; op < REDUCTIONS; ++op) {
        assert_null(reductions[op].run(ctx, x, BERTH_DIMS(0, 2), false));
        assert_true(strncmp(berth_context_error_text(ctx),
                            reductions[op].name,
                            strlen(reductions[op].name)) == 0);
        assert_context_fails(
            ctx, BERTH_ERR_INVALID_ARGUMENT, "(f32[2, 3]): there is no dimension 2 among 2");
        assert_null(reductions[op].run(ctx, x, BERTH_DIMS(-3), false));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "there is no dimension -3");
        assert_null(reductions[op].run(ctx, x, BERTH_DIMS(1, -1), false));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "dimension -1 is named twice");
        assert_null(reductions[op].run(ctx, x, (berth_dims){.count = 9}, false));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "9 dimensions are named, 0 .. 8");
        assert_null(reductions[op].run(ctx, x, (berth_dims){.count = -1}, false));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "-1 dimensions are named");
    }
    for (int op = 0; op < 3; ++op) {
        assert_null(lines[op].run(ctx, x, 2));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, lines[op].name);
    }
    assert_null(berth_argmax(ctx, x, INT32_MIN, false));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "argmax(f32[2, 3]): there is no dimension -2147483648");
    assert_null(berth_argmin(ctx, x, 5, false));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "argmin(f32[2, 3])");
    berth_release(x);
    expect_nothing_left(ctx);
}

static void types_without_a_meaning_are_refused_by_name(void** state) {
    berth_context* ctx = context_of(state);
    static unsigned char blocks[34];
    berth_tensor* x = berth_zeros(ctx, BERTH_I32, 1, (int64_t[]){4});
    berth_tensor* q = berth_tensor_from_memory(
        ctx, blocks, sizeof blocks, BERTH_Q8_0, 1, (int64_t[]){32}, true, NULL, NULL);
    for (int op = 0; op < REDUCTIONS; ++op) {
        if (op >= OF_INTEGERS) {
            assert_null(reductions[op].run(ctx, x, BERTH_ALL_DIMS, false));
            assert_context_fails(
                ctx, BERTH_ERR_UNSUPPORTED, "(i32[4]): i32 is not accepted here: f32, f16 or bf16");
        }
        assert_null(reductions[op].run(ctx, q, BERTH_ALL_DIMS, false));
        assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "q8_0 is not accepted here");
    }
    for (int op = 0; op < 5; ++op) {
        assert_null(apply(ctx, op, q));
        assert_int_equal(berth_context_error(ctx), BERTH_ERR_UNSUPPORTED);
        berth_context_clear_error(ctx);
        if (op == 2) continue;
        assert_null(apply(ctx, op, x));
        assert_int_equal(berth_context_error(ctx), BERTH_ERR_UNSUPPORTED);
        berth_context_clear_error(ctx);
    }
    assert_null(berth_argmax(ctx, q, 0, false));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "argmax(q8_0[32]): q8_0 is not accepted");
    berth_release_all(x, q);
    expect_nothing_left(ctx);
}

static void an_extreme_of_nothing_is_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_zeros(ctx, BERTH_I32, 2, (int64_t[]){2, 0});
    assert_null(berth_max(ctx, x, BERTH_ALL_DIMS, false));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "max(i32[2, 0]): dimension 1 is empty");
    assert_null(berth_min(ctx, x, BERTH_DIMS(1), true));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "min(i32[2, 0]): dimension 1 is empty");
    assert_null(berth_argmax(ctx, x, 1, false));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "there is no element to take");
    berth_release(x);
    expect_nothing_left(ctx);
}

static void operands_of_norms_that_do_not_fit_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ramp(ctx, BERTH_F32, 1, 2, (int64_t[]){2, 3});
    berth_tensor* four = ramp(ctx, BERTH_F32, 1, 1, (int64_t[]){4});
    berth_tensor* ints = ramp(ctx, BERTH_I32, 1, 1, (int64_t[]){3});
    berth_tensor* good = ramp(ctx, BERTH_F32, 1, 1, (int64_t[]){3});
    berth_tensor* scalar = berth_full(ctx, 1, BERTH_F32, 0, NULL);
    assert_null(berth_layer_norm(ctx, x, four, good, 0));
    assert_context_fails(ctx,
                         BERTH_ERR_INVALID_ARGUMENT,
                         "layer_norm(f32[2, 3], f32[4], f32[3]): weight must have one dimension");
    assert_null(berth_layer_norm(ctx, x, good, four, 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "bias must have one dimension");
    assert_null(berth_layer_norm(ctx, x, NULL, ints, 0));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "bias must be f32, f16 or bf16");
    assert_null(berth_rms_norm(ctx, x, ints, 0));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "rms_norm(f32[2, 3], i32[3]): weight must be");
    assert_null(berth_rms_norm(ctx, scalar, NULL, 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "x needs at least one dimension");
    const float wrong[3] = {-1e-6f, NAN, INFINITY};
    for (int i = 0; i < 3; ++i) {
        assert_null(berth_layer_norm(ctx, x, NULL, NULL, wrong[i]));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "eps must be finite and >= 0");
        assert_null(berth_rms_norm(ctx, x, good, wrong[i]));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "eps must be finite and >= 0");
    }
    assert_null(berth_var(ctx, x, BERTH_ALL_DIMS, (double)NAN, false));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "correction nan is not finite");
    berth_release_all(x, four, ints, good, scalar);
    expect_nothing_left(ctx);
}

static void a_missing_operand_is_an_error_and_moved_ones_are_consumed(void** state) {
    berth_context* ctx = context_of(state);
    for (int op = 0; op < REDUCTIONS; ++op) {
        assert_null(reductions[op].run(ctx, NULL, BERTH_ALL_DIMS, false));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "operand 0 is NULL");
        assert_null(reductions[op].run(NULL, NULL, BERTH_ALL_DIMS, false));
        berth_tensor* x = ramp(ctx, BERTH_F32, 1, 1, (int64_t[]){4});
        assert_null(reductions[op].run(ctx, berth_move(x), BERTH_DIMS(1), false));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "there is no dimension 1");
        assert_int_equal(ctx->home.live_objects, 0);
        x = berth_move(ramp(ctx, BERTH_F32, 1, 1, (int64_t[]){4}));
        berth_release(reductions[op].run(ctx, x, BERTH_ALL_DIMS, false));
        expect_nothing_left(ctx);
    }
    for (int op = 0; op < 5; ++op) {
        assert_null(apply(ctx, op, NULL));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "operand 0 is NULL");
        assert_null(apply(NULL, op, NULL));
    }
    berth_tensor* x = ramp(ctx, BERTH_F32, 1, 1, (int64_t[]){4});
    berth_tensor* weight = ramp(ctx, BERTH_F32, 1, 1, (int64_t[]){5});
    berth_tensor* bias = ramp(ctx, BERTH_F32, 1, 1, (int64_t[]){4});
    assert_null(berth_layer_norm(ctx, berth_move(x), berth_move(weight), berth_move(bias), 1e-5f));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "weight must have one dimension");
    expect_nothing_left(ctx);
}

// --- Failures below ------------------------------------------------------------------------------

/// A chain through every op; NULL if one fails.
static berth_tensor* run_all(berth_context* ctx) {
    berth_tensor* x = ramp(ctx, BERTH_F32, 1, 2, (int64_t[]){4, 6});
    berth_tensor* weight = ramp(ctx, BERTH_F32, 1, 1, (int64_t[]){6});
    for (int op = 0; op < 3; ++op)
        x = lines[op].run(ctx, berth_move(x), -1);
    x = berth_layer_norm(ctx, berth_move(x), weight, weight, 1e-5f);
    x = berth_rms_norm(ctx, berth_move(x), berth_move(weight), 1e-5f);
    berth_release_all(berth_argmax(ctx, x, 0, false), berth_argmin(ctx, x, 1, true));
    for (int op = 0; op < REDUCTIONS; ++op)
        berth_release(reductions[op].run(ctx, x, BERTH_DIMS(op % 2), op % 3 == 0));
    return berth_sum(ctx, berth_move(x), BERTH_ALL_DIMS, false);
}

static void a_failed_allocation_leaves_nothing_behind(void** state) {
    (void)state;
    exec_kit_fail_every_allocation("cpu", run_all);
    exec_kit_fail_every_allocation("sim", run_all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(named_dimensions_are_dropped_or_kept_with_size_1),
        EXEC_KIT_ON_BOTH(sums_of_integers_are_i64_and_extremes_keep_their_type),
        EXEC_KIT_ON_BOTH(small_results_are_those_of_the_definitions),
        EXEC_KIT_ON_BOTH(a_tensor_of_rank_0_has_a_dimension_0_for_reductions),
        EXEC_KIT_ON_BOTH(a_reduction_of_nothing_is_what_pytorch_says),
        EXEC_KIT_ON_BOTH(norms_take_their_weights_or_none),
        EXEC_KIT_ON_BOTH(a_moved_operand_is_taken_by_ops_that_keep_its_shape),
        EXEC_KIT_ON_BOTH(an_operand_that_somebody_holds_is_left_alone),
        cmocka_unit_test(results_have_the_same_bits_for_every_number_of_threads),
        EXEC_KIT_ON_BOTH(dimensions_that_make_no_sense_are_refused),
        EXEC_KIT_ON_BOTH(types_without_a_meaning_are_refused_by_name),
        EXEC_KIT_ON_BOTH(an_extreme_of_nothing_is_refused),
        EXEC_KIT_ON_BOTH(operands_of_norms_that_do_not_fit_are_refused),
        EXEC_KIT_ON_BOTH(a_missing_operand_is_an_error_and_moved_ones_are_consumed),
        cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
