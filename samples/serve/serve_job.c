// SPDX-License-Identifier: Apache-2.0
// Jobs: what the engine adds to them, and their end.
#include "serve_job.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "llm_clock.h"

/// Writes the name under which a client knows its request.
static void name_job(serve_job* job) {
    static atomic_ullong counter;
    uint64_t random[2];
    // uniqueness is all that is asked of the name
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) {
        random[0] = llm_now_ns();
        random[1] = atomic_fetch_add(&counter, 1);
    }
    const char* kind = job->request.endpoint == API_CHAT ? "chatcmpl" : "cmpl";
    snprintf(job->id,
             sizeof job->id,
             "%s-%016llx%08llx",
             kind,
             (unsigned long long)random[0],
             (unsigned long long)(random[1] & UINT32_MAX));
}

serve_job* serve_job_create(const llm_tokenizer* tokenizer, api_request* request) {
    size_t count = request->prompt_count * (size_t)request->n;
    serve_job* job = llm_alloc_zeroed(1, sizeof *job + count * sizeof(serve_choice));
    if (job == NULL) return NULL;
    if (pthread_mutex_init(&job->lock, NULL) != 0) {
        llm_free(job);
        return NULL;
    }
    atomic_init(&job->references, 1);
    job->request = *request;
    *request = (api_request){0};
    job->choice_count = count;
    job->open_choices = count;
    job->created = (int64_t)time(NULL);
    job->begin_ns = llm_now_ns();
    for (size_t i = 0; i < job->request.prompt_count; i++)
        job->usage.prompt_tokens += (int64_t)job->request.prompts[i].count;
    name_job(job);
    for (size_t i = 0; i < count; i++) {
        serve_choice* choice = &job->choices[i];
        *choice = (serve_choice){.job = job, .index = i};
        answer_text_init(&choice->text, tokenizer, job->request.stops, job->request.stop_count);
    }
    return job;
}

/// Memory of a job before it is answered.
static size_t request_bytes(const serve_job* job) {
    const api_request* r = &job->request;
    size_t bytes = sizeof *job + job->choice_count * sizeof *job->choices + r->user.capacity;
    bytes += r->sampling.logit_bias_count * sizeof *r->logit_bias;
    for (size_t i = 0; i < r->prompt_count; i++)
        bytes += sizeof *r->prompts + r->prompts[i].capacity * sizeof *r->prompts[i].ids;
    for (size_t i = 0; r->prompt_texts != NULL && i < r->prompt_count; i++)
        bytes += sizeof *r->prompt_texts + r->prompt_texts[i].capacity;
    for (size_t i = 0; i < r->stop_count; i++)
        bytes += sizeof *r->stops + r->stops[i].capacity;
    return bytes;
}

bool serve_job_hold(serve_job* job, serve_room* room) {
    size_t bytes = request_bytes(job);
    if (!serve_room_take(room, bytes)) return false;
    job->room = room;
    job->held_bytes = bytes;
    return true;
}

serve_job* serve_job_retain(serve_job* job) {
    atomic_fetch_add_explicit(&job->references, 1, memory_order_relaxed);
    return job;
}

void serve_job_release(serve_job* job) {
    if (job == NULL) return;
    if (atomic_fetch_sub_explicit(&job->references, 1, memory_order_acq_rel) > 1) return;
    for (size_t i = 0; i < job->choice_count; i++) {
        answer_text_fini(&job->choices[i].text);
        llm_free(job->choices[i].tokens);
        llm_free(job->choices[i].top);
    }
    api_request_fini(&job->request);
    serve_room_give(job->room, job->held_bytes);
    pthread_mutex_destroy(&job->lock);
    llm_free(job);
}

const llm_tokens* serve_choice_prompt(const serve_choice* choice) {
    const api_request* request = &choice->job->request;
    return &request->prompts[choice->index / (size_t)request->n];
}

void serve_job_wake(serve_job* job) {
    void (*wake)(void* user) = job->wake;
    job->wake = NULL;
    if (wake != NULL) wake(job->wake_user);
}

void serve_job_accept(serve_job* job) {
    pthread_mutex_lock(&job->lock);
    job->is_accepted = true;
    serve_job_wake(job);
    pthread_mutex_unlock(&job->lock);
}

static void fail_locked(serve_job* job, const api_error* error) {
    if (job->has_ended) return;
    job->error = *error;
    job->has_ended = true;
}

void serve_job_fail(serve_job* job, const api_error* error) {
    pthread_mutex_lock(&job->lock);
    fail_locked(job, error);
    serve_job_wake(job);
    pthread_mutex_unlock(&job->lock);
}

/// Grows a list so that `extra` more items fit.
static bool reserve(void** items, size_t count, size_t extra, size_t item_bytes, size_t* capacity) {
    if (*capacity - count >= extra) return true;
    size_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    if (wanted < count + extra) wanted = count + extra;
    void* grown = llm_realloc(*items, wanted, item_bytes);
    if (grown == NULL) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

/// Notes a token's log probabilities.
static bool push_logprobs(serve_choice* choice, const llm_answer_token* token, size_t text_offset) {
    void* tokens = choice->tokens;
    void* top = choice->top;
    bool has_room =
        reserve(&tokens, choice->token_count, 1, sizeof(api_token), &choice->token_capacity);
    choice->tokens = tokens;
    has_room =
        has_room &&
        reserve(
            &top, choice->top_count, token->top_count, sizeof(api_logprob), &choice->top_capacity);
    choice->top = top;
    if (!has_room) return false;
    choice->tokens[choice->token_count++] = (api_token){.chosen = {token->id, token->logprob},
                                                        .text_offset = text_offset,
                                                        .text_end = choice->text.ready_bytes,
                                                        .top_first = choice->top_count,
                                                        .top_count = (uint32_t)token->top_count};
    for (size_t i = 0; i < token->top_count; i++)
        choice->top[choice->top_count++] = (api_logprob){token->top[i].id, token->top[i].logprob};
    return true;
}

/// Memory of an answer.
static size_t answer_bytes(const serve_choice* choice) {
    return choice->text.text.capacity + choice->token_capacity * sizeof *choice->tokens +
           choice->top_capacity * sizeof *choice->top;
}

/// Adds a token to the answer's text and lists. False if there is no memory for it.
static bool keep_token(serve_choice* choice, const llm_answer_token* token) {
    serve_job* job = choice->job;
    const size_t before = answer_bytes(choice);
    const size_t text_offset = choice->text.characters;
    if (answer_text_push(&choice->text, token->id, NULL) != BERTH_OK) return false;
    if (job->request.wants_logprobs && !push_logprobs(choice, token, text_offset)) return false;
    const size_t grown = answer_bytes(choice) - before;
    if (grown == 0) return true;
    if (!serve_room_take(job->room, grown)) return false;
    job->held_bytes += grown;
    return true;
}

bool serve_choice_push(serve_choice* choice, const llm_answer_token* token) {
    serve_job* job = choice->job;
    pthread_mutex_lock(&job->lock);
    bool is_kept = keep_token(choice, token);
    job->usage.answer_tokens++;
    if (!is_kept) {
        api_error error;
        api_fail(&error, API_ERROR_OUT_OF_MEMORY, NULL, "no memory for the text of an answer");
        fail_locked(job, &error);
    }
    bool goes_on = is_kept && !choice->text.has_stopped;
    serve_job_wake(job);
    pthread_mutex_unlock(&job->lock);
    return goes_on;
}

void serve_choice_end(serve_choice* choice, api_finish finish) {
    serve_job* job = choice->job;
    pthread_mutex_lock(&job->lock);
    if (!choice->has_ended && !job->has_ended) {
        choice->has_ended = true;
        choice->finish = finish;
        if (answer_text_finish(&choice->text, NULL) != BERTH_OK) {
            api_error error;
            api_fail(&error, API_ERROR_OUT_OF_MEMORY, NULL, "no memory for the text of an answer");
            fail_locked(job, &error);
        }
        if (choice->text.has_stopped) choice->finish = API_FINISH_STOP; // also one that came last
        // what was held back belongs to the last token
        if (choice->token_count > 0)
            choice->tokens[choice->token_count - 1].text_end = choice->text.ready_bytes;
        if (--job->open_choices == 0) job->has_ended = true;
    }
    serve_job_wake(job);
    pthread_mutex_unlock(&job->lock);
}
