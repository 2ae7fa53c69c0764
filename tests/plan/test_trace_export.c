// SPDX-License-Identifier: Apache-2.0
// Steps as trace files: what is read back plans as the step itself does, at any shape.
#include "plan/problem_kit.h"
#include "plan/step_kit.h"

#include "kit/random.h"
#include "plan/form_text.h"
#include "plan/size_expression.h"
#include "plan/trace_export.h"

static bool name_of(void* self, uint32_t kind, uint32_t tag, char name[BERTH_EVENT_NAME_BYTES]) {
    (void)self;
    (void)tag;
    snprintf(name, BERTH_EVENT_NAME_BYTES, "op%u", kind);
    return kind != 10;
}

static const berth_event_names names = {.name_of = name_of};

static berth_step_model* make_model(void) {
    berth_plan_policy policy = default_policy();
    policy.quantum = 0;
    berth_step_model* model;
    assert_ok(berth_step_model_create(berth_host_default(), "a \"step\", {odd}", &policy, &model));
    return model;
}

static void run_llama(berth_step_model* model, uint32_t layers, int64_t t, int64_t total) {
    step_tape tape = {.host = berth_host_default()};
    const berth_binding bindings[] = {{"tokens.0", t}, {"a, {b}", total}, {"layers", 2}};
    const berth_shape_key key = {bindings, 3};
    tape_llama(&tape, layers, t, total);
    (void)run_tape(model, &key, &tape);
    berth_trace_fini(&tape.trace, tape.host);
}

/// The step as a file.
static berth_trace_file* save_and_read(berth_step_model* model) {
    berth_byte_writer out = {.host = berth_host_default()};
    berth_write_bytes(&out, BERTH_TRACE_HEADER, strlen(BERTH_TRACE_HEADER));
    berth_step_model_write_trace(model, &names, &out);
    assert_false(out.failed);
    berth_trace_file* file;
    assert_ok(berth_trace_file_parse("saved", out.data, out.count, &file));
    berth_byte_writer_fini(&out);
    return file;
}

/// Compares the plan of the step with that of the file.
static void compare_at(berth_step_model* model,
                       const berth_trace_file* file,
                       int64_t t,
                       int64_t total) {
    const berth_binding bindings[] = {{"tokens.0", t}, {"a, {b}", total}, {"layers", 2}};
    const berth_shape_key key = {bindings, 3};
    const berth_trace_setting settings[] = {{"tokens.0", t}, {"a, _b_", total}};
    berth_outlook outlook;
    berth_branches branches;
    assert_ok(berth_step_model_begin(model, &key, &branches, &outlook));
    assert_non_null(outlook.placement);
    berth_problem* problem = problem_kit_make(file, 0, settings, 2);
    const berth_pack_result result = problem_kit_solve(problem);
    assert_int_equal(result.lower_bound, outlook.placement->lower_bound_bytes);
    assert_true(result.peak <= outlook.placement->peak_bytes);
    assert_int_equal(berth_problem_query_kind(problem), outlook.kind);
    berth_problem_destroy(problem);
    berth_step_model_abandon(model, &branches);
}

static void a_step_read_back_plans_as_the_step_does_at_any_shape(void** state) {
    (void)state;
    berth_step_model* model = make_model();
    static const int64_t shapes[][2] = {{7, 19}, {32, 100}, {5, 64}, {100, 333}, {64, 77}, {9, 10}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        run_llama(model, 2, shapes[i][0], shapes[i][1]);
    berth_trace_file* file = save_and_read(model);
    assert_int_equal(berth_trace_file_query_part_count(file), 1);
    berth_trace_part part;
    assert_ok(berth_trace_file_query_part(file, 0, &part));
    assert_string_equal(part.step, "a \"step\", _odd_");
    assert_int_equal(part.symbol_count, 3);
    berth_trace_symbol symbol;
    assert_ok(berth_trace_file_query_symbol(file, 0, 0, &symbol));
    assert_int_equal(symbol.lowest, 5);
    assert_true(symbol.value >= symbol.lowest && symbol.value <= symbol.highest);
    compare_at(model, file, 9, 10);
    compare_at(model, file, 100, 333);
    compare_at(model, file, 1, 1);
    compare_at(model, file, 513, 2000);
    compare_at(model, file, 48, 4097);
    berth_problem* problem = problem_kit_make(file, 0, NULL, 0);
    assert_string_equal(problem_kit_row(problem, 0).label, "op1");
    assert_int_equal(berth_problem_query_pack(problem)->alignment, BERTH_PLAN_ALIGNMENT);
    berth_problem_destroy(problem);
    const berth_trace_setting layers = {"layers", 3};
    assert_fails(berth_problem_create(file, 0, &layers, 1, &problem),
                 BERTH_ERR_INVALID_ARGUMENT,
                 "layers was 2 whenever");
    berth_trace_file_destroy(file);
    berth_step_model_destroy(model);
}

static void every_path_is_a_part_and_an_unknown_step_is_none(void** state) {
    (void)state;
    berth_step_model* model = make_model();
    berth_trace_file* file = save_and_read(model);
    assert_int_equal(berth_trace_file_query_part_count(file), 1);
    berth_trace_part part;
    assert_ok(berth_trace_file_query_part(file, 0, &part));
    assert_null(part.step);
    berth_trace_file_destroy(file);
    for (int64_t t = 4; t < 40; t += 5)
        run_llama(model, 1 + (uint32_t)(t % 2), t, t + 9);
    file = save_and_read(model);
    assert_int_equal(berth_trace_file_query_part_count(file), 2);
    berth_trace_file_destroy(file);
    berth_step_model_destroy(model);
}

static void sizes_without_a_form_are_observed(void** state) {
    (void)state;
    berth_step_model* model = make_model();
    test_random random = test_random_make(2);
    for (int64_t t = 10; t < 16; t++) {
        step_tape tape = {.host = berth_host_default()};
        const berth_binding binding = {"t", t};
        const berth_shape_key key = {&binding, 1};
        tape_op(&tape, 1);
        (void)tape_bytes(&tape, BERTH_VALUE_DATA, 1 + test_random_between(&random, 0, 100000));
        (void)tape_value(&tape, 0, BERTH_Q8_0, 2, (const int64_t[]){t, 100});
        (void)run_tape(model, &key, &tape);
        berth_trace_fini(&tape.trace, tape.host);
    }
    berth_trace_file* file = save_and_read(model);
    const berth_trace_setting at = {"t", 20};
    berth_problem* problem = problem_kit_make(file, 0, &at, 1);
    assert_int_equal(berth_problem_query_kind(problem), BERTH_ESTIMATE_OBSERVED);
    assert_int_equal(problem_kit_row(problem, 1).size, (20 * 4 * 34 + 63) / 64 * 64);
    berth_problem_destroy(problem);
    berth_trace_file_destroy(file);
    berth_step_model_destroy(model);
}

// ---- Forms as text.

static const char* const symbols[] = {"a", "odd name", "c.1"};

static bool look_up(void* user, const char* name, size_t bytes, berth_expression_answer* out) {
    const int64_t* values = user;
    for (size_t i = 0; i < 3; i++) {
        if (strlen(symbols[i]) != bytes || memcmp(symbols[i], name, bytes) != 0) continue;
        *out = (berth_expression_answer){values[i], BERTH_ESTIMATE_EXACT};
        return true;
    }
    return false;
}

static berth_form_factor random_factor(test_random* random) {
    berth_form_factor factor = {.count = (uint8_t)(1 + test_random_below(random, 3)), .unit = 1};
    for (uint8_t i = 0; i < factor.count; i++) {
        factor.symbols[i] = (uint16_t)test_random_below(random, 3);
        factor.scales[i] = (int32_t)test_random_between(random, -3, 5);
    }
    if (test_random_one_in(random, 2)) factor.add = (int32_t)test_random_between(random, -50, 50);
    if (test_random_one_in(random, 3)) factor.unit = 1 + (uint32_t)test_random_below(random, 70);
    factor.remainder = factor.unit > 1 && test_random_one_in(random, 4);
    return factor;
}

static berth_form random_form(test_random* random) {
    berth_form form = {.factor_count = (uint8_t)test_random_below(random, 4), .unit = 1};
    for (uint8_t i = 0; i < form.factor_count; i++)
        form.factors[i] = random_factor(random);
    form.scale = test_random_between(random, -2, 9);
    if (test_random_one_in(random, 2)) form.add = test_random_between(random, -999, 9999);
    if (test_random_one_in(random, 4)) form.unit = 1 + (uint32_t)test_random_below(random, 300);
    form.limit_kind = (uint8_t)test_random_below(random, 3);
    form.limit = test_random_between(random, -5, 5000);
    if (form.factor_count == 1 && test_random_one_in(random, 4)) {
        form.padding = true;
        form.factors[0].unit = 1u << test_random_below(random, 7);
        form.factors[0].remainder = false;
        form.scale = (int64_t)form.factors[0].unit * test_random_between(random, 1, 5);
        form.unit = 1;
    }
    return form;
}

static void a_form_as_text_has_the_same_value_everywhere(void** state) {
    (void)state;
    test_random random = test_random_make(8);
    for (int i = 0; i < 4000; i++) {
        const berth_form form = random_form(&random);
        berth_byte_writer out = {.host = berth_host_default()};
        berth_form_write(&out, &form, symbols);
        berth_write_u8(&out, 0);
        assert_false(out.failed);
        for (int k = 0; k < 5; k++) {
            int64_t values[3];
            for (int s = 0; s < 3; s++)
                values[s] = test_random_between(&random, 0, 300);
            berth_expression_answer answer;
            assert_ok(
                berth_size_expression_evaluate((const char*)out.data, look_up, values, &answer));
            const int64_t wanted = berth_form_value(&form, values);
            if (answer.value != wanted)
                fail_msg("%s is %lld, the form %lld",
                         (const char*)out.data,
                         (long long)answer.value,
                         (long long)wanted);
        }
        berth_byte_writer_fini(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_read_back_plans_as_the_step_does_at_any_shape),
        cmocka_unit_test(every_path_is_a_part_and_an_unknown_step_is_none),
        cmocka_unit_test(sizes_without_a_form_are_observed),
        cmocka_unit_test(a_form_as_text_has_the_same_value_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
