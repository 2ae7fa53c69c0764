// SPDX-License-Identifier: Apache-2.0
// SUM MEAN PROD MAX MIN ARGMAX ARGMIN VAR LOGSUMEXP ANY ALL against arithmetic in double and in
// int64_t, over sets of dimensions.
#include "base/dims.h"
#include "device/kernel_kit.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};
enum { PLAIN = sizeof plain / sizeof plain[0] };

static bool takes(berth_op_id op, berth_dtype dtype) {
    const bool needs_float = op == BERTH_OP_MEAN || op == BERTH_OP_VAR || op == BERTH_OP_LOGSUMEXP;
    return berth_dtype_is_float(dtype) || !needs_float;
}

static bool is_extreme(berth_op_id op) {
    return op == BERTH_OP_MAX || op == BERTH_OP_MIN || op == BERTH_OP_ARGMAX ||
           op == BERTH_OP_ARGMIN;
}

static berth_dtype result_dtype(berth_op_id op, berth_dtype dtype) {
    if (op == BERTH_OP_ANY || op == BERTH_OP_ALL) return BERTH_BOOL;
    if (op == BERTH_OP_ARGMAX || op == BERTH_OP_ARGMIN) return BERTH_I64;
    const bool adds = op == BERTH_OP_SUM || op == BERTH_OP_PROD;
    return adds && !berth_dtype_is_float(dtype) ? BERTH_I64 : dtype;
}

// --- The reference -------------------------------------------------------------------------------

/// The elements of each output one after another, in row-major order of the reduced dimensions.
typedef struct sorted {
    int64_t outputs;
    int64_t size;
    double* values;    ///< [outputs, size]
    int64_t* integers; ///< the same, exactly, for integers
} sorted;

static int64_t load_integer(const berth_view* view, int64_t index) {
    int64_t value;
    if (view->dtype != BERTH_I64) return (int64_t)kit_get(view, index);
    memcpy(&value, kit_at(view, index), sizeof value);
    return value;
}

static sorted sort_elements(const berth_view* x, uint32_t mask) {
    sorted result = {.outputs = 1, .size = 1};
    for (int32_t d = 0; d < x->rank; ++d)
        *((mask >> d & 1u) != 0 ? &result.size : &result.outputs) *= x->dims[d];
    const size_t count = (size_t)(result.outputs * result.size) + 1;
    result.values = calloc(count, sizeof *result.values);
    result.integers = calloc(count, sizeof *result.integers);
    int64_t* filled = calloc((size_t)result.outputs + 1, sizeof *filled);
    assert_non_null(result.values);
    assert_non_null(result.integers);
    assert_non_null(filled);
    for (int64_t i = 0; i < kit_count(x); ++i) {
        int64_t output = 0, stride = 1, rest = i;
        for (int32_t d = x->rank; d-- > 0; rest /= x->dims[d]) {
            if ((mask >> d & 1u) != 0) continue;
            output += rest % x->dims[d] * stride;
            stride *= x->dims[d];
        }
        const int64_t at = output * result.size + filled[output]++;
        result.values[at] = kit_get(x, i);
        if (!berth_dtype_is_float(x->dtype)) result.integers[at] = load_integer(x, i);
    }
    free(filled);
    return result;
}

static void free_sorted(sorted* elements) {
    free(elements->values);
    free(elements->integers);
}

/// The place of the extreme: the first NaN, else the first of equals.
static int64_t find_extreme(const double* values, int64_t size, bool is_least) {
    int64_t where = 0;
    for (int64_t i = 0; i < size; ++i) {
        if (isnan(values[i])) return i;
        if (is_least ? values[i] < values[where] : values[i] > values[where]) where = i;
    }
    return where;
}

static double variance(const double* values, int64_t size, double correction) {
    double mean = 0, total = 0;
    for (int64_t i = 0; i < size; ++i)
        mean += values[i] / (double)size;
    for (int64_t i = 0; i < size; ++i)
        total += (values[i] - mean) * (values[i] - mean);
    const double divisor = (double)size - correction;
    return size == 0 ? (double)NAN : total / (divisor > 0 ? divisor : 0);
}

static double log_sum_exp(const double* values, int64_t size) {
    double shift = -(double)INFINITY, total = 0;
    for (int64_t i = 0; i < size; ++i)
        shift = values[i] > shift ? values[i] : shift;
    if (!isfinite(shift)) shift = 0;
    for (int64_t i = 0; i < size; ++i)
        total += exp(values[i] - shift);
    return log(total) + shift;
}

/// The result, and how far a kernel may be from it.
static double float_reference(
    berth_op_id op, const double* values, int64_t size, double correction, double* out_tolerance) {
    double total = 0, sizes = 0, squares = 0, product = 1;
    bool any = false, all = true;
    for (int64_t i = 0; i < size; ++i) {
        total += values[i];
        sizes += fabs(values[i]);
        squares += values[i] * values[i];
        product *= values[i];
        any = any || values[i] != 0;
        all = all && values[i] != 0;
    }
    *out_tolerance = 0;
    const int64_t where = find_extreme(values, size, op == BERTH_OP_MIN || op == BERTH_OP_ARGMIN);
    // sums of a block: 64 additions in f32 in each of 16 partial sums, then 4 of those
    const double additions = 68 * 0x1p-24;
    switch ((int)op) {
    case BERTH_OP_SUM:
        *out_tolerance = additions * sizes;
        return total;
    case BERTH_OP_MEAN:
        *out_tolerance = additions * sizes / (double)size;
        return total / (double)size;
    case BERTH_OP_PROD:
        *out_tolerance = 0x1p-40 * fabs(product);
        return product;
    case BERTH_OP_VAR:
        *out_tolerance = 0x1p-38 * variance(values, size, correction) + 0x1p-90 * squares;
        return variance(values, size, correction);
    case BERTH_OP_LOGSUMEXP:
        *out_tolerance = additions + 2 * 0x1p-24;
        return log_sum_exp(values, size);
    case BERTH_OP_ANY:
        return any;
    case BERTH_OP_ALL:
        return all;
    case BERTH_OP_MAX:
    case BERTH_OP_MIN:
        return values[where];
    default:
        return (double)where;
    }
}

static int64_t integer_reference(berth_op_id op, const int64_t* values, int64_t size) {
    uint64_t total = 0, product = 1;
    int64_t where = 0;
    bool any = false, all = true;
    const bool is_least = op == BERTH_OP_MIN || op == BERTH_OP_ARGMIN;
    for (int64_t i = 0; i < size; ++i) {
        total += (uint64_t)values[i];
        product *= (uint64_t)values[i];
        if (is_least ? values[i] < values[where] : values[i] > values[where]) where = i;
        any = any || values[i] != 0;
        all = all && values[i] != 0;
    }
    switch ((int)op) {
    case BERTH_OP_SUM:
        return (int64_t)total;
    case BERTH_OP_PROD:
        return (int64_t)product;
    case BERTH_OP_ANY:
        return any;
    case BERTH_OP_ALL:
        return all;
    case BERTH_OP_MAX:
    case BERTH_OP_MIN:
        return values[where];
    default:
        return where;
    }
}

static kit_tensor result_for(berth_op_id op, const berth_view* x, uint32_t mask, bool keepdim) {
    int64_t dims[BERTH_MAX_RANK];
    int32_t rank = 0;
    for (int32_t d = 0; d < x->rank; ++d) {
        if ((mask >> d & 1u) == 0)
            dims[rank++] = x->dims[d];
        else if (keepdim)
            dims[rank++] = 1;
    }
    return kit_contiguous(result_dtype(op, x->dtype), rank, dims);
}

/// The dimensions in `mask`, some counted from the end, in any order.
static berth_dims dims_of(uint32_t mask, int32_t rank) {
    berth_dims dims = {0};
    for (int32_t d = 0; d < rank; ++d) {
        if ((mask >> d & 1u) == 0) continue;
        const int32_t at = (int32_t)kit_int(0, dims.count);
        dims.dims[dims.count++] = dims.dims[at];
        dims.dims[at] = kit_int(0, 1) == 1 ? d : d - rank;
    }
    return dims;
}

static kit_tensor run(berth_op_id op, const kit_tensor* x, const berth_reduce_params* params) {
    const uint32_t mask = berth_dims_mask(&params->dims, x->view.rank);
    kit_tensor out = result_for(op, &x->view, mask, params->keepdim);
    berth_op_call call = {.input_count = 1, .inputs = {x->view}, .params = params};
    kit_run_everywhere(op, &call, &out, true, false, NULL);
    return out;
}

static void check(berth_op_id op, const kit_tensor* x, const berth_reduce_params* params) {
    sorted elements = sort_elements(&x->view, berth_dims_mask(&params->dims, x->view.rank));
    kit_tensor out = run(op, x, params);
    const berth_view* view = &out.view;
    assert_int_equal(kit_count(view), elements.outputs);
    for (int64_t i = 0; i < elements.outputs; ++i) {
        double tolerance;
        const int64_t at = i * elements.size;
        if (berth_dtype_is_float(x->view.dtype)) {
            const double expected = float_reference(
                op, elements.values + at, elements.size, params->correction, &tolerance);
            if (berth_dtype_is_float(view->dtype) && !is_extreme(op))
                tolerance += kit_tolerance(view->dtype, expected, 0);
            kit_expect(view, i, expected, tolerance);
        } else if (load_integer(view, i) !=
                   integer_reference(op, elements.integers + at, elements.size)) {
            fail_msg("op %d of %s: output %lld",
                     (int)op,
                     berth_dtype_query_info(x->view.dtype)->name,
                     (long long)i);
        }
    }
    kit_free(&out);
    free_sorted(&elements);
}

/// Fills x with what suits the op: products that stay in range, some zeros for ANY and ALL.
static void fill_for(berth_op_id op, kit_tensor* x) {
    const berth_dtype dtype = x->view.dtype;
    if (op == BERTH_OP_ANY || op == BERTH_OP_ALL) {
        const double part = kit_real(0, 1) < 0.5 ? 0.03 : 0.97;
        for (int64_t i = 0; i < kit_count(&x->view); ++i)
            kit_store(dtype, kit_at(&x->view, i), kit_real(0, 1) < part ? 1 : 0);
    } else if (op == BERTH_OP_PROD && berth_dtype_is_float(dtype)) {
        for (int64_t i = 0; i < kit_count(&x->view); ++i)
            kit_store(dtype,
                      kit_at(&x->view, i),
                      exp(kit_real(-0.02, 0.02)) * (kit_int(0, 1) == 1 ? 1 : -1));
    } else {
        kit_fill(x, dtype == BERTH_U8 ? 0 : -20, 20);
    }
}

/// One to all of the dimensions; none named stands for all.
static berth_dims random_dims(berth_op_id op, int32_t rank) {
    if (op == BERTH_OP_ARGMAX || op == BERTH_OP_ARGMIN)
        return dims_of(UINT32_C(1) << kit_int(0, rank - 1), rank);
    if (kit_int(0, 5) == 0) return BERTH_ALL_DIMS;
    return dims_of((uint32_t)kit_int(1, (INT64_C(1) << rank) - 1), rank);
}

// --- Tests ---------------------------------------------------------------------------------------

static void reductions_over_any_dimensions_of_any_strides(void** state) {
    (void)state;
    kit_seed(1);
    for (int op = BERTH_OP_SUM; op <= BERTH_OP_ALL; ++op) {
        for (int t = 0; t < PLAIN; ++t) {
            if (!takes((berth_op_id)op, plain[t])) continue;
            for (int round = 0; round < 8; ++round) {
                int64_t dims[BERTH_MAX_RANK];
                const int32_t rank = kit_dims(round == 0 ? 8 : 4, round == 0 ? 3 : 11, dims);
                for (int32_t d = 0; d < rank && is_extreme((berth_op_id)op); ++d)
                    dims[d] += dims[d] == 0;
                kit_tensor x = kit_strided(plain[t], rank, dims, false, true);
                fill_for((berth_op_id)op, &x);
                const berth_reduce_params params = {
                    .dims = random_dims((berth_op_id)op, rank),
                    .keepdim = kit_int(0, 1) == 1,
                    .correction = (double)kit_int(0, 3) / 2,
                };
                check((berth_op_id)op, &x, &params);
                kit_free(&x);
            }
        }
    }
}

static void long_reductions_are_right(void** state) {
    (void)state;
    kit_seed(2);
    static const int64_t shapes[][3] = {{3, 1, 25021}, {25021, 3, 1}, {40, 900, 2}, {2500, 1, 30}};
    for (int op = BERTH_OP_SUM; op <= BERTH_OP_ALL; ++op) {
        for (int t = 0; t < PLAIN; ++t) {
            if (!takes((berth_op_id)op, plain[t])) continue;
            const int64_t* dims = shapes[(op + t) % 4];
            kit_tensor x = kit_contiguous(plain[t], 3, dims);
            fill_for((berth_op_id)op, &x);
            const bool is_place = op == BERTH_OP_ARGMAX || op == BERTH_OP_ARGMIN;
            for (int round = 0; round < 3; ++round) {
                const uint32_t mask = is_place ? UINT32_C(1) << round : (uint32_t)kit_int(1, 7);
                const berth_reduce_params params = {.dims = dims_of(mask, 3), .correction = 1};
                check((berth_op_id)op, &x, &params);
            }
            kit_free(&x);
        }
    }
}

/// A tensor of the values of `x` whose dimensions lie in memory in another order.
static kit_tensor laid_out_anew(const kit_tensor* x) {
    kit_tensor copy = kit_strided(x->view.dtype, x->view.rank, x->view.dims, false, false);
    for (int64_t i = 0; i < kit_count(&x->view); ++i)
        memcpy(kit_at(&copy.view, i), kit_at(&x->view, i), kit_bytes(x->view.dtype));
    return copy;
}

static void a_result_has_the_same_bits_for_every_layout(void** state) {
    (void)state;
    kit_seed(3);
    static const int64_t shapes[][3] = {
        {37, 2611, 1}, {1300, 3, 17}, {5, 1100, 70}, {9, 40, 130}, {9, 6, 130}};
    for (int op = BERTH_OP_SUM; op <= BERTH_OP_LOGSUMEXP; ++op) {
        const bool is_place = op == BERTH_OP_ARGMAX || op == BERTH_OP_ARGMIN;
        for (int s = 0; s < 5; ++s) {
            kit_tensor x = kit_contiguous(BERTH_F32, 3, shapes[s]);
            fill_for((berth_op_id)op, &x);
            const uint32_t mask = is_place ? 2 : (uint32_t)(s % 2 == 0 ? 2 : 5);
            const berth_reduce_params params = {.dims = dims_of(mask, 3), .correction = 1};
            kit_tensor out = run((berth_op_id)op, &x, &params);
            for (int round = 0; round < 3; ++round) {
                kit_tensor other = laid_out_anew(&x);
                kit_tensor same = run((berth_op_id)op, &other, &params);
                assert_memory_equal(same.memory, out.memory, out.bytes + 2 * KIT_GUARD);
                kit_free(&other);
                kit_free(&same);
            }
            kit_free(&x);
            kit_free(&out);
        }
    }
}

static void a_sum_adds_blocks_of_sixteen_partial_sums(void** state) {
    (void)state;
    kit_seed(4);
    enum { COUNT = 2611 };
    const int64_t dims[1] = {COUNT};
    kit_tensor x = kit_contiguous(BERTH_F32, 1, dims);
    kit_fill(&x, -1, 1);
    double total = 0;
    for (int begin = 0; begin < COUNT; begin += 1024) {
        float partial[16] = {0};
        for (int i = begin; i < COUNT && i < begin + 1024; ++i)
            partial[i % 16] += (float)kit_get(&x.view, i);
        for (int step = 8; step > 0; step /= 2)
            for (int i = 0; i < step; ++i)
                partial[i] += partial[i + step];
        total += (double)partial[0];
    }
    const berth_reduce_params params = {.dims = BERTH_ALL_DIMS};
    kit_tensor out = run(BERTH_OP_SUM, &x, &params);
    kit_expect(&out.view, 0, (double)(float)total, 0);
    kit_free(&x);
    kit_free(&out);
}

/// Puts `special` at random places of a [70, 30] tensor and checks each op over each set of
/// dimensions.
static void check_special(double special, double other) {
    const int64_t dims[2] = {2100, 30};
    for (int op = BERTH_OP_SUM; op <= BERTH_OP_ALL; ++op) {
        kit_tensor x = kit_contiguous(BERTH_F32, 2, dims);
        fill_for((berth_op_id)op, &x);
        for (int i = 0; i < 20; ++i) {
            kit_store(BERTH_F32, kit_at(&x.view, kit_int(0, 2100 * 30 - 1)), special);
            kit_store(BERTH_F32, kit_at(&x.view, kit_int(0, 2100 * 30 - 1)), other);
        }
        for (uint32_t mask = 1; mask < 3; ++mask) {
            const berth_reduce_params params = {.dims = dims_of(mask, 2), .correction = 1};
            check((berth_op_id)op, &x, &params);
        }
        kit_free(&x);
    }
}

static void nan_and_infinities_go_through_as_ieee_and_pytorch_say(void** state) {
    (void)state;
    kit_seed(5);
    const double infinite = (double)INFINITY;
    check_special((double)NAN, (double)NAN);
    check_special(infinite, infinite);
    check_special(-infinite, -infinite);
    check_special(infinite, -infinite);
    check_special((double)NAN, infinite);
}

static void the_logarithm_of_powers_of_minus_infinity_is_minus_infinity(void** state) {
    (void)state;
    const int64_t dims[2] = {2, 3000};
    const double infinite = (double)INFINITY;
    kit_tensor x = kit_contiguous(BERTH_F32, 2, dims);
    for (int64_t i = 0; i < 6000; ++i)
        kit_store(BERTH_F32, kit_at(&x.view, i), -infinite);
    kit_store(BERTH_F32, kit_at(&x.view, 5500), -1000);
    const berth_reduce_params params = {.dims = BERTH_DIMS(1)};
    kit_tensor out = run(BERTH_OP_LOGSUMEXP, &x, &params);
    kit_expect(&out.view, 0, -infinite, 0);
    kit_expect(&out.view, 1, -1000, 0);
    kit_free(&x);
    kit_free(&out);
}

static void large_and_distant_values_cost_a_variance_nothing(void** state) {
    (void)state;
    kit_seed(6);
    const int64_t dims[2] = {5000, 9};
    kit_tensor x = kit_contiguous(BERTH_F32, 2, dims);
    const double around[3] = {1e7, 1e18, -1e-18};
    for (int i = 0; i < 3; ++i) {
        kit_fill(&x, 0.999 * around[i], around[i]);
        kit_store(BERTH_F32, kit_at(&x.view, 0), -5 * around[i]);
        for (uint32_t mask = 1; mask < 4; ++mask) {
            const berth_reduce_params params = {.dims = dims_of(mask, 2), .correction = 1};
            check(BERTH_OP_VAR, &x, &params);
        }
    }
    kit_free(&x);
}

static void sums_and_products_of_integers_wrap(void** state) {
    (void)state;
    kit_seed(7);
    const int64_t dims[2] = {1500, 12};
    kit_tensor x = kit_contiguous(BERTH_I64, 2, dims);
    for (int64_t i = 0; i < kit_count(&x.view); ++i) {
        const int64_t value = (int64_t)(kit_next() | 1);
        memcpy(kit_at(&x.view, i), &value, sizeof value);
    }
    for (int op = BERTH_OP_SUM; op <= BERTH_OP_ALL; ++op) {
        for (uint32_t mask = 1; mask < 3 && takes((berth_op_id)op, BERTH_I64); ++mask) {
            // places and extremes are compared as int64_t, beyond what a double tells apart
            const berth_reduce_params params = {.dims = dims_of(mask, 2)};
            check((berth_op_id)op, &x, &params);
        }
    }
    kit_free(&x);
}

static void a_variance_with_too_few_elements_is_infinite_or_nan(void** state) {
    (void)state;
    const int64_t dims[2] = {2, 1};
    kit_tensor x = kit_contiguous(BERTH_F32, 2, dims);
    kit_store(BERTH_F32, kit_at(&x.view, 0), 1);
    kit_store(BERTH_F32, kit_at(&x.view, 1), 3);
    const berth_reduce_params both = {.dims = BERTH_DIMS(0), .correction = 3};
    const berth_reduce_params one = {.dims = BERTH_DIMS(1), .correction = 1};
    kit_tensor first = run(BERTH_OP_VAR, &x, &both);
    kit_tensor second = run(BERTH_OP_VAR, &x, &one);
    kit_expect(&first.view, 0, (double)INFINITY, 0);
    kit_expect(&second.view, 0, (double)NAN, 0);
    kit_free(&x);
    kit_free(&first);
    kit_free(&second);
}

static void every_op_has_a_result_over_nothing_but_the_extremes(void** state) {
    (void)state;
    const int64_t dims[3] = {3, 0, 2};
    const berth_reduce_params params = {.dims = BERTH_DIMS(1), .correction = 1};
    static const struct {
        berth_op_id op;
        float expected;
    } cases[] = {{BERTH_OP_SUM, 0},
                 {BERTH_OP_MEAN, NAN},
                 {BERTH_OP_PROD, 1},
                 {BERTH_OP_VAR, NAN},
                 {BERTH_OP_LOGSUMEXP, -INFINITY},
                 {BERTH_OP_ANY, 0},
                 {BERTH_OP_ALL, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        for (int t = 0; t < PLAIN; ++t) {
            if (!takes(cases[i].op, plain[t])) continue;
            kit_tensor x = kit_contiguous(plain[t], 3, dims);
            kit_tensor out = run(cases[i].op, &x, &params);
            assert_int_equal(kit_count(&out.view), 6);
            for (int64_t c = 0; c < 6; ++c)
                kit_expect(&out.view, c, (double)cases[i].expected, 0);
            kit_free(&x);
            kit_free(&out);
        }
    }
}

static void a_tensor_of_rank_0_is_its_own_reduction(void** state) {
    (void)state;
    kit_seed(8);
    for (int op = BERTH_OP_SUM; op <= BERTH_OP_ALL; ++op) {
        for (int32_t named = 0; named < 3; ++named) {
            kit_tensor x = kit_contiguous(BERTH_F32, 0, NULL);
            fill_for((berth_op_id)op, &x);
            const berth_reduce_params params = {
                .dims = named == 0   ? BERTH_ALL_DIMS
                        : named == 1 ? BERTH_DIMS(0)
                                     : BERTH_DIMS(-1),
            };
            check((berth_op_id)op, &x, &params);
            kit_free(&x);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_over_any_dimensions_of_any_strides),
        cmocka_unit_test(long_reductions_are_right),
        cmocka_unit_test(a_result_has_the_same_bits_for_every_layout),
        cmocka_unit_test(a_sum_adds_blocks_of_sixteen_partial_sums),
        cmocka_unit_test(nan_and_infinities_go_through_as_ieee_and_pytorch_say),
        cmocka_unit_test(the_logarithm_of_powers_of_minus_infinity_is_minus_infinity),
        cmocka_unit_test(large_and_distant_values_cost_a_variance_nothing),
        cmocka_unit_test(sums_and_products_of_integers_wrap),
        cmocka_unit_test(a_variance_with_too_few_elements_is_infinite_or_nan),
        cmocka_unit_test(every_op_has_a_result_over_nothing_but_the_extremes),
        cmocka_unit_test(a_tensor_of_rank_0_is_its_own_reduction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
