// SPDX-License-Identifier: Apache-2.0
// The triangle of shared events against whole texts: each path is a word, and what two share is
// their common beginning.
#include "kit/failing_host.h"
#include "kit/random.h"
#include "kit/test.h"
#include "plan/path_tree.h"

enum { WORDS = 12, LETTERS = 10 };

typedef struct words {
    berth_path_tree tree;
    uint32_t count;
    char word[WORDS + 1][LETTERS];
} words;

static uint32_t common(const char* a, const char* b) {
    uint32_t at = 0;
    while (at < LETTERS && a[at] == b[at])
        at++;
    return at;
}

static void assert_tree_is_right(const words* w) {
    assert_int_equal(w->tree.count, w->count);
    for (uint32_t a = 0; a < w->count; a++)
        for (uint32_t b = 0; b < w->count; b++)
            if (a != b)
                assert_int_equal(berth_path_tree_shared(&w->tree, a, b),
                                 common(w->word[a], w->word[b]));
}

static void add_word(words* w, test_random* random) {
    char* word = w->word[w->count];
    if (w->count > 0) // grows out of another one
        memcpy(word, w->word[test_random_below(random, w->count)], LETTERS);
    for (uint32_t i = (uint32_t)test_random_below(random, LETTERS); i < LETTERS; i++)
        word[i] = (char)('a' + test_random_below(random, 3));
    uint32_t shared[WORDS];
    for (uint32_t i = 0; i < w->count; i++)
        shared[i] = common(w->word[i], word);
    assert_ok(berth_path_tree_reserve(&w->tree, berth_host_default()));
    berth_path_tree_append(&w->tree, shared);
    w->count++;
}

static void remove_word(words* w, uint32_t at) {
    berth_path_tree_remove(&w->tree, at);
    w->count--;
    for (uint32_t i = at; i < w->count; i++)
        memcpy(w->word[i], w->word[i + 1], LETTERS);
}

static void promote_word(words* w, uint32_t from, uint32_t to) {
    berth_path_tree_promote(&w->tree, from, to);
    char moved[LETTERS];
    memcpy(moved, w->word[from], LETTERS);
    for (uint32_t i = from; i > to; i--)
        memcpy(w->word[i], w->word[i - 1], LETTERS);
    memcpy(w->word[to], moved, LETTERS);
}

static void any_changes_leave_what_each_two_share(void** state) {
    (void)state;
    test_random random = test_random_make(5);
    for (int round = 0; round < 50; round++) {
        words w = {.count = 0};
        for (int step = 0; step < 60; step++) {
            const uint64_t what = test_random_below(&random, 4);
            if (w.count < WORDS && (what < 2 || w.count == 0)) {
                add_word(&w, &random);
            } else if (what == 2 || w.count == WORDS) {
                remove_word(&w, (uint32_t)test_random_below(&random, w.count));
            } else {
                const uint32_t from = (uint32_t)test_random_below(&random, w.count);
                promote_word(&w, from, (uint32_t)test_random_below(&random, from + UINT64_C(1)));
            }
            assert_tree_is_right(&w);
        }
        berth_path_tree_fini(&w.tree, berth_host_default());
    }
}

static void without_memory_the_tree_is_as_before(void** state) {
    (void)state;
    failing_host failing;
    failing_host_init(&failing);
    berth_host* host;
    assert_ok(berth_host_create(&failing.allocator, &host));
    berth_path_tree tree = {.count = 0};
    const uint32_t shared[] = {7, 3};
    assert_ok(berth_path_tree_reserve(&tree, host));
    berth_path_tree_append(&tree, shared);
    assert_ok(berth_path_tree_reserve(&tree, host));
    berth_path_tree_append(&tree, shared);
    failing_host_fail(&failing, 1, false);
    berth_status status = BERTH_OK;
    while (status == BERTH_OK) {
        status = berth_path_tree_reserve(&tree, host);
        if (status == BERTH_OK) berth_path_tree_append(&tree, (const uint32_t[WORDS]){7, 3});
    }
    assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
    assert_int_equal(berth_path_tree_shared(&tree, 0, 1), 7);
    assert_int_equal(berth_path_tree_shared(&tree, 1, 0), 7);
    berth_path_tree_fini(&tree, host);
    berth_host_destroy(host);
    assert_int_equal(failing.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_changes_leave_what_each_two_share),
        cmocka_unit_test(without_memory_the_tree_is_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
