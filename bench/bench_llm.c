// SPDX-License-Identifier: Apache-2.0
// Speed of a language model: prompt and answer tokens a second, and the share of the machine's
// memory speed, measured between the rounds of the same run.
// usage: bench-llm [--model PATH | --random] [--threads N] [--rounds N] [--json FILE]
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu_kernels.h"
#include "gguf_random.h"
#include "kit/median.h"
#include "llm_clock.h"
#include "llm_random.h"
#include "session.h"

enum {
    PREFILL_TOKENS = 512,
    DECODE_TOKENS = 128,
    MOST_ROUNDS = 64,
    MOST_THREADS = 64,
    LIMIT_BYTES = 96 << 20, ///< for each thread: more than its share of any cache
};

/// Half of what llama.cpp does with the Q4_0 file of this geometry on two cores of the reference
/// machine: the least that is acceptable there.
static const double floor_prefill_tok_s = 383.0;
static const double floor_decode_tok_s = 80.0;

typedef struct options {
    const char* model_path; ///< NULL: random weights
    const char* json_path;
    int threads;
    int rounds;
} options;

/// Samples of one quantity, one a round.
typedef struct series {
    double values[MOST_ROUNDS];
    int count;
} series;

typedef struct results {
    series prefill_tok_s;
    series decode_tok_s;
    series copy_bytes_per_s;
    series read_bytes_per_s;
} results;

typedef struct bench {
    options options;
    void* random_file;
    llm_gguf* gguf;
    berth_runtime* runtime;
    berth_context* context;
    llm_model* model;
    llm_session* session;
    int32_t prompt[PREFILL_TOKENS];
    results results;
    llm_error error;
} bench;

static double median(const series* s) {
    double samples[MOST_ROUNDS];
    memcpy(samples, s->values, sizeof samples);
    return bench_median(samples, s->count);
}

static void add_sample(series* s, double value) { s->values[s->count++] = value; }

// The machine's limits: every thread copies, then reads, memory of its own.

typedef struct limit_worker {
    pthread_barrier_t* barrier;
    uint64_t* from;
    uint64_t* to; ///< NULL: read only
    uint64_t sum; ///< of what was read, so that it is read
    pthread_t thread;
} limit_worker;

static void* run_limit(void* user) {
    limit_worker* w = user;
    pthread_barrier_wait(w->barrier);
    if (w->to != NULL) {
        memcpy(w->to, w->from, LIMIT_BYTES);
    } else {
        // several independent sums, or the additions would be the limit
        uint64_t sums[16] = {0};
        for (size_t i = 0; i < LIMIT_BYTES / sizeof *w->from; i += 16)
            for (size_t j = 0; j < 16; j++)
                sums[j] += w->from[i + j];
        for (size_t j = 0; j < 16; j++)
            w->sum += sums[j];
    }
    pthread_barrier_wait(w->barrier);
    return NULL;
}

/// Bytes a second that all threads together copy (read and written bytes both count) or read.
static double measure_limit(limit_worker* workers, int count) {
    pthread_barrier_t barrier;
    if (pthread_barrier_init(&barrier, NULL, (unsigned)count + 1) != 0) return 0.0;
    int started = 0;
    for (; started < count; started++) {
        workers[started].barrier = &barrier;
        if (pthread_create(&workers[started].thread, NULL, run_limit, &workers[started]) != 0) {
            fprintf(stderr, "bench-llm: no thread for the memory limit\n");
            exit(1);
        }
    }
    pthread_barrier_wait(&barrier);
    uint64_t began = llm_now_ns();
    pthread_barrier_wait(&barrier);
    double ns = (double)(llm_now_ns() - began);
    for (int i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    double bytes = (double)LIMIT_BYTES * (workers[0].to != NULL ? 2.0 : 1.0);
    return bytes * (double)count * 1e9 / ns;
}

static void* alloc_touched(void) {
    void* memory = aligned_alloc(1 << 21, LIMIT_BYTES);
    if (memory == NULL) {
        fprintf(stderr, "bench-llm: no memory for the memory limit\n");
        exit(1);
    }
    memset(memory, 1, LIMIT_BYTES);
    return memory;
}

static void measure_limits(bench* b) {
    limit_worker workers[MOST_THREADS] = {{0}};
    void* targets[MOST_THREADS];
    int count = b->options.threads;
    for (int i = 0; i < count; i++) {
        workers[i].from = alloc_touched();
        targets[i] = alloc_touched();
        workers[i].to = targets[i];
    }
    add_sample(&b->results.copy_bytes_per_s, measure_limit(workers, count));
    for (int i = 0; i < count; i++)
        workers[i].to = NULL;
    add_sample(&b->results.read_bytes_per_s, measure_limit(workers, count));
    for (int i = 0; i < count; i++) {
        free(workers[i].from);
        free(targets[i]);
    }
}

// The model.

static berth_status open_file(bench* b) {
    if (b->options.model_path != NULL)
        return llm_gguf_open(b->options.model_path, true, &b->gguf, &b->error);
    llm_random_spec spec = llm_random_spec_smollm2(1);
    size_t size;
    berth_status status = llm_random_model(&spec, &b->random_file, &size, &b->error);
    if (status != BERTH_OK) return status;
    return llm_gguf_open_memory(b->random_file, size, &b->gguf, &b->error);
}

static berth_status open_runtime(bench* b) {
    char threads[16];
    snprintf(threads, sizeof threads, "%d", b->options.threads);
    berth_option_setting setting = {"threads", threads};
    berth_runtime_options runtime_options = {
        .struct_size = sizeof runtime_options, .settings = &setting, .setting_count = 1};
    berth_status status = berth_runtime_create(&runtime_options, &b->runtime);
    if (status == BERTH_OK) status = berth_context_create(b->runtime, &b->context);
    if (status != BERTH_OK) llm_fail(&b->error, status, "%s", berth_last_error());
    return status;
}

static berth_status open_bench(bench* b) {
    berth_status status = open_file(b);
    if (status == BERTH_OK) status = open_runtime(b);
    if (status == BERTH_OK) status = llm_model_create(b->context, b->gguf, &b->model, &b->error);
    llm_session_options session = {.kv_dtype = BERTH_F32};
    if (status == BERTH_OK) status = llm_session_create(b->model, &session, &b->session, &b->error);
    if (status != BERTH_OK) return status;
    uint64_t state = 1;
    for (int i = 0; i < PREFILL_TOKENS; i++)
        b->prompt[i] = (int32_t)(llm_random_next(&state) % (uint64_t)b->model->params.vocab_tokens);
    return BERTH_OK;
}

static void close_bench(bench* b) {
    llm_session_destroy(b->session);
    llm_model_destroy(b->model);
    berth_context_release(b->context);
    berth_runtime_release(b->runtime);
    llm_gguf_close(b->gguf);
    llm_gguf_writer_release(b->random_file);
}

/// Runs a prompt of `count` tokens from an empty cache; `*out_ns` is the time it took.
static berth_status run_prefill(bench* b, int64_t count, uint64_t* out_ns) {
    llm_session_reset(b->session);
    uint64_t began = llm_now_ns();
    berth_status status = llm_session_feed(b->session, b->prompt, count, &b->error);
    *out_ns = llm_now_ns() - began;
    return status;
}

/// Feeds tokens one by one from an empty cache.
static berth_status run_decode(bench* b, int64_t count, uint64_t* out_ns) {
    llm_session_reset(b->session);
    uint64_t began = llm_now_ns();
    berth_status status = BERTH_OK;
    for (int64_t i = 0; i < count && status == BERTH_OK; i++)
        status = llm_session_feed(b->session, b->prompt + i, 1, &b->error);
    *out_ns = llm_now_ns() - began;
    return status;
}

/// Lets caches fill and plans be made: four lengths, and a few tokens one by one.
static berth_status warm_up(bench* b) {
    static const int64_t lengths[] = {17, 100, 300, PREFILL_TOKENS};
    berth_status status = BERTH_OK;
    uint64_t ns;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && status == BERTH_OK; i++)
        status = run_prefill(b, lengths[i], &ns);
    if (status == BERTH_OK) status = run_decode(b, 16, &ns);
    return status;
}

static berth_status run_rounds(bench* b) {
    for (int i = 0; i < b->options.rounds; i++) {
        uint64_t ns;
        berth_status status = run_prefill(b, PREFILL_TOKENS, &ns);
        if (status != BERTH_OK) return status;
        add_sample(&b->results.prefill_tok_s, PREFILL_TOKENS * 1e9 / (double)ns);
        status = run_decode(b, DECODE_TOKENS, &ns);
        if (status != BERTH_OK) return status;
        add_sample(&b->results.decode_tok_s, DECODE_TOKENS * 1e9 / (double)ns);
        measure_limits(b);
    }
    return BERTH_OK;
}

// Output.

static const char* isa_name(void) {
    switch (berth_cpu_query_isa()) {
    case BERTH_CPU_ISA_PORTABLE:
        return "portable";
    case BERTH_CPU_ISA_AVX2:
        return "avx2";
    case BERTH_CPU_ISA_AVX512:
        return "avx512";
    }
    return "?";
}

static void print_results(const bench* b) {
    const results* r = &b->results;
    double prefill = median(&r->prefill_tok_s);
    double decode = median(&r->decode_tok_s);
    double decode_bytes = decode * (double)b->model->decode_weight_bytes;
    double copy = median(&r->copy_bytes_per_s);
    double read = median(&r->read_bytes_per_s);
    printf("%s, %d threads, %s, medians of %d\n",
           b->options.model_path != NULL ? b->options.model_path : "random weights",
           b->options.threads,
           isa_name(),
           b->options.rounds);
    printf("prefill %d tokens   %8.1f tokens/s (floor %.0f)\n",
           PREFILL_TOKENS,
           prefill,
           floor_prefill_tok_s);
    printf("decode %d tokens    %8.1f tokens/s (floor %.0f)\n",
           DECODE_TOKENS,
           decode,
           floor_decode_tok_s);
    printf("weights read        %8.2f GB/s in decode\n", decode_bytes * 1e-9);
    printf("reading limit       %8.2f GB/s, decode is at %.0f %%\n",
           read * 1e-9,
           100.0 * decode_bytes / read);
    printf("copying limit       %8.2f GB/s, read and written together\n", copy * 1e-9);
}

static bool write_json(const bench* b) {
    FILE* file = fopen(b->options.json_path, "w");
    if (file == NULL) return false;
    const results* r = &b->results;
    double decode = median(&r->decode_tok_s);
    fprintf(file,
            "{\"prefill_tok_s\":%.2f,\"decode_tok_s\":%.2f,\"decode_bytes_per_s\":%.0f,"
            "\"copy_bytes_per_s\":%.0f,\"read_bytes_per_s\":%.0f,\"threads\":%d,\"isa\":\"%s\","
            "\"rounds\":%d,\"floor_prefill_tok_s\":%.0f,\"floor_decode_tok_s\":%.0f}\n",
            median(&r->prefill_tok_s),
            decode,
            decode * (double)b->model->decode_weight_bytes,
            median(&r->copy_bytes_per_s),
            median(&r->read_bytes_per_s),
            b->options.threads,
            isa_name(),
            b->options.rounds,
            floor_prefill_tok_s,
            floor_decode_tok_s);
    return fclose(file) == 0;
}

static int usable_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int count = CPU_COUNT(&set);
    return count < MOST_THREADS ? count : MOST_THREADS;
}

/// Reads a whole number from 1 to `most` or ends the program.
static int read_count(const char* option, const char* text, int most) {
    char* end;
    long value = strtol(text, &end, 10);
    if (end != text && *end == '\0' && value >= 1 && value <= most) return (int)value;
    fprintf(
        stderr, "bench-llm: --%s %s: expected a whole number from 1 to %d\n", option, text, most);
    exit(2);
}

static options parse(int argc, char** argv) {
    static const struct option known[] = {{"model", required_argument, NULL, 'm'},
                                          {"random", no_argument, NULL, 'r'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"rounds", required_argument, NULL, 'n'},
                                          {"json", required_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    options o = {.threads = usable_cores(), .rounds = 5};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'm':
            o.model_path = optarg;
            break;
        case 'r':
            o.model_path = NULL;
            break;
        case 't':
            o.threads = read_count("threads", optarg, MOST_THREADS);
            break;
        case 'n':
            o.rounds = read_count("rounds", optarg, MOST_ROUNDS);
            break;
        case 'j':
            o.json_path = optarg;
            break;
        default:
            exit(2);
        }
    }
    return o;
}

int main(int argc, char** argv) {
    static bench b;
    b.options = parse(argc, argv);
    berth_status status = open_bench(&b);
    if (status == BERTH_OK) status = warm_up(&b);
    if (status == BERTH_OK) status = run_rounds(&b);
    if (status == BERTH_OK)
        print_results(&b);
    else
        fprintf(stderr, "bench-llm: %s\n", b.error.text);
    if (status == BERTH_OK && b.options.json_path != NULL && !write_json(&b)) {
        fprintf(stderr, "bench-llm: %s: %s\n", b.options.json_path, strerror(errno));
        status = BERTH_ERR_IO;
    }
    close_bench(&b);
    return status == BERTH_OK ? 0 : 1;
}
