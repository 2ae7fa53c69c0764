// SPDX-License-Identifier: Apache-2.0
// Open addressing, at most half full.
#include "plan/name_table.h"

#include <string.h>

#include "base/error.h"
#include "base/hash.h"

#define FIRST_CAPACITY 64u

void berth_name_table_fini(berth_name_table* table, const berth_host* host) {
    berth_host_free(host, table->slots);
    *table = (berth_name_table){0};
}

void berth_name_table_clear(berth_name_table* table) {
    if (table->count > 0) memset(table->slots, 0, table->capacity * sizeof *table->slots);
    table->count = 0;
}

/// The slot of `name`, or the free one where it belongs.
static berth_name_slot* seek(const berth_name_table* table, const char* name, size_t bytes) {
    size_t at = (size_t)berth_hash64(name, bytes, 0) & (table->capacity - 1);
    for (;; at = (at + 1) & (table->capacity - 1)) {
        berth_name_slot* slot = &table->slots[at];
        if (slot->name == NULL) return slot;
        if (strncmp(slot->name, name, bytes) == 0 && slot->name[bytes] == '\0') return slot;
    }
}

static berth_status grow(berth_name_table* table, const berth_host* host) {
    berth_name_table larger = {.capacity =
                                   table->capacity == 0 ? FIRST_CAPACITY : table->capacity * 2,
                               .count = table->count};
    larger.slots = berth_host_calloc(host, larger.capacity, sizeof *larger.slots);
    if (larger.slots == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for %zu names", larger.capacity);
    for (size_t i = 0; i < table->capacity; i++) {
        const berth_name_slot* slot = &table->slots[i];
        if (slot->name != NULL) *seek(&larger, slot->name, strlen(slot->name)) = *slot;
    }
    berth_host_free(host, table->slots);
    *table = larger;
    return BERTH_OK;
}

berth_status berth_name_table_put(berth_name_table* table,
                                  const berth_host* host,
                                  const char* name,
                                  uint32_t value,
                                  uint32_t** out_found) {
    *out_found = NULL;
    if (table->count * 2 >= table->capacity) BERTH_TRY(grow(table, host));
    berth_name_slot* slot = seek(table, name, strlen(name));
    if (slot->name != NULL) {
        *out_found = &slot->value;
        return BERTH_OK;
    }
    *slot = (berth_name_slot){name, value};
    table->count++;
    return BERTH_OK;
}

bool berth_name_table_find(const berth_name_table* table,
                           const char* name,
                           size_t bytes,
                           uint32_t* out_value) {
    if (table->count == 0) return false;
    const berth_name_slot* slot = seek(table, name, bytes);
    if (slot->name == NULL) return false;
    *out_value = slot->value;
    return true;
}
