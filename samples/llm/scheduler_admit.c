// SPDX-License-Identifier: Apache-2.0
// Who is taken up, parking and bringing back.
#include "scheduler_internal.h"

#include <string.h>

void llm_task_list_insert(llm_task_list* list, llm_task* r) {
    size_t at = list->count++;
    for (; at > 0 && list->items[at - 1]->turn > r->turn; at--)
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

int64_t llm_scheduler_count_growing(const llm_scheduler* s, const llm_tenant* t) {
    int64_t blocks = 0;
    for (size_t i = 0; i < s->running.count; i++) {
        const llm_task* r = s->running.items[i];
        if (!r->has_started) continue;
        const int64_t all = llm_scheduler_blocks_of(s, r->count);
        const int64_t growth = all - llm_scheduler_blocks_of(s, r->fed);
        blocks += r->tenant != t && growth > 1 ? growth : 1;
    }
    return blocks;
}

// Taking up.

/// Begins the request's sequence with what the cache has of its tokens.
static berth_status open_sequence(llm_scheduler* s, llm_task* r, int64_t* out_found) {
    berth_kv_sequence_options options = {.struct_size = sizeof options,
                                         .key = r->key,
                                         .key_bytes = r->key_bytes,
                                         .tenant = r->tenant->id,
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

/// Tokens that those taken up have to compute.
static int64_t count_pending(const llm_scheduler* s) {
    int64_t tokens = 0;
    for (size_t i = 0; i < s->running.count; i++)
        tokens += llm_task_pending(s->running.items[i]);
    return tokens;
}

/// Counts for parked requests that another one is taken up, where no other one of their tenant
/// runs.
static void pass_parked(llm_scheduler* s) {
    for (size_t i = 0; i < s->parked.count; i++) {
        llm_task* r = s->parked.items[i];
        if (r->tenant->parked == r->tenant->running) r->passed++;
    }
}

/// Takes one request up. Its prompt's tokens are looked up now and not before, when others may have
/// computed them.
static void take_up_one(llm_scheduler* s, llm_task* r) {
    pass_parked(s);
    llm_tenants_take(s, r);
    berth_status status = open_sequence(s, r, &r->end.cached_tokens);
    r->end.admit_ns = s->options.now(s->options.user);
    r->has_advanced = true; // nothing is lost if it is parked
    r->turn = s->next_turn++;
    llm_task_list_insert(&s->running, r);
    s->stats.prompt_tokens += (uint64_t)r->prompt_count;
    s->stats.cached_tokens += (uint64_t)r->end.cached_tokens;
    if (status != BERTH_OK) llm_scheduler_end_running(s, r, LLM_END_FAILED, status, s->error.text);
    llm_scheduler_query_room(s); // blocks that were cached may be held now
}

/// Who of those that wait may be taken up, wanted tokens being counted for so many tenants. One
/// that finds the next step full may still come if its tenant has no prompt in it, as steps divide
/// their tokens among tenants, while each gets a piece that is worth it.
static llm_taking find_taking(const llm_scheduler* s, size_t tenants) {
    if (count_pending(s) < s->options.step_tokens) return LLM_TAKE_ALL;
    const size_t most = (size_t)(s->options.step_tokens / LLM_LEAST_PIECE);
    return tenants < most ? LLM_TAKE_NEWCOMERS : LLM_TAKE_NONE;
}

/// The request to be brought back or taken up next; NULL if none is to be.
static llm_task* find_next(llm_scheduler* s) {
    const int64_t taken = (int64_t)(s->running.count + s->parked.count);
    const bool has_place = s->queued > 0 && taken < s->options.max_running;
    if (!has_place && s->parked.count == 0) return NULL;
    const size_t tenants = llm_tenants_count_wanted(s, true);
    return llm_tenants_next(s, has_place ? find_taking(s, tenants) : LLM_TAKE_NONE);
}

// Parking.

bool llm_scheduler_park(llm_scheduler* s, llm_task* r) {
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
    r->tenant->parked++;
    llm_task_list_remove(&s->running, r);
    llm_task_list_insert(&s->parked, r);
    llm_scheduler_query_room(s);
    return true;
}

/// Begins a parked request's sequence again, without what was kept of it.
static berth_status reopen(llm_scheduler* s, llm_task* r) {
    int64_t found;
    berth_kv_sequence_release(r->sequence);
    r->sequence = NULL;
    return open_sequence(s, r, &found);
}

/// Brings one back. When nothing else runs it has to come back, if need be without its copy. False
/// if there is no room for that.
static bool resume(llm_scheduler* s, llm_task* r) {
    berth_status status = berth_kv_sequence_resume(r->sequence, &r->fed);
    if (status == BERTH_ERR_OUT_OF_MEMORY && s->running.count > 0) return false;
    if (status != BERTH_OK) status = reopen(s, r);
    r->tenant->parked--;
    llm_task_list_remove(&s->parked, r);
    llm_task_list_insert(&s->running, r);
    r->has_advanced = !r->has_started; // what has not begun loses nothing
    r->gained = 0;
    r->passed = 0;
    if (status == BERTH_OK)
        s->stats.resumes++;
    else
        llm_scheduler_end_running(s, r, LLM_END_FAILED, status, s->error.text);
    llm_scheduler_query_room(s);
    return true;
}

/// Whether there is room for so many blocks of a parked request, for a block of each that grows,
/// and for more each time that it was parked, so that this ends. Where nothing runs it has to do.
static bool has_room(const llm_scheduler* s, const llm_task* r, int64_t blocks) {
    const int64_t spare = s->options.parks_always ? 0 : r->end.parks;
    const int64_t needed = blocks + spare + llm_scheduler_count_growing(s, r->tenant);
    return s->running.count == 0 || needed <= llm_scheduler_room_blocks(s);
}

/// Has others give way to a parked request until what it had fits, if they owe it that.
static bool make_way(llm_scheduler* s, const llm_task* r) {
    const int64_t wanted = llm_scheduler_blocks_of(s, r->count);
    if (!llm_scheduler_is_owed(s, r->tenant, wanted)) return false;
    while (!has_room(s, r, wanted))
        if (!llm_scheduler_park_for(s, r->tenant, wanted)) return false;
    return true;
}

/// Brings a parked request back; false if it has to wait for room for all that it may come to need.
static bool bring_back(llm_scheduler* s, llm_task* r) {
    return (has_room(s, r, r->need_blocks) || make_way(s, r)) && resume(s, r);
}

void llm_scheduler_admit(llm_scheduler* s) {
    // each one that is taken up has a token to compute or ends, so this ends
    llm_task* r;
    while ((r = find_next(s)) != NULL) {
        if (r->sequence == NULL)
            take_up_one(s, r);
        else if (!bring_back(s, r))
            return; // nobody goes before it
    }
}
