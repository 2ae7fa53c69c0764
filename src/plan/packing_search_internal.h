// SPDX-License-Identifier: Apache-2.0
// What the parts of the packing search share.
//
// Time is cut into sections: the largest sets of items that are alive at one moment. Two items
// meet exactly if they share a section, and an item is alive in a stretch of them. A packing is
// built from below: each section has a floor, and an item is placed on the highest floor in its
// stretch.
//
// N1: every item placed rests on the floor that its sections had then, and whatever is placed
//     later in one of them lies above it.
// N2: `low` of an item that is not placed is the highest floor in its stretch.
// N3: a floor above `solid` is a gap that a decision has left empty; no item that is still to be
//     placed would fit into such gaps alone, since then it could be lowered into them.
#ifndef BERTH_PLAN_PACKING_SEARCH_INTERNAL_H
#define BERTH_PLAN_PACKING_SEARCH_INTERNAL_H

#include "plan/packing_internal.h"

/// A part of a problem, cut into sections. Heights are in units that all sizes are multiples of.
typedef struct berth_packing_sections {
    uint32_t count;
    uint32_t item_count;
    uint64_t unit;  ///< bytes
    int64_t* size;  ///< [item_count]
    uint32_t* from; ///< [item_count] the first section of an item
    uint32_t* to;   ///< [item_count] the section after its last
    int64_t* total; ///< [count] sum of the sizes
    uint32_t* at;   ///< [count + 1] where the list of a section's items begins
    uint32_t* near_at;
    uint32_t* near; ///< items that meet item i: near[near_at[i] .. near_at[i + 1]); borrowed
    void* block;    ///< holds the arrays
} berth_packing_sections;

/// Cuts what `packer` packs. False without memory, or if it is too large for the search.
bool berth_packing_sections_init(berth_packing_sections* self, berth_packer* packer);
void berth_packing_sections_fini(berth_packing_sections* self, const berth_host* host);

typedef enum berth_packing_outcome {
    BERTH_PACKING_FOUND,
    BERTH_PACKING_NONE,    ///< there is no such packing
    BERTH_PACKING_STOPPED, ///< by the limit or the budget
    BERTH_PACKING_NO_MEMORY,
} berth_packing_outcome;

typedef struct berth_packing_undo {
    int64_t* where;
    int64_t value;
} berth_packing_undo;

/// One decision: what lies on the floor of a section, or that nothing does.
typedef struct berth_packing_decision {
    int64_t floor;
    size_t undo;    ///< length of the log before it
    uint32_t where; ///< the section
    uint32_t first; ///< its choices in the list of choices
    uint32_t next;
    uint32_t last;  ///< one more choice follows them: nothing
    int64_t placed; ///< item, or -1
} berth_packing_decision;

/// A depth-first search for a packing within a capacity.
typedef struct berth_packing_tree {
    const berth_packing_sections* sections;
    const berth_host* host;
    int64_t capacity;
    uint32_t* members; ///< the lists of the sections' items, the most promising first
    uint32_t* rank;    ///< [items] their order in the lists
    double* trouble;   ///< [sections] failures seen; kept between runs

    // The state.
    int64_t* floor;    ///< [sections]
    int64_t* solid;    ///< [sections] top of the highest item placed
    int64_t* rest;     ///< [sections] sizes of the items to be placed
    int64_t* top;      ///< [sections] the highest item placed, or -1
    int64_t* low;      ///< [items]
    uint32_t* open;    ///< [items] those that are not placed, in any order
    uint32_t* open_at; ///< [items] their places in `open`
    uint32_t open_count;
    int64_t* offset; ///< [items] of those placed

    uint32_t* witness; ///< [sections] an item that began low enough when last looked at
    uint32_t failed;   ///< the section that showed the last failure
    uint64_t work;     ///< done since the budget was told, in steps
    void* block;       ///< holds the arrays above

    berth_packing_undo* log;
    size_t log_count, log_size;
    berth_packing_decision* decisions;
    size_t decision_size;
    uint32_t* choices;
    size_t choice_size;
} berth_packing_tree;

/// False without memory; fini is due in any case.
bool berth_packing_tree_init(berth_packing_tree* self,
                             const berth_packing_sections* sections,
                             const berth_host* host);
void berth_packing_tree_fini(berth_packing_tree* self);

/// Lists the items of every section in the sequence of `order`, [items], the most promising first.
void berth_packing_tree_set_order(berth_packing_tree* self, const uint32_t* order);

/// Looks for a packing within `self->capacity`, starting from nothing. Ends after `limit` failures
/// at the latest. Found: `self->offset` is the packing.
berth_packing_outcome berth_packing_tree_run(berth_packing_tree* self,
                                             uint64_t limit,
                                             berth_packing_budget* budget,
                                             const berth_packer* packer);

#endif // BERTH_PLAN_PACKING_SEARCH_INTERNAL_H
