// SPDX-License-Identifier: Apache-2.0
// The machine's limits, for benchmarks that state shares of them: multiply-adds in registers, and
// copying.
#ifndef BERTH_BENCH_LIMITS_H
#define BERTH_BENCH_LIMITS_H

#include <string.h>

#include "device/cpu/cpu_kernels.h"
#include "device/cpu/cpu_team.h"

/// Operations of `loops` turns of bench_fma_loop, two for a multiply-add.
double bench_fma_operations(int64_t loops);

/// Multiply-adds of f32 on registers alone, with the widest vectors in use; returns a number, so
/// that they are not left out.
float bench_fma_loop(int64_t loops);

/// Copies `bytes` bytes on the team's threads, in one stretch each.
void bench_copy(berth_team* team, void* to, const void* from, size_t bytes);

#endif // BERTH_BENCH_LIMITS_H
