// SPDX-License-Identifier: Apache-2.0
// COPY CAT STACK ROLL REPEAT PAD TRIL TRIU against element by element definitions.
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

/// Random parts of one type, or of several that all hold small whole numbers, are joined.
static void check_join(berth_dtype dtype, int64_t limit, bool is_stack, bool is_mixed) {
    int64_t dims[BERTH_MAX_RANK], whole[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(4, limit, dims);
    const int32_t dim = (int32_t)kit_int(0, is_stack ? rank : rank - 1);
    const uint32_t count = (uint32_t)kit_int(1, BERTH_OP_MAX_INPUTS);
    const berth_join_params params = {.dim = dim, .total = -1};
    berth_op_call call = {.input_count = count, .params = &params};
    kit_tensor parts[BERTH_OP_MAX_INPUTS];
    int64_t total = 0;
    for (uint32_t p = 0; p < count; ++p) {
        if (!is_stack) dims[dim] = kit_int(0, limit);
        total += is_stack ? 1 : dims[dim];
        const berth_dtype type = is_mixed ? plain[kit_int(0, PLAIN - 1)] : dtype;
        parts[p] = kit_strided(type, rank, dims, false, true);
        kit_fill(&parts[p], 0, 100);
        call.inputs[p] = parts[p].view;
    }
    int64_t inner = 1, outer = 1;
    for (int32_t d = 0, at = 0; at < rank + is_stack; ++at) {
        whole[at] = at == dim ? total : dims[d];
        if (at > dim) inner *= whole[at];
        if (at < dim) outer *= whole[at];
        if (at != dim || !is_stack) ++d;
    }
    kit_tensor out = kit_contiguous(is_mixed ? BERTH_F32 : dtype, rank + is_stack, whole);
    kit_run_everywhere(is_stack ? BERTH_OP_STACK : BERTH_OP_CAT, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        int64_t at = i / inner % total;
        uint32_t p = 0;
        int64_t run = kit_count(&parts[0].view) / outer;
        while (at >= run / inner) {
            at -= run / inner;
            run = kit_count(&parts[++p].view) / outer;
        }
        const int64_t from = i / inner / total * run + at * inner + i % inner;
        kit_expect(&out.view, i, kit_get(&parts[p].view, from), 0);
    }
    for (uint32_t p = 0; p < count; ++p)
        kit_free(&parts[p]);
    kit_free(&out);
}

static void tensors_are_joined_along_any_dimension(void** state) {
    (void)state;
    kit_seed(4);
    for (int t = 0; t < PLAIN; ++t) {
        for (int round = 0; round < 12; ++round)
            check_join(plain[t], round < 11 ? 7 : 30, false, false);
    }
}

static void tensors_are_stacked_along_any_dimension(void** state) {
    (void)state;
    kit_seed(11);
    for (int t = 0; t < PLAIN; ++t) {
        for (int round = 0; round < 12; ++round)
            check_join(plain[t], round < 11 ? 7 : 20, true, false);
    }
}

static void tensors_of_several_types_are_converted_when_joined(void** state) {
    (void)state;
    kit_seed(12);
    for (int round = 0; round < 30; ++round)
        check_join(BERTH_F32, round < 28 ? 7 : 30, round % 2 == 0, true);
}

static void more_tensors_are_put_where_the_first_ones_end(void** state) {
    (void)state;
    kit_seed(13);
    for (int t = 0; t < PLAIN; ++t) {
        const int64_t dims[2] = {kit_int(1, 9), 7}, part_dims[2] = {dims[0], kit_int(1, 4)};
        kit_tensor out = kit_contiguous(plain[t], 2, dims);
        kit_tensor part = kit_strided(plain[t], 2, part_dims, false, true);
        kit_fill(&out, 0, 100);
        kit_fill(&part, 0, 100);
        double before[9 * 7];
        for (int64_t i = 0; i < kit_count(&out.view); ++i)
            before[i] = kit_get(&out.view, i);
        const berth_join_params params = {.dim = 1, .dtype = plain[t], .total = 7, .begin = 2};
        berth_op_call call = {.input_count = 2, .inputs = {out.view, part.view}, .params = &params};
        kit_run_everywhere(BERTH_OP_CAT_MORE, &call, &out, true, true, NULL);
        for (int64_t i = 0; i < kit_count(&out.view); ++i) {
            const int64_t at = i % 7 - 2;
            const bool is_new = at >= 0 && at < part_dims[1];
            const int64_t from = i / 7 * part_dims[1] + at;
            kit_expect(&out.view, i, is_new ? kit_get(&part.view, from) : before[i], 0);
        }
        kit_free(&out);
        kit_free(&part);
    }
}

// --- One tensor in another shape -----------------------------------------------------------------

/// The place of each dimension of the element at row-major position `index`.
static void unravel(const berth_view* view, int64_t index, int64_t* out_at) {
    for (int32_t d = view->rank; d-- > 0;) {
        out_at[d] = index % view->dims[d];
        index /= view->dims[d];
    }
}

/// The element of `view` at places `at`.
static double get_at(const berth_view* view, const int64_t* at) {
    int64_t index = 0;
    for (int32_t d = 0; d < view->rank; ++d)
        index = index * view->dims[d] + at[d];
    return kit_get(view, index);
}

static void check_roll(berth_dtype dtype, int64_t limit) {
    int64_t dims[BERTH_MAX_RANK], at[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(4, limit, dims);
    const int32_t dim = (int32_t)kit_int(0, rank - 1);
    kit_tensor x = kit_strided(dtype, rank, dims, false, true);
    kit_tensor out = kit_contiguous(dtype, rank, dims);
    kit_fill(&x, 0, 100);
    const berth_roll_params params = {
        .dim = dim, .shift = kit_int(0, 9) == 0 ? INT64_MIN : kit_int(-3 * limit, 3 * limit)};
    berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_ROLL, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        unravel(&out.view, i, at);
        at[dim] = (at[dim] - params.shift % dims[dim] + 2 * dims[dim]) % dims[dim];
        kit_expect(&out.view, i, get_at(&x.view, at), 0);
    }
    kit_free(&x);
    kit_free(&out);
}

static void elements_roll_round_the_end_of_a_dimension(void** state) {
    (void)state;
    kit_seed(14);
    for (int t = 0; t < PLAIN; ++t)
        for (int round = 0; round < 20; ++round)
            check_roll(plain[t], round < 18 ? 7 : 25);
}

static void check_repeat(berth_dtype dtype, int64_t limit, int64_t most_times) {
    int64_t dims[BERTH_MAX_RANK], whole[BERTH_MAX_RANK], at[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(4, limit, dims);
    const int32_t missing = (int32_t)kit_int(0, 2);
    kit_tensor x = kit_strided(dtype, rank, dims, kit_int(0, 1) == 0, true);
    kit_fill(&x, 0, 100);
    berth_repeat_params params = {.rank = rank + missing};
    for (int32_t d = 0; d < params.rank; ++d) {
        params.times[d] = kit_int(0, 40) == 0 ? 0 : kit_int(0, 1) == 0 ? 1 : kit_int(1, most_times);
        whole[d] = params.times[d] * (d < missing ? 1 : dims[d - missing]);
    }
    kit_tensor out = kit_contiguous(dtype, params.rank, whole);
    berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_REPEAT, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        unravel(&out.view, i, at);
        for (int32_t d = 0; d < rank; ++d)
            at[missing + d] %= dims[d];
        kit_expect(&out.view, i, get_at(&x.view, at + missing), 0);
    }
    kit_free(&x);
    kit_free(&out);
}

static void tensors_are_repeated_along_every_dimension(void** state) {
    (void)state;
    kit_seed(15);
    for (int t = 0; t < PLAIN; ++t)
        for (int round = 0; round < 20; ++round)
            check_repeat(plain[t], round < 18 ? 5 : 9, round < 18 ? 3 : 5);
}

static void rank_8_is_repeated_and_padded_in_every_dimension(void** state) {
    (void)state;
    int64_t dims[8] = {1, 2, 1, 2, 1, 2, 1, 2}, whole[8], at[8];
    kit_tensor x = kit_contiguous(BERTH_I32, 8, dims);
    for (int64_t i = 0; i < 16; ++i)
        kit_store(BERTH_I32, kit_at(&x.view, i), (double)i);
    berth_repeat_params repeat = {.rank = 8};
    berth_pad_params pad = {.value = 77};
    for (int32_t d = 0; d < 8; ++d) {
        repeat.times[d] = 2;
        pad.pads[d][0] = d % 3 - 1;
        pad.pads[d][1] = 1;
        whole[d] = 2 * dims[d];
    }
    kit_tensor out = kit_contiguous(BERTH_I32, 8, whole);
    berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &repeat};
    kit_run_everywhere(BERTH_OP_REPEAT, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        unravel(&out.view, i, at);
        for (int32_t d = 0; d < 8; ++d)
            at[d] %= dims[d];
        kit_expect(&out.view, i, get_at(&x.view, at), 0);
    }
    kit_free(&out);
    for (int32_t d = 0; d < 8; ++d)
        whole[d] = dims[d] + d % 3;
    out = kit_contiguous(BERTH_I32, 8, whole);
    call.params = &pad;
    kit_run_everywhere(BERTH_OP_PAD, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        unravel(&out.view, i, at);
        bool is_inside = true;
        for (int32_t d = 0; d < 8; ++d) {
            at[d] -= pad.pads[d][0];
            is_inside = is_inside && at[d] >= 0 && at[d] < dims[d];
        }
        kit_expect(&out.view, i, is_inside ? get_at(&x.view, at) : 77, 0);
    }
    kit_free(&x);
    kit_free(&out);
}

static void check_pad(berth_dtype dtype, int64_t limit) {
    int64_t dims[BERTH_MAX_RANK], whole[BERTH_MAX_RANK], at[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(4, limit, dims);
    kit_tensor x = kit_strided(dtype, rank, dims, kit_int(0, 1) == 0, true);
    kit_fill(&x, 0, 100);
    berth_pad_params params = {.value = dtype == BERTH_BOOL ? 1 : 3};
    for (int32_t d = 0; d < rank; ++d) {
        for (int side = 0; side < 2; ++side)
            params.pads[d][side] = kit_int(0, 1) == 0 ? 0 : kit_int(-dims[d] / 2, 4);
        whole[d] = dims[d] + params.pads[d][0] + params.pads[d][1];
    }
    kit_tensor out = kit_contiguous(dtype, rank, whole);
    berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_PAD, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        unravel(&out.view, i, at);
        bool is_inside = true;
        for (int32_t d = 0; d < rank; ++d) {
            at[d] -= params.pads[d][0];
            is_inside = is_inside && at[d] >= 0 && at[d] < dims[d];
        }
        kit_expect(&out.view, i, is_inside ? get_at(&x.view, at) : params.value, 0);
    }
    kit_free(&x);
    kit_free(&out);
}

static void tensors_are_padded_and_cropped(void** state) {
    (void)state;
    kit_seed(16);
    for (int t = 0; t < PLAIN; ++t)
        for (int round = 0; round < 25; ++round)
            check_pad(plain[t], round < 23 ? 7 : 22);
}

static void check_triangle(berth_dtype dtype, int64_t limit, bool is_lower) {
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = 1 + kit_dims(3, limit, dims + 1);
    dims[0] = kit_int(1, limit);
    const int64_t rows = dims[rank - 2], columns = dims[rank - 1];
    kit_tensor x = kit_strided(dtype, rank, dims, false, true);
    kit_tensor out = kit_contiguous(dtype, rank, dims);
    kit_fill(&x, 1, 100);
    const int64_t extremes[2] = {INT64_MIN, INT64_MAX};
    const berth_triangle_params params = {.diagonal = kit_int(0, 5) == 0 ? extremes[kit_int(0, 1)]
                                                                         : kit_int(-limit, limit)};
    berth_op_call call = {.input_count = 1, .inputs = {x.view}, .params = &params};
    kit_run_everywhere(is_lower ? BERTH_OP_TRIL : BERTH_OP_TRIU, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        const int64_t column = i % columns, row = i / columns % rows;
        const bool stays =
            is_lower ? column - row <= params.diagonal : column - row >= params.diagonal;
        kit_expect(&out.view, i, stays ? kit_get(&x.view, i) : 0, 0);
    }
    // in the place of the operand
    kit_tensor same = kit_contiguous(dtype, rank, dims);
    for (int64_t i = 0; i < kit_count(&same.view); ++i)
        kit_store(dtype, kit_at(&same.view, i), kit_get(&x.view, i));
    call.inputs[0] = same.view;
    kit_run_everywhere(is_lower ? BERTH_OP_TRIL : BERTH_OP_TRIU, &call, &same, true, true, NULL);
    assert_memory_equal(same.view.data, out.view.data, out.bytes);
    kit_free(&same);
    kit_free(&x);
    kit_free(&out);
}

static void triangles_are_cut_from_matrices(void** state) {
    (void)state;
    kit_seed(17);
    for (int t = 0; t < PLAIN; ++t)
        for (int round = 0; round < 24; ++round)
            check_triangle(plain[t], round < 22 ? 6 : 30, round % 2 == 0);
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
        cmocka_unit_test(tensors_are_stacked_along_any_dimension),
        cmocka_unit_test(tensors_of_several_types_are_converted_when_joined),
        cmocka_unit_test(more_tensors_are_put_where_the_first_ones_end),
        cmocka_unit_test(elements_roll_round_the_end_of_a_dimension),
        cmocka_unit_test(tensors_are_repeated_along_every_dimension),
        cmocka_unit_test(rank_8_is_repeated_and_padded_in_every_dimension),
        cmocka_unit_test(tensors_are_padded_and_cropped),
        cmocka_unit_test(triangles_are_cut_from_matrices),
        cmocka_unit_test(every_op_but_matrix_products_has_a_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
