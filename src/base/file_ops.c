// SPDX-License-Identifier: Apache-2.0
// The system's calls, as functions with fixed arguments.
#include "base/file_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

static int open_file(const char* path, int flags, mode_t mode) { return open(path, flags, mode); }

const berth_file_ops berth_file_ops_system = {
    .open = open_file,
    .read = read,
    .write = write,
    .fsync = fsync,
    .rename = rename,
    .flock = flock,
};

berth_status berth_file_status(int error) {
    return error == ENOENT || error == ENOTDIR ? BERTH_ERR_NOT_FOUND : BERTH_ERR_IO;
}
