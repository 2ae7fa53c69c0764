// SPDX-License-Identifier: Apache-2.0
// The prefix index on recorded prompts: the known shares of blocks found by the least recently used
// order, and how the policy by reuse compares with it.
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/host.h"
#include "kit/shared_data.h"
#include "kv/prefix_index.h"
#include "request_trace.h"

/// An id is told by as many tokens.
enum { SIZE = 2 };

/// A cache of blocks that have numbers and nothing else.
typedef struct cache {
    berth_prefix_index* index;
    berth_prefix_root root;
    uint32_t* free; ///< numbers not in use
    size_t free_count;
    uint32_t* blocks; ///< of the request
    int32_t* tokens;
    uint64_t hits;
    uint64_t looked_up;
} cache;

static llm_request_trace trace;
static size_t longest;

static void read_trace(const char* file) {
    char path[4096];
    llm_error error;
    const char* folder = shared_data_folder("data/traces");
    (void)snprintf(path, sizeof path, "%s/data/traces/%s", folder, file);
    if (llm_request_trace_read(path, &trace, &error) != BERTH_OK) fail_msg("%s", error.text);
    longest = 0;
    for (size_t i = 0; i < trace.row_count; ++i) {
        const size_t blocks = trace.rows[i].prompt_ids + trace.rows[i].tail_ids;
        if (blocks > longest) longest = blocks;
    }
}

static void* make(size_t count, size_t bytes) {
    void* memory = calloc(count, bytes);
    assert_non_null(memory);
    return memory;
}

static void serve(cache* c, const llm_trace_row* row, size_t capacity) {
    const size_t all = row->prompt_ids + row->tail_ids, prompt = row->prompt_ids * SIZE;
    for (size_t i = 0; i < all; ++i) {
        const int64_t id = trace.ids[row->first_id + i];
        c->tokens[i * SIZE] = (int32_t)(id & INT32_MAX);
        c->tokens[i * SIZE + 1] = (int32_t)(id >> 31);
    }
    berth_prefix_match found;
    berth_prefix_index_match(c->index, c->root, c->tokens, prompt, prompt, c->blocks, &found);
    c->hits += found.blocks;
    c->looked_up += row->prompt_ids;
    uint32_t parent = BERTH_PREFIX_NO_BLOCK;
    for (size_t i = 0; i < all; ++i) {
        if (i >= found.blocks) {
            const uint32_t fresh = c->free[--c->free_count];
            c->blocks[i] = berth_prefix_index_insert(
                c->index, c->root, parent, fresh, c->tokens + i * SIZE, SIZE);
            assert_int_not_equal(c->blocks[i], BERTH_PREFIX_NO_BLOCK);
            if (c->blocks[i] != fresh) c->free[c->free_count++] = fresh;
        }
        parent = c->blocks[i];
        berth_prefix_index_hold(c->index, parent);
    }
    for (size_t i = all; i-- > 0;)
        berth_prefix_index_unhold(c->index, c->blocks[i]);
    berth_prefix_stats stats;
    berth_prefix_index_query_stats(c->index, &stats);
    for (; stats.known_blocks > capacity; --stats.known_blocks)
        assert_true(berth_prefix_index_evict(c->index, &c->free[c->free_count++]));
}

/// Blocks of prompts found, in percent; capacity 0: none is evicted.
static double hit_percent(berth_prefix_policy policy, size_t capacity) {
    cache c = {0};
    if (capacity == 0) capacity = trace.id_count;
    const size_t numbers = capacity + longest;
    assert_ok(berth_prefix_index_create(berth_host_default(), SIZE, policy, &c.index));
    assert_ok(berth_prefix_index_reserve(c.index, (uint32_t)numbers));
    assert_ok(berth_prefix_index_open_root(c.index, NULL, 0, 0, &c.root));
    c.free = make(numbers, sizeof *c.free);
    for (uint32_t i = 0; i < numbers; ++i)
        c.free[c.free_count++] = i;
    c.blocks = make(longest, sizeof *c.blocks);
    c.tokens = make(longest * SIZE, sizeof *c.tokens);
    for (size_t i = 0; i < trace.row_count; ++i)
        serve(&c, &trace.rows[i], capacity);
    assert_true(berth_prefix_index_is_valid(c.index));
    berth_prefix_index_destroy(c.index);
    free(c.free);
    free(c.blocks);
    free(c.tokens);
    return 100 * (double)c.hits / (double)c.looked_up;
}

/// What is known of a capacity.
typedef struct expectation {
    size_t capacity;
    double lru;        ///< percent, to a tenth
    double least_gain; ///< of the policy by reuse, relative to it, in percent
} expectation;

static void check(const expectation* known, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        const double lru = hit_percent(BERTH_PREFIX_LRU, known[i].capacity);
        const double reuse = hit_percent(BERTH_PREFIX_REUSE, known[i].capacity);
        if (lru < known[i].lru - 0.0501 || lru > known[i].lru + 0.0501)
            fail_msg(
                "%zu blocks: %.2f %% instead of %.1f %%", known[i].capacity, lru, known[i].lru);
        if (reuse < lru * (1 + known[i].least_gain / 100))
            fail_msg(
                "%zu blocks: %.2f %% by reuse, %.2f %% by last use", known[i].capacity, reuse, lru);
    }
}

static void long_prompts_of_a_chat_service_find_what_is_known(void** state) {
    (void)state;
    static const expectation known[] = {{1000, 4.4, 20},
                                        {5000, 11.2, 20},
                                        {10000, 20.6, 7},
                                        {20000, 28.2, 3},
                                        {50000, 34.5, -1},
                                        {0, 35.1, -1e-6}};
    read_trace("mooncake_conversation.jsonl");
    check(known, sizeof known / sizeof *known);
    llm_request_trace_fini(&trace);
}

static void conversations_with_kept_answers_find_what_is_known(void** state) {
    (void)state;
    static const expectation known[] = {
        {1000, 0.9, -1}, {4000, 2.5, -1}, {8000, 4.4, -1}, {0, 7.7, -1e-6}};
    read_trace("sharegpt_multiturn.jsonl");
    check(known, sizeof known / sizeof *known);
    llm_request_trace_fini(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_prompts_of_a_chat_service_find_what_is_known),
        cmocka_unit_test(conversations_with_kept_answers_find_what_is_known),
    };
    return cmocka_run_group_tests_name("prefix_traces", tests, NULL, NULL);
}
