// SPDX-License-Identifier: Apache-2.0
// What the next step computes: as much as fits beside the blocks that it adds.
#include "scheduler_internal.h"

#include <string.h>

enum { SHIFT_QUANTUM = 4 }; ///< sizes are rounded up to a 16th of their octave

// Estimates.

static int64_t round_size(int64_t size) {
    int shift = 63 - __builtin_clzll((uint64_t)size | 1) - SHIFT_QUANTUM;
    if (shift <= 0) return size;
    int64_t unit = (int64_t)1 << shift;
    return (size + unit - 1) & ~(unit - 1);
}

/// A bound for a step that Berth has not learned: what lives at once in a layer, and the logits.
static uint64_t guess_bytes(const llm_model* model, const llm_step_sizes* sizes) {
    const llm_model_params* m = &model->params;
    int64_t heads = m->heads * (m->key_dims + m->value_dims);
    int64_t kv = m->kv_heads * (m->key_dims + m->value_dims);
    int64_t row = 4 * m->width + 3 * m->ffn_width + 2 * heads + 2 * kv;
    int64_t values = sizes->tokens * row + sizes->sequences * (m->vocab_tokens + row);
    return (uint64_t)values * sizeof(float);
}

static llm_estimate* slot_of(llm_scheduler* s, llm_step_kind kind, const llm_step_sizes* sizes) {
    uint64_t mix = (uint64_t)sizes->tokens * 0x9e3779b97f4a7c15u;
    mix = (mix ^ (uint64_t)sizes->sequences) * 0x9e3779b97f4a7c15u;
    mix = (mix ^ (uint64_t)sizes->blocks ^ (uint64_t)kind) * 0x9e3779b97f4a7c15u;
    return &s->estimates[mix >> 55];
}

/// Bytes of whole granules.
static uint64_t in_granules(const llm_scheduler* s, uint64_t bytes) {
    uint64_t granule = s->layout.granule_bytes;
    return (bytes + granule - 1) / granule * granule;
}

/// Asks Berth what a step of rounded sizes needs. False if it does not know.
static bool ask_estimate(llm_scheduler* s,
                         llm_step_kind kind,
                         const llm_step_sizes* sizes,
                         uint64_t* out_bytes) {
    llm_step_shape shape;
    llm_step_shape_init(&shape, kind, sizes);
    berth_step_estimate_result result;
    berth_status status = berth_step_estimate(s->model->context, &shape.desc, &result);
    s->stats.estimates++;
    uint64_t bytes = guess_bytes(s->model, sizes);
    bool is_known = status == BERTH_OK && result.kind != BERTH_ESTIMATE_UNKNOWN;
    // what was merely seen so far may be less than what comes
    bool is_sure = is_known && result.kind != BERTH_ESTIMATE_OBSERVED;
    if (is_sure || (is_known && result.bytes > bytes)) bytes = result.bytes;
    *out_bytes = in_granules(s, bytes); // a frame: nothing outlives the step
    // in the pool values lie less densely, and kernels have scratch that the guess does not know
    if (!is_known) *out_bytes += s->layout.granule_bytes;
    return is_known;
}

uint64_t llm_scheduler_step_bytes(llm_scheduler* s,
                                  llm_step_kind kind,
                                  const llm_step_sizes* exact) {
    llm_step_sizes sizes = {
        round_size(exact->tokens), round_size(exact->sequences), round_size(exact->blocks)};
    llm_estimate* slot = slot_of(s, kind, &sizes);
    if (slot->sizes.tokens == sizes.tokens && slot->kind == kind &&
        slot->sizes.sequences == sizes.sequences && slot->sizes.blocks == sizes.blocks)
        return slot->bytes;
    llm_estimate asked = {.kind = kind, .sizes = sizes};
    if (ask_estimate(s, kind, &sizes, &asked.bytes)) *slot = asked;
    return asked.bytes;
}

void llm_scheduler_forget_estimates(llm_scheduler* s) {
    memset(s->estimates, 0, sizeof s->estimates);
}

// Plans.

static llm_step_kind kind_of(const llm_batch_plan* plan) {
    return plan->has_prompt ? LLM_STEP_PREFILL : LLM_STEP_DECODE;
}

/// Blocks that `count` more tokens of `r` take.
static int64_t growth_of(const llm_scheduler* s, const llm_task* r, int64_t count) {
    // whoever has been in a step has its last block for itself
    if (r->has_started && r->has_advanced)
        return llm_scheduler_blocks_of(s, r->fed + count) - llm_scheduler_blocks_of(s, r->fed);
    return berth_kv_sequence_growth(r->sequence, count);
}

/// The plan with `count` tokens of `r` more, which is not in it yet.
static llm_batch_plan with_part(const llm_scheduler* s,
                                const llm_batch_plan* plan,
                                const llm_task* r,
                                int64_t count) {
    llm_batch_plan more = *plan;
    more.parts++;
    more.sizes.sequences++;
    more.sizes.tokens += count;
    more.sizes.blocks += llm_scheduler_blocks_of(s, r->fed + count);
    more.growth += growth_of(s, r, count);
    more.has_prompt = more.has_prompt || count > 1;
    return more;
}

/// Puts the part into the plan.
static void add_part(llm_scheduler* s, llm_batch_plan* plan, llm_task* r, int64_t count) {
    s->parts[plan->parts] =
        (berth_kv_part){.sequence = r->sequence, .tokens = r->tokens + r->fed, .count = count};
    s->members[plan->parts] = r;
    *plan = with_part(s, plan, r, count);
}

/// Whether the blocks of a plan and `spare` more can be had.
static bool blocks_fit(const llm_scheduler* s, const llm_batch_plan* plan, int64_t spare) {
    const berth_kv_room* room = &s->room.blocks;
    int64_t wanted = plan->growth + spare;
    return wanted <= room->ready_blocks + room->cached_blocks + room->mappable_blocks;
}

/// Whether the step's own memory fits beside its blocks and `spare` more.
static bool fits(llm_scheduler* s, const llm_batch_plan* plan, int64_t spare) {
    if (plan->parts == 0) return true;
    if (!blocks_fit(s, plan, spare)) return false;
    const berth_kv_room* room = &s->room.blocks;
    // in the order in which the cache takes them: free ones, memory of the device, cached ones
    int64_t rest = plan->growth + spare - room->ready_blocks;
    int64_t mapped = rest < 0 ? 0 : rest;
    if (mapped > room->mappable_blocks) mapped = room->mappable_blocks;
    int64_t evicted = rest > mapped ? rest - mapped : 0;
    uint64_t left = (uint64_t)(room->cached_blocks - evicted) * s->layout.block_bytes;
    uint64_t need = llm_scheduler_step_bytes(s, kind_of(plan), &plan->sizes);
    return in_granules(s, (uint64_t)mapped * s->layout.block_bytes) + need <= s->room.bytes + left;
}

/// One token of each request that answers, the oldest first.
static void plan_answers(llm_scheduler* s, llm_batch_plan* plan) {
    *plan = (llm_batch_plan){0};
    for (size_t i = 0; i < s->running.count; i++) {
        llm_task* r = s->running.items[i];
        if (llm_task_pending(r) == 1 && r->has_started) add_part(s, plan, r, 1);
    }
}

/// Takes the youngest out until the rest fits; the oldest stays. What was added up is added anew.
static void drop_youngest(llm_scheduler* s, llm_batch_plan* plan) {
    while (plan->parts > 1 && !fits(s, plan, 0)) {
        size_t parts = plan->parts - 1;
        *plan = (llm_batch_plan){0};
        for (size_t i = 0; i < parts; i++)
            add_part(s, plan, s->members[i], 1);
    }
}

/// The most tokens of `r`, up to `limit`, that fit beside the plan and `spare` blocks; 0 if none.
static int64_t largest_piece(
    llm_scheduler* s, const llm_batch_plan* plan, const llm_task* r, int64_t limit, int64_t spare) {
    llm_batch_plan more = with_part(s, plan, r, limit);
    if (fits(s, &more, spare)) return limit;
    s->stats.shrunk_steps++;
    int64_t low = 0;
    int64_t high = limit;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        more = with_part(s, plan, r, middle);
        if (fits(s, &more, spare))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/// Whether a request may begin: with room for its whole prompt, a block of it, and those that grow.
static bool may_begin(const llm_scheduler* s, const llm_batch_plan* plan, const llm_task* r) {
    if (s->running.count == 1) return true;
    int64_t growth = growth_of(s, r, llm_task_pending(r)) + 1;
    return plan->growth + growth + llm_scheduler_count_growing(s, r->tenant) <=
           llm_scheduler_room_blocks(s);
}

/// Whether the request has to wait for room to begin.
static bool is_held_at_gate(llm_scheduler* s, const llm_batch_plan* plan, const llm_task* r) {
    if (r->has_started) return false;
    if (llm_tenant_is_held(s, r->tenant)) return true;
    if (may_begin(s, plan, r)) return false;
    s->gate = r->tenant;
    return true;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/// Fills what is left of the step with pieces of prompts, the oldest first, of each tenant as much
/// as it is allotted.
static void plan_prompts(llm_scheduler* s, llm_batch_plan* plan) {
    const int64_t budget = least(s->options.step_tokens, s->token_cap);
    const int64_t answers = (int64_t)plan->parts;
    llm_tenants_allot(s, budget - plan->sizes.tokens);
    for (size_t i = 0; i < s->running.count && plan->sizes.tokens < budget; i++) {
        llm_task* r = s->running.items[i];
        if (llm_task_prompt_pending(r) == 0) continue;
        const bool is_oldest = i == 0;
        r->is_gated = !is_oldest && is_held_at_gate(s, plan, r);
        int64_t limit = least(budget - plan->sizes.tokens, r->tenant->allotted);
        limit = least(limit, llm_task_pending(r));
        if (r->is_gated || limit <= 0) continue;
        // those that answer go on in the next step, too
        int64_t piece = largest_piece(s, plan, r, limit, is_oldest ? 0 : answers);
        if (piece == 0) return;
        r->tenant->allotted -= piece;
        add_part(s, plan, r, piece);
    }
}

/// The suspect request that goes alone; NULL if there is none.
static llm_task* find_suspect(const llm_scheduler* s) {
    for (size_t i = 0; i < s->running.count; i++)
        if (s->running.items[i]->is_suspect) return s->running.items[i];
    return NULL;
}

static void plan_alone(llm_scheduler* s, llm_batch_plan* plan, llm_task* r, int64_t most) {
    *plan = (llm_batch_plan){0};
    int64_t limit = llm_task_pending(r) < most ? llm_task_pending(r) : most;
    int64_t piece = largest_piece(s, plan, r, limit, 0);
    if (piece == 0) piece = limit < LLM_LEAST_PIECE ? limit : LLM_LEAST_PIECE;
    add_part(s, plan, r, piece);
}

void llm_scheduler_plan_oldest(llm_scheduler* s, llm_batch_plan* plan) {
    plan_alone(s, plan, s->running.items[0], LLM_LEAST_PIECE);
}

bool llm_scheduler_drop_prompts(llm_scheduler* s, llm_batch_plan* plan) {
    if (!plan->has_prompt) return false;
    plan_answers(s, plan);
    return plan->parts > 0;
}

/// Makes room by parking until a step for the oldest request fits, or it is the only one left.
static void make_room_for_oldest(llm_scheduler* s) {
    llm_task* r = s->running.items[0];
    for (;;) {
        llm_batch_plan plan = {0};
        plan = with_part(s, &plan, r, 1);
        if (fits(s, &plan, 0) || !llm_scheduler_park_one(s, false)) return;
    }
}

/// Makes room for those that answer, and for a block of the oldest if it does not yet.
static void make_room(llm_scheduler* s, llm_batch_plan* plan) {
    int64_t spare = llm_task_pending(s->running.items[0]) > 1 ? 1 : 0;
    while (!blocks_fit(s, plan, spare) && llm_scheduler_park_one(s, true))
        plan_answers(s, plan);
    drop_youngest(s, plan);
}

/// The first request that has not begun of the tenant that was served least; NULL if there is none.
static llm_task* find_newcomer(const llm_scheduler* s) {
    llm_task* first = NULL;
    for (size_t i = 1; i < s->running.count; i++) { // the oldest needs no room
        llm_task* r = s->running.items[i];
        if (r->has_started) continue;
        if (first == NULL || r->tenant->served < first->tenant->served) first = r;
    }
    return first;
}

/// Has others give way to the request that is to begin next, where there is no room for it and they
/// owe it some.
static void make_way(llm_scheduler* s, llm_batch_plan* plan) {
    llm_task* r = find_newcomer(s);
    if (r == NULL) return;
    const int64_t wanted = growth_of(s, r, llm_task_pending(r));
    while (!may_begin(s, plan, r) && llm_scheduler_park_for(s, r->tenant, wanted)) {
        plan_answers(s, plan);
        drop_youngest(s, plan);
        r->is_gated = false; // so that it has a part of this step
    }
}

static bool has_member(const llm_scheduler* s, const llm_batch_plan* plan, const llm_task* r) {
    for (size_t i = 0; i < plan->parts; i++)
        if (s->members[i] == r) return true;
    return false;
}

void llm_scheduler_plan(llm_scheduler* s, llm_batch_plan* plan) {
    s->gate = NULL;
    llm_task* suspect = find_suspect(s);
    if (suspect != NULL) {
        plan_alone(s, plan, suspect, s->options.step_tokens);
        return;
    }
    plan_answers(s, plan);
    if (!fits(s, plan, 1)) make_room(s, plan);
    make_way(s, plan);
    plan_prompts(s, plan);
    if (fits(s, plan, 0) && has_member(s, plan, s->running.items[0])) return;
    make_room_for_oldest(s);
    plan_alone(s, plan, s->running.items[0], s->options.step_tokens);
}
