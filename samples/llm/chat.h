// SPDX-License-Identifier: Apache-2.0
// Conversations as token ids, framed the way the model was trained.
//
// The template in the model file is recognised, not run. Control tokens of the frame are put in as
// ids and everything a message holds is plain text, so that no message can leave its frame.
#ifndef BERTH_SAMPLES_LLM_CHAT_H
#define BERTH_SAMPLES_LLM_CHAT_H

#include "tokenizer.h"

/// Frames that are known.
typedef enum llm_chat_style {
    LLM_CHAT_CHATML, ///< <|im_start|>role, new line, content, <|im_end|>, new line
    LLM_CHAT_LLAMA3, ///< headers between <|start_header_id|> and <|end_header_id|>, then <|eot_id|>
} llm_chat_style;

/// One message. The role is "system", "user" or "assistant" by custom.
typedef struct llm_chat_message {
    llm_str role;
    llm_str content;
} llm_chat_message;

/// How this model wants its conversations. Plain data; nothing to free.
typedef struct llm_chat {
    const llm_tokenizer* tokenizer; ///< borrowed, outlives the chat
    llm_chat_style style;
    llm_str default_system; ///< put before a conversation without a system message; may be empty
    bool trims_content;     ///< white space at the ends of contents is dropped
    int32_t text_begin;     ///< before the first message, or -1
    int32_t message_begin;
    int32_t header_end; ///< after the role, or -1
    int32_t message_end;
} llm_chat;

/// The word for a style, such as "chatml".
const char* llm_chat_style_name(llm_chat_style style);

/// Finds out how a model wants its conversations. A template that is not known, or none, counts as
/// ChatML when the vocabulary has its tokens.
/// Errors: BERTH_ERR_UNSUPPORTED when there is no frame for this model; then it can only continue
///         plain text.
BERTH_NODISCARD berth_status llm_chat_init(llm_chat* chat,
                                           const llm_gguf* gguf,
                                           const llm_tokenizer* tokenizer,
                                           llm_error* error);

/// Appends the tokens of a conversation.
///
/// With `asks_answer` it ends where the assistant's answer begins. `is_first` says that the
/// messages begin the conversation: only then come the token that begins a text and the default
/// system message. A later part appended to an answer passes false, after the answer's message end.
/// Errors: BERTH_ERR_INVALID_ARGUMENT for an empty role, BERTH_ERR_OUT_OF_MEMORY; then `tokens` is
///         as before.
BERTH_NODISCARD berth_status llm_chat_render(const llm_chat* chat,
                                             const llm_chat_message* messages,
                                             size_t count,
                                             bool is_first,
                                             bool asks_answer,
                                             llm_tokens* tokens,
                                             llm_error* error);

#endif // BERTH_SAMPLES_LLM_CHAT_H
