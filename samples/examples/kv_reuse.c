// SPDX-License-Identifier: Apache-2.0
// Keys and values that outlive the calls that make them: a paged cache, to which every batch adds
// those of its new tokens, and in which a second sequence finds what the first one left.
#include <berth/berth.h>

#include <math.h>
#include <stdio.h>

enum { HEADS = 2, DIMS = 8, BLOCK = 4, PROMPT = 14 };

/// The value of a token's number, all over its row [1, HEADS, DIMS].
static berth_tensor* make_values(berth_context* ctx, const int32_t* tokens, int64_t count) {
    float rows[PROMPT * HEADS * DIMS];
    int64_t dims[] = {count, HEADS, DIMS};
    for (int64_t i = 0; i < count * HEADS * DIMS; i++)
        rows[i] = (float)tokens[i / (HEADS * DIMS)];
    berth_tensor* v = berth_empty(ctx, BERTH_F32, 3, dims);
    if (v != NULL && berth_tensor_write(v, rows, berth_tensor_bytes(v)) != BERTH_OK) {
        berth_release(v);
        return NULL;
    }
    return v;
}

/// The one layer of a model of this example: keys are all alike, so that a token attends to the
/// mean of all values up to its own.
static float attend(berth_context* ctx, berth_kv_batch* batch, const int32_t* tokens) {
    int64_t count = berth_kv_batch_tables(batch)->tokens;
    int64_t dims[] = {count, HEADS, DIMS};
    int64_t last[] = {1, HEADS, DIMS};
    berth_kv_tensors tensors;
    if (!berth_kv_batch_upload(batch, &tensors)) return NAN;
    berth_tensor* q = berth_ones(ctx, BERTH_F32, 3, last);
    berth_tensor* k = berth_zeros(ctx, BERTH_F32, 3, dims);
    berth_tensor* v = make_values(ctx, tokens, count);
    berth_tensor* a = berth_kv_attend(
        batch, 0, BERTH_KV_LAST_TOKENS, berth_move(q), berth_move(k), berth_move(v), 0.0f);
    float result[HEADS * DIMS] = {NAN};
    if (a != NULL && berth_tensor_read(a, result, sizeof result) != BERTH_OK) result[0] = NAN;
    berth_release(a);
    return result[0];
}

/// Runs new tokens of a sequence as a step; what the last one attends to, NAN after an error.
static float run(berth_context* ctx,
                 berth_kv_cache* cache,
                 berth_kv_sequence* sequence,
                 berth_kv_part part) {
    berth_kv_batch* batch = NULL;
    part.sequence = sequence;
    if (berth_kv_batch_begin(cache, &part, 1, &batch) != BERTH_OK) return NAN;
    const berth_kv_tables* tables = berth_kv_batch_tables(batch);
    const berth_step_input inputs[] = {{"tokens", 1, &tables->tokens},
                                       {"sequences", 1, &tables->sequences},
                                       {"blocks", 1, &tables->blocks}};
    const berth_step_desc step = {.name = "attend", .inputs = inputs, .input_count = 3};
    float result = NAN;
    if (berth_step_begin(ctx, &step) == BERTH_OK) {
        result = attend(ctx, batch, part.tokens);
        if (berth_step_end(ctx) != BERTH_OK) result = NAN;
    }
    return berth_kv_batch_end(batch, !isnan(result)) == BERTH_OK ? result : NAN;
}

/// A request: looks up what is cached of its prompt, computes the rest. True if the last token
/// attends to all of them, and `expected` were found.
static bool ask(berth_context* ctx,
                berth_kv_cache* cache,
                const int32_t* prompt,
                int64_t expected) {
    berth_kv_sequence* sequence = NULL;
    berth_kv_match match = {0};
    float attended = NAN;
    double sum = 0.0;
    for (int64_t i = 0; i < PROMPT; i++)
        sum += prompt[i];
    if (berth_kv_sequence_create(cache, NULL, &sequence) == BERTH_OK &&
        berth_kv_sequence_match(sequence, prompt, PROMPT, &match) == BERTH_OK) {
        const int64_t rest = PROMPT - match.tokens;
        const berth_kv_part part = {.tokens = prompt + match.tokens, .count = rest};
        attended = run(ctx, cache, sequence, part);
    }
    printf("%2d of %d tokens found, %d shared: attends to %.4f; the next was not found: %s\n",
           (int)match.tokens,
           PROMPT,
           (int)match.shared_tokens,
           (double)attended,
           berth_kv_miss_text(match.miss));
    berth_kv_sequence_release(sequence);
    return fabs((double)attended - sum / PROMPT) < 1e-5 && match.tokens == expected;
}

/// Three requests: the second begins like the first, the third is the second again.
static bool ask_all(berth_context* ctx, berth_kv_cache* cache) {
    int32_t first[PROMPT], second[PROMPT];
    for (int32_t i = 0; i < PROMPT; i++) {
        first[i] = i;
        second[i] = i < 10 ? i : 100 + i; // two blocks and a half alike
    }
    bool is_right = ask(ctx, cache, first, 0);
    is_right = ask(ctx, cache, second, 10) && is_right;
    is_right = ask(ctx, cache, second, PROMPT - 1) && is_right; // one is left to compute
    berth_kv_stats stats;
    berth_kv_cache_query_stats(cache, &stats);
    printf("%d tokens computed, %d found; %d blocks of %d bytes stay cached\n",
           (int)stats.appended_tokens,
           (int)stats.hit_tokens,
           (int)stats.cached_blocks,
           (int)stats.block_bytes);
    return is_right;
}

int main(void) {
    const berth_runtime_options options = {.struct_size = sizeof options};
    const berth_kv_options kv = {.struct_size = sizeof kv,
                                 .layers = 1,
                                 .kv_heads = HEADS,
                                 .key_dims = DIMS,
                                 .dtype = BERTH_F32,
                                 .block_tokens = BLOCK};
    berth_runtime* runtime = NULL;
    berth_context* ctx = NULL;
    berth_kv_cache* cache = NULL;
    bool is_right = false;
    if (berth_runtime_create(&options, &runtime) == BERTH_OK &&
        berth_context_create(runtime, &ctx) == BERTH_OK &&
        berth_kv_cache_create(ctx, &kv, &cache) == BERTH_OK)
        is_right = ask_all(ctx, cache);
    if (ctx != NULL && berth_context_error(ctx) != BERTH_OK)
        fprintf(stderr, "%s\n", berth_context_error_text(ctx));
    berth_kv_cache_release(cache);
    berth_context_release(ctx);
    berth_runtime_release(runtime);
    return is_right ? 0 : 1;
}
