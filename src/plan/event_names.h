// SPDX-License-Identifier: Apache-2.0
// Names of events: what files say instead of the numbers of one process.
#ifndef BERTH_PLAN_EVENT_NAMES_H
#define BERTH_PLAN_EVENT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BERTH_EVENT_NAME_BYTES 256u ///< the longest name, with its zero byte

/// Translates what identifies an event (berth_trace_event's kind and tag) to a name and back.
/// Filled by the executor, which alone knows ops. Threads: any.
typedef struct berth_event_names {
    void* self;
    /// Writes the name, printable ASCII without commas or blanks: "linear", "alloc", "step:decode",
    /// "op:mine". False if there is none.
    bool (*name_of)(void* self, uint32_t kind, uint32_t tag, char name[BERTH_EVENT_NAME_BYTES]);
    /// False if nothing of that name exists here (yet): a registered op, for example.
    bool (*find)(void* self, const char* name, uint32_t* out_kind, uint32_t* out_tag);
} berth_event_names;

#endif // BERTH_PLAN_EVENT_NAMES_H
