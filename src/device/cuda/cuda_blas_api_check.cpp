// SPDX-License-Identifier: Apache-2.0
// Holds cuda_blas_api.h against the toolkit's <cublasLt.h>; compiled into the module only where
// there is one.
#include "device/cuda/cuda_blas_api.h"

#if __has_include(<cublasLt.h>)

#include <cublasLt.h>

#define SAME(ours, theirs) static_assert((long long)(ours) == (long long)(theirs), #ours)
#define SAME_SIZE(ours, theirs)                                                                    \
    static_assert(sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs), #ours)
#define SAME_PLACE(ours, our_field, theirs, their_field)                                           \
    static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field), #our_field)

SAME(0, CUBLAS_STATUS_SUCCESS);
SAME(BLAS_TYPE_F32, CUDA_R_32F);
SAME(BLAS_TYPE_F16, CUDA_R_16F);
SAME(BLAS_TYPE_BF16, CUDA_R_16BF);
SAME(BLAS_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(1, CUBLAS_OP_T);
SAME(BLAS_OPERATION_TRANSPOSE_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(BLAS_OPERATION_TRANSPOSE_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(BLAS_OPERATION_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(BLAS_OPERATION_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(BLAS_OPERATION_BIAS_TYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME(BLAS_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(BLAS_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(BLAS_LAYOUT_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(BLAS_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(BLAS_PREFERENCE_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(BLAS_PREFERENCE_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(BLAS_PREFERENCE_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(BLAS_PREFERENCE_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

SAME_SIZE(int, cublasOperation_t);
SAME_SIZE(int, cublasLtEpilogue_t);
SAME_SIZE(int, cudaDataType_t);
SAME_SIZE(blas_status, cublasStatus_t);
SAME_SIZE(blas_algorithm, cublasLtMatmulAlgo_t);
SAME_SIZE(blas_suggestion, cublasLtMatmulHeuristicResult_t);
SAME_PLACE(blas_suggestion, workspace_bytes, cublasLtMatmulHeuristicResult_t, workspaceSize);
SAME_PLACE(blas_suggestion, state, cublasLtMatmulHeuristicResult_t, state);
SAME_PLACE(blas_suggestion, waves, cublasLtMatmulHeuristicResult_t, wavesCount);

// Each function has as many parameters of the same sizes; pointers and enums may have other names.

template <class Ours, class Theirs> struct same_call { static constexpr bool value = false; };
template <class... Ours, class... Theirs>
struct same_call<blas_status (*)(Ours...), cublasStatus_t (*)(Theirs...)> {
    template <class...> struct list {};
    static constexpr bool same(list<>, list<>) { return true; }
    template <class... Rest> static constexpr bool same(list<>, list<Rest...>) { return false; }
    template <class... Rest> static constexpr bool same(list<Rest...>, list<>) { return false; }
    template <class A, class... As, class B, class... Bs>
    static constexpr bool same(list<A, As...>, list<B, Bs...>) {
        return sizeof(A) == sizeof(B) && same(list<As...>(), list<Bs...>());
    }
    static constexpr bool value = same(list<Ours...>(), list<Theirs...>());
};

#define SAME_CALL(field, symbol, parameters)                                                       \
    static_assert(same_call<blas_status(*) parameters, decltype(&symbol)>::value, #symbol);
BLAS_FUNCTION_MAP(SAME_CALL)

#endif
