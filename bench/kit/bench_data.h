// SPDX-License-Identifier: Apache-2.0
// Where benchmarks find data that comes from outside the repository.
#ifndef BERTH_BENCH_DATA_H
#define BERTH_BENCH_DATA_H

#include <stdio.h>
#include <stdlib.h>

/// Writes the path of `name`, below the folder data/ of the one that BERTH_SHARED names, or of
/// ../shared. Returns `path`.
static inline const char* bench_shared_data(const char* name, char* path, size_t size) {
    const char* folder = getenv("BERTH_SHARED");
    (void)snprintf(path, size, "%s/data/%s", folder != NULL ? folder : "../shared", name);
    return path;
}

#endif // BERTH_BENCH_DATA_H
