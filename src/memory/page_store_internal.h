// SPDX-License-Identifier: Apache-2.0
// What the other parts of the memory layer need of the page store beyond its public face.
#ifndef BERTH_MEMORY_PAGE_STORE_INTERNAL_H
#define BERTH_MEMORY_PAGE_STORE_INTERNAL_H

#include "memory/page_store.h"

/// As berth_store_unmap, but the bytes go back into `reservation` (may be NULL) until it holds
/// `limit_bytes`; only the rest becomes free for others. So a failed sequence of maps can be undone
/// without losing its promise.
BERTH_NODISCARD berth_status berth_store_unmap_into(berth_store* store,
                                                    berth_owner owner,
                                                    berth_reservation* reservation,
                                                    uint64_t limit_bytes,
                                                    berth_space* space,
                                                    uint64_t offset,
                                                    uint64_t size);

/// Reserves addresses for at least `need` bytes, a multiple of the granule, and for twice the
/// capacity if the system lets us: addresses cost nothing, running out of them does.
BERTH_NODISCARD berth_status berth_store_reserve_space(const berth_store* store,
                                                       uint64_t need,
                                                       berth_space** out_space);

/// Refuses a request that is larger than the capacity, with the store's report:
/// BERTH_ERR_OUT_OF_MEMORY.
berth_status berth_store_refuse(berth_store* store, uint64_t bytes);

#endif // BERTH_MEMORY_PAGE_STORE_INTERNAL_H
