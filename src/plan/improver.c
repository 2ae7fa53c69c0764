// SPDX-License-Identifier: Apache-2.0
// The desk's states, the thread, and the search.
#include "plan/improver.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "plan/packing.h"
#include "plan/verify.h"

/// Offers heard before one is taken.
#define LISTEN_OFFERS 16u
/// Offers of others after which a problem that was asked for is no longer waited for.
#define PATIENCE_OFFERS 256u
/// At no shape may a new plan need more than the old one by more than this part.
#define WORSE_PART 64u

/// Whose turn it is with the desk.
typedef enum desk_state {
    DESK_CLOSED, ///< nobody's any more
    DESK_FREE,   ///< whose offer is taken
    DESK_TAKEN,  ///< a step's thread: asks for room or writes
    DESK_SMALL,  ///< the improver's: makes room
    DESK_READY,  ///< the tray's step: may write when it offers again
    DESK_FILLED, ///< the improver's: searches
} desk_state;

struct berth_improver {
    const berth_host* host;
    uint64_t budget_ns;
    _Atomic uint32_t state; ///< a desk_state: who it names owns `desk` and `outcome`
    atomic_bool stopping;
    _Atomic uint64_t best_heard; ///< the largest worth offered since the desk is free
    _Atomic uint32_t heard;      ///< offers since
    _Atomic uint32_t refused;    ///< offers of others while a problem is waited for
    berth_improver_desk desk;
    uint32_t capacity;          ///< values that the desk has room for
    berth_improvement* outcome; ///< for the next search, so that it cannot get lost
    bool is_held;               ///< no thread
    bool has_thread;
    berth_thread thread;
    bool has_wake;
    berth_semaphore wake; ///< posted when it is the improver's turn, and to stop
    bool has_rest;
    berth_semaphore rest; ///< posted after work while somebody waits for that
    _Atomic uint32_t waiters;
};

void berth_improvement_destroy(berth_improvement* improvement, const berth_host* host) {
    if (improvement == NULL) return;
    berth_relation_destroy(improvement->relation, host);
    berth_host_free(host, improvement);
}

// ---- Turns.

static uint32_t state_of(const berth_improver* self) {
    return atomic_load_explicit(&self->state, memory_order_acquire);
}

static void pass(berth_improver* self, desk_state to) {
    atomic_store_explicit(&self->state, (uint32_t)to, memory_order_release);
}

static bool try_take(berth_improver* self, desk_state from) {
    uint32_t expected = (uint32_t)from;
    return atomic_compare_exchange_strong_explicit(
        &self->state, &expected, DESK_TAKEN, memory_order_acq_rel, memory_order_relaxed);
}

/// Frees the desk, which the caller holds, and begins to listen anew.
static void free_desk(berth_improver* self) {
    atomic_store_explicit(&self->best_heard, 0, memory_order_relaxed);
    atomic_store_explicit(&self->heard, 0, memory_order_relaxed);
    pass(self, DESK_FREE);
}

static bool is_improvers_turn(uint32_t state) {
    return state == DESK_SMALL || state == DESK_FILLED;
}

// ---- The improver's side.

static void free_room(berth_improver* self) {
    berth_host_free(self->host, self->desk.intervals);
    berth_host_free(self->host, self->desk.rows);
    berth_host_free(self->host, self->desk.offsets);
    berth_host_free(self->host, self->desk.tops);
    self->desk.intervals = NULL;
    self->desk.rows = self->desk.offsets = self->desk.tops = NULL;
    self->capacity = 0;
}

/// Room for `count` values, and for the outcome. False without memory.
static bool make_room(berth_improver* self, uint32_t count) {
    const berth_host* host = self->host;
    if (self->outcome == NULL) self->outcome = berth_host_calloc(host, 1, sizeof *self->outcome);
    if (self->outcome == NULL) return false;
    if (count <= self->capacity) return true;
    free_room(self);
    berth_improver_desk* desk = &self->desk;
    desk->intervals = berth_host_calloc(host, count, sizeof *desk->intervals);
    desk->rows = berth_host_calloc(host, count, BERTH_IMPROVER_ROWS * sizeof *desk->rows);
    desk->offsets = berth_host_calloc(host, count, sizeof *desk->offsets);
    desk->tops = berth_host_calloc(host, count, sizeof *desk->tops);
    if (desk->intervals == NULL || desk->rows == NULL || desk->offsets == NULL ||
        desk->tops == NULL) {
        free_room(self);
        return false;
    }
    self->capacity = count;
    return true;
}

static bool go_on(void* user, const berth_pack_progress* progress) {
    (void)progress;
    berth_improver* self = user;
    return !atomic_load_explicit(&self->stopping, memory_order_relaxed);
}

/// The frame at each of the desk's shapes: less in the mean than the plan's, and nowhere clearly
/// more.
static bool is_better_at_its_shapes(berth_improver_desk* desk, const berth_relation* relation) {
    double before = 0;
    double after = 0;
    for (uint32_t row = 0; row < desk->row_count; row++) {
        const uint64_t* sizes = desk->rows + (size_t)row * desk->value_count;
        const uint64_t old = desk->frame_bytes[row];
        const uint64_t new = berth_relation_evaluate(relation, sizes, desk->tops, desk->offsets);
        if (new > old + old / WORSE_PART) return false;
        before += (double)old;
        after += (double)new;
    }
    return after < before;
}

/// The relation of the desk's offsets if it is valid and better than the plan's; else NULL.
static berth_relation* make_relation(berth_improver* self,
                                     const berth_pack_problem* problem,
                                     uint64_t* out_peak) {
    berth_improver_desk* desk = &self->desk;
    berth_relation* relation;
    if (berth_relation_create(
            self->host, desk->intervals, desk->value_count, desk->offsets, &relation) != BERTH_OK)
        return NULL;
    const bool is_better = is_better_at_its_shapes(desk, relation);
    // its first shape is the corner
    *out_peak = berth_relation_evaluate(relation, desk->rows, desk->tops, desk->offsets);
    berth_pack_verdict verdict = {.valid = false};
    const berth_status status = berth_verify_packing(self->host, problem, desk->offsets, &verdict);
    BERTH_CHECK(2, status != BERTH_OK || verdict.valid);
    if (status == BERTH_OK && verdict.valid && is_better && *out_peak < desk->frame_bytes[0])
        return relation;
    berth_relation_destroy(relation, self->host);
    return NULL;
}

/// Searches for a better packing of the desk's problem.
static void search(berth_improver* self, berth_improvement* outcome) {
    berth_improver_desk* desk = &self->desk;
    const berth_pack_problem problem = {.intervals = desk->intervals,
                                        .count = desk->value_count,
                                        .alignment = BERTH_PLAN_ALIGNMENT};
    const berth_pack_options options = {.budget_ns = self->budget_ns * desk->effort,
                                        .seed = desk->plan.serial + desk->effort,
                                        .on_progress = go_on,
                                        .user = self};
    const uint64_t begin = berth_clock_thread_ns();
    *outcome =
        (berth_improvement){.plan = desk->plan, .lower_bound_bytes = desk->lower_bound_bytes};
    berth_pack_result packed;
    if (berth_packing_solve(self->host, &problem, &options, desk->offsets, &packed) == BERTH_OK) {
        if (packed.lower_bound > outcome->lower_bound_bytes)
            outcome->lower_bound_bytes = packed.lower_bound;
        if (packed.peak < desk->frame_bytes[0])
            outcome->relation = make_relation(self, &problem, &outcome->peak_bytes);
    }
    outcome->cpu_ns = berth_clock_thread_ns() - begin;
}

bool berth_improver_work(berth_improver* self) {
    const uint32_t state = state_of(self);
    if (!is_improvers_turn(state)) return false;
    if (state == DESK_SMALL && make_room(self, self->desk.value_count)) {
        atomic_store_explicit(&self->refused, 0, memory_order_relaxed);
        pass(self, DESK_READY);
        return true;
    }
    if (state == DESK_FILLED) {
        berth_improvement* outcome = self->outcome;
        berth_improver_tray* tray = atomic_load_explicit(&self->desk.tray, memory_order_relaxed);
        self->outcome = NULL;
        search(self, outcome);
        atomic_store_explicit(&tray->outcome, outcome, memory_order_release);
    }
    free_desk(self);
    return true;
}

static void run_thread(void* opaque) {
    berth_improver* self = opaque;
    berth_thread_stand_back();
    for (;;) {
        berth_semaphore_wait(&self->wake);
        if (atomic_load(&self->stopping)) return;
        (void)berth_improver_work(self);
        // a read that also writes: who begins to wait either is seen here or sees the state
        if (atomic_fetch_add(&self->waiters, 0) > 0) berth_semaphore_post(&self->rest);
    }
}

// ---- The steps' side.

/// True once a thread is there to work (or somebody else will); the caller holds the desk.
static bool has_worker(berth_improver* self) {
    if (self->is_held || self->has_thread) return true;
    self->has_thread =
        berth_thread_start(&self->thread, "berth-improver", run_thread, self) == BERTH_OK;
    if (!self->has_thread)
        berth_log_line(BERTH_LOG_WARN, "plans are not improved: %s", berth_last_error());
    return self->has_thread;
}

/// True if an offer of `worth` is to be taken, now that the desk is free.
static bool is_wanted(berth_improver* self, uint64_t worth) {
    uint64_t best = atomic_load_explicit(&self->best_heard, memory_order_relaxed);
    while (worth > best &&
           !atomic_compare_exchange_weak_explicit(
               &self->best_heard, &best, worth, memory_order_relaxed, memory_order_relaxed)) {
    }
    if (atomic_fetch_add_explicit(&self->heard, 1, memory_order_relaxed) < LISTEN_OFFERS)
        return false;
    if (worth >= best / 2) return true;
    // who made the best offer may never come back
    (void)atomic_compare_exchange_strong_explicit(
        &self->best_heard, &best, best - best / 16 - 1, memory_order_relaxed, memory_order_relaxed);
    return false;
}

/// The desk was waiting for a problem: that of `tray`, or it is waited for no longer.
static berth_improver_desk* take_ready(berth_improver* self,
                                       berth_improver_tray* tray,
                                       uint32_t value_count) {
    const bool is_own = atomic_load_explicit(&self->desk.tray, memory_order_relaxed) == tray;
    if (!is_own &&
        atomic_fetch_add_explicit(&self->refused, 1, memory_order_relaxed) < PATIENCE_OFFERS)
        return NULL;
    if (!try_take(self, DESK_READY)) return NULL;
    if (atomic_load_explicit(&self->desk.tray, memory_order_relaxed) != tray ||
        value_count > self->capacity) {
        free_desk(self);
        return NULL;
    }
    self->desk.value_count = value_count;
    return &self->desk;
}

berth_improver_desk* berth_improver_offer(berth_improver* self,
                                          berth_improver_tray* tray,
                                          uint64_t worth,
                                          uint32_t value_count) {
    const uint32_t state = state_of(self);
    if (state == DESK_READY) return take_ready(self, tray, value_count);
    if (state != DESK_FREE || !is_wanted(self, worth) || !try_take(self, DESK_FREE)) return NULL;
    if (!has_worker(self)) {
        pass(self, DESK_CLOSED);
        return NULL;
    }
    atomic_store_explicit(&self->desk.tray, tray, memory_order_relaxed);
    self->desk.value_count = value_count;
    if (self->outcome != NULL && value_count <= self->capacity) return &self->desk;
    pass(self, DESK_SMALL);
    berth_semaphore_post(&self->wake);
    return NULL;
}

void berth_improver_hand_in(berth_improver* self, berth_improver_desk* desk, bool is_filled) {
    if (!is_filled) {
        free_desk(self);
        return;
    }
    atomic_load_explicit(&desk->tray, memory_order_relaxed)->is_waiting = true;
    pass(self, DESK_FILLED);
    berth_semaphore_post(&self->wake);
}

// ---- Life.

berth_status berth_improver_create(const berth_host* host,
                                   uint64_t budget_ns,
                                   berth_improver** out_improver) {
    *out_improver = NULL;
    berth_improver* self = berth_host_calloc(host, 1, sizeof *self);
    if (self == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory to improve plans");
    self->host = host;
    self->budget_ns = budget_ns;
    free_desk(self);
    berth_status status = berth_semaphore_init(&self->wake);
    self->has_wake = status == BERTH_OK;
    if (status == BERTH_OK) {
        status = berth_semaphore_init(&self->rest);
        self->has_rest = status == BERTH_OK;
    }
    if (status != BERTH_OK) {
        berth_improver_destroy(self);
        return status;
    }
    *out_improver = self;
    return BERTH_OK;
}

void berth_improver_destroy(berth_improver* self) {
    if (self == NULL) return;
    atomic_store(&self->stopping, true);
    if (self->has_thread) {
        berth_semaphore_post(&self->wake);
        berth_thread_join(&self->thread);
    }
    free_room(self);
    berth_improvement_destroy(self->outcome, self->host);
    if (self->has_wake) berth_semaphore_fini(&self->wake);
    if (self->has_rest) berth_semaphore_fini(&self->rest);
    berth_host_free(self->host, self);
}

void berth_improver_hold(berth_improver* self) { self->is_held = true; }

void berth_improver_wait(berth_improver* self) {
    (void)atomic_fetch_add(&self->waiters, 1);
    while (is_improvers_turn(atomic_load(&self->state)))
        berth_semaphore_wait(&self->rest);
    (void)atomic_fetch_sub(&self->waiters, 1);
}
