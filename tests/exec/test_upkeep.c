// SPDX-License-Identifier: Apache-2.0
// Tensors that are moved: where memory is short, where the program is idle, and at every
// opportunity. What they hold stays the same, and what must not move does not.
#include <dlpack/dlpack.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "berth/dlpack.h"
#include "berth/memory.h"
#include "exec/exec_kit.h"

enum { GRANULES = 32, MOST = 400 };

/// A runtime with room for GRANULES, and tensors of a quarter of a granule each.
typedef struct crowd {
    exec_kit kit;
    uint64_t granule;
    int64_t length; ///< of a tensor of f32
    berth_tensor* tensors[MOST];
    size_t count;
} crowd;

static void open_crowd(crowd* c,
                       const berth_host_allocator* host,
                       const char* device,
                       const char* compact) {
    *c = (crowd){.granule = strcmp(device, "sim") == 0 ? 65536 : 2097152};
    char memory[32];
    snprintf(memory, sizeof memory, "%llu", (unsigned long long)(GRANULES * c->granule));
    const berth_option_setting settings[] = {
        {"device", device}, {"threads", "1"}, {"memory", memory}, {"compact", compact}};
    assert_ok(exec_kit_open(&c->kit, host, settings, 4));
    c->length = (int64_t)(c->granule / 4 / sizeof(float));
}

static void close_crowd(crowd* c) {
    berth_release_array(c->tensors, c->count);
    exec_kit_close(&c->kit);
}

static berth_tensor* make(const crowd* c, berth_context* ctx, float value) {
    return berth_full(ctx, (double)value, BERTH_F32, 1, (int64_t[]){c->length});
}

/// Fails unless all elements are `value`.
static void expect(berth_tensor* x, float value) {
    assert_non_null(x);
    const uint64_t bytes = berth_tensor_bytes(x);
    float* values = malloc(bytes);
    assert_ok(berth_tensor_read(x, values, bytes));
    for (size_t i = 0; i < bytes / sizeof(float); ++i)
        if (values[i] != value) fail_msg("element %zu is not %d", i, (int)value);
    free(values);
}

/// Fills `granules` granules with tensors and releases all but every fourth one.
static void scatter(crowd* c, size_t granules) {
    berth_context* ctx = c->kit.ctx;
    while (c->count < granules * 4 &&
           (c->tensors[c->count] = make(c, ctx, (float)c->count)) != NULL)
        ++c->count;
    assert_int_equal(c->count, granules * 4);
    berth_context_clear_error(ctx);
    for (size_t i = 0; i < c->count; ++i) {
        if (i % 4 == 0) continue;
        berth_release(c->tensors[i]);
        c->tensors[i] = NULL;
    }
}

static void expect_all(const crowd* c) {
    for (size_t i = 0; i < c->count; ++i)
        if (c->tensors[i] != NULL) expect(c->tensors[i], (float)i);
}

/// A tensor of `granules` granules, all of them `value`.
static berth_tensor* make_large(const crowd* c, berth_context* ctx, int64_t granules, float value) {
    return berth_full(ctx, (double)value, BERTH_F32, 1, (int64_t[]){c->length * 4 * granules});
}

static berth_memory_stats stats_of(const crowd* c) {
    berth_memory_stats stats;
    assert_ok(berth_runtime_query_memory(c->kit.runtime, &stats));
    return stats;
}

static const char* const devices[] = {"cpu", "sim"};

static void a_request_that_fails_without_compaction_is_met_with_it(void** state) {
    (void)state;
    for (size_t d = 0; d < 2; ++d) {
        crowd c;
        open_crowd(&c, NULL, devices[d], "off");
        scatter(&c, GRANULES);
        assert_null(make_large(&c, c.kit.ctx, 20, 7));
        assert_context_fails(c.kit.ctx, BERTH_ERR_OUT_OF_MEMORY, "full");
        assert_int_equal(stats_of(&c).moved_bytes, 0);
        close_crowd(&c);

        open_crowd(&c, NULL, devices[d], "auto");
        scatter(&c, GRANULES);
        berth_tensor* large = make_large(&c, c.kit.ctx, 20, 7);
        assert_context_ok(c.kit.ctx);
        expect(large, 7);
        expect_all(&c);
        // each granule that was needed held one tensor
        const berth_memory_stats stats = stats_of(&c);
        assert_true(stats.moved_bytes >= 19 * c.granule / 4);
        assert_true(stats.moved_bytes <= 20 * c.granule / 4 * 3 / 2);
        assert_true(stats.emptied_bytes >= 19 * c.granule);
        assert_true(stats.compact_slices > 0 && stats.compact_p99_ns <= stats.compact_max_ns);
        berth_release(large);
        close_crowd(&c);
    }
}

static void the_operands_of_the_op_that_needs_room_are_read_where_they_are(void** state) {
    (void)state;
    for (size_t d = 0; d < 2; ++d) {
        crowd c;
        open_crowd(&c, NULL, devices[d], "auto");
        scatter(&c, GRANULES);
        berth_context* ctx = c.kit.ctx;
        // a sum of one granule for each of 80 rows
        berth_tensor* row = berth_reshape(ctx, c.tensors[4], 2, (int64_t[]){1, c.length});
        berth_tensor* wide = berth_expand(ctx, row, 2, (int64_t[]){80, c.length});
        berth_tensor* sum = berth_add(ctx, wide, c.tensors[8]);
        assert_context_ok(ctx);
        expect(sum, 12);
        expect_all(&c);
        assert_true(stats_of(&c).moved_bytes > 0);
        berth_release(row);
        berth_release(wide);
        berth_release(sum);
        close_crowd(&c);
    }
}

static void an_op_with_several_results_keeps_those_that_it_has(void** state) {
    (void)state;
    for (size_t d = 0; d < 2; ++d) {
        crowd c;
        open_crowd(&c, NULL, devices[d], "auto");
        scatter(&c, GRANULES);
        berth_context* ctx = c.kit.ctx;
        berth_tensor* row = berth_reshape(ctx, c.tensors[4], 2, (int64_t[]){1, c.length});
        berth_tensor* wide = berth_expand(ctx, row, 2, (int64_t[]){16, c.length});
        berth_tensor* indices = NULL;
        berth_tensor* sorted = berth_sort(ctx, wide, 1, false, &indices);
        assert_context_ok(ctx);
        expect(sorted, 4);
        expect_all(&c);
        berth_tensor* const all[] = {row, wide, sorted, indices};
        berth_release_array(all, 4);
        close_crowd(&c);
    }
}

static void another_context_is_asked_to_move_what_it_has(void** state) {
    (void)state;
    for (size_t d = 0; d < 2; ++d) {
        crowd c;
        open_crowd(&c, NULL, devices[d], "auto");
        scatter(&c, GRANULES);
        berth_context* other;
        assert_ok(berth_context_create(c.kit.runtime, &other));
        berth_tensor* large = make_large(&c, other, 20, 3);
        assert_context_ok(other);
        expect(large, 3);
        expect_all(&c);
        berth_release(large);
        berth_context_release(other);
        close_crowd(&c);
    }
}

static void what_is_mapped_lent_or_shared_stays(void** state) {
    (void)state;
    for (size_t d = 0; d < 2; ++d) {
        crowd c;
        open_crowd(&c, NULL, devices[d], "always");
        berth_context* ctx = c.kit.ctx;
        berth_context* other;
        assert_ok(berth_context_create(c.kit.runtime, &other));
        berth_tensor* x[4];
        const void* places[4];
        for (size_t i = 0; i < 4; ++i)
            x[i] = make(&c, ctx, (float)i);
        void* plain = berth_alloc(ctx, 1000);
        memset(plain, 9, 1000);
        void* mapped;
        assert_ok(berth_tensor_map(x[0], &mapped));
        struct DLManagedTensor* lent;
        assert_ok(berth_tensor_to_dlpack(x[1], &lent));
        berth_release(berth_neg(other, x[2]));
        for (size_t i = 0; i < 4; ++i)
            places[i] = exec_kit_place(x[i]);
        bool has_moved = false;
        for (int i = 0; i < 20; ++i) {
            berth_release(make(&c, ctx, 1));
            has_moved = has_moved || exec_kit_place(x[3]) != places[3];
        }
        assert_true(has_moved);
        for (size_t i = 0; i < 3; ++i)
            assert_ptr_equal(exec_kit_place(x[i]), places[i]);
        assert_ptr_equal(mapped, places[0]);
        for (size_t i = 0; i < 1000; ++i)
            assert_int_equal(((unsigned char*)plain)[i], 9);
        berth_tensor_unmap(x[0]);
        lent->deleter(lent);
        for (size_t i = 0; i < 4; ++i)
            expect(x[i], (float)i);
        berth_free(ctx, plain);
        berth_release_array(x, 4);
        berth_context_release(other);
        close_crowd(&c);
    }
}

static void idle_time_is_used_until_nothing_is_left_to_be_done(void** state) {
    (void)state;
    for (size_t d = 0; d < 2; ++d) {
        crowd c;
        open_crowd(&c, NULL, devices[d], "auto");
        scatter(&c, GRANULES);
        berth_idle_result result;
        assert_ok(berth_idle(c.kit.ctx, 0, &result));
        assert_true(result.has_more && result.moved_bytes == 0);
        uint64_t moved = 0, emptied = 0;
        for (int i = 0; i == 0 || result.has_more; ++i) {
            assert_ok(berth_idle(c.kit.ctx, 60000000, &result));
            moved += result.moved_bytes;
            emptied += result.emptied_bytes;
            assert_true(i < 100);
        }
        assert_int_equal(emptied, 24 * c.granule);
        assert_int_equal(moved, 24 * c.granule / 4);
        assert_ok(berth_idle(c.kit.ctx, 60000000, NULL));
        assert_int_equal(stats_of(&c).moved_bytes, moved);
        expect_all(&c);
        close_crowd(&c);
    }
    assert_int_equal(berth_idle(NULL, 1, NULL), BERTH_ERR_INVALID_ARGUMENT);
}

static void idle_time_moves_nothing_where_compaction_is_off(void** state) {
    (void)state;
    crowd c;
    open_crowd(&c, NULL, "sim", "off");
    scatter(&c, GRANULES);
    berth_idle_result result;
    assert_ok(berth_idle(c.kit.ctx, 60000000, &result));
    assert_false(result.has_more);
    assert_int_equal(stats_of(&c).moved_bytes, 0);
    close_crowd(&c);
}

static void ops_go_on_while_a_scattered_pool_is_packed_between_them(void** state) {
    (void)state;
    for (size_t d = 0; d < 2; ++d) {
        crowd c;
        open_crowd(&c, NULL, devices[d], "auto");
        scatter(&c, GRANULES);
        for (int i = 0; i < 3000 && stats_of(&c).emptied_bytes < 20 * c.granule; ++i)
            berth_release(make(&c, c.kit.ctx, 1));
        assert_context_ok(c.kit.ctx);
        assert_true(stats_of(&c).emptied_bytes >= 20 * c.granule);
        assert_true(stats_of(&c).moved_bytes <= 24 * c.granule / 4 * 3 / 2);
        expect_all(&c);
        close_crowd(&c);
    }
}

static void a_step_is_admitted_after_room_was_made_for_it(void** state) {
    (void)state;
    crowd c;
    open_crowd(&c, NULL, "sim", "auto");
    berth_context* ctx = c.kit.ctx;
    for (int run = 0; run < 4; ++run) {
        if (run == 3) scatter(&c, GRANULES); // by now there is a plan
        assert_ok(exec_kit_begin(ctx, "large", 1));
        berth_tensor* a = make_large(&c, ctx, 10, 2);
        berth_tensor* b = berth_neg(ctx, a);
        berth_release(a);
        berth_tensor* y = berth_max(ctx, b, BERTH_DIMS(0), false);
        berth_release(b);
        berth_release(y);
        assert_ok(berth_step_end(ctx));
        assert_ok(berth_trim(c.kit.runtime, 0, NULL));
    }
    assert_true(stats_of(&c).moved_bytes > 0);
    expect_all(&c);
    close_crowd(&c);
}

static void host_memory_that_fails_while_room_is_made_loses_nothing(void** state) {
    (void)state;
    for (size_t nth = 1;; ++nth) {
        failing_host host;
        failing_host_init(&host);
        crowd c;
        open_crowd(&c, &host.allocator, "sim", "auto");
        scatter(&c, GRANULES);
        failing_host_fail(&host, nth, false);
        berth_tensor* large = make_large(&c, c.kit.ctx, 20, 5);
        const bool has_failed = failing_host_has_failed(&host);
        failing_host_fail(&host, 0, false);
        if (large == NULL) {
            assert_int_equal(berth_context_error(c.kit.ctx), BERTH_ERR_OUT_OF_MEMORY);
            berth_context_clear_error(c.kit.ctx);
        }
        expect_all(&c);
        berth_release(large);
        close_crowd(&c);
        assert_int_equal(host.live_blocks, 0);
        if (!has_failed) break;
    }
}

static void device_calls_that_fail_while_room_is_made_lose_nothing(void** state) {
    (void)state;
    for (uint64_t nth = 1; nth < 200; nth += nth < 40 ? 1 : 7) {
        crowd c;
        open_crowd(&c, NULL, "sim", "auto");
        scatter(&c, GRANULES);
        berth_device* device = c.kit.ctx->home.stream->device;
        berth_sim_fail_any(device, nth);
        berth_tensor* large = make_large(&c, c.kit.ctx, 20, 5);
        berth_sim_fail_any(device, 0);
        if (large == NULL) berth_context_clear_error(c.kit.ctx);
        expect_all(&c);
        berth_release(large);
        large = make_large(&c, c.kit.ctx, 20, 5);
        assert_context_ok(c.kit.ctx);
        berth_release(large);
        close_crowd(&c);
    }
}

/// What another thread does with the tensors of a context that moves them.
typedef struct worker {
    pthread_t thread;
    crowd* c;
    berth_context* ctx;
    size_t first;
    bool is_wrong;
} worker;

static void* work(void* self) {
    worker* w = self;
    for (size_t i = w->first; i < w->c->count; i += 8) {
        berth_tensor* x = w->c->tensors[i];
        if (x == NULL) continue;
        float value = 0;
        void* data;
        berth_tensor* negative = i % 3 == 0 ? berth_neg(w->ctx, x) : NULL;
        if (i % 3 == 1 && berth_tensor_map(x, &data) == BERTH_OK) {
            w->is_wrong |= ((float*)data)[7] != (float)i;
            berth_tensor_unmap(x);
        }
        if (negative != NULL) {
            berth_tensor* one = berth_slice(w->ctx, negative, 0, 3, 4, 1);
            w->is_wrong |= berth_tensor_read(one, &value, sizeof value) != BERTH_OK;
            w->is_wrong |= value != -(float)i;
            berth_release(one);
        }
        berth_release(negative);
        berth_release(x);
        w->c->tensors[i] = NULL;
    }
    return NULL;
}

static void other_threads_use_and_release_what_is_being_moved(void** state) {
    (void)state;
    for (size_t d = 0; d < 2; ++d) {
        crowd c;
        open_crowd(&c, NULL, devices[d], "always");
        scatter(&c, GRANULES / 2);
        worker workers[2] = {{.c = &c, .first = 0}, {.c = &c, .first = 4}};
        for (size_t i = 0; i < 2; ++i) {
            assert_ok(berth_context_create(c.kit.runtime, &workers[i].ctx));
            assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (int i = 0; i < 40; ++i)
            berth_release(make(&c, c.kit.ctx, 1));
        for (size_t i = 0; i < 2; ++i) {
            pthread_join(workers[i].thread, NULL);
            assert_context_ok(workers[i].ctx);
            assert_false(workers[i].is_wrong);
            berth_context_release(workers[i].ctx);
        }
        close_crowd(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_that_fails_without_compaction_is_met_with_it),
        cmocka_unit_test(the_operands_of_the_op_that_needs_room_are_read_where_they_are),
        cmocka_unit_test(an_op_with_several_results_keeps_those_that_it_has),
        cmocka_unit_test(another_context_is_asked_to_move_what_it_has),
        cmocka_unit_test(what_is_mapped_lent_or_shared_stays),
        cmocka_unit_test(idle_time_is_used_until_nothing_is_left_to_be_done),
        cmocka_unit_test(idle_time_moves_nothing_where_compaction_is_off),
        cmocka_unit_test(ops_go_on_while_a_scattered_pool_is_packed_between_them),
        cmocka_unit_test(a_step_is_admitted_after_room_was_made_for_it),
        cmocka_unit_test(host_memory_that_fails_while_room_is_made_loses_nothing),
        cmocka_unit_test(device_calls_that_fail_while_room_is_made_lose_nothing),
        cmocka_unit_test(other_threads_use_and_release_what_is_being_moved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
