// SPDX-License-Identifier: Apache-2.0
// The independent checker of packings: shares no code with the solvers.
#ifndef BERTH_PLAN_VERIFY_H
#define BERTH_PLAN_VERIFY_H

#include "base/host.h"
#include "berth/pack.h"

/// As berth_pack_verify, with scratch memory from `host`.
BERTH_NODISCARD berth_status berth_verify_packing(const berth_host* host,
                                                  const berth_pack_problem* problem,
                                                  const uint64_t* offsets,
                                                  berth_pack_verdict* out_verdict);

#endif // BERTH_PLAN_VERIFY_H
