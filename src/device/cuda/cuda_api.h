// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver's binary interface that this back end calls, declared here so that
// the host code builds, and is tested against a stand-in, where there is no CUDA Toolkit. Where
// there is one, cuda_api_check.cpp holds every type and number here against <cuda.h>.
#ifndef BERTH_DEVICE_CUDA_API_H
#define BERTH_DEVICE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int cu_result;                 ///< CUresult; the numbers are below
typedef int cu_device;                 ///< CUdevice
typedef unsigned long long cu_address; ///< CUdeviceptr
typedef unsigned long long cu_handle;  ///< CUmemGenericAllocationHandle
typedef struct CUctx_st* cu_context;   ///< CUcontext
typedef struct CUstream_st* cu_stream; ///< CUstream
typedef struct CUevent_st* cu_event;   ///< CUevent
typedef struct CUmod_st* cu_module;    ///< CUmodule
typedef struct CUfunc_st* cu_function; ///< CUfunction

// clang-format off
/// Results that are told apart: X(NAME, number).
#define CU_RESULT_MAP(X)                \
    X(SUCCESS,                    0)    \
    X(ERROR_INVALID_VALUE,        1)    \
    X(ERROR_OUT_OF_MEMORY,        2)    \
    X(ERROR_NOT_INITIALIZED,      3)    \
    X(ERROR_DEINITIALIZED,        4)    \
    X(ERROR_STUB_LIBRARY,        34)    \
    X(ERROR_NO_DEVICE,          100)    \
    X(ERROR_INVALID_DEVICE,     101)    \
    X(ERROR_NO_BINARY_FOR_GPU,  209)    \
    X(ERROR_ECC_UNCORRECTABLE,  214)    \
    X(ERROR_NVLINK_UNCORRECTABLE, 220)  \
    X(ERROR_UNSUPPORTED_PTX_VERSION, 222) \
    X(ERROR_INVALID_HANDLE,     400)    \
    X(ERROR_NOT_FOUND,          500)    \
    X(ERROR_NOT_READY,          600)    \
    X(ERROR_ILLEGAL_ADDRESS,    700)    \
    X(ERROR_LAUNCH_OUT_OF_RESOURCES, 701) \
    X(ERROR_LAUNCH_TIMEOUT,     702)    \
    X(ERROR_CONTEXT_IS_DESTROYED, 709)  \
    X(ERROR_ASSERT,             710)    \
    X(ERROR_HARDWARE_STACK_ERROR, 714)  \
    X(ERROR_ILLEGAL_INSTRUCTION, 715)   \
    X(ERROR_MISALIGNED_ADDRESS, 716)    \
    X(ERROR_INVALID_ADDRESS_SPACE, 717) \
    X(ERROR_INVALID_PC,         718)    \
    X(ERROR_LAUNCH_FAILED,      719)    \
    X(ERROR_NOT_SUPPORTED,      801)    \
    X(ERROR_SYSTEM_NOT_READY,   802)    \
    X(ERROR_SYSTEM_DRIVER_MISMATCH, 803)
// clang-format on

enum {
#define CU_RESULT_ENUM(name, number) CU_##name = number,
    CU_RESULT_MAP(CU_RESULT_ENUM)
#undef CU_RESULT_ENUM
};

enum {
    CU_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT = 102,

    CU_ALLOCATION_PINNED = 1,       ///< CUmemAllocationType
    CU_LOCATION_DEVICE = 1,         ///< CUmemLocationType
    CU_GRANULARITY_RECOMMENDED = 1, ///< CUmemAllocationGranularity_flags
    CU_ACCESS_READ_WRITE = 3,       ///< CUmemAccess_flags
    CU_STREAM_IS_NON_BLOCKING = 1,  ///< CUstream_flags: no order with the default stream
    CU_EVENT_IS_UNTIMED = 2,        ///< CUevent_flags
    CU_HOST_ALLOC_IS_PORTABLE = 1,  ///< CU_MEMHOSTALLOC_PORTABLE
};

typedef struct cu_location {
    int type;
    int id;
} cu_location;

typedef struct cu_allocation {
    int type;
    int requested_handle_types;
    cu_location location;
    void* win32_handle_meta_data;
    struct {
        unsigned char compression_type;
        unsigned char gpu_direct_rdma_capable;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} cu_allocation;

typedef struct cu_access {
    cu_location location;
    int flags;
} cu_access;

// clang-format off
/// Every function: X(field, exported symbol, parameters).
#define CU_FUNCTION_MAP(X)                                                                         \
    X(init, cuInit, (unsigned flags))                                                              \
    X(driver_get_version, cuDriverGetVersion, (int* out_version))                                  \
    X(get_error_name, cuGetErrorName, (cu_result result, const char** out_name))                   \
    X(get_error_string, cuGetErrorString, (cu_result result, const char** out_text))               \
    X(device_get_count, cuDeviceGetCount, (int* out_count))                                        \
    X(device_get, cuDeviceGet, (cu_device* out_device, int ordinal))                               \
    X(device_get_name, cuDeviceGetName, (char* name, int size, cu_device device))                  \
    X(device_get_attribute, cuDeviceGetAttribute,                                                  \
      (int* out_value, int attribute, cu_device device))                                           \
    X(device_total_mem, cuDeviceTotalMem_v2, (size_t* out_bytes, cu_device device))                \
    X(primary_ctx_retain, cuDevicePrimaryCtxRetain, (cu_context* out_context, cu_device device))   \
    X(primary_ctx_release, cuDevicePrimaryCtxRelease_v2, (cu_device device))                       \
    X(ctx_push, cuCtxPushCurrent_v2, (cu_context context))                                         \
    X(ctx_pop, cuCtxPopCurrent_v2, (cu_context * out_context))                                     \
    X(mem_get_info, cuMemGetInfo_v2, (size_t* out_free, size_t* out_total))                        \
    X(mem_get_granularity, cuMemGetAllocationGranularity,                                          \
      (size_t* out_bytes, const cu_allocation* allocation, int option))                            \
    X(mem_address_reserve, cuMemAddressReserve,                                                    \
      (cu_address* out_address, size_t size, size_t alignment, cu_address address,                 \
       unsigned long long flags))                                                                  \
    X(mem_address_free, cuMemAddressFree, (cu_address address, size_t size))                       \
    X(mem_create, cuMemCreate,                                                                     \
      (cu_handle* out_handle, size_t size, const cu_allocation* allocation,                        \
       unsigned long long flags))                                                                  \
    X(mem_release, cuMemRelease, (cu_handle handle))                                               \
    X(mem_map, cuMemMap,                                                                           \
      (cu_address address, size_t size, size_t offset, cu_handle handle,                           \
       unsigned long long flags))                                                                  \
    X(mem_unmap, cuMemUnmap, (cu_address address, size_t size))                                    \
    X(mem_set_access, cuMemSetAccess,                                                              \
      (cu_address address, size_t size, const cu_access* access, size_t count))                    \
    X(mem_host_alloc, cuMemHostAlloc, (void** out_data, size_t size, unsigned flags))              \
    X(mem_free_host, cuMemFreeHost, (void* data))                                                  \
    X(memcpy_to_device, cuMemcpyHtoDAsync_v2,                                                      \
      (cu_address target, const void* source, size_t size, cu_stream stream))                      \
    X(memcpy_to_host, cuMemcpyDtoHAsync_v2,                                                        \
      (void* target, cu_address source, size_t size, cu_stream stream))                            \
    X(memcpy_on_device, cuMemcpyDtoDAsync_v2,                                                      \
      (cu_address target, cu_address source, size_t size, cu_stream stream))                       \
    X(stream_create, cuStreamCreate, (cu_stream * out_stream, unsigned flags))                     \
    X(stream_destroy, cuStreamDestroy_v2, (cu_stream stream))                                      \
    X(stream_synchronize, cuStreamSynchronize, (cu_stream stream))                                 \
    X(stream_wait_event, cuStreamWaitEvent, (cu_stream stream, cu_event event, unsigned flags))    \
    X(event_create, cuEventCreate, (cu_event * out_event, unsigned flags))                         \
    X(event_destroy, cuEventDestroy_v2, (cu_event event))                                          \
    X(event_record, cuEventRecord, (cu_event event, cu_stream stream))                             \
    X(event_query, cuEventQuery, (cu_event event))                                                 \
    X(event_synchronize, cuEventSynchronize, (cu_event event))                                     \
    X(module_load, cuModuleLoadData, (cu_module * out_module, const void* image))                  \
    X(module_unload, cuModuleUnload, (cu_module module))                                           \
    X(module_get_function, cuModuleGetFunction,                                                    \
      (cu_function * out_function, cu_module module, const char* name))                            \
    X(launch_kernel, cuLaunchKernel,                                                               \
      (cu_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,              \
       unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,          \
       cu_stream stream, void** arguments, void** extra))
// clang-format on

#ifdef __cplusplus
}
#endif

#endif // BERTH_DEVICE_CUDA_API_H
