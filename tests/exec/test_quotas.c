// SPDX-License-Identifier: Apache-2.0
// Contexts that share a device: quotas bound them, shares are kept for them, by options and calls.
#include "exec_kit.h"

#include <pthread.h>

#define MIB (UINT64_C(1) << 20)

enum { THREADS = 4, TURNS = 400, MOST_SETTINGS = 8 };

/// Two contexts on a simulated device of 16 MiB, with granules of 64 KiB.
typedef struct quota_kit {
    exec_kit exec;
    berth_context* other;
} quota_kit;

static berth_status try_open(quota_kit* kit, const berth_option_setting* more, size_t count) {
    berth_option_setting settings[MOST_SETTINGS] = {
        {"device", "sim"}, {"threads", "1"}, {"log", "off"}};
    for (size_t i = 0; i < count; i++)
        settings[3 + i] = more[i];
    *kit = (quota_kit){0};
    return exec_kit_open(&kit->exec, NULL, settings, 3 + count);
}

static void open_kit(quota_kit* kit, const berth_option_setting* more, size_t count) {
    assert_ok(try_open(kit, more, count));
    assert_ok(berth_context_create(kit->exec.runtime, &kit->other));
}

static void close_kit(quota_kit* kit) {
    berth_context_release(kit->other);
    berth_context_release(kit->exec.ctx);
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit->exec.runtime, &stats));
    assert_int_equal(stats.mapped_bytes, 0);
    assert_int_equal(stats.reserved_bytes, 0);
    assert_int_equal(stats.shares_bytes, 0);
    assert_int_equal(stats.kept_bytes, 0);
    berth_runtime_release(kit->exec.runtime);
}

static berth_tensor* take(berth_context* ctx, uint64_t bytes) {
    const int64_t count = (int64_t)bytes;
    return berth_empty(ctx, BERTH_U8, 1, &count);
}

static void expect_taken(berth_context* ctx, uint64_t bytes) {
    berth_tensor* x = take(ctx, bytes);
    assert_context_ok(ctx);
    assert_non_null(x);
    berth_release(x);
}

static void expect_refused(berth_context* ctx, uint64_t bytes, const char* part) {
    assert_null(take(ctx, bytes));
    assert_context_fails(ctx, BERTH_ERR_OUT_OF_MEMORY, part);
}

static berth_context_memory memory_of(berth_context* ctx) {
    berth_context_memory memory;
    assert_ok(berth_context_query_memory(ctx, &memory));
    return memory;
}

static void a_context_gets_no_more_than_its_quota(void** state) {
    (void)state;
    quota_kit kit;
    open_kit(&kit, NULL, 0);
    berth_context* ctx = kit.exec.ctx;
    assert_int_equal(memory_of(ctx).quota_bytes, BERTH_UNLIMITED);
    assert_ok(berth_context_set_quota(ctx, 4 * MIB));
    berth_tensor* x = take(ctx, 4 * MIB);
    assert_non_null(x);
    expect_refused(ctx, MIB, "quota of this context 4.00 MiB");
    assert_int_equal(memory_of(ctx).mapped_bytes, 4 * MIB);
    assert_int_equal(memory_of(ctx).quota_bytes, 4 * MIB);
    assert_int_equal(memory_of(ctx).refusals, 1);
    expect_taken(kit.other, 12 * MIB); // all that is left
    assert_ok(berth_context_set_quota(ctx, BERTH_UNLIMITED));
    expect_taken(ctx, MIB);
    berth_release(x);
    close_kit(&kit);
}

static void what_lies_idle_in_a_context_makes_room_within_its_quota(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"context_quota", "4M"}, {"keep", "all"}};
    quota_kit kit;
    open_kit(&kit, more, 2);
    for (uint64_t i = 1; i <= 4; i++)
        expect_taken(kit.exec.ctx, i * MIB);
    berth_tensor* x = take(kit.exec.ctx, 3 * MIB / 2);
    expect_taken(kit.exec.ctx, 5 * MIB / 2);
    berth_release(x);
    assert_true(memory_of(kit.exec.ctx).mapped_bytes <= 4 * MIB);
    close_kit(&kit);
}

static void below_what_it_uses_a_quota_takes_nothing_away_and_gives_nothing_more(void** state) {
    (void)state;
    quota_kit kit;
    open_kit(&kit, NULL, 0);
    berth_context* ctx = kit.exec.ctx;
    berth_tensor* x = take(ctx, 4 * MIB);
    berth_tensor* y = take(ctx, 4 * MIB);
    assert_ok(berth_context_set_quota(ctx, 2 * MIB));
    assert_int_equal(memory_of(ctx).mapped_bytes, 8 * MIB);
    static const uint8_t bytes[4 * MIB] = {7};
    assert_ok(berth_tensor_write(x, bytes, 4 * MIB));
    expect_refused(ctx, MIB, "quota of this context 2.00 MiB, of which it uses 8.00 MiB");
    berth_release(x);
    berth_release(y);
    expect_taken(ctx, 2 * MIB); // its idle memory goes for it
    assert_ok(berth_trim(kit.exec.runtime, 0, NULL));
    expect_taken(ctx, 2 * MIB);
    expect_refused(ctx, 3 * MIB, "quota of this context");
    close_kit(&kit);
}

/// Takes pieces until none is left; returns their number.
static size_t take_all(berth_context* ctx, uint64_t bytes, berth_tensor** pieces, size_t most) {
    size_t count = 0;
    while (count < most && (pieces[count] = take(ctx, bytes)) != NULL)
        count++;
    berth_context_clear_error(ctx);
    return count;
}

static void one_contexts_growth_does_not_take_anothers_share(void** state) {
    (void)state;
    quota_kit kit;
    open_kit(&kit, NULL, 0);
    berth_context* ctx = kit.exec.ctx;
    assert_ok(berth_context_set_share(ctx, 8 * MIB));
    berth_tensor* pieces[64];
    berth_tensor* mine[64];
    const size_t count = take_all(kit.other, MIB, pieces, 64);
    assert_int_equal(count, 8);
    expect_refused(kit.other, 65536, "kept for contexts 8.00 MiB");
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit.exec.runtime, &stats));
    assert_int_equal(stats.shares_bytes, 8 * MIB);
    assert_int_equal(stats.kept_bytes, 8 * MIB);
    assert_int_equal(take_all(ctx, MIB, mine, 64), 8);
    assert_ok(berth_runtime_query_memory(kit.exec.runtime, &stats));
    assert_int_equal(stats.kept_bytes, 0);
    berth_release_array(mine, 8);
    assert_ok(berth_trim(kit.exec.runtime, 0, NULL));
    expect_refused(kit.other, 65536, "kept for contexts 8.00 MiB"); // idle, but its own
    assert_ok(berth_context_set_share(ctx, 0));
    expect_taken(kit.other, 8 * MIB);
    berth_release_array(pieces, count);
    close_kit(&kit);
}

static void a_step_is_admitted_within_the_share_and_refused_beyond_the_rest(void** state) {
    (void)state;
    quota_kit kit;
    open_kit(&kit, NULL, 0);
    assert_ok(berth_context_set_share(kit.exec.ctx, 8 * MIB));
    berth_step_reserve_extra(kit.other, 9 * MIB);
    assert_fails(exec_kit_begin(kit.other, "step", 4), BERTH_ERR_OUT_OF_MEMORY, "kept for");
    berth_context_clear_error(kit.other);
    berth_step_cancel_extra(kit.other);
    berth_step_reserve_extra(kit.other, 8 * MIB);
    assert_ok(exec_kit_begin(kit.other, "step", 4));
    assert_int_equal(memory_of(kit.other).promised_bytes, 8 * MIB);
    berth_step_reserve_extra(kit.exec.ctx, 8 * MIB);
    assert_ok(exec_kit_begin(kit.exec.ctx, "step", 4));
    assert_ok(berth_step_end(kit.exec.ctx));
    assert_ok(berth_step_end(kit.other));
    close_kit(&kit);
}

static void a_share_takes_what_lies_idle_in_other_contexts(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"keep", "all"}};
    quota_kit kit;
    open_kit(&kit, more, 1);
    expect_taken(kit.other, 16 * MIB);
    assert_int_equal(memory_of(kit.other).mapped_bytes, 16 * MIB);
    assert_ok(berth_context_set_share(kit.exec.ctx, 6 * MIB));
    assert_true(memory_of(kit.other).mapped_bytes <= 10 * MIB);
    expect_taken(kit.exec.ctx, 6 * MIB);
    close_kit(&kit);
}

static void shares_that_cannot_be_kept_are_refused_with_the_numbers(void** state) {
    (void)state;
    quota_kit kit;
    open_kit(&kit, NULL, 0);
    assert_ok(berth_context_set_share(kit.exec.ctx, 10 * MIB));
    assert_fails(berth_context_set_share(kit.other, 7 * MIB),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "a share of 7340032 bytes and those of other contexts, 10485760, are more than "
                 "the capacity (BERTH_MEMORY) of 16777216");
    assert_fails(berth_context_set_share(kit.other, UINT64_MAX), BERTH_ERR_OUT_OF_MEMORY, "share");
    assert_int_equal(memory_of(kit.other).share_bytes, 0);
    assert_ok(berth_context_set_share(kit.other, 6 * MIB));
    assert_ok(berth_context_set_share(kit.exec.ctx, 1)); // a granule
    assert_int_equal(memory_of(kit.exec.ctx).share_bytes, 65536);
    berth_tensor* x = take(kit.exec.ctx, 10 * MIB);
    assert_fails(berth_context_set_share(kit.other, 7 * MIB), BERTH_ERR_OUT_OF_MEMORY, "pool");
    assert_int_equal(memory_of(kit.other).share_bytes, 6 * MIB);
    assert_fails(berth_context_set_quota(kit.other, 5 * MIB), BERTH_ERR_INVALID_ARGUMENT, "share");
    assert_ok(berth_context_set_quota(kit.other, 6 * MIB));
    berth_release(x);
    assert_fails(berth_context_set_share(kit.other, 7 * MIB), BERTH_ERR_INVALID_ARGUMENT, "quota");
    expect_taken(kit.other, 6 * MIB);
    close_kit(&kit);
}

static void idle_memory_of_its_own_makes_no_room_for_a_share(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"keep", "all"}};
    quota_kit kit;
    open_kit(&kit, more, 1);
    berth_tensor* others = take(kit.other, 8 * MIB);
    expect_taken(kit.exec.ctx, 8 * MIB); // and is idle there from now on
    assert_fails(
        berth_context_set_share(kit.exec.ctx, 12 * MIB), BERTH_ERR_OUT_OF_MEMORY, "needed");
    assert_int_equal(memory_of(kit.exec.ctx).share_bytes, 0);
    assert_int_equal(memory_of(kit.exec.ctx).mapped_bytes, 8 * MIB); // asked in vain of nobody
    assert_ok(berth_context_set_share(kit.exec.ctx, 8 * MIB));
    assert_ok(berth_trim(kit.exec.runtime, 0, NULL));
    expect_refused(kit.other, 65536, "kept for contexts 8.00 MiB");
    berth_release(others);
    close_kit(&kit);
}

static void a_context_that_ends_leaves_its_share_to_others(void** state) {
    (void)state;
    quota_kit kit;
    open_kit(&kit, NULL, 0);
    assert_ok(berth_context_set_share(kit.other, 12 * MIB));
    expect_refused(kit.exec.ctx, 5 * MIB, "kept for contexts");
    berth_context_release(kit.other);
    kit.other = NULL;
    expect_taken(kit.exec.ctx, 16 * MIB);
    close_kit(&kit);
}

static void options_give_every_context_quota_and_share(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"context_quota", "50%"}, {"context_share", "33%"}};
    quota_kit kit;
    open_kit(&kit, more, 2);
    assert_int_equal(memory_of(kit.exec.ctx).quota_bytes, 8 * MIB);
    assert_int_equal(memory_of(kit.other).share_bytes, 84 * 65536); // of 256 granules
    berth_context* third = NULL;
    berth_context* fourth = NULL;
    assert_ok(berth_context_create(kit.exec.runtime, &third));
    assert_fails(berth_context_create(kit.exec.runtime, &fourth),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "BERTH_CONTEXT_SHARE: a share of 5505024 bytes and those of other contexts, "
                 "16515072, are more than the capacity");
    assert_null(fourth);
    expect_taken(third, 84 * 65536);
    expect_refused(kit.other, 9 * MIB, "quota of this context");
    berth_context_release(third);
    close_kit(&kit);
}

static void options_that_contradict_each_other_are_refused(void** state) {
    (void)state;
    quota_kit kit;
    const berth_option_setting above_quota[] = {{"context_quota", "1M"}, {"context_share", "2M"}};
    assert_fails(try_open(&kit, above_quota, 2),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "BERTH_CONTEXT_SHARE is 2097152 bytes, more than BERTH_CONTEXT_QUOTA of 1048576");
    static const char* const names[] = {
        "frames_quota", "pool_quota", "context_quota", "context_share"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const berth_option_setting below_a_granule[] = {{names[i], "0.3%"}};
        assert_fails(try_open(&kit, below_a_granule, 1),
                     BERTH_ERR_INVALID_ARGUMENT,
                     "bytes, less than one granule of the device, 65536 bytes");
    }
    const berth_option_setting above_capacity[] = {{"context_share", "17M"}};
    assert_fails(try_open(&kit, above_capacity, 1),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "more than the capacity (BERTH_MEMORY) of 16777216");
    const berth_option_setting none[] = {{"context_quota", "0"}};
    assert_fails(try_open(&kit, none, 1), BERTH_ERR_INVALID_ARGUMENT, "BERTH_CONTEXT_QUOTA");
}

static void advice_names_the_limit_that_stood_in_the_way_alone(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"memory", "12M"}};
    quota_kit kit;
    open_kit(&kit, more, 1);
    berth_context* ctx = kit.exec.ctx;
    assert_ok(berth_context_set_quota(ctx, 4 * MIB));
    expect_refused(ctx, 5 * MIB, "may help: a larger quota of the context, to ask for less");
    assert_ok(berth_context_set_quota(ctx, 11 * MIB));
    assert_ok(berth_context_set_share(kit.other, 4 * MIB));
    expect_refused(ctx,
                   9 * MIB,
                   "may help: a larger BERTH_MEMORY (the device has 16.00 MiB), smaller shares of "
                   "other contexts, to release");
    assert_ok(berth_runtime_set_quota(kit.exec.runtime, BERTH_MEMORY_POOL, 2 * MIB));
    expect_refused(ctx, 3 * MIB, "may help: a larger BERTH_POOL_QUOTA, to ask for less");
    close_kit(&kit);
}

static void a_use_of_memory_has_a_quota_over_all_contexts(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"pool_quota", "50%"}, {"frames_quota", "2M"}};
    quota_kit kit;
    open_kit(&kit, more, 2);
    berth_runtime* runtime = kit.exec.runtime;
    berth_use_memory use;
    assert_ok(berth_runtime_query_quota(runtime, BERTH_MEMORY_FRAMES, &use));
    assert_int_equal(use.quota_bytes, 2 * MIB);
    berth_tensor* x = take(kit.exec.ctx, 6 * MIB);
    assert_ok(berth_runtime_query_quota(runtime, BERTH_MEMORY_POOL, &use));
    assert_int_equal(use.quota_bytes, 8 * MIB);
    assert_int_equal(use.mapped_bytes, 6 * MIB);
    expect_refused(kit.other, 3 * MIB, "quota of pool 8.00 MiB");
    assert_ok(berth_runtime_set_quota(runtime, BERTH_MEMORY_POOL, BERTH_UNLIMITED));
    expect_taken(kit.other, 3 * MIB);
    assert_ok(berth_runtime_set_quota(runtime, BERTH_MEMORY_POOL, 0)); // nothing more
    assert_ok(berth_trim(runtime, 0, NULL));
    expect_refused(kit.other, 65536, "quota of pool");
    berth_release(x);
    assert_ok(berth_runtime_set_quota(runtime, BERTH_MEMORY_POOL, BERTH_UNLIMITED));
    close_kit(&kit);
}

/// A step whose values take `length` bytes, three times over.
static berth_status run_step(berth_context* ctx, int64_t length) {
    const berth_status status = exec_kit_begin(ctx, "step", length);
    if (status != BERTH_OK) return status;
    berth_tensor* x = berth_full(ctx, 1, BERTH_U8, 1, &length);
    berth_tensor* y = berth_add(ctx, x, x);
    berth_release(y);
    berth_release(x);
    return berth_step_end(ctx);
}

static void a_frame_over_its_quota_is_refused_before_anything_runs(void** state) {
    (void)state;
    quota_kit kit;
    open_kit(&kit, NULL, 0);
    berth_runtime* runtime = kit.exec.runtime;
    for (int64_t length = 100000; length < 400000; length += 50000)
        assert_ok(run_step(kit.exec.ctx, length));
    assert_true(exec_kit_counters(runtime, "step").hits > 0);
    assert_ok(berth_runtime_set_quota(runtime, BERTH_MEMORY_FRAMES, 2 * MIB));
    assert_ok(run_step(kit.exec.ctx, 300000));
    assert_fails(run_step(kit.exec.ctx, 3000000), BERTH_ERR_OUT_OF_MEMORY, "quota of frames");
    berth_context_clear_error(kit.exec.ctx);
    assert_ok(run_step(kit.exec.ctx, 300000));
    close_kit(&kit);
}

static void nonsense_is_refused(void** state) {
    (void)state;
    quota_kit kit;
    open_kit(&kit, NULL, 0);
    berth_runtime* runtime = kit.exec.runtime;
    berth_use_memory use;
    berth_context_memory memory;
    const berth_memory_use none = BERTH_MEMORY_USE_COUNT;
    assert_fails(berth_context_set_quota(NULL, 1), BERTH_ERR_INVALID_ARGUMENT, "context");
    assert_fails(berth_context_set_share(NULL, 1), BERTH_ERR_INVALID_ARGUMENT, "context");
    assert_fails(berth_context_query_memory(NULL, &memory), BERTH_ERR_INVALID_ARGUMENT, "context");
    assert_fails(berth_context_query_memory(kit.other, NULL), BERTH_ERR_INVALID_ARGUMENT, "place");
    assert_fails(
        berth_runtime_set_quota(NULL, BERTH_MEMORY_POOL, 1), BERTH_ERR_INVALID_ARGUMENT, "runtime");
    assert_fails(berth_runtime_set_quota(runtime, none, 1), BERTH_ERR_INVALID_ARGUMENT, "number 3");
    assert_fails(berth_runtime_query_quota(runtime, none, &use), BERTH_ERR_INVALID_ARGUMENT, "3");
    assert_fails(berth_runtime_query_quota(runtime, BERTH_MEMORY_POOL, NULL),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "place");
    assert_ok(berth_context_set_quota(kit.other, 0));
    expect_refused(kit.other, 1, "quota of this context 0 B");
    close_kit(&kit);
}

/// In a callback about the context: its share cannot be changed, its quota can.
static bool raises_the_quota(void* self, const berth_shortage* shortage) {
    (void)self;
    assert_fails(berth_context_set_share(shortage->context, MIB), BERTH_ERR_STATE, "callback");
    assert_ok(berth_context_set_quota(shortage->context, 8 * MIB));
    return shortage->attempt == 1;
}

static void a_callback_may_raise_the_quota_that_a_request_ran_into(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"context_quota", "2M"}};
    quota_kit kit;
    open_kit(&kit, more, 1);
    assert_ok(berth_runtime_set_out_of_memory_callback(kit.exec.runtime, raises_the_quota, NULL));
    berth_tensor* x = take(kit.exec.ctx, 2 * MIB);
    expect_taken(kit.exec.ctx, 2 * MIB);
    berth_release(x);
    close_kit(&kit);
}

static void a_refusal_tells_quota_and_share_of_who_asked(void** state) {
    (void)state;
    quota_kit kit;
    open_kit(&kit, NULL, 0);
    assert_ok(berth_runtime_set_quota(kit.exec.runtime, BERTH_MEMORY_POOL, 14 * MIB));
    assert_ok(berth_context_set_quota(kit.exec.ctx, 12 * MIB));
    assert_ok(berth_context_set_share(kit.exec.ctx, 3 * MIB));
    berth_tensor* x = take(kit.other, 7 * MIB);
    berth_tensor* y = take(kit.exec.ctx, 2 * MIB);
    expect_refused(kit.exec.ctx,
                   9 * MIB,
                   "pool 9.00 MiB of a quota of 14.00 MiB, promised 0 B, unused 7.00 MiB, quota of "
                   "pool 14.00 MiB, used by this context 2.00 MiB of a quota of 12.00 MiB, its "
                   "share 3.00 MiB, kept for contexts 1.00 MiB");
    berth_release(x);
    berth_release(y);
    close_kit(&kit);
}

static void the_report_shows_quotas_and_shares(void** state) {
    (void)state;
    quota_kit kit;
    open_kit(&kit, NULL, 0);
    assert_ok(berth_runtime_set_quota(kit.exec.runtime, BERTH_MEMORY_POOL, 12345678));
    assert_ok(berth_context_set_quota(kit.other, 7654321));
    assert_ok(berth_context_set_share(kit.other, 2 * MIB));
    static char text[1 << 16];
    assert_ok(berth_runtime_format_report(kit.exec.runtime, text, sizeof text, NULL));
    const char* uses = strstr(text, "\nuses ");
    assert_non_null(uses);
    assert_non_null(strstr(uses, "\n  frames               0               0       unlimited\n"));
    assert_non_null(strstr(uses, "        12345678\n"));
    const char* contexts = strstr(uses, "\ncontexts ");
    assert_non_null(contexts);
    assert_non_null(strstr(contexts, "         7654321         2097152\n"));
    close_kit(&kit);
}

static void without_host_memory_a_context_with_a_share_leaves_nothing(void** state) {
    (void)state;
    const berth_option_setting settings[] = {
        {"device", "sim"}, {"threads", "1"}, {"log", "off"}, {"context_share", "4M"}};
    bool is_done = false;
    for (size_t nth = 1; !is_done; ++nth) {
        failing_host host;
        failing_host_init(&host);
        exec_kit kit;
        assert_ok(exec_kit_open(&kit, &host.allocator, settings, 4));
        failing_host_fail(&host, nth, false);
        berth_context* second = NULL;
        const berth_status status = berth_context_create(kit.runtime, &second);
        is_done = !failing_host_has_failed(&host);
        assert_int_equal(status, is_done ? BERTH_OK : BERTH_ERR_OUT_OF_MEMORY);
        berth_memory_stats stats;
        assert_ok(berth_runtime_query_memory(kit.runtime, &stats));
        assert_int_equal(stats.shares_bytes, is_done ? 8 * MIB : 4 * MIB);
        berth_context_release(second);
        exec_kit_close(&kit);
        assert_int_equal(host.live_blocks, 0);
    }
}

static void whatever_call_of_the_device_fails_the_books_balance(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"context_quota", "8M"}, {"context_share", "4M"}};
    bool is_done = false;
    for (uint64_t nth = 1; !is_done; ++nth) {
        quota_kit kit;
        open_kit(&kit, more, 2);
        berth_device* device = kit.exec.runtime->device;
        const uint64_t before = berth_sim_query_all_calls(device);
        berth_sim_fail_any(device, nth);
        berth_tensor* x = take(kit.exec.ctx, 6 * MIB);
        berth_tensor* y = take(kit.other, 7 * MIB);
        (void)!berth_context_set_share(kit.other, 8 * MIB);
        berth_release(x);
        (void)!berth_trim(kit.exec.runtime, 0, NULL);
        (void)!berth_context_set_share(kit.other, 2 * MIB);
        is_done = berth_sim_query_all_calls(device) - before < nth;
        berth_sim_fail_any(device, 0);
        berth_release(y);
        berth_context_clear_error(kit.exec.ctx);
        berth_context_clear_error(kit.other);
        assert_ok(berth_trim(kit.exec.runtime, 0, NULL));
        assert_int_equal(memory_of(kit.exec.ctx).mapped_bytes, 0);
        assert_int_equal(memory_of(kit.other).mapped_bytes, 0);
        expect_taken(kit.exec.ctx, 8 * MIB);
        expect_taken(kit.other, 8 * MIB);
        close_kit(&kit);
    }
}

/// A thread with a context of its own, which has a share.
typedef struct sharer {
    pthread_t thread;
    berth_context* ctx;
    uint64_t share_bytes;
    uint64_t seed;
    size_t unfulfilled; ///< requests within the share that were refused
    size_t exceeded;    ///< times that more was mapped than the quota
} sharer;

static void* use_share(void* opaque) {
    sharer* s = opaque;
    test_random random = test_random_make(s->seed);
    for (int turn = 0; turn < TURNS; turn++) {
        const uint64_t bytes = 1 + test_random_below(&random, 2 * s->share_bytes);
        void* block = berth_alloc(s->ctx, bytes);
        s->unfulfilled += block == NULL && bytes <= s->share_bytes;
        berth_free(s->ctx, block);
        berth_context_clear_error(s->ctx);
        if (test_random_one_in(&random, 16))
            (void)!berth_trim(berth_context_runtime(s->ctx), 0, NULL);
        berth_context_memory memory;
        (void)!berth_context_query_memory(s->ctx, &memory);
        s->exceeded += memory.mapped_bytes + memory.promised_bytes > memory.quota_bytes;
    }
    return NULL;
}

static void whatever_other_threads_do_a_context_gets_its_share(void** state) {
    (void)state;
    const berth_option_setting more[] = {{"context_share", "3M"}, {"context_quota", "6M"}};
    exec_kit kit;
    quota_kit first;
    assert_ok(try_open(&first, more, 2));
    kit = first.exec;
    sharer sharers[THREADS] = {{.ctx = kit.ctx}};
    for (size_t i = 0; i < THREADS; i++) {
        sharer* s = &sharers[i];
        s->share_bytes = 3 * MIB;
        s->seed = i + 1;
        if (i > 0) assert_ok(berth_context_create(kit.runtime, &s->ctx));
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&sharers[i].thread, NULL, use_share, &sharers[i]), 0);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(sharers[i].thread, NULL), 0);
        assert_int_equal(sharers[i].unfulfilled, 0);
        assert_int_equal(sharers[i].exceeded, 0);
    }
    for (size_t i = 1; i < THREADS; i++)
        berth_context_release(sharers[i].ctx);
    close_kit(&first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_gets_no_more_than_its_quota),
        cmocka_unit_test(what_lies_idle_in_a_context_makes_room_within_its_quota),
        cmocka_unit_test(below_what_it_uses_a_quota_takes_nothing_away_and_gives_nothing_more),
        cmocka_unit_test(one_contexts_growth_does_not_take_anothers_share),
        cmocka_unit_test(a_step_is_admitted_within_the_share_and_refused_beyond_the_rest),
        cmocka_unit_test(a_share_takes_what_lies_idle_in_other_contexts),
        cmocka_unit_test(shares_that_cannot_be_kept_are_refused_with_the_numbers),
        cmocka_unit_test(idle_memory_of_its_own_makes_no_room_for_a_share),
        cmocka_unit_test(a_context_that_ends_leaves_its_share_to_others),
        cmocka_unit_test(options_give_every_context_quota_and_share),
        cmocka_unit_test(options_that_contradict_each_other_are_refused),
        cmocka_unit_test(advice_names_the_limit_that_stood_in_the_way_alone),
        cmocka_unit_test(a_use_of_memory_has_a_quota_over_all_contexts),
        cmocka_unit_test(a_frame_over_its_quota_is_refused_before_anything_runs),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_callback_may_raise_the_quota_that_a_request_ran_into),
        cmocka_unit_test(a_refusal_tells_quota_and_share_of_who_asked),
        cmocka_unit_test(the_report_shows_quotas_and_shares),
        cmocka_unit_test(without_host_memory_a_context_with_a_share_leaves_nothing),
        cmocka_unit_test(whatever_call_of_the_device_fails_the_books_balance),
        cmocka_unit_test(whatever_other_threads_do_a_context_gets_its_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
