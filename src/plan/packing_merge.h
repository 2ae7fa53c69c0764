// SPDX-License-Identifier: Apache-2.0
// Plain problems whose packings are packings of one that is not plain.
//
// J1: an item of the plain part stands for a chain of partners, all of which lie at its offset, and
//     no two of which live at one moment unless they are partners.
// J2: sizes of the plain part are multiples of every alignment asked for.
// J3: a bound of the plain part says nothing of the other: partners may be better apart.
#ifndef BERTH_PLAN_PACKING_MERGE_H
#define BERTH_PLAN_PACKING_MERGE_H

#include "plan/packing_internal.h"

/// Which partners become one.
typedef enum berth_packing_joining {
    BERTH_PACKING_JOIN_EQUAL,     ///< those of equal sizes: they lose nothing but freedom
    BERTH_PACKING_JOIN_SHRINKING, ///< those of which the second is not larger
    BERTH_PACKING_JOIN_ALL,
    BERTH_PACKING_JOIN_NONE,
    BERTH_PACKING_JOIN_COUNT,
} berth_packing_joining;

typedef struct berth_packing_merge {
    berth_packing_load load;
    berth_packer plain; ///< all of `load`
    uint32_t joined;    ///< partners that became one with another
    uint32_t* root;     ///< [items] the first of the chain that an item is in
    void* block;        ///< holds `root`
} berth_packing_merge;

/// Loads the plain part for `packer`, which is not plain. False without memory or where offsets are
/// given. fini is due to it in any case.
bool berth_packing_merge_init(berth_packing_merge* self,
                              const berth_packer* packer,
                              berth_packing_joining joining);
void berth_packing_merge_fini(berth_packing_merge* self);

/// Hands the best packing of `self->plain`, if there is one, to `packer`.
void berth_packing_merge_take(const berth_packing_merge* self, berth_packer* packer);

#endif // BERTH_PLAN_PACKING_MERGE_H
