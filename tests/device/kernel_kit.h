// SPDX-License-Identifier: Apache-2.0
// What the tests of CPU kernels share: seeded numbers, tensors with guarded memory and any strides,
// values as double, calls run on every instruction set and with several workers.
#ifndef BERTH_TESTS_DEVICE_KERNEL_KIT_H
#define BERTH_TESTS_DEVICE_KERNEL_KIT_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/host.h"
#include "base/op_params.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_kernels.h"
#include "device/cpu/cpu_team.h"
#include "kit/random.h"
#include "kit/test.h"

// --- Seeded numbers ------------------------------------------------------------------------------

static test_random kit_random = {0x9e3779b97f4a7c15u};

static inline void kit_seed(uint64_t seed) {
    kit_random = test_random_make(seed * 0x9e3779b97f4a7c15u + 1);
}

static inline uint64_t kit_next(void) { return test_random_u64(&kit_random); }

/// An integer in [low, high].
static inline int64_t kit_int(int64_t low, int64_t high) {
    return test_random_between(&kit_random, low, high);
}

/// A number in [low, high).
static inline double kit_real(double low, double high) {
    return low + (high - low) * test_random_unit(&kit_random);
}

// --- Values of plain types as double -------------------------------------------------------------

/// A half or bfloat16 with `exponent_bits`, as double, by its definition.
static inline double kit_small_float(uint16_t bits, int exponent_bits) {
    const int mantissa_bits = 15 - exponent_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa != 0 ? (double)NAN : sign * (double)INFINITY;
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    return sign * ldexp(whole, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

/// The nearest half or bfloat16 of a double, ties to even.
static inline uint16_t kit_to_small_float(double value, int exponent_bits) {
    const uint16_t infinite = (uint16_t)(((1 << exponent_bits) - 1) << (15 - exponent_bits));
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value)) return (uint16_t)(infinite | 1);
    const double magnitude = fabs(value);
    uint16_t low = 0;
    uint16_t high = infinite; // magnitude is in [low, high] once compared
    while (high - low > 1) {
        const uint16_t middle = (uint16_t)((low + high) / 2);
        if (kit_small_float(middle, exponent_bits) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    const double below = kit_small_float(low, exponent_bits);
    // The step past the largest finite value is where the next would be.
    const double step = high == infinite
                            ? below - kit_small_float((uint16_t)(low - 1), exponent_bits)
                            : kit_small_float(high, exponent_bits) - below;
    const double rest = magnitude - below;
    const int up = rest > step / 2 || (rest == step / 2 && (low & 1));
    return (uint16_t)(sign | (up ? high : low));
}

static inline size_t kit_bytes(berth_dtype dtype) {
    return berth_dtype_query_info(dtype)->block_bytes;
}

static inline double kit_load(berth_dtype dtype, const void* at) {
    float f32;
    int32_t i32;
    int64_t i64;
    uint16_t u16;
    switch ((int)dtype) {
    case BERTH_F32:
        memcpy(&f32, at, 4);
        return (double)f32;
    case BERTH_F16:
        memcpy(&u16, at, 2);
        return kit_small_float(u16, 5);
    case BERTH_BF16:
        memcpy(&u16, at, 2);
        return kit_small_float(u16, 8);
    case BERTH_I32:
        memcpy(&i32, at, 4);
        return i32;
    case BERTH_I64:
        memcpy(&i64, at, 8);
        return (double)i64;
    case BERTH_I8:
        return *(const int8_t*)at;
    default:
        return *(const uint8_t*)at;
    }
}

static inline void kit_store(berth_dtype dtype, void* at, double value) {
    const float f32 = (float)value;
    uint16_t u16;
    int64_t i64;
    switch ((int)dtype) {
    case BERTH_F32:
        memcpy(at, &f32, 4);
        break;
    case BERTH_F16:
        u16 = kit_to_small_float(value, 5);
        memcpy(at, &u16, 2);
        break;
    case BERTH_BF16:
        u16 = kit_to_small_float(value, 8);
        memcpy(at, &u16, 2);
        break;
    case BERTH_I32:
        memcpy(at, &(int32_t){(int32_t)value}, 4);
        break;
    case BERTH_I64:
        i64 = (int64_t)value;
        memcpy(at, &i64, 8);
        break;
    case BERTH_I8:
        *(int8_t*)at = (int8_t)value;
        break;
    default:
        *(uint8_t*)at = (uint8_t)value;
        break;
    }
}

/// How far a result of `dtype` may be from `expected` when its computation in f32 is right to
/// `relative`: that much, and half a place of the type.
static inline double kit_tolerance(berth_dtype dtype, double expected, double relative) {
    const double place = dtype == BERTH_F16 ? 0x1p-11 : dtype == BERTH_BF16 ? 0x1p-8 : 0x1p-24;
    const double smallest = dtype == BERTH_F16 ? 0x1p-25 : 0x1p-140;
    return fabs(expected) * (relative + place) + smallest;
}

// --- Tensors -------------------------------------------------------------------------------------

#define KIT_GUARD 64

/// A view and the memory under it, with guard bytes on both sides.
typedef struct kit_tensor {
    berth_view view;
    unsigned char* memory;
    size_t bytes; ///< without the guards
} kit_tensor;

static inline int64_t kit_count(const berth_view* view) {
    int64_t count = 1;
    for (int32_t d = 0; d < view->rank; ++d)
        count *= view->dims[d];
    return count;
}

static inline void kit_guard(kit_tensor* tensor, size_t bytes) {
    tensor->bytes = bytes;
    tensor->memory = malloc(bytes + 2 * KIT_GUARD);
    assert_non_null(tensor->memory);
    memset(tensor->memory, 0xA5, bytes + 2 * KIT_GUARD);
}

static inline void kit_check_guard(const kit_tensor* tensor) {
    for (size_t i = 0; i < KIT_GUARD; ++i) {
        assert_int_equal(tensor->memory[i], 0xA5);
        assert_int_equal(tensor->memory[KIT_GUARD + tensor->bytes + i], 0xA5);
    }
}

static inline void kit_free(kit_tensor* tensor) {
    if (tensor->memory != NULL) kit_check_guard(tensor);
    free(tensor->memory);
    *tensor = (kit_tensor){0};
}

/// A contiguous tensor of a plain type; memory starts on any multiple of the element's size.
static inline kit_tensor kit_contiguous(berth_dtype dtype, int32_t rank, const int64_t* dims) {
    kit_tensor tensor = {.view = {.dtype = dtype, .rank = rank}};
    int64_t stride = 1;
    for (int32_t d = rank; d-- > 0;) {
        tensor.view.dims[d] = dims[d];
        tensor.view.strides[d] = stride;
        stride *= dims[d];
    }
    kit_guard(&tensor, (size_t)stride * kit_bytes(dtype));
    tensor.view.data = tensor.memory + KIT_GUARD;
    return tensor;
}

/// A tensor whose dimensions lie in memory in a random order, with gaps, reversed or repeated.
/// `last_is_one` keeps the last stride 1; strides of 0 only if `repeat`.
static inline kit_tensor kit_strided(
    berth_dtype dtype, int32_t rank, const int64_t* dims, bool last_is_one, bool repeat) {
    kit_tensor tensor = {.view = {.dtype = dtype, .rank = rank}};
    int32_t order[BERTH_MAX_RANK];
    for (int32_t d = 0; d < rank; ++d)
        order[d] = d;
    for (int32_t d = rank - 1; d > 0; --d) {
        const int32_t other = (int32_t)kit_int(last_is_one ? (d == rank - 1 ? d : 0) : 0, d);
        const int32_t kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
    int64_t stride = 1;
    int64_t first = 0;
    int64_t span = 1;
    for (int32_t i = rank; i-- > 0;) {
        const int32_t d = order[i];
        const bool fixed = last_is_one && d == rank - 1;
        const int64_t gap = fixed ? 1 : kit_int(1, 2);
        const int64_t step = stride * gap;
        tensor.view.dims[d] = dims[d];
        const int64_t kind = fixed ? 0 : kit_int(0, 5);
        if (kind == 5 && repeat) {
            tensor.view.strides[d] = 0;
            continue;
        }
        tensor.view.strides[d] = kind == 4 ? -step : step;
        if (dims[d] > 0) {
            if (kind == 4) first += step * (dims[d] - 1);
            span += step * (dims[d] - 1);
        }
        stride = step * (dims[d] > 0 ? dims[d] : 1);
    }
    kit_guard(&tensor, (size_t)span * kit_bytes(dtype));
    tensor.view.data = tensor.memory + KIT_GUARD + (size_t)first * kit_bytes(dtype);
    return tensor;
}

/// A quantised tensor of random blocks, its rows `gap` blocks apart beyond their length.
static inline kit_tensor kit_quantised_rows(berth_dtype dtype,
                                            int64_t rows,
                                            int64_t width,
                                            int64_t gap) {
    const berth_dtype_info* info = berth_dtype_query_info(dtype);
    const int64_t blocks = width / info->block_values;
    kit_tensor tensor = {
        .view = {.dtype = dtype, .rank = 2, .dims = {rows, width}, .strides = {blocks + gap, 1}}};
    kit_guard(&tensor, (size_t)(rows * (blocks + gap)) * info->block_bytes);
    tensor.view.data = tensor.memory + KIT_GUARD;
    for (size_t i = 0; i < tensor.bytes; ++i) {
        tensor.memory[KIT_GUARD + i] = (unsigned char)(kit_next() & 0x3f); // no NaN scales
    }
    return tensor;
}

/// The address of the element at row-major position `index` of a plain view.
static inline void* kit_at(const berth_view* view, int64_t index) {
    int64_t offset = 0;
    for (int32_t d = view->rank; d-- > 0;) {
        offset += index % view->dims[d] * view->strides[d];
        index /= view->dims[d];
    }
    return (unsigned char*)view->data + offset * (int64_t)kit_bytes(view->dtype);
}

static inline double kit_get(const berth_view* view, int64_t index) {
    return kit_load(view->dtype, kit_at(view, index));
}

/// Fills with numbers from [low, high); whole ones for integers.
static inline void kit_fill(kit_tensor* tensor, double low, double high) {
    const int64_t count = kit_count(&tensor->view);
    for (int64_t i = 0; i < count; ++i) {
        double value = kit_real(low, high);
        const berth_dtype dtype = tensor->view.dtype;
        if (dtype == BERTH_BOOL)
            value = (double)kit_int(0, 1);
        else if (!berth_dtype_is_float(dtype))
            value = floor(value);
        kit_store(dtype, kit_at(&tensor->view, i), value);
    }
}

/// One to `max_rank` random dimensions, each 1 .. `max_dim`, now and then 0.
static inline int32_t kit_dims(int32_t max_rank, int64_t max_dim, int64_t* out_dims) {
    const int32_t rank = (int32_t)kit_int(1, max_rank);
    for (int32_t d = 0; d < rank; ++d) {
        out_dims[d] = kit_int(0, 60) == 0 ? 0 : kit_int(1, max_dim);
    }
    return rank;
}

// --- Running a call ------------------------------------------------------------------------------

/// Runs `call` on every instruction set, without a team and with teams of two and of three workers,
/// each time on an output filled with rubbish (or with a copy of what it holds now, if `update`).
/// Teams must agree bit for bit, instruction sets too if `isa_agree`. `scratch` may be NULL.
static inline void kit_run_everywhere(berth_op_id op,
                                      berth_op_call* call,
                                      kit_tensor* out,
                                      bool isa_agree,
                                      bool update,
                                      uint64_t (*scratch)(const berth_op_call* call)) {
    unsigned char* expected = malloc(out->bytes + 1);
    unsigned char* before = malloc(out->bytes + 1);
    assert_non_null(expected);
    assert_non_null(before);
    memcpy(before, out->memory + KIT_GUARD, out->bytes);
    berth_team* teams[3] = {NULL};
    assert_int_equal(berth_team_create(berth_host_default(), 2, &teams[1]), BERTH_OK);
    assert_int_equal(berth_team_create(berth_host_default(), 3, &teams[2]), BERTH_OK);
    bool is_first = true;
    for (int isa = BERTH_CPU_ISA_PORTABLE; isa <= BERTH_CPU_ISA_AVX512; ++isa) {
        berth_cpu_set_isa((berth_cpu_isa)isa);
        for (int t = 0; t < 3; ++t) {
            if (update)
                memcpy(out->memory + KIT_GUARD, before, out->bytes);
            else
                memset(out->memory + KIT_GUARD, 0x5A, out->bytes);
            call->outputs[0] = out->view;
            call->output_count = 1;
            call->team = teams[t];
            call->scratch_bytes = scratch != NULL ? scratch(call) : 0;
            kit_tensor workspace;
            kit_guard(&workspace, call->scratch_bytes + 64);
            const uintptr_t at = (uintptr_t)workspace.memory + KIT_GUARD;
            call->scratch = workspace.memory + KIT_GUARD + (64 - at % 64) % 64;
            berth_cpu_kernels()[op](call);
            kit_free(&workspace);
            if (is_first || (t == 0 && !isa_agree)) {
                memcpy(expected, out->memory + KIT_GUARD, out->bytes);
            } else {
                assert_memory_equal(expected, out->memory + KIT_GUARD, out->bytes);
            }
            is_first = false;
        }
    }
    kit_check_guard(out);
    berth_team_destroy(teams[1]);
    berth_team_destroy(teams[2]);
    call->team = NULL;
    free(before);
    free(expected);
}

/// Checks that element `index` of `view` is `expected` to within `tolerance`, NaN and infinities
/// alike.
static inline void kit_expect(const berth_view* view,
                              int64_t index,
                              double expected,
                              double tolerance) {
    const double found = kit_get(view, index);
    if (isnan(expected) ? isnan(found) : found == expected) return;
    if (fabs(found - expected) <= tolerance) return;
    fail_msg("element %lld of %s: found %.9g, expected %.9g",
             (long long)index,
             berth_dtype_query_info(view->dtype)->name,
             found,
             expected);
}

#endif // BERTH_TESTS_DEVICE_KERNEL_KIT_H
