// SPDX-License-Identifier: Apache-2.0
// Tests of the model and its sessions: known answers, and the same bits however the work is cut,
// placed and spread.
#include "llm/model_kit.h"

#include <math.h>
#include <unistd.h>

static random_file tiny;

static int open_tiny(void** state) {
    (void)state;
    llm_random_spec spec = llm_random_spec_tiny(7);
    tiny = random_file_open(&spec);
    return 0;
}

static int close_tiny(void** state) {
    (void)state;
    random_file_close(&tiny);
    return 0;
}

// Known answers from the shared folder.

/// Reads up to `count` numbers of the array called `name` in a JSON text; returns how many.
static size_t read_numbers(const char* json, const char* name, double* out, size_t count) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":[", name);
    const char* at = strstr(json, key);
    if (at == NULL) return 0;
    at += strlen(key);
    size_t got = 0;
    while (got < count && *at != ']') {
        char* end;
        out[got++] = strtod(at, &end);
        at = *end == ',' ? end + 1 : end;
    }
    return got;
}

/// A model with what it should say.
typedef struct probe {
    llm_gguf* gguf;
    char* json;
    double logits[1000];
    int32_t prompt[8];
    int32_t greedy[16];
} probe;

static char* read_text(const char* path) {
    FILE* file = fopen(path, "rb");
    assert_non_null(file);
    char* text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void read_ids(const char* json, const char* name, int32_t* out, size_t count) {
    double numbers[16];
    assert_int_equal(read_numbers(json, name, numbers, count), count);
    for (size_t i = 0; i < count; i++)
        out[i] = (int32_t)numbers[i];
}

/// Opens data/gguf/NAME.gguf and .json, or skips the test.
static probe* open_probe(const char* name) {
    const char* shared = shared_data_folder("known answers");
    probe* p = calloc(1, sizeof *p);
    assert_non_null(p);
    char path[4096];
    llm_error error;
    snprintf(path, sizeof path, "%s/data/gguf/%s.gguf", shared, name);
    assert_int_equal(llm_gguf_open(path, true, &p->gguf, &error), BERTH_OK);
    snprintf(path, sizeof path, "%s/data/gguf/%s.json", shared, name);
    p->json = read_text(path);
    assert_int_equal(read_numbers(p->json, "logits_after_prompt", p->logits, 1000), 1000);
    read_ids(p->json, "prompt", p->prompt, 8);
    read_ids(p->json, "greedy", p->greedy, 16);
    return p;
}

static void close_probe(probe* p) {
    llm_gguf_close(p->gguf);
    free(p->json);
    free(p);
}

/// Largest distance of the session's logits from the known ones.
static double largest_error(const rig* r, const probe* p) {
    double largest = 0.0;
    for (size_t i = 0; i < 1000; i++) {
        double distance = fabs((double)r->session->logits[i] - p->logits[i]);
        if (!(distance <= largest)) largest = distance;
    }
    return largest;
}

static void assert_probe_logits(const char* name) {
    probe* p = open_probe(name);
    rig r;
    rig_open(&r, p->gguf, &(rig_options){0});
    rig_feed(&r, p->prompt, 8);
    double error = largest_error(&r, p);
    print_message("%s: largest error of a logit %.2g\n", name, error);
    assert_true(error < 1e-3);
    rig_close(&r);
    close_probe(p);
}

static void a_model_of_plain_weights_gives_the_known_logits(void** state) {
    (void)state;
    assert_probe_logits("probe-f32");
}

static void a_model_of_every_quantised_type_gives_the_known_logits(void** state) {
    (void)state;
    assert_probe_logits("probe-mixed");
}

static void a_model_of_plain_weights_makes_the_known_tokens(void** state) {
    (void)state;
    probe* p = open_probe("probe-f32");
    rig r;
    rig_open(&r, p->gguf, &(rig_options){0});
    // more than once, so that planned runs are among them
    for (int i = 0; i < 5; i++) {
        llm_tokens tokens = {0};
        rig_answer(&r, p->prompt, 8, 16, &tokens);
        assert_int_equal(tokens.count, 16);
        assert_memory_equal(tokens.ids, p->greedy, sizeof p->greedy);
        llm_tokens_fini(&tokens);
    }
    rig_close(&r);
    close_probe(p);
}

// The same bits whatever is done for memory and speed.

/// Runs the trial under the given settings and compares it with the one under the defaults.
static void assert_same_as_default(const rig_options* options) {
    trial expected = trial_of(tiny.gguf, &(rig_options){0});
    trial actual = trial_of(tiny.gguf, options);
    assert_same_trial(&expected, &actual);
    trial_fini(&expected);
    trial_fini(&actual);
}

static void assert_same_with(const char* name, const char* value) {
    berth_option_setting setting = {name, value};
    assert_same_as_default(&(rig_options){.settings = &setting, .setting_count = 1});
}

static void planning_changes_no_bit(void** state) {
    (void)state;
    assert_same_with("mode", "pool");
}

static void taking_storage_from_the_system_changes_no_bit(void** state) {
    (void)state;
    assert_same_with("mode", "system");
}

static void the_number_of_threads_changes_no_bit(void** state) {
    (void)state;
    assert_same_with("threads", "1");
    assert_same_with("threads", "2");
    assert_same_with("threads", "3");
}

static void bucket_policies_change_no_bit(void** state) {
    (void)state;
    assert_same_with("buckets", "pow2");
    assert_same_with("buckets", "linear:16");
}

static void an_asynchronous_device_changes_no_bit(void** state) {
    (void)state;
    assert_same_with("device", "sim");
}

static void moving_tensors_at_every_opportunity_changes_no_bit(void** state) {
    (void)state;
    const char* const devices[] = {"cpu", "sim"};
    trial expected = trial_of(tiny.gguf, &(rig_options){0});
    for (size_t i = 0; i < 2; i++) {
        const berth_option_setting settings[] = {{"device", devices[i]}, {"compact", "always"}};
        rig r;
        rig_open(&r, tiny.gguf, &(rig_options){.settings = settings, .setting_count = 2});
        trial actual;
        trial_run(&actual, &r);
        assert_same_trial(&expected, &actual);
        berth_memory_stats memory;
        assert_int_equal(berth_runtime_query_memory(r.runtime, &memory), BERTH_OK);
        assert_true(memory.moved_bytes > 100000);
        rig_close(&r);
        trial_fini(&actual);
    }
    trial_fini(&expected);
}

static void prompts_in_chunks_give_the_same_bits(void** state) {
    (void)state;
    for (int64_t chunk = 1; chunk <= 64; chunk = chunk * 3 + 1)
        assert_same_as_default(&(rig_options){.session = {.chunk_tokens = chunk}});
}

static void a_mapped_file_and_a_read_one_give_the_same_bits(void** state) {
    (void)state;
    char path[] = "/tmp/berth-test-model-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    llm_str bytes = llm_gguf_bytes(tiny.gguf);
    assert_int_equal(write(file, bytes.data, bytes.size), bytes.size);
    close(file);
    trial expected = trial_of(tiny.gguf, &(rig_options){0});
    for (int use_mmap = 0; use_mmap <= 1; use_mmap++) {
        llm_gguf* gguf;
        llm_error error;
        assert_int_equal(llm_gguf_open(path, use_mmap != 0, &gguf, &error), BERTH_OK);
        trial actual = trial_of(gguf, &(rig_options){0});
        assert_same_trial(&expected, &actual);
        trial_fini(&actual);
        llm_gguf_close(gguf);
    }
    trial_fini(&expected);
    unlink(path);
}

/// Runs an op that the step's trace does not know, at some layers of some runs.
static void run_odd_op(void* user, berth_context* ctx, int64_t layer, berth_tensor* hidden) {
    uint64_t* calls = user;
    if ((*calls)++ % 7 != (uint64_t)layer) return;
    berth_tensor* twice = berth_add(ctx, hidden, hidden);
    berth_release(berth_exp(ctx, berth_move(twice)));
}

static void leaving_the_known_path_changes_no_bit(void** state) {
    (void)state;
    uint64_t calls = 0;
    trial expected = trial_of(tiny.gguf, &(rig_options){0});
    rig r;
    rig_open(&r, tiny.gguf, &(rig_options){.session = {.hook = run_odd_op, .hook_user = &calls}});
    trial actual;
    trial_run(&actual, &r);
    assert_same_trial(&expected, &actual);
    assert_true(query_step(&r, "decode").side_exits > 0);
    rig_close(&r);
    trial_fini(&expected);
    trial_fini(&actual);
}

static void scoring_gives_each_token_the_logits_that_feeding_gives(void** state) {
    (void)state;
    enum { COUNT = 20 };
    rig r;
    rig_open(&r, tiny.gguf, &(rig_options){0});
    size_t vocab = rig_vocab(&r);
    int32_t ids[COUNT];
    make_prompt(3, (int64_t)vocab, ids, COUNT);
    float* scores = malloc(COUNT * vocab * sizeof *scores);
    assert_non_null(scores);
    assert_int_equal(llm_session_score(r.session, ids, COUNT, scores, &r.error), BERTH_OK);
    llm_session_reset(r.session);
    for (size_t i = 0; i < COUNT; i++) {
        rig_feed(&r, &ids[i], 1);
        assert_memory_equal(scores + i * vocab, r.session->logits, vocab * sizeof *scores);
    }
    free(scores);
    rig_close(&r);
}

static void half_precision_keys_and_values_come_close(void** state) {
    (void)state;
    rig single, half;
    rig_open(&single, tiny.gguf, &(rig_options){0});
    rig_open(&half, tiny.gguf, &(rig_options){.session = {.kv_dtype = BERTH_F16}});
    int32_t ids[50];
    make_prompt(4, (int64_t)rig_vocab(&single), ids, 50);
    rig_feed(&single, ids, 50);
    rig_feed(&half, ids, 50);
    berth_kv_layout plain, halved;
    berth_kv_cache_layout(single.session->cache, &plain);
    berth_kv_cache_layout(half.session->cache, &halved);
    assert_int_equal(halved.token_bytes * 2, plain.token_bytes);
    double largest = 0.0;
    for (size_t i = 0; i < rig_vocab(&single); i++)
        largest = fmax(largest,
                       fabs((double)single.session->logits[i] - (double)half.session->logits[i]));
    assert_true(largest > 0.0 && largest < 0.02);
    rig_close(&single);
    rig_close(&half);
}

// What Berth is for.

static void after_three_lengths_every_run_is_a_hit(void** state) {
    (void)state;
    // long enough for kernels to change the way they cut their work, several times
    llm_random_spec spec = llm_random_spec_tiny(7);
    spec.context = 2048;
    random_file file = random_file_open(&spec);
    berth_option_setting setting = {"threads", "2"};
    rig r;
    rig_open(
        &r,
        file.gguf,
        &(rig_options){.settings = &setting, .setting_count = 1, .session = {.watch_hits = true}});
    for (int64_t i = 0; i < 30; i++) {
        int32_t ids[1100];
        int64_t count = 3 + i * 37;
        make_prompt((uint64_t)i, (int64_t)rig_vocab(&r), ids, count);
        llm_tokens tokens = {0};
        rig_answer(&r, ids, count, 8, &tokens);
        llm_tokens_fini(&tokens);
    }
    for (int kind = LLM_STEP_PREFILL; kind <= LLM_STEP_DECODE; kind++) {
        const llm_step_record* record = &r.session->steps[kind];
        berth_step_counters counters = query_step(&r, llm_step_kind_name((llm_step_kind)kind));
        assert_int_equal(counters.runs, record->runs);
        assert_int_equal(record->late_misses, 0);
        assert_int_equal(counters.paths, 1);
        assert_true(counters.hits + LLM_LEARNING_LENGTHS >= counters.runs);
        assert_true(counters.ratio_runs > 0);
        assert_true(counters.ratio_sum_ppm <= counters.ratio_runs * 1020000);
        assert_true(counters.ratio_max_ppm <= 1150000);
    }
    rig_close(&r);
    random_file_close(&file);
}

static berth_kv_stats query_cache(const rig* r) {
    berth_kv_stats stats;
    berth_kv_cache_query_stats(r->session->cache, &stats);
    return stats;
}

static void the_cache_takes_blocks_as_tokens_come_and_uses_them_again(void** state) {
    (void)state;
    rig r;
    rig_open(&r, tiny.gguf, &(rig_options){.session = {.block_tokens = 16}});
    size_t vocab = rig_vocab(&r);
    int32_t ids[300];
    make_prompt(5, (int64_t)vocab, ids, 300);
    assert_int_equal(query_cache(&r).mapped_bytes, 0);
    for (int64_t i = 0; i < 300; i += 20) {
        rig_feed(&r, ids + i, 20);
        assert_int_equal(query_cache(&r).held_blocks, (i + 20 + 15) / 16);
    }
    berth_kv_stats full = query_cache(&r);
    assert_int_equal(llm_session_length(r.session), 300);
    assert_int_equal(full.held_tokens, 300);
    assert_int_equal(full.copied_blocks, 0);
    float* fed = malloc(vocab * sizeof *fed);
    assert_non_null(fed);
    memcpy(fed, r.session->logits, vocab * sizeof *fed);
    llm_session_reset(r.session);
    assert_int_equal(query_cache(&r).held_blocks, 0);
    rig_feed(&r, ids, 300);
    assert_int_equal(query_cache(&r).mapped_bytes, full.mapped_bytes);
    assert_memory_equal(fed, r.session->logits, vocab * sizeof *fed);
    free(fed);
    rig_close(&r);
}

static void the_size_of_blocks_changes_no_bit(void** state) {
    (void)state;
    assert_same_as_default(&(rig_options){.session = {.block_tokens = 1}});
    assert_same_as_default(&(rig_options){.session = {.block_tokens = 7}});
    assert_same_as_default(&(rig_options){.session = {.block_tokens = 1024}});
}

// What goes wrong.

static void more_tokens_than_the_context_are_refused_and_forgotten(void** state) {
    (void)state;
    rig r;
    rig_open(&r, tiny.gguf, &(rig_options){.session = {.context_tokens = 40}});
    int32_t ids[41];
    make_prompt(6, (int64_t)rig_vocab(&r), ids, 41);
    assert_int_equal(llm_session_feed(r.session, ids, 41, &r.error), BERTH_ERR_INVALID_ARGUMENT);
    assert_mentions(&r.error, "context of 40");
    rig_feed(&r, ids, 40);
    assert_int_equal(llm_session_feed(r.session, ids, 1, &r.error), BERTH_ERR_INVALID_ARGUMENT);
    assert_int_equal(llm_session_length(r.session), 40);
    rig_close(&r);
}

static void tokens_outside_the_vocabulary_are_refused(void** state) {
    (void)state;
    rig r;
    rig_open(&r, tiny.gguf, &(rig_options){0});
    int32_t ids[] = {1, -1};
    assert_int_equal(llm_session_feed(r.session, ids, 2, &r.error), BERTH_ERR_INVALID_ARGUMENT);
    assert_mentions(&r.error, "token -1");
    ids[1] = (int32_t)rig_vocab(&r);
    assert_int_equal(llm_session_feed(r.session, ids, 2, &r.error), BERTH_ERR_INVALID_ARGUMENT);
    assert_int_equal(llm_session_feed(r.session, ids, 0, &r.error), BERTH_ERR_INVALID_ARGUMENT);
    assert_mentions(&r.error, "no tokens");
    rig_close(&r);
}

static void an_answer_ends_where_the_context_does(void** state) {
    (void)state;
    rig r;
    rig_open(&r, tiny.gguf, &(rig_options){.session = {.context_tokens = 10}});
    llm_sampler_options greedy = llm_sampler_options_default();
    llm_sampler* sampler;
    assert_int_equal(llm_sampler_create(&greedy, rig_vocab(&r), &sampler, &r.error), BERTH_OK);
    int32_t ids[8];
    make_prompt(8, (int64_t)rig_vocab(&r), ids, 8);
    llm_generate_options options = {.max_tokens = 50, .sampler = sampler};
    llm_generate_result result;
    llm_tokens tokens = {0};
    assert_int_equal(llm_generate(r.session, ids, 8, &options, &tokens, &result, &r.error),
                     BERTH_OK);
    assert_int_equal(result.reason, LLM_STOP_CONTEXT);
    assert_int_equal(result.tokens, 3); // the last is chosen, but there is no room to feed it
    assert_int_equal(tokens.count, 3);
    llm_tokens_fini(&tokens);
    llm_sampler_destroy(sampler);
    rig_close(&r);
}

static void session_options_out_of_range_are_refused(void** state) {
    (void)state;
    static const struct {
        llm_session_options options;
        const char* mention;
    } cases[] = {
        {{.context_tokens = 513}, "context of 513"},
        {{.context_tokens = -1}, "context of -1"},
        {{.chunk_tokens = -5}, "chunk of -5"},
        {{.block_tokens = 1025}, "1025"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        assert_int_equal(rig_try_open(&r, tiny.gguf, &(rig_options){.session = cases[i].options}),
                         BERTH_ERR_INVALID_ARGUMENT);
        assert_null(r.session);
        assert_mentions(&r.error, cases[i].mention);
        rig_close(&r);
    }
}

static void types_that_keys_and_values_cannot_have_are_refused(void** state) {
    (void)state;
    rig r;
    assert_int_equal(
        rig_try_open(&r, tiny.gguf, &(rig_options){.session = {.kv_dtype = BERTH_I32}}),
        BERTH_ERR_UNSUPPORTED);
    assert_null(r.session);
    rig_close(&r);
}

static void a_prompt_too_large_for_the_memory_leaves_the_session_usable(void** state) {
    (void)state;
    llm_random_spec spec = llm_random_spec_tiny(7);
    spec.context = 1 << 20;
    random_file file = random_file_open(&spec);
    berth_option_setting setting = {"memory", "32M"};
    rig r;
    rig_open(&r, file.gguf, &(rig_options){.settings = &setting, .setting_count = 1});
    size_t vocab = rig_vocab(&r);
    int32_t* ids = malloc(100000 * sizeof *ids);
    float* before = malloc(vocab * sizeof *before);
    assert_true(ids != NULL && before != NULL);
    make_prompt(9, (int64_t)vocab, ids, 100000);
    rig_feed(&r, ids, 100);
    memcpy(before, r.session->logits, vocab * sizeof *before);
    assert_int_equal(llm_session_feed(r.session, ids, 100000, &r.error), BERTH_ERR_OUT_OF_MEMORY);
    assert_true(r.error.text[0] != '\0');
    llm_session_reset(r.session);
    rig_feed(&r, ids, 100);
    assert_memory_equal(before, r.session->logits, vocab * sizeof *before);
    free(before);
    free(ids);
    rig_close(&r);
    random_file_close(&file);
}

static void every_failing_allocation_is_reported_and_leaks_nothing(void** state) {
    (void)state;
    berth_status status = BERTH_ERR_OUT_OF_MEMORY;
    for (uint64_t nth = 1; status != BERTH_OK; nth++) {
        assert_true(nth < 100);
        alloc_watch watch;
        rig r;
        watch_begin(&watch, nth);
        status = rig_try_open(&r, tiny.gguf, &(rig_options){0});
        watch_end();
        if (status != BERTH_OK) assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        rig_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_plain_weights_gives_the_known_logits),
        cmocka_unit_test(a_model_of_every_quantised_type_gives_the_known_logits),
        cmocka_unit_test(a_model_of_plain_weights_makes_the_known_tokens),
        cmocka_unit_test(planning_changes_no_bit),
        cmocka_unit_test(taking_storage_from_the_system_changes_no_bit),
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
        cmocka_unit_test(bucket_policies_change_no_bit),
        cmocka_unit_test(an_asynchronous_device_changes_no_bit),
        cmocka_unit_test(moving_tensors_at_every_opportunity_changes_no_bit),
        cmocka_unit_test(prompts_in_chunks_give_the_same_bits),
        cmocka_unit_test(a_mapped_file_and_a_read_one_give_the_same_bits),
        cmocka_unit_test(leaving_the_known_path_changes_no_bit),
        cmocka_unit_test(scoring_gives_each_token_the_logits_that_feeding_gives),
        cmocka_unit_test(half_precision_keys_and_values_come_close),
        cmocka_unit_test(after_three_lengths_every_run_is_a_hit),
        cmocka_unit_test(the_cache_takes_blocks_as_tokens_come_and_uses_them_again),
        cmocka_unit_test(the_size_of_blocks_changes_no_bit),
        cmocka_unit_test(more_tokens_than_the_context_are_refused_and_forgotten),
        cmocka_unit_test(tokens_outside_the_vocabulary_are_refused),
        cmocka_unit_test(an_answer_ends_where_the_context_does),
        cmocka_unit_test(session_options_out_of_range_are_refused),
        cmocka_unit_test(types_that_keys_and_values_cannot_have_are_refused),
        cmocka_unit_test(a_prompt_too_large_for_the_memory_leaves_the_session_usable),
        cmocka_unit_test(every_failing_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, open_tiny, close_tiny);
}
