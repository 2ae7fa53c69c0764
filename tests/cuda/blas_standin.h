// SPDX-License-Identifier: Apache-2.0
// What a library in cuBLASLt's place, on memory of the host, tells its tests.
#ifndef BERTH_TESTS_CUDA_BLAS_STANDIN_H
#define BERTH_TESTS_CUDA_BLAS_STANDIN_H

#include <stdint.h>

typedef struct blas_standin_state {
    int64_t objects;     ///< that live: handles, operations, layouts, preferences
    int64_t suggestions; ///< asked for
    int64_t products;    ///< computed
    int64_t calls;       ///< that may fail
    int64_t failing;     ///< the call that fails, counted from 1; 0: none
} blas_standin_state;

#define BLAS_STANDIN_SYMBOL "blas_standin_query"
typedef blas_standin_state* (*blas_standin_function)(void);

#endif // BERTH_TESTS_CUDA_BLAS_STANDIN_H
