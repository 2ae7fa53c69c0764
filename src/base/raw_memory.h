// SPDX-License-Identifier: Apache-2.0
// Filling and copying whole stretches of memory, whoever has marked parts of them as free.
#ifndef BERTH_BASE_RAW_MEMORY_H
#define BERTH_BASE_RAW_MEMORY_H

#include <stddef.h>

/// As memset and memcpy, but blind to marks that a sanitizer build has put on parts of the memory:
/// a stretch that moves takes its free blocks along. A plain memset or memcpy in every other build.
void berth_raw_fill(void* target, unsigned char byte, size_t size);
void berth_raw_copy(void* target, const void* source, size_t size);

#endif // BERTH_BASE_RAW_MEMORY_H
