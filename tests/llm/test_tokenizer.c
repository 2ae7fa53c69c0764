// SPDX-License-Identifier: Apache-2.0
// Tests of both tokenizers: against small vocabularies made here, against slow models of the
// merging, and against real vocabularies where they are at hand.
#include "llm/vocab_kit.h"

#include "llm_random.h"
#include "tokenizer_split.h"

#include <math.h>

static void the_merge_of_lowest_rank_comes_first(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_bytes(&v);
    int32_t bc = vocab_merge(&v, "b", "c");
    vocab_merge(&v, "a", "b");
    int32_t xbc = vocab_merge(&v, "x", "bc");
    vocab_put(&v, "gpt2", "smollm");
    vocab_open(&v);
    ASSERT_TOKENS(v.tokenizer, "abc", 0, vocab_byte('a'), bc);
    ASSERT_TOKENS(v.tokenizer, "xbc", 0, xbc);
    vocab_close(&v);
}

static void the_leftmost_of_equal_pairs_is_joined(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_bytes(&v);
    int32_t aa = vocab_merge(&v, "a", "a");
    vocab_put(&v, "gpt2", "gpt-2");
    vocab_open(&v);
    ASSERT_TOKENS(v.tokenizer, "aaa", 0, aa, vocab_byte('a'));
    ASSERT_TOKENS(v.tokenizer, "aaaaa", 0, aa, aa, vocab_byte('a'));
    vocab_close(&v);
}

static void spaces_belong_to_the_word_behind_them(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_bytes(&v);
    int32_t space_a = vocab_merge(&v, "\xc4\xa0", "a"); // U+0120 stands for a space
    int32_t spaces = vocab_merge(&v, "\xc4\xa0", "\xc4\xa0");
    vocab_put(&v, "gpt2", "smollm");
    vocab_open(&v);
    ASSERT_TOKENS(v.tokenizer, "a a", 0, vocab_byte('a'), space_a);
    ASSERT_TOKENS(v.tokenizer, "   a", 0, spaces, space_a);
    ASSERT_TOKENS(v.tokenizer, "\n", 0, vocab_byte('\n'));
    vocab_close(&v);
}

static void digits_stand_alone_where_the_vocabulary_says_so(void** state) {
    (void)state;
    static vocab v;
    for (int i = 0; i < 2; i++) {
        vocab_begin_bytes(&v);
        int32_t pair = vocab_merge(&v, "1", "2");
        vocab_put(&v, "gpt2", i == 0 ? "smollm" : "gpt-2");
        vocab_open(&v);
        if (i == 0)
            ASSERT_TOKENS(v.tokenizer, "12", 0, vocab_byte('1'), vocab_byte('2'));
        else
            ASSERT_TOKENS(v.tokenizer, "12", 0, pair);
        vocab_close(&v);
    }
}

static void a_whole_piece_is_taken_unmerged_by_llama_bpe_alone(void** state) {
    (void)state;
    static vocab v;
    for (int i = 0; i < 2; i++) {
        vocab_begin_bytes(&v);
        int32_t whole = vocab_add(&v, "\xc4\xa0xyz", LLM_TOKEN_NORMAL, 0);
        vocab_put(&v, "gpt2", i == 0 ? "llama-bpe" : "gpt-2");
        vocab_open(&v);
        if (i == 0)
            ASSERT_TOKENS(v.tokenizer, " xyz", 0, whole);
        else
            ASSERT_TOKENS(v.tokenizer,
                          " xyz",
                          0,
                          vocab_byte(' '),
                          vocab_byte('x'),
                          vocab_byte('y'),
                          vocab_byte('z'));
        vocab_close(&v);
    }
}

static void control_spellings_are_plain_text_unless_asked_for(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_bytes(&v);
    vocab_put(&v, "gpt2", "llama-bpe");
    vocab_open(&v);
    llm_tokens tokens = {0};
    llm_str text = llm_str_of("a<|im_end|>b");
    assert_int_equal(llm_tokenizer_encode(v.tokenizer, text, LLM_ENCODE_PLAIN, &tokens, NULL),
                     BERTH_OK);
    assert_int_equal(tokens.count, text.size);
    for (size_t i = 0; i < tokens.count; i++)
        assert_int_equal(tokens.ids[i], vocab_byte(text.data[i]));
    llm_tokens_fini(&tokens);
    ASSERT_TOKENS(
        v.tokenizer, "a<|im_end|>b", LLM_ENCODE_PARSE_SPECIAL, vocab_byte('a'), 2, vocab_byte('b'));
    ASSERT_TOKENS(v.tokenizer, "<|im_end|><|im_start|>", LLM_ENCODE_PARSE_SPECIAL, 2, 1);
    vocab_close(&v);
}

static void user_defined_tokens_are_cut_out_longest_first(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_bytes(&v);
    int32_t abc = vocab_add(&v, "abc", LLM_TOKEN_USER_DEFINED, 0);
    int32_t bcde = vocab_add(&v, "bcde", LLM_TOKEN_USER_DEFINED, 0);
    int32_t ab = vocab_add(&v, "ab", LLM_TOKEN_USER_DEFINED, 0);
    vocab_put(&v, "gpt2", "gpt-2");
    vocab_open(&v);
    ASSERT_TOKENS(v.tokenizer, "abcde", 0, vocab_byte('a'), bcde);
    ASSERT_TOKENS(v.tokenizer, "abcdab", 0, abc, vocab_byte('d'), ab);
    ASSERT_TOKENS(v.tokenizer, "ababc", 0, ab, abc);
    vocab_close(&v);
}

static void begin_and_end_tokens_are_added_as_the_file_says(void** state) {
    (void)state;
    static vocab v;
    for (int i = 0; i < 2; i++) {
        vocab_begin_bytes(&v);
        vocab_put(&v, "gpt2", "smollm");
        llm_gguf_put_u32(&v.writer, "tokenizer.ggml.bos_token_id", 1);
        llm_gguf_put_u32(&v.writer, "tokenizer.ggml.eos_token_id", 2);
        if (i == 1) llm_gguf_put_bool(&v.writer, "tokenizer.ggml.add_bos_token", true);
        if (i == 1) llm_gguf_put_bool(&v.writer, "tokenizer.ggml.add_eos_token", true);
        vocab_open(&v);
        unsigned flags = LLM_ENCODE_ADD_SPECIAL;
        if (i == 0)
            ASSERT_TOKENS(v.tokenizer, "x", flags, vocab_byte('x'));
        else
            ASSERT_TOKENS(v.tokenizer, "x", flags, 1, vocab_byte('x'), 2);
        ASSERT_TOKENS(v.tokenizer, "x", 0, vocab_byte('x'));
        vocab_close(&v);
    }
}

static void a_byte_without_a_token_never_becomes_a_control_token(void** state) {
    (void)state;
    static vocab v;
    for (int i = 0; i < 2; i++) {
        vocab_begin_bytes(&v);
        strcpy(v.texts[vocab_byte('~')], "#?");
        v.tokens[vocab_byte('~')] = llm_str_of("#?");
        int32_t unknown = vocab_add(&v, "<?>", LLM_TOKEN_UNKNOWN, 0);
        vocab_put(&v, "gpt2", "smollm");
        llm_gguf_put_u32(
            &v.writer, "tokenizer.ggml.unknown_token_id", i == 0 ? 0 : (uint32_t)unknown);
        vocab_open(&v);
        if (i == 0)
            ASSERT_TOKENS(v.tokenizer, "a~b", 0, vocab_byte('a'), vocab_byte('b'));
        else
            ASSERT_TOKENS(v.tokenizer, "a~b", 0, vocab_byte('a'), unknown, vocab_byte('b'));
        vocab_close(&v);
    }
}

static void any_bytes_survive_encoding(void** state) {
    (void)state;
    static vocab v;
    static const char* const pres[] = {"smollm", "gpt-2", "llama-bpe"};
    for (size_t p = 0; p < 3; p++) {
        vocab_begin_bytes(&v);
        vocab_merge(&v, "a", "b");
        vocab_merge(&v, "\xc3\xa2", "\xc4\xa2"); // stand for the bytes e2 and 80
        vocab_put(&v, "gpt2", pres[p]);
        vocab_open(&v);
        uint64_t random = 11 + p;
        for (int round = 0; round < 3000; round++) {
            char text[40];
            size_t size = llm_random_next(&random) % sizeof text;
            for (size_t i = 0; i < size; i++) {
                uint64_t bits = llm_random_next(&random);
                text[i] = (bits & 0x300) == 0 ? (char)bits : "ab \n1\xe2\x80'"[bits % 8];
            }
            llm_tokens tokens = {0};
            assert_int_equal(
                llm_tokenizer_encode(v.tokenizer, (llm_str){text, size}, 0, &tokens, NULL),
                BERTH_OK);
            llm_bytes back = {0};
            for (size_t i = 0; i < tokens.count; i++) {
                llm_str bytes = llm_tokenizer_bytes(v.tokenizer, tokens.ids[i]);
                assert_int_equal(llm_bytes_append(&back, bytes.data, bytes.size, NULL), BERTH_OK);
            }
            assert_int_equal(back.size, size);
            if (size > 0) assert_memory_equal(back.data, text, size);
            llm_bytes_fini(&back);
            llm_tokens_fini(&tokens);
        }
        vocab_close(&v);
    }
}

/// Joins pairs by looking at all of them each time; a symbol is a string.
typedef struct slow_symbols {
    char texts[32][24];
    size_t count;
} slow_symbols;

static void slow_join(slow_symbols* symbols, size_t at) {
    size_t size = strlen(symbols->texts[at]);
    size_t more = strlen(symbols->texts[at + 1]);
    assert_true(size + more < sizeof symbols->texts[at]);
    memmove(symbols->texts[at] + size, symbols->texts[at + 1], more + 1);
    symbols->count--;
    for (size_t i = at + 1; i < symbols->count; i++)
        memcpy(symbols->texts[i], symbols->texts[i + 1], sizeof symbols->texts[i]);
}

static size_t slow_rank(const vocab* v, const char* left, const char* right) {
    char text[64];
    snprintf(text, sizeof text, "%s %s", left, right);
    for (size_t i = 0; i < v->merge_count; i++)
        if (strcmp(v->merge_texts[i], text) == 0) return i;
    return SIZE_MAX;
}

static int32_t slow_find(const vocab* v, const char* text) {
    for (size_t i = 0; i < v->count; i++)
        if (v->kinds[i] == LLM_TOKEN_NORMAL && strcmp(v->texts[i], text) == 0) return (int32_t)i;
    return -1;
}

static void slow_merge_by_rank(const vocab* v, slow_symbols* symbols) {
    for (;;) {
        size_t best = SIZE_MAX, best_at = 0;
        for (size_t i = 0; i + 1 < symbols->count; i++) {
            size_t rank = slow_rank(v, symbols->texts[i], symbols->texts[i + 1]);
            if (rank >= best) continue;
            best = rank;
            best_at = i;
        }
        if (best == SIZE_MAX) return;
        slow_join(symbols, best_at);
    }
}

static void slow_merge_by_score(const vocab* v, slow_symbols* symbols) {
    for (;;) {
        float best = -INFINITY;
        size_t best_at = SIZE_MAX;
        for (size_t i = 0; i + 1 < symbols->count; i++) {
            char joined[64];
            snprintf(joined, sizeof joined, "%s%s", symbols->texts[i], symbols->texts[i + 1]);
            int32_t id = slow_find(v, joined);
            if (id < 0 || v->scores[id] <= best) continue;
            best = v->scores[id];
            best_at = i;
        }
        if (best_at == SIZE_MAX) return;
        slow_join(symbols, best_at);
    }
}

/// Compares random words of three letters' alphabet with the slow model.
static void compare_with_slow_model(const vocab* v, uint64_t seed) {
    uint64_t random = seed;
    for (int round = 0; round < 500; round++) {
        slow_symbols symbols = {.count = 1 + llm_random_next(&random) % 20};
        char text[32] = {0};
        for (size_t i = 0; i < symbols.count; i++) {
            text[i] = "abc"[llm_random_next(&random) % 3];
            symbols.texts[i][0] = text[i];
        }
        if (v->merge_count > 0)
            slow_merge_by_rank(v, &symbols);
        else
            slow_merge_by_score(v, &symbols);
        int32_t expected[32];
        for (size_t i = 0; i < symbols.count; i++)
            expected[i] = slow_find(v, symbols.texts[i]);
        assert_tokens(v->tokenizer, llm_str_of(text), 0, expected, symbols.count);
    }
}

/// A random word over abc, of `least` to `least` + 3 letters.
static void random_word(uint64_t* random, char out[16], size_t least) {
    size_t size = least + llm_random_next(random) % 4;
    for (size_t i = 0; i < size; i++)
        out[i] = "abc"[llm_random_next(random) % 3];
    out[size] = '\0';
}

static void merging_by_rank_agrees_with_a_slow_model(void** state) {
    (void)state;
    static vocab v;
    uint64_t random = 5;
    for (int round = 0; round < 20; round++) {
        vocab_begin_bytes(&v);
        for (int i = 0; i < 40; i++) {
            // parts that are tokens already, as in a trained vocabulary
            size_t grown = v.count - 259;
            const char* parts[2];
            for (int j = 0; j < 2; j++) {
                size_t pick = llm_random_next(&random) % (3 + grown);
                parts[j] = pick < 3 ? v.texts[vocab_byte("abc"[pick])] : v.texts[256 + pick];
            }
            if (strlen(parts[0]) + strlen(parts[1]) < 10 &&
                slow_rank(&v, parts[0], parts[1]) == SIZE_MAX)
                vocab_merge(&v, parts[0], parts[1]);
        }
        vocab_put(&v, "gpt2", "gpt-2");
        vocab_open(&v);
        compare_with_slow_model(&v, 100 + (uint64_t)round);
        vocab_close(&v);
    }
}

static void merging_by_score_agrees_with_a_slow_model(void** state) {
    (void)state;
    static vocab v;
    uint64_t random = 6;
    for (int round = 0; round < 20; round++) {
        vocab_begin_pieces(&v);
        for (int i = 0; i < 3; i++)
            vocab_add(&v, i == 0 ? "a" : i == 1 ? "b" : "c", 1, -9);
        for (int i = 0; i < 40; i++) {
            char word[16];
            random_word(&random, word, 2);
            float score = -(float)(llm_random_next(&random) % 12); // with ties, and zero
            if (slow_find(&v, word) < 0) vocab_add(&v, word, LLM_TOKEN_NORMAL, score);
        }
        vocab_put(&v, "llama", NULL);
        llm_gguf_put_bool(&v.writer, "tokenizer.ggml.add_space_prefix", false);
        vocab_open(&v);
        compare_with_slow_model(&v, 200 + (uint64_t)round);
        vocab_close(&v);
    }
}

static void sentencepiece_marks_spaces_and_falls_back_to_bytes(void** state) {
    (void)state;
    static vocab v;
    for (int i = 0; i < 2; i++) {
        vocab_begin_pieces(&v);
        int32_t mark = vocab_add(&v, "\xe2\x96\x81", LLM_TOKEN_NORMAL, -5);
        int32_t a = vocab_add(&v, "a", LLM_TOKEN_NORMAL, -6);
        int32_t mark_a = vocab_add(&v,
                                   "\xe2\x96\x81"
                                   "a",
                                   LLM_TOKEN_NORMAL,
                                   -1);
        vocab_put(&v, "llama", NULL);
        if (i == 1) llm_gguf_put_bool(&v.writer, "tokenizer.ggml.add_space_prefix", false);
        vocab_open(&v);
        if (i == 0) {
            ASSERT_TOKENS(v.tokenizer, "a a", 0, mark_a, mark_a);
            ASSERT_TOKENS(v.tokenizer, "a", LLM_ENCODE_ADD_SPECIAL, 1, mark_a);
            ASSERT_TOKENS(v.tokenizer, "\xc3\xa9\xff", 0, mark, 3 + 0xc3, 3 + 0xa9, 3 + 0xff);
        } else {
            ASSERT_TOKENS(v.tokenizer, "a  a", 0, a, mark, mark_a);
        }
        assert_tokens(v.tokenizer, llm_str_of(""), 0, NULL, 0);
        vocab_close(&v);
    }
}

static void no_text_is_merged_into_a_control_or_byte_token(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_pieces(&v);
    int32_t open = vocab_add(&v, "<", LLM_TOKEN_NORMAL, -5);
    int32_t tail = vocab_add(&v, "s>", LLM_TOKEN_NORMAL, -2);
    int32_t s = vocab_add(&v, "s", LLM_TOKEN_NORMAL, -5);
    int32_t close = vocab_add(&v, ">", LLM_TOKEN_NORMAL, -5);
    int32_t head = vocab_add(&v, "<0x0", LLM_TOKEN_NORMAL, -1);
    vocab_add(&v, "<0", LLM_TOKEN_NORMAL, -4);
    vocab_add(&v, "x0", LLM_TOKEN_NORMAL, -4);
    int32_t a_close = vocab_add(&v, "A>", LLM_TOKEN_NORMAL, -2);
    vocab_put(&v, "llama", NULL);
    llm_gguf_put_bool(&v.writer, "tokenizer.ggml.add_space_prefix", false);
    vocab_open(&v);
    ASSERT_TOKENS(v.tokenizer, "<s>", 0, open, tail);
    ASSERT_TOKENS(v.tokenizer, "<0x0A>", 0, head, a_close);
    ASSERT_TOKENS(v.tokenizer, "s<>", 0, s, open, close);
    ASSERT_TOKENS(v.tokenizer, "<s>", LLM_ENCODE_PARSE_SPECIAL, 1);
    vocab_close(&v);
}

static void a_stream_holds_back_unfinished_characters(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_bytes(&v);
    vocab_put(&v, "gpt2", "smollm");
    vocab_open(&v);
    llm_decoder decoder;
    llm_decoder_init(&decoder, v.tokenizer, true);
    llm_bytes text = {0};
    const char llama[] = "\xf0\x9f\xa6\x99";
    for (int i = 0; i < 4; i++) {
        assert_int_equal(text.size, 0);
        assert_int_equal(llm_decoder_push(&decoder, vocab_byte(llama[i]), &text, NULL), BERTH_OK);
    }
    assert_int_equal(text.size, 4);
    assert_memory_equal(text.data, llama, 4);
    assert_int_equal(llm_decoder_push(&decoder, 1, &text, NULL), BERTH_OK);
    assert_int_equal(llm_decoder_push(&decoder, 100000, &text, NULL), BERTH_OK);
    assert_int_equal(llm_decoder_push(&decoder, -1, &text, NULL), BERTH_OK);
    assert_int_equal(text.size, 4);
    llm_bytes_fini(&text);
    vocab_close(&v);
}

static void a_stream_is_valid_utf8_whatever_comes(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_bytes(&v);
    vocab_put(&v, "gpt2", "smollm");
    vocab_open(&v);
    static const struct {
        const char* bytes;
        const char* text;
    } cases[] = {
        {"a\xffz", "a\xef\xbf\xbdz"},
        {"\xe2\x82z", "\xef\xbf\xbdz"},
        {"\xe2\x82", "\xef\xbf\xbd"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf0\x9f\xe2\x82\xac", "\xef\xbf\xbd\xe2\x82\xac"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t ids[8];
        size_t count = strlen(cases[i].bytes);
        for (size_t j = 0; j < count; j++)
            ids[j] = vocab_byte(cases[i].bytes[j]);
        llm_bytes text = {0};
        assert_int_equal(llm_tokenizer_decode(v.tokenizer, ids, count, &text, NULL), BERTH_OK);
        assert_int_equal(text.size, strlen(cases[i].text));
        assert_memory_equal(text.data, cases[i].text, text.size);
        llm_bytes_fini(&text);
    }
    vocab_close(&v);
}

static void decoding_drops_the_space_that_encoding_put_in_front(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_pieces(&v);
    int32_t mark_a = vocab_add(&v,
                               "\xe2\x96\x81"
                               "a",
                               LLM_TOKEN_NORMAL,
                               -1);
    vocab_put(&v, "llama", NULL);
    vocab_open(&v);
    llm_bytes text = {0};
    const int32_t ids[] = {1, mark_a, mark_a, 3 + '!'};
    assert_int_equal(llm_tokenizer_decode(v.tokenizer, ids, 4, &text, NULL), BERTH_OK);
    assert_int_equal(text.size, 4);
    assert_memory_equal(text.data, "a a!", 4);
    text.size = 0;
    llm_decoder decoder;
    llm_decoder_init(&decoder, v.tokenizer, false);
    assert_int_equal(llm_decoder_push(&decoder, mark_a, &text, NULL), BERTH_OK);
    assert_memory_equal(text.data, " a", 2);
    llm_bytes_fini(&text);
    vocab_close(&v);
}

static void generation_stops_at_end_tokens_only(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_bytes(&v);
    vocab_put(&v, "gpt2", "smollm");
    llm_gguf_put_u32(&v.writer, "tokenizer.ggml.eos_token_id", 2);
    vocab_open(&v);
    assert_true(llm_tokenizer_is_stop(v.tokenizer, 0));
    assert_false(llm_tokenizer_is_stop(v.tokenizer, 1));
    assert_true(llm_tokenizer_is_stop(v.tokenizer, 2));
    assert_false(llm_tokenizer_is_stop(v.tokenizer, vocab_byte('a')));
    assert_false(llm_tokenizer_is_stop(v.tokenizer, -1));
    assert_false(llm_tokenizer_is_stop(v.tokenizer, 1 << 20));
    assert_int_equal(llm_tokenizer_find_special(v.tokenizer, "<|im_end|>"), 2);
    assert_int_equal(llm_tokenizer_find_special(v.tokenizer, "a"), -1);
    vocab_close(&v);
}

static void very_long_texts_of_one_piece_are_merged(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_bytes(&v);
    vocab_merge(&v, "a", "a");
    int32_t four = vocab_merge(&v, "aa", "aa");
    vocab_put(&v, "gpt2", "smollm");
    vocab_open(&v);
    enum { SIZE = 1 << 20 };
    char* text = malloc(SIZE);
    assert_non_null(text);
    memset(text, 'a', SIZE);
    llm_tokens tokens = {0};
    assert_int_equal(llm_tokenizer_encode(v.tokenizer, (llm_str){text, SIZE}, 0, &tokens, NULL),
                     BERTH_OK);
    assert_int_equal(tokens.count, SIZE / 4);
    for (size_t i = 0; i < tokens.count; i++)
        assert_int_equal(tokens.ids[i], four);
    llm_tokens_fini(&tokens);
    free(text);
    vocab_close(&v);
}

static void pieces_are_cut_as_the_expressions_say(void** state) {
    (void)state;
    static const struct {
        const char* pre;
        const char* pieces; // with '|' at every cut
    } cases[] = {
        {"gpt-2", "Hello|,| world|!"},
        {"gpt-2", "it|'s| they|'re| I|'ll|'|D"},
        {"gpt-2", "x|  | y| 12345"},
        {"gpt-2", "a|\t|b| \n |\n|c"},
        {"gpt-2", "end|   "},
        {"smollm", "x| |1|2|3| y"},
        {"smollm", "a|  |4|5|'s"},
        {"smollm", "v|1|.|0|-|rc| |2"},
        {"smollm", "\xe2\x91\xa3|\xd9\xa3|\xc2\xbd| \xc3\xa9t\xc3\xa9"},
        {"llama-bpe", "It|'S| (|ok|)| |123|456|7"},
        {"llama-bpe", "a|\n\n|b|  \n| | c"},
        {"llama-bpe", "f|();\n\n|\tg| !\n"},
        {"llama-bpe", "\tword| .|word|\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64] = {0};
        size_t ends[32], count = 0, size = 0;
        for (const char* c = cases[i].pieces; *c != '\0'; c++) {
            if (*c == '|')
                ends[count++] = size;
            else
                text[size++] = *c;
        }
        ends[count++] = size;
        llm_split split = llm_split_of(llm_str_of(cases[i].pre));
        size_t at = 0;
        for (size_t piece = 0; at < size; piece++) {
            at = llm_split_next(split, (llm_str){text, size}, at);
            if (piece >= count || at != ends[piece])
                fail_msg("%s cuts '%s' at %zu", cases[i].pre, cases[i].pieces, at);
        }
    }
}

static void vocabularies_that_do_not_fit_together_are_refused(void** state) {
    (void)state;
    enum { BAD_MODEL, BAD_PRE, NO_PRE, BAD_KINDS, BAD_KIND, BAD_MERGE, BAD_BOS, NAN_SCORE, CASES };
    static const char* const mentions[CASES] = {
        "tokenizer.ggml.model is 'bert'",
        "tokenizer.ggml.pre is 'fancy'",
        "no key tokenizer.ggml.pre",
        "tokenizer.ggml.token_type has 1 entries for 259",
        "token 0 the unknown type 77",
        "merge 1 ('nospace')",
        "tokenizer.ggml.bos_token_id is",
        "tokenizer.ggml.scores: token 5",
    };
    static vocab v;
    for (int i = 0; i < CASES; i++) {
        bool pieces = i == NAN_SCORE;
        if (pieces)
            vocab_begin_pieces(&v);
        else
            vocab_begin_bytes(&v);
        if (i == BAD_KIND) v.kinds[0] = 77;
        if (i == NAN_SCORE) v.scores[5] = NAN;
        if (i == BAD_MERGE) {
            vocab_merge(&v, "a", "b");
            v.merges[v.merge_count++] = llm_str_of("nospace");
        }
        size_t count = v.count;
        if (i == BAD_KINDS) v.count = 0; // puts an empty array, replaced below
        vocab_put(&v,
                  i == BAD_MODEL ? "bert"
                  : pieces       ? "llama"
                                 : "gpt2",
                  i == BAD_PRE  ? "fancy"
                  : i == NO_PRE ? NULL
                                : "smollm");
        v.count = count;
        if (i == BAD_KINDS) {
            llm_gguf_writer_fini(&v.writer);
            llm_gguf_writer_init(&v.writer, 32);
            llm_gguf_put_string(&v.writer, "tokenizer.ggml.model", llm_str_of("gpt2"));
            llm_gguf_put_string(&v.writer, "tokenizer.ggml.pre", llm_str_of("smollm"));
            llm_gguf_put_strings(&v.writer, "tokenizer.ggml.tokens", v.tokens, v.count);
            llm_gguf_put_numbers(&v.writer, "tokenizer.ggml.token_type", LLM_GGUF_I32, v.kinds, 1);
        }
        if (i == BAD_BOS) llm_gguf_put_u32(&v.writer, "tokenizer.ggml.bos_token_id", 259);
        llm_error error;
        berth_status status = vocab_try_open(&v, &error);
        assert_int_not_equal(status, BERTH_OK);
        assert_null(v.tokenizer);
        assert_mentions(&error, mentions[i]);
        vocab_close(&v);
    }
}

static void every_failing_allocation_leaves_the_list_as_it_was(void** state) {
    (void)state;
    static vocab v;
    vocab_begin_bytes(&v);
    vocab_merge(&v, "a", "a");
    vocab_put(&v, "gpt2", "llama-bpe");
    llm_gguf_put_u32(&v.writer, "tokenizer.ggml.bos_token_id", 1);
    vocab_open(&v);
    char text[400];
    memset(text, 'a', sizeof text);
    memcpy(text + 100, "<|im_end|> ", 11);
    for (uint64_t n = 1;; n++) {
        alloc_watch watch;
        llm_tokens tokens = {0};
        llm_bytes decoded = {0};
        llm_tokenizer* again;
        watch_begin(&watch, n);
        berth_status status = llm_tokenizer_create(v.gguf, &again, NULL);
        assert_true((status == BERTH_OK) == (again != NULL));
        if (status == BERTH_OK) {
            unsigned flags = LLM_ENCODE_PARSE_SPECIAL | LLM_ENCODE_ADD_SPECIAL;
            llm_str whole = {text, sizeof text};
            status = llm_tokenizer_encode(again, whole, flags, &tokens, NULL);
            if (status != BERTH_OK) assert_int_equal(tokens.count, 0);
        }
        if (status == BERTH_OK) {
            status = llm_tokenizer_decode(again, tokens.ids, tokens.count, &decoded, NULL);
            if (status != BERTH_OK) assert_int_equal(decoded.size, 0);
        }
        watch_end();
        bool done = watch.calls < n;
        assert_int_equal(status, done ? BERTH_OK : BERTH_ERR_OUT_OF_MEMORY);
        if (done) assert_int_equal(decoded.size, sizeof text - 10);
        llm_tokens_fini(&tokens);
        llm_bytes_fini(&decoded);
        llm_tokenizer_destroy(again);
        if (done) break;
    }
    vocab_close(&v);
}

static void read_text(const char* folder, const char* name, llm_bytes* out) {
    char path[512];
    snprintf(path, sizeof path, "%s/data/gguf/%s", folder, name);
    FILE* file = fopen(path, "rb");
    assert_non_null(file);
    char block[4096];
    for (size_t got; (got = fread(block, 1, sizeof block, file)) > 0;)
        assert_int_equal(llm_bytes_append(out, block, got, NULL), BERTH_OK);
    fclose(file);
    assert_int_equal(llm_bytes_append(out, "", 1, NULL), BERTH_OK); // so that numbers can be read
}

/// Checks every text of NAME.gguf.inp against the line of ids in NAME.gguf.out; returns how many.
static int check_reference(const char* folder, const char* name) {
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char path[512], part[64];
    llm_error error;
    llm_gguf* gguf;
    llm_tokenizer* tokenizer;
    snprintf(path, sizeof path, "%s/data/gguf/%s.gguf", folder, name);
    if (llm_gguf_open(path, true, &gguf, &error) != BERTH_OK) fail_msg("%s", error.text);
    if (llm_tokenizer_create(gguf, &tokenizer, &error) != BERTH_OK) fail_msg("%s", error.text);
    llm_bytes texts = {0}, ids = {0};
    snprintf(part, sizeof part, "%s.gguf.inp", name);
    read_text(folder, part, &texts);
    snprintf(part, sizeof part, "%s.gguf.out", name);
    read_text(folder, part, &ids);
    char* id = ids.data;
    char* text = texts.data;
    int checked = 0;
    // what stands behind the last separator is a text too: an empty one, with an empty line
    for (bool is_last = false; !is_last; checked++) {
        char* end = strstr(text, separator);
        is_last = end == NULL;
        if (is_last) end = text + strlen(text);
        int32_t expected[256];
        size_t count = 0;
        char* line_end = strchrnul(id, '\n');
        for (char* next; id < line_end; id = next) {
            expected[count] = (int32_t)strtol(id, &next, 10);
            if (next == id || next > line_end) break; // the rest of the line is blank
            count++;
        }
        assert_tokens(tokenizer, (llm_str){text, (size_t)(end - text)}, 0, expected, count);
        id = *line_end == '\0' ? line_end : line_end + 1;
        text = is_last ? end : end + strlen(separator);
    }
    llm_bytes_fini(&texts);
    llm_bytes_fini(&ids);
    llm_tokenizer_destroy(tokenizer);
    llm_gguf_close(gguf);
    return checked;
}

static void reference_texts_have_the_reference_tokens(void** state) {
    (void)state;
    const char* folder = shared_data_folder("reference tokens");
    assert_int_equal(check_reference(folder, "vocab-llama-spm"), 47);
    assert_int_equal(check_reference(folder, "vocab-starcoder"), 47);
}

static void smollm_texts_have_the_known_tokens(void** state) {
    (void)state;
    const char* path = getenv("BERTH_MODEL");
    if (path == NULL) {
        print_message("skipped: BERTH_MODEL names no SmolLM2 file\n");
        skip();
    }
    llm_error error;
    llm_gguf* gguf;
    llm_tokenizer* t;
    if (llm_gguf_open(path, true, &gguf, &error) != BERTH_OK) fail_msg("%s", error.text);
    if (llm_tokenizer_create(gguf, &t, &error) != BERTH_OK) fail_msg("%s", error.text);
    ASSERT_TOKENS(t, "Hello, we can use", 0, 19556, 28, 392, 416, 722);
    ASSERT_TOKENS(t, "The capital of France is", 0, 504, 3575, 282, 4649, 314);
    ASSERT_TOKENS(t, "Hello world! 123", 0, 19556, 905, 17, 216, 33, 34, 35);
    ASSERT_TOKENS(t, "\n", LLM_ENCODE_ADD_SPECIAL, 198);
    ASSERT_TOKENS(t, "  multiple   spaces", 0, 216, 2701, 256, 5600);
    assert_true(llm_tokenizer_is_stop(t, 0) && llm_tokenizer_is_stop(t, 2));
    llm_tokenizer_destroy(t);
    llm_gguf_close(gguf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_merge_of_lowest_rank_comes_first),
        cmocka_unit_test(the_leftmost_of_equal_pairs_is_joined),
        cmocka_unit_test(spaces_belong_to_the_word_behind_them),
        cmocka_unit_test(digits_stand_alone_where_the_vocabulary_says_so),
        cmocka_unit_test(a_whole_piece_is_taken_unmerged_by_llama_bpe_alone),
        cmocka_unit_test(control_spellings_are_plain_text_unless_asked_for),
        cmocka_unit_test(user_defined_tokens_are_cut_out_longest_first),
        cmocka_unit_test(begin_and_end_tokens_are_added_as_the_file_says),
        cmocka_unit_test(a_byte_without_a_token_never_becomes_a_control_token),
        cmocka_unit_test(any_bytes_survive_encoding),
        cmocka_unit_test(merging_by_rank_agrees_with_a_slow_model),
        cmocka_unit_test(merging_by_score_agrees_with_a_slow_model),
        cmocka_unit_test(sentencepiece_marks_spaces_and_falls_back_to_bytes),
        cmocka_unit_test(no_text_is_merged_into_a_control_or_byte_token),
        cmocka_unit_test(a_stream_holds_back_unfinished_characters),
        cmocka_unit_test(a_stream_is_valid_utf8_whatever_comes),
        cmocka_unit_test(decoding_drops_the_space_that_encoding_put_in_front),
        cmocka_unit_test(generation_stops_at_end_tokens_only),
        cmocka_unit_test(very_long_texts_of_one_piece_are_merged),
        cmocka_unit_test(pieces_are_cut_as_the_expressions_say),
        cmocka_unit_test(vocabularies_that_do_not_fit_together_are_refused),
        cmocka_unit_test(every_failing_allocation_leaves_the_list_as_it_was),
        cmocka_unit_test(reference_texts_have_the_reference_tokens),
        cmocka_unit_test(smollm_texts_have_the_known_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
