// SPDX-License-Identifier: Apache-2.0
// Schedulers, and requests from their coming to their end.
#include "llm_clock.h"
#include "scheduler_internal.h"

#include <inttypes.h>
#include <string.h>

enum {
    STEP_TOKENS = 256,
    MAX_RUNNING = 64,
    MAX_QUEUED = 4096,
    MAX_QUEUED_BYTES = 2 << 20,
    KEY_BYTES = 256, // most that a key may have
};

const char* llm_end_text(llm_end_reason reason) {
    static const char* const words[LLM_END_COUNT] = {
#define LLM_END_WORD(id, word, help) word,
        LLM_END_MAP(LLM_END_WORD)
#undef LLM_END_WORD
    };
    return (unsigned)reason < LLM_END_COUNT ? words[reason] : "unknown";
}

// Creation.

static uint64_t system_now(void* user) {
    (void)user;
    return llm_now_ns();
}

static berth_status check_range(
    const char* name, int64_t value, int64_t least, int64_t most, llm_error* error) {
    if (value >= least && value <= most) return BERTH_OK;
    return llm_fail(error,
                    BERTH_ERR_INVALID_ARGUMENT,
                    "%s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64,
                    name,
                    value,
                    least,
                    most);
}

static void set_default(int64_t* option, int64_t value) {
    if (*option == 0) *option = value;
}

/// Fills in defaults and checks what is not one.
static berth_status take_options(llm_scheduler* s, const llm_scheduler_options* options) {
    llm_scheduler_options* o = &s->options;
    *o = *options;
    set_default(&o->step_tokens, STEP_TOKENS);
    set_default(&o->max_running, o->step_tokens < MAX_RUNNING ? o->step_tokens : MAX_RUNNING);
    set_default(&o->max_queued, MAX_QUEUED);
    set_default(&o->max_queued_bytes, MAX_QUEUED_BYTES);
    set_default(&o->context_tokens, s->model->params.context_tokens);
    if (o->now == NULL) o->now = system_now;
    const struct {
        const char* name;
        int64_t value, least, most;
    } ranges[] = {
        {"step_tokens", o->step_tokens, 1, 1 << 20},
        // or a step would not have a token for each
        {"max_running", o->max_running, 1, o->step_tokens},
        {"max_queued", o->max_queued, 1, 1 << 30},
        {"max_queued_bytes", o->max_queued_bytes, 1, INT64_MAX},
        {"context_tokens", o->context_tokens, 1, s->model->params.context_tokens},
        {"tenant_blocks", o->tenant_blocks, 0, INT64_MAX},
        {"tenant_running", o->tenant_running, 0, INT64_MAX},
        {"tenant_queued", o->tenant_queued, 0, INT64_MAX},
        {"tenant_share_percent", o->tenant_share_percent, 0, 100},
    };
    berth_status status = BERTH_OK;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && status == BERTH_OK; i++)
        status = check_range(
            ranges[i].name, ranges[i].value, ranges[i].least, ranges[i].most, &s->error);
    return status;
}

static berth_status make_tables(llm_scheduler* s) {
    size_t most = (size_t)s->options.max_running;
    s->running.items = llm_alloc(most, sizeof(llm_task*));
    s->parked.items = llm_alloc(most, sizeof(llm_task*));
    s->parts = llm_alloc(most, sizeof *s->parts);
    s->members = llm_alloc(most, sizeof(llm_task*));
    s->chosen = llm_alloc(most, sizeof *s->chosen);
    bool is_whole = s->running.items != NULL && s->parked.items != NULL && s->parts != NULL &&
                    s->members != NULL && s->chosen != NULL;
    return is_whole ? BERTH_OK : llm_fail_memory(&s->error, "a scheduler's tables");
}

/// The sampler whose room all requests use.
static berth_status open_sampler(llm_scheduler* s) {
    if (s->options.token_of != NULL) return BERTH_OK;
    llm_sampler_options options = llm_sampler_options_default();
    size_t vocab = (size_t)s->model->params.vocab_tokens;
    return llm_sampler_create(&options, vocab, &s->sampler, &s->error);
}

static berth_status open_cache(llm_scheduler* s, const berth_kv_options* kv) {
    berth_status status = berth_kv_cache_create(s->model->context, kv, &s->cache);
    if (status != BERTH_OK) return llm_fail(&s->error, status, "%s", berth_last_error());
    berth_kv_cache_layout(s->cache, &s->layout);
    return BERTH_OK;
}

berth_status llm_scheduler_create(const llm_model* model,
                                  const berth_kv_options* kv,
                                  const llm_scheduler_options* options,
                                  llm_scheduler** out_scheduler,
                                  llm_error* error) {
    *out_scheduler = NULL;
    llm_scheduler* s = llm_alloc_zeroed(1, sizeof *s);
    if (s == NULL) return llm_fail_memory(error, "a scheduler");
    s->model = model;
    s->next_id = 1;
    s->token_cap = INT64_MAX;
    berth_status status = take_options(s, options);
    if (status == BERTH_OK) status = make_tables(s);
    if (status == BERTH_OK) status = open_sampler(s);
    if (status == BERTH_OK) status = open_cache(s, kv);
    if (status != BERTH_OK) {
        llm_fail(error, status, "%s", s->error.text);
        llm_scheduler_destroy(s);
        return status;
    }
    *out_scheduler = s;
    return BERTH_OK;
}

// The end of a request.

static void count_end(llm_scheduler* s, llm_end_reason reason) {
    uint64_t* const counters[LLM_END_COUNT] = {
        [LLM_END_LIMIT] = &s->stats.finished,
        [LLM_END_STOP_TOKEN] = &s->stats.finished,
        [LLM_END_CALLER] = &s->stats.finished,
        [LLM_END_CANCELLED] = &s->stats.cancelled,
        [LLM_END_REFUSED_TOO_LARGE] = &s->stats.refused_too_large,
        [LLM_END_REFUSED_QUOTA] = &s->stats.refused_quota,
        [LLM_END_REFUSED_QUEUE_FULL] = &s->stats.refused_queue_full,
        [LLM_END_FAILED] = &s->stats.failed,
    };
    ++*counters[reason];
}

/// Ends a request that is in no list any more (SC1).
static void finish(
    llm_scheduler* s, llm_task* r, llm_end_reason reason, berth_status status, const char* text) {
    // memory is free before the caller hears of it
    berth_kv_sequence_release(r->sequence);
    if (r->is_cancelled) s->cancelled--;
    count_end(s, reason);
    r->end.reason = reason;
    r->end.status = status;
    r->end.text = text;
    r->end.prompt_tokens = r->prompt_count;
    r->end.answer_tokens = r->count - r->prompt_count;
    r->end.end_ns = s->options.now(s->options.user);
    if (r->on_end != NULL) r->on_end(r->user, r->id, &r->end);
    llm_free(r);
}

/// Ends a request that is taken up.
static void end_taken(llm_scheduler* s,
                      llm_task_list* list,
                      llm_task* r,
                      llm_end_reason reason,
                      berth_status status,
                      const char* text) {
    llm_task_list_remove(list, r);
    if (list == &s->parked) r->tenant->parked--;
    llm_tenants_leave(s, r);
    finish(s, r, reason, status, text);
}

void llm_scheduler_end_running(
    llm_scheduler* s, llm_task* r, llm_end_reason reason, berth_status status, const char* text) {
    llm_error copy; // a callback may submit, which writes to the scheduler's own
    llm_fail(&copy, status, "%s", text);
    end_taken(s, &s->running, r, reason, status, copy.text);
}

/// The first request of a list that is marked, or any if `all`; NULL if there is none.
static llm_task* find_marked(const llm_task_list* list, bool all) {
    for (size_t i = 0; i < list->count; i++)
        if (all || list->items[i]->is_cancelled) return list->items[i];
    return NULL;
}

/// Ends those of one list. Callbacks may change it, so each look begins anew.
static void end_marked(llm_scheduler* s, llm_task_list* list, bool all) {
    llm_task* r;
    while ((all || s->cancelled > 0) && (r = find_marked(list, all)) != NULL)
        end_taken(s, list, r, LLM_END_CANCELLED, BERTH_OK, "");
}

void llm_scheduler_end_cancelled(llm_scheduler* s, bool all) {
    end_marked(s, &s->running, all);
    end_marked(s, &s->parked, all);
    while (all && s->tenants.active_count > 0) // of those nothing is taken up any more
        llm_tenants_withdraw(s, s->tenants.active[0]->queue.first);
    llm_task* r;
    while ((r = llm_tenants_pop_withdrawn(s)) != NULL)
        finish(s, r, LLM_END_CANCELLED, BERTH_OK, "");
}

void llm_scheduler_destroy(llm_scheduler* s) {
    if (s == NULL) return;
    s->is_ending = true;
    llm_scheduler_end_cancelled(s, true);
    berth_kv_cache_release(s->cache);
    llm_free(s->running.items);
    llm_free(s->parked.items);
    llm_tenants_fini(s);
    llm_free(s->parts);
    llm_free(s->members);
    llm_free(s->chosen);
    llm_sampler_destroy(s->sampler);
    llm_free(s);
}

berth_kv_cache* llm_scheduler_cache(const llm_scheduler* s) { return s->cache; }

// The coming of a request.

static berth_status check_request(const llm_scheduler* s,
                                  const llm_request* asked,
                                  llm_error* error) {
    if (s->is_ending) return llm_fail(error, BERTH_ERR_STATE, "the scheduler is ending");
    if (asked->prompt == NULL)
        return llm_fail(error, BERTH_ERR_INVALID_ARGUMENT, "a request without a prompt");
    berth_status status = check_range("prompt_count", asked->prompt_count, 1, INT32_MAX, error);
    if (status == BERTH_OK)
        status = check_range("max_tokens", asked->max_tokens, 1, INT32_MAX, error);
    if (status == BERTH_OK)
        status = check_range("key_bytes", (int64_t)asked->key_bytes, 0, KEY_BYTES, error);
    if (status == BERTH_OK && asked->key_bytes > 0 && asked->key == NULL)
        status = llm_fail(error, BERTH_ERR_INVALID_ARGUMENT, "a request without its key");
    if (status == BERTH_OK)
        status = check_range("top_logprobs", asked->top_logprobs, 0, LLM_MOST_TOP_LOGPROBS, error);
    if (status == BERTH_OK)
        status = llm_sampler_check(&asked->sampling, (size_t)s->model->params.vocab_tokens, error);
    for (int64_t i = 0; i < asked->prompt_count && status == BERTH_OK; i++)
        if (asked->prompt[i] < 0 || asked->prompt[i] >= s->model->params.vocab_tokens)
            status = llm_fail(error,
                              BERTH_ERR_INVALID_ARGUMENT,
                              "token %" PRId32 " is not in the vocabulary of %" PRId64,
                              asked->prompt[i],
                              s->model->params.vocab_tokens);
    return status;
}

/// What lies behind a request's fields: tokens, alternatives of a token, bias, key.
typedef struct request_layout {
    size_t tokens; ///< 0 for one that is refused for its length: it is not copied
    size_t top_count;
    size_t bytes; ///< of the request, fields included
} request_layout;

static request_layout lay_out(const llm_scheduler* s, const llm_request* asked) {
    const bool is_short = asked->prompt_count + asked->max_tokens <= s->options.context_tokens;
    request_layout l = {.tokens = is_short ? (size_t)(asked->prompt_count + asked->max_tokens) : 0};
    if (asked->wants_logprobs) l.top_count = (size_t)asked->top_logprobs;
    if (l.top_count > (size_t)s->model->params.vocab_tokens)
        l.top_count = (size_t)s->model->params.vocab_tokens;
    l.bytes = sizeof(llm_task) + l.tokens * sizeof(int32_t) +
              l.top_count * sizeof(llm_token_logprob) +
              asked->sampling.logit_bias_count * sizeof(llm_logit_bias) + asked->key_bytes;
    return l;
}

/// Copies what the request points at behind its fields.
static void copy_behind(llm_task* r, const request_layout* l, const llm_request* asked) {
    _Static_assert(_Alignof(llm_token_logprob) == _Alignof(int32_t) &&
                       _Alignof(llm_logit_bias) == _Alignof(int32_t),
                   "they follow each other without gaps");
    const size_t bias_count = asked->sampling.logit_bias_count;
    r->top = (llm_token_logprob*)(r->tokens + l->tokens);
    llm_logit_bias* bias = (llm_logit_bias*)(r->top + l->top_count);
    r->sampling.logit_bias = bias;
    r->key = (unsigned char*)(bias + bias_count);
    if (l->tokens > 0)
        memcpy(r->tokens, asked->prompt, (size_t)asked->prompt_count * sizeof(int32_t));
    if (bias_count > 0) memcpy(bias, asked->sampling.logit_bias, bias_count * sizeof *bias);
    if (asked->key_bytes > 0) memcpy(r->key, asked->key, asked->key_bytes);
}

static berth_status make_request(const llm_scheduler* s,
                                 const llm_request* asked,
                                 llm_task** out_request,
                                 llm_error* error) {
    const request_layout layout = lay_out(s, asked);
    llm_task* r = llm_alloc(1, layout.bytes);
    *out_request = r;
    if (r == NULL) return llm_fail_memory(error, "a request");
    int64_t fed = asked->prompt_count + asked->max_tokens - 1; // the last token is not fed
    *r = (llm_task){.sampling = asked->sampling,
                    .random_state = asked->sampling.seed,
                    .key_bytes = asked->key_bytes,
                    .own_bytes = (int64_t)layout.bytes,
                    .is_private = asked->is_private,
                    .ignores_stop = asked->ignores_stop,
                    .wants_logprobs = asked->wants_logprobs,
                    .top_count = layout.top_count,
                    .on_token = asked->on_token,
                    .on_end = asked->on_end,
                    .user = asked->user,
                    .prompt_count = asked->prompt_count,
                    .max_tokens = asked->max_tokens,
                    .need_blocks = 1 + (fed - 1) / s->layout.block_tokens,
                    .count = asked->prompt_count,
                    .end = {.submit_ns = s->options.now(s->options.user)}};
    copy_behind(r, &layout, asked);
    return BERTH_OK;
}

/// What blocks and a step together can ever have.
static uint64_t most_bytes(llm_scheduler* s) {
    berth_kv_stats kv;
    berth_kv_cache_query_stats(s->cache, &kv);
    llm_scheduler_query_room(s);
    uint64_t bytes = s->room.bytes + kv.mapped_bytes;
    if (s->most_bytes < bytes) s->most_bytes = bytes;
    return s->most_bytes;
}

/// The most blocks that can ever be had beside a step of `step_bytes`.
static uint64_t most_blocks(llm_scheduler* s, uint64_t step_bytes) {
    uint64_t block_bytes = s->layout.block_bytes;
    uint64_t most = most_bytes(s);
    uint64_t blocks = most > step_bytes ? (most - step_bytes) / block_bytes : 0;
    if (blocks > (uint64_t)s->layout.max_blocks) blocks = (uint64_t)s->layout.max_blocks;
    berth_use_memory use;
    berth_runtime* runtime = berth_context_runtime(s->model->context);
    berth_status status = berth_runtime_query_quota(runtime, BERTH_MEMORY_KV, &use);
    if (status == BERTH_OK && blocks > use.quota_bytes / block_bytes)
        blocks = use.quota_bytes / block_bytes;
    return blocks;
}

/// Whether the request can be had at all; writes what is in its way.
static bool can_be_had(llm_scheduler* s, const llm_task* r) {
    uint64_t block_bytes = s->layout.block_bytes;
    uint64_t bytes = (uint64_t)r->need_blocks * block_bytes;
    int64_t tokens = r->prompt_count + r->max_tokens;
    if (tokens > s->options.context_tokens) {
        llm_fail(&s->error,
                 BERTH_ERR_OUT_OF_MEMORY,
                 "prompt and answer are %" PRId64 " tokens (%" PRIu64
                 " bytes of keys and values); the context is %" PRId64 " tokens (%" PRIu64
                 " bytes)",
                 tokens,
                 bytes,
                 s->options.context_tokens,
                 (uint64_t)s->options.context_tokens * s->layout.token_bytes);
        return false;
    }
    llm_step_sizes sizes = {1, 1, r->need_blocks};
    uint64_t step = llm_scheduler_step_bytes(s, LLM_STEP_DECODE, &sizes);
    uint64_t left = most_blocks(s, step);
    if ((uint64_t)r->need_blocks <= left) return true;
    llm_fail(&s->error,
             BERTH_ERR_OUT_OF_MEMORY,
             "prompt and answer are %" PRId64 " tokens, %" PRIu64
             " bytes of keys and values in %" PRId64 " blocks; at most %" PRIu64 " tokens, %" PRIu64
             " bytes in %" PRIu64 " blocks, can be had beside %" PRIu64 " bytes of a step",
             tokens,
             bytes,
             r->need_blocks,
             left * (uint64_t)s->layout.block_tokens,
             left * block_bytes,
             left,
             step);
    return false;
}

static bool is_within_quota(llm_scheduler* s, const llm_task* r) {
    int64_t most = s->options.tenant_blocks;
    if (most == 0 || r->need_blocks <= most) return true;
    llm_fail(&s->error,
             BERTH_ERR_OUT_OF_MEMORY,
             "prompt and answer are %" PRId64 " tokens in %" PRId64 " blocks, %" PRIu64
             " bytes; a tenant may have %" PRId64 " blocks, %" PRIu64 " bytes",
             r->prompt_count + r->max_tokens,
             r->need_blocks,
             (uint64_t)r->need_blocks * s->layout.block_bytes,
             most,
             (uint64_t)most * s->layout.block_bytes);
    return false;
}

/// Whether a tenant may have one more that waits.
static bool may_queue(llm_scheduler* s, uint32_t tenant) {
    const llm_tenant* t = llm_tenant_find(s, tenant);
    const int64_t most = s->options.tenant_queued;
    if (most == 0 || t == NULL || t->queued < most) return true;
    llm_fail(&s->error,
             BERTH_ERR_OUT_OF_MEMORY,
             "%" PRId64 " requests of the tenant wait, as many as may",
             t->queued);
    return false;
}

static bool has_queue_room(llm_scheduler* s, const llm_task* r) {
    if ((int64_t)s->queued >= s->options.max_queued) {
        llm_fail(
            &s->error, BERTH_ERR_OUT_OF_MEMORY, "%zu requests wait, as many as may", s->queued);
        return false;
    }
    int64_t most = s->options.max_queued_bytes;
    if (s->queued == 0 || r->own_bytes <= most - s->queued_bytes) return true;
    llm_fail(&s->error,
             BERTH_ERR_OUT_OF_MEMORY,
             "the request takes %" PRId64 " bytes beside %" PRId64 " of %zu that wait; they may be "
             "%" PRId64 " bytes",
             r->own_bytes,
             s->queued_bytes,
             s->queued,
             most);
    return false;
}

/// Why the request is not to be had, with text in the scheduler's error; LLM_END_COUNT if it is.
static llm_end_reason find_refusal(llm_scheduler* s, const llm_task* r, uint32_t tenant) {
    if (!can_be_had(s, r)) return LLM_END_REFUSED_TOO_LARGE;
    if (!is_within_quota(s, r) || !may_queue(s, tenant)) return LLM_END_REFUSED_QUOTA;
    return has_queue_room(s, r) ? LLM_END_COUNT : LLM_END_REFUSED_QUEUE_FULL;
}

berth_status llm_scheduler_submit(llm_scheduler* s,
                                  const llm_request* asked,
                                  uint64_t* out_id,
                                  llm_error* error) {
    if (out_id != NULL) *out_id = 0;
    llm_task* r;
    berth_status status = check_request(s, asked, error);
    if (status == BERTH_OK) status = make_request(s, asked, &r, error);
    if (status != BERTH_OK) return status;
    llm_end_reason refusal = find_refusal(s, r, asked->tenant);
    if (refusal != LLM_END_COUNT) {
        s->stats.submitted++;
        llm_error text = s->error; // a callback may submit, too
        finish(s, r, refusal, BERTH_ERR_OUT_OF_MEMORY, text.text);
        return BERTH_OK;
    }
    r->id = s->next_id;
    status = llm_tenants_add(s, r, asked->tenant, error);
    if (status != BERTH_OK) {
        llm_free(r);
        return status;
    }
    s->next_id++;
    s->stats.submitted++;
    if (out_id != NULL) *out_id = r->id;
    return BERTH_OK;
}

static llm_task* find_request(const llm_task_list* list, uint64_t id) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->id == id) return list->items[i];
    return NULL;
}

bool llm_scheduler_cancel(llm_scheduler* s, uint64_t id) {
    llm_task* r = find_request(&s->running, id);
    if (r == NULL) r = find_request(&s->parked, id);
    const bool is_taken = r != NULL;
    if (r == NULL) r = llm_tenants_find_waiting(s, id);
    if (r == NULL) return false;
    if (r->is_cancelled) return true;
    s->cancelled++;
    r->is_cancelled = true;
    if (!is_taken) llm_tenants_withdraw(s, r);
    return true;
}

void llm_scheduler_query_capacity(llm_scheduler* s, llm_capacity* out_capacity) {
    const llm_scheduler_options* o = &s->options;
    int64_t blocks = 1 + (o->context_tokens - 1) / s->layout.block_tokens;
    llm_step_sizes sizes = {o->step_tokens, o->max_running, o->max_running * blocks};
    uint64_t step = llm_scheduler_step_bytes(s, LLM_STEP_PREFILL, &sizes);
    uint64_t fit = most_blocks(s, step);
    *out_capacity = (llm_capacity){.step_bytes = step,
                                   .kv_bytes = fit * s->layout.block_bytes,
                                   .kv_tokens = fit * (uint64_t)s->layout.block_tokens};
}

void llm_scheduler_query_stats(const llm_scheduler* s, llm_scheduler_stats* out_stats) {
    *out_stats = s->stats;
    out_stats->running = s->running.count;
    out_stats->parked = s->parked.count;
    out_stats->queued = s->queued;
}
