// SPDX-License-Identifier: Apache-2.0
// The error detail of each thread, in a fixed buffer so that reporting a failure cannot fail.
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "berth/op.h"

#define DETAIL_BYTES 1024

static _Thread_local char detail[DETAIL_BYTES];

static void set_detail(const char* format, va_list arguments) BERTH_PRINTF(1, 0);

static void set_detail(const char* format, va_list arguments) {
    // Through a second buffer: an argument may be the old text.
    char text[DETAIL_BYTES];
    if (vsnprintf(text, sizeof text, format, arguments) < 0) text[0] = '\0';
    memcpy(detail, text, sizeof detail);
}

berth_status berth_fail(berth_status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_detail(format, arguments);
    va_end(arguments);
    return status;
}

berth_status berth_fail_prefix(berth_status status, const char* format, ...) {
    char text[DETAIL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : (size_t)length;
    if (used > sizeof text - 1) used = sizeof text - 1;
    // Not by snprintf: cutting is intended here, and compilers warn of it.
    const char* const parts[] = {": ", detail};
    for (size_t part = 0; part < 2; part++) {
        for (const char* from = parts[part]; *from != '\0' && used < sizeof text - 1; from++)
            text[used++] = *from;
    }
    text[used] = '\0';
    memcpy(detail, text, sizeof detail);
    return status;
}

berth_status berth_op_fail(berth_status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    set_detail(format, arguments);
    va_end(arguments);
    return status;
}

const char* berth_last_error(void) { return detail; }

void berth_error_clear(void) { detail[0] = '\0'; }

_Noreturn void berth_check_failed(const char* condition, const char* file, int line) {
    (void)fprintf(stderr, "berth: broken invariant: %s (%s:%d)\n", condition, file, line);
    abort();
}
