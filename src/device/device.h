// SPDX-License-Identifier: Apache-2.0
// The device layer: physical memory, virtual ranges, copies, streams and kernels behind one table
// of function pointers. Knows nothing of plans, pools or tensors.
//
// D1: a granule of physical memory is populated from the moment `map` returns until `unmap`
//     returns; what is not mapped is not memory.
//
// D2: map is all or nothing; a failed call leaves the range as it was.
//
// D3: work of one stream happens in the order in which it was enqueued.
#ifndef BERTH_DEVICE_DEVICE_H
#define BERTH_DEVICE_DEVICE_H

#include "base/host.h"
#include "base/op_map.h"
#include "berth/op.h"

#define BERTH_DEVICE_ABI_VERSION 3u

/// Every placed address is a multiple of this.
#define BERTH_ALIGNMENT 64u

typedef enum berth_device_caps {
    BERTH_DEVICE_CAP_REMAP = 1u << 0, ///< `remap` is present
    BERTH_DEVICE_CAP_ASYNC = 1u << 1, ///< enqueued work may still be pending when launch returns
    /// The host may read and write mapped addresses of idle memory.
    BERTH_DEVICE_CAP_HOST_ACCESS = 1u << 2,
    BERTH_DEVICE_CAP_PIN = 1u << 3, ///< `pin` and `unpin` are present
    /// Memory keeps what is written to it, and kernels run. Without it the device only keeps books:
    /// its memory cannot be touched, and copies to the host give zeros.
    BERTH_DEVICE_CAP_DATA = 1u << 4,
} berth_device_caps;

typedef struct berth_device berth_device;

/// A reserved range of virtual addresses whose granules are mapped on demand.
typedef struct berth_space {
    berth_device* device; ///< borrowed; outlives the space
    unsigned char* base;  ///< first address, a multiple of the granule
    uint64_t size_bytes;  ///< multiple of the granule
} berth_space;

/// An ordered queue of work. Its tickets count up from 1: a ticket is done when everything enqueued
/// before it was issued is done.
typedef struct berth_stream {
    berth_device* device; ///< borrowed; outlives the stream
    void* native;         ///< the driver's stream; NULL where there is none
    /// `native` has been handed to the user, whose own work on it the back end does not see.
    _Atomic bool is_shared;
} berth_stream;

typedef enum berth_copy_kind {
    BERTH_COPY_HOST_TO_DEVICE,
    BERTH_COPY_DEVICE_TO_HOST,
    BERTH_COPY_DEVICE_TO_DEVICE, ///< ranges may overlap: the target gets what the source was
} berth_copy_kind;

/// One static const table per back end. Registration refuses a hole in a required entry, so callers
/// never test for NULL. Sizes and offsets are in bytes; those of spaces are multiples of the
/// granule.
typedef struct berth_device_ops {
    uint32_t abi_version; ///< BERTH_DEVICE_ABI_VERSION compiled against
    uint32_t caps;        ///< BERTH_DEVICE_CAP_* bits
    void (*destroy)(berth_device* self);
    /// Bytes of physical memory that may be used in all (cgroup limits included), and now.
    berth_status (*query_memory)(berth_device* self, uint64_t* out_total, uint64_t* out_available);
    berth_status (*space_reserve)(berth_device* self, uint64_t size, berth_space** out_space);
    /// Cannot fail; nothing of `space` is mapped.
    void (*space_release)(berth_device* self, berth_space* space);
    /// Populates [offset, offset + size) with fresh physical memory, content undefined.
    berth_status (*map)(berth_device* self, berth_space* space, uint64_t offset, uint64_t size);
    /// Gives the physical memory of a mapped range back to the system. No pending work uses it.
    berth_status (*unmap)(berth_device* self, berth_space* space, uint64_t offset, uint64_t size);
    /// Optional, with BERTH_DEVICE_CAP_REMAP: moves mapped granules with their content to an
    /// unmapped range of the same or another space; the source is unmapped then. No pending work
    /// uses it.
    berth_status (*remap)(berth_device* self,
                          berth_space* from_space,
                          uint64_t from,
                          berth_space* to_space,
                          uint64_t to,
                          uint64_t size);
    berth_status (*stream_create)(berth_device* self, berth_stream** out_stream);
    /// Waits for the stream's work first; cannot fail.
    void (*stream_destroy)(berth_device* self, berth_stream* stream);
    /// Enqueues a kernel. `call` is copied with what `call->params` points at (BERTH_OP_PARAM_BYTES
    /// at most, `params_bytes` of them); the memory of its views must stay until the stream has
    /// passed it.
    berth_status (*launch)(berth_device* self,
                           berth_stream* stream,
                           berth_kernel kernel,
                           const berth_op_call* call,
                           size_t params_bytes);
    /// Enqueues a copy. Host memory on either side must stay until the stream has passed it.
    berth_status (*copy)(berth_device* self,
                         berth_stream* stream,
                         void* target,
                         const void* source,
                         uint64_t size,
                         berth_copy_kind kind);
    /// Issues a ticket for all work enqueued so far. A back end that has no means to mark it waits
    /// for it: a ticket is what callers who take memory away rely on.
    berth_status (*record)(berth_device* self, berth_stream* stream, uint64_t* out_ticket);
    /// True when the ticket is done, and when the device is lost: nothing runs there any more.
    /// Never blocks.
    bool (*query)(berth_device* self, berth_stream* stream, uint64_t ticket);
    /// Blocks the caller until the ticket is done.
    berth_status (*wait)(berth_device* self, berth_stream* stream, uint64_t ticket);
    /// Makes later work of `stream` wait for `ticket` of `other`.
    berth_status (*wait_stream)(berth_device* self,
                                berth_stream* stream,
                                berth_stream* other,
                                uint64_t ticket);
    /// Optional, with BERTH_DEVICE_CAP_PIN: takes `size` > 0 bytes of host memory, whole pages,
    /// that is populated and stays where it physically is.
    berth_status (*pin)(berth_device* self, uint64_t size, void** out_data);
    /// Gives it back; cannot fail. No pending work uses it.
    void (*unpin)(berth_device* self, void* data, uint64_t size);
} berth_device_ops;

/// Workspace in bytes that a call of an op needs.
typedef uint64_t (*berth_scratch_rule)(const berth_op_call* call);

/// The part of a device that all back ends share; each back end's struct begins with it.
struct berth_device {
    const berth_device_ops* ops;
    /// [BERTH_OP_COUNT], indexed by berth_op_id; NULL where not implemented.
    const berth_kernel* kernels;
    /// The same for workspaces (NULL: the op uses none) and for what counts; NULL where kernels are
    /// the CPU's, whose rules stand in the op table.
    const berth_scratch_rule* scratch_rules;
    const berth_kernel* counters;
    const berth_host* host; ///< borrowed
    berth_team* team;       ///< CPU-like devices: threads for kernels; may be NULL
    const char* name;       ///< "cpu", "sim", "dry", "cuda"
    berth_device_kind kind;
    uint64_t granule_bytes;
    struct berth_order_check* order_check; ///< BERTH_CHECK_ORDER (order_check.h); NULL: none
};

/// True if `ops` has every required entry and the right ABI version.
bool berth_device_ops_are_valid(const berth_device_ops* ops);

// Wrappers: assert, clear outputs, dispatch.

void berth_device_destroy(berth_device* device); ///< accepts NULL
BERTH_NODISCARD berth_status berth_device_query_memory(berth_device* device,
                                                       uint64_t* out_total,
                                                       uint64_t* out_available);
BERTH_NODISCARD berth_status berth_space_reserve(berth_device* device,
                                                 uint64_t size,
                                                 berth_space** out_space);
void berth_space_release(berth_space* space); ///< accepts NULL
BERTH_NODISCARD berth_status berth_space_map(berth_space* space, uint64_t offset, uint64_t size);
BERTH_NODISCARD berth_status berth_space_unmap(berth_space* space, uint64_t offset, uint64_t size);
/// BERTH_ERR_UNSUPPORTED without BERTH_DEVICE_CAP_REMAP.
BERTH_NODISCARD berth_status berth_space_remap(
    berth_space* from_space, uint64_t from, berth_space* to_space, uint64_t to, uint64_t size);
BERTH_NODISCARD berth_status berth_stream_create(berth_device* device, berth_stream** out_stream);
void berth_stream_destroy(berth_stream* stream); ///< accepts NULL
BERTH_NODISCARD berth_status berth_stream_launch(berth_stream* stream,
                                                 berth_kernel kernel,
                                                 const berth_op_call* call,
                                                 size_t params_bytes);
BERTH_NODISCARD berth_status berth_stream_copy(
    berth_stream* stream, void* target, const void* source, uint64_t size, berth_copy_kind kind);
BERTH_NODISCARD berth_status berth_stream_record(berth_stream* stream, uint64_t* out_ticket);
bool berth_stream_query(berth_stream* stream, uint64_t ticket);
BERTH_NODISCARD berth_status berth_stream_wait(berth_stream* stream, uint64_t ticket);
BERTH_NODISCARD berth_status berth_stream_wait_stream(berth_stream* stream,
                                                      berth_stream* other,
                                                      uint64_t ticket);
/// BERTH_ERR_UNSUPPORTED without BERTH_DEVICE_CAP_PIN.
BERTH_NODISCARD berth_status berth_device_pin(berth_device* device, uint64_t size, void** out_data);
void berth_device_unpin(berth_device* device, void* data, uint64_t size);
/// Blocks until nothing enqueued before `ticket` runs any more, for who takes memory away from it:
/// it is done, or the device is lost. False where the device refuses to say.
BERTH_NODISCARD bool berth_stream_outwait(berth_stream* stream, uint64_t ticket);
/// The same for everything enqueued so far: true also where the device is lost.
bool berth_stream_come_to_rest(berth_stream* stream);
/// Blocks until everything enqueued so far is done.
BERTH_NODISCARD berth_status berth_stream_synchronize(berth_stream* stream);
/// The same for callers that take memory away from enqueued work when it returns: tries again where
/// the device refuses, and still returns the first error.
BERTH_NODISCARD berth_status berth_stream_drain(berth_stream* stream);

/// True if the host may use the device's memory where it lies, and the device the host's.
static inline bool berth_device_has_host_access(const berth_device* device) {
    return (device->ops->caps & BERTH_DEVICE_CAP_HOST_ACCESS) != 0;
}

/// True if work of the device gives results (BERTH_DEVICE_CAP_DATA).
static inline bool berth_device_has_data(const berth_device* device) {
    return (device->ops->caps & BERTH_DEVICE_CAP_DATA) != 0;
}

/// True if ops take operands where they lie in the host's memory; a device without data never comes
/// to them.
static inline bool berth_device_takes_host_memory(const berth_device* device) {
    return berth_device_has_host_access(device) || !berth_device_has_data(device);
}

static inline bool berth_device_is_async(const berth_device* device) {
    return (device->ops->caps & BERTH_DEVICE_CAP_ASYNC) != 0;
}

#endif // BERTH_DEVICE_DEVICE_H
