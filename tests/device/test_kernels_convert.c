// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the types that are stored in fewer bits.
#include "device/kernel_kit.h"

#include "device/cpu/kernel_convert.h"
#include "kit/shared_data.h"

static const berth_dtype quantised[] = {
    BERTH_Q4_0, BERTH_Q4_1, BERTH_Q5_0, BERTH_Q5_1, BERTH_Q8_0, BERTH_Q4_K, BERTH_Q5_K, BERTH_Q6_K};
static const size_t quantised_count = sizeof quantised / sizeof quantised[0];

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void for_each_isa(void (*check)(const berth_convert_rows* rows)) {
    for (int isa = BERTH_CPU_ISA_PORTABLE; isa <= BERTH_CPU_ISA_AVX512; ++isa) {
        berth_cpu_set_isa((berth_cpu_isa)isa);
        check(berth_convert_query_rows());
    }
}

static void check_every_small_float(const berth_convert_rows* rows) {
    static uint16_t halves[65536];
    static float wide[65536];
    const berth_dtype dtypes[] = {BERTH_F16, BERTH_BF16};
    for (int i = 0; i < 65536; ++i)
        halves[i] = (uint16_t)i;
    for (int t = 0; t < 2; ++t) {
        rows->to_f32[dtypes[t]](halves, wide, 65536);
        for (int i = 0; i < 65536; ++i) {
            const double expected = kit_small_float((uint16_t)i, t == 0 ? 5 : 8);
            if (isnan(expected))
                assert_true(isnan(wide[i]));
            else
                assert_true(bits_of((float)expected) == bits_of(wide[i]));
        }
    }
}

static void every_half_and_bfloat16_converts_exactly(void** state) {
    (void)state;
    for_each_isa(check_every_small_float);
}

static void check_rounding(const berth_convert_rows* rows) {
    enum { COUNT = 40007 };
    static float values[COUNT];
    static uint16_t halves[COUNT];
    const berth_dtype dtypes[] = {BERTH_F16, BERTH_BF16};
    for (int t = 0; t < 2; ++t) {
        kit_seed(7);
        const int bits = t == 0 ? 5 : 8;
        for (int i = 0; i < COUNT; ++i) {
            const uint16_t any = (uint16_t)kit_next();
            const double low = kit_small_float(any, bits);
            const double high = kit_small_float((uint16_t)(any + 1), bits);
            const uint32_t raw = (uint32_t)kit_next();
            // Any bits, a value that needs no rounding, and a tie between two neighbours.
            if (i % 3 == 0)
                memcpy(&values[i], &raw, sizeof raw);
            else
                values[i] = (float)(i % 3 == 1 ? low : (low + high) / 2);
        }
        rows->from_f32[dtypes[t]](values, halves, COUNT);
        for (int i = 0; i < COUNT; ++i) {
            const uint16_t expected = kit_to_small_float((double)values[i], bits);
            if (isnan(values[i]))
                assert_true(isnan(kit_small_float(halves[i], bits)));
            else
                assert_int_equal(expected, halves[i]);
        }
    }
}

static void rounding_is_to_nearest_even(void** state) {
    (void)state;
    for_each_isa(check_rounding);
}

static void a_value_converts_alike_wherever_it_stands(void** state) {
    (void)state;
    kit_seed(11);
    for (int isa = BERTH_CPU_ISA_PORTABLE; isa <= BERTH_CPU_ISA_AVX512; ++isa) {
        berth_cpu_set_isa((berth_cpu_isa)isa);
        const berth_convert_rows* rows = berth_convert_query_rows();
        uint16_t halves[50];
        float wide[50];
        for (int i = 0; i < 50; ++i)
            halves[i] = (uint16_t)kit_next();
        for (int n = 0; n <= 50; ++n) {
            wide[n < 50 ? n : 0] = -3.5f;
            const float before = n < 50 ? wide[n] : 0.0f;
            rows->to_f32[BERTH_F16](halves, wide, n);
            for (int i = 0; i < n; ++i) {
                float alone;
                rows->to_f32[BERTH_F16](halves + i, &alone, 1);
                assert_int_equal(bits_of(alone), bits_of(wide[i]));
                uint16_t back = 0;
                rows->from_f32[BERTH_F16](&alone, &back, 1);
                if (!isnan(alone)) assert_int_equal(back, halves[i]);
            }
            if (n < 50) assert_int_equal(bits_of(before), bits_of(wide[n]));
        }
    }
}

static void instruction_sets_agree_on_every_bit_of_random_blocks(void** state) {
    (void)state;
    kit_seed(3);
    enum { VALUES = 1024 };
    for (size_t t = 0; t < quantised_count; ++t) {
        const berth_dtype_info* info = berth_dtype_query_info(quantised[t]);
        const size_t bytes = VALUES / info->block_values * info->block_bytes;
        unsigned char* blocks = malloc(bytes);
        assert_non_null(blocks);
        for (size_t i = 0; i < bytes; ++i)
            blocks[i] = (unsigned char)kit_next();
        float expected[VALUES];
        berth_convert_rows_portable.to_f32[quantised[t]](blocks, expected, VALUES);
        for (int isa = BERTH_CPU_ISA_AVX2; isa <= BERTH_CPU_ISA_AVX512; ++isa) {
            float found[VALUES];
            berth_cpu_set_isa((berth_cpu_isa)isa);
            berth_convert_query_to_f32(quantised[t])(blocks, found, VALUES);
            for (int i = 0; i < VALUES; ++i) {
                if (isnan(expected[i]))
                    assert_true(isnan(found[i]));
                else
                    assert_int_equal(bits_of(expected[i]), bits_of(found[i]));
            }
        }
        free(blocks);
    }
}

/// `values` [32] as a block, and back: within half a step, but for what 127 steps do not reach
/// where the scale was rounded down.
static void check_quantised(const berth_convert_rows* rows, const float* values) {
    unsigned char block[34];
    float back[32];
    uint16_t half;
    rows->from_f32[BERTH_Q8_0](values, block, 32);
    rows->to_f32[BERTH_Q8_0](block, back, 32);
    memcpy(&half, block, sizeof half);
    float largest = 0;
    for (int i = 0; i < 32; ++i)
        largest = fmaxf(largest, fabsf(values[i]));
    assert_int_equal(half, kit_to_small_float((double)(largest / 127.0f), 5));
    const double step = kit_small_float(half, 5);
    for (int i = 0; i < 32; ++i) {
        const bool is_cut = fabs((double)values[i]) > 127 * step;
        const double expected =
            is_cut ? copysign(127 * step, (double)values[i]) : (double)values[i];
        assert_true(fabs((double)back[i] - expected) <= step / 2 * 1.00001);
    }
}

static void check_quantising(const berth_convert_rows* rows) {
    kit_seed(11);
    for (int round = 0; round < 400; ++round) {
        float values[32];
        const double scale = ldexp(1, (int)kit_int(-22, 22));
        for (int i = 0; i < 32; ++i)
            values[i] = (float)(kit_real(-1, 1) * scale);
        check_quantised(rows, values);
    }
    // what is too small for a scale is 0; what is not finite, or too large, is seen in the block
    float values[32] = {1e-7f, -1e-7f};
    unsigned char block[34], zeros[34] = {0};
    rows->from_f32[BERTH_Q8_0](values, block, 32);
    assert_memory_equal(block, zeros, 34);
    const float bad[] = {NAN, INFINITY, -INFINITY, 9e6f};
    for (int i = 0; i < 4; ++i) {
        float back[32];
        values[3] = bad[i];
        rows->from_f32[BERTH_Q8_0](values, block, 32);
        rows->to_f32[BERTH_Q8_0](block, back, 32);
        for (int j = 0; j < 32; ++j)
            assert_true(isnan(back[j]));
    }
}

static void blocks_of_q8_0_are_near_to_what_they_were_made_of(void** state) {
    (void)state;
    for_each_isa(check_quantising);
}

static void quantised_blocks_are_the_same_on_every_instruction_set(void** state) {
    (void)state;
    enum { VALUES = 32 * 500 };
    static float values[VALUES];
    static unsigned char expected[VALUES / 32 * 34], found[VALUES / 32 * 34];
    kit_seed(12);
    for (int i = 0; i < VALUES; ++i)
        values[i] = (float)kit_real(-3, 3);
    for (int isa = BERTH_CPU_ISA_PORTABLE; isa <= BERTH_CPU_ISA_AVX512; ++isa) {
        berth_cpu_set_isa((berth_cpu_isa)isa);
        unsigned char* to = isa == BERTH_CPU_ISA_PORTABLE ? expected : found;
        berth_convert_query_from_f32(BERTH_Q8_0)(values, to, VALUES);
        if (to == found) assert_memory_equal(expected, found, sizeof expected);
    }
}

static void types_without_a_conversion_have_none(void** state) {
    (void)state;
    assert_null((void*)(uintptr_t)berth_convert_query_to_f32(BERTH_I32));
    assert_null((void*)(uintptr_t)berth_convert_query_to_f32(BERTH_BOOL));
    assert_null((void*)(uintptr_t)berth_convert_query_from_f32(BERTH_Q4_0));
    assert_non_null((void*)(uintptr_t)berth_convert_query_from_f32(BERTH_BF16));
}

/// Finds the type of a line such as {"type":"Q4_0",...}.
static berth_dtype type_of_line(const char* line) {
    static const char* const names[] = {
        "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"};
    for (size_t t = 0; t < quantised_count; ++t) {
        if (strstr(line, names[t]) != NULL) return quantised[t];
    }
    fail_msg("unknown type in %.40s", line);
    return BERTH_F32;
}

static void check_vector(const char* line) {
    const berth_dtype dtype = type_of_line(line);
    const berth_dtype_info* info = berth_dtype_query_info(dtype);
    unsigned char block[256];
    const char* hex = strstr(line, "\"block\":\"");
    const char* at = strstr(line, "\"values\":[");
    assert_non_null(hex);
    assert_non_null(at);
    hex += strlen("\"block\":\"");
    at += strlen("\"values\":[");
    for (uint32_t i = 0; i < info->block_bytes; ++i) {
        const char digits[3] = {hex[2 * i], hex[2 * i + 1], 0};
        block[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    float found[256];
    berth_convert_query_to_f32(dtype)(block, found, info->block_values);
    for (uint32_t i = 0; i < info->block_values; ++i) {
        char* end;
        const float expected = strtof(at, &end);
        assert_ptr_not_equal(at, end);
        assert_int_equal(bits_of(expected), bits_of(found[i]));
        at = end + 1;
    }
}

static void known_blocks_dequantise_to_their_exact_values(void** state) {
    (void)state;
    const char* shared = shared_data_folder("quantised blocks");
    char path[4096];
    snprintf(path, sizeof path, "%s/data/gguf/dequant-vectors.jsonl", shared);
    FILE* file = fopen(path, "r");
    assert_non_null(file);
    char line[16384];
    int lines = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        for (int isa = BERTH_CPU_ISA_PORTABLE; isa <= BERTH_CPU_ISA_AVX512; ++isa) {
            berth_cpu_set_isa((berth_cpu_isa)isa);
            check_vector(line);
        }
        ++lines;
    }
    fclose(file);
    assert_int_equal(lines, 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_and_bfloat16_converts_exactly),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(a_value_converts_alike_wherever_it_stands),
        cmocka_unit_test(instruction_sets_agree_on_every_bit_of_random_blocks),
        cmocka_unit_test(blocks_of_q8_0_are_near_to_what_they_were_made_of),
        cmocka_unit_test(quantised_blocks_are_the_same_on_every_instruction_set),
        cmocka_unit_test(types_without_a_conversion_have_none),
        cmocka_unit_test(known_blocks_dequantise_to_their_exact_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
