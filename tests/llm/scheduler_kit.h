// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the scheduler: a model with a scheduler on it, and chats that remember all
// they hear.
#ifndef BERTH_TESTS_SCHEDULER_KIT_H
#define BERTH_TESTS_SCHEDULER_KIT_H

#include "llm/model_kit.h"

#include "scheduler_internal.h"

enum { CHAT_TOKENS = 512 };

/// A request, and what came of it.
typedef struct chat {
    int32_t prompt[CHAT_TOKENS];
    int64_t prompt_count;
    int64_t max_tokens;
    int32_t expected[CHAT_TOKENS]; ///< [max_tokens], what a session of its own answers
    int32_t answer[CHAT_TOKENS];
    int64_t count;
    uint64_t id;
    int ends; ///< times that on_end came
    llm_request_end end;
    char text[512];
    int64_t stops_after; ///< tokens after which on_token returns false; 0: never
} chat;

static inline bool chat_on_token(void* user, uint64_t id, const llm_answer_token* token) {
    chat* c = user;
    assert_int_equal(id, c->id);
    assert_int_equal(c->ends, 0);
    assert_true(c->count < c->max_tokens);
    c->answer[c->count++] = token->id;
    return c->count != c->stops_after;
}

static inline void chat_on_end(void* user, uint64_t id, const llm_request_end* end) {
    chat* c = user;
    assert_true(id == c->id);
    c->ends++;
    c->end = *end;
    snprintf(c->text, sizeof c->text, "%s", end->text);
    c->end.text = c->text;
    assert_int_equal(end->answer_tokens, c->count);
    assert_int_equal(end->prompt_tokens, c->prompt_count);
}

/// Everything between a file and a scheduler.
typedef struct server {
    berth_runtime* runtime;
    berth_context* context;
    llm_model* model;
    llm_scheduler* scheduler;
    llm_error error;
} server;

/// How a server is set up. All zero: the defaults, blocks of 16 tokens of f32.
typedef struct server_options {
    const berth_option_setting* settings;
    size_t setting_count;
    const berth_host_allocator* host;
    uint64_t kv_bytes;
    uint64_t park_bytes;
    int64_t block_tokens;
    llm_scheduler_options scheduler;
} server_options;

static inline berth_status server_try_open(server* s,
                                           const llm_gguf* gguf,
                                           const server_options* options) {
    *s = (server){0};
    berth_runtime_options runtime_options = {.struct_size = sizeof runtime_options,
                                             .host = options->host,
                                             .settings = options->settings,
                                             .setting_count = options->setting_count};
    berth_status status = berth_runtime_create(&runtime_options, &s->runtime);
    if (status == BERTH_OK) status = berth_context_create(s->runtime, &s->context);
    if (status != BERTH_OK) return llm_fail(&s->error, status, "%s", berth_last_error());
    status = llm_model_create(s->context, gguf, &s->model, &s->error);
    if (status != BERTH_OK) return status;
    berth_kv_options kv = llm_model_kv_options(s->model, BERTH_F32);
    kv.max_bytes = options->kv_bytes;
    kv.park_bytes = options->park_bytes;
    kv.block_tokens = options->block_tokens;
    return llm_scheduler_create(s->model, &kv, &options->scheduler, &s->scheduler, &s->error);
}

static inline void server_open(server* s, const llm_gguf* gguf, const server_options* options) {
    if (server_try_open(s, gguf, options) != BERTH_OK) fail_msg("%s", s->error.text);
}

static inline void server_close(server* s) {
    llm_scheduler_destroy(s->scheduler);
    llm_model_destroy(s->model);
    berth_context_release(s->context);
    berth_runtime_release(s->runtime);
}

static inline llm_scheduler_stats server_stats(const server* s) {
    llm_scheduler_stats stats;
    llm_scheduler_query_stats(s->scheduler, &stats);
    return stats;
}

static inline berth_kv_stats server_kv_stats(const server* s) {
    berth_kv_stats stats;
    berth_kv_cache_query_stats(llm_scheduler_cache(s->scheduler), &stats);
    return stats;
}

static inline llm_request chat_request(chat* c) {
    return (llm_request){.prompt = c->prompt,
                         .prompt_count = c->prompt_count,
                         .max_tokens = c->max_tokens,
                         .sampling = llm_sampler_options_default(),
                         .on_token = chat_on_token,
                         .on_end = chat_on_end,
                         .user = c};
}

static inline void server_ask(server* s, const llm_request* request) {
    chat* c = request->user;
    if (llm_scheduler_submit(s->scheduler, request, &c->id, &s->error) != BERTH_OK)
        fail_msg("%s", s->error.text);
}

static inline void server_submit(server* s, chat* c) {
    llm_request request = chat_request(c);
    server_ask(s, &request);
}

static inline void assert_is_in_order(const llm_task_list* list) {
    for (size_t i = 1; i < list->count; i++)
        assert_true(list->items[i - 1]->turn < list->items[i]->turn);
}

/// Asserts what holds between steps, by the numbers of the scheduler's invariants.
static inline void assert_scheduler_is_valid(const llm_scheduler* s) {
    assert_is_in_order(&s->running);
    assert_is_in_order(&s->parked);
    for (size_t i = 0; i < s->running.count; i++) // SC2
        for (size_t j = 0; j < s->parked.count; j++)
            if (s->running.items[i]->tenant == s->parked.items[j]->tenant)
                assert_true(s->running.items[i]->turn < s->parked.items[j]->turn);
    int64_t taken = 0;
    int64_t waiting = 0;
    int64_t parked = 0;
    for (size_t i = 0; i < s->tenants.active_count; i++) {
        const llm_tenant* t = s->tenants.active[i];
        assert_true(t->queued + t->running > 0);
        assert_true(t->served >= s->tenants.floor);
        taken += t->running;
        waiting += t->queued;
        parked += t->parked;
    }
    assert_int_equal(taken, s->running.count + s->parked.count);
    assert_int_equal(waiting, s->queued);
    assert_int_equal(parked, s->parked.count);
}

/// One step; returns whether there is more to do. The oldest request has to get further, unless it
/// gives way.
static inline bool server_step(server* s) {
    const llm_scheduler* scheduler = s->scheduler;
    const llm_task* oldest = scheduler->running.count > 0 ? scheduler->running.items[0] : NULL;
    uint64_t id = oldest == NULL ? 0 : oldest->id;
    int64_t fed = oldest == NULL ? 0 : oldest->fed;
    int64_t parks = oldest == NULL ? 0 : oldest->end.parks;
    uint64_t failed = server_stats(s).failed + server_stats(s).step_refusals;
    bool was_suspect = false;
    for (size_t i = 0; i < scheduler->running.count; i++)
        was_suspect = was_suspect || scheduler->running.items[i]->is_suspect;
    llm_step_summary summary;
    if (llm_scheduler_step(s->scheduler, &summary, &s->error) != BERTH_OK)
        fail_msg("%s", s->error.text);
    assert_scheduler_is_valid(scheduler);
    bool is_there = scheduler->running.count > 0 && scheduler->running.items[0]->id == id;
    bool went_wrong = server_stats(s).failed + server_stats(s).step_refusals != failed;
    if (is_there) is_there = scheduler->running.items[0]->end.parks == parks;
    if (is_there && summary.ran && !was_suspect && !went_wrong)
        assert_true(scheduler->running.items[0]->fed > fed);
    return !summary.is_idle;
}

/// Steps until nothing is left to do; a number of steps that no honest run needs is a failure.
static inline void server_run(server* s) {
    for (int step = 0; server_step(s); step++)
        assert_true(step < 20000);
}

/// Makes a chat of seeded tokens and has a session answer it.
static inline void chat_make(
    chat* c, rig* alone, uint64_t seed, int64_t prompt_count, int64_t max_tokens) {
    *c = (chat){.prompt_count = prompt_count, .max_tokens = max_tokens};
    make_prompt(seed, (int64_t)rig_vocab(alone), c->prompt, prompt_count);
    llm_tokens answer = {0};
    rig_answer(alone, c->prompt, prompt_count, max_tokens, &answer);
    assert_int_equal(answer.count, max_tokens);
    memcpy(c->expected, answer.ids, answer.count * sizeof *answer.ids);
    llm_tokens_fini(&answer);
}

/// Makes `count` chats of seeded lengths, up to `longest` tokens of prompt and of answer.
static inline void chats_make(
    chat* chats, size_t count, const llm_gguf* gguf, uint64_t seed, int64_t longest) {
    rig alone;
    rig_open(&alone, gguf, &(rig_options){0});
    for (size_t i = 0; i < count; i++) {
        uint64_t mix = (seed + i + 1) * 0x9e3779b97f4a7c15u;
        int64_t prompt = 1 + (int64_t)((mix >> 40) % (uint64_t)longest);
        int64_t answer = 1 + (int64_t)((mix >> 20) % (uint64_t)longest);
        chat_make(&chats[i], &alone, mix, prompt, answer);
    }
    rig_close(&alone);
}

/// Has the chats asked again.
static inline void chats_forget(chat* chats, size_t count) {
    for (size_t i = 0; i < count; i++) {
        chats[i].count = 0;
        chats[i].ends = 0;
        chats[i].id = 0;
    }
}

static inline void assert_answered(const chat* c) {
    assert_int_equal(c->ends, 1);
    if (c->end.reason != LLM_END_LIMIT)
        fail_msg("ended as %s: %s", llm_end_text(c->end.reason), c->text);
    assert_int_equal(c->count, c->max_tokens);
    assert_memory_equal(c->answer, c->expected, (size_t)c->max_tokens * sizeof *c->answer);
}

/// Asks all chats of a server at once and asserts that each gets the tokens that it gets alone.
static inline void assert_all_answered(server* s, chat* chats, size_t count) {
    chats_forget(chats, count);
    for (size_t i = 0; i < count; i++)
        server_submit(s, &chats[i]);
    server_run(s);
    for (size_t i = 0; i < count; i++)
        assert_answered(&chats[i]);
    assert_int_equal(server_kv_stats(s).sequences, 0);
    assert_int_equal(server_kv_stats(s).held_blocks, 0);
}

enum {
    WIDE_CHATS = 4,
    WIDE_PROMPT = 90,
    WIDE_ANSWER = 110,
    WIDE_KV_BYTES = 2 << 20, ///< a granule: 512 tokens of the wide model, for two and a half chats
};

/// A model whose keys and values are large beside its work: 4 KiB a token.
static inline llm_random_spec wide_spec(void) {
    llm_random_spec spec = llm_random_spec_tiny(9);
    spec.width = 256;
    spec.heads = 16;
    spec.kv_heads = 16;
    return spec;
}

/// Opens the wide model and makes four long chats with it.
static inline random_file wide_file_open(chat* chats) {
    llm_random_spec spec = wide_spec();
    random_file file = random_file_open(&spec);
    rig alone;
    rig_open(&alone, file.gguf, &(rig_options){0});
    for (size_t i = 0; i < WIDE_CHATS; i++)
        chat_make(&chats[i], &alone, 100 + i, WIDE_PROMPT + (int64_t)i, WIDE_ANSWER);
    rig_close(&alone);
    return file;
}

#endif // BERTH_TESTS_SCHEDULER_KIT_H
