// SPDX-License-Identifier: Apache-2.0
// Products, attention, and what else models are made of.
#ifndef BERTH_OPS_MODEL_H
#define BERTH_OPS_MODEL_H

#include "berth/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/// a [..., M, K] x b [..., K, N] -> [..., M, N]; leading dimensions broadcast; both floats or
/// integers of one dtype. A vector a [K] gives [..., N], a vector b [K] gives [..., M], two vectors
/// give a scalar. Any strides, without copying. Integers wrap around.
BERTH_API berth_tensor* berth_matmul(berth_context* ctx, berth_tensor* a, berth_tensor* b);

/// x [..., K] floats, weight [N, K] of any float or quantised dtype, bias [N] f32 or NULL (no
/// bias): x weight^T + bias, [..., N] in x's dtype. Operands whose last dimension is not contiguous
/// are copied first.
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
/// NULL; with a batch x [B, T, H, D], and positions [T] for all or [B, T]. `options` NULL means all
/// defaults. Operands whose last dimension is not contiguous are
/// copied first.
BERTH_API berth_tensor* berth_rope(berth_context* ctx,
                                   berth_tensor* x,
                                   berth_tensor* positions,
                                   berth_tensor* divisors,
                                   const berth_rope_options* options);

/// Attention of queries q [T, H, D] to keys k [S, K, D] and values v [S, K, Dv]: [T, H, Dv] in q's
/// dtype. All floats; k and v have one dtype. H is a multiple of K; query head h reads the keys and
/// values of head h / (H / K). With a batch in front of all three, [B, T, H, D] and so on, each
/// batch for itself.
///
/// Query t sees keys j <= query_offset + t if causal, else all, and of those what `mask` (NULL: no
/// mask) leaves: [T, S], [H, T, S] or [B, H, T, S], each size may be 1 instead; bool, true for what
/// may be seen, or floats, which are added to the scores. A query that sees nothing gives zeros.
/// (The values of keys that are hidden count 0 times, as in PyTorch: so they should be finite.)
/// `scale` 0 means 1 / sqrt(D). Operands whose last dimension is not contiguous are copied first.
/// (PyTorch's layout has heads before tokens: swap them by berth_transpose(), which copies
/// nothing.)
BERTH_API berth_tensor* berth_attention(berth_context* ctx,
                                        berth_tensor* q,
                                        berth_tensor* k,
                                        berth_tensor* v,
                                        berth_tensor* mask,
                                        float scale,
                                        bool causal,
                                        int64_t query_offset);

/// Attention of the queries of several sequences in one call, each to its own keys and values,
/// which are read where they lie: in blocks that a table names, nothing is gathered.
///
/// q [T, H, D] floats; key_blocks [N, B, K, D] and value_blocks [N, B, K, Dv], both of one float
/// type or q8_0, of any strides but the last dimension's, which is contiguous. `blocks` [M] i32 is
/// the table, `sequences` [S, 4] i32 has a row for each sequence: its first row of q, how many
/// rows, how many keys, its first entry in the table. Key j of a sequence is row j % B of block
/// blocks[first entry + j / B], whatever other sequence has that block, too. The queries are those
/// of the last keys, in order, and each sees the keys up to its own; so there are at least as many
/// keys. Rows of q follow one another from sequence to sequence; those of none give zeros.
///
/// The result is [T, H, Dv] in q's dtype: of each row what berth_attention() gives over the same
/// keys side by side, bit for bit (with q8_0: over them as f32). `scale` 0 means 1 / sqrt(D). H, D,
/// Dv and B are at most 65,536. Where the host sees the tables, numbers in them that do not fit are
/// an error; elsewhere a sequence that does not fit gives zeros, and keys in no block are not seen.
BERTH_API berth_tensor* berth_paged_attention(berth_context* ctx,
                                              berth_tensor* q,
                                              berth_tensor* key_blocks,
                                              berth_tensor* value_blocks,
                                              berth_tensor* sequences,
                                              berth_tensor* blocks,
                                              float scale);

#ifdef __cplusplus
}
#endif

#endif // BERTH_OPS_MODEL_H
