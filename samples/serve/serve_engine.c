// SPDX-License-Identifier: Apache-2.0
// The engine's loop, and jobs from their coming to their end.
#include "serve_engine.h"

#include "llm_clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SNAPSHOT_NS = 100000000, ///< least time between two snapshots
    IDLE_NS = 1000000000,    ///< between two looks at the memory while nothing runs
    STALL_NS = 1000000,      ///< rest after a step that could compute nothing
    IDLE_US = 500,           ///< time for putting memory in order while nothing runs
    WARM_ROUNDS = 3,         ///< of prompts that the steps' memory is learned from: 1, 2, ... each
    WARM_TOKENS = 128,       ///< of the longest of them, about
    WARM_ANSWER = 4,         ///< tokens of their answers
};

struct serve_engine {
    serve_engine_options options;
    llm_scheduler* scheduler;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    // Under the lock:
    serve_job* inbox; ///< the first that came; the rest by `next`
    serve_job** inbox_end;
    size_t job_count; ///< that have not been let go
    bool someone_left;
    bool refuses;
    bool ends_all;
    bool is_closing;
    serve_snapshot snapshot;
    // The engine's thread only:
    serve_job* jobs; ///< with the scheduler; the rest by `next`
    serve_latencies latencies;
    uint64_t snapshot_ns; ///< when the last one was taken
    uint64_t expiry_ns;   ///< when jobs are next looked at for their age
    bool is_idle;
    bool is_stalled;
};

// ---- The end of a job.

static void fail_shutting_down(serve_job* job) {
    api_error error;
    api_fail(&error, API_ERROR_SHUTTING_DOWN, NULL, "the server is shutting down");
    serve_job_fail(job, &error);
}

static void fail_left(serve_job* job) {
    api_error error;
    api_fail(&error, API_ERROR_REQUEST_TIMEOUT, NULL, "the client has left");
    serve_job_fail(job, &error);
}

/// Lets go of a job of which the scheduler has nothing any more.
static void settle(serve_engine* e, serve_job* job) {
    if (job->scheduled > 0) return;
    if (job->before != NULL)
        job->before->next = job->next;
    else
        e->jobs = job->next;
    if (job->next != NULL) job->next->before = job->before;
    pthread_mutex_lock(&job->lock);
    bool has_ended = job->has_ended;
    pthread_mutex_unlock(&job->lock);
    if (!has_ended) { // SE1
        api_error error;
        api_fail(&error, API_ERROR_SERVER, NULL, "the answer was lost");
        serve_job_fail(job, &error);
    }
    pthread_mutex_lock(&e->lock);
    e->job_count--;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    serve_job_release(job);
}

/// Takes a job from the scheduler, which ends its requests with the next step.
static void withdraw(serve_engine* e, serve_job* job) {
    job->is_withdrawn = true;
    for (size_t i = 0; i < job->choice_count; i++)
        if (job->choices[i].id != 0) llm_scheduler_cancel(e->scheduler, job->choices[i].id);
}

// ---- What the scheduler tells.

static void submit_siblings(serve_engine* e, const serve_choice* leader);

static double seconds_between(uint64_t from, uint64_t to) {
    return to > from ? (double)(to - from) * 1e-9 : 0.0;
}

static bool on_token(void* user, uint64_t id, const llm_answer_token* token) {
    (void)id;
    serve_choice* choice = user;
    serve_engine* e = choice->job->engine;
    choice->job->has_first_token = true;
    submit_siblings(e, choice);
    bool goes_on = serve_choice_push(choice, token);
    if (choice->text.has_stopped || goes_on) return goes_on;
    withdraw(e, choice->job); // it has failed
    return false;
}

/// Says what is wrong with a request that got no answer.
static void describe_end(const llm_request_end* end, api_error* error) {
    switch (end->reason) {
    case LLM_END_REFUSED_TOO_LARGE:
        api_fail(error, API_ERROR_CONTEXT_LENGTH, NULL, "%s", end->text);
        return;
    case LLM_END_REFUSED_QUOTA:
        api_fail(error, API_ERROR_RATE_LIMIT, NULL, "%s", end->text);
        return;
    case LLM_END_REFUSED_QUEUE_FULL:
        api_fail(error, API_ERROR_OVERLOADED, NULL, "%s", end->text);
        return;
    case LLM_END_FAILED:
        api_fail(error,
                 end->status == BERTH_ERR_OUT_OF_MEMORY ? API_ERROR_OUT_OF_MEMORY
                                                        : API_ERROR_SERVER,
                 NULL,
                 "%s",
                 end->text);
        return;
    case LLM_END_LIMIT:
    case LLM_END_STOP_TOKEN:
    case LLM_END_CANCELLED:
    case LLM_END_CALLER:
    case LLM_END_COUNT:
        break;
    }
    api_fail(error, API_ERROR_SHUTTING_DOWN, NULL, "the server is shutting down");
}

static bool is_answered(llm_end_reason reason) {
    return reason == LLM_END_LIMIT || reason == LLM_END_STOP_TOKEN || reason == LLM_END_CALLER;
}

static void on_end(void* user, uint64_t id, const llm_request_end* end) {
    (void)id;
    serve_choice* choice = user;
    serve_job* job = choice->job;
    serve_engine* e = job->engine;
    choice->id = 0;
    job->scheduled--;
    serve_latencies_observe(&e->latencies, end);
    if (is_answered(end->reason)) {
        if (choice->index % (size_t)job->request.n == 0) {
            pthread_mutex_lock(&job->lock);
            job->usage.cached_tokens += end->cached_tokens;
            pthread_mutex_unlock(&job->lock);
        }
        serve_choice_end(choice,
                         end->reason == LLM_END_LIMIT ? API_FINISH_LENGTH : API_FINISH_STOP);
        submit_siblings(e, choice);
    } else {
        api_error error;
        describe_end(end, &error);
        serve_job_fail(job, &error);
        withdraw(e, job);
    }
    settle(e, job);
}

// ---- The coming of a job.

/// Gives one answer's request to the scheduler.
static void submit_choice(serve_engine* e, serve_choice* choice) {
    serve_job* job = choice->job;
    const api_request* asked = &job->request;
    const llm_tokens* prompt = serve_choice_prompt(choice);
    llm_request request = {
        .tenant = job->tenant,
        .prompt = prompt->ids,
        .prompt_count = (int64_t)prompt->count,
        .max_tokens = asked->max_tokens,
        .sampling = asked->sampling,
        .wants_logprobs = asked->wants_logprobs,
        .top_logprobs = asked->top_logprobs,
        .key = &job->key,
        .key_bytes = sizeof job->key,
        .ignores_stop = asked->ignores_stop,
        .on_token = on_token,
        .on_end = on_end,
        .user = choice,
    };
    request.sampling.seed += choice->index % (size_t)asked->n;
    choice->is_submitted = true;
    job->scheduled++;
    llm_error why;
    uint64_t id;
    berth_status status = llm_scheduler_submit(e->scheduler, &request, &id, &why);
    if (status == BERTH_OK) {
        if (id != 0) choice->id = id;
        return;
    }
    job->scheduled--;
    api_error error;
    api_fail(&error,
             status == BERTH_ERR_OUT_OF_MEMORY ? API_ERROR_OUT_OF_MEMORY : API_ERROR_SERVER,
             NULL,
             "%s",
             why.text);
    serve_job_fail(job, &error);
    withdraw(e, job);
}

/// Gives the other answers to a prompt to the scheduler once the first one has computed it, so that
/// they find it in the cache.
static void submit_siblings(serve_engine* e, const serve_choice* leader) {
    serve_job* job = leader->job;
    size_t n = (size_t)job->request.n;
    if (leader->index % n != 0) return;
    for (size_t i = leader->index + 1; i < leader->index + n && !job->is_withdrawn; i++)
        if (!job->choices[i].is_submitted) submit_choice(e, &job->choices[i]);
}

/// Takes a job over from the inbox.
static void take_in(serve_engine* e, serve_job* job) {
    job->engine = e;
    job->before = NULL;
    job->next = e->jobs;
    if (e->jobs != NULL) e->jobs->before = job;
    e->jobs = job;
    job->scheduled++; // so that it stays until all are submitted
    size_t n = (size_t)job->request.n;
    for (size_t i = 0; i < job->choice_count && !job->is_withdrawn; i += n)
        submit_choice(e, &job->choices[i]);
    job->scheduled--;
    if (!job->is_withdrawn) serve_job_accept(job);
    settle(e, job);
}

// ---- The loop.

static bool has_left(serve_job* job) {
    pthread_mutex_lock(&job->lock);
    bool has = job->client_left;
    pthread_mutex_unlock(&job->lock);
    return has;
}

/// Withdraws jobs: all, or those whose client has left.
static void withdraw_jobs(serve_engine* e, bool all) {
    for (serve_job* job = e->jobs; job != NULL; job = job->next) {
        if (job->is_withdrawn || (!all && !has_left(job))) continue;
        if (all)
            fail_shutting_down(job);
        else
            fail_left(job);
        withdraw(e, job);
    }
}

/// Refuses jobs that have waited too long for their first token.
static void expire_jobs(serve_engine* e, uint64_t now) {
    uint64_t most = e->options.first_token_ns;
    if (most == 0 || now < e->expiry_ns) return;
    e->expiry_ns = now + (most < SNAPSHOT_NS ? most : SNAPSHOT_NS);
    for (serve_job* job = e->jobs; job != NULL; job = job->next) {
        if (job->is_withdrawn || job->has_first_token || now - job->begin_ns < most) continue;
        api_error error;
        api_fail(&error,
                 API_ERROR_OVERLOADED,
                 NULL,
                 "no answer had begun after %.1f s; the server has more to do than it can",
                 seconds_between(job->begin_ns, now));
        serve_job_fail(job, &error);
        withdraw(e, job);
    }
}

static void take_snapshot(serve_engine* e, uint64_t now) {
    serve_snapshot snapshot;
    e->snapshot_ns = now;
    llm_error error;
    if (serve_snapshot_take(
            &snapshot, e->options.model, e->scheduler, &e->latencies, &e->options.budget, &error) !=
        BERTH_OK)
        return; // the last one stays
    pthread_mutex_lock(&e->lock);
    e->snapshot = snapshot;
    pthread_mutex_unlock(&e->lock);
}

static void wait_ns(serve_engine* e, uint64_t ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t nanoseconds = (uint64_t)until.tv_nsec + ns;
    until.tv_sec += (time_t)(nanoseconds / 1000000000u);
    until.tv_nsec = (long)(nanoseconds % 1000000000u);
    pthread_cond_timedwait(&e->changed, &e->lock, &until);
}

/// What the loop does next.
typedef struct orders {
    serve_job* inbox;
    bool someone_left;
    bool ends_all;
    bool is_closing;
} orders;

static bool has_orders(const serve_engine* e) {
    return e->inbox != NULL || e->someone_left || e->ends_all || e->is_closing;
}

/// Waits until there is something to do, or for a while.
static orders take_orders(serve_engine* e) {
    pthread_mutex_lock(&e->lock);
    if ((e->is_idle || e->is_stalled) && !has_orders(e))
        wait_ns(e, e->is_idle ? IDLE_NS : STALL_NS);
    orders taken = {e->inbox, e->someone_left, e->ends_all, e->is_closing};
    e->inbox = NULL;
    e->inbox_end = &e->inbox;
    e->someone_left = false;
    e->ends_all = false;
    pthread_mutex_unlock(&e->lock);
    return taken;
}

static void obey(serve_engine* e, const orders* o) {
    for (serve_job* job = o->inbox; job != NULL;) {
        serve_job* next = job->next;
        take_in(e, job);
        job = next;
    }
    if (o->ends_all || o->is_closing)
        withdraw_jobs(e, true);
    else if (o->someone_left)
        withdraw_jobs(e, false);
}

/// Ends every job after an error that leaves the context unusable.
static void give_up(serve_engine* e, const llm_error* why) {
    fprintf(stderr, "berth-serve: %s\n", why->text);
    for (serve_job* job = e->jobs; job != NULL; job = job->next) {
        api_error error;
        api_fail(&error, API_ERROR_SERVER, NULL, "%s", why->text);
        serve_job_fail(job, &error);
        withdraw(e, job);
    }
    e->is_stalled = true;
}

static void step(serve_engine* e) {
    llm_step_summary summary;
    llm_error error;
    berth_status status = llm_scheduler_step(e->scheduler, &summary, &error);
    e->is_stalled = !summary.ran;
    e->is_idle = status == BERTH_OK && summary.is_idle;
    if (status != BERTH_OK) give_up(e, &error);
    // a failure to put memory in order is told by what needs it
    if (e->is_idle) (void)!berth_idle(e->options.model->context, IDLE_US, NULL);
}

static void* run(void* self) {
    serve_engine* e = self;
    bool goes_on = true;
    while (goes_on) {
        orders o = take_orders(e);
        obey(e, &o);
        uint64_t now = llm_now_ns();
        expire_jobs(e, now);
        step(e);
        if (e->is_idle || llm_now_ns() - e->snapshot_ns >= SNAPSHOT_NS)
            take_snapshot(e, llm_now_ns());
        goes_on = !o.is_closing;
    }
    return NULL;
}

// ---- Creation and end.

/// Answers `count` prompts of different lengths together.
static berth_status answer_together(llm_scheduler* scheduler,
                                    const int32_t* prompt,
                                    int64_t count,
                                    llm_error* error) {
    berth_status status = BERTH_OK;
    for (int64_t i = 0; i < count && status == BERTH_OK; i++) {
        const llm_request request = {.prompt = prompt,
                                     .prompt_count = WARM_TOKENS / (1 + i) - 7 * count,
                                     .max_tokens = WARM_ANSWER,
                                     .sampling = llm_sampler_options_default(),
                                     .is_private = true,
                                     .ignores_stop = true};
        status = llm_scheduler_submit(scheduler, &request, NULL, error);
    }
    llm_step_summary summary = {0};
    while (status == BERTH_OK && !summary.is_idle)
        status = llm_scheduler_step(scheduler, &summary, error);
    return status;
}

/// Answers a few prompts of its own, with a scheduler of its own, so that the steps of the first
/// clients are planned.
static berth_status warm_up(const serve_engine_options* o, llm_error* error) {
    int32_t prompt[WARM_TOKENS];
    int64_t vocab = o->model->params.vocab_tokens;
    for (size_t i = 0; i < WARM_TOKENS; i++)
        prompt[i] = (int32_t)((int64_t)i * 7919 % vocab);
    llm_scheduler* scheduler;
    berth_status status = llm_scheduler_create(o->model, &o->kv, &o->scheduler, &scheduler, error);
    for (int64_t count = 1; count <= WARM_ROUNDS && status == BERTH_OK; count++)
        status = answer_together(scheduler, prompt, count, error);
    llm_scheduler_destroy(scheduler);
    return status;
}

/// Completes the budget with what depends on the cache and on steps.
static void learn_capacity(serve_engine* e) {
    llm_capacity capacity;
    llm_scheduler_query_capacity(e->scheduler, &capacity);
    serve_budget* b = &e->options.budget;
    b->step_bytes = capacity.step_bytes;
    b->kv_bytes = capacity.kv_bytes;
    b->kv_tokens = capacity.kv_tokens;
    b->context_tokens = (uint64_t)e->options.scheduler.context_tokens;
}

static berth_status start_thread(serve_engine* e, llm_error* error) {
    int code = pthread_create(&e->thread, NULL, run, e);
    if (code != 0)
        return llm_fail(
            error, BERTH_ERR_OUT_OF_MEMORY, "no thread for the engine: %s", strerror(code));
    e->has_thread = true;
    return BERTH_OK;
}

static berth_status init_lock(serve_engine* e, llm_error* error) {
    pthread_condattr_t attributes;
    bool is_made = false;
    if (pthread_mutex_init(&e->lock, NULL) != 0) return llm_fail_memory(error, "a lock");
    if (pthread_condattr_init(&attributes) == 0) {
        is_made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                  pthread_cond_init(&e->changed, &attributes) == 0;
        pthread_condattr_destroy(&attributes);
    }
    if (is_made) return BERTH_OK;
    pthread_mutex_destroy(&e->lock);
    return llm_fail_memory(error, "a condition");
}

berth_status serve_engine_create(const serve_engine_options* options,
                                 serve_engine** out_engine,
                                 llm_error* error) {
    *out_engine = NULL;
    serve_engine* e = llm_alloc_zeroed(1, sizeof *e);
    if (e == NULL) return llm_fail_memory(error, "an engine");
    berth_status status = init_lock(e, error);
    if (status != BERTH_OK) {
        llm_free(e);
        return status;
    }
    e->options = *options;
    e->options.scheduler.tokenizer = options->tokenizer;
    e->inbox_end = &e->inbox;
    if (options->warms_up) status = warm_up(&e->options, error);
    if (status == BERTH_OK)
        status = llm_scheduler_create(
            options->model, &options->kv, &e->options.scheduler, &e->scheduler, error);
    if (status == BERTH_OK) {
        learn_capacity(e);
        take_snapshot(e, llm_now_ns());
    }
    if (status == BERTH_OK) status = start_thread(e, error);
    if (status != BERTH_OK) {
        serve_engine_destroy(e);
        return status;
    }
    *out_engine = e;
    return BERTH_OK;
}

void serve_engine_stop(serve_engine* e) {
    if (e->has_thread) {
        pthread_mutex_lock(&e->lock);
        e->refuses = true;
        e->is_closing = true;
        pthread_cond_broadcast(&e->changed);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->thread, NULL);
        e->has_thread = false;
    }
    llm_scheduler_destroy(e->scheduler); // ends what is left of jobs
    e->scheduler = NULL;
}

void serve_engine_destroy(serve_engine* e) {
    if (e == NULL) return;
    serve_engine_stop(e);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    llm_free(e);
}

void serve_engine_submit(serve_engine* e, serve_job* job) {
    pthread_mutex_lock(&e->lock);
    bool is_refused = e->refuses;
    if (!is_refused) {
        serve_job_retain(job);
        job->next = NULL;
        *e->inbox_end = job;
        e->inbox_end = &job->next;
        e->job_count++;
        pthread_cond_broadcast(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    if (is_refused) fail_shutting_down(job);
}

void serve_engine_leave(serve_engine* e, serve_job* job) {
    pthread_mutex_lock(&job->lock);
    job->client_left = true;
    pthread_mutex_unlock(&job->lock);
    pthread_mutex_lock(&e->lock);
    e->someone_left = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

void serve_engine_drain(serve_engine* e, bool ends_all) {
    pthread_mutex_lock(&e->lock);
    e->refuses = true;
    if (ends_all) e->ends_all = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

size_t serve_engine_job_count(serve_engine* e) {
    pthread_mutex_lock(&e->lock);
    size_t count = e->job_count;
    pthread_mutex_unlock(&e->lock);
    return count;
}

void serve_engine_query(serve_engine* e, serve_snapshot* out_snapshot) {
    pthread_mutex_lock(&e->lock);
    *out_snapshot = e->snapshot;
    pthread_mutex_unlock(&e->lock);
}
