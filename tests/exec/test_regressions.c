// SPDX-License-Identifier: Apache-2.0
// Misuse and mishaps that once went wrong in the executor, each reduced to its shortest program.
#include "exec/exec_kit.h"

static int set_up(void** state) {
    static exec_kit kit;
    const berth_option_setting settings[] = {{"threads", "1"}, {"memory", "64M"}};
    *state = &kit;
    return exec_kit_open(&kit, NULL, settings, 2) == BERTH_OK ? 0 : -1;
}

/// Fails if an object that was given back twice is handed out twice.
static void expect_sound_objects(berth_context* ctx) {
    berth_context_clear_error(ctx);
    berth_tensor* ones = berth_ones(ctx, BERTH_F32, 1, (int64_t[]){4});
    berth_tensor* zeros = berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){4});
    assert_ptr_not_equal(ones, zeros);
    exec_kit_expect(ones, (float[]){1, 1, 1, 1}, 4);
    berth_release_all(ones, zeros);
}

static void a_reference_moved_twice_is_given_back_once_while_an_error_sticks(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    assert_null(berth_zeros(ctx, BERTH_F32, -1, NULL));
    assert_null(berth_add(ctx, berth_move(x), berth_move(x)));
    expect_sound_objects(ctx);
}

static void a_reference_moved_twice_is_given_back_once_beside_a_missing_operand(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    berth_tensor* const parts[3] = {berth_move(x), berth_move(x), NULL};
    assert_null(berth_cat(ctx, parts, 3, 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "operand 2 is NULL");
    expect_sound_objects(ctx);
}

static void parts_moved_too_often_give_each_reference_back_once(void** state) {
    exec_kit* kit = *state;
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 4);
    berth_tensor* y = exec_kit_ramp(kit->ctx, 4, 4);
    berth_retain(y); // two references, both handed over
    berth_tensor* parts[BERTH_OP_MAX_INPUTS + 1];
    for (size_t i = 0; i < BERTH_OP_MAX_INPUTS + 1; ++i)
        parts[i] = i < 2 ? berth_move(y) : berth_move(x);
    assert_null(berth_cat(kit->ctx, parts, BERTH_OP_MAX_INPUTS + 1, 0));
    assert_context_fails(
        kit->ctx, BERTH_ERR_INVALID_ARGUMENT, "moved more often than it is referenced");
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit->runtime, &stats));
    assert_int_equal(stats.requested_bytes, 0);
    expect_sound_objects(kit->ctx);
}

static void a_moved_target_that_is_also_the_source_lives_until_it_was_read(void** state) {
    exec_kit* kit = *state;
    // what has been given back is overwritten at once
    exec_kit_close(kit);
    const berth_option_setting settings[] = {{"threads", "1"}, {"poison", "free"}};
    assert_ok(exec_kit_open(kit, NULL, settings, 2));
    berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 4);
    berth_tensor* index = berth_arange(kit->ctx, 3, -1, -1, BERTH_I32);
    berth_tensor* y = berth_index_copy(kit->ctx, berth_move(x), 0, index, x);
    exec_kit_expect(y, (float[]){3, 2, 1, 0}, 4);
    berth_release_all(index, y);
}

/// One run of a step that makes [length, 16] tensors; with `fails` every third op asks for more
/// than there is, and the error is cleared. Fails unless each tensor holds what was put there.
static void run_with_failures(berth_context* ctx, int64_t length, bool fails) {
    enum { COUNT = 12 };
    berth_tensor* made[COUNT];
    assert_ok(exec_kit_begin(ctx, "mishap", length));
    for (int i = 0; i < COUNT; ++i) {
        if (i % 3 == 1) {
            const int64_t width = fails ? 1 << 20 : 16;
            berth_tensor* extra = berth_full(ctx, -1, BERTH_F32, 2, (int64_t[]){length, width});
            assert_int_equal(extra == NULL, fails);
            berth_release(extra);
            berth_context_clear_error(ctx);
        }
        made[i] = berth_full(ctx, i, BERTH_F32, 2, (int64_t[]){length, 16});
    }
    for (int i = 0; i < COUNT; ++i) {
        berth_tensor* largest = berth_reshape(ctx, made[i], 1, (int64_t[]){-1});
        largest = berth_max(ctx, berth_move(largest), BERTH_DIMS(0), false);
        exec_kit_expect(largest, (float[]){(float)i}, 1);
        berth_release_all(largest, made[i]);
    }
    assert_ok(berth_step_end(ctx));
}

static void a_moved_operand_that_is_copied_first_lives_until_the_op_has_read_it(void** state) {
    exec_kit* kit = *state;
    // what has been given back is overwritten at once
    exec_kit_close(kit);
    const berth_option_setting settings[] = {{"threads", "1"}, {"poison", "free"}};
    assert_ok(exec_kit_open(kit, NULL, settings, 2));
    berth_tensor* x =
        berth_reshape(kit->ctx, berth_move(exec_kit_ramp(kit->ctx, 0, 4)), 2, (int64_t[]){2, 2});
    x = berth_transpose(kit->ctx, berth_move(x), 0, 1); // [[0, 2], [1, 3]]
    berth_tensor* y = berth_linear(kit->ctx, berth_move(x), x, NULL);
    exec_kit_expect(y, (float[]){4, 6, 6, 10}, 4);
    berth_tensor* z = berth_reshape(kit->ctx, y, 3, (int64_t[]){2, 1, 2});
    z = berth_transpose(kit->ctx, berth_move(z), 0, 2); // heads of one number, rows not contiguous
    berth_tensor* keys = berth_expand(kit->ctx, z, 3, (int64_t[]){2, 1, 2});
    berth_tensor* all = berth_attention(kit->ctx, berth_move(keys), keys, keys, NULL, 0, false, 0);
    assert_int_equal(berth_tensor_count(all), 4);
    berth_release_all(y, z, all);
    expect_sound_objects(kit->ctx);
}

static void positions_and_divisors_may_have_any_strides(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = berth_ones(ctx, BERTH_F32, 3, (int64_t[]){3, 1, 4});
    berth_tensor* zero = berth_zeros(ctx, BERTH_I64, 0, NULL);
    berth_tensor* one = berth_ones(ctx, BERTH_F32, 0, NULL);
    berth_tensor* positions = berth_expand(ctx, zero, 1, (int64_t[]){3});
    berth_tensor* divisors = berth_expand(ctx, one, 1, (int64_t[]){2});
    berth_tensor* y = berth_rope(ctx, x, positions, divisors, NULL);
    exec_kit_expect(y, (float[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 12);
    berth_release_all(x, zero, one, positions, divisors, y);
}

static void a_part_of_a_tensor_without_elements_stays_within_the_storage(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){INT64_C(1) << 40, 0});
    berth_tensor* part = berth_select(ctx, x, 0, -1);
    berth_tensor_properties properties;
    assert_ok(berth_tensor_info(part, &properties));
    assert_int_equal(properties.offset_bytes, 0);
    berth_release_all(x, part);
}

static void a_tensor_that_is_not_mapped_cannot_be_unmapped(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = exec_kit_ramp(ctx, 0, 4);
    void* data;
    berth_tensor_properties properties;
    berth_tensor_unmap(x);
    assert_ok(berth_tensor_map(x, &data));
    assert_ok(berth_tensor_info(x, &properties));
    assert_true(properties.is_pinned);
    berth_tensor_unmap(x);
    berth_tensor_unmap(x);
    assert_ok(berth_tensor_info(x, &properties));
    assert_false(properties.is_pinned);
    berth_release(x);
}

static void a_view_of_another_runtime_s_tensor_is_refused(void** state) {
    exec_kit* kit = *state;
    static exec_kit other;
    assert_ok(exec_kit_open(&other, NULL, NULL, 0));
    berth_tensor* x = exec_kit_ramp(other.ctx, 0, 4);
    assert_null(berth_slice(kit->ctx, x, 0, 1, 3, 1));
    assert_context_fails(kit->ctx, BERTH_ERR_INVALID_ARGUMENT, "another runtime");
    berth_context_clear_error(kit->ctx);
    assert_null(berth_contiguous(kit->ctx, berth_move(x)));
    assert_context_fails(kit->ctx, BERTH_ERR_INVALID_ARGUMENT, "another runtime");
    exec_kit_close(&other);
    expect_sound_objects(kit->ctx);
}

static void a_copy_that_fails_is_called_a_copy(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* one = berth_ones(ctx, BERTH_F32, 0, NULL);
    berth_tensor* many = berth_expand(ctx, one, 1, (int64_t[]){INT64_C(1) << 40});
    assert_null(berth_copy(ctx, many));
    assert_context_fails(ctx, BERTH_ERR_OUT_OF_MEMORY, "copy(f32[1099511627776])");
    berth_context_clear_error(ctx);
    berth_release_all(one, many);
}

static void an_op_that_fails_in_a_replay_does_not_shift_the_places_of_the_rest(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    for (int64_t length = 100; length < 160; length += 10)
        run_with_failures(ctx, length, false);
    run_with_failures(ctx, 160, true);
    run_with_failures(ctx, 170, false);
}

static void foreign_memory_without_bytes_may_be_at_null(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x =
        berth_tensor_from_memory(ctx, NULL, 0, BERTH_F32, 2, (int64_t[]){0, 3}, false, NULL, NULL);
    berth_tensor* both = berth_cat(ctx, (berth_tensor* const[]){x, x}, 2, 0);
    berth_tensor* sum = berth_sum(ctx, x, BERTH_DIMS(0), false);
    exec_kit_expect(sum, (float[]){0, 0, 0}, 3);
    assert_ok(berth_tensor_read(x, NULL, 0));
    assert_int_equal(berth_tensor_dim(both, 0), 0);
    berth_release_all(x, both, sum);
}

static void a_query_offset_as_large_as_can_be_sees_every_key(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* x = berth_randn(ctx, 1, 0, 1, BERTH_F32, 3, (int64_t[]){5, 2, 8});
    berth_tensor* all = berth_attention(ctx, x, x, x, NULL, 0, false, 0);
    berth_tensor* causal = berth_attention(ctx, x, x, x, NULL, 0, true, INT64_MAX);
    float expected[80], values[80];
    assert_ok(berth_tensor_read(all, expected, sizeof expected));
    assert_ok(berth_tensor_read(causal, values, sizeof values));
    assert_memory_equal(values, expected, sizeof values);
    berth_release_all(x, all, causal);
}

static void many_small_values_that_outlive_their_step_are_admitted(void** state) {
    enum { COUNT = 200 };
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    berth_tensor* made[COUNT];
    for (int64_t width = 10; width <= 8000; width += 1598) {
        assert_ok(exec_kit_begin(ctx, "makes many", width));
        for (int i = 0; i < COUNT; ++i)
            made[i] = berth_zeros(ctx, BERTH_F32, 1, &width);
        assert_ok(berth_step_end(ctx));
        berth_release_array(made, COUNT);
    }
}

static void a_size_that_falls_steeply_from_a_huge_symbol_is_learned(void** state) {
    berth_context* ctx = ((exec_kit*)*state)->ctx;
    for (int64_t i = 0; i < 6; ++i) {
        // 2 i = 2^63 - 2 (2^62 - i): the constant of that line does not fit 64 bits
        const berth_step_integer symbol = {.name = "s", .value = (INT64_C(1) << 62) - i};
        const berth_step_desc desc = {.name = "steep", .integers = &symbol, .integer_count = 1};
        assert_ok(berth_step_begin(ctx, &desc));
        berth_tensor* x = berth_zeros(ctx, BERTH_U8, 2, (int64_t[]){0, 2 * i});
        assert_non_null(x);
        berth_release(x);
        assert_ok(berth_step_end(ctx));
    }
}

/// Results x and x with as many further dimensions of 1 as the parameter says.
static berth_status infer_with_ones(berth_op_call* call) {
    berth_view* more = &call->outputs[1];
    call->outputs[0] = call->outputs[1] = call->inputs[0];
    for (int32_t left = *(const int32_t*)call->params; left > 0; --left)
        more->dims[more->rank++] = 1;
    return BERTH_OK;
}

static void write_nothing(const berth_op_call* call) { (void)call; }

static void results_of_more_dimensions_than_planned_are_written_down_safely(void** state) {
    exec_kit* kit = *state;
    const berth_op_desc desc = {.struct_size = sizeof desc,
                                .name = "with_ones",
                                .min_inputs = 1,
                                .max_inputs = 1,
                                .output_count = 2,
                                .infer = infer_with_ones,
                                .kernels = {[BERTH_DEVICE_CPU] = write_nothing}};
    const berth_op* op;
    assert_ok(berth_op_register(kit->runtime, &desc, &op));
    for (int32_t run = 0; run < 8; ++run) {
        const int32_t ones = run < 4 ? 0 : BERTH_MAX_RANK - 1;
        assert_ok(exec_kit_begin(kit->ctx, "ones", 64 + run * 64));
        for (int i = 0; i < 40; ++i) {
            berth_tensor* more;
            berth_tensor* x = exec_kit_ramp(kit->ctx, 0, 64 + run * 64);
            berth_tensor* y = berth_apply(kit->ctx, op, &x, 1, &ones, sizeof ones, &more);
            assert_non_null(y);
            assert_int_equal(berth_tensor_rank(more), 1 + ones);
            berth_release_all(x, y, more);
        }
        assert_ok(berth_step_end(kit->ctx));
    }
}

static void settings_that_are_missing_are_refused(void** state) {
    (void)state;
    const berth_runtime_options options = {.struct_size = sizeof options, .setting_count = 2};
    berth_runtime* runtime;
    assert_fails(berth_runtime_create(&options, &runtime), BERTH_ERR_INVALID_ARGUMENT, "missing");
    assert_null(runtime);
}

static void a_packing_without_its_arrays_is_refused(void** state) {
    (void)state;
    const berth_interval interval = {.size = 1, .start = 0, .end = 1};
    const berth_pack_problem none = {.count = 0};
    const berth_pack_problem missing = {.count = 1};
    const berth_pack_problem one = {.intervals = &interval, .count = 1};
    uint64_t offset;
    berth_pack_result result;
    assert_fails(berth_pack(NULL, NULL, &offset, &result), BERTH_ERR_INVALID_ARGUMENT, "missing");
    assert_fails(
        berth_pack(&missing, NULL, &offset, &result), BERTH_ERR_INVALID_ARGUMENT, "missing");
    assert_fails(berth_pack(&one, NULL, NULL, &result), BERTH_ERR_INVALID_ARGUMENT, "missing");
    assert_fails(berth_pack(&one, NULL, &offset, NULL), BERTH_ERR_INVALID_ARGUMENT, "missing");
    assert_ok(berth_pack(&none, NULL, NULL, &result));
}

static void a_configuration_is_not_written_to_nowhere(void** state) {
    (void)state;
    size_t needed = 1;
    assert_fails(berth_config_format(NULL, 0, NULL, 0, NULL), BERTH_ERR_INVALID_ARGUMENT, "place");
    assert_fails(berth_config_markdown(NULL, 8, &needed), BERTH_ERR_INVALID_ARGUMENT, "buffer");
    assert_ok(berth_config_format(NULL, 0, NULL, 0, &needed));
    assert_true(needed > 1);
}

#define ON_A_KIT(test) cmocka_unit_test_setup_teardown(test, set_up, exec_kit_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_A_KIT(a_reference_moved_twice_is_given_back_once_while_an_error_sticks),
        ON_A_KIT(a_reference_moved_twice_is_given_back_once_beside_a_missing_operand),
        ON_A_KIT(parts_moved_too_often_give_each_reference_back_once),
        ON_A_KIT(a_moved_target_that_is_also_the_source_lives_until_it_was_read),
        ON_A_KIT(a_moved_operand_that_is_copied_first_lives_until_the_op_has_read_it),
        ON_A_KIT(positions_and_divisors_may_have_any_strides),
        ON_A_KIT(a_part_of_a_tensor_without_elements_stays_within_the_storage),
        ON_A_KIT(a_tensor_that_is_not_mapped_cannot_be_unmapped),
        ON_A_KIT(a_view_of_another_runtime_s_tensor_is_refused),
        ON_A_KIT(a_copy_that_fails_is_called_a_copy),
        ON_A_KIT(an_op_that_fails_in_a_replay_does_not_shift_the_places_of_the_rest),
        ON_A_KIT(foreign_memory_without_bytes_may_be_at_null),
        ON_A_KIT(a_query_offset_as_large_as_can_be_sees_every_key),
        ON_A_KIT(many_small_values_that_outlive_their_step_are_admitted),
        ON_A_KIT(a_size_that_falls_steeply_from_a_huge_symbol_is_learned),
        ON_A_KIT(results_of_more_dimensions_than_planned_are_written_down_safely),
        cmocka_unit_test(settings_that_are_missing_are_refused),
        cmocka_unit_test(a_packing_without_its_arrays_is_refused),
        cmocka_unit_test(a_configuration_is_not_written_to_nowhere),
    };
    return cmocka_run_group_tests_name("exec/regressions", tests, NULL, NULL);
}
