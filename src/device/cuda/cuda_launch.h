// SPDX-License-Identifier: Apache-2.0
// What turns a call of an op into launches of kernels: the tables of the back end, and the
// functions that their entries use. Entries run on the host, inside the device's `launch`; they
// choose grids, fill in arguments and enqueue. Nothing here blocks, allocates, or looks at the
// operands' data.
#ifndef BERTH_DEVICE_CUDA_LAUNCH_H
#define BERTH_DEVICE_CUDA_LAUNCH_H

#include "base/op_map.h"
#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_kernels.h"
#include "device/device.h"

/// Enqueues a kernel on the stream of the op that is being launched: `blocks` (0: nothing is done,
/// at most 2^31 - 1) of `threads` (a multiple of 32, at most 1024) each, with a copy of the
/// kernel's struct of arguments. An error is kept, and ends the op; what is enqueued after it is
/// dropped.
void berth_cuda_run(berth_cuda_kernel kernel,
                    uint64_t blocks,
                    uint32_t threads,
                    const void* arguments);

/// Multiprocessors of the device of the op that is being launched.
uint32_t berth_cuda_query_multiprocessors(void);

/// Blocks of `threads` that cover `count` items, at most what keeps the device busy with a loop
/// over the grid.
uint64_t berth_cuda_blocks_for(uint64_t count, uint32_t threads);

static inline int64_t berth_cuda_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/// The stride that `operand` has in dimension `d` of a shape of `rank` to which it broadcasts.
static inline int64_t berth_cuda_broadcast_stride(const berth_view* operand,
                                                  int32_t rank,
                                                  int32_t d) {
    const int32_t own = d - (rank - operand->rank);
    return own < 0 || operand->dims[own] == 1 ? 0 : operand->strides[own];
}

/// out [batches, rows, columns] = a [rows, depth] x b [depth, columns] of each batch, and bias
/// [columns] where it is not NULL. All of one float type, the bias f32; out is contiguous. Strides
/// in elements.
typedef struct berth_cuda_library_product {
    berth_dtype dtype;
    const void* a;
    const void* b;
    const float* bias;
    void* out;
    int64_t batches;
    int64_t rows;
    int64_t columns;
    int64_t depth;
    int64_t a_batch;
    int64_t a_row;
    int64_t a_step; ///< along the depth
    int64_t b_batch;
    int64_t b_step; ///< along the depth
    int64_t b_column;
} berth_cuda_library_product;

/// Enqueues a product by the vendor's library, as berth_cuda_run() does a kernel. False if there is
/// none or it does not take such a product: then nothing has been enqueued.
bool berth_cuda_try_library(const berth_cuda_library_product* product,
                            void* workspace,
                            uint64_t workspace_bytes);

/// What an op needs on this device, indexed by berth_op_id: a launcher, the bytes of workspace that
/// it uses (NULL: none), and for ops of a counted size the launcher of what counts. Built once.
typedef struct berth_cuda_table {
    berth_kernel kernels[BERTH_OP_COUNT];
    berth_scratch_rule scratch[BERTH_OP_COUNT];
    berth_kernel counters[BERTH_OP_COUNT];
} berth_cuda_table;

/// The table with every family's entries.
const berth_cuda_table* berth_cuda_kernel_table(void);

// Each family fills in its ops.
void berth_cuda_fill_elementwise(berth_cuda_table* table);
void berth_cuda_fill_row(berth_cuda_table* table);
void berth_cuda_fill_index(berth_cuda_table* table);
void berth_cuda_fill_matrix(berth_cuda_table* table);
void berth_cuda_fill_attention(berth_cuda_table* table);
void berth_cuda_fill_sort(berth_cuda_table* table);

#endif // BERTH_DEVICE_CUDA_LAUNCH_H
