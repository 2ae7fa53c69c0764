// SPDX-License-Identifier: Apache-2.0
// Fork and join of one job over a few threads, with futexes below.
#include "device/cpu/cpu_team.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define MAX_WORKERS 1024u
// Enough for the others to take over half of what a held-up worker has left, few enough that taking
// them costs nothing beside the work.
#define CHUNKS_PER_WORKER 4u
#define SPIN_NS 40000u

// The chunks that a worker has not begun: generation of the job, next chunk, end of its chunks.
// They stand in one word so that a claim holds for exactly one job.
typedef struct claims {
    _Alignas(64) atomic_uint_least64_t word;
} claims;
#define CLAIM_BITS 16
#define CLAIM_MASK ((1u << CLAIM_BITS) - 1)
_Static_assert(MAX_WORKERS* CHUNKS_PER_WORKER <= CLAIM_MASK, "a chunk's number fits its field");

typedef struct job {
    berth_range_fn fn;
    void* argument;
    int64_t count;
    int64_t grain;
    int64_t units; // of `grain` items, the last may be short
    uint32_t chunk_count;
} job;

typedef struct worker {
    berth_team* team;
    berth_thread thread;
    uint32_t index;
} worker;

struct berth_team {
    const berth_host* host;
    uint32_t worker_count;
    uint32_t thread_count; // started
    uint32_t spin_limit;
    worker* workers; // [worker_count]; entry 0 is the caller
    claims* claims;  // [worker_count]
    atomic_bool busy;

    // Written by the caller while no chunk is unfinished; read by whoever holds a claim.
    job job;
    uint32_t job_generation;

    _Alignas(64) atomic_uint generation; // futex: counts jobs
    atomic_bool stop;
    _Alignas(64) atomic_uint sleepers;
    _Alignas(64) atomic_uint unfinished; // futex: chunks of this job
    atomic_bool caller_sleeps;
};

// Where this thread is inside a job, so that nested calls stay on it.
static _Thread_local bool inside_job;
static _Thread_local uint32_t inside_worker;

static void futex_wait(atomic_uint* word, uint32_t seen) {
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint* word, int count) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void run_chunk(const job* work, uint32_t chunk, uint32_t worker_index) {
    const int64_t each = work->units / work->chunk_count;
    const int64_t extra = work->units % work->chunk_count; // the first ones are a unit longer
    const int64_t first = chunk * each + (chunk < extra ? chunk : extra);
    const int64_t units = each + (chunk < extra ? 1 : 0);
    const int64_t begin = first * work->grain;
    const bool last = chunk + 1 == work->chunk_count;
    work->fn(work->argument, begin, last ? work->count : begin + units * work->grain, worker_index);
}

static uint64_t claim_word(uint32_t generation, uint32_t next, uint32_t end) {
    return (uint64_t)generation << (2 * CLAIM_BITS) | (uint64_t)next << CLAIM_BITS | end;
}

/// Takes one chunk of the job `generation` from `from`. The job cannot end before the chunk is
/// done, so after a claim its fields stay as they are.
static bool claim(claims* from, uint32_t generation, uint32_t* out_chunk) {
    uint64_t word = atomic_load_explicit(&from->word, memory_order_relaxed);
    for (;;) {
        const uint32_t next = (uint32_t)(word >> CLAIM_BITS) & CLAIM_MASK;
        const uint32_t end = (uint32_t)word & CLAIM_MASK;
        if ((uint32_t)(word >> (2 * CLAIM_BITS)) != generation || next == end) return false;
        if (atomic_compare_exchange_weak_explicit(&from->word,
                                                  &word,
                                                  claim_word(generation, next + 1, end),
                                                  memory_order_acquire,
                                                  memory_order_relaxed)) {
            *out_chunk = next;
            return true;
        }
    }
}

static void finish_chunk(berth_team* team) {
    if (atomic_fetch_sub(&team->unfinished, 1) == 1 && atomic_load(&team->caller_sleeps))
        futex_wake(&team->unfinished, 1);
}

/// Runs chunks until there are none: its own first, then the others'.
static void work_on(berth_team* team, uint32_t generation, uint32_t index) {
    inside_job = true;
    inside_worker = index;
    for (uint32_t i = 0; i < team->worker_count; i++) {
        const uint32_t victim =
            index + i < team->worker_count ? index + i : index + i - team->worker_count;
        uint32_t chunk;
        while (claim(&team->claims[victim], generation, &chunk)) {
            run_chunk(&team->job, chunk, index);
            finish_chunk(team);
        }
    }
    inside_job = false;
}

static uint32_t wait_for_job(berth_team* team, uint32_t seen) {
    for (uint32_t spin = 0; spin < team->spin_limit; spin++) {
        const uint32_t now = atomic_load_explicit(&team->generation, memory_order_acquire);
        if (now != seen) return now;
        relax();
    }
    atomic_fetch_add(&team->sleepers, 1);
    uint32_t now;
    while ((now = atomic_load(&team->generation)) == seen)
        futex_wait(&team->generation, seen);
    atomic_fetch_sub(&team->sleepers, 1);
    return now;
}

static void worker_body(void* opaque) {
    const worker* self = opaque;
    berth_team* team = self->team;
    uint32_t seen = 0;
    for (;;) {
        seen = wait_for_job(team, seen);
        if (atomic_load(&team->stop)) return;
        work_on(team, seen, self->index);
    }
}

static void wake_workers(berth_team* team) {
    atomic_store(&team->generation, team->job_generation);
    if (atomic_load(&team->sleepers) > 0) futex_wake(&team->generation, INT_MAX);
}

static void post(berth_team* team) {
    const uint32_t generation = ++team->job_generation;
    const uint32_t each = team->job.chunk_count / team->worker_count;
    const uint32_t extra = team->job.chunk_count % team->worker_count;
    atomic_store_explicit(&team->unfinished, team->job.chunk_count, memory_order_relaxed);
    uint32_t next = 0;
    for (uint32_t i = 0; i < team->worker_count; i++) {
        const uint32_t end = next + each + (i < extra ? 1 : 0);
        atomic_store_explicit(
            &team->claims[i].word, claim_word(generation, next, end), memory_order_release);
        next = end;
    }
    wake_workers(team);
}

static void wait_until_finished(berth_team* team) {
    for (uint32_t spin = 0; spin < team->spin_limit; spin++) {
        if (atomic_load_explicit(&team->unfinished, memory_order_acquire) == 0) return;
        relax();
    }
    atomic_store(&team->caller_sleeps, true);
    uint32_t left;
    while ((left = atomic_load(&team->unfinished)) != 0)
        futex_wait(&team->unfinished, left);
    atomic_store(&team->caller_sleeps, false);
}

static job make_job(
    uint32_t workers, int64_t count, int64_t grain, berth_range_fn fn, void* argument) {
    const int64_t units = (count - 1) / grain + 1;
    const int64_t most = workers == 1 ? 1 : (int64_t)workers * CHUNKS_PER_WORKER;
    return (job){.fn = fn,
                 .argument = argument,
                 .count = count,
                 .grain = grain,
                 .units = units,
                 .chunk_count = (uint32_t)(units < most ? units : most)};
}

void berth_team_for(
    berth_team* team, int64_t count, int64_t grain, berth_range_fn fn, void* job_argument) {
    BERTH_CHECK(1, grain >= 1);
    if (count <= 0) return;
    const job work = make_job(berth_team_worker_count(team), count, grain, fn, job_argument);
    const bool alone = work.chunk_count == 1 || inside_job || atomic_exchange(&team->busy, true);
    if (alone) {
        const uint32_t index = inside_job ? inside_worker : 0;
        for (uint32_t chunk = 0; chunk < work.chunk_count; chunk++)
            run_chunk(&work, chunk, index);
        return;
    }
    team->job = work;
    post(team);
    work_on(team, team->job_generation, 0);
    wait_until_finished(team);
    atomic_store(&team->busy, false);
}

uint32_t berth_team_worker_count(const berth_team* team) {
    return team == NULL ? 1 : team->worker_count;
}

/// How often to look before sleeping: SPIN_NS, in turns of the loop; never where a spinning worker
/// would keep another from its core.
static uint32_t measure_spin_limit(uint32_t worker_count) {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 0;
    if (worker_count > (uint32_t)CPU_COUNT(&cores)) return 0;
    const uint32_t sample = 2000;
    const uint64_t begin = berth_clock_now_ns();
    for (uint32_t i = 0; i < sample; i++)
        relax();
    const uint64_t took = berth_clock_now_ns() - begin;
    return (uint32_t)((uint64_t)SPIN_NS * sample / (took == 0 ? 1 : took)) + 1;
}

static berth_status start_threads(berth_team* team) {
    for (uint32_t i = 1; i < team->worker_count; i++) {
        worker* each = &team->workers[i];
        each->team = team;
        each->index = i;
        BERTH_TRY(berth_thread_start(&each->thread, "berth-worker", worker_body, each));
        team->thread_count++;
    }
    return BERTH_OK;
}

berth_status berth_team_create(const berth_host* host,
                               uint32_t worker_count,
                               berth_team** out_team) {
    *out_team = NULL;
    if (worker_count == 0 || worker_count > MAX_WORKERS)
        return berth_fail(BERTH_ERR_INVALID_ARGUMENT,
                          "%u threads are asked for; 1 to %u are possible",
                          worker_count,
                          MAX_WORKERS);
    berth_team* team = berth_host_alloc_aligned(host, sizeof *team, 64);
    if (team == NULL) return berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a thread team");
    *team = (berth_team){.host = host, .worker_count = worker_count};
    team->spin_limit = worker_count == 1 ? 0 : measure_spin_limit(worker_count);
    team->workers = berth_host_calloc(host, worker_count, sizeof *team->workers);
    team->claims = berth_host_alloc_aligned(host, worker_count * sizeof *team->claims, 64);
    berth_status status = BERTH_OK;
    if (team->workers == NULL || team->claims == NULL) {
        status = berth_fail(BERTH_ERR_OUT_OF_MEMORY, "no memory for a team of %u", worker_count);
    } else {
        for (uint32_t i = 0; i < worker_count; i++)
            atomic_init(&team->claims[i].word, 0);
        status = start_threads(team);
    }
    if (status != BERTH_OK) {
        berth_team_destroy(team);
        return status;
    }
    *out_team = team;
    return BERTH_OK;
}

void berth_team_destroy(berth_team* team) {
    if (team == NULL) return;
    atomic_store(&team->stop, true);
    team->job_generation++;
    wake_workers(team);
    for (uint32_t i = 1; i <= team->thread_count; i++)
        berth_thread_join(&team->workers[i].thread);
    berth_host_free(team->host, team->claims);
    berth_host_free(team->host, team->workers);
    berth_host_free(team->host, team);
}
