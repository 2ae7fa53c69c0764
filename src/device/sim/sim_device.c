// SPDX-License-Identifier: Apache-2.0
// The simulated device: its memory, its faults and its counters.
#include "device/sim/sim_device.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/raw_memory.h"
#include "device/cpu/cpu_device.h"
#include "device/reserved_space.h"
#include "device/sim/sim_internal.h"

#define DEFAULT_CAPACITY (16ull << 20)
#define DEFAULT_GRANULE (64ull << 10)
#define MIN_GRANULE 4096u
#define FRESH_BYTE 0xA5

// --- Faults -------------------------------------------------------------------------------------

static const char* call_name(berth_sim_call call) {
    static const char* const names[] = {
#define CALL_NAME(id) [BERTH_SIM_##id] = #id,
        BERTH_SIM_CALL_MAP(CALL_NAME)
#undef CALL_NAME
    };
    return names[call];
}

static bool is_due(uint64_t* countdown) { return *countdown > 0 && --*countdown == 0; }

berth_status berth_sim_begin_call(sim_device* sim, berth_sim_call call) {
    sim->calls[call]++;
    const bool this_kind = is_due(&sim->fail_in[call]);
    const bool any_kind = is_due(&sim->fail_any_in);
    if (!this_kind && !any_kind) return BERTH_OK;
    const bool takes_memory = call == BERTH_SIM_RESERVE || call == BERTH_SIM_MAP ||
                              call == BERTH_SIM_REMAP || call == BERTH_SIM_PIN;
    return berth_fail(takes_memory ? BERTH_ERR_OUT_OF_MEMORY : BERTH_ERR_DEVICE,
                      "injected fault in %s",
                      call_name(call));
}

void berth_sim_fail(berth_device* device, berth_sim_call call, uint64_t nth) {
    sim_device* sim = sim_device_of(device);
    berth_mutex_lock(&sim->lock);
    sim->fail_in[call] = nth;
    berth_mutex_unlock(&sim->lock);
}

void berth_sim_fail_any(berth_device* device, uint64_t nth) {
    sim_device* sim = sim_device_of(device);
    berth_mutex_lock(&sim->lock);
    sim->fail_any_in = nth;
    berth_mutex_unlock(&sim->lock);
}

uint64_t berth_sim_query_calls(const berth_device* device, berth_sim_call call) {
    return ((const sim_device*)device)->calls[call];
}

uint64_t berth_sim_query_all_calls(const berth_device* device) {
    uint64_t sum = 0;
    for (unsigned call = 0; call < BERTH_SIM_CALL_COUNT; call++)
        sum += berth_sim_query_calls(device, (berth_sim_call)call);
    return sum;
}

uint64_t berth_sim_query_mapped_bytes(const berth_device* device) {
    return ((const sim_device*)device)->mapped_bytes;
}

uint64_t berth_sim_query_pinned_bytes(const berth_device* device) {
    return ((const sim_device*)device)->pinned_bytes;
}

// --- Memory -------------------------------------------------------------------------------------

static berth_status query_memory(berth_device* self, uint64_t* out_total, uint64_t* out_available) {
    sim_device* sim = sim_device_of(self);
    berth_mutex_lock(&sim->lock);
    *out_total = sim->capacity_bytes;
    *out_available = sim->capacity_bytes - sim->mapped_bytes;
    berth_mutex_unlock(&sim->lock);
    return BERTH_OK;
}

static berth_status begin(sim_device* sim, berth_sim_call call) {
    berth_mutex_lock(&sim->lock);
    return berth_sim_begin_call(sim, call);
}

static berth_status end(sim_device* sim, berth_status status) {
    berth_mutex_unlock(&sim->lock);
    return status;
}

void berth_sim_open_memory(sim_device* sim) {
    for (size_t i = 0; i < sim->spaces.count; i++) {
        const bool is_open = berth_reserved_space_protect(sim->spaces.items[i], true);
        BERTH_CHECK(1, is_open);
    }
}

void berth_sim_close_memory(sim_device* sim) {
    for (size_t i = 0; i < sim->spaces.count; i++)
        (void)berth_reserved_space_protect(sim->spaces.items[i], false);
}

static berth_status space_reserve(berth_device* self, uint64_t size, berth_space** out_space) {
    sim_device* sim = sim_device_of(self);
    berth_status status = begin(sim, BERTH_SIM_RESERVE);
    if (status == BERTH_OK && sim->is_hidden)
        status = sim_space_list_reserve(&sim->spaces, self->host, sim->spaces.count + 1);
    if (status == BERTH_OK) status = berth_reserved_space_create(self, size, out_space);
    if (status == BERTH_OK && sim->is_hidden) sim->spaces.items[sim->spaces.count++] = *out_space;
    return end(sim, status);
}

static void space_release(berth_device* self, berth_space* space) {
    sim_device* sim = sim_device_of(self);
    if (sim->is_hidden) {
        berth_mutex_lock(&sim->lock);
        size_t at = 0;
        while (sim->spaces.items[at] != space)
            at++;
        sim->spaces.items[at] = sim->spaces.items[--sim->spaces.count];
        berth_mutex_unlock(&sim->lock);
    }
    berth_reserved_space_destroy(space);
}

static berth_status open_range(berth_space* space, uint64_t offset, uint64_t size) {
    if (mprotect(space->base + offset, (size_t)size, PROT_READ | PROT_WRITE) == 0) return BERTH_OK;
    return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "opening a range failed: %s", strerror(errno));
}

static void hide_range(berth_space* space, uint64_t offset, uint64_t size) {
    (void)mprotect(space->base + offset, (size_t)size, PROT_NONE);
}

static void close_granules(berth_space* space, uint64_t offset, uint64_t size) {
    (void)madvise(space->base + offset, (size_t)size, MADV_DONTNEED);
    hide_range(space, offset, size);
}

static berth_status map_granules(sim_device* sim,
                                 berth_space* space,
                                 uint64_t offset,
                                 uint64_t size) {
    BERTH_CHECK(1, berth_reserved_space_is(space, offset, size, false));
    const uint64_t left = sim->capacity_bytes - sim->mapped_bytes;
    if (size > left)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                          "%llu bytes are needed, the device has %llu left",
                          (unsigned long long)size,
                          (unsigned long long)left);
    BERTH_TRY(open_range(space, offset, size));
    berth_raw_fill(space->base + offset, FRESH_BYTE, (size_t)size);
    if (sim->is_hidden) hide_range(space, offset, size);
    berth_reserved_space_mark(space, offset, size, true);
    sim->mapped_bytes += size;
    return BERTH_OK;
}

static berth_status map(berth_device* self, berth_space* space, uint64_t offset, uint64_t size) {
    sim_device* sim = sim_device_of(self);
    berth_status status = begin(sim, BERTH_SIM_MAP);
    if (status == BERTH_OK) status = map_granules(sim, space, offset, size);
    return end(sim, status);
}

static berth_status unmap(berth_device* self, berth_space* space, uint64_t offset, uint64_t size) {
    sim_device* sim = sim_device_of(self);
    const berth_status status = begin(sim, BERTH_SIM_UNMAP);
    if (status != BERTH_OK) return end(sim, status);
    BERTH_CHECK(1, berth_reserved_space_is(space, offset, size, true));
    close_granules(space, offset, size);
    berth_reserved_space_mark(space, offset, size, false);
    sim->mapped_bytes -= size;
    return end(sim, BERTH_OK);
}

static berth_status remap(berth_device* self,
                          berth_space* from_space,
                          uint64_t from,
                          berth_space* to_space,
                          uint64_t to,
                          uint64_t size) {
    sim_device* sim = sim_device_of(self);
    berth_status status = begin(sim, BERTH_SIM_REMAP);
    if (status == BERTH_OK) status = open_range(to_space, to, size);
    if (status == BERTH_OK && sim->is_hidden) status = open_range(from_space, from, size);
    if (status != BERTH_OK) return end(sim, status);
    BERTH_CHECK(1, berth_reserved_space_is(from_space, from, size, true));
    BERTH_CHECK(1, berth_reserved_space_is(to_space, to, size, false));
    berth_raw_copy(to_space->base + to, from_space->base + from, (size_t)size);
    close_granules(from_space, from, size);
    if (sim->is_hidden) hide_range(to_space, to, size);
    berth_reserved_space_mark(from_space, from, size, false);
    berth_reserved_space_mark(to_space, to, size, true);
    return end(sim, BERTH_OK);
}

static berth_status pin(berth_device* self, uint64_t size, void** out_data) {
    sim_device* sim = sim_device_of(self);
    const berth_status status = begin(sim, BERTH_SIM_PIN);
    if (status != BERTH_OK) return end(sim, status);
    void* at =
        size > SIZE_MAX / 2
            ? MAP_FAILED
            : mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return end(sim,
                   berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                              "%llu bytes of host memory cannot be pinned",
                              (unsigned long long)size));
    berth_raw_fill(at, FRESH_BYTE, (size_t)size);
    sim->pinned_bytes += size;
    *out_data = at;
    return end(sim, BERTH_OK);
}

static void unpin(berth_device* self, void* data, uint64_t size) {
    sim_device* sim = sim_device_of(self);
    berth_mutex_lock(&sim->lock);
    (void)munmap(data, (size_t)size);
    sim->pinned_bytes -= size;
    berth_mutex_unlock(&sim->lock);
}

// --- The device ---------------------------------------------------------------------------------

static void destroy(berth_device* self) {
    sim_device* sim = sim_device_of(self);
    BERTH_CHECK(1, sim->streams == NULL && sim->mapped_bytes == 0 && sim->pinned_bytes == 0);
    sim_space_list_fini(&sim->spaces, self->host);
    berth_mutex_fini(&sim->lock);
    berth_host_free(self->host, sim);
}

#define COMMON_ENTRIES                                                                             \
    .abi_version = BERTH_DEVICE_ABI_VERSION, .destroy = destroy, .query_memory = query_memory,     \
    .space_reserve = space_reserve, .space_release = space_release, .map = map, .unmap = unmap,    \
    .stream_create = berth_sim_stream_create, .stream_destroy = berth_sim_stream_destroy,          \
    .launch = berth_sim_launch, .copy = berth_sim_copy, .record = berth_sim_record,                \
    .query = berth_sim_query, .wait = berth_sim_wait, .wait_stream = berth_sim_wait_stream,        \
    .pin = pin, .unpin = unpin

#define COMMON_CAPS BERTH_DEVICE_CAP_DATA | BERTH_DEVICE_CAP_ASYNC | BERTH_DEVICE_CAP_PIN

/// Indexed by is_hidden and no_remap.
static const berth_device_ops tables[2][2] = {
    {
        {
            COMMON_ENTRIES,
            .caps = COMMON_CAPS | BERTH_DEVICE_CAP_HOST_ACCESS | BERTH_DEVICE_CAP_REMAP,
            .remap = remap,
        },
        {COMMON_ENTRIES, .caps = COMMON_CAPS | BERTH_DEVICE_CAP_HOST_ACCESS},
    },
    {
        {COMMON_ENTRIES, .caps = COMMON_CAPS | BERTH_DEVICE_CAP_REMAP, .remap = remap},
        {COMMON_ENTRIES, .caps = COMMON_CAPS},
    },
};

berth_status berth_sim_device_create(const berth_host* host,
                                     const berth_sim_options* options,
                                     berth_device** out_device) {
    *out_device = NULL;
    const uint64_t granule = options->granule_bytes == 0 ? DEFAULT_GRANULE : options->granule_bytes;
    if (!berth_is_power_of_two(granule) || granule < MIN_GRANULE)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "a granule of %llu bytes is not a power of two of at least %u",
                          (unsigned long long)granule,
                          MIN_GRANULE);
    sim_device* made = berth_host_calloc(host, 1, sizeof *made);
    if (made == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for the simulated device");
    made->device = (berth_device){
        .ops = &tables[options->is_hidden][options->no_remap],
        .kernels = berth_cpu_kernels(),
        .host = host,
        .name = "sim",
        .kind = BERTH_DEVICE_SIM,
        .granule_bytes = granule,
    };
    made->capacity_bytes =
        options->capacity_bytes == 0 ? DEFAULT_CAPACITY : options->capacity_bytes;
    made->is_hidden = options->is_hidden;
    made->random = options->seed == 0 ? 0 : (options->seed * 0x9E3779B97F4A7C15u) | 1;
    const berth_status status = berth_mutex_init(&made->lock);
    if (status != BERTH_OK) {
        berth_host_free(host, made);
        return status;
    }
    *out_device = &made->device;
    return BERTH_OK;
}
