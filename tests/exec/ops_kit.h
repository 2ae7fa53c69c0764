// SPDX-License-Identifier: Apache-2.0
// Fixtures for tests of ops by their public functions: small tensors, shapes, failing memory.
#ifndef BERTH_TEST_OPS_KIT_H
#define BERTH_TEST_OPS_KIT_H

#include "exec/exec_kit.h"

static inline berth_context* ops_kit_context(void** state) { return ((exec_kit*)*state)->ctx; }

/// True where nobody looks at data before the kernel runs.
static inline bool ops_kit_is_async(const berth_context* ctx) {
    return berth_device_is_async(ctx->home.stream->device);
}

/// [rank] f32 with values 0, 1, 2, ...
static inline berth_tensor* ops_kit_ramp(berth_context* ctx, int32_t rank, const int64_t* dims) {
    int64_t count = 1;
    for (int32_t i = 0; i < rank; ++i)
        count *= dims[i];
    return berth_reshape(ctx, berth_move(exec_kit_ramp(ctx, 0, count)), rank, dims);
}

/// [rank] i64 with the given values; NULL if there is no memory for it.
static inline berth_tensor* ops_kit_integers(berth_context* ctx,
                                             int32_t rank,
                                             const int64_t* dims,
                                             const int64_t* values) {
    berth_tensor* x = berth_empty(ctx, BERTH_I64, rank, dims);
    if (x != NULL) assert_ok(berth_tensor_write(x, values, berth_tensor_bytes(x)));
    return x;
}

static inline void ops_kit_expect_dims(const berth_tensor* x, int32_t rank, const int64_t* dims) {
    assert_non_null(x);
    assert_int_equal(berth_tensor_rank(x), rank);
    for (int32_t i = 0; i < rank; ++i)
        assert_int_equal(berth_tensor_dims(x)[i], dims[i]);
}

/// Fails if an error sticks or a tensor is left.
static inline void ops_kit_expect_nothing_left(berth_context* ctx) {
    assert_context_ok(ctx);
    assert_int_equal(ctx->home.live_objects, 0);
}

/// Runs `scenario`, which releases all that it makes, with the n-th call for host memory failing,
/// for every n until none fails. If that is more than the library can do without, it is the
/// context's error; nothing is left.
static inline void ops_kit_fail_everywhere(void (*scenario)(berth_context* ctx)) {
    failing_host host;
    failing_host_init(&host);
    const berth_option_setting settings[] = {{"threads", "1"}, {"log", "off"}};
    size_t reported = 0;
    bool goes_well = false;
    for (size_t nth = 1; !goes_well; ++nth) {
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
        failing_host_fail(&host, nth, false);
        scenario(kit.ctx);
        goes_well = !failing_host_has_failed(&host);
        failing_host_fail(&host, 0, false);
        if (berth_context_error(kit.ctx) != BERTH_OK) {
            assert_false(goes_well);
            assert_context_fails(kit.ctx, BERTH_ERR_OUT_OF_MEMORY, "");
            ++reported;
        }
        ops_kit_expect_nothing_left(kit.ctx);
        scenario(kit.ctx);
        ops_kit_expect_nothing_left(kit.ctx);
        exec_kit_close(&kit);
        assert_int_equal(atomic_load(&host.live_blocks), 0);
    }
    assert_true(reported > 1);
}

#endif // BERTH_TEST_OPS_KIT_H
