// SPDX-License-Identifier: Apache-2.0
// Berth's pool on a device of fixed capacity: the simulated one, where all sizes are a 32nd of the
// tape's, or the CPU. With compaction every block may move; a slice is made at each step's end
// where much of what is mapped lies free beside blocks, and where the device refuses more.
#include <stdlib.h>

#include "base/checked.h"
#include "base/clock.h"
#include "device/cpu/cpu_device.h"
#include "device/sim/sim_device.h"
#include "frag/policy.h"
#include "health/compactor.h"
#include "kit/fail.h"
#include "memory/ladder.h"
#include "memory/pool.h"

/// Room on a device that shall refuse nothing, in peaks of the tape.
#define ROOMY 4u

#define SLICE_BYTES (UINT64_C(8) << 20)
#define SLICE_US 500u
/// Free memory beside blocks that a slice is made for: a share of what is mapped, a smaller one
/// where memory is given back at once, and at least so many granules.
#define WORTH_SHARE 8u
#define WORTH_SHARE_AT_ONCE 32u
#define WORTH_GRANULES 2u

/// A slice's bounds, the defaults of BERTH_COMPACT_BUDGET_BYTES and _US.
static const berth_compact_budget slice = {.bytes = SLICE_BYTES, .ns = SLICE_US * UINT64_C(1000)};

/// A block and who follows its moves.
typedef struct pool_block {
    berth_movable movable;
    berth_block block; ///< data is NULL where there is none
    uint64_t last_use; ///< steps before it
} pool_block;

typedef struct pool_policy {
    policy policy;
    bool compacts;
    bool gives_back; ///< as with BERTH_KEEP=none
    uint64_t steps;
    berth_tenant tenant;
    berth_compactor compactor;
    berth_reclaimer room_maker; ///< the rung of compaction
    double* slice_us;           ///< [slices]
    size_t slices, slice_room;
    uint64_t scale;
    berth_device* device;
    berth_stream* stream;
    berth_store* store;
    berth_pool* pool;
    pool_block* blocks; ///< [ids]
    uint32_t ids;
} pool_policy;

static void check(berth_status status, const char* what) {
    if (status != BERTH_OK) bench_fail(what);
}

static void* checked_calloc(size_t count, size_t bytes) {
    void* memory = calloc(count, bytes);
    if (memory == NULL) bench_fail_for("policy", "no memory");
    return memory;
}

static void create_device(pool_policy* self, const policy_setting* setting, uint64_t capacity) {
    const berth_host* host = berth_host_default();
    if (setting->device == POLICY_CPU) {
        const berth_cpu_options options = {.threads = 1, .huge = BERTH_HUGE_MADVISE};
        check(berth_cpu_device_create(host, &options, &self->device), "CPU device");
        return;
    }
    const berth_sim_options options = {.capacity_bytes = capacity,
                                       .granule_bytes = TAPE_GRANULE / self->scale};
    check(berth_sim_device_create(host, &options, &self->device), "simulated device");
}

static pool_block* block_of(const berth_movable* movable) {
    return (pool_block*)(uintptr_t)movable; // its first member
}

static bool can_move(berth_movable* movable) { return block_of(movable)->block.data != NULL; }

static const berth_block* query_block(const berth_movable* movable) {
    return &block_of(movable)->block;
}

static uint64_t query_last_use(const berth_movable* movable) { return block_of(movable)->last_use; }

static void follow(berth_movable* movable, const berth_block* to, uint64_t left_bytes) {
    (void)left_bytes;
    if (to != NULL) block_of(movable)->block = *to;
}

static const berth_movable_ops movable_ops = {
    .can_move = can_move, .block = query_block, .last_use = query_last_use, .move = follow};

static void note_slice(pool_policy* self, uint64_t begin_ns) {
    if (self->slices == self->slice_room) {
        self->slice_room = self->slice_room == 0 ? 1024 : 2 * self->slice_room;
        self->slice_us = realloc(self->slice_us, self->slice_room * sizeof *self->slice_us);
        if (self->slice_us == NULL) bench_fail_for("slices", "no memory");
    }
    self->slice_us[self->slices++] = (double)(berth_clock_thread_ns() - begin_ns) / 1000;
}

/// What stands below a refusal: granules are emptied and given back.
static uint64_t climb(void* base, const berth_tenant* climber, uint64_t wanted_bytes) {
    (void)climber;
    pool_policy* self = base;
    return berth_compactor_give_room(&self->compactor, &slice, wanted_bytes, true);
}

static void begin_compaction(pool_policy* self) {
    berth_compactor_init(&self->compactor, berth_host_default(), self->pool);
    self->room_maker = (berth_reclaimer){.rung = BERTH_RUNG_COMPACTION,
                                         .tenant = &self->tenant,
                                         .owner = BERTH_OWNER_POOL,
                                         .self = self,
                                         .reclaim = climb};
    berth_store_add_reclaimer(self->store, &self->room_maker);
    berth_pool_allow_moves(self->pool);
}

static void end_compaction(pool_policy* self) {
    berth_store_remove_reclaimer(self->store, &self->room_maker);
    berth_compactor_fini(&self->compactor);
}

static policy* create_as(const policy_setting* setting, const policy_ops* ops, bool compacts) {
    const berth_host* host = berth_host_default();
    pool_policy* self = checked_calloc(1, sizeof *self);
    self->policy.ops = ops;
    self->compacts = compacts;
    self->gives_back = setting->gives_back;
    self->scale = setting->device == POLICY_SIM ? POLICY_SIM_SCALE : 1;
    self->ids = setting->ids;
    self->blocks = checked_calloc(setting->ids, sizeof *self->blocks);
    const uint64_t bytes = setting->capacity_bytes == UINT64_MAX ? ROOMY * setting->peak_bytes
                                                                 : setting->capacity_bytes;
    const uint64_t granule = TAPE_GRANULE / self->scale;
    const uint64_t capacity = berth_round_down(bytes / self->scale, granule);
    create_device(self, setting, capacity);
    check(berth_stream_create(self->device, &self->stream), "stream");
    check(berth_store_create(host, self->device, capacity, &self->store), "page store");
    berth_store_add_tenant(self->store, &self->tenant);
    const berth_pool_config config = {.host = host,
                                      .store = self->store,
                                      .tenant = &self->tenant,
                                      .stream = self->stream,
                                      .returns_at_once = self->gives_back};
    check(berth_pool_create(&config, &self->pool), "pool");
    if (compacts) begin_compaction(self);
    return &self->policy;
}

static policy* create(const policy_setting* setting) {
    return create_as(setting, &policy_pool, false);
}

static policy* create_compacting(const policy_setting* setting) {
    return create_as(setting, &policy_pool_compact, true);
}

static void destroy(policy* base) {
    pool_policy* self = (pool_policy*)base;
    for (uint32_t i = 0; i < self->ids; i++)
        if (self->blocks[i].block.data != NULL) berth_pool_give(self->pool, &self->blocks[i].block);
    if (self->compacts) end_compaction(self);
    berth_pool_destroy(self->pool);
    berth_store_remove_tenant(self->store, &self->tenant);
    berth_store_destroy(self->store);
    berth_stream_destroy(self->stream);
    berth_device_destroy(self->device);
    free(self->slice_us);
    free(self->blocks);
    free(self);
}

static uint64_t scaled(const pool_policy* self, uint64_t bytes) {
    return berth_round_up(bytes, self->scale) / self->scale;
}

static bool take(policy* base, uint32_t id, uint64_t bytes, uint64_t site) {
    pool_policy* self = (pool_policy*)base;
    pool_block* block = &self->blocks[id];
    *block = (pool_block){.movable = {&movable_ops}, .last_use = self->steps};
    const berth_pool_request request = {.size_bytes = scaled(self, bytes),
                                        .site = site,
                                        .movable = self->compacts ? &block->movable : NULL};
    berth_block taken;
    if (berth_pool_take(self->pool, &request, &taken) != BERTH_OK) return false;
    block->block = taken;
    return true;
}

static void give(policy* base, uint32_t id) {
    pool_policy* self = (pool_policy*)base;
    const berth_block block = self->blocks[id].block;
    self->blocks[id].block = (berth_block){0};
    berth_pool_give(self->pool, &block);
}

/// As a runtime judges at a step's end.
static bool is_worth_a_slice(const pool_policy* self) {
    berth_pool_stats stats;
    uint64_t whole = 0, beside = 0;
    berth_pool_query_stats(self->pool, &stats);
    berth_pool_query_free(self->pool, &whole, &beside);
    return beside >= WORTH_GRANULES * TAPE_GRANULE / self->scale &&
           beside >= stats.mapped_bytes / (self->gives_back ? WORTH_SHARE_AT_ONCE : WORTH_SHARE);
}

static void end_step(policy* base, bool trim) {
    pool_policy* self = (pool_policy*)base;
    self->steps++;
    berth_pool_note_step(self->pool);
    if (self->compacts && is_worth_a_slice(self)) {
        const uint64_t begin_ns = berth_clock_thread_ns();
        const bool has_more = berth_compactor_tidy(&self->compactor, &slice);
        if (!has_more && self->gives_back) (void)berth_compactor_press(&self->compactor, &slice);
        note_slice(self, begin_ns);
    }
    if (trim) (void)berth_pool_trim(self->pool, 0, true);
}

static void query(policy* base, policy_figures* out_figures) {
    const pool_policy* self = (const pool_policy*)base;
    berth_pool_stats pool;
    berth_store_stats store;
    berth_pool_query_stats(self->pool, &pool);
    berth_store_query_stats(self->store, &store);
    *out_figures = (policy_figures){
        .reserved_bytes = store.mapped_bytes,
        .live_bytes = pool.requested_bytes,
        .used_bytes = pool.mapped_bytes - pool.free_bytes,
        .granule_bytes = TAPE_GRANULE / self->scale,
        .capacity_bytes = store.capacity_bytes,
    };
}

static void query_moves(policy* base, policy_moves* out_moves) {
    const pool_policy* self = (const pool_policy*)base;
    berth_pool_stats pool;
    berth_pool_query_stats(self->pool, &pool);
    *out_moves = (policy_moves){.bytes = self->compactor.stats.moved_bytes,
                                .remapped_bytes = pool.remapped_bytes,
                                .slice_us = self->slice_us,
                                .slices = self->slices};
}

/// Bytes of blocks in one granule.
typedef struct granule_load {
    uint64_t granule;
    uint64_t bytes;
} granule_load;

static int by_granule(const void* a, const void* b) {
    const granule_load* x = a;
    const granule_load* y = b;
    return (x->granule > y->granule) - (x->granule < y->granule);
}

static int by_bytes(const void* a, const void* b) {
    const granule_load* x = a;
    const granule_load* y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/// Adds the part of each granule that the block covers to `loads`; returns their new number.
static size_t add_parts(const berth_block* block, uint64_t granule, granule_load* loads, size_t n) {
    const uint64_t end = (uint64_t)(uintptr_t)block->data + block->size_bytes;
    for (uint64_t at = (uint64_t)(uintptr_t)block->data; at < end;) {
        const uint64_t border = berth_round_down(at, granule) + granule;
        const uint64_t to = border < end ? border : end;
        loads[n++] = (granule_load){at / granule, to - at};
        at = to;
    }
    return n;
}

/// Adds up what lies in the same granule; returns the number of granules.
static size_t join_loads(granule_load* loads, size_t n) {
    size_t granules = 0;
    qsort(loads, n, sizeof *loads, by_granule);
    for (size_t i = 0; i < n; i++) {
        if (granules > 0 && loads[granules - 1].granule == loads[i].granule)
            loads[granules - 1].bytes += loads[i].bytes;
        else
            loads[granules++] = loads[i];
    }
    return granules;
}

/// A lower bound: what lies in the granules that hold least, as many as are missing. A block that
/// reaches into other granules counts only with its part, though all of it would have to move.
static uint64_t query_least(policy* base, uint64_t bytes) {
    const pool_policy* self = (const pool_policy*)base;
    const uint64_t granule = TAPE_GRANULE / self->scale;
    policy_figures f;
    query(base, &f);
    const size_t most = self->ids + (size_t)(f.capacity_bytes / granule) + 1;
    granule_load* loads = checked_calloc(most, sizeof *loads);
    size_t n = 0;
    for (uint32_t i = 0; i < self->ids; i++)
        if (self->blocks[i].block.data != NULL && self->blocks[i].block.size_bytes > 0)
            n = add_parts(&self->blocks[i].block, granule, loads, n);
    const size_t occupied = join_loads(loads, n);
    qsort(loads, occupied, sizeof *loads, by_bytes);
    const uint64_t needed = berth_round_up(scaled(self, bytes), granule) / granule;
    const uint64_t idle = f.capacity_bytes / granule - occupied;
    uint64_t least = 0;
    for (size_t i = 0; i < occupied && i + idle < needed; i++)
        least += loads[i].bytes;
    free(loads);
    return least;
}

const policy_ops policy_pool = {
    .name = "pool",
    .has_capacity = true,
    .is_on_device = true,
    .create = create,
    .destroy = destroy,
    .take = take,
    .give = give,
    .end_step = end_step,
    .query = query,
};

const policy_ops policy_pool_compact = {
    .name = "pool+compact",
    .has_capacity = true,
    .is_on_device = true,
    .create = create_compacting,
    .destroy = destroy,
    .take = take,
    .give = give,
    .end_step = end_step,
    .query = query,
    .query_moves = query_moves,
    .query_least = query_least,
};
