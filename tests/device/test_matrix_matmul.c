// SPDX-License-Identifier: Apache-2.0
// Tests of MATMUL: against double arithmetic over batches and strides, and that its bits depend on
// nothing but the row and the column (Y1).
#include "matrix_kit.h"

static const berth_dtype types[] = {BERTH_F32, BERTH_F16, BERTH_BF16};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef struct product {
    kit_tensor a;
    kit_tensor b;
    kit_tensor out;
    berth_op_call call;
} product;

/// Takes a and b; the output's leading dims are their broadcast.
static product make_product(kit_tensor a, kit_tensor b) {
    product p = {.a = a, .b = b};
    const int32_t a_rank = a.view.rank;
    const int32_t b_rank = b.view.rank;
    const int32_t rank = a_rank > b_rank ? a_rank : b_rank;
    int64_t dims[BERTH_MAX_RANK];
    for (int32_t d = 0; d < rank - 2; d++) {
        const int32_t in_a = d - (rank - a_rank);
        const int32_t in_b = d - (rank - b_rank);
        dims[d] = in_a >= 0 ? a.view.dims[in_a] : 1;
        if (in_b >= 0 && b.view.dims[in_b] != 1) dims[d] = b.view.dims[in_b];
    }
    dims[rank - 2] = a.view.dims[a_rank - 2];
    dims[rank - 1] = b.view.dims[b_rank - 1];
    p.out = kit_contiguous(a.view.dtype, rank, dims);
    p.call = (berth_op_call){.input_count = 2, .output_count = 1, .batch_invariant = true};
    p.call.inputs[0] = p.a.view;
    p.call.inputs[1] = p.b.view;
    p.call.outputs[0] = p.out.view;
    memset(p.out.view.data, 0xFF, p.out.bytes);
    kit_fill(&p.a, -1, 1);
    kit_fill(&p.b, -1, 1);
    return p;
}

static product make_plain(berth_dtype type, int64_t m, int64_t n, int64_t k) {
    return make_product(kit_contiguous(type, 2, (int64_t[]){m, k}),
                        kit_contiguous(type, 2, (int64_t[]){k, n}));
}

static void free_product(product* p) {
    kit_free(&p->a);
    kit_free(&p->b);
    kit_free(&p->out);
}

/// Row-major position of matrix `batch` (of the output's leading dims) in an operand, in matrices.
static int64_t matrix_of_batch(const berth_view* x, const berth_view* out, int64_t batch) {
    int64_t position = 0;
    int64_t step = 1;
    for (int32_t d = out->rank - 3; d >= 0; d--) {
        const int32_t at = d - (out->rank - x->rank);
        if (at >= 0) {
            position += (x->dims[at] == 1 ? 0 : batch % out->dims[d]) * step;
            step *= x->dims[at];
        }
        batch /= out->dims[d];
    }
    return position;
}

static void check_against_double(const product* p) {
    const berth_view* out = &p->out.view;
    const int64_t m = out->dims[out->rank - 2];
    const int64_t n = out->dims[out->rank - 1];
    const int64_t k = p->a.view.dims[p->a.view.rank - 1];
    const int64_t outputs = kit_count(out);
    for (int64_t i = 0; i < outputs; i++) {
        const int64_t row = i / n % m;
        const int64_t a0 = matrix_of_batch(&p->a.view, out, i / n / m) * m * k + row * k;
        const int64_t b0 = matrix_of_batch(&p->b.view, out, i / n / m) * k * n + i % n;
        double sum = 0;
        double size = 0;
        for (int64_t j = 0; j < k; j++) {
            const double value = kit_get(&p->a.view, a0 + j) * kit_get(&p->b.view, b0 + j * n);
            sum += value;
            size += fabs(value);
        }
        const double found = kit_get(out, i);
        // k additions, each wrong by half a place at most.
        const double bound = (double)(k + 1) * 0x1p-24 * size;
        const double tolerance = kit_tolerance(out->dtype, sum, 1e-7) + bound;
        if (!(fabs(found - sum) <= tolerance)) {
            fail_msg("output %lld: %.9g, expected %.9g", (long long)i, found, sum);
        }
    }
}

static void batches_of_any_strides_agree_with_double_arithmetic(void** state) {
    (void)state;
    kit_seed(11);
    for (int round = 0; round < 400; round++) {
        const berth_dtype type = types[kit_int(0, 2)];
        const int64_t m = kit_int(1, 14);
        const int64_t n = kit_int(0, 4) == 0 ? kit_int(60, 140) : kit_int(1, 40);
        const int64_t k = kit_int(0, 9) == 0 ? kit_int(250, 300) : kit_int(1, 30);
        const int64_t batch[2] = {kit_int(1, 3), kit_int(1, 3)};
        const int32_t a_rank = (int32_t)kit_int(2, 4);
        const int32_t b_rank = (int32_t)kit_int(2, 4);
        int64_t a[4] = {kit_int(0, 2) ? batch[0] : 1, kit_int(0, 2) ? batch[1] : 1, m, k};
        int64_t b[4] = {kit_int(0, 2) ? batch[0] : 1, kit_int(0, 2) ? batch[1] : 1, k, n};
        product p =
            make_product(kit_strided(type, a_rank, a + 4 - a_rank, kit_int(0, 1) == 0, true),
                         kit_strided(type, b_rank, b + 4 - b_rank, kit_int(0, 1) == 0, true));
        p.call.team = matrix_teams[kit_int(0, MATRIX_TEAMS - 1)];
        berth_cpu_set_isa((berth_cpu_isa)kit_int(BERTH_CPU_ISA_PORTABLE, BERTH_CPU_ISA_AVX512));
        matrix_run(BERTH_OP_MATMUL, &p.call);
        berth_cpu_set_isa(BERTH_CPU_ISA_AVX512);
        check_against_double(&p);
        free_product(&p);
    }
}

static void a_row_has_the_same_bits_for_every_number_of_rows(void** state) {
    (void)state;
    kit_seed(12);
    enum { ROWS = 70, COLUMNS = 80 };
    for (size_t t = 0; t < COUNT(types); t++) {
        product p = make_plain(types[t], ROWS, COLUMNS, 333);
        matrix_run(BERTH_OP_MATMUL, &p.call);
        const size_t row_bytes = COLUMNS * kit_bytes(types[t]);
        unsigned char* out = malloc(ROWS * row_bytes);
        assert_non_null(out);
        for (int64_t rows = 1; rows <= ROWS; rows++) {
            const int64_t row = kit_int(0, ROWS - rows);
            berth_op_call part = p.call;
            part.inputs[0].data = kit_at(&p.a.view, row * 333);
            part.inputs[0].dims[0] = rows;
            part.outputs[0].data = out;
            part.outputs[0].dims[0] = rows;
            part.team = matrix_teams[rows % MATRIX_TEAMS];
            matrix_run(BERTH_OP_MATMUL, &part);
            assert_memory_equal(out,
                                (unsigned char*)p.out.view.data + (size_t)row * row_bytes,
                                (size_t)rows * row_bytes);
        }
        free(out);
        free_product(&p);
    }
}

static void threads_and_instruction_sets_change_no_bit(void** state) {
    (void)state;
    kit_seed(13);
    static const int64_t shapes[][3] = {
        {1, 200, 300}, {200, 1, 300}, {130, 150, 70}, {7, 64, 513}, {300, 17, 5}};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (size_t t = 0; t < COUNT(types); t++) {
            product p = make_plain(types[t], shapes[i][0], shapes[i][1], shapes[i][2]);
            matrix_run(BERTH_OP_MATMUL, &p.call);
            unsigned char* expected = malloc(p.out.bytes);
            assert_non_null(expected);
            memcpy(expected, p.out.view.data, p.out.bytes);
            for (int team = 0; team < MATRIX_TEAMS; team++) {
                for (int isa = BERTH_CPU_ISA_PORTABLE; isa <= BERTH_CPU_ISA_AVX512; isa++) {
                    berth_cpu_set_isa((berth_cpu_isa)isa);
                    p.call.team = matrix_teams[team];
                    memset(p.out.view.data, 0xFF, p.out.bytes);
                    matrix_run(BERTH_OP_MATMUL, &p.call);
                    assert_memory_equal(p.out.view.data, expected, p.out.bytes);
                }
            }
            free(expected);
            free_product(&p);
        }
    }
}

static void a_transposed_operand_gives_the_same_bits_as_its_copy(void** state) {
    (void)state;
    kit_seed(14);
    for (size_t t = 0; t < COUNT(types); t++) {
        for (int64_t m = 1; m <= 40; m += 13) {
            product p = make_plain(types[t], m, 80, 290);
            matrix_run(BERTH_OP_MATMUL, &p.call);
            // The same values, written column by column.
            kit_tensor turned = kit_contiguous(types[t], 2, (int64_t[]){80, 290});
            berth_view view = turned.view;
            view.dims[0] = 290;
            view.dims[1] = 80;
            view.strides[0] = 1;
            view.strides[1] = 290;
            for (int64_t i = 0; i < 290 * 80; i++) {
                kit_store(types[t], kit_at(&view, i), kit_get(&p.b.view, i));
            }
            kit_tensor out = kit_contiguous(types[t], 2, (int64_t[]){m, 80});
            p.call.inputs[1] = view;
            p.call.outputs[0] = out.view;
            matrix_run(BERTH_OP_MATMUL, &p.call);
            assert_memory_equal(out.view.data, p.out.view.data, out.bytes);
            kit_free(&turned);
            kit_free(&out);
            free_product(&p);
        }
    }
}

static void empty_operands_give_empty_results_or_zeros(void** state) {
    (void)state;
    kit_seed(15);
    static const int64_t shapes[][3] = {{0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {20, 70, 0}, {0, 0, 0}};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (size_t t = 0; t < COUNT(types); t++) {
            product p = make_plain(types[t], shapes[i][0], shapes[i][1], shapes[i][2]);
            matrix_run(BERTH_OP_MATMUL, &p.call);
            check_against_double(&p);
            free_product(&p);
        }
    }
    product none = make_product(kit_contiguous(BERTH_F32, 3, (int64_t[]){0, 2, 3}),
                                kit_contiguous(BERTH_F32, 2, (int64_t[]){3, 2}));
    matrix_run(BERTH_OP_MATMUL, &none.call);
    free_product(&none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_of_any_strides_agree_with_double_arithmetic),
        cmocka_unit_test(a_row_has_the_same_bits_for_every_number_of_rows),
        cmocka_unit_test(threads_and_instruction_sets_change_no_bit),
        cmocka_unit_test(a_transposed_operand_gives_the_same_bits_as_its_copy),
        cmocka_unit_test(empty_operands_give_empty_results_or_zeros),
    };
    return cmocka_run_group_tests(tests, matrix_setup, matrix_teardown);
}
