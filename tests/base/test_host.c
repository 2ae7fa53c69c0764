// SPDX-License-Identifier: Apache-2.0
// Host metadata memory and growable arrays.
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/thread.h"
#include "base/vec.h"
#include "failing_host.h"
#include "random.h"

BERTH_VEC_DEFINE(number_vec, uint64_t);

typedef struct fixture {
    failing_host allocator;
    berth_host* host;
} fixture;

static int set_up(void** state) {
    fixture* f = calloc(1, sizeof *f);
    if (f == NULL) return 1;
    failing_host_init(&f->allocator);
    if (berth_host_create(&f->allocator.allocator, &f->host) != BERTH_OK) return 1;
    *state = f;
    return 0;
}

static int tear_down(void** state) {
    fixture* f = *state;
    berth_host_destroy(f->host);
    const bool clean = f->allocator.live_blocks == 0 && !f->allocator.mismatch;
    free(f);
    return clean ? 0 : 1;
}

static void blocks_are_aligned_and_counted_as_asked(void** state) {
    fixture* f = *state;
    test_random random = test_random_make(1);
    void* blocks[64];
    size_t sum = 0;
    for (int i = 0; i < 64; i++) {
        const size_t size = test_random_below(&random, 5000);
        const size_t alignment = (size_t)1 << test_random_below(&random, 13);
        blocks[i] = berth_host_alloc_aligned(f->host, size, alignment);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % alignment, 0);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], i, size);
        sum += size;
        assert_int_equal(berth_host_query_live_bytes(f->host), sum);
    }
    assert_int_equal(berth_host_query_alloc_calls(f->host), 64);
    for (int i = 0; i < 64; i++)
        berth_host_free(f->host, blocks[i]);
    assert_int_equal(berth_host_query_live_bytes(f->host), 0);
    berth_host_free(f->host, NULL);
}

static void calloc_gives_zeros_and_checks_its_product(void** state) {
    fixture* f = *state;
    unsigned char* block = berth_host_calloc(f->host, 10, 30);
    assert_non_null(block);
    for (int i = 0; i < 300; i++)
        assert_int_equal(block[i], 0);
    berth_host_free(f->host, block);
    assert_null(berth_host_calloc(f->host, SIZE_MAX / 2, 3));
    assert_null(berth_host_alloc(f->host, SIZE_MAX - 3));
    assert_null(berth_host_alloc_aligned(f->host, 16, SIZE_MAX / 2 + 1));
    assert_int_equal(berth_host_query_live_bytes(f->host), 0);
}

static void an_empty_block_can_be_freed(void** state) {
    fixture* f = *state;
    void* block = berth_host_alloc(f->host, 0);
    assert_non_null(block);
    berth_host_free(f->host, block);
}

static void realloc_keeps_content_and_alignment(void** state) {
    fixture* f = *state;
    char* block = berth_host_alloc_aligned(f->host, 10, 256);
    assert_non_null(block);
    memcpy(block, "0123456789", 10);
    block = berth_host_realloc(f->host, block, 5000);
    assert_memory_equal(block, "0123456789", 10);
    assert_int_equal((uintptr_t)block % 256, 0);
    block = berth_host_realloc(f->host, block, 4);
    assert_memory_equal(block, "0123", 4);
    assert_int_equal(berth_host_query_live_bytes(f->host), 4);
    failing_host_fail(&f->allocator, 1, false);
    assert_null(berth_host_realloc(f->host, block, 100));
    assert_memory_equal(block, "0123", 4);
    berth_host_free(f->host, block);
    block = berth_host_realloc(f->host, NULL, 3);
    assert_non_null(block);
    berth_host_free(f->host, block);
}

static void strdup_copies(void** state) {
    fixture* f = *state;
    char* copy = berth_host_strdup(f->host, "quay");
    assert_string_equal(copy, "quay");
    assert_int_equal(berth_host_query_live_bytes(f->host), 5);
    berth_host_free(f->host, copy);
    failing_host_fail(&f->allocator, 1, false);
    assert_null(berth_host_strdup(f->host, "quay"));
}

static void a_host_needs_memory_and_both_functions(void** state) {
    fixture* f = *state;
    berth_host* host;
    failing_host_fail(&f->allocator, 1, false);
    assert_int_equal(berth_host_create(&f->allocator.allocator, &host), BERTH_ERR_OUT_OF_MEMORY);
    assert_null(host);
    berth_host_allocator half = f->allocator.allocator;
    half.free = NULL;
    assert_fails(berth_host_create(&half, &host), BERTH_ERR_INVALID_ARGUMENT, "alloc and free");
    assert_null(host);
    berth_host_destroy(NULL);
}

static void the_built_in_allocator_works_as_host_and_as_default(void** state) {
    (void)state;
    berth_host* host;
    assert_ok(berth_host_create(NULL, &host));
    const berth_host* hosts[] = {host, berth_host_default()};
    for (int i = 0; i < 2; i++) {
        const uint64_t before = berth_host_query_live_bytes(hosts[i]);
        void* small = berth_host_alloc(hosts[i], 100);
        void* large = berth_host_alloc_aligned(hosts[i], 3 << 20, 4096);
        assert_non_null(small);
        assert_non_null(large);
        assert_int_equal((uintptr_t)large % 4096, 0);
        memset(large, 1, 3 << 20);
        assert_int_equal(berth_host_query_live_bytes(hosts[i]) - before, 100 + (3 << 20));
        berth_host_free(hosts[i], small);
        berth_host_free(hosts[i], large);
        assert_int_equal(berth_host_query_live_bytes(hosts[i]), before);
    }
    assert_ptr_equal(berth_host_default(), berth_host_default());
    berth_host_destroy(host);
}

static void churn(void* opaque) {
    const berth_host* host = opaque;
    void* blocks[16] = {NULL};
    test_random random = test_random_make((uintptr_t)&random);
    for (int i = 0; i < 2000; i++) {
        void** slot = &blocks[test_random_below(&random, 16)];
        berth_host_free(host, *slot);
        *slot = berth_host_alloc(host, test_random_below(&random, 300));
    }
    for (int i = 0; i < 16; i++)
        berth_host_free(host, blocks[i]);
}

static void threads_share_a_host(void** state) {
    (void)state;
    berth_host* host;
    assert_ok(berth_host_create(NULL, &host));
    berth_thread threads[3];
    for (int i = 0; i < 3; i++)
        assert_ok(berth_thread_start(&threads[i], "churn", churn, host));
    for (int i = 0; i < 3; i++)
        berth_thread_join(&threads[i]);
    assert_int_equal(berth_host_query_live_bytes(host), 0);
    assert_int_equal(berth_host_query_alloc_calls(host), 6000);
    berth_host_destroy(host);
}

static void an_array_keeps_what_was_pushed(void** state) {
    fixture* f = *state;
    number_vec numbers = {0};
    for (uint64_t i = 0; i < 1000; i++)
        assert_ok(number_vec_push(&numbers, f->host, i * i));
    assert_int_equal(numbers.count, 1000);
    assert_in_range(numbers.capacity, 1000, 2000);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(numbers.items[i], i * i);
    number_vec_fini(&numbers, f->host);
    assert_null(numbers.items);
    assert_int_equal(berth_host_query_live_bytes(f->host), 0);
}

static void an_array_that_cannot_grow_stays_as_it_was(void** state) {
    fixture* f = *state;
    number_vec numbers = {0};
    for (uint64_t i = 0; i < 8; i++)
        assert_ok(number_vec_push(&numbers, f->host, i));
    failing_host_fail(&f->allocator, 1, false);
    assert_fails(number_vec_push(&numbers, f->host, 8), BERTH_ERR_OUT_OF_MEMORY, "no memory");
    assert_int_equal(numbers.count, 8);
    assert_int_equal(numbers.items[7], 7);
    assert_fails(
        number_vec_reserve(&numbers, f->host, SIZE_MAX / 4), BERTH_ERR_OUT_OF_MEMORY, "too large");
    assert_ok(number_vec_push(&numbers, f->host, 8));
    assert_int_equal(numbers.items[8], 8);
    number_vec_fini(&numbers, f->host);
}

static void checked_arithmetic_finds_what_does_not_fit(void** state) {
    (void)state;
    uint64_t u;
    int64_t i;
    assert_true(berth_add_u64(UINT64_MAX - 1, 1, &u));
    assert_int_equal(u, UINT64_MAX);
    assert_false(berth_add_u64(UINT64_MAX, 1, &u));
    assert_false(berth_mul_u64(1ull << 32, 1ull << 32, &u));
    assert_false(berth_add_i64(INT64_MAX, 1, &i));
    assert_false(berth_mul_i64(INT64_MIN, -1, &i));
    assert_true(berth_try_round_up(65, 64, &u));
    assert_int_equal(u, 128);
    assert_false(berth_try_round_up(UINT64_MAX - 5, 64, &u));
    assert_int_equal(berth_round_up(64, 64), 64);
    assert_int_equal(berth_round_down(127, 64), 64);
    assert_true(berth_is_power_of_two(1));
    assert_false(berth_is_power_of_two(0));
    assert_false(berth_is_power_of_two(12));
}

#if BERTH_HOST_JEMALLOC

static long count_faults(void) {
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

static long resident_pages(void) {
    long whole = 0, resident = 0;
    FILE* file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &whole, &resident), 2);
    fclose(file);
    return resident;
}

/// Older kernels do not populate on request.
static bool can_populate(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void* at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    const bool works = madvise(at, page, MADV_POPULATE_WRITE) == 0;
    assert_int_equal(munmap(at, page), 0);
    return works;
}

static void metadata_grows_without_page_faults(void** state) {
    (void)state;
    if (!can_populate()) {
        print_message("this kernel has no MADV_POPULATE_WRITE\n");
        skip();
    }
    enum { BLOCKS = 256, BLOCK_BYTES = 4096 };
    const berth_host* host = berth_host_default();
    unsigned char* blocks[BLOCKS];
    berth_host_free(host, berth_host_alloc(host, 1)); // the first stretch is there now
    const long before = count_faults();
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = berth_host_alloc(host, BLOCK_BYTES);
        assert_non_null(blocks[i]);
        memset(blocks[i], i, BLOCK_BYTES);
    }
    assert_true(count_faults() - before < BLOCKS / 8); // jemalloc's own books
    for (int i = 0; i < BLOCKS; i++)
        berth_host_free(host, blocks[i]);
}

static void large_metadata_goes_back_to_the_system(void** state) {
    (void)state;
    const size_t bytes = (size_t)32 << 20;
    const long pages = (long)(bytes / (size_t)sysconf(_SC_PAGESIZE));
    const berth_host* host = berth_host_default();
    berth_host_free(host, berth_host_alloc(host, 1));
    const long before = resident_pages();
    unsigned char* block = berth_host_alloc(host, bytes);
    assert_non_null(block);
    memset(block, 1, bytes);
    assert_true(resident_pages() - before > pages / 2);
    berth_host_free(host, block);
    assert_true(resident_pages() - before < pages / 4);
}

#endif

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(blocks_are_aligned_and_counted_as_asked),
        TEST(calloc_gives_zeros_and_checks_its_product),
        TEST(an_empty_block_can_be_freed),
        TEST(realloc_keeps_content_and_alignment),
        TEST(strdup_copies),
        TEST(a_host_needs_memory_and_both_functions),
        TEST(the_built_in_allocator_works_as_host_and_as_default),
        TEST(threads_share_a_host),
        TEST(an_array_keeps_what_was_pushed),
        TEST(an_array_that_cannot_grow_stays_as_it_was),
        TEST(checked_arithmetic_finds_what_does_not_fit),
#if BERTH_HOST_JEMALLOC
        cmocka_unit_test(metadata_grows_without_page_faults),
        cmocka_unit_test(large_metadata_goes_back_to_the_system),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
