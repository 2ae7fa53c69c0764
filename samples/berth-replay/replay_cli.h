// SPDX-License-Identifier: Apache-2.0
// The command line of berth-replay.
#ifndef BERTH_SAMPLES_REPLAY_CLI_H
#define BERTH_SAMPLES_REPLAY_CLI_H

#include "replay_engine.h"
#include "trace_make.h"

typedef struct replay_cli {
    llm_replay_setup setup; ///< its trace and row count are filled in when the trace is read
    const char* trace_path; ///< NULL: made by `recipe`
    bool makes;
    llm_trace_recipe recipe;
    const char* write_path; ///< where the made trace goes; then nothing is replayed
    size_t requests;        ///< most to replay; 0: all
    bool has_speed;         ///< else 1, or as fast as possible where there are no arrivals
    const char* mode;
    bool compares;
    bool calibrates;
    const char* json_path;
    const char* url;      ///< of the server that serves the trace; NULL: this process does
    const char* key_path; ///< file of an API key; NULL: none
    size_t concurrency;   ///< most requests at a time; 0: what suits the speed
} replay_cli;

typedef enum replay_parse { REPLAY_RUN, REPLAY_HELP, REPLAY_WRONG } replay_parse;

/// Reads the command line. On REPLAY_WRONG a line on stderr has said what is wrong.
replay_parse replay_cli_parse(int argc, char** argv, replay_cli* out_cli);

/// Prints what the options mean.
void replay_cli_print_help(void);

#endif // BERTH_SAMPLES_REPLAY_CLI_H
