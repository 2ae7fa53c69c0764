// SPDX-License-Identifier: Apache-2.0
// Loading a vocabulary: spellings, kinds, scores, merges, and the tables made from them.
#include "tokenizer_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/// The mark that stands for a space in SentencePiece vocabularies, U+2581.
static const llm_str space_mark = {"\xe2\x96\x81", 3};

enum {
    // the 188 bytes that are characters of their own, and 68 codes from 256 on for the others
    BYTE_CODES = 256 + 68,
};

static uint64_t hash_bytes(uint64_t hash, llm_str text) {
    for (size_t i = 0; i < text.size; i++)
        hash = (hash ^ (unsigned char)text.data[i]) * 0x100000001b3u;
    return hash;
}

/// Hash of `head` followed by `tail`: FNV-1a, then mixed so that the low bits depend on all.
static size_t hash_text(llm_str head, llm_str tail) {
    uint64_t hash = hash_bytes(hash_bytes(0xcbf29ce484222325u, head), tail);
    hash ^= hash >> 32;
    hash *= 0x9e3779b97f4a7c15u;
    return (size_t)(hash ^ (hash >> 29));
}

static bool is_joined(llm_str text, llm_str head, llm_str tail) {
    return text.size == head.size + tail.size &&
           (head.size == 0 || memcmp(text.data, head.data, head.size) == 0) &&
           (tail.size == 0 || memcmp(text.data + head.size, tail.data, tail.size) == 0);
}

/// Returns the slot of a spelling: the one that holds it, or the empty one where it belongs.
static uint32_t* find_slot(const llm_tokenizer* t, llm_str head, llm_str tail) {
    size_t at = hash_text(head, tail) & t->texts.mask;
    while (t->texts.slots[at] != 0) {
        if (is_joined(t->spellings[t->texts.slots[at] - 1], head, tail)) break;
        at = (at + 1) & t->texts.mask;
    }
    return &t->texts.slots[at];
}

int32_t llm_vocabulary_find(const llm_tokenizer* tokenizer, llm_str head, llm_str tail) {
    return (int32_t)*find_slot(tokenizer, head, tail) - 1;
}

static llm_merge* find_merge_slot(const llm_merge_table* merges, uint32_t left, uint32_t right) {
    uint64_t key = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(key >> 20) & merges->mask;
    for (;;) {
        llm_merge* slot = &merges->slots[at];
        if (slot->left == 0 || (slot->left == left && slot->right == right)) return slot;
        at = (at + 1) & merges->mask;
    }
}

const llm_merge* llm_vocabulary_find_merge(const llm_tokenizer* tokenizer,
                                           int32_t left,
                                           int32_t right) {
    if (left < 0 || right < 0) return NULL;
    const llm_merge* slot =
        find_merge_slot(&tokenizer->merges, (uint32_t)left + 1, (uint32_t)right + 1);
    return slot->left == 0 ? NULL : slot;
}

/// The least power of two that leaves a table of `count` entries half empty.
static size_t table_size(size_t count) {
    size_t size = 16;
    while (size < 2 * count)
        size *= 2;
    return size;
}

/// Text may become a token of these kinds; a control token never.
static bool is_plain(uint8_t kind) {
    return kind == LLM_TOKEN_NORMAL || kind == LLM_TOKEN_USER_DEFINED;
}

static berth_status load_spellings(llm_tokenizer* t, const llm_gguf* gguf, llm_error* error) {
    const llm_gguf_value* tokens;
    berth_status status =
        llm_gguf_get_array(gguf, "tokenizer.ggml.tokens", LLM_GGUF_STRING, &tokens, error);
    if (status != BERTH_OK) return status;
    if (tokens->count == 0 || tokens->count >= INT32_MAX / 2)
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "tokenizer.ggml.tokens holds %llu tokens",
                        (unsigned long long)tokens->count);
    t->count = (size_t)tokens->count;
    t->spellings = llm_alloc(t->count, sizeof *t->spellings);
    if (t->spellings == NULL) return llm_fail_memory(error, "the vocabulary");
    llm_gguf_strings_iterator walk = llm_gguf_strings(tokens);
    for (size_t i = 0; llm_gguf_strings_next(&walk, &t->spellings[i]); i++) {
        if (t->spellings[i].size > t->longest) t->longest = t->spellings[i].size;
        if (i + 1 == t->count) break;
    }
    return BERTH_OK;
}

static berth_status check_count(const llm_tokenizer* t,
                                const char* key,
                                const llm_gguf_value* array,
                                llm_error* error) {
    if (array->count == t->count) return BERTH_OK;
    return llm_fail(error,
                    BERTH_ERR_CORRUPT,
                    "%s has %llu entries for %zu tokens",
                    key,
                    (unsigned long long)array->count,
                    t->count);
}

static berth_status load_kinds(llm_tokenizer* t, const llm_gguf* gguf, llm_error* error) {
    static const char key[] = "tokenizer.ggml.token_type";
    t->kinds = llm_alloc(t->count, 1);
    if (t->kinds == NULL) return llm_fail_memory(error, "the kinds of tokens");
    memset(t->kinds, LLM_TOKEN_NORMAL, t->count);
    if (llm_gguf_find(gguf, key) == NULL) return BERTH_OK;
    const llm_gguf_value* kinds;
    berth_status status = llm_gguf_get_array(gguf, key, LLM_GGUF_I64, &kinds, error);
    if (status == BERTH_OK) status = check_count(t, key, kinds, error);
    if (status != BERTH_OK) return status;
    for (size_t i = 0; i < t->count; i++) {
        int64_t kind = llm_gguf_int_at(kinds, i);
        if (kind < 0 || kind > LLM_TOKEN_BYTE)
            return llm_fail(error,
                            BERTH_ERR_CORRUPT,
                            "%s gives token %zu the unknown type %lld",
                            key,
                            i,
                            (long long)kind);
        if (kind != 0) t->kinds[i] = (uint8_t)kind;
    }
    return BERTH_OK;
}

static berth_status load_scores(llm_tokenizer* t, const llm_gguf* gguf, llm_error* error) {
    static const char key[] = "tokenizer.ggml.scores";
    const llm_gguf_value* scores;
    berth_status status = llm_gguf_get_array(gguf, key, LLM_GGUF_F32, &scores, error);
    if (status == BERTH_OK) status = check_count(t, key, scores, error);
    if (status != BERTH_OK) return status;
    t->scores = llm_alloc(t->count, sizeof *t->scores);
    if (t->scores == NULL) return llm_fail_memory(error, "the scores of tokens");
    for (size_t i = 0; i < t->count; i++) {
        t->scores[i] = (float)llm_gguf_float_at(scores, i);
        if (isnan(t->scores[i]))
            return llm_fail(error, BERTH_ERR_CORRUPT, "%s: token %zu has no number", key, i);
    }
    return BERTH_OK;
}

/// Indexes the tokens that text may become. Of two that are spelled alike the first counts.
static berth_status index_texts(llm_tokenizer* t, llm_error* error) {
    size_t size = table_size(t->count);
    t->texts.slots = llm_alloc_zeroed(size, sizeof *t->texts.slots);
    if (t->texts.slots == NULL) return llm_fail_memory(error, "the index of tokens");
    t->texts.mask = size - 1;
    for (size_t i = 0; i < t->count; i++) {
        if (!is_plain(t->kinds[i]) || t->spellings[i].size == 0) continue;
        uint32_t* slot = find_slot(t, t->spellings[i], (llm_str){NULL, 0});
        if (*slot == 0) *slot = (uint32_t)i + 1;
    }
    return BERTH_OK;
}

/// The code of the character that stands for each byte in byte-level vocabularies.
static void make_byte_codes(uint16_t codes[256]) {
    uint16_t spare = 256;
    for (unsigned byte = 0; byte < 256; byte++) {
        bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        codes[byte] = itself ? (uint16_t)byte : spare++;
    }
}

static void map_byte_level_bytes(llm_tokenizer* t) {
    uint16_t codes[256];
    make_byte_codes(codes);
    for (unsigned byte = 0; byte < 256; byte++) {
        char* text = t->byte_texts[byte];
        bool one = codes[byte] < 0x80;
        text[0] = (char)(one ? codes[byte] : 0xc0 | (codes[byte] >> 6));
        text[1] = (char)(one ? 0 : 0x80 | (codes[byte] & 0x3f));
        t->byte_text_sizes[byte] = one ? 1 : 2;
        llm_str spelling = {text, t->byte_text_sizes[byte]};
        t->byte_ids[byte] = llm_vocabulary_find(t, spelling, (llm_str){NULL, 0});
    }
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/// Returns the byte that a spelling like <0x0A> stands for, or -1.
static int parse_byte_token(llm_str s) {
    if (s.size != 6 || memcmp(s.data, "<0x", 3) != 0 || s.data[5] != '>') return -1;
    int high = hex_digit(s.data[3]);
    int low = hex_digit(s.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static void map_byte_tokens(llm_tokenizer* t) {
    for (size_t i = 0; i < 256; i++)
        t->byte_ids[i] = LLM_NO_TOKEN;
    for (size_t i = t->count; i-- > 0;) {
        int byte = t->kinds[i] == LLM_TOKEN_BYTE ? parse_byte_token(t->spellings[i]) : -1;
        if (byte >= 0) t->byte_ids[byte] = (int32_t)i;
    }
}

static berth_status add_merge(llm_tokenizer* t, llm_str text, uint32_t rank, llm_error* error) {
    // a symbol is never empty, so that a space in front belongs to it
    const char* space = text.size < 3 ? NULL : memchr(text.data + 1, ' ', text.size - 2);
    if (space == NULL)
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "merge %u ('%s') is not two symbols with a space between",
                        rank,
                        llm_quote(text).text);
    llm_str left = {text.data, (size_t)(space - text.data)};
    llm_str right = {space + 1, text.size - left.size - 1};
    int32_t left_id = llm_vocabulary_find(t, left, (llm_str){NULL, 0});
    int32_t right_id = llm_vocabulary_find(t, right, (llm_str){NULL, 0});
    int32_t result = llm_vocabulary_find(t, left, right);
    // a merge of or into something that is no token could never be looked up at the end
    if (left_id < 0 || right_id < 0 || result < 0) return BERTH_OK;
    uint32_t left_key = (uint32_t)left_id + 1;
    uint32_t right_key = (uint32_t)right_id + 1;
    llm_merge* slot = find_merge_slot(&t->merges, left_key, right_key);
    if (slot->left == 0) *slot = (llm_merge){left_key, right_key, rank, result};
    return BERTH_OK;
}

static berth_status load_merges(llm_tokenizer* t, const llm_gguf* gguf, llm_error* error) {
    const llm_gguf_value* merges;
    berth_status status =
        llm_gguf_get_array(gguf, "tokenizer.ggml.merges", LLM_GGUF_STRING, &merges, error);
    if (status != BERTH_OK) return status;
    if (merges->count >= INT32_MAX / 2)
        return llm_fail(error, BERTH_ERR_UNSUPPORTED, "tokenizer.ggml.merges is too long");
    size_t size = table_size((size_t)merges->count);
    t->merges.slots = llm_alloc_zeroed(size, sizeof *t->merges.slots);
    if (t->merges.slots == NULL) return llm_fail_memory(error, "the table of merges");
    t->merges.mask = size - 1;
    llm_gguf_strings_iterator walk = llm_gguf_strings(merges);
    llm_str text;
    for (uint32_t rank = 0; llm_gguf_strings_next(&walk, &text); rank++) {
        status = add_merge(t, text, rank, error);
        if (status != BERTH_OK) return status;
    }
    return BERTH_OK;
}

/// Writes the bytes that a spelling of byte-level characters stands for; what is no such character
/// stands for itself.
static size_t write_byte_level(const int16_t bytes_of[BYTE_CODES], llm_str s, char* out) {
    size_t size = 0;
    for (size_t i = 0; i < s.size; i++) {
        unsigned code = (unsigned char)s.data[i];
        bool two = (code == 0xc2 || code == 0xc3 || code == 0xc4 || code == 0xc5) && i + 1 < s.size;
        if (two) code = (code & 0x1f) << 6 | ((unsigned char)s.data[i + 1] & 0x3f);
        int16_t byte = code < BYTE_CODES && (two || code < 0x80) ? bytes_of[code] : -1;
        if (byte < 0) {
            out[size++] = s.data[i];
            continue;
        }
        out[size++] = (char)byte;
        if (two) i++;
    }
    return size;
}

static size_t write_marked(llm_str s, char* out) {
    size_t size = 0;
    for (size_t i = 0; i < s.size;) {
        bool marked = s.size - i >= space_mark.size &&
                      memcmp(s.data + i, space_mark.data, space_mark.size) == 0;
        out[size++] = marked ? ' ' : s.data[i];
        i += marked ? space_mark.size : 1;
    }
    return size;
}

static size_t write_piece(const llm_tokenizer* t,
                          const int16_t bytes_of[BYTE_CODES],
                          size_t id,
                          char* out) {
    llm_str s = t->spellings[id];
    int byte = t->kinds[id] == LLM_TOKEN_BYTE ? parse_byte_token(s) : -1;
    if (byte >= 0) {
        *out = (char)byte;
        return 1;
    }
    if (t->kinds[id] == LLM_TOKEN_CONTROL || t->kinds[id] == LLM_TOKEN_UNKNOWN) return 0;
    if (!t->is_byte_level) return write_marked(s, out);
    if (t->kinds[id] != LLM_TOKEN_USER_DEFINED) return write_byte_level(bytes_of, s, out);
    memcpy(out, s.data, s.size);
    return s.size;
}

/// Writes the bytes of every token once, so that decoding is a look-up.
static berth_status make_pieces(llm_tokenizer* t, llm_error* error) {
    int16_t bytes_of[BYTE_CODES];
    uint16_t codes[256];
    make_byte_codes(codes);
    memset(bytes_of, -1, sizeof bytes_of);
    for (int16_t byte = 0; byte < 256; byte++)
        bytes_of[codes[byte]] = byte;
    size_t total = 0; // no token's bytes are longer than its spelling, which lies in the file
    for (size_t i = 0; i < t->count; i++)
        total += t->spellings[i].size;
    t->pieces = llm_alloc(total, 1);
    t->piece_starts = llm_alloc(t->count + 1, sizeof *t->piece_starts);
    if (t->pieces == NULL || t->piece_starts == NULL)
        return llm_fail_memory(error, "the bytes of tokens");
    size_t at = 0;
    for (size_t i = 0; i < t->count; i++) {
        t->piece_starts[i] = at;
        at += write_piece(t, bytes_of, i, t->pieces + at);
    }
    t->piece_starts[t->count] = at;
    return BERTH_OK;
}

static int compare_specials(const void* left, const void* right, void* context) {
    const llm_tokenizer* t = context;
    int32_t a = *(const int32_t*)left;
    int32_t b = *(const int32_t*)right;
    llm_str x = t->spellings[a];
    llm_str y = t->spellings[b];
    if (x.data[0] != y.data[0]) return (unsigned char)x.data[0] < (unsigned char)y.data[0] ? -1 : 1;
    if (x.size != y.size) return x.size > y.size ? -1 : 1;
    return (a > b) - (a < b);
}

static bool is_special(const llm_tokenizer* t, size_t id) {
    bool kind_fits = t->kinds[id] == LLM_TOKEN_CONTROL || t->kinds[id] == LLM_TOKEN_USER_DEFINED;
    return kind_fits && t->spellings[id].size > 0;
}

static berth_status list_specials(llm_tokenizer* t, llm_error* error) {
    for (size_t i = 0; i < t->count; i++)
        t->special_count += is_special(t, i);
    t->specials = llm_alloc(t->special_count, sizeof *t->specials);
    if (t->specials == NULL) return llm_fail_memory(error, "the list of special tokens");
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (is_special(t, i)) t->specials[count++] = (int32_t)i;
    }
    qsort_r(t->specials, count, sizeof *t->specials, compare_specials, t);
    size_t at = 0;
    for (unsigned first = 0; first <= 256; first++) {
        while (at < count && (unsigned char)t->spellings[t->specials[at]].data[0] < first)
            at++;
        t->special_starts[first] = at;
    }
    return BERTH_OK;
}

berth_status llm_vocabulary_load(llm_tokenizer* tokenizer, const llm_gguf* gguf, llm_error* error) {
    berth_status status = load_spellings(tokenizer, gguf, error);
    if (status == BERTH_OK) status = load_kinds(tokenizer, gguf, error);
    if (status == BERTH_OK) status = index_texts(tokenizer, error);
    if (status != BERTH_OK) return status;
    if (tokenizer->is_byte_level) {
        map_byte_level_bytes(tokenizer);
        status = load_merges(tokenizer, gguf, error);
    } else {
        map_byte_tokens(tokenizer);
        status = load_scores(tokenizer, gguf, error);
    }
    if (status == BERTH_OK) status = make_pieces(tokenizer, error);
    if (status == BERTH_OK) status = list_specials(tokenizer, error);
    return status;
}

void llm_vocabulary_fini(llm_tokenizer* tokenizer) {
    llm_free(tokenizer->spellings);
    llm_free(tokenizer->kinds);
    llm_free(tokenizer->scores);
    llm_free(tokenizer->texts.slots);
    llm_free(tokenizer->merges.slots);
    llm_free(tokenizer->pieces);
    llm_free(tokenizer->piece_starts);
    llm_free(tokenizer->specials);
}
