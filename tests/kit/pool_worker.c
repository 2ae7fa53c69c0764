// SPDX-License-Identifier: Apache-2.0
// Contents are written and read by the stream, as programs do it, so that work is in flight while
// blocks are given back, moved and trimmed.
#include "pool_worker.h"

#include <pthread.h>
#include <string.h>

#include "device/sim/sim_device.h"
#include "memory/pool_join.h"

/// What blocks hold is a stretch of this, beginning at the block's mark.
#define PATTERN_MARKS 4096u
#define MOST_BYTES (UINT32_C(4) << 20)

static unsigned char pattern[MOST_BYTES + PATTERN_MARKS];

static void make_pattern(void) {
    test_random random = test_random_make(1);
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (unsigned char)test_random_u64(&random);
}

static void prepare_pattern(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_pattern);
}

static uint64_t below(pool_worker* w, uint64_t bound) {
    return test_random_below(&w->random, bound);
}

static bool one_in(pool_worker* w, uint64_t n) { return test_random_one_in(&w->random, n); }

/// Waits whatever the device refuses: faults strike once.
static void finish(berth_stream* stream) {
    while (berth_stream_synchronize(stream) != BERTH_OK) {
    }
}

// ---- The guard: what a context's lock is in a runtime.

static bool try_guard(void* self) { return berth_mutex_try_lock(self); }
static void unlock_guard(void* self) { berth_mutex_unlock(self); }

// ---- Blocks that follow moves.

static pool_slot* slot_of(const berth_movable* movable) {
    return (pool_slot*)(uintptr_t)movable; // its first member
}

static bool can_move(berth_movable* movable) {
    pool_slot* slot = slot_of(movable);
    POOL_REQUIRE(slot->block.data != NULL && slot->can_follow && !slot->is_asked);
    if (slot->is_pinned) return false;
    slot->is_asked = true;
    return true;
}

static const berth_block* block_of(const berth_movable* movable) {
    return &slot_of(movable)->block;
}

static uint64_t last_use(const berth_movable* movable) { return slot_of(movable)->last_use; }

static void move(berth_movable* movable, const berth_block* to, uint64_t left_bytes) {
    (void)left_bytes;
    pool_slot* slot = slot_of(movable);
    POOL_REQUIRE(slot->is_asked && !slot->is_pinned);
    slot->is_asked = false;
    if (to == NULL) return;
    POOL_REQUIRE(to->size_bytes == slot->block.size_bytes);
    slot->block = *to;
    slot->worker->moves++;
}

static const berth_movable_ops movable_ops = {
    .can_move = can_move, .block = block_of, .last_use = last_use, .move = move};

// ---- Operations on blocks.

/// Enqueues the content; false if the device refused.
static bool write_content(pool_worker* w, const pool_slot* slot) {
    return berth_stream_copy(w->stream,
                             slot->block.data,
                             pattern + slot->mark,
                             slot->block.size_bytes,
                             BERTH_COPY_HOST_TO_DEVICE) == BERTH_OK;
}

static void check_content(pool_worker* w, const pool_slot* slot) {
    finish(w->stream);
    POOL_REQUIRE(memcmp(slot->block.data, pattern + slot->mark, slot->block.size_bytes) == 0);
}

/// Another stream reads the block; the pool's stream waits for that before anybody has it next.
static void read_elsewhere(pool_worker* w, const pool_slot* slot) {
    uint64_t ticket = 0;
    const bool enqueued = berth_stream_record(w->stream, &ticket) == BERTH_OK &&
                          berth_stream_wait_stream(w->other, w->stream, ticket) == BERTH_OK &&
                          berth_stream_copy(w->other,
                                            w->sink,
                                            slot->block.data,
                                            slot->block.size_bytes,
                                            BERTH_COPY_DEVICE_TO_HOST) == BERTH_OK;
    if (!enqueued || berth_stream_record(w->other, &ticket) != BERTH_OK ||
        berth_stream_wait_stream(w->stream, w->other, ticket) != BERTH_OK)
        finish(w->other);
}

/// A few quarters of granules, or a bit less.
static uint64_t size_near_granules(pool_worker* w) {
    const uint64_t quarter = w->shop->device->granule_bytes / 4;
    const uint64_t size = quarter * (1 + below(w, 24));
    const uint64_t most = w->shop->largest_bytes;
    return (size < most ? size : most) - (one_in(w, 2) ? below(w, quarter / 4) : 0);
}

static uint64_t random_size(pool_worker* w) {
    if (w->is_dense && one_in(w, 2)) return size_near_granules(w);
    // each octave up to the largest block as often as any other
    const uint64_t octaves = 64 - (uint64_t)__builtin_clzll(w->shop->largest_bytes);
    const uint64_t size = below(w, (UINT64_C(1) << below(w, octaves)) + 1);
    return size < w->shop->largest_bytes ? size : w->shop->largest_bytes;
}

static void note_give(pool_worker* w, const berth_block* block) {
    w->requested_bytes -= block->size_bytes;
    w->blocks--;
}

static void give(pool_worker* w, pool_slot* slot) {
    if (!one_in(w, 4)) check_content(w, slot);
    if (one_in(w, 8)) read_elsewhere(w, slot);
    const berth_block block = slot->block;
    slot->block = (berth_block){0};
    slot->is_pinned = false;
    berth_pool_give(w->pool, &block);
    note_give(w, &block);
}

static void take(pool_worker* w, pool_slot* slot) {
    *slot = (pool_slot){.movable = {&movable_ops},
                        .worker = w,
                        .mark = (uint32_t)below(w, PATTERN_MARKS),
                        .can_follow = !one_in(w, w->is_dense ? 64 : 4),
                        .last_use = w->ops};
    const berth_pool_request request = {.size_bytes = random_size(w),
                                        .site = below(w, 24),
                                        .movable = slot->can_follow ? &slot->movable : NULL};
    berth_block block;
    if (berth_pool_take(w->pool, &request, &block) != BERTH_OK) {
        POOL_REQUIRE(block.data == NULL);
        w->refusals++;
        return;
    }
    slot->block = block;
    w->requested_bytes += block.size_bytes;
    w->blocks++;
    if (!write_content(w, slot)) {
        // its first use never came
        slot->block = (berth_block){0};
        berth_pool_give(w->pool, &block);
        note_give(w, &block);
    }
}

/// Takes or gives back; what stays is used again, or pinned or unpinned.
static void use_block(pool_worker* w) {
    pool_slot* slot = &w->slots[below(w, POOL_WORKER_SLOTS)];
    if (slot->block.data == NULL) {
        take(w, slot);
    } else if (one_in(w, 8)) {
        slot->last_use = w->ops;
        slot->is_pinned = !slot->is_pinned;
    } else {
        give(w, slot);
    }
}

// ---- Between workers.

/// Leaves a block that cannot move to others, its content written and unchanged from now on.
static void post(pool_worker* w) {
    pool_slot* slot = &w->slots[below(w, POOL_WORKER_SLOTS)];
    if (slot->block.data == NULL || slot->can_follow) return;
    finish(w->stream);
    berth_mutex_lock(&w->parcel_lock);
    if (w->parcel_count < POOL_WORKER_PARCELS) {
        w->parcels[w->parcel_count++] = (pool_parcel){slot->block, slot->mark};
        note_give(w, &slot->block);
        slot->block = (berth_block){0};
    }
    berth_mutex_unlock(&w->parcel_lock);
}

/// Gives back what some worker has left to others, to its pool.
static void collect_from(pool_worker* owner) {
    berth_mutex_lock(&owner->parcel_lock);
    for (size_t i = 0; i < owner->parcel_count; i++) {
        const pool_parcel* parcel = &owner->parcels[i];
        POOL_REQUIRE(memcmp(parcel->block.data, pattern + parcel->mark, parcel->block.size_bytes) ==
                     0);
        berth_pool_give_remote(owner->pool, &parcel->block);
    }
    owner->parcel_count = 0;
    berth_mutex_unlock(&owner->parcel_lock);
}

// ---- Quotas and compaction.

/// Another quota and another share for the worker's tenant, mostly none. A share may be more than
/// others leave.
static void change_quota(pool_worker* w) {
    berth_store* store = w->shop->store;
    const uint64_t largest = w->shop->largest_bytes;
    const uint64_t bytes = one_in(w, 3) ? (4 + below(w, 12)) * largest : BERTH_QUOTA_NONE;
    POOL_REQUIRE(berth_store_set_tenant_share(store, &w->tenant, 0) == BERTH_OK);
    POOL_REQUIRE(berth_store_set_tenant_quota(store, &w->tenant, bytes) == BERTH_OK);
    if (one_in(w, 2)) return;
    const berth_status status =
        berth_store_set_tenant_share(store, &w->tenant, below(w, 4 * largest));
    POOL_REQUIRE(status == BERTH_OK || status == BERTH_ERR_OUT_OF_MEMORY);
}

/// What there is to tell of watermarks takes turns, whichever worker tells it.
static void listen(pool_worker* w) {
    berth_crossing crossings[BERTH_CROSSINGS_MOST];
    const size_t count = berth_store_take_crossings(w->shop->store, crossings);
    for (size_t i = 0; i < count; i++) {
        POOL_REQUIRE(crossings[i].is_rise != w->shop->was_rise);
        w->shop->was_rise = crossings[i].is_rise;
        w->shop->crossings++;
    }
    if (count > 0) (void)berth_store_end_telling(w->shop->store);
}

static const berth_compact_budget slice = {.bytes = UINT64_C(1) << 20, .ns = 1000000};

static void compact(pool_worker* w) {
    berth_move_count count = {0};
    switch (below(w, 6)) {
    case 0:
    case 1:
        berth_compactor_stir(&w->compactor, &slice);
        break;
    case 2:
        berth_pool_gather(w->pool, &count);
        break;
    case 3:
        (void)berth_pool_merge(w->pool, UINT64_MAX, &count);
        break;
    case 4:
        (void)berth_compactor_press(&w->compactor, &slice);
        break;
    default:
        (void)berth_compactor_tidy(&w->compactor, &slice);
        break;
    }
}

static uint64_t make_room(pool_worker* w, uint64_t wanted_bytes) {
    return berth_compactor_give_room(&w->compactor, &slice, wanted_bytes, true);
}

/// The rung of compaction; the climber holds its own guard.
static uint64_t climb(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    pool_worker* w = self;
    if (climber == &w->tenant) return make_room(w, wanted_bytes);
    if (!berth_mutex_try_lock(&w->guard)) return 0;
    const uint64_t given = make_room(w, wanted_bytes);
    berth_mutex_unlock(&w->guard);
    return given;
}

/// What other threads of a runtime do to a pool: trim it, look at it.
static void visit(pool_worker* w) {
    pool_worker* other = &w->shop->workers[below(w, w->shop->worker_count)];
    if (one_in(w, 2)) {
        (void)berth_pool_trim(other->pool, below(w, 4 * w->shop->largest_bytes), false);
        return;
    }
    berth_pool_stats stats;
    berth_pool_query_stats(other->pool, &stats);
    POOL_REQUIRE(stats.largest_free_bytes <= stats.free_bytes);
    POOL_REQUIRE(stats.free_bytes <= stats.mapped_bytes);
}

// ---- Frames, which draw on the same store.

static void drop_held(pool_worker* w) {
    if (w->held != NULL) berth_arena_drop(w->arena, w->held);
    w->held = NULL;
}

/// A step with a nested one; now and then something is held beyond it.
static void run_step(pool_worker* w) {
    berth_frame outer, inner;
    berth_reservation promise = {0};
    const uint64_t size = 64 + below(w, 2 * w->shop->largest_bytes);
    if (berth_arena_reserve(w->arena, size, &promise) != BERTH_OK) {
        w->refusals++;
        return;
    }
    if (berth_arena_push(w->arena, size, &promise, &outer) == BERTH_OK) {
        memset(outer.base, 1, size);
        if (berth_arena_push(w->arena, size / 3, &promise, &inner) == BERTH_OK) {
            memset(inner.base, 2, size / 3);
            POOL_REQUIRE(outer.base[size - 1] == 1);
            berth_arena_pop(w->arena, &inner);
        }
        POOL_REQUIRE(w->held == NULL || *w->held == 1);
        unsigned char* data = outer.base + below(w, size);
        if (w->held != NULL)
            drop_held(w);
        else if (one_in(w, 3) && berth_arena_hold(w->arena, data, 1) == BERTH_OK)
            w->held = data;
        berth_arena_pop(w->arena, &outer);
    }
    berth_store_unreserve(w->shop->store, &promise);
}

// ---- Faults.

static void provoke(pool_worker* w) {
    if (!w->shop->may_fail) return;
    if (w->shop->is_sim && one_in(w, 2))
        berth_sim_fail_any(w->shop->device, 1 + below(w, 20));
    else
        failing_host_fail(w->shop->failing, 1 + below(w, 10), false);
}

static void operate(pool_worker* w) {
    const uint64_t dice = below(w, 400);
    if (dice < 2)
        provoke(w);
    else if (dice < 4)
        (void)berth_pool_trim(w->pool, below(w, 8 * w->shop->largest_bytes), one_in(w, 2));
    else if (dice < 6)
        (void)berth_arena_trim(w->arena, below(w, 4 * w->shop->largest_bytes), one_in(w, 2));
    else if (dice < 16)
        run_step(w);
    else if (dice < 20)
        visit(w);
    else if (dice < 40)
        post(w);
    else if (dice < 44)
        collect_from(&w->shop->workers[below(w, w->shop->worker_count)]);
    else if (dice < 46)
        change_quota(w);
    else if (dice < 50)
        compact(w);
    else if (dice < 52)
        berth_pool_note_step(w->pool);
    else if (dice < 54)
        listen(w);
    else
        use_block(w);
    w->ops++;
}

void pool_worker_run(pool_worker* w, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        berth_mutex_lock(&w->guard);
        operate(w);
        berth_mutex_unlock(&w->guard);
    }
}

void pool_worker_check(pool_worker* w) {
    berth_pool_stats stats;
    POOL_REQUIRE(berth_pool_is_valid(w->pool));
    collect_from(w);
    berth_pool_flush_front(w->pool); // takes over what was given back remotely
    berth_pool_query_stats(w->pool, &stats);
    POOL_REQUIRE(stats.requested_bytes == w->requested_bytes);
    POOL_REQUIRE(stats.blocks == w->blocks);
    for (size_t i = 0; i < POOL_WORKER_SLOTS; i++) {
        POOL_REQUIRE(!w->slots[i].is_asked);
        if (w->slots[i].block.data != NULL) check_content(w, &w->slots[i]);
    }
}

void pool_worker_settle(pool_worker* w) {
    berth_store* store = w->shop->store;
    POOL_REQUIRE(berth_store_set_tenant_share(store, &w->tenant, 0) == BERTH_OK);
    POOL_REQUIRE(berth_store_set_tenant_quota(store, &w->tenant, BERTH_QUOTA_NONE) == BERTH_OK);
    collect_from(w);
    for (size_t i = 0; i < POOL_WORKER_SLOTS; i++)
        if (w->slots[i].block.data != NULL) give(w, &w->slots[i]);
    drop_held(w);
    POOL_REQUIRE(w->blocks == 0 && w->requested_bytes == 0);
    finish(w->other);
    (void)berth_pool_trim(w->pool, 0, true);
    (void)berth_arena_trim(w->arena, 0, true);
    pool_worker_check(w);
}

void pool_worker_init(pool_worker* w, pool_workshop* shop, uint64_t seed) {
    prepare_pattern();
    POOL_REQUIRE(shop->largest_bytes <= MOST_BYTES);
    *w = (pool_worker){.shop = shop, .random = test_random_make(seed)};
    w->sink = malloc(shop->largest_bytes);
    POOL_REQUIRE(w->sink != NULL);
    POOL_REQUIRE(berth_mutex_init(&w->guard) == BERTH_OK);
    POOL_REQUIRE(berth_mutex_init(&w->parcel_lock) == BERTH_OK);
    POOL_REQUIRE(berth_stream_create(shop->device, &w->stream) == BERTH_OK);
    POOL_REQUIRE(berth_stream_create(shop->device, &w->other) == BERTH_OK);
    berth_store_add_tenant(shop->store, &w->tenant);
    const berth_pool_config config = {
        .host = shop->host,
        .store = shop->store,
        .tenant = &w->tenant,
        .stream = w->stream,
        .returns_at_once = seed % 3 == 0,
        .guard = {.self = &w->guard, .try_lock = try_guard, .unlock = unlock_guard}};
    POOL_REQUIRE(berth_pool_create(&config, &w->pool) == BERTH_OK);
    POOL_REQUIRE(berth_arena_create(shop->host, shop->store, &w->tenant, w->stream, &w->arena) ==
                 BERTH_OK);
    berth_compactor_init(&w->compactor, shop->host, w->pool);
    w->room_maker = (berth_reclaimer){.rung = BERTH_RUNG_COMPACTION,
                                      .tenant = &w->tenant,
                                      .owner = BERTH_OWNER_POOL,
                                      .self = w,
                                      .reclaim = climb};
    berth_store_add_reclaimer(shop->store, &w->room_maker);
    w->is_dense = one_in(w, 2);
    if (w->is_dense || one_in(w, 2)) berth_pool_allow_moves(w->pool);
}

void pool_worker_fini(pool_worker* w) {
    berth_store_remove_reclaimer(w->shop->store, &w->room_maker);
    berth_compactor_fini(&w->compactor);
    berth_arena_destroy(w->arena);
    berth_pool_destroy(w->pool);
    berth_store_remove_tenant(w->shop->store, &w->tenant);
    berth_stream_destroy(w->other);
    berth_stream_destroy(w->stream);
    berth_mutex_fini(&w->parcel_lock);
    berth_mutex_fini(&w->guard);
    free(w->sink);
}
