// SPDX-License-Identifier: Apache-2.0
// Books of granules without memory behind them.
#include "device/dry/dry_device.h"

#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/thread.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_team.h"
#include "device/reserved_space.h"
#include "device/sync_stream.h"

typedef struct dry_device {
    berth_device device;
    uint64_t capacity_bytes;
    berth_mutex lock; ///< guards what follows and the spaces' granules
    uint64_t mapped_bytes;
} dry_device;

static dry_device* dry_device_of(berth_device* device) { return (dry_device*)device; }

// --- Memory -------------------------------------------------------------------------------------

static berth_status query_memory(berth_device* self, uint64_t* out_total, uint64_t* out_available) {
    dry_device* dry = dry_device_of(self);
    berth_mutex_lock(&dry->lock);
    *out_total = dry->capacity_bytes;
    *out_available = dry->capacity_bytes - dry->mapped_bytes;
    berth_mutex_unlock(&dry->lock);
    return BERTH_OK;
}

static void space_release(berth_device* self, berth_space* space) {
    (void)self;
    berth_reserved_space_destroy(space);
}

static berth_status map(berth_device* self, berth_space* space, uint64_t offset, uint64_t size) {
    dry_device* dry = dry_device_of(self);
    berth_mutex_lock(&dry->lock);
    BERTH_CHECK(2, berth_reserved_space_is(space, offset, size, false));
    const uint64_t left = dry->capacity_bytes - dry->mapped_bytes;
    if (size <= left) {
        berth_reserved_space_mark(space, offset, size, true);
        dry->mapped_bytes += size;
    }
    berth_mutex_unlock(&dry->lock);
    if (size <= left) return BERTH_OK;
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                      "%llu bytes are needed, the device has %llu left",
                      (unsigned long long)size,
                      (unsigned long long)left);
}

static berth_status unmap(berth_device* self, berth_space* space, uint64_t offset, uint64_t size) {
    dry_device* dry = dry_device_of(self);
    berth_mutex_lock(&dry->lock);
    BERTH_CHECK(2, berth_reserved_space_is(space, offset, size, true));
    berth_reserved_space_mark(space, offset, size, false);
    dry->mapped_bytes -= size;
    berth_mutex_unlock(&dry->lock);
    return BERTH_OK;
}

static berth_status remap(berth_device* self,
                          berth_space* from_space,
                          uint64_t from,
                          berth_space* to_space,
                          uint64_t to,
                          uint64_t size) {
    dry_device* dry = dry_device_of(self);
    berth_mutex_lock(&dry->lock);
    BERTH_CHECK(2, berth_reserved_space_is(from_space, from, size, true));
    BERTH_CHECK(2, berth_reserved_space_is(to_space, to, size, false));
    berth_reserved_space_mark(from_space, from, size, false);
    berth_reserved_space_mark(to_space, to, size, true);
    berth_mutex_unlock(&dry->lock);
    return BERTH_OK;
}

static berth_status pin(berth_device* self, uint64_t size, void** out_data) {
    (void)self;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void* at = size > SIZE_MAX / 2 ? MAP_FAILED
                                   : mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "%llu bytes of host memory cannot be had",
                          (unsigned long long)size);
    *out_data = at;
    return BERTH_OK;
}

static void unpin(berth_device* self, void* data, uint64_t size) {
    (void)self;
    (void)munmap(data, (size_t)size);
}

// --- Work ---------------------------------------------------------------------------------------

static berth_status launch(berth_device* self,
                           berth_stream* stream,
                           berth_kernel kernel,
                           const berth_op_call* call,
                           size_t params_bytes) {
    (void)self;
    (void)stream;
    (void)kernel;
    (void)call;
    (void)params_bytes;
    return BERTH_OK;
}

static berth_status copy(berth_device* self,
                         berth_stream* stream,
                         void* target,
                         const void* source,
                         uint64_t size,
                         berth_copy_kind kind) {
    (void)self;
    (void)stream;
    (void)source;
    if (kind == BERTH_COPY_DEVICE_TO_HOST) memset(target, 0, (size_t)size);
    return BERTH_OK;
}

// --- The device ---------------------------------------------------------------------------------

static void destroy(berth_device* self) {
    dry_device* dry = dry_device_of(self);
    BERTH_CHECK(1, dry->mapped_bytes == 0);
    berth_team_destroy(self->team);
    berth_mutex_fini(&dry->lock);
    berth_host_free(self->host, dry);
}

static const berth_device_ops dry_ops = {
    .abi_version = BERTH_DEVICE_ABI_VERSION,
    .caps = BERTH_DEVICE_CAP_REMAP | BERTH_DEVICE_CAP_PIN,
    .destroy = destroy,
    .query_memory = query_memory,
    .space_reserve = berth_reserved_space_create,
    .space_release = space_release,
    .map = map,
    .unmap = unmap,
    .remap = remap,
    .stream_create = berth_sync_stream_create,
    .stream_destroy = berth_sync_stream_destroy,
    .launch = launch,
    .copy = copy,
    .record = berth_sync_stream_record,
    .query = berth_sync_stream_query,
    .wait = berth_sync_stream_wait,
    .wait_stream = berth_sync_stream_wait_stream,
    .pin = pin,
    .unpin = unpin,
};

berth_status berth_dry_device_create(const berth_host* host,
                                     const berth_dry_options* options,
                                     berth_device** out_device) {
    *out_device = NULL;
    dry_device* made = berth_host_calloc(host, 1, sizeof *made);
    if (made == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for the dry device");
    made->device = (berth_device){
        .ops = &dry_ops,
        .kernels = berth_cpu_kernels(), // that there is one is asked, no more
        .host = host,
        .name = "dry",
        .kind = BERTH_DEVICE_DRY,
        .granule_bytes = BERTH_DRY_GRANULE_BYTES,
    };
    made->capacity_bytes = options->capacity_bytes;
    berth_status status = berth_mutex_init(&made->lock);
    if (status != BERTH_OK) {
        berth_host_free(host, made);
        return status;
    }
    status = berth_team_create(host, options->threads, &made->device.team);
    if (status != BERTH_OK) {
        destroy(&made->device);
        return status;
    }
    *out_device = &made->device;
    return BERTH_OK;
}
