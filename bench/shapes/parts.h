// SPDX-License-Identifier: Apache-2.0
// The parts of the benchmark of shapes. Each runs in a process of its own, so that page faults and
// resident memory are its own, and reports numbers by name.
#ifndef BERTH_BENCH_SHAPES_PARTS_H
#define BERTH_BENCH_SHAPES_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shapes/workload.h"

/// What all parts are told.
typedef struct shapes_config {
    const char* trace;
    int64_t steps; ///< of the keep part
    int64_t warm;  ///< of them, before numbers count
    int64_t trim;  ///< the last steps of the keep part, which the others run
    int64_t exact; ///< steps that run in full
} shapes_config;

/// The numbers of one part, as lines "name value".
typedef struct shapes_report {
    FILE* out;
} shapes_report;

void shapes_report_add(const shapes_report* report, const char* name, double value);

/// All steps with BERTH_KEEP=all: plans, hits, peaks over bounds, new bytes, page faults, resident
/// memory.
void shapes_run_keep(const shapes_config* config, const shapes_report* report);
/// The last steps with BERTH_KEEP=none: memory that is there when a step begins, and its cost.
void shapes_run_trim(const shapes_config* config, const shapes_report* report);
/// Steps of a sixteenth of the lengths with real kernels, with and without plans, bit for bit.
void shapes_run_exact(const shapes_config* config, const shapes_report* report);
/// Plans of lengths up to SHAPES_MAX_AHEAD, nothing executed.
void shapes_run_ahead(const shapes_config* config, const shapes_report* report);
/// All steps through the models of PyTorch's allocator.
void shapes_run_peers(const shapes_config* config, const shapes_report* report);

/// The most plans that buckets of default width make of all shapes that may come.
int64_t shapes_count_buckets(int64_t max_length);

#endif // BERTH_BENCH_SHAPES_PARTS_H
