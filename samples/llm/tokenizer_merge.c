// SPDX-License-Identifier: Apache-2.0
// Merging symbols into tokens. Both tokenizers repeat "join the best adjacent pair, the leftmost of
// equals"; they differ in what a symbol is and in which pair is best. Pairs wait in a heap and are
// checked when they come up, so that a text of n bytes costs O(n log n) even as one piece.
#include "tokenizer_internal.h"

#include "unicode.h"

#include <string.h>

/// A stretch of the text that is one token so far, or may become part of one. Symbols form a list.
struct llm_symbol {
    uint32_t start;
    uint32_t size; ///< 0 once it was joined to the symbol before it
    int32_t id;    ///< LLM_NO_TOKEN when the stretch is no token
    uint32_t next; ///< index, NO_SYMBOL at the end
    uint32_t previous;
};

/// A pair that may be joined. It is stale when its symbols have changed since.
struct llm_candidate {
    uint64_t order; ///< rank of the pair, then place in the text: the least is joined first
    uint32_t left;  ///< index of its first symbol
    uint32_t size;  ///< of both symbols together
    int32_t id;     ///< what the pair becomes
};

#define NO_SYMBOL UINT32_MAX

/// One piece of text being merged.
typedef struct merger {
    const llm_tokenizer* tokenizer;
    llm_str text;
    struct llm_symbol* symbols;
    uint32_t symbol_count;
    struct llm_candidate* heap;
    size_t heap_count;
} merger;

static void heap_push(merger* m, struct llm_candidate item) {
    size_t at = m->heap_count++;
    while (at > 0 && m->heap[(at - 1) / 2].order > item.order) {
        m->heap[at] = m->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    m->heap[at] = item;
}

static struct llm_candidate heap_pop(merger* m) {
    struct llm_candidate top = m->heap[0];
    struct llm_candidate last = m->heap[--m->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= m->heap_count) break;
        if (child + 1 < m->heap_count && m->heap[child + 1].order < m->heap[child].order) child++;
        if (m->heap[child].order >= last.order) break;
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = last;
    return top;
}

/// Maps scores to numbers of the opposite order, so that the highest score comes first.
static uint32_t order_of_score(float score) {
    score += 0.0f; // one zero only
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

static llm_str symbol_text(const merger* m, const struct llm_symbol* symbol) {
    return (llm_str){m->text.data + symbol->start, symbol->size};
}

/// Puts the pair that begins at symbol `left` on the heap, if it can be joined at all.
static void consider(merger* m, uint32_t left) {
    if (left == NO_SYMBOL || m->symbols[left].next == NO_SYMBOL) return;
    const struct llm_symbol* a = &m->symbols[left];
    const struct llm_symbol* b = &m->symbols[a->next];
    uint32_t rank;
    int32_t id;
    uint32_t size = a->size + b->size;
    if (m->tokenizer->is_byte_level) {
        const llm_merge* merge = llm_vocabulary_find_merge(m->tokenizer, a->id, b->id);
        if (merge == NULL) return;
        rank = merge->rank;
        id = merge->result;
    } else {
        if (size > m->tokenizer->longest) return;
        id = llm_vocabulary_find(m->tokenizer, symbol_text(m, a), symbol_text(m, b));
        if (id == LLM_NO_TOKEN) return;
        rank = order_of_score(m->tokenizer->scores[id]);
    }
    heap_push(m, (struct llm_candidate){(uint64_t)rank << 32 | left, left, size, id});
}

/// Joins a candidate's symbols unless one of them has changed. Symbols only grow, and one that
/// grows takes its neighbour whole: equal size means equal symbols.
static void join(merger* m, const struct llm_candidate* candidate) {
    struct llm_symbol* left = &m->symbols[candidate->left];
    if (left->size == 0 || left->next == NO_SYMBOL) return;
    struct llm_symbol* right = &m->symbols[left->next];
    if (left->size + right->size != candidate->size) return;
    left->size = candidate->size;
    left->id = candidate->id;
    left->next = right->next;
    right->size = 0;
    if (left->next != NO_SYMBOL) m->symbols[left->next].previous = candidate->left;
    consider(m, left->previous);
    consider(m, candidate->left);
}

static void merge_all(merger* m) {
    for (uint32_t i = 0; i + 1 < m->symbol_count; i++)
        consider(m, i);
    while (m->heap_count > 0) {
        struct llm_candidate candidate = heap_pop(m);
        join(m, &candidate);
    }
}

static void add_symbol(merger* m, uint32_t start, uint32_t size, int32_t id) {
    uint32_t at = m->symbol_count++;
    m->symbols[at] = (struct llm_symbol){start, size, id, NO_SYMBOL, NO_SYMBOL};
    if (at == 0) return;
    m->symbols[at].previous = at - 1;
    m->symbols[at - 1].next = at;
}

static berth_status push_byte(const llm_tokenizer* t,
                              unsigned char byte,
                              llm_tokens* tokens,
                              llm_error* error) {
    int32_t id = t->byte_ids[byte];
    if (id == LLM_NO_TOKEN) id = t->ids.unknown;
    // no text may produce a control token, not even text that has no token at all
    if (id == LLM_NO_TOKEN || t->kinds[id] == LLM_TOKEN_CONTROL) return BERTH_OK;
    return llm_tokens_push(tokens, id, error);
}

static berth_status push_symbols(const merger* m, llm_tokens* tokens, llm_error* error) {
    uint32_t at = m->symbol_count == 0 ? NO_SYMBOL : 0;
    while (at != NO_SYMBOL) {
        const struct llm_symbol* symbol = &m->symbols[at];
        berth_status status = BERTH_OK;
        if (symbol->id != LLM_NO_TOKEN) status = llm_tokens_push(tokens, symbol->id, error);
        llm_str text = symbol_text(m, symbol);
        for (size_t i = 0; symbol->id == LLM_NO_TOKEN && i < text.size; i++) {
            status = push_byte(m->tokenizer, (unsigned char)text.data[i], tokens, error);
            if (status != BERTH_OK) return status;
        }
        if (status != BERTH_OK) return status;
        at = symbol->next;
    }
    return BERTH_OK;
}

/// Makes room for a piece of `size` bytes. Joining takes one candidate off the heap and puts at
/// most two on, and happens at most size - 1 times: twice the symbols is enough.
static berth_status reserve(llm_merge_scratch* scratch, size_t size, llm_error* error) {
    if (size <= scratch->capacity) return BERTH_OK;
    size_t wanted = scratch->capacity == 0 ? 64 : scratch->capacity;
    while (wanted < size)
        wanted *= 2;
    llm_free(scratch->symbols);
    llm_free(scratch->heap);
    scratch->capacity = 0;
    scratch->symbols = llm_alloc(wanted, sizeof *scratch->symbols);
    scratch->heap = llm_alloc(wanted * 2, sizeof *scratch->heap);
    if (scratch->symbols == NULL || scratch->heap == NULL)
        return llm_fail_memory(error, "merging a text");
    scratch->capacity = wanted;
    return BERTH_OK;
}

/// Returns the token that the whole piece is, or LLM_NO_TOKEN.
static berth_status find_whole(
    const llm_tokenizer* t, llm_str piece, llm_bytes* mapped, int32_t* out_id, llm_error* error) {
    *out_id = LLM_NO_TOKEN;
    if (piece.size > t->longest) return BERTH_OK;
    mapped->size = 0;
    berth_status status = llm_bytes_reserve(mapped, 2 * piece.size, error);
    if (status != BERTH_OK) return status;
    for (size_t i = 0; i < piece.size; i++) {
        unsigned char byte = (unsigned char)piece.data[i];
        memcpy(mapped->data + mapped->size, t->byte_texts[byte], 2);
        mapped->size += t->byte_text_sizes[byte];
    }
    llm_str text = {mapped->data, mapped->size};
    *out_id = llm_vocabulary_find(t, text, (llm_str){NULL, 0});
    return BERTH_OK;
}

static berth_status merge_piece(const llm_tokenizer* t,
                                llm_str piece,
                                llm_merge_scratch* scratch,
                                llm_tokens* tokens,
                                llm_error* error) {
    if (t->takes_whole) {
        int32_t whole;
        berth_status status = find_whole(t, piece, &scratch->text, &whole, error);
        if (status != BERTH_OK) return status;
        if (whole != LLM_NO_TOKEN) return llm_tokens_push(tokens, whole, error);
    }
    berth_status status = reserve(scratch, piece.size, error);
    if (status != BERTH_OK) return status;
    merger m = {.tokenizer = t, .text = piece, .symbols = scratch->symbols, .heap = scratch->heap};
    for (uint32_t i = 0; i < piece.size; i++)
        add_symbol(&m, i, 1, t->byte_ids[(unsigned char)piece.data[i]]);
    merge_all(&m);
    return push_symbols(&m, tokens, error);
}

static berth_status merge_byte_level(const llm_tokenizer* t,
                                     llm_str text,
                                     llm_merge_scratch* scratch,
                                     llm_tokens* tokens,
                                     llm_error* error) {
    for (size_t at = 0; at < text.size;) {
        size_t end = llm_split_next(t->split, text, at);
        llm_str piece = {text.data + at, end - at};
        berth_status status = merge_piece(t, piece, scratch, tokens, error);
        if (status != BERTH_OK) return status;
        at = end;
    }
    return BERTH_OK;
}

/// Writes the text with U+2581 for every space, and one in front when `adds_space`.
static berth_status mark_spaces(llm_str text, bool adds_space, llm_bytes* out, llm_error* error) {
    static const char mark[] = "\xe2\x96\x81";
    out->size = 0;
    berth_status status = llm_bytes_reserve(out, 3 * (text.size + 1), error);
    if (status != BERTH_OK) return status;
    char* at = out->data;
    if (adds_space) at = mempcpy(at, mark, 3);
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == ' ')
            at = mempcpy(at, mark, 3);
        else
            *at++ = text.data[i];
    }
    out->size = (size_t)(at - out->data);
    return BERTH_OK;
}

static berth_status merge_characters(const llm_tokenizer* t,
                                     llm_str text,
                                     llm_merge_scratch* scratch,
                                     llm_tokens* tokens,
                                     llm_error* error) {
    berth_status status = mark_spaces(text, t->adds_space, &scratch->text, error);
    if (status == BERTH_OK) status = reserve(scratch, scratch->text.size, error);
    if (status != BERTH_OK) return status;
    llm_str marked = {scratch->text.data, scratch->text.size};
    merger m = {.tokenizer = t, .text = marked, .symbols = scratch->symbols, .heap = scratch->heap};
    for (size_t at = 0; at < marked.size;) {
        llm_char c = llm_char_read(marked, at);
        llm_str spelling = {marked.data + at, c.size};
        int32_t id = llm_vocabulary_find(t, spelling, (llm_str){NULL, 0});
        add_symbol(&m, (uint32_t)at, c.size, id);
        at += c.size;
    }
    merge_all(&m);
    return push_symbols(&m, tokens, error);
}

void llm_merge_scratch_fini(llm_merge_scratch* scratch) {
    llm_free(scratch->symbols);
    llm_free(scratch->heap);
    llm_bytes_fini(&scratch->text);
    *scratch = (llm_merge_scratch){0};
}

berth_status llm_merge_plain(const llm_tokenizer* tokenizer,
                             llm_str text,
                             llm_merge_scratch* scratch,
                             llm_tokens* tokens,
                             llm_error* error) {
    if (text.size == 0) return BERTH_OK;
    if (tokenizer->is_byte_level) return merge_byte_level(tokenizer, text, scratch, tokens, error);
    return merge_characters(tokenizer, text, scratch, tokens, error);
}
