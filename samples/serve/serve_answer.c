// SPDX-License-Identifier: Apache-2.0
// Requests for answers: from a body to a job, and from the job to what is sent.
#include "llm_clock.h"
#include "serve_http_internal.h"

#include <string.h>
#include <xxhash.h>

enum {
    BLOCK_BYTES = 8192, ///< of a stream that are rendered, and handed to the library, at once
    EVENT_TOKENS = 64,  ///< most of an event with log probabilities
};

/// A reply that would fill the room for all of them is none.
static size_t most_reply_bytes(const serve_exchange* x) {
    const serve_room* room = x->http->options.room;
    return room == NULL ? 0 : room->most_bytes;
}

static api_reply reply_of(const serve_exchange* x) {
    const api_reader* reader = &x->http->options.reader;
    return (api_reply){.request = &x->job->request,
                       .tokenizer = reader->tokenizer,
                       .model_name = reader->model_name,
                       .id = x->job->id,
                       .created = x->job->created,
                       .most_bytes = most_reply_bytes(x)};
}

// ---- Waiting for the engine.

static void resume(void* user) { MHD_resume_connection(user); }

/// Suspends the connection until the job changes; under the job's lock, so that nothing is missed.
static void await(serve_exchange* x) {
    x->job->wake = resume;
    x->job->wake_user = x->connection;
    MHD_suspend_connection(x->connection);
}

/// Has the client of a job looked after while it waits; NULL: no more.
static void set_watched(serve_exchange* x, serve_exchange* watched) {
    pthread_mutex_lock(&x->http->lock);
    x->peer->waiting = watched;
    pthread_mutex_unlock(&x->http->lock);
}

void serve_answer_leave(serve_exchange* x) {
    if (x->job == NULL) return;
    set_watched(x, NULL);
    pthread_mutex_lock(&x->job->lock);
    x->job->wake = NULL;
    bool has_ended = x->job->has_ended;
    pthread_mutex_unlock(&x->job->lock);
    if (!has_ended) serve_engine_leave(x->http->options.engine, x->job);
    serve_job_release(x->job);
    x->job = NULL;
}

// ---- A whole answer.

static api_choice choice_of(const serve_choice* c) {
    return (api_choice){.index = c->index,
                        .text = {c->text.text.data, c->text.ready_bytes},
                        .finish = c->finish,
                        .tokens = {c->tokens, c->token_count, c->top}};
}

static enum MHD_Result reply_whole(serve_exchange* x) {
    const serve_job* job = x->job; // has ended: nothing of it changes any more
    llm_bytes json = {0};
    api_choice* choices = llm_alloc(job->choice_count, sizeof *choices);
    bool is_rendered = choices != NULL;
    if (is_rendered) {
        for (size_t i = 0; i < job->choice_count; i++)
            choices[i] = choice_of(&job->choices[i]);
        api_reply reply = reply_of(x);
        is_rendered = api_reply_whole(&reply, choices, job->choice_count, &job->usage, &json);
    }
    llm_free(choices);
    return serve_reply_json(x, is_rendered, &json);
}

// ---- A stream.

/// What of an answer comes next.
typedef struct portion {
    size_t tokens;     ///< to which
    size_t text_bytes; ///< to which
    bool ends;
} portion;

/// Finds as much as fits into an event. Tokens whose text is held back wait with it.
static portion find_portion(const serve_choice* c, const serve_cursor* at) {
    portion next = {at->tokens, at->text_bytes, c->has_ended};
    const size_t most = at->tokens + EVENT_TOKENS;
    const bool is_cut = most < c->token_count;
    for (size_t i = at->tokens; i < c->token_count && i < most; i++) {
        if (!c->has_ended && c->tokens[i].text_end <= next.text_bytes) continue;
        next.tokens = i + 1;
        next.text_bytes = c->tokens[i].text_end;
    }
    if (!is_cut) {
        next.text_bytes = c->text.ready_bytes;
    } else {
        next.ends = false;
        if (next.tokens == at->tokens) next.tokens = most; // none of which shows
    }
    return next;
}

/// Renders what is new of one answer.
static bool render_choice(serve_exchange* x, const api_reply* reply, size_t index) {
    const serve_choice* c = &x->job->choices[index];
    serve_cursor* at = &x->cursors[index];
    if (!at->has_begun && !api_reply_begin(reply, index, &x->out)) return false;
    at->has_begun = true;
    const portion next = find_portion(c, at);
    if (next.text_bytes == at->text_bytes && next.tokens == at->tokens && !next.ends) return true;
    api_choice piece = {.index = index, .finish = next.ends ? c->finish : API_FINISH_NONE};
    if (next.text_bytes > at->text_bytes)
        piece.text =
            (llm_str){c->text.text.data + at->text_bytes, next.text_bytes - at->text_bytes};
    if (next.tokens > at->tokens)
        piece.tokens = (api_token_list){c->tokens + at->tokens, next.tokens - at->tokens, c->top};
    if (!api_reply_piece(reply, &piece, &x->out)) return false;
    at->text_bytes = next.text_bytes;
    at->tokens = next.tokens;
    at->has_ended = next.ends;
    return true;
}

/// Renders what is new of the answers, about a block of it: a client that was slow finds the rest
/// the next time. `*out_all` says that all of them have ended.
static bool render_choices(serve_exchange* x, const api_reply* reply, bool* out_all) {
    const serve_job* job = x->job;
    *out_all = true;
    for (size_t i = 0; i < job->choice_count; i++) {
        while (!x->cursors[i].has_ended && x->out.size < BLOCK_BYTES) {
            const size_t before = x->out.size;
            if (!render_choice(x, reply, i)) return false;
            if (x->out.size == before) break;
        }
        *out_all &= x->cursors[i].has_ended;
    }
    return true;
}

/// Ends a stream for which there is no room, before what was rendered of it.
static bool break_stream(serve_exchange* x) {
    api_error error;
    api_fail(&error,
             API_ERROR_OVERLOADED,
             NULL,
             "clients have not taken their answers yet, and there is no room for more of them");
    x->out.size = 0;
    return x->has_finished = api_reply_break(&error, &x->out);
}

/// Renders what is new of the job, and its end. False if memory is short.
static bool render(serve_exchange* x) {
    static const char ping[] = ": still here\n\n";
    const serve_job* job = x->job;
    api_reply reply = reply_of(x);
    if (job->has_ended && job->error.kind != API_ERROR_NONE)
        return x->has_finished = api_reply_break(&job->error, &x->out);
    bool is_all;
    bool is_rendered = render_choices(x, &reply, &is_all);
    if (is_rendered && is_all && job->has_ended)
        is_rendered = x->has_finished = api_reply_end(&reply, &job->usage, &x->out);
    if (is_rendered && x->out.size == 0 && atomic_exchange(&x->wants_ping, false))
        is_rendered = llm_bytes_append(&x->out, ping, sizeof ping - 1, NULL) == BERTH_OK;
    if (is_rendered && !serve_hold(x, x->out.capacity)) return break_stream(x);
    return is_rendered;
}

/// Gives the library more of a stream, or suspends it until there is more.
static ssize_t read_stream(void* user, uint64_t position, char* buffer, size_t most) {
    (void)position;
    serve_exchange* x = user;
    if (x->out_at == x->out.size) {
        x->out.size = 0;
        x->out_at = 0;
        if (x->has_finished) return MHD_CONTENT_READER_END_OF_STREAM;
        pthread_mutex_lock(&x->job->lock);
        bool is_rendered = render(x);
        if (is_rendered && x->out.size == 0) await(x);
        pthread_mutex_unlock(&x->job->lock);
        if (!is_rendered) return MHD_CONTENT_READER_END_WITH_ERROR;
        if (x->out.size == 0) return 0;
    }
    size_t size = x->out.size - x->out_at;
    if (size > most) size = most;
    memcpy(buffer, x->out.data + x->out_at, size);
    x->out_at += size;
    atomic_store(&x->last_write_ns, llm_now_ns());
    serve_counters_send(&x->http->counters, size);
    return (ssize_t)size;
}

static enum MHD_Result begin_stream(serve_exchange* x) {
    x->cursors = llm_alloc_zeroed(x->job->choice_count, sizeof *x->cursors);
    if (x->cursors == NULL) return serve_reply_json(x, false, &(llm_bytes){0});
    x->is_streaming = true;
    serve_counters_stream_begin(&x->http->counters);
    struct MHD_Response* response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, x, NULL);
    if (response != NULL) // proxies are to pass on what they get
        (void)MHD_add_response_header(response, "X-Accel-Buffering", "no");
    return serve_queue(x, MHD_HTTP_OK, "text/event-stream", response);
}

// ---- A request.

/// What the client may count on: the number of its key, or else of who it says it is.
static uint32_t tenant_of(const serve_exchange* x, const api_request* request) {
    if (x->http->options.keys->count > 1) return x->key;
    if (request->user.size == 0) return 0;
    return XXH32(request->user.data, request->user.size, 0) | 1;
}

/// Reads the request and gives its job to the engine.
static bool submit(serve_exchange* x, api_error* error) {
    const api_endpoint endpoint =
        x->route->endpoint == SERVE_ENDPOINT_CHAT ? API_CHAT : API_COMPLETION;
    api_request request;
    const llm_str body = {x->body.data, x->body.size};
    bool is_read = api_request_parse(&x->http->options.reader, endpoint, body, &request, error);
    serve_body_fini(x);
    if (is_read) {
        uint32_t tenant = tenant_of(x, &request);
        x->job = serve_job_create(x->http->options.reader.tokenizer, &request);
        if (x->job != NULL) {
            x->job->tenant = tenant;
            x->job->key = x->key;
        } else {
            is_read = api_fail(error, API_ERROR_OUT_OF_MEMORY, NULL, "no memory for the request");
        }
    }
    api_request_fini(&request);
    if (!is_read) return false;
    if (!serve_job_hold(x->job, x->http->options.room)) {
        serve_job_release(x->job);
        x->job = NULL;
        return api_fail(error,
                        API_ERROR_OVERLOADED,
                        NULL,
                        "the server holds as many requests and answers as it has memory for");
    }
    atomic_store(&x->last_write_ns, llm_now_ns());
    set_watched(x, x);
    serve_engine_submit(x->http->options.engine, x->job);
    return true;
}

enum MHD_Result serve_answer_handle(serve_exchange* x) {
    api_error error;
    if (x->job == NULL && !submit(x, &error)) return serve_reply_error(x, &error);
    serve_job* job = x->job;
    pthread_mutex_lock(&job->lock);
    bool is_ready = job->has_ended || (job->request.streams && job->is_accepted);
    bool has_left = job->client_left;
    bool has_failed = job->has_ended && job->error.kind != API_ERROR_NONE;
    if (!is_ready) await(x);
    pthread_mutex_unlock(&job->lock);
    if (!is_ready) return MHD_YES;
    if (has_left) return MHD_NO;
    // the error does not change any more, nor does an answer that has ended
    if (has_failed) return serve_reply_error(x, &job->error);
    return job->request.streams ? begin_stream(x) : reply_whole(x);
}
