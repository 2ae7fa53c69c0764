// SPDX-License-Identifier: Apache-2.0
// Planning with a budget.
#include "plan_search.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

void plan_search_catch_interrupt(void) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
}

static double seconds(clockid_t clock) {
    struct timespec now;
    return clock_gettime(clock, &now) == 0 ? (double)now.tv_sec + (double)now.tv_nsec * 1e-9 : 0;
}

double plan_search_cpu_s(void) { return seconds(CLOCK_THREAD_CPUTIME_ID); }

/// What a search shows of itself.
typedef struct watch {
    const plan_case* item;
    double begun_s;
    double shown_s;   ///< when the line was written last
    bool is_terminal; ///< the line is renewed in its place
    bool shown;
} watch;

/// A line after the first second: on a terminal ten times a second, else every ten seconds.
static bool on_progress(void* user, const berth_pack_progress* progress) {
    watch* self = user;
    const double now_s = seconds(CLOCK_MONOTONIC);
    const double gap_s = self->is_terminal ? 0.1 : self->shown ? 10.0 : 0.0;
    if (now_s - self->begun_s >= 1.0 && now_s - self->shown_s >= gap_s) {
        (void)fprintf(stderr,
                      "%s%s: peak %" PRIu64 ", lower bound %" PRIu64 ", %.1f s%s",
                      self->is_terminal ? "\r\033[K" : "",
                      self->item->name,
                      progress->peak,
                      progress->lower_bound,
                      now_s - self->begun_s,
                      self->is_terminal ? "" : "\n");
        (void)fflush(stderr);
        self->shown_s = now_s;
        self->shown = true;
    }
    return interrupted == 0;
}

static berth_status check(const plan_case* item, const berth_pack_problem* pack) {
    berth_pack_verdict verdict;
    const berth_status status = berth_pack_verify(pack, item->offsets, &verdict);
    if (status != BERTH_OK) return status;
    return verdict.valid && verdict.peak == item->result.peak ? BERTH_OK : BERTH_ERR_INTERNAL;
}

static berth_status solve(plan_case* item,
                          const berth_pack_problem* pack,
                          const berth_pack_options* budget) {
    const bool as_given = pack == berth_problem_query_pack(item->problem);
    return as_given ? berth_problem_solve(item->problem, budget, item->offsets, &item->result)
                    : berth_pack(pack, budget, item->offsets, &item->result);
}

berth_status plan_search_run(plan_case* item, const plan_options* options) {
    const berth_pack_problem* pack = berth_problem_query_pack(item->problem);
    berth_pack_problem anywhere = *pack;
    anywhere.fixed_offsets = NULL;
    if (options->ignores_offsets && pack->fixed_offsets != NULL) pack = &anywhere;
    watch self = {.item = item, .begun_s = seconds(CLOCK_MONOTONIC)};
    self.is_terminal = isatty(STDERR_FILENO) != 0;
    const berth_pack_options budget = {
        .budget_ns = interrupted != 0 ? 0 : (uint64_t)(options->improve_s * 1e9),
        .seed = options->seed,
        .capacity = options->capacity,
        .on_progress = on_progress,
        .user = &self};
    item->offsets = calloc(pack->count + 1, sizeof *item->offsets);
    if (item->offsets == NULL) return BERTH_ERR_OUT_OF_MEMORY;
    const double begun_s = plan_search_cpu_s();
    const berth_status status = solve(item, pack, &budget);
    item->cpu_ms = (plan_search_cpu_s() - begun_s) * 1e3;
    if (self.shown && self.is_terminal) (void)fputs("\r\033[K", stderr);
    return status == BERTH_OK ? check(item, pack) : status;
}
