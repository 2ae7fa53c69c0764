// SPDX-License-Identifier: Apache-2.0
// Shared by the files that read requests.
#ifndef BERTH_SAMPLES_SERVE_API_REQUEST_INTERNAL_H
#define BERTH_SAMPLES_SERVE_API_REQUEST_INTERNAL_H

#include "api_json.h"
#include "api_request.h"

/// The name of a value within others, such as "messages[3].content"; cut if it is longer.
typedef struct api_place {
    char text[64];
} api_place;

/// Makes such a name.
api_place api_place_of(const char* format, ...) BERTH_PRINTF(1, 2);

/// True for a value that leaves things as they are: missing, null, false, 0 or nothing in it.
bool api_asks_nothing(const json_t* value);

/// Reads the prompts of a request, whose endpoint, `n` and `echoes` are known: `prompts`,
/// `prompt_count` and `prompt_texts`.
bool api_prompts_read(const api_reader* reader,
                      const json_t* body,
                      api_request* request,
                      api_error* error);

/// Appends the token ids of a list that is called `param` to `tokens`.
bool api_ids_read(const api_reader* reader,
                  const json_t* list,
                  const char* param,
                  llm_tokens* tokens,
                  api_error* error);

#endif // BERTH_SAMPLES_SERVE_API_REQUEST_INTERNAL_H
