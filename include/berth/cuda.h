// SPDX-License-Identifier: Apache-2.0
// The CUDA device together with other CUDA code: the driver's streams that Berth's work is on.
// Nothing here needs CUDA's headers; a stream is a CUstream (or cudaStream_t).
//
// Each context has one stream of its own, made CU_STREAM_NON_BLOCKING: neither the legacy default
// stream nor a thread's own waits for it, and it waits for neither, however the program was
// compiled. Work of other streams on the same memory is ordered by the program: by events
// (cuEventRecord, cuStreamWaitEvent), or by waiting.
#ifndef BERTH_CUDA_H
#define BERTH_CUDA_H

#include "berth/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The stream on which a kernel of a registered op (BERTH_DEVICE_CUDA in berth_op_desc) enqueues
/// its work: such a kernel is a function of the host that starts its device code on this stream and
/// returns. It must not wait, allocate, or look at the memory of its views, which is the device's.
/// The device's primary context is current meanwhile. NULL outside of a kernel, and in kernels of
/// other devices.
/// Threads: any; each has its own answer.
/// Cost:    a load.
BERTH_API void* berth_cuda_current_stream(void);

/// The stream of `context`; NULL if its device is not CUDA, and for NULL. It lives as long as the
/// context and its tensors. Work that the program enqueues there comes after the ops called before,
/// and before those called later; of memory that it uses the program keeps the tensors until
/// berth_context_synchronize(), or orders the work against a later op of the same context.
/// Threads: that of the context.
BERTH_API void* berth_context_cuda_stream(berth_context* context);

#ifdef __cplusplus
}
#endif

#endif // BERTH_CUDA_H
