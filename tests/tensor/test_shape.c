// SPDX-License-Identifier: Apache-2.0
// Arithmetic on shapes, close to its limits above all.
#include "tensor/shape.h"

#include "kit/random.h"
#include "kit/test.h"

static berth_view view_of(berth_dtype dtype, int32_t rank, const int64_t* dims) {
    berth_view view = {.dtype = dtype, .rank = rank};
    for (int32_t i = 0; i < rank; ++i)
        view.dims[i] = dims[i];
    return view;
}

static void a_shape_is_measured_in_elements_and_bytes(void** state) {
    (void)state;
    int64_t count;
    uint64_t bytes;
    assert_ok(berth_shape_measure(BERTH_F16, 3, (int64_t[]){2, 3, 5}, &count, &bytes));
    assert_int_equal(count, 30);
    assert_int_equal(bytes, 60);
    assert_ok(berth_shape_measure(BERTH_Q4_0, 2, (int64_t[]){3, 64}, &count, &bytes));
    assert_int_equal(count, 192);
    assert_int_equal(bytes, 3 * 2 * 18);
    assert_ok(berth_shape_measure(BERTH_F32, 0, NULL, &count, &bytes));
    assert_int_equal(count, 1);
    assert_int_equal(bytes, 4);
}

static void a_shape_without_elements_has_strides_that_fit(void** state) {
    (void)state;
    int64_t count;
    assert_ok(berth_shape_measure(BERTH_F32, 2, (int64_t[]){0, 7}, &count, NULL));
    assert_int_equal(count, 0);
    const int64_t huge = INT64_C(1) << 40;
    assert_fails(berth_shape_measure(BERTH_F32, 3, (int64_t[]){0, huge, huge}, NULL, NULL),
                 BERTH_ERR_OVERFLOW,
                 "63 bits");
}

static void what_is_no_shape_is_refused_by_name(void** state) {
    (void)state;
    const int64_t dims[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_fails(
        berth_shape_measure(BERTH_F32, 9, dims, NULL, NULL), BERTH_ERR_INVALID_ARGUMENT, "rank 9");
    assert_fails(berth_shape_measure(BERTH_F32, 2, (int64_t[]){2, -3}, NULL, NULL),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "-3 of dimension 1");
    assert_fails(berth_shape_measure(BERTH_Q8_0, 1, (int64_t[]){33}, NULL, NULL),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "multiple of 32");
    assert_fails(berth_shape_measure(BERTH_DTYPE_COUNT, 0, NULL, NULL, NULL),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "element type");
}

static void laying_out_refuses_what_measuring_refuses(void** state) {
    (void)state;
    const int64_t side = INT64_C(1) << 20;
    uint64_t bytes;
    // 2^60 elements: their number fits, 2^63 bytes do not
    berth_view cube = view_of(BERTH_I64, 3, (int64_t[]){side, side, side});
    assert_fails(berth_shape_lay_out(&cube, &bytes), BERTH_ERR_OVERFLOW, "63 bits");
    cube.dtype = BERTH_U8;
    assert_ok(berth_shape_lay_out(&cube, &bytes));
    assert_int_equal(bytes, UINT64_C(1) << 60);
}

static void laying_out_agrees_with_measuring_on_random_shapes(void** state) {
    (void)state;
    test_random random = test_random_make(17);
    for (int round = 0; round < 20000; ++round) {
        int64_t dims[BERTH_MAX_RANK];
        const int32_t rank = (int32_t)test_random_below(&random, BERTH_MAX_RANK + 1);
        for (int32_t i = 0; i < rank; ++i)
            dims[i] = (INT64_C(1) << test_random_below(&random, 23)) -
                      (int64_t)test_random_below(&random, 2);
        berth_view view =
            view_of((berth_dtype)test_random_below(&random, BERTH_BOOL + 1), rank, dims);
        uint64_t bytes = 0, measured = 0;
        const berth_status expected = berth_shape_measure(view.dtype, rank, dims, NULL, &measured);
        assert_int_equal(berth_shape_lay_out(&view, &bytes), expected);
        if (expected != BERTH_OK) continue;
        assert_int_equal(bytes, measured);
        assert_true(berth_shape_is_dense(view.dtype, rank, dims, view.strides));
    }
}

static void sizes_of_one_may_have_any_stride_in_a_dense_shape(void** state) {
    (void)state;
    const int64_t dims[] = {2, 1, 3};
    assert_true(berth_shape_is_dense(BERTH_F32, 3, dims, (int64_t[]){3, 99, 1}));
    assert_false(berth_shape_is_dense(BERTH_F32, 3, dims, (int64_t[]){4, 3, 1}));
    assert_false(berth_shape_is_dense(BERTH_F32, 3, dims, (int64_t[]){3, 3, -1}));
}

/// The lowest and the highest block of a view by looking at each corner of its box of indices.
static void a_view_knows_its_count_and_whether_it_is_contiguous(void** state) {
    (void)state;
    berth_view view = {.dtype = BERTH_F32, .rank = 2, .dims = {4, 3}, .strides = {3, 1}};
    assert_int_equal(berth_view_count(&view), 12);
    assert_true(berth_view_is_contiguous(&view));
    view.strides[0] = 6;
    assert_int_equal(berth_view_count(&view), 12);
    assert_false(berth_view_is_contiguous(&view));
    view.dims[1] = 0;
    assert_int_equal(berth_view_count(&view), 0);
    assert_true(berth_view_is_contiguous(&view));
    view.rank = 0;
    assert_int_equal(berth_view_count(&view), 1);
    assert_int_equal(berth_view_count(NULL), 0);
    assert_false(berth_view_is_contiguous(NULL));
}

static void find_corners(const berth_view* view, int64_t* out_first, int64_t* out_last) {
    *out_first = *out_last = 0;
    for (uint32_t corner = 0; corner < 1u << view->rank; ++corner) {
        int64_t at = 0;
        for (int32_t i = 0; i < view->rank; ++i)
            if ((corner >> i & 1) != 0) at += (view->dims[i] - 1) * view->strides[i];
        if (at < *out_first) *out_first = at;
        if (at > *out_last) *out_last = at;
    }
}

static void the_span_of_a_view_reaches_from_its_lowest_to_its_highest_element(void** state) {
    (void)state;
    test_random random = test_random_make(23);
    for (int round = 0; round < 5000; ++round) {
        berth_view view = {.dtype = BERTH_I32,
                           .rank = (int32_t)test_random_below(&random, BERTH_MAX_RANK + 1)};
        for (int32_t i = 0; i < view.rank; ++i) {
            view.dims[i] = test_random_between(&random, 1, 9);
            view.strides[i] = test_random_between(&random, -50, 50);
        }
        int64_t begin, end, first, last;
        find_corners(&view, &first, &last);
        assert_ok(berth_shape_span(&view, &begin, &end));
        assert_int_equal(begin, first * 4);
        assert_int_equal(end, (last + 1) * 4);
    }
    const berth_view empty = {
        .dtype = BERTH_F32, .rank = 2, .dims = {3, 0}, .strides = {INT64_MAX, 1}};
    int64_t begin, end;
    assert_ok(berth_shape_span(&empty, &begin, &end));
    assert_true(begin == 0 && end == 0);
    const berth_view blocks = {.dtype = BERTH_Q8_0, .rank = 2, .dims = {3, 64}, .strides = {5, 1}};
    assert_ok(berth_shape_span(&blocks, &begin, &end));
    assert_int_equal(end, (2 * 5 + 2) * 34);
}

static void a_span_that_does_not_fit_is_refused(void** state) {
    (void)state;
    static const int64_t strides[][2] = {
        {INT64_MAX, 1},
        {INT64_MIN, 1},
        {INT64_MAX / 2, INT64_MAX / 2},
        {INT64_MIN / 2, INT64_MIN / 2},
        {INT64_MAX / 4, 1},               // fits as elements, not as bytes
        {INT64_MAX / 12, INT64_MIN / 12}, // each end fits, not what lies between
    };
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; ++i) {
        const berth_view view = {.dtype = BERTH_F32,
                                 .rank = 2,
                                 .dims = {3, 3},
                                 .strides = {strides[i][0], strides[i][1]}};
        int64_t begin = 1, end = 1;
        assert_fails(berth_shape_span(&view, &begin, &end), BERTH_ERR_OVERFLOW, "63 bits");
        assert_true(begin == 0 && end == 0);
    }
}

static void shapes_broadcast_from_the_end(void** state) {
    (void)state;
    int32_t rank;
    int64_t dims[BERTH_MAX_RANK];
    const int64_t a[] = {4, 1, 3}, b[] = {5, 1};
    assert_true(berth_shape_broadcast(3, a, 2, b, &rank, dims));
    assert_int_equal(rank, 3);
    assert_memory_equal(dims, ((int64_t[]){4, 5, 3}), 3 * sizeof *dims);
    assert_false(berth_shape_broadcast(1, (int64_t[]){2}, 1, (int64_t[]){3}, &rank, dims));
    assert_true(berth_shape_broadcast(1, (int64_t[]){0}, 1, (int64_t[]){1}, &rank, dims));
    assert_int_equal(dims[0], 0);
}

static void a_shape_is_written_as_people_write_it(void** state) {
    (void)state;
    char buffer[16];
    berth_text text = {.buffer = buffer, .size = sizeof buffer};
    berth_shape_write(&text, BERTH_F32, 2, (int64_t[]){2, 3});
    assert_string_equal(buffer, "f32[2, 3]");
    berth_shape_write(&text, BERTH_BF16, 1, (int64_t[]){1000000});
    assert_string_equal(buffer, "f32[2, 3]bf16[1");
    assert_int_equal(text.length, strlen("f32[2, 3]bf16[1000000]"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shape_is_measured_in_elements_and_bytes),
        cmocka_unit_test(a_shape_without_elements_has_strides_that_fit),
        cmocka_unit_test(what_is_no_shape_is_refused_by_name),
        cmocka_unit_test(laying_out_refuses_what_measuring_refuses),
        cmocka_unit_test(laying_out_agrees_with_measuring_on_random_shapes),
        cmocka_unit_test(sizes_of_one_may_have_any_stride_in_a_dense_shape),
        cmocka_unit_test(a_view_knows_its_count_and_whether_it_is_contiguous),
        cmocka_unit_test(the_span_of_a_view_reaches_from_its_lowest_to_its_highest_element),
        cmocka_unit_test(a_span_that_does_not_fit_is_refused),
        cmocka_unit_test(shapes_broadcast_from_the_end),
        cmocka_unit_test(a_shape_is_written_as_people_write_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
