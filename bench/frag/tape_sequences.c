// SPDX-License-Identifier: Apache-2.0
// A server of a language model under more requests than fit: each sequence has one contiguous
// tensor of keys and one of values for each layer, which are made anew, longer, when they are full;
// every step has its activations. New sequences begin while 95 % of the device are not in use, the
// youngest one gives way where growth goes beyond. The lengths are those of real requests.
#include "frag/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/bench_data.h"
#include "kit/fail.h"

#define LAYERS 4
#define TENSORS (2 * LAYERS)
#define RUNNING 256 // sequences at most
#define GROWTH 64   // tokens that a tensor is lengthened by
#define LOOK_AHEAD 8
#define FULL_PERCENT 95
#define PROBE_EVENTS 2000 // between two probes, at least

/// A log of requests and the model that serves them.
typedef struct service {
    const char* file;
    bool is_json;
    const char* prompt_key; ///< JSON only; else the last two columns are the lengths
    const char* answer_key;
    uint64_t tensor_bytes; ///< of keys, or of values, a token and layer
    uint64_t width_bytes;  ///< of an activation, a token
    int steps;
} service;

typedef struct request {
    uint64_t prompt;
    uint64_t answer; ///< tokens still to come
} request;

typedef struct sequence {
    uint32_t tensors[TENSORS];
    uint64_t tokens;
    uint64_t room; ///< tokens that the tensors hold
    uint64_t answer;
} sequence;

typedef struct server {
    tape tape;
    const service* service;
    request* queue; ///< [queue_count], those before `next` are gone
    size_t queue_count;
    size_t next;
    sequence running[RUNNING]; ///< oldest first
    size_t running_count;
} server;

/// Where requests come from, as sites: one for each line of the program.
enum { SITE_PROMPT_KV = 1, SITE_GROWN_KV = 100, SITE_PREFILL = 200, SITE_DECODE = 300 };

static uint64_t number_after(const char* line, const char* key) {
    const char* at = strstr(line, key);
    return at == NULL ? 0 : strtoull(at + strlen(key), NULL, 10);
}

/// The numbers of the last two columns.
static request parse_columns(const char* line) {
    const char* last = strrchr(line, ',');
    if (last == NULL) return (request){0};
    const char* before = last;
    while (before > line && before[-1] != ',')
        before--;
    return (request){strtoull(before, NULL, 10), strtoull(last + 1, NULL, 10)};
}

static void read_requests(server* s) {
    char path[4096], name[256];
    static char line[1 << 16];
    snprintf(name, sizeof name, "traces/%s", s->service->file);
    FILE* file = fopen(bench_shared_data(name, path, sizeof path), "r");
    if (file == NULL) bench_fail_for(path, "cannot be read");
    size_t room = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        const request r = s->service->is_json
                              ? (request){number_after(line, s->service->prompt_key),
                                          number_after(line, s->service->answer_key)}
                              : parse_columns(line);
        if (r.prompt == 0 || r.answer == 0) continue; // the names of the columns
        if (s->queue_count == room) {
            room = room == 0 ? 4096 : 2 * room;
            request* queue = realloc(s->queue, room * sizeof *queue);
            if (queue == NULL) bench_fail_for(path, "no memory");
            s->queue = queue;
        }
        s->queue[s->queue_count++] = r;
    }
    fclose(file);
    if (s->queue_count == 0) bench_fail_for(path, "holds no requests");
}

static uint64_t round_tokens(uint64_t tokens) { return (tokens + GROWTH - 1) / GROWTH * GROWTH; }

static uint64_t limit(const server* s) { return s->tape.capacity_bytes / 100 * FULL_PERCENT; }

static uint64_t kv_bytes(const server* s, uint64_t tokens) {
    return tokens * s->service->tensor_bytes * TENSORS;
}

/// The most that a layer's activations need for `tokens` rows.
static uint64_t activation_bytes(const server* s, uint64_t tokens) {
    return tokens * s->service->width_bytes * 6;
}

/// A layer's activations: rows, queries, keys and values, the wide part of the feed-forward.
static void run_layer(server* s, uint64_t tokens, uint64_t site) {
    const uint64_t width = tokens * s->service->width_bytes;
    const uint32_t normed = tape_take(&s->tape, width, site);
    const uint32_t query = tape_take(&s->tape, width, site + 1);
    const uint32_t attended = tape_take(&s->tape, width, site + 2);
    tape_give(&s->tape, query);
    tape_give(&s->tape, normed);
    const uint32_t wide = tape_take(&s->tape, 4 * width, site + 3);
    const uint32_t out = tape_take(&s->tape, width, site + 4);
    tape_give(&s->tape, wide);
    tape_give(&s->tape, attended);
    tape_give(&s->tape, out);
}

static void begin(server* s, request r) {
    sequence* q = &s->running[s->running_count++];
    *q = (sequence){.tokens = r.prompt, .room = round_tokens(r.prompt + 1), .answer = r.answer};
    for (int i = 0; i < TENSORS; i++) {
        q->tensors[i] = tape_take(&s->tape, q->room * s->service->tensor_bytes, SITE_PROMPT_KV);
        if (i % 2 != 0) run_layer(s, r.prompt, SITE_PREFILL);
    }
}

static void end(server* s, size_t at) {
    for (int i = 0; i < TENSORS; i++)
        tape_give(&s->tape, s->running[at].tensors[i]);
    s->running_count--;
    memmove(&s->running[at], &s->running[at + 1], (s->running_count - at) * sizeof *s->running);
}

static bool fits(const server* s, request r) {
    return s->tape.live_bytes + kv_bytes(s, round_tokens(r.prompt + 1)) +
               activation_bytes(s, r.prompt) <=
           limit(s);
}

/// Begins what fits; a short request may overtake a few long ones.
static void admit(server* s) {
    for (size_t ahead = 0; ahead < LOOK_AHEAD && s->running_count < RUNNING;) {
        const size_t at = s->next + ahead;
        const request r = s->queue[at % s->queue_count];
        if (!fits(s, r)) {
            ahead++;
            continue;
        }
        s->queue[at % s->queue_count] = s->queue[s->next % s->queue_count];
        s->next++;
        begin(s, r);
    }
}

/// The youngest sequence gives way and asks again.
static void preempt(server* s) {
    const sequence youngest = s->running[s->running_count - 1];
    end(s, s->running_count - 1);
    s->queue[--s->next % s->queue_count] = (request){youngest.tokens, youngest.answer};
}

/// Longer tensors, one after the other: the old one lives until its copy is made.
static void grow(server* s, size_t at) {
    const uint64_t room = round_tokens(s->running[at].tokens + 1);
    while (s->running_count > at + 1 &&
           s->tape.live_bytes + kv_bytes(s, GROWTH) + room * s->service->tensor_bytes > limit(s))
        preempt(s);
    sequence* q = &s->running[at];
    for (int i = 0; i < TENSORS; i++) {
        const uint32_t longer =
            tape_take(&s->tape, room * s->service->tensor_bytes, SITE_GROWN_KV + (uint64_t)(i % 2));
        tape_give(&s->tape, q->tensors[i]);
        q->tensors[i] = longer;
    }
    q->room = room;
}

static void step(server* s) {
    admit(s);
    for (int layer = 0; layer < LAYERS; layer++)
        run_layer(s, s->running_count, SITE_DECODE);
    for (size_t at = 0; at < s->running_count;) {
        sequence* q = &s->running[at];
        if (q->answer == 0) {
            end(s, at);
            continue;
        }
        q->tokens++;
        q->answer--;
        if (q->tokens == q->room) grow(s, at);
        at++;
    }
    tape_step(&s->tape);
}

static tape serve(const char* name, const service* what, uint64_t capacity_bytes) {
    static server s;
    s = (server){.tape = tape_make(name, capacity_bytes), .service = what};
    read_requests(&s);
    // far from 0, so that what gives way can go before the first one
    s.next = s.queue_count;
    for (int i = 0; i < what->steps; i++)
        step(&s);
    while (s.running_count > 0)
        end(&s, s.running_count - 1);
    tape_step(&s.tape);
    free(s.queue);
    tape_add_probes(&s.tape, PROBE_EVENTS);
    return s.tape;
}

static tape azure_chat(const char* name) {
    static const service what = {.file = "azure2023_conv.csv",
                                 .tensor_bytes = 2 * TAPE_KIB,
                                 .width_bytes = 4 * TAPE_KIB,
                                 .steps = 3000};
    return serve(name, &what, 2048 * TAPE_MIB);
}

static tape azure_code(const char* name) {
    static const service what = {.file = "azure2023_code.csv",
                                 .tensor_bytes = 2 * TAPE_KIB,
                                 .width_bytes = 4 * TAPE_KIB,
                                 .steps = 1000};
    return serve(name, &what, 2048 * TAPE_MIB);
}

static tape mooncake(const char* name) {
    static const service what = {.file = "mooncake_conversation.jsonl",
                                 .is_json = true,
                                 .prompt_key = "\"input_length\":",
                                 .answer_key = "\"output_length\":",
                                 .tensor_bytes = 256,
                                 .width_bytes = TAPE_KIB,
                                 .steps = 3000};
    return serve(name, &what, 2048 * TAPE_MIB);
}

static tape sharegpt(const char* name) {
    static const service what = {.file = "sharegpt_8k_lengths.csv",
                                 .tensor_bytes = 2 * TAPE_KIB,
                                 .width_bytes = 4 * TAPE_KIB,
                                 .steps = 3000};
    return serve(name, &what, 2048 * TAPE_MIB);
}

const tape_pattern tape_sequence_patterns[] = {
    {"a-azure-chat", azure_chat},
    {"a-azure-code", azure_code},
    {"a-mooncake", mooncake},
    {"a-sharegpt", sharegpt},
    {NULL, NULL},
};
