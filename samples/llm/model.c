// SPDX-License-Identifier: Apache-2.0
// The forward pass. Temporaries are moved into the op that uses them last: they end there, or the
// op works in their place.
#include "model.h"

/// What all layers of one forward pass share.
typedef struct pass {
    const llm_model* model;
    berth_context* ctx;
    llm_kv* kv;
    berth_tensor* positions; ///< [count] i32
    int64_t count;           ///< tokens of this pass
    berth_rope_options rope;
} pass;

/// [rows, heads * dims] as [rows, heads, dims]; consumes `x`.
static berth_tensor* split_heads(
    const pass* p, berth_tensor* x, int64_t rows, int64_t heads, int64_t dims) {
    int64_t shape[] = {rows, heads, dims};
    return berth_reshape(p->ctx, berth_move(x), 3, shape);
}

/// Writes the new rows to one tensor of the cache, which continues in place; consumes `rows`.
static void store_rows(const pass* p, berth_tensor** cache, berth_tensor* rows) {
    // without a cast a cache of f32 has one op less, at every length alike
    if (p->kv->dtype != BERTH_F32) rows = berth_cast(p->ctx, berth_move(rows), p->kv->dtype);
    *cache = berth_index_copy(p->ctx, berth_move(*cache), 0, p->positions, berth_move(rows));
}

/// Computes keys and values of all new tokens from `h` [count, width] and adds them to the cache.
static void extend_cache(const pass* p, int64_t at, berth_tensor* h) {
    const llm_model_params* m = &p->model->params;
    const llm_layer* layer = &p->model->layers[at];
    berth_tensor* k = berth_linear(p->ctx, h, layer->k, layer->k_bias);
    k = split_heads(p, k, p->count, m->kv_heads, m->key_dims);
    k = berth_rope(p->ctx, berth_move(k), p->positions, p->model->rope_divisors, &p->rope);
    store_rows(p, &p->kv->keys[at], k);
    berth_tensor* v = berth_linear(p->ctx, h, layer->v, layer->v_bias);
    v = split_heads(p, v, p->count, m->kv_heads, m->value_dims);
    store_rows(p, &p->kv->values[at], v);
}

/// Attention of the last `rows` new tokens over the whole cache, [rows, width]; consumes `h` [rows,
/// width].
static berth_tensor* attend(const pass* p, int64_t at, berth_tensor* h, int64_t rows) {
    const llm_model_params* m = &p->model->params;
    const llm_layer* layer = &p->model->layers[at];
    berth_context* ctx = p->ctx;
    int64_t first = p->count - rows;
    int64_t end = p->kv->used + p->count;

    berth_tensor* positions = berth_slice(ctx, p->positions, 0, first, p->count, 1);
    berth_tensor* q = berth_linear(ctx, berth_move(h), layer->q, layer->q_bias);
    q = split_heads(p, q, rows, m->heads, m->key_dims);
    q = berth_rope(ctx, berth_move(q), positions, p->model->rope_divisors, &p->rope);
    berth_release(positions);

    berth_tensor* keys = berth_slice(ctx, p->kv->keys[at], 0, 0, end, 1);
    berth_tensor* values = berth_slice(ctx, p->kv->values[at], 0, 0, end, 1);
    berth_tensor* a = berth_attention(ctx,
                                      berth_move(q),
                                      berth_move(keys),
                                      berth_move(values),
                                      NULL,
                                      0.0f,
                                      true,
                                      p->kv->used + first);
    int64_t shape[] = {rows, m->heads * m->value_dims};
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

/// One layer on `x` [count, width], which it consumes. Returns the last `rows` tokens' part of it.
static berth_tensor* run_layer(const pass* p, int64_t at, berth_tensor* x, int64_t rows) {
    berth_context* ctx = p->ctx;
    const llm_layer* layer = &p->model->layers[at];
    float eps = p->model->params.norm_eps;

    berth_tensor* h = berth_rms_norm(ctx, x, layer->attn_norm, eps);
    extend_cache(p, at, h);
    if (rows < p->count) {
        x = berth_slice(ctx, berth_move(x), 0, p->count - rows, p->count, 1);
        h = berth_slice(ctx, berth_move(h), 0, p->count - rows, p->count, 1);
    }
    berth_tensor* a = attend(p, at, h, rows);
    x = berth_add(ctx, berth_move(x), berth_move(a));
    h = berth_rms_norm(ctx, x, layer->ffn_norm, eps);
    berth_tensor* f = feed_forward(p, layer, h);
    return berth_add(ctx, berth_move(x), berth_move(f));
}

/// Token ids as a tensor [count].
static berth_tensor* make_ids(berth_context* ctx, const int32_t* ids, int64_t count) {
    berth_tensor* tensor = berth_empty(ctx, BERTH_I32, 1, &count);
    if (tensor == NULL) return NULL;
    if (berth_tensor_write(tensor, ids, (uint64_t)count * sizeof *ids) == BERTH_OK) return tensor;
    berth_release(tensor);
    return NULL;
}

/// The tokens' vectors [count, width] f32.
static berth_tensor* embed(const pass* p, const int32_t* ids) {
    berth_tensor* rows = make_ids(p->ctx, ids, p->count);
    berth_tensor* x = berth_embedding(p->ctx, p->model->embedding, berth_move(rows));
    return berth_cast(p->ctx, berth_move(x), BERTH_F32);
}

berth_tensor* llm_model_forward(const llm_model* model,
                                llm_kv* kv,
                                const int32_t* ids,
                                int64_t count,
                                bool all_logits,
                                llm_layer_hook hook,
                                void* hook_user) {
    const llm_model_params* m = &model->params;
    berth_context* ctx = model->context;
    pass p = {.model = model,
              .ctx = ctx,
              .kv = kv,
              .count = count,
              .rope = {.base = m->rope_base,
                       .position_scale = m->rope_position_scale,
                       .rotary_dims = (int32_t)m->rope_dims}};
    berth_tensor* x = embed(&p, ids);
    p.positions = berth_arange(ctx, (double)kv->used, (double)(kv->used + count), 1.0, BERTH_I32);
    for (int64_t at = 0; at < m->layers; at++) {
        // only the last token's logits are asked for: the last layer's others need no more than
        // their keys and values
        bool last_only = at + 1 == m->layers && !all_logits;
        x = run_layer(&p, at, x, last_only ? 1 : count);
        if (hook != NULL && x != NULL) hook(hook_user, ctx, at, x);
    }
    berth_release(p.positions);
    x = berth_rms_norm(ctx, berth_move(x), model->output_norm, m->norm_eps);
    return berth_linear(ctx, berth_move(x), model->output, NULL);
}
