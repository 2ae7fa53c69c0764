// SPDX-License-Identifier: Apache-2.0
// What the kernels of matrix products share: the order of summation, and how operands are read.
//
// The depth is cut into segments that begin at multiples of PRODUCT_SEGMENT. Within one, an output
// adds a[k] * b[k] by fused multiply-add for k ascending, from zero; the segments' sums are added
// to zero in ascending order, then the bias. Behind the depth both operands count as zeros, which
// changes no sum. So a tile of many rows, whose threads keep a segment's sum and the total in
// registers, and kernels for few rows, whose threads share a depth by segments, give the same bits.
// Two operands of one half type go by tensor cores, in the order that cuda_product_halves.cuh says.
//
// P1: an output's bits depend on its row of a, its column of b, the depth and the bias alone.
#ifndef BERTH_DEVICE_CUDA_PRODUCT_CUH
#define BERTH_DEVICE_CUDA_PRODUCT_CUH

#include "device/cuda/cuda_walk.cuh"
#include "device/cuda/cuda_weights.cuh"

#define PRODUCT_SEGMENT 128

/// How a column of b of type B is read along the depth: N values from k on, a multiple of N.
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
