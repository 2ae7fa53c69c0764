// SPDX-License-Identifier: Apache-2.0
// The words of the op page.
#include "ops/op_docs.h"

#define PLAIN "plain"
#define FLOATS "floats"
#define NUMBERS "floats, integers"
#define PROMOTED "plain -> promoted"
#define PROMOTED_NUMBERS "plain, not both bool -> promoted"
#define PREDICATE "plain -> bool"
#define ONE_DIM "x without `dim`, or 1 there"
#define REDUCED "x without `dims`, or 1 there"
#define SUMMED "floats; integers, bool -> i64"

// clang-format off
const berth_op_doc berth_op_docs[] = {
    // creation
    {"empty", "", "`dims`", PLAIN, "np.empty(dims, dtype)", "torch.empty(dims, dtype=)"},
    {"zeros", "full", "`dims`", PLAIN, "np.zeros(dims, dtype)", "torch.zeros(dims, dtype=)"},
    {"ones", "full", "`dims`", PLAIN, "np.ones(dims, dtype)", "torch.ones(dims, dtype=)"},
    {"full", "full", "`dims`", PLAIN, "np.full(dims, value, dtype)", "torch.full(dims, value, dtype=)"},
    {"scalar", "full", "[]", PLAIN, "np.array(value, dtype)", "torch.tensor(value, dtype=)"},
    {"from_data", "", "`dims`", PLAIN, "np.array(data, dtype)", "torch.tensor(data, dtype=)"},
    {"arange", "arange", "[ceil((stop - start) / step)]", NUMBERS,
     "np.arange(start, stop, step, dtype)", "torch.arange(start, stop, step, dtype=)"},
    {"rand", "rand", "`dims`", FLOATS, "rng.uniform(low, high, dims)", "torch.rand(dims) * (high - low) + low"},
    {"randn", "randn", "`dims`", FLOATS, "rng.normal(mean, deviation, dims)", "torch.randn(dims) * deviation + mean"},
    {"randint", "randint", "`dims`", "integers", "rng.integers(low, high, dims, dtype)", "torch.randint(low, high, dims, dtype=)"},

    // one operand
    {"cast", "cast", "x", "plain, quantised -> floats", "x.astype(dtype)", "x.to(dtype)"},
    {"affine", "affine", "x", PLAIN " -> floats", "x * scale + shift", "x * scale + shift"},
    {"neg", "neg", "x", NUMBERS, "-x", "torch.neg(x)"},
    {"abs", "abs", "x", NUMBERS, "np.abs(x)", "torch.abs(x)"},
    {"sign", "sign", "x", PLAIN, "np.sign(x)", "torch.sign(x)"},
    {"relu", "relu", "x", NUMBERS, "np.maximum(x, 0)", "F.relu(x)"},
    {"floor", "floor", "x", NUMBERS, "np.floor(x)", "torch.floor(x)"},
    {"ceil", "ceil", "x", NUMBERS, "np.ceil(x)", "torch.ceil(x)"},
    {"round", "round", "x", NUMBERS, "np.round(x)", "torch.round(x)"},
    {"exp", "exp", "x", PLAIN " -> floats", "np.exp(x)", "torch.exp(x)"},
    {"log", "log", "x", PLAIN " -> floats", "np.log(x)", "torch.log(x)"},
    {"log1p", "log1p", "x", PLAIN " -> floats", "np.log1p(x)", "torch.log1p(x)"},
    {"sqrt", "sqrt", "x", PLAIN " -> floats", "np.sqrt(x)", "torch.sqrt(x)"},
    {"rsqrt", "rsqrt", "x", PLAIN " -> floats", "1 / np.sqrt(x)", "torch.rsqrt(x)"},
    {"reciprocal", "reciprocal", "x", PLAIN " -> floats", "1 / x", "torch.reciprocal(x)"},
    {"sin", "sin", "x", PLAIN " -> floats", "np.sin(x)", "torch.sin(x)"},
    {"cos", "cos", "x", PLAIN " -> floats", "np.cos(x)", "torch.cos(x)"},
    {"tanh", "tanh", "x", PLAIN " -> floats", "np.tanh(x)", "torch.tanh(x)"},
    {"sigmoid", "sigmoid", "x", PLAIN " -> floats", "1 / (1 + np.exp(-x))", "torch.sigmoid(x)"},
    {"silu", "silu", "x", PLAIN " -> floats", "x / (1 + np.exp(-x))", "F.silu(x)"},
    {"gelu", "gelu", "x", PLAIN " -> floats", "x * scipy.stats.norm.cdf(x)", "F.gelu(x)"},
    {"gelu_tanh", "gelu_tanh", "x", PLAIN " -> floats", "-", "F.gelu(x, approximate='tanh')"},
    {"logical_not", "logical_not", "x", PREDICATE, "np.logical_not(x)", "torch.logical_not(x)"},
    {"isnan", "isnan", "x", PREDICATE, "np.isnan(x)", "torch.isnan(x)"},
    {"isinf", "isinf", "x", PREDICATE, "np.isinf(x)", "torch.isinf(x)"},
    {"isfinite", "isfinite", "x", PREDICATE, "np.isfinite(x)", "torch.isfinite(x)"},

    // two operands
    {"add", "add", "broadcast", PROMOTED, "a + b", "torch.add(a, b)"},
    {"sub", "sub", "broadcast", PROMOTED_NUMBERS, "a - b", "torch.sub(a, b)"},
    {"mul", "mul", "broadcast", PROMOTED, "a * b", "torch.mul(a, b)"},
    {"div", "div", "broadcast", "plain -> promoted float", "a / b", "torch.div(a, b)"},
    {"minimum", "minimum", "broadcast", PROMOTED, "np.minimum(a, b)", "torch.minimum(a, b)"},
    {"maximum", "maximum", "broadcast", PROMOTED, "np.maximum(a, b)", "torch.maximum(a, b)"},
    {"remainder", "remainder", "broadcast", PROMOTED_NUMBERS, "np.remainder(a, b)", "torch.remainder(a, b)"},
    {"pow", "pow", "broadcast", PROMOTED_NUMBERS, "a ** b", "torch.pow(a, b)"},
    {"eq", "eq", "broadcast", PREDICATE, "a == b", "torch.eq(a, b)"},
    {"ne", "ne", "broadcast", PREDICATE, "a != b", "torch.ne(a, b)"},
    {"lt", "lt", "broadcast", PREDICATE, "a < b", "torch.lt(a, b)"},
    {"le", "le", "broadcast", PREDICATE, "a <= b", "torch.le(a, b)"},
    {"gt", "gt", "broadcast", PREDICATE, "a > b", "torch.gt(a, b)"},
    {"ge", "ge", "broadcast", PREDICATE, "a >= b", "torch.ge(a, b)"},
    {"logical_and", "logical_and", "broadcast", PREDICATE, "np.logical_and(a, b)", "torch.logical_and(a, b)"},
    {"logical_or", "logical_or", "broadcast", PREDICATE, "np.logical_or(a, b)", "torch.logical_or(a, b)"},
    {"logical_xor", "logical_xor", "broadcast", PREDICATE, "np.logical_xor(a, b)", "torch.logical_xor(a, b)"},
    {"where", "where", "broadcast", PROMOTED, "np.where(condition, a, b)", "torch.where(condition, a, b)"},
    {"clamp", "clamp", "x", "plain but bool", "np.clip(x, low, high)", "torch.clamp(x, low, high)"},
    {"outer", "outer", "[M, N]", PROMOTED, "np.outer(a, b)", "torch.outer(a, b)"},

    // reductions and norms
    {"sum", "sum", REDUCED, SUMMED, "x.sum(dims, keepdims=)", "x.sum(dims, keepdim)"},
    {"prod", "prod", REDUCED, SUMMED, "x.prod(dims, keepdims=)", "x.prod(dim, keepdim)"},
    {"mean", "mean", REDUCED, FLOATS, "x.mean(dims, keepdims=)", "x.mean(dims, keepdim)"},
    {"var", "var", REDUCED, FLOATS, "x.var(dims, ddof=correction, keepdims=)", "x.var(dims, correction=, keepdim=)"},
    {"max", "max", REDUCED, PLAIN, "x.max(dims, keepdims=)", "x.amax(dims, keepdim)"},
    {"min", "min", REDUCED, PLAIN, "x.min(dims, keepdims=)", "x.amin(dims, keepdim)"},
    {"argmax", "argmax", ONE_DIM, PLAIN " -> i64", "x.argmax(dim, keepdims=)", "x.argmax(dim, keepdim)"},
    {"argmin", "argmin", ONE_DIM, PLAIN " -> i64", "x.argmin(dim, keepdims=)", "x.argmin(dim, keepdim)"},
    {"any", "any", REDUCED, PREDICATE, "x.any(dims, keepdims=)", "x.any(dims, keepdim)"},
    {"all", "all", REDUCED, PREDICATE, "x.all(dims, keepdims=)", "x.all(dims, keepdim)"},
    {"logsumexp", "logsumexp", REDUCED, FLOATS, "scipy.special.logsumexp(x, dims, keepdims=)", "torch.logsumexp(x, dims, keepdim)"},
    {"cumsum", "cumsum", "x", SUMMED, "x.cumsum(dim)", "x.cumsum(dim)"},
    {"softmax", "softmax", "x", FLOATS, "scipy.special.softmax(x, dim)", "torch.softmax(x, dim)"},
    {"log_softmax", "log_softmax", "x", FLOATS, "scipy.special.log_softmax(x, dim)", "torch.log_softmax(x, dim)"},
    {"layer_norm", "layer_norm", "x", FLOATS, "-", "F.layer_norm(x, x.shape[-1:], weight, bias, eps)"},
    {"rms_norm", "rms_norm", "x", FLOATS, "-", "F.rms_norm(x, x.shape[-1:], weight, eps)"},

    // products and models
    {"matmul", "matmul", "[..., M, N], leading dimensions broadcast; vectors as in NumPy", NUMBERS, "a @ b", "torch.matmul(a, b)"},
    {"linear", "linear", "[..., N]", "floats; weight also quantised; bias f32", "x @ weight.T + bias", "F.linear(x, weight, bias)"},
    {"rope", "rope", "x", "floats; positions i32, i64", "-", "-"},
    {"attention", "attention", "[T, H, Dv], or [B, T, H, Dv]", "floats; mask also bool", "-", "F.scaled_dot_product_attention(q, k, v)"},
    {"paged_attention", "paged_attention", "[T, H, Dv]", "floats; blocks also q8_0; sequences, blocks i32", "-", "-"},

    // layout, joining, indices
    {"contiguous", "view copy", "x", "any", "np.ascontiguousarray(x)", "x.contiguous()"},
    {"copy", "copy", "x", "any", "x.copy()", "x.clone()"},
    {"cat", "cat", "the tensors, one after another along `dim`", PROMOTED, "np.concatenate(tensors, dim)", "torch.cat(tensors, dim)"},
    {"stack", "stack", "the tensors' shape, `count` inserted at `dim`", PROMOTED, "np.stack(tensors, dim)", "torch.stack(tensors, dim)"},
    {"repeat", "repeat", "x, `times` as large", PLAIN, "np.tile(x, times)", "x.repeat(times)"},
    {"roll", "roll", "x", PLAIN, "np.roll(x, shift, dim)", "torch.roll(x, shift, dim)"},
    {"pad", "pad", "x, larger by the pads", PLAIN, "np.pad(x, pairs, constant_values=value)", "F.pad(x, pads, value=value)"},
    {"tril", "tril", "x", PLAIN, "np.tril(x, diagonal)", "torch.tril(x, diagonal)"},
    {"triu", "triu", "x", PLAIN, "np.triu(x, diagonal)", "torch.triu(x, diagonal)"},
    {"embedding", "embedding", "ids.shape + [E]", "plain, quantised -> f32; ids i32, i64", "table[ids]", "F.embedding(ids, table)"},
    {"gather", "gather", "index.shape", "plain; index i32, i64", "np.take_along_axis(x, index, dim)", "x.gather(dim, index)"},
    {"take_along", "take_along", "x and index broadcast, but the index's size at `dim`", "plain; index i32, i64",
     "np.take_along_axis(x, index, dim)", "torch.take_along_dim(x, index, dim)"},
    {"index_select", "index_select", "x, but n at `dim`", "plain; index i32, i64", "x.take(index, dim)", "x.index_select(dim, index)"},
    {"index_copy", "index_copy", "x", "plain; index i32, i64", "x[index] = src", "x.index_copy(dim, index, src)"},
    {"scatter", "scatter", "x", "plain; index i32, i64", "np.put_along_axis(x, index, src, dim)", "x.scatter(dim, index, src)"},
    {"scatter_add", "scatter_add", "x", "plain; index i32, i64", "np.add.at(x, index, src)", "x.scatter_add(dim, index, src)"},

    // sorting, and sizes that depend on data
    {"sort", "sort", "x; indices like x", PLAIN "; indices i64", "np.sort(x, dim, kind='stable')", "torch.sort(x, stable=True, dim=dim, descending=)"},
    {"argsort", "argsort", "x", PLAIN " -> i64", "np.argsort(x, dim, kind='stable')", "torch.argsort(x, dim, descending, stable=True)"},
    {"topk", "topk", "x, `k` along `dim`; indices likewise", PLAIN "; indices i64", "-", "torch.topk(x, k, dim, largest)"},
    {"nonzero", "nonzero", "[count, rank]", PLAIN " -> i64", "np.argwhere(x)", "torch.nonzero(x)"},
    {"masked_select", "masked_select", "[count]", PLAIN "; mask bool", "x[mask]", "torch.masked_select(x, mask)"},
    {"unique", "unique", "[count]; inverse like x, counts [count]", PLAIN "; inverse, counts i64",
     "np.unique(x, return_inverse=, return_counts=, equal_nan=False)", "torch.unique(x, return_inverse=, return_counts=)"},

    // views
    {"slice", "view", "x, shorter along `dim`", "any", "x[start:stop:step]", "x[start:stop:step]"},
    {"narrow", "view", "x, `length` along `dim`", "any", "x[start:start + length]", "x.narrow(dim, start, length)"},
    {"select", "view", "x without `dim`", "any", "x.take(index, dim)", "x.select(dim, index)"},
    {"split", "view", "parts of x along `dim`", "any", "np.split(x, at, dim)", "torch.split(x, size, dim)"},
    {"split_sizes", "view", "parts of x along `dim`", "any", "np.split(x, at, dim)", "torch.split(x, sizes, dim)"},
    {"chunk", "view", "parts of x along `dim`", "any", "np.array_split(x, chunks, dim)", "torch.chunk(x, chunks, dim)"},
    {"transpose", "view", "x with two dimensions swapped", PLAIN, "x.swapaxes(a, b)", "x.transpose(a, b)"},
    {"permute", "view", "x's dimensions in another order", PLAIN, "x.transpose(order)", "x.permute(order)"},
    {"flip", "view", "x", PLAIN, "np.flip(x, dims)", "torch.flip(x, dims)"},
    {"expand", "view", "`dims`", PLAIN, "np.broadcast_to(x, dims)", "x.expand(dims)"},
    {"squeeze", "view", "x without dimensions of size 1", PLAIN, "x.squeeze(dims)", "x.squeeze(dim)"},
    {"unsqueeze", "view", "x with a dimension of size 1 at `dim`", PLAIN, "np.expand_dims(x, dim)", "x.unsqueeze(dim)"},
    {"reshape", "view copy", "`dims`, one may be -1", PLAIN, "x.reshape(dims)", "x.reshape(dims)"},
    {"reshape_view", "view", "`dims`, one may be -1", PLAIN, "-", "x.view(dims)"},
    {"as_strided", "view", "`dims`", PLAIN, "np.lib.stride_tricks.as_strided(x, dims, strides)", "x.as_strided(dims, strides, offset)"},
};
// clang-format on
const size_t berth_op_doc_count = sizeof berth_op_docs / sizeof berth_op_docs[0];
