// SPDX-License-Identifier: Apache-2.0
// The ops. Each returns a new tensor that the caller owns, or NULL with the first error kept in the
// context; an op given NULL returns NULL. Operands are borrowed, or handed over with berth_move().
// Element types are written after the shape; "floats" are f32, f16, bf16. Negative dimensions count
// from the end.
#ifndef BERTH_OPS_H
#define BERTH_OPS_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Creation: rank 0 .. BERTH_MAX_RANK, dims [rank], each >= 0.

/// Undefined content; any plain (not quantised) dtype.
BERTH_API berth_tensor* berth_empty(berth_context* ctx,
                                    berth_dtype dtype,
                                    int32_t rank,
                                    const int64_t* dims);
/// Zeros; any plain dtype.
BERTH_API berth_tensor* berth_zeros(berth_context* ctx,
                                    berth_dtype dtype,
                                    int32_t rank,
                                    const int64_t* dims);
/// Ones; any plain dtype.
BERTH_API berth_tensor* berth_ones(berth_context* ctx,
                                   berth_dtype dtype,
                                   int32_t rank,
                                   const int64_t* dims);
/// `value` converted to `dtype`, in every element; any plain dtype.
BERTH_API berth_tensor* berth_full(
    berth_context* ctx, double value, berth_dtype dtype, int32_t rank, const int64_t* dims);
/// [ceil((stop - start) / step)]: start, start + step, ...; f32, i32, i64.
BERTH_API berth_tensor* berth_arange(
    berth_context* ctx, double start, double stop, double step, berth_dtype dtype);
/// Uniform in [low, high), floats; the same seed gives the same numbers on every run.
BERTH_API berth_tensor* berth_rand(berth_context* ctx,
                                   uint64_t seed,
                                   float low,
                                   float high,
                                   berth_dtype dtype,
                                   int32_t rank,
                                   const int64_t* dims);
/// Normal with the given mean and deviation, floats.
BERTH_API berth_tensor* berth_randn(berth_context* ctx,
                                    uint64_t seed,
                                    float mean,
                                    float deviation,
                                    berth_dtype dtype,
                                    int32_t rank,
                                    const int64_t* dims);

// Views: share the operand's storage, copy nothing, cost no memory. A moved operand's reference
// ends with the call.

/// Elements start, start + step, ... below stop of dimension `dim`; step >= 1; start and stop are
/// clamped to the dimension, negative count from the end (INT64_MAX: to the end). The last
/// dimension of a quantised tensor cannot be sliced.
BERTH_API berth_tensor* berth_slice(
    berth_context* ctx, berth_tensor* x, int32_t dim, int64_t start, int64_t stop, int64_t step);
/// Swaps two dimensions.
BERTH_API berth_tensor* berth_transpose(berth_context* ctx,
                                        berth_tensor* x,
                                        int32_t dim_a,
                                        int32_t dim_b);
/// The same elements, row-major, in another shape; one size may be -1 (inferred). A view where the
/// strides allow it, else a copy. Not for quantised tensors.
BERTH_API berth_tensor* berth_reshape(berth_context* ctx,
                                      berth_tensor* x,
                                      int32_t rank,
                                      const int64_t* dims);

// Layout and type.

/// x itself (a new reference) if it is contiguous, else a contiguous copy.
BERTH_API berth_tensor* berth_contiguous(berth_context* ctx, berth_tensor* x);
/// A contiguous copy, always.
BERTH_API berth_tensor* berth_copy(berth_context* ctx, berth_tensor* x);
/// Elements converted to `dtype` (round to nearest even; to integers toward zero, saturating, NaN
/// to 0). From a quantised type to floats only. A new reference to x if it has that dtype already.
BERTH_API berth_tensor* berth_cast(berth_context* ctx, berth_tensor* x, berth_dtype dtype);

// Elementwise, with NumPy's broadcasting; both operands have one dtype (f32 f16 bf16 i32 i64 u8;
// div: floats). Integers wrap around; minimum and maximum of a NaN are NaN.

/// a + b.
BERTH_API berth_tensor* berth_add(berth_context* ctx, berth_tensor* a, berth_tensor* b);
/// a - b.
BERTH_API berth_tensor* berth_sub(berth_context* ctx, berth_tensor* a, berth_tensor* b);
/// a * b.
BERTH_API berth_tensor* berth_mul(berth_context* ctx, berth_tensor* a, berth_tensor* b);
/// a / b.
BERTH_API berth_tensor* berth_div(berth_context* ctx, berth_tensor* a, berth_tensor* b);
/// The smaller of a and b.
BERTH_API berth_tensor* berth_minimum(berth_context* ctx, berth_tensor* a, berth_tensor* b);
/// The larger of a and b.
BERTH_API berth_tensor* berth_maximum(berth_context* ctx, berth_tensor* a, berth_tensor* b);

// Elementwise on one operand; floats, but for neg.

/// x * scale + shift.
BERTH_API berth_tensor* berth_affine(berth_context* ctx, berth_tensor* x, float scale, float shift);
/// -x; floats, i32, i64.
BERTH_API berth_tensor* berth_neg(berth_context* ctx, berth_tensor* x);
/// e^x.
BERTH_API berth_tensor* berth_exp(berth_context* ctx, berth_tensor* x);
/// The square root of x; NaN below 0.
BERTH_API berth_tensor* berth_sqrt(berth_context* ctx, berth_tensor* x);
/// The hyperbolic tangent of x.
BERTH_API berth_tensor* berth_tanh(berth_context* ctx, berth_tensor* x);
/// 1 / (1 + e^-x).
BERTH_API berth_tensor* berth_sigmoid(berth_context* ctx, berth_tensor* x);
/// The larger of x and 0.
BERTH_API berth_tensor* berth_relu(berth_context* ctx, berth_tensor* x);
/// x * sigmoid(x).
BERTH_API berth_tensor* berth_silu(berth_context* ctx, berth_tensor* x);
/// The Gaussian error linear unit of x, in its tanh form.
BERTH_API berth_tensor* berth_gelu(berth_context* ctx, berth_tensor* x);

// Reductions over dimension `dim`, which keeps size 1 with keepdim and is dropped otherwise.

/// The sum; floats, i32, i64. Over nothing: 0.
BERTH_API berth_tensor* berth_sum(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim);
/// The mean; floats. Over nothing: NaN.
BERTH_API berth_tensor* berth_mean(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim);
/// The largest; floats, i32, i64. NaN if there is one. An empty dimension is an error.
BERTH_API berth_tensor* berth_max(berth_context* ctx, berth_tensor* x, int32_t dim, bool keepdim);
/// Index (i64) of the first of the largest, or of the first NaN. As berth_max otherwise.
BERTH_API berth_tensor* berth_argmax(berth_context* ctx,
                                     berth_tensor* x,
                                     int32_t dim,
                                     bool keepdim);
/// e^x over its sum along `dim`, which stays; floats.
BERTH_API berth_tensor* berth_softmax(berth_context* ctx, berth_tensor* x, int32_t dim);

/// x [..., E] floats, weight [E] f32 or x's dtype: x / sqrt(mean(x^2) + eps) * weight.
BERTH_API berth_tensor* berth_rms_norm(berth_context* ctx,
                                       berth_tensor* x,
                                       berth_tensor* weight,
                                       float eps);

/// a [..., M, K] x b [..., K, N] -> [..., M, N]; one float dtype; leading dimensions broadcast.
BERTH_API berth_tensor* berth_matmul(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// x [..., K] floats, weight [N, K] of any float or quantised dtype, bias [N] f32 or NULL (no
/// bias): x weight^T + bias, [..., N] in x's dtype.
BERTH_API berth_tensor* berth_linear(berth_context* ctx,
                                     berth_tensor* x,
                                     berth_tensor* weight,
                                     berth_tensor* bias);

/// Rotary position embedding.
typedef struct berth_rope_options {
    double base;           ///< 0 means 10000
    double position_scale; ///< positions are multiplied by it; 0 means 1
    int32_t rotary_dims;   ///< even; 0 means all
    bool halves;           ///< pairs (i, i + rotary_dims / 2) instead of (2i, 2i + 1)
} berth_rope_options;

/// Turns pair i of each head by the angle position * position_scale * base^(-2i / rotary_dims) /
/// divisors[i]. x [T, H, D] floats, positions [T] i32 or i64, divisors [rotary_dims / 2] f32 or
/// NULL. `options` NULL means all defaults.
BERTH_API berth_tensor* berth_rope(berth_context* ctx,
                                   berth_tensor* x,
                                   berth_tensor* positions,
                                   berth_tensor* divisors,
                                   const berth_rope_options* options);

/// q [T, H, D], k [S, K, D], v [S, K, Dv]: [T, H, Dv] in q's dtype. All floats; k and v have one
/// dtype. H is a multiple of K; query head h reads the keys and values of head h / (H / K). Query t
/// sees keys j <= query_offset + t if causal, else all; one that sees none gives zeros. scale 0
/// means 1 / sqrt(D).
BERTH_API berth_tensor* berth_attention(berth_context* ctx,
                                        berth_tensor* q,
                                        berth_tensor* k,
                                        berth_tensor* v,
                                        float scale,
                                        bool causal,
                                        int64_t query_offset);

/// table [V, E], ids i32 or i64 of any shape: rows of the table, ids.shape + [E], f32 for quantised
/// tables. An id outside the table gives a row of NaN.
BERTH_API berth_tensor* berth_embedding(berth_context* ctx, berth_tensor* table, berth_tensor* ids);

/// x with rows index[i] (i32 or i64, [n]) along `dim` replaced by rows i of src. A moved x that
/// nobody else can see is changed in place; otherwise the result is a changed copy. Rows out of
/// range are ignored.
BERTH_API berth_tensor* berth_index_copy(
    berth_context* ctx, berth_tensor* x, int32_t dim, berth_tensor* index, berth_tensor* src);

/// 1 to BERTH_OP_MAX_INPUTS tensors of one dtype and shape but for `dim`, one after another.
BERTH_API berth_tensor* berth_cat(berth_context* ctx,
                                  berth_tensor* const* tensors,
                                  size_t count,
                                  int32_t dim);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_H
