// SPDX-License-Identifier: Apache-2.0
// The CUDA device. Memory by the driver's virtual memory management, streams of its own, kernels
// from the images that the module carries.
//
// C1: nothing is ordered by the default stream, neither the legacy one nor a thread's: the device's
//     streams are made CU_STREAM_IS_NON_BLOCKING. Who shares memory with other streams orders it by
//     berth_context_cuda_stream() and events of their own.
// C2: a call leaves the caller's current CUDA context as it found it.
// C3: a device whose work has failed is lost: from then on every call fails at once with the text
//     of the first failure. What only gives something back still succeeds, and so does the issuing
//     of tickets: waiting for one fails, asking for it says that it is done, as nothing runs.
// C4: in a forked child nothing touches the driver.
#ifndef BERTH_DEVICE_CUDA_DEVICE_H
#define BERTH_DEVICE_CUDA_DEVICE_H

#include "device/cuda/cuda_module.h"

/// Creates a device; `options` are copied.
/// Errors: BERTH_ERR_DEVICE with the driver's reason if there is no driver, no such device, or one
///         that is too old; BERTH_ERR_FORKED where the process's parent has used the driver;
///         BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_cuda_device_create(const berth_host* host,
                                                      const berth_cuda_options* options,
                                                      berth_device** out_device);

#endif // BERTH_DEVICE_CUDA_DEVICE_H
