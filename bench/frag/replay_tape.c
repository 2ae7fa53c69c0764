// SPDX-License-Identifier: Apache-2.0
// Each tape is played twice: with more memory than it needs, for what is reserved, and on the
// device of its capacity, for what fails and what moves.
#include "frag/replay_tape.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "kit/fail.h"
#include "kit/median.h"

typedef struct player {
    const tape* tape;
    policy* policy;
    const policy_ops* ops;
    bool* is_out; ///< [ids + 1], of the tape's blocks
    bool measures_reserved;
    double reserved_sum, live_sum;
    uint64_t peak_reserved, peak_live;
    uint64_t allocated_bytes; ///< as on the tape
    uint64_t failed, failed_though_enough;
    double unusable_share;
    uint64_t probes;
    policy_moves probe_moves; ///< for probes, which ask for more than programs do
    uint64_t needed_moves;    ///< bytes moved for NEEDs
    uint64_t least_moves;
} player;

static policy_moves query_moves(const player* p) {
    policy_moves moves = {0};
    if (p->ops->query_moves != NULL) p->ops->query_moves(p->policy, &moves);
    return moves;
}

static uint64_t moved_bytes(const player* p) { return query_moves(p).bytes; }

/// Whole granules that would be free if nothing lay in a wrong place.
static uint64_t free_granules(const policy_figures* f) {
    return (f->capacity_bytes - f->used_bytes) / f->granule_bytes;
}

static void note_refusal(player* p, uint64_t bytes) {
    policy_figures f;
    p->ops->query(p->policy, &f);
    p->failed++;
    const uint64_t scale = TAPE_GRANULE / f.granule_bytes;
    const uint64_t granules = berth_round_up(bytes / scale, f.granule_bytes) / f.granule_bytes;
    if (free_granules(&f) >= granules) p->failed_though_enough++;
}

static void note_reserved(player* p) {
    policy_figures f;
    p->ops->query(p->policy, &f);
    p->reserved_sum += (double)f.reserved_bytes;
    p->live_sum += (double)f.live_bytes;
    if (f.reserved_bytes > p->peak_reserved) p->peak_reserved = f.reserved_bytes;
    if (f.live_bytes > p->peak_live) p->peak_live = f.live_bytes;
}

static void play_take(player* p, const tape_event* event) {
    const bool judged = event->kind == TAPE_NEED && p->ops->query_least != NULL;
    const uint64_t before = judged ? moved_bytes(p) : 0;
    const uint64_t least = judged ? p->ops->query_least(p->policy, event->bytes) : 0;
    p->is_out[event->id] = p->ops->take(p->policy, event->id, event->bytes, event->site);
    if (!p->is_out[event->id]) {
        note_refusal(p, event->bytes);
        return;
    }
    p->allocated_bytes += event->bytes;
    if (judged) {
        p->needed_moves += moved_bytes(p) - before;
        p->least_moves += least;
    }
}

/// How much of the free memory is of no use for blocks of one granule each.
static void play_probe(player* p) {
    policy_figures f;
    p->ops->query(p->policy, &f);
    const uint64_t most = f.capacity_bytes / f.granule_bytes;
    const uint64_t free_bytes = f.capacity_bytes - f.used_bytes;
    const policy_moves before = query_moves(p);
    uint64_t taken = 0;
    // the ids behind the tape's are for this
    while (taken < most &&
           p->ops->take(p->policy, p->tape->ids + (uint32_t)taken, TAPE_GRANULE, 999))
        taken++;
    const policy_moves after = query_moves(p);
    p->probe_moves.bytes += after.bytes - before.bytes;
    p->probe_moves.remapped_bytes += after.remapped_bytes - before.remapped_bytes;
    for (uint64_t i = 0; i < taken; i++)
        p->ops->give(p->policy, p->tape->ids + (uint32_t)i);
    const double unusable = (double)free_bytes - (double)(taken * f.granule_bytes);
    const double share = unusable / (double)f.capacity_bytes;
    if (share > p->unusable_share) p->unusable_share = share;
    p->probes++;
}

static void play_event(player* p, const tape_event* event) {
    switch (event->kind) {
    case TAPE_TAKE:
    case TAPE_NEED:
        play_take(p, event);
        break;
    case TAPE_GIVE:
        if (p->is_out[event->id]) p->ops->give(p->policy, event->id);
        p->is_out[event->id] = false;
        break;
    case TAPE_STEP:
        p->ops->end_step(p->policy, p->measures_reserved);
        return;
    case TAPE_PROBE:
        if (!p->measures_reserved) play_probe(p);
        return;
    }
    if (p->measures_reserved) note_reserved(p);
}

static double slice_p99(const policy_moves* moves) {
    if (moves->slices == 0) return REPLAY_NONE;
    double* sorted = malloc(moves->slices * sizeof *sorted);
    if (sorted == NULL) bench_fail_for("slices", "no memory");
    memcpy(sorted, moves->slice_us, moves->slices * sizeof *sorted);
    qsort(sorted, moves->slices, sizeof *sorted, bench_compare_doubles);
    const double p99 = sorted[(moves->slices - 1) * 99 / 100];
    free(sorted);
    return p99;
}

static void report_moves(const player* p, replay_row* row) {
    if (p->ops->query_moves == NULL) return;
    const policy_moves moves = query_moves(p);
    policy_figures f;
    p->ops->query(p->policy, &f);
    const double allocated =
        (double)p->allocated_bytes * (double)f.granule_bytes / (double)TAPE_GRANULE;
    row->moved_over_allocated = (double)(moves.bytes - p->probe_moves.bytes) / allocated;
    row->remapped_over_allocated =
        (double)(moves.remapped_bytes - p->probe_moves.remapped_bytes) / allocated;
    if (p->least_moves > 0)
        row->moved_over_least = (double)p->needed_moves / (double)p->least_moves;
    row->slice_p99_us = slice_p99(&moves);
}

static void play(
    const tape* t, const policy_ops* ops, policy_device device, bool is_roomy, replay_row* row) {
    const uint32_t probe_ids = (uint32_t)(t->capacity_bytes / TAPE_GRANULE) + 1;
    const policy_setting setting = {.device = device,
                                    .capacity_bytes = is_roomy ? UINT64_MAX : t->capacity_bytes,
                                    .peak_bytes = t->peak_bytes,
                                    .ids = t->ids + probe_ids,
                                    .gives_back = is_roomy};
    player p = {.tape = t, .ops = ops, .measures_reserved = is_roomy};
    p.policy = ops->create(&setting);
    p.is_out = calloc((size_t)t->ids + 1, sizeof *p.is_out);
    if (p.is_out == NULL) bench_fail_for("tape", "no memory");
    for (size_t i = 0; i < t->count; i++)
        play_event(&p, &t->events[i]);
    if (is_roomy) {
        row->peak_reserved_over_live = (double)p.peak_reserved / (double)p.peak_live;
        row->mean_reserved_over_live = p.reserved_sum / p.live_sum;
    } else {
        if (p.probes > 0) row->unusable_free_share = p.unusable_share;
        row->failed = (double)p.failed;
        row->failed_though_enough_free = (double)p.failed_though_enough;
        report_moves(&p, row);
    }
    for (uint32_t id = 0; id < t->ids; id++)
        if (p.is_out[id]) ops->give(p.policy, id);
    ops->destroy(p.policy);
    free(p.is_out);
}

replay_row replay_tape(const tape* t, const policy_ops* ops, policy_device device) {
    replay_row row = {.pattern = t->name,
                      .policy = ops->name,
                      .device = device,
                      .unusable_free_share = REPLAY_NONE,
                      .failed_though_enough_free = REPLAY_NONE,
                      .failed = REPLAY_NONE,
                      .moved_over_allocated = REPLAY_NONE,
                      .remapped_over_allocated = REPLAY_NONE,
                      .moved_over_least = REPLAY_NONE,
                      .slice_p99_us = REPLAY_NONE};
    const uint64_t begin_ns = berth_clock_thread_ns();
    play(t, ops, device, true, &row);
    if (ops->has_capacity) play(t, ops, device, false, &row);
    row.seconds = (double)(berth_clock_thread_ns() - begin_ns) * 1e-9;
    return row;
}
