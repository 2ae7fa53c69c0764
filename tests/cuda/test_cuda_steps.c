// SPDX-License-Identifier: Apache-2.0
// Steps on the CUDA device, on the stand-in for the driver: what a replay asks the driver for, what
// happens when the driver refuses, and a language model.
#include <math.h>

#include "cuda/cuda_kit.h"
#include "device/cuda/cuda_api.h"
#include "exec/exec_kit.h"
#include "llm/model_kit.h"

static const char* const calls_for_memory[] = {
    "cuMemGetInfo_v2",
    "cuMemGetAllocationGranularity",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
};
enum { CALLS_FOR_MEMORY = sizeof calls_for_memory / sizeof calls_for_memory[0] };

static uint64_t calls_of(const char* symbol) { return cuda_kit_control()->query_calls(symbol); }

static uint64_t count_calls_for_memory(void) {
    uint64_t sum = 0;
    for (size_t i = 0; i < CALLS_FOR_MEMORY; ++i)
        sum += calls_of(calls_for_memory[i]);
    return sum;
}

// --- What a replay asks for ---------------------------------------------------------------------

/// A step of a dozen ops on [n, 16].
static void run_step(berth_context* ctx, const berth_tensor* weight, int64_t n) {
    assert_ok(exec_kit_begin(ctx, "step", n));
    berth_tensor* w = berth_retain((berth_tensor*)(uintptr_t)weight);
    berth_tensor* x = berth_rand(ctx, 7, -1, 1, BERTH_F32, 2, (int64_t[]){n, 16});
    for (int i = 0; i < 3; ++i) {
        berth_tensor* h = berth_linear(ctx, x, w, NULL);
        h = berth_silu(ctx, berth_move(h));
        berth_tensor* s = berth_softmax(ctx, h, 1);
        x = berth_add(ctx, berth_move(x), berth_move(s));
        berth_release(h);
    }
    berth_tensor* sum = berth_sum(ctx, berth_move(x), BERTH_ALL_DIMS, false);
    berth_release_all(sum, w);
    assert_ok(berth_step_end(ctx));
    assert_context_ok(ctx);
}

static void a_step_that_replays_asks_the_driver_for_work_alone(void** state) {
    (void)state;
    cuda_kit_reset(0);
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, NULL, 0));
    berth_tensor* w = berth_rand(kit.ctx, 3, -1, 1, BERTH_F32, 2, (int64_t[]){16, 16});
    for (int i = 0; i < 12; ++i)
        run_step(kit.ctx, w, 5 + i % 4);
    const uint64_t hits = exec_kit_counters(kit.runtime, "step").hits;
    const uint64_t memory = count_calls_for_memory(), launches = calls_of("cuLaunchKernel");
    const uint64_t all = calls_of(NULL), records = calls_of("cuEventRecord");
    enum { REPLAYS = 12 };
    for (int i = 0; i < REPLAYS; ++i)
        run_step(kit.ctx, w, 5 + i % 4);
    assert_int_equal(exec_kit_counters(kit.runtime, "step").hits, hits + REPLAYS);
    assert_int_equal(count_calls_for_memory(), memory);
    print_message("a step of 14 ops: %.1f launches, %.1f events, %.1f calls in all\n",
                  (double)(calls_of("cuLaunchKernel") - launches) / REPLAYS,
                  (double)(calls_of("cuEventRecord") - records) / REPLAYS,
                  (double)(calls_of(NULL) - all) / REPLAYS);
    berth_release(w);
    exec_kit_close(&kit);
    cuda_kit_assert_clean();
}

// --- Faults -------------------------------------------------------------------------------------

enum { ROUNDS = 7 };

typedef struct outcome {
    uint64_t digests[ROUNDS]; ///< 0: something failed in the round
    bool has_begun;
    bool has_failed;
} outcome;

/// Reads a result into the round's digest, or notes that there is none. Consumes it.
static bool read_result(berth_tensor* x, uint64_t* digest) {
    static unsigned char buffer[1 << 16];
    if (x == NULL) return false;
    const uint64_t bytes = berth_tensor_bytes(x);
    assert_true(bytes <= sizeof buffer);
    const bool is_read = berth_tensor_read(x, buffer, bytes) == BERTH_OK;
    for (uint64_t i = 0; is_read && i < bytes; ++i)
        *digest = (*digest ^ buffer[i]) * UINT64_C(1099511628211);
    berth_release(x);
    return is_read;
}

/// A step with a value that survives it, and one from the host's memory.
static bool run_round(berth_context* ctx, berth_context* other, int round, uint64_t* digest) {
    static const float numbers[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    const int64_t n = 40 + 9 * (round % 3);
    if (exec_kit_begin(ctx, "round", n) != BERTH_OK) return false;
    berth_tensor* w = berth_from_data(ctx, numbers, BERTH_F32, 2, (int64_t[]){4, 4});
    berth_tensor* x = berth_rand(ctx, (uint64_t)round, -1, 1, BERTH_F32, 2, (int64_t[]){n, 4});
    berth_tensor* h = berth_linear(ctx, berth_move(x), w, NULL);
    berth_tensor* turned = berth_transpose(ctx, h, 0, 1);
    berth_tensor* kept = berth_contiguous(ctx, turned);
    // whole granules of their own
    berth_tensor* large = berth_full(ctx, round, BERTH_U8, 1, (int64_t[]){70000});
    berth_tensor* mean = berth_sum(ctx, berth_move(large), BERTH_ALL_DIMS, false);
    berth_tensor* shared = kept != NULL ? berth_neg(other, kept) : NULL;
    bool is_right = read_result(mean, digest);
    is_right = read_result(berth_retain(turned), digest) && is_right;
    berth_release_all(w, h, turned);
    is_right = berth_step_end(ctx) == BERTH_OK && is_right;
    is_right = read_result(shared, digest) && is_right;
    return read_result(kept, digest) && is_right;
}

/// The driver's answer to its nth call of `symbol`.
typedef struct driver_fault {
    const char* symbol;
    uint64_t nth; ///< 0: none
    cu_result result;
} driver_fault;

/// The whole of a program's life. True if the fault came.
static bool run_program(const driver_fault* fault, outcome* out) {
    *out = (outcome){0};
    cuda_kit_reset(0);
    // cmocka has a macro of that name
    (cuda_kit_control()->fail)(fault->symbol, fault->nth, fault->result);
    const berth_option_setting settings[] = {{"log", "off"}, {"keep", "none"}};
    exec_kit kit;
    berth_context* other = NULL;
    berth_status status = exec_kit_open(&kit, NULL, settings, 2);
    if (status == BERTH_OK) status = berth_context_create(kit.runtime, &other);
    out->has_begun = status == BERTH_OK;
    for (int round = 0; out->has_begun && round < ROUNDS; ++round) {
        uint64_t digest = 14695981039346656037u;
        const bool is_right = run_round(kit.ctx, other, round, &digest);
        if (berth_context_error(kit.ctx) == BERTH_OK && berth_context_error(other) == BERTH_OK &&
            is_right)
            out->digests[round] = digest;
        else
            out->has_failed = true;
        berth_context_clear_error(kit.ctx);
        berth_context_clear_error(other);
    }
    if (out->has_begun) assert_int_equal(kit.ctx->home.live_objects, 0);
    berth_context_release(other);
    exec_kit_close(&kit);
    return calls_of(fault->symbol) >= fault->nth;
}

/// True for functions that are not made to fail: what they were to give back would stay for good.
static bool must_work(const char* symbol) {
    return strcmp(symbol, "cuCtxPopCurrent_v2") == 0 || strcmp(symbol, "cuModuleUnload") == 0;
}

/// What is computed in spite of a fault is right, and nothing is left behind.
static void check_outcome(const driver_fault* fault,
                          const outcome* expected,
                          const outcome* result,
                          bool is_lost) {
    const char* first;
    standin_live live;
    const int nth = (int)fault->nth;
    for (int i = 0; result->has_begun && i < ROUNDS; ++i)
        if (result->digests[i] != 0 && result->digests[i] != expected->digests[i])
            fail_msg("%s %d (%d): round %d is wrong", fault->symbol, nth, fault->result, i);
    if (cuda_kit_control()->query_violations(&first) > 0)
        fail_msg("%s %d (%d): %s", fault->symbol, nth, fault->result, first);
    cuda_kit_control()->query_live(&live);
    const uint64_t left = live.reserved_ranges + live.allocations + live.mappings + live.streams +
                          live.events + live.modules + live.context_references + live.pinned_blocks;
    if (left > 0 && !is_lost)
        fail_msg("%s %d (%d): %d ranges, %d allocations, %d mappings, %d streams, %d events, %d "
                 "modules, %d contexts and %d pinned blocks are left behind",
                 fault->symbol,
                 nth,
                 fault->result,
                 (int)live.reserved_ranges,
                 (int)live.allocations,
                 (int)live.mappings,
                 (int)live.streams,
                 (int)live.events,
                 (int)live.modules,
                 (int)live.context_references,
                 (int)live.pinned_blocks);
}

/// Every call, or of the many ones every `stride`th, fails with `result`.
static void fail_calls(cu_result fault_result, uint64_t stride, bool is_lost) {
    static const char* const symbols[] = {
#define SYMBOL(field, symbol, parameters) #symbol,
        CU_FUNCTION_MAP(SYMBOL)
#undef SYMBOL
    };
    outcome expected, result;
    driver_fault fault = {.symbol = "cuInit"};
    (void)run_program(&fault, &expected);
    assert_true(expected.has_begun && !expected.has_failed);
    cuda_kit_assert_clean();
    uint64_t runs = 0, failed = 0;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; ++i) {
        if (must_work(symbols[i])) continue;
        fault = (driver_fault){.symbol = symbols[i], .nth = 1, .result = fault_result};
        while (run_program(&fault, &result)) {
            check_outcome(&fault, &expected, &result, is_lost);
            ++runs;
            failed += !result.has_begun || result.has_failed;
            fault.nth += fault.nth < 4 ? 1 : stride;
        }
    }
    print_message("result %d: %d runs, %d told of it\n", fault_result, (int)runs, (int)failed);
    assert_true(failed > 10);
}

static void the_driver_may_be_out_of_memory_at_any_call(void** state) {
    (void)state;
    fail_calls(CU_ERROR_OUT_OF_MEMORY, 7, false);
}

static void the_driver_may_refuse_any_call(void** state) {
    (void)state;
    fail_calls(CU_ERROR_INVALID_VALUE, 19, false);
}

static void the_device_may_be_lost_at_any_call(void** state) {
    (void)state;
    fail_calls(CU_ERROR_ILLEGAL_ADDRESS, 29, true);
}

static void work_that_fails_is_told_by_its_op_when_it_is_waited_for(void** state) {
    (void)state;
    cuda_kit_reset(0);
    const berth_option_setting settings[] = {{"log", "off"}, {"launch_blocking", "1"}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, settings, 2));
    berth_tensor* x = exec_kit_ramp(kit.ctx, 0, 8);
    cuda_kit_control()->crash_kernel(1);
    assert_null(berth_exp(kit.ctx, x));
    assert_context_fails(kit.ctx, BERTH_ERR_DEVICE, "exp(");
    assert_null(berth_neg(kit.ctx, x)); // it stays lost
    assert_context_fails(kit.ctx, BERTH_ERR_DEVICE, "lost");
    berth_release(x);
    exec_kit_close(&kit);
    cuda_kit_control()->reset(NULL);
}

// --- A language model ---------------------------------------------------------------------------

static random_file tiny;

enum { ANSWERS = 4, ANSWER_TOKENS = 3 };

/// All that the model says: tokens, and the logits after each answer.
typedef struct speech {
    llm_tokens tokens;
    float logits[ANSWERS][512];
} speech;

static void speak(const rig_options* options, speech* out) {
    static const int64_t lengths[ANSWERS] = {3, 12, 4, 11};
    *out = (speech){0};
    rig r;
    rig_open(&r, tiny.gguf, options);
    assert_true(rig_vocab(&r) <= 512);
    for (size_t i = 0; i < ANSWERS; ++i) {
        int32_t prompt[32];
        make_prompt(i + 1, (int64_t)rig_vocab(&r), prompt, lengths[i]);
        rig_answer(&r, prompt, lengths[i], ANSWER_TOKENS, &out->tokens);
        memcpy(out->logits[i], r.session->logits, rig_vocab(&r) * sizeof(float));
    }
    rig_close(&r);
}

static void planning_changes_no_token_and_no_logit(void** state) {
    (void)state;
    cuda_kit_reset(0);
    static const berth_option_setting ways[][2] = {
        {{"mode", "plan"}, {"check_order", "1"}},
        {{"compact", "always"}, {"keep", "none"}},
    };
    static const berth_option_setting pool = {"mode", "pool"};
    static speech expected, actual;
    speak(&(rig_options){.settings = &pool, .setting_count = 1}, &expected);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; ++i) {
        speak(&(rig_options){.settings = ways[i], .setting_count = 2}, &actual);
        assert_int_equal(actual.tokens.count, expected.tokens.count);
        assert_memory_equal(actual.tokens.ids,
                            expected.tokens.ids,
                            expected.tokens.count * sizeof *expected.tokens.ids);
        assert_memory_equal(actual.logits, expected.logits, sizeof expected.logits);
        llm_tokens_fini(&actual.tokens);
    }
    llm_tokens_fini(&expected.tokens);
    cuda_kit_assert_clean();
}

/// Logits after a prompt, and the largest of them.
static void feed(const rig_options* options, float* logits, size_t* out_vocab, float* out_most) {
    int32_t prompt[12];
    rig r;
    rig_open(&r, tiny.gguf, options);
    *out_vocab = rig_vocab(&r);
    assert_true(*out_vocab <= 4096);
    make_prompt(5, (int64_t)*out_vocab, prompt, 12);
    rig_feed(&r, prompt, 12);
    memcpy(logits, r.session->logits, *out_vocab * sizeof *logits);
    for (size_t i = 0; i < *out_vocab; ++i)
        *out_most = fmaxf(*out_most, fabsf(logits[i]));
    rig_close(&r);
}

static void logits_are_near_the_cpus(void** state) {
    (void)state;
    cuda_kit_reset(0);
    static float here[4096], there[4096];
    size_t vocab;
    float most = 0;
    const berth_option_setting cpu = {"device", "cpu"};
    feed(&(rig_options){0}, here, &vocab, &most);
    feed(&(rig_options){.settings = &cpu, .setting_count = 1}, there, &vocab, &most);
    for (size_t i = 0; i < vocab; ++i) // weights are rounded to f16, of 11 bits
        if (!(fabsf(here[i] - there[i]) <= 0.004f * most))
            fail_msg("logit %d is %g, on the cpu %g", (int)i, (double)here[i], (double)there[i]);
}

static void a_decoding_step_asks_the_driver_for_work_alone(void** state) {
    (void)state;
    cuda_kit_reset(0);
    rig r;
    rig_open(&r, tiny.gguf, &(rig_options){0});
    int32_t prompt[40];
    make_prompt(9, (int64_t)rig_vocab(&r), prompt, 40);
    rig_feed(&r, prompt, 3);
    for (int i = 0; i < 14; ++i)
        rig_feed(&r, &prompt[i], 1);
    const uint64_t hits = query_step(&r, "decode").hits;
    const uint64_t launches = calls_of("cuLaunchKernel"), all = calls_of(NULL);
    const uint64_t up = calls_of("cuMemcpyHtoDAsync_v2"), down = calls_of("cuMemcpyDtoHAsync_v2");
    const uint64_t records = calls_of("cuEventRecord"), within = calls_of("cuMemcpyDtoDAsync_v2");
    enum { STEPS = 8 };
    uint64_t memory = count_calls_for_memory(), with_memory = 0;
    for (int i = 0; i < STEPS; ++i) {
        rig_feed(&r, &prompt[i], 1);
        // keys and values grow by granules now and then, between the ops of no step
        with_memory += count_calls_for_memory() != memory;
        memory = count_calls_for_memory();
    }
    assert_int_equal(query_step(&r, "decode").hits, hits + STEPS);
    assert_true(with_memory <= 1);
    print_message("a decoding step: %.1f launches, %.1f copies up, %.1f down, %.1f within, "
                  "%.1f events, %.1f calls in all\n",
                  (double)(calls_of("cuLaunchKernel") - launches) / STEPS,
                  (double)(calls_of("cuMemcpyHtoDAsync_v2") - up) / STEPS,
                  (double)(calls_of("cuMemcpyDtoHAsync_v2") - down) / STEPS,
                  (double)(calls_of("cuMemcpyDtoDAsync_v2") - within) / STEPS,
                  (double)(calls_of("cuEventRecord") - records) / STEPS,
                  (double)(calls_of(NULL) - all) / STEPS);
    rig_close(&r);
    cuda_kit_assert_clean();
}

int main(void) {
    cuda_kit_set_environment();
    const llm_random_spec spec = llm_random_spec_tiny(3);
    tiny = random_file_open(&spec);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_that_replays_asks_the_driver_for_work_alone),
        cmocka_unit_test(the_driver_may_be_out_of_memory_at_any_call),
        cmocka_unit_test(the_driver_may_refuse_any_call),
        cmocka_unit_test(planning_changes_no_token_and_no_logit),
        cmocka_unit_test(logits_are_near_the_cpus),
        cmocka_unit_test(a_decoding_step_asks_the_driver_for_work_alone),
        // the last: a lost device keeps what it had
        cmocka_unit_test(the_device_may_be_lost_at_any_call),
        cmocka_unit_test(work_that_fails_is_told_by_its_op_when_it_is_waited_for),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    random_file_close(&tiny);
    return failed;
}
