// SPDX-License-Identifier: Apache-2.0
// The driver's streams, for programs that have work of their own on the device.
#include "berth/cuda.h"
#include "device/native_stream.h"
#include "exec/exec_impl.h"

void* berth_cuda_current_stream(void) { return berth_native_stream_query(); }

void* berth_context_cuda_stream(berth_context* context) {
    if (context == NULL || berth_home_is_forked(&context->home)) return NULL;
    berth_stream* stream = context->home.stream;
    if (stream->device->kind != BERTH_DEVICE_CUDA) return NULL;
    atomic_store_explicit(&stream->is_shared, true, memory_order_relaxed);
    return stream->native;
}
