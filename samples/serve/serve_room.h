// SPDX-License-Identifier: Apache-2.0
// Memory that clients make the server hold, counted so that all of it stays within a bound.
#ifndef BERTH_SAMPLES_SERVE_SERVE_ROOM_H
#define BERTH_SAMPLES_SERVE_SERVE_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/// How much is held, and how much may be. Any thread may use it.
typedef struct serve_room {
    atomic_size_t used_bytes;
    size_t most_bytes; ///< constant
} serve_room;

/// Counts `bytes` more. False, and nothing is counted, if that is more than there may be. A room of
/// NULL has no bound.
static inline bool serve_room_take(serve_room* room, size_t bytes) {
    if (room == NULL) return true;
    size_t used = atomic_load(&room->used_bytes);
    do {
        if (bytes > room->most_bytes || used > room->most_bytes - bytes) return false;
    } while (!atomic_compare_exchange_weak(&room->used_bytes, &used, used + bytes));
    return true;
}

/// Takes back what was counted.
static inline void serve_room_give(serve_room* room, size_t bytes) {
    if (room != NULL) atomic_fetch_sub(&room->used_bytes, bytes);
}

#endif // BERTH_SAMPLES_SERVE_SERVE_ROOM_H
