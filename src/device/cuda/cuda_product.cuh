// SPDX-License-Identifier: Apache-2.0
// What the kernels of matrix products share: the order of summation, and how operands are read.
//
// The depth is cut into segments that begin at multiples of PRODUCT_SEGMENT. Within one, an output
// adds a[k] * b[k] by fused multiply-add for k ascending, from zero; the segments' sums are added
// to zero in ascending order, then the bias. Behind the depth both operands count as zeros, which
// changes no sum. So a tile of many rows, whose threads keep a segment's sum and the total in
// registers, and kernels for few rows, whose threads share a depth by segments, give the same bits.
//
// P1: an output's bits depend on its row of a, its column of b, the depth and the bias alone.
#ifndef BERTH_DEVICE_CUDA_PRODUCT_CUH
#define BERTH_DEVICE_CUDA_PRODUCT_CUH

#include "device/cuda/cuda_weights.cuh"

#define PRODUCT_SEGMENT 128

/// How a column of b of type B is read along the depth: N values from k on, a multiple of N; zeros
/// behind the depth.
template <class B> struct columns_of {
    static constexpr int BYTES = sizeof(B);
    template <int N>
    static MEMBER void load(const berth_cuda_product_args& args,
                            const unsigned char* column,
                            int64_t k,
                            float (&to)[N]) {
        load_some((const B*)(const void*)column + k * args.b_step,
                  args.b_step,
                  args.b_form == BERTH_CUDA_FORM_ALONG,
                  args.depth - k,
                  to);
    }

    /// Values on their way, of columns that lie side by side: as they are in memory, so that nobody
    /// waits for them before unpack().
    template <int N> struct packed {
        static constexpr int EACH = (int)(16 / sizeof(B));
        lanes<B, EACH> of[N / EACH];
    };
    template <int N>
    static MEMBER void fetch(const berth_cuda_product_args& args,
                             const unsigned char* column,
                             int64_t k,
                             packed<N>& to) {
        constexpr int EACH = packed<N>::EACH;
        const B* const from = (const B*)(const void*)column + k;
        const bool is_vector = args.b_form == BERTH_CUDA_FORM_ALONG && k + N <= args.depth;
        const int64_t count = args.depth - k;
        UNROLL
        for (int i = 0; i < N / EACH; ++i) {
            if (is_vector) {
                to.of[i] = *(const lanes<B, EACH>*)(const void*)(from + i * EACH);
                continue;
            }
            to.of[i] = {};
            UNROLL
            for (int e = 0; e < EACH; ++e)
                if (i * EACH + e < count) to.of[i].of[e] = from[i * EACH + e];
        }
    }
    template <int N> static MEMBER void unpack(const packed<N>& from, float (&to)[N]) {
        constexpr int EACH = packed<N>::EACH;
        UNROLL
        for (int i = 0; i < N; ++i)
            to[i] = to_f32(from.of[i / EACH].of[i % EACH]);
    }
};

template <class Q> struct quantised_columns {
    static constexpr int BYTES = Q::BYTES;
    template <int N>
    static MEMBER void load(const berth_cuda_product_args& args,
                            const unsigned char* column,
                            int64_t k,
                            float (&to)[N]) {
        load_quantised<Q>(column, k, args.depth, to);
    }

    /// Where the values are: decoded ahead they would take too many registers.
    template <int N> struct packed {
        const unsigned char* column;
        int64_t k;
        int64_t depth;
    };
    template <int N>
    static MEMBER void fetch(const berth_cuda_product_args& args,
                             const unsigned char* column,
                             int64_t k,
                             packed<N>& to) {
        to = {column, k, args.depth};
    }
    template <int N> static MEMBER void unpack(const packed<N>& from, float (&to)[N]) {
        load_quantised<Q>(from.column, from.k, from.depth, to); // zeros of nothing
    }
};

template <> struct columns_of<q4_0> : quantised_columns<q4_0> {};
template <> struct columns_of<q4_1> : quantised_columns<q4_1> {};
template <> struct columns_of<q5_0> : quantised_columns<q5_0> {};
template <> struct columns_of<q5_1> : quantised_columns<q5_1> {};
template <> struct columns_of<q8_0> : quantised_columns<q8_0> {};
template <> struct columns_of<q4_k> : quantised_columns<q4_k> {};
template <> struct columns_of<q5_k> : quantised_columns<q5_k> {};
template <> struct columns_of<q6_k> : quantised_columns<q6_k> {};

/// Where a batch's matrices begin: elements of a, of b (blocks where it is quantised) and of out.
struct batch_place {
    int64_t a;
    int64_t b;
    int64_t out;
};

DEVICE batch_place place_of_batch(const berth_cuda_product_args& args, int64_t batch) {
    const walk_place<2> at = walk_to<2>(args.walk, batch);
    return {at.of[0], at.of[1], batch * args.out_batch};
}

/// The first element of a row of a, from its batch's place on.
DEVICE int64_t row_of_a(const berth_cuda_product_args& args, int64_t row) {
    return walk_to<1>(args.row_walk, row).of[0];
}

/// N elements of a row of a from k on, a multiple of N; zeros where the row is not there.
template <int N>
DEVICE void load_a(
    const berth_cuda_product_args& args, int64_t row_at, bool is_there, int64_t k, float (&to)[N]) {
    load_floats(args.dtype,
                args.a,
                row_at + k * args.a_step,
                args.a_step,
                args.a_form == BERTH_CUDA_FORM_ALONG,
                is_there ? args.depth - k : 0,
                to);
}

DEVICE void store_product(const berth_cuda_product_args& args,
                          const batch_place& place,
                          int64_t row,
                          int64_t column,
                          float total) {
    if (args.bias != nullptr) total += args.bias[column];
    const int64_t at = place.out + row * args.out_row + column * args.out_column;
    store_float(args.dtype, args.out, at, total);
}

#endif // BERTH_DEVICE_CUDA_PRODUCT_CUH
