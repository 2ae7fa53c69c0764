// SPDX-License-Identifier: Apache-2.0
// A stream without a queue: it counts its tickets.
#include "device/sync_stream.h"

#include "base/error.h"

typedef struct sync_stream {
    berth_stream stream;
    uint64_t tickets;
} sync_stream;

berth_status berth_sync_stream_create(berth_device* self, berth_stream** out_stream) {
    sync_stream* made = berth_host_calloc(self->host, 1, sizeof *made);
    if (made == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a stream");
    made->stream.device = self;
    *out_stream = &made->stream;
    return BERTH_OK;
}

void berth_sync_stream_destroy(berth_device* self, berth_stream* stream) {
    berth_host_free(self->host, stream);
}

berth_status berth_sync_stream_record(berth_device* self,
                                      berth_stream* stream,
                                      uint64_t* out_ticket) {
    (void)self;
    *out_ticket = ++((sync_stream*)stream)->tickets;
    return BERTH_OK;
}

bool berth_sync_stream_query(berth_device* self, berth_stream* stream, uint64_t ticket) {
    (void)self;
    (void)stream;
    (void)ticket;
    return true;
}

berth_status berth_sync_stream_wait(berth_device* self, berth_stream* stream, uint64_t ticket) {
    (void)self;
    (void)stream;
    (void)ticket;
    return BERTH_OK;
}

berth_status berth_sync_stream_wait_stream(berth_device* self,
                                           berth_stream* stream,
                                           berth_stream* other,
                                           uint64_t ticket) {
    (void)self;
    (void)stream;
    (void)other;
    (void)ticket;
    return BERTH_OK;
}
