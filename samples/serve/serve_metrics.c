// SPDX-License-Identifier: Apache-2.0
// Keeping a server's numbers, and taking snapshots of them.
#include "serve_metrics.h"

#include "llm_clock.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECOND_NS = 1000000000 };

// ---- Histograms.

static const double seconds_bounds[] = {
    0.0001, 0.00016, 0.00025, 0.0004, 0.00063, 0.001, 0.0016, 0.0025, 0.004, 0.0063, 0.01,
    0.016,  0.025,   0.04,    0.063,  0.1,     0.16,  0.25,   0.4,    0.63,  1,      1.6,
    2.5,    4,       6.3,     10,     16,      25,    40,     63,     100,   250,    600};

static const double tokens_bounds[] = {
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

_Static_assert(sizeof seconds_bounds / sizeof *seconds_bounds < SERVE_BUCKETS, "one has no bound");
_Static_assert(sizeof tokens_bounds / sizeof *tokens_bounds < SERVE_BUCKETS, "one has no bound");

const double* serve_histogram_bounds(serve_unit unit, size_t* out_count) {
    *out_count = unit == SERVE_SECONDS ? sizeof seconds_bounds / sizeof *seconds_bounds
                                       : sizeof tokens_bounds / sizeof *tokens_bounds;
    return unit == SERVE_SECONDS ? seconds_bounds : tokens_bounds;
}

void serve_histogram_observe(serve_histogram* histogram, serve_unit unit, double value) {
    if (!isfinite(value) || value < 0.0) value = 0.0;
    size_t count;
    const double* bounds = serve_histogram_bounds(unit, &count);
    size_t at = 0;
    while (at < count && value > bounds[at])
        at++;
    histogram->counts[at]++;
    histogram->sum += value;
    if (value > histogram->largest) histogram->largest = value;
}

uint64_t serve_histogram_count(const serve_histogram* histogram) {
    uint64_t sum = 0;
    for (size_t i = 0; i < SERVE_BUCKETS; i++)
        sum += histogram->counts[i];
    return sum;
}

double serve_histogram_quantile(const serve_histogram* histogram, serve_unit unit, double share) {
    const uint64_t all = serve_histogram_count(histogram);
    if (all == 0) return 0.0;
    size_t count;
    const double* bounds = serve_histogram_bounds(unit, &count);
    const double rank = share * (double)all;
    double below = 0.0;
    for (size_t i = 0; i <= count; i++) {
        const double here = (double)histogram->counts[i];
        if (here > 0.0 && below + here >= rank) {
            const double low = i == 0 ? 0.0 : bounds[i - 1];
            const double high =
                i == count || histogram->largest < bounds[i] ? histogram->largest : bounds[i];
            return low + (high - low) * fmax(rank - below, 0.0) / here;
        }
        below += here;
    }
    return histogram->largest;
}

// ---- Rates.

static double per_second(uint64_t from, uint64_t to, uint64_t ns) {
    return to > from && ns > 0 ? (double)(to - from) * 1e9 / (double)ns : 0.0;
}

/// The oldest mark of the last ten seconds, or else the newest one; there is one.
static const serve_mark* base_of(const serve_rate* rate, uint64_t now_ns) {
    for (size_t age = rate->count; age > 1; age--) {
        const serve_mark* mark =
            &rate->marks[(rate->next + SERVE_RATE_SAMPLES - age) % SERVE_RATE_SAMPLES];
        if (now_ns - mark->time_ns <= 10 * (uint64_t)SECOND_NS) return mark;
    }
    return &rate->marks[(rate->next + SERVE_RATE_SAMPLES - 1) % SERVE_RATE_SAMPLES];
}

static void add_mark(serve_rate* rate, const serve_mark* mark) {
    rate->marks[rate->next] = *mark;
    rate->next = (rate->next + 1) % SERVE_RATE_SAMPLES;
    if (rate->count < SERVE_RATE_SAMPLES) rate->count++;
}

serve_speed serve_rate_note(serve_rate* rate, const serve_mark* now) {
    if (rate->count == 0) {
        add_mark(rate, now);
        return (serve_speed){0};
    }
    const serve_mark base = *base_of(rate, now->time_ns);
    const size_t last = (rate->next + SERVE_RATE_SAMPLES - 1) % SERVE_RATE_SAMPLES;
    if (now->time_ns - rate->marks[last].time_ns >= SECOND_NS) add_mark(rate, now);
    const uint64_t ns = now->time_ns - base.time_ns;
    return (serve_speed){per_second(base.prompt_tokens, now->prompt_tokens, ns),
                         per_second(base.answer_tokens, now->answer_tokens, ns)};
}

// ---- Requests that end.

static double seconds_between(uint64_t from, uint64_t to) {
    return to > from ? (double)(to - from) * 1e-9 : 0.0;
}

static bool is_answered(llm_end_reason reason) {
    return reason == LLM_END_LIMIT || reason == LLM_END_STOP_TOKEN || reason == LLM_END_CALLER;
}

#define OBSERVE(member, unit, value) serve_histogram_observe(&latencies->member, unit, value)

void serve_latencies_observe(serve_latencies* latencies, const llm_request_end* end) {
    if (end->admit_ns != 0)
        OBSERVE(queue, SERVE_SECONDS, seconds_between(end->submit_ns, end->admit_ns));
    if (end->first_token_ns != 0)
        OBSERVE(first_token, SERVE_SECONDS, seconds_between(end->submit_ns, end->first_token_ns));
    if (!is_answered(end->reason)) return;
    OBSERVE(whole, SERVE_SECONDS, seconds_between(end->submit_ns, end->end_ns));
    OBSERVE(prompt_tokens, SERVE_TOKENS, (double)end->prompt_tokens);
    OBSERVE(answer_tokens, SERVE_TOKENS, (double)end->answer_tokens);
    if (end->answer_tokens > 1)
        OBSERVE(each_token,
                SERVE_SECONDS,
                seconds_between(end->first_token_ns, end->end_ns) /
                    (double)(end->answer_tokens - 1));
}

// ---- Snapshots.

/// Memory of the process that the system has in memory; 0 if it does not say.
static uint64_t read_resident_bytes(void) {
    char text[128];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0) return 0;
    text[size] = '\0';
    const char* second = strchr(text, ' ');
    const long page_bytes = sysconf(_SC_PAGESIZE);
    if (second == NULL || page_bytes <= 0) return 0;
    return strtoull(second, NULL, 10) * (uint64_t)page_bytes;
}

static berth_status query_steps(berth_runtime* runtime, serve_snapshot* out) {
    const size_t count = berth_runtime_query_step_count(runtime);
    for (size_t i = 0; i < count; i++) {
        const char* name;
        berth_step_counters counters;
        const berth_status status = berth_runtime_query_step(runtime, i, &name, &counters);
        if (status != BERTH_OK) return status;
        if (strcmp(name, "prefill") == 0) out->prefill = counters;
        if (strcmp(name, "decode") == 0) out->decode = counters;
    }
    return BERTH_OK;
}

berth_status serve_snapshot_take(serve_snapshot* out,
                                 const llm_model* model,
                                 const llm_scheduler* scheduler,
                                 serve_latencies* latencies,
                                 const serve_budget* budget,
                                 llm_error* error) {
    *out = (serve_snapshot){.time_ns = llm_now_ns(), .budget = *budget};
    berth_runtime* runtime = berth_context_runtime(model->context);
    berth_status status = berth_runtime_query_memory(runtime, &out->memory);
    if (status == BERTH_OK) status = berth_runtime_query_health(runtime, &out->health);
    if (status == BERTH_OK) status = query_steps(runtime, out);
    if (status != BERTH_OK) {
        *out = (serve_snapshot){0};
        return llm_fail(error, status, "%s", berth_last_error());
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    out->unix_seconds = now.tv_sec;
    out->weight_bytes = model->weight_bytes;
    out->resident_bytes = read_resident_bytes();
    berth_kv_cache_query_stats(llm_scheduler_cache(scheduler), &out->kv);
    berth_kv_cache_layout(llm_scheduler_cache(scheduler), &out->layout);
    llm_scheduler_query_stats(scheduler, &out->scheduler);
    const serve_mark mark = {
        out->time_ns, out->scheduler.prompt_tokens, out->scheduler.decoded_tokens};
    out->speed = serve_rate_note(&latencies->rate, &mark);
    out->latencies = *latencies;
    return BERTH_OK;
}

// ---- The HTTP side.

static void add(atomic_uint_fast64_t* counter, uint64_t count) {
    atomic_fetch_add_explicit(counter, count, memory_order_relaxed);
}

static void subtract(atomic_uint_fast64_t* counter) {
    atomic_fetch_sub_explicit(counter, 1, memory_order_relaxed);
}

static serve_status_class class_of(unsigned status) {
    if (status == 0) return SERVE_STATUS_NONE;
    if (status < 400) return SERVE_STATUS_OK;
    return status < 500 ? SERVE_STATUS_CLIENT : SERVE_STATUS_SERVER;
}

void serve_counters_request(serve_counters* counters, serve_endpoint endpoint, unsigned status) {
    add(&counters->requests[endpoint][class_of(status)], 1);
}

void serve_counters_open(serve_counters* counters) {
    add(&counters->open, 1);
    add(&counters->opened, 1);
}

void serve_counters_close(serve_counters* counters) { subtract(&counters->open); }

void serve_counters_stream_begin(serve_counters* counters) { add(&counters->streams, 1); }

void serve_counters_stream_end(serve_counters* counters) { subtract(&counters->streams); }

void serve_counters_leave(serve_counters* counters) { add(&counters->left, 1); }

void serve_counters_receive(serve_counters* counters, size_t bytes) {
    add(&counters->received, bytes);
}

void serve_counters_send(serve_counters* counters, size_t bytes) { add(&counters->sent, bytes); }
