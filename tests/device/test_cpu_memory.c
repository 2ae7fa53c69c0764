// SPDX-License-Identifier: Apache-2.0
// What is particular to spaces of the CPU device: mappings counted and joined, memory really there.
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "device/cpu/cpu_memory.h"
#include "device/cpu/cpu_system.h"
#include "random.h"

#define GRANULE ((uint64_t)BERTH_CPU_GRANULE_BYTES)

typedef struct fixture {
    berth_cpu_memory memory;
    berth_device device; // as far as spaces look at it
} fixture;

static int set_up(void** state) {
    static fixture f;
    f = (fixture){.device = {.host = berth_host_default(), .granule_bytes = GRANULE}};
    *state = &f;
    return berth_cpu_memory_init(
               &f.memory, BERTH_HUGE_MADVISE, &(berth_numa){.is_placing = false}) == BERTH_OK
               ? 0
               : 1;
}

static int tear_down(void** state) {
    fixture* f = *state;
    berth_cpu_memory_fini(&f->memory);
    return 0;
}

/// Mappings of the process between two addresses.
static uint64_t count_mappings(const berth_space* space) {
    FILE* file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    uint64_t count = 0;
    char line[512];
    while (fgets(line, sizeof line, file) != NULL) {
        const uintptr_t begin = strtoull(line, NULL, 16);
        const uintptr_t base = (uintptr_t)space->base;
        count += begin >= base && begin < base + space->size_bytes;
    }
    (void)fclose(file);
    return count;
}

static bool is_resident(unsigned char* base, uint64_t size) {
    static unsigned char pages[4096];
    const uint64_t count = size / (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(count >= 1 && count <= sizeof pages);
    assert_int_equal(mincore(base, size, pages), 0);
    for (uint64_t i = 0; i < count; i++) {
        if ((pages[i] & 1) == 0) return false;
    }
    return true;
}

static void a_mapped_granule_is_populated_and_an_unmapped_one_is_not(void** state) {
    fixture* f = *state;
    berth_space* space;
    assert_ok(berth_cpu_space_reserve(&f->memory, &f->device, 4 * GRANULE, &space));
    assert_ok(berth_cpu_space_map(&f->memory, space, GRANULE, GRANULE));
    assert_true(is_resident(space->base + GRANULE, GRANULE));
    assert_false(is_resident(space->base, GRANULE));
    assert_ok(berth_cpu_space_unmap(&f->memory, space, GRANULE, GRANULE));
    assert_false(is_resident(space->base + GRANULE, GRANULE));
    berth_cpu_space_release(space);
}

static void neighbours_are_one_mapping_whatever_the_order(void** state) {
    fixture* f = *state;
    berth_space* space;
    assert_ok(berth_cpu_space_reserve(&f->memory, &f->device, 32 * GRANULE, &space));
    for (uint64_t i = 0; i < 32; i += 2)
        assert_ok(berth_cpu_space_map(&f->memory, space, i * GRANULE, GRANULE));
    assert_int_equal(count_mappings(space), 32);
    for (uint64_t i = 1; i < 32; i += 2)
        assert_ok(berth_cpu_space_map(&f->memory, space, i * GRANULE, GRANULE));
    assert_int_equal(count_mappings(space), 1);
    for (uint64_t i = 0; i < 32; i++)
        assert_ok(berth_cpu_space_unmap(&f->memory, space, i * 7 % 32 * GRANULE, GRANULE));
    assert_int_equal(count_mappings(space), 1);
    berth_cpu_space_release(space);
}

static void the_count_is_never_below_what_the_process_has(void** state) {
    fixture* f = *state;
    test_random random = test_random_make(5);
    berth_space* space;
    bool open[24] = {false};
    const uint64_t others = berth_cpu_count_mappings(NULL);
    f->memory.mapping_limit = others + 200; // so that they are counted now and then
    assert_ok(berth_cpu_space_reserve(&f->memory, &f->device, 24 * GRANULE, &space));
    for (int round = 0; round < 300; round++) {
        const uint64_t at = test_random_below(&random, 24), to = test_random_below(&random, 24);
        if (!open[at]) {
            assert_ok(berth_cpu_space_map(&f->memory, space, at * GRANULE, GRANULE));
        } else if (!open[to]) {
            assert_ok(berth_cpu_space_remap(
                &f->memory, space, at * GRANULE, space, to * GRANULE, GRANULE));
            open[to] = true;
        } else {
            assert_ok(berth_cpu_space_unmap(&f->memory, space, at * GRANULE, GRANULE));
        }
        open[at] = !open[at];
        assert_true(f->memory.mapping_count >= others + count_mappings(space));
    }
    for (uint64_t i = 0; i < 24; i++) {
        if (open[i]) assert_ok(berth_cpu_space_unmap(&f->memory, space, i * GRANULE, GRANULE));
    }
    assert_in_range(count_mappings(space), 1, 24);
    berth_cpu_space_release(space);
}

static void the_limit_of_mappings_refuses_and_leaves_the_rest_usable(void** state) {
    fixture* f = *state;
    berth_space *space, *other = NULL;
    f->memory.mapping_limit = berth_cpu_count_mappings(NULL) + 14;
    assert_ok(berth_cpu_space_reserve(&f->memory, &f->device, 32 * GRANULE, &space));
    uint64_t mapped = 0;
    while (mapped < 16 &&
           berth_cpu_space_map(&f->memory, space, 2 * mapped * GRANULE, GRANULE) == BERTH_OK)
        mapped++;
    assert_in_range(mapped, 2, 8);
    assert_non_null(strstr(berth_last_error(), "max_map_count"));
    assert_fails(berth_cpu_space_reserve(&f->memory, &f->device, GRANULE, &other),
                 BERTH_ERR_OUT_OF_MEMORY,
                 "max_map_count");
    assert_null(other);
    for (uint64_t i = 0; i < mapped; i++)
        space->base[2 * i * GRANULE] = 1;
    for (uint64_t i = 0; i < mapped; i++)
        assert_ok(berth_cpu_space_unmap(&f->memory, space, 2 * i * GRANULE, GRANULE));
    assert_ok(berth_cpu_space_map(&f->memory, space, 0, 32 * GRANULE)); // one piece
    assert_ok(berth_cpu_space_unmap(&f->memory, space, 0, 32 * GRANULE));
    berth_cpu_space_release(space);
}

static void a_move_of_page_tables_and_a_copy_have_the_same_result(void** state) {
    fixture* f = *state;
    for (int copying = 0; copying < 2; copying++) {
        if (copying) f->memory.can_move_pages = false;
        berth_space *a, *b;
        assert_ok(berth_cpu_space_reserve(&f->memory, &f->device, 4 * GRANULE, &a));
        assert_ok(berth_cpu_space_reserve(&f->memory, &f->device, 4 * GRANULE, &b));
        assert_ok(berth_cpu_space_map(&f->memory, a, 0, 3 * GRANULE));
        for (uint64_t i = 0; i < 3 * GRANULE; i += 4096)
            a->base[i] = (unsigned char)(i >> 12);
        assert_ok(berth_cpu_space_remap(&f->memory, a, 0, b, GRANULE, 3 * GRANULE));
        for (uint64_t i = 0; i < 3 * GRANULE; i += 4096)
            assert_int_equal(b->base[GRANULE + i], (i >> 12) & 0xFF);
        assert_false(is_resident(a->base, GRANULE));
        assert_ok(berth_cpu_space_unmap(&f->memory, b, GRANULE, 3 * GRANULE));
        berth_cpu_space_release(a);
        berth_cpu_space_release(b);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_mapped_granule_is_populated_and_an_unmapped_one_is_not),
        TEST(neighbours_are_one_mapping_whatever_the_order),
        TEST(the_count_is_never_below_what_the_process_has),
        TEST(the_limit_of_mappings_refuses_and_leaves_the_rest_usable),
        TEST(a_move_of_page_tables_and_a_copy_have_the_same_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
