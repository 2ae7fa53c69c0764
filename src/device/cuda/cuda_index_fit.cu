// SPDX-License-Identifier: Apache-2.0
// Kernels that lay elements out anew: joined, repeated, rolled, padded, a triangle of them.
#include "device/cuda/cuda_path.cuh"

namespace {

constexpr int SOME = 4; // units that a thread has under way at once

// --- Placing ------------------------------------------------------------------------------------

template <class Unit> DEVICE void place_units(const berth_cuda_place_args& args) {
    const int64_t count = args.path.count, step = grid_step();
    const Unit* source = (const Unit*)args.source;
    Unit* target = (Unit*)args.target;
    for (int64_t first = grid_first(); first < count; first += SOME * step) {
        Unit held[SOME] = {};
        int64_t to[SOME] = {};
        UNROLL
        for (int i = 0; i < SOME; ++i) {
            const int64_t at = first + i * step;
            if (at >= count) continue;
            const path_place<2> place = path_to<2>(args.path, at);
            held[i] = source[place.of[0]];
            to[i] = args.is_dense != 0 ? at : place.of[1];
        }
        UNROLL
        for (int i = 0; i < SOME; ++i)
            if (first + i * step < count) target[to[i]] = held[i];
    }
}

/// A value of any plain type: the integer's, or the float's.
struct plain_value {
    int64_t whole;
    float real;
    bool is_float;
};

DEVICE plain_value whole_value(int64_t whole) { return plain_value{whole, 0.0f, false}; }
DEVICE plain_value real_value(float real) { return plain_value{0, real, true}; }

DEVICE plain_value load_plain(int32_t dtype, const void* base, int64_t at) {
    switch (dtype) {
    case BERTH_F32:
        return real_value(((const float*)base)[at]);
    case BERTH_F16:
        return real_value(to_f32(((const f16*)base)[at]));
    case BERTH_BF16:
        return real_value(to_f32(((const bf16*)base)[at]));
    case BERTH_I32:
        return whole_value(((const int32_t*)base)[at]);
    case BERTH_I64:
        return whole_value(((const int64_t*)base)[at]);
    case BERTH_I8:
        return whole_value(((const int8_t*)base)[at]);
    default:
        return whole_value(((const uint8_t*)base)[at]);
    }
}

/// Toward zero within [low, high]; NaN is 0.
DEVICE int64_t whole_of(const plain_value& value, int64_t low, int64_t high) {
    if (!value.is_float) return value.whole;
    if (!(value.real == value.real)) return 0;
    if (value.real <= (float)low) return low;
    // 2^63 and 2^31 are rounded to by the largest of their types
    if (value.real >= (float)high) return high;
    return (int64_t)value.real;
}

DEVICE void store_plain(int32_t dtype, void* base, int64_t at, const plain_value& value) {
    const float real = value.is_float ? value.real : (float)value.whole;
    switch (dtype) {
    case BERTH_F32:
        ((float*)base)[at] = real;
        break;
    case BERTH_F16:
        ((f16*)base)[at] = from_f32<f16>(real);
        break;
    case BERTH_BF16:
        ((bf16*)base)[at] = from_f32<bf16>(real);
        break;
    case BERTH_I32:
        ((uint32_t*)base)[at] = (uint32_t)whole_of(value, INT32_MIN, INT32_MAX);
        break;
    case BERTH_I64:
        ((int64_t*)base)[at] = whole_of(value, INT64_MIN, INT64_MAX);
        break;
    case BERTH_I8:
        ((uint8_t*)base)[at] = (uint8_t)whole_of(value, INT8_MIN, INT8_MAX);
        break;
    case BERTH_U8:
        ((uint8_t*)base)[at] = (uint8_t)whole_of(value, 0, UINT8_MAX);
        break;
    default:
        ((uint8_t*)base)[at] = value.is_float ? value.real != 0.0f : value.whole != 0;
        break;
    }
}

// --- Padding ------------------------------------------------------------------------------------

/// Where step `at` of the output is in x; false if it is none of x's.
DEVICE bool find_in_x(const berth_cuda_pad_args& args, int64_t at, int64_t& place) {
    bool is_inside = true;
    place = 0;
    for (int32_t d = args.path.rank - 1; d >= 0; --d) {
        int64_t own = at;
        if (d > 0) at = divide_any(args.path.dims[d], args.path.is_small != 0, own);
        own -= args.before[d];
        is_inside = is_inside && own >= 0 && own < args.sizes[d];
        place += own * args.path.strides[0][d];
    }
    return is_inside;
}

template <class Unit> DEVICE void pad_units(const berth_cuda_pad_args& args) {
    const int64_t count = args.path.count, step = grid_step();
    const Unit* x = (const Unit*)args.x;
    Unit* out = (Unit*)args.out;
    for (int64_t first = grid_first(); first < count; first += SOME * step) {
        Unit held[SOME] = {};
        UNROLL
        for (int i = 0; i < SOME; ++i) {
            int64_t place;
            if (first + i * step >= count) continue;
            if (find_in_x(args, first + i * step, place))
                held[i] = x[place];
            else
                memcpy(&held[i], args.value, sizeof held[i]);
        }
        UNROLL
        for (int i = 0; i < SOME; ++i)
            if (first + i * step < count) out[first + i * step] = held[i];
    }
}

// --- Triangles ----------------------------------------------------------------------------------

/// The N neighbours of a row from element `at` on, those that are lost as 0.
template <class Unit, int N>
DEVICE lanes<Unit, N> keep(const berth_cuda_triangle_args& args, int64_t at, int64_t place) {
    lanes<Unit, N> held = *(const lanes<Unit, N>*)(const void*)((const Unit*)args.x + place);
    const bool is_small = args.path.is_small != 0;
    int64_t column = at;
    int64_t row = divide_any(args.columns, is_small, column);
    divide_any(args.rows, is_small, row);
    const int64_t border = row + args.border - column; // from here on it is the upper part
    UNROLL
    for (int i = 0; i < N; ++i)
        if ((i < border) != (args.is_lower != 0)) held.of[i] = 0;
    return held;
}

template <class Unit, int N> DEVICE void keep_triangle(const berth_cuda_triangle_args& args) {
    const int64_t count = args.path.count, step = grid_step() * N;
    Unit* out = (Unit*)args.out;
    for (int64_t first = grid_first() * N; first < count; first += SOME * step) {
        lanes<Unit, N> held[SOME] = {};
        UNROLL
        for (int i = 0; i < SOME; ++i) {
            const int64_t at = first + i * step;
            if (at >= count) continue;
            held[i] =
                keep<Unit, N>(args, at, args.is_dense != 0 ? at : path_to<1>(args.path, at).of[0]);
        }
        UNROLL
        for (int i = 0; i < SOME; ++i)
            if (first + i * step < count)
                *(lanes<Unit, N>*)(void*)(out + first + i * step) = held[i];
    }
}

template <class Unit> DEVICE void triangle_of(const berth_cuda_triangle_args& args) {
    if (args.is_vector != 0)
        keep_triangle<Unit, (int)(16 / sizeof(Unit))>(args);
    else
        keep_triangle<Unit, 1>(args);
}

} // namespace

KERNEL(place, berth_cuda_place_args) {
    with_unit(args.unit_bytes, [&](auto unit) { place_units<decltype(unit)>(args); });
}

KERNEL(place_as, berth_cuda_convert_args) {
    for (int64_t at = grid_first(); at < args.path.count; at += grid_step()) {
        const path_place<2> place = path_to<2>(args.path, at);
        store_plain(
            args.to, args.target, place.of[1], load_plain(args.from, args.source, place.of[0]));
    }
}

KERNEL(pad, berth_cuda_pad_args) {
    with_unit(args.unit_bytes, [&](auto unit) { pad_units<decltype(unit)>(args); });
}

KERNEL(triangle, berth_cuda_triangle_args) {
    switch (args.item_bytes) {
    case 1:
        triangle_of<uint8_t>(args);
        break;
    case 2:
        triangle_of<uint16_t>(args);
        break;
    case 4:
        triangle_of<uint32_t>(args);
        break;
    default:
        triangle_of<uint64_t>(args);
        break;
    }
}
