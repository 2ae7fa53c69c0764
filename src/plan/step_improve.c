// SPDX-License-Identifier: Apache-2.0
// Hands hot plans of a step to the improver, and takes what it has found.
//
// A plan is searched for once it is hot, and once more, longer, when it has become much hotter;
// never when it is proved. A better relation takes the old one's place in the same plan: placements
// in use keep their offsets, so a step meets it at its next begin.
#include <string.h>

#include "base/checked.h"
#include "base/log.h"
#include "plan/step_model_impl.h"

/// The second search for a plan may take this many times the budget; there is no third.
#define SECOND_EFFORT 4u
#define MOST_SEARCHES 2u
/// Paths with more values than this are compared at fewer shapes, to keep the end of a step short.
#define MANY_VALUES 16384u

// ---- Taking.

/// What is left to try after a search.
static void settle_plan(berth_plan* plan, uint64_t hits) {
    plan->searches++;
    if (berth_plan_is_proved(plan) || plan->searches >= MOST_SEARCHES) {
        plan->tier = BERTH_PLAN_AT_LIMIT;
        plan->search_at = UINT64_MAX;
    } else if (!berth_mul_u64(hits, BERTH_PLAN_HOTTER, &plan->search_at)) {
        plan->search_at = UINT64_MAX;
    }
}

/// Swaps the better relation of `found` into `plan`.
static void swap_in(berth_step_model* model, berth_plan* plan, berth_improvement* found) {
    const uint64_t before = plan->peak_bytes;
    berth_plan_cache_replace(&model->cache, found->plan, found->relation, found->peak_bytes);
    found->relation = NULL; // the plan's now
    plan->tier = BERTH_PLAN_IMPROVED;
    model->counters.improved++;
    model->counters.improve_saved_bytes += before - plan->peak_bytes;
    berth_log_line(
        BERTH_LOG_DEBUG,
        "step %s: the frame of a plan shrinks from %llu to %llu bytes, at least %llu are "
        "needed; %llu us of search",
        model->name,
        (unsigned long long)before,
        (unsigned long long)plan->peak_bytes,
        (unsigned long long)found->lower_bound_bytes,
        (unsigned long long)(found->cpu_ns / 1000));
}

void berth_step_model_take_improvement(berth_step_model* model) {
    berth_improvement* found = berth_improver_collect(&model->tray);
    if (found == NULL) return;
    model->counters.improve_tried++;
    model->counters.improve_ns += found->cpu_ns;
    uint64_t hits;
    berth_plan* plan = berth_plan_cache_redeem(&model->cache, found->plan, &hits);
    // what is known of a path may have changed since: then the plan has gone
    if (plan != NULL) {
        if (found->relation != NULL && found->peak_bytes < plan->peak_bytes)
            swap_in(model, plan, found);
        if (found->lower_bound_bytes > plan->lower_bound_bytes)
            plan->lower_bound_bytes = found->lower_bound_bytes;
        settle_plan(plan, hits);
    }
    berth_improvement_destroy(found, model->host);
}

// ---- Offering.

/// Writes sizes and frame of `plan` at (lo, hi] to the desk's next row; false if the plan says
/// nothing about them.
static bool write_row(berth_step_model* model,
                      berth_known_path* path,
                      const berth_plan* plan,
                      const berth_shape_box* box,
                      const int64_t* lo,
                      const int64_t* hi,
                      berth_improver_desk* desk) {
    const uint32_t row = desk->row_count;
    (void)berth_size_model_evaluate(&path->sizes, lo, hi, box->bucket_hi, model->workspace.sizes);
    if (!berth_plan_measure(&model->workspace,
                            &path->version->shown,
                            plan,
                            desk->rows + (size_t)row * desk->value_count,
                            &desk->frame_bytes[row]))
        return false;
    desk->row_count++;
    return true;
}

/// A shape of the bucket: symbols stand at `quarters` fourths of it, every second one at
/// `other_quarters`.
static void write_inner_row(berth_step_model* model,
                            berth_known_path* path,
                            const berth_plan* plan,
                            const berth_shape_box* box,
                            int64_t quarters,
                            int64_t other_quarters,
                            berth_improver_desk* desk) {
    int64_t lo[BERTH_BINDINGS_MAX];
    int64_t hi[BERTH_BINDINGS_MAX];
    memcpy(hi, box->bucket_hi, sizeof hi);
    for (uint32_t k = 0; k < path->sizes.symbol_count; k++) {
        const uint16_t i = path->sizes.symbols[k];
        const int64_t width = box->bucket_hi[i] - box->bucket_lo[i];
        const int64_t part = k % 2 == 0 ? quarters : other_quarters;
        hi[i] = box->bucket_lo[i] + width / 4 * part + (width % 4 * part + 3) / 4;
    }
    for (uint32_t i = 0; i < path->sizes.binding_count; i++)
        lo[i] = hi[i] - 1;
    (void)write_row(model, path, plan, box, lo, hi, desk);
}

/// The shapes to compare at: the corner, the one at hand, and some between.
static bool write_rows(berth_step_model* model,
                       berth_known_path* path,
                       const berth_plan* plan,
                       const berth_shape_box* box,
                       berth_improver_desk* desk) {
    if (!write_row(model, path, plan, box, box->bucket_lo, box->bucket_hi, desk)) return false;
    (void)write_row(model, path, plan, box, box->lo, box->hi, desk);
    if (desk->value_count > MANY_VALUES) return true;
    for (int64_t quarters = 1; quarters < 4; quarters++)
        write_inner_row(model, path, plan, box, quarters, quarters, desk);
    if (path->sizes.symbol_count > 1) {
        write_inner_row(model, path, plan, box, 1, 4, desk);
        write_inner_row(model, path, plan, box, 4, 1, desk);
    }
    return true;
}

/// Writes the problem of `plan`; false if it cannot be told.
static bool write_problem(berth_step_model* model,
                          berth_known_path* path,
                          const berth_plan* plan,
                          const berth_shape_box* box,
                          berth_improver_desk* desk) {
    const berth_path* shown = &path->version->shown;
    if (berth_plan_workspace_reserve(&model->workspace, shown) != BERTH_OK) return false;
    desk->row_count = 0;
    desk->lower_bound_bytes = plan->lower_bound_bytes;
    desk->effort = plan->searches == 0 ? 1 : SECOND_EFFORT;
    if (!write_rows(model, path, plan, box, desk)) return false;
    for (uint32_t v = 0; v < shown->value_count; v++)
        desk->intervals[v] =
            (berth_interval){desk->rows[v], shown->values[v].birth, shown->values[v].death + 1};
    // a form may have changed its mind without any plan being dropped
    return desk->frame_bytes[0] == plan->peak_bytes;
}

void berth_step_model_offer_plan(berth_step_model* model,
                                 const int64_t* values,
                                 const berth_plan_placement* placement) {
    berth_improver* improver = model->policy.improver;
    // what branches off is planned around a trunk: better trunks make better branches
    if (improver == NULL || model->tray.is_waiting || placement->is_branch) return;
    uint64_t hits;
    const berth_plan* plan = berth_plan_cache_redeem(&model->cache, placement->plan, &hits);
    if (plan == NULL || hits < plan->search_at) return;
    uint64_t worth;
    if (!berth_mul_u64(hits, plan->peak_bytes - plan->lower_bound_bytes, &worth))
        worth = UINT64_MAX;
    const uint32_t count = placement->shown.path->value_count;
    berth_improver_desk* desk = berth_improver_offer(improver, &model->tray, worth, count);
    if (desk == NULL) return;
    desk->plan = placement->plan;
    berth_known_path* path = berth_step_model_find_path(model, placement->shown.path->id);
    berth_shape_box box;
    bool is_told = path != NULL;
    if (is_told) {
        berth_step_model_find_box(model, path, values, &box);
        const berth_cache_key key = berth_step_model_plan_key(path, &box);
        is_told = berth_plan_cache_find_plan(&model->cache, &key, false) == plan &&
                  write_problem(model, path, plan, &box, desk);
    }
    berth_improver_hand_in(improver, desk, is_told);
}
