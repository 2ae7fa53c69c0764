// SPDX-License-Identifier: Apache-2.0
// A stack of granules in a space of its own.
#include "memory/page_ahead.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/log.h"

berth_status berth_page_ahead_init(berth_page_ahead* ahead, berth_device* device, uint64_t bytes) {
    if ((device->ops->caps & BERTH_DEVICE_CAP_REMAP) == 0)
        return berth_fail(BERTH_ERR_UNSUPPORTED,
                          "device %s cannot move memory, so none can be populated ahead",
                          device->name);
    BERTH_TRY(berth_mutex_init(&ahead->lock));
    ahead->has_lock = true;
    berth_status status = berth_space_reserve(device, bytes, &ahead->space);
    if (status == BERTH_OK) {
        status = berth_space_map(ahead->space, 0, bytes);
        if (status == BERTH_OK) ahead->bytes = bytes;
    }
    if (status != BERTH_OK) berth_page_ahead_fini(ahead);
    return status;
}

void berth_page_ahead_fini(berth_page_ahead* ahead) {
    if (ahead->space != NULL) {
        if (berth_space_unmap(ahead->space, 0, ahead->bytes) != BERTH_OK &&
            berth_space_unmap(ahead->space, 0, ahead->bytes) != BERTH_OK)
            berth_log_line(BERTH_LOG_ERROR,
                           "%" PRIu64 " bytes populated ahead could not be given back and are lost",
                           ahead->bytes);
        berth_space_release(ahead->space);
    }
    if (ahead->has_lock) berth_mutex_fini(&ahead->lock);
    *ahead = (berth_page_ahead){0};
}

berth_status berth_page_ahead_draw(berth_page_ahead* ahead,
                                   uint64_t size,
                                   berth_space* space,
                                   uint64_t offset) {
    if (size == 0) return BERTH_OK;
    berth_mutex_lock(&ahead->lock);
    BERTH_CHECK(1, size <= ahead->bytes);
    const berth_status status =
        berth_space_remap(ahead->space, ahead->bytes - size, space, offset, size);
    if (status == BERTH_OK) ahead->bytes -= size;
    berth_mutex_unlock(&ahead->lock);
    return status;
}

berth_status berth_page_ahead_add(berth_page_ahead* ahead,
                                  berth_space* space,
                                  uint64_t offset,
                                  uint64_t size) {
    if (size == 0) return BERTH_OK;
    berth_mutex_lock(&ahead->lock);
    BERTH_CHECK(1, size <= ahead->space->size_bytes - ahead->bytes);
    const berth_status status = berth_space_remap(space, offset, ahead->space, ahead->bytes, size);
    if (status == BERTH_OK) ahead->bytes += size;
    berth_mutex_unlock(&ahead->lock);
    return status;
}
