// SPDX-License-Identifier: Apache-2.0
// The history of a program as a file: read back, it has the lifetimes that the program had.
#include "berth/debug.h"
#include "file_kit.h"
#include "plan/trace_file.h"

enum { ROUNDS = 600, SLOTS = 24, RING = 256 };

typedef struct fixture {
    file_kit files;
    const char* path;
    const char* device;
} fixture;

static int set_up_on(void** state, const char* device) {
    static fixture f;
    f = (fixture){.device = device};
    if (!file_kit_open_folder(&f.files)) return -1;
    f.path = file_kit_path(&f.files, "history.csv");
    *state = &f;
    return 0;
}
static int set_up_cpu(void** state) { return set_up_on(state, "cpu"); }
static int set_up_sim(void** state) { return set_up_on(state, "sim"); }

static int tear_down(void** state) {
    fixture* f = *state;
    file_kit_close_folder(&f->files);
    return 0;
}

static exec_kit open_kit(const fixture* f, const char* events) {
    const berth_option_setting settings[] = {
        {"device", f->device}, {"threads", "1"}, {"history", events}};
    exec_kit kit;
    assert_ok(exec_kit_open(&kit, NULL, settings, 3));
    return kit;
}

/// What lives, and when in takes and gives.
typedef struct lifetime {
    uint64_t lower;
    uint64_t upper;
    uint64_t bytes;
} lifetime;

static int by_content(const void* left, const void* right) {
    return memcmp(left, right, sizeof(lifetime));
}

static lifetime lives[ROUNDS], seen[ROUNDS], expected[ROUNDS];

typedef struct slot {
    size_t life; ///< number of what lives there, from 1; 0: nothing
    void* bytes;
    berth_tensor* tensor;
    berth_context* ctx;
} slot;

static void empty_slot(slot* s) {
    berth_free(s->ctx, s->bytes);
    berth_release(s->tensor);
    *s = (slot){.ctx = s->ctx};
}

static void fill_slot(slot* s, bool is_tensor, int64_t size) {
    if (is_tensor)
        s->tensor = berth_ones(s->ctx, BERTH_U8, BERTH_SHAPE(size));
    else
        s->bytes = berth_alloc(s->ctx, (uint64_t)size);
    assert_context_ok(s->ctx);
}

/// Takes and gives plain bytes and tensors of two contexts at random, one at each moment; returns
/// how many there were.
static size_t run(slot* slots) {
    test_random random = test_random_make(5);
    size_t count = 0;
    for (uint64_t moment = 0; moment < ROUNDS; ++moment) {
        slot* s = &slots[test_random_below(&random, SLOTS)];
        if (s->life != 0) {
            lives[s->life - 1].upper = moment;
            empty_slot(s);
            continue;
        }
        const int64_t size = test_random_between(&random, 1, 50000);
        fill_slot(s, test_random_one_in(&random, 2), size);
        lives[count++] = (lifetime){moment, UINT64_MAX, (uint64_t)size};
        s->life = count;
    }
    return count;
}

/// What a history of the last RING moments shows of the lives; returns how many.
static size_t cut_lives(size_t count) {
    const uint64_t first = ROUNDS - RING;
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
        if (lives[i].upper < first) continue;
        expected[kept++] = (lifetime){
            lives[i].lower < first ? 0 : lives[i].lower - first,
            lives[i].upper == UINT64_MAX ? RING : lives[i].upper - first,
            lives[i].bytes,
        };
    }
    return kept;
}

static void a_saved_history_has_the_lifetimes_of_the_program(void** state) {
    fixture* f = *state;
    exec_kit kit = open_kit(f, "256");
    berth_context* other;
    assert_ok(berth_context_create(kit.runtime, &other));
    slot slots[SLOTS];
    for (size_t i = 0; i < SLOTS; ++i)
        slots[i] = (slot){.ctx = i % 3 == 0 ? other : kit.ctx};
    const size_t count = cut_lives(run(slots));
    assert_ok(berth_runtime_save_history(kit.runtime, f->path));
    berth_trace_file* file;
    assert_ok(berth_trace_file_read(f->path, &file));
    assert_int_equal(berth_trace_file_query_part_count(file), 1);
    assert_int_equal(file->blocks.count, count);
    for (size_t i = 0; i < count; ++i) {
        const berth_trace_block* block = &file->blocks.items[i];
        seen[i] = (lifetime){block->lower, block->upper, block->bytes};
    }
    qsort(seen, count, sizeof *seen, by_content);
    qsort(expected, count, sizeof *expected, by_content);
    assert_memory_equal(seen, expected, count * sizeof *seen);
    berth_trace_file_destroy(file);
    for (size_t i = 0; i < SLOTS; ++i)
        empty_slot(&slots[i]);
    berth_context_release(other);
    exec_kit_close(&kit);
}

static void a_history_of_steps_can_be_packed(void** state) {
    fixture* f = *state;
    exec_kit kit = open_kit(f, "1000");
    for (int64_t n = 10; n < 100; n += 10) {
        assert_ok(exec_kit_begin(kit.ctx, "block", n));
        berth_tensor* x = berth_ones(kit.ctx, BERTH_F32, BERTH_SHAPE(n));
        berth_tensor* y = berth_softmax(kit.ctx, x, 0);
        berth_release_all(x, y);
        assert_ok(berth_step_end(kit.ctx));
    }
    assert_ok(berth_runtime_save_history(kit.runtime, f->path));
    berth_trace_file* file;
    assert_ok(berth_trace_file_read(f->path, &file));
    assert_true(file->blocks.count >= 4);
    assert_string_equal(file->blocks.items[0].label, "block/full");
    berth_problem* problem;
    assert_ok(berth_problem_create(file, 0, NULL, 0, &problem));
    berth_problem_destroy(problem);
    berth_trace_file_destroy(file);
    exec_kit_close(&kit);
}

static void saving_that_fails_is_reported(void** state) {
    fixture* f = *state;
    exec_kit kit = open_kit(f, "8");
    const berth_status bad = BERTH_ERR_INVALID_ARGUMENT;
    assert_int_equal(berth_runtime_save_history(NULL, f->path), bad);
    assert_int_equal(berth_runtime_save_history(kit.runtime, NULL), bad);
    assert_fails(berth_runtime_save_history(kit.runtime, "/no/such/folder/x"),
                 BERTH_ERR_NOT_FOUND,
                 "/no/such/folder/x");
    exec_kit_close(&kit);
    assert_int_equal(file_kit_count(&f->files), 0);
}

static void a_history_costs_no_memory_while_it_runs(void** state) {
    fixture* f = *state;
    exec_kit kit = open_kit(f, "64");
    berth_free(kit.ctx, berth_alloc(kit.ctx, 1000));
    berth_memory_stats before, after;
    assert_ok(berth_runtime_query_memory(kit.runtime, &before));
    for (int i = 0; i < 1000; ++i)
        berth_free(kit.ctx, berth_alloc(kit.ctx, 1000));
    assert_ok(berth_runtime_query_memory(kit.runtime, &after));
    assert_int_equal(after.host_allocs, before.host_allocs);
    assert_int_equal(after.host_bytes, before.host_bytes);
    exec_kit_close(&kit);
}

#define ON_BOTH(test)                                                                              \
    {"cpu: " #test, test, set_up_cpu, tear_down, NULL}, {                                          \
        "sim: " #test, test, set_up_sim, tear_down, NULL                                           \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(a_saved_history_has_the_lifetimes_of_the_program),
        ON_BOTH(a_history_of_steps_can_be_packed),
        ON_BOTH(saving_that_fails_is_reported),
        ON_BOTH(a_history_costs_no_memory_while_it_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
