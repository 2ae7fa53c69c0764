// SPDX-License-Identifier: Apache-2.0
// Traces: plain ones read unchanged, steps with paths and symbols, every error with its line.
#include "plan/problem_kit.h"

#include "kit/random.h"
#include "kit/shared_data.h"

#define HEADER "op,id,bytes,t_us,site\n"

static void a_plain_trace_is_one_problem(void** state) {
    (void)state;
    berth_trace_file* file = problem_kit_parse(HEADER "L,0,100,0,-1\n"
                                                      "S,-1,2097152,0,-1\n"
                                                      "A,1,50,3,0\n"
                                                      "A,2,30,4,1\n"
                                                      "F,1,50,5,-1\n"
                                                      "A,3,40,6,0\n"
                                                      "F,0,100,7,-1\n"
                                                      "D,-1,2097152,9,-1\n");
    assert_int_equal(berth_trace_file_query_part_count(file), 1);
    berth_problem* problem = problem_kit_make(file, 0, NULL, 0);
    assert_int_equal(berth_problem_query_pack(problem)->count, 4);
    const berth_problem_row live = problem_kit_row(problem, 0);
    assert_int_equal(live.lower, 0);
    assert_int_equal(live.upper, 4);
    assert_false(live.escapes);
    const berth_problem_row first = problem_kit_row(problem, 1);
    const berth_problem_row third = problem_kit_row(problem, 3);
    assert_int_equal(first.upper, 2);
    assert_int_equal(first.site, 0);
    assert_int_equal(live.site, -1);
    assert_int_equal(third.lower, 3);
    assert_true(third.escapes);
    assert_int_equal(third.line, 7);
    const berth_pack_result result = problem_kit_solve(problem);
    assert_int_equal(result.lower_bound, 180);
    assert_int_equal(result.peak, 180);
    berth_problem_destroy(problem);
    berth_trace_file_destroy(file);
}

static const char step_text[] = HEADER "B,block,64,,\n"
                                       "Y,tokens.0,512,,\n"
                                       "Y,tokens.0,128..1024,,\n"
                                       "Y,layers,3,,\n"
                                       "P,1,,,\n"
                                       "N,d0,tokens.0,,\n"
                                       "N,d1,max(d0|pad(tokens.0/64)),,\n"
                                       "O,linear,,0,\n"
                                       "A,0,1179648,0,0\n"
                                       "M,0,4*d0*576,,\n"
                                       "A,1,100,0,0\n"
                                       "M,1,observed(100),,\n"
                                       "O,add,,1,\n"
                                       "A,2,1179648,1,1\n"
                                       "M,2,4*d1*576,,\n"
                                       "F,0,,1,-1\n"
                                       "P,2,,,\n"
                                       "Y,heads,4,,\n"
                                       "A,0,64,,\n"
                                       "M,0,tokens.0,,\n"
                                       "E,block,,,\n"
                                       "B,{other},,,\n"
                                       "E,,,,\n";

static void steps_and_paths_are_parts(void** state) {
    (void)state;
    berth_trace_file* file = problem_kit_parse(step_text);
    berth_trace_part part;
    berth_trace_symbol symbol;
    assert_int_equal(berth_trace_file_query_part_count(file), 3);
    assert_ok(berth_trace_file_query_part(file, 0, &part));
    assert_string_equal(part.step, "block");
    assert_string_equal(part.path, "1");
    assert_int_equal(part.buffer_count, 3);
    assert_int_equal(part.symbol_count, 2);
    assert_ok(berth_trace_file_query_symbol(file, 0, 0, &symbol));
    assert_string_equal(symbol.name, "tokens.0");
    assert_int_equal(symbol.value, 512);
    assert_int_equal(symbol.lowest, 128);
    assert_int_equal(symbol.highest, 1024);
    assert_ok(berth_trace_file_query_part(file, 1, &part));
    assert_string_equal(part.path, "2");
    assert_int_equal(part.symbol_count, 3);
    assert_ok(berth_trace_file_query_symbol(file, 1, 2, &symbol));
    assert_string_equal(symbol.name, "heads");
    assert_ok(berth_trace_file_query_part(file, 2, &part));
    assert_string_equal(part.step, "{other}");
    assert_null(part.path);
    assert_int_equal(part.buffer_count, 0);
    berth_trace_file_destroy(file);
}

static void sizes_follow_the_symbols(void** state) {
    (void)state;
    berth_trace_file* file = problem_kit_parse(step_text);
    berth_problem* problem = problem_kit_make(file, 0, NULL, 0);
    assert_int_equal(problem_kit_row(problem, 0).size, 1179648);
    assert_string_equal(problem_kit_row(problem, 2).label, "add");
    assert_true(problem_kit_row(problem, 1).escapes);
    assert_int_equal(berth_problem_query_pack(problem)->alignment, 64);
    berth_problem_destroy(problem);
    const berth_trace_setting at = {"tokens.0", 500};
    problem = problem_kit_make(file, 0, &at, 1);
    assert_int_equal(problem_kit_row(problem, 0).size, 4 * 500 * 576);
    assert_int_equal(problem_kit_row(problem, 2).size, 4 * 512 * 576);
    assert_int_equal(berth_problem_query_kind(problem), BERTH_ESTIMATE_OBSERVED);
    const berth_pack_result result = problem_kit_solve(problem);
    assert_int_equal(result.lower_bound, 4 * 500 * 576 + 128 + 4 * 512 * 576);
    berth_problem_destroy(problem);
    berth_trace_file_destroy(file);
}

static void the_answer_says_how_sure_the_sizes_are(void** state) {
    (void)state;
    static const char text[] = HEADER "B,s,,,\nY,n,8,,\nY,n,1..9,,\nA,0,8,,\n%s,,\nE,s,,,\n";
    static const struct {
        const char* model;
        berth_estimate_kind kind;
    } cases[] = {{"M,0,n", BERTH_ESTIMATE_EXACT},
                 {"M,0,max(n|7)", BERTH_ESTIMATE_BOUND},
                 {"M,0,observed(8)", BERTH_ESTIMATE_OBSERVED},
                 {"O,,", BERTH_ESTIMATE_OBSERVED}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char whole[256];
        snprintf(whole, sizeof whole, text, cases[i].model);
        berth_trace_file* file = problem_kit_parse(whole);
        const berth_trace_setting at = {"n", 5};
        berth_problem* problem = problem_kit_make(file, 0, &at, 1);
        assert_int_equal(berth_problem_query_kind(problem), cases[i].kind);
        berth_problem_destroy(problem);
        berth_trace_file_destroy(file);
    }
}

static void settings_that_do_not_fit_are_refused(void** state) {
    (void)state;
    berth_trace_file* file = problem_kit_parse(step_text);
    berth_problem* problem;
    berth_trace_setting at = {"tokens", 5};
    const berth_status bad = BERTH_ERR_INVALID_ARGUMENT;
    assert_fails(
        berth_problem_create(file, 0, &at, 1, &problem), bad, "no symbol 'tokens' in step");
    assert_null(problem);
    at = (berth_trace_setting){"layers", 4};
    assert_fails(berth_problem_create(file, 0, &at, 1, &problem), bad, "nothing is known at 4");
    at = (berth_trace_setting){"tokens.0", -1};
    assert_fails(berth_problem_create(file, 0, &at, 1, &problem), bad, "not below 0");
    at = (berth_trace_setting){NULL, 1};
    assert_int_equal(berth_problem_create(file, 0, &at, 1, &problem), bad);
    assert_int_equal(berth_problem_create(file, 0, NULL, 1, &problem), bad);
    at = (berth_trace_setting){"tokens.0", INT64_MAX};
    assert_fails(berth_problem_create(file, 0, &at, 1, &problem),
                 BERTH_ERR_OVERFLOW,
                 "file.csv:10: the sizes up to here");
    at = (berth_trace_setting){"layers", 3};
    assert_ok(berth_problem_create(file, 0, &at, 1, &problem));
    berth_problem_destroy(problem);
    berth_trace_file_destroy(file);
}

static void what_is_wrong_is_named_with_its_line(void** state) {
    (void)state;
    static const struct {
        const char* text;
        unsigned line;
        const char* reason;
    } wrong[] = {
        {"op,id,bytes,t_us\n", 1, "'site' is missing"},
        {HEADER "A,1,4,0\n", 2, "4 fields, the header 5"},
        {HEADER "AB,1,4,0,0\n", 2, "op is 'AB', not one letter"},
        {HEADER "Z,1,4,0,0\n", 2, "there is no op 'Z'"},
        {HEADER "A,1,4,x,0\n", 2, "t_us is 'x'"},
        {HEADER "A,1,4,0,-2\n", 2, "site is '-2'"},
        {HEADER "A,,4,0,0\n", 2, "needs an id"},
        {HEADER "A,1,,0,0\n", 2, "bytes is ''"},
        {HEADER "A,1,4611686018427387905,0,0\n", 2, "more than"},
        {HEADER "S,-1,x,0,-1\n", 2, "bytes is 'x'"},
        {HEADER "A,1,4,0,0\nA,1,4,0,0\n", 3, "'1' is allocated in line 2 already"},
        {HEADER "A,1,4,0,0\nL,2,4,0,0\n", 3, "'2' was live before"},
        {HEADER "F,1,4,0,0\nA,1,4,0,0\n", 2, "'1' is released but not allocated"},
        {HEADER "A,1,4,0,0\nF,1,4,0,-1\nF,1,4,0,-1\n", 4, "'1' is released twice"},
        {HEADER "A,1,4,0,0\nF,1,5,0,-1\n", 3, "released with 5 bytes, allocated in line 2 with 4"},
        {HEADER "E,s,,,\n", 2, "no step is open"},
        {HEADER "P,1,,,\n", 2, "outside of any step"},
        {HEADER "B,,,,\n", 2, "a step needs a name"},
        {HEADER "B,s,3,,\n", 2, "no power of two"},
        {HEADER "B,s,,,\nB,t,,,\n", 3, "inside the step of line 2"},
        {HEADER "B,s,,,\nE,t,,,\n", 3, "the step that is open is 's'"},
        {HEADER "B,s,,,\nA,1,4,,\n", 3, "ends inside the step of line 2"},
        {HEADER "B,s,,,\nA,1,4,,\nP,1,,,\n", 4, "allocates before its first path"},
        {HEADER "B,s,,,\nP,,,,\n", 3, "a path needs a number"},
        {HEADER "B,s,,,\nP,1,,,\nA,1,4,,\nP,2,,,\nF,1,4,,\n", 6, "'1' is released but not"},
        {HEADER "Y,,4,,\n", 2, "needs a name"},
        {HEADER "Y,a}b,4,,\n", 2, "without braces"},
        {HEADER "Y,n,,,\n", 2, "value is ''"},
        {HEADER "Y,n,4..,,\n", 2, "value is ''"},
        {HEADER "Y,n,4..3,,\n", 2, "ends before it begins"},
        {HEADER "Y,n,4,,\nY,n,4,,\n", 3, "'n' is taken"},
        {HEADER "Y,n,4..5,,\nY,n,4..5,,\n", 3, "'n' is taken"},
        {HEADER "N,d,4,,\nY,d,4,,\n", 3, "'d' is taken"},
        {HEADER "N,d,4,,\nY,n,4,,\n", 3, "before dimensions"},
        {HEADER "Y,n,4,,\nN,n,4,,\n", 3, "'n' is taken"},
        {HEADER "N,d,e,,\nN,e,4,,\n", 2, "names 'e'"},
        {HEADER "N,d,4*,,\n", 2, "character 3"},
        {HEADER "M,1,4,,\n", 2, "'1' is given a size but not allocated"},
        {HEADER "A,1,4,,\nM,1,4,,\nM,1,4,,\n", 4, "a size twice"},
        {HEADER "A,1,4,,\nM,1,x,,\n", 3, "names 'x'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        problem_kit_refuse(wrong[i].text, wrong[i].line, wrong[i].reason);
}

static void memory_that_runs_out_is_reported(void** state) {
    (void)state;
    problem_kit_fail_each(step_text);
}

// ---- What escapes.

/// A random step of `count` allocations; some are never released. The frame without those is easy
/// to pack, so packing all of them at once is not what finds the best.
static void write_random_step(test_random* random, unsigned count, char* text, size_t size) {
    size_t length = (size_t)snprintf(text, size, HEADER "B,s,64,,\n");
    unsigned open[256];
    unsigned open_count = 0;
    for (unsigned i = 0; i < count; i++) {
        const unsigned long long bytes = 1 + test_random_below(random, 5000);
        length += (size_t)snprintf(text + length, size - length, "A,%u,%llu,,\n", i, bytes);
        if (!test_random_one_in(random, 4)) open[open_count++] = i;
        while (open_count > 0 && test_random_one_in(random, 2)) {
            const unsigned at = (unsigned)test_random_below(random, open_count);
            length += (size_t)snprintf(text + length, size - length, "F,%u,,,\n", open[at]);
            open[at] = open[--open_count];
        }
    }
    (void)snprintf(text + length, size - length, "E,s,,,\n");
}

/// The peak of packing what does not escape by itself, with the others on a heap that only grows.
static uint64_t step_peak(const berth_problem* problem) {
    const berth_pack_problem* pack = berth_problem_query_pack(problem);
    berth_interval intervals[256];
    uint64_t offsets[256];
    uint64_t peak = 0;
    for (size_t i = 0; i < pack->count; i++) {
        intervals[i] = pack->intervals[i];
        if (problem_kit_row(problem, i).escapes) intervals[i].size = 0;
    }
    const berth_pack_problem frame = {
        .intervals = intervals, .count = pack->count, .alignment = pack->alignment};
    berth_pack_result result;
    assert_ok(berth_pack(&frame, NULL, offsets, &result));
    for (uint32_t moment = 0; moment <= pack->count * 2; moment++) {
        uint64_t top = 0;
        uint64_t pool = 0;
        for (size_t i = 0; i < pack->count; i++) {
            const berth_interval* own = &pack->intervals[i];
            const uint64_t bytes = (own->size + 63) / 64 * 64;
            if (moment < own->start || moment >= own->end) continue;
            if (intervals[i].size == 0)
                pool += bytes;
            else if (offsets[i] + bytes > top)
                top = offsets[i] + bytes;
        }
        if (top + pool > peak) peak = top + pool;
    }
    return peak;
}

static void a_step_needs_no_more_than_its_frame_and_a_growing_heap(void** state) {
    (void)state;
    test_random random = test_random_make(5);
    for (int i = 0; i < 60; i++) {
        static char text[65536];
        write_random_step(&random, 10 + 3 * (unsigned)i, text, sizeof text);
        berth_trace_file* file = problem_kit_parse(text);
        berth_problem* problem = problem_kit_make(file, 0, NULL, 0);
        assert_true(problem_kit_solve(problem).peak <= step_peak(problem));
        berth_problem_destroy(problem);
        berth_trace_file_destroy(file);
    }
}

static void the_recorded_traces_are_read_with_their_peaks(void** state) {
    (void)state;
    static const struct {
        const char* path;
        size_t count;
        uint64_t lower_bound;
    } known[] = {{"torch_infer_ctx128.csv", 1280, 35651584},
                 {"torch_infer_ctx512.csv", 1666, 247861248},
                 {"torch_infer_ctx1024.csv", 1280, 1175724032},
                 {"torch_train_ctx128.csv", 6526 + 438, 5303480324}};
    const char* shared = shared_data_folder("recorded traces");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        char path[1024];
        berth_trace_file* file;
        snprintf(path, sizeof path, "%s/data/alloc-traces/%s", shared, known[i].path);
        assert_ok(berth_trace_file_read(path, &file));
        berth_problem* problem = problem_kit_make(file, 0, NULL, 0);
        assert_int_equal(berth_problem_query_pack(problem)->count, known[i].count);
        assert_int_equal(problem_kit_solve(problem).lower_bound, known[i].lower_bound);
        berth_problem_destroy(problem);
        berth_trace_file_destroy(file);
    }
}

/// A step whose buffers that escape, from 9 on, are packed better above all others.
static const char stacked[] =
    HEADER "A,0,51,,\nF,0,,,\nA,1,31,,\nA,2,52,,\nA,3,52,,\nA,4,40,,\nF,3,,,\nF,2,,,\nA,5,54,,\n"
           "A,6,20,,\nF,4,,,\nA,7,58,,\nF,6,,,\nA,8,33,,\nF,8,,,\nF,5,,,\nF,7,,,\nA,9,6,,\n"
           "A,10,53,,\nA,11,21,,\n";

static void what_escapes_is_stacked_where_that_is_better(void** state) {
    (void)state;
    berth_trace_file* file = problem_kit_parse(stacked);
    berth_problem* problem = problem_kit_make(file, 0, NULL, 0);
    const berth_pack_problem* pack = berth_problem_query_pack(problem);
    uint64_t offsets[12], kept[12];
    berth_pack_result plain, result, same;
    assert_ok(berth_pack(pack, NULL, offsets, &plain));
    assert_ok(berth_problem_solve(problem, NULL, offsets, &result));
    assert_int_equal(plain.peak, 177);
    assert_int_equal(result.peak, 176);
    // what is said of the packing is said of the one that is returned
    berth_pack_problem given = *pack;
    given.fixed_offsets = offsets;
    assert_ok(berth_pack(&given, NULL, kept, &same));
    assert_int_equal(same.peak, result.peak);
    assert_int_equal(same.reuse_distance, result.reuse_distance);
    assert_int_not_equal(same.reuse_distance, plain.reuse_distance);
    berth_problem_destroy(problem);
    berth_trace_file_destroy(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_trace_is_one_problem),
        cmocka_unit_test(steps_and_paths_are_parts),
        cmocka_unit_test(sizes_follow_the_symbols),
        cmocka_unit_test(the_answer_says_how_sure_the_sizes_are),
        cmocka_unit_test(settings_that_do_not_fit_are_refused),
        cmocka_unit_test(what_is_wrong_is_named_with_its_line),
        cmocka_unit_test(memory_that_runs_out_is_reported),
        cmocka_unit_test(a_step_needs_no_more_than_its_frame_and_a_growing_heap),
        cmocka_unit_test(what_escapes_is_stacked_where_that_is_better),
        cmocka_unit_test(the_recorded_traces_are_read_with_their_peaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
