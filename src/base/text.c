// SPDX-License-Identifier: Apache-2.0
// Text in pieces, over the C library's formatting.
#include "base/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void berth_text_add(berth_text* text, const char* format, ...) {
    const bool has_room = text->length < text->size;
    va_list arguments;
    va_start(arguments, format);
    const int added = vsnprintf(has_room ? text->buffer + text->length : NULL,
                                has_room ? text->size - text->length : 0,
                                format,
                                arguments);
    va_end(arguments);
    if (added > 0) text->length += (size_t)added;
}
