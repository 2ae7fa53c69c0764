// SPDX-License-Identifier: Apache-2.0
// Storages, tensors, and the home where a context keeps both: object caches, the lock, the ledger
// of a running step, and the way in for releases from other threads.
#ifndef BERTH_TENSOR_TENSOR_IMPL_H
#define BERTH_TENSOR_TENSOR_IMPL_H

#include <stdatomic.h>

#include "base/thread.h"
#include "base/vec.h"
#include "berth/debug.h"
#include "berth/tensor.h"
#include "memory/arena.h"
#include "memory/audit.h"
#include "memory/guards.h"
#include "memory/pool.h"
#include "memory/pool_watch.h"
#include "tensor/shape.h"

typedef struct berth_storage berth_storage;
typedef struct berth_home berth_home;

/// What tensors and storages share, so that both fit one list.
typedef struct berth_object {
    struct berth_object* next; ///< free list, or list of objects released by other threads
    bool is_storage;
} berth_object;

typedef enum berth_storage_kind {
    BERTH_STORAGE_POOL,    ///< `block` is a pool's
    BERTH_STORAGE_FRAME,   ///< inside a running step's frame
    BERTH_STORAGE_HELD,    ///< in a stretch of the arena that outlived its frame
    BERTH_STORAGE_FOREIGN, ///< memory that Berth does not own
} berth_storage_kind;

/// What a running step keeps of its values, by their numbers. A storage finds it when it dies.
typedef struct berth_ledger {
    berth_storage** slots; ///< [capacity], the storage while it is alive, else NULL
    uint32_t* deaths;      ///< [capacity], the last event begun before the death
    uint32_t event;        ///< the event that has begun last
    uint32_t live_count;
    uint64_t live_bytes; ///< rounded to the alignment
    uint64_t pool_bytes; ///< of live values that the pool serves, likewise
} berth_ledger;

/// The mark of a storage that another context has used: for good, or until it dies.
#define BERTH_STORAGE_SHARED (1u << 31)

/// Work of another context that may still read a shared storage.
typedef struct berth_storage_use {
    berth_home* home; ///< pinned
    uint64_t ticket;
} berth_storage_use;
BERTH_VEC_DEFINE(berth_storage_use_vec, berth_storage_use);

struct berth_storage {
    berth_object object;
    _Atomic uint32_t refs; ///< tensors on it
    /// Times the host has it mapped, plus BERTH_STORAGE_SHARED once another context has used it.
    /// While this is not 0 it does not move, and no op writes to it in place.
    _Atomic uint32_t marks;
    atomic_flag lock; ///< taken to share it and to move it
    /// Its end is more than a note in the ledger: it is not plainly in a frame, or is overdue,
    /// shared, to be filled.
    bool is_special;
    bool is_overdue; ///< is in its home's list of stretches to keep clear of
    bool is_read_only;
    uint8_t kind;   ///< berth_storage_kind
    uint32_t value; ///< number in the ledger
    berth_home* home;
    unsigned char* data;
    uint64_t size_bytes;    ///< as asked for
    uint64_t rounded_bytes; ///< to the alignment
    berth_ledger* ledger;   ///< of the step that made it while that runs, else NULL
    berth_block block;      ///< BERTH_STORAGE_POOL
    berth_movable movable;  ///< how a block of the pool is moved
    uint64_t last_use;      ///< the home's epoch at that time
    berth_deleter deleter;  ///< BERTH_STORAGE_FOREIGN
    void* deleter_self;
    berth_storage_use_vec uses; ///< guarded by `lock`
};

struct berth_tensor {
    berth_object object;
    _Atomic uint32_t refs;
    uint8_t dtype;
    uint8_t rank;
    bool is_dense;
    berth_home* home; ///< where the object goes back to
    berth_storage* storage;
    uint64_t offset_bytes;
    int64_t dims[BERTH_MAX_RANK];
    int64_t strides[BERTH_MAX_RANK];
};

/// A stretch that nothing may be placed over.
typedef struct berth_overdue {
    const unsigned char* begin;
    const unsigned char* end;
    berth_storage* storage;
} berth_overdue;
BERTH_VEC_DEFINE(berth_overdue_vec, berth_overdue);

/// Objects of one kind that were allocated together.
typedef struct berth_object_chunk {
    unsigned char* first;
    size_t count;
} berth_object_chunk;
BERTH_VEC_DEFINE(berth_object_chunk_vec, berth_object_chunk);

/// Who has a home's lock.
enum berth_home_lock_state {
    BERTH_HOME_FREE,
    BERTH_HOME_TAKEN,
    BERTH_HOME_VISITED, ///< by a thread that only puts the home's memory in order
};

struct berth_home {
    _Atomic uint32_t lock;         ///< berth_home_lock_state
    _Atomic(berth_object*) remote; ///< released by threads that did not get the lock
    /// Foreign storages that have died. Their deleters run when the lock is free again: they are
    /// others' code, and may wait for a thread that waits for the lock.
    berth_object* returned;
    berth_object* free_tensors;
    berth_object* free_storages;
    berth_overdue_vec overdue;
    uint64_t live_objects; ///< tensors and storages that are out
    /// Ops so far, and moments at which storages may move. What an op under way has the addresses
    /// of was used in the present epoch.
    uint64_t epoch;
    /// One for the open context, one for each use remembered by another's storage, one while the
    /// context is gone and objects are out.
    _Atomic uint32_t refs;
    /// There is news for the program (on_ring), for whoever unlocks the home. Set by any thread.
    _Atomic bool rings;
    bool is_closed;       ///< its context is gone
    bool defers_releases; ///< a walk over what is out is under way: nothing of it ends meanwhile
    bool is_watchful;     ///< any of the next: values in frames do not end quietly
    bool poisons;         ///< free memory is marked for sanitizers
    bool fills_on_free;   ///< BERTH_POISON=free
    bool fills_on_alloc;  ///< BERTH_POISON=alloc
    uint32_t fork_generation;
    const berth_host* host;
    berth_stream* stream;
    berth_pool* pool;
    berth_arena* arena;
    berth_object_chunk_vec chunks;      ///< memory of the objects
    size_t object_count;                ///< in all chunks, out or free
    void (*on_empty)(berth_home* self); ///< called with the last reference gone; frees the home
    const char* doing;  ///< name of the op or call that was begun last: it takes what is taken
    berth_audit* audit; ///< notes what is taken; NULL: nobody does
    /// With an audit: writes where in the program the context is.
    void (*where)(berth_home* self, berth_audit_site* out_site);
    berth_guards guards;  ///< with an audit and guard_bytes
    uint64_t guard_bytes; ///< by which each block of the pool is larger than was asked for
    /// A guard was broken; the detail text says where. NULL: the log is enough.
    void (*on_damage)(berth_home* self);
    /// The store has refused what was asked for, the `attempt`-th time: true if it is to be asked
    /// again. The detail text is as it was.
    bool (*on_shortage)(berth_home* self, uint32_t attempt);
    /// Called without any lock after the home rang; it is pinned.
    void (*on_ring)(berth_home* self);
};

/// True in a child of the process that made the home.
static inline bool berth_home_is_forked(const berth_home* home) {
    return home->fork_generation != berth_fork_generation;
}

static inline bool berth_home_try_lock(berth_home* home) {
    uint32_t seen = BERTH_HOME_FREE;
    return atomic_compare_exchange_strong_explicit(
        &home->lock, &seen, BERTH_HOME_TAKEN, memory_order_acquire, memory_order_relaxed);
}
/// The home whose shortage this thread is telling the program's callback about: the lock is its.
extern _Thread_local berth_home* berth_home_in_callback;
bool berth_home_lock_slow(berth_home* home);
/// False, with the detail text of BERTH_ERR_STATE, only for a thread that has the lock already, in
/// an out-of-memory callback: the call is refused where it is not just about giving back.
static inline bool berth_home_lock(berth_home* home) {
    return berth_home_try_lock(home) || berth_home_lock_slow(home);
}
void berth_home_unlock_slow(berth_home* home);
/// Finishes releases that came in meanwhile, calls deleters, and tells what there is to tell.
static inline void berth_home_unlock(berth_home* home) {
    if (home->is_closed || home->returned != NULL ||
        atomic_load_explicit(&home->rings, memory_order_relaxed) ||
        atomic_load_explicit(&home->remote, memory_order_relaxed) != NULL) {
        berth_home_unlock_slow(home);
        return;
    }
    atomic_store_explicit(&home->lock, BERTH_HOME_FREE, memory_order_release);
}

/// Takes the lock for a short while to put what it guards in order, for any thread that keeps the
/// home valid; false if somebody has it. Other than a holder, a visitor takes over no releases,
/// calls no deleter and never ends the home: who would leave something to the holder waits for a
/// visitor instead.
static inline bool berth_home_try_visit(berth_home* home) {
    uint32_t seen = BERTH_HOME_FREE;
    return atomic_compare_exchange_strong_explicit(
        &home->lock, &seen, BERTH_HOME_VISITED, memory_order_acquire, memory_order_relaxed);
}
static inline void berth_home_end_visit(berth_home* home) {
    atomic_store_explicit(&home->lock, BERTH_HOME_FREE, memory_order_release);
}

/// Takes over what other threads, or this one in a callback, have released meanwhile. Under the
/// lock, where nothing that is out is being walked over.
void berth_home_drain(berth_home* home);

/// For a loop around a request that ended with `status`: true if the program has made room, and
/// it is to be made again. `*attempt` is 0 at first.
static inline bool berth_home_may_retry(berth_home* home, berth_status status, uint32_t* attempt) {
    return status == BERTH_ERR_OUT_OF_MEMORY && home->on_shortage != NULL &&
           home->on_shortage(home, ++*attempt);
}

/// Frees the object caches; nothing is out.
void berth_home_fini(berth_home* home);

/// Keeps the home and its stream valid; the last unpin ends it. No lock is needed, and unpin is
/// never called under the home's own.
void berth_home_pin(berth_home* home);
/// False if the home is ending already.
bool berth_home_try_pin(berth_home* home);
void berth_home_unpin(berth_home* home);

/// The context is gone: the home ends with its last object and pin. Consumes the context's pin.
void berth_home_close(berth_home* home);

// Under the home's lock:

/// Makes some free tensors or storages, where there are none.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory).
BERTH_NODISCARD berth_status berth_home_refill_tensors(berth_home* home);
BERTH_NODISCARD berth_status berth_home_refill_storages(berth_home* home);

/// Frees chunks in which no object is out, where far more objects are free than out. For a thread
/// that keeps the home valid, and does not have its lock: it visits, and tries again until it can.
void berth_home_shed_objects(berth_home* home);

/// A storage object with one reference, no memory, no ledger, no marks; NULL without host memory.
static inline berth_storage* berth_storage_new(berth_home* home) {
    if (home->free_storages == NULL && berth_home_refill_storages(home) != BERTH_OK) return NULL;
    berth_storage* storage = (berth_storage*)home->free_storages;
    home->free_storages = storage->object.next;
    atomic_store_explicit(&storage->refs, 1, memory_order_relaxed);
    storage->ledger = NULL;
    ++home->live_objects;
    return storage;
}

/// A tensor object with one reference and nothing else set but its home; NULL without host memory.
static inline berth_tensor* berth_tensor_new(berth_home* home) {
    if (home->free_tensors == NULL && berth_home_refill_tensors(home) != BERTH_OK) return NULL;
    berth_tensor* tensor = (berth_tensor*)home->free_tensors;
    home->free_tensors = tensor->object.next;
    atomic_store_explicit(&tensor->refs, 1, memory_order_relaxed);
    ++home->live_objects;
    return tensor;
}

/// Gives an object back that nobody can see; it has no marks any more.
static inline void berth_storage_discard(berth_home* home, berth_storage* storage) {
    storage->object.next = home->free_storages;
    home->free_storages = &storage->object;
    --home->live_objects;
}
static inline void berth_tensor_discard(berth_home* home, berth_tensor* tensor) {
    tensor->object.next = home->free_tensors;
    home->free_tensors = &tensor->object;
    --home->live_objects;
}

/// A tensor object on a storage object of its own, both new; NULL without host memory.
static inline berth_tensor* berth_tensor_new_on_storage(berth_home* home) {
    berth_storage* storage = berth_storage_new(home);
    if (storage == NULL) return NULL;
    berth_tensor* tensor = berth_tensor_new(home);
    if (tensor == NULL) {
        berth_storage_discard(home, storage);
        return NULL;
    }
    tensor->storage = storage;
    tensor->offset_bytes = 0;
    return tensor;
}

/// Enqueues that `bytes` bytes at `data` become `byte`: BERTH_POISON. A device that takes no work
/// leaves them as they are.
void berth_home_fill(berth_home* home, void* data, uint64_t bytes, unsigned char byte);

/// The parts of take and give where the home has an audit.
BERTH_NODISCARD berth_status berth_home_take_noted(berth_home* home,
                                                   const berth_pool_request* request,
                                                   berth_block* out_block);
void berth_home_give_noted(berth_home* home, const berth_block* block);

/// As berth_home_take, without calling the program's callback: the caller can do without.
BERTH_NODISCARD static inline berth_status berth_home_try_take(berth_home* home,
                                                               const berth_pool_request* request,
                                                               berth_block* out_block) {
    if (home->audit != NULL) return berth_home_take_noted(home, request, out_block);
    return berth_pool_take(home->pool, request, out_block);
}
/// Takes a block from the home's pool. Errors: as of berth_pool_take.
BERTH_NODISCARD static inline berth_status berth_home_take(berth_home* home,
                                                           const berth_pool_request* request,
                                                           berth_block* out_block) {
    uint32_t attempt = 0;
    berth_status status;
    do {
        status = berth_home_try_take(home, request, out_block);
    } while (status != BERTH_OK && berth_home_may_retry(home, status, &attempt));
    return status;
}
/// The bytes that were asked for with a block.
static inline uint64_t berth_home_asked_bytes(const berth_home* home, const berth_block* block) {
    return block->handle == BERTH_GUARDED_HANDLE ? block->size_bytes
                                                 : block->size_bytes - home->guard_bytes;
}
/// Gives a block of berth_home_take back.
static inline void berth_home_give(berth_home* home, const berth_block* block) {
    if (home->audit != NULL)
        berth_home_give_noted(home, block);
    else
        berth_pool_give(home->pool, block);
}

/// Names a place in the program for the pool's sites, from two numbers that tell it from others.
static inline uint64_t berth_site_mix(uint64_t a, uint64_t b) {
    const uint64_t mixed = (a * UINT64_C(0x9E3779B97F4A7C15) ^ b) * UINT64_C(0xD6E8FEB86659FD93);
    const uint64_t site = mixed ^ mixed >> 32;
    return site != 0 ? site : 1;
}
/// The site of `bytes` taken now, where no step tells more: what the context is doing, and about
/// how much it takes for that.
static inline uint64_t berth_home_site(const berth_home* home, uint64_t bytes) {
    return berth_site_mix((uint64_t)(uintptr_t)home->doing, berth_asked_class(bytes));
}

/// Gives a new storage, whose size_bytes is set, memory from the home's pool. `site` as of a
/// berth_pool_request; `reservation` may be NULL.
/// Errors: as of berth_pool_take.
BERTH_NODISCARD berth_status berth_storage_take_from_pool(berth_home* home,
                                                          berth_storage* storage,
                                                          uint64_t site,
                                                          berth_reservation* reservation);

/// How the owner of a block of the pool, a storage, lets it be moved. A storage does not move
/// while it is marked, nor in the epoch of its last use.
extern const berth_movable_ops berth_storage_moves;

/// Gives one reference back while `locked`'s lock is held.
void berth_tensor_drop(berth_tensor* tensor, berth_home* locked);

/// Takes `storage` off its home's list of stretches to keep clear of.
void berth_overdue_remove(berth_home* home, berth_storage* storage);

/// Takes and leaves a storage's own lock.
void berth_storage_lock(berth_storage* storage);
void berth_storage_unlock(berth_storage* storage);

/// Marks `storage` shared and makes `user`'s stream wait for its home's work so far. No lock is
/// held on the storage; `user`'s lock is.
/// Errors: those of the device; the storage is marked all the same.
BERTH_NODISCARD berth_status berth_storage_share(berth_storage* storage, berth_home* user);
/// Remembers that `user`'s stream has enqueued a use of the shared storage.
void berth_storage_add_use(berth_storage* storage, berth_home* user);
/// Blocks until other contexts' uses are done.
/// Errors: those of the device.
BERTH_NODISCARD berth_status berth_storage_wait_uses(berth_storage* storage);

/// Address of a tensor's first element now.
static inline unsigned char* berth_tensor_data(const berth_tensor* tensor) {
    // as a number: memory without bytes may be at NULL, to which not even 0 can be added
    return (unsigned char*)((uintptr_t)tensor->storage->data + tensor->offset_bytes);
}

/// Fills in `view` of `tensor`.
static inline void berth_tensor_view(const berth_tensor* tensor, berth_view* view) {
    view->data = berth_tensor_data(tensor);
    view->dtype = (berth_dtype)tensor->dtype;
    view->rank = tensor->rank;
    for (uint32_t i = 0; i < tensor->rank; ++i) {
        view->dims[i] = tensor->dims[i];
        view->strides[i] = tensor->strides[i];
    }
}

#endif // BERTH_TENSOR_TENSOR_IMPL_H
