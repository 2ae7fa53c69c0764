// SPDX-License-Identifier: Apache-2.0
// Tampers with what steps have learned, between any two ops: size models that are wrong, plans that
// are gone or packed otherwise. Results must not care.
#include <stdlib.h>

#include "exec/exec_impl.h"
#include "plan/step_model_impl.h"
#include "program_internal.h"

/// Makes one form of a path promise other sizes than the step will ask for.
static void skew_sizes(program* p, berth_known_path* path) {
    berth_size_class_vec* classes = &path->sizes.classes;
    if (classes->count == 0) return;
    berth_size_class* class = &classes->items[test_random_below(&p->mischief, classes->count)];
    if (class->forms.count == 0) return;
    berth_form* form = &class->forms.items[test_random_below(&p->mischief, class->forms.count)];
    if (test_random_one_in(&p->mischief, 3))
        form->scale = (int64_t)test_random_below(&p->mischief, 4) - 1;
    else
        form->add += (int64_t)test_random_below(&p->mischief, 9) - 4;
}

/// A valid packing like no solver's: values in any order, each above all that it meets.
static berth_relation* pack_by_chance(program* p, const berth_host* host, const berth_path* path) {
    const uint32_t count = path->value_count;
    berth_interval* intervals = calloc(count + (size_t)1, sizeof *intervals);
    uint64_t* offsets = calloc(count + (size_t)1, sizeof *offsets);
    uint32_t* order = calloc(count + (size_t)1, sizeof *order);
    berth_relation* relation = NULL;
    if (intervals != NULL && offsets != NULL && order != NULL) {
        for (uint32_t v = 0; v < count; ++v) {
            intervals[v] = (berth_interval){64, path->values[v].birth, path->values[v].death + 1};
            const uint32_t at = (uint32_t)test_random_below(&p->mischief, v + UINT64_C(1));
            order[v] = order[at];
            order[at] = v;
        }
        for (uint32_t i = 0; i < count; ++i) {
            const berth_interval* own = &intervals[order[i]];
            for (uint32_t k = 0; k < i; ++k) {
                const berth_interval* other = &intervals[order[k]];
                const bool meet = own->start < other->end && other->start < own->end;
                if (meet && offsets[order[k]] + 64 > offsets[order[i]])
                    offsets[order[i]] = offsets[order[k]] + 64;
            }
        }
        if (berth_relation_create(host, intervals, count, offsets, &relation) != BERTH_OK)
            program_fail(p, "a packing by chance: %s", berth_last_error());
    }
    free(intervals);
    free(offsets);
    free(order);
    return relation;
}

/// Swaps another packing into the plan of the step that is open, as the improver would.
static void swap_plan(program* p) {
    const berth_run* run = p->ctx->run;
    if (run == NULL || run->placement == NULL) return;
    const berth_plan_placement* placement =
        (const berth_plan_placement*)(const void*)run->placement;
    berth_step_model* model = run->entry->model;
    uint64_t hits;
    berth_mutex_lock(&model->lock);
    if (berth_plan_cache_redeem(&model->cache, placement->plan, &hits) != NULL) {
        berth_relation* relation = pack_by_chance(p, model->host, placement->shown.path);
        if (relation != NULL)
            berth_plan_cache_replace(&model->cache, placement->plan, relation, UINT64_C(1) << 40);
    }
    berth_mutex_unlock(&model->lock);
}

static void tamper_with(program* p, berth_step_model* model) {
    berth_mutex_lock(&model->lock);
    if (model->path_count > 0) {
        berth_known_path* path = &model->paths[test_random_below(&p->mischief, model->path_count)];
        if (test_random_one_in(&p->mischief, 2)) skew_sizes(p, path);
        berth_plan_cache_drop(&model->cache, path->id, test_random_one_in(&p->mischief, 2));
    }
    berth_mutex_unlock(&model->lock);
}

void program_tamper(program* p) {
    if (!p->tampers || !test_random_one_in(&p->mischief, 12)) return;
    swap_plan(p);
    berth_mutex_lock(&p->runtime->lock);
    berth_step_entry* entry = p->runtime->first_step;
    berth_mutex_unlock(&p->runtime->lock);
    for (; entry != NULL; entry = entry->next)
        if (test_random_one_in(&p->mischief, 2)) tamper_with(p, entry->model);
}
