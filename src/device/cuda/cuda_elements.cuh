// SPDX-License-Identifier: Apache-2.0
// What elementwise kernels share: elements of any plain type as f32 or i64, and the two loops, over
// vectors of one type and over groups of neighbours of any.
//
// A function is a struct with real<Math>(args, a, b) on f32 and whole(args, a, b) on i64 (those of
// one operand get it twice), which give f32 or i64, to be rounded or cut to the output's type, or
// bool.
#ifndef BERTH_DEVICE_CUDA_ELEMENTS_CUH
#define BERTH_DEVICE_CUDA_ELEMENTS_CUH

#include "device/cuda/cuda_access.cuh"
#include "device/cuda/cuda_math.cuh"
#include "device/cuda/cuda_walk.cuh"

namespace {

typedef berth_cuda_element_args element_args;

// --- Conversions, as CAST makes them ------------------------------------------------------------

/// An integer cut to the type: its low bits, or for bool whether it is not 0.
DEVICE int64_t whole_as(berth_dtype dtype, int64_t x) {
    switch (dtype) {
    case BERTH_I32:
        return (int32_t)x;
    case BERTH_I8:
        return (int8_t)x;
    case BERTH_U8:
        return (uint8_t)x;
    case BERTH_BOOL:
        return x != 0;
    default:
        return x;
    }
}

/// An integer saturated to the type, which is not bool.
DEVICE int64_t whole_within(berth_dtype dtype, int64_t x) {
    if (dtype == BERTH_I64) return x;
    const int64_t low = dtype == BERTH_I32 ? INT32_MIN : dtype == BERTH_I8 ? INT8_MIN : 0;
    const int64_t high = dtype == BERTH_I32 ? INT32_MAX : low < 0 ? INT8_MAX : UINT8_MAX;
    return x < low ? low : x > high ? high : x;
}

/// A number toward zero, within the type; NaN is 0, and true.
DEVICE int64_t whole_of(berth_dtype dtype, float x) {
    if (dtype == BERTH_BOOL) return x != 0.0f;
    if (x != x) return 0;
    return whole_within(dtype, x >= 0x1p63f ? INT64_MAX : x <= -0x1p63f ? INT64_MIN : (int64_t)x);
}

/// A number rounded to the float type.
DEVICE float real_as(berth_dtype dtype, float x) {
    if (dtype == BERTH_F16) return to_f32(from_f32<f16>(x));
    if (dtype == BERTH_BF16) return to_f32(from_f32<bf16>(x));
    return x;
}

DEVICE bool is_real_type(berth_dtype dtype) { return dtype <= BERTH_BF16; }
DEVICE bool is_half_type(berth_dtype dtype) { return dtype == BERTH_F16 || dtype == BERTH_BF16; }

/// What a function takes of an element: f32 or i64.
DEVICE float value_of(float x) { return x; }
DEVICE float value_of(f16 x) { return to_f32(x); }
DEVICE float value_of(bf16 x) { return to_f32(x); }
DEVICE int64_t value_of(int32_t x) { return x; }
DEVICE int64_t value_of(int64_t x) { return x; }
DEVICE int64_t value_of(int8_t x) { return x; }
DEVICE int64_t value_of(uint8_t x) { return x; }

DEVICE float real_of(float x) { return x; }
DEVICE float real_of(int64_t x) { return (float)x; }

DEVICE int64_t whole_in(berth_dtype meeting, float x) { return whole_of(meeting, x); }
DEVICE int64_t whole_in(berth_dtype meeting, int64_t x) { return whole_as(meeting, x); }

/// What a function gives, as an element of a type that is not bool, or a truth.
template <class Out, class Result> DEVICE Out result_as(Result x) {
    if constexpr (are_same<Result, float>)
        return from_f32<Out>(x);
    else
        return (Out)x;
}

/// Element `at` of any type, converted to the type `meeting`, which is one of floats.
DEVICE float load_real(const void* data, berth_dtype dtype, int64_t at, berth_dtype meeting) {
    float x = 0.0f;
    with_plain(dtype, [&](auto type) { x = real_of(value_of(((const decltype(type)*)data)[at])); });
    return dtype == meeting ? x : real_as(meeting, x);
}

/// The same for a type of integers, or bool.
DEVICE int64_t load_whole(const void* data, berth_dtype dtype, int64_t at, berth_dtype meeting) {
    int64_t x = 0;
    with_plain(dtype, [&](auto type) {
        const auto value = value_of(((const decltype(type)*)data)[at]);
        x = whole_in(meeting, value);
    });
    return x;
}

DEVICE void store(void* out, berth_dtype dtype, int64_t at, float x) {
    with_real(dtype, [&](auto type) { ((decltype(type)*)out)[at] = from_f32<decltype(type)>(x); });
}

DEVICE void store(void* out, berth_dtype dtype, int64_t at, int64_t x) {
    if (dtype == BERTH_BOOL) x = x != 0;
    with_whole(dtype, [&](auto type) { ((decltype(type)*)out)[at] = (decltype(type))x; });
}

// --- Functions ----------------------------------------------------------------------------------

template <class Math, class Function>
DEVICE auto apply(Function f, const element_args& args, float a, float b) {
    return f.template real<Math>(args, a, b);
}
template <class Math, class Function>
DEVICE auto apply(Function f, const element_args& args, int64_t a, int64_t b) {
    return f.whole(args, a, b);
}

// --- Vectors ------------------------------------------------------------------------------------

/// Elements of a vector: the wider side is one access.
template <class T, class Out>
constexpr int vector_lanes = lanes_of<T> < lanes_of<Out> ? lanes_of<T> : lanes_of<Out>;

/// The elements behind the last vector, by the first threads of all.
template <int OPERANDS, class T, class Out, class Function>
DEVICE void tail_elements(const element_args& args) {
    typedef math_for<Out> math;
    if (grid_first() >= args.tail) return;
    const int64_t at = args.tail_begin + grid_first();
    const T a = ((const T*)args.operands[0])[args.is_repeated[0] ? 0 : at];
    T b = a;
    if (OPERANDS == 2) b = ((const T*)args.operands[1])[args.is_repeated[1] ? 0 : at];
    const auto result = apply<math>(Function(), args, value_of(a), value_of(b));
    ((Out*)args.out)[at] = result_as<Out>(result);
}

template <int OPERANDS, class T, class Out, class Function, int N>
DEVICE void compute_vector(const element_args& args, const pack<T, N>* held, int64_t at) {
    typedef math_for<Out> math;
    pack<Out, N> made;
    UNROLL
    for (int n = 0; n < N; ++n) {
        const auto a = value_of(held[0].get(n)), b = value_of(held[OPERANDS - 1].get(n));
        made.put(n, result_as<Out>(apply<math>(Function(), args, a, b)));
    }
    store_pack((Out*)args.out + at * N, made);
}

/// A vector of operand `i` that begins at element `at`, or that element repeated.
template <class T, int N>
DEVICE pack<T, N> load_operand(const element_args& args, int i, int64_t at) {
    const T* from = (const T*)args.operands[i] + at;
    if (!args.is_repeated[i]) return load_pack<T, N>(from);
    return repeat_pack<T, N>(*from);
}

/// Each thread has READS vectors of every operand under way before it computes; all are read before
/// one is written, as the output may lie in an operand's place.
template <int OPERANDS, int READS, class T, class Out, class Function>
DEVICE void vectors(const element_args& args) {
    constexpr int N = vector_lanes<T, Out>;
    tail_elements<OPERANDS, T, Out, Function>(args);
    const int64_t last = args.walk.count - 1;
    const int64_t a_round = (int64_t)thread_count() * READS;
    const int64_t step = block_count() * a_round;
    for (int64_t first = block_index() * a_round + thread_index(); first <= last; first += step) {
        pack<T, N> held[READS][OPERANDS];
        UNROLL
        for (int r = 0; r < READS; ++r) {
            // a thread behind the end reads the last vector too, and drops it
            int64_t at = first + (int64_t)r * thread_count();
            if (at > last) at = last;
            if (args.is_dense) {
                UNROLL
                for (int i = 0; i < OPERANDS; ++i)
                    held[r][i] = load_pack<T, N>((const T*)args.operands[i] + at * N);
                continue;
            }
            const auto place = walk_near<OPERANDS>(args.walk, at);
            UNROLL
            for (int i = 0; i < OPERANDS; ++i)
                held[r][i] = load_operand<T, N>(args, i, place.of[i]);
        }
        UNROLL
        for (int r = 0; r < READS; ++r) {
            const int64_t at = first + (int64_t)r * thread_count();
            if (at <= last) compute_vector<OPERANDS, T, Out, Function, N>(args, held[r], at);
        }
    }
}

/// A function of floats that gives their type.
template <int OPERANDS, int READS, class Function>
DEVICE void real_vectors(const element_args& args) {
    with_real(args.meeting, [&](auto type) {
        typedef decltype(type) T;
        vectors<OPERANDS, READS, T, T, Function>(args);
    });
}

/// The same of integers too.
template <int OPERANDS, int READS, class Function>
DEVICE void number_vectors(const element_args& args) {
    if (args.meeting == BERTH_I32)
        vectors<OPERANDS, READS, int32_t, int32_t, Function>(args);
    else if (args.meeting == BERTH_I64)
        vectors<OPERANDS, READS, int64_t, int64_t, Function>(args);
    else
        real_vectors<OPERANDS, READS, Function>(args);
}

/// A question about floats and integers.
template <int OPERANDS, int READS, class Function>
DEVICE void test_vectors(const element_args& args) {
    if (args.meeting == BERTH_I32) {
        vectors<OPERANDS, READS, int32_t, uint8_t, Function>(args);
        return;
    }
    with_real(args.meeting, [&](auto type) {
        vectors<OPERANDS, READS, decltype(type), uint8_t, Function>(args);
    });
}

// --- Groups of any types ------------------------------------------------------------------------

constexpr int GROUP = BERTH_CUDA_ELEMENT_GROUP;

/// Neighbours of an operand as they lie in memory, of whichever type.
struct group {
    uint32_t words[2 * GROUP];
};

/// Where a group is: in which row, from which element on, and how many elements of it are there.
struct group_place {
    int64_t row;
    int64_t column;
    int32_t count;
};

DEVICE group_place find_group(const element_args& args, int64_t at) {
    group_place place;
    int64_t column = at;
    place.row = divide_any(args.groups, args.is_small, column);
    place.column = column * GROUP;
    const int64_t left = args.width - place.column;
    place.count = left < GROUP ? (int32_t)left : GROUP;
    return place;
}

/// Loads only: what waits for one group does not keep the next from being asked for.
DEVICE void load_group(
    const element_args& args, int i, const group_place& place, int64_t row, group& to) {
    const int64_t first = row + place.column * args.steps[i];
    with_item(args.item_bytes[i], [&](auto item) {
        typedef decltype(item) Item;
        const Item* from = (const Item*)args.operands[i] + first;
        pack<Item, GROUP> made;
        if (args.is_whole[i] && place.count == GROUP) {
            made = load_pack<Item, GROUP>(from);
        } else {
            UNROLL
            for (int n = 0; n < GROUP; ++n)
                made.put(n, n < place.count ? from[n * args.steps[i]] : (Item)0);
        }
        memcpy(to.words, made.words, sizeof made.words);
    });
}

template <int OPERANDS>
DEVICE void load_groups(const element_args& args, const group_place& place, group* to) {
    const auto row = walk_to<OPERANDS>(args.walk, place.row);
    UNROLL
    for (int i = 0; i < OPERANDS; ++i)
        load_group(args, i, place, row.of[i], to[i]);
}

/// values[n] = run(element n's value).
template <class Value, class Run>
DEVICE void each_value(const group& from, berth_dtype dtype, Value (&values)[GROUP], Run run) {
    with_plain(dtype, [&](auto type) {
        pack<decltype(type), GROUP> held;
        memcpy(held.words, from.words, sizeof held.words);
        UNROLL
        for (int n = 0; n < GROUP; ++n)
            values[n] = run(value_of(held.get(n)));
    });
}

/// A group's elements as numbers of the type `meeting`.
DEVICE void values_of(const element_args& args, int i, const group& from, float (&values)[GROUP]) {
    const berth_dtype meeting = (berth_dtype)args.meeting, dtype = (berth_dtype)args.dtypes[i];
    each_value(from, dtype, values, [](auto x) { return real_of(x); });
    if (dtype == meeting || meeting == BERTH_F32) return;
    UNROLL
    for (int n = 0; n < GROUP; ++n)
        values[n] = real_as(meeting, values[n]);
}

DEVICE void values_of(const element_args& args,
                      int i,
                      const group& from,
                      int64_t (&values)[GROUP]) {
    const berth_dtype meeting = (berth_dtype)args.meeting;
    each_value(from, (berth_dtype)args.dtypes[i], values, [meeting](auto x) {
        return whole_in(meeting, x);
    });
}

template <class Out, class Result>
DEVICE void store_group_as(const element_args& args,
                           const group_place& place,
                           const Result (&results)[GROUP]) {
    Out* out = (Out*)args.out + place.row * args.width + place.column;
    pack<Out, GROUP> made;
    UNROLL
    for (int n = 0; n < GROUP; ++n)
        made.put(n, result_as<Out>(results[n]));
    if (args.is_whole_out && place.count == GROUP) {
        store_pack(out, made);
        return;
    }
    UNROLL
    for (int n = 0; n < GROUP; ++n)
        if (n < place.count) out[n] = made.get(n);
}

DEVICE void store_group(const element_args& args,
                        const group_place& place,
                        const float (&results)[GROUP]) {
    with_real(args.out_dtype,
              [&](auto type) { store_group_as<decltype(type)>(args, place, results); });
}

DEVICE void store_group(const element_args& args,
                        const group_place& place,
                        const bool (&results)[GROUP]) {
    store_group_as<uint8_t>(args, place, results);
}

DEVICE void store_group(const element_args& args,
                        const group_place& place,
                        const int64_t (&results)[GROUP]) {
    if (args.out_dtype == BERTH_BOOL) {
        bool truths[GROUP];
        UNROLL
        for (int n = 0; n < GROUP; ++n)
            truths[n] = results[n] != 0;
        store_group(args, place, truths);
        return;
    }
    with_whole(args.out_dtype,
               [&](auto type) { store_group_as<decltype(type)>(args, place, results); });
}

template <class Value, class Math, int OPERANDS, class Function>
DEVICE void compute_group(const element_args& args, const group_place& place, const group* held) {
    Value x[OPERANDS][GROUP];
    UNROLL
    for (int i = 0; i < OPERANDS; ++i)
        values_of(args, i, held[i], x[i]);
    decltype(apply<Math>(Function(), args, Value(), Value())) results[GROUP];
    UNROLL
    for (int n = 0; n < GROUP; ++n)
        results[n] = apply<Math>(Function(), args, x[0][n], x[OPERANDS - 1][n]);
    store_group(args, place, results);
}

/// Each thread has some groups of every operand under way; all are read before one is written.
template <class Value, class Math, int OPERANDS, class Function>
DEVICE void groups_of(const element_args& args) {
    constexpr int READS = BERTH_CUDA_ELEMENT_GROUPS;
    const int64_t last = args.group_count - 1;
    const int64_t a_round = (int64_t)thread_count() * READS;
    const int64_t step = block_count() * a_round;
    for (int64_t first = block_index() * a_round + thread_index(); first <= last; first += step) {
        group held[READS][OPERANDS];
        UNROLL
        for (int r = 0; r < READS; ++r) {
            const int64_t at = first + (int64_t)r * thread_count();
            if (at <= last) load_groups<OPERANDS>(args, find_group(args, at), held[r]);
        }
        UNROLL
        for (int r = 0; r < READS; ++r) {
            const int64_t at = first + (int64_t)r * thread_count();
            if (at <= last)
                compute_group<Value, Math, OPERANDS, Function>(args, find_group(args, at), held[r]);
        }
    }
}

template <int OPERANDS, class Function> DEVICE void real_groups(const element_args& args) {
    if (is_half_type((berth_dtype)args.out_dtype))
        groups_of<float, quick_math, OPERANDS, Function>(args);
    else
        groups_of<float, exact_math, OPERANDS, Function>(args);
}

template <int OPERANDS, class Function> DEVICE void whole_groups(const element_args& args) {
    groups_of<int64_t, exact_math, OPERANDS, Function>(args);
}

/// Functions that the two kinds of arithmetic compute alike.
template <int OPERANDS, class Function> DEVICE void any_groups(const element_args& args) {
    if (args.is_real)
        groups_of<float, exact_math, OPERANDS, Function>(args);
    else
        whole_groups<OPERANDS, Function>(args);
}

} // namespace

#endif // BERTH_DEVICE_CUDA_ELEMENTS_CUH
