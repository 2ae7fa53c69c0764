// SPDX-License-Identifier: Apache-2.0
// What may be moved while it is alive: whoever owns a block of a pool and can follow it to another
// place.
#ifndef BERTH_MEMORY_MOVABLE_H
#define BERTH_MEMORY_MOVABLE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct berth_movable berth_movable;
struct berth_block;

/// All are called by whoever holds the guard of the pool that the block is from.
typedef struct berth_movable_ops {
    /// Asks for leave to move the block. After true nobody begins to use it elsewhere or pins it
    /// until `move` is called, which follows in any case.
    bool (*can_move)(berth_movable* self);
    /// The block as its owner has it now.
    const struct berth_block* (*block)(const berth_movable* self);
    /// When the block was used last, in epochs of its owner that count up; for choosing cold ones.
    uint64_t (*last_use)(const berth_movable* self);
    /// The content is in `to`, or will be once the pool's stream has come so far; `to` is the
    /// owner's from now on, what it had before is the mover's: its last `left_bytes` are free
    /// memory, the rest may hold something else or be mapped no more. NULL: it stays where it is.
    /// Cannot fail, and calls no pool.
    void (*move)(berth_movable* self, const struct berth_block* to, uint64_t left_bytes);
} berth_movable_ops;

/// Member of whatever owns a block that may move. `ops` is never NULL.
struct berth_movable {
    const berth_movable_ops* ops;
};

#endif // BERTH_MEMORY_MOVABLE_H
