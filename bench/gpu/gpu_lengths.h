// SPDX-License-Identifier: Apache-2.0
// The lengths of the steps that vary, as a trace of requests has them.
#ifndef BERTH_BENCH_GPU_LENGTHS_H
#define BERTH_BENCH_GPU_LENGTHS_H

/// Writes lengths from a fixed seed to `path`; ends the program if it cannot.
void gpu_write_lengths(const char* path);

#endif // BERTH_BENCH_GPU_LENGTHS_H
