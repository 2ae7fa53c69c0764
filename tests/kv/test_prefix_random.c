// SPDX-License-Identifier: Apache-2.0
// The prefix index against a naive model that knows all tokens of every block, with random
// operations; and with every allocation failing once.
#include "test.h"

#include "base/host.h"
#include "failing_host.h"
#include "kv/prefix_index.h"
#include "random.h"

enum {
    MOST_BLOCKS = 96,
    MOST_DEPTH = 6,
    MOST_SIZE = 4,
    MOST_TEXT = MOST_DEPTH * MOST_SIZE,
    KEYS = 3
};

/// All tokens of a block and of those before it.
typedef struct text {
    int32_t tokens[MOST_TEXT];
    uint32_t count;
} text;

typedef struct block {
    bool is_known;
    bool is_held;
    uint32_t key;
    uint32_t parent;
    uint64_t stamp;
    text text;
} block;

/// A block that was evicted and has not come back.
typedef struct ghost {
    uint32_t key;
    text text;
    uint64_t number;   ///< of the eviction
    uint32_t capacity; ///< of the index then
} ghost;

typedef struct model {
    berth_prefix_index* index;
    berth_prefix_policy policy;
    uint32_t size;
    uint32_t capacity;
    berth_prefix_root roots[KEYS];
    block blocks[MOST_BLOCKS];
    ghost ghosts[4096];
    size_t ghost_count;
    uint64_t evictions;
    uint64_t clock;
    test_random random;
} model;

static model world;

static uint32_t below(uint32_t bound) { return (uint32_t)test_random_below(&world.random, bound); }

/// Whether the first tokens of two texts agree.
static bool agree(const text* a, const text* b, uint32_t count) {
    return memcmp(a->tokens, b->tokens, count * sizeof(int32_t)) == 0;
}

static bool is_leaf(uint32_t at) {
    for (uint32_t i = 0; i < world.capacity; ++i)
        if (world.blocks[i].is_known && world.blocks[i].parent == at) return false;
    return true;
}

/// The known block of a key with exactly the first `count` tokens of `t`.
static uint32_t find(uint32_t key, const text* t, uint32_t count) {
    for (uint32_t i = 0; i < world.capacity; ++i) {
        const block* b = &world.blocks[i];
        if (b->is_known && b->key == key && b->text.count == count && agree(&b->text, t, count))
            return i;
    }
    return BERTH_PREFIX_NO_BLOCK;
}

static text draw_text(void) {
    text t = {.count = 1 + below(MOST_DEPTH * world.size)};
    // long common beginnings: mostly the same token
    for (uint32_t i = 0; i < t.count; ++i)
        t.tokens[i] = below(6) == 0 ? (int32_t)below(3) : 7;
    return t;
}

static uint32_t draw_known(void) {
    for (int i = 0; i < 20; ++i) {
        const uint32_t at = below(world.capacity);
        if (world.blocks[at].is_known) return at;
    }
    return BERTH_PREFIX_NO_BLOCK;
}

/// A number that is not in use.
static uint32_t draw_free(void) {
    for (int i = 0; i < 50; ++i) {
        const uint32_t at = below(world.capacity);
        if (!world.blocks[at].is_known) return at;
    }
    return BERTH_PREFIX_NO_BLOCK;
}

static void use(uint32_t at) { world.blocks[at].stamp = ++world.clock; }

static void forget_ghost(uint32_t key, const text* t) {
    for (size_t i = 0; i < world.ghost_count; ++i) {
        ghost* g = &world.ghosts[i];
        if (g->key != key || g->text.count != t->count || !agree(&g->text, t, t->count)) continue;
        *g = world.ghosts[--world.ghost_count];
        return;
    }
}

/// The reason that is to be given for the next block of `t` behind `found` tokens.
static void check_reason(uint32_t key, const text* t, uint32_t found, const berth_prefix_match* m) {
    if (found + m->partial_tokens >= t->count) {
        assert_int_equal(m->miss, BERTH_KV_MISS_NONE);
        return;
    }
    const uint32_t end = found + world.size;
    if (end > t->count) {
        assert_int_equal(m->miss, BERTH_KV_MISS_TOO_SHORT);
        return;
    }
    bool is_elsewhere = false, was_evicted = false;
    for (uint32_t k = 0; k < KEYS; ++k)
        is_elsewhere |= k != key && find(k, t, end) != BERTH_PREFIX_NO_BLOCK;
    for (size_t i = 0; i < world.ghost_count; ++i) {
        const ghost* g = &world.ghosts[i];
        if (g->key != key || g->text.count != end || !agree(&g->text, t, end)) continue;
        was_evicted = true;
        if (world.evictions - g->number < g->capacity)
            assert_int_equal(m->miss, BERTH_KV_MISS_EVICTED);
    }
    if (m->miss == BERTH_KV_MISS_EVICTED)
        assert_true(was_evicted);
    else
        assert_int_equal(m->miss,
                         is_elsewhere ? BERTH_KV_MISS_OTHER_TENANT : BERTH_KV_MISS_NONE_SHARED);
}

static void look_up(void) {
    const uint32_t key = below(KEYS);
    const text t = draw_text();
    uint32_t found[MOST_TEXT], whole = 0, best = 0;
    berth_prefix_match m;
    berth_prefix_index_match(world.index, world.roots[key], t.tokens, t.count, t.count, found, &m);
    while ((whole + 1) * world.size <= t.count) {
        const uint32_t next = find(key, &t, (whole + 1) * world.size);
        if (next == BERTH_PREFIX_NO_BLOCK) break;
        assert_true(whole < m.blocks);
        assert_int_equal(found[whole], next);
        ++whole;
    }
    assert_int_equal(m.blocks, whole);
    const uint32_t start = whole * world.size;
    const uint32_t last = whole == 0 ? BERTH_PREFIX_NO_BLOCK : found[whole - 1];
    for (uint32_t i = 0; i < world.capacity; ++i) {
        const block* b = &world.blocks[i];
        if (!b->is_known || b->key != key || b->parent != last) continue;
        uint32_t common = 0;
        while (start + common < t.count && start + common < b->text.count &&
               b->text.tokens[start + common] == t.tokens[start + common])
            ++common;
        if (common > best) best = common;
        if (i == m.partial) assert_int_equal(m.partial_tokens, common);
    }
    assert_int_equal(m.partial_tokens, best);
    assert_int_equal(m.partial == BERTH_PREFIX_NO_BLOCK, best == 0);
    check_reason(key, &t, start, &m);
    if (best > 0) use(m.partial);
    while (whole > 0)
        use(found[--whole]);
}

/// Adds one more block behind what is known of a text, or its begun last one.
static void insert(void) {
    const uint32_t key = below(KEYS), to = draw_free();
    if (to == BERTH_PREFIX_NO_BLOCK) return;
    const text t = draw_text();
    uint32_t parent = BERTH_PREFIX_NO_BLOCK, start = 0;
    for (uint32_t next; start + world.size <= t.count; start += world.size, parent = next) {
        next = find(key, &t, start + world.size);
        if (next == BERTH_PREFIX_NO_BLOCK) break;
    }
    if (start == t.count) return;
    uint32_t count = t.count - start < world.size ? t.count - start : world.size;
    if (below(4) == 0) count = 1 + below(count);
    text all = t;
    all.count = start + count;
    const uint32_t equal = find(key, &all, all.count);
    const uint32_t known = berth_prefix_index_insert(
        world.index, world.roots[key], parent, to, t.tokens + start, count);
    assert_int_equal(known, equal == BERTH_PREFIX_NO_BLOCK ? to : equal);
    if (known == to) {
        world.blocks[to] =
            (block){.is_known = true, .is_held = true, .key = key, .parent = parent, .text = all};
        forget_ghost(key, &all);
    }
    use(known);
}

static void evict(void) {
    uint32_t at, oldest = BERTH_PREFIX_NO_BLOCK;
    const bool is_evicted = berth_prefix_index_evict(world.index, &at);
    for (uint32_t i = 0; i < world.capacity; ++i) {
        const block* b = &world.blocks[i];
        if (!b->is_known || b->is_held || !is_leaf(i)) continue;
        if (oldest == BERTH_PREFIX_NO_BLOCK || b->stamp < world.blocks[oldest].stamp) oldest = i;
    }
    assert_int_equal(is_evicted, oldest != BERTH_PREFIX_NO_BLOCK);
    if (!is_evicted) return;
    if (world.policy == BERTH_PREFIX_LRU) assert_int_equal(at, oldest);
    block* b = &world.blocks[at];
    assert_true(b->is_known && !b->is_held && is_leaf(at));
    forget_ghost(b->key, &b->text);
    assert_true(world.ghost_count < sizeof world.ghosts / sizeof *world.ghosts);
    world.ghosts[world.ghost_count++] = (ghost){
        .key = b->key, .text = b->text, .number = world.evictions++, .capacity = world.capacity};
    *b = (block){0};
}

static void hold_or_unhold(void) {
    const uint32_t at = draw_known();
    if (at == BERTH_PREFIX_NO_BLOCK) return;
    block* b = &world.blocks[at];
    if (below(4) == 0) {
        berth_prefix_index_hold(world.index, at);
        b->is_held = true;
        return;
    }
    berth_prefix_index_unhold(world.index, at);
    if (b->is_held) use(at);
    b->is_held = false;
}

static void remove_one(void) {
    const uint32_t at = draw_known();
    if (at == BERTH_PREFIX_NO_BLOCK || !is_leaf(at)) return;
    berth_prefix_index_remove(world.index, at);
    world.blocks[at] = (block){0};
}

static void move(void) {
    const uint32_t from = draw_known(), to = draw_free();
    if (from == BERTH_PREFIX_NO_BLOCK || to == BERTH_PREFIX_NO_BLOCK) return;
    berth_prefix_index_move(world.index, from, to);
    world.blocks[to] = world.blocks[from];
    world.blocks[from] = (block){0};
    for (uint32_t i = 0; i < world.capacity; ++i)
        if (world.blocks[i].is_known && world.blocks[i].parent == from) world.blocks[i].parent = to;
}

static void grow(void) {
    const uint32_t wanted = world.capacity + 1 + below(8);
    if (wanted > MOST_BLOCKS) return;
    assert_ok(berth_prefix_index_reserve(world.index, wanted));
    world.capacity = wanted;
}

static void check_all(void) {
    assert_true(berth_prefix_index_is_valid(world.index));
    berth_prefix_stats stats;
    berth_prefix_index_query_stats(world.index, &stats);
    uint64_t known = 0, held = 0;
    for (uint32_t i = 0; i < world.capacity; ++i) {
        const block* b = &world.blocks[i];
        assert_int_equal(berth_prefix_index_has(world.index, i), b->is_known);
        known += b->is_known;
        held += b->is_held;
    }
    assert_int_equal(stats.known_blocks, known);
    assert_int_equal(stats.held_blocks, held);
    assert_int_equal(stats.evicted, world.evictions);
}

static void step(void) {
    switch (below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        insert();
        break;
    case 4:
    case 5:
    case 6:
        look_up();
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        hold_or_unhold();
        break;
    case 11:
    case 12:
        evict();
        break;
    case 13:
        remove_one();
        break;
    case 14:
        move();
        break;
    default:
        if (below(10) == 0) grow();
    }
}

static void run(berth_prefix_policy policy, uint64_t seed, int steps) {
    world = (model){.policy = policy, .random = test_random_make(seed), .capacity = 8};
    world.size = 1 + below(MOST_SIZE);
    assert_ok(berth_prefix_index_create(berth_host_default(), world.size, policy, &world.index));
    assert_ok(berth_prefix_index_reserve(world.index, world.capacity));
    for (uint32_t k = 0; k < KEYS; ++k)
        assert_ok(berth_prefix_index_open_root(world.index, &k, sizeof k, k, &world.roots[k]));
    for (int i = 0; i < steps; ++i) {
        step();
        if (i % 16 == 0) check_all();
    }
    berth_prefix_index_destroy(world.index);
}

static void random_use_agrees_with_a_naive_model(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        run(BERTH_PREFIX_LRU, seed, 4000);
        run(BERTH_PREFIX_REUSE, seed, 4000);
    }
}

/// Some use of an index; what it does when memory fails is to report it.
static berth_status use_some(const berth_host* host, berth_prefix_index** index) {
    berth_prefix_root roots[20];
    berth_status status = berth_prefix_index_create(host, 2, BERTH_PREFIX_REUSE, index);
    for (uint32_t capacity = 4; status == BERTH_OK && capacity <= 40; capacity += 12)
        status = berth_prefix_index_reserve(*index, capacity);
    for (uint32_t k = 0; status == BERTH_OK && k < 20; ++k) {
        status = berth_prefix_index_open_root(*index, &k, sizeof k, 0, &roots[k]);
        if (status != BERTH_OK) break;
        const int32_t tokens[2] = {1, (int32_t)k};
        assert_int_equal(
            berth_prefix_index_insert(*index, roots[k], BERTH_PREFIX_NO_BLOCK, k, tokens, 2), k);
    }
    if (*index != NULL) assert_true(berth_prefix_index_is_valid(*index));
    return status;
}

static void every_failing_allocation_is_reported_and_changes_nothing(void** state) {
    (void)state;
    failing_host failing;
    berth_host* host;
    failing_host_init(&failing);
    assert_ok(berth_host_create(&failing.allocator, &host));
    for (size_t nth = 1;; ++nth) {
        berth_prefix_index* index = NULL;
        failing_host_fail(&failing, nth, false);
        const berth_status status = use_some(host, &index);
        const bool has_failed = failing_host_has_failed(&failing);
        failing_host_fail(&failing, 0, false);
        assert_int_equal(status, has_failed ? BERTH_ERR_OUT_OF_MEMORY : BERTH_OK);
        berth_prefix_index_destroy(index);
        if (!has_failed) {
            assert_true(nth > 20);
            break;
        }
    }
    berth_host_destroy(host);
    assert_int_equal(failing.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_use_agrees_with_a_naive_model),
        cmocka_unit_test(every_failing_allocation_is_reported_and_changes_nothing),
    };
    return cmocka_run_group_tests_name("prefix_random", tests, NULL, NULL);
}
