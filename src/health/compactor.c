// SPDX-License-Identifier: Apache-2.0
// Victims are the granules with the least to move, as many as the rest has room for; heat counts
// for a quarter at most, so that it never costs much more bytes than there are to be moved.
#include "health/compactor.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

/// Extents that one slice looks at.
#define SURVEY_EXTENTS 4096u
/// Uses that are this close to the latest one are hot.
#define HOT_USES 64u
/// Where nobody waits for room, a granule is worth emptying that holds at most 3/4 of itself.
#define WORTH_SHARE_OF_4 3u
/// Copying is thought to take so long until it has been seen.
#define FIRST_NS_PER_MIB UINT64_C(150000)
/// Granules that one round looks at where nobody waits for room.
#define ROUND_CANDIDATES 512u
#define MOST_SIXTEENTHS 32u
#define MIB (UINT64_C(1) << 20)

void berth_compactor_init(berth_compactor* compactor, const berth_host* host, berth_pool* pool) {
    *compactor = (berth_compactor){.host = host, .pool = pool, .ns_per_mib = FIRST_NS_PER_MIB};
}

void berth_compactor_fini(berth_compactor* compactor) {
    if (compactor->host == NULL) return;
    berth_survey_fini(&compactor->survey, compactor->host);
    berth_compact_victim_vec_fini(&compactor->candidates, compactor->host);
    berth_mover_fini(&compactor->mover, compactor->host);
}

// --- Slices -------------------------------------------------------------------------------------

/// A slice under way.
typedef struct slice {
    berth_compact_budget budget;
    uint64_t begin_ns;
    uint64_t bytes; ///< copied
    bool is_forced; ///< somebody waits for room: what is too large for a slice gets one of its own
} slice;

static slice begin_slice(const berth_compact_budget* budget, bool is_forced) {
    return (slice){.budget = *budget, .begin_ns = berth_clock_now_ns(), .is_forced = is_forced};
}

static uint32_t time_bucket(uint64_t ns) {
    const uint32_t bits = ns == 0 ? 0 : 64u - (uint32_t)__builtin_clzll(ns);
    return bits < BERTH_COMPACT_BUCKETS ? bits : BERTH_COMPACT_BUCKETS - 1;
}

static void end_slice(berth_compactor* compactor, const slice* now) {
    berth_compact_stats* stats = &compactor->stats;
    const uint64_t ns = berth_clock_now_ns() - now->begin_ns;
    ++stats->slices;
    ++stats->slices_by_time[time_bucket(ns)];
    if (ns > stats->longest_ns) stats->longest_ns = ns;
}

/// Whether a step that copies `bytes` still fits into the slice.
static bool has_room(const berth_compactor* compactor, const slice* now, uint64_t bytes) {
    // what comes first may take the slice's time alone: it is expected by what others took
    if (now->bytes == 0 && bytes > 0) return now->is_forced || bytes <= now->budget.bytes;
    if (now->bytes + bytes > now->budget.bytes) return false;
    const uint64_t spent = berth_clock_now_ns() - now->begin_ns;
    return spent + bytes * compactor->ns_per_mib / MIB < now->budget.ns;
}

/// Whether a step that copies `bytes` fits into no slice at all.
static bool is_too_large(const slice* now, uint64_t bytes) {
    return !now->is_forced && bytes > now->budget.bytes;
}

// --- Choosing victims ---------------------------------------------------------------------------

/// Whether somebody waits for room.
static bool is_asked(const berth_compactor* compactor) {
    return compactor->wanted_bytes != UINT64_MAX;
}

static int by_score(const void* a, const void* b) {
    const berth_compact_victim* left = a;
    const berth_compact_victim* right = b;
    if (left->score != right->score) return left->score < right->score ? -1 : 1;
    return left->granule < right->granule ? -1 : left->granule > right->granule;
}

/// Adds a granule that may become a victim. False without host memory.
static bool add_candidate(berth_compactor* compactor, size_t index) {
    const berth_granule_view* view = &compactor->survey.granules.items[index];
    const bool is_hot = view->last_use + HOT_USES > compactor->survey.newest_use;
    const berth_compact_victim victim = {
        .granule = index,
        .move_bytes = view->move_bytes,
        .score = view->move_bytes + (is_hot ? view->move_bytes / 4 : 0),
    };
    return berth_compact_victim_vec_push(&compactor->candidates, compactor->host, victim) ==
           BERTH_OK;
}

/// Sixteenths of itself that a candidate has to move, or MOST_SIXTEENTHS.
static uint64_t sixteenths_of(const berth_survey* survey, const berth_granule_view* view) {
    const uint64_t sixteenths = view->move_bytes / (survey->granule_bytes / 16);
    return sixteenths < MOST_SIXTEENTHS ? sixteenths : MOST_SIXTEENTHS;
}

/// Whether the granule could be emptied if there is room.
static bool is_candidate(const berth_compactor* compactor, const berth_granule_view* view) {
    const uint64_t granule = compactor->survey.granule_bytes;
    if (view->any == 0 || view->is_stuck || view->live_bytes >= granule) return false;
    return is_asked(compactor) || view->move_bytes <= granule / 4 * WORTH_SHARE_OF_4;
}

/// The sixteenths that the cheapest candidates stay below, as many as one round takes.
static uint64_t limit_candidates(const berth_compactor* compactor) {
    const berth_survey* survey = &compactor->survey;
    uint64_t enough = ROUND_CANDIDATES;
    // some will turn out not to move
    if (is_asked(compactor)) enough += compactor->wanted_bytes / survey->granule_bytes * 2;
    size_t counts[MOST_SIXTEENTHS + 1] = {0};
    for (size_t i = 0; i < survey->granules.count; ++i) {
        const berth_granule_view* view = &survey->granules.items[i];
        if (is_candidate(compactor, view)) ++counts[sixteenths_of(survey, view)];
    }
    uint64_t limit = 0;
    for (uint64_t sum = 0; limit <= MOST_SIXTEENTHS && sum < enough; ++limit)
        sum += counts[limit];
    return limit;
}

/// Collects the candidates; returns the bytes that are free beside blocks.
static uint64_t collect_candidates(berth_compactor* compactor) {
    const berth_survey* survey = &compactor->survey;
    const uint64_t limit = limit_candidates(compactor);
    uint64_t room = 0;
    compactor->candidates.count = 0;
    for (size_t i = 0; i < survey->granules.count; ++i) {
        const berth_granule_view* view = &survey->granules.items[i];
        if (view->any == 0 || view->live_bytes >= survey->granule_bytes) continue;
        room += survey->granule_bytes - view->live_bytes;
        if (is_candidate(compactor, view) && sixteenths_of(survey, view) < limit &&
            !add_candidate(compactor, i))
            break;
    }
    berth_compact_victim_vec* found = &compactor->candidates;
    if (found->count > 0) qsort(found->items, found->count, sizeof *found->items, by_score);
    return room;
}

static berth_granule_view* view_of(const berth_compactor* compactor, size_t candidate) {
    return &compactor->survey.granules.items[compactor->candidates.items[candidate].granule];
}

/// Makes the cheapest candidates victims: as many as are wanted, and as the rest has room for.
static void choose_victims(berth_compactor* compactor) {
    const uint64_t granule = compactor->survey.granule_bytes;
    uint64_t room = collect_candidates(compactor);
    uint64_t moved = 0;
    size_t count = 0;
    while (count < compactor->candidates.count && count * granule < compactor->wanted_bytes) {
        berth_granule_view* view = view_of(compactor, count);
        const uint64_t own = granule - view->live_bytes;
        if (moved + view->move_bytes > room - own) break;
        moved += view->move_bytes;
        room -= own;
        view->is_victim = true;
        ++count;
    }
    // where so much cannot be had, nothing is moved for it
    if (is_asked(compactor) && count * granule < compactor->wanted_bytes)
        compactor->candidates.count = count = 0;
    compactor->victim_count = count;
    compactor->next_victim = 0;
    compactor->emptied_bytes = 0;
}

// --- Emptying -----------------------------------------------------------------------------------

/// Learns from a step that copied `bytes` in `ns`.
static void learn_speed(berth_compactor* compactor, uint64_t bytes, uint64_t ns) {
    if (bytes < MIB / 16) return; // too little to tell
    const uint64_t seen = ns * MIB / bytes;
    compactor->ns_per_mib = (compactor->ns_per_mib * 3 + seen) / 4;
}

typedef enum outcome { DONE, REFUSED, OUT_OF_BUDGET } outcome;

/// Moves what the mover has to do as far as the slice allows.
static outcome run_mover(berth_compactor* compactor, slice* now) {
    berth_compact_stats* stats = &compactor->stats;
    for (uint64_t bytes; (bytes = berth_mover_query_next(&compactor->mover)) != 0;) {
        if (!has_room(compactor, now, bytes))
            return is_too_large(now, bytes) ? REFUSED : OUT_OF_BUDGET;
        berth_move_count count = {0};
        const uint64_t begin_ns = berth_clock_now_ns();
        const bool is_done = berth_mover_step(&compactor->mover, &count);
        learn_speed(compactor, count.moved_bytes, berth_clock_now_ns() - begin_ns);
        now->bytes += count.moved_bytes;
        stats->moved_bytes += count.moved_bytes;
        stats->moved_blocks += count.blocks;
        if (!is_done) return REFUSED;
    }
    return DONE;
}

/// The next victim has no place to go to: others become places instead, or it stays as it is.
static void give_way(berth_compactor* compactor) {
    const size_t left = compactor->victim_count - compactor->next_victim;
    if (is_asked(compactor) || left == 1) {
        view_of(compactor, compactor->next_victim++)->is_victim = false;
        return;
    }
    for (size_t kept = compactor->next_victim + left / 2; compactor->victim_count > kept;)
        view_of(compactor, --compactor->victim_count)->is_victim = false;
}

/// The next victim stays as it is. Who waits for room gets another one instead.
static void pass_over(berth_compactor* compactor) {
    view_of(compactor, compactor->next_victim++)->is_victim = false;
    ++compactor->stats.refused;
}

/// As many more victims as are wanted and have not been had.
static void replace_victims(berth_compactor* compactor) {
    const uint64_t granule = compactor->survey.granule_bytes;
    while (is_asked(compactor) && compactor->victim_count < compactor->candidates.count) {
        const size_t left = compactor->victim_count - compactor->next_victim;
        if (compactor->emptied_bytes + left * granule >= compactor->wanted_bytes) return;
        view_of(compactor, compactor->victim_count++)->is_victim = true;
    }
}

/// Empties the next victim, or goes on with it. False if the slice is at its end.
static bool empty_victim(berth_compactor* compactor, slice* now) {
    berth_mover* mover = &compactor->mover;
    const size_t index = compactor->candidates.items[compactor->next_victim].granule;
    switch (berth_mover_begin(mover, compactor->pool, &compactor->survey, index)) {
    case BERTH_MOVER_STUCK:
        pass_over(compactor);
        return true;
    case BERTH_MOVER_NO_PLACE:
        give_way(compactor);
        return true;
    case BERTH_MOVER_READY:
        break;
    }
    outcome result = REFUSED;
    if (!is_too_large(now, mover->largest_bytes)) result = run_mover(compactor, now);
    berth_mover_end(mover);
    if (result == REFUSED) pass_over(compactor);
    if (result != DONE) return result == REFUSED;
    ++compactor->next_victim;
    compactor->emptied_bytes += compactor->survey.granule_bytes;
    compactor->stats.emptied_bytes += compactor->survey.granule_bytes;
    return true;
}

static void settle(berth_compactor* compactor) {
    compactor->stage = BERTH_COMPACT_IDLE;
    // what has been emptied may let more be
    compactor->is_settled = compactor->emptied_bytes == 0;
    compactor->settled_at = berth_pool_query_changes(compactor->pool);
}

/// Empties victims as far as the slice allows.
static void empty_victims(berth_compactor* compactor, slice* now) {
    replace_victims(compactor);
    while (compactor->next_victim < compactor->victim_count) {
        if (!empty_victim(compactor, now)) return;
        replace_victims(compactor);
        if (!has_room(compactor, now, 0)) break;
    }
    if (compactor->next_victim >= compactor->victim_count) settle(compactor);
}

// --- The parts of a round -----------------------------------------------------------------------

/// Begins a round. False without host memory.
static bool begin_round(berth_compactor* compactor, uint64_t wanted_bytes) {
    compactor->wanted_bytes = wanted_bytes;
    compactor->emptied_bytes = 0;
    compactor->victim_count = compactor->next_victim = 0;
    compactor->stage = BERTH_COMPACT_IDLE;
    if (berth_survey_begin(&compactor->survey, compactor->pool) != BERTH_OK) return false;
    compactor->stage = BERTH_COMPACT_SURVEY;
    return true;
}

static void continue_survey(berth_compactor* compactor, slice* now) {
    do {
        if (!berth_survey_continue(&compactor->survey, compactor->pool, SURVEY_EXTENTS)) continue;
        choose_victims(compactor);
        compactor->stage = BERTH_COMPACT_EMPTY;
        return;
    } while (has_room(compactor, now, 0));
}

static void run_slice(berth_compactor* compactor, const berth_compact_budget* budget) {
    berth_pool_flush_front(compactor->pool); // what is in there would stay where it is
    slice now = begin_slice(budget, is_asked(compactor));
    if (compactor->stage == BERTH_COMPACT_SURVEY) continue_survey(compactor, &now);
    if (compactor->stage == BERTH_COMPACT_EMPTY) empty_victims(compactor, &now);
    end_slice(compactor, &now);
}

bool berth_compactor_tidy(berth_compactor* compactor, const berth_compact_budget* budget) {
    if (compactor->stage == BERTH_COMPACT_IDLE) {
        const uint64_t changes = berth_pool_query_changes(compactor->pool);
        if (compactor->is_settled && compactor->settled_at == changes) return false;
        if (!begin_round(compactor, UINT64_MAX)) return false;
    }
    run_slice(compactor, budget);
    return compactor->stage != BERTH_COMPACT_IDLE || !compactor->is_settled;
}

uint64_t berth_compactor_make_room(berth_compactor* compactor,
                                   const berth_compact_budget* budget,
                                   uint64_t bytes) {
    if (!begin_round(compactor, bytes)) return 0;
    while (compactor->stage != BERTH_COMPACT_IDLE)
        run_slice(compactor, budget);
    // a round for its own sake may still find something
    compactor->is_settled = false;
    return compactor->emptied_bytes;
}

void berth_compactor_stir(berth_compactor* compactor, const berth_compact_budget* budget) {
    slice now = begin_slice(budget, false);
    berth_move_count count = {0};
    berth_pool_stir(compactor->pool, &compactor->stirred, budget->bytes, &count);
    compactor->stats.moved_bytes += count.moved_bytes;
    compactor->stats.moved_blocks += count.blocks;
    end_slice(compactor, &now);
}

// --- Statistics ---------------------------------------------------------------------------------

uint64_t berth_compact_query_slice_ns(const berth_compact_stats* stats, uint32_t per_mille) {
    uint64_t seen = 0;
    for (uint32_t i = 0; i < BERTH_COMPACT_BUCKETS; ++i) {
        seen += stats->slices_by_time[i];
        if (seen == 0 || seen * 1000 < stats->slices * per_mille) continue;
        const uint64_t bound = UINT64_C(1) << i;
        return bound < stats->longest_ns ? bound : stats->longest_ns;
    }
    return stats->longest_ns;
}

void berth_compact_stats_add(berth_compact_stats* stats, const berth_compact_stats* more) {
    stats->slices += more->slices;
    stats->moved_bytes += more->moved_bytes;
    stats->moved_blocks += more->moved_blocks;
    stats->emptied_bytes += more->emptied_bytes;
    stats->refused += more->refused;
    if (more->longest_ns > stats->longest_ns) stats->longest_ns = more->longest_ns;
    for (uint32_t i = 0; i < BERTH_COMPACT_BUCKETS; ++i)
        stats->slices_by_time[i] += more->slices_by_time[i];
}
