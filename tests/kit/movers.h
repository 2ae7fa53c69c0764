// SPDX-License-Identifier: Apache-2.0
// Blocks of a pool that can be moved, each filled with a pattern of its own that is checked.
#ifndef BERTH_TEST_MOVERS_H
#define BERTH_TEST_MOVERS_H

#include "kit/test.h"

#include "memory/pool.h"

/// An owner of one block.
typedef struct mover_owner {
    berth_movable movable; ///< first
    berth_block block;
    bool is_out;    ///< has a block
    bool is_pinned; ///< refuses to be moved
    bool is_still;  ///< between can_move and move
    uint64_t last_use;
    uint64_t moves;
    unsigned char mark;
} mover_owner;

static inline bool mover_can_move(berth_movable* self) {
    mover_owner* owner = (mover_owner*)(void*)self;
    assert_true(owner->is_out && !owner->is_still);
    owner->is_still = !owner->is_pinned;
    return owner->is_still;
}

static inline const berth_block* mover_block(const berth_movable* self) {
    return &((const mover_owner*)(const void*)self)->block;
}

static inline uint64_t mover_last_use(const berth_movable* self) {
    return ((const mover_owner*)(const void*)self)->last_use;
}

static inline void mover_move(berth_movable* self, const berth_block* to, uint64_t left_bytes) {
    (void)left_bytes;
    mover_owner* owner = (mover_owner*)(void*)self;
    assert_true(owner->is_still);
    owner->is_still = false;
    if (to == NULL) return;
    assert_int_equal(to->size_bytes, owner->block.size_bytes);
    owner->block = *to;
    ++owner->moves;
}

static const berth_movable_ops mover_ops = {
    .can_move = mover_can_move,
    .block = mover_block,
    .last_use = mover_last_use,
    .move = mover_move,
};

/// Takes a block of a pool of `stream` for `owner`, waits until nothing enqueued can write to it
/// any more, and fills it with `mark`. Errors: those of the pool.
static inline berth_status mover_take(berth_pool* pool,
                                      berth_stream* stream,
                                      mover_owner* owner,
                                      uint64_t bytes,
                                      unsigned char mark) {
    *owner = (mover_owner){.movable = {&mover_ops}, .mark = mark};
    const berth_pool_request request = {.size_bytes = bytes, .movable = &owner->movable};
    const berth_status status = berth_pool_take(pool, &request, &owner->block);
    owner->is_out = status == BERTH_OK;
    if (!owner->is_out) return status;
    assert_ok(berth_stream_drain(stream));
    memset(owner->block.data, mark, bytes);
    return BERTH_OK;
}

/// Fails unless the block is full of its mark. All work of its stream is done.
static inline void mover_check(const mover_owner* owner) {
    const berth_block* block = &owner->block;
    assert_false(owner->is_still);
    for (uint64_t i = 0; i < block->size_bytes; ++i)
        if (block->data[i] != owner->mark)
            fail_msg("byte %llu of %llu is %u, not %u",
                     (unsigned long long)i,
                     (unsigned long long)block->size_bytes,
                     block->data[i],
                     owner->mark);
}

/// Gives the block back.
static inline void mover_give(berth_pool* pool, mover_owner* owner) {
    assert_true(owner->is_out && !owner->is_still);
    berth_pool_give(pool, &owner->block);
    owner->is_out = false;
}

#endif // BERTH_TEST_MOVERS_H
