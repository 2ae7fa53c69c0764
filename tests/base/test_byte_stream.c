// SPDX-License-Identifier: Apache-2.0
// Numbers and texts as bytes: the same everywhere, and never more read than there is.
#include "base/byte_stream.h"

#include "kit/failing_host.h"
#include "kit/test.h"

static void numbers_are_little_endian(void** state) {
    (void)state;
    berth_byte_writer writer = {.host = berth_host_default()};
    berth_write_u8(&writer, 0xab);
    berth_write_u16(&writer, 0x1234);
    berth_write_u32(&writer, 0x89abcdef);
    berth_write_u64(&writer, UINT64_C(0x0102030405060708));
    berth_write_text(&writer, "hi");
    static const unsigned char expected[] = {
        0xab, 0x34, 0x12, 0xef, 0xcd, 0xab, 0x89, 8, 7, 6, 5, 4, 3, 2, 1, 2, 0, 0, 0, 'h', 'i'};
    assert_false(writer.failed);
    assert_int_equal(writer.count, sizeof expected);
    assert_memory_equal(writer.data, expected, sizeof expected);
    berth_rewrite_u64(&writer, 7, 9);
    berth_byte_reader reader = {writer.data, writer.count, false};
    assert_int_equal(berth_read_u8(&reader), 0xab);
    assert_int_equal(berth_load_u16(berth_read_bytes(&reader, 2)), 0x1234);
    assert_int_equal(berth_read_u32(&reader), 0x89abcdef);
    assert_int_equal(berth_read_u64(&reader), 9);
    const berth_byte_text text = berth_read_text(&reader);
    assert_true(berth_byte_text_is(text, "hi"));
    assert_false(berth_byte_text_is(text, "hit"));
    assert_false(berth_byte_text_is(text, "ho"));
    assert_int_equal(reader.left, 0);
    assert_false(reader.failed);
    berth_byte_writer_fini(&writer);
}

static void reading_beyond_the_end_fails_for_good(void** state) {
    (void)state;
    static const unsigned char bytes[] = {1, 2, 3};
    berth_byte_reader reader = {bytes, sizeof bytes, false};
    assert_int_equal(berth_read_u32(&reader), 0);
    assert_true(reader.failed);
    assert_int_equal(berth_read_u8(&reader), 0);
    assert_null(berth_read_bytes(&reader, 0));
}

static void lengths_that_overflow_are_refused(void** state) {
    (void)state;
    static const unsigned char bytes[16];
    berth_byte_reader reader = {bytes, sizeof bytes, false};
    assert_non_null(berth_read_array(&reader, 2, 8));
    reader = (berth_byte_reader){bytes, sizeof bytes, false};
    assert_null(berth_read_array(&reader, SIZE_MAX / 4, 8));
    assert_true(reader.failed);
    reader = (berth_byte_reader){bytes, sizeof bytes, false};
    assert_null(berth_read_array(&reader, 3, 8));
}

static void bounds_and_zero_bytes_are_checked(void** state) {
    (void)state;
    static const unsigned char bytes[] = {5, 0, 0, 0};
    berth_byte_reader reader = {bytes, 4, false};
    assert_int_equal(berth_read_u32_to(&reader, 5), 5);
    reader = (berth_byte_reader){bytes, 4, false};
    assert_int_equal(berth_read_u32_to(&reader, 4), 0);
    assert_true(reader.failed);
    static const unsigned char zero[] = {2, 0, 0, 0, 'a', 0};
    reader = (berth_byte_reader){zero, 6, false};
    assert_int_equal(berth_read_text(&reader).length, 0);
    assert_true(reader.failed);
}

static void a_writer_without_memory_says_so_at_the_end(void** state) {
    (void)state;
    failing_host host;
    failing_host_init(&host);
    berth_host* base;
    assert_ok(berth_host_create(&host.allocator, &base));
    berth_byte_writer writer = {.host = base};
    failing_host_fail(&host, 2, false);
    for (int i = 0; i < 100; i++)
        berth_write_u64(&writer, 1);
    assert_true(writer.failed);
    berth_rewrite_u64(&writer, 1 << 20, 0);
    berth_byte_writer_fini(&writer);
    berth_host_destroy(base);
    assert_int_equal(host.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_little_endian),
        cmocka_unit_test(reading_beyond_the_end_fails_for_good),
        cmocka_unit_test(lengths_that_overflow_are_refused),
        cmocka_unit_test(bounds_and_zero_bytes_are_checked),
        cmocka_unit_test(a_writer_without_memory_says_so_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
