// SPDX-License-Identifier: Apache-2.0
// What bench-ops measures: a call of each public op on operands of one type and size.
#ifndef BERTH_BENCH_OPS_OP_CASES_H
#define BERTH_BENCH_OPS_OP_CASES_H

#include "berth/berth.h"

/// Operands of one type and size. All lie in memory one element behind the other.
typedef struct bench_data {
    berth_context* ctx;
    berth_dtype dtype;
    int64_t count;             ///< elements of x
    int64_t columns;           ///< of `rows`
    berth_tensor* x;           ///< [count]
    berth_tensor* rows;        ///< [count / columns, columns], of x's storage
    berth_tensor* halves[2];   ///< [count / 2] each, of x's storage
    berth_tensor* vector;      ///< [columns]
    berth_tensor* mask;        ///< bool [count], half of it true
    berth_tensor* half_mask;   ///< [count / 2]
    berth_tensor* row_index;   ///< i64 [count / columns]: every row once, in no order
    berth_tensor* item_index;  ///< i32, like `rows`: every column once in each row, in no order
    berth_tensor* squares[2];  ///< [side, side]: fewer elements than x has, as products are slow
    berth_tensor* heads;       ///< [tokens, heads, size], of x's storage
    berth_tensor* positions;   ///< i32 [tokens]
    berth_tensor* sequence[2]; ///< queries, keys and values of one sequence: [tokens, heads, size]
    berth_tensor* cache[2];    ///< keys and values [tokens, heads, size], of x's storage
    berth_tensor* query;       ///< [1, heads, size]
    berth_tensor* blocks[2];   ///< the cache in blocks: [blocks, 16 or fewer, heads, size]
    berth_tensor* queries;     ///< [sequences, heads, size], one of each sequence
    berth_tensor* sequences;   ///< i32 [sequences, 4]: all blocks in equal parts
    berth_tensor* block_table; ///< i32 [blocks]: every block once, in no order
} bench_data;

/// Makes operands of `bytes` bytes, a multiple of 16 and best a power of two. False and the
/// context's error if that fails.
bool bench_data_make(bench_data* data, berth_context* ctx, berth_dtype dtype, int64_t bytes);

/// Releases what there is.
void bench_data_free(bench_data* data);

/// What of the operands a call must read.
typedef enum bench_reads {
    BENCH_READS_NOTHING,
    BENCH_READS_X,        ///< x, or its halves
    BENCH_READS_HALF,     ///< half of x
    BENCH_READS_MASK,     ///< x and the mask
    BENCH_READS_ROWS,     ///< as much as it writes, and a number for each row
    BENCH_READS_ITEMS,    ///< x, and a number for each element
    BENCH_READS_WRITES,   ///< x, as much again to write there, and a number for each row
    BENCH_READS_SCATTERS, ///< x, as much again, and a number for each element
    BENCH_READS_SQUARES,  ///< both squares
    BENCH_READS_SEQUENCE, ///< three sequences
    BENCH_READS_CACHE,    ///< keys and values of the cache
} bench_reads;

/// A call of an op.
typedef struct bench_case {
    const char* op;  ///< its name, with what is special behind a colon
    uint32_t dtypes; ///< bit n: berth_dtype n
    bench_reads reads;
    /// Makes the result, and in `more` [2] further ones.
    berth_tensor* (*run)(const bench_data* data, berth_tensor** more);
    /// Operations of arithmetic, 2 for a multiply-add; NULL where memory is the limit.
    double (*work)(const bench_data* data);
} bench_case;

extern const bench_case bench_cases[];
extern const size_t bench_case_count;

/// Bytes that a call must read and write; `results` [3], NULL behind the last.
double bench_case_bytes(const bench_case* c, const bench_data* data, berth_tensor* const* results);

/// Why an op cannot come near to the limit at large sizes; NULL: no reason is known.
const char* bench_case_reason(const char* op, berth_dtype dtype);

#endif // BERTH_BENCH_OPS_OP_CASES_H
