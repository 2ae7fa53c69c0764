// SPDX-License-Identifier: Apache-2.0
// Dispatch: moves, the in-place rule with each of its refusals, sticky errors.
#include "exec/exec_kit.h"

static void a_moved_sole_operand_is_worked_on_in_place(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = exec_kit_ramp(ctx, 1, 4);
    const void* place = exec_kit_place(x);
    berth_tensor* y = berth_neg(ctx, berth_move(x));
    assert_ptr_equal(exec_kit_place(y), place);
    exec_kit_expect(y, (float[]){-1, -2, -3, -4}, 4);
    berth_release(y);
}

static void a_borrowed_operand_is_never_touched(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = exec_kit_ramp(ctx, 1, 4);
    berth_tensor* y = berth_neg(ctx, x);
    assert_ptr_not_equal(exec_kit_place(y), exec_kit_place(x));
    exec_kit_expect(x, (float[]){1, 2, 3, 4}, 4);
    berth_release_all(x, y);
}

static void a_moved_operand_that_is_held_elsewhere_is_not_changed(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = exec_kit_ramp(ctx, 1, 3);
    berth_tensor* held = berth_retain(x);
    berth_tensor* y = berth_neg(ctx, berth_move(x));
    exec_kit_expect(held, (float[]){1, 2, 3}, 3);
    exec_kit_expect(y, (float[]){-1, -2, -3}, 3);
    berth_release_all(held, y);
}

static void a_moved_operand_with_a_view_is_not_changed(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = exec_kit_ramp(ctx, 1, 4);
    berth_tensor* view = berth_slice(ctx, x, 0, 1, 3, 1);
    berth_tensor* y = berth_neg(ctx, berth_move(x));
    exec_kit_expect(view, (float[]){2, 3}, 2);
    exec_kit_expect(y, (float[]){-1, -2, -3, -4}, 4);
    berth_release_all(view, y);
}

static void a_moved_operand_that_is_also_borrowed_is_not_changed_while_read(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x =
        berth_reshape(ctx, berth_move(exec_kit_ramp(ctx, 1, 4)), 2, (int64_t[]){2, 2});
    const void* place = exec_kit_place(x);
    // the borrowed operand is the very handle that is moved: its reference is the op's to end
    berth_tensor* y = berth_matmul(ctx, berth_move(x), x);
    assert_ptr_not_equal(exec_kit_place(y), place);
    exec_kit_expect(y, (float[]){7, 10, 15, 22}, 4);
    x = exec_kit_ramp(ctx, 1, 3);
    berth_tensor* z = berth_add(ctx, berth_move(x), x);
    exec_kit_expect(z, (float[]){2, 4, 6}, 3);
    berth_release_all(y, z);
}

static void moving_both_operands_consumes_both(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = exec_kit_ramp(ctx, 1, 3);
    berth_retain(x);
    berth_tensor* y = berth_mul(ctx, berth_move(x), berth_move(x));
    exec_kit_expect(y, (float[]){1, 4, 9}, 3);
    berth_release(y);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void moving_one_reference_twice_is_refused_and_consumed_once(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = exec_kit_ramp(ctx, 1, 3);
    assert_null(berth_mul(ctx, berth_move(x), berth_move(x)));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "operand 1 is moved more often");
    assert_int_equal(ctx->home.live_objects, 0);
}

static void a_broadcast_operand_is_not_taken_in_place(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* row = exec_kit_ramp(ctx, 1, 2);
    berth_tensor* matrix = berth_ones(ctx, BERTH_F32, 2, (int64_t[]){2, 2});
    const void* place = exec_kit_place(matrix);
    berth_tensor* y = berth_add(ctx, berth_move(row), berth_move(matrix));
    assert_ptr_equal(exec_kit_place(y), place); // the second operand has the output's size
    exec_kit_expect(y, (float[]){2, 3, 2, 3}, 4);
    berth_release(y);
}

static void an_operand_that_is_not_dense_is_not_taken_in_place(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x =
        berth_reshape(ctx, berth_move(exec_kit_ramp(ctx, 1, 6)), 2, (int64_t[]){2, 3});
    x = berth_transpose(ctx, berth_move(x), 0, 1);
    const void* place = exec_kit_place(x);
    berth_tensor* y = berth_neg(ctx, berth_move(x));
    assert_ptr_not_equal(exec_kit_place(y), place);
    exec_kit_expect(y, (float[]){-1, -4, -2, -5, -3, -6}, 6);
    berth_release(y);
}

static void foreign_memory_is_never_written_to(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    float data[3] = {1, 2, 3};
    const int64_t dims[1] = {3};
    berth_tensor* x =
        berth_tensor_from_memory(ctx, data, sizeof data, BERTH_F32, 1, dims, false, NULL, NULL);
    berth_tensor* y = berth_neg(ctx, berth_move(x));
    exec_kit_expect(y, (float[]){-1, -2, -3}, 3);
    assert_true(data[0] == 1 && data[1] == 2 && data[2] == 3);
    berth_release(y);
}

static void a_mapped_tensor_is_not_taken_in_place(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = exec_kit_ramp(ctx, 1, 3);
    void* data;
    assert_ok(berth_tensor_map(x, &data));
    berth_storage* storage = x->storage;
    berth_tensor* y = berth_neg(ctx, berth_move(x));
    assert_ptr_not_equal(exec_kit_place(y), data);
    atomic_fetch_sub(&storage->marks, 1);
    berth_release(y);
}

static void an_update_of_a_moved_tensor_happens_in_place(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){4});
    const void* place = exec_kit_place(x);
    berth_tensor* index = berth_arange(ctx, 1, 3, 1, BERTH_I64);
    berth_tensor* rows = exec_kit_ramp(ctx, 7, 2);
    x = berth_index_copy(ctx, berth_move(x), 0, index, rows);
    assert_ptr_equal(exec_kit_place(x), place);
    exec_kit_expect(x, (float[]){0, 7, 8, 0}, 4);
    berth_release_all(x, index, rows);
}

static void an_update_of_a_borrowed_tensor_changes_a_copy(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){3});
    berth_tensor* index = berth_arange(ctx, 2, 3, 1, BERTH_I32);
    berth_tensor* rows = exec_kit_ramp(ctx, 5, 1);
    berth_tensor* y = berth_index_copy(ctx, x, 0, index, rows);
    exec_kit_expect(x, (float[]){0, 0, 0}, 3);
    exec_kit_expect(y, (float[]){0, 0, 5}, 3);
    berth_release_all(x, y, index, rows);
}

static void the_first_error_sticks_and_the_chain_returns_null(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* a = exec_kit_ramp(ctx, 0, 2);
    berth_tensor* b = exec_kit_ramp(ctx, 0, 3);
    berth_tensor* c = berth_add(ctx, a, b);
    assert_null(c);
    assert_null(berth_neg(ctx, c));
    assert_null(berth_neg(ctx, a));
    assert_null(berth_slice(ctx, a, 5, 0, 1, 1));
    assert_null(berth_empty(ctx, BERTH_F32, 1, (int64_t[]){1}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "add(f32[2], f32[3])");
    berth_tensor* d = berth_neg(ctx, a);
    assert_non_null(d);
    berth_release_all(a, b, d);
}

static void a_moved_operand_is_consumed_although_an_error_sticks(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* a = exec_kit_ramp(ctx, 0, 2);
    assert_null(berth_neg(ctx, NULL));
    assert_null(berth_neg(ctx, berth_move(a)));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "operand 0 is NULL");
    berth_tensor* views[2] = {exec_kit_ramp(ctx, 0, 2), exec_kit_ramp(ctx, 0, 2)};
    assert_null(berth_slice(ctx, berth_move(views[0]), 3, 0, 1, 1));
    assert_null(berth_reshape(ctx, berth_move(views[1]), 1, (int64_t[]){5}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "slice(f32[2])");
    assert_int_equal(ctx->home.live_objects, 0);
}

static void absurd_shapes_are_refused_by_name(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    assert_null(berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){INT64_MAX, 2}));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "zeros");
    assert_null(berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){-1}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "negative");
    assert_null(berth_zeros(ctx, BERTH_F32, 9, (int64_t[9]){0}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "rank 9");
    assert_null(berth_zeros(ctx, BERTH_Q4_0, 1, (int64_t[]){32}));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "q4_0");
    assert_null(berth_zeros(ctx, (berth_dtype)99, 1, (int64_t[]){32}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "99");
    assert_null(berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){INT64_MAX / 8}));
    assert_context_fails(ctx, BERTH_ERR_OUT_OF_MEMORY, "full of f32[1152921504606846975]: ");
    assert_null(berth_arange(ctx, 0, 1, 0, BERTH_F32));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "arange");
    berth_tensor* ok = berth_zeros(ctx, BERTH_F32, 3, (int64_t[]){0, INT32_MAX, 2});
    assert_non_null(ok);
    assert_int_equal(berth_tensor_bytes(ok), 0);
    berth_release(ok);
}

static void zero_sized_tensors_go_through_every_kind_of_op(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){0, 4});
    berth_tensor* w = berth_ones(ctx, BERTH_F32, 2, (int64_t[]){3, 4});
    berth_tensor* y = berth_linear(ctx, x, w, NULL);
    berth_tensor* s = berth_sum(ctx, y, BERTH_DIMS(0), false);
    assert_context_ok(ctx);
    exec_kit_expect(s, (float[]){0, 0, 0}, 3);
    berth_tensor* c = berth_cat(ctx, (berth_tensor* const[]){x, w}, 2, 0);
    assert_int_equal(berth_tensor_dim(c, 0), 3);
    berth_release_all(x, w, y, s, c);
}

static void tensors_of_two_runtimes_do_not_mix(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    exec_kit other;
    assert_ok(exec_kit_open(&other, NULL, NULL, 0));
    berth_tensor* a = exec_kit_ramp(ctx, 0, 2);
    berth_tensor* b = exec_kit_ramp(other.ctx, 0, 2);
    assert_null(berth_add(ctx, a, b));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "another runtime");
    berth_release_all(a, b);
    exec_kit_close(&other);
}

static int deleted_count;
static void count_deletion(void* self, void* data) {
    assert_ptr_equal(self, &deleted_count);
    assert_non_null(data);
    ++deleted_count;
}

static void a_deleter_is_called_once_when_the_last_view_goes(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    static float data[4] = {1, 2, 3, 4};
    const int64_t dims[1] = {4};
    deleted_count = 0;
    berth_tensor* x = berth_tensor_from_memory(
        ctx, data, sizeof data, BERTH_F32, 1, dims, true, count_deletion, &deleted_count);
    assert_int_equal(berth_tensor_write(x, data, sizeof data), BERTH_ERR_UNSUPPORTED);
    berth_tensor* view = berth_slice(ctx, x, 0, 1, 2, 1);
    berth_release(x);
    assert_int_equal(deleted_count, 0);
    exec_kit_expect(view, (float[]){2}, 1);
    berth_release(view);
    assert_int_equal(deleted_count, 1);
    assert_null(berth_tensor_from_memory(
        ctx, data, 8, BERTH_F32, 1, dims, true, count_deletion, &deleted_count));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "16 bytes");
    assert_int_equal(deleted_count, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_moved_sole_operand_is_worked_on_in_place),
        cmocka_unit_test(a_borrowed_operand_is_never_touched),
        cmocka_unit_test(a_moved_operand_that_is_held_elsewhere_is_not_changed),
        cmocka_unit_test(a_moved_operand_with_a_view_is_not_changed),
        cmocka_unit_test(a_moved_operand_that_is_also_borrowed_is_not_changed_while_read),
        cmocka_unit_test(moving_both_operands_consumes_both),
        cmocka_unit_test(moving_one_reference_twice_is_refused_and_consumed_once),
        cmocka_unit_test(a_broadcast_operand_is_not_taken_in_place),
        cmocka_unit_test(an_operand_that_is_not_dense_is_not_taken_in_place),
        cmocka_unit_test(foreign_memory_is_never_written_to),
        cmocka_unit_test(a_mapped_tensor_is_not_taken_in_place),
        cmocka_unit_test(an_update_of_a_moved_tensor_happens_in_place),
        cmocka_unit_test(an_update_of_a_borrowed_tensor_changes_a_copy),
        cmocka_unit_test(the_first_error_sticks_and_the_chain_returns_null),
        cmocka_unit_test(a_moved_operand_is_consumed_although_an_error_sticks),
        cmocka_unit_test(absurd_shapes_are_refused_by_name),
        cmocka_unit_test(zero_sized_tensors_go_through_every_kind_of_op),
        cmocka_unit_test(tensors_of_two_runtimes_do_not_mix),
        cmocka_unit_test(a_deleter_is_called_once_when_the_last_view_goes),
    };
    return cmocka_run_group_tests(tests, exec_kit_set_up_cpu, exec_kit_tear_down);
}
