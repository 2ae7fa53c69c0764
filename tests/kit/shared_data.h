// SPDX-License-Identifier: Apache-2.0
// The folder of data that comes from outside the repository.
#ifndef BERTH_TEST_SHARED_DATA_H
#define BERTH_TEST_SHARED_DATA_H

#include <stdlib.h>

#include "kit/test.h"

/// The folder that BERTH_SHARED names. Without one the test is skipped, with a reason that names
/// `wanted`.
static inline const char* shared_data_folder(const char* wanted) {
    const char* folder = getenv("BERTH_SHARED");
    if (folder == NULL) {
        print_message("skipped: BERTH_SHARED names no folder with %s\n", wanted);
        skip();
    }
    return folder;
}

#endif // BERTH_TEST_SHARED_DATA_H
