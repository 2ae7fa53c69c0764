// SPDX-License-Identifier: Apache-2.0
// The tokenizer as a whole: its options from the model file, special tokens in a text, encoding.
#include "tokenizer.h"

#include "tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT_BYTES = 1 << 30 };

/// A place where a special token is spelled in a text.
typedef struct special_match {
    size_t at;
    size_t size;
    int32_t id;
} special_match;

typedef struct special_matches {
    special_match* items;
    size_t count;
    size_t capacity;
} special_matches;

static berth_status read_model(llm_tokenizer* t, const llm_gguf* gguf, llm_error* error) {
    llm_str model;
    berth_status status = llm_gguf_get_string(gguf, "tokenizer.ggml.model", &model, error);
    if (status != BERTH_OK) return status;
    t->is_byte_level = llm_str_equal(model, llm_str_of("gpt2"));
    if (!t->is_byte_level && !llm_str_equal(model, llm_str_of("llama")))
        return llm_fail(error,
                        BERTH_ERR_UNSUPPORTED,
                        "tokenizer.ggml.model is '%s'; 'gpt2' and 'llama' are supported",
                        llm_quote(model).text);
    if (!t->is_byte_level) return BERTH_OK;
    llm_str pre;
    status = llm_gguf_get_string(gguf, "tokenizer.ggml.pre", &pre, error);
    if (status != BERTH_OK) return status;
    t->split = llm_split_of(pre);
    if (t->split == LLM_SPLIT_UNKNOWN)
        return llm_fail(error,
                        BERTH_ERR_UNSUPPORTED,
                        "tokenizer.ggml.pre is '%s'; gpt-2, smollm, starcoder, refact, command-r "
                        "and llama-bpe are supported",
                        llm_quote(pre).text);
    t->takes_whole = t->split == LLM_SPLIT_LLAMA3;
    return BERTH_OK;
}

static berth_status read_id(const llm_tokenizer* t,
                            const llm_gguf* gguf,
                            const char* key,
                            int32_t otherwise,
                            int32_t* out_id,
                            llm_error* error) {
    *out_id = otherwise >= 0 && (size_t)otherwise < t->count ? otherwise : LLM_NO_TOKEN;
    if (llm_gguf_find(gguf, key) == NULL) return BERTH_OK;
    uint64_t id;
    berth_status status = llm_gguf_get_u64(gguf, key, &id, error);
    if (status != BERTH_OK) return status;
    if (id >= t->count)
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "%s is %llu, but there are %zu tokens",
                        key,
                        (unsigned long long)id,
                        t->count);
    *out_id = (int32_t)id;
    return BERTH_OK;
}

/// Reads the ids and flags. SentencePiece vocabularies begin with unknown, begin and end by custom.
static berth_status read_options(llm_tokenizer* t, const llm_gguf* gguf, llm_error* error) {
    bool spm = !t->is_byte_level;
    const struct {
        const char* key;
        int32_t otherwise;
        int32_t* out;
    } ids[] = {
        {"tokenizer.ggml.bos_token_id", spm ? 1 : LLM_NO_TOKEN, &t->ids.bos},
        {"tokenizer.ggml.eos_token_id", spm ? 2 : LLM_NO_TOKEN, &t->ids.eos},
        {"tokenizer.ggml.unknown_token_id", spm ? 0 : LLM_NO_TOKEN, &t->ids.unknown},
        {"tokenizer.ggml.eot_token_id", LLM_NO_TOKEN, &t->ids.eot},
        {"tokenizer.ggml.padding_token_id", LLM_NO_TOKEN, &t->ids.padding},
    };
    const struct {
        const char* key;
        bool otherwise;
        bool* out;
    } flags[] = {
        {"tokenizer.ggml.add_bos_token", spm || t->split == LLM_SPLIT_LLAMA3, &t->adds_bos},
        {"tokenizer.ggml.add_eos_token", false, &t->adds_eos},
        {"tokenizer.ggml.add_space_prefix", spm, &t->adds_space},
    };
    berth_status status = BERTH_OK;
    for (size_t i = 0; i < sizeof ids / sizeof *ids && status == BERTH_OK; i++)
        status = read_id(t, gguf, ids[i].key, ids[i].otherwise, ids[i].out, error);
    for (size_t i = 0; i < sizeof flags / sizeof *flags && status == BERTH_OK; i++)
        status = llm_gguf_get_bool_or(gguf, flags[i].key, flags[i].otherwise, flags[i].out, error);
    return status;
}

static berth_status add_match(special_matches* matches, special_match match, llm_error* error) {
    if (matches->count == matches->capacity) {
        size_t wanted = matches->capacity == 0 ? 16 : matches->capacity * 2;
        special_match* grown = llm_realloc(matches->items, wanted, sizeof *grown);
        if (grown == NULL) return llm_fail_memory(error, "special tokens in a text");
        matches->items = grown;
        matches->capacity = wanted;
    }
    matches->items[matches->count++] = match;
    return BERTH_OK;
}

/// Lists every place where a special token is spelled, overlapping or not.
static berth_status list_matches(const llm_tokenizer* t,
                                 llm_str text,
                                 bool with_control,
                                 special_matches* matches,
                                 llm_error* error) {
    for (size_t at = 0; at < text.size; at++) {
        unsigned first = (unsigned char)text.data[at];
        for (size_t i = t->special_starts[first]; i < t->special_starts[first + 1]; i++) {
            int32_t id = t->specials[i];
            llm_str spelling = t->spellings[id];
            if (!with_control && t->kinds[id] == LLM_TOKEN_CONTROL) continue;
            if (spelling.size > text.size - at ||
                memcmp(text.data + at, spelling.data, spelling.size) != 0)
                continue;
            berth_status status = add_match(matches, (special_match){at, spelling.size, id}, error);
            if (status != BERTH_OK) return status;
        }
    }
    return BERTH_OK;
}

static int compare_longest_first(const void* left, const void* right) {
    const special_match* a = left;
    const special_match* b = right;
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int compare_places(const void* left, const void* right) {
    const special_match* a = left;
    const special_match* b = right;
    return (a->at > b->at) - (a->at < b->at);
}

/// Keeps the matches that win, in the order of the text: longer ones first, then earlier ones.
static berth_status choose_matches(special_matches* matches, llm_str text, llm_error* error) {
    if (matches->count == 0) return BERTH_OK;
    char* taken = llm_alloc_zeroed(text.size, 1);
    if (taken == NULL) return llm_fail_memory(error, "special tokens in a text");
    qsort(matches->items, matches->count, sizeof *matches->items, compare_longest_first);
    size_t kept = 0;
    for (size_t i = 0; i < matches->count; i++) {
        special_match match = matches->items[i];
        // whatever was taken before is at least as long: it covers an end of what it overlaps
        if (taken[match.at] || taken[match.at + match.size - 1]) continue;
        memset(taken + match.at, 1, match.size);
        matches->items[kept++] = match;
    }
    matches->count = kept;
    qsort(matches->items, kept, sizeof *matches->items, compare_places);
    llm_free(taken);
    return BERTH_OK;
}

/// Tokenizes the stretches between the chosen matches, and the matches themselves.
static berth_status encode_between(const llm_tokenizer* t,
                                   llm_str text,
                                   const special_matches* matches,
                                   llm_tokens* tokens,
                                   llm_error* error) {
    llm_merge_scratch scratch = {0};
    berth_status status = BERTH_OK;
    size_t at = 0;
    for (size_t i = 0; i <= matches->count && status == BERTH_OK; i++) {
        bool is_last = i == matches->count;
        size_t end = is_last ? text.size : matches->items[i].at;
        llm_str between = {text.size == 0 ? NULL : text.data + at, end - at};
        status = llm_merge_plain(t, between, &scratch, tokens, error);
        if (is_last || status != BERTH_OK) continue;
        status = llm_tokens_push(tokens, matches->items[i].id, error);
        at = end + matches->items[i].size;
    }
    llm_merge_scratch_fini(&scratch);
    return status;
}

berth_status llm_tokenizer_create(const llm_gguf* gguf,
                                  llm_tokenizer** out_tokenizer,
                                  llm_error* error) {
    *out_tokenizer = NULL;
    llm_tokenizer* tokenizer = llm_alloc_zeroed(1, sizeof *tokenizer);
    if (tokenizer == NULL) return llm_fail_memory(error, "the tokenizer");
    berth_status status = read_model(tokenizer, gguf, error);
    if (status == BERTH_OK) status = llm_vocabulary_load(tokenizer, gguf, error);
    if (status == BERTH_OK) status = read_options(tokenizer, gguf, error);
    if (status != BERTH_OK) {
        llm_tokenizer_destroy(tokenizer);
        return status;
    }
    *out_tokenizer = tokenizer;
    return BERTH_OK;
}

void llm_tokenizer_destroy(llm_tokenizer* tokenizer) {
    if (tokenizer == NULL) return;
    llm_vocabulary_fini(tokenizer);
    llm_free(tokenizer);
}

size_t llm_tokenizer_token_count(const llm_tokenizer* tokenizer) { return tokenizer->count; }

int32_t llm_tokenizer_find_special(const llm_tokenizer* tokenizer, const char* text) {
    llm_str wanted = llm_str_of(text);
    for (size_t i = 0; i < tokenizer->special_count; i++) {
        int32_t id = tokenizer->specials[i];
        if (llm_str_equal(tokenizer->spellings[id], wanted)) return id;
    }
    return LLM_NO_TOKEN;
}

bool llm_tokenizer_is_stop(const llm_tokenizer* tokenizer, int32_t id) {
    static const char* const endings[] = {
        "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "</s>"};
    if (id < 0 || (size_t)id >= tokenizer->count) return false;
    if (id == tokenizer->ids.eos || id == tokenizer->ids.eot) return true;
    if (tokenizer->kinds[id] != LLM_TOKEN_CONTROL) return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (llm_str_equal(tokenizer->spellings[id], llm_str_of(endings[i]))) return true;
    }
    return false;
}

llm_str llm_tokenizer_spelling(const llm_tokenizer* tokenizer, int32_t id) {
    if (id < 0 || (size_t)id >= tokenizer->count) return (llm_str){NULL, 0};
    return tokenizer->spellings[id];
}

llm_str llm_tokenizer_bytes(const llm_tokenizer* tokenizer, int32_t id) {
    if (id < 0 || (size_t)id >= tokenizer->count) return (llm_str){NULL, 0};
    const size_t* starts = tokenizer->piece_starts;
    return (llm_str){tokenizer->pieces + starts[id], starts[id + 1] - starts[id]};
}

berth_status llm_tokenizer_encode(const llm_tokenizer* tokenizer,
                                  llm_str text,
                                  unsigned flags,
                                  llm_tokens* tokens,
                                  llm_error* error) {
    if (text.size >= MAX_TEXT_BYTES)
        return llm_fail(
            error, BERTH_ERR_INVALID_ARGUMENT, "a text of %zu bytes is too long", text.size);
    size_t before = tokens->count;
    bool adds_ends = (flags & LLM_ENCODE_ADD_SPECIAL) != 0;
    bool with_control = (flags & LLM_ENCODE_PARSE_SPECIAL) != 0;
    special_matches matches = {0};
    berth_status status = list_matches(tokenizer, text, with_control, &matches, error);
    if (status == BERTH_OK) status = choose_matches(&matches, text, error);
    if (status == BERTH_OK && adds_ends && tokenizer->adds_bos && tokenizer->ids.bos >= 0)
        status = llm_tokens_push(tokens, tokenizer->ids.bos, error);
    if (status == BERTH_OK) status = encode_between(tokenizer, text, &matches, tokens, error);
    if (status == BERTH_OK && adds_ends && tokenizer->adds_eos && tokenizer->ids.eos >= 0)
        status = llm_tokens_push(tokens, tokenizer->ids.eos, error);
    llm_free(matches.items);
    if (status != BERTH_OK) tokens->count = before;
    return status;
}
