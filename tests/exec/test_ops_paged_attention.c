// SPDX-License-Identifier: Apache-2.0
// Attention over blocks by its two front doors: results, operands of any strides, refusals, what is
// written, steps of changing sizes.
#include <math.h>
#include <stdlib.h>

#include "device/cpu/kernel_convert.h"
#include "exec/paged_attention.h"
#include "exec_kit.h"

static berth_context* context_of(void** state) { return ((exec_kit*)*state)->ctx; }

#define DIMS(...)                                                                                  \
    (int64_t[]) { __VA_ARGS__ }

enum { HEADS = 4, KV_HEADS = 2, DEPTH = 32, WIDTH = 16, BLOCK = 4, BLOCKS = 12, TOKENS = 6 };

static berth_tensor* make(berth_context* ctx,
                          berth_dtype dtype,
                          int32_t rank,
                          const int64_t* dims) {
    return berth_rand(ctx, 7, -1, 1, dtype, rank, dims);
}

static berth_tensor* numbers(berth_context* ctx,
                             const int32_t* values,
                             int32_t rank,
                             const int64_t* dims) {
    return berth_from_data(ctx, values, BERTH_I32, rank, dims);
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

// Three sequences: one query of 10 keys, four of 9, one of 2. Their blocks are in no order.
static const int32_t three[3][4] = {{0, 1, 10, 0}, {1, 4, 9, 3}, {5, 1, 2, 6}};
static const int32_t entries[7] = {8, 1, 11, 3, 0, 9, 5};

typedef struct paged {
    berth_tensor *q, *keys, *values, *sequences, *blocks;
} paged;

static paged make_paged(berth_context* ctx, berth_dtype q, berth_dtype dtype) {
    return (paged){
        .q = make(ctx, q, 3, DIMS(TOKENS, HEADS, DEPTH)),
        .keys = make(ctx, dtype, 4, DIMS(BLOCKS, BLOCK, KV_HEADS, DEPTH)),
        .values = make(ctx, dtype, 4, DIMS(BLOCKS, BLOCK, KV_HEADS, WIDTH)),
        .sequences = numbers(ctx, three[0], 2, DIMS(3, 4)),
        .blocks = numbers(ctx, entries, 1, DIMS(7)),
    };
}

static void free_paged(paged* x) {
    berth_release_all(x->q, x->keys, x->values, x->sequences, x->blocks);
}

static berth_tensor* attend(berth_context* ctx, const paged* x) {
    return berth_paged_attention(ctx, x->q, x->keys, x->values, x->sequences, x->blocks, 0);
}

/// Keys or values of a sequence side by side.
static berth_tensor* gathered(berth_context* ctx,
                              berth_tensor* blocks,
                              berth_tensor* table,
                              const int32_t row[4]) {
    const int64_t* dims = berth_tensor_dims(blocks);
    const int64_t count = (row[2] + dims[1] - 1) / dims[1];
    berth_tensor* own = berth_narrow(ctx, table, 0, row[3], count);
    berth_tensor* chosen = berth_index_select(ctx, blocks, 0, berth_move(own));
    berth_tensor* side =
        berth_reshape(ctx, berth_move(chosen), 3, DIMS(count * dims[1], dims[2], dims[3]));
    return berth_narrow(ctx, berth_move(side), 0, 0, row[2]);
}

/// What ordinary attention gives over each sequence's keys side by side.
static berth_tensor* reference(berth_context* ctx, const paged* x) {
    berth_tensor* parts[3];
    for (int s = 0; s < 3; ++s) {
        const int32_t* row = three[s];
        berth_tensor* k = gathered(ctx, x->keys, x->blocks, row);
        berth_tensor* v = gathered(ctx, x->values, x->blocks, row);
        berth_tensor* q = berth_narrow(ctx, x->q, 0, row[0], row[1]);
        parts[s] = berth_attention(
            ctx, berth_move(q), berth_move(k), berth_move(v), NULL, 0, true, row[2] - row[1]);
    }
    berth_tensor* all = berth_cat(ctx, parts, 3, 0);
    berth_release_array(parts, 3);
    return all;
}

static void sequences_are_attended_to_through_the_table(void** state) {
    berth_context* ctx = context_of(state);
    static const berth_dtype floats[] = {BERTH_F32, BERTH_F16, BERTH_BF16};
    for (int t = 0; t < 3; ++t) {
        paged x = make_paged(ctx, floats[t], floats[(t + 1) % 3]);
        berth_tensor* expected = reference(ctx, &x);
        berth_tensor* found = attend(ctx, &x);
        assert_non_null(found);
        assert_int_equal(berth_tensor_dtype(found), floats[t]);
        expect_same(expected, found);
        berth_release(expected);
        free_paged(&x);
    }
    expect_nothing_left(ctx);
}

static void blocks_of_one_layer_among_others_are_read_where_they_lie(void** state) {
    berth_context* ctx = context_of(state);
    paged x = make_paged(ctx, BERTH_F32, BERTH_F16);
    berth_tensor* expected = reference(ctx, &x);
    // the layer is the second of three, its values lie behind its keys
    berth_tensor* key_parts[3] = {x.values, x.keys, x.values};
    berth_tensor* rows[3];
    for (int i = 0; i < 3; ++i) {
        const int64_t count = BLOCK * KV_HEADS * (i == 1 ? DEPTH : WIDTH);
        rows[i] = berth_reshape(ctx, key_parts[i], 2, DIMS(BLOCKS, count));
    }
    berth_tensor* all = berth_cat(ctx, rows, 3, 1);
    berth_tensor* keys =
        berth_narrow(ctx, all, 1, BLOCK * KV_HEADS * WIDTH, BLOCK * KV_HEADS * DEPTH);
    berth_tensor* values =
        berth_narrow(ctx, all, 1, BLOCK * KV_HEADS * (WIDTH + DEPTH), BLOCK * KV_HEADS * WIDTH);
    berth_release_all(x.keys, x.values);
    x.keys = berth_reshape_view(ctx, berth_move(keys), 4, DIMS(BLOCKS, BLOCK, KV_HEADS, DEPTH));
    x.values = berth_reshape_view(ctx, berth_move(values), 4, DIMS(BLOCKS, BLOCK, KV_HEADS, WIDTH));
    expect_same(expected, attend(ctx, &x));
    berth_release_array(rows, 3);
    berth_release_all(all, expected);
    free_paged(&x);
    expect_nothing_left(ctx);
}

static void quantised_blocks_count_as_what_they_are_as_f32(void** state) {
    berth_context* ctx = context_of(state);
    enum { VALUES = BLOCKS * BLOCK * KV_HEADS * DEPTH, BYTES = VALUES / 32 * 34 };
    static const int64_t dims[4] = {BLOCKS, BLOCK, KV_HEADS, DEPTH};
    static float plain[VALUES];
    static unsigned char memory[BYTES];
    for (int i = 0; i < VALUES; ++i)
        plain[i] = (float)((i * 37 % 201) - 100) / 64.0f;
    berth_convert_query_from_f32(BERTH_Q8_0)(plain, memory, VALUES);
    paged x = make_paged(ctx, BERTH_F32, BERTH_F32);
    berth_release_all(x.keys, x.values);
    berth_tensor* quantised =
        berth_tensor_from_memory(ctx, memory, BYTES, BERTH_Q8_0, 4, dims, true, NULL, NULL);
    x.keys = berth_cast(ctx, quantised, BERTH_F32);
    x.values = berth_retain(x.keys);
    berth_tensor* expected = reference(ctx, &x);
    berth_release_all(x.keys, x.values);
    x.keys = quantised;
    x.values = berth_retain(quantised);
    expect_same(expected, attend(ctx, &x));
    berth_release(expected);
    free_paged(&x);
    expect_nothing_left(ctx);
}

/// The same values in memory that runs the other way along the last dimension.
static berth_tensor* turned(berth_context* ctx, berth_tensor* x) {
    const int32_t last = berth_tensor_rank(x) - 1;
    berth_tensor* copy = berth_contiguous(ctx, berth_move(berth_flip(ctx, x, BERTH_DIMS(last))));
    berth_release(x);
    return berth_flip(ctx, berth_move(copy), BERTH_DIMS(last));
}

static void queries_and_tables_have_any_strides(void** state) {
    berth_context* ctx = context_of(state);
    paged x = make_paged(ctx, BERTH_F32, BERTH_F32);
    berth_tensor* expected = reference(ctx, &x);
    x.q = turned(ctx, x.q);
    x.sequences = turned(ctx, x.sequences);
    x.blocks = turned(ctx, x.blocks);
    expect_same(expected, attend(ctx, &x));
    x.keys = turned(ctx, x.keys);
    assert_null(attend(ctx, &x));
    assert_context_fails(
        ctx, BERTH_ERR_UNSUPPORTED, "the last dimension of the blocks must be contiguous");
    berth_release(expected);
    free_paged(&x);
    expect_nothing_left(ctx);
}

static void no_sequences_queries_or_keys_are_fine(void** state) {
    berth_context* ctx = context_of(state);
    paged x = make_paged(ctx, BERTH_F32, BERTH_F32);
    berth_release(x.sequences);
    x.sequences = berth_zeros(ctx, BERTH_I32, 2, DIMS(0, 4));
    berth_tensor* zeros = berth_zeros(ctx, BERTH_F32, 3, DIMS(TOKENS, HEADS, WIDTH));
    expect_same(zeros, attend(ctx, &x));
    berth_release(x.sequences);
    x.sequences = berth_zeros(ctx, BERTH_I32, 2, DIMS(2, 4)); // without queries, keys or blocks
    expect_same(zeros, attend(ctx, &x));
    berth_release_all(x.q, x.blocks, x.keys, x.values);
    x.q = berth_zeros(ctx, BERTH_F32, 3, DIMS(0, HEADS, DEPTH));
    x.blocks = berth_zeros(ctx, BERTH_I32, 1, DIMS(0));
    x.keys = berth_zeros(ctx, BERTH_F32, 4, DIMS(0, 0, KV_HEADS, DEPTH));
    x.values = berth_zeros(ctx, BERTH_F32, 4, DIMS(0, 0, KV_HEADS, 0));
    berth_tensor* none = attend(ctx, &x);
    assert_non_null(none);
    assert_int_equal(berth_tensor_count(none), 0);
    berth_release_all(none, zeros);
    free_paged(&x);
    expect_nothing_left(ctx);
}

// --- Refusals ------------------------------------------------------------------------------------

static void operands_that_do_not_fit_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    enum { Q, KEYS, VALUES, SEQUENCES, ENTRIES };
    static const struct {
        int which;
        berth_dtype dtype;
        int32_t rank;
        int64_t dims[4];
        berth_status status;
        const char* text;
    } cases[] = {
        {Q, BERTH_I32, 3, {6, 4, 32}, BERTH_ERR_UNSUPPORTED, "q must be f32, f16 or bf16"},
        {Q, BERTH_F32, 2, {6, 128}, BERTH_ERR_INVALID_ARGUMENT, "[tokens, heads, head size]"},
        {Q, BERTH_F32, 3, {6, 4, 33}, BERTH_ERR_INVALID_ARGUMENT, "differ in head size"},
        {Q, BERTH_F32, 3, {6, 3, 32}, BERTH_ERR_INVALID_ARGUMENT, "must be a multiple"},
        {Q, BERTH_F32, 3, {0, 70000, 32}, BERTH_ERR_UNSUPPORTED, "70000 heads, values of a head"},
        {KEYS, BERTH_I8, 4, {12, 4, 2, 32}, BERTH_ERR_UNSUPPORTED, "f32, f16, bf16 or q8_0"},
        {KEYS, BERTH_F16, 4, {12, 4, 2, 32}, BERTH_ERR_UNSUPPORTED, "both the same"},
        {KEYS, BERTH_F32, 3, {12, 8, 32}, BERTH_ERR_INVALID_ARGUMENT, "[blocks, keys of a block"},
        {VALUES, BERTH_F32, 4, {12, 5, 2, 16}, BERTH_ERR_INVALID_ARGUMENT, "dimension 1 is 4 of"},
        {VALUES, BERTH_F32, 4, {12, 4, 1, 16}, BERTH_ERR_INVALID_ARGUMENT, "1 of the value blocks"},
        {SEQUENCES, BERTH_I64, 2, {3, 4}, BERTH_ERR_INVALID_ARGUMENT, "i32 [sequences, 4]"},
        {SEQUENCES, BERTH_I32, 2, {3, 6}, BERTH_ERR_INVALID_ARGUMENT, "i32 [sequences, 4]"},
        {SEQUENCES, BERTH_I32, 1, {4}, BERTH_ERR_INVALID_ARGUMENT, "i32 [sequences, 4]"},
        {ENTRIES, BERTH_I64, 1, {7}, BERTH_ERR_INVALID_ARGUMENT, "must be i32 [entries]"},
        {ENTRIES, BERTH_I32, 2, {7, 1}, BERTH_ERR_INVALID_ARGUMENT, "must be i32 [entries]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        paged x = make_paged(ctx, BERTH_F32, BERTH_F32);
        berth_tensor** all[5] = {&x.q, &x.keys, &x.values, &x.sequences, &x.blocks};
        berth_release(*all[cases[i].which]);
        *all[cases[i].which] = berth_zeros(ctx, cases[i].dtype, cases[i].rank, cases[i].dims);
        assert_null(attend(ctx, &x));
        assert_context_fails(ctx, cases[i].status, cases[i].text);
        free_paged(&x);
    }
    paged x = make_paged(ctx, BERTH_F32, BERTH_F32);
    assert_null(berth_paged_attention(ctx, x.q, x.keys, x.values, x.sequences, x.blocks, INFINITY));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "the scale is not finite");
    free_paged(&x);
    expect_nothing_left(ctx);
}

static void a_missing_operand_is_an_error_and_the_others_are_consumed(void** state) {
    berth_context* ctx = context_of(state);
    for (int missing = 0; missing < 5; ++missing) {
        paged x = make_paged(ctx, BERTH_F32, BERTH_F32);
        berth_tensor** all[5] = {&x.q, &x.keys, &x.values, &x.sequences, &x.blocks};
        berth_release(*all[missing]);
        *all[missing] = NULL;
        assert_null(berth_paged_attention(ctx,
                                          berth_move(x.q),
                                          berth_move(x.keys),
                                          berth_move(x.values),
                                          berth_move(x.sequences),
                                          berth_move(x.blocks),
                                          0));
        char text[64];
        snprintf(text, sizeof text, "paged_attention: operand %d is NULL", missing);
        assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, text);
    }
    expect_nothing_left(ctx);
    assert_null(berth_paged_attention(NULL, NULL, NULL, NULL, NULL, NULL, 0));
}

/// A table with one wrong number: of row `row` and column `column` of `three`, or an entry.
static const struct {
    int row, column;
    int32_t number;
    const char* text;
} wrong_numbers[] = {
    {1, 0, -1, "sequence 1 has 4 rows of q from -1 on, there are 6"},
    {1, 0, 3, "sequence 1 has 4 rows of q from 3 on, there are 6"},
    {1, 0, 0, "sequence 1 begins at row 0 of q, the ones before end at 1"},
    {2, 1, INT32_MAX, "sequence 2 has 2147483647 rows of q from 5 on, there are 6"},
    {0, 1, -1, "sequence 0 has -1 rows of q from 0 on, there are 6"},
    {1, 2, 3, "sequence 1 has 4 queries but 3 keys"},
    {0, 2, -5, "sequence 0 has -5 keys"},
    {0, 2, 29, "sequence 0 has 8 entries of blocks from 0 on, there are 7"},
    {2, 2, INT32_MAX, "entries of blocks from 6 on, there are 7"},
    {2, 3, -1, "sequence 2 has 1 entries of blocks from -1 on, there are 7"},
    {3, 4, 12, "entry 1 of sequence 1 is block 12, there are 12"},
    {3, 6, -1, "entry 0 of sequence 2 is block -1, there are 12"},
};

static void wrong_numbers_in_tables_are_named_where_the_host_sees_them(void** state) {
    berth_context* ctx = context_of(state);
    const bool is_seen = !berth_device_is_async(ctx->home.stream->device);
    for (size_t i = 0; i < sizeof wrong_numbers / sizeof wrong_numbers[0]; ++i) {
        const int row = wrong_numbers[i].row, column = wrong_numbers[i].column;
        int32_t sequences[3][4], blocks[7];
        memcpy(sequences, three, sizeof three);
        memcpy(blocks, entries, sizeof entries);
        if (row < 3)
            sequences[row][column] = wrong_numbers[i].number;
        else
            blocks[column] = wrong_numbers[i].number;
        paged x = make_paged(ctx, BERTH_F32, BERTH_F32);
        berth_release_all(x.sequences, x.blocks);
        x.sequences = numbers(ctx, sequences[0], 2, DIMS(3, 4));
        x.blocks = numbers(ctx, blocks, 1, DIMS(7));
        berth_tensor* found = attend(ctx, &x);
        if (is_seen) {
            assert_null(found);
            assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, wrong_numbers[i].text);
        } else {
            float values[TOKENS * HEADS * WIDTH];
            assert_non_null(found);
            assert_ok(berth_tensor_read(found, values, sizeof values));
            for (size_t at = 0; at < sizeof values / sizeof *values; ++at)
                assert_true(isfinite(values[at]));
        }
        berth_release(found);
        free_paged(&x);
    }
    expect_nothing_left(ctx);
}

static void keys_in_blocks_that_hold_none_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    paged x = make_paged(ctx, BERTH_F32, BERTH_F32);
    berth_release_all(x.keys, x.values);
    x.keys = berth_zeros(ctx, BERTH_F32, 4, DIMS(BLOCKS, 0, KV_HEADS, DEPTH));
    x.values = berth_zeros(ctx, BERTH_F32, 4, DIMS(BLOCKS, 0, KV_HEADS, WIDTH));
    assert_null(attend(ctx, &x));
    assert_context_fails(
        ctx, BERTH_ERR_INVALID_ARGUMENT, "sequence 0 has 10 keys, a block holds none");
    free_paged(&x);
    expect_nothing_left(ctx);
}

// --- Writing -------------------------------------------------------------------------------------

// As `three`; the last two keys of the first are new, the first of them without a query, four of
// the second, all of the last.
static const int32_t three_new[3][6] = {
    {0, 1, 10, 0, 0, 2}, {1, 4, 9, 3, 2, 4}, {5, 1, 2, 6, 6, 2}};

static void new_keys_are_written_and_seen(void** state) {
    berth_context* ctx = context_of(state);
    paged x = make_paged(ctx, BERTH_F32, BERTH_F16);
    berth_release(x.sequences);
    x.sequences = numbers(ctx, three_new[0], 2, DIMS(3, 6));
    berth_tensor* k = make(ctx, BERTH_F32, 3, DIMS(8, KV_HEADS, DEPTH));
    berth_tensor* v = make(ctx, BERTH_BF16, 3, DIMS(8, KV_HEADS, WIDTH));
    for (int with_gaps = 0; with_gaps < 2; ++with_gaps) {
        berth_tensor* found = berth_dispatch_paged_attention(
            ctx, x.q, k, v, x.keys, x.values, x.sequences, x.blocks, 0);
        assert_context_ok(ctx);
        berth_tensor* expected = reference(ctx, &x); // over what the blocks hold now
        expect_same(expected, found);
        berth_release(expected);
        k = turned(ctx, k);
        v = turned(ctx, v);
    }
    for (int s = 0; s < 3; ++s) {
        const int32_t* row = three_new[s];
        berth_tensor* keys = gathered(ctx, x.keys, x.blocks, row);
        berth_tensor* last = berth_narrow(ctx, berth_move(keys), 0, row[2] - row[5], row[5]);
        berth_tensor* given = berth_narrow(ctx, k, 0, row[4], row[5]);
        berth_tensor* rounded = berth_cast(ctx, berth_move(given), BERTH_F16);
        expect_same(rounded, berth_contiguous(ctx, berth_move(last)));
        berth_release(rounded);
    }
    berth_release_all(k, v);
    free_paged(&x);
    expect_nothing_left(ctx);
}

static void the_library_may_also_read_only(void** state) {
    berth_context* ctx = context_of(state);
    paged x = make_paged(ctx, BERTH_F32, BERTH_F32);
    berth_tensor* expected = reference(ctx, &x);
    expect_same(expected,
                berth_dispatch_paged_attention(
                    ctx, x.q, NULL, NULL, x.keys, x.values, x.sequences, x.blocks, 0));
    berth_release(expected);
    free_paged(&x);
    expect_nothing_left(ctx);
}

static void new_keys_that_do_not_fit_the_blocks_are_refused(void** state) {
    berth_context* ctx = context_of(state);
    paged x = make_paged(ctx, BERTH_F32, BERTH_F32);
    static const struct {
        berth_dtype dtype;
        int64_t k[3], v[3];
        berth_status status;
        const char* text;
    } cases[] = {
        {BERTH_F32, {8, 2, 31}, {8, 2, 16}, BERTH_ERR_INVALID_ARGUMENT, "must be [rows, 2, head"},
        {BERTH_F32, {8, 1, 32}, {8, 2, 16}, BERTH_ERR_INVALID_ARGUMENT, "must be [rows, 2, head"},
        {BERTH_F32, {8, 2, 32}, {7, 2, 16}, BERTH_ERR_INVALID_ARGUMENT, "differ in rows"},
        {BERTH_I32, {8, 2, 32}, {8, 2, 16}, BERTH_ERR_UNSUPPORTED, "must be f32, f16 or bf16"},
    };
    berth_tensor* rows = numbers(ctx, three_new[0], 2, DIMS(3, 6));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        berth_tensor* k = berth_zeros(ctx, cases[i].dtype, 3, cases[i].k);
        berth_tensor* v = berth_zeros(ctx, BERTH_F32, 3, cases[i].v);
        assert_null(berth_dispatch_paged_attention(
            ctx, x.q, berth_move(k), berth_move(v), x.keys, x.values, rows, x.blocks, 0));
        assert_context_fails(ctx, cases[i].status, cases[i].text);
    }
    berth_tensor* k = make(ctx, BERTH_F32, 3, DIMS(8, KV_HEADS, DEPTH));
    assert_null(
        berth_dispatch_paged_attention(ctx, x.q, k, NULL, x.keys, x.values, rows, x.blocks, 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "paged_attention: operand 6 is NULL");
    berth_tensor* v = make(ctx, BERTH_F32, 3, DIMS(8, KV_HEADS, WIDTH));
    assert_null(
        berth_dispatch_paged_attention(ctx, x.q, k, v, x.keys, x.values, x.sequences, x.blocks, 0));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "i32 [sequences, 6]");
    berth_release_all(k, v, rows);
    free_paged(&x);
    expect_nothing_left(ctx);
}

// --- Steps and failures --------------------------------------------------------------------------

/// Sequences of a query each over `keys` keys and more: one step of a server.
static void run_step(berth_context* ctx, int64_t sequences, int64_t keys) {
    enum { MOST = 40 };
    int32_t rows[MOST][4], table[MOST * 8];
    int32_t entry = 0;
    for (int32_t s = 0; s < (int32_t)sequences; ++s) {
        const int32_t own = (int32_t)keys + s % 3;
        rows[s][0] = s;
        rows[s][1] = 1;
        rows[s][2] = own;
        rows[s][3] = entry;
        for (int32_t i = 0; i < (own + BLOCK - 1) / BLOCK; ++i)
            table[entry++] = (s * 5 + i) % BLOCKS;
    }
    const int64_t blocks = entry;
    const berth_step_input inputs[] = {{.name = "sequences", .rank = 1, .dims = &sequences},
                                       {.name = "blocks", .rank = 1, .dims = &blocks}};
    const berth_step_desc desc = {.name = "serve", .inputs = inputs, .input_count = 2};
    assert_ok(berth_step_begin(ctx, &desc));
    paged x = {
        .q = make(ctx, BERTH_F32, 3, DIMS(sequences, HEADS, DEPTH)),
        .keys = make(ctx, BERTH_F16, 4, DIMS(BLOCKS, BLOCK, KV_HEADS, DEPTH)),
        .values = make(ctx, BERTH_F16, 4, DIMS(BLOCKS, BLOCK, KV_HEADS, WIDTH)),
        .sequences = numbers(ctx, rows[0], 2, DIMS(sequences, 4)),
        .blocks = numbers(ctx, table, 1, &blocks),
    };
    berth_tensor* y = attend(ctx, &x);
    assert_context_ok(ctx);
    berth_release(y);
    free_paged(&x);
    assert_ok(berth_step_end(ctx));
}

static void a_step_of_changing_sizes_is_planned(void** state) {
    (void)state;
    exec_kit kit;
    const berth_option_setting settings[] = {{"device", "cpu"}, {"threads", "2"}};
    assert_ok(exec_kit_open(&kit, NULL, settings, 2));
    for (int64_t i = 0; i < 12; ++i)
        run_step(kit.ctx, 1 + i * 7 % 11, 2 + i * 5 % 17);
    const berth_step_counters learned = exec_kit_counters(kit.runtime, "serve");
    for (int64_t i = 0; i < 30; ++i)
        run_step(kit.ctx, 12 + i % 19, 3 + i * 3 % 23);
    const berth_step_counters after = exec_kit_counters(kit.runtime, "serve");
    assert_int_equal(after.hits - learned.hits, 30);
    expect_nothing_left(kit.ctx);
    exec_kit_close(&kit);
}

static berth_tensor* run_with_gaps(berth_context* ctx) {
    paged x = make_paged(ctx, BERTH_F32, BERTH_F32);
    x.q = berth_flip(ctx, berth_move(x.q), BERTH_DIMS(2));
    berth_tensor* y = attend(ctx, &x);
    free_paged(&x);
    return y;
}

static void host_memory_that_ends_is_an_error(void** state) {
    (void)state;
    exec_kit_fail_every_allocation("cpu", run_with_gaps);
    exec_kit_fail_every_allocation("sim", run_with_gaps);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        EXEC_KIT_ON_BOTH(sequences_are_attended_to_through_the_table),
        EXEC_KIT_ON_BOTH(blocks_of_one_layer_among_others_are_read_where_they_lie),
        EXEC_KIT_ON_BOTH(quantised_blocks_count_as_what_they_are_as_f32),
        EXEC_KIT_ON_BOTH(queries_and_tables_have_any_strides),
        EXEC_KIT_ON_BOTH(no_sequences_queries_or_keys_are_fine),
        EXEC_KIT_ON_BOTH(operands_that_do_not_fit_are_refused),
        EXEC_KIT_ON_BOTH(a_missing_operand_is_an_error_and_the_others_are_consumed),
        EXEC_KIT_ON_BOTH(wrong_numbers_in_tables_are_named_where_the_host_sees_them),
        cmocka_unit_test_setup_teardown(
            keys_in_blocks_that_hold_none_are_refused, exec_kit_set_up_cpu, exec_kit_tear_down),
        EXEC_KIT_ON_BOTH(new_keys_are_written_and_seen),
        EXEC_KIT_ON_BOTH(the_library_may_also_read_only),
        EXEC_KIT_ON_BOTH(new_keys_that_do_not_fit_the_blocks_are_refused),
        cmocka_unit_test(a_step_of_changing_sizes_is_planned),
        cmocka_unit_test(host_memory_that_ends_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
