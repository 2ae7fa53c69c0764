// SPDX-License-Identifier: Apache-2.0
// The version of Berth; the build takes it from here. While the first number is 0, the second one
// changes whenever a program would have to be compiled again.
#ifndef BERTH_VERSION_H
#define BERTH_VERSION_H

#include "berth/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BERTH_VERSION_MAJOR 0 ///< first number of the version of these headers
#define BERTH_VERSION_MINOR 1 ///< second number
#define BERTH_VERSION_PATCH 0 ///< third number

/// A version as one number that grows with it, for comparisons by the preprocessor:
/// `#if BERTH_VERSION >= BERTH_MAKE_VERSION(0, 2, 0)`. Minor and patch are below 1000.
#define BERTH_MAKE_VERSION(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))

/// The version of these headers, as BERTH_MAKE_VERSION() makes it.
#define BERTH_VERSION                                                                              \
    BERTH_MAKE_VERSION(BERTH_VERSION_MAJOR, BERTH_VERSION_MINOR, BERTH_VERSION_PATCH)

/// The version of the library that is running, as text: "0.1.0". Lives as long as the program.
/// Threads: any.
BERTH_API const char* berth_version(void);

#ifdef __cplusplus
}
#endif

#endif // BERTH_VERSION_H
