// SPDX-License-Identifier: Apache-2.0
// Keys and values that outlive the calls that make them: a pair of tensors with spare rows, to
// which every call adds its own in place, and over which its queries attend.
#include <berth/berth.h>

#include <math.h>
#include <stdio.h>

enum { CAPACITY = 64, HEADS = 2, DIMS = 8, CALLS = 5 };

/// What is kept between calls.
typedef struct cache {
    berth_tensor* keys;   ///< [CAPACITY, HEADS, DIMS]
    berth_tensor* values; ///< the same
    int64_t used;         ///< rows that hold tokens
} cache;

/// Adds `rows` [count, HEADS, DIMS] to one of the tensors. It is moved into the op and nobody else
/// holds it, so the same storage comes back with the new rows written: no copy, no new memory.
static void append(berth_context* ctx, berth_tensor** entry, berth_tensor* at, berth_tensor* rows) {
    *entry = berth_index_copy(ctx, berth_move(*entry), 0, at, berth_move(rows));
}

/// One call: `count` new tokens, whose values are all `value`; returns what the last one attends
/// to.
static float call(berth_context* ctx, cache* kv, int64_t count, double value) {
    const berth_step_input tokens = {.name = "tokens", .rank = 1, .dims = &count};
    const berth_step_integer past = {.name = "past", .value = kv->used};
    const berth_step_desc step = {.name = "attend",
                                  .inputs = &tokens,
                                  .input_count = 1,
                                  .integers = &past,
                                  .integer_count = 1};
    if (berth_step_begin(ctx, &step) != BERTH_OK) return NAN;
    int64_t dims[] = {count, HEADS, DIMS};
    int64_t end = kv->used + count;
    berth_tensor* at = berth_arange(ctx, (double)kv->used, (double)end, 1.0, BERTH_I32);
    append(ctx, &kv->keys, at, berth_zeros(ctx, BERTH_F32, 3, dims));
    append(ctx, &kv->values, at, berth_full(ctx, value, BERTH_F32, 3, dims));

    berth_tensor* q = berth_ones(ctx, BERTH_F32, 3, dims);
    berth_tensor* keys = berth_slice(ctx, kv->keys, 0, 0, end, 1);
    berth_tensor* values = berth_slice(ctx, kv->values, 0, 0, end, 1);
    berth_tensor* a = berth_attention(
        ctx, berth_move(q), berth_move(keys), berth_move(values), NULL, 0.0f, true, kv->used);
    a = berth_slice(ctx, berth_move(a), 0, -1, INT64_MAX, 1);
    float result[HEADS * DIMS] = {NAN};
    if (a != NULL && berth_tensor_read(a, result, sizeof result) != BERTH_OK) result[0] = NAN;
    berth_release_all(at, a);
    if (berth_step_end(ctx) != BERTH_OK) return NAN;
    kv->used = end;
    return result[0];
}

/// Address of the keys on this device, to see that they stay where they are.
static void* address(berth_tensor* tensor) {
    void* data = NULL;
    if (tensor == NULL || berth_tensor_map(tensor, &data) != BERTH_OK) return NULL;
    berth_tensor_unmap(tensor);
    return data;
}

/// Makes the calls; true if each attends to all tokens so far and no tensor was copied.
static bool run(berth_context* ctx, cache* kv) {
    const void* place = address(kv->keys);
    double sum = 0.0;
    bool is_right = place != NULL;
    for (int64_t i = 0; i < CALLS; i++) {
        int64_t count = i + 2;
        sum += (double)count * (double)i;
        // keys are all alike, so that every token seen so far has the same weight
        float attended = call(ctx, kv, count, (double)i);
        double expected = sum / (double)kv->used;
        printf("%2d tokens known: attends to %.4f\n", (int)kv->used, (double)attended);
        is_right = is_right && fabs((double)attended - expected) < 1e-5;
    }
    return is_right && address(kv->keys) == place;
}

int main(void) {
    const berth_runtime_options options = {.struct_size = sizeof options};
    berth_runtime* runtime = NULL;
    berth_context* ctx = NULL;
    cache kv = {0};
    bool is_right = false;
    if (berth_runtime_create(&options, &runtime) == BERTH_OK &&
        berth_context_create(runtime, &ctx) == BERTH_OK) {
        int64_t dims[] = {CAPACITY, HEADS, DIMS};
        kv.keys = berth_zeros(ctx, BERTH_F32, 3, dims);
        kv.values = berth_zeros(ctx, BERTH_F32, 3, dims);
        is_right = run(ctx, &kv);
        if (berth_context_error(ctx) != BERTH_OK)
            fprintf(stderr, "%s\n", berth_context_error_text(ctx));
    }
    berth_release_all(kv.keys, kv.values);
    berth_context_release(ctx);
    berth_runtime_release(runtime);
    return is_right ? 0 : 1;
}
