// SPDX-License-Identifier: Apache-2.0
// Patterns made to break memory into pieces: what is given back lies between what stays, then a
// request comes that only whole granules can serve.
#include "frag/tape.h"

#include <stdlib.h>

#include "kit/fail.h"

#define CAPACITY (2048 * TAPE_MIB)
#define MOST_BLOCKS 65536u
#define PROBE_EVENTS 500

typedef struct builder {
    tape tape;
    uint64_t random;
    uint32_t blocks[MOST_BLOCKS];
    uint32_t count;
} builder;

static builder* begin(const char* name, uint64_t seed) {
    static builder b;
    b = (builder){.tape = tape_make(name, CAPACITY), .random = seed};
    return &b;
}

static uint64_t below(builder* b, uint64_t bound) {
    b->random = b->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (b->random >> 33) % bound;
}

/// Takes blocks of `least` to `most` bytes until `percent` of the device are alive.
static void fill(builder* b, uint64_t least, uint64_t most, uint64_t percent, uint64_t site) {
    for (;;) {
        const uint64_t bytes = least + below(b, most - least + 1);
        if (b->count == MOST_BLOCKS || b->tape.live_bytes + bytes > CAPACITY / 100 * percent)
            return;
        b->blocks[b->count++] = tape_take(&b->tape, bytes, site);
    }
}

static void give(builder* b, uint32_t at) {
    tape_give(&b->tape, b->blocks[at]);
    b->blocks[at] = UINT32_MAX;
}

/// Forgets what has been given back; the order stays.
static void close_ranks(builder* b) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < b->count; i++)
        if (b->blocks[i] != UINT32_MAX) b->blocks[kept++] = b->blocks[i];
    b->count = kept;
}

/// Gives back all but every `nth` block in the order of their making.
static void keep_every(builder* b, uint32_t nth) {
    for (uint32_t i = 0; i < b->count; i++)
        if (i % nth != 0) give(b, i);
    close_ranks(b);
}

static void keep_at_random(builder* b, uint64_t percent) {
    for (uint32_t i = 0; i < b->count; i++)
        if (below(b, 100) >= percent) give(b, i);
    close_ranks(b);
}

static void give_all(builder* b) {
    for (uint32_t i = 0; i < b->count; i++)
        give(b, i);
    b->count = 0;
    tape_step(&b->tape);
}

/// Requests of so many granules, one after the other, each alive until the last is there.
static void need(builder* b, uint32_t count, uint64_t granules) {
    uint32_t ids[8];
    for (uint32_t i = 0; i < count; i++)
        ids[i] = tape_need(&b->tape, granules * TAPE_GRANULE, 900);
    for (uint32_t i = 0; i < count; i++)
        tape_give(&b->tape, ids[i]);
    tape_step(&b->tape);
}

static tape finish(builder* b) {
    give_all(b);
    tape_add_probes(&b->tape, PROBE_EVENTS);
    return b->tape;
}

/// Every other block of one size goes.
static tape combs(const char* name) {
    builder* b = begin(name, 1);
    static const uint64_t sizes[] = {
        256 * TAPE_KIB, 512 * TAPE_KIB, 900 * TAPE_KIB, TAPE_MIB, 3 * TAPE_MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fill(b, sizes[i], sizes[i], 97, 1 + i);
        keep_every(b, 2);
        need(b, 2, 64);
        need(b, 1, 256);
        give_all(b);
    }
    return finish(b);
}

/// Ramps of sizes that rise and fall, of which some teeth stay.
static tape sawtooth(const char* name) {
    builder* b = begin(name, 2);
    for (int tooth = 0; tooth < 12; tooth++) {
        for (uint64_t step = 1; step <= 160; step++) {
            const uint64_t bytes = (tooth % 2 == 0 ? step : 161 - step) * 96 * TAPE_KIB;
            if (b->tape.live_bytes + bytes > CAPACITY / 100 * 95) break;
            b->blocks[b->count++] = tape_take(&b->tape, bytes, 10 + (uint64_t)tooth);
        }
        tape_step(&b->tape);
        keep_at_random(b, 40);
        if (b->tape.live_bytes < CAPACITY / 4 * 3) need(b, 1, 128);
    }
    return finish(b);
}

/// Small blocks fill the device, some stay, then large ones come.
static tape small_then_large(const char* name) {
    builder* b = begin(name, 3);
    for (int round = 0; round < 3; round++) {
        fill(b, 16 * TAPE_KIB, 256 * TAPE_KIB, 96, 20);
        keep_at_random(b, 30);
        need(b, 4, 96);
        fill(b, 8 * TAPE_MIB, 40 * TAPE_MIB, 95, 21);
        give_all(b);
    }
    return finish(b);
}

/// Sixteen blocks a granule, of which one lives on.
static tape survivors(const char* name) {
    builder* b = begin(name, 4);
    for (int round = 0; round < 3; round++) {
        fill(b, 128 * TAPE_KIB, 128 * TAPE_KIB, 97, 30);
        keep_every(b, 16);
        need(b, 2, 128);
        need(b, 1, 640);
        give_all(b);
    }
    return finish(b);
}

/// A weight takes a part of a hole that a larger request will want again.
static tape weight_in_hole(const char* name) {
    builder* b = begin(name, 5);
    for (int round = 0; round < 4; round++) {
        fill(b, 24 * TAPE_MIB, 24 * TAPE_MIB, 50, 40);
        const uint32_t hole = tape_take(&b->tape, 530 * TAPE_MIB, 41);
        fill(b, 24 * TAPE_MIB, 24 * TAPE_MIB, 94, 40);
        tape_give(&b->tape, hole);
        tape_step(&b->tape);
        const uint32_t weight = tape_take(&b->tape, 270 * TAPE_MIB, 42);
        need(b, 1, 170);
        keep_every(b, 2);
        need(b, 1, 400);
        tape_give(&b->tape, weight);
        give_all(b);
    }
    return finish(b);
}

/// Sizes over five orders of magnitude that come and go near the limit.
static tape mix(const char* name) {
    builder* b = begin(name, 6);
    for (int i = 0; i < 30000; i++) {
        const uint64_t bytes = TAPE_KIB + below(b, UINT64_C(1) << (10 + below(b, 15)));
        while (b->count == MOST_BLOCKS ||
               (b->count > 0 && b->tape.live_bytes + bytes > CAPACITY / 100 * 95)) {
            const uint32_t at = (uint32_t)below(b, b->count);
            tape_give(&b->tape, b->blocks[at]);
            b->blocks[at] = b->blocks[--b->count];
        }
        b->blocks[b->count++] = tape_take(&b->tape, bytes, 50 + bytes / TAPE_MIB);
        if (i % 50 == 0) tape_step(&b->tape);
    }
    return finish(b);
}

const tape_pattern tape_adversarial_patterns[] = {
    {"c-comb", combs},
    {"c-sawtooth", sawtooth},
    {"c-small-then-large", small_then_large},
    {"c-survivors", survivors},
    {"c-weight-in-hole", weight_in_hole},
    {"c-mix", mix},
    {NULL, NULL},
};
