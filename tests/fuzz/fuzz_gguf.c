// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as a model file. What opens is walked whole, and used as a tokenizer and a
// chat frame on the file's own bytes.
#include "fuzz_target.h"

#include "chat.h"
#include "gguf.h"

#include <stdlib.h>

static volatile uint64_t sink; // keeps the reads

static void walk_value(const llm_gguf_value* value) {
    for (size_t i = 0; i < value->bytes.size; i++)
        sink += (unsigned char)value->bytes.data[i];
    if (value->type != LLM_GGUF_ARRAY || value->element_type != LLM_GGUF_STRING) return;
    llm_gguf_strings_iterator strings = llm_gguf_strings(value);
    uint64_t count = 0;
    for (llm_str text; llm_gguf_strings_next(&strings, &text); count++)
        if (text.size > 0) sink += (unsigned char)text.data[text.size - 1];
    if (count != value->count) abort();
}

static void walk_tensor(const llm_gguf_tensor* tensor) {
    const unsigned char* bytes = tensor->data;
    for (uint64_t i = 0; i < tensor->size_bytes; i++)
        sink += bytes[i];
}

static void use_tokenizer(const llm_gguf* gguf, llm_str text) {
    llm_tokenizer* tokenizer;
    llm_error error;
    if (llm_tokenizer_create(gguf, &tokenizer, &error) != BERTH_OK) return;
    llm_tokens tokens = {0};
    llm_bytes decoded = {0};
    unsigned all = LLM_ENCODE_ADD_SPECIAL | LLM_ENCODE_PARSE_SPECIAL;
    if (llm_tokenizer_encode(tokenizer, text, all, &tokens, &error) != BERTH_OK) abort();
    llm_chat chat;
    llm_chat_message message = {text, text};
    if (text.size > 0 && llm_chat_init(&chat, gguf, tokenizer, &error) == BERTH_OK &&
        llm_chat_render(&chat, &message, 1, true, true, &tokens, &error) != BERTH_OK)
        abort();
    for (size_t i = 0; i < tokens.count; i++)
        if ((size_t)tokens.ids[i] >= llm_tokenizer_token_count(tokenizer)) abort();
    if (llm_tokenizer_decode(tokenizer, tokens.ids, tokens.count, &decoded, &error) != BERTH_OK)
        abort();
    llm_bytes_fini(&decoded);
    llm_tokens_fini(&tokens);
    llm_tokenizer_destroy(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    llm_gguf* gguf;
    llm_error error;
    if (llm_gguf_open_memory(data, size, &gguf, &error) != BERTH_OK) return 0;
    for (size_t i = 0; i < llm_gguf_pair_count(gguf); i++)
        walk_value(&llm_gguf_pair_at(gguf, i)->value);
    for (size_t i = 0; i < llm_gguf_tensor_count(gguf); i++)
        walk_tensor(llm_gguf_tensor_at(gguf, i));
    llm_str text = {(const char*)data, size < 512 ? size : 512};
    use_tokenizer(gguf, text);
    llm_gguf_close(gguf);
    return 0;
}
