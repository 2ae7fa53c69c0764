// SPDX-License-Identifier: Apache-2.0
// Threads with a context each that share a small device: tensors handed from one to the other,
// mapped, lent, moved, kept beyond their steps; quotas and shares that change; out-of-memory and
// alarm callbacks that release, trim and compute. Each tensor holds one number in all its elements,
// so that whatever it goes through can be checked.
#ifndef BERTH_TEST_SHARING_WORKER_H
#define BERTH_TEST_SHARING_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "berth/berth.h"
#include "random.h"

enum {
    SHARING_TENSORS = 24,
    SHARING_CACHE = 12, ///< tensors that an out-of-memory callback may release
    SHARING_BYTES = 6,
    SHARING_MAIL = 8,
    SHARING_THREADS = 4, ///< at most
};

/// A tensor and the number that it is full of.
typedef struct sharing_tensor {
    berth_tensor* tensor;
    float value;
    bool is_mapped;
    struct DLManagedTensor* loan; ///< or NULL
} sharing_tensor;

typedef struct sharing_shop sharing_shop;

/// One thread's part.
typedef struct sharing_worker {
    sharing_shop* shop;
    pthread_t thread;
    test_random random;
    berth_context* ctx;
    berth_context* second; ///< comes and goes; NULL: is gone
    bool is_alarmed;       ///< within an alarm, what was interrupted may use `second`
    uint64_t turns;
    sharing_tensor tensors[SHARING_TENSORS];
    sharing_tensor cache[SHARING_CACHE];
    void* bytes[SHARING_BYTES]; ///< of berth_alloc()
} sharing_worker;

/// What the threads share.
struct sharing_shop {
    berth_runtime* runtime;
    bool can_read; ///< the host may touch plain bytes
    _Atomic(sharing_tensor*) mail[SHARING_MAIL];
    sharing_worker workers[SHARING_THREADS];
    size_t worker_count;
    atomic_bool has_failed;
    char failure[200]; ///< the first
    atomic_uint_fast64_t refusals;
    atomic_uint_fast64_t calls; ///< of callbacks
};

/// Runs `workers` threads for `turns` turns each on a new runtime with `settings` [count], and
/// closes everything. False, with a text in `shop->failure`, if a number was wrong, an error came
/// that is none of memory, or the books do not balance.
bool sharing_run(sharing_shop* shop,
                 const berth_option_setting* settings,
                 size_t count,
                 size_t workers,
                 uint64_t turns,
                 uint64_t seed);

#endif // BERTH_TEST_SHARING_WORKER_H
