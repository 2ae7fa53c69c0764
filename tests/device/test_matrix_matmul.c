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

/// Sizes of the result of a times b, whose leading dims are the broadcast of theirs; the rank.
static int32_t result_dims(const berth_view* a, const berth_view* b, int64_t* dims) {
    const int32_t a_leading = a->rank > 2 ? a->rank - 2 : 0;
    const int32_t b_leading = b->rank > 2 ? b->rank - 2 : 0;
    int32_t rank = a_leading > b_leading ? a_leading : b_leading;
    for (int32_t d = 0; d < rank; d++) {
        const int32_t in_a = d - (rank - a_leading);
        const int32_t in_b = d - (rank - b_leading);
        dims[d] = in_a >= 0 ? a->dims[in_a] : 1;
        if (in_b >= 0 && b->dims[in_b] != 1) dims[d] = b->dims[in_b];
    }
    if (a->rank > 1) dims[rank++] = a->dims[a->rank - 2];
    if (b->rank > 1) dims[rank++] = b->dims[b->rank - 1];
    return rank;
}

/// Random values; integers with all their bits.
static void fill(kit_tensor* x) {
    if (berth_dtype_is_float(x->view.dtype)) {
        kit_fill(x, -1, 1);
        return;
    }
    for (int64_t i = 0; i < kit_count(&x->view); i++)
        memcpy(kit_at(&x->view, i), &(uint64_t){kit_next()}, kit_bytes(x->view.dtype));
}

/// Takes a and b, of any rank from 1.
static product make_product(kit_tensor a, kit_tensor b) {
    product p = {.a = a, .b = b};
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = result_dims(&a.view, &b.view, dims);
    p.out = kit_contiguous(a.view.dtype, rank, dims);
    p.call = (berth_op_call){.input_count = 2, .output_count = 1, .batch_invariant = true};
    p.call.inputs[0] = p.a.view;
    p.call.inputs[1] = p.b.view;
    p.call.outputs[0] = p.out.view;
    memset(p.out.view.data, 0xFF, p.out.bytes);
    fill(&p.a);
    fill(&p.b);
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

/// Row-major position of matrix `batch` (of the output's `leading` dims) in an operand, in
/// matrices.
static int64_t matrix_of_batch(const berth_view* x,
                               const berth_view* out,
                               int32_t leading,
                               int64_t batch) {
    int64_t position = 0;
    int64_t step = 1;
    for (int32_t d = leading - 1; d >= 0; d--) {
        const int32_t at = d - (leading - (x->rank - 2));
        if (at >= 0) {
            position += (x->dims[at] == 1 ? 0 : batch % out->dims[d]) * step;
            step *= x->dims[at];
        }
        batch /= out->dims[d];
    }
    return position;
}

/// Where the operands of an output lie: row-major positions of the first of k pairs, and how far
/// b's are apart.
typedef struct sources {
    int64_t a;
    int64_t b;
    int64_t k;
    int64_t b_step;
} sources;

static sources sources_of(const product* p, int64_t output) {
    const berth_view* a = &p->a.view;
    const berth_view* b = &p->b.view;
    const berth_view* out = &p->out.view;
    const int64_t m = a->rank > 1 ? a->dims[a->rank - 2] : 1;
    const int64_t n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    const int64_t k = a->dims[a->rank - 1];
    const int32_t leading = out->rank - (a->rank > 1) - (b->rank > 1);
    const int64_t batch = output / n / m;
    return (sources){
        .a = matrix_of_batch(a, out, leading, batch) * m * k + output / n % m * k,
        .b = matrix_of_batch(b, out, leading, batch) * k * n + output % n,
        .k = k,
        .b_step = n,
    };
}

static void check_against_double(const product* p) {
    const berth_view* out = &p->out.view;
    for (int64_t i = 0; i < kit_count(out); i++) {
        const sources from = sources_of(p, i);
        double sum = 0;
        double size = 0;
        for (int64_t j = 0; j < from.k; j++) {
            const double value =
                kit_get(&p->a.view, from.a + j) * kit_get(&p->b.view, from.b + j * from.b_step);
            sum += value;
            size += fabs(value);
        }
        const double found = kit_get(out, i);
        // k additions, each wrong by half a place at most.
        const double bound = (double)(from.k + 1) * 0x1p-24 * size;
        const double tolerance = kit_tolerance(out->dtype, sum, 1e-7) + bound;
        if (!(fabs(found - sum) <= tolerance)) {
            fail_msg("output %lld: %.9g, expected %.9g", (long long)i, found, sum);
        }
    }
}

/// The low bits of an integer; those above are of no account.
static uint64_t low_bits(const berth_view* x, int64_t index) {
    uint64_t bits = 0;
    memcpy(&bits, kit_at(x, index), kit_bytes(x->dtype));
    return bits;
}

static void check_integers(const product* p) {
    const berth_view* out = &p->out.view;
    for (int64_t i = 0; i < kit_count(out); i++) {
        const sources from = sources_of(p, i);
        uint64_t sum = 0;
        for (int64_t j = 0; j < from.k; j++)
            sum +=
                low_bits(&p->a.view, from.a + j) * low_bits(&p->b.view, from.b + j * from.b_step);
        assert_memory_equal(kit_at(out, i), &sum, kit_bytes(out->dtype));
    }
}

/// Runs on some team and instruction set.
static void run_anywhere(product* p) {
    p->call.team = matrix_teams[kit_int(0, MATRIX_TEAMS - 1)];
    berth_cpu_set_isa((berth_cpu_isa)kit_int(BERTH_CPU_ISA_PORTABLE, BERTH_CPU_ISA_AVX512));
    matrix_run(BERTH_OP_MATMUL, &p->call);
    berth_cpu_set_isa(BERTH_CPU_ISA_AVX512);
}

/// Two operands of up to four dimensions that fit.
static product make_random(berth_dtype type, int32_t least_rank) {
    const int64_t m = kit_int(1, 14);
    const int64_t n = kit_int(0, 4) == 0 ? kit_int(60, 140) : kit_int(1, 40);
    const int64_t k = kit_int(0, 9) == 0 ? kit_int(250, 300) : kit_int(1, 30);
    const int64_t batch[2] = {kit_int(1, 3), kit_int(1, 3)};
    const int32_t a_rank = (int32_t)kit_int(least_rank, 4);
    const int32_t b_rank = (int32_t)kit_int(least_rank, 4);
    int64_t a[4] = {kit_int(0, 2) ? batch[0] : 1, kit_int(0, 2) ? batch[1] : 1, m, k};
    int64_t b[4] = {kit_int(0, 2) ? batch[0] : 1, kit_int(0, 2) ? batch[1] : 1, k, n};
    if (b_rank == 1) b[3] = k;
    return make_product(kit_strided(type, a_rank, a + 4 - a_rank, kit_int(0, 1) == 0, true),
                        kit_strided(type, b_rank, b + 4 - b_rank, kit_int(0, 1) == 0, true));
}

static void batches_of_any_strides_agree_with_double_arithmetic(void** state) {
    (void)state;
    kit_seed(11);
    for (int round = 0; round < 400; round++) {
        product p = make_random(types[kit_int(0, 2)], 2);
        run_anywhere(&p);
        check_against_double(&p);
        free_product(&p);
    }
}

static void vectors_on_either_side_agree_with_double_arithmetic(void** state) {
    (void)state;
    kit_seed(16);
    for (int round = 0; round < 200; round++) {
        const berth_dtype type = types[kit_int(0, 2)];
        const int64_t k = kit_int(0, 600);
        const int64_t n = kit_int(1, 130);
        int64_t dims[4] = {kit_int(1, 3), kit_int(1, 3), k, n};
        kit_tensor vector = kit_strided(type, 1, &k, kit_int(0, 1) == 0, true);
        const int32_t rank = (int32_t)kit_int(1, 4);
        const bool is_left = kit_int(0, 1) == 0;
        if (!is_left || rank == 1) {
            dims[2] = n;
            dims[3] = k;
        }
        kit_tensor other = kit_strided(type, rank, dims + 4 - rank, kit_int(0, 1) == 0, true);
        product p = is_left ? make_product(vector, other) : make_product(other, vector);
        assert_int_equal(p.out.view.rank, rank == 1 ? 0 : rank - 1);
        run_anywhere(&p);
        check_against_double(&p);
        free_product(&p);
    }
}

static void a_vector_gives_the_bits_of_a_matrix_of_one_row(void** state) {
    (void)state;
    kit_seed(17);
    for (size_t t = 0; t < COUNT(types); t++) {
        product p = make_plain(types[t], 9, 75, 400);
        matrix_run(BERTH_OP_MATMUL, &p.call);
        const size_t bytes = 75 * kit_bytes(types[t]);
        kit_tensor out = kit_contiguous(types[t], 1, (int64_t[]){75});
        for (int64_t row = 0; row < 9; row++) {
            berth_op_call call = p.call;
            call.inputs[0].rank = 1;
            call.inputs[0].dims[0] = 400;
            call.inputs[0].strides[0] = 1;
            call.inputs[0].data = kit_at(&p.a.view, row * 400);
            call.outputs[0] = out.view;
            matrix_run(BERTH_OP_MATMUL, &call);
            assert_memory_equal(
                out.view.data, (unsigned char*)p.out.view.data + (size_t)row * bytes, bytes);
        }
        kit_free(&out);
        free_product(&p);
    }
}

/// Exact, and the same on every team and instruction set.
static void check_integers_everywhere(berth_dtype type, const int64_t shape[3]) {
    product p = make_plain(type, shape[0], shape[1], shape[2]);
    matrix_run(BERTH_OP_MATMUL, &p.call);
    check_integers(&p);
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

static void integers_are_exact_and_wrap(void** state) {
    (void)state;
    kit_seed(18);
    static const berth_dtype integers[] = {BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8};
    for (int round = 0; round < 300; round++) {
        product p = make_random(integers[round % 4], 1);
        run_anywhere(&p);
        check_integers(&p);
        free_product(&p);
    }
    // many columns, many rows, and a long vector: of several blocks, stretches and pieces
    static const int64_t shapes[][3] = {{3, 2100, 70}, {130, 70, 140}, {140, 1, 2500}};
    for (size_t t = 0; t < COUNT(integers); t++) {
        for (size_t i = 0; i < COUNT(shapes); i++)
            check_integers_everywhere(integers[t], shapes[i]);
        product none = make_plain(integers[t], 4, 5, 0);
        matrix_run(BERTH_OP_MATMUL, &none.call);
        check_integers(&none);
        free_product(&none);
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
        cmocka_unit_test(vectors_on_either_side_agree_with_double_arithmetic),
        cmocka_unit_test(a_vector_gives_the_bits_of_a_matrix_of_one_row),
        cmocka_unit_test(integers_are_exact_and_wrap),
        cmocka_unit_test(a_row_has_the_same_bits_for_every_number_of_rows),
        cmocka_unit_test(threads_and_instruction_sets_change_no_bit),
        cmocka_unit_test(a_transposed_operand_gives_the_same_bits_as_its_copy),
        cmocka_unit_test(empty_operands_give_empty_results_or_zeros),
    };
    return cmocka_run_group_tests(tests, matrix_setup, matrix_teardown);
}
