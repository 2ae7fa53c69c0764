// SPDX-License-Identifier: Apache-2.0
// Serving many requests at once: which tokens of which requests the next step computes.
//
// Continuous batching: every step takes one token of each request that is answering, oldest first,
// and fills what is left of its budget with pieces of prompts. A step is as large as what Berth
// says fits beside the keys and values that it adds. When room is short requests wait in the queue,
// then cached blocks are evicted, then the youngest request is parked; the oldest of those that run
// always goes on. A request is older than those that were taken up after it.
//
// Tenants are served fairly: what waits is taken up, and what is parked brought back, for the
// tenant that was served the fewest tokens, first come first served within each, and a step's
// tokens for prompts are divided among the tenants that have some. Blocks are shared fairly: the
// youngest request is one of a tenant that holds more than its share of them, and such a tenant
// gives way to one that was served less (scheduler_share.c). So the first token of a short prompt
// does not wait for the long prompts and answers of others, nor for how many of them there are.
//
//   SC1: a request that was taken ends once: on_end is called exactly once, with one reason.
//   SC2: of one tenant's requests every parked one is younger than every running one.
//   SC3: a request that is parked again has been in a step since it was last brought back, unless
//        it has not begun, or the oldest could not have gone on.
//   SC4: the tokens of a request do not depend on the others, on parking or on reuse.
#ifndef BERTH_SAMPLES_LLM_SCHEDULER_H
#define BERTH_SAMPLES_LLM_SCHEDULER_H

#include "logprobs.h"
#include "model.h"
#include "sampler.h"
#include "tokenizer.h"

// clang-format off
/// Why a request ended: X(ID, word in reports, help).
#define LLM_END_MAP(X)                                                                             \
    X(LIMIT,              "limit",              "max_tokens were made")                            \
    X(STOP_TOKEN,         "stop_token",         "the model ended its answer")                      \
    X(CANCELLED,          "cancelled",          "llm_scheduler_cancel, or the scheduler ended")    \
    X(CALLER,             "caller",             "on_token returned false")                         \
    X(REFUSED_TOO_LARGE,  "refused_too_large",  "needs more than it can ever get")                 \
    X(REFUSED_QUOTA,      "refused_quota",      "is more than a tenant may have")                  \
    X(REFUSED_QUEUE_FULL, "refused_queue_full", "as many requests wait as may")                    \
    X(FAILED,             "failed",             "an error that is this request's")
// clang-format on

/// Why a request ended.
typedef enum llm_end_reason {
#define LLM_END_ENUM(id, word, help) LLM_END_##id, ///< help
    LLM_END_MAP(LLM_END_ENUM)
#undef LLM_END_ENUM
        LLM_END_COUNT, ///< number of reasons
} llm_end_reason;

/// The word for a reason, such as "stop_token"; "unknown" for what is none.
const char* llm_end_text(llm_end_reason reason);

/// What became of a request. Times are of the scheduler's clock; 0: it did not come to that.
typedef struct llm_request_end {
    llm_end_reason reason;
    berth_status status;       ///< of FAILED and of refusals; else BERTH_OK
    const char* text;          ///< a sentence about it, "" for none; for this call
    int64_t prompt_tokens;     ///< asked
    int64_t cached_tokens;     ///< of them, found in the cache when it was first taken up
    int64_t answer_tokens;     ///< given to on_token
    int64_t recomputed_tokens; ///< computed more than once, because it was parked
    int64_t parks;             ///< times it was parked
    uint64_t submit_ns;        ///< when it came
    uint64_t admit_ns;         ///< when it left the queue
    uint64_t first_token_ns;   ///< when its first token was chosen
    uint64_t end_ns;           ///< now
} llm_request_end;

/// A token of an answer.
typedef struct llm_answer_token {
    int32_t id;
    bool has_logprobs;            ///< the request wanted them, and there were logits
    float logprob;                ///< of the token; 0 without
    const llm_token_logprob* top; ///< [top_count], likeliest first; borrowed for the call
    size_t top_count;             ///< as many as the request wanted, of the vocabulary's at most
} llm_answer_token;

/// Gets each token of an answer as it is chosen; false ends the answer after it.
typedef bool (*llm_token_callback)(void* user, uint64_t id, const llm_answer_token* token);

/// Hears once how a request ended; the id is 0 for one that was refused when it came.
typedef void (*llm_end_callback)(void* user, uint64_t id, const llm_request_end* end);

/// A request. Callbacks run within submit, step and destroy; they may submit and cancel.
typedef struct llm_request {
    uint32_t tenant;              ///< whose it is: for quotas, eviction and statistics
    const int32_t* prompt;        ///< [prompt_count] of the vocabulary; copied
    int64_t prompt_count;         ///< at least 1
    int64_t max_tokens;           ///< of the answer, at least 1
    llm_sampler_options sampling; ///< its bias is copied
    bool wants_logprobs;          ///< on_token is told log probabilities, as llm_logprobs() is
    int32_t top_logprobs;         ///< and those of so many likeliest tokens, 0 to 20
    const void* key;   ///< [key_bytes]: requests share blocks only if their keys are equal
    size_t key_bytes;  ///< 256 at most
    bool is_private;   ///< shares with nobody
    bool ignores_stop; ///< answers to max_tokens whatever the model says
    llm_token_callback on_token; ///< may be NULL
    llm_end_callback on_end;     ///< may be NULL
    void* user;                  ///< of both
} llm_request;

/// What one step computed.
typedef struct llm_step_summary {
    int64_t tokens;        ///< computed, of all requests
    int64_t prompt_tokens; ///< of them, beyond one a request
    int64_t sequences;     ///< requests that took part
    int64_t answers;       ///< tokens chosen
    int64_t key_tokens;    ///< keys read: the sum over tokens of what each attends to
    bool ran;              ///< there was a step
    bool is_idle;          ///< no request is left
} llm_step_summary;

/// How to schedule. All zero: the defaults.
typedef struct llm_scheduler_options {
    int64_t step_tokens;      ///< most tokens of a step; 0: 256
    int64_t max_running;      ///< most requests that are taken up at a time; 0: 64
    int64_t max_queued;       ///< most that wait; 0: 4,096
    int64_t max_queued_bytes; ///< most host memory of those that wait, but one may always wait; 0:
                              ///< 2 MiB
    int64_t context_tokens; ///< most tokens of prompt and answer; 0: what the model was trained for
    int64_t tenant_blocks;  ///< most blocks that the requests of one tenant that are taken up may
                            ///< come to need together; 0: no limit
    int64_t tenant_running; ///< most of one tenant's requests taken up at a time; 0: no limit
    int64_t tenant_queued;  ///< most of one tenant's that wait; 0: no limit
    /// Most of max_running, in per cent but at least one, that one tenant may have taken up while
    /// another one has requests, or had some in the last minute: so that it finds a place free. 0:
    /// no limit.
    int64_t tenant_share_percent;
    const llm_tokenizer* tokenizer; ///< whose stop tokens end an answer; NULL: none do; borrowed
    berth_kv_parking parking;       ///< how requests are parked
    /// Has the youngest request that may be parked parked before every step: for tests.
    bool parks_always;
    /// Time in nanoseconds; NULL: the system's monotonic clock.
    uint64_t (*now)(void* user);
    /// Called after each step that ran, before its tokens are given out: a simulation lets time go
    /// on. May be NULL.
    void (*after_step)(void* user, const llm_step_summary* step);
    /// Chooses token number `index` (from 0) of the answer of request `id` instead of the model's
    /// logits, which are not read then. May be NULL.
    int32_t (*token_of)(void* user, uint64_t id, int64_t index);
    void* user; ///< of the three
} llm_scheduler_options;

// clang-format off
/// Numbers of a scheduler: X(name, help). Exact, of the moment of the query; times are the
/// system's.
#define LLM_SCHEDULER_STATS_MAP(X)                                                                 \
    X(running,            "requests taken up")                                                     \
    X(queued,             "requests that wait")                                                    \
    X(parked,             "requests taken up and parked")                                          \
    X(submitted,          "requests so far, refused ones included")                                \
    X(finished,           "requests that ended with an answer")                                    \
    X(cancelled,          "requests that were cancelled")                                          \
    X(failed,             "requests that failed")                                                  \
    X(refused_too_large,  "requests refused: more than can ever be had")                           \
    X(refused_quota,      "requests refused: more than a tenant may have")                         \
    X(refused_queue_full, "requests refused: the queue was full")                                  \
    X(prompt_tokens,      "tokens of prompts taken up")                                            \
    X(cached_tokens,      "of them, found in the cache")                                           \
    X(decoded_tokens,     "tokens chosen")                                                         \
    X(computed_tokens,    "tokens that steps computed")                                            \
    X(recomputed_tokens,  "of them, computed before")                                              \
    X(parks_host,         "requests parked to host memory")                                        \
    X(parks_drop,         "requests parked by dropping")                                           \
    X(parks_share,        "of these two, so that another tenant had its share")                    \
    X(resumes,            "parked requests brought back")                                          \
    X(steps,              "steps that ran")                                                        \
    X(decode_steps,       "of them, with one token of each request")                               \
    X(batch_sum,          "sum over steps of their requests")                                      \
    X(batch_max,          "most requests of a step")                                               \
    X(shrunk_steps,       "steps made smaller because not all of it fitted")                       \
    X(step_refusals,      "steps that were refused and tried again smaller")                       \
    X(estimates,          "times that Berth was asked what a step needs")                          \
    X(scheduler_ns,       "time in the scheduler itself")                                          \
    X(kv_ns,              "time in beginning and ending batches of the cache")                     \
    X(step_ns,            "time in beginning and ending steps")                                    \
    X(given_ns,           "time in choosing tokens and in callbacks")                              \
    X(whole_ns,           "time of steps, all of the above and the model's ops")
// clang-format on

/// The numbers of LLM_SCHEDULER_STATS_MAP.
typedef struct llm_scheduler_stats {
#define LLM_SCHEDULER_STATS_FIELD(name, help) uint64_t name; ///< help
    LLM_SCHEDULER_STATS_MAP(LLM_SCHEDULER_STATS_FIELD)
#undef LLM_SCHEDULER_STATS_FIELD
} llm_scheduler_stats;

/// A scheduler over one model; with it, its cache, and its requests, from one thread at a time.
typedef struct llm_scheduler llm_scheduler;

/// Makes a scheduler with a cache of its own. `model` outlives it. `kv` is what
/// llm_model_kv_options() gives, with what is to be different changed.
/// Ownership: the caller gives `*out_scheduler` to llm_scheduler_destroy().
/// Errors:    BERTH_ERR_INVALID_ARGUMENT names the option; BERTH_ERR_OUT_OF_MEMORY; of
///            berth_kv_cache_create(). Then `*out_scheduler` is NULL.
BERTH_NODISCARD berth_status llm_scheduler_create(const llm_model* model,
                                                  const berth_kv_options* kv,
                                                  const llm_scheduler_options* options,
                                                  llm_scheduler** out_scheduler,
                                                  llm_error* error);

/// Ends every request as cancelled, and the scheduler; NULL is allowed. Not from a callback.
void llm_scheduler_destroy(llm_scheduler* scheduler);

/// Its cache, for its sizes and statistics; the scheduler's.
berth_kv_cache* llm_scheduler_cache(const llm_scheduler* scheduler);

/// Takes a request: it waits until a step takes it up. `*out_id` (may be NULL) is its number, from
/// 1. A refusal is no error: on_end hears of it, with both numbers in its text, before this
/// returns, and `*out_id` is 0.
/// Errors: BERTH_ERR_INVALID_ARGUMENT for a request that cannot be read, BERTH_ERR_OUT_OF_MEMORY
///         (host memory); then the request was not taken, and no callback is called.
BERTH_NODISCARD berth_status llm_scheduler_submit(llm_scheduler* scheduler,
                                                  const llm_request* request,
                                                  uint64_t* out_id,
                                                  llm_error* error);

/// Has request `id` ended with the next step; false if no such request is there.
bool llm_scheduler_cancel(llm_scheduler* scheduler, uint64_t id);

/// Runs one step: ends what was cancelled, brings back what was parked, takes up what waits,
/// computes, gives tokens out. What fails for one request ends that request, not this call.
/// `*out_summary` may be NULL. Without requests it does nothing.
/// Errors: BERTH_ERR_STATE within a callback; errors that leave the context unusable, such as
///         BERTH_ERR_FORKED. Requests are as before then.
BERTH_NODISCARD berth_status llm_scheduler_step(llm_scheduler* scheduler,
                                                llm_step_summary* out_summary,
                                                llm_error* error);

/// What fits in the memory that there is.
typedef struct llm_capacity {
    uint64_t step_bytes; ///< of the largest step, as far as that is known
    uint64_t kv_bytes;   ///< for keys and values beside it
    uint64_t kv_tokens;  ///< whose keys and values these are
} llm_capacity;

/// Tells what fits. The more steps have run, the better `step_bytes` is known.
void llm_scheduler_query_capacity(llm_scheduler* scheduler, llm_capacity* out_capacity);

/// Fills in the numbers.
void llm_scheduler_query_stats(const llm_scheduler* scheduler, llm_scheduler_stats* out_stats);

#endif // BERTH_SAMPLES_LLM_SCHEDULER_H
