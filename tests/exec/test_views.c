// SPDX-License-Identifier: Apache-2.0
// Views: windows on one storage, their strides, what copies and what does not, refusals.
#include "exec/exec_kit.h"

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

/// [rank] f32 tensor with values 0, 1, 2, ...
static berth_tensor* make(berth_context* ctx, int32_t rank, const int64_t* dims) {
    int64_t count = 1;
    for (int32_t i = 0; i < rank; ++i)
        count *= dims[i];
    return berth_reshape(ctx, berth_move(exec_kit_ramp(ctx, 0, count)), rank, dims);
}

static void expect_shape(const berth_tensor* x,
                         int32_t rank,
                         const int64_t* dims,
                         const int64_t* strides) {
    assert_non_null(x);
    assert_int_equal(berth_tensor_rank(x), rank);
    for (int32_t i = 0; i < rank; ++i) {
        assert_int_equal(berth_tensor_dims(x)[i], dims[i]);
        assert_int_equal(berth_tensor_strides(x)[i], strides[i]);
    }
}

static void expect_same_storage(const berth_tensor* x, const berth_tensor* y) {
    assert_ptr_equal(x->storage, y->storage);
}

static void expect_nothing_left(berth_context* ctx) {
    assert_context_ok(ctx);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void a_slice_is_a_window_on_the_same_storage(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, 2, (int64_t[]){3, 4});
    berth_tensor* y = berth_slice(ctx, x, 1, 1, 4, 2);
    expect_shape(y, 2, (int64_t[]){3, 2}, (int64_t[]){4, 2});
    expect_same_storage(y, x);
    assert_false(berth_tensor_is_contiguous(y));
    exec_kit_expect(y, (float[]){1, 3, 5, 7, 9, 11}, 6);
    berth_tensor* rows = berth_slice(ctx, x, 0, 1, 3, 1);
    assert_true(berth_tensor_is_contiguous(rows));
    exec_kit_expect(rows, (float[]){4, 5, 6, 7, 8, 9, 10, 11}, 8);
    berth_release_all(x, y, rows);
    expect_nothing_left(ctx);
}

static void slice_bounds_count_from_the_end_and_are_clamped(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 5);
    static const struct {
        int64_t start, stop, step, first, count;
    } cases[] = {
        {-2, INT64_MAX, 1, 3, 2},
        {-4, -1, 1, 1, 3},
        {INT64_MIN, INT64_MAX, 1, 0, 5},
        {-100, 2, 1, 0, 2},
        {3, 100, 1, 3, 2},
        {0, 5, 4, 0, 2},
        {1, 5, INT64_MAX, 1, 1},
        {0, INT64_MAX, 3, 0, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        berth_tensor* y = berth_slice(ctx, x, -1, cases[i].start, cases[i].stop, cases[i].step);
        assert_non_null(y);
        float expected[5];
        for (int64_t k = 0; k < cases[i].count; ++k)
            expected[k] = (float)(cases[i].first + (k > 0 ? k * cases[i].step : 0));
        exec_kit_expect(y, expected, (size_t)cases[i].count);
        berth_release(y);
    }
    berth_release(x);
    expect_nothing_left(ctx);
}

static void an_empty_slice_is_a_valid_tensor_inside_its_storage(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 5);
    static const int64_t bounds[][2] = {{2, 2}, {4, 1}, {5, 9}, {100, 200}, {-1, -3}};
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; ++i) {
        berth_tensor* y = berth_slice(ctx, x, 0, bounds[i][0], bounds[i][1], 1);
        assert_int_equal(berth_tensor_dim(y, 0), 0);
        assert_int_equal(berth_tensor_count(y), 0);
        assert_int_equal(berth_tensor_bytes(y), 0);
        assert_true(y->offset_bytes <= x->storage->size_bytes);
        assert_ok(berth_tensor_read(y, NULL, 0));
        berth_tensor* z = berth_neg(ctx, y);
        assert_int_equal(berth_tensor_count(z), 0);
        berth_release_all(y, z);
    }
    berth_release(x);
    expect_nothing_left(ctx);
}

static void slices_of_slices_add_up(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 20);
    berth_tensor* y = berth_slice(ctx, x, 0, 2, 20, 3); // 2 5 8 11 14 17
    berth_tensor* z = berth_slice(ctx, y, 0, 1, 6, 2);  // 5 11 17
    expect_shape(z, 1, (int64_t[]){3}, (int64_t[]){6});
    exec_kit_expect(z, (float[]){5, 11, 17}, 3);
    berth_release_all(x, y, z);
}

static void a_transpose_swaps_two_dimensions(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, 3, (int64_t[]){2, 3, 2});
    berth_tensor* y = berth_transpose(ctx, x, 0, -1);
    expect_shape(y, 3, (int64_t[]){2, 3, 2}, (int64_t[]){1, 2, 6});
    expect_same_storage(y, x);
    exec_kit_expect(y, (float[]){0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}, 12);
    berth_tensor* same = berth_transpose(ctx, x, 1, 1);
    assert_true(berth_tensor_is_contiguous(same));
    berth_tensor* back = berth_transpose(ctx, y, 2, 0);
    assert_true(berth_tensor_is_contiguous(back));
    berth_release_all(x, y, same, back);
    expect_nothing_left(ctx);
}

static void a_column_and_a_row_of_one_are_contiguous_whatever_their_strides(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, 2, (int64_t[]){1, 4});
    berth_tensor* y = berth_transpose(ctx, x, 0, 1);
    assert_true(berth_tensor_is_contiguous(y));
    berth_tensor* z = berth_contiguous(ctx, y);
    assert_ptr_equal(z, y);
    berth_release_all(x, y, z);
}

static void a_reshape_of_a_dense_tensor_is_a_view(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 12);
    berth_tensor* y = berth_reshape(ctx, x, 3, (int64_t[]){2, -1, 2});
    expect_shape(y, 3, (int64_t[]){2, 3, 2}, (int64_t[]){6, 2, 1});
    expect_same_storage(y, x);
    berth_tensor* half = berth_slice(ctx, y, 0, 1, 2, 1);
    berth_tensor* flat = berth_reshape(ctx, half, 1, (int64_t[]){-1});
    expect_same_storage(flat, x);
    exec_kit_expect(flat, (float[]){6, 7, 8, 9, 10, 11}, 6);
    berth_release_all(x, y, half, flat);
    expect_nothing_left(ctx);
}

static void a_reshape_to_and_from_a_scalar_is_a_view(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_full(ctx, 7, BERTH_F32, 0, NULL);
    berth_tensor* y = berth_reshape(ctx, x, 2, (int64_t[]){1, -1});
    expect_same_storage(y, x);
    berth_tensor* z = berth_reshape(ctx, y, 0, NULL);
    assert_int_equal(berth_tensor_rank(z), 0);
    exec_kit_expect(z, (float[]){7}, 1);
    berth_release_all(x, y, z);
}

static void a_reshape_stays_a_view_where_the_strides_allow_it(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, 3, (int64_t[]){2, 3, 4});
    berth_tensor* narrow = berth_slice(ctx, x, 2, 0, 2, 1); // strides 12 4 1, rows joinable
    berth_tensor* joined = berth_reshape(ctx, narrow, 2, (int64_t[]){6, 2});
    expect_shape(joined, 2, (int64_t[]){6, 2}, (int64_t[]){4, 1});
    expect_same_storage(joined, x);
    exec_kit_expect(joined, (float[]){0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21}, 12);
    berth_tensor* split = berth_reshape(ctx, narrow, 4, (int64_t[]){2, 3, 1, 2});
    expect_same_storage(split, x);
    exec_kit_expect(split, (float[]){0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21}, 12);
    berth_tensor* turned = berth_transpose(ctx, x, 0, 1); // [3, 2, 4], strides 4 12 1
    berth_tensor* cut = berth_reshape(ctx, turned, 4, (int64_t[]){3, 2, 2, 2});
    expect_shape(cut, 4, (int64_t[]){3, 2, 2, 2}, (int64_t[]){4, 12, 2, 1});
    expect_same_storage(cut, x);
    berth_tensor* ones = berth_reshape(ctx, turned, 5, (int64_t[]){1, 3, 1, 2, 4});
    expect_same_storage(ones, x);
    berth_release_all(x, narrow, joined, split, turned, cut, ones);
    expect_nothing_left(ctx);
}

static void a_reshape_copies_where_no_strides_exist(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, 2, (int64_t[]){2, 3});
    berth_tensor* turned = berth_transpose(ctx, x, 0, 1);
    berth_tensor* flat = berth_reshape(ctx, turned, 1, (int64_t[]){6});
    assert_ptr_not_equal(flat->storage, x->storage);
    assert_true(berth_tensor_is_contiguous(flat));
    exec_kit_expect(flat, (float[]){0, 3, 1, 4, 2, 5}, 6);
    berth_tensor* other = berth_reshape(ctx, turned, 2, (int64_t[]){2, 3});
    exec_kit_expect(other, (float[]){0, 3, 1, 4, 2, 5}, 6);
    expect_shape(other, 2, (int64_t[]){2, 3}, (int64_t[]){3, 1});
    berth_release_all(x, turned, flat, other);
    expect_nothing_left(ctx);
}

/// Whatever reshape decides, the elements in row-major order stay.
static void random_views_reshape_to_the_same_elements(void** state) {
    berth_context* ctx = context_of(state);
    test_random random = test_random_make(11);
    for (int round = 0; round < 300; ++round) {
        int64_t dims[4];
        for (int i = 0; i < 4; ++i)
            dims[i] = 1 + (int64_t)test_random_below(&random, 4);
        berth_tensor* x = make(ctx, 4, dims);
        for (int i = 0; i < 2; ++i) {
            const int32_t a = (int32_t)test_random_below(&random, 4);
            const int32_t b = (int32_t)test_random_below(&random, 4);
            x = berth_transpose(ctx, berth_move(x), a, b);
            x = berth_slice(ctx,
                            berth_move(x),
                            a,
                            (int64_t)test_random_below(&random, 2),
                            INT64_MAX,
                            1 + (int64_t)test_random_below(&random, 2));
        }
        const int64_t count = berth_tensor_count(x);
        assert_true(count <= 256);
        float before[256] = {0}, after[256] = {0};
        assert_ok(berth_tensor_read(x, before, (uint64_t)count * sizeof(float)));
        const int64_t shape[3] = {berth_tensor_dim(x, 0) * berth_tensor_dim(x, 1),
                                  berth_tensor_dim(x, 2),
                                  berth_tensor_dim(x, 3)};
        berth_tensor* y = berth_reshape(ctx, x, 3, shape);
        assert_context_ok(ctx);
        assert_ok(berth_tensor_read(y, after, (uint64_t)count * sizeof(float)));
        assert_memory_equal(before, after, (size_t)count * sizeof(float));
        berth_tensor* z = berth_contiguous(ctx, berth_move(x));
        assert_ok(berth_tensor_read(z, after, (uint64_t)count * sizeof(float)));
        assert_memory_equal(before, after, (size_t)count * sizeof(float));
        berth_release_all(y, z);
    }
    expect_nothing_left(ctx);
}

static void zero_sizes_reshape_and_transpose(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){0, 3});
    berth_tensor* y = berth_reshape(ctx, x, 3, (int64_t[]){5, 0, 7});
    expect_shape(y, 3, (int64_t[]){5, 0, 7}, (int64_t[]){7, 7, 1});
    berth_tensor* z = berth_reshape(ctx, y, 2, (int64_t[]){-1, 3});
    assert_int_equal(berth_tensor_dim(z, 0), 0);
    berth_tensor* turned = berth_transpose(ctx, y, 0, 2);
    assert_int_equal(berth_tensor_dim(turned, 0), 7);
    assert_true(berth_tensor_is_contiguous(turned));
    berth_release_all(x, y, z, turned);
    expect_nothing_left(ctx);
}

static void contiguous_and_cast_give_the_tensor_itself_where_nothing_is_to_do(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    berth_tensor* y = berth_contiguous(ctx, x);
    assert_ptr_equal(y, x);
    assert_int_equal(atomic_load(&x->refs), 2);
    y = berth_contiguous(ctx, berth_move(y));
    assert_ptr_equal(y, x);
    assert_int_equal(atomic_load(&x->refs), 2);
    berth_release(y);
    y = berth_cast(ctx, x, BERTH_F32);
    assert_ptr_equal(y, x);
    berth_release(y);
    y = berth_cast(ctx, berth_move(x), BERTH_F32);
    assert_int_equal(atomic_load(&y->refs), 1);
    berth_tensor* whole = berth_cast(ctx, y, BERTH_I32);
    assert_int_equal(berth_tensor_dtype(whole), BERTH_I32);
    assert_ptr_not_equal(whole->storage, y->storage);
    berth_release_all(y, whole);
    expect_nothing_left(ctx);
}

static void a_moved_handle_becomes_the_view(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 6);
    berth_tensor* y = berth_reshape(ctx, berth_move(x), 2, (int64_t[]){2, 3});
    assert_ptr_equal(y, x);
    y = berth_transpose(ctx, berth_move(y), 0, 1);
    assert_ptr_equal(y, x);
    y = berth_slice(ctx, berth_move(y), 0, 1, 3, 1);
    assert_ptr_equal(y, x);
    exec_kit_expect(y, (float[]){1, 4, 2, 5}, 4);
    assert_int_equal(ctx->home.live_objects, 2);
    berth_release(y);
    expect_nothing_left(ctx);
}

static void a_moved_handle_that_somebody_holds_is_left_as_it_is(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 6);
    berth_tensor* held = berth_retain(x);
    berth_tensor* y = berth_reshape(ctx, berth_move(x), 2, (int64_t[]){2, 3});
    assert_ptr_not_equal(y, held);
    assert_int_equal(berth_tensor_rank(held), 1);
    assert_int_equal(atomic_load(&held->refs), 1);
    expect_same_storage(y, held);
    berth_release_all(y, held);
    expect_nothing_left(ctx);
}

static void a_view_outlives_its_base_and_sees_writes_through_it(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    berth_tensor* y = berth_slice(ctx, x, 0, 2, 4, 1);
    assert_ok(berth_tensor_write(x, (float[]){9, 8, 7, 6}, 16));
    exec_kit_expect(y, (float[]){7, 6}, 2);
    assert_ok(berth_tensor_write(y, (float[]){1, 2}, 8));
    exec_kit_expect(x, (float[]){9, 8, 1, 2}, 4);
    berth_release(x);
    // new tensors do not take the storage that the view still needs
    for (int i = 0; i < 8; ++i)
        berth_release(berth_ones(ctx, BERTH_F32, 1, (int64_t[]){4}));
    exec_kit_expect(y, (float[]){1, 2}, 2);
    berth_release(y);
    expect_nothing_left(ctx);
}

/// [4, 64] of Q8_0 blocks {f16 scale, 32 x i8}: the scale is 1, values are row * 16 + column / 4.
enum { BLOCK_BYTES = 34, ROWS = 4, BLOCKS = 2 };
static void fill_blocks(unsigned char* data) {
    for (int row = 0; row < ROWS; ++row) {
        for (int b = 0; b < BLOCKS; ++b) {
            unsigned char* block = data + (row * BLOCKS + b) * BLOCK_BYTES;
            block[0] = 0x00;
            block[1] = 0x3C;
            for (int i = 0; i < 32; ++i)
                block[2 + i] = (unsigned char)(row * 16 + (b * 32 + i) / 4);
        }
    }
}

static berth_tensor* make_blocks(berth_context* ctx, unsigned char* data) {
    fill_blocks(data);
    return berth_tensor_from_memory(ctx,
                                    data,
                                    ROWS * BLOCKS * BLOCK_BYTES,
                                    BERTH_Q8_0,
                                    2,
                                    (int64_t[]){ROWS, BLOCKS * 32},
                                    true,
                                    NULL,
                                    NULL);
}

static void rows_of_a_quantised_tensor_can_be_sliced(void** state) {
    berth_context* ctx = context_of(state);
    static unsigned char data[ROWS * BLOCKS * BLOCK_BYTES];
    berth_tensor* x = make_blocks(ctx, data);
    assert_int_equal(berth_tensor_bytes(x), sizeof data);
    berth_tensor* odd = berth_slice(ctx, x, 0, 1, 4, 2);
    expect_shape(odd, 2, (int64_t[]){2, 64}, (int64_t[]){2 * BLOCKS, 1});
    assert_int_equal(berth_tensor_bytes(odd), 2 * BLOCKS * BLOCK_BYTES);
    assert_false(berth_tensor_is_contiguous(odd));
    float values[128];
    berth_tensor* plain = berth_cast(ctx, odd, BERTH_F32);
    assert_context_ok(ctx);
    assert_ok(berth_tensor_read(plain, values, sizeof values));
    for (int row = 0; row < 2; ++row)
        for (int i = 0; i < 64; ++i)
            assert_true(values[row * 64 + i] == (float)((2 * row + 1) * 16 + i / 4));
    // packed: the same bytes
    berth_tensor* packed = berth_contiguous(ctx, odd);
    assert_int_equal(berth_tensor_dtype(packed), BERTH_Q8_0);
    assert_true(berth_tensor_is_contiguous(packed));
    unsigned char bytes[2 * BLOCKS * BLOCK_BYTES], gathered[2 * BLOCKS * BLOCK_BYTES];
    assert_ok(berth_tensor_read(packed, bytes, sizeof bytes));
    assert_ok(berth_tensor_read(odd, gathered, sizeof gathered));
    assert_memory_equal(bytes, gathered, sizeof bytes);
    assert_memory_equal(bytes, data + BLOCKS * BLOCK_BYTES, BLOCKS * BLOCK_BYTES);
    berth_release_all(x, odd, plain, packed);
    expect_nothing_left(ctx);
}

static void what_quantised_tensors_cannot_do_is_refused_by_name(void** state) {
    berth_context* ctx = context_of(state);
    static unsigned char data[ROWS * BLOCKS * BLOCK_BYTES];
    berth_tensor* x = make_blocks(ctx, data);
    assert_null(berth_slice(ctx, x, 1, 0, 32, 1));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "slice(q8_0[4, 64])");
    assert_null(berth_transpose(ctx, x, 0, 1));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "transpose(q8_0[4, 64])");
    assert_null(berth_reshape(ctx, x, 2, (int64_t[]){8, 32}));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "reshape(q8_0[4, 64])");
    assert_null(berth_add(ctx, x, x));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "add(q8_0[4, 64]");
    assert_null(berth_cast(ctx, x, BERTH_I32));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "cast(q8_0[4, 64])");
    berth_release(x);
}

static void impossible_views_are_refused_by_name(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, 2, (int64_t[]){2, 3});
    assert_null(berth_slice(ctx, x, 2, 0, 1, 1));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "no dimension 2");
    assert_null(berth_slice(ctx, x, -3, 0, 1, 1));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "no dimension -3");
    assert_null(berth_slice(ctx, x, 0, 0, 1, 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "the step is 0");
    assert_null(berth_transpose(ctx, x, 0, 2));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "transpose(f32[2, 3])");
    assert_null(berth_transpose(ctx, x, -3, 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "-3");
    assert_null(berth_cast(ctx, x, BERTH_DTYPE_COUNT));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "cast(f32[2, 3])");
    assert_null(berth_cast(ctx, x, BERTH_Q8_0));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "cast(f32[2, 3])");
    assert_null(berth_slice(ctx, NULL, 0, 0, 1, 1));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "slice: the operand is NULL");
    assert_null(berth_contiguous(ctx, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "contiguous");
    assert_null(berth_slice(NULL, x, 0, 0, 1, 1));
    berth_tensor* scalar = berth_zeros(ctx, BERTH_F32, 0, NULL);
    assert_null(berth_transpose(ctx, scalar, 0, 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "transpose(f32[])");
    berth_release_all(x, scalar);
    expect_nothing_left(ctx);
}

static void impossible_shapes_are_refused_by_name(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, 2, (int64_t[]){2, 3});
    static const struct {
        int32_t rank;
        int64_t dims[2];
        const char* part;
    } cases[] = {
        {2, {-1, -1}, "more than one"},
        {2, {-1, 4}, "cannot be inferred"},
        {2, {-1, 0}, "cannot be inferred"},
        {1, {-2, 0}, "size -2"},
        {1, {5, 0}, "6 elements"},
        {2, {INT64_MAX, 4}, "not possible"},
        {-1, {0, 0}, "rank -1"},
        {BERTH_MAX_RANK + 1, {1, 1}, "rank 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        assert_null(berth_reshape(ctx, x, cases[i].rank, cases[i].dims));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, cases[i].part);
    }
    assert_null(berth_reshape(ctx, x, 1, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "reshape(f32[2, 3])");
    berth_release(x);
    expect_nothing_left(ctx);
}

static void a_refused_view_consumes_what_was_moved(void** state) {
    berth_context* ctx = context_of(state);
    assert_null(berth_slice(ctx, berth_move(exec_kit_ramp(ctx, 0, 3)), 7, 0, 1, 1));
    berth_context_clear_error(ctx);
    assert_null(berth_transpose(ctx, berth_move(exec_kit_ramp(ctx, 0, 3)), 7, 0));
    berth_context_clear_error(ctx);
    assert_null(berth_reshape(ctx, berth_move(exec_kit_ramp(ctx, 0, 3)), 1, (int64_t[]){7}));
    berth_context_clear_error(ctx);
    assert_null(berth_cast(ctx, berth_move(exec_kit_ramp(ctx, 0, 3)), BERTH_Q4_0));
    berth_context_clear_error(ctx);
    expect_nothing_left(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(a_slice_is_a_window_on_the_same_storage),
        EXEC_KIT_ON_BOTH(slice_bounds_count_from_the_end_and_are_clamped),
        EXEC_KIT_ON_BOTH(an_empty_slice_is_a_valid_tensor_inside_its_storage),
        EXEC_KIT_ON_BOTH(slices_of_slices_add_up),
        EXEC_KIT_ON_BOTH(a_transpose_swaps_two_dimensions),
        EXEC_KIT_ON_BOTH(a_column_and_a_row_of_one_are_contiguous_whatever_their_strides),
        EXEC_KIT_ON_BOTH(a_reshape_of_a_dense_tensor_is_a_view),
        EXEC_KIT_ON_BOTH(a_reshape_to_and_from_a_scalar_is_a_view),
        EXEC_KIT_ON_BOTH(a_reshape_stays_a_view_where_the_strides_allow_it),
        EXEC_KIT_ON_BOTH(a_reshape_copies_where_no_strides_exist),
        EXEC_KIT_ON_BOTH(random_views_reshape_to_the_same_elements),
        EXEC_KIT_ON_BOTH(zero_sizes_reshape_and_transpose),
        EXEC_KIT_ON_BOTH(contiguous_and_cast_give_the_tensor_itself_where_nothing_is_to_do),
        EXEC_KIT_ON_BOTH(a_moved_handle_becomes_the_view),
        EXEC_KIT_ON_BOTH(a_moved_handle_that_somebody_holds_is_left_as_it_is),
        EXEC_KIT_ON_BOTH(a_view_outlives_its_base_and_sees_writes_through_it),
        EXEC_KIT_ON_BOTH(rows_of_a_quantised_tensor_can_be_sliced),
        EXEC_KIT_ON_BOTH(what_quantised_tensors_cannot_do_is_refused_by_name),
        EXEC_KIT_ON_BOTH(impossible_views_are_refused_by_name),
        EXEC_KIT_ON_BOTH(impossible_shapes_are_refused_by_name),
        EXEC_KIT_ON_BOTH(a_refused_view_consumes_what_was_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
