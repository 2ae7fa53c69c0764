// SPDX-License-Identifier: Apache-2.0
// Berth's pool on a device of fixed capacity: the simulated one, where all sizes are a 32nd of the
// tape's, or the CPU.
#include <stdlib.h>

#include "base/checked.h"
#include "device/cpu/cpu_device.h"
#include "device/sim/sim_device.h"
#include "frag/policy.h"
#include "kit/fail.h"
#include "memory/pool.h"

/// Room on a device that shall refuse nothing, in peaks of the tape.
#define ROOMY 4u

typedef struct pool_policy {
    policy policy;
    uint64_t scale;
    berth_device* device;
    berth_stream* stream;
    berth_store* store;
    berth_pool* pool;
    berth_block* blocks; ///< [ids]; data is NULL where there is none
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

static policy* create(const policy_setting* setting) {
    const berth_host* host = berth_host_default();
    pool_policy* self = checked_calloc(1, sizeof *self);
    self->policy.ops = &policy_pool;
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
    check(berth_pool_create(
              &(berth_pool_config){.host = host, .store = self->store, .stream = self->stream},
              &self->pool),
          "pool");
    return &self->policy;
}

static void destroy(policy* base) {
    pool_policy* self = (pool_policy*)base;
    for (uint32_t i = 0; i < self->ids; i++)
        if (self->blocks[i].data != NULL) berth_pool_give(self->pool, &self->blocks[i]);
    berth_pool_destroy(self->pool);
    berth_store_destroy(self->store);
    berth_stream_destroy(self->stream);
    berth_device_destroy(self->device);
    free(self->blocks);
    free(self);
}

static bool take(policy* base, uint32_t id, uint64_t bytes, uint64_t site) {
    pool_policy* self = (pool_policy*)base;
    const berth_pool_request request = {
        .size_bytes = berth_round_up(bytes, self->scale) / self->scale, .site = site};
    return berth_pool_take(self->pool, &request, &self->blocks[id]) == BERTH_OK;
}

static void give(policy* base, uint32_t id) {
    pool_policy* self = (pool_policy*)base;
    berth_pool_give(self->pool, &self->blocks[id]);
    self->blocks[id].data = NULL;
}

static void end_step(policy* base, bool trim) {
    pool_policy* self = (pool_policy*)base;
    if (trim) (void)berth_pool_trim(self->pool, 0, false);
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
