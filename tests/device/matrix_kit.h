// SPDX-License-Identifier: Apache-2.0
// What the tests of matrix products share: teams, guarded workspace, random quantised weights.
#ifndef BERTH_TESTS_DEVICE_MATRIX_KIT_H
#define BERTH_TESTS_DEVICE_MATRIX_KIT_H

#include "base/host.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/kernel_convert.h"
#include "device/cpu/kernel_matrix.h"
#include "kernel_kit.h"

#define MATRIX_TEAMS 3 ///< teams of 1, 2 and 3 workers

static berth_team* matrix_teams[MATRIX_TEAMS];

static inline int matrix_setup(void** state) {
    (void)state;
    for (uint32_t i = 0; i < MATRIX_TEAMS; i++) {
        assert_int_equal(berth_team_create(berth_host_default(), i + 1, &matrix_teams[i]),
                         BERTH_OK);
    }
    return 0;
}

static inline int matrix_teardown(void** state) {
    (void)state;
    for (int i = 0; i < MATRIX_TEAMS; i++)
        berth_team_destroy(matrix_teams[i]);
    return 0;
}

/// Runs `op` with a workspace of exactly the size that its rule asks for, guarded and full of NaN.
static inline void matrix_run(berth_op_id op, berth_op_call* call) {
    call->scratch_bytes =
        op == BERTH_OP_LINEAR ? berth_cpu_linear_scratch(call) : berth_cpu_matmul_scratch(call);
    const size_t bytes = (size_t)call->scratch_bytes;
    unsigned char* memory = aligned_alloc(64, (bytes + 2 * KIT_GUARD + 63) / 64 * 64);
    assert_non_null(memory);
    memset(memory, 0xFF, bytes + 2 * KIT_GUARD);
    call->scratch = bytes == 0 ? NULL : memory + KIT_GUARD;
    berth_cpu_kernels()[op](call);
    for (size_t i = 0; i < KIT_GUARD; i++) {
        assert_int_equal(memory[i], 0xFF);
        assert_int_equal(memory[KIT_GUARD + bytes + i], 0xFF);
    }
    free(memory);
}

/// Offsets of the f16 values in a block; the second is -1 if there is one only.
static inline void matrix_scale_offsets(berth_dtype dtype, int* out_first, int* out_second) {
    *out_first = dtype == BERTH_Q6_K ? 208 : 0;
    const bool has_two =
        dtype == BERTH_Q4_1 || dtype == BERTH_Q5_1 || dtype == BERTH_Q4_K || dtype == BERTH_Q5_K;
    *out_second = has_two ? 2 : -1;
}

/// Weights [n, k] with `gap` blocks (elements of plain types) between rows.
static inline kit_tensor matrix_weights(berth_dtype dtype, int64_t n, int64_t k, int64_t gap) {
    const berth_dtype_info* info = berth_dtype_query_info(dtype);
    const int64_t row = k / info->block_values + gap;
    kit_tensor w = {
        .view = {.dtype = dtype, .rank = 2, .dims = {n, k}, .strides = {row, 1}},
    };
    kit_guard(&w, (size_t)(n * row) * info->block_bytes);
    w.view.data = w.memory + KIT_GUARD;
    if (info->kind == BERTH_DTYPE_KIND_F) {
        for (int64_t i = 0; i < n * k; i++) {
            kit_store(dtype, kit_at(&w.view, i), kit_real(-1, 1));
        }
        return w;
    }
    int offsets[2];
    matrix_scale_offsets(dtype, &offsets[0], &offsets[1]);
    for (int64_t block = 0; block < n * row; block++) {
        unsigned char* at = (unsigned char*)w.view.data + block * (int64_t)info->block_bytes;
        for (uint32_t i = 0; i < info->block_bytes; i++)
            at[i] = (unsigned char)kit_next();
        for (int i = 0; i < 2; i++) {
            if (offsets[i] >= 0) kit_store(BERTH_F16, at + offsets[i], kit_real(-0.02, 0.02));
        }
    }
    return w;
}

/// The weights as f32, [n, k] contiguous.
static inline float* matrix_as_f32(const berth_view* w) {
    const int64_t n = w->dims[0];
    const int64_t k = w->dims[1];
    const int64_t row_bytes = w->strides[0] * (int64_t)kit_bytes(w->dtype);
    float* values = malloc((size_t)(n * k + 1) * sizeof *values);
    assert_non_null(values);
    for (int64_t r = 0; r < n; r++) {
        berth_convert_rows_portable.to_f32[w->dtype](
            (const unsigned char*)w->data + r * row_bytes, values + r * k, k);
    }
    return values;
}

#endif // BERTH_TESTS_DEVICE_MATRIX_KIT_H
