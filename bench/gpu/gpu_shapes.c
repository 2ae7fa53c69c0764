// SPDX-License-Identifier: Apache-2.0
// The steps of bench-shapes with their kernels on the GPU: how much memory is reserved when a step
// begins. torch_peer.py runs the same steps in PyTorch.
#include <math.h>
#include <string.h>

#include "gpu/gpu_bench.h"
#include "gpu/gpu_lengths.h"

#include "shapes/workload.h"

enum { STEPS = 240, WARM = 40, QUICK_STEPS = 2, QUICK_SHARE = 1024, LENGTHS = 2000 };

static const char part[] = "shapes";

typedef struct sums {
    double reserved, live, peak_live, seconds;
    int count;
} sums;

static void run_step(berth_context* ctx, shapes_program* program, shapes_shape shape, sums* out) {
    int64_t dims[2];
    berth_step_input input;
    const berth_step_desc desc = shapes_describe(shape, dims, &input);
    const double start = gpu_now_ns();
    if (berth_step_begin(ctx, &desc) != BERTH_OK) bench_fail("begin");
    berth_memory_stats memory;
    if (berth_runtime_query_memory(ctx->runtime, &memory) != BERTH_OK) bench_fail("memory");
    berth_tensor* states = shapes_program_run(program, shape);
    if (states == NULL) gpu_fail(ctx, "a step");
    const double live = (double)ctx->run->lower_bound_bytes;
    if (berth_step_end(ctx) != BERTH_OK) bench_fail("end");
    berth_release(states);
    gpu_wait(ctx);
    out->seconds += 1e-9 * (gpu_now_ns() - start);
    out->reserved += (double)(memory.mapped_bytes + memory.reserved_bytes);
    out->live += live;
    if (live > out->peak_live) out->peak_live = live;
    ++out->count;
}

static void run_mode(gpu_bench* b,
                     const char* keep,
                     const shapes_lengths* lengths,
                     const shapes_model* model) {
    berth_runtime* runtime;
    berth_context* ctx;
    gpu_open_runtime(&(berth_option_setting){"keep", keep}, 1, &runtime, &ctx);
    shapes_program* program = shapes_program_create(model, ctx);
    const int steps = b->is_quick ? QUICK_STEPS : STEPS;
    const int warm = b->is_quick ? 1 : WARM;
    sums all = {0}, learning = {0};
    for (int step = 0; step < steps; ++step) {
        shapes_shape shape = shapes_at(lengths, step);
        if (b->is_quick) shape.length = 1 + shape.length / QUICK_SHARE;
        run_step(ctx, program, shape, step < warm ? &learning : &all);
    }
    berth_memory_stats memory;
    if (berth_runtime_query_memory(runtime, &memory) != BERTH_OK) bench_fail("memory");
    const char* mode = strcmp(keep, "none") == 0 ? "trim" : "keep";
    const double mib = 1048576.0 * all.count;
    char name[64];
    (void)snprintf(name, sizeof name, "%s: mean reserved as a step begins", mode);
    gpu_report(b, part, name, "MiB", all.reserved / mib);
    (void)snprintf(name, sizeof name, "%s: mean of what lives at a step's peak", mode);
    gpu_report(b, part, name, "MiB", all.live / mib);
    (void)snprintf(name, sizeof name, "%s: reserved / live", mode);
    gpu_report(b, part, name, "", all.reserved / all.live);
    (void)snprintf(name, sizeof name, "%s: most ever mapped", mode);
    gpu_report(b, part, name, "MiB", (double)memory.peak_mapped_bytes / 1048576);
    (void)snprintf(name, sizeof name, "%s: a step", mode);
    gpu_report(b, part, name, "ms", 1e3 * all.seconds / all.count);
    shapes_program_destroy(program);
    gpu_close_runtime(runtime, ctx);
}

void gpu_run_shapes(gpu_bench* b) {
    if (b->lengths == NULL) {
        gpu_report_missing(b, part, "steps whose lengths vary", "no --lengths");
        return;
    }
    shapes_lengths lengths;
    shapes_lengths_read(b->lengths, &lengths);
    shapes_model* model = shapes_model_create();
    run_mode(b, "none", &lengths, model);
    if (!b->is_quick) run_mode(b, "all", &lengths, model);
    shapes_model_destroy(model);
    shapes_lengths_free(&lengths);
}

/// A number in [0, 1), from a sequence that is the same everywhere.
static double unit(uint64_t* state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

void gpu_write_lengths(const char* path) {
    FILE* file = fopen(path, "w");
    if (file == NULL) bench_fail_for(path, "cannot be written");
    (void)fprintf(file, "TIMESTAMP,ContextTokens\n");
    uint64_t random = 20261202;
    for (int i = 0; i < LENGTHS; ++i) {
        // about the spread of chat prompts: half of them below 900 tokens, a tenth beyond 3000
        const double u = unit(&random), v = unit(&random);
        const double normal = sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
        const double length = 900 * exp(0.95 * normal);
        (void)fprintf(file, "%d,%d\n", i, length < 8 ? 8 : length > 8000 ? 8000 : (int)length);
    }
    if (fclose(file) != 0) bench_fail_for(path, "cannot be written");
}
