// SPDX-License-Identifier: Apache-2.0
// One step of a scheduler: it runs what was planned, smaller if it is refused, and gives tokens
// out.
#include "llm_clock.h"
#include "scheduler_internal.h"

enum {
    MOST_ALONE = 3,       // steps in a row that may be refused to a request that goes alone
    ESTIMATE_STEPS = 256, // steps after which Berth is asked again
    COST_TOKENS = 16,     // least tokens of a step whose time says what a token costs
};

/// Times of one step, in nanoseconds.
typedef struct step_times {
    llm_run_times run;
    uint64_t kv_ns;    ///< beginning batches
    uint64_t given_ns; ///< sampling and callbacks
} step_times;

/// Whose logits a step shows.
typedef struct chooser {
    llm_scheduler* scheduler;
    size_t parts;
} chooser;

/// Chooses the next token of each part that has come to the end of its tokens. It is given when the
/// step has ended well, or chosen again.
static void choose_tokens(void* user, const float* logits) {
    const chooser* c = user;
    llm_scheduler* s = c->scheduler;
    for (size_t i = 0; i < c->parts; i++) {
        llm_task* r = s->members[i];
        if (llm_task_pending(r) != s->parts[i].count) continue;
        const size_t vocab = (size_t)s->model->params.vocab_tokens;
        const float* row = logits + i * vocab;
        const int32_t* answer = r->tokens + r->prompt_count;
        const size_t answered = (size_t)(r->count - r->prompt_count);
        r->drawn_state = r->random_state;
        s->chosen[i] =
            llm_sampler_pick_as(s->sampler, &r->sampling, &r->drawn_state, answer, answered, row);
        if (r->wants_logprobs && s->chosen[i] >= 0)
            r->logprob = llm_logprobs(row, vocab, s->chosen[i], r->top, r->top_count);
    }
}

/// Runs a planned step.
static berth_status run_batch(llm_scheduler* s, const llm_batch_plan* plan, step_times* times) {
    uint64_t began = llm_now_ns();
    berth_kv_batch* batch;
    berth_status status = berth_kv_batch_begin(s->cache, s->parts, plan->parts, &batch);
    times->kv_ns += llm_now_ns() - began;
    if (status != BERTH_OK) return llm_fail(&s->error, status, "%s", berth_last_error());
    chooser choosing = {s, plan->parts};
    llm_run_options options = {.kind = plan->has_prompt ? LLM_STEP_PREFILL : LLM_STEP_DECODE,
                               .on_logits = s->sampler == NULL ? NULL : choose_tokens,
                               .logits_user = &choosing,
                               .times = &times->run};
    return llm_model_run(s->model, batch, &options, &s->error);
}

/// Notes that not all was to be had: what was believed of steps is asked anew.
static void learn_from_refusal(llm_scheduler* s, const llm_batch_plan* plan) {
    s->stats.step_refusals++;
    llm_scheduler_forget_estimates(s);
    s->token_cap = plan->sizes.tokens / 2;
    if (s->token_cap < s->options.max_running) s->token_cap = s->options.max_running;
    llm_scheduler_query_room(s);
}

/// Runs the planned step; where it is refused, without the prompts, and then the oldest request
/// alone.
static berth_status run_largest(llm_scheduler* s, llm_batch_plan* plan, step_times* times) {
    berth_status status = run_batch(s, plan, times);
    if (status != BERTH_ERR_OUT_OF_MEMORY) return status;
    learn_from_refusal(s, plan);
    if (plan->parts > 1 && llm_scheduler_drop_prompts(s, plan)) {
        status = run_batch(s, plan, times);
        if (status != BERTH_ERR_OUT_OF_MEMORY) return status;
        learn_from_refusal(s, plan);
    }
    // nothing of a request that is not the oldest is worth more than that the oldest goes on
    llm_scheduler_park_one(s, false);
    llm_scheduler_plan_oldest(s, plan);
    return run_batch(s, plan, times);
}

/// After a step that failed: a request that went alone ends, if it is not to be tried again; those
/// that went together go alone next.
static void blame(llm_scheduler* s, const llm_batch_plan* plan, berth_status status) {
    if (plan->parts > 1) {
        for (size_t i = 0; i < plan->parts; i++)
            s->members[i]->is_suspect = true;
        return;
    }
    llm_task* r = s->members[0];
    bool is_short = status == BERTH_ERR_OUT_OF_MEMORY;
    if (is_short && (++r->refusals < MOST_ALONE || s->running.count > 1)) return;
    llm_scheduler_end_running(s, r, LLM_END_FAILED, status, s->error.text);
}

/// Counts what the step computed.
static void count_step(llm_scheduler* s, const llm_batch_plan* plan, llm_step_summary* summary) {
    *summary = (llm_step_summary){.tokens = plan->sizes.tokens,
                                  .prompt_tokens = plan->sizes.tokens - plan->sizes.sequences,
                                  .sequences = plan->sizes.sequences,
                                  .ran = true};
    for (size_t i = 0; i < plan->parts; i++) {
        llm_task* r = s->members[i];
        int64_t count = s->parts[i].count;
        int64_t again = r->most_fed - r->fed < count ? r->most_fed - r->fed : count;
        r->end.recomputed_tokens += again;
        r->gained += count - again;
        s->stats.recomputed_tokens += (uint64_t)again;
        if (r->fed < r->prompt_count) llm_tenant_charge_prompt(r->tenant, count - again);
        summary->key_tokens += count * r->fed + count * (count + 1) / 2;
        r->fed += count;
        if (r->most_fed < r->fed) r->most_fed = r->fed;
        r->has_started = true;
        r->has_advanced = true;
        r->is_suspect = false;
        r->refusals = 0;
        if (llm_task_pending(r) == 0) summary->answers++;
    }
    llm_scheduler_stats* stats = &s->stats;
    stats->computed_tokens += (uint64_t)plan->sizes.tokens;
    stats->steps++;
    stats->decode_steps += !plan->has_prompt;
    stats->batch_sum += plan->parts;
    if (stats->batch_max < plan->parts) stats->batch_max = plan->parts;
}

/// Tells the caller of a token; false if that is to be the last.
static bool tell_token(const llm_scheduler* s, const llm_task* r, int32_t id) {
    if (r->on_token == NULL) return true;
    llm_answer_token token = {.id = id};
    if (r->wants_logprobs && s->sampler != NULL) {
        token.has_logprobs = true;
        token.logprob = r->logprob;
        token.top = r->top;
        token.top_count = r->top_count;
    }
    return r->on_token(r->user, r->id, &token);
}

/// Gives the request its next token, with which it may end.
static void give_token(llm_scheduler* s, llm_task* r, size_t at) {
    int64_t index = r->count - r->prompt_count;
    int32_t id =
        s->sampler != NULL ? s->chosen[at] : s->options.token_of(s->options.user, r->id, index);
    const llm_tokenizer* tokenizer = r->ignores_stop ? NULL : s->options.tokenizer;
    if (id < 0 || id >= s->model->params.vocab_tokens) {
        llm_scheduler_end_running(
            s, r, LLM_END_FAILED, BERTH_ERR_CORRUPT, "none of the logits is a number");
        return;
    }
    if (tokenizer != NULL && llm_tokenizer_is_stop(tokenizer, id)) {
        llm_scheduler_end_running(s, r, LLM_END_STOP_TOKEN, BERTH_OK, "");
        return;
    }
    r->tokens[r->count++] = id;
    r->random_state = r->drawn_state;
    s->stats.decoded_tokens++;
    llm_tenant_charge_answer(r->tenant);
    if (r->end.first_token_ns == 0) r->end.first_token_ns = s->options.now(s->options.user);
    if (!tell_token(s, r, id))
        llm_scheduler_end_running(s, r, LLM_END_CALLER, BERTH_OK, "");
    else if (r->count - r->prompt_count == r->max_tokens)
        llm_scheduler_end_running(s, r, LLM_END_LIMIT, BERTH_OK, "");
}

static void give_tokens(llm_scheduler* s, const llm_batch_plan* plan) {
    // a member ends only here, so those behind it are there
    for (size_t i = 0; i < plan->parts; i++)
        if (llm_task_pending(s->members[i]) == 0) give_token(s, s->members[i], i);
}

/// Learns from a step that ran.
static void learn_from_run(llm_scheduler* s, const llm_batch_plan* plan, uint64_t ns) {
    if (s->token_cap < s->options.step_tokens) s->token_cap *= 2;
    if (s->stats.steps % ESTIMATE_STEPS == 0) llm_scheduler_forget_estimates(s);
    uint64_t bytes = llm_scheduler_step_bytes(
        s, plan->has_prompt ? LLM_STEP_PREFILL : LLM_STEP_DECODE, &plan->sizes);
    uint64_t faded = s->recent_step_bytes - s->recent_step_bytes / 64;
    s->recent_step_bytes = bytes > faded ? bytes : faded;
    if (plan->sizes.tokens < COST_TOKENS) return;
    double cost = (double)ns / (double)plan->sizes.tokens;
    s->recompute_ns = s->recompute_ns > 0.0 ? 0.875 * s->recompute_ns + 0.125 * cost : cost;
    berth_kv_cache_set_recompute_cost(s->cache, s->recompute_ns);
}

/// Plans, runs and accounts for one step of those that run.
static berth_status run_step(llm_scheduler* s, llm_step_summary* summary, step_times* times) {
    llm_batch_plan plan;
    llm_scheduler_plan(s, &plan);
    uint64_t before = s->options.now(s->options.user);
    berth_status status = run_largest(s, &plan, times);
    if (status == BERTH_ERR_FORKED) return status;
    if (status != BERTH_OK) {
        blame(s, &plan, status);
        return BERTH_OK;
    }
    count_step(s, &plan, summary);
    if (s->options.after_step != NULL) s->options.after_step(s->options.user, summary);
    learn_from_run(s, &plan, s->options.now(s->options.user) - before);
    uint64_t began = llm_now_ns();
    give_tokens(s, &plan);
    times->given_ns += llm_now_ns() - began;
    return BERTH_OK;
}

static void add_times(llm_scheduler* s, const step_times* times, uint64_t whole) {
    llm_scheduler_stats* stats = &s->stats;
    stats->whole_ns += whole;
    stats->kv_ns += times->kv_ns + times->run.kv_ns;
    stats->step_ns += times->run.step_ns;
    stats->given_ns += times->given_ns + times->run.logits_ns;
    stats->scheduler_ns += whole - times->kv_ns - times->given_ns - times->run.kv_ns -
                           times->run.step_ns - times->run.logits_ns - times->run.ops_ns;
}

/// Chooses who runs, and runs one step of them.
static berth_status run_requests(llm_scheduler* s, llm_step_summary* summary, step_times* times) {
    llm_scheduler_query_room(s);
    if (s->options.parks_always) llm_scheduler_park_one(s, true);
    // while the oldest is refused what it needs, nobody joins it
    if (s->running.count == 0 || s->running.items[0]->refusals == 0) llm_scheduler_admit(s);
    return s->running.count == 0 ? BERTH_OK : run_step(s, summary, times);
}

static bool has_requests(const llm_scheduler* s) {
    return s->running.count + s->parked.count + s->queued > 0 || s->withdrawn.first != NULL;
}

berth_status llm_scheduler_step(llm_scheduler* s, llm_step_summary* out_summary, llm_error* error) {
    llm_step_summary summary = {0};
    if (out_summary != NULL) *out_summary = summary;
    if (s->is_stepping || s->is_ending)
        return llm_fail(error, BERTH_ERR_STATE, "a step within a step, or within the end");
    s->is_stepping = true;
    uint64_t began = llm_now_ns();
    step_times times = {0};
    berth_status status = BERTH_OK;
    llm_scheduler_end_cancelled(s, false);
    if (s->running.count == 0) s->gate = NULL;
    if (has_requests(s)) status = run_requests(s, &summary, &times);
    summary.is_idle = !has_requests(s);
    if (summary.ran) add_times(s, &times, llm_now_ns() - began);
    s->is_stepping = false;
    if (out_summary != NULL) *out_summary = summary;
    return status == BERTH_OK ? BERTH_OK : llm_fail(error, status, "%s", s->error.text);
}
