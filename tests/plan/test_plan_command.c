// SPDX-License-Identifier: Apache-2.0
// The command berth-plan, run as a user would: what it prints, writes and ends with.
#include "kit/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

enum { TEXT_BYTES = 1 << 16, ARGUMENTS = 16 };

/// A folder, and what the last run printed.
typedef struct command_kit {
    char folder[256];
    char out[TEXT_BYTES];
    char err[TEXT_BYTES];
} command_kit;

static int set_up(void** state) {
    static command_kit kit;
    const char* where = getenv("TMPDIR");
    snprintf(kit.folder,
             sizeof kit.folder,
             "%s/berth-plan-XXXXXX",
             where != NULL && strlen(where) < 200 ? where : "/tmp");
    kit.out[0] = kit.err[0] = 0;
    *state = &kit;
    return mkdtemp(kit.folder) != NULL ? 0 : -1;
}

static const char* path_of(const command_kit* kit, const char* name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", kit->folder, name);
    return path;
}

static int tear_down(void** state) {
    command_kit* kit = *state;
    DIR* folder = opendir(kit->folder);
    if (folder == NULL) return -1;
    for (struct dirent* entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') (void)remove(path_of(kit, entry->d_name));
    closedir(folder);
    return rmdir(kit->folder);
}

static void put(const command_kit* kit, const char* name, const char* text) {
    FILE* file = fopen(path_of(kit, name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void get(const command_kit* kit, const char* name, char text[TEXT_BYTES]) {
    FILE* file = fopen(path_of(kit, name), "r");
    assert_non_null(file);
    const size_t bytes = fread(text, 1, TEXT_BYTES - 1, file);
    assert_int_equal(fclose(file), 0);
    text[bytes] = '\0';
}

static bool exists(const command_kit* kit, const char* name) {
    return access(path_of(kit, name), F_OK) == 0;
}

/// Starts the command in the folder's place: its output goes to `out` there, or to `out_end` if
/// that is not negative.
static pid_t start(const command_kit* kit, int out_end, const char* const* arguments) {
    char* argv[ARGUMENTS + 2] = {(char*)(uintptr_t)BERTH_PLAN_COMMAND};
    for (int i = 0; arguments[i] != NULL; i++) {
        assert_true(i < ARGUMENTS);
        argv[i + 1] = (char*)(uintptr_t)arguments[i];
    }
    char out[512];
    char err[512];
    snprintf(out, sizeof out, "%s/out", kit->folder);
    snprintf(err, sizeof err, "%s/err", kit->folder);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_t actions;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    posix_spawn_file_actions_addchdir_np(&actions, kit->folder);
    if (out_end >= 0)
        posix_spawn_file_actions_adddup2(&actions, out_end, STDOUT_FILENO);
    else
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out, flags, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err, flags, 0600);
    pid_t child;
    assert_int_equal(posix_spawn(&child, argv[0], &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

static int wait_for(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) fail_msg("the command was ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

/// Runs the command and reads what it printed; returns its status.
static int run(command_kit* kit, const char* const* arguments) {
    const int status = wait_for(start(kit, -1, arguments));
    get(kit, "out", kit->out);
    get(kit, "err", kit->err);
    return status;
}

#define RUN(...) run(kit, (const char* const[]){__VA_ARGS__, NULL})

static void expect_text(const char* text, const char* part) {
    if (strstr(text, part) == NULL) fail_msg("'%s' does not mention '%s'", text, part);
}

static const char toy[] = "id,lower,upper,size\n"
                          "b1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

static const char trace[] = "op,id,bytes,t_us,site\n"
                            "B,block,64,,\n"
                            "Y,n,4,,\n"
                            "Y,n,1..9,,\n"
                            "O,add,,,\n"
                            "A,0,256,0,0\n"
                            "M,0,64*n,,\n"
                            "F,0,256,1,-1\n"
                            "E,block,,,\n";

static void a_problem_that_fits_is_solved(void** state) {
    command_kit* kit = *state;
    put(kit, "toy.csv", toy);
    assert_int_equal(RUN("toy.csv"), 0);
    expect_text(kit->out, "toy.csv        5               12               12  1.0000  proved");
    assert_string_equal(kit->err, "");
    assert_int_equal(RUN("--capacity", "12", "toy.csv"), 0);
    expect_text(kit->out, "fits");
    assert_int_equal(RUN("--capacity=11", "toy.csv"), 1);
    expect_text(kit->out, "exceeded");
    assert_int_equal(RUN("--improve", "0.01", "--seed", "3", "toy.csv"), 0);
}

static void the_other_files_are_planned_beside_a_bad_one(void** state) {
    command_kit* kit = *state;
    put(kit, "toy.csv", toy);
    put(kit, "bad.csv", "id,lower,upper,size\n1,0,1,4\n2,0,1\n");
    assert_int_equal(RUN("bad.csv", "none.csv", "toy.csv"), 2);
    expect_text(kit->err, "bad.csv:3: the line has 3 fields");
    expect_text(kit->err, "'none.csv' cannot be read");
    expect_text(kit->out, "toy.csv        5               12");
    put(kit, "overlap.csv", "id,lower,upper,size,offset\na,0,5,8,0\nb,2,9,8,4\n");
    assert_int_equal(RUN("overlap.csv", "toy.csv"), 2);
    expect_text(kit->err,
                "overlap.csv: line 3: the offset 4 lets the buffer overlap that of line 2");
    expect_text(kit->out, "toy.csv ");
    assert_int_equal(RUN("--ignore-offsets", "overlap.csv"), 0);
    put(kit, "odd.csv", "id,lower,upper,size,offset,alignment\na,0,5,8,0,8\nb,2,9,8,12,8\n");
    assert_int_equal(RUN("odd.csv"), 2);
    expect_text(kit->err, "odd.csv: line 3: the offset 12 is no multiple of the alignment 8");
}

static void what_files_say_cannot_command_the_terminal(void** state) {
    command_kit* kit = *state;
    put(kit, "t.csv", "op,id,bytes,t_us,site\nB,\033[2J,64,,\nY,\033[3J,5,,\nA,1,64,,\nE,,,,\n");
    assert_int_equal(RUN("t.csv"), 0);
    expect_text(kit->out, "t.csv:?[2J ");
    assert_int_equal(RUN("--at", "n=1", "t.csv"), 2);
    expect_text(kit->err, "only ?[3J\n");
    put(kit, "v.csv", "id,lower,upper,size,offset\n\033[2J,0,5,8,0\n\033[3J,2,9,8,4\n");
    assert_int_equal(RUN("--verify", "v.csv"), 1);
    assert_null(strchr(kit->err, '\033'));
    put(kit, "n.csv", "id,lower,upper,size,offset\n\033[2J,0,5,8,\n");
    assert_int_equal(RUN("--verify", "n.csv"), 2);
    assert_null(strchr(kit->err, '\033'));
}

static void a_command_line_that_is_wrong_is_refused(void** state) {
    command_kit* kit = *state;
    put(kit, "toy.csv", toy);
    static const char* const wrong[][3] = {
        {"--improve", "0", "seconds above 0, not: '0'"},
        {"--improve", "nan", "not: 'nan'"},
        {"--capacity", "0", "bytes above 0"},
        {"--capacity", "12Q", "'12Q'"},
        {"--capacity", "99999999999999999999", "bytes above 0"},
        {"--capacity", "99999999T", "bytes above 0"},
        {"--seed", "-1", "whole number"},
        {"--at", "n", "NAME=VALUE"},
        {"--at", "=4", "NAME=VALUE"},
        {"--at", "n=-4", "NAME=VALUE"},
        {"--at", "n=4", "no file has a symbol of this name, nor any other"},
        {"--svg", "-", "name of a file"},
        {"--quick=4", "toy.csv", "'--quick'"},
        {"--zoom", "toy.csv", "'--zoom'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(RUN(wrong[i][0], wrong[i][1], "toy.csv"), 2);
        expect_text(kit->err, wrong[i][2]);
        assert_string_equal(kit->out, "");
    }
    assert_int_equal(RUN("--quick"), 2);
    expect_text(kit->err, "a file is needed");
    assert_int_equal(RUN("toy.csv", "-o"), 2);
    expect_text(kit->err, "a value is missing after: '-o'");
    assert_int_equal(RUN("toy.csv", "--verify", "-o", "x"), 2);
    assert_int_equal(RUN("toy.csv", "--verify", "--ignore-offsets"), 2);
    assert_int_equal(RUN("toy.csv", "toy.csv", "-o", "x"), 2);
    expect_text(kit->err, "several problems go to one file");
    assert_int_equal(RUN("--help"), 0);
    expect_text(kit->out, "--improve SECONDS");
}

static void offsets_are_written_and_can_be_checked(void** state) {
    command_kit* kit = *state;
    char text[TEXT_BYTES];
    put(kit, "in.csv", "size,id,lower,upper,alignment\n4,\"a, b\",0,3,\n6,c,0,5,8\n4,d,3,9,2\n");
    assert_int_equal(RUN("in.csv", "-o", "out.csv"), 0);
    get(kit, "out.csv", text);
    expect_text(text, "id,lower,upper,size,alignment,offset\n\"a, b\",0,3,4,0,");
    assert_int_equal(RUN("--verify", "out.csv"), 0);
    expect_text(kit->out, "valid");
    assert_int_equal(RUN("--verify", "--capacity", "3", "out.csv"), 1);
    put(kit, "damaged.csv", "id,lower,upper,size,offset\na,0,3,4,0\nb,3,5,4,0\nc,4,9,6,3\n");
    assert_int_equal(RUN("--verify", "damaged.csv"), 1);
    expect_text(kit->out, "INVALID");
    expect_text(kit->err, "'b'");
    expect_text(kit->err, "'c' of line 4 at 3 (6 bytes) share bytes");
    put(kit, "odd.csv", "id,lower,upper,size,alignment,offset\na,0,3,4,8,4\n");
    assert_int_equal(RUN("--verify", "odd.csv"), 1);
    expect_text(kit->err, "odd.csv:2: 'a' at 4 is at no multiple of its alignment, 8");
    put(kit, "partial.csv", "id,lower,upper,size,offset\na,0,3,4,0\nb,3,5,4,\n");
    assert_int_equal(RUN("--verify", "partial.csv"), 2);
    expect_text(kit->err, "partial.csv:3: 'b' has no offset");
    assert_int_equal(RUN("partial.csv", "-o", "-"), 0);
    assert_string_equal(kit->out, "id,lower,upper,size,offset\na,0,3,4,0\nb,3,5,4,0\n");
    expect_text(kit->err, "partial.csv");
}

static void problems_of_one_name_have_files_of_their_own(void** state) {
    command_kit* kit = *state;
    char text[TEXT_BYTES];
    put(kit,
        "t.csv",
        "op,id,bytes,t_us,site\nB,a b,,,\nA,first,1,,\nE,,,,\nB,a_b,,,\nA,second,1,,\nE,,,,\n");
    assert_int_equal(RUN("t.csv", "-o", "%.out"), 0);
    get(kit, "t-a_b.out", text);
    expect_text(text, "first");
    get(kit, "t-a_b-2.out", text);
    expect_text(text, "second");
}

static void a_link_is_written_where_it_leads(void** state) {
    command_kit* kit = *state;
    char text[TEXT_BYTES];
    put(kit, "toy.csv", toy);
    put(kit, "target", "old");
    char link[512];
    snprintf(link, sizeof link, "%s", path_of(kit, "link"));
    assert_int_equal(symlink("target", link), 0);
    assert_int_equal(RUN("toy.csv", "-o", "link"), 0);
    get(kit, "target", text);
    expect_text(text, "id,lower,upper,size,offset");
    assert_true(readlink(link, text, sizeof text) > 0);
}

static void a_trace_is_planned_at_other_symbols(void** state) {
    command_kit* kit = *state;
    put(kit, "trace.csv", trace);
    assert_int_equal(RUN("trace.csv"), 0);
    expect_text(kit->out, "trace.csv:block        1              256              256");
    expect_text(kit->out, "exact");
    assert_int_equal(RUN("--at", "n=7", "trace.csv", "-o", "%.offsets.csv", "--svg", "%.svg"), 0);
    expect_text(kit->out, " 448 ");
    assert_true(exists(kit, "trace-block.offsets.csv"));
    assert_true(exists(kit, "trace-block.svg"));
    assert_int_equal(RUN("--at", "m=7", "trace.csv"), 2);
    expect_text(kit->err, "m: no file has a symbol of this name, only n\n");
}

// ---- Drawings.

/// Reads the tag behind "<": its name goes to `name`; attributes must be quoted. Returns the place
/// behind ">", or NULL.
static const char* read_tag(const char* at, char name[64], bool* out_closes, bool* out_empty) {
    *out_closes = *at == '/';
    if (*out_closes) at++;
    const size_t bytes = strcspn(at, " />");
    if (bytes == 0 || bytes >= 64) return NULL;
    memcpy(name, at, bytes);
    name[bytes] = '\0';
    at += bytes;
    while (*at == ' ') {
        at += 1 + strcspn(at + 1, "=<>\"");
        if (at[0] != '=' || at[1] != '"') return NULL;
        at += 2 + strcspn(at + 2, "\"<");
        if (*at++ != '"') return NULL;
    }
    *out_empty = *at == '/';
    if (*out_empty) at++;
    return *at == '>' ? at + 1 : NULL;
}

static bool is_entity(const char* at) {
    return strncmp(at, "&amp;", 5) == 0 || strncmp(at, "&lt;", 4) == 0 ||
           strncmp(at, "&gt;", 4) == 0 || strncmp(at, "&quot;", 6) == 0;
}

/// True if every tag is closed in order, and no markup stands bare in the text.
static bool is_well_formed(const char* at) {
    static char open[32][64];
    size_t depth = 0;
    while (*at != '\0') {
        if (*at == '&' && !is_entity(at)) return false;
        if (*at == '>') return false;
        if (*at++ != '<') continue;
        char name[64];
        bool closes, empty;
        at = read_tag(at, name, &closes, &empty);
        if (at == NULL) return false;
        if (closes && (depth == 0 || strcmp(open[--depth], name) != 0)) return false;
        if (closes || empty) continue;
        if (depth == 32) return false;
        memcpy(open[depth++], name, sizeof name);
    }
    return depth == 0;
}

static void a_drawing_is_well_formed_and_shows_the_labels(void** state) {
    command_kit* kit = *state;
    char text[TEXT_BYTES];
    put(kit, "odd.csv", "id,lower,upper,size\n\"<a & \"\"b\"\">\",0,3,1000\n\033]x,1,5,1000\n");
    assert_int_equal(RUN("odd.csv", "--svg", "odd.svg", "--capacity", "3000"), 0);
    get(kit, "odd.svg", text);
    assert_true(is_well_formed(text));
    expect_text(text, ">&lt;a &amp; &quot;b&quot;&gt;, 1000 B</text>");
    expect_text(text, "lower bound 2000");
    expect_text(text, "capacity 3000");
    assert_null(strchr(text, '\033'));
    char name[160] = "front";
    memset(name + 5, 'x', 140);
    strcpy(name + 145, ".csv");
    put(kit, name, "id,lower,upper,size\na,0,3,9\n");
    assert_int_equal(RUN(name, "--svg", "long.svg"), 0);
    get(kit, "long.svg", text);
    assert_null(strstr(text, "front"));
    expect_text(text, ">...xxxx");
    expect_text(text, "xxxx.csv: 1 buffers, peak 9 bytes, lower bound 9, proved</text>");
    put(kit, "empty.csv", "id,lower,upper,size\na,4,4,9\n");
    assert_int_equal(RUN("empty.csv", "--svg", "empty.svg"), 0);
    get(kit, "empty.svg", text);
    assert_true(is_well_formed(text));
}

static void writing_that_fails_is_reported_and_leaves_nothing(void** state) {
    command_kit* kit = *state;
    char text[TEXT_BYTES];
    put(kit, "toy.csv", toy);
    put(kit, "old.csv", "old");
    assert_int_equal(RUN("toy.csv", "-o", "/dev/full"), 2);
    expect_text(kit->err, "'/dev/full' cannot be written: No space left");
    assert_int_equal(RUN("toy.csv", "--svg", "none/x.svg"), 2);
    expect_text(kit->err, "'none/x.svg' cannot be written");
    // no file may grow beyond 64 bytes, also in the command
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit small = {64, limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const int status = wait_for(
        start(kit, -1, (const char* const[]){"--quick", "toy.csv", "-o", "old.csv", NULL}));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(status, 2);
    get(kit, "old.csv", text);
    assert_string_equal(text, "old");
}

/// Many buffers with which no quick order is right.
static void put_hard(const command_kit* kit, const char* name) {
    FILE* file = fopen(path_of(kit, name), "w");
    assert_non_null(file);
    uint64_t random = 1;
    fputs("id,lower,upper,size\n", file);
    for (int i = 0; i < 400; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const unsigned begin = (unsigned)(random >> 33) % 300;
        const unsigned length = 1 + (unsigned)(random >> 45) % 40;
        fprintf(file, "%d,%u,%u,%u\n", i, begin, begin + length, 1 + (unsigned)(random >> 52));
    }
    assert_int_equal(fclose(file), 0);
}

static void an_interrupt_ends_the_search_with_the_best(void** state) {
    command_kit* kit = *state;
    put(kit, "toy.csv", toy);
    put_hard(kit, "hard.csv");
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = start(
        kit, ends[1], (const char* const[]){"--improve", "100000", "toy.csv", "hard.csv", NULL});
    assert_int_equal(close(ends[1]), 0);
    // its first row is there when it catches interrupts
    size_t bytes = 0;
    while (strstr(kit->out, "toy.csv ") == NULL && bytes + 1 < TEXT_BYTES) {
        const ssize_t got = read(ends[0], kit->out + bytes, TEXT_BYTES - 1 - bytes);
        assert_true(got > 0);
        bytes += (size_t)got;
        kit->out[bytes] = '\0';
    }
    assert_int_equal(kill(child, SIGINT), 0);
    for (ssize_t got = 1; got > 0; bytes += (size_t)(got > 0 ? got : 0))
        got = read(ends[0], kit->out + bytes, TEXT_BYTES - 1 - bytes);
    kit->out[bytes] = '\0';
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(wait_for(child), 0);
    expect_text(kit->out, "hard.csv      400");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_problem_that_fits_is_solved),
        TEST(the_other_files_are_planned_beside_a_bad_one),
        TEST(a_command_line_that_is_wrong_is_refused),
        TEST(offsets_are_written_and_can_be_checked),
        TEST(what_files_say_cannot_command_the_terminal),
        TEST(problems_of_one_name_have_files_of_their_own),
        TEST(a_link_is_written_where_it_leads),
        TEST(a_trace_is_planned_at_other_symbols),
        TEST(a_drawing_is_well_formed_and_shows_the_labels),
        TEST(writing_that_fails_is_reported_and_leaves_nothing),
        TEST(an_interrupt_ends_the_search_with_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
