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

uint32_t berth_path_shared(const berth_path* a, const berth_path* b) {
    const uint32_t events = a->event_count < b->event_count ? a->event_count : b->event_count;
    for (uint32_t e = 0, v = 0; e < events; e++) {
        if (!same_event(&a->events[e], &b->events[e])) return e;
        for (const uint32_t end = v + a->events[e].value_count; v < end; v++)
            if (!same_value(&a->values[v], &b->values[v])) return e;
    }
    return events;
}

/// Death of a value of `path` as far as the first `events` events, at least one, show it.
static uint32_t early_death(const berth_path* path, uint32_t value, uint32_t events) {
    const uint32_t death = path->values[value].death;
    return death < events ? death : events - 1;
}

bool berth_path_covers(const berth_path* path, const berth_path* other, uint32_t events) {
    const uint32_t count = berth_path_values_before(path, events);
    for (uint32_t v = 0; v < count; v++) {
        if (escapes(&path->values[v])) continue;
        if (escapes(&other->values[v])) return false;
        if (path->values[v].death < early_death(other, v, events)) return false;
    }
    return true;
}

/// Groups the values that do not escape by death; those that do come last.
static void index_deaths(const berth_path* path, uint32_t* expired_at, uint32_t* expired) {
    memset(expired_at, 0, (path->event_count + (size_t)1) * sizeof *expired_at);
    uint32_t escaping = path->value_count;
    for (uint32_t v = path->value_count; v-- > 0;) {
        if (escapes(&path->values[v]))
            expired[--escaping] = v;
        else
            expired_at[path->values[v].death]++;
    }
    uint32_t sum = 0;
    for (uint32_t e = 0; e <= path->event_count; e++) {
        sum += expired_at[e];
        expired_at[e] = sum; // the end of e's group for now
    }
    for (uint32_t v = path->value_count; v-- > 0;)
        if (!escapes(&path->values[v])) expired[--expired_at[path->values[v].death]] = v;
}

static uint32_t count_escaping(const berth_path* path) {
    uint32_t count = 0;
    for (uint32_t v = 0; v < path->value_count; v++)
        count += escapes(&path->values[v]);
    return count;
}

/// What is known of some of a path's values by other means: deaths before `events`, escapes.
typedef struct death_notes {
    const berth_path* from; ///< NULL: nothing
    uint32_t values;        ///< its first ones
    uint32_t events;        ///< at least one if there are values
} death_notes;

static void merge_deaths(berth_trace_value* values,
                         uint32_t count,
                         uint32_t event_count,
                         const death_notes* notes) {
    for (uint32_t v = 0; v < notes->values; v++) {
        if (escapes(&notes->from->values[v])) values[v].flags |= BERTH_VALUE_ESCAPES;
        const uint32_t death = early_death(notes->from, v, notes->events);
        if (death > values[v].death) values[v].death = death;
    }
    for (uint32_t v = 0; v < count; v++)
        if (escapes(&values[v])) values[v].death = event_count - 1;
}

/// A version with copies of the events and values of `shown`, the later deaths of which are merged
/// with `notes`; NULL without memory.
static berth_path_version* make_version(const berth_host* host,
                                        const berth_path* shown,
                                        const death_notes* notes) {
    const uint32_t events = shown->event_count;
    const uint32_t values = shown->value_count;
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
    if (events > 0) memcpy(own_events, shown->events, events * sizeof *own_events);
    if (values > 0) memcpy(own_values, shown->values, values * sizeof *own_values);
    merge_deaths(own_values, values, events, notes);
    *version = (berth_path_version){.shown = *shown, .refs = 1, .bytes = total};
    berth_path* path = &version->shown;
    path->events = own_events;
    path->values = own_values;
    path->escaping_count = count_escaping(path);
    path->expired_at = at;
    path->expired = at + events + 1;
    path->escaping = path->expired + (values - path->escaping_count);
    index_deaths(path, at, at + events + 1);
    return version;
}

berth_path_version* berth_path_version_create(const berth_host* host,
                                              const berth_trace* trace,
                                              const berth_path* known,
                                              uint32_t id) {
    const berth_path shown = {.events = trace->events.items,
                              .values = trace->values.items,
                              .event_count = (uint32_t)trace->events.count,
                              .value_count = (uint32_t)trace->values.count,
                              .dim_count = (uint32_t)trace->dims.count,
                              .id = known != NULL ? known->id : id};
    const death_notes notes = {
        known, known != NULL ? known->value_count : 0, known != NULL ? known->event_count : 0};
    return make_version(host, &shown, &notes);
}

berth_path_version* berth_path_version_join(const berth_host* host,
                                            const berth_path* known,
                                            const berth_path* other,
                                            uint32_t events) {
    const death_notes notes = {other, berth_path_values_before(known, events), events};
    return make_version(host, known, &notes);
}

void berth_path_version_release(berth_path_version* version, const berth_host* host) {
    if (version != NULL && --version->refs == 0) berth_host_free(host, version);
}
