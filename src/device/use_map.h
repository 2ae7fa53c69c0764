// SPDX-License-Identifier: Apache-2.0
// Which stretches of memory one stream used last, and when: bounded memory, the oldest uses are
// forgotten first. Not thread-safe.
#ifndef BERTH_DEVICE_USE_MAP_H
#define BERTH_DEVICE_USE_MAP_H

#include "base/vec.h"
#include "berth/op.h"

/// The most stretches that one map remembers.
#define BERTH_USE_MAP_MAX 4096u

/// A stretch and the last use of all of it.
typedef struct berth_use {
    uint64_t begin;
    uint64_t end;
    uint64_t moment;     ///< number of the use among its stream's
    berth_kernel kernel; ///< that used it; NULL: a copy
} berth_use;

BERTH_VEC_DEFINE(berth_use_vec, berth_use);

/// Stretches by address, none over another. Zeroed with a host: empty.
typedef struct berth_use_map {
    const berth_host* host;
    berth_use_vec uses;
} berth_use_map;

void berth_use_map_fini(berth_use_map* map);

/// Notes a use that is later than all noted before; begin < end. Uses up to moment `done` may be
/// forgotten. Without host memory the use is not remembered.
void berth_use_map_note(berth_use_map* map, berth_use use, uint64_t done);

/// A use of some byte of [begin, end) after moment `after`; NULL if there is none remembered.
const berth_use* berth_use_map_find(const berth_use_map* map,
                                    uint64_t begin,
                                    uint64_t end,
                                    uint64_t after);

#endif // BERTH_DEVICE_USE_MAP_H
