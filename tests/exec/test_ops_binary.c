// SPDX-License-Identifier: Apache-2.0
// The public ops on two operands, where, clamp and outer: types, shapes, places, refusals.
#include "exec_kit.h"

#include <math.h>

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

typedef berth_tensor* (*pair_op)(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// A tensor of `dtype` with the values of floats.
static berth_tensor* make(
    berth_context* ctx, berth_dtype dtype, int32_t rank, const int64_t* dims, const float* values) {
    berth_tensor* x = berth_empty(ctx, BERTH_F32, rank, dims);
    assert_non_null(x);
    assert_ok(berth_tensor_write(x, values, berth_tensor_bytes(x)));
    return berth_cast(ctx, berth_move(x), dtype);
}

/// Of one dimension.
static berth_tensor* row(berth_context* ctx,
                         berth_dtype dtype,
                         int64_t count,
                         const float* values) {
    return make(ctx, dtype, 1, &count, values);
}

static berth_tensor* scalar(berth_context* ctx, berth_dtype dtype, float value) {
    return make(ctx, dtype, 0, NULL, &value);
}

/// Checks type and values of a tensor, and ends it.
static void expect(
    berth_context* ctx, berth_tensor* x, berth_dtype dtype, int64_t count, const float* values) {
    assert_context_ok(ctx);
    assert_non_null(x);
    assert_int_equal(berth_tensor_dtype(x), dtype);
    assert_int_equal(berth_tensor_count(x), count);
    berth_tensor* wide = berth_cast(ctx, x, BERTH_F32);
    exec_kit_expect(wide, values, (size_t)count);
    berth_release_all(wide, x);
}

static void expect_nothing_left(berth_context* ctx) {
    assert_context_ok(ctx);
    assert_int_equal(ctx->home.live_objects, 0);
}

// --- Types ---------------------------------------------------------------------------------------

static void operands_of_two_types_meet_in_the_promoted_one(void** state) {
    berth_context* ctx = context_of(state);
    static const struct {
        berth_dtype a, b, result;
    } cases[] = {
        {BERTH_I32, BERTH_F32, BERTH_F32},
        {BERTH_I64, BERTH_F16, BERTH_F16},
        {BERTH_F16, BERTH_BF16, BERTH_F32},
        {BERTH_U8, BERTH_I8, BERTH_I32},
        {BERTH_I8, BERTH_I64, BERTH_I64},
        {BERTH_BOOL, BERTH_U8, BERTH_U8},
        {BERTH_BOOL, BERTH_BF16, BERTH_BF16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        berth_tensor* a = row(ctx, cases[i].a, 2, (float[]){1, 0});
        berth_tensor* b = row(ctx, cases[i].b, 2, (float[]){3, 5});
        expect(ctx, berth_add(ctx, a, b), cases[i].result, 2, (float[]){4, 5});
        expect(ctx, berth_sub(ctx, b, a), cases[i].result, 2, (float[]){2, 5});
        expect(ctx, berth_pow(ctx, a, b), cases[i].result, 2, (float[]){1, 0});
        berth_release_all(a, b);
    }
    expect_nothing_left(ctx);
}

static void an_operand_without_dimensions_does_not_widen_its_category(void** state) {
    berth_context* ctx = context_of(state);
    static const struct {
        berth_dtype dims, without, result;
    } cases[] = {
        {BERTH_F16, BERTH_F32, BERTH_F16},
        {BERTH_I8, BERTH_I64, BERTH_I8},
        {BERTH_BF16, BERTH_I64, BERTH_BF16},
        {BERTH_I64, BERTH_F16, BERTH_F16},
        {BERTH_BOOL, BERTH_I8, BERTH_I8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        berth_tensor* a = row(ctx, cases[i].dims, 2, (float[]){1, 0});
        berth_tensor* b = scalar(ctx, cases[i].without, 4);
        expect(ctx, berth_mul(ctx, a, b), cases[i].result, 2, (float[]){4, 0});
        expect(ctx, berth_maximum(ctx, b, a), cases[i].result, 2, (float[]){4, 4});
        berth_tensor* c = scalar(ctx, cases[i].dims, 1);
        berth_tensor* both = berth_add(ctx, b, c);
        assert_int_equal(berth_tensor_rank(both), 0);
        berth_release_all(a, b, c, both);
    }
    expect_nothing_left(ctx);
}

static void quotients_of_integers_and_bools_are_f32(void** state) {
    berth_context* ctx = context_of(state);
    static const berth_dtype types[] = {BERTH_I32, BERTH_I64, BERTH_I8, BERTH_U8};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
        berth_tensor* a = row(ctx, types[i], 3, (float[]){1, 7, 0});
        berth_tensor* b = row(ctx, types[i], 3, (float[]){2, 4, 5});
        expect(ctx, berth_div(ctx, a, b), BERTH_F32, 3, (float[]){0.5f, 1.75f, 0});
        berth_release_all(a, b);
    }
    berth_tensor* yes = row(ctx, BERTH_BOOL, 2, (float[]){1, 0});
    berth_tensor* four = row(ctx, BERTH_F16, 2, (float[]){4, 4});
    expect(ctx,
           berth_div(ctx, yes, berth_move(scalar(ctx, BERTH_BOOL, 1))),
           BERTH_F32,
           2,
           (float[]){1, 0});
    expect(ctx, berth_div(ctx, yes, four), BERTH_F16, 2, (float[]){0.25f, 0});
    berth_release_all(yes, four);
    expect_nothing_left(ctx);
}

static void predicates_give_bool_of_any_two_types(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = row(ctx, BERTH_I32, 3, (float[]){1, 2, 0});
    berth_tensor* b = row(ctx, BERTH_F16, 3, (float[]){1, 2.5f, -1});
    expect(ctx, berth_eq(ctx, a, b), BERTH_BOOL, 3, (float[]){1, 0, 0});
    expect(ctx, berth_ne(ctx, a, b), BERTH_BOOL, 3, (float[]){0, 1, 1});
    expect(ctx, berth_lt(ctx, a, b), BERTH_BOOL, 3, (float[]){0, 1, 0});
    expect(ctx, berth_le(ctx, a, b), BERTH_BOOL, 3, (float[]){1, 1, 0});
    expect(ctx, berth_gt(ctx, a, b), BERTH_BOOL, 3, (float[]){0, 0, 1});
    expect(ctx, berth_ge(ctx, a, b), BERTH_BOOL, 3, (float[]){1, 0, 1});
    expect(ctx, berth_logical_and(ctx, a, b), BERTH_BOOL, 3, (float[]){1, 1, 0});
    expect(ctx, berth_logical_or(ctx, a, b), BERTH_BOOL, 3, (float[]){1, 1, 1});
    expect(ctx, berth_logical_xor(ctx, a, b), BERTH_BOOL, 3, (float[]){0, 0, 1});
    berth_release_all(a, b);
    expect_nothing_left(ctx);
}

static void a_comparison_is_made_in_the_promoted_type(void** state) {
    berth_context* ctx = context_of(state);
    // u8 with an i64 of no dimensions meets in u8, where 257 is 1
    berth_tensor* a = row(ctx, BERTH_U8, 2, (float[]){1, 2});
    berth_tensor* b = scalar(ctx, BERTH_I64, 257);
    expect(ctx, berth_eq(ctx, a, b), BERTH_BOOL, 2, (float[]){1, 0});
    berth_release_all(a, b);
    // i64 with f32 meets in f32, where 2^24 + 1 is 2^24
    berth_tensor* c = berth_full(ctx, 0x1p24 + 1, BERTH_I64, 1, (int64_t[]){1});
    berth_tensor* d = row(ctx, BERTH_F32, 1, (float[]){0x1p24f});
    expect(ctx, berth_eq(ctx, c, d), BERTH_BOOL, 1, (float[]){1});
    berth_release_all(c, d);
    expect_nothing_left(ctx);
}

static void bools_add_as_or_and_multiply_as_and(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = row(ctx, BERTH_BOOL, 4, (float[]){0, 0, 1, 1});
    berth_tensor* b = row(ctx, BERTH_BOOL, 4, (float[]){0, 1, 0, 1});
    expect(ctx, berth_add(ctx, a, b), BERTH_BOOL, 4, (float[]){0, 1, 1, 1});
    expect(ctx, berth_mul(ctx, a, b), BERTH_BOOL, 4, (float[]){0, 0, 0, 1});
    expect(ctx, berth_minimum(ctx, a, b), BERTH_BOOL, 4, (float[]){0, 0, 0, 1});
    expect(ctx, berth_maximum(ctx, a, b), BERTH_BOOL, 4, (float[]){0, 1, 1, 1});
    expect(ctx,
           berth_outer(ctx, a, b),
           BERTH_BOOL,
           16,
           (float[]){0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0, //
                     0,
                     1,
                     0,
                     1,
                     0,
                     1,
                     0,
                     1});
    berth_release_all(a, b);
    expect_nothing_left(ctx);
}

static void remainders_and_powers_follow_the_sign_rules(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = row(ctx, BERTH_I32, 6, (float[]){7, -7, 7, -7, 5, -1});
    berth_tensor* b = row(ctx, BERTH_I32, 6, (float[]){3, 3, -3, -3, 0, -3});
    expect(ctx, berth_remainder(ctx, a, b), BERTH_I32, 6, (float[]){1, 2, -2, -1, 0, -1});
    expect(ctx, berth_pow(ctx, a, b), BERTH_I32, 6, (float[]){343, -343, 0, 0, 1, -1});
    berth_tensor* c = berth_cast(ctx, a, BERTH_F32);
    berth_tensor* d = row(ctx, BERTH_F32, 6, (float[]){3, 3, -3, -3, 4, INFINITY});
    expect(ctx, berth_remainder(ctx, c, d), BERTH_F32, 6, (float[]){1, 2, -2, -1, 1, INFINITY});
    berth_release_all(a, b, c, d);
    expect_nothing_left(ctx);
}

// --- Shapes --------------------------------------------------------------------------------------

static void shapes_broadcast_up_to_eight_dimensions(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = berth_full(ctx, 2, BERTH_I32, 8, (int64_t[]){2, 1, 1, 1, 1, 1, 1, 3});
    berth_tensor* b = berth_full(ctx, 3, BERTH_F32, 7, (int64_t[]){1, 1, 2, 1, 1, 1, 1});
    berth_tensor* c = berth_mul(ctx, a, b);
    assert_context_ok(ctx);
    assert_int_equal(berth_tensor_rank(c), 8);
    const int64_t dims[8] = {2, 1, 1, 2, 1, 1, 1, 3};
    assert_memory_equal(berth_tensor_dims(c), dims, sizeof dims);
    berth_tensor* none = berth_zeros(ctx, BERTH_U8, 2, (int64_t[]){0, 1});
    berth_tensor* d = berth_lt(ctx, none, berth_move(scalar(ctx, BERTH_F32, 1)));
    assert_context_ok(ctx);
    assert_int_equal(berth_tensor_count(d), 0);
    assert_int_equal(berth_tensor_dtype(d), BERTH_BOOL);
    berth_release_all(a, b, c, d, none);
    expect_nothing_left(ctx);
}

static void where_broadcasts_all_three(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* condition = make(ctx, BERTH_BOOL, 2, (int64_t[]){2, 1}, (float[]){1, 0});
    berth_tensor* a = row(ctx, BERTH_I32, 3, (float[]){1, 2, 3});
    berth_tensor* b = scalar(ctx, BERTH_F16, 0.5f);
    berth_tensor* c = berth_where(ctx, condition, a, b);
    assert_int_equal(berth_tensor_rank(c), 2);
    expect(ctx, c, BERTH_F16, 6, (float[]){1, 2, 3, 0.5f, 0.5f, 0.5f});
    berth_tensor* mask = row(ctx, BERTH_F32, 3, (float[]){NAN, 0, -0.0f});
    expect(ctx, berth_where(ctx, mask, a, a), BERTH_I32, 3, (float[]){1, 2, 3});
    berth_tensor* zero = scalar(ctx, BERTH_I64, 0);
    expect(ctx, berth_where(ctx, mask, a, zero), BERTH_I32, 3, (float[]){1, 0, 0});
    berth_release_all(condition, a, b, mask, zero);
    expect_nothing_left(ctx);
}

static void clamp_keeps_the_type(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = row(ctx, BERTH_I8, 5, (float[]){-100, -1, 0, 1, 100});
    expect(ctx, berth_clamp(ctx, x, -1.5, 0.5), BERTH_I8, 5, (float[]){-1, -1, 0, 0, 0});
    expect(ctx, berth_clamp(ctx, x, -1e9, 1e9), BERTH_I8, 5, (float[]){-100, -1, 0, 1, 100});
    expect(ctx, berth_clamp(ctx, x, 3, -3), BERTH_I8, 5, (float[]){-3, -3, -3, -3, -3});
    berth_tensor* y = row(ctx, BERTH_F32, 3, (float[]){-INFINITY, 0.25f, INFINITY});
    expect(ctx,
           berth_clamp(ctx, y, -(double)INFINITY, 1),
           BERTH_F32,
           3,
           (float[]){-INFINITY, 0.25f, 1});
    berth_release_all(x, y);
    expect_nothing_left(ctx);
}

static void outer_is_a_column_times_a_row(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = row(ctx, BERTH_I32, 2, (float[]){2, -3});
    berth_tensor* b = row(ctx, BERTH_F32, 3, (float[]){1, 0.5f, 4});
    berth_tensor* c = berth_outer(ctx, a, b);
    assert_int_equal(berth_tensor_rank(c), 2);
    assert_int_equal(berth_tensor_dim(c, 0), 2);
    expect(ctx, c, BERTH_F32, 6, (float[]){2, 1, 8, -3, -1.5f, -12});
    berth_tensor* none = berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){0});
    berth_tensor* d = berth_outer(ctx, none, b);
    assert_int_equal(berth_tensor_dim(d, 0), 0);
    assert_int_equal(berth_tensor_dim(d, 1), 3);
    berth_release_all(a, b, none, d);
    expect_nothing_left(ctx);
}

// --- Places --------------------------------------------------------------------------------------

/// Runs `op` with operand `moved` (0 or 1, or 2 for both) handed over; true if its storage went on.
static bool is_taken(berth_context* ctx, pair_op op, berth_dtype a, berth_dtype b, int moved) {
    const float values[3] = {1, 0, 1};
    berth_tensor* x = row(ctx, a, 3, values);
    berth_tensor* y = row(ctx, b, 3, values);
    const void* place = exec_kit_place(moved == 1 ? y : x);
    berth_tensor* result = op(ctx, moved == 1 ? x : berth_move(x), moved == 0 ? y : berth_move(y));
    assert_context_ok(ctx);
    const bool is_same = exec_kit_place(result) == place;
    if (moved == 0) berth_release(y);
    if (moved == 1) berth_release(x);
    berth_release(result);
    expect_nothing_left(ctx);
    return is_same;
}

static void a_moved_operand_with_elements_of_that_size_is_taken(void** state) {
    berth_context* ctx = context_of(state);
    assert_true(is_taken(ctx, berth_sub, BERTH_F32, BERTH_F32, 0));
    assert_true(is_taken(ctx, berth_sub, BERTH_F32, BERTH_F32, 1));
    assert_true(is_taken(ctx, berth_sub, BERTH_F32, BERTH_F32, 2));
    assert_true(is_taken(ctx, berth_add, BERTH_I32, BERTH_F32, 0));
    assert_true(is_taken(ctx, berth_div, BERTH_I32, BERTH_I32, 1));
    assert_true(is_taken(ctx, berth_lt, BERTH_U8, BERTH_I32, 0));
    assert_true(is_taken(ctx, berth_logical_or, BERTH_F32, BERTH_I8, 1));
    assert_true(is_taken(ctx, berth_pow, BERTH_I8, BERTH_BOOL, 1));
    assert_false(is_taken(ctx, berth_add, BERTH_F16, BERTH_F32, 0));
    assert_false(is_taken(ctx, berth_lt, BERTH_F32, BERTH_F32, 2));
    assert_false(is_taken(ctx, berth_div, BERTH_I64, BERTH_I64, 2));
    assert_false(is_taken(ctx, berth_outer, BERTH_F32, BERTH_F32, 2));
}

static void what_is_taken_gives_the_same_values(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = row(ctx, BERTH_I32, 3, (float[]){1, 2, 3});
    berth_tensor* b = row(ctx, BERTH_F32, 3, (float[]){0.5f, 0.25f, -1});
    berth_tensor* sum = berth_add(ctx, berth_move(a), b);
    expect(ctx, sum, BERTH_F32, 3, (float[]){1.5f, 2.25f, 2});
    berth_tensor* c = row(ctx, BERTH_U8, 3, (float[]){1, 200, 3});
    berth_tensor* d = row(ctx, BERTH_U8, 3, (float[]){2, 100, 3});
    expect(ctx, berth_gt(ctx, c, berth_move(d)), BERTH_BOOL, 3, (float[]){0, 1, 0});
    berth_release_all(b, c);
    expect_nothing_left(ctx);
}

static void an_operand_that_somebody_holds_or_that_broadcasts_is_left_alone(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = row(ctx, BERTH_F32, 2, (float[]){1, 2});
    berth_tensor* held = berth_retain(a);
    berth_tensor* sum = berth_add(ctx, berth_move(a), held);
    assert_ptr_not_equal(exec_kit_place(sum), exec_kit_place(held));
    expect(ctx, sum, BERTH_F32, 2, (float[]){2, 4});
    expect(ctx, held, BERTH_F32, 2, (float[]){1, 2});
    berth_tensor* short_one = row(ctx, BERTH_F32, 1, (float[]){1});
    berth_tensor* two = row(ctx, BERTH_F32, 2, (float[]){5, 6});
    expect(ctx, berth_add(ctx, berth_move(short_one), two), BERTH_F32, 2, (float[]){6, 7});
    berth_release(two);
    expect_nothing_left(ctx);
}

static void where_and_clamp_take_a_moved_side(void** state) {
    berth_context* ctx = context_of(state);
    for (int side = 1; side < 3; ++side) {
        berth_tensor* condition = row(ctx, BERTH_BOOL, 2, (float[]){1, 0});
        berth_tensor* a = row(ctx, BERTH_F32, 2, (float[]){1, 2});
        berth_tensor* b = row(ctx, BERTH_I32, 2, (float[]){3, 4});
        const void* place = exec_kit_place(side == 1 ? a : b);
        berth_tensor* c = berth_where(ctx,
                                      berth_move(condition),
                                      side == 1 ? berth_move(a) : a,
                                      side == 2 ? berth_move(b) : b);
        assert_ptr_equal(exec_kit_place(c), place);
        expect(ctx, c, BERTH_F32, 2, (float[]){1, 4});
        berth_release(side == 1 ? b : a);
    }
    berth_tensor* x = row(ctx, BERTH_F16, 2, (float[]){1, 9});
    const void* place = exec_kit_place(x);
    berth_tensor* y = berth_clamp(ctx, berth_move(x), 2, 4);
    assert_ptr_equal(exec_kit_place(y), place);
    expect(ctx, y, BERTH_F16, 2, (float[]){2, 4});
    expect_nothing_left(ctx);
}

// --- Refusals ------------------------------------------------------------------------------------

static void shapes_that_do_not_broadcast_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){2, 3});
    berth_tensor* b = berth_zeros(ctx, BERTH_U8, 1, (int64_t[]){4});
    assert_null(berth_remainder(ctx, a, b));
    assert_context_fails(ctx,
                         BERTH_ERR_INVALID_ARGUMENT,
                         "remainder(f32[2, 3], u8[4]): the shapes do not broadcast: dimension -1 "
                         "is 3 and 4");
    assert_null(berth_ge(ctx, b, a));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "ge(u8[4], f32[2, 3])");
    assert_null(berth_where(ctx, b, a, a));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "where(u8[4], f32[2, 3], f32[2, 3])");
    assert_null(berth_where(ctx, a, a, b));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "do not broadcast");
    assert_null(berth_outer(ctx, b, a));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "outer(u8[4], f32[2, 3]): operand 1 has 2 dimensions");
    berth_release_all(a, b);
    expect_nothing_left(ctx);
}

static void types_without_a_meaning_are_refused_by_name(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = row(ctx, BERTH_BOOL, 1, (float[]){1});
    static const pair_op numbers[] = {berth_sub, berth_remainder, berth_pow};
    static const char* const texts[] = {"sub(bool[1], bool[1]): bool is not accepted here",
                                        "remainder(bool[1], bool[1]): bool",
                                        "pow(bool[1], bool[1]): bool"};
    for (size_t i = 0; i < 3; ++i) {
        assert_null(numbers[i](ctx, a, a));
        assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, texts[i]);
    }
    assert_null(berth_clamp(ctx, a, 0, 1));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "clamp(bool[1]): bool is not accepted here");
    berth_tensor* whole = row(ctx, BERTH_I32, 1, (float[]){1});
    assert_null(berth_clamp(ctx, whole, (double)NAN, 1));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "clamp(i32[1]): a bound of integers");
    berth_release_all(a, whole);
    expect_nothing_left(ctx);
}

static void quantised_operands_are_refused_by_name(void** state) {
    berth_context* ctx = context_of(state);
    static unsigned char blocks[34];
    berth_tensor* q = berth_tensor_from_memory(
        ctx, blocks, sizeof blocks, BERTH_Q8_0, 1, (int64_t[]){32}, false, NULL, NULL);
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){32});
    static const pair_op ops[] = {berth_add,
                                  berth_div,
                                  berth_pow,
                                  berth_eq,
                                  berth_ge,
                                  berth_logical_xor,
                                  berth_maximum,
                                  berth_outer};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; ++i) {
        assert_null(ops[i](ctx, q, x));
        assert_context_fails(
            ctx, BERTH_ERR_UNSUPPORTED, "(q8_0[32], f32[32]): q8_0 is not accepted");
        assert_null(ops[i](ctx, x, q));
        assert_context_fails(
            ctx, BERTH_ERR_UNSUPPORTED, "(f32[32], q8_0[32]): q8_0 is not accepted");
    }
    assert_null(berth_where(ctx, q, x, x));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "where(q8_0[32], f32[32], f32[32])");
    assert_null(berth_clamp(ctx, q, 0, 1));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "clamp(q8_0[32])");
    berth_release_all(q, x);
    expect_nothing_left(ctx);
}

static const pair_op all_pairs[] = {berth_add,
                                    berth_sub,
                                    berth_mul,
                                    berth_div,
                                    berth_minimum,
                                    berth_maximum,
                                    berth_remainder,
                                    berth_pow,
                                    berth_eq,
                                    berth_ne,
                                    berth_lt,
                                    berth_le,
                                    berth_gt,
                                    berth_ge,
                                    berth_logical_and,
                                    berth_logical_or,
                                    berth_logical_xor,
                                    berth_outer};
enum { PAIR_COUNT = sizeof all_pairs / sizeof all_pairs[0] };

static void a_missing_operand_is_an_error_and_the_other_is_consumed(void** state) {
    berth_context* ctx = context_of(state);
    for (size_t i = 0; i < PAIR_COUNT; ++i) {
        assert_null(all_pairs[i](ctx, NULL, berth_move(exec_kit_ramp(ctx, 0, 2))));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "operand 0 is NULL");
        assert_null(all_pairs[i](ctx, berth_move(exec_kit_ramp(ctx, 0, 2)), NULL));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "operand 1 is NULL");
        berth_tensor* x = exec_kit_ramp(ctx, 0, 2);
        assert_null(all_pairs[i](NULL, x, x));
        berth_release(x);
    }
    berth_tensor* x = exec_kit_ramp(ctx, 0, 2);
    assert_null(berth_where(ctx, NULL, x, berth_move(exec_kit_ramp(ctx, 0, 2))));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "where: operand 0 is NULL");
    assert_null(berth_where(ctx, berth_move(exec_kit_ramp(ctx, 0, 2)), x, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "where: operand 2 is NULL");
    assert_null(berth_clamp(ctx, NULL, 0, 1));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "clamp: operand 0 is NULL");
    assert_null(berth_where(NULL, x, x, x));
    assert_null(berth_clamp(NULL, x, 0, 1));
    berth_release(x);
    expect_nothing_left(ctx);
}

static void refused_operands_that_were_moved_are_consumed(void** state) {
    berth_context* ctx = context_of(state);
    for (size_t i = 0; i < PAIR_COUNT; ++i) {
        berth_tensor* a = berth_zeros(ctx, BERTH_F32, 2, (int64_t[]){2, 3});
        berth_tensor* b = berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){2});
        assert_null(all_pairs[i](ctx, berth_move(a), berth_move(b)));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "(f32[2, 3], f32[2])");
    }
    berth_tensor* bools = berth_zeros(ctx, BERTH_BOOL, 1, (int64_t[]){2});
    assert_null(berth_clamp(ctx, berth_move(bools), 0, 1));
    berth_context_clear_error(ctx);
    expect_nothing_left(ctx);
}

static void sizes_whose_product_overflows_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* one = berth_zeros(ctx, BERTH_U8, 1, (int64_t[]){1});
    berth_tensor* wide = berth_expand(ctx, one, 1, (int64_t[]){INT64_C(1) << 40});
    berth_tensor* column = berth_expand(ctx, one, 2, (int64_t[]){INT64_C(1) << 40, 1});
    assert_context_ok(ctx);
    assert_null(berth_outer(ctx, wide, wide));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "outer(u8[1099511627776], u8[1099511627776])");
    assert_null(berth_add(ctx, column, wide));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "add(");
    assert_null(berth_where(ctx, column, wide, one));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "where(");
    berth_release_all(one, wide, column);
    expect_nothing_left(ctx);
}

// --- Failures of the system below ----------------------------------------------------------------

/// Every op of the family once, operands moved; NULL at the first failure.
static berth_tensor* run_all(berth_context* ctx) {
    berth_tensor* x = berth_full(ctx, 2, BERTH_I32, 1, (int64_t[]){3});
    for (size_t i = 0; i + 1 < PAIR_COUNT; ++i) {
        berth_tensor* y = berth_full(ctx, 3, BERTH_F32, 1, (int64_t[]){3});
        x = all_pairs[i](ctx, berth_move(x), berth_move(y));
    }
    berth_tensor* y = berth_full(ctx, 3, BERTH_I8, 1, (int64_t[]){3});
    x = berth_where(ctx, berth_move(x), y, berth_move(berth_clamp(ctx, y, 0, 2)));
    return berth_outer(ctx, berth_move(x), berth_move(y));
}

static void a_failed_allocation_leaves_nothing_behind(void** state) {
    (void)state;
    exec_kit_fail_every_allocation("cpu", run_all);
    exec_kit_fail_every_allocation("sim", run_all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(operands_of_two_types_meet_in_the_promoted_one),
        EXEC_KIT_ON_BOTH(an_operand_without_dimensions_does_not_widen_its_category),
        EXEC_KIT_ON_BOTH(quotients_of_integers_and_bools_are_f32),
        EXEC_KIT_ON_BOTH(predicates_give_bool_of_any_two_types),
        EXEC_KIT_ON_BOTH(a_comparison_is_made_in_the_promoted_type),
        EXEC_KIT_ON_BOTH(bools_add_as_or_and_multiply_as_and),
        EXEC_KIT_ON_BOTH(remainders_and_powers_follow_the_sign_rules),
        EXEC_KIT_ON_BOTH(shapes_broadcast_up_to_eight_dimensions),
        EXEC_KIT_ON_BOTH(where_broadcasts_all_three),
        EXEC_KIT_ON_BOTH(clamp_keeps_the_type),
        EXEC_KIT_ON_BOTH(outer_is_a_column_times_a_row),
        EXEC_KIT_ON_BOTH(a_moved_operand_with_elements_of_that_size_is_taken),
        EXEC_KIT_ON_BOTH(what_is_taken_gives_the_same_values),
        EXEC_KIT_ON_BOTH(an_operand_that_somebody_holds_or_that_broadcasts_is_left_alone),
        EXEC_KIT_ON_BOTH(where_and_clamp_take_a_moved_side),
        EXEC_KIT_ON_BOTH(shapes_that_do_not_broadcast_are_refused),
        EXEC_KIT_ON_BOTH(types_without_a_meaning_are_refused_by_name),
        EXEC_KIT_ON_BOTH(quantised_operands_are_refused_by_name),
        EXEC_KIT_ON_BOTH(a_missing_operand_is_an_error_and_the_other_is_consumed),
        EXEC_KIT_ON_BOTH(refused_operands_that_were_moved_are_consumed),
        EXEC_KIT_ON_BOTH(sizes_whose_product_overflows_are_refused),
        cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
