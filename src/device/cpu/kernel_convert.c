// SPDX-License-Identifier: Apache-2.0
// Conversions without a particular instruction set, and the choice among the three.
#include "device/cpu/kernel_convert.h"

#include <string.h>

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

static bool is_copy(berth_dtype from, berth_dtype to) {
    const bool to_byte = to == BERTH_U8 || to == BERTH_I8;
    const bool from_byte = from == BERTH_U8 || from == BERTH_I8 || from == BERTH_BOOL;
    return from == to || (from_byte && to_byte);
}

void berth_convert_plain(
    berth_dtype from, berth_dtype to, const void* source, void* target, int64_t count) {
    const berth_convert_rows* rows = berth_convert_query_rows();
    if (count <= 0) return;
    if (is_copy(from, to)) {
        memcpy(target, source, (size_t)(count * berth_dtype_bytes(from)));
        return;
    }
    if (from == BERTH_F32 && berth_dtype_is_half(to)) {
        rows->from_f32[to](source, target, count);
        return;
    }
    if (berth_dtype_is_half(from) && to == BERTH_F32) {
        rows->to_f32[from](source, target, count);
        return;
    }
    if (rows->cast[from][to] != NULL) {
        rows->cast[from][to](source, target, count);
        return;
    }
    // to or from a half: through f32, a stretch at a time
    enum { STRETCH = 512 };
    float wide[STRETCH];
    const int64_t from_bytes = berth_dtype_bytes(from);
    const int64_t to_bytes = berth_dtype_bytes(to);
    for (int64_t at = 0; at < count; at += STRETCH) {
        const int64_t left = count - at < STRETCH ? count - at : STRETCH;
        berth_convert_plain(
            from, BERTH_F32, (const unsigned char*)source + at * from_bytes, wide, left);
        berth_convert_plain(BERTH_F32, to, wide, (unsigned char*)target + at * to_bytes, left);
    }
}
