// SPDX-License-Identifier: Apache-2.0
// The text of an answer as its tokens come: characters whole, and never a part of a stop string.
#ifndef BERTH_SAMPLES_SERVE_ANSWER_TEXT_H
#define BERTH_SAMPLES_SERVE_ANSWER_TEXT_H

#include "tokenizer.h"

/// The text so far. What may yet become a stop string, or is a part of a character, is held back.
typedef struct answer_text {
    llm_decoder decoder;
    const llm_bytes* stops; ///< [stop_count], valid UTF-8 of at least 1 byte; borrowed
    size_t stop_count;
    llm_bytes text;     ///< all of it, what is held back included
    size_t ready_bytes; ///< of it, that may be shown
    size_t characters;  ///< of it, or more once it was cut at a stop string
    bool has_stopped;   ///< a stop string was found: the text ends before it
} answer_text;

/// Begins an answer that follows a prompt.
void answer_text_init(answer_text* answer,
                      const llm_tokenizer* tokenizer,
                      const llm_bytes* stops,
                      size_t stop_count);

/// Adds a token. After that `has_stopped` says whether it ended the answer, at the first byte of
/// the stop string that begins first; after the end nothing is added. Where the text is cut does
/// not depend on how it comes apart into tokens: as long as a stop string that began earlier may
/// yet be completed, a later one does not end the answer. On failure all is as before.
BERTH_NODISCARD berth_status answer_text_push(answer_text* answer, int32_t id, llm_error* error);

/// Ends the answer: what was held back may be shown, up to a stop string if there is one in it. On
/// failure all is as before.
BERTH_NODISCARD berth_status answer_text_finish(answer_text* answer, llm_error* error);

/// Frees the text.
void answer_text_fini(answer_text* answer);

#endif // BERTH_SAMPLES_SERVE_ANSWER_TEXT_H
