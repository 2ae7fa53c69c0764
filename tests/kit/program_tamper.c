// SPDX-License-Identifier: Apache-2.0
// Tampers with what steps have learned, between any two ops: size models that are wrong, plans that
// are gone. Results must not care.
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
    berth_mutex_lock(&p->runtime->lock);
    berth_step_entry* entry = p->runtime->first_step;
    berth_mutex_unlock(&p->runtime->lock);
    for (; entry != NULL; entry = entry->next)
        if (test_random_one_in(&p->mischief, 2)) tamper_with(p, entry->model);
}
