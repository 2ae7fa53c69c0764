// SPDX-License-Identifier: Apache-2.0
// The contract between the core library and the module libberth_cuda.so, which the core loads when
// a runtime is created on the CUDA device. The module exports one function; what it needs of the
// core it is given as a table, so that neither links the other.
#ifndef BERTH_DEVICE_CUDA_MODULE_H
#define BERTH_DEVICE_CUDA_MODULE_H

#include "base/error.h"
#include "base/log.h"
#include "device/device.h"

/// Grows with every change of this header or of what the table of a device means.
#define BERTH_CUDA_MODULE_ABI_VERSION 1u

/// What the module's own berth_fail(), berth_host_*() and so on call.
typedef struct berth_cuda_core {
    uint32_t abi_version; ///< BERTH_CUDA_MODULE_ABI_VERSION
    /// Keeps `text` as this thread's last error, and returns `status`.
    berth_status (*fail)(berth_status status, const char* text);
    /// Puts `text` and ": " in front of it.
    berth_status (*fail_prefix)(berth_status status, const char* text);
    void* (*host_alloc)(const berth_host* host, size_t size);
    void* (*host_calloc)(const berth_host* host, size_t count, size_t size);
    void (*host_free)(const berth_host* host, void* block);
    void (*log)(berth_log_level level, const char* text);
    void (*check_failed)(const char* condition, const char* file, int line); ///< does not return
    void (*note_stream)(void* native); ///< berth_native_stream_note()
} berth_cuda_core;

/// What can be chosen of the device; texts are borrowed for the time of the call.
typedef struct berth_cuda_options {
    const char* driver; ///< the driver's library: "libcuda.so.1", or a path
    const char* blas;   ///< cuBLASLt's library, or NULL: whichever version is found, or none
    uint32_t ordinal;   ///< which of the driver's devices
    /// Every launch is waited for, so that an error names the op whose work failed.
    bool is_blocking;
} berth_cuda_options;

typedef struct berth_cuda_module {
    uint32_t abi_version; ///< BERTH_CUDA_MODULE_ABI_VERSION compiled against
    uint32_t version;     ///< BERTH_VERSION compiled against
    berth_status (*create)(const berth_host* host,
                           const berth_cuda_options* options,
                           berth_device** out_device);
} berth_cuda_module;

/// The module's one export, BERTH_CUDA_MODULE_SYMBOL. `core` is borrowed for as long as the process
/// lives. Returns NULL if it cannot work with such a core.
typedef const berth_cuda_module* (*berth_cuda_module_query)(const berth_cuda_core* core);
#define BERTH_CUDA_MODULE_SYMBOL "berth_cuda_module_query_v1"

#endif // BERTH_DEVICE_CUDA_MODULE_H
