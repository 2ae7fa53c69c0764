// SPDX-License-Identifier: Apache-2.0
// Counts what a test program allocates. Including this replaces the program's allocation functions
// by those of the C library with a counter before them, so one file of a program includes it.
// Mapping memory counts, too.
#ifndef BERTH_TEST_ALLOCATIONS_H
#define BERTH_TEST_ALLOCATIONS_H

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kit/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

/// Skips a test of what the program leaves alone where a sanitizer would be watched as well.
static inline void skip_if_sanitized(void) {
    if (!IS_SANITIZED) return;
    print_message("skipped: a sanitizer does work of its own\n");
    skip();
}

/// Calls that took memory so far; stays 0 where they cannot be counted.
static uint64_t allocations;

#if !IS_SANITIZED && defined(__GLIBC__)
#define COUNTS_ALLOCATIONS 1

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void* block);

#define INTERPOSED __attribute__((visibility("default")))

INTERPOSED void* malloc(size_t size) {
    ++allocations;
    return __libc_malloc(size);
}

INTERPOSED void* calloc(size_t count, size_t size) {
    ++allocations;
    return __libc_calloc(count, size);
}

INTERPOSED void* realloc(void* block, size_t size) {
    ++allocations;
    return __libc_realloc(block, size);
}

INTERPOSED void* aligned_alloc(size_t alignment, size_t size) {
    ++allocations;
    return __libc_memalign(alignment, size);
}

INTERPOSED int posix_memalign(void** out_block, size_t alignment, size_t size) {
    ++allocations;
    *out_block = __libc_memalign(alignment, size);
    return *out_block != NULL ? 0 : ENOMEM;
}

INTERPOSED void free(void* block) { __libc_free(block); }

INTERPOSED void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
    ++allocations;
    const long address = syscall(SYS_mmap, at, size, protection, flags, file, offset);
    // the kernel's answer is an address or -1
    return (void*)(uintptr_t)address;
}
#else
#define COUNTS_ALLOCATIONS 0
#endif

/// Skips a test of allocations where they cannot be counted, else checks that they are.
static inline void skip_unless_allocations_count(void) {
    if (!COUNTS_ALLOCATIONS) {
        print_message("skipped: allocation functions cannot be counted in this build\n");
        skip();
    }
    const uint64_t before = allocations;
    void* volatile block = malloc(1); // a compiler drops a pair that it sees through
    free(block);
    munmap(mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
    assert_int_equal(allocations, before + 2);
}

#endif // BERTH_TEST_ALLOCATIONS_H
