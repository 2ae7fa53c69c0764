// SPDX-License-Identifier: Apache-2.0
// ATTENTION and PAGED_ATTENTION of the CUDA back end, run on the host, against the CPU's; and rows
// against the same rows in other company, bit for bit.
#include "cuda/cuda_kernel_kit.h"
#include "device/paged_kit.h"

/// Means of values below 1 with weights from powers of f32, rounded to `dtype`.
static cuda_kit_tolerance means_of(berth_dtype dtype) {
    const double place = dtype == BERTH_F16 ? 0x1p-11 : dtype == BERTH_BF16 ? 0x1p-8 : 0;
    return (cuda_kit_tolerance){0x1p-19 + place, 4e-6};
}

static void launch(berth_op_id op, berth_op_call* call) {
    const berth_cuda_table* table = berth_cuda_kernel_table();
    const uint64_t bytes = table->scratch[op] != NULL ? table->scratch[op](call) : 0;
    cuda_kit_launch(table->kernels[op], call, bytes);
}

// --- ATTENTION -----------------------------------------------------------------------------------

/// A call with its operands; batches 0: none in front.
typedef struct attention_case {
    berth_dtype q_dtype, dtype;
    int64_t batches, tokens, keys, heads, kv_heads, depth, width;
    bool has_mask;
    berth_dtype mask_dtype;
    berth_attention_params params;
} attention_case;

typedef struct attention_tensors {
    kit_tensor q, k, v, mask;
    berth_op_call call;
} attention_tensors;

static kit_tensor draw_rows(
    berth_dtype dtype, int64_t batches, int64_t rows, int64_t heads, int64_t width) {
    const int64_t dims[4] = {batches, rows, heads, width};
    const int32_t skipped = batches == 0 ? 1 : 0;
    kit_tensor x = kit_int(0, 1) == 0
                       ? kit_contiguous(dtype, 4 - skipped, dims + skipped)
                       : kit_strided(dtype, 4 - skipped, dims + skipped, true, false);
    kit_fill(&x, -1, 1);
    return x;
}

/// A mask that hides much, whole rows now and then, and repeats some dimensions.
static kit_tensor draw_mask(const attention_case* c) {
    int64_t dims[4] = {c->batches, c->heads, c->tokens, c->keys};
    for (int32_t d = 0; d < 3; ++d)
        if (kit_int(0, 2) == 0) dims[d] = 1;
    const int32_t first = (int32_t)kit_int(c->batches == 0 ? 1 : 0, 2);
    kit_tensor mask = kit_strided(c->mask_dtype, 4 - first, dims + first, false, false);
    const int64_t count = kit_count(&mask.view);
    int64_t hidden = 0; // elements from here on
    for (int64_t i = 0; i < count; ++i) {
        if (hidden == 0 && kit_int(0, 60) == 0) hidden = kit_int(1, 150);
        const bool hides = hidden > 0 || kit_int(0, 2) == 0;
        if (hidden > 0) --hidden;
        const double shown = c->mask_dtype == BERTH_BOOL ? 1 : kit_real(-1, 1);
        const double none = c->mask_dtype == BERTH_BOOL ? 0 : (double)-INFINITY;
        kit_store(c->mask_dtype, kit_at(&mask.view, i), hides ? none : shown);
    }
    return mask;
}

static void attention_init(attention_tensors* t, const attention_case* c) {
    *t = (attention_tensors){
        .q = draw_rows(c->q_dtype, c->batches, c->tokens, c->heads, c->depth),
        .k = draw_rows(c->dtype, c->batches, c->keys, c->kv_heads, c->depth),
        .v = draw_rows(c->dtype, c->batches, c->keys, c->kv_heads, c->width),
    };
    if (c->has_mask) t->mask = draw_mask(c);
    t->call = (berth_op_call){.input_count = c->has_mask ? 4 : 3,
                              .inputs = {t->q.view, t->k.view, t->v.view, t->mask.view},
                              .output_count = 1,
                              .params = &c->params,
                              .batch_invariant = true};
}

static void attention_fini(attention_tensors* t) {
    kit_free(&t->q);
    kit_free(&t->k);
    kit_free(&t->v);
    kit_free(&t->mask);
}

static void compare(const attention_case* c) {
    attention_tensors t;
    attention_init(&t, c);
    cuda_kit_compare(BERTH_OP_ATTENTION, &t.call, -1, means_of(c->q_dtype));
    attention_fini(&t);
}

static attention_case draw_attention(int round) {
    attention_case c = {
        .q_dtype = floats[round % 3],
        .dtype = floats[round / 3 % 3],
        .batches = kit_int(0, 2) == 0 ? 2 : 0,
        .tokens = kit_int(0, 2) == 0 ? 1 : kit_int(1, 20),
        .keys = kit_int(1, 150),
        .kv_heads = kit_int(1, 2),
        .depth = kit_int(1, 70),
        .width = kit_int(1, 70),
        .params = {.scale = 0.7f, .causal = kit_int(0, 1) == 0},
    };
    c.heads = c.kv_heads * kit_int(1, 4);
    c.params.query_offset = kit_int(0, 3) == 0 ? INT64_MAX : kit_int(0, c.keys);
    return c;
}

static void rows_are_the_cpus_whatever_the_shape(void** state) {
    (void)state;
    kit_seed(1);
    for (int round = 0; round < 36; ++round) {
        const attention_case c = draw_attention(round);
        compare(&c);
    }
}

static void wide_heads_are_computed_in_parts(void** state) {
    (void)state;
    kit_seed(2);
    attention_case c = draw_attention(0);
    c.tokens = 3;
    c.depth = 130;
    c.width = 300;
    compare(&c);
}

static void masks_hide_what_the_cpus_hide(void** state) {
    (void)state;
    static const berth_dtype dtypes[] = {BERTH_BOOL, BERTH_F32, BERTH_F16, BERTH_BF16};
    kit_seed(3);
    for (int round = 0; round < 32; ++round) {
        attention_case c = draw_attention(round);
        c.has_mask = true;
        c.mask_dtype = dtypes[round % 4];
        compare(&c);
    }
}

static void calls_without_rows_or_keys_or_depth_are_the_cpus(void** state) {
    (void)state;
    kit_seed(4);
    for (int which = 0; which < 5; ++which) {
        attention_case c = draw_attention(which);
        if (which == 0) c.tokens = 0;
        if (which == 1) c.keys = 0;
        if (which == 2) c.depth = 0;
        if (which == 3) c.width = 0;
        if (which == 4) c.heads = 0;
        compare(&c);
    }
}

/// Attends with tokens [first, first + count) of a causal case.
static kit_tensor attend_part(const attention_tensors* t,
                              const attention_case* c,
                              int64_t first,
                              int64_t count,
                              int64_t keys) {
    kit_tensor out = kit_contiguous(c->q_dtype, 3, (int64_t[]){count, c->heads, c->width});
    berth_attention_params params = c->params;
    params.query_offset += first;
    berth_op_call call = t->call;
    call.params = &params;
    call.outputs[0] = out.view;
    call.inputs[0].dims[0] = count;
    call.inputs[0].data = (unsigned char*)t->q.view.data +
                          first * t->q.view.strides[0] * (int64_t)kit_bytes(c->q_dtype);
    call.inputs[1].dims[0] = call.inputs[2].dims[0] = keys;
    launch(BERTH_OP_ATTENTION, &call);
    return out;
}

static void a_row_has_the_same_bits_alone_among_others_and_before_later_keys(void** state) {
    (void)state;
    kit_seed(5);
    const attention_case c = {.q_dtype = BERTH_F32,
                              .dtype = BERTH_F16,
                              .tokens = 21,
                              .keys = 200,
                              .heads = 6,
                              .kv_heads = 2,
                              .depth = 48,
                              .width = 40,
                              .params = {.scale = 0.3f, .causal = true, .query_offset = 110}};
    attention_tensors t;
    attention_init(&t, &c);
    // what no token sees may be anything
    for (int64_t i = 135 * c.kv_heads * c.width; i < kit_count(&t.v.view); ++i)
        kit_store(c.dtype, kit_at(&t.v.view, i), (double)NAN);
    kit_tensor all = attend_part(&t, &c, 0, c.tokens, c.keys);
    const size_t row = (size_t)(c.heads * c.width) * sizeof(float);
    for (int64_t first = 0; first < c.tokens; first += 4) {
        kit_tensor one = attend_part(&t, &c, first, 1, c.keys);
        kit_tensor short_one = attend_part(&t, &c, first, 1, 111 + first);
        const unsigned char* expected = (unsigned char*)all.view.data + (size_t)first * row;
        assert_memory_equal(expected, one.view.data, row);
        assert_memory_equal(expected, short_one.view.data, row);
        kit_free(&one);
        kit_free(&short_one);
    }
    kit_free(&all);
    attention_fini(&t);
}

// --- PAGED_ATTENTION -----------------------------------------------------------------------------

static void copy_bytes(kit_tensor* copy, const kit_tensor* x) {
    kit_guard(copy, x->bytes);
    memcpy(copy->memory + KIT_GUARD, x->memory + KIT_GUARD, x->bytes);
}

static void set_bytes(const kit_tensor* x, const kit_tensor* from) {
    memcpy(x->memory + KIT_GUARD, from->memory + KIT_GUARD, x->bytes);
}

/// Runs a call on both devices, from the same blocks, and compares the rows, and the blocks bit for
/// bit.
static void compare_paged(paged_tensors* t) {
    kit_tensor keys, values, keys_after, values_after;
    copy_bytes(&keys, &t->keys);
    copy_bytes(&values, &t->values);
    kit_tensor expected = kit_contiguous(t->out.view.dtype, 3, t->out.view.dims);
    t->call.output_count = 1;
    t->call.outputs[0] = expected.view;
    cuda_kit_launch(berth_cpu_kernels()[BERTH_OP_PAGED_ATTENTION],
                    &t->call,
                    berth_op_table[BERTH_OP_PAGED_ATTENTION].scratch(&t->call));
    copy_bytes(&keys_after, &t->keys);
    copy_bytes(&values_after, &t->values);
    set_bytes(&t->keys, &keys);
    set_bytes(&t->values, &values);
    memset(t->out.view.data, 0x5A, t->out.bytes);
    t->call.outputs[0] = t->out.view;
    launch(BERTH_OP_PAGED_ATTENTION, &t->call);
    cuda_kit_compare_outputs(
        BERTH_OP_PAGED_ATTENTION, &expected.view, &t->out.view, means_of(t->out.view.dtype));
    assert_memory_equal(keys_after.memory, t->keys.memory, keys_after.bytes + 2 * KIT_GUARD);
    assert_memory_equal(values_after.memory, t->values.memory, values_after.bytes + 2 * KIT_GUARD);
    kit_tensor* all[] = {&keys, &values, &keys_after, &values_after, &expected};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        kit_free(all[i]);
}

static void sequences_of_random_shapes_are_the_cpus(void** state) {
    (void)state;
    kit_seed(6);
    for (int round = 0; round < 30; ++round) {
        paged_case c = draw_case(100);
        c.writes = round % 2 == 0;
        paged_tensors t;
        paged_init(&t, &c);
        compare_paged(&t);
        paged_fini(&t);
    }
}

static void many_sequences_find_their_rows(void** state) {
    (void)state;
    kit_seed(7);
    paged_case c = draw_case(40);
    c.writes = true;
    draw_sequences(&c, MOST_SEQUENCES, 40);
    paged_tensors t;
    paged_init(&t, &c);
    // 20 sequences, named three times more by rows that do not fit and are passed over
    const int64_t numbers[2] = {4 * MOST_SEQUENCES, NUMBERS};
    kit_tensor many = kit_contiguous(BERTH_I32, 2, numbers);
    for (int64_t s = 0; s < numbers[0]; ++s)
        for (int64_t i = 0; i < NUMBERS; ++i)
            kit_store(BERTH_I32,
                      kit_at(&many.view, s * NUMBERS + i),
                      s % 4 == 3 ? (double)number_of(&t, s / 4, i) : -1.0);
    t.call.inputs[3] = many.view;
    compare_paged(&t);
    kit_free(&many);
    paged_fini(&t);
}

static void new_values_that_are_not_finite_spoil_only_their_block(void** state) {
    (void)state;
    kit_seed(8);
    const paged_case c = {.q_dtype = BERTH_F32,
                          .dtype = BERTH_Q8_0,
                          .heads = 2,
                          .kv_heads = 2,
                          .depth = 64,
                          .width = 64,
                          .size = 16,
                          .writes = true,
                          .count = 1,
                          .sequences = {{0, 20, 10}}};
    paged_tensors t;
    paged_init(&t, &c);
    static const double values[] = {
        (double)INFINITY, -(double)INFINITY, (double)NAN, 1e38, 1e-38, 0, 8e6, 8.5e6, 1e-6};
    for (int64_t i = 0; i < 9; ++i) {
        for (int64_t d = 0; d < 32 && i >= 4; ++d)
            kit_store(t.new_keys.view.dtype, kit_at(&t.new_keys.view, (i * 2 + 1) * 64 + d), 0);
        kit_store(t.new_keys.view.dtype, kit_at(&t.new_keys.view, (i * 2 + 1) * 64), values[i]);
    }
    compare_paged(&t);
    paged_fini(&t);
}

static void rows_are_those_of_attention_over_the_same_keys(void** state) {
    (void)state;
    kit_seed(9);
    for (int round = 0; round < 8; ++round) {
        paged_case c = draw_case(120);
        c.count = 1;
        c.sequences[0] = (sequence_case){.queries = 5, .keys = kit_int(5, 120)};
        paged_tensors t;
        paged_init(&t, &c);
        kit_tensor k = gathered(&t, &t.keys.view, 0, c.sequences[0].keys);
        kit_tensor v = gathered(&t, &t.values.view, 0, c.sequences[0].keys);
        kit_tensor side = kit_contiguous(c.q_dtype, 3, t.out.view.dims);
        const berth_attention_params params = {
            .scale = t.params.scale, .causal = true, .query_offset = c.sequences[0].keys - 5};
        berth_op_call call = {.input_count = 3,
                              .inputs = {t.q.view, k.view, v.view},
                              .output_count = 1,
                              .outputs = {side.view},
                              .params = &params};
        launch(BERTH_OP_ATTENTION, &call);
        t.call.output_count = 1;
        t.call.outputs[0] = t.out.view;
        launch(BERTH_OP_PAGED_ATTENTION, &t.call);
        assert_memory_equal(side.view.data, t.out.view.data, side.bytes);
        kit_free(&k);
        kit_free(&v);
        kit_free(&side);
        paged_fini(&t);
    }
}

static paged_case checked_case(void) {
    return (paged_case){.q_dtype = BERTH_F32,
                        .dtype = BERTH_F32,
                        .heads = 4,
                        .kv_heads = 2,
                        .depth = 32,
                        .width = 32,
                        .size = 16,
                        .writes = true,
                        .count = 3,
                        .sequences = {{1, 90, 1}, {2, 60, 2}, {1, 33, 1}}};
}

static void sequences_that_do_not_fit_give_zeros_and_write_nothing(void** state) {
    (void)state;
    kit_seed(10);
    static const int64_t wrong[][2] = {{0, -1},
                                       {0, INT32_MAX},
                                       {1, 61},
                                       {1, INT32_MAX},
                                       {2, -5},
                                       {2, INT32_MAX},
                                       {3, -1},
                                       {3, 1000},
                                       {4, 3},
                                       {5, 61},
                                       {5, -1},
                                       {5, INT32_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        const paged_case c = checked_case();
        paged_tensors t;
        paged_init(&t, &c);
        set_number(&t, 1, wrong[i][0], wrong[i][1]);
        compare_paged(&t);
        for (int64_t at = 0; at < 2 * 4 * 32; ++at)
            kit_expect(&t.out.view, 1 * 4 * 32 + at, 0, 0);
        paged_fini(&t);
    }
}

static void keys_in_no_block_are_neither_seen_nor_written(void** state) {
    (void)state;
    kit_seed(11);
    static const int64_t wrong[] = {-1, INT32_MIN, 1000, INT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        paged_case c = checked_case();
        c.writes = i % 2 == 0;
        paged_tensors t;
        paged_init(&t, &c);
        const int64_t entries[] = {0, 1, 2, 3, 5, number_of(&t, 2, 3), number_of(&t, 1, 3) + 3};
        for (size_t e = 0; e < sizeof entries / sizeof *entries; ++e)
            kit_store(BERTH_I32, kit_at(&t.table.view, entries[e]), (double)wrong[i]);
        compare_paged(&t);
        paged_fini(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_cpus_whatever_the_shape),
        cmocka_unit_test(wide_heads_are_computed_in_parts),
        cmocka_unit_test(masks_hide_what_the_cpus_hide),
        cmocka_unit_test(calls_without_rows_or_keys_or_depth_are_the_cpus),
        cmocka_unit_test(a_row_has_the_same_bits_alone_among_others_and_before_later_keys),
        cmocka_unit_test(sequences_of_random_shapes_are_the_cpus),
        cmocka_unit_test(many_sequences_find_their_rows),
        cmocka_unit_test(new_values_that_are_not_finite_spoil_only_their_block),
        cmocka_unit_test(rows_are_those_of_attention_over_the_same_keys),
        cmocka_unit_test(sequences_that_do_not_fit_give_zeros_and_write_nothing),
        cmocka_unit_test(keys_in_no_block_are_neither_seen_nor_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
