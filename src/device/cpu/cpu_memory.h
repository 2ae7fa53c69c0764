// SPDX-License-Identifier: Apache-2.0
// Spaces of the CPU device: reserved addresses whose granules are populated and given back.
//
// A reserved range is never left to others: closed granules stay mapped without access, so no
// foreign mapping can come in between.
#ifndef BERTH_DEVICE_CPU_MEMORY_H
#define BERTH_DEVICE_CPU_MEMORY_H

#include "base/thread.h"
#include "device/cpu/cpu_calls.h"
#include "device/cpu/cpu_device.h"

#define BERTH_CPU_GRANULE_BYTES (2u << 20)

/// Shared by the spaces of one device.
typedef struct berth_cpu_memory {
    const berth_cpu_calls* calls; ///< the system's, or a test's
    berth_huge_pages huge;
    berth_numa numa;
    bool can_move_pages;    ///< moving page tables works here
    uint64_t mapping_limit; ///< of the process's mappings: half of what the system allows
    berth_mutex lock;       ///< guards what follows and the spaces' granule states
    struct berth_cpu_space* first_space;
    uint64_t mapping_count;   ///< no fewer than there are, as far as they are ours
    uint64_t unwatched_bytes; ///< may be populated before the system's memory is looked at again
} berth_cpu_memory;

BERTH_NODISCARD berth_status berth_cpu_memory_init(berth_cpu_memory* memory,
                                                   berth_huge_pages huge,
                                                   const berth_numa* numa);
void berth_cpu_memory_fini(berth_cpu_memory* memory);

/// Bytes that may be used in all and now: of the machine, or of the node that memory is bound to.
BERTH_NODISCARD berth_status berth_cpu_memory_query(const berth_cpu_memory* memory,
                                                    uint64_t* out_total,
                                                    uint64_t* out_available);

/// The device's entries of the same names; the contract is berth_device_ops's.
BERTH_NODISCARD berth_status berth_cpu_space_reserve(berth_cpu_memory* memory,
                                                     berth_device* device,
                                                     uint64_t size,
                                                     berth_space** out_space);
void berth_cpu_space_release(berth_space* space);
BERTH_NODISCARD berth_status berth_cpu_space_map(berth_cpu_memory* memory,
                                                 berth_space* space,
                                                 uint64_t offset,
                                                 uint64_t size);
BERTH_NODISCARD berth_status berth_cpu_space_unmap(berth_cpu_memory* memory,
                                                   berth_space* space,
                                                   uint64_t offset,
                                                   uint64_t size);
BERTH_NODISCARD berth_status berth_cpu_space_remap(berth_cpu_memory* memory,
                                                   berth_space* from_space,
                                                   uint64_t from,
                                                   berth_space* to_space,
                                                   uint64_t to,
                                                   uint64_t size);

/// Calls `visit` for every space; it calls nothing of this device.
void berth_cpu_visit_spaces(berth_cpu_memory* memory, berth_cpu_visit visit, void* argument);

BERTH_NODISCARD berth_status berth_cpu_pin(berth_cpu_memory* memory,
                                           uint64_t size,
                                           void** out_data);
void berth_cpu_unpin(void* data, uint64_t size);

#endif // BERTH_DEVICE_CPU_MEMORY_H
