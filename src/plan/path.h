// SPDX-License-Identifier: Apache-2.0
// Paths of a step: the events that identify one, and the latest deaths seen on it.
#ifndef BERTH_PLAN_PATH_H
#define BERTH_PLAN_PATH_H

#include "plan/step_model.h"

/// A path with the deaths known at one time. Immutable but for the count; later deaths make another
/// version. One block.
typedef struct berth_path_version {
    berth_path shown; ///< first member: what replays see
    uint32_t refs;    ///< guarded by the step model's lock
    size_t bytes;     ///< of the block
} berth_path_version;

/// True if counts, births, deaths and dimensions of `trace` fit together; others are not learned.
bool berth_path_is_sound(const berth_trace* trace);

/// True if `trace` made the same events and values; releases, escapes and dimensions do not count.
bool berth_path_matches(const berth_path* path, const berth_trace* trace);

/// True if a value of `trace`, which matches, died later than planned or escaped unplanned.
bool berth_path_is_late(const berth_path* path, const berth_trace* trace);

/// Leading events that two paths share, with the values that they make.
uint32_t berth_path_shared(const berth_path* a, const berth_path* b);

/// True if, of the values made in the first `events` events, which both share, `path` knows every
/// death within these events, and every escape, that `other` knows. Only then can `other` leave
/// `path` there without moving anything.
bool berth_path_covers(const berth_path* path, const berth_path* other, uint32_t events);

/// As `known`, with what berth_path_covers() asks for; NULL without memory.
berth_path_version* berth_path_version_join(const berth_host* host,
                                            const berth_path* known,
                                            const berth_path* other,
                                            uint32_t events);

/// The path of `trace`, which is sound, with one reference; NULL without memory.
/// `known`, if not NULL, matches: the later death of both counts, and the id is its own.
berth_path_version* berth_path_version_create(const berth_host* host,
                                              const berth_trace* trace,
                                              const berth_path* known,
                                              uint32_t id);
/// Drops a reference. Accepts NULL.
void berth_path_version_release(berth_path_version* version, const berth_host* host);

#endif // BERTH_PLAN_PATH_H
