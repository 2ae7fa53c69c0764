// SPDX-License-Identifier: Apache-2.0
// PAGED_ATTENTION against ATTENTION over the same keys side by side, bit for bit, and against
// arithmetic in double; the writing of new keys; tables that nobody has looked at.
#include "device/paged_kit.h"

#include "device/cpu/kernel_attention.h"

static void run(paged_tensors* t) {
    kit_run_everywhere(BERTH_OP_PAGED_ATTENTION,
                       &t->call,
                       &t->out,
                       false,
                       false,
                       berth_cpu_paged_attention_scratch);
}

/// Compares the sequence's rows with ATTENTION over its keys side by side.
static void check_sequence(const paged_tensors* t, const paged_case* c, int64_t sequence) {
    const sequence_case* one = &c->sequences[sequence];
    const int64_t first = number_of(t, sequence, 0);
    kit_tensor k = gathered(t, &t->keys.view, sequence, one->keys);
    kit_tensor v = gathered(t, &t->values.view, sequence, one->keys);
    const int64_t dims[3] = {one->queries, c->heads, c->width};
    kit_tensor expected = kit_contiguous(c->q_dtype, 3, dims);
    const berth_attention_params params = {
        .scale = t->params.scale, .causal = true, .query_offset = one->keys - one->queries};
    berth_op_call call = {.input_count = 3,
                          .inputs = {t->q.view, k.view, v.view},
                          .params = &params,
                          .batch_invariant = true};
    call.inputs[0].dims[0] = one->queries;
    call.inputs[0].data = (unsigned char*)t->q.view.data +
                          first * t->q.view.strides[0] * (int64_t)kit_bytes(c->q_dtype);
    kit_run_everywhere(
        BERTH_OP_ATTENTION, &call, &expected, false, false, berth_cpu_attention_scratch);
    const size_t bytes = (size_t)(c->heads * c->width) * kit_bytes(c->q_dtype);
    assert_memory_equal((unsigned char*)t->out.view.data + (size_t)first * bytes,
                        expected.view.data,
                        (size_t)one->queries * bytes);
    kit_free(&expected);
    kit_free(&k);
    kit_free(&v);
}

static void check_case(const paged_case* c) {
    paged_tensors t;
    paged_init(&t, c);
    run(&t);
    for (int64_t s = 0; s < c->count; ++s)
        check_sequence(&t, c, s);
    paged_fini(&t);
}

// --- Reading -------------------------------------------------------------------------------------

static void sequences_of_random_shapes_have_the_bits_of_attention_over_their_keys(void** state) {
    (void)state;
    kit_seed(1);
    for (int round = 0; round < 60; ++round) {
        const paged_case c = draw_case(150);
        check_case(&c);
    }
}

static void so_have_long_sequences_of_one_query(void** state) {
    (void)state;
    static const int64_t sizes[] = {1, 16, 1024};
    kit_seed(2);
    for (int round = 0; round < 4; ++round) {
        const paged_case c = {
            .q_dtype = BERTH_F32,
            .dtype = block_dtypes[round],
            .heads = 6,
            .kv_heads = 2,
            .depth = 64,
            .width = 64,
            .size = sizes[round % 3],
            .count = 4,
            .sequences = {{1, 1700, 1}, {1, 30, 1}, {1, 512, 1}, {3, 1100, 3}},
        };
        check_case(&c);
    }
}

/// Element [a, b, c] of a tensor of rank 3.
static double at3(const berth_view* view, int64_t a, int64_t b, int64_t c) {
    const int64_t at = a * view->strides[0] + b * view->strides[1] + c * view->strides[2];
    return kit_load(view->dtype, (unsigned char*)view->data + at * (int64_t)kit_bytes(view->dtype));
}

/// Compares a row with arithmetic in double over the sequence's keys as they lie in its blocks.
static void check_row(
    const paged_tensors* t, const paged_case* c, int64_t sequence, int64_t query, int64_t head) {
    const sequence_case* one = &c->sequences[sequence];
    const int64_t token = number_of(t, sequence, 0) + query;
    const int64_t kv_head = head / (c->heads / c->kv_heads);
    const int64_t seen = one->keys - one->queries + query + 1;
    kit_tensor k = gathered(t, &t->keys.view, sequence, seen);
    kit_tensor v = gathered(t, &t->values.view, sequence, seen);
    double* powers = malloc((size_t)seen * sizeof *powers);
    assert_non_null(powers);
    double total = 0;
    for (int64_t j = 0; j < seen; ++j) {
        double score = 0;
        for (int64_t d = 0; d < c->depth; ++d)
            score += at3(&t->q.view, token, head, d) * at3(&k.view, j, kv_head, d);
        total += powers[j] = exp(score * (double)t->params.scale); // scores are small
    }
    for (int64_t d = 0; d < c->width; ++d) {
        double expected = 0;
        for (int64_t j = 0; j < seen; ++j)
            expected += powers[j] / total * at3(&v.view, j, kv_head, d);
        const double tolerance = kit_tolerance(c->q_dtype, expected, 0x1p-19) + 2e-6;
        kit_expect(&t->out.view, (token * c->heads + head) * c->width + d, expected, tolerance);
    }
    free(powers);
    kit_free(&k);
    kit_free(&v);
}

static void rows_are_softmax_of_scores_times_values(void** state) {
    (void)state;
    kit_seed(3);
    for (int round = 0; round < 20; ++round) {
        const paged_case c = draw_case(60);
        paged_tensors t;
        paged_init(&t, &c);
        run(&t);
        for (int64_t s = 0; s < c.count; ++s)
            for (int64_t query = 0; query < c.sequences[s].queries; query += 7)
                check_row(&t, &c, s, query, kit_int(0, c.heads - 1));
        paged_fini(&t);
    }
}

static void a_sequence_has_the_same_bits_alone_and_among_others(void** state) {
    (void)state;
    kit_seed(4);
    paged_case c = {.q_dtype = BERTH_F32,
                    .dtype = BERTH_F16,
                    .heads = 9,
                    .kv_heads = 3,
                    .depth = 64,
                    .width = 64,
                    .size = 16};
    draw_sequences(&c, MOST_SEQUENCES, 700);
    paged_tensors t;
    paged_init(&t, &c);
    run(&t);
    for (int64_t s = 0; s < c.count; s += 3) {
        paged_tensors alone = t;
        const int64_t first = number_of(&t, s, 0), queries = c.sequences[s].queries;
        alone.out = kit_contiguous(BERTH_F32, 3, t.out.view.dims);
        alone.call.params = &alone.params;
        alone.call.inputs[3].dims[0] = 1;
        alone.call.inputs[3].data = kit_at(&t.numbers.view, s * t.numbers.view.dims[1]);
        run(&alone);
        const size_t row = (size_t)(c.heads * c.width) * sizeof(float);
        const unsigned char* found = alone.out.view.data;
        assert_memory_equal(found + (size_t)first * row,
                            (unsigned char*)t.out.view.data + (size_t)first * row,
                            (size_t)queries * row);
        // the rows of no sequence
        for (size_t i = 0; i < alone.out.bytes; ++i)
            if (i < (size_t)first * row || i >= (size_t)(first + queries) * row)
                assert_int_equal(found[i], 0);
        kit_free(&alone.out);
    }
    paged_fini(&t);
}

static void sequences_may_share_blocks(void** state) {
    (void)state;
    kit_seed(5);
    const paged_case c = {.q_dtype = BERTH_F32,
                          .dtype = BERTH_F32,
                          .heads = 4,
                          .kv_heads = 2,
                          .depth = 32,
                          .width = 32,
                          .size = 16,
                          .count = 2,
                          .sequences = {{1, 100, 0}, {1, 90, 0}}};
    paged_tensors t;
    paged_init(&t, &c);
    // the second begins like the first
    for (int64_t entry = 0; entry < 4; ++entry)
        kit_store(BERTH_I32,
                  kit_at(&t.table.view, number_of(&t, 1, 3) + entry),
                  kit_get(&t.table.view, entry));
    run(&t);
    check_sequence(&t, &c, 0);
    check_sequence(&t, &c, 1);
    set_number(&t, 1, 3, 0); // or uses the same entries
    run(&t);
    check_sequence(&t, &c, 1);
    paged_fini(&t);
}

// --- Writing -------------------------------------------------------------------------------------

/// The new row of `x` is in the sequence's block as CAST rounds it, or as q8_0 holds it.
static void check_written(const paged_tensors* t,
                          const berth_view* blocks,
                          const berth_view* x,
                          int64_t sequence,
                          int64_t key,
                          int64_t row) {
    const int64_t width = blocks->dims[3];
    for (int64_t head = 0; head < blocks->dims[2]; ++head) {
        const unsigned char* found =
            block_row(blocks, block_of(t, sequence, key), key % blocks->dims[1], head);
        float values[512];
        unsigned char expected[2048];
        for (int64_t d = 0; d < width; ++d)
            values[d] = (float)at3(x, row, head, d);
        berth_convert_query_from_f32(blocks->dtype)(values, expected, width);
        assert_memory_equal(found, expected, row_bytes(blocks));
    }
}

static void check_writes(const paged_tensors* t, const paged_case* c) {
    for (int64_t s = 0; s < c->count; ++s) {
        const sequence_case* one = &c->sequences[s];
        for (int64_t i = 0; i < one->new_rows; ++i) {
            const int64_t key = one->keys - one->new_rows + i, row = number_of(t, s, 4) + i;
            check_written(t, &t->keys.view, &t->new_keys.view, s, key, row);
            check_written(t, &t->values.view, &t->new_values.view, s, key, row);
        }
    }
}

/// Rows of blocks that are no key of any sequence.
static void check_untouched(const paged_tensors* t, const paged_case* c) {
    const berth_view* view = &t->keys.view;
    size_t keys = 0, kept = 0;
    for (int64_t s = 0; s < c->count; ++s)
        keys += (size_t)c->sequences[s].keys;
    for (int64_t block = 0; block < view->dims[0]; ++block)
        for (int64_t row = 0; row < view->dims[1]; ++row) {
            const unsigned char* at = block_row(view, block, row, 0);
            bool is_kept = true;
            for (size_t i = 0; i < row_bytes(view); ++i)
                is_kept = is_kept && at[i] == 0xFF;
            kept += is_kept;
        }
    assert_int_equal(kept, (size_t)(view->dims[0] * view->dims[1]) - keys);
}

static void new_rows_are_written_before_anything_is_read(void** state) {
    (void)state;
    kit_seed(6);
    for (int round = 0; round < 40; ++round) {
        paged_case c = draw_case(120);
        c.writes = true;
        paged_tensors t;
        paged_init(&t, &c);
        run(&t);
        check_writes(&t, &c);
        check_untouched(&t, &c);
        for (int64_t s = 0; s < c.count; ++s)
            check_sequence(&t, &c, s);
        paged_fini(&t);
    }
}

static void wide_new_rows_are_written_in_pieces(void** state) {
    (void)state;
    kit_seed(7);
    const paged_case c = {.q_dtype = BERTH_F32,
                          .dtype = BERTH_Q8_0,
                          .heads = 1,
                          .kv_heads = 1,
                          .depth = 480,
                          .width = 512,
                          .size = 2,
                          .writes = true,
                          .count = 1,
                          .sequences = {{3, 9, 5}}};
    check_case(&c);
}

// --- Tables that nobody has looked at ------------------------------------------------------------

static paged_case plain_case(void) {
    return (paged_case){.q_dtype = BERTH_F32,
                        .dtype = BERTH_F32,
                        .heads = 4,
                        .kv_heads = 2,
                        .depth = 32,
                        .width = 32,
                        .size = 16,
                        .writes = true,
                        .count = 3,
                        .sequences = {{1, 1300, 1}, {2, 60, 2}, {1, 33, 1}}};
}

static void sequences_that_do_not_fit_give_zeros_and_write_nothing(void** state) {
    (void)state;
    kit_seed(8);
    static const int64_t wrong[][2] = {{0, -1},
                                       {0, 3},
                                       {0, INT32_MAX},
                                       {1, -1},
                                       {1, 61},
                                       {1, INT32_MAX},
                                       {2, -5},
                                       {2, INT32_MAX},
                                       {2, 1},
                                       {3, -1},
                                       {3, 1000},
                                       {3, INT32_MIN},
                                       {4, -1},
                                       {4, 3},
                                       {5, -1},
                                       {5, 61},
                                       {5, INT32_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        const paged_case c = plain_case();
        paged_tensors t;
        paged_init(&t, &c);
        const int64_t last_block = block_of(&t, 1, 59);
        set_number(&t, 1, wrong[i][0], wrong[i][1]);
        run(&t);
        check_sequence(&t, &c, 0);
        check_sequence(&t, &c, 2);
        for (int64_t at = 0; at < 2 * 4 * 32; ++at)
            kit_expect(&t.out.view, 1 * 4 * 32 + at, 0, 0);
        assert_int_equal(block_row(&t.keys.view, last_block, 59 % 16, 0)[0], 0xFF);
        paged_fini(&t);
    }
}

static void keys_in_no_block_are_not_seen(void** state) {
    (void)state;
    kit_seed(9);
    static const int64_t wrong[] = {-1, INT32_MIN, 1000, INT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        paged_case c = plain_case();
        c.writes = false;
        paged_tensors t;
        paged_init(&t, &c);
        // keys 0 .. 31 of the last sequence are in no block: only the last one is seen
        for (int64_t entry = 0; entry < 2; ++entry)
            kit_store(
                BERTH_I32, kit_at(&t.table.view, number_of(&t, 2, 3) + entry), (double)wrong[i]);
        // nor is a whole segment of the first one, and a block of another
        for (int64_t entry = 0; entry < 33; ++entry)
            kit_store(BERTH_I32, kit_at(&t.table.view, entry), (double)wrong[i]);
        run(&t);
        for (int64_t head = 0; head < 4; ++head)
            for (int64_t d = 0; d < 32; ++d)
                kit_expect(
                    &t.out.view,
                    (3 * 4 + head) * 32 + d,
                    kit_load(BERTH_F32,
                             block_row(&t.values.view, block_of(&t, 2, 32), 0, head / 2) + 4 * d),
                    1e-6);
        for (int64_t at = 0; at < 4 * 32; ++at)
            assert_true(isfinite(kit_get(&t.out.view, at)));
        check_sequence(&t, &c, 1);
        paged_fini(&t);
    }
}

static void new_rows_for_no_block_are_not_written(void** state) {
    (void)state;
    kit_seed(10);
    const paged_case c = plain_case();
    for (int round = 0; round < 2; ++round) {
        paged_tensors t;
        paged_init(&t, &c);
        // a call that sees all memory but the first block, or the last one
        const int64_t blocks = t.keys.view.dims[0];
        const int64_t hidden = round == 0 ? 0 : blocks - 1;
        for (int i = 1; i < 3; ++i) {
            berth_view* view = &t.call.inputs[i];
            view->dims[0] = blocks - 1;
            if (round == 0) view->data = block_row(view, 1, 0, 0);
        }
        kit_store(BERTH_I32,
                  kit_at(&t.table.view, number_of(&t, 2, 3) + 2),
                  round == 0 ? -1.0 : (double)hidden);
        unsigned char* keys = block_row(&t.keys.view, hidden, 0, 0);
        unsigned char* values = block_row(&t.values.view, hidden, 0, 0);
        const size_t bytes = (size_t)(c.size * c.kv_heads) * row_bytes(&t.keys.view);
        memset(keys, 0xFF, bytes);
        memset(values, 0xFF, bytes);
        run(&t);
        for (size_t i = 0; i < bytes; ++i) {
            assert_int_equal(keys[i], 0xFF);
            assert_int_equal(values[i], 0xFF);
        }
        paged_fini(&t);
    }
}

// --- Scratch -------------------------------------------------------------------------------------

/// Scratch of a call of these sizes with a team of two.
static uint64_t scratch_at(int64_t tokens, int64_t sequences, int64_t entries) {
    berth_op_call call = {.input_count = 5,
                          .inputs = {{.rank = 3, .dims = {tokens, 9, 64}},
                                     {.rank = 4, .dims = {1000, 16, 3, 64}},
                                     {.rank = 4, .dims = {1000, 16, 3, 64}},
                                     {.rank = 2, .dims = {sequences, 4}},
                                     {.rank = 1, .dims = {entries}}}};
    assert_int_equal(berth_team_create(berth_host_default(), 2, &call.team), BERTH_OK);
    const uint64_t bytes = berth_cpu_paged_attention_scratch(&call);
    berth_team_destroy(call.team);
    return bytes;
}

static void scratch_is_linear_in_sequences_and_entries(void** state) {
    (void)state;
    const uint64_t base = scratch_at(1, 2, 10);
    assert_int_equal(scratch_at(700, 2, 10), base);
    assert_int_equal(scratch_at(1, 2, 1010) - scratch_at(1, 2, 510), scratch_at(1, 2, 510) - base);
    assert_int_equal(scratch_at(1, 202, 10) - scratch_at(1, 102, 10),
                     scratch_at(1, 102, 10) - base);
    for (int64_t s = 2; s < 9; ++s)
        assert_int_equal(scratch_at(1, s + 1, 10) - scratch_at(1, s, 10),
                         scratch_at(1, 3, 10) - base);
    assert_true(scratch_at(1, INT64_MAX / 2, 10) == UINT64_MAX);
    assert_true(scratch_at(1, 2, INT64_MAX / 2) == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_of_random_shapes_have_the_bits_of_attention_over_their_keys),
        cmocka_unit_test(so_have_long_sequences_of_one_query),
        cmocka_unit_test(rows_are_softmax_of_scores_times_values),
        cmocka_unit_test(a_sequence_has_the_same_bits_alone_and_among_others),
        cmocka_unit_test(sequences_may_share_blocks),
        cmocka_unit_test(new_rows_are_written_before_anything_is_read),
        cmocka_unit_test(wide_new_rows_are_written_in_pieces),
        cmocka_unit_test(sequences_that_do_not_fit_give_zeros_and_write_nothing),
        cmocka_unit_test(keys_in_no_block_are_not_seen),
        cmocka_unit_test(new_rows_for_no_block_are_not_written),
        cmocka_unit_test(scratch_is_linear_in_sequences_and_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
