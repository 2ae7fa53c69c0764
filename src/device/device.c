// SPDX-License-Identifier: Apache-2.0
// Checks and dispatch in front of every back end.
#include "device/device.h"

#include "base/checked.h"
#include "base/error.h"

bool berth_device_ops_are_valid(const berth_device_ops* ops) {
    if (ops == NULL || ops->abi_version != BERTH_DEVICE_ABI_VERSION) return false;
    const bool remap_matches = (ops->remap != NULL) == ((ops->caps & BERTH_DEVICE_CAP_REMAP) != 0);
    const bool has_pin = (ops->caps & BERTH_DEVICE_CAP_PIN) != 0;
    const bool pin_matches = (ops->pin != NULL) == has_pin && (ops->unpin != NULL) == has_pin;
    return remap_matches && pin_matches && ops->destroy != NULL && ops->query_memory != NULL &&
           ops->space_reserve != NULL && ops->space_release != NULL && ops->map != NULL &&
           ops->unmap != NULL && ops->stream_create != NULL && ops->stream_destroy != NULL &&
           ops->launch != NULL && ops->copy != NULL && ops->record != NULL && ops->query != NULL &&
           ops->wait != NULL && ops->wait_stream != NULL;
}

static bool range_is_valid(const berth_space* space, uint64_t offset, uint64_t size) {
    const uint64_t mask = space->device->granule_bytes - 1;
    return ((offset | size) & mask) == 0 && offset <= space->size_bytes &&
           size <= space->size_bytes - offset;
}

void berth_device_destroy(berth_device* device) {
    if (device != NULL) device->ops->destroy(device);
}

berth_status berth_device_query_memory(berth_device* device,
                                       uint64_t* out_total,
                                       uint64_t* out_available) {
    *out_total = 0;
    *out_available = 0;
    return device->ops->query_memory(device, out_total, out_available);
}

berth_status berth_space_reserve(berth_device* device, uint64_t size, berth_space** out_space) {
    *out_space = NULL;
    uint64_t rounded;
    if (size == 0 || !berth_try_round_up(size, device->granule_bytes, &rounded))
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "a space of %llu bytes is not possible",
                          (unsigned long long)size);
    return device->ops->space_reserve(device, rounded, out_space);
}

void berth_space_release(berth_space* space) {
    if (space != NULL) space->device->ops->space_release(space->device, space);
}

berth_status berth_space_map(berth_space* space, uint64_t offset, uint64_t size) {
    BERTH_CHECK(1, range_is_valid(space, offset, size));
    if (size == 0) return BERTH_OK;
    return space->device->ops->map(space->device, space, offset, size);
}

berth_status berth_space_unmap(berth_space* space, uint64_t offset, uint64_t size) {
    BERTH_CHECK(1, range_is_valid(space, offset, size));
    if (size == 0) return BERTH_OK;
    return space->device->ops->unmap(space->device, space, offset, size);
}

berth_status berth_space_remap(
    berth_space* from_space, uint64_t from, berth_space* to_space, uint64_t to, uint64_t size) {
    berth_device* device = from_space->device;
    BERTH_CHECK(1, to_space->device == device);
    BERTH_CHECK(1, range_is_valid(from_space, from, size) && range_is_valid(to_space, to, size));
    if (device->ops->remap == NULL)
        return berth_fail(BERTH_ERR_UNSUPPORTED, "device %s cannot remap", device->name);
    if (size == 0) return BERTH_OK;
    return device->ops->remap(device, from_space, from, to_space, to, size);
}

berth_status berth_stream_create(berth_device* device, berth_stream** out_stream) {
    *out_stream = NULL;
    return device->ops->stream_create(device, out_stream);
}

void berth_stream_destroy(berth_stream* stream) {
    if (stream != NULL) stream->device->ops->stream_destroy(stream->device, stream);
}

berth_status berth_stream_launch(berth_stream* stream,
                                 berth_kernel kernel,
                                 const berth_op_call* call,
                                 size_t params_bytes) {
    BERTH_CHECK(1, kernel != NULL && params_bytes <= BERTH_OP_PARAM_BYTES);
    BERTH_CHECK(1, params_bytes == 0 || call->params != NULL);
    return stream->device->ops->launch(stream->device, stream, kernel, call, params_bytes);
}

berth_status berth_stream_copy(
    berth_stream* stream, void* target, const void* source, uint64_t size, berth_copy_kind kind) {
    if (size == 0) return BERTH_OK;
    return stream->device->ops->copy(stream->device, stream, target, source, size, kind);
}

berth_status berth_stream_record(berth_stream* stream, uint64_t* out_ticket) {
    *out_ticket = 0;
    return stream->device->ops->record(stream->device, stream, out_ticket);
}

bool berth_stream_query(berth_stream* stream, uint64_t ticket) {
    return stream->device->ops->query(stream->device, stream, ticket);
}

berth_status berth_stream_wait(berth_stream* stream, uint64_t ticket) {
    return stream->device->ops->wait(stream->device, stream, ticket);
}

berth_status berth_stream_wait_stream(berth_stream* stream, berth_stream* other, uint64_t ticket) {
    BERTH_CHECK(1, stream->device == other->device);
    return stream->device->ops->wait_stream(stream->device, stream, other, ticket);
}

bool berth_stream_outwait(berth_stream* stream, uint64_t ticket) {
    return berth_stream_wait(stream, ticket) == BERTH_OK || berth_stream_query(stream, ticket);
}

berth_status berth_device_pin(berth_device* device, uint64_t size, void** out_data) {
    *out_data = NULL;
    if (device->ops->pin == NULL)
        return berth_fail(BERTH_ERR_UNSUPPORTED, "device %s has no pinned memory", device->name);
    BERTH_CHECK(1, size > 0);
    return device->ops->pin(device, size, out_data);
}

void berth_device_unpin(berth_device* device, void* data, uint64_t size) {
    device->ops->unpin(device, data, size);
}

berth_status berth_stream_synchronize(berth_stream* stream) {
    uint64_t ticket;
    BERTH_TRY(berth_stream_record(stream, &ticket));
    return berth_stream_wait(stream, ticket);
}

bool berth_stream_come_to_rest(berth_stream* stream) {
    if (berth_stream_synchronize(stream) == BERTH_OK) return true;
    uint64_t ticket;
    return berth_stream_record(stream, &ticket) == BERTH_OK && berth_stream_outwait(stream, ticket);
}

berth_status berth_stream_drain(berth_stream* stream) {
    const berth_status status = berth_stream_synchronize(stream);
    // a device that refuses twice has stopped: nothing will run any more
    if (status != BERTH_OK) (void)berth_stream_come_to_rest(stream);
    return status;
}
