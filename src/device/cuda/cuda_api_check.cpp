// SPDX-License-Identifier: Apache-2.0
// Holds cuda_api.h against the toolkit's <cuda.h>; compiled into the module only where there is
// one.
#include "device/cuda/cuda_api.h"

#include <cuda.h>

#define SAME(ours, theirs) static_assert((long long)(ours) == (long long)(theirs), #ours)
#define SAME_SIZE(ours, theirs)                                                                    \
    static_assert(sizeof(ours) == sizeof(theirs) && alignof(ours) == alignof(theirs), #ours)
#define SAME_PLACE(ours, our_field, theirs, their_field)                                           \
    static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field), #our_field)

#define SAME_RESULT(name, number) SAME(CU_##name, CUDA_##name);
CU_RESULT_MAP(SAME_RESULT)

SAME(CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CU_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CU_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CU_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT,
     CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(CU_ALLOCATION_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(CU_GRANULARITY_RECOMMENDED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
SAME(CU_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(CU_STREAM_IS_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(CU_EVENT_IS_UNTIMED, CU_EVENT_DISABLE_TIMING);
SAME(CU_HOST_ALLOC_IS_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);

SAME_SIZE(cu_result, CUresult);
SAME_SIZE(cu_device, CUdevice);
SAME_SIZE(cu_address, CUdeviceptr);
SAME_SIZE(cu_handle, CUmemGenericAllocationHandle);
SAME_SIZE(cu_stream, CUstream);
SAME_SIZE(cu_location, CUmemLocation);
SAME_SIZE(cu_allocation, CUmemAllocationProp);
SAME_SIZE(cu_access, CUmemAccessDesc);
SAME_PLACE(cu_location, id, CUmemLocation, id);
SAME_PLACE(cu_allocation, location, CUmemAllocationProp, location);
SAME_PLACE(cu_allocation, win32_handle_meta_data, CUmemAllocationProp, win32HandleMetaData);
SAME_PLACE(cu_allocation, flags, CUmemAllocationProp, allocFlags);
SAME_PLACE(cu_access, flags, CUmemAccessDesc, flags);

// Each function has as many parameters of the same sizes, so that calling it through our type is
// the call that <cuda.h> declares; pointers and enums may have other names.

template <class Ours, class Theirs> struct same_call { static constexpr bool value = false; };
template <class... Ours, class... Theirs>
struct same_call<cu_result (*)(Ours...), CUresult (*)(Theirs...)> {
    template <class...> struct list {};
    static constexpr bool same(list<>, list<>) { return true; }
    template <class... Rest> static constexpr bool same(list<>, list<Rest...>) { return false; }
    template <class... Rest> static constexpr bool same(list<Rest...>, list<>) { return false; }
    template <class A, class... As, class B, class... Bs>
    static constexpr bool same(list<A, As...>, list<B, Bs...>) {
        return sizeof(A) == sizeof(B) && same(list<As...>(), list<Bs...>());
    }
    static constexpr bool value = same(list<Ours...>(), list<Theirs...>());
};

#define SAME_CALL(field, symbol, parameters)                                                       \
    static_assert(same_call<cu_result(*) parameters, decltype(&symbol)>::value, #symbol);
CU_FUNCTION_MAP(SAME_CALL)
