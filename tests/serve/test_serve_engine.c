// SPDX-License-Identifier: Apache-2.0
// The engine without HTTP: every job ends, whatever becomes of it.
#include "serve/server_kit.h"

#define KIT_MEMORY (UINT64_C(1) << 30)

static void start_engine(server_kit* kit) {
    llm_error error;
    if (serve_engine_create(&kit->engine_options, &kit->engine, &error) != BERTH_OK)
        fail_msg("%s", error.text);
}

/// A job of a completion's body.
static serve_job* make_job(const server_kit* kit, const char* body) {
    api_request request;
    api_error error;
    if (!api_request_parse(
            &kit->http_options.reader, API_COMPLETION, llm_str_of(body), &request, &error))
        fail_msg("%s", error.message);
    serve_job* job = serve_job_create(kit->setup.tokenizer, &request);
    assert_non_null(job);
    api_request_fini(&request);
    return job;
}

static bool has_ended(serve_job* job) {
    pthread_mutex_lock(&job->lock);
    bool has = job->has_ended;
    pthread_mutex_unlock(&job->lock);
    return has;
}

static void await_end(serve_job* job) {
    const struct timespec rest = {.tv_nsec = 1000000};
    while (!has_ended(job))
        nanosleep(&rest, NULL);
}

static const char short_body[] =
    "{\"prompt\":\"hello\",\"max_tokens\":4,\"n\":3,\"ignore_eos\":true}";
static const char long_body[] =
    "{\"prompt\":\"hello\",\"max_tokens\":500,\"n\":128,\"ignore_eos\":true}";

static void a_job_ends_with_all_its_answers(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    start_engine(&kit);
    serve_job* job = make_job(&kit, short_body);
    serve_engine_submit(kit.engine, job);
    await_end(job);
    assert_int_equal(job->error.kind, API_ERROR_NONE);
    assert_int_equal(job->usage.prompt_tokens, 5);
    assert_int_equal(job->usage.answer_tokens, 12);
    for (size_t i = 0; i < 3; i++) {
        assert_true(job->choices[i].has_ended);
        assert_int_equal(job->choices[i].finish, API_FINISH_LENGTH);
    }
    serve_job_release(job);
    kit_stop(&kit);
}

/// Counts how often it was called; the lock of the job is held.
static void count_wake(void* user) { ++*(int*)user; }

static void whoever_waits_is_woken_once_for_each_time_that_he_asked(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    start_engine(&kit);
    serve_job* job = make_job(&kit, short_body);
    int wakes = 0;
    job->wake = count_wake;
    job->wake_user = &wakes;
    serve_engine_submit(kit.engine, job);
    await_end(job);
    pthread_mutex_lock(&job->lock);
    assert_int_equal(wakes, 1);
    assert_null(job->wake);
    pthread_mutex_unlock(&job->lock);
    serve_job_release(job);
    kit_stop(&kit);
}

static void stopping_ends_what_runs_and_what_waits_and_refuses_the_rest(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    start_engine(&kit);
    serve_job* jobs[3];
    for (size_t i = 0; i < 3; i++) {
        jobs[i] = make_job(&kit, long_body);
        serve_engine_submit(kit.engine, jobs[i]);
    }
    serve_engine_stop(kit.engine);
    serve_job* late = make_job(&kit, long_body);
    serve_engine_submit(kit.engine, late);
    for (size_t i = 0; i < 3; i++) {
        assert_true(has_ended(jobs[i]));
        assert_int_equal(jobs[i]->error.kind, API_ERROR_SHUTTING_DOWN);
        serve_job_release(jobs[i]);
    }
    assert_int_equal(late->error.kind, API_ERROR_SHUTTING_DOWN);
    serve_job_release(late);
    assert_int_equal(serve_engine_job_count(kit.engine), 0);
    kit_stop(&kit);
}

static void a_job_that_nobody_waits_for_ends(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    start_engine(&kit);
    serve_job* job = make_job(&kit, long_body);
    serve_engine_submit(kit.engine, job);
    serve_engine_leave(kit.engine, job);
    await_end(job);
    assert_true(job->usage.answer_tokens < 128 * 500);
    while (serve_engine_job_count(kit.engine) > 0)
        await_end(job);
    serve_job_release(job);
    kit_stop(&kit);
}

static void a_job_without_a_token_in_time_is_refused(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    kit.engine_options.first_token_ns = 1;
    start_engine(&kit);
    serve_job* job = make_job(&kit, short_body);
    serve_engine_submit(kit.engine, job);
    await_end(job);
    assert_int_equal(job->error.kind, API_ERROR_OVERLOADED);
    assert_non_null(strstr(job->error.message, "no answer had begun"));
    serve_job_release(job);
    kit_stop(&kit);
}

static void a_full_queue_refuses_a_job_as_a_whole(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    kit.engine_options.scheduler.max_queued = 2;
    start_engine(&kit);
    serve_job* job =
        make_job(&kit, "{\"prompt\":[\"a\",\"b\",\"c\"],\"max_tokens\":4,\"ignore_eos\":true}");
    serve_engine_submit(kit.engine, job);
    await_end(job);
    assert_int_equal(job->error.kind, API_ERROR_OVERLOADED);
    while (serve_engine_job_count(kit.engine) > 0)
        await_end(job);
    serve_job_release(job);
    kit_stop(&kit);
}

static void seeds_give_each_answer_of_a_job_its_own(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    start_engine(&kit);
    serve_job* twice[2];
    for (size_t i = 0; i < 2; i++) {
        twice[i] = make_job(&kit,
                            "{\"prompt\":\"hello\",\"max_tokens\":30,\"n\":2,\"ignore_eos\":true,"
                            "\"temperature\":2,\"seed\":5}");
        serve_engine_submit(kit.engine, twice[i]);
    }
    for (size_t i = 0; i < 2; i++)
        await_end(twice[i]);
    const llm_bytes* a = &twice[0]->choices[0].text.text;
    const llm_bytes* b = &twice[0]->choices[1].text.text;
    const llm_bytes* again = &twice[1]->choices[0].text.text;
    assert_true(a->size != b->size || memcmp(a->data, b->data, a->size) != 0);
    assert_int_equal(a->size, again->size);
    assert_memory_equal(a->data, again->data, a->size);
    serve_job_release(twice[0]);
    serve_job_release(twice[1]);
    kit_stop(&kit);
}

static void warming_up_plans_the_first_request(void** state) {
    server_kit kit;
    (void)state;
    kit_prepare(&kit, KIT_MEMORY);
    kit.engine_options.warms_up = true;
    start_engine(&kit);
    serve_snapshot cold;
    serve_engine_query(kit.engine, &cold);
    assert_int_equal(cold.scheduler.submitted, 0); // those of its own do not count
    assert_true(cold.budget.kv_tokens > 512);
    serve_job* job = make_job(&kit, short_body);
    serve_engine_submit(kit.engine, job);
    await_end(job);
    serve_snapshot warm;
    do
        serve_engine_query(kit.engine, &warm);
    while (warm.scheduler.finished < 3);
    assert_int_equal(warm.prefill.recorded, cold.prefill.recorded);
    assert_int_equal(warm.decode.recorded, cold.decode.recorded);
    serve_job_release(job);
    kit_stop(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_ends_with_all_its_answers),
        cmocka_unit_test(whoever_waits_is_woken_once_for_each_time_that_he_asked),
        cmocka_unit_test(stopping_ends_what_runs_and_what_waits_and_refuses_the_rest),
        cmocka_unit_test(a_job_that_nobody_waits_for_ends),
        cmocka_unit_test(a_job_without_a_token_in_time_is_refused),
        cmocka_unit_test(a_full_queue_refuses_a_job_as_a_whole),
        cmocka_unit_test(seeds_give_each_answer_of_a_job_its_own),
        cmocka_unit_test(warming_up_plans_the_first_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
