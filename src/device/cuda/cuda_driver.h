// SPDX-License-Identifier: Apache-2.0
// The CUDA driver's library, loaded by hand: its functions, and its words for what went wrong.
#ifndef BERTH_DEVICE_CUDA_DRIVER_H
#define BERTH_DEVICE_CUDA_DRIVER_H

#include <stdbool.h>

#include "berth/status.h"
#include "device/cuda/cuda_api.h"

typedef struct berth_cuda_driver {
#define BERTH_CUDA_DRIVER_FIELD(field, symbol, parameters) cu_result(*field) parameters;
    CU_FUNCTION_MAP(BERTH_CUDA_DRIVER_FIELD)
#undef BERTH_CUDA_DRIVER_FIELD
    int version; ///< 12040 is 12.4
} berth_cuda_driver;

/// Loads `library` (a name for the system's linker, or a path), looks up every function and lets
/// the driver initialise itself. The library stays loaded: a driver has threads of its own.
/// Errors: BERTH_ERR_DEVICE, "no CUDA device: " and the linker's or the driver's reason.
BERTH_NODISCARD berth_status berth_cuda_driver_load(const char* library,
                                                    berth_cuda_driver* out_driver);

/// Writes the driver's name of `result` and its text, cut to `size` bytes.
void berth_cuda_driver_explain(const berth_cuda_driver* driver,
                               cu_result result,
                               char* text,
                               size_t size);

/// True of results after which the process can do nothing more with the device: its work has
/// failed, or its memory, or the driver has ended.
bool berth_cuda_result_is_fatal(cu_result result);

/// Writes the function that `library` exports as `symbol` to the pointer at `out_function`; NULL,
/// and false, if there is none.
bool berth_cuda_look_up(void* library, const char* symbol, void* out_function);

#endif // BERTH_DEVICE_CUDA_DRIVER_H
