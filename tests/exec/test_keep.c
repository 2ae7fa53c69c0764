// SPDX-License-Identifier: Apache-2.0
// Idle memory ages: what recent use explains stays, the rest goes back in steps while nobody calls.
#include "exec_kit.h"

#include "base/clock.h"
#include "exec/decay.h"
#include "exec/keep.h"

#define DECAY_MS UINT64_C(3600000) // of the kit: too long for the thread to come in between
#define MS UINT64_C(1000000)
#define LARGE_COUNT (INT64_C(4) << 20)   // elements of 4 bytes, on the cpu device
#define SMALL_COUNT (INT64_C(128) << 10) // on the simulated one, whose memory is small

static _Atomic uint64_t time_ns;

static uint64_t settable(void* self) {
    (void)self;
    return atomic_load(&time_ns);
}

static const berth_clock_source source = {settable, NULL};

typedef struct keep_kit {
    exec_kit exec;
    int64_t count; ///< elements of a load's tensors
} keep_kit;

static int set_up(void** state, const char* device, const char* keep, const char* decay_ms) {
    static keep_kit kit;
    *state = &kit;
    atomic_store(&time_ns, 1000 * DECAY_MS * MS);
    berth_clock_set_source(&source);
    kit.count = strcmp(device, "cpu") == 0 ? LARGE_COUNT : SMALL_COUNT;
    const berth_option_setting settings[] = {
        {"device", device}, {"threads", "1"}, {"keep", keep}, {"decay_ms", decay_ms}};
    return exec_kit_open(&kit.exec, NULL, settings, 4) == BERTH_OK ? 0 : -1;
}

static int set_up_cpu(void** state) { return set_up(state, "cpu", "auto", "3600000"); }
static int set_up_sim(void** state) { return set_up(state, "sim", "auto", "3600000"); }
static int set_up_bytes(void** state) { return set_up(state, "cpu", "16M", "3600000"); }
static int set_up_ahead(void** state) {
    const int status = set_up(state, "cpu", "auto", "3600000");
    exec_kit* kit = &((keep_kit*)*state)->exec;
    exec_kit_close(kit);
    const berth_option_setting settings[] = {
        {"threads", "1"}, {"decay_ms", "3600000"}, {"prealloc", "16M"}};
    return status == 0 && exec_kit_open(kit, NULL, settings, 3) == BERTH_OK ? 0 : -1;
}
static int set_up_all(void** state) { return set_up(state, "cpu", "all", "3600000"); }
static int set_up_none(void** state) { return set_up(state, "cpu", "none", "3600000"); }
static int set_up_never(void** state) { return set_up(state, "cpu", "auto", "unlimited"); }
static int set_up_at_once(void** state) { return set_up(state, "cpu", "auto", "0"); }

static int tear_down(void** state) {
    keep_kit* kit = *state;
    exec_kit_close(&kit->exec);
    berth_clock_set_source(NULL);
    return 0;
}

static void advance(uint64_t ns) { atomic_fetch_add(&time_ns, ns); }

static uint64_t mapped(const keep_kit* kit) {
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit->exec.runtime, &stats));
    return stats.mapped_bytes;
}

/// What the thread does at a moment: passes until nothing more goes back now.
static uint64_t age(const keep_kit* kit) {
    uint64_t pause;
    do {
        pause = berth_decay_pass(kit->exec.runtime);
    } while (pause < berth_decay_epoch_ns(kit->exec.runtime));
    return pause;
}

/// Lets `ns` go by as the thread would: passes after the pauses that they ask for.
static void sleep_for(const keep_kit* kit, uint64_t ns) {
    while (ns > 0) {
        const uint64_t pause = age(kit);
        const uint64_t step = pause < ns ? pause : ns;
        advance(step);
        ns -= step;
    }
    (void)age(kit);
}

/// Some tensors of the kit's size, used and released.
static void load(const keep_kit* kit) {
    berth_tensor* x = berth_ones(kit->exec.ctx, BERTH_F32, 1, &kit->count);
    berth_tensor* y = berth_add(kit->exec.ctx, x, x);
    berth_release(berth_mul(kit->exec.ctx, berth_move(y), x));
    berth_release(x);
    assert_context_ok(kit->exec.ctx);
    assert_ok(berth_context_synchronize(kit->exec.ctx));
}

static void step(const keep_kit* kit) {
    assert_ok(exec_kit_begin(kit->exec.ctx, "load", kit->count));
    load(kit);
    assert_ok(berth_step_end(kit->exec.ctx));
}

static void after_the_decay_time_only_what_is_live_is_mapped(void** state) {
    const keep_kit* kit = *state;
    const int64_t live_count = kit->count / 2;
    berth_tensor* live = berth_ones(kit->exec.ctx, BERTH_F32, 1, &live_count);
    for (int i = 0; i < 6; i++) // also as planned
        step(kit);
    load(kit);
    const uint64_t live_bytes = (uint64_t)live_count * 4;
    assert_true(mapped(kit) > 3 * live_bytes);
    sleep_for(kit, DECAY_MS * MS);
    assert_in_range(mapped(kit), live_bytes, live_bytes + live_bytes / 10);
    berth_release(live);
    sleep_for(kit, DECAY_MS * MS);
    assert_int_equal(mapped(kit), 0);
}

static void memory_goes_back_in_steps(void** state) {
    const keep_kit* kit = *state;
    step(kit);
    step(kit);
    uint64_t before = mapped(kit), decreases = 0;
    const uint64_t first = before;
    for (int i = 0; i < 40; i++) {
        sleep_for(kit, DECAY_MS * MS / 40);
        const uint64_t now = mapped(kit);
        assert_true(now <= before);
        assert_true(before - now <= first / 4);
        decreases += now < before;
        before = now;
    }
    assert_int_equal(before, 0);
    assert_true(decreases >= 6);
}

static void steady_use_keeps_what_it_needs(void** state) {
    const keep_kit* kit = *state;
    for (int i = 0; i < 4; i++)
        step(kit);
    sleep_for(kit, DECAY_MS * MS / 40);
    const uint64_t before = mapped(kit);
    for (int i = 0; i < 60; i++) { // far more than the decay time in all
        step(kit);
        sleep_for(kit, DECAY_MS * MS / 40);
        assert_true(mapped(kit) <= before);
    }
    const uint64_t settled = mapped(kit);
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(kit->exec.runtime, &stats));
    step(kit);
    assert_int_equal(mapped(kit), settled); // nothing had to be mapped again
}

static void smaller_steps_bring_what_is_kept_down(void** state) {
    keep_kit* kit = *state;
    for (int i = 0; i < 8; i++)
        step(kit);
    const uint64_t before = mapped(kit);
    kit->count /= 8;
    for (int i = 0; i < 41; i++) {
        step(kit);
        sleep_for(kit, DECAY_MS * MS / 40);
    }
    assert_true(mapped(kit) > 0 && mapped(kit) <= before / 4);
    step(kit);
    assert_true(mapped(kit) > 0 && mapped(kit) <= before / 4);
}

static void what_is_released_long_after_the_last_call_ages_from_then_on(void** state) {
    const keep_kit* kit = *state;
    berth_tensor* live = berth_ones(kit->exec.ctx, BERTH_F32, 1, &kit->count);
    sleep_for(kit, 5 * DECAY_MS * MS);
    const uint64_t before = mapped(kit);
    berth_release(live);
    assert_ok(berth_context_synchronize(kit->exec.ctx));
    (void)age(kit);
    assert_int_equal(mapped(kit), before); // not at once
    sleep_for(kit, DECAY_MS * MS);
    assert_int_equal(mapped(kit), 0);
}

static void what_was_preallocated_does_not_age(void** state) {
    const keep_kit* kit = *state;
    step(kit);
    step(kit);
    assert_true(mapped(kit) > UINT64_C(16) << 20);
    sleep_for(kit, 2 * DECAY_MS * MS);
    assert_int_equal(mapped(kit), UINT64_C(16) << 20);
}

typedef struct ager {
    berth_runtime* runtime;
    atomic_bool is_over;
} ager;

static void age_until_over(void* opaque) {
    ager* self = opaque;
    while (!atomic_load(&self->is_over)) {
        advance(DECAY_MS * MS / 100);
        (void)berth_decay_pass(self->runtime);
    }
}

static void contexts_end_while_their_memory_ages(void** state) {
    const keep_kit* kit = *state;
    ager other = {.runtime = kit->exec.runtime};
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "ager", age_until_over, &other));
    const int64_t count = kit->count / 16;
    for (int i = 0; i < 200; i++) {
        berth_context* context;
        assert_ok(berth_context_create(kit->exec.runtime, &context));
        berth_tensor* x = berth_ones(context, BERTH_F32, 1, &count);
        berth_tensor* y = berth_add(context, x, x);
        assert_context_ok(context);
        berth_context_release(context); // it ends with its last tensor
        berth_release(x);
        berth_release(y);
    }
    atomic_store(&other.is_over, true);
    berth_thread_join(&thread);
}

static void a_trim_finds_idle_memory_that_is_just_ageing(void** state) {
    keep_kit* kit = *state;
    kit->count /= 8;
    ager other = {.runtime = kit->exec.runtime};
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "ager", age_until_over, &other));
    uint64_t busy_bytes = 0, left_bytes = 0;
    for (int i = 0; i < 60; i++) {
        step(kit);
        load(kit);
        const int64_t few = 1000; // its slot is in the front
        berth_release(berth_ones(kit->exec.ctx, BERTH_F32, 1, &few));
        assert_ok(berth_context_synchronize(kit->exec.ctx));
        berth_trim_result result;
        assert_ok(berth_trim(kit->exec.runtime, 0, &result));
        busy_bytes += result.busy_bytes;
        left_bytes += mapped(kit);
    }
    atomic_store(&other.is_over, true);
    berth_thread_join(&thread);
    assert_int_equal(busy_bytes, 0);
    assert_int_equal(left_bytes, 0);
    assert_int_equal(kit->exec.runtime->decay.holds, 0);
    sleep_for(kit, DECAY_MS * MS); // passes go on
    assert_int_equal(kit->exec.runtime->decay.visits, 0);
}

static berth_runtime* trimmed_by_clock;

/// A clock whose reader trims, as the program may where a pass calls it.
static uint64_t trimming(void* self) {
    berth_runtime* runtime = trimmed_by_clock;
    trimmed_by_clock = NULL;
    if (runtime != NULL) assert_ok(berth_trim(runtime, 0, self));
    return atomic_load(&time_ns);
}

static void a_trim_inside_a_pass_does_not_wait_for_it(void** state) {
    const keep_kit* kit = *state;
    step(kit);
    berth_trim_result result = {0};
    const berth_clock_source trims = {trimming, &result};
    trimmed_by_clock = kit->exec.runtime;
    berth_clock_set_source(&trims);
    (void)berth_decay_pass(kit->exec.runtime);
    berth_clock_set_source(&source);
    assert_true(result.released_bytes > 0);
    assert_int_equal(mapped(kit), 0);
    assert_int_equal(kit->exec.runtime->decay.visits, 0);
}

enum { SCATTERED = 960, SURVIVORS_SHARE = 12 };

static void survivors_that_lie_scattered_are_gathered(void** state) {
    const keep_kit* kit = *state;
    static berth_tensor* tensors[SCATTERED];
    const int64_t count = kit->count / 512; // 64 of them a granule, and on the sim device, too
    uint64_t live_bytes = 0;
    for (int i = 0; i < SCATTERED; i++)
        assert_non_null(tensors[i] = berth_full(kit->exec.ctx, i, BERTH_F32, 1, &count));
    assert_ok(berth_context_synchronize(kit->exec.ctx));
    for (int i = 0; i < SCATTERED; i++) {
        if (i % SURVIVORS_SHARE == 0) {
            live_bytes += (uint64_t)count * 4;
            continue;
        }
        berth_release(tensors[i]);
        tensors[i] = NULL;
    }
    sleep_for(kit, DECAY_MS * MS);
    assert_ok(berth_context_synchronize(kit->exec.ctx)); // copies of the simulated device
    sleep_for(kit, DECAY_MS * MS);
    const uint64_t granule = kit->exec.runtime->device->granule_bytes;
    assert_true(mapped(kit) <= live_bytes + live_bytes / 10 + granule);
    for (int i = 0; i < SCATTERED; i += SURVIVORS_SHARE) {
        float value;
        assert_ok(berth_tensor_read_span(tensors[i], 0, 1, &value));
        assert_true(value == (float)i);
    }
    berth_release_array(tensors, SCATTERED);
}

static void values_are_read_right_while_they_are_gathered(void** state) {
    const keep_kit* kit = *state;
    static berth_tensor* tensors[SCATTERED];
    const int64_t count = kit->count / 512;
    for (int i = 0; i < SCATTERED; i++)
        assert_non_null(tensors[i] = berth_full(kit->exec.ctx, i, BERTH_F32, 1, &count));
    for (int i = 0; i < SCATTERED; i++) {
        if (i % 3 == 0) continue;
        berth_release(tensors[i]);
        tensors[i] = NULL;
    }
    assert_ok(berth_context_synchronize(kit->exec.ctx));
    ager other = {.runtime = kit->exec.runtime};
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "ager", age_until_over, &other));
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < SCATTERED; i += 3) {
            float value;
            assert_ok(berth_tensor_read_span(tensors[i], count - 1, 1, &value));
            assert_true(value == (float)i);
            if (i % 64 != 0) continue;
            void* data; // stays where it is as long as it is mapped
            assert_ok(berth_tensor_map(tensors[i], &data));
            assert_true(((const float*)data)[0] == (float)i);
            assert_true(((const float*)data)[count - 1] == (float)i);
            berth_tensor_unmap(tensors[i]);
        }
    }
    atomic_store(&other.is_over, true);
    berth_thread_join(&thread);
    berth_release_array(tensors, SCATTERED);
}

enum { MANY = 20000 };

static void objects_of_tensors_that_are_gone_are_given_up(void** state) {
    const keep_kit* kit = *state;
    static berth_tensor* tensors[MANY];
    const int64_t few = 4;
    for (int i = 0; i < MANY; i++)
        assert_non_null(tensors[i] = berth_ones(kit->exec.ctx, BERTH_F32, 1, &few));
    const uint64_t most = berth_host_query_live_bytes(kit->exec.runtime->host);
    for (int i = 1; i < MANY; i++)
        berth_release(tensors[i]);
    sleep_for(kit, DECAY_MS * MS);
    assert_true(berth_host_query_live_bytes(kit->exec.runtime->host) < most / 4);
    const float ones[4] = {1, 1, 1, 1};
    exec_kit_expect(tensors[0], ones, 4); // its chunk stays
    for (int i = 1; i < MANY; i++)        // and more come
        assert_non_null(tensors[i] = berth_ones(kit->exec.ctx, BERTH_F32, 1, &few));
    exec_kit_expect(tensors[MANY / 2], ones, 4);
    berth_release_array(tensors, MANY);
    assert_int_equal(kit->exec.ctx->home.live_objects, 0);
}

static void shed_again_and_again(void* opaque) {
    for (int i = 0; i < 200; i++)
        berth_home_shed_objects(&((berth_context*)opaque)->home);
}

static void objects_are_given_up_while_others_are_made(void** state) {
    const keep_kit* kit = *state;
    static berth_tensor* tensors[MANY];
    const int64_t few = 4;
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "shedding", shed_again_and_again, kit->exec.ctx));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++)
            assert_non_null(tensors[i] = berth_ones(kit->exec.ctx, BERTH_F32, 1, &few));
        berth_release_array(tensors, MANY);
    }
    berth_thread_join(&thread);
    assert_context_ok(kit->exec.ctx);
    assert_int_equal(kit->exec.ctx->home.live_objects, 0);
}

static void bytes_that_are_to_be_kept_are_kept(void** state) {
    const keep_kit* kit = *state;
    load(kit);
    sleep_for(kit, 2 * DECAY_MS * MS);
    assert_in_range(mapped(kit), UINT64_C(14) << 20, UINT64_C(18) << 20);
}

static void a_context_in_use_is_left_alone_and_not_waited_for(void** state) {
    const keep_kit* kit = *state;
    load(kit);
    const uint64_t before = mapped(kit);
    advance(2 * DECAY_MS * MS);
    berth_home_lock(&kit->exec.ctx->home);
    assert_int_equal(berth_context_age(kit->exec.ctx, UINT64_MAX), BERTH_KEEP_AGEING);
    berth_home_unlock(&kit->exec.ctx->home);
    assert_int_equal(mapped(kit), before);
}

static void an_open_step_keeps_its_frame(void** state) {
    const keep_kit* kit = *state;
    for (int i = 0; i < 4; i++)
        step(kit);
    assert_ok(exec_kit_begin(kit->exec.ctx, "load", kit->count));
    berth_tensor* x = berth_ones(kit->exec.ctx, BERTH_F32, 1, &kit->count);
    sleep_for(kit, 2 * DECAY_MS * MS);
    berth_tensor* y = berth_add(kit->exec.ctx, x, x);
    berth_release(berth_mul(kit->exec.ctx, berth_move(y), x));
    berth_release(x);
    assert_context_ok(kit->exec.ctx);
    assert_ok(berth_step_end(kit->exec.ctx));
    assert_int_equal(exec_kit_counters(kit->exec.runtime, "load").side_exits, 0);
    assert_ok(berth_context_synchronize(kit->exec.ctx));
    sleep_for(kit, DECAY_MS * MS);
    assert_int_equal(mapped(kit), 0);
}

static void where_all_is_kept_time_changes_nothing(void** state) {
    const keep_kit* kit = *state;
    assert_false(berth_keep_is_ageing(kit->exec.runtime));
    assert_false(kit->exec.runtime->decay.has_thread);
    step(kit);
    const uint64_t before = mapped(kit);
    for (int i = 0; i < 100; i++) {
        advance(DECAY_MS * MS);
        assert_ok(exec_kit_begin(kit->exec.ctx, "other", 1));
        assert_ok(berth_step_end(kit->exec.ctx));
    }
    assert_int_equal(mapped(kit), before);
}

static void release_one(void* tensor) { berth_release(tensor); }

static void where_nothing_is_kept_a_steps_end_gives_all_back(void** state) {
    const keep_kit* kit = *state;
    assert_false(kit->exec.runtime->decay.has_thread);
    step(kit);
    assert_int_equal(mapped(kit), 0);
}

static void where_nothing_is_kept_a_release_gives_its_granules_back(void** state) {
    const keep_kit* kit = *state;
    berth_tensor* x = berth_ones(kit->exec.ctx, BERTH_F32, 1, &kit->count);
    berth_tensor* y = berth_neg(kit->exec.ctx, x);
    assert_context_ok(kit->exec.ctx);
    const uint64_t both = mapped(kit);
    berth_release(x);
    assert_int_equal(mapped(kit), both / 2);
    // also one that finds the context busy
    berth_home_lock(&kit->exec.ctx->home);
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "other", release_one, y));
    berth_thread_join(&thread);
    assert_int_equal(mapped(kit), both / 2);
    berth_home_unlock(&kit->exec.ctx->home);
    assert_int_equal(mapped(kit), 0);
}

static void without_a_thread_steps_ends_let_memory_age(void** state) {
    keep_kit* kit = *state;
    assert_false(kit->exec.runtime->decay.has_thread); // the simulated device needs none
    step(kit);
    assert_true(mapped(kit) > 0);
    for (int i = 0; i < 42; i++) {
        advance(DECAY_MS * MS / 40);
        assert_ok(exec_kit_begin(kit->exec.ctx, "other", 1));
        assert_ok(berth_step_end(kit->exec.ctx));
    }
    assert_int_equal(mapped(kit), 0);
}

static void failing_to_give_memory_back_is_survived(void** state) {
    const keep_kit* kit = *state;
    load(kit);
    const uint64_t before = mapped(kit);
    advance(2 * DECAY_MS * MS);
    berth_sim_fail(kit->exec.runtime->device, BERTH_SIM_UNMAP, 1);
    (void)age(kit);
    assert_true(mapped(kit) <= before);
    sleep_for(kit, DECAY_MS * MS);
    assert_int_equal(mapped(kit), 0);
}

/// A clock that posts whenever somebody looks at it, and is far ahead.
static uint64_t posting(void* self) {
    berth_semaphore_post(self);
    return atomic_fetch_add(&time_ns, DECAY_MS * MS);
}

static void a_thread_gives_memory_back_while_the_program_sleeps(void** state) {
    keep_kit kit = {.count = LARGE_COUNT};
    (void)state;
    const berth_option_setting settings[] = {{"threads", "1"}, {"decay_ms", "40"}};
    assert_ok(exec_kit_open(&kit.exec, NULL, settings, 2));
    assert_true(kit.exec.runtime->decay.has_thread);
    load(&kit);
    berth_semaphore looked;
    assert_ok(berth_semaphore_init(&looked));
    const berth_clock_source ahead = {posting, &looked};
    berth_clock_set_source(&ahead);
    while (mapped(&kit) > 0) // each look is a pass of the thread
        berth_semaphore_wait(&looked);
    exec_kit_close(&kit.exec); // joins it
    berth_clock_set_source(NULL);
    berth_semaphore_fini(&looked);
}

static void the_thread_begins_with_the_first_context_and_ends_with_the_runtime(void** state) {
    (void)state;
    const berth_option_setting settings[] = {{"threads", "1"}};
    const berth_runtime_options options = {
        .struct_size = sizeof options, .settings = settings, .setting_count = 1};
    berth_runtime* runtime;
    assert_ok(berth_runtime_create(&options, &runtime));
    assert_false(runtime->decay.has_thread);
    berth_context *first, *second;
    assert_ok(berth_context_create(runtime, &first));
    assert_true(runtime->decay.has_thread);
    assert_ok(berth_context_create(runtime, &second));
    berth_runtime_release(runtime);
    berth_context_release(first);
    berth_context_release(second); // with it the runtime; it would hang if nobody were woken
}

static char logged[512];

static void collect(void* self, berth_log_level level, const char* line) {
    (void)self;
    (void)level;
    (void)snprintf(logged, sizeof logged, "%s", line);
}

static void without_a_thread_that_cannot_be_started_steps_ends_do_its_work(void** state) {
    (void)state;
    keep_kit kit = {.count = LARGE_COUNT};
    atomic_store(&time_ns, 1000 * DECAY_MS * MS);
    berth_clock_set_source(&source);
    berth_log_set_callback(collect, NULL);
    logged[0] = '\0';
    pthread_attr_t usual, absurd; // no address space has room for such a stack
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_getattr_default_np(&absurd), 0);
    assert_int_equal(pthread_attr_setstacksize(&absurd, (size_t)1 << 52), 0);
    assert_int_equal(pthread_setattr_default_np(&absurd), 0);
    const berth_option_setting settings[] = {
        {"threads", "1"}, {"decay_ms", "3600000"}, {"log", "warn"}};
    const berth_status status = exec_kit_open(&kit.exec, NULL, settings, 3);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    assert_ok(status);
    assert_non_null(strstr(logged, "there is no thread for it: thread berth-decay"));
    assert_false(kit.exec.runtime->decay.has_thread);
    step(&kit);
    assert_true(mapped(&kit) > 0);
    for (int i = 0; i < 42; i++) {
        advance(DECAY_MS * MS / 40);
        assert_ok(exec_kit_begin(kit.exec.ctx, "other", 1));
        assert_ok(berth_step_end(kit.exec.ctx));
    }
    assert_int_equal(mapped(&kit), 0);
    logged[0] = '\0'; // it is reported once
    berth_context* second;
    assert_ok(berth_context_create(kit.exec.runtime, &second));
    berth_context_release(second);
    assert_string_equal(logged, "");
    exec_kit_close(&kit.exec);
    berth_log_set_callback(NULL, NULL);
    berth_clock_set_source(NULL);
}

#define ON_BOTH(test)                                                                              \
    {"cpu: " #test, test, set_up_cpu, tear_down, NULL}, {                                          \
        "sim: " #test, test, set_up_sim, tear_down, NULL                                           \
    }
#define WITH(set_up, test)                                                                         \
    { #set_up ": " #test, test, set_up, tear_down, NULL }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(after_the_decay_time_only_what_is_live_is_mapped),
        ON_BOTH(memory_goes_back_in_steps),
        ON_BOTH(steady_use_keeps_what_it_needs),
        ON_BOTH(smaller_steps_bring_what_is_kept_down),
        ON_BOTH(what_is_released_long_after_the_last_call_ages_from_then_on),
        ON_BOTH(survivors_that_lie_scattered_are_gathered),
        ON_BOTH(values_are_read_right_while_they_are_gathered),
        ON_BOTH(contexts_end_while_their_memory_ages),
        ON_BOTH(a_trim_finds_idle_memory_that_is_just_ageing),
        ON_BOTH(a_trim_inside_a_pass_does_not_wait_for_it),
        WITH(set_up_ahead, what_was_preallocated_does_not_age),
        WITH(set_up_cpu, objects_of_tensors_that_are_gone_are_given_up),
        WITH(set_up_cpu, objects_are_given_up_while_others_are_made),
        WITH(set_up_bytes, bytes_that_are_to_be_kept_are_kept),
        ON_BOTH(a_context_in_use_is_left_alone_and_not_waited_for),
        ON_BOTH(an_open_step_keeps_its_frame),
        WITH(set_up_all, where_all_is_kept_time_changes_nothing),
        WITH(set_up_never, where_all_is_kept_time_changes_nothing),
        WITH(set_up_none, where_nothing_is_kept_a_steps_end_gives_all_back),
        WITH(set_up_none, where_nothing_is_kept_a_release_gives_its_granules_back),
        WITH(set_up_at_once, where_nothing_is_kept_a_steps_end_gives_all_back),
        WITH(set_up_sim, without_a_thread_steps_ends_let_memory_age),
        cmocka_unit_test(a_thread_gives_memory_back_while_the_program_sleeps),
        cmocka_unit_test(the_thread_begins_with_the_first_context_and_ends_with_the_runtime),
        cmocka_unit_test(without_a_thread_that_cannot_be_started_steps_ends_do_its_work),
        WITH(set_up_sim, failing_to_give_memory_back_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
