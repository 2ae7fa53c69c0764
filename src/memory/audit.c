// SPDX-License-Identifier: Apache-2.0
// Blocks by address, places by content, and a ring of events.
#include "memory/audit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/address_map.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include "base/vec.h"

/// A block that is out.
typedef struct audit_record {
    const void* data;   ///< NULL: free
    uint64_t bytes;     ///< as asked for
    uint64_t number;    ///< among all takes, from 1
    uint32_t site;      ///< index
    uint32_t next_free; ///< record, from 1
    berth_audit_kind kind;
} audit_record;

/// A place, and what it has out.
typedef struct audit_place {
    berth_audit_site site;
    uint64_t blocks;
    uint64_t bytes;
} audit_place;

typedef struct audit_event {
    uint64_t number; ///< of the block
    uint64_t bytes;
    uint64_t time_us;
    uint32_t site;
    bool is_give;
} audit_event;

BERTH_VEC_DEFINE(audit_record_vec, audit_record);
BERTH_VEC_DEFINE(audit_place_vec, audit_place);

struct berth_audit {
    const berth_host* host;
    berth_mutex lock;
    berth_address_map addresses; ///< handles are indices of records
    audit_record_vec records;
    uint32_t free_record; ///< from 1; 0: none
    audit_place_vec places;
    uint32_t* index; ///< [index_size], places from 1 by their hash; a power of two
    size_t index_size;
    audit_event* events; ///< [event_capacity], a ring
    uint64_t event_capacity;
    uint64_t event_count; ///< ever noted
    uint64_t takes;
    uint64_t bytes; ///< out
    uint64_t damaged;
    uint64_t began_ns;
};

static const berth_audit_site other_site = {"other places", NULL, BERTH_AUDIT_NO_EVENT};

void berth_audit_destroy(berth_audit* audit) {
    if (audit == NULL) return;
    const berth_host* host = audit->host;
    berth_address_map_fini(&audit->addresses, host);
    audit_record_vec_fini(&audit->records, host);
    audit_place_vec_fini(&audit->places, host);
    berth_host_free(host, audit->index);
    berth_host_free(host, audit->events);
    berth_mutex_fini(&audit->lock);
    berth_host_free(host, audit);
}

berth_status berth_audit_create(const berth_host* host,
                                uint64_t history_events,
                                berth_audit** out_audit) {
    *out_audit = NULL;
    berth_audit* audit = berth_host_calloc(host, 1, sizeof *audit);
    if (audit == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to note blocks");
    berth_status status = berth_mutex_init(&audit->lock);
    if (status != BERTH_OK) {
        berth_host_free(host, audit);
        return status;
    }
    audit->host = host;
    audit->began_ns = berth_clock_now_ns();
    audit->event_capacity = history_events;
    if (history_events > 0) {
        audit->events = berth_host_calloc(host, history_events, sizeof *audit->events);
        if (audit->events == NULL)
            status = berth_fail(BERTH_ERR_OUT_OF_MEMORY,
                                "no host memory for a history of %" PRIu64 " events of %zu bytes",
                                history_events,
                                sizeof *audit->events);
    }
    if (status == BERTH_OK)
        status = audit_place_vec_push(&audit->places, host, (audit_place){.site = other_site});
    if (status != BERTH_OK) {
        berth_audit_destroy(audit);
        return status;
    }
    *out_audit = audit;
    return BERTH_OK;
}

// --- Places. Under the lock, as everything below but the public functions ------------------------

static bool is_same(const berth_audit_site* a, const berth_audit_site* b) {
    return a->op == b->op && a->step == b->step && a->event == b->event;
}

/// The entry of the index where `site` is, or the free one where it would be. There is a free one.
static uint32_t* find_place(const berth_audit* audit, const berth_audit_site* site) {
    const uint64_t key[] = {(uintptr_t)site->op, (uintptr_t)site->step, site->event};
    const size_t mask = audit->index_size - 1;
    size_t at = (size_t)berth_hash64(key, sizeof key, 0) & mask;
    while (audit->index[at] != 0 && !is_same(&audit->places.items[audit->index[at] - 1].site, site))
        at = (at + 1) & mask;
    return &audit->index[at];
}

/// Keeps the index at most half full. Without memory it stays as it is.
static bool grow_index(berth_audit* audit) {
    if ((audit->places.count + 1) * 2 <= audit->index_size) return true;
    const size_t size = audit->index_size == 0 ? 64 : audit->index_size * 2;
    uint32_t* index = berth_host_calloc(audit->host, size, sizeof *index);
    if (index == NULL) return false;
    berth_host_free(audit->host, audit->index);
    audit->index = index;
    audit->index_size = size;
    for (size_t i = 1; i < audit->places.count; ++i)
        *find_place(audit, &audit->places.items[i].site) = (uint32_t)i + 1;
    return true;
}

/// The number of a place; that of all others where there is no room for one more.
static uint32_t number_of(berth_audit* audit, const berth_audit_site* site) {
    if (!grow_index(audit)) return 0;
    uint32_t* entry = find_place(audit, site);
    if (*entry != 0) return *entry - 1;
    if (audit->places.count >= BERTH_AUDIT_SITES_MAX ||
        audit_place_vec_push(&audit->places, audit->host, (audit_place){.site = *site}) != BERTH_OK)
        return 0;
    *entry = (uint32_t)audit->places.count;
    return *entry - 1;
}

// --- Takes and gives -----------------------------------------------------------------------------

static void note_event(berth_audit* audit, const audit_record* record, bool is_give) {
    if (audit->event_capacity == 0 || record->kind != BERTH_AUDIT_BLOCK) return;
    audit->events[audit->event_count++ % audit->event_capacity] = (audit_event){
        .number = record->number,
        .bytes = record->bytes,
        .time_us = (berth_clock_now_ns() - audit->began_ns) / 1000,
        .site = record->site,
        .is_give = is_give,
    };
}

/// An unused record's index.
static berth_status new_record(berth_audit* audit, uint32_t* out_index) {
    if (audit->free_record == 0) {
        *out_index = (uint32_t)audit->records.count;
        return audit_record_vec_push(&audit->records, audit->host, (audit_record){0});
    }
    *out_index = audit->free_record - 1;
    audit->free_record = audit->records.items[*out_index].next_free;
    return BERTH_OK;
}

static berth_status take(berth_audit* audit, audit_record record, const berth_audit_site* site) {
    uint32_t index = 0;
    BERTH_TRY(berth_address_map_reserve_one(&audit->addresses, audit->host));
    BERTH_TRY(new_record(audit, &index));
    record.site = number_of(audit, site);
    record.number = ++audit->takes;
    audit->records.items[index] = record;
    const berth_address_entry entry = {.address = record.data, .handle = index};
    berth_address_map_add(&audit->addresses, entry);
    audit_place* place = &audit->places.items[record.site];
    ++place->blocks;
    place->bytes += record.bytes;
    audit->bytes += record.bytes;
    note_event(audit, &record, false);
    return BERTH_OK;
}

berth_status berth_audit_note_take(berth_audit* audit,
                                   berth_audit_kind kind,
                                   const void* data,
                                   uint64_t bytes,
                                   const berth_audit_site* site) {
    const audit_record record = {.data = data, .bytes = bytes, .kind = kind};
    berth_mutex_lock(&audit->lock);
    const berth_status status = take(audit, record, site);
    berth_mutex_unlock(&audit->lock);
    return status;
}

void berth_audit_note_give(berth_audit* audit, const void* data) {
    berth_address_entry entry;
    berth_mutex_lock(&audit->lock);
    if (berth_address_map_remove(&audit->addresses, data, &entry)) {
        audit_record* record = &audit->records.items[entry.handle];
        audit_place* place = &audit->places.items[record->site];
        note_event(audit, record, true);
        --place->blocks;
        place->bytes -= record->bytes;
        audit->bytes -= record->bytes;
        *record = (audit_record){.next_free = audit->free_record};
        audit->free_record = (uint32_t)entry.handle + 1;
    }
    berth_mutex_unlock(&audit->lock);
}

void berth_audit_note_move(berth_audit* audit, const void* from, const void* to) {
    berth_address_entry entry;
    berth_mutex_lock(&audit->lock);
    if (berth_address_map_remove(&audit->addresses, from, &entry)) {
        audit->records.items[entry.handle].data = to;
        entry.address = to;
        berth_address_map_add(&audit->addresses, entry);
    }
    berth_mutex_unlock(&audit->lock);
}

bool berth_audit_query_site(berth_audit* audit, const void* data, berth_audit_site* out_site) {
    berth_address_entry entry;
    *out_site = other_site;
    berth_mutex_lock(&audit->lock);
    const bool is_known = berth_address_map_remove(&audit->addresses, data, &entry);
    if (is_known) {
        *out_site = audit->places.items[audit->records.items[entry.handle].site].site;
        berth_address_map_add(&audit->addresses, entry);
    }
    berth_mutex_unlock(&audit->lock);
    return is_known;
}

void berth_audit_count_damage(berth_audit* audit) {
    berth_mutex_lock(&audit->lock);
    ++audit->damaged;
    berth_mutex_unlock(&audit->lock);
}

uint64_t berth_audit_query_damaged(berth_audit* audit) {
    berth_mutex_lock(&audit->lock);
    const uint64_t damaged = audit->damaged;
    berth_mutex_unlock(&audit->lock);
    return damaged;
}

// --- Leaks ---------------------------------------------------------------------------------------

void berth_audit_query_out(berth_audit* audit, uint64_t* out_blocks, uint64_t* out_bytes) {
    berth_mutex_lock(&audit->lock);
    *out_blocks = audit->addresses.count;
    *out_bytes = audit->bytes;
    berth_mutex_unlock(&audit->lock);
}

void berth_audit_write_site(berth_text* text, const berth_audit_site* site) {
    berth_text_add(text, " %s", site->op);
    if (site->step != NULL) berth_text_add(text, " in step %.120s", site->step);
    if (site->event != BERTH_AUDIT_NO_EVENT) berth_text_add(text, ", event %" PRIu32, site->event);
}

/// A place that has blocks out, for sorting.
typedef struct open_place {
    uint64_t bytes;
    uint64_t oldest; ///< number of its first take that is out
    uint32_t place;
} open_place;

static int by_bytes(const void* left, const void* right) {
    const open_place *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a->oldest < b->oldest ? -1 : a->oldest > b->oldest;
}

static void find_oldest(const berth_audit* audit, open_place* open) {
    for (size_t i = 0; i < audit->places.count; ++i)
        open[i] = (open_place){audit->places.items[i].bytes, UINT64_MAX, (uint32_t)i};
    for (size_t i = 0; i < audit->records.count; ++i) {
        const audit_record* record = &audit->records.items[i];
        if (record->data != NULL && record->number < open[record->site].oldest)
            open[record->site].oldest = record->number;
    }
}

static void write_places(const berth_audit* audit, const open_place* open, berth_text* text) {
    for (size_t i = 0; i < audit->places.count; ++i) {
        const audit_place* place = &audit->places.items[open[i].place];
        if (place->blocks == 0) continue;
        berth_text_add(text, "%" PRIu64 " blocks, %" PRIu64 " bytes:", place->blocks, place->bytes);
        berth_audit_write_site(text, &place->site);
        berth_text_add(text, ", oldest %" PRIu64 " takes ago\n", audit->takes - open[i].oldest);
    }
}

berth_status berth_audit_write_leaks(berth_audit* audit, berth_text* text) {
    berth_mutex_lock(&audit->lock);
    open_place* open = berth_host_calloc(audit->host, audit->places.count, sizeof *open);
    if (open != NULL) {
        find_oldest(audit, open);
        qsort(open, audit->places.count, sizeof *open, by_bytes);
        write_places(audit, open, text);
    }
    berth_mutex_unlock(&audit->lock);
    berth_host_free(audit->host, open);
    return open != NULL ? BERTH_OK
                        : berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no host memory to sort what is out");
}

// --- History -------------------------------------------------------------------------------------

static const audit_event* event_at(const berth_audit* audit, uint64_t index) {
    return &audit->events[index % audit->event_capacity];
}

/// The number of the first block whose take is remembered.
static uint64_t first_number(const berth_audit* audit, uint64_t first_event) {
    for (uint64_t i = first_event; i < audit->event_count; ++i)
        if (!event_at(audit, i)->is_give) return event_at(audit, i)->number;
    return audit->takes + 1;
}

/// Blocks that were out before the first event: those given back since, and those still out.
static void write_live(const berth_audit* audit, uint64_t first_event, berth_byte_writer* out) {
    const uint64_t first = first_number(audit, first_event);
    for (uint64_t i = first_event; i < audit->event_count; ++i) {
        const audit_event* event = event_at(audit, i);
        if (event->is_give && event->number < first)
            berth_write_format(out,
                               "L,%" PRIu64 ",%" PRIu64 ",,%" PRIu32 "\n",
                               event->number,
                               event->bytes,
                               event->site);
    }
    for (size_t i = 0; i < audit->records.count; ++i) {
        const audit_record* record = &audit->records.items[i];
        if (record->data != NULL && record->kind == BERTH_AUDIT_BLOCK && record->number < first)
            berth_write_format(out,
                               "L,%" PRIu64 ",%" PRIu64 ",,%" PRIu32 "\n",
                               record->number,
                               record->bytes,
                               record->site);
    }
}

static void write_name(berth_byte_writer* out, const char* name) {
    for (; *name != '\0'; ++name) {
        const char c = (unsigned char)*name < ' ' || *name == 0x7F ? '_' : *name;
        berth_write_bytes(out, c == '"' ? "\"\"" : &c, c == '"' ? 2 : 1);
    }
}

/// The label of a place: op, or step/op.
static void write_label(berth_byte_writer* out, const berth_audit_site* site) {
    berth_write_format(out, "O,\"");
    if (site->step != NULL) {
        write_name(out, site->step);
        berth_write_format(out, "/");
    }
    write_name(out, site->op);
    berth_write_format(out, "\",,,\n");
}

void berth_audit_write_history(berth_audit* audit, berth_byte_writer* out) {
    berth_mutex_lock(&audit->lock);
    const uint64_t count = audit->event_count;
    const uint64_t first = count > audit->event_capacity ? count - audit->event_capacity : 0;
    write_live(audit, first, out);
    uint32_t labelled = UINT32_MAX;
    for (uint64_t i = first; i < count; ++i) {
        const audit_event* event = event_at(audit, i);
        if (!event->is_give && event->site != labelled) {
            write_label(out, &audit->places.items[event->site].site);
            labelled = event->site;
        }
        berth_write_format(out,
                           "%c,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",",
                           event->is_give ? 'F' : 'A',
                           event->number,
                           event->bytes,
                           event->time_us);
        berth_write_format(out, "%" PRId64 "\n", event->is_give ? -1 : (int64_t)event->site);
    }
    berth_mutex_unlock(&audit->lock);
}
