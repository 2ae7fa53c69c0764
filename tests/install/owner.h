// SPDX-License-Identifier: Apache-2.0
// Who owns the process's allocation functions? Shared by the C and the C++ program of this folder.
#ifndef BERTH_TESTS_INSTALL_OWNER_H
#define BERTH_TESTS_INSTALL_OWNER_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Returns 0 when the function at `address` lies in a file whose name begins with `library`, else 1
/// after naming the owner on stderr.
static int expect_owner(const char* function, void* address, const char* library) {
    Dl_info info;
    if (address == NULL || dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        fprintf(stderr, "%s: no owner found\n", function);
        return 1;
    }
    const char* slash = strrchr(info.dli_fname, '/');
    const char* file = slash != NULL ? slash + 1 : info.dli_fname;
    if (strncmp(file, library, strlen(library)) == 0) return 0;
    fprintf(stderr, "%s belongs to %s, expected %s\n", function, info.dli_fname, library);
    return 1;
}

/// Checks the functions as this program calls them, and as a library loaded later would find them.
/// Returns the number that libc does not own.
static int expect_libc_allocator(void) {
    static const char* const names[] = {
        "malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign"};
    int failures = expect_owner("malloc", (void*)(uintptr_t)malloc, "libc.so");
    failures += expect_owner("free", (void*)(uintptr_t)free, "libc.so");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        failures += expect_owner(names[i], dlsym(RTLD_DEFAULT, names[i]), "libc.so");
    return failures;
}

#endif
