// SPDX-License-Identifier: Apache-2.0
// Endurance test of the memory layer: three threads, each with a pool and frames of its own, share
// a page store on the simulated device, then on the CPU, and so on in turns. They allocate,
// release, pin and unpin, hand blocks to each other, trim each other's pools, change their quotas
// and shares, compact and hear alarms, while calls of the device and of the host fail now and then.
// After every round each block is compared with what must be in it and the books are balanced;
// every eighth round everything is given back.
//
// The gate: neither the bytes of metadata nor resident memory may creep. Resident memory is looked
// at when all has been given back. Over the second half of these samples the least-squares line may
// rise by the larger of 2 MiB and 1 % from its begin to its end; fewer than 16 samples decide
// nothing. Sanitizers keep freed memory, so that under them only metadata is judged.
//
// usage: soak-pool [--count ROUNDS | --minutes N | --hours N] [--seed N] [--device sim|cpu|both]
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/cpu/cpu_device.h"
#include "device/sim/sim_device.h"
#include "pool_worker.h"

#define WORKERS 3u
#define OPS_A_ROUND 5000u // of all workers
#define SETTLE_ROUNDS 8u
#define SAMPLES 65536u
#define LEAST_SAMPLES 16u
#define CREEP_BYTES (UINT64_C(2) << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED true
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED false
#endif

typedef struct arguments {
    uint64_t count;
    uint64_t minutes;
    uint64_t hours;
    uint64_t seed;
    bool on_sim, on_cpu;
} arguments;

/// A device with its store and those who use it.
typedef struct soak {
    failing_host failing;
    berth_host* host;
    berth_device* device;
    berth_store* store;
    pool_workshop shop;
    pool_worker workers[WORKERS];
    uint64_t settles;
    uint64_t most_host_bytes;
} soak;

typedef struct samples {
    double mib[SAMPLES];
    size_t count;
} samples;

static void create(soak* s, bool is_sim, uint64_t seed) {
    failing_host_init(&s->failing);
    POOL_REQUIRE(berth_host_create(&s->failing.allocator, &s->host) == BERTH_OK);
    if (is_sim) {
        const berth_sim_options options = {.capacity_bytes = UINT64_C(16) << 20, .seed = seed | 1};
        POOL_REQUIRE(berth_sim_device_create(s->host, &options, &s->device) == BERTH_OK);
    } else {
        const berth_cpu_options options = {.threads = 1, .huge = BERTH_HUGE_MADVISE};
        POOL_REQUIRE(berth_cpu_device_create(s->host, &options, &s->device) == BERTH_OK);
    }
    POOL_REQUIRE(berth_store_create(s->host, s->device, UINT64_C(48) << 20, &s->store) == BERTH_OK);
    const uint64_t high = is_sim ? UINT64_C(14) << 20 : UINT64_C(40) << 20;
    berth_store_set_watermarks(s->store, high, high - high / 8);
    s->shop = (pool_workshop){.host = s->host,
                              .failing = &s->failing,
                              .device = s->device,
                              .store = s->store,
                              .largest_bytes = is_sim ? UINT64_C(1) << 20 : UINT64_C(4) << 20,
                              .is_sim = is_sim,
                              .may_fail = true,
                              .workers = s->workers,
                              .worker_count = WORKERS};
    for (uint32_t i = 0; i < WORKERS; i++)
        pool_worker_init(&s->workers[i], &s->shop, seed * WORKERS + i);
}

static void stop_faults(soak* s) {
    failing_host_fail(&s->failing, 0, false);
    if (s->shop.is_sim) berth_sim_fail_any(s->device, 0);
}

static void check_books(const soak* s) {
    berth_store_stats stats;
    berth_store_query_stats(s->store, &stats);
    uint64_t sum = 0;
    for (int owner = 0; owner < BERTH_OWNER_COUNT; owner++)
        sum += stats.mapped_by_owner[owner];
    POOL_REQUIRE(sum == stats.mapped_bytes);
    POOL_REQUIRE(stats.mapped_bytes + stats.reserved_bytes + stats.shares_bytes <=
                 stats.capacity_bytes); // M1, M5
    if (s->shop.is_sim) POOL_REQUIRE(stats.mapped_bytes == berth_sim_query_mapped_bytes(s->device));
    POOL_REQUIRE(!s->failing.mismatch);
}

static void run_worker(void* argument) { pool_worker_run(argument, OPS_A_ROUND / WORKERS); }

static void run_round(soak* s) {
    berth_thread threads[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++)
        POOL_REQUIRE(berth_thread_start(&threads[i], "soak", run_worker, &s->workers[i]) ==
                     BERTH_OK);
    for (uint32_t i = 0; i < WORKERS; i++)
        berth_thread_join(&threads[i]);
    stop_faults(s);
    for (uint32_t i = 0; i < WORKERS; i++)
        pool_worker_check(&s->workers[i]);
    check_books(s);
}

/// Everything back; metadata may grow at first only.
static void settle(soak* s) {
    for (uint32_t i = 0; i < WORKERS; i++)
        pool_worker_settle(&s->workers[i]);
    berth_store_stats stats;
    berth_store_query_stats(s->store, &stats);
    POOL_REQUIRE(stats.mapped_bytes == 0 && stats.reserved_bytes == 0);
    check_books(s);
    const uint64_t bytes = s->failing.live_bytes;
    const uint64_t most = s->most_host_bytes;
    POOL_REQUIRE(s->settles++ < 16 || bytes <= most + most / 4);
    if (bytes > most) s->most_host_bytes = bytes;
}

static void destroy(soak* s) {
    for (uint32_t i = 0; i < WORKERS; i++)
        pool_worker_fini(&s->workers[i]);
    berth_store_destroy(s->store);
    berth_device_destroy(s->device);
    berth_host_destroy(s->host);
    POOL_REQUIRE(s->failing.live_blocks == 0);
}

// ---- Resident memory.

static void sample_resident(samples* all) {
    FILE* file = fopen("/proc/self/statm", "r");
    unsigned long long size = 0, resident = 0;
    if (file == NULL) return;
    const bool is_read = fscanf(file, "%llu %llu", &size, &resident) == 2;
    fclose(file);
    if (is_read && all->count < SAMPLES) all->mib[all->count++] = (double)resident / 256;
}

/// By how much the line through the second half of the samples rises, in MiB.
static double rise_of(const samples* all, double* out_mean) {
    const size_t first = all->count / 2, n = all->count - first;
    double mean = 0, over = 0, under = 0;
    for (size_t i = 0; i < n; i++)
        mean += all->mib[first + i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        const double x = (double)i - (double)(n - 1) / 2;
        over += x * (all->mib[first + i] - mean);
        under += x * x;
    }
    *out_mean = mean;
    return over / under * (double)(n - 1);
}

/// False if resident memory creeps.
static bool judge(const samples* all) {
    if (all->count < LEAST_SAMPLES) return true;
    double mean = 0;
    const double rise = rise_of(all, &mean);
    const double floor = (double)CREEP_BYTES / (1 << 20);
    const double limit = mean / 100 > floor ? mean / 100 : floor;
    printf("soak-pool: resident memory %.1f MiB, rises by %.2f MiB over the second half (at most "
           "%.2f%s)\n",
           mean,
           rise,
           limit,
           IS_SANITIZED ? ", not judged under sanitizers" : "");
    return IS_SANITIZED || rise <= limit;
}

// ---- The program.

static bool parse(int count, char** words, arguments* out) {
    *out = (arguments){.seed = 1, .on_sim = true, .on_cpu = true};
    for (int i = 1; i < count; i += 2) {
        uint64_t* target = strcmp(words[i], "--count") == 0     ? &out->count
                           : strcmp(words[i], "--minutes") == 0 ? &out->minutes
                           : strcmp(words[i], "--hours") == 0   ? &out->hours
                           : strcmp(words[i], "--seed") == 0    ? &out->seed
                                                                : NULL;
        if (i + 1 == count) return false;
        if (strcmp(words[i], "--device") == 0) {
            out->on_sim = strcmp(words[i + 1], "cpu") != 0;
            out->on_cpu = strcmp(words[i + 1], "sim") != 0;
            continue;
        }
        char* end = NULL;
        if (target == NULL) return false;
        *target = strtoull(words[i + 1], &end, 10);
        if (end == words[i + 1] || *end != '\0') return false;
    }
    out->minutes += 60 * out->hours;
    if (out->count == 0 && out->minutes == 0) out->count = 200;
    return true;
}

static void report(const soak* s, const char* name, uint64_t rounds) {
    uint64_t ops = 0, refusals = 0, moves = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        ops += s->workers[i].ops;
        refusals += s->workers[i].refusals;
        moves += s->workers[i].moves;
    }
    printf("soak-pool: %s: %" PRIu64 " rounds, %" PRIu64 " operations, %" PRIu64
           " refusals, %" PRIu64 " moves, %" PRIu64 " alarms, metadata %" PRIu64 " bytes at most\n",
           name,
           rounds,
           ops,
           refusals,
           moves,
           s->shop.crossings,
           s->most_host_bytes);
}

int main(int count, char** words) {
    arguments given;
    if (!parse(count, words, &given)) {
        fprintf(stderr,
                "usage: soak-pool [--count ROUNDS | --minutes N | --hours N] [--seed N] "
                "[--device sim|cpu|both]\n");
        return 2;
    }
    static soak soaks[2];
    static samples resident;
    static const char* const names[2] = {"sim", "cpu"};
    const bool wanted[2] = {given.on_sim, given.on_cpu};
    uint64_t rounds[2] = {0, 0};
    POOL_REQUIRE(berth_log_configure("error") == BERTH_OK); // faults are expected
    for (int i = 0; i < 2; i++)
        if (wanted[i]) create(&soaks[i], i == 0, given.seed);
    const uint64_t begin_ns = berth_clock_now_ns();
    for (uint64_t round = 0;; round++) {
        const uint64_t minutes = (berth_clock_now_ns() - begin_ns) / UINT64_C(60000000000);
        if (given.count > 0 ? round >= given.count : minutes >= given.minutes) break;
        const int at = !wanted[0] || (wanted[1] && round % 2 != 0) ? 1 : 0;
        run_round(&soaks[at]);
        rounds[at]++;
        if (round % SETTLE_ROUNDS != SETTLE_ROUNDS - 1) continue;
        for (int i = 0; i < 2; i++)
            if (wanted[i]) settle(&soaks[i]);
        sample_resident(&resident);
    }
    for (int i = 0; i < 2; i++) {
        if (!wanted[i]) continue;
        settle(&soaks[i]);
        report(&soaks[i], names[i], rounds[i]);
        destroy(&soaks[i]);
    }
    return judge(&resident) ? 0 : 1;
}
