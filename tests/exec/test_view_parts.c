// SPDX-License-Identifier: Apache-2.0
// Cutting tensors into parts, windows of any strides, and what view ops refuse.
#include "exec/exec_kit.h"

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

/// [2, 6] f32 with values 0 .. 11.
static berth_tensor* make(berth_context* ctx) {
    return berth_reshape(ctx, berth_move(exec_kit_ramp(ctx, 0, 12)), 2, (int64_t[]){2, 6});
}

/// Reads a view of any strides through a contiguous copy.
static void expect_values(berth_context* ctx, berth_tensor* x, const float* values, size_t count) {
    assert_context_ok(ctx);
    berth_tensor* dense = berth_contiguous(ctx, x);
    exec_kit_expect(dense, values, count);
    berth_release(dense);
}

static void named_sizes_cut_a_dimension_into_parts_that_share_the_storage(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx);
    berth_tensor* parts[3];
    assert_true(berth_split_sizes(ctx, x, (int64_t[]){1, 0, 5}, 3, -1, parts));
    expect_values(ctx, parts[0], (float[]){0, 6}, 2);
    assert_int_equal(berth_tensor_dim(parts[1], 1), 0);
    expect_values(ctx, parts[2], (float[]){1, 2, 3, 4, 5, 7, 8, 9, 10, 11}, 10);
    assert_ptr_equal(parts[2]->storage, x->storage);
    berth_release(x);
    berth_release_array(parts, 3);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void chunks_are_as_many_as_the_size_allows(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx);
    berth_tensor* parts[8];
    // PyTorch's rule: 6 elements in 4 chunks are parts of 2, so 3 of them
    assert_int_equal(berth_chunk(ctx, x, 4, 1, parts), 3);
    for (size_t i = 0; i < 3; ++i)
        assert_int_equal(berth_tensor_dim(parts[i], 1), 2);
    assert_null(parts[3]);
    berth_release_array(parts, 3);
    assert_int_equal(berth_chunk(ctx, x, 8, 0, parts), 2);
    berth_release_array(parts, 2);
    assert_int_equal(berth_chunk(ctx, berth_move(x), 1, 0, parts), 1);
    assert_int_equal(berth_tensor_count(parts[0]), 12);
    berth_release(parts[0]);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void a_window_of_any_strides_shows_the_storage(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 10);
    const int64_t dims[2] = {4, 3};
    berth_tensor* windows = berth_as_strided(ctx, x, 2, dims, (int64_t[]){2, 1}, 1);
    expect_values(ctx, windows, (float[]){1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9}, 12);
    // relative to the storage, whatever view is given
    berth_tensor* tail = berth_narrow(ctx, x, 0, 5, 5);
    berth_tensor* back = berth_as_strided(ctx, tail, 1, (int64_t[]){10}, (int64_t[]){-1}, 9);
    expect_values(ctx, back, (float[]){9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 10);
    berth_tensor* one = berth_as_strided(ctx, x, 0, NULL, NULL, 9);
    expect_values(ctx, one, (float[]){9}, 1);
    berth_tensor* none = berth_as_strided(ctx, x, 1, (int64_t[]){0}, (int64_t[]){99}, INT64_MAX);
    assert_int_equal(berth_tensor_count(none), 0);
    berth_release_all(x, windows, tail, back, one, none);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void a_window_that_leaves_the_storage_is_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 10);
    static const struct {
        int64_t dims[2], strides[2], offset;
    } cases[] = {
        {{4, 3}, {2, 1}, 2},
        {{1, 1}, {1, 1}, 10},
        {{1, 1}, {1, 1}, -1},
        {{2, 2}, {-1, 1}, 0},
        {{2, 2}, {INT64_MAX, INT64_MAX}, 0},
        {{3, 2}, {INT64_MIN, 1}, 5},
        {{2, 2}, {1, 1}, INT64_MAX},
        {{2, 2}, {1, 1}, INT64_MIN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        assert_null(berth_as_strided(ctx, x, 2, cases[i].dims, cases[i].strides, cases[i].offset));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "10 elements");
    }
    berth_release(x);
}

static void a_shape_that_strides_do_not_allow_is_no_view(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_transpose(ctx, berth_move(make(ctx)), 0, 1);
    assert_null(berth_reshape_view(ctx, x, 1, (int64_t[]){12}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "reshape_view(f32[6, 2])");
    berth_release(x);
}

static void an_expanded_tensor_is_never_changed_in_place(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_expand(ctx, berth_move(exec_kit_ramp(ctx, 1, 1)), 2, (int64_t[]){2, 3});
    berth_tensor* y = berth_neg(ctx, berth_move(x));
    expect_values(ctx, y, (float[]){-1, -1, -1, -1, -1, -1}, 6);
    berth_release(y);
    assert_int_equal(ctx->home.live_objects, 0);
}

/// Every view op that takes a part, on a tensor that it cannot be taken of.
static void what_is_not_there_is_refused_by_name(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx);
    berth_tensor* parts[2] = {x, x};
    assert_null(berth_narrow(ctx, x, 1, 3, 4));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "4 elements from 3");
    assert_null(berth_narrow(ctx, x, 1, -7, 1));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "narrow(f32[2, 6])");
    assert_null(berth_narrow(ctx, x, 1, 0, -1));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "-1 elements");
    assert_null(berth_select(ctx, x, 0, 2));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "index 2");
    assert_null(berth_select(ctx, x, 0, INT64_MIN));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "select(f32[2, 6])");
    assert_null(berth_permute(ctx, x, BERTH_DIMS(0)));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "1 dimensions are given for 2");
    assert_null(berth_permute(ctx, x, BERTH_DIMS(0, -2)));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "dimension 0 comes twice");
    assert_null(berth_flip(ctx, x, BERTH_DIMS(2)));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "no dimension 2 among 2");
    assert_null(berth_squeeze(ctx, x, (berth_dims){.count = 9}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "9 dimensions");
    assert_null(berth_unsqueeze(ctx, x, 3));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "cannot be put at 3");
    assert_null(berth_expand(ctx, x, 2, (int64_t[]){4, 6}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "size 2 of dimension 0");
    assert_null(berth_expand(ctx, x, 1, (int64_t[]){6}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "more than 1");
    assert_null(berth_expand(ctx, x, 3, (int64_t[]){-1, 2, 6}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "cannot become -1");
    assert_null(berth_expand(ctx, x, 4, (int64_t[]){INT64_MAX, 2, 2, 6}));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "expand(f32[2, 6])");
    assert_int_equal(berth_split(ctx, x, 0, 0, parts, 2), 0);
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "parts of 0");
    assert_null(parts[0]);
    assert_int_equal(berth_split(ctx, x, 1, 1, parts, 2), 0);
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "6 parts, and places for 2");
    assert_false(berth_split_sizes(ctx, x, (int64_t[]){3, 4}, 2, 1, parts));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "split_sizes(f32[2, 6])");
    assert_false(berth_split_sizes(ctx, x, (int64_t[]){INT64_MAX, INT64_MAX}, 2, 1, parts));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "do not make up");
    assert_int_equal(berth_chunk(ctx, x, 0, 0, parts), 0);
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "0 parts");
    assert_int_equal(berth_chunk(ctx, x, 2, 0, NULL), 0);
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "no place");
    assert_int_equal(berth_chunk(ctx, NULL, 2, 0, parts), 0);
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "chunk: the operand is NULL");
    assert_int_equal(berth_split(NULL, x, 1, 0, parts, 2), 0);
    berth_release(x);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void eight_dimensions_are_the_most(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 2);
    for (int32_t rank = 1; rank < BERTH_MAX_RANK; ++rank)
        x = berth_unsqueeze(ctx, berth_move(x), 0);
    assert_int_equal(berth_tensor_rank(x), BERTH_MAX_RANK);
    assert_null(berth_unsqueeze(ctx, berth_move(x), 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "the most");
    assert_int_equal(ctx->home.live_objects, 0);
}

static void parts_are_made_all_or_none_when_host_memory_fails(void** state) {
    (void)state;
    for (size_t n = 1;; ++n) {
        failing_host host;
        failing_host_init(&host);
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, &host.allocator, NULL, 0));
        berth_tensor* x = exec_kit_ramp(kit.ctx, 0, 4096);
        assert_context_ok(kit.ctx);
        failing_host_fail(&host, n, false);
        static berth_tensor* parts[4096];
        const size_t count = berth_split(kit.ctx, x, 1, 0, parts, 4096);
        const bool has_failed = failing_host_has_failed(&host);
        if (has_failed) {
            assert_int_equal(count, 0);
            assert_null(parts[0]);
            assert_context_fails(kit.ctx, BERTH_ERR_OUT_OF_MEMORY, "split(f32[4096])");
        } else {
            assert_int_equal(count, 4096);
        }
        berth_release_array(parts, count);
        berth_release(x);
        assert_int_equal(kit.ctx->home.live_objects, 0);
        exec_kit_close(&kit);
        if (!has_failed) return;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(named_sizes_cut_a_dimension_into_parts_that_share_the_storage),
        EXEC_KIT_ON_BOTH(chunks_are_as_many_as_the_size_allows),
        EXEC_KIT_ON_BOTH(a_window_of_any_strides_shows_the_storage),
        EXEC_KIT_ON_BOTH(a_window_that_leaves_the_storage_is_refused),
        EXEC_KIT_ON_BOTH(a_shape_that_strides_do_not_allow_is_no_view),
        EXEC_KIT_ON_BOTH(an_expanded_tensor_is_never_changed_in_place),
        EXEC_KIT_ON_BOTH(what_is_not_there_is_refused_by_name),
        EXEC_KIT_ON_BOTH(eight_dimensions_are_the_most),
        cmocka_unit_test(parts_are_made_all_or_none_when_host_memory_fails),
    };
    return cmocka_run_group_tests_name("view parts", tests, NULL, NULL);
}
