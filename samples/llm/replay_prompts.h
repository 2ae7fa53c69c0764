// SPDX-License-Identifier: Apache-2.0
// The tokens of a trace's requests. A trace has no content, so it is made up: the token at a place
// follows from the id of the block there, and so blocks with equal ids hold equal tokens. Others
// differ, but for chance: one place in `vocab_tokens` agrees.
//
// Lengths may be divided. Place i of a divided request is place i * divide of the trace's, and so
// what two prompts share is divided alike.
#ifndef BERTH_SAMPLES_LLM_REPLAY_PROMPTS_H
#define BERTH_SAMPLES_LLM_REPLAY_PROMPTS_H

#include "request_trace.h"

/// What the tokens are made from.
typedef struct llm_replay_prompts {
    const llm_request_trace* trace; ///< borrowed
    int64_t vocab_tokens;           ///< ids are below it, at least 1
    int64_t divide;                 ///< by which lengths are divided, at least 1
} llm_replay_prompts;

/// Tokens of row `row`'s prompt, at least 1.
int64_t llm_replay_prompt_tokens(const llm_replay_prompts* prompts, size_t row);

/// Tokens of row `row`'s answer, at least 1.
int64_t llm_replay_answer_tokens(const llm_replay_prompts* prompts, size_t row);

/// The token at place `place` of row `row`: of its prompt, and behind that of its answer. An answer
/// agrees with later prompts where the trace has ids for answers.
int32_t llm_replay_token(const llm_replay_prompts* prompts, size_t row, int64_t place);

/// Writes row `row`'s prompt to `out_ids` [llm_replay_prompt_tokens()].
void llm_replay_write_prompt(const llm_replay_prompts* prompts, size_t row, int32_t* out_ids);

/// True if some request's answer has ids, which later prompts may repeat.
bool llm_replay_has_answers(const llm_request_trace* trace);

#endif // BERTH_SAMPLES_LLM_REPLAY_PROMPTS_H
