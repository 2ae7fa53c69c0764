// SPDX-License-Identifier: Apache-2.0
// Speed of the LINEAR kernel against the machine's limits, measured in the same run: weights of a
// small language model's shapes, rotating through more memory than any cache holds.
// usage: bench-linear [--quick]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/host.h"
#include "device/cpu/cpu_kernels.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/kernel_gemm_library.h"
#include "device/cpu/kernel_linear.h"
#include "device/cpu/kernel_matrix.h"
#include "kit/limits.h"
#include "kit/median.h"

#define COLD_BYTES (192u << 20)
#define MAX_SAMPLES 64
#define THREADS 2

typedef struct shape {
    int64_t n;
    int64_t k;
} shape;

static const shape shapes[] = {{576, 576}, {1536, 576}, {576, 1536}, {49152, 576}, {2048, 2048}};
static const int64_t row_counts[] = {1, 4, 16, 64, 512};
static const berth_dtype dtypes[] = {BERTH_F32, BERTH_F16, BERTH_Q8_0, BERTH_Q4_1, BERTH_Q5_0};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static volatile uint64_t sink;

static double seconds(void) { return (double)berth_clock_now_ns() * 1e-9; }

static void* checked_alloc(size_t bytes) {
    void* memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory == NULL) {
        fprintf(stderr, "bench-linear: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

// --- The machine's limits ------------------------------------------------------------------------

typedef struct reading {
    const uint64_t* words;
} reading;

static void read_words(void* job, int64_t begin, int64_t end, uint32_t worker) {
    (void)worker;
    const uint64_t* words = ((const reading*)job)->words;
    uint64_t sums[8] = {0};
    for (int64_t i = begin; i + 8 <= end; i += 8) {
        for (int j = 0; j < 8; j++)
            sums[j] += words[i + j];
    }
    for (int j = 0; j < 8; j++)
        sink += sums[j];
}

static double read_limit(berth_team* team, const uint8_t* memory) {
    reading job = {.words = (const uint64_t*)(const void*)memory};
    double samples[9];
    for (int i = 0; i < 9; i++) {
        const double start = seconds();
        berth_team_for(team, COLD_BYTES / 8, 4096, read_words, &job);
        samples[i] = seconds() - start;
    }
    return COLD_BYTES / bench_median(samples, 9) * 1e-9;
}

#define FMA_LOOPS 1000000

static void fma_items(void* job, int64_t begin, int64_t end, uint32_t worker) {
    (void)job;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        sink += (uint64_t)bench_fma_loop(FMA_LOOPS);
}

/// GFLOP/s of multiply-adds on registers alone.
static double fma_limit(berth_team* team) {
    const int items = 4;
    double samples[5];
    for (int i = 0; i < 5; i++) {
        const double start = seconds();
        berth_team_for(team, items, 1, fma_items, NULL);
        samples[i] = seconds() - start;
    }
    return items * bench_fma_operations(FMA_LOOPS) / bench_median(samples, 5) * 1e-9;
}

// --- The kernel ----------------------------------------------------------------------------------

/// Bytes that are finite weights in every type.
static void fill_weights(uint8_t* memory, size_t bytes) {
    uint32_t state = 1;
    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525u + 1013904223u;
        memory[i] = (uint8_t)((state >> 24) & 0x3b);
    }
}

static berth_op_call make_call(berth_dtype dtype, const shape* s, int64_t m, float* x, float* y) {
    const berth_dtype_info* info = berth_dtype_query_info(dtype);
    const int64_t row = info->block_values > 1 ? s->k / info->block_values : s->k;
    berth_op_call call = {.input_count = 2, .output_count = 1, .batch_invariant = true};
    call.inputs[0] = (berth_view){.data = x, .rank = 2, .dims = {m, s->k}, .strides = {s->k, 1}};
    call.inputs[1] =
        (berth_view){.dtype = dtype, .rank = 2, .dims = {s->n, s->k}, .strides = {row, 1}};
    call.outputs[0] = (berth_view){.data = y, .rank = 2, .dims = {m, s->n}, .strides = {s->n, 1}};
    return call;
}

/// Median seconds a call, weights taken from another place at each.
static double time_call(berth_op_call* call, uint8_t* weights, size_t w_bytes, double budget) {
    const size_t places = COLD_BYTES / w_bytes;
    double samples[MAX_SAMPLES];
    int count = 0;
    size_t place = 0;
    const double begin = seconds();
    while (count < MAX_SAMPLES && (count < 3 || seconds() - begin < budget)) {
        const int batch = w_bytes < (4u << 20) && call->inputs[0].dims[0] < 64 ? 16 : 1;
        const double start = seconds();
        for (int i = 0; i < batch; i++) {
            call->inputs[1].data = weights + place * w_bytes;
            place = (place + 1) % places;
            berth_cpu_linear(call);
        }
        samples[count++] = (seconds() - start) / batch;
    }
    return bench_median(samples, count);
}

static void run_shape(
    const shape* s, berth_dtype dtype, uint8_t* weights, berth_team** teams, double budget) {
    const berth_dtype_info* info = berth_dtype_query_info(dtype);
    const size_t w_bytes = (size_t)(s->n * s->k / info->block_values * info->block_bytes);
    float* x = checked_alloc((size_t)(512 * s->k) * sizeof *x);
    for (int64_t i = 0; i < 512 * s->k; i++)
        x[i] = (float)(i % 17) * 0.125f - 1.0f;
    float* y = checked_alloc((size_t)(512 * s->n) * sizeof *y);
    for (size_t i = 0; i < COUNT(row_counts); i++) {
        const int64_t m = row_counts[i];
        berth_op_call call = make_call(dtype, s, m, x, y);
        printf("%-5s %6lld x %4lld  M %3lld ",
               info->name,
               (long long)s->n,
               (long long)s->k,
               (long long)m);
        for (int t = 0; t < THREADS; t++) {
            for (int invariant = 1; invariant >= 0; invariant--) {
                call.team = teams[t];
                call.batch_invariant = invariant;
                call.scratch = checked_alloc(berth_cpu_linear_scratch(&call) + 64);
                const double time = time_call(&call, weights, w_bytes, budget);
                const double flops = 2.0 * (double)m * (double)s->n * (double)s->k;
                printf(" | %6.1f GFLOP/s %5.1f GB/s",
                       flops / time * 1e-9,
                       (double)w_bytes / time * 1e-9);
                free(call.scratch);
            }
        }
        printf("\n");
    }
    free(x);
    free(y);
}

int main(int argc, char** argv) {
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    uint8_t* weights = checked_alloc(COLD_BYTES);
    fill_weights(weights, COLD_BYTES);
    berth_team* teams[THREADS];
    for (uint32_t t = 0; t < THREADS; t++) {
        if (berth_team_create(berth_host_default(), t + 1, &teams[t]) != BERTH_OK) {
            fprintf(stderr, "bench-linear: %s\n", berth_last_error());
            return 1;
        }
        printf("limits, %u threads: read %.1f GB/s, multiply-add %.1f GFLOP/s\n",
               t + 1,
               read_limit(teams[t], weights),
               fma_limit(teams[t]));
    }
    printf("matrix library: %s\n", berth_gemm_library_name());
    printf("columns: 1 thread batch-invariant, 1 thread free, 2 threads batch-invariant, 2 threads "
           "free\n");
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        for (size_t i = 0; i < COUNT(shapes); i++) {
            run_shape(&shapes[i], dtypes[d], weights, teams, quick ? 0.02 : 0.2);
        }
    }
    for (int t = 0; t < THREADS; t++)
        berth_team_destroy(teams[t]);
    free(weights);
    return 0;
}
