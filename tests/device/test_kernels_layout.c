// SPDX-License-Identifier: Apache-2.0
// COPY CAT against element by element definitions.
#include "device/kernel_kit.h"

#include "device/cpu/kernel_convert.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_U8, BERTH_BOOL, BERTH_I8};
static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};
enum { PLAIN = sizeof plain / sizeof plain[0] };

// --- Moved ---------------------------------------------------------------------------------------

static void copies_have_every_element_in_its_place(void** state) {
    (void)state;
    kit_seed(1);
    for (int t = 0; t < 7; ++t) {
        for (int round = 0; round < 14; ++round) {
            int64_t dims[BERTH_MAX_RANK];
            const int32_t rank = kit_dims(round < 10 ? 5 : 2, round < 10 ? 7 : 300, dims);
            kit_tensor x = kit_strided(plain[t], rank, dims, false, true);
            kit_tensor out = kit_contiguous(plain[t], rank, dims);
            kit_fill(&x, 0, 100);
            berth_op_call call = {.input_count = 1, .inputs = {x.view}};
            kit_run_everywhere(BERTH_OP_COPY, &call, &out, true, false, NULL);
            for (int64_t i = 0; i < kit_count(&out.view); ++i) {
                kit_expect(&out.view, i, kit_get(&x.view, i), 0);
            }
            kit_free(&x);
            kit_free(&out);
        }
    }
}

/// A contiguous tensor of [outer, columns, rows] whose elements differ from their neighbours, seen
/// as [outer, rows, columns], and copied.
static void check_turned(berth_dtype dtype, int64_t outer, int64_t rows, int64_t columns) {
    const int64_t dims[3] = {outer, columns, rows};
    const int64_t turned[3] = {outer, rows, columns};
    kit_tensor x = kit_contiguous(dtype, 3, dims);
    for (int64_t i = 0; i < kit_count(&x.view); ++i)
        kit_store(dtype, kit_at(&x.view, i), dtype == BERTH_BOOL ? i % 3 == 0 : (double)(i % 127));
    kit_tensor out = kit_contiguous(dtype, 3, turned);
    berth_op_call call = {.input_count = 1, .inputs = {x.view}};
    call.inputs[0].dims[1] = rows;
    call.inputs[0].dims[2] = columns;
    call.inputs[0].strides[1] = 1;
    call.inputs[0].strides[2] = rows;
    kit_run_everywhere(BERTH_OP_COPY, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        const int64_t from =
            (i / rows / columns * columns + i % columns) * rows + i / columns % rows;
        kit_expect(&out.view, i, kit_get(&x.view, from), 0);
    }
    kit_free(&x);
    kit_free(&out);
}

static void turned_matrices_of_every_element_size_are_copied(void** state) {
    (void)state;
    kit_seed(9);
    for (int t = 0; t < PLAIN; ++t) {
        check_turned(plain[t], 1, 413, 389);
        check_turned(plain[t], 3, 128, 192);
        for (int round = 0; round < 6; ++round)
            check_turned(plain[t], kit_int(1, 3), kit_int(1, 150), kit_int(1, 150));
    }
}

static void reversed_and_repeated_rows_are_copied(void** state) {
    (void)state;
    kit_seed(10);
    for (int t = 0; t < PLAIN; ++t) {
        for (int64_t stride = -1; stride <= 1; ++stride) {
            const int64_t dims[2] = {kit_int(1, 90), kit_int(1, 900)};
            kit_tensor x = kit_contiguous(plain[t], 2, dims);
            kit_tensor out = kit_contiguous(plain[t], 2, dims);
            kit_fill(&x, 0, 100);
            berth_op_call call = {.input_count = 1, .inputs = {x.view}};
            berth_view* from = &call.inputs[0];
            from->strides[1] = stride;
            if (stride < 0) from->data = kit_at(&x.view, dims[1] - 1);
            kit_run_everywhere(BERTH_OP_COPY, &call, &out, true, false, NULL);
            for (int64_t i = 0; i < kit_count(&out.view); ++i)
                kit_expect(&out.view, i, kit_get(from, i), 0);
            kit_free(&x);
            kit_free(&out);
        }
    }
}

static void quantised_row_slices_are_copied_and_cast(void** state) {
    (void)state;
    kit_seed(2);
    for (int dtype = BERTH_Q4_0; dtype <= BERTH_Q6_K; ++dtype) {
        const berth_dtype_info* info = berth_dtype_query_info((berth_dtype)dtype);
        const int64_t width = 3 * (int64_t)info->block_values;
        kit_tensor x = kit_quantised_rows((berth_dtype)dtype, 70, width, 2);
        kit_tensor copy = kit_quantised_rows((berth_dtype)dtype, 70, width, 0);
        berth_op_call call = {.input_count = 1, .inputs = {x.view}};
        kit_run_everywhere(BERTH_OP_COPY, &call, &copy, true, false, NULL);
        const size_t row_bytes = 3 * (size_t)info->block_bytes;
        const size_t pitch = 5 * (size_t)info->block_bytes;
        for (size_t r = 0; r < 70; ++r) {
            assert_memory_equal((unsigned char*)copy.view.data + r * row_bytes,
                                (unsigned char*)x.view.data + r * pitch,
                                row_bytes);
        }
        for (int t = 0; t < 3; ++t) {
            const int64_t dims[2] = {70, width};
            const berth_cast_params params = {.dtype = floats[t]};
            kit_tensor out = kit_contiguous(floats[t], 2, dims);
            call.params = &params;
            kit_run_everywhere(BERTH_OP_CAST, &call, &out, true, false, NULL);
            float row[768];
            for (int64_t i = 0; i < 70 * width; ++i) {
                if (i % width == 0) {
                    const unsigned char* from =
                        (unsigned char*)x.view.data + (size_t)(i / width) * pitch;
                    berth_convert_query_to_f32((berth_dtype)dtype)(from, row, width);
                }
                const double expected = (double)row[i % width];
                kit_expect(
                    &out.view, i, expected, t == 0 ? 0 : kit_tolerance(floats[t], expected, 0));
            }
            kit_free(&out);
        }
        kit_free(&x);
        kit_free(&copy);
    }
}

static void check_cat(berth_dtype dtype, int64_t limit) {
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(4, limit, dims);
    const int32_t dim = (int32_t)kit_int(0, rank - 1);
    const uint32_t count = (uint32_t)kit_int(1, BERTH_OP_MAX_INPUTS);
    const berth_cat_params params = {.dim = dim};
    berth_op_call call = {.input_count = count, .params = &params};
    kit_tensor parts[BERTH_OP_MAX_INPUTS];
    int64_t total = 0;
    for (uint32_t p = 0; p < count; ++p) {
        dims[dim] = kit_int(0, limit);
        total += dims[dim];
        parts[p] = kit_strided(dtype, rank, dims, false, true);
        kit_fill(&parts[p], 0, 100);
        call.inputs[p] = parts[p].view;
    }
    dims[dim] = total;
    kit_tensor out = kit_contiguous(dtype, rank, dims);
    kit_run_everywhere(BERTH_OP_CAT, &call, &out, true, false, NULL);
    int64_t inner = 1;
    for (int32_t d = dim + 1; d < rank; ++d)
        inner *= dims[d];
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        int64_t at = i / inner % total;
        uint32_t p = 0;
        while (at >= parts[p].view.dims[dim])
            at -= parts[p++].view.dims[dim];
        const int64_t outer = i / inner / total;
        const int64_t from = (outer * parts[p].view.dims[dim] + at) * inner + i % inner;
        kit_expect(&out.view, i, kit_get(&parts[p].view, from), 0);
    }
    for (uint32_t p = 0; p < count; ++p)
        kit_free(&parts[p]);
    kit_free(&out);
}

static void tensors_are_joined_along_any_dimension(void** state) {
    (void)state;
    kit_seed(4);
    for (int t = 0; t < 7; ++t) {
        for (int round = 0; round < 12; ++round)
            check_cat(plain[t], round < 11 ? 7 : 30);
    }
}

static void every_op_but_matrix_products_has_a_kernel(void** state) {
    (void)state;
    berth_kernel table[BERTH_OP_COUNT] = {NULL};
    berth_cpu_fill_basic_kernels(table);
    for (int op = 0; op < BERTH_OP_COUNT; ++op) {
        const bool is_matrix = op == BERTH_OP_MATMUL || op == BERTH_OP_LINEAR;
        assert_true((table[op] == NULL) == is_matrix);
    }
    unsigned char byte = 7;
    const berth_view view = {.data = &byte, .dtype = BERTH_U8};
    const berth_op_call call = {.inputs = {view}, .outputs = {view}};
    table[BERTH_OP_NOOP](&call);
    assert_int_equal(byte, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_have_every_element_in_its_place),
        cmocka_unit_test(turned_matrices_of_every_element_size_are_copied),
        cmocka_unit_test(reversed_and_repeated_rows_are_copied),
        cmocka_unit_test(quantised_row_slices_are_copied_and_cast),
        cmocka_unit_test(tensors_are_joined_along_any_dimension),
        cmocka_unit_test(every_op_but_matrix_products_has_a_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
