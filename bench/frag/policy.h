// SPDX-License-Identifier: Apache-2.0
// An allocator under a tape: one table of functions for each.
#ifndef BERTH_BENCH_FRAG_POLICY_H
#define BERTH_BENCH_FRAG_POLICY_H

#include "frag/tape.h"

/// Sizes are divided by this on the simulated device, whose granules are as much smaller.
#define POLICY_SIM_SCALE 32u

typedef enum policy_device { POLICY_SIM, POLICY_CPU } policy_device;

typedef struct policy_setting {
    policy_device device;
    uint64_t capacity_bytes; ///< as on the tape; UINT64_MAX: more than is ever needed
    uint64_t peak_bytes;     ///< of the tape
    uint32_t ids;            ///< blocks on the tape
    bool gives_back;         ///< mode trim: what is free goes back to the device, when it is freed
                             ///< where the policy can do that, else at steps' ends
} policy_setting;

/// What a policy holds; in its own unit, see POLICY_SIM_SCALE.
typedef struct policy_figures {
    uint64_t reserved_bytes; ///< taken from the device
    uint64_t live_bytes;     ///< asked for by blocks that are out
    uint64_t used_bytes;     ///< in those blocks with what rounding adds
    uint64_t granule_bytes;
    uint64_t capacity_bytes;
} policy_figures;

/// What compaction did.
typedef struct policy_moves {
    uint64_t bytes;          ///< copied
    uint64_t remapped_bytes; ///< that only got other addresses
    const double* slice_us;  ///< [slices], thread CPU time
    size_t slices;
} policy_moves;

typedef struct policy policy;

typedef struct policy_ops {
    const char* name;
    bool has_capacity; ///< can be told the device's capacity
    bool is_on_device; ///< runs on the simulated and the CPU device; else it keeps books alone
    policy* (*create)(const policy_setting* setting);
    void (*destroy)(policy* self);
    /// False if refused.
    bool (*take)(policy* self, uint32_t id, uint64_t bytes, uint64_t site);
    void (*give)(policy* self, uint32_t id);
    /// A step ends; `trim`: what is free goes back to the device, as far as the policy can.
    void (*end_step)(policy* self, bool trim);
    void (*query)(policy* self, policy_figures* out_figures);
    /// NULL: it moves nothing.
    void (*query_moves)(policy* self, policy_moves* out_moves);
    /// With query_moves: the least that has to move for a block of `bytes`, as it lies now.
    uint64_t (*query_least)(policy* self, uint64_t bytes);
} policy_ops;

struct policy {
    const policy_ops* ops;
};

extern const policy_ops policy_pool;
extern const policy_ops policy_pool_compact;
extern const policy_ops policy_torch;
extern const policy_ops policy_torch_expandable;
#if BERTH_HOST_JEMALLOC
extern const policy_ops policy_jemalloc;
extern const policy_ops policy_jemalloc_at_once;
#endif

#endif // BERTH_BENCH_FRAG_POLICY_H
