// SPDX-License-Identifier: Apache-2.0
// Counts steps, and looks at the thread's CPU clock now and then.
#include "plan/packing_budget.h"

#include "base/clock.h"

/// Steps between two looks at the clock: well below a millisecond's worth.
#define LOOK_STEPS 1024u
#define REPORT_GAP_NS UINT64_C(5000000)

void berth_packing_budget_init(berth_packing_budget* self, const berth_pack_options* options) {
    *self = (berth_packing_budget){.options = options};
    self->over = options == NULL || (options->budget_ns == 0 && options->budget_steps == 0);
    if (self->over) return;
    self->begin_ns = berth_clock_thread_ns();
    self->next_look = LOOK_STEPS;
    self->next_report_ns = REPORT_GAP_NS;
    if (options->budget_steps > 0 && options->budget_steps < LOOK_STEPS)
        self->next_look = options->budget_steps;
}

void berth_packing_budget_look(berth_packing_budget* self, uint64_t peak, uint64_t lower_bound) {
    const berth_pack_options* options = self->options;
    if (self->over) return;
    self->cpu_ns = berth_clock_thread_ns() - self->begin_ns;
    self->next_look = self->steps + LOOK_STEPS;
    if (options->budget_ns > 0 && self->cpu_ns >= options->budget_ns) self->over = true;
    if (options->budget_steps > 0) {
        if (self->steps >= options->budget_steps) self->over = true;
        if (self->next_look > options->budget_steps) self->next_look = options->budget_steps;
    }
    if (options->on_progress == NULL || self->cpu_ns < self->next_report_ns) return;
    self->next_report_ns = self->cpu_ns + REPORT_GAP_NS;
    const berth_pack_progress progress = {
        .peak = peak, .lower_bound = lower_bound, .steps = self->steps, .cpu_ns = self->cpu_ns};
    if (!options->on_progress(options->user, &progress)) self->over = true;
}
