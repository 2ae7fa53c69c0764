// SPDX-License-Identifier: Apache-2.0
// Setting a runtime up and taking it down.
#include "engine.h"

static berth_status create_runtime(const generate_options* options,
                                   const char* mode,
                                   berth_runtime** out_runtime,
                                   llm_error* error) {
    berth_option_setting settings[4];
    size_t count = 0;
    if (options->threads != NULL)
        settings[count++] = (berth_option_setting){"threads", options->threads};
    if (options->device != NULL)
        settings[count++] = (berth_option_setting){"device", options->device};
    if (options->memory != NULL)
        settings[count++] = (berth_option_setting){"memory", options->memory};
    if (mode != NULL) settings[count++] = (berth_option_setting){"mode", mode};
    berth_runtime_options runtime_options = {
        .struct_size = sizeof runtime_options, .settings = settings, .setting_count = count};
    berth_status status = berth_runtime_create(&runtime_options, out_runtime);
    if (status != BERTH_OK) llm_fail(error, status, "%s", berth_last_error());
    return status;
}

berth_status engine_open(const generate_options* options,
                         const char* mode,
                         const llm_gguf* gguf,
                         engine* out_engine,
                         llm_error* error) {
    *out_engine = (engine){0};
    berth_status status = create_runtime(options, mode, &out_engine->runtime, error);
    if (status != BERTH_OK) return status;
    status = berth_context_create(out_engine->runtime, &out_engine->context);
    if (status != BERTH_OK) return llm_fail(error, status, "%s", berth_last_error());
    status = llm_model_create(out_engine->context, gguf, &out_engine->model, error);
    if (status != BERTH_OK) return status;
    llm_session_options session = {.context_tokens = options->context_tokens,
                                   .chunk_tokens = options->chunk_tokens,
                                   .kv_dtype = options->kv_dtype,
                                   .watch_hits = options->report || options->json_path != NULL};
    return llm_session_create(out_engine->model, &session, &out_engine->session, error);
}

void engine_close(engine* self) {
    llm_session_destroy(self->session);
    llm_model_destroy(self->model);
    berth_context_release(self->context);
    berth_runtime_release(self->runtime);
    self->session = NULL;
    self->model = NULL;
    self->context = NULL;
    self->runtime = NULL;
}
