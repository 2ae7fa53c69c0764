// SPDX-License-Identifier: Apache-2.0
// Victims are the granules with the least to move, as many as the rest has room for; heat counts
// for a quarter at most, so that it never costs much more bytes than there are to be moved.
#include "health/compactor.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "memory/pool_join.h"

/// Extents that one slice looks at.
#define SURVEY_EXTENTS 4096u
/// Uses that are this close to the latest one are hot.
#define HOT_USES 64u
/// Where nobody waits for room, a granule is worth emptying that holds at most so many sixteenths
/// of itself; the second where nobody uses the memory either.
#define WORTH_SIXTEENTHS 12u
#define WORTH_SIXTEENTHS_IDLE 15u
/// Copying is thought to take so long until it has been seen.
#define FIRST_NS_PER_MIB UINT64_C(150000)
/// Granules that one round looks at where nobody waits for room.
#define ROUND_CANDIDATES 512u
#define MOST_SIXTEENTHS 32u
/// Times that blocks are pushed together for one request.
#define MOST_ROUNDS 16u
#define MIB (UINT64_C(1) << 20)

void berth_compactor_init(berth_compactor* compactor, const berth_host* host, berth_pool* pool) {
    *compactor = (berth_compactor){.host = host, .pool = pool, .ns_per_mib = FIRST_NS_PER_MIB};
}

void berth_compactor_fini(berth_compactor* compactor) {
    if (compactor->host == NULL) return;
    berth_survey_fini(&compactor->survey, compactor->host);
    berth_compact_victim_vec_fini(&compactor->candidates, compactor->host);
    berth_mover_fini(&compactor->mover, compactor->host);
    berth_slide_vec_fini(&compactor->slides, compactor->host);
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
    const uint64_t worth = compactor->is_thorough ? WORTH_SIXTEENTHS_IDLE : WORTH_SIXTEENTHS;
    return is_asked(compactor) || view->move_bytes <= granule / 16 * worth;
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
    compactor->planned_bytes = moved;
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
    if (!compactor->is_thorough) return;
    compactor->is_thorough = false;
    compactor->is_thorough_done = compactor->is_settled;
    compactor->thorough_at = compactor->settled_at;
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
    compactor->is_thorough = false;
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

/// Pushes the blocks of one slide together, as far as the slice allows.
static outcome run_slide(berth_compactor* compactor, berth_slide* slide, slice* now) {
    for (uint64_t bytes; (bytes = berth_slide_query_next(compactor->pool, slide)) != 0;) {
        if (!has_room(compactor, now, bytes))
            return is_too_large(now, bytes) ? REFUSED : OUT_OF_BUDGET;
        berth_move_count count = {0};
        const uint64_t begin_ns = berth_clock_now_ns();
        const bool is_done = berth_slide_step(compactor->pool, slide, &count);
        learn_speed(compactor, count.moved_bytes, berth_clock_now_ns() - begin_ns);
        now->bytes += count.moved_bytes;
        compactor->stats.moved_bytes += count.moved_bytes;
        compactor->stats.moved_blocks += count.blocks;
        if (!is_done) return REFUSED;
    }
    return slide->blocks == 0 ? DONE : REFUSED;
}

/// Makes the slides that have been planned.
static void run_slides(berth_compactor* compactor, const berth_compact_budget* budget) {
    slice now = begin_slice(budget, true);
    for (size_t i = 0; i < compactor->slides.count; ++i) {
        berth_slide* slide = &compactor->slides.items[i];
        outcome result;
        while ((result = run_slide(compactor, slide, &now)) == OUT_OF_BUDGET) {
            end_slice(compactor, &now);
            now = begin_slice(budget, true);
        }
        if (result == DONE)
            compactor->stats.emptied_bytes += slide->gain_bytes;
        else
            ++compactor->stats.refused;
    }
    end_slice(compactor, &now);
}

/// Lays two ends of runs into one granule; false if that would copy more than `limit_bytes`.
static bool merge_one(berth_compactor* compactor, slice* now, uint64_t limit_bytes) {
    berth_move_count count = {0};
    const bool is_done = berth_pool_merge(compactor->pool, limit_bytes, &count);
    now->bytes += count.moved_bytes;
    compactor->stats.moved_bytes += count.moved_bytes;
    compactor->stats.remapped_bytes += count.remapped_bytes;
    if (is_done) compactor->stats.emptied_bytes += compactor->survey.granule_bytes;
    return is_done;
}

/// Lays blocks of different granules into one until granules of `bytes` are free, for at most
/// `limit_bytes` of copies each; returns what is free then.
static uint64_t merge_granules(berth_compactor* compactor,
                               const berth_compact_budget* budget,
                               uint64_t bytes,
                               uint64_t limit_bytes) {
    const uint64_t granule = compactor->survey.granule_bytes;
    uint64_t gained = 0;
    slice now = begin_slice(budget, true);
    while (gained < bytes) {
        if (!has_room(compactor, &now, granule / 2)) {
            end_slice(compactor, &now);
            now = begin_slice(budget, true);
        }
        if (!merge_one(compactor, &now, limit_bytes)) break;
        gained += granule;
    }
    end_slice(compactor, &now);
    return gained;
}

/// Bytes of whole granules that lie free.
static uint64_t query_whole(const berth_compactor* compactor) {
    uint64_t whole, beside;
    berth_pool_query_free(compactor->pool, &whole, &beside);
    return whole;
}

/// Plans to push blocks together for `bytes`, after what lies apart has been gathered if need be;
/// returns what that will gain.
static uint64_t plan_slides(berth_compactor* compactor, uint64_t bytes, bool aligns) {
    berth_pool* pool = compactor->pool;
    const uint64_t planned = berth_slides_plan(pool, bytes, aligns, &compactor->slides);
    if (planned >= bytes) return planned;
    berth_move_count count = {0};
    berth_pool_gather(pool, &count);
    compactor->stats.remapped_bytes += count.remapped_bytes;
    return berth_slides_plan(pool, bytes, aligns, &compactor->slides);
}

/// Pushes blocks together until granules of `bytes` are free, or nothing is gained any more;
/// returns the bytes gained.
static uint64_t slide_for(berth_compactor* compactor,
                          const berth_compact_budget* budget,
                          uint64_t bytes) {
    const uint64_t before = query_whole(compactor);
    uint64_t gained = 0;
    for (uint32_t round = 0; round < MOST_ROUNDS && gained < bytes; ++round) {
        // the first way copies less, and may find that ends of runs cannot be merged
        const bool aligns = round % 2 != 0;
        const uint64_t planned = plan_slides(compactor, bytes - gained, aligns);
        if (planned == 0 && aligns) break;
        run_slides(compactor, budget);
        gained = query_whole(compactor) - before;
        if (!aligns && gained < bytes)
            gained += merge_granules(compactor, budget, bytes - gained, UINT64_MAX);
    }
    return gained;
}

bool berth_compactor_press(berth_compactor* compactor, const berth_compact_budget* budget) {
    const uint64_t changes = berth_pool_query_changes(compactor->pool);
    const uint64_t granule = compactor->survey.granule_bytes;
    if (granule == 0 || (compactor->is_pressed && compactor->pressed_at == changes)) return false;
    if (!compactor->is_thorough_done || compactor->thorough_at != changes) {
        if (!begin_round(compactor, UINT64_MAX)) return false;
        compactor->is_thorough = true;
        run_slice(compactor, budget);
        return true;
    }
    berth_pool_flush_front(compactor->pool);
    slice now = begin_slice(budget, false);
    bool has_more = false;
    while (has_room(compactor, &now, granule / 2) && merge_one(compactor, &now, UINT64_MAX))
        has_more = true;
    if (!has_more && plan_slides(compactor, granule, true) >= granule) {
        berth_slide* slide = &compactor->slides.items[0];
        const outcome result = run_slide(compactor, slide, &now);
        if (result == DONE) compactor->stats.emptied_bytes += slide->gain_bytes;
        has_more = result != REFUSED;
    }
    end_slice(compactor, &now);
    compactor->is_pressed = !has_more;
    compactor->pressed_at = changes;
    return has_more;
}

/// Chooses the granules of `bytes` that are emptied with the least copies; returns what emptying
/// one copies, UINT64_MAX if not so many can be.
static uint64_t choose_granules(berth_compactor* compactor,
                                const berth_compact_budget* budget,
                                uint64_t bytes) {
    if (!begin_round(compactor, bytes)) return UINT64_MAX;
    berth_pool_flush_front(compactor->pool);
    slice now = begin_slice(budget, true);
    while (compactor->stage == BERTH_COMPACT_SURVEY) {
        continue_survey(compactor, &now);
        end_slice(compactor, &now);
        now = begin_slice(budget, true);
    }
    const size_t count = compactor->victim_count;
    return count > 0 ? compactor->planned_bytes / count : UINT64_MAX;
}

/// Empties the granules that have been chosen.
static uint64_t empty_granules(berth_compactor* compactor, const berth_compact_budget* budget) {
    while (compactor->stage != BERTH_COMPACT_IDLE)
        run_slice(compactor, budget);
    return compactor->emptied_bytes;
}

/// As make_room; `may_push` where nothing else helps.
static uint64_t make_room(berth_compactor* compactor,
                          const berth_compact_budget* budget,
                          uint64_t bytes,
                          bool may_push) {
    uint64_t cost = choose_granules(compactor, budget, bytes);
    uint64_t gained = merge_granules(compactor, budget, bytes, cost);
    if (gained > 0 && gained < bytes) cost = choose_granules(compactor, budget, bytes - gained);
    if (gained < bytes && cost != UINT64_MAX) gained += empty_granules(compactor, budget);
    if (gained < bytes) gained += merge_granules(compactor, budget, bytes - gained, UINT64_MAX);
    if (gained < bytes && may_push) gained += slide_for(compactor, budget, bytes - gained);
    return gained;
}

uint64_t berth_compactor_make_room(berth_compactor* compactor,
                                   const berth_compact_budget* budget,
                                   uint64_t bytes,
                                   bool may_block) {
    berth_pool* pool = compactor->pool;
    uint64_t whole, beside;
    berth_pool_query_free(pool, &whole, &beside);
    if (beside < bytes) return 0;
    if (may_block) berth_pool_set_waiting(pool, true);
    const uint64_t gained = make_room(compactor, budget, bytes, may_block);
    if (may_block) berth_pool_set_waiting(pool, false);
    compactor->stage = BERTH_COMPACT_IDLE;
    // a round for its own sake may still find something
    compactor->is_settled = false;
    return gained;
}

uint64_t berth_compactor_give_room(berth_compactor* compactor,
                                   const berth_compact_budget* budget,
                                   uint64_t wanted_bytes,
                                   bool may_block) {
    berth_pool* pool = compactor->pool;
    uint64_t whole, beside;
    berth_pool_query_free(pool, &whole, &beside);
    if (wanted_bytes <= whole || beside == 0) return 0; // the next rung gives what lies idle
    const uint64_t missing = wanted_bytes - whole;
    if (berth_compactor_make_room(compactor, budget, missing, may_block) == 0) return 0;
    // what has just been copied is still on its way
    if (may_block && !berth_pool_wait(pool)) return 0;
    return berth_pool_release_idle(pool, 0, wanted_bytes);
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
    stats->remapped_bytes += more->remapped_bytes;
    stats->emptied_bytes += more->emptied_bytes;
    stats->refused += more->refused;
    if (more->longest_ns > stats->longest_ns) stats->longest_ns = more->longest_ns;
    for (uint32_t i = 0; i < BERTH_COMPACT_BUCKETS; ++i)
        stats->slices_by_time[i] += more->slices_by_time[i];
}
