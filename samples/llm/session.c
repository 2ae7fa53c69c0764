// SPDX-License-Identifier: Apache-2.0
// Sessions: the cache, steps, and the loop that generates.
#include "session.h"

#include "llm_clock.h"

#include <inttypes.h>
#include <string.h>

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
    return BERTH_OK;
}

/// Makes the cache and its sequence, which shares with nobody: the memory of tokens that are
/// forgotten is free.
static berth_status open_cache(llm_session* session, llm_error* error) {
    berth_kv_options kv = llm_model_kv_options(session->model, session->options.kv_dtype);
    kv.block_tokens = session->options.block_tokens;
    berth_kv_sequence_options sequence = {.struct_size = sizeof sequence, .is_private = true};
    berth_status status = berth_kv_cache_create(session->model->context, &kv, &session->cache);
    if (status == BERTH_OK)
        status = berth_kv_sequence_create(session->cache, &sequence, &session->sequence);
    if (status != BERTH_OK) return llm_fail(error, status, "%s", berth_last_error());
    berth_kv_layout layout;
    berth_kv_cache_layout(session->cache, &layout);
    session->options.block_tokens = layout.block_tokens;
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
    session->model = model;
    session->options = *options;
    if (options->context_tokens == 0)
        session->options.context_tokens = model->params.context_tokens;
    session->logits = llm_alloc_zeroed((size_t)model->params.vocab_tokens, sizeof(float));
    status = session->logits == NULL ? llm_fail_memory(error, "a session's logits")
                                     : open_cache(session, error);
    if (status != BERTH_OK) {
        llm_session_destroy(session);
        return status;
    }
    *out_session = session;
    return BERTH_OK;
}

void llm_session_destroy(llm_session* session) {
    if (session == NULL) return;
    berth_kv_sequence_release(session->sequence);
    berth_kv_cache_release(session->cache);
    llm_free(session->logits);
    llm_free(session);
}

int64_t llm_session_length(const llm_session* session) {
    return berth_kv_sequence_length(session->sequence);
}

void llm_session_reset(llm_session* session) {
    // between feeds no batch is open and nothing is parked: there is nothing to refuse it for
    berth_status status = berth_kv_sequence_truncate(session->sequence, 0);
    (void)status;
}

static berth_status check_tokens(const llm_session* session,
                                 const int32_t* ids,
                                 int64_t count,
                                 llm_error* error) {
    int64_t limit = session->options.context_tokens;
    int64_t length = llm_session_length(session);
    if (count <= 0)
        return llm_fail(error, BERTH_ERR_INVALID_ARGUMENT, "there are no tokens to run");
    if (count > limit - length)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "%" PRId64 " tokens after %" PRId64 " are more than the context of %" PRId64
                        " holds",
                        count,
                        length,
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

/// Where the logits of a step go.
typedef struct logits_copy {
    float* to;
    size_t count;
} logits_copy;

static void copy_logits(void* user, const float* logits) {
    logits_copy* copy = user;
    memcpy(copy->to, logits, copy->count * sizeof *logits);
}

/// Runs one step and writes its logits [rows, vocab_tokens] to `out_logits`.
static berth_status run_step(llm_session* session,
                             llm_step_kind kind,
                             const int32_t* ids,
                             int64_t count,
                             float* out_logits,
                             llm_error* error) {
    berth_kv_part part = {session->sequence, ids, count};
    berth_kv_batch* batch;
    berth_status status = berth_kv_batch_begin(session->cache, &part, 1, &batch);
    if (status != BERTH_OK) return llm_fail(error, status, "%s", berth_last_error());
    int64_t rows = kind == LLM_STEP_SCORE ? count : 1;
    logits_copy copy = {out_logits, (size_t)(rows * session->model->params.vocab_tokens)};
    llm_run_options options = {.kind = kind,
                               .hook = session->options.hook,
                               .hook_user = session->options.hook_user,
                               .on_logits = copy_logits,
                               .logits_user = &copy};
    return llm_model_run(session->model, batch, &options, error);
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
    bool watch = session->options.watch_hits;
    llm_step_record* record = &session->steps[kind];
    int64_t blocks = 1 + llm_session_length(session) / session->options.block_tokens;
    int64_t length = kind == LLM_STEP_DECODE ? blocks : count;
    uint64_t hits = watch ? query_counters(session, kind).hits : 0;
    uint64_t began = llm_now_ns();
    berth_status status = run_step(session, kind, ids, count, out_logits, error);
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
        const size_t made = (size_t)result->tokens;
        const int32_t* answer_ids = made > 0 ? out_tokens->ids + out_tokens->count - made : NULL;
        int32_t id = llm_sampler_pick(options->sampler, answer_ids, made, session->logits);
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
        if (llm_session_length(session) == session->options.context_tokens) {
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
