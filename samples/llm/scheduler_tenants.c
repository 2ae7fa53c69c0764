// SPDX-License-Identifier: Apache-2.0
// Whose turn it is: the tenants that are known, what each has been served, and what of each waits.
//
// Source: the virtual token counter of Sheng et al. 2024, "Fairness in Serving Large Language
// Models", OSDI: what was served is counted per tenant in weighted tokens, whoever has had the
// least comes next, and whoever comes back is lifted to the least of those that are there, so that
// nobody saves up by staying away. As prompts are computed in pieces, they count as they are
// computed, and what is taken up and to be computed counts beside it when the next one is chosen.
#include "scheduler_internal.h"

enum {
    ANSWER_WEIGHT = 2, // what a token of an answer counts, beside one of a prompt that is computed
    MOST_IDLE = 1024,  // tenants that have no requests and are still known
};

/// Time for which a tenant that has no requests any more counts as one that was seen lately.
#define LATELY_NS UINT64_C(60000000000)

// Requests that wait.

static void queue_push(llm_task_queue* queue, llm_task* r) {
    r->before = queue->last;
    r->after = NULL;
    if (queue->last != NULL)
        queue->last->after = r;
    else
        queue->first = r;
    queue->last = r;
}

static void queue_remove(llm_task_queue* queue, llm_task* r) {
    if (r->before != NULL)
        r->before->after = r->after;
    else
        queue->first = r->after;
    if (r->after != NULL)
        r->after->before = r->before;
    else
        queue->last = r->before;
    r->before = r->after = NULL;
}

// Tenants that are known.

llm_tenant* llm_tenant_find(const llm_scheduler* s, uint32_t id) {
    const llm_tenants* all = &s->tenants;
    for (size_t i = 0; i < all->active_count; i++)
        if (all->active[i]->id == id) return all->active[i];
    for (llm_tenant* t = all->first_idle; t != NULL; t = t->later)
        if (t->id == id) return t;
    return NULL;
}

static bool is_active(const llm_tenant* t) { return t->queued + t->running > 0; }

static void add_idle(llm_tenants* all, llm_tenant* t) {
    t->earlier = all->last_idle;
    t->later = NULL;
    if (all->last_idle != NULL)
        all->last_idle->later = t;
    else
        all->first_idle = t;
    all->last_idle = t;
    all->idle_count++;
}

static void remove_idle(llm_tenants* all, llm_tenant* t) {
    if (t->earlier != NULL)
        t->earlier->later = t->later;
    else
        all->first_idle = t->later;
    if (t->later != NULL)
        t->later->earlier = t->earlier;
    else
        all->last_idle = t->earlier;
    t->earlier = t->later = NULL;
    all->idle_count--;
}

/// Brings the floor up to the least that an active tenant was served; it never falls.
static void raise_floor(llm_tenants* all) {
    if (all->active_count == 0) return;
    uint64_t least = all->active[0]->served;
    for (size_t i = 1; i < all->active_count; i++)
        if (all->active[i]->served < least) least = all->active[i]->served;
    if (all->floor < least) all->floor = least;
}

static bool was_seen_lately(const llm_scheduler* s, const llm_tenant* t) {
    const uint64_t now = s->options.now(s->options.user);
    return now < t->left_ns || now - t->left_ns < LATELY_NS;
}

/// Forgets who has been away for long and would come back at the floor, and the longest away where
/// too many are known.
static void forget_idle(llm_scheduler* s) {
    llm_tenants* all = &s->tenants;
    while (all->first_idle != NULL) {
        llm_tenant* t = all->first_idle;
        const bool is_done = t->served <= all->floor && !was_seen_lately(s, t);
        if (!is_done && all->idle_count <= MOST_IDLE) return;
        remove_idle(all, t);
        llm_free(t);
    }
}

/// Makes room for one more active tenant.
static berth_status reserve_active(llm_tenants* all, llm_error* error) {
    if (all->active_count < all->active_capacity) return BERTH_OK;
    const size_t capacity = all->active_capacity == 0 ? 16 : all->active_capacity * 2;
    llm_tenant** active = llm_realloc(all->active, capacity, sizeof *active);
    if (active == NULL) return llm_fail_memory(error, "a list of tenants");
    all->active = active;
    all->active_capacity = capacity;
    return BERTH_OK;
}

/// Makes a tenant active that is new or idle; there is room for it.
static void activate(llm_tenants* all, llm_tenant* t) {
    raise_floor(all);
    if (t->served < all->floor) t->served = all->floor;
    t->wanted = 0;
    all->active[all->active_count++] = t;
}

/// After something of a tenant went: it is idle if that was the last.
static void settle(llm_scheduler* s, llm_tenant* t) {
    llm_tenants* all = &s->tenants;
    if (is_active(t)) return;
    raise_floor(all); // with this one: where nobody is left it is the one to be met
    size_t at = 0;
    while (all->active[at] != t)
        at++;
    all->active[at] = all->active[--all->active_count];
    if (s->gate == t) s->gate = NULL;
    t->left_ns = s->options.now(s->options.user);
    add_idle(all, t);
    forget_idle(s);
}

berth_status llm_tenants_add(llm_scheduler* s, llm_task* r, uint32_t id, llm_error* error) {
    llm_tenants* all = &s->tenants;
    llm_tenant* t = llm_tenant_find(s, id);
    if (t == NULL || !is_active(t)) {
        berth_status status = reserve_active(all, error);
        if (status != BERTH_OK) return status;
    }
    if (t == NULL) {
        t = llm_alloc_zeroed(1, sizeof *t);
        if (t == NULL) return llm_fail_memory(error, "a tenant");
        t->id = id;
        activate(all, t);
    } else if (!is_active(t)) {
        remove_idle(all, t);
        activate(all, t);
    }
    r->tenant = t;
    queue_push(&t->queue, r);
    t->queued++;
    s->queued++;
    s->queued_bytes += r->own_bytes;
    return BERTH_OK;
}

/// Takes a request out of what waits.
static void dequeue(llm_scheduler* s, llm_task* r) {
    queue_remove(&r->tenant->queue, r);
    r->tenant->queued--;
    s->queued--;
    s->queued_bytes -= r->own_bytes;
}

void llm_tenants_take(llm_scheduler* s, llm_task* r) {
    dequeue(s, r);
    r->tenant->running++;
    r->tenant->blocks += r->need_blocks;
}

void llm_tenants_withdraw(llm_scheduler* s, llm_task* r) {
    llm_tenant* t = r->tenant;
    dequeue(s, r);
    queue_push(&s->withdrawn, r);
    r->tenant = NULL;
    settle(s, t);
}

llm_task* llm_tenants_pop_withdrawn(llm_scheduler* s) {
    llm_task* r = s->withdrawn.first;
    if (r != NULL) queue_remove(&s->withdrawn, r);
    return r;
}

void llm_tenants_leave(llm_scheduler* s, llm_task* r) {
    llm_tenant* t = r->tenant;
    t->running--;
    t->blocks -= r->need_blocks;
    r->tenant = NULL;
    settle(s, t);
}

void llm_tenants_fini(llm_scheduler* s) {
    llm_tenants* all = &s->tenants;
    while (all->first_idle != NULL) {
        llm_tenant* t = all->first_idle;
        remove_idle(all, t);
        llm_free(t);
    }
    llm_free(all->active);
}

llm_task* llm_tenants_find_waiting(const llm_scheduler* s, uint64_t id) {
    for (size_t i = 0; i < s->tenants.active_count; i++)
        for (llm_task* r = s->tenants.active[i]->queue.first; r != NULL; r = r->after)
            if (r->id == id) return r;
    for (llm_task* r = s->withdrawn.first; r != NULL; r = r->after)
        if (r->id == id) return r;
    return NULL;
}

// What was served.

void llm_tenant_charge_prompt(llm_tenant* t, int64_t tokens) { t->served += (uint64_t)tokens; }

void llm_tenant_charge_answer(llm_tenant* t) { t->served += ANSWER_WEIGHT; }

// Whose turn it is.

/// The most requests of one tenant that are taken up at a time while there are others.
static int64_t share_of_running(const llm_scheduler* s) {
    const int64_t share = s->options.max_running * s->options.tenant_share_percent / 100;
    return share > 1 ? share : 1;
}

/// Whether an active tenant has to leave something for others: they are there, or were lately.
static bool has_to_share(const llm_scheduler* s) {
    const llm_tenants* all = &s->tenants;
    if (s->options.tenant_share_percent == 0) return false;
    return all->active_count > 1 || (all->last_idle != NULL && was_seen_lately(s, all->last_idle));
}

/// Whether the tenant may have one more request taken up, which comes to need `blocks`.
static bool has_room(const llm_scheduler* s, const llm_tenant* t, int64_t blocks, bool shares) {
    const llm_scheduler_options* o = &s->options;
    return (o->tenant_running == 0 || t->running < o->tenant_running) &&
           (o->tenant_blocks == 0 || blocks <= o->tenant_blocks - t->blocks) &&
           (!shares || t->running < share_of_running(s));
}

/// What the tenant will have been served when the prompts in the making are computed.
static uint64_t promised(const llm_tenant* t) { return t->served + (uint64_t)t->wanted; }

/// Whether `a` goes before `b` of another tenant: what was passed often, then the one with less
/// served, then what is parked, then the one with fewer taken up, then first come.
static bool goes_before(const llm_task* a, const llm_task* b) {
    const llm_tenant* of_a = a->tenant;
    const llm_tenant* of_b = b->tenant;
    if (llm_task_is_due(a) != llm_task_is_due(b)) return llm_task_is_due(a);
    if (promised(of_a) != promised(of_b)) return promised(of_a) < promised(of_b);
    const bool is_parked = of_a->parked > 0;
    if (is_parked != (of_b->parked > 0)) return is_parked;
    if (of_a->running != of_b->running) return of_a->running < of_b->running;
    return a->id < b->id;
}

/// Whether a request of a tenant that was served less is at the gate.
static bool is_behind_gate(const llm_scheduler* s, const llm_tenant* t) {
    return s->gate != NULL && t->served > s->gate->served;
}

bool llm_tenant_is_held(const llm_scheduler* s, const llm_tenant* t) {
    return t == s->gate || is_behind_gate(s, t);
}

static llm_task* oldest_parked(const llm_scheduler* s, const llm_tenant* t) {
    size_t at = 0;
    while (s->parked.items[at]->tenant != t)
        at++;
    return s->parked.items[at];
}

/// The tenant's next request; NULL if it has none or has to wait.
static llm_task* next_of(const llm_scheduler* s,
                         const llm_tenant* t,
                         llm_taking taking,
                         bool shares) {
    if (t->parked > 0) {
        llm_task* r = oldest_parked(s, t);
        return is_behind_gate(s, t) && !llm_task_is_due(r) ? NULL : r;
    }
    llm_task* r = t->queue.first;
    if (r == NULL || taking == LLM_TAKE_NONE) return NULL;
    if (taking == LLM_TAKE_NEWCOMERS && t->wanted > 0) return NULL;
    if (llm_tenant_is_held(s, t)) return NULL;
    return has_room(s, t, r->need_blocks, shares) ? r : NULL;
}

llm_task* llm_tenants_next(const llm_scheduler* s, llm_taking taking) {
    const bool shares = has_to_share(s);
    llm_task* best = NULL;
    for (size_t i = 0; i < s->tenants.active_count; i++) {
        llm_task* r = next_of(s, s->tenants.active[i], taking, shares);
        if (r != NULL && (best == NULL || goes_before(r, best))) best = r;
    }
    return best;
}

// Tokens of prompts.

size_t llm_tenants_count_wanted(llm_scheduler* s, bool with_gated) {
    for (size_t i = 0; i < s->tenants.active_count; i++)
        s->tenants.active[i]->wanted = 0;
    size_t tenants = 0;
    for (size_t i = 0; i < s->running.count; i++) {
        const llm_task* r = s->running.items[i];
        const bool is_gated = i > 0 && r->is_gated; // the oldest always goes on
        const int64_t tokens = is_gated && !with_gated ? 0 : llm_task_prompt_pending(r);
        if (tokens > 0 && r->tenant->wanted == 0) tenants++;
        r->tenant->wanted += tokens;
    }
    return tenants;
}

/// Allots what they want to those that want at most `level`; returns how many did.
static size_t allot_small(llm_scheduler* s, int64_t level, int64_t* left) {
    size_t settled = 0;
    for (size_t i = 0; i < s->tenants.active_count; i++) {
        llm_tenant* t = s->tenants.active[i];
        if (t->wanted == 0 || t->allotted > 0 || t->wanted > level) continue;
        t->allotted = t->wanted;
        *left -= t->wanted;
        settled++;
    }
    return settled;
}

void llm_tenants_allot(llm_scheduler* s, int64_t budget) {
    for (size_t i = 0; i < s->tenants.active_count; i++)
        s->tenants.active[i]->allotted = 0;
    size_t open = llm_tenants_count_wanted(s, false);
    int64_t left = budget;
    for (size_t settled = 1; open > 0 && settled > 0; open -= settled)
        settled = allot_small(s, left / (int64_t)open, &left);
    if (open == 0) { // what waited for room gets what nobody else wants
        for (size_t i = 0; i < s->running.count; i++)
            if (s->running.items[i]->is_gated) s->running.items[i]->tenant->allotted += left;
        return;
    }
    const int64_t level = left > (int64_t)open ? left / (int64_t)open : 1;
    for (size_t i = 0; i < s->tenants.active_count; i++) {
        llm_tenant* t = s->tenants.active[i];
        if (t->wanted > 0 && t->allotted == 0) t->allotted = level;
    }
}
