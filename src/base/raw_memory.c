// SPDX-License-Identifier: Apache-2.0
// Under the address sanitizer plain loops that it does not watch; volatile, lest they become calls
// of the functions that it does.
#include "base/raw_memory.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#ifdef WITH_ASAN

__attribute__((no_sanitize("address"))) void berth_raw_fill(void* target,
                                                            unsigned char byte,
                                                            size_t size) {
    volatile unsigned char* to = target;
    for (size_t i = 0; i < size; i++)
        to[i] = byte;
}

__attribute__((no_sanitize("address"))) void berth_raw_copy(void* target,
                                                            const void* source,
                                                            size_t size) {
    volatile unsigned char* to = target;
    const volatile unsigned char* from = source;
    for (size_t i = 0; i < size; i++)
        to[i] = from[i];
}

#else

void berth_raw_fill(void* target, unsigned char byte, size_t size) { memset(target, byte, size); }

void berth_raw_copy(void* target, const void* source, size_t size) { memcpy(target, source, size); }

#endif
