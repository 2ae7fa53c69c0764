// SPDX-License-Identifier: Apache-2.0
// The portfolio: runs one greedy rule after the other on each part of a problem, keeps the best,
// and hands what is left of the budget to the searches.
#include "plan/packing.h"

#include <string.h>

#include "base/error.h"
#include "plan/packing_internal.h"
#include "plan/packing_local.h"
#include "plan/packing_merge.h"
#include "plan/packing_search.h"
#include "plan/packing_skyline.h"

/// Rules that look at pairs of items look at no more than so many in one part.
#define PAIRS_LIMIT (UINT64_C(1) << 26)
/// Pairs that the skyline's rules look at without a budget, where two of them look at fewer.
#define SKYLINE_PAIRS (UINT64_C(3) << 14)
/// Rules that place by size do not run on parts of more pairs.
#define SEQUENCE_PAIRS (UINT64_C(1) << 22)

void berth_packer_keep(berth_packer* self, uint64_t peak) {
    if (peak > self->peak || peak == UINT64_MAX) return;
    if (peak == self->peak) {
        if (self->reuse == UINT64_MAX)
            self->reuse = berth_packer_reuse_distance(self, self->best, peak);
        const uint64_t reuse = berth_packer_reuse_distance(self, self->offset, peak);
        if (reuse >= self->reuse) return;
        self->reuse = reuse;
    } else {
        self->reuse = UINT64_MAX;
    }
    uint64_t* best = self->best;
    self->best = self->offset;
    self->offset = best;
    self->peak = peak;
}

// ---- Sequences.

static uint64_t sequence_key(const berth_packer* self, uint32_t i, berth_packing_order order) {
    const uint64_t duration = self->end[i] - self->start[i];
    if (order == BERTH_PACKING_AREA_LOWEST) {
        uint64_t area;
        return __builtin_mul_overflow(self->size[i], duration, &area) ? 0 : ~area;
    }
    if (order == BERTH_PACKING_DURATION_LOWEST) return ~duration;
    if (order == BERTH_PACKING_CLASS_LOWEST) {
        const unsigned octave = 63u - (unsigned)__builtin_clzll(self->size[i]);
        return ~(((uint64_t)octave << 32) | duration);
    }
    return ~self->size[i];
}

static void make_time_sequence(berth_packer* self, bool mirrored) {
    for (uint32_t i = 0; i < self->count; i++)
        self->order[i] = mirrored ? self->by_end[self->count - 1 - i] : i;
}

static bool is_by_start(berth_packing_order order) {
    return order == BERTH_PACKING_ONLINE_RECENT || order == BERTH_PACKING_ONLINE_BEST ||
           order == BERTH_PACKING_ONLINE_LOWEST;
}

void berth_packer_make_sequence(berth_packer* self, berth_packing_order order) {
    if (order < BERTH_PACKING_SIZE_LOWEST) {
        make_time_sequence(self, !is_by_start(order));
        return;
    }
    for (uint32_t i = 0; i < self->count; i++)
        self->entries[i] = (berth_sort_entry){~self->size[i], i};
    if (order == BERTH_PACKING_DURATION_LOWEST || order == BERTH_PACKING_CLASS_LOWEST)
        berth_sort_entries(self->entries, self->entries_swap, self->count); // ties: largest first
    for (uint32_t i = 0; i < self->count; i++)
        self->entries[i].key = sequence_key(self, self->entries[i].item, order);
    berth_sort_entries(self->entries, self->entries_swap, self->count);
    for (uint32_t i = 0; i < self->count; i++)
        self->order[i] = self->entries[i].item;
}

// ---- The portfolio for one part.

static bool is_best_fit(berth_packing_order order) {
    return order == BERTH_PACKING_ONLINE_RECENT || order == BERTH_PACKING_ONLINE_BEST ||
           order == BERTH_PACKING_REVERSE_BEST || order == BERTH_PACKING_SIZE_BEST;
}

static bool has_pairs(const berth_packer* self) {
    for (uint32_t i = 0; i < self->count; i++)
        if (self->after[i] != BERTH_PACKER_NONE) return true;
    return false;
}

static void run_constrained_order(berth_packer* self,
                                  berth_packing_order order,
                                  berth_packing_budget* budget) {
    berth_packer_make_sequence(self, order);
    berth_packer_constrained rule = {
        .by_start = is_by_start(order), .best_fit = is_best_fit(order), .in_place = true};
    berth_packer_keep(self, berth_packer_run_constrained(self, rule, self->peak, budget));
    if (self->peak <= self->enough || !has_pairs(self)) return;
    rule.in_place = false;
    berth_packer_keep(self, berth_packer_run_constrained(self, rule, self->peak, budget));
}

/// The first order is run without a budget.
static void run_order(berth_packer* self, berth_packing_order order, berth_packing_budget* budget) {
    if (!self->plain) {
        run_constrained_order(self, order, budget);
    } else if (order < BERTH_PACKING_SIZE_LOWEST) {
        berth_packer_keep(self, berth_packer_run_online(self, order, self->peak));
    } else {
        berth_packer_make_sequence(self, order);
        const bool best = is_best_fit(order);
        berth_packer_keep(self, berth_packer_run_sequence(self, best, self->peak));
    }
}

static bool has_budget(const berth_packing_budget* budget) {
    return budget->end_ns > 0 || budget->end_steps > 0;
}

/// True if one more rule like the slowest so far would not fit the budget.
static bool is_late(berth_packing_budget* budget, const berth_packer* self, uint64_t* slowest_ns) {
    if (budget->over) return has_budget(budget);
    if (budget->end_ns == 0) return false;
    const uint64_t before = budget->cpu_ns;
    berth_packing_budget_look(budget, self->peak, self->lower_bound);
    if (budget->cpu_ns - before > *slowest_ns) *slowest_ns = budget->cpu_ns - before;
    return budget->over || budget->cpu_ns + *slowest_ns > budget->end_ns;
}

/// The skyline's rules, the best on average first.
static const berth_skyline_rule skyline_rules[] = {
    {BERTH_SKYLINE_SECTIONS, 32, 0},
    {BERTH_SKYLINE_SECTIONS, 48, 1},
    {BERTH_SKYLINE_DURATION, 96, 0},
    {BERTH_SKYLINE_SECTIONS, 16, 0},
    {BERTH_SKYLINE_DURATION, 8, 1},
    {BERTH_SKYLINE_AREA, 48, 0},
    {BERTH_SKYLINE_DURATION, 96, 1},
    {BERTH_SKYLINE_DURATION, 24, 0},
    {BERTH_SKYLINE_SECTIONS, 96, 0},
    {BERTH_SKYLINE_SECTIONS, 200, 0},
    {BERTH_SKYLINE_DURATION, 400, 0},
};

/// Each rule looks at about as many pairs of items; small problems, and those with a budget, try
/// them all.
static void run_skylines(berth_packer* self, berth_packing_budget* budget, uint64_t* slowest_ns) {
    berth_skyline* skyline = berth_skyline_create(self);
    if (skyline == NULL) return; // there is a packing already
    const uint64_t pairs = self->neighbours + (uint64_t)self->count * 16;
    uint64_t looked = 0;
    berth_packing_budget* timed = has_budget(budget) ? budget : NULL;
    for (size_t k = 0; k < sizeof skyline_rules / sizeof skyline_rules[0]; k++) {
        if (self->peak <= self->enough || is_late(budget, self, slowest_ns)) break;
        if (k > 1 && !has_budget(budget) && looked + pairs > SKYLINE_PAIRS) break;
        looked += pairs;
        berth_packer_keep(self, berth_skyline_run(skyline, skyline_rules[k], self->peak, timed));
    }
    berth_skyline_destroy(skyline);
}

/// Pairs of items that a rule looks at.
static uint64_t pairs_of(const berth_packer* self) {
    return self->plain ? self->neighbours : (uint64_t)self->count * self->count / 2;
}

/// The rules from `first` on, in an order that rarely needs the later ones: those of time cost next
/// to nothing, and the skyline's, the best by far, cut short the others. Work stays close to linear
/// in the size: a part of very many pairs is left to the first.
static void run_rules(berth_packer* self, berth_packing_order first, berth_packing_budget* budget) {
    uint64_t slowest_ns = 0;
    berth_packing_budget* timed = has_budget(budget) ? budget : NULL;
    const uint64_t pairs = pairs_of(self);
    for (int k = (int)first; k < BERTH_PACKING_ORDER_COUNT; k++) {
        const berth_packing_order order = (berth_packing_order)k;
        const bool linear = self->plain && k <= BERTH_PACKING_REVERSE_BEST;
        if (k > 0 && self->peak <= self->enough) return;
        if (k > 0 && !linear && pairs > PAIRS_LIMIT) return;
        if (order == BERTH_PACKING_SIZE_LOWEST && self->plain)
            run_skylines(self, budget, &slowest_ns);
        if (order >= BERTH_PACKING_SIZE_LOWEST && pairs > SEQUENCE_PAIRS) return;
        if (k > 0 && is_late(budget, self, &slowest_ns)) return;
        if (self->peak > self->enough) run_order(self, order, k == 0 ? NULL : timed);
    }
}

// ---- Parts that are not plain: whatever finds packings for plain ones finds some for them.

/// What is done with a plain part.
typedef void (*plain_work)(berth_packer* plain, berth_packing_budget* budget);

static void run_all_rules(berth_packer* plain, berth_packing_budget* budget) {
    run_rules(plain, BERTH_PACKING_ONLINE_RECENT, budget);
}

static void run_rules_and_search(berth_packer* plain, berth_packing_budget* budget) {
    run_all_rules(plain, budget);
    berth_packer_search(plain, budget);
}

/// Works on the plain parts that can be better than what is there, each with one of `shares` equal
/// shares of what is left of the budget.
static void try_plain(berth_packer* self,
                      plain_work work,
                      uint64_t shares,
                      berth_packing_budget* budget) {
    uint32_t joined = UINT32_MAX;
    for (int k = 0; k < BERTH_PACKING_JOIN_COUNT && self->peak > self->enough; k++) {
        if (self->peak != UINT64_MAX) { // there has to be a packing, whatever it costs
            berth_packing_budget_look(budget, self->peak, self->lower_bound);
            if (budget->over && has_budget(budget)) return;
        }
        berth_packing_merge merge;
        const bool made = berth_packing_merge_init(&merge, self, (berth_packing_joining)k);
        if (made && merge.joined != joined && merge.plain.lower_bound < self->peak) {
            berth_packing_budget_narrow(budget, shares);
            work(&merge.plain, budget);
            berth_packing_budget_widen(budget);
            berth_packing_merge_take(&merge, self);
        }
        joined = merge.joined;
        berth_packing_merge_fini(&merge);
        if (!made) return;
    }
}

/// The portfolio for one part.
static void run_portfolio(berth_packer* self, berth_packing_budget* budget) {
    if (self->plain) {
        run_all_rules(self, budget);
        return;
    }
    // Where very many meet, the plain rules are fast, and what they find may have to do.
    const bool crowded = self->neighbours > SEQUENCE_PAIRS;
    if (!crowded) run_order(self, BERTH_PACKING_ONLINE_RECENT, NULL);
    if (crowded || has_budget(budget) || pairs_of(self) <= PAIRS_LIMIT)
        try_plain(self, run_all_rules, 2, budget);
    if (self->peak == UINT64_MAX) run_order(self, BERTH_PACKING_ONLINE_RECENT, NULL);
    run_rules(self, BERTH_PACKING_ONLINE_BEST, budget);
}

static void search_part(berth_packer* self, berth_packing_budget* budget) {
    if (self->plain) {
        berth_packer_search(self, budget);
        return;
    }
    try_plain(self, run_rules_and_search, 3, budget);
    berth_packer_search_local(self, budget);
}

// ---- The whole problem.

typedef struct solution {
    const berth_packing_load* load;
    const berth_pack_options* options; ///< may be NULL
    berth_packing_budget budget;
    uint64_t bound;    ///< the largest of the parts' bounds
    uint64_t enough;   ///< what no part needs to be below
    uint64_t* offsets; ///< the caller's
} solution;

static void measure_parts(solution* self) {
    const berth_packing_load* load = self->load;
    self->bound = 0;
    for (uint32_t part = 0; part < load->part_count; part++) {
        berth_packer packer;
        berth_packer_init(&packer, load, part);
        load->part_bound[part] = packer.lower_bound;
        if (packer.lower_bound > self->bound) self->bound = packer.lower_bound;
    }
    const uint64_t capacity = self->options == NULL ? 0 : self->options->capacity;
    self->enough = self->bound;
    if (capacity > load->raised && capacity - load->raised > self->enough)
        self->enough = capacity - load->raised;
}

static void store(const solution* self, const berth_packer* packer, uint32_t part) {
    for (uint32_t i = 0; i < packer->count; i++)
        self->offsets[packer->source[i]] = packer->best[i];
    self->load->part_peak[part] = packer->peak;
    self->load->part_bound[part] = packer->lower_bound;
}

/// Packs each part by the portfolio, or by one order if `order` is one.
static void pack_parts(solution* self, berth_packing_order order) {
    for (uint32_t part = 0; part < self->load->part_count; part++) {
        berth_packer packer;
        berth_packer_init(&packer, self->load, part);
        packer.enough = self->enough;
        if (order == BERTH_PACKING_ORDER_COUNT)
            run_portfolio(&packer, &self->budget);
        else
            run_order(&packer, order, NULL);
        store(self, &packer, part);
        berth_packer_fini(&packer);
    }
}

/// The part with the highest peak, and the highest peak of the others.
static uint32_t highest_part(const berth_packing_load* load, uint64_t* out_second) {
    uint32_t highest = 0;
    *out_second = 0;
    for (uint32_t part = 1; part < load->part_count; part++) {
        const bool higher = load->part_peak[part] > load->part_peak[highest];
        const uint64_t lower = load->part_peak[higher ? highest : part];
        if (higher) highest = part;
        if (lower > *out_second) *out_second = lower;
    }
    return highest;
}

/// Hands the budget to the searches, on the part that needs most at each time.
static void improve_parts(solution* self) {
    const berth_packing_load* load = self->load;
    while (load->part_count > 0 && !self->budget.over) {
        uint64_t second;
        const uint32_t part = highest_part(load, &second);
        const uint64_t peak = load->part_peak[part];
        if (load->part_bound[part] > self->enough) self->enough = load->part_bound[part];
        if (peak <= self->enough) return;
        berth_packer packer;
        berth_packer_init(&packer, load, part);
        packer.enough = second > self->enough ? second - 1 : self->enough;
        packer.peak = peak;
        packer.lower_bound = load->part_bound[part];
        for (uint32_t i = 0; i < packer.count; i++)
            packer.best[i] = self->offsets[packer.source[i]];
        search_part(&packer, &self->budget);
        store(self, &packer, part);
        berth_packer_fini(&packer);
        // A search that ends early has done what it can.
        if (load->part_peak[part] > packer.enough) return;
    }
}

static void answer(solution* self, berth_pack_result* out_result) {
    const berth_packing_load* load = self->load;
    berth_packer whole = load->whole;
    uint64_t peak = 0, bound = 0;
    for (uint32_t part = 0; part < load->part_count; part++) {
        if (load->part_peak[part] > peak) peak = load->part_peak[part];
        if (load->part_bound[part] > bound) bound = load->part_bound[part];
    }
    for (uint32_t i = 0; i < whole.count; i++)
        whole.best[i] = self->offsets[whole.source[i]];
    const uint64_t reuse = berth_packer_reuse_distance(&whole, whole.best, load->raised + peak);
    for (uint32_t i = 0; i < whole.count; i++)
        self->offsets[whole.source[i]] += load->raised;
    uint64_t top = 0;
    for (uint32_t k = 0; k < load->raised_count; k++) {
        self->offsets[load->raised_items[k]] = top;
        top += load->raised_sizes[k];
    }
    *out_result = (berth_pack_result){
        .peak = load->raised + peak,
        .lower_bound = load->raised + bound,
        .proved = peak == bound,
        .reuse_distance = reuse,
        .steps = self->budget.steps,
    };
}

static berth_status solve(const berth_host* host,
                          const berth_pack_problem* problem,
                          const berth_pack_options* options,
                          berth_packing_order order,
                          uint64_t* out_offsets,
                          berth_pack_result* out_result) {
    *out_result = (berth_pack_result){.proved = false};
    berth_packing_load load;
    solution self = {.load = &load, .options = options, .offsets = out_offsets};
    berth_packing_budget_init(&self.budget, options);
    const berth_status status = berth_packing_load_init(&load, host, problem);
    if (status == BERTH_OK) {
        if (problem->count > 0) memset(out_offsets, 0, problem->count * sizeof *out_offsets);
        measure_parts(&self);
        pack_parts(&self, order);
        if (order == BERTH_PACKING_ORDER_COUNT) improve_parts(&self);
        answer(&self, out_result);
    }
    berth_packing_load_fini(&load);
    return status;
}

berth_status berth_packing_solve(const berth_host* host,
                                 const berth_pack_problem* problem,
                                 const berth_pack_options* options,
                                 uint64_t* out_offsets,
                                 berth_pack_result* out_result) {
    return solve(host, problem, options, BERTH_PACKING_ORDER_COUNT, out_offsets, out_result);
}

berth_status berth_packing_solve_order(const berth_host* host,
                                       const berth_pack_problem* problem,
                                       berth_packing_order order,
                                       uint64_t* out_offsets,
                                       berth_pack_result* out_result) {
    return solve(host, problem, NULL, order, out_offsets, out_result);
}

berth_status berth_pack(const berth_pack_problem* problem,
                        const berth_pack_options* options,
                        uint64_t* out_offsets,
                        berth_pack_result* out_result) {
    if (out_result != NULL) *out_result = (berth_pack_result){.proved = false};
    if (problem == NULL || out_result == NULL ||
        (problem->count > 0 && (problem->intervals == NULL || out_offsets == NULL)) ||
        (problem->in_place_count > 0 && problem->in_place == NULL))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "buffers, offsets, pairs or result are missing");
    return berth_packing_solve(berth_host_default(), problem, options, out_offsets, out_result);
}
