// SPDX-License-Identifier: Apache-2.0
// The version as text.
#include "berth/version.h"

#define TEXT_OF(number) #number
#define DOTTED(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char* berth_version(void) {
    return DOTTED(BERTH_VERSION_MAJOR, BERTH_VERSION_MINOR, BERTH_VERSION_PATCH);
}
