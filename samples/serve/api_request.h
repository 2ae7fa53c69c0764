// SPDX-License-Identifier: Apache-2.0
// Requests of OpenAI's interface, read and checked: from a body of JSON to prompts of tokens and
// how they are to be answered.
//
// Members that are unknown are ignored, as other servers do; those that are known and cannot be
// honoured (tools, audio, ...) are refused by name unless they ask for nothing.
#ifndef BERTH_SAMPLES_SERVE_API_REQUEST_H
#define BERTH_SAMPLES_SERVE_API_REQUEST_H

#include "api_error.h"
#include "chat.h"
#include "sampler.h"

enum {
    API_MOST_CHOICES = 128,     ///< answers of one request: prompts times n
    API_MOST_STOPS = 16,        ///< stop strings of a request
    API_MOST_STOP_BYTES = 1024, ///< of one of them
    API_MOST_TOP_LOGPROBS = 20, ///< alternatives of a token
    API_MOST_DEPTH = 64,        ///< of nested JSON
    API_MOST_LISTS = 1 << 15, ///< lists and objects of a body, which take far more memory than text
    API_MOST_VALUES = 1 << 19,  ///< values of a body
    API_COMPLETION_TOKENS = 16, ///< of an answer to a completion that says nothing
};

/// Has the JSON library get its memory from llm_alloc(), and all that reads bodies know when there
/// was none: by itself the library takes that for a damaged string, or leaves out characters.
/// Threads: call it while no other thread uses the library; once is enough.
void api_init(void);

/// The endpoints whose requests make answers.
typedef enum api_endpoint {
    API_CHAT,       ///< /v1/chat/completions
    API_COMPLETION, ///< /v1/completions
} api_endpoint;

/// What requests are read with. Borrowed by every call.
typedef struct api_reader {
    const llm_tokenizer* tokenizer;
    const llm_chat* chat;    ///< NULL: the model has no frame for conversations
    const char* model_name;  ///< under which the model is served
    int64_t context_tokens;  ///< most tokens of prompt and answer
    size_t most_token_bytes; ///< bytes of the longest token, as spelled or as meant: texts that can
                             ///< not fit into the context are refused before they are tokenized
    size_t reply_bytes;      ///< most of an answer to /tokenize or /detokenize; 0: no limit
} api_reader;

/// A request, read. All zero is an empty one.
typedef struct api_request {
    api_endpoint endpoint;
    llm_tokens* prompts; ///< [prompt_count], each of at least 1 token
    size_t prompt_count;
    llm_bytes* prompt_texts; ///< [prompt_count] if the prompts are echoed, else NULL
    int64_t n;               ///< answers to each prompt, at least 1
    int64_t max_tokens; ///< of an answer; if the request says nothing, what is left of the context,
                        ///< and of it API_COMPLETION_TOKENS at most for a completion. For the
                        ///< longest prompt: with any other prompt it fits as well
    llm_sampler_options sampling; ///< its seed is random if the request has none
    llm_logit_bias* logit_bias;   ///< that of `sampling`
    bool wants_logprobs;
    int32_t top_logprobs;
    bool ignores_stop; ///< "ignore_eos": answers to max_tokens whatever the model says
    bool echoes;       ///< completions: the prompt is part of the text
    bool streams;
    bool includes_usage; ///< a stream ends with the request's usage
    llm_bytes* stops;    ///< [stop_count], each of at least 1 byte
    size_t stop_count;
    llm_bytes user; ///< whose request it is, as the client says; empty if it does not
} api_request;

/// Reads the body of a request to `endpoint`.
/// Ownership: the caller gives `*out` to api_request_fini(), also after an error.
/// Errors:    false and `error`: INVALID names the member; CONTEXT_LENGTH has both numbers;
///            MODEL_NOT_FOUND; OUT_OF_MEMORY.
bool api_request_parse(const api_reader* reader,
                       api_endpoint endpoint,
                       llm_str body,
                       api_request* out,
                       api_error* error);

/// Frees what a request has and leaves it empty.
void api_request_fini(api_request* request);

/// Reads the body of /tokenize, {"content": TEXT, "add_special": false, "parse_special": true,
/// "with_pieces": false}, and appends the answer {"tokens": [ID, ...]}, or [{"id", "piece"}, ...]
/// with pieces, to `out`. A piece is a text, or a list of bytes where they are no valid UTF-8.
/// Errors: false and `error`, as for api_request_parse(); `out` is as before then.
bool api_tokenize(const api_reader* reader, llm_str body, llm_bytes* out, api_error* error);

/// Reads the body of /detokenize, {"tokens": [ID, ...]}, and appends the answer {"content": TEXT}
/// to `out`.
/// Errors: false and `error`, as for api_request_parse(); `out` is as before then.
bool api_detokenize(const api_reader* reader, llm_str body, llm_bytes* out, api_error* error);

#endif // BERTH_SAMPLES_SERVE_API_REQUEST_H
