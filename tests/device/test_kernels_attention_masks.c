// SPDX-License-Identifier: Apache-2.0
// ATTENTION with masks and batches against arithmetic in double; what a mask may not change.
#include "device/kernel_kit.h"

#include "device/cpu/kernel_attention.h"

static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};
static const berth_dtype mask_types[] = {BERTH_BOOL, BERTH_F32, BERTH_F16, BERTH_BF16};

/// The shape of a case.
typedef struct mask_case {
    int64_t batches; ///< 0: tensors of rank 3
    int64_t tokens, heads, kv_heads, keys, depth, width;
    berth_dtype q_dtype, kv_dtype, mask_dtype;
    int32_t mask_rank;    ///< 0: no mask
    int64_t mask_dims[4]; ///< [mask_rank]
    bool causal;
    int64_t offset;
    bool contiguous;
} mask_case;

typedef struct mask_tensors {
    kit_tensor q, k, v, mask, out;
    berth_attention_params params;
    berth_op_call call;
} mask_tensors;

static kit_tensor make(const mask_case* c, berth_dtype dtype, int64_t a, int64_t b, int64_t d) {
    const int64_t dims[4] = {c->batches, a, b, d};
    const int32_t rank = c->batches > 0 ? 4 : 3;
    kit_tensor tensor = c->contiguous ? kit_contiguous(dtype, rank, dims + 4 - rank)
                                      : kit_strided(dtype, rank, dims + 4 - rank, true, true);
    kit_fill(&tensor, -1, 1);
    return tensor;
}

/// Hides, in a row of the mask, keys here and there, whole tiles, whole segments, all or none.
static bool is_hidden(int64_t kind, uint64_t pattern, int64_t key) {
    switch (kind) {
    case 0:
        return kit_int(0, 2) == 0;
    case 1:
        return (pattern >> key / 64 % 64 & 1) != 0;
    case 2:
        return (pattern >> key / 512 % 64 & 1) != 0 || kit_int(0, 9) == 0;
    case 3:
        return true;
    default:
        return false;
    }
}

static void fill_mask(kit_tensor* mask) {
    const berth_view* view = &mask->view;
    const int64_t keys = view->dims[view->rank - 1];
    const int64_t rows = keys == 0 ? 0 : kit_count(view) / keys;
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t kind = kit_int(0, 4);
        const uint64_t pattern = kit_next();
        for (int64_t key = 0; key < keys; ++key) {
            const bool hidden = is_hidden(kind, pattern, key);
            double value = hidden ? 0 : 1;
            if (view->dtype != BERTH_BOOL) value = hidden ? -(double)INFINITY : kit_real(-2, 2);
            kit_store(view->dtype, kit_at(view, row * keys + key), value);
        }
    }
}

static void tensors_init(mask_tensors* t, const mask_case* c) {
    const int64_t out_dims[4] = {c->batches, c->tokens, c->heads, c->width};
    const int32_t rank = c->batches > 0 ? 4 : 3;
    *t = (mask_tensors){
        .q = make(c, c->q_dtype, c->tokens, c->heads, c->depth),
        .k = make(c, c->kv_dtype, c->keys, c->kv_heads, c->depth),
        .v = make(c, c->kv_dtype, c->keys, c->kv_heads, c->width),
        .out = kit_contiguous(c->q_dtype, rank, out_dims + 4 - rank),
        .params = {.scale = 0.7f, .causal = c->causal, .query_offset = c->offset},
    };
    if (c->mask_rank > 0) {
        t->mask = c->contiguous
                      ? kit_contiguous(c->mask_dtype, c->mask_rank, c->mask_dims)
                      : kit_strided(c->mask_dtype, c->mask_rank, c->mask_dims, false, true);
        fill_mask(&t->mask);
    }
    t->call = (berth_op_call){.input_count = c->mask_rank > 0 ? 4 : 3,
                              .inputs = {t->q.view, t->k.view, t->v.view, t->mask.view},
                              .params = &t->params,
                              .batch_invariant = true};
}

static void tensors_fini(mask_tensors* t) {
    kit_free(&t->q);
    kit_free(&t->k);
    kit_free(&t->v);
    kit_free(&t->mask);
    kit_free(&t->out);
}

static void run(mask_tensors* t) {
    kit_run_everywhere(
        BERTH_OP_ATTENTION, &t->call, &t->out, false, false, berth_cpu_attention_scratch);
}

/// What the mask adds to a score; -infinity where it hides the key.
static double mask_at(
    const mask_tensors* t, int64_t batch, int64_t head, int64_t token, int64_t key) {
    const berth_view* mask = &t->mask.view;
    if (mask->rank == 0) return 0;
    const int64_t place[4] = {batch, head, token, key};
    int64_t at = 0;
    for (int32_t d = 0; d < mask->rank; ++d)
        if (mask->dims[d] != 1) at += place[4 - mask->rank + d] * mask->strides[d];
    const double value =
        kit_load(mask->dtype, (unsigned char*)mask->data + at * (int64_t)kit_bytes(mask->dtype));
    if (mask->dtype != BERTH_BOOL) return value;
    return value != 0 ? 0 : -(double)INFINITY;
}

/// Element of row [batch, first, second, :] of an operand.
static double element(
    const berth_view* view, int64_t batch, int64_t first, int64_t second, int64_t d) {
    const int32_t b = view->rank - 3;
    int64_t at =
        first * view->strides[b] + second * view->strides[b + 1] + d * view->strides[b + 2];
    if (b > 0) at += batch * view->strides[0];
    return kit_load(view->dtype, (unsigned char*)view->data + at * (int64_t)kit_bytes(view->dtype));
}

/// Scores of a row, and their largest; -infinity for keys that it does not see.
static double score_row(const mask_tensors* t,
                        const mask_case* c,
                        int64_t batch,
                        int64_t token,
                        int64_t head,
                        double* scores) {
    const int64_t kv = head / (c->heads / c->kv_heads);
    double largest = -(double)INFINITY;
    for (int64_t j = 0; j < c->keys; ++j) {
        double score = 0;
        for (int64_t d = 0; d < c->depth; ++d)
            score +=
                element(&t->q.view, batch, token, head, d) * element(&t->k.view, batch, j, kv, d);
        scores[j] = score * (double)t->params.scale + mask_at(t, batch, head, token, j);
        if (c->causal && j > c->offset + token) scores[j] = -(double)INFINITY;
        largest = fmax(largest, scores[j]);
    }
    return largest;
}

static void check_row(
    const mask_tensors* t, const mask_case* c, int64_t batch, int64_t token, int64_t head) {
    double* scores = malloc((size_t)(c->keys + 1) * sizeof *scores);
    assert_non_null(scores);
    const double largest = score_row(t, c, batch, token, head, scores);
    double total = 0;
    for (int64_t j = 0; j < c->keys; ++j)
        total += scores[j] = isinf(scores[j]) ? 0 : exp(scores[j] - largest);
    const int64_t kv = head / (c->heads / c->kv_heads);
    const int64_t row = (batch * c->tokens + token) * c->heads + head;
    for (int64_t d = 0; d < c->width; ++d) {
        double expected = 0;
        for (int64_t j = 0; j < c->keys; ++j)
            expected += scores[j] * element(&t->v.view, batch, j, kv, d);
        if (total > 0) expected /= total;
        const double tolerance = kit_tolerance(c->q_dtype, expected, 0x1p-19) + 2e-6;
        kit_expect(&t->out.view, row * c->width + d, expected, total > 0 ? tolerance : 0);
    }
    free(scores);
}

/// Every `step`th row against the reference.
static void check_case(const mask_case* c, int64_t step) {
    mask_tensors t;
    tensors_init(&t, c);
    run(&t);
    const int64_t batches = c->batches > 0 ? c->batches : 1;
    for (int64_t row = 0; row < batches * c->tokens * c->heads; row += step)
        check_row(&t, c, row / c->heads / c->tokens, row / c->heads % c->tokens, row % c->heads);
    tensors_fini(&t);
}

/// A mask of the case's rank at most, each size whole or 1.
static void choose_mask(mask_case* c) {
    const int64_t whole[4] = {c->batches, c->heads, c->tokens, c->keys};
    c->mask_rank = (int32_t)kit_int(2, c->batches > 0 ? 4 : 3);
    c->mask_dtype = mask_types[kit_int(0, 3)];
    for (int32_t d = 0; d < c->mask_rank; ++d)
        c->mask_dims[d] = kit_int(0, 3) == 0 ? 1 : whole[4 - c->mask_rank + d];
}

static void masks_of_every_type_shape_and_stride(void** state) {
    (void)state;
    kit_seed(21);
    for (int round = 0; round < 60; ++round) {
        const int64_t kv_heads = kit_int(1, 3);
        mask_case c = {
            .batches = kit_int(0, 3),
            .tokens = kit_int(0, 14),
            .heads = kv_heads * kit_int(1, 3),
            .kv_heads = kv_heads,
            .keys = kit_int(0, 150),
            .depth = kit_int(1, 40),
            .width = kit_int(1, 40),
            .q_dtype = floats[kit_int(0, 2)],
            .kv_dtype = floats[kit_int(0, 2)],
            .causal = kit_int(0, 1) == 1,
            .offset = kit_int(0, 150),
            .contiguous = round % 3 == 0,
        };
        choose_mask(&c);
        check_case(&c, 1);
    }
}

static void batches_without_a_mask(void** state) {
    (void)state;
    kit_seed(22);
    for (int t = 0; t < 3; ++t) {
        const mask_case c = {.batches = 3,
                             .tokens = 9,
                             .heads = 4,
                             .kv_heads = 2,
                             .keys = 130,
                             .depth = 24,
                             .width = 20,
                             .q_dtype = floats[t],
                             .kv_dtype = floats[t],
                             .causal = true,
                             .offset = 121,
                             .contiguous = t == 0};
        check_case(&c, 1);
    }
}

/// Several segments of keys; `tokens` 1 takes a unit for each segment.
static mask_case long_case(int64_t tokens, berth_dtype mask_dtype, bool causal) {
    return (mask_case){.tokens = tokens,
                       .heads = 4,
                       .kv_heads = 2,
                       .keys = 1700,
                       .depth = 32,
                       .width = 32,
                       .q_dtype = BERTH_F32,
                       .kv_dtype = BERTH_F32,
                       .mask_dtype = mask_dtype,
                       .mask_rank = 3,
                       .mask_dims = {4, tokens, 1700},
                       .causal = causal,
                       .offset = 1700 - tokens,
                       .contiguous = true};
}

static void masks_over_several_segments_of_keys(void** state) {
    (void)state;
    kit_seed(23);
    for (int round = 0; round < 12; ++round) {
        const mask_case one = long_case(1, mask_types[round % 4], round % 2 == 0);
        check_case(&one, 1);
    }
    for (int t = 0; t < 2; ++t) {
        const mask_case many = long_case(40, mask_types[t], t == 0);
        check_case(&many, 7);
    }
}

/// A mask that hides nothing.
static void reveal(kit_tensor* mask) {
    const double value = mask->view.dtype == BERTH_BOOL ? 1 : 0;
    for (int64_t i = 0; i < kit_count(&mask->view); ++i)
        kit_store(mask->view.dtype, kit_at(&mask->view, i), value);
}

static void a_mask_that_hides_nothing_changes_no_bit(void** state) {
    (void)state;
    kit_seed(24);
    for (int t = 0; t < 4; ++t) {
        for (int64_t tokens = 1; tokens <= 30; tokens += 29) {
            const mask_case c = long_case(tokens, mask_types[t], true);
            mask_tensors with;
            tensors_init(&with, &c);
            reveal(&with.mask);
            mask_tensors without = with;
            without.out = kit_contiguous(BERTH_F32, 3, with.out.view.dims);
            without.call.params = &without.params;
            without.call.input_count = 3;
            run(&with);
            run(&without);
            assert_memory_equal(with.out.view.data, without.out.view.data, with.out.bytes);
            kit_free(&without.out);
            tensors_fini(&with);
        }
    }
}

/// Runs tokens [first, first + count) of `t` alone, with their rows of the mask.
static void check_alone(mask_tensors* t, const mask_case* c, int64_t first, int64_t count) {
    mask_tensors alone = *t;
    const int64_t dims[3] = {count, c->heads, c->width};
    alone.out = kit_contiguous(c->q_dtype, 3, dims);
    alone.params.query_offset = c->offset + first;
    alone.call.params = &alone.params;
    alone.call.inputs[0].dims[0] = count;
    alone.call.inputs[0].data = kit_at(&t->q.view, first * c->heads * c->depth);
    alone.call.inputs[3].dims[1] = count;
    alone.call.inputs[3].data = kit_at(&t->mask.view, first * c->keys);
    run(&alone);
    const size_t row_bytes = (size_t)(c->heads * c->width) * kit_bytes(c->q_dtype);
    assert_memory_equal(alone.out.view.data,
                        (unsigned char*)t->out.view.data + (size_t)first * row_bytes,
                        (size_t)count * row_bytes);
    kit_free(&alone.out);
}

static void a_row_and_its_mask_have_the_same_bits_alone_and_in_any_chunk(void** state) {
    (void)state;
    kit_seed(25);
    for (int t = 0; t < 4; ++t) {
        const mask_case c = long_case(60, mask_types[t], t % 2 == 0);
        mask_tensors whole;
        tensors_init(&whole, &c);
        run(&whole);
        for (int64_t token = 0; token < 60; token += 19)
            check_alone(&whole, &c, token, 1);
        check_alone(&whole, &c, 0, 31);
        check_alone(&whole, &c, 13, 40);
        tensors_fini(&whole);
    }
}

static void a_batch_has_the_same_bits_alone(void** state) {
    (void)state;
    kit_seed(26);
    mask_case c = long_case(5, BERTH_BOOL, true);
    c.batches = 3;
    c.mask_rank = 4;
    memcpy(c.mask_dims, (int64_t[4]){3, 1, 5, 1700}, sizeof c.mask_dims);
    mask_tensors all;
    tensors_init(&all, &c);
    run(&all);
    const int64_t dims[3] = {5, 4, 32};
    kit_tensor out = kit_contiguous(BERTH_F32, 3, dims);
    for (int64_t b = 0; b < 3; ++b) {
        berth_op_call call = all.call;
        for (int i = 0; i < 4; ++i) {
            berth_view* view = &call.inputs[i];
            view->data =
                (unsigned char*)view->data + b * view->strides[0] * (int64_t)kit_bytes(view->dtype);
            view->rank = 3;
            memmove(view->dims, view->dims + 1, 3 * sizeof view->dims[0]);
            memmove(view->strides, view->strides + 1, 3 * sizeof view->strides[0]);
        }
        kit_run_everywhere(
            BERTH_OP_ATTENTION, &call, &out, false, false, berth_cpu_attention_scratch);
        assert_memory_equal(
            out.view.data, (unsigned char*)all.out.view.data + (size_t)b * out.bytes, out.bytes);
    }
    kit_free(&out);
    tensors_fini(&all);
}

static void hidden_keys_may_hold_nan_and_tiles_without_a_seen_one_infinite_values(void** state) {
    (void)state;
    kit_seed(27);
    const mask_case c = long_case(3, BERTH_BOOL, false);
    mask_tensors t;
    tensors_init(&t, &c);
    reveal(&t.mask);
    for (int64_t i = 0; i < 4 * 3; ++i) {
        for (int64_t key = 0; key < 10; ++key)
            kit_store(BERTH_BOOL, kit_at(&t.mask.view, i * 1700 + key), 0);
        for (int64_t key = 64; key < 192; ++key)
            kit_store(BERTH_BOOL, kit_at(&t.mask.view, i * 1700 + key), 0);
    }
    run(&t);
    kit_tensor expected = kit_contiguous(BERTH_F32, 3, t.out.view.dims);
    memcpy(expected.memory, t.out.memory, t.out.bytes + 2 * KIT_GUARD);
    for (int64_t i = 0; i < 2 * 32; ++i) {
        for (int64_t key = 0; key < 10; ++key)
            kit_store(BERTH_F32, kit_at(&t.k.view, key * 64 + i), (double)NAN);
        for (int64_t key = 64; key < 192; ++key) {
            kit_store(BERTH_F32, kit_at(&t.k.view, key * 64 + i), -(double)INFINITY);
            kit_store(BERTH_F32, kit_at(&t.v.view, key * 64 + i), (double)INFINITY);
        }
    }
    run(&t);
    assert_memory_equal(t.out.view.data, expected.view.data, expected.bytes);
    kit_free(&expected);
    tensors_fini(&t);
}

static void a_nan_that_a_row_sees_is_its_result(void** state) {
    (void)state;
    kit_seed(28);
    for (int32_t mask_rank = 0; mask_rank <= 3; mask_rank += 3) {
        for (int64_t tokens = 1; tokens <= 2; ++tokens) {
            mask_case c = long_case(tokens, BERTH_F16, false);
            c.mask_rank = mask_rank;
            mask_tensors t;
            tensors_init(&t, &c);
            if (mask_rank > 0) reveal(&t.mask);
            kit_store(BERTH_F32, kit_at(&t.q.view, 32), (double)NAN); // token 0, head 1
            run(&t);
            for (int64_t i = 0; i < 4 * 32; ++i)
                assert_int_equal(isnan(kit_get(&t.out.view, i)), i / 32 == 1);
            tensors_fini(&t);
        }
    }
}

static void a_row_of_which_a_mask_leaves_nothing_gives_zeros(void** state) {
    (void)state;
    kit_seed(29);
    for (int t = 0; t < 4; ++t) {
        for (int64_t tokens = 1; tokens <= 50; tokens += 49) {
            const mask_case c = long_case(tokens, mask_types[t], false);
            mask_tensors x;
            tensors_init(&x, &c);
            reveal(&x.mask);
            const double hidden = mask_types[t] == BERTH_BOOL ? 0 : -(double)INFINITY;
            for (int64_t j = 0; j < 1700; ++j) // head 2, its first token
                kit_store(mask_types[t], kit_at(&x.mask.view, 2 * tokens * 1700 + j), hidden);
            run(&x);
            for (int64_t i = 0; i < 4 * 32; ++i)
                assert_int_equal(kit_get(&x.out.view, i) == 0, i / 32 == 2);
            tensors_fini(&x);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_of_every_type_shape_and_stride),
        cmocka_unit_test(batches_without_a_mask),
        cmocka_unit_test(masks_over_several_segments_of_keys),
        cmocka_unit_test(a_mask_that_hides_nothing_changes_no_bit),
        cmocka_unit_test(a_row_and_its_mask_have_the_same_bits_alone_and_in_any_chunk),
        cmocka_unit_test(a_batch_has_the_same_bits_alone),
        cmocka_unit_test(hidden_keys_may_hold_nan_and_tiles_without_a_seen_one_infinite_values),
        cmocka_unit_test(a_nan_that_a_row_sees_is_its_result),
        cmocka_unit_test(a_row_of_which_a_mask_leaves_nothing_gives_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
