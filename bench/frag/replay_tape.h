// SPDX-License-Identifier: Apache-2.0
// Plays a tape to a policy and measures.
#ifndef BERTH_BENCH_FRAG_REPLAY_TAPE_H
#define BERTH_BENCH_FRAG_REPLAY_TAPE_H

#include <math.h>

#include "frag/policy.h"

/// Stands where a number does not apply.
#define REPLAY_NONE ((double)NAN)

/// A row of the report.
typedef struct replay_row {
    const char* pattern;
    const char* policy;
    policy_device device;
    // With room for everything, what is free given back at each step's end:
    double peak_reserved_over_live;
    double mean_reserved_over_live; ///< over all requests and releases
    // On the device of the tape's capacity:
    double unusable_free_share; ///< the worst probe
    double failed_though_enough_free;
    double failed;                  ///< in all
    double moved_over_allocated;    ///< copied, without what probes made move
    double remapped_over_allocated; ///< the same of what only got other addresses
    double moved_over_least;
    double slice_p99_us;
    double seconds; ///< thread CPU time of both runs, measuring included
} replay_row;

replay_row replay_tape(const tape* t, const policy_ops* ops, policy_device device);

#endif // BERTH_BENCH_FRAG_REPLAY_TAPE_H
