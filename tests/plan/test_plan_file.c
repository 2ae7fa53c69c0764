// SPDX-License-Identifier: Apache-2.0
// What one process has learned, another takes in: the first run is a hit. What is not whole is
// refused, and what means harm can do none.
#include "kit/failing_host.h"
#include "kit/random.h"
#include "plan/plan_file_kit.h"

typedef struct fixture {
    berth_step_model* model;
    step_tape tape;
    berth_event_names names;
    berth_plan_file file;
    unsigned char* bytes;
    size_t size;
} fixture;

static void open_named(fixture* f, const char* name, const berth_plan_policy* policy) {
    *f = (fixture){.tape = {.host = berth_host_default()}, .names = file_kit_names(NULL)};
    assert_ok(berth_step_model_create(f->tape.host, name, policy, &f->model));
}

static void open_model(fixture* f) {
    const berth_plan_policy policy = default_policy();
    open_named(f, "step", &policy);
}

/// A model that takes in the file of `bytes` [size], which it then owns.
static void open_reader(fixture* f, unsigned char* bytes, size_t size) {
    open_model(f);
    f->bytes = bytes;
    f->size = size;
    assert_ok(berth_plan_file_parse(&f->file, f->tape.host, bytes, size, FILE_KIT_CONFIG));
    berth_step_model_set_source(f->model, &f->file, &f->names);
}

static void close_fixture(fixture* f) {
    berth_trace_fini(&f->tape.trace, f->tape.host);
    berth_step_model_destroy(f->model);
    berth_plan_file_fini(&f->file, f->tape.host);
    free(f->bytes);
}

static step_outcome run_at(fixture* f, int64_t t) {
    const berth_binding bindings[] = {{"t", t}};
    const berth_shape_key key = {bindings, 1};
    return run_tape(f->model, &key, &f->tape);
}

static step_outcome run_llama(fixture* f, int64_t t) {
    tape_llama(&f->tape, 2, t, t);
    return run_at(f, t);
}

/// Three values; the op in the middle is of `kind`.
static step_outcome run_kind(fixture* f, int64_t t, uint32_t kind) {
    tape_op(&f->tape, 1);
    const uint32_t first = tape_matrix(&f->tape, t, 100);
    tape_op(&f->tape, kind);
    tape_matrix(&f->tape, t, 50);
    tape_op(&f->tape, 3);
    tape_matrix(&f->tape, t, 25);
    tape_use(&f->tape, first);
    return run_at(f, t);
}

static const int64_t lengths[] = {130, 512, 37, 64, 1100, 700, 33, 300, 1999, 131};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void learn_llama(fixture* f) {
    open_model(f);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < LENGTHS; i++)
            (void)run_llama(f, lengths[i]);
}

// ---- Round trips.

static void the_first_run_of_another_process_is_a_hit(void** state) {
    (void)state;
    fixture writer, reader;
    learn_llama(&writer);
    size_t size;
    unsigned char* bytes = file_kit_save(&writer.model, 1, &size);
    open_reader(&reader, bytes, size);
    for (int i = 0; i < LENGTHS; i++) {
        const step_outcome there = run_llama(&writer, lengths[i]);
        const step_outcome here = run_llama(&reader, lengths[i]);
        assert_int_equal(here.result, BERTH_RUN_HIT);
        assert_int_equal(here.kind, there.kind);
        assert_int_equal(here.frame_bytes, there.frame_bytes);
        assert_false(here.made_plan);
    }
    const berth_step_counters counters = counters_of(reader.model);
    assert_int_equal(counters.hits, LENGTHS);
    assert_int_equal(counters.plans, 0);
    assert_true(counters.plans_restored > 4);
    assert_int_equal(counters.miss_new_step + counters.miss_new_path + counters.miss_new_bucket, 0);
    // lengths that nobody has seen are planned as ever
    assert_int_equal(run_llama(&reader, 5000).result, BERTH_RUN_HIT);
    assert_int_equal(counters_of(reader.model).plans, 1);
    close_fixture(&writer);
    close_fixture(&reader);
}

static void buckets_that_follow_what_is_seen_go_on_where_they_were(void** state) {
    (void)state;
    berth_plan_policy policy = default_policy();
    policy.buckets = "adaptive:4";
    fixture writer, reader;
    open_named(&writer, "step", &policy);
    for (int i = 0; i < 400; i++)
        (void)run_llama(&writer, 100 * (1 + i % 7));
    size_t size;
    unsigned char* bytes = file_kit_save(&writer.model, 1, &size);
    open_reader(&reader, bytes, size);
    berth_step_model_destroy(reader.model);
    assert_ok(berth_step_model_create(reader.tape.host, "step", &policy, &reader.model));
    berth_step_model_set_source(reader.model, &reader.file, &reader.names);
    for (int i = 0; i < 70; i++) {
        const int64_t t = 100 * (1 + i % 7);
        const step_outcome there = run_llama(&writer, t);
        const step_outcome here = run_llama(&reader, t);
        assert_int_equal(here.result, BERTH_RUN_HIT);
        assert_int_equal(here.frame_bytes, there.frame_bytes);
    }
    assert_int_equal(counters_of(reader.model).plans, 0);
    close_fixture(&writer);
    close_fixture(&reader);
}

static void what_was_taken_in_is_written_again_used_or_not(void** state) {
    (void)state;
    fixture writer, reader, last;
    learn_llama(&writer);
    size_t size, size_again;
    unsigned char* bytes = file_kit_save(&writer.model, 1, &size);
    open_reader(&reader, bytes, size);
    (void)run_llama(&reader, lengths[0]); // one plan is used, the others stay seeds
    unsigned char* again = file_kit_save(&reader.model, 1, &size_again);
    assert_int_equal(size_again, size);
    open_reader(&last, again, size_again);
    for (int i = 0; i < LENGTHS; i++) {
        const step_outcome outcome = run_llama(&last, lengths[i]);
        assert_int_equal(outcome.result, BERTH_RUN_HIT);
        assert_false(outcome.made_plan);
    }
    close_fixture(&writer);
    close_fixture(&reader);
    close_fixture(&last);
}

static void asking_first_takes_in_too(void** state) {
    (void)state;
    fixture writer, reader;
    learn_llama(&writer);
    size_t size;
    unsigned char* bytes = file_kit_save(&writer.model, 1, &size);
    open_reader(&reader, bytes, size);
    const berth_binding bindings[] = {{"t", 300}};
    const berth_shape_key key = {bindings, 1};
    berth_outlook here, there;
    assert_ok(berth_step_model_estimate(writer.model, &key, &there));
    assert_ok(berth_step_model_estimate(reader.model, &key, &here));
    assert_int_equal(here.kind, there.kind);
    assert_int_equal(here.frame_bytes, there.frame_bytes);
    assert_int_equal(run_llama(&reader, 300).result, BERTH_RUN_HIT);
    assert_int_equal(counters_of(reader.model).plans,
                     0); // the seed is still there after the estimate
    close_fixture(&writer);
    close_fixture(&reader);
}

static void paths_come_with_the_one_taken_last_expected_first(void** state) {
    (void)state;
    fixture writer, reader;
    open_model(&writer);
    for (int round = 0; round < 2; round++)
        for (uint32_t kind = 10; kind < 13; kind++)
            for (int64_t t = 64; t <= 256; t *= 2)
                (void)run_kind(&writer, t, kind);
    (void)run_kind(&writer, 100, 11);
    (void)run_kind(&writer, 100, 11);
    size_t size;
    unsigned char* bytes = file_kit_save(&writer.model, 1, &size);
    open_reader(&reader, bytes, size);
    assert_int_equal(run_kind(&reader, 100, 11).result, BERTH_RUN_HIT);
    assert_int_equal(counters_of(reader.model).paths, 3);
    for (uint32_t kind = 10; kind < 13; kind++)
        (void)run_kind(&reader, 100, kind);
    assert_int_equal(counters_of(reader.model).paths, 3);
    assert_int_equal(counters_of(reader.model).miss_new_path, 0);
    close_fixture(&writer);
    close_fixture(&reader);
}

static void a_path_with_an_event_unknown_here_is_left_out(void** state) {
    (void)state;
    fixture writer, reader;
    open_model(&writer);
    for (uint32_t kind = 10; kind < 12; kind++)
        for (int64_t t = 64; t <= 256; t *= 2)
            (void)run_kind(&writer, t, kind);
    size_t size;
    unsigned char* bytes = file_kit_save(&writer.model, 1, &size);
    open_reader(&reader, bytes, size);
    const uint32_t unknown = 10;
    reader.names = file_kit_names(&unknown);
    (void)run_kind(&reader, 100, 11);
    assert_int_equal(counters_of(reader.model).paths, 1);
    assert_int_equal(counters_of(reader.model).hits, 1);
    // and what has no name is not written
    writer.names = file_kit_names(&unknown);
    berth_byte_writer section = {.host = berth_host_default()};
    assert_true(berth_step_model_export(writer.model, &writer.names, &section));
    const size_t one_path = section.count;
    section.count = 0;
    const berth_event_names all = file_kit_names(NULL);
    assert_true(berth_step_model_export(writer.model, &all, &section));
    assert_true(one_path < section.count);
    berth_byte_writer_fini(&section);
    close_fixture(&writer);
    close_fixture(&reader);
}

static void a_step_with_other_bindings_takes_nothing_in(void** state) {
    (void)state;
    fixture writer, reader;
    learn_llama(&writer);
    size_t size;
    unsigned char* bytes = file_kit_save(&writer.model, 1, &size);
    open_reader(&reader, bytes, size);
    tape_llama(&reader.tape, 2, 300, 300);
    const berth_binding bindings[] = {{"u", 300}};
    const berth_shape_key key = {bindings, 1};
    assert_int_equal(run_tape(reader.model, &key, &reader.tape).result, BERTH_RUN_RECORDED);
    assert_int_equal(counters_of(reader.model).paths, 1);
    close_fixture(&writer);
    close_fixture(&reader);
}

static void a_step_that_is_not_in_the_file_starts_from_nothing(void** state) {
    (void)state;
    fixture writer, reader;
    learn_llama(&writer);
    size_t size;
    unsigned char* bytes = file_kit_save(&writer.model, 1, &size);
    open_reader(&reader, bytes, size);
    berth_step_model_destroy(reader.model);
    const berth_plan_policy policy = default_policy();
    assert_ok(berth_step_model_create(reader.tape.host, "other", &policy, &reader.model));
    berth_step_model_set_source(reader.model, &reader.file, &reader.names);
    assert_int_equal(run_llama(&reader, 300).result, BERTH_RUN_RECORDED);
    close_fixture(&writer);
    close_fixture(&reader);
}

static void frames_data_and_scratch_keep_what_they_were(void** state) {
    (void)state;
    fixture writer, reader;
    open_model(&writer);
    for (int i = 0; i < 40; i++) {
        const int64_t t = 100 + i * 7;
        tape_op(&writer.tape, 1);
        const uint32_t first = tape_matrix(&writer.tape, t, 64);
        tape_bytes(&writer.tape, BERTH_VALUE_SCRATCH, t * 64);
        tape_op(&writer.tape, 2);
        tape_bytes(&writer.tape, BERTH_VALUE_FRAME, 4096 + (i * 37 % 11) * 512);
        tape_op(&writer.tape, 3);
        const int64_t counted = 10 + i * 31 % 17;
        tape_value(&writer.tape, BERTH_VALUE_DATA, BERTH_I64, 1, &counted);
        tape_use(&writer.tape, first);
        (void)run_at(&writer, t);
    }
    size_t size;
    unsigned char* bytes = file_kit_save(&writer.model, 1, &size);
    open_reader(&reader, bytes, size);
    const berth_binding bindings[] = {{"t", 240}};
    const berth_shape_key key = {bindings, 1};
    berth_outlook there, here;
    assert_ok(berth_step_model_estimate(writer.model, &key, &there));
    assert_ok(berth_step_model_estimate(reader.model, &key, &here));
    assert_int_equal(here.kind, BERTH_ESTIMATE_OBSERVED);
    assert_int_equal(here.kind, there.kind);
    assert_int_equal(here.frame_bytes, there.frame_bytes);
    close_fixture(&writer);
    close_fixture(&reader);
}

// ---- Damage.

/// A small file, so that every byte of it can be tried.
static unsigned char* small_file(size_t* out_size) {
    fixture writer;
    open_model(&writer);
    for (int64_t t = 64; t <= 256; t *= 2)
        (void)run_kind(&writer, t, 2);
    (void)run_kind(&writer, 64, 2);
    unsigned char* bytes = file_kit_save(&writer.model, 1, out_size);
    close_fixture(&writer);
    return bytes;
}

static berth_status parse(const unsigned char* bytes, size_t size) {
    berth_plan_file file = {0};
    const berth_status status =
        berth_plan_file_parse(&file, berth_host_default(), bytes, size, FILE_KIT_CONFIG);
    berth_plan_file_fini(&file, berth_host_default());
    return status;
}

static void every_cut_and_every_flipped_bit_is_seen(void** state) {
    (void)state;
    size_t size;
    unsigned char* bytes = small_file(&size);
    assert_ok(parse(bytes, size));
    for (size_t cut = 0; cut < size; cut++) {
        unsigned char* part = malloc(cut + 1); // one more: no size is 0
        assert_non_null(part);
        memcpy(part, bytes, cut);
        assert_int_equal(parse(part, cut), BERTH_ERR_CORRUPT);
        free(part);
    }
    for (size_t at = 0; at < size; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[at] ^= (unsigned char)(1u << bit);
            const berth_status status = parse(bytes, size);
            // the version is looked at before what depends on it
            const bool is_version = at >= 8 && at < 12;
            assert_int_equal(status, is_version ? BERTH_ERR_UNSUPPORTED : BERTH_ERR_CORRUPT);
            bytes[at] ^= (unsigned char)(1u << bit);
        }
    }
    assert_ok(parse(bytes, size));
    free(bytes);
}

static void what_is_wrong_is_said(void** state) {
    (void)state;
    size_t size;
    unsigned char* bytes = small_file(&size);
    const berth_host* host = berth_host_default();
    berth_plan_file file = {0};
    assert_fails(berth_plan_file_parse(&file, host, bytes, size, "library=1\nthreads=4\n"),
                 BERTH_ERR_UNSUPPORTED,
                 "\"threads=2\" is not so here");
    assert_fails(berth_plan_file_parse(&file, host, bytes, size, "library=1\n"),
                 BERTH_ERR_UNSUPPORTED,
                 "another configuration");
    assert_int_equal(file.steps.count, 0);
    bytes[8] = 7;
    assert_fails(parse(bytes, size), BERTH_ERR_UNSUPPORTED, "format 7");
    bytes[8] = 1;
    bytes[0] = 'G';
    assert_fails(parse(bytes, size), BERTH_ERR_CORRUPT, "no plan file");
    assert_false(berth_plan_file_is_ours(bytes, size));
    assert_fails(parse((const unsigned char*)"", 0), BERTH_ERR_CORRUPT, "no plan file");
    free(bytes);
}

// ---- Harm.

/// Runs a model on a file whose bytes somebody has chosen. run_tape asserts that whatever is placed
/// overlaps nothing, and that each placement is valid.
static void use_bytes(unsigned char* bytes, size_t size) {
    fixture reader;
    open_model(&reader);
    berth_plan_file file = {0};
    if (berth_plan_file_parse(&file, reader.tape.host, bytes, size, FILE_KIT_CONFIG) == BERTH_OK)
        berth_step_model_set_source(reader.model, &file, &reader.names);
    for (int round = 0; round < 2; round++)
        for (int64_t t = 64; t <= 128; t += 32)
            (void)run_kind(&reader, t, 2);
    size_t saved;
    free(file_kit_save(&reader.model, 1, &saved));
    close_fixture(&reader);
    berth_plan_file_fini(&file, berth_host_default());
}

static void any_byte_chosen_by_an_enemy_does_no_harm(void** state) {
    (void)state;
    size_t size;
    unsigned char* bytes = small_file(&size);
    static const unsigned char changes[] = {0x01, 0x40, 0x80, 0xff};
    for (size_t at = BERTH_PLAN_FILE_HEADER_BYTES; at < size - 8; at++) {
        for (size_t i = 0; i < sizeof changes; i++) {
            const unsigned char before = bytes[at];
            bytes[at] ^= changes[i];
            file_kit_seal(bytes, size);
            use_bytes(bytes, size);
            bytes[at] = before;
        }
    }
    free(bytes);
}

static void any_number_chosen_by_an_enemy_does_no_harm(void** state) {
    (void)state;
    size_t size;
    unsigned char* bytes = small_file(&size);
    unsigned char* changed = malloc(size);
    assert_non_null(changed);
    static const uint64_t numbers[] = {
        0, 1, 63, 64, 65, 1000, 0x7fffffff, 0x80000000, 0xffffffff, INT64_MAX, UINT64_MAX - 63};
    test_random random = test_random_make(5);
    for (int i = 0; i < 3000; i++) {
        memcpy(changed, bytes, size);
        for (uint64_t left = 1 + test_random_below(&random, 3); left > 0; left--) {
            const size_t width = (size_t)1 << test_random_below(&random, 4);
            const size_t first = BERTH_PLAN_FILE_HEADER_BYTES;
            const size_t at = first + test_random_below(&random, size - 16 - first);
            const uint64_t number =
                numbers[test_random_below(&random, sizeof numbers / sizeof numbers[0])];
            for (size_t b = 0; b < width; b++)
                changed[at + b] = (unsigned char)(number >> (8 * b));
        }
        file_kit_seal(changed, size);
        use_bytes(changed, size);
    }
    free(changed);
    free(bytes);
}

static void offsets_that_overlap_are_planned_anew(void** state) {
    (void)state;
    size_t size;
    unsigned char* bytes = small_file(&size);
    fixture reader;
    open_reader(&reader, bytes, size);
    const berth_file_path* path = &reader.file.paths.items[0];
    for (uint32_t p = 0; p < path->plan_count; p++) {
        const berth_file_plan* plan = &reader.file.plans.items[path->first_plan + p];
        // our own bytes: everything lies at the floor
        memset(bytes + (plan->offsets - bytes), 0, (size_t)path->value_count * 8);
    }
    assert_int_equal(run_kind(&reader, 64, 2).result, BERTH_RUN_HIT);
    const berth_step_counters counters = counters_of(reader.model);
    assert_int_equal(counters.plans, 1);
    assert_int_equal(counters.plans_restored, 0);
    assert_int_equal(counters.miss_new_bucket, 1);
    close_fixture(&reader);
}

// ---- Failing memory.

static void failing_memory_at_any_call_loses_plans_only(void** state) {
    (void)state;
    size_t size;
    unsigned char* bytes = small_file(&size);
    for (size_t nth = 1;; nth++) {
        failing_host failing;
        failing_host_init(&failing);
        berth_host* host;
        assert_ok(berth_host_create(&failing.allocator, &host));
        const berth_plan_policy policy = default_policy();
        berth_step_model* model;
        assert_ok(berth_step_model_create(host, "step", &policy, &model));
        fixture f = {
            .model = model, .tape = {.host = berth_host_default()}, .names = file_kit_names(NULL)};
        failing_host_fail(&failing, nth, false);
        const berth_status status =
            berth_plan_file_parse(&f.file, host, bytes, size, FILE_KIT_CONFIG);
        if (status == BERTH_OK)
            berth_step_model_set_source(model, &f.file, &f.names);
        else
            assert_int_equal(status, BERTH_ERR_OUT_OF_MEMORY);
        for (int64_t t = 64; t <= 128; t += 32)
            (void)run_kind(&f, t, 2);
        berth_byte_writer section = {.host = host};
        (void)berth_step_model_export(model, &f.names, &section);
        const bool has_failed = failing_host_has_failed(&failing);
        assert_true(has_failed || !section.failed);
        berth_byte_writer_fini(&section);
        berth_trace_fini(&f.tape.trace, f.tape.host);
        berth_step_model_destroy(model);
        berth_plan_file_fini(&f.file, host);
        berth_host_destroy(host);
        assert_int_equal(failing.live_blocks, 0);
        assert_false(failing.mismatch);
        if (!has_failed) break;
    }
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_run_of_another_process_is_a_hit),
        cmocka_unit_test(buckets_that_follow_what_is_seen_go_on_where_they_were),
        cmocka_unit_test(what_was_taken_in_is_written_again_used_or_not),
        cmocka_unit_test(asking_first_takes_in_too),
        cmocka_unit_test(paths_come_with_the_one_taken_last_expected_first),
        cmocka_unit_test(a_path_with_an_event_unknown_here_is_left_out),
        cmocka_unit_test(a_step_with_other_bindings_takes_nothing_in),
        cmocka_unit_test(a_step_that_is_not_in_the_file_starts_from_nothing),
        cmocka_unit_test(frames_data_and_scratch_keep_what_they_were),
        cmocka_unit_test(every_cut_and_every_flipped_bit_is_seen),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(any_byte_chosen_by_an_enemy_does_no_harm),
        cmocka_unit_test(any_number_chosen_by_an_enemy_does_no_harm),
        cmocka_unit_test(offsets_that_overlap_are_planned_anew),
        cmocka_unit_test(failing_memory_at_any_call_loses_plans_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
