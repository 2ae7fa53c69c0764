// SPDX-License-Identifier: Apache-2.0
// Streams of the CUDA device: the entries of the same names in berth_device_ops.
//
// A ticket is a number; those that may still be pending stand in a queue with an event of the
// driver each. A ticket that is known to be done costs no call of the driver.
#ifndef BERTH_DEVICE_CUDA_STREAM_H
#define BERTH_DEVICE_CUDA_STREAM_H

#include "device/cuda/cuda_internal.h"

BERTH_NODISCARD berth_status berth_cuda_stream_create(berth_device* self,
                                                      berth_stream** out_stream);
void berth_cuda_stream_destroy(berth_device* self, berth_stream* stream);
BERTH_NODISCARD berth_status berth_cuda_launch(berth_device* self,
                                               berth_stream* stream,
                                               berth_kernel kernel,
                                               const berth_op_call* call,
                                               size_t params_bytes);
BERTH_NODISCARD berth_status berth_cuda_copy(berth_device* self,
                                             berth_stream* stream,
                                             void* target,
                                             const void* source,
                                             uint64_t size,
                                             berth_copy_kind kind);
BERTH_NODISCARD berth_status berth_cuda_record(berth_device* self,
                                               berth_stream* stream,
                                               uint64_t* out_ticket);
bool berth_cuda_query(berth_device* self, berth_stream* stream, uint64_t ticket);
BERTH_NODISCARD berth_status berth_cuda_wait(berth_device* self,
                                             berth_stream* stream,
                                             uint64_t ticket);
BERTH_NODISCARD berth_status berth_cuda_wait_stream(berth_device* self,
                                                    berth_stream* stream,
                                                    berth_stream* other,
                                                    uint64_t ticket);

#endif // BERTH_DEVICE_CUDA_STREAM_H
