// SPDX-License-Identifier: Apache-2.0
// The threads that CPU kernels share.
//
// A job is cut into chunks; each worker has its own stretch of them and takes from the others when
// it is through, so a worker that the system holds up holds nobody up. The caller waits for chunks,
// not for workers. Idle workers spin for some tens of microseconds, which covers the gaps between
// the ops of a step, and then sleep.
#ifndef BERTH_DEVICE_CPU_TEAM_H
#define BERTH_DEVICE_CPU_TEAM_H

#include "base/host.h"
#include "berth/op.h"

/// Starts a team of `worker_count` >= 1, the caller of berth_team_for included: so one thread less.
/// Errors: BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_DEVICE (a thread cannot be started).
/// Threads: one job at a time; a second caller, and a call from inside a job, runs its job on the
///          calling thread alone, cut the same way.
BERTH_NODISCARD berth_status berth_team_create(const berth_host* host,
                                               uint32_t worker_count,
                                               berth_team** out_team);

/// Accepts NULL. No job is running.
void berth_team_destroy(berth_team* team);

#endif // BERTH_DEVICE_CPU_TEAM_H
