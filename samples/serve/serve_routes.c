// SPDX-License-Identifier: Apache-2.0
// The endpoints, and those that answer at once.
#include "page.h"
#include "serve_http_internal.h"

#include <string.h>

static llm_str body_of(const serve_exchange* x) { return (llm_str){x->body.data, x->body.size}; }

static enum MHD_Result handle_page(serve_exchange* x) {
    llm_bytes page = {0};
    if (llm_bytes_append(&page, serve_page, serve_page_bytes, NULL) != BERTH_OK)
        return serve_reply_json(x, false, &page);
    return serve_reply(x, MHD_HTTP_OK, "text/html; charset=utf-8", &page);
}

static enum MHD_Result handle_health(serve_exchange* x) {
    if (atomic_load(&x->http->is_draining)) {
        api_error error;
        api_fail(&error, API_ERROR_SHUTTING_DOWN, NULL, "the server is shutting down");
        return serve_reply_error(x, &error);
    }
    static const char ok[] = "{\"status\":\"ok\"}";
    llm_bytes json = {0};
    return serve_reply_json(x, llm_bytes_append(&json, ok, sizeof ok - 1, NULL) == BERTH_OK, &json);
}

static enum MHD_Result handle_models(serve_exchange* x) {
    llm_bytes json = {0};
    return serve_reply_json(x, api_models_render(&x->http->options.about, &json), &json);
}

static enum MHD_Result handle_model(serve_exchange* x) {
    const api_about* about = &x->http->options.about;
    const char* name = x->path + strlen(x->route->path);
    if (strcmp(name, about->model_name) != 0) {
        api_error error;
        api_fail(&error,
                 API_ERROR_MODEL_NOT_FOUND,
                 "model",
                 "there is no model %s; the model is %s",
                 llm_quote(llm_str_of(name)).text,
                 about->model_name);
        return serve_reply_error(x, &error);
    }
    llm_bytes json = {0};
    return serve_reply_json(x, api_model_render(about, &json), &json);
}

static enum MHD_Result handle_props(serve_exchange* x) {
    llm_bytes json = {0};
    return serve_reply_json(x, api_props_render(&x->http->options.about, &json), &json);
}

/// A function of text that answers at once.
typedef bool (*text_function)(const api_reader* reader,
                              llm_str body,
                              llm_bytes* out,
                              api_error* error);

static enum MHD_Result handle_text(serve_exchange* x, text_function function) {
    llm_bytes json = {0};
    api_error error;
    bool is_done = function(&x->http->options.reader, body_of(x), &json, &error);
    serve_body_fini(x);
    if (is_done) return serve_reply_json(x, true, &json);
    llm_bytes_fini(&json);
    return serve_reply_error(x, &error);
}

static enum MHD_Result handle_tokenize(serve_exchange* x) { return handle_text(x, api_tokenize); }

static enum MHD_Result handle_detokenize(serve_exchange* x) {
    return handle_text(x, api_detokenize);
}

static enum MHD_Result handle_metrics(serve_exchange* x) {
    serve_snapshot snapshot;
    serve_engine_query(x->http->options.engine, &snapshot);
    llm_bytes text = {0};
    if (!serve_metrics_render(&x->http->options.about, &snapshot, &x->http->counters, &text))
        return serve_reply_json(x, false, &text);
    return serve_reply(x, MHD_HTTP_OK, SERVE_METRICS_TYPE, &text);
}

static enum MHD_Result handle_memory(serve_exchange* x) {
    serve_snapshot snapshot;
    serve_engine_query(x->http->options.engine, &snapshot);
    llm_bytes json = {0};
    return serve_reply_json(
        x,
        serve_memory_render(&x->http->options.about, &snapshot, &x->http->counters, &json),
        &json);
}

static const serve_route routes[] = {
    {"/", "GET", true, false, SERVE_ENDPOINT_PAGE, handle_page},
    {"/health", "GET", true, false, SERVE_ENDPOINT_HEALTH, handle_health},
    {"/v1/models", "GET", false, false, SERVE_ENDPOINT_MODELS, handle_models},
    {"/v1/models/", "GET", false, true, SERVE_ENDPOINT_MODELS, handle_model},
    {"/v1/chat/completions", "POST", false, false, SERVE_ENDPOINT_CHAT, serve_answer_handle},
    {"/v1/completions", "POST", false, false, SERVE_ENDPOINT_COMPLETIONS, serve_answer_handle},
    {"/tokenize", "POST", false, false, SERVE_ENDPOINT_TOKENIZE, handle_tokenize},
    {"/detokenize", "POST", false, false, SERVE_ENDPOINT_DETOKENIZE, handle_detokenize},
    {"/props", "GET", false, false, SERVE_ENDPOINT_PROPS, handle_props},
    {"/metrics", "GET", false, false, SERVE_ENDPOINT_METRICS, handle_metrics},
    {"/memory", "GET", false, false, SERVE_ENDPOINT_MEMORY, handle_memory},
};

static bool is_at(const serve_route* route, const char* path) {
    size_t size = strlen(route->path);
    return route->is_prefix ? strncmp(path, route->path, size) == 0 && path[size] != '\0'
                            : strcmp(path, route->path) == 0;
}

static const serve_route* find_path(const char* path) {
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (is_at(&routes[i], path)) return &routes[i];
    return NULL;
}

const serve_route* serve_route_find(const char* path, const char* method, bool* out_other_method) {
    const serve_route* route = find_path(path);
    if (route == NULL) return NULL;
    if (strcmp(method, route->method) == 0) return route;
    // the library sends the headers of what GET would get
    if (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0) return route;
    *out_other_method = true;
    return NULL;
}

const char* serve_route_methods(const char* path) {
    const serve_route* route = find_path(path);
    return route != NULL && strcmp(route->method, "POST") == 0 ? "POST" : "GET, HEAD";
}
