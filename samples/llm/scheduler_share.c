// SPDX-License-Identifier: Apache-2.0
// Who gives up blocks where they are short.
//
// A tenant's share is an equal part of all blocks that there are, among those that have requests.
// Where blocks for the next step lack, the youngest request of those tenants is parked that hold
// more than their share. Where a request waits for room, the tenant that holds most and was served
// more than the one that waits gives its youngest requests up for it,
//   - if it is left with twice what the other one has then: of a flood enough goes on;
//   - or if what the other one is to have is within its share, that request has got further by as
//     many tokens since it began or came back, and its tenant holds far more, or was served more by
//     what computing it again may cost: long requests take turns, but not too often.
// Whoever gave way is back after LLM_MOST_PASSED others at the latest, if none of its tenant runs.
// So each tenant's oldest request gets further whatever others do, and no two push each other out
// all the time.
#include "scheduler_internal.h"

enum {
    ENOUGH = 2,     // times what the other one has, of what is left
    FAR_MORE = 8,   // times what the other one has
    CHEAP_PART = 4, // what computing a token again costs, of what one of an answer counts
};

/// Blocks that parking the request gives to others.
static int64_t own_blocks(const llm_task* r) { return berth_kv_sequence_own_blocks(r->sequence); }

/// Counts what each tenant holds; returns the share of one.
static int64_t count_held(llm_scheduler* s) {
    const llm_tenants* all = &s->tenants;
    for (size_t i = 0; i < all->active_count; i++) {
        all->active[i]->held = 0;
        all->active[i]->youngest = NULL;
    }
    int64_t blocks = llm_scheduler_room_blocks(s);
    for (size_t i = 0; i < s->running.count; i++) {
        llm_task* r = s->running.items[i];
        const int64_t own = own_blocks(r);
        r->tenant->held += own;
        r->tenant->youngest = r; // so far: they come by age
        blocks += own;
    }
    return blocks / (int64_t)all->active_count;
}

/// Whether `a` gives up its youngest request rather than `b`: of those that hold more than `share`
/// the one with the youngest request, else the one that holds most.
static bool gives_before(const llm_tenant* a, const llm_tenant* b, int64_t share) {
    const bool is_above = a->held > share;
    if (is_above != (b->held > share)) return is_above;
    if (!is_above && a->held != b->held) return a->held > b->held;
    return a->youngest->turn > b->youngest->turn;
}

bool llm_scheduler_park_one(llm_scheduler* s, bool gently) {
    if (s->running.count < 2) return false;
    const int64_t share = count_held(s);
    const llm_tenant* giver = NULL;
    for (size_t i = 0; i < s->tenants.active_count; i++) {
        const llm_tenant* t = s->tenants.active[i];
        if (t->youngest == NULL || t->youngest == s->running.items[0]) continue;
        if (gently && !t->youngest->has_advanced) continue;
        if (giver == NULL || gives_before(t, giver, share)) giver = t;
    }
    return giver != NULL && llm_scheduler_park(s, giver->youngest);
}

/// Whether `giver` is to give up its youngest request, for `wanted` blocks that `to` wants.
static bool has_to_give(const llm_scheduler* s,
                        const llm_tenant* giver,
                        const llm_tenant* to,
                        int64_t wanted,
                        int64_t share) {
    const llm_task* r = giver->youngest;
    const int64_t after = to->held + wanted;
    const int64_t own = own_blocks(r);
    if ((giver->held - own) / ENOUGH >= after) return true;
    if (after > share || r->gained < after * s->layout.block_tokens) return false;
    const uint64_t lost = (uint64_t)(own * s->layout.block_tokens / CHEAP_PART);
    return giver->held / FAR_MORE >= after || giver->served - to->served > lost;
}

/// The tenant that is to give up a request, for `wanted` blocks that `to` wants; NULL if none is.
static const llm_tenant* find_giver(llm_scheduler* s, const llm_tenant* to, int64_t wanted) {
    if (s->tenants.active_count < 2) return NULL;
    const int64_t share = count_held(s);
    const llm_tenant* giver = NULL;
    for (size_t i = 0; i < s->tenants.active_count; i++) {
        const llm_tenant* t = s->tenants.active[i];
        if (t->youngest == NULL || !t->youngest->has_advanced) continue;
        if (t->held <= share || t->served <= to->served) continue;
        if (giver == NULL || t->held > giver->held) giver = t;
    }
    return giver != NULL && has_to_give(s, giver, to, wanted, share) ? giver : NULL;
}

bool llm_scheduler_is_owed(llm_scheduler* s, const llm_tenant* t, int64_t wanted) {
    return find_giver(s, t, wanted) != NULL;
}

bool llm_scheduler_park_for(llm_scheduler* s, const llm_tenant* t, int64_t wanted) {
    const llm_tenant* giver = find_giver(s, t, wanted);
    if (giver == NULL || !llm_scheduler_park(s, giver->youngest)) return false;
    s->stats.parks_share++;
    return true;
}
