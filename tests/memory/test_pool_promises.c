// SPDX-License-Identifier: Apache-2.0
// Promises: what blocks yet to be taken may make a pool map holds for any pool, in whatever order
// they are taken.
#include "memory_kit.h"

#include "health/compactor.h"
#include "kit/movers.h"
#include "memory/pool.h"

#define G KIT_GRANULE

enum { OLD = 400, MOST_NEW = 120, SEEDS = 60 };

static const berth_compact_budget plenty = {.bytes = UINT64_MAX, .ns = UINT64_MAX / 2};

typedef struct promise_kit {
    memory_kit base;
    berth_pool* pool;
    berth_compactor compactor;
    test_random random;
    bool returns_at_once;
    mover_owner old[OLD];      ///< what the pool is full of
    mover_owner new[MOST_NEW]; ///< what is announced
    uint64_t sizes[MOST_NEW];
    size_t count;
} promise_kit;

static promise_kit* open_kit(uint64_t seed) {
    promise_kit* kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    berth_sim_options options = memory_kit_options();
    options.seed = seed % 3 == 0 ? 0 : seed;
    options.no_remap = seed % 2 == 0;
    memory_kit_init(&kit->base, &options);
    kit->random = test_random_make(seed);
    kit->returns_at_once = seed % 4 == 1;
    const berth_pool_config config = {.host = kit->base.host,
                                      .store = kit->base.store,
                                      .stream = kit->base.stream,
                                      .returns_at_once = kit->returns_at_once};
    assert_ok(berth_pool_create(&config, &kit->pool));
    berth_compactor_init(&kit->compactor, kit->base.host, kit->pool);
    return kit;
}

static void close_kit(promise_kit* kit) {
    for (size_t i = 0; i < OLD; ++i)
        if (kit->old[i].is_out) mover_give(kit->pool, &kit->old[i]);
    berth_compactor_fini(&kit->compactor);
    berth_pool_destroy(kit->pool);
    memory_kit_fini(&kit->base);
    free(kit);
}

static berth_status take(promise_kit* kit,
                         mover_owner* owner,
                         uint64_t bytes,
                         berth_reservation* reservation) {
    *owner = (mover_owner){.movable = {&mover_ops}};
    const berth_pool_request request = {
        .size_bytes = bytes,
        .site = test_random_below(&kit->random, 9),
        .movable = test_random_one_in(&kit->random, 8) ? NULL : &owner->movable,
        .reservation = reservation,
    };
    const berth_status status = berth_pool_take(kit->pool, &request, &owner->block);
    owner->is_out = status == BERTH_OK;
    return status;
}

/// Around the borders between kinds of blocks, and anything below.
static uint64_t random_size(test_random* random, uint64_t octaves) {
    const uint64_t most = UINT64_C(1) << (4 + test_random_below(random, octaves));
    if (test_random_one_in(random, 4)) return most + test_random_below(random, 3) - 1;
    return 1 + test_random_below(random, most);
}

/// Lets the pool age: takes and gives, steps, compaction, trims.
static void age(promise_kit* kit, uint64_t octaves) {
    const uint64_t calls = test_random_below(&kit->random, 1500);
    for (uint64_t i = 0; i < calls; ++i) {
        mover_owner* owner = &kit->old[test_random_below(&kit->random, OLD)];
        const uint64_t dice = test_random_below(&kit->random, 200);
        if (dice == 0) berth_pool_note_step(kit->pool);
        if (dice == 1) berth_pool_set_cautious(kit->pool, test_random_one_in(&kit->random, 2));
        if (dice == 2) (void)berth_compactor_tidy(&kit->compactor, &plenty);
        if (dice == 3) berth_compactor_stir(&kit->compactor, &plenty);
        if (dice == 4) (void)berth_pool_trim(kit->pool, 0, false);
        if (owner->is_out && test_random_one_in(&kit->random, 2))
            mover_give(kit->pool, owner);
        else if (owner->is_out)
            continue;
        else
            (void)!take(kit, owner, random_size(&kit->random, octaves), NULL);
    }
}

/// Gives back what few blocks keep, so that whatever is taken next has to be mapped.
static void leave_nothing_free(promise_kit* kit) {
    for (size_t i = 0; i < OLD; ++i)
        if (kit->old[i].is_out && i % 64 != 0) mover_give(kit->pool, &kit->old[i]);
    (void)berth_compactor_tidy(&kit->compactor, &plenty);
    berth_pool_flush_front(kit->pool);
    (void)berth_pool_trim(kit->pool, 0, true);
}

/// Announces blocks; returns what they may make the pool map.
static uint64_t announce(promise_kit* kit, uint64_t octaves) {
    berth_pool_demand demand = {0};
    const uint64_t most_new = test_random_one_in(&kit->random, 2) ? 4 : MOST_NEW;
    kit->count = 1 + test_random_below(&kit->random, most_new);
    for (size_t i = 0; i < kit->count; ++i) {
        const uint64_t most = random_size(&kit->random, octaves);
        berth_pool_demand_add(kit->pool, &demand, most);
        kit->sizes[i] = most - test_random_below(&kit->random, most);
        if (test_random_one_in(&kit->random, 2)) kit->sizes[i] = most;
    }
    return berth_pool_demand_bytes(kit->pool, &demand);
}

/// Promises all that nobody has to somebody else.
static void take_the_rest(promise_kit* kit, berth_reservation* others) {
    const berth_store_stats stats = memory_kit_stats(&kit->base);
    const uint64_t left = stats.capacity_bytes - stats.mapped_bytes - stats.reserved_bytes;
    const berth_account account = memory_kit_account(&kit->base, BERTH_OWNER_FRAMES);
    assert_ok(berth_store_reserve(account, left, others));
}

/// Anything that may happen between two of the takes.
static void disturb(promise_kit* kit, size_t taken, berth_reservation* others) {
    mover_owner* owner = &kit->old[test_random_below(&kit->random, OLD)];
    mover_owner* recent = &kit->new[test_random_below(&kit->random, taken)];
    const uint64_t dice = test_random_below(&kit->random, 40);
    if (dice < 4 && owner->is_out) mover_give(kit->pool, owner);
    if (dice >= 4 && dice < 12 && recent->is_out) mover_give(kit->pool, recent);
    if (dice == 12) (void)berth_compactor_tidy(&kit->compactor, &plenty);
    if (dice == 13) berth_compactor_stir(&kit->compactor, &plenty);
    if (dice == 14) berth_pool_flush_front(kit->pool);
    if (dice == 15 && !kit->returns_at_once) berth_pool_note_step(kit->pool);
    if (dice == 16) berth_pool_set_cautious(kit->pool, test_random_one_in(&kit->random, 2));
    if (dice == 17 || kit->returns_at_once) {
        // somebody else takes what is given back
        if (dice == 17) (void)berth_pool_trim(kit->pool, 0, false);
        take_the_rest(kit, others);
    }
}

/// Takes what was announced while all else of the store is promised to somebody else. False if so
/// much could not be promised.
static bool keep_promise(promise_kit* kit, uint64_t seed, uint64_t octaves) {
    const uint64_t bytes = announce(kit, octaves);
    berth_reservation promise = {0};
    const berth_account account = memory_kit_account(&kit->base, BERTH_OWNER_POOL);
    if (bytes > KIT_CAPACITY || berth_store_reserve(account, bytes, &promise) != BERTH_OK)
        return false;
    berth_reservation others = {0};
    take_the_rest(kit, &others);
    for (size_t i = 0; i < kit->count; ++i) {
        if (take(kit, &kit->new[i], kit->sizes[i], &promise) != BERTH_OK)
            fail_msg("seed %llu: block %zu of %zu, %llu bytes, was refused: %s",
                     (unsigned long long)seed,
                     i,
                     kit->count,
                     (unsigned long long)kit->sizes[i],
                     berth_last_error());
        disturb(kit, i + 1, &others);
    }
    berth_store_unreserve(kit->base.store, &others);
    berth_store_unreserve(kit->base.store, &promise);
    berth_pool_note_step(kit->pool); // with which a promise ends
    for (size_t i = 0; i < kit->count; ++i)
        if (kit->new[i].is_out) mover_give(kit->pool, &kit->new[i]);
    assert_true(berth_pool_is_valid(kit->pool));
    memory_kit_check_books(&kit->base);
    return true;
}

static void announced_blocks_are_never_refused(void** state) {
    (void)state;
    uint64_t kept = 0;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        promise_kit* kit = open_kit(seed);
        for (int round = 0; round < 6; ++round) {
            const uint64_t octaves = 3 + test_random_below(&kit->random, 14);
            age(kit, octaves);
            if (test_random_one_in(&kit->random, 2)) leave_nothing_free(kit);
            kept += keep_promise(kit, seed, octaves) ? 1 : 0;
        }
        close_kit(kit);
    }
    assert_true(kept > SEEDS); // most of them fit into the store
}

/// Takes and gives whole granules, never more at a time than was promised, while somebody else
/// trims the pool and takes all that goes back.
static void use_promise_again_and_again(promise_kit* kit, uint64_t seed) {
    enum { PROMISED = 24 };
    berth_reservation promise = {0}, others = {0};
    const berth_account account = memory_kit_account(&kit->base, BERTH_OWNER_POOL);
    if (berth_store_reserve(account, PROMISED * G, &promise) != BERTH_OK) return;
    uint64_t live = 0;
    for (int i = 0; i < 300; ++i) {
        mover_owner* owner = &kit->new[test_random_below(&kit->random, PROMISED)];
        const uint64_t granules = 1 + test_random_below(&kit->random, 6);
        if (owner->is_out) {
            live -= owner->block.size_bytes / G;
            mover_give(kit->pool, owner);
        } else if (live + granules <= PROMISED) {
            if (take(kit, owner, granules * G, &promise) != BERTH_OK)
                fail_msg("seed %llu: take %d, %llu granules beside %llu, was refused: %s",
                         (unsigned long long)seed,
                         i,
                         (unsigned long long)granules,
                         (unsigned long long)live,
                         berth_last_error());
            live += granules;
        }
        if (test_random_one_in(&kit->random, 3)) (void)berth_pool_trim(kit->pool, 0, false);
        if (test_random_one_in(&kit->random, 3))
            (void)berth_pool_release_idle(kit->pool, 0, G * test_random_below(&kit->random, 9));
        if (test_random_one_in(&kit->random, 2)) take_the_rest(kit, &others);
    }
    berth_store_unreserve(kit->base.store, &others);
    berth_store_unreserve(kit->base.store, &promise);
    berth_pool_note_step(kit->pool);
    for (size_t i = 0; i < PROMISED; ++i)
        if (kit->new[i].is_out) mover_give(kit->pool, &kit->new[i]);
    assert_true(berth_pool_is_valid(kit->pool));
    memory_kit_check_books(&kit->base);
}

static void what_is_promised_can_be_taken_whoever_trims(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed += 2) { // granules can be moved
        promise_kit* kit = open_kit(seed);
        for (int round = 0; round < 4; ++round) {
            age(kit, 12);
            use_promise_again_and_again(kit, seed);
        }
        close_kit(kit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(announced_blocks_are_never_refused),
        cmocka_unit_test(what_is_promised_can_be_taken_whoever_trims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
