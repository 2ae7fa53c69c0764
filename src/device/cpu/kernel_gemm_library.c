// SPDX-License-Identifier: Apache-2.0
// Calls OpenBLAS, where the build found it (BERTH_OPENBLAS).
#include "device/cpu/kernel_gemm_library.h"

#if defined(BERTH_OPENBLAS)

#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "device/cpu/cpu_kernels.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char name[64];
static berth_cpu_isa library_isa;

/// The instruction set of the kernels behind OpenBLAS's name of a core.
static berth_cpu_isa isa_of_core(const char* core) {
    static const struct {
        const char* core;
        berth_cpu_isa isa;
    } cores[] = {
        {"SkylakeX", BERTH_CPU_ISA_AVX512},
        {"Cooperlake", BERTH_CPU_ISA_AVX512},
        {"SapphireRapids", BERTH_CPU_ISA_AVX512},
        {"Haswell", BERTH_CPU_ISA_AVX2},
        {"Zen", BERTH_CPU_ISA_AVX2},
    };
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++) {
        if (strcmp(core, cores[i].core) == 0) return cores[i].isa;
    }
    return BERTH_CPU_ISA_PORTABLE;
}

static void set_up(void) {
    if (openblas_get_parallel() != 0) openblas_set_num_threads(1);
    const char* core = openblas_get_corename();
    library_isa = isa_of_core(core);
    snprintf(name, sizeof name, "OpenBLAS %s", core);
}

int64_t berth_gemm_library_query_rows(void) {
    static const int64_t rows[] = {
        [BERTH_CPU_ISA_PORTABLE] = 16,
        [BERTH_CPU_ISA_AVX2] = 128,
        [BERTH_CPU_ISA_AVX512] = 384,
    };
    pthread_once(&once, set_up);
    const berth_cpu_isa isa = berth_cpu_query_isa();
    return library_isa >= isa ? rows[isa] : INT64_MAX;
}

const char* berth_gemm_library_name(void) {
    pthread_once(&once, set_up);
    return name;
}

void berth_gemm_library_multiply(int64_t m,
                                 int64_t n,
                                 int64_t k,
                                 const float* x,
                                 int64_t x_stride,
                                 const float* w,
                                 int64_t w_stride,
                                 float* y,
                                 int64_t y_stride) {
    cblas_sgemm(CblasRowMajor,
                CblasNoTrans,
                CblasTrans,
                (blasint)m,
                (blasint)n,
                (blasint)k,
                1.0f,
                x,
                (blasint)x_stride,
                w,
                (blasint)w_stride,
                1.0f,
                y,
                (blasint)y_stride);
}

#else

int64_t berth_gemm_library_query_rows(void) { return INT64_MAX; }

const char* berth_gemm_library_name(void) { return "none"; }

void berth_gemm_library_multiply(int64_t m,
                                 int64_t n,
                                 int64_t k,
                                 const float* x,
                                 int64_t x_stride,
                                 const float* w,
                                 int64_t w_stride,
                                 float* y,
                                 int64_t y_stride) {
    (void)m;
    (void)n;
    (void)k;
    (void)x;
    (void)x_stride;
    (void)w;
    (void)w_stride;
    (void)y;
    (void)y_stride;
}

#endif
