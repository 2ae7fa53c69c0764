// SPDX-License-Identifier: Apache-2.0
// Recognising chat templates and framing messages.
#include "chat.h"

#include <string.h>

/// The system message that the template of the SmolLM2 instruction models puts in.
static const char smollm_system[] =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

static bool is_white(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static llm_str trim(llm_str text) {
    while (text.size > 0 && is_white(text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && is_white(text.data[text.size - 1]))
        text.size--;
    return text;
}

static bool find_chatml_tokens(llm_chat* chat) {
    chat->message_begin = llm_tokenizer_find_special(chat->tokenizer, "<|im_start|>");
    chat->message_end = llm_tokenizer_find_special(chat->tokenizer, "<|im_end|>");
    return chat->message_begin >= 0 && chat->message_end >= 0;
}

static bool find_llama3_tokens(llm_chat* chat) {
    chat->text_begin = llm_tokenizer_find_special(chat->tokenizer, "<|begin_of_text|>");
    chat->message_begin = llm_tokenizer_find_special(chat->tokenizer, "<|start_header_id|>");
    chat->header_end = llm_tokenizer_find_special(chat->tokenizer, "<|end_header_id|>");
    chat->message_end = llm_tokenizer_find_special(chat->tokenizer, "<|eot_id|>");
    return chat->text_begin >= 0 && chat->message_begin >= 0 && chat->header_end >= 0 &&
           chat->message_end >= 0;
}

static berth_status push_text(const llm_chat* chat,
                              llm_str text,
                              llm_tokens* tokens,
                              llm_error* error) {
    return llm_tokenizer_encode(chat->tokenizer, text, LLM_ENCODE_PLAIN, tokens, error);
}

/// Joins up to three texts and tokenizes them as one: a tokenizer may cut across their borders.
static berth_status push_joined(const llm_chat* chat,
                                const llm_str parts[3],
                                llm_tokens* tokens,
                                llm_error* error) {
    llm_bytes joined = {0};
    berth_status status = BERTH_OK;
    for (int i = 0; i < 3 && status == BERTH_OK; i++)
        status = llm_bytes_append(&joined, parts[i].data, parts[i].size, error);
    if (status == BERTH_OK)
        status = push_text(chat, (llm_str){joined.data, joined.size}, tokens, error);
    llm_bytes_fini(&joined);
    return status;
}

/// Opens a message and writes its content, but does not close it.
static berth_status open_message(const llm_chat* chat,
                                 llm_chat_message message,
                                 llm_tokens* tokens,
                                 llm_error* error) {
    if (message.role.size == 0)
        return llm_fail(error, BERTH_ERR_INVALID_ARGUMENT, "a message has no role");
    llm_str content = chat->trims_content ? trim(message.content) : message.content;
    berth_status status = llm_tokens_push(tokens, chat->message_begin, error);
    if (status != BERTH_OK) return status;
    if (chat->style == LLM_CHAT_CHATML) {
        llm_str parts[3] = {message.role, llm_str_of("\n"), content};
        return push_joined(chat, parts, tokens, error);
    }
    status = push_text(chat, message.role, tokens, error);
    if (status == BERTH_OK) status = llm_tokens_push(tokens, chat->header_end, error);
    llm_str parts[3] = {llm_str_of("\n\n"), content, {NULL, 0}};
    return status == BERTH_OK ? push_joined(chat, parts, tokens, error) : status;
}

static berth_status push_message(const llm_chat* chat,
                                 llm_chat_message message,
                                 llm_tokens* tokens,
                                 llm_error* error) {
    berth_status status = open_message(chat, message, tokens, error);
    if (status == BERTH_OK) status = llm_tokens_push(tokens, chat->message_end, error);
    if (status == BERTH_OK && chat->style == LLM_CHAT_CHATML)
        status = push_text(chat, llm_str_of("\n"), tokens, error);
    return status;
}

/// Puts what comes before the first message of a conversation.
static berth_status begin_conversation(const llm_chat* chat,
                                       const llm_chat_message* messages,
                                       size_t count,
                                       llm_tokens* tokens,
                                       llm_error* error) {
    llm_str system = llm_str_of("system");
    bool has_system = count > 0 && llm_str_equal(messages[0].role, system);
    berth_status status = BERTH_OK;
    if (chat->text_begin >= 0) status = llm_tokens_push(tokens, chat->text_begin, error);
    if (status != BERTH_OK || has_system || chat->default_system.size == 0) return status;
    return push_message(chat, (llm_chat_message){system, chat->default_system}, tokens, error);
}

const char* llm_chat_style_name(llm_chat_style style) {
    return style == LLM_CHAT_CHATML ? "chatml" : "llama3";
}

berth_status llm_chat_init(llm_chat* chat,
                           const llm_gguf* gguf,
                           const llm_tokenizer* tokenizer,
                           llm_error* error) {
    *chat = (llm_chat){.tokenizer = tokenizer, .text_begin = -1, .header_end = -1};
    llm_str template = {NULL, 0};
    if (llm_gguf_find(gguf, "tokenizer.chat_template") != NULL) {
        berth_status status =
            llm_gguf_get_string(gguf, "tokenizer.chat_template", &template, error);
        if (status != BERTH_OK) return status;
    }
    if (llm_str_contains(template, "<|start_header_id|>") && find_llama3_tokens(chat)) {
        chat->style = LLM_CHAT_LLAMA3;
        chat->trims_content = llm_str_contains(template, "| trim");
        return BERTH_OK;
    }
    chat->text_begin = -1;
    chat->header_end = -1;
    chat->style = LLM_CHAT_CHATML;
    if (llm_str_contains(template, smollm_system)) chat->default_system = llm_str_of(smollm_system);
    if (find_chatml_tokens(chat)) return BERTH_OK;
    return llm_fail(error,
                    BERTH_ERR_UNSUPPORTED,
                    "the model's chat template is %s, and its vocabulary lacks <|im_start|> and "
                    "<|im_end|>; it can only continue plain text",
                    template.size == 0 ? "missing" : "not known");
}

berth_status llm_chat_render(const llm_chat* chat,
                             const llm_chat_message* messages,
                             size_t count,
                             bool is_first,
                             bool asks_answer,
                             llm_tokens* tokens,
                             llm_error* error) {
    size_t before = tokens->count;
    berth_status status = BERTH_OK;
    if (is_first) status = begin_conversation(chat, messages, count, tokens, error);
    for (size_t i = 0; i < count && status == BERTH_OK; i++)
        status = push_message(chat, messages[i], tokens, error);
    if (status == BERTH_OK && asks_answer) {
        llm_chat_message answer = {llm_str_of("assistant"), {NULL, 0}};
        status = open_message(chat, answer, tokens, error);
    }
    if (status != BERTH_OK) tokens->count = before;
    return status;
}
