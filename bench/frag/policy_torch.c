// SPDX-License-Identifier: Apache-2.0
// Models of PyTorch's allocator, which keep books alone.
#include <stdlib.h>

#include "frag/policy.h"
#include "kit/fail.h"
#include "kit/torch_allocator.h"

typedef struct torch_block {
    void* data;
    uint64_t bytes;
} torch_block;

typedef struct torch_policy {
    policy policy;
    uint64_t capacity_bytes;
    uint64_t live_bytes;
    torch_block* blocks; ///< [ids]
    torch_allocator* torch;
} torch_policy;

static policy* create_as(const policy_setting* setting, const policy_ops* ops, bool is_expandable) {
    torch_policy* self = calloc(1, sizeof *self);
    torch_block* blocks = calloc(setting->ids, sizeof *blocks);
    torch_allocator* torch = torch_allocator_create(is_expandable);
    if (self == NULL || blocks == NULL || torch == NULL) bench_fail_for(ops->name, "no memory");
    torch_allocator_set_capacity(torch, setting->capacity_bytes);
    *self = (torch_policy){.policy = {ops},
                           .capacity_bytes = setting->capacity_bytes,
                           .blocks = blocks,
                           .torch = torch};
    return &self->policy;
}

static policy* create_torch(const policy_setting* setting) {
    return create_as(setting, &policy_torch, false);
}

static policy* create_expandable(const policy_setting* setting) {
    return create_as(setting, &policy_torch_expandable, true);
}

static void destroy(policy* base) {
    torch_policy* self = (torch_policy*)base;
    torch_allocator_destroy(self->torch);
    free(self->blocks);
    free(self);
}

static bool take(policy* base, uint32_t id, uint64_t bytes, uint64_t site) {
    (void)site;
    torch_policy* self = (torch_policy*)base;
    const berth_pool_bypass pair = torch_allocator_bypass(self->torch);
    void* data = pair.alloc(pair.self, bytes, BERTH_ALIGNMENT);
    if (data == NULL) return false;
    self->blocks[id] = (torch_block){data, bytes};
    self->live_bytes += bytes;
    return true;
}

static void give(policy* base, uint32_t id) {
    torch_policy* self = (torch_policy*)base;
    const berth_pool_bypass pair = torch_allocator_bypass(self->torch);
    pair.free(pair.self, self->blocks[id].data, self->blocks[id].bytes);
    self->live_bytes -= self->blocks[id].bytes;
}

static void end_step(policy* base, bool trim) {
    torch_policy* self = (torch_policy*)base;
    if (trim) torch_allocator_trim(self->torch);
}

static void query(policy* base, policy_figures* out_figures) {
    const torch_policy* self = (const torch_policy*)base;
    *out_figures = (policy_figures){
        .reserved_bytes = torch_allocator_query_reserved(self->torch),
        .live_bytes = self->live_bytes,
        .used_bytes = torch_allocator_query_used(self->torch),
        .granule_bytes = TAPE_GRANULE,
        .capacity_bytes = self->capacity_bytes,
    };
}

const policy_ops policy_torch = {
    .name = "torch",
    .has_capacity = true,
    .create = create_torch,
    .destroy = destroy,
    .take = take,
    .give = give,
    .end_step = end_step,
    .query = query,
};

const policy_ops policy_torch_expandable = {
    .name = "torch-expandable",
    .has_capacity = true,
    .create = create_expandable,
    .destroy = destroy,
    .take = take,
    .give = give,
    .end_step = end_step,
    .query = query,
};
