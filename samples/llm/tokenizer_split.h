// SPDX-License-Identifier: Apache-2.0
// Cutting a text into the pieces that byte-level tokenizers merge one by one.
#ifndef BERTH_SAMPLES_LLM_TOKENIZER_SPLIT_H
#define BERTH_SAMPLES_LLM_TOKENIZER_SPLIT_H

#include "llm_support.h"

/// How text is cut, by the names that model files use (tokenizer.ggml.pre).
typedef enum llm_split {
    LLM_SPLIT_GPT2,    ///< "gpt-2"
    LLM_SPLIT_SMOLLM,  ///< "smollm", "starcoder", "refact", "command-r": digits stand alone
    LLM_SPLIT_LLAMA3,  ///< "llama-bpe" and its other names
    LLM_SPLIT_UNKNOWN, ///< none of these
} llm_split;

/// Returns the way that `name` stands for.
llm_split llm_split_of(llm_str name);

/// Returns the end of the piece that begins at `at`, which is below `text.size`. Going from 0 to
/// the end visits every byte once.
/// Cost: O(bytes of the piece), plus one run of white space at most.
size_t llm_split_next(llm_split split, llm_str text, size_t at);

#endif // BERTH_SAMPLES_LLM_TOKENIZER_SPLIT_H
