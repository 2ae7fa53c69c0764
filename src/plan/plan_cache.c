// SPDX-License-Identifier: Apache-2.0
// A chained hash table with eviction by worth.
#include "plan/plan_cache.h"

#include <string.h>

#include "base/hash.h"

#define FIRST_SLOTS 64u
/// Entries compared for one eviction.
#define EVICTION_WINDOW 128u

struct berth_cache_entry {
    berth_cache_entry* next;
    uint64_t hash;
    uint64_t cost;
    uint64_t hits;
    uint64_t used; ///< when, by the cache's clock: breaks ties
    size_t bytes;
    berth_plan* plan;
    berth_plan_placement* placement;
    berth_plan_seed seed;
    uint64_t serial; ///< of this entry, never 0
    berth_cache_kind kind;
    uint32_t path;
    uint32_t count;
    int64_t values[];
};

static uint64_t hash_key(const berth_cache_key* key) {
    return berth_hash64(key->values,
                        key->count * sizeof *key->values,
                        ((uint64_t)key->path << 2) | (uint64_t)key->kind);
}

static bool has_key(const berth_cache_entry* entry, const berth_cache_key* key) {
    if (entry->kind != key->kind || entry->path != key->path || entry->count != key->count)
        return false;
    for (uint32_t i = 0; i < key->count; i++)
        if (entry->values[i] != key->values[i]) return false;
    return true;
}

/// The entry that `ticket` names; NULL: it has gone.
static berth_cache_entry* redeem(const berth_plan_cache* self, berth_plan_ticket ticket) {
    if (ticket.serial == 0 || self->slot_count == 0) return NULL;
    berth_cache_entry* entry = self->slots[ticket.hash & (self->slot_count - 1)];
    while (entry != NULL && entry->serial != ticket.serial)
        entry = entry->next;
    return entry;
}

/// The plan behind a placement was used too.
static void credit_plan(berth_plan_cache* self, const berth_plan_placement* placement) {
    berth_cache_entry* entry = redeem(self, placement->plan);
    if (entry != NULL) entry->hits++;
}

static berth_cache_entry* find(berth_plan_cache* self, const berth_cache_key* key, bool count_hit) {
    if (self->slot_count == 0) return NULL;
    const uint64_t hash = hash_key(key);
    berth_cache_entry* entry = self->slots[hash & (self->slot_count - 1)];
    while (entry != NULL && (entry->hash != hash || !has_key(entry, key)))
        entry = entry->next;
    if (entry != NULL && count_hit) {
        entry->hits++;
        entry->used = ++self->clock;
        if (entry->placement != NULL) credit_plan(self, entry->placement);
    }
    return entry;
}

// ---- Ghosts.

/// Notes why the plan `entry` goes. Without memory, nobody will know.
static void haunt(berth_plan_cache* self, const berth_cache_entry* entry, berth_miss reason) {
    if (entry->kind != BERTH_CACHE_PLAN) return;
    if (self->ghosts == NULL)
        self->ghosts = berth_host_calloc(self->host, BERTH_CACHE_GHOSTS, sizeof *self->ghosts);
    if (self->ghosts == NULL) return;
    const uint64_t changed = reason == BERTH_MISS_MODEL_CHANGED;
    self->ghosts[entry->hash % BERTH_CACHE_GHOSTS] = (entry->hash | 1) ^ changed ^ 1;
}

berth_miss berth_plan_cache_query_miss(const berth_plan_cache* self, const berth_cache_key* key) {
    const uint64_t hash = hash_key(key);
    const uint64_t ghost = self->ghosts != NULL ? self->ghosts[hash % BERTH_CACHE_GHOSTS] : 0;
    if (ghost == 0 || (ghost | 1) != (hash | 1)) return BERTH_MISS_NEW_BUCKET;
    return (ghost & 1) != 0 ? BERTH_MISS_MODEL_CHANGED : BERTH_MISS_EVICTED;
}

// ---- Eviction.

/// Takes the entry that `link` points at out of its chain and frees it.
static void remove_at(berth_plan_cache* self, berth_cache_entry** link) {
    berth_cache_entry* entry = *link;
    *link = entry->next;
    self->bytes -= entry->bytes;
    self->entry_count--;
    self->live[entry->kind]--;
    berth_plan_destroy(entry->plan, self->host);
    berth_plan_placement_release(entry->placement, self->host);
    berth_host_free(self->host, entry);
}

/// Removes every entry that `goes` since a model has changed.
static void remove_all(berth_plan_cache* self,
                       bool (*goes)(const berth_cache_entry* entry, const void* which),
                       const void* which) {
    for (size_t slot = 0; slot < self->slot_count; slot++) {
        for (berth_cache_entry** link = &self->slots[slot]; *link != NULL;) {
            if (!goes(*link, which)) {
                link = &(*link)->next;
                continue;
            }
            haunt(self, *link, BERTH_MISS_MODEL_CHANGED);
            remove_at(self, link);
        }
    }
}

static bool worth_less(const berth_cache_entry* a, const berth_cache_entry* b) {
    const double worth_a = (double)a->cost * (double)(a->hits + 1);
    const double worth_b = (double)b->cost * (double)(b->hits + 1);
    return worth_a != worth_b ? worth_a < worth_b : a->used < b->used;
}

/// The least worth keeping of the next EVICTION_WINDOW entries: of all where there are few, and in
/// bounded time where there are many. There is at least one entry.
static berth_cache_entry** find_least(berth_plan_cache* self) {
    berth_cache_entry** least = NULL;
    size_t seen = 0;
    for (size_t turn = 0; turn < self->slot_count && seen < EVICTION_WINDOW; turn++) {
        self->hand = (self->hand + 1) & (self->slot_count - 1);
        for (berth_cache_entry** link = &self->slots[self->hand]; *link != NULL;
             link = &(*link)->next, seen++)
            if (least == NULL || worth_less(*link, *least)) least = link;
    }
    return least;
}

/// Halves all hits once as many entries have gone as there are, so that old fame fades.
static void fade_hits(berth_plan_cache* self) {
    if (++self->evicted_since_fade < self->entry_count) return;
    self->evicted_since_fade = 0;
    for (size_t slot = 0; slot < self->slot_count; slot++)
        for (berth_cache_entry* entry = self->slots[slot]; entry != NULL; entry = entry->next)
            entry->hits /= 2;
}

static bool has_room(const berth_plan_cache* self, uint64_t bytes, size_t entries) {
    if (self->bytes > self->limit_bytes - bytes) return false;
    return self->limit_entries == 0 || self->entry_count + entries <= self->limit_entries;
}

/// Evicts until `entries` more of `bytes` bytes fit. False if they never will.
static bool make_room(berth_plan_cache* self, uint64_t bytes, size_t entries) {
    if (bytes > self->limit_bytes) return false;
    while (!has_room(self, bytes, entries)) {
        berth_cache_entry** least = find_least(self);
        self->evicted[(*least)->kind]++;
        haunt(self, *least, BERTH_MISS_EVICTED);
        remove_at(self, least);
        fade_hits(self);
    }
    return true;
}

static bool grow(berth_plan_cache* self) {
    if (self->entry_count < self->slot_count) return true;
    const size_t count = self->slot_count == 0 ? FIRST_SLOTS : self->slot_count * 2;
    berth_cache_entry** slots = berth_host_calloc(self->host, count, sizeof *slots);
    if (slots == NULL) return self->slot_count > 0; // longer chains do
    for (size_t slot = 0; slot < self->slot_count; slot++) {
        for (berth_cache_entry* entry = self->slots[slot]; entry != NULL;) {
            berth_cache_entry* next = entry->next;
            entry->next = slots[entry->hash & (count - 1)];
            slots[entry->hash & (count - 1)] = entry;
            entry = next;
        }
    }
    berth_host_free(self->host, self->slots);
    self->slots = slots;
    self->slot_count = count;
    return true;
}

/// A linked-in entry without content, `payload` bytes charged for it; NULL if it cannot be kept.
static berth_cache_entry* insert(berth_plan_cache* self,
                                 const berth_cache_key* key,
                                 size_t payload,
                                 uint64_t cost) {
    const size_t own = sizeof(berth_cache_entry) + key->count * sizeof(int64_t);
    if (!make_room(self, own + payload, 1) || !grow(self)) return NULL;
    berth_cache_entry* entry = berth_host_calloc(self->host, 1, own);
    if (entry == NULL) return NULL;
    entry->hash = hash_key(key);
    entry->cost = cost;
    entry->serial = ++self->clock;
    entry->used = entry->serial;
    entry->bytes = own + payload;
    entry->kind = key->kind;
    entry->path = key->path;
    entry->count = key->count;
    if (key->count > 0) memcpy(entry->values, key->values, key->count * sizeof *key->values);
    berth_cache_entry** slot = &self->slots[entry->hash & (self->slot_count - 1)];
    entry->next = *slot;
    *slot = entry;
    self->bytes += entry->bytes;
    self->entry_count++;
    self->live[entry->kind]++;
    return entry;
}

void berth_plan_cache_fini(berth_plan_cache* self) {
    for (size_t slot = 0; slot < self->slot_count; slot++)
        while (self->slots[slot] != NULL)
            remove_at(self, &self->slots[slot]);
    berth_host_free(self->host, self->slots);
    berth_host_free(self->host, self->ghosts);
    self->slots = NULL;
    self->ghosts = NULL;
    self->slot_count = 0;
}

berth_plan* berth_plan_cache_find_plan(berth_plan_cache* self,
                                       const berth_cache_key* key,
                                       bool count_hit) {
    berth_cache_entry* entry = find(self, key, count_hit);
    return entry != NULL ? entry->plan : NULL;
}

berth_plan_placement* berth_plan_cache_find_placement(berth_plan_cache* self,
                                                      const berth_cache_key* key,
                                                      bool count_hit) {
    berth_cache_entry* entry = find(self, key, count_hit);
    return entry != NULL ? entry->placement : NULL;
}

bool berth_plan_cache_insert_plan(berth_plan_cache* self,
                                  const berth_cache_key* key,
                                  berth_plan* plan,
                                  uint64_t cost) {
    berth_cache_entry* entry = insert(self, key, berth_plan_query_bytes(plan), cost);
    if (entry != NULL) entry->plan = plan;
    return entry != NULL;
}

bool berth_plan_cache_insert_placement(berth_plan_cache* self,
                                       const berth_cache_key* key,
                                       const berth_cache_key* plan_key,
                                       berth_plan_placement* placement,
                                       uint64_t cost) {
    berth_cache_entry* entry = insert(self, key, placement->bytes, cost);
    if (entry == NULL) return false;
    const berth_cache_entry* plan = find(self, plan_key, false);
    if (plan != NULL) placement->plan = (berth_plan_ticket){plan->hash, plan->serial};
    entry->placement = placement;
    placement->refs++;
    return true;
}

// ---- Seeds.

static berth_cache_key seed_key(const berth_cache_key* key) {
    return (berth_cache_key){BERTH_CACHE_SEED, key->path, key->count, key->values};
}

void berth_plan_cache_insert_seed(berth_plan_cache* self,
                                  const berth_cache_key* key,
                                  const berth_plan_seed* seed,
                                  uint64_t cost,
                                  uint64_t hits) {
    const berth_cache_key own_key = seed_key(key);
    if (find(self, &own_key, false) != NULL) return;
    berth_cache_entry* entry = insert(self, &own_key, 0, cost);
    if (entry == NULL) return;
    entry->seed = *seed;
    entry->hits = hits;
}

const berth_plan_seed* berth_plan_cache_find_seed(berth_plan_cache* self,
                                                  const berth_cache_key* key) {
    const berth_cache_key own_key = seed_key(key);
    const berth_cache_entry* entry = find(self, &own_key, false);
    return entry != NULL ? &entry->seed : NULL;
}

bool berth_plan_cache_sprout(berth_plan_cache* self, const berth_cache_key* key, berth_plan* plan) {
    const berth_cache_key own_key = seed_key(key);
    const berth_cache_entry* seed = find(self, &own_key, false);
    const uint64_t cost = seed->cost;
    const uint64_t hits = seed->hits;
    berth_cache_entry** link = &self->slots[seed->hash & (self->slot_count - 1)];
    while (*link != seed)
        link = &(*link)->next;
    remove_at(self, link);
    if (plan == NULL || !berth_plan_cache_insert_plan(self, key, plan, cost)) return false;
    find(self, key, false)->hits = hits;
    return true;
}

void berth_plan_cache_visit(const berth_plan_cache* self,
                            uint32_t path,
                            void (*visit)(void* argument, const berth_cache_item* item),
                            void* argument) {
    for (size_t slot = 0; slot < self->slot_count; slot++) {
        for (const berth_cache_entry* entry = self->slots[slot]; entry != NULL;
             entry = entry->next) {
            if (entry->path != path || entry->kind == BERTH_CACHE_PLACEMENT) continue;
            const berth_cache_item item = {
                entry->values,
                entry->count,
                entry->cost,
                entry->hits,
                entry->plan,
                entry->kind == BERTH_CACHE_SEED ? &entry->seed : NULL,
            };
            visit(argument, &item);
        }
    }
}

// ---- Improvements.

berth_plan* berth_plan_cache_redeem(const berth_plan_cache* self,
                                    berth_plan_ticket ticket,
                                    uint64_t* out_hits) {
    const berth_cache_entry* entry = redeem(self, ticket);
    *out_hits = entry != NULL ? entry->hits : 0;
    return entry != NULL ? entry->plan : NULL;
}

static bool is_from_plan(const berth_cache_entry* entry, const void* ticket) {
    return entry->placement != NULL &&
           entry->placement->plan.serial == ((const berth_plan_ticket*)ticket)->serial;
}

void berth_plan_cache_replace(berth_plan_cache* self,
                              berth_plan_ticket ticket,
                              berth_relation* relation,
                              uint64_t peak_bytes) {
    remove_all(self, is_from_plan, &ticket);
    berth_cache_entry* entry = redeem(self, ticket);
    berth_plan* plan = entry->plan;
    const size_t before = berth_plan_query_bytes(plan);
    berth_relation_destroy(plan->relation, self->host);
    plan->relation = relation;
    berth_plan_renumber(plan);
    plan->peak_bytes = peak_bytes;
    // the bound is kept at the next insertion
    const size_t after = berth_plan_query_bytes(plan);
    entry->bytes = entry->bytes - before + after;
    self->bytes = self->bytes - before + after;
}

// ---- Dropping.

static bool is_of_path(const berth_cache_entry* entry, const void* path) {
    return entry->path == *(const uint32_t*)path;
}

static bool is_placement_of_path(const berth_cache_entry* entry, const void* path) {
    return entry->kind == BERTH_CACHE_PLACEMENT && is_of_path(entry, path);
}

void berth_plan_cache_drop(berth_plan_cache* self, uint32_t path, bool placements_only) {
    remove_all(self, placements_only ? is_placement_of_path : is_of_path, &path);
}

void berth_plan_cache_set_limit(berth_plan_cache* self, uint64_t limit_bytes) {
    self->limit_bytes = limit_bytes;
    (void)make_room(self, 0, 0);
}
