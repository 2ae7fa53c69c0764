// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the scheduler's fairness: a server on a device that computes nothing, by a
// clock of steps, and requests that note when what of them happened.
#ifndef BERTH_TESTS_FAIR_KIT_H
#define BERTH_TESTS_FAIR_KIT_H

#include "llm/scheduler_kit.h"

enum { FLOOD = 1, LIGHT = 2 }; ///< tenants

/// A server whose clock counts steps, a millisecond each.
typedef struct fair_server {
    server server;
    uint64_t now_ns;
    int64_t steps;
    uint64_t order; ///< a hash of who ended when
} fair_server;

enum { STEP_NS = 1000000 };

static inline uint64_t read_clock(void* user) { return ((fair_server*)user)->now_ns; }

static inline void count_step(void* user, const llm_step_summary* step) {
    (void)step;
    fair_server* f = user;
    f->now_ns += STEP_NS;
    f->steps++;
}

static inline int32_t choose_token(void* user, uint64_t id, int64_t index) {
    (void)user;
    return (int32_t)((id * 31 + (uint64_t)index) % 200);
}

static inline void fair_open_with(fair_server* f,
                                  const llm_gguf* gguf,
                                  const server_options* options) {
    static const berth_option_setting dry = {"device", "dry"};
    *f = (fair_server){.now_ns = 1};
    server_options o = *options;
    o.settings = &dry;
    o.setting_count = 1;
    o.scheduler.now = read_clock;
    o.scheduler.after_step = count_step;
    o.scheduler.token_of = choose_token;
    o.scheduler.user = f;
    server_open(&f->server, gguf, &o);
}

/// A request of a tenant, and when what of it happened.
typedef struct visit {
    fair_server* at;
    uint64_t id;
    int64_t asked_step;
    int64_t first_step; ///< steps that had run when its first token came
    int64_t count;
    int ends;
    llm_request_end end;
    char text[128];
} visit;

static inline bool visit_on_token(void* user, uint64_t id, const llm_answer_token* token) {
    (void)id;
    (void)token;
    visit* v = user;
    if (v->count++ == 0) v->first_step = v->at->steps;
    return true;
}

static inline void visit_on_end(void* user, uint64_t id, const llm_request_end* end) {
    visit* v = user;
    v->ends++;
    v->end = *end;
    snprintf(v->text, sizeof v->text, "%s", end->text);
    v->at->order = (v->at->order ^ id) * 0x9e3779b97f4a7c15u + (uint64_t)v->at->steps;
}

static inline void ask(fair_server* f, visit* v, uint32_t tenant, int64_t prompt, int64_t answer) {
    int32_t ids[CHAT_TOKENS];
    for (int64_t i = 0; i < prompt; i++)
        ids[i] = (int32_t)(i % 200);
    *v = (visit){.at = f, .asked_step = f->steps};
    const llm_request request = {.tenant = tenant,
                                 .prompt = ids,
                                 .prompt_count = prompt,
                                 .max_tokens = answer,
                                 .sampling = llm_sampler_options_default(),
                                 .is_private = true,
                                 .on_token = visit_on_token,
                                 .on_end = visit_on_end,
                                 .user = v};
    if (llm_scheduler_submit(f->server.scheduler, &request, &v->id, &f->server.error) != BERTH_OK)
        fail_msg("%s", f->server.error.text);
}

static inline void ask_many(
    fair_server* f, visit* visits, size_t count, uint32_t tenant, int64_t prompt, int64_t answer) {
    for (size_t i = 0; i < count; i++)
        ask(f, &visits[i], tenant, prompt, answer);
}

static inline void assert_answered_all(const visit* visits, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(visits[i].ends, 1);
        if (visits[i].end.reason != LLM_END_LIMIT) fail_msg("%s", visits[i].text);
    }
}

/// Steps that a request waited for its first token.
static inline int64_t steps_waited(const visit* v) { return v->first_step - v->asked_step; }

static inline int64_t running_of(const fair_server* f, uint32_t id) {
    const llm_tenant* t = llm_tenant_find(f->server.scheduler, id);
    return t == NULL ? 0 : t->running;
}

static inline uint64_t served_of(const fair_server* f, uint32_t id) {
    const llm_tenant* t = llm_tenant_find(f->server.scheduler, id);
    assert_non_null(t);
    return t->served;
}

#endif // BERTH_TESTS_FAIR_KIT_H
