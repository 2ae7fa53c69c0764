// SPDX-License-Identifier: Apache-2.0
#include "ops/check_paged.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/op_params.h"

/// A row of the table of sequences.
typedef struct sequence_row {
    int64_t first_query;
    int64_t queries;
    int64_t keys;
    int64_t first_entry;
    int64_t first_new;
    int64_t new_rows;
} sequence_row;

/// Sizes of the operands.
typedef struct paged_sizes {
    int64_t queries; ///< rows of q
    int64_t blocks;
    int64_t block_keys;
    int64_t entries;
    int64_t new_rows; ///< rows of k and v
} paged_sizes;

static int64_t number_at(const berth_view* table, int64_t offset) {
    int32_t number;
    memcpy(&number, (const unsigned char*)table->data + offset * 4, sizeof number);
    return number;
}

static sequence_row row_at(const berth_view* table, int64_t index) {
    int64_t numbers[6] = {0};
    for (int64_t i = 0; i < table->dims[1]; ++i)
        numbers[i] = number_at(table, index * table->strides[0] + i * table->strides[1]);
    return (sequence_row){numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]};
}

/// Refuses items [first, first + count) that are not among `size`.
static berth_status check_within(
    int64_t sequence, const char* what, int64_t first, int64_t count, int64_t size) {
    if (first >= 0 && count >= 0 && first + count <= size) return BERTH_OK;
    return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                         "sequence %" PRId64 " has %" PRId64 " %s from %" PRId64
                         " on, there are %" PRId64,
                         sequence,
                         count,
                         what,
                         first,
                         size);
}

static berth_status check_more(int64_t sequence, const char* what, int64_t count, int64_t keys) {
    if (count <= keys) return BERTH_OK;
    return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                         "sequence %" PRId64 " has %" PRId64 " %s but %" PRId64 " keys",
                         sequence,
                         count,
                         what,
                         keys);
}

static berth_status check_blocks(
    const berth_view* table, int64_t sequence, int64_t first, int64_t count, int64_t blocks) {
    for (int64_t i = first; i < first + count; ++i) {
        const int64_t block = number_at(table, i * table->strides[0]);
        if (block >= 0 && block < blocks) continue;
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "entry %" PRId64 " of sequence %" PRId64 " is block %" PRId64
                             ", there are %" PRId64,
                             i - first,
                             sequence,
                             block,
                             blocks);
    }
    return BERTH_OK;
}

static berth_status check_sequence(const berth_op_call* call,
                                   const paged_sizes* sizes,
                                   int64_t index,
                                   const sequence_row* row) {
    if (row->keys < 0)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "sequence %" PRId64 " has %" PRId64 " keys",
                             index,
                             row->keys);
    BERTH_TRY(check_within(index, "rows of q", row->first_query, row->queries, sizes->queries));
    BERTH_TRY(check_within(index, "new rows", row->first_new, row->new_rows, sizes->new_rows));
    BERTH_TRY(check_more(index, "queries", row->queries, row->keys));
    BERTH_TRY(check_more(index, "new rows", row->new_rows, row->keys));
    if (row->keys > 0 && sizes->block_keys == 0)
        return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                             "sequence %" PRId64 " has %" PRId64 " keys, a block holds none",
                             index,
                             row->keys);
    int64_t entries = 0;
    if (row->keys > 0)
        entries = row->keys / sizes->block_keys + (row->keys % sizes->block_keys != 0);
    BERTH_TRY(check_within(index, "entries of blocks", row->first_entry, entries, sizes->entries));
    return check_blocks(&call->inputs[4], index, row->first_entry, entries, sizes->blocks);
}

berth_status berth_check_paged_attention(const berth_op_call* call) {
    const berth_paged_attention_params* params = call->params;
    if (params->is_trusted) return BERTH_OK;
    const paged_sizes sizes = {
        .queries = call->inputs[0].dims[0],
        .blocks = call->inputs[1].dims[0],
        .block_keys = call->inputs[1].dims[1],
        .entries = call->inputs[4].dims[0],
        .new_rows = call->input_count > 5 ? call->inputs[5].dims[0] : 0,
    };
    int64_t end = 0; // of the rows of q before
    for (int64_t i = 0; i < call->inputs[3].dims[0]; ++i) {
        const sequence_row row = row_at(&call->inputs[3], i);
        BERTH_TRY(check_sequence(call, &sizes, i, &row));
        if (row.first_query < end)
            return berth_op_fail(BERTH_ERR_INVALID_ARGUMENT,
                                 "sequence %" PRId64 " begins at row %" PRId64
                                 " of q, the ones before end at %" PRId64,
                                 i,
                                 row.first_query,
                                 end);
        end = row.first_query + row.queries;
    }
    return BERTH_OK;
}
