// SPDX-License-Identifier: Apache-2.0
// Reading UTF-8 that may be damaged, and the classes of characters that pre-tokenizers ask for.
#ifndef BERTH_SAMPLES_LLM_UNICODE_H
#define BERTH_SAMPLES_LLM_UNICODE_H

#include "llm_support.h"

/// Classes as in regular expressions: \p{L}, \p{N}, \s and everything else.
typedef enum llm_char_class {
    LLM_CHAR_OTHER,
    LLM_CHAR_LETTER,
    LLM_CHAR_NUMBER,
    LLM_CHAR_SPACE,
} llm_char_class;

/// One character of a text. A byte that begins no valid sequence is a character of one byte, class
/// other and code LLM_CHAR_INVALID, so that no text is refused and none loses a byte.
typedef struct llm_char {
    int32_t code;
    uint32_t size; ///< bytes, 1 to 4
    llm_char_class kind;
} llm_char;

enum { LLM_CHAR_INVALID = -1 };

/// Reads the character at `at`, which is below `text.size`. Overlong forms, surrogates and codes
/// above U+10FFFF are invalid.
llm_char llm_char_read(llm_str text, size_t at);

/// What the first bytes of `text` are worth.
typedef enum llm_utf8_state {
    LLM_UTF8_COMPLETE, ///< begin with a whole valid character
    LLM_UTF8_PARTIAL,  ///< all of `text` may be the beginning of one
    LLM_UTF8_BROKEN,   ///< no continuation can make them valid
} llm_utf8_state;

/// Judges the beginning of a text of at least one byte. `out_size` receives the bytes of the
/// character, or how many of them go together as one damaged character.
llm_utf8_state llm_utf8_examine(llm_str text, size_t* out_size);

#endif // BERTH_SAMPLES_LLM_UNICODE_H
