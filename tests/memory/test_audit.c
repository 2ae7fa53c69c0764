// SPDX-License-Identifier: Apache-2.0
// The notes on blocks that are out: places, moves, bounds, and the history as a trace.
#include "kit/test.h"

#include <stdlib.h>

#include "base/clock.h"
#include "kit/failing_host.h"
#include "kit/random.h"
#include "memory/audit.h"
#include "plan/trace_export.h"
#include "plan/trace_file.h"

static const berth_audit_site in_step = {"linear", "decode", 3};
static const berth_audit_site plain = {"alloc", NULL, BERTH_AUDIT_NO_EVENT};

static const void* at(uint64_t address) { return (const void*)(uintptr_t)address; }

static berth_audit* make(uint64_t events) {
    berth_audit* audit;
    assert_ok(berth_audit_create(berth_host_default(), events, &audit));
    return audit;
}

static void take(berth_audit* audit, uint64_t address, uint64_t bytes) {
    const berth_audit_site* site = bytes % 2 == 0 ? &in_step : &plain;
    assert_ok(berth_audit_note_take(audit, BERTH_AUDIT_BLOCK, at(address), bytes, site));
}

static const char* leaks(berth_audit* audit) {
    static char buffer[1000];
    berth_text text = {.buffer = buffer, .size = sizeof buffer};
    buffer[0] = '\0';
    assert_ok(berth_audit_write_leaks(audit, &text));
    return buffer;
}

static void what_is_out_is_listed_by_place_largest_first(void** state) {
    (void)state;
    berth_audit* audit = make(0);
    take(audit, 64, 10);
    take(audit, 128, 1001);
    take(audit, 192, 20);
    assert_string_equal(leaks(audit),
                        "1 blocks, 1001 bytes: alloc, oldest 1 takes ago\n"
                        "2 blocks, 30 bytes: linear in step decode, event 3, oldest 2 takes ago\n");
    berth_audit_note_give(audit, at(64));
    berth_audit_note_give(audit, at(128));
    berth_audit_note_give(audit, at(256)); // is not noted
    assert_string_equal(leaks(audit),
                        "1 blocks, 20 bytes: linear in step decode, event 3, oldest 0 takes ago\n");
    berth_audit_note_give(audit, at(192));
    assert_string_equal(leaks(audit), "");
    berth_audit_destroy(audit);
}

static void a_block_that_moves_keeps_its_place_in_the_program(void** state) {
    (void)state;
    berth_audit* audit = make(8);
    take(audit, 64, 10);
    berth_audit_note_move(audit, at(64), at(640));
    take(audit, 64, 11);
    berth_audit_site site;
    assert_true(berth_audit_query_site(audit, at(640), &site));
    assert_string_equal(site.op, "linear");
    assert_true(berth_audit_query_site(audit, at(64), &site));
    assert_string_equal(site.op, "alloc");
    assert_false(berth_audit_query_site(audit, at(128), &site));
    uint64_t blocks, bytes;
    berth_audit_note_give(audit, at(640));
    berth_audit_query_out(audit, &blocks, &bytes);
    assert_int_equal(blocks, 1);
    assert_int_equal(bytes, 11);
    berth_audit_destroy(audit);
}

static void places_are_bounded_and_the_rest_counted_together(void** state) {
    (void)state;
    berth_audit* audit = make(0);
    for (uint32_t i = 0; i < BERTH_AUDIT_SITES_MAX + 100; i++) {
        const berth_audit_site site = {"add", "step", i};
        const uint64_t address = 64 + 64 * (uint64_t)i;
        assert_ok(berth_audit_note_take(audit, BERTH_AUDIT_BLOCK, at(address), 1000, &site));
        if (i < BERTH_AUDIT_SITES_MAX - 1) berth_audit_note_give(audit, at(address));
    }
    assert_string_equal(leaks(audit),
                        "101 blocks, 101000 bytes: other places, oldest 100 takes ago\n");
    berth_audit_destroy(audit);
}

static void every_failed_allocation_leaves_the_notes_as_they_were(void** state) {
    (void)state;
    failing_host failing;
    failing_host_init(&failing);
    berth_host* host;
    assert_ok(berth_host_create(&failing.allocator, &host));
    for (size_t nth = 1;; nth++) {
        failing_host_fail(&failing, nth, false);
        berth_audit* audit;
        const berth_status status = berth_audit_create(host, 100, &audit);
        if (status != BERTH_OK) {
            assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
            continue;
        }
        uint64_t noted = 0;
        for (uint64_t i = 1; i <= 100; i++) {
            const berth_audit_site site = {"add", "step", (uint32_t)i};
            noted +=
                berth_audit_note_take(audit, BERTH_AUDIT_BLOCK, at(64 * i), i, &site) == BERTH_OK;
        }
        uint64_t blocks, bytes;
        berth_audit_query_out(audit, &blocks, &bytes);
        assert_int_equal(blocks, noted);
        for (uint64_t i = 1; i <= 100; i++)
            berth_audit_note_give(audit, at(64 * i));
        berth_audit_query_out(audit, &blocks, &bytes);
        assert_int_equal(blocks + bytes, 0);
        const bool failed = failing_host_has_failed(&failing);
        berth_audit_destroy(audit);
        if (!failed) break;
    }
    berth_host_destroy(host);
    assert_int_equal(failing.live_blocks, 0);
}

// --- History -------------------------------------------------------------------------------------

static berth_trace_file* parse_history(berth_audit* audit) {
    berth_byte_writer out = {.host = berth_host_default()};
    berth_write_bytes(&out, BERTH_TRACE_HEADER, strlen(BERTH_TRACE_HEADER));
    berth_audit_write_history(audit, &out);
    assert_false(out.failed);
    berth_trace_file* file;
    assert_ok(berth_trace_file_parse("history", out.data, out.count, &file));
    berth_byte_writer_fini(&out);
    return file;
}

/// A lifetime in takes and gives since the history's first event; 0 .. as long as it lasts.
typedef struct lifetime {
    uint64_t lower;
    uint64_t upper;
    uint64_t bytes;
} lifetime;

static int by_content(const void* left, const void* right) {
    return memcmp(left, right, sizeof(lifetime));
}

enum { EVENTS = 3000, RING = 500, SLOTS = 40 };

static void a_history_has_the_lifetimes_of_its_stretch(void** state) {
    (void)state;
    test_random random = test_random_make(11);
    berth_audit* audit = make(RING);
    static lifetime all[EVENTS], seen[EVENTS], expected[EVENTS];
    size_t count = 0, expected_count = 0;
    size_t slots[SLOTS]; // lifetimes of what is out, from 1
    memset(slots, 0, sizeof slots);
    for (uint64_t event = 0; event < EVENTS; event++) {
        const size_t slot = (size_t)test_random_below(&random, SLOTS);
        const uint64_t address = 64 + 64 * slot;
        if (slots[slot] == 0) {
            const uint64_t bytes = 1 + test_random_below(&random, 1u << 20);
            take(audit, address, bytes);
            all[count++] = (lifetime){event, UINT64_MAX, bytes};
            slots[slot] = count;
        } else {
            berth_audit_note_give(audit, at(address));
            all[slots[slot] - 1].upper = event;
            slots[slot] = 0;
        }
    }
    const uint64_t first = EVENTS - RING;
    for (size_t i = 0; i < count; i++) {
        if (all[i].upper < first) continue;
        expected[expected_count++] = (lifetime){
            all[i].lower < first ? 0 : all[i].lower - first,
            all[i].upper == UINT64_MAX ? RING : all[i].upper - first,
            all[i].bytes,
        };
    }
    berth_trace_file* file = parse_history(audit);
    assert_int_equal(file->sections.count, 1);
    assert_int_equal(file->blocks.count, expected_count);
    for (size_t i = 0; i < expected_count; i++) {
        const berth_trace_block* block = &file->blocks.items[i];
        seen[i] = (lifetime){block->lower, block->upper, block->bytes};
        if (seen[i].lower > 0)
            assert_string_equal(block->label, block->bytes % 2 == 0 ? "decode/linear" : "alloc");
    }
    qsort(expected, expected_count, sizeof *expected, by_content);
    qsort(seen, expected_count, sizeof *seen, by_content);
    assert_memory_equal(seen, expected, expected_count * sizeof *seen);
    berth_trace_file_destroy(file);
    berth_audit_destroy(audit);
}

static void names_of_any_letters_are_written_as_one_field(void** state) {
    (void)state;
    berth_audit* audit = make(4);
    const berth_audit_site site = {"op \"a\", b", "step\n1", 0};
    assert_ok(berth_audit_note_take(audit, BERTH_AUDIT_BLOCK, at(64), 5, &site));
    berth_trace_file* file = parse_history(audit);
    assert_string_equal(file->blocks.items[0].label, "step_1/op \"a\", b");
    berth_trace_file_destroy(file);
    berth_audit_destroy(audit);
}

static void memory_beside_the_pool_is_no_part_of_the_history(void** state) {
    (void)state;
    berth_audit* audit = make(4);
    assert_ok(berth_audit_note_take(audit, BERTH_AUDIT_BESIDE, at(64), 5, &plain));
    take(audit, 128, 6);
    berth_audit_note_give(audit, at(64));
    berth_trace_file* file = parse_history(audit);
    assert_int_equal(file->blocks.count, 1);
    assert_int_equal(file->blocks.items[0].bytes, 6);
    berth_trace_file_destroy(file);
    berth_audit_destroy(audit);
}

static uint64_t two_seconds(void* self) {
    (void)self;
    static uint64_t now = 1000000000;
    return now += 1000000000;
}

static void times_are_microseconds_since_the_beginning(void** state) {
    (void)state;
    const berth_clock_source source = {.now_ns = two_seconds};
    berth_clock_set_source(&source);
    berth_audit* audit = make(4);
    take(audit, 64, 5);
    berth_clock_set_source(NULL);
    berth_byte_writer out = {.host = berth_host_default()};
    berth_audit_write_history(audit, &out);
    berth_write_u8(&out, 0);
    assert_string_equal((const char*)out.data, "O,\"alloc\",,,\nA,1,5,1000000,1\n");
    berth_byte_writer_fini(&out);
    berth_audit_destroy(audit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_out_is_listed_by_place_largest_first),
        cmocka_unit_test(a_block_that_moves_keeps_its_place_in_the_program),
        cmocka_unit_test(places_are_bounded_and_the_rest_counted_together),
        cmocka_unit_test(every_failed_allocation_leaves_the_notes_as_they_were),
        cmocka_unit_test(a_history_has_the_lifetimes_of_its_stretch),
        cmocka_unit_test(names_of_any_letters_are_written_as_one_field),
        cmocka_unit_test(memory_beside_the_pool_is_no_part_of_the_history),
        cmocka_unit_test(times_are_microseconds_since_the_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
