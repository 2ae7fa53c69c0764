// SPDX-License-Identifier: Apache-2.0
// SUM MEAN MAX ARGMAX SOFTMAX RMS_NORM against arithmetic in double.
#include "device/kernel_kit.h"

static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};

/// Where reduced element `r` of output `index` stands in the operand's row-major order.
static int64_t reduced_at(const berth_view* x, int32_t dim, int64_t index, int64_t r) {
    int64_t inner = 1;
    for (int32_t d = dim + 1; d < x->rank; ++d)
        inner *= x->dims[d];
    return (index / inner * x->dims[dim] + r) * inner + index % inner;
}

static double reduce_reference(berth_op_id op, const berth_view* x, int32_t dim, int64_t index) {
    double total = 0;
    double largest = -(double)INFINITY;
    int64_t where = -1;
    for (int64_t r = 0; r < x->dims[dim]; ++r) {
        const double value = kit_get(x, reduced_at(x, dim, index, r));
        total += value;
        if (where < 0 || (value > largest && !isnan(largest)) ||
            (isnan(value) && !isnan(largest))) {
            largest = value;
            where = r;
        }
    }
    if (op == BERTH_OP_SUM) return total;
    if (op == BERTH_OP_MEAN) return total / (double)x->dims[dim];
    return op == BERTH_OP_MAX ? largest : (double)where;
}

static kit_tensor reduced_output(berth_op_id op, const berth_view* x, int32_t dim, bool keepdim) {
    int64_t dims[BERTH_MAX_RANK];
    int32_t rank = 0;
    for (int32_t d = 0; d < x->rank; ++d) {
        if (d != dim)
            dims[rank++] = x->dims[d];
        else if (keepdim)
            dims[rank++] = 1;
    }
    return kit_contiguous(op == BERTH_OP_ARGMAX ? BERTH_I64 : x->dtype, rank, dims);
}

static void check_reduction(berth_op_id op, kit_tensor* x, int32_t dim) {
    const berth_reduce_params params = {.dim = dim, .keepdim = kit_int(0, 1) == 1};
    kit_tensor out = reduced_output(op, &x->view, dim, params.keepdim);
    berth_op_call call = {.input_count = 1, .inputs = {x->view}, .params = &params};
    kit_run_everywhere(op, &call, &out, true, false, NULL);
    const bool is_float = out.view.dtype != BERTH_I32 && out.view.dtype != BERTH_I64;
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        const double expected = reduce_reference(op, &x->view, dim, i);
        const bool exact = !is_float || op == BERTH_OP_MAX;
        const double tolerance = kit_tolerance(out.view.dtype, expected, 0x1p-20) +
                                 1e-6 * sqrt((double)x->view.dims[dim]) + 1e-5;
        kit_expect(&out.view, i, expected, exact ? 0 : tolerance);
    }
    kit_free(&out);
}

static void reductions_over_any_dimension_of_any_strides(void** state) {
    (void)state;
    kit_seed(1);
    const berth_dtype dtypes[] = {BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64};
    for (int op = BERTH_OP_SUM; op <= BERTH_OP_ARGMAX; ++op) {
        for (int t = 0; t < (op == BERTH_OP_MEAN ? 3 : 5); ++t) {
            for (int round = 0; round < 12; ++round) {
                int64_t dims[BERTH_MAX_RANK];
                const int32_t rank = kit_dims(4, 12, dims);
                const int32_t dim = (int32_t)kit_int(0, rank - 1);
                const bool is_max = op == BERTH_OP_MAX || op == BERTH_OP_ARGMAX;
                if (is_max && dims[dim] == 0) dims[dim] = 1;
                kit_tensor x = kit_strided(dtypes[t], rank, dims, false, true);
                kit_fill(&x, -20, 20);
                check_reduction((berth_op_id)op, &x, dim);
                kit_free(&x);
            }
        }
    }
}

static void long_reductions_are_right(void** state) {
    (void)state;
    kit_seed(2);
    const int64_t shapes[][2] = {{3, 50021}, {50021, 3}, {40, 2500}, {2500, 300}};
    for (int s = 0; s < 4; ++s) {
        for (int32_t dim = 0; dim < 2; ++dim) {
            kit_tensor x = kit_contiguous(BERTH_F32, 2, shapes[s]);
            kit_fill(&x, -1, 1);
            for (int op = BERTH_OP_SUM; op <= BERTH_OP_ARGMAX; ++op) {
                check_reduction((berth_op_id)op, &x, dim);
            }
            kit_free(&x);
        }
    }
}

static void a_sum_has_the_same_bits_for_every_layout(void** state) {
    (void)state;
    kit_seed(3);
    const int64_t rows = 37;
    const int64_t columns = 2611;
    const int64_t dims[2] = {rows, columns};
    const int64_t turned_dims[2] = {columns, rows};
    kit_tensor x = kit_contiguous(BERTH_F32, 2, dims);
    kit_tensor turned = kit_contiguous(BERTH_F32, 2, turned_dims);
    kit_fill(&x, -1, 1);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
            kit_store(
                BERTH_F32, kit_at(&turned.view, c * rows + r), kit_get(&x.view, r * columns + c));
        }
    }
    kit_tensor by_rows = kit_contiguous(BERTH_F32, 1, &rows);
    kit_tensor by_columns = kit_contiguous(BERTH_F32, 1, &rows);
    const berth_reduce_params last = {.dim = 1};
    const berth_reduce_params first = {.dim = 0};
    berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &last};
    kit_run_everywhere(BERTH_OP_SUM, &call, &by_rows, true, false, NULL);
    call = (berth_op_call){.input_count = 1, .inputs = {turned.view}, .params = &first};
    kit_run_everywhere(BERTH_OP_SUM, &call, &by_columns, true, false, NULL);
    assert_memory_equal(by_rows.memory, by_columns.memory, by_rows.bytes + 2 * KIT_GUARD);
    kit_free(&x);
    kit_free(&turned);
    kit_free(&by_rows);
    kit_free(&by_columns);
}

static void the_first_nan_is_the_largest(void** state) {
    (void)state;
    const int64_t dims[2] = {70, 3};
    kit_tensor x = kit_contiguous(BERTH_F32, 2, dims);
    kit_fill(&x, -5, 5);
    kit_store(BERTH_F32, kit_at(&x.view, 40 * 3 + 1), (double)NAN);
    kit_store(BERTH_F32, kit_at(&x.view, 55 * 3 + 1), (double)NAN);
    for (int op = BERTH_OP_MAX; op <= BERTH_OP_ARGMAX; ++op) {
        const berth_reduce_params params = {.dim = 0};
        kit_tensor out = reduced_output((berth_op_id)op, &x.view, 0, false);
        berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
        kit_run_everywhere((berth_op_id)op, &call, &out, false, false, NULL);
        for (int64_t i = 0; i < 3; ++i) {
            kit_expect(&out.view, i, reduce_reference((berth_op_id)op, &x.view, 0, i), 0);
        }
        kit_free(&out);
    }
    kit_free(&x);
}

static void a_sum_over_nothing_is_zero_and_a_mean_nan(void** state) {
    (void)state;
    const int64_t dims[2] = {3, 0};
    kit_tensor x = kit_contiguous(BERTH_F32, 2, dims);
    const berth_reduce_params params = {.dim = 1};
    kit_tensor out = reduced_output(BERTH_OP_SUM, &x.view, 1, false);
    berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_SUM, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < 3; ++i)
        kit_expect(&out.view, i, 0.0, 0);
    kit_run_everywhere(BERTH_OP_MEAN, &call, &out, false, false, NULL);
    for (int64_t i = 0; i < 3; ++i)
        kit_expect(&out.view, i, (double)NAN, 0);
    kit_free(&x);
    kit_free(&out);
}

// --- Softmax -------------------------------------------------------------------------------------

static void check_softmax(kit_tensor* x, int32_t dim) {
    const berth_reduce_params params = {.dim = dim};
    const berth_view* view = &x->view;
    kit_tensor out = kit_contiguous(view->dtype, view->rank, view->dims);
    berth_op_call call = {.input_count = 1, .inputs = {*view}, .params = &params};
    kit_run_everywhere(BERTH_OP_SOFTMAX, &call, &out, true, false, NULL);
    const int64_t size = view->dims[dim];
    const int64_t lines = size == 0 ? 0 : kit_count(view) / size;
    for (int64_t line = 0; line < lines; ++line) {
        const double largest = reduce_reference(BERTH_OP_MAX, view, dim, line);
        double total = 0;
        for (int64_t r = 0; r < size; ++r) {
            total += exp(kit_get(view, reduced_at(view, dim, line, r)) - largest);
        }
        for (int64_t r = 0; r < size; ++r) {
            const int64_t at = reduced_at(view, dim, line, r);
            const double expected = exp(kit_get(view, at) - largest) / total;
            kit_expect(&out.view, at, expected, kit_tolerance(view->dtype, expected, 0x1p-19));
        }
    }
    kit_free(&out);
}

static void softmax_over_any_dimension_of_any_strides(void** state) {
    (void)state;
    kit_seed(4);
    for (int t = 0; t < 3; ++t) {
        for (int round = 0; round < 14; ++round) {
            int64_t dims[BERTH_MAX_RANK];
            const int32_t rank = kit_dims(4, 12, dims);
            kit_tensor x = kit_strided(floats[t], rank, dims, false, true);
            kit_fill(&x, -8, 8);
            check_softmax(&x, (int32_t)kit_int(0, rank - 1));
            kit_free(&x);
        }
        const int64_t large[2] = {33, 3001};
        for (int32_t dim = 0; dim < 2; ++dim) {
            kit_tensor x = kit_contiguous(floats[t], 2, large);
            kit_fill(&x, -8, 8);
            check_softmax(&x, dim);
            kit_free(&x);
        }
    }
}

static void softmax_may_overwrite_its_operand(void** state) {
    (void)state;
    kit_seed(5);
    const int64_t dims[2] = {29, 1201};
    for (int t = 0; t < 3; ++t) {
        for (int32_t dim = 0; dim < 2; ++dim) {
            kit_tensor x = kit_contiguous(floats[t], 2, dims);
            kit_tensor out = kit_contiguous(floats[t], 2, dims);
            kit_fill(&x, -8, 8);
            const berth_reduce_params params = {.dim = dim};
            berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
            kit_run_everywhere(BERTH_OP_SOFTMAX, &call, &out, true, false, NULL);
            kit_run_everywhere(BERTH_OP_SOFTMAX, &call, &x, true, true, NULL);
            assert_memory_equal(x.memory, out.memory, out.bytes + 2 * KIT_GUARD);
            kit_free(&x);
            kit_free(&out);
        }
    }
}

// --- RMS norm ------------------------------------------------------------------------------------

static void check_norm(berth_dtype dtype, bool own_weight, int32_t rank, const int64_t* dims) {
    const int64_t width = dims[rank - 1];
    kit_tensor x = kit_strided(dtype, rank, dims, true, true);
    kit_tensor weight = kit_contiguous(own_weight ? dtype : BERTH_F32, 1, &width);
    kit_tensor out = kit_contiguous(dtype, rank, dims);
    kit_fill(&x, -3, 3);
    kit_fill(&weight, -2, 2);
    const berth_rms_norm_params params = {.eps = 1e-5f};
    berth_op_call call = {.input_count = 2, .inputs = {x.view, weight.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_RMS_NORM, &call, &out, true, false, NULL);
    double scale = 0;
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        if (i % width == 0) {
            double total = 0;
            for (int64_t j = 0; j < width; ++j)
                total += pow(kit_get(&x.view, i + j), 2);
            scale = 1.0 / sqrt(total / (double)width + (double)1e-5f);
        }
        const double expected = kit_get(&x.view, i) * scale * kit_get(&weight.view, i % width);
        kit_expect(&out.view, i, expected, kit_tolerance(dtype, expected, 0x1p-20));
    }
    kit_free(&x);
    kit_free(&weight);
    kit_free(&out);
}

static void norms_of_rows_of_any_strides(void** state) {
    (void)state;
    kit_seed(6);
    for (int t = 0; t < 3; ++t) {
        for (int round = 0; round < 12; ++round) {
            int64_t dims[BERTH_MAX_RANK];
            const int32_t rank = kit_dims(4, 40, dims);
            for (int32_t d = 0; d < rank - 1; ++d)
                dims[d] = dims[d] % 6;
            check_norm(floats[t], round % 2 == 0, rank, dims);
        }
        const int64_t large[2] = {65, 1600};
        check_norm(floats[t], true, 2, large);
    }
}

static void a_row_is_normed_alike_alone_and_among_others(void** state) {
    (void)state;
    kit_seed(7);
    const int64_t dims[2] = {150, 577};
    kit_tensor x = kit_contiguous(BERTH_F32, 2, dims);
    kit_tensor weight = kit_contiguous(BERTH_F32, 1, dims + 1);
    kit_tensor out = kit_contiguous(BERTH_F32, 2, dims);
    kit_fill(&x, -3, 3);
    kit_fill(&weight, -2, 2);
    const berth_rms_norm_params params = {.eps = 1e-5f};
    berth_op_call call = {.input_count = 2, .inputs = {x.view, weight.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_RMS_NORM, &call, &out, true, false, NULL);
    for (int64_t row = 0; row < 150; row += 13) {
        float alone[577];
        const float* whole = (const float*)out.view.data + row * 577;
        call.inputs[0].data = (float*)x.view.data + row * 577;
        call.inputs[0].dims[0] = 1;
        call.outputs[0] = call.inputs[0];
        call.outputs[0].data = alone;
        berth_cpu_kernels()[BERTH_OP_RMS_NORM](&call);
        assert_memory_equal(alone, whole, sizeof alone);
    }
    call.inputs[0] = x.view;
    kit_run_everywhere(BERTH_OP_RMS_NORM, &call, &x, true, true, NULL); // in place
    assert_memory_equal(x.memory, out.memory, out.bytes + 2 * KIT_GUARD);
    kit_free(&x);
    kit_free(&weight);
    kit_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_over_any_dimension_of_any_strides),
        cmocka_unit_test(long_reductions_are_right),
        cmocka_unit_test(a_sum_has_the_same_bits_for_every_layout),
        cmocka_unit_test(the_first_nan_is_the_largest),
        cmocka_unit_test(a_sum_over_nothing_is_zero_and_a_mean_nan),
        cmocka_unit_test(softmax_over_any_dimension_of_any_strides),
        cmocka_unit_test(softmax_may_overwrite_its_operand),
        cmocka_unit_test(norms_of_rows_of_any_strides),
        cmocka_unit_test(a_row_is_normed_alike_alone_and_among_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
