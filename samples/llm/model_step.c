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

berth_status llm_take_context_error(berth_context* context, llm_error* error) {
    berth_status status = berth_context_error(context);
    if (status == BERTH_OK) return llm_fail(error, BERTH_ERR_INTERNAL, "an op failed silently");
    llm_fail(error, status, "%s", berth_context_error_text(context));
    berth_context_clear_error(context);
    return status;
}

/// The time now if it is asked for.
static uint64_t start(const llm_run_options* options) {
    return options->step_ns == NULL ? 0 : llm_now_ns();
}

static void add_since(const llm_run_options* options, uint64_t began) {
    if (options->step_ns != NULL) *options->step_ns += llm_now_ns() - began;
}

static berth_status begin(const llm_model* model,
                          const berth_kv_tables* tables,
                          const llm_run_options* options) {
    llm_step_shape shape;
    llm_step_sizes sizes = {tables->tokens, tables->sequences, tables->blocks};
    uint64_t began = start(options);
    llm_step_shape_init(&shape, options->kind, &sizes);
    berth_status status = berth_step_begin(model->context, &shape.desc);
    add_since(options, began);
    return status;
}

berth_status llm_model_run(const llm_model* model,
                           berth_kv_batch* batch,
                           const llm_run_options* options,
                           llm_error* error) {
    berth_context* ctx = model->context;
    if (begin(model, berth_kv_batch_tables(batch), options) != BERTH_OK)
        return llm_take_context_error(ctx, error);
    bool all_logits = options->kind == LLM_STEP_SCORE;
    berth_tensor* logits =
        llm_model_forward(model, batch, all_logits, options->hook, options->hook_user);
    berth_status status = BERTH_OK;
    if (logits != NULL && options->logits != NULL)
        status = berth_tensor_read(logits, options->logits, berth_tensor_bytes(logits));
    if (status != BERTH_OK) llm_fail(error, status, "%s", berth_last_error());
    bool has_failed = logits == NULL;
    berth_release(logits);
    uint64_t began = start(options);
    // the error is taken after the step's end: a run with an error is not learned from
    if (berth_step_end(ctx) != BERTH_OK) has_failed = true;
    add_since(options, began);
    return has_failed ? llm_take_context_error(ctx, error) : status;
}
