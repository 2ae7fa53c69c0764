// SPDX-License-Identifier: Apache-2.0
// The thread that computes: it takes jobs, has the scheduler run steps for them, and ends each one.
//
//   SE1: each job that is submitted ends (SJ2), whatever becomes of the client, the engine or
//        memory.
//   SE2: only the engine's thread uses the context of its model.
#ifndef BERTH_SAMPLES_SERVE_SERVE_ENGINE_H
#define BERTH_SAMPLES_SERVE_SERVE_ENGINE_H

#include "serve_job.h"
#include "serve_metrics.h"

typedef struct serve_engine serve_engine;

/// How to run. All zero but for what is named: no limits of time.
typedef struct serve_engine_options {
    const llm_model* model;         ///< outlives the engine
    const llm_tokenizer* tokenizer; ///< outlives the engine
    berth_kv_options kv;
    llm_scheduler_options scheduler; ///< but for its callbacks, clock and tokenizer
    serve_budget budget;             ///< as snapshots show it
    uint64_t first_token_ns;         ///< a job without a token for so long is refused; 0: no limit
    bool warms_up;                   ///< learn the steps' memory before the first job
} serve_engine_options;

/// Starts an engine.
/// Ownership: the caller gives `*out_engine` to serve_engine_destroy().
/// Errors:    of llm_scheduler_create(); BERTH_ERR_OUT_OF_MEMORY for a thread. Then it is NULL.
BERTH_NODISCARD berth_status serve_engine_create(const serve_engine_options* options,
                                                 serve_engine** out_engine,
                                                 llm_error* error);

/// Ends every job, with SHUTTING_DOWN, and the thread; what is submitted after that is refused. May
/// be called again.
void serve_engine_stop(serve_engine* engine);

/// Stops and frees the engine; nobody uses it any more. NULL is allowed.
void serve_engine_destroy(serve_engine* engine);

/// Has a job computed. It hears of it by its wake. After serve_engine_drain() it is refused at
/// once.
/// Threads: any.
void serve_engine_submit(serve_engine* engine, serve_job* job);

/// Says that nobody waits for the job any more: it ends, and its memory is free, with the next
/// step.
/// Threads: any.
void serve_engine_leave(serve_engine* engine, serve_job* job);

/// Takes no job any more; with `ends_all` it also ends those that there are, with SHUTTING_DOWN.
/// Threads: any.
void serve_engine_drain(serve_engine* engine, bool ends_all);

/// Jobs that have not ended.
/// Threads: any.
size_t serve_engine_job_count(serve_engine* engine);

/// What the engine last noted of itself: at most a step, or a second, old.
/// Threads: any.
void serve_engine_query(serve_engine* engine, serve_snapshot* out_snapshot);

#endif // BERTH_SAMPLES_SERVE_SERVE_ENGINE_H
