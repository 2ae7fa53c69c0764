// SPDX-License-Identifier: Apache-2.0
// Recorded allocations of an eager program: runs of several sequence lengths one after the other,
// and two programs that take turns. What a recording leaves alive ends with it.
#include "frag/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/bench_data.h"
#include "kit/fail.h"

/// Of the device, where the peak is to be 95 %.
#define FULL_PERCENT 95
#define PROBE_EVENTS 400 // between two probes, at least

typedef struct recorded {
    char op;
    uint32_t id;
    uint64_t bytes;
    uint64_t site;
} recorded;

typedef struct recording {
    recorded* items; ///< [count]
    size_t count;
    uint32_t ids;
} recording;

/// A recording on its way.
typedef struct player {
    const recording* from;
    size_t at;
    uint32_t* blocks; ///< [ids], ids on the tape; UINT32_MAX: not alive
    uint64_t sites;   ///< added to the recording's
} player;

static void* checked_realloc(void* block, size_t bytes) {
    void* memory = realloc(block, bytes);
    if (memory == NULL) bench_fail_for("recordings", "no memory");
    return memory;
}

static recording read_recording(const char* stem) {
    char path[4096], name[256], line[256];
    snprintf(name, sizeof name, "alloc-traces/%s.csv", stem);
    FILE* file = fopen(bench_shared_data(name, path, sizeof path), "r");
    if (file == NULL) bench_fail_for(path, "cannot be read");
    recording r = {0};
    size_t room = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        recorded item = {.op = line[0]};
        long long id = 0, bytes = 0, time = 0, site = 0;
        if (sscanf(line + 1, ",%lld,%lld,%lld,%lld", &id, &bytes, &time, &site) != 4) continue;
        if (id < 0) continue; // segments of the recorded allocator
        item.id = (uint32_t)id;
        item.bytes = (uint64_t)bytes;
        item.site = (uint64_t)(site + 1);
        if (r.count == room) {
            room = room == 0 ? 4096 : 2 * room;
            r.items = checked_realloc(r.items, room * sizeof *r.items);
        }
        r.items[r.count++] = item;
        if (item.id >= r.ids) r.ids = item.id + 1;
    }
    fclose(file);
    return r;
}

static player start(const recording* from, uint64_t sites) {
    player p = {.from = from, .sites = sites};
    p.blocks = checked_realloc(NULL, from->ids * sizeof *p.blocks);
    memset(p.blocks, 0xFF, from->ids * sizeof *p.blocks);
    return p;
}

/// Plays one event; false at the end, when what is alive has been given back.
static bool play(tape* t, player* p) {
    if (p->at == p->from->count) {
        for (uint32_t id = 0; id < p->from->ids; id++)
            if (p->blocks[id] != UINT32_MAX) tape_give(t, p->blocks[id]);
        free(p->blocks);
        tape_step(t);
        return false;
    }
    const recorded* item = &p->from->items[p->at++];
    if (item->op == 'F') {
        tape_give(t, p->blocks[item->id]);
        p->blocks[item->id] = UINT32_MAX;
    } else {
        p->blocks[item->id] = tape_take(t, item->bytes, p->sites + item->site);
    }
    return true;
}

/// Sets the capacity, now that the peak is known.
static void finish(tape* t) {
    t->capacity_bytes = t->peak_bytes / FULL_PERCENT * 100;
    tape_add_probes(t, PROBE_EVENTS);
}

/// The recordings in the order of `order` [count], each to its end.
static tape one_after_the_other(const char* name,
                                const char* const* stems,
                                size_t stem_count,
                                const uint8_t* order,
                                size_t count) {
    tape t = tape_make(name, 0);
    recording recordings[4];
    for (size_t i = 0; i < stem_count; i++)
        recordings[i] = read_recording(stems[i]);
    for (size_t i = 0; i < count; i++) {
        // the same lines of the program, whatever the length
        player p = start(&recordings[order[i]], 1000);
        while (play(&t, &p)) {
        }
    }
    for (size_t i = 0; i < stem_count; i++)
        free(recordings[i].items);
    finish(&t);
    return t;
}

static tape inference(const char* name) {
    static const char* const stems[] = {
        "torch_infer_ctx128", "torch_infer_ctx512", "torch_infer_ctx1024"};
    static const uint8_t order[] = {0, 1, 2, 0, 2, 1, 1, 0, 0, 2, 2, 1, 0, 1, 2, 0, 2, 0, 1, 2};
    return one_after_the_other(name, stems, 3, order, sizeof order);
}

static tape training(const char* name) {
    static const char* const stems[] = {"torch_train_ctx128", "torch_train_ctx1024"};
    static const uint8_t order[] = {0, 1, 0, 1, 1, 0};
    return one_after_the_other(name, stems, 2, order, sizeof order);
}

/// Two programs in one process, sixteen events each in turn.
static tape in_turns(const char* name) {
    tape t = tape_make(name, 0);
    static const char* const stems[] = {
        "torch_infer_ctx128", "torch_infer_ctx512", "torch_infer_ctx1024"};
    recording recordings[3];
    for (int i = 0; i < 3; i++)
        recordings[i] = read_recording(stems[i]);
    for (int round = 0; round < 6; round++) {
        player players[2] = {start(&recordings[round % 3], 1000),
                             start(&recordings[(round + 1) % 3], 2000)};
        bool playing[2] = {true, true};
        while (playing[0] || playing[1])
            for (int who = 0; who < 2; who++)
                for (int i = 0; i < 16 && playing[who]; i++)
                    playing[who] = play(&t, &players[who]);
    }
    for (int i = 0; i < 3; i++)
        free(recordings[i].items);
    finish(&t);
    return t;
}

const tape_pattern tape_replay_patterns[] = {
    {"b-inference", inference},
    {"b-inference-in-turns", in_turns},
    {"b-training", training},
    {NULL, NULL},
};
