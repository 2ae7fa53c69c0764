// SPDX-License-Identifier: Apache-2.0
// The command line of berth-serve.
#ifndef BERTH_SAMPLES_SERVE_OPTIONS_H
#define BERTH_SAMPLES_SERVE_OPTIONS_H

#include "serve_http.h"
#include "serve_setup.h"

typedef struct serve_options {
    serve_setup_options setup;
    const char* host;
    int64_t port;
    berth_dtype kv_dtype;
    int64_t context_tokens; ///< 0: the model's
    llm_scheduler_options scheduler;
    const char* key_path; ///< NULL: no keys
    uint64_t body_bytes;
    int64_t connections;
    int64_t request_seconds;
    int64_t idle_seconds;
    int64_t first_token_seconds;
    int64_t drain_seconds;
    serve_log log;
} serve_options;

typedef enum serve_parse { SERVE_RUN, SERVE_HELP, SERVE_WRONG } serve_parse;

/// Reads the command line. On SERVE_WRONG a line on stderr has said what is wrong.
serve_parse serve_options_parse(int argc, char** argv, serve_options* out_options);

/// Prints what the options mean.
void serve_options_print_help(void);

#endif // BERTH_SAMPLES_SERVE_OPTIONS_H
