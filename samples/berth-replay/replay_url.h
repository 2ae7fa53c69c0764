// SPDX-License-Identifier: Apache-2.0
// Replays by a server with OpenAI's interface.
#ifndef BERTH_SAMPLES_REPLAY_URL_H
#define BERTH_SAMPLES_REPLAY_URL_H

#include "http_load_trace.h"
#include "replay_cli.h"

/// Has the server at the command line's URL serve the trace. What fails for one request is in the
/// report; it is an error if no request reached the server.
BERTH_NODISCARD berth_status replay_url(const replay_cli* cli,
                                        http_load_report* out_report,
                                        llm_error* error);

#endif // BERTH_SAMPLES_REPLAY_URL_H
