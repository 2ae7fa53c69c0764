// SPDX-License-Identifier: Apache-2.0
// The loads: a language model's server under recorded request lengths, recorded eager steps at
// changing sizes, and mixes made to fragment.
#include "forecast/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/bench_data.h"
#include "kit/fail.h"

#define KIB UINT64_C(1024)

typedef struct dice {
    uint64_t state;
} dice;

static uint64_t roll(dice* d, uint64_t bound) {
    uint64_t x = d->state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (x ^ (x >> 31)) % bound;
}

static uint64_t roll_between(dice* d, uint64_t low, uint64_t high) {
    return low + roll(d, high - low + 1);
}

// --- A server -----------------------------------------------------------------------------------

#define LAYERS 16
#define TENSORS (2 * LAYERS) // of keys and values, a sequence
#define RUNNING 512          // sequences at most
#define GROWTH 64            // tokens that a tensor is lengthened by
#define STEP_TOKENS 8

typedef struct request {
    uint64_t prompt, answer;
} request;

typedef struct sequence {
    uint32_t tensors[TENSORS];
    uint64_t tokens, room, left;
} sequence;

typedef struct server {
    stand* stand;
    uint64_t unit;
    request* requests; ///< [count], taken in turn from `next` on
    size_t count, next;
    sequence running[RUNNING]; ///< oldest first
    size_t running_count;
} server;

static uint64_t number_after(const char* line, const char* key) {
    const char* at = strstr(line, key);
    return at == NULL ? 0 : strtoull(at + strlen(key), NULL, 10);
}

/// The lengths on a line: the last two columns, or two fields.
static request parse_request(const char* line) {
    if (line[0] == '{')
        return (request){number_after(line, "\"input_length\":"),
                         number_after(line, "\"output_length\":")};
    const char* last = strrchr(line, ',');
    if (last == NULL) return (request){0, 0};
    const char* before = last;
    while (before > line && before[-1] != ',')
        before--;
    return (request){strtoull(before, NULL, 10), strtoull(last + 1, NULL, 10)};
}

static FILE* open_data(const char* file) {
    char path[4096];
    FILE* stream = fopen(bench_shared_data(file, path, sizeof path), "r");
    if (stream == NULL) bench_fail_for(path, "cannot be read");
    return stream;
}

static void* grow(void* memory, size_t bytes) {
    memory = realloc(memory, bytes);
    if (memory == NULL) bench_fail_for("load", "no memory");
    return memory;
}

static void read_requests(server* s, const char* file, load_part part) {
    static char line[1 << 16];
    FILE* stream = open_data(file);
    size_t room = 0;
    while (fgets(line, sizeof line, stream) != NULL) {
        const request r = parse_request(line);
        if (r.prompt == 0 || r.answer == 0) continue; // the names of the columns
        if (s->count == room) {
            room = 2 * room + 4096;
            s->requests = grow(s->requests, room * sizeof *s->requests);
        }
        s->requests[s->count++] = r;
    }
    fclose(stream);
    const size_t half = s->count / 2;
    if (half == 0) bench_fail_for(file, "holds no requests");
    if (part == LOAD_SECOND_HALF)
        memmove(s->requests, s->requests + half, half * sizeof *s->requests);
    s->count = half;
}

static void end_sequence(server* s, size_t at) {
    for (int i = 0; i < TENSORS; i++)
        stand_give(s->stand, s->running[at].tensors[i]);
    s->running_count--;
    memmove(&s->running[at], &s->running[at + 1], (s->running_count - at) * sizeof *s->running);
}

/// The activations of one layer for `tokens` rows.
static void run_layer(server* s, uint64_t tokens) {
    const uint64_t width = tokens * s->unit;
    const uint32_t normed = stand_take(s->stand, width, 10);
    const uint32_t query = stand_take(s->stand, width, 11);
    const uint32_t attended = stand_take(s->stand, width, 12);
    stand_give(s->stand, normed);
    const uint32_t wide = stand_take(s->stand, 4 * width, 13);
    stand_give(s->stand, query);
    stand_give(s->stand, wide);
    stand_give(s->stand, attended);
}

static uint64_t round_tokens(uint64_t tokens) { return (tokens + GROWTH - 1) / GROWTH * GROWTH; }

/// True if the sequence's tensors are there; else it has ended.
static bool begin_sequence(server* s, request r) {
    sequence* q = &s->running[s->running_count++];
    *q = (sequence){.tokens = r.prompt, .room = round_tokens(r.prompt + 1), .left = r.answer};
    bool complete = true;
    for (int i = 0; i < TENSORS; i++) {
        q->tensors[i] = stand_take(s->stand, q->room * s->unit, 1);
        complete = complete && q->tensors[i] != STAND_NONE;
        if (i % 2 != 0) run_layer(s, r.prompt);
    }
    if (!complete) end_sequence(s, s->running_count - 1);
    return complete;
}

static bool lengthen(server* s, sequence* q) {
    q->room = round_tokens(q->tokens + 1);
    for (int i = 0; i < TENSORS; i++) {
        const uint32_t longer = stand_take(s->stand, q->room * s->unit, 2);
        if (longer == STAND_NONE) return false;
        stand_give(s->stand, q->tensors[i]);
        q->tensors[i] = longer;
    }
    return true;
}

static void decode(server* s) {
    for (size_t i = s->running_count; i-- > 0;) {
        sequence* q = &s->running[i];
        const uint64_t step = q->left < STEP_TOKENS ? q->left : STEP_TOKENS;
        q->left -= step;
        q->tokens += step;
        const bool goes_on = q->left > 0 && (q->tokens < q->room || lengthen(s, q));
        if (!goes_on) end_sequence(s, i);
    }
    run_layer(s, s->running_count);
}

static void admit(server* s, uint64_t percent) {
    const uint64_t limit = STAND_CAPACITY / 100 * percent;
    while (s->running_count < RUNNING) {
        const request r = s->requests[s->next];
        const uint64_t need =
            round_tokens(r.prompt + 1) * s->unit * TENSORS + r.prompt * s->unit * 6;
        if (need > STAND_CAPACITY / 2) {
            s->next = (s->next + 1) % s->count;
            continue;
        }
        if (stand_live(s->stand) + need > limit) return;
        s->next = (s->next + 1) % s->count;
        if (!begin_sequence(s, r)) return;
    }
}

/// Busy hours and quiet ones follow one another.
static void serve(const load* self, stand* s, load_part part, uint64_t seed, uint64_t takes) {
    server host = {.stand = s, .unit = self->unit};
    dice d = {seed};
    read_requests(&host, self->file, part);
    host.next = (size_t)roll(&d, host.count);
    while (stand_takes(s) < takes) {
        const uint64_t percent =
            roll(&d, 3) == 0 ? roll_between(&d, 85, 97) : roll_between(&d, 40, 85);
        for (uint64_t steps = roll_between(&d, 20, 200); steps > 0 && stand_takes(s) < takes;
             steps--) {
            admit(&host, percent);
            decode(&host);
        }
    }
    while (host.running_count > 0)
        end_sequence(&host, host.running_count - 1);
    free(host.requests);
}

// --- Recorded steps -----------------------------------------------------------------------------

typedef struct call {
    bool is_take;
    uint32_t id;
    uint64_t bytes;
    uint64_t site;
} call;

typedef struct recording {
    call* calls; ///< [count]
    size_t count;
    uint32_t ids;
} recording;

/// The allocations and releases of a trace. Blocks that were there before it are left out.
static recording read_recording(const char* file) {
    recording r = {0};
    size_t room = 0;
    char line[256];
    FILE* stream = open_data(file);
    bool* is_known = NULL;
    uint32_t known = 0;
    while (fgets(line, sizeof line, stream) != NULL) {
        unsigned long long id, bytes, time;
        long long site;
        char op;
        if (sscanf(line, "%c,%llu,%llu,%llu,%lld", &op, &id, &bytes, &time, &site) != 5) continue;
        if (op != 'A' && op != 'F') continue;
        if (id >= known) {
            is_known = grow(is_known, (size_t)(2 * id + 64) * sizeof *is_known);
            memset(is_known + known, 0, (size_t)(2 * id + 64) - known);
            known = (uint32_t)(2 * id + 64);
        }
        if (op == 'F' && !is_known[id]) continue;
        is_known[id] = op == 'A';
        if (r.count == room) {
            room = 2 * room + 4096;
            r.calls = grow(r.calls, room * sizeof *r.calls);
        }
        r.calls[r.count++] =
            (call){op == 'A', (uint32_t)id, bytes, (uint64_t)(site < 0 ? 0 : site) + 1};
        if (id >= r.ids) r.ids = (uint32_t)id + 1;
    }
    fclose(stream);
    free(is_known);
    if (r.count == 0) bench_fail_for(file, "holds no allocations");
    return r;
}

/// One run of the recorded step, its sizes times `percent` / 100.
static void play(const recording* r, stand* s, uint64_t divisor, uint64_t percent, uint64_t takes) {
    uint32_t* blocks = grow(NULL, r->ids * sizeof *blocks);
    memset(blocks, 0xFF, r->ids * sizeof *blocks);
    for (size_t i = 0; i < r->count && stand_takes(s) < takes; i++) {
        const call* c = &r->calls[i];
        if (c->is_take) {
            const uint64_t bytes = c->bytes * percent / 100 / divisor;
            blocks[c->id] = stand_take(s, bytes > 0 ? bytes : 1, c->site);
        } else {
            stand_give(s, blocks[c->id]);
            blocks[c->id] = STAND_NONE;
        }
    }
    for (uint32_t i = 0; i < r->ids; i++)
        stand_give(s, blocks[i]);
    free(blocks);
}

/// Steps of changing size beside blocks that come and go slowly.
static void repeat(const load* self, stand* s, load_part part, uint64_t seed, uint64_t takes) {
    const recording r = read_recording(self->file);
    dice d = {seed};
    uint32_t slow[256];
    for (int i = 0; i < 256; i++)
        slow[i] = STAND_NONE;
    while (stand_takes(s) < takes) {
        // the halves differ in the lengths that occur
        const uint64_t percent =
            part == LOAD_FIRST_HALF ? roll_between(&d, 50, 100) : roll_between(&d, 60, 105);
        play(&r, s, self->unit, percent, takes);
        for (int k = 0; k < 24; k++) {
            const uint64_t at = roll(&d, 256);
            stand_give(s, slow[at]);
            const bool is_taken = stand_live(s) < STAND_CAPACITY / 2 && roll(&d, 3) > 0;
            slow[at] = is_taken ? stand_take(s, roll_between(&d, 16, 512) * KIB, 5000) : STAND_NONE;
        }
    }
    for (int i = 0; i < 256; i++)
        stand_give(s, slow[i]);
    free(r.calls);
}

// --- Made to fragment ---------------------------------------------------------------------------

#define CROWD 2048

typedef struct crowd {
    uint32_t blocks[CROWD];
    uint32_t count;
} crowd;

static void drop(crowd* c, stand* s, uint32_t at) {
    stand_give(s, c->blocks[at]);
    c->blocks[at] = c->blocks[--c->count];
}

static void drop_all(crowd* c, stand* s) {
    while (c->count > 0)
        drop(c, s, c->count - 1);
}

static void add(crowd* c, stand* s, uint64_t bytes, uint64_t site) {
    const uint32_t block = stand_take(s, bytes, site);
    if (block == STAND_NONE) return;
    if (c->count == CROWD) drop(c, s, 0);
    c->blocks[c->count++] = block;
}

/// Cycles after which an adversary changes its sizes.
#define CYCLES 12

/// Combs are built up, thinned, and built upon with wider blocks, in cycles.
static void comb(const load* self, stand* s, load_part part, uint64_t seed, uint64_t takes) {
    (void)self;
    (void)part;
    dice d = {seed};
    crowd c = {.count = 0};
    uint64_t tooth = 0, wide = 0, rows = 0, fill = 0;
    for (uint32_t cycle = 0; stand_takes(s) < takes; cycle++) {
        if (cycle % CYCLES == 0) {
            tooth = roll_between(&d, 8, 96) * KIB;
            wide = tooth * roll_between(&d, 2, 6);
            rows = roll_between(&d, 40, 120);
            fill = STAND_CAPACITY / 100 * roll_between(&d, 80, 95);
        }
        for (int i = 0; i < 600 && stand_live(s) + tooth < fill; i++)
            add(&c, s, tooth, 1);
        for (uint32_t i = c.count; i-- > 0;) {
            if (i % 2 == 0) drop(&c, s, i);
        }
        for (uint64_t i = 0; i < rows; i++) {
            add(&c, s, i % 4 == 3 ? wide : tooth / 2, 2 + i % 4);
            if (c.count > 0) drop(&c, s, (uint32_t)roll(&d, c.count));
        }
        drop_all(&c, s);
    }
    drop_all(&c, s);
}

/// Blocks of random sizes and lives; the sizes and how full the device is change from time to time.
static void mix(const load* self, stand* s, load_part part, uint64_t seed, uint64_t takes) {
    (void)self;
    (void)part;
    dice d = {seed};
    crowd c = {.count = 0};
    while (stand_takes(s) < takes) {
        const uint64_t fill = STAND_CAPACITY / 100 * roll_between(&d, 40, 95);
        const uint64_t most = UINT64_C(1) << roll_between(&d, 14, 20);
        const uint64_t rare = most << roll_between(&d, 1, 3);
        for (uint64_t i = roll_between(&d, 200, 2000); i > 0 && stand_takes(s) < takes; i--) {
            const uint64_t bytes =
                roll(&d, 40) == 0 ? roll_between(&d, most, rare) : roll_between(&d, 1024, most);
            while (c.count > 0 && stand_live(s) + bytes > fill)
                drop(&c, s, (uint32_t)roll(&d, c.count));
            add(&c, s, bytes, most);
        }
    }
    drop_all(&c, s);
}

/// The load rises in small blocks and falls, and large blocks come in a row, in cycles.
static void sawtooth(const load* self, stand* s, load_part part, uint64_t seed, uint64_t takes) {
    (void)self;
    (void)part;
    dice d = {seed};
    crowd c = {.count = 0};
    uint64_t top = 0, bottom = 0, large = 0, row = 0;
    for (uint32_t cycle = 0; stand_takes(s) < takes; cycle++) {
        if (cycle % CYCLES == 0) {
            top = STAND_CAPACITY / 100 * roll_between(&d, 60, 97);
            bottom = STAND_CAPACITY / 100 * roll_between(&d, 10, 50);
            large = roll_between(&d, 256, 2048) * KIB;
            row = roll_between(&d, 2, 12);
        }
        for (int i = 0; i < 1000 && stand_live(s) < top; i++)
            add(&c, s, roll_between(&d, 4, 160) * KIB, 1);
        while (c.count > 0 && stand_live(s) > bottom)
            drop(&c, s, (uint32_t)roll(&d, c.count));
        for (uint64_t i = 0; i < row; i++)
            add(&c, s, large, 2);
    }
    drop_all(&c, s);
}

const load load_list[] = {
    {"kv-azure-conv", serve, "traces/azure2023_conv.csv", 32},
    {"kv-azure-code", serve, "traces/azure2023_code.csv", 32},
    {"kv-mooncake", serve, "traces/mooncake_conversation.jsonl", 4},
    {"kv-sharegpt", serve, "traces/sharegpt_8k_lengths.csv", 16},
    {"train-128", repeat, "alloc-traces/torch_train_ctx128.csv", 128},
    {"train-1024", repeat, "alloc-traces/torch_train_ctx1024.csv", 512},
    {"infer-128", repeat, "alloc-traces/torch_infer_ctx128.csv", 1},
    {"infer-512", repeat, "alloc-traces/torch_infer_ctx512.csv", 8},
    {"infer-1024", repeat, "alloc-traces/torch_infer_ctx1024.csv", 32},
    {"comb", comb, NULL, 0},
    {"mix", mix, NULL, 0},
    {"sawtooth", sawtooth, NULL, 0},
    {NULL, NULL, NULL, 0},
};
