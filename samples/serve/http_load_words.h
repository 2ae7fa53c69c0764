// SPDX-License-Identifier: Apache-2.0
// Common English words, of which the byte-pair vocabularies of language models have one token each
// behind a space: so many of them are a prompt of about so many tokens, whatever the model.
#ifndef BERTH_SAMPLES_SERVE_HTTP_LOAD_WORDS_H
#define BERTH_SAMPLES_SERVE_HTTP_LOAD_WORDS_H

#include "llm_support.h"

enum { HTTP_LOAD_WORDS = 256 }; ///< that there are, each another

/// Word number `index` modulo their number.
const char* http_load_word(uint32_t index);

/// Appends the words `ids` [count], with a space between two.
/// Errors: BERTH_ERR_OUT_OF_MEMORY; `out` is as before then.
BERTH_NODISCARD berth_status http_load_write_words(const int32_t* ids,
                                                   size_t count,
                                                   llm_bytes* out,
                                                   llm_error* error);

#endif // BERTH_SAMPLES_SERVE_HTTP_LOAD_WORDS_H
