// SPDX-License-Identifier: Apache-2.0
// Tests of the scheduler: the same tokens however requests are served together, and the ends that
// they come to.
#include "llm/scheduler_kit.h"

enum { CHATS = 12, LONGEST = 60 };

static random_file tiny;
static chat chats[CHATS];

static int open_tiny(void** state) {
    (void)state;
    llm_random_spec spec = llm_random_spec_tiny(7);
    tiny = random_file_open(&spec);
    chats_make(chats, CHATS, tiny.gguf, 1, LONGEST);
    return 0;
}

static int close_tiny(void** state) {
    (void)state;
    random_file_close(&tiny);
    return 0;
}

// The same tokens.

static void assert_same_as_alone(const server_options* options) {
    server s;
    server_open(&s, tiny.gguf, options);
    // more than once, so that planned runs and cached prompts are among them
    for (int i = 0; i < 3; i++)
        assert_all_answered(&s, chats, CHATS);
    server_close(&s);
}

// SC4.
static void requests_that_are_served_together_get_what_they_get_alone(void** state) {
    (void)state;
    assert_same_as_alone(&(server_options){0});
    assert_same_as_alone(&(server_options){.scheduler = {.max_running = 3}});
    assert_same_as_alone(&(server_options){.block_tokens = 1});
}

static void prompts_in_pieces_give_the_same_tokens_as_whole(void** state) {
    (void)state;
    static const int64_t budgets[] = {1, 5, 17, 64};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++)
        assert_same_as_alone(&(server_options){.scheduler = {.step_tokens = budgets[i]}});
}

static void modes_and_devices_change_no_token(void** state) {
    (void)state;
    static const berth_option_setting settings[] = {
        {"mode", "pool"},
        {"mode", "system"},
        {"device", "sim"},
        {"compact", "always"},
        {"plan_cache_entries", "1"},
        {"threads", "1"},
        {"keep", "none"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        assert_same_as_alone(&(server_options){.settings = &settings[i], .setting_count = 1});
}

static void a_prompt_that_is_cached_gives_the_same_tokens(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){0});
    assert_all_answered(&s, chats, CHATS);
    uint64_t computed = server_stats(&s).computed_tokens;
    assert_all_answered(&s, chats, CHATS);
    llm_scheduler_stats stats = server_stats(&s);
    int64_t cached = 0;
    for (size_t i = 0; i < CHATS; i++) {
        assert_in_range(chats[i].end.cached_tokens, 0, chats[i].prompt_count - 1);
        cached += chats[i].end.cached_tokens;
    }
    assert_true(cached > 0);
    assert_int_equal(stats.cached_tokens, cached);
    assert_int_equal(stats.computed_tokens + (uint64_t)cached, 2 * computed);
    server_close(&s);
}

static void only_equal_keys_share(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){0});
    chat c = chats[0];
    c.prompt_count = 40;
    c.max_tokens = 1;
    static const struct {
        const char* key;
        bool is_private;
        bool finds;
    } turns[] = {{"a", false, false},
                 {"a", false, true},
                 {"b", false, false},
                 {"a", true, false},
                 {"b", false, true}};
    make_prompt(99, (int64_t)s.model->params.vocab_tokens, c.prompt, 40);
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        chats_forget(&c, 1);
        llm_request request = chat_request(&c);
        request.key = turns[i].key;
        request.key_bytes = 1;
        request.is_private = turns[i].is_private;
        server_ask(&s, &request);
        server_run(&s);
        assert_int_equal(c.end.reason, LLM_END_LIMIT);
        if (turns[i].finds)
            assert_in_range(c.end.cached_tokens, 32, 39);
        else
            assert_int_equal(c.end.cached_tokens, 0);
    }
    server_close(&s);
}

static void sampled_answers_follow_their_own_seed_only(void** state) {
    (void)state;
    int32_t first[LONGEST];
    for (int round = 0; round < 2; round++) {
        server s;
        server_open(&s, tiny.gguf, &(server_options){.scheduler = {.parks_always = round > 0}});
        chats_forget(chats, CHATS);
        for (size_t i = 0; i < (round > 0 ? (size_t)CHATS : 1); i++) {
            llm_request request = chat_request(&chats[i]);
            request.sampling = (llm_sampler_options){.temperature = 2, .top_p = 1, .seed = 5};
            server_ask(&s, &request);
        }
        server_run(&s);
        if (round == 0)
            memcpy(first, chats[0].answer, sizeof first);
        else
            assert_memory_equal(first, chats[0].answer, (size_t)chats[0].count * sizeof *first);
        server_close(&s);
    }
}

/// What was told of an answer's tokens.
typedef struct told_logprobs {
    int64_t count;
    size_t top_count; ///< that each is to have
    float logprobs[LONGEST];
    llm_token_logprob top[LONGEST][3];
} told_logprobs;

static bool keep_logprobs(void* user, uint64_t id, const llm_answer_token* token) {
    (void)id;
    told_logprobs* t = user;
    assert_true(token->has_logprobs);
    assert_int_equal(token->top_count, t->top_count);
    assert_true(token->logprob <= 0.0F && token->logprob >= (float)LLM_LEAST_LOGPROB);
    t->logprobs[t->count] = token->logprob;
    memcpy(t->top[t->count++], token->top, token->top_count * sizeof *token->top);
    // a greedy choice is the likeliest
    if (token->top_count > 0) {
        assert_int_equal(token->top[0].id, token->id);
        assert_true(token->top[0].logprob == token->logprob);
    }
    return true;
}

// SC4.
static void log_probabilities_are_the_same_alone_and_together(void** state) {
    (void)state;
    static told_logprobs told[2][CHATS];
    memset(told, 0, sizeof told);
    for (size_t round = 0; round < 2; round++) {
        server s;
        server_open(&s, tiny.gguf, &(server_options){.scheduler = {.parks_always = round > 0}});
        for (size_t i = 0; i < CHATS; i++) {
            told_logprobs* t = &told[round][i];
            t->top_count = i % 4;
            llm_request request = chat_request(&chats[i]);
            request.wants_logprobs = true;
            request.top_logprobs = (int32_t)t->top_count;
            request.on_token = keep_logprobs;
            request.on_end = NULL;
            request.user = t;
            if (llm_scheduler_submit(s.scheduler, &request, NULL, &s.error) != BERTH_OK)
                fail_msg("%s", s.error.text);
            if (round == 0) server_run(&s);
        }
        server_run(&s);
        server_close(&s);
    }
    for (size_t i = 0; i < CHATS; i++)
        assert_int_equal(told[0][i].count, chats[i].max_tokens);
    assert_memory_equal(told[0], told[1], sizeof told[0]);
}

static bool expect_no_logprobs(void* user, uint64_t id, const llm_answer_token* token) {
    (void)id;
    (void)user;
    assert_false(token->has_logprobs);
    assert_int_equal(token->top_count, 0);
    return true;
}

static int32_t choose_seven(void* user, uint64_t id, int64_t index) {
    (void)user;
    (void)id;
    (void)index;
    return 7;
}

static void log_probabilities_are_told_only_where_wanted_and_known(void** state) {
    (void)state;
    for (int round = 0; round < 2; round++) {
        server s;
        // tokens that do not come from logits have none
        server_open(&s,
                    tiny.gguf,
                    &(server_options){.scheduler = {.token_of = round == 0 ? NULL : choose_seven}});
        chats_forget(chats, 1);
        llm_request request = chat_request(&chats[0]);
        request.on_token = expect_no_logprobs;
        request.on_end = NULL;
        request.wants_logprobs = round == 1;
        request.top_logprobs = 2;
        if (llm_scheduler_submit(s.scheduler, &request, NULL, &s.error) != BERTH_OK)
            fail_msg("%s", s.error.text);
        server_run(&s);
        assert_int_equal(server_stats(&s).finished, 1);
        server_close(&s);
    }
}

// SC4.
static void penalties_and_bias_are_a_requests_own(void** state) {
    (void)state;
    int32_t first[LONGEST];
    for (int round = 0; round < 2; round++) {
        server s;
        server_open(&s, tiny.gguf, &(server_options){.scheduler = {.parks_always = round > 0}});
        chats_forget(chats, CHATS);
        llm_logit_bias bias[] = {{chats[0].expected[0], -100}, {5, 0.5F}};
        llm_request request = chat_request(&chats[0]);
        request.sampling.logit_bias = bias;
        request.sampling.logit_bias_count = 2;
        request.sampling.presence_penalty = 2;
        request.sampling.frequency_penalty = 2;
        server_ask(&s, &request);
        memset(bias, 0, sizeof bias); // it was copied
        for (size_t i = 1; i < (round > 0 ? (size_t)CHATS : 1); i++)
            server_submit(&s, &chats[i]);
        server_run(&s);
        assert_int_equal(chats[0].end.reason, LLM_END_LIMIT);
        for (int64_t i = 0; i < chats[0].count; i++)
            assert_int_not_equal(chats[0].answer[i], chats[0].expected[0]);
        if (round == 0)
            memcpy(first, chats[0].answer, sizeof first);
        else
            assert_memory_equal(first, chats[0].answer, (size_t)chats[0].count * sizeof *first);
        for (size_t i = 1; i < CHATS && round > 0; i++)
            assert_answered(&chats[i]);
        server_close(&s);
    }
}

// Ends.

static void an_answer_ends_when_its_caller_says_so(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){0});
    chats_forget(chats, CHATS);
    for (size_t i = 0; i < CHATS; i++)
        server_submit(&s, &chats[i]);
    chats[3].stops_after = 1;
    server_run(&s);
    chats[3].stops_after = 0;
    assert_int_equal(chats[3].end.reason, LLM_END_CALLER);
    assert_int_equal(chats[3].count, 1);
    for (size_t i = 0; i < CHATS; i++)
        if (i != 3) assert_answered(&chats[i]);
    server_close(&s);
}

// SC1.
static void a_cancelled_request_ends_once_wherever_it_is(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){.scheduler = {.max_running = 4}});
    chats_forget(chats, CHATS);
    for (size_t i = 0; i < CHATS; i++)
        server_submit(&s, &chats[i]);
    assert_true(server_step(&s));
    assert_true(llm_scheduler_cancel(s.scheduler, chats[1].id));
    assert_true(llm_scheduler_cancel(s.scheduler, chats[1].id)); // still the same one
    assert_true(llm_scheduler_cancel(s.scheduler, chats[CHATS - 1].id));
    assert_true(server_step(&s));
    assert_int_equal(chats[1].end.reason, LLM_END_CANCELLED);
    assert_int_equal(chats[CHATS - 1].end.reason, LLM_END_CANCELLED);
    assert_false(llm_scheduler_cancel(s.scheduler, chats[1].id));
    assert_false(llm_scheduler_cancel(s.scheduler, 1000));
    server_run(&s);
    for (size_t i = 0; i < CHATS; i++) {
        assert_int_equal(chats[i].ends, 1);
        if (i != 1 && i != CHATS - 1) assert_answered(&chats[i]);
    }
    assert_int_equal(server_stats(&s).cancelled, 2);
    server_close(&s);
}

// SC1.
static void the_end_of_a_scheduler_ends_its_requests(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){.scheduler = {.max_running = 2}});
    chats_forget(chats, CHATS);
    for (size_t i = 0; i < CHATS; i++)
        server_submit(&s, &chats[i]);
    assert_true(server_step(&s));
    server_close(&s);
    for (size_t i = 0; i < CHATS; i++) {
        assert_int_equal(chats[i].ends, 1);
        assert_true(chats[i].end.reason == LLM_END_CANCELLED ||
                    chats[i].end.reason == LLM_END_LIMIT);
    }
}

/// Chooses tokens for a test: 7 for all, but one that is none for request 2.
static int32_t choose_token(void* user, uint64_t id, int64_t index) {
    (void)user;
    return id == 2 && index == 3 ? -1 : 7;
}

static void a_request_that_fails_leaves_its_neighbours_alone(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){.scheduler = {.token_of = choose_token}});
    chats_forget(chats, CHATS);
    for (size_t i = 0; i < CHATS; i++) {
        chats[i].max_tokens += 4;
        server_submit(&s, &chats[i]);
    }
    server_run(&s);
    for (size_t i = 0; i < CHATS; i++) {
        bool fails = chats[i].id == 2;
        assert_int_equal(chats[i].ends, 1);
        assert_int_equal(chats[i].end.reason, fails ? LLM_END_FAILED : LLM_END_LIMIT);
        assert_int_equal(chats[i].count, fails ? 3 : chats[i].max_tokens);
        chats[i].max_tokens -= 4;
    }
    assert_int_equal(server_stats(&s).failed, 1);
    server_close(&s);
}

static void a_request_beyond_the_context_is_refused_at_once_with_both_numbers(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){.scheduler = {.context_tokens = 100}});
    chat c = {.prompt_count = 60, .max_tokens = 41};
    server_submit(&s, &c);
    assert_int_equal(c.ends, 1);
    assert_int_equal(c.id, 0);
    assert_int_equal(c.end.reason, LLM_END_REFUSED_TOO_LARGE);
    assert_int_equal(c.end.status, BERTH_ERR_OUT_OF_MEMORY);
    assert_non_null(strstr(c.text, "101 tokens"));
    assert_non_null(strstr(c.text, "100 tokens"));
    c = (chat){.prompt_count = 60, .max_tokens = INT32_MAX};
    server_submit(&s, &c);
    assert_int_equal(c.end.reason, LLM_END_REFUSED_TOO_LARGE);
    c = (chat){.prompt_count = 60, .max_tokens = 40};
    server_submit(&s, &c);
    assert_true(c.id > 0);
    server_run(&s);
    assert_int_equal(c.end.reason, LLM_END_LIMIT);
    server_close(&s);
}

static void a_full_queue_refuses(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){.scheduler = {.max_queued = 2}});
    chats_forget(chats, CHATS);
    for (size_t i = 0; i < 3; i++)
        server_submit(&s, &chats[i]);
    assert_int_equal(chats[2].end.reason, LLM_END_REFUSED_QUEUE_FULL);
    assert_non_null(strstr(chats[2].text, "2 requests"));
    server_run(&s);
    assert_answered(&chats[0]);
    assert_answered(&chats[1]);
    assert_int_equal(chats[2].ends, 1);
    server_close(&s);
}

static void requests_that_wait_take_no_more_host_memory_than_they_may(void** state) {
    (void)state;
    enum { MOST = 2 << 20, TOKENS = 250 }; // a kilobyte each, and what is known of it
    server s;
    server_open(&s, tiny.gguf, &(server_options){0});
    static chat c;
    c = (chat){.prompt_count = 1, .max_tokens = TOKENS - 1};
    llm_request request = chat_request(&c);
    request.on_end = NULL;
    uint64_t taken = 0;
    for (uint64_t id = 1; id != 0; taken += id != 0)
        if (llm_scheduler_submit(s.scheduler, &request, &id, &s.error) != BERTH_OK)
            fail_msg("%s", s.error.text);
    assert_in_range(taken, 1, MOST / (TOKENS * sizeof(int32_t)));
    server_submit(&s, &c);
    assert_int_equal(c.end.reason, LLM_END_REFUSED_QUEUE_FULL);
    assert_non_null(strstr(c.text, "may be 2097152 bytes"));
    for (uint64_t id = 1; id <= taken; id++)
        assert_true(llm_scheduler_cancel(s.scheduler, id));
    server_run(&s);
    assert_int_equal(s.scheduler->queued_bytes, 0);
    chats_forget(&c, 1);
    server_submit(&s, &c); // what went has made room
    assert_int_not_equal(c.id, 0);
    assert_true(s.scheduler->queued_bytes > 0);
    llm_scheduler_cancel(s.scheduler, c.id);
    server_close(&s);
}

static void one_request_may_wait_however_long_it_is(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){.scheduler = {.max_queued_bytes = 1}});
    chats_forget(chats, 2);
    server_submit(&s, &chats[0]);
    server_submit(&s, &chats[1]);
    assert_int_equal(chats[1].end.reason, LLM_END_REFUSED_QUEUE_FULL);
    server_run(&s);
    assert_answered(&chats[0]);
    assert_int_equal(s.scheduler->queued_bytes, 0);
    server_close(&s);
}

// Quotas.

static void a_tenant_over_its_quota_waits_while_others_are_served(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){.scheduler = {.tenant_running = 1}});
    chats_forget(chats, 4);
    for (size_t i = 0; i < 4; i++) {
        llm_request request = chat_request(&chats[i]);
        request.tenant = i < 3 ? 1 : 2;
        server_ask(&s, &request);
    }
    bool has_more = true;
    while (has_more) {
        has_more = server_step(&s);
        int running = 0;
        for (size_t i = 0; i < s.scheduler->running.count; i++)
            running += s.scheduler->running.items[i]->tenant->id == 1;
        assert_in_range(running, 0, 1);
    }
    for (size_t i = 0; i < 4; i++)
        assert_answered(&chats[i]);
    assert_true(chats[3].end.admit_ns < chats[1].end.admit_ns);
    server_close(&s);
}

static void however_many_of_a_tenant_wait_another_one_is_served(void** state) {
    (void)state;
    enum { MANY = 300 };
    server s;
    server_open(&s, tiny.gguf, &(server_options){.scheduler = {.tenant_running = 1}});
    chats_forget(chats, 2);
    llm_request request = chat_request(&chats[0]);
    request.max_tokens = CHAT_TOKENS / 2;
    request.on_token = NULL;
    request.on_end = NULL;
    uint64_t id;
    for (int i = 0; i < MANY; i++)
        if (llm_scheduler_submit(s.scheduler, &request, &id, &s.error) != BERTH_OK)
            fail_msg("%s", s.error.text);
    server_step(&s); // all are held back but one
    llm_request other = chat_request(&chats[1]);
    other.tenant = 1;
    server_ask(&s, &other);
    server_step(&s);
    assert_int_equal(server_stats(&s).running, 2);
    assert_true(llm_scheduler_cancel(s.scheduler, 2)); // one that is held back
    assert_true(llm_scheduler_cancel(s.scheduler, 1));
    server_step(&s);
    assert_int_equal(server_stats(&s).running, 2);
    assert_int_equal(s.scheduler->running.items[1]->id, 3);
    for (uint64_t i = 3; i <= id; i++)
        assert_true(llm_scheduler_cancel(s.scheduler, i));
    server_run(&s);
    assert_answered(&chats[1]);
    server_close(&s);
}

static void what_a_tenant_can_never_have_is_refused_at_once_with_both_numbers(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){.scheduler = {.tenant_blocks = 4}});
    chat c = {.prompt_count = 60, .max_tokens = 6}; // 65 tokens are fed
    server_submit(&s, &c);
    assert_int_equal(c.end.reason, LLM_END_REFUSED_QUOTA);
    assert_non_null(strstr(c.text, "5 blocks"));
    assert_non_null(strstr(c.text, "4 blocks"));
    chat fitting[3];
    for (size_t i = 0; i < 3; i++) {
        fitting[i] = (chat){.prompt_count = 20, .max_tokens = 10};
        server_submit(&s, &fitting[i]);
    }
    bool has_more = true;
    while (has_more) {
        has_more = server_step(&s);
        assert_in_range(s.scheduler->running.count, 0, 2);
    }
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(fitting[i].end.reason, LLM_END_LIMIT);
    server_close(&s);
}

// Callbacks, options, statistics.

/// Asks and cancels from within callbacks.
typedef struct talker {
    server* server;
    chat* next;
    uint64_t cancels;
    int ends;
} talker;

static bool talk_on(void* user, uint64_t id, const llm_answer_token* token) {
    (void)id;
    (void)token;
    talker* t = user;
    llm_step_summary summary;
    llm_error error;
    assert_int_equal(llm_scheduler_step(t->server->scheduler, &summary, &error), BERTH_ERR_STATE);
    if (t->cancels != 0) llm_scheduler_cancel(t->server->scheduler, t->cancels);
    t->cancels = 0;
    return true;
}

static void talk_again(void* user, uint64_t id, const llm_request_end* end) {
    (void)id;
    (void)end;
    talker* t = user;
    t->ends++;
    if (t->next != NULL) server_submit(t->server, t->next);
    t->next = NULL;
}

static void callbacks_may_submit_and_cancel(void** state) {
    (void)state;
    server s;
    server_open(&s, tiny.gguf, &(server_options){0});
    chats_forget(chats, 3);
    talker t = {.server = &s, .next = &chats[0]};
    server_submit(&s, &chats[1]);
    server_submit(&s, &chats[2]);
    t.cancels = chats[2].id;
    llm_request request = chat_request(&chats[0]);
    request.on_token = talk_on;
    request.on_end = talk_again;
    request.user = &t;
    request.max_tokens = 2;
    assert_int_equal(llm_scheduler_submit(s.scheduler, &request, NULL, &s.error), BERTH_OK);
    server_run(&s);
    assert_int_equal(t.ends, 1);
    assert_answered(&chats[0]); // submitted as the other one ended
    assert_answered(&chats[1]);
    assert_int_equal(chats[2].ends, 1);
    server_close(&s);
}

static void requests_and_options_that_cannot_be_are_refused(void** state) {
    (void)state;
    server s;
    static const struct {
        llm_scheduler_options options;
        const char* mention;
    } cases[] = {
        {{.step_tokens = -1}, "step_tokens is -1"},
        {{.step_tokens = 8, .max_running = 9}, "max_running is 9"},
        {{.max_queued = -2}, "max_queued is -2"},
        {{.context_tokens = 513}, "context_tokens is 513"},
        {{.tenant_blocks = -1}, "tenant_blocks is -1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(
            server_try_open(&s, tiny.gguf, &(server_options){.scheduler = cases[i].options}),
            BERTH_ERR_INVALID_ARGUMENT);
        assert_null(s.scheduler);
        assert_mentions(&s.error, cases[i].mention);
        server_close(&s);
    }
    server_open(&s, tiny.gguf, &(server_options){0});
    const int32_t ids[] = {1, 272};
    const llm_request good = {.prompt = ids,
                              .prompt_count = 1,
                              .max_tokens = 1,
                              .sampling = llm_sampler_options_default()};
    llm_request bad[10] = {good, good, good, good, good, good, good, good, good, good};
    bad[0].prompt = NULL;
    bad[1].prompt_count = 0;
    bad[2].prompt_count = 2;
    bad[3].max_tokens = 0;
    bad[4].key_bytes = 1;
    bad[5].key_bytes = 257;
    bad[6].sampling.temperature = -1;
    const llm_logit_bias beyond = {272, 1};
    bad[7].sampling.logit_bias = &beyond;
    bad[7].sampling.logit_bias_count = 1;
    bad[8].top_logprobs = 21;
    bad[9].top_logprobs = -1;
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(llm_scheduler_submit(s.scheduler, &bad[i], NULL, &s.error),
                         BERTH_ERR_INVALID_ARGUMENT);
    assert_int_equal(server_stats(&s).submitted, 0);
    llm_step_summary summary;
    assert_int_equal(llm_scheduler_step(s.scheduler, &summary, &s.error), BERTH_OK);
    assert_true(summary.is_idle && !summary.ran);
    server_close(&s);
}

static void words_name_the_ends(void** state) {
    (void)state;
    assert_string_equal(llm_end_text(LLM_END_LIMIT), "limit");
    assert_string_equal(llm_end_text(LLM_END_FAILED), "failed");
    assert_string_equal(llm_end_text(LLM_END_COUNT), "unknown");
}

/// A clock that goes on by what a step computes.
typedef struct clock_of_steps {
    uint64_t now_ns;
    uint64_t tokens;
} clock_of_steps;

static uint64_t read_clock(void* user) { return ((clock_of_steps*)user)->now_ns; }

static void advance_clock(void* user, const llm_step_summary* step) {
    clock_of_steps* c = user;
    c->now_ns += 1000 + (uint64_t)step->tokens;
    c->tokens += (uint64_t)step->tokens;
    assert_true(step->ran && step->tokens >= step->sequences && step->answers <= step->sequences);
    assert_int_equal(step->prompt_tokens, step->tokens - step->sequences);
    assert_true(step->key_tokens >= step->tokens);
}

static void times_are_those_of_the_given_clock(void** state) {
    (void)state;
    clock_of_steps c = {.now_ns = 5};
    server s;
    server_open(&s,
                tiny.gguf,
                &(server_options){
                    .scheduler = {.now = read_clock, .after_step = advance_clock, .user = &c}});
    assert_all_answered(&s, chats, CHATS);
    llm_scheduler_stats stats = server_stats(&s);
    assert_int_equal(stats.computed_tokens, c.tokens);
    assert_int_equal(stats.finished, CHATS);
    for (size_t i = 0; i < CHATS; i++) {
        const llm_request_end* end = &chats[i].end;
        assert_int_equal(end->submit_ns, 5);
        assert_true(end->admit_ns >= 5 && end->first_token_ns > end->admit_ns);
        assert_true(end->end_ns >= end->first_token_ns && end->end_ns <= c.now_ns);
    }
    assert_true(stats.whole_ns >= stats.scheduler_ns + stats.kv_ns + stats.step_ns);
    server_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_that_are_served_together_get_what_they_get_alone),
        cmocka_unit_test(prompts_in_pieces_give_the_same_tokens_as_whole),
        cmocka_unit_test(modes_and_devices_change_no_token),
        cmocka_unit_test(a_prompt_that_is_cached_gives_the_same_tokens),
        cmocka_unit_test(only_equal_keys_share),
        cmocka_unit_test(sampled_answers_follow_their_own_seed_only),
        cmocka_unit_test(log_probabilities_are_the_same_alone_and_together),
        cmocka_unit_test(log_probabilities_are_told_only_where_wanted_and_known),
        cmocka_unit_test(penalties_and_bias_are_a_requests_own),
        cmocka_unit_test(an_answer_ends_when_its_caller_says_so),
        cmocka_unit_test(a_cancelled_request_ends_once_wherever_it_is),
        cmocka_unit_test(the_end_of_a_scheduler_ends_its_requests),
        cmocka_unit_test(a_request_that_fails_leaves_its_neighbours_alone),
        cmocka_unit_test(a_request_beyond_the_context_is_refused_at_once_with_both_numbers),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(requests_that_wait_take_no_more_host_memory_than_they_may),
        cmocka_unit_test(one_request_may_wait_however_long_it_is),
        cmocka_unit_test(a_tenant_over_its_quota_waits_while_others_are_served),
        cmocka_unit_test(however_many_of_a_tenant_wait_another_one_is_served),
        cmocka_unit_test(what_a_tenant_can_never_have_is_refused_at_once_with_both_numbers),
        cmocka_unit_test(callbacks_may_submit_and_cancel),
        cmocka_unit_test(requests_and_options_that_cannot_be_are_refused),
        cmocka_unit_test(words_name_the_ends),
        cmocka_unit_test(times_are_those_of_the_given_clock),
    };
    return cmocka_run_group_tests(tests, open_tiny, close_tiny);
}
