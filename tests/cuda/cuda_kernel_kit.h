// SPDX-License-Identifier: Apache-2.0
// Holds the device kernels, run on the host, against the CPU's: the same call of an op, the same
// bits of the operands, outputs compared element by element.
#ifndef BERTH_TESTS_CUDA_KERNEL_KIT_H
#define BERTH_TESTS_CUDA_KERNEL_KIT_H

#include "cuda/emulation.h"
#include "device/cuda/cuda_launch.h"
#include "device/kernel_kit.h"
#include "ops/op_table.h"
#include "tensor/shape.h"

/// How far results may be apart: a difference of |expected| * relative + absolute, and half a place
/// of the output's type. Integers, and everything where both are 0, must agree exactly.
typedef struct cuda_kit_tolerance {
    double relative;
    double absolute;
} cuda_kit_tolerance;

static const cuda_kit_tolerance cuda_kit_exact = {0, 0};

/// Runs `kernel` on `call` as it is, with a fresh workspace of `scratch_bytes`, which holds zeros
/// or rubbish.
static inline void cuda_kit_launch(berth_kernel kernel,
                                   berth_op_call* call,
                                   uint64_t scratch_bytes) {
    assert_non_null(kernel);
    kit_tensor workspace;
    kit_guard(&workspace, scratch_bytes + 64);
    const uintptr_t at = (uintptr_t)workspace.memory + KIT_GUARD;
    call->scratch = workspace.memory + KIT_GUARD + (64 - at % 64) % 64;
    call->scratch_bytes = scratch_bytes;
    if (kit_int(0, 1) == 0) memset(call->scratch, 0, scratch_bytes);
    kernel(call);
    kit_free(&workspace);
}

static inline void cuda_kit_compare_outputs(berth_op_id op,
                                            const berth_view* expected,
                                            const berth_view* found,
                                            cuda_kit_tolerance tolerance) {
    const int64_t count = kit_count(expected);
    const bool is_float = berth_dtype_is_float(expected->dtype);
    const bool is_exact = !is_float || (tolerance.relative == 0 && tolerance.absolute == 0);
    for (int64_t i = 0; i < count; ++i) {
        const double want = kit_get(expected, i), got = kit_get(found, i);
        if (isnan(want) && isnan(got)) continue;
        if (is_exact &&
            memcmp(kit_at(expected, i), kit_at(found, i), kit_bytes(expected->dtype)) == 0)
            continue;
        const double slack =
            kit_tolerance(expected->dtype, want, tolerance.relative) + tolerance.absolute;
        if (!is_exact && (got == want || fabs(got - want) <= slack)) continue;
        fail_msg("%s: element %lld of %lld (%s): found %.9g, the CPU's is %.9g",
                 berth_op_table[op].name,
                 (long long)i,
                 (long long)count,
                 berth_dtype_query_info(expected->dtype)->name,
                 got,
                 want);
    }
}

/// Runs `op` on both devices and compares all outputs. `call` has inputs, input_count, params and
/// output_count; where `in_place` >= 0, output 0 takes the place of that (contiguous) operand,
/// whose memory is as before afterwards.
static inline void cuda_kit_compare(berth_op_id op,
                                    berth_op_call* call,
                                    int in_place,
                                    cuda_kit_tolerance tolerance) {
    const berth_op_desc* desc = &berth_op_table[op];
    for (uint32_t i = 0; i < call->output_count; ++i)
        call->outputs[i] = (berth_view){.dtype = BERTH_DTYPE_COUNT};
    assert_ok(desc->infer(call));
    kit_tensor expected[BERTH_OP_MAX_OUTPUTS] = {0}, found[BERTH_OP_MAX_OUTPUTS] = {0};
    for (uint32_t i = 0; i < call->output_count; ++i) {
        uint64_t bytes;
        assert_ok(berth_shape_lay_out(&call->outputs[i], &bytes));
        const berth_view* out = &call->outputs[i];
        expected[i] = kit_contiguous(out->dtype, out->rank, out->dims);
        found[i] = kit_contiguous(out->dtype, out->rank, out->dims);
        memset(expected[i].view.data, 0x5A, expected[i].bytes);
        memset(found[i].view.data, 0x5A, found[i].bytes);
    }
    void* const operand = in_place >= 0 ? call->inputs[in_place].data : NULL;
    if (in_place >= 0) {
        memcpy(expected[0].view.data, operand, expected[0].bytes);
        memcpy(found[0].view.data, operand, found[0].bytes);
    }
    for (int device = 0; device < 2; ++device) {
        const kit_tensor* made = device == 0 ? expected : found;
        for (uint32_t i = 0; i < call->output_count; ++i)
            call->outputs[i].data = made[i].view.data;
        if (in_place >= 0) call->inputs[in_place].data = made[0].view.data;
        if (device == 0) {
            const uint64_t bytes = desc->scratch != NULL ? desc->scratch(call) : 0;
            cuda_kit_launch(berth_cpu_kernels()[op], call, bytes);
        } else {
            const berth_cuda_table* table = berth_cuda_kernel_table();
            const uint64_t bytes = table->scratch[op] != NULL ? table->scratch[op](call) : 0;
            cuda_kit_launch(table->kernels[op], call, bytes);
        }
    }
    if (in_place >= 0) call->inputs[in_place].data = operand;
    for (uint32_t i = 0; i < call->output_count; ++i) {
        cuda_kit_compare_outputs(op, &expected[i].view, &found[i].view, tolerance);
        kit_free(&expected[i]);
        kit_free(&found[i]);
    }
}

#endif // BERTH_TESTS_CUDA_KERNEL_KIT_H
