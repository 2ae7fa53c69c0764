// SPDX-License-Identifier: Apache-2.0
// The CPU back end: work is done when it is enqueued, so every ticket is done when it is issued.
#include "device/cpu/cpu_device.h"

#include <string.h>

#include "base/error.h"
#include "device/cpu/cpu_memory.h"
#include "device/cpu/cpu_system.h"
#include "device/cpu/cpu_team.h"
#include "device/sync_stream.h"

typedef struct cpu_device {
    berth_device device;
    berth_cpu_memory memory;
} cpu_device;

static cpu_device* cpu_device_of(berth_device* device) { return (cpu_device*)device; }

static void destroy(berth_device* self) {
    berth_team_destroy(self->team);
    berth_cpu_memory_fini(&cpu_device_of(self)->memory);
    berth_host_free(self->host, self);
}

static berth_status query_memory(berth_device* self, uint64_t* out_total, uint64_t* out_available) {
    return berth_cpu_memory_query(&cpu_device_of(self)->memory, out_total, out_available);
}

static berth_status space_reserve(berth_device* self, uint64_t size, berth_space** out_space) {
    return berth_cpu_space_reserve(&cpu_device_of(self)->memory, self, size, out_space);
}

static void space_release(berth_device* self, berth_space* space) {
    (void)self;
    berth_cpu_space_release(space);
}

static berth_status map(berth_device* self, berth_space* space, uint64_t offset, uint64_t size) {
    return berth_cpu_space_map(&cpu_device_of(self)->memory, space, offset, size);
}

static berth_status unmap(berth_device* self, berth_space* space, uint64_t offset, uint64_t size) {
    return berth_cpu_space_unmap(&cpu_device_of(self)->memory, space, offset, size);
}

static berth_status remap(berth_device* self,
                          berth_space* from_space,
                          uint64_t from,
                          berth_space* to_space,
                          uint64_t to,
                          uint64_t size) {
    return berth_cpu_space_remap(
        &cpu_device_of(self)->memory, from_space, from, to_space, to, size);
}

static berth_status launch(berth_device* self,
                           berth_stream* stream,
                           berth_kernel kernel,
                           const berth_op_call* call,
                           size_t params_bytes) {
    (void)self;
    (void)stream;
    (void)params_bytes;
    kernel(call);
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
    (void)kind;
    memmove(target, source, (size_t)size);
    return BERTH_OK;
}

static berth_status pin(berth_device* self, uint64_t size, void** out_data) {
    return berth_cpu_pin(&cpu_device_of(self)->memory, size, out_data);
}

static void unpin(berth_device* self, void* data, uint64_t size) {
    (void)self;
    berth_cpu_unpin(data, size);
}

void berth_cpu_device_visit_spaces(berth_device* device, berth_cpu_visit visit, void* argument) {
    berth_cpu_visit_spaces(&cpu_device_of(device)->memory, visit, argument);
}

static const berth_device_ops cpu_ops = {
    .abi_version = BERTH_DEVICE_ABI_VERSION,
    .caps = BERTH_DEVICE_CAP_DATA | BERTH_DEVICE_CAP_REMAP | BERTH_DEVICE_CAP_HOST_ACCESS |
            BERTH_DEVICE_CAP_PIN,
    .destroy = destroy,
    .query_memory = query_memory,
    .space_reserve = space_reserve,
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

berth_status berth_cpu_device_create(const berth_host* host,
                                     const berth_cpu_options* options,
                                     berth_device** out_device) {
    *out_device = NULL;
    berth_numa numa;
    BERTH_TRY(berth_numa_decide(NULL, &options->numa, options->threads, &numa));
    cpu_device* made = berth_host_calloc(host, 1, sizeof *made);
    if (made == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for the CPU device");
    made->device = (berth_device){
        .ops = &cpu_ops,
        .kernels = berth_cpu_kernels(),
        .host = host,
        .name = "cpu",
        .kind = BERTH_DEVICE_CPU,
        .granule_bytes = BERTH_CPU_GRANULE_BYTES,
    };
    berth_status status = berth_cpu_memory_init(&made->memory, options->huge, &numa);
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
