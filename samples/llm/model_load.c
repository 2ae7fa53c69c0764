// SPDX-License-Identifier: Apache-2.0
// From an open file to a model: metadata and tensors, each checked against the others.
#include "model.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/// Sizes in files are believed up to here, so that their products fit 64 bits.
#define MOST_SIZE ((uint64_t)1 << 30)

static berth_status check_range(
    const char* key, uint64_t value, uint64_t least, uint64_t most, llm_error* error) {
    if (value >= least && value <= most) return BERTH_OK;
    return llm_fail(error,
                    BERTH_ERR_CORRUPT,
                    "%s is %" PRIu64 ", expected %" PRIu64 " to %" PRIu64,
                    key,
                    value,
                    least,
                    most);
}

/// Reads a size that the model cannot do without.
static berth_status read_size(const llm_gguf* gguf,
                              const char* key,
                              int64_t* out_size,
                              llm_error* error) {
    uint64_t value;
    berth_status status = llm_gguf_get_u64(gguf, key, &value, error);
    if (status == BERTH_OK) status = check_range(key, value, 1, MOST_SIZE, error);
    *out_size = status == BERTH_OK ? (int64_t)value : 0;
    return status;
}

/// Reads a size that has a usual value.
static berth_status read_size_or(
    const llm_gguf* gguf, const char* key, int64_t otherwise, int64_t* out_size, llm_error* error) {
    uint64_t value;
    berth_status status = llm_gguf_get_u64_or(gguf, key, (uint64_t)otherwise, &value, error);
    if (status == BERTH_OK) status = check_range(key, value, 1, MOST_SIZE, error);
    *out_size = status == BERTH_OK ? (int64_t)value : 0;
    return status;
}

/// Reads a number above zero that has a usual value.
static berth_status read_positive_or(
    const llm_gguf* gguf, const char* key, double otherwise, double* out_value, llm_error* error) {
    berth_status status = llm_gguf_get_f64_or(gguf, key, otherwise, out_value, error);
    if (status != BERTH_OK || (isfinite(*out_value) && *out_value > 0.0)) return status;
    return llm_fail(error, BERTH_ERR_CORRUPT, "%s is %g, expected more than 0", key, *out_value);
}

/// Refuses what this code cannot run: other architectures, mixtures of experts, parts of files.
static berth_status check_kind(const llm_gguf* gguf, llm_error* error) {
    llm_str architecture;
    berth_status status = llm_gguf_get_string(gguf, "general.architecture", &architecture, error);
    if (status != BERTH_OK) return status;
    if (!llm_str_equal(architecture, llm_str_of("llama")))
        return llm_fail(error,
                        BERTH_ERR_UNSUPPORTED,
                        "general.architecture is \"%s\"; only \"llama\" is supported",
                        llm_quote(architecture).text);
    uint64_t experts;
    status = llm_gguf_get_u64_or(gguf, "llama.expert_count", 0, &experts, error);
    if (status != BERTH_OK) return status;
    if (experts > 0)
        return llm_fail(error,
                        BERTH_ERR_UNSUPPORTED,
                        "llama.expert_count is %" PRIu64 ": mixtures of experts are not supported",
                        experts);
    uint64_t parts;
    status = llm_gguf_get_u64_or(gguf, "split.count", 1, &parts, error);
    if (status != BERTH_OK || parts <= 1) return status;
    return llm_fail(error,
                    BERTH_ERR_UNSUPPORTED,
                    "split.count is %" PRIu64 ": this file is one part of a model; join them first",
                    parts);
}

static berth_status read_vocabulary_size(const llm_gguf* gguf,
                                         llm_model_params* params,
                                         llm_error* error) {
    if (llm_gguf_find(gguf, "llama.vocab_size") != NULL)
        return read_size(gguf, "llama.vocab_size", &params->vocab_tokens, error);
    const llm_gguf_value* tokens;
    berth_status status =
        llm_gguf_get_array(gguf, "tokenizer.ggml.tokens", LLM_GGUF_STRING, &tokens, error);
    if (status != BERTH_OK) return status;
    status = check_range("length of tokenizer.ggml.tokens", tokens->count, 1, MOST_SIZE, error);
    if (status == BERTH_OK) params->vocab_tokens = (int64_t)tokens->count;
    return status;
}

static berth_status read_heads(const llm_gguf* gguf, llm_model_params* p, llm_error* error) {
    berth_status status = read_size(gguf, "llama.attention.head_count", &p->heads, error);
    if (status == BERTH_OK)
        status = read_size_or(gguf, "llama.attention.head_count_kv", p->heads, &p->kv_heads, error);
    if (status != BERTH_OK) return status;
    if (p->heads % p->kv_heads != 0)
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "llama.attention.head_count %" PRId64
                        " is no multiple of llama.attention.head_count_kv %" PRId64,
                        p->heads,
                        p->kv_heads);
    bool sizes_are_given = llm_gguf_find(gguf, "llama.attention.key_length") != NULL &&
                           llm_gguf_find(gguf, "llama.attention.value_length") != NULL;
    if (!sizes_are_given && p->width % p->heads != 0)
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "llama.embedding_length %" PRId64
                        " is no multiple of llama.attention.head_count %" PRId64,
                        p->width,
                        p->heads);
    int64_t usual = p->width / p->heads;
    status = read_size_or(gguf, "llama.attention.key_length", usual, &p->key_dims, error);
    if (status != BERTH_OK) return status;
    return read_size_or(gguf, "llama.attention.value_length", usual, &p->value_dims, error);
}

/// Reads how positions are scaled: not at all, or by a constant factor.
static berth_status read_position_scale(const llm_gguf* gguf,
                                        llm_model_params* p,
                                        llm_error* error) {
    double factor = 1.0;
    berth_status status = read_positive_or(gguf, "llama.rope.scale_linear", 1.0, &factor, error);
    if (status == BERTH_OK && llm_gguf_find(gguf, "llama.rope.scaling.type") != NULL) {
        llm_str type;
        status = llm_gguf_get_string(gguf, "llama.rope.scaling.type", &type, error);
        if (status != BERTH_OK) return status;
        if (llm_str_equal(type, llm_str_of("none")))
            factor = 1.0;
        else if (llm_str_equal(type, llm_str_of("linear")))
            status = read_positive_or(gguf, "llama.rope.scaling.factor", factor, &factor, error);
        else
            return llm_fail(error,
                            BERTH_ERR_UNSUPPORTED,
                            "llama.rope.scaling.type is \"%s\"; supported are \"none\" and "
                            "\"linear\"",
                            llm_quote(type).text);
    }
    p->rope_position_scale = 1.0 / factor;
    return status;
}

static berth_status read_rope(const llm_gguf* gguf, llm_model_params* p, llm_error* error) {
    berth_status status =
        read_size_or(gguf, "llama.rope.dimension_count", p->key_dims, &p->rope_dims, error);
    if (status != BERTH_OK) return status;
    if (p->rope_dims > p->key_dims || p->rope_dims % 2 != 0)
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "llama.rope.dimension_count is %" PRId64
                        ", expected an even number up to the head size %" PRId64,
                        p->rope_dims,
                        p->key_dims);
    status = read_positive_or(gguf, "llama.rope.freq_base", 10000.0, &p->rope_base, error);
    if (status != BERTH_OK) return status;
    return read_position_scale(gguf, p, error);
}

static berth_status read_norm_eps(const llm_gguf* gguf, llm_model_params* p, llm_error* error) {
    static const char key[] = "llama.attention.layer_norm_rms_epsilon";
    double eps;
    berth_status status = llm_gguf_get_f64(gguf, key, &eps, error);
    if (status != BERTH_OK) return status;
    p->norm_eps = (float)eps;
    if (eps >= 0.0 && eps < 1.0) return BERTH_OK;
    return llm_fail(error, BERTH_ERR_CORRUPT, "%s is %g, expected 0 to 1", key, eps);
}

/// Reads geometry and constants, checking each against the others.
static berth_status read_params(const llm_gguf* gguf,
                                llm_model_params* out_params,
                                llm_error* error) {
    llm_model_params p = {0};
    *out_params = p;
    berth_status status = check_kind(gguf, error);
    if (status == BERTH_OK)
        status = read_size(gguf, "llama.context_length", &p.context_tokens, error);
    if (status == BERTH_OK) status = read_size(gguf, "llama.embedding_length", &p.width, error);
    if (status == BERTH_OK) status = read_size(gguf, "llama.block_count", &p.layers, error);
    if (status == BERTH_OK)
        status = read_size(gguf, "llama.feed_forward_length", &p.ffn_width, error);
    if (status == BERTH_OK) status = read_heads(gguf, &p, error);
    if (status == BERTH_OK) status = read_norm_eps(gguf, &p, error);
    if (status == BERTH_OK) status = read_rope(gguf, &p, error);
    if (status == BERTH_OK) status = read_vocabulary_size(gguf, &p, error);
    if (status == BERTH_OK) *out_params = p;
    return status;
}

static bool to_dtype(uint32_t type, berth_dtype* out_dtype) {
    switch ((llm_tensor_type)type) {
    case LLM_TENSOR_F32:
        *out_dtype = BERTH_F32;
        return true;
    case LLM_TENSOR_F16:
        *out_dtype = BERTH_F16;
        return true;
    case LLM_TENSOR_BF16:
        *out_dtype = BERTH_BF16;
        return true;
    case LLM_TENSOR_Q4_0:
        *out_dtype = BERTH_Q4_0;
        return true;
    case LLM_TENSOR_Q4_1:
        *out_dtype = BERTH_Q4_1;
        return true;
    case LLM_TENSOR_Q5_0:
        *out_dtype = BERTH_Q5_0;
        return true;
    case LLM_TENSOR_Q5_1:
        *out_dtype = BERTH_Q5_1;
        return true;
    case LLM_TENSOR_Q8_0:
        *out_dtype = BERTH_Q8_0;
        return true;
    case LLM_TENSOR_Q4_K:
        *out_dtype = BERTH_Q4_K;
        return true;
    case LLM_TENSOR_Q5_K:
        *out_dtype = BERTH_Q5_K;
        return true;
    case LLM_TENSOR_Q6_K:
        *out_dtype = BERTH_Q6_K;
        return true;
    }
    return false;
}

/// Takes tensors out of the file, one after another; the first failure sticks.
typedef struct loader {
    llm_model* model;
    const llm_gguf* gguf;
    llm_error* error;
    berth_status status;
    bool is_widened;      ///< quantised matrices become f16 ones
    uint64_t table_bytes; ///< of an embedding that is not the output matrix as well
} loader;

static void refuse(loader* load, berth_status status, const char* format, ...) BERTH_PRINTF(3, 4);

static void refuse(loader* load, berth_status status, const char* format, ...) {
    char text[sizeof load->error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    load->status = llm_fail(load->error, status, "%s", text);
}

/// Compares a tensor's dimensions in the file, innermost first, with the expected ones.
static bool has_dims(const llm_gguf_tensor* tensor, int64_t n_in, int64_t n_out) {
    return tensor->dims[0] == (uint64_t)n_in && tensor->dims[1] == (uint64_t)n_out &&
           tensor->dims[2] == 1 && tensor->dims[3] == 1;
}

/// Makes a read-only tensor over the file's bytes, or of a copy of them where the device needs one.
static berth_tensor* wrap(loader* load, const llm_gguf_tensor* source, berth_dtype dtype) {
    int64_t dims[] = {(int64_t)source->dims[1], (int64_t)source->dims[0]};
    int32_t rank = source->dims[1] == 1 && source->rank < 2 ? 1 : 2;
    berth_context* ctx = load->model->context;
    berth_tensor* tensor = berth_tensor_from_memory(ctx,
                                                    (void*)(uintptr_t)source->data,
                                                    source->size_bytes,
                                                    dtype,
                                                    rank,
                                                    rank == 1 ? dims + 1 : dims,
                                                    true,
                                                    NULL,
                                                    NULL);
    if (load->is_widened && berth_dtype_query_info(dtype)->kind == BERTH_DTYPE_KIND_Q)
        tensor = berth_cast(ctx, berth_move(tensor), BERTH_F16);
    if (tensor == NULL) {
        refuse(load,
               berth_context_error(ctx),
               "tensor %s: %s",
               llm_quote(source->name).text,
               berth_context_error_text(ctx));
        berth_context_clear_error(ctx);
        return NULL;
    }
    load->model->weight_bytes += berth_tensor_bytes(tensor);
    return tensor;
}

/// Finds `name`; where it is missing, that is an error only if it is `required`.
static const llm_gguf_tensor* find(loader* load, const char* name, bool required) {
    if (load->status != BERTH_OK) return NULL;
    const llm_gguf_tensor* tensor = llm_gguf_find_tensor(load->gguf, name);
    if (tensor == NULL && required) refuse(load, BERTH_ERR_NOT_FOUND, "tensor %s is missing", name);
    return tensor;
}

/// Takes a matrix {n_in, n_out} of any readable type.
static berth_tensor* take_matrix(
    loader* load, const char* name, int64_t n_in, int64_t n_out, bool required) {
    const llm_gguf_tensor* source = find(load, name, required);
    if (source == NULL) return NULL;
    berth_dtype dtype;
    if (!to_dtype(source->type, &dtype)) {
        refuse(load, BERTH_ERR_UNSUPPORTED, "tensor %s has a type that cannot be read", name);
        return NULL;
    }
    if (!has_dims(source, n_in, n_out) || source->rank < 2) {
        refuse(load,
               BERTH_ERR_CORRUPT,
               "tensor %s is {%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
               "}, expected {%" PRId64 ", %" PRId64 "}",
               name,
               source->dims[0],
               source->dims[1],
               source->dims[2],
               source->dims[3],
               n_in,
               n_out);
        return NULL;
    }
    return wrap(load, source, dtype);
}

/// Takes a vector {count} of F32.
static berth_tensor* take_vector(loader* load, const char* name, int64_t count, bool required) {
    const llm_gguf_tensor* source = find(load, name, required);
    if (source == NULL) return NULL;
    if (source->type == LLM_TENSOR_F32 && source->rank == 1 && has_dims(source, count, 1))
        return wrap(load, source, BERTH_F32);
    refuse(load,
           BERTH_ERR_CORRUPT,
           "tensor %s is %s of %u dimensions, the first of %" PRIu64 "; expected F32 {%" PRId64 "}",
           name,
           llm_tensor_type_describe(source->type)->name,
           source->rank,
           source->dims[0],
           count);
    return NULL;
}

/// Name of a tensor of a layer, such as "blk.3.attn_q.weight".
typedef struct part_name {
    char text[64];
} part_name;

static part_name name_part(int64_t layer, const char* part) {
    part_name name;
    snprintf(name.text, sizeof name.text, "blk.%" PRId64 ".%s", layer, part);
    return name;
}

static void load_layer(loader* load, int64_t at) {
    const llm_model_params* m = &load->model->params;
    llm_layer* layer = &load->model->layers[at];
    int64_t q_width = m->heads * m->key_dims;
    int64_t k_width = m->kv_heads * m->key_dims;
    int64_t v_width = m->kv_heads * m->value_dims;
    int64_t a_width = m->heads * m->value_dims;
    const struct {
        berth_tensor** place;
        const char* part;
        int64_t n_in;
        int64_t n_out;
    } matrices[] = {
        {&layer->q, "attn_q.weight", m->width, q_width},
        {&layer->k, "attn_k.weight", m->width, k_width},
        {&layer->v, "attn_v.weight", m->width, v_width},
        {&layer->attn_output, "attn_output.weight", a_width, m->width},
        {&layer->ffn_gate, "ffn_gate.weight", m->width, m->ffn_width},
        {&layer->ffn_up, "ffn_up.weight", m->width, m->ffn_width},
        {&layer->ffn_down, "ffn_down.weight", m->ffn_width, m->width},
    };
    const struct {
        berth_tensor** place;
        const char* part;
        int64_t count;
        bool required;
    } vectors[] = {
        {&layer->attn_norm, "attn_norm.weight", m->width, true},
        {&layer->ffn_norm, "ffn_norm.weight", m->width, true},
        {&layer->q_bias, "attn_q.bias", q_width, false},
        {&layer->k_bias, "attn_k.bias", k_width, false},
        {&layer->v_bias, "attn_v.bias", v_width, false},
        {&layer->attn_output_bias, "attn_output.bias", m->width, false},
    };
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        *matrices[i].place = take_matrix(
            load, name_part(at, matrices[i].part).text, matrices[i].n_in, matrices[i].n_out, true);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        *vectors[i].place = take_vector(
            load, name_part(at, vectors[i].part).text, vectors[i].count, vectors[i].required);
}

static void load_ends(loader* load) {
    llm_model* model = load->model;
    const llm_model_params* m = &model->params;
    model->embedding = take_matrix(load, "token_embd.weight", m->width, m->vocab_tokens, true);
    uint64_t embedding_bytes = model->weight_bytes;
    model->output_norm = take_vector(load, "output_norm.weight", m->width, true);
    model->rope_divisors = take_vector(load, "rope_freqs.weight", m->rope_dims / 2, false);
    model->output = take_matrix(load, "output.weight", m->width, m->vocab_tokens, false);
    if (model->output == NULL)
        model->output = berth_retain(model->embedding); // tied
    else
        load->table_bytes = embedding_bytes; // one row of it is read for a token
}

berth_status llm_model_create(berth_context* context,
                              const llm_gguf* gguf,
                              llm_model** out_model,
                              llm_error* error) {
    *out_model = NULL;
    llm_model_params params;
    berth_status status = read_params(gguf, &params, error);
    if (status != BERTH_OK) return status;
    // a file holds nine tensors for each layer, so this bounds the memory below by the file
    status = check_range(
        "llama.block_count", (uint64_t)params.layers, 1, llm_gguf_tensor_count(gguf), error);
    if (status != BERTH_OK) return status;
    llm_model* model = llm_alloc_zeroed(1, sizeof *model);
    if (model == NULL) return llm_fail_memory(error, "a model");
    model->params = params;
    model->context = context;
    model->layers = llm_alloc_zeroed((size_t)params.layers, sizeof *model->layers);
    if (model->layers == NULL) {
        llm_model_destroy(model);
        return llm_fail_memory(error, "a model's layers");
    }
    const berth_device_kind device = berth_runtime_device_kind(berth_context_runtime(context));
    loader load = {.model = model,
                   .gguf = gguf,
                   .error = error,
                   .status = BERTH_OK,
                   .is_widened = device == BERTH_DEVICE_CUDA};
    load_ends(&load);
    for (int64_t at = 0; at < params.layers && load.status == BERTH_OK; at++)
        load_layer(&load, at);
    if (load.status != BERTH_OK) {
        llm_model_destroy(model);
        return load.status;
    }
    model->decode_weight_bytes = model->weight_bytes - load.table_bytes;
    *out_model = model;
    return BERTH_OK;
}

static void release_layer(const llm_layer* layer) {
    berth_release_all(layer->attn_norm,
                      layer->q,
                      layer->k,
                      layer->v,
                      layer->attn_output,
                      layer->q_bias,
                      layer->k_bias,
                      layer->v_bias,
                      layer->attn_output_bias,
                      layer->ffn_norm,
                      layer->ffn_gate,
                      layer->ffn_up,
                      layer->ffn_down);
}

void llm_model_destroy(llm_model* model) {
    if (model == NULL) return;
    for (int64_t at = 0; model->layers != NULL && at < model->params.layers; at++)
        release_layer(&model->layers[at]);
    berth_release_all(model->embedding, model->output, model->output_norm, model->rope_divisors);
    llm_free(model->layers);
    llm_free(model);
}
