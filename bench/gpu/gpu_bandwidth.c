// SPDX-License-Identifier: Apache-2.0
// Ops that memory limits, on tensors that no cache holds: the bytes that they must read and write
// over their time, as a share of what a copy on the device reaches right beside them.
#include <string.h>

#include "gpu/gpu_bench.h"
#include "kit/median.h"
#include "ops/op_cases.h"

enum { ROUNDS = 7, CALLS = 6 };
#define BYTES (INT64_C(256) << 20)
#define QUICK_BYTES (INT64_C(2) << 10)
#define LEAST_SHARE 0.85

static const char part[] = "bandwidth";

static const char* const names[] = {
    "add",
    "mul",
    "add:a row to rows",
    "eq",
    "silu",
    "gelu",
    "relu",
    "clamp",
    "where",
    "softmax",
    "log_softmax",
    "rms_norm",
    "layer_norm",
    "cast:to f32",
    "cast:to f16",
    "cast:to i64",
    "copy",
    "copy:turned",
    "copy:flipped",
    "embedding",
    "index_select",
    "sum",
    "sum:all",
    "sum:first dimension",
    "max",
    "max:first dimension",
    "argmax",
    "rope",
    "rope:halves",
    "cumsum",
    "cat",
    "pad",
    "roll",
    "repeat",
    "tril",
};

static const bench_case* find_case(const char* name) {
    for (size_t i = 0; i < bench_case_count; ++i)
        if (strcmp(bench_cases[i].op, name) == 0) return &bench_cases[i];
    bench_fail_for(name, "bench-ops has no such row");
}

/// The bytes that a call must move.
static double call_once(const bench_case* c, bench_data* data) {
    berth_tensor* results[3] = {NULL};
    results[0] = c->run(data, results + 1);
    if (results[0] == NULL) gpu_fail(data->ctx, c->op);
    const double bytes = bench_case_bytes(c, data, results);
    berth_release_all(results[0], results[1], results[2]);
    return bytes;
}

/// Bytes a nanosecond of `calls` calls.
static double time_calls(const bench_case* c, bench_data* data, int calls) {
    gpu_wait(data->ctx);
    double bytes = 0;
    const double start = gpu_now_ns();
    for (int i = 0; i < calls; ++i)
        bytes += call_once(c, data);
    gpu_wait(data->ctx);
    return bytes / (gpu_now_ns() - start);
}

/// The same of copies of x into `target`, by the device's own copy.
static double time_copies(bench_data* data, berth_tensor* target, int calls) {
    berth_stream* stream = data->ctx->home.stream;
    const uint64_t bytes = berth_tensor_bytes(data->x);
    gpu_wait(data->ctx);
    const double start = gpu_now_ns();
    for (int i = 0; i < calls; ++i)
        if (berth_stream_copy(stream,
                              target->storage->data + target->offset_bytes,
                              data->x->storage->data + data->x->offset_bytes,
                              bytes,
                              BERTH_COPY_DEVICE_TO_DEVICE) != BERTH_OK)
            bench_fail("a copy");
    gpu_wait(data->ctx);
    return 2.0 * (double)bytes * calls / (gpu_now_ns() - start);
}

static void run_case(
    gpu_bench* b, const bench_case* c, bench_data* data, berth_tensor* target, double* copy_rate) {
    const int rounds = b->is_quick ? 1 : ROUNDS;
    const int calls = b->is_quick ? 1 : CALLS;
    double shares[ROUNDS], rates[ROUNDS], copies[ROUNDS];
    (void)time_calls(c, data, 1);
    (void)time_copies(data, target, 1);
    for (int round = 0; round < rounds; ++round) {
        copies[round] = time_copies(data, target, calls);
        rates[round] = time_calls(c, data, calls);
        shares[round] = rates[round] / copies[round];
    }
    char name[80];
    const char* dtype = berth_dtype_query_info(data->dtype)->name;
    *copy_rate = bench_median(copies, rounds);
    (void)snprintf(
        name, sizeof name, "%s %s, %.0f GB/s", c->op, dtype, bench_median(rates, rounds));
    gpu_report_at_least(b, part, name, "of a copy", bench_median(shares, rounds), LEAST_SHARE);
}

static void run_dtype(gpu_bench* b, berth_dtype dtype) {
    berth_runtime* runtime;
    berth_context* ctx;
    gpu_open_runtime(&(berth_option_setting){"keep", "all"}, 1, &runtime, &ctx);
    bench_data data;
    if (!bench_data_make(&data, ctx, dtype, b->is_quick ? QUICK_BYTES : BYTES))
        gpu_fail(ctx, "operands");
    berth_tensor* target = berth_empty(ctx, dtype, 1, &data.count);
    if (target == NULL) gpu_fail(ctx, "operands");
    double copy_rate = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        const bench_case* c = find_case(names[i]);
        if ((c->dtypes >> dtype & 1u) != 0) run_case(b, c, &data, target, &copy_rate);
    }
    char name[64];
    (void)snprintf(
        name, sizeof name, "a copy on the device, %s", berth_dtype_query_info(dtype)->name);
    gpu_report(b, part, name, "GB/s", copy_rate);
    berth_release(target);
    bench_data_free(&data);
    gpu_close_runtime(runtime, ctx);
}

void gpu_run_bandwidth(gpu_bench* b) {
    run_dtype(b, BERTH_F32);
    if (b->is_quick) return;
    run_dtype(b, BERTH_F16);
    run_dtype(b, BERTH_BF16);
}
