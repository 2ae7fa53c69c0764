// SPDX-License-Identifier: Apache-2.0
// The op table.
#include "ops/op_table.h"

#include "device/cpu/kernel_attention.h"
#include "device/cpu/kernel_matrix.h"
#include "device/cpu/kernel_sort.h"
#include "ops/check_index.h"
#include "ops/check_paged.h"
#include "ops/infer.h"

#define IN_PLACE BERTH_OP_IN_PLACE(0)
#define IN_PLACE_BOTH (BERTH_OP_IN_PLACE(0) | BERTH_OP_IN_PLACE(1))
#define IN_PLACE_SIDES (BERTH_OP_IN_PLACE(1) | BERTH_OP_IN_PLACE(2))
#define UPDATES (BERTH_OP_IN_PLACE(0) | BERTH_OP_UPDATES_0)

// The names are those of the list of ids.
#define OP_NAME(id, name) static const char name_##id[] = name;
BERTH_OP_MAP(OP_NAME)
#undef OP_NAME

// clang-format off
#define ROW(id, least, most, bits, rule, workspace)                                                \
    [BERTH_OP_##id] = {                                                                            \
        .struct_size = sizeof(berth_op_desc), .name = name_##id, .min_inputs = least,              \
        .max_inputs = most, .output_count = 1, .flags = bits, .infer = berth_infer_##rule,         \
        .scratch = workspace,                                                                      \
    }

// Ops with indices, whose data is looked at where that can be done.
#define ROW_INDEX(id, count, bits, rule, check)                                                    \
    [BERTH_OP_##id] = {                                                                            \
        .struct_size = sizeof(berth_op_desc), .name = name_##id, .min_inputs = count,              \
        .max_inputs = count, .output_count = 1, .flags = bits, .infer = berth_infer_##rule,        \
        .check_data = berth_check_##check,                                                         \
    }

// Ops with several results, and those whose sizes are counted first.
#define ROW_MANY(id, operands, results, rule, workspace, counter)                                  \
    [BERTH_OP_##id] = {                                                                            \
        .struct_size = sizeof(berth_op_desc), .name = name_##id, .min_inputs = operands,           \
        .max_inputs = operands, .output_count = results, .infer = berth_infer_##rule,              \
        .scratch = workspace, .counters = {[BERTH_DEVICE_CPU] = counter},                          \
    }

const berth_op_desc berth_op_table[BERTH_OP_COUNT] = {
    //  id          operands  flags          checks       workspace
    // creation
    ROW(FILL,       0, 0,    0,             fill,        NULL),
    ROW(ARANGE,     0, 0,    0,             arange,      NULL),
    ROW(RAND,       0, 0,    0,             rand,        NULL),
    ROW(RANDN,      0, 0,    0,             random,      NULL),
    ROW(RANDINT,    0, 0,    0,             randint,     NULL),

    // one operand
    ROW(CAST,       1, 1,    IN_PLACE,      cast,        NULL),
    ROW(AFFINE,     1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(NEG,        1, 1,    IN_PLACE,      number,      NULL),
    ROW(ABS,        1, 1,    IN_PLACE,      number,      NULL),
    ROW(SIGN,       1, 1,    IN_PLACE,      any_unary,   NULL),
    ROW(RELU,       1, 1,    IN_PLACE,      number,      NULL),
    ROW(FLOOR,      1, 1,    IN_PLACE,      number,      NULL),
    ROW(CEIL,       1, 1,    IN_PLACE,      number,      NULL),
    ROW(ROUND,      1, 1,    IN_PLACE,      number,      NULL),
    ROW(EXP,        1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(LOG,        1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(LOG1P,      1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(SQRT,       1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(RSQRT,      1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(RECIPROCAL, 1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(SIN,        1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(COS,        1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(TANH,       1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(SIGMOID,    1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(SILU,       1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(GELU,       1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(GELU_TANH,  1, 1,    IN_PLACE,      float_unary, NULL),
    ROW(LOGICAL_NOT, 1, 1,   IN_PLACE,      test,        NULL),
    ROW(ISNAN,      1, 1,    IN_PLACE,      test,        NULL),
    ROW(ISINF,      1, 1,    IN_PLACE,      test,        NULL),
    ROW(ISFINITE,   1, 1,    IN_PLACE,      test,        NULL),

    // two operands
    ROW(ADD,        2, 2,    IN_PLACE_BOTH, binary,      NULL),
    ROW(SUB,        2, 2,    IN_PLACE_BOTH, arithmetic,  NULL),
    ROW(MUL,        2, 2,    IN_PLACE_BOTH, binary,      NULL),
    ROW(DIV,        2, 2,    IN_PLACE_BOTH, div,         NULL),
    ROW(MINIMUM,    2, 2,    IN_PLACE_BOTH, binary,      NULL),
    ROW(MAXIMUM,    2, 2,    IN_PLACE_BOTH, binary,      NULL),
    ROW(REMAINDER,  2, 2,    IN_PLACE_BOTH, arithmetic,  NULL),
    ROW(POW,        2, 2,    IN_PLACE_BOTH, arithmetic,  NULL),
    ROW(EQ,         2, 2,    IN_PLACE_BOTH, predicate,   NULL),
    ROW(NE,         2, 2,    IN_PLACE_BOTH, predicate,   NULL),
    ROW(LT,         2, 2,    IN_PLACE_BOTH, predicate,   NULL),
    ROW(LE,         2, 2,    IN_PLACE_BOTH, predicate,   NULL),
    ROW(GT,         2, 2,    IN_PLACE_BOTH, predicate,   NULL),
    ROW(GE,         2, 2,    IN_PLACE_BOTH, predicate,   NULL),
    ROW(LOGICAL_AND, 2, 2,   IN_PLACE_BOTH, predicate,   NULL),
    ROW(LOGICAL_OR, 2, 2,    IN_PLACE_BOTH, predicate,   NULL),
    ROW(LOGICAL_XOR, 2, 2,   IN_PLACE_BOTH, predicate,   NULL),
    ROW(WHERE,      3, 3,    IN_PLACE_SIDES, where,      NULL),
    ROW(CLAMP,      1, 1,    IN_PLACE,      clamp,       NULL),
    ROW(OUTER,      2, 2,    0,             outer,       NULL),

    // reductions and norms
    ROW(SUM,        1, 1,    0,             sum,         NULL),
    ROW(MEAN,       1, 1,    0,             mean,        NULL),
    ROW(PROD,       1, 1,    0,             sum,         NULL),
    ROW(MAX,        1, 1,    0,             extreme,     NULL),
    ROW(MIN,        1, 1,    0,             extreme,     NULL),
    ROW(ARGMAX,     1, 1,    0,             place,       NULL),
    ROW(ARGMIN,     1, 1,    0,             place,       NULL),
    ROW(VAR,        1, 1,    0,             var,         NULL),
    ROW(LOGSUMEXP,  1, 1,    0,             mean,        NULL),
    ROW(ANY,        1, 1,    0,             truth,       NULL),
    ROW(ALL,        1, 1,    0,             truth,       NULL),
    ROW(SOFTMAX,    1, 1,    IN_PLACE,      softmax,     NULL),
    ROW(LOG_SOFTMAX, 1, 1,   IN_PLACE,      softmax,     NULL),
    ROW(CUMSUM,     1, 1,    IN_PLACE,      cumsum,      NULL),
    ROW(LAYER_NORM, 1, 3,    IN_PLACE,      layer_norm,  NULL),
    ROW(RMS_NORM,   1, 2,    IN_PLACE,      rms_norm,    NULL),

    // products, attention
    ROW(MATMUL,     2, 2,    0,             matmul,      berth_cpu_matmul_scratch),
    ROW(LINEAR,     2, 3,    0,             linear,      berth_cpu_linear_scratch),
    ROW(ROPE,       2, 3,    IN_PLACE,      rope,        NULL),
    ROW(ATTENTION,  3, 4,    0,             attention,   berth_cpu_attention_scratch),
    [BERTH_OP_PAGED_ATTENTION] = {
        .struct_size = sizeof(berth_op_desc), .name = name_PAGED_ATTENTION, .min_inputs = 5,
        .max_inputs = 7, .output_count = 1, .infer = berth_infer_paged_attention,
        .check_data = berth_check_paged_attention, .scratch = berth_cpu_paged_attention_scratch,
    },

    // layout and indices
    ROW(COPY,       1, 1,    0,             copy,        NULL),
    ROW(CAT,        1, BERTH_OP_MAX_INPUTS, 0, cat,       NULL),
    ROW(CAT_MORE,   2, BERTH_OP_MAX_INPUTS, UPDATES, more, NULL),
    ROW(STACK,      1, BERTH_OP_MAX_INPUTS, 0, stack,     NULL),
    ROW(STACK_MORE, 2, BERTH_OP_MAX_INPUTS, UPDATES, more, NULL),
    ROW(ROLL,       1, 1,    0,             roll,        NULL),
    ROW(REPEAT,     1, 1,    0,             repeat,      NULL),
    ROW(PAD,        1, 1,    0,             pad,         NULL),
    ROW(TRIL,       1, 1,    IN_PLACE,      triangle,    NULL),
    ROW(TRIU,       1, 1,    IN_PLACE,      triangle,    NULL),

    // indices
    ROW_INDEX(EMBEDDING,    2, 0,       embedding,    embedding),
    ROW_INDEX(GATHER,       2, 0,       gather,       along),
    ROW_INDEX(TAKE_ALONG,   2, 0,       take_along,   along),
    ROW_INDEX(INDEX_SELECT, 2, 0,       index_select, along),
    ROW_INDEX(INDEX_COPY,   3, UPDATES, index_copy,   along),
    ROW_INDEX(SCATTER,      3, UPDATES, scatter,      along),
    ROW_INDEX(SCATTER_ADD,  3, UPDATES, scatter,      along),

    // sorting, and sizes that depend on data
    //       id             in out  checks         workspace                        counting kernel
    ROW_MANY(SORT,          1, 2,   sort,          berth_cpu_sort_scratch,          NULL),
    ROW_MANY(ARGSORT,       1, 1,   argsort,       berth_cpu_argsort_scratch,       NULL),
    ROW_MANY(TOPK,          1, 2,   topk,          berth_cpu_topk_scratch,          NULL),
    ROW_MANY(NONZERO,       1, 1,   nonzero,       berth_cpu_nonzero_scratch,       berth_cpu_nonzero_count),
    ROW_MANY(MASKED_SELECT, 2, 1,   masked_select, berth_cpu_masked_select_scratch, berth_cpu_masked_select_count),
    ROW_MANY(UNIQUE,        1, 3,   unique,        berth_cpu_unique_scratch,        berth_cpu_unique_count),

    ROW(NOOP,       1, 1,    IN_PLACE,      any_unary,   NULL),
};
// clang-format on
