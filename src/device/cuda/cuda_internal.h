// SPDX-License-Identifier: Apache-2.0
// The CUDA device's inside: what its memory, its streams and its launches share.
#ifndef BERTH_DEVICE_CUDA_INTERNAL_H
#define BERTH_DEVICE_CUDA_INTERNAL_H

#include <stdatomic.h>

#include "base/thread.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_driver.h"
#include "device/cuda/cuda_kernels.h"

#define BERTH_CUDA_REASON_BYTES 512

typedef struct cuda_device {
    berth_device device;
    berth_cuda_driver driver;
    uint32_t fork_generation; ///< at creation
    bool is_blocking;
    bool has_lock;
    bool has_context;
    cu_device handle;
    cu_context context; ///< the device's primary one, retained
    uint32_t multiprocessors;
    struct berth_cuda_blas* blas; ///< owned

    cu_allocation allocation; ///< what granules are made as
    cu_access access;         ///< what is allowed with them
    _Atomic uint64_t mapped_bytes;
    atomic_bool has_refused; ///< to take memory back, once at least
    _Atomic uint64_t pinned_bytes;
    _Atomic uint32_t stream_count;

    /// Of kernels that have been used; all threads find the same.
    _Atomic(cu_function) functions[BERTH_CUDA_KERNEL_COUNT];
    cu_module* modules; ///< [module_count], owned
    size_t module_count;

    atomic_bool is_lost;
    berth_mutex lock;                     ///< guards what follows
    struct cuda_space* spaces;            ///< all that are out
    char reason[BERTH_CUDA_REASON_BYTES]; ///< why the device is lost
} cuda_device;

static inline cuda_device* cuda_device_of(berth_device* device) { return (cuda_device*)device; }

/// Begins a call of the driver: makes the device's context current. A driver that refuses that
/// twice loses the device.
/// Errors: BERTH_ERR_FORKED, and BERTH_ERR_DEVICE if the device is lost; then nothing is to be
///         ended.
BERTH_NODISCARD berth_status berth_cuda_enter(cuda_device* cuda);
/// The same for calls that give something back: also where the device is lost. False in a forked
/// child, and where the driver refuses.
bool berth_cuda_enter_to_release(cuda_device* cuda);
/// Ends it: the context that was current before is so again.
void berth_cuda_leave(cuda_device* cuda);

/// Turns the driver's answer to a call, which `what` names, into a status and a sentence. A fatal
/// one makes the device lost.
berth_status berth_cuda_judge(cuda_device* cuda, cu_result result, const char* what);
/// The device is lost since `format`; the first reason is kept. Returns BERTH_ERR_DEVICE.
berth_status berth_cuda_lose(cuda_device* cuda, const char* format, ...) BERTH_PRINTF(2, 3);
bool berth_cuda_is_lost(cuda_device* cuda);
/// BERTH_ERR_DEVICE with the reason if the device is lost.
BERTH_NODISCARD berth_status berth_cuda_check(cuda_device* cuda);

/// The function of a kernel, looked up at its first use. The context is current.
BERTH_NODISCARD berth_status berth_cuda_find_function(cuda_device* cuda,
                                                      berth_cuda_kernel kernel,
                                                      cu_function* out_function);

#endif // BERTH_DEVICE_CUDA_INTERNAL_H
