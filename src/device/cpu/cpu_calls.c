// SPDX-License-Identifier: Apache-2.0
// The calls themselves.
#include "device/cpu/cpu_calls.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// Newer than the oldest headers this compiles with.
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static int reserve(void** at, size_t size, int flags) {
    const int fixed = *at != NULL ? MAP_FIXED : 0;
    void* got = mmap(
        *at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed | flags, -1, 0);
    if (got == MAP_FAILED) return errno;
    *at = got;
    return 0;
}

static int unmap(void* base, size_t size) { return munmap(base, size) == 0 ? 0 : errno; }

static int protect(void* base, size_t size, int protection) {
    return mprotect(base, size, protection) == 0 ? 0 : errno;
}

static int advise(void* base, size_t size, int advice) {
    return madvise(base, size, advice) == 0 ? 0 : errno;
}

static int move(void* from, size_t size, void* to) {
    const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    return mremap(from, size, size, flags, to) != MAP_FAILED ? 0 : errno;
}

static int place(void* base, size_t size, int mode, uint64_t nodes) {
    // the system takes one bit less than it is told
    const unsigned long bits = nodes != 0 ? 8 * sizeof nodes + 1 : 0;
    const long result =
        syscall(SYS_mbind, base, (unsigned long)size, mode, nodes != 0 ? &nodes : NULL, bits, 0u);
    return result == 0 ? 0 : errno;
}

const berth_cpu_calls berth_cpu_system_calls = {.reserve = reserve,
                                                .unmap = unmap,
                                                .protect = protect,
                                                .advise = advise,
                                                .move = move,
                                                .place = place};
