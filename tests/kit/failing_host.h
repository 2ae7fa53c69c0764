// SPDX-License-Identifier: Apache-2.0
// A host allocator for tests: fails on the n-th call and knows what is alive.
#ifndef BERTH_TEST_FAILING_HOST_H
#define BERTH_TEST_FAILING_HOST_H

#include <stdatomic.h>
#include <stdbool.h>

#include "berth/host.h"

/// Thread-safe; over the C library's malloc, so that sanitizers watch every block.
typedef struct failing_host {
    berth_host_allocator allocator; ///< hand this out; `self` is this struct, which must not move
    atomic_size_t calls;            ///< of alloc, failed ones included
    atomic_size_t live_blocks;
    atomic_size_t live_bytes;
    atomic_size_t fail_at;  ///< the call with this number (1 = the first) fails; 0: none
    atomic_bool fail_after; ///< so does every later one
    atomic_bool mismatch;   ///< a block was freed with a size or alignment that is not its own
} failing_host;

/// Resets `host`: nothing fails.
void failing_host_init(failing_host* host);
/// Makes the `nth` next call of alloc fail (1 = the next, 0 = none), and if `and_after` all later
/// ones.
void failing_host_fail(failing_host* host, size_t nth, bool and_after);
/// True if a call failed since failing_host_fail.
bool failing_host_has_failed(const failing_host* host);

#endif // BERTH_TEST_FAILING_HOST_H
