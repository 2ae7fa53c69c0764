// SPDX-License-Identifier: Apache-2.0
// Tests of the command berth-generate, run as a user runs it.
#include "llm/llm_kit.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TINY "--random --random-size tiny "

/// The command beside this test in the build, and a folder of our own.
static char command[PATH_MAX + 32];
static char folder[] = "/tmp/berth-test-generate-XXXXXX";

static int find_command(void** state) {
    (void)state;
    char self[PATH_MAX] = {0};
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return -1;
    snprintf(command, sizeof command, "%s/../bin/berth-generate", dirname(self));
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void** state) {
    (void)state;
    char line[PATH_MAX];
    snprintf(line, sizeof line, "rm -r %s", folder);
    return system(line);
}

/// What a run of the command printed, and how it ended.
typedef struct outcome {
    char out[1 << 16]; ///< stdout
    char err[1 << 12]; ///< stderr
    int status;
} outcome;

static void read_file(const char* path, char* buffer, size_t size) {
    FILE* file = fopen(path, "r");
    assert_non_null(file);
    buffer[fread(buffer, 1, size - 1, file)] = '\0';
    fclose(file);
}

/// Path of a file in our folder; each call overwrites the last but one.
static const char* path_of(const char* name) {
    static char paths[2][PATH_MAX];
    static int at;
    at = 1 - at;
    snprintf(paths[at], sizeof paths[at], "%s/%s", folder, name);
    return paths[at];
}

static void write_file(const char* name, const char* text) {
    FILE* file = fopen(path_of(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/// Runs the command in our folder. `variables` go before it, such as "BERTH_MODE=pool".
static outcome* run(const char* variables, const char* arguments) {
    if (access(command, X_OK) != 0) {
        print_message("skipped: %s is not built\n", command);
        skip();
    }
    static outcome o;
    char line[2 * PATH_MAX];
    snprintf(line,
             sizeof line,
             "cd %s && >.out && %s %s >.out 2>.err %s",
             folder,
             variables,
             command,
             arguments);
    int status = system(line);
    assert_true(WIFEXITED(status));
    o.status = WEXITSTATUS(status);
    read_file(path_of(".out"), o.out, sizeof o.out);
    read_file(path_of(".err"), o.err, sizeof o.err);
    return &o;
}

/// Asserts that the command ends with `status` and one line on stderr that contains `mention`.
static void assert_command_fails(const char* arguments, int status, const char* mention) {
    const outcome* o = run("", arguments);
    if (o->status != status || strstr(o->err, mention) == NULL)
        fail_msg("'%s' ended with %d and '%s'", arguments, o->status, o->err);
    const char* end = strchr(o->err, '\n');
    assert_true(end != NULL && end[1] == '\0');
}

/// Runs the command and returns a copy of what it printed; the caller frees it.
static char* output_of(const char* variables, const char* arguments) {
    const outcome* o = run(variables, arguments);
    if (o->status != 0) fail_msg("'%s' ended with %d: %s", arguments, o->status, o->err);
    return copy_exactly(o->out, strlen(o->out) + 1);
}

static void assert_prints_same(const char* expected, const char* variables, const char* arguments) {
    char* actual = output_of(variables, arguments);
    assert_string_equal(expected, actual);
    free(actual);
}

static void help_explains_the_options(void** state) {
    (void)state;
    char* text = output_of("", "--help");
    assert_non_null(strstr(text, "--model PATH"));
    assert_non_null(strstr(text, "--compare"));
    free(text);
}

static void a_wrong_command_line_ends_with_status_2(void** state) {
    (void)state;
    assert_command_fails("", 2, "--model");
    assert_command_fails(TINY, 2, "--prompt");
    assert_command_fails("--nonsense", 2, "--nonsense");
    assert_command_fails(TINY "--prompt a --chat b", 2, "exclude each other");
    assert_command_fails(TINY "--prompt a extra", 2, "extra");
    assert_command_fails(TINY "--prompt a --model b.gguf", 2, "one of --model");
    assert_command_fails(TINY "--prompt a -n -3", 2, "-n -3");
    assert_command_fails(TINY "--prompt a -n 1e3", 2, "-n 1e3");
    assert_command_fails(TINY "--prompt a --plan maybe", 2, "on or off");
    assert_command_fails(TINY "--prompt a --kv-type q8", 2, "bf16 or q8_0");
    assert_command_fails(TINY "--prompt a --temperature hot", 2, "--temperature hot");
    assert_command_fails(TINY "--prompt a --top-p 1.5", 2, "--top-p 1.5");
    assert_command_fails(TINY "--prompt a --ctx 0", 2, "--ctx 0");
    assert_command_fails("--random=x --prompt a", 2, "--random x");
}

static void what_cannot_be_done_is_one_line_and_status_1(void** state) {
    (void)state;
    assert_command_fails("--model nowhere.gguf --prompt a", 1, "nowhere.gguf");
    write_file("broken.gguf", "GGUF and then nothing");
    assert_command_fails("--model broken.gguf --prompt a", 1, "berth-generate: ");
    assert_command_fails(TINY "--prompts nowhere", 1, "nowhere");
    write_file("empty.txt", "\n\n");
    assert_command_fails(TINY "--prompts empty.txt", 1, "empty.txt");
    assert_command_fails(TINY "--tokens '1 x'", 1, "\"x\"");
    assert_command_fails(TINY "--tokens ''", 1, "--tokens");
    assert_command_fails(TINY "--tokens '1 99999'", 1, "99999");
    assert_command_fails(TINY "--prompt a --ctx 100000", 1, "100000");
    assert_command_fails(TINY "--prompt 'longer than that' --ctx 4", 1, "context of 4");
    assert_command_fails(TINY "--prompt a --threads many", 1, "THREADS");
    assert_command_fails(TINY "--prompt a --memory lots", 1, "MEMORY");
}

static void output_that_cannot_be_written_is_status_1(void** state) {
    (void)state;
    assert_command_fails(TINY "--prompt a -n 1 --logits /dev/full", 1, "/dev/full");
    assert_command_fails(TINY "--prompt a -n 1 --json /dev/full", 1, "/dev/full");
    assert_command_fails(TINY "--prompt a -n 1 >/dev/full", 1, "stdout");
}

static void the_answer_does_not_depend_on_how_it_is_computed(void** state) {
    (void)state;
    const char* prompt = TINY "--prompt 'Once upon a time' -n 20 --print-tokens ";
    char arguments[256];
    char* expected = output_of("", prompt);
    int count = 0;
    for (const char* at = expected; (at = strchr(at, ' ')) != NULL; at++)
        count++;
    assert_in_range(count, 1, 20);
    static const char* const variants[] = {
        "--plan off", "--plan on", "--threads 1", "--threads 2", "--chunk 3", "--memory 256M"};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        snprintf(arguments, sizeof arguments, "%s%s", prompt, variants[i]);
        assert_prints_same(expected, "", arguments);
    }
    assert_prints_same(expected, "BERTH_MODE=system", prompt);
    free(expected);
}

static void the_seed_decides_what_is_sampled(void** state) {
    (void)state;
    const char* warm = TINY "--prompt Once -n 30 --print-tokens --temperature 2 --top-k 50 --seed ";
    char first[256], second[256];
    snprintf(first, sizeof first, "%s5", warm);
    snprintf(second, sizeof second, "%s6", warm);
    char* expected = output_of("", first);
    assert_prints_same(expected, "", first);
    char* other = output_of("", second);
    assert_string_not_equal(expected, other);
    free(other);
    free(expected);
}

static void a_folder_of_prompts_is_answered_in_order_and_compared(void** state) {
    (void)state;
    assert_int_equal(mkdir(path_of("prompts"), 0700), 0);
    write_file("prompts/b.txt", "Tell me something.\n");
    write_file("prompts/a.txt", "What is a berth?\n");
    write_file("prompts/c.txt", "A third one, and a good deal longer than the others before it.");
    write_file("prompts/ignored.md", "not a prompt");
    char* text = output_of("", TINY "--prompts prompts -n 6 --report --compare --json report.json");
    const char* a = strstr(text, "--- a.txt");
    const char* b = strstr(text, "--- b.txt");
    assert_true(a != NULL && b != NULL && a < b);
    assert_null(strstr(text, "ignored"));
    assert_non_null(strstr(text, "Answered 3 prompts"));
    assert_non_null(strstr(text, "identical"));
    free(text);
    char json[1 << 15];
    read_file(path_of("report.json"), json, sizeof json);
    assert_non_null(strstr(json, "\"identical\":true"));
    assert_non_null(strstr(json, "\"name\":\"prefill\""));
    char* off = strstr(json, "\"planning_off\":{");
    assert_non_null(off);
    *off = '\0';
    static const char late_misses[] = "\"late_misses\":";
    for (const char* at = json; (at = strstr(at, late_misses)) != NULL; at++)
        assert_int_equal(at[strlen(late_misses)], '0');
}

static void a_file_of_prompts_has_one_in_each_line(void** state) {
    (void)state;
    write_file("lines.txt", "first\n\nthird, as it stands in line 3\r\n");
    char* text = output_of("", TINY "--prompts lines.txt -n 2");
    assert_non_null(strstr(text, "--- line 1"));
    assert_null(strstr(text, "--- line 2"));
    assert_non_null(strstr(text, "--- line 3"));
    free(text);
}

static void logits_are_written_one_a_line(void** state) {
    (void)state;
    free(output_of("", TINY "--tokens '20 30, 40' -n 0 --logits logits.txt"));
    char text[1 << 14];
    read_file(path_of("logits.txt"), text, sizeof text);
    int lines = 0;
    for (const char* at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, LLM_RANDOM_TOKENS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_explains_the_options),
        cmocka_unit_test(a_wrong_command_line_ends_with_status_2),
        cmocka_unit_test(what_cannot_be_done_is_one_line_and_status_1),
        cmocka_unit_test(output_that_cannot_be_written_is_status_1),
        cmocka_unit_test(the_answer_does_not_depend_on_how_it_is_computed),
        cmocka_unit_test(the_seed_decides_what_is_sampled),
        cmocka_unit_test(a_folder_of_prompts_is_answered_in_order_and_compared),
        cmocka_unit_test(a_file_of_prompts_has_one_in_each_line),
        cmocka_unit_test(logits_are_written_one_a_line),
    };
    return cmocka_run_group_tests(tests, find_command, remove_folder);
}
