// SPDX-License-Identifier: Apache-2.0
// The client over libcurl's multi interface: one slot for each request that runs.
#include "client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "client_events.h"
#include "llm_clock.h"

enum {
    MOST_RUNNING = 65536,
    MOST_KEY_BYTES = 4096,
    MOST_URL_BYTES = 2048,     ///< of the server's, and of a path
    MOST_REFUSAL_BYTES = 8192, ///< of a refusal's body that are kept
    GET_TURN_MS = 100,
};

/// A request that runs, or room for one.
typedef struct slot {
    client* owner;
    CURL* handle;
    client_request request; ///< its body is not kept
    llm_bytes body;
    client_events events;
    client_result result;
    llm_error error;     ///< what went wrong while the answer was read
    berth_status status; ///< of reading the answer
    bool has_begun;      ///< the answer's body has
    bool is_stream;
    bool is_done; ///< the mark of the end has come
    bool has_left;
    char said[CURL_ERROR_SIZE]; ///< by libcurl
} slot;

struct client {
    client_options options;
    char url[MOST_URL_BYTES]; ///< without "/v1"
    CURLM* multi;
    struct curl_slist* headers;
    slot** slots; ///< [most_running], the first slot_count of them made
    size_t slot_count;
    size_t* free_slots; ///< [most_running], the first free_count of them
    size_t free_count;
    bool is_global; ///< libcurl has been set up
};

static const char* const end_texts[CLIENT_END_COUNT] = {
#define CLIENT_END_TEXT(id, text, help) [CLIENT_##id] = text,
    CLIENT_END_MAP(CLIENT_END_TEXT)
#undef CLIENT_END_TEXT
};

const char* client_end_text(client_end end) {
    return (unsigned)end < CLIENT_END_COUNT ? end_texts[end] : "unknown";
}

client_options client_options_default(void) {
    return (client_options){.most_running = 64,
                            .connect_timeout_ms = 10000,
                            .timeout_ms = 600000,
                            .most_bytes = (size_t)16 << 20};
}

// ---- What comes.

static void note_text(void* user, llm_str text) {
    slot* s = user;
    client_result* r = &s->result;
    r->last_ns = llm_now_ns();
    if (r->first_ns == 0) r->first_ns = r->last_ns;
    r->pieces++;
    if (s->request.on_text != NULL && !s->has_left)
        s->has_left = !s->request.on_text(s->request.user, text);
}

static berth_status read_event(void* user, llm_str data, llm_error* error) {
    slot* s = user;
    if (s->is_done) return BERTH_OK;
    if (llm_str_equal(data, llm_str_of("[DONE]"))) {
        s->is_done = true;
        return BERTH_OK;
    }
    return client_answer_read(data, note_text, s, &s->result.usage, error);
}

static bool is_success(long http_status) { return http_status >= 200 && http_status < 300; }

/// Looks at the head of the answer when its body begins.
static void begin_body(slot* s) {
    const char* type = NULL;
    s->has_begun = true;
    curl_easy_getinfo(s->handle, CURLINFO_RESPONSE_CODE, &s->result.http_status);
    curl_easy_getinfo(s->handle, CURLINFO_CONTENT_TYPE, &type);
    static const char stream[] = "text/event-stream";
    s->is_stream = s->request.is_ask && is_success(s->result.http_status) && type != NULL &&
                   strncasecmp(type, stream, sizeof stream - 1) == 0;
}

static berth_status keep_body(slot* s, const char* bytes, size_t size) {
    size_t most = s->owner->options.most_bytes;
    if (!is_success(s->result.http_status)) {
        // the beginning of a refusal says enough
        if (most > MOST_REFUSAL_BYTES) most = MOST_REFUSAL_BYTES;
        if (size > most - s->body.size) size = most - s->body.size;
    }
    if (size > most - s->body.size)
        return llm_fail(&s->error,
                        BERTH_ERR_CORRUPT,
                        "an answer has more than the %zu bytes that it may have",
                        most);
    return llm_bytes_append(&s->body, bytes, size, &s->error);
}

static size_t on_bytes(char* bytes, size_t item_bytes, size_t count, void* user) {
    slot* s = user;
    const size_t size = item_bytes * count;
    if (!s->has_begun) begin_body(s);
    s->status = s->is_stream ? client_events_push(&s->events, bytes, size, &s->error)
                             : keep_body(s, bytes, size);
    return s->status == BERTH_OK && !s->has_left ? size : CURL_WRITEFUNC_ERROR;
}

// ---- How it ends.

static void say(slot* s, client_end end, const char* sentence) {
    s->result.end = end;
    snprintf(s->result.text, sizeof s->result.text, "%.639s", sentence);
}

static void say_refused(slot* s) {
    char message[512];
    client_refusal_read((llm_str){s->body.data, s->body.size}, message, sizeof message);
    s->result.end = CLIENT_REFUSED;
    snprintf(s->result.text,
             sizeof s->result.text,
             "HTTP status %ld%s%s",
             s->result.http_status,
             message[0] == '\0' ? "" : ": ",
             message);
}

/// The whole answer has come, as far as the transfer goes.
static void end_whole(slot* s) {
    s->result.end = CLIENT_ANSWERED;
    if (s->is_stream && !s->is_done)
        say(s, CLIENT_BROKEN, "the stream ended before its mark of the end, [DONE]");
    if (s->is_stream || !s->request.is_ask) return;
    const llm_str body = {s->body.data, s->body.size};
    if (client_answer_read(body, note_text, s, &s->result.usage, &s->error) != BERTH_OK)
        say(s, CLIENT_FAILED, s->error.text);
}

static void end_early(slot* s, CURLcode code) {
    const char* said = s->said[0] != '\0' ? s->said : curl_easy_strerror(code);
    curl_off_t connect_us = 0;
    curl_easy_getinfo(s->handle, CURLINFO_CONNECT_TIME_T, &connect_us);
    switch ((int)code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
        say(s, CLIENT_UNREACHED, said);
        return;
    case CURLE_OPERATION_TIMEDOUT:
        say(s, connect_us == 0 ? CLIENT_UNREACHED : CLIENT_TIMED_OUT, said);
        return;
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        say(s, CLIENT_BROKEN, said);
        return;
    default:
        say(s, CLIENT_FAILED, said);
    }
}

static void end_request(slot* s, CURLcode code) {
    s->result.end_ns = llm_now_ns();
    curl_easy_getinfo(s->handle, CURLINFO_RESPONSE_CODE, &s->result.http_status);
    if (s->has_left)
        say(s, CLIENT_LEFT, "the client left");
    else if (s->status != BERTH_OK)
        say(s, CLIENT_FAILED, s->error.text);
    else if (code != CURLE_OK && !s->is_done && s->result.http_status < 400)
        end_early(s, code);
    else if (is_success(s->result.http_status))
        end_whole(s);
    else
        say_refused(s);
    s->result.body = (llm_str){s->body.data, s->body.size};
    s->request.on_end(s->request.user, &s->result);
}

/// Lets a slot go from its transfer, and be taken again.
static void clear_slot(slot* s) {
    client_events_fini(&s->events);
    llm_bytes_fini(&s->body);
}

// ---- Slots.

static void free_slot(slot* s) {
    if (s == NULL) return;
    clear_slot(s);
    curl_easy_cleanup(s->handle);
    llm_free(s);
}

/// Sets what all requests have in common. False: memory is short.
static bool set_common(slot* s) {
    const client_options* o = &s->owner->options;
    CURL* h = s->handle;
    CURLcode code = CURLE_OK;
#define SET(option, value)                                                                         \
    if (code == CURLE_OK) code = curl_easy_setopt(h, option, value)
    SET(CURLOPT_PRIVATE, s);
    SET(CURLOPT_ERRORBUFFER, s->said);
    SET(CURLOPT_WRITEFUNCTION, on_bytes);
    SET(CURLOPT_WRITEDATA, s);
    SET(CURLOPT_HTTPHEADER, s->owner->headers);
    SET(CURLOPT_USERAGENT, "berth");
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)o->connect_timeout_ms);
    SET(CURLOPT_TIMEOUT_MS, (long)o->timeout_ms);
#undef SET
    return code == CURLE_OK;
}

static berth_status make_slot(client* c, llm_error* error) {
    slot* s = llm_alloc_zeroed(1, sizeof *s);
    if (s == NULL) return llm_fail_memory(error, "a request");
    s->owner = c;
    s->handle = curl_easy_init();
    if (s->handle == NULL || !set_common(s)) {
        free_slot(s);
        return llm_fail_memory(error, "a request");
    }
    c->free_slots[c->free_count++] = c->slot_count;
    c->slots[c->slot_count++] = s;
    return BERTH_OK;
}

static berth_status set_request(slot* s, const client_request* request, llm_error* error) {
    char url[2 * MOST_URL_BYTES];
    const int length = snprintf(url, sizeof url, "%s%s", s->owner->url, request->path);
    if (request->path[0] != '/' || length < 0 || (size_t)length >= sizeof url)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "the path \"%.64s\" begins with no slash, or is too long",
                        request->path);
    CURL* h = s->handle;
    bool is_set = curl_easy_setopt(h, CURLOPT_URL, url) == CURLE_OK;
    if (request->body.data == NULL) {
        is_set = is_set && curl_easy_setopt(h, CURLOPT_HTTPGET, 1L) == CURLE_OK;
    } else {
        const curl_off_t size = (curl_off_t)request->body.size;
        is_set = is_set && curl_easy_setopt(h, CURLOPT_POST, 1L) == CURLE_OK &&
                 curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, size) == CURLE_OK &&
                 curl_easy_setopt(h, CURLOPT_COPYPOSTFIELDS, request->body.data) == CURLE_OK;
    }
    return is_set ? BERTH_OK : llm_fail_memory(error, "a request");
}

static void begin_slot(slot* s, const client_request* request) {
    s->request = *request;
    s->request.body = (llm_str){NULL, 0};
    s->events = (client_events){
        .on_event = read_event, .user = s, .most_bytes = s->owner->options.most_bytes};
    s->result = (client_result){.sent_ns = llm_now_ns(), .usage = client_usage_unknown()};
    s->error.text[0] = '\0';
    s->status = BERTH_OK;
    s->has_begun = false;
    s->is_stream = false;
    s->is_done = false;
    s->has_left = false;
    s->said[0] = '\0';
}

berth_status client_submit(client* self, const client_request* request, llm_error* error) {
    const size_t most = self->options.most_running;
    if (client_running(self) == most)
        return llm_fail(error,
                        BERTH_ERR_STATE,
                        "%zu requests run, and that is as many as may run at a time",
                        most);
    if (self->free_count == 0) {
        berth_status status = make_slot(self, error);
        if (status != BERTH_OK) return status;
    }
    slot* s = self->slots[self->free_slots[self->free_count - 1]];
    berth_status status = set_request(s, request, error);
    if (status != BERTH_OK) return status;
    begin_slot(s, request);
    if (curl_multi_add_handle(self->multi, s->handle) != CURLM_OK)
        return llm_fail_memory(error, "a request");
    self->free_count--;
    return BERTH_OK;
}

size_t client_running(const client* self) { return self->slot_count - self->free_count; }

// ---- Turns.

static void give_slot_back(client* c, const slot* s) {
    for (size_t i = 0; i < c->slot_count; i++)
        if (c->slots[i] == s) c->free_slots[c->free_count++] = i;
}

/// Tells which requests ended; returns how many.
static size_t tell_ended(client* c) {
    size_t ended = 0;
    int rest;
    for (CURLMsg* m; (m = curl_multi_info_read(c->multi, &rest)) != NULL;) {
        if (m->msg != CURLMSG_DONE) continue;
        const CURLcode code = m->data.result; // the message ends with the handle's removal
        void* user = NULL;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &user);
        slot* s = user;
        end_request(s, code);
        curl_multi_remove_handle(c->multi, s->handle);
        clear_slot(s);
        give_slot_back(c, s);
        ended++;
    }
    return ended;
}

static berth_status multi_verdict(CURLMcode code, llm_error* error) {
    if (code == CURLM_OK) return BERTH_OK;
    if (code == CURLM_OUT_OF_MEMORY) return llm_fail_memory(error, "requests");
    return llm_fail(error, BERTH_ERR_IO, "requests: %s", curl_multi_strerror(code));
}

berth_status client_turn(client* self, int timeout_ms, llm_error* error) {
    int running;
    berth_status status = multi_verdict(curl_multi_perform(self->multi, &running), error);
    if (status != BERTH_OK || tell_ended(self) > 0 || timeout_ms <= 0) return status;
    status = multi_verdict(curl_multi_poll(self->multi, NULL, 0, timeout_ms, NULL), error);
    if (status == BERTH_OK)
        status = multi_verdict(curl_multi_perform(self->multi, &running), error);
    if (status == BERTH_OK) (void)tell_ended(self);
    return status;
}

/// A GET that is waited for.
typedef struct waiting {
    llm_bytes* out;
    llm_error* error;
    const char* path;
    berth_status status;
    bool has_ended;
} waiting;

static void end_get(void* user, const client_result* result) {
    waiting* w = user;
    w->has_ended = true;
    w->status = result->end == CLIENT_ANSWERED
                    ? llm_bytes_append(w->out, result->body.data, result->body.size, w->error)
                    : llm_fail(w->error, BERTH_ERR_IO, "GET %s: %s", w->path, result->text);
}

berth_status client_get(client* self, const char* path, llm_bytes* out_body, llm_error* error) {
    waiting w = {.out = out_body, .error = error, .path = path};
    const client_request request = {.path = path, .on_end = end_get, .user = &w};
    berth_status status = client_submit(self, &request, error);
    while (status == BERTH_OK && !w.has_ended)
        status = client_turn(self, GET_TURN_MS, error);
    return status == BERTH_OK ? w.status : status;
}

void client_leave(client* self) {
    self->free_count = 0;
    for (size_t i = 0; i < self->slot_count; i++) {
        // removing a handle that does not run does nothing
        curl_multi_remove_handle(self->multi, self->slots[i]->handle);
        clear_slot(self->slots[i]);
        self->free_slots[self->free_count++] = i;
    }
}

// ---- The client.

/// Takes the slashes from the end of a URL.
static void cut_slashes(char* url) {
    size_t end = strlen(url);
    while (end > 0 && url[end - 1] == '/')
        url[--end] = '\0';
}

/// Keeps the URL without the slashes and the "/v1" at its end; finds what cannot be one.
static berth_status read_url(client* c, llm_error* error) {
    const char* url = c->options.url;
    const size_t size = strlen(url);
    CURLU* parts = curl_url();
    if (parts == NULL) return llm_fail_memory(error, "a URL");
    const CURLUcode code = curl_url_set(parts, CURLUPART_URL, url, 0);
    char* rest = NULL;
    const bool has_rest = curl_url_get(parts, CURLUPART_QUERY, &rest, 0) == CURLUE_OK ||
                          curl_url_get(parts, CURLUPART_FRAGMENT, &rest, 0) == CURLUE_OK;
    curl_free(rest);
    curl_url_cleanup(parts);
    const bool is_http = (strncasecmp(url, "http://", 7) == 0 && url[7] != '/') ||
                         (strncasecmp(url, "https://", 8) == 0 && url[8] != '/');
    if (code != CURLUE_OK || has_rest || !is_http || size >= MOST_URL_BYTES)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "the URL \"%s\" is not of the form http://HOST:PORT%s%s",
                        llm_quote(llm_str_of(url)).text,
                        code == CURLUE_OK ? "" : ": ",
                        code == CURLUE_OK ? "" : curl_url_strerror(code));
    memcpy(c->url, url, size + 1);
    cut_slashes(c->url);
    const size_t end = strlen(c->url);
    if (end >= 3 && strcmp(c->url + end - 3, "/v1") == 0) c->url[end - 3] = '\0';
    cut_slashes(c->url);
    return BERTH_OK;
}

static berth_status check_options(const client_options* o, llm_error* error) {
    if (o->url == NULL || o->most_running < 1 || o->most_running > MOST_RUNNING)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "%zu requests at a time to the URL \"%.64s\" are asked for; there must be "
                        "a URL and from 1 to %d requests",
                        o->most_running,
                        o->url == NULL ? "" : o->url,
                        MOST_RUNNING);
    if (o->connect_timeout_ms < 1 || o->connect_timeout_ms > INT32_MAX || o->timeout_ms < 1 ||
        o->timeout_ms > INT32_MAX || o->most_bytes < 1)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "timeouts of %lld and %lld ms and %zu bytes are asked for; each must be at "
                        "least 1, and a timeout at most %d",
                        (long long)o->connect_timeout_ms,
                        (long long)o->timeout_ms,
                        o->most_bytes,
                        INT32_MAX);
    return BERTH_OK;
}

static bool add_header(client* c, const char* line) {
    struct curl_slist* longer = curl_slist_append(c->headers, line);
    if (longer != NULL) c->headers = longer;
    return longer != NULL;
}

static berth_status make_headers(client* c, llm_error* error) {
    char key[MOST_KEY_BYTES + 32];
    const char* given = c->options.api_key;
    if (given != NULL && strlen(given) > MOST_KEY_BYTES)
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "the API key has %zu bytes, and at most %d can be used",
                        strlen(given),
                        MOST_KEY_BYTES);
    snprintf(key, sizeof key, "Authorization: Bearer %s", given == NULL ? "" : given);
    // without "Expect" a body goes out at once
    if (add_header(c, "Content-Type: application/json") && add_header(c, "Expect:") &&
        (given == NULL || add_header(c, key)))
        return BERTH_OK;
    return llm_fail_memory(error, "a request's head");
}

static berth_status make_tables(client* c, llm_error* error) {
    c->is_global = curl_global_init(CURL_GLOBAL_ALL) == CURLE_OK;
    if (c->is_global) c->multi = curl_multi_init();
    c->slots = llm_alloc(c->options.most_running, sizeof *c->slots);
    c->free_slots = llm_alloc(c->options.most_running, sizeof *c->free_slots);
    if (c->multi == NULL || c->slots == NULL || c->free_slots == NULL)
        return llm_fail_memory(error, "a client");
    const long kept = (long)c->options.most_running;
    return multi_verdict(curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, kept), error);
}

berth_status client_create(const client_options* options, client** out_client, llm_error* error) {
    *out_client = NULL;
    berth_status status = check_options(options, error);
    if (status != BERTH_OK) return status;
    client* c = llm_alloc_zeroed(1, sizeof *c);
    if (c == NULL) return llm_fail_memory(error, "a client");
    c->options = *options;
    status = make_tables(c, error);
    if (status == BERTH_OK) status = read_url(c, error);
    if (status == BERTH_OK) status = make_headers(c, error);
    if (status == BERTH_OK)
        *out_client = c;
    else
        client_destroy(c);
    return status;
}

void client_destroy(client* self) {
    if (self == NULL) return;
    client_leave(self);
    for (size_t i = 0; i < self->slot_count; i++)
        free_slot(self->slots[i]);
    curl_multi_cleanup(self->multi);
    curl_slist_free_all(self->headers);
    llm_free(self->slots);
    llm_free(self->free_slots);
    if (self->is_global) curl_global_cleanup();
    llm_free(self);
}
