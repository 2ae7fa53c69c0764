// SPDX-License-Identifier: Apache-2.0
// Kernels that lay elements out anew: joined, repeated, rolled, padded, a triangle of them.
#include "device/cuda/cuda_access.cuh"
#include "device/cuda/cuda_elements.cuh"
#include "device/cuda/cuda_walk.cuh"

namespace {

constexpr int SOME = BERTH_CUDA_INDEX_READS;

// --- Placing ------------------------------------------------------------------------------------

template <class Unit> DEVICE void place_units(const berth_cuda_place_args& args) {
    const int64_t count = args.walk.count, step = grid_step();
    const Unit* source = (const Unit*)args.source;
    Unit* target = (Unit*)args.target;
    for (int64_t first = grid_first(); first < count; first += SOME * step) {
        Unit held[SOME] = {};
        int64_t to[SOME] = {};
        UNROLL
        for (int i = 0; i < SOME; ++i) {
            const int64_t at = first + i * step;
            if (at >= count) continue;
            const walk_place<2> place = walk_to<2>(args.walk, at);
            held[i] = source[place.of[0]];
            to[i] = args.is_dense != 0 ? at : place.of[1];
        }
        UNROLL
        for (int i = 0; i < SOME; ++i)
            if (first + i * step < count) target[to[i]] = held[i];
    }
}

// --- Padding ------------------------------------------------------------------------------------

/// Where step `at` of the output is in x; false if it is none of x's.
DEVICE bool find_in_x(const berth_cuda_pad_args& args, int64_t at, int64_t& place) {
    bool is_inside = true;
    place = 0;
    for (int32_t d = args.walk.rank - 1; d >= 0; --d) {
        int64_t own = at;
        if (d > 0) at = divide_any(args.walk.dims[d], args.walk.is_small != 0, own);
        own -= args.before[d];
        is_inside = is_inside && own >= 0 && own < args.sizes[d];
        place += own * args.walk.strides[0][d];
    }
    return is_inside;
}

template <class Unit> DEVICE void pad_units(const berth_cuda_pad_args& args) {
    const int64_t count = args.walk.count, step = grid_step();
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
DEVICE pack<Unit, N> keep(const berth_cuda_triangle_args& args,
                          int64_t at,
                          const pack<Unit, N>& all) {
    const bool is_small = args.walk.is_small != 0;
    int64_t column = at;
    int64_t row = divide_any(args.columns, is_small, column);
    divide_any(args.rows, is_small, row);
    const int64_t border = row + args.border - column; // from here on it is the upper part
    pack<Unit, N> kept;
    UNROLL
    for (int i = 0; i < N; ++i)
        kept.put(i, (i < border) == (args.is_lower != 0) ? all.get(i) : (Unit)0);
    return kept;
}

template <class Unit, int N> DEVICE void keep_triangle(const berth_cuda_triangle_args& args) {
    const int64_t count = args.walk.count, step = grid_step() * N;
    const Unit* x = (const Unit*)args.x;
    Unit* out = (Unit*)args.out;
    for (int64_t first = grid_first() * N; first < count; first += SOME * step) {
        pack<Unit, N> held[SOME] = {};
        UNROLL
        for (int i = 0; i < SOME; ++i) {
            const int64_t at = first + i * step;
            if (at >= count) continue;
            const int64_t place = args.is_dense != 0 ? at : walk_to<1>(args.walk, at).of[0];
            held[i] = load_pack<Unit, N>(x + place);
        }
        UNROLL
        for (int i = 0; i < SOME; ++i) {
            const int64_t at = first + i * step;
            if (at < count) store_pack(out + at, keep<Unit, N>(args, at, held[i]));
        }
    }
}

template <class Unit> DEVICE void triangle_of(const berth_cuda_triangle_args& args) {
    if (args.is_vector != 0)
        keep_triangle<Unit, (int)(16 / sizeof(Unit))>(args);
    else
        keep_triangle<Unit, 1>(args);
}

} // namespace

KERNEL_OF(BERTH_CUDA_INDEX_THREADS, place, berth_cuda_place_args) {
    with_unit(args.unit_bytes, [&](auto unit) { place_units<decltype(unit)>(args); });
}

KERNEL_OF(BERTH_CUDA_INDEX_THREADS, place_as, berth_cuda_convert_args) {
    const berth_dtype from = (berth_dtype)args.from, to = (berth_dtype)args.to;
    for (int64_t at = grid_first(); at < args.walk.count; at += grid_step()) {
        const walk_place<2> place = walk_to<2>(args.walk, at);
        if (is_real_type(to))
            store(args.target, to, place.of[1], load_real(args.source, from, place.of[0], to));
        else
            store(args.target, to, place.of[1], load_whole(args.source, from, place.of[0], to));
    }
}

KERNEL_OF(BERTH_CUDA_INDEX_THREADS, pad, berth_cuda_pad_args) {
    with_unit(args.unit_bytes, [&](auto unit) { pad_units<decltype(unit)>(args); });
}

KERNEL_OF(BERTH_CUDA_INDEX_THREADS, triangle, berth_cuda_triangle_args) {
    with_item(args.item_bytes, [&](auto item) { triangle_of<decltype(item)>(args); });
}
