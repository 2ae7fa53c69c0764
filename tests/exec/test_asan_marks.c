// SPDX-License-Identifier: Apache-2.0
// In builds with the address sanitizer all memory that nobody has is marked, wherever it waits for
// its next owner, so that whoever reads it is stopped. Elsewhere there is nothing to test.
#include "device/cpu/cpu_device.h"
#include "exec_kit.h"
#include "memory/poison.h"
#include "memory/pool_move.h"

/// True if the sanitizer stops who reads there.
static bool is_marked(const void* at) {
#ifdef BERTH_HAS_ASAN
    return __asan_address_is_poisoned(at) != 0;
#else
    (void)at;
    return false;
#endif
}

static int set_up(void** state) {
    static exec_kit kit;
    *state = &kit;
    const berth_option_setting settings[] = {{"threads", "1"}, {"keep", "all"}};
    return exec_kit_open(&kit, NULL, settings, 2) == BERTH_OK ? 0 : -1;
}

static void skip_without_marks(void) {
    if (BERTH_POISONS) return;
    print_message("skipped: this build has no address sanitizer\n");
    skip();
}

static void a_block_is_marked_from_its_release_to_its_next_owner(void** state) {
    exec_kit* kit = *state;
    skip_without_marks();
    const uint64_t sizes[] = {1, 100, 5000, 100000, 1500000, 3 << 20, 9 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        const unsigned char* bytes = berth_alloc(kit->ctx, sizes[i]);
        const unsigned char* again = NULL;
        assert_context_ok(kit->ctx);
        assert_false(is_marked(bytes));
        assert_false(is_marked(bytes + sizes[i] - 1));
        berth_free(kit->ctx, (void*)(uintptr_t)bytes);
        assert_true(is_marked(bytes));
        assert_true(is_marked(bytes + sizes[i] - 1));
        again = berth_alloc(kit->ctx, sizes[i]);
        assert_false(is_marked(again));
        berth_free(kit->ctx, (void*)(uintptr_t)again);
        assert_true(is_marked(again));
    }
}

static void what_a_block_does_not_use_of_its_slot_is_marked(void** state) {
    exec_kit* kit = *state;
    skip_without_marks();
    for (int round = 0; round < 2; ++round) {
        unsigned char* large = berth_alloc(kit->ctx, 1000);
        assert_context_ok(kit->ctx);
        if (round > 0) assert_false(is_marked(large + 999));
        berth_free(kit->ctx, large);
        unsigned char* small = berth_alloc(kit->ctx, 976);
        assert_false(is_marked(small + 975));
        assert_true(is_marked(small + 976));
        berth_free(kit->ctx, small);
    }
}

static void many_blocks_that_come_and_go_are_marked_when_they_are_gone(void** state) {
    exec_kit* kit = *state;
    enum { BLOCKS = 500 };
    skip_without_marks();
    test_random random = test_random_make(3);
    static unsigned char* blocks[BLOCKS];
    static uint64_t sizes[BLOCKS];
    for (int round = 0; round < 4000; ++round) {
        const size_t i = (size_t)test_random_below(&random, BLOCKS);
        if (blocks[i] != NULL) {
            assert_false(is_marked(blocks[i] + sizes[i] - 1));
            berth_free(kit->ctx, blocks[i]);
            assert_true(is_marked(blocks[i]) && is_marked(blocks[i] + sizes[i] - 1));
            blocks[i] = NULL;
            continue;
        }
        sizes[i] = 1 + test_random_below(&random, UINT64_C(1) << (4 + round % 14));
        blocks[i] = berth_alloc(kit->ctx, sizes[i]);
        assert_context_ok(kit->ctx);
        memset(blocks[i], round, sizes[i]);
    }
    for (size_t i = 0; i < BLOCKS; ++i)
        berth_free(kit->ctx, blocks[i]);
    memset(blocks, 0, sizeof blocks);
}

static void a_value_in_a_frame_is_marked_when_it_is_dead(void** state) {
    exec_kit* kit = *state;
    skip_without_marks();
    const void *left = NULL, *dead = NULL;
    berth_tensor* escaping = NULL;
    for (int64_t run = 0; run < 6; ++run) {
        const int64_t n = 1000 + 64 * run;
        berth_release(escaping);
        escaping = NULL;
        assert_ok(exec_kit_begin(kit->ctx, "block", n));
        berth_tensor* x = berth_ones(kit->ctx, BERTH_F32, BERTH_SHAPE(n));
        berth_tensor* y = berth_exp(kit->ctx, x);
        assert_context_ok(kit->ctx);
        dead = exec_kit_place(x);
        assert_false(is_marked(dead));
        berth_release(x);
        assert_true(is_marked(dead));
        left = exec_kit_place(y);
        // the last run alone keeps it: until then it is planned to die within
        if (run == 5)
            escaping = y;
        else
            berth_release(y);
        assert_ok(berth_step_end(kit->ctx));
        assert_true(is_marked(left));
    }
    assert_true(exec_kit_counters(kit->runtime, "block").hits > 0);
    assert_ptr_not_equal(exec_kit_place(escaping), left);
    assert_false(is_marked(exec_kit_place(escaping)));
    berth_release(escaping);
}

// --- Moves ---------------------------------------------------------------------------------------

/// A block that may move.
typedef struct mover {
    berth_movable movable;
    berth_block block;
} mover;

static bool can_move(berth_movable* self) {
    (void)self;
    return true;
}
static const berth_block* block_of(const berth_movable* self) {
    return &((const mover*)(const void*)self)->block;
}
static uint64_t last_use(const berth_movable* self) {
    (void)self;
    return 0;
}
static void move(berth_movable* self, const berth_block* to, uint64_t left_bytes) {
    (void)left_bytes;
    if (to != NULL) ((mover*)(void*)self)->block = *to;
}

static const berth_movable_ops ops = {
    .can_move = can_move, .block = block_of, .last_use = last_use, .move = move};

static void what_a_block_has_moved_away_from_is_marked(void** state) {
    (void)state;
    skip_without_marks();
    const berth_host* host = berth_host_default();
    const berth_cpu_options options = {.threads = 1};
    berth_device* device;
    berth_store* store;
    berth_stream* stream;
    berth_pool* pool;
    assert_ok(berth_cpu_device_create(host, &options, &device));
    assert_ok(berth_store_create(host, device, UINT64_MAX, &store));
    assert_ok(berth_stream_create(device, &stream));
    const berth_pool_config config = {.host = host, .store = store, .stream = stream};
    assert_ok(berth_pool_create(&config, &pool));
    enum { BLOCKS = 40 };
    static mover movers[BLOCKS];
    uint64_t moved = 0;
    for (size_t i = 0; i < BLOCKS; ++i) {
        movers[i].movable.ops = &ops;
        const berth_pool_request request = {.size_bytes = i % 2 == 0 ? 300 : 200000,
                                            .movable = &movers[i].movable};
        assert_ok(berth_pool_take(pool, &request, &movers[i].block));
        memset(movers[i].block.data, (int)i, request.size_bytes);
    }
    size_t record = 0;
    for (int round = 0; round < 20; ++round) {
        static berth_block before[BLOCKS];
        for (size_t i = 0; i < BLOCKS; ++i)
            before[i] = movers[i].block;
        berth_move_count count = {0};
        berth_pool_stir(pool, &record, 1 << 20, &count);
        moved += count.blocks;
        for (size_t i = 0; i < BLOCKS; ++i) {
            const berth_block* now = &movers[i].block;
            assert_false(is_marked(now->data));
            assert_int_equal(now->data[now->size_bytes - 1], (int)i);
            bool is_taken = false; // another one may have moved there
            for (size_t j = 0; j < BLOCKS; ++j)
                is_taken = is_taken ||
                           (before[i].data >= movers[j].block.data &&
                            before[i].data < movers[j].block.data + movers[j].block.size_bytes);
            if (!is_taken) assert_true(is_marked(before[i].data));
        }
    }
    assert_true(moved > 0);
    for (size_t i = 0; i < BLOCKS; ++i)
        berth_pool_give(pool, &movers[i].block);
    berth_pool_destroy(pool);
    berth_stream_destroy(stream);
    berth_store_destroy(store);
    berth_device_destroy(device);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, exec_kit_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_block_is_marked_from_its_release_to_its_next_owner),
        TEST(what_a_block_does_not_use_of_its_slot_is_marked),
        TEST(many_blocks_that_come_and_go_are_marked_when_they_are_gone),
        TEST(a_value_in_a_frame_is_marked_when_it_is_dead),
        cmocka_unit_test(what_a_block_has_moved_away_from_is_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
