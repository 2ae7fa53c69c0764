// SPDX-License-Identifier: Apache-2.0
// Counts steps, and looks at the thread's CPU clock now and then.
#include "plan/packing_budget.h"

#include "base/clock.h"

/// Steps between two looks at the clock: well below a millisecond's worth.
#define LOOK_STEPS 1024u
#define REPORT_GAP_NS UINT64_C(5000000)

static void set_ends(berth_packing_budget* self, uint64_t end_ns, uint64_t end_steps) {
    self->end_ns = end_ns;
    self->end_steps = end_steps;
    self->over = self->stopped || (end_ns > 0 && self->cpu_ns >= end_ns) ||
                 (end_steps > 0 && self->steps >= end_steps);
    self->next_look = self->steps + LOOK_STEPS;
    if (end_steps > 0 && self->next_look > end_steps) self->next_look = end_steps;
}

void berth_packing_budget_init(berth_packing_budget* self, const berth_pack_options* options) {
    *self = (berth_packing_budget){.options = options};
    self->over = options == NULL || (options->budget_ns == 0 && options->budget_steps == 0);
    if (self->over) return;
    self->begin_ns = berth_clock_thread_ns();
    self->next_report_ns = REPORT_GAP_NS;
    set_ends(self, options->budget_ns, options->budget_steps);
}

void berth_packing_budget_narrow(berth_packing_budget* self, uint64_t shares) {
    if (self->over) return;
    // Rounded up: an end is never 0 unless there is none.
    const uint64_t end_ns =
        self->end_ns == 0 ? 0 : self->cpu_ns + 1 + (self->end_ns - self->cpu_ns - 1) / shares;
    const uint64_t end_steps =
        self->end_steps == 0 ? 0 : self->steps + 1 + (self->end_steps - self->steps - 1) / shares;
    set_ends(self, end_ns, end_steps);
}

void berth_packing_budget_widen(berth_packing_budget* self) {
    const berth_pack_options* options = self->options;
    if (options != NULL && (options->budget_ns > 0 || options->budget_steps > 0))
        set_ends(self, options->budget_ns, options->budget_steps);
}

void berth_packing_budget_look(berth_packing_budget* self, uint64_t peak, uint64_t lower_bound) {
    const berth_pack_options* options = self->options;
    if (self->over) return;
    self->cpu_ns = berth_clock_thread_ns() - self->begin_ns;
    set_ends(self, self->end_ns, self->end_steps);
    if (options->on_progress == NULL || self->cpu_ns < self->next_report_ns) return;
    self->next_report_ns = self->cpu_ns + REPORT_GAP_NS;
    const berth_pack_progress progress = {
        .peak = peak, .lower_bound = lower_bound, .steps = self->steps, .cpu_ns = self->cpu_ns};
    if (options->on_progress(options->user, &progress)) return;
    self->stopped = true;
    self->over = true;
}
