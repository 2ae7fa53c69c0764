// SPDX-License-Identifier: Apache-2.0
// Packing solvers: what is behind berth_pack.
#ifndef BERTH_PLAN_PACKING_H
#define BERTH_PLAN_PACKING_H

#include "base/host.h"
#include "berth/pack.h"

/// The most that the sizes of one problem may sum to, in bytes: offsets then fit with room to
/// spare.
#define BERTH_PACKING_SUM_MAX (UINT64_C(1) << 62)

/// As berth_pack, with scratch memory from `host`.
BERTH_NODISCARD berth_status berth_packing_solve(const berth_host* host,
                                                 const berth_pack_problem* problem,
                                                 const berth_pack_options* options,
                                                 uint64_t* out_offsets,
                                                 berth_pack_result* out_result);

/// One greedy rule of the portfolio.
typedef enum berth_packing_order {
    BERTH_PACKING_ONLINE_RECENT,   ///< by start; the gap with the bytes released last
    BERTH_PACKING_ONLINE_BEST,     ///< by start; the smallest gap
    BERTH_PACKING_REVERSE_BEST,    ///< by end, backwards; the smallest gap
    BERTH_PACKING_ONLINE_LOWEST,   ///< by start; the lowest gap
    BERTH_PACKING_REVERSE_LOWEST,  ///< by end, backwards; the lowest gap
    BERTH_PACKING_SIZE_LOWEST,     ///< largest first, then by start; the lowest gap
    BERTH_PACKING_AREA_LOWEST,     ///< largest size times duration first; the lowest gap
    BERTH_PACKING_SIZE_BEST,       ///< largest first, then by start; the smallest gap
    BERTH_PACKING_DURATION_LOWEST, ///< longest first, then largest; the lowest gap
    BERTH_PACKING_CLASS_LOWEST,    ///< by size rounded to an octave, then duration; the lowest gap
    BERTH_PACKING_ORDER_COUNT,
} berth_packing_order;

/// One rule alone, for tests and comparisons. `out_result->proved` as for berth_pack.
BERTH_NODISCARD berth_status berth_packing_solve_order(const berth_host* host,
                                                       const berth_pack_problem* problem,
                                                       berth_packing_order order,
                                                       uint64_t* out_offsets,
                                                       berth_pack_result* out_result);

/// The reuse distance (see berth_pack_result) of `offsets`, a valid packing of `peak` bytes.
/// Errors: as berth_pack().
BERTH_NODISCARD berth_status berth_packing_reuse_distance(const berth_host* host,
                                                          const berth_pack_problem* problem,
                                                          const uint64_t* offsets,
                                                          uint64_t peak,
                                                          uint64_t* out_bytes);

#endif // BERTH_PLAN_PACKING_H
