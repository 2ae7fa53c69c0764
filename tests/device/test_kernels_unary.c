// SPDX-License-Identifier: Apache-2.0
// AFFINE .. GELU_TANH against arithmetic in double, over types and strides.
#include "device/kernel_kit.h"

static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};

static double unary_reference(berth_op_id op, double x) {
    switch ((int)op) {
    case BERTH_OP_NEG:
        return -x;
    case BERTH_OP_EXP:
        return exp(x);
    case BERTH_OP_SQRT:
        return sqrt(x);
    case BERTH_OP_TANH:
        return tanh(x);
    case BERTH_OP_SIGMOID:
        return 1.0 / (1.0 + exp(-x));
    case BERTH_OP_RELU:
        return x < 0 ? 0 : x;
    case BERTH_OP_SILU:
        return x / (1.0 + exp(-x));
    default:
        return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    }
}

static void check_unary(berth_op_id op, berth_dtype dtype, double low, double high) {
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(4, 11, dims);
    kit_tensor x = kit_strided(dtype, rank, dims, false, true);
    kit_tensor out = kit_contiguous(dtype, rank, dims);
    kit_fill(&x, low, high);
    berth_op_call call = {.input_count = 1, .inputs = {x.view}};
    kit_run_everywhere(op, &call, &out, true, false, NULL);
    // GELU's exponent carries its own error into the result.
    const double relative = op == BERTH_OP_GELU_TANH ? 0x1p-18 : 0x1.8p-22;
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        const double expected = unary_reference(op, kit_get(&x.view, i));
        kit_expect(&out.view, i, expected, kit_tolerance(dtype, expected, relative));
    }
    kit_free(&x);
    kit_free(&out);
}

static void functions_are_right_for_any_strides(void** state) {
    (void)state;
    kit_seed(4);
    for (int op = BERTH_OP_NEG; op <= BERTH_OP_GELU_TANH; ++op) {
        for (int t = 0; t < 3; ++t) {
            for (int round = 0; round < 8; ++round) {
                const double low = op == BERTH_OP_SQRT ? 0 : op == BERTH_OP_GELU_TANH ? -4 : -10;
                check_unary((berth_op_id)op, floats[t], low, 10);
            }
        }
    }
    for (int round = 0; round < 8; ++round) {
        check_unary(BERTH_OP_NEG, BERTH_I32, -1000, 1000);
        check_unary(BERTH_OP_NEG, BERTH_I64, -1000, 1000);
    }
}

static void functions_are_right_at_the_edges(void** state) {
    (void)state;
    const float edges[] = {0.0f,
                           -0.0f,
                           INFINITY,
                           -INFINITY,
                           NAN,
                           88.7f,
                           88.8f,
                           -87.0f,
                           -95.0f,
                           -103.9f,
                           -110.0f,
                           1e-9f,
                           1e-40f,
                           1e30f};
    enum { COUNT = sizeof edges / sizeof edges[0] };
    const int64_t dims[1] = {COUNT};
    kit_tensor x = kit_contiguous(BERTH_F32, 1, dims);
    kit_tensor out = kit_contiguous(BERTH_F32, 1, dims);
    memcpy(x.view.data, edges, sizeof edges);
    berth_op_call call = {.input_count = 1, .inputs = {x.view}};
    const berth_op_id ops[] = {
        BERTH_OP_EXP, BERTH_OP_TANH, BERTH_OP_SIGMOID, BERTH_OP_RELU, BERTH_OP_SQRT};
    for (int o = 0; o < 5; ++o) {
        kit_run_everywhere(ops[o], &call, &out, false, false, NULL);
        for (int i = 0; i < COUNT; ++i) {
            double expected = unary_reference(ops[o], (double)edges[i]);
            if (expected > 0x1.fffffep+127) expected = (double)INFINITY;
            // The power of a large argument is infinite, so a tiny sigmoid is 0.
            const double least = ops[o] == BERTH_OP_SIGMOID ? 0x1p-126 : 0x1p-149;
            kit_expect(&out.view, i, expected, fabs(expected) * 0x1p-21 + least);
        }
    }
    kit_free(&x);
    kit_free(&out);
}

static void exp_is_within_two_units_in_the_last_place(void** state) {
    (void)state;
    enum { COUNT = 200003 };
    const int64_t dims[1] = {COUNT};
    kit_tensor x = kit_contiguous(BERTH_F32, 1, dims);
    kit_tensor out = kit_contiguous(BERTH_F32, 1, dims);
    kit_seed(5);
    kit_fill(&x, -87, 88);
    berth_op_call call = {.input_count = 1, .inputs = {x.view}};
    kit_run_everywhere(BERTH_OP_EXP, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < COUNT; ++i) {
        const double expected = exp(kit_get(&x.view, i));
        kit_expect(&out.view, i, expected, expected * 0x1.4p-23);
    }
    kit_run_everywhere(BERTH_OP_EXP, &call, &x, true, true, NULL); // in place
    assert_memory_equal(x.memory, out.memory, out.bytes + 2 * KIT_GUARD);
    kit_free(&x);
    kit_free(&out);
}

static void affine_scales_and_shifts(void** state) {
    (void)state;
    kit_seed(6);
    const berth_affine_params params = {.scale = -1.75f, .shift = 0.375f};
    for (int t = 0; t < 3; ++t) {
        for (int round = 0; round < 10; ++round) {
            int64_t dims[BERTH_MAX_RANK];
            const int32_t rank = kit_dims(4, 11, dims);
            kit_tensor x = kit_strided(floats[t], rank, dims, false, true);
            kit_tensor out = kit_contiguous(floats[t], rank, dims);
            kit_fill(&x, -3, 3);
            berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
            kit_run_everywhere(BERTH_OP_AFFINE, &call, &out, true, false, NULL);
            for (int64_t i = 0; i < kit_count(&out.view); ++i) {
                const double expected = -1.75 * kit_get(&x.view, i) + 0.375;
                const double tolerance = kit_tolerance(floats[t], expected, 0x1p-23);
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
        cmocka_unit_test(functions_are_right_at_the_edges),
        cmocka_unit_test(exp_is_within_two_units_in_the_last_place),
        cmocka_unit_test(affine_scales_and_shifts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
