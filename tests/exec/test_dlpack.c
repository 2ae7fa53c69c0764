// SPDX-License-Identifier: Apache-2.0
// DLPack both ways: what is shared, what is pinned, what is refused, who deletes and when.
#include "berth/dlpack.h"

#include <dlpack/dlpack.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/exec_kit.h"

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

/// Another library's tensor: [2, 3] f32 0 .. 5 with all that DLPack can say, and its deletions.
typedef struct stranger {
    DLManagedTensor managed; ///< first
    _Atomic int deletions;
    int64_t dims[BERTH_MAX_RANK + 1];
    int64_t strides[BERTH_MAX_RANK + 1];
    float data[8];
} stranger;

static void count_deletion(DLManagedTensor* managed) {
    atomic_fetch_add(&((stranger*)managed)->deletions, 1);
}

static void make_stranger(stranger* s) {
    *s = (stranger){.dims = {2, 3}, .strides = {3, 1}, .data = {0, 1, 2, 3, 4, 5, 6, 7}};
    s->managed = (DLManagedTensor){
        .dl_tensor = {.data = s->data,
                      .device = {.device_type = kDLCPU},
                      .ndim = 2,
                      .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                      .shape = s->dims,
                      .strides = s->strides},
        .deleter = count_deletion,
    };
}

static DLManagedTensor* lend(berth_tensor* tensor) {
    DLManagedTensor* lent;
    assert_ok(berth_tensor_to_dlpack(tensor, &lent));
    assert_non_null(lent);
    return lent;
}

static uint32_t pins_of(const berth_tensor* tensor) {
    return atomic_load(&tensor->storage->marks) & ~BERTH_STORAGE_SHARED;
}

// --- In -----------------------------------------------------------------------------------------

static void a_strangers_memory_is_used_where_it_lies(void** state) {
    berth_context* ctx = context_of(state);
    stranger s;
    make_stranger(&s);
    berth_tensor* x = berth_tensor_from_dlpack(ctx, &s.managed, false);
    assert_context_ok(ctx);
    assert_int_equal(berth_tensor_dtype(x), BERTH_F32);
    assert_int_equal(berth_tensor_rank(x), 2);
    assert_ptr_equal(exec_kit_place(x), s.data);
    exec_kit_expect(x, (float[]){0, 1, 2, 3, 4, 5}, 6);
    s.data[0] = 9; // seen from here
    exec_kit_expect(x, (float[]){9, 1, 2, 3, 4, 5}, 6);
    assert_ok(berth_tensor_write(x, (float[]){5, 4, 3, 2, 1, 0}, 24)); // and from there
    assert_true(s.data[0] == 5 && s.data[5] == 0);
    berth_tensor* y = berth_neg(ctx, x);
    berth_tensor* view = berth_transpose(ctx, berth_move(x), 0, 1);
    assert_int_equal(s.deletions, 0);
    exec_kit_expect(y, (float[]){-5, -4, -3, -2, -1, -0.0f}, 6);
    berth_release(view);
    assert_int_equal(s.deletions, 1);
    berth_release(y);
    assert_int_equal(s.deletions, 1);
}

static void no_op_writes_to_a_strangers_memory_and_a_read_only_one_never_is(void** state) {
    berth_context* ctx = context_of(state);
    stranger s;
    make_stranger(&s);
    berth_tensor* x = berth_tensor_from_dlpack(ctx, &s.managed, false);
    berth_tensor* y = berth_neg(ctx, berth_move(x));
    exec_kit_expect(y, (float[]){-0.0f, -1, -2, -3, -4, -5}, 6);
    assert_true(s.data[5] == 5);
    assert_int_equal(s.deletions, 1);
    x = berth_tensor_from_dlpack(ctx, &s.managed, true);
    assert_fails(
        berth_tensor_write(x, s.data, 24), BERTH_ERR_UNSUPPORTED, "the tensor is read-only");
    berth_release_all(x, y);
    assert_int_equal(s.deletions, 2);
}

static void strides_may_be_missing_negative_or_zero_and_an_offset_counts_bytes(void** state) {
    berth_context* ctx = context_of(state);
    stranger s;
    const struct {
        uint64_t byte_offset;
        bool has_strides;
        int64_t strides[2];
        float expected[6];
    } cases[] = {
        {0, false, {0, 0}, {0, 1, 2, 3, 4, 5}},
        {4, false, {0, 0}, {1, 2, 3, 4, 5, 6}},
        {20, true, {-3, -1}, {5, 4, 3, 2, 1, 0}},
        {8, true, {0, 1}, {2, 3, 4, 2, 3, 4}},
        {0, true, {1, 2}, {0, 2, 4, 1, 3, 5}},
        {28, true, {0, 0}, {7, 7, 7, 7, 7, 7}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        make_stranger(&s);
        memcpy(s.strides, cases[i].strides, sizeof cases[i].strides);
        s.managed.dl_tensor.byte_offset = cases[i].byte_offset;
        if (!cases[i].has_strides) s.managed.dl_tensor.strides = NULL;
        berth_tensor* x = berth_tensor_from_dlpack(ctx, &s.managed, true);
        assert_context_ok(ctx);
        exec_kit_expect(x, cases[i].expected, 6);
        berth_release(x);
        assert_int_equal(s.deletions, 1);
    }
}

static void a_tensor_without_elements_or_a_deleter_is_one_too(void** state) {
    berth_context* ctx = context_of(state);
    stranger s;
    make_stranger(&s);
    s.dims[0] = 0;
    s.managed.dl_tensor.data = NULL;
    s.managed.dl_tensor.byte_offset = 64;
    s.managed.deleter = NULL;
    berth_tensor* x = berth_tensor_from_dlpack(ctx, &s.managed, true);
    assert_context_ok(ctx);
    assert_int_equal(berth_tensor_count(x), 0);
    berth_release(x);
    make_stranger(&s);
    s.managed.dl_tensor.ndim = 0;
    s.managed.dl_tensor.shape = s.managed.dl_tensor.strides = NULL;
    x = berth_tensor_from_dlpack(ctx, &s.managed, true);
    exec_kit_expect(x, (float[]){0}, 1);
    berth_release(x);
    assert_int_equal(s.deletions, 1);
}

/// A change of a stranger, and what is said about it.
typedef struct refusal {
    void (*spoil)(DLTensor* tensor);
    berth_status status;
    const char* part;
} refusal;

static void be_double(DLTensor* t) { t->dtype.bits = 64; }
static void be_complex(DLTensor* t) { t->dtype = (DLDataType){kDLComplex, 64, 1}; }
static void be_wide(DLTensor* t) { t->dtype.lanes = 4; }
static void be_u16(DLTensor* t) { t->dtype = (DLDataType){kDLUInt, 16, 1}; }
static void be_no_code(DLTensor* t) { t->dtype.code = 200; }
static void be_on_a_gpu(DLTensor* t) { t->device = (DLDevice){kDLCUDA, 3}; }
static void be_of_rank_9(DLTensor* t) { t->ndim = 9; }
static void be_of_rank_minus_1(DLTensor* t) { t->ndim = -1; }
static void have_no_shape(DLTensor* t) { t->shape = NULL; }
static void have_no_data(DLTensor* t) { t->data = NULL; }
static void have_no_data_but_an_offset(DLTensor* t) {
    t->data = NULL;
    t->byte_offset = 64;
}
static void have_a_negative_size(DLTensor* t) { t->shape[1] = -3; }
static void have_far_strides(DLTensor* t) { t->strides[0] = INT64_MAX / 2; }
static void have_a_far_offset(DLTensor* t) { t->byte_offset = UINT64_MAX - 8; }
static void have_a_huge_shape(DLTensor* t) {
    t->shape[0] = t->shape[1] = INT64_MAX;
    t->strides[0] = t->strides[1] = 0;
}
static void be_between_elements(DLTensor* t) { t->byte_offset = 2; }

static void what_cannot_come_in_is_refused_by_name_and_stays_its_owners(void** state) {
    berth_context* ctx = context_of(state);
    static const refusal refusals[] = {
        {be_double, BERTH_ERR_UNSUPPORTED, "float64"},
        {be_complex, BERTH_ERR_UNSUPPORTED, "complex64"},
        {be_wide, BERTH_ERR_UNSUPPORTED, "4 lane"},
        {be_u16, BERTH_ERR_UNSUPPORTED, "uint16"},
        {be_no_code, BERTH_ERR_UNSUPPORTED, "code 200"},
        {be_on_a_gpu, BERTH_ERR_UNSUPPORTED, "device 3 of type 2"},
        {be_of_rank_9, BERTH_ERR_INVALID_ARGUMENT, "rank 9"},
        {be_of_rank_minus_1, BERTH_ERR_INVALID_ARGUMENT, "rank -1"},
        {have_no_shape, BERTH_ERR_INVALID_ARGUMENT, "dimensions are missing"},
        {have_no_data, BERTH_ERR_INVALID_ARGUMENT, "the memory is NULL"},
        {have_no_data_but_an_offset, BERTH_ERR_INVALID_ARGUMENT, "the memory is NULL"},
        {have_a_negative_size, BERTH_ERR_INVALID_ARGUMENT, "size -3"},
        {have_far_strides, BERTH_ERR_OVERFLOW, "63 bits"},
        {have_a_far_offset, BERTH_ERR_OVERFLOW, "beyond all addresses"},
        {have_a_huge_shape, BERTH_ERR_OVERFLOW, "63 bits"},
        {be_between_elements, BERTH_ERR_INVALID_ARGUMENT, "aligned to 4 bytes"},
    };
    stranger s;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; ++i) {
        make_stranger(&s);
        refusals[i].spoil(&s.managed.dl_tensor);
        assert_null(berth_tensor_from_dlpack(ctx, &s.managed, false));
        assert_context_fails(ctx, refusals[i].status, refusals[i].part);
        assert_int_equal(s.deletions, 0);
    }
    assert_null(berth_tensor_from_dlpack(ctx, NULL, false));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "tensor_from_dlpack: the managed tensor");
    make_stranger(&s);
    assert_null(berth_tensor_from_dlpack(NULL, &s.managed, false));
    assert_null(berth_neg(ctx, NULL));
    assert_null(berth_tensor_from_dlpack(ctx, &s.managed, false)); // an error sticks
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "neg");
    assert_int_equal(s.deletions, 0);
    assert_int_equal(ctx->home.live_objects, 0);
}

// --- Out ----------------------------------------------------------------------------------------

static void an_export_says_all_that_there_is_to_say(void** state) {
    berth_context* ctx = context_of(state);
    static const struct {
        berth_dtype dtype;
        DLDataType type;
    } types[] = {
        {BERTH_F32, {kDLFloat, 32, 1}},
        {BERTH_F16, {kDLFloat, 16, 1}},
        {BERTH_BF16, {kDLBfloat, 16, 1}},
        {BERTH_I8, {kDLInt, 8, 1}},
        {BERTH_I32, {kDLInt, 32, 1}},
        {BERTH_I64, {kDLInt, 64, 1}},
        {BERTH_U8, {kDLUInt, 8, 1}},
        {BERTH_BOOL, {kDLUInt, 8, 1}},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
        berth_tensor* x = berth_ones(ctx, types[i].dtype, 2, (int64_t[]){2, 3});
        x = berth_transpose(ctx, berth_move(x), 0, 1);
        x = berth_slice(ctx, berth_move(x), 0, 1, INT64_MAX, 1); // [2, 2], strides [1, 3]
        DLManagedTensor* lent = lend(x);
        const DLTensor* t = &lent->dl_tensor;
        assert_int_equal(t->dtype.code, types[i].type.code);
        assert_int_equal(t->dtype.bits, types[i].type.bits);
        assert_int_equal(t->dtype.lanes, 1);
        assert_int_equal(t->device.device_type, kDLCPU);
        assert_int_equal(t->device.device_id, 0);
        assert_int_equal(t->ndim, 2);
        assert_memory_equal(t->shape, ((int64_t[]){2, 2}), 2 * sizeof(int64_t));
        assert_memory_equal(t->strides, ((int64_t[]){1, 3}), 2 * sizeof(int64_t));
        assert_int_equal(t->byte_offset, 0);
        assert_ptr_equal(t->data, exec_kit_place(x));
        berth_release(x);
        lent->deleter(lent);
    }
    assert_int_equal(ctx->home.live_objects, 0);
    berth_tensor* scalar = berth_ones(ctx, BERTH_F32, 0, NULL);
    DLManagedTensor* lent = lend(scalar);
    assert_int_equal(lent->dl_tensor.ndim, 0);
    assert_non_null(lent->dl_tensor.strides); // always given
    lent->deleter(lent);
    berth_release(scalar);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void the_borrower_sees_finished_work(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = berth_neg(ctx, berth_move(exec_kit_ramp(ctx, 1, 4)));
    DLManagedTensor* lent = lend(x);
    assert_memory_equal(lent->dl_tensor.data, ((float[]){-1, -2, -3, -4}), 16);
    ((float*)lent->dl_tensor.data)[1] = 8; // and is seen
    exec_kit_expect(x, (float[]){-1, 8, -3, -4}, 4);
    lent->deleter(lent);
    berth_release(x);
}

static void a_lent_storage_is_pinned_and_no_op_writes_to_it(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 1, 4);
    DLManagedTensor* first = lend(x);
    DLManagedTensor* second = lend(x);
    assert_int_equal(pins_of(x), 2);
    const void* place = exec_kit_place(x);
    berth_tensor* y = berth_neg(ctx, berth_move(x)); // the loans hold the tensor
    assert_ptr_not_equal(exec_kit_place(y), place);
    exec_kit_expect(y, (float[]){-1, -2, -3, -4}, 4);
    first->deleter(first);
    assert_memory_equal(second->dl_tensor.data, ((float[]){1, 2, 3, 4}), 16);
    assert_ptr_equal(second->dl_tensor.data, place);
    second->deleter(second);
    berth_release(y);
    assert_int_equal(ctx->home.live_objects, 0);
}

static void a_value_lent_in_a_planned_step_stays_where_it_is(void** state) {
    exec_kit* kit = *state;
    DLManagedTensor* lent[6];
    for (int round = 0; round < 6; ++round) {
        assert_ok(exec_kit_begin(kit->ctx, "step", 1000));
        berth_tensor* x = berth_full(kit->ctx, round, BERTH_F32, 1, (int64_t[]){1000});
        berth_tensor* y = berth_neg(kit->ctx, berth_move(x));
        lent[round] = lend(y);
        berth_release(y);
        assert_ok(berth_step_end(kit->ctx));
    }
    assert_true(exec_kit_counters(kit->runtime, "step").hits > 0);
    for (int round = 0; round < 6; ++round) {
        const float* values = lent[round]->dl_tensor.data;
        assert_true(values[0] == (float)-round && values[999] == (float)-round);
        lent[round]->deleter(lent[round]);
    }
    assert_int_equal(kit->ctx->home.live_objects, 0);
}

static void what_cannot_go_out_is_refused(void** state) {
    berth_context* ctx = context_of(state);
    static unsigned char blocks[34];
    DLManagedTensor* lent = (DLManagedTensor*)(uintptr_t)1;
    berth_tensor* x = berth_tensor_from_memory(
        ctx, blocks, sizeof blocks, BERTH_Q8_0, 1, (int64_t[]){32}, false, NULL, NULL);
    assert_fails(berth_tensor_to_dlpack(x, &lent), BERTH_ERR_UNSUPPORTED, "q8_0");
    assert_null(lent);
    berth_release(x);
    stranger s;
    make_stranger(&s);
    x = berth_tensor_from_dlpack(ctx, &s.managed, true);
    assert_fails(berth_tensor_to_dlpack(x, &lent), BERTH_ERR_UNSUPPORTED, "read-only");
    assert_fails(berth_tensor_to_dlpack(x, NULL), BERTH_ERR_INVALID_ARGUMENT, "place");
    assert_fails(berth_tensor_to_dlpack(NULL, &lent), BERTH_ERR_INVALID_ARGUMENT, "NULL");
    assert_int_equal(pins_of(x), 0);
    berth_release(x);
    assert_int_equal(s.deletions, 1);
}

static void a_device_out_of_the_hosts_reach_lends_nothing_and_copies_what_comes(void** state) {
    exec_kit* kit = *state;
    berth_device* device = kit->runtime->device;
    const berth_device_ops* real = device->ops;
    berth_device_ops remote = *real;
    remote.caps &= ~(uint32_t)BERTH_DEVICE_CAP_HOST_ACCESS;
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 4);
    device->ops = &remote;
    DLManagedTensor* lent;
    const berth_status status = berth_tensor_to_dlpack(x, &lent);
    stranger s;
    make_stranger(&s);
    berth_tensor* y = berth_tensor_from_dlpack(kit->ctx, &s.managed, true);
    device->ops = real;
    assert_int_equal(status, BERTH_ERR_UNSUPPORTED);
    assert_int_equal(pins_of(x), 0);
    assert_context_ok(kit->ctx);
    assert_int_equal(s.deletions, 1);
    s.data[0] = 9;
    exec_kit_expect(y, (float[]){0, 1, 2, 3, 4, 5}, 6);
    berth_release_all(x, y);
    assert_int_equal(s.deletions, 1);
}

// --- Ends ---------------------------------------------------------------------------------------

static void a_tensor_that_went_out_may_come_back_in(void** state) {
    exec_kit* kit = *state;
    berth_context* other;
    assert_ok(berth_context_create(kit->runtime, &other));
    berth_tensor* x = exec_kit_ramp(kit->ctx, 1, 4);
    const void* place = exec_kit_place(x);
    berth_context* users[] = {kit->ctx, other, kit->ctx, kit->ctx, other};
    for (size_t i = 0; i < sizeof users / sizeof users[0]; ++i) {
        DLManagedTensor* lent = lend(x);
        berth_release(x);
        x = berth_tensor_from_dlpack(users[i], lent, false);
        assert_context_ok(users[i]);
        assert_ptr_equal(exec_kit_place(x), place);
    }
    exec_kit_expect(x, (float[]){1, 2, 3, 4}, 4);
    berth_tensor* y = berth_neg(other, berth_move(x)); // ends all of it, one in the other
    exec_kit_expect(y, (float[]){-1, -2, -3, -4}, 4);
    berth_release(y);
    assert_int_equal(kit->ctx->home.live_objects, 0);
    assert_int_equal(other->home.live_objects, 0);
    berth_context_release(other);
}

static void a_loan_outlives_its_tensor_context_and_runtime(void** state) {
    (void)state;
    for (int in_step = 0; in_step < 2; ++in_step) {
        failing_host host;
        failing_host_init(&host);
        exec_kit kit;
        const berth_option_setting settings[] = {{"device", "sim"}, {"log", "off"}};
        assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
        if (in_step != 0) assert_ok(exec_kit_begin(kit.ctx, "open", 4));
        berth_tensor* x = exec_kit_ramp(kit.ctx, 1, 4);
        DLManagedTensor* lent = lend(x);
        berth_release(x);
        exec_kit_close(&kit);
        assert_memory_equal(lent->dl_tensor.data, ((float[]){1, 2, 3, 4}), 16);
        assert_true(atomic_load(&host.live_blocks) > 0);
        lent->deleter(lent);
        assert_int_equal(atomic_load(&host.live_blocks), 0);
    }
}

enum { LOANS = 2000 };

typedef struct borrower {
    _Atomic size_t returned;
    _Atomic bool is_over;
    _Atomic(DLManagedTensor*) hand[8];
} borrower;

/// Takes loans as they come, looks at them and gives them back.
static void* give_back_elsewhere(void* argument) {
    borrower* b = argument;
    bool was_over;
    do {
        was_over = atomic_load(&b->is_over); // before the last look
        for (size_t i = 0; i < 8; ++i) {
            DLManagedTensor* lent = atomic_exchange(&b->hand[i], NULL);
            if (lent == NULL) continue;
            const float* values = lent->dl_tensor.data;
            if (values[0] == -values[1]) atomic_fetch_add(&b->returned, 1);
            lent->deleter(lent);
        }
    } while (!was_over);
    return NULL;
}

static void deleters_may_be_called_from_another_thread_while_ops_run(void** state) {
    exec_kit* kit = *state;
    borrower b = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, give_back_elsewhere, &b), 0);
    for (int i = 0; i < LOANS;) {
        assert_ok(exec_kit_begin(kit->ctx, "lending", 2));
        for (size_t k = 0; k < 8 && i < LOANS; ++k) {
            if (atomic_load(&b.hand[k]) != NULL) continue;
            berth_tensor* x = berth_full(kit->ctx, 1, BERTH_F32, 1, (int64_t[]){2});
            assert_ok(berth_tensor_write(x, (float[]){(float)i, (float)-i}, 8));
            atomic_store(&b.hand[k], lend(x));
            berth_release(berth_neg(kit->ctx, berth_move(x)));
            ++i;
        }
        assert_ok(berth_step_end(kit->ctx));
    }
    atomic_store(&b.is_over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_context_ok(kit->ctx);
    assert_int_equal(b.returned, LOANS);
    berth_home_lock(&kit->ctx->home);
    berth_home_unlock(&kit->ctx->home);
    assert_int_equal(kit->ctx->home.live_objects, 0);
}

static void a_child_leaves_its_parents_loans_alone(void** state) {
    exec_kit* kit = *state;
    stranger s;
    make_stranger(&s);
    berth_tensor* x = exec_kit_ramp(kit->ctx, 1, 4);
    DLManagedTensor* lent = lend(x);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        DLManagedTensor* more = lent;
        lent->deleter(lent);
        const bool refused = berth_tensor_to_dlpack(x, &more) == BERTH_ERR_FORKED && more == NULL;
        const bool none = berth_tensor_from_dlpack(kit->ctx, &s.managed, true) == NULL;
        _exit(refused && none && s.deletions == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(pins_of(x), 1);
    lent->deleter(lent);
    berth_release(x);
}

// --- Failures -----------------------------------------------------------------------------------

/// In and out once. True if all went well; after a failure nothing is held.
static bool exchange(berth_context* ctx) {
    stranger s;
    make_stranger(&s);
    berth_tensor* x = berth_tensor_from_dlpack(ctx, &s.managed, false);
    assert_true((x == NULL) == (berth_context_error(ctx) != BERTH_OK));
    DLManagedTensor* lent = NULL;
    const berth_status status = x != NULL ? berth_tensor_to_dlpack(x, &lent) : BERTH_ERR_STATE;
    assert_true((lent == NULL) == (status != BERTH_OK));
    if (x != NULL) assert_int_equal(pins_of(x), lent != NULL ? 1 : 0);
    const int expected = x != NULL ? 1 : 0;
    berth_release(x);
    if (lent != NULL) {
        assert_int_equal(s.deletions, 0);
        lent->deleter(lent);
    }
    assert_int_equal(s.deletions, expected);
    berth_context_clear_error(ctx);
    return lent != NULL;
}

static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    const berth_option_setting settings[] = {{"threads", "1"}, {"log", "off"}};
    size_t faults = 0;
    for (bool goes_well = false; !goes_well; ++faults) {
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
        failing_host_fail(&host, faults + 1, false);
        goes_well = exchange(kit.ctx);
        assert_true(goes_well != failing_host_has_failed(&host));
        failing_host_fail(&host, 0, false);
        assert_true(exchange(kit.ctx));
        exec_kit_close(&kit);
        assert_int_equal(atomic_load(&host.live_blocks), 0);
    }
    assert_true(faults > 4);
}

static void the_device_may_refuse_to_wait(void** state) {
    exec_kit* kit = *state;
    static const berth_sim_call calls[] = {BERTH_SIM_RECORD, BERTH_SIM_WAIT};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        berth_tensor* x = exec_kit_ramp(kit->ctx, 1, 4);
        berth_sim_fail(kit->runtime->device, calls[i], 1);
        DLManagedTensor* lent;
        assert_fails(berth_tensor_to_dlpack(x, &lent), BERTH_ERR_DEVICE, "injected");
        assert_null(lent);
        assert_int_equal(pins_of(x), 0);
        lent = lend(x);
        assert_memory_equal(lent->dl_tensor.data, ((float[]){1, 2, 3, 4}), 16);
        lent->deleter(lent);
        berth_release(x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(a_strangers_memory_is_used_where_it_lies),
        EXEC_KIT_ON_BOTH(no_op_writes_to_a_strangers_memory_and_a_read_only_one_never_is),
        EXEC_KIT_ON_BOTH(strides_may_be_missing_negative_or_zero_and_an_offset_counts_bytes),
        EXEC_KIT_ON_BOTH(a_tensor_without_elements_or_a_deleter_is_one_too),
        EXEC_KIT_ON_BOTH(what_cannot_come_in_is_refused_by_name_and_stays_its_owners),
        EXEC_KIT_ON_BOTH(an_export_says_all_that_there_is_to_say),
        EXEC_KIT_ON_BOTH(the_borrower_sees_finished_work),
        EXEC_KIT_ON_BOTH(a_lent_storage_is_pinned_and_no_op_writes_to_it),
        EXEC_KIT_ON_BOTH(a_value_lent_in_a_planned_step_stays_where_it_is),
        EXEC_KIT_ON_BOTH(what_cannot_go_out_is_refused),
        EXEC_KIT_ON_BOTH(a_device_out_of_the_hosts_reach_lends_nothing_and_copies_what_comes),
        EXEC_KIT_ON_BOTH(a_tensor_that_went_out_may_come_back_in),
        cmocka_unit_test(a_loan_outlives_its_tensor_context_and_runtime),
        EXEC_KIT_ON_BOTH(deleters_may_be_called_from_another_thread_while_ops_run),
        EXEC_KIT_ON_BOTH(a_child_leaves_its_parents_loans_alone),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
        cmocka_unit_test_setup_teardown(
            the_device_may_refuse_to_wait, exec_kit_set_up_sim, exec_kit_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
