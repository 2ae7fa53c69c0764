#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/torch/values.bin: what PyTorch computes for calls of every op that it has.

usage: /usr/bin/python3 tests/torch/make_values.py tests/torch/values.bin

Needs Debian's python3-torch and python3-numpy. The tests read the stored file and need neither.
Numbers are drawn from a fixed seed, so the file changes only with this script or with PyTorch.

The file is little-endian: the bytes "BTHV", a u32 count, then so many cases of
  u8 length and bytes of the op's name; u8 count and f64 parameters;
  u8 count and tensors in; u8 count and tensors out;
each tensor being u8 dtype (the order of DTYPES), u8 rank, i64 sizes, and the elements row-major.
"""

import struct
import sys

import torch
import torch.nn.functional as F

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.int8,
          torch.uint8, torch.bool]
FLOATS = DTYPES[:3]
INTEGERS = DTYPES[3:7]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, 88.0, -88.0, 3e4, float("inf"), -float("inf"),
           float("nan")]

cases = []
random = torch.Generator().manual_seed(20230101)


def elements(tensor):
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return tensor.numpy().tobytes()


def pack_tensor(tensor):
    head = struct.pack("<BB", DTYPES.index(tensor.dtype), tensor.dim())
    return head + struct.pack(f"<{tensor.dim()}q", *tensor.shape) + elements(tensor)


def pack_case(name, params, inputs, outputs):
    data = struct.pack("<B", len(name)) + name.encode()
    data += struct.pack("<B", len(params)) + struct.pack(f"<{len(params)}d", *map(float, params))
    for tensors in (inputs, outputs):
        data += struct.pack("<B", len(tensors)) + b"".join(map(pack_tensor, tensors))
    return data


def run_wide(function, inputs):
    """Computes in f32 and rounds once, which is what Berth promises of narrow floats."""
    narrow = next(x.dtype for x in inputs if x.dtype in FLOATS[1:])
    outputs = function(*[x.float() if x.dtype in FLOATS else x for x in inputs])
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    return [y.to(narrow) if y.dtype == torch.float32 else y for y in outputs]


def case(name, function, inputs, params=(), wide=False):
    """Adds what `function` makes of `inputs`. Narrow floats are computed in f32 where PyTorch has no
    kernel for them on the CPU, and where it has one that rounds on the way (`wide`)."""
    try:
        if wide and any(x.dtype in FLOATS[1:] for x in inputs):
            outputs = run_wide(function, inputs)
        else:
            outputs = function(*inputs)
    except RuntimeError as error:
        if "not implemented for" not in str(error):
            raise
        outputs = run_wide(function, inputs)
    if not isinstance(outputs, (tuple, list)):
        outputs = [outputs]
    cases.append(pack_case(name, params, list(inputs), list(outputs)))


def floats(*shape, dtype=torch.float32, scale=2.0):
    return (torch.randn(shape, generator=random) * scale).to(dtype)


def integers(*shape, dtype=torch.int64, low=-6, high=7):
    if dtype == torch.uint8:
        low = 0
    if dtype == torch.bool:
        low, high = 0, 2
    return torch.randint(low, high, shape, generator=random).to(dtype)


def any_values(*shape, dtype=torch.float32):
    return floats(*shape, dtype=dtype) if dtype in FLOATS else integers(*shape, dtype=dtype)


def with_specials(dtype):
    return torch.cat([torch.tensor(SPECIAL), floats(24, scale=4.0)]).to(dtype)


def unary():
    every = {"exp": torch.exp, "log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt,
             "rsqrt": torch.rsqrt, "sin": torch.sin, "cos": torch.cos,
             "tanh": torch.tanh, "sigmoid": torch.sigmoid, "reciprocal": torch.reciprocal}
    for name, function in every.items():
        for dtype in FLOATS + [torch.int64, torch.int8]:
            x = with_specials(dtype) if dtype in FLOATS else integers(12, dtype=dtype)
            case(name, function, [x])
    for name, function in {"gelu": F.gelu, "silu": F.silu,
                           "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}.items():
        for dtype in FLOATS:
            case(name, function, [with_specials(dtype)], wide=True)
    for name, function in {"neg": torch.neg, "abs": torch.abs, "sign": torch.sign,
                           "relu": torch.relu}.items():
        for dtype in FLOATS + INTEGERS:
            x = with_specials(dtype) if dtype in FLOATS else integers(12, dtype=dtype)
            case(name, function, [x])
    for name, function in {"floor": torch.floor, "ceil": torch.ceil, "round": torch.round}.items():
        for dtype in FLOATS:
            case(name, function, [with_specials(dtype)])
    for name, function in {"isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite,
                           "logical_not": torch.logical_not}.items():
        for dtype in DTYPES:
            x = with_specials(dtype) if dtype in FLOATS else integers(12, dtype=dtype)
            case(name, function, [x])
    for source in DTYPES:
        for target in DTYPES:
            x = any_values(10, dtype=source)
            if target == torch.uint8 and source != torch.bool:
                x = x.abs()
            case("cast", lambda x, target=target: x.to(target), [x], [DTYPES.index(target)])
    for dtype in FLOATS:
        case("clamp", lambda x: torch.clamp(x, -1.5, 2.0), [with_specials(dtype)], [-1.5, 2.0])
        case("clamp", lambda x: torch.clamp(x, 2.0, -1.0), [with_specials(dtype)], [2.0, -1.0])
    for dtype in INTEGERS:
        case("clamp", lambda x: torch.clamp(x, 1, 4), [integers(12, dtype=dtype)], [1, 4])


SHAPES = [((3, 4), (3, 4)), ((3, 4), (4,)), ((2, 1, 3), (4, 1)), ((), (2, 3)), ((2, 3), ()),
          ((0, 3), (1, 3)), ((1,), (5,))]


def binary():
    ops = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
           "minimum": torch.minimum, "maximum": torch.maximum, "eq": torch.eq, "ne": torch.ne,
           "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
           "logical_and": torch.logical_and, "logical_or": torch.logical_or,
           "logical_xor": torch.logical_xor}
    for name, function in ops.items():
        for a, b in SHAPES:
            case(name, function, [floats(*a), floats(*b)])
        for i, da in enumerate(DTYPES):
            for j, db in enumerate(DTYPES):
                if {da, db} == {torch.int8, torch.uint8}:
                    continue  # i16 in PyTorch, which Berth has not
                if name == "sub" and torch.bool in (da, db):
                    continue  # refused
                # a rank-0 operand counts for less: every other pair is tried with one
                a = any_values(*(() if (i + j) % 2 else (4,)), dtype=da)
                b = any_values(4, dtype=db)
                case(name, function, [a, b])
    for a, b in SHAPES:
        case("remainder", torch.remainder, [floats(*a), floats(*b)])
        case("pow", torch.pow, [floats(*a).abs(), floats(*b)])
    for dtype in INTEGERS:
        divisor = integers(20, dtype=dtype)
        divisor[divisor == 0] = 3
        case("remainder", torch.remainder, [integers(20, dtype=dtype), divisor])
        case("pow", torch.pow, [integers(20, dtype=dtype), integers(20, dtype=dtype).abs() % 5])
    x = torch.tensor([2.0, -2.0, 0.0, -0.0, 1.0, float("inf"), -float("inf"), float("nan")])
    y = torch.tensor([0.0, 3.0, -3.0, 2.5, -0.5, 1.0, float("inf"), float("nan")])
    case("pow", torch.pow, [x.repeat_interleave(8), y.repeat(8)])
    case("remainder", torch.remainder, [x.repeat_interleave(8), y.repeat(8)])
    for da, db in [(torch.float32, torch.float32), (torch.int32, torch.int64),
                   (torch.float16, torch.float32), (torch.bool, torch.int8)]:
        case("where", torch.where,
             [integers(3, 1, dtype=torch.bool), any_values(3, 4, dtype=da), any_values(4, dtype=db)])
    case("outer", torch.outer, [floats(3), floats(5)])
    case("outer", torch.outer, [integers(3), floats(2)])


def reductions():
    sets = [[], [0], [-1], [0, 2], [1, -1], [0, 1, 2]]

    def all_dims(dims, x):
        return dims if dims else list(range(x.dim()))

    def fold(function):  # for what PyTorch reduces over one dimension at a time
        def apply(x, dims, keepdim):
            for d in sorted((d % x.dim() for d in dims), reverse=True):
                x = function(x, d, keepdim)
            return x
        return apply
    ops = {"sum": (lambda x, d, k: torch.sum(x, d, k), DTYPES),
           "mean": (lambda x, d, k: torch.mean(x, d, k), FLOATS),
           "max": (lambda x, d, k: torch.amax(x, d, k), DTYPES),
           "min": (lambda x, d, k: torch.amin(x, d, k), DTYPES),
           "prod": (fold(lambda x, d, k: torch.prod(x, d, k)), DTYPES),
           "any": (fold(lambda x, d, k: torch.any(x, d, k).bool()), DTYPES),
           "all": (fold(lambda x, d, k: torch.all(x, d, k).bool()), DTYPES),
           "logsumexp": (lambda x, d, k: torch.logsumexp(x, d, k), FLOATS)}
    for name, (function, dtypes) in ops.items():
        for dtype in dtypes:
            for index, dims in enumerate(sets):
                keepdim = index % 2
                x = any_values(2, 3, 4, dtype=dtype)
                case(name, lambda x: function(x, all_dims(dims, x), bool(keepdim)), [x],
                     [keepdim] + dims)
        if name not in ("max", "min"):
            x = torch.ones(2, 0, 3)
            case(name, lambda x: function(x, [1], False), [x], [0, 1])
    x = with_specials(torch.float32).reshape(1, -1)
    for name in ("sum", "max", "min", "any", "all", "logsumexp"):
        case(name, lambda x: ops[name][0](x, [1], False), [x], [0, 1])
    for correction in (0, 1, 2):
        for dims in sets:
            x = floats(2, 3, 4)
            case("var", lambda x: torch.var(x, all_dims(dims, x), correction=correction,
                                            keepdim=True), [x], [1, correction] + dims)
    for name, function in {"argmax": torch.argmax, "argmin": torch.argmin}.items():
        for dtype in DTYPES[:7]:
            for dim in (0, -1):
                x = any_values(4, 5, dtype=dtype)
                case(name, lambda x: function(x, dim, True), [x], [1, dim])
        case(name, lambda x: function(x, 0), [with_specials(torch.float32)], [0, 0])
    for dtype in DTYPES:
        for dim in (0, 1):
            case("cumsum", lambda x: torch.cumsum(x, dim), [any_values(3, 4, dtype=dtype)], [dim])
    for name, function in {"softmax": torch.softmax, "log_softmax": torch.log_softmax}.items():
        for dtype in FLOATS:
            for dim in (0, -1):
                case(name, lambda x: function(x, dim), [floats(3, 5, dtype=dtype)], [dim])
        x = torch.tensor([[-float("inf")] * 3, [1.0, -float("inf"), 2.0], [float("inf"), 0, 1]])
        case(name, lambda x: function(x, -1), [x], [-1])
    for dtype in FLOATS:
        x, weight, bias = floats(3, 8, dtype=dtype), floats(8, dtype=dtype), floats(8, dtype=dtype)
        case("layer_norm", lambda x, w, b: F.layer_norm(x, [8], w, b, 1e-5), [x, weight, bias],
             [1e-5], wide=True)
    case("layer_norm", lambda x: F.layer_norm(x, [7], None, None, 1e-3), [floats(2, 2, 7)], [1e-3])


def products():
    shapes = [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 2)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)),
              ((2, 1, 3, 4), (3, 4, 2)), ((3, 0), (0, 2)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)),
              ((0, 4), (4, 2))]
    for a, b in shapes:
        case("matmul", torch.matmul, [floats(*a), floats(*b)])
        case("matmul", torch.matmul, [integers(*a), integers(*b)])
    for dtype in FLOATS[1:]:
        case("matmul", torch.matmul, [floats(3, 8, dtype=dtype), floats(8, 4, dtype=dtype)],
             wide=True)
    case("linear", F.linear, [floats(3, 8), floats(5, 8), floats(5)])
    case("linear", F.linear, [floats(2, 3, 8), floats(5, 8)])
    case("linear", F.linear, [floats(8), floats(5, 8)])

    def attend(q, k, v, mask=None, causal=False, offset=0):
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = torch.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -float("inf")) if mask.dtype == torch.bool \
                else scores + mask
        if causal:
            t, s = scores.shape[-2:]
            late = torch.arange(s)[None, :] > torch.arange(t)[:, None] + offset
            scores = scores.masked_fill(late, -float("inf"))
        return torch.einsum("hts,shd->thd", torch.softmax(scores, -1), v)
    q, k, v = floats(5, 4, 8), floats(7, 2, 8), floats(7, 2, 6)
    case("attention", lambda q, k, v: attend(q, k, v), [q, k, v], [0, 0])
    case("attention", lambda q, k, v: attend(q, k, v, causal=True, offset=2), [q, k, v], [1, 2])
    mask = integers(5, 7, dtype=torch.bool)
    mask[:, 0] = True
    case("attention", attend, [q, k, v, mask], [0, 0])
    case("attention", attend, [q, k, v, floats(4, 5, 7)], [0, 0])


def indices():
    for index_type in (torch.int32, torch.int64):
        table, ids = floats(6, 4), integers(2, 3, dtype=index_type, low=0, high=6)
        case("embedding", lambda t, i: F.embedding(i, t), [table, ids])
        case("index_select", lambda x, i: torch.index_select(x, 1, i),
             [floats(3, 6), integers(4, dtype=index_type, low=0, high=6)], [1])
    for dtype in DTYPES:
        x = any_values(4, 5, dtype=dtype)
        index = integers(3, 5, low=0, high=4)
        case("gather", lambda x, i: torch.gather(x, 0, i), [x, index], [0])
        case("take_along", lambda x, i: torch.take_along_dim(x, i, 1),
             [x, integers(1, 3, low=0, high=5)], [1])
        rows = torch.stack([torch.randperm(4, generator=random)[:3] for _ in range(5)], 1)
        case("scatter", lambda x, i, s: torch.scatter(x, 0, i, s),
             [x, rows, any_values(3, 5, dtype=dtype)], [0])
        case("index_copy", lambda x, i, s: torch.index_copy(x, 0, i, s),
             [x, torch.tensor([2, 0]), any_values(2, 5, dtype=dtype)], [0])
        if dtype != torch.bool:
            case("scatter_add", lambda x, i, s: torch.scatter_add(x, 0, i, s),
                 [x, index, any_values(3, 5, dtype=dtype)], [0])


def layout():
    for dtype in DTYPES:
        x, y = any_values(2, 3, dtype=dtype), any_values(2, 1, dtype=dtype)
        case("cat", lambda a, b, c: torch.cat([a, b, c], -1), [x, y, x], [-1])
        case("stack", lambda a, b: torch.stack([a, b], 1), [x, x + x if dtype != torch.bool else x],
             [1])
        case("repeat", lambda x: x.repeat(2, 1, 3), [x], [2, 1, 3])
        case("roll", lambda x: torch.roll(x, 5, 1), [x], [5, 1])
        case("roll", lambda x: torch.roll(x, -1, 0), [x], [-1, 0])
        if dtype != torch.bool:
            case("pad", lambda x: F.pad(x, (1, 2, 0, 1), value=3), [x], [3, 1, 2, 0, 1])
        case("pad", lambda x: F.pad(x, (-1, 2), value=1), [x], [1, -1, 2])
        square = any_values(2, 4, 5, dtype=dtype)
        for diagonal in (-1, 0, 2):
            case("tril", lambda x: torch.tril(x, diagonal), [square], [diagonal])
            case("triu", lambda x: torch.triu(x, diagonal), [square], [diagonal])
    case("cat", lambda a, b: torch.cat([a, b], 0), [integers(2), floats(3)], [0])
    many = [floats(1, 2) for _ in range(19)]
    case("cat", lambda *all: torch.cat(all, 0), many, [0])


def views():
    x = floats(2, 3, 4)
    case("slice", lambda x: x[:, 1:3], [x], [1, 1, 3, 1])
    case("slice", lambda x: x[..., -3:10:2], [x], [2, -3, 10, 2])
    case("slice", lambda x: torch.flip(x, [2])[..., ::2], [x], [2, 3, -100, -2])
    case("narrow", lambda x: x.narrow(2, 1, 2), [x], [2, 1, 2])
    case("select", lambda x: x.select(1, -1), [x], [1, -1])
    case("split", lambda x: torch.split(x, 3, 2), [x], [3, 2])
    case("split_sizes", lambda x: torch.split(x, [1, 0, 3], 2), [x], [2, 1, 0, 3])
    case("chunk", lambda x: torch.chunk(x, 3, 2), [x], [3, 2])
    case("transpose", lambda x: x.transpose(0, -1), [x], [0, -1])
    case("permute", lambda x: x.permute(2, 0, 1), [x], [2, 0, 1])
    case("flip", lambda x: torch.flip(x, [0, 2]), [x], [0, 2])
    case("expand", lambda x: x.expand(2, 2, 3, -1), [floats(3, 1)], [2, 2, 3, -1])
    case("squeeze", lambda x: x.squeeze(), [floats(1, 3, 1)])
    case("squeeze", lambda x: x.squeeze(0), [floats(1, 3, 1)], [0])
    case("unsqueeze", lambda x: x.unsqueeze(-1), [x], [-1])
    case("reshape", lambda x: x.reshape(4, -1), [x], [4, -1])
    case("reshape_view", lambda x: x.view(6, 4), [x], [6, 4])
    case("as_strided", lambda x: x.as_strided((2, 3), (5, 2), 1), [x], [1, 2, 3, 5, 2])


def sorting():
    for dtype in DTYPES:
        x = any_values(3, 9, dtype=dtype)
        for dim in (0, -1):
            for descending in (0, 1):
                case("sort", lambda x: torch.sort(x, stable=True, dim=dim, descending=bool(descending)),
                     [x], [dim, descending])
    x = with_specials(torch.float32)
    case("sort", lambda x: torch.sort(x, stable=True, dim=0), [x], [0, 0])
    case("argsort", lambda x: torch.sort(x, stable=True, dim=0, descending=True)[1], [x], [0, 1])
    for dtype in DTYPES[:7]:
        # distinct numbers: which of equals is taken is not PyTorch's promise
        x = torch.randperm(24, generator=random).reshape(4, 6).to(dtype)
        for largest in (0, 1):
            case("topk", lambda x: torch.topk(x, 3, 1, bool(largest), True), [x], [3, 1, largest])
    for dtype in DTYPES:
        x = any_values(3, 4, dtype=dtype)
        x[1] = 0
        case("nonzero", torch.nonzero, [x])
        case("masked_select", torch.masked_select, [x, integers(3, 1, dtype=torch.bool)])
        case("unique", lambda x: torch.unique(x, return_inverse=True, return_counts=True),
             [integers(15).to(dtype) if dtype in FLOATS else any_values(15, dtype=dtype)])
    case("nonzero", torch.nonzero, [torch.tensor(5)])
    case("nonzero", torch.nonzero, [torch.zeros(2, 3)])


def creation():
    for dtype in DTYPES[:7]:
        for bounds in ((0, 5, 1), (5, 0, -2), (1, 9, 3), (3, 3, 1)):
            case("arange", lambda: torch.arange(*bounds, dtype=dtype), [],
                 list(bounds) + [DTYPES.index(dtype)])
    case("arange", lambda: torch.arange(0.0, 1.0, 0.1), [], [0, 1, 0.1, 0])
    for dtype in DTYPES:
        case("full", lambda: torch.full((2, 3), 1, dtype=dtype), [],
             [1, DTYPES.index(dtype), 2, 3])


for family in (unary, binary, reductions, products, indices, layout, views, sorting, creation):
    family()
with open(sys.argv[1], "wb") as file:
    file.write(b"BTHV" + struct.pack("<I", len(cases)) + b"".join(cases))
print(f"{len(cases)} cases, PyTorch {torch.__version__}")
