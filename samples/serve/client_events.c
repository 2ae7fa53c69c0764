// SPDX-License-Identifier: Apache-2.0
// Lines of a stream, and what they add to an event.
#include "client_events.h"

#include <string.h>

static berth_status append(
    client_events* events, llm_bytes* to, const char* bytes, size_t size, llm_error* error) {
    if (size > events->most_bytes - (events->line.size + events->data.size))
        return llm_fail(error,
                        BERTH_ERR_CORRUPT,
                        "an event has more than the %zu bytes that it may have",
                        events->most_bytes);
    return llm_bytes_append(to, bytes, size, error);
}

static berth_status dispatch(client_events* events, llm_error* error) {
    if (events->data.size == 0) return BERTH_OK;
    const llm_str data = {events->data.data, events->data.size - 1}; // but for the last line feed
    berth_status status = events->on_event(events->user, data, error);
    events->data.size = 0;
    return status;
}

/// The line without the mark of the byte order that a stream may begin with.
static llm_str take_line(client_events* events) {
    static const char mark[] = "\xEF\xBB\xBF";
    llm_str line = {events->line.data, events->line.size};
    if (!events->has_begun && line.size >= 3 && memcmp(line.data, mark, 3) == 0)
        line = (llm_str){line.data + 3, line.size - 3};
    events->has_begun = true;
    return line;
}

static berth_status end_line(client_events* events, llm_error* error) {
    static const char field[] = "data";
    enum { FIELD = sizeof field - 1 };
    const llm_str line = take_line(events);
    events->line.size = 0; // its bytes stay until the next push
    if (line.size == 0) return dispatch(events, error);
    const char* colon = memchr(line.data, ':', line.size);
    const size_t name = colon == NULL ? line.size : (size_t)(colon - line.data);
    if (name != FIELD || memcmp(line.data, field, FIELD) != 0) return BERTH_OK;
    size_t skip = colon == NULL ? line.size : name + 1;
    if (skip < line.size && line.data[skip] == ' ') skip++;
    berth_status status = append(events, &events->data, line.data + skip, line.size - skip, error);
    if (status == BERTH_OK) status = append(events, &events->data, "\n", 1, error);
    return status;
}

/// Bytes before the next end of line, or all.
static size_t until_end(const char* bytes, size_t size) {
    const char* feed = memchr(bytes, '\n', size);
    if (feed != NULL) size = (size_t)(feed - bytes);
    const char* back = memchr(bytes, '\r', size);
    return back == NULL ? size : (size_t)(back - bytes);
}

berth_status client_events_push(client_events* events,
                                const char* bytes,
                                size_t size,
                                llm_error* error) {
    size_t at = 0;
    while (at < size) {
        const bool is_second_half = events->after_return && bytes[at] == '\n';
        events->after_return = false;
        if (is_second_half) {
            at++;
            continue;
        }
        const size_t length = until_end(bytes + at, size - at);
        berth_status status = append(events, &events->line, bytes + at, length, error);
        at += length;
        if (status == BERTH_OK && at < size) {
            events->after_return = bytes[at++] == '\r';
            status = end_line(events, error);
        }
        if (status != BERTH_OK) return status;
    }
    return BERTH_OK;
}

void client_events_fini(client_events* events) {
    llm_bytes_fini(&events->line);
    llm_bytes_fini(&events->data);
    events->after_return = false;
    events->has_begun = false;
}
