// SPDX-License-Identifier: Apache-2.0
// What else has memory in a context, beside frames and pool, and takes part in its upkeep.
#ifndef BERTH_EXEC_GUEST_H
#define BERTH_EXEC_GUEST_H

#include "health/compactor.h"
#include "memory/rest.h"

typedef struct berth_guest berth_guest;

/// All are called under the lock of the context's home, or in a visit of it.
typedef struct berth_guest_ops {
    /// Moves what it has closer together, within the slice; true if there is more to be done.
    bool (*tidy)(berth_guest* self, const berth_compact_budget* slice);
    /// Notes at time `epoch` (of a berth_use_window) what is in use, and gives idle memory back
    /// beyond what recent use suggests and `floor_bytes`, `limit_bytes` at most; returns the bytes
    /// given. `*out_is_settled`: nothing is left to be given later.
    uint64_t (*age)(berth_guest* self,
                    uint64_t epoch,
                    uint64_t floor_bytes,
                    uint64_t limit_bytes,
                    bool* out_is_settled);
    /// Gives idle memory back beyond `keep_bytes` of it; returns the bytes given.
    uint64_t (*trim)(berth_guest* self, uint64_t keep_bytes, bool may_block);
    /// Adds to `rest` why its memory is still mapped after `keep_bytes` of it were to be kept.
    void (*add_rest)(const berth_guest* self, uint64_t keep_bytes, berth_rest* rest);
} berth_guest_ops;

/// Member of whatever is a guest of a context.
struct berth_guest {
    const berth_guest_ops* ops;
    berth_guest* next; ///< the context's
};

#endif // BERTH_EXEC_GUEST_H
