// SPDX-License-Identifier: Apache-2.0
// Conversions without a particular instruction set, and the choice among the three.
#include "device/cpu/kernel_convert.h"

#include "device/cpu/cpu_kernels.h"

#define BERTH_CONVERT_ROWS berth_convert_rows_portable
#include "device/cpu/kernel_convert_rows.h"

const berth_convert_rows* berth_convert_query_rows(void) {
#if defined(__x86_64__)
    const berth_cpu_isa isa = berth_cpu_query_isa();
    if (isa >= BERTH_CPU_ISA_AVX512) return &berth_convert_rows_avx512;
    if (isa >= BERTH_CPU_ISA_AVX2) return &berth_convert_rows_avx2;
#endif
    return &berth_convert_rows_portable;
}

berth_to_f32_fn berth_convert_query_to_f32(berth_dtype dtype) {
    return berth_convert_query_rows()->to_f32[dtype];
}

berth_from_f32_fn berth_convert_query_from_f32(berth_dtype dtype) {
    return berth_convert_query_rows()->from_f32[dtype];
}
