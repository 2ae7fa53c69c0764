// SPDX-License-Identifier: Apache-2.0
// Between tensors and files, for every format.
#ifndef BERTH_EXEC_FILE_TENSOR_H
#define BERTH_EXEC_FILE_TENSOR_H

#include "base/file_writer.h"
#include "exec/exec_impl.h"
#include "tensor/file_map.h"

/// A row-major tensor of the elements at `offset` of `map`, which has been checked to hold them:
/// read-only over the mapping, which it then keeps, or a copy where it cannot be used as it lies.
/// `op` names the call in errors. NULL with the context's error if it fails.
berth_tensor* berth_file_tensor(berth_context* context,
                                const char* op,
                                berth_file_map* map,
                                uint64_t offset,
                                berth_dtype dtype,
                                int32_t rank,
                                const int64_t* dims);

/// Writes the elements row-major to the end of the file.
/// Errors: those of the file, of berth_tensor_read(), BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_file_write_elements(berth_file_writer* writer,
                                                       berth_tensor* tensor);

#endif // BERTH_EXEC_FILE_TENSOR_H
