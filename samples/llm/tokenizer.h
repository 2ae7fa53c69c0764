// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, for the two kinds of tokenizer that GGUF files of the llama family
// carry: byte-level BPE ("gpt2") and SentencePiece-style BPE ("llama").
#ifndef BERTH_SAMPLES_LLM_TOKENIZER_H
#define BERTH_SAMPLES_LLM_TOKENIZER_H

#include "gguf.h"

typedef struct llm_tokenizer llm_tokenizer;

/// Kinds of tokens, as numbered in model files.
typedef enum llm_token_kind {
    LLM_TOKEN_NORMAL = 1,
    LLM_TOKEN_UNKNOWN = 2,
    LLM_TOKEN_CONTROL = 3,
    LLM_TOKEN_USER_DEFINED = 4,
    LLM_TOKEN_UNUSED = 5,
    LLM_TOKEN_BYTE = 6,
} llm_token_kind;

/// How llm_tokenizer_encode treats its text.
typedef enum llm_encode_flags {
    LLM_ENCODE_PLAIN = 0,
    /// Put the begin and end tokens that the model file asks for.
    LLM_ENCODE_ADD_SPECIAL = 1,
    /// Spellings of control tokens in the text become these tokens. Without it they are plain text:
    /// what a user types cannot forge the frame of a conversation.
    LLM_ENCODE_PARSE_SPECIAL = 2,
} llm_encode_flags;

/// Reads the vocabulary of an open model. `gguf` outlives the result, which points into it.
/// Ownership: the caller gives `*out_tokenizer` to llm_tokenizer_destroy().
/// Errors:    BERTH_ERR_NOT_FOUND and BERTH_ERR_CORRUPT name the key; BERTH_ERR_UNSUPPORTED names
///            a tokenizer model or pre-tokenizer that is unknown; BERTH_ERR_OUT_OF_MEMORY.
/// Threads:   the result is never changed and may be shared.
BERTH_NODISCARD berth_status llm_tokenizer_create(const llm_gguf* gguf,
                                                  llm_tokenizer** out_tokenizer,
                                                  llm_error* error);

/// Frees the tokenizer; NULL is allowed.
void llm_tokenizer_destroy(llm_tokenizer* tokenizer);

/// The number of tokens; ids are below it.
size_t llm_tokenizer_token_count(const llm_tokenizer* tokenizer);

/// Returns the id of the control or user-defined token spelled `text`, or -1.
int32_t llm_tokenizer_find_special(const llm_tokenizer* tokenizer, const char* text);

/// True for ids at which generation ends: the end tokens that the file names, and the control
/// tokens that are known to end a turn or a text whatever the file says.
bool llm_tokenizer_is_stop(const llm_tokenizer* tokenizer, int32_t id);

/// Returns the token's spelling in the model file; empty for ids that are none.
llm_str llm_tokenizer_spelling(const llm_tokenizer* tokenizer, int32_t id);

/// Returns the bytes that the token stands for in a text: part of a character perhaps, and nothing
/// for control and unknown tokens and for ids that are none.
llm_str llm_tokenizer_bytes(const llm_tokenizer* tokenizer, int32_t id);

/// Appends the tokens of `text` to `tokens`.
///
/// Any bytes are accepted. Bytes that are no valid UTF-8 are tokenized one by one; a byte without a
/// token becomes the unknown token, or nothing where that is a control token. `flags` is a sum of
/// llm_encode_flags.
/// Errors: BERTH_ERR_INVALID_ARGUMENT for texts of 2^30 bytes or more, BERTH_ERR_OUT_OF_MEMORY.
///         Then `tokens` is as before.
/// Cost:   O(n log n) for any text.
BERTH_NODISCARD berth_status llm_tokenizer_encode(const llm_tokenizer* tokenizer,
                                                  llm_str text,
                                                  unsigned flags,
                                                  llm_tokens* tokens,
                                                  llm_error* error);

/// Appends the text of `count` ids to `text`, as a decoder at the start of a text gives it.
BERTH_NODISCARD berth_status llm_tokenizer_decode(const llm_tokenizer* tokenizer,
                                                  const int32_t* ids,
                                                  size_t count,
                                                  llm_bytes* text,
                                                  llm_error* error);

/// Turns a stream of ids into text that is valid UTF-8 after every push: the bytes of an unfinished
/// character are held back, damaged ones become U+FFFD.
typedef struct llm_decoder {
    const llm_tokenizer* tokenizer; ///< borrowed, outlives the decoder
    bool drops_space;               ///< the next text byte, if a space, is the prefix of encoding
    uint8_t held;
    char bytes[4];
} llm_decoder;

/// Starts a stream. `at_text_start` is false when the ids continue a text: then the space that
/// SentencePiece puts before a text is not taken away.
void llm_decoder_init(llm_decoder* decoder, const llm_tokenizer* tokenizer, bool at_text_start);

/// Appends to `text` what is complete with this id. On failure decoder and text are as before.
BERTH_NODISCARD berth_status llm_decoder_push(llm_decoder* decoder,
                                              int32_t id,
                                              llm_bytes* text,
                                              llm_error* error);

/// Ends the stream: what is held back is appended as one U+FFFD.
BERTH_NODISCARD berth_status llm_decoder_finish(llm_decoder* decoder,
                                                llm_bytes* text,
                                                llm_error* error);

#endif // BERTH_SAMPLES_LLM_TOKENIZER_H
