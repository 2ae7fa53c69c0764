// SPDX-License-Identifier: Apache-2.0
// Holds a GPU against the CPU, op by op: whatever a runtime on the CPU computes is computed on the
// GPU too, from the same bits of the operands, and the results are compared. So one program that
// draws every op exercises both, and a wrong op shows as itself.
#ifndef BERTH_TESTS_GPU_SHADOW_H
#define BERTH_TESTS_GPU_SHADOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/op_map.h"
#include "berth/berth.h"

/// What was seen of an op.
typedef struct gpu_shadow_record {
    uint64_t calls;    ///< compared
    uint64_t failures; ///< of them, beyond what is allowed
    uint64_t refusals; ///< calls that the GPU's kernel does not take
    double worst;      ///< the largest difference, as a share of what is allowed
    char where[192];   ///< the call with that difference, or the first failure or refusal
} gpu_shadow_record;

/// Opens the GPU as the environment says; `device` is "cuda", or "sim" to try the comparison
/// itself. False, with the reason as berth_last_error() has it, if there is none.
bool gpu_shadow_open(const char* device);

/// From now on the ops of `cpu`, a runtime on the CPU whose contexts are used by one thread, run on
/// the GPU too. Before its first op.
void gpu_shadow_watch(berth_runtime* cpu);

/// What was seen, [BERTH_OP_COUNT].
const gpu_shadow_record* gpu_shadow_records(void);

/// Why the GPU cannot be used any more; "" while it can. Nothing is compared from then on.
const char* gpu_shadow_failure(void);

void gpu_shadow_close(void);

/// An op's name.
const char* gpu_shadow_op_name(berth_op_id op);

#endif // BERTH_TESTS_GPU_SHADOW_H
