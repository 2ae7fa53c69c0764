// SPDX-License-Identifier: Apache-2.0
// Packing problems as CSV: every column, every error with its line.
#include "plan/problem_kit.h"

#include <stdio.h>
#include <unistd.h>

#include "kit/shared_data.h"

static void columns_may_come_in_any_order(void** state) {
    (void)state;
    berth_trace_file* file = problem_kit_parse("\xEF\xBB\xBFsize, upper ,id,lower\r\n"
                                               "4,3,b1,0\r\n"
                                               "\r\n"
                                               " 8 ,9, \"b 2, \"\"big\"\"\" ,3\n");
    berth_problem* problem = problem_kit_make(file, 0, NULL, 0);
    const berth_pack_problem* pack = berth_problem_query_pack(problem);
    assert_int_equal(pack->count, 2);
    assert_null(pack->alignments);
    assert_null(pack->fixed_offsets);
    assert_null(pack->exclusive);
    assert_int_equal(pack->in_place_count, 0);
    assert_int_equal(pack->intervals[1].size, 8);
    assert_int_equal(pack->intervals[1].start, 3);
    assert_int_equal(pack->intervals[1].end, 9);
    const berth_problem_row row = problem_kit_row(problem, 1);
    assert_string_equal(row.id, "b 2, \"big\"");
    assert_int_equal(row.line, 4);
    assert_int_equal(row.offset, BERTH_PACK_ANYWHERE);
    assert_int_equal(row.in_place_from, BERTH_PROBLEM_NONE);
    assert_int_equal(problem_kit_solve(problem).peak, 8);
    assert_int_equal(berth_problem_query_kind(problem), BERTH_ESTIMATE_EXACT);
    berth_problem_destroy(problem);
    berth_trace_file_destroy(file);
}

static void optional_columns_reach_the_solver(void** state) {
    (void)state;
    berth_trace_file* file =
        problem_kit_parse("id,lower,upper,size,alignment,offset,exclusive,in_place\n"
                          "a,0,3,10,,,,\n"
                          "b,2,5,10,,,0,a\n"
                          "c,0,9,5,64,,,\n"
                          "d,0,9,6,,200,1,\n");
    berth_problem* problem = problem_kit_make(file, 0, NULL, 0);
    const berth_pack_problem* pack = berth_problem_query_pack(problem);
    assert_int_equal(pack->in_place_count, 1);
    assert_int_equal(pack->in_place[0].from, 0);
    assert_int_equal(pack->in_place[0].to, 1);
    assert_int_equal(pack->alignments[2], 64);
    assert_int_equal(pack->fixed_offsets[0], BERTH_PACK_ANYWHERE);
    assert_int_equal(pack->fixed_offsets[3], 200);
    assert_false(pack->exclusive[1]);
    assert_true(pack->exclusive[3]);
    assert_int_equal(problem_kit_row(problem, 1).in_place_from, 0);
    assert_int_equal(problem_kit_solve(problem).peak, 206);
    berth_problem_destroy(problem);
    berth_trace_file_destroy(file);
}

static void moments_beyond_32_bits_keep_their_order(void** state) {
    (void)state;
    berth_trace_file* file = problem_kit_parse("id,lower,upper,size,in_place\n"
                                               "a,0,4611686018427387000,7,\n"
                                               "b,4611686018427386999,4611686018427387904,7,a\n"
                                               "c,5,4611686018427386999,7,\n");
    berth_problem* problem = problem_kit_make(file, 0, NULL, 0);
    const berth_pack_problem* pack = berth_problem_query_pack(problem);
    assert_true(pack->intervals[1].start + 1 == pack->intervals[0].end);
    assert_int_equal(problem_kit_solve(problem).peak, 14);
    assert_int_equal(problem_kit_row(problem, 1).lower, UINT64_C(4611686018427386999));
    berth_problem_destroy(problem);
    berth_trace_file_destroy(file);
}

static void a_problem_without_buffers_needs_nothing(void** state) {
    (void)state;
    berth_trace_file* file = problem_kit_parse("id,lower,upper,size\n");
    berth_problem* problem = problem_kit_make(file, 0, NULL, 0);
    const berth_pack_result result = problem_kit_solve(problem);
    assert_int_equal(result.peak, 0);
    assert_true(result.proved);
    berth_problem_destroy(problem);
    const berth_trace_setting setting = {"n", 1};
    assert_fails(berth_problem_create(file, 0, &setting, 1, &problem),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "has no symbol 'n'");
    berth_trace_file_destroy(file);
}

static void what_is_wrong_is_named_with_its_line(void** state) {
    (void)state;
    static const struct {
        const char* text;
        unsigned line;
        const char* reason;
    } wrong[] = {
        {"", 1, "the file is empty"},
        {"\n  \n", 1, "the file is empty"},
        {"id,lower,upper\n", 1, "the column 'size' is missing"},
        {"id,lower,upper,size,size\n", 1, "'size' is there twice"},
        {"id,lower,upper,size,colour\n", 1, "no column called 'colour', only id lower"},
        {"\nid,lower,upper,size\n1,0,1\n", 3, "3 fields, the header 4"},
        {"id,lower,upper,size\n1,0,1,4,5\n", 2, "5 fields, the header 4"},
        {"id,lower,upper,size\n1,0,1,4\n\n,0,1,4\n", 4, "needs an id"},
        {"id,lower,upper,size\n1,0,1,4\n1,0,1,4\n", 3, "the id '1' is that of line 2"},
        {"id,lower,upper,size\n1,-1,1,4\n", 2, "lower is '-1', not a whole number"},
        {"id,lower,upper,size\n1,0,1x,4\n", 2, "upper is '1x'"},
        {"id,lower,upper,size\n1,0,1,\n", 2, "size is ''"},
        {"id,lower,upper,size\n1,0,1,4.5\n", 2, "size is '4.5'"},
        {"id,lower,upper,size\n1,2,1,4\n", 2, "ends at 1, before it begins at 2"},
        {"id,lower,upper,size\n1,0,1,4611686018427387905\n", 2, "more than 4611686018427387904"},
        {"id,lower,upper,size\n1,0,1,99999999999999999999999\n", 2, "more than"},
        {"id,lower,upper,size\n1,0,1,4611686018427387904\n2,0,1,1\n", 3, "sum up to more"},
        {"id,lower,upper,size,alignment\n1,0,1,4,3\n", 2, "no power of two"},
        {"id,lower,upper,size,exclusive\n1,0,1,4,2\n", 2, "exclusive is 2, more than 1"},
        {"id,lower,upper,size,offset\n1,0,1,4,x\n", 2, "offset is 'x'"},
        {"id,lower,upper,size,in_place\n1,0,1,4,\n2,0,1,4,3\n", 3, "'3', which is no id"},
        {"id,lower,upper,size,in_place\n1,0,1,4,\n2,1,2,4,1\n", 3, "whose last moment"},
        {"id,lower,upper,size,in_place\n1,0,1,4,\n2,0,1,4,2\n", 3, "the buffer itself"},
        {"id,lower,upper,size,in_place\n1,0,2,4,\n2,1,3,4,1\n3,1,3,4,1\n", 4, "another buffer"},
        {"id,lower,upper,size\n\"1,0,1,4\n", 2, "closing quote is missing"},
        {"id,lower,upper,size\n\"1\"2,0,1,4\n", 2, "goes on behind its closing quote"},
        {"id,lower,upper,size\n,,,,,,,,,,,,,,,,\n", 2, "more than 16 fields"},
        {"id,lower,upper,size\n\033[31m,0,1,x\033[0m\n", 2, "size is 'x?[0m'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        problem_kit_refuse(wrong[i].text, wrong[i].line, wrong[i].reason);
}

static void a_zero_byte_is_no_text(void** state) {
    (void)state;
    berth_trace_file* file;
    assert_fails(berth_trace_file_parse("z", "id,lower,upper,size\n1,0\0,1,4\n", 30, &file),
                 BERTH_ERR_CORRUPT,
                 "z:2: the line has a zero byte");
    assert_null(file);
}

static void arguments_that_are_missing_are_errors(void** state) {
    (void)state;
    berth_trace_file* file;
    berth_problem* problem;
    berth_problem_row row;
    berth_trace_part part;
    berth_trace_symbol symbol;
    berth_pack_result result;
    uint64_t offset;
    const berth_status bad = BERTH_ERR_INVALID_ARGUMENT;
    assert_int_equal(berth_trace_file_read(NULL, &file), bad);
    assert_int_equal(berth_trace_file_read("x", NULL), bad);
    assert_int_equal(berth_trace_file_parse(NULL, "", 0, &file), bad);
    assert_int_equal(berth_trace_file_parse("x", NULL, 1, &file), bad);
    assert_int_equal(berth_trace_file_query_part(NULL, 0, &part), bad);
    assert_int_equal(berth_trace_file_query_symbol(NULL, 0, 0, &symbol), bad);
    assert_int_equal(berth_problem_create(NULL, 0, NULL, 0, &problem), bad);
    assert_int_equal(berth_problem_query_row(NULL, 0, &row), bad);
    assert_int_equal(berth_problem_solve(NULL, NULL, &offset, &result), bad);
    assert_int_equal(berth_trace_file_query_part_count(NULL), 0);
    assert_null(berth_problem_query_pack(NULL));
    assert_int_equal(berth_problem_query_kind(NULL), BERTH_ESTIMATE_UNKNOWN);
    berth_trace_file_destroy(NULL);
    berth_problem_destroy(NULL);
    file = problem_kit_parse("id,lower,upper,size\n1,0,1,4\n");
    assert_int_equal(berth_trace_file_query_part(file, 1, &part), BERTH_ERR_NOT_FOUND);
    assert_int_equal(berth_trace_file_query_symbol(file, 0, 0, &symbol), BERTH_ERR_NOT_FOUND);
    assert_int_equal(berth_problem_create(file, 1, NULL, 0, &problem), BERTH_ERR_NOT_FOUND);
    problem = problem_kit_make(file, 0, NULL, 0);
    assert_int_equal(berth_problem_query_row(problem, 1, &row), BERTH_ERR_NOT_FOUND);
    assert_int_equal(berth_problem_solve(problem, NULL, NULL, &result), bad);
    berth_problem_destroy(problem);
    berth_trace_file_destroy(file);
}

static void a_file_is_read_to_its_end_also_from_a_pipe(void** state) {
    (void)state;
    berth_trace_file* file;
    assert_fails(berth_trace_file_read("/no/such/file", &file), BERTH_ERR_NOT_FOUND, "/no/such");
    assert_fails(berth_trace_file_read("/", &file), BERTH_ERR_IO, "'/' cannot be read");
    int ends[2];
    char path[64];
    static const char text[] = "id,lower,upper,size\n1,0,1,4\n";
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(close(ends[1]), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    assert_ok(berth_trace_file_read(path, &file));
    berth_trace_part part;
    assert_ok(berth_trace_file_query_part(file, 0, &part));
    assert_int_equal(part.buffer_count, 1);
    assert_null(part.step);
    berth_trace_file_destroy(file);
    assert_int_equal(close(ends[0]), 0);
}

static void memory_that_runs_out_is_reported(void** state) {
    (void)state;
    problem_kit_fail_each("id,lower,upper,size,in_place\na,0,3,4,\nb,2,4294967299,4,a\n");
}

static void the_known_problems_are_read_with_their_lower_bounds(void** state) {
    (void)state;
    static const struct {
        const char* path;
        size_t count;
        uint64_t lower_bound;
    } known[] = {{"minimalloc/challenging/A.1048576.csv", 154, 1048576},
                 {"minimalloc/challenging/D.1048576.csv", 213, 986112},
                 {"minimalloc/examples/input.12.csv", 5, 12},
                 {"packing-somas/resnet50.csv", 1042, 1515472556},
                 {"packing-iopddl/G_1.csv", 816, 3030937746}};
    const char* shared = shared_data_folder("packing problems");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char path[1024];
        berth_trace_file* file;
        snprintf(path, sizeof path, "%s/data/%s", shared, known[i].path);
        assert_ok(berth_trace_file_read(path, &file));
        berth_problem* problem = problem_kit_make(file, 0, NULL, 0);
        assert_int_equal(berth_problem_query_pack(problem)->count, known[i].count);
        assert_int_equal(problem_kit_solve(problem).lower_bound, known[i].lower_bound);
        berth_problem_destroy(problem);
        berth_trace_file_destroy(file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_may_come_in_any_order),
        cmocka_unit_test(optional_columns_reach_the_solver),
        cmocka_unit_test(moments_beyond_32_bits_keep_their_order),
        cmocka_unit_test(a_problem_without_buffers_needs_nothing),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(a_zero_byte_is_no_text),
        cmocka_unit_test(arguments_that_are_missing_are_errors),
        cmocka_unit_test(a_file_is_read_to_its_end_also_from_a_pipe),
        cmocka_unit_test(memory_that_runs_out_is_reported),
        cmocka_unit_test(the_known_problems_are_read_with_their_lower_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
