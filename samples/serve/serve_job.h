// SPDX-License-Identifier: Apache-2.0
// A request on its way through the server, shared by the thread of the engine, which makes its
// answers, and that of HTTP, which sends them as the client takes them.
//
//   SJ1: what is under the lock changes under it; the rest is constant once the job is submitted,
//        or belongs to the engine's thread.
//   SJ2: a job ends once: then it has an error or all its answers, and nothing changes any more.
//   SJ3: whoever waits is woken after every change, while the lock is held, so that it is there.
#ifndef BERTH_SAMPLES_SERVE_SERVE_JOB_H
#define BERTH_SAMPLES_SERVE_SERVE_JOB_H

#include "answer_text.h"
#include "api_answer.h"
#include "scheduler.h"
#include "serve_room.h"

#include <pthread.h>
#include <stdatomic.h>

/// One answer of a job.
typedef struct serve_choice {
    struct serve_job* job;
    size_t index;
    uint64_t id;       ///< the scheduler's; the engine's thread only; 0: not with it
    bool is_submitted; ///< the engine's thread only
    // Under the job's lock:
    answer_text text;
    api_token* tokens; ///< [token_count] where log probabilities are wanted
    size_t token_count;
    size_t token_capacity;
    api_logprob* top; ///< [top_count]
    size_t top_count;
    size_t top_capacity;
    api_finish finish;
    bool has_ended;
} serve_choice;

/// A request. Made by serve_job_create(), and counted.
typedef struct serve_job {
    atomic_int references;
    pthread_mutex_t lock;
    // Constant:
    api_request request;
    uint32_t tenant;
    uint32_t key;      ///< number of the API key, which says whose prompts may share blocks
    char id[48];       ///< as told to the client
    int64_t created;   ///< seconds since 1970
    uint64_t begin_ns; ///< when it came, by the monotonic clock
    size_t choice_count;
    serve_room* room; ///< in which its memory is counted; NULL: nowhere
    // The engine's thread only:
    struct serve_engine* engine;
    struct serve_job* next;
    struct serve_job* before;
    size_t scheduled;  ///< answers that are with the scheduler
    bool is_withdrawn; ///< no more of it goes there
    bool has_first_token;
    // Under the lock:
    bool is_accepted; ///< it waits for its turn, or has it: it will be answered
    bool has_ended;
    bool client_left; ///< nobody will read what comes
    api_error error;  ///< of a job that has ended without its answers
    api_usage usage;
    size_t open_choices;
    size_t held_bytes;        ///< of the room
    void (*wake)(void* user); ///< NULL: nobody waits
    void* wake_user;
    serve_choice choices[]; ///< [choice_count], those of a prompt one behind the other
} serve_job;

/// Makes a job of `*request`, which it takes over: `*request` is empty afterwards.
/// Ownership: one reference, the caller's.
/// Errors:    NULL for want of memory; `*request` is as before.
serve_job* serve_job_create(const llm_tokenizer* tokenizer, api_request* request);

/// Counts the job's memory in a room, which outlives it, from now on; an answer for which there is
/// none left fails. To be called before the job is submitted.
/// Errors:    false if there is no room for the request itself; then nothing is counted.
bool serve_job_hold(serve_job* job, serve_room* room);

/// One more reference.
serve_job* serve_job_retain(serve_job* job);

/// Gives a reference back; with the last one the job is gone. NULL is allowed.
void serve_job_release(serve_job* job);

/// The prompt that a choice answers.
const llm_tokens* serve_choice_prompt(const serve_choice* choice);

/// Wakes whoever waits; under the lock (SJ3).
void serve_job_wake(serve_job* job);

/// Says that the job waits for its turn or has it.
void serve_job_accept(serve_job* job);

/// Adds a token to an answer. False if it ended the answer: with a stop string, or because memory
/// was short, which is the job's error then.
bool serve_choice_push(serve_choice* choice, const llm_answer_token* token);

/// Ends an answer, and with the last one the job.
void serve_choice_end(serve_choice* choice, api_finish finish);

/// Ends the job with an error, whatever its answers are; nothing if it has ended.
void serve_job_fail(serve_job* job, const api_error* error);

#endif // BERTH_SAMPLES_SERVE_SERVE_JOB_H
