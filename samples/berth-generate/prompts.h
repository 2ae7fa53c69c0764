// SPDX-License-Identifier: Apache-2.0
// The prompts of one run, as token ids.
#ifndef BERTH_SAMPLES_PROMPTS_H
#define BERTH_SAMPLES_PROMPTS_H

#include "chat.h"
#include "generate_options.h"

/// One prompt. `name` is a file's name or empty.
typedef struct prompt {
    char name[128];
    llm_tokens tokens;
    bool continues_text; ///< the answer goes on with the prompt's own text
} prompt;

/// A growable list of prompts. All zero is a valid empty list.
typedef struct prompt_list {
    prompt* items;
    size_t count;
    size_t capacity;
} prompt_list;

/// Reads the prompts that the options name. `tokenizer` may be NULL where they are ids.
/// Ownership: the caller gives the list to prompt_list_fini(), also after an error.
/// Errors:    BERTH_ERR_IO and BERTH_ERR_INVALID_ARGUMENT name the file or the text that is wrong.
BERTH_NODISCARD berth_status prompt_list_load(const generate_options* options,
                                              const llm_gguf* gguf,
                                              const llm_tokenizer* tokenizer,
                                              prompt_list* out_list,
                                              llm_error* error);

/// Frees the prompts and leaves the list empty.
void prompt_list_fini(prompt_list* list);

#endif // BERTH_SAMPLES_PROMPTS_H
