// SPDX-License-Identifier: Apache-2.0
// Who gets what is given back while several requests climb the ladder at one time (L4 to L6).
#include "memory_kit.h"

#include <pthread.h>
#include <sched.h>

#include "memory/page_store_internal.h"

#define G KIT_GRANULE
enum { MOST_PLACES = 3 };

typedef struct ladder_kit ladder_kit;

/// A place that gives granules of `holder` back, at most `idle` of them.
typedef struct rung_place {
    berth_reclaimer reclaimer;
    ladder_kit* kit;
    uint64_t idle;
    _Atomic uint32_t calls;
    const berth_tenant* only; ///< that it gives to; NULL: anybody
    void (*after)(ladder_kit* kit, const berth_tenant* climber); ///< a call; NULL: nothing
    _Atomic bool is_under_way; ///< it calls no place within a call
} rung_place;

struct ladder_kit {
    memory_kit base;
    berth_tenant early;
    berth_tenant late;
    berth_tenant holder;
    berth_space* space;
    uint64_t mapped; ///< granules of the holder's, from the space's start; guarded by `lock`
    pthread_mutex_t lock;
    rung_place places[MOST_PLACES];
    size_t place_count;
    pthread_t thread; ///< of what comes late
    bool has_thread;
    berth_status late_status;
    uint64_t late_room; ///< that it saw
    berth_reservation stolen;
};

static berth_account account_of(ladder_kit* kit, berth_tenant* tenant) {
    return (berth_account){.store = kit->base.store, .tenant = tenant, .owner = BERTH_OWNER_POOL};
}

static uint64_t give(ladder_kit* kit, uint64_t granules) {
    for (uint64_t i = 0; i < granules; i++) {
        pthread_mutex_lock(&kit->lock);
        const uint64_t offset = --kit->mapped * G;
        pthread_mutex_unlock(&kit->lock);
        assert_ok(berth_store_unmap(account_of(kit, &kit->holder), kit->space, offset, G));
    }
    return granules * G;
}

static uint64_t reclaim(void* self, const berth_tenant* climber, uint64_t wanted_bytes) {
    rung_place* place = self;
    if (place->is_under_way || (place->only != NULL && place->only != climber)) return 0;
    place->is_under_way = true;
    place->calls++;
    const uint64_t wanted = (wanted_bytes + G - 1) / G;
    const uint64_t granules = wanted < place->idle ? wanted : place->idle;
    place->idle -= granules;
    const uint64_t given = give(place->kit, granules);
    if (place->after != NULL) place->after(place->kit, climber);
    place->is_under_way = false;
    return given;
}

static rung_place* add_place(ladder_kit* kit, uint64_t idle) {
    rung_place* place = &kit->places[kit->place_count++];
    *place = (rung_place){
        .reclaimer = {.rung = BERTH_RUNG_TRIM,
                      .tenant = &kit->holder,
                      .owner = BERTH_OWNER_POOL,
                      .self = place,
                      .reclaim = reclaim},
        .kit = kit,
        .idle = idle,
    };
    berth_store_add_reclaimer(kit->base.store, &place->reclaimer);
    return place;
}

static int setup(void** state) {
    ladder_kit* kit = calloc(1, sizeof *kit);
    const berth_sim_options options = memory_kit_options();
    memory_kit_init(&kit->base, &options);
    berth_store_add_tenant(kit->base.store, &kit->early);
    berth_store_add_tenant(kit->base.store, &kit->late);
    berth_store_add_tenant(kit->base.store, &kit->holder);
    pthread_mutex_init(&kit->lock, NULL);
    assert_ok(berth_space_reserve(kit->base.device, KIT_CAPACITY, &kit->space));
    kit->mapped = KIT_GRANULES;
    assert_ok(berth_store_map(account_of(kit, &kit->holder), NULL, kit->space, 0, KIT_CAPACITY));
    *state = kit;
    return 0;
}

static int teardown(void** state) {
    ladder_kit* kit = *state;
    for (size_t i = 0; i < kit->place_count; i++)
        berth_store_remove_reclaimer(kit->base.store, &kit->places[i].reclaimer);
    berth_store_unreserve(kit->base.store, &kit->stolen);
    assert_int_equal(kit->base.store->climbers == NULL, true);
    assert_int_equal(kit->base.store->claimed_bytes, 0);
    give(kit, kit->mapped);
    berth_space_release(kit->space);
    berth_store_remove_tenant(kit->base.store, &kit->early);
    berth_store_remove_tenant(kit->base.store, &kit->late);
    berth_store_remove_tenant(kit->base.store, &kit->holder);
    pthread_mutex_destroy(&kit->lock);
    memory_kit_fini(&kit->base);
    free(kit);
    return 0;
}

/// Asks for a granule as a request does that comes just when one has been given back.
static void steal(ladder_kit* kit, const berth_tenant* climber) {
    (void)climber;
    if (kit->late_status != BERTH_OK) return;
    kit->late_room = berth_store_query_room(account_of(kit, &kit->late));
    kit->late_status = berth_store_reserve(account_of(kit, &kit->late), G, &kit->stolen);
}

static void what_a_climb_has_brought_is_nobody_elses(void** state) {
    ladder_kit* kit = *state;
    add_place(kit, 1)->after = steal;
    add_place(kit, 1)->only = &kit->early;
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(account_of(kit, &kit->early), 2 * G, &mine)); // L4
    assert_int_equal(kit->late_status, BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(kit->late_room, 0);
    berth_store_unreserve(kit->base.store, &mine);
    assert_ok(berth_store_reserve(account_of(kit, &kit->late), 2 * G, &kit->stolen));
}

static void what_was_free_when_a_climb_began_is_nobody_elses(void** state) {
    ladder_kit* kit = *state;
    give(kit, 1);
    add_place(kit, 1)->after = steal;
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(account_of(kit, &kit->early), 2 * G, &mine)); // L4
    assert_int_equal(kit->late_status, BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(kit->late_room, 0);
    berth_store_unreserve(kit->base.store, &mine);
}

static void what_a_quota_leaves_is_claimed_too(void** state) {
    ladder_kit* kit = *state;
    give(kit, 8);
    berth_store_set_owner_quota(kit->base.store, BERTH_OWNER_POOL, KIT_CAPACITY - 8 * G);
    add_place(kit, 1)->after = steal;
    add_place(kit, 1)->only = &kit->early;
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(account_of(kit, &kit->early), 2 * G, &mine)); // L4
    assert_int_equal(kit->late_status, BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(kit->late_room, 0);
    berth_store_unreserve(kit->base.store, &mine);
}

/// Whether a tenant's request has asked all places, or has ended.
static bool has_asked_all(ladder_kit* kit, const berth_tenant* tenant) {
    berth_store* store = kit->base.store;
    bool has = true;
    berth_mutex_lock(store->lock);
    for (const berth_climber* at = store->climbers; at != NULL; at = at->next)
        if (at->ask->account.tenant == tenant) has = at->has_asked_all;
    berth_mutex_unlock(store->lock);
    return has;
}

static void* come_late(void* opaque) {
    ladder_kit* kit = opaque;
    kit->late_status = berth_store_reserve(account_of(kit, &kit->late), 2 * G, &kit->stolen);
    return NULL;
}

static void start_another(ladder_kit* kit) {
    kit->has_thread = true;
    assert_int_equal(pthread_create(&kit->thread, NULL, come_late, kit), 0);
}

/// Lets another request climb to the end of the ladder while the early one is still on it.
static void let_another_climb(ladder_kit* kit, const berth_tenant* climber) {
    if (climber != &kit->early || kit->has_thread) return;
    start_another(kit);
    while (kit->places[1].calls == 0 || !has_asked_all(kit, &kit->late))
        sched_yield();
}

/// Asks for two granules, while another request does.
static void ask_with_another(ladder_kit* kit) {
    berth_reservation mine = {0};
    const berth_status status = berth_store_reserve(account_of(kit, &kit->early), 2 * G, &mine);
    berth_store_unreserve(kit->base.store, &mine);
    assert_int_equal(pthread_join(kit->thread, NULL), 0);
    assert_int_equal(status, BERTH_OK); // L5
    assert_true(kit->late_status == BERTH_OK || kit->late_status == BERTH_ERR_OUT_OF_MEMORY);
}

static void what_a_later_request_had_claimed_in_vain_goes_to_an_earlier_one(void** state) {
    ladder_kit* kit = *state;
    add_place(kit, 1)->after = let_another_climb;
    add_place(kit, 1);
    ask_with_another(kit);
}

/// Lets another request begin to climb.
static void let_another_begin(ladder_kit* kit, const berth_tenant* climber) {
    if (climber != &kit->early || kit->has_thread) return;
    start_another(kit);
    while (kit->places[1].calls == 0)
        sched_yield();
}

/// Keeps the late request on the ladder until the early one has come to its end.
static void stay(ladder_kit* kit, const berth_tenant* climber) {
    (void)climber;
    while (!has_asked_all(kit, &kit->early))
        sched_yield();
}

static void an_earlier_request_waits_for_later_ones_that_are_still_asking(void** state) {
    ladder_kit* kit = *state;
    add_place(kit, 1)->after = let_another_begin;
    rung_place* place = add_place(kit, 1);
    place->only = &kit->late;
    place->after = stay;
    ask_with_another(kit);
}

static void* move_something(void* opaque) {
    ladder_kit* kit = opaque;
    berth_transit transit;
    berth_store_begin_transit(kit->base.store, &transit);
    kit->places[0].idle = 1;
    berth_store_end_transit(kit->base.store, &transit);
    return NULL;
}

/// Another thread makes memory idle in the first place, after that was asked.
static void let_another_move(ladder_kit* kit, const berth_tenant* climber) {
    (void)climber;
    if (kit->has_thread) return;
    kit->has_thread = true;
    assert_int_equal(pthread_create(&kit->thread, NULL, move_something, kit), 0);
    assert_int_equal(pthread_join(kit->thread, NULL), 0);
}

static void whoever_was_asked_before_others_made_memory_free_is_asked_again(void** state) {
    ladder_kit* kit = *state;
    add_place(kit, 0);
    add_place(kit, 0)->after = let_another_move;
    berth_reservation mine = {0};
    assert_ok(berth_store_reserve(account_of(kit, &kit->early), G, &mine)); // L6
    assert_int_equal(kit->places[0].calls, 2);
    berth_store_unreserve(kit->base.store, &mine);
}

static void without_others_every_place_is_asked_once(void** state) {
    ladder_kit* kit = *state;
    add_place(kit, 1);
    add_place(kit, 1);
    add_place(kit, 0);
    berth_reservation mine = {0};
    assert_int_equal(berth_store_reserve(account_of(kit, &kit->early), 3 * G, &mine),
                     BERTH_ERR_OUT_OF_MEMORY);
    for (size_t i = 0; i < kit->place_count; i++)
        assert_int_equal(kit->places[i].calls, 1); // L1
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_a_climb_has_brought_is_nobody_elses),
        TEST(what_was_free_when_a_climb_began_is_nobody_elses),
        TEST(what_a_quota_leaves_is_claimed_too),
        TEST(what_a_later_request_had_claimed_in_vain_goes_to_an_earlier_one),
        TEST(an_earlier_request_waits_for_later_ones_that_are_still_asking),
        TEST(whoever_was_asked_before_others_made_memory_free_is_asked_again),
        TEST(without_others_every_place_is_asked_once),
    };
    return cmocka_run_group_tests_name("the ladder", tests, NULL, NULL);
}
