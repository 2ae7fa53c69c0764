// SPDX-License-Identifier: Apache-2.0
// Tests of the scheduler where something below fails: requests end with a typed failure or go on,
// and what comes after is as good as new.
#include "device/sim/sim_device.h"
#include "exec/exec_impl.h"
#include "kit/failing_host.h"
#include "llm/scheduler_kit.h"

static random_file wide;
static chat chats[WIDE_CHATS];

static int open_wide(void** state) {
    (void)state;
    wide = wide_file_open(chats);
    return 0;
}

static int close_wide(void** state) {
    (void)state;
    random_file_close(&wide);
    return 0;
}

static void every_failing_allocation_of_the_sample_is_an_end_or_an_error(void** state) {
    (void)state;
    bool has_failed = true;
    for (uint64_t nth = 1; has_failed; nth++) {
        assert_true(nth < 200);
        alloc_watch watch;
        server s;
        watch_begin(&watch, nth);
        berth_status status =
            server_try_open(&s, wide.gguf, &(server_options){.kv_bytes = WIDE_KV_BYTES});
        chats_forget(chats, 2);
        int taken = 0;
        for (size_t i = 0; i < 2 && status == BERTH_OK; i++) {
            llm_request request = chat_request(&chats[i]);
            request.max_tokens = chats[i].max_tokens = 3;
            status = llm_scheduler_submit(s.scheduler, &request, &chats[i].id, &s.error);
            taken += status == BERTH_OK;
        }
        if (status == BERTH_OK) server_run(&s);
        watch_end();
        has_failed = watch.calls >= nth;
        server_close(&s);
        for (int i = 0; i < taken; i++)
            assert_int_equal(chats[i].ends, 1);
        if (status != BERTH_OK) assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        for (size_t i = 0; i < 2; i++)
            chats[i].max_tokens = WIDE_ANSWER;
    }
}

/// Has the chats ask for fewer tokens, so that there is time for many trials.
static void shorten(int64_t tokens) {
    chats_forget(chats, WIDE_CHATS);
    for (size_t i = 0; i < WIDE_CHATS; i++)
        chats[i].max_tokens = tokens;
}

static void lengthen(void) { shorten(WIDE_ANSWER); }

/// Counts a chat that has to have its answer or a typed failure, and has it asked again.
static void note_end(chat* c, int* answered, int* failed) {
    assert_int_equal(c->ends, 1);
    if (c->end.reason == LLM_END_LIMIT) {
        assert_answered(c);
        ++*answered;
    } else {
        assert_int_equal(c->end.reason, LLM_END_FAILED);
        assert_true(c->end.status != BERTH_OK);
        assert_true(c->text[0] != '\0');
        ++*failed;
    }
    chats_forget(c, 1);
}

static void memory_that_others_take_ends_requests_in_few_steps(void** state) {
    (void)state;
    enum { MOST = 64 };
    static const berth_option_setting settings[] = {{"device", "sim"}, {"memory", "3M"}};
    server s;
    server_open(&s, wide.gguf, &(server_options){.settings = settings, .setting_count = 2});
    chats_forget(chats, WIDE_CHATS);
    for (size_t i = 0; i < WIDE_CHATS; i++)
        server_submit(&s, &chats[i]);
    void* taken[MOST];
    size_t count = 0;
    while (count < MOST && (taken[count] = berth_alloc(s.context, 65536)) != NULL)
        count++;
    berth_context_clear_error(s.context);
    int steps = 0;
    while (server_step(&s))
        assert_true(++steps < 1000);
    int answered = 0;
    int failed = 0;
    for (size_t i = 0; i < WIDE_CHATS; i++)
        note_end(&chats[i], &answered, &failed);
    print_message("%d answered, %d failed in %d steps\n", answered, failed, steps);
    assert_true(failed > 0);
    while (count > 0)
        berth_free(s.context, taken[--count]);
    assert_all_answered(&s, chats, WIDE_CHATS);
    server_close(&s);
}

static void failing_host_memory_below_ends_requests_and_loses_nothing(void** state) {
    (void)state;
    static failing_host host;
    int answered = 0;
    int failed = 0;
    for (size_t nth = 1; nth < 400; nth += 1 + nth / 4) {
        failing_host_init(&host);
        server s;
        server_open(
            &s, wide.gguf, &(server_options){.host = &host.allocator, .kv_bytes = WIDE_KV_BYTES});
        shorten(12);
        for (size_t i = 0; i < WIDE_CHATS; i++)
            server_submit(&s, &chats[i]);
        failing_host_fail(&host, nth, false);
        server_run(&s);
        failing_host_fail(&host, 0, false);
        for (size_t i = 0; i < WIDE_CHATS; i++)
            note_end(&chats[i], &answered, &failed);
        assert_all_answered(&s, chats, WIDE_CHATS); // as good as new
        server_close(&s);
        assert_int_equal(atomic_load(&host.live_blocks), 0);
        lengthen();
    }
    print_message("%d answered, %d failed\n", answered, failed);
    assert_true(answered > failed);
}

static void faults_of_the_device_end_requests_and_lose_nothing(void** state) {
    (void)state;
    static const berth_option_setting setting = {"device", "sim"};
    int answered = 0;
    int failed = 0;
    for (uint64_t nth = 1; nth < 3000; nth += 1 + nth / 3) {
        server s;
        server_open(
            &s,
            wide.gguf,
            &(server_options){.settings = &setting, .setting_count = 1, .kv_bytes = WIDE_KV_BYTES});
        berth_device* device = s.runtime->device;
        shorten(12);
        for (size_t i = 0; i < WIDE_CHATS; i++)
            server_submit(&s, &chats[i]);
        berth_sim_fail_any(device, nth);
        server_run(&s);
        berth_sim_fail_any(device, 0);
        for (size_t i = 0; i < WIDE_CHATS; i++)
            note_end(&chats[i], &answered, &failed);
        // a device that has lost work stays as it is: what comes then is refused or right
        for (size_t i = 0; i < WIDE_CHATS; i++)
            server_submit(&s, &chats[i]);
        server_run(&s);
        for (size_t i = 0; i < WIDE_CHATS; i++)
            note_end(&chats[i], &answered, &failed);
        server_close(&s);
        lengthen();
    }
    print_message("%d answered, %d failed\n", answered, failed);
    assert_true(answered > 0);
}

/// Has three chats of one tenant take nearly all blocks; then the fourth, of another tenant, asks.
static void submit_to_full_server(server* s) {
    for (size_t i = 0; i < WIDE_CHATS; i++) {
        llm_request request = chat_request(&chats[i]);
        request.tenant = i + 1 < WIDE_CHATS ? 1 : 2;
        while (request.tenant == 2 && server_kv_stats(s).held_blocks < 24) // of 32
            assert_true(server_step(s));
        server_ask(s, &request);
    }
}

/// Has the nth call fail of the device, or of host memory, while one gives way to the other;
/// returns how often one did.
static uint64_t fail_while_giving_way(uint64_t nth, bool is_of_host, int* answered, int* failed) {
    static const berth_option_setting setting = {"device", "sim"};
    static failing_host host;
    failing_host_init(&host);
    server s;
    server_open(&s,
                wide.gguf,
                &(server_options){.settings = &setting,
                                  .setting_count = 1,
                                  .host = &host.allocator,
                                  .kv_bytes = WIDE_KV_BYTES,
                                  .park_bytes = 16 << 20,
                                  .scheduler = {.parking = BERTH_KV_PARK_HOST}});
    shorten(40);
    submit_to_full_server(&s);
    if (is_of_host)
        failing_host_fail(&host, nth, false);
    else
        berth_sim_fail_any(s.runtime->device, nth);
    server_run(&s);
    failing_host_fail(&host, 0, false);
    berth_sim_fail_any(s.runtime->device, 0);
    for (size_t i = 0; i < WIDE_CHATS; i++)
        note_end(&chats[i], answered, failed);
    assert_int_equal(server_kv_stats(&s).held_blocks, 0);
    const uint64_t shares = server_stats(&s).parks_share;
    server_close(&s);
    assert_int_equal(atomic_load(&host.live_blocks), 0);
    lengthen();
    return shares;
}

static void faults_while_a_tenant_gives_way_lose_nothing(void** state) {
    (void)state;
    int answered = 0;
    int failed = 0;
    uint64_t shares = 0;
    for (uint64_t nth = 1; nth < 100; nth += 1 + nth / 3) {
        shares += fail_while_giving_way(nth, false, &answered, &failed);
        shares += fail_while_giving_way(nth, true, &answered, &failed);
    }
    print_message("%d answered, %d failed, %d gave way\n", answered, failed, (int)shares);
    assert_true(answered > 4 * failed);
    assert_true(shares > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_allocation_of_the_sample_is_an_end_or_an_error),
        cmocka_unit_test(memory_that_others_take_ends_requests_in_few_steps),
        cmocka_unit_test(failing_host_memory_below_ends_requests_and_loses_nothing),
        cmocka_unit_test(faults_of_the_device_end_requests_and_lose_nothing),
        cmocka_unit_test(faults_while_a_tenant_gives_way_lose_nothing),
    };
    return cmocka_run_group_tests(tests, open_wide, close_wide);
}
