// SPDX-License-Identifier: Apache-2.0
// Finds and loads the CUDA module, libberth_cuda.so, for the core, which links nothing of it.
#ifndef BERTH_DEVICE_CUDA_OPEN_H
#define BERTH_DEVICE_CUDA_OPEN_H

#include "device/cuda/cuda_module.h"

/// Creates the CUDA device. `module` is the module's path; NULL looks for libberth_cuda.so beside
/// the file that holds this library, then in the folders of libraries that belong to that file's
/// folder (../lib, or what the build has in its place), then leaves it to the system's linker. The
/// module stays loaded. Errors: BERTH_ERR_DEVICE with what is missing (the module, a driver, a
/// device), and what
///         berth_cuda_module's create gives; then the process goes on without.
BERTH_NODISCARD berth_status berth_cuda_open(const berth_host* host,
                                             const char* module,
                                             const berth_cuda_options* options,
                                             berth_device** out_device);

#endif // BERTH_DEVICE_CUDA_OPEN_H
