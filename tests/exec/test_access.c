// SPDX-License-Identifier: Apache-2.0
// The host's ways to a tensor's data: read, write, map, and memory that comes from outside.
#include <stdlib.h>

#include "exec/exec_kit.h"

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

static const int64_t TWO[] = {2};
static const int64_t FOUR[] = {4};

static berth_tensor* adopt(berth_context* ctx, float* data, size_t count, bool read_only) {
    return berth_tensor_from_memory(ctx,
                                    data,
                                    count * sizeof(float),
                                    BERTH_F32,
                                    1,
                                    (int64_t[]){(int64_t)count},
                                    read_only,
                                    NULL,
                                    NULL);
}

static void the_properties_of_a_tensor_can_be_asked(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_zeros(ctx, BERTH_F16, 3, (int64_t[]){2, 3, 5});
    assert_int_equal(berth_tensor_dtype(x), BERTH_F16);
    assert_int_equal(berth_tensor_rank(x), 3);
    assert_int_equal(berth_tensor_dim(x, 1), 3);
    assert_int_equal(berth_tensor_dim(x, -1), 5);
    assert_int_equal(berth_tensor_dim(x, 3), -1);
    assert_int_equal(berth_tensor_dim(x, -4), -1);
    assert_int_equal(berth_tensor_count(x), 30);
    assert_int_equal(berth_tensor_bytes(x), 60);
    assert_int_equal(berth_tensor_strides(x)[0], 15);
    assert_true(berth_tensor_is_contiguous(x));
    assert_ptr_equal(berth_tensor_context(x), ctx);
    berth_release(x);
}

static void a_written_tensor_reads_back(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_empty(ctx, BERTH_F32, 1, FOUR);
    assert_ok(berth_tensor_write(x, (float[]){1, 2, 3, 4}, 16));
    berth_tensor* y = berth_neg(ctx, x);
    // the op that was enqueued before sees what was there before
    assert_ok(berth_tensor_write(x, (float[]){5, 6, 7, 8}, 16));
    exec_kit_expect(x, (float[]){5, 6, 7, 8}, 4);
    exec_kit_expect(y, (float[]){-1, -2, -3, -4}, 4);
    berth_release_all(x, y);
}

static void a_view_that_is_not_dense_is_read_row_major(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x =
        berth_reshape(ctx, berth_move(exec_kit_ramp(ctx, 0, 24)), 3, (int64_t[]){2, 3, 4});
    x = berth_transpose(ctx, berth_move(x), 0, 2);           // [4, 3, 2]
    x = berth_slice(ctx, berth_move(x), 0, 1, INT64_MAX, 2); // rows 1 and 3
    exec_kit_expect(x, (float[]){1, 13, 5, 17, 9, 21, 3, 15, 7, 19, 11, 23}, 12);
    berth_release(x);
    x = berth_cast(ctx, berth_move(exec_kit_ramp(ctx, 0, 6)), BERTH_U8);
    x = berth_slice(ctx, berth_move(x), 0, 0, 6, 2);
    unsigned char bytes[3];
    assert_ok(berth_tensor_read(x, bytes, sizeof bytes));
    assert_memory_equal(bytes, ((unsigned char[]){0, 2, 4}), 3);
    berth_release(x);
}

static void a_wrong_size_is_refused_by_read_and_write(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    float values[5] = {0};
    assert_fails(berth_tensor_read(x, values, 20), BERTH_ERR_INVALID_ARGUMENT, "20 bytes");
    assert_fails(
        berth_tensor_read(x, values, 12), BERTH_ERR_INVALID_ARGUMENT, "the tensor f32[4] has 16");
    assert_fails(berth_tensor_read(x, NULL, 16), BERTH_ERR_INVALID_ARGUMENT, "NULL");
    assert_fails(berth_tensor_read(NULL, values, 16), BERTH_ERR_INVALID_ARGUMENT, "NULL");
    assert_fails(berth_tensor_write(x, values, 17), BERTH_ERR_INVALID_ARGUMENT, "17 bytes");
    assert_fails(berth_tensor_write(x, NULL, 16), BERTH_ERR_INVALID_ARGUMENT, "NULL");
    assert_fails(berth_tensor_write(NULL, values, 16), BERTH_ERR_INVALID_ARGUMENT, "NULL");
    exec_kit_expect(x, (float[]){0, 1, 2, 3}, 4);
    // calls that are no ops leave the context's error alone
    assert_context_ok(ctx);
    berth_release(x);
}

static void a_tensor_without_elements_reads_and_writes_nothing(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){3, 0});
    assert_ok(berth_tensor_read(x, NULL, 0));
    assert_ok(berth_tensor_write(x, NULL, 0));
    void* data;
    assert_ok(berth_tensor_map(x, &data));
    berth_tensor_unmap(x);
    berth_release(x);
}

static void a_view_that_is_not_dense_cannot_be_written(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    berth_tensor* y = berth_slice(ctx, x, 0, 0, 4, 2);
    assert_fails(
        berth_tensor_write(y, (float[]){1, 2}, 8), BERTH_ERR_UNSUPPORTED, "not contiguous");
    berth_tensor* z = berth_slice(ctx, x, 0, 1, 3, 1);
    assert_ok(berth_tensor_write(z, (float[]){8, 9}, 8));
    exec_kit_expect(x, (float[]){0, 8, 9, 3}, 4);
    berth_release_all(x, y, z);
}

static void a_mapped_tensor_shows_its_elements_and_takes_new_ones(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    berth_tensor* y = berth_slice(ctx, x, 0, 1, 4, 1);
    void* data;
    assert_ok(berth_tensor_map(y, &data)); // waits for the ramp
    float* values = data;
    assert_true(values[0] == 1 && values[2] == 3);
    values[0] = 11;
    berth_tensor_unmap(y);
    exec_kit_expect(x, (float[]){0, 11, 2, 3}, 4);
    berth_tensor* z = berth_affine(ctx, x, 2, 0);
    exec_kit_expect(z, (float[]){0, 22, 4, 6}, 4);
    berth_release_all(x, y, z);
}

static void a_storage_is_pinned_until_every_map_is_undone(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 1, 4);
    berth_tensor* view = berth_slice(ctx, x, 0, 0, 2, 1);
    void *first, *second;
    assert_ok(berth_tensor_map(x, &first));
    assert_ok(berth_tensor_map(view, &second));
    assert_ptr_equal(first, second);
    berth_tensor_unmap(x);
    berth_release(view); // the pin is the storage's, not the handle's
    x = berth_neg(ctx, berth_move(x));
    assert_ptr_not_equal(exec_kit_place(x), first);
    exec_kit_expect(x, (float[]){-1, -2, -3, -4}, 4);
    const void* place = exec_kit_place(x);
    void* data;
    assert_ok(berth_tensor_map(x, &data));
    berth_tensor_unmap(x);
    x = berth_neg(ctx, berth_move(x));
    assert_ptr_equal(exec_kit_place(x), place);
    berth_release(x);
    berth_tensor_unmap(NULL);
}

/// A step of a value without elements and one of [n], which both live on, mapped, if `out` is
/// given.
static void run_mapped(berth_context* ctx, const char* name, int64_t n, berth_tensor** out) {
    assert_ok(exec_kit_begin(ctx, name, n));
    berth_tensor* both[2] = {berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){0}),
                             berth_full(ctx, (double)n, BERTH_F32, 1, &n)};
    void* data;
    for (int i = 0; i < 2; ++i) {
        if (out == NULL) {
            berth_release(both[i]);
            continue;
        }
        assert_ok(berth_tensor_map(both[i], &data));
        out[i] = both[i];
    }
    assert_ok(berth_step_end(ctx));
}

static void survivors_at_one_address_are_held_apart(void** state) {
    berth_context* ctx = context_of(state);
    static const char* const names[] = {"empty first", "empty last"};
    for (int first = 0; first < 2; ++first) {
        for (int64_t n = 10; n < 40; n += 10)
            run_mapped(ctx, names[first], n, NULL);
        berth_tensor* held[2];
        run_mapped(ctx, names[first], 20, held);
        assert_int_equal(held[1]->storage->kind, BERTH_STORAGE_HELD);
        berth_tensor_unmap(held[first]);
        berth_tensor* other = held[1 - first];
        berth_release(held[first]);
        for (int64_t n = 5; n < 200; n += 9)
            run_mapped(ctx, names[first], n, NULL);
        const float* data = (const float*)exec_kit_place(other);
        for (int64_t i = 0; i < berth_tensor_count(other); ++i)
            assert_true(data[i] == 20);
        berth_tensor_unmap(other);
        berth_release(other);
        berth_arena_stats stats;
        berth_arena_query_stats(ctx->home.arena, &stats);
        assert_int_equal(stats.held_bytes, 0);
        assert_int_equal(ctx->home.overdue.count, 0);
    }
}

static void an_update_of_a_mapped_tensor_changes_a_copy(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 1, FOUR);
    berth_tensor* held = berth_slice(ctx, x, 0, 0, 4, 1);
    void* data;
    assert_ok(berth_tensor_map(held, &data));
    berth_tensor* index = berth_arange(ctx, 1, 3, 1, BERTH_I32);
    berth_tensor* rows = exec_kit_ramp(ctx, 5, 2);
    x = berth_index_copy(ctx, berth_move(x), 0, index, rows);
    exec_kit_expect(x, (float[]){0, 5, 6, 0}, 4);
    assert_memory_equal(data, ((float[]){0, 0, 0, 0}), 16);
    berth_tensor_unmap(held);
    berth_release_all(x, held, index, rows);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void a_map_needs_a_tensor_and_a_place(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 1);
    void* data = &data;
    assert_fails(berth_tensor_map(x, NULL), BERTH_ERR_INVALID_ARGUMENT, "place");
    assert_fails(berth_tensor_map(NULL, &data), BERTH_ERR_INVALID_ARGUMENT, "NULL");
    assert_null(data);
    berth_release(x);
}

static void read_only_memory_is_never_written(void** state) {
    berth_context* ctx = context_of(state);
    float data[4] = {1, 2, 3, 4};
    berth_tensor* x = adopt(ctx, data, 4, true);
    assert_fails(berth_tensor_write(x, (float[4]){0}, 16), BERTH_ERR_UNSUPPORTED, "read-only");
    berth_tensor* view = berth_slice(ctx, x, 0, 0, 2, 1);
    assert_fails(berth_tensor_write(view, (float[2]){0}, 8), BERTH_ERR_UNSUPPORTED, "read-only");
    berth_tensor* index = berth_arange(ctx, 0, 1, 1, BERTH_I32);
    berth_tensor* row = berth_full(ctx, 9, BERTH_F32, 1, (int64_t[]){1});
    berth_tensor* y = berth_index_copy(ctx, berth_move(x), 0, index, row);
    exec_kit_expect(y, (float[]){9, 2, 3, 4}, 4);
    // what an op makes of it is writable
    assert_ok(berth_tensor_write(y, (float[]){4, 3, 2, 1}, 16));
    exec_kit_expect(view, (float[]){1, 2}, 2);
    assert_memory_equal(data, ((float[]){1, 2, 3, 4}), 16);
    berth_release_all(view, index, row, y);
}

static void writable_foreign_memory_is_written_by_write_and_map_alone(void** state) {
    berth_context* ctx = context_of(state);
    float data[4] = {1, 2, 3, 4};
    berth_tensor* x = adopt(ctx, data, 4, false);
    assert_ok(berth_tensor_write(x, (float[]){5, 6, 7, 8}, 16));
    assert_true(data[0] == 5 && data[3] == 8);
    void* mapped;
    assert_ok(berth_tensor_map(x, &mapped));
    assert_ptr_equal(mapped, data);
    berth_tensor_unmap(x);
    berth_tensor* y = berth_affine(ctx, berth_move(x), 1, 1);
    exec_kit_expect(y, (float[]){6, 7, 8, 9}, 4);
    assert_true(data[0] == 5);
    berth_release(y);
}

static int deletions;
static void count_deletion(void* self, void* data) {
    (void)data;
    assert_ptr_equal(self, &deletions);
    ++deletions;
}

static void memory_that_does_not_fit_is_refused_and_not_deleted(void** state) {
    berth_context* ctx = context_of(state);
    _Alignas(64) static unsigned char data[64];
    static const struct {
        size_t offset;
        uint64_t bytes;
        berth_dtype dtype;
        int32_t rank;
        int64_t dims[2];
        berth_status status;
        const char* part;
    } cases[] = {
        {2, 16, BERTH_F32, 1, {4, 0}, BERTH_ERR_INVALID_ARGUMENT, "aligned to 4"},
        {4, 16, BERTH_I64, 1, {1, 0}, BERTH_ERR_INVALID_ARGUMENT, "aligned to 8"},
        {0, 15, BERTH_F32, 1, {4, 0}, BERTH_ERR_INVALID_ARGUMENT, "needs 16 bytes"},
        {0, 33, BERTH_Q8_0, 1, {32, 0}, BERTH_ERR_INVALID_ARGUMENT, "needs 34 bytes"},
        {0, 64, BERTH_Q8_0, 1, {33, 0}, BERTH_ERR_INVALID_ARGUMENT, "multiple of 32"},
        {0, 64, BERTH_DTYPE_COUNT, 1, {1, 0}, BERTH_ERR_INVALID_ARGUMENT, "no element type"},
        {0, 64, BERTH_F32, -1, {1, 0}, BERTH_ERR_INVALID_ARGUMENT, "rank -1"},
        {0, 64, BERTH_F32, 9, {1, 0}, BERTH_ERR_INVALID_ARGUMENT, "rank 9"},
        {0, 64, BERTH_F32, 2, {2, -2}, BERTH_ERR_INVALID_ARGUMENT, "negative"},
        {0, 64, BERTH_F32, 2, {INT64_MAX, 2}, BERTH_ERR_OVERFLOW, "63 bits"},
        {0, 64, BERTH_I64, 2, {0, INT64_MAX}, BERTH_ERR_OVERFLOW, "63 bits"},
    };
    deletions = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        assert_null(berth_tensor_from_memory(ctx,
                                             data + cases[i].offset,
                                             cases[i].bytes,
                                             cases[i].dtype,
                                             cases[i].rank,
                                             cases[i].dims,
                                             false,
                                             count_deletion,
                                             &deletions));
        assert_context_fails(ctx, cases[i].status, cases[i].part);
    }
    assert_null(berth_tensor_from_memory(
        ctx, NULL, 16, BERTH_F32, 1, FOUR, false, count_deletion, &deletions));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "the memory is NULL");
    assert_null(berth_tensor_from_memory(
        ctx, data, 16, BERTH_F32, 1, NULL, false, count_deletion, &deletions));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "dimensions are missing");
    assert_null(berth_tensor_from_memory(
        NULL, data, 16, BERTH_F32, 1, FOUR, false, count_deletion, &deletions));
    assert_int_equal(deletions, 0);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void no_memory_is_taken_while_an_error_sticks(void** state) {
    berth_context* ctx = context_of(state);
    float data[2] = {1, 2};
    deletions = 0;
    assert_null(berth_neg(ctx, NULL));
    assert_null(berth_tensor_from_memory(
        ctx, data, sizeof data, BERTH_F32, 1, TWO, false, count_deletion, &deletions));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "neg");
    assert_int_equal(deletions, 0);
}

static void memory_of_any_alignment_may_hold_blocks_and_none_may_hold_nothing(void** state) {
    berth_context* ctx = context_of(state);
    unsigned char data[35] = {0};
    berth_tensor* x = berth_tensor_from_memory(
        ctx, data + 1, 34, BERTH_Q8_0, 1, (int64_t[]){32}, true, NULL, NULL);
    berth_tensor* y = berth_cast(ctx, x, BERTH_F32);
    float values[32];
    assert_ok(berth_tensor_read(y, values, sizeof values));
    assert_true(values[31] == 0);
    deletions = 0;
    berth_tensor* empty = berth_tensor_from_memory(
        ctx, NULL, 0, BERTH_F32, 2, (int64_t[]){4, 0}, true, count_deletion, &deletions);
    assert_context_ok(ctx);
    assert_int_equal(berth_tensor_count(empty), 0);
    berth_release_all(x, y, empty);
    assert_int_equal(deletions, 1);
}

/// What an owner may do with memory that came back: here it is no longer what it was.
static void spoil(void* self, void* data) {
    memset(data, 0xEE, *(const size_t*)self);
    free(data);
}

static void foreign_memory_goes_back_after_the_work_that_was_enqueued_on_it(void** state) {
    berth_context* ctx = context_of(state);
    static const size_t bytes = 4 * sizeof(float);
    float* data = malloc(bytes);
    assert_non_null(data);
    for (int i = 0; i < 4; ++i)
        data[i] = (float)i;
    size_t size = bytes;
    berth_tensor* x =
        berth_tensor_from_memory(ctx, data, bytes, BERTH_F32, 1, FOUR, true, spoil, &size);
    berth_tensor* y = berth_affine(ctx, x, 1, 1);
    berth_tensor* z = berth_affine(ctx, berth_move(x), 2, 0); // the last reference
    exec_kit_expect(y, (float[]){1, 2, 3, 4}, 4);
    exec_kit_expect(z, (float[]){0, 2, 4, 6}, 4);
    berth_release_all(y, z);
}

static void foreign_memory_waits_for_the_work_of_other_contexts_too(void** state) {
    exec_kit* kit = *state;
    berth_context* other;
    assert_ok(berth_context_create(kit->runtime, &other));
    size_t size = 4 * sizeof(float);
    float* data = malloc(size);
    assert_non_null(data);
    for (int i = 0; i < 4; ++i)
        data[i] = (float)i;
    berth_tensor* x =
        berth_tensor_from_memory(kit->ctx, data, size, BERTH_F32, 1, FOUR, true, spoil, &size);
    berth_tensor* y = berth_affine(other, x, 1, 1);
    berth_release(x);
    exec_kit_expect(y, (float[]){1, 2, 3, 4}, 4);
    berth_release(y);
    berth_context_release(other);
}

static void a_write_waits_for_the_reads_of_other_contexts(void** state) {
    exec_kit* kit = *state;
    berth_context* other;
    assert_ok(berth_context_create(kit->runtime, &other));
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 4);
    berth_tensor* y = berth_affine(other, x, 1, 1);
    assert_ok(berth_tensor_write(x, (float[]){9, 9, 9, 9}, 16));
    berth_tensor* z = berth_affine(other, x, 1, 1);
    void* data;
    assert_ok(berth_tensor_map(x, &data));
    memset(data, 0, 16);
    berth_tensor_unmap(x);
    exec_kit_expect(y, (float[]){1, 2, 3, 4}, 4);
    exec_kit_expect(z, (float[]){10, 10, 10, 10}, 4);
    berth_release_all(x, y, z);
    berth_context_release(other);
}

/// On sim: what was enqueued to or from the caller's memory is over when the call returns, also
/// with an error.
static void a_failed_access_leaves_the_callers_memory_alone(void** state) {
    exec_kit* kit = *state;
    berth_device* device = kit->runtime->device;
    static const berth_sim_call calls[] = {BERTH_SIM_COPY, BERTH_SIM_RECORD, BERTH_SIM_WAIT};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        berth_tensor* x = exec_kit_ramp(kit->ctx, 1, 4);
        float values[4] = {0}, after[4];
        berth_sim_fail(device, calls[i], 1);
        assert_fails(berth_tensor_read(x, values, 16), BERTH_ERR_DEVICE, "injected");
        memcpy(after, values, sizeof after);
        memset(values, 0, sizeof values);
        assert_ok(berth_context_synchronize(kit->ctx));
        assert_true(values[0] == 0 && values[3] == 0);
        exec_kit_expect(x, (float[]){1, 2, 3, 4}, 4);

        float source[4] = {5, 6, 7, 8};
        berth_sim_fail(device, calls[i], 1);
        assert_fails(berth_tensor_write(x, source, 16), BERTH_ERR_DEVICE, "injected");
        memset(source, 0, sizeof source);
        berth_tensor* y = berth_copy(kit->ctx, x);
        assert_ok(berth_tensor_read(y, after, sizeof after));
        assert_true(after[0] == (calls[i] == BERTH_SIM_COPY ? 1.0f : 5.0f));
        assert_context_ok(kit->ctx);
        berth_release_all(x, y);
    }
}

static void foreign_memory_stays_while_the_device_refuses_to_wait(void** state) {
    exec_kit* kit = *state;
    static const berth_sim_call calls[] = {BERTH_SIM_RECORD, BERTH_SIM_WAIT};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        size_t size = 4 * sizeof(float);
        float* data = calloc(1, size);
        assert_non_null(data);
        berth_tensor* x =
            berth_tensor_from_memory(kit->ctx, data, size, BERTH_F32, 1, FOUR, true, spoil, &size);
        berth_tensor* y = berth_affine(kit->ctx, x, 1, 3);
        berth_sim_fail(kit->runtime->device, calls[i], 1);
        berth_release(x);
        berth_sim_fail(kit->runtime->device, calls[i], 0);
        exec_kit_expect(y, (float[]){3, 3, 3, 3}, 4);
        berth_release(y);
    }
}

static void questions_about_null_have_answers(void** state) {
    (void)state;
    assert_int_equal(berth_tensor_dtype(NULL), BERTH_DTYPE_COUNT);
    assert_int_equal(berth_tensor_rank(NULL), -1);
    assert_int_equal(berth_tensor_dim(NULL, 0), -1);
    assert_null(berth_tensor_dims(NULL));
    assert_null(berth_tensor_strides(NULL));
    assert_int_equal(berth_tensor_count(NULL), 0);
    assert_int_equal(berth_tensor_bytes(NULL), 0);
    assert_false(berth_tensor_is_contiguous(NULL));
    assert_null(berth_tensor_context(NULL));
}

static void a_handle_made_by_move_is_refused_by_what_is_no_op(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, BERTH_SHAPE(2));
    berth_tensor* moved = berth_move(x);
    float values[2];
    void* data;
    char text[32];
    size_t needed;
    berth_tensor_properties properties;
    struct DLManagedTensor* managed;
#define REFUSES(call) assert_fails(call, BERTH_ERR_INVALID_ARGUMENT, "berth_move()")
    REFUSES(berth_tensor_read(moved, values, sizeof values));
    REFUSES(berth_tensor_write(moved, values, sizeof values));
    REFUSES(berth_tensor_map(moved, &data));
    REFUSES(berth_tensor_info(moved, &properties));
    REFUSES(berth_tensor_format(moved, NULL, text, sizeof text, &needed));
    REFUSES(berth_tensor_print(moved, stdout));
    REFUSES(berth_tensor_to_dlpack(moved, &managed));
    REFUSES(berth_npy_write(moved, "never-written.npy"));
#undef REFUSES
    assert_ok(berth_tensor_read(x, values, sizeof values)); // still the caller's
    berth_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(the_properties_of_a_tensor_can_be_asked),
        EXEC_KIT_ON_BOTH(a_written_tensor_reads_back),
        EXEC_KIT_ON_BOTH(a_view_that_is_not_dense_is_read_row_major),
        EXEC_KIT_ON_BOTH(a_wrong_size_is_refused_by_read_and_write),
        EXEC_KIT_ON_BOTH(a_tensor_without_elements_reads_and_writes_nothing),
        EXEC_KIT_ON_BOTH(a_view_that_is_not_dense_cannot_be_written),
        EXEC_KIT_ON_BOTH(a_mapped_tensor_shows_its_elements_and_takes_new_ones),
        EXEC_KIT_ON_BOTH(a_storage_is_pinned_until_every_map_is_undone),
        EXEC_KIT_ON_BOTH(survivors_at_one_address_are_held_apart),
        EXEC_KIT_ON_BOTH(an_update_of_a_mapped_tensor_changes_a_copy),
        EXEC_KIT_ON_BOTH(a_map_needs_a_tensor_and_a_place),
        EXEC_KIT_ON_BOTH(a_handle_made_by_move_is_refused_by_what_is_no_op),
        EXEC_KIT_ON_BOTH(read_only_memory_is_never_written),
        EXEC_KIT_ON_BOTH(writable_foreign_memory_is_written_by_write_and_map_alone),
        EXEC_KIT_ON_BOTH(memory_that_does_not_fit_is_refused_and_not_deleted),
        EXEC_KIT_ON_BOTH(no_memory_is_taken_while_an_error_sticks),
        EXEC_KIT_ON_BOTH(memory_of_any_alignment_may_hold_blocks_and_none_may_hold_nothing),
        EXEC_KIT_ON_BOTH(foreign_memory_goes_back_after_the_work_that_was_enqueued_on_it),
        EXEC_KIT_ON_BOTH(foreign_memory_waits_for_the_work_of_other_contexts_too),
        EXEC_KIT_ON_BOTH(a_write_waits_for_the_reads_of_other_contexts),
        cmocka_unit_test_setup_teardown(a_failed_access_leaves_the_callers_memory_alone,
                                        exec_kit_set_up_sim,
                                        exec_kit_tear_down),
        cmocka_unit_test_setup_teardown(foreign_memory_stays_while_the_device_refuses_to_wait,
                                        exec_kit_set_up_sim,
                                        exec_kit_tear_down),
        cmocka_unit_test(questions_about_null_have_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
