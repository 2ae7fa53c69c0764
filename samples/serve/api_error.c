// SPDX-License-Identifier: Apache-2.0
// Errors of the interface as text.
#include "api_error.h"

#include "api_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

typedef struct description {
    unsigned status;
    const char* type;
    const char* code;
} description;

static const description descriptions[API_ERROR_COUNT] = {[API_ERROR_NONE] = {200, "", NULL},
#define API_ERROR_DESCRIPTION(id, status, type, code) [API_ERROR_##id] = {status, type, code},
                                                          API_ERROR_MAP(API_ERROR_DESCRIPTION)
#undef API_ERROR_DESCRIPTION
};

void api_mend_utf8(char* text) {
    utf8proc_uint8_t* at = (utf8proc_uint8_t*)text;
    while (*at != '\0') {
        utf8proc_int32_t point;
        utf8proc_ssize_t size = utf8proc_iterate(at, -1, &point);
        if (size < 1) *at = '?';
        at += size < 1 ? 1 : size;
    }
}

bool api_fail(api_error* error, api_error_kind kind, const char* param, const char* format, ...) {
    *error = (api_error){.kind = kind};
    snprintf(error->param, sizeof error->param, "%s", param == NULL ? "" : param);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    api_mend_utf8(error->param);
    api_mend_utf8(error->message);
    return false;
}

unsigned api_error_status(api_error_kind kind) { return descriptions[kind].status; }

bool api_error_render(const api_error* error, llm_bytes* out) {
    const description* said = &descriptions[error->kind];
    const char* param = error->param[0] == '\0' ? NULL : error->param;
    json_t* object = json_pack("{s:{s:s, s:s, s:s?, s:s?}}",
                               "error",
                               "message",
                               error->message,
                               "type",
                               said->type,
                               "param",
                               param,
                               "code",
                               said->code);
    return api_json_append(object, out);
}
