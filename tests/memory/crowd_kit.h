// SPDX-License-Identifier: Apache-2.0
// A pool of blocks that move, each with content that tells its place, for tests of what moves them.
#ifndef BERTH_TEST_CROWD_KIT_H
#define BERTH_TEST_CROWD_KIT_H

#include "memory_kit.h"

#include "kit/movers.h"
#include "memory/pool_slide.h"

#define G KIT_GRANULE

enum { MOST = 400 };

typedef struct crowd_kit {
    memory_kit base;
    berth_pool* pool;
    berth_slide_vec slides;
    mover_owner owners[MOST];
    size_t count;
} crowd_kit;

static inline crowd_kit* open_kit(const berth_sim_options* options) {
    crowd_kit* kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    memory_kit_init(&kit->base, options);
    const berth_pool_config config = {
        .host = kit->base.host, .store = kit->base.store, .stream = kit->base.stream};
    assert_ok(berth_pool_create(&config, &kit->pool));
    return kit;
}

static inline void close_kit(crowd_kit* kit) {
    for (size_t i = 0; i < kit->count; i++)
        if (kit->owners[i].is_out) mover_give(kit->pool, &kit->owners[i]);
    berth_slide_vec_fini(&kit->slides, kit->base.host);
    berth_pool_destroy(kit->pool);
    memory_kit_fini(&kit->base);
    free(kit);
}

/// Byte `at` of a block; no two places nearby hold the same, so that a part that ends up in a wrong
/// place is seen.
static inline unsigned char byte_at(const mover_owner* owner, uint64_t at) {
    return (unsigned char)(owner->mark + at * 37 + (at >> 8) * 101 + (at >> 16) * 3);
}

/// As mover_take, with bytes that tell their place.
static inline berth_status take_for(crowd_kit* kit,
                                    mover_owner* owner,
                                    uint64_t bytes,
                                    unsigned char mark) {
    const berth_status status = mover_take(kit->pool, kit->base.stream, owner, bytes, mark);
    for (uint64_t at = 0; status == BERTH_OK && at < bytes; at++)
        owner->block.data[at] = byte_at(owner, at);
    return status;
}

static inline void check_owner(const mover_owner* owner) {
    assert_false(owner->is_still);
    for (uint64_t at = 0; at < owner->block.size_bytes; at++)
        if (owner->block.data[at] != byte_at(owner, at)) fail_msg("a block's content changed");
}

static inline void take(crowd_kit* kit, uint64_t bytes) {
    assert_true(kit->count < MOST);
    const unsigned char mark = (unsigned char)(kit->count * 7 + 1);
    assert_ok(take_for(kit, &kit->owners[kit->count++], bytes, mark));
}

static inline void check(crowd_kit* kit) {
    assert_ok(berth_stream_synchronize(kit->base.stream));
    for (size_t i = 0; i < kit->count; i++)
        if (kit->owners[i].is_out) check_owner(&kit->owners[i]);
    assert_true(berth_pool_is_valid(kit->pool));
    memory_kit_check_books(&kit->base);
}

static inline uint64_t whole_bytes(const crowd_kit* kit) {
    uint64_t whole, beside;
    berth_pool_query_free(kit->pool, &whole, &beside);
    return whole;
}

static inline uint64_t moves_of(const crowd_kit* kit) {
    uint64_t moves = 0;
    for (size_t i = 0; i < kit->count; i++)
        moves += kit->owners[i].moves;
    return moves;
}

#endif // BERTH_TEST_CROWD_KIT_H
