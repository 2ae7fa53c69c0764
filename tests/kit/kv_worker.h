// SPDX-License-Identifier: Apache-2.0
// A KV cache used at random by a program that knows which keys and values each token must have: a
// row's content is a hash of the sequence's key and of all tokens up to it, so that a block that is
// shared, copied, moved, parked or found wrongly shows.
#ifndef BERTH_TEST_KV_WORKER_H
#define BERTH_TEST_KV_WORKER_H

#include "berth/berth.h"
#include "failing_host.h"
#include "random.h"

enum {
    KV_SEQUENCES = 24,
    KV_MOST_TOKENS = 480,
    KV_PRESSURES = 6,
};

/// A sequence, and what must be in it.
typedef struct kv_story {
    berth_kv_sequence* handle; ///< NULL: there is none
    uint64_t key;
    bool is_private;
    bool is_parked;
    int64_t count;                      ///< tokens; of a parked one those that it had
    int32_t tokens[KV_MOST_TOKENS];     ///< [count]
    uint64_t chain[KV_MOST_TOKENS + 1]; ///< chain[i]: of the key and the first i tokens
} kv_story;

/// How a cache is laid out, and its surroundings.
typedef struct kv_setting {
    const char* device;
    int64_t memory_bytes; ///< of the device
    int64_t layers, heads, dims, block_tokens;
    uint64_t park_bytes;
    berth_kv_eviction eviction;
    const char* compact; ///< BERTH_COMPACT
    const char* keep;    ///< BERTH_KEEP
    const char* poison;  ///< BERTH_POISON
    bool has_faults;     ///< calls of the device and the host fail now and then
    /// Has the `nth` next call of a device's driver fail, 0: none. NULL: the simulated device's.
    void (*fail_device)(uint64_t nth);
} kv_setting;

/// A program's cache.
typedef struct kv_worker {
    failing_host failing;
    test_random random;
    kv_setting setting;
    berth_runtime* runtime;
    berth_context* ctx;
    berth_context* other; ///< whose memory comes from the same device
    berth_kv_cache* cache;
    berth_kv_layout layout;
    kv_story stories[KV_SEQUENCES];
    void* pressures[KV_PRESSURES]; ///< memory that others need; of `ctx`, then of `other`
    bool is_armed;                 ///< a fault may strike in this operation
    uint64_t refusals;
    uint64_t hits;     ///< tokens found
    char failure[240]; ///< what was wrong first; empty: nothing
} kv_worker;

/// Runs `operations` operations from `seed`, comparing everything after each batch of them; false
/// with `worker->failure` if something is wrong. Leaves nothing behind.
bool kv_worker_run(kv_worker* worker,
                   const kv_setting* setting,
                   uint64_t operations,
                   uint64_t seed);

/// A setting drawn from `seed`.
kv_setting kv_setting_draw(uint64_t seed);

#endif // BERTH_TEST_KV_WORKER_H
