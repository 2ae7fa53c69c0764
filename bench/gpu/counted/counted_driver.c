// SPDX-License-Identifier: Apache-2.0
// A driver's library that counts calls and hands them on to the real one, in which nothing changes:
// each of its functions is a jump.
#include "gpu/counted/counted_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/cuda_api.h"

#define COUNTED_HIDDEN __attribute__((visibility("hidden"), used))
#define COUNTED_FUNCTION(field, symbol, parameters)                                                \
    COUNTED_HIDDEN uint64_t counted_calls_##symbol;                                                \
    COUNTED_HIDDEN void* counted_target_##symbol;                                                  \
    __asm__(".text\n.globl " #symbol "\n.type " #symbol ", @function\n" #symbol ":\n"              \
            "    lock incq counted_calls_" #symbol "(%rip)\n"                                      \
            "    jmpq *counted_target_" #symbol "(%rip)\n"                                         \
            ".size " #symbol ", . - " #symbol "\n");
CU_FUNCTION_MAP(COUNTED_FUNCTION)
#undef COUNTED_FUNCTION

static counted_function functions[] = {
#define COUNTED_ROW(field, symbol, parameters) {#symbol, &counted_calls_##symbol},
    CU_FUNCTION_MAP(COUNTED_ROW)
#undef COUNTED_ROW
        {NULL, NULL},
};

__attribute__((visibility("default"))) const counted_function* counted_functions(void) {
    return functions;
}

/// Without the real driver there is nothing to hand on to: the program ends.
__attribute__((constructor)) static void find_targets(void) {
    const char* path = getenv("COUNTED_DRIVER_TARGET");
    void* library = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)fprintf(stderr, "the counted driver: %s\n", dlerror());
        exit(1);
    }
#define COUNTED_FIND(field, symbol, parameters) counted_target_##symbol = dlsym(library, #symbol);
    CU_FUNCTION_MAP(COUNTED_FIND)
#undef COUNTED_FIND
}
