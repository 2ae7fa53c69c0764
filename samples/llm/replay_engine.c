// SPDX-License-Identifier: Apache-2.0
// Setting a replay up and taking it down.
#include "replay_engine.h"

#include "gguf_random.h"
#include "llm_clock.h"

#include <stdio.h>
#include <string.h>

typedef struct engine {
    void* random_file;
    llm_gguf* gguf;
    berth_runtime* runtime;
    berth_context* context;
    llm_model* model;
} engine;

static void engine_close(engine* e) {
    llm_model_destroy(e->model);
    berth_context_release(e->context);
    berth_runtime_release(e->runtime);
    llm_gguf_close(e->gguf);
    llm_gguf_writer_release(e->random_file);
}

static berth_status open_runtime(const llm_replay_setup* setup,
                                 const char* mode,
                                 engine* e,
                                 llm_error* error) {
    berth_option_setting settings[8];
    size_t count = 0;
    if (setup->memory != NULL) settings[count++] = (berth_option_setting){"memory", setup->memory};
    if (setup->threads != NULL)
        settings[count++] = (berth_option_setting){"threads", setup->threads};
    if (setup->device != NULL && !setup->replay.simulates)
        settings[count++] = (berth_option_setting){"device", setup->device};
    if (mode != NULL) settings[count++] = (berth_option_setting){"mode", mode};
    if (setup->replay.simulates) {
        settings[count++] = (berth_option_setting){"device", "dry"};
        settings[count++] = (berth_option_setting){"compact", "off"};
        settings[count++] = (berth_option_setting){"plan_budget_ms", "0"};
        settings[count++] = (berth_option_setting){"decay_ms", "unlimited"};
    }
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = count};
    berth_status status = berth_runtime_create(&options, &e->runtime);
    if (status == BERTH_OK) status = berth_context_create(e->runtime, &e->context);
    if (status != BERTH_OK) llm_fail(error, status, "%s", berth_last_error());
    return status;
}

static berth_status open_file(const llm_replay_setup* setup, engine* e, llm_error* error) {
    if (setup->model_path != NULL) return llm_gguf_open(setup->model_path, true, &e->gguf, error);
    const llm_random_spec spec =
        setup->random_tiny ? llm_random_spec_tiny(1) : llm_random_spec_smollm2(1);
    size_t size;
    berth_status status = llm_random_model(&spec, &e->random_file, &size, error);
    if (status != BERTH_OK) return status;
    return llm_gguf_open_memory(e->random_file, size, &e->gguf, error);
}

static berth_status open_model(const llm_replay_setup* setup, engine* e, llm_error* error) {
    if (setup->has_shape)
        return llm_model_create_shape(e->context, &setup->shape, &e->model, error);
    berth_status status = open_file(setup, e, error);
    if (status != BERTH_OK) return status;
    return llm_model_create(e->context, e->gguf, &e->model, error);
}

static berth_status engine_open(const llm_replay_setup* setup,
                                const char* mode,
                                engine* e,
                                llm_error* error) {
    berth_status status = open_runtime(setup, mode, e, error);
    return status == BERTH_OK ? open_model(setup, e, error) : status;
}

/// Bytes that a line of /proc/self/status has; 0 if it cannot be read.
static uint64_t read_process_bytes(const char* field) {
    FILE* file = fopen("/proc/self/status", "r");
    if (file == NULL) return 0;
    char line[256];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            (void)sscanf(line + strlen(field), "%llu", &kib);
    fclose(file);
    return (uint64_t)kib * 1024;
}

/// Has the system forget the most that this process has used, so that it says the most from now.
static void forget_peak(void) {
    FILE* file = fopen("/proc/self/clear_refs", "w");
    if (file == NULL) return;
    fputs("5\n", file);
    fclose(file);
}

berth_status llm_replay_in_mode(const llm_replay_setup* setup,
                                const char* mode,
                                llm_replay_report* out_report,
                                llm_error* error) {
    *out_report = (llm_replay_report){0};
    engine e = {0};
    berth_status status = engine_open(setup, mode, &e, error);
    if (status == BERTH_OK) {
        llm_replay_options options = setup->replay;
        options.kv = llm_model_kv_options(e.model, setup->kv_dtype);
        options.kv.block_tokens = setup->block_tokens;
        options.kv.eviction = setup->eviction;
        options.kv.park_bytes = setup->park_bytes;
        if (options.simulates) options.scheduler.parking = BERTH_KV_PARK_DROP;
        forget_peak();
        const uint64_t before = read_process_bytes("RssAnon:");
        status = llm_replay(e.model, &options, out_report, error);
        // what the system's allocator has is in no account of Berth's: ask the system
        if (status == BERTH_OK && mode != NULL && strcmp(mode, "system") == 0) {
            const uint64_t most = read_process_bytes("VmHWM:");
            const uint64_t rest = read_process_bytes("RssFile:") + before;
            out_report->peak_bytes = most > rest ? most - rest : 0;
        }
    }
    engine_close(&e);
    return status;
}

// ---- What a step costs.

/// Requests of a kind, all at once.
typedef struct load {
    int64_t prompt;
    int64_t requests;
    int64_t answer;
} load;

/// What a load came to.
typedef struct tally {
    double steps;
    double tokens;
    double keys;
} tally;

static void add_step(void* user, const llm_step_summary* step) {
    tally* t = user;
    t->steps += 1.0;
    t->tokens += (double)step->tokens;
    t->keys += (double)step->key_tokens;
}

/// Serves a load, and says what it came to and how long it took.
static berth_status run_load(const engine* e,
                             const llm_replay_setup* setup,
                             const load* asked,
                             tally* out_tally,
                             double* out_ns,
                             llm_error* error) {
    *out_tally = (tally){0};
    const berth_kv_options kv = llm_model_kv_options(e->model, setup->kv_dtype);
    const llm_scheduler_options options = {.after_step = add_step, .user = out_tally};
    llm_scheduler* scheduler;
    berth_status status = llm_scheduler_create(e->model, &kv, &options, &scheduler, error);
    int32_t prompt[512];
    for (int64_t i = 0; i < asked->prompt; i++)
        prompt[i] = (int32_t)(i * 7919 % e->model->params.vocab_tokens);
    for (int64_t i = 0; i < asked->requests && status == BERTH_OK; i++) {
        const llm_request request = {.prompt = prompt,
                                     .prompt_count = asked->prompt,
                                     .max_tokens = asked->answer,
                                     .sampling = llm_sampler_options_default(),
                                     .is_private = true,
                                     .ignores_stop = true};
        status = llm_scheduler_submit(scheduler, &request, NULL, error);
    }
    const uint64_t began = llm_now_ns();
    llm_step_summary summary = {0};
    while (status == BERTH_OK && !summary.is_idle)
        status = llm_scheduler_step(scheduler, &summary, error);
    *out_ns = (double)(llm_now_ns() - began);
    llm_scheduler_destroy(scheduler);
    return status;
}

/// Solves the 3 by 3 equations of the loads; negative parts become 0.
static llm_step_cost solve(const tally t[3], const double ns[3]) {
    double a[3][4];
    for (int i = 0; i < 3; i++) {
        const double row[4] = {t[i].steps, t[i].tokens, t[i].keys, ns[i]};
        memcpy(a[i], row, sizeof row);
    }
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < 3; i++) {
            if (i == p || a[p][p] == 0.0) continue;
            const double by = a[i][p] / a[p][p];
            for (int j = 0; j < 4; j++)
                a[i][j] -= by * a[p][j];
        }
    double x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = a[i][i] == 0.0 ? 0.0 : a[i][3] / a[i][i];
        if (x[i] < 0.0) x[i] = 0.0;
    }
    return (llm_step_cost){.fixed_ns = x[0], .token_ns = x[1], .key_token_ns = x[2]};
}

berth_status llm_replay_calibrate(const llm_replay_setup* setup,
                                  llm_step_cost* out_cost,
                                  llm_error* error) {
    // mostly steps, mostly tokens, mostly keys
    static const load loads[3] = {{4, 1, 24}, {256, 2, 2}, {500, 8, 12}};
    *out_cost = (llm_step_cost){0};
    llm_replay_setup real = *setup;
    real.replay.simulates = false;
    engine e = {0};
    tally tallies[3];
    double ns[3];
    berth_status status = engine_open(&real, NULL, &e, error);
    // the first round is for caches and plans
    for (size_t i = 0; i < 6 && status == BERTH_OK; i++)
        status = run_load(&e, &real, &loads[i % 3], &tallies[i % 3], &ns[i % 3], error);
    engine_close(&e);
    if (status == BERTH_OK) *out_cost = solve(tallies, ns);
    return status;
}
