// SPDX-License-Identifier: Apache-2.0
// Operands brought, a chunk at a time, to the type in which they meet.
#ifndef BERTH_DEVICE_CPU_KERNEL_OPERAND_H
#define BERTH_DEVICE_CPU_KERNEL_OPERAND_H

#include "device/cpu/kernel_basic.h"

/// In what form an operand's values are wanted.
typedef enum berth_operand_form {
    BERTH_OPERAND_COMPUTED, ///< as rows take them: f16 and bf16 as f32
    BERTH_OPERAND_STORED,   ///< as they lie in memory
} berth_operand_form;

/// An operand as a sequence of values of some type.
typedef struct berth_operand {
    berth_walk walk;
    berth_dtype dtype; ///< of the values
    bool is_widened;   ///< the values are halves, and wanted as f32
    bool is_direct;    ///< the values may be used where they lie
    bool is_constant;  ///< one value over and over: chunks are all the same
} berth_operand;

/// A place for a chunk of values of any plain type.
typedef union berth_chunk {
    _Alignas(64) int64_t widest[BERTH_CHUNK];
    float f32[BERTH_CHUNK];
} berth_chunk;

/// The values of `view`, of a plain type, repeated over `shape`'s dimensions, as `dtype`.
void berth_operand_init(berth_operand* operand,
                        const berth_view* view,
                        const berth_view* shape,
                        berth_dtype dtype,
                        berth_operand_form form);

/// Values [begin, begin + count): where they lie or in `buffer`. `count` is at most BERTH_CHUNK
/// unless the operand is direct.
const void* berth_operand_load(const berth_operand* operand,
                               int64_t begin,
                               int64_t count,
                               berth_chunk* buffer);

#endif // BERTH_DEVICE_CPU_KERNEL_OPERAND_H
