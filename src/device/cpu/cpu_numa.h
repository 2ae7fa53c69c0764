// SPDX-License-Identifier: Apache-2.0
// On which memory nodes the CPU device's memory lies (BERTH_NUMA). With one node there is nothing
// to choose and no call is made.
#ifndef BERTH_DEVICE_CPU_NUMA_H
#define BERTH_DEVICE_CPU_NUMA_H

#include <stdbool.h>

#include "device/cpu/cpu_system.h"

typedef enum berth_numa_policy {
    BERTH_NUMA_OFF,        ///< as the process was started
    BERTH_NUMA_AUTO,       ///< interleaved if several threads compute, else off
    BERTH_NUMA_LOCAL,      ///< on the node of the thread that maps
    BERTH_NUMA_INTERLEAVE, ///< page by page over all nodes that the process may use
    BERTH_NUMA_BIND,       ///< on one node only
} berth_numa_policy;

typedef struct berth_numa_choice {
    berth_numa_policy policy;
    uint32_t node; ///< BERTH_NUMA_BIND's
} berth_numa_choice;

/// How pages are placed: an MPOL_ mode and its nodes as bits.
typedef struct berth_numa {
    bool is_placing; ///< there is a call to make
    bool is_strict;  ///< that must not fail
    int mode;
    uint64_t nodes;
    uint32_t node; ///< with is_strict
} berth_numa;

/// Reads "auto", "off", "local", "interleave" or "bind:N".
/// Errors: BERTH_ERR_INVALID_ARGUMENT with what is accepted.
BERTH_NODISCARD berth_status berth_numa_parse(const char* text, berth_numa_choice* out_choice);

/// Decides for a device with `threads` threads on the nodes that there are.
/// Errors: BERTH_ERR_INVALID_ARGUMENT if there is no such node to bind to.
BERTH_NODISCARD berth_status berth_numa_decide(const berth_cpu_files* files,
                                               const berth_numa_choice* choice,
                                               uint32_t threads,
                                               berth_numa* out_numa);

#endif // BERTH_DEVICE_CPU_NUMA_H
