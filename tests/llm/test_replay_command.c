// SPDX-License-Identifier: Apache-2.0
// Tests of the command berth-replay: its options, its errors, what it writes.
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve/stub_kit.h"

static char folder[] = "/tmp/berth-replay-XXXXXX";
static char command[PATH_MAX];

static int find_command(void** state) {
    (void)state;
    char self[PATH_MAX / 2] = {0};
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return -1;
    snprintf(command, sizeof command, "%s/../bin/berth-replay", dirname(self));
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void** state) {
    (void)state;
    char line[PATH_MAX];
    snprintf(line, sizeof line, "rm -r %s", folder);
    return system(line);
}

static char out[1 << 16];

/// What the command left in a file of our folder.
static const char* read_output(const char* name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE* file = fopen(path, "r");
    assert_non_null(file);
    out[fread(out, 1, sizeof out - 1, file)] = '\0';
    fclose(file);
    return out;
}

/// Runs the command in our folder and returns its status.
static int run(const char* arguments) {
    if (access(command, X_OK) != 0) {
        print_message("skipped: %s is not built\n", command);
        skip();
    }
    char line[2 * PATH_MAX];
    snprintf(line, sizeof line, "cd %s && %s %s >out 2>err </dev/null", folder, command, arguments);
    const int status = system(line);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_command_fails(const char* arguments, int status, const char* mention) {
    const int ended = run(arguments);
    const char* said = read_output("err");
    if (ended != status || strstr(said, mention) == NULL)
        fail_msg("'%s' ended with %d and '%s'", arguments, ended, said);
}

static void assert_prints(const char* arguments, const char* mention) {
    if (run(arguments) != 0) fail_msg("'%s': %s", arguments, read_output("err"));
    if (strstr(read_output("out"), mention) == NULL) fail_msg("'%s': %s", arguments, out);
}

static void a_wrong_command_line_ends_with_status_2(void** state) {
    (void)state;
    assert_command_fails("", 2, "one of TRACE");
    assert_command_fails("--nonsense", 2, "--nonsense");
    assert_command_fails("t.csv", 2, "--model");
    assert_command_fails("a b", 2, "\"b\"");
    assert_command_fails("t.csv --generate chat --random", 2, "exclude");
    assert_command_fails("t.csv --model a --random", 2, "exclude");
    assert_command_fails("t.csv --shape llama-8b", 2, "--simulate");
    assert_command_fails("t.csv --simulate --shape big", 2, "big");
    assert_command_fails("t.csv --simulate --compare", 2, "simulation");
    assert_command_fails("t.csv --simulate --calibrate", 2, "--calibrate");
    assert_command_fails("t.csv --random --speed 0", 2, "--speed 0");
    assert_command_fails("t.csv --random --requests none", 2, "--requests none");
    assert_command_fails("t.csv --random --length-divide 0", 2, "--length-divide 0");
    assert_command_fails("t.csv --random=big", 2, "--random big");
    assert_command_fails("t.csv --random --policy fifo", 2, "lru or reuse");
    assert_command_fails("t.csv --random --kv-type i8", 2, "q8_0");
    assert_command_fails("t.csv --random --park-bytes 2X", 2, "--park-bytes 2X");
    assert_command_fails("t.csv --random --park-bytes -1", 2, "--park-bytes -1");
    assert_command_fails("t.csv --random --park-bytes 16777217T", 2, "512M or 2GiB");
    assert_command_fails("t.csv --random --mode fast", 2, "--mode fast");
    assert_command_fails("t.csv --simulate --step-cost 1,2", 2, "--step-cost 1,2");
    assert_command_fails("t.csv --simulate --step-cost 0,0,1", 2, "cost something");
    assert_command_fails("--generate talk --random", 2, "talk");
    assert_command_fails("--generate chat:turn=2 --random", 2, "message_median");
    assert_command_fails("t.csv --write-trace x --random", 2, "--write-trace");
    assert_command_fails("--generate chat --requests 2 --write-trace x", 2, "requests=N");
    assert_command_fails("t.csv --url http://a --memory 1G", 2, "--memory means nothing");
    assert_command_fails("t.csv --url http://a --random", 2, "--random means nothing");
    assert_command_fails("t.csv --url http://a --compare", 2, "--compare means nothing");
    assert_command_fails("--generate chat --url http://a --write-trace x", 2, "--write-trace");
    assert_command_fails("t.csv --random --concurrency 3", 2, "--concurrency needs");
    assert_command_fails("t.csv --random --api-key-file k", 2, "--api-key-file needs");
    assert_command_fails("t.csv --url http://a --concurrency 0", 2, "--concurrency 0");
}

static void what_cannot_be_done_names_what_is_wrong(void** state) {
    (void)state;
    assert_command_fails("--random=tiny nowhere.csv", 1, "nowhere.csv");
    assert_command_fails("--model nowhere.gguf --generate chat", 1, "nowhere.gguf");
    assert_command_fails("--random=tiny --generate chat --skip 64", 1, "--skip 64");
    assert_command_fails("--random=tiny --generate chat --memory lots", 1, "MEMORY");
    assert_command_fails("--generate chat --write-trace /nowhere/t.jsonl", 1, "/nowhere/t.jsonl");
    assert_command_fails("--random=tiny --generate chat --json /nowhere/r", 1, "/nowhere/r");
    assert_int_equal(read_output("out")[0], '\0'); // found before a long replay, not after it
    assert_command_fails("--simulate --generate chat:requests=3 --json /dev/full", 1, "/dev/full");
    assert_int_equal(run("--generate chat --write-trace /dev/full"), 1);
    assert_command_fails("--simulate --random=tiny --generate chat --step-tokens 4 --max-batch 8",
                         1,
                         "max_running is 8");
}

static void a_made_trace_is_written_and_replayed(void** state) {
    (void)state;
    assert_int_equal(run("--generate shared:requests=9,message_median=4,system_tokens=32,seed=3"
                         " --write-trace t.jsonl"),
                     0);
    assert_prints("--random=tiny --speed max t.jsonl --json r.json", "Answered 9 of 9 requests");
    assert_non_null(strstr(read_output("r.json"), "\"mode\":\"default\""));
    assert_int_equal(run("--random=tiny --speed 1000 t.jsonl --requests 2 --skip 3"), 0);
    assert_non_null(strstr(read_output("out"), "Answered 2 of 2 requests"));
    assert_prints("--random=tiny --speed max t.jsonl --compare --policy lru --tenants 2",
                  "system ");
    assert_prints("--random=tiny --speed max t.jsonl --memory 4M", "the first: ");
    for (const char* at = read_output("err"); *at != '\0'; at++)
        assert_int_not_equal(*at, '\r'); // no progress bar where there is no terminal
}

static void the_calibrated_cost_is_printed_and_used(void** state) {
    (void)state;
    assert_prints("--simulate --calibrate --random=tiny --generate single:requests=3",
                  "--step-cost ");
    assert_non_null(strstr(out, "Simulated 3 of 3 requests"));
    assert_prints("--help", "--simulate");
}

// ---- With a server.

static bool answer(stub* s, int fd, const stub_request* request) {
    (void)s;
    if (strncmp(request->head, "GET /v1/models ", 15) == 0)
        return stub_send_whole(fd, "200 OK", "application/json", "{\"data\":[{\"id\":\"own\"}]}");
    stub_begin_stream(fd);
    stub_send_chunk(fd, STUB_TEXT("a") STUB_TEXT("b") STUB_USAGE(10, 5, 2) STUB_DONE);
    return stub_end_stream(fd);
}

static void a_server_serves_the_trace(void** state) {
    (void)state;
    static stub server;
    stub_begin(&server, answer, NULL);
    assert_int_equal(run("--generate single:requests=6,rate=1000 --write-trace t.jsonl"), 0);
    char line[512];
    snprintf(line,
             sizeof line,
             "--url %s t.jsonl --speed 100 --length-divide 20 --json r.json",
             server.url);
    assert_prints(line, "Answered 6 of 6 requests");
    assert_non_null(strstr(out, "50.00%"));
    assert_true(stub_last_body_has(&server, "{\"model\":\"own\","));
    assert_non_null(strstr(read_output("r.json"), "\"mode\":\"url\""));
    snprintf(line, sizeof line, "--url %s t.jsonl --speed max --api-key-file nowhere", server.url);
    assert_command_fails(line, 1, "nowhere: ");
    snprintf(line,
             sizeof line,
             "--url %s/v1 t.jsonl --speed max --concurrency 2 --model other --requests 2 "
             "--tenants 2",
             server.url);
    assert_prints(line, "Answered 2 of 2 requests");
    assert_true(stub_last_body_has(&server, "{\"model\":\"other\",\"user\":\"tenant-"));
    stub_end(&server);
}

static void a_server_that_is_not_there_is_an_error(void** state) {
    (void)state;
    unsigned port;
    const int fd = stub_bind(&port); // nobody listens
    char line[512];
    snprintf(line, sizeof line, "--url http://127.0.0.1:%u --generate chat", port);
    assert_command_fails(line, 1, "GET /v1/models");
    snprintf(
        line, sizeof line, "--url http://127.0.0.1:%u --model m --speed max --generate chat", port);
    assert_command_fails(line, 1, "127.0.0.1");
    assert_command_fails("--url nowhere --generate chat", 1, "http://HOST:PORT");
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_command_line_ends_with_status_2),
        cmocka_unit_test(what_cannot_be_done_names_what_is_wrong),
        cmocka_unit_test(a_made_trace_is_written_and_replayed),
        cmocka_unit_test(the_calibrated_cost_is_printed_and_used),
        cmocka_unit_test(a_server_serves_the_trace),
        cmocka_unit_test(a_server_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, find_command, remove_folder);
}
