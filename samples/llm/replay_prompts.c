// SPDX-License-Identifier: Apache-2.0
// Lengths and tokens of a trace's requests.
#include "replay_prompts.h"

#include "llm_random.h"

static int64_t divided(int64_t tokens, int64_t divide) {
    return tokens < divide ? 1 : tokens / divide;
}

int64_t llm_replay_prompt_tokens(const llm_replay_prompts* prompts, size_t row) {
    return divided(prompts->trace->rows[row].prompt_tokens, prompts->divide);
}

int64_t llm_replay_answer_tokens(const llm_replay_prompts* prompts, size_t row) {
    return divided(prompts->trace->rows[row].answer_tokens, prompts->divide);
}

/// What the token at a place of a divided request follows from: the id of its block, or, where
/// there is none, the request itself. The two never meet, as one is even and the other odd.
static uint64_t source_of(const llm_replay_prompts* prompts, size_t row, int64_t place) {
    const llm_request_trace* trace = prompts->trace;
    const llm_trace_row* r = &trace->rows[row];
    const uint64_t own = (uint64_t)row * 2 + 1;
    if (trace->block_tokens == 0) return own;
    // an id of a block that the prompt only begins says nothing of the answer behind
    if (r->tail_ids == 0 && place >= llm_replay_prompt_tokens(prompts, row)) return own;
    const size_t block = (size_t)(place * prompts->divide / trace->block_tokens);
    if (block >= r->prompt_ids + r->tail_ids) return own;
    return (uint64_t)trace->ids[r->first_id + block] * 2;
}

int32_t llm_replay_token(const llm_replay_prompts* prompts, size_t row, int64_t place) {
    uint64_t state = source_of(prompts, row, place);
    state = llm_random_next(&state) + (uint64_t)place;
    return (int32_t)(llm_random_next(&state) % (uint64_t)prompts->vocab_tokens);
}

void llm_replay_write_prompt(const llm_replay_prompts* prompts, size_t row, int32_t* out_ids) {
    const int64_t count = llm_replay_prompt_tokens(prompts, row);
    for (int64_t i = 0; i < count; i++)
        out_ids[i] = llm_replay_token(prompts, row, i);
}

bool llm_replay_has_answers(const llm_request_trace* trace) {
    for (size_t i = 0; i < trace->row_count; i++)
        if (trace->rows[i].tail_ids > 0) return true;
    return false;
}
