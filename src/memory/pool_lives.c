// SPDX-License-Identifier: Apache-2.0
// How long the blocks of a pool live: what is believed of a new one, what its site learns from it,
// and the blocks that turn out to live longer than believed while they do.
#include "memory/pool_internal.h"

/// Takes from one look at the oldest beliefs to the next, and the extents looked at then.
#define REVIEW_TAKES 64u
#define REVIEW_EXTENTS 32u
/// The same at a step's end.
#define REVIEW_EXTENTS_A_STEP 64u

/// What a block's life so far amounts to.
static berth_lifetime age_of(const berth_pool* pool, const berth_extent* extent) {
    return berth_lifetime_of((uint32_t)pool->takes - extent->born,
                             (uint32_t)pool->steps - extent->born_step);
}

/// Lets the site of a block learn that it lives like `seen`, once.
static void learn(berth_pool* pool, berth_extent* extent, berth_lifetime seen) {
    if (extent->learned == seen) return;
    berth_sites_learn(&pool->sites, extent->site, (berth_lifetime)extent->predicted, seen);
    extent->learned = (uint8_t)seen;
    extent->predicted = BERTH_LIFETIME_UNKNOWN;
}

/// Looks whether a block has outlived what was believed of it, and moves what is free around it to
/// where its neighbours are like it.
static void review_extent(berth_pool* pool, berth_extent_id id) {
    berth_extent* extent = berth_extents_at(&pool->extents, id);
    if (extent->state != BERTH_EXTENT_USED || extent->slab != 0) return;
    const berth_lifetime seen = age_of(pool, extent);
    if (seen <= extent->lifetime) return;
    learn(pool, extent, seen);
    berth_extents_set_lifetime(&pool->extents, id, seen);
}

/// Looks at the next `count` extents.
static void review(berth_pool* pool, size_t count) {
    const size_t all = pool->extents.record_count;
    for (size_t i = 0; i < count && i < all; i++) {
        if (++pool->reviewed >= all) pool->reviewed = 1;
        review_extent(pool, (berth_extent_id)pool->reviewed);
    }
    pool->review_takes = pool->takes;
}

/// What is believed as things stand.
static berth_life believe(berth_pool* pool, uint64_t site) {
    berth_life life = {.predicted = BERTH_LIFETIME_UNKNOWN};
    life.site = berth_sites_predict(&pool->sites, site, &life.predicted);
    const bool known = life.predicted != BERTH_LIFETIME_UNKNOWN;
    life.believed = known ? life.predicted : BERTH_LIFETIME_MEDIUM;
    return life;
}

static bool is_review_due(const berth_pool* pool) {
    return pool->takes - pool->review_takes >= REVIEW_TAKES;
}

berth_life berth_pool_expect_life(berth_pool* pool, uint64_t site) {
    if (is_review_due(pool)) review(pool, REVIEW_EXTENTS);
    return believe(pool, site);
}

berth_life berth_pool_expect_life_in_front(berth_pool* pool, uint64_t site) {
    if (is_review_due(pool) && berth_mutex_try_lock(pool->lock)) {
        review(pool, REVIEW_EXTENTS);
        berth_mutex_unlock(pool->lock);
    }
    return believe(pool, site);
}

void berth_pool_begin_life(berth_pool* pool,
                           berth_extent* extent,
                           const berth_life* life,
                           berth_block* block) {
    extent->site = block->site = life->site;
    extent->born = block->born = (uint32_t)pool->takes;
    extent->born_step = (uint32_t)pool->steps;
    extent->predicted = (uint8_t)life->predicted;
    extent->learned = BERTH_LIFETIME_UNKNOWN;
    if (life->predicted != BERTH_LIFETIME_UNKNOWN) berth_pool_count(&pool->sites.predictions, 1);
}

void berth_pool_move_life(berth_pool* pool, berth_extent_id from, berth_extent_id to) {
    const berth_extent* old = berth_extents_at(&pool->extents, from);
    berth_extent* extent = berth_extents_at(&pool->extents, to);
    extent->site = old->site;
    extent->born = old->born;
    extent->born_step = old->born_step;
    extent->predicted = old->predicted;
    extent->learned = old->learned;
    berth_extents_set_lifetime(&pool->extents, to, (berth_lifetime)old->lifetime);
}

void berth_pool_end_life(berth_pool* pool, berth_extent* extent) {
    if (extent->site != 0) learn(pool, extent, age_of(pool, extent));
    // in the front it is nobody's, and has no age
    extent->site = 0;
    extent->born = (uint32_t)pool->takes;
    extent->born_step = (uint32_t)pool->steps;
}

void berth_pool_note_step(berth_pool* pool) {
    berth_mutex_lock(pool->lock);
    pool->steps++;
    pool->is_promised = false;
    review(pool, REVIEW_EXTENTS_A_STEP);
    berth_mutex_unlock(pool->lock);
}

void berth_pool_set_cautious(berth_pool* pool, bool cautious) {
    berth_mutex_lock(pool->lock);
    pool->is_cautious = cautious;
    berth_mutex_unlock(pool->lock);
}
