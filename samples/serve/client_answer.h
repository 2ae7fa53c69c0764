// SPDX-License-Identifier: Apache-2.0
// Requests of OpenAI's interface as a client writes them, and the objects of answers as it reads
// them.
#ifndef BERTH_SAMPLES_SERVE_CLIENT_ANSWER_H
#define BERTH_SAMPLES_SERVE_CLIENT_ANSWER_H

#include "llm_support.h"

/// What is asked of a model.
typedef struct client_ask {
    bool is_chat;      ///< a conversation of one message, else a text to be continued
    const char* model; ///< NULL: the server's
    const char* user;  ///< whose request it is; NULL: not said
    llm_str prompt;    ///< valid UTF-8, as are model and user
    int64_t max_tokens;
    double temperature;
    bool ignores_eos; ///< the answer has max_tokens, whatever the model says
    bool streams;     ///< as events, with the usage at the end
} client_ask;

/// The path that `ask` is for.
const char* client_ask_path(const client_ask* ask);

/// Appends the body that asks.
/// Errors: BERTH_ERR_INVALID_ARGUMENT for text that is no UTF-8, BERTH_ERR_OUT_OF_MEMORY; `out` is
///         as before then.
BERTH_NODISCARD berth_status client_ask_write(const client_ask* ask,
                                              llm_bytes* out,
                                              llm_error* error);

/// Tokens as the server counts them; -1 where it does not say.
typedef struct client_usage {
    int64_t prompt_tokens;
    int64_t cached_tokens; ///< of them, not computed again
    int64_t answer_tokens;
} client_usage;

/// The usage of a server that has said nothing.
client_usage client_usage_unknown(void);

/// Called with a piece of an answer's text, of at least 1 byte.
typedef void (*client_text_fn)(void* user, llm_str text);

/// Reads an object of an answer, whole or a piece of one: its text goes to on_text(), which may be
/// NULL, and the usage, if it has one, to `usage`.
/// Errors: BERTH_ERR_CORRUPT for what is no object of JSON, BERTH_ERR_IO for an error that the
///         server tells, BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status client_answer_read(
    llm_str json, client_text_fn on_text, void* user, client_usage* usage, llm_error* error);

/// Reads the answer to GET /v1/models: the first model's name goes behind `out_name`, terminated.
/// Errors: as client_answer_read(), and BERTH_ERR_NOT_FOUND if there is no model.
BERTH_NODISCARD berth_status client_models_read(llm_str json,
                                                llm_bytes* out_name,
                                                llm_error* error);

/// Writes what the body of a refusal says into `out`, printable: the message of an error object, or
/// else the body's beginning.
void client_refusal_read(llm_str body, char* out, size_t out_size);

#endif // BERTH_SAMPLES_SERVE_CLIENT_ANSWER_H
