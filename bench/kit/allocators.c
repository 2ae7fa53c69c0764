// SPDX-License-Identifier: Apache-2.0
// Each library keeps its names to itself, and uses its own where others have the same.
#include "kit/allocators.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TUNABLES "GLIBC_TUNABLES"
/// More than all of them have together.
#define ROOM "glibc.rtld.optional_static_tls=32768"

typedef struct library {
    const char* allocator;
    const char* file;
} library;

/// The first file that is there is taken.
static const library libraries[] = {
    {"jemalloc", "libjemalloc.so.2"},
    {"mimalloc", "libmimalloc.so.2.0"},
    {"mimalloc", "libmimalloc.so.2"},
    {"tcmalloc", "libtcmalloc_minimal.so.4"},
    {"tcmalloc", "libtcmalloc.so.4"},
};

void bench_allocators_prepare(char** arguments) {
    if (getenv(TUNABLES) != NULL || setenv(TUNABLES, ROOM, 0) != 0) return;
    // where that fails, what does not fit is not there
    (void)execv("/proc/self/exe", arguments);
}

bool bench_allocator_load(const char* name, bench_allocator* out_allocator) {
    *out_allocator = (bench_allocator){.malloc = malloc, .free = free, .memalign = memalign};
    if (strcmp(name, "glibc") == 0) return true;
    void* handle = NULL;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && handle == NULL; ++i)
        if (strcmp(libraries[i].allocator, name) == 0)
            handle = dlopen(libraries[i].file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (handle == NULL) return false;
    void* const symbols[3] = {
        dlsym(handle, "malloc"), dlsym(handle, "free"), dlsym(handle, "memalign")};
    memcpy(&out_allocator->malloc, &symbols[0], sizeof symbols[0]);
    memcpy(&out_allocator->free, &symbols[1], sizeof symbols[1]);
    memcpy(&out_allocator->memalign, &symbols[2], sizeof symbols[2]);
    return symbols[0] != NULL && symbols[1] != NULL && symbols[2] != NULL;
}
