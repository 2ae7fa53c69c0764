// SPDX-License-Identifier: Apache-2.0
// The simulated back end for tests: small capacity, small granules, work that stays queued until
// something forces it, faults on demand, every call counted. It runs the CPU kernels.
#ifndef BERTH_DEVICE_SIM_DEVICE_H
#define BERTH_DEVICE_SIM_DEVICE_H

#include "device/device.h"

/// The calls that can be counted and made to fail: X(ID).
#define BERTH_SIM_CALL_MAP(X)                                                                      \
    X(RESERVE)                                                                                     \
    X(MAP)                                                                                         \
    X(UNMAP) X(REMAP) X(STREAM_CREATE) X(LAUNCH) X(COPY) X(RECORD) X(WAIT) X(WAIT_STREAM) X(PIN)

typedef enum berth_sim_call {
#define BERTH_SIM_CALL_ENUM(id) BERTH_SIM_##id,
    BERTH_SIM_CALL_MAP(BERTH_SIM_CALL_ENUM)
#undef BERTH_SIM_CALL_ENUM
        BERTH_SIM_CALL_COUNT
} berth_sim_call;

typedef struct berth_sim_options {
    uint64_t capacity_bytes; ///< physical memory; 0 means 16 MiB
    uint64_t granule_bytes;  ///< power of two >= 4096; 0 means 64 KiB
    /// Seeds how far each stream's queue runs on by itself at each call. 0: nothing runs before it
    /// is waited for.
    uint64_t seed;
    bool no_remap; ///< leave BERTH_DEVICE_CAP_REMAP out
    /// Leave BERTH_DEVICE_CAP_HOST_ACCESS out: but for the time in which work runs, mapped memory
    /// cannot be touched either, so that whoever takes it for the host's crashes.
    bool is_hidden;
} berth_sim_options;

/// Creates a simulated device. Freshly mapped memory holds 0xA5 bytes; unmapped memory cannot be
/// touched (PROT_NONE), so stale pointers crash.
BERTH_NODISCARD berth_status berth_sim_device_create(const berth_host* host,
                                                     const berth_sim_options* options,
                                                     berth_device** out_device);

/// Makes the `nth` (1 = next) call of kind `call` fail, once; 0 cancels.
void berth_sim_fail(berth_device* device, berth_sim_call call, uint64_t nth);
/// Makes the `nth` next fallible call of any kind fail, once; 0 cancels.
void berth_sim_fail_any(berth_device* device, uint64_t nth);
/// Calls so far.
uint64_t berth_sim_query_calls(const berth_device* device, berth_sim_call call);
/// Sum over all fallible kinds.
uint64_t berth_sim_query_all_calls(const berth_device* device);
/// Bytes mapped now, over all spaces.
uint64_t berth_sim_query_mapped_bytes(const berth_device* device);

/// Bytes of pinned memory out now.
uint64_t berth_sim_query_pinned_bytes(const berth_device* device);

#endif // BERTH_DEVICE_SIM_DEVICE_H
