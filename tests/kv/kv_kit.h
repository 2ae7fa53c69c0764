// SPDX-License-Identifier: Apache-2.0
// Fixtures for tests of the KV cache: a runtime of a few granules, a small cache, batches that
// compute nothing.
#ifndef BERTH_TEST_KV_KIT_H
#define BERTH_TEST_KV_KIT_H

#include "../exec/exec_kit.h"
#include "base/error.h"
#include "berth/kv.h"
#include "kv/kv_internal.h"

typedef struct kv_kit {
    exec_kit exec;
    berth_kv_cache* cache;
    berth_kv_layout layout;
} kv_kit;

/// Options of a cache whose blocks are a sixteenth of a granule of the simulated device: 4 tokens.
static inline berth_kv_options kv_kit_options(void) {
    return (berth_kv_options){.struct_size = sizeof(berth_kv_options),
                              .layers = 2,
                              .kv_heads = 2,
                              .key_dims = 64,
                              .dtype = BERTH_F32,
                              .block_tokens = 4};
}

/// On the simulated device (granules of 64 KiB) with so many of them.
static inline void kv_kit_open(kv_kit* kit, const berth_kv_options* options, int granules) {
    char memory[32];
    (void)snprintf(memory, sizeof memory, "%d", granules * 65536);
    const berth_option_setting settings[] = {{"device", exec_kit_sim()},
                                             {"threads", "1"},
                                             {"memory", memory},
                                             {"keep", "all"},
                                             {"decay_ms", "unlimited"}};
    assert_ok(exec_kit_open(&kit->exec, NULL, settings, 5));
    assert_ok(berth_kv_cache_create(kit->exec.ctx, options, &kit->cache));
    berth_kv_cache_layout(kit->cache, &kit->layout);
}

static inline void kv_kit_close(kv_kit* kit) {
    assert_true(berth_kv_cache_is_valid(kit->cache));
    berth_kv_cache_release(kit->cache);
    berth_memory_stats memory;
    assert_ok(berth_runtime_query_memory(kit->exec.runtime, &memory));
    assert_int_equal(memory.kv_bytes, 0);
    exec_kit_close(&kit->exec);
}

static inline berth_kv_sequence* kv_kit_begin(kv_kit* kit, const char* key) {
    const berth_kv_sequence_options options = {
        .struct_size = sizeof options, .key = key, .key_bytes = strlen(key)};
    berth_kv_sequence* sequence;
    assert_ok(berth_kv_sequence_create(kit->cache, &options, &sequence));
    return sequence;
}

/// Adds tokens first, first + 1, ... as a step would.
static inline berth_status kv_kit_add(kv_kit* kit,
                                      berth_kv_sequence* sequence,
                                      int32_t first,
                                      int64_t count) {
    int32_t tokens[512];
    assert_in_range(count, 1, 512);
    for (int32_t i = 0; i < count; ++i)
        tokens[i] = first + i;
    const berth_kv_part part = {sequence, tokens, count};
    berth_kv_batch* batch;
    BERTH_TRY(berth_kv_batch_begin(kit->cache, &part, 1, &batch));
    return berth_kv_batch_end(batch, true);
}

/// Looks tokens first, first + 1, ... up for a new sequence.
static inline berth_kv_sequence* kv_kit_find(
    kv_kit* kit, const char* key, int32_t first, int64_t count, berth_kv_match* out_match) {
    int32_t tokens[512];
    assert_in_range(count, 1, 512);
    for (int32_t i = 0; i < count; ++i)
        tokens[i] = first + i;
    berth_kv_sequence* sequence = kv_kit_begin(kit, key);
    assert_ok(berth_kv_sequence_match(sequence, tokens, count, out_match));
    return sequence;
}

static inline berth_kv_stats kv_kit_stats(kv_kit* kit) {
    berth_kv_stats stats;
    berth_kv_cache_query_stats(kit->cache, &stats);
    return stats;
}

#endif // BERTH_TEST_KV_KIT_H
