// SPDX-License-Identifier: Apache-2.0
// Tensors as text, against texts that NumPy made.
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "device/cpu/kernel_convert_scalar.h"
#include "exec/exec_kit.h"
#include "files/print_texts.h"

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

/// The text of `tensor`; to be freed.
static char* text_of(berth_tensor* tensor, const berth_print_options* options) {
    size_t length, again;
    assert_ok(berth_tensor_format(tensor, options, NULL, 0, &length));
    char* text = malloc(length + 1);
    assert_non_null(text);
    assert_ok(berth_tensor_format(tensor, options, text, length + 1, &again));
    assert_int_equal(again, length);
    assert_int_equal(strlen(text), length);
    return text;
}

static void expect_text(berth_tensor* tensor,
                        const berth_print_options* options,
                        const char* expected) {
    assert_non_null(tensor);
    char* text = text_of(tensor, options);
    assert_string_equal(text, expected);
    free(text);
}

/// Bits of the number `i` as an element of `dtype`.
static uint64_t bits_of(berth_dtype dtype, int64_t i) {
    if (dtype == BERTH_F32) return berth_f32_to_bits((float)i);
    if (dtype == BERTH_F16) return berth_f32_to_f16((float)i);
    return (uint64_t)i;
}

static berth_tensor* make_tensor(berth_context* ctx,
                                 berth_dtype dtype,
                                 int32_t rank,
                                 const int64_t* dims,
                                 const uint64_t* bits) {
    berth_tensor* x = berth_empty(ctx, dtype, rank, dims);
    assert_non_null(x);
    const size_t count = (size_t)berth_tensor_count(x);
    const size_t item = berth_dtype_query_info(dtype)->block_bytes;
    unsigned char* data = calloc(count + 1, item);
    assert_non_null(data);
    for (size_t i = 0; i < count; ++i) {
        const uint64_t value = bits != NULL ? bits[i] : bits_of(dtype, (int64_t)i);
        memcpy(data + i * item, &value, item);
    }
    assert_ok(berth_tensor_write(x, data, count * item));
    free(data);
    return x;
}

static void arrays_are_written_as_numpy_writes_them(void** state) {
    berth_context* ctx = context_of(state);
    for (size_t i = 0; i < sizeof print_texts / sizeof print_texts[0]; ++i) {
        const print_text* t = &print_texts[i];
        assert_true(t->is_ramp || t->bits != NULL || t->dims[0] * t->dims[1] == 0);
        berth_tensor* x = make_tensor(ctx, t->dtype, t->rank, t->dims, t->bits);
        for (int32_t d = 0; t->is_turned && d < t->rank / 2; ++d)
            x = berth_transpose(ctx, berth_move(x), d, t->rank - 1 - d);
        expect_text(x, &t->options, t->expected);
        berth_release(x);
    }
}

static void no_options_are_the_default_ones(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 0, 1001);
    expect_text(x, NULL, "[   0.    1.    2. ...  998.  999. 1000.]");
    const berth_print_options options = BERTH_PRINT_OPTIONS_DEFAULT;
    char* text = text_of(x, NULL);
    expect_text(x, &options, text);
    free(text);
    berth_release(x);
}

static void bf16_has_the_digits_that_its_own_neighbours_need(void** state) {
    berth_context* ctx = context_of(state);
    const uint64_t bits[] = {0x3dcd, 0x4049, 0xbf80, 0x7f80};
    berth_tensor* x = make_tensor(ctx, BERTH_BF16, 1, (int64_t[]){4}, bits);
    expect_text(x, NULL, "[ 0.1   3.14 -1.     inf]");
    berth_release(x);
    x = make_tensor(ctx, BERTH_BF16, 0, NULL, (uint64_t[]){0x7f7f});
    expect_text(x, NULL, "3.39e+38");
    berth_release(x);
    x = make_tensor(ctx, BERTH_BF16, 0, NULL, (uint64_t[]){0x0001});
    expect_text(x, NULL, "9e-41");
    berth_release(x);
}

static void f16_and_f32_read_back_from_their_text(void** state) {
    berth_context* ctx = context_of(state);
    test_random random = test_random_make(7);
    for (uint32_t i = 0; i < 2000; ++i) {
        const bool is_half = i % 2 == 0;
        const uint64_t bits = test_random_u64(&random) & (is_half ? 0x7bff : 0x7f7fffff);
        const berth_dtype dtype = is_half ? BERTH_F16 : BERTH_F32;
        berth_tensor* x = make_tensor(ctx, dtype, 0, NULL, &bits);
        char* text = text_of(x, NULL);
        const float value = strtof(text, NULL);
        assert_int_equal(is_half ? berth_f32_to_f16(value) : berth_f32_to_bits(value), bits);
        free(text);
        berth_release(x);
    }
}

/// A gibibyte of which only the first and the last quarter of a mebibyte can be read.
static unsigned char* map_edges(size_t* out_bytes) {
    const size_t bytes = (size_t)1 << 30, edge = (size_t)1 << 18;
    unsigned char* data =
        mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(data != MAP_FAILED);
    assert_int_equal(mprotect(data, edge, PROT_READ), 0);
    assert_int_equal(mprotect(data + bytes - edge, edge, PROT_READ), 0);
    *out_bytes = bytes;
    return data;
}

static void only_the_elements_that_are_shown_are_read(void** state) {
    berth_context* ctx = context_of(state);
    size_t bytes;
    unsigned char* data = map_edges(&bytes);
    berth_tensor* x = berth_tensor_from_memory(
        ctx, data, bytes, BERTH_F32, 2, (int64_t[]){1 << 14, 1 << 14}, true, NULL, NULL);
    const char* expected = "[[0. 0. 0. ... 0. 0. 0.]\n"
                           " [0. 0. 0. ... 0. 0. 0.]\n"
                           " [0. 0. 0. ... 0. 0. 0.]\n"
                           " ...\n"
                           " [0. 0. 0. ... 0. 0. 0.]\n"
                           " [0. 0. 0. ... 0. 0. 0.]\n"
                           " [0. 0. 0. ... 0. 0. 0.]]";
    expect_text(x, NULL, expected);
    berth_tensor* turned = berth_transpose(ctx, x, 0, 1);
    expect_text(turned, NULL, expected);
    berth_release_all(x, turned);
    assert_ok(berth_context_synchronize(ctx));
    munmap(data, bytes);
}

static void a_quantised_tensor_is_described(void** state) {
    berth_context* ctx = context_of(state);
    unsigned char blocks[34 * 2] = {0};
    berth_tensor* x = berth_tensor_from_memory(
        ctx, blocks, sizeof blocks, BERTH_Q8_0, 2, (int64_t[]){1, 64}, true, NULL, NULL);
    expect_text(x,
                NULL,
                "q8_0[1, 64] strides [2, 1], 68 bytes at 0 of 68 in foreign memory, read-only, "
                "references 1, tensors on the storage 1");
    berth_release(x);
}

static void a_text_is_cut_to_its_buffer(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 1, 3);
    char buffer[16];
    for (size_t size = 1; size <= sizeof buffer; ++size) {
        size_t needed = 0;
        memset(buffer, 'x', sizeof buffer);
        assert_ok(berth_tensor_format(x, NULL, buffer, size, &needed));
        assert_int_equal(needed, 10);
        assert_memory_equal(buffer, "[1. 2. 3.]", size - 1 < 10 ? size - 1 : 10);
        assert_int_equal(buffer[size - 1 < 10 ? size - 1 : 10], '\0');
        for (size_t i = size; i < sizeof buffer; ++i)
            assert_int_equal(buffer[i], 'x');
    }
    assert_ok(berth_tensor_format(x, NULL, buffer, sizeof buffer, NULL));
    berth_release(x);
}

static void arguments_that_make_no_sense_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 1, 3);
    size_t needed = 7;
    char buffer[4];
    assert_fails(berth_tensor_format(NULL, NULL, buffer, 4, &needed),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "the tensor is NULL");
    assert_int_equal(needed, 0);
    assert_fails(berth_tensor_format(x, NULL, NULL, 4, &needed),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "the buffer is NULL");
    assert_fails(berth_tensor_print(x, NULL), BERTH_ERR_INVALID_ARGUMENT, "the file is NULL");
    assert_fails(berth_tensor_print(NULL, stdout), BERTH_ERR_INVALID_ARGUMENT, "tensor is NULL");
    const berth_print_options wrong[] = {
        {-1, 1000, 3, 75}, {8, -1, 3, 75}, {8, 1000, 0, 75}, {8, 1000, 3, 0}};
    for (size_t i = 0; i < 4; ++i)
        assert_fails(berth_tensor_format(x, &wrong[i], buffer, 4, &needed),
                     BERTH_ERR_INVALID_ARGUMENT,
                     i == 0 ? "precision -1" : "the least");
    const berth_print_options widest = {INT32_MAX, INT64_MAX, INT32_MAX, INT32_MAX};
    expect_text(x, &widest, "[1. 2. 3.]");
    berth_release(x);
}

static void printing_ends_with_a_line_end(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 1, 3);
    char* text = NULL;
    size_t size = 0;
    FILE* file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_ok(berth_tensor_print(x, file));
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, "[1. 2. 3.]\n");
    free(text);
    berth_release(x);
}

static void a_file_that_takes_nothing_is_an_error(void** state) {
    berth_context* ctx = context_of(state);
    FILE* file = fopen("/dev/full", "w");
    if (file == NULL) {
        print_message("skipped: there is no /dev/full\n");
        skip();
    }
    setvbuf(file, NULL, _IONBF, 0);
    berth_tensor* x = exec_kit_ramp(ctx, 1, 3);
    assert_fails(berth_tensor_print(x, file), BERTH_ERR_IO, "No space left");
    fclose(file);
    berth_release(x);
}

static void a_step_that_prints_follows_its_plan(void** state) {
    berth_context* ctx = context_of(state);
    for (int64_t i = 0; i < 6; ++i) {
        assert_ok(exec_kit_begin(ctx, "printing", 11 + i));
        berth_tensor* x = exec_kit_ramp(ctx, 0, 11 + i);
        char* text = text_of(x, NULL);
        assert_int_equal(strncmp(text, "[ 0.  1.  2.", 12), 0);
        free(text);
        berth_release(x);
        assert_ok(berth_step_end(ctx));
    }
    assert_true(exec_kit_counters(berth_context_runtime(ctx), "printing").hits >= 3);
}

static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    const berth_option_setting settings[] = {{"device", "cpu"}, {"threads", "1"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, &host.allocator, settings, 2));
    berth_tensor* x = exec_kit_ramp(kit.ctx, 1, 3);
    FILE* file = fopen("/dev/null", "w");
    assert_non_null(file);
    size_t failures = 0;
    for (size_t n = 1;; ++n) {
        failing_host_fail(&host, n, false);
        const berth_status status = berth_tensor_print(x, file);
        if (!failing_host_has_failed(&host)) {
            assert_int_equal(status, BERTH_OK);
            break;
        }
        assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        ++failures;
    }
    assert_true(failures >= 2);
    failing_host_fail(&host, 0, false);
    fclose(file);
    berth_release(x);
    exec_kit_close(&kit);
    assert_int_equal(atomic_load(&host.live_blocks), 0);
}

static void a_device_that_does_not_copy_is_reported(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 1, 3);
    assert_ok(berth_context_synchronize(ctx));
    size_t needed = 1;
    berth_sim_fail(berth_context_runtime(ctx)->device, BERTH_SIM_COPY, 1);
    assert_int_equal(berth_tensor_format(x, NULL, NULL, 0, &needed), BERTH_ERR_DEVICE);
    assert_int_equal(needed, 0);
    expect_text(x, NULL, "[1. 2. 3.]");
    berth_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(arrays_are_written_as_numpy_writes_them),
        EXEC_KIT_ON_BOTH(no_options_are_the_default_ones),
        EXEC_KIT_ON_BOTH(bf16_has_the_digits_that_its_own_neighbours_need),
        cmocka_unit_test_setup_teardown(
            f16_and_f32_read_back_from_their_text, exec_kit_set_up_cpu, exec_kit_tear_down),
        EXEC_KIT_ON_BOTH(only_the_elements_that_are_shown_are_read),
        EXEC_KIT_ON_BOTH(a_quantised_tensor_is_described),
        EXEC_KIT_ON_BOTH(a_text_is_cut_to_its_buffer),
        EXEC_KIT_ON_BOTH(arguments_that_make_no_sense_are_refused),
        EXEC_KIT_ON_BOTH(printing_ends_with_a_line_end),
        EXEC_KIT_ON_BOTH(a_file_that_takes_nothing_is_an_error),
        EXEC_KIT_ON_BOTH(a_step_that_prints_follows_its_plan),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
        cmocka_unit_test_setup_teardown(
            a_device_that_does_not_copy_is_reported, exec_kit_set_up_sim, exec_kit_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
