// SPDX-License-Identifier: Apache-2.0
// Request traces: what is read of each format, what is refused and by which line, and the recorded
// files.
#include "request_trace.h"

#include <math.h>
#include <stdio.h>

#include "llm/llm_kit.h"

static llm_request_trace trace;
static llm_error error;

static berth_status parse(const char* text) {
    error.text[0] = '\0';
    return llm_request_trace_parse(llm_str_of(text), "t.txt", &trace, &error);
}

static int teardown(void** state) {
    (void)state;
    llm_request_trace_fini(&trace);
    return 0;
}

static void assert_refused(const char* text, const char* part) {
    assert_int_equal(parse(text), BERTH_ERR_CORRUPT);
    assert_mentions(&error, part);
    assert_null(trace.rows);
    assert_null(trace.ids);
}

static void assert_near(double value, double wanted, double most) {
    if (!(fabs(value - wanted) <= most)) fail_msg("%g instead of %g", value, wanted);
}

static void assert_row(size_t at, double arrival_ms, int64_t prompt, int64_t answer) {
    assert_true(at < trace.row_count);
    assert_near(trace.rows[at].arrival_ms, arrival_ms, 1e-3);
    assert_int_equal(trace.rows[at].prompt_tokens, prompt);
    assert_int_equal(trace.rows[at].answer_tokens, answer);
}

static void azure_times_count_from_the_first_request(void** state) {
    (void)state;
    assert_int_equal(parse("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                           "2023-12-31 23:59:59.5000000,374,44\r\n"
                           "2024-01-01 00:00:00.2500000,396,109\r\n"
                           "2024-03-01T00:00:00+00:00,1,0"),
                     BERTH_OK);
    assert_int_equal(trace.format, LLM_TRACE_AZURE);
    assert_int_equal(trace.row_count, 3);
    assert_row(0, 0, 374, 44);
    assert_row(1, 750, 396, 109);
    assert_row(2, 60 * 86400e3 + 500, 1, 0); // 2024 has a 29th of February
    assert_int_equal(trace.block_tokens, 0);
    assert_int_equal(trace.rows[0].session, -1);
}

static void an_earlier_request_further_down_is_the_first(void** state) {
    (void)state;
    assert_int_equal(parse("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                           "2023-11-16 18:00:01,5,6\n2023-11-16 18:00:00,7,8\n"),
                     BERTH_OK);
    assert_row(0, 1000, 5, 6);
    assert_row(1, 0, 7, 8);
}

static void lengths_have_no_arrivals_and_columns_may_be_swapped(void** state) {
    (void)state;
    assert_int_equal(parse("num_decode_tokens,note,num_prefill_tokens\n918,x,74\n\n1,,2\n"),
                     BERTH_OK);
    assert_int_equal(trace.format, LLM_TRACE_LENGTHS);
    assert_row(0, -1, 74, 918);
    assert_row(1, -1, 2, 1);
    assert_int_equal(trace.row_count, 2);
}

static void rounds_of_an_agent_share_what_was_cached_of_the_round_before(void** state) {
    (void)state;
    assert_int_equal(
        parse(
            "session,round,start_ms,end_ms,input_tokens,prefix_tokens,append_tokens,output_tokens\n"
            "0,0,0,9,40,32,8,30\n"
            "0,1,100,150,90,50,40,10\n"
            "1,0,0,9,40,32,8,30\n"),
        BERTH_OK);
    assert_int_equal(trace.format, LLM_TRACE_AGENT);
    assert_row(1, 100, 90, 10);
    assert_int_equal(trace.rows[2].session, 1);
    const llm_trace_row* first = &trace.rows[0];
    const llm_trace_row* second = &trace.rows[1];
    assert_int_equal(first->prompt_ids, 2);
    assert_int_equal(first->tail_ids, 2);
    assert_int_equal(second->prompt_ids, 5);
    assert_int_equal(second->tail_ids, 1);
    for (size_t i = 0; i < 6; ++i) {
        const int64_t id = trace.ids[second->first_id + i];
        if (i < 3) assert_int_equal(id, trace.ids[first->first_id + i]);
        for (size_t j = 0; i >= 3 && j < second->first_id + i; ++j)
            assert_int_not_equal(id, trace.ids[j]);
    }
    assert_int_not_equal(trace.ids[trace.rows[2].first_id], trace.ids[0]);
}

static void mooncake_has_an_id_for_each_512_tokens(void** state) {
    (void)state;
    assert_int_equal(
        parse("{\"timestamp\":0,\"input_length\":513,\"output_length\":5,\"hash_ids\":[7,8]}\n"
              "{\"hash_ids\":[7],\"timestamp\":30,\"more\":[],\"input_length\":512,"
              "\"output_length\":1}\n"),
        BERTH_OK);
    assert_int_equal(trace.format, LLM_TRACE_MOONCAKE);
    assert_int_equal(trace.block_tokens, 512);
    assert_row(1, 30, 512, 1);
    assert_int_equal(trace.rows[0].prompt_ids, 2);
    assert_int_equal(trace.rows[0].tail_ids, 0);
    assert_int_equal(trace.rows[1].first_id, 2);
    assert_int_equal(trace.ids[1], 8);
    assert_int_equal(trace.ids[2], 7);
}

static void blocks_have_ids_of_the_answer_too(void** state) {
    (void)state;
    assert_int_equal(parse("\xEF\xBB\xBF{\"t_ms\":46.927,\"in\":35,\"out\":14,\"in_blocks\":[1,2],"
                           "\"all_blocks_tail\":[3]}"),
                     BERTH_OK);
    assert_int_equal(trace.format, LLM_TRACE_BLOCKS);
    assert_int_equal(trace.block_tokens, 16);
    assert_row(0, 46.927, 35, 14);
    assert_int_equal(trace.rows[0].prompt_ids, 2);
    assert_int_equal(trace.rows[0].tail_ids, 1);
}

static void wrong_lines_of_csv_are_named(void** state) {
    (void)state;
    const char* head = "num_prefill_tokens,num_decode_tokens\n1,2\n";
    static const char* const lines[][2] = {
        {"3", "t.txt:3: 1 columns; the header has at least 2"},
        {"x,1", "t.txt:3: num_prefill_tokens is 'x', no number"},
        {"\n\n-1,1", "t.txt:5: num_prefill_tokens is '-1'"},
        {"1,1e3", "num_decode_tokens is '1e3'"},
        {"1,", "num_decode_tokens is ''"},
        {"0,1", "prompt tokens is 0; it may be 1 to 100000000"},
        {"1,100000001", "num_decode_tokens is 100000001; it may be 0 to 100000000"},
        {"99999999999999999999999,1", "no number"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; ++i) {
        char text[256];
        (void)snprintf(text, sizeof text, "%s%s\n", head, lines[i][0]);
        assert_refused(text, lines[i][1]);
    }
    assert_refused("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-01 00:00:00,1,1\n",
                   "t.txt:2: TIMESTAMP is '2023-13-01 00:00:00', no time");
    assert_refused("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-12-01 00:00:00.,1,1\n",
                   "no time");
    assert_refused("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-12-01 00:00:00+02,1,1\n",
                   "no time");
    assert_refused("session,round,start_ms,input_tokens,prefix_tokens,output_tokens\n"
                   "0,0,0,10,11,1\n",
                   "t.txt:2: prefix_tokens is 11; it may be 0 to 10");
}

static void wrong_lines_of_json_are_named(void** state) {
    (void)state;
    const char* head =
        "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}\n";
    static const char* const lines[][2] = {
        {"{\"timestamp\":0,", "t.txt:2: no JSON"},
        {"[1]", "t.txt:2: no object of JSON"},
        {"{\"timestamp\":0,\"input_length\":\"1\",\"output_length\":1,\"hash_ids\":[1]}",
         "\"input_length\" is no whole number"},
        {"{\"timestamp\":0,\"input_length\":1,\"output_length\":1}", "\"hash_ids\" is no list"},
        {"{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1.5]}",
         "something that is no whole number"},
        {"{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[-1]}", "id is -1"},
        {"{\"timestamp\":-5,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}",
         "\"timestamp\" is no time"},
        {"{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1,2]}",
         "2 and 0 ids; 1 and 1 tokens have 1 and 0"},
        {"{\"timestamp\":0,\"input_length\":1e9,\"output_length\":1,\"hash_ids\":[1]}", "whole"},
        {"{\"timestamp\":0,\"input_length\":1,\"input_length\":1}", "no JSON"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; ++i) {
        char text[512];
        (void)snprintf(text, sizeof text, "%s%s\n", head, lines[i][0]);
        assert_refused(text, lines[i][1]);
    }
}

static void what_is_no_trace_is_refused(void** state) {
    (void)state;
    assert_refused("", "t.txt:1: no requests");
    assert_refused("\n \n", "no requests");
    assert_refused("a,b\n1,2\n", "neither the header of a known CSV");
    assert_refused("{\"a\":1}\n", "nor a known object of JSON: '{\"a\":1}'");
    assert_refused("{", "t.txt:1");
    assert_refused("num_prefill_tokens,num_decode_tokens\n", "no requests");
    const char zero[] = "num_prefill_tokens,num_decode_tokens\n1,\0";
    assert_int_equal(llm_request_trace_parse((llm_str){zero, sizeof zero}, "z", &trace, &error),
                     BERTH_ERR_CORRUPT);
    assert_mentions(&error, "z:2: a zero byte");
    assert_int_equal(llm_request_trace_read("/nowhere/t.csv", &trace, &error), BERTH_ERR_IO);
    assert_mentions(&error, "/nowhere/t.csv: cannot be read: No such file");
    assert_int_equal(llm_request_trace_read("/", &trace, &error), BERTH_ERR_IO);
    assert_int_equal(llm_request_trace_read(NULL, &trace, &error), BERTH_ERR_IO);
    // the sentence is optional
    assert_int_equal(llm_request_trace_parse(llm_str_of("x"), "t", &trace, NULL),
                     BERTH_ERR_CORRUPT);
}

static void a_line_that_never_ends_takes_bounded_memory(void** state) {
    (void)state;
    const size_t size = LLM_TRACE_MOST_LINE_BYTES + 1000;
    char* text = malloc(size);
    assert_non_null(text);
    memset(text, 'x', size);
    assert_int_equal(llm_request_trace_parse((llm_str){text, size}, "t", &trace, &error),
                     BERTH_ERR_CORRUPT);
    assert_mentions(&error, "t:1: a line of more than 16777216 bytes");
    free(text);
}

static void every_failing_allocation_is_reported(void** state) {
    (void)state;
    const char* texts[] = {
        "num_prefill_tokens,num_decode_tokens\n1,2\n3,4\n",
        "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}\n",
    };
    for (size_t i = 0; i < 2; ++i) {
        berth_status status = BERTH_ERR_OUT_OF_MEMORY;
        uint64_t nth = 0;
        while (status != BERTH_OK) {
            alloc_watch watch;
            watch_begin(&watch, ++nth);
            status = parse(texts[i]);
            watch_end();
            if (status == BERTH_OK) break;
            assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
            assert_mentions(&error, "no memory");
            assert_null(trace.rows);
        }
        assert_in_range(nth, 3, 50);
        llm_request_trace_fini(&trace);
    }
}

static void formats_have_words(void** state) {
    (void)state;
    assert_string_equal(llm_trace_format_text(LLM_TRACE_AZURE), "azure");
    assert_string_equal(llm_trace_format_text(LLM_TRACE_BLOCKS), "blocks");
    assert_string_equal(llm_trace_format_text(LLM_TRACE_FORMAT_COUNT), "unknown");
}

// --- The recorded files --------------------------------------------------------------------------

static void read_recorded(const char* file) {
    char path[4096];
    const char* folder = shared_data_folder("data/traces");
    (void)snprintf(path, sizeof path, "%s/data/traces/%s", folder, file);
    llm_request_trace_fini(&trace);
    if (llm_request_trace_read(path, &trace, &error) != BERTH_OK) fail_msg("%s", error.text);
}

static double mean_prompt(void) {
    double sum = 0;
    for (size_t i = 0; i < trace.row_count; ++i)
        sum += (double)trace.rows[i].prompt_tokens;
    return sum / (double)trace.row_count;
}

static void recorded_files_have_the_known_rows_and_lengths(void** state) {
    (void)state;
    static const struct {
        const char* file;
        size_t rows;
        double mean;
        double last_ms;
    } known[] = {
        {"azure2023_conv.csv", 12000, 1254, 34 * 60e3},
        {"azure2023_code.csv", 6000, 2027, 32 * 60e3},
        {"mooncake_conversation.jsonl", 8000, 12396, 41 * 60e3},
        {"sharegpt_multiturn.jsonl", 300, 857, 29e3},
        {"sharegpt_8k_lengths.csv", 10000, 2319, -1},
        {"arxiv_long.csv", 3000, 29595, -1},
        {"agent_sessions.csv", 19, 0, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        read_recorded(known[i].file);
        assert_int_equal(trace.row_count, known[i].rows);
        if (known[i].mean == 0) continue;
        assert_near(mean_prompt(), known[i].mean, 1);
        const double last = trace.rows[trace.row_count - 1].arrival_ms;
        if (known[i].last_ms < 0) assert_near(last, -1, 0);
        if (known[i].last_ms > 0) assert_in_range(last / known[i].last_ms * 100, 97, 103);
    }
}

/// Tokens in percent of the room for them, over all decode steps of each request alone: whole
/// blocks for what there is, or the next power of two over what there will be.
static double used_percent(int64_t block, bool is_final_power) {
    double tokens = 0, reserved = 0;
    for (size_t i = 0; i < trace.row_count; ++i) {
        const llm_trace_row* row = &trace.rows[i];
        int64_t slot = 1;
        while (slot < row->prompt_tokens + row->answer_tokens)
            slot *= 2;
        for (int64_t t = 1; t <= row->answer_tokens; ++t) {
            const int64_t length = row->prompt_tokens + t;
            tokens += (double)length;
            reserved += (double)(is_final_power ? slot : (length + block - 1) / block * block);
        }
    }
    return 100 * tokens / reserved;
}

static int64_t longest_slot(void) {
    int64_t slot = 1;
    for (size_t i = 0; i < trace.row_count; ++i)
        while (slot < trace.rows[i].prompt_tokens + trace.rows[i].answer_tokens)
            slot *= 2;
    return slot;
}

static void blocks_of_16_tokens_waste_less_than_a_hundredth(void** state) {
    (void)state;
    static const struct {
        const char* file;
        double slots, powers, blocks[4];
    } known[] = {
        {"azure2023_conv.csv", 7.7, 61.2, {99.4, 97.6, 91.0, 84.0}},
        {"azure2023_code.csv", 26.0, 69.6, {99.7, 98.5, 94.2, 88.9}},
        {"sharegpt_8k_lengths.csv", 32.7, 64.9, {99.7, 98.8, 95.4, 91.2}},
        {"arxiv_long.csv", 45.9, 71.2, {100.0, 99.9, 99.6, 99.2}},
    };
    static const int64_t sizes[] = {16, 64, 256, 512};
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
        read_recorded(known[i].file);
        assert_near(used_percent(longest_slot(), false), known[i].slots, 0.06);
        assert_near(used_percent(1, true), known[i].powers, 0.06);
        for (size_t j = 0; j < 4; ++j)
            assert_near(used_percent(sizes[j], false), known[i].blocks[j], 0.06);
        assert_true(used_percent(16, false) > 99);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(azure_times_count_from_the_first_request, teardown),
        cmocka_unit_test_teardown(an_earlier_request_further_down_is_the_first, teardown),
        cmocka_unit_test_teardown(lengths_have_no_arrivals_and_columns_may_be_swapped, teardown),
        cmocka_unit_test_teardown(rounds_of_an_agent_share_what_was_cached_of_the_round_before,
                                  teardown),
        cmocka_unit_test_teardown(mooncake_has_an_id_for_each_512_tokens, teardown),
        cmocka_unit_test_teardown(blocks_have_ids_of_the_answer_too, teardown),
        cmocka_unit_test_teardown(wrong_lines_of_csv_are_named, teardown),
        cmocka_unit_test_teardown(wrong_lines_of_json_are_named, teardown),
        cmocka_unit_test_teardown(what_is_no_trace_is_refused, teardown),
        cmocka_unit_test_teardown(a_line_that_never_ends_takes_bounded_memory, teardown),
        cmocka_unit_test_teardown(every_failing_allocation_is_reported, teardown),
        cmocka_unit_test(formats_have_words),
        cmocka_unit_test_teardown(recorded_files_have_the_known_rows_and_lengths, teardown),
        cmocka_unit_test_teardown(blocks_of_16_tokens_waste_less_than_a_hundredth, teardown),
    };
    return cmocka_run_group_tests_name("request_trace", tests, NULL, NULL);
}
