// SPDX-License-Identifier: Apache-2.0
// A step whose length differs at every call: after three lengths Berth knows its memory at any.
#include <berth/berth.h>
#include <stdio.h>

/// The mean of x + silu(x w^T) over `length` tokens: plain eager code between two calls.
static bool run(berth_context* ctx, berth_tensor* w, int64_t length) {
    const berth_step_input tokens = {.name = "tokens", .rank = 1, .dims = &length};
    const berth_step_desc step = {.name = "block", .inputs = &tokens, .input_count = 1};
    if (berth_step_begin(ctx, &step) != BERTH_OK) return false;
    berth_tensor* x = berth_ones(ctx, BERTH_F32, BERTH_SHAPE(length, 256));
    berth_tensor* h = berth_silu(ctx, berth_move(berth_linear(ctx, x, w, NULL)));
    x = berth_add(ctx, berth_move(x), berth_move(h));
    x = berth_reshape(ctx, berth_move(x), BERTH_SHAPE(-1));
    berth_tensor* mean = berth_mean(ctx, berth_move(x), BERTH_DIMS(0), false);
    float value = 0.0f; // should become 1 + silu(1) = 1.73106
    bool is_read = mean != NULL && berth_tensor_read(mean, &value, sizeof value) == BERTH_OK;
    berth_release(mean);
    return berth_step_end(ctx) == BERTH_OK && is_read && value > 1.731f && value < 1.7311f;
}

int main(void) {
    const berth_runtime_options options = {.struct_size = sizeof options};
    berth_runtime* runtime = NULL;
    berth_context* ctx = NULL;
    if (berth_runtime_create(&options, &runtime) != BERTH_OK) return puts(berth_last_error()), 1;
    if (berth_context_create(runtime, &ctx) != BERTH_OK) return 1;
    berth_tensor* w = berth_full(ctx, 1.0 / 256.0, BERTH_F32, BERTH_SHAPE(256, 256));
    int right = 0;
    for (int i = 0; i < 20; i++)
        right += run(ctx, w, 100 + 37 * i);
    const char* name;
    berth_step_counters seen = {0};
    if (berth_runtime_query_step(runtime, 0, &name, &seen) != BERTH_OK) return 1;
    printf("%d of %d runs hit their plan\n", (int)seen.hits, (int)seen.runs);
    berth_release(w);
    berth_context_release(ctx);
    berth_runtime_release(runtime);
    return right == 20 ? 0 : 1;
}
