// SPDX-License-Identifier: Apache-2.0
// Contexts of two lengths, found through tables of hashes and compared in full.
#include "health/echo.h"

#include "device/device.h"

#include <string.h>

#define LONG_CONTEXT 8u
#define SHORT_CONTEXT 3u
#define MATCHES 2u     ///< places looked at
#define CANDIDATES 6u  ///< tried for them
#define FOLLOWERS 512u ///< requests looked at after each
#define MOST_SCALE 8.0

static const uint32_t lengths[BERTH_ECHO_ORDERS] = {LONG_CONTEXT, SHORT_CONTEXT};

static berth_echo_entry* entry_at(berth_echo* echo, uint32_t number) {
    return &echo->entries[number % BERTH_ECHO_ENTRIES];
}

/// How many requests are remembered before number `number`.
static uint32_t remembered_before(const berth_echo* echo, uint32_t number) {
    const uint32_t kept = echo->count < BERTH_ECHO_ENTRIES ? echo->count : BERTH_ECHO_ENTRIES;
    return kept - (echo->count - number);
}

void berth_echo_note(
    berth_echo* echo, uint64_t site, uint64_t size_bytes, uint64_t takes, bool is_event) {
    const uint64_t units = (size_bytes + BERTH_ALIGNMENT - 1) / BERTH_ALIGNMENT;
    // the record begins anew before its numbers come round
    if (echo->count == UINT32_MAX) memset(echo, 0, sizeof *echo);
    *entry_at(echo, echo->count++) = (berth_echo_entry){
        .symbol = (uint32_t)((site * UINT64_C(0x9E3779B97F4A7C15)) >> 32),
        .takes = (uint32_t)takes,
        .units = units > UINT32_MAX ? UINT32_MAX : (uint32_t)units,
        .is_event = is_event,
    };
}

/// The key of the `length` requests up to number `number`.
static uint32_t key_of(berth_echo* echo, uint32_t number, uint32_t length) {
    uint64_t hash = length;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ entry_at(echo, number - i)->symbol) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 40) % BERTH_ECHO_KEYS;
}

/// Enters what is new into the tables.
static void index_new(berth_echo* echo) {
    if (echo->count - echo->indexed > BERTH_ECHO_ENTRIES / 2)
        echo->indexed = echo->count - BERTH_ECHO_ENTRIES / 2;
    for (; echo->indexed < echo->count; echo->indexed++) {
        for (uint32_t order = 0; order < BERTH_ECHO_ORDERS; order++) {
            if (remembered_before(echo, echo->indexed) + 1 < lengths[order]) continue;
            uint32_t* head = &echo->heads[order][key_of(echo, echo->indexed, lengths[order])];
            entry_at(echo, echo->indexed)->before[order] = *head;
            *head = echo->indexed + 1;
        }
    }
}

/// True if the `length` requests up to number `then` are those up to number `now`; writes how much
/// larger these are.
static bool agree(
    berth_echo* echo, uint32_t then, uint32_t now, uint32_t length, double* out_scale) {
    double now_units = 1, then_units = 1;
    for (uint32_t i = 0; i < length; i++) {
        const berth_echo_entry* a = entry_at(echo, then - i);
        const berth_echo_entry* b = entry_at(echo, now - i);
        if (a->symbol != b->symbol) return false;
        then_units += a->units;
        now_units += b->units;
    }
    const double scale = now_units / then_units;
    *out_scale = scale > MOST_SCALE ? MOST_SCALE : scale < 1 / MOST_SCALE ? 1 / MOST_SCALE : scale;
    return true;
}

typedef struct question {
    uint64_t horizon;
    double above, limit; ///< in units
} question;

/// Adds what followed request number `then`. What is nearer than the horizon goes round: the
/// program is taken to be in a loop of that length.
static void follow(berth_echo* echo,
                   uint32_t then,
                   const question* asked,
                   double scale,
                   berth_echo_answer* answer) {
    const uint32_t last = echo->count - 1;
    const uint32_t span = entry_at(echo, last)->takes - entry_at(echo, then)->takes;
    uint64_t passed = 0;
    uint32_t at = then;
    bool has_event = false;
    for (uint32_t i = 0; i < FOLLOWERS; i++) {
        if (at == last) {
            at = then;
            passed += span;
        }
        at++;
        const berth_echo_entry* e = entry_at(echo, at);
        if (passed + (e->takes - entry_at(echo, then)->takes) > asked->horizon) break;
        const double units = scale * e->units;
        has_event = has_event || e->is_event;
        answer->between += units > asked->above && units <= asked->limit ? 1 : 0;
        const uint64_t bytes = (uint64_t)(units * BERTH_ALIGNMENT);
        if (bytes > answer->largest_bytes) answer->largest_bytes = bytes;
    }
    answer->event_share += has_event ? 1 : 0;
    answer->matches++;
}

static void search(berth_echo* echo,
                   uint32_t order,
                   const question* asked,
                   berth_echo_answer* answer) {
    const uint32_t length = lengths[order];
    const uint32_t now = echo->count - 1;
    uint32_t number = entry_at(echo, now)->before[order];
    for (uint32_t i = 0; i < CANDIDATES && number != 0 && answer->matches < MATCHES; i++) {
        const uint32_t then = number - 1;
        // what was overwritten since, or is about to be, is no place to look at
        if (now - then + length >= BERTH_ECHO_ENTRIES) return;
        double scale = 1;
        if (agree(echo, then, now, length, &scale)) follow(echo, then, asked, scale, answer);
        number = entry_at(echo, then)->before[order];
    }
}

void berth_echo_ask(berth_echo* echo,
                    uint64_t horizon,
                    uint64_t above_bytes,
                    uint64_t limit_bytes,
                    berth_echo_answer* out_answer) {
    *out_answer = (berth_echo_answer){0};
    index_new(echo);
    const question asked = {.horizon = horizon,
                            .above = (double)above_bytes / BERTH_ALIGNMENT,
                            .limit = (double)limit_bytes / BERTH_ALIGNMENT};
    for (uint32_t order = 0; order < BERTH_ECHO_ORDERS && out_answer->matches == 0; order++) {
        if (echo->count <= lengths[order]) continue;
        search(echo, order, &asked, out_answer);
        out_answer->is_long = order == 0 && out_answer->matches > 0;
    }
    if (out_answer->matches == 0) return;
    out_answer->event_share /= out_answer->matches;
    out_answer->between /= out_answer->matches;
}
