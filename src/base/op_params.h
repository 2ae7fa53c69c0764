// SPDX-License-Identifier: Apache-2.0
// Parameter structs of the built-in ops, and what each op computes: the contract between the op
// table (which checks) and the kernels (which trust). Shapes are as after the checks.
//
// Common to all: outputs are contiguous and never overlap an input, except that an op whose row
// allows it may be given output 0 exactly in the place of one operand (same address, same bytes,
// both contiguous; dtypes may differ only if their sizes agree). Inputs may have any strides (0 and
// negative too) unless said otherwise. Zero-sized tensors are valid everywhere and give zero-sized
// results. f16 and bf16 are computed in f32 and rounded once, to nearest even. Integer arithmetic
// wraps.
#ifndef BERTH_BASE_OP_PARAMS_H
#define BERTH_BASE_OP_PARAMS_H

#include "berth/dims.h"
#include "berth/op.h"

/// FILL: outputs[0] of any plain dtype and shape, no inputs. Every element is `value` converted to
/// the output's dtype (integers are exact up to 2^53 in magnitude).
typedef struct berth_fill_params {
    double value;
    berth_dtype dtype;
    int32_t rank;
    int64_t dims[BERTH_MAX_RANK];
} berth_fill_params;

/// ARANGE: outputs[0] is [count] of any plain type but bool: element i is start + i * step in
/// double, converted as by CAST.
typedef struct berth_arange_params {
    double start;
    double step;
    int64_t count;
    berth_dtype dtype;
} berth_arange_params;

/// RAND RANDN: outputs[0] f32/f16/bf16 of any shape, no inputs. Element i depends on seed and i
/// alone (a counter-based generator, so any split over threads gives the same bits).
/// RAND: uniform in [low, high); RANDN: normal with mean `low` and deviation `high`.
typedef struct berth_random_params {
    uint64_t seed;
    float low;
    float high;
    uint8_t dtype;
    int16_t rank;
    int64_t dims[BERTH_MAX_RANK];
} berth_random_params;

/// RANDINT: outputs[0] i32/i64/i8/u8 of any shape, no inputs: each of the integers of [low, high),
/// which the type holds, with the same probability; element i depends on seed and i alone.
typedef struct berth_randint_params {
    uint64_t seed;
    int64_t low;
    int64_t high;
    berth_dtype dtype;
    int32_t rank;
    int64_t dims[BERTH_MAX_RANK];
} berth_randint_params;

/// COPY (no params): inputs[0] copied to a contiguous output of the same dtype and shape. Quantised
/// inputs have last stride 1.
/// CAST: inputs[0] (any dtype, quantised too, then f32/f16/bf16 only as target) converted. Float to
/// integer truncates toward zero and saturates, NaN gives 0; anything to bool gives x != 0. May be
/// in place.
typedef struct berth_cast_params {
    berth_dtype dtype;
} berth_cast_params;

/// ADD SUB MUL DIV MINIMUM MAXIMUM REMAINDER POW (no params): NumPy broadcasting of two operands of
/// plain types, converted to outputs[0].dtype first, as by CAST: their promoted type, for DIV the
/// float type of it. Outputs[0] has the broadcast shape. ADD and MUL of bool are or and and; bool
/// is no output of SUB, REMAINDER and POW. A NaN operand of MINIMUM or MAXIMUM gives NaN. REMAINDER
/// has the divisor's sign; by 0 it is 0 for integers, NaN for floats. POW of integers with a
/// negative exponent is 0, for the base 1 or -1 the power itself. May be in the place of operand 0
/// or 1. OUTER (no params): MUL of inputs a [M] and b [N] as [M, 1] and [1, N]. Not in place.
///
/// LOGICAL_AND LOGICAL_OR LOGICAL_XOR (no params): bool, of operands of plain types that count as
/// true where they are not 0 (NaN is true). EQ NE LT LE GT GE: bool, of operands of plain types
/// converted to `dtype` first. Broadcasting and places as above.
typedef struct berth_compare_params {
    berth_dtype dtype; ///< the operands' promoted type
} berth_compare_params;

/// WHERE (no params): inputs condition (plain, true where not 0), a, b (plain), all broadcast:
/// outputs[0] is a where the condition is true, else b, both converted to outputs[0].dtype. May be
/// in the place of operand 1 or 2.
///
/// CLAMP: min(max(x, low), high) of any plain type but bool. Integers: low counts as the next whole
/// number above, high as that below, both no further than the type reaches; not NaN. Floats: both
/// are converted to f32; a NaN among the three gives NaN. May be in place.
typedef struct berth_clamp_params {
    double low;
    double high;
} berth_clamp_params;

/// NEG ABS RELU FLOOR CEIL ROUND (no params): elementwise on floats and integers, in that type;
/// integers wrap. SIGN: bool too. ROUND: halves to even. SIGN of NaN is 0.
/// EXP LOG LOG1P SQRT RSQRT RECIPROCAL SIN COS TANH SIGMOID SILU GELU GELU_TANH (no params):
/// elementwise on any plain type; integers and bool are converted to f32, which the result is.
/// LOGICAL_NOT ISNAN ISINF ISFINITE (no params): any plain type to bool.
/// AFFINE: x * scale + shift, as EXP. All may be in place.
typedef struct berth_affine_params {
    float scale;
    float shift;
} berth_affine_params;

/// SUM MEAN PROD MAX MIN ARGMAX ARGMIN VAR LOGSUMEXP ANY ALL: over the dimensions that `dims` names
/// (each exists and is named once; base/dims.h), all of them if it names none; with keepdim the
/// output keeps them with size 1. The bits of an output depend on its elements and their row-major
/// order alone.
/// SUM PROD: any plain type; floats keep theirs, integers and bool give i64. MEAN LOGSUMEXP:
/// floats. VAR: floats; the squared deviations from the mean, summed, over max(0, elements -
/// `correction`). MAX MIN: any plain type; NaN wins. ARGMAX ARGMIN: any plain type, one dimension
/// or all, output i64: the first of equals (the first NaN wins). ANY ALL: any plain type (NaN is
/// true), output bool. Over no element: 0, NaN, 1, refused (MAX .. ARGMIN), NaN, -infinity, false,
/// true.
///
/// SOFTMAX LOG_SOFTMAX: floats; over the one dimension named, maximum subtracted. May be in place.
/// CUMSUM: types as of SUM; along the one dimension named, floats added in double in an order that
/// depends on their place along it. May be in place. `keepdim` unused by all three.
typedef struct berth_reduce_params {
    berth_dims dims;
    bool keepdim;
    double correction; ///< VAR only
} berth_reduce_params;

/// RMS_NORM: inputs x [..., E] floats, optional weight [E] floats. y = x / sqrt(mean(x^2) + eps) *
/// weight.
/// LAYER_NORM: inputs x [..., E] floats, then weight and bias [E] floats where they are.
/// y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, var without correction.
/// Both in f32, each row's sums in a fixed order. May be in place.
typedef struct berth_norm_params {
    float eps;
    bool has_weight;
    bool has_bias; ///< LAYER_NORM only
} berth_norm_params;

/// MATMUL (no params): a [..., M, K] x b [..., K, N] -> [..., M, N], leading dims broadcast; a of
/// rank 1 is a row and b of rank 1 a column that the output does not have. Both of one type: f32,
/// f16, bf16 (accumulated in f32), i8, u8, i32, i64; any strides.
///
/// LINEAR (no params): inputs x [..., K] (f32, f16 or bf16, rows contiguous), w [N, K] (float types
/// or any quantised type; rows contiguous: strides[1] == 1; row stride any >= row), optional bias
/// [N] f32 contiguous. Output [..., N] in x's dtype: x w^T + bias. Accumulates in f32 over weights
/// converted exactly to f32; activations are never quantised. With call->batch_invariant each
/// output row has the same bits whatever the number of rows and threads.
///
/// ROPE: inputs x [T, H, D] f32 f16 bf16 (last stride 1), positions i32 or i64 [T], optional
/// divisors f32 [rotary_dims / 2]. For i < rotary_dims / 2: angle = (pos * position_scale) *
/// base^(-2i / rotary_dims) / divisor_i, computed in double; the pair is (2i, 2i+1), or (i, i +
/// rotary_dims/2) if `halves`. Dims from rotary_dims up are copied. May be in place.
typedef struct berth_rope_params {
    double base;
    double position_scale;
    int32_t rotary_dims;
    bool halves;
} berth_rope_params;

/// ATTENTION: inputs q [T, H, D], k [S, K, D], v [S, K, Dv]; q f32 (or f16/bf16), k and v of one
/// dtype among f32 f16 bf16; last stride 1 everywhere, other strides any. H is a multiple of K:
/// query head h reads KV head h / (H/K). Output [T, H, Dv] in q's dtype. Query row t may see keys j
/// <= query_offset + t (and j < S) if causal, else all S. A row that sees no key gives zeros.
/// softmax(q.k * scale) v in f32. Keys are processed in tiles that start at absolute multiples of a
/// fixed length, whatever T: each row's bits do not depend on T, on the other rows, on later keys
/// or on threads. With a batch in front of q, k, v and the output, each for itself. A fourth input
/// is the mask, bool or float, any strides, which broadcasts to [batch, H, T, S].
typedef struct berth_attention_params {
    float scale;
    bool causal;
    int64_t query_offset;
} berth_attention_params;

/// PAGED_ATTENTION: inputs q [T, H, D] floats; key blocks [N, B, K, D] and value blocks
/// [N, B, K, Dv] of one dtype among f32 f16 bf16 q8_0, B <= 65,536; last stride 1 in these, other
/// strides any; i32 `sequences` [S, 4 or 6] and `blocks` [M], any strides. A row of `sequences` is
/// {first row of q, rows, keys, first entry in `blocks`}: key j of the sequence is row j % B of
/// block blocks[first entry + j / B]; its query i is that of its key keys - rows + i, and sees the
/// keys up to that. Output [T, H, Dv] in q's dtype, zeros in rows of no sequence. Heads, types and
/// arithmetic as of ATTENTION: each row has the bits that ATTENTION gives over the same keys side
/// by side (f32 of them for q8_0), whatever the blocks. Memory of blocks that are not named is
/// never touched.
///
/// With inputs k [U, K, D] and v [U, K, Dv] (floats, last stride 1) rows of `sequences` go on {..,
/// first row of k and v, rows}: these become the last keys of the sequence, and are written into
/// its blocks before anything is read, rounded as CAST does; to q8_0 with the largest magnitude of
/// each 32 values over 127 as scale. This changes operands 1 and 2 in place.
typedef struct berth_paged_attention_params {
    float scale;
    bool is_trusted; ///< the tables are the library's own: nobody looks through them again
} berth_paged_attention_params;

/// EMBEDDING (no params): inputs table [V, E] (any plain type and strides, or quantised with rows
/// of last stride 1), ids i32 or i64 of any shape. Output ids.shape + [E]: in the table's dtype,
/// f32 for quantised tables. Here and below, what an index out of range would read is NaN for
/// floats, 0 for the rest, and what it would write is left alone.
///
/// GATHER: inputs x of any plain dtype, index i32 or i64 of x's rank, index.dims <= x.dims but at
/// `dim` (0 <= dim < rank). Output index.dims in x's dtype: out[.., i, ..] is
/// x[.., index[.., i, ..], ..]. TAKE_ALONG: the same, but that x and index broadcast in all
/// dimensions but `dim`.
///
/// INDEX_SELECT: inputs x of any plain dtype, index i32 or i64 [n]: x with slices index[i] along
/// `dim`.
///
/// INDEX_COPY: inputs x (any plain dtype, contiguous; output 0 is x itself, updated in place by the
/// caller's doing), index i32 or i64 [n], src with x's dtype and rank, src.dims = x.dims but n at
/// `dim`. Row index[i] of x along `dim` becomes row i of src, in ascending i. Rows not named stay.
/// (outputs[0].data == inputs[0].data always.)
///
/// SCATTER: inputs x as INDEX_COPY's, index i32 or i64 of x's rank, src with x's dtype and rank;
/// index.dims <= src.dims, and <= x.dims but at `dim`. x[.., index[.., i, ..], ..] = src[.., i,
/// ..] for every element of index, in ascending i. SCATTER_ADD: += instead, computed and rounded in
/// the dtype at every step; of bools the logical or.
typedef struct berth_index_params {
    int32_t dim;
} berth_index_params;

/// CAT: 1 to BERTH_OP_MAX_INPUTS inputs of plain dtypes and one rank >= 1, equal but at `dim`: one
/// after another. STACK: inputs of one shape; the output has another dimension before `dim` (0 <=
/// dim <= rank), where each input takes one place. Elements are converted to the output's dtype as
/// CAST does. With `total` < 0 the output holds these inputs alone, in the dtype that they are
/// promoted to; else it has `total` places along `dim`, of which those behind the inputs are left
/// undefined, and dtype `dtype`. `begin` is 0.
///
/// CAT_MORE, STACK_MORE: input 0 (contiguous; output 0 is itself, updated in place by the caller's
/// doing) is such an output; the others are put into it from place `begin` on, where they fit.
typedef struct berth_join_params {
    int32_t dim;
    berth_dtype dtype;
    int64_t total;
    int64_t begin;
} berth_join_params;

/// ROLL: out[.., (i + shift) mod size, ..] = x[.., i, ..] along `dim` of any plain dtype.
typedef struct berth_roll_params {
    int64_t shift;
    int32_t dim;
} berth_roll_params;

/// REPEAT: x of any plain dtype, its shape extended by 1s in front to `rank`, `times[d]` (>= 0)
/// times along dimension d.
typedef struct berth_repeat_params {
    int32_t rank;
    int64_t times[BERTH_MAX_RANK];
} berth_repeat_params;

/// PAD: x of any plain dtype with pads[d][0] elements of `value` (as FILL converts it) before and
/// pads[d][1] behind dimension d; fewer than 0 take elements of x away, no more than there are.
typedef struct berth_pad_params {
    double value;
    int64_t pads[BERTH_MAX_RANK][2];
} berth_pad_params;

/// TRIL TRIU: x of any plain dtype and rank >= 2: element [.., i, j] stays if j - i <= diagonal
/// (TRIL) or j - i >= diagonal (TRIU), else it is 0. May be in place.
typedef struct berth_triangle_params {
    int64_t diagonal;
} berth_triangle_params;

/// SORT ARGSORT: any plain dtype, stable along `dim` (0 where the rank is 0), -0 equal to 0, a NaN
/// above all else. SORT: values like x, and, where two outputs are asked for, their i64 indices
/// along `dim`; ARGSORT: the indices alone.
typedef struct berth_sort_params {
    int32_t dim;
    bool descending;
} berth_sort_params;

/// TOPK: the first `k` of SORT along `dim`, descending if `largest`; one or two outputs as there.
typedef struct berth_topk_params {
    int64_t k;
    int32_t dim;
    bool largest;
} berth_topk_params;

/// NONZERO (no params): i64 [count, rank], the indices of the elements != 0, in row-major order.
/// MASKED_SELECT (no params): inputs x of any plain dtype and mask bool, broadcast with each other;
/// [count] elements of x where the mask is set, in row-major order.
///
/// UNIQUE: any plain dtype: [count] distinct elements, ascending, of equal ones the first; each NaN
/// for itself. Then, as asked for, i64 like x: where each element is among them; and i64 [count]:
/// how often each is there.
typedef struct berth_unique_params {
    bool with_inverse;
    bool with_counts;
} berth_unique_params;

/// NOOP (no params): output has the dtype and shape of inputs[0]; the kernel does nothing (content
/// is undefined unless in place). For measuring dispatch. May be in place.

#endif // BERTH_BASE_OP_PARAMS_H
