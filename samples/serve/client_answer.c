// SPDX-License-Identifier: Apache-2.0
// JSON of requests and answers.
#include "client_answer.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

// ---- Requests.

const char* client_ask_path(const client_ask* ask) {
    return ask->is_chat ? "/v1/chat/completions" : "/v1/completions";
}

/// Puts `value`, which it takes over, into `object`. False: memory is short.
static bool put(json_t* object, const char* name, json_t* value) {
    return json_object_set_new(object, name, value) == 0;
}

static bool put_prompt(json_t* object, const client_ask* ask) {
    const char* data = ask->prompt.data == NULL ? "" : ask->prompt.data;
    json_t* text = json_stringn_nocheck(data, ask->prompt.size);
    if (!ask->is_chat) return put(object, "prompt", text);
    return put(object, "messages", json_pack("[{s:s, s:o}]", "role", "user", "content", text));
}

static bool put_members(json_t* object, const client_ask* ask) {
    if (ask->model != NULL && !put(object, "model", json_string(ask->model))) return false;
    if (ask->user != NULL && !put(object, "user", json_string(ask->user))) return false;
    if (!put_prompt(object, ask)) return false;
    if (!put(object, "max_tokens", json_integer(ask->max_tokens))) return false;
    if (!put(object, "temperature", json_real(ask->temperature))) return false;
    if (ask->ignores_eos && !put(object, "ignore_eos", json_true())) return false;
    if (!ask->streams) return true;
    return put(object, "stream", json_true()) &&
           put(object, "stream_options", json_pack("{s:b}", "include_usage", 1));
}

/// Appends the object as text. Its size is asked first, as json_dump_callback() overlooks some
/// failures of its callback.
static berth_status append(const json_t* object, llm_bytes* out, llm_error* error) {
    const size_t size = json_dumpb(object, NULL, 0, JSON_COMPACT);
    if (size == 0) return llm_fail_memory(error, "a request");
    berth_status status = llm_bytes_reserve(out, size, error);
    if (status != BERTH_OK) return status;
    if (json_dumpb(object, out->data + out->size, size, JSON_COMPACT) != size)
        return llm_fail_memory(error, "a request");
    out->size += size;
    return BERTH_OK;
}

static bool is_utf8(llm_str text) {
    json_t* value = json_stringn(text.data == NULL ? "" : text.data, text.size);
    json_decref(value);
    return value != NULL;
}

berth_status client_ask_write(const client_ask* ask, llm_bytes* out, llm_error* error) {
    const char* model = ask->model == NULL ? "" : ask->model;
    const char* person = ask->user == NULL ? "" : ask->user;
    if (!is_utf8(ask->prompt) || !is_utf8(llm_str_of(model)) || !is_utf8(llm_str_of(person)))
        return llm_fail(error,
                        BERTH_ERR_INVALID_ARGUMENT,
                        "a prompt, a model's or a user's name is no valid UTF-8");
    json_t* object = json_object();
    berth_status status = object != NULL && put_members(object, ask)
                              ? append(object, out, error)
                              : llm_fail_memory(error, "a request");
    json_decref(object);
    return status;
}

// ---- Answers.

client_usage client_usage_unknown(void) {
    return (client_usage){.prompt_tokens = -1, .cached_tokens = -1, .answer_tokens = -1};
}

static void copy_printable(llm_str text, char* out, size_t out_size) {
    const size_t count = text.size < out_size - 1 ? text.size : out_size - 1;
    for (size_t i = 0; i < count; i++)
        out[i] = text.data[i] < ' ' || text.data[i] > '~' ? '?' : text.data[i];
    out[count] = '\0';
}

static llm_str text_of(const json_t* value) {
    return (llm_str){json_string_value(value), json_string_length(value)};
}

/// What an error object, or the text that some servers have in its place, says.
static llm_str message_of(const json_t* error) {
    const json_t* message = json_object_get(error, "message");
    return text_of(message == NULL ? error : message);
}

static berth_status parse(llm_str json, json_t** out, llm_error* error) {
    json_error_t why;
    // a model may say the character of number 0
    *out = json_loadb(json.data == NULL ? "" : json.data, json.size, JSON_ALLOW_NUL, &why);
    if (json_is_object(*out)) return BERTH_OK;
    const bool is_short = *out == NULL && json_error_code(&why) == json_error_out_of_memory;
    const char* reason = *out == NULL ? why.text : "no object";
    json_decref(*out);
    *out = NULL;
    if (is_short) return llm_fail_memory(error, "an answer");
    return llm_fail(error,
                    BERTH_ERR_CORRUPT,
                    "the answer is no object of JSON (%s): %s",
                    reason,
                    llm_quote(json).text);
}

/// Fails if the object is an error.
static berth_status check_error(const json_t* object, llm_error* error) {
    const json_t* said = json_object_get(object, "error");
    if (said == NULL || json_is_null(said)) return BERTH_OK;
    char message[512];
    copy_printable(message_of(said), message, sizeof message);
    return llm_fail(error, BERTH_ERR_IO, "the server says: %s", message);
}

static void read_text(const json_t* holder, client_text_fn on_text, void* user) {
    static const char* const names[] = {"text", "content", "reasoning_content"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const llm_str text = text_of(json_object_get(holder, names[i]));
        if (text.size > 0 && on_text != NULL) on_text(user, text);
    }
}

/// The text of a choice stands in it, or in its message, or in what a stream adds to that.
static void read_choices(const json_t* choices, client_text_fn on_text, void* user) {
    for (size_t i = 0; i < json_array_size(choices); i++) {
        const json_t* choice = json_array_get(choices, i);
        read_text(choice, on_text, user);
        read_text(json_object_get(choice, "delta"), on_text, user);
        read_text(json_object_get(choice, "message"), on_text, user);
    }
}

static void read_count(const json_t* object, const char* name, int64_t* out) {
    const json_t* value = json_object_get(object, name);
    if (json_is_integer(value) && json_integer_value(value) >= 0) *out = json_integer_value(value);
}

static void read_usage(const json_t* said, client_usage* usage) {
    read_count(said, "prompt_tokens", &usage->prompt_tokens);
    read_count(said, "completion_tokens", &usage->answer_tokens);
    const json_t* details = json_object_get(said, "prompt_tokens_details");
    read_count(details, "cached_tokens", &usage->cached_tokens);
}

berth_status client_answer_read(
    llm_str json, client_text_fn on_text, void* user, client_usage* usage, llm_error* error) {
    json_t* object;
    berth_status status = parse(json, &object, error);
    if (status == BERTH_OK) status = check_error(object, error);
    if (status == BERTH_OK) {
        read_choices(json_object_get(object, "choices"), on_text, user);
        read_usage(json_object_get(object, "usage"), usage);
    }
    json_decref(object);
    return status;
}

berth_status client_models_read(llm_str json, llm_bytes* out_name, llm_error* error) {
    json_t* object;
    berth_status status = parse(json, &object, error);
    if (status == BERTH_OK) status = check_error(object, error);
    if (status == BERTH_OK) {
        const json_t* first = json_array_get(json_object_get(object, "data"), 0);
        const char* name = json_string_value(json_object_get(first, "id"));
        status = name == NULL ? llm_fail(error, BERTH_ERR_NOT_FOUND, "the server names no model")
                              : llm_bytes_append(out_name, name, strlen(name) + 1, error);
    }
    json_decref(object);
    return status;
}

void client_refusal_read(llm_str body, char* out, size_t out_size) {
    json_t* object = json_loadb(body.data == NULL ? "" : body.data, body.size, 0, NULL);
    const llm_str message = message_of(json_object_get(object, "error"));
    copy_printable(message.size > 0 ? message : body, out, out_size);
    json_decref(object);
}
