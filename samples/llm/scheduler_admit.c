// SPDX-License-Identifier: Apache-2.0
// Who is taken up: the queue, quotas of tenants, parking and bringing back.
#include "scheduler_internal.h"

#include <string.h>

void llm_task_list_insert(llm_task_list* list, llm_task* r) {
    size_t at = list->count++;
    for (; at > 0 && list->items[at - 1]->id > r->id; at--)
        list->items[at] = list->items[at - 1];
    list->items[at] = r;
}

void llm_task_list_remove(llm_task_list* list, const llm_task* r) {
    size_t at = 0;
    while (list->items[at] != r)
        at++;
    list->count--;
    memmove(&list->items[at], &list->items[at + 1], (list->count - at) * sizeof(llm_task*));
}

berth_status llm_task_list_reserve(llm_task_list* list, llm_error* error) {
    if (list->count < list->capacity) return BERTH_OK;
    size_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
    llm_task** items = llm_realloc(list->items, capacity, sizeof(llm_task*));
    if (items == NULL) return llm_fail_memory(error, "a list of requests");
    list->items = items;
    list->capacity = capacity;
    return BERTH_OK;
}

size_t llm_queue_count(const llm_scheduler* s) { return s->queue.count - s->queue_head; }

llm_task* llm_queue_take(llm_scheduler* s, size_t at) {
    llm_task_list* queue = &s->queue;
    llm_task** items = queue->items + s->queue_head;
    llm_task* r = items[at];
    // those before it move up: none, but where quotas hold them back
    memmove(&items[1], &items[0], at * sizeof(llm_task*));
    s->queue_head++;
    s->queued_bytes -= r->own_bytes;
    if (at < s->queue_held) s->queue_held--;
    if (s->queue_head * 2 > queue->count) {
        queue->count -= s->queue_head;
        memmove(queue->items, queue->items + s->queue_head, queue->count * sizeof(llm_task*));
        s->queue_head = 0;
    }
    return r;
}

void llm_scheduler_query_room(llm_scheduler* s) {
    uint64_t bytes;
    if (berth_kv_cache_query_room(s->cache, &s->room.blocks) != BERTH_OK)
        s->room.blocks = (berth_kv_room){0};
    if (berth_context_query_room(s->model->context, &bytes) != BERTH_OK) bytes = 0;
    s->room.bytes = bytes < INT64_MAX ? bytes : INT64_MAX; // so that a little may be added
}

int64_t llm_scheduler_room_blocks(const llm_scheduler* s) {
    const berth_kv_room* room = &s->room.blocks;
    int64_t mapped = room->ready_blocks + room->cached_blocks;
    uint64_t bytes = s->room.bytes + (uint64_t)mapped * s->layout.block_bytes;
    uint64_t beside = bytes > s->recent_step_bytes ? bytes - s->recent_step_bytes : 0;
    int64_t blocks = (int64_t)(beside / s->layout.block_bytes);
    int64_t most = mapped + room->mappable_blocks;
    return blocks < most ? blocks : most;
}

// Tenants.

static llm_tenant* find_tenant(const llm_scheduler* s, uint32_t id) {
    for (size_t i = 0; i < s->tenant_count; i++)
        if (s->tenants[i].id == id) return &s->tenants[i];
    return NULL;
}

static bool tenant_has_room(const llm_scheduler* s, uint32_t id, int64_t blocks) {
    const llm_tenant* t = find_tenant(s, id);
    int64_t running = t == NULL ? 0 : t->running;
    int64_t has = t == NULL ? 0 : t->blocks;
    const llm_scheduler_options* o = &s->options;
    return (o->tenant_running == 0 || running < o->tenant_running) &&
           (o->tenant_blocks == 0 || blocks <= o->tenant_blocks - has);
}

static void tenant_enter(llm_scheduler* s, const llm_task* r) {
    llm_tenant* t = find_tenant(s, r->tenant);
    if (t == NULL) {
        t = &s->tenants[s->tenant_count++];
        *t = (llm_tenant){.id = r->tenant};
    }
    t->running++;
    t->blocks += r->need_blocks;
}

void llm_scheduler_leave_tenant(llm_scheduler* s, const llm_task* r) {
    llm_tenant* t = find_tenant(s, r->tenant);
    t->running--;
    t->blocks -= r->need_blocks;
    s->queue_held = 0; // what was held back is looked at again
    if (t->running == 0) *t = s->tenants[--s->tenant_count];
}

// Taking up.

/// Begins the request's sequence with what the cache has of its tokens.
static berth_status open_sequence(llm_scheduler* s, llm_task* r, int64_t* out_found) {
    berth_kv_sequence_options options = {.struct_size = sizeof options,
                                         .key = r->key,
                                         .key_bytes = r->key_bytes,
                                         .tenant = r->tenant,
                                         .is_private = r->is_private};
    berth_kv_match match = {0};
    berth_status status = berth_kv_sequence_create(s->cache, &options, &r->sequence);
    if (status == BERTH_OK)
        status = berth_kv_sequence_match(r->sequence, r->tokens, r->count, &match);
    if (status != BERTH_OK) return llm_fail(&s->error, status, "%s", berth_last_error());
    r->fed = match.tokens;
    if (r->most_fed < r->fed) r->most_fed = r->fed;
    *out_found = match.tokens;
    return BERTH_OK;
}

/// The first request that waits and that its tenant's quota allows; the number of all if none. Who
/// was held back stays so until a tenant gets room, so each is looked at once.
static size_t find_next(llm_scheduler* s) {
    llm_task* const* items = s->queue.items + s->queue_head;
    size_t count = llm_queue_count(s);
    for (; s->queue_held < count; s->queue_held++) {
        const llm_task* r = items[s->queue_held];
        if (tenant_has_room(s, r->tenant, r->need_blocks)) break;
    }
    return s->queue_held;
}

/// Tokens that those taken up have to compute.
static int64_t count_pending(const llm_scheduler* s) {
    int64_t tokens = 0;
    for (size_t i = 0; i < s->running.count; i++)
        tokens += llm_task_pending(s->running.items[i]);
    return tokens;
}

/// Takes one request up. Its prompt's tokens are looked up now and not before, when others may have
/// computed them.
static void take_up_one(llm_scheduler* s, size_t at) {
    llm_task* r = llm_queue_take(s, at);
    berth_status status = open_sequence(s, r, &r->end.cached_tokens);
    r->end.admit_ns = s->options.now(s->options.user);
    r->has_advanced = true; // nothing is lost if it is parked
    tenant_enter(s, r);
    llm_task_list_insert(&s->running, r);
    s->stats.prompt_tokens += (uint64_t)r->prompt_count;
    s->stats.cached_tokens += (uint64_t)r->end.cached_tokens;
    if (status != BERTH_OK) llm_scheduler_end_running(s, r, LLM_END_FAILED, status, s->error.text);
    llm_scheduler_query_room(s); // blocks that were cached may be held now
}

void llm_scheduler_take_up(llm_scheduler* s) {
    // each one that is taken up has a token to compute or ends, so this ends
    while (s->parked.count == 0 && !s->gate_is_shut &&
           (int64_t)s->running.count < s->options.max_running &&
           count_pending(s) < s->options.step_tokens) {
        size_t at = find_next(s);
        if (at == llm_queue_count(s)) return;
        take_up_one(s, at);
    }
}

// Parking.

/// The youngest request if it may be parked; NULL if not. Never another one: those that are parked
/// are the youngest (SC2).
static llm_task* find_youngest(const llm_scheduler* s, bool gently) {
    if (s->running.count < 2) return NULL;
    llm_task* r = s->running.items[s->running.count - 1];
    return r->has_advanced || !gently ? r : NULL;
}

bool llm_scheduler_park_youngest(llm_scheduler* s, bool gently) {
    llm_task* r = find_youngest(s, gently);
    if (r == NULL) return false;
    berth_kv_parked parked;
    berth_status status = berth_kv_sequence_park(r->sequence, s->options.parking, &parked);
    // a copy may have no room where dropping needs none
    if (status == BERTH_ERR_OUT_OF_MEMORY)
        status = berth_kv_sequence_park(r->sequence, BERTH_KV_PARK_DROP, &parked);
    if (status != BERTH_OK) return false;
    if (parked.how == BERTH_KV_PARK_HOST)
        s->stats.parks_host++;
    else
        s->stats.parks_drop++;
    r->end.parks++;
    llm_task_list_remove(&s->running, r);
    llm_task_list_insert(&s->parked, r);
    return true;
}

/// Begins a parked request's sequence again, without what was kept of it.
static berth_status reopen(llm_scheduler* s, llm_task* r) {
    int64_t found;
    berth_kv_sequence_release(r->sequence);
    r->sequence = NULL;
    return open_sequence(s, r, &found);
}

/// Brings one back. When nothing else runs it has to come back, if need be without its copy.
static void bring_back_one(llm_scheduler* s, llm_task* r) {
    berth_status status = berth_kv_sequence_resume(r->sequence, &r->fed);
    if (status == BERTH_ERR_OUT_OF_MEMORY && s->running.count > 0) return;
    if (status != BERTH_OK) status = reopen(s, r);
    llm_task_list_remove(&s->parked, r);
    llm_task_list_insert(&s->running, r);
    r->has_advanced = false;
    if (status == BERTH_OK)
        s->stats.resumes++;
    else
        llm_scheduler_end_running(s, r, LLM_END_FAILED, status, s->error.text);
}

void llm_scheduler_bring_back(llm_scheduler* s) {
    for (size_t tried = s->parked.count; tried > 0 && s->parked.count > 0; tried--) {
        llm_task* r = s->parked.items[0];
        // room for all that it may come to need, for a block of each that runs, and for more each
        // time that it was parked, so that this ends
        int64_t needed = r->need_blocks + (int64_t)s->running.count;
        if (!s->options.parks_always) needed += r->end.parks;
        if (s->running.count > 0 && needed > llm_scheduler_room_blocks(s)) return;
        bring_back_one(s, r);
        llm_scheduler_query_room(s);
    }
}
