// SPDX-License-Identifier: Apache-2.0
// Guards around the blocks of one context (BERTH_GUARD). A line of a known pattern stands behind
// each block and is looked at when the block is given back. A block of a granule or more has
// addresses of its own besides, with a granule that is not mapped on either side, so that whoever
// goes on beyond its line faults at once. Used under its context's lock.
#ifndef BERTH_MEMORY_GUARDS_H
#define BERTH_MEMORY_GUARDS_H

#include <stdatomic.h>

#include "base/address_map.h"
#include "base/vec.h"
#include "memory/pool.h"

/// Bytes of the line behind a block of the pool.
#define BERTH_GUARD_LINE_BYTES 64u
/// The handle of blocks with addresses of their own.
#define BERTH_GUARDED_HANDLE UINT64_MAX

/// Addresses that the device refused to take back.
typedef struct berth_guarded_rest {
    berth_space* space;
    uint64_t mapped_bytes; ///< from its second granule on
} berth_guarded_rest;

BERTH_VEC_DEFINE(berth_guarded_rest_vec, berth_guarded_rest);

typedef struct berth_guards {
    const berth_host* host;
    berth_account account; ///< of large blocks
    berth_stream* stream;
    uint64_t granule_bytes;
    bool lines_only;          ///< no addresses of their own: the blocks come from a bypass
    berth_address_map spaces; ///< of large blocks that are out
    /// Asked for by them; others may read it.
    _Atomic uint64_t large_bytes;
    berth_guarded_rest_vec rests;
} berth_guards;

/// What a look at a guard line has found.
typedef struct berth_guard_damage {
    uint64_t bytes; ///< that are not as they were left; 0: all is well
    uint64_t first; ///< offset of the first one behind the block
    unsigned char value;
} berth_guard_damage;

/// `guards` is zeroed, which fini accepts as well.
void berth_guards_init(berth_guards* guards,
                       const berth_host* host,
                       berth_account account,
                       berth_stream* stream,
                       bool lines_only);
/// All blocks have been given back. Waits for the stream.
void berth_guards_fini(berth_guards* guards);

/// True if a block of `size` bytes gets addresses of its own.
bool berth_guards_is_large(const berth_guards* guards, uint64_t size);

/// Takes a block of `size` bytes, large, that is mapped from `reservation` (may be NULL) first.
/// Errors: BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_OVERFLOW, BERTH_ERR_DEVICE; nothing changed.
BERTH_NODISCARD berth_status berth_guards_take(berth_guards* guards,
                                               uint64_t size,
                                               berth_reservation* reservation,
                                               berth_block* out_block);
/// Gives it back. Waits for the stream.
void berth_guards_give(berth_guards* guards, const berth_block* block);

/// Enqueues the pattern behind the `size` bytes at `data`; `is_large` as of the block.
/// Errors: those of the device.
BERTH_NODISCARD berth_status berth_guards_draw(const berth_guards* guards,
                                               unsigned char* data,
                                               uint64_t size,
                                               bool is_large);
/// Waits for the stream and looks at the pattern. What a device does not let us see is well.
berth_guard_damage berth_guards_look(const berth_guards* guards,
                                     const unsigned char* data,
                                     uint64_t size,
                                     bool is_large);

#endif // BERTH_MEMORY_GUARDS_H
