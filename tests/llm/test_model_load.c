// SPDX-License-Identifier: Apache-2.0
// Tests of loading: what a model's metadata and tensors must be, and that each thing that is wrong
// is named.
#include "llm/model_kit.h"

#include <math.h>

/// A change to the small model below: a pair or a tensor left out or replaced.
typedef struct change {
    const char* name;
    bool is_dropped;
    uint32_t number;  ///< of a pair
    float real;       ///< of a pair of a real number
    const char* text; ///< of a pair of text
    uint64_t dims[2]; ///< of a tensor
    uint32_t type;    ///< of a tensor
} change;

/// A writer and the changes asked of it.
typedef struct forge {
    llm_gguf_writer writer;
    const change* changes;
    size_t count;
} forge;

static const change* find_change(const forge* f, const char* name) {
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->changes[i].name, name) == 0) return &f->changes[i];
    return NULL;
}

static void put_number(forge* f, const char* key, uint32_t value) {
    const change* c = find_change(f, key);
    if (c == NULL)
        llm_gguf_put_u32(&f->writer, key, value);
    else if (c->text != NULL)
        llm_gguf_put_string(&f->writer, key, llm_str_of(c->text));
    else if (!c->is_dropped)
        llm_gguf_put_u32(&f->writer, key, c->number);
}

static void put_real(forge* f, const char* key, float value) {
    const change* c = find_change(f, key);
    if (c == NULL || !c->is_dropped) llm_gguf_put_f32(&f->writer, key, c == NULL ? value : c->real);
}

/// Puts a number that the model has only if a change says so.
static void put_optional(forge* f, const char* key) {
    const change* c = find_change(f, key);
    if (c != NULL) put_number(f, key, 0);
}

static void put_tensor(forge* f, const char* name, uint64_t n_in, uint64_t n_out) {
    const change* c = find_change(f, name);
    if (c != NULL && c->is_dropped) return;
    uint64_t dims[2] = {n_in, n_out};
    uint32_t type = LLM_TENSOR_F32;
    if (c != NULL) {
        memcpy(dims, c->dims, sizeof dims);
        type = c->type;
    }
    llm_gguf_add_tensor(&f->writer, name, type, dims[1] == 0 ? 1 : 2, dims, NULL, NULL);
}

static void put_optional_tensor(forge* f, const char* name) {
    if (find_change(f, name) != NULL) put_tensor(f, name, 0, 0);
}

/// Width 8, two heads of 4 over one KV head, FFN 16, one layer, 5 tokens; all weights zero.
static void put_model(forge* f) {
    const change* kind = find_change(f, "general.architecture");
    if (kind == NULL || !kind->is_dropped)
        llm_gguf_put_string(
            &f->writer, "general.architecture", llm_str_of(kind == NULL ? "llama" : kind->text));
    put_number(f, "llama.context_length", 32);
    put_number(f, "llama.embedding_length", 8);
    put_number(f, "llama.block_count", 1);
    put_number(f, "llama.feed_forward_length", 16);
    put_number(f, "llama.attention.head_count", 2);
    put_number(f, "llama.attention.head_count_kv", 1);
    put_number(f, "llama.vocab_size", 5);
    put_real(f, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_real(f, "llama.rope.freq_base", 10000.0f);
    put_optional(f, "llama.attention.key_length");
    put_optional(f, "llama.attention.value_length");
    put_optional(f, "llama.rope.dimension_count");
    put_optional(f, "llama.rope.scaling.type");
    if (find_change(f, "llama.rope.scaling.factor") != NULL)
        put_real(f, "llama.rope.scaling.factor", 0.0f);
    if (find_change(f, "llama.rope.scale_linear") != NULL)
        put_real(f, "llama.rope.scale_linear", 0.0f);
    put_optional(f, "llama.expert_count");
    put_optional(f, "split.count");
}

static void put_tensors(forge* f) {
    put_tensor(f, "token_embd.weight", 8, 5);
    put_tensor(f, "output_norm.weight", 8, 0);
    put_tensor(f, "blk.0.attn_norm.weight", 8, 0);
    put_tensor(f, "blk.0.attn_q.weight", 8, 8);
    put_tensor(f, "blk.0.attn_k.weight", 8, 4);
    put_tensor(f, "blk.0.attn_v.weight", 8, 4);
    put_tensor(f, "blk.0.attn_output.weight", 8, 8);
    put_tensor(f, "blk.0.ffn_norm.weight", 8, 0);
    put_tensor(f, "blk.0.ffn_gate.weight", 8, 16);
    put_tensor(f, "blk.0.ffn_up.weight", 8, 16);
    put_tensor(f, "blk.0.ffn_down.weight", 16, 8);
    put_optional_tensor(f, "blk.0.attn_q.bias");
    put_optional_tensor(f, "blk.0.attn_output.bias");
    put_optional_tensor(f, "output.weight");
    put_optional_tensor(f, "rope_freqs.weight");
}

/// Makes the model with `changes` and opens it in a rig; returns the status, the text in
/// `r->error`.
static berth_status try_changed(rig* r,
                                random_file* file,
                                const change* changes,
                                size_t change_count) {
    forge f = {.changes = changes, .count = change_count};
    llm_gguf_writer_init(&f.writer, 32);
    put_model(&f);
    put_tensors(&f);
    size_t size;
    file->data = finish_file(&f.writer, &size);
    llm_error error = {{0}};
    if (llm_gguf_open_memory(file->data, size, &file->gguf, &error) != BERTH_OK)
        fail_msg("%s", error.text);
    return rig_try_open(r, file->gguf, &(rig_options){0});
}

static void close_changed(rig* r, random_file* file) {
    rig_close(r);
    random_file_close(file);
}

static void assert_refused(const change* changes,
                           size_t change_count,
                           berth_status expected,
                           const char* mention) {
    rig r;
    random_file file;
    berth_status status = try_changed(&r, &file, changes, change_count);
    if (status != expected)
        fail_msg("%s: got %s (%s), expected %s",
                 changes[0].name,
                 berth_status_name(status),
                 r.error.text,
                 berth_status_name(expected));
    assert_mentions(&r.error, mention);
    assert_null(r.model);
    close_changed(&r, &file);
}

/// Opens a changed model, runs tokens and gives its parameters.
static llm_model_params assert_accepted(const change* changes, size_t change_count) {
    rig r;
    random_file file;
    if (try_changed(&r, &file, changes, change_count) != BERTH_OK) fail_msg("%s", r.error.text);
    int32_t ids[] = {0, 4, 2};
    rig_feed(&r, ids, 3);
    rig_feed(&r, ids, 1);
    for (size_t i = 0; i < rig_vocab(&r); i++)
        assert_true(r.session->logits[i] == 0.0f);
    llm_model_params params = r.model->params;
    close_changed(&r, &file);
    return params;
}

static void the_model_without_changes_runs(void** state) {
    (void)state;
    llm_model_params p = assert_accepted(NULL, 0);
    assert_int_equal(p.key_dims, 4);
    assert_int_equal(p.value_dims, 4);
    assert_int_equal(p.rope_dims, 4);
    assert_int_equal(p.vocab_tokens, 5);
    assert_true(p.rope_position_scale == 1.0);
}

static void metadata_that_the_model_needs_must_be_there(void** state) {
    (void)state;
    static const char* const keys[] = {"general.architecture",
                                       "llama.context_length",
                                       "llama.embedding_length",
                                       "llama.block_count",
                                       "llama.feed_forward_length",
                                       "llama.attention.head_count",
                                       "llama.attention.layer_norm_rms_epsilon"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        change dropped = {.name = keys[i], .is_dropped = true};
        assert_refused(&dropped, 1, BERTH_ERR_NOT_FOUND, keys[i]);
    }
}

static void metadata_that_may_be_absent_has_its_usual_value(void** state) {
    (void)state;
    change changes[] = {
        {.name = "llama.attention.head_count_kv", .is_dropped = true},
        {.name = "llama.rope.freq_base", .is_dropped = true},
        {.name = "blk.0.attn_k.weight", .dims = {8, 8}},
        {.name = "blk.0.attn_v.weight", .dims = {8, 8}},
    };
    llm_model_params p = assert_accepted(changes, 4);
    assert_int_equal(p.kv_heads, 2);
    assert_true(p.rope_base == 10000.0);
}

static void numbers_that_cannot_be_are_refused(void** state) {
    (void)state;
    static const change cases[] = {
        {.name = "llama.context_length", .number = 0},
        {.name = "llama.embedding_length", .number = UINT32_MAX},
        {.name = "llama.block_count", .number = 0},
        {.name = "llama.block_count", .number = 1000000},
        {.name = "llama.feed_forward_length", .number = 0},
        {.name = "llama.attention.head_count", .number = 0},
        {.name = "llama.attention.head_count", .text = "two"},
        {.name = "llama.attention.head_count", .number = 3},
        {.name = "llama.attention.head_count_kv", .number = 0},
        {.name = "llama.attention.head_count_kv", .number = 3},
        {.name = "llama.attention.key_length", .number = 0},
        {.name = "llama.attention.value_length", .number = 0},
        {.name = "llama.attention.layer_norm_rms_epsilon", .real = -1.0f},
        {.name = "llama.attention.layer_norm_rms_epsilon", .real = NAN},
        {.name = "llama.rope.dimension_count", .number = 3},
        {.name = "llama.rope.dimension_count", .number = 6},
        {.name = "llama.rope.freq_base", .real = 0.0f},
        {.name = "llama.rope.freq_base", .real = INFINITY},
        {.name = "llama.rope.scale_linear", .real = 0.0f},
        {.name = "llama.vocab_size", .number = 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(&cases[i], 1, BERTH_ERR_CORRUPT, cases[i].name);
}

static void models_of_other_kinds_are_refused_by_name(void** state) {
    (void)state;
    change qwen = {.name = "general.architecture", .text = "qwen2"};
    assert_refused(&qwen, 1, BERTH_ERR_UNSUPPORTED, "qwen2");
    change experts = {.name = "llama.expert_count", .number = 8};
    assert_refused(&experts, 1, BERTH_ERR_UNSUPPORTED, "expert");
    change no_experts = {.name = "llama.expert_count", .number = 0};
    assert_accepted(&no_experts, 1);
    change split = {.name = "split.count", .number = 3};
    assert_refused(&split, 1, BERTH_ERR_UNSUPPORTED, "split.count");
    change yarn = {.name = "llama.rope.scaling.type", .text = "yarn"};
    assert_refused(&yarn, 1, BERTH_ERR_UNSUPPORTED, "yarn");
}

static void positions_are_scaled_as_the_file_says(void** state) {
    (void)state;
    change linear[] = {{.name = "llama.rope.scaling.type", .text = "linear"},
                       {.name = "llama.rope.scaling.factor", .real = 4.0f}};
    assert_true(assert_accepted(linear, 2).rope_position_scale == 0.25);
    change none[] = {{.name = "llama.rope.scaling.type", .text = "none"},
                     {.name = "llama.rope.scaling.factor", .real = 4.0f}};
    assert_true(assert_accepted(none, 2).rope_position_scale == 1.0);
    change old = {.name = "llama.rope.scale_linear", .real = 2.0f};
    assert_true(assert_accepted(&old, 1).rope_position_scale == 0.5);
}

static void tensors_that_the_model_needs_must_be_there(void** state) {
    (void)state;
    static const char* const names[] = {"token_embd.weight",
                                        "output_norm.weight",
                                        "blk.0.attn_norm.weight",
                                        "blk.0.attn_q.weight",
                                        "blk.0.attn_k.weight",
                                        "blk.0.attn_v.weight",
                                        "blk.0.attn_output.weight",
                                        "blk.0.ffn_norm.weight",
                                        "blk.0.ffn_gate.weight",
                                        "blk.0.ffn_up.weight",
                                        "blk.0.ffn_down.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        change dropped = {.name = names[i], .is_dropped = true};
        assert_refused(&dropped, 1, BERTH_ERR_NOT_FOUND, names[i]);
    }
    change layers = {.name = "llama.block_count", .number = 2};
    assert_refused(&layers, 1, BERTH_ERR_NOT_FOUND, "blk.1.");
}

static void tensors_of_other_shapes_or_types_are_refused(void** state) {
    (void)state;
    static const change cases[] = {
        {.name = "token_embd.weight", .dims = {8, 6}},
        {.name = "token_embd.weight", .dims = {16, 5}},
        {.name = "blk.0.attn_q.weight", .dims = {8, 9}},
        {.name = "blk.0.attn_k.weight", .dims = {8, 0}},
        {.name = "blk.0.ffn_down.weight", .dims = {8, 16}},
        {.name = "output_norm.weight", .dims = {7, 0}},
        {.name = "output_norm.weight", .dims = {8, 0}, .type = LLM_TENSOR_F16},
        {.name = "blk.0.ffn_norm.weight", .dims = {8, 1}},
        {.name = "blk.0.attn_q.bias", .dims = {9, 0}},
        {.name = "blk.0.attn_q.bias", .dims = {8, 0}, .type = LLM_TENSOR_F16},
        {.name = "rope_freqs.weight", .dims = {4, 0}},
        {.name = "output.weight", .dims = {8, 4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(&cases[i], 1, BERTH_ERR_CORRUPT, cases[i].name);
}

static void optional_tensors_are_used_where_they_are(void** state) {
    (void)state;
    change changes[] = {{.name = "blk.0.attn_q.bias", .dims = {8, 0}},
                        {.name = "blk.0.attn_output.bias", .dims = {8, 0}},
                        {.name = "output.weight", .dims = {8, 5}, .type = LLM_TENSOR_F16}};
    rig r;
    random_file file;
    assert_int_equal(try_changed(&r, &file, changes, 3), BERTH_OK);
    assert_non_null(r.model->layers[0].q_bias);
    assert_null(r.model->layers[0].k_bias);
    assert_non_null(r.model->layers[0].attn_output_bias);
    assert_true(r.model->output != r.model->embedding);
    assert_int_equal(r.model->weight_bytes - r.model->decode_weight_bytes, 8 * 5 * 4);
    close_changed(&r, &file);
    assert_accepted(changes, 3);
}

static void an_absent_output_matrix_is_the_embedding(void** state) {
    (void)state;
    rig r;
    random_file file;
    assert_int_equal(try_changed(&r, &file, NULL, 0), BERTH_OK);
    assert_ptr_equal(r.model->output, r.model->embedding);
    assert_int_equal(r.model->weight_bytes, r.model->decode_weight_bytes);
    close_changed(&r, &file);
}

static void heads_of_unusual_sizes_run(void** state) {
    (void)state;
    change changes[] = {{.name = "llama.attention.key_length", .number = 6},
                        {.name = "llama.attention.value_length", .number = 2},
                        {.name = "llama.rope.dimension_count", .number = 4},
                        {.name = "blk.0.attn_q.weight", .dims = {8, 12}},
                        {.name = "blk.0.attn_k.weight", .dims = {8, 6}},
                        {.name = "blk.0.attn_v.weight", .dims = {8, 2}},
                        {.name = "blk.0.attn_output.weight", .dims = {4, 8}}};
    llm_model_params p = assert_accepted(changes, sizeof changes / sizeof *changes);
    assert_int_equal(p.key_dims, 6);
    assert_int_equal(p.value_dims, 2);
    assert_int_equal(p.rope_dims, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_without_changes_runs),
        cmocka_unit_test(metadata_that_the_model_needs_must_be_there),
        cmocka_unit_test(metadata_that_may_be_absent_has_its_usual_value),
        cmocka_unit_test(numbers_that_cannot_be_are_refused),
        cmocka_unit_test(models_of_other_kinds_are_refused_by_name),
        cmocka_unit_test(positions_are_scaled_as_the_file_says),
        cmocka_unit_test(tensors_that_the_model_needs_must_be_there),
        cmocka_unit_test(tensors_of_other_shapes_or_types_are_refused),
        cmocka_unit_test(optional_tensors_are_used_where_they_are),
        cmocka_unit_test(an_absent_output_matrix_is_the_embedding),
        cmocka_unit_test(heads_of_unusual_sizes_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
