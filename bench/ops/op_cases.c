// SPDX-License-Identifier: Apache-2.0
// The calls that bench-ops measures, and why some cannot be fast.
#include "ops/op_cases.h"

#include <string.h>

// --- Calls ---------------------------------------------------------------------------------------

/// A call named run_NAME: an expression of the context `c` and the operands `d`.
#define CALL(name, expression)                                                                     \
    static berth_tensor* run_##name(const bench_data* d, berth_tensor** more) {                    \
        berth_context* c = d->ctx;                                                                 \
        (void)more;                                                                                \
        return expression;                                                                         \
    }
#define CALL_ONE(name) CALL(name, berth_##name(c, d->x))
#define CALL_TWO(name) CALL(name, berth_##name(c, d->halves[0], d->halves[1]))
#define CALL_REDUCE(name) CALL(name, berth_##name(c, d->rows, BERTH_DIMS(-1), false))

/// More tensors than one call of a kernel takes.
static berth_tensor* join_many(berth_context* c, const bench_data* d, bool is_stack) {
    enum { PARTS = 16 };
    berth_tensor* parts[PARTS];
    for (int64_t i = 0; i < PARTS; ++i)
        parts[i] = berth_move(berth_narrow(c, d->x, 0, i * d->count / PARTS, d->count / PARTS));
    return is_stack ? berth_stack(c, parts, PARTS, 0) : berth_cat(c, parts, PARTS, 0);
}

CALL(full, berth_full(c, 1.5, d->dtype, 1, &d->count))
CALL(arange, berth_arange(c, 0, (double)d->count, 1, d->dtype))
CALL(rand, berth_rand(c, 1, 0, 1, d->dtype, 1, &d->count))
CALL(randn, berth_randn(c, 1, 0, 1, d->dtype, 1, &d->count))
CALL(randint, berth_randint(c, 1, 0, 100, d->dtype, 1, &d->count))

CALL(cast_f32, berth_cast(c, d->x, BERTH_F32))
CALL(cast_f16, berth_cast(c, d->x, BERTH_F16))
CALL(cast_i64, berth_cast(c, d->x, BERTH_I64))
CALL(cast_bool, berth_cast(c, d->x, BERTH_BOOL))
CALL(affine, berth_affine(c, d->x, 0.5f, 1))
CALL_ONE(neg)
CALL_ONE(abs)
CALL_ONE(sign)
CALL_ONE(relu)
CALL_ONE(floor)
CALL_ONE(ceil)
CALL_ONE(round)
CALL_ONE(exp)
CALL_ONE(log)
CALL_ONE(log1p)
CALL_ONE(sqrt)
CALL_ONE(rsqrt)
CALL_ONE(reciprocal)
CALL_ONE(sin)
CALL_ONE(cos)
CALL_ONE(tanh)
CALL_ONE(sigmoid)
CALL_ONE(silu)
CALL_ONE(gelu)
CALL_ONE(gelu_tanh)
CALL_ONE(logical_not)
CALL_ONE(isnan)
CALL_ONE(isinf)
CALL_ONE(isfinite)

CALL_TWO(add)
CALL_TWO(sub)
CALL_TWO(mul)
CALL_TWO(div)
CALL_TWO(minimum)
CALL_TWO(maximum)
CALL_TWO(remainder)
CALL_TWO(pow)
CALL_TWO(eq)
CALL_TWO(ne)
CALL_TWO(lt)
CALL_TWO(le)
CALL_TWO(gt)
CALL_TWO(ge)
CALL_TWO(logical_and)
CALL_TWO(logical_or)
CALL_TWO(logical_xor)
CALL(add_row, berth_add(c, d->rows, d->vector))
CALL(add_turned, berth_add(c, d->squares[0], berth_move(berth_transpose(c, d->squares[1], 0, 1))))
CALL(where, berth_where(c, d->half_mask, d->halves[0], d->halves[1]))
CALL(clamp, berth_clamp(c, d->x, 0.75, 1.25))
CALL(outer, berth_outer(c, d->vector, d->vector))

CALL_REDUCE(sum)
CALL_REDUCE(prod)
CALL_REDUCE(max)
CALL_REDUCE(min)
CALL_REDUCE(mean)
CALL(var, berth_var(c, d->rows, BERTH_DIMS(-1), 1, false))
CALL_REDUCE(logsumexp)
CALL_REDUCE(any)
CALL_REDUCE(all)
CALL(argmax, berth_argmax(c, d->rows, -1, false))
CALL(argmin, berth_argmin(c, d->rows, -1, false))
CALL(sum_first, berth_sum(c, d->rows, BERTH_DIMS(0), false))
CALL(sum_all, berth_sum(c, d->x, BERTH_ALL_DIMS, false))
CALL(max_first, berth_max(c, d->rows, BERTH_DIMS(0), false))
CALL(argmax_all, berth_argmax(c, d->x, 0, false))
CALL(cumsum, berth_cumsum(c, d->rows, -1))
CALL(cumsum_first, berth_cumsum(c, d->rows, 0))
CALL(softmax, berth_softmax(c, d->rows, -1))
CALL(log_softmax, berth_log_softmax(c, d->rows, -1))
CALL(softmax_first, berth_softmax(c, d->rows, 0))
CALL(layer_norm, berth_layer_norm(c, d->rows, d->vector, d->vector, 1e-5f))
CALL(rms_norm, berth_rms_norm(c, d->rows, d->vector, 1e-5f))

CALL(matmul, berth_matmul(c, d->squares[0], d->squares[1]))
CALL(matmul_turned,
     berth_matmul(c, d->squares[0], berth_move(berth_transpose(c, d->squares[1], 0, 1))))
CALL(matmul_vector, berth_matmul(c, d->rows, d->vector))
CALL(linear, berth_linear(c, d->squares[0], d->squares[1], NULL))
CALL(linear_row, berth_linear(c, d->vector, d->rows, NULL))
CALL(rope, berth_rope(c, d->heads, d->positions, NULL, NULL))
CALL(rope_halves,
     berth_rope(c, d->heads, d->positions, NULL, &(berth_rope_options){.halves = true}))
CALL(attention,
     berth_attention(c, d->sequence[0], d->sequence[1], d->sequence[0], NULL, 0, false, 0))
CALL(attention_causal,
     berth_attention(c, d->sequence[0], d->sequence[1], d->sequence[0], NULL, 0, true, 0))
CALL(attention_token, berth_attention(c, d->query, d->cache[0], d->cache[1], NULL, 0, false, 0))
CALL(paged_attention,
     berth_paged_attention(
         c, d->queries, d->blocks[0], d->blocks[1], d->sequences, d->block_table, 0))

CALL(copy, berth_copy(c, d->x))
CALL(copy_turned, berth_contiguous(c, berth_move(berth_transpose(c, d->rows, 0, 1))))
CALL(copy_flipped, berth_contiguous(c, berth_move(berth_flip(c, d->x, BERTH_DIMS(0)))))
CALL(cat, berth_cat(c, d->halves, 2, 0))
CALL(stack, berth_stack(c, d->halves, 2, 0))
CALL(roll, berth_roll(c, d->rows, 3, -1))
CALL(repeat, berth_repeat(c, d->halves[0], 1, (int64_t[]){2}))
CALL(pad, berth_pad(c, d->rows, 2, (int64_t[]){1, 1}, 0))
CALL(tril, berth_tril(c, d->rows, 0))
CALL(triu, berth_triu(c, d->rows, 0))
CALL(cat_more, join_many(c, d, false))
CALL(stack_more, join_many(c, d, true))
CALL(embedding, berth_embedding(c, d->rows, d->row_index))
CALL(index_select, berth_index_select(c, d->rows, 0, d->row_index))
CALL(gather, berth_gather(c, d->rows, -1, d->item_index))
CALL(take_along, berth_take_along(c, d->rows, -1, d->item_index))
CALL(index_copy, berth_index_copy(c, d->rows, 0, d->row_index, d->rows))
CALL(scatter, berth_scatter(c, d->rows, -1, d->item_index, d->rows))
CALL(scatter_add, berth_scatter_add(c, d->rows, -1, d->item_index, d->rows))

CALL(sort, berth_sort(c, d->rows, -1, false, &more[0]))
CALL(sort_flat, berth_sort(c, d->x, 0, false, NULL))
CALL(argsort, berth_argsort(c, d->rows, -1, false))
CALL(topk, berth_topk(c, d->rows, 16, -1, true, &more[0]))
CALL(nonzero, berth_nonzero(c, d->x))
CALL(masked_select, berth_masked_select(c, d->x, d->mask))
CALL(unique, berth_unique(c, d->x, NULL, NULL))

// --- Arithmetic ----------------------------------------------------------------------------------

static double square_work(const bench_data* d) {
    const double side = (double)berth_tensor_dims(d->squares[0])[0];
    return 2 * side * side * side;
}

static double sequence_work(const bench_data* d) {
    const int64_t* dims = berth_tensor_dims(d->sequence[0]);
    return 4 * (double)dims[0] * (double)dims[0] * (double)dims[1] * (double)dims[2];
}

static double causal_work(const bench_data* d) { return sequence_work(d) / 2; }

// --- The table -----------------------------------------------------------------------------------

#define F32 1u << BERTH_F32
#define F16 1u << BERTH_F16
#define BF16 1u << BERTH_BF16
#define I32 1u << BERTH_I32
#define I64 1u << BERTH_I64
#define I8 1u << BERTH_I8
#define U8 1u << BERTH_U8
#define BOOL 1u << BERTH_BOOL
#define FLOATS F32 | F16 | BF16

// clang-format off
const bench_case bench_cases[] = {
    {"full", F32 | BF16 | I64 | U8, BENCH_READS_NOTHING, run_full, NULL},
    {"arange", F32 | I64, BENCH_READS_NOTHING, run_arange, NULL},
    {"rand", F32 | F16, BENCH_READS_NOTHING, run_rand, NULL},
    {"randn", F32, BENCH_READS_NOTHING, run_randn, NULL},
    {"randint", I32 | I64 | U8, BENCH_READS_NOTHING, run_randint, NULL},
    {"cast:to f32", F16 | BF16 | I64 | U8 | BOOL, BENCH_READS_X, run_cast_f32, NULL},
    {"cast:to f16", F32 | I32, BENCH_READS_X, run_cast_f16, NULL},
    {"cast:to i64", F32 | I32 | U8, BENCH_READS_X, run_cast_i64, NULL},
    {"cast:to bool", F32 | I64, BENCH_READS_X, run_cast_bool, NULL},
    {"affine", FLOATS | I64, BENCH_READS_X, run_affine, NULL},
    {"neg", FLOATS | I64 | I8, BENCH_READS_X, run_neg, NULL},
    {"abs", FLOATS | I64 | I8, BENCH_READS_X, run_abs, NULL},
    {"sign", FLOATS | I64 | I8, BENCH_READS_X, run_sign, NULL},
    {"relu", FLOATS | I64 | I8, BENCH_READS_X, run_relu, NULL},
    {"floor", FLOATS, BENCH_READS_X, run_floor, NULL},
    {"ceil", FLOATS, BENCH_READS_X, run_ceil, NULL},
    {"round", FLOATS, BENCH_READS_X, run_round, NULL},
    {"exp", FLOATS | I64, BENCH_READS_X, run_exp, NULL},
    {"log", FLOATS, BENCH_READS_X, run_log, NULL},
    {"log1p", FLOATS, BENCH_READS_X, run_log1p, NULL},
    {"sqrt", FLOATS | I64, BENCH_READS_X, run_sqrt, NULL},
    {"rsqrt", FLOATS, BENCH_READS_X, run_rsqrt, NULL},
    {"reciprocal", FLOATS, BENCH_READS_X, run_reciprocal, NULL},
    {"sin", FLOATS, BENCH_READS_X, run_sin, NULL},
    {"cos", FLOATS, BENCH_READS_X, run_cos, NULL},
    {"tanh", FLOATS, BENCH_READS_X, run_tanh, NULL},
    {"sigmoid", FLOATS, BENCH_READS_X, run_sigmoid, NULL},
    {"silu", FLOATS, BENCH_READS_X, run_silu, NULL},
    {"gelu", FLOATS, BENCH_READS_X, run_gelu, NULL},
    {"gelu_tanh", FLOATS, BENCH_READS_X, run_gelu_tanh, NULL},
    {"logical_not", F32 | F16 | I64 | U8, BENCH_READS_X, run_logical_not, NULL},
    {"isnan", F32 | F16 | I64 | U8, BENCH_READS_X, run_isnan, NULL},
    {"isinf", F32 | F16 | I64 | U8, BENCH_READS_X, run_isinf, NULL},
    {"isfinite", F32 | F16 | I64 | U8, BENCH_READS_X, run_isfinite, NULL},
    {"add", FLOATS | I32 | I64 | U8, BENCH_READS_X, run_add, NULL},
    {"sub", FLOATS | I32 | I64 | U8, BENCH_READS_X, run_sub, NULL},
    {"mul", FLOATS | I32 | I64 | U8, BENCH_READS_X, run_mul, NULL},
    {"div", FLOATS | I32 | I64 | U8, BENCH_READS_X, run_div, NULL},
    {"minimum", FLOATS | I32 | I64 | U8, BENCH_READS_X, run_minimum, NULL},
    {"maximum", FLOATS | I32 | I64 | U8, BENCH_READS_X, run_maximum, NULL},
    {"remainder", FLOATS | I32 | I64 | U8, BENCH_READS_X, run_remainder, NULL},
    {"pow", FLOATS | I32 | I64 | U8, BENCH_READS_X, run_pow, NULL},
    {"eq", F32 | F16 | I64 | U8, BENCH_READS_X, run_eq, NULL},
    {"ne", F32 | F16 | I64 | U8, BENCH_READS_X, run_ne, NULL},
    {"lt", F32 | F16 | I64 | U8, BENCH_READS_X, run_lt, NULL},
    {"le", F32 | F16 | I64 | U8, BENCH_READS_X, run_le, NULL},
    {"gt", F32 | F16 | I64 | U8, BENCH_READS_X, run_gt, NULL},
    {"ge", F32 | F16 | I64 | U8, BENCH_READS_X, run_ge, NULL},
    {"logical_and", F32 | I64 | BOOL, BENCH_READS_X, run_logical_and, NULL},
    {"logical_or", F32 | I64 | BOOL, BENCH_READS_X, run_logical_or, NULL},
    {"logical_xor", F32 | I64 | BOOL, BENCH_READS_X, run_logical_xor, NULL},
    {"add:a row to rows", F32 | BF16, BENCH_READS_X, run_add_row, NULL},
    {"add:a turned matrix", F32, BENCH_READS_SQUARES, run_add_turned, NULL},
    {"where", F32 | F16 | I64 | U8, BENCH_READS_MASK, run_where, NULL},
    {"clamp", F32 | F16 | I64 | U8, BENCH_READS_X, run_clamp, NULL},
    {"outer", F32 | I64, BENCH_READS_NOTHING, run_outer, NULL},
    {"sum", FLOATS | I64 | U8, BENCH_READS_X, run_sum, NULL},
    {"prod", FLOATS | I64 | U8, BENCH_READS_X, run_prod, NULL},
    {"max", FLOATS | I64 | U8, BENCH_READS_X, run_max, NULL},
    {"min", FLOATS | I64 | U8, BENCH_READS_X, run_min, NULL},
    {"mean", FLOATS, BENCH_READS_X, run_mean, NULL},
    {"var", FLOATS, BENCH_READS_X, run_var, NULL},
    {"logsumexp", FLOATS, BENCH_READS_X, run_logsumexp, NULL},
    {"any", F32 | BOOL, BENCH_READS_X, run_any, NULL},
    {"all", F32 | BOOL, BENCH_READS_X, run_all, NULL},
    {"argmax", F32 | BF16 | I64 | U8, BENCH_READS_X, run_argmax, NULL},
    {"argmin", F32 | BF16 | I64 | U8, BENCH_READS_X, run_argmin, NULL},
    {"sum:first dimension", F32 | BF16 | I64, BENCH_READS_X, run_sum_first, NULL},
    {"sum:all", F32 | BF16 | I64, BENCH_READS_X, run_sum_all, NULL},
    {"max:first dimension", F32 | I64, BENCH_READS_X, run_max_first, NULL},
    {"argmax:all", F32 | I64, BENCH_READS_X, run_argmax_all, NULL},
    {"cumsum", FLOATS | I64 | U8, BENCH_READS_X, run_cumsum, NULL},
    {"cumsum:first dimension", F32 | I64, BENCH_READS_X, run_cumsum_first, NULL},
    {"softmax", FLOATS, BENCH_READS_X, run_softmax, NULL},
    {"log_softmax", FLOATS, BENCH_READS_X, run_log_softmax, NULL},
    {"softmax:first dimension", F32, BENCH_READS_X, run_softmax_first, NULL},
    {"layer_norm", FLOATS, BENCH_READS_X, run_layer_norm, NULL},
    {"rms_norm", FLOATS, BENCH_READS_X, run_rms_norm, NULL},
    {"matmul", FLOATS | I32 | I64 | U8, BENCH_READS_SQUARES, run_matmul, square_work},
    {"matmul:turned", FLOATS | I32, BENCH_READS_SQUARES, run_matmul_turned, square_work},
    {"matmul:by a vector", FLOATS | I32 | I64 | U8, BENCH_READS_X, run_matmul_vector, NULL},
    {"linear", FLOATS, BENCH_READS_SQUARES, run_linear, square_work},
    {"linear:one row", FLOATS, BENCH_READS_X, run_linear_row, NULL},
    {"rope", FLOATS, BENCH_READS_X, run_rope, NULL},
    {"rope:halves", F32, BENCH_READS_X, run_rope_halves, NULL},
    {"attention", FLOATS, BENCH_READS_SEQUENCE, run_attention, sequence_work},
    {"attention:causal", F32, BENCH_READS_SEQUENCE, run_attention_causal, causal_work},
    {"attention:one token", FLOATS, BENCH_READS_CACHE, run_attention_token, NULL},
    {"paged_attention", FLOATS, BENCH_READS_CACHE, run_paged_attention, NULL},
    {"copy", F32 | F16 | I64 | U8, BENCH_READS_X, run_copy, NULL},
    {"copy:turned", F32 | F16 | I64 | U8, BENCH_READS_X, run_copy_turned, NULL},
    {"copy:flipped", F32 | U8, BENCH_READS_X, run_copy_flipped, NULL},
    {"cat", F32 | F16 | I64 | U8, BENCH_READS_X, run_cat, NULL},
    {"stack", F32 | F16 | I64 | U8, BENCH_READS_X, run_stack, NULL},
    {"roll", F32 | F16 | I64 | U8, BENCH_READS_X, run_roll, NULL},
    {"repeat", F32 | F16 | I64 | U8, BENCH_READS_HALF, run_repeat, NULL},
    {"pad", F32 | F16 | I64 | U8, BENCH_READS_X, run_pad, NULL},
    {"tril", F32 | F16 | I64 | U8, BENCH_READS_X, run_tril, NULL},
    {"triu", F32 | F16 | I64 | U8, BENCH_READS_X, run_triu, NULL},
    {"cat:sixteen", F32, BENCH_READS_X, run_cat_more, NULL},
    {"stack:sixteen", F32, BENCH_READS_X, run_stack_more, NULL},
    {"embedding", F32 | I64, BENCH_READS_ROWS, run_embedding, NULL},
    {"index_select", F32 | I64, BENCH_READS_ROWS, run_index_select, NULL},
    {"gather", F32 | I64, BENCH_READS_ITEMS, run_gather, NULL},
    {"take_along", F32 | I64, BENCH_READS_ITEMS, run_take_along, NULL},
    {"index_copy", F32 | I64, BENCH_READS_WRITES, run_index_copy, NULL},
    {"scatter", F32 | I64, BENCH_READS_SCATTERS, run_scatter, NULL},
    {"scatter_add", F32 | I64, BENCH_READS_SCATTERS, run_scatter_add, NULL},
    {"sort", F32 | F16 | I64 | U8, BENCH_READS_X, run_sort, NULL},
    {"sort:all", F32, BENCH_READS_X, run_sort_flat, NULL},
    {"argsort", F32 | I64 | U8, BENCH_READS_X, run_argsort, NULL},
    {"topk", F32 | F16 | I64 | U8, BENCH_READS_X, run_topk, NULL},
    {"nonzero", F32 | I64 | BOOL, BENCH_READS_X, run_nonzero, NULL},
    {"masked_select", F32 | F16 | I64 | U8, BENCH_READS_MASK, run_masked_select, NULL},
    {"unique", F32 | I64 | U8, BENCH_READS_X, run_unique, NULL},
};
// clang-format on
const size_t bench_case_count = sizeof bench_cases / sizeof bench_cases[0];

static double bytes_of(const berth_tensor* x) { return (double)berth_tensor_bytes(x); }

double bench_case_bytes(const bench_case* c, const bench_data* d, berth_tensor* const* results) {
    double written = 0;
    for (int i = 0; i < 3; ++i)
        if (results[i] != NULL) written += bytes_of(results[i]);
    switch (c->reads) {
    case BENCH_READS_X:
        return written + bytes_of(d->x);
    case BENCH_READS_HALF:
        return written + bytes_of(d->x) / 2;
    case BENCH_READS_MASK: // where takes half of it, and the others half
        return written + bytes_of(d->x) + bytes_of(results[0]) / bytes_of(d->x) * bytes_of(d->mask);
    case BENCH_READS_ROWS:
        return 2 * written + bytes_of(d->row_index);
    case BENCH_READS_ITEMS:
        return written + bytes_of(d->x) + bytes_of(d->item_index);
    case BENCH_READS_WRITES:
        return written + 2 * bytes_of(d->x) + bytes_of(d->row_index);
    case BENCH_READS_SCATTERS:
        return written + 2 * bytes_of(d->x) + bytes_of(d->item_index);
    case BENCH_READS_SQUARES:
        return written + 2 * bytes_of(d->squares[0]);
    case BENCH_READS_SEQUENCE:
        return written + 3 * bytes_of(d->sequence[0]);
    case BENCH_READS_CACHE:
        return written + 2 * bytes_of(d->cache[0]);
    case BENCH_READS_NOTHING:
        break;
    }
    return written;
}

// --- Reasons -------------------------------------------------------------------------------------

#define INTEGERS I32 | I64 | I8 | U8
#define ANY_DTYPE FLOATS | INTEGERS | BOOL

static const struct {
    const char* op;
    uint32_t dtypes;
    const char* reason;
} reasons[] = {
    {"rand", ANY_DTYPE, "64 random bits for each element"},
    {"randint", ANY_DTYPE, "64 random bits for each element"},
    {"randn", ANY_DTYPE, "a logarithm, a root and a cosine in double for each element"},
    {"sin", ANY_DTYPE, "computed in double, as angles lose digits when they are reduced"},
    {"cos", ANY_DTYPE, "computed in double, as angles lose digits when they are reduced"},
    {"arange", ANY_DTYPE, "computed in double"},
    {"pow", F32 | F16 | BF16, "a logarithm and a power in double"},
    {"pow", INTEGERS, "a product for each bit of the exponent"},
    {"remainder", ANY_DTYPE, "a division and its correction"},
    {"div", I32 | I64 | U8, "integers are converted first"},
    {"exp", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"log", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"log1p", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"tanh", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"sigmoid", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"silu", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"gelu_tanh", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"softmax", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"log_softmax", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"layer_norm", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"rope", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"var", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"exp", I64, "integers are converted first"},
    {"sqrt", I64, "integers are converted first"},
    {"affine", I64, "integers are converted first"},
    {"gelu", FLOATS, "arithmetic: the error function"},
    {"logsumexp", FLOATS, "a power for each element, and nothing to write"},
    {"max", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"min", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"prod", F16 | BF16, "arithmetic in f32 for two bytes of memory"},
    {"argmax", F16 | BF16 | U8, "the place of each element goes along"},
    {"argmin", F16 | BF16 | U8, "the place of each element goes along"},
    {"sum", I64 | U8, "64-bit sums"},
    {"prod", I64 | U8, "64-bit products"},
    {"cumsum", ANY_DTYPE, "each sum waits for the one before"},
    {"sum:first dimension", ANY_DTYPE, "reads short pieces far apart"},
    {"max:first dimension", ANY_DTYPE, "reads short pieces far apart"},
    {"cumsum:first dimension", ANY_DTYPE, "reads short pieces far apart"},
    {"softmax:first dimension", ANY_DTYPE, "reads short pieces far apart"},
    {"add:a turned matrix", ANY_DTYPE, "one operand is read column by column"},
    {"contiguous:turned", ANY_DTYPE, "reads column by column"},
    {"gather", ANY_DTYPE, "an index is looked at for each element"},
    {"take_along", ANY_DTYPE, "an index is looked at for each element"},
    {"scatter", ANY_DTYPE, "an index is looked at for each element"},
    {"scatter_add", ANY_DTYPE, "one sum after the other, as an index may come again"},
    {"matmul", I64, "a 64-bit product takes three instructions"},
    {"matmul", I32, "a 32-bit product takes two instructions"},
    {"matmul:turned", I32, "a 32-bit product takes two instructions"},
    {"matmul:by a vector", F16 | BF16, "rows are converted and brought into lanes"},
    {"attention", F16 | BF16, "keys and values are converted for every block of queries"},
    {"attention:one token",
     F16 | BF16,
     "keys are converted and brought into lanes for a single row"},
    {"paged_attention", F16 | BF16, "keys are converted and brought into lanes for a single row"},
    {"sort", ANY_DTYPE, "n log n"},
    {"sort:all", ANY_DTYPE, "n log n"},
    {"argsort", ANY_DTYPE, "n log n"},
    {"unique", ANY_DTYPE, "n log n"},
    {"topk", ANY_DTYPE, "each element is compared with the least that is kept"},
    {"nonzero", ANY_DTYPE, "reads twice: to count, and to write"},
    {"masked_select", ANY_DTYPE, "reads the mask twice, and moves single elements"},
};

const char* bench_case_reason(const char* op, berth_dtype dtype) {
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; ++i)
        if ((reasons[i].dtypes >> dtype & 1u) != 0 && strcmp(reasons[i].op, op) == 0)
            return reasons[i].reason;
    return NULL;
}
