// SPDX-License-Identifier: Apache-2.0
// Growable arrays of plain structs. Indices stay valid when the array grows, pointers do not.
#ifndef BERTH_BASE_VEC_H
#define BERTH_BASE_VEC_H

#include "base/host.h"

/// Declares struct `name` {items, count, capacity} and its helpers for elements of `type`:
/// name_reserve(vec, host, capacity), name_push(vec, host, value): BERTH_ERR_OUT_OF_MEMORY leaves
/// the array as it was; name_fini(vec, host). A zeroed struct is an empty array.
#define BERTH_VEC_DEFINE(name, type)                                                               \
    typedef struct name {                                                                          \
        type* items;                                                                               \
        size_t count;                                                                              \
        size_t capacity;                                                                           \
    } name;                                                                                        \
    static inline berth_status name##_reserve(                                                     \
        name* vec, const berth_host* host, size_t capacity) {                                      \
        return berth_vec_grow(host, (void**)&vec->items, &vec->capacity, capacity, sizeof(type));  \
    }                                                                                              \
    static inline berth_status name##_push(name* vec, const berth_host* host, type value) {        \
        if (vec->count == vec->capacity) {                                                         \
            berth_status status = name##_reserve(vec, host, vec->count + 1);                       \
            if (status != BERTH_OK) return status;                                                 \
        }                                                                                          \
        vec->items[vec->count++] = value;                                                          \
        return BERTH_OK;                                                                           \
    }                                                                                              \
    static inline void name##_fini(name* vec, const berth_host* host) {                            \
        berth_host_free(host, vec->items);                                                         \
        *vec = (name){0};                                                                          \
    }                                                                                              \
    _Static_assert(sizeof(type) > 0, "the element type is complete")

/// Makes room for at least `wanted` elements, doubling. Keeps the content.
/// Errors: BERTH_ERR_OUT_OF_MEMORY; unchanged then.
BERTH_NODISCARD berth_status berth_vec_grow(
    const berth_host* host, void** items, size_t* capacity, size_t wanted, size_t item_bytes);

#endif // BERTH_BASE_VEC_H
