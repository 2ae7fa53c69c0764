// SPDX-License-Identifier: Apache-2.0
// Text that is composed piece by piece in a buffer of fixed size.
#ifndef BERTH_BASE_TEXT_H
#define BERTH_BASE_TEXT_H

#include "berth/status.h"

/// A text that is cut to its buffer and knows its whole length.
typedef struct berth_text {
    char* buffer;  ///< [size], ended by a zero byte; may be NULL if size is 0
    size_t size;   ///< bytes
    size_t length; ///< of the whole text, without the zero byte; 0 at first
} berth_text;

/// Adds to the end what printf would write.
void berth_text_add(berth_text* text, const char* format, ...) BERTH_PRINTF(2, 3);

#endif // BERTH_BASE_TEXT_H
