// SPDX-License-Identifier: Apache-2.0
// Growth of arrays.
#include "base/vec.h"

#include "base/checked.h"
#include "base/error.h"

#define FIRST_CAPACITY 8

berth_status berth_vec_grow(
    const berth_host* host, void** items, size_t* capacity, size_t wanted, size_t item_bytes) {
    if (wanted <= *capacity) return BERTH_OK;
    size_t target = *capacity > SIZE_MAX / 2 ? wanted : *capacity * 2;
    if (target < FIRST_CAPACITY) target = FIRST_CAPACITY;
    if (target < wanted) target = wanted;
    size_t bytes;
    if (!berth_mul_size(target, item_bytes, &bytes))
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "an array of %zu items is too large", target);
    void* grown = berth_host_realloc(host, *items, bytes);
    if (grown == NULL)
        return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for %zu bytes of metadata", bytes);
    *items = grown;
    *capacity = target;
    return BERTH_OK;
}
