// SPDX-License-Identifier: Apache-2.0
// Who is asked, and how, when a server serves the trace.
#include "replay_url.h"

#include "serve_keys.h"

enum {
    CONCURRENCY = 256, ///< at the trace's speed, unless another is asked for
    CONCURRENCY_FAST = 8,
    TIMEOUT_MS = 3600000, ///< of one request: a server that is far behind has much to do
};

static void on_progress(void* user, const http_load_report* report, size_t running) {
    const llm_replay_options* o = user;
    const llm_replay_progress progress = {.done = report->done,
                                          .requests = report->requests,
                                          .seconds = report->seconds,
                                          .answer_tokens = report->answer_tokens,
                                          .running = running};
    o->on_progress(o->user, &progress);
}

/// The model of the command line, or else the server's first, whose name goes to `room`.
static berth_status name_model(
    const replay_cli* cli, client* server, llm_bytes* room, const char** out, llm_error* error) {
    *out = cli->setup.model_path;
    if (*out != NULL) return BERTH_OK;
    llm_bytes body = {0};
    berth_status status = client_get(server, "/v1/models", &body, error);
    if (status == BERTH_OK)
        status = client_models_read((llm_str){body.data, body.size}, room, error);
    llm_bytes_fini(&body);
    *out = room->data;
    return status;
}

static berth_status load(const replay_cli* cli,
                         client* server,
                         size_t concurrency,
                         http_load_report* out_report,
                         llm_error* error) {
    llm_replay_options o = cli->setup.replay;
    http_trace_options options = {.client = server,
                                  .concurrency = concurrency,
                                  .trace = o.trace,
                                  .first_row = o.first_row,
                                  .row_count = o.row_count,
                                  .divide = o.divide,
                                  .tenants = o.tenants,
                                  .speed = o.speed,
                                  .stop = o.stop,
                                  .on_progress = o.on_progress == NULL ? NULL : on_progress,
                                  .user = &o};
    llm_bytes room = {0};
    berth_status status = name_model(cli, server, &room, &options.model, error);
    if (status == BERTH_OK) status = http_load_trace(&options, out_report, error);
    llm_bytes_fini(&room);
    return status;
}

berth_status replay_url(const replay_cli* cli, http_load_report* out_report, llm_error* error) {
    serve_keys keys = {0};
    client_options options = client_options_default();
    const bool is_fast = cli->setup.replay.speed <= 0.0;
    options.url = cli->url;
    options.timeout_ms = TIMEOUT_MS;
    options.most_running = is_fast ? CONCURRENCY_FAST : CONCURRENCY;
    if (cli->concurrency > 0) options.most_running = cli->concurrency;
    berth_status status = BERTH_OK;
    if (cli->key_path != NULL) status = serve_keys_read(cli->key_path, &keys, error);
    if (keys.count > 0) options.api_key = keys.keys[0];
    client* server = NULL;
    if (status == BERTH_OK) status = client_create(&options, &server, error);
    if (status == BERTH_OK) status = load(cli, server, options.most_running, out_report, error);
    client_destroy(server);
    serve_keys_fini(&keys);
    if (status == BERTH_OK && out_report->ends[CLIENT_UNREACHED] == out_report->requests)
        return llm_fail(error, BERTH_ERR_IO, "%s: %s", cli->url, out_report->first_error.text);
    return status;
}
