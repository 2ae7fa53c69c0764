// SPDX-License-Identifier: Apache-2.0
// The one place where a matrix library is called: f32 products with many rows, when results need
// not be batch-invariant.
//
// OpenBLAS was chosen by measurement (one thread of an AVX-512 machine, y = x w^T, weights not in
// cache, N x K from 192 x 576 to 8192 x 2048, medians in GFLOP/s): with 512 rows OpenBLAS 198 -
// 208, oneDNN 194 - 208, BLIS 34 - 36, the own kernels 176 - 194; with 64 rows OpenBLAS 134 - 143,
// oneDNN 103 - 144, BLIS 30 - 34, the own kernels 149 - 165. OpenBLAS and oneDNN are equals here;
// oneDNN would bring an OpenMP runtime with threads of its own into the process. What OpenBLAS
// chooses for the machine matters more than either: OPENBLAS_CORETYPE=Haswell halves it.
#ifndef BERTH_DEVICE_CPU_KERNEL_GEMM_LIBRARY_H
#define BERTH_DEVICE_CPU_KERNEL_GEMM_LIBRARY_H

#include "berth/op.h"

/// Rows of x from which on the library is faster than the own kernels for berth_cpu_query_isa();
/// INT64_MAX if it is not built in, or runs kernels of a lesser instruction set. The first call
/// turns the library's own threads off, for the whole process.
int64_t berth_gemm_library_query_rows(void);

/// The library's name and what it runs, as "OpenBLAS Cooperlake"; "none" without one.
const char* berth_gemm_library_name(void);

/// y = x w^T + y: x is [m, k], w [n, k], y [m, n], rows `_stride` floats apart. On the calling
/// thread alone; not if berth_gemm_library_query_rows() is INT64_MAX.
void berth_gemm_library_multiply(int64_t m,
                                 int64_t n,
                                 int64_t k,
                                 const float* x,
                                 int64_t x_stride,
                                 const float* w,
                                 int64_t w_stride,
                                 float* y,
                                 int64_t y_stride);

#endif // BERTH_DEVICE_CPU_KERNEL_GEMM_LIBRARY_H
