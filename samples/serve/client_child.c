// SPDX-License-Identifier: Apache-2.0
// Processes: a fork, a pipe for what the child prints, and the files in /proc.
#include "client_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "llm_clock.h"

enum { MOST_LINES_BYTES = 1 << 16, END_TICK_NS = 5000000 };

/// What the child does between the fork and its program: only what is safe there.
_Noreturn static void become(const char* const* words, int output) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(output, STDOUT_FILENO);
    union {
        const char* const* given;
        char* const* wanted; // execv() does not change them
    } arguments = {.given = words};
    execv(words[0], arguments.wanted);
    _exit(127);
}

/// Finds where the server listens in what it has printed so far.
static bool find_url(const llm_bytes* said, client_child* child) {
    static const char before[] = "listening on ";
    const char* begin = memmem(said->data, said->size, before, sizeof before - 1);
    if (begin == NULL) return false;
    begin += sizeof before - 1;
    const size_t rest = said->size - (size_t)(begin - said->data);
    const char* end = memchr(begin, '\n', rest);
    if (end == NULL || (size_t)(end - begin) >= sizeof child->url) return false;
    memcpy(child->url, begin, (size_t)(end - begin));
    child->url[end - begin] = '\0';
    return true;
}

/// Reads more of what the child prints. False: nothing comes any more, or not in time.
static bool read_more(const client_child* child, llm_bytes* said, uint64_t until_ns) {
    char text[1024];
    const uint64_t now_ns = llm_now_ns();
    if (now_ns >= until_ns || said->size > MOST_LINES_BYTES) return false;
    struct pollfd ready = {.fd = child->output, .events = POLLIN};
    const int count = poll(&ready, 1, (int)((until_ns - now_ns) / 1000000) + 1);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    const ssize_t size = read(child->output, text, sizeof text);
    return size > 0 && llm_bytes_append(said, text, (size_t)size, NULL) == BERTH_OK;
}

static void kill_child(client_child* child) {
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    close(child->output);
    *child = (client_child){0};
}

berth_status client_child_start(const char* const* words,
                                int timeout_ms,
                                client_child* out_child,
                                llm_error* error) {
    *out_child = (client_child){0};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return llm_fail(error, BERTH_ERR_IO, "%s: %s", words[0], strerror(errno));
    out_child->output = ends[0];
    out_child->pid = fork();
    if (out_child->pid == 0) become(words, ends[1]);
    const int reason = errno;
    close(ends[1]);
    if (out_child->pid < 0) {
        close(ends[0]);
        *out_child = (client_child){0};
        return llm_fail(error, BERTH_ERR_IO, "%s: %s", words[0], strerror(reason));
    }
    llm_bytes said = {0};
    const uint64_t until_ns = llm_now_ns() + (uint64_t)timeout_ms * 1000000;
    bool listens = false;
    while (!listens && read_more(out_child, &said, until_ns))
        listens = find_url(&said, out_child);
    llm_bytes_fini(&said);
    if (listens) return BERTH_OK;
    kill_child(out_child);
    return llm_fail(error,
                    BERTH_ERR_IO,
                    "%s: it ended, or ran for %d ms, without saying where it listens",
                    words[0],
                    timeout_ms);
}

bool client_child_is_alive(const client_child* child) {
    siginfo_t info = {.si_pid = 0};
    if (child->pid == 0) return false;
    // WNOWAIT leaves its status for client_child_end()
    return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

berth_status client_child_end(client_child* child, int timeout_ms, llm_error* error) {
    if (child->pid == 0) return llm_fail(error, BERTH_ERR_IO, "no server was started");
    const uint64_t until_ns = llm_now_ns() + (uint64_t)timeout_ms * 1000000;
    const struct timespec tick = {.tv_nsec = END_TICK_NS};
    kill(child->pid, SIGTERM);
    while (client_child_is_alive(child) && llm_now_ns() < until_ns)
        nanosleep(&tick, NULL);
    int status = 0;
    const bool has_ended = !client_child_is_alive(child);
    if (!has_ended) kill(child->pid, SIGKILL);
    waitpid(child->pid, &status, 0);
    close(child->output);
    *child = (client_child){0};
    if (!has_ended)
        return llm_fail(
            error, BERTH_ERR_IO, "the server did not end within %d ms of SIGTERM", timeout_ms);
    if (WIFSIGNALED(status))
        return llm_fail(error, BERTH_ERR_IO, "signal %d ended the server", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return llm_fail(
            error, BERTH_ERR_IO, "the server ended with status %d", WEXITSTATUS(status));
    return BERTH_OK;
}

static FILE* open_process_file(pid_t pid, const char* name, const char* how) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    return fopen(path, how);
}

bool client_process_bytes(pid_t pid, const char* name, uint64_t* out_bytes) {
    *out_bytes = 0;
    FILE* file = open_process_file(pid, "status", "r");
    if (file == NULL) return false;
    char line[256];
    const size_t length = strlen(name);
    bool is_found = false;
    while (!is_found && fgets(line, sizeof line, file) != NULL) {
        unsigned long long kib;
        is_found = strncmp(line, name, length) == 0 && sscanf(line + length, ": %llu", &kib) == 1;
        if (is_found) *out_bytes = (uint64_t)kib * 1024;
    }
    fclose(file);
    return is_found;
}

bool client_process_forget_peak(pid_t pid) {
    FILE* file = open_process_file(pid, "clear_refs", "w");
    if (file == NULL) return false;
    const bool is_written = fputs("5\n", file) >= 0;
    return fclose(file) == 0 && is_written;
}
