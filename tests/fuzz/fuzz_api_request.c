// SPDX-License-Identifier: Apache-2.0
// Fuzz target: any bytes as the body of a request, to each endpoint. What is read keeps what the
// interface promises, and its answers are JSON; what is not says why, and that is JSON as well.
#include "fuzz_target.h"

#include "api_answer.h"
#include "api_json.h"
#include "gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPECIALS = 5, TOKENS = SPECIALS + 256, CONTEXT = 128 };

static void must(bool is_so) {
    if (!is_so) abort();
}

/// Makes a vocabulary of single bytes and the tokens of a frame for conversations.
static llm_tokenizer* make_tokenizer(llm_gguf** out_gguf) {
    static const char* const specials[SPECIALS] = {
        "<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"};
    static char texts[TOKENS][16];
    llm_str names[TOKENS];
    int32_t kinds[TOKENS];
    float scores[TOKENS] = {0};
    for (int i = 0; i < TOKENS; i++) {
        if (i < SPECIALS)
            snprintf(texts[i], sizeof texts[i], "%s", specials[i]);
        else
            snprintf(texts[i], sizeof texts[i], "<0x%02X>", (unsigned)(i - SPECIALS));
        names[i] = llm_str_of(texts[i]);
        kinds[i] = (int32_t)(i < SPECIALS ? LLM_TOKEN_CONTROL : LLM_TOKEN_BYTE);
    }
    llm_gguf_writer writer;
    llm_gguf_writer_init(&writer, 32);
    llm_gguf_put_string(&writer, "tokenizer.ggml.model", llm_str_of("llama"));
    llm_gguf_put_strings(&writer, "tokenizer.ggml.tokens", names, TOKENS);
    llm_gguf_put_numbers(&writer, "tokenizer.ggml.token_type", LLM_GGUF_I32, kinds, TOKENS);
    llm_gguf_put_numbers(&writer, "tokenizer.ggml.scores", LLM_GGUF_F32, scores, TOKENS);
    llm_gguf_put_u32(&writer, "tokenizer.ggml.bos_token_id", 1);
    static void* file;
    size_t size;
    llm_tokenizer* tokenizer;
    must(llm_gguf_writer_finish(&writer, &file, &size, NULL) == BERTH_OK);
    llm_gguf_writer_fini(&writer);
    must(llm_gguf_open_memory(file, size, out_gguf, NULL) == BERTH_OK);
    must(llm_tokenizer_create(*out_gguf, &tokenizer, NULL) == BERTH_OK);
    return tokenizer;
}

static const api_reader* get_reader(void) {
    static api_reader reader;
    static llm_chat chat;
    static llm_gguf* gguf;
    if (reader.tokenizer != NULL) return &reader;
    reader = (api_reader){.tokenizer = make_tokenizer(&gguf),
                          .chat = &chat,
                          .model_name = "tiny",
                          .context_tokens = CONTEXT,
                          .most_token_bytes = 16};
    must(llm_chat_init(&chat, gguf, reader.tokenizer, NULL) == BERTH_OK);
    return &reader;
}

/// Reads `text` as JSON, whole.
static void must_be_json(const llm_bytes* text) {
    json_error_t why;
    json_t* value = json_loadb(text->data, text->size, JSON_ALLOW_NUL, &why);
    must(value != NULL);
    json_decref(value);
}

static void check_error(const api_error* error) {
    llm_bytes text = {0};
    must(error->kind == API_ERROR_INVALID || error->kind == API_ERROR_CONTEXT_LENGTH ||
         error->kind == API_ERROR_MODEL_NOT_FOUND);
    must(error->message[0] != '\0' && api_error_render(error, &text));
    must_be_json(&text);
    llm_bytes_fini(&text);
}

static void check_request(const api_request* request) {
    size_t longest = 0;
    must(request->n >= 1 && request->prompt_count >= 1);
    must(request->prompt_count * (size_t)request->n <= API_MOST_CHOICES);
    for (size_t i = 0; i < request->prompt_count; i++) {
        const llm_tokens* prompt = &request->prompts[i];
        must(prompt->count >= 1);
        for (size_t k = 0; k < prompt->count; k++)
            must(prompt->ids[k] >= 0 && prompt->ids[k] < TOKENS);
        if (prompt->count > longest) longest = prompt->count;
    }
    must(request->max_tokens >= 1 && (int64_t)longest + request->max_tokens <= CONTEXT);
    must(llm_sampler_check(&request->sampling, TOKENS, NULL) == BERTH_OK);
    must(request->stop_count <= API_MOST_STOPS);
    for (size_t i = 0; i < request->stop_count; i++)
        must(request->stops[i].size >= 1 && request->stops[i].size <= API_MOST_STOP_BYTES);
    must(request->top_logprobs >= 0 && request->top_logprobs <= API_MOST_TOP_LOGPROBS);
    must(!request->includes_usage || request->streams);
}

/// Answers a request with its own prompt.
static void check_answer(const api_reader* reader, const api_request* request) {
    const llm_tokens* prompt = &request->prompts[0];
    const api_token token = {.chosen = {prompt->ids[0], -1}};
    const api_reply reply = {.request = request,
                             .tokenizer = reader->tokenizer,
                             .model_name = reader->model_name,
                             .id = "cmpl-1"};
    const api_choice choice = {
        .text = llm_str_of("text"), .finish = API_FINISH_STOP, .tokens = {&token, 1, NULL}};
    const api_usage usage = {.prompt_tokens = (int64_t)prompt->count};
    llm_bytes text = {0};
    must(api_reply_whole(&reply, &choice, 1, &usage, &text));
    must_be_json(&text);
    text.size = 0;
    must(api_reply_begin(&reply, 0, &text) && api_reply_piece(&reply, &choice, &text) &&
         api_reply_end(&reply, &usage, &text));
    llm_bytes_fini(&text);
}

static void ask(const api_reader* reader, api_endpoint endpoint, llm_str body) {
    api_request request;
    api_error error;
    if (api_request_parse(reader, endpoint, body, &request, &error)) {
        check_request(&request);
        check_answer(reader, &request);
    } else {
        check_error(&error);
    }
    api_request_fini(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const api_reader* reader = get_reader();
    const llm_str body = {(const char*)data, size};
    ask(reader, API_CHAT, body);
    ask(reader, API_COMPLETION, body);
    llm_bytes text = {0};
    api_error error;
    if (api_tokenize(reader, body, &text, &error)) must_be_json(&text);
    text.size = 0;
    if (api_detokenize(reader, body, &text, &error)) must_be_json(&text);
    llm_bytes_fini(&text);
    return 0;
}
