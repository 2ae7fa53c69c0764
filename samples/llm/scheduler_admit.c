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

int64_t llm_scheduler_count_growing(const llm_scheduler* s) {
    int64_t count = 0;
    for (size_t i = 0; i < s->running.count; i++)
        count += s->running.items[i]->has_started;
    return count;
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

/// Takes one request up. Its prompt's tokens are looked up now and not before, when others may have
/// computed them.
static void take_up_one(llm_scheduler* s, llm_task* r) {
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

/// The request to be taken up next; NULL if none is to be. One that finds the next step full may
/// still come if its tenant has no prompt in it, as steps divide their tokens among tenants, while
/// each gets a piece that is worth it.
static llm_task* find_next(llm_scheduler* s) {
    const size_t tenants = llm_tenants_count_wanted(s, true);
    const bool is_full = count_pending(s) >= s->options.step_tokens;
    const size_t most = (size_t)(s->options.step_tokens / LLM_LEAST_PIECE);
    return is_full && tenants >= most ? NULL : llm_tenants_next(s, is_full);
}

void llm_scheduler_take_up(llm_scheduler* s) {
    // each one that is taken up has a token to compute or ends, so this ends
    while (s->queued > 0 && s->parked.count == 0 &&
           (int64_t)s->running.count < s->options.max_running) {
        llm_task* r = find_next(s);
        if (r == NULL) return;
        take_up_one(s, r);
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
        // room for all that it may come to need, for a block of each that grows, and for more each
        // time that it was parked, so that this ends
        int64_t needed = r->need_blocks + llm_scheduler_count_growing(s);
        if (!s->options.parks_always) needed += r->end.parks;
        if (s->running.count > 0 && needed > llm_scheduler_room_blocks(s)) return;
        bring_back_one(s, r);
        llm_scheduler_query_room(s);
    }
}
