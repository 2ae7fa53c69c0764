// SPDX-License-Identifier: Apache-2.0
// The type that operands of two types meet in, pair by pair.
#include "ops/promote.h"

#include "kit/test.h"

enum { PLAIN_COUNT = 8 };
static const berth_dtype plain[PLAIN_COUNT] = {
    BERTH_BOOL, BERTH_U8, BERTH_I8, BERTH_I32, BERTH_I64, BERTH_F16, BERTH_BF16, BERTH_F32};

static void every_pair_of_types_has_the_documented_result(void** state) {
    (void)state;
    // clang-format off
    static const berth_dtype expected[PLAIN_COUNT][PLAIN_COUNT] = {
        {BERTH_BOOL, BERTH_U8,   BERTH_I8,   BERTH_I32,  BERTH_I64,  BERTH_F16, BERTH_BF16, BERTH_F32},
        {BERTH_U8,   BERTH_U8,   BERTH_I32,  BERTH_I32,  BERTH_I64,  BERTH_F16, BERTH_BF16, BERTH_F32},
        {BERTH_I8,   BERTH_I32,  BERTH_I8,   BERTH_I32,  BERTH_I64,  BERTH_F16, BERTH_BF16, BERTH_F32},
        {BERTH_I32,  BERTH_I32,  BERTH_I32,  BERTH_I32,  BERTH_I64,  BERTH_F16, BERTH_BF16, BERTH_F32},
        {BERTH_I64,  BERTH_I64,  BERTH_I64,  BERTH_I64,  BERTH_I64,  BERTH_F16, BERTH_BF16, BERTH_F32},
        {BERTH_F16,  BERTH_F16,  BERTH_F16,  BERTH_F16,  BERTH_F16,  BERTH_F16, BERTH_F32,  BERTH_F32},
        {BERTH_BF16, BERTH_BF16, BERTH_BF16, BERTH_BF16, BERTH_BF16, BERTH_F32, BERTH_BF16, BERTH_F32},
        {BERTH_F32,  BERTH_F32,  BERTH_F32,  BERTH_F32,  BERTH_F32,  BERTH_F32, BERTH_F32,  BERTH_F32},
    };
    // clang-format on
    for (size_t i = 0; i < PLAIN_COUNT; ++i)
        for (size_t j = 0; j < PLAIN_COUNT; ++j)
            assert_int_equal(berth_promote_dtypes(plain[i], plain[j]), expected[i][j]);
}

static berth_dtype promote(berth_dtype a, int32_t rank_a, berth_dtype b, int32_t rank_b) {
    const berth_view view_a = {.dtype = a, .rank = rank_a, .dims = {1, 1}};
    const berth_view view_b = {.dtype = b, .rank = rank_b, .dims = {1, 1}};
    const berth_dtype result = berth_promote(&view_a, &view_b);
    assert_int_equal(result, berth_promote(&view_b, &view_a));
    return result;
}

static void operands_of_equal_standing_are_promoted_by_their_types(void** state) {
    (void)state;
    for (size_t i = 0; i < PLAIN_COUNT; ++i)
        for (size_t j = 0; j < PLAIN_COUNT; ++j) {
            const berth_dtype both = berth_promote_dtypes(plain[i], plain[j]);
            assert_int_equal(promote(plain[i], 2, plain[j], 1), both);
            assert_int_equal(promote(plain[i], 0, plain[j], 0), both);
        }
}

static void an_operand_without_dimensions_yields_within_its_category(void** state) {
    (void)state;
    assert_int_equal(promote(BERTH_F16, 1, BERTH_F32, 0), BERTH_F16);
    assert_int_equal(promote(BERTH_F16, 1, BERTH_BF16, 0), BERTH_F16);
    assert_int_equal(promote(BERTH_U8, 2, BERTH_I64, 0), BERTH_U8);
    assert_int_equal(promote(BERTH_I8, 1, BERTH_U8, 0), BERTH_I8);
    assert_int_equal(promote(BERTH_BF16, 1, BERTH_I64, 0), BERTH_BF16);
    assert_int_equal(promote(BERTH_I32, 1, BERTH_BOOL, 0), BERTH_I32);
}

static void an_operand_without_dimensions_wins_by_a_higher_category(void** state) {
    (void)state;
    assert_int_equal(promote(BERTH_I64, 1, BERTH_F16, 0), BERTH_F16);
    assert_int_equal(promote(BERTH_BOOL, 3, BERTH_I8, 0), BERTH_I8);
    assert_int_equal(promote(BERTH_BOOL, 1, BERTH_BF16, 0), BERTH_BF16);
}

static void functions_of_real_numbers_take_integers_as_f32(void** state) {
    (void)state;
    for (size_t i = 0; i < PLAIN_COUNT; ++i) {
        const bool is_float = berth_dtype_is_float(plain[i]);
        assert_int_equal(berth_promote_to_float(plain[i]), is_float ? plain[i] : BERTH_F32);
        assert_true(berth_dtype_is_plain(plain[i]));
    }
    assert_false(berth_dtype_is_plain(BERTH_Q4_0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_types_has_the_documented_result),
        cmocka_unit_test(operands_of_equal_standing_are_promoted_by_their_types),
        cmocka_unit_test(an_operand_without_dimensions_yields_within_its_category),
        cmocka_unit_test(an_operand_without_dimensions_wins_by_a_higher_category),
        cmocka_unit_test(functions_of_real_numbers_take_integers_as_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
