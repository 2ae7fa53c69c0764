// SPDX-License-Identifier: Apache-2.0
// Opening the file, dividing the budget, making the runtime.
#include "serve_setup.h"

#include "gguf_random.h"
#include "llm_device.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/// The budget unless something else is asked for.
#define DEFAULT_BYTES (UINT64_C(4) << 30)
/// Tables of Berth and of the server that grow with use, stacks, what allocators keep, and pages of
/// the program itself.
#define TABLES_BYTES (UINT64_C(24) << 20)
/// What is learned and planned of the two kinds of steps, as BERTH_PLAN_CACHE_BYTES begins with.
#define PLANS_BYTES (UINT64_C(2) * 16 << 20)
/// The least that is worth beginning with.
#define LEAST_DEVICE_BYTES (UINT64_C(8) << 20)

uint64_t serve_default_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    uint64_t half = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 2 : DEFAULT_BYTES;
    return half < DEFAULT_BYTES ? half : DEFAULT_BYTES;
}

/// Memory of this process that is no file's; 0 if the system does not say.
static uint64_t anonymous_bytes(void) {
    FILE* file = fopen("/proc/self/status", "re");
    if (file == NULL) return 0;
    char line[256];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "RssAnon: %llu", &kib) == 1) break;
    fclose(file);
    return (uint64_t)kib * 1024;
}

static berth_status open_file(const serve_setup_options* o, serve_setup* s, llm_error* error) {
    if (o->model_path != NULL) return llm_gguf_open(o->model_path, true, &s->gguf, error);
    const llm_random_spec spec = o->is_tiny ? llm_random_spec_tiny(1) : llm_random_spec_smollm2(1);
    size_t size;
    berth_status status = llm_random_model(&spec, &s->random_file, &size, error);
    if (status != BERTH_OK) return status;
    return llm_gguf_open_memory(s->random_file, size, &s->gguf, error);
}

/// Calls the model after its file, without folder and ".gguf".
static void name_model(const serve_setup_options* o, serve_setup* s) {
    static const char ending[] = ".gguf";
    const char* name = o->model_name;
    if (name == NULL && o->model_path == NULL) name = o->is_tiny ? "random-tiny" : "random";
    if (name == NULL) {
        const char* slash = strrchr(o->model_path, '/');
        name = slash == NULL ? o->model_path : slash + 1;
    }
    snprintf(s->model_name, sizeof s->model_name, "%s", name);
    size_t size = strlen(s->model_name);
    if (o->model_name == NULL && size >= sizeof ending &&
        strcmp(s->model_name + size - (sizeof ending - 1), ending) == 0)
        s->model_name[size - (sizeof ending - 1)] = '\0';
}

static berth_status open_text(serve_setup* s, llm_error* error) {
    berth_status status = llm_tokenizer_create(s->gguf, &s->tokenizer, error);
    if (status != BERTH_OK) return status;
    size_t count = llm_tokenizer_token_count(s->tokenizer);
    for (size_t id = 0; id < count; id++) {
        size_t bytes = llm_tokenizer_spelling(s->tokenizer, (int32_t)id).size;
        if (s->most_token_bytes < bytes) s->most_token_bytes = bytes;
    }
    status = llm_chat_init(&s->chat, s->gguf, s->tokenizer, error);
    s->has_chat = status == BERTH_OK;
    return status == BERTH_ERR_UNSUPPORTED ? BERTH_OK : status;
}

/// Notes what the weights take of the device's memory, once they are there.
static void note_weights(serve_setup* s) {
    serve_budget* b = &s->budget;
    b->weights_bytes = s->model->weight_bytes;
    b->device_bytes = b->total_bytes > b->weights_bytes ? b->total_bytes - b->weights_bytes : 0;
}

/// Divides the budget. A file that was made in memory is no file's pages.
static berth_status divide(const serve_setup_options* o, serve_setup* s, llm_error* error) {
    serve_budget* b = &s->budget;
    b->total_bytes = o->memory_bytes == 0 ? serve_default_memory() : o->memory_bytes;
    if (llm_device_is_apart(o->device)) {
        b->device_bytes = b->total_bytes;
        return BERTH_OK;
    }
    b->weights_bytes = llm_gguf_bytes(s->gguf).size;
    uint64_t used = anonymous_bytes();
    if (s->random_file != NULL) used -= used < b->weights_bytes ? used : b->weights_bytes;
    b->host_bytes = used + o->bounded_bytes + TABLES_BYTES + PLANS_BYTES;
    uint64_t taken = b->weights_bytes + b->host_bytes;
    b->device_bytes = b->total_bytes > taken ? b->total_bytes - taken : 0;
    if (b->device_bytes >= LEAST_DEVICE_BYTES) return BERTH_OK;
    return llm_fail(error,
                    BERTH_ERR_OUT_OF_MEMORY,
                    "a budget of %" PRIu64 " bytes is too small: weights take %" PRIu64
                    ", the server itself up to %" PRIu64 " (%" PRIu64
                    " of them for what clients send), and frames and KV cache need %" PRIu64
                    " at least",
                    b->total_bytes,
                    b->weights_bytes,
                    b->host_bytes,
                    o->bounded_bytes,
                    (uint64_t)LEAST_DEVICE_BYTES);
}

static berth_status open_runtime(const serve_setup_options* o, serve_setup* s, llm_error* error) {
    char memory[32];
    snprintf(memory, sizeof memory, "%" PRIu64, s->budget.device_bytes);
    berth_option_setting settings[4] = {{"memory", memory}};
    size_t count = 1;
    if (o->threads != NULL) settings[count++] = (berth_option_setting){"threads", o->threads};
    if (o->device != NULL) settings[count++] = (berth_option_setting){"device", o->device};
    if (o->plan_cache != NULL)
        settings[count++] = (berth_option_setting){"plan_cache_file", o->plan_cache};
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = count};
    berth_status status = berth_runtime_create(&options, &s->runtime);
    if (status == BERTH_OK) status = berth_context_create(s->runtime, &s->context);
    if (status != BERTH_OK) return llm_fail(error, status, "%s", berth_last_error());
    status = llm_model_create(s->context, s->gguf, &s->model, error);
    if (status == BERTH_OK && llm_device_is_apart(o->device)) note_weights(s);
    return status;
}

berth_status serve_setup_open(const serve_setup_options* options,
                              serve_setup* out_setup,
                              llm_error* error) {
    *out_setup = (serve_setup){0};
    name_model(options, out_setup);
    berth_status status = open_file(options, out_setup, error);
    if (status == BERTH_OK) status = open_text(out_setup, error);
    if (status == BERTH_OK) status = divide(options, out_setup, error);
    if (status == BERTH_OK) status = open_runtime(options, out_setup, error);
    return status;
}

void serve_setup_close(serve_setup* s) {
    llm_model_destroy(s->model);
    berth_context_release(s->context);
    berth_runtime_release(s->runtime);
    llm_tokenizer_destroy(s->tokenizer);
    llm_gguf_close(s->gguf);
    llm_gguf_writer_release(s->random_file);
    *s = (serve_setup){0};
}
