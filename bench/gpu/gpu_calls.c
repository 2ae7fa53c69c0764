// SPDX-License-Identifier: Apache-2.0
// What a replayed step asks of the driver, counted by a library in the driver's place: nothing that
// has to do with memory.
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "gpu/counted/counted_driver.h"
#include "gpu/gpu_bench.h"

enum { LEARNING_STEPS = 24, STEPS = 8, LENGTH = 24, WIDTH = 32, MOST_FUNCTIONS = 96 };

static const char part[] = "calls";

/// The counting library in ../lib of this program's folder, or beside it; false if there is none.
static bool find_library(char* path, size_t size) {
    static const char* const places[] = {"../lib", ".", "../tests"};
    char self[PATH_MAX] = {0};
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return false;
    const char* folder = dirname(self);
    for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
        (void)snprintf(path, size, "%s/%s/libcuda_counted.so", folder, places[i]);
        if (access(path, R_OK) == 0) return true;
    }
    return false;
}

/// What the functions were called since `before`.
static double calls_of(const counted_function* all, const uint64_t* before, const char* prefix) {
    double calls = 0;
    for (size_t i = 0; all[i].symbol != NULL; ++i)
        if (strncmp(all[i].symbol, prefix, strlen(prefix)) == 0)
            calls += (double)(*all[i].calls - before[i]);
    return calls;
}

/// A layer of a few ops on [length, WIDTH].
static void run_step(berth_context* ctx, berth_tensor* weight, int64_t length) {
    const int64_t dims[2] = {length, WIDTH};
    const berth_step_input input = {.name = "x", .rank = 2, .dims = dims};
    const berth_step_desc desc = {.name = "layer", .inputs = &input, .input_count = 1};
    if (berth_step_begin(ctx, &desc) != BERTH_OK) bench_fail("begin");
    berth_tensor* x = berth_full(ctx, 0.5, BERTH_F32, 2, dims);
    berth_tensor* y = berth_linear(ctx, x, weight, NULL);
    y = berth_silu(ctx, berth_move(y));
    y = berth_add(ctx, berth_move(y), x);
    berth_tensor* turned = berth_transpose(ctx, y, 0, 1);
    berth_tensor* scores = berth_matmul(ctx, y, turned);
    scores = berth_softmax(ctx, berth_move(scores), -1);
    berth_tensor* z = berth_matmul(ctx, berth_move(scores), y);
    if (z == NULL) gpu_fail(ctx, "a step");
    berth_release_all(x, y, turned, z);
    if (berth_step_end(ctx) != BERTH_OK) bench_fail("end");
}

static void count(gpu_bench* b,
                  const counted_function* all,
                  berth_runtime* runtime,
                  berth_context* ctx,
                  berth_tensor* weight) {
    for (int step = 0; step < LEARNING_STEPS; ++step)
        run_step(ctx, weight, LENGTH - step % 3);
    gpu_wait(ctx);
    uint64_t before[MOST_FUNCTIONS];
    for (size_t i = 0; all[i].symbol != NULL; ++i)
        before[i] = *all[i].calls;
    const char* name;
    berth_step_counters start, end;
    if (berth_runtime_query_step(runtime, 0, &name, &start) != BERTH_OK) bench_fail("query");
    for (int step = 0; step < STEPS; ++step)
        run_step(ctx, weight, LENGTH - step % 3);
    if (berth_runtime_query_step(runtime, 0, &name, &end) != BERTH_OK) bench_fail("query");
    if (end.hits - start.hits != STEPS) bench_fail_for(part, "a step was not replayed as planned");
    const double memory = calls_of(all, before, "cuMem") - calls_of(all, before, "cuMemcpy");
    gpu_report_at_most(b, part, "memory calls in a replayed step", "calls", memory / STEPS, 0);
    gpu_report(b, part, "launches", "calls", calls_of(all, before, "cuLaunch") / STEPS);
    gpu_report(b, part, "copies", "calls", calls_of(all, before, "cuMemcpy") / STEPS);
    gpu_report(b, part, "events", "calls", calls_of(all, before, "cuEvent") / STEPS);
    gpu_report(b, part, "all", "calls", calls_of(all, before, "cu") / STEPS);
}

void gpu_run_calls(gpu_bench* b) {
    char path[PATH_MAX + 64];
    const char* real = getenv("BERTH_CUDA_DRIVER");
    if (!find_library(path, sizeof path)) {
        gpu_report_missing(b, part, "a replayed step's", "libcuda_counted.so is not there");
        return;
    }
    if (real != NULL && setenv("COUNTED_DRIVER_TARGET", real, 1) != 0) bench_fail("setenv");
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const counted_function* (*functions)(void) = NULL;
    if (library != NULL) {
        void* const found = dlsym(library, "counted_functions");
        memcpy(&functions, &found, sizeof found);
    }
    if (functions == NULL) bench_fail_for(path, "cannot be loaded");
    berth_runtime* runtime;
    berth_context* ctx;
    const berth_option_setting settings[] = {{"cuda_driver", path}, {"keep", "all"}};
    gpu_open_runtime(settings, 2, &runtime, &ctx);
    berth_tensor* weight = berth_rand(ctx, 1, -1, 1, BERTH_F32, 2, (int64_t[]){WIDTH, WIDTH});
    if (weight == NULL) gpu_fail(ctx, "operands");
    count(b, functions(), runtime, ctx, weight);
    berth_release(weight);
    gpu_close_runtime(runtime, ctx);
}
