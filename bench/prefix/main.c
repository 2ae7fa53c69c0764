// SPDX-License-Identifier: Apache-2.0
// How much of prompts is found in a cache of so many blocks, by policy of eviction: the prefix
// index alone, request after request. A prompt is looked up before it is added; it is added whole,
// the end of it counts as used before its begin, then blocks are evicted down to the capacity.
// Where a trace has the blocks of answers they are added, too, but only prompts are looked up. A
// block's tokens are made from its id.
//
// "offline" is no policy: it knows the prompts to come, and evicts the block whose next one is
// farthest away.
//
// usage: bench-prefix [--json FILE] [--trace FILE] [--skip ROWS] [--rows ROWS] [--only TEXT]
//                     [--capacities BLOCKS,...]
// Capacity 0 stands for as many blocks as there are.
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kit/bench_data.h"
#include "kit/json_rows.h"
#include "kv/prefix_index.h"
#include "prefix/offline.h"
#include "prefix/stream.h"

enum { MOST_CAPACITIES = 16 };

typedef struct capacities {
    size_t blocks[MOST_CAPACITIES];
    size_t count;
} capacities;

typedef struct bench_options {
    const char* json;
    const char* trace;
    const char* only;
    size_t skip;
    size_t rows;
    capacities capacities; ///< none: those of the stream
} bench_options;

/// Recorded streams, below data/traces.
static const struct {
    const char* file;
    capacities capacities;
} recorded[] = {
    {"mooncake_conversation.jsonl", {{1000, 5000, 10000, 20000, 50000, 0}, 6}},
    {"sharegpt_multiturn.jsonl", {{1000, 4000, 8000, 0}, 4}},
    {"agent_sessions.csv", {{1000, 3000, 6000, 0}, 4}},
};
static const capacities of_made = {{500, 2000, 5000, 20000, 0}, 5};

typedef struct policy {
    const char* name;
    berth_prefix_policy value;
} policy;

static const policy policies[] = {{"lru", BERTH_PREFIX_LRU}, {"reuse", BERTH_PREFIX_REUSE}};

/// A cache of blocks that have numbers and nothing else.
typedef struct cache {
    berth_prefix_index* index;
    berth_prefix_root* roots; ///< of tenants
    uint32_t* free;           ///< numbers, the next one last
    size_t free_count;
    uint32_t* blocks; ///< of the request
    int32_t* tokens;
    uint64_t hits;
    uint64_t looked_up;
    double cpu_s; ///< in calls of the index
} cache;

enum { TENANTS = 4 };

static double cpu_seconds(void) {
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

static void* make(size_t count, size_t bytes) {
    void* memory = calloc(count, bytes);
    if (memory == NULL) bench_fail_for("cache", "no memory");
    return memory;
}

static cache cache_open(const stream* s, const policy* by, size_t blocks) {
    cache c = {0};
    if (blocks > INT32_MAX) bench_fail_for("cache", "too many blocks");
    if (berth_prefix_index_create(berth_host_default(), s->block_tokens, by->value, &c.index) !=
            BERTH_OK ||
        berth_prefix_index_reserve(c.index, (uint32_t)blocks) != BERTH_OK)
        bench_fail("index");
    c.roots = make(TENANTS, sizeof *c.roots);
    for (uint32_t t = 0; t < TENANTS; ++t)
        if (berth_prefix_index_open_root(c.index, "model", 5, t, &c.roots[t]) != BERTH_OK)
            bench_fail("key");
    c.free = make(blocks, sizeof *c.free);
    while (c.free_count < blocks) {
        c.free[c.free_count] = (uint32_t)(blocks - 1 - c.free_count);
        ++c.free_count;
    }
    c.blocks = make(s->longest, sizeof *c.blocks);
    c.tokens = make(s->longest * s->block_tokens, sizeof *c.tokens);
    return c;
}

static void cache_close(cache* c) {
    berth_prefix_index_destroy(c->index);
    free(c->roots);
    free(c->free);
    free(c->blocks);
    free(c->tokens);
}

/// Tokens that tell what the id is; already the first one differs.
static void make_tokens(cache* c, const stream* s, const stream_request* r) {
    int32_t* token = c->tokens;
    for (size_t i = 0; i < r->all_blocks; ++i) {
        const int64_t id = s->ids[r->first + i];
        for (uint32_t t = 0; t < s->block_tokens; ++t)
            *token++ = (int32_t)((id + (int64_t)t * 7919) & INT32_MAX);
    }
}

static void serve(cache* c, const stream* s, const stream_request* r, size_t capacity) {
    const size_t size = s->block_tokens;
    const berth_prefix_root root = c->roots[r->tenant % TENANTS];
    const size_t prompt = r->prompt_blocks * size;
    berth_prefix_match found;
    berth_prefix_index_match(c->index, root, c->tokens, prompt, prompt, c->blocks, &found);
    c->hits += found.blocks;
    c->looked_up += r->prompt_blocks;
    uint32_t parent = BERTH_PREFIX_NO_BLOCK;
    for (size_t i = 0; i < r->all_blocks; ++i) {
        if (i >= found.blocks) {
            const uint32_t fresh = c->free[--c->free_count];
            c->blocks[i] = berth_prefix_index_insert(
                c->index, root, parent, fresh, c->tokens + i * size, (uint32_t)size);
            if (c->blocks[i] == BERTH_PREFIX_NO_BLOCK) bench_fail_for("index", "refuses a block");
            if (c->blocks[i] != fresh) c->free[c->free_count++] = fresh;
        }
        parent = c->blocks[i];
        berth_prefix_index_hold(c->index, parent);
    }
    for (size_t i = r->all_blocks; i-- > 0;)
        berth_prefix_index_unhold(c->index, c->blocks[i]);
    berth_prefix_stats stats;
    berth_prefix_index_query_stats(c->index, &stats);
    for (; stats.known_blocks > capacity; --stats.known_blocks)
        if (!berth_prefix_index_evict(c->index, &c->free[c->free_count++]))
            bench_fail_for("index", "evicts nothing");
}

static void report(
    json_rows* json, const char* file, const char* by, size_t capacity, double ratio, double us) {
    char blocks[32] = "unlimited";
    if (capacity > 0) (void)snprintf(blocks, sizeof blocks, "%zu", capacity);
    printf("%-30s %-8s %10s %8.4f", file, by, blocks, ratio);
    if (us > 0) printf(" %10.3f", us);
    printf("\n");
    (void)fflush(stdout);
    json_rows_begin(json, "file", file);
    json_rows_text(json, "policy", by);
    json_rows_count(json, "capacity_blocks", capacity);
    json_rows_number(json, "hit_ratio", ratio);
    if (us > 0) json_rows_number(json, "block_us", us);
    json_rows_end(json);
}

static double ratio_of(uint64_t hits, uint64_t looked_up) {
    return looked_up == 0 ? 0 : (double)hits / (double)looked_up;
}

static void run(
    json_rows* json, const char* file, const stream* s, const policy* by, size_t capacity) {
    const size_t limit = capacity == 0 || capacity > s->id_count ? s->id_count : capacity;
    cache c = cache_open(s, by, limit + s->longest);
    for (size_t i = 0; i < s->request_count; ++i) {
        make_tokens(&c, s, &s->requests[i]);
        const double before = cpu_seconds();
        serve(&c, s, &s->requests[i], limit);
        c.cpu_s += cpu_seconds() - before;
    }
    const double ratio = ratio_of(c.hits, c.looked_up);
    report(json, file, by->name, capacity, ratio, c.cpu_s * 1e6 / (double)s->id_count);
    cache_close(&c);
}

static void run_offline(json_rows* json, const char* file, const stream* s, size_t capacity) {
    uint64_t looked_up = 0;
    for (size_t i = 0; i < s->request_count; ++i)
        looked_up += s->requests[i].prompt_blocks;
    const uint64_t hits = offline_hits(s, capacity == 0 ? s->id_count : capacity);
    report(json, file, "offline", capacity, ratio_of(hits, looked_up), 0);
}

static void run_stream(json_rows* json,
                       const bench_options* options,
                       const char* file,
                       const stream* s,
                       const capacities* own) {
    const capacities* sizes = options->capacities.count > 0 ? &options->capacities : own;
    for (size_t i = 0; i < sizes->count; ++i) {
        for (size_t p = 0; p < sizeof policies / sizeof *policies; ++p)
            run(json, file, s, &policies[p], sizes->blocks[i]);
        run_offline(json, file, s, sizes->blocks[i]);
    }
}

static bool is_wanted(const bench_options* options, const char* file) {
    return options->only == NULL || strstr(file, options->only) != NULL;
}

static void run_file(json_rows* json,
                     const bench_options* options,
                     const char* file,
                     const char* path,
                     const capacities* own) {
    stream s;
    stream_read(&s, path, options->skip, options->rows);
    run_stream(json, options, file, &s, own);
    stream_fini(&s);
}

static void run_all(json_rows* json, const bench_options* options) {
    printf("%-30s %-8s %10s %8s %10s\n", "file", "policy", "capacity", "hits", "us a block");
    if (options->trace != NULL) {
        const char* slash = strrchr(options->trace, '/');
        const char* file = slash == NULL ? options->trace : slash + 1;
        run_file(json, options, file, options->trace, &recorded[0].capacities);
        return;
    }
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; ++i) {
        char name[256], path[4096];
        if (!is_wanted(options, recorded[i].file)) continue;
        (void)snprintf(name, sizeof name, "traces/%s", recorded[i].file);
        (void)bench_shared_data(name, path, sizeof path);
        run_file(json, options, recorded[i].file, path, &recorded[i].capacities);
    }
    for (const stream_kind* kind = stream_kinds; kind->name != NULL; ++kind) {
        if (!is_wanted(options, kind->name)) continue;
        stream s;
        kind->make(&s);
        run_stream(json, options, kind->name, &s, &of_made);
        stream_fini(&s);
    }
}

static bool parse_capacities(const char* text, capacities* out) {
    while (out->count < MOST_CAPACITIES) {
        char* end;
        const unsigned long long blocks = strtoull(text, &end, 10);
        if (end == text || blocks > INT32_MAX) return false;
        out->blocks[out->count++] = (size_t)blocks;
        if (*end == '\0') return true;
        if (*end != ',') return false;
        text = end + 1;
    }
    return false;
}

static bool parse_rows(const char* text, size_t* out) {
    char* end;
    *out = (size_t)strtoull(text, &end, 10);
    return end != text && *end == '\0';
}

static bool parse(int count, char** arguments, bench_options* options) {
    *options = (bench_options){.rows = SIZE_MAX};
    for (int i = 1; i < count; i += 2) {
        const char* value = i + 1 < count ? arguments[i + 1] : NULL;
        bool is_good = value != NULL;
        if (value == NULL)
            return false;
        else if (strcmp(arguments[i], "--json") == 0)
            options->json = value;
        else if (strcmp(arguments[i], "--trace") == 0)
            options->trace = value;
        else if (strcmp(arguments[i], "--only") == 0)
            options->only = value;
        else if (strcmp(arguments[i], "--skip") == 0)
            is_good = parse_rows(value, &options->skip);
        else if (strcmp(arguments[i], "--rows") == 0)
            is_good = parse_rows(value, &options->rows);
        else if (strcmp(arguments[i], "--capacities") == 0)
            is_good = parse_capacities(value, &options->capacities);
        else
            is_good = false;
        if (!is_good) return false;
    }
    return true;
}

int main(int count, char** arguments) {
    bench_options options;
    if (!parse(count, arguments, &options)) {
        (void)fprintf(
            stderr,
            "usage: bench-prefix [--json FILE] [--trace FILE] [--skip ROWS] [--rows ROWS]\n"
            "                    [--only TEXT] [--capacities BLOCKS,...]\n");
        return 2;
    }
    json_rows json = json_rows_open(options.json);
    run_all(&json, &options);
    json_rows_close(&json);
    return 0;
}
