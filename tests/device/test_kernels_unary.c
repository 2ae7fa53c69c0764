// SPDX-License-Identifier: Apache-2.0
// AFFINE .. ISFINITE against arithmetic in double and integers, over types and strides.
#include "device/kernel_kit.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
enum { PLAIN = sizeof plain / sizeof plain[0], FLOATS = 3, BOOL = PLAIN - 1 };

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
static double sign_of(double x) { return (x > 0) - (x < 0); }
static double relu(double x) { return x < 0 ? 0 : x; }
static double negated(double x) { return -x; }
static double rsqrt(double x) { return 1.0 / sqrt(x); }
static double reciprocal(double x) { return 1.0 / x; }
static double silu(double x) { return x / (1.0 + exp(-x)); }
static double gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752); }
static double is_zero(double x) { return x == 0; }
static double is_nan(double x) { return isnan(x); }
static double is_inf(double x) { return isinf(x) != 0; }
static double is_finite(double x) { return isfinite(x); }

static double gelu_tanh(double x) {
    return x / (1.0 + exp(-2 * 0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

/// What a function takes, and so gives.
typedef enum domain {
    NUMBERS, ///< floats and integers, in their type
    SIGNS,   ///< bool too
    REALS,   ///< all, as floats
    TESTS,   ///< all, to bool
} domain;

static const struct function {
    berth_op_id op;
    double (*reference)(double x);
    domain domain;
    double low; ///< of the operands to try
    double high;
    double units; ///< how far the result may be off, in units in the last place of f32
    double least; ///< and besides
} functions[] = {
    {BERTH_OP_NEG, negated, NUMBERS, -100, 100, 0, 0},
    {BERTH_OP_ABS, fabs, NUMBERS, -100, 100, 0, 0},
    {BERTH_OP_SIGN, sign_of, SIGNS, -3, 3, 0, 0},
    {BERTH_OP_RELU, relu, NUMBERS, -100, 100, 0, 0},
    {BERTH_OP_FLOOR, floor, NUMBERS, -100, 100, 0, 0},
    {BERTH_OP_CEIL, ceil, NUMBERS, -100, 100, 0, 0},
    {BERTH_OP_ROUND, nearbyint, NUMBERS, -100, 100, 0, 0},
    {BERTH_OP_EXP, exp, REALS, -10, 10, 1.1, 0},
    {BERTH_OP_LOG, log, REALS, 0, 100, 1.5, 0},
    {BERTH_OP_LOG1P, log1p, REALS, -1, 100, 2, 0},
    {BERTH_OP_SQRT, sqrt, REALS, 0, 100, 0.5, 0},
    {BERTH_OP_RSQRT, rsqrt, REALS, 0, 100, 1.5, 0},
    {BERTH_OP_RECIPROCAL, reciprocal, REALS, -100, 100, 0.5, 0},
    {BERTH_OP_SIN, sin, REALS, -100, 100, 1, 0},
    {BERTH_OP_COS, cos, REALS, -100, 100, 1, 0},
    {BERTH_OP_TANH, tanh, REALS, -10, 10, 3, 0},
    {BERTH_OP_SIGMOID, sigmoid, REALS, -10, 10, 2.5, 0x1p-126},
    {BERTH_OP_SILU, silu, REALS, -10, 10, 3, 0x1p-120},
    {BERTH_OP_GELU, gelu, REALS, -10, 10, 6, 0x1p-148},
    // the error of its exponent is that of the result
    {BERTH_OP_GELU_TANH, gelu_tanh, REALS, -10, 10, 256, 0x1p-120},
    {BERTH_OP_LOGICAL_NOT, is_zero, TESTS, -2, 2, 0, 0},
    {BERTH_OP_ISNAN, is_nan, TESTS, -2, 2, 0, 0},
    {BERTH_OP_ISINF, is_inf, TESTS, -2, 2, 0, 0},
    {BERTH_OP_ISFINITE, is_finite, TESTS, -2, 2, 0, 0},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static bool accepts(const struct function* f, berth_dtype dtype) {
    return f->domain != NUMBERS || dtype != BERTH_BOOL;
}

static berth_dtype result_type(const struct function* f, berth_dtype dtype) {
    if (f->domain == TESTS) return BERTH_BOOL;
    return f->domain == REALS && !berth_dtype_is_float(dtype) ? BERTH_F32 : dtype;
}

/// The value that a result of the type has, of what was computed without rounding.
static double expected_of(const struct function* f, berth_dtype result, double x) {
    const double value = f->reference(x);
    if (result == BERTH_F32)
        return fabs(value) > 0x1.fffffep+127 ? copysign((double)INFINITY, value) : value;
    return result == BERTH_U8 ? (double)(uint8_t)(int)value : value;
}

static double tolerance_of(const struct function* f, berth_dtype result, double expected) {
    if (!berth_dtype_is_float(result) || f->units == 0) return 0;
    const double relative = f->units * 0x1p-23;
    if (result != BERTH_F32) return kit_tolerance(result, expected, relative) + f->least;
    int exponent;
    frexp(expected, &exponent);
    return f->units * ldexp(1, exponent > -125 ? exponent - 24 : -149) + f->least;
}

static void check(const struct function* f, const kit_tensor* x, const kit_tensor* out) {
    const berth_dtype result = out->view.dtype;
    for (int64_t i = 0; i < kit_count(&out->view); ++i) {
        const double expected = expected_of(f, result, kit_get(&x->view, i));
        kit_expect(&out->view, i, expected, tolerance_of(f, result, expected));
    }
}

/// Numbers of the function's domain, and now and then one that is none or infinite.
static void fill(const struct function* f, kit_tensor* x) {
    const berth_dtype dtype = x->view.dtype;
    kit_fill(x, dtype == BERTH_U8 && f->low < 0 ? 0 : f->low, f->high);
    if (!berth_dtype_is_float(dtype)) return;
    const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, 0.0, -0.0};
    for (int64_t i = 0; i < kit_count(&x->view); ++i)
        if (kit_int(0, 9) == 0) kit_store(dtype, kit_at(&x->view, i), odd[kit_int(0, 4)]);
}

static void functions_are_right_for_any_strides(void** state) {
    (void)state;
    kit_seed(4);
    for (int n = 0; n < FUNCTIONS; ++n) {
        const struct function* f = &functions[n];
        for (int t = 0; t < PLAIN; ++t) {
            if (!accepts(f, plain[t])) continue;
            for (int round = 0; round < 5; ++round) {
                int64_t dims[BERTH_MAX_RANK];
                const int32_t rank = round == 0 ? 0 : kit_dims(4, 11, dims);
                kit_tensor x = kit_strided(plain[t], rank, dims, false, true);
                kit_tensor out = kit_contiguous(result_type(f, plain[t]), rank, dims);
                fill(f, &x);
                berth_op_call call = {.input_count = 1, .inputs = {x.view}};
                kit_run_everywhere(f->op, &call, &out, true, false, NULL);
                check(f, &x, &out);
                kit_free(&x);
                kit_free(&out);
            }
        }
    }
}

/// A result whose elements have the operand's size may lie in its place, of another type too.
static void an_operand_may_be_overwritten(void** state) {
    (void)state;
    kit_seed(5);
    const int64_t dims[1] = {70001};
    for (int n = 0; n < FUNCTIONS; ++n) {
        const struct function* f = &functions[n];
        for (int t = 0; t < PLAIN; ++t) {
            const berth_dtype result = result_type(f, plain[t]);
            if (!accepts(f, plain[t]) || kit_bytes(result) != kit_bytes(plain[t])) continue;
            kit_tensor x = kit_contiguous(plain[t], 1, dims);
            kit_tensor out = kit_contiguous(result, 1, dims);
            fill(f, &x);
            berth_op_call call = {.input_count = 1, .inputs = {x.view}};
            kit_run_everywhere(f->op, &call, &out, true, false, NULL);
            kit_tensor place = x;
            place.view.dtype = result;
            kit_run_everywhere(f->op, &call, &place, true, true, NULL);
            assert_memory_equal(x.memory, out.memory, out.bytes + 2 * KIT_GUARD);
            kit_free(&x);
            kit_free(&out);
        }
    }
}

/// Bit patterns from everywhere: subnormal and huge numbers, infinities, NaN.
static void functions_of_f32_are_right_over_the_whole_range(void** state) {
    (void)state;
    enum { COUNT = 60007 };
    const int64_t dims[1] = {COUNT};
    kit_seed(6);
    kit_tensor x = kit_contiguous(BERTH_F32, 1, dims);
    kit_tensor out = kit_contiguous(BERTH_F32, 1, dims);
    for (int64_t i = 0; i < COUNT; ++i) {
        const uint32_t bits = (uint32_t)kit_next();
        memcpy(kit_at(&x.view, i), &bits, sizeof bits);
        // half of them where functions bend
        if (i % 2 == 0) kit_store(BERTH_F32, kit_at(&x.view, i), kit_real(-20, 20));
        if (i % 16 == 0) kit_store(BERTH_F32, kit_at(&x.view, i), kit_real(-110, 110));
    }
    for (int n = 0; n < FUNCTIONS; ++n) {
        const struct function* f = &functions[n];
        if (f->domain == TESTS) continue;
        berth_op_call call = {.input_count = 1, .inputs = {x.view}};
        kit_run_everywhere(f->op, &call, &out, true, false, NULL);
        check(f, &x, &out);
    }
    kit_free(&x);
    kit_free(&out);
}

static void angles_of_any_size_have_a_sine(void** state) {
    (void)state;
    enum { COUNT = 40009 };
    const int64_t dims[1] = {COUNT};
    kit_seed(7);
    kit_tensor x = kit_contiguous(BERTH_F32, 1, dims);
    kit_tensor out = kit_contiguous(BERTH_F32, 1, dims);
    for (int64_t i = 0; i < COUNT; ++i) { // near multiples of pi / 2 digits are lost most easily
        const double quarter = floor(exp(kit_real(0, 18))) * 1.5707963267948966;
        kit_store(BERTH_F32, kit_at(&x.view, i), i % 2 == 0 ? quarter : kit_real(-1e6, 1e6));
    }
    ((float*)x.view.data)[0] = 0x1.cd2bbap+21f; // a quarter turn, to 1e-7
    for (int n = 0; n < FUNCTIONS; ++n) {
        const struct function* f = &functions[n];
        if (f->op != BERTH_OP_SIN && f->op != BERTH_OP_COS) continue;
        berth_op_call call = {.input_count = 1, .inputs = {x.view}};
        kit_run_everywhere(f->op, &call, &out, true, false, NULL);
        check(f, &x, &out);
    }
    kit_free(&x);
    kit_free(&out);
}

/// The bits, as zeros and NaN have no other difference.
static void functions_are_as_in_pytorch_at_the_edges(void** state) {
    (void)state;
    const float none = NAN, most = INFINITY;
    const struct {
        berth_op_id op;
        float results[6]; ///< for 0, -0, infinity, -infinity, NaN, -200
    } rows[] = {
        {BERTH_OP_NEG, {-0.0f, 0, -most, most, none, 200}},
        {BERTH_OP_ABS, {0, 0, most, most, none, 200}},
        {BERTH_OP_SIGN, {0, 0, 1, -1, 0, -1}},
        {BERTH_OP_RELU, {0, -0.0f, most, 0, none, 0}},
        {BERTH_OP_FLOOR, {0, -0.0f, most, -most, none, -200}},
        {BERTH_OP_CEIL, {0, -0.0f, most, -most, none, -200}},
        {BERTH_OP_ROUND, {0, -0.0f, most, -most, none, -200}},
        {BERTH_OP_EXP, {1, 1, most, 0, none, 0}},
        {BERTH_OP_LOG, {-most, -most, most, none, none, none}},
        {BERTH_OP_LOG1P, {0, -0.0f, most, none, none, none}},
        {BERTH_OP_SQRT, {0, -0.0f, most, none, none, none}},
        {BERTH_OP_RSQRT, {most, -most, 0, none, none, none}},
        {BERTH_OP_RECIPROCAL, {most, -most, 0, -0.0f, none, -0.005f}},
        {BERTH_OP_SIN, {0, -0.0f, none, none, none, 0.8732973f}},
        {BERTH_OP_COS, {1, 1, none, none, none, 0.48718768f}},
        {BERTH_OP_TANH, {0, -0.0f, 1, -1, none, -1}},
        {BERTH_OP_SIGMOID, {0.5f, 0.5f, 1, 0, none, 0}},
        {BERTH_OP_SILU, {0, -0.0f, most, none, none, -0.0f}},
        {BERTH_OP_GELU, {0, -0.0f, most, none, none, -0.0f}},
        {BERTH_OP_GELU_TANH, {0, -0.0f, most, none, none, -0.0f}},
    };
    const float edges[6] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -200.0f};
    const int64_t dims[1] = {6};
    kit_tensor x = kit_contiguous(BERTH_F32, 1, dims);
    kit_tensor out = kit_contiguous(BERTH_F32, 1, dims);
    memcpy(x.view.data, edges, sizeof edges);
    berth_op_call call = {.input_count = 1, .inputs = {x.view}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; ++r) {
        kit_run_everywhere(rows[r].op, &call, &out, false, false, NULL);
        for (int i = 0; i < 6; ++i) {
            const float found = ((const float*)out.view.data)[i];
            kit_expect(&out.view, i, (double)rows[r].results[i], 0);
            if (!isnan(found)) assert_int_equal(signbit(found), signbit(rows[r].results[i]));
        }
    }
    kit_free(&x);
    kit_free(&out);
}

static void halves_go_to_even_and_fractions_keep_the_sign(void** state) {
    (void)state;
    const float values[8] = {0.5f, 1.5f, -2.5f, -0.3f, 0.7f, -0.7f, 8388607.5f, -4194303.5f};
    const struct {
        berth_op_id op;
        float results[8];
    } rows[] = {
        {BERTH_OP_ROUND, {0, 2, -2, -0.0f, 1, -1, 8388608, -4194304}},
        {BERTH_OP_FLOOR, {0, 1, -3, -1, 0, -1, 8388607, -4194304}},
        {BERTH_OP_CEIL, {1, 2, -2, -0.0f, 1, -0.0f, 8388608, -4194303}},
    };
    const int64_t dims[1] = {8};
    kit_tensor x = kit_contiguous(BERTH_F32, 1, dims);
    kit_tensor out = kit_contiguous(BERTH_F32, 1, dims);
    memcpy(x.view.data, values, sizeof values);
    berth_op_call call = {.input_count = 1, .inputs = {x.view}};
    for (int r = 0; r < 3; ++r) {
        kit_run_everywhere(rows[r].op, &call, &out, true, false, NULL);
        assert_memory_equal(out.view.data, rows[r].results, sizeof rows[r].results);
    }
    kit_free(&x);
    kit_free(&out);
}

static void integers_wrap_at_the_ends_of_their_type(void** state) {
    (void)state;
    const struct {
        berth_dtype dtype;
        int64_t low;
        int64_t high;
    } types[] = {
        {BERTH_I8, INT8_MIN, INT8_MAX},
        {BERTH_U8, 0, UINT8_MAX},
        {BERTH_I32, INT32_MIN, INT32_MAX},
        {BERTH_I64, INT64_MIN, INT64_MAX},
    };
    for (int t = 0; t < 4; ++t) {
        const int64_t low = types[t].low, high = types[t].high;
        const bool is_signed = low < 0;
        const int64_t values[4] = {low, high, low + 1, high - 1};
        const int64_t results[4][4] = {
            {low, is_signed ? low + 1 : 1, is_signed ? high : high, is_signed ? low + 2 : 2},
            {low, high, is_signed ? high : 1, high - 1},
            {is_signed ? -1 : 0, 1, is_signed ? -1 : 1, 1},
            {0, high, is_signed ? 0 : 1, high - 1},
        };
        const int64_t dims[1] = {4};
        kit_tensor x = kit_contiguous(types[t].dtype, 1, dims);
        kit_tensor out = kit_contiguous(types[t].dtype, 1, dims);
        kit_tensor expected = kit_contiguous(types[t].dtype, 1, dims);
        const size_t bytes = kit_bytes(types[t].dtype);
        for (int i = 0; i < 4; ++i) // little-endian, low bytes first
            memcpy(kit_at(&x.view, i), &values[i], bytes);
        berth_op_call call = {.input_count = 1, .inputs = {x.view}};
        const berth_op_id ops[4] = {BERTH_OP_NEG, BERTH_OP_ABS, BERTH_OP_SIGN, BERTH_OP_RELU};
        for (int o = 0; o < 4; ++o) {
            for (int i = 0; i < 4; ++i)
                memcpy(kit_at(&expected.view, i), &results[o][i], bytes);
            kit_run_everywhere(ops[o], &call, &out, true, false, NULL);
            assert_memory_equal(out.view.data, expected.view.data, 4 * bytes);
        }
        kit_free(&x);
        kit_free(&out);
        kit_free(&expected);
    }
}

static void every_half_is_classed(void** state) {
    (void)state;
    const int64_t dims[1] = {65536};
    for (int t = 1; t < FLOATS; ++t) {
        kit_tensor x = kit_contiguous(plain[t], 1, dims);
        kit_tensor out = kit_contiguous(BERTH_BOOL, 1, dims);
        for (int i = 0; i < 65536; ++i)
            ((uint16_t*)x.view.data)[i] = (uint16_t)i;
        for (int n = 0; n < FUNCTIONS; ++n) {
            if (functions[n].domain != TESTS) continue;
            berth_op_call call = {.input_count = 1, .inputs = {x.view}};
            kit_run_everywhere(functions[n].op, &call, &out, true, false, NULL);
            check(&functions[n], &x, &out);
        }
        kit_free(&x);
        kit_free(&out);
    }
}

static void affine_scales_and_shifts(void** state) {
    (void)state;
    kit_seed(8);
    const berth_affine_params params = {.scale = -1.75f, .shift = 0.375f};
    for (int t = 0; t < PLAIN; ++t) {
        for (int round = 0; round < 5; ++round) {
            int64_t dims[BERTH_MAX_RANK];
            const int32_t rank = kit_dims(4, 11, dims);
            const berth_dtype result = berth_dtype_is_float(plain[t]) ? plain[t] : BERTH_F32;
            kit_tensor x = kit_strided(plain[t], rank, dims, false, true);
            kit_tensor out = kit_contiguous(result, rank, dims);
            kit_fill(&x, plain[t] == BERTH_U8 ? 0 : -3, 3);
            berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
            kit_run_everywhere(BERTH_OP_AFFINE, &call, &out, true, false, NULL);
            for (int64_t i = 0; i < kit_count(&out.view); ++i) {
                const double expected = -1.75 * kit_get(&x.view, i) + 0.375;
                const double tolerance = kit_tolerance(result, expected, 0x1p-23);
                kit_expect(&out.view, i, expected, tolerance + 0x1p-22);
            }
            kit_free(&x);
            kit_free(&out);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_right_for_any_strides),
        cmocka_unit_test(an_operand_may_be_overwritten),
        cmocka_unit_test(functions_of_f32_are_right_over_the_whole_range),
        cmocka_unit_test(angles_of_any_size_have_a_sine),
        cmocka_unit_test(functions_are_as_in_pytorch_at_the_edges),
        cmocka_unit_test(halves_go_to_even_and_fractions_keep_the_sign),
        cmocka_unit_test(integers_wrap_at_the_ends_of_their_type),
        cmocka_unit_test(every_half_is_classed),
        cmocka_unit_test(affine_scales_and_shifts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
