// SPDX-License-Identifier: Apache-2.0
// What a tensor says of itself: its window, its storage, where its bytes are.
#include "exec/exec_kit.h"

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

static berth_tensor_properties info_of(const berth_tensor* tensor) {
    berth_tensor_properties p;
    assert_ok(berth_tensor_info(tensor, &p));
    return p;
}

static void a_tensor_describes_its_window(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_zeros(ctx, BERTH_F16, 3, (int64_t[]){2, 3, 5});
    berth_tensor* y = berth_slice(ctx, x, 1, 1, 3, 1);
    const berth_tensor_properties p = info_of(y);
    assert_int_equal(p.dtype, BERTH_F16);
    assert_int_equal(p.rank, 3);
    assert_memory_equal(p.dims, ((int64_t[BERTH_MAX_RANK]){2, 2, 5}), sizeof p.dims);
    assert_memory_equal(p.strides, ((int64_t[BERTH_MAX_RANK]){15, 5, 1}), sizeof p.strides);
    assert_int_equal(p.count, 20);
    assert_int_equal(p.bytes, 40);
    assert_int_equal(p.storage_bytes, 60);
    assert_int_equal(p.offset_bytes, 10);
    assert_false(p.is_contiguous);
    assert_true(info_of(x).is_contiguous);
    berth_release_all(x, y);
}

static void references_are_counted(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    assert_int_equal(info_of(x).references, 1);
    assert_int_equal(info_of(x).storage_tensors, 1);
    berth_retain(x);
    berth_tensor* y = berth_slice(ctx, x, 0, 0, 2, 1);
    assert_int_equal(info_of(x).references, 2);
    assert_int_equal(info_of(y).references, 1);
    assert_int_equal(info_of(x).storage_tensors, 2);
    berth_release(x);
    berth_release(y);
    assert_int_equal(info_of(x).storage_tensors, 1);
    berth_release(x);
}

static void a_mapped_tensor_is_pinned_until_it_is_unmapped(void** state) {
    berth_context* ctx = context_of(state);
    exec_kit_need_host_access(ctx);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    void* data;
    assert_false(info_of(x).is_pinned);
    assert_ok(berth_tensor_map(x, &data));
    assert_true(info_of(x).is_pinned);
    assert_false(info_of(x).is_shared);
    berth_tensor_unmap(x);
    assert_false(info_of(x).is_pinned);
    berth_release(x);
}

static void a_tensor_that_another_context_used_is_shared(void** state) {
    berth_context* ctx = context_of(state);
    berth_context* other;
    assert_ok(berth_context_create(berth_context_runtime(ctx), &other));
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    berth_tensor* y = berth_neg(other, x);
    assert_true(info_of(x).is_shared);
    assert_false(info_of(x).is_pinned);
    assert_false(info_of(y).is_shared);
    berth_release_all(x, y);
    berth_context_release(other);
}

static void foreign_memory_says_so(void** state) {
    berth_context* ctx = context_of(state);
    exec_kit_need_host_access(ctx);
    float values[4] = {0};
    berth_tensor* x = berth_tensor_from_memory(
        ctx, values, sizeof values, BERTH_F32, 1, (int64_t[]){4}, true, NULL, NULL);
    assert_int_equal(info_of(x).residence, BERTH_RESIDENCE_FOREIGN);
    assert_true(info_of(x).is_read_only);
    berth_release(x);
    x = exec_kit_ramp(ctx, 0, 4);
    assert_int_equal(info_of(x).residence, BERTH_RESIDENCE_POOL);
    assert_false(info_of(x).is_read_only);
    berth_release(x);
}

static void a_planned_value_is_in_the_frame_and_leaves_it_with_the_step(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* kept = NULL;
    bool was_in_frame = false;
    for (int64_t i = 0; i < 6; ++i) {
        berth_release(kept);
        assert_ok(exec_kit_begin(ctx, "planned", 100 + i));
        berth_tensor* x = exec_kit_ramp(ctx, 0, 100 + i);
        kept = berth_neg(ctx, x);
        was_in_frame |= info_of(x).residence == BERTH_RESIDENCE_FRAME;
        berth_release(x);
        assert_ok(berth_step_end(ctx));
    }
    assert_true(was_in_frame);
    assert_int_equal(info_of(kept).residence, BERTH_RESIDENCE_POOL);
    berth_release(kept);
}

static void a_mapped_value_is_held_where_its_frame_was(void** state) {
    berth_context* ctx = context_of(state);
    exec_kit_need_host_access(ctx);
    const int64_t last = 6;
    for (int64_t i = 0; i <= last; ++i) {
        void* data;
        assert_ok(exec_kit_begin(ctx, "mapped", 100 + i));
        berth_tensor* x = exec_kit_ramp(ctx, 0, 100 + i);
        if (i == last) {
            // so far it died inside the step, so the plan does not expect that it escapes
            assert_int_equal(info_of(x).residence, BERTH_RESIDENCE_FRAME);
            assert_ok(berth_tensor_map(x, &data));
            assert_ok(berth_step_end(ctx));
            assert_int_equal(info_of(x).residence, BERTH_RESIDENCE_HELD);
            berth_tensor_unmap(x);
            berth_release(x);
        } else {
            berth_release(x);
            assert_ok(berth_step_end(ctx));
        }
    }
}

static void the_line_names_everything(void** state) {
    berth_context* ctx = context_of(state);
    exec_kit_need_host_access(ctx);
    int32_t values[6] = {0};
    char line[256];
    size_t needed;
    berth_tensor* x = berth_tensor_from_memory(
        ctx, values, sizeof values, BERTH_I32, 2, (int64_t[]){2, 3}, true, NULL, NULL);
    berth_tensor* y = berth_slice(ctx, x, 1, 1, 3, 1);
    void* data;
    assert_ok(berth_tensor_map(y, &data));
    assert_ok(berth_tensor_format_info(y, line, sizeof line, &needed));
    assert_string_equal(line,
                        "i32[2, 2] strides [3, 1], 16 bytes at 4 of 24 in foreign memory, not "
                        "contiguous, read-only, pinned, references 1, tensors on the storage 2");
    assert_int_equal(needed, strlen(line));
    assert_ok(berth_tensor_format_info(y, line, 8, NULL));
    assert_string_equal(line, "i32[2, ");
    berth_tensor_unmap(y);
    berth_release_all(x, y);
    x = berth_ones(ctx, BERTH_F32, 0, NULL);
    assert_ok(berth_tensor_format_info(x, line, sizeof line, &needed));
    assert_string_equal(line,
                        "f32[] strides [], 4 bytes at 0 of 4 in the pool, references 1, tensors on "
                        "the storage 1");
    berth_release(x);
}

static void null_is_an_error(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    berth_tensor_properties p = {.rank = 3};
    size_t needed = 1;
    assert_fails(berth_tensor_info(NULL, &p), BERTH_ERR_INVALID_ARGUMENT, "the tensor is NULL");
    assert_int_equal(p.rank, 0);
    assert_fails(berth_tensor_info(x, NULL), BERTH_ERR_INVALID_ARGUMENT, "a place");
    assert_fails(berth_tensor_format_info(NULL, NULL, 0, &needed),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "the tensor is NULL");
    assert_int_equal(needed, 0);
    assert_fails(berth_tensor_format_info(x, NULL, 9, &needed),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "the buffer is NULL");
    berth_release(x);
}

static void every_residence_has_a_text(void** state) {
    (void)state;
    assert_string_equal(berth_residence_text(BERTH_RESIDENCE_HELD), "held from a step's frame");
    assert_string_equal(berth_residence_text(BERTH_RESIDENCE_COUNT), "nowhere");
    assert_string_equal(berth_residence_text((berth_residence)-1), "nowhere");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(a_tensor_describes_its_window),
        EXEC_KIT_ON_BOTH(references_are_counted),
        EXEC_KIT_ON_BOTH(a_mapped_tensor_is_pinned_until_it_is_unmapped),
        EXEC_KIT_ON_BOTH(a_tensor_that_another_context_used_is_shared),
        EXEC_KIT_ON_BOTH(foreign_memory_says_so),
        EXEC_KIT_ON_BOTH(a_planned_value_is_in_the_frame_and_leaves_it_with_the_step),
        EXEC_KIT_ON_BOTH(a_mapped_value_is_held_where_its_frame_was),
        EXEC_KIT_ON_BOTH(the_line_names_everything),
        EXEC_KIT_ON_BOTH(null_is_an_error),
        cmocka_unit_test(every_residence_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
