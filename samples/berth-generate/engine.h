// SPDX-License-Identifier: Apache-2.0
// A runtime with a model on it, ready to answer.
#ifndef BERTH_SAMPLES_ENGINE_H
#define BERTH_SAMPLES_ENGINE_H

#include "generate_options.h"
#include "generate_report.h"

typedef struct engine {
    berth_runtime* runtime;
    berth_context* context;
    llm_model* model;
    llm_session* session;
} engine;

/// Sets a runtime up with its model. `mode` is a value of BERTH_MODE, or NULL for what the
/// environment says.
/// Ownership: the caller gives the engine to engine_close(), also after an error. `gguf` outlives
/// it.
BERTH_NODISCARD berth_status engine_open(const generate_options* options,
                                         const char* mode,
                                         const llm_gguf* gguf,
                                         engine* out_engine,
                                         llm_error* error);

/// Takes everything down.
void engine_close(engine* self);

#endif // BERTH_SAMPLES_ENGINE_H
