// SPDX-License-Identifier: Apache-2.0
// Finds the instruction set and builds the kernel table for it, once.
#include "device/cpu/cpu_kernels.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "device/cpu/cpu_device.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static berth_cpu_isa chosen_isa;
static berth_kernel table[BERTH_OP_COUNT];

#if defined(__x86_64__)
static bool has_f16c(void) {
    // Not every compiler knows this feature by name.
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

static berth_cpu_isa machine_isa(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    if (!avx2) return BERTH_CPU_ISA_PORTABLE;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vnni");
    return avx512 ? BERTH_CPU_ISA_AVX512 : BERTH_CPU_ISA_AVX2;
#else
    return BERTH_CPU_ISA_PORTABLE;
#endif
}

static void fill(void) {
    berth_cpu_fill_basic_kernels(table);
    berth_cpu_fill_matrix_kernels(table);
}

static void build(void) {
    chosen_isa = machine_isa();
    fill();
}

berth_cpu_isa berth_cpu_query_isa(void) {
    // While the table is being built, the fill functions ask from inside `once`.
    static _Thread_local bool building;
    if (!building) {
        building = true;
        pthread_once(&once, build);
        building = false;
    }
    return chosen_isa;
}

void berth_cpu_set_isa(berth_cpu_isa isa) {
    (void)berth_cpu_query_isa();
    const berth_cpu_isa best = machine_isa();
    chosen_isa = isa < best ? isa : best;
    fill();
}

const berth_kernel* berth_cpu_kernels(void) {
    (void)berth_cpu_query_isa();
    return table;
}
