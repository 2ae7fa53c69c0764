// SPDX-License-Identifier: Apache-2.0
// Marks memory that nobody may touch, for sanitizer builds: they cannot see inside an arena by
// themselves. Expands to nothing elsewhere.
#ifndef BERTH_MEMORY_POISON_H
#define BERTH_MEMORY_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define BERTH_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BERTH_HAS_ASAN 1
#endif
#endif

#ifdef BERTH_HAS_ASAN
#include <sanitizer/asan_interface.h>
#define BERTH_POISONS 1 ///< free memory is watched
#define BERTH_POISON_REGION(data, size) ASAN_POISON_MEMORY_REGION(data, size)
#define BERTH_UNPOISON_REGION(data, size) ASAN_UNPOISON_MEMORY_REGION(data, size)
#else
#define BERTH_POISONS 0
#define BERTH_POISON_REGION(data, size) ((void)(data), (void)(size))
#define BERTH_UNPOISON_REGION(data, size) ((void)(data), (void)(size))
#endif

#endif // BERTH_MEMORY_POISON_H
