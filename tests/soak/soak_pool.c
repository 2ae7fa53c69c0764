// SPDX-License-Identifier: Apache-2.0
// Endurance test of the memory layer: frames, holds and blocks of ever new sizes in one small
// store, on the asynchronous simulated device, with faults now and then. Content is checked by
// pattern; memory and metadata must not creep. Usage: soak-pool [--count N | --minutes N] [--seed
// N]
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "device/sim/sim_device.h"
#include "memory/arena.h"
#include "memory/pool.h"
#include "random.h"

#define CAPACITY (UINT64_C(16) << 20)
#define KEPT 256u
#define OPS_A_ROUND 5000

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "soak-pool: %s:%d: %s\n", __FILE__, __LINE__, #condition);             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

typedef struct soak {
    const berth_host* host;
    berth_device* device;
    berth_stream* stream;
    berth_stream* other;
    berth_store* store;
    berth_pool* pool;
    berth_arena* arena;
    test_random random;
    berth_block kept[KEPT];
    unsigned char* held;
    unsigned char sink[UINT32_C(1) << 21];
    uint64_t ops;
    uint64_t refusals;
    uint64_t most_host_bytes;
} soak;

typedef struct arguments {
    uint64_t count;
    uint64_t minutes;
    uint64_t seed;
} arguments;

static void create(soak* s, uint64_t seed) {
    const berth_sim_options options = {.capacity_bytes = CAPACITY, .seed = seed | 1};
    *s = (soak){.host = berth_host_default(), .random = test_random_make(seed)};
    REQUIRE(berth_sim_device_create(s->host, &options, &s->device) == BERTH_OK);
    REQUIRE(berth_stream_create(s->device, &s->stream) == BERTH_OK);
    REQUIRE(berth_stream_create(s->device, &s->other) == BERTH_OK);
    REQUIRE(berth_store_create(s->host, s->device, UINT64_MAX, &s->store) == BERTH_OK);
    REQUIRE(berth_pool_create(
                &(berth_pool_config){.host = s->host, .store = s->store, .stream = s->stream},
                &s->pool) == BERTH_OK);
    REQUIRE(berth_arena_create(s->host, s->store, NULL, s->stream, &s->arena) == BERTH_OK);
}

static void destroy(soak* s) {
    if (s->held != NULL) berth_arena_drop(s->arena, s->held);
    berth_arena_destroy(s->arena);
    berth_pool_destroy(s->pool);
    REQUIRE(berth_sim_query_mapped_bytes(s->device) == 0);
    berth_store_destroy(s->store);
    berth_stream_destroy(s->other);
    berth_stream_destroy(s->stream);
    berth_device_destroy(s->device);
}

static unsigned char mark_of(const berth_block* block) {
    return (unsigned char)(block->size_bytes * 31 + 7);
}

static void check_block(const berth_block* block) {
    const uint64_t step = 1 + block->size_bytes / 97;
    for (uint64_t i = 0; i < block->size_bytes; i += step)
        REQUIRE(block->data[i] == mark_of(block));
}

/// Lets the pool's stream wait for the other one; whatever fails, its work is done before.
static void order_after_other(soak* s) {
    uint64_t ticket = 0;
    if (berth_stream_record(s->other, &ticket) == BERTH_OK &&
        berth_stream_wait_stream(s->stream, s->other, ticket) == BERTH_OK)
        return;
    while (berth_stream_synchronize(s->other) != BERTH_OK) {
        // faults strike once
    }
}

static void give(soak* s, berth_block* block) {
    check_block(block);
    // Now and then another stream reads it, too.
    if (test_random_one_in(&s->random, 8) &&
        berth_stream_copy(
            s->other, s->sink, block->data, block->size_bytes, BERTH_COPY_DEVICE_TO_HOST) ==
            BERTH_OK)
        order_after_other(s);
    berth_pool_give(s->pool, block);
    block->data = NULL;
}

static void take_or_give(soak* s) {
    berth_block* block = &s->kept[test_random_below(&s->random, KEPT)];
    if (block->data != NULL) {
        give(s, block);
        return;
    }
    const uint64_t octave = test_random_below(&s->random, 22);
    const uint64_t size = test_random_below(&s->random, (UINT64_C(1) << octave) + 1);
    if (berth_pool_take(s->pool, &(berth_pool_request){.size_bytes = size}, block) == BERTH_OK)
        memset(block->data, mark_of(block), size);
    else
        s->refusals++;
}

/// A step with a nested one; now and then something is held beyond it.
static void run_step(soak* s) {
    berth_frame outer, inner;
    berth_reservation promise = {0};
    const uint64_t size = 64 + test_random_below(&s->random, CAPACITY / 4);
    if (berth_arena_reserve(s->arena, size, &promise) != BERTH_OK) {
        s->refusals++;
        return;
    }
    if (berth_arena_push(s->arena, size, &promise, &outer) == BERTH_OK) {
        memset(outer.base, 1, size);
        if (berth_arena_push(s->arena, size / 3, &promise, &inner) == BERTH_OK) {
            memset(inner.base, 2, size / 3);
            REQUIRE(outer.base[size - 1] == 1);
            berth_arena_pop(s->arena, &inner);
        }
        if (s->held != NULL) {
            REQUIRE(*s->held == 1);
            berth_arena_drop(s->arena, s->held);
            s->held = NULL;
        } else if (test_random_one_in(&s->random, 3)) {
            unsigned char* data = outer.base + test_random_below(&s->random, size);
            if (berth_arena_hold(s->arena, data, 1) == BERTH_OK) s->held = data;
        }
        berth_arena_pop(s->arena, &outer);
    }
    berth_store_unreserve(s->store, &promise);
}

static void operate(soak* s) {
    const uint64_t dice = test_random_below(&s->random, 200);
    if (dice == 0)
        berth_sim_fail_any(s->device, 1 + test_random_below(&s->random, 20));
    else if (dice == 1)
        berth_pool_trim(
            s->pool, test_random_below(&s->random, CAPACITY), test_random_one_in(&s->random, 2));
    else if (dice == 2)
        berth_arena_trim(
            s->arena, test_random_below(&s->random, CAPACITY), test_random_one_in(&s->random, 2));
    else if (dice < 12)
        run_step(s);
    else
        take_or_give(s);
    s->ops++;
}

/// Everything back; what is left is the same after every round.
static void settle(soak* s) {
    berth_sim_fail_any(s->device, 0);
    for (size_t i = 0; i < KEPT; i++) {
        if (s->kept[i].data != NULL) give(s, &s->kept[i]);
    }
    if (s->held != NULL) berth_arena_drop(s->arena, s->held);
    s->held = NULL;
    berth_pool_trim(s->pool, 0, true);
    berth_arena_trim(s->arena, 0, true);
    REQUIRE(berth_pool_is_valid(s->pool));
    berth_store_stats stats;
    berth_store_query_stats(s->store, &stats);
    REQUIRE(stats.mapped_bytes == 0 && stats.reserved_bytes == 0);
    REQUIRE(berth_sim_query_mapped_bytes(s->device) == 0);
}

/// Metadata may grow in the first rounds only.
static void check_creep(soak* s, uint64_t round) {
    const uint64_t bytes = berth_host_query_live_bytes(s->host);
    if (bytes <= s->most_host_bytes) return;
    REQUIRE(round < 50 || bytes < s->most_host_bytes + s->most_host_bytes / 4);
    s->most_host_bytes = bytes;
}

static bool parse(int count, char** words, arguments* out) {
    *out = (arguments){.seed = 1};
    for (int i = 1; i < count; i += 2) {
        uint64_t* target = strcmp(words[i], "--count") == 0     ? &out->count
                           : strcmp(words[i], "--minutes") == 0 ? &out->minutes
                           : strcmp(words[i], "--seed") == 0    ? &out->seed
                                                                : NULL;
        char* end = NULL;
        if (target == NULL || i + 1 == count) return false;
        *target = strtoull(words[i + 1], &end, 10);
        if (end == words[i + 1] || *end != '\0') return false;
    }
    if (out->count == 0 && out->minutes == 0) out->count = 20;
    return true;
}

int main(int count, char** words) {
    arguments given;
    if (!parse(count, words, &given)) {
        fprintf(stderr, "usage: soak-pool [--count ROUNDS | --minutes N] [--seed N]\n");
        return 2;
    }
    static soak s;
    REQUIRE(berth_log_configure("error") == BERTH_OK); // faults are expected
    create(&s, given.seed);
    const uint64_t begin_ns = berth_clock_now_ns();
    uint64_t round = 0;
    for (;; round++) {
        const uint64_t minutes = (berth_clock_now_ns() - begin_ns) / UINT64_C(60000000000);
        if (given.count > 0 ? round == given.count : minutes >= given.minutes) break;
        for (int i = 0; i < OPS_A_ROUND; i++)
            operate(&s);
        settle(&s);
        check_creep(&s, round);
    }
    printf("soak-pool: %" PRIu64 " rounds, %" PRIu64 " operations, %" PRIu64
           " refusals, host metadata %" PRIu64 " bytes at most\n",
           round,
           s.ops,
           s.refusals,
           s.most_host_bytes);
    destroy(&s);
    return 0;
}
