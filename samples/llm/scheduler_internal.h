// SPDX-License-Identifier: Apache-2.0
// The structs of a scheduler, and what its files share: the queue and who is taken up
// (scheduler_admit.c), what a step computes (scheduler_batch.c), steps (scheduler_step.c), and
// requests from their coming to their end (scheduler.c).
#ifndef BERTH_SAMPLES_LLM_SCHEDULER_INTERNAL_H
#define BERTH_SAMPLES_LLM_SCHEDULER_INTERNAL_H

#include "model_step.h"
#include "scheduler.h"

/// A request that was taken.
typedef struct llm_task {
    uint64_t id;
    uint32_t tenant;
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
    berth_kv_sequence* sequence; ///< NULL while it waits
    uint64_t random_state;
    uint64_t drawn_state; ///< random_state once the token that was chosen is given
    bool is_cancelled;
    bool has_started;  ///< has been in a step
    bool has_advanced; ///< has been in a step since it was brought back
    bool is_suspect;   ///< was in a step that failed: goes alone
    int64_t refusals;  ///< steps in a row that were refused although it went alone
    llm_request_end end;
    float logprob;          ///< of the token that was chosen
    llm_token_logprob* top; ///< [top_count], its alternatives; behind the tokens
    unsigned char* key;     ///< [key_bytes], behind the alternatives and the bias
    int32_t tokens[];       ///< [prompt_count + max_tokens]
} llm_task;

/// Requests in the order of their ids, in an array that has room for `capacity`.
typedef struct llm_task_list {
    llm_task** items;
    size_t count;
    size_t capacity;
} llm_task_list;

/// What the requests of a tenant that are taken up have.
typedef struct llm_tenant {
    uint32_t id;
    int64_t running;
    int64_t blocks; ///< that they may come to need
} llm_tenant;

enum { LLM_ESTIMATE_SLOTS = 512 };

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
    llm_task_list queue;
    size_t queue_head;    ///< entries before it are gone
    size_t queue_held;    ///< entries from there on that their tenants' quotas hold back
    int64_t queued_bytes; ///< of host memory, of those that wait
    llm_task_list running;
    llm_task_list parked;
    llm_tenant* tenants; ///< [running and parked requests at most]
    size_t tenant_count;
    berth_kv_part* parts; ///< [max_running], of the step in the making
    llm_task** members;   ///< whose they are
    int32_t* chosen;      ///< [max_running], the next token of each part
    llm_sampler* sampler; ///< lends its room; NULL with token_of
    llm_free_room room;
    int64_t token_cap;          ///< most tokens of a step whose need is not known, after refusals
    uint64_t recent_step_bytes; ///< that steps needed of late
    bool gate_is_shut;          ///< a request that is taken up waits for room to begin
    double recompute_ns;        ///< of a token
    llm_estimate estimates[LLM_ESTIMATE_SLOTS];
    llm_scheduler_stats stats;
    llm_error error;
};

// scheduler_admit.c

/// Inserts by id; there is room.
void llm_task_list_insert(llm_task_list* list, llm_task* r);
void llm_task_list_remove(llm_task_list* list, const llm_task* r);
/// Makes room for one more.
BERTH_NODISCARD berth_status llm_task_list_reserve(llm_task_list* list, llm_error* error);

/// Requests that wait.
size_t llm_queue_count(const llm_scheduler* s);
/// Takes entry `at` (from the head) out.
llm_task* llm_queue_take(llm_scheduler* s, size_t at);

/// Asks what is free.
void llm_scheduler_query_room(llm_scheduler* s);
/// Blocks that could be had, those of evicted ones included, beside a step as they were of late.
int64_t llm_scheduler_room_blocks(const llm_scheduler* s);

/// Brings parked requests back for which there is room, the oldest first.
void llm_scheduler_bring_back(llm_scheduler* s);
/// Takes requests up that wait, while the next step has tokens left for them.
void llm_scheduler_take_up(llm_scheduler* s);
/// Parks the youngest running request; with `gently` one that has got further since it was brought
/// back. Never the oldest. False if there is none.
bool llm_scheduler_park_youngest(llm_scheduler* s, bool gently);
/// Gives back what a taken up request had of its tenant's quota.
void llm_scheduler_leave_tenant(llm_scheduler* s, const llm_task* r);

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

static inline int64_t llm_task_pending(const llm_task* r) { return r->count - r->fed; }

#endif // BERTH_SAMPLES_LLM_SCHEDULER_INTERNAL_H
