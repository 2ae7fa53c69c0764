// SPDX-License-Identifier: Apache-2.0
// How the elements of a reduction's output become one. A fold has
//   element   the type of the elements;
//   part      what few neighbouring elements fold to;
//   total     what all do; `nothing_*()` is either of no element and changes nothing;
//   context   what it needs to know of an output before any element;
// joins take what is of earlier elements first, and finish() writes an output.
#ifndef BERTH_DEVICE_CUDA_ROW_FOLD_CUH
#define BERTH_DEVICE_CUDA_ROW_FOLD_CUH

#include "device/cuda/cuda_row.cuh"

/// What integers are widened to: 32 bits where those hold every value.
template <class T> struct widened { using type = int32_t; };
template <> struct widened<int64_t> { using type = int64_t; };
template <> struct widened<float> { using type = float; };
template <> struct widened<f16> { using type = float; };
template <> struct widened<bf16> { using type = float; };

DEVICE float widen(float x) { return x; }
DEVICE float widen(f16 x) { return to_f32(x); }
DEVICE float widen(bf16 x) { return to_f32(x); }
DEVICE int32_t widen(uint8_t x) { return x; }
DEVICE int32_t widen(int8_t x) { return x; }
DEVICE int32_t widen(int32_t x) { return x; }
DEVICE int64_t widen(int64_t x) { return x; }

template <class T> DEVICE T narrow(float x) { return from_f32<T>(x); }
template <class T> DEVICE T narrow(int32_t x) { return (T)x; }
template <class T> DEVICE T narrow(int64_t x) { return (T)x; }

/// A value and its place among the elements.
template <class T> struct placed {
    T value;
    int64_t place;
};

/// The sum and the sum of squares of deviations from an output's first element.
struct deviations {
    double sum;
    double squares;
};

/// Sum of e^(x - largest).
struct powers {
    float largest;
    float sum;
};

template <class T> DEVICE T across(T value, uint32_t mask) { return warp_xor(value, mask); }
template <class T> DEVICE placed<T> across(placed<T> of, uint32_t mask) {
    return placed<T>{warp_xor(of.value, mask), warp_xor(of.place, mask)};
}
DEVICE deviations across(deviations of, uint32_t mask) {
    return deviations{warp_xor(of.sum, mask), warp_xor(of.squares, mask)};
}
DEVICE powers across(powers of, uint32_t mask) {
    return powers{warp_xor(of.largest, mask), warp_xor(of.sum, mask)};
}

struct no_context {};

/// What is alike for folds that know all by their elements and join parts as totals.
template <class T, class Total> struct simple_fold {
    using element = T;
    using part = Total;
    using total = Total;
    using context = no_context;
    static MEMBER context begin(const T*) { return context{}; }
    static MEMBER total whole(part x) { return x; }
};

// --- Sums and products --------------------------------------------------------------------------

template <class T> struct fold_sum_floats {
    using element = T;
    using part = float;
    using total = double;
    using context = no_context;
    static MEMBER context begin(const T*) { return context{}; }
    static MEMBER part nothing_part() { return 0.0f; }
    static MEMBER total nothing() { return 0.0; }
    static MEMBER part one(T x, int64_t, context) { return to_f32(x); }
    static MEMBER part join_parts(part a, part b) { return a + b; }
    static MEMBER total whole(part x) { return (double)x; }
    static MEMBER total join(total a, total b) { return a + b; }
    static MEMBER void finish(const berth_cuda_reduce_args& args, int64_t output, total sum) {
        const double divisor = args.finish == BERTH_CUDA_FINISH_MEAN ? (double)args.size : 1.0;
        // + 0.0: nothing but -0 gives 0, whatever was joined to it
        ((T*)args.out)[output] = from_f32<T>((float)((sum + 0.0) / divisor));
    }
};

template <class T> struct fold_prod_floats : simple_fold<T, double> {
    static MEMBER double nothing_part() { return 1.0; }
    static MEMBER double nothing() { return 1.0; }
    static MEMBER double one(T x, int64_t, no_context) { return (double)to_f32(x); }
    static MEMBER double join_parts(double a, double b) { return a * b; }
    static MEMBER double join(double a, double b) { return a * b; }
    static MEMBER void finish(const berth_cuda_reduce_args& args, int64_t output, double product) {
        ((T*)args.out)[output] = from_f32<T>((float)product);
    }
};

template <class T> struct fold_sum_integers : simple_fold<T, uint64_t> {
    static MEMBER uint64_t nothing_part() { return 0; }
    static MEMBER uint64_t nothing() { return 0; }
    static MEMBER uint64_t one(T x, int64_t, no_context) { return (uint64_t)(int64_t)x; }
    static MEMBER uint64_t join_parts(uint64_t a, uint64_t b) { return a + b; }
    static MEMBER uint64_t join(uint64_t a, uint64_t b) { return a + b; }
    static MEMBER void finish(const berth_cuda_reduce_args& args, int64_t output, uint64_t sum) {
        ((uint64_t*)args.out)[output] = sum;
    }
};

template <class T> struct fold_prod_integers : simple_fold<T, uint64_t> {
    static MEMBER uint64_t nothing_part() { return 1; }
    static MEMBER uint64_t nothing() { return 1; }
    static MEMBER uint64_t one(T x, int64_t, no_context) { return (uint64_t)(int64_t)x; }
    static MEMBER uint64_t join_parts(uint64_t a, uint64_t b) { return a * b; }
    static MEMBER uint64_t join(uint64_t a, uint64_t b) { return a * b; }
    static MEMBER void finish(const berth_cuda_reduce_args& args,
                              int64_t output,
                              uint64_t product) {
        ((uint64_t*)args.out)[output] = product;
    }
};

// --- Extremes -----------------------------------------------------------------------------------

DEVICE bool is_nan(float x) { return x != x; }
DEVICE bool is_nan(int32_t) { return false; }
DEVICE bool is_nan(int64_t) { return false; }

/// True if `x` exceeds `kept`: is larger, or less if IS_LEAST, or is a NaN where `kept` is none.
template <bool IS_LEAST, class T> DEVICE bool exceeds(T x, T kept) {
    const bool is_beyond = IS_LEAST ? x < kept : x > kept;
    return is_beyond || (is_nan(x) && !is_nan(kept));
}

/// What every value exceeds or equals.
template <bool IS_LEAST, class T> struct furthest;
template <bool IS_LEAST> struct furthest<IS_LEAST, float> {
    static MEMBER float get() { return IS_LEAST ? INFINITY : -INFINITY; }
};
template <bool IS_LEAST> struct furthest<IS_LEAST, int32_t> {
    static MEMBER int32_t get() { return IS_LEAST ? INT32_MAX : INT32_MIN; }
};
template <bool IS_LEAST> struct furthest<IS_LEAST, int64_t> {
    static MEMBER int64_t get() { return IS_LEAST ? INT64_MAX : INT64_MIN; }
};

template <class T, bool IS_LEAST> struct fold_extreme : simple_fold<T, typename widened<T>::type> {
    using wide = typename widened<T>::type;
    static MEMBER wide nothing_part() { return furthest<IS_LEAST, wide>::get(); }
    static MEMBER wide nothing() { return furthest<IS_LEAST, wide>::get(); }
    static MEMBER wide one(T x, int64_t, no_context) { return widen(x); }
    static MEMBER wide join_parts(wide a, wide b) { return exceeds<IS_LEAST>(b, a) ? b : a; }
    static MEMBER wide join(wide a, wide b) { return join_parts(a, b); }
    static MEMBER void finish(const berth_cuda_reduce_args& args, int64_t output, wide value) {
        ((T*)args.out)[output] = narrow<T>(value);
    }
};

template <class T, bool IS_LEAST>
struct fold_place : simple_fold<T, placed<typename widened<T>::type>> {
    using wide = typename widened<T>::type;
    using pair = placed<wide>;
    static MEMBER pair nothing_part() { return pair{furthest<IS_LEAST, wide>::get(), INT64_MAX}; }
    static MEMBER pair nothing() { return nothing_part(); }
    static MEMBER pair one(T x, int64_t place, no_context) { return pair{widen(x), place}; }
    static MEMBER pair join_parts(pair a, pair b) {
        if (exceeds<IS_LEAST>(b.value, a.value)) return b;
        if (exceeds<IS_LEAST>(a.value, b.value)) return a;
        return a.place < b.place ? a : b; // equal, or both NaN
    }
    static MEMBER pair join(pair a, pair b) { return join_parts(a, b); }
    static MEMBER void finish(const berth_cuda_reduce_args& args, int64_t output, pair found) {
        ((int64_t*)args.out)[output] = found.place;
    }
};

// --- Variance -----------------------------------------------------------------------------------

// In double, from the output's first element: that is so far from the mean that cancellation could
// be seen only where it makes the variance itself as large.
template <class T> struct fold_variance {
    using element = T;
    using part = deviations;
    using total = deviations;
    using context = double;
    static MEMBER context begin(const T* first) {
        return first != nullptr ? (double)to_f32(*first) : 0.0;
    }
    static MEMBER part nothing_part() { return part{0.0, 0.0}; }
    static MEMBER total nothing() { return total{0.0, 0.0}; }
    static MEMBER part one(T x, int64_t, context shift) {
        const double deviation = (double)to_f32(x) - shift;
        return part{deviation, rounded_product(deviation, deviation)};
    }
    static MEMBER part join_parts(part a, part b) {
        return part{a.sum + b.sum, a.squares + b.squares};
    }
    static MEMBER total whole(part x) { return x; }
    static MEMBER total join(total a, total b) { return join_parts(a, b); }
    static MEMBER void finish(const berth_cuda_reduce_args& args, int64_t output, total of) {
        const double size = (double)args.size;
        const double squares = of.squares - rounded_product(of.sum, of.sum / size);
        const double divisor = fmax(0.0, size - args.correction);
        // what is left of squares may be a little below 0
        const double variance = (squares < 0.0 ? 0.0 : squares) / divisor;
        ((T*)args.out)[output] = from_f32<T>((float)variance);
    }
};

// --- Logarithms of sums of powers ---------------------------------------------------------------

template <class T> struct fold_powers : simple_fold<T, powers> {
    static MEMBER powers nothing_part() { return powers{-INFINITY, 0.0f}; }
    static MEMBER powers nothing() { return nothing_part(); }
    static MEMBER powers one(T x, int64_t, no_context) { return powers{to_f32(x), 1.0f}; }
    static MEMBER powers join_parts(powers a, powers b) {
        const bool is_first = a.largest >= b.largest;
        const float high = is_first ? a.largest : b.largest;
        const float low = is_first ? b.largest : a.largest;
        // equal ones may be infinite, whose difference is not 0
        const float factor = low == high ? 1.0f : expf(low - high);
        return powers{high, fmaf(is_first ? b.sum : a.sum, factor, is_first ? a.sum : b.sum)};
    }
    static MEMBER powers join(powers a, powers b) { return join_parts(a, b); }
    static MEMBER void finish(const berth_cuda_reduce_args& args, int64_t output, powers of) {
        if (args.finish == BERTH_CUDA_FINISH_POWERS) {
            const bool is_finite = of.largest - of.largest == 0.0f;
            float* pair = (float*)args.out + 2 * output;
            pair[0] = of.largest;
            pair[1] = is_finite ? of.sum : NAN; // as x - largest is
            return;
        }
        ((T*)args.out)[output] = from_f32<T>((float)(log((double)of.sum) + (double)of.largest));
    }
};

// --- Truth --------------------------------------------------------------------------------------

DEVICE bool is_true(float x) { return !(x == 0.0f); }
DEVICE bool is_true(int32_t x) { return x != 0; }
DEVICE bool is_true(int64_t x) { return x != 0; }

template <class T, bool IS_ALL> struct fold_truth : simple_fold<T, uint32_t> {
    static MEMBER uint32_t nothing_part() { return IS_ALL; }
    static MEMBER uint32_t nothing() { return IS_ALL; }
    static MEMBER uint32_t one(T x, int64_t, no_context) { return is_true(widen(x)); }
    static MEMBER uint32_t join_parts(uint32_t a, uint32_t b) { return IS_ALL ? a & b : a | b; }
    static MEMBER uint32_t join(uint32_t a, uint32_t b) { return join_parts(a, b); }
    static MEMBER void finish(const berth_cuda_reduce_args& args, int64_t output, uint32_t truth) {
        ((uint8_t*)args.out)[output] = (uint8_t)truth;
    }
};

#endif // BERTH_DEVICE_CUDA_ROW_FOLD_CUH
