// SPDX-License-Identifier: Apache-2.0
// A file as memory that can be read: shared by all tensors that lie in it.
#ifndef BERTH_TENSOR_FILE_MAP_H
#define BERTH_TENSOR_FILE_MAP_H

#include <stdatomic.h>

#include "base/host.h"

/// A mapped file. Reference-counted, from any thread.
typedef struct berth_file_map {
    const berth_host* host; ///< borrowed: outlives every reference
    unsigned char* data;    ///< [size], not to be written; NULL if the file is empty
    uint64_t size;          ///< bytes
    _Atomic uint32_t refs;
} berth_file_map;

/// Maps the regular file at `path`. What is done to the file itself afterwards shows; a file that
/// gets shorter ends the process that reads what is gone.
/// Ownership: the caller has one reference; berth_file_map_release().
/// Errors:    BERTH_ERR_INVALID_ARGUMENT (NULL), BERTH_ERR_NOT_FOUND, BERTH_ERR_IO,
///            BERTH_ERR_OUT_OF_MEMORY; the detail text names the path. `*out_map` is NULL then.
BERTH_NODISCARD berth_status berth_file_map_open(const berth_host* host,
                                                 const char* path,
                                                 berth_file_map** out_map);

void berth_file_map_retain(berth_file_map* map);
/// Accepts NULL.
void berth_file_map_release(berth_file_map* map);

#endif // BERTH_TENSOR_FILE_MAP_H
