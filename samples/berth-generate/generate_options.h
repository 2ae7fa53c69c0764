// SPDX-License-Identifier: Apache-2.0
// The command line of berth-generate.
#ifndef BERTH_SAMPLES_GENERATE_OPTIONS_H
#define BERTH_SAMPLES_GENERATE_OPTIONS_H

#include "session.h"

/// Where the prompts come from; exactly one.
typedef enum prompt_source {
    PROMPT_NONE,
    PROMPT_TEXT,   ///< --prompt: continued as it is
    PROMPT_CHAT,   ///< --chat: asked as a message
    PROMPT_FILES,  ///< --prompts: a folder of .txt files, or a file with a prompt a line
    PROMPT_TOKENS, ///< --tokens: ids
} prompt_source;

typedef struct generate_options {
    const char* model_path; ///< NULL: random weights
    bool random_tiny;       ///< random weights of the size that tests use
    uint64_t random_seed;
    bool use_mmap;
    prompt_source source;
    const char* prompt; ///< text, path or ids, as `source` says
    int64_t max_tokens;
    llm_sampler_options sampling;
    const char* threads; ///< for Berth; NULL: its own default
    const char* device;
    const char* memory;
    const char* mode; ///< value of BERTH_MODE, or NULL
    berth_dtype kv_dtype;
    int64_t context_tokens; ///< 0: the model's
    int64_t chunk_tokens;   ///< 0: prompts in one step
    bool report;
    bool compare;
    bool print_tokens;
    const char* json_path;
    const char* logits_path;
} generate_options;

typedef enum parse_result { PARSE_RUN, PARSE_HELP, PARSE_WRONG } parse_result;

/// Reads the command line. On PARSE_WRONG a line on stderr has said what is wrong.
parse_result generate_options_parse(int argc, char** argv, generate_options* out_options);

/// Prints what the options mean.
void generate_options_print_help(void);

#endif // BERTH_SAMPLES_GENERATE_OPTIONS_H
