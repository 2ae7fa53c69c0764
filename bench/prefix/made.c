// SPDX-License-Identifier: Apache-2.0
// Made streams: what a policy must not spoil. All draws are independent, and the same on every
// machine.
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "kit/fail.h"
#include "prefix/stream.h"

enum { BLOCK_TOKENS = 16, MOST_LIVE = 512, MOST_BLOCKS = 4096 };

typedef struct maker {
    stream* out;
    uint64_t random;
    int64_t next_id;
} maker;

/// A conversation: what it has been so far.
typedef struct talk {
    size_t blocks;
    uint64_t turns_left;
    int64_t ids[MOST_BLOCKS];
} talk;

static uint64_t draw(maker* m) {
    uint64_t x = m->random += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

static uint64_t below(maker* m, uint64_t bound) { return draw(m) % bound; }

/// Exponential with a mean, rounded down.
static uint64_t spread(maker* m, double mean) {
    const double unit = ((double)(draw(m) >> 11) + 1) * 0x1p-53;
    return (uint64_t)(-log(unit) * mean);
}

static maker begin(stream* out, uint64_t seed) {
    *out = (stream){.block_tokens = BLOCK_TOKENS};
    return (maker){.out = out, .random = seed, .next_id = 1};
}

/// What conversations are like.
typedef struct talks {
    size_t live;           ///< at one time
    double turns;          ///< mean number
    double message_blocks; ///< mean length
    double answer_blocks;
    size_t systems; ///< shared beginnings to choose from; 0: none
    size_t system_blocks;
    uint32_t tenant;
} talks;

static talk* make_talks(const talks* like) {
    talk* all = calloc(like->live, sizeof *all);
    if (all == NULL) bench_fail_for("stream", "no memory");
    return all;
}

static void begin_talk(maker* m, const talks* like, talk* t) {
    t->blocks = 0;
    t->turns_left = 1 + spread(m, like->turns - 1);
    if (like->systems == 0) return;
    // ids of shared beginnings are negative, so that they are not those of others
    const int64_t system = (int64_t)below(m, like->systems) + 1;
    for (size_t i = 0; i < like->system_blocks; ++i)
        t->ids[t->blocks++] = -(system * 1000 + (int64_t)i) - (int64_t)like->tenant * 1000000;
}

static void lengthen(maker* m, talk* t, uint64_t blocks) {
    for (uint64_t i = 0; i < blocks && t->blocks < MOST_BLOCKS; ++i)
        t->ids[t->blocks++] = m->next_id++;
}

/// One of the conversations, at random, goes on.
static void turn(maker* m, const talks* like, talk* all) {
    talk* t = &all[below(m, like->live)];
    if (t->turns_left == 0) begin_talk(m, like, t);
    --t->turns_left;
    lengthen(m, t, 1 + spread(m, like->message_blocks));
    const size_t prompt = t->blocks;
    lengthen(m, t, spread(m, like->answer_blocks));
    stream_begin_request(m->out, like->tenant);
    for (size_t i = 0; i < t->blocks; ++i)
        stream_add_block(m->out, t->ids[i], i < prompt);
}

static void add_unique(maker* m, uint64_t blocks, uint32_t tenant) {
    stream_begin_request(m->out, tenant);
    for (uint64_t i = 0; i < blocks; ++i)
        stream_add_block(m->out, m->next_id++, true);
}

static void make_conversations(stream* out) {
    maker m = begin(out, 1);
    const talks like = {.live = 200, .turns = 5, .message_blocks = 8, .answer_blocks = 6};
    talk* all = make_talks(&like);
    for (int i = 0; i < 6000; ++i)
        turn(&m, &like, all);
    free(all);
}

static void make_system_prompts(stream* out) {
    maker m = begin(out, 2);
    const talks like = {
        .live = 1, .turns = 1, .message_blocks = 20, .systems = 8, .system_blocks = 40};
    talk* all = make_talks(&like);
    for (int i = 0; i < 8000; ++i)
        turn(&m, &like, all);
    free(all);
}

static void make_scans(stream* out) {
    maker m = begin(out, 3);
    const talks like = {.live = 100,
                        .turns = 6,
                        .message_blocks = 8,
                        .answer_blocks = 6,
                        .systems = 2,
                        .system_blocks = 10};
    talk* all = make_talks(&like);
    for (int i = 0; i < 4000; ++i) {
        turn(&m, &like, all);
        if (below(&m, 10) < 3) add_unique(&m, 50 + below(&m, 150), 0);
    }
    free(all);
}

static void make_flood(stream* out) {
    maker m = begin(out, 4);
    const talks like = {.live = 100,
                        .turns = 6,
                        .message_blocks = 8,
                        .answer_blocks = 6,
                        .systems = 2,
                        .system_blocks = 10,
                        .tenant = 1};
    talk* all = make_talks(&like);
    for (int i = 0; i < 10000; ++i) {
        if (below(&m, 4) == 0)
            turn(&m, &like, all);
        else
            add_unique(&m, 1 + spread(&m, 40), 2);
    }
    free(all);
}

/// Documents that come again soon or never: the stream that the least recently used order is made
/// for.
static void make_recent(stream* out) {
    maker m = begin(out, 5);
    enum { KEPT = MOST_LIVE };
    static talk kept[KEPT]; // a ring, the one used last behind the others
    size_t count = 0;
    for (int i = 0; i < 8000; ++i) {
        const size_t back = (size_t)spread(&m, 60);
        talk document = {.blocks = 0};
        const bool is_new = back >= count || back >= KEPT || below(&m, 2) == 0;
        if (is_new)
            lengthen(&m, &document, 5 + below(&m, 35));
        else
            document = kept[(count - 1 - back) % KEPT];
        kept[count++ % KEPT] = document;
        stream_begin_request(out, 0);
        for (size_t j = 0; j < document.blocks; ++j)
            stream_add_block(out, document.ids[j], true);
    }
}

/// Documents that come exactly twice: what has been found once is not found again.
static void make_twice(stream* out) {
    maker m = begin(out, 6);
    enum { WAITING = 150 };
    static talk waiting[WAITING];
    for (size_t i = 0; i < 8000; ++i) {
        talk* document = &waiting[i % WAITING];
        const bool is_second = document->blocks > 0;
        if (!is_second) lengthen(&m, document, 5 + below(&m, 35));
        stream_begin_request(out, 0);
        for (size_t j = 0; j < document->blocks; ++j)
            stream_add_block(out, document->ids[j], true);
        if (is_second) document->blocks = 0;
    }
}

/// Popular documents, others after a while.
static void make_phases(stream* out) {
    maker m = begin(out, 7);
    enum { DOCUMENTS = 600 };
    static talk documents[DOCUMENTS];
    for (int i = 0; i < 10000; ++i) {
        if (i % 2500 == 0) {
            for (int d = 0; d < DOCUMENTS; ++d) {
                documents[d].blocks = 0;
                lengthen(&m, &documents[d], 5 + below(&m, 35));
            }
        }
        const double unit = ((double)(draw(&m) >> 11) + 1) * 0x1p-53;
        const double rank = pow(unit, -1 / 0.7) - 1;
        const talk* document = &documents[rank < DOCUMENTS - 1 ? (int)rank : DOCUMENTS - 1];
        stream_begin_request(out, 0);
        for (size_t j = 0; j < document->blocks; ++j)
            stream_add_block(out, document->ids[j], true);
        for (int j = 0; j < 3; ++j)
            stream_add_block(out, m.next_id++, true);
    }
}

const stream_kind stream_kinds[] = {
    {"made:conversations", make_conversations},
    {"made:system-prompts", make_system_prompts},
    {"made:scans", make_scans},
    {"made:flood", make_flood},
    {"made:recent", make_recent},
    {"made:twice", make_twice},
    {"made:phases", make_phases},
    {NULL, NULL},
};
