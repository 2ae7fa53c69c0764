// SPDX-License-Identifier: Apache-2.0
// Compact vocabularies for the tests of tokenizer and chat.
#ifndef BERTH_TESTS_VOCAB_KIT_H
#define BERTH_TESTS_VOCAB_KIT_H

#include "llm/llm_kit.h"

#include "tokenizer.h"

#include <stdio.h>

enum { VOCAB_MAX = 640 };

/// A vocabulary under construction, then open.
typedef struct vocab {
    llm_gguf_writer writer;
    char texts[VOCAB_MAX][24];
    llm_str tokens[VOCAB_MAX];
    int32_t kinds[VOCAB_MAX];
    float scores[VOCAB_MAX];
    size_t count;
    char merge_texts[VOCAB_MAX][48];
    llm_str merges[VOCAB_MAX];
    size_t merge_count;
    void* data;
    llm_gguf* gguf;
    llm_tokenizer* tokenizer;
} vocab;

static inline int32_t vocab_add(vocab* v, const char* text, llm_token_kind kind, float score) {
    assert_true(v->count < VOCAB_MAX && strlen(text) < sizeof v->texts[0]);
    strcpy(v->texts[v->count], text);
    v->tokens[v->count] = llm_str_of(v->texts[v->count]);
    v->kinds[v->count] = (int32_t)kind;
    v->scores[v->count] = score;
    return (int32_t)v->count++;
}

/// Writes the character that stands for a byte in byte-level vocabularies, terminated.
static inline void vocab_byte_text(unsigned byte, char out[3]) {
    unsigned code = byte;
    if (byte < 33)
        code = 256 + byte;
    else if (byte >= 127 && byte <= 160)
        code = 256 + 33 + (byte - 127);
    else if (byte == 173)
        code = 256 + 33 + 34;
    out[0] = (char)(code < 128 ? code : 0xc0 | code >> 6);
    out[1] = (char)(code < 128 ? 0 : 0x80 | (code & 0x3f));
    out[2] = '\0';
}

/// Starts a byte-level vocabulary: three control tokens, then the 256 bytes from id 3 on.
static inline void vocab_begin_bytes(vocab* v) {
    *v = (vocab){0};
    vocab_add(v, "<|endoftext|>", LLM_TOKEN_CONTROL, 0);
    vocab_add(v, "<|im_start|>", LLM_TOKEN_CONTROL, 0);
    vocab_add(v, "<|im_end|>", LLM_TOKEN_CONTROL, 0);
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[3];
        vocab_byte_text(byte, text);
        vocab_add(v, text, LLM_TOKEN_NORMAL, 0);
    }
}

/// Id of a byte in a vocabulary of vocab_begin_bytes().
static inline int32_t vocab_byte(char c) { return 3 + (int32_t)(unsigned char)c; }

/// Adds the merge of two tokens and the token it makes, unless it is there; returns its id.
static inline int32_t vocab_merge(vocab* v, const char* left, const char* right) {
    char* text = v->merge_texts[v->merge_count];
    assert_true(v->merge_count < VOCAB_MAX);
    snprintf(text, sizeof v->merge_texts[0], "%s %s", left, right);
    v->merges[v->merge_count++] = llm_str_of(text);
    char joined[48];
    snprintf(joined, sizeof joined, "%s%s", left, right);
    for (size_t i = 0; i < v->count; i++)
        if (strcmp(v->texts[i], joined) == 0) return (int32_t)i;
    return vocab_add(v, joined, LLM_TOKEN_NORMAL, 0);
}

/// Starts a SentencePiece vocabulary: unknown, begin, end, then the byte tokens from id 3 on.
static inline void vocab_begin_pieces(vocab* v) {
    *v = (vocab){0};
    vocab_add(v, "<unk>", LLM_TOKEN_UNKNOWN, 0);
    vocab_add(v, "<s>", LLM_TOKEN_CONTROL, 0);
    vocab_add(v, "</s>", LLM_TOKEN_CONTROL, 0);
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        vocab_add(v, text, LLM_TOKEN_BYTE, 0);
    }
}

/// Puts the tokens and options of a vocabulary into a new writer; tests may put more.
static inline void vocab_put(vocab* v, const char* model, const char* pre) {
    llm_gguf_writer_init(&v->writer, 32);
    llm_gguf_put_string(&v->writer, "tokenizer.ggml.model", llm_str_of(model));
    if (pre != NULL) llm_gguf_put_string(&v->writer, "tokenizer.ggml.pre", llm_str_of(pre));
    llm_gguf_put_strings(&v->writer, "tokenizer.ggml.tokens", v->tokens, v->count);
    llm_gguf_put_numbers(&v->writer, "tokenizer.ggml.token_type", LLM_GGUF_I32, v->kinds, v->count);
    if (strcmp(model, "llama") == 0)
        llm_gguf_put_numbers(
            &v->writer, "tokenizer.ggml.scores", LLM_GGUF_F32, v->scores, v->count);
    else
        llm_gguf_put_strings(&v->writer, "tokenizer.ggml.merges", v->merges, v->merge_count);
}

/// Finishes the file and tries to load it as a tokenizer.
static inline berth_status vocab_try_open(vocab* v, llm_error* error) {
    size_t size;
    v->data = finish_file(&v->writer, &size);
    assert_int_equal(llm_gguf_open_memory(v->data, size, &v->gguf, error), BERTH_OK);
    return llm_tokenizer_create(v->gguf, &v->tokenizer, error);
}

static inline void vocab_open(vocab* v) {
    llm_error error;
    if (vocab_try_open(v, &error) != BERTH_OK) fail_msg("%s", error.text);
}

static inline void vocab_close(vocab* v) {
    llm_tokenizer_destroy(v->tokenizer);
    llm_gguf_close(v->gguf);
    llm_gguf_writer_release(v->data);
}

/// Asserts that a text of `size` bytes has exactly these tokens.
static inline void assert_tokens(const llm_tokenizer* tokenizer,
                                 llm_str text,
                                 unsigned flags,
                                 const int32_t* expected,
                                 size_t count) {
    llm_tokens tokens = {0};
    assert_int_equal(llm_tokenizer_encode(tokenizer, text, flags, &tokens, NULL), BERTH_OK);
    bool same = tokens.count == count;
    for (size_t i = 0; same && i < count; i++)
        same = tokens.ids[i] == expected[i];
    if (!same) {
        print_message("tokens of '%.*s':", (int)text.size, text.data);
        for (size_t i = 0; i < tokens.count; i++)
            print_message(" %d", tokens.ids[i]);
        fail_msg("are not the expected ones");
    }
    llm_tokens_fini(&tokens);
}

#define ASSERT_TOKENS(tokenizer, text, flags, ...)                                                 \
    assert_tokens(tokenizer,                                                                       \
                  llm_str_of(text),                                                                \
                  flags,                                                                           \
                  (const int32_t[]){__VA_ARGS__},                                                  \
                  sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

#endif // BERTH_TESTS_VOCAB_KIT_H
