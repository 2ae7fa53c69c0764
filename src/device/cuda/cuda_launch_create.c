// SPDX-License-Identifier: Apache-2.0
// Launchers of the ops that make tensors of nothing: FILL ARANGE RAND RANDN RANDINT.
#include <math.h>
#include <string.h>

#include "base/op_params.h"
#include "device/cpu/kernel_convert_scalar.h"
#include "device/cpu/kernel_random.h"
#include "device/cuda/cuda_launch_copy.h"
#include "device/cuda/cuda_launch_value.h"

enum { THREADS = BERTH_CUDA_ELEMENT_THREADS };

static void launch_fill(const berth_op_call* call) {
    const berth_fill_params* params = call->params;
    const berth_view* out = &call->outputs[0];
    const int64_t bytes = berth_dtype_bytes(out->dtype);
    berth_cuda_fill_args args = {
        .out = out->data,
        .bytes = (uint64_t)(berth_view_count(out) * bytes),
        .item_bytes = (uint32_t)bytes,
    };
    if (args.bytes == 0) return;
    unsigned char item[8];
    berth_cuda_value_store(out->dtype, params->value, item);
    for (size_t at = 0; at < sizeof args.pattern; at += (size_t)bytes)
        memcpy((unsigned char*)&args.pattern + at, item, (size_t)bytes);
    const bool is_aligned = (uintptr_t)out->data % 16 == 0;
    const uint64_t count = is_aligned ? (args.bytes + 15) / 16 : args.bytes / args.item_bytes;
    berth_cuda_run(BERTH_CUDA_KERNEL_fill, berth_cuda_blocks_for(count, THREADS), THREADS, &args);
}

static void run(berth_cuda_kernel kernel, berth_cuda_create_args* args, const berth_view* out) {
    args->out = out->data;
    args->count = berth_view_count(out);
    args->dtype = (uint8_t)out->dtype;
    if (args->count == 0) return;
    const uint64_t blocks = berth_cuda_blocks_for((uint64_t)args->count, THREADS);
    berth_cuda_run(kernel, blocks, THREADS, args);
}

static void launch_arange(const berth_op_call* call) {
    const berth_arange_params* params = call->params;
    berth_cuda_create_args args = {.first = params->start, .second = params->step};
    run(BERTH_CUDA_KERNEL_arange, &args, &call->outputs[0]);
}

static float half_value(berth_dtype dtype, uint16_t bits) {
    return dtype == BERTH_F16 ? berth_f16_to_f32(bits) : berth_bf16_to_f32(bits);
}

/// The largest number of a half type that is below `high`.
static float largest_below(berth_dtype dtype, float high) {
    uint16_t bits = dtype == BERTH_F16 ? berth_f32_to_f16(high) : berth_f32_to_bf16(high);
    const float value = half_value(dtype, bits);
    if (value < high) return value;
    if ((bits & 0x7fffu) == 0)
        bits = 0x8001u; // below zero
    else
        bits = (uint16_t)(value > 0.0f ? bits - 1 : bits + 1);
    return half_value(dtype, bits);
}

static berth_cuda_create_args random_args(const berth_op_call* call) {
    const berth_random_params* params = call->params;
    return (berth_cuda_create_args){
        .first = (double)params->low,
        .second = (double)params->high,
        .key = berth_random_key(params->seed),
    };
}

static void launch_rand(const berth_op_call* call) {
    const berth_random_params* params = call->params;
    const berth_dtype dtype = call->outputs[0].dtype;
    berth_cuda_create_args args = random_args(call);
    args.limit = params->high;
    args.below = nextafterf(params->high, params->low);
    const bool may_reach = berth_dtype_is_half(dtype) && params->low < params->high;
    args.most = may_reach ? largest_below(dtype, params->high) : HUGE_VALF;
    run(BERTH_CUDA_KERNEL_rand, &args, &call->outputs[0]);
}

static void launch_randn(const berth_op_call* call) {
    berth_cuda_create_args args = random_args(call);
    run(BERTH_CUDA_KERNEL_randn, &args, &call->outputs[0]);
}

static void launch_randint(const berth_op_call* call) {
    const berth_randint_params* params = call->params;
    berth_cuda_create_args args = {
        .key = berth_random_key(params->seed),
        .low = (uint64_t)params->low,
        .span = (uint64_t)params->high - (uint64_t)params->low,
    };
    run(BERTH_CUDA_KERNEL_randint, &args, &call->outputs[0]);
}

void berth_cuda_fill_create(berth_cuda_table* table) {
    table->kernels[BERTH_OP_FILL] = launch_fill;
    table->kernels[BERTH_OP_ARANGE] = launch_arange;
    table->kernels[BERTH_OP_RAND] = launch_rand;
    table->kernels[BERTH_OP_RANDN] = launch_randn;
    table->kernels[BERTH_OP_RANDINT] = launch_randint;
}
