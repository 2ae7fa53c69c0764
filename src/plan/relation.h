// SPDX-License-Identifier: Apache-2.0
// The rests-on relation of a packing: what makes one plan serve a whole bucket of shapes.
//
// Value v rests on u if their lifetimes overlap and u lies below v. Kept transitively reduced: u is
// dropped where a chain of other values leads from v down to u, as the chain then keeps them apart.
// At any sizes a value's offset is the largest offset + size over what it rests on, or 0: every
// pair that overlaps in time stays apart by induction over its chain (P1), and offsets are sums and
// maxima of sizes, so they are monotone (P2).
#ifndef BERTH_PLAN_RELATION_H
#define BERTH_PLAN_RELATION_H

#include "base/host.h"
#include "berth/pack.h"

/// Immutable. Values without bytes when it was made are not in it; their offset is 0.
typedef struct berth_relation {
    uint32_t value_count; ///< of the packing
    uint32_t count;       ///< values in it
    uint32_t edge_count;
    uint32_t reserved;
    const uint32_t* order;   ///< [count] values such that all that a value rests on comes before it
    const uint32_t* rest_at; ///< [count + 1] in `rests`, by position in `order`
    const uint32_t* rests;   ///< [edge_count] positions in `order`
} berth_relation;

/// Makes the relation of a valid packing (`offsets` of `intervals`, both [count]). One block, freed
/// by berth_relation_destroy.
/// Errors: BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_INVALID_ARGUMENT if two values overlap.
/// Cost:   O(count * values alive at a time); the reduction is bounded for each value.
BERTH_NODISCARD berth_status berth_relation_create(const berth_host* host,
                                                   const berth_interval* intervals,
                                                   size_t count,
                                                   const uint64_t* offsets,
                                                   berth_relation** out_relation);
/// Accepts NULL.
void berth_relation_destroy(berth_relation* relation, const berth_host* host);

/// Bytes of host memory it takes.
size_t berth_relation_query_bytes(const berth_relation* relation);

/// Evaluates the relation at `sizes` [value_count] (each at most its size at creation where that
/// was 0; their sum at most 2^62): writes `out_offsets` [value_count] and returns the highest
/// offset + size. `tops` is scratch, [count].
uint64_t berth_relation_evaluate(const berth_relation* relation,
                                 const uint64_t* sizes,
                                 uint64_t* tops,
                                 uint64_t* out_offsets);

/// As berth_relation_evaluate, where the first `given` values have their offsets already, in
/// `offsets`. False if one of them does not lie above all that it rests on: then two values would
/// overlap, and `*out_peak` and the offsets say nothing.
bool berth_relation_evaluate_around(const berth_relation* relation,
                                    const uint64_t* sizes,
                                    uint32_t given,
                                    uint64_t* tops,
                                    uint64_t* offsets,
                                    uint64_t* out_peak);

#endif // BERTH_PLAN_RELATION_H
