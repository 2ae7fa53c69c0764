// SPDX-License-Identifier: Apache-2.0
// A model ready to be served within one budget of memory.
//
// The budget holds everything: the weights, which stay in their file's pages; what the server
// itself needs on the host; and what Berth gets for frames, pool and KV cache, which share it. On a
// device with memory of its own it is of that memory, which the weights lie in, too; what the
// server needs on the host is beside it.
#ifndef BERTH_SAMPLES_SERVE_SERVE_SETUP_H
#define BERTH_SAMPLES_SERVE_SERVE_SETUP_H

#include "chat.h"
#include "model.h"
#include "serve_metrics.h"

/// What to serve, and within what.
typedef struct serve_setup_options {
    const char* model_path; ///< NULL: random weights
    bool is_tiny;           ///< of the random weights: a few kilobytes
    const char* model_name; ///< NULL: after the file
    uint64_t memory_bytes;  ///< for everything; 0: 4 GiB, or half of the machine's if that is less
    uint64_t bounded_bytes; ///< of it, what clients can make the server hold (SH2)
    const char* threads;    ///< that compute; NULL: as the environment says
    const char* device;     ///< likewise
    const char* plan_cache; ///< NULL: as the environment says
} serve_setup_options;

/// A model and all that it needs. All zero is none.
typedef struct serve_setup {
    void* random_file;
    llm_gguf* gguf;
    llm_tokenizer* tokenizer;
    llm_chat chat;
    bool has_chat; ///< the model has a frame for conversations
    size_t most_token_bytes;
    berth_runtime* runtime;
    berth_context* context;
    llm_model* model;
    serve_budget budget; ///< but for what depends on the cache
    char model_name[128];
} serve_setup;

/// Opens the model.
/// Ownership: the caller gives `*out_setup` to serve_setup_close(), also after an error.
/// Errors:    of the file; BERTH_ERR_OUT_OF_MEMORY says how a budget that is too small would have
///            been spent.
BERTH_NODISCARD berth_status serve_setup_open(const serve_setup_options* options,
                                              serve_setup* out_setup,
                                              llm_error* error);

/// Takes everything down, and has Berth save its plans.
void serve_setup_close(serve_setup* setup);

/// The budget that a server has if nobody says more.
uint64_t serve_default_memory(void);

#endif // BERTH_SAMPLES_SERVE_SERVE_SETUP_H
