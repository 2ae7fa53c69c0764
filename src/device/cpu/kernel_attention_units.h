// SPDX-License-Identifier: Apache-2.0
// What the ops of attention share: queries of some sequences against keys that lie in blocks, cut
// into units of work for the team. Each op says what its sequences and its blocks are.
#ifndef BERTH_DEVICE_CPU_KERNEL_ATTENTION_UNITS_H
#define BERTH_DEVICE_CPU_KERNEL_ATTENTION_UNITS_H

#include "device/cpu/kernel_basic.h"

/// Keys that are attended to from nothing and merged in ascending order: see the source.
#define BERTH_ATTENTION_SEGMENT 512
/// Query rows of a unit, at most: enough to pay for bringing a tile into columns.
#define BERTH_ATTENTION_ROWS 48

/// Queries that attend to the same keys. Query i sees keys [0, min(first_seen + i, keys)).
typedef struct berth_attention_sequence {
    int64_t first_query; ///< row of q
    int64_t queries;
    int64_t keys;
    int64_t first_seen;  ///< keys that the first query sees; below 1 for none
    int64_t first_entry; ///< of the job's table
    // filled in by berth_attention_run()
    int64_t segments;
    int64_t first_unit;
    int64_t first_slot; ///< of the job's slots: each segment is a unit; or -1: none is
} berth_attention_sequence;

/// A call, or a batch of one.
typedef struct berth_attention_job {
    berth_view q;            ///< [tokens, heads, depth]
    berth_view keys;         ///< [blocks, keys a block, KV heads, depth], quantised perhaps
    berth_view values;       ///< likewise, [.., width]
    berth_view out;          ///< [tokens, heads, width], contiguous
    const berth_view* table; ///< i32: numbers of the sequences' blocks; NULL: block 0 holds all
    const berth_view* mask;  ///< [heads, tokens, keys], repeated where strides are 0; or NULL
    float scale;
    int64_t unit_rows;  ///< query rows of a unit, at most
    float* workers;     ///< scratch: berth_attention_worker_floats() for each worker
    float* slots;       ///< scratch: [slot_count, berth_attention_slot_floats()]
    int64_t slot_count; ///< each takes one row's sums of one segment
    // filled in by berth_attention_run()
    int64_t heads;
    int64_t kv_heads;
    int64_t group;     ///< query heads a KV head
    int64_t depth;     ///< of a key
    int64_t width;     ///< of a value
    int64_t columns;   ///< width rounded up to whole vectors
    int64_t key_bytes; ///< of one head's row
    int64_t value_bytes;
    bool is_aligned; ///< keys and values may be used in runs where they lie
    const berth_basic_rows* rows;
    berth_to_f32_fn to_f32; ///< for keys and values
    const berth_attention_sequence* sequences;
    int64_t sequence_count;
} berth_attention_job;

/// Floats of a worker's scratch; with `has_table` for keys that are copied side by side, too.
int64_t berth_attention_worker_floats(int64_t depth,
                                      int64_t width,
                                      int64_t unit_rows,
                                      bool has_table);

/// Floats of a slot: a row of `width` sums and what goes with it, in whole cache lines.
int64_t berth_attention_slot_floats(int64_t width);

/// The number of the block of entry `index` of the job's table; -1 if there is no such block.
int64_t berth_attention_block_at(const berth_attention_job* job, int64_t index);

/// Attends: writes the rows of `out` that are queries of `sequences` [count], which do not overlap.
/// A sequence of a single query is cut at its segments while there are slots. Entries of the table
/// that are no blocks are keys that nobody sees.
void berth_attention_run(const berth_op_call* call,
                         berth_attention_job* job,
                         berth_attention_sequence* sequences,
                         int64_t count);

#endif // BERTH_DEVICE_CPU_KERNEL_ATTENTION_UNITS_H
