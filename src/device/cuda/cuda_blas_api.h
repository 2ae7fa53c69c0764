// SPDX-License-Identifier: Apache-2.0
// The part of cuBLASLt's binary interface that this back end calls, declared here so that the host
// code builds where there is no CUDA Toolkit. Where there is one, cuda_blas_api_check.cpp holds
// every type and number here against <cublasLt.h>.
#ifndef BERTH_DEVICE_CUDA_BLAS_API_H
#define BERTH_DEVICE_CUDA_BLAS_API_H

#include <stddef.h>
#include <stdint.h>

#include "device/cuda/cuda_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int blas_status;                                ///< cublasStatus_t; 0 is success
typedef struct cublasLtContext* blas_handle;            ///< cublasLtHandle_t
typedef struct blas_opaque_operation* blas_operation;   ///< cublasLtMatmulDesc_t
typedef struct blas_opaque_layout* blas_layout;         ///< cublasLtMatrixLayout_t
typedef struct blas_opaque_preference* blas_preference; ///< cublasLtMatmulPreference_t

enum {
    BLAS_TYPE_F32 = 0, ///< cudaDataType_t
    BLAS_TYPE_F16 = 2,
    BLAS_TYPE_BF16 = 14,
    BLAS_COMPUTE_F32 = 68,          ///< cublasComputeType_t: no shorter type inside
    BLAS_OPERATION_TRANSPOSE_A = 3, ///< cublasLtMatmulDescAttributes_t; i32: 1 to transpose
    BLAS_OPERATION_TRANSPOSE_B = 4,
    BLAS_OPERATION_EPILOGUE = 7,     ///< i32
    BLAS_OPERATION_BIAS = 8,         ///< address
    BLAS_OPERATION_BIAS_TYPE = 26,   ///< i32
    BLAS_EPILOGUE_BIAS = 4,          ///< cublasLtEpilogue_t
    BLAS_LAYOUT_BATCH_COUNT = 5,     ///< cublasLtMatrixLayoutAttribute_t; i32
    BLAS_LAYOUT_BATCH_STRIDE = 6,    ///< i64, elements
    BLAS_PREFERENCE_WORKSPACE = 1,   ///< cublasLtMatmulPreferenceAttributes_t; u64, bytes
    BLAS_PREFERENCE_ALIGNMENT_A = 5, ///< u32, bytes
    BLAS_PREFERENCE_ALIGNMENT_B = 6,
    BLAS_PREFERENCE_ALIGNMENT_C = 7,
    BLAS_PREFERENCE_ALIGNMENT_D = 8,
};

/// cublasLtMatmulAlgo_t
typedef struct blas_algorithm {
    uint64_t data[8];
} blas_algorithm;

/// cublasLtMatmulHeuristicResult_t
typedef struct blas_suggestion {
    blas_algorithm algorithm;
    size_t workspace_bytes;
    blas_status state;
    float waves;
    int reserved[4];
} blas_suggestion;

// clang-format off
/// Every function: X(field, exported symbol, parameters).
#define BLAS_FUNCTION_MAP(X)                                                                       \
    X(create, cublasLtCreate, (blas_handle * out_handle))                                          \
    X(destroy, cublasLtDestroy, (blas_handle handle))                                              \
    X(operation_create, cublasLtMatmulDescCreate,                                                  \
      (blas_operation * out_operation, int compute, int scale_type))                               \
    X(operation_destroy, cublasLtMatmulDescDestroy, (blas_operation operation))                    \
    X(operation_set, cublasLtMatmulDescSetAttribute,                                               \
      (blas_operation operation, int attribute, const void* value, size_t size))                   \
    X(layout_create, cublasLtMatrixLayoutCreate,                                                   \
      (blas_layout * out_layout, int type, uint64_t rows, uint64_t columns, int64_t stride))       \
    X(layout_destroy, cublasLtMatrixLayoutDestroy, (blas_layout layout))                           \
    X(layout_set, cublasLtMatrixLayoutSetAttribute,                                                \
      (blas_layout layout, int attribute, const void* value, size_t size))                         \
    X(preference_create, cublasLtMatmulPreferenceCreate, (blas_preference * out_preference))       \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy, (blas_preference preference))           \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                        \
      (blas_preference preference, int attribute, const void* value, size_t size))                 \
    X(suggest, cublasLtMatmulAlgoGetHeuristic,                                                     \
      (blas_handle handle, blas_operation operation, blas_layout a, blas_layout b, blas_layout c,  \
       blas_layout d, blas_preference preference, int most, blas_suggestion* out_suggestions,      \
       int* out_count))                                                                            \
    X(multiply, cublasLtMatmul,                                                                    \
      (blas_handle handle, blas_operation operation, const void* alpha, const void* a_data,        \
       blas_layout a, const void* b_data, blas_layout b, const void* beta, const void* c_data,     \
       blas_layout c, void* d_data, blas_layout d, const blas_algorithm* algorithm,                \
       void* workspace, size_t workspace_bytes, cu_stream stream))
// clang-format on

#ifdef __cplusplus
}
#endif

#endif // BERTH_DEVICE_CUDA_BLAS_API_H
