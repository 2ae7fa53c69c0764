// SPDX-License-Identifier: Apache-2.0
// Where a context keeps tensors and storages: caches of objects, the lock, releases from anywhere.
#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "base/op_params.h"
#include "memory/poison.h"
#include "tensor/tensor_impl.h"

enum { SPINS_BEFORE_YIELD = 64 };

_Thread_local berth_home* berth_home_in_callback;

bool berth_home_lock_slow(berth_home* home) {
    uint32_t spins = 0;
    if (home == berth_home_in_callback) {
        (void)berth_fail(BERTH_ERR_STATE,
                         "the context is in the call that waits for this out-of-memory callback");
        return false;
    }
    do {
        while (atomic_load_explicit(&home->lock, memory_order_relaxed) != BERTH_HOME_FREE) {
            if (++spins >= SPINS_BEFORE_YIELD) sched_yield();
        }
    } while (!berth_home_try_lock(home));
    return true;
}

void berth_home_pin(berth_home* home) {
    atomic_fetch_add_explicit(&home->refs, 1, memory_order_relaxed);
}

bool berth_home_try_pin(berth_home* home) {
    uint32_t refs = atomic_load_explicit(&home->refs, memory_order_relaxed);
    while (refs != 0 &&
           !atomic_compare_exchange_weak_explicit(
               &home->refs, &refs, refs + 1, memory_order_acquire, memory_order_relaxed)) {
    }
    return refs != 0;
}

void berth_home_unpin(berth_home* home) {
    if (atomic_fetch_sub_explicit(&home->refs, 1, memory_order_acq_rel) == 1) home->on_empty(home);
}

void berth_home_fill(berth_home* home, void* data, uint64_t bytes, unsigned char byte) {
    if (bytes == 0) return;
    const int64_t count = (int64_t)bytes;
    const berth_fill_params params = {.value = byte, .dtype = BERTH_U8, .rank = 1, .dims = {count}};
    const berth_op_call call = {
        .output_count = 1,
        .outputs = {{data, BERTH_U8, 1, {count}, {1}}},
        .params = &params,
    };
    const berth_kernel kernel = home->stream->device->kernels[BERTH_OP_FILL];
    (void)!berth_stream_launch(home->stream, kernel, &call, sizeof params);
}

/// Takes a block with whatever guards are wanted.
static berth_status take_guarded(berth_home* home,
                                 const berth_pool_request* request,
                                 berth_block* out_block) {
    if (home->guard_bytes == 0) return berth_pool_take(home->pool, request, out_block);
    const uint64_t size = request->size_bytes;
    const bool is_large = berth_guards_is_large(&home->guards, size);
    berth_status status;
    if (is_large) {
        status = berth_guards_take(&home->guards, size, request->reservation, out_block);
    } else {
        berth_pool_request longer = *request;
        if (!berth_add_u64(size, home->guard_bytes, &longer.size_bytes))
            longer.size_bytes = UINT64_MAX; // which the pool refuses
        status = berth_pool_take(home->pool, &longer, out_block);
    }
    if (status == BERTH_OK)
        status = berth_guards_draw(&home->guards, out_block->data, size, is_large);
    return status;
}

/// The other way round; nothing without a block.
static void give_guarded(berth_home* home, berth_block* block) {
    if (block->handle == BERTH_GUARDED_HANDLE)
        berth_guards_give(&home->guards, block);
    else if (block->data != NULL)
        berth_pool_give(home->pool, block);
    *block = (berth_block){0};
}

berth_status berth_home_take_noted(berth_home* home,
                                   const berth_pool_request* request,
                                   berth_block* out_block) {
    *out_block = (berth_block){0};
    berth_status status = take_guarded(home, request, out_block);
    // blocks without bytes share an address
    if (status == BERTH_OK && out_block->size_bytes > 0) {
        berth_audit_site site;
        home->where(home, &site);
        status = berth_audit_note_take(
            home->audit, BERTH_AUDIT_BLOCK, out_block->data, request->size_bytes, &site);
    }
    if (status != BERTH_OK) give_guarded(home, out_block);
    return status;
}

/// Looks at what stands behind a block; a line in the log if it has been written to.
static void look_behind(berth_home* home, const berth_block* block) {
    const uint64_t size = berth_home_asked_bytes(home, block);
    const berth_guard_damage damage =
        berth_guards_look(&home->guards, block->data, size, block->handle == BERTH_GUARDED_HANDLE);
    if (damage.bytes == 0) return;
    char name[256] = "";
    berth_text text = {.buffer = name, .size = sizeof name};
    berth_audit_site site;
    (void)berth_audit_query_site(home->audit, block->data, &site);
    berth_audit_write_site(&text, &site);
    berth_audit_count_damage(home->audit);
    (void)berth_fail(BERTH_ERR_CORRUPT,
                     "guard: %" PRIu64 " bytes behind the %" PRIu64
                     " bytes at %p of%s are damaged, "
                     "the first at +%" PRIu64 " is 0x%02X",
                     damage.bytes,
                     size,
                     (void*)block->data,
                     name,
                     damage.first,
                     damage.value);
    berth_log_line(BERTH_LOG_ERROR, "%s", berth_last_error());
    if (home->on_damage != NULL) home->on_damage(home);
}

void berth_home_give_noted(berth_home* home, const berth_block* block) {
    berth_block given = *block;
    if (home->guard_bytes > 0) look_behind(home, block);
    berth_audit_note_give(home->audit, block->data);
    give_guarded(home, &given);
}

berth_status berth_storage_take_from_pool(berth_home* home,
                                          berth_storage* storage,
                                          uint64_t site,
                                          berth_reservation* reservation) {
    const berth_pool_request request = {
        .size_bytes = storage->size_bytes,
        .site = site,
        .movable = &storage->movable,
        .reservation = reservation,
    };
    BERTH_TRY(berth_home_take(home, &request, &storage->block));
    storage->data = storage->block.data;
    storage->last_use = home->epoch;
    storage->kind = BERTH_STORAGE_POOL;
    storage->is_special = true;
    return BERTH_OK;
}

void berth_overdue_remove(berth_home* home, berth_storage* storage) {
    berth_overdue_vec* list = &home->overdue;
    for (size_t i = 0; i < list->count; ++i) {
        if (list->items[i].storage != storage) continue;
        list->items[i] = list->items[--list->count];
        break;
    }
    storage->is_overdue = false;
}

void berth_storage_lock(berth_storage* storage) {
    while (atomic_flag_test_and_set_explicit(&storage->lock, memory_order_acquire))
        sched_yield();
}

void berth_storage_unlock(berth_storage* storage) {
    atomic_flag_clear_explicit(&storage->lock, memory_order_release);
}

berth_status berth_storage_share(berth_storage* storage, berth_home* user) {
    berth_storage_lock(storage);
    atomic_fetch_or_explicit(&storage->marks, BERTH_STORAGE_SHARED, memory_order_acq_rel);
    berth_status status = BERTH_OK;
    if (berth_device_is_async(user->stream->device)) {
        uint64_t ticket;
        status = berth_stream_record(storage->home->stream, &ticket);
        if (status == BERTH_OK)
            status = berth_stream_wait_stream(user->stream, storage->home->stream, ticket);
    }
    berth_storage_unlock(storage);
    return status;
}

/// Puts the use in the list, or replaces an older one of the same home. Under the storage's lock.
static berth_status remember_use(berth_storage* storage, berth_home* user, uint64_t ticket) {
    for (size_t i = 0; i < storage->uses.count; ++i) {
        if (storage->uses.items[i].home != user) continue;
        storage->uses.items[i].ticket = ticket;
        return BERTH_OK;
    }
    const berth_storage_use use = {.home = user, .ticket = ticket};
    BERTH_TRY(berth_storage_use_vec_push(&storage->uses, storage->home->host, use));
    berth_home_pin(user);
    return BERTH_OK;
}

void berth_storage_add_use(berth_storage* storage, berth_home* user) {
    if (!berth_device_is_async(user->stream->device)) return;
    uint64_t ticket;
    berth_storage_lock(storage);
    berth_status status = berth_stream_record(user->stream, &ticket);
    if (status == BERTH_OK) status = remember_use(storage, user, ticket);
    berth_storage_unlock(storage);
    // what cannot be remembered is waited for: slower, never wrong. A stream that cannot be waited
    // for has failed, and its context reports that at its next call
    if (status != BERTH_OK) (void)!berth_stream_drain(user->stream);
}

berth_status berth_storage_wait_uses(berth_storage* storage) {
    if ((atomic_load_explicit(&storage->marks, memory_order_acquire) & BERTH_STORAGE_SHARED) == 0)
        return BERTH_OK;
    berth_status status = BERTH_OK;
    berth_storage_lock(storage);
    for (size_t i = 0; i < storage->uses.count && status == BERTH_OK; ++i) {
        const berth_storage_use* use = &storage->uses.items[i];
        status = berth_stream_wait(use->home->stream, use->ticket);
    }
    berth_storage_unlock(storage);
    return status;
}

/// Lets later work of the home's stream begin only after other contexts' uses, and forgets them.
static void settle_uses(berth_storage* storage) {
    berth_home* home = storage->home;
    for (size_t i = 0; i < storage->uses.count; ++i) {
        const berth_storage_use use = storage->uses.items[i];
        // a stream that cannot be made to wait for the other is waited for here; where that fails
        // again and again the device does no more work
        if (berth_stream_wait_stream(home->stream, use.home->stream, use.ticket) != BERTH_OK)
            (void)!berth_stream_drain(use.home->stream);
        berth_home_unpin(use.home);
    }
    berth_storage_use_vec_fini(&storage->uses, home->host);
}

/// Leaves foreign memory that no enqueued work can touch any more to whoever unlocks the home.
/// False if nobody wants it back.
static bool return_foreign(berth_storage* storage) {
    if (storage->deleter == NULL) return false;
    // a release cannot fail: a device that refuses to be waited for again and again is dead
    if (berth_device_is_async(storage->home->stream->device))
        (void)!berth_stream_drain(storage->home->stream);
    storage->object.next = storage->home->returned;
    storage->home->returned = &storage->object;
    return true;
}

static inline void note_death(berth_storage* storage, berth_ledger* ledger) {
    ledger->slots[storage->value] = NULL;
    ledger->deaths[storage->value] = ledger->event;
    --ledger->live_count;
    ledger->live_bytes -= storage->rounded_bytes;
}

/// The end of a storage that is more than a value in a frame. True if its object is still needed.
static bool special_die(berth_storage* storage) {
    berth_home* home = storage->home;
    bool is_needed = false;
    if (storage->ledger != NULL && storage->kind != BERTH_STORAGE_FRAME)
        storage->ledger->pool_bytes -= storage->rounded_bytes;
    if (storage->is_overdue) berth_overdue_remove(home, storage);
    if (storage->uses.items != NULL) settle_uses(storage);
    if (home->fills_on_free && storage->kind != BERTH_STORAGE_FOREIGN)
        berth_home_fill(home, storage->data, storage->size_bytes, BERTH_POISON_FREE_BYTE);
    switch ((berth_storage_kind)storage->kind) {
    case BERTH_STORAGE_POOL:
        berth_home_give(home, &storage->block);
        break;
    case BERTH_STORAGE_FRAME:
        if (home->poisons) BERTH_POISON_REGION(storage->data, storage->rounded_bytes);
        break;
    case BERTH_STORAGE_HELD:
        if (home->audit != NULL) berth_audit_note_give(home->audit, storage->data);
        berth_arena_drop(home->arena, storage->data);
        break;
    case BERTH_STORAGE_FOREIGN:
        is_needed = return_foreign(storage);
        break;
    }
    storage->is_special = storage->is_read_only = false;
    atomic_store_explicit(&storage->marks, 0, memory_order_relaxed);
    return is_needed;
}

/// The end of a storage, under its home's lock.
static inline void storage_die(berth_storage* storage) {
    berth_ledger* ledger = storage->ledger;
    bool is_needed = false;
    if (storage->is_special || atomic_load_explicit(&storage->marks, memory_order_acquire) != 0)
        is_needed = special_die(storage);
    if (ledger != NULL) note_death(storage, ledger);
    if (!is_needed) berth_storage_discard(storage->home, storage);
}

static void unlock_slow(berth_home* home, berth_home* outer);

/// Takes the lock unless somebody has it who will look after what was left to the holder: a visitor
/// does not, and is waited for.
static bool try_lock_after_leaving(berth_home* home) {
    for (;;) {
        uint32_t seen = BERTH_HOME_FREE;
        if (atomic_compare_exchange_strong_explicit(
                &home->lock, &seen, BERTH_HOME_TAKEN, memory_order_seq_cst, memory_order_seq_cst))
            return true;
        if (seen == BERTH_HOME_TAKEN) return false;
        sched_yield();
    }
}

/// As berth_home_unlock for a thread that holds `outer`'s lock, too (NULL: none): deleters wait for
/// that as well.
static void unlock_inside(berth_home* home, berth_home* outer) {
    if (outer == NULL) {
        berth_home_unlock(home);
    } else {
        unlock_slow(home, outer);
    }
}

/// Leaves an object to whoever holds the home's lock.
static void leave_to_holder(berth_home* home, berth_object* object, berth_home* outer) {
    // whoever takes the object over may end the home with it
    berth_home_pin(home);
    object->next = atomic_load_explicit(&home->remote, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(
        &home->remote, &object->next, object, memory_order_seq_cst, memory_order_relaxed)) {
    }
    // the holder may have let go just before it could see the object
    if (try_lock_after_leaving(home)) unlock_slow(home, outer);
    berth_home_unpin(home);
}

/// True for the caller that gave the last reference back.
static inline bool drop_ref(_Atomic uint32_t* refs) {
    // who holds the only reference needs no locked instruction: nobody else can add one
    if (atomic_load_explicit(refs, memory_order_acquire) == 1) return true;
    return atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

/// The end of a storage whose home's lock is not held, `outer`'s is (NULL: none).
static void storage_finish_elsewhere(berth_storage* storage, berth_home* outer) {
    berth_home* home = storage->home;
    if (berth_home_try_lock(home)) {
        storage_die(storage);
        unlock_inside(home, outer);
        return;
    }
    leave_to_holder(home, &storage->object, outer);
}

/// The end of a tensor, under its home's lock.
static inline void tensor_die(berth_tensor* tensor, berth_home* home) {
    berth_storage* storage = tensor->storage;
    berth_tensor_discard(home, tensor);
    if (!drop_ref(&storage->refs)) return;
    if (storage->home == home) {
        storage_die(storage);
    } else {
        storage_finish_elsewhere(storage, home);
    }
}

/// The end of a tensor whose home's lock is not held, `outer`'s is (NULL: none).
static inline void tensor_finish_elsewhere(berth_tensor* tensor, berth_home* outer) {
    berth_home* home = tensor->home;
    if (berth_home_try_lock(home)) {
        tensor_die(tensor, home);
        unlock_inside(home, outer);
        return;
    }
    leave_to_holder(home, &tensor->object, outer);
}

void berth_tensor_drop(berth_tensor* tensor, berth_home* locked) {
    if (!drop_ref(&tensor->refs)) return;
    if (tensor->home == locked) {
        tensor_die(tensor, locked);
    } else {
        tensor_finish_elsewhere(tensor, locked);
    }
}

void berth_home_drain(berth_home* home) {
    berth_object* object = atomic_exchange_explicit(&home->remote, NULL, memory_order_acquire);
    while (object != NULL) {
        berth_object* next = object->next;
        if (object->is_storage) {
            storage_die((berth_storage*)object);
        } else {
            tensor_die((berth_tensor*)object, home);
        }
        object = next;
    }
}

/// Calls the deleters of a list of foreign storages, with no lock held, and ends the objects.
static void call_deleters(berth_object* returned) {
    while (returned != NULL) {
        berth_storage* storage = (berth_storage*)returned;
        returned = returned->next;
        storage->deleter(storage->deleter_self, storage->data);
        storage->deleter = NULL;
        leave_to_holder(storage->home, &storage->object, NULL);
    }
}

/// Puts the list `returned` before `outer`'s own.
static void defer_deleters(berth_object* returned, berth_home* outer) {
    berth_object** end = &returned;
    while (*end != NULL)
        end = &(*end)->next;
    *end = outer->returned;
    outer->returned = returned;
}

/// Tells what a home rang for, or leaves it to whoever unlocks the home whose lock this thread
/// holds besides: `outer`, or that of an out-of-memory callback.
static void answer_ring(berth_home* home, berth_home* outer) {
    if (!atomic_load_explicit(&home->rings, memory_order_relaxed) ||
        !atomic_exchange_explicit(&home->rings, false, memory_order_relaxed))
        return;
    if (outer == NULL) outer = berth_home_in_callback;
    if (outer != NULL)
        atomic_store_explicit(&outer->rings, true, memory_order_relaxed);
    else
        home->on_ring(home);
}

/// Unlocks `home`, also when more is released meanwhile. `outer`: as of unlock_inside.
static void unlock_slow(berth_home* home, berth_home* outer) {
    // the home may end in another thread as soon as the lock is free
    berth_home_pin(home);
    do {
        berth_home_drain(home);
        berth_object* returned = home->returned;
        home->returned = NULL;
        const bool is_last = home->is_closed && home->live_objects == 0;
        if (is_last) home->is_closed = false; // its reference is given back once
        atomic_exchange_explicit(&home->lock, BERTH_HOME_FREE, memory_order_seq_cst);
        if (outer != NULL) {
            defer_deleters(returned, outer);
        } else {
            call_deleters(returned);
        }
        answer_ring(home, outer);
        if (is_last) {
            berth_home_unpin(home);
            break;
        }
    } while (atomic_load_explicit(&home->remote, memory_order_seq_cst) != NULL &&
             try_lock_after_leaving(home));
    berth_home_unpin(home);
}

void berth_home_unlock_slow(berth_home* home) { unlock_slow(home, NULL); }

void berth_home_close(berth_home* home) {
    (void)berth_home_lock(home);
    home->is_closed = true;
    berth_home_unlock(home);
}

berth_tensor* berth_retain(berth_tensor* tensor) {
    if (tensor == NULL) return NULL;
    BERTH_CHECK(1, ((uintptr_t)tensor & 1u) == 0);
    atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
    return tensor;
}

void berth_release(berth_tensor* tensor) {
    if (tensor == NULL) return;
    BERTH_CHECK(1, ((uintptr_t)tensor & 1u) == 0);
    if (berth_home_is_forked(tensor->home)) return;
    if (drop_ref(&tensor->refs)) tensor_finish_elsewhere(tensor, NULL);
}

void berth_release_array(berth_tensor* const* tensors, size_t count) {
    for (size_t i = 0; i < count; ++i)
        berth_release(tensors[i]);
}
