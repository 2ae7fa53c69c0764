// SPDX-License-Identifier: Apache-2.0
// Two marks on the bytes in use: reaching the high one is told once, and again only after use has
// fallen to the low one. Under the lock of whoever has it.
#ifndef BERTH_MEMORY_WATERMARKS_H
#define BERTH_MEMORY_WATERMARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Use has reached the high mark, or fallen to the low one after that.
typedef struct berth_crossing {
    bool is_rise;
    uint64_t used_bytes; ///< when it was noticed
    uint64_t mark_bytes;
} berth_crossing;

/// The most crossings that are told at a time: a peak that is over when it is told has two.
#define BERTH_CROSSINGS_MOST 2u

/// Zeroed: nobody watches.
typedef struct berth_watermarks {
    uint64_t high_bytes; ///< 0: nobody watches
    uint64_t low_bytes;  ///< less
    bool is_above;       ///< since the high mark was reached
    bool is_telling;     ///< somebody is told of crossings
    uint64_t untold;     ///< crossings, of which the last made it what it is
    uint64_t rises;      ///< so far
    uint64_t fall_bytes; ///< in use at the last fall
    uint64_t rise_bytes;
} berth_watermarks;

/// Notes the bytes in use.
void berth_watermarks_note(berth_watermarks* marks, uint64_t used_bytes);

/// True if there is something to tell, and nobody is telling it.
static inline bool berth_watermarks_has_news(const berth_watermarks* marks) {
    return marks->untold > 0 && !marks->is_telling;
}

/// Begins to tell: the crossings in order, of many without an interest of their own the last ones;
/// returns their number. 0 if there is nothing to tell, or if somebody is telling.
size_t berth_watermarks_take(berth_watermarks* marks,
                             berth_crossing out_crossings[BERTH_CROSSINGS_MOST]);
/// They have been told.
void berth_watermarks_end_telling(berth_watermarks* marks);

#endif // BERTH_MEMORY_WATERMARKS_H
