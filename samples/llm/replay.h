// SPDX-License-Identifier: Apache-2.0
// A request trace served by a scheduler, and what came of it.
//
// Requests come when the trace says, at a multiple of its speed, or as fast as they are taken.
// Prompts are made up (replay_prompts.h); answers have exactly the trace's length. Where the trace
// says what answers hold, those are the tokens, whatever the model chooses.
//
// A simulation does the same on a clock of its own: each step lasts as long as a linear cost says.
#ifndef BERTH_SAMPLES_LLM_REPLAY_H
#define BERTH_SAMPLES_LLM_REPLAY_H

#include "request_trace.h"
#include "scheduler.h"

#include <signal.h>

/// How long a step lasts in a simulation.
typedef struct llm_step_cost {
    double fixed_ns;     ///< of each step
    double token_ns;     ///< of each token that is computed
    double key_token_ns; ///< of each token's keys and values that a computed token attends to
} llm_step_cost;

/// What a replay tells while it goes on.
typedef struct llm_replay_progress {
    uint64_t done;     ///< requests that ended
    uint64_t requests; ///< in all
    double seconds;    ///< of its clock so far
    uint64_t answer_tokens;
    uint64_t running;
    uint64_t queued;
    uint64_t mapped_bytes;
} llm_replay_progress;

/// How to replay. All zero but for the trace and the counts: at the trace's speed, for real.
typedef struct llm_replay_options {
    const llm_request_trace* trace; ///< borrowed
    size_t first_row;               ///< of the trace that is replayed
    size_t row_count;               ///< rows from there; at least 1, within the trace
    int64_t divide;                 ///< by which lengths are divided, at least 1
    double speed;                   ///< 1: the trace's; 0: as fast as requests are taken
    uint32_t tenants;               ///< requests, or sessions, go to so many in turn; at least 1
    bool simulates;
    llm_step_cost cost;              ///< of a simulation
    llm_scheduler_options scheduler; ///< but for its callbacks, which are the replay's
    berth_kv_options kv;
    const volatile sig_atomic_t* stop; ///< not 0: end now with what there is; may be NULL
    /// Called a few times a second. May be NULL.
    void (*on_progress)(void* user, const llm_replay_progress* progress);
    void* user;
} llm_replay_options;

// clang-format off
/// Numbers of one moment of a replay: X(name, help).
#define LLM_REPLAY_SAMPLE_MAP(X)                                                                   \
    X(time_ms,         "of the replay's clock")                                                    \
    X(running,         "requests taken up")                                                        \
    X(queued,          "requests that wait")                                                       \
    X(parked,          "requests taken up and parked")                                             \
    X(answer_tokens,   "chosen so far")                                                            \
    X(frames_bytes,    "mapped for frames of steps")                                               \
    X(pool_bytes,      "mapped for the pool")                                                      \
    X(kv_bytes,        "mapped for the cache")                                                     \
    X(kv_held_bytes,   "of them, in blocks that requests hold")                                    \
    X(kv_cached_bytes, "of them, in blocks kept for other requests")                               \
    X(mapped_bytes,    "mapped in all")
// clang-format on

/// The numbers of LLM_REPLAY_SAMPLE_MAP.
typedef struct llm_replay_sample {
#define LLM_REPLAY_SAMPLE_FIELD(name, help) uint64_t name; ///< help
    LLM_REPLAY_SAMPLE_MAP(LLM_REPLAY_SAMPLE_FIELD)
#undef LLM_REPLAY_SAMPLE_FIELD
} llm_replay_sample;

/// Times in milliseconds: those that so many per cent of the requests kept within.
typedef struct llm_replay_times {
    uint64_t count;
    double p50_ms;
    double p90_ms;
    double p99_ms;
    double max_ms;
} llm_replay_times;

enum { LLM_REPLAY_SAMPLES = 512 }; ///< most moments that are kept

/// What came of a replay.
typedef struct llm_replay_report {
    bool is_simulated;
    bool was_stopped;
    uint64_t requests; ///< of the trace
    uint64_t ends[LLM_END_COUNT];
    llm_error first_error;  ///< what was said of the first request refused or failed, or ""
    double seconds;         ///< of the replay's clock
    double real_seconds;    ///< that it took
    uint64_t prompt_tokens; ///< of requests that were answered
    uint64_t answer_tokens; ///< of those
    llm_replay_times queue; ///< from a request's coming to its leaving the queue
    llm_replay_times first; ///< from its coming to its first token
    llm_replay_times token; ///< for each further one
    double held_tokens;     ///< sum over steps: tokens in blocks that requests held
    double wasted_tokens;   ///< sum over steps: room in them for tokens that held none
    llm_scheduler_stats scheduler;
    berth_kv_layout layout;
    berth_kv_stats kv;
    berth_memory_stats memory;
    berth_step_counters prefill;
    berth_step_counters decode;
    uint64_t peak_bytes; ///< most memory mapped at one time
    size_t sample_count;
    llm_replay_sample samples[LLM_REPLAY_SAMPLES]; ///< even in time, the last one at the end
} llm_replay_report;

/// Replays on `model`, and reports.
/// Errors: BERTH_ERR_INVALID_ARGUMENT names the option; BERTH_ERR_OUT_OF_MEMORY; what the scheduler
///         reports. What fails for one request is in the report.
BERTH_NODISCARD berth_status llm_replay(const llm_model* model,
                                        const llm_replay_options* options,
                                        llm_replay_report* out_report,
                                        llm_error* error);

/// Sorts `values` [count], in milliseconds, and gives their percentiles by nearest rank.
llm_replay_times llm_replay_times_of(double* values, size_t count);

#endif // BERTH_SAMPLES_LLM_REPLAY_H
