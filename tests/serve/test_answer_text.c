// SPDX-License-Identifier: Apache-2.0
// Tests of the text of an answer: stop strings wherever tokens part them, what is held back and for
// how long, and everything against a model that looks at the whole text.
#include "llm/vocab_kit.h"

#include "answer_text.h"

#include "kit/random.h"

static vocab v;
static int32_t token_ab, token_aab, token_acute;
static answer_text answer;

static int open_all(void** state) {
    (void)state;
    vocab_begin_bytes(&v);
    token_ab = vocab_add(&v, "ab", LLM_TOKEN_NORMAL, 0);
    token_aab = vocab_add(&v, "aab", LLM_TOKEN_NORMAL, 0);
    token_acute = vocab_add(&v, "b\xc3\x83\xc2\xa9", LLM_TOKEN_NORMAL, 0); // the bytes of "b\u00e9"
    vocab_put(&v, "gpt2", "smollm");
    vocab_open(&v);
    return 0;
}

static int close_all(void** state) {
    (void)state;
    vocab_close(&v);
    return 0;
}

static int fini(void** state) {
    (void)state;
    answer_text_fini(&answer);
    return 0;
}

/// The stop strings of a test: terminated texts.
static llm_bytes stop_list[4];

static void begin(size_t count, const char* const stops[]) {
    for (size_t i = 0; i < count; i++) {
        const size_t size = strlen(stops[i]);
        // the list only reads what it borrows
        stop_list[i] = (llm_bytes){.data = (char*)(uintptr_t)stops[i], .size = size};
    }
    answer_text_init(&answer, v.tokenizer, stop_list, count);
}

static void push(int32_t id) { assert_int_equal(answer_text_push(&answer, id, NULL), BERTH_OK); }

static void push_bytes(const char* bytes) {
    for (; *bytes != '\0'; bytes++)
        push(vocab_byte(*bytes));
}

static void finish(void) { assert_int_equal(answer_text_finish(&answer, NULL), BERTH_OK); }

static void assert_ready(const char* expected) {
    assert_int_equal(answer.ready_bytes, strlen(expected));
    assert_memory_equal(answer.text.data, expected, strlen(expected));
}

static void assert_ended(const char* expected) {
    assert_true(answer.has_stopped);
    assert_ready(expected);
    assert_int_equal(answer.text.size, strlen(expected));
}

static void text_without_stop_strings_is_ready_at_once(void** state) {
    (void)state;
    begin(0, NULL);
    push_bytes("Hi");
    assert_ready("Hi");
    push(token_aab);
    assert_ready("Hiaab");
    finish();
    assert_ready("Hiaab");
    assert_false(answer.has_stopped);
}

static void half_a_character_is_held_back_until_it_is_whole(void** state) {
    (void)state;
    begin(0, NULL);
    push_bytes("a\xe2\x82");
    assert_ready("a");
    push_bytes("\xac");
    assert_ready("a\xe2\x82\xac");
    assert_int_equal(answer.characters, 2);
    push_bytes("\xe2");
    finish();
    assert_ready("a\xe2\x82\xac\xef\xbf\xbd");
    assert_int_equal(answer.characters, 3);
}

static void a_stop_string_is_found_across_tokens(void** state) {
    (void)state;
    begin(1, (const char*[]){"END"});
    push_bytes("xE");
    assert_ready("x");
    push_bytes("N");
    assert_ready("x");
    push_bytes("D");
    assert_ended("x");
}

static void a_stop_string_within_a_token_cuts_it(void** state) {
    (void)state;
    begin(1, (const char*[]){"a"});
    push(vocab_byte('x'));
    push(token_acute);
    assert_ready("xb\xc3\xa9");
    push(token_aab);
    assert_ended("xb\xc3\xa9");
}

static void a_stop_string_is_found_across_the_bytes_of_characters(void** state) {
    (void)state;
    begin(1, (const char*[]){"\xc3\xa9!"});
    push(token_acute);
    assert_ready("b");
    push_bytes("!");
    assert_ended("b");
}

static void what_turns_out_to_be_no_stop_string_is_shown(void** state) {
    (void)state;
    begin(1, (const char*[]){"aab"});
    push_bytes("aa");
    assert_ready("");
    push_bytes("a"); // the first one can begin no stop string any more
    assert_ready("a");
    push_bytes("c");
    assert_ready("aaac");
    assert_false(answer.has_stopped);
}

static void the_stop_string_that_begins_first_ends_the_answer(void** state) {
    (void)state;
    begin(2, (const char*[]){"bcde", "cd"});
    push_bytes("abcd");
    assert_false(answer.has_stopped); // "bcde" may yet come
    assert_ready("a");
    push_bytes("e");
    assert_ended("a");
}

static void a_later_stop_string_counts_when_the_earlier_one_fails(void** state) {
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        begin(2, (const char*[]){"bcde", "cd"});
        push_bytes("abcd");
        if (ends == 0) push_bytes("x");
        if (ends == 1) finish();
        assert_ended("ab");
        answer_text_fini(&answer);
    }
}

static void finishing_shows_what_was_held_back(void** state) {
    (void)state;
    begin(1, (const char*[]){"END"});
    push_bytes("xEN\xc3");
    assert_ready("x");
    finish();
    assert_ready("xEN\xef\xbf\xbd");
    assert_int_equal(answer.text.size, answer.ready_bytes);
    assert_false(answer.has_stopped);
}

static void after_a_stop_string_nothing_is_added(void** state) {
    (void)state;
    begin(1, (const char*[]){"."});
    push_bytes("ab.\xc3");
    push_bytes("cd");
    finish();
    assert_ended("ab");
}

static void a_stop_string_may_be_all_there_is(void** state) {
    (void)state;
    begin(2, (const char*[]){"b", "aab"});
    push(token_aab);
    assert_ended("");
}

static void control_tokens_have_no_text(void** state) {
    (void)state;
    begin(1, (const char*[]){"ab"});
    push_bytes("a");
    push(2);
    push_bytes("b");
    assert_ended("");
}

static void a_failed_allocation_leaves_all_as_it_was(void** state) {
    (void)state;
    begin(1, (const char*[]){"ab"});
    alloc_watch watch;
    watch_begin(&watch, 1);
    assert_int_equal(answer_text_push(&answer, token_aab, NULL), BERTH_ERR_OUT_OF_MEMORY);
    watch_end();
    assert_int_equal(answer.text.size, 0);
    push_bytes("\xc3");
    llm_bytes_fini(&answer.text);
    watch_begin(&watch, 1);
    assert_int_equal(answer_text_finish(&answer, NULL), BERTH_ERR_OUT_OF_MEMORY);
    watch_end();
    finish();
    assert_ready("\xef\xbf\xbd");
}

/// The first place from `from` on at which a stop string begins, or with `may_open` could begin as
/// far as the text goes; the text's size if there is none. `*out_is_whole` says which it is.
static size_t find_first(llm_str text, size_t count, bool may_open, bool* out_is_whole) {
    *out_is_whole = false;
    for (size_t at = 0; at < text.size; at++) {
        bool is_open = false;
        for (size_t i = 0; i < count; i++) {
            const llm_bytes* stop = &stop_list[i];
            const size_t left = text.size - at;
            if (stop->size <= left && memcmp(text.data + at, stop->data, stop->size) == 0) {
                *out_is_whole = true;
                return at;
            }
            is_open |= stop->size > left && memcmp(text.data + at, stop->data, left) == 0;
        }
        if (is_open && may_open) return at;
    }
    return text.size;
}

static size_t make_stops(test_random* random, char texts[4][16]) {
    static const char* const letters[] = {"a", "b", "\xc3\xa9", "aa", "ab"};
    const size_t count = test_random_below(random, 4);
    for (size_t i = 0; i < count; i++) {
        texts[i][0] = '\0';
        for (uint64_t left = 1 + test_random_below(random, 5); left > 0; left--)
            strcat(texts[i], letters[test_random_below(random, 5)]);
        stop_list[i] = (llm_bytes){.data = texts[i], .size = strlen(texts[i])};
    }
    return count;
}

/// Compares an answer so far with a model that decodes all its tokens anew.
static void assert_as_model(const int32_t* ids, size_t id_count, size_t count, bool is_finished) {
    llm_bytes text = {0};
    llm_decoder decoder;
    llm_decoder_init(&decoder, v.tokenizer, false);
    for (size_t i = 0; i < id_count; i++)
        assert_int_equal(llm_decoder_push(&decoder, ids[i], &text, NULL), BERTH_OK);
    if (is_finished) assert_int_equal(llm_decoder_finish(&decoder, &text, NULL), BERTH_OK);
    bool is_whole;
    const size_t end = find_first((llm_str){text.data, text.size}, count, !is_finished, &is_whole);
    assert_int_equal(answer.has_stopped, is_whole);
    assert_int_equal(answer.ready_bytes, end);
    assert_int_equal(answer.text.size, is_whole ? end : text.size);
    if (end > 0) assert_memory_equal(answer.text.data, text.data, end);
    llm_bytes_fini(&text);
}

static void random_answers_are_cut_as_a_model_of_the_whole_text_cuts_them(void** state) {
    (void)state;
    const int32_t letters[] = {vocab_byte('a'),
                               vocab_byte('b'),
                               vocab_byte('\xc3'),
                               vocab_byte('\xa9'),
                               token_ab,
                               token_aab,
                               token_acute,
                               2};
    test_random random = test_random_make(4711);
    size_t stopped = 0;
    for (int round = 0; round < 3000; round++) {
        char texts[4][16];
        const size_t count = make_stops(&random, texts);
        answer_text_init(&answer, v.tokenizer, stop_list, count);
        int32_t ids[12];
        const size_t id_count = 1 + test_random_below(&random, 12);
        for (size_t i = 0; i < id_count && !answer.has_stopped; i++) {
            ids[i] = letters[test_random_below(&random, 8)];
            push(ids[i]);
            assert_as_model(ids, i + 1, count, false);
        }
        if (!answer.has_stopped) {
            finish();
            assert_as_model(ids, id_count, count, true);
        }
        stopped += answer.has_stopped;
        answer_text_fini(&answer);
    }
    assert_in_range(stopped, 500, 2500);
}

#define TEST(name) cmocka_unit_test_teardown(name, fini)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(text_without_stop_strings_is_ready_at_once),
        TEST(half_a_character_is_held_back_until_it_is_whole),
        TEST(a_stop_string_is_found_across_tokens),
        TEST(a_stop_string_within_a_token_cuts_it),
        TEST(a_stop_string_is_found_across_the_bytes_of_characters),
        TEST(what_turns_out_to_be_no_stop_string_is_shown),
        TEST(the_stop_string_that_begins_first_ends_the_answer),
        TEST(a_later_stop_string_counts_when_the_earlier_one_fails),
        TEST(finishing_shows_what_was_held_back),
        TEST(after_a_stop_string_nothing_is_added),
        TEST(a_stop_string_may_be_all_there_is),
        TEST(control_tokens_have_no_text),
        TEST(a_failed_allocation_leaves_all_as_it_was),
        TEST(random_answers_are_cut_as_a_model_of_the_whole_text_cuts_them),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
