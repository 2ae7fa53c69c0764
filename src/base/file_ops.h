// SPDX-License-Identifier: Apache-2.0
// The system calls that files are read, locked and written with: tests put failing ones in place.
#ifndef BERTH_BASE_FILE_OPS_H
#define BERTH_BASE_FILE_OPS_H

#include <sys/types.h>

#include "berth/status.h"

/// Each as the system's call of that name, errno included.
typedef struct berth_file_ops {
    int (*open)(const char* path, int flags, mode_t mode);
    ssize_t (*read)(int descriptor, void* buffer, size_t bytes);
    ssize_t (*write)(int descriptor, const void* data, size_t bytes);
    int (*fsync)(int descriptor);
    int (*rename)(const char* from, const char* to);
    int (*flock)(int descriptor, int operation);
} berth_file_ops;

extern const berth_file_ops berth_file_ops_system; ///< the system's own

/// The status of a call that failed with `error`, an errno: BERTH_ERR_NOT_FOUND where a file or a
/// folder on the way is missing, else BERTH_ERR_IO.
berth_status berth_file_status(int error);

#endif // BERTH_BASE_FILE_OPS_H
