// SPDX-License-Identifier: Apache-2.0
// Spaces of the devices that only simulate memory: addresses without access, and which of their
// granules are mapped.
#ifndef BERTH_DEVICE_RESERVED_SPACE_H
#define BERTH_DEVICE_RESERVED_SPACE_H

#include "device/device.h"

/// Reserves `size` bytes of addresses that cannot be touched, aligned to the device's granule.
/// Nothing is mapped.
/// Errors: BERTH_ERR_OUT_OF_MEMORY; `*out_space` is left alone then.
BERTH_NODISCARD berth_status berth_reserved_space_create(berth_device* device,
                                                         uint64_t size,
                                                         berth_space** out_space);
/// Nothing of it is mapped.
void berth_reserved_space_destroy(berth_space* space);

/// True if all granules of the range are mapped, or none is, as asked.
bool berth_reserved_space_is(const berth_space* space, uint64_t offset, uint64_t size, bool mapped);
/// Notes what becomes of the range's granules.
void berth_reserved_space_mark(berth_space* space, uint64_t offset, uint64_t size, bool mapped);

/// Lets the process touch the mapped granules of the space, or not. False if the system refuses.
bool berth_reserved_space_protect(berth_space* space, bool is_open);

#endif // BERTH_DEVICE_RESERVED_SPACE_H
