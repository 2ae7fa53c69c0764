// SPDX-License-Identifier: Apache-2.0
// Prompts of requests: conversations, texts and lists of token ids become tokens.
#include "api_request_internal.h"

#include <inttypes.h>
#include <string.h>

/// Refuses texts that cannot fit into the context, however they are tokenized: that would take
/// time and memory for nothing.
static bool check_size(const api_reader* reader,
                       size_t bytes,
                       const char* param,
                       api_error* error) {
    size_t most;
    if (__builtin_mul_overflow((size_t)reader->context_tokens, reader->most_token_bytes, &most) ||
        bytes <= most)
        return true;
    return api_fail(error,
                    API_ERROR_CONTEXT_LENGTH,
                    param,
                    "the prompt has %zu bytes; the context of %" PRId64
                    " tokens has room for %zu at most",
                    bytes,
                    reader->context_tokens,
                    most);
}

/// Says why a text could not become tokens.
static bool fail_tokenizing(berth_status status,
                            const llm_error* why,
                            const char* param,
                            api_error* error) {
    if (status == BERTH_ERR_OUT_OF_MEMORY) return api_json_fail_memory(error);
    return api_fail(error, API_ERROR_INVALID, param, "%s", why->text);
}

/// Makes room for `count` prompts, and for their texts if they are echoed.
static bool add_prompts(api_request* request, size_t count, api_error* error) {
    request->prompts = llm_alloc_zeroed(count, sizeof *request->prompts);
    if (request->prompts == NULL) return api_json_fail_memory(error);
    request->prompt_count = count;
    if (!request->echoes) return true;
    request->prompt_texts = llm_alloc_zeroed(count, sizeof *request->prompt_texts);
    return request->prompt_texts != NULL || api_json_fail_memory(error);
}

bool api_ids_read(const api_reader* reader,
                  const json_t* list,
                  const char* param,
                  llm_tokens* tokens,
                  api_error* error) {
    const int64_t most = (int64_t)llm_tokenizer_token_count(reader->tokenizer) - 1;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t* value = json_array_get(list, i);
        const api_place place = api_place_of("%s[%zu]", param, i);
        int64_t id = -1;
        if (!api_json_read_integer(value, place.text, 0, most, &id, error)) return false;
        if (id < 0) return api_json_refuse(value, place.text, "a token id", error);
        if (llm_tokens_push(tokens, (int32_t)id, NULL) != BERTH_OK)
            return api_json_fail_memory(error);
    }
    return true;
}

static bool read_text_prompt(const api_reader* reader,
                             const json_t* value,
                             size_t index,
                             api_request* request,
                             api_error* error) {
    const llm_str text = {json_string_value(value), json_string_length(value)};
    if (!check_size(reader, text.size, "prompt", error)) return false;
    llm_tokens* tokens = &request->prompts[index];
    llm_error why;
    // spellings of control tokens are those tokens, as with other servers: whoever frames a
    // conversation by hand has no other way to write one
    const unsigned flags = LLM_ENCODE_ADD_SPECIAL | LLM_ENCODE_PARSE_SPECIAL;
    const berth_status status = llm_tokenizer_encode(reader->tokenizer, text, flags, tokens, &why);
    if (status != BERTH_OK) return fail_tokenizing(status, &why, "prompt", error);
    if (tokens->count == 0)
        return api_fail(error,
                        API_ERROR_INVALID,
                        "prompt",
                        "the prompt is empty, and this model's texts begin with no token that "
                        "could stand for it");
    if (!request->echoes) return true;
    if (llm_bytes_append(&request->prompt_texts[index], text.data, text.size, NULL) == BERTH_OK)
        return true;
    return api_json_fail_memory(error);
}

static bool read_id_prompt(const api_reader* reader,
                           const json_t* list,
                           const char* param,
                           size_t index,
                           api_request* request,
                           api_error* error) {
    llm_tokens* tokens = &request->prompts[index];
    if (json_array_size(list) == 0)
        return api_fail(error, API_ERROR_INVALID, param, "\"%s\" is an empty list", param);
    if (!api_ids_read(reader, list, param, tokens, error)) return false;
    if (!request->echoes) return true;
    llm_bytes* text = &request->prompt_texts[index];
    if (llm_tokenizer_decode(reader->tokenizer, tokens->ids, tokens->count, text, NULL) == BERTH_OK)
        return true;
    return api_json_fail_memory(error);
}

/// Reads a list of prompts, texts or lists of token ids each.
static bool read_prompt_list(const api_reader* reader,
                             const json_t* list,
                             api_request* request,
                             api_error* error) {
    const size_t count = json_array_size(list);
    if (count > API_MOST_CHOICES / (size_t)request->n)
        return api_fail(error,
                        API_ERROR_INVALID,
                        "prompt",
                        "%zu prompts with %" PRId64 " answers each; a request may have %d answers",
                        count,
                        request->n,
                        API_MOST_CHOICES);
    if (!add_prompts(request, count, error)) return false;
    for (size_t i = 0; i < count; i++) {
        const json_t* value = json_array_get(list, i);
        const api_place place = api_place_of("prompt[%zu]", i);
        bool is_read;
        if (json_is_string(value))
            is_read = read_text_prompt(reader, value, i, request, error);
        else if (json_is_array(value))
            is_read = read_id_prompt(reader, value, place.text, i, request, error);
        else
            is_read = api_json_refuse(value, place.text, "a text or a list of token ids", error);
        if (!is_read) return false;
    }
    return true;
}

static bool read_completion_prompts(const api_reader* reader,
                                    const json_t* body,
                                    api_request* request,
                                    api_error* error) {
    const json_t* value = json_object_get(body, "prompt");
    if (json_is_string(value))
        return add_prompts(request, 1, error) && read_text_prompt(reader, value, 0, request, error);
    if (!json_is_array(value))
        return api_json_refuse(
            value, "prompt", "a text, or a list of texts, token ids or lists of token ids", error);
    if (json_array_size(value) > 0 && !json_is_number(json_array_get(value, 0)))
        return read_prompt_list(reader, value, request, error);
    return add_prompts(request, 1, error) &&
           read_id_prompt(reader, value, "prompt", 0, request, error);
}

/// A conversation on its way to tokens.
typedef struct conversation {
    llm_chat_message* messages; ///< [count]
    llm_bytes* joined;          ///< [count], contents that came in parts
    size_t count;
    size_t bytes; ///< of all contents
} conversation;

/// Appends the text of one part of a content. Parts are apart by a new line, as with other servers.
static bool read_part(
    const json_t* part, const char* param, bool is_first, llm_bytes* joined, api_error* error) {
    llm_str type = {NULL, 0};
    const api_place type_place = api_place_of("%s.type", param);
    const api_place text_place = api_place_of("%s.text", param);
    if (!json_is_object(part)) return api_json_refuse(part, param, "an object", error);
    if (!api_json_read_text(json_object_get(part, "type"), type_place.text, &type, error))
        return false;
    if (!llm_str_equal(type, llm_str_of("text")))
        return api_fail(error,
                        API_ERROR_INVALID,
                        type_place.text,
                        "\"%s\" is \"%s\"; only \"text\" is understood",
                        type_place.text,
                        llm_quote(type).text);
    const json_t* value = json_object_get(part, "text");
    if (!json_is_string(value)) return api_json_refuse(value, text_place.text, "a text", error);
    const llm_str text = {json_string_value(value), json_string_length(value)};
    if (llm_bytes_append(joined, "\n", is_first ? 0 : 1, NULL) == BERTH_OK &&
        llm_bytes_append(joined, text.data, text.size, NULL) == BERTH_OK)
        return true;
    return api_json_fail_memory(error);
}

static bool read_content(const json_t* value,
                         const char* param,
                         bool may_lack,
                         llm_bytes* joined,
                         llm_str* out,
                         api_error* error) {
    if (may_lack && (value == NULL || json_is_null(value))) return true;
    if (json_is_string(value)) return api_json_read_text(value, param, out, error);
    if (!json_is_array(value))
        return api_json_refuse(value, param, "a text or a list of parts with text", error);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const api_place place = api_place_of("%s[%zu]", param, i);
        if (!read_part(json_array_get(value, i), place.text, i == 0, joined, error)) return false;
    }
    *out = (llm_str){joined->data, joined->size};
    return true;
}

/// Reads a role, as models are trained with it.
static bool read_role(const json_t* value, const char* param, llm_str* out, api_error* error) {
    static const char* const roles[][2] = {{"system", "system"},
                                           {"developer", "system"},
                                           {"user", "user"},
                                           {"assistant", "assistant"}};
    llm_str role = {NULL, 0};
    if (!json_is_string(value)) return api_json_refuse(value, param, "a text", error);
    if (!api_json_read_text(value, param, &role, error)) return false;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (!llm_str_equal(role, llm_str_of(roles[i][0]))) continue;
        *out = llm_str_of(roles[i][1]);
        return true;
    }
    return api_fail(error,
                    API_ERROR_INVALID,
                    param,
                    "\"%s\" is \"%s\"; it must be system, developer, user or assistant",
                    param,
                    llm_quote(role).text);
}

/// Refuses what a message has beside text.
static bool check_extras(const json_t* message, size_t index, api_error* error) {
    static const char* const names[] = {"tool_calls", "function_call", "audio"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (api_asks_nothing(json_object_get(message, names[i]))) continue;
        const api_place place = api_place_of("messages[%zu].%s", index, names[i]);
        return api_fail(error,
                        API_ERROR_INVALID,
                        place.text,
                        "\"%s\" is not understood; messages have text alone",
                        place.text);
    }
    return true;
}

static bool read_message(const json_t* value, size_t index, conversation* talk, api_error* error) {
    llm_chat_message* message = &talk->messages[index];
    const api_place place = api_place_of("messages[%zu]", index);
    const api_place role = api_place_of("messages[%zu].role", index);
    const api_place content = api_place_of("messages[%zu].content", index);
    if (!json_is_object(value)) return api_json_refuse(value, place.text, "an object", error);
    if (!read_role(json_object_get(value, "role"), role.text, &message->role, error) ||
        !check_extras(value, index, error))
        return false;
    const bool may_lack = llm_str_equal(message->role, llm_str_of("assistant"));
    if (!read_content(json_object_get(value, "content"),
                      content.text,
                      may_lack,
                      &talk->joined[index],
                      &message->content,
                      error))
        return false;
    talk->bytes += message->content.size;
    return true;
}

/// Reads the messages and frames them.
static bool read_conversation(const api_reader* reader,
                              const json_t* list,
                              conversation* talk,
                              api_request* request,
                              api_error* error) {
    for (size_t i = 0; i < talk->count; i++)
        if (!read_message(json_array_get(list, i), i, talk, error)) return false;
    if (!check_size(reader, talk->bytes, "messages", error) || !add_prompts(request, 1, error))
        return false;
    llm_error why;
    const berth_status status = llm_chat_render(
        reader->chat, talk->messages, talk->count, true, true, &request->prompts[0], &why);
    return status == BERTH_OK || fail_tokenizing(status, &why, "messages", error);
}

static bool read_chat(const api_reader* reader,
                      const json_t* body,
                      api_request* request,
                      api_error* error) {
    const json_t* list = json_object_get(body, "messages");
    if (reader->chat == NULL)
        return api_fail(error,
                        API_ERROR_INVALID,
                        "messages",
                        "this model has no frame for conversations; /v1/completions continues "
                        "plain text");
    if (!json_is_array(list)) return api_json_refuse(list, "messages", "a list", error);
    if (json_array_size(list) == 0)
        return api_fail(error, API_ERROR_INVALID, "messages", "\"messages\" is an empty list");
    conversation talk = {.count = json_array_size(list)};
    talk.messages = llm_alloc_zeroed(talk.count, sizeof *talk.messages);
    talk.joined = llm_alloc_zeroed(talk.count, sizeof *talk.joined);
    const bool has_room = talk.messages != NULL && talk.joined != NULL;
    const bool is_read = has_room ? read_conversation(reader, list, &talk, request, error)
                                  : api_json_fail_memory(error);
    for (size_t i = 0; talk.joined != NULL && i < talk.count; i++)
        llm_bytes_fini(&talk.joined[i]);
    llm_free(talk.joined);
    llm_free(talk.messages);
    return is_read;
}

bool api_prompts_read(const api_reader* reader,
                      const json_t* body,
                      api_request* request,
                      api_error* error) {
    return request->endpoint == API_CHAT ? read_chat(reader, body, request, error)
                                         : read_completion_prompts(reader, body, request, error);
}
