// SPDX-License-Identifier: Apache-2.0
// Other allocators, loaded beside the program's own and used by nobody else.
#ifndef BERTH_BENCH_ALLOCATORS_H
#define BERTH_BENCH_ALLOCATORS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct bench_allocator {
    void* (*malloc)(size_t size);
    void (*free)(void* block);
    void* (*memalign)(size_t alignment, size_t size);
} bench_allocator;

/// Lets libraries be loaded whose variables of each thread have a fixed place, as jemalloc's have:
/// starts the program anew, where that is necessary. The first call of main.
void bench_allocators_prepare(char** arguments);

/// The allocator called "glibc", "jemalloc", "mimalloc" or "tcmalloc"; false if it is not
/// installed.
bool bench_allocator_load(const char* name, bench_allocator* out_allocator);

#endif // BERTH_BENCH_ALLOCATORS_H
