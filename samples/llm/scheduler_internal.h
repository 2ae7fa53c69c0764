// SPDX-License-Identifier: Apache-2.0
// The structs of a scheduler, and what its files share: tenants and what of them waits
// (scheduler_tenants.c), who is taken up (scheduler_admit.c), who gives blocks up to whom
// (scheduler_share.c), what a step computes (scheduler_batch.c), steps (scheduler_step.c), and
// requests from their coming to their end (scheduler.c).
#ifndef BERTH_SAMPLES_LLM_SCHEDULER_INTERNAL_H
#define BERTH_SAMPLES_LLM_SCHEDULER_INTERNAL_H

#include "model_step.h"
#include "scheduler.h"

/// A request that was taken.
typedef struct llm_task {
    uint64_t id;
    uint64_t turn;             ///< counts those that were taken up: the less, the older
    struct llm_tenant* tenant; ///< NULL of one that is refused or withdrawn
    struct llm_task* before;   ///< neighbours while it waits
    struct llm_task* after;
    llm_sampler_options sampling;
    size_t key_bytes;
    int64_t own_bytes; ///< of host memory, tokens and key included
    bool is_private;
    bool ignores_stop;
    bool wants_logprobs;
    size_t top_count; ///< alternatives of each token that are told
    llm_token_callback on_token;
    llm_end_callback on_end;
    void* user;
    int64_t prompt_count;
    int64_t max_tokens;
    int64_t need_blocks;         ///< that all its tokens come to need
    int64_t count;               ///< of tokens, prompt and answer
    int64_t fed;                 ///< of them, in the sequence
    int64_t most_fed;            ///< the most that ever were
    int64_t gained;              ///< computed for the first time since it began or came back
    int64_t passed;              ///< requests that were taken up instead of bringing it back
    berth_kv_sequence* sequence; ///< NULL while it waits
    uint64_t random_state;
    uint64_t drawn_state; ///< random_state once the token that was chosen is given
    bool is_cancelled;
    bool has_started;  ///< has been in a step
    bool has_advanced; ///< has been in a step since it was brought back, or never
    bool is_gated;     ///< was taken up and found no room to begin
    bool is_suspect;   ///< was in a step that failed: goes alone
    int64_t refusals;  ///< steps in a row that were refused although it went alone
    llm_request_end end;
    float logprob;          ///< of the token that was chosen
    llm_token_logprob* top; ///< [top_count], its alternatives; behind the tokens
    unsigned char* key;     ///< [key_bytes], behind the alternatives and the bias
    int32_t tokens[];       ///< [prompt_count + max_tokens]
} llm_task;

/// Requests that are taken up, the oldest first, in an array that has room for all.
typedef struct llm_task_list {
    llm_task** items;
    size_t count;
} llm_task_list;

/// Requests that wait, first come first.
typedef struct llm_task_queue {
    llm_task* first;
    llm_task* last;
} llm_task_queue;

/// Whose requests are. Active: it has some; idle: it had.
typedef struct llm_tenant {
    uint32_t id;
    uint64_t served; ///< weighted tokens, or what it was lifted to
    llm_task_queue queue;
    int64_t queued;
    int64_t running;            ///< taken up, parked ones included
    int64_t parked;             ///< of them
    int64_t blocks;             ///< that those may come to need
    int64_t held;               ///< blocks that one of its requests alone has, as counted last
    llm_task* youngest;         ///< of its running requests, as counted last; NULL: none runs
    int64_t wanted;             ///< tokens of their prompts that are to be computed
    int64_t allotted;           ///< of them, for the step in the making
    uint64_t left_ns;           ///< when it became idle
    struct llm_tenant* earlier; ///< neighbours while it is idle
    struct llm_tenant* later;
} llm_tenant;

/// The tenants that are known.
typedef struct llm_tenants {
    llm_tenant** active; ///< [active_count], in no order
    size_t active_count;
    size_t active_capacity;
    llm_tenant* first_idle; ///< the longest so
    llm_tenant* last_idle;
    size_t idle_count;
    uint64_t floor; ///< least that an active one was served; it never falls
} llm_tenants;

enum {
    LLM_ESTIMATE_SLOTS = 512,
    LLM_LEAST_PIECE = 16, ///< tokens of a prompt that are worth a step, where they can be had
    LLM_MOST_PASSED = 16, ///< requests that may pass a parked one of a tenant of which none runs
};

/// What Berth said of a step's need.
typedef struct llm_estimate {
    llm_step_kind kind;
    llm_step_sizes sizes; ///< rounded up; T 0: an empty slot
    uint64_t bytes;
} llm_estimate;

/// What is free at one moment.
typedef struct llm_free_room {
    berth_kv_room blocks;
    uint64_t bytes; ///< for a step's memory and blocks together, without what cached blocks have
} llm_free_room;

/// Who of those that wait may be taken up.
typedef enum llm_taking {
    LLM_TAKE_NONE,      ///< parked ones are brought back
    LLM_TAKE_NEWCOMERS, ///< and those whose tenant has no prompt in the making taken up
    LLM_TAKE_ALL,
} llm_taking;

/// A step in the making.
typedef struct llm_batch_plan {
    size_t parts;
    llm_step_sizes sizes;
    int64_t growth;  ///< blocks
    bool has_prompt; ///< a part with more than one token
} llm_batch_plan;

struct llm_scheduler {
    const llm_model* model;
    llm_scheduler_options options;
    berth_kv_cache* cache;
    berth_kv_layout layout;
    uint64_t next_id;
    uint64_t most_bytes; ///< that blocks and a step together could ever have had, as seen so far
    bool is_stepping;    ///< in llm_scheduler_step
    bool is_ending;      ///< in llm_scheduler_destroy
    size_t cancelled;    ///< requests marked so
    uint64_t next_turn;
    llm_tenants tenants;
    size_t queued;            ///< requests that wait
    int64_t queued_bytes;     ///< of host memory, of those that wait
    llm_task_queue withdrawn; ///< cancelled while they waited, not yet ended
    llm_task_list running;    ///< [max_running]
    llm_task_list parked;     ///< [max_running]
    berth_kv_part* parts;     ///< [max_running], of the step in the making
    llm_task** members;       ///< whose they are
    int32_t* chosen;          ///< [max_running], the next token of each part
    llm_sampler* sampler;     ///< lends its room; NULL with token_of
    llm_free_room room;
    int64_t token_cap;          ///< most tokens of a step whose need is not known, after refusals
    uint64_t recent_step_bytes; ///< that steps needed of late
    const llm_tenant* gate; ///< of a request that was taken up and waits for room to begin; or NULL
    double recompute_ns;    ///< of a token
    llm_estimate estimates[LLM_ESTIMATE_SLOTS];
    llm_scheduler_stats stats;
    llm_error error;
};

// scheduler_tenants.c

/// The tenant of this number; NULL if it is not known.
llm_tenant* llm_tenant_find(const llm_scheduler* s, uint32_t id);
/// Puts a request of tenant `id` behind what of it waits.
/// Errors: BERTH_ERR_OUT_OF_MEMORY; then all is as before.
BERTH_NODISCARD berth_status llm_tenants_add(llm_scheduler* s,
                                             llm_task* r,
                                             uint32_t id,
                                             llm_error* error);
/// The request that is to be brought back or taken up next, wanted tokens being counted; NULL if
/// quotas, shares or the gate hold all back. A tenant's parked requests come before those of it
/// that wait.
llm_task* llm_tenants_next(const llm_scheduler* s, llm_taking taking);
/// Counts a request that waits as one that is taken up.
void llm_tenants_take(llm_scheduler* s, llm_task* r);
/// Whether a tenant's requests may not begin before one that waits for room does: they are of the
/// same one, or of one that was served more.
bool llm_tenant_is_held(const llm_scheduler* s, const llm_tenant* t);
/// Takes a request that waits out, to be ended with the next step.
void llm_tenants_withdraw(llm_scheduler* s, llm_task* r);
/// Takes the first one that was withdrawn; NULL if there is none.
llm_task* llm_tenants_pop_withdrawn(llm_scheduler* s);
/// Gives back what a taken up request had of its tenant's quota.
void llm_tenants_leave(llm_scheduler* s, llm_task* r);
/// The request of this number that waits or was withdrawn; NULL if there is none.
llm_task* llm_tenants_find_waiting(const llm_scheduler* s, uint64_t id);
/// Counts tokens of a prompt that were computed.
void llm_tenant_charge_prompt(llm_tenant* t, int64_t tokens);
/// Counts a token of an answer.
void llm_tenant_charge_answer(llm_tenant* t);
/// Adds up for each active tenant which tokens of prompts it wants computed; returns how many want
/// any.
size_t llm_tenants_count_wanted(llm_scheduler* s, bool with_gated);
/// Divides a step's tokens for prompts: who wants less than an equal part gets it, the others share
/// the rest; at least one token each.
void llm_tenants_allot(llm_scheduler* s, int64_t budget);
/// Frees the tables. No request is left.
void llm_tenants_fini(llm_scheduler* s);

// scheduler_admit.c

/// Inserts by age; there is room.
void llm_task_list_insert(llm_task_list* list, llm_task* r);
void llm_task_list_remove(llm_task_list* list, const llm_task* r);

/// Asks what is free.
void llm_scheduler_query_room(llm_scheduler* s);
/// Blocks that could be had, those of evicted ones included, beside a step as they were of late.
int64_t llm_scheduler_room_blocks(const llm_scheduler* s);
/// Blocks that are left to those that have begun when a request of `t` joins them: one each, and
/// for another tenant's all that its prompt, or what it computes again, still needs. Those that
/// wait for room to begin hold nothing that grows.
int64_t llm_scheduler_count_growing(const llm_scheduler* s, const llm_tenant* t);

/// Brings parked requests back for which there is room, and takes requests up that wait while the
/// next step has tokens left for them, those of the tenant that was served least first.
void llm_scheduler_admit(llm_scheduler* s);
/// Parks a running request; false if that failed.
bool llm_scheduler_park(llm_scheduler* s, llm_task* r);

// scheduler_share.c

/// Parks the youngest running request of the tenants that hold more than their share; with `gently`
/// one that has got further since it was brought back. Never the oldest of all. False if there is
/// none.
bool llm_scheduler_park_one(llm_scheduler* s, bool gently);
/// Whether another tenant is to give up a request, for `wanted` blocks that this one wants.
bool llm_scheduler_is_owed(llm_scheduler* s, const llm_tenant* t, int64_t wanted);
/// Has it do so, be it the oldest of all; false if there is none.
bool llm_scheduler_park_for(llm_scheduler* s, const llm_tenant* t, int64_t wanted);

// scheduler_batch.c

/// What Berth says a step needs, or a rough bound while it does not know, in granules.
uint64_t llm_scheduler_step_bytes(llm_scheduler* s,
                                  llm_step_kind kind,
                                  const llm_step_sizes* sizes);
/// Forgets what Berth has said.
void llm_scheduler_forget_estimates(llm_scheduler* s);
/// Chooses the largest step that fits into what is free, parking where even the oldest request
/// cannot go on.
void llm_scheduler_plan(llm_scheduler* s, llm_batch_plan* plan);
/// The part of the oldest request alone, as small as it gets.
void llm_scheduler_plan_oldest(llm_scheduler* s, llm_batch_plan* plan);
/// Takes the parts of prompts out of a plan; false if nothing is left or nothing was to be taken.
bool llm_scheduler_drop_prompts(llm_scheduler* s, llm_batch_plan* plan);

// scheduler.c

/// Ends a running request. The text may be the scheduler's own.
void llm_scheduler_end_running(
    llm_scheduler* s, llm_task* r, llm_end_reason reason, berth_status status, const char* text);
/// Ends all requests that are marked as cancelled, or all there are.
void llm_scheduler_end_cancelled(llm_scheduler* s, bool all);

/// Blocks that so many tokens take.
static inline int64_t llm_scheduler_blocks_of(const llm_scheduler* s, int64_t tokens) {
    return (tokens + s->layout.block_tokens - 1) / s->layout.block_tokens;
}

/// Whether a parked request was passed often enough.
static inline bool llm_task_is_due(const llm_task* r) { return r->passed >= LLM_MOST_PASSED; }

/// Tokens that are to be computed.
static inline int64_t llm_task_pending(const llm_task* r) { return r->count - r->fed; }

/// The same of one that does not answer yet, or has to compute its answer again; else 0.
static inline int64_t llm_task_prompt_pending(const llm_task* r) {
    const int64_t pending = llm_task_pending(r);
    return pending == 1 && r->has_started ? 0 : pending;
}

#endif // BERTH_SAMPLES_LLM_SCHEDULER_INTERNAL_H
