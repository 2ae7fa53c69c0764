// SPDX-License-Identifier: Apache-2.0
// The ops that follow indices, by their public functions: shapes, types, indices out of range,
// updates in place and on copies, refusals, failing memory.
#include "exec/ops_kit.h"

#include <math.h>

static berth_context* context_of(void** state) { return ops_kit_context(state); }

static berth_tensor* list(berth_context* ctx, int64_t count, const int64_t* values) {
    return ops_kit_integers(ctx, 1, &count, values);
}

// --- Reads ---------------------------------------------------------------------------------------

static void gather_takes_one_element_for_each_index(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){3, 4});
    berth_tensor* index =
        ops_kit_integers(ctx, 2, (int64_t[]){2, 3}, (int64_t[]){3, 0, 0, 1, 1, 2});
    berth_tensor* last = berth_gather(ctx, x, -1, index);
    ops_kit_expect_dims(last, 2, (int64_t[]){2, 3});
    exec_kit_expect(last, (float[]){3, 0, 0, 5, 5, 6}, 6);
    berth_tensor* narrow = berth_slice(ctx, index, 1, 1, 3, 1); // 0 0 / 1 2
    berth_tensor* first = berth_gather(ctx, x, 0, narrow);
    exec_kit_expect(first, (float[]){0, 1, 4, 9}, 4);
    berth_release_all(x, index, narrow, last, first);
    ops_kit_expect_nothing_left(ctx);
}

static void take_along_repeats_what_is_missing(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){2, 3});
    berth_tensor* index = ops_kit_integers(ctx, 2, (int64_t[]){1, 4}, (int64_t[]){2, 2, 0, 1});
    berth_tensor* y = berth_take_along(ctx, x, 1, index);
    ops_kit_expect_dims(y, 2, (int64_t[]){2, 4});
    exec_kit_expect(y, (float[]){2, 2, 0, 1, 5, 5, 3, 4}, 8);
    berth_tensor* row = ops_kit_ramp(ctx, 2, (int64_t[]){1, 3});
    berth_tensor* many = ops_kit_integers(ctx, 2, (int64_t[]){2, 1}, (int64_t[]){1, 2});
    berth_tensor* z = berth_take_along(ctx, row, 1, many);
    exec_kit_expect(z, (float[]){1, 2}, 2);
    berth_release_all(x, index, y, row, many, z);
    ops_kit_expect_nothing_left(ctx);
}

static void index_select_takes_slices(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){3, 2});
    berth_tensor* index = list(ctx, 4, (int64_t[]){2, 0, 0, 1});
    berth_tensor* rows = berth_index_select(ctx, x, 0, index);
    ops_kit_expect_dims(rows, 2, (int64_t[]){4, 2});
    exec_kit_expect(rows, (float[]){4, 5, 0, 1, 0, 1, 2, 3}, 8);
    berth_tensor* turned = berth_transpose(ctx, x, 0, 1);
    berth_tensor* columns = berth_index_select(ctx, turned, -1, index);
    exec_kit_expect(columns, (float[]){4, 0, 0, 2, 5, 1, 1, 3}, 8);
    berth_release_all(x, index, rows, turned, columns);
    ops_kit_expect_nothing_left(ctx);
}

static void embedding_takes_rows_of_any_plain_table(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* table = ops_kit_ramp(ctx, 2, (int64_t[]){4, 2});
    berth_tensor* ids = ops_kit_integers(ctx, 2, (int64_t[]){2, 1}, (int64_t[]){3, 1});
    berth_tensor* rows = berth_embedding(ctx, table, ids);
    ops_kit_expect_dims(rows, 3, (int64_t[]){2, 1, 2});
    exec_kit_expect(rows, (float[]){6, 7, 2, 3}, 4);
    berth_tensor* whole = berth_cast(ctx, table, BERTH_I32);
    berth_tensor* of_whole = berth_embedding(ctx, whole, ids);
    assert_int_equal(berth_tensor_dtype(of_whole), BERTH_I32);
    berth_tensor* one = berth_select(ctx, ids, 0, 0); // [1]
    berth_tensor* scalar = berth_select(ctx, one, 0, 0);
    berth_tensor* row = berth_embedding(ctx, table, scalar);
    ops_kit_expect_dims(row, 1, (int64_t[]){2});
    exec_kit_expect(row, (float[]){6, 7}, 2);
    berth_release_all(table, ids, rows, whole, of_whole, one, scalar, row);
    ops_kit_expect_nothing_left(ctx);
}

static void empty_indices_give_empty_results(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){3, 2});
    berth_tensor* nothing = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){0, 2});
    berth_tensor* none = berth_zeros(ctx, BERTH_I32, 2, (int64_t[]){0, 2});
    berth_tensor* empty = berth_zeros(ctx, BERTH_I64, 1, (int64_t[]){0});
    berth_tensor* results[] = {
        berth_gather(ctx, x, 0, none),
        berth_gather(ctx, nothing, 0, none),
        berth_take_along(ctx, x, 0, none),
        berth_index_select(ctx, x, 0, empty),
        berth_index_select(ctx, nothing, 0, empty),
        berth_embedding(ctx, x, empty),
    };
    for (size_t i = 0; i < sizeof results / sizeof results[0]; ++i) {
        ops_kit_expect_dims(results[i], 2, (int64_t[]){0, 2});
        berth_release(results[i]);
    }
    berth_tensor* same = berth_scatter(ctx, x, 0, none, nothing);
    exec_kit_expect(same, (float[]){0, 1, 2, 3, 4, 5}, 6);
    berth_tensor* copied = berth_index_copy(ctx, x, 0, empty, nothing);
    exec_kit_expect(copied, (float[]){0, 1, 2, 3, 4, 5}, 6);
    berth_release_all(x, nothing, none, empty, same, copied);
    ops_kit_expect_nothing_left(ctx);
}

// --- Writes --------------------------------------------------------------------------------------

static void scatter_replaces_and_the_last_of_equal_indices_counts(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){2, 3});
    berth_tensor* index = ops_kit_integers(ctx, 2, (int64_t[]){1, 4}, (int64_t[]){2, 0, 2, 2});
    berth_tensor* src = ops_kit_ramp(ctx, 2, (int64_t[]){2, 5});
    const void* place = exec_kit_place(x);
    x = berth_scatter(ctx, berth_move(x), 1, index, src);
    assert_ptr_equal(exec_kit_place(x), place);
    exec_kit_expect(x, (float[]){1, 0, 3, 0, 0, 0}, 6);
    berth_release_all(x, index, src);
    ops_kit_expect_nothing_left(ctx);
}

static void scatter_add_adds_up_equal_indices(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_ones(ctx, BERTH_F32, 2, (int64_t[]){2, 2});
    berth_tensor* index =
        ops_kit_integers(ctx, 2, (int64_t[]){3, 2}, (int64_t[]){0, 1, 0, 1, 1, 1});
    berth_tensor* src = ops_kit_ramp(ctx, 2, (int64_t[]){3, 2}); // 0 1 / 2 3 / 4 5
    const void* place = exec_kit_place(x);
    berth_tensor* y = berth_scatter_add(ctx, berth_move(x), 0, index, berth_move(src));
    assert_ptr_equal(exec_kit_place(y), place);
    exec_kit_expect(y, (float[]){3, 1, 5, 10}, 4);
    berth_release_all(y, index);
    ops_kit_expect_nothing_left(ctx);
}

static void an_update_of_a_borrowed_tensor_changes_a_copy(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 1, (int64_t[]){3});
    berth_tensor* index = list(ctx, 2, (int64_t[]){2, 2});
    berth_tensor* src = berth_ones(ctx, BERTH_F32, 1, (int64_t[]){2});
    berth_tensor* added = berth_scatter_add(ctx, x, 0, index, src);
    berth_tensor* set = berth_scatter(ctx, x, 0, index, src);
    exec_kit_expect(added, (float[]){0, 1, 4}, 3);
    exec_kit_expect(set, (float[]){0, 1, 1}, 3);
    exec_kit_expect(x, (float[]){0, 1, 2}, 3);
    berth_release_all(x, index, src, added, set);
    ops_kit_expect_nothing_left(ctx);
}

static void a_source_that_overlaps_the_target_is_read_as_it_was(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 1, (int64_t[]){4});
    berth_tensor* backwards = berth_flip(ctx, x, BERTH_DIMS(0)); // 3 2 1 0
    berth_tensor* index = list(ctx, 4, (int64_t[]){0, 1, 2, 3});
    berth_tensor* y = berth_scatter(ctx, berth_move(x), 0, index, berth_move(backwards));
    exec_kit_expect(y, (float[]){3, 2, 1, 0}, 4);
    berth_tensor* twice = berth_scatter_add(ctx, berth_move(y), 0, index, y);
    exec_kit_expect(twice, (float[]){6, 4, 2, 0}, 4);
    berth_release_all(index, twice);
    ops_kit_expect_nothing_left(ctx);
}

static void a_moved_view_is_not_changed(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 1, (int64_t[]){4});
    berth_tensor* head = berth_slice(ctx, x, 0, 0, 2, 1);
    berth_tensor* index = list(ctx, 1, (int64_t[]){0});
    berth_tensor* src = exec_kit_ramp(ctx, 9, 1);
    berth_tensor* y = berth_index_copy(ctx, berth_move(head), 0, index, src);
    exec_kit_expect(y, (float[]){9, 1}, 2);
    exec_kit_expect(x, (float[]){0, 1, 2, 3}, 4);
    berth_release_all(x, index, src, y);
    ops_kit_expect_nothing_left(ctx);
}

// --- Indices out of range ------------------------------------------------------------------------

/// On a device that computes at once the result is NULL and the context says why; else `result` is
/// `expected` [count].
static void expect_bad_index(berth_context* ctx,
                             berth_tensor* result,
                             const char* text,
                             const float* expected,
                             size_t count) {
    if (ops_kit_is_async(ctx)) {
        float values[16];
        assert_non_null(result);
        assert_ok(berth_tensor_read(result, values, count * sizeof(float)));
        for (size_t i = 0; i < count; ++i)
            assert_true(isnan(expected[i]) ? isnan(values[i]) : values[i] == expected[i]);
        berth_release(result);
        return;
    }
    assert_null(result);
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, text);
}

static void reads_out_of_range_are_refused_or_give_nan(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){3, 2});
    berth_tensor* high = ops_kit_integers(ctx, 2, (int64_t[]){2, 2}, (int64_t[]){0, 1, 3, 0});
    expect_bad_index(ctx,
                     berth_gather(ctx, x, 0, high),
                     "gather(f32[3, 2], i64[2, 2]): index 3 at [1, 0] is outside dimension 0 of "
                     "size 3",
                     (float[]){0, 3, NAN, 1},
                     4);
    berth_tensor* low = list(ctx, 2, (int64_t[]){1, -1});
    expect_bad_index(ctx,
                     berth_index_select(ctx, x, 1, low),
                     "index_select(f32[3, 2], i64[2]): index -1 at [1] is outside dimension 1 of "
                     "size 2",
                     (float[]){1, NAN, 3, NAN, 5, NAN},
                     6);
    expect_bad_index(ctx,
                     berth_embedding(ctx, x, low),
                     "embedding(f32[3, 2], i64[2]): index -1 at [1]",
                     (float[]){2, 3, NAN, NAN},
                     4);
    berth_tensor* far =
        ops_kit_integers(ctx, 2, (int64_t[]){1, 2}, (int64_t[]){INT64_MAX, INT64_MIN});
    expect_bad_index(ctx,
                     berth_take_along(ctx, x, 0, far),
                     "take_along(f32[3, 2], i64[1, 2]): index 9223372036854775807 at [0, 0]",
                     (float[]){NAN, NAN},
                     2);
    berth_release_all(x, high, low, far);
    ops_kit_expect_nothing_left(ctx);
}

static void reads_out_of_range_of_integers_give_zero_where_nobody_looks(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_full(ctx, 7, BERTH_I64, 1, (int64_t[]){2});
    berth_tensor* index = berth_full(ctx, 2, BERTH_I32, 1, (int64_t[]){1});
    berth_tensor* y = berth_gather(ctx, x, 0, index);
    if (ops_kit_is_async(ctx)) {
        int64_t value = -1;
        assert_ok(berth_tensor_read(y, &value, sizeof value));
        assert_int_equal(value, 0);
    } else {
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "index 2 at [0]");
    }
    berth_release_all(x, index, y);
    ops_kit_expect_nothing_left(ctx);
}

static void writes_out_of_range_are_refused_or_ignored(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 1, (int64_t[]){3});
    berth_tensor* index = list(ctx, 3, (int64_t[]){0, 3, -4});
    berth_tensor* src = berth_ones(ctx, BERTH_F32, 1, (int64_t[]){3});
    expect_bad_index(ctx,
                     berth_scatter(ctx, x, 0, index, src),
                     "scatter(f32[3], i64[3], f32[3]): index 3 at [1] is outside dimension 0",
                     (float[]){1, 1, 2},
                     3);
    expect_bad_index(ctx,
                     berth_scatter_add(ctx, x, 0, index, src),
                     "scatter_add(f32[3], i64[3], f32[3]): index 3 at [1]",
                     (float[]){1, 1, 2},
                     3);
    // a moved operand is consumed either way
    expect_bad_index(ctx,
                     berth_index_copy(ctx, berth_move(x), 0, berth_move(index), berth_move(src)),
                     "index_copy(f32[3], i64[3], f32[3]): index 3 at [1]",
                     (float[]){1, 1, 2},
                     3);
    ops_kit_expect_nothing_left(ctx);
}

static void an_empty_dimension_has_no_place_for_any_index(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){0});
    berth_tensor* index = list(ctx, 1, (int64_t[]){0});
    expect_bad_index(ctx,
                     berth_gather(ctx, x, 0, index),
                     "index 0 at [0] is outside dimension 0 of size 0",
                     (float[]){NAN},
                     1);
    berth_release_all(x, index);
    ops_kit_expect_nothing_left(ctx);
}

static void an_expanded_index_is_looked_at_once(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){2, 3});
    berth_tensor* column = ops_kit_integers(ctx, 2, (int64_t[]){2, 1}, (int64_t[]){1, 2});
    berth_tensor* index = berth_expand(ctx, column, 2, (int64_t[]){2, 3});
    expect_bad_index(ctx,
                     berth_gather(ctx, x, 0, index),
                     "index 2 at [1, 0] is outside dimension 0 of size 2",
                     (float[]){3, 4, 5, NAN, NAN, NAN},
                     6);
    berth_release_all(x, column, index);
    ops_kit_expect_nothing_left(ctx);
}

static void a_bad_index_is_found_in_the_middle_of_many(void** state) {
    berth_context* ctx = context_of(state);
    if (ops_kit_is_async(ctx)) return;
    const berth_dtype dtypes[] = {BERTH_I32, BERTH_I64};
    for (int t = 0; t < 2; ++t) {
        berth_tensor* x = exec_kit_ramp(ctx, 0, 100000);
        berth_tensor* index = berth_arange(ctx, 0, 100000, 1, dtypes[t]);
        berth_tensor* good = berth_gather(ctx, x, 0, index);
        assert_non_null(good);
        berth_tensor* at = list(ctx, 1, (int64_t[]){77777});
        berth_tensor* bad = berth_full(ctx, t == 0 ? -5 : 100000, dtypes[t], 1, (int64_t[]){1});
        index = berth_index_copy(ctx, berth_move(index), 0, at, bad);
        assert_null(berth_gather(ctx, x, 0, index));
        assert_context_fails(ctx,
                             BERTH_ERR_INVALID_ARGUMENT,
                             t == 0 ? "index -5 at [77777]" : "index 100000 at [77777]");
        berth_release_all(x, index, good, at, bad);
    }
    ops_kit_expect_nothing_left(ctx);
}

static void several_threads_look_at_the_indices(void** state) {
    (void)state;
    exec_kit kit;
    const berth_option_setting settings[] = {{"device", "cpu"}, {"threads", "3"}};
    assert_ok(exec_kit_open(&kit, NULL, settings, 2));
    berth_context* ctx = kit.ctx;
    berth_tensor* x = exec_kit_ramp(ctx, 0, 10);
    berth_tensor* index = berth_full(ctx, 9, BERTH_I64, 1, (int64_t[]){300000});
    berth_tensor* at = list(ctx, 2, (int64_t[]){123456, 299999});
    berth_tensor* bad = list(ctx, 2, (int64_t[]){10, -1});
    berth_tensor* good = berth_gather(ctx, x, 0, index);
    assert_non_null(good);
    index = berth_index_copy(ctx, berth_move(index), 0, at, bad);
    assert_null(berth_gather(ctx, x, 0, index));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "index 10 at [123456]");
    berth_release_all(x, index, at, bad, good);
    ops_kit_expect_nothing_left(ctx);
    exec_kit_close(&kit);
}

// --- Refusals ------------------------------------------------------------------------------------

static void shapes_that_do_not_fit_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){3, 2});
    berth_tensor* flat = ops_kit_ramp(ctx, 1, (int64_t[]){6});
    berth_tensor* ids = list(ctx, 2, (int64_t[]){0, 1});
    berth_tensor* wide = berth_zeros(ctx, BERTH_I32, 2, (int64_t[]){3, 3});
    berth_tensor* scalar = berth_full(ctx, 1, BERTH_F32, 0, NULL);
    berth_tensor* zero = berth_full(ctx, 0, BERTH_I32, 0, NULL);
#define REFUSE(expr, text)                                                                         \
    do {                                                                                           \
        assert_null(expr);                                                                         \
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, text);                               \
    } while (0)
    REFUSE(berth_gather(ctx, x, 2, wide), "gather(f32[3, 2], i32[3, 3]): there is no dimension 2");
    REFUSE(berth_gather(ctx, x, -3, wide), "there is no dimension -3");
    REFUSE(berth_gather(ctx, scalar, 0, zero), "gather(f32[], i32[]): there is no dimension 0");
    REFUSE(berth_gather(ctx, x, 0, ids), "the index must have as many dimensions as x");
    REFUSE(berth_gather(ctx, x, 0, wide), "dimension 1 of the index must be at most 2");
    REFUSE(berth_take_along(ctx, x, 0, wide), "dimension 1 of the index must be 1 or 2");
    REFUSE(berth_take_along(ctx, x, 0, ids), "the index must have as many dimensions as x");
    REFUSE(berth_index_select(ctx, x, 0, wide), "the index must be [n]");
    REFUSE(berth_index_select(ctx, x, 5, ids), "there is no dimension 5");
    REFUSE(berth_index_copy(ctx, x, 0, wide, x), "the index must be [n]");
    REFUSE(berth_index_copy(ctx, x, 0, ids, x), "dimension 0 of the source must be 2");
    REFUSE(berth_index_copy(ctx, x, 0, ids, flat), "the source must have as many dimensions as x");
    REFUSE(berth_scatter(ctx, x, 0, wide, x), "dimension 1 of the index must be at most 2");
    REFUSE(
        berth_scatter(ctx, x, 1, wide, x),
        "scatter(f32[3, 2], i32[3, 3], f32[3, 2]): dimension 1 of the source must be at least 3");
    REFUSE(berth_scatter_add(ctx, x, 1, ids, x), "the index must have as many dimensions as x");
    REFUSE(berth_embedding(ctx, flat, ids), "the table must be [rows, row length]");
#undef REFUSE
    berth_release_all(x, flat, ids, wide, scalar, zero);
    ops_kit_expect_nothing_left(ctx);
}

static void types_that_do_not_fit_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    unsigned char blocks[2 * 34] = {0};
    const int64_t dims[2] = {2, 32};
    berth_tensor* quantised =
        berth_tensor_from_memory(ctx, blocks, sizeof blocks, BERTH_Q8_0, 2, dims, true, NULL, NULL);
    berth_tensor* x = ops_kit_ramp(ctx, 1, (int64_t[]){3});
    berth_tensor* whole = berth_zeros(ctx, BERTH_I32, 1, (int64_t[]){3});
    berth_tensor* square = berth_zeros(ctx, BERTH_I32, 2, (int64_t[]){1, 1});
#define REFUSE(expr, text)                                                                         \
    do {                                                                                           \
        assert_null(expr);                                                                         \
        assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, text);                                    \
    } while (0)
    REFUSE(berth_gather(ctx, x, 0, x),
           "gather(f32[3], f32[3]): f32 is not accepted here: the index "
           "must be i32 or i64");
    REFUSE(berth_embedding(ctx, quantised, x), "ids must be i32 or i64");
    REFUSE(berth_gather(ctx, quantised, 0, square), "q8_0 is not accepted here");
    REFUSE(berth_index_select(ctx, quantised, 0, whole), "x must have a plain type");
    REFUSE(berth_scatter(ctx, x, 0, whole, whole), "x and the source must have one type");
    REFUSE(berth_index_copy(ctx, whole, 0, whole, x), "x and the source must have one type");
#undef REFUSE
    berth_release_all(quantised, x, whole, square);
    ops_kit_expect_nothing_left(ctx);
}

static void missing_operands_are_refused_and_the_others_consumed(void** state) {
    berth_context* ctx = context_of(state);
    assert_null(berth_gather(ctx, NULL, 0, berth_move(list(ctx, 1, (int64_t[]){0}))));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "operand 0 is NULL");
    assert_null(berth_index_select(ctx, berth_move(exec_kit_ramp(ctx, 0, 2)), 0, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "operand 1 is NULL");
    berth_tensor* x = exec_kit_ramp(ctx, 0, 2);
    assert_null(
        berth_scatter(ctx, berth_move(x), 0, berth_move(list(ctx, 1, (int64_t[]){0})), NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "operand 2 is NULL");
    assert_null(berth_take_along(NULL, NULL, 0, NULL));
    assert_null(berth_scatter_add(NULL, NULL, 0, NULL, NULL));
    ops_kit_expect_nothing_left(ctx);
}

static void run_everything(berth_context* ctx) {
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){3, 2});
    berth_tensor* index = ops_kit_integers(ctx, 2, (int64_t[]){1, 2}, (int64_t[]){2, 0});
    berth_tensor* ids = list(ctx, 2, (int64_t[]){2, 0});
    berth_tensor* gathered = berth_gather(ctx, x, 0, index);
    berth_tensor* taken = berth_take_along(ctx, x, 0, index);
    berth_tensor* rows = berth_embedding(ctx, x, ids);
    berth_tensor* selected = berth_index_select(ctx, x, 0, ids);
    berth_tensor* copied = berth_index_copy(ctx, x, 0, ids, rows);
    berth_tensor* set = berth_scatter(ctx, berth_move(copied), 0, index, gathered);
    berth_tensor* added = berth_scatter_add(ctx, berth_move(x), 0, berth_move(index), taken);
    berth_release_all(ids, gathered, taken, rows, selected, set, added);
}

static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    ops_kit_fail_everywhere(run_everything);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(gather_takes_one_element_for_each_index),
        EXEC_KIT_ON_BOTH(take_along_repeats_what_is_missing),
        EXEC_KIT_ON_BOTH(index_select_takes_slices),
        EXEC_KIT_ON_BOTH(embedding_takes_rows_of_any_plain_table),
        EXEC_KIT_ON_BOTH(empty_indices_give_empty_results),
        EXEC_KIT_ON_BOTH(scatter_replaces_and_the_last_of_equal_indices_counts),
        EXEC_KIT_ON_BOTH(scatter_add_adds_up_equal_indices),
        EXEC_KIT_ON_BOTH(an_update_of_a_borrowed_tensor_changes_a_copy),
        EXEC_KIT_ON_BOTH(a_source_that_overlaps_the_target_is_read_as_it_was),
        EXEC_KIT_ON_BOTH(a_moved_view_is_not_changed),
        EXEC_KIT_ON_BOTH(reads_out_of_range_are_refused_or_give_nan),
        EXEC_KIT_ON_BOTH(reads_out_of_range_of_integers_give_zero_where_nobody_looks),
        EXEC_KIT_ON_BOTH(writes_out_of_range_are_refused_or_ignored),
        EXEC_KIT_ON_BOTH(an_empty_dimension_has_no_place_for_any_index),
        EXEC_KIT_ON_BOTH(an_expanded_index_is_looked_at_once),
        EXEC_KIT_ON_BOTH(a_bad_index_is_found_in_the_middle_of_many),
        cmocka_unit_test(several_threads_look_at_the_indices),
        EXEC_KIT_ON_BOTH(shapes_that_do_not_fit_are_refused),
        EXEC_KIT_ON_BOTH(types_that_do_not_fit_are_refused),
        EXEC_KIT_ON_BOTH(missing_operands_are_refused_and_the_others_consumed),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
