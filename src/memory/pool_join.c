// SPDX-License-Identifier: Apache-2.0
// A joint is looked for among all pairs of a free end below a border of granules and a free begin
// above one: with n of each there are n^2 sums, so that some come close to what is needed.
#include "memory/pool_join.h"

#include <stdlib.h>

#include "base/numbers.h"

/// Free extents looked at.
#define MOST_EDGES 1024u
/// Pairs tried before the search ends: runs may be too long, or owners refuse.
#define MOST_TRIES 8u
/// What lies waste in a joint costs so much, what is used up of whole granules so much: memory in
/// parts of granules is worth 7/10 of that in whole ones.
enum { WASTE_COST = 7, GRANULE_COST = 3 };

// --- Edges --------------------------------------------------------------------------------------

static void add_edge(berth_pool* pool, berth_edge_vec* edges, berth_edge edge) {
    // without memory for more the search has fewer
    if (edge.bytes > 0) (void)berth_edge_vec_push(edges, pool->host, edge);
}

/// Adds what a FREE extent offers: its part up to the first border in it, and that from the last.
static void add_edges_of(berth_pool* pool, berth_extent_id id) {
    const berth_extent* extent = berth_extents_at(&pool->extents, id);
    const uint64_t end = extent->start + extent->size;
    const uint64_t first = berth_round_up(extent->start, pool->granule_bytes);
    const uint64_t last = berth_round_down(end, pool->granule_bytes);
    if (first > end) return; // inside of one granule
    add_edge(pool, &pool->tails, (berth_edge){id, first, first - extent->start});
    add_edge(pool, &pool->heads, (berth_edge){id, last, end - last});
}

static int by_bytes(const void* a, const void* b) {
    const berth_edge* left = a;
    const berth_edge* right = b;
    if (left->bytes != right->bytes) return left->bytes < right->bytes ? -1 : 1;
    return left->border < right->border ? -1 : left->border > right->border;
}

static void sort_edges(berth_edge_vec* edges) {
    if (edges->count > 0) qsort(edges->items, edges->count, sizeof *edges->items, by_bytes);
}

/// Collects the edges, those of the largest extents first if there are too many, by their size.
static void collect_edges(berth_pool* pool) {
    pool->tails.count = pool->heads.count = 0;
    berth_extent_id id = 0;
    for (uint32_t i = 0; i < MOST_EDGES; i++) {
        id = berth_extents_walk_free(&pool->extents, id, BERTH_ALIGNMENT, true);
        if (id == 0) break;
        add_edges_of(pool, id);
    }
    sort_edges(&pool->tails);
    sort_edges(&pool->heads);
}

/// The first edge with at least `bytes`; the count if there is none.
static size_t find_edge(const berth_edge_vec* edges, uint64_t bytes) {
    size_t low = 0, high = edges->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (edges->items[middle].bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void drop_edge(berth_edge_vec* edges, const berth_edge* edge) {
    size_t kept = 0;
    for (size_t i = 0; i < edges->count; i++)
        if (edges->items[i].border != edge->border) edges->items[kept++] = edges->items[i];
    edges->count = kept;
}

// --- Bringing runs together ---------------------------------------------------------------------

/// Two runs that are to have `gap_bytes` of addresses between them.
typedef struct pair {
    berth_run below; ///< ends at a border; empty: none
    berth_run above; ///< begins at one; empty: none
    uint64_t gap_bytes;
    berth_extent_id lower; ///< the FREE extent that ends `below`; 0: none
    bool is_placed;        ///< `above` is where it is to be
} pair;

/// A HOLE of `bytes`, reserved if there is none. Needs a spare record.
static berth_extent_id find_hole(berth_pool* pool, uint64_t bytes, uint64_t* out_start) {
    const uint64_t granule = pool->granule_bytes;
    berth_extent_id id = berth_extents_find(&pool->extents, true, bytes, granule, out_start);
    if (id != 0 || berth_pool_add_region(pool, bytes) != BERTH_OK) return id;
    return berth_extents_find(&pool->extents, true, bytes, granule, out_start);
}

/// The HOLE of at least `bytes` that begins where `run` ends; 0 if there is none.
static berth_extent_id hole_above(const berth_pool* pool, const berth_run* run, uint64_t bytes) {
    const berth_extent_id id =
        berth_extents_at(&pool->extents, berth_run_query_last(pool, run))->after;
    if (id == 0) return 0;
    const berth_extent* hole = berth_extents_at(&pool->extents, id);
    const bool fits = hole->state == BERTH_EXTENT_HOLE && hole->size >= bytes;
    return fits && hole->start == run->start + run->size ? id : 0;
}

/// The HOLE of at least `bytes` that ends where `run` begins; 0 if there is none.
static berth_extent_id hole_below(const berth_pool* pool, const berth_run* run, uint64_t bytes) {
    const berth_extent* first = berth_extents_at(&pool->extents, run->first);
    if (first->start != run->start || first->before == 0) return 0;
    const berth_extent* hole = berth_extents_at(&pool->extents, first->before);
    return hole->state == BERTH_EXTENT_HOLE && hole->size >= bytes ? first->before : 0;
}

/// Whether a run that was found before others were carried still begins where it did.
static bool is_there(const berth_pool* pool, const berth_run* run) {
    const berth_extent* first = berth_extents_at(&pool->extents, run->first);
    return first->state == BERTH_EXTENT_FREE && first->start <= run->start &&
           first->start + first->size > run->start;
}

/// Carries the run above to where `bytes` have room below it, if they have none; returns the HOLE
/// there, 0 if that fails. Unlocks.
static berth_extent_id clear_below(berth_pool* pool,
                                   berth_run* above,
                                   uint64_t bytes,
                                   berth_move_count* count) {
    const berth_extent_id hole = hole_below(pool, above, bytes);
    if (hole != 0) return hole;
    uint64_t start = 0;
    if (berth_extents_prepare(&pool->extents, 1) != BERTH_OK) return 0;
    const berth_extent_id far = find_hole(pool, bytes + above->size, &start);
    if (far == 0 || !berth_pool_carry(pool, above, start + bytes, far, count)) return 0;
    return hole_below(pool, above, bytes);
}

/// The same above the run below.
static berth_extent_id clear_above(berth_pool* pool,
                                   berth_run* below,
                                   uint64_t bytes,
                                   berth_move_count* count) {
    const berth_extent_id hole = hole_above(pool, below, bytes);
    if (hole != 0) return hole;
    uint64_t start = 0;
    if (berth_extents_prepare(&pool->extents, 1) != BERTH_OK) return 0;
    const berth_extent_id far = find_hole(pool, below->size + bytes, &start);
    if (far == 0 || !berth_pool_carry(pool, below, start, far, count)) return 0;
    return hole_above(pool, below, bytes);
}

/// Carries the run below to where the gap and the other run have room above it, or the gap is
/// right. Unlocks.
static bool place_below(berth_pool* pool, pair* p, berth_move_count* count) {
    const uint64_t rest = p->gap_bytes + p->above.size;
    if (hole_above(pool, &p->below, rest) != 0) return true;
    const uint64_t size = p->below.size;
    berth_extent_id hole = p->above.size > 0 ? hole_below(pool, &p->above, size + p->gap_bytes) : 0;
    uint64_t start = p->above.start - p->gap_bytes - size;
    p->is_placed = hole != 0;
    if (hole == 0) hole = find_hole(pool, size + rest, &start);
    return hole != 0 && berth_pool_carry(pool, &p->below, start, hole, count);
}

/// Carries the runs of a pair, or one of them, so that they have the gap between them. False if
/// that fails: one of them may be elsewhere then. Unlocks.
static bool bring_together(berth_pool* pool, pair* p, berth_move_count* count) {
    if (berth_extents_prepare(&pool->extents, 1) != BERTH_OK) return false;
    if (p->below.size == 0) return clear_below(pool, &p->above, p->gap_bytes, count) != 0;
    if (!place_below(pool, p, count)) return false;
    // while the other one is carried, what the first one begins with may be cut
    p->lower = berth_run_query_last(pool, &p->below);
    if (p->above.size == 0 || p->is_placed) return true;
    const berth_extent_id hole = hole_above(pool, &p->below, p->gap_bytes + p->above.size);
    const uint64_t target = p->below.start + p->below.size + p->gap_bytes;
    return hole != 0 && is_there(pool, &p->above) &&
           berth_pool_carry(pool, &p->above, target, hole, count);
}

// --- Joints -------------------------------------------------------------------------------------

/// How a block may lie: over the end of one run, whole granules, and the begin of another.
typedef struct joint {
    berth_edge tail; ///< no bytes: none
    berth_edge head;
    uint64_t granules_bytes;
    uint64_t cost;
} joint;

static void consider(joint* best, const joint* other, uint64_t waste, uint64_t room) {
    if (other->granules_bytes > room) return;
    const uint64_t cost = WASTE_COST * waste + GRANULE_COST * other->granules_bytes;
    if (cost >= best->cost) return;
    *best = *other;
    best->cost = cost;
}

/// Considers all joints with `tail`.
static void consider_tail(
    const berth_pool* pool, berth_edge tail, uint64_t size, uint64_t room, joint* best) {
    const uint64_t granule = pool->granule_bytes;
    if (tail.bytes >= size) return;
    const uint64_t rest = (size - tail.bytes) % granule;
    joint other = {.tail = tail, .granules_bytes = size - tail.bytes - rest};
    for (size_t i = find_edge(&pool->heads, rest); rest > 0 && i < pool->heads.count; i++) {
        other.head = pool->heads.items[i];
        if (other.head.id == tail.id) continue;
        consider(best, &other, other.head.bytes - rest, room);
        break;
    }
    other.head = (berth_edge){0};
    if (rest > 0) other.granules_bytes += granule;
    if (tail.bytes > 0) consider(best, &other, 0, room);
}

/// The best joint for `size` bytes that takes at most `room` of whole granules.
static bool find_joint(const berth_pool* pool, uint64_t size, uint64_t room, joint* out_best) {
    *out_best = (joint){.cost = UINT64_MAX};
    consider_tail(pool, (berth_edge){0}, size, room, out_best);
    for (size_t i = 0; i < pool->tails.count; i++)
        consider_tail(pool, pool->tails.items[i], size, room, out_best);
    return out_best->cost != UINT64_MAX;
}

/// Finds the runs of a joint; drops an edge that has none.
static bool find_pair(berth_pool* pool, const joint* j, pair* out_pair) {
    *out_pair = (pair){.gap_bytes = j->granules_bytes};
    if (j->tail.bytes > 0 &&
        !berth_run_find_below(pool, j->tail.id, j->tail.border, &out_pair->below)) {
        drop_edge(&pool->tails, &j->tail);
        return false;
    }
    const bool has_both = j->head.bytes > 0 && j->tail.bytes > 0;
    const bool has_above = j->head.bytes > 0 &&
                           berth_run_find_above(pool, j->head.id, j->head.border, &out_pair->above);
    const bool is_same = has_both && has_above && out_pair->above.start == out_pair->below.start;
    if (j->head.bytes == 0 || (has_above && !is_same)) return true;
    drop_edge(&pool->heads, &j->head);
    return false;
}

/// Brings together what makes a joint, and maps what belongs between.
static berth_status make_joint(berth_pool* pool,
                               const joint* j,
                               pair* p,
                               uint64_t size,
                               berth_lifetime lifetime,
                               berth_extent_id* out_id) {
    berth_move_count count = {0};
    const bool is_done = bring_together(pool, p, &count);
    pool->asked.moved_bytes += count.remapped_bytes;
    if (!is_done) return BERTH_OK;
    if (j->granules_bytes == 0) {
        BERTH_TRY(berth_extents_prepare(&pool->extents, 2));
        const uint64_t start = p->below.start + p->below.size - j->tail.bytes;
        *out_id = berth_extents_take_out(
            &pool->extents, p->lower, start, size, BERTH_EXTENT_USED, lifetime);
        return BERTH_OK;
    }
    const uint64_t map_start =
        p->lower != 0 ? p->below.start + p->below.size : p->above.start - j->granules_bytes;
    const berth_pool_gap gap = {.lower = p->lower,
                                .upper = p->above.size > 0 ? p->above.first : 0,
                                .start = map_start,
                                .size = j->granules_bytes};
    return berth_pool_fill_gap(pool, &gap, size, lifetime, out_id);
}

berth_status berth_pool_join(berth_pool* pool,
                             uint64_t size,
                             uint64_t room_bytes,
                             berth_lifetime lifetime,
                             berth_extent_id* out_id) {
    berth_pool_put_in_order(pool, true);
    BERTH_TRY(berth_extents_prepare(&pool->extents, 2));
    uint64_t start = 0;
    *out_id = berth_extents_find(&pool->extents, false, size, BERTH_ALIGNMENT, &start);
    if (*out_id != 0) {
        *out_id = berth_extents_take_out(
            &pool->extents, *out_id, start, size, BERTH_EXTENT_USED, lifetime);
        return BERTH_OK;
    }
    collect_edges(pool);
    for (uint32_t i = 0; i < MOST_TRIES; i++) {
        joint best;
        pair p;
        if (!find_joint(pool, size, room_bytes, &best)) return BERTH_OK;
        if (find_pair(pool, &best, &p)) return make_joint(pool, &best, &p, size, lifetime, out_id);
    }
    return BERTH_OK;
}

// --- Merging ------------------------------------------------------------------------------------

/// Lays the end of the run below `tail` onto the granule that the run above begins with.
static bool merge_down(berth_pool* pool, const berth_edge* tail, pair* p, berth_move_count* count) {
    const uint64_t whole = p->below.size - pool->granule_bytes;
    berth_extent_id hole = p->above.first;
    if (whole > 0 && (hole = clear_below(pool, &p->above, whole, count)) == 0) return false;
    // what the run begins with may have been cut
    berth_run run;
    if (!berth_run_find_below(pool, tail->id, tail->border, &run)) return false;
    run.size -= tail->bytes;
    return berth_pool_carry(pool, &run, p->above.start - whole, hole, count);
}

/// Lays the begin of the run above `head` onto the granule that the run below ends with.
static bool merge_up(berth_pool* pool, const berth_edge* head, pair* p, berth_move_count* count) {
    const uint64_t whole = p->above.size - pool->granule_bytes;
    berth_extent_id hole = 0;
    if (whole > 0 && (hole = clear_above(pool, &p->below, whole, count)) == 0) return false;
    if (hole == 0) hole = berth_run_query_last(pool, &p->below);
    if (!is_there(pool, &p->above)) return false;
    berth_run run = {.first = berth_extents_at(&pool->extents, p->above.first)->after,
                     .start = p->above.start + head->bytes,
                     .size = p->above.size - head->bytes};
    const uint64_t used = pool->granule_bytes - head->bytes;
    const uint64_t target = p->below.start + p->below.size - used;
    return berth_pool_carry(pool, &run, target, hole, count);
}

/// The largest of `edges` that makes a granule with one of `others`, of which the least that does
/// is taken; false if there is none. Both may be of one FREE extent only if `may_be_one`.
static bool match_largest(const berth_pool* pool,
                          const berth_edge_vec* edges,
                          const berth_edge_vec* others,
                          bool may_be_one,
                          berth_edge* out_edge,
                          berth_edge* out_other) {
    for (size_t i = edges->count; i-- > 0;) {
        *out_edge = edges->items[i];
        size_t k = find_edge(others, pool->granule_bytes - out_edge->bytes);
        if (!may_be_one && k < others->count && others->items[k].id == out_edge->id) k++;
        if (k == others->count) continue;
        *out_other = others->items[k];
        return true;
    }
    return false;
}

/// The pair whose merge copies least, `*is_down` if that is from the tail's granule; false if no
/// two edges make a granule together.
static bool find_merge(const berth_pool* pool, joint* out_best, bool* is_down) {
    joint down = {.cost = UINT64_MAX}, up = {.cost = UINT64_MAX};
    if (match_largest(pool, &pool->tails, &pool->heads, true, &down.tail, &down.head))
        down.cost = pool->granule_bytes - down.tail.bytes;
    if (match_largest(pool, &pool->heads, &pool->tails, false, &up.head, &up.tail))
        up.cost = pool->granule_bytes - up.head.bytes;
    *is_down = down.cost <= up.cost;
    *out_best = *is_down ? down : up;
    return out_best->cost != UINT64_MAX;
}

bool berth_pool_merge(berth_pool* pool, uint64_t limit_bytes, berth_move_count* count) {
    if (!pool->can_remap) return false;
    berth_mutex_lock(pool->lock);
    berth_pool_put_in_order(pool, true);
    collect_edges(pool);
    bool is_done = false;
    for (uint32_t i = 0; i < MOST_TRIES && !is_done; i++) {
        joint best;
        pair p;
        bool is_down = false;
        if (!find_merge(pool, &best, &is_down) || best.cost > limit_bytes) break;
        if (!find_pair(pool, &best, &p)) continue;
        is_done = is_down ? merge_down(pool, &best.tail, &p, count)
                          : merge_up(pool, &best.head, &p, count);
        if (!is_done) break;
    }
    berth_mutex_unlock(pool->lock);
    return is_done;
}
