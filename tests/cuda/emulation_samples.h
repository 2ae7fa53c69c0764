// SPDX-License-Identifier: Apache-2.0
// Small kernels that hold the emulation, and the layer's collective functions, to their word. Each
// is a function for emulation_run_function().
#ifndef BERTH_TESTS_CUDA_EMULATION_SAMPLES_H
#define BERTH_TESTS_CUDA_EMULATION_SAMPLES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What every sample takes; `data` and `counts` are as each says.
typedef struct sample_args {
    uint32_t* data;
    uint32_t* counts;
} sample_args;

/// Counts in counts[block][thread] how often each thread ran. Waits for no one.
void sample_count(const void* args);
/// data[block][thread] = the thread that mirrors this one in the block, through shared memory.
void sample_mirror(const void* args);
/// data[block][thread] = the sum of (thread + 1) over the block, by block_reduce(), three times
/// over with another value each.
void sample_sum(const void* args);
/// data[block][thread] = number of the neighbour lane, through 100 exchanges in a row.
void sample_rotate(const void* args);
/// Each warp waits for itself another number of times, then all for the block; data[block][thread]
/// = 1 if every thread of the block had got there.
void sample_uneven(const void* args);
/// data[block] = 1 if each shared array starts with all bits set, in every block.
void sample_fresh(const void* args);
/// data[n] = number of the block that ran n-th, counts[n] = of the thread that ran first in it.
void sample_order(const void* args);

/// data[thread] has ten registers: a, b and, as floats, sums of multiply_matrices(), of bf16 if
/// counts[0] is 1. Replaces the sums.
void sample_multiply(const void* args);
/// data[thread] = what turn_matrix() makes of it.
void sample_turn(const void* args);
/// data [thread, 4] = what load_turned_matrices() makes of rows [32, 8] of halves at counts.
void sample_load_turned(const void* args);
/// Copies 16 bytes of counts[thread] to data[thread] by way of shared memory, the first thread % 17
/// of them; counts changes before the copy is waited for.
void sample_copies(const void* args);

// Mistakes.

void sample_half_waits(const void* args);     ///< half of the threads wait for the block
void sample_mixed_waits(const void* args);    ///< a warp waits in two ways
void sample_shared_beyond(const void* args);  ///< too much shared memory
void sample_forgotten_copy(const void* args); ///< a copy that is not waited for
void sample_odd_copy(const void* args);       ///< one that is not aligned

#ifdef __cplusplus
}
#endif

#endif // BERTH_TESTS_CUDA_EMULATION_SAMPLES_H
