// SPDX-License-Identifier: Apache-2.0
// Texts to tokens and back for clients that ask for that alone.
#include "api_request_internal.h"

#include <string.h>

/// What a client asks for.
typedef struct tokenizing {
    llm_str content;
    unsigned flags;
    bool has_pieces;
} tokenizing;

static bool read_tokenizing(const json_t* body, tokenizing* out, api_error* error) {
    bool adds_special = false;
    bool parses_special = true;
    const json_t* content = json_object_get(body, "content");
    if (!json_is_string(content)) return api_json_refuse(content, "content", "a text", error);
    if (!api_json_read_text(content, "content", &out->content, error) ||
        !api_json_read_flag(
            json_object_get(body, "add_special"), "add_special", &adds_special, error) ||
        !api_json_read_flag(
            json_object_get(body, "parse_special"), "parse_special", &parses_special, error) ||
        !api_json_read_flag(
            json_object_get(body, "with_pieces"), "with_pieces", &out->has_pieces, error))
        return false;
    out->flags = (adds_special ? LLM_ENCODE_ADD_SPECIAL : 0u) |
                 (parses_special ? LLM_ENCODE_PARSE_SPECIAL : 0u);
    return true;
}

/// What a token is shown as: a text, or a list of bytes.
static json_t* make_piece(const api_reader* reader, int32_t id) {
    llm_str piece = llm_tokenizer_bytes(reader->tokenizer, id);
    if (piece.size == 0) piece = llm_tokenizer_spelling(reader->tokenizer, id);
    return api_json_is_text(piece) ? api_json_text(piece) : api_json_bytes(piece);
}

/// Refuses an answer that is longer than the server gives.
static bool check_reply(const api_reader* reader,
                        size_t bytes,
                        const char* param,
                        api_error* error) {
    if (reader->reply_bytes == 0 || bytes <= reader->reply_bytes) return true;
    return api_fail(error,
                    API_ERROR_TOO_LARGE,
                    param,
                    "the answer would be longer than %zu bytes, the most that this server gives",
                    reader->reply_bytes);
}

/// Appends the tokens one by one: as values all together they would take ten times the memory.
static bool append_tokens(const api_reader* reader,
                          const llm_tokens* tokens,
                          bool has_pieces,
                          llm_bytes* out,
                          api_error* error) {
    static const char begin[] = "{\"tokens\":[";
    const size_t before = out->size;
    bool has_room = llm_bytes_append(out, begin, strlen(begin), NULL) == BERTH_OK;
    for (size_t i = 0; i < tokens->count && has_room; i++) {
        const int32_t id = tokens->ids[i];
        json_t* value = has_pieces
                            ? json_pack("{s:i, s:o}", "id", id, "piece", make_piece(reader, id))
                            : json_integer(id);
        has_room = llm_bytes_append(out, ",", i == 0 ? 0 : 1, NULL) == BERTH_OK;
        has_room = api_json_append(value, out) && has_room;
        if (!check_reply(reader, out->size - before, "content", error)) return false;
    }
    has_room = has_room && llm_bytes_append(out, "]}", 2, NULL) == BERTH_OK;
    return has_room || api_json_fail_memory(error);
}

static bool tokenize(const api_reader* reader,
                     const json_t* body,
                     llm_bytes* out,
                     api_error* error) {
    tokenizing asked = {.flags = LLM_ENCODE_PLAIN};
    if (!read_tokenizing(body, &asked, error)) return false;
    llm_tokens tokens = {0};
    llm_error why;
    const berth_status status =
        llm_tokenizer_encode(reader->tokenizer, asked.content, asked.flags, &tokens, &why);
    bool is_done =
        status == BERTH_OK && append_tokens(reader, &tokens, asked.has_pieces, out, error);
    llm_tokens_fini(&tokens);
    if (status == BERTH_OK) return is_done;
    if (status == BERTH_ERR_OUT_OF_MEMORY) return api_json_fail_memory(error);
    return api_fail(error, API_ERROR_INVALID, "content", "%s", why.text);
}

static bool detokenize(const api_reader* reader,
                       const json_t* body,
                       llm_bytes* out,
                       api_error* error) {
    const json_t* list = json_object_get(body, "tokens");
    if (!json_is_array(list)) return api_json_refuse(list, "tokens", "a list of token ids", error);
    llm_tokens tokens = {0};
    llm_bytes text = {0};
    bool is_done =
        check_reply(reader, json_array_size(list) * reader->most_token_bytes, "tokens", error) &&
        api_ids_read(reader, list, "tokens", &tokens, error);
    if (is_done) {
        is_done = llm_tokenizer_decode(reader->tokenizer, tokens.ids, tokens.count, &text, NULL) ==
                  BERTH_OK;
        json_t* content = is_done ? api_json_text((llm_str){text.data, text.size}) : NULL;
        is_done = api_json_append(json_pack("{s:o}", "content", content), out);
        if (!is_done) api_json_fail_memory(error);
    }
    llm_bytes_fini(&text);
    llm_tokens_fini(&tokens);
    return is_done;
}

/// Reads a body and answers it.
static bool answer(const api_reader* reader,
                   llm_str body,
                   bool (*answer_object)(const api_reader* reader,
                                         const json_t* body,
                                         llm_bytes* out,
                                         api_error* error),
                   llm_bytes* out,
                   api_error* error) {
    *error = (api_error){.kind = API_ERROR_NONE};
    json_t* object = api_json_load(body, error);
    if (object == NULL) return false;
    const size_t before = out->size;
    const bool is_done = answer_object(reader, object, out, error);
    if (!is_done) out->size = before;
    json_decref(object);
    return is_done;
}

bool api_tokenize(const api_reader* reader, llm_str body, llm_bytes* out, api_error* error) {
    return answer(reader, body, tokenize, out, error);
}

bool api_detokenize(const api_reader* reader, llm_str body, llm_bytes* out, api_error* error) {
    return answer(reader, body, detokenize, out, error);
}
