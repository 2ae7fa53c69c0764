// SPDX-License-Identifier: Apache-2.0
// Linear layers with Berth's own kernels (results that do not depend on the number of rows), with
// the matrix library behind Berth, and with the library alone.
#include <dlfcn.h>
#include <string.h>

#include "gpu/gpu_bench.h"
#include "kit/median.h"

enum { ROUNDS = 7, LEAST_CALLS = 2 };
#define BATCH_NS 3e6
#define LEAST_SHARE 0.95

static const char part[] = "products";

// --- cuBLAS alone --------------------------------------------------------------------------------

typedef struct blas {
    int (*create)(void** out_handle);
    int (*destroy)(void* handle);
    int (*set_stream)(void* handle, cu_stream stream);
    int (*gemm)(void* handle,
                int turn_a,
                int turn_b,
                int m,
                int n,
                int k,
                const void* alpha,
                const void* a,
                int a_type,
                int a_stride,
                const void* b,
                int b_type,
                int b_stride,
                const void* beta,
                void* c,
                int c_type,
                int c_stride,
                int compute,
                int algorithm);
    void* handle;
} blas;

enum { BLAS_PLAIN = 0, BLAS_TURNED = 1, BLAS_COMPUTE_F32 = 68, BLAS_ANY_ALGORITHM = -1 };

static int blas_type(berth_dtype dtype) {
    return dtype == BERTH_F32 ? 0 : dtype == BERTH_F16 ? 2 : 14; // cudaDataType
}

static bool look_up(void* library, const char* symbol, void* out_function) {
    void* const found = dlsym(library, symbol);
    memcpy(out_function, &found, sizeof found);
    return found != NULL;
}

static bool open_blas(blas* self, const gpu_driver* driver) {
    static const char* const libraries[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    void* library = NULL;
    for (size_t i = 0; library == NULL && i < sizeof libraries / sizeof *libraries; ++i)
        library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    *self = (blas){0};
    return library != NULL && look_up(library, "cublasCreate_v2", &self->create) &&
           look_up(library, "cublasDestroy_v2", &self->destroy) &&
           look_up(library, "cublasSetStream_v2", &self->set_stream) &&
           look_up(library, "cublasGemmEx", &self->gemm) && self->create(&self->handle) == 0 &&
           self->set_stream(self->handle, driver->stream) == 0;
}

// --- Three ways ----------------------------------------------------------------------------------

/// y [rows, out] = x [rows, in] w [out, in]^T.
typedef struct layer {
    berth_context* ctx;
    berth_tensor* x;
    berth_tensor* w;
    berth_tensor* y; ///< where the library alone writes
    int64_t rows, in, out;
    berth_dtype dtype;
} layer;

static unsigned char* data_of(const berth_tensor* x) { return x->storage->data + x->offset_bytes; }

static void multiply(layer* l) {
    berth_tensor* y = berth_linear(l->ctx, l->x, l->w, NULL);
    if (y == NULL) gpu_fail(l->ctx, "linear");
    berth_release(y);
}

/// The library's matrices are column-major: y^T = w^T' x^T.
static void multiply_alone(const layer* l, const blas* library) {
    const float one = 1, zero = 0;
    const int type = blas_type(l->dtype);
    const int status = library->gemm(library->handle,
                                     BLAS_TURNED,
                                     BLAS_PLAIN,
                                     (int)l->out,
                                     (int)l->rows,
                                     (int)l->in,
                                     &one,
                                     data_of(l->w),
                                     type,
                                     (int)l->in,
                                     data_of(l->x),
                                     type,
                                     (int)l->in,
                                     &zero,
                                     data_of(l->y),
                                     type,
                                     (int)l->out,
                                     BLAS_COMPUTE_F32,
                                     BLAS_ANY_ALGORITHM);
    if (status != 0) bench_fail_for("cuBLAS", "a product was refused");
}

/// Nanoseconds of a product.
static double time_layer(layer* l, const blas* alone, const gpu_driver* driver, int calls) {
    gpu_wait(l->ctx);
    const double start = gpu_now_ns();
    for (int i = 0; i < calls; ++i) {
        if (alone != NULL)
            multiply_alone(l, alone);
        else
            multiply(l);
    }
    if (alone != NULL)
        (void)driver->stream_synchronize(driver->stream);
    else
        gpu_wait(l->ctx);
    return (gpu_now_ns() - start) / calls;
}

static void open_layer(layer* l,
                       const layer* shape,
                       const char* invariant,
                       berth_runtime** runtime) {
    *l = *shape;
    const berth_option_setting settings[] = {{"batch_invariant", invariant}, {"keep", "all"}};
    gpu_open_runtime(settings, 2, runtime, &l->ctx);
    l->x = berth_rand(l->ctx, 1, -1, 1, l->dtype, 2, (int64_t[]){l->rows, l->in});
    l->w = berth_rand(l->ctx, 2, -1, 1, l->dtype, 2, (int64_t[]){l->out, l->in});
    l->y = berth_empty(l->ctx, l->dtype, 2, (int64_t[]){l->rows, l->out});
    if (l->y == NULL) gpu_fail(l->ctx, "operands");
}

static void close_layer(layer* l, berth_runtime* runtime) {
    berth_release_all(l->x, l->w, l->y);
    gpu_close_runtime(runtime, l->ctx);
}

static void report(gpu_bench* b, const layer* l, const char* way, double ns) {
    char name[80];
    (void)snprintf(name,
                   sizeof name,
                   "%s, %s [%d, %d] by [%d, %d]",
                   way,
                   berth_dtype_query_info(l->dtype)->name,
                   (int)l->rows,
                   (int)l->in,
                   (int)l->in,
                   (int)l->out);
    gpu_report(
        b, part, name, "TFLOP/s", 2e-3 * (double)l->rows * (double)l->in * (double)l->out / ns);
}

enum { OWN, LIBRARY, ALONE, WAYS };

static void run_shape(gpu_bench* b, const layer* shape, const blas* alone) {
    static const char* const ways[WAYS] = {"own kernels", "by cuBLAS", "cuBLAS alone"};
    layer layers[2];
    berth_runtime* runtimes[2];
    open_layer(&layers[OWN], shape, "1", &runtimes[OWN]);
    open_layer(&layers[LIBRARY], shape, "0", &runtimes[LIBRARY]);
    double ns[WAYS][ROUNDS];
    const int rounds = b->is_quick ? 1 : ROUNDS;
    // without a library the second way is the first again: only a quick run, for tests, goes it
    const int count = alone != NULL ? WAYS : b->is_quick ? ALONE : LIBRARY;
    for (int round = -1; round < rounds; ++round)
        for (int way = 0; way < count; ++way) {
            const blas* with = way == ALONE ? alone : NULL;
            layer* l = &layers[way == OWN ? OWN : LIBRARY];
            const double once = time_layer(l, with, &b->driver, 1);
            const int calls = b->is_quick ? 1 : LEAST_CALLS + (int)(BATCH_NS / (once + 1));
            if (round >= 0) ns[way][round] = time_layer(l, with, &b->driver, calls);
        }
    double medians[WAYS] = {0};
    for (int way = 0; way < count; ++way) {
        medians[way] = bench_median(ns[way], rounds);
        report(b, shape, ways[way], medians[way]);
    }
    if (alone != NULL)
        gpu_report_at_least(b,
                            part,
                            "by cuBLAS, as a share of cuBLAS alone",
                            "",
                            medians[ALONE] / medians[LIBRARY],
                            LEAST_SHARE);
    for (int i = 0; i < 2; ++i)
        close_layer(&layers[i], runtimes[i]);
}

void gpu_run_products(gpu_bench* b) {
    static const layer shapes[] = {{.rows = 4096, .in = 4096, .out = 4096, .dtype = BERTH_F16},
                                   {.rows = 4096, .in = 4096, .out = 4096, .dtype = BERTH_BF16},
                                   {.rows = 2048, .in = 2048, .out = 2048, .dtype = BERTH_F32},
                                   {.rows = 64, .in = 4096, .out = 4096, .dtype = BERTH_F16},
                                   {.rows = 1, .in = 4096, .out = 4096, .dtype = BERTH_F16}};
    static const layer quick = {.rows = 8, .in = 32, .out = 16, .dtype = BERTH_F16};
    blas alone;
    const bool has_blas = open_blas(&alone, &b->driver);
    if (!has_blas) gpu_report_missing(b, part, "cuBLAS alone", "libcublas is not found");
    if (b->is_quick) {
        run_shape(b, &quick, NULL);
    } else {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
            run_shape(b, &shapes[i], has_blas ? &alone : NULL);
    }
    if (has_blas) (void)alone.destroy(alone.handle);
}
