// SPDX-License-Identifier: Apache-2.0
// A replayed step on one thread is silent: no system call, no page fault, no allocation on the
// host, in any of its ops. The step is a layer as language models have it.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/exec_kit.h"
#include "kit/allocations.h"

enum {
    WIDTH = 128,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD = WIDTH / HEADS,
    FEED = 320,
    ROOM = 256,   ///< tokens that the caches hold
    WARM = 90,    ///< tokens before the watched ones
    WATCHED = 40, ///< tokens
    PIECES = 5,   ///< the step's regions, each watched by itself
};

typedef struct layer {
    exec_kit kit;
    berth_tensor* norm;
    berth_tensor* wq;
    berth_tensor* wk;
    berth_tensor* wv;
    berth_tensor* wo;
    berth_tensor* up;
    berth_tensor* down;
    berth_tensor* keys;   ///< [ROOM, KV_HEADS, HEAD]
    berth_tensor* values; ///< likewise
    int64_t position;
    float checksum;
    void (*mark)(void* self, int piece); ///< called between the regions; may be NULL
    void* mark_self;
} layer;

static berth_tensor* make_weight(berth_context* ctx, uint64_t seed, int64_t rows, int64_t columns) {
    return berth_rand(ctx, seed, -0.1f, 0.1f, BERTH_F32, 2, (int64_t[]){rows, columns});
}

static void open_layer(layer* l, const char* device) {
    const berth_option_setting settings[] = {{"device", device}, {"threads", "1"}, {"keep", "all"}};
    *l = (layer){0};
    assert_ok(exec_kit_open(&l->kit, NULL, settings, 3));
    berth_context* ctx = l->kit.ctx;
    l->norm = berth_ones(ctx, BERTH_F32, 1, (int64_t[]){WIDTH});
    l->wq = make_weight(ctx, 1, WIDTH, WIDTH);
    l->wk = make_weight(ctx, 2, KV_HEADS * HEAD, WIDTH);
    l->wv = make_weight(ctx, 3, KV_HEADS * HEAD, WIDTH);
    l->wo = make_weight(ctx, 4, WIDTH, WIDTH);
    l->up = make_weight(ctx, 5, FEED, WIDTH);
    l->down = make_weight(ctx, 6, WIDTH, FEED);
    const int64_t cache[3] = {ROOM, KV_HEADS, HEAD};
    l->keys = berth_zeros(ctx, BERTH_F32, 3, cache);
    l->values = berth_zeros(ctx, BERTH_F32, 3, cache);
    assert_context_ok(ctx);
}

static void close_layer(layer* l) {
    berth_release_all(l->norm, l->wq, l->wk, l->wv, l->wo, l->up, l->down, l->keys, l->values);
    assert_int_equal(l->kit.ctx->home.live_objects, 0);
    exec_kit_close(&l->kit);
}

static void mark(layer* l, int piece) {
    if (l->mark != NULL) l->mark(l->mark_self, piece);
}

static berth_tensor* project(
    layer* l, berth_tensor* x, berth_tensor* weight, int64_t heads, berth_tensor* positions) {
    berth_context* ctx = l->kit.ctx;
    berth_tensor* y = berth_linear(ctx, x, weight, NULL);
    y = berth_reshape(ctx, berth_move(y), 3, (int64_t[]){-1, heads, HEAD});
    return positions != NULL ? berth_rope(ctx, berth_move(y), positions, NULL, NULL) : y;
}

/// Writes the token's row into a cache and returns the part that is filled.
static berth_tensor* remember(layer* l, berth_tensor** cache, berth_tensor* row, berth_tensor* at) {
    *cache = berth_index_copy(l->kit.ctx, berth_move(*cache), 0, at, row);
    return berth_slice(l->kit.ctx, *cache, 0, 0, l->position + 1, 1);
}

static berth_tensor* attend(layer* l, berth_tensor* x) {
    berth_context* ctx = l->kit.ctx;
    berth_tensor* positions = berth_full(ctx, (double)l->position, BERTH_I32, 1, (int64_t[]){1});
    berth_tensor* normed = berth_rms_norm(ctx, x, l->norm, 1e-5f);
    berth_tensor* q = project(l, normed, l->wq, HEADS, positions);
    berth_tensor* k = project(l, normed, l->wk, KV_HEADS, positions);
    berth_tensor* v = project(l, normed, l->wv, KV_HEADS, NULL);
    mark(l, 1);
    berth_tensor* keys = remember(l, &l->keys, k, positions);
    berth_tensor* values = remember(l, &l->values, v, positions);
    berth_release_all(normed, k, v, positions);
    mark(l, 2);
    berth_tensor* mixed = berth_attention(ctx, q, keys, values, NULL, 0, true, l->position);
    berth_release_all(q, keys, values);
    mixed = berth_reshape(ctx, berth_move(mixed), 2, (int64_t[]){-1, WIDTH});
    berth_tensor* out = berth_linear(ctx, mixed, l->wo, NULL);
    berth_release(mixed);
    return berth_add(ctx, x, berth_move(out));
}

static berth_tensor* feed_forward(layer* l, berth_tensor* x) {
    berth_context* ctx = l->kit.ctx;
    berth_tensor* normed = berth_rms_norm(ctx, x, l->norm, 1e-5f);
    berth_tensor* up = berth_linear(ctx, normed, l->up, NULL);
    berth_release(normed);
    berth_tensor* gate = berth_silu(ctx, up);
    berth_tensor* gated = berth_mul(ctx, berth_move(gate), berth_move(up));
    berth_tensor* down = berth_linear(ctx, gated, l->down, NULL);
    berth_release(gated);
    return berth_add(ctx, berth_move(down), x);
}

/// One token: false if anything fails.
static bool run_token(layer* l) {
    berth_context* ctx = l->kit.ctx;
    static const int64_t one[1] = {1};
    const berth_step_input input = {.name = "tokens", .rank = 1, .dims = one};
    const berth_step_integer past = {.name = "past", .value = l->position};
    const berth_step_desc desc = {
        .name = "layer", .inputs = &input, .input_count = 1, .integers = &past, .integer_count = 1};
    float best;
    mark(l, 0);
    if (berth_step_begin(ctx, &desc) != BERTH_OK) return false;
    berth_tensor* x =
        berth_rand(ctx, (uint64_t)l->position, -1, 1, BERTH_F32, 2, (int64_t[]){1, WIDTH});
    berth_tensor* y = attend(l, x);
    mark(l, 3);
    berth_tensor* z = feed_forward(l, y);
    berth_tensor* most = berth_max(ctx, z, BERTH_DIMS(1), false);
    berth_release_all(x, y, z);
    const bool is_read = berth_tensor_read(most, &best, sizeof best) == BERTH_OK;
    berth_release(most);
    mark(l, 4);
    const bool is_ended = berth_step_end(ctx) == BERTH_OK;
    mark(l, PIECES);
    l->checksum += best;
    ++l->position;
    return is_read && is_ended;
}

static bool run_tokens(layer* l, int count) {
    for (int i = 0; i < count; ++i)
        if (!run_token(l)) return false;
    return true;
}

static uint64_t hits_of(layer* l) { return exec_kit_counters(l->kit.runtime, "layer").hits; }

/// Everything that the watched tokens will touch has been touched once.
static void warm(layer* l) {
    assert_true(run_tokens(l, WARM + WATCHED));
    l->position = WARM;
    l->checksum = 0;
}

/// What is counted, and what each region added to it.
typedef struct meter {
    uint64_t (*count)(layer* l);
    layer* l;
    uint64_t at_mark;
    uint64_t added[PIECES + 1]; ///< entry i: in the region before mark i
} meter;

static void read_meter(void* self, int piece) {
    meter* m = self;
    const uint64_t now = m->count(m->l);
    if (piece > 0) m->added[piece] += now - m->at_mark;
    m->at_mark = m->count(m->l); // what the mark itself cost is nobody's
}

static void expect_quiet(uint64_t (*count)(layer* l)) {
    static layer l;
    static meter m;
    open_layer(&l, "cpu");
    m = (meter){.count = count, .l = &l};
    l.mark = read_meter;
    l.mark_self = &m;
    warm(&l);
    memset(m.added, 0, sizeof m.added);
    const uint64_t hits = hits_of(&l);
    assert_true(run_tokens(&l, WATCHED));
    assert_int_equal(hits_of(&l), hits + WATCHED);
    for (int piece = 1; piece <= PIECES; ++piece)
        if (m.added[piece] != 0) fail_msg("%d in region %d", (int)m.added[piece], piece);
    close_layer(&l);
}

static uint64_t count_host_calls(layer* l) {
    return berth_host_query_alloc_calls(l->kit.runtime->host);
}

static uint64_t count_allocations(layer* l) {
    (void)l;
    return allocations;
}

static uint64_t count_faults(layer* l) {
    (void)l;
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

static void a_replayed_step_asks_its_host_allocator_for_nothing(void** state) {
    (void)state;
    expect_quiet(count_host_calls);
}

static void a_replayed_step_allocates_nothing_anywhere(void** state) {
    (void)state;
    skip_unless_allocations_count();
    expect_quiet(count_allocations);
}

static void a_replayed_step_faults_no_page_in(void** state) {
    (void)state;
    skip_if_sanitized();
    expect_quiet(count_faults);
}

#if defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define THIS_ARCHITECTURE 0
#endif

enum { ENDED_QUIET = 0, NO_FILTER = 77, STEP_FAILED = 78, CALLED = 79 };

/// A forbidden call was made: says which, and ends.
static void report_call(int signal_number, siginfo_t* info, void* opaque) {
    (void)signal_number;
    (void)opaque;
    char text[] = "system call number 0000\n";
    int number = info->si_syscall;
    for (int i = 0; i < 4; ++i, number /= 10)
        text[22 - i] = (char)('0' + number % 10);
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(CALLED);
}

/// From here on every system call but write and the process's end raises SIGSYS.
static bool forbid_calls(void) {
    struct sigaction action = {.sa_sigaction = report_call, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSYS, &action, NULL) != 0) return false;
    const struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_filter copy[sizeof program / sizeof program[0]];
    memcpy(copy, program, sizeof copy);
    const struct sock_fprog filter = {.len = sizeof copy / sizeof copy[0], .filter = copy};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

/// The watched process: warms up, gives up system calls, goes on.
static _Noreturn void run_without_calls(bool makes_one) {
    static layer l;
    open_layer(&l, "cpu");
    warm(&l);
    const uint64_t hits = hits_of(&l);
    if (THIS_ARCHITECTURE == 0 || !forbid_calls()) _exit(NO_FILTER);
    if (makes_one) (void)getppid();
    const bool is_done = run_tokens(&l, WATCHED);
    _exit(is_done && hits_of(&l) == hits + WATCHED ? ENDED_QUIET : STEP_FAILED);
}

static int run_watched(bool makes_one) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) run_without_calls(makes_one);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) fail_msg("the watched process ended by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != NO_FILTER) return WEXITSTATUS(status);
    print_message("skipped: system calls cannot be filtered here\n");
    skip();
    return NO_FILTER;
}

static void a_replayed_step_makes_no_system_call(void** state) {
    (void)state;
    skip_if_sanitized();
    assert_int_equal(run_watched(true), CALLED); // the filter works
    assert_int_equal(run_watched(false), ENDED_QUIET);
}

static void what_is_watched_computes_the_same_on_both_devices(void** state) {
    (void)state;
    static layer l;
    float sums[2];
    static const char* const devices[] = {"cpu", "sim"};
    for (size_t i = 0; i < 2; ++i) {
        open_layer(&l, devices[i]);
        warm(&l);
        assert_true(run_tokens(&l, WATCHED));
        sums[i] = l.checksum;
        close_layer(&l);
    }
    assert_true(sums[0] == sums[1] && sums[0] != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replayed_step_makes_no_system_call),
        cmocka_unit_test(a_replayed_step_asks_its_host_allocator_for_nothing),
        cmocka_unit_test(a_replayed_step_allocates_nothing_anywhere),
        cmocka_unit_test(a_replayed_step_faults_no_page_in),
        cmocka_unit_test(what_is_watched_computes_the_same_on_both_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
