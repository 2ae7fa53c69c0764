// SPDX-License-Identifier: Apache-2.0
// The ops that lay elements out anew, by their public functions: joining any number of tensors of
// several types, repeats, rolls, pads, triangles; refusals, failing memory.
#include "exec/ops_kit.h"

static berth_context* context_of(void** state) { return ops_kit_context(state); }

/// One element.
static berth_tensor* one(berth_context* ctx, double value, berth_dtype dtype) {
    return berth_full(ctx, value, dtype, 1, (int64_t[]){1});
}

// --- Joining -------------------------------------------------------------------------------------

static void cat_joins_along_a_dimension(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = ops_kit_ramp(ctx, 2, (int64_t[]){2, 1});
    berth_tensor* b = ops_kit_ramp(ctx, 2, (int64_t[]){2, 2});
    berth_tensor* y = berth_cat(ctx, (berth_tensor*[]){a, b, a}, 3, -1);
    ops_kit_expect_dims(y, 2, (int64_t[]){2, 4});
    exec_kit_expect(y, (float[]){0, 0, 1, 0, 1, 2, 3, 1}, 8);
    berth_release_all(a, b, y);
    ops_kit_expect_nothing_left(ctx);
}

static void cat_promotes_types_as_pytorch_does(void** state) {
    berth_context* ctx = context_of(state);
    static const struct {
        berth_dtype a, b, joined;
    } cases[] = {
        {BERTH_I32, BERTH_F16, BERTH_F16},
        {BERTH_F16, BERTH_BF16, BERTH_F32},
        {BERTH_BOOL, BERTH_U8, BERTH_U8},
        {BERTH_U8, BERTH_I8, BERTH_I32},
        {BERTH_I32, BERTH_I64, BERTH_I64},
        {BERTH_I64, BERTH_F32, BERTH_F32},
        {BERTH_BOOL, BERTH_BOOL, BERTH_BOOL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        berth_tensor* both[2] = {one(ctx, 1, cases[i].a), one(ctx, 1, cases[i].b)};
        berth_tensor* y = berth_cat(ctx, both, 2, 0);
        berth_tensor* z = berth_stack(ctx, both, 2, 1);
        assert_non_null(y);
        assert_int_equal(berth_tensor_dtype(y), cases[i].joined);
        assert_int_equal(berth_tensor_dtype(z), cases[i].joined);
        berth_tensor* values = berth_cast(ctx, y, BERTH_F32);
        exec_kit_expect(values, (float[]){1, 1}, 2);
        berth_release_all(both[0], both[1], y, z, values);
    }
    ops_kit_expect_nothing_left(ctx);
}

static void stack_makes_a_dimension(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = exec_kit_ramp(ctx, 0, 3);
    berth_tensor* b = exec_kit_ramp(ctx, 10, 3);
    berth_tensor* both[2] = {a, b};
    berth_tensor* rows = berth_stack(ctx, both, 2, 0);
    ops_kit_expect_dims(rows, 2, (int64_t[]){2, 3});
    exec_kit_expect(rows, (float[]){0, 1, 2, 10, 11, 12}, 6);
    berth_tensor* columns = berth_stack(ctx, both, 2, -1);
    ops_kit_expect_dims(columns, 2, (int64_t[]){3, 2});
    exec_kit_expect(columns, (float[]){0, 10, 1, 11, 2, 12}, 6);
    berth_tensor* scalar = berth_full(ctx, 7, BERTH_F32, 0, NULL);
    berth_tensor* list = berth_stack(ctx, (berth_tensor*[]){scalar, scalar}, 2, 0);
    exec_kit_expect(list, (float[]){7, 7}, 2);
    berth_release_all(a, b, rows, columns, scalar, list);
    ops_kit_expect_nothing_left(ctx);
}

enum { MANY = 23 }; // more than two groups

static void any_number_of_tensors_is_joined(void** state) {
    berth_context* ctx = context_of(state);
    for (size_t count = 1; count <= MANY; ++count) {
        berth_tensor* parts[MANY];
        float joined[2 * MANY], stacked[2 * MANY];
        for (size_t i = 0; i < count; ++i) {
            parts[i] = exec_kit_ramp(ctx, (float)(10 * i), 2);
            for (size_t k = 0; k < 2; ++k) {
                joined[2 * i + k] = (float)(10 * i + k);
                stacked[k * count + i] = (float)(10 * i + k);
            }
        }
        berth_tensor* y = berth_cat(ctx, parts, count, 0);
        exec_kit_expect(y, joined, 2 * count);
        berth_tensor* z = berth_stack(ctx, parts, count, 1);
        ops_kit_expect_dims(z, 2, (int64_t[]){2, (int64_t)count});
        exec_kit_expect(z, stacked, 2 * count);
        berth_release_array(parts, count);
        berth_release_all(y, z);
    }
    ops_kit_expect_nothing_left(ctx);
}

static void the_type_of_many_tensors_is_that_of_all(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* parts[MANY];
    for (size_t i = 0; i < MANY; ++i)
        parts[i] = one(ctx, (double)i, i < MANY - 1 ? BERTH_U8 : BERTH_F32);
    berth_tensor* y = berth_cat(ctx, parts, MANY, 0);
    assert_int_equal(berth_tensor_dtype(y), BERTH_F32);
    float expected[MANY];
    for (size_t i = 0; i < MANY; ++i)
        expected[i] = (float)i;
    exec_kit_expect(y, expected, MANY);
    berth_release_array(parts, MANY);
    berth_release(y);
    ops_kit_expect_nothing_left(ctx);
}

static void moved_parts_of_many_are_consumed_once(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* parts[MANY];
    berth_tensor* twice = exec_kit_ramp(ctx, 5, 1);
    berth_retain(twice);
    for (size_t i = 0; i < MANY; ++i)
        parts[i] = i == 1 || i == 20 ? berth_move(twice) : berth_move(exec_kit_ramp(ctx, 1, 1));
    berth_tensor* y = berth_cat(ctx, parts, MANY, 0);
    assert_int_equal(berth_tensor_count(y), MANY);
    berth_release(y);
    // moved in one group, borrowed in another
    berth_tensor* both = exec_kit_ramp(ctx, 5, 1);
    for (size_t i = 0; i < MANY; ++i)
        parts[i] = i == 0 ? berth_move(both) : both;
    y = berth_stack(ctx, parts, MANY, 0);
    ops_kit_expect_dims(y, 2, (int64_t[]){MANY, 1});
    berth_release(y);
    ops_kit_expect_nothing_left(ctx);
}

static void moving_one_reference_into_two_groups_is_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* parts[MANY];
    berth_tensor* x = exec_kit_ramp(ctx, 5, 1);
    berth_tensor* other = exec_kit_ramp(ctx, 5, 1);
    for (size_t i = 0; i < MANY; ++i)
        parts[i] = i == 0 || i == 20 ? berth_move(x) : other;
    assert_null(berth_cat(ctx, parts, MANY, 0));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "cat: operand 20 is moved more often than it is");
    berth_release(other);
    ops_kit_expect_nothing_left(ctx);
}

static void what_cannot_be_joined_is_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = ops_kit_ramp(ctx, 2, (int64_t[]){2, 3});
    berth_tensor* b = ops_kit_ramp(ctx, 2, (int64_t[]){2, 2});
    berth_tensor* flat = exec_kit_ramp(ctx, 0, 6);
    berth_tensor* scalar = berth_full(ctx, 7, BERTH_F32, 0, NULL);
    berth_tensor* rank_8 = berth_zeros(ctx, BERTH_F32, 8, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1});
    berth_tensor* many[MANY];
    for (size_t i = 0; i < MANY; ++i)
        many[i] = i == 19 ? b : a;
#define REFUSE(expr, text)                                                                         \
    do {                                                                                           \
        assert_null(expr);                                                                         \
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, text);                               \
    } while (0)
    REFUSE(berth_cat(ctx, (berth_tensor*[]){a, b}, 2, 0),
           "cat(f32[2, 3], f32[2, 2]): dimension 1 of operand 1 is 2, of the first 3");
    REFUSE(berth_cat(ctx, (berth_tensor*[]){a, flat}, 2, 0),
           "operand 1 has 1 dimensions, the first has 2");
    REFUSE(berth_cat(ctx, (berth_tensor*[]){a, a}, 2, 2), "there is no dimension 2");
    REFUSE(berth_cat(ctx, (berth_tensor*[]){scalar, scalar}, 2, 0), "there is no dimension 0");
    REFUSE(berth_stack(ctx, (berth_tensor*[]){a, b}, 2, 0),
           "stack(f32[2, 3], f32[2, 2]): dimension 1 of operand 1 is 2, of the first 3");
    REFUSE(berth_stack(ctx, (berth_tensor*[]){a, a}, 2, -4), "there is no dimension -4");
    REFUSE(berth_stack(ctx, (berth_tensor*[]){rank_8, rank_8}, 2, 0), "too many dimensions");
    REFUSE(berth_cat(ctx, many, MANY, 0), "cat: dimension 1 of operand 19 is 2, of the first 3");
    REFUSE(berth_stack(ctx, many, MANY, 0), "stack: dimension 1 of operand 19 is 2");
    many[19] = NULL;
    REFUSE(berth_cat(ctx, many, MANY, 0), "operand 19 is NULL");
    REFUSE(berth_cat(ctx, (berth_tensor*[]){a, NULL}, 2, 0), "operand 1 is NULL");
    REFUSE(berth_cat(ctx, NULL, 2, 0), "cat: there are no tensors");
    REFUSE(berth_stack(ctx, many, 0, 0), "stack: there are no tensors");
#undef REFUSE
    assert_null(berth_cat(NULL, many, 2, 0));
    berth_release_all(a, b, flat, scalar, rank_8);
    ops_kit_expect_nothing_left(ctx);
}

static void moved_parts_are_consumed_when_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* parts[MANY];
    for (int round = 0; round < 3; ++round) {
        const size_t count = round == 0 ? 3 : MANY;
        for (size_t i = 0; i < count; ++i)
            parts[i] = berth_move(exec_kit_ramp(ctx, 1, i == 2 ? 5 : 1));
        // the last round with an error that sticks already
        if (round == 2) assert_null(berth_neg(ctx, NULL));
        assert_null(berth_stack(ctx, parts, count, 0));
        assert_int_equal(berth_context_error(ctx), BERTH_ERR_INVALID_ARGUMENT);
        berth_context_clear_error(ctx);
        ops_kit_expect_nothing_left(ctx);
    }
}

static void quantised_tensors_are_not_laid_out_anew(void** state) {
    berth_context* ctx = context_of(state);
    unsigned char blocks[2 * 34] = {0};
    const int64_t dims[2] = {2, 32};
    berth_tensor* q =
        berth_tensor_from_memory(ctx, blocks, sizeof blocks, BERTH_Q8_0, 2, dims, true, NULL, NULL);
    berth_tensor* many[MANY];
    for (size_t i = 0; i < MANY; ++i)
        many[i] = q;
#define REFUSE(expr, text)                                                                         \
    do {                                                                                           \
        assert_null(expr);                                                                         \
        assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, text ": q8_0 is not accepted here");      \
    } while (0)
    REFUSE(berth_cat(ctx, many, 2, 0), "cat(q8_0[2, 32], q8_0[2, 32])");
    REFUSE(berth_cat(ctx, many, MANY, 0), "cat");
    REFUSE(berth_stack(ctx, many, 1, 0), "stack(q8_0[2, 32])");
    REFUSE(berth_roll(ctx, q, 1, 0), "roll(q8_0[2, 32])");
    REFUSE(berth_repeat(ctx, q, 2, (int64_t[]){2, 2}), "repeat(q8_0[2, 32])");
    REFUSE(berth_pad(ctx, q, 2, (int64_t[]){1, 1}, 0), "pad(q8_0[2, 32])");
    REFUSE(berth_tril(ctx, q, 0), "tril(q8_0[2, 32])");
    REFUSE(berth_triu(ctx, q, 0), "triu(q8_0[2, 32])");
#undef REFUSE
    berth_release(q);
    ops_kit_expect_nothing_left(ctx);
}

// --- One operand ---------------------------------------------------------------------------------

static void roll_moves_round_the_end(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){2, 3});
    static const struct {
        int64_t shift;
        int32_t dim;
        float expected[6];
    } cases[] = {
        {1, 1, {2, 0, 1, 5, 3, 4}},
        {-1, -1, {1, 2, 0, 4, 5, 3}},
        {1, 0, {3, 4, 5, 0, 1, 2}},
        {5, 1, {1, 2, 0, 4, 5, 3}},
        {6, 1, {0, 1, 2, 3, 4, 5}},
        {INT64_MAX, 0, {3, 4, 5, 0, 1, 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        berth_tensor* y = berth_roll(ctx, x, cases[i].shift, cases[i].dim);
        exec_kit_expect(y, cases[i].expected, 6);
        berth_release(y);
    }
    berth_tensor* empty = berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){0});
    berth_tensor* rolled = berth_roll(ctx, empty, 3, 0);
    ops_kit_expect_dims(rolled, 1, (int64_t[]){0});
    assert_null(berth_roll(ctx, x, 1, 2));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "roll(f32[2, 3]): there is no dimension 2");
    berth_release_all(x, empty, rolled);
    ops_kit_expect_nothing_left(ctx);
}

static void repeat_lays_copies_side_by_side(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = exec_kit_ramp(ctx, 1, 2);
    berth_tensor* y = berth_repeat(ctx, x, 2, (int64_t[]){2, 3});
    ops_kit_expect_dims(y, 2, (int64_t[]){2, 6});
    exec_kit_expect(y, (float[]){1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}, 12);
    berth_tensor* none = berth_repeat(ctx, x, 2, (int64_t[]){4, 0});
    ops_kit_expect_dims(none, 2, (int64_t[]){4, 0});
    berth_tensor* scalar = berth_full(ctx, 3, BERTH_F32, 0, NULL);
    berth_tensor* same = berth_repeat(ctx, scalar, 0, NULL);
    ops_kit_expect_dims(same, 0, NULL);
    berth_tensor* three = berth_repeat(ctx, scalar, 1, (int64_t[]){3});
    exec_kit_expect(three, (float[]){3, 3, 3}, 3);
    berth_release_all(x, y, none, scalar, same, three);
    ops_kit_expect_nothing_left(ctx);
}

static void repeats_that_cannot_be_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){2, 3});
    assert_null(berth_repeat(ctx, x, 1, (int64_t[]){2}));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "repeat(f32[2, 3]): 1 numbers of times for 2 dimensions");
    assert_null(berth_repeat(ctx, x, 2, (int64_t[]){2, -1}));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "dimension 1 cannot be repeated -1 times");
    assert_null(berth_repeat(ctx, x, 2, (int64_t[]){INT64_MAX, 1}));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "dimension 0 does not fit 63 bits");
    assert_null(berth_repeat(ctx, x, 2, (int64_t[]){INT64_MAX / 2, INT64_MAX / 3}));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "repeat(f32[2, 3])");
    assert_null(berth_repeat(ctx, x, 9, (int64_t[9]){0}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "rank 9");
    assert_null(berth_repeat(ctx, x, 2, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "numbers of times");
    assert_null(berth_repeat(ctx, berth_move(x), -1, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "rank -1");
    ops_kit_expect_nothing_left(ctx);
}

static void pad_surrounds_and_crops(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){2, 2});
    berth_tensor* y = berth_pad(ctx, x, 2, (int64_t[]){1, 2}, 9);
    ops_kit_expect_dims(y, 2, (int64_t[]){2, 5});
    exec_kit_expect(y, (float[]){9, 0, 1, 9, 9, 9, 2, 3, 9, 9}, 10);
    berth_tensor* z = berth_pad(ctx, x, 4, (int64_t[]){-1, 1, 0, 1}, 7);
    ops_kit_expect_dims(z, 2, (int64_t[]){3, 2});
    exec_kit_expect(z, (float[]){1, 7, 3, 7, 7, 7}, 6);
    berth_tensor* same = berth_pad(ctx, x, 0, NULL, 7);
    exec_kit_expect(same, (float[]){0, 1, 2, 3}, 4);
    berth_tensor* none = berth_pad(ctx, x, 2, (int64_t[]){-1, -1}, 7);
    ops_kit_expect_dims(none, 2, (int64_t[]){2, 0});
    berth_tensor* grown = berth_pad(ctx, none, 2, (int64_t[]){1, 0}, 7);
    exec_kit_expect(grown, (float[]){7, 7}, 2);
    berth_tensor* bytes = berth_cast(ctx, x, BERTH_U8);
    berth_tensor* edges = berth_pad(ctx, bytes, 2, (int64_t[]){1, 0}, 1e9);
    uint8_t values[6];
    assert_ok(berth_tensor_read(edges, values, sizeof values));
    assert_memory_equal(values, ((uint8_t[]){255, 0, 1, 255, 2, 3}), sizeof values);
    berth_release_all(x, y, z, same, none, grown, bytes, edges);
    ops_kit_expect_nothing_left(ctx);
}

static void pads_that_cannot_be_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){2, 3});
    static const struct {
        int32_t count;
        int64_t pads[6];
        berth_status status;
        const char* text;
    } cases[] = {
        {1, {0}, BERTH_ERR_INVALID_ARGUMENT, "1 pads: pairs for up to 2 dimensions"},
        {6, {0}, BERTH_ERR_INVALID_ARGUMENT, "6 pads"},
        {-2, {0}, BERTH_ERR_INVALID_ARGUMENT, "-2 pads"},
        {2, {-2, -2}, BERTH_ERR_INVALID_ARGUMENT, "pad(f32[2, 3]): dimension 1 of size 3 cannot"},
        {2, {-4, 9}, BERTH_ERR_INVALID_ARGUMENT, "cannot lose what -4 and 9 take away"},
        {2, {INT64_MIN, INT64_MIN}, BERTH_ERR_INVALID_ARGUMENT, "cannot lose"},
        {4, {0, 0, INT64_MAX, 1}, BERTH_ERR_OVERFLOW, "padded dimension 0 does not fit 63 bits"},
        {4, {INT64_MAX / 4, 0, INT64_MAX / 4, 0}, BERTH_ERR_OVERFLOW, "pad(f32[2, 3])"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        assert_null(berth_pad(ctx, x, cases[i].count, cases[i].pads, 0));
        assert_context_fails(ctx, cases[i].status, cases[i].text);
    }
    assert_null(berth_pad(ctx, berth_move(x), 2, NULL, 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "2 pads");
    ops_kit_expect_nothing_left(ctx);
}

static void triangles_keep_one_side_of_a_diagonal(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){3, 3});
    berth_tensor* low = berth_tril(ctx, x, 0);
    exec_kit_expect(low, (float[]){0, 0, 0, 3, 4, 0, 6, 7, 8}, 9);
    berth_tensor* high = berth_triu(ctx, x, 1);
    exec_kit_expect(high, (float[]){0, 1, 2, 0, 0, 5, 0, 0, 0}, 9);
    berth_tensor* turned = berth_tril(ctx, berth_move(berth_transpose(ctx, x, 0, 1)), -1);
    exec_kit_expect(turned, (float[]){0, 0, 0, 1, 0, 0, 2, 5, 0}, 9);
    const void* place = exec_kit_place(x);
    x = berth_triu(ctx, berth_move(x), 0);
    assert_ptr_equal(exec_kit_place(x), place);
    exec_kit_expect(x, (float[]){0, 1, 2, 0, 4, 5, 0, 0, 8}, 9);
    berth_tensor* flat = exec_kit_ramp(ctx, 0, 2);
    assert_null(berth_tril(ctx, flat, 0));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "tril(f32[2]): a matrix has at least two dimensions");
    berth_release_all(x, low, high, turned, flat);
    ops_kit_expect_nothing_left(ctx);
}

static void missing_operands_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* const results[] = {berth_roll(ctx, NULL, 1, 0),
                                     berth_repeat(ctx, NULL, 1, (int64_t[]){1}),
                                     berth_pad(ctx, NULL, 2, (int64_t[]){1, 1}, 0),
                                     berth_tril(ctx, NULL, 0),
                                     berth_triu(NULL, NULL, 0),
                                     berth_pad(NULL, NULL, 0, NULL, 0),
                                     berth_repeat(NULL, NULL, 0, NULL)};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; ++i)
        assert_null(results[i]);
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "roll: operand 0 is NULL");
    ops_kit_expect_nothing_left(ctx);
}

static void many_tensors_are_joined_in_a_planned_step(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    for (int run = 0; run < 6; ++run) {
        const int64_t n = 100 + 10 * (run % 3);
        assert_ok(exec_kit_begin(ctx, "join", n));
        berth_tensor* parts[MANY];
        for (size_t i = 0; i < MANY; ++i)
            parts[i] = berth_move(exec_kit_ramp(ctx, (float)i, n));
        berth_tensor* y = berth_stack(ctx, parts, MANY, 1);
        berth_tensor* row = berth_select(ctx, y, 0, n - 1);
        float values[MANY];
        assert_ok(berth_tensor_read(row, values, sizeof values));
        for (size_t i = 0; i < MANY; ++i)
            assert_true(values[i] == (float)i + (float)(n - 1));
        berth_release_all(y, row);
        assert_ok(berth_step_end(ctx));
    }
    assert_true(exec_kit_counters(kit->runtime, "join").hits > 0);
    ops_kit_expect_nothing_left(ctx);
}

static void the_device_may_fail_in_any_group(void** state) {
    exec_kit* kit = *state;
    berth_context* ctx = kit->ctx;
    enum { GROUPS = 4 };
    for (uint64_t nth = 1; nth <= GROUPS; ++nth) {
        berth_tensor* parts[MANY];
        for (size_t i = 0; i < MANY; ++i)
            parts[i] = berth_move(exec_kit_ramp(ctx, 1, 3));
        berth_sim_fail(kit->runtime->device, BERTH_SIM_LAUNCH, nth);
        assert_null(berth_stack(ctx, parts, MANY, 0));
        assert_context_fails(ctx, BERTH_ERR_DEVICE, "stack(f32[");
        ops_kit_expect_nothing_left(ctx);
    }
}

static void a_result_without_room_is_refused(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* part = berth_zeros(ctx, BERTH_F32, 1, (int64_t[]){1 << 18}); // 1 MiB of 16
    berth_tensor* parts[MANY];
    for (size_t i = 0; i < MANY; ++i)
        parts[i] = part;
    assert_null(berth_cat(ctx, parts, MANY, 0));
    assert_context_fails(ctx, BERTH_ERR_OUT_OF_MEMORY, "cat(f32[262144]");
    assert_null(berth_repeat(ctx, part, 1, (int64_t[]){MANY}));
    assert_context_fails(ctx, BERTH_ERR_OUT_OF_MEMORY, "repeat(f32[262144])");
    berth_release(part);
    ops_kit_expect_nothing_left(ctx);
}

static void run_everything(berth_context* ctx) {
    berth_tensor* x = ops_kit_ramp(ctx, 2, (int64_t[]){3, 2});
    berth_tensor* parts[MANY];
    for (size_t i = 0; i < MANY; ++i)
        parts[i] = x;
    berth_tensor* joined = berth_cat(ctx, parts, MANY, 0);
    berth_tensor* stacked = berth_stack(ctx, parts, 3, 0);
    for (size_t i = 0; i < MANY; ++i)
        parts[i] = berth_move(ops_kit_ramp(ctx, 1, (int64_t[]){2}));
    berth_tensor* many = berth_stack(ctx, parts, MANY, 0);
    berth_tensor* rolled = berth_roll(ctx, x, 1, 0);
    berth_tensor* repeated = berth_repeat(ctx, x, 2, (int64_t[]){2, 2});
    berth_tensor* padded = berth_pad(ctx, x, 2, (int64_t[]){1, 1}, 0);
    berth_tensor* low = berth_tril(ctx, berth_move(x), 0);
    berth_release_all(joined, stacked, many, rolled, repeated, padded, low);
}

static void host_memory_may_fail_at_any_call(void** state) {
    (void)state;
    ops_kit_fail_everywhere(run_everything);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(cat_joins_along_a_dimension),
        EXEC_KIT_ON_BOTH(cat_promotes_types_as_pytorch_does),
        EXEC_KIT_ON_BOTH(stack_makes_a_dimension),
        EXEC_KIT_ON_BOTH(any_number_of_tensors_is_joined),
        EXEC_KIT_ON_BOTH(the_type_of_many_tensors_is_that_of_all),
        EXEC_KIT_ON_BOTH(moved_parts_of_many_are_consumed_once),
        EXEC_KIT_ON_BOTH(moving_one_reference_into_two_groups_is_refused),
        EXEC_KIT_ON_BOTH(what_cannot_be_joined_is_refused),
        EXEC_KIT_ON_BOTH(moved_parts_are_consumed_when_refused),
        EXEC_KIT_ON_BOTH(quantised_tensors_are_not_laid_out_anew),
        EXEC_KIT_ON_BOTH(roll_moves_round_the_end),
        EXEC_KIT_ON_BOTH(repeat_lays_copies_side_by_side),
        EXEC_KIT_ON_BOTH(repeats_that_cannot_be_are_refused),
        EXEC_KIT_ON_BOTH(pad_surrounds_and_crops),
        EXEC_KIT_ON_BOTH(pads_that_cannot_be_are_refused),
        EXEC_KIT_ON_BOTH(triangles_keep_one_side_of_a_diagonal),
        EXEC_KIT_ON_BOTH(missing_operands_are_refused),
        EXEC_KIT_ON_BOTH(many_tensors_are_joined_in_a_planned_step),
        cmocka_unit_test_setup_teardown(
            the_device_may_fail_in_any_group, exec_kit_set_up_sim, exec_kit_tear_down),
        cmocka_unit_test_setup_teardown(
            a_result_without_room_is_refused, exec_kit_set_up_sim, exec_kit_tear_down),
        cmocka_unit_test(host_memory_may_fail_at_any_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
