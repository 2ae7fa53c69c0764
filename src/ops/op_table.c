// SPDX-License-Identifier: Apache-2.0
// The op table.
#include "ops/op_table.h"

#include "device/cpu/kernel_attention.h"
#include "device/cpu/kernel_matrix.h"

#define IN_PLACE BERTH_OP_IN_PLACE_0
#define IN_PLACE_BOTH (BERTH_OP_IN_PLACE_0 | BERTH_OP_IN_PLACE_1)
#define UPDATES (BERTH_OP_IN_PLACE_0 | BERTH_OP_UPDATES_0)

// clang-format off
#define ROW(id, text, least, most, bits, rule, workspace)                                          \
    [BERTH_OP_##id] = {                                                                            \
        .struct_size = sizeof(berth_op_desc), .name = text, .min_inputs = least,                   \
        .max_inputs = most, .output_count = 1, .flags = bits, .infer = berth_infer_##rule,         \
        .scratch = workspace,                                                                      \
    }

const berth_op_desc berth_op_table[BERTH_OP_COUNT] = {
    //  id          name         operands  flags          checks       workspace
    ROW(FILL,       "full",       0, 0,    0,             fill,        NULL),
    ROW(ARANGE,     "arange",     0, 0,    0,             arange,      NULL),
    ROW(RANDOM,     "random",     0, 0,    0,             random,      NULL),
    ROW(COPY,       "contiguous", 1, 1,    0,             copy,        NULL),
    ROW(CAST,       "cast",       1, 1,    0,             cast,        NULL),
    ROW(ADD,        "add",        2, 2,    IN_PLACE_BOTH, binary,      NULL),
    ROW(SUB,        "sub",        2, 2,    IN_PLACE_BOTH, binary,      NULL),
    ROW(MUL,        "mul",        2, 2,    IN_PLACE_BOTH, binary,      NULL),
    ROW(DIV,        "div",        2, 2,    IN_PLACE_BOTH, div,         NULL),
    ROW(MINIMUM,    "minimum",    2, 2,    IN_PLACE_BOTH, binary,      NULL),
    ROW(MAXIMUM,    "maximum",    2, 2,    IN_PLACE_BOTH, binary,      NULL),
    ROW(AFFINE,     "affine",     1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(NEG,        "neg",        1, 1,    IN_PLACE,      neg,         NULL),
    ROW(EXP,        "exp",        1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(SQRT,       "sqrt",       1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(TANH,       "tanh",       1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(SIGMOID,    "sigmoid",    1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(RELU,       "relu",       1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(SILU,       "silu",       1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(GELU,       "gelu",       1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(SUM,        "sum",        1, 1,    0,             sum,         NULL),
    ROW(MEAN,       "mean",       1, 1,    0,             mean,        NULL),
    ROW(MAX,        "max",        1, 1,    0,             max,         NULL),
    ROW(ARGMAX,     "argmax",     1, 1,    0,             argmax,      NULL),
    ROW(SOFTMAX,    "softmax",    1, 1,    IN_PLACE,      softmax,     NULL),
    ROW(RMS_NORM,   "rms_norm",   2, 2,    IN_PLACE,      rms_norm,    NULL),
    ROW(MATMUL,     "matmul",     2, 2,    0,             matmul,      berth_cpu_matmul_scratch),
    ROW(LINEAR,     "linear",     2, 3,    0,             linear,      berth_cpu_linear_scratch),
    ROW(ROPE,       "rope",       2, 3,    IN_PLACE,      rope,        NULL),
    ROW(ATTENTION,  "attention",  3, 3,    0,             attention,   berth_cpu_attention_scratch),
    ROW(EMBEDDING,  "embedding",  2, 2,    0,             embedding,   NULL),
    ROW(INDEX_COPY, "index_copy", 3, 3,    UPDATES,       index_copy,  NULL),
    ROW(CAT,        "cat",        1, BERTH_OP_MAX_INPUTS, 0, cat,      NULL),
    ROW(NOOP,       "noop",       1, 1,    IN_PLACE,      any_unary,   NULL),
};
// clang-format on
