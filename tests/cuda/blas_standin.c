// SPDX-License-Identifier: Apache-2.0
// A library in cuBLASLt's place: products of f32 on memory of the host, column-major, as strict as
// the real one is about strides, alignment and workspace.
#include "cuda/blas_standin.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda_blas_api.h"

#define EXPORT __attribute__((visibility("default")))

enum { FAILED = 7 };

struct cublasLtContext {
    int unused;
};

struct blas_opaque_operation {
    int32_t is_transposed[2];
    int32_t epilogue;
    int32_t bias_type;
    const float* bias;
};

struct blas_opaque_layout {
    int32_t type;
    int32_t batches;
    int64_t rows, columns, stride, batch;
};

struct blas_opaque_preference {
    uint64_t workspace_bytes;
    uint32_t alignment[4];
};

static blas_standin_state state;

EXPORT blas_standin_state* blas_standin_query(void);
blas_standin_state* blas_standin_query(void) { return &state; }

#define DECLARE(field, symbol, parameters) EXPORT blas_status symbol parameters;
BLAS_FUNCTION_MAP(DECLARE)

static bool is_to_fail(void) { return ++state.calls == state.failing; }

static blas_status make(void* out_object, size_t size) {
    void* const made = is_to_fail() ? NULL : calloc(1, size);
    if (made == NULL) return FAILED;
    memcpy(out_object, &made, sizeof made);
    state.objects += 1;
    return 0;
}

static blas_status give_back(void* object) {
    if (object == NULL) return FAILED;
    state.objects -= 1;
    free(object);
    return 0;
}

/// Takes an attribute's value into a field of `wanted` bytes.
static blas_status set(void* field, size_t wanted, const void* value, size_t size) {
    if (is_to_fail() || size != wanted) return FAILED;
    memcpy(field, value, size);
    return 0;
}

blas_status cublasLtCreate(blas_handle* out_handle) { return make(out_handle, sizeof(int)); }
blas_status cublasLtDestroy(blas_handle handle) { return give_back(handle); }

blas_status cublasLtMatmulDescCreate(blas_operation* out_operation, int compute, int scale_type) {
    if (compute != BLAS_COMPUTE_F32 || scale_type != BLAS_TYPE_F32) return FAILED;
    return make(out_operation, sizeof **out_operation);
}

blas_status cublasLtMatmulDescDestroy(blas_operation operation) { return give_back(operation); }

blas_status cublasLtMatmulDescSetAttribute(blas_operation operation,
                                           int attribute,
                                           const void* value,
                                           size_t size) {
    switch (attribute) {
    case BLAS_OPERATION_TRANSPOSE_A:
        return set(&operation->is_transposed[0], sizeof(int32_t), value, size);
    case BLAS_OPERATION_TRANSPOSE_B:
        return set(&operation->is_transposed[1], sizeof(int32_t), value, size);
    case BLAS_OPERATION_EPILOGUE:
        return set(&operation->epilogue, sizeof(int32_t), value, size);
    case BLAS_OPERATION_BIAS_TYPE:
        return set(&operation->bias_type, sizeof(int32_t), value, size);
    case BLAS_OPERATION_BIAS:
        return set(&operation->bias, sizeof operation->bias, value, size);
    default:
        return FAILED;
    }
}

blas_status cublasLtMatrixLayoutCreate(
    blas_layout* out_layout, int type, uint64_t rows, uint64_t columns, int64_t stride) {
    if (stride < (int64_t)rows || rows == 0 || columns == 0) return FAILED;
    const blas_status status = make(out_layout, sizeof **out_layout);
    if (status != 0) return status;
    **out_layout = (struct blas_opaque_layout){
        .type = type,
        .batches = 1,
        .rows = (int64_t)rows,
        .columns = (int64_t)columns,
        .stride = stride,
    };
    return 0;
}

blas_status cublasLtMatrixLayoutDestroy(blas_layout layout) { return give_back(layout); }

blas_status cublasLtMatrixLayoutSetAttribute(blas_layout layout,
                                             int attribute,
                                             const void* value,
                                             size_t size) {
    if (attribute == BLAS_LAYOUT_BATCH_COUNT)
        return set(&layout->batches, sizeof layout->batches, value, size);
    if (attribute == BLAS_LAYOUT_BATCH_STRIDE)
        return set(&layout->batch, sizeof layout->batch, value, size);
    return FAILED;
}

blas_status cublasLtMatmulPreferenceCreate(blas_preference* out_preference) {
    return make(out_preference, sizeof **out_preference);
}

blas_status cublasLtMatmulPreferenceDestroy(blas_preference preference) {
    return give_back(preference);
}

blas_status cublasLtMatmulPreferenceSetAttribute(blas_preference preference,
                                                 int attribute,
                                                 const void* value,
                                                 size_t size) {
    if (attribute == BLAS_PREFERENCE_WORKSPACE)
        return set(&preference->workspace_bytes, sizeof(uint64_t), value, size);
    if (attribute < BLAS_PREFERENCE_ALIGNMENT_A || attribute > BLAS_PREFERENCE_ALIGNMENT_D)
        return FAILED;
    uint32_t* const alignment = &preference->alignment[attribute - BLAS_PREFERENCE_ALIGNMENT_A];
    return set(alignment, sizeof *alignment, value, size);
}

/// The algorithm's words: what the product may count on.
blas_status cublasLtMatmulAlgoGetHeuristic(blas_handle handle,
                                           blas_operation operation,
                                           blas_layout a,
                                           blas_layout b,
                                           blas_layout c,
                                           blas_layout d,
                                           blas_preference preference,
                                           int most,
                                           blas_suggestion* out_suggestions,
                                           int* out_count) {
    (void)operation;
    *out_count = 0;
    state.suggestions += 1;
    if (is_to_fail() || handle == NULL || most < 1 || c != d) return FAILED;
    if (a->type != BLAS_TYPE_F32 || b->type != a->type || d->type != a->type) return 0;
    *out_suggestions = (blas_suggestion){.workspace_bytes = preference->workspace_bytes};
    out_suggestions->algorithm.data[0] = preference->workspace_bytes;
    for (int i = 0; i < 4; ++i)
        out_suggestions->algorithm.data[1 + i] = preference->alignment[i];
    *out_count = 1;
    return 0;
}

static float at(const float* data,
                const struct blas_opaque_layout* x,
                bool is_transposed,
                int64_t row,
                int64_t column) {
    return is_transposed ? data[row * x->stride + column] : data[column * x->stride + row];
}

static bool is_aligned(const void* data, uint64_t bytes) {
    return bytes >= sizeof(float) && (uintptr_t)data % bytes == 0;
}

blas_status cublasLtMatmul(blas_handle handle,
                           blas_operation operation,
                           const void* alpha,
                           const void* a_data,
                           blas_layout a,
                           const void* b_data,
                           blas_layout b,
                           const void* beta,
                           const void* c_data,
                           blas_layout c,
                           void* d_data,
                           blas_layout d,
                           const blas_algorithm* algorithm,
                           void* workspace,
                           size_t workspace_bytes,
                           cu_stream stream) {
    const int32_t* turned = operation->is_transposed;
    const int64_t depth = turned[0] ? a->rows : a->columns;
    if (is_to_fail() || handle == NULL || stream == NULL || c_data != d_data || c != d)
        return FAILED;
    if (*(const float*)alpha != 1.0f || *(const float*)beta != 0.0f) return FAILED;
    if (d->rows != (turned[0] ? a->columns : a->rows) || a->batches != d->batches ||
        d->columns != (turned[1] ? b->rows : b->columns) || b->batches != d->batches ||
        depth != (turned[1] ? b->columns : b->rows))
        return FAILED;
    if (workspace_bytes < algorithm->data[0]) return FAILED;
    if (workspace_bytes > 0) memset(workspace, 0x77, workspace_bytes);
    for (int64_t batch = 0; batch < d->batches; ++batch) {
        const float* of_a = (const float*)a_data + batch * a->batch;
        const float* of_b = (const float*)b_data + batch * b->batch;
        float* of_d = (float*)d_data + batch * d->batch;
        if (!is_aligned(of_a, algorithm->data[1]) || !is_aligned(of_b, algorithm->data[2]) ||
            !is_aligned(of_d, algorithm->data[4]))
            return FAILED;
        for (int64_t row = 0; row < d->rows; ++row) {
            for (int64_t column = 0; column < d->columns; ++column) {
                double sum =
                    operation->epilogue == BLAS_EPILOGUE_BIAS ? (double)operation->bias[row] : 0;
                for (int64_t k = 0; k < depth; ++k)
                    sum += (double)at(of_a, a, turned[0] != 0, row, k) *
                           (double)at(of_b, b, turned[1] != 0, k, column);
                of_d[column * d->stride + row] = (float)sum;
            }
        }
    }
    state.products += 1;
    return 0;
}
