// SPDX-License-Identifier: Apache-2.0
// One step of a model: begin, forward pass, logits, end.
#include "model_step.h"

#include "llm_clock.h"

const char* llm_step_kind_name(llm_step_kind kind) {
    static const char* const names[LLM_STEP_KIND_COUNT] = {"prefill", "decode", "score"};
    return names[kind];
}

void llm_step_shape_init(llm_step_shape* shape, llm_step_kind kind, const llm_step_sizes* sizes) {
    shape->sizes = *sizes;
    shape->inputs[0] = (berth_step_input){"tokens", 1, &shape->sizes.tokens};
    shape->inputs[1] = (berth_step_input){"sequences", 1, &shape->sizes.sequences};
    shape->inputs[2] = (berth_step_input){"blocks", 1, &shape->sizes.blocks};
    shape->desc = (berth_step_desc){
        .name = llm_step_kind_name(kind), .inputs = shape->inputs, .input_count = 3};
}

/// Takes the context's error over into `error` and clears it; BERTH_ERR_INTERNAL if there is none.
static berth_status take_context_error(berth_context* context, llm_error* error) {
    berth_status status = berth_context_error(context);
    if (status == BERTH_OK) return llm_fail(error, BERTH_ERR_INTERNAL, "an op failed silently");
    llm_fail(error, status, "%s", berth_context_error_text(context));
    berth_context_clear_error(context);
    return status;
}

/// Adds what has passed since `*at` to a sum, and goes on from now.
static void add_lap(uint64_t* at, uint64_t* sum) {
    uint64_t now = llm_now_ns();
    *sum += now - *at;
    *at = now;
}

static berth_status begin(const llm_model* model,
                          const berth_kv_tables* tables,
                          llm_step_kind kind) {
    llm_step_shape shape;
    llm_step_sizes sizes = {tables->tokens, tables->sequences, tables->blocks};
    llm_step_shape_init(&shape, kind, &sizes);
    return berth_step_begin(model->context, &shape.desc);
}

static void show(const float* data, const llm_run_options* options, llm_run_times* times) {
    uint64_t at = llm_now_ns();
    options->on_logits(options->logits_user, data);
    add_lap(&at, &times->logits_ns);
}

/// Shows logits where the host cannot reach the device's memory.
static berth_status show_copy(berth_tensor* logits,
                              const llm_run_options* options,
                              llm_run_times* times) {
    uint64_t bytes = berth_tensor_bytes(logits);
    float* copy = llm_alloc(1, bytes);
    if (copy == NULL) return BERTH_ERR_OUT_OF_MEMORY;
    berth_status status = berth_tensor_read(logits, copy, bytes);
    if (status == BERTH_OK) show(copy, options, times);
    llm_free(copy);
    return status;
}

/// Shows logits where they are, if that is possible.
static berth_status show_logits(berth_tensor* logits,
                                const llm_run_options* options,
                                llm_run_times* times,
                                llm_error* error) {
    void* data;
    berth_status status = berth_tensor_map(logits, &data);
    if (status == BERTH_OK) {
        show(data, options, times);
        berth_tensor_unmap(logits);
    } else if (status == BERTH_ERR_UNSUPPORTED) {
        status = show_copy(logits, options, times);
        if (status == BERTH_ERR_OUT_OF_MEMORY) return llm_fail_memory(error, "logits");
    }
    return status == BERTH_OK ? BERTH_OK : llm_fail(error, status, "%s", berth_last_error());
}

/// The forward pass, until its logits have been seen. Errors of ops stay the context's.
static berth_status compute(const llm_model* model,
                            berth_kv_batch* batch,
                            const llm_run_options* options,
                            llm_run_times* times,
                            llm_error* error) {
    bool all_logits = options->kind == LLM_STEP_SCORE;
    berth_tensor* logits =
        llm_model_forward(model, batch, all_logits, options->hook, options->hook_user);
    if (logits == NULL) return BERTH_ERR_INTERNAL;
    berth_status status = BERTH_OK;
    if (options->on_logits != NULL) status = show_logits(logits, options, times, error);
    berth_release(logits);
    return status;
}

berth_status llm_model_run(const llm_model* model,
                           berth_kv_batch* batch,
                           const llm_run_options* options,
                           llm_error* error) {
    berth_context* ctx = model->context;
    llm_run_times unused = {0};
    llm_run_times* times = options->times == NULL ? &unused : options->times;
    uint64_t at = llm_now_ns();
    berth_status status = begin(model, berth_kv_batch_tables(batch), options->kind);
    add_lap(&at, &times->step_ns);
    if (status != BERTH_OK) {
        (void)berth_kv_batch_end(batch, false);
        return take_context_error(ctx, error);
    }
    uint64_t logits_before = times->logits_ns;
    status = compute(model, batch, options, times, error);
    add_lap(&at, &times->ops_ns);
    times->ops_ns -= times->logits_ns - logits_before;
    berth_status kept = berth_kv_batch_end(batch, status == BERTH_OK);
    if (status == BERTH_OK && kept != BERTH_OK)
        status = llm_fail(error, kept, "%s", berth_last_error());
    add_lap(&at, &times->kv_ns);
    // the context's error is taken after the step's end: a run with an error is not learned from
    (void)!berth_step_end(ctx);
    if (berth_context_error(ctx) != BERTH_OK) status = take_context_error(ctx, error);
    add_lap(&at, &times->step_ns);
    return status;
}
