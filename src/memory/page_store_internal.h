// SPDX-License-Identifier: Apache-2.0
// What the other parts of the memory layer need of the page store beyond its public face.
#ifndef BERTH_MEMORY_PAGE_STORE_INTERNAL_H
#define BERTH_MEMORY_PAGE_STORE_INTERNAL_H

#include "memory/page_store.h"

/// As berth_store_unmap, but the bytes go back into `reservation` (may be NULL) until it holds
/// `limit_bytes`; only the rest becomes free for others. So a failed sequence of maps can be undone
/// without losing its promise.
berth_status berth_store_unmap_into(berth_store* store,
                                    berth_owner owner,
                                    berth_reservation* reservation,
                                    uint64_t limit_bytes,
                                    berth_space* space,
                                    uint64_t offset,
                                    uint64_t size);

#endif // BERTH_MEMORY_PAGE_STORE_INTERNAL_H
