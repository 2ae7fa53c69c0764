// SPDX-License-Identifier: Apache-2.0
// The thread team: every item once, the same cut always, nesting and contention inline.
#include "test.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/thread.h"
#include "device/cpu/cpu_team.h"
#include "failing_host.h"
#include "random.h"

#define MAX_ITEMS 5000
#define MAX_CHUNKS 64

typedef struct job {
    berth_team* team;
    atomic_uchar visits[MAX_ITEMS];
    atomic_int chunks;
    int64_t begins[MAX_CHUNKS];
    int64_t ends[MAX_CHUNKS];
    atomic_bool bad_worker;
    atomic_bool bad_range;
    int64_t count;
    int64_t grain;
} job;

static void visit(void* opaque, int64_t begin, int64_t end, uint32_t worker) {
    job* j = opaque;
    if (worker >= berth_team_worker_count(j->team)) atomic_store(&j->bad_worker, true);
    if (begin >= end || begin % j->grain != 0 || (end % j->grain != 0 && end != j->count))
        atomic_store(&j->bad_range, true);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&j->visits[i], 1);
    const int chunk = atomic_fetch_add(&j->chunks, 1);
    j->begins[chunk] = begin;
    j->ends[chunk] = end;
}

static void reset(job* j, berth_team* team, int64_t count, int64_t grain) {
    for (int i = 0; i < MAX_ITEMS; i++)
        atomic_init(&j->visits[i], 0);
    atomic_init(&j->chunks, 0);
    j->team = team;
    j->count = count;
    j->grain = grain;
}

static void check_visits(const job* j) {
    assert_false(j->bad_worker);
    assert_false(j->bad_range);
    for (int64_t i = 0; i < MAX_ITEMS; i++)
        assert_int_equal(j->visits[i], i < j->count ? 1 : 0);
}

static int compare(const void* a, const void* b) {
    const int64_t x = *(const int64_t*)a, y = *(const int64_t*)b;
    return x < y ? -1 : x > y;
}

static void every_item_is_computed_once(void** state) {
    (void)state;
    static job j;
    test_random random = test_random_make(3);
    for (uint32_t workers = 1; workers <= 4; workers++) {
        berth_team* team;
        assert_ok(berth_team_create(berth_host_default(), workers, &team));
        assert_int_equal(berth_team_worker_count(team), workers);
        for (int round = 0; round < 200; round++) {
            reset(&j,
                  team,
                  (int64_t)test_random_below(&random, MAX_ITEMS + 1),
                  test_random_between(&random, 1, 300));
            berth_team_for(team, j.count, j.grain, visit, &j);
            check_visits(&j);
        }
        berth_team_destroy(team);
    }
}

static void the_cut_depends_on_nothing_but_count_grain_and_workers(void** state) {
    (void)state;
    static job j;
    berth_team* team;
    assert_ok(berth_team_create(berth_host_default(), 3, &team));
    int64_t first[MAX_CHUNKS];
    int chunks = 0;
    for (int round = 0; round < 50; round++) {
        reset(&j, team, 4321, 10);
        berth_team_for(team, j.count, j.grain, visit, &j);
        qsort(j.begins, (size_t)j.chunks, sizeof j.begins[0], compare);
        if (round == 0) {
            chunks = j.chunks;
            assert_true(chunks >= 3);
            memcpy(first, j.begins, sizeof first);
        }
        assert_int_equal(j.chunks, chunks);
        assert_memory_equal(j.begins, first, (size_t)chunks * sizeof first[0]);
    }
    berth_team_destroy(team);
}

static void no_team_means_the_caller_alone(void** state) {
    (void)state;
    static job j;
    reset(&j, NULL, 100, 7);
    berth_team_for(NULL, 100, 7, visit, &j);
    check_visits(&j);
    assert_int_equal(berth_team_worker_count(NULL), 1);
    berth_team_for(NULL, 0, 1, visit, &j);
    berth_team_for(NULL, -5, 1, visit, &j);
    assert_int_equal(j.chunks, 1);
    berth_team_destroy(NULL);
}

typedef struct nested {
    berth_team* team;
    atomic_int inner_items;
    atomic_bool other_worker;
} nested;

typedef struct inner {
    nested* of;
    uint32_t worker;
} inner;

static void count_inner(void* opaque, int64_t begin, int64_t end, uint32_t worker) {
    inner* in = opaque;
    if (worker != in->worker) atomic_store(&in->of->other_worker, true);
    atomic_fetch_add(&in->of->inner_items, (int)(end - begin));
}

static void call_again(void* opaque, int64_t begin, int64_t end, uint32_t worker) {
    nested* n = opaque;
    for (int64_t i = begin; i < end; i++) {
        inner in = {n, worker};
        berth_team_for(n->team, 10, 1, count_inner, &in);
    }
}

static void a_nested_call_stays_on_its_worker(void** state) {
    (void)state;
    nested n = {.team = NULL};
    assert_ok(berth_team_create(berth_host_default(), 2, &n.team));
    berth_team_for(n.team, 100, 1, call_again, &n);
    assert_int_equal(n.inner_items, 1000);
    assert_false(n.other_worker);
    berth_team_destroy(n.team);
}

static void use_repeatedly(void* opaque) {
    job* j = opaque;
    for (int round = 0; round < 200; round++) {
        reset(j, j->team, 1000, 3);
        berth_team_for(j->team, j->count, j->grain, visit, j);
        for (int i = 0; i < 1000; i++) {
            if (j->visits[i] != 1) atomic_store(&j->bad_range, true);
        }
    }
}

static void two_callers_at_once_both_get_their_work_done(void** state) {
    (void)state;
    static job jobs[2];
    berth_team* team;
    assert_ok(berth_team_create(berth_host_default(), 2, &team));
    jobs[0].team = jobs[1].team = team;
    berth_thread thread;
    assert_ok(berth_thread_start(&thread, "caller", use_repeatedly, &jobs[1]));
    use_repeatedly(&jobs[0]);
    berth_thread_join(&thread);
    check_visits(&jobs[0]);
    check_visits(&jobs[1]);
    berth_team_destroy(team);
}

static void more_workers_than_cores_still_finish(void** state) {
    (void)state;
    static job j;
    berth_team* team;
    assert_ok(berth_team_create(berth_host_default(), 16, &team));
    for (int round = 0; round < 50; round++) {
        reset(&j, team, MAX_ITEMS, 1);
        berth_team_for(team, j.count, j.grain, visit, &j);
        check_visits(&j);
    }
    berth_team_destroy(team);
}

static void a_team_that_cannot_be_made_leaves_nothing(void** state) {
    (void)state;
    failing_host allocator;
    failing_host_init(&allocator);
    berth_host* host;
    assert_ok(berth_host_create(&allocator.allocator, &host));
    berth_team* team;
    for (size_t nth = 1; nth <= 3; nth++) {
        failing_host_fail(&allocator, nth, false);
        assert_int_equal(berth_team_create(host, 2, &team), BERTH_ERR_OUT_OF_MEMORY);
        assert_null(team);
        assert_int_equal(berth_host_query_live_bytes(host), 0);
    }
    failing_host_fail(&allocator, 0, false);
    assert_fails(berth_team_create(host, 0, &team), BERTH_ERR_INVALID_ARGUMENT, "0 threads");
    assert_fails(berth_team_create(host, 5000, &team), BERTH_ERR_INVALID_ARGUMENT, "5000");
    berth_host_destroy(host);
    assert_int_equal(allocator.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_computed_once),
        cmocka_unit_test(the_cut_depends_on_nothing_but_count_grain_and_workers),
        cmocka_unit_test(no_team_means_the_caller_alone),
        cmocka_unit_test(a_nested_call_stays_on_its_worker),
        cmocka_unit_test(two_callers_at_once_both_get_their_work_done),
        cmocka_unit_test(more_workers_than_cores_still_finish),
        cmocka_unit_test(a_team_that_cannot_be_made_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
