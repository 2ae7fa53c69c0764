// SPDX-License-Identifier: Apache-2.0
// Sessions: the cache and its growth, steps, and the loop that generates.
#include "session.h"

#include "llm_clock.h"

#include <inttypes.h>
#include <string.h>

enum { LEAST_CAPACITY = 64 }; // tokens

const char* llm_step_kind_name(llm_step_kind kind) {
    static const char* const names[LLM_STEP_KIND_COUNT] = {"prefill", "decode", "score"};
    return names[kind];
}

/// Takes the context's error over into `error` and clears it.
static berth_status take_context_error(berth_context* ctx, llm_error* error) {
    berth_status status = berth_context_error(ctx);
    if (status == BERTH_OK) return llm_fail(error, BERTH_ERR_INTERNAL, "an op failed silently");
    llm_fail(error, status, "%s", berth_context_error_text(ctx));
    berth_context_clear_error(ctx);
    return status;
}

static berth_status check_options(const llm_model* model,
                                  const llm_session_options* options,
                                  llm_error* error) {
    int64_t trained = model->params.context_tokens;
    if (options->context_tokens < 0 || options->context_tokens > trained)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "a context of %" PRId64 " tokens is asked for; the model has %" PRId64,
                        options->context_tokens,
                        trained);
    if (options->chunk_tokens < 0)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "a chunk of %" PRId64 " tokens is asked for",
                        options->chunk_tokens);
    if (options->kv_dtype != BERTH_F32 && options->kv_dtype != BERTH_F16)
        return llm_fail(
            error, BERTH_ERR_INVALID_ARGUMENT, "keys and values are kept as f32 or f16 only");
    return BERTH_OK;
}

berth_status llm_session_create(const llm_model* model,
                                const llm_session_options* options,
                                llm_session** out_session,
                                llm_error* error) {
    *out_session = NULL;
    berth_status status = check_options(model, options, error);
    if (status != BERTH_OK) return status;
    llm_session* session = llm_alloc_zeroed(1, sizeof *session);
    if (session == NULL) return llm_fail_memory(error, "a session");
    size_t layers = (size_t)model->params.layers;
    session->model = model;
    session->options = *options;
    if (options->context_tokens == 0)
        session->options.context_tokens = model->params.context_tokens;
    session->kv.dtype = options->kv_dtype;
    session->kv.keys = llm_alloc_zeroed(layers, sizeof(berth_tensor*));
    session->kv.values = llm_alloc_zeroed(layers, sizeof(berth_tensor*));
    session->logits = llm_alloc_zeroed((size_t)model->params.vocab_tokens, sizeof(float));
    if (session->kv.keys == NULL || session->kv.values == NULL || session->logits == NULL) {
        llm_session_destroy(session);
        return llm_fail_memory(error, "a session's tables");
    }
    *out_session = session;
    return BERTH_OK;
}

/// Releases the cache's tensors; tokens and room are gone.
static void drop_cache(llm_session* session) {
    llm_kv* kv = &session->kv;
    size_t layers = (size_t)session->model->params.layers;
    if (kv->keys != NULL) {
        berth_release_array(kv->keys, layers);
        memset(kv->keys, 0, layers * sizeof *kv->keys);
    }
    if (kv->values != NULL) {
        berth_release_array(kv->values, layers);
        memset(kv->values, 0, layers * sizeof *kv->values);
    }
    kv->used = 0;
    kv->capacity = 0;
}

void llm_session_destroy(llm_session* session) {
    if (session == NULL) return;
    drop_cache(session);
    llm_free(session->kv.keys);
    llm_free(session->kv.values);
    llm_free(session->logits);
    llm_free(session);
}

void llm_session_reset(llm_session* session) { session->kv.used = 0; }

/// A tensor of `rows` rows that begins with the first `used` of `old`, which may be NULL; NULL if
/// there is no memory.
static berth_tensor* grow_tensor(
    const llm_session* session, berth_tensor* old, int64_t rows, int64_t used, int64_t head_dims) {
    berth_context* ctx = session->model->context;
    int64_t dims[] = {rows, session->model->params.kv_heads, head_dims};
    berth_tensor* grown = berth_zeros(ctx, session->kv.dtype, 3, dims);
    if (old == NULL || used == 0) return grown;
    berth_tensor* index = berth_arange(ctx, 0.0, (double)used, 1.0, BERTH_I32);
    berth_tensor* head = berth_slice(ctx, old, 0, 0, used, 1);
    return berth_index_copy(ctx, berth_move(grown), 0, berth_move(index), berth_move(head));
}

/// Makes one tensor of the cache larger; on failure it stays as it is.
static bool grow_entry(llm_session* session, berth_tensor** entry, int64_t rows, int64_t dims) {
    int64_t used = session->kv.used;
    if (*entry != NULL && berth_tensor_dim(*entry, 0) >= rows) return true;
    berth_tensor* grown = grow_tensor(session, *entry, rows, used, dims);
    if (grown == NULL) return false;
    if (*entry != NULL)
        session->growth.copied_bytes += berth_tensor_bytes(grown) / (uint64_t)rows * (uint64_t)used;
    berth_release(*entry);
    *entry = grown;
    return true;
}

/// Makes room for `tokens` tokens in all, doubling. On failure the cache is as before, though some
/// tensors may have more rows than its capacity says.
static berth_status ensure_capacity(llm_session* session, int64_t tokens, llm_error* error) {
    llm_kv* kv = &session->kv;
    if (tokens <= kv->capacity) return BERTH_OK;
    const llm_model_params* m = &session->model->params;
    int64_t rows = kv->capacity < LEAST_CAPACITY ? LEAST_CAPACITY : kv->capacity;
    while (rows < tokens)
        rows *= 2;
    if (rows > session->options.context_tokens) rows = session->options.context_tokens;
    uint64_t began = llm_now_ns();
    if (kv->used == 0) drop_cache(session); // nothing to copy: old and new need not both fit
    for (int64_t at = 0; at < m->layers; at++) {
        if (!grow_entry(session, &kv->keys[at], rows, m->key_dims) ||
            !grow_entry(session, &kv->values[at], rows, m->value_dims))
            return take_context_error(session->model->context, error);
    }
    kv->capacity = rows;
    session->growth.count++;
    session->growth.ns += llm_now_ns() - began;
    return BERTH_OK;
}

static berth_status check_tokens(const llm_session* session,
                                 const int32_t* ids,
                                 int64_t count,
                                 llm_error* error) {
    int64_t limit = session->options.context_tokens;
    if (count <= 0)
        return llm_fail(error, BERTH_ERR_INVALID_ARGUMENT, "there are no tokens to run");
    if (count > limit - session->kv.used)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "%" PRId64 " tokens after %" PRId64 " are more than the context of %" PRId64
                        " holds",
                        count,
                        session->kv.used,
                        limit);
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= session->model->params.vocab_tokens)
            return llm_fail(error,
                            BERTH_ERR_INVALID_ARGUMENT,
                            "token %" PRId32 " is not in the vocabulary of %" PRId64,
                            ids[i],
                            session->model->params.vocab_tokens);
    }
    return BERTH_OK;
}

/// Looks whether an op that failed took a tensor of the cache with it.
static bool cache_is_whole(const llm_session* session) {
    const llm_kv* kv = &session->kv;
    for (int64_t at = 0; at < session->model->params.layers; at++)
        if (kv->keys[at] == NULL || kv->values[at] == NULL) return false;
    return true;
}

/// Begins the step of `kind` over `count` tokens.
static berth_status begin_step(llm_session* session, llm_step_kind kind, int64_t count) {
    berth_step_input tokens = {.name = "tokens", .rank = 1, .dims = &count};
    berth_step_integer past = {.name = "past", .value = session->kv.used};
    berth_step_desc desc = {.name = llm_step_kind_name(kind),
                            .inputs = &tokens,
                            .input_count = 1,
                            .integers = &past,
                            .integer_count = 1};
    return berth_step_begin(session->model->context, &desc);
}

/// Runs one step and writes its logits [rows, vocab_tokens] to `out_logits`.
static berth_status run_step(llm_session* session,
                             llm_step_kind kind,
                             const int32_t* ids,
                             int64_t count,
                             float* out_logits,
                             llm_error* error) {
    berth_context* ctx = session->model->context;
    const llm_session_options* options = &session->options;
    if (begin_step(session, kind, count) != BERTH_OK) return take_context_error(ctx, error);
    berth_tensor* logits = llm_model_forward(session->model,
                                             &session->kv,
                                             ids,
                                             count,
                                             kind == LLM_STEP_SCORE,
                                             options->hook,
                                             options->hook_user);
    berth_status status = BERTH_OK;
    if (logits != NULL) status = berth_tensor_read(logits, out_logits, berth_tensor_bytes(logits));
    if (status != BERTH_OK) llm_fail(error, status, "%s", berth_last_error());
    berth_release(logits);
    berth_status end = berth_step_end(ctx);
    if (end != BERTH_OK || logits == NULL) status = take_context_error(ctx, error);
    if (status == BERTH_OK)
        session->kv.used += count;
    else if (!cache_is_whole(session))
        drop_cache(session);
    return status;
}

/// Finds the counters that Berth keeps of a kind of step; all zero if it has not seen it.
static berth_step_counters query_counters(const llm_session* session, llm_step_kind kind) {
    berth_step_counters counters = {0};
    berth_runtime* runtime = berth_context_runtime(session->model->context);
    size_t count = berth_runtime_query_step_count(runtime);
    for (size_t i = 0; i < count; i++) {
        const char* name;
        if (berth_runtime_query_step(runtime, i, &name, &counters) != BERTH_OK) break;
        if (strcmp(name, llm_step_kind_name(kind)) == 0) return counters;
    }
    return (berth_step_counters){0};
}

/// Notes `length` among the first different lengths; returns whether enough were known before.
static bool is_learned(llm_step_record* record, int64_t length) {
    if (record->length_count == LLM_LEARNING_LENGTHS) return true;
    for (size_t i = 0; i < record->length_count; i++)
        if (record->lengths[i] == length) return false;
    record->lengths[record->length_count++] = length;
    return false;
}

/// Runs one step and keeps its record.
static berth_status run_recorded(llm_session* session,
                                 llm_step_kind kind,
                                 const int32_t* ids,
                                 int64_t count,
                                 float* out_logits,
                                 llm_error* error) {
    berth_status status = ensure_capacity(session, session->kv.used + count, error);
    if (status != BERTH_OK) return status;
    bool watch = session->options.watch_hits;
    llm_step_record* record = &session->steps[kind];
    int64_t length = kind == LLM_STEP_DECODE ? session->kv.used : count;
    uint64_t hits = watch ? query_counters(session, kind).hits : 0;
    uint64_t began = llm_now_ns();
    status = run_step(session, kind, ids, count, out_logits, error);
    if (status != BERTH_OK) return status;
    record->run_ns += llm_now_ns() - began;
    record->runs++;
    record->tokens += (uint64_t)count;
    if (is_learned(record, length) && watch && query_counters(session, kind).hits == hits)
        record->late_misses++;
    return BERTH_OK;
}

berth_status llm_session_feed(llm_session* session,
                              const int32_t* ids,
                              int64_t count,
                              llm_error* error) {
    berth_status status = check_tokens(session, ids, count, error);
    int64_t chunk = session->options.chunk_tokens == 0 ? count : session->options.chunk_tokens;
    for (int64_t at = 0; at < count && status == BERTH_OK; at += chunk) {
        int64_t size = count - at < chunk ? count - at : chunk;
        llm_step_kind kind = size == 1 ? LLM_STEP_DECODE : LLM_STEP_PREFILL;
        status = run_recorded(session, kind, ids + at, size, session->logits, error);
    }
    return status;
}

berth_status llm_session_score(
    llm_session* session, const int32_t* ids, int64_t count, float* out_logits, llm_error* error) {
    berth_status status = check_tokens(session, ids, count, error);
    if (status != BERTH_OK) return status;
    return run_recorded(session, LLM_STEP_SCORE, ids, count, out_logits, error);
}

/// Chooses tokens and feeds them back until something ends the answer.
static berth_status answer(llm_session* session,
                           const llm_generate_options* options,
                           llm_tokens* out_tokens,
                           llm_generate_result* result,
                           llm_error* error) {
    while (result->tokens < options->max_tokens) {
        int32_t id = llm_sampler_pick(options->sampler, session->logits);
        if (id < 0)
            return llm_fail(error, BERTH_ERR_CORRUPT, "none of the model's logits is a number");
        if (options->tokenizer != NULL && llm_tokenizer_is_stop(options->tokenizer, id)) {
            result->reason = LLM_STOP_TOKEN;
            return BERTH_OK;
        }
        berth_status status = llm_tokens_push(out_tokens, id, error);
        if (status != BERTH_OK) return status;
        result->tokens++;
        if (options->on_token != NULL && !options->on_token(options->user, id)) {
            result->reason = LLM_STOP_CALLER;
            return BERTH_OK;
        }
        if (result->tokens == options->max_tokens) break;
        if (session->kv.used == session->options.context_tokens) {
            result->reason = LLM_STOP_CONTEXT;
            return BERTH_OK;
        }
        status = llm_session_feed(session, &id, 1, error);
        if (status != BERTH_OK) return status;
        result->decode_runs++;
    }
    result->reason = LLM_STOP_LIMIT;
    return BERTH_OK;
}

berth_status llm_generate(llm_session* session,
                          const int32_t* prompt,
                          int64_t count,
                          const llm_generate_options* options,
                          llm_tokens* out_tokens,
                          llm_generate_result* out_result,
                          llm_error* error) {
    *out_result = (llm_generate_result){.reason = LLM_STOP_LIMIT};
    uint64_t began = llm_now_ns();
    berth_status status = llm_session_feed(session, prompt, count, error);
    uint64_t fed = llm_now_ns();
    out_result->prefill_ns = fed - began;
    if (status != BERTH_OK) return status;
    if (options->on_prompt != NULL) options->on_prompt(options->user, session->logits);
    status = answer(session, options, out_tokens, out_result, error);
    out_result->decode_ns = llm_now_ns() - fed;
    return status;
}
