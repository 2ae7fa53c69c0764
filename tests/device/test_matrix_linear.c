// SPDX-License-Identifier: Apache-2.0
// Tests of LINEAR: against double arithmetic, and that its bits depend on nothing but the row (L1).
#include "matrix_kit.h"

static const berth_dtype weight_types[] = {
    BERTH_F32,
    BERTH_F16,
    BERTH_BF16,
    BERTH_Q4_0,
    BERTH_Q4_1,
    BERTH_Q5_0,
    BERTH_Q5_1,
    BERTH_Q8_0,
    BERTH_Q4_K,
    BERTH_Q5_K,
    BERTH_Q6_K,
};
static const berth_dtype row_types[] = {BERTH_F32, BERTH_F16, BERTH_BF16};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/// A call and its tensors. The bias is left out if `bias.memory` is NULL.
typedef struct linear {
    kit_tensor x;
    kit_tensor w;
    kit_tensor bias;
    kit_tensor y;
    berth_op_call call;
} linear;

static void set_output(linear* l) {
    const int32_t rank = l->x.view.rank;
    int64_t dims[BERTH_MAX_RANK];
    memcpy(dims, l->x.view.dims, sizeof dims);
    dims[rank - 1] = l->w.view.dims[0];
    l->y = kit_contiguous(l->x.view.dtype, rank, dims);
    const bool has_bias = l->bias.memory != NULL;
    l->call = (berth_op_call){
        .input_count = has_bias ? 3 : 2, .output_count = 1, .batch_invariant = true};
    l->call.inputs[0] = l->x.view;
    l->call.inputs[1] = l->w.view;
    if (has_bias) l->call.inputs[2] = l->bias.view;
    l->call.outputs[0] = l->y.view;
}

static linear make_linear(
    berth_dtype x_type, berth_dtype w_type, int64_t m, int64_t n, int64_t k, bool has_bias) {
    linear l = {
        .x = kit_contiguous(x_type, 2, (int64_t[]){m, k}),
        .w = matrix_weights(w_type, n, k, 0),
    };
    kit_fill(&l.x, -1, 1);
    if (has_bias) {
        l.bias = kit_contiguous(BERTH_F32, 1, &n);
        kit_fill(&l.bias, -1, 1);
    }
    set_output(&l);
    return l;
}

static void free_linear(linear* l) {
    kit_free(&l->x);
    kit_free(&l->w);
    kit_free(&l->bias);
    kit_free(&l->y);
}

static void check_against_double(const linear* l) {
    const int64_t n = l->w.view.dims[0];
    const int64_t k = l->w.view.dims[1];
    float* w = matrix_as_f32(&l->w.view);
    const int64_t outputs = kit_count(&l->y.view);
    for (int64_t i = 0; i < outputs; i++) {
        double sum = 0;
        double size = 0;
        for (int64_t j = 0; j < k; j++) {
            const double product = kit_get(&l->x.view, i / n * k + j) * (double)w[i % n * k + j];
            sum += product;
            size += fabs(product);
        }
        if (l->bias.memory != NULL) sum += kit_get(&l->bias.view, i % n);
        // k / 16 additions in a lane and a few at the end, each wrong by half a place at most. Free
        // of batch invariance, a library may add up all in one lane.
        const int64_t additions = l->call.batch_invariant ? k / 16 + 8 : k + 8;
        const double bound = (double)additions * 0x1p-24 * size;
        const double tolerance = kit_tolerance(l->y.view.dtype, sum, 1e-7) + bound;
        const double found = kit_get(&l->y.view, i);
        if (!(fabs(found - sum) <= tolerance)) {
            fail_msg("output %lld of %s: %.9g, expected %.9g",
                     (long long)i,
                     berth_dtype_query_info(l->w.view.dtype)->name,
                     found,
                     sum);
        }
    }
    free(w);
}

static int64_t random_k(berth_dtype w_type) {
    const int64_t block = berth_dtype_query_info(w_type)->block_values;
    return block == 1 ? kit_int(1, 150) : block * kit_int(1, block > 32 ? 3 : 9);
}

static void every_type_agrees_with_double_arithmetic_on_every_instruction_set(void** state) {
    (void)state;
    kit_seed(1);
    for (size_t t = 0; t < COUNT(weight_types); t++) {
        for (int round = 0; round < 18; round++) {
            const int64_t m = round % 3 == 0 ? 1 : kit_int(2, 11);
            linear l = make_linear(row_types[round % 3 == 2 ? kit_int(0, 2) : 0],
                                   weight_types[t],
                                   m,
                                   kit_int(1, 40),
                                   random_k(weight_types[t]),
                                   kit_int(0, 1));
            l.call.team = matrix_teams[kit_int(0, MATRIX_TEAMS - 1)];
            for (int isa = BERTH_CPU_ISA_PORTABLE; isa <= BERTH_CPU_ISA_AVX512; isa++) {
                berth_cpu_set_isa((berth_cpu_isa)isa);
                memset(l.y.view.data, 0xFF, l.y.bytes);
                matrix_run(BERTH_OP_LINEAR, &l.call);
                check_against_double(&l);
            }
            free_linear(&l);
        }
    }
}

static void weights_are_decoded_exactly_as_conversions_do(void** state) {
    (void)state;
    kit_seed(9);
    for (size_t t = 0; t < COUNT(weight_types); t++) {
        for (int isa = BERTH_CPU_ISA_PORTABLE; isa <= BERTH_CPU_ISA_AVX512; isa++) {
            berth_cpu_set_isa((berth_cpu_isa)isa);
            // Rows of the unit matrix pick single weights; the first alone is one row.
            enum { ROWS = 256, COLUMNS = 7 };
            linear l = make_linear(BERTH_F32, weight_types[t], ROWS, COLUMNS, ROWS, false);
            float* w = matrix_as_f32(&l.w.view);
            float* x = l.x.view.data;
            for (int64_t i = 0; i < ROWS * ROWS; i++)
                x[i] = i % (ROWS + 1) == 0 ? 1.0f : 0.0f;
            for (int64_t rows = 1; rows <= ROWS; rows += ROWS - 1) {
                l.call.inputs[0].dims[0] = rows;
                l.call.outputs[0].dims[0] = rows;
                matrix_run(BERTH_OP_LINEAR, &l.call);
                const float* y = l.y.view.data;
                for (int64_t i = 0; i < rows * COLUMNS; i++) {
                    assert_true(y[i] == w[i % COLUMNS * ROWS + i / COLUMNS]);
                }
            }
            free(w);
            free_linear(&l);
        }
    }
}

static void rows_of_x_and_w_may_lie_anywhere(void** state) {
    (void)state;
    kit_seed(2);
    for (int round = 0; round < 200; round++) {
        const berth_dtype w_type = weight_types[kit_int(0, COUNT(weight_types) - 1)];
        const int64_t k = random_k(w_type);
        int64_t dims[BERTH_MAX_RANK] = {kit_int(1, 3), kit_int(1, 3), kit_int(1, 4), k};
        const int32_t rank = (int32_t)kit_int(1, 4);
        linear l = {
            .x = kit_strided(row_types[kit_int(0, 2)], rank, dims + 4 - rank, true, true),
            .w = matrix_weights(w_type, kit_int(1, 20), k, kit_int(0, 3)),
        };
        kit_fill(&l.x, -1, 1);
        set_output(&l);
        matrix_run(BERTH_OP_LINEAR, &l.call);
        check_against_double(&l);
        free_linear(&l);
    }
}

static void a_slice_of_the_weights_rows_gives_a_slice_of_the_outputs(void** state) {
    (void)state;
    kit_seed(3);
    for (size_t t = 0; t < COUNT(weight_types); t++) {
        linear l = make_linear(BERTH_F32, weight_types[t], 5, 50, 256, true);
        matrix_run(BERTH_OP_LINEAR, &l.call);
        const int64_t first = 13;
        const int64_t columns = 29;
        float out[5 * 29];
        berth_op_call slice = l.call;
        slice.inputs[1].data = (unsigned char*)l.w.view.data +
                               first * l.w.view.strides[0] * (int64_t)kit_bytes(weight_types[t]);
        slice.inputs[1].dims[0] = columns;
        slice.inputs[2].data = (float*)l.bias.view.data + first;
        slice.inputs[2].dims[0] = columns;
        slice.outputs[0].data = out;
        matrix_run(BERTH_OP_LINEAR, &slice);
        for (int64_t r = 0; r < 5; r++) {
            assert_memory_equal(out + r * columns,
                                (const float*)l.y.view.data + r * 50 + first,
                                (size_t)columns * sizeof(float));
        }
        free_linear(&l);
    }
}

/// Rows [row, row + rows) of the call, into `out`.
static void run_rows(const linear* l, int64_t row, int64_t rows, unsigned char* out) {
    berth_op_call part = l->call;
    part.inputs[0].data = kit_at(&l->x.view, row * l->x.view.dims[1]);
    part.inputs[0].dims[0] = rows;
    part.outputs[0].data = out;
    part.outputs[0].dims[0] = rows;
    matrix_run(BERTH_OP_LINEAR, &part);
}

static void a_row_has_the_same_bits_for_every_number_of_rows_and_threads(void** state) {
    (void)state;
    kit_seed(4);
    enum { ROWS = 70, COLUMNS = 37 };
    for (size_t t = 0; t < COUNT(weight_types); t++) {
        const int64_t k = berth_dtype_query_info(weight_types[t])->block_values == 1 ? 301 : 512;
        linear l =
            make_linear(row_types[t == 1 ? 1 : 0], weight_types[t], ROWS, COLUMNS, k, t % 2 == 0);
        matrix_run(BERTH_OP_LINEAR, &l.call);
        const size_t row_bytes = COLUMNS * kit_bytes(l.y.view.dtype);
        unsigned char* out = malloc(ROWS * row_bytes);
        assert_non_null(out);
        const unsigned char* expected = l.y.view.data;
        for (int64_t rows = 1; rows <= ROWS; rows++) {
            l.call.team = matrix_teams[rows % MATRIX_TEAMS];
            for (int64_t row = 0; row < ROWS; row += rows) {
                const int64_t part = rows < ROWS - row ? rows : ROWS - row;
                run_rows(&l, row, part, out);
                assert_memory_equal(
                    out, expected + (size_t)row * row_bytes, (size_t)part * row_bytes);
                if (rows >= 8) break; // the first part is enough from here on
            }
        }
        free(out);
        free_linear(&l);
    }
}

static void large_products_have_the_same_bits_for_every_number_of_threads(void** state) {
    (void)state;
    kit_seed(5);
    // One row; many rows and columns; more rows than a chunk of converted ones; hardly any columns;
    // several stretches of K.
    static const int64_t shapes[][3] = {{1, 1000, 576},
                                        {64, 300, 256},
                                        {530, 20, 288},
                                        {2000, 5, 256},
                                        {9, 2, 20480},
                                        {300, 9, 4352}};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (int t = 0; t < 4; t++) {
            linear l = make_linear(t == 1 ? BERTH_BF16 : BERTH_F32,
                                   weight_types[t == 3 ? 5 : t + 2],
                                   shapes[i][0],
                                   shapes[i][1],
                                   shapes[i][2],
                                   true);
            matrix_run(BERTH_OP_LINEAR, &l.call);
            unsigned char* expected = malloc(l.y.bytes);
            assert_non_null(expected);
            memcpy(expected, l.y.view.data, l.y.bytes);
            if (t == 0) check_against_double(&l);
            for (int team = 0; team < MATRIX_TEAMS; team++) {
                l.call.team = matrix_teams[team];
                memset(l.y.view.data, 0xFF, l.y.bytes);
                matrix_run(BERTH_OP_LINEAR, &l.call);
                assert_memory_equal(l.y.view.data, expected, l.y.bytes);
            }
            free(expected);
            free_linear(&l);
        }
    }
}

static void every_instruction_set_gives_the_same_bits(void** state) {
    (void)state;
    kit_seed(6);
    for (size_t t = 0; t < COUNT(weight_types); t++) {
        for (int round = 0; round < 8; round++) {
            linear l = make_linear(BERTH_F32,
                                   weight_types[t],
                                   round < 3 ? 1 : kit_int(2, 9),
                                   kit_int(1, 30),
                                   random_k(weight_types[t]),
                                   kit_int(0, 1));
            matrix_run(BERTH_OP_LINEAR, &l.call);
            unsigned char* expected = malloc(l.y.bytes);
            assert_non_null(expected);
            memcpy(expected, l.y.view.data, l.y.bytes);
            for (int isa = BERTH_CPU_ISA_PORTABLE; isa < BERTH_CPU_ISA_AVX512; isa++) {
                berth_cpu_set_isa((berth_cpu_isa)isa);
                memset(l.y.view.data, 0xFF, l.y.bytes);
                matrix_run(BERTH_OP_LINEAR, &l.call);
                assert_memory_equal(l.y.view.data, expected, l.y.bytes);
            }
            berth_cpu_set_isa(BERTH_CPU_ISA_AVX512);
            free(expected);
            free_linear(&l);
        }
    }
}

static void without_batch_invariance_results_stay_within_the_bound(void** state) {
    (void)state;
    kit_seed(7);
    for (size_t t = 0; t < COUNT(weight_types); t++) {
        for (int round = 0; round < 4; round++) {
            linear l = make_linear(row_types[round % 3],
                                   weight_types[t],
                                   round == 3 ? 600 : kit_int(30, 100),
                                   kit_int(1, 70),
                                   random_k(weight_types[t]),
                                   kit_int(0, 1));
            l.call.batch_invariant = false;
            l.call.team = matrix_teams[round % MATRIX_TEAMS];
            memset(l.y.view.data, 0xFF, l.y.bytes);
            matrix_run(BERTH_OP_LINEAR, &l.call);
            check_against_double(&l);
            free_linear(&l);
        }
    }
}

static void empty_operands_give_empty_results_or_the_bias(void** state) {
    (void)state;
    kit_seed(8);
    static const int64_t shapes[][3] = {{0, 3, 32}, {4, 0, 32}, {1, 3, 0}, {5, 7, 0}, {0, 0, 0}};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        for (int type = 0; type < 2; type++) {
            for (int free_order = 0; free_order < 2; free_order++) {
                linear l = make_linear(BERTH_F32,
                                       type == 0 ? BERTH_F32 : BERTH_Q4_1,
                                       shapes[i][0],
                                       shapes[i][1],
                                       shapes[i][2],
                                       true);
                l.call.batch_invariant = free_order == 0;
                matrix_run(BERTH_OP_LINEAR, &l.call);
                check_against_double(&l);
                free_linear(&l);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_agrees_with_double_arithmetic_on_every_instruction_set),
        cmocka_unit_test(weights_are_decoded_exactly_as_conversions_do),
        cmocka_unit_test(rows_of_x_and_w_may_lie_anywhere),
        cmocka_unit_test(a_slice_of_the_weights_rows_gives_a_slice_of_the_outputs),
        cmocka_unit_test(a_row_has_the_same_bits_for_every_number_of_rows_and_threads),
        cmocka_unit_test(large_products_have_the_same_bits_for_every_number_of_threads),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(without_batch_invariance_results_stay_within_the_bound),
        cmocka_unit_test(empty_operands_give_empty_results_or_the_bias),
    };
    return cmocka_run_group_tests(tests, matrix_setup, matrix_teardown);
}
