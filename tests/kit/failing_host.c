// SPDX-License-Identifier: Apache-2.0
// Blocks carry their size and alignment at their end, where a wrong free does not find them.
#include "failing_host.h"

#include <stdlib.h>
#include <string.h>

typedef struct trailer {
    size_t size;
    size_t alignment;
} trailer;

static void* take(void* self, size_t size, size_t alignment) {
    failing_host* host = self;
    const size_t call = atomic_fetch_add(&host->calls, 1) + 1;
    const size_t fail_at = atomic_load(&host->fail_at);
    if (fail_at != 0 && (call == fail_at || (call > fail_at && atomic_load(&host->fail_after))))
        return NULL;
    const trailer end = {size, alignment};
    void* block = NULL;
    if (posix_memalign(&block, alignment, size + sizeof end) != 0) return NULL;
    memset(block, 0xCD, size);
    memcpy((unsigned char*)block + size, &end, sizeof end);
    atomic_fetch_add(&host->live_blocks, 1);
    atomic_fetch_add(&host->live_bytes, size);
    return block;
}

static void give(void* self, void* block, size_t size, size_t alignment) {
    failing_host* host = self;
    trailer end;
    memcpy(&end, (unsigned char*)block + size, sizeof end);
    if (end.size != size || end.alignment != alignment) atomic_store(&host->mismatch, true);
    atomic_fetch_sub(&host->live_blocks, 1);
    atomic_fetch_sub(&host->live_bytes, size);
    memset(block, 0xDD, size);
    free(block);
}

void failing_host_init(failing_host* host) {
    host->allocator = (berth_host_allocator){host, take, give};
    atomic_init(&host->calls, 0);
    atomic_init(&host->live_blocks, 0);
    atomic_init(&host->live_bytes, 0);
    atomic_init(&host->fail_at, 0);
    atomic_init(&host->fail_after, false);
    atomic_init(&host->mismatch, false);
}

void failing_host_fail(failing_host* host, size_t nth, bool and_after) {
    atomic_store(&host->fail_after, and_after);
    atomic_store(&host->fail_at, nth == 0 ? 0 : atomic_load(&host->calls) + nth);
}

bool failing_host_has_failed(const failing_host* host) {
    const size_t fail_at = atomic_load(&host->fail_at);
    return fail_at != 0 && atomic_load(&host->calls) >= fail_at;
}
