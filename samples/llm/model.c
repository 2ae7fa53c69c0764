// SPDX-License-Identifier: Apache-2.0
// The forward pass. Temporaries are moved into the op that uses them last: they end there, or the
// op works in their place.
#include "model.h"

#include <string.h>

/// What all layers of one forward pass share.
typedef struct pass {
    const llm_model* model;
    berth_context* ctx;
    berth_kv_batch* batch;
    berth_kv_tensors tensors; ///< of the batch
    int64_t tokens;           ///< T
    berth_rope_options rope;
} pass;

/// The rows of a layer that go on: all tokens, or the last one of each part.
typedef struct queries {
    berth_kv_queries which;
    int64_t rows;
    berth_tensor* positions; ///< [rows] i32; borrowed
} queries;

/// [rows, heads * dims] as [rows, heads, dims]; consumes `x`.
static berth_tensor* split_heads(
    const pass* p, berth_tensor* x, int64_t rows, int64_t heads, int64_t dims) {
    int64_t shape[] = {rows, heads, dims};
    return berth_reshape(p->ctx, berth_move(x), 3, shape);
}

static berth_tensor* rotate(const pass* p, berth_tensor* x, berth_tensor* positions) {
    return berth_rope(p->ctx, berth_move(x), positions, p->model->rope_divisors, &p->rope);
}

/// The rows of `x` that are a part's last token; consumes it.
static berth_tensor* select_last(const pass* p, berth_tensor* x) {
    return berth_index_select(p->ctx, berth_move(x), 0, p->tensors.last_rows);
}

/// Keys of all new tokens from `h` [T, width].
static berth_tensor* make_keys(const pass* p, const llm_layer* layer, berth_tensor* h) {
    const llm_model_params* m = &p->model->params;
    berth_tensor* k = berth_linear(p->ctx, h, layer->k, layer->k_bias);
    k = split_heads(p, k, p->tokens, m->kv_heads, m->key_dims);
    return rotate(p, k, p->tensors.positions);
}

/// Their values.
static berth_tensor* make_values(const pass* p, const llm_layer* layer, berth_tensor* h) {
    const llm_model_params* m = &p->model->params;
    berth_tensor* v = berth_linear(p->ctx, h, layer->v, layer->v_bias);
    return split_heads(p, v, p->tokens, m->kv_heads, m->value_dims);
}

/// Adds `k` and `v` of all new tokens to the cache, and attends with the rows `h` [rows, width] to
/// what each of them sees: [rows, width]. Consumes all three.
static berth_tensor* attend(const pass* p,
                            int64_t at,
                            const queries* q_rows,
                            berth_tensor* h,
                            berth_tensor* k,
                            berth_tensor* v) {
    const llm_model_params* m = &p->model->params;
    const llm_layer* layer = &p->model->layers[at];
    berth_context* ctx = p->ctx;
    berth_tensor* q = berth_linear(ctx, berth_move(h), layer->q, layer->q_bias);
    q = split_heads(p, q, q_rows->rows, m->heads, m->key_dims);
    q = rotate(p, q, q_rows->positions);
    berth_tensor* a = berth_kv_attend(
        p->batch, at, q_rows->which, berth_move(q), berth_move(k), berth_move(v), 0.0f);
    int64_t shape[] = {q_rows->rows, m->heads * m->value_dims};
    a = berth_reshape(ctx, berth_move(a), 2, shape);
    return berth_linear(ctx, berth_move(a), layer->attn_output, layer->attn_output_bias);
}

/// The gated feed-forward part of a layer on `h` [rows, width], which it consumes.
static berth_tensor* feed_forward(const pass* p, const llm_layer* layer, berth_tensor* h) {
    berth_context* ctx = p->ctx;
    berth_tensor* gate = berth_linear(ctx, h, layer->ffn_gate, NULL);
    gate = berth_silu(ctx, berth_move(gate));
    berth_tensor* up = berth_linear(ctx, berth_move(h), layer->ffn_up, NULL);
    gate = berth_mul(ctx, berth_move(gate), berth_move(up));
    return berth_linear(ctx, berth_move(gate), layer->ffn_down, NULL);
}

/// One layer on `x` [T, width], which it consumes. Returns the rows that go on.
static berth_tensor* run_layer(const pass* p, int64_t at, const queries* q_rows, berth_tensor* x) {
    berth_context* ctx = p->ctx;
    const llm_layer* layer = &p->model->layers[at];
    float eps = p->model->params.norm_eps;

    berth_tensor* h = berth_rms_norm(ctx, x, layer->attn_norm, eps);
    berth_tensor* k = make_keys(p, layer, h);
    berth_tensor* v = make_values(p, layer, h);
    if (q_rows->which == BERTH_KV_LAST_TOKENS) {
        x = select_last(p, x);
        h = select_last(p, h);
    }
    berth_tensor* a = attend(p, at, q_rows, h, k, v);
    x = berth_add(ctx, berth_move(x), berth_move(a));
    h = berth_rms_norm(ctx, x, layer->ffn_norm, eps);
    berth_tensor* f = feed_forward(p, layer, h);
    return berth_add(ctx, berth_move(x), berth_move(f));
}

/// The tokens' vectors [T, width] f32.
static berth_tensor* embed(const pass* p) {
    berth_tensor* x = berth_embedding(p->ctx, p->model->embedding, p->tensors.ids);
    return berth_cast(p->ctx, berth_move(x), BERTH_F32);
}

/// All layers; the rows that have logits, [rows, width].
static berth_tensor* run_layers(const pass* p,
                                bool all_logits,
                                llm_layer_hook hook,
                                void* hook_user) {
    int64_t layers = p->model->params.layers;
    queries all = {BERTH_KV_ALL_TOKENS, p->tokens, p->tensors.positions};
    queries last = all;
    berth_tensor* last_positions = NULL;
    if (!all_logits) {
        // the last layer's other tokens need no more than their keys and values
        last_positions = berth_index_select(p->ctx, p->tensors.positions, 0, p->tensors.last_rows);
        int64_t rows = berth_kv_batch_tables(p->batch)->sequences;
        last = (queries){BERTH_KV_LAST_TOKENS, rows, last_positions};
    }
    berth_tensor* x = embed(p);
    for (int64_t at = 0; at < layers; at++) {
        x = run_layer(p, at, at + 1 == layers ? &last : &all, x);
        if (hook != NULL && x != NULL) hook(hook_user, p->ctx, at, x);
    }
    berth_release(last_positions);
    return x;
}

berth_kv_options llm_model_kv_options(const llm_model* model, berth_dtype dtype) {
    const llm_model_params* m = &model->params;
    return (berth_kv_options){.struct_size = sizeof(berth_kv_options),
                              .layers = m->layers,
                              .kv_heads = m->kv_heads,
                              .key_dims = m->key_dims,
                              .value_dims = m->value_dims,
                              .dtype = dtype};
}

bool llm_kv_dtype_find(const char* word, berth_dtype* out_dtype) {
    static const struct {
        const char* word;
        berth_dtype dtype;
    } types[] = {
        {"f32", BERTH_F32}, {"f16", BERTH_F16}, {"bf16", BERTH_BF16}, {"q8_0", BERTH_Q8_0}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(word, types[i].word) != 0) continue;
        *out_dtype = types[i].dtype;
        return true;
    }
    return false;
}

berth_tensor* llm_model_forward(const llm_model* model,
                                berth_kv_batch* batch,
                                bool all_logits,
                                llm_layer_hook hook,
                                void* hook_user) {
    const llm_model_params* m = &model->params;
    berth_context* ctx = model->context;
    pass p = {.model = model,
              .ctx = ctx,
              .batch = batch,
              .tokens = berth_kv_batch_tables(batch)->tokens,
              .rope = {.base = m->rope_base,
                       .position_scale = m->rope_position_scale,
                       .rotary_dims = (int32_t)m->rope_dims}};
    if (!berth_kv_batch_upload(batch, &p.tensors)) return NULL;
    berth_tensor* x = run_layers(&p, all_logits, hook, hook_user);
    x = berth_rms_norm(ctx, berth_move(x), model->output_norm, m->norm_eps);
    return berth_linear(ctx, berth_move(x), model->output, NULL);
}
