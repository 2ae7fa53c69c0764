// SPDX-License-Identifier: Apache-2.0
// Requests for answers: everything but their prompts.
#include "api_request_internal.h"

#include <float.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// A member of the interface, or of other servers, that is not honoured.
typedef struct unsupported {
    const char* name;
    const char* plain[2]; ///< words that ask for nothing beyond what is done anyway
    double number;        ///< a number that does
} unsupported;

static const unsupported unsupported_members[] = {
    {"tools", {NULL}, 0},
    {"functions", {NULL}, 0},
    {"tool_choice", {"auto", "none"}, 0},
    {"function_call", {"auto", "none"}, 0},
    {"response_format", {"text"}, 0},
    {"modalities", {"text"}, 0},
    {"audio", {NULL}, 0},
    {"web_search_options", {NULL}, 0},
    {"store", {NULL}, 0},
    {"suffix", {NULL}, 0},
    {"grammar", {NULL}, 0},
    {"json_schema", {NULL}, 0},
    {"guided_json", {NULL}, 0},
    {"guided_regex", {NULL}, 0},
    {"guided_choice", {NULL}, 0},
    {"guided_grammar", {NULL}, 0},
    {"structured_outputs", {NULL}, 0},
    {"use_beam_search", {NULL}, 0},
    {"stop_token_ids", {NULL}, 0},
    {"continue_final_message", {NULL}, 0},
    {"min_tokens", {NULL}, 0},
    {"repetition_penalty", {NULL}, 1},
    {"repeat_penalty", {NULL}, 1},
};

api_place api_place_of(const char* format, ...) {
    api_place place;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(place.text, sizeof place.text, format, arguments);
    va_end(arguments);
    return place;
}

static bool is_number(const json_t* value, double number) {
    return json_is_number(value) && !(json_number_value(value) < number) &&
           !(json_number_value(value) > number);
}

bool api_asks_nothing(const json_t* value) {
    if (value == NULL || json_is_null(value) || json_is_false(value)) return true;
    if (json_is_string(value)) return json_string_length(value) == 0;
    if (json_is_array(value)) return json_array_size(value) == 0;
    if (json_is_object(value)) return json_object_size(value) == 0;
    return is_number(value, 0);
}

/// True for a text that is one of the words.
static bool is_plain_text(const json_t* value, const char* const plain[2]) {
    if (!json_is_string(value)) return false;
    for (int i = 0; i < 2 && plain[i] != NULL; i++)
        if (strcmp(json_string_value(value), plain[i]) == 0) return true;
    return false;
}

/// True for one of the words, a list of them, or an object of such a type.
static bool is_plain(const json_t* value, const char* const plain[2]) {
    if (json_is_object(value)) return is_plain_text(json_object_get(value, "type"), plain);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!is_plain_text(json_array_get(value, i), plain)) return false;
    return json_is_array(value) || is_plain_text(value, plain);
}

static bool refuse_unsupported(const json_t* body, api_error* error) {
    for (size_t i = 0; i < sizeof unsupported_members / sizeof *unsupported_members; i++) {
        const unsupported* member = &unsupported_members[i];
        const json_t* value = json_object_get(body, member->name);
        if (api_asks_nothing(value) || is_number(value, member->number) ||
            is_plain(value, member->plain))
            continue;
        return api_fail(error,
                        API_ERROR_INVALID,
                        member->name,
                        "\"%s\" asks for what this server cannot do; leave it out",
                        member->name);
    }
    return true;
}

/// True if a model is asked for by the name it is served under, or by what follows the last '/'.
static bool is_served(const char* served, llm_str asked) {
    const char* slash = strrchr(served, '/');
    return llm_str_equal(asked, llm_str_of(served)) ||
           (slash != NULL && llm_str_equal(asked, llm_str_of(slash + 1)));
}

static bool check_model(const api_reader* reader, const json_t* body, api_error* error) {
    llm_str asked = {NULL, 0};
    if (!api_json_read_text(json_object_get(body, "model"), "model", &asked, error)) return false;
    if (asked.data == NULL || is_served(reader->model_name, asked)) return true;
    return api_fail(error,
                    API_ERROR_MODEL_NOT_FOUND,
                    "model",
                    "the model \"%s\" is not here; \"%s\" is",
                    llm_quote(asked).text,
                    reader->model_name);
}

/// Reads token ids and what is added to their logits.
static bool read_logit_bias(const api_reader* reader,
                            const json_t* body,
                            api_request* out,
                            api_error* error) {
    json_t* object = json_object_get(body, "logit_bias");
    if (object == NULL || json_is_null(object)) return true;
    const size_t count = json_object_size(object);
    if (!json_is_object(object)) return api_json_refuse(object, "logit_bias", "an object", error);
    if (count > LLM_MOST_LOGIT_BIASES)
        return api_fail(error,
                        API_ERROR_INVALID,
                        "logit_bias",
                        "\"logit_bias\" has %zu tokens; it may have %d",
                        count,
                        LLM_MOST_LOGIT_BIASES);
    out->logit_bias = llm_alloc_zeroed(count, sizeof *out->logit_bias);
    if (out->logit_bias == NULL) return api_json_fail_memory(error);
    out->sampling.logit_bias = out->logit_bias;
    const char* name;
    json_t* value;
    json_object_foreach(object, name, value) {
        char* end;
        const bool is_digits = name[strspn(name, "0123456789")] == '\0' && name[0] != '\0';
        const unsigned long long id = strtoull(name, &end, 10);
        const size_t tokens = llm_tokenizer_token_count(reader->tokenizer);
        if (!is_digits || id >= tokens)
            return api_fail(error,
                            API_ERROR_INVALID,
                            "logit_bias",
                            "\"logit_bias\" has \"%s\", which is no token id from 0 to %zu",
                            llm_quote(llm_str_of(name)).text,
                            tokens - 1);
        llm_logit_bias* bias = &out->logit_bias[out->sampling.logit_bias_count++];
        bias->id = (int32_t)id;
        const api_place place = api_place_of("logit_bias.%llu", id);
        if (!api_json_read_number(value, place.text, -100, 100, &bias->bias, error)) return false;
    }
    return true;
}

static bool read_seed(const json_t* body, api_request* out, api_error* error) {
    int64_t seed;
    arc4random_buf(&seed, sizeof seed);
    const json_t* value = json_object_get(body, "seed");
    if (!api_json_read_integer(value, "seed", INT64_MIN, INT64_MAX, &seed, error)) return false;
    out->sampling.seed = (uint64_t)seed;
    return true;
}

static bool read_sampling(const api_reader* reader,
                          const json_t* body,
                          api_request* out,
                          api_error* error) {
    llm_sampler_options* sampling = &out->sampling;
    *sampling = llm_sampler_options_default();
    sampling->temperature = 1;
    const struct {
        const char* name;
        double low, high;
        float* out;
    } numbers[] = {
        {"temperature", 0, 2, &sampling->temperature},
        {"top_p", 0, 1, &sampling->top_p},
        {"min_p", 0, 1, &sampling->min_p},
        {"presence_penalty", -2, 2, &sampling->presence_penalty},
        {"frequency_penalty", -2, 2, &sampling->frequency_penalty},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const json_t* value = json_object_get(body, numbers[i].name);
        if (!api_json_read_number(
                value, numbers[i].name, numbers[i].low, numbers[i].high, numbers[i].out, error))
            return false;
    }
    // no share at all still keeps the likeliest token
    if (!(sampling->top_p > FLT_MIN)) sampling->top_p = FLT_MIN;
    int64_t top_k = 0;
    const json_t* value = json_object_get(body, "top_k");
    if (!api_json_read_integer(value, "top_k", -1, INT32_MAX, &top_k, error)) return false;
    sampling->top_k = top_k < 0 ? 0 : (int32_t)top_k; // some servers call "all" -1
    return read_seed(body, out, error) && read_logit_bias(reader, body, out, error);
}

static bool read_stop(const json_t* value, const char* param, api_request* out, api_error* error) {
    const size_t size = json_string_length(value);
    if (!json_is_string(value)) return api_json_refuse(value, param, "a text", error);
    if (size < 1 || size > API_MOST_STOP_BYTES)
        return api_fail(error,
                        API_ERROR_INVALID,
                        param,
                        "\"%s\" has %zu bytes; it must have 1 to %d",
                        param,
                        size,
                        API_MOST_STOP_BYTES);
    llm_bytes* stop = &out->stops[out->stop_count++];
    if (llm_bytes_append(stop, json_string_value(value), size, NULL) == BERTH_OK) return true;
    return api_json_fail_memory(error);
}

static bool read_stops(const json_t* body, api_request* out, api_error* error) {
    const json_t* value = json_object_get(body, "stop");
    if (value == NULL || json_is_null(value)) return true;
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count > API_MOST_STOPS)
        return api_fail(error,
                        API_ERROR_INVALID,
                        "stop",
                        "\"stop\" has %zu texts; at most %d are looked for",
                        count,
                        API_MOST_STOPS);
    out->stops = llm_alloc_zeroed(count, sizeof *out->stops);
    if (out->stops == NULL) return api_json_fail_memory(error);
    if (!json_is_array(value)) return read_stop(value, "stop", out, error);
    for (size_t i = 0; i < count; i++) {
        const api_place place = api_place_of("stop[%zu]", i);
        if (!read_stop(json_array_get(value, i), place.text, out, error)) return false;
    }
    return true;
}

/// Reads how many alternatives a chat wants: a flag and a number of its own.
static bool read_chat_logprobs(const json_t* body, api_request* out, api_error* error) {
    int64_t top = 0;
    const json_t* wants = json_object_get(body, "logprobs");
    const json_t* count = json_object_get(body, "top_logprobs");
    if (!api_json_read_flag(wants, "logprobs", &out->wants_logprobs, error) ||
        !api_json_read_integer(count, "top_logprobs", 0, API_MOST_TOP_LOGPROBS, &top, error))
        return false;
    if (top > 0 && !out->wants_logprobs)
        return api_fail(error,
                        API_ERROR_INVALID,
                        "top_logprobs",
                        "\"top_logprobs\" needs \"logprobs\" to be true");
    out->top_logprobs = (int32_t)top;
    return true;
}

/// Reads how many alternatives a completion wants: a number is all there is.
static bool read_completion_logprobs(const json_t* body, api_request* out, api_error* error) {
    int64_t top = -1;
    const json_t* count = json_object_get(body, "logprobs");
    if (!api_json_read_integer(count, "logprobs", 0, API_MOST_TOP_LOGPROBS, &top, error))
        return false;
    out->wants_logprobs = top >= 0;
    out->top_logprobs = top < 0 ? 0 : (int32_t)top;
    // those of the prompt's tokens would be part of the answer, and are not computed
    if (out->wants_logprobs && out->echoes)
        return api_fail(error,
                        API_ERROR_INVALID,
                        "echo",
                        "\"echo\" and \"logprobs\" cannot be had together: the prompt's tokens "
                        "have no log probabilities here");
    return true;
}

/// Reads what only completions have.
static bool read_completion(const json_t* body, api_request* out, api_error* error) {
    int64_t best_of = out->n;
    if (!api_json_read_flag(json_object_get(body, "echo"), "echo", &out->echoes, error) ||
        !api_json_read_integer(
            json_object_get(body, "best_of"), "best_of", 1, API_MOST_CHOICES, &best_of, error))
        return false;
    if (best_of == out->n) return read_completion_logprobs(body, out, error);
    return api_fail(error,
                    API_ERROR_INVALID,
                    "best_of",
                    "\"best_of\" is %" PRId64 "; it must be \"n\", which is %" PRId64
                    ", as all answers are given",
                    best_of,
                    out->n);
}

static bool read_stream(const json_t* body, api_request* out, api_error* error) {
    const json_t* options = json_object_get(body, "stream_options");
    if (!api_json_read_flag(json_object_get(body, "stream"), "stream", &out->streams, error))
        return false;
    if (options == NULL || json_is_null(options)) return true;
    if (!json_is_object(options))
        return api_json_refuse(options, "stream_options", "an object", error);
    if (!out->streams)
        return api_fail(error,
                        API_ERROR_INVALID,
                        "stream_options",
                        "\"stream_options\" needs \"stream\" to be true");
    return api_json_read_flag(json_object_get(options, "include_usage"),
                              "stream_options.include_usage",
                              &out->includes_usage,
                              error);
}

static bool read_user(const json_t* body, api_request* out, api_error* error) {
    llm_str user = {NULL, 0};
    if (!api_json_read_text(json_object_get(body, "user"), "user", &user, error)) return false;
    if (llm_bytes_append(&out->user, user.data, user.size, NULL) == BERTH_OK) return true;
    return api_json_fail_memory(error);
}

/// Reads how long answers may be, under either of the member's names; 0 if that is not said.
static bool read_limit(const json_t* body, api_request* out, api_error* error) {
    int64_t newer = 0;
    const json_t* value = json_object_get(body, "max_tokens");
    const json_t* newer_value = json_object_get(body, "max_completion_tokens");
    if (!api_json_read_integer(value, "max_tokens", 1, INT64_MAX, &out->max_tokens, error) ||
        !api_json_read_integer(newer_value, "max_completion_tokens", 1, INT64_MAX, &newer, error))
        return false;
    if (newer == 0) return true;
    if (out->max_tokens != 0 && out->max_tokens != newer)
        return api_fail(error,
                        API_ERROR_INVALID,
                        "max_tokens",
                        "\"max_tokens\" is %" PRId64 " and \"max_completion_tokens\" is %" PRId64
                        "; one of them is enough",
                        out->max_tokens,
                        newer);
    out->max_tokens = newer;
    return true;
}

/// Settles how long answers may be, now that the prompts are known.
static bool settle_limit(const api_reader* reader, api_request* out, api_error* error) {
    int64_t longest = 0;
    for (size_t i = 0; i < out->prompt_count; i++)
        if ((int64_t)out->prompts[i].count > longest) longest = (int64_t)out->prompts[i].count;
    const int64_t left = reader->context_tokens - longest;
    if (left < 1)
        return api_fail(error,
                        API_ERROR_CONTEXT_LENGTH,
                        out->endpoint == API_CHAT ? "messages" : "prompt",
                        "the prompt has %" PRId64 " tokens; with one of an answer at least it must "
                        "fit into the context of %" PRId64 " tokens",
                        longest,
                        reader->context_tokens);
    // the client counts on what it asks for: less is not given without its knowledge
    if (out->max_tokens > left)
        return api_fail(error,
                        API_ERROR_CONTEXT_LENGTH,
                        "max_tokens",
                        "the prompt has %" PRId64 " tokens and the answer may have %" PRId64
                        "; together they must fit into the context of %" PRId64 " tokens",
                        longest,
                        out->max_tokens,
                        reader->context_tokens);
    if (out->max_tokens > 0) return true;
    out->max_tokens = left;
    if (out->endpoint == API_COMPLETION && left > API_COMPLETION_TOKENS)
        out->max_tokens = API_COMPLETION_TOKENS;
    return true;
}

/// Reads all members; the prompts last, since they take most of the time.
static bool read_members(const api_reader* reader,
                         const json_t* body,
                         api_request* out,
                         api_error* error) {
    out->n = 1;
    return check_model(reader, body, error) && refuse_unsupported(body, error) &&
           api_json_read_integer(
               json_object_get(body, "n"), "n", 1, API_MOST_CHOICES, &out->n, error) &&
           read_sampling(reader, body, out, error) && read_stops(body, out, error) &&
           (out->endpoint == API_CHAT ? read_chat_logprobs(body, out, error)
                                      : read_completion(body, out, error)) &&
           read_stream(body, out, error) && read_user(body, out, error) &&
           api_json_read_flag(
               json_object_get(body, "ignore_eos"), "ignore_eos", &out->ignores_stop, error) &&
           read_limit(body, out, error) && api_prompts_read(reader, body, out, error) &&
           settle_limit(reader, out, error);
}

bool api_request_parse(const api_reader* reader,
                       api_endpoint endpoint,
                       llm_str body,
                       api_request* out,
                       api_error* error) {
    *out = (api_request){.endpoint = endpoint};
    *error = (api_error){.kind = API_ERROR_NONE};
    json_t* object = api_json_load(body, error);
    if (object == NULL) return false;
    const bool is_read = read_members(reader, object, out, error);
    json_decref(object);
    return is_read;
}

static void fini_texts(llm_bytes* texts, size_t count) {
    for (size_t i = 0; texts != NULL && i < count; i++)
        llm_bytes_fini(&texts[i]);
    llm_free(texts);
}

void api_request_fini(api_request* request) {
    for (size_t i = 0; i < request->prompt_count; i++)
        llm_tokens_fini(&request->prompts[i]);
    llm_free(request->prompts);
    fini_texts(request->prompt_texts, request->prompt_count);
    fini_texts(request->stops, request->stop_count);
    llm_bytes_fini(&request->user);
    llm_free(request->logit_bias);
    *request = (api_request){0};
}
