// SPDX-License-Identifier: Apache-2.0
// What an allocation and its release cost the host: of the driver, of Berth's pool, and of a
// replayed step, whose chain of ops is run with a new result for each op and in place: the
// difference is the placing, whatever the launches cost.
#include <string.h>

#include "dispatch/chain.h"
#include "gpu/gpu_bench.h"
#include "kit/median.h"

enum { PAIRS = 64, ROUNDS = 21, OPS = 100, LEARNING_STEPS = 8 };
enum { POOL_KEEPS = 4 }; ///< CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

static const char part[] = "allocation";

static int rounds_of(const gpu_bench* b) { return b->is_quick ? 3 : ROUNDS; }

// --- The driver ----------------------------------------------------------------------------------

/// Nanoseconds of an allocation and its release; < 0 if the driver refuses.
static double time_plain(const gpu_driver* d, size_t bytes) {
    const double start = gpu_now_ns();
    for (int i = 0; i < PAIRS; ++i) {
        cu_address address;
        if (d->mem_alloc(&address, bytes) != CU_SUCCESS || d->mem_free(address) != CU_SUCCESS)
            return -1;
    }
    return (gpu_now_ns() - start) / PAIRS;
}

/// The same in the order of a stream, which is waited for after each PAIRS: then a pool that keeps
/// nothing gives its memory back.
static double time_in_stream(const gpu_driver* d, size_t bytes) {
    const double start = gpu_now_ns();
    for (int i = 0; i < PAIRS; ++i) {
        cu_address address;
        if (d->mem_alloc_async(&address, bytes, d->stream) != CU_SUCCESS ||
            d->mem_free_async(address, d->stream) != CU_SUCCESS)
            return -1;
    }
    if (d->stream_synchronize(d->stream) != CU_SUCCESS) return -1;
    return (gpu_now_ns() - start) / PAIRS;
}

static void report_driver(gpu_bench* b,
                          const char* what,
                          double (*time)(const gpu_driver* d, size_t bytes),
                          size_t bytes) {
    double ns[ROUNDS];
    char name[64];
    (void)snprintf(name, sizeof name, "%s, %zu KiB", what, bytes >> 10);
    (void)time(&b->driver, bytes);
    for (int round = 0; round < rounds_of(b); ++round) {
        ns[round] = time(&b->driver, bytes);
        if (ns[round] < 0) {
            gpu_report_missing(b, part, name, "the driver refuses");
            return;
        }
    }
    gpu_report(b, part, name, "ns", bench_median(ns, rounds_of(b)));
}

static bool set_pool_to_keep(const gpu_driver* d, uint64_t bytes) {
    void* pool;
    return d->get_mem_pool != NULL && d->pool_set_attribute != NULL &&
           d->get_mem_pool(&pool, d->device) == CU_SUCCESS &&
           d->pool_set_attribute(pool, POOL_KEEPS, &bytes) == CU_SUCCESS;
}

static void run_driver(gpu_bench* b, size_t bytes) {
    const gpu_driver* d = &b->driver;
    if (d->mem_alloc != NULL && d->mem_free != NULL)
        report_driver(b, "cuMemAlloc, cuMemFree", time_plain, bytes);
    else
        gpu_report_missing(b, part, "cuMemAlloc, cuMemFree", "the driver has none");
    if (d->mem_alloc_async == NULL || d->mem_free_async == NULL || !set_pool_to_keep(d, 0)) {
        gpu_report_missing(b, part, "cuMemAllocAsync, cuMemFreeAsync", "the driver has none");
        return;
    }
    report_driver(b, "cuMemAllocAsync, as it comes", time_in_stream, bytes);
    if (set_pool_to_keep(d, UINT64_MAX))
        report_driver(b, "cuMemAllocAsync, memory kept", time_in_stream, bytes);
    (void)set_pool_to_keep(d, 0);
}

// --- Berth's pool --------------------------------------------------------------------------------

static void run_pool(gpu_bench* b, size_t bytes) {
    berth_runtime* runtime;
    berth_context* ctx;
    gpu_open_runtime(&(berth_option_setting){"mode", "pool"}, 1, &runtime, &ctx);
    const int64_t dims[1] = {(int64_t)(bytes / 4)};
    double ns[ROUNDS + 1];
    for (int round = 0; round <= rounds_of(b); ++round) {
        const double start = gpu_now_ns();
        for (int i = 0; i < PAIRS; ++i)
            berth_release(berth_empty(ctx, BERTH_F32, 1, dims));
        ns[round] = (gpu_now_ns() - start) / PAIRS;
    }
    char name[64];
    (void)snprintf(name, sizeof name, "Berth's pool, %zu KiB", bytes >> 10);
    if (berth_context_error(ctx) == BERTH_OK)
        gpu_report(b, part, name, "ns", bench_median(ns + 1, rounds_of(b)));
    else
        gpu_report_missing(b, part, name, berth_status_name(berth_context_error(ctx)));
    gpu_close_runtime(runtime, ctx);
}

// --- Replayed steps ------------------------------------------------------------------------------

typedef berth_tensor* (*chain)(berth_context* ctx, berth_tensor* x, int64_t ops);

static berth_tensor* launched_fresh(berth_context* ctx, berth_tensor* x, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) {
        berth_tensor* y = berth_affine(ctx, x, 1.0f, 0.0f);
        berth_release(x);
        x = y;
    }
    return x;
}

static berth_tensor* launched_in_place(berth_context* ctx, berth_tensor* x, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i)
        x = berth_affine(ctx, berth_move(x), 1.0f, 0.0f);
    return x;
}

/// Nanoseconds of an op of the chain in a step of its own, the GPU being idle before.
static double time_chain(berth_context* ctx, const char* name, chain run, size_t bytes) {
    const berth_step_desc desc = {.name = name};
    const int64_t dims[1] = {(int64_t)(bytes / 4)};
    if (berth_step_begin(ctx, &desc) != BERTH_OK) bench_fail("begin");
    berth_tensor* x = berth_full(ctx, 1, BERTH_F32, 1, dims);
    gpu_wait(ctx);
    const double start = gpu_now_ns();
    x = run(ctx, x, OPS);
    const double end = gpu_now_ns();
    if (x == NULL) gpu_fail(ctx, name);
    berth_release(x);
    if (berth_step_end(ctx) != BERTH_OK) bench_fail("end");
    gpu_wait(ctx);
    return (end - start) / OPS;
}

static void run_step(gpu_bench* b, const char* what, chain fresh, chain in_place, bool is_goal) {
    berth_runtime* runtime;
    berth_context* ctx;
    const size_t bytes = b->is_quick ? 4096 : 65536;
    gpu_open_runtime(&(berth_option_setting){"mode", "auto"}, 1, &runtime, &ctx);
    double placing[ROUNDS], whole[ROUNDS];
    for (int round = -LEARNING_STEPS; round < rounds_of(b); ++round) {
        const double new_ns = time_chain(ctx, "fresh", fresh, bytes);
        const double same_ns = time_chain(ctx, "in place", in_place, bytes);
        if (round < 0) continue;
        placing[round] = new_ns - same_ns;
        whole[round] = new_ns;
    }
    const char* name;
    berth_step_counters counters;
    if (berth_runtime_query_step(runtime, 0, &name, &counters) != BERTH_OK ||
        counters.hits < (uint64_t)rounds_of(b))
        bench_fail_for(what, "the step was not replayed");
    char row[80];
    (void)snprintf(row, sizeof row, "planned, %s", what);
    const double ns = bench_median(placing, rounds_of(b));
    if (is_goal)
        gpu_report_at_most(b, part, row, "ns", ns, 20);
    else
        gpu_report(b, part, row, "ns", ns);
    (void)snprintf(row, sizeof row, "an op of that step in all, %s", what);
    gpu_report(b, part, row, "ns", bench_median(whole, rounds_of(b)));
    gpu_close_runtime(runtime, ctx);
}

void gpu_run_allocation(gpu_bench* b) {
    static const size_t sizes[] = {64 << 10, 1 << 20, 16 << 20, 256 << 20};
    for (size_t i = 0; i < (b->is_quick ? 1 : sizeof sizes / sizeof *sizes); ++i) {
        run_driver(b, sizes[i]);
        run_pool(b, sizes[i]);
    }
    run_step(b, "ops without kernels", bench_chain_fresh, bench_chain_in_place, true);
    run_step(b, "a kernel for each op", launched_fresh, launched_in_place, false);
}
