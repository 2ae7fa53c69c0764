// SPDX-License-Identifier: Apache-2.0
// The one list of built-in op ids. The op table (src/ops) has a row for each; a back end fills a
// kernel table indexed by them.
#ifndef BERTH_BASE_OP_MAP_H
#define BERTH_BASE_OP_MAP_H

// Every op that runs a kernel: X(ID, name), by families. Views (slice, transpose, reshape without a
// copy) are not here: they place nothing and run nothing.

// clang-format off
#define BERTH_OP_MAP_CREATE(X)       \
    X(FILL,        "full")           \
    X(ARANGE,      "arange")         \
    X(RAND,        "rand")           \
    X(RANDN,       "randn")          \
    X(RANDINT,     "randint")

#define BERTH_OP_MAP_UNARY(X)        \
    X(CAST,        "cast")           \
    X(AFFINE,      "affine")         \
    X(NEG,         "neg")            \
    X(ABS,         "abs")            \
    X(SIGN,        "sign")           \
    X(RELU,        "relu")           \
    X(FLOOR,       "floor")          \
    X(CEIL,        "ceil")           \
    X(ROUND,       "round")          \
    X(EXP,         "exp")            \
    X(LOG,         "log")            \
    X(LOG1P,       "log1p")          \
    X(SQRT,        "sqrt")           \
    X(RSQRT,       "rsqrt")          \
    X(RECIPROCAL,  "reciprocal")     \
    X(SIN,         "sin")            \
    X(COS,         "cos")            \
    X(TANH,        "tanh")           \
    X(SIGMOID,     "sigmoid")        \
    X(SILU,        "silu")           \
    X(GELU,        "gelu")           \
    X(GELU_TANH,   "gelu_tanh")      \
    X(LOGICAL_NOT, "logical_not")    \
    X(ISNAN,       "isnan")          \
    X(ISINF,       "isinf")          \
    X(ISFINITE,    "isfinite")

#define BERTH_OP_MAP_BINARY(X)       \
    X(ADD,         "add")            \
    X(SUB,         "sub")            \
    X(MUL,         "mul")            \
    X(DIV,         "div")            \
    X(MINIMUM,     "minimum")        \
    X(MAXIMUM,     "maximum")        \
    X(REMAINDER,   "remainder")      \
    X(POW,         "pow")            \
    X(EQ,          "eq")             \
    X(NE,          "ne")             \
    X(LT,          "lt")             \
    X(LE,          "le")             \
    X(GT,          "gt")             \
    X(GE,          "ge")             \
    X(LOGICAL_AND, "logical_and")    \
    X(LOGICAL_OR,  "logical_or")     \
    X(LOGICAL_XOR, "logical_xor")    \
    X(WHERE,       "where")          \
    X(CLAMP,       "clamp")          \
    X(OUTER,       "outer")

#define BERTH_OP_MAP_REDUCE(X)       \
    X(SUM,         "sum")            \
    X(MEAN,        "mean")           \
    X(PROD,        "prod")           \
    X(MAX,         "max")            \
    X(MIN,         "min")            \
    X(ARGMAX,      "argmax")         \
    X(ARGMIN,      "argmin")         \
    X(VAR,         "var")            \
    X(LOGSUMEXP,   "logsumexp")      \
    X(ANY,         "any")            \
    X(ALL,         "all")            \
    X(SOFTMAX,     "softmax")        \
    X(LOG_SOFTMAX, "log_softmax")    \
    X(CUMSUM,      "cumsum")         \
    X(LAYER_NORM,  "layer_norm")     \
    X(RMS_NORM,    "rms_norm")

#define BERTH_OP_MAP_MODEL(X)        \
    X(MATMUL,      "matmul")         \
    X(LINEAR,      "linear")         \
    X(ROPE,        "rope")           \
    X(ATTENTION,   "attention")      \
    X(PAGED_ATTENTION, "paged_attention")

#define BERTH_OP_MAP_INDEX(X)        \
    X(COPY,        "copy")           \
    X(CAT,         "cat")            \
    X(CAT_MORE,    "cat")            \
    X(STACK,       "stack")          \
    X(STACK_MORE,  "stack")          \
    X(ROLL,        "roll")           \
    X(REPEAT,      "repeat")         \
    X(PAD,         "pad")            \
    X(TRIL,        "tril")           \
    X(TRIU,        "triu")           \
    X(EMBEDDING,   "embedding")      \
    X(GATHER,      "gather")         \
    X(TAKE_ALONG,  "take_along")     \
    X(INDEX_SELECT, "index_select")  \
    X(INDEX_COPY,  "index_copy")     \
    X(SCATTER,     "scatter")        \
    X(SCATTER_ADD, "scatter_add")

#define BERTH_OP_MAP_SORT(X)              \
    X(SORT,          "sort")              \
    X(ARGSORT,       "argsort")           \
    X(TOPK,          "topk")              \
    X(NONZERO,       "nonzero")           \
    X(MASKED_SELECT, "masked_select")     \
    X(UNIQUE,        "unique")

#define BERTH_OP_MAP(X)              \
    BERTH_OP_MAP_CREATE(X)           \
    BERTH_OP_MAP_UNARY(X)            \
    BERTH_OP_MAP_BINARY(X)           \
    BERTH_OP_MAP_REDUCE(X)           \
    BERTH_OP_MAP_MODEL(X)            \
    BERTH_OP_MAP_INDEX(X)            \
    BERTH_OP_MAP_SORT(X)             \
    X(NOOP,        "noop")
// clang-format on

typedef enum berth_op_id {
#define BERTH_OP_ENUM(id, name) BERTH_OP_##id,
    BERTH_OP_MAP(BERTH_OP_ENUM)
#undef BERTH_OP_ENUM
        BERTH_OP_COUNT
} berth_op_id;

#endif // BERTH_BASE_OP_MAP_H
