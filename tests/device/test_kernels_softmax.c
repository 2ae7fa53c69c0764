// SPDX-License-Identifier: Apache-2.0
// SOFTMAX LOG_SOFTMAX CUMSUM against arithmetic in double and in int64_t.
#include "device/kernel_kit.h"

static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};

/// Where element `r` of line `line` along `dim` stands in the operand's row-major order.
static int64_t element_at(const berth_view* x, int32_t dim, int64_t line, int64_t r) {
    int64_t inner = 1;
    for (int32_t d = dim + 1; d < x->rank; ++d)
        inner *= x->dims[d];
    return (line / inner * x->dims[dim] + r) * inner + line % inner;
}

static int64_t line_count(const berth_view* x, int32_t dim) {
    return x->dims[dim] == 0 ? 0 : kit_count(x) / x->dims[dim];
}

static kit_tensor run(berth_op_id op, const kit_tensor* x, int32_t dim, berth_dtype out_dtype) {
    const berth_reduce_params params = {.dims = BERTH_DIMS(dim)};
    kit_tensor out = kit_contiguous(out_dtype, x->view.rank, x->view.dims);
    berth_op_call call = {.input_count = 1, .inputs = {x->view}, .params = &params};
    kit_run_everywhere(op, &call, &out, true, false, NULL);
    return out;
}

// --- Softmax -------------------------------------------------------------------------------------

static void check_softmax(const kit_tensor* x, int32_t dim, bool is_log) {
    const berth_view* view = &x->view;
    kit_tensor out = run(is_log ? BERTH_OP_LOG_SOFTMAX : BERTH_OP_SOFTMAX, x, dim, view->dtype);
    for (int64_t line = 0; line < line_count(view, dim); ++line) {
        double largest = -(double)INFINITY;
        double total = 0;
        for (int64_t r = 0; r < view->dims[dim]; ++r)
            largest = fmax(largest, kit_get(view, element_at(view, dim, line, r)));
        for (int64_t r = 0; r < view->dims[dim]; ++r)
            total += exp(kit_get(view, element_at(view, dim, line, r)) - largest);
        for (int64_t r = 0; r < view->dims[dim]; ++r) {
            const int64_t at = element_at(view, dim, line, r);
            const double distance = kit_get(view, at) - largest;
            if (is_log) {
                // the sum's relative error, and two roundings
                const double tolerance = 70 * 0x1p-24 + 0x1p-23 * fabs(distance);
                kit_expect(&out.view,
                           at,
                           distance - log(total),
                           kit_tolerance(view->dtype, distance - log(total), 0) + tolerance);
            } else {
                const double expected = exp(distance) / total;
                kit_expect(&out.view, at, expected, kit_tolerance(view->dtype, expected, 0x1p-19));
            }
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
            const int32_t dim = (int32_t)kit_int(0, rank - 1);
            check_softmax(&x, dim, false);
            check_softmax(&x, dim, true);
            kit_free(&x);
        }
        const int64_t large[2] = {33, 3001};
        for (int32_t dim = 0; dim < 2; ++dim) {
            kit_tensor x = kit_contiguous(floats[t], 2, large);
            kit_fill(&x, -8, 8);
            check_softmax(&x, dim, false);
            check_softmax(&x, dim, true);
            kit_free(&x);
        }
    }
}

static void distances_far_beyond_what_has_a_power_keep_their_logarithm(void** state) {
    (void)state;
    kit_seed(5);
    const int64_t dims[2] = {40, 50};
    kit_tensor x = kit_contiguous(BERTH_F32, 2, dims);
    kit_fill(&x, -1e5, 1e6);
    check_softmax(&x, 0, true);
    check_softmax(&x, 1, true);
    kit_free(&x);
}

static void a_result_may_overwrite_the_operand(void** state) {
    (void)state;
    kit_seed(6);
    const int64_t dims[2] = {29, 1201};
    const berth_op_id ops[3] = {BERTH_OP_SOFTMAX, BERTH_OP_LOG_SOFTMAX, BERTH_OP_CUMSUM};
    for (int op = 0; op < 3; ++op) {
        for (int t = 0; t < 3; ++t) {
            for (int32_t dim = 0; dim < 2; ++dim) {
                kit_tensor x = kit_contiguous(floats[t], 2, dims);
                kit_fill(&x, -8, 8);
                kit_tensor out = run(ops[op], &x, dim, floats[t]);
                const berth_reduce_params params = {.dims = BERTH_DIMS(dim)};
                berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
                kit_run_everywhere(ops[op], &call, &x, true, true, NULL);
                assert_memory_equal(x.memory, out.memory, out.bytes + 2 * KIT_GUARD);
                kit_free(&x);
                kit_free(&out);
            }
        }
    }
}

static void infinities_and_nan_make_a_line_what_pytorch_makes_it(void** state) {
    (void)state;
    const float infinite = INFINITY;
    const struct {
        float x[3], softmax[3], log_softmax[3];
    } cases[] = {
        {{-infinite, 0, 0}, {0, 0.5f, 0.5f}, {-infinite, -0.6931472f, -0.6931472f}},
        {{-infinite, -infinite, -infinite}, {NAN, NAN, NAN}, {NAN, NAN, NAN}},
        {{infinite, 0, 1}, {NAN, NAN, NAN}, {NAN, NAN, NAN}},
        {{NAN, 0, 1}, {NAN, NAN, NAN}, {NAN, NAN, NAN}},
    };
    const int64_t dims[2] = {3, 9}; // nine columns alike
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        for (int32_t dim = 0; dim < 2; ++dim) {
            const int64_t turned[2] = {dims[dim], dims[1 - dim]};
            kit_tensor x = kit_contiguous(BERTH_F32, 2, turned);
            for (int64_t k = 0; k < 27; ++k)
                kit_store(
                    BERTH_F32, kit_at(&x.view, k), (double)cases[i].x[dim == 0 ? k / 9 : k % 3]);
            kit_tensor out = run(BERTH_OP_SOFTMAX, &x, dim, BERTH_F32);
            kit_tensor logs = run(BERTH_OP_LOG_SOFTMAX, &x, dim, BERTH_F32);
            for (int64_t k = 0; k < 27; ++k) {
                const int64_t r = dim == 0 ? k / 9 : k % 3;
                // a power that is infinite, or over an infinite sum, may also count as -infinity
                kit_expect(&out.view, k, (double)cases[i].softmax[r], 0);
                if (i != 2 || r == 0)
                    kit_expect(&logs.view, k, (double)cases[i].log_softmax[r], 1e-6);
            }
            kit_free(&x);
            kit_free(&out);
            kit_free(&logs);
        }
    }
}

// --- Running sums --------------------------------------------------------------------------------

static void check_cumsum(const kit_tensor* x, int32_t dim) {
    const berth_view* view = &x->view;
    const bool is_float = berth_dtype_is_float(view->dtype);
    kit_tensor out = run(BERTH_OP_CUMSUM, x, dim, is_float ? view->dtype : BERTH_I64);
    for (int64_t line = 0; line < line_count(view, dim); ++line) {
        double total = 0, sizes = 0;
        int64_t whole = 0;
        for (int64_t r = 0; r < view->dims[dim]; ++r) {
            const int64_t at = element_at(view, dim, line, r);
            const double value = kit_get(view, at);
            total += value;
            sizes += fabs(value);
            whole += (int64_t)(is_float ? 0 : value);
            if (is_float)
                kit_expect(&out.view,
                           at,
                           total,
                           kit_tolerance(view->dtype, total, 0x1p-24) + 0x1p-40 * sizes);
            else
                assert_int_equal((int64_t)kit_get(&out.view, at), whole);
        }
    }
    kit_free(&out);
}

static void running_sums_along_any_dimension_of_any_strides(void** state) {
    (void)state;
    kit_seed(7);
    static const berth_dtype plain[] = {
        BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
    for (int t = 0; t < 8; ++t) {
        for (int round = 0; round < 12; ++round) {
            int64_t dims[BERTH_MAX_RANK];
            const int32_t rank = kit_dims(4, 12, dims);
            kit_tensor x = kit_strided(plain[t], rank, dims, false, true);
            kit_fill(&x, plain[t] == BERTH_U8 ? 0 : -9, 9);
            check_cumsum(&x, (int32_t)kit_int(0, rank - 1));
            kit_free(&x);
        }
        const int64_t large[2] = {37, 3001};
        for (int32_t dim = 0; dim < 2; ++dim) {
            kit_tensor x = kit_contiguous(plain[t], 2, large);
            kit_fill(&x, plain[t] == BERTH_U8 ? 0 : -9, 9);
            check_cumsum(&x, dim);
            kit_free(&x);
        }
    }
}

static void a_running_sum_has_the_same_bits_for_every_layout(void** state) {
    (void)state;
    kit_seed(8);
    const int64_t rows = 37;
    const int64_t columns = 2611;
    kit_tensor x = kit_contiguous(BERTH_F32, 2, (int64_t[]){rows, columns});
    kit_tensor turned = kit_contiguous(BERTH_F32, 2, (int64_t[]){columns, rows});
    for (int64_t i = 0; i < rows * columns; ++i) {
        const double value = kit_real(-1, 1);
        kit_store(BERTH_F32, kit_at(&x.view, i), value);
        kit_store(BERTH_F32, kit_at(&turned.view, i % columns * rows + i / columns), value);
    }
    kit_tensor by_rows = run(BERTH_OP_CUMSUM, &x, 1, BERTH_F32);
    kit_tensor by_columns = run(BERTH_OP_CUMSUM, &turned, 0, BERTH_F32);
    for (int64_t i = 0; i < rows * columns; ++i)
        kit_expect(
            &by_columns.view, i % columns * rows + i / columns, kit_get(&by_rows.view, i), 0);
    kit_free(&x);
    kit_free(&turned);
    kit_free(&by_rows);
    kit_free(&by_columns);
}

static void a_running_sum_of_i64_may_overwrite_its_operand_and_wraps(void** state) {
    (void)state;
    kit_seed(9);
    const int64_t dims[2] = {41, 1100};
    for (int32_t dim = 0; dim < 2; ++dim) {
        kit_tensor x = kit_contiguous(BERTH_I64, 2, dims);
        for (int64_t i = 0; i < 41 * 1100; ++i) {
            const int64_t value = (int64_t)kit_next();
            memcpy(kit_at(&x.view, i), &value, sizeof value);
        }
        kit_tensor out = run(BERTH_OP_CUMSUM, &x, dim, BERTH_I64);
        for (int64_t line = 0; line < line_count(&x.view, dim); ++line) {
            uint64_t total = 0;
            for (int64_t r = 0; r < dims[dim]; ++r) {
                uint64_t value;
                const int64_t at = element_at(&x.view, dim, line, r);
                memcpy(&value, kit_at(&x.view, at), sizeof value);
                total += value;
                assert_memory_equal(kit_at(&out.view, at), &total, sizeof total);
            }
        }
        const berth_reduce_params params = {.dims = BERTH_DIMS(dim)};
        berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
        kit_run_everywhere(BERTH_OP_CUMSUM, &call, &x, true, true, NULL);
        assert_memory_equal(x.memory, out.memory, out.bytes + 2 * KIT_GUARD);
        kit_free(&x);
        kit_free(&out);
    }
}

static void a_running_sum_stays_nan_or_infinite(void** state) {
    (void)state;
    kit_seed(10);
    const int64_t dims[2] = {50, 40};
    for (int32_t dim = 0; dim < 2; ++dim) {
        kit_tensor x = kit_contiguous(BERTH_F32, 2, dims);
        kit_fill(&x, -1, 1);
        for (int i = 0; i < 9; ++i) {
            kit_store(BERTH_F32, kit_at(&x.view, kit_int(0, 1999)), (double)NAN);
            kit_store(BERTH_F32, kit_at(&x.view, kit_int(0, 1999)), (double)INFINITY);
            kit_store(BERTH_F32, kit_at(&x.view, kit_int(0, 1999)), -(double)INFINITY);
        }
        check_cumsum(&x, dim);
        kit_free(&x);
    }
}

static void a_single_element_of_rank_0_is_a_line(void** state) {
    (void)state;
    kit_tensor x = kit_contiguous(BERTH_F32, 0, NULL);
    kit_store(BERTH_F32, x.view.data, 3);
    const berth_op_id ops[3] = {BERTH_OP_SOFTMAX, BERTH_OP_LOG_SOFTMAX, BERTH_OP_CUMSUM};
    const double expected[3] = {1, 0, 3};
    for (int i = 0; i < 3; ++i) {
        kit_tensor out = run(ops[i], &x, -1, BERTH_F32);
        kit_expect(&out.view, 0, expected[i], 0);
        kit_free(&out);
    }
    kit_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_over_any_dimension_of_any_strides),
        cmocka_unit_test(distances_far_beyond_what_has_a_power_keep_their_logarithm),
        cmocka_unit_test(a_result_may_overwrite_the_operand),
        cmocka_unit_test(infinities_and_nan_make_a_line_what_pytorch_makes_it),
        cmocka_unit_test(running_sums_along_any_dimension_of_any_strides),
        cmocka_unit_test(a_running_sum_has_the_same_bits_for_every_layout),
        cmocka_unit_test(a_running_sum_of_i64_may_overwrite_its_operand_and_wraps),
        cmocka_unit_test(a_running_sum_stays_nan_or_infinite),
        cmocka_unit_test(a_single_element_of_rank_0_is_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
