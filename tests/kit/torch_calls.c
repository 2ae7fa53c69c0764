// SPDX-License-Identifier: Apache-2.0
// How the ops of stored calls are run.
#include "torch_calls.h"

#include <string.h>

#include "test.h"

static double param(const torch_call* c, size_t i) {
    assert_true(i < c->stored->param_count);
    return c->stored->params[i];
}
static int64_t integer(const torch_call* c, size_t i) { return (int64_t)param(c, i); }
static berth_dtype dtype(const torch_call* c, size_t i) {
    return torch_dtype((int32_t)param(c, i));
}
static int32_t dim(const torch_call* c, size_t i) { return (int32_t)param(c, i); }
static berth_tensor* in(const torch_call* c, size_t i) {
    return i < c->stored->input_count ? c->in[i] : NULL;
}

/// Parameters from `first` on as dimensions.
static berth_dims dims_from(const torch_call* c, size_t first) {
    berth_dims dims = {.count = (int32_t)(c->stored->param_count - first)};
    for (int32_t i = 0; i < dims.count; ++i)
        dims.dims[i] = dim(c, first + (size_t)i);
    return dims;
}

/// Parameters from `first` on as sizes; returns their number.
static int32_t sizes_from(const torch_call* c, size_t first, int64_t* sizes) {
    const int32_t count = (int32_t)(c->stored->param_count - first);
    for (int32_t i = 0; i < count; ++i)
        sizes[i] = integer(c, first + (size_t)i);
    return count;
}

#define RUN(name, expression)                                                                      \
    static void run_##name(torch_call* c) { c->out[0] = (expression); }
#define RUN_UNARY(name) RUN(name, berth_##name(c->ctx, in(c, 0)))
#define RUN_BINARY(name) RUN(name, berth_##name(c->ctx, in(c, 0), in(c, 1)))
#define RUN_REDUCE(name)                                                                           \
    RUN(name, berth_##name(c->ctx, in(c, 0), dims_from(c, 1), param(c, 0) != 0))
#define RUN_ALONG(name) RUN(name, berth_##name(c->ctx, in(c, 0), dim(c, 0)))

static void run_full(torch_call* c) {
    int64_t sizes[TORCH_MOST_PARAMS];
    const int32_t rank = sizes_from(c, 2, sizes);
    c->out[0] = berth_full(c->ctx, param(c, 0), dtype(c, 1), rank, sizes);
}

static void run_repeat(torch_call* c) {
    int64_t times[TORCH_MOST_PARAMS];
    const int32_t rank = sizes_from(c, 0, times);
    c->out[0] = berth_repeat(c->ctx, in(c, 0), rank, times);
}

static void run_pad(torch_call* c) {
    int64_t pads[TORCH_MOST_PARAMS];
    const int32_t count = sizes_from(c, 1, pads);
    c->out[0] = berth_pad(c->ctx, in(c, 0), count, pads, param(c, 0));
}

static void run_expand(torch_call* c) {
    int64_t sizes[TORCH_MOST_PARAMS];
    const int32_t rank = sizes_from(c, 0, sizes);
    c->out[0] = berth_expand(c->ctx, in(c, 0), rank, sizes);
}

static void run_reshape(torch_call* c) {
    int64_t sizes[TORCH_MOST_PARAMS];
    const int32_t rank = sizes_from(c, 0, sizes);
    c->out[0] = berth_reshape(c->ctx, in(c, 0), rank, sizes);
}

static void run_reshape_view(torch_call* c) {
    int64_t sizes[TORCH_MOST_PARAMS];
    const int32_t rank = sizes_from(c, 0, sizes);
    c->out[0] = berth_reshape_view(c->ctx, in(c, 0), rank, sizes);
}

static void run_as_strided(torch_call* c) {
    int64_t sizes[TORCH_MOST_PARAMS];
    const int32_t rank = sizes_from(c, 1, sizes) / 2;
    c->out[0] = berth_as_strided(c->ctx, in(c, 0), rank, sizes, sizes + rank, integer(c, 0));
}

static void run_split(torch_call* c) {
    berth_split(c->ctx, in(c, 0), integer(c, 0), dim(c, 1), c->out, TORCH_MOST_TENSORS);
}

static void run_split_sizes(torch_call* c) {
    int64_t sizes[TORCH_MOST_PARAMS];
    const int32_t count = sizes_from(c, 1, sizes);
    (void)berth_split_sizes(c->ctx, in(c, 0), sizes, (size_t)count, dim(c, 0), c->out);
}

static void run_chunk(torch_call* c) {
    berth_chunk(c->ctx, in(c, 0), (size_t)integer(c, 0), dim(c, 1), c->out);
}

#define EXACT(name)                                                                                \
    { #name, run_##name, 0, 0, false }
#define NEAR(name, relative, absolute)                                                             \
    { #name, run_##name, relative, absolute, false }
#define DENSE(name)                                                                                \
    { #name, run_##name, 0, 0, true }

// clang-format off
RUN_UNARY(neg) RUN_UNARY(abs) RUN_UNARY(sign) RUN_UNARY(exp) RUN_UNARY(log) RUN_UNARY(log1p)
RUN_UNARY(sqrt) RUN_UNARY(rsqrt) RUN_UNARY(reciprocal) RUN_UNARY(sin) RUN_UNARY(cos) RUN_UNARY(tanh)
RUN_UNARY(sigmoid) RUN_UNARY(relu) RUN_UNARY(gelu) RUN_UNARY(gelu_tanh) RUN_UNARY(silu)
RUN_UNARY(floor) RUN_UNARY(ceil) RUN_UNARY(round) RUN_UNARY(logical_not) RUN_UNARY(isnan)
RUN_UNARY(isinf) RUN_UNARY(isfinite) RUN_UNARY(nonzero)
RUN_BINARY(add) RUN_BINARY(sub) RUN_BINARY(mul) RUN_BINARY(div) RUN_BINARY(remainder) RUN_BINARY(pow)
RUN_BINARY(minimum) RUN_BINARY(maximum) RUN_BINARY(eq) RUN_BINARY(ne) RUN_BINARY(lt) RUN_BINARY(le)
RUN_BINARY(gt) RUN_BINARY(ge) RUN_BINARY(logical_and) RUN_BINARY(logical_or) RUN_BINARY(logical_xor)
RUN_BINARY(outer) RUN_BINARY(matmul) RUN_BINARY(embedding) RUN_BINARY(masked_select)
RUN_REDUCE(sum) RUN_REDUCE(mean) RUN_REDUCE(max) RUN_REDUCE(min) RUN_REDUCE(prod) RUN_REDUCE(any)
RUN_REDUCE(all) RUN_REDUCE(logsumexp)
RUN_ALONG(cumsum) RUN_ALONG(softmax) RUN_ALONG(log_softmax) RUN_ALONG(unsqueeze)
RUN(cast, berth_cast(c->ctx, in(c, 0), dtype(c, 0)))
RUN(clamp, berth_clamp(c->ctx, in(c, 0), param(c, 0), param(c, 1)))
RUN(where, berth_where(c->ctx, in(c, 0), in(c, 1), in(c, 2)))
RUN(var, berth_var(c->ctx, in(c, 0), dims_from(c, 2), param(c, 1), param(c, 0) != 0))
RUN(argmax, berth_argmax(c->ctx, in(c, 0), dim(c, 1), param(c, 0) != 0))
RUN(argmin, berth_argmin(c->ctx, in(c, 0), dim(c, 1), param(c, 0) != 0))
RUN(layer_norm, berth_layer_norm(c->ctx, in(c, 0), in(c, 1), in(c, 2), (float)param(c, 0)))
RUN(linear, berth_linear(c->ctx, in(c, 0), in(c, 1), in(c, 2)))
RUN(attention,
    berth_attention(c->ctx, in(c, 0), in(c, 1), in(c, 2), in(c, 3), 0, param(c, 0) != 0, integer(c, 1)))
RUN(index_select, berth_index_select(c->ctx, in(c, 0), dim(c, 0), in(c, 1)))
RUN(gather, berth_gather(c->ctx, in(c, 0), dim(c, 0), in(c, 1)))
RUN(take_along, berth_take_along(c->ctx, in(c, 0), dim(c, 0), in(c, 1)))
RUN(scatter, berth_scatter(c->ctx, in(c, 0), dim(c, 0), in(c, 1), in(c, 2)))
RUN(scatter_add, berth_scatter_add(c->ctx, in(c, 0), dim(c, 0), in(c, 1), in(c, 2)))
RUN(index_copy, berth_index_copy(c->ctx, in(c, 0), dim(c, 0), in(c, 1), in(c, 2)))
RUN(cat, berth_cat(c->ctx, c->in, c->stored->input_count, dim(c, 0)))
RUN(stack, berth_stack(c->ctx, c->in, c->stored->input_count, dim(c, 0)))
RUN(roll, berth_roll(c->ctx, in(c, 0), integer(c, 0), dim(c, 1)))
RUN(tril, berth_tril(c->ctx, in(c, 0), integer(c, 0)))
RUN(triu, berth_triu(c->ctx, in(c, 0), integer(c, 0)))
RUN(slice, berth_slice(c->ctx, in(c, 0), dim(c, 0), integer(c, 1), integer(c, 2), integer(c, 3)))
RUN(narrow, berth_narrow(c->ctx, in(c, 0), dim(c, 0), integer(c, 1), integer(c, 2)))
RUN(select, berth_select(c->ctx, in(c, 0), dim(c, 0), integer(c, 1)))
RUN(transpose, berth_transpose(c->ctx, in(c, 0), dim(c, 0), dim(c, 1)))
RUN(permute, berth_permute(c->ctx, in(c, 0), dims_from(c, 0)))
RUN(flip, berth_flip(c->ctx, in(c, 0), dims_from(c, 0)))
RUN(squeeze, berth_squeeze(c->ctx, in(c, 0), dims_from(c, 0)))
RUN(argsort, berth_argsort(c->ctx, in(c, 0), dim(c, 0), param(c, 1) != 0))
RUN(sort, berth_sort(c->ctx, in(c, 0), dim(c, 0), param(c, 1) != 0, &c->out[1]))
RUN(topk, berth_topk(c->ctx, in(c, 0), integer(c, 0), dim(c, 1), param(c, 2) != 0, &c->out[1]))
RUN(unique, berth_unique(c->ctx, in(c, 0), &c->out[1], &c->out[2]))
RUN(arange, berth_arange(c->ctx, param(c, 0), param(c, 1), param(c, 2), dtype(c, 3)))

const torch_row torch_rows[] = {
    EXACT(neg), EXACT(abs), EXACT(sign), NEAR(exp, 3e-7, 0), NEAR(log, 3e-7, 1e-7),
    NEAR(log1p, 3e-7, 0), NEAR(sqrt, 1e-7, 0), NEAR(rsqrt, 3e-7, 0), NEAR(reciprocal, 1e-7, 0),
    NEAR(sin, 3e-7, 1e-7), NEAR(cos, 3e-7, 1e-7), NEAR(tanh, 4e-7, 0), NEAR(sigmoid, 4e-7, 1e-37),
    EXACT(relu), NEAR(gelu, 2e-6, 1e-6), NEAR(gelu_tanh, 2e-6, 1e-6), NEAR(silu, 6e-7, 1e-37),
    EXACT(floor), EXACT(ceil), EXACT(round), EXACT(logical_not), EXACT(isnan), EXACT(isinf),
    EXACT(isfinite), EXACT(cast), EXACT(clamp),
    EXACT(add), EXACT(sub), EXACT(mul), NEAR(div, 1e-7, 0), NEAR(remainder, 2e-6, 1e-6),
    NEAR(pow, 1e-6, 0), EXACT(minimum), EXACT(maximum), EXACT(eq), EXACT(ne), EXACT(lt), EXACT(le),
    EXACT(gt), EXACT(ge), EXACT(logical_and), EXACT(logical_or), EXACT(logical_xor), EXACT(where),
    EXACT(outer),
    NEAR(sum, 1e-6, 2e-6), NEAR(mean, 1e-6, 1e-6), NEAR(var, 2e-6, 1e-6), EXACT(max), EXACT(min),
    NEAR(prod, 3e-6, 0), EXACT(any), EXACT(all), NEAR(logsumexp, 1e-6, 1e-6), EXACT(argmax),
    EXACT(argmin), NEAR(cumsum, 1e-6, 1e-6), NEAR(softmax, 1e-6, 1e-7), NEAR(log_softmax, 1e-6, 1e-6),
    NEAR(layer_norm, 4e-6, 2e-6),
    NEAR(matmul, 2e-6, 4e-6), NEAR(linear, 2e-6, 4e-6), NEAR(attention, 2e-6, 2e-6),
    EXACT(embedding), EXACT(index_select), EXACT(gather), EXACT(take_along), EXACT(scatter),
    NEAR(scatter_add, 1e-6, 1e-6), EXACT(index_copy), EXACT(cat), EXACT(stack), EXACT(repeat),
    EXACT(roll), EXACT(pad), EXACT(tril), EXACT(triu), EXACT(slice), EXACT(narrow), EXACT(select),
    EXACT(split), EXACT(split_sizes), EXACT(chunk), EXACT(transpose), EXACT(permute), EXACT(flip),
    EXACT(expand), EXACT(squeeze), EXACT(unsqueeze), EXACT(reshape), DENSE(reshape_view),
    DENSE(as_strided), EXACT(sort), EXACT(argsort), EXACT(topk), EXACT(nonzero),
    EXACT(masked_select), EXACT(unique), EXACT(full), NEAR(arange, 2e-7, 0),
};
// clang-format on
const size_t torch_row_count = sizeof torch_rows / sizeof torch_rows[0];

const torch_row* torch_find_row(const char* name) {
    for (size_t i = 0; i < torch_row_count; ++i)
        if (strcmp(torch_rows[i].name, name) == 0) return &torch_rows[i];
    fail_msg("no row for %s", name);
    return NULL;
}

berth_tensor* torch_load(berth_context* ctx, const torch_tensor* stored) {
    return berth_from_data(ctx, stored->data, stored->dtype, stored->rank, stored->dims);
}

void torch_release(torch_call* c) {
    berth_release_array(c->in, TORCH_MOST_TENSORS);
    berth_release_array(c->out, TORCH_MOST_TENSORS);
}
