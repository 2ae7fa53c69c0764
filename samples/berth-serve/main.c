// SPDX-License-Identifier: Apache-2.0
// berth-serve: an OpenAI-compatible server of a language model.
#include "llm_clock.h"
#include "report_text.h"
#include "serve_options.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    TICK_NS = 200000000,      ///< between two looks at the connections
    HEADER_BYTES = 32768,     ///< of a connection, for its request's headers and an answer's pieces
    CONNECTION_BYTES = 12288, ///< that a connection takes as a rule
    SPARE_FILES = 64,         ///< open files apart from connections
};

/// Time that clients have to take the ends of their answers; a tenth of it if there is a hurry.
#define FLUSH_NS UINT64_C(5000000000)

/// All parts of the server; all zero is none.
typedef struct server {
    serve_options options;
    serve_keys keys;
    serve_room room;
    serve_setup setup;
    serve_engine* engine;
    serve_http* http;
} server;

// ---- Starting.

/// Raises the limit of open files, so that there can be so many connections.
static void raise_file_limit(int64_t connections) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    rlim_t wanted = (rlim_t)connections + SPARE_FILES;
    if (limit.rlim_cur >= wanted) return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
        fprintf(stderr,
                "berth-serve: this process may open %llu files; that is too few for %" PRId64
                " connections\n",
                (unsigned long long)limit.rlim_cur,
                connections);
}

/// Memory for what clients send: a share of the budget, but one whole body at least.
static uint64_t bodies_bytes(const serve_options* o) {
    uint64_t memory = o->setup.memory_bytes == 0 ? serve_default_memory() : o->setup.memory_bytes;
    return memory / 64 > o->body_bytes ? memory / 64 : o->body_bytes;
}

/// Memory for requests that wait; and as much for requests and answers until clients take them.
static uint64_t queue_bytes(const serve_options* o) {
    uint64_t memory = o->setup.memory_bytes == 0 ? serve_default_memory() : o->setup.memory_bytes;
    return memory / 64 > 1u << 20 ? memory / 64 : 1u << 20;
}

static berth_status open_model(server* s, llm_error* error) {
    serve_options* o = &s->options;
    s->room.most_bytes = queue_bytes(o);
    o->setup.bounded_bytes = bodies_bytes(o) + queue_bytes(o) +
                             2 * s->room.most_bytes + // and an answer that is being made
                             (uint64_t)o->connections * CONNECTION_BYTES;
    berth_status status = serve_setup_open(&o->setup, &s->setup, error);
    if (status != BERTH_OK) return status;
    int64_t trained = s->setup.model->params.context_tokens;
    if (o->context_tokens > trained)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "--ctx %" PRId64 ": the model was trained for %" PRId64 " tokens",
                        o->context_tokens,
                        trained);
    if (o->context_tokens == 0) o->context_tokens = trained;
    return BERTH_OK;
}

static const char* kv_type_name(berth_dtype dtype) { return berth_dtype_query_info(dtype)->name; }

static berth_status start_engine(server* s, llm_error* error) {
    serve_options* o = &s->options;
    serve_engine_options options = {
        .model = s->setup.model,
        .tokenizer = s->setup.tokenizer,
        .kv = llm_model_kv_options(s->setup.model, o->kv_dtype),
        .scheduler = o->scheduler,
        .budget = s->setup.budget,
        .first_token_ns = (uint64_t)o->first_token_seconds * 1000000000u,
        .warms_up = true,
    };
    options.scheduler.context_tokens = o->context_tokens;
    options.scheduler.max_queued_bytes = (int64_t)queue_bytes(o);
    options.kv.eviction = BERTH_KV_EVICT_REUSE;
    return serve_engine_create(&options, &s->engine, error);
}

/// Most tokens of a request: as many as asked for, as far as they fit.
static int64_t served_context(const server* s) {
    serve_snapshot now;
    serve_engine_query(s->engine, &now);
    uint64_t fits = now.budget.kv_tokens;
    return fits < (uint64_t)s->options.context_tokens ? (int64_t)fits : s->options.context_tokens;
}

static berth_status start_http(server* s, llm_error* error) {
    const serve_options* o = &s->options;
    const int64_t context = served_context(s);
    if (context == 0)
        return llm_fail(error,
                        BERTH_ERR_OUT_OF_MEMORY,
                        "beside the largest step there is no room for keys and values in %" PRIu64
                        " bytes; --max-batch and --step-tokens make steps smaller",
                        s->setup.budget.device_bytes);
    serve_http_options options = {
        .host = o->host,
        .port = (uint16_t)o->port,
        .engine = s->engine,
        .reader = {.tokenizer = s->setup.tokenizer,
                   .chat = s->setup.has_chat ? &s->setup.chat : NULL,
                   .model_name = s->setup.model_name,
                   .context_tokens = context,
                   .most_token_bytes = s->setup.most_token_bytes,
                   .reply_bytes = s->room.most_bytes},
        .about = {.model_name = s->setup.model_name,
                  .created = (int64_t)time(NULL),
                  .context_tokens = context,
                  .trained_tokens = s->setup.model->params.context_tokens,
                  .vocab_tokens = s->setup.model->params.vocab_tokens,
                  .weight_bytes = s->setup.model->weight_bytes,
                  .kv_type = kv_type_name(o->kv_dtype),
                  .chat_style = s->setup.has_chat ? llm_chat_style_name(s->setup.chat.style) : NULL,
                  .slots = o->scheduler.max_running,
                  .version = berth_version()},
        .keys = &s->keys,
        .room = &s->room,
        .body_bytes = o->body_bytes,
        .bodies_bytes = bodies_bytes(o),
        .header_bytes = HEADER_BYTES,
        .connections = (unsigned)o->connections,
        .idle_seconds = (unsigned)o->idle_seconds,
        .request_seconds = (unsigned)o->request_seconds,
        .log = o->log,
    };
    return serve_http_create(&options, &s->http, error);
}

static berth_status start(server* s, llm_error* error) {
    berth_status status = BERTH_OK;
    raise_file_limit(s->options.connections);
    if (s->options.key_path != NULL) status = serve_keys_read(s->options.key_path, &s->keys, error);
    if (status == BERTH_OK) status = open_model(s, error);
    if (status == BERTH_OK) status = start_engine(s, error);
    if (status == BERTH_OK) status = start_http(s, error);
    return status;
}

static void print_part(const char* what, uint64_t bytes, const char* remark) {
    printf("  %-10s %10s  %s\n", what, llm_cell_bytes(bytes).text, remark);
}

/// Prints how the budget is divided, and where to find the server.
static void print_start(const server* s) {
    serve_snapshot now;
    serve_engine_query(s->engine, &now);
    const serve_budget* b = &now.budget;
    char tokens[160];
    snprintf(tokens,
             sizeof tokens,
             "%" PRIu64 " tokens of %s keys and values beside the largest step, %" PRId64
             " a request",
             b->kv_tokens,
             kv_type_name(s->options.kv_dtype),
             served_context(s));
    printf("%s\n", s->setup.model_name);
    print_part("memory", b->total_bytes, "for everything");
    print_part("weights",
               b->weights_bytes,
               b->host_bytes > 0 ? "pages of the model's file" : "on the device");
    if (b->host_bytes > 0)
        print_part(
            "server", b->host_bytes, "tables, text, connections, requests that wait: at most");
    print_part("frames", b->step_bytes, "the largest step, about: shared with what follows");
    print_part("KV cache", b->kv_bytes, tokens);
    bool is_v6 = strchr(s->options.host, ':') != NULL;
    printf("listening on http://%s%s%s:%u\n",
           is_v6 ? "[" : "",
           s->options.host,
           is_v6 ? "]" : "",
           (unsigned)serve_http_port(s->http));
    fflush(stdout);
}

// ---- Running and ending.

/// Waits for a signal to end, looking after connections until then or until `until_ns`.
static bool wait_for_signal(server* s, const sigset_t* signals, uint64_t until_ns) {
    const struct timespec tick = {.tv_nsec = TICK_NS};
    while (llm_now_ns() < until_ns) {
        if (sigtimedwait(signals, NULL, &tick) > 0) return true;
        serve_http_tick(s->http);
        if (until_ns != UINT64_MAX && serve_engine_job_count(s->engine) == 0) return false;
    }
    return false;
}

/// Lets requests end, or tells them, and waits until their clients know.
static void drain(server* s, const sigset_t* signals) {
    fprintf(stderr,
            "berth-serve: ending; %zu requests have %" PRId64 " s to end in, a second signal ends "
            "them now\n",
            serve_engine_job_count(s->engine),
            s->options.drain_seconds);
    serve_http_drain(s->http);
    serve_engine_drain(s->engine, false);
    bool is_hurried = wait_for_signal(
        s, signals, llm_now_ns() + (uint64_t)s->options.drain_seconds * 1000000000u);
    serve_engine_drain(s->engine, true);
    uint64_t until = llm_now_ns() + (is_hurried ? FLUSH_NS / 10 : FLUSH_NS);
    const struct timespec rest = {.tv_nsec = TICK_NS / 10};
    while (serve_http_open_count(s->http) > 0 && llm_now_ns() < until) {
        if (sigtimedwait(signals, NULL, &rest) > 0) break;
        serve_http_tick(s->http);
    }
}

/// Takes everything down: nobody waits for the engine once it has ended.
static void finish(server* s) {
    if (s->engine != NULL) serve_engine_stop(s->engine);
    serve_http_destroy(s->http);
    serve_engine_destroy(s->engine);
    serve_setup_close(&s->setup);
    serve_keys_fini(&s->keys);
}

int main(int argc, char** argv) {
    server s = {0};
    switch (serve_options_parse(argc, argv, &s.options)) {
    case SERVE_HELP:
        serve_options_print_help();
        return EXIT_SUCCESS;
    case SERVE_WRONG:
        return 2;
    case SERVE_RUN:
        break;
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    // for all threads: the main one alone takes them
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    api_init();
    llm_error error;
    berth_status status = start(&s, &error);
    if (status == BERTH_OK) {
        print_start(&s);
        wait_for_signal(&s, &signals, UINT64_MAX);
        drain(&s, &signals);
    } else {
        fprintf(stderr, "berth-serve: %s\n", error.text);
    }
    finish(&s);
    return status == BERTH_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
