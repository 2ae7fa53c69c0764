// SPDX-License-Identifier: Apache-2.0
#include "frag/tape.h"

#include <stdlib.h>

#include "kit/fail.h"

#define PROBE_PERCENT 94

static void* checked_realloc(void* block, size_t bytes) {
    void* memory = realloc(block, bytes);
    if (memory == NULL) bench_fail_for("tape", "no memory");
    return memory;
}

tape tape_make(const char* name, uint64_t capacity_bytes) {
    return (tape){.name = name, .capacity_bytes = capacity_bytes};
}

void tape_free(tape* t) {
    free(t->events);
    free(t->bytes);
    *t = (tape){0};
}

static void add(tape* t, tape_event event) {
    if (t->count == t->room) {
        t->room = t->room == 0 ? 4096 : 2 * t->room;
        t->events = checked_realloc(t->events, t->room * sizeof *t->events);
    }
    t->events[t->count++] = event;
}

static uint32_t add_request(tape* t, tape_kind kind, uint64_t bytes, uint64_t site) {
    const uint32_t id = t->ids++;
    if (id == t->bytes_room) {
        t->bytes_room = t->bytes_room == 0 ? 4096 : 2 * t->bytes_room;
        t->bytes = checked_realloc(t->bytes, t->bytes_room * sizeof *t->bytes);
    }
    t->bytes[id] = bytes;
    t->live_bytes += bytes;
    if (t->live_bytes > t->peak_bytes) t->peak_bytes = t->live_bytes;
    add(t, (tape_event){.kind = kind, .id = id, .bytes = bytes, .site = site});
    return id;
}

uint32_t tape_take(tape* t, uint64_t bytes, uint64_t site) {
    return add_request(t, TAPE_TAKE, bytes, site);
}

uint32_t tape_need(tape* t, uint64_t bytes, uint64_t site) {
    return add_request(t, TAPE_NEED, bytes, site);
}

void tape_give(tape* t, uint32_t id) {
    t->live_bytes -= t->bytes[id];
    add(t, (tape_event){.kind = TAPE_GIVE, .id = id});
}

void tape_step(tape* t) { add(t, (tape_event){.kind = TAPE_STEP}); }

void tape_add_probes(tape* t, size_t distance) {
    tape probed = tape_make(t->name, t->capacity_bytes);
    const uint64_t full = t->capacity_bytes / 100 * PROBE_PERCENT;
    uint64_t live = 0;
    size_t since = distance;
    for (size_t i = 0; i < t->count; i++) {
        const tape_event event = t->events[i];
        add(&probed, event);
        live += event.bytes;
        if (event.kind == TAPE_GIVE) live -= t->bytes[event.id];
        since++;
        if (live < full || since < distance) continue;
        add(&probed, (tape_event){.kind = TAPE_PROBE});
        since = 0;
    }
    free(t->events);
    t->events = probed.events;
    t->count = probed.count;
    t->room = probed.room;
}
