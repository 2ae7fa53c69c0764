// SPDX-License-Identifier: Apache-2.0
// jemalloc with an arena of its own, whose memory is never touched; it cannot be told a capacity.
// Once as it is, purged at steps' ends, and once so that every unused page goes back when it is
// freed. Its pages are of 4 KiB.
// The library's own copy stands in for a malloc that a program would be linked with.
#include "frag/policy.h"

#if BERTH_HOST_JEMALLOC

#include <stdio.h>
#include <stdlib.h>

#include "kit/fail.h"

void* berth_je_mallocx(size_t size, int flags);
void berth_je_sdallocx(void* block, size_t size, int flags);
size_t berth_je_nallocx(size_t size, int flags);
int berth_je_mallctl(
    const char* name, void* old_value, size_t* old_bytes, void* new_value, size_t new_bytes);

// The flags' encoding is jemalloc's ABI: thread cache, arena + 1.
#define FLAG_NO_CACHE (1 << 8)
#define FLAG_ARENA(index) ((int)(index) + 1) << 20

typedef struct jemalloc_block {
    void* data;
    uint64_t bytes;
} jemalloc_block;

typedef struct jemalloc_policy {
    policy policy;
    uint64_t live_bytes;
    uint64_t used_bytes;
    jemalloc_block* blocks; ///< [ids]
    unsigned arena;
} jemalloc_policy;

static size_t read_size(const char* name) {
    size_t value = 0, bytes = sizeof value;
    if (berth_je_mallctl(name, &value, &bytes, NULL, 0) != 0)
        bench_fail_for(name, "jemalloc refuses");
    return value;
}

static void purge(const jemalloc_policy* self) {
    char name[64];
    snprintf(name, sizeof name, "arena.%u.purge", self->arena);
    if (berth_je_mallctl(name, NULL, NULL, NULL, 0) != 0) bench_fail_for(name, "jemalloc refuses");
}

/// Unused pages go back when they are freed, as the system's own allocator would have it.
static void purge_at_once(const jemalloc_policy* self) {
    static const char* const kinds[] = {"dirty", "muzzy"};
    for (int i = 0; i < 2; i++) {
        char name[64];
        ssize_t at_once = 0;
        snprintf(name, sizeof name, "arena.%u.%s_decay_ms", self->arena, kinds[i]);
        if (berth_je_mallctl(name, NULL, NULL, &at_once, sizeof at_once) != 0)
            bench_fail_for(name, "jemalloc refuses");
    }
}

static policy* create_as(const policy_setting* setting, const policy_ops* ops) {
    jemalloc_policy* self = calloc(1, sizeof *self);
    jemalloc_block* blocks = calloc(setting->ids, sizeof *blocks);
    if (self == NULL || blocks == NULL) bench_fail_for("jemalloc", "no memory");
    *self = (jemalloc_policy){.policy = {ops}, .blocks = blocks};
    size_t bytes = sizeof self->arena;
    if (berth_je_mallctl("arenas.create", &self->arena, &bytes, NULL, 0) != 0)
        bench_fail_for("arenas.create", "jemalloc refuses");
    if (ops == &policy_jemalloc_at_once) purge_at_once(self);
    return &self->policy;
}

static policy* create(const policy_setting* setting) {
    return create_as(setting, &policy_jemalloc);
}

static policy* create_at_once(const policy_setting* setting) {
    return create_as(setting, &policy_jemalloc_at_once);
}

static void destroy(policy* base) {
    jemalloc_policy* self = (jemalloc_policy*)base;
    char name[64];
    snprintf(name, sizeof name, "arena.%u.destroy", self->arena);
    if (berth_je_mallctl(name, NULL, NULL, NULL, 0) != 0) bench_fail_for(name, "jemalloc refuses");
    free(self->blocks);
    free(self);
}

static bool take(policy* base, uint32_t id, uint64_t bytes, uint64_t site) {
    (void)site;
    jemalloc_policy* self = (jemalloc_policy*)base;
    void* data = berth_je_mallocx(bytes > 0 ? bytes : 1, FLAG_ARENA(self->arena) | FLAG_NO_CACHE);
    if (data == NULL) return false;
    self->blocks[id] = (jemalloc_block){data, bytes};
    self->live_bytes += bytes;
    self->used_bytes += berth_je_nallocx(bytes > 0 ? bytes : 1, 0);
    return true;
}

static void give(policy* base, uint32_t id) {
    jemalloc_policy* self = (jemalloc_policy*)base;
    const uint64_t bytes = self->blocks[id].bytes;
    berth_je_sdallocx(
        self->blocks[id].data, bytes > 0 ? bytes : 1, FLAG_ARENA(self->arena) | FLAG_NO_CACHE);
    self->live_bytes -= bytes;
    self->used_bytes -= berth_je_nallocx(bytes > 0 ? bytes : 1, 0);
}

static void end_step(policy* base, bool trim) {
    if (trim) purge((const jemalloc_policy*)base);
}

static void query(policy* base, policy_figures* out_figures) {
    const jemalloc_policy* self = (const jemalloc_policy*)base;
    char name[64];
    uint64_t epoch = 1;
    if (berth_je_mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) != 0)
        bench_fail_for("epoch", "jemalloc refuses");
    snprintf(name, sizeof name, "stats.arenas.%u.resident", self->arena);
    *out_figures = (policy_figures){
        .reserved_bytes = read_size(name),
        .live_bytes = self->live_bytes,
        .used_bytes = self->used_bytes,
        .granule_bytes = TAPE_GRANULE,
        .capacity_bytes = UINT64_MAX,
    };
}

const policy_ops policy_jemalloc = {
    .name = "jemalloc",
    .create = create,
    .destroy = destroy,
    .take = take,
    .give = give,
    .end_step = end_step,
    .query = query,
};

const policy_ops policy_jemalloc_at_once = {
    .name = "jemalloc-at-once",
    .create = create_at_once,
    .destroy = destroy,
    .take = take,
    .give = give,
    .end_step = end_step,
    .query = query,
};

#else

typedef int policy_jemalloc_absent; // a translation unit is never empty

#endif
