// SPDX-License-Identifier: Apache-2.0
// The one list of built-in op ids. The op table (src/ops) has a row for each; a back end fills a
// kernel table indexed by them.
#ifndef BERTH_BASE_OP_MAP_H
#define BERTH_BASE_OP_MAP_H

// clang-format off
/// Every op that runs a kernel: X(ID, name). Views (slice, transpose, reshape without a copy) are
/// not here: they place nothing and run nothing.
#define BERTH_OP_MAP(X)              \
    X(FILL,        "full")           \
    X(ARANGE,      "arange")         \
    X(RANDOM,      "random")         \
    X(COPY,        "contiguous")     \
    X(CAST,        "cast")           \
    X(ADD,         "add")            \
    X(SUB,         "sub")            \
    X(MUL,         "mul")            \
    X(DIV,         "div")            \
    X(MINIMUM,     "minimum")        \
    X(MAXIMUM,     "maximum")        \
    X(AFFINE,      "affine")         \
    X(NEG,         "neg")            \
    X(EXP,         "exp")            \
    X(SQRT,        "sqrt")           \
    X(TANH,        "tanh")           \
    X(SIGMOID,     "sigmoid")        \
    X(RELU,        "relu")           \
    X(SILU,        "silu")           \
    X(GELU,        "gelu")           \
    X(SUM,         "sum")            \
    X(MEAN,        "mean")           \
    X(MAX,         "max")            \
    X(ARGMAX,      "argmax")         \
    X(SOFTMAX,     "softmax")        \
    X(RMS_NORM,    "rms_norm")       \
    X(MATMUL,      "matmul")         \
    X(LINEAR,      "linear")         \
    X(ROPE,        "rope")           \
    X(ATTENTION,   "attention")      \
    X(EMBEDDING,   "embedding")      \
    X(INDEX_COPY,  "index_copy")     \
    X(CAT,         "cat")            \
    X(NOOP,        "noop")
// clang-format on

typedef enum berth_op_id {
#define BERTH_OP_ENUM(id, name) BERTH_OP_##id,
    BERTH_OP_MAP(BERTH_OP_ENUM)
#undef BERTH_OP_ENUM
        BERTH_OP_COUNT
} berth_op_id;

#endif // BERTH_BASE_OP_MAP_H
