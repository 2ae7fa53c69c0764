// SPDX-License-Identifier: Apache-2.0
// Answers in the form of OpenAI's interface: whole objects, and the events of a stream.
//
// Every function appends to `out` and returns false if memory is short; `out` is as before then.
#ifndef BERTH_SAMPLES_SERVE_API_ANSWER_H
#define BERTH_SAMPLES_SERVE_API_ANSWER_H

#include "api_request.h"

/// A token and the natural logarithm of its probability.
typedef struct api_logprob {
    int32_t id;
    float logprob;
} api_logprob;

/// A token of an answer.
typedef struct api_token {
    api_logprob chosen;
    size_t text_offset; ///< characters of the answer's text before it
    size_t text_end;    ///< bytes of the answer's text that could be shown once it had come
    size_t top_first;   ///< of the answer's list of alternatives
    uint32_t top_count;
} api_token;

/// Tokens of an answer, as many as there are log probabilities to be told.
typedef struct api_token_list {
    const api_token* tokens; ///< [count]
    size_t count;
    const api_logprob* top; ///< the answer's alternatives, likeliest first
} api_token_list;

/// Why an answer ended, in the words of the interface.
typedef enum api_finish {
    API_FINISH_NONE, ///< it has not
    API_FINISH_STOP,
    API_FINISH_LENGTH,
} api_finish;

/// Tokens of a request.
typedef struct api_usage {
    int64_t prompt_tokens;
    int64_t cached_tokens; ///< of them, not computed again
    int64_t answer_tokens; ///< of all answers
} api_usage;

/// What all objects of one answer have in common. Borrowed by every call.
typedef struct api_reply {
    const api_request* request;
    const llm_tokenizer* tokenizer;
    const char* model_name;
    const char* id;    ///< "chatcmpl-..." or "cmpl-..."
    int64_t created;   ///< seconds since 1970
    size_t most_bytes; ///< of a whole object; one that is longer is want of memory; 0: no limit
} api_reply;

/// One answer, or the next piece of one.
typedef struct api_choice {
    size_t index;
    llm_str text;
    api_finish finish;
    api_token_list tokens; ///< used where the request wants log probabilities
} api_choice;

/// Appends the object of a request that does not stream.
bool api_reply_whole(const api_reply* reply,
                     const api_choice* choices,
                     size_t choice_count,
                     const api_usage* usage,
                     llm_bytes* out);

/// Appends the event that begins a choice: of a chat, it says the role; of a completion, it has the
/// prompt if that is echoed, and there is none if it is not.
bool api_reply_begin(const api_reply* reply, size_t index, llm_bytes* out);

/// Appends the event of a piece of a choice; one that ends it has its reason.
bool api_reply_piece(const api_reply* reply, const api_choice* choice, llm_bytes* out);

/// Appends what ends a stream: the usage if the request wants it, then the mark of the end.
bool api_reply_end(const api_reply* reply, const api_usage* usage, llm_bytes* out);

/// Appends an error within a stream as an event, and the mark of the end.
bool api_reply_break(const api_error* error, llm_bytes* out);

/// What a server says of its model and itself, for GET /v1/models and GET /props.
typedef struct api_about {
    const char* model_name;
    int64_t created;        ///< seconds since 1970 of the server's start
    int64_t context_tokens; ///< most tokens of prompt and answer
    int64_t trained_tokens; ///< context that the model was trained for
    int64_t vocab_tokens;
    uint64_t weight_bytes;
    const char* kv_type;    ///< such as "f16"
    const char* chat_style; ///< such as "chatml"; NULL: no frame for conversations
    int64_t slots;          ///< requests that are taken up at a time
    const char* version;    ///< of Berth
} api_about;

/// Appends the list of models: the one that is served.
bool api_models_render(const api_about* about, llm_bytes* out);

/// Appends the one model.
bool api_model_render(const api_about* about, llm_bytes* out);

/// Appends the properties.
bool api_props_render(const api_about* about, llm_bytes* out);

#endif // BERTH_SAMPLES_SERVE_API_ANSWER_H
