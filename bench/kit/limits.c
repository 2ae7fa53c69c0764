// SPDX-License-Identifier: Apache-2.0
// Loops that do nothing but come near to a limit of the machine.
#include "kit/limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define CHAINS 16 // sums that do not wait for each other

#if defined(__x86_64__)
// The instructions are opaque and volatile, so that nothing is computed beforehand or only once.

__attribute__((target("avx512f"))) static float fma_avx512(int64_t loops) {
    __m512 sums[CHAINS];
    const __m512 factor = _mm512_set1_ps(0.999f);
    for (int i = 0; i < CHAINS; ++i)
        sums[i] = _mm512_set1_ps((float)i);
    for (int64_t n = 0; n < loops; ++n) {
        for (int i = 0; i < CHAINS; ++i)
            __asm__ volatile("vfmadd213ps %1, %1, %0" : "+v"(sums[i]) : "v"(factor));
    }
    for (int i = 1; i < CHAINS; ++i)
        sums[0] = _mm512_add_ps(sums[0], sums[i]);
    return _mm512_cvtss_f32(sums[0]);
}

__attribute__((target("avx2,fma"))) static float fma_avx2(int64_t loops) {
    __m256 sums[CHAINS - 1]; // one register is the factor's
    const __m256 factor = _mm256_set1_ps(0.999f);
    for (int i = 0; i < CHAINS - 1; ++i)
        sums[i] = _mm256_set1_ps((float)i);
    for (int64_t n = 0; n < loops; ++n) {
        for (int i = 0; i < CHAINS - 1; ++i)
            __asm__ volatile("vfmadd213ps %1, %1, %0" : "+x"(sums[i]) : "x"(factor));
    }
    for (int i = 1; i < CHAINS - 1; ++i)
        sums[0] = _mm256_add_ps(sums[0], sums[i]);
    return _mm256_cvtss_f32(sums[0]);
}
#endif

/// What a compiler makes of it, where there is no more than that.
static float fma_plain(int64_t loops) {
    float sums[4 * CHAINS];
    for (int i = 0; i < 4 * CHAINS; ++i)
        sums[i] = (float)i;
    for (int64_t n = 0; n < loops; ++n)
        for (int i = 0; i < 4 * CHAINS; ++i)
            sums[i] = sums[i] * 0.999f + 0.999f;
    for (int i = 1; i < 4 * CHAINS; ++i)
        sums[0] += sums[i];
    return sums[0];
}

float bench_fma_loop(int64_t loops) {
#if defined(__x86_64__)
    if (berth_cpu_query_isa() == BERTH_CPU_ISA_AVX512) return fma_avx512(loops);
    if (berth_cpu_query_isa() == BERTH_CPU_ISA_AVX2) return fma_avx2(loops);
#endif
    return fma_plain(loops);
}

double bench_fma_operations(int64_t loops) {
    const berth_cpu_isa isa = berth_cpu_query_isa();
    const int sums = isa == BERTH_CPU_ISA_AVX512 ? 16 * CHAINS
                     : isa == BERTH_CPU_ISA_AVX2 ? 8 * (CHAINS - 1)
                                                 : 4 * CHAINS;
    return 2.0 * (double)loops * (double)sums;
}

typedef struct copying {
    unsigned char* to;
    const unsigned char* from;
    size_t bytes;
    size_t parts;
} copying;

static void copy_parts(void* job, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const copying* c = job;
    const size_t first = c->bytes / c->parts * (size_t)begin;
    const size_t last = (size_t)end == c->parts ? c->bytes : c->bytes / c->parts * (size_t)end;
    memcpy(c->to + first, c->from + first, last - first);
}

void bench_copy(berth_team* team, void* to, const void* from, size_t bytes) {
    copying job = {.to = to, .from = from, .bytes = bytes, .parts = berth_team_worker_count(team)};
    berth_team_for(team, (int64_t)job.parts, 1, copy_parts, &job);
}
