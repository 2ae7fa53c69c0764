// SPDX-License-Identifier: Apache-2.0
// Tests of what a replayed decode step leaves alone, with one thread: the system, the page tables
// and the host's allocators.
#include "kit/allocations.h"
#include "llm/model_kit.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM_TOKENS = 70, QUIET_TOKENS = 40 };

/// A model that has been fed enough tokens one by one for its decode step to be known.
typedef struct quiet {
    random_file file;
    rig r;
    int32_t ids[WARM_TOKENS + QUIET_TOKENS];
} quiet;

static void quiet_open(quiet* q) {
    static const berth_option_setting setting = {"threads", "1"};
    llm_random_spec spec = llm_random_spec_tiny(11);
    q->file = random_file_open(&spec);
    rig_open(&q->r, q->file.gguf, &(rig_options){.settings = &setting, .setting_count = 1});
    make_prompt(1, (int64_t)rig_vocab(&q->r), q->ids, WARM_TOKENS + QUIET_TOKENS);
    for (int i = 0; i < WARM_TOKENS; i++)
        rig_feed(&q->r, &q->ids[i], 1);
    // blocks of the cache are mapped as tokens come: the second time round nothing is new
    for (int i = WARM_TOKENS; i < WARM_TOKENS + QUIET_TOKENS; i++)
        rig_feed(&q->r, &q->ids[i], 1);
    llm_session_reset(q->r.session);
    for (int i = 0; i < WARM_TOKENS; i++)
        rig_feed(&q->r, &q->ids[i], 1);
}

/// The steps that are watched.
static void quiet_run(quiet* q) {
    for (int i = WARM_TOKENS; i < WARM_TOKENS + QUIET_TOKENS; i++)
        rig_feed(&q->r, &q->ids[i], 1);
}

static void quiet_close(quiet* q) {
    rig_close(&q->r);
    random_file_close(&q->file);
}

static void assert_all_hits(quiet* q, uint64_t hits_before) {
    assert_int_equal(query_step(&q->r, "decode").hits, hits_before + QUIET_TOKENS);
}

static void a_replayed_decode_step_allocates_nothing_on_the_host(void** state) {
    (void)state;
    quiet q;
    quiet_open(&q);
    uint64_t hits = query_step(&q.r, "decode").hits;
    berth_memory_stats before, after;
    assert_int_equal(berth_runtime_query_memory(q.r.runtime, &before), BERTH_OK);
    uint64_t allocations_before = allocations;
    quiet_run(&q);
    uint64_t allocations_after = allocations;
    assert_int_equal(berth_runtime_query_memory(q.r.runtime, &after), BERTH_OK);
    assert_all_hits(&q, hits);
    assert_int_equal(allocations_after, allocations_before);
    assert_int_equal(after.host_allocs, before.host_allocs);
    if (COUNTS_ALLOCATIONS) assert_true(allocations > 0); // the counting works
    quiet_close(&q);
}

static void a_replayed_decode_step_faults_no_page_in(void** state) {
    (void)state;
    skip_if_sanitized();
    quiet q;
    quiet_open(&q);
    uint64_t hits = query_step(&q.r, "decode").hits;
    struct rusage before, after;
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    quiet_run(&q);
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_all_hits(&q, hits);
    assert_int_equal(after.ru_minflt, before.ru_minflt);
    assert_int_equal(after.ru_majflt, before.ru_majflt);
    quiet_close(&q);
}

/// What the watched process does; the marks are a system call that nothing else here uses.
static void run_watched(void) {
    quiet q;
    quiet_open(&q);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
    raise(SIGSTOP);
    (void)getsid(0);
    quiet_run(&q);
    (void)getsid(0);
    _exit(0);
}

/// Lets the stopped process run to its next stop; returns false when it has ended.
static bool next_stop(pid_t child, int* status) {
    if (ptrace(PTRACE_SYSCALL, child, NULL, NULL) != 0) return false;
    return waitpid(child, status, 0) == child && WIFSTOPPED(*status);
}

/// Counts the calls between the marks; -1 if both were not seen.
static int count_calls(pid_t child, uint64_t mark, uint64_t* out_first) {
    int status;
    int marks = 0;
    int calls = 0;
    while (next_stop(child, &status)) {
        struct __ptrace_syscall_info info;
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
        if (ptrace(PTRACE_GET_SYSCALL_INFO, child, (void*)sizeof info, &info) <= 0) return -1;
        if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
        if (info.entry.nr == mark)
            marks++;
        else if (marks == 1 && calls++ == 0)
            *out_first = info.entry.nr;
    }
    return marks == 2 ? calls : -1;
}

static void a_replayed_decode_step_makes_no_system_call(void** state) {
    (void)state;
    skip_if_sanitized();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) run_watched();
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) {
        assert_int_equal(WEXITSTATUS(status), 77);
        print_message("skipped: processes may not be traced here\n");
        skip();
    }
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, NULL, (void*)options), 0);
    uint64_t first = 0;
    int calls = count_calls(child, SYS_getsid, &first);
    if (calls != 0) fail_msg("%d system calls, the first is number %d", calls, (int)first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replayed_decode_step_makes_no_system_call),
        cmocka_unit_test(a_replayed_decode_step_allocates_nothing_on_the_host),
        cmocka_unit_test(a_replayed_decode_step_faults_no_page_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
