// SPDX-License-Identifier: Apache-2.0
// Hand-written scanners for the three pre-tokenizer expressions. Each alternative of an expression
// is one test in the order of the expression; the comments quote it.
#include "tokenizer_split.h"

#include "unicode.h"

/// The character at `at`; at the end of the text one of size 0.
static llm_char peek(llm_str text, size_t at) {
    if (at >= text.size) return (llm_char){LLM_CHAR_INVALID, 0, LLM_CHAR_OTHER};
    return llm_char_read(text, at);
}

/// Skips the characters of one class, at most `limit`.
static size_t skip_class(llm_str text, size_t at, llm_char_class kind, size_t limit) {
    llm_char c = peek(text, at);
    for (size_t n = 0; c.size != 0 && c.kind == kind && n < limit; n++) {
        at += c.size;
        c = peek(text, at);
    }
    return at;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/// 's|'t|'re|'ve|'m|'ll|'d: returns the end, or `at` when none is there.
static size_t skip_contraction(llm_str text, size_t at, bool any_case) {
    static const char* const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (text.data[at] != '\'') return at;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        llm_str ending = llm_str_of(endings[i]);
        if (ending.size > text.size - at - 1) continue;
        size_t same = 0;
        for (; same < ending.size; same++) {
            char c = text.data[at + 1 + same];
            if ((any_case ? lower(c) : c) != ending.data[same]) break;
        }
        if (same == ending.size) return at + 1 + ending.size;
    }
    return at;
}

/// \s+(?!\S)|\s+: a run of white space leaves its last character to the word behind it, unless that
/// is all there is or the run ends the text.
static size_t skip_spaces(llm_str text, size_t at, size_t end) {
    size_t run = at;
    size_t last = at;
    while (run < end) {
        llm_char c = llm_char_read(text, run);
        if (c.kind != LLM_CHAR_SPACE) break;
        last = run;
        run += c.size;
    }
    return run == end || last == at ? run : last;
}

/// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S), and what none of these
/// matches, which is a single white space before a word. Where digits stand alone the text between
/// two of them is cut by itself, so that a digit ends a run of spaces as the end of the text does.
static size_t next_gpt2(llm_str text, size_t at, bool single_digits) {
    llm_char first = llm_char_read(text, at);
    if (single_digits && first.kind == LLM_CHAR_NUMBER) return at + first.size;
    size_t end = skip_contraction(text, at, false);
    if (end != at) return end;
    size_t word = first.code == ' ' ? at + 1 : at;
    llm_char c = peek(text, word);
    bool digit_behind = single_digits && c.size != 0 && c.kind == LLM_CHAR_NUMBER;
    if (c.size != 0 && c.kind != LLM_CHAR_SPACE && !digit_behind)
        return skip_class(text, word, c.kind, SIZE_MAX);
    size_t run = skip_class(text, at, LLM_CHAR_SPACE, SIZE_MAX);
    if (single_digits && peek(text, run).kind == LLM_CHAR_NUMBER) return run;
    return skip_spaces(text, at, text.size);
}

/// \s*[\r\n]+: returns the end, or `at` when the run of white space holds no line end.
static size_t skip_to_line_end(llm_str text, size_t at) {
    size_t end = at;
    llm_char c = peek(text, at);
    for (size_t run = at; c.size != 0 && c.kind == LLM_CHAR_SPACE; c = peek(text, run)) {
        run += c.size;
        if (c.code == '\n' || c.code == '\r') end = run;
    }
    return end;
}

/// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
/// \s*[\r\n]+|\s+(?!\S)|\s+
static size_t next_llama3(llm_str text, size_t at) {
    size_t end = skip_contraction(text, at, true);
    if (end != at) return end;
    llm_char first = llm_char_read(text, at);
    bool is_line_end = first.code == '\n' || first.code == '\r';
    bool may_lead = first.kind != LLM_CHAR_LETTER && first.kind != LLM_CHAR_NUMBER && !is_line_end;
    size_t word = may_lead ? at + first.size : at;
    end = skip_class(text, word, LLM_CHAR_LETTER, SIZE_MAX);
    if (end != word) return end;
    if (first.kind == LLM_CHAR_NUMBER) return skip_class(text, at, LLM_CHAR_NUMBER, 3);
    word = first.code == ' ' ? at + 1 : at;
    end = skip_class(text, word, LLM_CHAR_OTHER, SIZE_MAX);
    if (end != word) {
        while (end < text.size && (text.data[end] == '\n' || text.data[end] == '\r'))
            end++;
        return end;
    }
    end = skip_to_line_end(text, at);
    return end != at ? end : skip_spaces(text, at, text.size);
}

llm_split llm_split_of(llm_str name) {
    static const struct {
        const char* name;
        llm_split split;
    } names[] = {
        {"gpt-2", LLM_SPLIT_GPT2},
        {"smollm", LLM_SPLIT_SMOLLM},
        {"starcoder", LLM_SPLIT_SMOLLM},
        {"refact", LLM_SPLIT_SMOLLM},
        {"command-r", LLM_SPLIT_SMOLLM},
        {"llama-bpe", LLM_SPLIT_LLAMA3},
        {"llama3", LLM_SPLIT_LLAMA3},
        {"llama-v3", LLM_SPLIT_LLAMA3},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (llm_str_equal(name, llm_str_of(names[i].name))) return names[i].split;
    }
    return LLM_SPLIT_UNKNOWN;
}

size_t llm_split_next(llm_split split, llm_str text, size_t at) {
    if (split == LLM_SPLIT_LLAMA3) return next_llama3(text, at);
    return next_gpt2(text, at, split == LLM_SPLIT_SMOLLM);
}
