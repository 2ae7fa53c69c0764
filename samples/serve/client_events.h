// SPDX-License-Identifier: Apache-2.0
// Server-sent events, read as the bytes come: cut anywhere, with any of the three ends of line.
#ifndef BERTH_SAMPLES_SERVE_CLIENT_EVENTS_H
#define BERTH_SAMPLES_SERVE_CLIENT_EVENTS_H

#include "llm_support.h"

/// Called with the data of one event. Another status than BERTH_OK ends the reading.
typedef berth_status (*client_event_fn)(void* user, llm_str data, llm_error* error);

/// A stream that is being read. All zero but for the first three fields is one that begins.
///
/// Of an event only its data is kept: names, ids and times to wait before one connects again mean
/// nothing here. An event that the stream ends within is none.
/// Source: "Server-sent events" of the HTML standard, its chapter on parsing.
typedef struct client_events {
    client_event_fn on_event;
    void* user;
    size_t most_bytes; ///< of an event's lines; more of them is an error
    llm_bytes line;    ///< the line that has begun
    llm_bytes data;    ///< of the event that has begun, a line feed behind each line
    bool after_return; ///< a line feed belongs to the end of line before it
    bool has_begun;    ///< a mark of the byte order is no longer expected
} client_events;

/// Reads the next `size` bytes of the stream.
/// Errors: BERTH_ERR_CORRUPT for an event of too many bytes, BERTH_ERR_OUT_OF_MEMORY, what
///         on_event() returned. The stream cannot be read on then.
BERTH_NODISCARD berth_status client_events_push(client_events* events,
                                                const char* bytes,
                                                size_t size,
                                                llm_error* error);

/// Frees what the stream has and lets it begin anew.
void client_events_fini(client_events* events);

#endif // BERTH_SAMPLES_SERVE_CLIENT_EVENTS_H
