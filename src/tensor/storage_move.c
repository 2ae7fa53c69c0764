// SPDX-License-Identifier: Apache-2.0
// How storages follow their blocks to other places of the pool. All is called by the holder of the
// home's lock.
#include "tensor/tensor_impl.h"

static berth_storage* storage_of(const berth_movable* movable) {
    const uintptr_t at = (uintptr_t)movable - offsetof(berth_storage, movable);
    return (berth_storage*)at;
}

/// Another context that begins to use the storage takes its lock first, so it waits for the move.
static bool can_move(berth_movable* self) {
    berth_storage* storage = storage_of(self);
    if (storage->last_use == storage->home->epoch) return false;
    if (atomic_flag_test_and_set_explicit(&storage->lock, memory_order_acquire)) return false;
    const bool is_marked = atomic_load_explicit(&storage->marks, memory_order_acquire) != 0;
    if (!is_marked && storage->kind == BERTH_STORAGE_POOL) return true;
    berth_storage_unlock(storage);
    return false;
}

static const berth_block* block(const berth_movable* self) { return &storage_of(self)->block; }

static uint64_t last_use(const berth_movable* self) { return storage_of(self)->last_use; }

static void move(berth_movable* self, const berth_block* to, uint64_t left_bytes) {
    berth_storage* storage = storage_of(self);
    if (to != NULL) {
        berth_home* home = storage->home;
        // the block's own bytes: a guard makes it longer than the storage
        const uint64_t kept_bytes = storage->block.size_bytes - left_bytes;
        if (home->fills_on_free && left_bytes > 0)
            berth_home_fill(home, storage->data + kept_bytes, left_bytes, BERTH_POISON_FREE_BYTE);
        if (home->audit != NULL) berth_audit_note_move(home->audit, storage->data, to->data);
        storage->block = *to;
        storage->data = to->data;
    }
    berth_storage_unlock(storage);
}

const berth_movable_ops berth_storage_moves = {
    .can_move = can_move,
    .block = block,
    .last_use = last_use,
    .move = move,
};
