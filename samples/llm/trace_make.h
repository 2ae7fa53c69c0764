// SPDX-License-Identifier: Apache-2.0
// Request traces made from seeded random numbers, for replays without a recorded one.
//
// A trace is conversations of one or more turns. A conversation begins with one of some shared
// system prompts; each turn's prompt is everything said before in it and a new message. All draws
// are independent:
//   - conversations begin as a Poisson process, so that requests come at `rate` a second;
//   - the turns of a conversation are geometric with mean `turns`;
//   - a message and an answer are log-normal with a median and a sigma of the logarithm, rounded
//     up;
//   - between an answer's end, at 30 tokens a second, and the next message lies a think time,
//     exponential with mean `think_s`;
//   - which system prompt it is: number i with a share in proportion to 1 / (i + 1).
// A conversation ends early when the next turn would exceed `most_tokens`.
#ifndef BERTH_SAMPLES_LLM_TRACE_MAKE_H
#define BERTH_SAMPLES_LLM_TRACE_MAKE_H

#include "llm_support.h"

/// Tokens of a block that has an id of its own in the traces made here.
enum { LLM_TRACE_MAKE_BLOCK = 16 };

// clang-format off
/// Parameters of a trace: X(name, chat, single, shared, least, most, help); the three numbers are
/// what the kinds begin with.
#define LLM_TRACE_PARAMETER_MAP(X)                                                                 \
    X(requests,       64,   64,   64,   1, 1e7, "requests in all")                                 \
    X(rate,           2,    2,    2,    1e-6, 1e6, "requests a second")                            \
    X(turns,          3,    1,    1,    1, 1000, "mean turns of a conversation")                   \
    X(think_s,        5,    0,    0,    0, 1e5, "mean seconds between an answer and the next turn") \
    X(systems,        2,    0,    1,    0, 1000, "system prompts")                                 \
    X(system_tokens,  48,   0,    256,  0, 1e6, "tokens of a system prompt")                       \
    X(message_median, 24,   90,   32,   1, 1e6, "median tokens of a message")                      \
    X(message_sigma,  0.9,  1.1,  0.8,  0, 4, "sigma of the logarithm of a message's tokens")      \
    X(answer_median,  20,   16,   16,   1, 1e6, "median tokens of an answer")                      \
    X(answer_sigma,   0.8,  0.9,  0.8,  0, 4, "sigma of the logarithm of an answer's tokens")      \
    X(most_tokens,    2048, 2048, 2048, 2, 1e7, "most tokens of prompt and answer")                \
    X(seed,           1,    1,    1,    0, 9e15, "of the random numbers")
// clang-format on

/// What to make. Kinds are starting values: "chat" has conversations of several turns, "single"
/// independent requests that share nothing, "shared" single requests behind one long system
/// prompt.
typedef struct llm_trace_recipe {
#define LLM_TRACE_FIELD(name, chat, single, shared, least, most, help) double name; ///< help
    LLM_TRACE_PARAMETER_MAP(LLM_TRACE_FIELD)
#undef LLM_TRACE_FIELD
} llm_trace_recipe;

/// Reads "KIND" or "KIND:NAME=VALUE,NAME=VALUE...".
/// Errors: BERTH_ERR_INVALID_ARGUMENT names the kind, or the parameter with its range.
BERTH_NODISCARD berth_status llm_trace_recipe_parse(const char* text,
                                                    llm_trace_recipe* out_recipe,
                                                    llm_error* error);

/// Makes the trace: a line of JSON for each request, in the order of arrival, {t_ms, in, out,
/// in_blocks, all_blocks_tail} with an id for each whole block of 16 tokens of the prompt and then
/// of prompt and answer together; equal ids stand for equal tokens of the block and all before it.
/// The same recipe gives the same text.
/// Ownership: the caller gives the text to llm_bytes_fini(), also after an error.
/// Errors:    BERTH_ERR_INVALID_ARGUMENT for system prompts that leave no room for a message,
///            BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status llm_trace_make(const llm_trace_recipe* recipe,
                                            llm_bytes* out_text,
                                            llm_error* error);

#endif // BERTH_SAMPLES_LLM_TRACE_MAKE_H
