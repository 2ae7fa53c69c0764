// SPDX-License-Identifier: Apache-2.0
// Expressions of sizes: what they say is what arithmetic says, what is wrong is refused.
#include "kit/random.h"
#include "kit/test.h"
#include "plan/size_expression.h"

#include <stdio.h>

/// Names a, b and "odd name" with fixed values; b is a bound.
static bool look_up(void* user, const char* name, size_t bytes, berth_expression_answer* out) {
    const int64_t* values = user;
    if (bytes == 1 && name[0] == 'a')
        *out = (berth_expression_answer){values[0], BERTH_ESTIMATE_EXACT};
    else if (bytes == 3 && memcmp(name, "b.0", bytes) == 0)
        *out = (berth_expression_answer){values[1], BERTH_ESTIMATE_EXACT};
    else if (bytes == 8 && memcmp(name, "odd name", bytes) == 0)
        *out = (berth_expression_answer){7, BERTH_ESTIMATE_BOUND};
    else
        return false;
    return true;
}

static berth_expression_answer evaluate(const char* text, int64_t a, int64_t b) {
    int64_t values[] = {a, b};
    berth_expression_answer answer;
    assert_ok(berth_size_expression_evaluate(text, look_up, values, &answer));
    return answer;
}

static void expect(const char* text, int64_t value) {
    const berth_expression_answer answer = evaluate(text, 10, 3);
    if (answer.value != value)
        fail_msg("%s is %lld, not %lld", text, (long long)answer.value, (long long)value);
}

static void an_expression_follows_the_rules_of_arithmetic(void** state) {
    (void)state;
    expect("4", 4);
    expect(" 4 * a * 576 ", 23040);
    expect("2+3*4", 14);
    expect("(2+3)*4", 20);
    expect("a-b.0-b.0", 4);
    expect("a-(b.0-b.0)", 10);
    expect("max(a|b.0|11)", 11);
    expect("max(a)", 10);
    expect("ceil(a/3)", 4);
    expect("ceil((a-1)/3)*34", 102);
    expect("floor(a/3)", 3);
    expect("floor((b.0-a)/4)+100", 98);
    expect("ceil((b.0-a)/4)+100", 99);
    expect("mod(a/4)", 2);
    expect("mod((b.0-a)/4)", 0);
    expect("atmost(a|4)+atmost(b.0|4)", 7);
    expect("atleast(a|4)+atleast(b.0|4)", 14);
    expect("pad(a/4)", 12);
    expect("pad(a/64)", 10);
    expect("observed(a*2)", 20);
    expect("{odd name}+{a}", 17);
}

static void a_result_is_never_below_0_and_never_wraps(void** state) {
    (void)state;
    expect("b.0-a", 0);
    expect("99999999999999999999", INT64_MAX);
    expect("9223372036854775807*2", INT64_MAX);
    expect("9223372036854775807+1", INT64_MAX);
    expect("0-9223372036854775807*2-5+1", 0);
    expect("(0-9223372036854775807-9)*(0-9)", INT64_MAX);
    expect("pad(9223372036854775807/64)", INT64_MAX);
    expect("ceil(9223372036854775807*2/64)", INT64_MAX);
    expect("floor(9223372036854775807*2/64)", INT64_MAX);
}

static void the_answer_says_how_sure_it_is(void** state) {
    (void)state;
    assert_int_equal(evaluate("4*a", 10, 3).kind, BERTH_ESTIMATE_EXACT);
    assert_int_equal(evaluate("max(a|10)", 10, 3).kind, BERTH_ESTIMATE_EXACT);
    assert_int_equal(evaluate("max(a|11)", 10, 3).kind, BERTH_ESTIMATE_BOUND);
    assert_int_equal(evaluate("2*max(a|b.0)+1", 10, 3).kind, BERTH_ESTIMATE_BOUND);
    assert_int_equal(evaluate("4+{odd name}", 10, 3).kind, BERTH_ESTIMATE_BOUND);
    assert_int_equal(evaluate("atmost(a|11)", 10, 3).kind, BERTH_ESTIMATE_EXACT);
    assert_int_equal(evaluate("max(a|observed(1))", 10, 3).kind, BERTH_ESTIMATE_OBSERVED);
}

static void refuse(const char* text, const char* reason) {
    int64_t values[] = {1, 1};
    berth_expression_answer answer = {5, BERTH_ESTIMATE_EXACT};
    assert_fails(
        berth_size_expression_evaluate(text, look_up, values, &answer), BERTH_ERR_CORRUPT, reason);
    assert_int_equal(answer.value, 0);
}

static void what_is_wrong_is_named_with_its_place(void** state) {
    (void)state;
    refuse("", "character 1");
    refuse("4*", "character 3");
    refuse("4 a", "the end is expected at character 3");
    refuse("(4", "')' is expected");
    refuse("max(1|", "character 7");
    refuse("ceil(4)", "'/' is expected");
    refuse("ceil(4/a)", "a number is expected at character 8");
    refuse("ceil(4/0)", "divides by 0");
    refuse("atmost(1)", "'|' is expected");
    refuse("min(1|2)", "'min', which is no function");
    refuse("4*tokens", "names 'tokens'");
    refuse("{a", "a name in braces");
    refuse("-4", "character 1");
    refuse("4/2", "the end is expected at character 2");
}

static void parentheses_have_a_limit(void** state) {
    (void)state;
    char text[4 * BERTH_SIZE_EXPRESSION_DEPTH];
    const size_t most = BERTH_SIZE_EXPRESSION_DEPTH;
    memset(text, '(', most);
    text[most] = '4';
    memset(text + most + 1, ')', most);
    text[2 * most + 1] = '\0';
    expect(text, 4);
    memset(text, '(', most + 1);
    text[most + 1] = '\0';
    refuse(text, "more than 64 parentheses");
}

// ---- Random expressions beside a tree that is evaluated naively.

/// Writes a random expression to `text` and returns its value, in a range that nothing overflows.
static int64_t write_random(test_random* random, unsigned depth, char** text, const int64_t* v) {
    const uint64_t pick = test_random_below(random, depth == 0 ? 3 : 8);
    if (pick == 0) {
        const int64_t number = test_random_between(random, 0, 9);
        *text += sprintf(*text, "%lld", (long long)number);
        return number;
    }
    if (pick <= 2) {
        *text += sprintf(*text, pick == 1 ? "a" : " b.0");
        return v[pick - 1];
    }
    static const char* const opens[] = {"(", "(", "(", "max(", "ceil("};
    static const char* const middles[] = {"+", " - ", "*", "|", "/"};
    *text += sprintf(*text, "%s", opens[pick - 3]);
    const int64_t left = write_random(random, depth - 1, text, v);
    *text += sprintf(*text, "%s", middles[pick - 3]);
    int64_t right = 1 + test_random_between(random, 0, 6);
    if (pick == 7)
        *text += sprintf(*text, "%lld", (long long)right);
    else
        right = write_random(random, depth - 1, text, v);
    *text += sprintf(*text, ")");
    switch (pick) {
    case 3:
        return left + right;
    case 4:
        return left - right;
    case 5:
        return left * right;
    case 6:
        return left > right ? left : right;
    default: {
        int64_t quotient = 0; // the least whose product is not below
        while (quotient * right < left)
            quotient++;
        while ((quotient - 1) * right >= left)
            quotient--;
        return quotient;
    }
    }
}

static void random_expressions_agree_with_a_naive_evaluation(void** state) {
    (void)state;
    test_random random = test_random_make(11);
    for (int i = 0; i < 3000; i++) {
        char text[4096];
        char* end = text;
        const int64_t values[] = {test_random_between(&random, 0, 9),
                                  test_random_between(&random, 0, 4)};
        const int64_t wanted = write_random(&random, 3, &end, values);
        const berth_expression_answer answer = evaluate(text, values[0], values[1]);
        if (answer.value != (wanted > 0 ? wanted : 0))
            fail_msg("%s is %lld, not %lld", text, (long long)answer.value, (long long)wanted);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expression_follows_the_rules_of_arithmetic),
        cmocka_unit_test(a_result_is_never_below_0_and_never_wraps),
        cmocka_unit_test(the_answer_says_how_sure_it_is),
        cmocka_unit_test(what_is_wrong_is_named_with_its_place),
        cmocka_unit_test(parentheses_have_a_limit),
        cmocka_unit_test(random_expressions_agree_with_a_naive_evaluation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
