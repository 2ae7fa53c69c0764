// SPDX-License-Identifier: Apache-2.0
// The driver's stream of the op that this thread is launching, for kernels that users register
// (berth/cuda.h). Kept by the core, noted by the back end.
#ifndef BERTH_DEVICE_NATIVE_STREAM_H
#define BERTH_DEVICE_NATIVE_STREAM_H

#include "berth/status.h"

/// A kernel is being launched on `native` from now on; NULL: none is any more.
void berth_native_stream_note(void* native);
void* berth_native_stream_query(void);

#endif // BERTH_DEVICE_NATIVE_STREAM_H
