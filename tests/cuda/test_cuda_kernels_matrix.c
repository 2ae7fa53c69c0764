// SPDX-License-Identifier: Apache-2.0
// MATMUL and LINEAR of the CUDA back end, run on the host, against the CPU's; and one row of a
// product against the same row among many, bit for bit, whichever kernel computes it.
#include "cuda/cuda_kernel_kit.h"
#include "device/matrix_kit.h"

static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};
static const berth_dtype integers[] = {BERTH_I8, BERTH_U8, BERTH_I32, BERTH_I64};
static const berth_dtype quantised[] = {
    BERTH_Q4_0, BERTH_Q4_1, BERTH_Q5_0, BERTH_Q5_1, BERTH_Q8_0, BERTH_Q4_K, BERTH_Q5_K, BERTH_Q6_K};

/// Sums of `depth` products of numbers up to `largest`, in another order, rounded to `dtype`.
static cuda_kit_tolerance sums_of(berth_dtype dtype, int64_t depth, double largest) {
    const double place = dtype == BERTH_F16 ? 0x1p-11 : dtype == BERTH_BF16 ? 0x1p-8 : 0;
    return (cuda_kit_tolerance){0x1p-20 + place, largest * (1e-6 + 1e-6 * sqrt((double)depth))};
}

static void launch(berth_op_id op, berth_op_call* call) {
    const berth_cuda_table* table = berth_cuda_kernel_table();
    const uint64_t bytes = table->scratch[op] != NULL ? table->scratch[op](call) : 0;
    cuda_kit_launch(table->kernels[op], call, bytes);
}

// --- MATMUL --------------------------------------------------------------------------------------

static kit_tensor draw_operand(berth_dtype dtype, int32_t rank, const int64_t* dims) {
    kit_tensor x = kit_int(0, 2) == 0 ? kit_contiguous(dtype, rank, dims)
                                      : kit_strided(dtype, rank, dims, kit_int(0, 1) == 0, true);
    if (berth_dtype_is_float(dtype))
        kit_fill(&x, -1, 1);
    else
        kit_fill(&x, dtype == BERTH_U8 ? 0 : -100, 100);
    return x;
}

/// Compares a [.., m, k] x b [.., k, n] with leading dimensions that broadcast.
static void compare_matmul(berth_dtype dtype, int64_t m, int64_t n, int64_t k) {
    const bool a_is_row = m == 1 && kit_int(0, 1) == 0, b_is_column = n == 1 && kit_int(0, 1) == 0;
    const int64_t batches = kit_int(0, 3) == 0 ? kit_int(2, 3) : 1;
    const int64_t a_dims[4] = {kit_int(0, 1) == 0 ? 1 : 2, batches, m, k};
    const int64_t b_dims[4] = {2, kit_int(0, 1) == 0 ? 1 : batches, k, n};
    const bool has_batch = batches > 1;
    kit_tensor a = a_is_row ? draw_operand(dtype, 1, &k)
                            : draw_operand(dtype, has_batch ? 4 : 2, a_dims + (has_batch ? 0 : 2));
    kit_tensor b = b_is_column
                       ? draw_operand(dtype, 1, &k)
                       : draw_operand(dtype, has_batch ? 4 : 2, b_dims + (has_batch ? 0 : 2));
    berth_op_call call = {
        .input_count = 2, .inputs = {a.view, b.view}, .output_count = 1, .batch_invariant = true};
    const bool is_float = berth_dtype_is_float(dtype);
    cuda_kit_compare(BERTH_OP_MATMUL, &call, -1, is_float ? sums_of(dtype, k, 1) : cuda_kit_exact);
    kit_free(&a);
    kit_free(&b);
}

static void products_of_floats_are_the_cpus_whatever_the_shape_and_the_strides(void** state) {
    (void)state;
    kit_seed(1);
    for (int round = 0; round < 60; ++round) {
        const berth_dtype dtype = floats[round % 3];
        const int64_t m = kit_int(0, 2) == 0 ? kit_int(1, 150) : kit_int(1, 20);
        compare_matmul(dtype, m, kit_int(1, 80), kit_int(1, 150));
    }
}

static void products_of_a_vector_are_the_cpus(void** state) {
    (void)state;
    kit_seed(2);
    for (int round = 0; round < 24; ++round) {
        const int64_t n = kit_int(1, 90), k = kit_int(1, 300);
        compare_matmul(floats[round % 3], round % 2 == 0 ? 1 : n, round % 2 == 0 ? n : 1, k);
    }
    compare_matmul(BERTH_F32, 1, 1, 5000);
}

static void products_of_integers_wrap_as_the_cpus_do(void** state) {
    (void)state;
    kit_seed(3);
    for (int round = 0; round < 24; ++round)
        compare_matmul(integers[round % 4], kit_int(1, 40), kit_int(1, 40), kit_int(0, 40));
}

static void products_without_elements_or_without_depth_are_empty_or_zero(void** state) {
    (void)state;
    kit_seed(4);
    for (int round = 0; round < 12; ++round) {
        const berth_dtype dtype = round % 2 == 0 ? floats[round % 3] : integers[round % 4];
        const int64_t m = kit_int(0, 2) * 50, n = kit_int(0, 2), k = kit_int(0, 1);
        compare_matmul(dtype, m, n, k * kit_int(0, 3));
    }
}

static void infinities_and_nans_spoil_only_their_rows_and_columns(void** state) {
    (void)state;
    kit_seed(5);
    for (int round = 0; round < 3; ++round) {
        const int64_t m = round == 0 ? 3 : 140, n = 70, k = 37;
        kit_tensor a = kit_contiguous(BERTH_F32, 2, (int64_t[]){m, k});
        kit_tensor b = kit_contiguous(BERTH_F32, 2, (int64_t[]){k, n});
        kit_fill(&a, -1, 1);
        kit_fill(&b, -1, 1);
        kit_store(BERTH_F32, kit_at(&a.view, k + 5), (double)INFINITY);
        kit_store(BERTH_F32, kit_at(&b.view, n * (k - 1) + 9), (double)NAN);
        berth_op_call call = {.input_count = 2,
                              .inputs = {a.view, b.view},
                              .output_count = 1,
                              .batch_invariant = true};
        cuda_kit_compare(BERTH_OP_MATMUL, &call, -1, sums_of(BERTH_F32, k, 1));
        kit_free(&a);
        kit_free(&b);
    }
}

/// Lays b [k, n] out so that its columns, its rows or neither are side by side.
static kit_tensor layout_of_b(berth_dtype dtype, int64_t k, int64_t n, int which) {
    kit_tensor b = kit_contiguous(dtype, 2, which == 0 ? (int64_t[]){n, k} : (int64_t[]){k, n * 2});
    kit_fill(&b, -1, 1);
    berth_view* view = &b.view;
    view->dims[0] = k;
    view->dims[1] = n;
    if (which == 0) {
        view->strides[0] = 1;
        view->strides[1] = k;
    } else if (which == 2) {
        view->strides[1] = 2;
    }
    return b;
}

/// The product of rows [first, first + count) of a and b, contiguous.
static kit_tensor rows_of_product(
    const berth_view* a, const berth_view* b, int64_t first, int64_t count, int64_t n) {
    kit_tensor out = kit_contiguous(a->dtype, 2, (int64_t[]){count, n});
    berth_op_call call = {.input_count = 2,
                          .inputs = {*a, *b},
                          .output_count = 1,
                          .outputs = {out.view},
                          .batch_invariant = true};
    call.inputs[0].dims[0] = count;
    call.inputs[0].data =
        (unsigned char*)a->data + first * a->strides[0] * (int64_t)kit_bytes(a->dtype);
    launch(BERTH_OP_MATMUL, &call);
    return out;
}

static void a_row_of_a_product_has_the_same_bits_alone_and_among_many(void** state) {
    (void)state;
    kit_seed(6);
    const int64_t rows = 131, n = 66;
    const struct { int64_t first, count; } parts[] = {{0, 1}, {7, 2}, {20, 9}, {60, 33}, {130, 1}};
    for (int round = 0; round < 9; ++round) {
        const berth_dtype dtype = floats[round % 3];
        const int64_t k = round < 3 ? 1300 : kit_int(100, 400);
        kit_tensor a = kit_contiguous(dtype, 2, (int64_t[]){rows, k});
        kit_fill(&a, -1, 1);
        kit_tensor b = layout_of_b(dtype, k, n, round / 3);
        kit_tensor all = rows_of_product(&a.view, &b.view, 0, rows, n);
        const size_t row = (size_t)n * kit_bytes(dtype);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
            kit_tensor some = rows_of_product(&a.view, &b.view, parts[i].first, parts[i].count, n);
            assert_memory_equal((unsigned char*)all.view.data + (size_t)parts[i].first * row,
                                some.view.data,
                                (size_t)parts[i].count * row);
            kit_free(&some);
        }
        kit_free(&all);
        kit_free(&b);
        kit_free(&a);
    }
}

// --- MATMUL of halves ----------------------------------------------------------------------------

typedef enum layout { ALONG, ACROSS, APART, LAYOUTS } layout;

/// A matrix whose neighbours in a row lie side by side, or those in a column; or neither.
static kit_tensor half_matrix(berth_dtype dtype, int64_t rows, int64_t columns, layout which) {
    const bool is_turned = which == ACROSS;
    const int64_t inner = is_turned ? rows : columns;
    const int64_t pitch = which == APART ? inner * 3 + 1 : (inner + 7) / 8 * 8;
    kit_tensor x = kit_contiguous(dtype, 2, (int64_t[]){is_turned ? columns : rows, pitch});
    kit_fill(&x, -1, 1);
    x.view.dims[0] = rows;
    x.view.dims[1] = columns;
    x.view.strides[0] = is_turned ? 1 : pitch;
    x.view.strides[1] = is_turned ? pitch : which == APART ? 3 : 1;
    return x;
}

static void products_of_halves_are_the_cpus_however_the_operands_lie(void** state) {
    (void)state;
    kit_seed(12);
    static const int64_t sizes[][3] = {{1, 40, 136},
                                       {5, 17, 1100},
                                       {21, 50, 77},
                                       {32, 33, 264},
                                       {40, 130, 96},
                                       {129, 24, 135},
                                       {33, 8, 384}};
    int round = 0;
    for (layout of_a = 0; of_a < LAYOUTS; ++of_a)
        for (layout of_b = 0; of_b < LAYOUTS; ++of_b)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
                const berth_dtype dtype = round++ % 2 == 0 ? BERTH_F16 : BERTH_BF16;
                const int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
                kit_tensor a = half_matrix(dtype, m, k, of_a);
                kit_tensor b = half_matrix(dtype,
                                           k,
                                           n,
                                           of_b == ALONG    ? ACROSS
                                           : of_b == ACROSS ? ALONG
                                                            : APART);
                berth_op_call call = {.input_count = 2,
                                      .inputs = {a.view, b.view},
                                      .output_count = 1,
                                      .batch_invariant = true};
                cuda_kit_compare(BERTH_OP_MATMUL, &call, -1, sums_of(dtype, k, 1));
                kit_free(&a);
                kit_free(&b);
            }
}

/// Some rows times some columns, taken out of a product of all.
typedef struct half_part {
    int64_t row, rows, column, columns;
} half_part;

static kit_tensor part_of_product(const berth_view* a, const berth_view* b, const half_part* part) {
    const int64_t bytes = (int64_t)kit_bytes(a->dtype);
    berth_view of_a = *a, of_b = *b;
    of_a.dims[0] = part->rows;
    of_a.data = (unsigned char*)a->data + part->row * a->strides[0] * bytes;
    of_b.dims[1] = part->columns;
    of_b.data = (unsigned char*)b->data + part->column * b->strides[1] * bytes;
    return rows_of_product(&of_a, &of_b, 0, part->rows, part->columns);
}

static void expect_part(const kit_tensor* all, const kit_tensor* some, const half_part* part) {
    const int64_t bytes = (int64_t)kit_bytes(all->view.dtype);
    for (int64_t row = 0; row < part->rows; ++row) {
        const int64_t at = (part->row + row) * all->view.dims[1] + part->column;
        assert_memory_equal((unsigned char*)all->view.data + at * bytes,
                            (unsigned char*)some->view.data + row * part->columns * bytes,
                            (size_t)(part->columns * bytes));
    }
}

/// Few rows go by other kernels than many, in groups of 8 or 32 or in tiles; and columns that are
/// taken out are not aligned as they were.
static void an_element_of_a_product_of_halves_has_the_same_bits_in_any_product(void** state) {
    (void)state;
    kit_seed(13);
    const int64_t rows = 200, n = 139;
    static const half_part parts[] = {{0, 1, 0, 139},
                                      {7, 2, 0, 139},
                                      {20, 7, 0, 139},
                                      {30, 8, 0, 139},
                                      {40, 9, 0, 139},
                                      {137, 63, 0, 139},
                                      {130, 32, 16, 40},
                                      {131, 1, 9, 50},
                                      {3, 34, 17, 20},
                                      {190, 5, 138, 1}};
    for (int round = 0; round < 6; ++round) {
        const berth_dtype dtype = round % 2 == 0 ? BERTH_F16 : BERTH_BF16;
        const int64_t k = round == 0 ? 1285 : kit_int(16, 300);
        kit_tensor a = half_matrix(dtype, rows, k, (layout)(round % 3));
        kit_tensor b = half_matrix(dtype, k, n, (layout)(round / 2));
        const half_part whole = {0, rows, 0, n};
        kit_tensor all = part_of_product(&a.view, &b.view, &whole);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
            kit_tensor some = part_of_product(&a.view, &b.view, &parts[i]);
            expect_part(&all, &some, &parts[i]);
            kit_free(&some);
        }
        kit_free(&all);
        kit_free(&b);
        kit_free(&a);
    }
}

/// What no number is multiplied with reaches no other row and no other column, nor the end of a
/// depth that fills no step.
static void infinities_and_nans_of_halves_spoil_only_their_rows_and_columns(void** state) {
    (void)state;
    kit_seed(14);
    for (int round = 0; round < 6; ++round) {
        const berth_dtype dtype = round % 2 == 0 ? BERTH_F16 : BERTH_BF16;
        const int64_t m = round / 2 == 0 ? 3 : round / 2 == 1 ? 20 : 50, n = 50, k = 133;
        kit_tensor a = half_matrix(dtype, m, k, ALONG);
        kit_tensor b = half_matrix(dtype, k, n, round % 2 == 0 ? ALONG : ACROSS);
        kit_store(dtype, kit_at(&a.view, k + 5), (double)INFINITY);
        kit_store(dtype, kit_at(&a.view, 3 * k - 1), (double)NAN);
        kit_store(dtype, kit_at(&b.view, n * (k - 1) + 9), -(double)INFINITY);
        berth_op_call call = {.input_count = 2,
                              .inputs = {a.view, b.view},
                              .output_count = 1,
                              .batch_invariant = true};
        cuda_kit_compare(BERTH_OP_MATMUL, &call, -1, sums_of(dtype, k, 1));
        kit_free(&a);
        kit_free(&b);
    }
}

// --- LINEAR --------------------------------------------------------------------------------------

typedef struct linear_case {
    berth_dtype x_dtype, w_dtype;
    int64_t rows, n, k;
} linear_case;

static int64_t draw_depth(berth_dtype w_dtype, int64_t most) {
    const int64_t block = berth_dtype_query_info(w_dtype)->block_values;
    return block * kit_int(1, most / block > 1 ? most / block : 1);
}

static void compare_linear(const linear_case* c) {
    const bool has_leading = c->rows % 2 == 0 && kit_int(0, 1) == 0;
    const int64_t dims[3] = {2, c->rows / 2, c->k};
    const int64_t flat[2] = {c->rows, c->k};
    kit_tensor x = kit_strided(
        c->x_dtype, has_leading ? 3 : 2, has_leading ? dims : flat, true, kit_int(0, 1) == 0);
    kit_fill(&x, -1, 1);
    kit_tensor w = matrix_weights(c->w_dtype, c->n, c->k, kit_int(0, 2));
    float* weights = matrix_as_f32(&w.view);
    double largest = 1;
    for (int64_t i = 0; i < c->n * c->k; ++i)
        largest = fmax(largest, fabs((double)weights[i]));
    free(weights);
    kit_tensor bias = kit_contiguous(BERTH_F32, 1, &c->n);
    kit_fill(&bias, -1, 1);
    berth_op_call call = {.input_count = 2 + (uint32_t)kit_int(0, 1),
                          .inputs = {x.view, w.view, bias.view},
                          .output_count = 1,
                          .batch_invariant = true};
    cuda_kit_compare(BERTH_OP_LINEAR, &call, -1, sums_of(c->x_dtype, c->k, largest));
    kit_free(&x);
    kit_free(&w);
    kit_free(&bias);
}

static void linear_of_float_weights_is_the_cpus(void** state) {
    (void)state;
    kit_seed(7);
    for (int round = 0; round < 27; ++round) {
        const linear_case c = {
            .x_dtype = floats[round % 3],
            .w_dtype = floats[round / 3 % 3],
            .rows = round < 9 ? 1 : kit_int(1, round < 18 ? 40 : 150),
            .n = kit_int(1, 80),
            .k = round == 0 ? 4500 : kit_int(0, 200),
        };
        compare_linear(&c);
    }
}

static void linear_of_quantised_weights_is_the_cpus(void** state) {
    (void)state;
    kit_seed(8);
    for (int round = 0; round < 24; ++round) {
        const berth_dtype w_dtype = quantised[round % 8];
        const linear_case c = {
            .x_dtype = floats[round % 3],
            .w_dtype = w_dtype,
            .rows = round < 8 ? 1 : kit_int(2, round < 16 ? 20 : 140),
            .n = kit_int(1, 70),
            .k = draw_depth(w_dtype, 512),
        };
        compare_linear(&c);
    }
}

static void linear_of_no_rows_or_no_depth_is_the_cpus(void** state) {
    (void)state;
    kit_seed(9);
    const linear_case cases[] = {{BERTH_F32, BERTH_F32, 0, 5, 7},
                                 {BERTH_F16, BERTH_Q8_0, 3, 0, 32},
                                 {BERTH_BF16, BERTH_F16, 3, 4, 0},
                                 {BERTH_F32, BERTH_Q4_K, 50, 3, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        compare_linear(&cases[i]);
}

/// The first `rows` rows of x through w, contiguous.
static kit_tensor linear_of(const kit_tensor* x, const kit_tensor* w, int64_t rows) {
    kit_tensor out = kit_contiguous(x->view.dtype, 2, (int64_t[]){rows, w->view.dims[0]});
    berth_op_call call = {.input_count = 2,
                          .inputs = {x->view, w->view},
                          .output_count = 1,
                          .outputs = {out.view},
                          .batch_invariant = true};
    call.inputs[0].dims[0] = rows;
    launch(BERTH_OP_LINEAR, &call);
    return out;
}

static void a_row_has_the_same_bits_through_any_weights_whatever_the_number_of_rows(void** state) {
    (void)state;
    kit_seed(10);
    for (int round = 0; round < 11; ++round) {
        const berth_dtype dtype = round < 8 ? quantised[round] : floats[round - 8];
        const int64_t k = draw_depth(dtype, 768), n = 19, rows = 40;
        kit_tensor x = kit_contiguous(BERTH_F32, 2, (int64_t[]){rows, k});
        kit_fill(&x, -1, 1);
        kit_tensor w = matrix_weights(dtype, n, k, 1);
        kit_tensor many = linear_of(&x, &w, rows), few = linear_of(&x, &w, 9);
        kit_tensor one = linear_of(&x, &w, 1);
        assert_memory_equal(many.view.data, few.view.data, few.bytes);
        assert_memory_equal(many.view.data, one.view.data, one.bytes);
        kit_free(&many);
        kit_free(&few);
        kit_free(&one);
        kit_free(&w);
        kit_free(&x);
    }
}

static void a_bias_is_added_to_every_row_of_a_product(void** state) {
    (void)state;
    kit_seed(11);
    for (int round = 0; round < 3; ++round) {
        const int64_t rows = 300, columns = kit_int(1, 20);
        kit_tensor out = kit_contiguous(floats[round], 2, (int64_t[]){rows, columns});
        kit_tensor bias = kit_contiguous(BERTH_F32, 1, &columns);
        kit_fill(&out, -1, 1);
        kit_fill(&bias, -1, 1);
        kit_tensor before;
        kit_guard(&before, out.bytes);
        memcpy(before.memory + KIT_GUARD, out.view.data, out.bytes);
        before.view = out.view;
        before.view.data = before.memory + KIT_GUARD;
        const berth_cuda_bias_args args = {.out = out.view.data,
                                           .bias = bias.view.data,
                                           .count = rows * columns,
                                           .columns = columns,
                                           .dtype = (int32_t)floats[round]};
        berth_cuda_run(BERTH_CUDA_KERNEL_product_bias, 2, 256, &args);
        for (int64_t i = 0; i < rows * columns; ++i) {
            const double sum = kit_get(&before.view, i) + kit_get(&bias.view, i % columns);
            kit_expect(&out.view, i, sum, kit_tolerance(floats[round], sum, 0x1p-20) + 1e-7);
        }
        kit_free(&out);
        kit_free(&bias);
        kit_free(&before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_floats_are_the_cpus_whatever_the_shape_and_the_strides),
        cmocka_unit_test(products_of_a_vector_are_the_cpus),
        cmocka_unit_test(products_of_integers_wrap_as_the_cpus_do),
        cmocka_unit_test(products_without_elements_or_without_depth_are_empty_or_zero),
        cmocka_unit_test(infinities_and_nans_spoil_only_their_rows_and_columns),
        cmocka_unit_test(a_row_of_a_product_has_the_same_bits_alone_and_among_many),
        cmocka_unit_test(products_of_halves_are_the_cpus_however_the_operands_lie),
        cmocka_unit_test(an_element_of_a_product_of_halves_has_the_same_bits_in_any_product),
        cmocka_unit_test(infinities_and_nans_of_halves_spoil_only_their_rows_and_columns),
        cmocka_unit_test(linear_of_float_weights_is_the_cpus),
        cmocka_unit_test(linear_of_quantised_weights_is_the_cpus),
        cmocka_unit_test(linear_of_no_rows_or_no_depth_is_the_cpus),
        cmocka_unit_test(a_row_has_the_same_bits_through_any_weights_whatever_the_number_of_rows),
        cmocka_unit_test(a_bias_is_added_to_every_row_of_a_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
