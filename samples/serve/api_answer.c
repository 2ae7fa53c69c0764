// SPDX-License-Identifier: Apache-2.0
// Answers as JSON objects, and as the events of a stream that hold such objects.
#include "api_answer.h"

#include "api_json.h"

#include <berth/version.h>
#include <string.h>

/// What stands for probabilities too small for a logarithm: JSON has no infinity.
static const double least_logprob = -9999;

static double finite_logprob(float logprob) {
    return (double)logprob > least_logprob ? (double)logprob : least_logprob;
}

/// What a token is shown as: its bytes, or the spelling of one that stands for none.
static llm_str show_token(const api_reply* reply, int32_t id) {
    const llm_str bytes = llm_tokenizer_bytes(reply->tokenizer, id);
    return bytes.size > 0 ? bytes : llm_tokenizer_spelling(reply->tokenizer, id);
}

/// The list of a token's bytes; null for a token that stands for no text.
static json_t* make_bytes(const api_reply* reply, int32_t id) {
    const llm_str bytes = llm_tokenizer_bytes(reply->tokenizer, id);
    return bytes.size == 0 ? json_null() : api_json_bytes(bytes);
}

/// A chat's entry of a token or an alternative to it; `top` is the token's list of alternatives,
/// taken over, and NULL for an entry without one.
static json_t* make_entry(const api_reply* reply, const api_logprob* token, json_t* top) {
    return json_pack("{s:o, s:f, s:o, s:o*}",
                     "token",
                     api_json_text(show_token(reply, token->id)),
                     "logprob",
                     finite_logprob(token->logprob),
                     "bytes",
                     make_bytes(reply, token->id),
                     "top_logprobs",
                     top);
}

static json_t* make_chat_token(const api_reply* reply,
                               const api_token_list* list,
                               const api_token* token) {
    json_t* top = json_array();
    bool has_room = top != NULL;
    for (size_t i = 0; i < token->top_count && has_room; i++) {
        const api_logprob* other = &list->top[token->top_first + i];
        has_room = json_array_append_new(top, make_entry(reply, other, NULL)) == 0;
    }
    if (has_room) return make_entry(reply, &token->chosen, top);
    json_decref(top);
    return NULL;
}

/// Adds a token to an object of alternatives. Of two that look alike the likelier came before.
static bool add_alternative(const api_reply* reply, const api_logprob* token, json_t* object) {
    json_t* name = api_json_text(show_token(reply, token->id));
    if (name == NULL) return false;
    const char* text = json_string_value(name);
    const size_t size = json_string_length(name);
    bool is_there = json_object_getn(object, text, size) != NULL;
    if (!is_there) {
        json_t* value = json_real(finite_logprob(token->logprob));
        is_there = json_object_setn_new(object, text, size, value) == 0;
    }
    json_decref(name);
    return is_there;
}

/// The alternatives to a token of a completion, the token among them.
static json_t* make_alternatives(const api_reply* reply,
                                 const api_token_list* list,
                                 const api_token* token) {
    json_t* object = json_object();
    bool has_room = object != NULL;
    for (size_t i = 0; i < token->top_count && has_room; i++)
        has_room = add_alternative(reply, &list->top[token->top_first + i], object);
    if (has_room && add_alternative(reply, &token->chosen, object)) return object;
    json_decref(object);
    return NULL;
}

static json_t* make_token_text(const api_reply* reply,
                               const api_token_list* list,
                               const api_token* token) {
    (void)list;
    return api_json_text(show_token(reply, token->chosen.id));
}

static json_t* make_token_logprob(const api_reply* reply,
                                  const api_token_list* list,
                                  const api_token* token) {
    (void)reply;
    (void)list;
    return json_real(finite_logprob(token->chosen.logprob));
}

static json_t* make_token_offset(const api_reply* reply,
                                 const api_token_list* list,
                                 const api_token* token) {
    (void)reply;
    (void)list;
    return json_integer((json_int_t)token->text_offset);
}

static bool append_text(llm_bytes* out, const char* text) {
    return llm_bytes_append(out, text, strlen(text), NULL) == BERTH_OK;
}

/// What a list has of each token.
typedef json_t* (*item_maker)(const api_reply* reply,
                              const api_token_list* list,
                              const api_token* token);

/// Appends a list token by token: all of it as values would take ten times its memory as text.
static bool append_items(const api_reply* reply,
                         const api_token_list* list,
                         item_maker make,
                         llm_bytes* out) {
    bool has_room = append_text(out, "[");
    for (size_t i = 0; i < list->count && has_room; i++)
        has_room = (i == 0 || append_text(out, ",")) &&
                   api_json_append(make(reply, list, &list->tokens[i]), out);
    return has_room && append_text(out, "]");
}

static bool append_chat_logprobs(const api_reply* reply,
                                 const api_token_list* list,
                                 llm_bytes* out) {
    return append_text(out, "{\"content\":") && append_items(reply, list, make_chat_token, out) &&
           append_text(out, ",\"refusal\":null}");
}

static bool append_completion_logprobs(const api_reply* reply,
                                       const api_token_list* list,
                                       llm_bytes* out) {
    return append_text(out, "{\"tokens\":") && append_items(reply, list, make_token_text, out) &&
           append_text(out, ",\"token_logprobs\":") &&
           append_items(reply, list, make_token_logprob, out) &&
           append_text(out, ",\"top_logprobs\":") &&
           append_items(reply, list, make_alternatives, out) &&
           append_text(out, ",\"text_offset\":") &&
           append_items(reply, list, make_token_offset, out) && append_text(out, "}");
}

/// Appends the log probabilities of tokens; `list` is NULL where there are none to be told.
static bool append_logprobs(const api_reply* reply, const api_token_list* list, llm_bytes* out) {
    if (list == NULL || !reply->request->wants_logprobs) return append_text(out, "null");
    if (reply->request->endpoint == API_CHAT) return append_chat_logprobs(reply, list, out);
    return append_completion_logprobs(reply, list, out);
}

static json_t* make_finish(api_finish finish) {
    switch (finish) {
    case API_FINISH_STOP:
        return json_string("stop");
    case API_FINISH_LENGTH:
        return json_string("length");
    case API_FINISH_NONE:
        break;
    }
    return json_null();
}

static json_t* make_usage(const api_usage* usage) {
    return json_pack("{s:I, s:I, s:I, s:{s:I, s:i}, s:{s:i, s:i, s:i, s:i}}",
                     "prompt_tokens",
                     (json_int_t)usage->prompt_tokens,
                     "completion_tokens",
                     (json_int_t)usage->answer_tokens,
                     "total_tokens",
                     (json_int_t)(usage->prompt_tokens + usage->answer_tokens),
                     "prompt_tokens_details",
                     "cached_tokens",
                     (json_int_t)usage->cached_tokens,
                     "audio_tokens",
                     0,
                     "completion_tokens_details",
                     "reasoning_tokens",
                     0,
                     "audio_tokens",
                     0,
                     "accepted_prediction_tokens",
                     0,
                     "rejected_prediction_tokens",
                     0);
}

/// Appends an object, which is taken over, without the brace that ends it: members follow.
static bool append_open(json_t* object, llm_bytes* out) {
    if (!api_json_append(object, out)) return false;
    out->size--;
    return true;
}

/// Appends the beginning of an object of a reply, up to its choices.
static bool begin_object(const api_reply* reply, const char* kind, llm_bytes* out) {
    char fingerprint[32] = "berth-";
    strncat(fingerprint, berth_version(), sizeof fingerprint - strlen(fingerprint) - 1);
    json_t* head = json_pack("{s:s, s:s, s:I, s:o, s:s}",
                             "id",
                             reply->id,
                             "object",
                             kind,
                             "created",
                             (json_int_t)reply->created,
                             "model",
                             api_json_text(llm_str_of(reply->model_name)),
                             "system_fingerprint",
                             fingerprint);
    return append_open(head, out) && append_text(out, ",\"choices\":[");
}

/// Appends what follows the choices: the usage, which is taken over, and the end.
static bool end_object(json_t* usage, llm_bytes* out) {
    const bool has_usage = append_text(out, "],\"usage\":");
    return api_json_append(usage, out) && has_usage && append_text(out, "}");
}

/// Appends a choice: `head`, an object that is taken over, and what is the same for all.
static bool append_choice(const api_reply* reply,
                          json_t* head,
                          const api_token_list* tokens,
                          api_finish finish,
                          llm_bytes* out) {
    return append_open(head, out) && append_text(out, ",\"logprobs\":") &&
           append_logprobs(reply, tokens, out) && append_text(out, ",\"finish_reason\":") &&
           api_json_append(make_finish(finish), out) && append_text(out, "}");
}

/// The text that a whole choice has: the prompt before the answer where it is echoed.
static json_t* make_whole_text(const api_reply* reply, const api_choice* choice) {
    if (!reply->request->echoes) return api_json_text(choice->text);
    const api_request* request = reply->request;
    const llm_bytes* prompt = &request->prompt_texts[choice->index / (size_t)request->n];
    llm_bytes joined = {0};
    json_t* text = NULL;
    if (llm_bytes_append(&joined, prompt->data, prompt->size, NULL) == BERTH_OK &&
        llm_bytes_append(&joined, choice->text.data, choice->text.size, NULL) == BERTH_OK)
        text = api_json_text((llm_str){joined.data, joined.size});
    llm_bytes_fini(&joined);
    return text;
}

static bool append_whole_choice(const api_reply* reply, const api_choice* choice, llm_bytes* out) {
    json_t* text = make_whole_text(reply, choice);
    const json_int_t index = (json_int_t)choice->index;
    json_t* head;
    if (reply->request->endpoint == API_COMPLETION)
        head = json_pack("{s:I, s:o}", "index", index, "text", text);
    else
        head = json_pack("{s:I, s:{s:s, s:o, s:n}}",
                         "index",
                         index,
                         "message",
                         "role",
                         "assistant",
                         "content",
                         text,
                         "refusal");
    return append_choice(reply, head, &choice->tokens, choice->finish, out);
}

bool api_reply_whole(const api_reply* reply,
                     const api_choice* choices,
                     size_t choice_count,
                     const api_usage* usage,
                     llm_bytes* out) {
    const size_t before = out->size;
    const char* kind = reply->request->endpoint == API_CHAT ? "chat.completion" : "text_completion";
    bool has_room = begin_object(reply, kind, out);
    for (size_t i = 0; i < choice_count && has_room; i++)
        has_room = (i == 0 || append_text(out, ",")) &&
                   append_whole_choice(reply, &choices[i], out) &&
                   (reply->most_bytes == 0 || out->size - before <= reply->most_bytes);
    if (has_room && end_object(make_usage(usage), out)) return true;
    out->size = before;
    return false;
}

static bool append_end(llm_bytes* out) { return append_text(out, "data: [DONE]\n\n"); }

/// Appends the beginning of an event of a stream, up to its choices.
static bool begin_chunk(const api_reply* reply, llm_bytes* out) {
    const char* kind =
        reply->request->endpoint == API_CHAT ? "chat.completion.chunk" : "text_completion";
    return append_text(out, "data: ") && begin_object(reply, kind, out);
}

/// Appends the rest of an event whose usage is not its matter. A client that did not ask for it
/// does not expect the member at all.
static bool end_chunk(const api_reply* reply, llm_bytes* out) {
    const bool is_ended =
        reply->request->includes_usage ? end_object(json_null(), out) : append_text(out, "]}");
    return is_ended && append_text(out, "\n\n");
}

/// Appends an event with one choice, of which `content`, the delta of a chat or else the text, is
/// taken over.
static bool append_event(const api_reply* reply,
                         const api_choice* choice,
                         json_t* content,
                         llm_bytes* out) {
    const size_t before = out->size;
    json_t* head = json_pack("{s:I, s:o}",
                             "index",
                             (json_int_t)choice->index,
                             reply->request->endpoint == API_CHAT ? "delta" : "text",
                             content);
    const api_token_list* tokens = choice->tokens.count == 0 ? NULL : &choice->tokens;
    const bool has_begun = begin_chunk(reply, out);
    if (append_choice(reply, head, tokens, choice->finish, out) && has_begun &&
        end_chunk(reply, out))
        return true;
    out->size = before;
    return false;
}

bool api_reply_begin(const api_reply* reply, size_t index, llm_bytes* out) {
    const api_request* request = reply->request;
    const api_choice choice = {.index = index};
    json_t* content = NULL;
    if (request->endpoint == API_CHAT) {
        content = json_pack("{s:s, s:s, s:n}", "role", "assistant", "content", "", "refusal");
    } else if (request->echoes) {
        const llm_bytes* prompt = &request->prompt_texts[index / (size_t)request->n];
        content = api_json_text((llm_str){prompt->data, prompt->size});
    } else {
        return true;
    }
    return append_event(reply, &choice, content, out);
}

bool api_reply_piece(const api_reply* reply, const api_choice* choice, llm_bytes* out) {
    json_t* content = NULL;
    if (reply->request->endpoint == API_COMPLETION)
        content = api_json_text(choice->text);
    else if (choice->text.size == 0)
        content = json_object();
    else
        content = json_pack("{s:o}", "content", api_json_text(choice->text));
    return append_event(reply, choice, content, out);
}

bool api_reply_end(const api_reply* reply, const api_usage* usage, llm_bytes* out) {
    const size_t before = out->size;
    const bool has_usage =
        !reply->request->includes_usage ||
        (begin_chunk(reply, out) && end_object(make_usage(usage), out) && append_text(out, "\n\n"));
    if (has_usage && append_end(out)) return true;
    out->size = before;
    return false;
}

bool api_reply_break(const api_error* error, llm_bytes* out) {
    const size_t before = out->size;
    if (append_text(out, "data: ") && api_error_render(error, out) && append_text(out, "\n\n") &&
        append_end(out))
        return true;
    out->size = before;
    return false;
}

static json_t* make_model(const api_about* about) {
    return json_pack("{s:o, s:s, s:I, s:s, s:I}",
                     "id",
                     api_json_text(llm_str_of(about->model_name)),
                     "object",
                     "model",
                     "created",
                     (json_int_t)about->created,
                     "owned_by",
                     "berth",
                     "max_model_len",
                     (json_int_t)about->context_tokens);
}

bool api_models_render(const api_about* about, llm_bytes* out) {
    return api_json_append(json_pack("{s:s, s:[o]}", "object", "list", "data", make_model(about)),
                           out);
}

bool api_model_render(const api_about* about, llm_bytes* out) {
    return api_json_append(make_model(about), out);
}

bool api_props_render(const api_about* about, llm_bytes* out) {
    json_t* object = json_pack("{s:o, s:s, s:I, s:{s:I}, s:I, s:I, s:I, s:s, s:s?}",
                               "model_alias",
                               api_json_text(llm_str_of(about->model_name)),
                               "build_info",
                               about->version,
                               "total_slots",
                               (json_int_t)about->slots,
                               "default_generation_settings",
                               "n_ctx",
                               (json_int_t)about->context_tokens,
                               "trained_tokens",
                               (json_int_t)about->trained_tokens,
                               "vocab_tokens",
                               (json_int_t)about->vocab_tokens,
                               "weight_bytes",
                               (json_int_t)about->weight_bytes,
                               "kv_type",
                               about->kv_type,
                               "chat_style",
                               about->chat_style);
    return api_json_append(object, out);
}
