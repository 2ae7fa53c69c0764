// SPDX-License-Identifier: Apache-2.0
// The emulation of the device's threads itself: that waits wait, exchanges exchange, the order is
// no one's to rely on, and a mistake ends with words.
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/emulation.h"
#include "cuda/emulation_samples.h"

enum { MOST = 8 * 1024 };

static const uint32_t block_sizes[] = {32, 64, 96, 256, 992, 1024};
enum { SIZES = sizeof block_sizes / sizeof block_sizes[0] };

typedef struct arrays {
    uint32_t data[MOST];
    uint32_t counts[MOST];
} arrays;

static int set_up(void** state) {
    *state = malloc(sizeof(arrays));
    assert_non_null(*state);
    memset(*state, 0, sizeof(arrays));
    return 0;
}

static int tear_down(void** state) {
    free(*state);
    return 0;
}

static void run(
    arrays* at, emulation_function sample, bool is_cooperative, uint64_t blocks, uint32_t threads) {
    const sample_args args = {at->data, at->counts};
    emulation_run_function("sample", sample, is_cooperative, blocks, threads, &args);
}

static void every_thread_of_every_block_runs_once(void** state) {
    arrays* at = *state;
    for (int is_cooperative = 0; is_cooperative < 2; ++is_cooperative)
        for (int s = 0; s < SIZES; ++s) {
            memset(at, 0, sizeof *at);
            run(at, sample_count, is_cooperative == 1, 7, block_sizes[s]);
            for (uint32_t i = 0; i < MOST; ++i)
                assert_int_equal(at->counts[i], i < 7 * block_sizes[s]);
        }
}

static void no_blocks_do_nothing(void** state) {
    arrays* at = *state;
    run(at, sample_count, true, 0, 64);
    assert_int_equal(at->counts[0], 0);
}

static void a_wait_for_the_block_shows_what_all_threads_wrote(void** state) {
    arrays* at = *state;
    for (int s = 0; s < SIZES; ++s) {
        const uint32_t threads = block_sizes[s];
        run(at, sample_mirror, true, 5, threads);
        for (uint32_t i = 0; i < 5 * threads; ++i)
            assert_int_equal(at->data[i], threads - 1 - i % threads);
    }
}

static void a_reduction_over_the_block_reaches_every_thread(void** state) {
    arrays* at = *state;
    for (int s = 0; s < SIZES; ++s) {
        const uint32_t threads = block_sizes[s];
        run(at, sample_sum, true, 3, threads);
        for (uint32_t i = 0; i < 3 * threads; ++i)
            assert_int_equal(at->data[i], threads * (threads + 1) / 2);
    }
}

static void exchanges_in_a_row_do_not_mix(void** state) {
    arrays* at = *state;
    run(at, sample_rotate, true, 4, 128);
    for (uint32_t i = 0; i < 4 * 128; ++i)
        assert_int_equal(at->data[i], (i / 32 * 32 + (i + 1) % 32) % 128);
}

static void warps_that_wait_at_other_times_meet_in_the_block(void** state) {
    arrays* at = *state;
    for (int s = 0; s < SIZES; ++s) {
        run(at, sample_uneven, true, 4, block_sizes[s]);
        for (uint32_t i = 0; i < 4 * block_sizes[s]; ++i)
            assert_int_equal(at->data[i], 1);
    }
}

static void shared_memory_holds_nothing_of_the_block_before(void** state) {
    arrays* at = *state;
    run(at, sample_fresh, true, 9, 32);
    for (int i = 0; i < 9; ++i)
        assert_int_equal(at->data[i], 1);
}

static void blocks_and_threads_run_in_another_order_each_time(void** state) {
    arrays* at = *state;
    int changes_of_blocks = 0, changes_of_threads = 0;
    uint32_t blocks[64] = {0}, threads[64] = {0};
    for (int round = 0; round < 8; ++round) {
        run(at, sample_order, round % 2 == 0, 64, 64);
        changes_of_blocks += memcmp(at->data, blocks, sizeof blocks) != 0;
        changes_of_threads += memcmp(at->counts, threads, sizeof threads) != 0;
        memcpy(blocks, at->data, sizeof blocks);
        memcpy(threads, at->counts, sizeof threads);
    }
    assert_true(changes_of_blocks >= 7);
    assert_true(changes_of_threads >= 7);
}

static void* run_sums(void* state) {
    arrays* at = state;
    for (int round = 0; round < 20; ++round)
        run(at, sample_sum, true, 3, 256);
    return NULL;
}

static void several_threads_of_the_host_run_kernels_at_once(void** state) {
    (void)state;
    enum { THREADS = 4 };
    static arrays at[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, run_sums, &at[i]), 0);
    for (int i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; ++i)
        for (int j = 0; j < 3 * 256; ++j)
            assert_int_equal(at[i].data[j], 256 * 257 / 2);
}

/// A sample that is run against the rules.
typedef struct misuse {
    arrays* at;
    emulation_function sample;
    bool is_cooperative;
} misuse;

static void run_misuse(const void* opaque) {
    const misuse* given = opaque;
    run(given->at, given->sample, given->is_cooperative, 3, 64);
}

static void gather_with_too_many_threads(const void* opaque) {
    const berth_cuda_gather_args args = *(const berth_cuda_gather_args*)opaque;
    emulation_run(BERTH_CUDA_KERNEL_gather, 1, 512, &args);
}

/// Does something in a child, which must abort with a message that contains both texts.
static void expect_abort(void (*act)(const void*),
                         const void* opaque,
                         const char* kernel,
                         const char* part) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        act(opaque);
        _exit(0);
    }
    (void)close(ends[1]);
    char text[2048] = "";
    size_t length = 0;
    for (ssize_t got; length < sizeof text - 1 &&
                      (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    (void)close(ends[0]);
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_false(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    if (strstr(text, kernel) == NULL || strstr(text, part) == NULL)
        fail_msg("'%s' does not mention '%s'", text, part);
}

static void expect_end(arrays* at,
                       emulation_function sample,
                       bool is_cooperative,
                       const char* part) {
    expect_abort(run_misuse, &(misuse){at, sample, is_cooperative}, "kernel sample", part);
}

static void a_mistake_ends_the_process_and_is_named(void** state) {
    arrays* at = *state;
    expect_end(at, sample_half_waits, true, "32 threads wait at sync_block()");
    expect_end(at, sample_half_waits, true, "32 have ended");
    expect_end(at, sample_mixed_waits, true, "in another way");
    expect_end(at, sample_shared_beyond, true, "shared");
    expect_end(at, sample_forgotten_copy, true, "has not waited for its copies");
    expect_end(at, sample_odd_copy, true, "not aligned");
    expect_end(at, sample_mirror, false, "not listed as cooperative");
    expect_end(at, sample_rotate, false, "not listed as cooperative");
}

/// On a device such a launch fails: there may not be registers for so many.
static void a_block_of_more_threads_than_a_kernel_is_made_for_is_a_mistake(void** state) {
    (void)state;
    expect_abort(gather_with_too_many_threads,
                 &(berth_cuda_gather_args){0},
                 "berth_cuda_gather",
                 "512 threads a block, it is made for at most 256");
}

// --- Matrices of halves --------------------------------------------------------------------------

/// A whole number below 2^8 as a half type has it.
static uint32_t half_of(uint32_t number, bool is_bf16) {
    return is_bf16 ? emulation_f32_to_bf16((float)number) : emulation_f32_to_f16((float)number);
}

/// Elements of a [16, 16] and b [16, 8], all different within each.
static uint32_t a_at(uint32_t row, uint32_t k) { return (row * 16 + k) * 3 % 256; }
static uint32_t b_at(uint32_t k, uint32_t column) { return (k * 8 + column) * 5 % 128 + 100; }

static uint32_t two_of_a(uint32_t row, uint32_t k, bool is_bf16) {
    return half_of(a_at(row, k), is_bf16) | half_of(a_at(row, k + 1), is_bf16) << 16;
}

static uint32_t two_of_b(uint32_t k, uint32_t column, bool is_bf16) {
    return half_of(b_at(k, column), is_bf16) | half_of(b_at(k + 1, column), is_bf16) << 16;
}

static void a_warp_multiplies_matrices_whose_elements_lie_as_the_instruction_wants(void** state) {
    arrays* at = *state;
    for (int is_bf16 = 0; is_bf16 < 2; ++is_bf16) {
        at->counts[0] = (uint32_t)is_bf16;
        for (uint32_t lane = 0; lane < 32; ++lane) {
            const uint32_t g = lane / 4, t = lane % 4;
            const uint32_t registers[6] = {two_of_a(g, 2 * t, is_bf16),
                                           two_of_a(g + 8, 2 * t, is_bf16),
                                           two_of_a(g, 2 * t + 8, is_bf16),
                                           two_of_a(g + 8, 2 * t + 8, is_bf16),
                                           two_of_b(2 * t, g, is_bf16),
                                           two_of_b(2 * t + 8, g, is_bf16)};
            const float sums[4] = {(float)lane, (float)lane + 0.25F, -7, 1000};
            memcpy(at->data + lane * 10, registers, sizeof registers);
            memcpy(at->data + lane * 10 + 6, sums, sizeof sums);
        }
        run(at, sample_multiply, true, 1, 32);
        for (uint32_t lane = 0; lane < 32; ++lane) {
            const float before[4] = {(float)lane, (float)lane + 0.25F, -7, 1000};
            float sums[4];
            memcpy(sums, at->data + lane * 10 + 6, sizeof sums);
            for (uint32_t i = 0; i < 4; ++i) {
                const uint32_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
                uint32_t sum = 0; // exact in f32
                for (uint32_t k = 0; k < 16; ++k)
                    sum += a_at(row, k) * b_at(k, column);
                assert_true(sums[i] == (float)sum + before[i]);
            }
        }
    }
}

static void a_warp_turns_a_matrix(void** state) {
    arrays* at = *state;
    for (uint32_t lane = 0; lane < 32; ++lane) // row lane / 4: its number, and that of the column
        at->data[lane] = (lane / 4 * 10 + lane % 4 * 2) | (lane / 4 * 10 + lane % 4 * 2 + 1) << 16;
    run(at, sample_turn, true, 1, 32);
    for (uint32_t lane = 0; lane < 32; ++lane) {
        assert_int_equal(at->data[lane] & 0xffffu, lane % 4 * 2 * 10 + lane / 4);
        assert_int_equal(at->data[lane] >> 16, (lane % 4 * 2 + 1) * 10 + lane / 4);
    }
}

static void a_warp_loads_four_matrices_and_turns_them(void** state) {
    arrays* at = *state;
    uint16_t rows[32][8]; // of matrix row / 8
    for (uint16_t row = 0; row < 32; ++row)
        for (uint16_t column = 0; column < 8; ++column)
            rows[row][column] = (uint16_t)(row * 10 + column);
    memcpy(at->counts, rows, sizeof rows);
    run(at, sample_load_turned, true, 1, 32);
    for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t m = 0; m < 4; ++m) {
            const uint32_t two = at->data[lane * 4 + m], row = m * 8 + lane % 4 * 2;
            assert_int_equal(two & 0xffffu, row * 10 + lane / 4);
            assert_int_equal(two >> 16, (row + 1) * 10 + lane / 4);
        }
}

static void copies_happen_no_earlier_than_they_are_waited_for(void** state) {
    arrays* at = *state;
    for (uint32_t i = 0; i < 128; ++i)
        at->counts[i] = 0x01010101u * (i + 1);
    run(at, sample_copies, true, 1, 32);
    for (uint32_t thread = 0; thread < 32; ++thread) {
        assert_int_equal(at->counts[thread * 4], 1);
        unsigned char expected[16] = {0};
        uint32_t from[4];
        for (uint32_t i = 0; i < 4; ++i)
            from[i] = 0x01010101u * (thread * 4 + i + 1) + (i == 0);
        memcpy(expected, from, thread % 17);
        assert_memory_equal(at->data + thread * 4, expected, sizeof expected);
    }
}

static void kernels_are_found_by_their_symbols(void** state) {
    (void)state;
    const berth_cuda_kernel found = emulation_find("berth_cuda_move");
    assert_int_equal(found, BERTH_CUDA_KERNEL_move);
    assert_int_equal(emulation_argument_bytes(found), sizeof(berth_cuda_move_args));
    assert_int_equal(emulation_find("move"), BERTH_CUDA_KERNEL_COUNT);
    assert_int_equal(emulation_find(""), BERTH_CUDA_KERNEL_COUNT);
}

static void bytes_move_to_where_they_overlap(void** state) {
    unsigned char* bytes = (unsigned char*)((arrays*)*state)->data;
    static const size_t lengths[] = {0, 1, 100, 4096, 20000};
    static const ptrdiff_t shifts[] = {-4096, -16, -3, 3, 16, 512};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; ++l)
        for (size_t s = 0; s < sizeof shifts / sizeof shifts[0]; ++s) {
            for (size_t i = 0; i < sizeof(uint32_t) * MOST; ++i)
                bytes[i] = (unsigned char)(i * 7 + i / 251);
            static unsigned char expected[sizeof(uint32_t) * MOST];
            memcpy(expected, bytes, sizeof expected);
            unsigned char* const from = bytes + 4096;
            memmove(expected + 4096 + shifts[s], expected + 4096, lengths[l]);
            const berth_cuda_move_args args = {from + shifts[s], from, lengths[l]};
            emulation_run(BERTH_CUDA_KERNEL_move, 1, 256, &args);
            assert_memory_equal(bytes, expected, sizeof expected);
        }
}

/// Halves between neighbours round to the even one; so do the conversions, everywhere.
static void half_types_convert_as_their_formats_say(void** state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const uint16_t half = (uint16_t)bits;
        const float wide = emulation_f16_to_f32(half);
        const bool is_nan = (bits & 0x7fff) > 0x7c00;
        assert_int_equal(wide != wide, is_nan);
        assert_int_equal(emulation_f32_to_f16(wide), is_nan ? 0x7fff : half);
        const float wide_bf = emulation_bf16_to_f32(half);
        const bool is_nan_bf = (bits & 0x7fff) > 0x7f80;
        assert_int_equal(wide_bf != wide_bf, is_nan_bf);
        assert_int_equal(emulation_f32_to_bf16(wide_bf), is_nan_bf ? 0x7fff : half);
        if ((bits & 0x7fff) >= 0x7bff) continue;
        // Between this number and the next larger one of the same sign.
        const float next = emulation_f16_to_f32((uint16_t)(half + 1));
        const float middle = wide + (next - wide) / 2;
        const uint16_t even = bits % 2 == 0 ? half : (uint16_t)(half + 1);
        assert_int_equal(emulation_f32_to_f16(middle), even);
        assert_int_equal(emulation_f32_to_f16(wide + (next - wide) * 0.49f), half);
        assert_int_equal(emulation_f32_to_f16(wide + (next - wide) * 0.51f), half + 1);
    }
    assert_int_equal(emulation_f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(emulation_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(emulation_f32_to_bf16(1.00390625f), 0x3f80);
    assert_int_equal(emulation_f32_to_bf16(1.01171875f), 0x3f82);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_thread_of_every_block_runs_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_blocks_do_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_wait_for_the_block_shows_what_all_threads_wrote, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_reduction_over_the_block_reaches_every_thread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exchanges_in_a_row_do_not_mix, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            warps_that_wait_at_other_times_meet_in_the_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            shared_memory_holds_nothing_of_the_block_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            blocks_and_threads_run_in_another_order_each_time, set_up, tear_down),
        cmocka_unit_test(several_threads_of_the_host_run_kernels_at_once),
        cmocka_unit_test_setup_teardown(a_mistake_ends_the_process_and_is_named, set_up, tear_down),
        cmocka_unit_test(a_block_of_more_threads_than_a_kernel_is_made_for_is_a_mistake),
        cmocka_unit_test_setup_teardown(
            a_warp_multiplies_matrices_whose_elements_lie_as_the_instruction_wants,
            set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(a_warp_turns_a_matrix, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_warp_loads_four_matrices_and_turns_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            copies_happen_no_earlier_than_they_are_waited_for, set_up, tear_down),
        cmocka_unit_test(kernels_are_found_by_their_symbols),
        cmocka_unit_test_setup_teardown(bytes_move_to_where_they_overlap, set_up, tear_down),
        cmocka_unit_test(half_types_convert_as_their_formats_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
