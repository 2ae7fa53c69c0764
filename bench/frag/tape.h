// SPDX-License-Identifier: Apache-2.0
// What a program asks of an allocator, written down before any allocator sees it: every policy is
// given the same requests. Sizes are those of a device with granules of 2 MiB.
#ifndef BERTH_BENCH_FRAG_TAPE_H
#define BERTH_BENCH_FRAG_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAPE_KIB UINT64_C(1024)
#define TAPE_MIB (1024 * TAPE_KIB)
#define TAPE_GRANULE (2 * TAPE_MIB)

typedef enum tape_kind {
    TAPE_TAKE,
    /// A take for which granules have to be emptied: what that moves is held against the least.
    TAPE_NEED,
    TAPE_GIVE,
    TAPE_STEP,  ///< a step ends
    TAPE_PROBE, ///< the device is as full as it shall be: how much of the rest can be used?
} tape_kind;

typedef struct tape_event {
    tape_kind kind;
    uint32_t id;    ///< of the block; every id is taken once
    uint64_t bytes; ///< TAKE, NEED
    uint64_t site;  ///< TAKE, NEED: where in the program the request comes from
} tape_event;

typedef struct tape {
    const char* name;
    tape_event* events; ///< [count]
    size_t count;
    size_t room;
    uint32_t ids;    ///< blocks in all
    uint64_t* bytes; ///< [ids], of each block
    size_t bytes_room;
    uint64_t live_bytes;     ///< so far
    uint64_t peak_bytes;     ///< so far
    uint64_t capacity_bytes; ///< of the device in the run that may refuse
} tape;

/// An empty tape; the name is borrowed.
tape tape_make(const char* name, uint64_t capacity_bytes);
void tape_free(tape* t);

/// Adds a request; returns the block's id.
uint32_t tape_take(tape* t, uint64_t bytes, uint64_t site);
uint32_t tape_need(tape* t, uint64_t bytes, uint64_t site);
void tape_give(tape* t, uint32_t id);
void tape_step(tape* t);

/// Adds probes where at least 94 % of the capacity are alive, `distance` events apart or more.
void tape_add_probes(tape* t, size_t distance);

/// The patterns, in the order of the report.
typedef struct tape_pattern {
    const char* name;
    tape (*make)(const char* name);
} tape_pattern;

extern const tape_pattern tape_sequence_patterns[];    ///< a-...; ends with a NULL name
extern const tape_pattern tape_replay_patterns[];      ///< b-...
extern const tape_pattern tape_adversarial_patterns[]; ///< c-...

#endif // BERTH_BENCH_FRAG_TAPE_H
