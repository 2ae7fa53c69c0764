// SPDX-License-Identifier: Apache-2.0
// What it costs to take a block and to give it back: by size and number of threads, one after the
// other, in batches, and given back by another thread. Processor time of the threads, for a take
// and its give together; medians of interleaved rounds, after one round that warms up. Within a
// round the first few pairs and the first batch are not counted: the caches are full of what the
// contender before has done.
//
// usage: bench-pool [--json FILE] [--rounds N]
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "kit/allocators.h"
#include "kit/fail.h"
#include "kit/median.h"
#include "pool/contenders.h"

#define MAX_ROUNDS 101
#define UNCOUNTED_PAIRS 8 ///< of each run
#define MAX_BATCH 64
#define BATCH_BYTES (UINT64_C(64) << 20) ///< at most, of one thread

typedef enum kind { PAIRS, BATCH, REMOTE, KINDS } kind;

static const char* const kind_names[KINDS] = {"", " batch", " remote"};
static const int thread_counts[] = {1, 2, 4, 8};
static const uint64_t sizes[] = {
    64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
enum { THREAD_COUNTS = sizeof thread_counts / sizeof *thread_counts };
enum { SIZES = sizeof sizes / sizeof *sizes };

/// One measurement of all threads: `kind` at one size with one contender.
typedef struct run {
    const contender* who;
    kind what;
    uint64_t size;
    uint32_t batch;
    uint32_t repeats;
} run;

/// What the threads of one count share.
typedef struct crowd {
    const contender* contenders;
    int threads;
    int rounds;
    pthread_barrier_t barrier;
    berth_block blocks[MAX_THREADS][MAX_BATCH];
    double ns[MAX_THREADS]; ///< of the run that has just ended, for a take and its give
    double results[KINDS][SIZES][CONTENDERS]; ///< < 0: none
    uint64_t faults; ///< of Berth's runs in the first thread, but for those that warm up
} crowd;

typedef struct member {
    crowd* all;
    int number;
    pthread_t thread;
} member;

static uint64_t thread_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t thread_faults(void) {
    struct rusage use;
    (void)getrusage(RUSAGE_THREAD, &use);
    return (uint64_t)use.ru_minflt;
}

static uint32_t batch_of(uint64_t size) {
    const uint64_t fitting = BATCH_BYTES / size;
    return fitting < MAX_BATCH ? (uint32_t)fitting : MAX_BATCH;
}

/// Enough that the clock's own time does not count, few enough where a call may cost a fault.
static uint32_t repeats_of(kind what, uint64_t size) {
    const uint32_t pairs = size <= 64 << 10 ? 4096 : size <= 1 << 20 ? 512 : 64;
    if (what == PAIRS) return pairs;
    const uint32_t batches = pairs / batch_of(size);
    return batches > 4 ? batches : 4;
}

static inline void take(const run* r, void* own, berth_block* block) {
    r->who->take(own, r->size, block);
    if (!r->who->is_made_up) *(volatile unsigned char*)block->data = 1;
}

static void pass_pairs(const run* r, void* own, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        berth_block block;
        take(r, own, &block);
        r->who->give(own, &block);
    }
}

static uint64_t run_pairs(const run* r, void* own) {
    pass_pairs(r, own, UNCOUNTED_PAIRS);
    const uint64_t start = thread_ns();
    pass_pairs(r, own, r->repeats);
    return thread_ns() - start;
}

static void pass_batches(const run* r, void* own, berth_block* blocks, uint32_t count) {
    for (uint32_t n = 0; n < count; ++n) {
        for (uint32_t i = 0; i < r->batch; ++i)
            take(r, own, &blocks[i]);
        for (uint32_t i = 0; i < r->batch; ++i)
            r->who->give(own, &blocks[i]);
    }
}

static uint64_t run_batches(const run* r, void* own, berth_block* blocks) {
    pass_batches(r, own, blocks, 1);
    const uint64_t start = thread_ns();
    pass_batches(r, own, blocks, r->repeats);
    return thread_ns() - start;
}

/// Takes a batch, waits, and gives back what the next thread took. Waiting is not counted.
static uint64_t run_remote(const run* r, crowd* all, int number) {
    uint64_t ns = 0;
    const int next = (number + 1) % all->threads;
    for (uint32_t n = 0; n < r->repeats; ++n) {
        uint64_t start = thread_ns();
        for (uint32_t i = 0; i < r->batch; ++i)
            take(r, r->who->of_thread[number], &all->blocks[number][i]);
        ns += thread_ns() - start;
        (void)pthread_barrier_wait(&all->barrier);
        start = thread_ns();
        for (uint32_t i = 0; i < r->batch; ++i)
            r->who->give_remote(r->who->of_thread[next], &all->blocks[next][i]);
        ns += thread_ns() - start;
        (void)pthread_barrier_wait(&all->barrier);
    }
    return ns;
}

/// One run of this thread; nanoseconds for a take and its give.
static double measure(const run* r, crowd* all, int number) {
    void* own = r->who->of_thread[number];
    switch (r->what) {
    case PAIRS:
        return (double)run_pairs(r, own) / r->repeats;
    case BATCH:
        return (double)run_batches(r, own, all->blocks[number]) / r->repeats / r->batch;
    case REMOTE:
        return (double)run_remote(r, all, number) / r->repeats / r->batch;
    case KINDS:
        break;
    }
    return -1;
}

/// One round of a contender by all threads; the mean over them, in the first thread.
static double run_round(const run* r, crowd* all, int number) {
    all->ns[number] = measure(r, all, number);
    (void)pthread_barrier_wait(&all->barrier);
    double sum = 0;
    for (int i = 0; i < all->threads; ++i)
        sum += all->ns[i];
    (void)pthread_barrier_wait(&all->barrier);
    return sum / all->threads;
}

static bool is_run(const crowd* all, const run* r) {
    return r->who->is_there && (r->what != BATCH || r->batch > 1) &&
           (r->what != REMOTE || all->threads > 1);
}

/// All rounds of all contenders at one kind and size.
static void run_class(crowd* all, int number, kind what, int size) {
    double samples[CONTENDERS][MAX_ROUNDS];
    for (int round = -1; round < all->rounds; ++round) {
        for (int i = 0; i < CONTENDERS; ++i) {
            const run r = {.who = &all->contenders[i],
                           .what = what,
                           .size = sizes[size],
                           .batch = batch_of(sizes[size]),
                           .repeats = repeats_of(what, sizes[size])};
            if (!is_run(all, &r)) continue;
            const uint64_t faults = thread_faults();
            const double ns = run_round(&r, all, number);
            if (round < 0) continue;
            samples[i][round] = ns;
            if (number == 0 && i == 0) all->faults += thread_faults() - faults;
        }
    }
    for (int i = 0; number == 0 && i < CONTENDERS; ++i) {
        const run r = {.who = &all->contenders[i], .what = what, .batch = batch_of(sizes[size])};
        all->results[what][size][i] = is_run(all, &r) ? bench_median(samples[i], all->rounds) : -1;
    }
}

static void* work(void* argument) {
    const member* self = argument;
    crowd* all = self->all;
    for (int size = 0; size < SIZES; ++size) {
        for (int i = 0; i < CONTENDERS; ++i)
            if (all->contenders[i].enter != NULL)
                all->contenders[i].enter(all->contenders[i].of_thread[self->number]);
        for (int what = 0; what < KINDS; ++what)
            run_class(all, self->number, (kind)what, size);
        for (int i = 0; i < CONTENDERS; ++i)
            if (all->contenders[i].leave != NULL)
                all->contenders[i].leave(all->contenders[i].of_thread[self->number]);
    }
    return NULL;
}

static void run_crowd(crowd* all) {
    member members[MAX_THREADS];
    if (pthread_barrier_init(&all->barrier, NULL, (unsigned)all->threads) != 0)
        bench_fail_for("barrier", "no memory");
    for (int i = 0; i < all->threads; ++i) {
        members[i] = (member){.all = all, .number = i};
        if (pthread_create(&members[i].thread, NULL, work, &members[i]) != 0)
            bench_fail_for("thread", "cannot be started");
    }
    for (int i = 0; i < all->threads; ++i)
        (void)pthread_join(members[i].thread, NULL);
    (void)pthread_barrier_destroy(&all->barrier);
}

// ---- Report.

static void format_class(uint64_t size, int what, char* text, size_t room) {
    const char* unit = size >= 1 << 20 ? "MiB" : size >= 1 << 10 ? "KiB" : "B";
    const uint64_t count = size >= 1 << 20 ? size >> 20 : size >= 1 << 10 ? size >> 10 : size;
    (void)snprintf(text, room, "%" PRIu64 " %s%s", count, unit, kind_names[what]);
}

static void print_table(const crowd* all) {
    char title[32];
    (void)snprintf(title, sizeof title, "threads: %d", all->threads);
    printf("%-16s", title);
    for (int i = 0; i < CONTENDERS; ++i)
        printf(" %16s", all->contenders[i].name);
    for (int what = 0; what < KINDS; ++what) {
        for (int size = 0; size < SIZES; ++size) {
            if (all->results[what][size][0] < 0) continue;
            char name[32];
            format_class(sizes[size], what, name, sizeof name);
            printf("\n%-16s", name);
            for (int i = 0; i < CONTENDERS; ++i) {
                const double ns = all->results[what][size][i];
                if (ns < 0)
                    printf(" %16s", "-");
                else
                    printf(" %16.1f", ns);
            }
        }
    }
    printf("\npage faults of berth after warming up: %" PRIu64 "\n\n", all->faults);
}

static void write_rows(FILE* file, const crowd* all, const char** separator) {
    for (int what = 0; what < KINDS; ++what) {
        for (int size = 0; size < SIZES; ++size) {
            for (int i = 0; i < CONTENDERS; ++i) {
                if (all->results[what][size][i] < 0) continue;
                char name[32];
                format_class(sizes[size], what, name, sizeof name);
                fprintf(file,
                        "%s\n  {\"class\": \"%s\", \"threads\": %d, \"allocator\": \"%s\", "
                        "\"ns\": %.2f}",
                        *separator,
                        name,
                        all->threads,
                        all->contenders[i].name,
                        all->results[what][size][i]);
                *separator = ",";
            }
        }
    }
}

static int write_json(const char* path, const crowd* crowds, int rounds) {
    FILE* file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "bench-pool: cannot write %s\n", path);
        return 1;
    }
    uint64_t faults = 0;
    const char* separator = "";
    fprintf(file, "{\"rows\": [");
    for (int i = 0; i < THREAD_COUNTS; ++i) {
        write_rows(file, &crowds[i], &separator);
        faults += crowds[i].faults;
    }
    fprintf(file, "],\n \"berth_faults\": %" PRIu64 ", \"rounds\": %d}\n", faults, rounds);
    const bool is_written = ferror(file) == 0;
    if (fclose(file) == 0 && is_written) return 0;
    fprintf(stderr, "bench-pool: cannot write %s\n", path);
    return 1;
}

static bool parse(int count, char** arguments, const char** out_json, int* out_rounds) {
    for (int i = 1; i < count; i += 2) {
        if (i + 1 >= count) return false;
        if (strcmp(arguments[i], "--json") == 0)
            *out_json = arguments[i + 1];
        else if (strcmp(arguments[i], "--rounds") == 0)
            *out_rounds = (int)strtol(arguments[i + 1], NULL, 10);
        else
            return false;
    }
    return *out_rounds >= 1 && *out_rounds <= MAX_ROUNDS;
}

int main(int count, char** arguments) {
    bench_allocators_prepare(arguments);
    const char* json = NULL;
    int rounds = 11;
    if (!parse(count, arguments, &json, &rounds)) {
        fprintf(stderr, "usage: bench-pool [--json FILE] [--rounds 1..%d]\n", MAX_ROUNDS);
        return 2;
    }
    static contender contenders[CONTENDERS];
    static crowd crowds[THREAD_COUNTS];
    contenders_open(contenders);
    for (int i = 0; i < THREAD_COUNTS; ++i) {
        crowds[i].contenders = contenders;
        crowds[i].threads = thread_counts[i];
        crowds[i].rounds = rounds;
        run_crowd(&crowds[i]);
        print_table(&crowds[i]);
    }
    contenders_close(contenders);
    return json == NULL ? 0 : write_json(json, crowds, rounds);
}
