// SPDX-License-Identifier: Apache-2.0
// Uses Berth and asks for its version, then asks who owns the process's allocation functions.
// Shared by the C and the C++ program of this folder.
#ifndef BERTH_TESTS_INSTALL_OWNER_H
#define BERTH_TESTS_INSTALL_OWNER_H

#include <berth/berth.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Sums up 1 + 1 four times in a runtime of its own. Returns 0 when that is 8.
static int use_berth(void) {
    berth_runtime_options options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    berth_runtime* runtime = NULL;
    berth_context* context = NULL;
    float result = 0;
    berth_status status = berth_runtime_create(&options, &runtime);
    if (status == BERTH_OK) status = berth_context_create(runtime, &context);
    if (status == BERTH_OK) {
        berth_tensor* ones = berth_ones(context, BERTH_F32, BERTH_SHAPE(2, 2));
        berth_tensor* sum = berth_add(context, ones, ones);
        sum = berth_sum(context, berth_move(sum), BERTH_DIMS(0), true);
        sum = berth_sum(context, berth_move(sum), BERTH_ALL_DIMS, false);
        status = berth_tensor_read(sum, &result, sizeof result);
        berth_release_all(ones, sum);
    }
    if (status != BERTH_OK) fprintf(stderr, "berth: %s\n", berth_last_error());
    berth_context_release(context);
    berth_runtime_release(runtime);
    return status == BERTH_OK && result == 8.0f ? 0 : 1;
}

/// Returns 0 when the library that runs is the one that the headers belong to.
static int expect_version(void) {
    char text[64];
    snprintf(text,
             sizeof text,
             "%d.%d.%d",
             BERTH_VERSION_MAJOR,
             BERTH_VERSION_MINOR,
             BERTH_VERSION_PATCH);
    if (strcmp(berth_version(), text) == 0) return 0;
    fprintf(stderr, "the library is %s, its headers are %s\n", berth_version(), text);
    return 1;
}

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
