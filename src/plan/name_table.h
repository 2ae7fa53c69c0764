// SPDX-License-Identifier: Apache-2.0
// Numbers by name: ids of buffers, symbols. Names are compared in full.
#ifndef BERTH_PLAN_NAME_TABLE_H
#define BERTH_PLAN_NAME_TABLE_H

#include <stdbool.h>

#include "base/host.h"

/// An entry; the name is borrowed.
typedef struct berth_name_slot {
    const char* name; ///< NULL: free
    uint32_t value;
} berth_name_slot;

/// A zeroed struct is an empty table.
typedef struct berth_name_table {
    berth_name_slot* slots; ///< [capacity]
    size_t capacity;        ///< a power of two, or 0
    size_t count;
} berth_name_table;

void berth_name_table_fini(berth_name_table* table, const berth_host* host);
void berth_name_table_clear(berth_name_table* table); ///< keeps the memory

/// Enters `name` with `value`, unless it is there: then `*out_found` is its value's place, NULL
/// otherwise.
/// Errors: BERTH_ERR_OUT_OF_MEMORY.
BERTH_NODISCARD berth_status berth_name_table_put(berth_name_table* table,
                                                  const berth_host* host,
                                                  const char* name,
                                                  uint32_t value,
                                                  uint32_t** out_found);

/// True if there is `name`, `bytes` bytes long.
bool berth_name_table_find(const berth_name_table* table,
                           const char* name,
                           size_t bytes,
                           uint32_t* out_value);

#endif // BERTH_PLAN_NAME_TABLE_H
