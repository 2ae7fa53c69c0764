// SPDX-License-Identifier: Apache-2.0
// The CPU back end: anonymous memory in huge pages, synchronous streams, a team of threads.
#ifndef BERTH_DEVICE_CPU_DEVICE_H
#define BERTH_DEVICE_CPU_DEVICE_H

#include "device/cpu/cpu_numa.h"
#include "device/device.h"

typedef enum berth_huge_pages {
    BERTH_HUGE_OFF,
    BERTH_HUGE_MADVISE,
    BERTH_HUGE_HUGETLB,
} berth_huge_pages;

typedef struct berth_cpu_options {
    uint32_t threads; ///< >= 1, the calling thread included
    berth_huge_pages huge;
    berth_numa_choice numa;
} berth_cpu_options;

/// Creates the CPU device.
/// Errors: BERTH_ERR_OUT_OF_MEMORY, BERTH_ERR_DEVICE (a thread cannot be started),
///         BERTH_ERR_INVALID_ARGUMENT (no such memory node).
BERTH_NODISCARD berth_status berth_cpu_device_create(const berth_host* host,
                                                     const berth_cpu_options* options,
                                                     berth_device** out_device);

typedef void (*berth_cpu_visit)(const berth_space* space, void* argument);

/// Calls `visit` for every space that is reserved on the CPU device, so that what the books say can
/// be compared with what the system says of these addresses. `visit` calls nothing of the device.
void berth_cpu_device_visit_spaces(berth_device* device, berth_cpu_visit visit, void* argument);

/// The CPU kernels, [BERTH_OP_COUNT], for the instruction set found at run time.
const berth_kernel* berth_cpu_kernels(void);

#endif // BERTH_DEVICE_CPU_DEVICE_H
