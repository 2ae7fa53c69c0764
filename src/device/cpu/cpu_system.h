// SPDX-License-Identifier: Apache-2.0
// What the system lets this process have: memory, cores, mappings. Reads /proc and the cgroup
// files.
#ifndef BERTH_DEVICE_CPU_SYSTEM_H
#define BERTH_DEVICE_CPU_SYSTEM_H

#include "berth/status.h"

/// Where the system's files are; NULL entries mean /proc, /sys/fs/cgroup and
/// /sys/devices/system/node. Tests give their own.
typedef struct berth_cpu_files {
    const char* proc;
    const char* cgroup;
    const char* nodes;
} berth_cpu_files;

/// Bytes of memory that this process may use in all and now: of the machine and of every memory
/// cgroup (version 1 and 2) that it is in, the least. Page cache that can be dropped counts as
/// free.
/// Errors: BERTH_ERR_DEVICE if the machine's memory cannot be read.
BERTH_NODISCARD berth_status berth_cpu_query_memory(const berth_cpu_files* files,
                                                    uint64_t* out_total,
                                                    uint64_t* out_available);

/// Cores that this process may use: its affinity mask, and the CPU quota of its cgroups rounded up.
/// At least 1.
uint32_t berth_cpu_query_cores(const berth_cpu_files* files);

/// The memory nodes that this process may use, as bits; of more than 64 the first. At least node 0.
uint64_t berth_cpu_query_nodes(const berth_cpu_files* files);

/// Bytes of memory of one node in all and now, as berth_cpu_query_memory.
/// Errors: BERTH_ERR_DEVICE if it cannot be read.
BERTH_NODISCARD berth_status berth_cpu_query_node_memory(const berth_cpu_files* files,
                                                         uint32_t node,
                                                         uint64_t* out_total,
                                                         uint64_t* out_available);

/// The number of mappings that the system allows a process.
uint64_t berth_cpu_query_mapping_limit(const berth_cpu_files* files);

/// The number of mappings that this process has now; 0 if it cannot be read.
/// Cost: some microseconds for each hundred.
uint64_t berth_cpu_count_mappings(const berth_cpu_files* files);

#endif // BERTH_DEVICE_CPU_SYSTEM_H
