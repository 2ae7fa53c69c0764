// SPDX-License-Identifier: Apache-2.0
// The happens-before check over whole programs: silent over right ones, and whatever wait is left
// out is seen, whether results would have suffered or not.
#include "base/log.h"
#include "device/order_check.h"
#include "exec_kit.h"
#include "kit/program.h"

static const program_way ways[] = {
    {"auto", {{"device", "sim"}, {"check_order", "1"}}, 2, false, false},
    {"plan", {{"device", "sim"}, {"mode", "plan"}, {"check_order", "1"}}, 3, true, false},
    {"pool", {{"device", "sim"}, {"mode", "pool"}, {"check_order", "1"}}, 3, false, false},
    {"trimmed", {{"device", "sim"}, {"keep", "none"}, {"check_order", "1"}}, 3, false, false},
};

static void right_programs_are_left_alone(void** state) {
    (void)state;
    for (uint64_t seed = 5001; seed <= 5400; ++seed) {
        const program_way* way = &ways[seed % (sizeof ways / sizeof ways[0])];
        const program_result result = program_run(seed, 5, way);
        if (result.failure[0] != '\0')
            fail_msg("program %u (%s): %s", (unsigned)seed, way->name, result.failure);
    }
}

static berth_status no_wait(berth_device* self,
                            berth_stream* stream,
                            berth_stream* other,
                            uint64_t ticket) {
    (void)self, (void)stream, (void)other, (void)ticket;
    return BERTH_OK;
}

/// Two contexts on the simulated device, whose streams never wait for each other.
typedef struct careless_kit {
    exec_kit kit;
    berth_context* other;
    berth_device_ops ops;
    const berth_device_ops* right;
} careless_kit;

static void careless_open(careless_kit* self) {
    const berth_option_setting settings[] = {
        {"device", "sim"}, {"check_order", "1"}, {"log", "off"}};
    assert_ok(exec_kit_open(&self->kit, NULL, settings, 3));
    assert_ok(berth_context_create(self->kit.runtime, &self->other));
    berth_device* device = self->kit.runtime->device;
    self->right = device->ops;
    self->ops = *device->ops;
    self->ops.wait_stream = no_wait;
    device->ops = &self->ops;
}

static void careless_close(careless_kit* self) {
    self->kit.runtime->device->ops = self->right;
    berth_context_release(self->other);
    exec_kit_close(&self->kit);
    assert_ok(berth_log_configure("warn"));
}

static void an_operand_that_is_not_waited_for_is_refused(void** state) {
    (void)state;
    careless_kit self;
    careless_open(&self);
    berth_tensor* x = exec_kit_ramp(self.kit.ctx, 0, 100);
    assert_null(berth_neg(self.other, x));
    assert_context_fails(self.other, BERTH_ERR_STATE, "neg of stream 2 would read 400 bytes");
    assert_int_equal(berth_order_check_query_refused(self.kit.runtime->device), 1);
    // the host's own wait orders them as well
    assert_ok(berth_context_synchronize(self.kit.ctx));
    berth_tensor* y = berth_neg(self.other, x);
    assert_context_ok(self.other);
    berth_release_all(x, y);
    careless_close(&self);
}

static void bytes_that_another_stream_still_reads_are_not_given_anew(void** state) {
    (void)state;
    careless_kit self;
    careless_open(&self);
    berth_tensor* x = exec_kit_ramp(self.kit.ctx, 0, 100);
    assert_ok(berth_context_synchronize(self.kit.ctx));
    berth_tensor* y = berth_neg(self.other, x);
    assert_context_ok(self.other);
    const void* place = exec_kit_place(x);
    // its end makes the first stream wait for the other's use: here it does not
    berth_release(x);
    assert_null(exec_kit_ramp(self.kit.ctx, 1, 100));
    assert_context_fails(self.kit.ctx, BERTH_ERR_STATE, "while neg of stream 2");
    assert_ok(berth_context_synchronize(self.other));
    x = exec_kit_ramp(self.kit.ctx, 1, 100);
    assert_ptr_equal(exec_kit_place(x), place);
    berth_release_all(x, y);
    careless_close(&self);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_programs_are_left_alone),
        cmocka_unit_test(an_operand_that_is_not_waited_for_is_refused),
        cmocka_unit_test(bytes_that_another_stream_still_reads_are_not_given_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
