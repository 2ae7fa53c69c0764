// SPDX-License-Identifier: Apache-2.0
// Batches of a KV cache: tables, tensors, and attention that gives each sequence what it would get
// alone, however its tokens come.
#include <math.h>
#include <stdio.h>

#include "kv_kit.h"

enum { LAYERS = 2, KV_HEADS = 2, HEADS = 4, DIMS = 32, LONGEST = 90 };

static const berth_dtype dtypes[] = {BERTH_F32, BERTH_F16, BERTH_BF16, BERTH_Q8_0};

/// Options of a cache of the tests' geometry.
static berth_kv_options geometry(berth_dtype dtype, int64_t block_tokens) {
    return (berth_kv_options){.struct_size = sizeof(berth_kv_options),
                              .layers = LAYERS,
                              .kv_heads = KV_HEADS,
                              .key_dims = DIMS,
                              .dtype = dtype,
                              .block_tokens = block_tokens};
}

/// A number in [-1, 1) that only what is asked for decides.
static float value_of(int32_t token, int64_t position, int64_t layer, int which, int64_t at) {
    test_random random =
        test_random_make((uint64_t)token * 7919 + (uint64_t)position * 104729 +
                         (uint64_t)layer * 31 + (uint64_t)which * 1009 + (uint64_t)at * 15485863);
    return (float)(test_random_unit(&random) * 2.0 - 1.0);
}

/// Rows [rows, heads, DIMS] of new tokens of all parts; which: 0 queries, 1 keys, 2 values. With
/// `last` only of each part's last token.
static berth_tensor* rows_of(berth_context* ctx,
                             const berth_kv_tables* t,
                             const int32_t* const* tokens,
                             int64_t layer,
                             int which,
                             bool last) {
    const int64_t heads = which == 0 ? HEADS : KV_HEADS;
    const int64_t dims[] = {last ? t->sequences : t->tokens, heads, DIMS};
    float* data = test_malloc((size_t)(dims[0] * heads * DIMS) * sizeof *data);
    float* to = data;
    for (int64_t s = 0; s < t->sequences; ++s) {
        const int64_t count = t->token_starts[s + 1] - t->token_starts[s];
        for (int64_t i = last ? count - 1 : 0; i < count; ++i) {
            const int64_t position = t->lengths[s] - count + i;
            for (int64_t at = 0; at < heads * DIMS; ++at)
                *to++ = value_of(tokens[s][position], position, layer, which, at);
        }
    }
    berth_tensor* x = berth_empty(ctx, BERTH_F32, 3, dims);
    assert_ok(berth_tensor_write(x, data, berth_tensor_bytes(x)));
    test_free(data);
    return x;
}

/// One step over the parts; the last tokens' results of the last layer go to `out` [parts][HEADS *
/// DIMS].
static void run_step(kv_kit* kit,
                     const berth_kv_part* parts,
                     size_t count,
                     const int32_t* const* tokens,
                     float (*out)[HEADS * DIMS]) {
    berth_context* ctx = kit->exec.ctx;
    berth_kv_batch* batch;
    assert_ok(berth_kv_batch_begin(kit->cache, parts, count, &batch));
    const berth_kv_tables* t = berth_kv_batch_tables(batch);
    const berth_step_input inputs[] = {
        {"tokens", 1, &t->tokens}, {"sequences", 1, &t->sequences}, {"blocks", 1, &t->blocks}};
    const berth_step_desc step = {.name = "attend", .inputs = inputs, .input_count = 3};
    assert_ok(berth_step_begin(ctx, &step));
    berth_kv_tensors tensors;
    assert_true(berth_kv_batch_upload(batch, &tensors));
    for (int64_t layer = 0; layer < LAYERS; ++layer) {
        const bool last = layer + 1 == LAYERS;
        berth_tensor* q = rows_of(ctx, t, tokens, layer, 0, last);
        berth_tensor* k = rows_of(ctx, t, tokens, layer, 1, false);
        berth_tensor* v = rows_of(ctx, t, tokens, layer, 2, false);
        berth_tensor* a = berth_kv_attend(batch,
                                          layer,
                                          last ? BERTH_KV_LAST_TOKENS : BERTH_KV_ALL_TOKENS,
                                          berth_move(q),
                                          berth_move(k),
                                          berth_move(v),
                                          0.0f);
        assert_context_ok(ctx);
        if (last) assert_ok(berth_tensor_read(a, out, count * sizeof *out));
        berth_release(a);
    }
    assert_ok(berth_step_end(ctx));
    assert_ok(berth_kv_batch_end(batch, true));
}

/// What the tokens give that come one chunk after another, alone.
static void run_alone(
    kv_kit* kit, const int32_t* tokens, int64_t count, int64_t chunk, float out[HEADS * DIMS]) {
    berth_kv_sequence* sequence = kv_kit_begin(kit, "alone");
    float result[1][HEADS * DIMS];
    for (int64_t at = 0; at < count; at += chunk) {
        const int64_t size = count - at < chunk ? count - at : chunk;
        const berth_kv_part part = {sequence, tokens + at, size};
        run_step(kit, &part, 1, &tokens, result);
    }
    memcpy(out, result[0], sizeof result[0]);
    berth_kv_sequence_release(sequence);
}

static void draw_tokens(int32_t* tokens, int64_t count, uint64_t seed) {
    test_random random = test_random_make(seed);
    for (int64_t i = 0; i < count; ++i)
        tokens[i] = (int32_t)test_random_below(&random, 1000);
}

static void open_kit(kv_kit* kit, const char* device, const berth_kv_options* options) {
    const berth_option_setting settings[] = {{"device", device}, {"threads", "2"}};
    assert_ok(exec_kit_open(&kit->exec, NULL, settings, 2));
    assert_ok(berth_kv_cache_create(kit->exec.ctx, options, &kit->cache));
    berth_kv_cache_layout(kit->cache, &kit->layout);
}

static void chunks_give_the_bits_of_the_whole(void** state) {
    const char* device = *state;
    int32_t tokens[LONGEST];
    draw_tokens(tokens, LONGEST, 5);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
        const berth_kv_options options = geometry(dtypes[d], 16);
        kv_kit kit;
        open_kit(&kit, device, &options);
        float whole[HEADS * DIMS], parts[HEADS * DIMS];
        run_alone(&kit, tokens, LONGEST, LONGEST, whole);
        const int64_t chunks[] = {1, 7, 16, 64};
        for (size_t i = 0; i < 4; ++i) {
            run_alone(&kit, tokens, LONGEST, chunks[i], parts);
            assert_memory_equal(parts, whole, sizeof whole);
        }
        kv_kit_close(&kit);
    }
}

static void a_batch_gives_each_sequence_the_bits_that_it_gets_alone(void** state) {
    const char* device = *state;
    enum { PARTS = 5 };
    const int64_t lengths[PARTS] = {1, 17, LONGEST, 40, 16};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
        const berth_kv_options options = geometry(dtypes[d], 16);
        kv_kit kit;
        open_kit(&kit, device, &options);
        int32_t tokens[PARTS][LONGEST];
        const int32_t* rows[PARTS];
        float alone[PARTS][HEADS * DIMS], together[PARTS][HEADS * DIMS];
        berth_kv_part parts[PARTS];
        for (size_t s = 0; s < PARTS; ++s) {
            draw_tokens(tokens[s], lengths[s], 10 + s);
            rows[s] = tokens[s];
            run_alone(&kit, tokens[s], lengths[s], lengths[s], alone[s]);
            parts[s] = (berth_kv_part){kv_kit_begin(&kit, "batch"), tokens[s], lengths[s]};
        }
        run_step(&kit, parts, PARTS, rows, together);
        assert_memory_equal(together, alone, sizeof alone);
        for (size_t s = 0; s < PARTS; ++s)
            berth_kv_sequence_release(parts[s].sequence);
        kv_kit_close(&kit);
    }
}

static void what_is_found_gives_the_bits_of_what_is_computed(void** state) {
    const char* device = *state;
    const berth_kv_options options = geometry(BERTH_F16, 16);
    kv_kit kit;
    open_kit(&kit, device, &options);
    int32_t tokens[LONGEST];
    draw_tokens(tokens, LONGEST, 6);
    const int32_t* rows[] = {tokens};
    float alone[HEADS * DIMS], found[1][HEADS * DIMS];
    run_alone(&kit, tokens, LONGEST, LONGEST, alone);
    berth_kv_sequence* sequence = kv_kit_begin(&kit, "alone");
    berth_kv_match match;
    assert_ok(berth_kv_sequence_match(sequence, tokens, LONGEST, &match));
    assert_int_equal(match.tokens, LONGEST - 1);
    const berth_kv_part part = {sequence, tokens + LONGEST - 1, 1};
    run_step(&kit, &part, 1, rows, found);
    assert_memory_equal(found[0], alone, sizeof alone);
    berth_kv_sequence_release(sequence);
    kv_kit_close(&kit);
}

static void steps_over_a_cache_are_planned(void** state) {
    const char* device = *state;
    const berth_kv_options options = geometry(BERTH_F32, 16);
    kv_kit kit;
    open_kit(&kit, device, &options);
    int32_t tokens[LONGEST];
    draw_tokens(tokens, LONGEST, 7);
    float result[HEADS * DIMS];
    for (int64_t length = 10; length < 60; length += 5)
        run_alone(&kit, tokens, length, length, result);
    const char* name;
    berth_step_counters counters;
    assert_ok(berth_runtime_query_step(kit.exec.runtime, 0, &name, &counters));
    assert_int_equal(counters.runs, 10);
    assert_true(counters.hits >= 7);
    assert_int_equal(counters.side_exits, 0);
    kv_kit_close(&kit);
}

static void tables_name_the_blocks_of_all_parts(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "a");
    berth_kv_sequence* b = kv_kit_begin(&kit, "b");
    assert_ok(kv_kit_add(&kit, a, 0, 5));
    const int32_t tokens[] = {7, 8, 9, 10, 11, 12};
    const berth_kv_part parts[] = {{a, tokens, 1}, {b, tokens, 6}};
    berth_kv_batch* batch;
    assert_ok(berth_kv_batch_begin(kit.cache, parts, 2, &batch));
    const berth_kv_tables* t = berth_kv_batch_tables(batch);
    assert_int_equal(t->sequences, 2);
    assert_int_equal(t->tokens, 7);
    assert_int_equal(t->blocks, 4);
    const int32_t token_starts[] = {0, 1, 7}, block_starts[] = {0, 2, 4};
    const int32_t lengths[] = {6, 6}, last[] = {2, 2}, positions[] = {5, 0, 1, 2, 3, 4, 5};
    assert_memory_equal(t->token_starts, token_starts, sizeof token_starts);
    assert_memory_equal(t->block_starts, block_starts, sizeof block_starts);
    assert_memory_equal(t->lengths, lengths, sizeof lengths);
    assert_memory_equal(t->last_block_tokens, last, sizeof last);
    assert_memory_equal(t->positions, positions, sizeof positions);
    assert_int_equal(t->block_indices[0], a->blocks.items[0]);
    assert_int_equal(t->block_indices[3], b->blocks.items[1]);
    assert_ok(berth_kv_batch_end(batch, false));
    assert_int_equal(berth_kv_sequence_length(a), 5);
    assert_int_equal(berth_kv_sequence_length(b), 0);
    assert_int_equal(kv_kit_stats(&kit).held_blocks, 2);
    berth_kv_sequence_release(a);
    berth_kv_sequence_release(b);
    kv_kit_close(&kit);
}

static void parts_that_cannot_be_are_refused(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_kv_sequence* a = kv_kit_begin(&kit, "a");
    const int32_t tokens[] = {1};
    const berth_kv_part twice[] = {{a, tokens, 1}, {a, tokens, 1}};
    berth_kv_batch* batch;
    assert_fails(berth_kv_batch_begin(kit.cache, twice, 2, &batch),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "part 1 of the batch has a sequence that another part has");
    assert_null(batch);
    const berth_kv_part none = {a, tokens, 0};
    assert_fails(berth_kv_batch_begin(kit.cache, &none, 1, &batch),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "adds no tokens");
    const berth_kv_part nobody = {NULL, tokens, 1};
    assert_fails(berth_kv_batch_begin(kit.cache, &nobody, 1, &batch),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "no sequence");
    const berth_kv_part good = {a, tokens, 1};
    assert_fails(
        berth_kv_batch_begin(kit.cache, &good, 0, &batch), BERTH_ERR_INVALID_ARGUMENT, "parts");
    assert_ok(berth_kv_batch_begin(kit.cache, &good, 1, &batch));
    berth_kv_batch* second;
    assert_fails(berth_kv_batch_begin(kit.cache, &good, 1, &second), BERTH_ERR_STATE, "batch");
    assert_fails(berth_kv_sequence_truncate(a, 0), BERTH_ERR_STATE, "open batch");
    assert_ok(berth_kv_batch_end(batch, true));
    assert_int_equal(berth_kv_sequence_length(a), 1);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void an_op_that_cannot_be_leaves_an_error_in_the_context(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_context* ctx = kit.exec.ctx;
    berth_kv_sequence* a = kv_kit_begin(&kit, "a");
    const int32_t tokens[] = {1, 2};
    const berth_kv_part part = {a, tokens, 2};
    berth_kv_batch* batch;
    assert_ok(berth_kv_batch_begin(kit.cache, &part, 1, &batch));
    berth_tensor* k = berth_zeros(ctx, BERTH_F32, BERTH_SHAPE(2, 2, 64));
    berth_tensor* short_k = berth_zeros(ctx, BERTH_F32, BERTH_SHAPE(1, 2, 64));
    assert_null(berth_kv_attend(batch, 0, BERTH_KV_ALL_TOKENS, k, k, k, 0.0f));
    assert_context_fails(ctx, BERTH_ERR_STATE, "uploaded");
    berth_kv_tensors tensors;
    assert_true(berth_kv_batch_upload(batch, &tensors));
    assert_null(berth_kv_attend(batch, 2, BERTH_KV_ALL_TOKENS, k, k, k, 0.0f));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "no layer 2");
    assert_null(berth_kv_attend(batch, 0, BERTH_KV_ALL_TOKENS, k, short_k, k, 0.0f));
    assert_context_fails(ctx, BERTH_ERR_INVALID_ARGUMENT, "k has 1 rows, the batch needs 2");
    assert_null(berth_kv_attend(batch, 0, BERTH_KV_ALL_TOKENS, NULL, k, k, 0.0f));
    assert_int_equal(berth_kv_batch_end(batch, true), BERTH_ERR_INVALID_ARGUMENT);
    berth_context_clear_error(ctx);
    assert_int_equal(berth_kv_sequence_length(a), 0);
    berth_release_all(k, short_k);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static void a_batch_is_uploaded_once_and_before_its_end(void** state) {
    (void)state;
    kv_kit kit;
    const berth_kv_options options = kv_kit_options();
    kv_kit_open(&kit, &options, 8);
    berth_context* ctx = kit.exec.ctx;
    berth_kv_sequence* a = kv_kit_begin(&kit, "m");
    const int32_t token = 7;
    const berth_kv_part part = {a, &token, 1};
    berth_kv_batch* batch;
    berth_kv_tensors tensors;
    assert_ok(berth_kv_batch_begin(kit.cache, &part, 1, &batch));
    assert_true(berth_kv_batch_upload(batch, &tensors));
    assert_false(berth_kv_batch_upload(batch, &tensors));
    assert_context_fails(ctx, BERTH_ERR_STATE, "already");
    berth_context_clear_error(ctx);
    assert_ok(berth_kv_batch_end(batch, true));
    assert_false(berth_kv_batch_upload(batch, &tensors));
    assert_context_fails(ctx, BERTH_ERR_STATE, "has ended");
    berth_context_clear_error(ctx);
    // the next one is as any other
    assert_ok(berth_kv_batch_begin(kit.cache, &part, 1, &batch));
    assert_true(berth_kv_batch_upload(batch, &tensors));
    assert_ok(berth_kv_batch_end(batch, true));
    assert_int_equal(berth_kv_sequence_length(a), 2);
    berth_kv_sequence_release(a);
    kv_kit_close(&kit);
}

static char cpu_name[] = "cpu", sim_name[] = "sim";
static int on_cpu(void** state) { return *state = cpu_name, 0; }
static int on_sim(void** state) { return *state = sim_name, 0; }

#define ON_BOTH(test)                                                                              \
    {"cpu: " #test, test, on_cpu, NULL, NULL}, { "sim: " #test, test, on_sim, NULL, NULL }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(chunks_give_the_bits_of_the_whole),
        ON_BOTH(a_batch_gives_each_sequence_the_bits_that_it_gets_alone),
        ON_BOTH(what_is_found_gives_the_bits_of_what_is_computed),
        ON_BOTH(steps_over_a_cache_are_planned),
        cmocka_unit_test(tables_name_the_blocks_of_all_parts),
        cmocka_unit_test(parts_that_cannot_be_are_refused),
        cmocka_unit_test(an_op_that_cannot_be_leaves_an_error_in_the_context),
        cmocka_unit_test(a_batch_is_uploaded_once_and_before_its_end),
    };
    return cmocka_run_group_tests_name("KV batches", tests, NULL, NULL);
}
