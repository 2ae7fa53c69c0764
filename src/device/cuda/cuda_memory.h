// SPDX-License-Identifier: Apache-2.0
// Memory of the CUDA device: the entries of the same names in berth_device_ops.
//
// A granule is one allocation of the driver, since a mapping can only be taken down whole.
#ifndef BERTH_DEVICE_CUDA_MEMORY_H
#define BERTH_DEVICE_CUDA_MEMORY_H

#include "device/cuda/cuda_internal.h"

/// Fills in how granules of `cuda` are made, and their size, which is the driver's choice. The
/// context is current.
BERTH_NODISCARD berth_status berth_cuda_memory_init(cuda_device* cuda);
/// Ends the spaces that are out still, since their owners could not give all memory in them back;
/// tries that once more if the context is current (`is_entered`). Accepts half-made devices.
void berth_cuda_memory_fini(cuda_device* cuda, bool is_entered);

BERTH_NODISCARD berth_status berth_cuda_query_memory(berth_device* self,
                                                     uint64_t* out_total,
                                                     uint64_t* out_available);
BERTH_NODISCARD berth_status berth_cuda_space_reserve(berth_device* self,
                                                      uint64_t size,
                                                      berth_space** out_space);
void berth_cuda_space_release(berth_device* self, berth_space* space);
BERTH_NODISCARD berth_status berth_cuda_map(berth_device* self,
                                            berth_space* space,
                                            uint64_t offset,
                                            uint64_t size);
BERTH_NODISCARD berth_status berth_cuda_unmap(berth_device* self,
                                              berth_space* space,
                                              uint64_t offset,
                                              uint64_t size);
BERTH_NODISCARD berth_status berth_cuda_remap(berth_device* self,
                                              berth_space* from_space,
                                              uint64_t from,
                                              berth_space* to_space,
                                              uint64_t to,
                                              uint64_t size);
BERTH_NODISCARD berth_status berth_cuda_pin(berth_device* self, uint64_t size, void** out_data);
void berth_cuda_unpin(berth_device* self, void* data, uint64_t size);

#endif // BERTH_DEVICE_CUDA_MEMORY_H
