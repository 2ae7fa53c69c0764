// SPDX-License-Identifier: Apache-2.0
// What elementwise kernels share: single elements of any plain type as f32 or i64, and the two
// loops, over vectors of one type and over elements of any.
//
// A function is a struct with real(args, a, b) on f32 and whole(args, a, b) on i64 (those of one
// operand get it twice), which give f32 or i64, to be rounded or cut to the output's type, or bool.
#ifndef BERTH_DEVICE_CUDA_ELEMENTS_CUH
#define BERTH_DEVICE_CUDA_ELEMENTS_CUH

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

DEVICE float load_float(const void* data, berth_dtype dtype, int64_t at) {
    if (dtype == BERTH_F32) return ((const float*)data)[at];
    if (dtype == BERTH_F16) return to_f32(((const f16*)data)[at]);
    return to_f32(((const bf16*)data)[at]);
}

DEVICE int64_t load_integer(const void* data, berth_dtype dtype, int64_t at) {
    switch (dtype) {
    case BERTH_I32:
        return ((const int32_t*)data)[at];
    case BERTH_I64:
        return ((const int64_t*)data)[at];
    case BERTH_I8:
        return ((const int8_t*)data)[at];
    default:
        return ((const uint8_t*)data)[at];
    }
}

/// Element `at` of any type, converted to the type `meeting`, which is one of floats.
DEVICE float load_real(const void* data, berth_dtype dtype, int64_t at, berth_dtype meeting) {
    if (dtype == meeting) return load_float(data, dtype, at);
    const float x =
        is_real_type(dtype) ? load_float(data, dtype, at) : (float)load_integer(data, dtype, at);
    return real_as(meeting, x);
}

/// The same for a type of integers, or bool.
DEVICE int64_t load_whole(const void* data, berth_dtype dtype, int64_t at, berth_dtype meeting) {
    if (is_real_type(dtype)) return whole_of(meeting, load_float(data, dtype, at));
    const int64_t x = load_integer(data, dtype, at);
    return dtype == meeting ? x : whole_as(meeting, x);
}

DEVICE void store(void* out, berth_dtype dtype, int64_t at, float x) {
    if (dtype == BERTH_F32)
        ((float*)out)[at] = x;
    else if (dtype == BERTH_F16)
        ((f16*)out)[at] = from_f32<f16>(x);
    else
        ((bf16*)out)[at] = from_f32<bf16>(x);
}

DEVICE void store(void* out, berth_dtype dtype, int64_t at, int64_t x) {
    switch (dtype) {
    case BERTH_I32:
        ((int32_t*)out)[at] = (int32_t)x;
        break;
    case BERTH_I64:
        ((int64_t*)out)[at] = x;
        break;
    case BERTH_BOOL:
        ((uint8_t*)out)[at] = x != 0;
        break;
    default:
        ((uint8_t*)out)[at] = (uint8_t)x;
        break;
    }
}

DEVICE void store(void* out, berth_dtype, int64_t at, bool x) { ((uint8_t*)out)[at] = x; }

// --- Element by element -------------------------------------------------------------------------

template <int OPERANDS, class Function>
DEVICE void real_element(const element_args& args, const walk_place<OPERANDS>& place, int64_t at) {
    Function function;
    const berth_dtype meeting = (berth_dtype)args.meeting;
    float x[2];
    UNROLL
    for (int i = 0; i < OPERANDS; ++i)
        x[i] = load_real(args.operands[i], (berth_dtype)args.dtypes[i], place.of[i], meeting);
    store(args.out, (berth_dtype)args.out_dtype, at, function.real(args, x[0], x[OPERANDS - 1]));
}

template <int OPERANDS, class Function>
DEVICE void whole_element(const element_args& args, const walk_place<OPERANDS>& place, int64_t at) {
    Function function;
    const berth_dtype meeting = (berth_dtype)args.meeting;
    int64_t x[2];
    UNROLL
    for (int i = 0; i < OPERANDS; ++i)
        x[i] = load_whole(args.operands[i], (berth_dtype)args.dtypes[i], place.of[i], meeting);
    store(args.out, (berth_dtype)args.out_dtype, at, function.whole(args, x[0], x[OPERANDS - 1]));
}

template <int OPERANDS, class Function> DEVICE void real_elements(const element_args& args) {
    for (int64_t i = grid_first(); i < args.walk.count; i += grid_step())
        real_element<OPERANDS, Function>(args, walk_to<OPERANDS>(args.walk, i), i);
}

template <int OPERANDS, class Function> DEVICE void whole_elements(const element_args& args) {
    for (int64_t i = grid_first(); i < args.walk.count; i += grid_step())
        whole_element<OPERANDS, Function>(args, walk_to<OPERANDS>(args.walk, i), i);
}

template <int OPERANDS, class Function> DEVICE void any_elements(const element_args& args) {
    if (args.is_real)
        real_elements<OPERANDS, Function>(args);
    else
        whole_elements<OPERANDS, Function>(args);
}

// --- Vectors ------------------------------------------------------------------------------------

/// What a function takes of an element: f32 or i64.
DEVICE float value_of(float x) { return x; }
DEVICE float value_of(f16 x) { return to_f32(x); }
DEVICE float value_of(bf16 x) { return to_f32(x); }
DEVICE int64_t value_of(int32_t x) { return x; }
DEVICE int64_t value_of(int64_t x) { return x; }
DEVICE int64_t value_of(uint8_t x) { return x; }

template <class Function>
DEVICE auto apply(Function f, const element_args& args, float a, float b) {
    return f.real(args, a, b);
}
template <class Function>
DEVICE auto apply(Function f, const element_args& args, int64_t a, int64_t b) {
    return f.whole(args, a, b);
}

template <class T> constexpr bool is_f32 = false;
template <> constexpr bool is_f32<float> = true;

/// What a function gives, as an element.
template <class Out, class Result> DEVICE Out result_as(Result x) {
    if constexpr (is_f32<Result>)
        return from_f32<Out>(x);
    else
        return (Out)x;
}

/// 16 bytes of elements, in registers of 32 bits.
typedef lanes<uint32_t, 4> words;

template <class T> constexpr int lanes_of = (int)(sizeof(words) / sizeof(T));

/// Element `n` of the words at `from`.
template <class T> DEVICE T element_of(const uint32_t* from, int n) {
    T x;
    if constexpr (sizeof(T) < 4) {
        constexpr int a_word = 4 / (int)sizeof(T);
        constexpr uint32_t mask = (1u << (8 * sizeof(T) % 32)) - 1u;
        const uint32_t bits = from[n / a_word] >> (n % a_word * 8 * (int)sizeof(T)) & mask;
        memcpy(&x, &bits, sizeof x);
    } else {
        memcpy(&x, from + n * ((int)sizeof(T) / 4), sizeof x);
    }
    return x;
}

/// Makes it element `n`; elements of less than a word come in order.
template <class T> DEVICE void put_element(uint32_t* to, int n, T x) {
    if constexpr (sizeof(T) < 4) {
        constexpr int a_word = 4 / (int)sizeof(T);
        uint32_t bits = 0;
        memcpy(&bits, &x, sizeof x);
        const uint32_t before = n % a_word == 0 ? 0 : to[n / a_word];
        to[n / a_word] = before | bits << (n % a_word * 8 * (int)sizeof(T));
    } else {
        memcpy(to + n * ((int)sizeof(T) / 4), &x, sizeof x);
    }
}

/// 16 bytes of elements in one access, or one element that often.
template <class T> DEVICE words load_words(const void* data, int64_t at, bool is_repeated) {
    const T* from = (const T*)data + at;
    if (!is_repeated) return *(const words*)from;
    const T x = *from;
    words made;
    UNROLL
    for (int n = 0; n < lanes_of<T>; ++n)
        put_element(made.of, n, x);
    return made;
}

/// COUNT elements that lie in words, in one access or in several of 16 bytes.
template <class T, int COUNT> DEVICE void store_words(void* out, int64_t at, const uint32_t* from) {
    constexpr int WORDS = COUNT * (int)sizeof(T) / 4;
    constexpr int A_STORE = WORDS < 4 ? WORDS : 4;
    lanes<uint32_t, A_STORE>* to = (lanes<uint32_t, A_STORE>*)((T*)out + at);
    UNROLL
    for (int i = 0; i < WORDS; i += A_STORE) {
        lanes<uint32_t, A_STORE> part;
        UNROLL
        for (int w = 0; w < A_STORE; ++w)
            part.of[w] = from[i + w];
        to[i / A_STORE] = part;
    }
}

/// The elements behind the last vector, by the first threads of all.
template <int OPERANDS, class T, class Out, class Function>
DEVICE void tail_elements(const element_args& args) {
    if (grid_first() >= args.tail) return;
    const int64_t at = args.tail_begin + grid_first();
    const T a = ((const T*)args.operands[0])[args.is_repeated[0] ? 0 : at];
    T b = a;
    if (OPERANDS == 2) b = ((const T*)args.operands[1])[args.is_repeated[1] ? 0 : at];
    const auto result = apply(Function(), args, value_of(a), value_of(b));
    ((Out*)args.out)[at] = result_as<Out>(result);
}

template <int OPERANDS, class T, class Out, class Function>
DEVICE void compute_vector(const element_args& args, const words* held, int64_t at) {
    constexpr int N = lanes_of<T>;
    uint32_t made[N * sizeof(Out) / 4];
    UNROLL
    for (int n = 0; n < N; ++n) {
        const auto a = value_of(element_of<T>(held[0].of, n));
        const auto b = value_of(element_of<T>(held[OPERANDS - 1].of, n));
        put_element<Out>(made, n, result_as<Out>(apply(Function(), args, a, b)));
    }
    store_words<Out, N>(args.out, at * N, made);
}

/// Vectors that lie one after another in all operands. Each thread has READS of every operand under
/// way before it computes; all are read before one is written, as the output may lie in an
/// operand's place.
template <int OPERANDS, int READS, class T, class Out, class Function>
DEVICE void dense_vectors(const element_args& args) {
    const int64_t last = args.walk.count - 1;
    const int64_t a_round = (int64_t)thread_count() * READS;
    const int64_t step = block_count() * a_round;
    for (int64_t first = block_index() * a_round + thread_index(); first <= last; first += step) {
        words held[READS][OPERANDS];
        UNROLL
        for (int r = 0; r < READS; ++r) {
            // a thread behind the end reads the last vector too, and drops it
            const int64_t at = first + (int64_t)r * thread_count();
            UNROLL
            for (int i = 0; i < OPERANDS; ++i)
                held[r][i] = ((const words*)args.operands[i])[at < last ? at : last];
        }
        UNROLL
        for (int r = 0; r < READS; ++r) {
            const int64_t at = first + (int64_t)r * thread_count();
            if (at <= last) compute_vector<OPERANDS, T, Out, Function>(args, held[r], at);
        }
    }
}

/// Where vector `at` lies in each operand. Walks of several dimensions are small.
template <int OPERANDS>
DEVICE walk_place<OPERANDS> vector_place(const element_args& args, int64_t at) {
    if (args.walk.rank > 1) return walk_to<OPERANDS>(args.walk, at);
    walk_place<OPERANDS> place;
    UNROLL
    for (int i = 0; i < OPERANDS; ++i)
        place.of[i] = at * args.walk.strides[i][0];
    return place;
}

template <int OPERANDS, int READS, class T, class Out, class Function>
DEVICE void vectors(const element_args& args) {
    tail_elements<OPERANDS, T, Out, Function>(args);
    if (args.is_dense) {
        dense_vectors<OPERANDS, READS, T, Out, Function>(args);
        return;
    }
    for (int64_t at = grid_first(); at < args.walk.count; at += grid_step()) {
        const auto place = vector_place<OPERANDS>(args, at);
        words held[OPERANDS];
        UNROLL
        for (int i = 0; i < OPERANDS; ++i)
            held[i] = load_words<T>(args.operands[i], place.of[i], args.is_repeated[i]);
        compute_vector<OPERANDS, T, Out, Function>(args, held, at);
    }
}

/// A function of floats that gives their type.
template <int OPERANDS, int READS, class Function>
DEVICE void real_vectors(const element_args& args) {
    if (args.meeting == BERTH_F32)
        vectors<OPERANDS, READS, float, float, Function>(args);
    else if (args.meeting == BERTH_F16)
        vectors<OPERANDS, READS, f16, f16, Function>(args);
    else
        vectors<OPERANDS, READS, bf16, bf16, Function>(args);
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
    if (args.meeting == BERTH_F32)
        vectors<OPERANDS, READS, float, uint8_t, Function>(args);
    else if (args.meeting == BERTH_F16)
        vectors<OPERANDS, READS, f16, uint8_t, Function>(args);
    else if (args.meeting == BERTH_BF16)
        vectors<OPERANDS, READS, bf16, uint8_t, Function>(args);
    else
        vectors<OPERANDS, READS, int32_t, uint8_t, Function>(args);
}

} // namespace

#endif // BERTH_DEVICE_CUDA_ELEMENTS_CUH
