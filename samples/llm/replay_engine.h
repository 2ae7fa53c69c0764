// SPDX-License-Identifier: Apache-2.0
// A replay with all that it runs on: a model, a runtime in a mode, and both taken down again.
#ifndef BERTH_SAMPLES_LLM_REPLAY_ENGINE_H
#define BERTH_SAMPLES_LLM_REPLAY_ENGINE_H

#include "model_shape.h"
#include "replay.h"

/// What to replay on. Texts are borrowed.
typedef struct llm_replay_setup {
    const char* model_path; ///< GGUF file; NULL: random weights, or `shape`
    bool random_tiny;       ///< random weights of the size that tests use
    bool has_shape;         ///< sizes without weights: simulations only
    llm_shape shape;
    const char* memory;  ///< most for tensors and cache, as BERTH_MEMORY; NULL: Berth's default
    const char* threads; ///< NULL: Berth's default
    const char* device;  ///< NULL: Berth's default; a simulation has its own
    berth_dtype kv_dtype;
    int64_t block_tokens; ///< 0: 16
    uint64_t park_bytes;
    berth_kv_eviction eviction;
    llm_replay_options replay; ///< but for `kv`, which is made from the above
} llm_replay_setup;

/// Replays in a runtime of its own. `mode` is a value of BERTH_MODE; NULL: what the environment
/// says. A simulation runs on the dry device, without what depends on real time: no compaction, no
/// search for tighter plans, idle memory does not age, parked requests are dropped.
/// Errors: those of loading the model and of llm_replay().
BERTH_NODISCARD berth_status llm_replay_in_mode(const llm_replay_setup* setup,
                                                const char* mode,
                                                llm_replay_report* out_report,
                                                llm_error* error);

/// Measures what a step of the model costs on this machine, from three loads that differ in kind.
/// Errors: as of llm_replay_in_mode().
BERTH_NODISCARD berth_status llm_replay_calibrate(const llm_replay_setup* setup,
                                                  llm_step_cost* out_cost,
                                                  llm_error* error);

#endif // BERTH_SAMPLES_LLM_REPLAY_ENGINE_H
