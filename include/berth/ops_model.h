// SPDX-License-Identifier: Apache-2.0
// Products, attention, and what else models are made of.
#ifndef BERTH_OPS_MODEL_H
#define BERTH_OPS_MODEL_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_MODEL_H
