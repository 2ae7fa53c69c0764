// SPDX-License-Identifier: Apache-2.0
// Kernels that read and write by index.
#include "device/cuda/cuda_access.cuh"
#include "device/cuda/cuda_walk.cuh"

namespace {

constexpr int SOME = BERTH_CUDA_INDEX_READS;

// --- Reading ------------------------------------------------------------------------------------

/// Indices first, then what they point at: none waits for another.
template <class Unit> DEVICE void gather_units(const berth_cuda_gather_args& args) {
    const int64_t last = args.walk.count - 1, step = grid_step();
    const Unit* x = (const Unit*)args.x;
    Unit* out = (Unit*)args.out;
    Unit missing;
    memcpy(&missing, args.missing, sizeof missing);
    for (int64_t first = grid_first(); first <= last; first += SOME * step) {
        int64_t indices[SOME], places[SOME];
        UNROLL
        for (int i = 0; i < SOME; ++i) {
            // a thread behind the end reads the last one too, and drops it
            const int64_t at = first + i * step < last ? first + i * step : last;
            const walk_place<2> place = walk_to<2>(args.walk, at);
            indices[i] = index_at(args.index, args.is_wide, place.of[1]);
            places[i] = place.of[0];
        }
        Unit held[SOME];
        UNROLL
        for (int i = 0; i < SOME; ++i) {
            held[i] = missing;
            if (indices[i] >= 0 && indices[i] < args.size)
                held[i] = x[places[i] + indices[i] * args.step];
        }
        UNROLL
        for (int i = 0; i < SOME; ++i)
            if (first + i * step <= last) out[first + i * step] = held[i];
    }
}

// --- Writing ------------------------------------------------------------------------------------

template <class T> struct set_value { typedef T type; };
template <class T> struct add_float { typedef T type; };
template <class T> struct add_integer { typedef T type; }; // unsigned: signed ones wrap as it does
struct add_bool {
    typedef uint8_t type;
};
template <class T> DEVICE T join(set_value<T>, T, T value) { return value; }
template <class T> DEVICE T join(add_float<T>, T old, T value) {
    return from_f32<T>(to_f32(old) + to_f32(value));
}
template <class T> DEVICE T join(add_integer<T>, T old, T value) { return (T)(old + value); }
DEVICE uint8_t join(add_bool, uint8_t old, uint8_t value) {
    return (uint8_t)((old | value) != 0 ? 1 : 0);
}

/// One owner's places of one line.
template <class Join>
DEVICE void scatter_line(const berth_cuda_scatter_args& args,
                         const walk_place<3>& line,
                         int64_t owner) {
    typedef typename Join::type T;
    T* out = (T*)args.out + line.of[0];
    const T* source = (const T*)args.source + line.of[2];
    const int64_t mask = args.owners - 1;
    for (int64_t first = 0; first < args.length; first += SOME) {
        int64_t indices[SOME];
        T values[SOME] = {};
        UNROLL
        for (int i = 0; i < SOME; ++i)
            indices[i] = first + i < args.length
                             ? index_at(args.index,
                                        args.is_wide,
                                        line.of[1] + (first + i) * args.index_along)
                             : -1;
        UNROLL
        for (int i = 0; i < SOME; ++i) {
            if ((indices[i] & mask) != owner || indices[i] >= args.size) indices[i] = -1;
            if (indices[i] >= 0) values[i] = source[(first + i) * args.source_along];
        }
        UNROLL
        for (int i = 0; i < SOME; ++i) {
            if (indices[i] < 0) continue;
            T* at = out + indices[i] * args.step;
            *at = join(Join(), *at, values[i]);
        }
    }
}

template <class Join> DEVICE void scatter_lines(const berth_cuda_scatter_args& args) {
    const int64_t lines = args.lines.count, count = lines * args.owners;
    for (int64_t at = grid_first(); at < count; at += grid_step()) {
        // neighbouring threads have neighbouring lines
        const int64_t owner = at / lines;
        scatter_line<Join>(args, walk_to<3>(args.lines, at - owner * lines), owner);
    }
}

/// Integers as unsigned ones of as many bytes.
DEVICE void scatter_adds(const berth_cuda_scatter_args& args) {
    if (args.dtype <= BERTH_BF16)
        with_real((uint32_t)args.dtype,
                  [&](auto x) { scatter_lines<add_float<decltype(x)>>(args); });
    else
        with_item(args.unit_bytes, [&](auto x) { scatter_lines<add_integer<decltype(x)>>(args); });
}

} // namespace

KERNEL_OF(BERTH_CUDA_INDEX_THREADS, gather, berth_cuda_gather_args) {
    with_unit(args.unit_bytes, [&](auto unit) { gather_units<decltype(unit)>(args); });
}

KERNEL_OF(BERTH_CUDA_INDEX_THREADS, scatter, berth_cuda_scatter_args) {
    if (args.meeting == BERTH_CUDA_MEETING_ADD)
        scatter_adds(args);
    else if (args.meeting == BERTH_CUDA_MEETING_BOOL)
        scatter_lines<add_bool>(args);
    else
        with_unit(args.unit_bytes,
                  [&](auto unit) { scatter_lines<set_value<decltype(unit)>>(args); });
}
