// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all: written beside its place, then put there.
#ifndef BERTH_BASE_FILE_WRITER_H
#define BERTH_BASE_FILE_WRITER_H

#include "base/file_ops.h"
#include "base/host.h"

/// A file being written.
typedef struct berth_file_writer {
    const berth_host* host;    ///< borrowed
    const berth_file_ops* ops; ///< borrowed
    const char* path;          ///< borrowed: where the file will be
    char* place;               ///< the same, or what it leads to if it is a link
    char* temporary;           ///< path of what has been written so far
    size_t folder_bytes;       ///< of `temporary`, the folder's name with its slash
    int descriptor;            ///< of the temporary file
} berth_file_writer;

/// Creates an empty temporary file in the folder of `path`, which is where nothing is yet or a
/// regular file, or a link to one, which stays; and outlives the writer.
/// Errors: BERTH_ERR_INVALID_ARGUMENT (NULL), BERTH_ERR_NOT_FOUND (no such folder), BERTH_ERR_IO,
///         BERTH_ERR_OUT_OF_MEMORY; the detail text names the path. Nothing is left then.
BERTH_NODISCARD berth_status berth_file_writer_init(berth_file_writer* writer,
                                                    const berth_host* host,
                                                    const berth_file_ops* ops,
                                                    const char* path);

/// Adds `bytes` of `data` to the end.
/// Errors: BERTH_ERR_IO naming the path and the reason.
BERTH_NODISCARD berth_status berth_file_writer_add(berth_file_writer* writer,
                                                   const void* data,
                                                   uint64_t bytes);

/// Ends the writer: if `status` is BERTH_OK, makes what was written safe and puts it where it
/// belongs, in place of what was there, which also survives a power failure. Otherwise, or if that
/// fails, nothing is left of it. Returns `status` or what failed here.
/// Errors: BERTH_ERR_IO naming the path and the reason.
BERTH_NODISCARD berth_status berth_file_writer_finish(berth_file_writer* writer,
                                                      berth_status status);

#endif // BERTH_BASE_FILE_WRITER_H
