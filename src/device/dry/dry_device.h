// SPDX-License-Identifier: Apache-2.0
// The dry back end: memory of any size that is only counted, kernels that do not run. Everything
// above it checks, shapes, places and plans as on a device of that size.
#ifndef BERTH_DEVICE_DRY_DEVICE_H
#define BERTH_DEVICE_DRY_DEVICE_H

#include "device/device.h"

/// As of most devices with a memory of their own.
#define BERTH_DRY_GRANULE_BYTES (2u << 20)

typedef struct berth_dry_options {
    uint64_t capacity_bytes; ///< of the memory that it stands for
    uint32_t threads;        ///< >= 1: workspaces may be as large as these want them
} berth_dry_options;

/// Creates a dry device. Its addresses are reserved and cannot be touched; map, unmap and remap
/// count granules and make no system call. A launch runs nothing, a copy to the host writes zeros,
/// other copies do nothing. Pinned memory is the host's, real, and not locked.
/// Errors: BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_DEVICE (a thread cannot be started).
BERTH_NODISCARD berth_status berth_dry_device_create(const berth_host* host,
                                                     const berth_dry_options* options,
                                                     berth_device** out_device);

#endif // BERTH_DEVICE_DRY_DEVICE_H
