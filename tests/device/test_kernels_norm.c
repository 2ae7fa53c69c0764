// SPDX-License-Identifier: Apache-2.0
// RMS_NORM LAYER_NORM against arithmetic in double.
#include "device/kernel_kit.h"

static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};
static const berth_op_id ops[] = {BERTH_OP_RMS_NORM, BERTH_OP_LAYER_NORM};

/// Operands of one call; `weight` and `bias` may be missing.
typedef struct norm_case {
    berth_op_id op;
    kit_tensor x;
    kit_tensor weight;
    kit_tensor bias;
    berth_norm_params params;
} norm_case;

static berth_op_call call_of(const norm_case* c) {
    berth_op_call call = {.input_count = 1, .inputs = {c->x.view}, .params = &c->params};
    if (c->params.has_weight) call.inputs[call.input_count++] = c->weight.view;
    if (c->params.has_bias) call.inputs[call.input_count++] = c->bias.view;
    return call;
}

static void free_case(norm_case* c) {
    kit_free(&c->x);
    kit_free(&c->weight);
    kit_free(&c->bias);
}

/// Random operands of any strides for x of `dtype`.
static norm_case make_case(berth_op_id op, berth_dtype dtype, int32_t rank, const int64_t* dims) {
    norm_case c = {.op = op, .params = {.eps = 1e-5f}};
    c.params.has_weight = kit_int(0, 3) > 0;
    c.params.has_bias = op == BERTH_OP_LAYER_NORM && kit_int(0, 2) > 0;
    c.x = kit_strided(dtype, rank, dims, false, true);
    c.weight = kit_strided(floats[kit_int(0, 2)], 1, dims + rank - 1, false, true);
    c.bias = kit_strided(floats[kit_int(0, 2)], 1, dims + rank - 1, false, true);
    kit_fill(&c.x, -3, 5);
    kit_fill(&c.weight, -2, 2);
    kit_fill(&c.bias, -2, 2);
    return c;
}

/// What is subtracted from a row and what that is multiplied by.
static void row_reference(const norm_case* c, int64_t begin, double* out_mean, double* out_scale) {
    const int64_t width = c->x.view.dims[c->x.view.rank - 1];
    double mean = 0, squares = 0;
    for (int64_t j = 0; j < width && c->op == BERTH_OP_LAYER_NORM; ++j)
        mean += kit_get(&c->x.view, begin + j) / (double)width;
    for (int64_t j = 0; j < width; ++j)
        squares += pow(kit_get(&c->x.view, begin + j) - mean, 2) / (double)width;
    *out_mean = mean;
    *out_scale = 1.0 / sqrt(squares + (double)c->params.eps);
}

static void check(const norm_case* c) {
    const berth_view* x = &c->x.view;
    const int64_t width = x->dims[x->rank - 1];
    kit_tensor out = kit_contiguous(x->dtype, x->rank, x->dims);
    berth_op_call call = call_of(c);
    kit_run_everywhere(c->op, &call, &out, true, false, NULL);
    double mean = 0, scale = 0;
    for (int64_t i = 0; i < kit_count(x); ++i) {
        if (i % width == 0) row_reference(c, i, &mean, &scale);
        const double weight = c->params.has_weight ? kit_get(&c->weight.view, i % width) : 1;
        const double bias = c->params.has_bias ? kit_get(&c->bias.view, i % width) : 0;
        const double product = (kit_get(x, i) - mean) * scale * weight;
        // three roundings, the sums' error, and what two f32 leave out of the mean
        const double tolerance = 0x1p-20 * fabs(product) + 0x1p-23 * fabs(bias) +
                                 0x1p-44 * (fabs(mean) + 1) * scale * fabs(weight);
        kit_expect(
            &out.view, i, product + bias, kit_tolerance(x->dtype, product + bias, 0) + tolerance);
    }
    kit_free(&out);
}

static void norms_of_rows_of_any_strides(void** state) {
    (void)state;
    kit_seed(6);
    for (int op = 0; op < 2; ++op) {
        for (int t = 0; t < 3; ++t) {
            for (int round = 0; round < 16; ++round) {
                int64_t dims[BERTH_MAX_RANK];
                const int32_t rank = kit_dims(4, 40, dims);
                for (int32_t d = 0; d < rank - 1; ++d)
                    dims[d] = dims[d] % 6;
                norm_case c = make_case(ops[op], floats[t], rank, dims);
                check(&c);
                free_case(&c);
            }
            static const int64_t large[][2] = {{65, 1600}, {150, 700}, {70, 2048}};
            for (int s = 0; s < 3; ++s) {
                norm_case c = make_case(ops[op], floats[t], 2, large[s]);
                check(&c);
                free_case(&c);
            }
        }
    }
}

static void a_row_is_normed_alike_alone_and_among_others(void** state) {
    (void)state;
    kit_seed(7);
    const int64_t dims[2] = {150, 577};
    for (int op = 0; op < 2; ++op) {
        norm_case c = make_case(ops[op], BERTH_F32, 2, dims);
        kit_free(&c.x);
        c.x = kit_contiguous(BERTH_F32, 2, dims);
        kit_fill(&c.x, -3, 3);
        kit_tensor out = kit_contiguous(BERTH_F32, 2, dims);
        berth_op_call call = call_of(&c);
        kit_run_everywhere(ops[op], &call, &out, true, false, NULL);
        for (int64_t row = 0; row < 150; row += 13) {
            float alone[577];
            const float* whole = (const float*)out.view.data + row * 577;
            call.inputs[0].data = (float*)c.x.view.data + row * 577;
            call.inputs[0].dims[0] = 1;
            call.outputs[0] = call.inputs[0];
            call.outputs[0].data = alone;
            berth_cpu_kernels()[ops[op]](&call);
            assert_memory_equal(alone, whole, sizeof alone);
        }
        call.inputs[0] = c.x.view;
        kit_run_everywhere(ops[op], &call, &c.x, true, true, NULL); // in place
        assert_memory_equal(c.x.memory, out.memory, out.bytes + 2 * KIT_GUARD);
        kit_free(&out);
        free_case(&c);
    }
}

static void a_mean_far_from_zero_costs_a_layer_norm_nothing(void** state) {
    (void)state;
    kit_seed(8);
    const int64_t dims[2] = {20, 300};
    norm_case c = make_case(BERTH_OP_LAYER_NORM, BERTH_F32, 2, dims);
    kit_fill(&c.x, 16000000, 16000064);
    check(&c);
    free_case(&c);
}

static void nan_and_infinities_make_their_row_nan_and_no_other(void** state) {
    (void)state;
    const int64_t dims[2] = {3, 40};
    for (int op = 0; op < 2; ++op) {
        norm_case c = {.op = ops[op], .params = {.eps = 1e-5f}};
        c.x = kit_contiguous(BERTH_F32, 2, dims);
        kit_fill(&c.x, 1, 2);
        kit_store(BERTH_F32, kit_at(&c.x.view, 7), (double)NAN);
        kit_store(BERTH_F32, kit_at(&c.x.view, 87), (double)INFINITY);
        kit_tensor out = kit_contiguous(BERTH_F32, 2, dims);
        berth_op_call call = call_of(&c);
        kit_run_everywhere(ops[op], &call, &out, true, false, NULL);
        for (int64_t i = 0; i < 40; ++i) {
            assert_true(isnan(kit_get(&out.view, i)));
            assert_true(isfinite(kit_get(&out.view, 40 + i)));
            // an infinite mean of squares makes the others 0
            const double rest = kit_get(&out.view, 80 + i);
            assert_true(op == 0 && i != 7 ? rest == 0 : isnan(rest));
        }
        kit_free(&out);
        free_case(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_of_rows_of_any_strides),
        cmocka_unit_test(a_row_is_normed_alike_alone_and_among_others),
        cmocka_unit_test(a_mean_far_from_zero_costs_a_layer_norm_nothing),
        cmocka_unit_test(nan_and_infinities_make_their_row_nan_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
