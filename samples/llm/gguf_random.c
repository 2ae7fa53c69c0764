// SPDX-License-Identifier: Apache-2.0
// Random models: a vocabulary of bytes and seeded weights of about the spread of trained ones.
#include "gguf_random.h"

#include "llm_random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char chatml_template[] =
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// What a tensor's fill function needs; `spread` is the standard deviation of its values.
typedef struct weights {
    uint32_t type;
    float mean;
    float spread;
    uint64_t seed;
} weights;

typedef struct model {
    const llm_random_spec* spec;
    llm_gguf_writer writer;
    weights* weights; ///< one for each tensor, in order
    size_t count;
} model;

/// IEEE half of a positive number below 65504, rounded toward zero; subnormals become the smallest
/// normal number.
static uint16_t half_bits(float value) {
    if (value < 0x1p-14f) value = 0x1p-14f;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t exponent = (bits >> 23) - 127 + 15;
    return (uint16_t)((exponent << 10) | ((bits >> 13) & 0x3ff));
}

static void fill_f32(const weights* w, void* out, uint64_t size_bytes) {
    uint64_t state = w->seed;
    float* values = out;
    for (uint64_t i = 0; i < size_bytes / sizeof *values; i++) {
        // uniform on [-sqrt(3), sqrt(3)): standard deviation 1, and no library call to differ
        float uniform = (float)(llm_random_next(&state) >> 40) * 0x1p-24f;
        values[i] = w->mean + w->spread * 1.7320508f * (2.0f * uniform - 1.0f);
    }
}

/// Fills `count` bytes with random bits.
static void fill_bytes(uint64_t* state, uint8_t* out, size_t count) {
    for (size_t i = 0; i < count; i += 8) {
        uint64_t bits = llm_random_next(state);
        memcpy(out + i, &bits, count - i < 8 ? count - i : 8);
    }
}

static void fill_q8_0(const weights* w, void* out, uint64_t size_bytes) {
    uint64_t state = w->seed;
    uint16_t scale = half_bits(w->spread / 73.9f); // deviation of a uniform int8
    uint8_t* block = out;
    for (uint8_t* end = block + size_bytes; block < end; block += 34) {
        memcpy(block, &scale, sizeof scale);
        fill_bytes(&state, block + 2, 32);
    }
}

static void fill_q4_1(const weights* w, void* out, uint64_t size_bytes) {
    uint64_t state = w->seed;
    float step = w->spread / 4.61f; // deviation of a uniform nibble
    uint16_t scale = half_bits(step);
    uint16_t least = half_bits(7.5f * step) | 0x8000;
    uint8_t* block = out;
    for (uint8_t* end = block + size_bytes; block < end; block += 20) {
        memcpy(block, &scale, sizeof scale);
        memcpy(block + 2, &least, sizeof least);
        fill_bytes(&state, block + 4, 16);
    }
}

static void fill_weights(void* user, void* out, uint64_t size_bytes) {
    const weights* w = user;
    if (w->type == LLM_TENSOR_Q8_0)
        fill_q8_0(w, out, size_bytes);
    else if (w->type == LLM_TENSOR_Q4_1)
        fill_q4_1(w, out, size_bytes);
    else
        fill_f32(w, out, size_bytes);
}

static void add(model* m, const char* name, uint32_t rank, uint64_t n_in, uint64_t n_out) {
    const llm_random_spec* spec = m->spec;
    bool is_norm = rank == 1;
    bool is_embedding = strcmp(name, "token_embd.weight") == 0;
    weights* w = &m->weights[m->count++];
    uint64_t mixed = spec->seed + m->count;
    w->seed = llm_random_next(&mixed);
    w->mean = is_norm ? 1.0f : 0.0f;
    w->spread = is_norm ? 0.05f : sqrtf(1.0f / (float)n_in);
    w->type = is_norm ? LLM_TENSOR_F32 : is_embedding ? spec->embedding_type : spec->matrix_type;
    uint64_t dims[2] = {n_in, n_out};
    llm_gguf_add_tensor(&m->writer, name, w->type, rank, dims, fill_weights, w);
}

static void add_in_layer(
    model* m, uint32_t layer, const char* part, uint32_t rank, uint64_t n_in, uint64_t n_out) {
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s.weight", layer, part);
    add(m, name, rank, n_in, n_out);
}

static void add_tensors(model* m) {
    const llm_random_spec* spec = m->spec;
    uint64_t width = spec->width;
    uint64_t ffn = spec->ffn_width;
    uint64_t kv_width = width / spec->heads * spec->kv_heads;
    add(m, "token_embd.weight", 2, width, LLM_RANDOM_TOKENS);
    for (uint32_t i = 0; i < spec->layers; i++) {
        add_in_layer(m, i, "attn_norm", 1, width, 1);
        add_in_layer(m, i, "attn_q", 2, width, width);
        add_in_layer(m, i, "attn_k", 2, width, kv_width);
        add_in_layer(m, i, "attn_v", 2, width, kv_width);
        add_in_layer(m, i, "attn_output", 2, width, width);
        add_in_layer(m, i, "ffn_norm", 1, width, 1);
        add_in_layer(m, i, "ffn_gate", 2, width, ffn);
        add_in_layer(m, i, "ffn_up", 2, width, ffn);
        add_in_layer(m, i, "ffn_down", 2, ffn, width);
    }
    add(m, "output_norm.weight", 1, width, 1);
}

static void put_parameters(llm_gguf_writer* writer, const llm_random_spec* spec) {
    llm_gguf_put_string(writer, "general.architecture", llm_str_of("llama"));
    llm_gguf_put_string(writer, "general.name", llm_str_of("random"));
    llm_gguf_put_u32(writer, "llama.context_length", spec->context);
    llm_gguf_put_u32(writer, "llama.embedding_length", spec->width);
    llm_gguf_put_u32(writer, "llama.block_count", spec->layers);
    llm_gguf_put_u32(writer, "llama.feed_forward_length", spec->ffn_width);
    llm_gguf_put_u32(writer, "llama.attention.head_count", spec->heads);
    llm_gguf_put_u32(writer, "llama.attention.head_count_kv", spec->kv_heads);
    llm_gguf_put_f32(writer, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    llm_gguf_put_f32(writer, "llama.rope.freq_base", spec->rope_base);
    llm_gguf_put_u32(writer, "llama.vocab_size", LLM_RANDOM_TOKENS);
}

static bool type_fits(uint32_t type, uint32_t row_values) {
    bool known = type == LLM_TENSOR_F32 || type == LLM_TENSOR_Q8_0 || type == LLM_TENSOR_Q4_1;
    return known && row_values % llm_tensor_type_describe(type)->block_values == 0;
}

static berth_status check(const llm_random_spec* spec, llm_error* error) {
    bool heads_fit = spec->heads > 0 && spec->kv_heads > 0 && spec->width % spec->heads == 0 &&
                     spec->heads % spec->kv_heads == 0;
    bool bounded = spec->layers <= 1024 && spec->width <= 1 << 16 && spec->ffn_width <= 1 << 18;
    bool types_fit = type_fits(spec->embedding_type, spec->width) &&
                     type_fits(spec->matrix_type, spec->width) &&
                     type_fits(spec->matrix_type, spec->ffn_width);
    if (spec->layers > 0 && spec->width > 0 && spec->ffn_width > 0 && heads_fit && bounded &&
        types_fit)
        return BERTH_OK;
    return llm_fail(error,
                    BERTH_ERR_INVALID_ARGUMENT,
                    "a random model of %u layers, width %u, %u heads, %u KV heads and FFN width %u "
                    "does not fit together",
                    spec->layers,
                    spec->width,
                    spec->heads,
                    spec->kv_heads,
                    spec->ffn_width);
}

/// Writes the character that stands for a byte in byte-level vocabularies; returns its length.
static size_t write_byte_character(unsigned byte, unsigned* next_spare, char out[2]) {
    bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    unsigned code = itself ? byte : (*next_spare)++;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0 | (code >> 6));
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

/// Puts the metadata of a byte-level vocabulary.
static void put_vocabulary(llm_gguf_writer* writer) {
    char texts[LLM_RANDOM_TOKENS][20] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    llm_str tokens[LLM_RANDOM_TOKENS];
    int32_t kinds[LLM_RANDOM_TOKENS];
    unsigned next_spare = 256;
    for (unsigned i = 0; i < LLM_RANDOM_TOKENS; i++) {
        bool is_control = i < LLM_RANDOM_CONTROL_TOKENS;
        if (i >= 3 && is_control) snprintf(texts[i], sizeof texts[i], "<|reserved_%u|>", i);
        tokens[i] = llm_str_of(texts[i]);
        if (!is_control) {
            unsigned byte = i - LLM_RANDOM_CONTROL_TOKENS;
            tokens[i].size = write_byte_character(byte, &next_spare, texts[i]);
        }
        kinds[i] = is_control ? 3 : 1;
    }
    llm_gguf_put_string(writer, "tokenizer.ggml.model", llm_str_of("gpt2"));
    llm_gguf_put_string(writer, "tokenizer.ggml.pre", llm_str_of("smollm"));
    llm_gguf_put_strings(writer, "tokenizer.ggml.tokens", tokens, LLM_RANDOM_TOKENS);
    llm_gguf_put_numbers(
        writer, "tokenizer.ggml.token_type", LLM_GGUF_I32, kinds, LLM_RANDOM_TOKENS);
    llm_gguf_put_strings(writer, "tokenizer.ggml.merges", NULL, 0);
    llm_gguf_put_u32(writer, "tokenizer.ggml.bos_token_id", 1);
    llm_gguf_put_u32(writer, "tokenizer.ggml.eos_token_id", 2);
    llm_gguf_put_bool(writer, "tokenizer.ggml.add_bos_token", false);
    llm_gguf_put_string(writer, "tokenizer.chat_template", llm_str_of(chatml_template));
}

llm_random_spec llm_random_spec_smollm2(uint64_t seed) {
    // twice the real context: a vocabulary of bytes makes texts four times as long
    return (llm_random_spec){.width = 576,
                             .layers = 30,
                             .heads = 9,
                             .kv_heads = 3,
                             .ffn_width = 1536,
                             .context = 16384,
                             .rope_base = 100000.0f,
                             .embedding_type = LLM_TENSOR_Q8_0,
                             .matrix_type = LLM_TENSOR_Q4_1,
                             .seed = seed};
}

llm_random_spec llm_random_spec_tiny(uint64_t seed) {
    return (llm_random_spec){.width = 64,
                             .layers = 2,
                             .heads = 4,
                             .kv_heads = 2,
                             .ffn_width = 96,
                             .context = 512,
                             .rope_base = 10000.0f,
                             .embedding_type = LLM_TENSOR_Q8_0,
                             .matrix_type = LLM_TENSOR_Q4_1,
                             .seed = seed};
}

berth_status llm_random_model(const llm_random_spec* spec,
                              void** out_data,
                              size_t* out_size,
                              llm_error* error) {
    *out_data = NULL;
    *out_size = 0;
    berth_status status = check(spec, error);
    if (status != BERTH_OK) return status;
    model m = {.spec = spec};
    m.weights = llm_alloc_zeroed((size_t)spec->layers * 9 + 2, sizeof *m.weights);
    if (m.weights == NULL) return llm_fail_memory(error, "a random model");
    llm_gguf_writer_init(&m.writer, 32);
    put_parameters(&m.writer, spec);
    put_vocabulary(&m.writer);
    add_tensors(&m);
    status = llm_gguf_writer_finish(&m.writer, out_data, out_size, error);
    llm_gguf_writer_fini(&m.writer);
    llm_free(m.weights);
    return status;
}
