// SPDX-License-Identifier: Apache-2.0
// Elements of a strided window, brought to the host row-major, one after another.
#ifndef BERTH_EXEC_GATHER_H
#define BERTH_EXEC_GATHER_H

#include "berth/op.h"
#include "device/device.h"

/// Copies `count` items (elements, or blocks of a quantised type) of `view` from the row-major
/// number `first` on to `to`. The host can read where they lie, and nobody writes there.
void berth_gather_here(const berth_view* view, int64_t first, int64_t count, unsigned char* to);

/// The same from memory that only the device reaches: what lies one after another comes as it is,
/// the rest through a piece of host memory of up to 1 MiB. Has waited for all of it when it
/// returns, also after an error.
/// Errors: BERTH_ERR_OUT_OF_MEMORY (host memory), and those of the device.
BERTH_NODISCARD berth_status berth_gather_from_device(const berth_host* host,
                                                      berth_stream* stream,
                                                      const berth_view* view,
                                                      int64_t first,
                                                      int64_t count,
                                                      unsigned char* to);

#endif // BERTH_EXEC_GATHER_H
