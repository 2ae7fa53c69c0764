// SPDX-License-Identifier: Apache-2.0
// Streams of the devices that do work as it is enqueued: every ticket is done when it is issued.
// The entries of the same names in berth_device_ops.
#ifndef BERTH_DEVICE_SYNC_STREAM_H
#define BERTH_DEVICE_SYNC_STREAM_H

#include "device/device.h"

BERTH_NODISCARD berth_status berth_sync_stream_create(berth_device* self,
                                                      berth_stream** out_stream);
void berth_sync_stream_destroy(berth_device* self, berth_stream* stream);
BERTH_NODISCARD berth_status berth_sync_stream_record(berth_device* self,
                                                      berth_stream* stream,
                                                      uint64_t* out_ticket);
bool berth_sync_stream_query(berth_device* self, berth_stream* stream, uint64_t ticket);
BERTH_NODISCARD berth_status berth_sync_stream_wait(berth_device* self,
                                                    berth_stream* stream,
                                                    uint64_t ticket);
BERTH_NODISCARD berth_status berth_sync_stream_wait_stream(berth_device* self,
                                                           berth_stream* stream,
                                                           berth_stream* other,
                                                           uint64_t ticket);

#endif // BERTH_DEVICE_SYNC_STREAM_H
