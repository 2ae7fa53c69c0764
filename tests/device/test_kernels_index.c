// SPDX-License-Identifier: Apache-2.0
// GATHER TAKE_ALONG INDEX_SELECT EMBEDDING INDEX_COPY SCATTER SCATTER_ADD against element by
// element definitions.
#include "device/kernel_kit.h"

#include "device/cpu/kernel_convert.h"

static const berth_dtype plain[] = {
    BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_I32, BERTH_I64, BERTH_U8, BERTH_BOOL, BERTH_I8};
static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};
enum { PLAIN = sizeof plain / sizeof plain[0] };

/// The place of each dimension of the element at row-major position `index`.
static void unravel(const berth_view* view, int64_t index, int64_t* out_at) {
    for (int32_t d = view->rank; d-- > 0;) {
        out_at[d] = index % view->dims[d];
        index /= view->dims[d];
    }
}

/// The row-major position of an element; dimensions of size 1 hold every place.
static int64_t ravel(const berth_view* view, const int64_t* at) {
    int64_t index = 0;
    for (int32_t d = 0; d < view->rank; ++d)
        index = index * view->dims[d] + (view->dims[d] == 1 ? 0 : at[d]);
    return index;
}

/// What a read out of range gives.
static double missing(berth_dtype dtype) {
    return berth_dtype_query_info(dtype)->kind == BERTH_DTYPE_KIND_F ? (double)NAN : 0.0;
}

/// Numbers, and in float types now and then a NaN or an infinity.
static void fill_wildly(kit_tensor* x) {
    kit_fill(x, x->view.dtype == BERTH_I8 ? -100 : 0, 100);
    if (berth_dtype_query_info(x->view.dtype)->kind != BERTH_DTYPE_KIND_F) return;
    for (int64_t i = 0; i < kit_count(&x->view); i += kit_int(3, 20))
        kit_store(
            x->view.dtype, kit_at(&x->view, i), kit_int(0, 1) ? (double)NAN : -(double)INFINITY);
}

/// An index of any strides with places of a dimension of `size`, and a few that are none.
static kit_tensor make_index(int32_t rank, const int64_t* dims, int64_t size) {
    kit_tensor index =
        kit_strided(kit_int(0, 1) == 0 ? BERTH_I32 : BERTH_I64, rank, dims, false, true);
    kit_fill(&index, 0, (double)size);
    for (int64_t i = 0; i < kit_count(&index.view); i += kit_int(5, 30))
        kit_store(index.view.dtype, kit_at(&index.view, i), (double)kit_int(-2, size + 1));
    return index;
}

// --- Reads ---------------------------------------------------------------------------------------

/// Compares a gather's output with x at each index.
static void expect_gathered(const berth_view* x,
                            const berth_view* index,
                            const berth_view* out,
                            int32_t dim) {
    int64_t at[BERTH_MAX_RANK];
    for (int64_t i = 0; i < kit_count(out); ++i) {
        unravel(out, i, at);
        const int64_t place = (int64_t)kit_get(index, ravel(index, at));
        const bool is_good = place >= 0 && place < x->dims[dim];
        at[dim] = place;
        kit_expect(out, i, is_good ? kit_get(x, ravel(x, at)) : missing(x->dtype), 0);
    }
}

static void check_gather(berth_dtype dtype, int32_t max_rank, int64_t limit) {
    int64_t dims[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(max_rank, limit, dims);
    const int32_t dim = (int32_t)kit_int(0, rank - 1);
    kit_tensor x = kit_strided(dtype, rank, dims, false, true);
    const int64_t size = dims[dim];
    for (int32_t d = 0; d < rank; ++d)
        dims[d] = d == dim ? kit_int(0, 2 * limit) : kit_int(dims[d] / 2, dims[d]);
    kit_tensor index = make_index(rank, dims, size);
    kit_tensor out = kit_contiguous(dtype, rank, dims);
    fill_wildly(&x);
    const berth_index_params params = {.dim = dim};
    berth_op_call call = {.input_count = 2, .inputs = {x.view, index.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_GATHER, &call, &out, true, false, NULL);
    expect_gathered(&x.view, &index.view, &out.view, dim);
    kit_free(&x);
    kit_free(&index);
    kit_free(&out);
}

static void elements_are_gathered_along_any_dimension(void** state) {
    (void)state;
    kit_seed(1);
    for (int t = 0; t < PLAIN; ++t) {
        for (int round = 0; round < 30; ++round)
            check_gather(plain[t], round < 20 ? 4 : 8, round < 20 ? 7 : 2);
        check_gather(plain[t], 2, 260); // enough for a team
    }
}

static void check_take_along(berth_dtype dtype) {
    int64_t x_dims[BERTH_MAX_RANK], index_dims[BERTH_MAX_RANK], dims[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(5, 6, dims);
    const int32_t dim = (int32_t)kit_int(0, rank - 1);
    for (int32_t d = 0; d < rank; ++d) {
        const int64_t lacking = kit_int(0, 3); // 0: x is repeated, 1: the index
        x_dims[d] = lacking == 0 ? 1 : dims[d];
        index_dims[d] = lacking == 1 ? 1 : dims[d];
    }
    x_dims[dim] = kit_int(1, 9);
    index_dims[dim] = dims[dim];
    kit_tensor x = kit_strided(dtype, rank, x_dims, false, true);
    kit_tensor index = make_index(rank, index_dims, x_dims[dim]);
    kit_tensor out = kit_contiguous(dtype, rank, dims);
    fill_wildly(&x);
    const berth_index_params params = {.dim = dim};
    berth_op_call call = {.input_count = 2, .inputs = {x.view, index.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_TAKE_ALONG, &call, &out, true, false, NULL);
    // a dimension of size 1 along `dim` has other places that are out of range
    expect_gathered(&x.view, &index.view, &out.view, dim);
    kit_free(&x);
    kit_free(&index);
    kit_free(&out);
}

static void what_is_taken_along_a_dimension_broadcasts_in_the_others(void** state) {
    (void)state;
    kit_seed(2);
    for (int t = 0; t < PLAIN; ++t)
        for (int round = 0; round < 25; ++round)
            check_take_along(plain[t]);
}

static void check_index_select(berth_dtype dtype, int32_t max_rank, int64_t limit) {
    int64_t dims[BERTH_MAX_RANK], at[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(max_rank, limit, dims);
    const int32_t dim = (int32_t)kit_int(0, rank - 1);
    kit_tensor x = kit_strided(dtype, rank, dims, false, true);
    const int64_t size = dims[dim];
    dims[dim] = kit_int(0, 2 * limit);
    kit_tensor index = make_index(1, &dims[dim], size);
    kit_tensor out = kit_contiguous(dtype, rank, dims);
    fill_wildly(&x);
    const berth_index_params params = {.dim = dim};
    berth_op_call call = {.input_count = 2, .inputs = {x.view, index.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_INDEX_SELECT, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        unravel(&out.view, i, at);
        at[dim] = (int64_t)kit_get(&index.view, at[dim]);
        const bool is_good = at[dim] >= 0 && at[dim] < size;
        kit_expect(
            &out.view, i, is_good ? kit_get(&x.view, ravel(&x.view, at)) : missing(dtype), 0);
    }
    kit_free(&x);
    kit_free(&index);
    kit_free(&out);
}

static void slices_are_selected_along_any_dimension(void** state) {
    (void)state;
    kit_seed(3);
    for (int t = 0; t < PLAIN; ++t) {
        for (int round = 0; round < 20; ++round)
            check_index_select(plain[t], round < 15 ? 4 : 8, round < 15 ? 7 : 2);
        check_index_select(plain[t], 2, 260);
    }
}

static void check_embedding(berth_dtype dtype) {
    int64_t dims[BERTH_MAX_RANK];
    const int64_t table_dims[2] = {kit_int(1, 50), kit_int(0, 300)};
    int32_t rank = kit_dims(4, 6, dims);
    kit_tensor table = kit_strided(dtype, 2, table_dims, false, true);
    kit_tensor ids = make_index(rank, dims, table_dims[0]);
    dims[rank++] = table_dims[1];
    kit_tensor out = kit_contiguous(dtype, rank, dims);
    fill_wildly(&table);
    berth_op_call call = {.input_count = 2, .inputs = {table.view, ids.view}};
    kit_run_everywhere(BERTH_OP_EMBEDDING, &call, &out, true, false, NULL);
    for (int64_t i = 0; i < kit_count(&out.view); ++i) {
        const int64_t id = (int64_t)kit_get(&ids.view, i / table_dims[1]);
        const int64_t from = id * table_dims[1] + i % table_dims[1];
        const bool is_good = id >= 0 && id < table_dims[0];
        kit_expect(&out.view, i, is_good ? kit_get(&table.view, from) : missing(dtype), 0);
    }
    kit_free(&table);
    kit_free(&ids);
    kit_free(&out);
}

static void embedding_rows_come_by_id(void** state) {
    (void)state;
    kit_seed(4);
    for (int t = 0; t < PLAIN; ++t)
        for (int round = 0; round < 8; ++round)
            check_embedding(plain[t]);
}

static void quantised_embeddings_come_as_f32(void** state) {
    (void)state;
    kit_seed(5);
    for (int dtype = BERTH_Q4_0; dtype <= BERTH_Q6_K; ++dtype) {
        const berth_dtype_info* info = berth_dtype_query_info((berth_dtype)dtype);
        const int64_t width = 2 * (int64_t)info->block_values;
        kit_tensor table = kit_quantised_rows((berth_dtype)dtype, 9, width, 1);
        const int64_t count = 20;
        const int64_t dims[2] = {count, width};
        kit_tensor ids = make_index(1, &count, 9);
        kit_tensor out = kit_contiguous(BERTH_F32, 2, dims);
        berth_op_call call = {.input_count = 2, .inputs = {table.view, ids.view}};
        kit_run_everywhere(BERTH_OP_EMBEDDING, &call, &out, true, false, NULL);
        for (int64_t i = 0; i < count * width; ++i) {
            float row[512];
            const int64_t id = (int64_t)kit_get(&ids.view, i / width);
            const bool is_good = id >= 0 && id < 9;
            if (is_good && i % width == 0) {
                const unsigned char* from =
                    (unsigned char*)table.view.data + (size_t)id * 3 * info->block_bytes;
                berth_convert_query_to_f32((berth_dtype)dtype)(from, row, width);
            }
            kit_expect(&out.view, i, is_good ? (double)row[i % width] : (double)NAN, 0);
        }
        kit_free(&table);
        kit_free(&ids);
        kit_free(&out);
    }
}

// --- Writes --------------------------------------------------------------------------------------

/// A contiguous copy of a contiguous tensor, guards too.
static kit_tensor clone(const kit_tensor* x) {
    kit_tensor copy = kit_contiguous(x->view.dtype, x->view.rank, x->view.dims);
    memcpy(copy.memory, x->memory, x->bytes + 2 * KIT_GUARD);
    return copy;
}

static void check_index_copy(berth_dtype dtype, int64_t limit) {
    int64_t dims[BERTH_MAX_RANK], at[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(4, limit, dims);
    const int32_t dim = (int32_t)kit_int(0, rank - 1);
    kit_tensor x = kit_contiguous(dtype, rank, dims);
    kit_fill(&x, 0, 100);
    const int64_t size = dims[dim];
    dims[dim] = kit_int(0, limit + 3);
    kit_tensor source = kit_strided(dtype, rank, dims, false, true);
    kit_tensor index = make_index(1, &dims[dim], size); // some equal, some out of range
    kit_fill(&source, 0, 100);
    kit_tensor expected = clone(&x);
    for (int64_t i = 0; i < kit_count(&source.view); ++i) {
        unravel(&source.view, i, at);
        at[dim] = (int64_t)kit_get(&index.view, at[dim]);
        if (at[dim] < 0 || at[dim] >= size) continue;
        kit_store(
            dtype, kit_at(&expected.view, ravel(&expected.view, at)), kit_get(&source.view, i));
    }
    const berth_index_params params = {.dim = dim};
    berth_op_call call = {
        .input_count = 3, .inputs = {x.view, index.view, source.view}, .params = &params};
    kit_run_everywhere(BERTH_OP_INDEX_COPY, &call, &x, true, true, NULL);
    assert_memory_equal(expected.memory, x.memory, x.bytes + 2 * KIT_GUARD);
    kit_free(&x);
    kit_free(&source);
    kit_free(&index);
    kit_free(&expected);
}

static void indexed_slices_are_replaced_and_bad_indices_ignored(void** state) {
    (void)state;
    kit_seed(6);
    for (int t = 0; t < PLAIN; ++t) {
        for (int round = 0; round < 20; ++round)
            check_index_copy(plain[t], 6);
        check_index_copy(plain[t], 25);
    }
}

/// The sum that SCATTER_ADD stores.
static double add(berth_dtype dtype, double old, double new) {
    switch ((int)dtype) {
    case BERTH_BOOL:
        return old != 0 || new != 0;
    case BERTH_U8:
        return (double)(uint8_t)((int64_t)old + (int64_t) new);
    case BERTH_I8:
        return (double)(int8_t)((int64_t)old + (int64_t) new);
    default:
        return old + new; // exact, or rounded twice to what once would give
    }
}

static void check_scatter(berth_dtype dtype, int32_t max_rank, int64_t limit, bool is_add) {
    int64_t dims[BERTH_MAX_RANK], at[BERTH_MAX_RANK];
    const int32_t rank = kit_dims(max_rank, limit, dims);
    const int32_t dim = (int32_t)kit_int(0, rank - 1);
    kit_tensor x = kit_contiguous(dtype, rank, dims);
    fill_wildly(&x);
    const int64_t size = dims[dim];
    for (int32_t d = 0; d < rank; ++d)
        dims[d] = d == dim ? kit_int(0, 2 * limit) : kit_int(dims[d] / 2, dims[d]);
    kit_tensor index = make_index(rank, dims, size);
    for (int32_t d = 0; d < rank; ++d)
        dims[d] += kit_int(0, 1);
    kit_tensor source = kit_strided(dtype, rank, dims, false, true);
    fill_wildly(&source);
    kit_tensor expected = clone(&x);
    for (int64_t i = 0; i < kit_count(&index.view); ++i) {
        unravel(&index.view, i, at);
        int64_t from = 0; // not ravel(): a source of size 1 is not repeated
        for (int32_t d = 0; d < rank; ++d)
            from = from * source.view.dims[d] + at[d];
        at[dim] = (int64_t)kit_get(&index.view, i);
        if (at[dim] < 0 || at[dim] >= size) continue;
        void* to = kit_at(&expected.view, ravel(&expected.view, at));
        const double value = kit_get(&source.view, from);
        kit_store(dtype, to, is_add ? add(dtype, kit_load(dtype, to), value) : value);
    }
    const berth_index_params params = {.dim = dim};
    berth_op_call call = {
        .input_count = 3, .inputs = {x.view, index.view, source.view}, .params = &params};
    kit_run_everywhere(
        is_add ? BERTH_OP_SCATTER_ADD : BERTH_OP_SCATTER, &call, &x, true, true, NULL);
    for (int64_t i = 0; i < kit_count(&x.view); ++i) // NaNs may differ in their bits
        kit_expect(&x.view, i, kit_get(&expected.view, i), 0);
    kit_free(&x);
    kit_free(&source);
    kit_free(&index);
    kit_free(&expected);
}

static void scattered_elements_replace_and_the_last_of_equals_stays(void** state) {
    (void)state;
    kit_seed(7);
    for (int t = 0; t < PLAIN; ++t) {
        for (int round = 0; round < 30; ++round)
            check_scatter(plain[t], round < 20 ? 4 : 8, round < 20 ? 6 : 2, false);
        check_scatter(plain[t], 2, 260, false);
    }
}

static void scattered_elements_add_up_in_the_type_and_in_order(void** state) {
    (void)state;
    kit_seed(8);
    for (int t = 0; t < PLAIN; ++t) {
        for (int round = 0; round < 30; ++round)
            check_scatter(plain[t], round < 20 ? 4 : 8, round < 20 ? 6 : 2, true);
        check_scatter(plain[t], 2, 260, true);
    }
}

/// Rows of a contiguous source are added to, or replace, those that a column of indices names.
static void check_rows(berth_dtype dtype, bool is_add) {
    const int64_t rows = kit_int(1, 9), columns = kit_int(1, 70), size = kit_int(1, 5);
    kit_tensor x = kit_contiguous(dtype, 2, (int64_t[]){size, columns});
    kit_tensor source = kit_contiguous(dtype, 2, (int64_t[]){rows, columns});
    kit_tensor index = make_index(1, &rows, size);
    fill_wildly(&x);
    fill_wildly(&source);
    kit_tensor expected = clone(&x);
    for (int64_t i = 0; i < rows * columns; ++i) {
        const int64_t place = (int64_t)kit_get(&index.view, i / columns);
        if (place < 0 || place >= size) continue;
        void* to = kit_at(&expected.view, place * columns + i % columns);
        const double value = kit_get(&source.view, i);
        kit_store(dtype, to, is_add ? add(dtype, kit_load(dtype, to), value) : value);
    }
    const berth_index_params params = {.dim = 0};
    berth_op_call call = {
        .input_count = 3, .inputs = {x.view, index.view, source.view}, .params = &params};
    berth_view* expanded = &call.inputs[1];
    expanded->rank = 2;
    expanded->dims[1] = columns;
    expanded->strides[1] = 0;
    kit_run_everywhere(
        is_add ? BERTH_OP_SCATTER_ADD : BERTH_OP_SCATTER, &call, &x, true, true, NULL);
    for (int64_t i = 0; i < kit_count(&x.view); ++i)
        kit_expect(&x.view, i, kit_get(&expected.view, i), 0);
    kit_free(&x);
    kit_free(&source);
    kit_free(&index);
    kit_free(&expected);
}

static void an_expanded_index_names_whole_rows(void** state) {
    (void)state;
    kit_seed(9);
    for (int t = 0; t < PLAIN; ++t)
        for (int round = 0; round < 8; ++round)
            check_rows(plain[t], round % 2 == 0);
}

static void sums_of_halves_are_rounded_at_every_step(void** state) {
    (void)state;
    const int64_t one = 1, many = 3000;
    for (int t = 1; t < 3; ++t) {
        kit_tensor x = kit_contiguous(floats[t], 1, &one);
        kit_tensor index = kit_contiguous(BERTH_I64, 1, &many);
        kit_tensor source = kit_contiguous(floats[t], 1, &many);
        kit_store(floats[t], x.view.data, 0);
        for (int64_t i = 0; i < many; ++i) {
            kit_store(floats[t], kit_at(&source.view, i), 1);
            kit_store(BERTH_I64, kit_at(&index.view, i), 0);
        }
        const berth_index_params params = {.dim = 0};
        berth_op_call call = {
            .input_count = 3, .inputs = {x.view, index.view, source.view}, .params = &params};
        kit_run_everywhere(BERTH_OP_SCATTER_ADD, &call, &x, true, true, NULL);
        // where one more is half a place, ties go to even: the sum stays
        kit_expect(&x.view, 0, floats[t] == BERTH_F16 ? 2048 : 256, 0);
        kit_free(&x);
        kit_free(&index);
        kit_free(&source);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_gathered_along_any_dimension),
        cmocka_unit_test(what_is_taken_along_a_dimension_broadcasts_in_the_others),
        cmocka_unit_test(slices_are_selected_along_any_dimension),
        cmocka_unit_test(embedding_rows_come_by_id),
        cmocka_unit_test(quantised_embeddings_come_as_f32),
        cmocka_unit_test(indexed_slices_are_replaced_and_bad_indices_ignored),
        cmocka_unit_test(scattered_elements_replace_and_the_last_of_equals_stays),
        cmocka_unit_test(scattered_elements_add_up_in_the_type_and_in_order),
        cmocka_unit_test(an_expanded_index_names_whole_rows),
        cmocka_unit_test(sums_of_halves_are_rounded_at_every_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
