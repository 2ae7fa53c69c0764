// SPDX-License-Identifier: Apache-2.0
// What debugging options keep of the blocks that are out: which place of the program took each
// (BERTH_LEAKS), and the last takes and gives in their order (BERTH_HISTORY). There is none unless
// one of them is on. Thread-safe; calls nobody.
#ifndef BERTH_MEMORY_AUDIT_H
#define BERTH_MEMORY_AUDIT_H

#include "base/byte_stream.h"
#include "base/text.h"

typedef struct berth_audit berth_audit;

/// Outside of any step.
#define BERTH_AUDIT_NO_EVENT UINT32_MAX
/// The most places that are told apart; blocks of all others are counted as one.
#define BERTH_AUDIT_SITES_MAX 65536u

/// A place in the program. Texts outlive the audit and are the same pointer whenever they are the
/// same text.
typedef struct berth_audit_site {
    const char* op;   ///< op or call that takes
    const char* step; ///< innermost open step; NULL: none
    uint32_t event;   ///< of the step, or BERTH_AUDIT_NO_EVENT
} berth_audit_site;

/// How a block is remembered.
typedef enum berth_audit_kind {
    BERTH_AUDIT_BLOCK,  ///< of the pool: part of the history
    BERTH_AUDIT_BESIDE, ///< other memory that somebody has to give back
} berth_audit_kind;

/// Keeps the last `history_events` takes and gives of blocks; 0: no history. All memory of the
/// history is taken here.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory), with the amount.
BERTH_NODISCARD berth_status berth_audit_create(const berth_host* host,
                                                uint64_t history_events,
                                                berth_audit** out_audit);
void berth_audit_destroy(berth_audit* audit); ///< accepts NULL

/// Notes that `bytes` bytes at `data`, where nothing is noted, are out.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory); nothing noted.
BERTH_NODISCARD berth_status berth_audit_note_take(berth_audit* audit,
                                                   berth_audit_kind kind,
                                                   const void* data,
                                                   uint64_t bytes,
                                                   const berth_audit_site* site);
/// Notes that the block at `data` is no longer out; nothing if none is noted there.
void berth_audit_note_give(berth_audit* audit, const void* data);
/// Notes that the block at `from` lies at `to` now.
void berth_audit_note_move(berth_audit* audit, const void* from, const void* to);

/// Where the block at `data` was taken; false if none is noted there.
bool berth_audit_query_site(berth_audit* audit, const void* data, berth_audit_site* out_site);
/// Adds " op in step NAME, event N" to `text`.
void berth_audit_write_site(berth_text* text, const berth_audit_site* site);

/// Counts a block whose guard was broken; how many there were so far.
void berth_audit_count_damage(berth_audit* audit);
uint64_t berth_audit_query_damaged(berth_audit* audit);

/// Blocks that are out, and their bytes.
void berth_audit_query_out(berth_audit* audit, uint64_t* out_blocks, uint64_t* out_bytes);
/// Adds a line for each site that has blocks out, most bytes first: their number, bytes, site, and
/// how many takes ago the oldest of them was taken. Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_audit_write_leaks(berth_audit* audit, berth_text* text);

/// Writes the history as a trace (docs/trace-format.md): what was live when it began, then the
/// takes and gives that are remembered.
void berth_audit_write_history(berth_audit* audit, berth_byte_writer* out);

#endif // BERTH_MEMORY_AUDIT_H
