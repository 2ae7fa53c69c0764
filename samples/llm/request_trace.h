// SPDX-License-Identifier: Apache-2.0
// Recorded streams of requests: when each came, how long its prompt and its answer were, and which
// prompts begin alike. No content.
//
// A trace is a text of one of five formats, told apart by its first line:
//
//   azure     CSV with TIMESTAMP, ContextTokens, GeneratedTokens
//   lengths   CSV with num_prefill_tokens, num_decode_tokens; no arrivals
//   agent     CSV with session, round, start_ms, input_tokens, prefix_tokens, output_tokens: the
//             first prefix_tokens of a prompt are those of the round before and its answer
//   mooncake  JSON lines {timestamp, input_length, output_length, hash_ids}: an id for each 512
//             tokens of the prompt, the last block mostly begun
//   blocks    JSON lines {t_ms, in, out, in_blocks, all_blocks_tail}: an id for each 16 tokens of
//             the prompt, then of prompt and answer together; whole blocks only
//
// Columns and members may come in any order, and there may be more of them.
#ifndef BERTH_SAMPLES_LLM_REQUEST_TRACE_H
#define BERTH_SAMPLES_LLM_REQUEST_TRACE_H

#include "llm_support.h"

/// Most tokens of a prompt, and of an answer.
#define LLM_TRACE_MOST_TOKENS INT64_C(100000000)
/// Most requests of a trace.
#define LLM_TRACE_MOST_ROWS ((size_t)10000000)
/// Most ids of a trace.
#define LLM_TRACE_MOST_IDS ((size_t)1 << 28)
/// Most bytes of a line.
#define LLM_TRACE_MOST_LINE_BYTES ((size_t)1 << 24)

// clang-format off
/// Formats: X(ID, word, block_tokens, help). block_tokens is 0 where there are no ids.
#define LLM_TRACE_FORMAT_MAP(X)                                                                    \
    X(AZURE,    "azure",    0,   "CSV: time, prompt and answer tokens")                            \
    X(LENGTHS,  "lengths",  0,   "CSV: prompt and answer tokens")                                  \
    X(AGENT,    "agent",    16,  "CSV: rounds of sessions; ids are made from prefix_tokens")       \
    X(MOONCAKE, "mooncake", 512, "JSON lines: arrival, tokens, ids of the prompt's blocks")        \
    X(BLOCKS,   "blocks",   16,  "JSON lines: arrival, tokens, ids of prompt's and answer's blocks")
// clang-format on

/// How a trace was written.
typedef enum llm_trace_format {
#define LLM_TRACE_FORMAT_ENUM(id, word, block_tokens, help) LLM_TRACE_##id, ///< help
    LLM_TRACE_FORMAT_MAP(LLM_TRACE_FORMAT_ENUM)
#undef LLM_TRACE_FORMAT_ENUM
        LLM_TRACE_FORMAT_COUNT, ///< number of formats
} llm_trace_format;

/// The word for a format, such as "azure"; "unknown" for what is none.
const char* llm_trace_format_text(llm_trace_format format);

/// One request.
typedef struct llm_trace_row {
    double arrival_ms; ///< since the first one; of an agent's round since its session began; -1:
                       ///< not known
    int64_t prompt_tokens; ///< at least 1
    int64_t answer_tokens; ///< at least 0
    int64_t session;       ///< agent: which one; else -1
    size_t first_id;       ///< among the ids of the trace
    size_t prompt_ids;     ///< blocks of the prompt that have an id
    size_t tail_ids;       ///< behind them: further blocks of prompt and answer together
} llm_trace_row;

/// All requests of a trace, in the order of the text. All zero is an empty one.
typedef struct llm_request_trace {
    llm_trace_format format;
    int64_t block_tokens; ///< that an id stands for; 0: there are no ids
    llm_trace_row* rows;  ///< [row_count]
    size_t row_count;
    size_t row_capacity;
    int64_t* ids; ///< [id_count] at least 0; equal ones: equal tokens in the block and before it
    size_t id_count;
    size_t id_capacity;
} llm_request_trace;

/// Reads the trace in the file at `path`.
/// Ownership: the caller gives `*out_trace` to llm_request_trace_fini(), also after an error.
/// Errors:    BERTH_ERR_IO if the file cannot be read; BERTH_ERR_CORRUPT for a text of none of the
///            formats, without requests, or with a line that is wrong, which the sentence names as
///            "path:line"; BERTH_ERR_OUT_OF_MEMORY. `*out_trace` is empty then.
BERTH_NODISCARD berth_status llm_request_trace_read(const char* path,
                                                    llm_request_trace* out_trace,
                                                    llm_error* error);

/// Reads the trace in `text`, which `name` stands for in sentences. Else as
/// llm_request_trace_read().
BERTH_NODISCARD berth_status llm_request_trace_parse(llm_str text,
                                                     const char* name,
                                                     llm_request_trace* out_trace,
                                                     llm_error* error);

/// Frees what the trace has and leaves it empty.
void llm_request_trace_fini(llm_request_trace* trace);

#endif // BERTH_SAMPLES_LLM_REQUEST_TRACE_H
