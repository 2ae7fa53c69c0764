// SPDX-License-Identifier: Apache-2.0
// matmul, linear, rope and attention by their public functions: shapes, operands of any strides,
// places, refusals.
#include <math.h>
#include <stdlib.h>

#include "exec_kit.h"

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

#define DIMS(...)                                                                                  \
    (int64_t[]) { __VA_ARGS__ }

/// [dims] of `dtype` with seeded values in [-1, 1).
static berth_tensor* make(berth_context* ctx,
                          berth_dtype dtype,
                          int32_t rank,
                          const int64_t* dims) {
    return berth_rand(ctx, 7, -1, 1, dtype, rank, dims);
}

/// The same values in memory that runs the other way along the last dimension, with gaps.
static berth_tensor* gapped(berth_context* ctx, berth_tensor* x) {
    const int32_t last = berth_tensor_rank(x) - 1;
    berth_tensor* turned = berth_flip(ctx, x, BERTH_DIMS(last));
    berth_tensor* column = berth_unsqueeze(ctx, berth_move(turned), last + 1);
    berth_tensor* both = berth_cat(ctx, (berth_tensor* [2]){column, column}, 2, last + 1);
    berth_tensor* one = berth_select(ctx, berth_move(both), last + 1, 1);
    berth_release(column);
    return berth_flip(ctx, berth_move(one), BERTH_DIMS(last));
}

static void expect_dims(const berth_tensor* x, int32_t rank, const int64_t* dims) {
    assert_non_null(x);
    assert_int_equal(berth_tensor_rank(x), rank);
    for (int32_t d = 0; d < rank; ++d)
        assert_int_equal(berth_tensor_dims(x)[d], dims[d]);
}

/// Both tensors hold the same bytes; ends the second.
static void expect_same(berth_tensor* expected, berth_tensor* found) {
    assert_non_null(expected);
    assert_non_null(found);
    const size_t bytes = berth_tensor_bytes(expected);
    assert_int_equal(berth_tensor_bytes(found), bytes);
    unsigned char* values = malloc(2 * bytes + 1);
    assert_non_null(values);
    assert_ok(berth_tensor_read(expected, values, bytes));
    assert_ok(berth_tensor_read(found, values + bytes, bytes));
    assert_memory_equal(values, values + bytes, bytes);
    free(values);
    berth_release(found);
}

static void expect_nothing_left(berth_context* ctx) {
    assert_context_ok(ctx);
    assert_int_equal(ctx->home.live_objects, 0);
}

// --- matmul --------------------------------------------------------------------------------------

static void matmul_shapes_follow_numpy(void** state) {
    berth_context* ctx = context_of(state);
    static const struct {
        int32_t a_rank;
        int64_t a[4];
        int32_t b_rank;
        int64_t b[4];
        int32_t rank;
        int64_t dims[4];
    } cases[] = {
        {1, {3}, 1, {3}, 0, {0}},
        {1, {3}, 2, {3, 4}, 1, {4}},
        {2, {2, 3}, 1, {3}, 1, {2}},
        {2, {2, 3}, 2, {3, 4}, 2, {2, 4}},
        {1, {3}, 4, {5, 6, 3, 4}, 3, {5, 6, 4}},
        {4, {5, 6, 2, 3}, 1, {3}, 3, {5, 6, 2}},
        {3, {5, 2, 3}, 4, {6, 1, 3, 4}, 4, {6, 5, 2, 4}},
        {3, {0, 2, 3}, 2, {3, 4}, 3, {0, 2, 4}},
        {2, {2, 0}, 2, {0, 4}, 2, {2, 4}},
        {1, {0}, 1, {0}, 0, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        for (berth_dtype dtype = BERTH_F32; dtype <= BERTH_I64; ++dtype) {
            berth_tensor* a = berth_ones(ctx, dtype, cases[i].a_rank, cases[i].a);
            berth_tensor* b = berth_ones(ctx, dtype, cases[i].b_rank, cases[i].b);
            berth_tensor* c = berth_matmul(ctx, a, b);
            assert_context_ok(ctx);
            expect_dims(c, cases[i].rank, cases[i].dims);
            assert_int_equal(berth_tensor_dtype(c), dtype);
            berth_tensor* wide = berth_cast(ctx, c, BERTH_F32);
            const float k = (float)cases[i].a[cases[i].a_rank - 1];
            float values[240];
            const size_t count = (size_t)berth_tensor_count(c);
            assert_true(count <= 240);
            assert_ok(berth_tensor_read(wide, values, count * sizeof(float)));
            for (size_t j = 0; j < count; ++j)
                assert_true(values[j] == k);
            berth_release_all(a, b, c, wide);
        }
    }
    expect_nothing_left(ctx);
}

static void matmul_takes_operands_of_any_strides(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = make(ctx, BERTH_F32, 2, DIMS(5, 7));
    berth_tensor* b = make(ctx, BERTH_F32, 2, DIMS(7, 6));
    berth_tensor* expected = berth_matmul(ctx, a, b);
    berth_tensor* turned = berth_contiguous(ctx, berth_move(berth_transpose(ctx, b, 0, 1)));
    expect_same(expected,
                berth_matmul(ctx, a, berth_move(berth_transpose(ctx, berth_move(turned), 0, 1))));
    expect_same(expected, berth_matmul(ctx, berth_move(gapped(ctx, a)), b));
    expect_same(expected, berth_matmul(ctx, a, berth_move(gapped(ctx, b))));
    // rows that are one row, and the copy of it
    berth_tensor* row = berth_narrow(ctx, a, 0, 2, 1);
    berth_tensor* rows = berth_expand(ctx, row, 2, DIMS(4, 7));
    berth_tensor* copy = berth_copy(ctx, rows);
    berth_tensor* product = berth_matmul(ctx, copy, b);
    expect_same(product, berth_matmul(ctx, rows, b));
    berth_release_all(a, b, expected, row, rows, copy, product);
    expect_nothing_left(ctx);
}

static void matmul_refuses_what_does_not_fit_by_name_and_shapes(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* a = make(ctx, BERTH_F32, 2, DIMS(2, 3));
    berth_tensor* b = make(ctx, BERTH_F32, 2, DIMS(2, 3));
    berth_tensor* halves = make(ctx, BERTH_F16, 2, DIMS(3, 2));
    berth_tensor* bools = berth_zeros(ctx, BERTH_BOOL, 2, DIMS(3, 2));
    berth_tensor* scalar = make(ctx, BERTH_F32, 0, NULL);
    berth_tensor* pairs = make(ctx, BERTH_F32, 3, DIMS(2, 3, 2));
    berth_tensor* triples = make(ctx, BERTH_F32, 3, DIMS(3, 2, 3));
    assert_null(berth_matmul(ctx, a, b));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "matmul(f32[2, 3], f32[2, 3])");
    assert_null(berth_matmul(ctx, a, b));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "the inner dimensions differ: 3 of a, 2 of b");
    assert_null(berth_matmul(ctx, a, halves));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "both operands must have one type; cast one");
    assert_null(berth_matmul(ctx, a, bools));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "bool is not accepted here");
    assert_null(berth_matmul(ctx, scalar, a));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "at least one dimension");
    assert_null(berth_matmul(ctx, a, scalar));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "at least one dimension");
    assert_null(berth_matmul(ctx, pairs, triples));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "leading dimensions do not broadcast");
    berth_release_all(a, b, halves, bools, scalar, pairs, triples);
    expect_nothing_left(ctx);
}

static void matmul_refuses_sizes_that_overflow(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* one = berth_zeros(ctx, BERTH_F32, 2, DIMS(1, 1));
    berth_tensor* column = berth_expand(ctx, one, 2, DIMS(INT64_C(1) << 40, 1));
    berth_tensor* row = berth_expand(ctx, one, 2, DIMS(1, INT64_C(1) << 40));
    assert_context_ok(ctx);
    assert_null(berth_matmul(ctx, column, row));
    assert_context_fails(ctx, BERTH_ERR_OVERFLOW, "matmul(");
    berth_release_all(one, column, row);
    expect_nothing_left(ctx);
}

// --- linear --------------------------------------------------------------------------------------

static void linear_takes_operands_of_any_strides(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, BERTH_F32, 3, DIMS(2, 3, 20));
    berth_tensor* weight = make(ctx, BERTH_F16, 2, DIMS(9, 20));
    berth_tensor* bias = make(ctx, BERTH_F32, 1, DIMS(9));
    berth_tensor* expected = berth_linear(ctx, x, weight, bias);
    expect_dims(expected, 3, DIMS(2, 3, 9));
    expect_same(expected, berth_linear(ctx, berth_move(gapped(ctx, x)), weight, bias));
    expect_same(expected, berth_linear(ctx, x, berth_move(gapped(ctx, weight)), bias));
    expect_same(expected, berth_linear(ctx, x, weight, berth_move(gapped(ctx, bias))));
    expect_same(expected,
                berth_linear(ctx,
                             berth_move(gapped(ctx, x)),
                             berth_move(gapped(ctx, weight)),
                             berth_move(gapped(ctx, bias))));
    berth_tensor* one = berth_select(ctx, berth_move(berth_select(ctx, x, 0, 1)), 0, 2);
    berth_tensor* of_one = berth_linear(ctx, one, weight, bias);
    expect_dims(of_one, 1, DIMS(9));
    berth_tensor* row = berth_select(ctx, berth_move(berth_select(ctx, expected, 0, 1)), 0, 2);
    expect_same(row, of_one);
    berth_tensor* none = berth_zeros(ctx, BERTH_F32, 2, DIMS(0, 20));
    berth_tensor* of_none = berth_linear(ctx, none, weight, NULL);
    expect_dims(of_none, 2, DIMS(0, 9));
    berth_release_all(x, weight, bias, expected, one, row, none, of_none);
    expect_nothing_left(ctx);
}

static void linear_refuses_what_does_not_fit_by_name_and_shapes(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, BERTH_F32, 2, DIMS(2, 20));
    berth_tensor* weight = make(ctx, BERTH_F32, 2, DIMS(9, 20));
    berth_tensor* narrow = make(ctx, BERTH_F32, 2, DIMS(9, 19));
    berth_tensor* cube = make(ctx, BERTH_F32, 3, DIMS(1, 9, 20));
    berth_tensor* bias = make(ctx, BERTH_F32, 1, DIMS(8));
    berth_tensor* numbers = berth_zeros(ctx, BERTH_I32, 2, DIMS(9, 20));
    berth_tensor* scalar = make(ctx, BERTH_F32, 0, NULL);
    assert_null(berth_linear(ctx, x, narrow, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "linear(f32[2, 20], f32[9, 19])");
    berth_tensor* turned = make(ctx, BERTH_F32, 2, DIMS(20, 9));
    assert_null(berth_linear(ctx, x, berth_move(turned), NULL));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "dimension of x is 20: berth_transpose() weight");
    assert_null(berth_linear(ctx, x, cube, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "weight must be [outputs, inputs]");
    assert_null(berth_linear(ctx, x, weight, bias));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "bias must be f32[9], one for each output");
    assert_null(berth_linear(ctx, numbers, weight, NULL));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "x must be f32, f16 or bf16");
    assert_null(berth_linear(ctx, x, numbers, NULL));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "weight must be a float or a quantised type");
    assert_null(berth_linear(ctx, scalar, weight, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "x needs at least one dimension");
    berth_release_all(x, weight, narrow, cube, bias, numbers, scalar);
    expect_nothing_left(ctx);
}

// --- rope ----------------------------------------------------------------------------------------

static void rope_takes_operands_of_any_strides(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, BERTH_F32, 3, DIMS(4, 2, 8));
    berth_tensor* positions = berth_arange(ctx, 5, 9, 1, BERTH_I32);
    berth_tensor* divisors = berth_full(ctx, 2, BERTH_F32, 1, DIMS(4));
    berth_tensor* expected = berth_rope(ctx, x, positions, divisors, NULL);
    expect_dims(expected, 3, DIMS(4, 2, 8));
    expect_same(expected, berth_rope(ctx, berth_move(gapped(ctx, x)), positions, divisors, NULL));
    expect_same(expected, berth_rope(ctx, x, berth_move(gapped(ctx, positions)), divisors, NULL));
    expect_same(expected, berth_rope(ctx, x, positions, berth_move(gapped(ctx, divisors)), NULL));
    berth_tensor* mine = berth_copy(ctx, x);
    const void* place = exec_kit_place(mine);
    berth_tensor* turned = berth_rope(ctx, berth_move(mine), positions, divisors, NULL);
    assert_ptr_equal(exec_kit_place(turned), place);
    expect_same(expected, turned);
    berth_tensor* held = berth_retain(x);
    turned = berth_rope(ctx, berth_move(held), positions, divisors, NULL);
    assert_ptr_not_equal(exec_kit_place(turned), exec_kit_place(x));
    expect_same(expected, turned);
    berth_release_all(x, positions, divisors, expected);
    expect_nothing_left(ctx);
}

static void rope_turns_batches_as_each_alone(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, BERTH_F16, 4, DIMS(3, 4, 2, 10));
    berth_tensor* flat = berth_arange(ctx, 0, 12, 1, BERTH_I32);
    berth_tensor* positions = berth_reshape(ctx, berth_move(flat), 2, DIMS(3, 4));
    berth_tensor* first = berth_select(ctx, positions, 0, 0);
    for (int halves = 0; halves < 2; ++halves) {
        const berth_rope_options options = {.rotary_dims = halves ? 6 : 0, .halves = halves};
        berth_tensor* of_each = berth_rope(ctx, x, positions, NULL, &options);
        berth_tensor* of_all = berth_rope(ctx, x, first, NULL, &options);
        expect_same(of_each,
                    berth_rope(ctx, x, berth_move(gapped(ctx, positions)), NULL, &options));
        for (int64_t b = 0; b < 3; ++b) {
            berth_tensor* one = berth_select(ctx, x, 0, b);
            berth_tensor* place = berth_select(ctx, positions, 0, b);
            berth_tensor* found =
                berth_contiguous(ctx, berth_move(berth_select(ctx, of_each, 0, b)));
            expect_same(found, berth_rope(ctx, one, berth_move(place), NULL, &options));
            berth_release(found);
            found = berth_contiguous(ctx, berth_move(berth_select(ctx, of_all, 0, b)));
            expect_same(found, berth_rope(ctx, berth_move(one), first, NULL, &options));
            berth_release(found);
        }
        berth_tensor* copy = berth_copy(ctx, x);
        const void* place = exec_kit_place(copy);
        berth_tensor* turned = berth_rope(ctx, berth_move(copy), positions, NULL, &options);
        assert_ptr_equal(exec_kit_place(turned), place);
        expect_same(of_each, turned);
        berth_release_all(of_each, of_all);
    }
    berth_tensor* none = berth_zeros(ctx, BERTH_F32, 4, DIMS(0, 4, 2, 10));
    berth_tensor* of_none = berth_rope(ctx, none, first, NULL, NULL);
    expect_dims(of_none, 4, DIMS(0, 4, 2, 10));
    berth_tensor* too_few = berth_zeros(ctx, BERTH_I32, 2, DIMS(2, 4));
    assert_null(berth_rope(ctx, x, too_few, NULL, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "[tokens] or [batches, tokens]");
    berth_release_all(x, positions, first, none, of_none, too_few);
    expect_nothing_left(ctx);
}

static void rope_refuses_what_does_not_fit_by_name_and_shapes(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* x = make(ctx, BERTH_F32, 3, DIMS(4, 2, 8));
    berth_tensor* flat = make(ctx, BERTH_F32, 2, DIMS(4, 16));
    berth_tensor* positions = berth_arange(ctx, 0, 4, 1, BERTH_I64);
    berth_tensor* fewer = berth_arange(ctx, 0, 3, 1, BERTH_I64);
    berth_tensor* reals = berth_arange(ctx, 0, 4, 1, BERTH_F32);
    assert_null(berth_rope(ctx, flat, positions, NULL, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "rope(f32[4, 16], i64[4])");
    assert_null(berth_rope(ctx, x, fewer, NULL, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "positions must be i32 or i64 [tokens]");
    assert_null(berth_rope(ctx, x, reals, NULL, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "positions must be i32 or i64 [tokens]");
    assert_null(berth_rope(ctx, x, positions, reals, &(berth_rope_options){.rotary_dims = 6}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "divisors must be f32");
    assert_null(berth_rope(ctx, x, positions, NULL, &(berth_rope_options){.rotary_dims = 3}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "must be even and at most the head size");
    assert_null(berth_rope(ctx, x, positions, NULL, &(berth_rope_options){.rotary_dims = 10}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "must be even and at most the head size");
    assert_null(berth_rope(ctx, x, positions, NULL, &(berth_rope_options){.base = -1}));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "base must be positive");
    assert_null(berth_rope(ctx, positions, positions, NULL, NULL));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "x must be f32, f16 or bf16");
    berth_release_all(x, flat, positions, fewer, reals);
    expect_nothing_left(ctx);
}

// --- attention -----------------------------------------------------------------------------------

/// Queries, keys, values and a mask that fit; `batches` 0: without.
typedef struct quartet {
    berth_tensor* q;
    berth_tensor* k;
    berth_tensor* v;
    berth_tensor* mask;
} quartet;

static quartet make_quartet(berth_context* ctx, int64_t batches) {
    const int32_t rank = batches > 0 ? 4 : 3;
    berth_tensor* chance = berth_rand(ctx, 3, 0, 1, BERTH_F32, 3, DIMS(4, 5, 9));
    berth_tensor* limit = berth_full(ctx, 0.7, BERTH_F32, 0, NULL);
    return (quartet){
        .q = make(ctx, BERTH_F32, rank, DIMS(batches, 5, 4, 16) + 4 - rank),
        .k = make(ctx, BERTH_F32, rank, DIMS(batches, 9, 2, 16) + 4 - rank),
        .v = make(ctx, BERTH_F32, rank, DIMS(batches, 9, 2, 12) + 4 - rank),
        .mask = berth_lt(ctx, berth_move(chance), berth_move(limit)),
    };
}

static void free_quartet(quartet* x) { berth_release_all(x->q, x->k, x->v, x->mask); }

static void attention_takes_operands_of_any_strides(void** state) {
    berth_context* ctx = context_of(state);
    for (int64_t batches = 0; batches <= 2; batches += 2) {
        quartet x = make_quartet(ctx, batches);
        berth_tensor* expected = berth_attention(ctx, x.q, x.k, x.v, x.mask, 0, true, 4);
        assert_context_ok(ctx);
        expect_dims(expected, batches > 0 ? 4 : 3, DIMS(2, 5, 4, 12) + (batches > 0 ? 0 : 1));
        berth_tensor* const operands[4] = {x.q, x.k, x.v, x.mask};
        for (int i = 0; i < 4; ++i) {
            berth_tensor* given[4] = {x.q, x.k, x.v, x.mask};
            given[i] = berth_move(gapped(ctx, operands[i]));
            expect_same(expected,
                        berth_attention(ctx, given[0], given[1], given[2], given[3], 0, true, 4));
        }
        berth_release(expected);
        free_quartet(&x);
    }
    expect_nothing_left(ctx);
}

/// [tokens, heads, size] as a view of memory that has heads first.
static berth_tensor* heads_first(berth_context* ctx, berth_tensor* x) {
    berth_tensor* turned = berth_contiguous(ctx, berth_move(berth_transpose(ctx, x, 0, 1)));
    return berth_move(berth_transpose(ctx, berth_move(turned), 0, 1));
}

static void attention_takes_heads_before_tokens_as_views(void** state) {
    berth_context* ctx = context_of(state);
    quartet x = make_quartet(ctx, 0);
    berth_tensor* expected = berth_attention(ctx, x.q, x.k, x.v, NULL, 0.5f, false, 0);
    expect_same(expected,
                berth_attention(ctx,
                                heads_first(ctx, x.q),
                                heads_first(ctx, x.k),
                                heads_first(ctx, x.v),
                                NULL,
                                0.5f,
                                false,
                                0));
    berth_release(expected);
    free_quartet(&x);
    expect_nothing_left(ctx);
}

static void a_mask_of_what_is_causal_is_causal_attention(void** state) {
    berth_context* ctx = context_of(state);
    quartet x = make_quartet(ctx, 2);
    berth_tensor* expected = berth_attention(ctx, x.q, x.k, x.v, NULL, 0, true, 3);
    berth_tensor* keys = berth_arange(ctx, 0, 9, 1, BERTH_I32);
    berth_tensor* tokens =
        berth_unsqueeze(ctx, berth_move(berth_arange(ctx, 3, 8, 1, BERTH_I32)), 1);
    berth_tensor* may_look = berth_le(ctx, keys, tokens);
    expect_same(expected, berth_attention(ctx, x.q, x.k, x.v, may_look, 0, false, 0));
    berth_tensor* seen = berth_full(ctx, 0, BERTH_F16, 0, NULL);
    berth_tensor* hidden = berth_full(ctx, -(double)INFINITY, BERTH_F16, 0, NULL);
    berth_tensor* added = berth_where(ctx, may_look, berth_move(seen), berth_move(hidden));
    expect_same(expected, berth_attention(ctx, x.q, x.k, x.v, added, 0, false, 0));
    berth_release_all(expected, keys, tokens, may_look, added);
    free_quartet(&x);
    expect_nothing_left(ctx);
}

static void attention_without_keys_or_tokens_is_zeros_or_nothing(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* q = make(ctx, BERTH_F32, 4, DIMS(2, 3, 2, 4));
    berth_tensor* k = make(ctx, BERTH_F32, 4, DIMS(2, 0, 1, 4));
    berth_tensor* mask = berth_ones(ctx, BERTH_BOOL, 2, DIMS(3, 0));
    const float zeros[48] = {0};
    berth_tensor* out = berth_attention(ctx, q, k, k, mask, 0, false, 0);
    assert_context_ok(ctx);
    exec_kit_expect(out, zeros, 48);
    berth_release(out);
    berth_tensor* none = make(ctx, BERTH_F32, 4, DIMS(2, 0, 2, 4));
    berth_tensor* some = make(ctx, BERTH_F32, 4, DIMS(2, 5, 1, 4));
    out = berth_attention(ctx, none, some, some, NULL, 0, true, 0);
    expect_dims(out, 4, DIMS(2, 0, 2, 4));
    berth_release(out);
    berth_tensor* no_batch_q = make(ctx, BERTH_F32, 4, DIMS(0, 3, 2, 4));
    berth_tensor* no_batch_k = make(ctx, BERTH_F32, 4, DIMS(0, 5, 1, 4));
    out = berth_attention(ctx, no_batch_q, no_batch_k, no_batch_k, NULL, 0, true, 0);
    expect_dims(out, 4, DIMS(0, 3, 2, 4));
    berth_release_all(q, k, mask, out, none, some, no_batch_q, no_batch_k);
    expect_nothing_left(ctx);
}

static void attention_refuses_masks_that_do_not_fit(void** state) {
    berth_context* ctx = context_of(state);
    quartet x = make_quartet(ctx, 0);
    static const struct {
        int32_t rank;
        int64_t dims[4];
        const char* text;
    } cases[] = {
        {2, {5, 8}, "dimension 1 of the mask must be 9 or 1, not 8"},
        {2, {4, 9}, "dimension 0 of the mask must be 5 or 1, not 4"},
        {3, {2, 5, 9}, "dimension 0 of the mask must be 4 or 1, not 2"},
        {1, {9}, "mask must be [tokens, keys]"},
        {4, {1, 4, 5, 9}, "mask must be [tokens, keys]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        berth_tensor* mask = berth_ones(ctx, BERTH_BOOL, cases[i].rank, cases[i].dims);
        assert_null(berth_attention(ctx, x.q, x.k, x.v, berth_move(mask), 0, false, 0));
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, cases[i].text);
    }
    berth_tensor* numbers = berth_ones(ctx, BERTH_I32, 2, DIMS(5, 9));
    assert_null(berth_attention(ctx, x.q, x.k, x.v, berth_move(numbers), 0, false, 0));
    assert_context_fails(ctx, BERTH_ERR_UNSUPPORTED, "mask must be bool or a float type");
    free_quartet(&x);
    expect_nothing_left(ctx);
}

static void attention_refuses_what_does_not_fit_by_name_and_shapes(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* q = make(ctx, BERTH_F32, 3, DIMS(5, 4, 16));
    static const struct {
        berth_dtype k_dtype;
        int32_t rank;
        int64_t k[4], v[4];
        berth_status status;
        const char* text;
    } cases[] = {
        {BERTH_F32, 3, {9, 2, 16}, {8, 2, 16}, BERTH_ERR_INVALID_ARGUMENT, "differ in tokens"},
        {BERTH_F32, 3, {9, 2, 16}, {9, 1, 16}, BERTH_ERR_INVALID_ARGUMENT, "or heads"},
        {BERTH_F32, 3, {9, 2, 15}, {9, 2, 16}, BERTH_ERR_INVALID_ARGUMENT, "differ in head size"},
        {BERTH_F32, 3, {9, 3, 16}, {9, 3, 16}, BERTH_ERR_INVALID_ARGUMENT, "must be a multiple"},
        {BERTH_F32, 3, {9, 0, 16}, {9, 0, 16}, BERTH_ERR_INVALID_ARGUMENT, "must be a multiple"},
        {BERTH_F32, 4, {1, 9, 2, 16}, {1, 9, 2, 16}, BERTH_ERR_INVALID_ARGUMENT, "with a batch"},
        {BERTH_F32, 2, {9, 16}, {9, 16}, BERTH_ERR_INVALID_ARGUMENT, "[tokens, heads, head size]"},
        {BERTH_F16, 3, {9, 2, 16}, {9, 2, 16}, BERTH_ERR_UNSUPPORTED, "k and v one float type"},
        {BERTH_I32, 3, {9, 2, 16}, {9, 2, 16}, BERTH_ERR_UNSUPPORTED, "must be a float type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        berth_tensor* k = berth_zeros(ctx, cases[i].k_dtype, cases[i].rank, cases[i].k);
        berth_tensor* v = berth_zeros(ctx, BERTH_F32, cases[i].rank, cases[i].v);
        assert_null(berth_attention(ctx, q, berth_move(k), berth_move(v), NULL, 0, false, 0));
        assert_context_fails(ctx, cases[i].status, cases[i].text);
    }
    berth_tensor* k = make(ctx, BERTH_F32, 3, DIMS(9, 2, 16));
    assert_null(berth_attention(ctx, q, k, k, NULL, 0, true, -1));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "the query offset is negative");
    assert_null(berth_attention(ctx, q, k, k, NULL, INFINITY, true, 0));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "attention(f32[5, 4, 16], f32[9, 2, 16], f32[9, 2, 16])");
    berth_tensor* many = make(ctx, BERTH_F32, 4, DIMS(3, 5, 2, 8));
    berth_tensor* few = make(ctx, BERTH_F32, 4, DIMS(1, 5, 2, 8));
    assert_null(berth_attention(ctx, many, few, few, NULL, 0, false, 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "q, k and v differ in batches");
    berth_release_all(q, k, many, few);
    expect_nothing_left(ctx);
}

// --- References ----------------------------------------------------------------------------------

static void a_missing_operand_is_an_error_and_the_others_are_consumed(void** state) {
    berth_context* ctx = context_of(state);
    for (int missing = 0; missing < 3; ++missing) {
        for (int with_gaps = 0; with_gaps < 2; ++with_gaps) {
            quartet x = make_quartet(ctx, 0);
            berth_tensor* given[3] = {x.q, x.k, x.v};
            for (int i = 0; i < 3; ++i) {
                if (with_gaps)
                    given[i] = gapped(ctx, given[i]);
                else
                    berth_retain(given[i]);
            }
            berth_release(given[missing]);
            given[missing] = NULL;
            char text[64];
            snprintf(text, sizeof text, "attention: operand %d is NULL", missing);
            assert_null(berth_attention(ctx,
                                        berth_move(given[0]),
                                        berth_move(given[1]),
                                        berth_move(given[2]),
                                        berth_retain(x.mask),
                                        0,
                                        false,
                                        0));
            assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, text);
            berth_release(x.mask);
            free_quartet(&x);
        }
    }
    berth_tensor* x = make(ctx, BERTH_F32, 2, DIMS(3, 3));
    assert_null(berth_matmul(ctx, NULL, x));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "matmul: operand 0 is NULL");
    assert_null(berth_linear(ctx, x, NULL, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "linear: operand 1 is NULL");
    assert_null(berth_linear(ctx, NULL, x, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "linear: operand 0 is NULL");
    assert_null(berth_rope(ctx, x, NULL, NULL, NULL));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "rope: operand 1 is NULL");
    assert_null(berth_matmul(NULL, x, x));
    assert_null(berth_linear(NULL, x, x, x));
    assert_null(berth_rope(NULL, x, x, x, NULL));
    assert_null(berth_attention(NULL, x, x, x, x, 0, false, 0));
    berth_release(x);
    expect_nothing_left(ctx);
}

static void refused_operands_that_were_moved_are_consumed(void** state) {
    berth_context* ctx = context_of(state);
    for (int with_gaps = 0; with_gaps < 2; ++with_gaps) {
        berth_tensor* x[4];
        for (int i = 0; i < 4; ++i) {
            x[i] = make(ctx, BERTH_F32, 3, DIMS(2, 3, 4 + i));
            if (!with_gaps) continue;
            berth_tensor* plain = x[i];
            x[i] = gapped(ctx, plain);
            berth_release(plain);
        }
        for (int i = 0; i < 4; ++i)
            berth_retain(x[i]);
        assert_null(berth_attention(ctx,
                                    berth_move(x[0]),
                                    berth_move(x[1]),
                                    berth_move(x[2]),
                                    berth_move(x[3]),
                                    0,
                                    false,
                                    0));
        berth_context_clear_error(ctx);
        for (int i = 0; i < 3; ++i)
            berth_retain(x[i]);
        assert_null(berth_linear(ctx, berth_move(x[0]), berth_move(x[1]), berth_move(x[2])));
        berth_context_clear_error(ctx);
        for (int i = 0; i < 3; ++i)
            berth_retain(x[i]);
        assert_null(berth_rope(ctx, berth_move(x[0]), berth_move(x[1]), berth_move(x[2]), NULL));
        berth_context_clear_error(ctx);
        assert_null(berth_matmul(ctx, berth_move(x[0]), berth_move(x[1])));
        berth_context_clear_error(ctx);
        berth_release_all(x[2], x[3]);
        expect_nothing_left(ctx);
    }
}

static void one_tensor_may_be_several_operands_also_when_it_is_moved(void** state) {
    berth_context* ctx = context_of(state);
    berth_tensor* plain = make(ctx, BERTH_F32, 3, DIMS(6, 2, 16));
    berth_tensor* expected = berth_attention(ctx, plain, plain, plain, NULL, 0, true, 0);
    berth_tensor* x = gapped(ctx, plain);
    expect_same(expected, berth_attention(ctx, berth_move(x), x, x, NULL, 0, true, 0));
    x = gapped(ctx, plain);
    berth_retain(x);
    berth_retain(x);
    expect_same(
        expected,
        berth_attention(ctx, berth_move(x), berth_move(x), berth_move(x), NULL, 0, true, 0));
    berth_release_all(plain, expected);
    expect_nothing_left(ctx);
}

static void an_error_that_sticks_consumes_what_is_moved(void** state) {
    berth_context* ctx = context_of(state);
    quartet x = make_quartet(ctx, 0);
    berth_tensor* q = gapped(ctx, x.q);
    assert_null(berth_matmul(ctx, NULL, x.q));
    assert_null(berth_attention(
        ctx, berth_move(q), berth_move(x.k), berth_move(x.v), berth_move(x.mask), 0, false, 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "matmul");
    berth_release(x.q);
    expect_nothing_left(ctx);
}

// --- Failures of the system below ----------------------------------------------------------------

/// Every op of the family, with operands that are copied first and with such that are not; NULL at
/// the first failure.
static berth_tensor* run_all(berth_context* ctx) {
    berth_tensor* x = berth_zeros(ctx, BERTH_F32, 2, DIMS(8, 8));
    berth_tensor* turned = berth_transpose(ctx, x, 0, 1);
    berth_tensor* bias = berth_zeros(ctx, BERTH_F32, 1, DIMS(8));
    berth_tensor* y = berth_linear(ctx, turned, x, bias);
    y = berth_matmul(ctx, berth_move(y), berth_move(turned));
    y = berth_reshape(ctx, berth_move(y), 3, DIMS(4, 2, 8));
    y = berth_transpose(ctx, berth_move(y), 1, 2);
    berth_tensor* positions = berth_arange(ctx, 0, 4, 1, BERTH_I32);
    y = berth_rope(ctx, berth_move(y), berth_move(positions), NULL, NULL);
    berth_tensor* mask = berth_ones(ctx, BERTH_BOOL, 2, DIMS(4, 1));
    berth_tensor* z = berth_transpose(ctx, berth_move(y), 1, 2);
    y = berth_attention(ctx, berth_move(z), z, z, berth_move(mask), 0, true, 0);
    berth_release_all(x, bias);
    return y;
}

static void a_failed_allocation_leaves_nothing_behind(void** state) {
    (void)state;
    exec_kit_fail_every_allocation("cpu", run_all);
    exec_kit_fail_every_allocation("sim", run_all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(matmul_shapes_follow_numpy),
        EXEC_KIT_ON_BOTH(matmul_takes_operands_of_any_strides),
        EXEC_KIT_ON_BOTH(matmul_refuses_what_does_not_fit_by_name_and_shapes),
        EXEC_KIT_ON_BOTH(matmul_refuses_sizes_that_overflow),
        EXEC_KIT_ON_BOTH(linear_takes_operands_of_any_strides),
        EXEC_KIT_ON_BOTH(linear_refuses_what_does_not_fit_by_name_and_shapes),
        EXEC_KIT_ON_BOTH(rope_takes_operands_of_any_strides),
        EXEC_KIT_ON_BOTH(rope_turns_batches_as_each_alone),
        EXEC_KIT_ON_BOTH(rope_refuses_what_does_not_fit_by_name_and_shapes),
        EXEC_KIT_ON_BOTH(attention_takes_operands_of_any_strides),
        EXEC_KIT_ON_BOTH(attention_takes_heads_before_tokens_as_views),
        EXEC_KIT_ON_BOTH(a_mask_of_what_is_causal_is_causal_attention),
        EXEC_KIT_ON_BOTH(attention_without_keys_or_tokens_is_zeros_or_nothing),
        EXEC_KIT_ON_BOTH(attention_refuses_masks_that_do_not_fit),
        EXEC_KIT_ON_BOTH(attention_refuses_what_does_not_fit_by_name_and_shapes),
        EXEC_KIT_ON_BOTH(a_missing_operand_is_an_error_and_the_others_are_consumed),
        EXEC_KIT_ON_BOTH(refused_operands_that_were_moved_are_consumed),
        EXEC_KIT_ON_BOTH(one_tensor_may_be_several_operands_also_when_it_is_moved),
        EXEC_KIT_ON_BOTH(an_error_that_sticks_consumes_what_is_moved),
        cmocka_unit_test(a_failed_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
