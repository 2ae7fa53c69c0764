// SPDX-License-Identifier: Apache-2.0
// A device whose memory the host cannot reach, simulated: whoever takes it for the host's crashes.
#include <dlpack/dlpack.h>
#include <stdlib.h>

#include "berth/dlpack.h"
#include "exec_kit.h"

static int set_up(void** state) { return exec_kit_set_up(state, "hidden"); }

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

static void count_deletion(void* self, void* data) {
    (void)data;
    ++*(int*)self;
}

// --- In -----------------------------------------------------------------------------------------

static void memory_of_the_host_is_copied_and_given_back_at_once(void** state) {
    berth_context* ctx = context_of(state);
    float data[6] = {0, 1, 2, 3, 4, 5};
    int deletions = 0;
    berth_tensor* x = berth_tensor_from_memory(
        ctx, data, sizeof data, BERTH_F32, 2, (int64_t[]){2, 3}, false, count_deletion, &deletions);
    assert_context_ok(ctx);
    assert_int_equal(deletions, 1);
    data[0] = 9; // not seen any more
    exec_kit_expect(x, (float[]){0, 1, 2, 3, 4, 5}, 6);
    assert_ok(berth_tensor_write(x, (float[]){5, 4, 3, 2, 1, 0}, 24));
    assert_true(data[5] == 5);
    berth_tensor* y = berth_neg(ctx, berth_move(x));
    assert_ptr_equal(y, x); // it was Berth's own memory
    exec_kit_expect(y, (float[]){-5, -4, -3, -2, -1, -0.0f}, 6);
    berth_release(y);
    assert_int_equal(deletions, 1);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void what_came_in_read_only_is_not_written_to(void** state) {
    berth_context* ctx = context_of(state);
    for (int in_step = 0; in_step < 8; ++in_step) {
        if (in_step > 0) assert_ok(exec_kit_begin(ctx, "read-only", 4));
        berth_tensor* x = berth_tensor_from_memory(
            ctx, (float[]){1, 2}, 8, BERTH_F32, 1, (int64_t[]){2}, true, NULL, NULL);
        assert_fails(berth_tensor_write(x, (float[]){0, 0}, 8), BERTH_ERR_UNSUPPORTED, "read-only");
        berth_tensor* y = berth_neg(ctx, berth_move(x));
        assert_ptr_not_equal(y, x);
        exec_kit_expect(y, (float[]){-1, -2}, 2);
        if (in_step > 0) assert_ok(berth_step_end(ctx));
        // the storage's object serves again, and is a writable one
        berth_tensor* z = exec_kit_ramp(ctx, 0, 2);
        assert_ok(berth_tensor_write(z, (float[]){7, 8}, 8));
        exec_kit_expect(z, (float[]){7, 8}, 2);
        berth_release_all(y, z);
    }
}

static void what_cannot_come_in_stays_the_owners(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    float data[4] = {0};
    int deletions = 0;
    assert_null(berth_tensor_from_memory(
        ctx, data, 15, BERTH_F32, 1, (int64_t[]){4}, false, count_deletion, &deletions));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "the memory has 15");
    assert_null(berth_tensor_from_memory(
        ctx, NULL, 16, BERTH_F32, 1, (int64_t[]){4}, false, count_deletion, &deletions));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "NULL");
    const berth_sim_call calls[] = {BERTH_SIM_COPY, BERTH_SIM_WAIT, BERTH_SIM_MAP};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        assert_ok(berth_trim(kit->runtime, 0, NULL));
        berth_sim_fail(kit->runtime->device, calls[i], 1);
        assert_null(berth_tensor_from_memory(
            ctx, data, 16, BERTH_F32, 1, (int64_t[]){4}, false, count_deletion, &deletions));
        assert_int_not_equal(berth_context_error(ctx), BERTH_OK);
        berth_context_clear_error(ctx);
        assert_int_equal(ctx->home.live_objects, 0);
    }
    assert_int_equal(deletions, 0);
}

static void blocks_without_elements_and_quantised_ones_come_in(void** state) {
    berth_context* ctx = context_of(state);
    int deletions = 0;
    berth_tensor* none = berth_tensor_from_memory(
        ctx, NULL, 0, BERTH_F32, 2, (int64_t[]){3, 0}, false, count_deletion, &deletions);
    assert_context_ok(ctx);
    assert_ok(berth_tensor_read(none, NULL, 0));
    unsigned char blocks[2 * 34], seen[2 * 34];
    for (size_t i = 0; i < sizeof blocks; ++i)
        blocks[i] = (unsigned char)(3 * i + 1);
    berth_tensor* x = berth_tensor_from_memory(ctx,
                                               blocks,
                                               sizeof blocks,
                                               BERTH_Q8_0,
                                               2,
                                               (int64_t[]){2, 32},
                                               true,
                                               count_deletion,
                                               &deletions);
    assert_context_ok(ctx);
    assert_int_equal(deletions, 2);
    assert_ok(berth_tensor_read(x, seen, sizeof seen));
    assert_memory_equal(seen, blocks, sizeof seen);
    berth_release_all(none, x);
}

static void bytes_of_the_context_are_used_where_they_are(void** state) {
    berth_context* ctx = context_of(state);
    unsigned char* bytes = berth_alloc(ctx, 64);
    int deletions = 0;
    berth_tensor* x = berth_tensor_from_memory(
        ctx, bytes + 16, 16, BERTH_F32, 1, (int64_t[]){4}, false, count_deletion, &deletions);
    assert_context_ok(ctx);
    assert_ptr_equal(exec_kit_place(x), bytes + 16);
    assert_ok(berth_tensor_write(x, (float[]){1, 2, 3, 4}, 16));
    exec_kit_expect(x, (float[]){1, 2, 3, 4}, 4);
    assert_int_equal(deletions, 0);
    berth_release(x);
    assert_int_equal(deletions, 1);
    berth_free(ctx, bytes);
    assert_context_ok(ctx);
}

static void delete_managed(DLManagedTensor* managed) { ++*(int*)managed->manager_ctx; }

static void a_strangers_tensor_of_any_strides_is_copied(void** state) {
    berth_context* ctx = context_of(state);
    static float data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const struct {
        int64_t strides[2];
        size_t first;
        float expected[6];
    } cases[] = {
        {{3, 1}, 0, {0, 1, 2, 3, 4, 5}},
        {{1, 4}, 0, {0, 4, 8, 1, 5, 9}},
        {{0, 2}, 1, {1, 3, 5, 1, 3, 5}},
        {{-6, -2}, 11, {11, 9, 7, 5, 3, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        int deletions = 0;
        int64_t dims[2] = {2, 3}, strides[2] = {cases[i].strides[0], cases[i].strides[1]};
        DLManagedTensor managed = {
            .dl_tensor = {.data = data + cases[i].first,
                          .device = {.device_type = kDLCPU},
                          .ndim = 2,
                          .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                          .shape = dims,
                          .strides = strides},
            .manager_ctx = &deletions,
            .deleter = delete_managed,
        };
        berth_tensor* x = berth_tensor_from_dlpack(ctx, &managed, i % 2 == 0);
        assert_context_ok(ctx);
        assert_int_equal(deletions, 1);
        assert_true(berth_tensor_is_contiguous(x));
        exec_kit_expect(x, cases[i].expected, 6);
        DLManagedTensor* lent;
        if (i % 2 != 0) assert_int_equal(berth_tensor_to_dlpack(x, &lent), BERTH_ERR_UNSUPPORTED);
        berth_release(x);
    }
}

/// As exec_kit_fail_every_allocation() wants it.
static berth_tensor* bring_in_and_read(berth_context* ctx) {
    static const float data[6] = {0, 1, 2, 3, 4, 5};
    float seen[6];
    berth_tensor* x = berth_tensor_from_memory(ctx,
                                               (void*)(uintptr_t)data,
                                               sizeof data,
                                               BERTH_F32,
                                               2,
                                               (int64_t[]){2, 3},
                                               true,
                                               NULL,
                                               NULL);
    x = berth_transpose(ctx, berth_move(x), 0, 1);
    if (x == NULL) return NULL;
    const berth_status status = berth_tensor_read(x, seen, sizeof seen);
    if (status == BERTH_OK) {
        assert_memory_equal(seen, ((float[]){0, 3, 1, 4, 2, 5}), sizeof seen);
    } else {
        assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
    }
    return x;
}

static void host_memory_may_fail_at_any_moment(void** state) {
    (void)state;
    exec_kit_fail_every_allocation("hidden", bring_in_and_read);
}

// --- Out ----------------------------------------------------------------------------------------

static void nobody_is_given_the_memory_itself(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    void* data = &data;
    assert_fails(berth_tensor_map(x, &data), BERTH_ERR_UNSUPPORTED, "not visible to the host");
    assert_null(data);
    assert_int_equal(atomic_load(&x->storage->marks), 0);
    berth_release(x);
}

/// A window on `x` [a, b, c] f32 that lies as it likes.
static berth_tensor* draw_view(test_random* random, berth_context* ctx, berth_tensor* x) {
    berth_tensor* view = berth_retain(x);
    for (int i = 0; i < 4; ++i) {
        const int32_t dim = (int32_t)test_random_below(random, 3);
        const int64_t size = berth_tensor_dim(view, dim);
        const int64_t begin = (int64_t)test_random_below(random, (uint64_t)size + 1);
        const int64_t end =
            begin + (int64_t)test_random_below(random, (uint64_t)(size - begin) + 1);
        const int64_t step = 1 + (int64_t)test_random_below(random, 3);
        switch (test_random_below(random, 3)) {
        case 0:
            view = berth_transpose(ctx, berth_move(view), dim, (dim + 1) % 3);
            break;
        case 1:
            view = berth_slice(ctx, berth_move(view), dim, begin, end, step);
            break;
        default:
            break;
        }
    }
    return view;
}

static void windows_of_any_kind_are_read_in_parts(void** state) {
    berth_context* ctx = context_of(state);
    test_random random = test_random_make(11);
    for (int round = 0; round < 300; ++round) {
        // some are more than what comes at once
        const int64_t most = round % 10 == 0 ? 120 : 9;
        int64_t dims[3];
        for (int d = 0; d < 3; ++d)
            dims[d] = 1 + (int64_t)test_random_below(&random, (uint64_t)most);
        berth_tensor* flat = exec_kit_ramp(ctx, 0, dims[0] * dims[1] * dims[2]);
        berth_tensor* x = berth_reshape(ctx, berth_move(flat), 3, dims);
        berth_tensor* view = draw_view(&random, ctx, x);
        assert_context_ok(ctx);
        const int64_t count = berth_tensor_count(view);
        const size_t bytes = (size_t)count * sizeof(float);
        float* expected = calloc((size_t)count + 1, sizeof *expected);
        float* seen = calloc((size_t)count + 1, sizeof *seen);
        assert_true(expected != NULL && seen != NULL);
        berth_tensor* copy = berth_copy(ctx, view); // which is contiguous
        assert_ok(berth_tensor_read(copy, expected, bytes));
        assert_ok(berth_tensor_read(view, seen, bytes));
        assert_memory_equal(seen, expected, bytes);
        if (count > 0) {
            const int64_t first = (int64_t)test_random_below(&random, (uint64_t)count);
            const int64_t part = 1 + (int64_t)test_random_below(&random, (uint64_t)(count - first));
            assert_ok(berth_tensor_read_span(view, first, part, seen));
            assert_memory_equal(seen, expected + first, (size_t)part * sizeof(float));
        }
        free(expected);
        free(seen);
        berth_release_all(copy, view, x);
    }
    assert_int_equal(ctx->home.live_objects, 0);
}

static void a_read_that_the_device_refuses_is_an_error(void** state) {
    exec_kit* kit = *state;
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 6);
    x = berth_reshape(kit->ctx, berth_move(x), 2, (int64_t[]){2, 3});
    x = berth_transpose(kit->ctx, berth_move(x), 0, 1);
    float seen[6];
    for (int i = 0; i < 2; ++i) {
        berth_sim_fail(kit->runtime->device, i == 0 ? BERTH_SIM_COPY : BERTH_SIM_WAIT, 1);
        assert_int_equal(berth_tensor_read(x, seen, sizeof seen), BERTH_ERR_DEVICE);
        assert_ok(berth_tensor_read(x, seen, sizeof seen));
        assert_memory_equal(seen, ((float[]){0, 3, 1, 4, 2, 5}), sizeof seen);
    }
    berth_release(x);
}

// --- Runtimes -----------------------------------------------------------------------------------

static void memory_of_the_process_is_no_mode_of_it(void** state) {
    (void)state;
    const berth_option_setting settings[] = {{"device", "hidden"}, {"mode", "system"}};
    exec_kit kit;
    assert_fails(exec_kit_open(&kit, NULL, settings, 2), BERTH_ERR_UNSUPPORTED, "BERTH_MODE");
    assert_null(kit.runtime);
}

#define ON_HIDDEN(test) cmocka_unit_test_setup_teardown(test, set_up, exec_kit_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_HIDDEN(memory_of_the_host_is_copied_and_given_back_at_once),
        ON_HIDDEN(what_came_in_read_only_is_not_written_to),
        ON_HIDDEN(what_cannot_come_in_stays_the_owners),
        ON_HIDDEN(blocks_without_elements_and_quantised_ones_come_in),
        ON_HIDDEN(bytes_of_the_context_are_used_where_they_are),
        ON_HIDDEN(a_strangers_tensor_of_any_strides_is_copied),
        cmocka_unit_test(host_memory_may_fail_at_any_moment),
        ON_HIDDEN(nobody_is_given_the_memory_itself),
        ON_HIDDEN(windows_of_any_kind_are_read_in_parts),
        ON_HIDDEN(a_read_that_the_device_refuses_is_an_error),
        cmocka_unit_test(memory_of_the_process_is_no_mode_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
