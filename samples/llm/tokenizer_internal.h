// SPDX-License-Identifier: Apache-2.0
// The loaded vocabulary, shared by the parts of the tokenizer.
#ifndef BERTH_SAMPLES_LLM_TOKENIZER_INTERNAL_H
#define BERTH_SAMPLES_LLM_TOKENIZER_INTERNAL_H

#include "tokenizer.h"
#include "tokenizer_split.h"

enum { LLM_NO_TOKEN = -1 };

/// Ids that the model file names; LLM_NO_TOKEN where it names none.
typedef struct llm_special_ids {
    int32_t bos;     ///< begins a text
    int32_t eos;     ///< ends a text
    int32_t eot;     ///< ends a turn of a conversation
    int32_t unknown; ///< stands for what no token covers
    int32_t padding; ///< checked like the others, and not used
} llm_special_ids;

/// Ids found by spelling: open addressing, at most half full.
typedef struct llm_text_table {
    uint32_t* slots; ///< id + 1, 0 is empty
    size_t mask;
} llm_text_table;

/// A merge of byte-level BPE: the pair (left, right) becomes `result`.
typedef struct llm_merge {
    uint32_t left; ///< id + 1, 0 is an empty slot
    uint32_t right;
    uint32_t rank;
    int32_t result;
} llm_merge;

typedef struct llm_merge_table {
    llm_merge* slots;
    size_t mask;
} llm_merge_table;

struct llm_tokenizer {
    bool is_byte_level; ///< "gpt2", else "llama"
    llm_split split;    ///< of a byte-level tokenizer
    bool takes_whole;   ///< a piece that is a token is not merged
    bool adds_bos;
    bool adds_eos;
    bool adds_space; ///< "llama": a space before each text
    llm_special_ids ids;

    size_t count;
    llm_str* spellings;      ///< [count], in the file
    uint8_t* kinds;          ///< [count], llm_token_kind
    float* scores;           ///< [count] of "llama", else NULL
    size_t longest;          ///< bytes of the longest spelling
    llm_text_table texts;    ///< tokens that plain text may become
    llm_merge_table merges;  ///< of "gpt2"
    int32_t byte_ids[256];   ///< LLM_NO_TOKEN where a byte has no token
    char byte_texts[256][2]; ///< "gpt2": the character that stands for a byte
    uint8_t byte_text_sizes[256];

    char* pieces;         ///< bytes of all tokens, one after another
    size_t* piece_starts; ///< [count + 1]
    int32_t* specials;    ///< control and user-defined ids, by first byte, then longest first
    size_t special_count;
    size_t special_starts[257]; ///< where each first byte begins in `specials`
};

/// Returns the id of the plain token spelled `head` followed by `tail`, or LLM_NO_TOKEN.
int32_t llm_vocabulary_find(const llm_tokenizer* tokenizer, llm_str head, llm_str tail);

/// Returns the merge of two tokens, or NULL.
const llm_merge* llm_vocabulary_find_merge(const llm_tokenizer* tokenizer,
                                           int32_t left,
                                           int32_t right);

/// Reads everything but the ids from the file into a zeroed tokenizer.
BERTH_NODISCARD berth_status llm_vocabulary_load(llm_tokenizer* tokenizer,
                                                 const llm_gguf* gguf,
                                                 llm_error* error);

/// Frees what llm_vocabulary_load allocated.
void llm_vocabulary_fini(llm_tokenizer* tokenizer);

/// Working memory of merging, reused from piece to piece. All zero is valid.
typedef struct llm_merge_scratch {
    struct llm_symbol* symbols;
    struct llm_candidate* heap;
    size_t heap_count;
    size_t capacity; ///< in symbols; the heap has room for twice as many
    llm_bytes text;
} llm_merge_scratch;

/// Frees the working memory and leaves it empty.
void llm_merge_scratch_fini(llm_merge_scratch* scratch);

/// Appends the tokens of a text without special tokens, which begins a text or follows one of them.
BERTH_NODISCARD berth_status llm_merge_plain(const llm_tokenizer* tokenizer,
                                             llm_str text,
                                             llm_merge_scratch* scratch,
                                             llm_tokens* tokens,
                                             llm_error* error);

#endif // BERTH_SAMPLES_LLM_TOKENIZER_INTERNAL_H
