// SPDX-License-Identifier: Apache-2.0
// Why tokens of a prompt were not found in a cache of keys and values.
#ifndef BERTH_KV_MISS_H
#define BERTH_KV_MISS_H

// clang-format off
/// Reasons: X(id, word, help).
#define BERTH_KV_MISS_MAP(X)                                                                       \
    X(NONE,         "none",         "all that may be found was found")                             \
    X(NONE_SHARED,  "none_shared",  "nothing cached goes on like this, and nothing lately did")    \
    X(TOO_SHORT,    "too_short",    "the prompt goes on for less than a block")                    \
    X(EVICTED,      "evicted",      "its block was given up for want of room")                     \
    X(OTHER_TENANT, "other_tenant", "the same tokens are cached under another key")
// clang-format on

/// Why tokens of a prompt were not found.
typedef enum berth_kv_miss {
#define BERTH_KV_MISS_ENUM(id, word, help) BERTH_KV_MISS_##id,
    BERTH_KV_MISS_MAP(BERTH_KV_MISS_ENUM)
#undef BERTH_KV_MISS_ENUM
        BERTH_KV_MISS_COUNT, ///< number of reasons
} berth_kv_miss;

#endif // BERTH_KV_MISS_H
