// SPDX-License-Identifier: Apache-2.0
// Runs the device kernels on the host: the .cu files compiled as C++ over cuda_layer.cuh, each
// thread of a block in turn. A thread that waits for others hands on to the next; where some wait
// for what others never reach, the process ends with a message that names the kernel.
#ifndef BERTH_TESTS_CUDA_EMULATION_H
#define BERTH_TESTS_CUDA_EMULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Which thread of which block is running.
typedef struct emulation_place {
    uint32_t thread;
    uint32_t threads;
    uint32_t block;
    uint32_t blocks;
} emulation_place;

// What kernels call.

const emulation_place* emulation_thread(void);
void emulation_sync_block(void);
void emulation_sync_warp(void);
/// Puts the `size` (at most 64) bytes that thread `lane` of the warp has at its `value` into
/// `value`.
void emulation_exchange(void* value, size_t size, uint32_t lane);
/// The block's memory for the shared array `key`, `size` bytes with all bits set at first.
void* emulation_shared(const void* key, size_t size);
float emulation_f16_to_f32(uint16_t bits);
uint16_t emulation_f32_to_f16(float value);
float emulation_bf16_to_f32(uint16_t bits);
uint16_t emulation_f32_to_bf16(float value);
// Instructions for matrices of halves, as the PTX ISA describes them. cuda_layer.cuh says what they
// do.
void emulation_multiply_matrices(float sums[4],
                                 const uint32_t a[4],
                                 const uint32_t b[2],
                                 float (*to_f32)(uint16_t bits));
uint32_t emulation_turn_matrix(uint32_t two);
void emulation_load_turned_matrices(const void* row, uint32_t to[4]);
/// Copies are made when they are waited for, no earlier.
void emulation_copy_later(void* to, const void* from, uint32_t bytes);
void emulation_end_copies(void);
void emulation_wait_for_copies(uint32_t groups);

// What tests and the stand-in driver call.

/// Runs all blocks of a kernel with the struct of arguments at `arguments`, and returns when they
/// are done. Blocks, and the threads in them, run in an order that differs from call to call.
/// Several threads of the host may do so at once.
void emulation_run(berth_cuda_kernel kernel,
                   uint64_t blocks,
                   uint32_t threads,
                   const void* arguments);

/// A kernel as a function of its arguments.
typedef void (*emulation_function)(const void* arguments);

/// The same for a function that is no kernel of the list; `name` is for messages.
void emulation_run_function(const char* name,
                            emulation_function function,
                            bool is_cooperative,
                            uint64_t blocks,
                            uint32_t threads,
                            const void* arguments);

/// The kernel with the symbol `name`; BERTH_CUDA_KERNEL_COUNT if there is none.
berth_cuda_kernel emulation_find(const char* name);

/// Bytes of the kernel's struct of arguments.
size_t emulation_argument_bytes(berth_cuda_kernel kernel);

#ifdef __cplusplus
}
#endif

#endif // BERTH_TESTS_CUDA_EMULATION_H
