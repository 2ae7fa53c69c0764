// SPDX-License-Identifier: Apache-2.0
// What is wrong with a request, as clients of OpenAI's interface are told.
#ifndef BERTH_SAMPLES_SERVE_API_ERROR_H
#define BERTH_SAMPLES_SERVE_API_ERROR_H

#include "llm_support.h"

// clang-format off
/// Errors: X(ID, HTTP status, type, code or NULL). Type and code are members of the error object.
#define API_ERROR_MAP(X)                                                                           \
    X(INVALID,          400, "invalid_request_error", NULL)                                        \
    X(CONTEXT_LENGTH,   400, "invalid_request_error", "context_length_exceeded")                   \
    X(UNAUTHORIZED,     401, "authentication_error",  "invalid_api_key")                           \
    X(NOT_FOUND,        404, "invalid_request_error", "not_found")                                 \
    X(MODEL_NOT_FOUND,  404, "invalid_request_error", "model_not_found")                           \
    X(METHOD,           405, "invalid_request_error", "method_not_allowed")                        \
    X(REQUEST_TIMEOUT,  408, "invalid_request_error", "request_timeout")                           \
    X(TOO_LARGE,        413, "invalid_request_error", "request_too_large")                         \
    X(MEDIA_TYPE,       415, "invalid_request_error", "unsupported_media_type")                    \
    X(RATE_LIMIT,       429, "rate_limit_error",      "rate_limit_exceeded")                       \
    X(SERVER,           500, "server_error",          NULL)                                        \
    X(OUT_OF_MEMORY,    503, "server_error",          "out_of_memory")                             \
    X(OVERLOADED,       503, "server_error",          "overloaded")                                \
    X(SHUTTING_DOWN,    503, "server_error",          "shutting_down")
// clang-format on

/// Kinds of errors.
typedef enum api_error_kind {
    API_ERROR_NONE, ///< all is well
#define API_ERROR_ENUM(id, status, type, code) API_ERROR_##id,
    API_ERROR_MAP(API_ERROR_ENUM)
#undef API_ERROR_ENUM
        API_ERROR_COUNT, ///< number of kinds, none included
} api_error_kind;

/// One error.
typedef struct api_error {
    api_error_kind kind;
    char param[64];     ///< the member of the request that is wrong, "" for none
    char message[1600]; ///< a sentence, valid UTF-8
} api_error;

/// Fills in `error`, and returns false so that a failing function can end with it. `param` may be
/// NULL. Text that does not fit is cut; what is no valid UTF-8 becomes '?'.
bool api_fail(api_error* error, api_error_kind kind, const char* param, const char* format, ...)
    BERTH_PRINTF(4, 5);

/// Puts '?' for every byte of a text that is part of no character.
void api_mend_utf8(char* text);

/// The HTTP status of an error; 200 for none.
unsigned api_error_status(api_error_kind kind);

/// Appends the error as the JSON object {"error": {"message", "type", "param", "code"}}. False if
/// memory is short; `out` is as before then.
bool api_error_render(const api_error* error, llm_bytes* out);

#endif // BERTH_SAMPLES_SERVE_API_ERROR_H
