// SPDX-License-Identifier: Apache-2.0
// Sorting and selecting through the public ops: shapes, order, scalars, nothing, refusals,
// failures.
#include <math.h>

#include "exec/exec_kit.h"

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

static berth_tensor* make(berth_context* ctx, const float* values, int64_t rows, int64_t columns) {
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){rows, columns});
    assert_ok(berth_tensor_write(x, values, (uint64_t)(rows * columns) * sizeof *values));
    return x;
}

static berth_tensor* make_mask(berth_context* ctx, const uint8_t* values, int64_t count) {
    berth_tensor* mask = berth_zeros(ctx, BERTH_BOOL, 1, (int64_t[]){count});
    assert_ok(berth_tensor_write(mask, values, (uint64_t)count));
    return mask;
}

/// Fails unless `x` is an i64 tensor of these dimensions and elements.
static void expect_whole(berth_tensor* x,
                         int32_t rank,
                         const int64_t* dims,
                         const int64_t* expected) {
    int64_t values[64];
    assert_non_null(x);
    assert_int_equal(berth_tensor_dtype(x), BERTH_I64);
    assert_int_equal(berth_tensor_rank(x), rank);
    for (int32_t d = 0; d < rank; ++d)
        assert_int_equal(berth_tensor_dim(x, d), dims[d]);
    assert_true(berth_tensor_bytes(x) <= sizeof values);
    assert_ok(berth_tensor_read(x, values, berth_tensor_bytes(x)));
    for (int64_t i = 0; i < berth_tensor_count(x); ++i)
        assert_int_equal(values[i], expected[i]);
}

static void expect_nothing_left(berth_context* ctx) {
    assert_context_ok(ctx);
    assert_int_equal(ctx->home.live_objects, 0);
}

// --- Sorting -------------------------------------------------------------------------------------

static void sorting_gives_values_and_where_they_were(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, (float[]){3, 1, 2, 1, 5, 4}, 2, 3);
    berth_tensor* at = NULL;
    berth_tensor* y = berth_sort(ctx, x, -1, false, &at);
    exec_kit_expect(y, (float[]){1, 2, 3, 1, 4, 5}, 6);
    expect_whole(at, 2, (int64_t[]){2, 3}, (int64_t[]){1, 2, 0, 0, 2, 1});
    berth_release_all(y, at);
    y = berth_sort(ctx, x, 0, true, &at);
    exec_kit_expect(y, (float[]){3, 5, 4, 1, 1, 2}, 6);
    expect_whole(at, 2, (int64_t[]){2, 3}, (int64_t[]){0, 1, 1, 1, 0, 0});
    berth_release_all(y, at);
    y = berth_sort(ctx, x, 1, true, NULL);
    exec_kit_expect(y, (float[]){3, 2, 1, 5, 4, 1}, 6);
    at = berth_argsort(ctx, x, 1, true);
    expect_whole(at, 2, (int64_t[]){2, 3}, (int64_t[]){0, 2, 1, 1, 2, 0});
    berth_release_all(x, y, at);
    expect_nothing_left(ctx);
}

static void equal_elements_keep_their_order_and_nan_is_the_largest(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, (float[]){0.0f, NAN, -0.0f, INFINITY, 0.0f, -INFINITY}, 1, 6);
    berth_tensor* at = NULL;
    berth_tensor* y = berth_sort(ctx, x, 1, false, &at);
    expect_whole(at, 2, (int64_t[]){1, 6}, (int64_t[]){5, 0, 2, 4, 3, 1});
    exec_kit_expect(y, (float[]){-INFINITY, 0.0f, -0.0f, 0.0f, INFINITY, NAN}, 6);
    berth_release_all(y, at);
    y = berth_sort(ctx, x, 1, true, NULL);
    exec_kit_expect(y, (float[]){NAN, INFINITY, 0.0f, -0.0f, 0.0f, -INFINITY}, 6);
    berth_release(y);
    y = berth_topk(ctx, berth_move(x), 3, -1, true, &at);
    exec_kit_expect(y, (float[]){NAN, INFINITY, 0.0f}, 3);
    expect_whole(at, 2, (int64_t[]){1, 3}, (int64_t[]){1, 3, 0});
    berth_release_all(y, at);
    expect_nothing_left(ctx);
}

static void the_first_few_are_sorted(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, (float[]){3, 1, 2, 1, 5, 4}, 2, 3);
    berth_tensor* at = NULL;
    berth_tensor* y = berth_topk(ctx, x, 2, 1, true, &at);
    exec_kit_expect(y, (float[]){3, 2, 5, 4}, 4);
    expect_whole(at, 2, (int64_t[]){2, 2}, (int64_t[]){0, 2, 1, 2});
    berth_release_all(y, at);
    y = berth_topk(ctx, x, 1, -2, false, NULL);
    exec_kit_expect(y, (float[]){1, 1, 2}, 3);
    assert_int_equal(berth_tensor_dim(y, 0), 1);
    berth_release(y);
    y = berth_topk(ctx, x, 0, 1, true, &at);
    expect_whole(at, 2, (int64_t[]){2, 0}, NULL);
    assert_int_equal(berth_tensor_dim(y, 1), 0);
    berth_release_all(x, y, at);
    expect_nothing_left(ctx);
}

static void views_are_sorted_as_they_are_seen(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, (float[]){3, 1, 2, 1, 5, 4}, 2, 3);
    berth_tensor* turned = berth_transpose(ctx, x, 0, 1);
    berth_tensor* y = berth_sort(ctx, turned, 0, false, NULL);
    exec_kit_expect(y, (float[]){1, 1, 2, 4, 3, 5}, 6);
    exec_kit_expect(x, (float[]){3, 1, 2, 1, 5, 4}, 6); // what was borrowed stays
    berth_release_all(x, turned, y);
    expect_nothing_left(ctx);
}

static void scalars_and_nothing_are_sorted_too(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* one = berth_full(ctx, 7, BERTH_F32, 0, NULL);
    berth_tensor* none = berth_zeros(ctx, BERTH_I8, 2, (int64_t[]){3, 0});
    berth_tensor* at = NULL;
    for (int32_t dim = -1; dim <= 0; ++dim) {
        berth_tensor* y = berth_sort(ctx, one, dim, true, &at);
        exec_kit_expect(y, (float[]){7}, 1);
        expect_whole(at, 0, NULL, (int64_t[]){0});
        berth_release_all(y, at);
        y = berth_topk(ctx, one, 1, dim, true, NULL);
        exec_kit_expect(y, (float[]){7}, 1);
        berth_release(y);
    }
    assert_null(berth_topk(ctx, one, 0, 0, true, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "k of a scalar must be 1");
    for (int32_t dim = 0; dim < 2; ++dim) {
        berth_tensor* y = berth_sort(ctx, none, dim, false, &at);
        expect_whole(at, 2, (int64_t[]){3, 0}, NULL);
        assert_int_equal(berth_tensor_dtype(y), BERTH_I8);
        berth_release_all(y, at);
    }
    berth_release_all(one, none);
    expect_nothing_left(ctx);
}

static void a_moved_operand_is_consumed_and_not_written_to(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, (float[]){2, 1}, 1, 2);
    const void* place = exec_kit_place(x);
    berth_tensor* y = berth_sort(ctx, berth_move(x), 1, false, NULL);
    assert_ptr_not_equal(exec_kit_place(y), place);
    exec_kit_expect(y, (float[]){1, 2}, 2);
    berth_tensor* inverse;
    y = berth_unique(ctx, berth_move(y), &inverse, NULL);
    berth_tensor* indices = berth_nonzero(ctx, berth_move(inverse));
    y = berth_masked_select(ctx, berth_move(y), berth_move(make_mask(ctx, (uint8_t[]){0, 1}, 2)));
    exec_kit_expect(y, (float[]){2}, 1);
    expect_whole(indices, 2, (int64_t[]){1, 2}, (int64_t[]){0, 1});
    berth_release_all(y, indices);
    expect_nothing_left(ctx);
}

// --- Selecting -----------------------------------------------------------------------------------

static void nonzero_gives_a_row_of_indices_for_each(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, (float[]){0, 1, -0.0f, NAN, 0, -2}, 2, 3);
    berth_tensor* at = berth_nonzero(ctx, x);
    expect_whole(at, 2, (int64_t[]){3, 2}, (int64_t[]){0, 1, 1, 0, 1, 2});
    berth_release_all(x, at);
    x = berth_zeros(ctx, BERTH_U8, 3, (int64_t[]){2, 2, 2});
    at = berth_nonzero(ctx, berth_move(x));
    expect_whole(at, 2, (int64_t[]){0, 3}, NULL);
    berth_release(at);
    for (int value = 0; value < 2; ++value) {
        x = berth_full(ctx, value, BERTH_I64, 0, NULL);
        at = berth_nonzero(ctx, berth_move(x));
        expect_whole(at, 2, (int64_t[]){value, 0}, NULL);
        berth_release(at);
    }
    expect_nothing_left(ctx);
}

static void a_mask_and_what_it_selects_from_broadcast_with_each_other(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, (float[]){1, 2, 3, 4, 5, 6}, 2, 3);
    berth_tensor* mask = make_mask(ctx, (uint8_t[]){1, 0, 1}, 3);
    berth_tensor* y = berth_masked_select(ctx, x, mask);
    exec_kit_expect(y, (float[]){1, 3, 4, 6}, 4);
    assert_int_equal(berth_tensor_rank(y), 1);
    berth_release(y);
    berth_tensor* row = berth_slice(ctx, x, 0, 0, 1, 1);
    berth_tensor* column = berth_reshape(ctx, mask, 2, (int64_t[]){3, 1});
    y = berth_masked_select(ctx, row, column);
    exec_kit_expect(y, (float[]){1, 2, 3, 1, 2, 3}, 6);
    berth_release_all(y, row, column);
    berth_tensor* one = berth_ones(ctx, BERTH_BOOL, 0, NULL);
    y = berth_masked_select(ctx, x, one);
    exec_kit_expect(y, (float[]){1, 2, 3, 4, 5, 6}, 6);
    berth_release_all(x, mask, one, y);
    expect_nothing_left(ctx);
}

static void unique_gives_values_their_places_and_how_often(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, (float[]){3, -0.0f, 3, 0, NAN, NAN}, 2, 3);
    berth_tensor *inverse, *counts;
    berth_tensor* y = berth_unique(ctx, x, &inverse, &counts);
    exec_kit_expect(y, (float[]){-0.0f, 3, NAN, NAN}, 4);
    expect_whole(inverse, 2, (int64_t[]){2, 3}, (int64_t[]){1, 0, 1, 0, 2, 3});
    expect_whole(counts, 1, (int64_t[]){4}, (int64_t[]){2, 2, 1, 1});
    berth_release_all(y, inverse, counts);
    y = berth_unique(ctx, x, NULL, &counts);
    expect_whole(counts, 1, (int64_t[]){4}, (int64_t[]){2, 2, 1, 1});
    berth_release_all(y, counts);
    y = berth_unique(ctx, x, &inverse, NULL);
    expect_whole(inverse, 2, (int64_t[]){2, 3}, (int64_t[]){1, 0, 1, 0, 2, 3});
    berth_release_all(y, inverse, x);
    x = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){0, 3});
    y = berth_unique(ctx, berth_move(x), &inverse, &counts);
    expect_whole(inverse, 2, (int64_t[]){0, 3}, NULL);
    expect_whole(counts, 1, (int64_t[]){0}, NULL);
    exec_kit_expect(y, NULL, 0);
    berth_release_all(y, inverse, counts);
    expect_nothing_left(ctx);
}

// --- Refusals ------------------------------------------------------------------------------------

static void what_makes_no_sense_is_refused_by_name(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){2, 3});
    berth_tensor* mask = berth_zeros(ctx, BERTH_BOOL, 1, (int64_t[]){4});
    berth_tensor* at = x; // an error must clear it
    assert_null(berth_sort(ctx, x, 2, false, &at));
    assert_null(at);
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "sort(f32[2, 3]): there is no dimension 2");
    assert_null(berth_argsort(ctx, x, -3, false));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "argsort(f32[2, 3]): there is no dimension -3");
    static const int64_t counts[] = {4, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
        char text[64];
        snprintf(text, sizeof text, "k is %lld, of 3 elements", (long long)counts[i]);
        at = x;
        assert_null(berth_topk(ctx, x, counts[i], 1, true, &at));
        assert_null(at);
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, text);
    }
    assert_null(berth_masked_select(ctx, x, mask));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "masked_select(f32[2, 3], bool[4]): the shapes");
    assert_null(berth_masked_select(ctx, mask, x));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "f32 is not accepted here: mask must be bool");
    berth_release_all(x, mask);
    expect_nothing_left(ctx);
}

static void a_selection_from_too_much_is_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* none = berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){1});
    berth_tensor* x = berth_expand(ctx, none, 2, (int64_t[]){INT64_C(1) << 40, 1});
    berth_tensor* one = berth_ones(ctx, BERTH_BOOL, 1, (int64_t[]){1});
    berth_tensor* mask = berth_expand(ctx, one, 1, (int64_t[]){INT64_C(1) << 40});
    assert_context_ok(ctx);
    assert_null(berth_masked_select(ctx, x, mask));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "masked_select");
    assert_null(berth_sort(ctx, x, 0, false, NULL));
    assert_context_fails(ctx, BERTH_ERR_OUT_OF_MEMORY, "sort");
    // the workspace of these does not fit 64 bits
    berth_tensor* bits = berth_expand(ctx, one, 1, (int64_t[]){INT64_C(1) << 60});
    assert_null(berth_unique(ctx, bits, NULL, NULL));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "unique");
    assert_null(berth_argsort(ctx, bits, 0, false));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "argsort");
    berth_release(bits);
    berth_release_all(none, x, one, mask);
    expect_nothing_left(ctx);
}

static void quantised_tensors_and_null_are_refused_and_consumed(void** state) {
    berth_context* ctx = context_of(state);
    static unsigned char block[18];
    berth_tensor* q = berth_tensor_from_memory(
        ctx, block, sizeof block, BERTH_Q4_0, 1, (int64_t[]){32}, true, NULL, NULL);
    berth_tensor* mask = berth_ones(ctx, BERTH_BOOL, 1, (int64_t[]){32});
    berth_tensor *at = q, *counts = q;
    assert_null(berth_sort(ctx, q, 0, false, &at));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "q4_0 is not accepted here: any plain type");
    assert_null(berth_topk(ctx, q, 1, 0, false, NULL));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "topk(q4_0[32])");
    assert_null(berth_argsort(ctx, q, 0, false));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "argsort(q4_0[32])");
    assert_null(berth_nonzero(ctx, q));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "nonzero(q4_0[32])");
    assert_null(berth_masked_select(ctx, q, mask));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "masked_select(q4_0[32], bool[32])");
    assert_null(berth_unique(ctx, berth_move(q), &at, &counts));
    assert_null(at);
    assert_null(counts);
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "unique(q4_0[32])");

    assert_null(berth_masked_select(ctx, NULL, berth_move(mask)));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "masked_select: operand 0 is NULL");
    assert_null(berth_sort(ctx, NULL, 0, false, &at));
    assert_null(berth_argsort(ctx, NULL, 0, false)); // the first error sticks
    assert_null(berth_topk(ctx, NULL, 0, 0, false, &at));
    assert_null(berth_nonzero(ctx, NULL));
    assert_null(berth_unique(ctx, NULL, &at, &counts));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "sort: operand 0 is NULL");
    assert_null(berth_sort(NULL, NULL, 0, false, &at));
    assert_null(berth_unique(NULL, NULL, &at, &counts));
    expect_nothing_left(ctx);
}

// --- Failures ------------------------------------------------------------------------------------

/// Each op once; all that comes out is released. True if nothing failed.
static bool run_each_op(berth_context* ctx) {
    berth_tensor *at = NULL, *inverse = NULL, *counts = NULL;
    berth_tensor* x = exec_kit_ramp(ctx, -2, 200);
    berth_tensor* sorted = berth_sort(ctx, x, 0, true, &at);
    berth_tensor* order = berth_argsort(ctx, x, 0, false);
    berth_tensor* first = berth_topk(ctx, x, 5, 0, true, NULL);
    berth_tensor* indices = berth_nonzero(ctx, x);
    berth_tensor* mask = berth_cast(ctx, x, BERTH_BOOL);
    berth_tensor* selected = berth_masked_select(ctx, x, mask);
    berth_tensor* distinct = berth_unique(ctx, x, &inverse, &counts);
    const bool is_well = berth_context_error(ctx) == BERTH_OK;
    if (is_well) {
        assert_int_equal(berth_tensor_dim(indices, 0), 199);
        assert_int_equal(berth_tensor_dim(selected, 0), 199);
        assert_int_equal(berth_tensor_dim(distinct, 0), 200);
    } else {
        assert_null(distinct);
        assert_null(inverse);
        assert_null(counts);
    }
    berth_release_all(x, sorted, at, order, first, indices, mask, selected, distinct);
    berth_release_all(inverse, counts);
    berth_context_clear_error(ctx);
    return is_well;
}

static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    static const char* const devices[] = {"cpu", "sim"};
    for (size_t d = 0; d < 2; ++d) {
        const berth_option_setting settings[] = {{"device", devices[d]}, {"threads", "1"}};
        size_t faults = 0;
        for (bool goes_well = false; !goes_well; ++faults) {
            failing_host host;
            failing_host_init(&host);
            exec_kit kit;
            assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
            failing_host_fail(&host, faults + 1, false);
            (void)run_each_op(kit.ctx);
            goes_well = !failing_host_has_failed(&host);
            failing_host_fail(&host, 0, false);
            assert_int_equal(kit.ctx->home.live_objects, 0);
            assert_true(run_each_op(kit.ctx));
            exec_kit_close(&kit);
            assert_int_equal(atomic_load(&host.live_blocks), 0);
        }
        assert_true(faults > 3);
    }
}

static void the_device_may_fail_at_any_call(void** state) {
    (void)state;
    const berth_option_setting settings[] = {{"device", "sim"}, {"threads", "1"}, {"log", "off"}};
    for (uint64_t nth = 1, failed = 0;; ++nth) {
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, NULL, settings, 3));
        berth_device* device = kit.runtime->device;
        const uint64_t before = berth_sim_query_all_calls(device);
        berth_sim_fail_any(device, nth);
        failed += run_each_op(kit.ctx) ? 0 : 1;
        const bool is_over = berth_sim_query_all_calls(device) - before < nth;
        berth_sim_fail_any(device, 0);
        assert_int_equal(kit.ctx->home.live_objects, 0);
        assert_true(run_each_op(kit.ctx));
        exec_kit_close(&kit);
        if (!is_over) continue;
        assert_true(failed > 10);
        break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(sorting_gives_values_and_where_they_were),
        EXEC_KIT_ON_BOTH(equal_elements_keep_their_order_and_nan_is_the_largest),
        EXEC_KIT_ON_BOTH(the_first_few_are_sorted),
        EXEC_KIT_ON_BOTH(views_are_sorted_as_they_are_seen),
        EXEC_KIT_ON_BOTH(scalars_and_nothing_are_sorted_too),
        EXEC_KIT_ON_BOTH(a_moved_operand_is_consumed_and_not_written_to),
        EXEC_KIT_ON_BOTH(nonzero_gives_a_row_of_indices_for_each),
        EXEC_KIT_ON_BOTH(a_mask_and_what_it_selects_from_broadcast_with_each_other),
        EXEC_KIT_ON_BOTH(unique_gives_values_their_places_and_how_often),
        EXEC_KIT_ON_BOTH(what_makes_no_sense_is_refused_by_name),
        EXEC_KIT_ON_BOTH(a_selection_from_too_much_is_refused),
        EXEC_KIT_ON_BOTH(quantised_tensors_and_null_are_refused_and_consumed),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
        cmocka_unit_test(the_device_may_fail_at_any_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
