// SPDX-License-Identifier: Apache-2.0
// Compares traces with paths and merges deaths.
#include "plan/path.h"

#include <string.h>

#include "base/checked.h"

static bool value_is_sound(const berth_trace* trace, const berth_trace_value* value, size_t dims) {
    return value->birth < trace->events.count && value->death >= value->birth &&
           value->death < trace->events.count && value->rank <= BERTH_MAX_RANK &&
           value->dims_at == dims && berth_dtype_query_info((berth_dtype)value->dtype) != NULL;
}

bool berth_path_is_sound(const berth_trace* trace) {
    size_t values = 0;
    size_t dims = 0;
    if (trace->events.count > INT32_MAX || trace->values.count > INT32_MAX ||
        trace->dims.count > INT32_MAX)
        return false;
    for (size_t e = 0; e < trace->events.count; e++) {
        const berth_trace_event* event = &trace->events.items[e];
        if (event->first_value != values || event->value_count > trace->values.count - values)
            return false;
        for (uint32_t k = 0; k < event->value_count; k++, values++) {
            const berth_trace_value* value = &trace->values.items[values];
            if (value->birth != e || !value_is_sound(trace, value, dims)) return false;
            dims += value->rank;
            if (dims > trace->dims.count) return false;
        }
    }
    return values == trace->values.count && dims == trace->dims.count;
}

static bool same_event(const berth_trace_event* a, const berth_trace_event* b) {
    return a->kind == b->kind && a->tag == b->tag && a->first_value == b->first_value &&
           a->value_count == b->value_count;
}

static bool same_value(const berth_trace_value* a, const berth_trace_value* b) {
    const unsigned escapes = BERTH_VALUE_ESCAPES;
    return a->birth == b->birth && a->dims_at == b->dims_at && a->rank == b->rank &&
           a->dtype == b->dtype && (a->flags & ~escapes) == (b->flags & ~escapes);
}

bool berth_path_matches(const berth_path* path, const berth_trace* trace) {
    if (path->event_count != trace->events.count || path->value_count != trace->values.count ||
        path->dim_count != trace->dims.count)
        return false;
    for (uint32_t e = 0; e < path->event_count; e++)
        if (!same_event(&path->events[e], &trace->events.items[e])) return false;
    for (uint32_t v = 0; v < path->value_count; v++)
        if (!same_value(&path->values[v], &trace->values.items[v])) return false;
    return true;
}

static bool escapes(const berth_trace_value* value) {
    return (value->flags & BERTH_VALUE_ESCAPES) != 0;
}

bool berth_path_is_late(const berth_path* path, const berth_trace* trace) {
    for (uint32_t v = 0; v < path->value_count; v++) {
        const berth_trace_value* seen = &trace->values.items[v];
        if (escapes(&path->values[v])) continue;
        if (escapes(seen) || seen->death > path->values[v].death) return true;
    }
    return false;
}

/// Groups the values that do not escape by death.
static void index_deaths(const berth_path* path, uint32_t* expired_at, uint32_t* expired) {
    memset(expired_at, 0, (path->event_count + (size_t)1) * sizeof *expired_at);
    for (uint32_t v = 0; v < path->value_count; v++)
        if (!escapes(&path->values[v])) expired_at[path->values[v].death]++;
    uint32_t sum = 0;
    for (uint32_t e = 0; e <= path->event_count; e++) {
        sum += expired_at[e];
        expired_at[e] = sum; // the end of e's group for now
    }
    for (uint32_t v = path->value_count; v-- > 0;)
        if (!escapes(&path->values[v])) expired[--expired_at[path->values[v].death]] = v;
}

static void merge_deaths(berth_trace_value* values,
                         const berth_path* known,
                         uint32_t count,
                         uint32_t event_count) {
    for (uint32_t v = 0; v < count; v++) {
        if (known != NULL) {
            if (escapes(&known->values[v])) values[v].flags |= BERTH_VALUE_ESCAPES;
            if (known->values[v].death > values[v].death) values[v].death = known->values[v].death;
        }
        if (escapes(&values[v])) values[v].death = event_count - 1;
    }
}

berth_path_version* berth_path_version_create(const berth_host* host,
                                              const berth_trace* trace,
                                              const berth_path* known,
                                              uint32_t id) {
    const uint32_t events = (uint32_t)trace->events.count;
    const uint32_t values = (uint32_t)trace->values.count;
    const size_t events_at = berth_round_up(sizeof(berth_path_version), 16);
    const size_t values_at = events_at + events * sizeof(berth_trace_event);
    const size_t expired_at = values_at + values * sizeof(berth_trace_value);
    const size_t total = expired_at + ((size_t)events + 1 + values) * sizeof(uint32_t);
    char* block = berth_host_alloc(host, total);
    if (block == NULL) return NULL;
    berth_path_version* version = (berth_path_version*)(void*)block;
    berth_trace_event* own_events = (berth_trace_event*)(void*)(block + events_at);
    berth_trace_value* own_values = (berth_trace_value*)(void*)(block + values_at);
    uint32_t* at = (uint32_t*)(void*)(block + expired_at);
    if (events > 0) memcpy(own_events, trace->events.items, events * sizeof *own_events);
    if (values > 0) memcpy(own_values, trace->values.items, values * sizeof *own_values);
    merge_deaths(own_values, known, values, events);
    *version = (berth_path_version){.shown = {.events = own_events,
                                              .values = own_values,
                                              .event_count = events,
                                              .value_count = values,
                                              .dim_count = (uint32_t)trace->dims.count,
                                              .id = known != NULL ? known->id : id,
                                              .expired_at = at,
                                              .expired = at + events + 1},
                                    .refs = 1,
                                    .bytes = total};
    index_deaths(&version->shown, at, at + events + 1);
    return version;
}

void berth_path_version_release(berth_path_version* version, const berth_host* host) {
    if (version != NULL && --version->refs == 0) berth_host_free(host, version);
}
