// SPDX-License-Identifier: Apache-2.0
// The CPU kernel table: which instruction set it is built for, and who fills it.
#ifndef BERTH_DEVICE_CPU_KERNELS_H
#define BERTH_DEVICE_CPU_KERNELS_H

#include "base/op_map.h"
#include "berth/op.h"

/// Instruction sets that kernels are written for, from the least to the most.
typedef enum berth_cpu_isa {
    BERTH_CPU_ISA_PORTABLE, ///< what the compiler may assume anyway
    BERTH_CPU_ISA_AVX2,     ///< AVX2, FMA, F16C
    BERTH_CPU_ISA_AVX512,   ///< AVX-512 F, BW, VL, DQ, VNNI, and all of AVX2
} berth_cpu_isa;

/// The instruction set that kernels are chosen for: the best of this machine unless lowered.
berth_cpu_isa berth_cpu_query_isa(void);

/// For tests: lowers the instruction set (more than the machine has gives the machine's best) and
/// fills the table again. No kernel is running or being chosen on another thread.
void berth_cpu_set_isa(berth_cpu_isa isa);

/// Each fills its rows of `table`, [BERTH_OP_COUNT] and indexed by berth_op_id, for
/// berth_cpu_query_isa(): matrix fills MATMUL and LINEAR, basic all others.
void berth_cpu_fill_basic_kernels(berth_kernel* table);
void berth_cpu_fill_matrix_kernels(berth_kernel* table);

#endif // BERTH_DEVICE_CPU_KERNELS_H
