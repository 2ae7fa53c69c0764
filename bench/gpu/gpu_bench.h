// SPDX-License-Identifier: Apache-2.0
// What the parts of bench-gpu share: the driver beside Berth, and the report.
#ifndef BERTH_BENCH_GPU_BENCH_H
#define BERTH_BENCH_GPU_BENCH_H

#include "base/clock.h"
#include "device/cuda/cuda_api.h"
#include "exec/exec_impl.h"
#include "kit/json_rows.h"

// clang-format off
/// What the benchmark itself asks of the driver: X(field, exported symbol, parameters).
#define GPU_DRIVER_MAP(X)                                                                          \
    X(init, cuInit, (unsigned flags))                                                              \
    X(device_get, cuDeviceGet, (cu_device* out_device, int ordinal))                               \
    X(device_get_name, cuDeviceGetName, (char* name, int size, cu_device device))                  \
    X(driver_get_version, cuDriverGetVersion, (int* out_version))                                  \
    X(primary_ctx_retain, cuDevicePrimaryCtxRetain, (cu_context* out_context, cu_device device))   \
    X(ctx_push, cuCtxPushCurrent_v2, (cu_context context))                                         \
    X(stream_create, cuStreamCreate, (cu_stream* out_stream, unsigned flags))                      \
    X(stream_synchronize, cuStreamSynchronize, (cu_stream stream))                                 \
    X(mem_alloc, cuMemAlloc_v2, (cu_address* out_address, size_t bytes))                           \
    X(mem_free, cuMemFree_v2, (cu_address address))                                                \
    X(mem_alloc_async, cuMemAllocAsync, (cu_address* out_address, size_t bytes, cu_stream stream)) \
    X(mem_free_async, cuMemFreeAsync, (cu_address address, cu_stream stream))                      \
    X(get_mem_pool, cuDeviceGetDefaultMemPool, (void** out_pool, cu_device device))                \
    X(pool_set_attribute, cuMemPoolSetAttribute, (void* pool, int attribute, void* value))
// clang-format on

/// The driver's functions; NULL where it has none of that name.
typedef struct gpu_driver {
#define GPU_DRIVER_FIELD(field, symbol, parameters) cu_result(*field) parameters;
    GPU_DRIVER_MAP(GPU_DRIVER_FIELD)
#undef GPU_DRIVER_FIELD
    cu_device device;
    cu_stream stream; ///< the benchmark's own
} gpu_driver;

typedef struct gpu_bench {
    bool is_quick; ///< tiny sizes, a round or two: whether it runs at all
    const char* lengths;
    json_rows json;
    gpu_driver driver;
    int missed; ///< goals
} gpu_bench;

/// Loads the driver that BERTH_CUDA_DRIVER names, and makes a device's context the thread's. Ends
/// the program with 77 and the reason if there is none.
void gpu_driver_open(gpu_driver* driver);

/// Writes a row: of a part, what was measured, and the number.
void gpu_report(gpu_bench* b, const char* part, const char* what, const char* unit, double value);
/// The same of a number that is wanted to be at most, or at least, `goal`.
void gpu_report_at_most(
    gpu_bench* b, const char* part, const char* what, const char* unit, double value, double goal);
void gpu_report_at_least(
    gpu_bench* b, const char* part, const char* what, const char* unit, double value, double goal);
/// A row of what cannot be measured here.
void gpu_report_missing(gpu_bench* b, const char* part, const char* what, const char* reason);

/// A runtime on the GPU with settings [count, at most 4] and a context of it; ends the program if
/// that fails.
void gpu_open_runtime(const berth_option_setting* settings,
                      size_t count,
                      berth_runtime** out_runtime,
                      berth_context** out_context);
void gpu_close_runtime(berth_runtime* runtime, berth_context* context);

/// Ends the program with the context's error.
_Noreturn void gpu_fail(const berth_context* context, const char* what);

/// Waits for all of the context's work.
void gpu_wait(berth_context* context);

static inline double gpu_now_ns(void) { return (double)berth_clock_now_ns(); }

// The parts.

void gpu_run_allocation(gpu_bench* b); ///< allocation and release, Berth's and the driver's
void gpu_run_calls(gpu_bench* b);      ///< what a replayed step asks of the driver
void gpu_run_shapes(gpu_bench* b);     ///< memory over steps whose lengths vary
void gpu_run_bandwidth(gpu_bench* b);  ///< ops that memory limits, beside a copy
void gpu_run_products(gpu_bench* b);   ///< matrix products, beside cuBLAS alone

#endif // BERTH_BENCH_GPU_BENCH_H
