// SPDX-License-Identifier: Apache-2.0
// Kernels of the CUDA back end that lay out and index elements, run on the host, against the CPU's.
#include "cuda/cuda_kernel_kit.h"
#include "device/cuda/cuda_walk.h"

enum { ROUNDS = 150 };

static const berth_dtype plain_dtypes[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8, BERTH_BOOL};

static berth_dtype any_dtype(void) { return plain_dtypes[kit_int(0, 7)]; }

/// A size that vectors divide, or not.
static int64_t any_size(void) {
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 32, 33, 64};
    return kit_int(0, 40) == 0 ? 0 : sizes[kit_int(0, 12)];
}

static int32_t any_dims(int32_t least, int32_t most, int64_t* dims) {
    const int32_t rank = (int32_t)kit_int(least, most);
    for (int32_t d = 0; d < rank; ++d)
        dims[d] = d + 2 < rank ? kit_int(1, 3) : any_size();
    return rank;
}

/// All bits at random: what is moved must not be changed.
static void fill_bits(kit_tensor* tensor) {
    const bool is_bool = tensor->view.dtype == BERTH_BOOL;
    for (size_t i = 0; i < tensor->bytes; ++i) {
        const unsigned char byte = (unsigned char)kit_next();
        tensor->memory[KIT_GUARD + i] = is_bool ? byte & 1 : byte;
    }
}

/// A contiguous tensor whose first element is no multiple of 16.
static kit_tensor shifted(berth_dtype dtype, int32_t rank, const int64_t* dims) {
    kit_tensor tensor = kit_contiguous(dtype, rank, dims);
    const int64_t count = kit_count(&tensor.view) + 1;
    const berth_view view = tensor.view;
    kit_free(&tensor);
    tensor = kit_contiguous(dtype, 1, &count);
    void* data = tensor.memory + KIT_GUARD + kit_bytes(dtype);
    tensor.view = view;
    tensor.view.data = data;
    return tensor;
}

static kit_tensor any_tensor(berth_dtype dtype, int32_t rank, const int64_t* dims) {
    const int64_t kind = kit_int(0, 3);
    kit_tensor tensor = kind == 0   ? shifted(dtype, rank, dims)
                        : kind == 1 ? kit_strided(dtype, rank, dims, false, true)
                                    : kit_contiguous(dtype, rank, dims);
    fill_bits(&tensor);
    return tensor;
}

/// Indices, now and then out of [0, size).
static kit_tensor any_index(int32_t rank, const int64_t* dims, int64_t size) {
    const berth_dtype dtype = kit_int(0, 1) == 0 ? BERTH_I32 : BERTH_I64;
    kit_tensor index = kit_strided(dtype, rank, dims, false, true);
    const int64_t count = kit_count(&index.view);
    for (int64_t i = 0; i < count; ++i) {
        const int64_t value = kit_int(0, 15) == 0 ? kit_int(-3, size + 3) : kit_int(0, size);
        kit_store(dtype, kit_at(&index.view, i), (double)value);
    }
    return index;
}

/// Compares the devices on `count` operands, which are then freed.
static void compare(
    berth_op_id op, const void* params, uint32_t count, kit_tensor* operands, int in_place) {
    berth_op_call call = {.input_count = count, .output_count = 1, .params = params};
    for (uint32_t i = 0; i < count; ++i)
        call.inputs[i] = operands[i].view;
    cuda_kit_compare(op, &call, in_place, cuda_kit_exact);
    for (uint32_t i = 0; i < count; ++i)
        kit_free(&operands[i]);
}

// --- Layout -------------------------------------------------------------------------------------

static void joined_tensors_lie_one_after_another(void** state) {
    (void)state;
    kit_seed(1);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[4];
        const int32_t rank = any_dims(1, 4, dims);
        const berth_join_params params = {.dim = (int32_t)kit_int(0, rank - 1), .total = -1};
        const uint32_t count = (uint32_t)kit_int(1, 4);
        const berth_dtype dtype = any_dtype();
        kit_tensor parts[4];
        for (uint32_t i = 0; i < count; ++i) {
            dims[params.dim] = any_size();
            parts[i] = any_tensor(dtype, rank, dims);
        }
        compare(BERTH_OP_CAT, &params, count, parts, -1);
    }
}

static void joined_tensors_of_several_types_are_converted_as_by_cast(void** state) {
    (void)state;
    kit_seed(2);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[3];
        const int32_t rank = any_dims(1, 3, dims);
        const bool has_total = kit_int(0, 1) == 0;
        const berth_join_params params = {
            .dim = (int32_t)kit_int(0, rank),
            .dtype = any_dtype(),
            .total = has_total ? kit_int(3, 5) : -1,
        };
        kit_tensor parts[3];
        for (uint32_t i = 0; i < 3; ++i) {
            parts[i] = kit_strided(any_dtype(), rank, dims, false, true);
            const berth_dtype dtype = parts[i].view.dtype;
            kit_fill(&parts[i], dtype == BERTH_U8 ? 0 : -120, 120);
            const int64_t elements = kit_count(&parts[i].view);
            static const double special[] = {(double)NAN, (double)INFINITY, -1e30, 3e9, 1e19, -0.0};
            if (elements > 0 && berth_dtype_is_float(dtype))
                kit_store(dtype,
                          kit_at(&parts[i].view, kit_int(0, elements - 1)),
                          special[kit_int(0, 5)]);
        }
        compare(BERTH_OP_STACK, &params, 3, parts, -1);
    }
}

static void more_tensors_go_on_where_the_first_ended(void** state) {
    (void)state;
    kit_seed(3);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[4];
        const int32_t rank = any_dims(1, 3, dims);
        const bool is_stack = kit_int(0, 1) == 0;
        berth_join_params params = {.dim = (int32_t)kit_int(0, rank - 1), .begin = kit_int(0, 3)};
        const berth_dtype dtype = any_dtype();
        params.dtype = dtype;
        kit_tensor parts[3];
        int64_t places = params.begin;
        for (uint32_t i = 1; i < 3; ++i) {
            if (!is_stack) dims[params.dim] = any_size();
            places += is_stack ? 1 : dims[params.dim];
            parts[i] = any_tensor(dtype, rank, dims);
        }
        params.total = places + kit_int(0, 2);
        int64_t whole[4];
        memcpy(whole, dims, sizeof whole);
        for (int32_t d = rank; is_stack && d > params.dim; --d)
            whole[d] = whole[d - 1];
        whole[params.dim] = params.total;
        parts[0] = kit_contiguous(dtype, rank + (is_stack ? 1 : 0), whole);
        fill_bits(&parts[0]);
        compare(is_stack ? BERTH_OP_STACK_MORE : BERTH_OP_CAT_MORE, &params, 3, parts, 0);
    }
}

static void rolled_elements_come_back_at_the_other_end(void** state) {
    (void)state;
    kit_seed(4);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[4];
        const int32_t rank = any_dims(1, 4, dims);
        const berth_roll_params params = {
            .shift = kit_int(-70, 70),
            .dim = (int32_t)kit_int(0, rank - 1),
        };
        kit_tensor x = any_tensor(any_dtype(), rank, dims);
        compare(BERTH_OP_ROLL, &params, 1, &x, -1);
    }
}

static void repeated_tensors_fill_more_dimensions_than_they_have(void** state) {
    (void)state;
    kit_seed(5);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[3];
        const int32_t rank = any_dims(0, 3, dims);
        berth_repeat_params params = {.rank = rank + (int32_t)kit_int(0, 2)};
        for (int32_t d = 0; d < params.rank; ++d)
            params.times[d] = kit_int(0, 30) == 0 ? 0 : kit_int(1, 3);
        kit_tensor x = any_tensor(any_dtype(), rank, dims);
        compare(BERTH_OP_REPEAT, &params, 1, &x, -1);
    }
    // every dimension of the highest rank, none of which can be joined with another
    const int64_t twos[BERTH_MAX_RANK] = {2, 2, 2, 2, 2, 2, 2, 2};
    berth_repeat_params params = {.rank = BERTH_MAX_RANK, .times = {2, 2, 2, 2, 2, 2, 2, 2}};
    kit_tensor x = any_tensor(BERTH_I8, BERTH_MAX_RANK, twos);
    compare(BERTH_OP_REPEAT, &params, 1, &x, -1);
}

static void padding_surrounds_elements_or_takes_them_away(void** state) {
    (void)state;
    kit_seed(6);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[4];
        const int32_t rank = any_dims(0, 4, dims);
        static const double values[] = {0, 1.5, -3, 1e10, -1e300, (double)NAN};
        berth_pad_params params = {.value = values[kit_int(0, 5)]};
        const bool is_wide = kit_int(0, 1) == 0; // so that vectors fit
        for (int32_t d = 0; d < rank; ++d) {
            const int64_t lost = dims[d] > 1 ? -1 : 0;
            params.pads[d][0] = is_wide ? 16 * kit_int(0, 1) : kit_int(lost, 4);
            params.pads[d][1] = is_wide ? 16 * kit_int(0, 1) : kit_int(lost, 4);
            if (dims[d] + (params.pads[d][0] < 0 ? -1 : 0) + (params.pads[d][1] < 0 ? -1 : 0) < 0)
                params.pads[d][0] = params.pads[d][1] = 0;
        }
        kit_tensor x = any_tensor(any_dtype(), rank, dims);
        compare(BERTH_OP_PAD, &params, 1, &x, -1);
    }
}

static void triangles_keep_one_side_of_a_diagonal(void** state) {
    (void)state;
    kit_seed(7);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[4];
        const int32_t rank = any_dims(2, 4, dims);
        berth_triangle_params params = {.diagonal = kit_int(-70, 70)};
        if (kit_int(0, 20) == 0) params.diagonal = kit_int(0, 1) == 0 ? INT64_MAX : INT64_MIN;
        const bool is_in_place = kit_int(0, 1) == 0;
        const berth_dtype dtype = any_dtype();
        kit_tensor x =
            is_in_place ? kit_contiguous(dtype, rank, dims) : any_tensor(dtype, rank, dims);
        fill_bits(&x);
        compare(kit_int(0, 1) == 0 ? BERTH_OP_TRIL : BERTH_OP_TRIU,
                &params,
                1,
                &x,
                is_in_place ? 0 : -1);
    }
}

// --- Reading by index ---------------------------------------------------------------------------

static void gathered_elements_are_those_named_along_the_dimension(void** state) {
    (void)state;
    kit_seed(8);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[4], index_dims[4];
        const int32_t rank = any_dims(1, 4, dims);
        const berth_index_params params = {.dim = (int32_t)kit_int(0, rank - 1)};
        for (int32_t d = 0; d < rank; ++d)
            index_dims[d] = d == params.dim ? any_size() : kit_int(dims[d] / 2, dims[d]);
        kit_tensor operands[2] = {
            any_tensor(any_dtype(), rank, dims),
            any_index(rank, index_dims, dims[params.dim]),
        };
        compare(BERTH_OP_GATHER, &params, 2, operands, -1);
    }
}

static void elements_taken_along_a_dimension_broadcast_in_the_others(void** state) {
    (void)state;
    kit_seed(9);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[4], index_dims[4];
        const int32_t rank = any_dims(1, 4, dims);
        const berth_index_params params = {.dim = (int32_t)kit_int(0, rank - 1)};
        for (int32_t d = 0; d < rank; ++d) {
            index_dims[d] = d == params.dim ? any_size() : dims[d];
            if (d == params.dim) continue;
            if (kit_int(0, 3) == 0)
                index_dims[d] = 1;
            else if (kit_int(0, 3) == 0)
                dims[d] = 1;
        }
        kit_tensor operands[2] = {
            any_tensor(any_dtype(), rank, dims),
            any_index(rank, index_dims, dims[params.dim]),
        };
        compare(BERTH_OP_TAKE_ALONG, &params, 2, operands, -1);
    }
}

static void selected_slices_are_those_named(void** state) {
    (void)state;
    kit_seed(10);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[4];
        const int32_t rank = any_dims(1, 4, dims);
        const berth_index_params params = {.dim = (int32_t)kit_int(0, rank - 1)};
        const int64_t count = any_size();
        kit_tensor operands[2] = {
            any_tensor(any_dtype(), rank, dims),
            any_index(1, &count, dims[params.dim]),
        };
        compare(BERTH_OP_INDEX_SELECT, &params, 2, operands, -1);
    }
}

static void embedded_rows_are_those_of_a_plain_table(void** state) {
    (void)state;
    kit_seed(11);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t ids[3];
        const int32_t rank = any_dims(0, 3, ids);
        const int64_t dims[2] = {any_size(), any_size()};
        kit_tensor operands[2] = {
            any_tensor(any_dtype(), 2, dims),
            any_index(rank, ids, dims[0]),
        };
        compare(BERTH_OP_EMBEDDING, NULL, 2, operands, -1);
    }
}

static void embedded_rows_of_quantised_tables_are_converted_exactly(void** state) {
    (void)state;
    kit_seed(12);
    for (int round = 0; round < 48; ++round) {
        const berth_dtype dtype = (berth_dtype)(BERTH_Q4_0 + round % (BERTH_Q6_K - BERTH_Q4_0 + 1));
        int64_t ids[2];
        const int32_t rank = any_dims(0, 2, ids);
        const int64_t rows = kit_int(1, 9);
        const int64_t width = kit_int(0, 3) * (int64_t)berth_dtype_query_info(dtype)->block_values;
        kit_tensor operands[2] = {
            kit_quantised_rows(dtype, rows, width, kit_int(0, 1)),
            any_index(rank, ids, rows),
        };
        compare(BERTH_OP_EMBEDDING, NULL, 2, operands, -1);
    }
}

// --- Writing by index ---------------------------------------------------------------------------

static void copied_slices_go_to_the_last_that_names_a_place(void** state) {
    (void)state;
    kit_seed(13);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[4], source_dims[4];
        const int32_t rank = any_dims(1, 4, dims);
        const berth_index_params params = {.dim = (int32_t)kit_int(0, rank - 1)};
        memcpy(source_dims, dims, sizeof dims);
        source_dims[params.dim] = any_size();
        const berth_dtype dtype = any_dtype();
        kit_tensor operands[3] = {
            kit_contiguous(dtype, rank, dims),
            any_index(1, &source_dims[params.dim], dims[params.dim]),
            any_tensor(dtype, rank, source_dims),
        };
        fill_bits(&operands[0]);
        compare(BERTH_OP_INDEX_COPY, &params, 3, operands, 0);
    }
}

/// Scatters into `dims`, along `dim`, `length` elements a line.
static void scatter(berth_op_id op,
                    berth_dtype dtype,
                    int32_t rank,
                    const int64_t* dims,
                    int32_t dim,
                    int64_t length) {
    const berth_index_params params = {.dim = dim};
    int64_t index_dims[4], source_dims[4];
    for (int32_t d = 0; d < rank; ++d) {
        index_dims[d] = d == dim ? length : kit_int(dims[d] / 2, dims[d]);
        source_dims[d] = index_dims[d] + kit_int(0, 2);
    }
    kit_tensor operands[3] = {
        kit_contiguous(dtype, rank, dims),
        any_index(rank, index_dims, dims[dim]),
        any_tensor(dtype, rank, source_dims),
    };
    if (op == BERTH_OP_SCATTER) {
        fill_bits(&operands[0]);
    } else {
        kit_fill(&operands[0], dtype == BERTH_U8 ? 0 : -120, 120);
        kit_fill(&operands[2], dtype == BERTH_U8 ? 0 : -120, 120);
    }
    compare(op, &params, 3, operands, 0);
}

static void scattered_elements_are_written_in_ascending_order(void** state) {
    (void)state;
    kit_seed(14);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[4];
        const int32_t rank = any_dims(1, 4, dims);
        const int32_t dim = (int32_t)kit_int(0, rank - 1);
        scatter(BERTH_OP_SCATTER, any_dtype(), rank, dims, dim, any_size());
    }
}

static void added_elements_are_rounded_one_by_one_in_ascending_order(void** state) {
    (void)state;
    kit_seed(15);
    for (int round = 0; round < ROUNDS; ++round) {
        int64_t dims[4];
        const int32_t rank = any_dims(1, 4, dims);
        const int32_t dim = (int32_t)kit_int(0, rank - 1);
        scatter(BERTH_OP_SCATTER_ADD, any_dtype(), rank, dims, dim, any_size());
    }
    // one long line, which many threads share
    for (int round = 0; round < 8; ++round)
        scatter(BERTH_OP_SCATTER_ADD, plain_dtypes[round], 1, (int64_t[1]){37}, 0, 1500);
}

// --- Paths --------------------------------------------------------------------------------------

static void divisors_give_the_whole_quotient_of_every_index(void** state) {
    (void)state;
    kit_seed(16);
    for (int round = 0; round < 20000; ++round) {
        const int64_t most = INT32_MAX >> kit_int(0, 30);
        const berth_cuda_divisor by = berth_cuda_divisor_make(kit_int(most / 2 + 1, most));
        const uint32_t whole = (uint32_t)kit_int(0, INT32_MAX / by.size);
        for (int32_t near = -1; near <= 1; ++near) {
            const int64_t index = whole * by.size + near;
            if (index < 0 || index > INT32_MAX) continue;
            const uint32_t high = (uint32_t)((uint64_t)index * by.factor >> 32);
            assert_int_equal((high + (uint32_t)index) >> by.shift, index / by.size);
        }
    }
}

static void units_are_as_wide_as_addresses_and_steps_allow(void** state) {
    (void)state;
    berth_cuda_walk walk = berth_cuda_walk_begin();
    berth_cuda_walk_append(&walk, 3, (int64_t[BERTH_CUDA_WALK_OPERANDS]){24, 7});
    berth_cuda_walk_append(&walk, 16, (int64_t[BERTH_CUDA_WALK_OPERANDS]){1, 0});
    berth_cuda_walk same = walk;
    assert_int_equal(berth_cuda_walk_widen(&same, 1, 2, 0), 16);
    assert_int_equal(same.count, 6);
    assert_int_equal(same.strides[0][0], 3);
    assert_int_equal(same.strides[1][0], 7); // stands still, and counts its own elements
    same = walk;
    assert_int_equal(berth_cuda_walk_widen(&same, 1, 2, 0x1004), 4);
    same = walk;
    assert_int_equal(berth_cuda_walk_widen(&same, 3, 2, 0), 2);
    assert_int_equal(same.count, 48);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_tensors_lie_one_after_another),
        cmocka_unit_test(joined_tensors_of_several_types_are_converted_as_by_cast),
        cmocka_unit_test(more_tensors_go_on_where_the_first_ended),
        cmocka_unit_test(rolled_elements_come_back_at_the_other_end),
        cmocka_unit_test(repeated_tensors_fill_more_dimensions_than_they_have),
        cmocka_unit_test(padding_surrounds_elements_or_takes_them_away),
        cmocka_unit_test(triangles_keep_one_side_of_a_diagonal),
        cmocka_unit_test(gathered_elements_are_those_named_along_the_dimension),
        cmocka_unit_test(elements_taken_along_a_dimension_broadcast_in_the_others),
        cmocka_unit_test(selected_slices_are_those_named),
        cmocka_unit_test(embedded_rows_are_those_of_a_plain_table),
        cmocka_unit_test(embedded_rows_of_quantised_tables_are_converted_exactly),
        cmocka_unit_test(copied_slices_go_to_the_last_that_names_a_place),
        cmocka_unit_test(scattered_elements_are_written_in_ascending_order),
        cmocka_unit_test(added_elements_are_rounded_one_by_one_in_ascending_order),
        cmocka_unit_test(divisors_give_the_whole_quotient_of_every_index),
        cmocka_unit_test(units_are_as_wide_as_addresses_and_steps_allow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
