// SPDX-License-Identifier: Apache-2.0
// A depth-first search for a packing within a capacity: decides, section by section, what lies on
// the floor, and gives up as soon as what is left cannot fit above.
#include <string.h>

#include "base/carve.h"
#include "plan/packing_search_internal.h"

/// Entries of lists that are looked through in the time of one step.
#define WORK_PER_STEP 256u
/// Makes the number of choices count less where there are few.
#define CHOICES_MORE 2u

// ---- Memory.

static size_t lay_out(berth_packing_tree* self, char* block) {
    const size_t n = self->sections->item_count;
    const size_t s = self->sections->count;
    size_t total = 0;
    self->floor = berth_carve(block, &total, s, sizeof(int64_t));
    self->solid = berth_carve(block, &total, s, sizeof(int64_t));
    self->rest = berth_carve(block, &total, s, sizeof(int64_t));
    self->top = berth_carve(block, &total, s, sizeof(int64_t));
    self->trouble = berth_carve(block, &total, s, sizeof(double));
    self->low = berth_carve(block, &total, n, sizeof(int64_t));
    self->offset = berth_carve(block, &total, n, sizeof(int64_t));
    self->open = berth_carve(block, &total, n, sizeof(uint32_t));
    self->open_at = berth_carve(block, &total, n, sizeof(uint32_t));
    self->witness = berth_carve(block, &total, s, sizeof(uint32_t));
    self->rank = berth_carve(block, &total, n, sizeof(uint32_t));
    self->members = berth_carve(block, &total, self->sections->at[s], sizeof(uint32_t));
    return total;
}

bool berth_packing_tree_init(berth_packing_tree* self,
                             const berth_packing_sections* sections,
                             const berth_host* host) {
    *self = (berth_packing_tree){.sections = sections, .host = host};
    self->block = berth_host_alloc(host, lay_out(self, NULL));
    if (self->block == NULL) return false;
    (void)lay_out(self, self->block);
    for (uint32_t s = 0; s < sections->count; s++)
        self->trouble[s] = 1;
    return true;
}

void berth_packing_tree_fini(berth_packing_tree* self) {
    berth_host_free(self->host, self->choices);
    berth_host_free(self->host, self->decisions);
    berth_host_free(self->host, self->log);
    berth_host_free(self->host, self->block);
}

static bool reserve(const berth_host* host, void** block, size_t* size, size_t need, size_t bytes) {
    if (need <= *size) return true;
    const size_t more = need + need / 2;
    void* moved = berth_host_realloc(host, *block, more * bytes);
    if (moved == NULL) return false;
    *block = moved;
    *size = more;
    return true;
}

/// Room for one more decision and what it does.
static bool reserve_decision(berth_packing_tree* self, size_t depth, size_t choice_count) {
    const size_t n = self->sections->item_count;
    const size_t s = self->sections->count;
    void* log = self->log;
    void* decisions = self->decisions;
    void* choices = self->choices;
    const bool reserved =
        reserve(
            self->host, &log, &self->log_size, self->log_count + n + 4 * s, sizeof *self->log) &&
        reserve(self->host, &decisions, &self->decision_size, depth + 2, sizeof *self->decisions) &&
        reserve(self->host, &choices, &self->choice_size, choice_count + n, sizeof *self->choices);
    self->log = log;
    self->decisions = decisions;
    self->choices = choices;
    return reserved;
}

void berth_packing_tree_set_order(berth_packing_tree* self, const uint32_t* order) {
    const berth_packing_sections* sections = self->sections;
    uint32_t* count = self->open; // scratch: not in use between runs, at least as long
    memset(count, 0, sections->count * sizeof *count);
    for (uint32_t k = 0; k < sections->item_count; k++) {
        const uint32_t item = order[k];
        self->rank[item] = k;
        for (uint32_t s = sections->from[item]; s < sections->to[item]; s++)
            self->members[sections->at[s] + count[s]++] = item;
    }
}

// ---- The state and its undoing.

static inline void set(berth_packing_tree* self, int64_t* where, int64_t value) {
    self->log[self->log_count++] = (berth_packing_undo){where, *where};
    *where = value;
}

static void undo_to(berth_packing_tree* self, size_t count) {
    while (self->log_count > count) {
        const berth_packing_undo* last = &self->log[--self->log_count];
        *last->where = last->value;
    }
}

static inline bool is_open(const berth_packing_tree* self, uint32_t item) {
    return self->open_at[item] < self->open_count;
}

static void swap_open(berth_packing_tree* self, uint32_t a, uint32_t b) {
    const uint32_t item = self->open[a];
    self->open[a] = self->open[b];
    self->open[b] = item;
    self->open_at[self->open[a]] = a;
    self->open_at[item] = b;
}

static inline bool covers(const berth_packing_sections* sections, uint32_t item, uint32_t section) {
    return sections->from[item] <= section && section < sections->to[item];
}

static void reset(berth_packing_tree* self) {
    const berth_packing_sections* sections = self->sections;
    for (uint32_t s = 0; s < sections->count; s++) {
        self->floor[s] = self->solid[s] = 0;
        self->rest[s] = sections->total[s];
        self->top[s] = -1;
        self->witness[s] = self->members[sections->at[s]];
    }
    for (uint32_t i = 0; i < sections->item_count; i++) {
        self->low[i] = 0;
        self->open[i] = self->open_at[i] = i;
    }
    self->open_count = sections->item_count;
    self->log_count = 0;
}

// ---- Bounds.

/// Something left in each section begins low enough for all the rest of it. The one that did last
/// time is asked first.
static bool fits_above_lowest(berth_packing_tree* self) {
    const berth_packing_sections* sections = self->sections;
    for (uint32_t s = 0; s < sections->count; s++) {
        const int64_t highest = self->capacity - self->rest[s];
        const uint32_t last = self->witness[s];
        if (self->rest[s] == 0 || (self->low[last] <= highest && is_open(self, last))) continue;
        const uint32_t end = sections->at[s + 1];
        uint32_t k = sections->at[s];
        while (k < end &&
               (self->low[self->members[k]] > highest || !is_open(self, self->members[k])))
            k++;
        self->work += k - sections->at[s];
        if (k == end) {
            self->failed = s;
            return false;
        }
        self->witness[s] = self->members[k];
    }
    return true;
}

// ---- Decisions.

static bool place(berth_packing_tree* self, uint32_t item) {
    const berth_packing_sections* sections = self->sections;
    const int64_t size = sections->size[item];
    const int64_t height = self->low[item] + size;
    self->offset[item] = self->low[item];
    self->open_count--;
    swap_open(self, self->open_at[item], self->open_count);
    for (uint32_t s = sections->from[item]; s < sections->to[item]; s++) {
        set(self, &self->floor[s], height);
        set(self, &self->solid[s], height);
        set(self, &self->rest[s], self->rest[s] - size);
        set(self, &self->top[s], item);
    }
    for (uint32_t k = sections->near_at[item]; k < sections->near_at[item + 1]; k++) {
        const uint32_t other = sections->near[k];
        if (self->low[other] < height && is_open(self, other)) set(self, &self->low[other], height);
    }
    return fits_above_lowest(self);
}

/// Where the next item of a section begins if none begins on its floor: where one begins anyway,
/// or on another that is yet to be placed.
static int64_t next_floor(berth_packing_tree* self, uint32_t section, int64_t floor) {
    const berth_packing_sections* sections = self->sections;
    int64_t next = INT64_MAX;
    for (uint32_t k = sections->at[section]; k < sections->at[section + 1]; k++) {
        const uint32_t item = self->members[k];
        if (!is_open(self, item)) continue;
        if (self->low[item] > floor) {
            if (self->low[item] < next) next = self->low[item];
            continue;
        }
        for (uint32_t j = sections->near_at[item]; j < sections->near_at[item + 1]; j++) {
            const uint32_t below = sections->near[j];
            if (!is_open(self, below) || covers(sections, below, section)) continue;
            const int64_t above = self->low[below] + sections->size[below];
            if (above < next) next = above;
        }
        self->work += sections->near_at[item + 1] - sections->near_at[item];
    }
    return next;
}

/// True if `item` would fit into gaps that are to stay empty.
static bool fits_into_gap(const berth_packing_tree* self, uint32_t item) {
    const berth_packing_sections* sections = self->sections;
    int64_t bottom = 0;
    int64_t lid = INT64_MAX;
    for (uint32_t s = sections->from[item]; s < sections->to[item]; s++) {
        if (self->solid[s] > bottom) bottom = self->solid[s];
        if (self->floor[s] < lid) lid = self->floor[s];
    }
    return bottom + sections->size[item] <= lid;
}

/// Leaves the floor of a section empty.
static bool lift(berth_packing_tree* self, uint32_t section, int64_t floor) {
    const berth_packing_sections* sections = self->sections;
    self->failed = section;
    if (floor + self->rest[section] >= self->capacity) return false;
    const int64_t next = next_floor(self, section, floor);
    if (next > self->capacity - self->rest[section]) return false;
    set(self, &self->floor[section], next);
    for (uint32_t k = sections->at[section]; k < sections->at[section + 1]; k++) {
        const uint32_t item = self->members[k];
        if (!is_open(self, item)) continue;
        if (self->low[item] < next) set(self, &self->low[item], next);
        if (fits_into_gap(self, item)) return false;
    }
    return fits_above_lowest(self);
}

/// Items that may lie on the floor of a section.
static uint32_t count_choices(berth_packing_tree* self, uint32_t section) {
    const berth_packing_sections* sections = self->sections;
    const int64_t floor = self->floor[section];
    uint32_t count = 0;
    for (uint32_t k = sections->at[section]; k < sections->at[section + 1]; k++) {
        const uint32_t item = self->members[k];
        count += self->low[item] == floor && is_open(self, item);
    }
    self->work += sections->at[section + 1] - sections->at[section];
    return count;
}

/// How soon a section should be decided: the less slack, the fewer choices, and the more failures
/// it has shown, the sooner. Smaller is sooner.
static double urgency(berth_packing_tree* self, uint32_t section) {
    const int64_t slack = self->capacity - self->floor[section] - self->rest[section];
    const uint32_t choices = count_choices(self, section) + (slack > 0);
    return ((double)slack + 1) * (double)(choices + CHOICES_MORE) / self->trouble[section];
}

/// The section to be decided next. None: everything is placed.
static uint32_t choose_section(berth_packing_tree* self) {
    const uint32_t count = self->sections->count;
    uint32_t chosen = BERTH_PACKER_NONE;
    double best = 0;
    for (uint32_t s = 0; s < count;) {
        const uint32_t from = s++;
        if (self->rest[from] == 0) continue;
        const int64_t floor = self->floor[from];
        while (s < count && self->rest[s] > 0 && self->floor[s] == floor)
            s++;
        const bool left = from == 0 || self->rest[from - 1] == 0 || self->floor[from - 1] > floor;
        const bool right = s == count || self->rest[s] == 0 || self->floor[s] > floor;
        if (!left || !right) continue;
        for (uint32_t t = from; t < s; t++) {
            const double mine = urgency(self, t);
            if (chosen != BERTH_PACKER_NONE && mine >= best) continue;
            chosen = t;
            best = mine;
        }
    }
    return chosen;
}

/// An item that is like another need not be tried where that one was, and of two items of one
/// stretch the one that comes first lies below.
static bool is_redundant(const berth_packing_tree* self,
                         const berth_packing_decision* decision,
                         uint32_t item) {
    const berth_packing_sections* sections = self->sections;
    const int64_t top = self->top[decision->where];
    if (top >= 0 && self->solid[decision->where] == decision->floor &&
        sections->from[top] == sections->from[item] && sections->to[top] == sections->to[item] &&
        self->rank[top] > self->rank[item])
        return true;
    for (uint32_t k = decision->first; k < decision->last; k++) {
        const uint32_t other = self->choices[k];
        if (sections->from[other] == sections->from[item] &&
            sections->to[other] == sections->to[item] &&
            sections->size[other] == sections->size[item])
            return true;
    }
    return false;
}

static void open_decision(berth_packing_tree* self,
                          uint32_t section,
                          size_t depth,
                          uint32_t first) {
    const berth_packing_sections* sections = self->sections;
    berth_packing_decision* decision = &self->decisions[depth];
    *decision = (berth_packing_decision){.floor = self->floor[section],
                                         .undo = self->log_count,
                                         .where = section,
                                         .first = first,
                                         .next = first,
                                         .last = first,
                                         .placed = -1};
    for (uint32_t k = sections->at[section]; k < sections->at[section + 1]; k++) {
        const uint32_t item = self->members[k];
        if (self->low[item] != decision->floor || !is_open(self, item)) continue;
        if (!is_redundant(self, decision, item)) self->choices[decision->last++] = item;
    }
}

static void take_back(berth_packing_tree* self, berth_packing_decision* decision) {
    if (decision->placed >= 0) {
        // Items come back in the reverse sequence, so each is where it was put.
        self->open_count++;
        decision->placed = -1;
    }
    undo_to(self, decision->undo);
}

/// Takes the next choice of a decision that has one. False: it fails.
static bool take_next(berth_packing_tree* self, berth_packing_decision* decision) {
    if (decision->next == decision->last) {
        decision->next++;
        return lift(self, decision->where, decision->floor);
    }
    const uint32_t item = self->choices[decision->next++];
    decision->placed = item;
    return place(self, item);
}

berth_packing_outcome berth_packing_tree_run(berth_packing_tree* self,
                                             uint64_t limit,
                                             berth_packing_budget* budget,
                                             const berth_packer* packer) {
    reset(self);
    uint32_t choice_count = 0;
    for (size_t depth = 0;; depth++) {
        const uint32_t section = choose_section(self);
        if (section == BERTH_PACKER_NONE) return BERTH_PACKING_FOUND;
        if (!reserve_decision(self, depth, choice_count)) return BERTH_PACKING_NO_MEMORY;
        open_decision(self, section, depth, choice_count);
        for (;;) {
            berth_packing_decision* decision = &self->decisions[depth];
            if (decision->next > decision->last) {
                if (depth == 0) return BERTH_PACKING_NONE;
                take_back(self, &self->decisions[--depth]);
                continue;
            }
            self->work += self->open_count / 2;
            const uint64_t steps = 1 + self->work / WORK_PER_STEP;
            self->work %= WORK_PER_STEP;
            if (limit == 0 ||
                !berth_packing_budget_spend(budget, steps, packer->peak, packer->lower_bound))
                return BERTH_PACKING_STOPPED;
            if (take_next(self, decision)) break;
            self->trouble[self->failed] += 1;
            limit--;
            take_back(self, decision);
        }
        choice_count = self->decisions[depth].last;
    }
}
