// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of models and sessions: a runtime with a small model on it, and trials that
// record all that a model says.
#ifndef BERTH_TESTS_MODEL_KIT_H
#define BERTH_TESTS_MODEL_KIT_H

#include "llm/llm_kit.h"

#include "session.h"

#include <stdio.h>

/// A model file in memory, made from a seed.
typedef struct random_file {
    void* data;
    llm_gguf* gguf;
} random_file;

static inline random_file random_file_open(const llm_random_spec* spec) {
    random_file file;
    size_t size;
    llm_error error = {{0}};
    if (llm_random_model(spec, &file.data, &size, &error) != BERTH_OK ||
        llm_gguf_open_memory(file.data, size, &file.gguf, &error) != BERTH_OK)
        fail_msg("%s", error.text);
    return file;
}

static inline void random_file_close(random_file* file) {
    llm_gguf_close(file->gguf);
    llm_gguf_writer_release(file->data);
}

/// Everything between a file and its answers.
typedef struct rig {
    berth_runtime* runtime;
    berth_context* context;
    llm_model* model;
    llm_session* session;
    llm_error error;
} rig;

/// How a rig is set up. All zero: the defaults.
typedef struct rig_options {
    const berth_option_setting* settings;
    size_t setting_count;
    llm_session_options session;
} rig_options;

static inline berth_status rig_try_open(rig* r, const llm_gguf* gguf, const rig_options* options) {
    *r = (rig){0};
    berth_runtime_options runtime_options = {.struct_size = sizeof runtime_options,
                                             .settings = options->settings,
                                             .setting_count = options->setting_count};
    berth_status status = berth_runtime_create(&runtime_options, &r->runtime);
    if (status == BERTH_OK) status = berth_context_create(r->runtime, &r->context);
    if (status != BERTH_OK) return llm_fail(&r->error, status, "%s", berth_last_error());
    status = llm_model_create(r->context, gguf, &r->model, &r->error);
    if (status != BERTH_OK) return status;
    return llm_session_create(r->model, &options->session, &r->session, &r->error);
}

static inline void rig_close(rig* r) {
    llm_session_destroy(r->session);
    llm_model_destroy(r->model);
    berth_context_release(r->context);
    berth_runtime_release(r->runtime);
}

static inline void rig_open(rig* r, const llm_gguf* gguf, const rig_options* options) {
    if (rig_try_open(r, gguf, options) != BERTH_OK) fail_msg("%s", r->error.text);
}

static inline void rig_feed(rig* r, const int32_t* ids, int64_t count) {
    if (llm_session_feed(r->session, ids, count, &r->error) != BERTH_OK)
        fail_msg("%s", r->error.text);
}

static inline size_t rig_vocab(const rig* r) { return (size_t)r->model->params.vocab_tokens; }

/// Fills `ids` with seeded tokens of the model's vocabulary.
static inline void make_prompt(uint64_t seed, int64_t vocab, int32_t* ids, int64_t count) {
    uint64_t state = seed;
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((state >> 33) % (uint64_t)vocab);
    }
}

/// Answers `prompt` greedily with `count` tokens, from an empty cache.
static inline void rig_answer(
    rig* r, const int32_t* prompt, int64_t prompt_count, int64_t count, llm_tokens* out) {
    llm_sampler_options greedy = llm_sampler_options_default();
    llm_sampler* sampler;
    if (llm_sampler_create(&greedy, rig_vocab(r), &sampler, &r->error) != BERTH_OK)
        fail_msg("%s", r->error.text);
    llm_generate_options options = {.max_tokens = count, .sampler = sampler};
    llm_generate_result result;
    llm_session_reset(r->session);
    berth_status status =
        llm_generate(r->session, prompt, prompt_count, &options, out, &result, &r->error);
    llm_sampler_destroy(sampler);
    if (status != BERTH_OK) fail_msg("%s", r->error.text);
}

enum { TRIAL_PROMPTS = 9, TRIAL_ANSWER = 12, TRIAL_LONGEST = 200 };

/// All that a model answers to prompts of many lengths: tokens, and the last logits of each answer.
typedef struct trial {
    llm_tokens tokens;
    float* logits; ///< [TRIAL_PROMPTS, vocab]
    size_t vocab;
} trial;

static inline void trial_run(trial* t, rig* r) {
    static const int64_t lengths[TRIAL_PROMPTS] = {5, 17, 33, 64, 65, 1, 120, 40, TRIAL_LONGEST};
    t->tokens = (llm_tokens){0};
    t->vocab = rig_vocab(r);
    t->logits = malloc(TRIAL_PROMPTS * t->vocab * sizeof *t->logits);
    assert_non_null(t->logits);
    for (size_t i = 0; i < TRIAL_PROMPTS; i++) {
        int32_t prompt[TRIAL_LONGEST];
        make_prompt(i + 1, (int64_t)t->vocab, prompt, lengths[i]);
        rig_answer(r, prompt, lengths[i], TRIAL_ANSWER, &t->tokens);
        memcpy(t->logits + i * t->vocab, r->session->logits, t->vocab * sizeof *t->logits);
    }
}

static inline void trial_fini(trial* t) {
    llm_tokens_fini(&t->tokens);
    free(t->logits);
}

/// Runs a trial in a rig of its own.
static inline trial trial_of(const llm_gguf* gguf, const rig_options* options) {
    rig r;
    rig_open(&r, gguf, options);
    trial t;
    trial_run(&t, &r);
    rig_close(&r);
    return t;
}

/// Asserts that two trials agree to the last bit.
static inline void assert_same_trial(const trial* a, const trial* b) {
    assert_int_equal(a->vocab, b->vocab);
    assert_int_equal(a->tokens.count, b->tokens.count);
    assert_memory_equal(a->tokens.ids, b->tokens.ids, a->tokens.count * sizeof *a->tokens.ids);
    assert_memory_equal(a->logits, b->logits, TRIAL_PROMPTS * a->vocab * sizeof *a->logits);
}

/// Counters of a kind of step; fails if Berth does not know it.
static inline berth_step_counters query_step(rig* r, const char* name) {
    berth_step_counters counters;
    const char* found;
    for (size_t i = 0; i < berth_runtime_query_step_count(r->runtime); i++) {
        assert_int_equal(berth_runtime_query_step(r->runtime, i, &found, &counters), BERTH_OK);
        if (strcmp(found, name) == 0) return counters;
    }
    fail_msg("no step %s", name);
    return (berth_step_counters){0};
}

#endif // BERTH_TESTS_MODEL_KIT_H
